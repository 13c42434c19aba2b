// opt/call/flatten_call_graph.c: flatten-call-graph: gives every caller a copy of its own of what it
// calls.
//
//   a = f32[] call(x), to_apply=f          a = f32[] call(x), to_apply=f
//   b = f32[] call(y), to_apply=f     =>   b = f32[] call(y), to_apply=f.clone
//
// After it a computation has one caller, so that layouts, buffers and copies may be chosen for that
// caller alone. Callers come before callees: a copy shares what it calls with its original, and
// that is split in its turn. The result is as large as the program written out without calls: it may be
// far larger than the module.

#include "opt/passes.h"

// Whether the module written out is small enough. Callees come before callers: the size of a
// computation is its own and that of all it calls, as often as it does.
static bool check_size(HlPass *p) {
  const int64_t limit = hl_cx_limits(p->cx)->instructions;
  int64_t *size = HL_ARRAY(p->arena, int64_t, p->m->next_comp_id + 1), total = 0;
  for (const HlComp *comp = p->m->first; comp; comp = comp->next) {
    int64_t *own = &size[comp->id];
    *own = comp->n_insts;
    for (const HlInst *inst = comp->first; inst && *own <= limit; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        *own = *own <= limit ? *own + size[hl_called(inst, k)->id] : *own;
    if (!comp->first_call)
      total = total <= limit ? total + *own : total;
  }
  return total <= limit ||
         hl_error_kind(p->cx, HL_LIMIT, hl_module_pos(p->m),
                       "the module written out without shared computations has more than %lld "
                       "instructions (limit instructions)",
                       (long long)limit);
}

static bool is_async(const HlCall *call) {
  return hl_op_info[call->caller->op].traits & HL_T_ASYNC;
}

// The callers, each once, in the order in which they came to call it. What a started computation is follows from its
// start, and steps of it may name the computation too: it stays.
static HlInst **callers_of(HlArena *arena, const HlComp *comp, int *n) {
  *n = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    ++*n;
  HlInst **callers = HL_ARRAY(arena, HlInst *, *n + 1);
  *n = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!is_async(call) &&
        (*n == 0 || callers[*n - 1] != call->caller))  // calls of one stand together
      callers[(*n)++] = call->caller;
  return callers;
}

static int n_calls_of(const HlInst *caller, const HlComp *comp) {
  int n = 0;
  for (int k = 0; k < caller->n_calls; k++)
    n += hl_called(caller, k) == comp;
  return n;
}

// Gives one caller, which may call the computation several times, copies of it.
static void split_caller(HlPass *p, HlComp *comp, HlInst *caller, bool keep_first) {
  if (n_calls_of(caller, comp) <= keep_first || !hl_change(p, "shared", caller, NULL))
    return;
  HlComp **to = HL_ARRAY(p->arena, HlComp *, caller->n_calls);
  for (int k = 0; k < caller->n_calls; k++) {
    to[k] = hl_called(caller, k);
    if (to[k] != comp)
      continue;
    if (!keep_first)
      to[k] = hl_comp_copy(p->m, comp, "clone", false, NULL);
    keep_first = false;
  }
  hl_set_calls(caller, caller->n_calls, to);
  hl_changed(p);
}

static void split(HlPass *p, HlComp *comp) {
  if (comp->first_call == comp->last_call)
    return;
  HlMark mark = hl_arena_mark(p->arena);
  int n;
  HlInst **callers = callers_of(p->arena, comp, &n);
  bool is_taken = false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    is_taken |= is_async(call);
  for (int k = 0; k < n; k++)
    split_caller(p, comp, callers[k], k == 0 && !is_taken);
  hl_arena_release(p->arena, mark);
}

bool pass_flatten_call_graph(HlPass *p) {
  if (!check_size(p))
    return false;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = n - 1; k >= 0; k--)
    split(p, comps[k]);
  return true;
}
