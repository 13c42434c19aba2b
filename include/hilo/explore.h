// hilo/explore.h: a module explored by commands, one a line: what XLA's interactive_graphviz does, for programs and terminals.
//
//   HlExplore *explore = hl_explore_new(cx, m, &(HlExploreOptions){.folder = "/tmp"});
//   hl_explore_run(explore, "info add.3", &out);
//   hl_explore_free(explore);
#ifndef HILO_EXPLORE_H
#define HILO_EXPLORE_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlExplore HlExplore;

typedef struct HlExploreOptions {
  const char *folder;          // where drawings and extracts go; NULL: TMPDIR, or /tmp
  const char *form;            // of drawings: "html" (NULL), "svg", "dot", "none"
  // Called with each file that was written as a drawing; NULL: nobody wants to see it.
  void (*show)(void *user, const char *path);
  // The command 'serve': starts a page that takes commands, too, and appends its address. False after reporting. NULL: there is
  // no such page.
  bool (*serve)(void *user, HlBuf *out);
  void *user;
} HlExploreOptions;

typedef enum HlExploreResult {
  HL_EXPLORE_DONE,
  HL_EXPLORE_WRONG,            // the line was not understood, or what it names is not there: the answer says so
  HL_EXPLORE_FAILED,           // reported in the context: a file that cannot be written
  HL_EXPLORE_QUIT
} HlExploreResult;

// The module is borrowed. Options may be NULL.
HlExplore *hl_explore_new(HlCx *cx, const HlModule *m, const HlExploreOptions *options);
void hl_explore_free(HlExplore *explore);            // NULL is fine
// Does what a line says, and appends the answer. Names match without regard to case, with or without %.
HlExploreResult hl_explore_run(HlExplore *explore, const char *line, HlBuf *out);
// What may stand in the place of the last word of the line: whole words, in the arena; *start is where that word begins. At
// most `most` of them.
const char **hl_explore_complete(const HlExplore *explore, HlArena *arena, const char *line, int most, size_t *start,
                                 int *n);

#ifdef __cplusplus
}
#endif
#endif
