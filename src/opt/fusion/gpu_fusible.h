// opt/fusion/gpu_fusible.h: what XLA's emitters for GPUs can put into one kernel, and what such a kernel
// costs.
#ifndef HILO_OPT_GPU_FUSIBLE_H
#define HILO_OPT_GPU_FUSIBLE_H

#include "opt/ask/block_reductions.h"
#include "base/map.h"
#include "opt/fusion/fusion.h"

// The GPU that is asked: the target, or where these passes run for another device, the usual one.
static inline const HlTarget *gpu_target(const HlPass *p) {
  return hl_target_of_kind(p->target, HL_TARGET_GPU);
}

// --- Kinds of code (gpu_fusible.c) ----------------------------------------------------------------------

// The code that a kernel's results decide.
typedef enum GpuEmitter {
  GPU_LOOP,       // a thread an element
  GPU_REDUCTION,  // threads of a block work on one result together
  GPU_TRANSPOSE,  // tiles go through shared memory
  GPU_SCATTER,
  GPU_CONCATENATE,
  GPU_LIBRARY  // custom fusions
} GpuEmitter;
GpuEmitter gpu_emitter(const HlTarget *t, const HlInst *inst);
// Of the fusion that `producer` and `consumer` would become, which have these emitters by
// themselves.
GpuEmitter gpu_emitter_of_both(const HlInst *producer, GpuEmitter of_producer,
                               const HlInst *consumer, GpuEmitter of_consumer);
int gpu_kind(GpuEmitter emitter);
// The op that decides it; inside the body for a fusion. And the code, where it is known.
const HlInst *gpu_hero(const HlTarget *t, const HlInst *inst);
GpuEmitter gpu_emitter_by(const HlTarget *t, const HlInst *inst, const HlInst *hero);

// Blocks of threads, and threads of each.
typedef struct GpuLaunch {
  int64_t blocks, threads;
} GpuLaunch;
static inline int64_t gpu_ceil_div(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}
// How the kernel that is `inst` is started (gpu_launch.c), and those of reductions and transposes by blocks.
GpuLaunch gpu_launch(const HlTarget *t, const HlInst *inst, const HlInst *hero, GpuEmitter emitter);
// `bits`: of the narrowest elements that the kernel reads.
GpuLaunch gpu_reduction_launch(const HlTarget *t, const HlInst *reduce, int bits);
// Of the elements of what is read, but for one operand.
int gpu_least_bits(const HlInst *inst, const HlInst *except);
GpuLaunch gpu_transpose_launch(const HlInst *inst);

bool gpu_is_loop_fusible(const HlTarget *t, const HlInst *inst);
bool gpu_is_loop_fusible_producer(const HlTarget *t, const HlInst *inst);
// Its code starts from its inputs: block reductions, scatters and fusions of them.
bool gpu_is_input_fusible(const HlTarget *t, const HlInst *inst);
// Neighbouring results read elements that lie far apart.
bool gpu_is_transposing(const HlInst *inst);
// The same, but for what repeats numbers.
bool gpu_reads_apart(const HlInst *inst);
bool gpu_is_expensive(const HlInst *inst);
// Windows that are computed again for every window that reads them.
bool gpu_repeats_windows(const HlInst *producer, const HlInst *consumer);
// What blocks of threads need.
typedef struct GpuNeeds {
  int64_t reductions, shared_bytes;
} GpuNeeds;
GpuNeeds gpu_needs(const HlTarget *t, const HlInst *inst);
// Operands, results, reductions and shared memory stay within what a kernel may have.
bool gpu_fits(const HlTarget *t, const HlInst *a, GpuNeeds of_a, const HlInst *b, GpuNeeds of_b, bool is_multi_output);
// It reduces many elements to each of its results.
bool gpu_reduces_many(const HlInst *inst);
int gpu_n_results(const HlInst *inst);
// --- Kernels of Triton's for rows (triton_fusible.c)

// A fusion that is one; not a matrix product's.
bool gpu_is_triton(const HlInst *inst);
// Whatever tile of the consumer's result is computed takes a tile of everything that both compute.
bool gpu_tiles_join(const HlInst *producer, const HlInst *consumer);
// The fusion becomes one, configured like `like`, its tile too.
void gpu_set_triton(HlArena *scratch, HlInst *fusion, const HlInst *like);
// Each of these takes the tile that is best, where one fits.
typedef struct GpuTiles GpuTiles;
void gpu_set_best_tiles(HlPass *p, GpuTiles *tiles, HlInst *const *fusions, int n);
// --- Their tiles (triton_tiles.c)

// Quarters of a nanosecond, in which XLA counts: what takes about as long takes the same time.
typedef int64_t GpuTime;
// Elements of a tile that a block may hold in registers.
int64_t gpu_most_in_tile(const HlTarget *t);
typedef struct GpuTile {
  HlI64s size;
  int warps;  // of a block
  GpuTime time;
} GpuTile;
// The best tiles of kernels so far, in `arena`, where results are: the layers of a network have the same kernels, for which they
// are looked for once.
struct GpuTiles {
  HlArena *arena, *scratch;
  Map known;
  struct AskedTile *asked;  // of late
  uint32_t n_changes;
};
static inline GpuTiles gpu_no_tiles(HlArena *arena, HlArena *scratch) {
  return (GpuTiles){.arena = arena, .scratch = scratch, .known = {.arena = arena}};
}
// To be said when an instruction that was asked about, or what it reads, is another one now.
static inline void gpu_tiles_change(GpuTiles *tiles) {
  tiles->n_changes++;
}
// The tile of such a kernel's result that takes the least time; false: none fits. With a producer: of the kernel that both would
// be.
bool gpu_best_tile(const HlTarget *t, GpuTiles *tiles, const HlInst *producer, const HlInst *consumer, GpuTile *best);
// By tiles of this size; negative: they don't fit.
GpuTime gpu_tile_time(const HlTarget *t, HlArena *arena, const HlInst *fusion, HlI64s size);

// --- Several results (gpu_multi_output.c)

// Its result may be one of several of a kernel.
bool gpu_may_be_result(const HlTarget *t, const HlInst *inst);
// The threads that compute the one can compute the other as well.
bool gpu_share_threads(const HlTarget *t, const HlInst *a, const HlInst *b);

// The entry, or a body of control flow: what becomes kernels.
bool gpu_fuses_in(const HlComp *comp);
// Visits the computations in which there is fusing.
void gpu_each_comp(HlPass *p, void (*visit)(HlPass *p, HlComp *comp));

// The pass `fusion` for GPUs (gpu_fusion.c).
bool gpu_run_fusion(HlPass *p, bool may_duplicate);

// --- Cost (gpu_cost.c) ----------------------------------------------------------------------------


typedef struct GpuCost {
  GpuTime alone;  // as a kernel of its own
  int64_t flops;
  int64_t bytes_out;
  int64_t *bytes;     // by operand: what is read of it
  int64_t *size;      // by operand: its bytes
  float *reads;       // by operand: how often each element is read, on average
  double *emissions;  // by operand: how often the code of what computes it is written out
  double code;        // instructions of code
  GpuEmitter emitter;
  GpuNeeds needs;
  GpuLaunch launch;
  bool reduces_many, reads_apart;
  // Of a fusion: by operand, and behind them of the result, the set of the origins (gpu_cost.c).
  int n_words;
  uint64_t *origins;
  float *origin_reads;
} GpuCost;

// Between two kernels, and what memory moves in a microsecond.
static inline double gpu_launch_time(const HlTarget *t) {
  return t->launch * 1e6;
}
static inline double gpu_memory_speed(const HlTarget *t) {
  return t->memory_bandwidth / 1e6;
}
// What an array, or all of a tuple, takes in memory.
int64_t gpu_bytes(const HlShape *shape);
// Operations for an element of an elementwise operation; 0 for what only tells where to read.
int64_t gpu_work_an_element(const HlInst *inst);
GpuCost gpu_cost(const HlTarget *t, HlArena *arena, const HlInst *inst);
// Time that starting a kernel takes.
GpuTime gpu_time_to_launch(const HlTarget *t);
// What the time of a kernel is made of: `flops` operations; `total` bytes that are read of an array of `size`, or bytes that are
// written, where `used` is how much of what memory moves for them is asked for; and both at once.
GpuTime gpu_compute_time(const HlTarget *t, int64_t flops, GpuLaunch launch);
// So many operations that more of them surely take longer than a time.
double gpu_work_within(const HlTarget *t, GpuTime time, GpuLaunch launch);
GpuTime gpu_read_time(const HlTarget *t, int64_t size, int64_t total, double used, GpuLaunch launch);
GpuTime gpu_write_time(const HlTarget *t, int64_t n, double used);
GpuTime gpu_total_time(const HlTarget *t, GpuTime compute, GpuTime memory);
// Time of the kernel of a consumer with a producer inside, which may give the producer's result, too.
GpuTime gpu_time_fused(const HlTarget *t, const HlInst *producer, const GpuCost *of_producer, const HlInst *consumer,
                       const GpuCost *of_consumer, bool gives_both);
// Size of the code of both in one.
double gpu_code_fused(const HlInst *producer, const GpuCost *of_producer, const HlInst *consumer,
                      const GpuCost *of_consumer);
enum { GPU_MAX_CODE = 10000 };

#endif
