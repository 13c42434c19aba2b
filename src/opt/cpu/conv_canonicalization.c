// opt/cpu/conv_canonicalization.c: convolutions in the one form that the CPU's library takes.
//
// convolution-canonicalization. Operands are transposed to batch, space, features and to kernel
// space, in, out; the result comes in the operands' form and is transposed to what it was. Only in
// the entry computation, as in XLA.
//
//   c = convolution(x, k), dim_labels=bf01_oi01->bf01
//   =>   c' = convolution(transpose(x), transpose(k)), dim_labels=b01f_01io->b01f
//        c  = transpose(c')

#include "hilo/edit.h"
#include "opt/ask/cpu_dot.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

// first, spatial..., last
static HlI64s order_of(HlPass *p, int64_t first, HlI64s spatial, int64_t last) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, spatial.n + 2);
  order[0] = first;
  for (int k = 0; k < spatial.n; k++)
    order[k + 1] = spatial.at[k];
  order[spatial.n + 1] = last;
  return (HlI64s){order, spatial.n + 2};
}

// spatial..., in, out
static HlI64s kernel_order(HlPass *p, const HlDimLabels *labels) {
  HlI64s spatial = labels->kernel_spatial;
  int64_t *order = HL_ARRAY(p->arena, int64_t, spatial.n + 2);
  for (int k = 0; k < spatial.n; k++)
    order[k] = spatial.at[k];
  order[spatial.n] = labels->kernel_input;
  order[spatial.n + 1] = labels->kernel_output;
  return (HlI64s){order, spatial.n + 2};
}

static HlDimLabels *canonical_labels(HlArena *arena, int n) {
  HlDimLabels *labels = HL_NEW(arena, HlDimLabels);
  *labels = (HlDimLabels){.input_batch = 0,
                          .input_feature = n + 1,
                          .kernel_input = n,
                          .kernel_output = n + 1,
                          .output_batch = 0,
                          .output_feature = n + 1,
                          .input_spatial = dims_from(arena, 1, n),
                          .kernel_spatial = dims_from(arena, 0, n),
                          .output_spatial = dims_from(arena, 1, n)};
  return labels;
}

static const HlShape *permuted(HlPass *p, const HlShape *shape, HlI64s order) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, order.n);
  for (int k = 0; k < order.n; k++)
    dim[k] = shape->dim[order.at[k]];
  return hl_shape_array(p->m->shapes, shape->dtype, order.n, dim);
}

static HlInst *canonicalize(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (inst->comp != p->m->entry || !labels || hl_cpu_library_convolution(inst) ||
      hl_shape_is_dynamic(inst->shape))
    return NULL;
  HlI64s output = order_of(p, labels->output_batch, labels->output_spatial, labels->output_feature);
  HlInst *operands[] = {made_transpose(b, hl_operand(inst, 0),
                                       order_of(p, labels->input_batch, labels->input_spatial,
                                                labels->input_feature)),
                        made_transpose(b, hl_operand(inst, 1), kernel_order(p, labels))};
  if (!operands[0] || !operands[1])
    return NULL;
  HlInst *conv = hl_inst_copy(b->comp, inst, permuted(p, inst->shape, output), 2, operands);
  HlAttr attr = {.key = HL_A_DIM_LABELS,
                 .ptr = canonical_labels(p->m->arena, labels->output_spatial.n)};
  hl_set_attr(conv, &attr);
  if (hl_sharding(conv))
    hl_remove_attr(conv, HL_A_SHARDING);
  return made_transpose(b, conv, dims_inverse(p->arena, output));
}

const HlRule conv_canonicalization_rules[] = {
    {HL_OP_CONVOLUTION, canonicalize, "convolution-canonicalization",
     "convolution(x, k) => transpose(convolution(transpose(x), transpose(k)))",
     "not in the library's form"},
    {0},
};
