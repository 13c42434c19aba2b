// hilo/clean.h: makes a data set of programs: without metadata, with names that say nothing, each graph once.
//
// Of each module of each file a text goes into the output folder: metadata, frames and origins left out, constants whole, names
// by op and place. A module that computes what an earlier one does (hl_graph_hash, then hl_graph_equal) is left out. What became of each file
// stands in the folder's hilo-clean.jsonl, a line a module, written as the work goes on: so that a run that was ended goes
// on where it was, and a second run over the same files does nothing. Who runs over what came out gets the same again.
#ifndef HILO_CLEAN_H
#define HILO_CLEAN_H

#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlCleanState { HL_CLEAN_KEPT, HL_CLEAN_DUPLICATE, HL_CLEAN_NO_MODULE, HL_CLEAN_UNREADABLE } HlCleanState;
// What became of a module, or of a file that holds none.
typedef struct HlCleaned {
  HlCleanState state;
  const char *file;            // as it was named or found
  const char *module;          // its name there; "": none was read
  int index;                   // in the file
  const char *out;             // kept: what was written, in the output folder; duplicate: what it equals there
  const char *of;              // duplicate: the file of that
  const char *why;             // nothing was read; "" else
  uint64_t hash;               // hl_graph_hash
  int64_t instructions;
  int64_t elided;              // constants without their values: of these, equal graphs may differ
  bool is_old;                 // done by an earlier run
} HlCleaned;

typedef struct HlCleanOptions {
  const char *folder;          // that is written to; made where it is not there
  HlLoadOptions load;          // with .verify, what is not valid counts as unreadable
  bool keep_names, keep_metadata, keep_duplicates;
} HlCleanOptions;
typedef struct HlCleanCounts {
  int64_t files, modules, kept, duplicates, no_module, unreadable, old;  // old: modules and files done by earlier runs
} HlCleanCounts;
// Called for each, borrowed; with k of n files done.
typedef void HlCleanShow(void *user, const HlCleaned *one, int64_t k, int64_t n);
// Cleans files, and the modules under directories. False after reporting what ended it: a folder that cannot be written, a full
// disk; all that was done until then is kept. Files that cannot be read do not end it.
bool hl_clean(HlCx *cx, int n, const char *const *paths, const HlCleanOptions *options, HlCleanShow *show, void *user,
              HlCleanCounts *out);

// What it does to one module, text and duplicates apart: metadata, frames, origins and debug information are dropped; names of the module,
// its computations and instructions become their kinds and numbers, in the order in which they print.
void hl_clean_module(HlModule *m, bool keep_names, bool keep_metadata);

#ifdef __cplusplus
}
#endif
#endif
