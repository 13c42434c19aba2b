// hilo/dump.h: writes modules and the steps of pipelines to files, by XLA's flags and under XLA's
// names (tools.md 2, 3), and beside them what XLA does not have: an index, and history kept as changes.
#ifndef HILO_DUMP_H
#define HILO_DUMP_H

#include "hilo/flags.h"
#include "hilo/pass.h"
#include "hilo/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// How the states between passes are kept.
typedef enum HlDumpAs { HL_DUMP_FULL, HL_DUMP_DELTA } HlDumpAs;

typedef struct HlDumper HlDumper;

// How dumps print a module under these flags: as XLA's own text of a module that names no options, which hlo-opt prints, too.
// What is started is there an async-start, whereas hl_text_print follows what JAX shows (as_text) unless told otherwise.
HlTextOptions hl_dump_text_options(const HlFlags *flags, const HlModule *m);

// The dumps of one run of the program. The flags are borrowed. NULL after reporting a regular expression that cannot be
// read; without --xla_dump_to and forms a dumper that writes nothing.
HlDumper *hl_dumper_new(HlCx *cx, const HlFlags *flags, HlDumpAs as);
void hl_dumper_free(HlDumper *dumper);                     // NULL is fine
// Whether anything will be written for the module that was begun.
bool hl_dumper_is_on(const HlDumper *dumper);

// A module starts (it gets the next number); false after reporting that the directory cannot be made.
bool hl_dumper_begin(HlDumper *dumper, const HlModule *m);
// One state in every form asked for: "before_optimizations", "cpu_after_optimizations".
bool hl_dumper_module(HlDumper *dumper, const HlModule *m, const char *suffix);
// The last state: of a scheduled module the proto holds the buffer assignment, too, and its reports lie beside. `target`: for
// which buffers are assigned; NULL: a CPU.
bool hl_dumper_result(HlDumper *dumper, const HlModule *m, const char *suffix, const HlTarget *target);
// Any other file about the module: "cpu_after_optimizations-buffer-assignment.txt".
bool hl_dumper_text(HlDumper *dumper, const char *suffix, const char *bytes, size_t n);
// For HlEngineOptions.after, .stage, .rewrite and, where pages of fusions are wanted, .refused; with the dumper as user.
bool hl_dumper_step(void *dumper, const HlModule *m, const HlStep *step);
bool hl_dumper_stage(void *dumper, const HlModule *m, const char *pass, const char *stage);
void hl_dumper_rewrite(void *dumper, const char *pass, const char *rule, const HlInst *inst, const HlInst *with);
void hl_dumper_refused(void *dumper, const char *pass, const char *why, const HlInst *inst, const HlInst *with);
// For .fusion_step, where hl_dumper_wants_fusion_steps says so; the file is written after the pass.
bool hl_dumper_wants_fusion_steps(const HlDumper *dumper);
void hl_dumper_fusion_step(void *dumper, const HlFusionStep *step);

// One execution of the module that was begun.
typedef struct HlExecution {
  const HlModule *came, *ran;            // as it came, and as it was executed
  int devices, n_arguments;
  HlLiteral *const *const *arguments;    // [devices][n_arguments]
  HlLiteral *const *results;             // [devices]; NULL: the execution failed
  const char *platform;
} HlExecution;
// Its snapshots, where they are asked for: the module as it ran with arguments and result, a file for each device; the
// module as it came with the arguments of all devices.
bool hl_dumper_execution(HlDumper *dumper, const HlExecution *execution);
// The module is done: its line of the index (hilo-index.jsonl) and, if asked for, its metadata file. The engine is the one
// that ran over it, or NULL.
bool hl_dumper_end(HlDumper *dumper, const HlModule *m, const HlEngine *engine);

// --- History as changes -------------------------------------------------------------------------------

// A history holds the text of a first state and, for every step after it, the lines that went and came. From it every
// state is had again.
typedef struct HlHistory HlHistory;
HlHistory *hl_history_read(HlCx *cx, const char *path);  // NULL after reporting
HlHistory *hl_history_read_source(HlCx *cx, HlSource *source);
void hl_history_free(HlHistory *history);
int hl_history_steps(const HlHistory *history);
// "0003 simplification algsimp", and how many lines went and came.
const char *hl_history_name(const HlHistory *history, int step, int *gone, int *come);
// The text of the module after a step, appended.
void hl_history_state(const HlHistory *history, int step, HlBuf *out);
// Appends what a step adds to a history: `name`, then the changes from one text to the next.
void hl_history_write(HlBuf *out, const char *name, HlStr before, HlStr after);

#ifdef __cplusplus
}
#endif
#endif
