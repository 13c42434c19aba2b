// cpu/program/program.h: what a program is made of, for the files that make and run it.
//
//   lower.c       from module and buffers to steps
//   share.c       one kernel for all instructions of equal content
//   memory.c      what stands behind each allocation: constants, arguments, results, the frame
//   frame.c       the memory of one run on one device
//   result.c      memory of results that are literals
//   run.c         runs steps
//   interpret.c   a step by the interpreter
//   program.c     making, running on literals and in memory, devices
//   record.c      when each step ran, on which thread
//   peaks.c       what the machine reaches
//   report.c      what a program consists of
#ifndef HILO_CPU_PROGRAM_PROGRAM_H
#define HILO_CPU_PROGRAM_PROGRAM_H

#include <pthread.h>

#include "base/map.h"
#include "cpu/kernel/kernel.h"
#include "cpu/loop/loop.h"
#include "eval/step.h"
#include "hilo/cpu.h"

// Where a value stands: in an allocation of the buffer assignment.
typedef struct CpuPlace {
  int32_t allocation;
  int64_t offset;
} CpuPlace;

typedef enum CpuStepKind {
  STEP_KERNEL,     // places: the buffers of the kernel
  STEP_COPY,       // places: from, to; bytes
  STEP_INTERPRET,  // places: leaves of all operands, then of the result
  STEP_LOOP,       // places: leaves of the state; then on at `behind`. The steps that it stands for follow it
  STEP_JUMP,       // to target[0]
  STEP_UNLESS,     // places: a pred; to target[0] where it is false
  STEP_SWITCH      // places: a pred or s32, which picks a target; the last where there is none such
} CpuStepKind;

typedef struct CpuStep {
  CpuStepKind kind;
  bool keeps;          // INTERPRET: others may hold on to what it is given
  int32_t n_places;
  const CpuPlace *place;
  union {
    struct {
      const CpuKernel *kernel;
      int32_t held;    // KERNEL: the allocation of what it holds, where it does
    };
    int64_t bytes;
    struct {
      const int32_t *target;
      int32_t n_targets, n_ends;
      const int32_t *ends;  // UNLESS: allocations of what was held for the loop that ends there
    };
    struct {
      const CpuLoop *loop;
      int32_t behind, n_test, n_turn;  // n_test: of these steps, to the branch; n_turn: of a whole turn
    };
    const char *why;  // INTERPRET: why nothing faster computes it
  };
  const HlInst *inst;  // whose it is
  const HlInst *const *way;  // KERNEL: what it computes on the way to that, which goes nowhere
  int32_t n_way;
  const HlInst *const *line;  // KERNEL: the instructions whose leaves are the last of its places; NULL: `inst` alone
  int32_t n_line;
} CpuStep;

// What stands behind an allocation when the program runs.
typedef enum CpuMemoryKind {
  MEMORY_NONE,      // nobody looks at it
  MEMORY_CONSTANT,
  MEMORY_ARGUMENT,  // where the caller has it
  MEMORY_RESULT,    // where the caller wants it
  MEMORY_FRAME
} CpuMemoryKind;

typedef struct CpuMemory {
  CpuMemoryKind kind;
  int32_t leaf;     // of the arguments, or of the results
  int32_t donor;    // RESULT, FRAME: the argument with whose elements it begins; -1: none
  int64_t bytes;    // of that
  union {
    void *constant;
    int64_t offset;  // in the frame
  };
} CpuMemory;

// A leaf of the arguments or of the result.
typedef struct CpuLeaf {
  const HlShape *shape;
  int64_t bytes;
  bool row_major;
  int64_t stage;    // where it is laid out when literals come and go: in the frame's stage
  int32_t donor;    // of results
} CpuLeaf;

// A result that no allocation is made for alone: copied when all is done.
typedef struct CpuEnding {
  CpuPlace from;
  int32_t result;
} CpuEnding;

// How often a step ran, and how long.
typedef struct CpuTally {
  int64_t runs;
  double seconds;
} CpuTally;

typedef struct CpuRecorder CpuRecorder;
typedef struct CpuResults CpuResults;

// The memory of one run on one device.
typedef struct CpuFrame {
  struct CpuFrame *next;  // in the program's list
  int number;
  char *memory, *stage;   // of the steps; of literals that are laid out
  void **base;            // by allocation; behind them one for what has none
  void **buffer;          // of the step at work
  CpuTeam *team;
  CpuTally *tally;        // by step
  bool measures;          // this run fills it
  CpuRecorder *recorder;  // NULL: nothing is noted
} CpuFrame;

struct HlCpuProgram {
  int refs;
  HlArena *arena;
  const HlModule *m;
  void (*let_go)(void *owner);
  void *owner;
  HlEvalOptions constants;  // how elided ones are filled
  const char *whole;        // why the interpreter runs all of it, or NULL
  bool is_dynamic;          // there are sizes that are known only at run time
  bool needs_interp;        // some step or the number of devices asks for an interpreter
  CpuPool *pool;
  HlCpuThreads *shared;  // whose the pool is; NULL: the program's own
  struct EmitMemory *code;  // of its kernels; NULL: none is made
  CpuStep *step;
  int32_t n_steps;
  int64_t n_kernels;
  CpuMemory *memory;        // by allocation of the buffer assignment, and behind them one for each of `kept`
  int32_t n_memories;
  int64_t *kept;            // bytes that steps keep from run to run (CpuKernel.held)
  int32_t n_kept;
  CpuLeaf *argument, *result;
  int n_arguments, n_results;
  CpuEnding *ending;
  int n_endings;
  int max_buffers;
  int64_t frame_bytes, stage_bytes, constant_bytes;
  int64_t leaf_bytes;       // of all arguments and results
  CpuResults *results;      // NULL: they are small
  HlLiteral **held;         // constants
  int n_held;
  pthread_mutex_t lock;     // of what follows
  CpuFrame *frames;         // that nobody uses
  int n_frames;             // all
  bool measures;
  int64_t most_events;      // of a step on a frame
  CpuTally *tally;          // by step
};

// lower.c: steps and memory; where the module is none to be lowered, program->whole. False after reporting.
bool cpu_lower(HlCx *cx, HlCpuProgram *program, const HlCpuOptions *options);

// share.c: kernels by what they compute, while a program is made. NULL: none takes it, or an error, reported.
typedef struct CpuKernels {
  HlArena *scratch;
  Map known;
  int64_t n;
} CpuKernels;
const CpuKernel *cpu_kernel_of(CpuKernels *kernels, CpuMaker *maker, const HlInst *inst);

// memory.c: lists the arguments and results.
void cpu_list_leaves(HlCpuProgram *program);
// Finds out what stands behind the allocations. False after reporting.
bool cpu_place_memory(HlCx *cx, HlCpuProgram *program, const HlBuffers *buffers,
                      const CpuPlace *place_of);
bool cpu_is_row_major(const HlShape *shape);
// Moves the elements of an array in the layout of its shape to (`out`) or from `memory`; `dense` is row-major.
void cpu_carry(HlCx *cx, const HlShape *shape, void *memory, void *dense, bool out);

// frame.c: a frame from the program's list, or a new one; NULL: no memory.
CpuFrame *cpu_frame_take(HlCpuProgram *program);
void cpu_frame_give(HlCpuProgram *program, CpuFrame *frame);
void cpu_frames_free(HlCpuProgram *program);

// result.c: where large results of runs on literals lie: what callers have let go of is used again, after the program's end too
// as long as they hold some. NULL: no memory. `bytes`: what one run's large results take.
enum { CPU_LARGE_RESULT = 1 << 16 };
CpuResults *cpu_results_new(int64_t bytes);
void cpu_results_free(CpuResults *results);  // by the program; NULL is fine
CpuAlloc *cpu_results_alloc(CpuResults *results);
// A literal of the shape, whose elements nobody has set. A new reference; NULL after reporting.
HlLiteral *cpu_results_get(HlCx *cx, CpuResults *results, const HlShape *shape);

// record.c: events of a frame. NULL: no memory.
CpuRecorder *cpu_recorder_new(const HlCpuProgram *program, int64_t most);
void cpu_recorder_free(CpuRecorder *recorder);  // NULL is fine
// Around a step (n_steps: the whole run) on the thread of the run; `start` as hl_now has it.
void cpu_record_start(CpuRecorder *recorder, int64_t step, double start);
void cpu_record_end(CpuRecorder *recorder, int64_t step, double start, double seconds);
CpuWatch cpu_record_chunk;  // of the recorder
// What has no event, by step. The program is locked.
void cpu_count_unrecorded(const HlCpuProgram *program, HlCpuStep *step, int64_t *lost);

// A run on one device: the caller's memory by leaf.
typedef struct CpuRun {
  HlCx *cx;
  HlCpuProgram *program;
  CpuFrame *frame;
  Interp *in;  // NULL: no step needs it
  const HlEvalOptions *options;
  const void *const *argument;
  void *const *result;
} CpuRun;

// run.c: false after reporting.
bool cpu_run(const CpuRun *run);

// interpret.c: computes a step, its operands' and its result's arrays being in `buffer`.
bool cpu_interpret(Interp *in, const CpuStep *step, void *const *buffer);
// A value of the shape from its arrays in memory; `leaf` is moved on. A new reference.
HlLiteral *cpu_value(HlCx *cx, const HlShape *shape, const void *const **leaf);
// A tuple, to which the references to its elements go; NULL, and these are given back, where one of them is.
HlLiteral *cpu_tuple(HlCx *cx, HlLiteral **element, int n);

#endif
