// hilo/session.h: compiles programs: one in any form goes in; the optimised module, its buffers and what happened on the
// way come out.
//
//   HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
//   HlCompiled *compiled = hl_compile(cx, session, &(HlProgram){.path = "f.mlir"}, NULL);
//   const HlModule *m = compiled ? hl_compiled_module(compiled) : NULL;   // else the reasons are in cx
//   ...
//   hl_compiled_unref(compiled);
//   hl_session_free(session);
//
// A session lives long: it has what many compilations share, and may be used by many threads at once, each with a
// context of its own. What was compiled does not change any more and may be read by many threads; it does not need the
// session, which may be freed before.
#ifndef HILO_SESSION_H
#define HILO_SESSION_H

#include "hilo/buffers.h"
#include "hilo/cpu.h"
#include "hilo/dump.h"
#include "hilo/eval.h"
#include "hilo/flags.h"
#include "hilo/pass.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Platforms -------------------------------------------------------------------------------------

// What a stage of a compiler shows of a module.
typedef enum HlShown { HL_SHOWN_HLO, HL_SHOWN_PAGE, HL_SHOWN_BUFFERS } HlShown;

// A point of a platform's compiler at which one may stop.
typedef struct HlStage {
  const char *name;            // hlo-opt's: "hlo-backend"
  HlShown shown;
  const char *later;           // passes and pipelines that come after it, as --xla_disable_hlo_passes takes them
  const char *missing;         // why it cannot be had here; NULL: it can
} HlStage;

// For whom programs are compiled. All that is known of platforms by their words stands in the rows of src/tool/platform.c.
typedef struct HlPlatform {
  const char *name;            // "cpu", "gpu", "reference": programs as they are; "transforms": passes alone
  const char *const *words;    // all its names, in XLA's tools too ("Host", "CUDA", ...), ended by NULL
  const char *pipeline;        // its compiler's passes; "": none
  const char *xla_pipeline;    // those of XLA's compiler for it, which stages are of
  const char *target;          // the device it compiles for, as hl_target_find has it; "": none in particular
  const char *before, *after;  // what its dumps of the first and the last state are called
  bool runs;                   // programs can be run on it:
  bool has_programs;           // what its compiler makes, as hl_compiled_program has it; else the interpreter does
  const HlStage *stages;       // in the order of the compiler
  int n_stages;
} HlPlatform;
const HlPlatform *hl_platforms(int *n);
const HlPlatform *hl_platform_find(const char *word);                                // NULL: no such platform
const HlStage *hl_stage_find(const HlPlatform *platform, const char *name);          // NULL: no such stage

// --- Sessions --------------------------------------------------------------------------------------

typedef struct HlSession HlSession;
typedef struct HlCompiled HlCompiled;

// All of it is copied.
typedef struct HlSessionOptions {
  const char *platform;        // a word of a platform; NULL: "reference", which has no passes of its own
  const HlTarget *target;      // instead of the platform's, and lives as long as the session; NULL: that
  const HlFlags *flags;        // which passes are left out, their fuel, dumps; NULL: none are given
  HlDumpAs dump_as;
} HlSessionOptions;

// NULL after reporting a platform that does not exist or a flag that makes no sense. Options may be NULL.
HlSession *hl_session_new(HlCx *cx, const HlSessionOptions *options);
void hl_session_free(HlSession *session);                                            // NULL is fine
const HlPlatform *hl_session_platform(const HlSession *session);
const HlFlags *hl_session_flags(const HlSession *session);
// A custom call that programs of this session may make, as hl_register_custom_call. May be called while others compile.
void hl_session_register(HlSession *session, const char *target, HlCustomCall *kernel, void *user);
// Tells a context of the session's custom calls: hl_compile has done so; for contexts that run what another compiled.
void hl_session_bind(HlSession *session, HlCx *cx);

// --- Compiling -------------------------------------------------------------------------------------

// One of `take`, `module`, `source` and `path` says where the program is.
typedef struct HlProgram {
  HlModule *take;              // given away, also when compiling fails
  const HlModule *module;      // copied
  HlSource *source;            // in whatever form hl_load_source reads
  const char *path;            // the same of a file
  HlLoadOptions load;          // how MLIR and jaxprs become modules
  const char *which;           // where there are several: its name or number; NULL: there must be one
} HlProgram;

typedef enum HlPhase { HL_PHASE_READ, HL_PHASE_PASSES, HL_PHASE_BUFFERS } HlPhase;
typedef struct HlProgress {
  HlPhase phase;
  const char *pipeline, *pass; // the pass that comes now, or "pipeline-end"; of HL_PHASE_PASSES
  int number, of;              // its place in the pipeline as written, from 1, and how many there are
} HlProgress;

typedef struct HlCompileOptions {
  // What is run
  const char *passes;          // a pipeline as hilo/pass.h has it, "" for none; NULL: the platform's
  const HlStage *stage;        // of the platform: what comes after it is left out; NULL: nothing is
  // Fuel, decisions, checks, listeners. What is NULL or not given here comes from the session.
  HlEngineOptions engine;
  bool verify;                 // the program first of all: hl_verify

  // Devices
  int64_t replicas, partitions;  // 0: what the module says
  const int64_t *devices;      // which device runs replica r, partition p: [r * partitions + p]; NULL: devices 0, 1, ...

  // The entry's interface
  bool default_layouts;        // for all parameters and the result, whatever was written: hl_default_entry_layout
  // Shapes with layouts, of any module, instead: n_params, where an entry may be NULL, and the result's; NULL: as they are
  const HlShape *const *param_layouts;
  int n_params;
  const HlShape *result_layout;
  HlI64s donated;              // parameters whose memory results may take, besides those the module names
  // Whether the propagation of shardings may shard what the program leaves open: 1 or 0 for each parameter (for each leaf of
  // the only one, where that is a tuple) and each leaf of the result, or one for all. Instead of what the module says
  // (XLA's allow_spmd_sharding_propagation_to_parameters and _to_output); n = 0: as it says.
  HlI64s spmd_to_parameters, spmd_to_output;

  // What is made
  bool no_buffers;             // no buffer assignment, which is usually made of every module that has a schedule
  bool no_dumps;
  const char *before, *after;  // names of the dumps of the first and the last state, "" for none; NULL: the platform's
  void (*progress)(void *user, const HlProgress *progress);  // may be NULL
  void *user;                  // of progress
} HlCompileOptions;

// Reads, runs the passes, assigns buffers, dumps. A new reference; NULL after reporting in `cx`. Options may be NULL.
// It is a try (hl_try): a lack of memory ends it, and so does hl_cx_cancel.
HlCompiled *hl_compile(HlCx *cx, HlSession *session, const HlProgram *program, const HlCompileOptions *options);
// What hl_compile hands to the engine, for tools that run one themselves (hl_check_each); lists are
// made in the arena. And the pipeline it runs.
HlEngineOptions hl_session_engine(const HlSession *session, const HlCompileOptions *options, HlArena *arena);
const char *hl_session_pipeline(const HlSession *session, const HlCompileOptions *options);

// --- What was compiled -----------------------------------------------------------------------------

// References are counted atomically. NULL is fine for unref.
HlCompiled *hl_compiled_ref(HlCompiled *compiled);
void hl_compiled_unref(HlCompiled *compiled);

// All borrowed, and unchanging.
const HlModule *hl_compiled_module(const HlCompiled *compiled);
// Its steps, rewrites and where an instruction came from: hl_engine_steps and so on.
const HlEngine *hl_compiled_engine(const HlCompiled *compiled);
// NULL: none was made; the module has no schedule, or no_buffers.
const HlBuffers *hl_compiled_buffers(const HlCompiled *compiled);

// A program of a platform that has them (HlPlatform.has_programs), hl_cpu_new with the compilation's buffers: `buffers`, `let_go`
// and `owner` of the options are not asked. It keeps the compilation. A new reference; NULL after reporting.
HlCpuProgram *hl_compiled_program(HlCx *cx, HlCompiled *compiled, const HlCpuOptions *options);

// On which devices it runs: replicas * partitions ids as HlCompileOptions.devices has them.
typedef struct HlDevices {
  int64_t replicas, partitions;
  const int64_t *id;
} HlDevices;
HlDevices hl_compiled_devices(const HlCompiled *compiled);

typedef struct HlReport {
  double read_s, passes_s, buffers_s;  // seconds
  int64_t before, after;       // instructions
  int64_t rewrites;
  int passes, changed;         // that ran; of these changed something
  // Bytes of a device, 0 without a buffer assignment. Results that lie in the memory of parameters count as both.
  int64_t arguments, results, aliased, temporaries, constants;
} HlReport;
HlReport hl_compiled_report(const HlCompiled *compiled);

// Snapshots of one execution, where the session's flags ask for them (hl_dumper_execution). False after reporting.
bool hl_compiled_dump_execution(HlCx *cx, HlCompiled *compiled, const HlExecution *execution);

#ifdef __cplusplus
}
#endif
#endif
