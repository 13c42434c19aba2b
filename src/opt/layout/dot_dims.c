// opt/layout/dot_dims.c: dots in the form GPU kernels want: contracting dimensions in order, batch
// dimensions as one, at least one contracting dimension, operands of one type.
//
//   dot_dimension_sorter   contracting {2,1} with {1,0}  =>  {1,2} with {0,1}
//   dot_dimension_merger   batch {0,1} with {0,1}         =>  reshapes, batch {0} with {0}
//   dot_normalizer         x [3] by y [4]                 =>  x [3,1] by y [4,1], contracting 1, 1
//   operand_converter      dot(f32 x, bf16 y)             =>  dot(x, convert(y))
#include "opt/ask/dots.h"
#include "opt/ask/layouts.h"

// --- dot_dimension_sorter ------------------------------------------------------------------------

static bool are_neighbours(HlI64s sorted) {
  for (int k = 1; k < sorted.n; k++)
    if (sorted.at[k] != sorted.at[k - 1] + 1)
      return false;
  return true;
}

// The side to be sorted: its dimensions are neighbours out of order, and the other side is not in
// order either, nor could be where the first one cannot. -1: none.
static int leading_side(HlArena *arena, DotDims d) {
  bool near[2], in_order[2];
  for (int s = 0; s < 2; s++) {
    HlI64s sorted = dims_sorted(arena, d.contract[s]);
    near[s] = are_neighbours(sorted);
    in_order[s] = hl_i64s_equal(sorted, d.contract[s]);
  }
  for (int s = 0; s < 2; s++)
    if (near[s] && !in_order[s] && (!near[1 - s] || !in_order[1 - s]))
      return s;
  return -1;
}

static HlInst *sort_dims(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  int lead = d.contract[0].n < 2 ? -1 : leading_side(p->arena, d);
  if (lead < 0)
    return NULL;
  HlI64s sorted = dims_sorted(p->arena, d.contract[lead]);
  int64_t *place = HL_ARRAY(p->arena, int64_t, sorted.n);
  for (int k = 0; k < sorted.n; k++)
    place[k] = hl_i64s_find(d.contract[lead], sorted.at[k]);
  for (int s = 0; s < 2; s++)
    d.contract[s] = dims_mapped(p->arena, (HlI64s){place, sorted.n}, d.contract[s].at);
  return dot_of(b, dot, dot->operands[0], dot->operands[1], d);
}

const HlRule dot_dimension_sorter_rules[] = {
    {HL_OP_DOT, sort_dims, "dot_dimension_sorter",
     "dot contracting {2,1} with {1,0} => dot contracting {1,2} with {0,1}",
     "on one side they are neighbours in order; the other side does not get worse"},
    {0},
};

// --- dot_dimension_merger ------------------------------------------------------------------------

static bool ascend_by_one(HlI64s dims) {
  for (int k = 1; k < dims.n; k++)
    if (dims.at[k] != dims.at[k - 1] + 1)
      return false;
  return true;
}

// A list of dimensions after dimensions [first, first + n) became one.
static HlI64s shifted(HlArena *arena, HlI64s dims, int64_t first, int n) {
  int64_t *list = HL_ARRAY(arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    list[k] = dims.at[k] < first ? dims.at[k] : dims.at[k] - n + 1;
  return (HlI64s){list, dims.n};
}

// x with dimensions [first, first + n) as one, without moving a byte; NULL if that cannot be.
static HlInst *merged(HlPass *p, HlBuild *b, HlInst *x, int64_t first, int n) {
  const HlShape *shape = x->shape;
  int rank = shape->rank - n + 1;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank);
  for (int d = 0; d < rank; d++)
    sizes[d] = shape->dim[d <= first ? d : d + n - 1];
  for (int k = 1; k < n; k++)
    sizes[first] *= shape->dim[first + k];
  HlShapes *shapes = p->m->shapes;
  const HlShape *plain = hl_shape_array(shapes, shape->dtype, rank, sizes);
  if (shape->layout)
    plain = hl_align_layouts(shapes, shape, plain);
  return plain ? hl_b_op(b, HL_OP_RESHAPE, plain, 1, &x, 0, NULL, 0, NULL) : NULL;
}

static HlInst *merge_batch(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot), next = d;
  int n = d.batch[0].n;
  if (n < 2 || !ascend_by_one(d.batch[0]) || !ascend_by_one(d.batch[1]) || !all_static(dot))
    return NULL;
  HlInst *x[2];
  for (int s = 0; s < 2; s++) {
    int64_t first = d.batch[s].at[0];
    x[s] = merged(p, b, dot->operands[s], first, n);
    if (!x[s])
      return NULL;
    next.batch[s] = (HlI64s){d.batch[s].at, 1};
    next.contract[s] = shifted(p->arena, d.contract[s], first, n);
  }
  HlInst *small = dot_of(b, dot, x[0], x[1], next);
  return made_reshape(b, small, (HlI64s){dot->shape->dim, dot->shape->rank});
}

const HlRule dot_dimension_merger_rules[] = {
    {HL_OP_DOT, merge_batch, "dot_dimension_merger",
     "dot(x, y) => reshape(dot(reshape(x), reshape(y)))",
     "several batch dimensions, neighbours in both operands and in memory"},
    {0},
};

// --- dot_normalizer ------------------------------------------------------------------------------

static HlInst *with_last_one(HlPass *p, HlBuild *b, HlInst *x) {
  const int64_t one = 1;
  HlI64s sizes = {x->shape->dim, x->shape->rank};
  return made_reshape(b, x, dims_joined(p->arena, sizes, (HlI64s){&one, 1}));
}

static HlInst *add_contracting(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (d.contract[0].n > 0 || !all_static(dot))
    return NULL;
  for (int s = 0; s < 2; s++)
    d.contract[s] = dims_from(p->arena, dot->operands[s]->shape->rank, 1);
  return dot_of(b, dot, with_last_one(p, b, dot->operands[0]),
                with_last_one(p, b, dot->operands[1]), d);
}

const HlRule dot_normalizer_rules[] = {
    {HL_OP_DOT, add_contracting, "dot_normalizer", "dot(x, y) => dot(reshape(x), reshape(y))",
     "nothing is contracted: a dimension of size 1 is"},
    {0},
};

// --- operand_converter ---------------------------------------------------------------------------

// The type of both that holds more; HL_NO_DTYPE where neither is the other, wider.
static HlDtype wider(HlDtype a, HlDtype b) {
  if (a == b || hl_dtype_kind(a) != hl_dtype_kind(b) ||
      hl_dtype_info[a].bits == hl_dtype_info[b].bits)
    return HL_NO_DTYPE;
  return hl_dtype_info[a].bits > hl_dtype_info[b].bits ? a : b;
}

static HlInst *convert_operands(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *x[2] = {inst->operands[0], inst->operands[1]};
  if (!hl_shape_is_array(x[0]->shape) || !hl_shape_is_array(x[1]->shape))
    return NULL;
  HlDtype dtype = wider(x[0]->shape->dtype, x[1]->shape->dtype);
  if (dtype == HL_NO_DTYPE)
    return NULL;
  for (int s = 0; s < 2; s++)
    x[s] = hl_b_convert(b, x[s], dtype);
  return hl_inst_copy(b->comp, inst, NULL, 2, x);
}

const HlRule operand_converter_rules[] = {
    {HL_OP_DOT, convert_operands, "operand_converter", "dot(f32 x, bf16 y) => dot(x, convert(y))",
     "operands of one kind, of different width"},
    {HL_OP_CONVOLUTION, convert_operands, "operand_converter",
     "convolution(f32 x, bf16 y) => convolution(x, convert(y))",
     "operands of one kind, of different width"},
    {0},
};
