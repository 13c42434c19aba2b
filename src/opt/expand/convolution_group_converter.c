// opt/expand/convolution_group_converter.c: convolutions with groups as convolutions without.
//
// convolution-group-converter. Groups of features (or, with batch_groups, of batches) are G small
// convolutions side by side. One more spatial dimension numbers them: with the input dilated by G,
// a window of size G and stride G - 1 the g-th step meets exactly the g-th group of input and
// kernel:
//
//   convolution(f32[8,9,6] x, f32[3,2,12] k), b0f_0io->b0f, feature_group_count=3
//   =>  convolution(f32[8,9,3,2] x', f32[3,2,3,4] k'), window={size=3x3 stride=1x2 lhs_dilate=1x3},
//       dim_labels=b01f_0i1o->b01f, then reshaped
//
// Groups of a single element go without it: with features the kernel is spread over all features,
// zero outside its group; with batches everything is computed and the diagonal is summed up.
//
// With batch_groups=false XLA's CPU backend leaves f16 and f32, for which it has grouped
// convolutions.

#include <string.h>

#include "hilo/edit.h"
#include "opt/passes.h"

// A convolution's labels, window and sizes while a dimension is being added.
typedef struct Conv {
  HlDimLabels labels;
  HlWindow window;
} Conv;

// --- One more dimension -------------------------------------------------------------------------

// Dimensions from `at` on move up by one; a spatial dimension stands at `at`.
static HlI64s add_spatial(HlArena *arena, HlI64s spatial, int64_t at) {
  int64_t *list = HL_ARRAY(arena, int64_t, spatial.n + 1);
  for (int k = 0; k < spatial.n; k++)
    list[k] = spatial.at[k] + (spatial.at[k] >= at);
  list[spatial.n] = at;
  return (HlI64s){list, spatial.n + 1};
}

static void shift(int64_t *label, int64_t at) {
  *label += *label >= at;
}

// Sizes with dimension `at` split in groups and the rest.
static int64_t *split_dims(HlPass *p, const HlShape *shape, int64_t at, int64_t groups) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    dim[k + (k > at)] = shape->dim[k];
  dim[at] = groups;
  dim[at + 1] = shape->dim[at] / groups;
  return dim;
}

static void add_window(HlPass *p, Conv *conv, int64_t groups) {
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, conv->window.n + 1);
  if (conv->window.n > 0)
    memcpy(at, conv->window.at, sizeof *at * (size_t)conv->window.n);
  at[conv->window.n] =
      (HlWindowDim){.size = groups, .stride = groups - 1, .lhs_dilate = groups, .rhs_dilate = 1};
  conv->window = (HlWindow){at, conv->window.n + 1};
}

static HlInst *ungrouped(HlPass *p, HlBuild *b, HlInst *inst, const HlShape *shape, HlInst *x,
                         HlInst *kernel, const Conv *as) {
  HlInst *operands[] = {x, kernel};
  if (!x || !kernel)
    return NULL;
  HlInst *conv = hl_inst_copy(b->comp, inst, shape, 2, operands);
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  *labels = as->labels;
  HlAttr attrs[] = {{.key = HL_A_DIM_LABELS, .ptr = labels},
                    {.key = HL_A_WINDOW, .window = as->window}};
  hl_set_attr(conv, &attrs[0]);
  hl_set_attr(conv, &attrs[1]);
  hl_set_int(conv, HL_A_FEATURE_GROUP_COUNT, 1);
  hl_set_int(conv, HL_A_BATCH_GROUP_COUNT, 1);
  if (hl_sharding(conv))
    hl_remove_attr(conv, HL_A_SHARDING);
  return conv;
}

// Dimension `grouped` of the input, and the output features of kernel and result, split in groups.
static HlInst *by_dimension(HlPass *p, HlBuild *b, HlInst *inst, int64_t grouped, int64_t groups) {
  const HlDimLabels *old = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  Conv conv = {*old, hl_window(inst)};
  HlArena *arena = p->m->arena;
  HlInst *x = hl_operand(inst, 0), *kernel = hl_operand(inst, 1);

  x = hl_b_reshape(b, x, x->shape->rank + 1, split_dims(p, x->shape, grouped, groups));
  conv.labels.input_spatial = add_spatial(arena, old->input_spatial, grouped);
  shift(&conv.labels.input_batch, grouped);
  shift(&conv.labels.input_feature, grouped);

  int64_t out = old->kernel_output;
  kernel =
      hl_b_reshape(b, kernel, kernel->shape->rank + 1, split_dims(p, kernel->shape, out, groups));
  conv.labels.kernel_spatial = add_spatial(arena, old->kernel_spatial, out);
  shift(&conv.labels.kernel_input, out);
  shift(&conv.labels.kernel_output, out);

  out = old->output_feature;
  const HlShape *shape = hl_shape_array(p->m->shapes, inst->shape->dtype, inst->shape->rank + 1,
                                        split_dims(p, inst->shape, out, groups));
  conv.labels.output_spatial = add_spatial(arena, old->output_spatial, out);
  shift(&conv.labels.output_batch, out);
  shift(&conv.labels.output_feature, out);

  add_window(p, &conv, groups);
  HlInst *made = ungrouped(p, b, inst, shape, x, kernel, &conv);
  return made ? hl_b_reshape(b, made, inst->shape->rank, inst->shape->dim) : NULL;
}

// --- Groups of one ------------------------------------------------------------------------------

// The group of each of n positions along a dimension, as an array of `dim`.
static HlInst *group_of(HlBuild *b, int64_t n, int64_t groups, int rank, const int64_t *dim,
                        int64_t along) {
  const HlShape *shape = hl_shape_array(hl_b_module(b)->shapes, HL_S32, 1, &n);
  HlLiteral *ids = hl_literal_new(b->cx, shape);
  if (!ids)
    return NULL;
  for (int64_t k = 0; k < n; k++)
    hl_literal_set_i64(ids, k, k / (n / groups));
  HlInst *list = hl_b_constant(b, ids);
  hl_literal_unref(ids);
  return hl_b_broadcast(b, list, rank, dim, (HlI64s){&along, 1});
}

// Where two dimensions are in the same group.
static HlInst *same_group(HlBuild *b, int rank, const int64_t *dim, int64_t one, int64_t other,
                          int64_t groups) {
  return hl_b_compare(b, HL_WORD_direction_EQ, group_of(b, dim[one], groups, rank, dim, one),
                      group_of(b, dim[other], groups, rank, dim, other));
}

static int64_t *with_dim(HlPass *p, const HlShape *shape, int64_t at, int64_t size) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank);
  memcpy(dim, shape->dim, sizeof *dim * (size_t)shape->rank);
  dim[at] = size;
  return dim;
}

// Each output feature reads one input feature: the kernel over all of them, with zeros.
static HlInst *by_kernel(HlPass *p, HlBuild *b, HlInst *inst, int64_t groups) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  HlInst *kernel = hl_operand(inst, 1);
  int rank = kernel->shape->rank, n = 0;
  int64_t in = labels->kernel_input;
  const int64_t *dim = with_dim(p, kernel->shape, in, groups);
  int64_t *kept = HL_ARRAY(p->arena, int64_t, rank), *sizes = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    if (k != in) {
      sizes[n] = dim[k];
      kept[n++] = k;
    }
  HlInst *flat = hl_b_reshape(b, kernel, n, sizes);
  HlInst *spread = hl_b_broadcast(b, flat, rank, dim, (HlI64s){kept, n});
  HlInst *zero = hl_b_full(b, kernel->shape->dtype, rank, dim, 0);
  HlInst *mask = same_group(b, rank, dim, in, labels->kernel_output, groups);
  HlInst *wide = hl_b_select(b, mask, spread, zero);
  Conv conv = {*labels, hl_window(inst)};
  return ungrouped(p, b, inst, inst->shape, hl_operand(inst, 0), wide, &conv);
}

// Sums each `size` elements along a dimension.
static HlInst *sum_along(HlPass *p, HlBuild *b, HlInst *x, int64_t along, int64_t size) {
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, x->shape->rank);
  for (int k = 0; k < x->shape->rank; k++)
    at[k] = (HlWindowDim){.size = k == along ? size : 1,
                          .stride = k == along ? size : 1,
                          .lhs_dilate = 1,
                          .rhs_dilate = 1};
  HlDtype dtype = x->shape->dtype;
  HlInst *operands[] = {x, hl_b_scalar(b, dtype, 0)};
  HlComp *add = hl_b_scalar_comp(b, HL_OP_ADD, dtype);
  HlAttr attr = {.key = HL_A_WINDOW, .window = {at, x->shape->rank}};
  return hl_b_op(b, HL_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &attr, 1, &add);
}

// As many batches and output features as groups: all pairs are computed, the diagonal is kept.
static HlInst *by_diagonal(HlPass *p, HlBuild *b, HlInst *inst, int64_t groups) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  int64_t batch = labels->output_batch, feature = labels->output_feature;
  int rank = inst->shape->rank;
  const int64_t *dim = with_dim(p, inst->shape, batch, groups);
  HlDtype dtype = inst->shape->dtype;
  Conv conv = {*labels, hl_window(inst)};
  HlInst *all = ungrouped(p, b, inst, hl_shape_array(p->m->shapes, dtype, rank, dim),
                          hl_operand(inst, 0), hl_operand(inst, 1), &conv);
  HlInst *mask = same_group(b, rank, dim, batch, feature, groups);
  HlInst *kept = hl_b_select(b, mask, all, hl_b_full(b, dtype, rank, dim, 0));
  bool is_small = hl_dtype_info[dtype].bits < 32;
  if (is_small && kept)
    kept = hl_b_convert(b, kept, HL_F32);
  HlInst *sum = kept ? sum_along(p, b, kept, batch, groups) : NULL;
  return sum ? hl_b_convert(b, sum, dtype) : NULL;
}

// --- Rules --------------------------------------------------------------------------------------

static bool is_plain(const HlInst *inst) {
  return inst->n_operands == 2 && hl_attr_ptr(inst, HL_A_DIM_LABELS) &&
         !hl_has_attr(inst, HL_A_SPARSITY_CONFIG) && !hl_shape_is_dynamic(inst->shape) &&
         !hl_shape_is_dynamic(hl_operand(inst, 0)->shape) &&
         !hl_shape_is_dynamic(hl_operand(inst, 1)->shape);
}

static HlInst *batch_groups(HlPass *p, HlBuild *b, HlInst *inst) {
  int64_t groups = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT);
  if (groups <= 1 || !is_plain(inst) || !hl_pass_flag(p, "batch_groups"))
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (hl_operand(inst, 0)->shape->dim[labels->input_batch] == groups &&
      hl_operand(inst, 1)->shape->dim[labels->kernel_output] == groups)
    return by_diagonal(p, b, inst, groups);
  return by_dimension(p, b, inst, labels->input_batch, groups);
}

static HlInst *feature_groups(HlPass *p, HlBuild *b, HlInst *inst) {
  int64_t groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT);
  HlDtype dtype = inst->shape->dtype;
  bool has_grouped = hl_dtype_in(p->target->groups, dtype);
  if (groups <= 1 || !is_plain(inst) || hl_pass_flag(p, "batch_groups") || has_grouped ||
      hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) > 1)
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (hl_operand(inst, 1)->shape->dim[labels->kernel_input] == 1)
    return by_kernel(p, b, inst, groups);
  return by_dimension(p, b, inst, labels->input_feature, groups);
}

const HlRule convolution_group_rules[] = {
    {HL_OP_CONVOLUTION, batch_groups, "batch-groups",
     "convolution(x, k) => reshape(convolution(reshape(x), reshape(k)))",
     "batch groups; with the option batch_groups"},
    {HL_OP_CONVOLUTION, feature_groups, "feature-groups",
     "convolution(x, k) => reshape(convolution(reshape(x), reshape(k)))",
     "feature groups of a type without grouped convolutions"},
    {0},
};
