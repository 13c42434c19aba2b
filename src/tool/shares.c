// tool/shares.c: a module's cost by instruction, op, scope, source line, computation or loop.
#include "hilo/shares.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "cpu/kernel/source.h"

const char *const hl_share_words[HL_SHARE_BYS] = {"instruction", "op",          "scope",
                                                  "source",      "computation", "loop"};
const char *const hl_order_words[HL_SHARE_ORDERS] = {
    "time", "flops", "bytes", "transcendentals", "collective", "steps"};

// --- Which computations run how often -----------------------------------------------------------------

typedef struct Runs {
  double *of;           // by computation id: how often it runs; 0: never as steps
  const HlInst **loop;  // the innermost loop around it, NULL: none
  const HlCost *cost;
  int64_t loops_unknown;
} Runs;

static double weight(const HlCost *cost) {
  return cost->flops + cost->bytes_read + cost->bytes_written;
}

// The branch that hl_cost_module counts.
static int costliest(const HlInst *inst, const HlCost *cost) {
  int best = 0;
  for (int k = 1; k < inst->n_calls; k++)
    if (weight(&cost[hl_called(inst, k)->id]) > weight(&cost[hl_called(inst, best)->id]))
      best = k;
  return best;
}

static void run_in(Runs *runs, const HlComp *comp, double times, const HlInst *loop) {
  runs->of[comp->id] += times;
  if (loop)
    runs->loop[comp->id] = loop;
}

// Hands on how often a computation runs to those that its steps call.
static void hand_on(Runs *runs, const HlComp *comp) {
  const double times = runs->of[comp->id];
  const HlInst *around = runs->loop[comp->id];
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (inst->op == HL_OP_WHILE && inst->n_calls == 2) {
      const int64_t trips = hl_trip_count(inst);
      runs->loops_unknown += trips < 0;
      run_in(runs, hl_while_body(inst), times * (double)(trips < 0 ? 1 : trips), inst);
      run_in(runs, hl_while_condition(inst), times * (double)(trips < 0 ? 1 : trips + 1), inst);
    } else if (inst->op == HL_OP_CONDITIONAL && inst->n_calls > 0) {
      run_in(runs, hl_called(inst, costliest(inst, runs->cost)), times, around);
    } else if (inst->op == HL_OP_CALL || inst->op == HL_OP_ASYNC_START) {
      for (int k = 0; k < inst->n_calls; k++)
        run_in(runs, hl_called(inst, k), times, around);
    }
  }
}

static Runs find_runs(HlArena *arena, const HlModule *m) {
  Runs runs = {.of = HL_ARRAY(arena, double, m->next_comp_id + 1),
               .loop = HL_ARRAY(arena, const HlInst *, m->next_comp_id + 1),
               .cost = hl_cost_comps(arena, m)};
  HlComp **order = hl_comp_order(arena, m);  // callees first
  if (m->entry)
    runs.of[m->entry->id] = 1;
  for (uint32_t k = m->n_comps; k-- > 0;)
    if (runs.of[order[k]->id] > 0)
      hand_on(&runs, order[k]);
  return runs;
}

// What runs by itself: neither names of values nor what runs what it calls step by step.
static bool is_step(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return !hl_op_is(op, HL_T_WIRE | HL_T_GIVEN | HL_T_CONTROL | HL_T_PINNED) &&
         op != HL_OP_ASYNC_START && !hl_awaits(op) && op != HL_OP_CONSTANT;
}

// --- Groups --------------------------------------------------------------------------------------------

// The path of an op_name without its last part, or only so many of its parts.
static const char *scope_of(HlArena *arena, const HlInst *inst, int depth) {
  const char *path = cpu_source(inst).op_name;
  if (!path)
    return "";
  size_t n = 0;
  int nested = 0, parts = 0;  // a slash in brackets is part of a name: jvp(a/b)
  for (size_t k = 0; path[k]; k++) {
    nested += path[k] == '(' ? 1 : path[k] == ')' ? -1 : 0;
    if (path[k] != '/' || nested > 0)
      continue;
    n = k;
    if (++parts == depth)
      break;
  }
  return hl_arena_strndup(arena, path, n);
}

static const char *op_of(HlArena *arena, const HlInst *inst) {
  HlBuf text = {0};
  hl_buf_puts(&text, hl_op_text((HlOp)inst->op));
  if (inst->op == HL_OP_FUSION)
    hl_buf_printf(&text, " %s",
                  hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], (int)hl_attr_int(inst, HL_A_KIND)));
  const char *out = hl_arena_strndup(arena, text.at, text.n);
  hl_buf_free(&text);
  return out;
}

static const char *line_of(HlArena *arena, const HlInst *inst) {
  const CpuSource source = cpu_source(inst);
  if (!source.file)
    return "";
  HlBuf text = {0};
  hl_buf_printf(&text, "%s:%d", source.file, source.line);
  const char *out = hl_arena_strndup(arena, text.at, text.n);
  hl_buf_free(&text);
  return out;
}

static const char *name_of(HlArena *arena, const HlInst *inst, HlShareBy by, int depth,
                           const HlInst *loop) {
  switch (by) {
  case HL_BY_OP: return op_of(arena, inst);
  case HL_BY_SCOPE: return scope_of(arena, inst, depth);
  case HL_BY_SOURCE: return line_of(arena, inst);
  case HL_BY_COMPUTATION: return inst->comp->name->text;
  case HL_BY_LOOP: return loop ? loop->name->text : "";
  default: return inst->name->text;
  }
}

typedef struct Groups {
  HlArena *arena;
  Map by_name;  // hash of a name to 1 + its place
  HlShare *at;
  int n;
} Groups;

// Two loops, or instructions, of one name in several computations are not one thing.
static HlShare *group_of(Groups *g, const char *name, const HlInst *inst) {
  const uint64_t hash = inst ? hl_hash_mix(1, inst->serial) : hl_hash_bytes(name, strlen(name), 2);
  MapWalk walk = map_walk(&g->by_name, hash);
  for (uint64_t at; (at = map_next(&walk));) {
    HlShare *share = &g->at[at - 1];
    if (share->inst == inst && strcmp(share->name, name) == 0)
      return share;
  }
  map_add(&g->by_name, hash, (uint64_t)++g->n);
  g->at[g->n - 1] = (HlShare){.name = name, .inst = inst};
  return &g->at[g->n - 1];
}

static void add(HlShare *to, const HlCost *cost, double runs, double seconds) {
  to->steps++;
  to->runs += runs;
  to->cost.flops += runs * cost->flops;
  to->cost.transcendentals += runs * cost->transcendentals;
  to->cost.bytes_read += runs * cost->bytes_read;
  to->cost.bytes_written += runs * cost->bytes_written;
  to->cost.collective_bytes += runs * cost->collective_bytes;
  to->seconds += runs * seconds;
}

// --- Order ----------------------------------------------------------------------------------------------

static double measure(const HlShare *s, HlShareOrder order) {
  switch (order) {
  case HL_ORDER_FLOPS: return s->cost.flops;
  case HL_ORDER_BYTES: return s->cost.bytes_read + s->cost.bytes_written;
  case HL_ORDER_TRANSCENDENTALS: return s->cost.transcendentals;
  case HL_ORDER_COLLECTIVE: return s->cost.collective_bytes;
  case HL_ORDER_STEPS: return (double)s->steps;
  default: return s->seconds;
  }
}

typedef struct Key {
  double measure;
  int at;
  const char *name;
} Key;

static int by_measure(const void *a, const void *b) {
  const Key *x = a, *y = b;
  if (x->measure != y->measure)
    return x->measure < y->measure ? 1 : -1;
  const int names = strcmp(x->name, y->name);
  return names ? names : (x->at > y->at) - (x->at < y->at);
}

static HlShare *sorted(HlArena *arena, const HlShare *at, int n, HlShareOrder order) {
  Key *key = HL_ARRAY(arena, Key, n + 1);
  HlShare *out = HL_ARRAY(arena, HlShare, n + 1);
  for (int k = 0; k < n; k++)
    key[k] = (Key){measure(&at[k], order), k, at[k].name};
  qsort(key, (size_t)n, sizeof *key, by_measure);
  for (int k = 0; k < n; k++)
    out[k] = at[key[k].at];
  return out;
}

HlShares hl_shares(HlArena *arena, const HlModule *m, const HlTarget *target, HlShareBy by,
                   HlShareOrder order, int depth) {
  HlShares out = {.all = {.name = ""}};
  Runs runs = find_runs(arena, m);
  const HlTimes times_of = hl_times(arena, m, target, runs.cost);
  Groups groups = {.arena = arena,
                   .by_name = {.arena = arena},
                   .at = HL_ARRAY(arena, HlShare, hl_count_instructions(m) + 1)};
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    const double times = runs.of[comp->id];
    const HlInst *loop = runs.loop[comp->id];
    for (const HlInst *inst = times > 0 ? comp->first : NULL; inst; inst = inst->next) {
      if (!is_step(inst))
        continue;
      const HlCost cost = hl_cost_inst_by(inst, runs.cost);
      const double seconds = hl_time_of(&times_of, inst);
      const HlInst *own = by == HL_BY_INSTRUCTION ? inst : by == HL_BY_LOOP ? loop : NULL;
      add(group_of(&groups, name_of(arena, inst, by, depth, loop), own), &cost, times, seconds);
      add(&out.all, &cost, times, seconds);
    }
  }
  out.at = sorted(arena, groups.at, groups.n, order);
  out.n = groups.n;
  out.loops_unknown = runs.loops_unknown;
  return out;
}
