// hilo/cpu.h: programs for this machine's processor.
//
//   HlCompiled *compiled = hl_compile(cx, session, &program, NULL);          // hilo/session.h: platform "cpu"
//   HlCpuProgram *p = hl_cpu_new(cx, hl_compiled_module(compiled), NULL);
//   if (p && hl_cpu_run(cx, p, NULL, args, results)) ...
//   hl_cpu_unref(p);
//
// A program is a flat list of steps over memory whose layout is decided beforehand. It does not change: any number of threads
// may run one program at once, each with a context of its own.
#ifndef HILO_CPU_H
#define HILO_CPU_H

#include "hilo/buffers.h"
#include "hilo/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlCpuProgram HlCpuProgram;

// Threads that many programs share: who has many programs need not have as many times the threads. References are
// counted atomically; a program holds one. `threads`: as of HlCpuOptions. NULL after reporting a lack of memory.
typedef struct HlCpuThreads HlCpuThreads;
HlCpuThreads *hl_cpu_threads_new(HlCx *cx, int threads);
HlCpuThreads *hl_cpu_threads_ref(HlCpuThreads *threads);
void hl_cpu_threads_unref(HlCpuThreads *threads);    // NULL is fine

typedef struct HlCpuOptions {
  int threads;                 // that share the work of one step; 0: as many as this process may use
  HlCpuThreads *shared;        // these instead; NULL: the program has threads of its own
  // When oneDNN makes products of bf16 and of bytes: "auto" (NULL), on processors with AMX where libdnnl.so.3 is found; "on",
  // anywhere, and it is an error where it is not found; "off"; or the file of a library, "on" with that one.
  const char *onednn;
  bool no_emit;                // machine code is not made: all is computed by functions that are there
  HlElided elided;             // how a constant `{...}` is filled,
  uint64_t seed;               // and from which numbers
  bool perf_map;               // machine code is named in /tmp/perf-PID.map, where perf looks,
  bool gdb;                    // and told to GDB: "hilo:fusion.3 model.py:12", the first instruction that it computes
  bool keep_code;              // hl_cpu_print in full shows machine code
  const HlBuffers *buffers;    // of this module, with HlBuffersOptions.whole_bytes where it has elements below a byte; NULL: made
                               // here
  // What is told when the program has gone, say to let the module go; may be NULL.
  void (*let_go)(void *owner);
  void *owner;
} HlCpuOptions;

// Makes a program of a valid module, which must not change and live as long as the program. The module should be what a
// compiler's passes leave: it has a schedule, and copies stand where memory would be shared by values that live at one time.
// One without a schedule, or with sizes that are known only at run time, is run whole by the interpreter
// (HlCpuReport.interpreted_whole tells). A new reference; NULL after reporting. Options may be NULL.
HlCpuProgram *hl_cpu_new(HlCx *cx, const HlModule *m, const HlCpuOptions *options);
// References are counted atomically. NULL is fine for unref.
HlCpuProgram *hl_cpu_ref(HlCpuProgram *program);
void hl_cpu_unref(HlCpuProgram *program);
const HlModule *hl_cpu_module(const HlCpuProgram *program);

// Runs the program on every logical device, as hl_eval runs the module: the same arguments and results, options, checks,
// devices, infeeds and custom calls; `elided` is taken from HlCpuOptions. A trace sees what steps compute: not what is
// inside fusions, nor values that are only passed on. On failure false and all results NULL. hl_cx_cancel ends it.
bool hl_cpu_run(HlCx *cx, HlCpuProgram *program, const HlEvalOptions *options,
                const HlLiteral *const *const *args, HlLiteral **results);

// --- In the caller's memory ------------------------------------------------------------------------

// The arrays of all parameters, depth first, one parameter after the other; and those of the result. Tokens and opaque
// values count as well, without memory.
int hl_cpu_arguments(const HlCpuProgram *program);
const HlShape *hl_cpu_argument(const HlCpuProgram *program, int k);
int hl_cpu_results(const HlCpuProgram *program);
const HlShape *hl_cpu_result(const HlCpuProgram *program, int k);
// The argument whose memory the result may take (hl_cpu_execute); -1: none.
int hl_cpu_donor(const HlCpuProgram *program, int result);

// The same run without literals: arguments[d][k] and results[d][k] are the memory of an array of device d, dense in the layout of
// its shape (row-major without one), an element in hl_dtype_bytes bytes. Arguments are aligned to their elements, results
// to 64. A result may be given the memory of its donor; all others lie apart. Arguments that are not given away so are
// only read. A program with sizes that are known only at run time cannot be run like this (HL_UNSUPPORTED).
bool hl_cpu_execute(HlCx *cx, HlCpuProgram *program, const HlEvalOptions *options,
                    const void *const *const *arguments, void *const *const *results);

// --- What it is made of ------------------------------------------------------------------------------

// Steps of one kind.
typedef struct HlCpuSteps {
  const char *kind;            // of a kernel; "copy", "branch", "loop", "interpret"
  const char *op;              // "interpret": the op
  const char *why;             // "interpret": why nothing faster computes it
  int64_t n;                   // steps
  int64_t runs;                // how often they ran, and how long: of runs with `measure`
  double seconds;
} HlCpuSteps;

// One step.
typedef struct HlCpuStep {
  const char *kind;
  const HlInst *inst;          // that it computes, or whose branch it is
  int64_t runs;                // of runs with `measure`, on all devices
  double seconds;
  double flops, bytes;         // of one run: hl_cost_inst, what it calls counted
  int64_t unrecorded;          // runs that have no event (hl_cpu_record), and how long they took
  double unrecorded_seconds;
} HlCpuStep;

typedef struct HlCpuReport {
  const char *interpreted_whole;  // why the interpreter runs all of it; NULL: it does not
  int64_t n_steps;
  int64_t n_kernels;           // different ones
  HlCpuSteps *steps;
  int n;                       // kinds of them
  HlCpuStep *step;             // each of them, n_steps, in the order of the program
  int64_t lost_events;         // for want of memory
  int64_t arguments, results, aliased, temporaries, constants;  // bytes of a device
  int64_t code;                // bytes of machine code
} HlCpuReport;
// In the arena.
HlCpuReport hl_cpu_report(HlArena *arena, HlCpuProgram *program);
// From now on runs of the program count and time their steps, which costs a little.
void hl_cpu_measure(HlCpuProgram *program, bool measure);
// From now on runs also note when each step ran, and on which threads: of each step at most so many runs on each device, what
// is beyond is counted and timed. 0: no more. What was noted before is forgotten. With `measure`.
void hl_cpu_record(HlCpuProgram *program, int64_t most);
typedef struct HlCpuEvent {
  int64_t step;                // -1: a whole run
  int frame;                   // runs at one time have different ones
  int thread;                  // 0: the one that runs the program; others: of its pool
  int64_t chunks;              // of the step's work that another thread has done
  double start, seconds;       // start: as hl_now has it
} HlCpuEvent;
// What was noted of runs that have ended, each thread's in order (a whole run behind its steps). In the arena.
HlCpuEvent *hl_cpu_events(HlArena *arena, HlCpuProgram *program, int64_t *n);

// What this machine reaches on as many threads as the program has: multiply-adds of registers, and a copy in memory. Measured
// when it is asked for, in some tens of milliseconds.
typedef struct HlCpuPeaks {
  int threads;
  double f32, f64;             // flops a second
  double bytes;                // read and written a second
} HlCpuPeaks;
// False after reporting: there is no memory for it.
bool hl_cpu_peaks(HlCx *cx, const HlCpuProgram *program, HlCpuPeaks *out);

// The steps as text, one a line; in full: with what each kernel says of itself.
void hl_cpu_print(HlBuf *out, const HlCpuProgram *program, bool full);
// What the kernel of a step says of itself, lines; nothing where it has none.
void hl_cpu_print_step(HlBuf *out, const HlCpuProgram *program, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
