// opt/call/call_sharing.c: computation-deduplicator and unflatten-call-graph: one computation in place
// of several that compute the same.
//
//   a = f32[] reduce(x, z), to_apply=add.1           a = f32[] reduce(x, z), to_apply=add.1
//   b = f32[] reduce(y, z), to_apply=add.2     =>    b = f32[] reduce(y, z), to_apply=add.1

#include "opt/ask/same.h"
#include "opt/passes.h"

typedef struct Groups {
  HlComp **at;  // by hash, the first of each group; NULL: free
  size_t mask;
} Groups;

static Groups groups_new(HlArena *arena, size_t n) {
  size_t capacity = 16;
  while (capacity < 2 * n)
    capacity *= 2;
  return (Groups){HL_ARRAY(arena, HlComp *, capacity), capacity - 1};
}

static HlComp *first_same(Groups *groups, Same *same, HlComp *comp) {
  size_t k = same_comp_hash(same, comp) & groups->mask;
  for (; groups->at[k]; k = (k + 1) & groups->mask)
    if (same_comp(same, groups->at[k], comp))
      return groups->at[k];
  return groups->at[k] = comp;
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
  Groups groups = groups_new(p->arena, (size_t)n);
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
