// spmd/partition_dot.c: products: dot and convolution.
//
// A product is a loop over all its dimensions: those the operands and the result share in twos and
// threes. One sharding of this loop says what each device computes, and with it how both operands
// and the result have to be cut:
//
//   dot [b,i,k] x [b,k,j] -> [b,i,j]      loop [b,i,j,k]       lhs takes b,i,k   rhs takes b,k,j   result takes b,i,j
//
// Where k is cut, every device has a summand of the result, and an all-reduce along k adds them up.
// The loop is cut as the result is wanted, and along k where both operands are cut alike there; if
// both cannot be, k wins, since the sum is then smaller than what would have to be gathered. Where
// another choice exchanges less, that one is taken (part_cheaper_loop).

#include <string.h>

#include "spmd/partition.h"

enum { LHS, RHS, OUT };

// --- Sharding of the loop -------------------------------------------------------------------------

// All devices are along the summed dimensions of one operand, and its elements are more than the
// summands.
static bool sums_cheaply(const PartLoop *loop, int array, const HlTiles *t) {
  return hl_tiles_is_cut(t) && hl_tiles_n_tiles(t) * t->manual == t->n &&
         hl_shape_elements(loop->shape[array]) > hl_shape_elements(loop->shape[OUT]);
}

// Gathering a result that is smaller than an operand beats gathering the operand.
static const HlTiles *keep_operand_cuts(PartComp *c, const PartLoop *loop, int array,
                                        const HlTiles *now, const HlTiles *t) {
  if (hl_shape_elements(loop->shape[OUT]) >= hl_shape_elements(loop->shape[array]))
    return t;
  return part_merged_or(c->pt, t, part_loop_tiles(c->pt, loop, array, now, PART_KEPT), t);
}

static const HlTiles *choose(PartComp *c, const PartLoop *loop, const HlTiles *lhs,
                             const HlTiles *rhs, const HlTiles *out) {
  const HlTiles *want = part_loop_tiles(c->pt, loop, OUT, out, PART_ALL_DIMS);
  const HlTiles *of_lhs = part_loop_tiles(c->pt, loop, LHS, lhs, PART_SUMMED);
  const HlTiles *of_rhs = part_loop_tiles(c->pt, loop, RHS, rhs, PART_SUMMED);
  if (hl_tiles_is_cut(of_lhs) && hl_tiles_equal(of_lhs, of_rhs)) {
    const HlTiles *t = part_loop_with(c, of_lhs, want);
    t = part_loop_with(c, t, part_loop_tiles(c->pt, loop, LHS, lhs, PART_KEPT));
    return part_loop_with(c, t, part_loop_tiles(c->pt, loop, RHS, rhs, PART_KEPT));
  }
  if (!hl_tiles_is_cut(out) && !hl_tiles_is_cut(rhs) && sums_cheaply(loop, LHS, of_lhs))
    return of_lhs;
  if (!hl_tiles_is_cut(out) && !hl_tiles_is_cut(lhs) && sums_cheaply(loop, RHS, of_rhs))
    return of_rhs;
  want = keep_operand_cuts(c, loop, LHS, lhs, want);
  return keep_operand_cuts(c, loop, RHS, rhs, want);
}

static HlInst *add_up(PartComp *c, const PartLoop *loop, HlInst *x, const HlTiles *t) {
  for (int k = loop->rank - 1; x && k >= 0; k--)
    if (part_loop_sums(loop, k) && t->parts[k] > 1)
      x = part_all_reduce_op(c, x, x->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                             part_loop_groups(c, loop, LHS, t, k));
  return x;
}

// What is beyond an operand's end along a summed dimension must not count.
HlInst *part_product_operand(PartComp *c, HlInst *inst, const PartLoop *loop, int array,
                             const HlTiles *tiles) {
  bool *summed = HL_ARRAY(c->pt->arena, bool, tiles->rank + 1), uneven = false;
  for (int k = 0; k < loop->rank; k++) {
    const int d = loop->dim[array][k];
    if (d >= 0 && part_loop_sums(loop, k)) {
      summed[d] = true;
      uneven = uneven || loop->shape[array]->dim[d] % tiles->parts[d] != 0;
    }
  }
  HlInst *x = part_operand(c, inst, array, tiles);
  if (!x || !uneven)
    return x;
  return part_mask(c, x, loop->shape[array], tiles, summed,
                   hl_b_scalar_int(&c->b, x->shape->dtype, 0));
}

// An operand cut as the loop wants it.
static HlInst *operand_for(PartComp *c, const PartLoop *loop, HlInst *inst, int array,
                           const HlTiles *t) {
  return part_product_operand(c, inst, loop, array, part_loop_array(c->pt, loop, array, t));
}

static bool can_be_cut(PartComp *c, const HlInst *inst, const HlTiles *const *own) {
  const HlTiles *lhs = part_tiles_now(c, hl_operand(inst, LHS)),
                *rhs = part_tiles_now(c, hl_operand(inst, RHS));
  return own[0]->unreduced == 1 && lhs->unreduced == 1 && rhs->unreduced == 1 &&
         lhs->manual == own[0]->manual && rhs->manual == own[0]->manual &&
         !hl_shape_is_dynamic(inst->shape) && !hl_shape_is_dynamic(hl_operand(inst, LHS)->shape) &&
         !hl_shape_is_dynamic(hl_operand(inst, RHS)->shape);
}

// --- Dot ------------------------------------------------------------------------------------------

// The result's dimensions are the batch, then what is left of the lhs, then what is left of the
// rhs.
PartLoop part_dot_loop(PartComp *c, const HlInst *inst) {
  PartLoop loop = part_loop(c->pt, OUT, hl_operand(inst, LHS)->shape, hl_operand(inst, RHS)->shape,
                            inst->shape);
  const HlI64s lhs_batch = hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS),
               rhs_batch = hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS);
  const HlI64s lhs_sum = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS),
               rhs_sum = hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS);
  int out = 0;
  for (int k = 0; k < lhs_batch.n; k++)
    part_loop_add(&loop, lhs_batch.at[k], rhs_batch.at[k], out++);
  for (int k = 0; k < loop.shape[LHS]->rank; k++)
    if (hl_i64s_find(lhs_batch, k) < 0 && hl_i64s_find(lhs_sum, k) < 0)
      part_loop_add(&loop, k, -1, out++);
  for (int k = 0; k < loop.shape[RHS]->rank; k++)
    if (hl_i64s_find(rhs_batch, k) < 0 && hl_i64s_find(rhs_sum, k) < 0)
      part_loop_add(&loop, -1, k, out++);
  for (int k = 0; k < lhs_sum.n; k++)
    part_loop_add(&loop, lhs_sum.at[k], rhs_sum.at[k], -1);
  return loop;
}

// Each of the operand's own dimensions is cut as the loop wants it.
static bool is_cut_as_wanted(PartComp *c, const PartLoop *loop, const HlInst *inst, int array,
                             const HlTiles *t) {
  const HlTiles *now = part_tiles_now(c, hl_operand(inst, array)),
                *wanted = part_loop_array(c->pt, loop, array, t);
  bool any = false;
  for (int k = 0; k < loop->rank; k++) {
    const int d = loop->dim[array][k];
    if (d < 0 || part_loop_sums(loop, k) || loop->dim[LHS + RHS - array][k] >= 0)
      continue;
    any = any || wanted->parts[d] > 1;
    if (!hl_tiles_equal(hl_tiles_only(c->pt->arena, now, d),
                        hl_tiles_only(c->pt->arena, wanted, d)))
      return false;
  }
  return any;
}

// Which operand is brought into place first: the one beside that which is cut as it is wanted; of two such, the one that
// costs less.
static int first_operand(PartComp *c, const PartLoop *loop, const HlInst *inst, const HlTiles *t) {
  if (!is_cut_as_wanted(c, loop, inst, LHS, t))
    return LHS;
  if (!is_cut_as_wanted(c, loop, inst, RHS, t))
    return RHS;
  PartCost cost[] = {{0, 0}, {0, 0}};
  for (int k = LHS; k <= RHS; k++)
    part_operand_cost(c, inst, k, part_loop_array(c->pt, loop, k, t), &cost[k]);
  return cost[RHS].bytes < cost[LHS].bytes ? RHS : LHS;
}

bool part_dot(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || inst->n_operands != 2 || !can_be_cut(c, inst, own))
    return own && part_default(c, inst);
  bool done = false;
  const PartLoop loop = part_dot_loop(c, inst);
  const HlTiles *t = choose(c, &loop, part_tiles_now(c, hl_operand(inst, LHS)),
                            part_tiles_now(c, hl_operand(inst, RHS)), own[0]);
  if (part_windowed_dot(c, inst, &loop, t, own[0], &done))
    return done;
  t = part_cheaper_loop(c, inst, &loop, t, own[0]);
  HlInst *operand[2];
  const int first = first_operand(c, &loop, inst, t);
  operand[first] = operand_for(c, &loop, inst, first, t);
  operand[LHS + RHS - first] = operand_for(c, &loop, inst, LHS + RHS - first, t);
  const HlTiles *out = part_loop_array(c->pt, &loop, OUT, t);
  HlInst *x = part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, &out), 2, operand);
  return part_set(c, inst, add_up(c, &loop, x, t), out);
}

// --- Convolution ----------------------------------------------------------------------------------

// A convolution's loop. Along a spatial dimension either the result is cut, and a tile of it reads
// a stretch of the lhs, or the kernel is, as in gradients of kernels, where it is as large as the
// image: the tile of the kernel meets a stretch of the lhs and gives a summand of the result.
typedef struct Conv {
  PartLoop loop;
  const HlDimLabels *labels;
  HlWindow window;
  int64_t groups;
  int first;        // the loop's first spatial dimension
  bool *by_kernel;  // along which spatial dimensions the kernel may be cut
} Conv;

static bool kernel_is_the_larger(const HlInst *inst, const HlDimLabels *l, const HlWindowDim *w,
                                 int k) {
  return w->size > inst->shape->dim[l->output_spatial.at[k]] && w->lhs_dilate == 1 && !w->reversal;
}

// Groups of features stay whole: the lhs' features are cut as the result's are, not summed across
// devices.
static Conv conv_of(PartComp *c, const HlInst *inst) {
  Conv conv = {.labels = hl_attr_ptr(inst, HL_A_DIM_LABELS),
               .window = hl_window(inst),
               .groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT)};
  const HlDimLabels *l = conv.labels;
  conv.loop = part_loop(c->pt, OUT, hl_operand(inst, LHS)->shape, hl_operand(inst, RHS)->shape,
                        inst->shape);
  conv.by_kernel = HL_ARRAY(c->pt->arena, bool, conv.window.n + 1);
  part_loop_add(&conv.loop, l->input_batch, -1, l->output_batch);
  if (conv.groups == 1) {
    part_loop_add(&conv.loop, -1, l->kernel_output, l->output_feature);
    part_loop_add(&conv.loop, l->input_feature, l->kernel_input, -1);
  } else {
    part_loop_add(&conv.loop, l->input_feature, l->kernel_output, l->output_feature);
  }
  conv.first = conv.loop.rank;
  for (int k = 0; k < conv.window.n; k++) {
    conv.by_kernel[k] = kernel_is_the_larger(inst, l, &conv.window.at[k], k);
    if (conv.by_kernel[k])
      part_loop_add(&conv.loop, l->input_spatial.at[k], l->kernel_spatial.at[k], -1);
    else
      part_loop_add(&conv.loop, l->input_spatial.at[k], -1, l->output_spatial.at[k]);
  }
  return conv;
}

// The stretch of the lhs that a tile of the result or of the kernel reads.
static PartReach conv_reach(const Conv *conv, int k, int64_t parts) {
  const HlWindowDim *w = &conv->window.at[k];
  const int64_t size = conv->loop.shape[OUT]->dim[conv->labels->output_spatial.at[k]];
  if (!conv->by_kernel[k])
    return part_window_reach(w, hl_tile_size(size, parts));
  const int64_t tile = hl_tile_size(w->size, parts);
  return (PartReach){-w->pad_low, tile * w->rhs_dilate,
                     (size - 1) * w->stride + (tile - 1) * w->rhs_dilate + 1, 0, 0};
}

// Without the cuts that are not worth it, or cannot be.
static const HlTiles *worthwhile(PartComp *c, const Conv *conv, const HlTiles *t) {
  bool *drop = HL_ARRAY(c->pt->arena, bool, t->rank + 1);
  const HlTiles *lhs = part_loop_array(c->pt, &conv->loop, LHS, t);
  drop[1] = conv->groups > 1 && conv->groups % t->parts[1] != 0;
  for (int k = 0; k < conv->window.n; k++) {
    const int64_t parts = t->parts[conv->first + k];
    const int dim = (int)conv->labels->input_spatial.at[k];
    drop[conv->first + k] = parts > 1 && (conv->window.at[k].lhs_dilate != 1 ||
                                          !part_window_pays(c->pt, conv->loop.shape[LHS], lhs, dim,
                                                            conv_reach(conv, k, parts)));
  }
  return part_without(c, t, drop);
}

// The lhs with what windows read of neighbours, and the window that is left.
static HlInst *conv_lhs(PartComp *c, const Conv *conv, HlInst *x, const HlTiles *t,
                        HlWindowDim *left) {
  const HlTiles *lhs = part_loop_array(c->pt, &conv->loop, LHS, t);
  for (int k = 0; x && k < conv->window.n; k++) {
    const int64_t parts = t->parts[conv->first + k];
    if (parts == 1)
      continue;
    x = part_window(c, x, conv->loop.shape[LHS], lhs, (int)conv->labels->input_spatial.at[k],
                    conv_reach(conv, k, parts), hl_b_scalar_int(&c->b, x->shape->dtype, 0));
    left[k].pad_low = left[k].pad_high = 0;
    if (conv->by_kernel[k])
      left[k].size = hl_tile_size(left[k].size, parts);
  }
  return x;
}

bool part_convolution(PartComp *c, HlInst *inst) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  const HlDimLabels *l = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!own || inst->n_operands != 2 || !l || !can_be_cut(c, inst, own) ||
      hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) != 1 || hl_window(inst).n != l->output_spatial.n)
    return own && part_default(c, inst);
  const Conv conv = conv_of(c, inst);
  const HlTiles *t = choose(c, &conv.loop, part_tiles_now(c, hl_operand(inst, LHS)),
                            part_tiles_now(c, hl_operand(inst, RHS)), own[0]);
  t = worthwhile(c, &conv, t);
  HlInst *operand[] = {operand_for(c, &conv.loop, inst, LHS, t),
                       operand_for(c, &conv.loop, inst, RHS, t)};
  HlWindowDim *left =
      hl_arena_copy(pt->m->arena, conv.window.at, sizeof *left * (size_t)conv.window.n);
  const HlTiles *out = part_loop_array(pt, &conv.loop, OUT, t);
  operand[LHS] = conv_lhs(c, &conv, operand[LHS], t, left);
  HlInst *x = part_copy_anew(c, inst, part_local_shape(pt, inst->shape, &out), 2, operand);
  if (x && conv.window.n > 0)
    hl_set_attr(x, &(HlAttr){.key = HL_A_WINDOW, .window = {left, conv.window.n}});
  if (x && conv.groups > 1)
    hl_set_int(x, HL_A_FEATURE_GROUP_COUNT, conv.groups / t->parts[1]);
  return part_set(c, inst, add_up(c, &conv.loop, x, t), out);
}
