// cpu/tile/lower_reduce.c: reduce: loops of its own around what it folds.
//
// Sums of small floats are kept in f32 and rounded once, as the interpreter rounds them once; other bodies are compiled as they
// are. A simple op may be folded in any order, a body with all its accumulators as HLO allows: it associates and commutes.
// That of a reduce-window need not: a select-and-scatter that XLA writes out as one takes the first of equal elements.

#include "cpu/tile/build.h"

#include <string.h>

#include "base/compiler.h"
#include "hilo/op.h"

// How a computation folds what there is of it.
typedef struct Fold {
  const HlComp *comp;
  int n;          // operands
  VecOp op;       // of a simple one, else VEC_OP_COUNT
  bool sums_f32;  // of small floats
} Fold;

static Fold fold_of(const HlComp *comp, int n) {
  const HlDtype dtype = comp->params[0]->shape->dtype;
  Fold f = {comp, n, n == 1 ? vec_op_of(comp, dtype) : VEC_OP_COUNT, false};
  if (hl_is_complex(dtype) && f.op != VEC_ADD)
    f.op = VEC_OP_COUNT;
  f.sums_f32 = tile_is_narrow(dtype) && (f.op == VEC_ADD || f.op == VEC_MULTIPLY);
  return f;
}

// One step: acc and x to what acc becomes.
static bool fold_step(Lower *l, const Fold *f, int scope, const Val *acc, const Val *x, Val *next) {
  if (f->op != VEC_OP_COUNT) {
    const HlDtype part = l->node.at[acc->re].dtype;
    next->re = tile_vec(l, f->op, part, part, scope, acc->re, x->re, -1);
    next->im = acc->im < 0 ? -1 : tile_vec(l, f->op, part, part, scope, acc->im, x->im, -1);
    return !l->why;
  }
  Val *bound = HL_ARRAY(l->arena, Val, 2 * f->n);
  for (int k = 0; k < f->n; k++) {
    bound[k] = acc[k];
    bound[f->n + k] = x[k];
  }
  for (int k = 0; k < f->n && !l->why; k++) {
    next[k] = tile_body(l, f->comp, bound, k, scope);
    if (cpu_leaf(f->comp->root->shape, k)->dtype != f->comp->params[k]->shape->dtype)
      tile_fail(l, "a body that changes types");
  }
  return !l->why;
}

// What a body folds, for the body alone: it may be given accumulators instead. One for every turn of the loops.
static int own_x(Lower *l, int at, int k, int x, int scope) {
  const Node *node = &l->node.at[x];
  const uint32_t loops = l->block.at[at].loops;
  const bool turns = (node->deps & loops) == loops;
  return tile_node(l, &(Node){.kind = turns ? NODE_SAME : NODE_VEC,
                              .op = turns ? VEC_OP_COUNT : VEC_COPY,
                              .dtype = node->dtype,
                              .from = vec_carrier(node->dtype),
                              .n = 1,
                              .arg = &x,
                              .scope = scope,
                              .block = at,
                              .k = k,
                              .deps = loops | l->scope.at[scope].deps});
}

// Accumulators of a block, one for each operand or part of one. x: what the body shall fold, in and out.
static void new_accs(Lower *l, int at, const Fold *f, const Val *init, Val *x, int scope,
                     uint32_t deps, Val *acc) {
  Block *block = &l->block.at[at];
  block->init = HL_ARRAY(l->arena, int, 10 * f->n);
  block->x = block->init + 2 * f->n;
  block->acc = block->x + 2 * f->n;
  block->next = block->acc + 2 * f->n;
  block->result = block->next + 2 * f->n;
  for (int k = 0; k < f->n; k++) {
    const bool is_pair = x[k].im >= 0;
    int made[2] = {-1, -1}, own[2] = {x[k].re, x[k].im};
    for (int part = 0; part <= is_pair; part++) {
      const int j = block->n_acc++;
      if (f->op == VEC_OP_COUNT)
        own[part] = own_x(l, at, j, own[part], scope);
      if (own[part] < 0)
        return;
      block->init[j] = part ? init[k].im : init[k].re;
      block->x[j] = own[part];
      const HlDtype dtype = f->sums_f32 ? HL_F32 : l->node.at[block->x[j]].dtype;
      made[part] = block->acc[j] = tile_node(l, &(Node){.kind = NODE_ACC,
                                                        .op = VEC_OP_COUNT,
                                                        .dtype = dtype,
                                                        .block = at,
                                                        .k = j,
                                                        .deps = deps});
    }
    acc[k] = (Val){made[0], made[1]};
    x[k] = (Val){own[0], own[1]};
  }
}

static int result_of(Lower *l, int at, int k, uint32_t deps) {
  Block *block = &l->block.at[at];
  return block->result[k] = tile_node(l, &(Node){.kind = NODE_RESULT,
                                                 .op = VEC_OP_COUNT,
                                                 .dtype = l->node.at[block->acc[k]].dtype,
                                                 .block = at,
                                                 .k = k,
                                                 .deps = deps & ~block->loops});
}

static bool start(Lower *l, int at, const Fold *f, const Val *init, const Val *x, int scope,
                  Val *acc, Val *own) {
  uint32_t deps = l->block.at[at].loops | l->scope.at[scope].deps;
  for (int k = 0; k < f->n; k++)
    deps |= l->node.at[x[k].re].deps | l->node.at[init[k].re].deps;
  memcpy(own, x, sizeof *own * (size_t)f->n);
  l->block.at[at].scope = scope;
  l->block.at[at].deps = deps;
  new_accs(l, at, f, init, own, scope, deps, acc);
  return !l->why;
}

bool tile_fold_start(Lower *l, int block, int n, const Val *init, const Val *x, int scope, Val *acc,
                     Val *own) {
  return start(l, block, &(Fold){.n = n, .op = VEC_OP_COUNT}, init, x, scope, acc, own);
}

bool tile_fold_end(Lower *l, int at, int n, const Val *next, Val *out) {
  for (int k = 0, j = 0; k < n; k++)
    for (int part = 0; part <= (next[k].im >= 0); part++)
      l->block.at[at].next[j++] = part ? next[k].im : next[k].re;
  for (int k = 0, j = 0; k < n; k++) {
    out[k].re = result_of(l, at, j++, l->block.at[at].deps);
    out[k].im = next[k].im < 0 ? -1 : result_of(l, at, j++, l->block.at[at].deps);
  }
  return !l->why;
}

// Of one element: no loops turn.
static bool fold_once(Lower *l, int at, const Fold *f, const Val *init, const Val *x, int scope,
                      Val *out) {
  const int around = l->block.at[at].scope;
  if (!fold_step(l, f, scope, init, x, out))
    return false;
  for (int k = 0; k < f->n && scope != around; k++)
    out[k] = tile_choose(l, &(Ask){.scope = around}, init[k], out[k], scope);
  return !l->why;
}

bool tile_fold(Lower *l, const HlComp *comp, int at, int n, const Val *init, const Val *x,
               int scope, Val *out) {
  const Fold f = fold_of(comp, n);
  const HlDtype dtype = comp->params[0]->shape->dtype;
  const int around = l->block.at[at].scope;
  Val *acc = HL_ARRAY(l->arena, Val, 3 * n), *next = acc + n, *own = next + n;
  if (l->block.at[at].loops == 0) {
    if (!fold_once(l, at, &f, init, x, scope, out))
      return false;
  } else {
    if (!start(l, at, &f, init, x, scope, acc, own) || !fold_step(l, &f, scope, acc, own, next))
      return false;
    Block *block = &l->block.at[at];
    if (f.op != VEC_OP_COUNT && block->n_acc == 1 && !tile_is_sub_byte(dtype) &&
        vec_fold(l->maker->level, f.op, vec_carrier(l->node.at[block->acc[0]].dtype)))
      block->fold = f.op;
    if (!tile_fold_end(l, at, n, next, out))
      return false;
  }
  if (f.sums_f32)
    out->re = tile_unary_node(l, NODE_ROUND, HL_F32, dtype, around, out->re);
  return !l->why;
}

static bool types_fit(const HlInst *inst, int n) {
  const HlComp *comp = hl_to_apply(inst);
  if (comp->n_params != 2 * n || cpu_leaf_count(comp->root->shape) != n)
    return false;
  for (int k = 0; k < n; k++)
    if (comp->params[k]->shape->dtype != inst->operands[k]->shape->dtype ||
        comp->params[n + k]->shape->dtype != inst->operands[k]->shape->dtype ||
        comp->params[k]->shape->rank != 0)
      return false;
  return true;
}

static bool same_map(const Affine *a, const Affine *b, int rank) {
  return rank == 0 || memcmp(a, b, sizeof *a * (size_t)rank) == 0;
}

static bool find_folded(const Lower *l, const Ask *ask, Val *out) {
  for (int k = 0; k < l->folded.n; k++) {
    const Folded *f = &l->folded.at[k];
    if (f->inst == ask->inst && f->frame == ask->frame && f->scope == ask->scope &&
        same_map(f->map, ask->map, cpu_leaf(ask->inst->shape, 0)->rank)) {
      *out = f->out[ask->leaf];
      return true;
    }
  }
  return false;
}

// The operands' elements at `map`, folded in a block; the result of the leaf that is asked for.
static Val fold_at(Lower *l, const Ask *ask, int block, const Affine *map, int scope, bool empty) {
  const int n = (int)ask->inst->n_operands / 2;
  Val *init = HL_ARRAY(l->arena, Val, 3 * n), *x = init + n, *out = x + n;
  for (int k = 0; k < n; k++)
    init[k] = tile_operand(l, ask, n + k, NULL, ask->scope, false);
  for (int k = 0; k < n && !empty; k++)
    x[k] = tile_operand(l, ask, k, map, scope, false);
  if (l->why)
    return NO_VAL;
  l->block.at[block].scope = ask->scope;
  if (empty)
    memcpy(out, init, sizeof *out * (size_t)n);
  else if (!tile_fold(l, hl_to_apply(ask->inst), block, n, init, x, scope, out))
    return NO_VAL;
  vec_push_in(l->arena, &l->folded, ((Folded){ask->inst, ask->frame, ask->map, ask->scope, out}));
  return out[ask->leaf];
}

static bool may_fold(const HlInst *inst) {
  const int n = (int)inst->n_operands / 2;
  return n >= 1 && 2 * n <= TILE_MAX_ACCS && types_fit(inst, n);
}

// --- Parts ----------------------------------------------------------------------------------------

bool tile_has_parts(const CpuMaker *maker, const HlInst *reduce, HlDtype *dtype) {
  uint64_t bits;
  if (reduce->n_operands != 2 || !may_fold(reduce))
    return false;
  *dtype = reduce->operands[0]->shape->dtype;
  const Fold f = fold_of(hl_to_apply(reduce), 1);
  if (f.op == VEC_OP_COUNT || tile_is_sub_byte(*dtype) || hl_is_complex(*dtype) ||
      !vec_neutral(f.op, vec_carrier(*dtype), &bits) ||
      !vec_fold(maker->level, f.op, vec_carrier(*dtype)))
    return false;
  *dtype = f.sums_f32 ? HL_F32 : *dtype;
  return true;
}

Val tile_reduce_part(Lower *l, const Ask *ask, int dim, const Affine *first, int64_t n) {
  const HlShape *from = ask->inst->operands[0]->shape;
  const HlI64s dims = hl_dims(ask->inst);
  const Fold f = fold_of(hl_to_apply(ask->inst), 1);
  const int block = tile_block(l);
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  for (int d = 0, kept = 0; d < from->rank; d++)
    map[d] = hl_i64s_find(dims, d) < 0 ? ask->map[kept++]
                                       : affine_axis(l, d == dim ? n : from->dim[d], block);
  map[dim] = affine_add(first, &map[dim]);
  const Val x = tile_operand(l, ask, 0, map, ask->scope, false);
  uint64_t bits = 0;
  vec_neutral(f.op, vec_carrier(from->dtype), &bits);
  const Val init = {tile_const(l, from->dtype, bits), -1};
  Val out;
  l->block.at[block].scope = ask->scope;
  if (l->why || !tile_fold(l, f.comp, block, 1, &init, &x, ask->scope, &out))
    return NO_VAL;
  return f.sums_f32 ? (Val){l->node.at[out.re].arg[0], -1} : out;
}

static const Part *part_of(const Lower *l, const Ask *ask) {
  for (int k = 0; k < l->part.n && !ask->frame->up && !ask->frame->bound; k++)
    if (l->part.at[k].inst == ask->inst)
      return &l->part.at[k];
  return NULL;
}

static Val fold_parts(Lower *l, const Ask *ask, const Part *part) {
  const int rank = ask->inst->shape->rank, block = tile_block(l);
  int64_t *dim = HL_ARRAY(l->arena, int64_t, 2 * rank + 2), *stride = dim + rank + 1;
  Affine *map = HL_ARRAY(l->arena, Affine, rank + 1);
  for (int d = 0; d < rank; d++) {
    dim[d] = ask->inst->shape->dim[d];
    map[d] = ask->map[d];
  }
  dim[rank] = part->whole + (part->rest > 0);
  map[rank] = affine_axis(l, dim[rank], block);
  hl_strides(rank + 1, dim, stride);
  const Affine at = affine_dot(rank + 1, map, stride);
  const Val x = tile_load(l, part->buffer, part->dtype, &at, ask->scope),
            init = tile_operand(l, ask, 1, NULL, ask->scope, false);
  Val *out = HL_NEW(l->arena, Val);
  l->block.at[block].scope = ask->scope;
  if (l->why || !tile_fold(l, hl_to_apply(ask->inst), block, 1, &init, &x, ask->scope, out))
    return NO_VAL;
  vec_push_in(l->arena, &l->folded, ((Folded){ask->inst, ask->frame, ask->map, ask->scope, out}));
  return *out;
}

// --- reduce ---------------------------------------------------------------------------------------

Val tile_reduce(Lower *l, const Ask *ask) {
  const HlShape *from = ask->inst->operands[0]->shape;
  const HlI64s dims = hl_dims(ask->inst);
  Val known;
  if (!may_fold(ask->inst))
    return tile_fail(l, "a reduction of other types");
  if (find_folded(l, ask, &known))
    return known;
  const Part *part = part_of(l, ask);
  if (part)
    return fold_parts(l, ask, part);
  const int block = tile_block(l);
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  for (int d = 0, kept = 0; d < from->rank; d++)
    map[d] = hl_i64s_find(dims, d) < 0 ? ask->map[kept++] : affine_axis(l, from->dim[d], block);
  return fold_at(l, ask, block, map, ask->scope, hl_shape_elements(from) == 0);
}

// --- reduce-window --------------------------------------------------------------------------------

Affine tile_window_place(Lower *l, const Affine *result, const HlWindowDim *window, int block) {
  const Affine first = affine_times(result, window->stride);
  Affine offset = affine_axis(l, window->size, block);
  offset = affine_times(&offset, window->rhs_dilate);
  offset = affine_plus(&offset, -window->pad_low);
  const Affine place = affine_add(&first, &offset);
  return affine_over(&place, window->lhs_dilate);
}

// Loops over the places of the window; padding and the holes of dilation are where a scope does not hold.
Val tile_reduce_window(Lower *l, const Ask *ask) {
  enum { MANY = 256 };
  const HlShape *from = ask->inst->operands[0]->shape;
  const HlWindow window = hl_window(ask->inst);
  Val known;
  if (!may_fold(ask->inst) || window.n != from->rank)
    return tile_fail(l, "a reduction of other types");
  if (find_folded(l, ask, &known))
    return known;
  int64_t places = 1;
  for (int d = 0; d < window.n; d++)
    if ((places *= window.at[d].size) > MANY)
      return tile_fail(l, "a long window");
  const int block = tile_block(l);
  Affine *map = HL_ARRAY(l->arena, Affine, from->rank + 1);
  int scope = ask->scope;
  for (int d = 0; d < from->rank; d++) {
    map[d] = tile_window_place(l, &ask->map[d], &window.at[d], block);
    if (scope >= 0)
      scope = tile_scope(l, scope, &map[d], from->dim[d]);
  }
  l->block.at[block].in_order = true;
  return fold_at(l, ask, block, map, scope < 0 ? ask->scope : scope, scope < 0);
}
