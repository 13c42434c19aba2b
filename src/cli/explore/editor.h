// cli/explore/editor.h: lines typed at a terminal, with editing, history and completion where libedit is there.
#ifndef CLI_EDITOR_H
#define CLI_EDITOR_H

#include "hilo/base.h"

typedef struct Editor Editor;
// Words that may stand in the place of the last one of the line, which begins at *start: at most `most`, in the arena. How many.
typedef int EditorComplete(void *user, HlArena *arena, const char *line, int most, size_t *start, const char ***out);

// The history is kept by that name in XDG_STATE_HOME/hilo, by default ~/.local/state/hilo.
Editor *editor_new(const char *name, const char *prompt, EditorComplete *complete, void *user);
void editor_free(Editor *editor);
const char *editor_read(Editor *editor);  // without its newline, until the next; NULL: the end

#endif
