// opt/gpu/triton_softmax_rewriter.c
//
// triton-softmax-rewriter: for GPUs: rows of which each element is combined with a sum or extremum
// of its row become one kernel, which has a row in its registers and so reads it once.
//
//   m = f32[64] reduce(x), dimensions={1}            f = f32[64,512] fusion(x), kind=kCustom, calls={
//   b = f32[64,512] broadcast(m), dimensions={0} =>    m = reduce(x), b = broadcast(m),
//   s = f32[64,512] subtract(x, b)                     ROOT s = subtract(x, b) }, "kind":"__triton"
//
// On the three ways, from x to the reduction, from there to s and from x to s, there may be
// operations of one operand, or with a constant or a broadcast parameter as the other one, and
// bitcasts. A softmax has two such diamonds, of the maximum and of the sum; each becomes a kernel.
//
// A kernel's block has the rows with the same numbers of every array. This holds
// where all arrays are row-major, the reduction is along the last dimension, what is broadcast goes
// along all the other ones (but those of size 1), and bitcasts leave the last dimension as it is (those of what was
// reduced: anything). A row, its length rounded up to a power of two, must fit into a block's registers. The result may still
// be cut along its rows, if computing what is said of a row again takes less time than waiting for it.
//
// It pays if one kernel is not slower than two that each read x: so it does not where there are
// fewer rows than the machine has processors and the rows are long.

#include "base/vec.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

// The way up from each instruction, through those that may simply join, ends here.
typedef struct Ways {
  HlInst **top;  // by id
  uint32_t n;
} Ways;

typedef struct Diamond {
  HlInst *root, *broadcast, *reduce, *producer;
} Diamond;

// --- Ways up --------------------------------------------------------------------------------------

static bool is_same_type_bitcast(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST && hl_shape_is_array(inst->operands[0]->shape) &&
         inst->shape->dtype == inst->operands[0]->shape->dtype &&
         triton_is_plain(inst->operands[0]);
}

// The operand through which the way goes on.
static HlInst *next_up(const HlInst *inst) {
  return inst->operands[inst->n_operands > 1 && triton_is_splat(inst->operands[0])];
}

// It needs no more data than one operand, and nobody else needs what it computes.
static bool may_join(const HlInst *inst) {
  if (inst->n_operands < 1 || inst->n_operands > 2 || !hl_one_user(inst) || hl_has_control(inst) ||
      !triton_is_plain(inst))
    return false;
  if (inst->op == HL_OP_BITCAST)
    return is_same_type_bitcast(inst) && triton_has_type(inst);
  if (!triton_is_elementwise(inst))
    return false;
  return inst->n_operands == 1 || inst->operands[0] == inst->operands[1] ||
         triton_is_splat(inst->operands[0]) != triton_is_splat(inst->operands[1]);
}

static HlInst *top_of(const Ways *ways, HlInst *inst) {
  return inst->id < ways->n && ways->top[inst->id] ? ways->top[inst->id] : inst;
}

// No bitcast on the way changes how long a row is.
static bool keeps_rows(const HlInst *from, const HlInst *top, int64_t length) {
  for (const HlInst *inst = from; inst != top; inst = next_up(inst)) {
    const HlShape *shape = inst->shape;
    if (shape->rank == 0 || shape->dim[shape->rank - 1] != length)
      return false;
  }
  return top->shape->rank > 0 && top->shape->dim[top->shape->rank - 1] == length;
}

// --- Diamonds -------------------------------------------------------------------------------------

// A number for each row: all dimensions but the last and those of size 1 are the operand's, in order.
static bool goes_along_rows(const HlInst *broadcast) {
  const HlI64s dims = hl_dims(broadcast);
  const HlShape *shape = broadcast->shape;
  int n = 0;
  for (int k = 0; k + 1 < shape->rank; k++)
    if (n < dims.n && dims.at[n] == k)
      n++;
    else if (shape->dim[k] != 1)
      return false;
  return shape->rank > 0 && n == dims.n;
}

static bool is_good(const HlInst *inst) {
  return !hl_has_control(inst) && triton_is_plain(inst) && triton_has_type(inst);
}

static bool find_diamond(const Ways *ways, HlInst *root, Diamond *out) {
  if (root->n_operands != 2 || !triton_is_elementwise(root) || !is_good(root))
    return false;
  HlInst *broadcast = top_of(ways, root->operands[1]);
  if (broadcast->op != HL_OP_BROADCAST || !is_good(broadcast) || !hl_one_user(broadcast) ||
      !goes_along_rows(broadcast))
    return false;
  HlInst *reduce = top_of(ways, broadcast->operands[0]);
  if (!triton_is_row_reduction(reduce) || !is_good(reduce) || !hl_one_user(reduce))
    return false;
  HlInst *producer = top_of(ways, reduce->operands[0]);
  if (top_of(ways, root->operands[0]) != producer || !triton_is_plain(producer) ||
      !triton_has_type(producer))
    return false;
  const int64_t length =
      producer->shape->rank > 0 ? producer->shape->dim[producer->shape->rank - 1] : 0;
  *out = (Diamond){root, broadcast, reduce, producer};
  return length > 0 && keeps_rows(root->operands[0], producer, length) &&
         keeps_rows(reduce->operands[0], producer, length) &&
         keeps_rows(root->operands[1], broadcast, length);
}

// --- Whether it pays ------------------------------------------------------------------------------

// Elements of a row in registers.
static int64_t row_of(const Diamond *d) {
  const HlShape *shape = d->root->shape;
  int64_t row = 1;
  while (row < shape->dim[shape->rank - 1])
    row *= 2;
  return row;
}

static bool pays(const HlTarget *t, const Diamond *d) {
  const double cores = (double)t->cores, speed = gpu_memory_speed(t);
  const double rows = (double)hl_shape_elements(d->reduce->shape);
  const double read = triton_bytes(d->producer->shape), written = triton_bytes(d->root->shape);
  const double busy = rows < cores ? rows / cores : 1;
  const double as_one = gpu_launch_time(t) + (read + written) / speed / busy;
  const double as_two = 2 * gpu_launch_time(t) + (2 * read + written) / speed;
  return rows > 0 && as_one <= as_two;
}

// --- Fusions --------------------------------------------------------------------------------------

// What lies between `from`, which the fusion reads, and `top`.
static void take_way(HlPass *p, HlInst *fusion, HlInst *from, const HlInst *top) {
  while (from != top) {
    HlInst *next = next_up(from);
    triton_take(p, fusion, from);
    from = next;
  }
}

// Numbers, and what repeats them or a parameter, are computed inside.
static HlInst *next_small(const HlInst *fusion, const HlInst *producer) {
  for (uint32_t k = 0; k < fusion->n_operands; k++) {
    HlInst *inst = fusion->operands[k];
    const bool is_number = hl_shape_is_scalar(inst->shape) &&
                           (inst->op == HL_OP_CONSTANT ||
                            (inst->op == HL_OP_CONVERT && inst->operands[0]->op == HL_OP_CONSTANT));
    if (inst != producer && (is_number || triton_is_splat(inst)))
      return inst;
  }
  return NULL;
}

static HlInst *fuse(HlPass *p, const Diamond *d) {
  if (!hl_change(p, "diamond", d->root, d->producer))
    return NULL;
  HlInst *left = d->root->operands[0], *right = d->root->operands[1];
  HlInst *small = d->broadcast->operands[0], *wide = d->reduce->operands[0];
  HlInst *fusion = fusion_wrap(p->arena, d->root, HL_WORD_fusion_kind_CUSTOM, "triton_softmax",
                               "triton_softmax_computation");
  take_way(p, fusion, right, d->broadcast);
  triton_take(p, fusion, d->broadcast);
  take_way(p, fusion, small, d->reduce);
  triton_take(p, fusion, d->reduce);
  take_way(p, fusion, wide, d->producer);
  take_way(p, fusion, left, d->producer);
  for (HlInst *inst = next_small(fusion, d->producer); inst; inst = next_small(fusion, d->producer))
    triton_take(p, fusion, inst);
  fusion_name_params(fusion);
  const HlFusionConfig config = {.kind = HL_FUSION_TRITON};
  hl_set_fusion_config(p->arena, fusion, &config);
  return hl_changed(p) ? fusion : NULL;
}

static void visit_comp(HlPass *p, HlComp *comp) {
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  const HlTarget *t = gpu_target(p);
  Ways ways = {HL_ARRAY(p->arena, HlInst *, comp->next_id + 1), comp->next_id};
  VEC(HlInst *) made = {0};
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    Diamond d;
    if (!hl_alive(inst))
      continue;
    const bool is_one =
        find_diamond(&ways, inst, &d) && row_of(&d) <= gpu_most_in_tile(t) && pays(t, &d);
    HlInst *fusion = is_one ? fuse(p, &d) : NULL;
    if (fusion)
      vec_push_in(p->arena, &made, fusion);
    else if (may_join(inst))
      ways.top[inst->id] = top_of(&ways, next_up(inst));
  }
  GpuTiles tiles = gpu_no_tiles(p->arena, hl_cx_scratch(p->cx));
  gpu_set_best_tiles(p, &tiles, made.at, made.n);
}

bool pass_triton_softmax_rewriter(HlPass *p) {
  gpu_each_comp(p, visit_comp);
  return true;
}
