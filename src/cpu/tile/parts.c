// cpu/tile/parts.c: long reductions to a few values, cut into parts that threads share, and those that fold short pieces of rows.
//
//   r = f32[] reduce(f32[64,1000000] x)      nest 0: p < 1000     t[p] = fold of what x[i, 1000 p + j] is, j < 1000
//                                            nest 1:              r = fold of t[p]
//   r = f32[32] reduce(f32[3136,32,8] x)     nest 0: g, p < 8     t[g,p] = fold of x[i,g,p]: whole rows
//                                            nest 1: g            r[g] = fold of t[g,p]
//
// The second kind is what a normalisation of groups of features asks for: along memory a few elements are folded, then others are.
// How many parts there are depends on the sizes alone, and so does the order of a sum. Reductions of the same elements are made
// together, part by part, so that the second of them finds its part in the cache.

#include "cpu/tile/plan.h"

enum { FEW = 16, PART = 1 << 18, MOST_PARTS = 1 << 12, ENOUGH = 32 };
// Of short pieces: so many elements that few sums at once, which few threads share, would take long.
enum { PIECE = 64, ROW = 64, TIMES = 16, MANY = 1 << 14, SUMS = 1 << 11, LONG = 1 << 20 };

// Whether what an instruction is computed from calls anything, as reductions do: each part would make that again.
static bool calls(HlArena *arena, const HlInst *value) {
  bool *needed = HL_ARRAY(arena, bool, value->comp->next_id + 1);
  needed[value->id] = true;
  for (const HlInst *inst = value; inst; inst = inst->prev) {
    if (!needed[inst->id])
      continue;
    if (inst->n_calls > 0)
      return true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  }
  return false;
}

// In whole tiles where there are some: of a row each part begins where lines of memory do.
static int64_t length_of(int64_t n, int64_t parts) {
  const int64_t length = n / parts;
  return length >= 4 * TILE_SIZE ? length / TILE_SIZE * TILE_SIZE : length;
}

// The outermost dimension that has enough for as many parts, or the longest.
static bool choose(const HlInst *reduce, const int64_t *stride, int64_t parts, Part *out) {
  const HlI64s dims = hl_dims(reduce);
  const HlShape *from = reduce->operands[0]->shape;
  out->dim = -1;
  for (int k = 0; k < dims.n; k++) {
    const int d = (int)dims.at[k], best = out->dim;
    const int64_t n = from->dim[d];
    const bool enough = n >= parts || n >= ENOUGH,
               had = best >= 0 && (from->dim[best] >= parts || from->dim[best] >= ENOUGH);
    if (best < 0 || (enough && (!had || stride[d] > stride[best])) ||
        (!enough && !had && n > from->dim[best]))
      out->dim = d;
  }
  if (out->dim < 0)
    return false;
  const int64_t n = from->dim[out->dim];
  out->length = length_of(n, parts < n ? parts : n);
  out->whole = n / out->length;
  out->rest = n % out->length;
  return out->whole > 1;
}

// Whether neighbours in memory are folded: else a row of results is, whose pieces are shared already.
static bool folds_rows(const HlInst *reduce, const int64_t *stride) {
  const HlI64s dims = hl_dims(reduce);
  for (int k = 0; k < dims.n; k++)
    if (stride[dims.at[k]] == 1 && reduce->operands[0]->shape->dim[dims.at[k]] > 1)
      return true;
  return false;
}

// The first kind.
static bool choose_long(Lower *l, const HlInst *reduce, const int64_t *stride, Part *part) {
  const int64_t results = hl_shape_elements(reduce->shape),
                elements = hl_shape_elements(reduce->operands[0]->shape);
  if (results >= FEW || elements / results < 2 * PART)
    return false;
  int64_t parts = elements / results / PART;
  parts = parts < MOST_PARTS ? parts : MOST_PARTS;
  return folds_rows(reduce, stride) && choose(reduce, stride, parts, part);
}

// The dimension along which elements lie so far apart; -1: none.
static int dim_of_stride(const HlShape *shape, const int64_t *stride, int64_t step) {
  for (int d = 0; d < shape->rank; d++)
    if (shape->dim[d] > 1 && stride[d] == step)
      return d;
  return -1;
}

// The second kind: short pieces of memory are folded that lie side by side, each of another result, and many of these rows.
static bool choose_short(const HlInst *reduce, const int64_t *stride, Part *out) {
  const HlI64s dims = hl_dims(reduce);
  const HlShape *from = reduce->operands[0]->shape;
  const int minor = dim_of_stride(from, stride, 1);
  if (minor < 0 || hl_i64s_find(dims, minor) < 0)
    return false;
  const int64_t n = from->dim[minor], results = hl_shape_elements(reduce->shape),
                elements = hl_shape_elements(from);
  int64_t row = n;
  for (int d; (d = dim_of_stride(from, stride, row)) >= 0 && hl_i64s_find(dims, d) < 0;)
    row *= from->dim[d];
  *out = (Part){out->inst, minor, 1, n, 0, out->buffer, out->dtype};
  return n <= PIECE && row > n && row >= ROW && elements >= MANY &&
         elements / n / results >= TIMES && (n * results >= SUMS || elements < LONG);
}

static void consider(Lower *l, const HlInst *reduce, bool alone) {
  Part part = {.inst = reduce, .buffer = -1};
  const HlShape *from = reduce->operands[0]->shape;
  if (!tile_has_parts(l->maker, reduce, &part.dtype) || !hl_shape_is_array(reduce->shape) ||
      hl_shape_elements(reduce->shape) == 0)
    return;
  const int64_t *stride = cpu_strides(l->arena, from);
  if (!choose_long(l, reduce, stride, &part) && !choose_short(reduce, stride, &part))
    return;
  if (!alone && calls(l->arena, reduce->operands[0]))
    return;
  for (int k = 0; k < l->part.n; k++)
    if (l->part.at[k].inst == reduce)
      return;
  vec_push_in(l->arena, &l->part, part);
}

void tile_find_parts(Lower *l, const HlInst *root, bool alone) {
  if (alone) {
    if (root->op == HL_OP_REDUCE)
      consider(l, root, true);
    return;
  }
  bool *needed = HL_ARRAY(l->arena, bool, root->comp->next_id + 1);
  needed[root->id] = true;
  for (const HlInst *inst = root; inst; inst = inst->prev) {
    if (!needed[inst->id])
      continue;
    if (inst->op == HL_OP_REDUCE)
      consider(l, inst, false);
    else
      for (uint32_t k = 0; k < inst->n_operands; k++)
        needed[inst->operands[k]->id] = true;
  }
}
