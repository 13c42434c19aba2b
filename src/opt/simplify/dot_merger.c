// opt/simplify/dot_merger.c: small dots that share an operand become one dot.
//
//   d1 = f32[3,4] dot(x [3,5], w1 [5,4])        w = f32[5,10] concatenate(w1, w2), dimensions={1}
//   d2 = f32[3,6] dot(x,       w2 [5,6])   =>   d = f32[3,10] dot(x, w)
//                                               d1 = slice(d)[:, 0:4], d2 = slice(d)[:, 4:10]
//
// No dot may depend on another that it is merged with. Until 0.11 that was told by levels: the largest number
// of dots on a way from the computation's parameters. Dots of one level cannot depend on each
// other. Since then it is looked up, none is more than 16 times as long as another in the dimension that is joined,
// and what is joined stands in an order in which the next one begins at an aligned place for as long as possible: sizes
// that the largest power of two divides come first, and of those the largest.
#include <stdlib.h>

#include "opt/ask/dots.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

static int *find_levels(HlPass *p, const HlComp *comp) {
  int *level = HL_ARRAY(p->arena, int, comp->next_id);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    int most = 0;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (level[inst->operands[k]->id] > most)
        most = level[inst->operands[k]->id];
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      if (level[inst->control->preds[k]->id] > most)
        most = level[inst->control->preds[k]->id];
    level[inst->id] = most + (inst->op == HL_OP_DOT);
  }
  return level;
}

static int64_t bytes_of(const HlShape *shape) {
  return hl_shape_elements(shape) * hl_dtype_bytes(shape->dtype);
}

// One free dimension on the other side, which is what is joined; small; nobody orders it.
static bool may_merge(const HlInst *dot, DotDims d, int shared, int64_t most) {
  if (d.free[1 - shared].n != 1 || hl_has_control(dot) || hl_sharding(dot) || !all_static(dot))
    return false;
  return bytes_of(dot->operands[0]->shape) + bytes_of(dot->operands[1]->shape) +
             bytes_of(dot->shape) <=
         most;
}

static bool same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *x = hl_attr(a, key), *y = hl_attr(b, key);
  return x && y ? hl_attr_equal(x, y) : x == y;
}

static bool agree(const HlInst *a, DotDims da, const HlInst *b, DotDims db, int shared) {
  const HlShape *x = a->operands[1 - shared]->shape, *y = b->operands[1 - shared]->shape;
  for (int s = 0; s < 2; s++)
    if (!hl_i64s_equal(da.batch[s], db.batch[s]) || !hl_i64s_equal(da.contract[s], db.contract[s]))
      return false;
  return x->dtype == y->dtype && x->rank == y->rank && a->shape->dtype == b->shape->dtype &&
         same_attr(a, b, HL_A_OPERAND_PRECISION) && same_attr(a, b, HL_A_ALGORITHM);
}

enum { MOST_USES = 1024 };  // that are looked through for one group

static bool is_free_of(HlPass *p, const HlInst *dot, HlInst *const *group, int n) {
  for (int k = 0; k < n; k++)
    if (dot == group[k] || hl_reaches(p, group[k], dot) || hl_reaches(p, dot, group[k]))
      return false;
  return true;
}

static int64_t joined_size(HlPass *p, const HlInst *dot, int shared) {
  return dot->operands[1 - shared]->shape->dim[dot_dims(p->arena, dot).free[1 - shared].at[0]];
}

enum { MOST_TIMES = 16 };

static bool is_like_all(HlPass *p, const HlInst *dot, HlInst *const *group, int n, int shared) {
  const int64_t size = joined_size(p, dot, shared);
  for (int k = 0; k < n; k++) {
    const int64_t other = joined_size(p, group[k], shared);
    const int64_t more = size > other ? size : other, less = size > other ? other : size;
    if (less < INT64_MAX / MOST_TIMES && more > less * MOST_TIMES)
      return false;
  }
  return true;
}

typedef struct Joined {
  HlInst *dot;
  int64_t size;  // that it has of the dimension that is joined
  int place;
} Joined;

static int aligned_first(const void *a, const void *b) {
  const Joined *x = a, *y = b;
  const int64_t of_x = x->size & -x->size, of_y = y->size & -y->size;
  if (of_x != of_y)
    return of_x > of_y ? -1 : 1;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  return x->place - y->place;
}

// In the order in which they are joined.
static void sort_group(HlPass *p, HlInst **group, int n, int shared) {
  Joined *joined = HL_ARRAY(p->arena, Joined, n + 1);
  for (int k = 0; k < n; k++)
    joined[k] = (Joined){group[k], joined_size(p, group[k], shared), k};
  qsort(joined, (size_t)n, sizeof *joined, aligned_first);
  for (int k = 0; k < n; k++)
    group[k] = joined[k].dot;
}

// The dots that use `x` on this side and go together with `first`.
static int find_group(HlPass *p, const HlInst *x, int shared, HlInst *first, const int *level,
                      uint32_t n_ids, HlInst **group) {
  DotDims d = dot_dims(p->arena, first);
  int n = 0, n_seen = 0;
  int64_t most = hl_pass_int(p, "max_size");
  const bool by_level = !hl_pass_since(p, HL_XLA_0_11);
  if (!by_level && may_merge(first, d, shared, most))
    group[n++] = first;
  for (const HlUse *use = x->first_use; use && n_seen < MOST_USES; use = use->next, n_seen++) {
    HlInst *dot = use->user;
    if (dot->op != HL_OP_DOT || use->number != shared || dot->id >= n_ids ||
        (by_level && level[dot->id] != level[first->id]) || dot->operands[0] == dot->operands[1])
      continue;
    DotDims other = dot_dims(p->arena, dot);
    if (may_merge(dot, other, shared, most) && agree(first, d, dot, other, shared) &&
        (by_level || (is_like_all(p, dot, group, n, shared) && is_free_of(p, dot, group, n))))
      group[n++] = dot;
  }
  if (!by_level)
    sort_group(p, group, n, shared);
  return n;
}

// --- What the shared operand is a view of ----------------------------------------------------------

// A dot's side by itself, where the dimensions it sums over are one.
typedef struct Side {
  HlInst *x;
  HlI64s contract;
  int n_free;
} Side;

// From which dimensions of `mid` on the second one of a matrix that reshapes it begins; -1: it tears one apart.
static int second_from(const HlShape *mid, const HlShape *matrix) {
  int64_t rows = 1;
  int k = 0;
  while (k < mid->rank && rows < matrix->dim[0])
    rows *= mid->dim[k++];
  return rows == matrix->dim[0] && hl_shape_elements(mid) > 0 ? k : -1;
}

static bool is_matrix(const HlShape *shape) {
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += shape->dim[k] != 1;
  return n <= 2;
}

// A reshape once more, since the one that was there may have other readers; it lies as what it is a view of does.
static HlInst *view_again(HlPass *p, HlInst *x) {
  if (x->op != HL_OP_RESHAPE)
    return x;
  HlInst *made = hl_inst_copy(x->comp, x, NULL, 1, &x->operands[0]);
  const HlShape *shape = hl_align_layouts(p->m->shapes, x->operands[0]->shape, x->shape);
  if (shape)
    hl_set_shape(made, shape);
  return made;
}

// A matrix that is a reshape, of a transpose maybe, by what it is a view of: summed over in one dimension, free ones as they are.
// A view that only drops dimensions of size 1 stays.
static Side behind_views(HlPass *p, HlBuild *b, HlInst *x, HlI64s contract) {
  const Side as_it_is = {x, contract, x->shape->rank - contract.n};
  if (x->op != HL_OP_RESHAPE || x->shape->rank != 2 || contract.n != 1)
    return as_it_is;
  HlInst *mid = x->operands[0], *base = mid->op == HL_OP_TRANSPOSE ? mid->operands[0] : mid;
  const int rank = mid->shape->rank, cut = second_from(mid->shape, x->shape);
  const HlI64s order = base != mid ? hl_dims(mid) : dims_from(p->arena, 0, rank);
  if (cut <= 0 || cut >= rank || (base == mid && is_matrix(mid->shape)))
    return as_it_is;
  for (int k = 1; k < rank; k++)
    if (k != cut && order.at[k] != order.at[k - 1] + 1)
      return as_it_is;
  const int from = contract.at[0] ? cut : 0, n = contract.at[0] ? rank - cut : cut;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank), *at = HL_ARRAY(p->arena, int64_t, 1);
  int kept = 0;
  for (int d = 0; d < rank; d++) {
    const bool is_summed = d >= order.at[from] && d < order.at[from] + n;
    if (d == order.at[from])
      at[0] = kept;
    if (is_summed && d > order.at[from])
      sizes[kept - 1] *= base->shape->dim[d];
    else
      sizes[kept++] = base->shape->dim[d];
  }
  return (Side){hl_b_reshape(b, base, kept, sizes), {at, 1}, kept - 1};
}

enum { MOST_VIEWS = 16 };

// The same views of the same instruction once more: those that were there may have other readers.
static HlInst *views_again(HlInst *x) {
  HlInst *views[MOST_VIEWS];
  int n = 0;
  while (n < MOST_VIEWS && (x->op == HL_OP_RESHAPE || x->op == HL_OP_TRANSPOSE)) {
    views[n++] = x;
    x = x->operands[0];
  }
  while (n > 0)
    x = hl_inst_copy(x->comp, views[--n], NULL, 1, &x);
  return x;
}

// --- One for all ----------------------------------------------------------------------------------

// What is made has the frontend attributes of what the dots share.
static void attribute(HlInst *made, const HlInst *base) {
  const HlAttr *attr = hl_attr(base, HL_A_FRONTEND_ATTRIBUTES);
  if (attr)
    hl_set_attr(made, attr);
  else
    hl_remove_attr(made, HL_A_FRONTEND_ATTRIBUTES);
}

// The transpose that is all that reads a reshape of a part, if it takes what the part has of the other side, cut into
// dimensions, to the front: a reshape of the part's transpose is the same.
static HlInst *turned_by(const HlInst *part, const HlInst *reshape) {
  const HlUse *use = reshape->first_use;
  if (part->shape->rank != 2 || !use || use != reshape->last_use || hl_has_control(reshape) ||
      use->user->op != HL_OP_TRANSPOSE || hl_has_control(use->user) || hl_sharding(use->user))
    return NULL;
  const int cut = second_from(reshape->shape, part->shape), rank = reshape->shape->rank;
  const HlI64s order = hl_dims(use->user);
  for (int k = 0; k < rank; k++)
    if (order.at[k] != (k + cut) % rank)
      return NULL;
  return cut > 0 && cut < rank ? use->user : NULL;
}

static void turn(HlPass *p, HlInst *slice, HlInst *reshape, HlInst *transpose) {
  const HlShape *rows = slice->shape;
  static const int64_t swap[] = {1, 0};
  const int64_t dim[] = {rows->dim[1], rows->dim[0]};
  const HlShape *across = hl_align_transpose(
      p->m->shapes, rows, hl_shape_array(p->m->shapes, rows->dtype, 2, dim), (HlI64s){swap, 2});
  if (!across)
    return;
  HlInst *turned = hl_inst_copy(slice->comp, transpose, across, 1, &slice);
  hl_set_ints(turned, HL_A_DIMENSIONS, (HlI64s){swap, 2});
  HlInst *split = hl_inst_copy(slice->comp, reshape, transpose->shape, 1, &turned);
  hl_replace_uses(transpose, split);
  hl_erase(transpose);
  hl_erase(reshape);
}

// Since 0.11 the parts lie in rows, as the whole does, whatever order the dots had, unless somebody reads them in memory; and
// reshapes are of the parts themselves, or them.
static void tidy(HlPass *p, HlInst *slice, HlInst *part) {
  for (const HlUse *use = part->first_use, *next; use; use = next) {
    HlInst *user = use->user, *across;
    next = use->next;
    if (user->op == HL_OP_RESHAPE && (across = turned_by(part, user)) != NULL &&
        across != across->comp->root)
      turn(p, slice, user, across);
    else if (part != slice && user->op == HL_OP_RESHAPE &&
             hl_shape_same_dims(user->shape, slice->shape) && user != user->comp->root &&
             !hl_has_control(user)) {
      hl_replace_uses(user, slice);
      hl_erase(user);
    } else if (part != slice && user->op == HL_OP_RESHAPE)
      hl_set_operand(user, 0, slice);
    else if (hl_reads_memory(user))
      return;
  }
  if (part == part->comp->root)
    return;
  if (part->first_use)
    hl_set_shape(part, hl_shape_array(p->m->shapes, part->shape->dtype, part->shape->rank,
                                      part->shape->dim));
  else
    hl_erase(part);
}

static bool merge(HlPass *p, HlInst **group, int n, int shared) {
  HlInst *first = group[0];
  HlBuild b;
  hl_begin(p, "dot-merger", first, &b);
  DotDims d = dot_dims(p->arena, first);
  const bool sees_through = hl_pass_since(p, HL_XLA_0_11) && d.batch[0].n == 0;
  HlInst **others = HL_ARRAY(p->arena, HlInst *, n), *sides[2];
  HlInst **slice = HL_ARRAY(p->arena, HlInst *, n), **part = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++) {
    others[k] = group[k]->operands[1 - shared];
    others[k] = sees_through ? views_again(others[k]) : others[k];
  }
  int64_t free = d.free[1 - shared].at[0];
  int n_free = d.free[shared].n;
  const HlInst *base = sides[shared] = first->operands[shared];
  if (sees_through) {
    const Side side = behind_views(p, &b, sides[shared], d.contract[shared]);
    if (side.x != sides[shared])
      base = side.x->op == HL_OP_RESHAPE ? side.x->operands[0] : side.x;
    sides[shared] = side.x == sides[shared] ? view_again(p, side.x) : side.x;
    d.contract[shared] = side.contract;
    n_free = side.n_free;
  }
  sides[1 - shared] = hl_b_concatenate(&b, n, others, free);
  HlInst *all = dot_of(&b, first, sides[0], sides[1], d);
  int along = d.batch[0].n + (shared == 0 ? n_free : 0);
  int64_t at = 0;
  for (int k = 0; all && k < n; k++) {
    int64_t size = others[k]->shape->dim[free];
    const HlShape *shape = group[k]->shape;
    slice[k] = hl_b_slice_dim(&b, all, along, at, at + size);
    part[k] = hl_b_reshape(&b, slice[k], shape->rank, shape->dim);
    if (k > 0)
      hl_also(p, group[k], part[k]);
    at += size;
  }
  if (!hl_commit(p, part[0]))
    return false;
  if (!hl_pass_since(p, HL_XLA_0_11))
    return true;
  attribute(sides[1 - shared], base);
  attribute(all, base);
  for (int k = 0; k < n; k++) {
    attribute(slice[k], base);
    attribute(part[k], base);
    tidy(p, slice[k], part[k]);
  }
  return true;
}

// Each operand's dots are grouped from the first one that is left on.
static void merge_users(HlPass *p, HlInst *x, const int *level, uint32_t n_ids, bool *done) {
  int n_uses = 0;
  for (const HlUse *use = x->first_use; use; use = use->next)
    n_uses += use->user->op == HL_OP_DOT;
  if (n_uses < 2)
    return;
  HlInst **dots = HL_ARRAY(p->arena, HlInst *, n_uses),
         **group = HL_ARRAY(p->arena, HlInst *, n_uses + 1);
  int *side = HL_ARRAY(p->arena, int, n_uses), n_dots = 0;
  for (const HlUse *use = x->first_use; use; use = use->next)
    if (use->user->op == HL_OP_DOT && use->user->id < n_ids) {
      dots[n_dots] = use->user;
      side[n_dots++] = use->number;
    }
  for (int k = 0; k < n_dots; k++) {
    if (!hl_alive(dots[k]) || done[dots[k]->id] || dots[k]->operands[side[k]] != x)
      continue;
    int n = find_group(p, x, side[k], dots[k], level, n_ids, group);
    for (int j = 0; n > 1 && j < n; j++)
      done[group[j]->id] = true;  // one that stays alone may go with dots of its other operand
    if (n > 1)
      merge(p, group, n, side[k]);
  }
}

bool pass_dot_merger(HlPass *p) {
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    HlMark mark = hl_arena_mark(p->arena);
    int n;
    uint32_t n_ids = comps[c]->next_id;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    const int *level = find_levels(p, comps[c]);
    bool *done = HL_ARRAY(p->arena, bool, n_ids);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]))
        merge_users(p, insts[k], level, n_ids, done);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
