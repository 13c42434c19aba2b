// opt/collective/ragged_all_to_all.c
//
// ragged-all-to-all-canonicalizer: offsets and sizes as 64-bit integers, the one type that kernels
// read.
//
//   y = ragged-all-to-all(x, out, o, s, t, r)   =>   y = ragged-all-to-all(x, out, s64 o, s64 s, s64 t, s64 r)

//
// ragged-all-to-all-decomposer: parts of sizes known at run time travel as parts of the largest size
// possible, with their sizes and the places where they belong beside them.
//
//   y = ragged-all-to-all(x, out, o, s, t, r)
//   =>
//   parts = all-to-all(concatenate(dynamic-slice(x, o[0]), dynamic-slice(x, o[1]), ...))
//   where = all-to-all(concatenate(s, t))
//   y = out; of each part as many rows as its size are written over y from its place on

#include "opt/ask/collectives.h"
#include "opt/passes.h"

// --- ragged-all-to-all-canonicalizer ------------------------------------------------------------

static HlInst *widen_offsets(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (inst->n_operands != 6)
    return NULL;
  HlInst *operands[6] = {inst->operands[0], inst->operands[1]};
  bool changes = false;
  for (int k = 2; k < 6; k++) {
    const HlDtype dtype = inst->operands[k]->shape->dtype;
    if (!hl_is_integral(dtype))
      return NULL;
    changes |= dtype != HL_S64;
    operands[k] = hl_b_convert(b, inst->operands[k], HL_S64);
    if (!operands[k])
      return NULL;
  }
  return changes ? hl_inst_copy(b->comp, inst, NULL, 6, operands) : NULL;
}

const HlRule ragged_all_to_all_rules[] = {
    {HL_OP_RAGGED_ALL_TO_ALL, widen_offsets, "ragged-all-to-all-canonicalizer",
     "ragged-all-to-all(x, y, o...) => ragged-all-to-all(x, y, convert(o)...)",
     "offsets of less than 64 bits"},
    {0}};

// --- ragged-all-to-all-decomposer ---------------------------------------------------------------

enum { RAGGED_X, RAGGED_OUT, RAGGED_FROM, RAGGED_SIZE, RAGGED_TO };

// Sizes of an array in p->arena, with `first` in place of the first one and room for one more in front.
static int64_t *sizes(HlPass *p, const HlShape *shape, int64_t first) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int d = 1; d < shape->rank; d++)
    dim[d] = shape->dim[d];
  dim[0] = first;
  return dim;
}

// More rows behind the others, so that a part that starts at any row is whole.
static HlInst *padded(HlPass *p, HlBuild *b, HlInst *x, int64_t rows) {
  int64_t *none = HL_ARRAY(p->arena, int64_t, x->shape->rank);
  int64_t *high = HL_ARRAY(p->arena, int64_t, x->shape->rank);
  high[0] = rows;
  return hl_b_pad(b, x, hl_b_scalar(b, x->shape->dtype, 0), none, high, NULL);
}

// Where a part that begins at row `at` starts.
static HlInst **start_of(HlPass *p, HlBuild *b, HlInst *at, int rank) {
  HlInst **start = HL_ARRAY(p->arena, HlInst *, rank);
  start[0] = at;
  for (int d = 1; d < rank; d++)
    start[d] = hl_b_scalar_int(b, at->shape->dtype, 0);
  return start;
}

// Element (k, column) of an array of rank 2, or element k of one of rank 1.
static HlInst *element_at(HlBuild *b, HlInst *x, int64_t k, int64_t column) {
  HlInst *one = hl_b_slice_dim(b, x, 0, k, k + 1);
  if (x->shape->rank == 2)
    one = hl_b_slice_dim(b, one, 1, column, column + 1);
  return hl_b_reshape(b, one, 0, NULL);
}

// Parts of `rows` rows that this device sends, one after another along a new dimension.
static HlInst *cut_parts(HlPass *p, HlBuild *b, HlInst *x, HlInst *from, int64_t rows) {
  const int rank = x->shape->rank;
  const int64_t n = from->shape->dim[0];
  HlInst *whole = padded(p, b, x, rows), **part = HL_ARRAY(p->arena, HlInst *, n + 1);
  const int64_t *size = sizes(p, x->shape, rows);
  int64_t *stacked = HL_ARRAY(p->arena, int64_t, rank + 1);
  stacked[0] = 1;
  for (int d = 0; d < rank; d++)
    stacked[d + 1] = size[d];
  for (int64_t k = 0; k < n; k++) {
    HlInst **start = start_of(p, b, element_at(b, from, k, 0), rank);
    part[k] = hl_b_reshape(b, hl_b_dynamic_slice(b, whole, start, size), rank + 1, stacked);
  }
  return n == 1 ? part[0] : hl_b_concatenate(b, (int)n, part, 0);
}

static HlInst *exchanged(HlPass *p, HlBuild *b, const HlInst *like, HlInst *x) {
  HlInst *made = coll_new(b, HL_OP_ALL_TO_ALL, like, x->shape, x, 0);
  coll_fresh_channel(p, made);
  return made;
}

// `y` (padded) with the first rows of a part, as many as `size` says, from row `to` on.
static HlInst *written(HlPass *p, HlBuild *b, HlInst *y, HlInst *part, HlInst *size, HlInst *to) {
  const HlShape *shape = part->shape;
  HlInst **start = start_of(p, b, to, shape->rank);
  HlInst *old = hl_b_dynamic_slice(b, y, start, shape->dim);
  HlInst *row = hl_b_iota(b, size->shape->dtype, shape->rank, shape->dim, 0);
  HlInst *most = hl_b_broadcast(b, size, shape->rank, shape->dim, (HlI64s){NULL, 0});
  HlInst *is_in = hl_b_compare(b, HL_WORD_direction_LT, row, most);
  return hl_b_dynamic_update_slice(b, y, hl_b_select(b, is_in, part, old), start);
}

static HlInst *as_column(HlBuild *b, HlInst *x) {
  return hl_b_reshape(b, x, 2, (int64_t[]){x->shape->dim[0], 1});
}

static bool is_decomposable(HlPass *p, const HlInst *inst) {
  if (inst->n_operands != 6 || !hl_shape_is_array(inst->shape))
    return false;
  const HlShape *x = inst->operands[RAGGED_X]->shape, *out = inst->operands[RAGGED_OUT]->shape;
  const HlShape *from = inst->operands[RAGGED_FROM]->shape;
  if (x->rank == 0 || out->rank != x->rank || !hl_shape_compatible(out, inst->shape) ||
      hl_shape_elements(x) == 0 || hl_shape_elements(out) == 0)
    return false;
  for (int k = 0; k < 6; k++)
    if (hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  for (int k = RAGGED_FROM; k <= RAGGED_TO; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (shape->rank != 1 || shape->dtype != from->dtype || shape->dim[0] != from->dim[0])
      return false;
  }
  const CollGroups groups = coll_groups(p, inst);
  return hl_is_integral(from->dtype) && groups.size > 0 && from->dim[0] > 0 &&
         from->dim[0] % groups.size == 0;
}

static HlInst *decompose(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!is_decomposable(p, inst))
    return NULL;
  HlInst *x = inst->operands[RAGGED_X], *out = inst->operands[RAGGED_OUT];
  const int64_t have = x->shape->dim[0], room = out->shape->dim[0];
  const int64_t rows = have < room ? have : room, n = inst->operands[RAGGED_FROM]->shape->dim[0];
  HlInst *parts = exchanged(p, b, inst, cut_parts(p, b, x, inst->operands[RAGGED_FROM], rows));
  HlInst *column[] = {as_column(b, inst->operands[RAGGED_SIZE]),
                      as_column(b, inst->operands[RAGGED_TO])};
  HlInst *where = exchanged(p, b, inst, hl_b_concatenate(b, 2, column, 1));
  HlInst *y = padded(p, b, out, rows);
  const int64_t *size = sizes(p, x->shape, rows);
  for (int64_t k = 0; k < n; k++) {
    HlInst *part = hl_b_reshape(b, hl_b_slice_dim(b, parts, 0, k, k + 1), x->shape->rank, size);
    y = written(p, b, y, part, element_at(b, where, k, 0), element_at(b, where, k, 1));
  }
  return hl_b_slice_dim(b, y, 0, 0, room);
}

const HlRule ragged_decomposer_rules[] = {
    {HL_OP_RAGGED_ALL_TO_ALL, decompose, "ragged-all-to-all-decomposer",
     "ragged-all-to-all(x, y, o, s, t, r) => updates of y by parts of all-to-all(slices of x)",
     "static shapes, groups of one size"},
    {0}};

bool pass_ragged_decomposer(HlPass *p) {
  return coll_run_rules(p, ragged_decomposer_rules, 1);
}
