// rewrite/alternatives/select.c: decisions: in the place of each `alternatives` comes the operand that was chosen, and what nobody
// needs then goes.

#include <inttypes.h>
#include <stdlib.h>

#include "hilo/features.h"
#include "rewrite/alternatives/proposals.h"

// --- Pruning ----------------------------------------------------------------------------------------

static bool is_dead(const HlInst *inst) {
  return !inst->first_use && inst->comp->root != inst && inst->op != HL_OP_PARAMETER &&
         !hl_has_control(inst) && hl_is_pure(inst);
}

// Erases a computation that nobody calls, and those that only it called.
static void drop_comp(HlArena *arena, HlModule *m, HlComp *comp) {
  VEC(HlComp *) todo = {0};
  vec_push_in(arena, &todo, comp);
  while (todo.n > 0) {
    HlComp *next = vec_pop(&todo);
    if (!hl_comp_alive(next) || next->first_call || next == m->entry)
      continue;
    for (const HlInst *inst = next->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        vec_push_in(arena, &todo, inst->calls[k].comp);
    hl_comp_erase(next);
  }
}

static void erase(HlArena *arena, HlModule *m, HlInst *inst) {
  const int n = inst->n_calls;
  HlComp **called = HL_ARRAY(arena, HlComp *, n + 1);
  for (int k = 0; k < n; k++)
    called[k] = inst->calls[k].comp;
  hl_erase(inst);
  for (int k = 0; k < n; k++)
    drop_comp(arena, m, called[k]);
}

void prune_from(HlCx *cx, HlModule *m, InstList *list) {
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  InstList todo = {0};
  vec_append_in(arena, &todo, list->at, list->n);
  while (todo.n > 0) {
    HlInst *inst = vec_pop(&todo);
    if (!hl_alive(inst) || !is_dead(inst))
      continue;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      vec_push_in(arena, &todo, inst->operands[k]);
    erase(arena, m, inst);
  }
  hl_arena_release(arena, mark);
}

// What only tells of an operand by its number would be wrong.
static bool may_lose_operands(const HlInst *fusion) {
  return fusion->op == HL_OP_FUSION && !hl_has_attr(fusion, HL_A_OUTPUT_TO_OPERAND_ALIASING);
}

static void drop_params(HlArena *arena, HlComp *body) {
  const HlCall *call = body->first_call;
  if (!body->is_fusion || !call || call->next || !may_lose_operands(call->caller) ||
      (int)call->caller->n_operands != body->n_params)
    return;
  HlInst *fusion = call->caller;
  HlInst **kept = HL_ARRAY(arena, HlInst *, fusion->n_operands + 1);
  int n = 0;
  for (int k = body->n_params - 1; k >= 0; k--) {
    HlInst *param = body->params[k];
    if (param->first_use || body->root == param || hl_has_control(param))
      kept[n++] = fusion->operands[k];
    else
      hl_parameter_drop(param);
  }
  if (n == (int)fusion->n_operands)
    return;
  for (int k = 0; k < n / 2; k++) {
    HlInst *other = kept[k];
    kept[k] = kept[n - 1 - k];
    kept[n - 1 - k] = other;
  }
  hl_set_operands(fusion, n, kept);
}

void hl_prune(HlModule *m) {
  HlArena *arena = hl_arena_new();
  for (HlComp *comp = m->first; comp; comp = comp->next) {  // callees come first
    for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
      prev = inst->prev;
      if (is_dead(inst))
        hl_erase(inst);
    }
    drop_params(arena, comp);
  }
  for (HlComp *comp = m->last, *prev; comp; comp = prev) {
    prev = comp->prev;
    if (!comp->first_call && comp != m->entry)
      hl_comp_erase(comp);
  }
  hl_arena_free(arena);
}

// --- Finding them -----------------------------------------------------------------------------------

HlInst **hl_alternatives(HlArena *arena, const HlModule *m, int *n) {
  InstList found = {0};
  HlComp **order = hl_comp_order(arena, m);
  for (uint32_t k = m->n_comps; k-- > 0;) {
    if (!hl_comp_may_have(order[k], HL_OP_ALTERNATIVES))
      continue;
    HlInst **insts = hl_post_order(arena, order[k]);
    for (uint32_t i = 0; i < order[k]->n_insts; i++)
      if (insts[i]->op == HL_OP_ALTERNATIVES)
        vec_push_in(arena, &found, insts[i]);
  }
  *n = found.n;
  return found.at;
}

// --- Selecting --------------------------------------------------------------------------------------

static bool check(HlCx *cx, HlArena *arena, int n_all, HlInst *const *all, int n,
                  const HlSelection *choice) {
  Map listed = {.arena = arena};
  if (n != n_all)
    return hl_error(cx, (HlPos){0}, "there are %d alternatives, but %d decisions", n_all, n);
  for (int k = 0; k < n_all; k++)
    *map_at(&listed, map_key(all[k])) = 1;
  for (int k = 0; k < n; k++) {
    uint64_t *at = map_at(&listed, map_key(choice[k].inst));
    const uint64_t seen = *at;
    *at = 2;
    if (seen == 0)
      return hl_error(cx, (HlPos){0}, "decision %d is about no alternatives of the module", k);
    if (seen == 2)
      return hl_error(cx, (HlPos){0}, "there are two decisions about %s",
                      choice[k].inst->name->text);
    if (choice[k].operand < 0 || choice[k].operand >= choice[k].inst->n_operands)
      return hl_error(cx, (HlPos){0}, "%s has %u operands, but number %" PRId64 " was chosen",
                      choice[k].inst->name->text, choice[k].inst->n_operands, choice[k].operand);
  }
  return true;
}

// A value that stands in the place of another one, which has an order of execution to keep.
static void select_one(HlArena *arena, InstList *rest, const HlSelection *choice) {
  HlInst *inst = choice->inst, *by = inst->operands[choice->operand];
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k]->op != HL_OP_ALTERNATIVES)
      vec_push_in(arena, rest, inst->operands[k]);
  hl_replace_uses(inst, by);
}

bool hl_alternatives_select(HlCx *cx, HlModule *m, int n, const HlSelection *choice) {
  HlArena *arena = hl_arena_new();
  int n_all;
  HlInst **all = hl_alternatives(arena, m, &n_all);
  const bool ok = check(cx, arena, n_all, all, n, choice);
  InstList rest = {0};
  for (int k = 0; ok && k < n; k++)
    select_one(arena, &rest, &choice[k]);
  for (int k = n; ok && k-- > 0;)
    hl_erase(choice[k].inst);
  if (ok)
    prune_from(cx, m, &rest);
  hl_arena_free(arena);
  return ok;
}

// --- By numbers -------------------------------------------------------------------------------------

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

// The places of `alternatives` among the nodes of features.
static int64_t *node_indices(HlArena *arena, const HlModule *m, int n) {
  int64_t *out = HL_ARRAY(arena, int64_t, n + 1), node = 0;
  HlComp **order = hl_comp_order(arena, m);
  int found = 0;
  for (uint32_t k = m->n_comps; k-- > 0;) {
    if (!hl_comp_may_have(order[k], HL_OP_ALTERNATIVES)) {
      node += order[k]->n_insts;
      continue;
    }
    HlInst **insts = hl_post_order(arena, order[k]);
    for (uint32_t i = 0; i < order[k]->n_insts; i++, node++)
      if (insts[i]->op == HL_OP_ALTERNATIVES)
        out[found++] = node;
  }
  return out;
}

// Whether the rows' first numbers are these, each once; then `map` has 1 + the place in `of` of each.
static bool is_set(HlArena *arena, int n, const int64_t *of, const int64_t *rows, Map *map) {
  *map = (Map){.arena = arena};
  int64_t *given = HL_ARRAY(arena, int64_t, n + 1), *wanted = HL_ARRAY(arena, int64_t, n + 1);
  for (int k = 0; k < n; k++) {
    given[k] = rows[2 * k];
    wanted[k] = of[k];
    *map_at(map, (uint64_t)of[k]) = (uint64_t)k + 1;
  }
  if (n > 1) {
    qsort(given, (size_t)n, sizeof *given, by_number);
    qsort(wanted, (size_t)n, sizeof *wanted, by_number);
  }
  for (int k = 0; k < n; k++)
    if (given[k] != wanted[k])
      return false;
  return true;
}

static bool decide(HlCx *cx, HlArena *arena, HlModule *m, int64_t n, const int64_t *rows) {
  int n_all;
  Map place;
  HlInst **all = hl_alternatives(arena, m, &n_all);
  if (n != n_all)
    return hl_error(cx, (HlPos){0}, "there are %d alternatives, but %" PRId64 " decisions", n_all,
                    n);
  int64_t *index = node_indices(arena, m, n_all), *uid = HL_ARRAY(arena, int64_t, n_all + 1);
  for (int k = 0; k < n_all; k++)
    uid[k] = hl_uid(all[k]);
  if (!is_set(arena, n_all, index, rows, &place) && !is_set(arena, n_all, uid, rows, &place))
    return hl_error(
        cx, (HlPos){0},
        "the decisions name neither the indices of all alternatives, each once, nor their uids");
  HlSelection *choice = HL_ARRAY(arena, HlSelection, n_all + 1);
  for (int k = 0; k < n_all; k++)
    choice[k] = (HlSelection){all[map_get(&place, (uint64_t)rows[2 * k]) - 1], rows[2 * k + 1]};
  return hl_alternatives_select(cx, m, n_all, choice);
}

bool hl_alternatives_decide(HlCx *cx, HlModule *m, int64_t n, const int64_t *rows) {
  HlArena *arena = hl_arena_new();
  const bool ok = decide(cx, arena, m, n, rows);
  hl_arena_free(arena);
  return ok;
}
