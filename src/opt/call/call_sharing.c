// opt/call/call_sharing.c: computation-deduplicator and unflatten-call-graph: one computation in place
// of several that compute the same.
//
//   a = f32[] reduce(x, z), to_apply=add.1           a = f32[] reduce(x, z), to_apply=add.1
//   b = f32[] reduce(y, z), to_apply=add.2     =>    b = f32[] reduce(y, z), to_apply=add.1

#include "base/map.h"
#include "opt/ask/same.h"
#include "opt/passes.h"

// The first computation met that computes the same, by hash.
static HlComp *first_same(Map *groups, Same *same, HlComp *comp) {
  const uint64_t hash = same_comp_hash(same, comp);
  MapWalk walk = map_walk(groups, hash);
  for (HlComp *first; (first = map_next_ptr(&walk));)
    if (same_comp(same, first, comp))
      return first;
  map_add_ptr(groups, hash, comp);
  return comp;
}

// Every call of `comp` by one caller becomes a call of `first`.
static void redirect(HlPass *p, HlInst *caller, HlComp *comp, HlComp *first) {
  HlComp **calls = HL_ARRAY(p->arena, HlComp *, caller->n_calls);
  for (int k = 0; k < caller->n_calls; k++)
    calls[k] = hl_called(caller, k) == comp ? first : hl_called(caller, k);
  hl_set_calls(caller, caller->n_calls, calls);
}

static void redirect_all(HlPass *p, HlComp *comp, HlComp *first) {
  for (bool is_called = true; is_called;) {
    HlInst *caller = comp->first_call->caller;
    if (!hl_change(p, "same", caller, NULL))
      return;
    redirect(p, caller, comp, first);
    is_called = comp->first_call;
    if (!is_called)
      hl_comp_erase(comp);
    if (!hl_changed(p))
      return;
  }
}

typedef bool MayShareFn(const HlComp *comp);

// Callees come before callers: those of two callers are the same by the time these are compared.
static void share(HlPass *p, MayShareFn *may_share) {
  Same same = same_new(p, true);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  Map groups = {.arena = p->arena};
  for (int k = 0; k < n; k++) {
    if (comps[k] == p->m->entry || !comps[k]->first_call || !may_share(comps[k]))
      continue;
    HlComp *first = first_same(&groups, &same, comps[k]);
    if (first != comps[k])
      redirect_all(p, comps[k], first);
  }
}

static bool is_not_async(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (hl_op_info[call->caller->op].traits & HL_T_ASYNC)
      return false;
  return true;
}

bool pass_computation_deduplicator(HlPass *p) {
  share(p, is_not_async);
  return true;
}

static bool has_only_calls(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_CALL)
      return false;
  return true;
}

bool pass_unflatten_call_graph(HlPass *p) {
  share(p, has_only_calls);
  return true;
}
