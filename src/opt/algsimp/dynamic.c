// opt/algsimp/dynamic.c: algebraic rules of dynamic slices and dynamic update slices (S13 to S20).
//
// Start indices are clamped, so that the box lies inside: an index into a dimension that is taken
// whole is 0 whatever it says, and indices that are known make an ordinary slice or pad.
//
//   d = f32[4] dynamic-slice(x, six), dynamic_slice_sizes={4}     (x: f32[8], six: 6)
//                                                 =>   slice(x), slice={[4:8]}

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"

static bool is_plain(const HlInst *inst, int first) {
  return alg_static(inst) && alg_scalar_starts(inst, first) && !alg_in_async(inst);
}

static HlInst *zero_index(HlBuild *b, const HlInst *index) {
  return hl_b_scalar_int(b, index->shape->dtype, 0);
}

static bool is_zero(const HlInst *index) {
  return index->op == HL_OP_CONSTANT && hl_is_all_int(index, 0);
}

// A known start index, where the box of the size would lie in the array's extent.
static bool known_start(const HlInst *index, int64_t extent, int64_t size, int64_t *start) {
  if (!hl_is_constant(index) || !hl_is_integral(index->shape->dtype))
    return false;
  int64_t value = hl_literal_i64(hl_constant(index), 0), last = extent - size;
  bool is_large = value < 0 && hl_is_unsigned(index->shape->dtype);
  *start = is_large || value > last ? last : value < 0 ? 0 : value;
  return true;
}

static HlInst **starts_of(HlPass *p, HlInst *inst, int first) {
  int rank = inst->operands[0]->shape->rank;
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, rank + 1);
  memcpy(starts, inst->operands + first, sizeof *starts * (size_t)rank);
  return starts;
}

// Puts 0 for the indices of dimensions that the box fills; whether there was one.
static bool zero_full_dims(HlBuild *b, const HlInst *inst, const HlShape *box, HlInst **starts) {
  const HlShape *x = inst->operands[0]->shape;
  HlInst *zero = NULL;
  for (int d = 0; d < x->rank; d++)
    if (x->dim[d] == box->dim[d] && !is_zero(starts[d])) {
      zero = zero ? zero : zero_index(b, starts[d]);
      starts[d] = zero && zero->shape == starts[d]->shape ? zero : zero_index(b, starts[d]);
    }
  return zero != NULL;
}

// --- Dynamic slice -------------------------------------------------------------------------------

HlInst *alg_s13_whole(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  return alg_static(inst) && !alg_in_async(inst) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

static HlInst *result_slice(HlBuild *b, HlInst *inst, HlInst *x, HlInst *const *starts) {
  HlInst *slice = hl_b_dynamic_slice(b, x, starts, inst->shape->dim);
  return alg_shaped(slice, inst->shape);
}

HlInst *alg_s13_full_dim(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!is_plain(inst, 1))
    return NULL;
  HlInst **starts = starts_of(p, inst, 1);
  return zero_full_dims(b, inst, inst->shape, starts)
             ? result_slice(b, inst, inst->operands[0], starts)
             : NULL;
}

HlInst *alg_s14_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  if (broadcast->op != HL_OP_BROADCAST || !is_plain(inst, 1) || !alg_static(broadcast))
    return NULL;
  HlInst *x = broadcast->operands[0];
  HlI64s dims = hl_dims(broadcast);
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, dims.n + 1);
  int64_t *sizes = alg_list(p, dims.n);
  for (int k = 0; k < dims.n; k++) {
    starts[k] = inst->operands[1 + dims.at[k]];
    sizes[k] = inst->shape->dim[dims.at[k]];
  }
  if (dims.n > 0)
    x = alg_shaped(hl_b_dynamic_slice(b, x, starts, sizes), alg_resized(b, x->shape, sizes));
  return alg_broadcast(b, x, inst->shape, dims);
}

HlInst *alg_s14_of_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  AlgOnes ones;
  if (alg_sensitive(p) || reshape->op != HL_OP_RESHAPE || !is_plain(inst, 1) ||
      !alg_static(reshape) || hl_shape_elements(inst->shape) == 0 ||
      !alg_only_ones(p, reshape->operands[0]->shape, reshape->shape, &ones))
    return NULL;
  HlInst *x = reshape->operands[0], *zero = NULL;
  int rank = x->shape->rank;
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, rank + 1);
  int64_t *sizes = alg_list(p, rank);
  for (int d = 0; d < rank; d++) {
    bool is_one = ones.to_of[d] < 0 || x->shape->dim[d] == 1;
    if (is_one && !zero)
      zero = zero_index(b, inst->operands[1]);
    starts[d] = is_one ? zero : inst->operands[1 + ones.to_of[d]];
    sizes[d] = is_one ? 1 : inst->shape->dim[ones.to_of[d]];
  }
  if (rank == 0)
    return NULL;
  return alg_reshape(b, hl_b_dynamic_slice(b, x, starts, sizes), inst->shape);
}

HlInst *alg_s14_of_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *transpose = inst->operands[0];
  if (alg_sensitive(p) || transpose->op != HL_OP_TRANSPOSE || !is_plain(inst, 1) ||
      !alg_static(transpose))
    return NULL;
  HlI64s dims = hl_dims(transpose);
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, dims.n + 1);
  int64_t *sizes = alg_list(p, dims.n);
  for (int k = 0; k < dims.n; k++) {
    starts[dims.at[k]] = inst->operands[1 + k];
    sizes[dims.at[k]] = inst->shape->dim[k];
  }
  HlInst *slice = hl_b_dynamic_slice(b, transpose->operands[0], starts, sizes);
  if (!slice)
    return NULL;
  const HlShape *beside =
      hl_align_transpose(p->m->shapes, inst->shape, slice->shape, dims_inverse(p->arena, dims));
  hl_keep_layout(p);
  return hl_b_transpose(b, beside ? alg_shaped(slice, beside) : slice, dims);
}

HlInst *alg_s15_known_start(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (alg_options(p)->disable_dynamic_slice_to_slice_conversion || x->op == HL_OP_CONSTANT ||
      !is_plain(inst, 1) ||
      (alg_sensitive(p) && hl_memory_space(x->shape) != hl_memory_space(inst->shape)))
    return NULL;
  int rank = x->shape->rank;
  int64_t *start = alg_list(p, rank), *limit = alg_list(p, rank);
  for (int d = 0; d < rank; d++) {
    int64_t size = inst->shape->dim[d];
    if (!known_start(inst->operands[1 + d], x->shape->dim[d], size, &start[d]))
      return NULL;
    limit[d] = start[d] + size;
  }
  return alg_shaped(hl_b_slice(b, x, start, limit, NULL), inst->shape);
}

static bool is_int32(HlDtype dtype) {
  return dtype == HL_S32 || dtype == HL_U32;
}

// The element of a count at an index is that index, kept inside.
HlInst *alg_s16_of_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *x = inst->operands[0], *factor = NULL;
  if (!is_plain(inst, 1) || inst->shape->rank != 1 || inst->shape->dim[0] != 1 ||
      !is_int32(inst->shape->dtype) || !is_int32(inst->operands[1]->shape->dtype))
    return NULL;
  if (x->op == HL_OP_MULTIPLY && hl_scalar_broadcast(x->operands[1])) {
    factor = hl_scalar_broadcast(x->operands[1]);
    x = x->operands[0];
  }
  int64_t last = inst->operands[0]->shape->dim[0] - 1;
  if (x->op != HL_OP_IOTA || last > INT32_MAX)
    return NULL;
  HlInst *index = inst->operands[1];
  HlDtype dtype = index->shape->dtype;
  HlInst *inside =
      hl_b_clamp(b, hl_b_scalar_int(b, dtype, 0), index, hl_b_scalar_int(b, dtype, last));
  HlInst *value = hl_b_convert(b, inside, inst->shape->dtype);
  if (factor)
    value = hl_b_binary(b, HL_OP_MULTIPLY, value, factor);
  return alg_reshape(b, value, inst->shape);
}

// --- Boxes in boxes ------------------------------------------------------------------------------

static int64_t largest_of(HlDtype dtype) {
  int bits = hl_dtype_info[dtype].bits - (hl_is_signed(dtype) ? 1 : 0);
  return bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
}

static HlInst *kept_inside(HlBuild *b, HlInst *index, int64_t last) {
  HlDtype dtype = index->shape->dtype;
  int64_t start, top = largest_of(dtype) < last ? largest_of(dtype) : last;
  if (known_start(index, last, 0, &start))
    return hl_b_scalar_int(b, dtype, start < top ? start : top);
  return hl_b_clamp(b, hl_b_scalar_int(b, dtype, 0), index, hl_b_scalar_int(b, dtype, top));
}

// Where a box of `inner` begins that starts at index j of a box of `outer`, which starts at index
// i of the extent; all indices are clamped, the one returned will be. NULL: its type does not hold
// it.
static HlInst *start_within(HlBuild *b, HlInst *i, HlInst *j, int64_t extent, int64_t outer,
                            int64_t inner) {
  if (outer == inner)
    return i;
  HlDtype wide = hl_dtype_info[i->shape->dtype].bits > hl_dtype_info[j->shape->dtype].bits
                     ? i->shape->dtype
                     : j->shape->dtype;
  if (extent - inner > largest_of(wide))
    return NULL;
  if (extent == outer)
    return hl_b_convert(b, kept_inside(b, j, outer - inner), wide);
  return hl_b_binary(b, HL_OP_ADD, hl_b_convert(b, kept_inside(b, i, extent - outer), wide),
                     hl_b_convert(b, kept_inside(b, j, outer - inner), wide));
}

// The starts of all dimensions: those at `first` of `outer` and `second` of `inner`.
static HlInst **starts_within(HlPass *p, HlBuild *b, HlInst *const *outer, HlInst *const *inner,
                              const HlShape *x, const HlShape *box, const HlShape *small) {
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, x->rank + 1);
  HlDtype dtype = HL_NO_DTYPE;
  for (int d = 0; d < x->rank; d++) {
    starts[d] = start_within(b, outer[d], inner[d], x->dim[d], box->dim[d], small->dim[d]);
    if (!starts[d])
      return NULL;
    HlDtype own = starts[d]->shape->dtype;
    if (dtype == HL_NO_DTYPE || hl_dtype_info[own].bits > hl_dtype_info[dtype].bits)
      dtype = own;
  }
  for (int d = 0; d < x->rank; d++)  // all of one type
    if (starts[d]->shape->dtype != dtype &&
        hl_is_unsigned(starts[d]->shape->dtype) != hl_is_unsigned(dtype))
      return NULL;
    else
      starts[d] = hl_b_convert(b, starts[d], dtype);
  return starts;
}

HlInst *alg_s17_slice_slice(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_DYNAMIC_SLICE || !is_plain(inst, 1) || !is_plain(inner, 1))
    return NULL;
  HlInst *x = inner->operands[0];
  HlInst **starts = starts_within(p, b, inner->operands + 1, inst->operands + 1, x->shape,
                                  inner->shape, inst->shape);
  return starts ? result_slice(b, inst, x, starts) : NULL;
}

// --- Dynamic update slice ------------------------------------------------------------------------

// What is moved to the host is moved in the form of a dynamic update slice.
static bool goes_to_host(const HlInst *inst) {
  for (int step = 0; step < 64; step++) {
    if (inst->op == HL_OP_CUSTOM_CALL)
      return hl_is_call(inst, HL_CALL_MOVE_TO_HOST);
    if (inst->op != HL_OP_RESHAPE && inst->op != HL_OP_BITCAST && inst->op != HL_OP_COPY)
      return false;
    inst = inst->operands[0];
  }
  return false;
}

HlInst *alg_s18_into_scalar(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *scalar = hl_scalar_broadcast(inst->operands[0]), *update = inst->operands[1];
  if (!scalar || !is_plain(inst, 2) || goes_to_host(update))
    return NULL;
  int rank = inst->shape->rank;
  int64_t *low = alg_list(p, rank), *high = alg_list(p, rank);
  for (int d = 0; d < rank; d++) {
    int64_t size = update->shape->dim[d], extent = inst->shape->dim[d];
    if (!known_start(inst->operands[2 + d], extent, size, &low[d]))
      return NULL;
    high[d] = extent - low[d] - size;
  }
  return alg_shaped(hl_b_pad(b, update, scalar, low, high, NULL), inst->shape);
}

HlInst *alg_s19_whole(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  if (!alg_static(inst) || alg_in_async(inst))
    return NULL;
  HlInst *update = inst->operands[1];
  return alg_existing(p, inst,
                      hl_shape_elements(update->shape) == 0 &&
                              !hl_shape_same_dims(update->shape, inst->shape)
                          ? inst->operands[0]
                          : update);
}

static HlInst *result_update(HlBuild *b, HlInst *inst, HlInst *update, HlInst *const *starts) {
  return alg_shaped(hl_b_dynamic_update_slice(b, inst->operands[0], update, starts), inst->shape);
}

HlInst *alg_s19_full_dim(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!is_plain(inst, 2))
    return NULL;
  HlInst **starts = starts_of(p, inst, 2);
  return zero_full_dims(b, inst, inst->operands[1]->shape, starts)
             ? result_update(b, inst, inst->operands[1], starts)
             : NULL;
}

// The box that is updated in part goes back where it came from: only that part changes.
HlInst *alg_s20_update_of_part(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[1], *x = inst->operands[0];
  if (inner->op != HL_OP_DYNAMIC_UPDATE_SLICE || !is_plain(inst, 2) || !is_plain(inner, 2))
    return NULL;
  HlInst *part = inner->operands[0];
  if (part->op != HL_OP_DYNAMIC_SLICE || part->operands[0] != x || !is_plain(part, 1))
    return NULL;
  for (int d = 0; d < x->shape->rank; d++)
    if (part->operands[1 + d] != inst->operands[2 + d])
      return NULL;
  HlInst **starts = starts_within(p, b, inst->operands + 2, inner->operands + 2, x->shape,
                                  part->shape, inner->operands[1]->shape);
  return starts ? result_update(b, inst, inner->operands[1], starts) : NULL;
}
