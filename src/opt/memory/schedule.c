// opt/memory/schedule.c: fixes the order in which each computation runs.
//
// A schedule is an order of a computation's instructions that respects operands and control edges. It
// decides how long each value lives, and so how much memory the program takes:
//
//   a = f(x)   b = g(a)   c = h(x)   d = k(c)   ROOT t = tuple(b, d)
//   depth first:    a b c d t      one of a, c is alive at a time
//   breadth first:  a c b d t      both are, but they may run side by side
//
// XLA:CPU goes breadth first, so that its threads find work; `hlo-memory-scheduler` takes of three
// orders the one that needs the least memory.

#include <string.h>

#include "opt/memory/schedule.h"
#include "opt/passes.h"

// --- Making and setting schedules ----------------------------------------------------------------

// The orders of all computations that run, by id, in the arena; fusions have none.
static HlInst ***order_all(HlArena *arena, const HlModule *m, const HlFlow *flow,
                           ScheduleFn *schedule) {
  HlInst ***order = HL_ARRAY(arena, HlInst **, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (!comp->is_fusion)
      order[comp->id] = schedule(arena, flow, comp);
  return order;
}

static bool is_scheduled_so(const HlModule *m, HlInst **const *order) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (!comp->is_fusion &&
        (!comp->schedule ||
         memcmp(comp->schedule, order[comp->id], sizeof *comp->schedule * comp->n_insts) != 0))
      return false;
  return m->is_scheduled;
}

// All computations or none: half a schedule is no schedule.
static void set_schedules(HlPass *p, HlInst **const *order) {
  HlModule *m = p->m;
  if (is_scheduled_so(m, order) || !hl_change(p, "schedule", m->entry->root, NULL))
    return;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    if (!comp->is_fusion)
      hl_set_schedule(comp, order[comp->id]);
  hl_set_scheduled(m, true);
  hl_changed(p);
}

// An order that looks at values, or one that does not.
static bool run(HlPass *p, ScheduleFn *schedule, bool values) {
  HlArena *arena = hl_arena_new();
  const HlFlow *flow = values ? hl_flow_new(p->cx, arena, p->m, HL_FLOW_NO_FUSIONS) : NULL;
  bool fine = flow || !values;
  if (fine)
    set_schedules(p, order_all(arena, p->m, flow, schedule));
  hl_arena_free(arena);
  return fine;
}

// --- The passes ----------------------------------------------------------------------------------

bool pass_cpu_scheduler(HlPass *p) {
  return hl_pass_flag(p, "memory_optimized") ? run(p, schedule_depth_first, true)
                                             : run(p, schedule_breadth_first, false);
}

bool pass_trivial_scheduler(HlPass *p) {
  return run(p, schedule_visit, false);
}

// The order among the three that needs the least memory; the first of equals.
static bool run_best(HlPass *p) {
  static ScheduleFn *const all[] = {schedule_list, schedule_depth_first, schedule_post_order};
  HlArena *arena = hl_arena_new();
  const HlFlow *flow = hl_flow_new(p->cx, arena, p->m, HL_FLOW_MERGE);
  HlInst ***best = NULL;
  int64_t least = INT64_MAX;
  for (int k = 0; flow && k < HL_COUNT_OF(all); k++) {
    HlInst ***order = order_all(arena, p->m, flow, all[k]);
    int64_t bytes = hl_minimum_memory(arena, hl_live_new(arena, flow, order));
    if (!best || bytes < least) {
      best = order;
      least = bytes;
    }
  }
  if (best)
    set_schedules(p, best);
  hl_arena_free(arena);
  return flow != NULL;
}

bool pass_memory_scheduler(HlPass *p) {
  static const struct {
    const char *name;
    ScheduleFn *schedule;
    bool values;
  } kinds[] = {{"list", schedule_list, true},
               {"dfs", schedule_depth_first, true},
               {"bfs", schedule_breadth_first, false},
               {"postorder", schedule_post_order, false}};
  const char *wanted = hl_pass_text(p, "algorithm");
  if (strcmp(wanted, "default") == 0)
    return run_best(p);
  for (int k = 0; k < HL_COUNT_OF(kinds); k++)
    if (strcmp(wanted, kinds[k].name) == 0)
      return run(p, kinds[k].schedule, kinds[k].values);
  return hl_error(p->cx, (HlPos){0},
                  "hlo-memory-scheduler: found algorithm '%s', expected default, list, dfs, bfs or "
                  "postorder",
                  wanted);
}

bool pass_descheduler(HlPass *p) {
  if (!p->m->is_scheduled || !hl_change(p, "deschedule", p->m->entry->root, NULL))
    return true;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    hl_set_schedule(comp, NULL);
  hl_set_scheduled(p->m, false);
  hl_changed(p);
  return true;
}
