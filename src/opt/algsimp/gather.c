// opt/algsimp/gather.c: algebraic rules of gathers and scatters (S21 to S24).
//
//   g = f32[9] gather(x, i), ... slice_sizes={1}       (x: f32[2])
//     =>   select(i >= 1, x[1], x[0])                  indices are clamped, so this is all

#include "opt/algsimp/dims.h"

HlInst *alg_s21_of_little(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *x = inst->operands[0];
  if (!alg_static(inst))
    return NULL;
  int64_t n = hl_shape_elements(x->shape);
  if (n == 0)
    return alg_full(b, inst->shape, 0);
  if (n != 1)
    return NULL;
  HlInst *scalar = hl_b_reshape(b, x, 0, NULL);
  return inst->shape->rank == 0 ? scalar : alg_broadcast(b, scalar, inst->shape, (HlI64s){0});
}

// Element k of a vector, in every place of the shape.
static HlInst *element(HlBuild *b, HlInst *x, int k, const HlShape *shape) {
  HlInst *scalar = hl_b_reshape(b, hl_b_slice_dim(b, x, 0, k, k + 1), 0, NULL);
  return shape->rank == 0 ? scalar : alg_broadcast(b, scalar, shape, (HlI64s){0});
}

HlInst *alg_s22_of_few(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *index = inst->operands[1];
  if (!alg_static(inst) || x->shape->rank != 1 ||
      x->shape->dim[0] > alg_options(p)->very_small_gather_size || x->shape->dim[0] < 1 ||
      x->shape->dim[0] > 127 || hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM) != index->shape->rank ||
      hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS).n != 1 ||
      hl_attr_ints(inst, HL_A_START_INDEX_MAP).n != 1 ||
      !hl_shape_same_dims(index->shape, inst->shape) ||
      (alg_sensitive(p) && !hl_shape_same_order(index->shape, inst->shape)) ||
      hl_dtype_info[index->shape->dtype].bits < 8)
    return NULL;
  HlInst *result = element(b, x, 0, inst->shape);
  const HlShape *pred = hl_shape_with_dtype(p->m->shapes, inst->shape, HL_PRED);
  for (int k = 1; k < x->shape->dim[0]; k++) {
    HlInst *at_least =
        hl_b_compare(b, HL_WORD_direction_GE, index, alg_full_int(b, index->shape, k));
    result = hl_b_select(b, alg_shaped(at_least, pred), element(b, x, k, inst->shape), result);
    alg_shaped(result, inst->shape);
  }
  return result;
}

// --- Gathers of padded arrays --------------------------------------------------------------------

// Three lists over the dimensions of an array: what is padded.
typedef struct Padding {
  int64_t *low, *high, *interior;
} Padding;

static Padding new_padding(HlPass *p, int rank) {
  return (Padding){alg_list(p, rank), alg_list(p, rank), alg_list(p, rank)};
}

static bool pads(const Padding *padding, int64_t d) {
  return padding->low[d] || padding->high[d] || padding->interior[d];
}

// The dimension of the gather's result that an operand's dimension becomes which is taken whole;
// -1 if not such.
static int64_t passed_dim(const HlInst *gather, int64_t d) {
  HlI64s collapsed = hl_attr_ints(gather, HL_A_COLLAPSED_SLICE_DIMS);
  HlI64s batching = hl_attr_ints(gather, HL_A_OPERAND_BATCHING_DIMS);
  HlI64s offset = hl_attr_ints(gather, HL_A_OFFSET_DIMS);
  if (alg_has(collapsed, d) || alg_has(batching, d) ||
      alg_has(hl_attr_ints(gather, HL_A_START_INDEX_MAP), d) ||
      hl_attr_ints(gather, HL_A_SLICE_SIZES).at[d] != gather->operands[0]->shape->dim[d])
    return -1;
  int k = 0;
  for (int64_t e = 0; e < d; e++)
    k += !alg_has(collapsed, e) && !alg_has(batching, e);
  return k < offset.n ? offset.at[k] : -1;
}

// The dimension of the result that a batching dimension becomes, and that of the indices; -1 if
// not such.
static int64_t batch_dim(const HlInst *gather, int64_t d, int64_t *of_indices) {
  int k = hl_i64s_find(hl_attr_ints(gather, HL_A_OPERAND_BATCHING_DIMS), d);
  if (k < 0)
    return -1;
  int64_t vector = hl_attr_int(gather, HL_A_INDEX_VECTOR_DIM);
  *of_indices = hl_attr_ints(gather, HL_A_START_INDICES_BATCHING_DIMS).at[k];
  int64_t nth = *of_indices - (*of_indices > vector);
  HlI64s offset = hl_attr_ints(gather, HL_A_OFFSET_DIMS);
  for (int64_t e = 0; e < gather->shape->rank; e++)
    if (!alg_has(offset, e) && nth-- == 0)
      return e;
  return -1;
}

// The array that was padded, in the form in which it is gathered from, and what was padded; NULL:
// not such.
static HlInst *unpadded(HlPass *p, HlBuild *b, HlInst *x, Padding *padding, HlInst **value) {
  HlInst *pad = x->op == HL_OP_RESHAPE ? x->operands[0] : x;
  if (pad->op != HL_OP_PAD || !alg_static(pad) ||
      pad->operands[0]->shape->dtype != pad->operands[1]->shape->dtype)
    return NULL;
  HlI64s old = hl_attr_ints(pad, HL_A_PADDING);
  int64_t *sizes = alg_list(p, x->shape->rank);
  for (int e = 0; e < x->shape->rank; e++)
    sizes[e] = x->shape->dim[e];
  for (int d = 0; d < pad->shape->rank; d++) {
    if (!old.at[3 * d] && !old.at[3 * d + 1] && !old.at[3 * d + 2])
      continue;
    int64_t e = x == pad ? d : alg_kept_dim(pad->shape, d, x->shape, 0);
    if (e < 0 || pads(padding, e) || old.at[3 * d] < 0 || old.at[3 * d + 1] < 0)
      return NULL;
    padding->low[e] = old.at[3 * d];
    padding->high[e] = old.at[3 * d + 1];
    padding->interior[e] = old.at[3 * d + 2];
    sizes[e] = pad->operands[0]->shape->dim[d];
  }
  *value = pad->operands[1];
  HlInst *inner = pad->operands[0];
  return x == pad ? inner : hl_b_reshape(b, inner, x->shape->rank, sizes);
}

// The gather of the array without padding: its slice sizes, the part of the indices that is left of
// batches in the padding, and the padding of its result.
typedef struct Unpadded {
  int64_t *sizes, *start, *limit;
  bool cuts;
  Padding padding;
} Unpadded;

static Unpadded same_gather(HlPass *p, const HlInst *gather) {
  const HlShape *x = gather->operands[0]->shape, *index = gather->operands[1]->shape;
  Unpadded to = {alg_list(p, x->rank), alg_list(p, index->rank), alg_list(p, index->rank), false,
                 new_padding(p, gather->shape->rank)};
  for (int d = 0; d < x->rank; d++)
    to.sizes[d] = hl_attr_ints(gather, HL_A_SLICE_SIZES).at[d];
  for (int d = 0; d < index->rank; d++)
    to.limit[d] = index->dim[d];
  return to;
}

// Takes the padding of one dimension of the operand over to the result; false: it cannot go there.
static bool take_over(const HlInst *gather, const HlShape *small, const Padding *from, int d,
                      Unpadded *to) {
  int64_t of_indices = -1, at = passed_dim(gather, d);
  if (at >= 0) {
    to->sizes[d] = small->dim[d];
  } else {
    at = batch_dim(gather, d, &of_indices);
    if (at < 0 || from->interior[d])
      return false;
    to->start[of_indices] = from->low[d];
    to->limit[of_indices] -= from->high[d];
    to->cuts = true;
  }
  to->padding.low[at] = from->low[d];
  to->padding.high[at] = from->high[d];
  to->padding.interior[at] = from->interior[d];
  return true;
}

static HlInst *gather_of(HlPass *p, HlBuild *b, HlInst *inst, HlInst *x, const Unpadded *to) {
  HlInst *index = inst->operands[1];
  HlInst *operands[] = {x, to->cuts ? hl_b_slice(b, index, to->start, to->limit, NULL) : index};
  HlAttr *attrs = HL_ARRAY(p->m->arena, HlAttr, inst->n_attrs);
  int n = 0;
  for (int k = 0; k < inst->n_attrs; k++) {
    if ((int)inst->attrs[k].key >= HL_ATTR_COMMON)
      continue;
    attrs[n] = inst->attrs[k];
    if (attrs[n].key == HL_A_SLICE_SIZES)
      attrs[n].ints = hl_i64s_copy(p->m->arena, (HlI64s){to->sizes, x->shape->rank});
    n++;
  }
  return hl_b_op(b, HL_OP_GATHER, NULL, 2, operands, n, attrs, 0, NULL);
}

HlInst *alg_s23_of_pad(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *value;
  if (alg_sensitive(p) || (x->op != HL_OP_PAD && x->op != HL_OP_RESHAPE) || !alg_static(inst) ||
      hl_shape_elements(x->shape) == 0)
    return NULL;
  Padding padding = new_padding(p, x->shape->rank);
  HlInst *small = unpadded(p, b, x, &padding, &value);
  if (!small || hl_shape_elements(small->shape) == 0)
    return NULL;
  Unpadded to = same_gather(p, inst);
  bool changes = false;
  for (int d = 0; d < x->shape->rank; d++) {
    if (!pads(&padding, d))
      continue;
    if (!take_over(inst, small->shape, &padding, d, &to))
      return NULL;
    changes = true;
  }
  if (!changes)
    return NULL;
  return hl_b_pad(b, gather_of(p, b, inst, small, &to), value, to.padding.low, to.padding.high,
                  to.padding.interior);
}

// --- Scatter -------------------------------------------------------------------------------------

HlInst *alg_s24_of_nothing(HlPass *p, HlBuild *b, HlInst *inst) {
  int n = (int)(inst->n_operands - 1) / 2;
  for (int k = 0; k < n; k++)
    if (hl_shape_elements(inst->operands[n + 1 + k]->shape) != 0)
      return NULL;
  if (n == 1)
    return alg_existing(p, inst, inst->operands[0]);
  HlInst *all = hl_b_tuple(b, n, inst->operands);
  return all && alg_same_shape(p, all->shape, inst->shape) ? all : NULL;
}

// No index, one window, and it is the whole array: every element is combined with that of the
// update.
HlInst *alg_s24_whole(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->n_operands != 3 || !alg_static(inst) ||
      hl_shape_elements(inst->operands[1]->shape) != 0 || inst->operands[1]->shape->rank != 1 ||
      !alg_same_shape(p, inst->shape, inst->operands[0]->shape) ||
      !alg_same_shape(p, inst->shape, inst->operands[2]->shape) ||
      hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS).n != inst->shape->rank ||
      hl_shape_elements(inst->shape) == 0)
    return NULL;
  HlInst *operands[] = {inst->operands[0], inst->operands[2]};
  int64_t *dims = alg_list(p, inst->shape->rank);
  for (int d = 0; d < inst->shape->rank; d++)
    dims[d] = d;
  HlAttr attr = {.key = HL_A_DIMENSIONS,
                 .ints = hl_i64s_copy(p->m->arena, (HlI64s){dims, inst->shape->rank})};
  HlComp *comp = hl_to_apply(inst);
  return alg_shaped(hl_b_op(b, HL_OP_MAP, NULL, 2, operands, 1, &attr, 1, &comp), inst->shape);
}
