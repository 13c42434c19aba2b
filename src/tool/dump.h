// tool/dump.h: what the files of the dumper share.
#ifndef TOOL_DUMP_H
#define TOOL_DUMP_H

#include <stdatomic.h>

#include "base/vec.h"
#include "hilo/buffers.h"
#include "hilo/dump.h"
#include "hilo/view.h"
#include "tool/regex.h"

// What the metadata says of a pass besides what the engine knows.
typedef struct StepNote {
  int64_t end_usec;
  const char *files;  // lines of it
} StepNote;

// The page of what fusion decided in a computation.
typedef struct DumpPage {
  const char *comp;
  HlPage *frames;
  VEC(uint64_t) refusals;  // hashes of the titles of what was not fused
} DumpPage;

// How many modules were begun, and how many dumped, by all the dumpers that share it.
typedef struct DumpCount {
  atomic_int begun, dumped;
} DumpCount;

struct HlDumper {
  HlCx *cx;  // that errors are reported to
  const HlFlags *flags;
  DumpCount own, *count;  // count: own, or the session's
  HlDumpAs as;
  HlArena *arena;
  Regex *module_re, *pass_re, *pipeline_re;
  bool only_changes;       // the pass expression is exactly ".*"
  bool to_stdout, wanted;  // some form is asked for
  bool as_text;
  const char *directory;
  int number;        // of the module begun
  bool on;           // for the module begun
  const char *name;  // its name, as it stands in file names
  int64_t timestamp, begun_usec;
  int step;               // dumps between passes so far
  int executions;         // of this module so far
  bool in_step;           // the file being written belongs to the newest step
  VEC(StepNote) notes;    // one a step
  VEC(DumpPage) fusions;  // dump_fusion.c
  HlBuf fusion_steps;     // of priority-fusion, and the module before it
  bool has_fusion_steps;  // their file is there
  const char *before_fusion, *device;  // device: gpu_device_info of the target; NULL: no GPU
  HlBuf last, history;    // of the delta form: the newest text, the history
  size_t n_history_put;   // bytes of it that are in its file
};

// A dumper of one of the modules that share the count.
HlDumper *dump_new(HlCx *cx, const HlFlags *flags, HlDumpAs as, DumpCount *count);
// Its module will not change any more: from now on it does without the count. Its context may change, too.
void dump_alone(HlDumper *d);
void dump_report_to(HlDumper *d, HlCx *cx);
// The target's description as it is dumped.
void dump_note_device(HlDumper *d, const char *target);
// Before and after each step: the module before priority-fusion is kept, the file of its steps is written.
bool dump_fusion_steps(HlDumper *d, const HlModule *m, const HlStep *step);
// hl_dumper_result of a module whose buffers are known; NULL: not yet.
bool dump_result(HlDumper *d, const HlModule *m, const char *suffix, const HlBuffers *buffers,
                 const HlTarget *target);

// What has a meaning in paths replaced.
char *dump_file_safe(HlArena *arena, const char *name);
const char *dump_file_name(const HlDumper *d, const char *suffix);
bool dump_put(HlDumper *d, const char *suffix, bool is_text, const char *bytes, size_t n);
bool dump_put_file(HlDumper *d, const char *file, bool is_text, const char *bytes, size_t n);

// What is said of the module beside its states; not to standard output.
bool dump_beside(HlDumper *d, const char *suffix, const HlBuf *text);

// dump_usage.c: the memory usage report as XLA's message, appended.
void dump_usage_message(const HlBuffers *buffers, HlBuf *out);

// dump_fusion.c: drops what was collected; writes a page for each computation.
void dump_fusions_begin(HlDumper *d);
bool dump_fusions_end(HlDumper *d);

#endif
