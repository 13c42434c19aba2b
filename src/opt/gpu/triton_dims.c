// opt/gpu/triton_dims.c: how an array around a dot walks through the dot's dimensions.

#include "opt/gpu/triton_dims.h"

#include <string.h>

#include "opt/gpu/triton.h"

// Sizes along which arrays are joined are multiples of it: a tile never lies in two of them.
enum { JOINED = 64 };

static bool is_cut(const TritonPart *part) {
  return part->count != part->size;
}

static TritonPart whole(int dim, int64_t size) {
  return (TritonPart){dim, size, 0, size};
}

static TritonDims new_dims(HlArena *arena, int capacity) {
  return (TritonDims){HL_ARRAY(arena, TritonPart, capacity + 1), HL_ARRAY(arena, int, capacity + 1),
                      0};
}

static int64_t minor_dim(const HlShape *shape, int k) {
  return shape->layout ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k;
}

TritonDims triton_dims_of(HlArena *arena, const HlShape *shape) {
  TritonDims dims = new_dims(arena, shape->rank);
  for (int k = 0; k < shape->rank; k++) {
    const int64_t d = minor_dim(shape, k);
    dims.order[dims.n] = dims.n;
    dims.at[dims.n++] = whole((int)d, shape->dim[d]);
  }
  return dims;
}

// --- What a walk needs ------------------------------------------------------------------------------

// The parts of one dimension must lie in memory in their order, and side by side, but for those of size 1; one dimension
// may lie in two places, of which the outer one is always as large.
static bool meets(const TritonDims *dims, int dim, TritonSplit *split) {
  int n_groups = 0, last = -1, k = 0, n = 0;
  int *at = dims->order;
  for (int i = 0; i < dims->n; i++)
    n += dims->at[at[i]].dim == dim;
  for (int i = 0, seen = 0; i < dims->n; i++)
    if (dims->at[at[i]].dim == dim && ++seen < n && is_cut(&dims->at[at[i]]))
      return false;
  while (k < dims->n) {
    if (dims->at[at[k]].dim != dim) {
      k++;
      continue;
    }
    int end = at[k];
    int64_t size = dims->at[end].size;
    for (k++; k < dims->n; k++) {
      if (dims->at[at[k]].dim != dim)
        continue;
      if (at[k] != end + 1)
        break;
      end = at[k];
      size *= dims->at[end].size;
    }
    if (size == 1)
      continue;
    if (last > end || (++n_groups > 1 && dim != split->dim) || n_groups > 2)
      return false;
    if (n_groups == 2) {
      if (split->major && split->major != size)
        return false;
      split->major = size;
    }
    last = end;
  }
  return true;
}

static bool meets_all(const TritonDims *dims, TritonSplit *split) {
  for (int k = 0; k < dims->n; k++) {
    bool is_first = true;
    for (int i = 0; i < k; i++)
      is_first = is_first && dims->at[i].dim != dims->at[k].dim;
    if (is_first && !meets(dims, dims->at[k].dim, split))
      return false;
  }
  return true;
}

// --- Ways ------------------------------------------------------------------------------------------

// The order of parts within their dimensions follows the source's: places[k] holds where its part k went.
typedef struct Places {
  int *first, *n;  // a run of parts in the destination
} Places;

static void copy_order(const TritonDims *from, const Places *places, TritonDims *to) {
  int n = 0;
  for (int k = 0; k < from->n; k++)
    for (int i = 0; i < places->n[from->order[k]]; i++)
      to->order[n++] = places->first[from->order[k]] + i;
}

static void add(TritonDims *to, Places *places, int source, TritonPart part) {
  if (places->n[source]++ == 0)
    places->first[source] = to->n;
  to->at[to->n++] = part;
}

// Sizes in memory, innermost first, on both sides: where one is a multiple of the other it is divided.
static bool through_bitcast(HlArena *arena, const HlShape *shape, const TritonDims *from,
                            TritonDims *to) {
  *to = new_dims(arena, from->n + 2 * shape->rank + 2);
  Places places = {HL_ARRAY(arena, int, from->n + 1), HL_ARRAY(arena, int, from->n + 1)};
  int64_t open = 1;  // what is still missing of the destination's current dimension
  int next = 0;
  for (int k = 0; k < from->n; k++) {
    const TritonPart *part = &from->at[k];
    if (open >= part->size) {
      if (open % part->size)
        return false;
      add(to, &places, k, *part);
      open /= part->size;
      continue;
    }
    int64_t left = part->size;
    if (is_cut(part) || (open > 1 && left % open))
      return false;
    if (open > 1) {
      add(to, &places, k, whole(part->dim, open));
      left /= open;
      open = 1;
    }
    while (left > 1) {
      if (next == shape->rank)
        return false;
      const int64_t size = shape->dim[minor_dim(shape, next++)];
      if (size > left && size % left)
        return false;
      const int64_t taken = size > left ? left : size;
      if (taken == 0 || left % taken)
        return false;
      open = size > left ? size / left : 1;
      add(to, &places, k, whole(part->dim, taken));
      left /= taken;
    }
  }
  for (; next < shape->rank; next++) {
    if (open != 1 || shape->dim[minor_dim(shape, next)] != 1)
      return false;
    if (to->n > 0)
      add(to, &places, from->n - 1, whole(to->at[to->n - 1].dim, 1));
  }
  copy_order(from, &places, to);
  return open == 1;
}

// The parts of each dimension of a shape: part[d] .. part[d] + n[d].
static bool group(const HlShape *shape, const TritonDims *dims, Places *of) {
  int next = 0;
  if (dims->n < shape->rank)
    return false;  // what has only one element is not followed further
  for (int k = 0; k < shape->rank; k++) {
    const int64_t d = minor_dim(shape, k);
    of->first[d] = next;
    int64_t size = 1;
    do {
      if (next == dims->n)
        return false;
      size *= dims->at[next++].size;
    } while (size < shape->dim[d]);
    if (size != shape->dim[d])
      return false;
    of->n[d] = next - of->first[d];
  }
  return true;
}

// A broadcast loses dimensions on the way up; a block of one that is kept in part is none.
static bool loses_part(const TritonDims *from, const Places *places, const TritonDims *to) {
  for (int k = 0; k < from->n; k++)
    if (places->n[k] == 0 && from->at[k].size > 1)
      for (int i = 0; i < to->n; i++)
        if (to->at[i].dim == from->at[k].dim && to->at[i].size > 1)
          return true;
  return false;
}

// Dimension d of `to_shape` is dimension source[d] of the grouped shape.
static bool through_dims(HlArena *arena, const TritonDims *from, const Places *of,
                         const HlShape *to_shape, const int64_t *source, bool is_broadcast,
                         TritonDims *to) {
  *to = new_dims(arena, from->n);
  Places places = {HL_ARRAY(arena, int, from->n + 1), HL_ARRAY(arena, int, from->n + 1)};
  for (int k = 0; k < to_shape->rank; k++) {
    const int64_t d = source[minor_dim(to_shape, k)];
    for (int i = 0; i < of->n[d]; i++)
      add(to, &places, of->first[d] + i, from->at[of->first[d] + i]);
  }
  copy_order(from, &places, to);
  return !is_broadcast || !loses_part(from, &places, to);
}

// The window of one operand: dimension d becomes as large as the operand's, of which `start` and `count` are walked.
static bool set_window(TritonDims *dims, const Places *of, const HlShape *operand, int64_t d,
                       int64_t start, int64_t count) {
  if (of->n[d] != 1)
    return false;
  for (int k = 0, at = 0; k < operand->rank; k++) {
    const int64_t dim = minor_dim(operand, k);
    if (dim == d) {
      dims->at[at].size = operand->dim[d];
      dims->at[at].start = start;
      dims->at[at].count = count;
      return true;
    }
    at += of->n[dim];
  }
  return false;
}

static bool up_slice(HlArena *arena, const HlInst *inst, const TritonDims *dims, const Places *of,
                     const int64_t *same, TritonDims *out) {
  const HlShape *operand = inst->operands[0]->shape;
  if (hl_shape_elements(inst->shape) == 1)
    return false;
  if (!through_dims(arena, dims, of, operand, same, false, out))
    return false;
  for (int d = 0; d < operand->rank; d++) {
    const int64_t *cut = hl_attr_ints(inst, HL_A_SLICE).at + 3 * d;  // start, limit, stride
    const TritonPart *part = &dims->at[of->first[d]];
    if (cut[2] != 1)
      return false;
    if (inst->shape->dim[d] != operand->dim[d] &&
        !set_window(out, of, operand, d, part->start + cut[0], part->count))
      return false;
  }
  return true;
}

// Arrays side by side along the free dimension.
static bool up_concatenate(HlArena *arena, const HlInst *inst, const TritonDims *dims,
                           const Places *of, const int64_t *same, int free, TritonDims *out) {
  const int64_t along = hl_dim(inst);
  int n_free = 0;
  for (int k = 0; k < dims->n; k++)
    n_free += dims->at[k].dim == free;
  if (free < 0 || n_free > 1 || of->n[along] != 1 || dims->at[of->first[along]].dim != free ||
      is_cut(&dims->at[of->first[along]]))
    return false;
  int64_t before = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *operand = inst->operands[k]->shape;
    const int64_t size = operand->dim[along];
    if (size % JOINED || !through_dims(arena, dims, of, operand, same, false, &out[k]) ||
        !set_window(&out[k], of, operand, along, -before, size))
      return false;
    before += size;
  }
  return true;
}

// --- Instructions ----------------------------------------------------------------------------------

static const int64_t *iota_dims(HlArena *arena, int rank) {
  int64_t *at = HL_ARRAY(arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    at[k] = k;
  return at;
}

static const int64_t *transposed(HlArena *arena, HlI64s permutation, bool up) {
  int64_t *source = HL_ARRAY(arena, int64_t, permutation.n + 1);
  for (int k = 0; k < permutation.n; k++)
    source[up ? permutation.at[k] : k] = up ? k : permutation.at[k];
  return source;
}

static bool feeds(const HlInst *inst, HlOp op) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op == op)
      return true;
  return false;
}

static bool is_pointwise(const HlInst *inst) {
  return inst->op == HL_OP_CONVERT || (triton_is_elementwise(inst) && inst->op != HL_OP_COPY);
}

static bool propagate(HlArena *arena, const HlInst *inst, bool up, const TritonDims *dims, int free,
                      TritonDims *out) {
  const int n_out = up ? (int)inst->n_operands : 1;
  if (up && !hl_op_is((HlOp)inst->op, HL_T_VIEW) &&
      (feeds(inst, HL_OP_DYNAMIC_SLICE) || (!is_pointwise(inst) && feeds(inst, HL_OP_CONCATENATE))))
    return false;
  if (inst->op == HL_OP_CONSTANT)
    return up && hl_shape_is_scalar(inst->shape);
  if (is_pointwise(inst)) {
    for (int k = 0; k < n_out; k++)
      out[k] = *dims;
    return true;
  }
  if (inst->n_operands == 0)
    return false;
  const HlShape *from = up ? inst->shape : inst->operands[0]->shape,
                *to = up ? inst->operands[0]->shape : inst->shape;
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return from->dtype == to->dtype && through_bitcast(arena, to, dims, out);
  Places of = {HL_ARRAY(arena, int, from->rank + 1), HL_ARRAY(arena, int, from->rank + 1)};
  switch (inst->op) {
  case HL_OP_TRANSPOSE:
    return group(from, dims, &of) &&
           through_dims(arena, dims, &of, to, transposed(arena, hl_dims(inst), up), false, out);
  case HL_OP_COPY:
    return group(from, dims, &of) &&
           through_dims(arena, dims, &of, to, iota_dims(arena, to->rank), false, out);
  case HL_OP_BROADCAST:
    return up && group(from, dims, &of) &&
           through_dims(arena, dims, &of, to, hl_dims(inst).at, true, out);
  case HL_OP_SLICE:
    return up && group(from, dims, &of) &&
           up_slice(arena, inst, dims, &of, iota_dims(arena, to->rank), out);
  case HL_OP_CONCATENATE:
    return up && group(from, dims, &of) &&
           up_concatenate(arena, inst, dims, &of, iota_dims(arena, to->rank), free, out);
  default: return false;
  }
}

bool triton_dims_up(HlArena *arena, const HlInst *inst, const TritonDims *dims, TritonSplit *split,
                    TritonDims *out) {
  TritonSplit after = *split;
  if (!propagate(arena, inst, true, dims, split->free, out))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!meets_all(&out[k], &after))
      return false;
  *split = after;
  return true;
}

bool triton_dims_down(HlArena *arena, const HlInst *inst, const TritonDims *dims,
                      TritonSplit *split, TritonDims *out) {
  TritonSplit after = *split;
  if (!propagate(arena, inst, false, dims, split->free, out) || !meets_all(out, &after))
    return false;
  *split = after;
  return true;
}

// --- Equality --------------------------------------------------------------------------------------

// Runs of parts of one dimension are one part.
static int merged(HlArena *arena, const TritonDims *dims, TritonPart **out) {
  TritonPart *at = HL_ARRAY(arena, TritonPart, dims->n + 1);
  int n = 0;
  for (int k = 0; k < dims->n; k++) {
    const TritonPart *part = &dims->at[k];
    if (part->size == 1)
      continue;
    if (n > 0 && at[n - 1].dim == part->dim) {
      at[n - 1].start = part->start * at[n - 1].size;
      at[n - 1].count = part->count * at[n - 1].size;
      at[n - 1].size *= part->size;
    } else {
      at[n++] = *part;
    }
  }
  *out = at;
  return n;
}

bool triton_dims_equal(HlArena *arena, const TritonDims *a, const TritonDims *b) {
  TritonPart *x, *y;
  const int n = merged(arena, a, &x);
  if (merged(arena, b, &y) != n)
    return false;
  for (int k = 0; k < n; k++)
    if (x[k].dim != y[k].dim || x[k].size != y[k].size || x[k].start != y[k].start ||
        x[k].count != y[k].count)
      return false;
  return true;
}
