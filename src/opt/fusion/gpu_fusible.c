// opt/fusion/gpu_fusible.c: what XLA's emitters for GPUs can put into one kernel.

#include <limits.h>

#include "opt/fusion/gpu_fusible.h"

#include "opt/ask/emitters.h"

// --- Reductions ---------------------------------------------------------------------------------

// Threads of a row reduction take these many elements each; short rows share a block.
enum { ROW_ELEMENTS = 16, ROW_THREADS = 1024, BLOCK_THREADS = 256 };

static GpuLaunch launch_of_rows(const HlTarget *t, const FoldedReduction *folded) {
  const int64_t kept = folded->dim[1], minor = folded->dim[2], warp = t->warp;
  int64_t along = warp * gpu_ceil_div(gpu_ceil_div(minor, ROW_ELEMENTS), warp), across = 1;
  if (along > ROW_THREADS)
    along = ROW_THREADS;
  if (minor < warp)
    along = minor;
  if (2 * along <= BLOCK_THREADS)
    across = kept * along <= BLOCK_THREADS ? kept : BLOCK_THREADS / along;
  return (GpuLaunch){gpu_ceil_div(kept, across), along * across};
}

// Columns that a thread takes: what it can read at a time, as long as no thread of the warp is left without.
static int64_t columns_of_thread(const HlTarget *t, int64_t columns, int bits) {
  const int64_t wide = bits < 32 ? 4 : 2;
  if (bits >= 64)
    return 1;
  for (int64_t n = wide; n > 1; n /= 2)
    if (columns % n == 0 && t->warp * n <= columns)
      return n;
  return 1;
}

static GpuLaunch launch_of_columns(const HlTarget *t, const FoldedReduction *folded, int bits) {
  const int64_t columns = folded->dim[2];
  const int64_t of_block = t->warp * columns_of_thread(t, columns, bits);
  return (GpuLaunch){folded->dim[0] * gpu_ceil_div(columns, of_block), t->warp * t->warp};
}

int gpu_least_bits(const HlInst *inst, const HlInst *except) {
  int least = INT_MAX;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (inst->operands[k] == except || !hl_shape_is_array(shape))
      continue;
    const int bits = shape->dtype == HL_PRED ? 8 : hl_dtype_info[shape->dtype].bits;
    least = bits < least ? bits : least;
  }
  return least;
}

GpuLaunch gpu_reduction_launch(const HlTarget *t, const HlInst *reduce, int bits) {
  const FoldedReduction folded = fold_reduction(reduce);
  return folded.of_rows ? launch_of_rows(t, &folded) : launch_of_columns(t, &folded, bits);
}

// --- Fusible ------------------------------------------------------------------------------------

static bool has_equal_width(const HlInst *bitcast) {
  const HlShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
  return hl_shape_is_array(from) && hl_shape_is_array(to) &&
         hl_dtype_info[from->dtype].bits == hl_dtype_info[to->dtype].bits;
}

bool gpu_is_loop_fusible(const HlTarget *t, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BITCAST: return has_equal_width(inst);
  case HL_OP_REDUCE_WINDOW: return true;
  case HL_OP_REDUCE: return !is_block_reduction(t, inst);
  case HL_OP_FUSION: return fusion_kind(inst) == HL_WORD_fusion_kind_LOOP;
  case HL_OP_RNG: return false;
  default:
    return hl_op_is((HlOp)inst->op, HL_T_REARRANGES) ||
           (inst->n_operands > 0 && fusion_is_elementwise(inst));
  }
}

bool gpu_is_loop_fusible_producer(const HlTarget *t, const HlInst *inst) {
  if (inst->op == HL_OP_IOTA || inst->op == HL_OP_CONSTANT)
    return true;
  if (inst->op == HL_OP_REDUCE)
    return hl_shape_is_array(inst->shape);
  return gpu_is_loop_fusible(t, inst);
}

bool gpu_is_input_fusible(const HlTarget *t, const HlInst *inst) {
  if (inst->op == HL_OP_FUSION)
    return fusion_kind(inst) == HL_WORD_fusion_kind_INPUT;
  return inst->op == HL_OP_SCATTER || is_block_reduction(t, inst);
}

static bool moves_minor_dimension(const HlInst *inst) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (inst->op == HL_OP_COPY)
    return from->rank > 1 && hl_shape_is_array(from) &&
           dim_in_memory(from, from->rank - 1) != dim_in_memory(to, to->rank - 1);
  if (inst->op != HL_OP_TRANSPOSE || to->rank < 2)
    return false;
  HlI64s dims = hl_dims(inst);
  return dims.at[dim_in_memory(to, to->rank - 1)] != dim_in_memory(from, from->rank - 1);
}

bool gpu_is_transposing(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return inst->n_operands > 0 && moves_minor_dimension(inst);
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (inner->n_operands > 0 && moves_minor_dimension(inner))
      return true;
  return false;
}

bool gpu_is_expensive(const HlInst *inst) {
  const HlDtype type = inst->shape->dtype;
  return !(emitters_of((HlOp)inst->op)->gpu_fast && (type == HL_F32 || type == HL_F16)) &&
         fusion_is_expensive(inst);
}

// Repeated numbers have no order that could be lost.
static bool is_repeated(const HlInst *inst) {
  while (inst->op != HL_OP_BROADCAST && inst->op != HL_OP_IOTA) {
    if (inst->n_operands != 1 || (inst->op != HL_OP_BITCAST && !fusion_is_elementwise(inst)))
      return false;
    inst = inst->operands[0];
  }
  return true;
}

static bool reads_apart(const HlInst *inst) {
  return inst->n_operands > 0 && moves_minor_dimension(inst) && !is_repeated(inst->operands[0]);
}

bool gpu_reads_apart(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return reads_apart(inst);
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (reads_apart(inner))
      return true;
  return false;
}

// --- Transposes by tiles ------------------------------------------------------------------------

// What a copy or transpose does to memory: the result's dimensions from major to minor, and which of the operand's each is.
// Those of size 1 are left out, and those that stay together are one.
typedef struct Moved {
  int rank, from[8];
  int64_t size[8];
} Moved;

// The k-th dimension of the result from the major end is the n-th of the operand.
static int place_in_operand(const HlInst *inst, int k) {
  const HlShape *from = inst->operands[0]->shape;
  const int64_t d = dim_in_memory(inst->shape, k);
  const int64_t of = inst->op == HL_OP_TRANSPOSE ? hl_dims(inst).at[d] : d;
  int n = 0;
  while (dim_in_memory(from, n) != of)
    n++;
  return n;
}

static bool only_ones_between(const HlShape *shape, int from, int to) {
  if (from > to)
    return false;
  for (int k = from; k < to; k++)
    if (shape->dim[dim_in_memory(shape, k)] != 1)
      return false;
  return true;
}

static bool moved_in_memory(const HlInst *inst, Moved *out) {
  *out = (Moved){0};
  int last = 0;
  for (int k = 0; k < inst->shape->rank; k++) {
    const int64_t size = inst->shape->dim[dim_in_memory(inst->shape, k)];
    const int place = place_in_operand(inst, k);
    if (size == 1)
      continue;
    if (out->rank > 0 && only_ones_between(inst->operands[0]->shape, last + 1, place)) {
      out->size[out->rank - 1] *= size;
    } else {
      if (out->rank == 8)
        return false;
      out->from[out->rank] = place;
      out->size[out->rank++] = size;
    }
    last = place;
  }
  return out->rank > 1;
}

// Which of the first n is most minor in the operand.
static int most_minor(const Moved *moved, int n) {
  int found = 0;
  for (int k = 1; k < n; k++)
    if (moved->from[k] > moved->from[found])
      found = k;
  return found;
}

enum { TILE_SIDE = 16, SHORT_TILE_SIDE = 8, LEAST_TILE = 64 * 128, MOST_MINOR_BYTES = 8 };

// The dimension before the minor one lies there in the operand, too: tiles may be some of it long. Else 1.
static int64_t size_beside_minor(const Moved *moved) {
  const int beside = moved->rank - 2;
  int place = 0;
  for (int k = 0; k < moved->rank; k++)
    place += moved->from[k] < moved->from[beside];
  return place == beside ? moved->size[beside] : 1;
}

enum { BANK_BITS = 32, BANKS = 32, LEAST_WORDS = 10 };

// A tile of packed elements: of the dimension that is read, of that beside the minor one, and of the minor one.
typedef struct Packed {
  int64_t read, beside, written;
} Packed;

// Elements of less than a bank's width are packed, where rows and columns of a tile are long enough.
static bool is_moved_packed(const HlInst *inst, const Moved *moved, int64_t read, int64_t written,
                            Packed *tile) {
  const int bits = hl_dtype_info[inst->shape->dtype].bits;
  if (inst->op != HL_OP_TRANSPOSE || bits >= BANK_BITS)
    return false;
  const int64_t pack = BANK_BITS / bits, side = BANKS * pack;
  tile->written = written < side ? written : side;
  tile->read = read < side ? read : side;
  const int64_t beside = size_beside_minor(moved), most = side / tile->read;
  tile->beside = beside < most ? beside : most;
  const int64_t rows = tile->written, columns = tile->read * tile->beside;
  return rows >= LEAST_WORDS * pack && columns >= LEAST_WORDS * pack && rows % pack == 0 &&
         columns % pack == 0 && written % rows % pack == 0;
}

// Whether tiles in shared memory are worth it: the dimensions that are read and that are written one after the other are long
// enough, or the minor one stays and is a few bytes.
static bool is_moved_by_tiles(const HlInst *inst) {
  Moved moved;
  Packed tile;
  if (!hl_shape_is_array(inst->shape) || !moved_in_memory(inst, &moved))
    return false;
  const int minor = moved.rank - 1, read = most_minor(&moved, moved.rank);
  if (read == minor) {
    const int64_t bytes = hl_dtype_bytes(inst->shape->dtype) * moved.size[minor];
    const int64_t a = moved.size[most_minor(&moved, minor)], b = moved.size[minor - 1];
    return bytes <= MOST_MINOR_BYTES && bytes * a >= TILE_SIDE && bytes * b >= TILE_SIDE;
  }
  const int64_t a = moved.size[read], b = moved.size[minor];
  return is_moved_packed(inst, &moved, a, b, &tile) || (a >= TILE_SIDE && b >= TILE_SIDE) ||
         (a >= SHORT_TILE_SIDE && b >= SHORT_TILE_SIDE && a * b >= LEAST_TILE);
}

// Blocks take squares of the dimensions that are read and that are written one after the other, or a tile of packed elements.
enum { TRANSPOSE_SIDE = 32, TRANSPOSE_THREADS = 128 };

static GpuLaunch launch_of_outer(const Moved *moved) {
  GpuLaunch launch = {1, TRANSPOSE_THREADS};
  const int minor = moved->rank - 1, read = most_minor(moved, minor);
  for (int k = 0; k < minor; k++)
    launch.blocks *= gpu_ceil_div(moved->size[k], k == read || k == minor - 1 ? TRANSPOSE_SIDE : 1);
  return launch;
}

GpuLaunch gpu_transpose_launch(const HlInst *inst) {
  Moved moved;
  GpuLaunch launch = {1, TRANSPOSE_THREADS};
  if (!moved_in_memory(inst, &moved))
    return launch;
  const int minor = moved.rank - 1, read = most_minor(&moved, moved.rank);
  Packed tile;
  if (read == minor)  // and stays so: a few bytes, part of each tile
    return launch_of_outer(&moved);
  if (!is_moved_packed(inst, &moved, moved.size[read], moved.size[minor], &tile))
    tile = (Packed){TRANSPOSE_SIDE, 1, TRANSPOSE_SIDE};
  for (int k = 0; k < moved.rank; k++)
    launch.blocks *= gpu_ceil_div(moved.size[k], k == minor       ? tile.written
                                                 : k == read      ? tile.read
                                                 : k == minor - 1 ? tile.beside
                                                                  : 1);
  return launch;
}

// --- Emitters -----------------------------------------------------------------------------------

// A concatenation is written out for each operand: beyond these it takes a loop.
enum { MAX_JOINED = 4 };

static GpuEmitter emitter_of_op(const HlTarget *t, const HlInst *inst) {
  if (is_block_reduction(t, inst))
    return GPU_REDUCTION;
  switch (inst->op) {
  case HL_OP_SCATTER: return GPU_SCATTER;
  case HL_OP_CONCATENATE: return inst->n_operands <= MAX_JOINED ? GPU_CONCATENATE : GPU_LOOP;
  case HL_OP_TRANSPOSE:
  case HL_OP_COPY: return is_moved_by_tiles(inst) ? GPU_TRANSPOSE : GPU_LOOP;
  default: return GPU_LOOP;
  }
}

static bool passes_hero_on(const HlInst *inst) {
  return inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CONSTANT &&
         (inst->op == HL_OP_BITCAST || (inst->op != HL_OP_FUSION && fusion_is_elementwise(inst)));
}

static bool has_one_operand(const HlInst *inst) {
  return passes_hero_on(inst) && inst->n_operands == 1;
}

static bool is_hero(GpuEmitter emitter) {
  return emitter == GPU_REDUCTION || emitter == GPU_TRANSPOSE || emitter == GPU_CONCATENATE;
}

// Behind a reduction only what reads nothing else.
static bool reaches_alone(const HlInst *result, const HlInst *hero) {
  while (result != hero && has_one_operand(result))
    result = result->operands[0];
  return result == hero;
}

enum { HERO_WALK = 64 };

// The op that decides how a result is computed: behind elementwise operations one reduction,
// transpose or concatenation, if there is just one.
static const HlInst *hero_of(const HlTarget *t, const HlInst *result) {
  const HlInst *seen[HERO_WALK], *hero = NULL;
  int n = 1;
  seen[0] = result;
  for (int k = 0; k < n; k++) {
    const HlInst *inst = seen[k];
    GpuEmitter emitter = emitter_of_op(t, inst);
    if (is_hero(emitter)) {
      if ((hero && hero != inst) || (emitter == GPU_REDUCTION && !reaches_alone(result, inst)))
        return result;
      hero = inst;
      continue;
    }
    for (uint32_t o = 0; passes_hero_on(inst) && o < inst->n_operands; o++) {
      bool is_new = true;
      for (int s = 0; is_new && s < n; s++)
        is_new = seen[s] != inst->operands[o];
      if (is_new && n == HERO_WALK)
        return result;
      if (is_new)
        seen[n++] = inst->operands[o];
    }
  }
  return hero ? hero : result;
}

// Ops that may be heroes; most loops have none, and need no walk. Whoever asks goes through all of the body next, which lies
// about in memory.
static bool has_heroes(const HlComp *body) {
  bool has = false;
  for (uint32_t id = 0; id < body->next_id; id++) {
    __builtin_prefetch(body->by_id[id]);
    const uint8_t op = body->op_by_id[id];
    has |=
        op == HL_OP_REDUCE || op == HL_OP_CONCATENATE || op == HL_OP_TRANSPOSE || op == HL_OP_COPY;
  }
  return has;
}

const HlInst *gpu_hero(const HlTarget *t, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION || fusion_is_custom(inst))
    return inst;
  const HlInst *root = fusion_body(inst)->root;
  const bool walk = has_heroes(root->comp);
  if (root->op != HL_OP_TUPLE)
    return walk ? hero_of(t, root) : root;
  const HlInst *hero = NULL;
  for (uint32_t k = 0; k < root->n_operands; k++) {
    const HlInst *next = walk ? hero_of(t, root->operands[k]) : root->operands[k];
    if (!hero || emitter_of_op(t, hero) == GPU_LOOP)
      hero = next;
  }
  return hero ? hero : root;
}

GpuEmitter gpu_emitter_by(const HlTarget *t, const HlInst *inst, const HlInst *hero) {
  return fusion_is_custom(inst) ? GPU_LIBRARY : emitter_of_op(t, hero);
}

GpuEmitter gpu_emitter(const HlTarget *t, const HlInst *inst) {
  return gpu_emitter_by(t, inst, gpu_hero(t, inst));
}

// By elementwise operations only, whatever else these read.
static bool reaches_result(const HlComp *body, const HlInst *param) {
  HlArena *arena = body->module->arena;
  HlMark mark = hl_arena_mark(arena);
  bool *reached = HL_ARRAY(arena, bool, body->next_id);
  reached[param->id] = true;
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    for (uint32_t k = 0; passes_hero_on(inst) && k < inst->n_operands; k++)
      reached[inst->id] |= reached[inst->operands[k]->id];
  const bool result = reached[body->root->id];
  hl_arena_release(arena, mark);
  return result;
}

static bool is_epilogue(const HlInst *producer, const HlInst *consumer) {
  if (consumer->op != HL_OP_FUSION)
    return passes_hero_on(consumer);
  const int k = fusion_operand_index(consumer, producer);
  const HlComp *body = fusion_body(consumer);
  return k >= 0 && body->root->op != HL_OP_TUPLE && reaches_result(body, body->params[k]);
}

static bool is_alone_behind(const HlInst *consumer) {
  if (consumer->op != HL_OP_FUSION)
    return has_one_operand(consumer);
  const HlInst *root = fusion_body(consumer)->root;
  while (has_one_operand(root))
    root = root->operands[0];
  return root->op == HL_OP_PARAMETER;
}

GpuEmitter gpu_emitter_of_both(const HlInst *producer, GpuEmitter of_producer,
                               const HlInst *consumer, GpuEmitter of_consumer) {
  if (of_consumer != GPU_LOOP)
    return of_consumer;
  const bool leads = is_hero(of_producer) && is_epilogue(producer, consumer) &&
                     (of_producer != GPU_REDUCTION || is_alone_behind(consumer));
  return leads ? of_producer : GPU_LOOP;
}

int gpu_kind(GpuEmitter emitter) {
  switch (emitter) {
  case GPU_LOOP: return HL_WORD_fusion_kind_LOOP;
  case GPU_LIBRARY: return HL_WORD_fusion_kind_CUSTOM;
  default: return HL_WORD_fusion_kind_INPUT;
  }
}

// --- Limits -------------------------------------------------------------------------------------

static bool has_windows(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return inst->op == HL_OP_REDUCE_WINDOW;
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (inner->op == HL_OP_REDUCE_WINDOW)
      return true;
  return false;
}

static bool reads_again(const HlInst *inst) {
  if (inst->op == HL_OP_GATHER)
    return hl_shape_elements(inst->shape) > hl_shape_elements(inst->operands[0]->shape);
  if (inst->op != HL_OP_REDUCE_WINDOW)
    return false;
  HlWindow window = hl_window(inst);
  for (int k = 0; k < window.n; k++)
    if (window.at[k].size > window.at[k].stride)
      return true;
  return false;
}

bool gpu_repeats_windows(const HlInst *producer, const HlInst *consumer) {
  if (!has_windows(producer))
    return false;
  if (consumer->op != HL_OP_FUSION)
    return reads_again(consumer);
  for (const HlInst *inner = fusion_body(consumer)->first; inner; inner = inner->next)
    if (reads_again(inner))
      return true;
  return false;
}

int gpu_n_results(const HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) ? inst->shape->rank : 1;
}

enum { MAX_ARGUMENTS = 96, TOO_MANY = 4 * MAX_ARGUMENTS, MAX_REDUCTIONS = 8 };

static GpuNeeds needs_of_op(const HlTarget *t, const HlInst *inst) {
  const int64_t warp = t->warp;
  if (!is_block_reduction(t, inst))
    return (GpuNeeds){0, emitter_of_op(t, inst) == GPU_TRANSPOSE
                             ? (warp + 1) * warp * hl_dtype_bytes(inst->shape->dtype)
                             : 0};
  FoldedReduction folded = fold_reduction(inst);
  GpuNeeds needs = {1, 0};
  for (uint32_t k = 0; k < inst->n_operands / 2; k++) {
    int64_t bytes = hl_dtype_bytes(inst->operands[k]->shape->dtype);
    needs.shared_bytes += folded.of_rows ? warp * bytes : warp * (4 * warp + 1) * bytes;
  }
  return needs;
}

GpuNeeds gpu_needs(const HlTarget *t, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return needs_of_op(t, inst);
  GpuNeeds needs = {0};
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next) {
    if (inner->op != HL_OP_REDUCE && inner->op != HL_OP_TRANSPOSE && inner->op != HL_OP_COPY)
      continue;
    GpuNeeds more = needs_of_op(t, inner);
    needs.reductions += more.reductions;
    needs.shared_bytes += more.shared_bytes;
  }
  return needs;
}

// Operands that only one of the two has.
static int n_own_operands(const HlInst *of, const HlInst *other) {
  int n = 0;
  for (uint32_t k = 0; k < of->n_operands; k++)
    n += of->operands[k] != other && fusion_operand_index(other, of->operands[k]) < 0;
  return n;
}

bool gpu_fits(const HlTarget *t, const HlInst *a, GpuNeeds of_a, const HlInst *b, GpuNeeds of_b,
              bool is_multi_output) {
  if (of_a.reductions + of_b.reductions > MAX_REDUCTIONS ||
      of_a.shared_bytes + of_b.shared_bytes > t->shared_per_block)
    return false;
  if (a->n_operands > TOO_MANY || b->n_operands > TOO_MANY)
    return false;
  int results = gpu_n_results(a) + (is_multi_output ? gpu_n_results(b) : 0);
  if ((int)a->n_operands + (int)b->n_operands + results - 1 <= MAX_ARGUMENTS)
    return true;
  int n = (int)b->n_operands - (fusion_operand_index(b, a) >= 0) + n_own_operands(a, b);
  return n + results <= MAX_ARGUMENTS || n <= (int)b->n_operands;
}

// --- Nested reductions --------------------------------------------------------------------------

enum { MANY_ELEMENTS = 16 };

bool gpu_reduces_many(const HlInst *inst) {
  if (inst->op == HL_OP_REDUCE) {
    int64_t out = hl_shape_is_array(inst->shape) ? hl_shape_elements(inst->shape) : 0;
    return out > 0 && hl_shape_elements(inst->operands[0]->shape) / out >= MANY_ELEMENTS;
  }
  if (inst->op != HL_OP_FUSION)
    return false;
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (inner->op == HL_OP_REDUCE && gpu_reduces_many(inner))
      return true;
  return false;
}

// --- Computations -------------------------------------------------------------------------------

bool gpu_fuses_in(const HlComp *comp) {
  if (!comp->first_call)
    return comp == comp->module->entry;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL))
      return false;
  return true;
}

void gpu_each_comp(HlPass *p, void (*visit)(HlPass *p, HlComp *comp)) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    if (gpu_fuses_in(comps[k]))
      visit(p, comps[k]);
}
