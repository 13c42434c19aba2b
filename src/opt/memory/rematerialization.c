// opt/memory/rematerialization.c: computes values again instead of keeping them, where memory is short.
//
// Needs a schedule. Each computation is walked in its order with the bytes alive at each point. Where
// they exceed the limit, of the values that wait for later users the one whose recomputation frees most is
// made again just before the first of those users:
//
//   a = exp(x)                     a = exp(x)
//   b = f(a)                       b = f(a)
//   c = g(x)       (too much)  =>  c = g(x)
//   d = h(c)                       d = h(c)
//                                  a.remat = exp(x)
//   e = k(a, d)                    e = k(a.remat, d)
//
// A value that nobody has read yet is only moved. Where no single instruction helps, because what it is made
// from is gone as well, a block of instructions is made again: twice as large each time, up to
// block_size_limit. With `compress`, a value whose tiled layout wastes room waits in a denser
// layout instead: `a.compressed = copy(a)`, and `a.uncompressed = copy(a.compressed)` before the
// user. With `host_offload`, values wait in the host's memory, sent by copy-start and copy-done after
// the last user so far and fetched again before the next one.
//
// Users may read a value through bitcasts, or as an element of an instruction's several results: these come again with
// it. A collective that is made again has a channel of its own.
//
// What a step calls counts with its own peak; it is reduced afterwards with what is left at the call. The whole is done
// again, with what lives when found anew, as long as that helps; a copy of the module shows before how long that is. What
// goes into tuples and loops, and whatever has a side effect or runs other steps, stays as it is; so does what would come
// after an instruction that a control edge puts behind it.

#include "opt/memory/rematerialization.h"
#include "opt/passes.h"

enum { ROUNDS = 8 };

// --- One computation ------------------------------------------------------------------------------

// The bytes in use while each item runs, by number, as things are.
static int64_t *find_usage(RematJob *job, HlArena *arena, HlComp *comp) {
  RematWalk w = remat_start(job, arena, comp, NULL);
  int64_t *usage = HL_ARRAY(arena, int64_t, w.n);
  for (int32_t k = w.item[0].next; k != 0; k = w.item[k].next) {
    remat_start_item(&w, k);
    usage[k] = remat_usage(&w, k);
    remat_end_item(&w, k);
  }
  remat_end(&w);
  return usage;
}

static int64_t find_peak(RematJob *job, HlComp *comp) {
  HlArena *arena = hl_arena_new();
  const int64_t *usage = find_usage(job, arena, comp);
  int64_t peak = 0;
  for (uint32_t k = 1; k <= job->n_order[comp->id]; k++)
    peak = usage[k] > peak ? usage[k] : peak;
  hl_arena_free(arena);
  return peak;
}

// The smallest block that helps here and does no harm elsewhere. Each try looks at all that is alive.
static RematBlock best_block(RematWalk *w, int32_t k) {
  enum { TRIES = 64 };
  for (int limit = 1; w->recompute && limit <= w->block_limit; limit *= 2)
    for (int n = 0; n < TRIES; n++) {
      const RematBlock block = remat_choose(w, k, limit);
      if (block.n > 0 && w->job->careful && remat_makes_worse(w, &block, k))
        w->item[block.item[block.n - 1]].worse_at = remat_place(k, limit);
      else if (block.n > 0)
        return block;
      else
        break;
    }
  return (RematBlock){0};
}

// One step towards the limit at item k: false if there is none.
static bool improve(RematWalk *w, int32_t k) {
  const RematBlock best = best_block(w, k);
  const int32_t packed = remat_choose_to_compress(w, k, best.saved);
  const bool moves = best.n == 1 && !remat_has_placed_user(w, best.item[0]);
  const int32_t sent = packed < 0 && !moves ? remat_choose_to_offload(w, k, best.saved) : -1;
  if (packed >= 0)
    remat_compress(w, packed, k);
  else if (sent >= 0)
    remat_offload(w, sent, k);
  else if (best.n > 0)
    remat_repeat(w, &best, k);
  return packed >= 0 || sent >= 0 || best.n > 0;
}

// What is left for computations that are called: the limit less what is alive at the call.
static void hand_down(RematJob *job, const RematWalk *w, int32_t k) {
  const int64_t left = w->limit - w->usage;
  for (int j = 0; w->item[k].callee > 0 && j < w->item[k].inst->n_calls; j++) {
    int64_t *limit = &job->limit[hl_called(w->item[k].inst, j)->id];
    *limit = left < *limit ? left : *limit;
  }
}

static void reduce_walk(RematJob *job, RematWalk *w) {
  for (int32_t k = w->item[0].next; k != 0; k = w->item[k].next) {
    remat_start_item(w, k);
    const bool allocates = w->item[k].n_leaves > 0 || w->item[k].others + w->item[k].callee > 0;
    while (allocates && remat_usage(w, k) > w->limit && improve(w, k) && !w->undone) {
    }
    if (w->undone)
      return;
    hand_down(job, w, k);
    remat_end_item(w, k);
  }
}

// One walk over the computation; false: its change was undone, so that it is to be begun anew.
static bool try_to_reduce(RematJob *job, HlComp *comp, bool *refused) {
  HlArena *arena = hl_arena_new();
  const int64_t channel = job->next_channel, *usage = find_usage(job, arena, comp);
  RematWalk w = remat_start(job, arena, comp, refused);
  for (int32_t k = 1; k < w.n; k++)
    w.item[k].at = usage[k];
  w.limit = job->limit[comp->id];
  w.peak = job->peak[comp->id];
  w.least_bytes = hl_pass_int(job->p, "min_remat_size");
  w.compress = hl_pass_flag(job->p, "compress");
  w.recompute = hl_pass_flag(job->p, "recompute");
  w.offload = hl_pass_flag(job->p, "host_offload");
  const int64_t most = hl_pass_int(job->p, "block_size_limit");
  w.block_limit = most < REMAT_BLOCK_MAX ? (int)most : REMAT_BLOCK_MAX;
  reduce_walk(job, &w);
  if (w.undone) {
    job->next_channel = channel;
  } else {
    uint32_t n = 0;
    HlInst **order = HL_ARRAY(job->arena, HlInst *, comp->n_insts + 1);
    for (int32_t k = w.item[0].next; k != 0; k = w.item[k].next)
      order[n++] = w.item[k].inst;
    job->order[comp->id] = order;
    job->n_order[comp->id] = n;
  }
  remat_end(&w);
  hl_arena_free(arena);
  return !w.undone;
}

static void reduce(RematJob *job, HlComp *comp) {
  bool *refused = HL_ARRAY(job->arena, bool, comp->next_id + 1);
  while (!try_to_reduce(job, comp, refused)) {
  }
}

// --- The module -----------------------------------------------------------------------------------

static void find_peaks(RematJob *job) {
  for (HlComp *comp = job->p->m->first; comp; comp = comp->next)  // callees first
    if (!comp->is_fusion)
      job->peak[comp->id] = find_peak(job, comp);
}

static bool runs_as_step(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (hl_op_is((HlOp)call->caller->op, HL_T_CONTROL))
      return true;
  return comp == comp->module->entry;
}

// The flow analysis describes the program as it was: each computation asks it before it is changed. False after reporting.
static bool start(RematJob *job) {
  HlModule *m = job->p->m;
  job->flow = hl_flow_new(job->p->cx, job->arena, m, HL_FLOW_MERGE);
  if (!job->flow)
    return false;
  job->live = hl_live_new(job->arena, job->flow, NULL);
  job->order = HL_ARRAY(job->arena, HlInst **, m->next_comp_id + 1);
  job->n_order = HL_ARRAY(job->arena, uint32_t, m->next_comp_id + 1);
  job->peak = HL_ARRAY(job->arena, int64_t, m->next_comp_id + 1);
  job->limit = HL_ARRAY(job->arena, int64_t, m->next_comp_id + 1);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    job->n_order[comp->id] = comp->n_insts;
    if (comp->schedule)
      job->order[comp->id] =
          hl_arena_copy(job->arena, comp->schedule, sizeof *comp->schedule * comp->n_insts);
    else
      job->order[comp->id] = hl_print_order(job->arena, comp);
    job->limit[comp->id] = INT64_MAX;
  }
  job->next_channel = hl_free_channel(m);
  remat_find_counted(job);
  find_peaks(job);
  return true;
}

static void reduce_all(RematJob *job, int64_t limit) {
  HlModule *m = job->p->m;
  job->limit[m->entry->id] = limit;
  for (HlComp *comp = m->last; comp; comp = comp->prev)  // callers first
    if (runs_as_step(comp) && job->peak[comp->id] > job->limit[comp->id])
      reduce(job, comp);
  for (HlComp *comp = m->first; job->changed && comp; comp = comp->next)
    if (!comp->is_fusion)
      hl_set_schedule(comp, job->order[comp->id]);
  hl_set_scheduled(m, true);
}

// One walk over everything. False after reporting.
static bool one_round(HlPass *p, int64_t limit, bool careful, bool on_trial, bool *changed) {
  RematJob job = {.p = p, .arena = hl_arena_new(), .careful = careful, .on_trial = on_trial};
  const bool ok = start(&job);
  if (ok)
    reduce_all(&job, limit);
  *changed = job.changed;
  hl_arena_free(job.arena);
  return ok;
}

// The most bytes alive at a time. -1 after reporting.
static int64_t find_need(HlPass *p) {
  RematJob job = {.p = p, .arena = hl_arena_new()};
  const int64_t need = start(&job) ? job.peak[p->m->entry->id] : -1;
  hl_arena_free(job.arena);
  return need;
}

// How far some rounds come.
typedef struct Plan {
  bool careful;
  int rounds;
  int64_t need;
} Plan;

// What rounds reach can be told only by doing them: what is made again needs its operands, which may be too much elsewhere.
// So they are tried and undone; of the plans the one that comes lowest is kept. False after reporting.
static bool try_rounds(HlPass *p, int64_t limit, bool careful, Plan *best) {
  const HlEditMark mark = hl_mark(p->m);
  bool ok = true, changed = true;
  for (int round = 1; ok && changed && best->need > limit && round <= ROUNDS; round++) {
    ok = one_round(p, limit, careful, true, &changed);
    const int64_t need = ok && changed ? find_need(p) : INT64_MAX;
    ok &= need >= 0;
    if (ok && need < best->need)
      *best = (Plan){careful, round, need};
  }
  hl_undo(p->m, mark);
  return ok;
}

static bool follow(HlPass *p, int64_t limit, const Plan *plan) {
  bool changed = true;
  for (int round = 0; changed && round < plan->rounds; round++)
    if (!one_round(p, limit, plan->careful, false, &changed))
      return false;
  return true;
}

bool pass_rematerialization(HlPass *p) {
  int64_t limit = hl_pass_int(p, "memory_limit_bytes");
  HlModule *m = p->m;
  if (limit <= 0)
    return true;
  const int64_t own = limit - remat_summand(hl_shape_buffer_bytes(m->entry->root->shape, 8));
  Plan plan = {.need = find_need(p)};
  if (plan.need < 0 || !try_rounds(p, own, false, &plan) || !try_rounds(p, own, true, &plan) ||
      !follow(p, own, &plan))
    return false;
  const int64_t need = find_need(p);
  if (need > own)
    hl_warn(p->cx, hl_module_pos(m),
            "%lld bytes are needed where %lld are there: nothing more can be computed again",
            (long long)(need + limit - own), (long long)limit);
  return need >= 0;
}
