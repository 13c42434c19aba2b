// opt/flatten_call_graph.c: flatten-call-graph: gives every caller a copy of its own of what it
// calls.
//
//   a = f32[] call(x), to_apply=f          a = f32[] call(x), to_apply=f
//   b = f32[] call(y), to_apply=f     =>   b = f32[] call(y), to_apply=f.clone
//
// After it a computation has one caller, so that layouts, buffers and copies may be chosen for that
// caller alone. Callers come before callees: a copy shares what it calls with its original, and that
// is split in its turn. The result is as large as the program written out without calls: it may be
// far larger than the module.

#include "hilo/pass.h"

bool pass_flatten_call_graph(HlPass *p);

typedef struct Flatten {
  HlPass *p;
  int64_t n_insts;  // of the module
} Flatten;

static bool check_size(Flatten *f, const HlComp *comp) {
  const int64_t limit = hl_cx_limits(f->p->cx)->instructions;
  f->n_insts += comp->n_insts;
  return f->n_insts <= limit ||
         hl_error_kind(f->p->cx, HL_LIMIT, hl_comp_pos(comp),
                       "the module written out without shared computations has more than %lld "
                       "instructions",
                       (long long)limit);
}

static bool is_async(const HlCall *call) {
  return hl_op_info[call->caller->op].traits & HL_T_ASYNC;
}

// The callers by their calls, in the order in which they came to call it. What a started
// computation is follows from its start, and steps of it may name the computation too: it stays.
static const HlCall **calls_of(HlArena *arena, const HlComp *comp, int *n) {
  *n = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    ++*n;
  const HlCall **calls = HL_ARRAY(arena, const HlCall *, *n + 1);
  *n = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!is_async(call))
      calls[(*n)++] = call;
  return calls;
}

// Gives one caller, which may call the computation several times, copies of it.
static bool split_caller(Flatten *f, HlComp *comp, HlInst *caller, bool keep_first) {
  HlComp **to = HL_ARRAY(f->p->arena, HlComp *, caller->n_calls);
  bool changed = false, ok = true;
  for (int k = 0; k < caller->n_calls; k++) {
    to[k] = hl_called(caller, k);
    if (to[k] != comp)
      continue;
    if (keep_first) {
      keep_first = false;
    } else if (ok && hl_change(f->p, "shared", caller, NULL)) {
      ok = check_size(f, comp);
      to[k] = ok ? hl_comp_copy(f->p->m, comp, "clone", false, NULL) : comp;
      changed = true;
    }
  }
  if (changed)
    hl_set_calls(caller, caller->n_calls, to);
  return ok;
}

static bool split(Flatten *f, HlComp *comp) {
  if (comp->first_call == comp->last_call)
    return true;
  HlMark mark = hl_arena_mark(f->p->arena);
  int n;
  const HlCall **calls = calls_of(f->p->arena, comp, &n);
  const HlInst *last = NULL;
  bool ok = true, is_taken = false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    is_taken |= is_async(call);
  for (int k = 0; ok && k < n; k++) {
    HlInst *caller = calls[k]->caller;
    if (caller != last)  // calls of one caller stand together
      ok = split_caller(f, comp, caller, k == 0 && !is_taken);
    last = caller;
  }
  hl_arena_release(f->p->arena, mark);
  return ok;
}

bool pass_flatten_call_graph(HlPass *p) {
  Flatten f = {p, hl_count_instructions(p->m)};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  bool ok = true;
  for (int k = n - 1; ok && k >= 0; k--)
    ok = split(&f, comps[k]);
  return ok;
}
