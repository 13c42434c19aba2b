// opt/memory/host_calls.c
//
// hlo_host_device_type_call_wrapper: what the program wants to be computed on the host (JAX: compute_on), operation by
// operation, becomes calls that run there.
//
//   s = f32[8] sine(x), frontend_attributes=             called { s = sine(p), ROOT m = multiply(s, s) }
//     {_xla_compute_type="host"}                    =>
//   m = f32[8] multiply(s, s), .."host"                  m = f32[8] call(x), to_apply=called,
//                                                          backend_config={"device_type":"DEVICE_TYPE_HOST"}
//
// A call that is so marked is put in place of the call first, all of it marked. From the last operation to the first all join
// one call, whether they are connected or not, unless what lies between them stays on the device: then a further call begins.
// What the device reads is a result of the call. Bodies of loops and branches that run on the host go along as they are.

#include <string.h>

#include "hilo/custom_calls.h"
#include "ir/backend_config.h"
#include "ir/vecs.h"
#include "opt/ask/frontend.h"
#include "opt/ask/inline.h"
#include "opt/passes.h"

static const char mark[] = "_xla_compute_type", host[] = "host";

static bool is_marked(const HlInst *inst) {
  return strcmp(frontend_get(inst, mark), host) == 0 && inst->op != HL_OP_PARAMETER;
}

// Marks of shardings belong to what they stand behind. What waits or is waited for stays, and so does a half of asynchronous
// work, which would be torn from the other.
static bool is_for_host(const HlInst *inst) {
  if (hl_has_control(inst) || hl_op_half((HlOp)inst->op))
    return false;
  while (!is_marked(inst)) {
    const bool is_border = hl_is_call(inst, HL_CALL_SHARDING) ||
                           hl_is_call(inst, HL_CALL_FULL_TO_SHARD) ||
                           hl_is_call(inst, HL_CALL_SHARD_TO_FULL);
    if (!is_border || inst->n_operands != 1)
      return false;
    inst = inst->operands[0];
    if (hl_has_control(inst))
      return false;
  }
  return true;
}

// --- Calls that are marked ------------------------------------------------------------------------

static bool inline_marked(HlPass *p, HlInst *call) {
  HlComp *callee = hl_to_apply(call);
  const uint32_t n = callee->next_id;
  bool *works = HL_ARRAY(p->arena, bool, n + 1);  // by id
  for (const HlInst *inst = callee->first; inst; inst = inst->next)
    works[inst->id] = inst->op != HL_OP_PARAMETER;
  HlInst **map;
  if (!inline_call_mapped(p, "inline", call, callee, (int)call->n_operands, call->operands, &map))
    return false;
  for (uint32_t k = 0; k < n; k++)
    if (works[k] && map[k] && hl_alive(map[k]))
      frontend_set(map[k], map[k], mark, host);
  return true;
}

static void inline_all(HlPass *p, HlComp *comp) {
  for (bool again = true; again;) {
    int n;
    HlInst **insts = hl_pass_insts(p, comp, &n);
    again = false;
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]) && insts[k]->op == HL_OP_CALL && is_marked(insts[k]) &&
          !hl_has_control(insts[k]))
        again |= inline_marked(p, insts[k]);
  }
}

// --- Groups ---------------------------------------------------------------------------------------

typedef enum Place {
  ELSEWHERE,
  INSIDE,
  BETWEEN
} Place;  // BETWEEN: the call needs it, and it is not inside

typedef struct Group {
  HlComp *comp;
  Place *place;      // by id
  bool *is_operand;  // by id
  uint32_t n_ids;
  InstVec insts;     // users first
  InstVec operands;  // of the call
} Group;

// Something in such a place uses it or waits for it.
static bool is_before(const Group *g, const HlInst *inst, Place least) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (g->place[use->user->id] >= least)
      return true;
  for (int k = 0; inst->control && k < inst->control->n_succs; k++)
    if (g->place[inst->control->succs[k]->id] >= least)
      return true;
  return false;
}

static void drop_operand(Group *g, const HlInst *inst) {
  int at = 0;
  while (g->operands.at[at] != inst)
    at++;
  memmove(g->operands.at + at, g->operands.at + at + 1,
          sizeof *g->operands.at * (size_t)(g->operands.n - at - 1));
  g->operands.n--;
}

// Joins the group: what it reads is an operand of the call in its place.
static void join(Group *g, HlInst *inst) {
  if (g->is_operand[inst->id])
    drop_operand(g, inst);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (!g->is_operand[operand->id])
      vec_push(&g->operands, operand);
    g->is_operand[operand->id] = true;
  }
  g->place[inst->id] = INSIDE;
  vec_push(&g->insts, inst);
}

static void find_group(HlPass *p, Group *g) {
  g->n_ids = g->comp->next_id;
  g->place = HL_ARRAY(p->arena, Place, g->n_ids + 1);
  g->is_operand = HL_ARRAY(p->arena, bool, g->n_ids + 1);
  g->insts.n = g->operands.n = 0;
  for (HlInst *inst = g->comp->last; inst; inst = inst->prev) {
    const bool runs = is_for_host(inst);
    if (is_before(g, inst, runs ? BETWEEN : INSIDE))
      g->place[inst->id] = BETWEEN;
    else if (runs)
      join(g, inst);
  }
}

// --- The call -------------------------------------------------------------------------------------

static bool is_read_outside(const Group *g, const HlInst *inst) {
  if (inst == g->comp->root)
    return true;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (g->place[use->user->id] != INSIDE)
      return true;
  return false;
}

// The computation, which has the results in the order of the list.
static HlComp *body_of(HlPass *p, const Group *g, const InstVec *results) {
  const HlSym *name = hl_fresh_comp_name(p->m, "called_computation");
  HlComp *body = hl_comp_new(p->m, name->text, name->n);
  HlInst **inner = HL_ARRAY(p->arena, HlInst *, g->n_ids + 1);
  hl_comp_set_thread(body, g->comp->execution_thread);
  for (int k = 0; k < g->operands.n; k++) {
    const char *wish = hl_arena_printf(p->arena, "param_%d", k);
    const HlInst *outer = g->operands.at[k];
    inner[outer->id] = hl_parameter_new(body, k, outer->shape, hl_fresh_name(p->m, wish));
  }
  for (int k = g->insts.n; k-- > 0;) {
    const HlInst *inst = g->insts.at[k];
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t j = 0; j < inst->n_operands; j++)
      operands[j] = inner[inst->operands[j]->id];
    HlInst *copy = hl_inst_copy(body, inst, NULL, (int)inst->n_operands, operands);
    hl_remove_attr(copy, HL_A_HAS_SIDE_EFFECT);
    inner[inst->id] = copy;
  }
  HlInst **result = HL_ARRAY(p->arena, HlInst *, results->n + 1);
  const HlShape **shape = HL_ARRAY(p->arena, const HlShape *, results->n + 1);
  for (int k = 0; k < results->n; k++) {
    result[k] = inner[results->at[k]->id];
    shape[k] = result[k]->shape;
  }
  hl_set_root(body, results->n == 1 ? result[0]
                                    : hl_inst_new(body, HL_OP_TUPLE,
                                                  hl_shape_tuple(p->m->shapes, results->n, shape),
                                                  NULL, results->n, result));
  return body;
}

static HlInst *element_of(HlInst *tuple, int k) {
  HlInst *made =
      hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], NULL, 1, &tuple);
  hl_set_int(made, HL_A_INDEX, k);
  return made;
}

static void wrap(HlPass *p, Group *g) {
  InstVec results = {0};
  for (int k = 0; k < g->insts.n; k++)
    if (k == 0 || is_read_outside(g, g->insts.at[k]))
      vec_push(&results, g->insts.at[k]);
  HlComp *body = body_of(p, g, &results);
  HlInst *call = hl_inst_new(g->comp, HL_OP_CALL, body->root->shape,
                             hl_fresh_name(p->m, "host-call"), g->operands.n, g->operands.at);
  hl_set_calls(call, 1, &body);
  hl_inherit(call, results.at[0]);
  frontend_remove(call, mark);
  if (results.n > 1)
    hl_remove_attr(call, HL_A_SHARDING);
  HlQueueConfig config = {.device = HL_DEVICE_HOST};
  hl_set_queue_config(p->arena, call, &config);
  for (int k = 0; k < results.n; k++)
    hl_replace_uses(results.at[k], results.n == 1 ? call : element_of(call, k));
  for (int k = 0; k < g->insts.n; k++)
    hl_erase(g->insts.at[k]);
  vec_free(&results);
}

static void wrap_all(HlPass *p, HlComp *comp) {
  Group g = {.comp = comp};
  for (bool again = true; again;) {
    const HlMark begin = hl_arena_mark(p->arena);
    find_group(p, &g);
    again = g.insts.n > 0 && hl_change(p, "wrap", g.insts.at[0], NULL);
    if (again) {
      wrap(p, &g);
      again = hl_changed(p);
    }
    hl_arena_release(p->arena, begin);
  }
  vec_free(&g.insts);
  vec_free(&g.operands);
}

// --- The pass -------------------------------------------------------------------------------------

static bool any_is_marked(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      if (is_marked(inst))
        return true;
  return false;
}

// Callers stand behind what they call: what only dead ones called is dead in its turn.
static void erase_dead(HlPass *p, HlComp *const *comps, int n) {
  for (int k = n; p->changed && k-- > 0;)
    if (hl_comp_alive(comps[k]) && comps[k] != p->m->entry && !comps[k]->first_call)
      hl_comp_erase(comps[k]);
}

// Which computations run on the host already, by id: all that calls them is for the host, or runs there.
static bool *find_on_host(HlPass *p, HlComp *const *comps, int n) {
  bool *runs = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (int k = n; k-- > 0;) {
    const HlComp *comp = comps[k];
    bool all = hl_comp_alive(comp) && comp->first_call;
    for (const HlCall *call = all ? comp->first_call : NULL; call; call = call->next)
      all = all && (is_for_host(call->caller) || runs[call->caller->comp->id]);
    runs[comp->id] = all;
  }
  return runs;
}

// What an operation applies to elements, or starts, has no calls of its own.
static bool runs_in_steps(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL))
      return false;
  return true;
}

// Computations that run on the host, each once, and how many.
typedef struct OnHost {
  bool *is;  // by id
  HlComp **list;
  int n;
} OnHost;

static void note_callees(OnHost *on_host, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_calls; k++) {
    HlComp *callee = hl_called(inst, k);
    if (!on_host->is[callee->id])
      on_host->list[on_host->n++] = callee;
    on_host->is[callee->id] = true;
  }
}

// Of what runs on the host by now, and of all that it calls.
static void clear_marks(HlPass *p) {
  const uint32_t n = p->m->next_comp_id;
  OnHost on_host = {HL_ARRAY(p->arena, bool, n + 1), HL_ARRAY(p->arena, HlComp *, n + 1), 0};
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_CALL && hl_queue_config(p->arena, inst).device == HL_DEVICE_HOST)
        note_callees(&on_host, inst);
  for (int k = 0; k < on_host.n; k++)
    for (HlInst *inst = on_host.list[k]->first; inst; inst = inst->next) {
      frontend_remove(inst, mark);
      note_callees(&on_host, inst);
    }
}

bool pass_host_call_wrapper(HlPass *p) {
  if (!any_is_marked(p->m))
    return true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = n; k-- > 0;)
    if (hl_comp_alive(comps[k]))
      inline_all(p, comps[k]);
  erase_dead(p, comps, n);
  const bool *on_host = find_on_host(p, comps, n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(comps[k]) && !comps[k]->schedule && !on_host[comps[k]->id] &&
        runs_in_steps(comps[k]))
      wrap_all(p, comps[k]);
  if (p->changed)
    clear_marks(p);
  return true;
}
