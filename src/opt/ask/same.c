// opt/ask/same.c: whether two instructions or two computations of a module say the same.
//
// Computations are compared in post-order, instruction by instruction: the k-th of one must be the
// k-th of the other, with operands at equal places. Equal hashes are asked for first, so that a
// comparison that goes all the way nearly always succeeds.

#include "opt/ask/same.h"
#include "base/vec.h"

Same same_new(HlPass *p, bool layouts) {
  const uint32_t n = p->m->next_comp_id;
  return (Same){p->arena, layouts, HL_ARRAY(p->arena, uint64_t, n + 1),
                HL_ARRAY(p->arena, const HlComp *, n + 1), n};
}

// --- Shapes -------------------------------------------------------------------------------------

static bool same_dynamic(const HlShape *a, const HlShape *b) {
  for (int k = 0; k < a->rank; k++)
    if ((a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k]))
      return false;
  return true;
}

bool same_shape(const Same *same, const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (same->layouts || a->dtype != b->dtype || a->rank != b->rank)
    return false;
  if (!hl_shape_is_tuple(a))
    return hl_shape_compatible(a, b) && (!hl_shape_is_array(a) || same_dynamic(a, b));
  for (int k = 0; k < a->rank; k++)
    if (!same_shape(same, a->element[k], b->element[k]))
      return false;
  return true;
}

uint64_t same_shape_hash(const HlShape *shape) {
  uint64_t h = hl_hash_mix((uint64_t)shape->dtype + 1, (uint64_t)shape->rank);
  for (int k = 0; hl_shape_is_array(shape) && k < shape->rank; k++)
    h = hl_hash_mix(h, (uint64_t)shape->dim[k]);
  return h;
}

// --- Instructions -------------------------------------------------------------------------------

static bool counts(const HlAttr *attr) {
  return attr->key != HL_A_METADATA && attr->key != HL_A_ORIGIN && attr->key != HL_A_STATISTICS &&
         attr->key != HL_A_SHARDING;
}

bool same_sharding(const HlInst *a, const HlInst *b) {
  const HlSharding *x = hl_sharding(a), *y = hl_sharding(b);
  return !x || !y || hl_sharding_equal(x, y);
}

bool same_attrs(const HlInst *a, const HlInst *b) {
  int j = 0;
  for (int k = 0; k < a->n_attrs; k++) {
    if (!counts(&a->attrs[k]))
      continue;
    while (j < b->n_attrs && !counts(&b->attrs[j]))
      j++;
    if (j == b->n_attrs || !hl_attr_equal(&a->attrs[k], &b->attrs[j++]))
      return false;
  }
  while (j < b->n_attrs && !counts(&b->attrs[j]))
    j++;
  return j == b->n_attrs && same_sharding(a, b);
}

// Two values that the text left out are not known to be equal.
static bool is_known(const HlInst *inst) {
  return inst->op != HL_OP_CONSTANT || hl_is_constant(inst);
}

bool same_inst(Same *same, const HlInst *a, const HlInst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_calls != b->n_calls ||
      !same_shape(same, a->shape, b->shape) || !is_known(a) || !same_attrs(a, b))
    return false;
  for (int k = 0; k < a->n_calls; k++)
    if (!same_comp(same, hl_called(a, k), hl_called(b, k)))
      return false;
  return true;
}

// Of a list of numbers, a window or a single value; the rest differs rarely where these agree.
uint64_t same_inst_hash(Same *same, const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 1, same_shape_hash(inst->shape));
  for (int k = 0; k < inst->n_attrs && (int)inst->attrs[k].key < HL_ATTR_COMMON; k++)
    h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  for (int k = 0; k < inst->n_calls; k++)
    h = hl_hash_mix(h, same_comp_hash(same, hl_called(inst, k)));
  return h;
}

// --- Computations -------------------------------------------------------------------------------

// The place of each instruction in post-order, by id.
static uint32_t *places_of(HlArena *arena, const HlComp *comp, HlInst *const *order) {
  uint32_t *place = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  for (uint32_t k = 0; k < comp->n_insts; k++)
    place[order[k]->id] = k;
  return place;
}

typedef struct HashFrame {
  const HlComp *comp;
  const HlInst *next;  // whose callees are to be looked at
  int call;
} HashFrame;

// A callee that has no hash yet, or NULL.
static const HlComp *unhashed_callee(const Same *same, HashFrame *frame) {
  for (; frame->next; frame->next = frame->next->next, frame->call = 0)
    while (frame->call < frame->next->n_calls) {
      const HlComp *callee = hl_called(frame->next, frame->call++);
      if (callee->id < same->n_comps && !same->hash[callee->id])
        return callee;
    }
  return NULL;
}

static uint64_t hash_from_callees(Same *same, const HlComp *comp) {
  HlMark mark = hl_arena_mark(same->arena);
  HlInst **order = hl_post_order(same->arena, comp);
  const uint32_t *place = places_of(same->arena, comp, order);
  uint64_t h = hl_hash_mix(comp->n_insts + 1, comp->root ? place[comp->root->id] : 0);
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    h = hl_hash_mix(h, same_inst_hash(same, order[k]));
    for (uint32_t o = 0; o < order[k]->n_operands; o++)
      h = hl_hash_mix(h, place[order[k]->operands[o]->id]);
  }
  hl_arena_release(same->arena, mark);
  return h ? h : 1;
}

// Callees first, on a stack: calls may be nested deeply.
uint64_t same_comp_hash(Same *same, const HlComp *comp) {
  if (comp->id >= same->n_comps)  // made since: the same as itself only
    return comp->id;
  if (same->hash[comp->id])
    return same->hash[comp->id];
  VEC(HashFrame) stack = {0};
  vec_push(&stack, ((HashFrame){comp, comp->first, 0}));
  while (stack.n > 0) {
    HashFrame *top = &vec_last(&stack);
    const HlComp *callee = unhashed_callee(same, top);
    if (callee) {
      vec_push(&stack, ((HashFrame){callee, callee->first, 0}));
    } else {
      same->hash[top->comp->id] = hash_from_callees(same, top->comp);
      stack.n--;
    }
  }
  vec_free(&stack);
  return same->hash[comp->id];
}

static bool same_control(const HlInst *a, const uint32_t *place_a, const HlInst *b,
                         const uint32_t *place_b) {
  const int n = a->control ? a->control->n_preds : 0;
  if (n != (b->control ? b->control->n_preds : 0))
    return false;
  for (int k = 0; k < n; k++)
    if (place_a[a->control->preds[k]->id] != place_b[b->control->preds[k]->id])
      return false;
  return true;
}

typedef struct CompPair {
  const HlComp *a, *b;
} CompPair;
typedef VEC(CompPair) CompPairs;

// Notes that two computations are to be compared, unless that was done or is under way.
static bool expect_same(Same *same, const HlComp *a, const HlComp *b, CompPairs *pairs) {
  if (a == b)
    return true;
  if (a->id >= same->n_comps || b->id >= same->n_comps ||
      same_comp_hash(same, a) != same_comp_hash(same, b))
    return false;
  if (same->peer[a->id] != b) {
    vec_push(pairs, ((CompPair){a, b}));
    same->peer[a->id] = b;
  }
  return true;
}

// Op, shape and attributes; callees are noted.
static bool same_but_callees(Same *same, const HlInst *a, const HlInst *b, CompPairs *pairs) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_calls != b->n_calls ||
      !same_shape(same, a->shape, b->shape) || !is_known(a) || !same_attrs(a, b))
    return false;
  for (int k = 0; k < a->n_calls; k++)
    if (!expect_same(same, hl_called(a, k), hl_called(b, k), pairs))
      return false;
  return true;
}

static bool same_bodies(Same *same, const HlComp *a, const HlComp *b, CompPairs *pairs) {
  if (a->n_insts != b->n_insts || a->n_params != b->n_params || a->is_fusion != b->is_fusion ||
      a->execution_thread != b->execution_thread || !a->root || !b->root)
    return false;
  HlMark mark = hl_arena_mark(same->arena);
  HlInst **order_a = hl_post_order(same->arena, a), **order_b = hl_post_order(same->arena, b);
  const uint32_t *place_a = places_of(same->arena, a, order_a);
  const uint32_t *place_b = places_of(same->arena, b, order_b);
  bool ok = place_a[a->root->id] == place_b[b->root->id];
  for (uint32_t k = 0; ok && k < a->n_insts; k++) {
    ok = same_but_callees(same, order_a[k], order_b[k], pairs) &&
         same_control(order_a[k], place_a, order_b[k], place_b);
    for (uint32_t o = 0; ok && o < order_a[k]->n_operands; o++)
      ok = place_a[order_a[k]->operands[o]->id] == place_b[order_b[k]->operands[o]->id];
  }
  hl_arena_release(same->arena, mark);
  return ok;
}

bool same_comp(Same *same, const HlComp *a, const HlComp *b) {
  CompPairs pairs = {0};
  bool ok = expect_same(same, a, b, &pairs);
  for (int k = 0; ok && k < pairs.n; k++)
    ok = same_bodies(same, pairs.at[k].a, pairs.at[k].b, &pairs);
  for (int k = 0; !ok && k < pairs.n; k++)
    same->peer[pairs.at[k].a->id] = NULL;
  vec_free(&pairs);
  return ok;
}
