// tool/shrink/sizes.c: sizes that follow from the size of one dimension, from instruction to instruction.
//
// The queue holds the instructions around dimensions whose size has changed; each asks its rule what follows. Where there is a
// choice (a window, a slice, edges), all that is sure comes first. A rule
// names dimensions by factors: `reshape([(i j)]) -> [i, j]`; a new size is a new size of one of its factors, and so of every other
// dimension that has it.

#include "tool/shrink/sizes.h"

#include <string.h>

// --- Slots ----------------------------------------------------------------------------------------------

static int array_slots(const HlShape *shape) {
  int n = hl_shape_is_array(shape) ? shape->rank : 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += array_slots(shape->element[k]);
  return n;
}

// Windows of convolutions are as large as what they convolve with.
static int window_slots(const HlInst *inst) {
  return inst->op == HL_OP_REDUCE_WINDOW || inst->op == HL_OP_SELECT_AND_SCATTER ? hl_window(inst).n
                                                                                 : 0;
}

int sizes_slots(const HlInst *inst) {
  return array_slots(inst->shape);
}

int sizes_all_slots(const HlInst *inst) {
  return sizes_slots(inst) + window_slots(inst);
}

int sizes_window_slot(const Sizes *p, const HlInst *inst) {
  return p->base[inst->serial] + sizes_slots(inst);
}

int sizes_leaf_slot(const Sizes *p, const HlInst *inst, int leaf) {
  int slot = p->base[inst->serial];
  for (int k = 0; k < leaf; k++) {
    const HlShape *shape = hl_leaf_shape(inst->shape, k);
    slot += shape ? array_slots(shape) : 0;
  }
  return slot;
}

static int64_t *put_sizes(const HlShape *shape, int64_t *to) {
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    to = put_sizes(shape->element[k], to);
  for (int d = 0; hl_shape_is_array(shape) && d < shape->rank; d++)
    *to++ = shape->dim[d];
  return to;
}

void sizes_start(Sizes *p, HlArena *arena, HlModule *m) {
  const size_t serials = (size_t)m->next_serial + 1;
  *p = (Sizes){.m = m, .arena = arena};
  p->base = HL_ARRAY(arena, int, serials);
  p->local = HL_ARRAY(arena, Local *, serials);
  p->queued = HL_ARRAY(arena, bool, serials);
  p->waits = HL_ARRAY(arena, bool, serials);
  p->broken = HL_ARRAY(arena, bool, serials);
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      p->base[inst->serial] = p->n;
      p->n += sizes_all_slots(inst);
    }
  p->owner = HL_ARRAY(arena, HlInst *, p->n + 1);
  p->was = HL_ARRAY(arena, int64_t, p->n + 1);
  p->size = HL_ARRAY(arena, int64_t, p->n + 1);
  p->set = HL_ARRAY(arena, bool, p->n + 1);
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      int64_t *at = put_sizes(inst->shape, p->was + p->base[inst->serial]);
      for (int k = 0; k < window_slots(inst); k++)
        *at++ = hl_window(inst).at[k].size;
      for (int k = 0; k < sizes_all_slots(inst); k++)
        p->owner[p->base[inst->serial] + k] = inst;
    }
  if (p->n > 0)
    memcpy(p->size, p->was, (size_t)p->n * sizeof *p->size);
  p->mark = hl_arena_mark(arena);
}

void sizes_free(Sizes *p) {
  vec_free(&p->queue);
  vec_free(&p->later);
  vec_free(&p->touched);
  vec_free(&p->visited);
}

void sizes_forget(Sizes *p) {
  for (int k = 0; k < p->touched.n; k++) {
    p->set[p->touched.at[k]] = false;
    p->size[p->touched.at[k]] = p->was[p->touched.at[k]];
  }
  for (int k = 0; k < p->visited.n; k++) {
    p->local[p->visited.at[k]->serial] = NULL;
    p->broken[p->visited.at[k]->serial] = p->waits[p->visited.at[k]->serial] = false;
  }
  p->touched.n = 0;
  p->visited.n = 0;
  p->n_broken = 0;
  hl_arena_release(p->arena, p->mark);
}

bool sizes_changes(const Sizes *p, const HlInst *inst) {
  const int base = p->base[inst->serial], n = sizes_all_slots(inst);
  for (int k = base; k < base + n; k++)
    if (p->size[k] != p->was[k])
      return true;
  return false;
}

bool sizes_changes_around(const Sizes *p, const HlInst *inst) {
  bool changes = sizes_changes(p, inst);
  for (uint32_t k = 0; k < inst->n_operands && !changes; k++)
    changes = sizes_changes(p, inst->operands[k]);
  return changes;
}

static const HlShape *shape_at(Sizes *p, const HlShape *shape, int *slot) {
  if (hl_shape_is_tuple(shape)) {
    const HlShape **element = HL_ARRAY(p->arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = shape_at(p, shape->element[k], slot);
    return hl_shape_tuple(p->m->shapes, shape->rank, element);
  }
  if (!hl_shape_is_array(shape))
    return shape;
  const int at = *slot;
  *slot += shape->rank;
  return hl_shape_array_full(p->m->shapes, shape->dtype, shape->rank, p->size + at, shape->dynamic,
                             shape->layout);
}

const HlShape *sizes_shape(Sizes *p, const HlInst *inst) {
  int slot = p->base[inst->serial];
  return shape_at(p, inst->shape, &slot);
}

// --- What follows ---------------------------------------------------------------------------------------

static void enqueue(Sizes *p, HlInst *inst) {
  if (p->queued[inst->serial])
    return;
  p->queued[inst->serial] = true;
  vec_push(&p->queue, inst);
}

bool sizes_set(Sizes *p, int slot, int64_t size) {
  if (p->set[slot])
    return p->size[slot] == size;
  if (size < 1 || size > p->was[slot])
    return size == p->was[slot];
  HlInst *inst = p->owner[slot];
  p->set[slot] = true;
  p->size[slot] = size;
  vec_push(&p->touched, slot);
  enqueue(p, inst);
  for (HlUse *use = inst->first_use; use; use = use->next)
    enqueue(p, use->user);
  if (inst->op == HL_OP_PARAMETER || inst == inst->comp->root)
    for (HlCall *call = inst->comp->first_call; call; call = call->next)
      enqueue(p, call->caller);
  return true;
}

bool sizes_same(Sizes *p, int a, int b) {
  if (p->size[a] == p->size[b])
    return true;
  if (p->set[a] && p->set[b])
    return false;
  return p->set[a] ? sizes_set(p, b, p->size[a]) : sizes_set(p, a, p->size[b]);
}

static int tensor_slot(const Sizes *p, const HlInst *inst, int tensor) {
  return tensor < (int)inst->n_operands ? sizes_operand_slot(p, inst, tensor)
                                        : sizes_leaf_slot(p, inst, tensor - (int)inst->n_operands);
}

static int64_t product(const Local *l, const HlDimFactors *dim, bool now) {
  int64_t n = 1;
  for (int k = 0; k < dim->n; k++)
    n *= now ? l->now[dim->at[k]] : l->factors.factor[dim->at[k]].size;
  return n;
}

// Whether the rule says of what size the dimension is.
static bool is_told(const Sizes *p, const Local *l, const HlDimFactors *dim, int slot) {
  return dim->n > 0 && product(l, dim, false) == p->was[slot];
}

// Makes the dimension's factors give a size: one of them, as long as the others divide it; else those that come first are
// 1 as far as need be.
static bool split(Local *l, const HlDimFactors *dim, int64_t size) {
  for (int k = 0; k < dim->n; k++) {
    const int f = dim->at[k];
    const int64_t rest = product(l, dim, true) / (l->now[f] ? l->now[f] : 1);
    if (!l->locked[f] && rest > 0 && size % rest == 0 && size / rest <= l->now[f]) {
      l->now[f] = size / rest;
      l->locked[f] = true;
      return true;
    }
  }
  for (int k = 0; k < dim->n; k++) {
    const int f = dim->at[k];
    if (l->locked[f] || l->now[f] == 1)
      continue;
    l->now[f] = 1;
    l->locked[f] = true;
    const int64_t left = product(l, dim, true);
    if (left == size)
      return true;
    return left > 0 && split(l, dim, size);
  }
  return false;
}

// Takes the sizes that are wanted of dimensions of one factor, or of several.
static bool take_sizes(Sizes *p, const HlInst *inst, Local *l, bool several) {
  for (int t = 0; t < l->factors.n_operands + l->factors.n_results; t++) {
    const HlTensorFactors *tensor = &l->factors.tensor[t];
    for (int d = 0; d < tensor->rank; d++) {
      const HlDimFactors *dim = &tensor->dim[d];
      const int slot = tensor_slot(p, inst, t) + d;
      if (!p->set[slot] || (dim->n > 1) != several || !is_told(p, l, dim, slot))
        continue;
      if (product(l, dim, true) == p->size[slot]) {
        for (int k = 0; k < dim->n && dim->n == 1; k++)
          l->locked[dim->at[k]] = true;
        continue;
      }
      if (!split(l, dim, p->size[slot]))
        return false;
    }
  }
  return true;
}

static bool give_sizes(Sizes *p, const HlInst *inst, const Local *l) {
  for (int t = 0; t < l->factors.n_operands + l->factors.n_results; t++) {
    const HlTensorFactors *tensor = &l->factors.tensor[t];
    for (int d = 0; d < tensor->rank; d++) {
      const int slot = tensor_slot(p, inst, t) + d;
      if (is_told(p, l, &tensor->dim[d], slot) &&
          p->size[slot] != product(l, &tensor->dim[d], true) &&
          !sizes_set(p, slot, product(l, &tensor->dim[d], true)))
        return false;
    }
  }
  return true;
}

// --- Dimensions of which no rule tells ---------------------------------------------------------------------

typedef VEC(int) Slots;

static void add_range(Slots *slots, int first, int n) {
  for (int k = first; k < first + n; k++)
    vec_push(slots, k);
}

static void add_untold(const Sizes *p, const HlInst *inst, const Local *l, Slots *out) {
  const int n_operands = (int)inst->n_operands;
  for (int k = 0; k < n_operands; k++)
    if (hl_shape_is_tuple(inst->operands[k]->shape))
      add_range(out, sizes_operand_slot(p, inst, k), sizes_slots(inst->operands[k]));
  for (int t = 0; t < l->factors.n_operands + l->factors.n_results; t++)
    for (int d = 0; d < l->factors.tensor[t].rank; d++) {
      const int slot = tensor_slot(p, inst, t) + d;
      if (!l->known || !is_told(p, l, &l->factors.tensor[t].dim[d], slot))
        vec_push(out, slot);
    }
}

// Dimensions of one size go together.
static bool untold(Sizes *p, HlInst *inst, Local *l) {
  Slots slots = {0};
  add_untold(p, inst, l, &slots);
  bool ok = true;
  for (int k = 0; ok && k < slots.n; k++) {
    const int one = slots.at[k];
    if (p->size[one] == p->was[one])
      continue;
    ok = !p->strict;
    for (int i = 0; ok && i < slots.n; i++)
      ok = p->was[slots.at[i]] != p->was[one] || sizes_same(p, one, slots.at[i]);
  }
  vec_free(&slots);
  return ok;
}

// --- All instructions --------------------------------------------------------------------------------------

static Local *local_of(Sizes *p, HlInst *inst) {
  if (p->local[inst->serial])
    return p->local[inst->serial];
  Local *l = HL_NEW(p->arena, Local);
  l->known = hl_factors_of(p->arena, inst, &l->factors);
  const int n = l->factors.n;
  l->now = HL_ARRAY(p->arena, int64_t, n + 1);
  l->locked = HL_ARRAY(p->arena, bool, n + 1);
  int *uses = HL_ARRAY(p->arena, int, n + 1);
  for (int t = 0; t < l->factors.n_operands + l->factors.n_results; t++)
    for (int d = 0; d < l->factors.tensor[t].rank; d++)
      for (int k = 0; k < l->factors.tensor[t].dim[d].n; k++)
        uses[l->factors.tensor[t].dim[d].at[k]]++;
  for (int f = 0; f < n; f++) {
    l->now[f] = l->factors.factor[f].size;
    l->locked[f] = uses[f] == 1 && hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE);  // the devices
  }
  p->local[inst->serial] = l;
  vec_push(&p->visited, inst);
  return l;
}

void sizes_break(Sizes *p, const HlInst *inst) {
  local_of(p, (HlInst *)(uintptr_t)inst);  // so that it is forgotten
  p->n_broken += !p->broken[inst->serial];
  p->broken[inst->serial] = true;
}

// What is sure: the factors, and what hands values on.
static bool follow(Sizes *p, HlInst *inst) {
  Local *l = local_of(p, inst);
  if (l->known &&
      (!take_sizes(p, inst, l, false) || !take_sizes(p, inst, l, true) || !give_sizes(p, inst, l)))
    return false;
  if (sizes_rule_is_sure((HlOp)inst->op))
    return sizes_rule((HlOp)inst->op)(p, inst, l);
  if (!p->waits[inst->serial]) {
    p->waits[inst->serial] = true;
    vec_push(&p->later, inst);
  }
  return true;
}

// What is put together of several waits until all of them are known, as far as others come before it.
static bool defers(Sizes *p, HlInst *inst) {
  const bool defer = inst->op == HL_OP_CONCATENATE && p->n_deferred < p->later.n - p->n_later;
  p->n_deferred = defer ? p->n_deferred + 1 : 0;
  if (defer)
    vec_push(&p->later, inst);
  return defer;
}

static bool choose(Sizes *p, HlInst *inst) {
  if (defers(p, inst))
    return true;
  SizesFn *rule = sizes_rule((HlOp)inst->op);
  Local *l = local_of(p, inst);
  p->waits[inst->serial] = false;
  return rule ? rule(p, inst, l) : untold(p, inst, l);
}

// The next one: of those that are sure, as long as there is one. NULL: all is done.
static HlInst *next(Sizes *p, bool *sure) {
  *sure = p->queue.n > 0;
  if (!*sure && p->n_later == p->later.n)
    return NULL;
  HlInst *inst = *sure ? vec_pop(&p->queue) : p->later.at[p->n_later++];
  if (*sure)
    p->queued[inst->serial] = false;
  return inst;
}

void sizes_wish(Sizes *p, int slot, int64_t size) {
  if (p->set[slot] || !sizes_set(p, slot, size))
    return;
  bool sure;
  for (HlInst *inst; (inst = next(p, &sure));)
    if (!p->broken[inst->serial] && !(sure ? follow(p, inst) : choose(p, inst)))
      sizes_break(p, inst);
  p->later.n = p->n_later = 0;
}
