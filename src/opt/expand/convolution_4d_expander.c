// opt/expand/convolution_4d_expander.c: convolutions over four dimensions of which some are trivial.
//
// convolution_4d_expander. A spatial dimension where the input has size 1 and no padding
// contributes nothing: it is reshaped away from input, kernel and result, and back after the
// convolution.
//
//   x = f32[8,5,1,6,1,3], four spatial   =>   convolution over f32[8,5,6,3], two spatial

#include "hilo/edit.h"
#include "opt/passes.h"

// Dimensions of one array of the convolution, some of which go.
typedef struct Shrunk {
  int64_t *dim;
  int rank;
  int64_t *number;  // of each old dimension
} Shrunk;

static bool is_trivial(const HlInst *inst, const HlDimLabels *labels, int k) {
  HlWindow window = hl_window(inst);
  const HlShape *input = hl_operand(inst, 0)->shape;
  return input->dim[labels->input_spatial.at[k]] == 1 && window.at[k].pad_low == 0 &&
         window.at[k].pad_high == 0;
}

static Shrunk shrink(HlPass *p, const HlShape *shape, const HlInst *inst, const HlDimLabels *labels,
                     HlI64s spatial) {
  Shrunk s = {HL_ARRAY(p->arena, int64_t, shape->rank), 0,
              HL_ARRAY(p->arena, int64_t, shape->rank)};
  for (int k = 0; k < spatial.n; k++)
    if (is_trivial(inst, labels, k))
      s.number[spatial.at[k]] = -1;
  for (int d = 0; d < shape->rank; d++)
    if (s.number[d] == 0) {
      s.dim[s.rank] = shape->dim[d];
      s.number[d] = s.rank++;
    }
  return s;
}

static HlI64s renumber(HlArena *arena, HlI64s spatial, const Shrunk *s) {
  int64_t *list = HL_ARRAY(arena, int64_t, spatial.n + 1);
  int n = 0;
  for (int k = 0; k < spatial.n; k++)
    if (s->number[spatial.at[k]] >= 0)
      list[n++] = s->number[spatial.at[k]];
  return (HlI64s){list, n};
}

static HlWindow smaller_window(HlArena *arena, const HlInst *inst, const HlDimLabels *labels) {
  HlWindow window = hl_window(inst);
  HlWindowDim *at = HL_ARRAY(arena, HlWindowDim, window.n + 1);
  int n = 0;
  for (int k = 0; k < window.n; k++)
    if (!is_trivial(inst, labels, k))
      at[n++] = window.at[k];
  return (HlWindow){at, n};
}

// A kernel that is longer than its input slides off it: only the result of size 1 is a plain one.
static bool has_plain_trivial(const HlInst *inst, const HlDimLabels *labels) {
  bool found = false;
  for (int k = 0; k < labels->input_spatial.n; k++) {
    if (!is_trivial(inst, labels, k))
      continue;
    if (inst->shape->dim[labels->output_spatial.at[k]] != 1 ||
        hl_operand(inst, 1)->shape->dim[labels->kernel_spatial.at[k]] != 1)
      return false;
    found = true;
  }
  return found;
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!labels || labels->input_spatial.n != 4 || hl_window(inst).n != 4 ||
      hl_shape_is_dynamic(inst->shape) || !has_plain_trivial(inst, labels))
    return NULL;
  HlInst *x = hl_operand(inst, 0), *kernel = hl_operand(inst, 1);
  Shrunk in = shrink(p, x->shape, inst, labels, labels->input_spatial);
  Shrunk mid = shrink(p, kernel->shape, inst, labels, labels->kernel_spatial);
  Shrunk out = shrink(p, inst->shape, inst, labels, labels->output_spatial);
  HlArena *arena = p->m->arena;
  HlDimLabels *small = HL_NEW(arena, HlDimLabels);
  *small = (HlDimLabels){in.number[labels->input_batch],
                         in.number[labels->input_feature],
                         mid.number[labels->kernel_input],
                         mid.number[labels->kernel_output],
                         out.number[labels->output_batch],
                         out.number[labels->output_feature],
                         renumber(arena, labels->input_spatial, &in),
                         renumber(arena, labels->kernel_spatial, &mid),
                         renumber(arena, labels->output_spatial, &out)};
  HlInst *operands[] = {hl_b_reshape(b, x, in.rank, in.dim),
                        hl_b_reshape(b, kernel, mid.rank, mid.dim)};
  if (!operands[0] || !operands[1])
    return NULL;
  const HlShape *shape = hl_shape_array(p->m->shapes, inst->shape->dtype, out.rank, out.dim);
  HlInst *conv = hl_inst_copy(b->comp, inst, shape, 2, operands);
  HlAttr attrs[] = {{.key = HL_A_DIM_LABELS, .ptr = small},
                    {.key = HL_A_WINDOW, .window = smaller_window(arena, inst, labels)}};
  hl_set_attr(conv, &attrs[0]);
  hl_set_attr(conv, &attrs[1]);
  if (hl_sharding(conv))
    hl_remove_attr(conv, HL_A_SHARDING);
  return hl_b_reshape(b, conv, inst->shape->rank, inst->shape->dim);
}

const HlRule convolution_4d_expander_rules[] = {
    {HL_OP_CONVOLUTION, expand, "convolution_4d_expander",
     "convolution(x, k) => reshape(convolution(reshape(x), reshape(k)))",
     "four spatial dimensions, some with input, kernel and result of size 1"},
    {0},
};
