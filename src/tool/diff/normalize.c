// tool/diff/normalize.c: the one form of modules that are equal but for names, order and metadata.
//
// Instructions are put in the order of a walk from the root over operands, which no order in the file can change. What
// the root does not reach (sends, dead code) follows, sorted by a hash of all that is around it. Computations come in the
// order in which that walk meets their callers; equal functions of reductions, sorts and the like become one. Then all
// are named by op and number. The order of a schedule is part of a program and stays.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "hilo/edit.h"
#include "tool/diff/diff.h"

typedef struct Norm {
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  uint64_t *comp_hash;    // by id of the old computations
  HlComp **made;          // the new one; NULL: none yet
  HlInst *const **order;  // by id of the computation: its instructions in the new order
  int number[HL_OP_COUNT];
  int n_comps;
  Map functions;  // by hash: a function made that others may call, too
  Map channels;
} Norm;

// --- Hashes ---------------------------------------------------------------------------------------

static bool is_dropped(const HlAttr *attr) {
  return attr->key == HL_A_METADATA || attr->key == HL_A_ORIGIN || attr->key == HL_A_STATISTICS;
}

static uint64_t own_hash(const Norm *n, const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 1, inst->shape->hash);
  for (int k = 0; k < inst->n_attrs; k++)
    if (diff_attr_counts(inst, &inst->attrs[k]) && inst->attrs[k].key != HL_A_CHANNEL_ID)
      h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  for (int k = 0; k < inst->n_calls; k++)
    h = hl_hash_mix(h, n->comp_hash[inst->calls[k].comp->id]);
  return h;
}

static uint64_t preds_hash(const HlInst *inst, const uint64_t *up) {
  uint64_t h = 0;
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    h += hl_hash_mix(up[inst->control->preds[k]->id], 5);
  return h;
}

static void hash_up(const HlComp *comp, const uint64_t *own, uint64_t *up) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    uint64_t h = hl_hash_mix(own[inst->id], preds_hash(inst, up));
    for (uint32_t k = 0; k < inst->n_operands; k++)
      h = hl_hash_mix(h, up[inst->operands[k]->id]);
    up[inst->id] = h;
  }
}

// Of an instruction with all that uses it, from hashes of what they are made of.
static void hash_down(const HlComp *comp, const uint64_t *up, uint64_t *down) {
  for (const HlInst *inst = comp->last; inst; inst = inst->prev) {
    uint64_t h = inst == comp->root ? 7 : 3;
    for (const HlUse *use = inst->first_use; use; use = use->next)
      h += hl_hash_mix(hl_hash_mix(up[use->user->id], down[use->user->id]),
                       (uint64_t)use->number + 11);
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      h += hl_hash_mix(down[inst->control->succs[k]->id], 13);
    down[inst->id] = h;
  }
}

// --- Order ----------------------------------------------------------------------------------------

typedef struct Sink {
  uint64_t hash;
  HlInst *inst;
} Sink;

static int by_hash(const void *x, const void *y) {
  const Sink *a = x, *b = y;
  if (a->hash != b->hash)
    return a->hash < b->hash ? -1 : 1;
  return a->inst->id < b->inst->id ? -1 : a->inst->id > b->inst->id;
}

typedef struct Walk {
  uint8_t *state;  // by id: 0 new, 1 entered, 2 done
  VEC(HlInst *) stack;
  HlInst **out;
  uint32_t n;
  const uint64_t *key;
} Walk;

// Control predecessors, which have no order, by hash.
static void push_preds(Walk *w, const HlInst *inst) {
  const int n = inst->control ? inst->control->n_preds : 0;
  if (n == 0)
    return;
  Sink *preds = base_alloc(sizeof *preds * (size_t)n);
  for (int k = 0; k < n; k++)
    preds[k] = (Sink){w->key[inst->control->preds[k]->id], inst->control->preds[k]};
  qsort(preds, (size_t)n, sizeof *preds, by_hash);
  for (int k = n - 1; k >= 0; k--)
    vec_push(&w->stack, preds[k].inst);
  base_free(preds);
}

static void walk_from(Walk *w, HlInst *start) {
  vec_push(&w->stack, start);
  while (w->stack.n > 0) {
    HlInst *inst = vec_last(&w->stack);
    if (w->state[inst->id] != 0) {
      (void)vec_pop(&w->stack);
      if (w->state[inst->id] == 1)
        w->out[w->n++] = inst;
      w->state[inst->id] = 2;
      continue;
    }
    w->state[inst->id] = 1;
    push_preds(w, inst);
    for (uint32_t k = inst->n_operands; k > 0; k--)
      if (w->state[inst->operands[k - 1]->id] == 0)
        vec_push(&w->stack, inst->operands[k - 1]);
  }
}

static HlInst *const *order_of(Norm *n, HlComp *comp, const uint64_t *key) {
  if (comp->schedule)
    return comp->schedule;
  Walk w = {.state = HL_ARRAY(n->arena, uint8_t, comp->next_id + 1),
            .out = HL_ARRAY(n->arena, HlInst *, comp->n_insts + 1),
            .key = key};
  Sink *sinks = HL_ARRAY(n->arena, Sink, comp->n_insts + 1);
  size_t n_sinks = 0;
  for (int k = 0; k < comp->n_params; k++)  // parameters first, also those that nothing uses
    if (comp->params[k])
      walk_from(&w, comp->params[k]);
  if (comp->root)
    walk_from(&w, comp->root);
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (!inst->first_use)
      sinks[n_sinks++] = (Sink){key[inst->id], inst};
  qsort(sinks, n_sinks, sizeof *sinks, by_hash);
  for (size_t k = 0; k < n_sinks; k++)
    walk_from(&w, sinks[k].inst);
  vec_free(&w.stack);
  return w.out;
}

// Hashes a computation whose callees have been, and orders it.
static void prepare(Norm *n, HlComp *comp) {
  uint64_t *own = HL_ARRAY(n->arena, uint64_t, comp->next_id + 1),
           *up = HL_ARRAY(n->arena, uint64_t, comp->next_id + 1);
  uint64_t *down = HL_ARRAY(n->arena, uint64_t, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    own[inst->id] = own_hash(n, inst);
  hash_up(comp, own, up);
  hash_down(comp, up, down);
  uint64_t all = (uint64_t)comp->n_insts;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    own[inst->id] = hl_hash_mix(own[inst->id], down[inst->id]);
    all += hl_hash_mix(hl_hash_mix(up[inst->id], down[inst->id]), 17);
  }
  hash_up(comp, own, up);  // now with what becomes of each operand
  n->comp_hash[comp->id] = all;
  n->order[comp->id] = order_of(n, comp, up);
  for (uint32_t k = 0; comp->schedule && k < comp->n_insts; k++)
    n->comp_hash[comp->id] = hl_hash_mix(n->comp_hash[comp->id], up[comp->schedule[k]->id]);
}

// --- The new computations -------------------------------------------------------------------------

// Of a reduction, a sort: a function that several may call.
static bool may_share(const HlInst *caller) {
  return !hl_op_is((HlOp)caller->op, HL_T_CONTROL | HL_T_ASYNC) && caller->op != HL_OP_FUSION &&
         caller->op != HL_OP_CUSTOM_CALL;
}

static const HlSym *name_of(Norm *n, const HlInst *inst) {
  char name[96];
  const int k = n->number[inst->op]++;
  snprintf(name, sizeof name, "%s.%d", hl_op_text((HlOp)inst->op), k);
  return hl_sym(n->m, name);
}

static void copy_attrs(Norm *n, HlInst *to, const HlInst *from) {
  hl_copy_attrs(to, from);
  for (int k = from->n_attrs - 1; k >= 0; k--)
    if (is_dropped(&from->attrs[k]))
      hl_remove_attr(to, from->attrs[k].key);
  const int64_t channel = hl_attr_int(from, HL_A_CHANNEL_ID);
  if (!hl_has_attr(from, HL_A_CHANNEL_ID) || channel <= 0)
    return;
  uint64_t *known = map_at(&n->channels, (uint64_t)channel);
  if (!*known)
    *known = n->channels.n;
  hl_set_int(to, HL_A_CHANNEL_ID, (int64_t)*known);
}

static HlInst *copy_inst(Norm *n, HlComp *to, const HlInst *from, HlInst *const *made) {
  HlInst **operands = base_alloc(sizeof *operands * ((size_t)from->n_operands + 1));
  for (uint32_t k = 0; k < from->n_operands; k++)
    operands[k] = made[from->operands[k]->id];
  HlInst *inst =
      from->op == HL_OP_PARAMETER
          ? hl_parameter_new(to, hl_parameter_number(from), from->shape, name_of(n, from))
          : hl_inst_new(to, (HlOp)from->op, from->shape, name_of(n, from), (int)from->n_operands,
                        operands);
  base_free(operands);
  copy_attrs(n, inst, from);
  HlComp **calls = base_alloc(sizeof *calls * ((size_t)from->n_calls + 1));
  for (int k = 0; k < from->n_calls; k++)
    calls[k] = n->made[from->calls[k].comp->id];
  if (from->n_calls)
    hl_set_calls(inst, from->n_calls, calls);
  base_free(calls);
  for (int k = 0; from->control && k < from->control->n_preds; k++)
    hl_add_control(made[from->control->preds[k]->id], inst);
  return inst;
}

static void copy_comp(Norm *n, HlComp *from) {
  char name[32];
  const int length = from == n->m->entry
                         ? snprintf(name, sizeof name, "main")
                         : snprintf(name, sizeof name, "computation.%d", n->n_comps++);
  HlComp *to = hl_comp_new(n->m, name, (size_t)length);
  HlInst **made = base_alloc(sizeof *made * (from->next_id + 1));
  for (uint32_t k = 0; k < from->n_insts; k++) {
    const HlInst *old = n->order[from->id][k];
    made[old->id] = copy_inst(n, to, old, made);
  }
  const int n_diags = hl_cx_n_diags(n->cx);
  hl_finish_params(n->cx, to);  // they may come in any order
  hl_cx_forget(n->cx, n_diags);  // what is wrong with them was so before
  if (from->root)
    hl_set_root(to, made[from->root->id]);
  hl_comp_set_thread(to, from->execution_thread);
  if (from->is_fusion)
    hl_comp_set_fusion(to);
  if (from->schedule) {
    HlInst **schedule = base_alloc(sizeof *schedule * (from->n_insts + 1));
    for (uint32_t k = 0; k < from->n_insts; k++)
      schedule[k] = made[from->schedule[k]->id];
    hl_set_schedule(to, schedule);
    base_free(schedule);
  }
  base_free(made);
  n->made[from->id] = to;
}

// A call to look into: its caller's computation is copied when all of its calls have been.
typedef struct Visit {
  HlComp *comp;
  uint32_t inst;  // in its order
  int call;
} Visit;

static void copy_reached(Norm *n, HlComp *entry) {
  VEC(Visit) stack = {0};
  vec_push(&stack, ((Visit){entry, 0, 0}));
  while (stack.n > 0) {
    Visit *at = &vec_last(&stack);
    HlComp *comp = at->comp;
    if (at->inst == comp->n_insts) {
      copy_comp(n, comp);
      (void)vec_pop(&stack);
      continue;
    }
    const HlInst *caller = n->order[comp->id][at->inst];
    if (at->call == caller->n_calls) {
      at->inst++;
      at->call = 0;
      continue;
    }
    HlComp *callee = caller->calls[at->call].comp;
    uint64_t *known =
        may_share(caller) ? map_at(&n->functions, n->comp_hash[callee->id] | 1) : NULL;
    if (known && *known && !n->made[callee->id])
      n->made[callee->id] = (HlComp *)(uintptr_t)*known;
    if (!n->made[callee->id]) {
      vec_push(&stack, ((Visit){callee, 0, 0}));
      continue;
    }
    if (known)
      *known = map_key(n->made[callee->id]);
    at->call++;
  }
  vec_free(&stack);
}

static void erase_old(Norm *n, HlComp **order, uint32_t n_old) {
  for (uint32_t k = n_old; k > 0; k--)  // callers first
    hl_comp_erase(order[k - 1]);
}

HlModule *hl_normalize(HlCx *cx, const HlModule *m) {
  if (!m->entry) {
    hl_error(cx, hl_module_pos(m), "the module has no entry computation");
    return NULL;
  }
  HlModule *out = hl_clone(cx, m);
  if (!out)
    return NULL;
  HlArena *arena = hl_arena_new();
  Norm n = {.cx = cx, .arena = arena, .m = out, .functions = {.arena = arena}, .channels = {.arena = arena}};
  const uint32_t n_old = out->n_comps, n_ids = out->next_comp_id;
  n.comp_hash = HL_ARRAY(arena, uint64_t, n_ids + 1);
  n.made = HL_ARRAY(arena, HlComp *, n_ids + 1);
  n.order = HL_ARRAY(arena, HlInst *const *, n_ids + 1);
  HlComp **order = hl_comp_order(arena, out);
  HlComp *entry = out->entry;
  for (uint32_t k = 0; k < n_old; k++)
    prepare(&n, order[k]);
  copy_reached(&n, entry);
  hl_comp_set_entry(n.made[entry->id]);
  erase_old(&n, order, n_old);
  hl_module_set_name(out, hl_sym(out, "module"));
  hl_set_frames(out, &(HlFrames){0});
  hl_set_recovery(out, 0, NULL);
  hl_set_debug(out, 0, NULL);
  hl_set_proto_id(out, 0);
  hl_arena_free(arena);
  return out;
}
