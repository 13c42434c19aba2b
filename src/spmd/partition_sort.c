// spmd/partition_sort.c: sorts, and the first k of a sorted line.
//
// A line that is sorted has to be in one place: a cut along it moves to another dimension, cut
// already or not, or the line is gathered. Of a cut line of which only the first k are wanted, as slices of a sort, a topk
// or a call of TopK do, each device sends no more than the first k of its own part, and everybody
// sorts these:
//
//   sort(x)[0:5], x = f32[64] in 4 parts    =>    a = sort(x')[0:5], x' = f32[16]
//                                                 b = f32[20] all-gather(a)
//                                                 sort(b)[0:5]
//
// Candidates stand in the order of their parts: among equals, and by a stable sort, the first ones
// win that would have won in the whole line. Beyond the line's end stand values that are never
// before others.

#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "spmd/partition.h"

// --- Whole lines ----------------------------------------------------------------------------------

// All leaves of a result in one sharding.
static const HlTiles *const *alike(PartComp *c, const HlShape *shape, const HlTiles *t) {
  const int64_t n = hl_shape_leaves(shape);
  const HlTiles **tiles = HL_ARRAY(c->pt->arena, const HlTiles *, n + 1);
  for (int64_t k = 0; k < n; k++)
    tiles[k] = t;
  return tiles;
}

static bool set_all(PartComp *c, HlInst *inst, const HlTiles *t, int n, HlInst *const *operand) {
  const HlTiles *const *tiles = alike(c, inst->shape, t);
  return part_set_leaves(
      c, inst, part_copy(c, inst, part_local_shape(c->pt, inst->shape, tiles), n, operand), tiles);
}

static const HlTiles *without(PartComp *c, const HlTiles *t, int dim) {
  bool *drop = HL_ARRAY(c->pt->arena, bool, t->rank + 1);
  drop[dim] = true;
  return part_without(c, t, drop);
}

static bool sort_lines(PartComp *c, HlInst *inst, const HlTiles *own) {
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  const HlTiles *t = part_move_cut(c, own, (int)hl_dim(inst), hl_operand(inst, 0)->shape);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, t);
  return set_all(c, inst, t, n, operand);
}

// --- Which value comes last -----------------------------------------------------------------------

typedef struct Order {
  int operand;  // the sort's that alone says what comes first; -1: not known
  bool largest, is_total;
} Order;

// A comparator that compares its arguments for one operand.
static Order order_of(const HlComp *comparator) {
  const HlInst *root = comparator->root;
  const Order unknown = {.operand = -1};
  if (root->op != HL_OP_COMPARE || hl_operand(root, 0)->op != HL_OP_PARAMETER ||
      hl_operand(root, 1)->op != HL_OP_PARAMETER)
    return unknown;
  const int64_t a = hl_attr_int(hl_operand(root, 0), HL_A_PARAMETER_NUMBER),
                b = hl_attr_int(hl_operand(root, 1), HL_A_PARAMETER_NUMBER);
  const int64_t direction = hl_attr_int(root, HL_A_DIRECTION);
  const bool greater = direction == HL_WORD_direction_GT;
  if (a / 2 != b / 2 || a == b || (!greater && direction != HL_WORD_direction_LT))
    return unknown;
  return (Order){.operand = (int)(a / 2),
                 .largest = greater == (a < b),
                 .is_total =
                     hl_attr_int(root, HL_A_COMPARISON_TYPE) == HL_WORD_comparison_type_TOTALORDER};
}

static bool is_ordinary(HlDtype dtype) {
  return dtype == HL_F32 || dtype == HL_F64 || dtype == HL_F16 || dtype == HL_BF16 ||
         (hl_is_integral(dtype) && hl_dtype_info[dtype].bits >= 8);
}

// Nothing comes after it: the end of the integers, an infinity, or, in the total order, the not a
// number that lies beyond it.
static HlInst *last_value(PartComp *c, HlDtype dtype, Order order) {
  HlBuild *b = &c->b;
  const int bits = hl_dtype_info[dtype].bits;
  const int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
  if (hl_is_float(dtype) && !order.is_total)
    return hl_b_scalar(b, dtype, order.largest ? -INFINITY : INFINITY);
  if (hl_is_float(dtype)) {
    const HlDtype same = bits == 64 ? HL_S64 : bits == 32 ? HL_S32 : HL_S16;
    return hl_b_bitcast_convert(b, hl_b_scalar_int(b, same, order.largest ? -1 : most), dtype);
  }
  if (hl_is_signed(dtype))
    return hl_b_scalar_int(b, dtype, order.largest ? -most - 1 : most);
  return order.largest ? hl_b_scalar_int(b, dtype, 0)
                       : hl_b_unary(b, HL_OP_NOT, hl_b_scalar_int(b, dtype, 0));
}

// --- The first k ----------------------------------------------------------------------------------

// Where the line is cut into parts of more than k, and how.
typedef struct Line {
  const HlShape *shape;
  const HlTiles *tiles;  // NULL: it is not
  int dim;
  int64_t k;
  Order order;
} Line;

static Line line_of(PartComp *c, const HlInst *inst, int dim, int64_t k, Order order) {
  const HlInst *x = hl_operand(inst, 0);
  Line line = {.shape = x->shape, .dim = dim, .k = k, .order = order};
  const HlTiles *const *own = part_tiles(c, inst);
  const HlTiles *t = part_tiles_now(c, x);
  if (!own || k < 1 || hl_shape_is_dynamic(x->shape) || t->parts[dim] == 1 || t->unreduced > 1 ||
      own[0]->unreduced > 1 || own[0]->manual != t->manual)
    return line;
  const int64_t size = x->shape->dim[dim], parts = t->parts[dim];
  const HlInst *by = order.operand < 0 ? NULL : hl_operand(inst, order.operand);
  if (k < hl_tile_size(size, parts) && (size % parts == 0 || (by && is_ordinary(by->shape->dtype))))
    line.tiles = t;
  return line;
}

// How many of the first of each line all users take; 0: some want more, or something else.
static int64_t first_taken(const HlInst *inst, int dim) {
  int64_t taken = 0;
  if (!inst->first_use || inst == inst->comp->root)
    return 0;
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const HlInst *slice = use->user;
    if (slice->op != HL_OP_SLICE)
      return 0;
    const HlI64s at = hl_attr_ints(slice, HL_A_SLICE);
    for (int d = 0; d < inst->shape->rank; d++)
      if (at.at[3 * d] != 0 || at.at[3 * d + 2] != 1 ||
          (d != dim && at.at[3 * d + 1] != inst->shape->dim[d]))
        return 0;
    const int64_t k = at.at[3 * dim + 1];
    if (k == 0 || (taken && k != taken))
      return 0;
    taken = k;
  }
  return taken;
}

static int64_t first_taken_of_all(const HlInst *sort, int dim) {
  int64_t taken = 0;
  if (hl_shape_is_array(sort->shape))
    return first_taken(sort, dim);
  for (const HlUse *use = sort->first_use; use; use = use->next) {
    const int64_t k = use->user->op == HL_OP_GET_TUPLE_ELEMENT ? first_taken(use->user, dim) : 0;
    if (k == 0 || (taken && k != taken) || sort == sort->comp->root)
      return 0;
    taken = k;
  }
  return taken;
}

static bool is_even(const Line *line) {
  return line->shape->dim[line->dim] % line->tiles->parts[line->dim] == 0;
}

// The tile with what comes last in place of what lies beyond the end.
static HlInst *masked(PartComp *c, const HlInst *inst, int k, const Line *line) {
  HlInst *x = part_operand(c, inst, k, line->tiles);
  if (!x || k != line->order.operand || is_even(line))
    return x;
  bool *dims = HL_ARRAY(c->pt->arena, bool, line->tiles->rank + 1);
  dims[line->dim] = true;
  return part_mask(c, x, line->shape, line->tiles, dims,
                   last_value(c, x->shape->dtype, line->order));
}

// From each part's first k to those of all parts, in a row.
static HlInst *of_all_parts(PartComp *c, HlInst *x, const Line *line) {
  if (!x)
    return NULL;
  const HlTiles *t = line->tiles;
  int64_t *size = hl_arena_copy(c->pt->arena, line->shape->dim, sizeof *size * (size_t)t->rank);
  size[line->dim] = line->k * t->parts[line->dim];
  const HlShape *all = hl_shape_array(c->pt->m->shapes, x->shape->dtype, t->rank, size);
  return part_reshard(c, x, all, t, without(c, t, line->dim));
}

static HlInst *element(PartComp *c, HlInst *x, int k) {
  return x && hl_shape_is_tuple(x->shape) ? hl_b_element(&c->b, x, k) : x;
}

// Sorts n arrays of one size, and takes the first k of each.
static bool sorted_first(PartComp *c, HlComp *comparator, const HlAttr *stable, HlInst **x, int n,
                         const Line *line) {
  for (int k = 0; k < n; k++)
    if (!x[k])
      return false;
  const HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = line->dim}, *stable};
  HlInst *sort = hl_b_op(&c->b, HL_OP_SORT, NULL, n, x, 2, attrs, 1, &comparator);
  for (int k = 0; k < n; k++) {
    HlInst *all = element(c, sort, k);
    x[k] = all ? hl_b_slice_dim(&c->b, all, line->dim, 0, line->k) : NULL;
  }
  return sort && x[n - 1];
}

// Gives a slice of the sort its value, and the element of the sort's result that it is of, so that
// nobody asks for these any more.
static bool set_taken(PartComp *c, const HlInst *from, HlInst *first, const HlTiles *whole) {
  for (const HlUse *use = from->first_use; use; use = use->next)
    if (!part_set(c, use->user, first, whole))
      return false;
  return part_keep(c, from, first, alike(c, from->shape, whole));
}

static bool first_of_sort(PartComp *c, HlInst *inst, const Line *line) {
  const int n = (int)inst->n_operands;
  HlInst **x = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  // Among equals what stands beyond the end must stay behind.
  const HlAttr stable = {.key = HL_A_IS_STABLE,
                         .i = hl_attr_int(inst, HL_A_IS_STABLE) || !is_even(line)};
  for (int k = 0; k < n; k++)
    x[k] = masked(c, inst, k, line);
  if (!sorted_first(c, hl_to_apply(inst), &stable, x, n, line))
    return false;
  for (int k = 0; k < n; k++)
    x[k] = of_all_parts(c, x[k], line);
  if (!sorted_first(c, hl_to_apply(inst), &stable, x, n, line))
    return false;
  const HlTiles *whole = without(c, line->tiles, line->dim);
  if (hl_shape_is_array(inst->shape))
    return set_taken(c, inst, x[0], whole);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!set_taken(c, use->user, x[hl_attr_int(use->user, HL_A_INDEX)], whole))
      return false;
  return part_keep(c, inst, hl_b_tuple(&c->b, n, x), alike(c, inst->shape, whole));
}

bool part_sort(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const int dim = (int)hl_dim(inst);
  if (!own)
    return false;
  const Line line =
      line_of(c, inst, dim, first_taken_of_all(inst, dim), order_of(hl_to_apply(inst)));
  return line.tiles ? first_of_sort(c, inst, &line) : sort_lines(c, inst, own[0]);
}

// --- TopK -----------------------------------------------------------------------------------------

// (x, y, place of x, place of y) -> x before y.
static HlComp *comparator(PartComp *c, HlDtype dtype, HlDtype places, bool largest) {
  HlShapes *shapes = c->pt->m->shapes;
  const HlBuild bare = {.cx = c->b.cx, .comp = c->to, .loc = c->b.loc};
  HlBuild in = hl_b_nested(&bare, largest ? "compare-greater-than" : "compare-less-than");
  HlInst *param[4];
  static const char *const name[] = {"p.0.lhs", "p.0.rhs", "p.1.lhs", "p.1.rhs"};
  for (int k = 0; k < 4; k++)
    param[k] = hl_b_parameter(&in, hl_shape_scalar(shapes, k < 2 ? dtype : places), name[k]);
  HlInst *before = hl_b_compare_total(&in, largest ? HL_WORD_direction_GT : HL_WORD_direction_LT,
                                      param[0], param[1]);
  if (before)
    hl_set_root(in.comp, before);
  return before ? in.comp : NULL;
}

// Each part's first k and their places in the whole line, and of these the first.
static bool first_of_parts(PartComp *c, HlInst *inst, const Line *line, HlComp *before) {
  const HlTiles *t = line->tiles;
  HlInst *x = masked(c, inst, 0, line), *out[2];
  const HlTiles *const *tiles = alike(c, inst->shape, without(c, t, line->dim));
  HlInst *own = part_copy(c, inst, part_local_shape(c->pt, inst->shape, tiles), 1, &x);
  for (int k = 0; k < 2; k++)
    out[k] = own ? hl_b_element(&c->b, own, k) : NULL;
  if (!out[0] || !out[1] || !before)
    return false;
  const HlShape *like = out[1]->shape;
  HlInst *begin = part_offset(c, like->dtype, t, line->dim, line->shape->dim[line->dim]);
  begin = hl_b_broadcast(&c->b, begin, like->rank, like->dim, (HlI64s){0});
  out[1] = hl_b_binary(&c->b, HL_OP_ADD, out[1], begin);
  for (int k = 0; k < 2; k++)
    out[k] = of_all_parts(c, out[k], line);
  const HlAttr stable = {.key = HL_A_IS_STABLE, .i = 1};
  return sorted_first(c, before, &stable, out, 2, line) &&
         part_set_leaves(c, inst, hl_b_tuple(&c->b, 2, out), tiles);
}

// Two exchanges take the place of one: what they move must be much less.
static bool is_much_less(const Line *line, const HlShape *result) {
  const int64_t bytes = hl_dtype_bytes(line->shape->dtype),
                both = bytes + hl_dtype_bytes(result->element[1]->dtype);
  const int64_t tile = hl_tile_size(line->shape->dim[line->dim], line->tiles->parts[line->dim]);
  return 4.0 * (double)both * (double)line->k <= (double)bytes * (double)tile;
}

bool part_topk(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlShape *values = inst->shape->element[0];
  const int last = values->rank - 1;
  const bool largest = hl_attr_int(inst, HL_A_LARGEST) != 0;
  const Line line = line_of(c, inst, last, values->dim[last], (Order){0, largest, true});
  if (line.tiles && is_much_less(&line, inst->shape))
    return first_of_parts(c, inst, &line,
                          comparator(c, values->dtype, inst->shape->element[1]->dtype, largest));
  const HlTiles *t = without(c, own[0], last);
  HlInst *x = part_operand(c, inst, 0, t);
  return set_all(c, inst, t, 1, &x);
}

// A comparator (x, y, place of x, place of y) -> pred[].
static bool compares(const HlComp *comparator, HlDtype dtype, HlDtype places) {
  bool ok = comparator->n_params == 4 && hl_shape_is_scalar(comparator->root->shape) &&
            comparator->root->shape->dtype == HL_PRED;
  for (int k = 0; ok && k < 4; k++) {
    const HlShape *shape = comparator->params[k]->shape;
    ok = hl_shape_is_scalar(shape) && shape->dtype == (k < 2 ? dtype : places);
  }
  return ok;
}

// Values and places of the first k of each line of x: a call may say anything of itself.
static bool is_topk_of(const HlShape *x, const HlShape *out) {
  if (!hl_shape_is_array(x) || x->rank == 0 || !hl_shape_is_tuple(out) || out->rank != 2)
    return false;
  const HlShape *values = out->element[0], *places = out->element[1];
  if (!hl_shape_is_array(values) || !hl_shape_is_array(places) || values->dtype != x->dtype ||
      !hl_is_integral(places->dtype) || values->rank != x->rank ||
      !hl_shape_same_dims(values, places))
    return false;
  for (int d = 0; d < x->rank; d++)
    if (d == x->rank - 1 ? values->dim[d] > x->dim[d] : values->dim[d] != x->dim[d])
      return false;
  return true;
}

static bool is_topk_call(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_TOPK) && inst->n_operands == 1 && inst->n_calls == 1 &&
         !hl_has_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS) &&
         is_topk_of(hl_operand(inst, 0)->shape, inst->shape) &&
         compares(hl_called(inst, 0), inst->shape->element[0]->dtype,
                  inst->shape->element[1]->dtype);
}

// Its comparator takes values and places, as it would in the sort; only the values are an operand.
static Line line_of_call(PartComp *c, const HlInst *inst) {
  const HlShape *values = inst->shape->element[0];
  const int last = values->rank - 1;
  Order order = order_of(hl_called(inst, 0));
  if (order.operand > 0)
    order.operand = -1;
  return line_of(c, inst, last, values->dim[last], order);
}

bool part_is_topk_call(PartComp *c, const HlInst *inst) {
  return is_topk_call(inst) && line_of_call(c, inst).tiles;
}

bool part_topk_call(PartComp *c, HlInst *inst) {
  const Line line = line_of_call(c, inst);
  return first_of_parts(c, inst, &line, hl_called(inst, 0));
}
