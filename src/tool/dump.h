// tool/dump.h: what the files of the dumper share.
#ifndef TOOL_DUMP_H
#define TOOL_DUMP_H

#include "hilo/buffers.h"
#include "hilo/dump.h"
#include "tool/regex.h"

// What the metadata says of a pass besides what the engine knows.
typedef struct StepNote {
  int64_t end_usec;
  const char *files;  // lines of it
} StepNote;

struct HlDumper {
  HlCx *cx;
  const HlFlags *flags;
  HlDumpAs as;
  HlArena *arena;
  Regex *module_re, *pass_re, *pipeline_re;
  bool only_changes;       // the pass expression is exactly ".*"
  bool to_stdout, wanted;  // some form is asked for
  bool as_text;
  const char *directory;
  int number;        // of the module begun; -1: none yet
  int dumped;        // modules written so far, this one too
  bool on;           // for the module begun
  const char *name;  // its name, as it stands in file names
  int64_t timestamp, begun_usec;
  int step;              // dumps between passes so far
  int executions;        // of this module so far
  bool in_step;          // the file being written belongs to the newest step
  HlBuf notes;           // of StepNote, one a step
  HlBuf fusions;         // of the pages of fusions: dump_fusion.c
  HlBuf last, history;   // of the delta form: the newest text, the history
  size_t n_history_put;  // bytes of it that are in its file
};

// What has a meaning in paths replaced.
char *dump_file_safe(HlArena *arena, const char *name);
const char *dump_file_name(const HlDumper *d, const char *suffix);
bool dump_put(HlDumper *d, const char *suffix, bool is_text, const char *bytes, size_t n);
bool dump_put_file(HlDumper *d, const char *file, bool is_text, const char *bytes, size_t n);

// dump_usage.c: the memory usage report as XLA's message, appended.
void dump_usage_message(const HlBuffers *buffers, HlBuf *out);

// dump_fusion.c: drops what was collected; writes a page for each computation.
void dump_fusions_begin(HlDumper *d);
bool dump_fusions_end(HlDumper *d);

#endif
