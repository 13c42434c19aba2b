// cli/explore/editor.c: lines typed at a terminal. Editing, history and completion are libedit's, which is opened here and nowhere
// else, so that a command that reads no lines need not wait for it; without it lines are read as they come.
#include "cli/explore/editor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#if defined(HILO_HAS_LIBEDIT)
#include <histedit.h>
#endif

enum { MOST = 10000, MOST_SHOWN = 200, HISTORY = 1000 };

struct Editor {
  const char *prompt;
  EditorComplete *complete;
  void *user;
  char *history_path;  // NULL: none is kept
  char *line;          // the newest, or what getline grows
  size_t room;
#if defined(HILO_HAS_LIBEDIT)
  EditLine *el;  // NULL: there is no libedit
  History *history;
#endif
};

// Makes the folders and gives the file's path; NULL where there is no home.
static char *history_path(const char *name) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  HlBuf path = {0};
  if (state && *state == '/')
    hl_buf_printf(&path, "%s/hilo", state);
  else if (home && *home == '/')
    hl_buf_printf(&path, "%s/.local/state/hilo", home);
  else
    return NULL;
  for (char *s = path.at + 1; *s; s++)
    if (*s == '/') {
      *s = 0;
      mkdir(path.at, 0700);
      *s = '/';
    }
  mkdir(path.at, 0700);
  hl_buf_printf(&path, "/%s_history", name);
  char *made = base_strdup(path.at);
  hl_buf_free(&path);
  return made;
}

#if defined(HILO_HAS_LIBEDIT)
// What is used of libedit, found when the first line is read.
#define EDIT_FUNCTIONS(F)                                                                          \
  F(el_init)                                                                                       \
  F(el_end) F(el_set) F(el_get) F(el_gets) F(el_source) F(el_line) F(el_insertstr) F(history_init) \
      F(history_end) F(history) F(el_deletestr)
typedef struct EditLibrary {
#define F(name) __typeof__(&name) name;
  EDIT_FUNCTIONS(F)
#undef F
} EditLibrary;

static bool open_library(EditLibrary *out) {
  void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    library = dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);
  bool all = library != NULL;
#define F(name) all = all && (*(void **)(void *)&out->name = dlsym(library, #name)) != NULL;
  EDIT_FUNCTIONS(F)
#undef F
  return all;
}

// The library's calls give back no more of ours than the editor; it is the same in all of them.
static const EditLibrary *library(void) {
  static EditLibrary functions;  // the addresses of what was opened: constant from then on
  static bool tried, found;
  if (!tried)
    found = open_library(&functions);
  tried = true;
  return found ? &functions : NULL;
}

static Editor *editor_of(EditLine *el) {
  void *editor = NULL;
  library()->el_get(el, EL_CLIENTDATA, &editor);
  return editor;
}

static char *prompt(EditLine *el) {
  return (char *)(uintptr_t)editor_of(el)->prompt;
}

// How many bytes all of the words have in common.
static size_t common(const char **words, int n) {
  size_t same = strlen(words[0]);
  for (int k = 1; k < n; k++)
    for (size_t c = 0; c < same; c++)
      if (words[k][c] != words[0][c])
        same = c;
  return same;
}

static void show_words(const char **words, int n) {
  printf("\n");
  for (int k = 0; k < n && k < MOST_SHOWN; k++)
    printf("%s%s", words[k], (k + 1) % 6 == 0 || k + 1 == n ? "\n" : "  ");
  if (n > MOST_SHOWN)
    printf("... and %d more\n", n - MOST_SHOWN);
}

// The key for completion: adds what all that fit have in common, or shows them.
static unsigned char complete(EditLine *el, int key) {
  Editor *editor = editor_of(el);
  const LineInfo *info = library()->el_line(el);
  const size_t n_line = (size_t)(info->cursor - info->buffer);
  HlArena *arena = hl_arena_new();
  const char *line = hl_arena_strndup(arena, info->buffer, n_line), **words;
  size_t start;
  const int n = editor->complete(editor->user, arena, line, MOST, &start, &words);
  unsigned char result = CC_ERROR;
  const size_t typed = n_line - start, same = n > 0 ? common(words, n) : 0;
  if (n > 0 && (same > typed || n == 1)) {
    char *insert = hl_arena_printf(arena, "%.*s%s", (int)same, words[0], n == 1 ? " " : "");
    library()->el_deletestr(el, (int)typed);  // as it is spelt, whatever its case
    library()->el_insertstr(el, insert);
    result = CC_REFRESH;
  } else if (n > 1) {
    show_words(words, n);
    result = CC_REDISPLAY;
  }
  hl_arena_free(arena);
  return result;
}

static void begin(Editor *editor) {
  const EditLibrary *lib = library();
  HistEvent event;
  if (!lib || !(editor->el = lib->el_init("hilo", stdin, stdout, stderr)))
    return;
  editor->history = lib->history_init();
  lib->history(editor->history, &event, H_SETSIZE, HISTORY);
  lib->history(editor->history, &event, H_SETUNIQUE, 1);
  lib->el_set(editor->el, EL_CLIENTDATA, editor);
  lib->el_set(editor->el, EL_PROMPT, prompt);
  lib->el_set(editor->el, EL_EDITOR, "emacs");
  lib->el_set(editor->el, EL_HIST, lib->history, editor->history);
  lib->el_set(editor->el, EL_SIGNAL, 1);
  lib->el_set(editor->el, EL_ADDFN, "hilo-complete", "complete names", complete);
  lib->el_set(editor->el, EL_BIND, "^I", "hilo-complete", NULL);
  lib->el_set(editor->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
  lib->el_source(editor->el, NULL);
  if (editor->history_path)
    lib->history(editor->history, &event, H_LOAD, editor->history_path);
}

static void end(Editor *editor) {
  HistEvent event;
  if (!editor->el)
    return;
  if (editor->history_path)
    library()->history(editor->history, &event, H_SAVE, editor->history_path);
  library()->history_end(editor->history);
  library()->el_end(editor->el);
}

static const char *read_edited(Editor *editor) {
  int n = 0;
  HistEvent event;
  const char *line = library()->el_gets(editor->el, &n);
  if (!line || n <= 0)
    return NULL;
  if (line[strspn(line, " \t\r\n")])
    library()->history(editor->history, &event, H_ENTER, line);
  free(editor->line);
  editor->line = strndup(line, strcspn(line, "\r\n"));
  return editor->line;
}
#endif

Editor *editor_new(const char *name, const char *text, EditorComplete *how, void *user) {
  Editor *editor = base_alloc(sizeof *editor);
  editor->prompt = text;
  editor->complete = how;
  editor->user = user;
  editor->history_path = history_path(name);
#if defined(HILO_HAS_LIBEDIT)
  begin(editor);
#endif
  return editor;
}

void editor_free(Editor *editor) {
#if defined(HILO_HAS_LIBEDIT)
  end(editor);
#endif
  free(editor->line);
  base_free(editor->history_path);
  base_free(editor);
}

const char *editor_read(Editor *editor) {
  fflush(stdout);
#if defined(HILO_HAS_LIBEDIT)
  if (editor->el)
    return read_edited(editor);
#endif
  printf("%s", editor->prompt);
  fflush(stdout);
  if (getline(&editor->line, &editor->room, stdin) < 0)
    return NULL;
  editor->line[strcspn(editor->line, "\r\n")] = 0;
  return editor->line;
}
