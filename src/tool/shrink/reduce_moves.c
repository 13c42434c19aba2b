// tool/shrink/reduce_moves.c: moves that take parts of the graph away.
//
// Things are named: a move lists instructions of the best module by name and finds them again in the copy it edits, so that
// a list stays good while the module shrinks. What is not found there any more is given up already.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "hilo/build.h"
#include "hilo/isolate.h"
#include "hilo/pass.h"
#include "tool/shrink/extract.h"
#include "tool/shrink/reduce.h"

typedef struct Thing {
  const char *name;
  int choice;
} Thing;

enum { FEW = 400, MANY = 20000 };

// --- Copies with instructions found by name ---------------------------------------------------------------

Found reduce_open_copy(Reducer *r) {
  Found f = {.m = hl_clone(r->cx, r->m), .arena = hl_arena_new()};
  f.by_name.arena = f.arena;
  for (HlComp *comp = f.m ? f.m->first : NULL; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      map_put_ptr(&f.by_name, inst->name, inst);
  return f;
}

HlInst *reduce_find(const Found *f, const char *name) {
  const HlSym *sym = hl_syms_find(f->m->syms, name, strlen(name));
  HlInst *inst = sym ? map_get_ptr(&f->by_name, sym) : NULL;
  return inst && hl_alive(inst) ? inst : NULL;
}

HlModule *reduce_close_copy(Found *f, bool changed) {
  hl_arena_free(f->arena);
  if (changed)
    return f->m;
  hl_module_free(f->m);
  return NULL;
}

static const char *keep_name(Reducer *r, const HlInst *inst) {
  return hl_arena_printf(r->arena, "%s", inst->name->text);
}

static void say(HlBuf *what, const char *verb, const char *name, int n) {
  if (n == 1)
    hl_buf_printf(what, "%s '%s'", verb, name);
  else
    hl_buf_printf(what, "%s '%s' and %d more", verb, name, n - 1);
}

// --- Elements of the result -------------------------------------------------------------------------------

static HlModule *without_results(Reducer *r, const Move *move, const int *thing, int n,
                                 HlBuf *what) {
  Found f = reduce_open_copy(r);
  if (!f.m)
    return NULL;
  HlInst *root = f.m->entry->root, **left = HL_ARRAY(f.arena, HlInst *, root->n_operands + 1);
  const HlShape **shape = HL_ARRAY(f.arena, const HlShape *, root->n_operands + 1);
  bool *gone = HL_ARRAY(f.arena, bool, root->n_operands + 1);
  int n_left = 0;
  const Thing *all = move->things;
  // The list counts elements as they were at its start; what of them is there still stands in `name` of each.
  for (int k = 0; k < n; k++)
    for (uint32_t i = 0; i < root->n_operands; i++)
      if (!gone[i] && strcmp(root->operands[i]->name->text, all[thing[k]].name) == 0) {
        gone[i] = true;
        break;
      }
  for (uint32_t i = 0; i < root->n_operands; i++)
    if (!gone[i]) {
      shape[n_left] = root->operands[i]->shape;
      left[n_left++] = root->operands[i];
    }
  const bool good = root->op == HL_OP_TUPLE && n_left > 0 && n_left < (int)root->n_operands;
  if (good) {
    HlInst *now = n_left == 1 ? left[0]
                              : hl_inst_new(f.m->entry, HL_OP_TUPLE,
                                            hl_shape_tuple(f.m->shapes, n_left, shape),
                                            hl_fresh_name(f.m, root->name->text), n_left, left);
    hl_set_root(f.m->entry, now);
    hl_forget_interface(f.m);
    say(what, "result", all[thing[0]].name, n);
  }
  return reduce_close_copy(&f, good);
}

// Of a tuple that is made elsewhere one element.
static HlModule *with_one_element(Reducer *r, const Move *move, const int *thing, int n,
                                  HlBuf *what) {
  HlModule *m = hl_clone(r->cx, r->m);
  HlInst *root = m ? m->entry->root : NULL;
  if (!root || !hl_shape_is_tuple(root->shape) || *thing >= root->shape->rank ||
      root->op == HL_OP_PARAMETER) {
    hl_module_free(m);
    return NULL;
  }
  HlInst *element = hl_inst_new(m->entry, HL_OP_GET_TUPLE_ELEMENT, root->shape->element[*thing],
                                hl_fresh_name(m, "element"), 1, &root);
  hl_set_int(element, HL_A_INDEX, *thing);
  hl_set_root(m->entry, element);
  hl_buf_printf(what, "all but element %d of result '%s'", *thing, root->name->text);
  return m;
}

bool reduce_results(Reducer *r) {
  const HlInst *root = r->m->entry->root;
  if (root->op != HL_OP_TUPLE && hl_shape_is_tuple(root->shape)) {
    // What runs inside may get less by that, and then all of it does; of others it only adds an instruction.
    const bool runs = root->op == HL_OP_FUSION || hl_op_is((HlOp)root->op, HL_T_CONTROL);
    Move one = {.phase = "results",
                .n = root->shape->rank,
                .make = with_one_element,
                .any_size = runs,
                .as_large = true,
                .one_by_one = true};
    return reduce_try(r, &one);
  }
  if (root->op != HL_OP_TUPLE || root->n_operands < 2)
    return false;
  Thing *things = HL_ARRAY(r->arena, Thing, root->n_operands + 1);
  for (uint32_t k = 0; k < root->n_operands; k++)
    things[k].name = keep_name(r, root->operands[k]);
  Move move = {
      .phase = "results", .n = (int)root->n_operands, .things = things, .make = without_results};
  return reduce_try(r, &move);
}

// --- Another entry ----------------------------------------------------------------------------------------

static HlModule *other_entry(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Thing *all = move->things;
  const HlComp *comp = hl_find_comp(r->m, hl_str(all[*thing].name));
  if (!comp || comp == r->m->entry)
    return NULL;
  HlExtract extract;
  HlModule *m = NULL;
  if (hl_extract_comp(r->cx, comp, &extract)) {
    m = extract.m;
    extract.m = NULL;
    hl_buf_printf(what, "all but computation '%s'", comp->name->text);
  }
  hl_extract_free(&extract);
  return m;
}

static int larger_first(const void *a, const void *b) {
  const HlComp *x = *(HlComp *const *)a, *y = *(HlComp *const *)b;
  return x->n_insts != y->n_insts ? (x->n_insts < y->n_insts ? 1 : -1)
                                  : strcmp(x->name->text, y->name->text);
}

bool reduce_entry(Reducer *r) {
  const HlComp **list = HL_ARRAY(r->arena, const HlComp *, r->m->n_comps + 1);
  int n = 0;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    if (comp != r->m->entry)
      list[n++] = comp;
  qsort(list, (size_t)n, sizeof *list, larger_first);
  if (n > FEW)
    n = FEW;
  Thing *things = HL_ARRAY(r->arena, Thing, n + 1);
  for (int k = 0; k < n; k++)
    things[k].name = hl_arena_printf(r->arena, "%s", list[k]->name->text);
  Move move = {.phase = "entry",
               .n = n,
               .things = things,
               .make = other_entry,
               .any_size = true,
               .one_by_one = true};
  return reduce_try(r, &move);
}

// --- Cutting ----------------------------------------------------------------------------------------------

// What is left gives what it gave before, and what only the cut part had a use for.
static HlModule *without_insts(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const HlComp *comp = r->m->entry;
  const Thing *all = move->things;
  HlArena *arena = hl_arena_new();
  bool *in = HL_ARRAY(arena, bool, comp->next_id + 1),
       *result = HL_ARRAY(arena, bool, comp->next_id + 1);
  const HlInst *root = comp->root;
  const bool tuple = root->op == HL_OP_TUPLE && !root->first_use;
  int gone = 0;
  Map by_name = {.arena = arena};  // of symbols
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    map_put_ptr(&by_name, inst->name, inst);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    in[inst->id] =
        inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CONSTANT && !(tuple && inst == root);
  for (int k = 0; k < n; k++) {
    const HlSym *sym = hl_syms_find(r->m->syms, all[thing[k]].name, strlen(all[thing[k]].name));
    const HlInst *inst = sym ? map_get_ptr(&by_name, sym) : NULL;
    if (inst && in[inst->id]) {
      in[inst->id] = false;
      gone++;
    }
  }
  int n_results = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    bool used = false, by_root = inst == root;
    for (const HlUse *use = inst->first_use; use; use = use->next) {
      used |= in[use->user->id];
      by_root |= tuple && use->user == root;
    }
    result[inst->id] = in[inst->id] && (by_root || !used);
    n_results += result[inst->id];
  }
  HlModule *m = NULL;
  HlExtract extract = {0};
  if (gone > 0 && n_results > 0 &&
      extract_keep(r->cx, comp, in, result, r->m->name->text, &extract)) {
    m = extract.m;
    extract.m = NULL;
    say(what, "cut", all[thing[0]].name, gone);
  }
  hl_extract_free(&extract);
  hl_arena_free(arena);
  return m;
}

bool reduce_cut(Reducer *r) {
  const HlComp *comp = r->m->entry;
  Thing *things = HL_ARRAY(r->arena, Thing, comp->n_insts + 1);
  int n = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CONSTANT)
      things[n++].name = keep_name(r, inst);
  Move move = {.phase = "cut", .n = n, .things = things, .make = without_insts};
  return reduce_try(r, &move);
}

// --- Inlining ---------------------------------------------------------------------------------------------

enum {
  BODY_ONCE,
  NEVER,
  BRANCH
};  // choices: a loop's body run once, not at all; the branch of this number, from BRANCH on

// The callee's instructions in the caller's place; copies have names of their own and the values of what they are copies of.
static HlInst *graft(Reducer *r, HlInst *inst, const HlComp *callee, int n, HlInst *const *operands,
                     HlArena *arena) {
  HlInst **map = HL_ARRAY(arena, HlInst *, callee->next_id + 1);
  HlInst *root = hl_graft(inst->comp, callee, n, operands, map);
  HlModule *m = inst->comp->module;
  for (const HlInst *old = callee->first; old; old = old->next) {
    HlInst *copy = map[old->id];
    if (old->op == HL_OP_PARAMETER)
      continue;
    const char *name = hl_arena_printf(arena, "%.*s.i%lld", (int)strcspn(old->name->text, "."),
                                       old->name->text, (long long)r->next_name++);
    hl_set_name(copy, hl_fresh_name(m, name));
    values_alias(r, copy->name->text, old->name->text);
  }
  return root;
}

static HlInst *inlined(Reducer *r, HlInst *inst, int choice, HlArena *arena) {
  HlInst *const *x = inst->operands;
  const int n = (int)inst->n_operands;
  switch ((HlOp)inst->op) {
  case HL_OP_FUSION:
  case HL_OP_CALL: return graft(r, inst, hl_called(inst, 0), n, x, arena);
  case HL_OP_WHILE:
    return choice == NEVER ? x[0] : graft(r, inst, hl_while_body(inst), 1, x, arena);
  case HL_OP_CONDITIONAL:
    choice -= BRANCH;
    return choice >= 0 && choice < inst->n_calls && choice + 1 < n
               ? graft(r, inst, hl_called(inst, choice), 1, &x[choice + 1], arena)
               : NULL;
  case HL_OP_ASYNC_DONE:
    inst = x[0];
    return inst->op == HL_OP_ASYNC_START && inst->n_calls == 1
               ? graft(r, inst, hl_called(inst, 0), (int)inst->n_operands, inst->operands, arena)
               : NULL;
  default: return NULL;
  }
}

static HlModule *with_inlined(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Thing *all = move->things;
  Found f = reduce_open_copy(r);
  int changed = 0;
  for (int k = 0; f.m && k < n; k++) {
    HlInst *inst = reduce_find(&f, all[thing[k]].name);
    HlInst *by = inst ? inlined(r, inst, all[thing[k]].choice, f.arena) : NULL;
    if (!by || by->shape->dtype != inst->shape->dtype)
      continue;
    hl_replace_uses(inst, by);
    changed++;
  }
  say(what, "in place of the call, its body:", all[thing[0]].name, changed);
  return reduce_close_copy(&f, changed > 0);
}

bool reduce_inline(Reducer *r) {
  Thing *things = HL_ARRAY(r->arena, Thing, 4 * hl_count_instructions(r->m) + 1);
  int n = 0;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const char *name = keep_name(r, inst);
      if (inst->op == HL_OP_FUSION || inst->op == HL_OP_CALL || inst->op == HL_OP_ASYNC_DONE)
        things[n++] = (Thing){name, 0};
      for (int k = 0; inst->op == HL_OP_CONDITIONAL && k < inst->n_calls && k < 3; k++)
        things[n++] = (Thing){name, BRANCH + k};
      for (int k = BODY_ONCE; inst->op == HL_OP_WHILE && k <= NEVER; k++)
        things[n++] = (Thing){name, k};
    }
  Move move = {.phase = "inline", .n = n, .things = things, .make = with_inlined, .any_size = true};
  return reduce_try(r, &move);
}

// --- One value by another ---------------------------------------------------------------------------------

// Zeros (or ones) of a shape, at the end of the computation; NULL: there is no such value.
HlInst *reduce_plain_value(HlBuild *b, const HlShape *shape, double value) {
  if (shape->dtype == HL_TUPLE) {
    HlArena *arena = hl_arena_new();
    HlInst **element = HL_ARRAY(arena, HlInst *, shape->rank + 1);
    bool all = true;
    for (int k = 0; all && k < shape->rank; k++)
      all = (element[k] = reduce_plain_value(b, shape->element[k], value)) != NULL;
    HlInst *tuple =
        all ? hl_inst_new(b->comp, HL_OP_TUPLE, shape, NULL, shape->rank, element) : NULL;
    hl_arena_free(arena);
    return tuple;
  }
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) || hl_memory_space(shape) != 0)
    return NULL;
  HlInst *out = hl_b_full(b, shape->dtype, shape->rank, shape->dim, value);
  if (out && shape->rank > 0)
    hl_set_shape(out, shape);
  return out;
}

// The operand of the same shape of this number.
static HlInst *same_operand(const HlInst *inst, int number) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k]->shape == inst->shape && inst->operands[k] != inst && number-- == 0)
      return inst->operands[k];
  return NULL;
}

static bool is_plain(const HlInst *inst) {
  if (inst->op == HL_OP_CONSTANT)
    return !hl_shape_is_array(inst->shape) || hl_shape_elements(inst->shape) == 1;
  return inst->op == HL_OP_BROADCAST && inst->operands[0]->op == HL_OP_CONSTANT &&
         hl_shape_is_scalar(inst->operands[0]->shape);
}

// An earlier value of the same shape.
static HlInst *earlier(const HlInst *inst, bool params) {
  for (HlInst *x = inst->comp->first; x && x != inst; x = x->next)
    if (x->shape == inst->shape && (x->op == HL_OP_PARAMETER) == params && !is_plain(x) &&
        hl_stands_before(x, inst))
      return x;
  return NULL;
}

enum { OPERAND, ZERO = 8, ONE, PARAM, EARLIER };

static HlInst *replacement(Reducer *r, HlInst *inst, int choice) {
  HlBuild b = {.cx = r->cx, .comp = inst->comp, .loc = inst->loc};
  switch (choice) {
  case ZERO: return is_plain(inst) ? NULL : reduce_plain_value(&b, inst->shape, 0);
  case ONE: return is_plain(inst) ? NULL : reduce_plain_value(&b, inst->shape, 1);
  case PARAM: return earlier(inst, true);
  case EARLIER: return earlier(inst, false);
  default: return same_operand(inst, choice - OPERAND);
  }
}

static bool is_replaceable(const HlInst *inst) {
  return (inst->first_use || inst == inst->comp->root) && inst->shape->dtype != HL_TOKEN &&
         inst->op != HL_OP_TUPLE && !hl_awaits((HlOp)inst->op);
}

static HlModule *with_replaced(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Thing *all = move->things;
  Found f = reduce_open_copy(r);
  const char *first = NULL;
  int changed = 0, choice = 0;
  for (int k = 0; f.m && k < n; k++) {
    HlInst *inst = reduce_find(&f, all[thing[k]].name);
    HlInst *by = inst && is_replaceable(inst) ? replacement(r, inst, all[thing[k]].choice) : NULL;
    if (!by || by == inst)
      continue;
    hl_replace_uses(inst, by);
    if (changed++ == 0) {
      first = all[thing[k]].name;
      choice = all[thing[k]].choice;
    }
  }
  static const char *const verbs[] = {"zeros for", "ones for", "a parameter for",
                                      "an earlier value for"};
  if (changed > 0)
    say(what, choice >= ZERO ? verbs[choice - ZERO] : "an operand for", first, changed);
  return reduce_close_copy(&f, changed > 0);
}

static bool replace_all(Reducer *r, const char *phase, const int *choices, int n_choices,
                        bool one_by_one) {
  Thing *things = HL_ARRAY(r->arena, Thing, n_choices * hl_count_instructions(r->m) + 1);
  int n = 0;
  for (const HlComp *comp = r->m->last; comp; comp = comp->prev)
    for (const HlInst *inst = comp->last; inst; inst = inst->prev)
      for (int k = 0; k < n_choices && is_replaceable(inst); k++)
        if (choices[k] >= ZERO || same_operand(inst, choices[k] - OPERAND))
          things[n++] = (Thing){keep_name(r, inst), choices[k]};
  if (one_by_one && n > MANY)
    n = MANY;
  Move move = {
      .phase = phase, .n = n, .things = things, .make = with_replaced, .one_by_one = one_by_one};
  return reduce_try(r, &move);
}

bool reduce_operands(Reducer *r) {
  static const int first[] = {OPERAND};
  return replace_all(r, "operands", first, 1, false);
}

bool reduce_zeros(Reducer *r) {
  static const int zero[] = {ZERO};
  return replace_all(r, "zeros", zero, 1, false);
}

bool reduce_others(Reducer *r) {
  static const int others[] = {PARAM, OPERAND + 1, OPERAND + 2, ONE, EARLIER};
  if (hl_count_instructions(r->m) > FEW)
    return false;
  return replace_all(r, "others", others, HL_COUNT_OF(others), true);
}

// --- Effects ----------------------------------------------------------------------------------------------

static HlModule *without_effects(Reducer *r, const Move *move, const int *thing, int n,
                                 HlBuf *what) {
  const Thing *all = move->things;
  Found f = reduce_open_copy(r);
  int changed = 0;
  for (int k = 0; f.m && k < n; k++) {
    HlInst *inst = reduce_find(&f, all[thing[k]].name);
    if (!inst || inst->first_use || inst == inst->comp->root)
      continue;
    hl_erase(inst);
    changed++;
  }
  say(what, "erased", all[thing[0]].name, changed);
  return reduce_close_copy(&f, changed > 0);
}

bool reduce_effects(Reducer *r) {
  Thing *things = HL_ARRAY(r->arena, Thing, hl_count_instructions(r->m) + 1);
  int n = 0;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (!inst->first_use && inst != comp->root && inst->op != HL_OP_PARAMETER)
        things[n++].name = keep_name(r, inst);
  Move move = {.phase = "effects", .n = n, .things = things, .make = without_effects};
  return n > 0 && reduce_try(r, &move);
}
