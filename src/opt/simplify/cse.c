// opt/simplify/cse.c: common subexpression elimination: equal instructions on equal operands become one.
//
//   x = f32[4] parameter(0)            x = f32[4] parameter(0)
//   a = f32[4] add(x, x)          =>   a = f32[4] add(x, x)
//   b = f32[4] add(x, x)               ROOT m = f32[4] multiply(a, a)
//   ROOT m = f32[4] multiply(a, b)
//
// First equal constants of a computation become the first of them; then a walk from operands to
// users looks each instruction up in a hash table of those seen. Since operands were merged before,
// equal means: the same op and attributes, callees that compute the same, and the very same
// operands, in either order where the op commutes. Iotas are cheaper made twice than kept, so two
// equal ones stay two, but count as the same operand.
#include <stdlib.h>

#include "base/map.h"
#include "opt/ask/effects.h"
#include "opt/ask/same.h"
#include "opt/passes.h"
#include "opt/simplify/cse.h"

typedef struct Cse {
  HlPass *p;
  Same same;
  const bool *effects;
  bool ignore_control;
  HlInst **stands_for;  // by id, of the computation at hand: the first equal iota; NULL: itself
} Cse;

typedef bool EqualFn(Cse *cse, const HlInst *a, const HlInst *b);

// The first instruction met that equals this one, which is noted if there is none.
static HlInst *first_equal(Cse *cse, Map *seen, uint64_t hash, HlInst *inst, EqualFn *equal) {
  MapWalk walk = map_walk(seen, hash);
  for (HlInst *other; (other = map_next_ptr(&walk));)
    if (equal(cse, other, inst))
      return other;
  map_add_ptr(seen, hash, inst);
  return inst;
}

// The first stands for the other, and has no sharding where it had none.
static void merge(HlPass *p, const char *rule, HlInst *inst, HlInst *first) {
  if (!hl_sharding(inst) || hl_sharding(first)) {
    hl_replace(p, rule, inst, first);
    return;
  }
  if (!hl_change(p, rule, inst, first))
    return;
  hl_remove_attr(inst, HL_A_SHARDING);
  if (hl_changed(p))
    hl_replace(p, rule, inst, first);
}

// --- Constants ----------------------------------------------------------------------------------

static bool may_go(const Cse *cse, const HlInst *inst) {
  return cse->ignore_control || !hl_has_control(inst);
}

static bool same_constant(Cse *cse, const HlInst *a, const HlInst *b) {
  return same_shape(&cse->same, a->shape, b->shape) &&
         hl_literal_equal(hl_constant(a), hl_constant(b));
}

static int by_creation(const void *a, const void *b) {
  const HlInst *x = *(HlInst *const *)a, *y = *(HlInst *const *)b;
  return x->order < y->order ? -1 : x->order > y->order;
}

// The one made first stays.
static void merge_constants(Cse *cse, const HlComp *comp) {
  if (!hl_comp_may_have(comp, HL_OP_CONSTANT))
    return;
  HlInst **constants = HL_ARRAY(cse->p->arena, HlInst *, comp->n_insts + 1);
  int n = 0;
  for (uint32_t id = 0; id < comp->next_id; id++)
    if (comp->op_by_id[id] == HL_OP_CONSTANT && hl_is_constant(comp->by_id[id]) &&
        may_go(cse, comp->by_id[id]))
      constants[n++] = comp->by_id[id];
  if (n < 2)
    return;
  qsort(constants, (size_t)n, sizeof *constants, by_creation);
  Map seen = {.arena = cse->p->arena};
  map_room(&seen, (uint32_t)n);
  for (int k = 0; k < n; k++) {
    HlInst *inst = constants[k];
    const uint64_t hash =
        hl_hash_mix(same_shape_hash(inst->shape), hl_literal_hash(hl_constant(inst)));
    HlInst *first = first_equal(cse, &seen, hash, inst, same_constant);
    if (first != inst)
      merge(cse->p, "constant", inst, first);
  }
}

// --- Expressions --------------------------------------------------------------------------------

static HlInst *operand(const Cse *cse, const HlInst *inst, uint32_t k) {
  HlInst *of = inst->operands[k];
  return cse->stands_for[of->id] ? cse->stands_for[of->id] : of;
}

static bool commutes(const HlInst *inst) {
  return (hl_op_info[inst->op].traits & HL_T_COMMUTES) && inst->n_operands == 2;
}

static bool same_operands(const Cse *cse, const HlInst *a, const HlInst *b) {
  if (a->n_operands != b->n_operands)
    return false;
  bool same = true;
  for (uint32_t k = 0; same && k < a->n_operands; k++)
    same = operand(cse, a, k) == operand(cse, b, k);
  return same || (commutes(a) && operand(cse, a, 0) == operand(cse, b, 1) &&
                  operand(cse, a, 1) == operand(cse, b, 0));
}

static bool must_fuse(const HlInst *inst) {
  const HlDict *frontend = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; frontend && k < frontend->n; k++)
    if (hl_str_is(hl_str(frontend->key[k]->text), "MUST_FUSE"))
      return true;
  return false;
}

static bool same_expression(Cse *cse, const HlInst *a, const HlInst *b) {
  return same_operands(cse, a, b) && same_inst(&cse->same, a, b) && !must_fuse(a) && !must_fuse(b);
}

static bool same_iota(Cse *cse, const HlInst *a, const HlInst *b) {
  return a->op == b->op && same_inst(&cse->same, a, b);
}

static uint64_t expression_hash(Cse *cse, const HlInst *inst) {
  uint64_t h = same_inst_hash(&cse->same, inst);
  if (commutes(inst))
    return hl_hash_mix(h, (uint64_t)operand(cse, inst, 0)->id + operand(cse, inst, 1)->id);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    h = hl_hash_mix(h, operand(cse, inst, k)->id);
  return h;
}

// Takes another iota. A fusion's body may hold nothing that nobody uses.
static void take_iota(HlInst *inst, uint32_t k, HlInst *first) {
  HlInst *second = inst->operands[k];
  hl_set_operand(inst, (int)k, first);
  if (!second->first_use && second != inst->comp->root && !hl_has_control(second))
    hl_erase(second);
}

// An instruction that takes two equal iotas takes the first of them twice.
static void merge_iota_operands(Cse *cse, HlInst *inst) {
  for (uint32_t k = 1; k < inst->n_operands; k++) {
    HlInst *first = cse->stands_for[inst->operands[k]->id];
    if (!first || first == inst->operands[k])
      continue;
    for (uint32_t j = 0; j < k; j++)
      if (operand(cse, inst, j) == first && inst->operands[j] != inst->operands[k] &&
          hl_change(cse->p, "iota-operand", inst, NULL)) {
        take_iota(inst, k, inst->operands[j]);
        hl_changed(cse->p);
      }
  }
}

// Links of asynchronous chains stay: each start has its own end.
static bool is_candidate(const Cse *cse, const HlInst *inst) {
  if (hl_is_async((HlOp)inst->op))
    return false;
  if (inst->n_operands == 0 && inst->op != HL_OP_PARTITION_ID && inst->op != HL_OP_REPLICA_ID)
    return false;
  return may_go(cse, inst) && !effects_has(cse->effects, inst);
}

static void merge_expressions(Cse *cse, HlComp *comp) {
  Map seen = {.arena = cse->p->arena};
  map_room(&seen, comp->n_insts);
  cse->stands_for = HL_ARRAY(cse->p->arena, HlInst *, comp->next_id);
  for (HlInst *inst = comp->first, *next; inst; inst = next) {
    next = inst->next;
    if (inst->op == HL_OP_IOTA) {
      cse->stands_for[inst->id] =
          first_equal(cse, &seen, expression_hash(cse, inst), inst, same_iota);
      continue;
    }
    if (!is_candidate(cse, inst))
      continue;
    merge_iota_operands(cse, inst);
    HlInst *first = first_equal(cse, &seen, expression_hash(cse, inst), inst, same_expression);
    if (first != inst)
      merge(cse->p, "expression", inst, first);
  }
}

// --- Outputs of fusions -------------------------------------------------------------------------

// Which output each output equals first; NULL: no two are equal.
static const int *equal_outputs(HlArena *arena, const HlInst *root) {
  int *first_at = HL_ARRAY(arena, int, root->comp->next_id);  // by id: place + 1
  int *same_as = HL_ARRAY(arena, int, root->n_operands + 1);
  bool found = false;
  for (uint32_t k = 0; k < root->n_operands; k++) {
    int *at = &first_at[root->operands[k]->id];
    found |= *at != 0;
    if (*at == 0)
      *at = (int)k + 1;
    same_as[k] = *at - 1;
  }
  return found ? same_as : NULL;
}

// Where a fusion gives one value twice, everybody takes the first.
static void merge_outputs(Cse *cse, const HlInst *fusion) {
  const HlInst *root = hl_to_apply(fusion)->root;
  if (!hl_shape_is_tuple(fusion->shape) || root->op != HL_OP_TUPLE)
    return;
  const int *same_as = equal_outputs(cse->p->arena, root);
  for (const HlUse *use = same_as ? fusion->first_use : NULL; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      continue;
    const int64_t k = hl_attr_int(use->user, HL_A_INDEX);
    if (same_as[k] != k && fusion->shape->element[k] == fusion->shape->element[same_as[k]] &&
        hl_change(cse->p, "fusion-output", use->user, fusion)) {
      hl_set_int(use->user, HL_A_INDEX, same_as[k]);
      hl_changed(cse->p);
    }
  }
}

static void merge_all(Cse *cse, HlComp *comp) {
  if (!hl_pass_has_changes(cse->p, comp))
    return;
  HlMark mark = hl_arena_mark(cse->p->arena);
  const bool has_fusions = hl_comp_may_have(comp, HL_OP_FUSION);
  for (const HlInst *inst = has_fusions ? comp->first : NULL; inst; inst = inst->next)
    if (inst->op == HL_OP_FUSION)
      merge_outputs(cse, inst);
  merge_constants(cse, comp);
  merge_expressions(cse, comp);
  hl_arena_release(cse->p->arena, mark);
}

void cse_module(HlPass *p, bool layout_sensitive, bool ignore_control) {
  Cse cse = {.p = p,
             .same = same_new(p, layout_sensitive),
             .effects = effects_find(p),
             .ignore_control = ignore_control};
  const bool relayed = p->relay_control;
  p->relay_control = ignore_control;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = 0; k < n; k++)
    merge_all(&cse, comps[k]);
  p->relay_control = relayed;
}

bool pass_cse(HlPass *p) {
  cse_module(p, hl_pass_flag(p, "layout_sensitive"),
             hl_pass_flag(p, "ignore_control_dependencies"));
  return true;
}
