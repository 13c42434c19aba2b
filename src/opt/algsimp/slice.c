// opt/algsimp/slice.c: algebraic rules of slices and pads (S1 to S12).
//
// Slices move towards the beginning of a computation, so that less is computed, and end where they
// meet what put the elements together:
//
//   w = f32[8,8] pad(x, zero), padding=2_2x0_0
//   ROOT s = f32[4,8] slice(w), slice={[2:6], [0:8]}       =>   x

#include "opt/algsimp/dims.h"
#include "opt/ask/frontend.h"

// A slice's three lists to be changed.
typedef struct Box {
  int64_t *start, *limit, *stride;
} Box;

static Box new_box(HlPass *p, int rank) {
  Box box = {alg_list(p, rank), alg_list(p, rank), alg_list(p, rank)};
  for (int d = 0; d < rank; d++)
    box.stride[d] = 1;
  return box;
}

static Box box_of(HlPass *p, const HlInst *slice) {
  Box box = new_box(p, slice->shape->rank);
  for (int d = 0; d < slice->shape->rank; d++) {
    box.start[d] = alg_slice_start(slice, d);
    box.limit[d] = alg_slice_limit(slice, d);
    box.stride[d] = alg_slice_stride(slice, d);
  }
  return box;
}

static HlInst *sliced(HlBuild *b, HlInst *x, const Box *box) {
  return alg_slice(b, x, box->start, box->limit, box->stride);
}

// The slice of x that is to be the result.
static HlInst *result_slice(HlBuild *b, HlInst *inst, HlInst *x, const Box *box) {
  return alg_shaped(hl_b_slice(b, x, box->start, box->limit, box->stride), inst->shape);
}

// --- Slices of slices and pads -------------------------------------------------------------------

HlInst *alg_s1_whole(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  return alg_static(inst) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

HlInst *alg_s1_slice_slice(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_SLICE || !alg_static(inst) || !alg_static(inner) || !alg_unstrided(inst) ||
      !alg_unstrided(inner))
    return NULL;
  Box box = box_of(p, inst);
  for (int d = 0; d < inst->shape->rank; d++) {
    box.start[d] += alg_slice_start(inner, d);
    box.limit[d] += alg_slice_start(inner, d);
  }
  return result_slice(b, inst, inner->operands[0], &box);
}

static bool mixes_types(const HlInst *pad) {
  return pad->operands[0]->shape->dtype != pad->operands[1]->shape->dtype;
}

typedef enum Where { IN_PADDING, UNDOES, INSIDE, ACROSS } Where;

// Where a slice lies in the padded array it is of.
static Where place(const HlInst *slice, const HlInst *pad) {
  bool undoes = true, inside = true;
  HlI64s padding = hl_attr_ints(pad, HL_A_PADDING);
  for (int d = 0; d < slice->shape->rank; d++) {
    int64_t low = padding.at[3 * d], gap = padding.at[3 * d + 2];
    int64_t edge = pad->shape->dim[d] - padding.at[3 * d + 1];
    int64_t start = alg_slice_start(slice, d), limit = alg_slice_limit(slice, d);
    int64_t stride = alg_slice_stride(slice, d);
    if (limit <= low || start >= edge)
      return IN_PADDING;
    if (start != low || stride - 1 != gap)
      undoes = false;
    if (start < low || limit > edge || gap != 0 || stride != 1)
      inside = false;
  }
  return undoes && hl_shape_same_dims(slice->shape, pad->operands[0]->shape) ? UNDOES
         : inside                                                            ? INSIDE
                                                                             : ACROSS;
}

HlInst *alg_s2_of_pad(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pad = inst->operands[0];
  if (pad->op != HL_OP_PAD || !alg_static(inst) || !alg_static(pad) || mixes_types(pad) ||
      hl_shape_elements(inst->shape) == 0)
    return NULL;
  HlInst *x = pad->operands[0];
  switch (place(inst, pad)) {
  case IN_PADDING: return alg_broadcast(b, pad->operands[1], inst->shape, (HlI64s){0});
  case UNDOES: return alg_existing(p, inst, x);
  case INSIDE: {
    Box box = box_of(p, inst);
    for (int d = 0; d < inst->shape->rank; d++) {
      box.start[d] -= hl_attr_ints(pad, HL_A_PADDING).at[3 * d];
      box.limit[d] -= hl_attr_ints(pad, HL_A_PADDING).at[3 * d];
    }
    return result_slice(b, inst, x, &box);
  }
  default: return NULL;
  }
}

// --- Slices of what was joined, repeated, turned -------------------------------------------------

// Only the operands that the slice meets are joined.
HlInst *alg_s3_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *concat = inst->operands[0];
  if (concat->op != HL_OP_CONCATENATE || concat->n_operands > ALG_MOST_PARTS || !alg_static(inst) ||
      !alg_static(concat) || hl_shape_elements(inst->shape) == 0)
    return NULL;
  int dim = (int)hl_dim(concat);
  Box box = box_of(p, inst);
  int64_t last = box.start[dim] + (inst->shape->dim[dim] - 1) * box.stride[dim];
  int64_t at = 0, first_at = 0;
  int first = -1, end = -1;
  for (uint32_t k = 0; k < concat->n_operands && end < 0; k++) {
    int64_t next = at + concat->operands[k]->shape->dim[dim];
    if (first < 0 && box.start[dim] < next) {
      first = (int)k;
      first_at = at;
    }
    if (last < next)
      end = (int)k + 1;
    at = next;
  }
  if (end < 0 || (end > first + 1 && !alg_unstrided(inst)) ||
      end - first == (int)concat->n_operands)
    return NULL;
  box.start[dim] -= first_at;
  box.limit[dim] = last + 1 - first_at;
  HlInst *x = concat->operands[first];
  if (end == first + 1) {
    HlInst *whole = alg_unstrided(inst) ? alg_existing(p, inst, x) : NULL;
    return whole ? whole : result_slice(b, inst, x, &box);
  }
  HlInst *joined = hl_b_concatenate(b, end - first, concat->operands + first, dim);
  if (!joined)
    return NULL;
  alg_shaped(joined, alg_resized(b, concat->shape, joined->shape->dim));
  return result_slice(b, inst, joined, &box);
}

HlInst *alg_s4_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  if (broadcast->op != HL_OP_BROADCAST || !alg_static(inst) || !alg_static(broadcast))
    return NULL;
  HlInst *x = broadcast->operands[0];
  HlI64s dims = hl_dims(broadcast);
  Box box = new_box(p, dims.n);
  bool whole = true;
  for (int k = 0; k < dims.n; k++) {
    int d = (int)dims.at[k];
    box.start[k] = alg_slice_start(inst, d);
    box.limit[k] = alg_slice_limit(inst, d);
    box.stride[k] = alg_slice_stride(inst, d);
    whole &= inst->shape->dim[d] == broadcast->shape->dim[d];
  }
  return alg_broadcast(b, whole ? x : sliced(b, x, &box), inst->shape, dims);
}

// The box of an array of x's sizes that holds `n` elements, row by row, from element `at` on; false: that is no box.
static bool cut_run(const HlShape *x, int64_t at, int64_t n, Box *box) {
  for (int d = x->rank - 1; d >= 0; d--) {
    const int64_t size = x->dim[d], taken = n < size ? n : size;
    box->start[d] = at % size;
    box->limit[d] = box->start[d] + taken;
    if (n % taken != 0 || box->limit[d] > size)
      return false;
    n /= taken;
    at /= size;
  }
  return n == 1;
}

// No dimension is cut but the first that is longer than 1.
static bool cuts_first(const HlShape *x, const Box *box) {
  int d = 0;
  while (d < x->rank && x->dim[d] == 1)
    d++;
  for (d++; d < x->rank; d++)
    if (box->limit[d] - box->start[d] != x->dim[d])
      return false;
  return true;
}

HlInst *alg_s4_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  if (alg_sensitive(p) || reshape->op != HL_OP_RESHAPE || !alg_static(inst) ||
      !alg_static(reshape) || !alg_unstrided(inst) || hl_shape_elements(inst->shape) == 0 ||
      inst->shape->rank == 0)
    return NULL;
  for (int d = 1; d < inst->shape->rank; d++)
    if (inst->shape->dim[d] != reshape->shape->dim[d])
      return NULL;
  const int64_t start = alg_slice_start(inst, 0), n = hl_shape_elements(inst->shape);
  HlInst *x = reshape->operands[0];
  Box box = new_box(p, x->shape->rank);
  if (!cut_run(x->shape, start * (n / inst->shape->dim[0]), n, &box) ||
      !(hl_pass_since(p, HL_XLA_0_11) ? cuts_first(x->shape, &box) : start == 0))
    return NULL;
  HlInst *part = sliced(b, x, &box);
  if (!part)
    return NULL;
  frontend_keep(part, inst);
  // Not x's layout: ops that want operands of one shape would meet another one in place of the reshape.
  if (hl_shape_compatible(part->shape, inst->shape))
    return alg_shaped(part, inst->shape);
  const HlShape *cut = part->shape;
  return alg_reshape(
      b, alg_shaped(part, hl_shape_array(p->m->shapes, cut->dtype, cut->rank, cut->dim)),
      inst->shape);
}

// Window padding alone, below: the last window of each folded dimension sees the whole of it.
static bool keeps_full_window(const HlInst *slice, const HlInst *fold, HlI64s *folded) {
  HlWindow window = hl_window(fold);
  int64_t *dims = (int64_t *)folded->at;
  bool padded = false;
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    int64_t start = alg_slice_start(slice, d), size = fold->shape->dim[d];
    if (w->stride != 1 || w->lhs_dilate != 1 || w->rhs_dilate != 1 || w->reversal ||
        w->pad_high != 0 || w->pad_low != start || alg_slice_limit(slice, d) != size)
      return false;
    padded |= w->pad_low != 0;
    if (w->size == 1 && start == 0)
      continue;
    if (w->size != size || slice->shape->dim[d] != 1)
      return false;
    dims[folded->n++] = d;
  }
  return padded && folded->n > 0;
}

HlInst *alg_s5_of_reduce_window(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *fold = inst->operands[0];
  if (!alg_options(p)->enable_window_reduce_to_reduce_replacement ||
      fold->op != HL_OP_REDUCE_WINDOW || fold->n_operands != 2 || !hl_one_user(fold) ||
      !alg_static(inst) || !alg_static(fold) || !alg_unstrided(inst))
    return NULL;
  HlI64s folded = {alg_list(p, inst->shape->rank), 0};
  if (!keeps_full_window(inst, fold, &folded) ||
      !hl_shape_same_dims(fold->shape, fold->operands[0]->shape))
    return NULL;
  HlComp *comp = hl_to_apply(fold);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(p->m->arena, folded)};
  HlInst *reduce = hl_b_op(b, HL_OP_REDUCE, NULL, 2, fold->operands, 1, &attr, 1, &comp);
  return reduce ? hl_b_op(b, HL_OP_RESHAPE, inst->shape, 1, &reduce, 0, NULL, 0, NULL) : NULL;
}

// Mirrored: the last element that the slice takes becomes the first.
HlInst *alg_s6_of_reverse(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reverse = inst->operands[0];
  if (reverse->op != HL_OP_REVERSE || !alg_static(inst) || hl_shape_elements(inst->shape) == 0)
    return NULL;
  Box box = box_of(p, inst);
  HlI64s dims = hl_dims(reverse);
  for (int k = 0; k < dims.n; k++) {
    int64_t d = dims.at[k], size = reverse->shape->dim[d], start = box.start[d];
    int64_t last = start + (inst->shape->dim[d] - 1) * box.stride[d];
    box.start[d] = size - 1 - last;
    box.limit[d] = size - start;
  }
  HlInst *part = alg_shaped(hl_b_slice(b, reverse->operands[0], box.start, box.limit, box.stride),
                            inst->shape);
  return part ? alg_shaped(hl_b_reverse(b, part, dims), inst->shape) : NULL;
}

HlInst *alg_s7_stride_of_one(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_static(inst))
    return NULL;
  Box box = box_of(p, inst);
  bool changes = false;
  for (int d = 0; d < inst->shape->rank; d++)
    if (box.stride[d] != 1 && inst->shape->dim[d] == 1) {
      box.stride[d] = 1;
      box.limit[d] = box.start[d] + 1;
      changes = true;
    }
  return changes ? result_slice(b, inst, inst->operands[0], &box) : NULL;
}

// --- Slices of dots ------------------------------------------------------------------------------

// Dimension of the dot's result that dimension d of a side becomes; -1 if it is contracted.
static int dim_of_result(const HlInst *dot, int side, int d) {
  HlI64s batch = hl_attr_ints(dot, side ? HL_A_RHS_BATCH_DIMS : HL_A_LHS_BATCH_DIMS);
  HlI64s contract = hl_attr_ints(dot, side ? HL_A_RHS_CONTRACTING_DIMS : HL_A_LHS_CONTRACTING_DIMS);
  int at = hl_i64s_find(batch, d);
  if (at >= 0 || alg_has(contract, d))
    return at;
  at = batch.n;
  if (side)
    at += dot->operands[0]->shape->rank - batch.n - contract.n;
  for (int e = 0; e < d; e++)
    at += !alg_has(batch, e) && !alg_has(contract, e);
  return at;
}

// One side of the sliced dot; notes whether a free dimension of more than one element is left.
static HlInst *sliced_side(HlPass *p, HlBuild *b, HlInst *inst, int side, bool *has_free) {
  HlInst *dot = inst->operands[0], *x = dot->operands[side];
  HlI64s batch = hl_attr_ints(dot, side ? HL_A_RHS_BATCH_DIMS : HL_A_LHS_BATCH_DIMS);
  Box box = new_box(p, x->shape->rank);
  bool whole = true;
  for (int d = 0; d < x->shape->rank; d++) {
    int at = dim_of_result(dot, side, d);
    box.limit[d] = x->shape->dim[d];
    if (at < 0)
      continue;
    box.start[d] = alg_slice_start(inst, at);
    box.limit[d] = alg_slice_limit(inst, at);
    box.stride[d] = alg_slice_stride(inst, at);
    whole &= inst->shape->dim[at] == x->shape->dim[d];
    *has_free |= !alg_has(batch, d) && inst->shape->dim[at] > 1;
  }
  return whole ? x : sliced(b, x, &box);
}

HlInst *alg_s8_of_dot(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *dot = inst->operands[0];
  const AlgSimp *options = alg_options(p);
  if (options->layout_sensitive || !options->raise_slice_and_reduce_through_dot ||
      dot->op != HL_OP_DOT || dot->n_operands != 2 || !alg_static(inst) || !alg_static(dot) ||
      hl_shape_elements(inst->shape) == 0)
    return NULL;
  double ratio = (double)hl_shape_elements(dot->shape) / (double)hl_shape_elements(inst->shape);
  bool free_left = false, free_right = false;
  HlInst *sides[2] = {sliced_side(p, b, inst, 0, &free_left),
                      sliced_side(p, b, inst, 1, &free_right)};
  if (!free_left || !free_right || !sides[0] || !sides[1] ||
      ratio < options->raise_slice_and_reduce_through_dot_threshold)
    return NULL;
  return alg_moved(dot, inst->shape, 2, sides);
}

// --- Pads ----------------------------------------------------------------------------------------

HlInst *alg_s9_of_empty(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (!alg_static(inst) || mixes_types(inst) || hl_shape_elements(inst->operands[0]->shape) != 0)
    return NULL;
  return alg_broadcast(b, inst->operands[1], inst->shape, (HlI64s){0});
}

// Low, high and interior padding, to be changed.
static Box padding_of(HlPass *p, const HlInst *pad) {
  Box box = new_box(p, pad->shape->rank);
  HlI64s padding = hl_attr_ints(pad, HL_A_PADDING);
  for (int d = 0; d < pad->shape->rank; d++) {
    box.start[d] = padding.at[3 * d];
    box.limit[d] = padding.at[3 * d + 1];
    box.stride[d] = padding.at[3 * d + 2];
  }
  return box;
}

static HlInst *padded(HlBuild *b, HlInst *x, HlInst *value, const Box *box, const HlShape *like) {
  HlInst *pad = hl_b_pad(b, x, value, box->start, box->limit, box->stride);
  return pad ? alg_shaped(pad, alg_resized(b, like, pad->shape->dim)) : NULL;
}

HlInst *alg_s9_no_gaps(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!alg_static(inst))
    return NULL;
  Box box = padding_of(p, inst);
  bool changes = false;
  for (int d = 0; d < inst->shape->rank; d++)
    if (box.stride[d] > 0 && x->shape->dim[d] == 1) {
      box.stride[d] = 0;
      changes = true;
    }
  return changes ? padded(b, x, inst->operands[1], &box, inst->shape) : NULL;
}

HlInst *alg_s9_of_nothing(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  HlI64s padding = hl_attr_ints(inst, HL_A_PADDING);
  for (int k = 0; k < padding.n; k++)
    if (padding.at[k] != 0 && k % 3 != 2)
      return NULL;
  return alg_static(inst) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

// The dimensions that are padded, ascending.
static HlI64s padded_dims(HlPass *p, const HlInst *pad) {
  HlI64s padding = hl_attr_ints(pad, HL_A_PADDING);
  int64_t *dims = alg_list(p, pad->shape->rank);
  int n = 0;
  for (int d = 0; d < pad->shape->rank; d++)
    if (padding.at[3 * d] || padding.at[3 * d + 1] || padding.at[3 * d + 2])
      dims[n++] = d;
  return (HlI64s){dims, n};
}

static const int64_t *picked(HlPass *p, const int64_t *list, HlI64s at) {
  int64_t *out = alg_list(p, at.n);
  for (int k = 0; k < at.n; k++)
    out[k] = list[at.at[k]];
  return out;
}

// Padded where it has only the dimensions that are padded, broadcast to the others after that.
HlInst *alg_s11_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  if (broadcast->op != HL_OP_BROADCAST || !hl_one_user(broadcast) || !alg_static(inst) ||
      mixes_types(inst) || !alg_static(broadcast))
    return NULL;
  HlI64s dims = padded_dims(p, inst), old = hl_dims(broadcast);
  if (dims.n == 0 || dims.n == inst->shape->rank)
    return NULL;
  int64_t *at = alg_list(p, old.n);
  for (int k = 0; k < old.n; k++) {
    at[k] = hl_i64s_find(dims, old.at[k]);
    if (at[k] < 0)
      return NULL;
  }
  Box all = padding_of(p, inst);
  HlInst *small = hl_b_broadcast(b, broadcast->operands[0], dims.n,
                                 picked(p, broadcast->shape->dim, dims), (HlI64s){at, old.n});
  HlInst *pad = hl_b_pad(b, small, inst->operands[1], picked(p, all.start, dims),
                         picked(p, all.limit, dims), picked(p, all.stride, dims));
  return alg_broadcast(b, pad, inst->shape, dims);
}

HlInst *alg_s12_negative(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_options(p)->enable_negative_padding_replacement || !alg_static(inst))
    return NULL;
  Box box = padding_of(p, inst), cut = new_box(p, inst->shape->rank);
  bool is_negative = false;
  for (int d = 0; d < inst->shape->rank; d++) {
    cut.start[d] = box.start[d] < 0 ? -box.start[d] : 0;
    cut.limit[d] = cut.start[d] + inst->shape->dim[d];
    is_negative |= box.start[d] < 0 || box.limit[d] < 0;
    box.start[d] = box.start[d] < 0 ? 0 : box.start[d];
    box.limit[d] = box.limit[d] < 0 ? 0 : box.limit[d];
  }
  if (!is_negative)
    return NULL;
  HlInst *grown = padded(b, inst->operands[0], inst->operands[1], &box, inst->shape);
  return grown ? result_slice(b, inst, grown, &cut) : NULL;
}
