// sim/graph/schedule.c: ParaGraph's scheduler, and ours, which differs in what time it is.
//
// A node can run when its operands have finished. One with subroutines runs by running these: a call all of them in turn, a while
// its body and condition as often as they count, a conditional one of its branches. What that brings about is done with a stack of
// steps, in the order in which ParaGraph's calls would return, since the order of instructions that become ready at one time
// decides what comes first on a processor.
//
// In ParaGraph "now" is the time at which the last processed instruction finished, which need not grow: an instruction counts as
// ready from then, though another operand finished later. Here it is ready from the latest finish of its operands. A conditional
// of ParaGraph's draws again each time a branch is done, until it draws one that has run.

#include "sim/graph/schedule.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/put.h"

static bool is_own(const SimSchedule *s) {
  return s->compat == HL_SIM_OWN;
}

static SimNodeRun *run_of(const SimSchedule *s, const HlSimNode *node) {
  return &s->node[node->serial];
}

static SimSubRun *inner_of(const SimSchedule *s, const HlSimNode *node, int k) {
  return &s->sub[s->inner_list[s->inner[node->serial] + k]];
}

// --- Tables -----------------------------------------------------------------------------------------------------

static void list_users(SimSchedule *s) {
  const uint32_t n = s->graph->n_serials;
  uint64_t edges = 0;
  s->first_user = HL_ARRAY(s->arena, uint32_t, n + 2);
  for (int k = 0; k < s->n_subs; k++)
    for (int j = 0; j < s->sub[k].sub->n_nodes; j++) {
      const HlSimNode *node = s->sub[k].sub->nodes[j];
      edges += (uint64_t)node->n_operands;
      for (int i = 0; i < node->n_operands; i++)
        s->first_user[node->operands[i]->serial + 2]++;
    }
  for (uint32_t k = 2; k < n + 2; k++)
    s->first_user[k] += s->first_user[k - 1];
  s->user = HL_ARRAY(s->arena, const HlSimNode *, edges + 1);
  for (int k = 0; k < s->n_subs; k++)
    for (int j = 0; j < s->sub[k].sub->n_nodes; j++) {
      const HlSimNode *node = s->sub[k].sub->nodes[j];
      for (int i = 0; i < node->n_operands; i++)
        s->user[s->first_user[node->operands[i]->serial + 1]++] = node;
    }
}

static void list_inner(SimSchedule *s, const SimSubs *subs) {
  const uint32_t n = s->graph->n_serials;
  Map place = {0};
  s->inner = HL_ARRAY(s->arena, int, n + 1);
  s->sub_of = HL_ARRAY(s->arena, int, n + 1);
  s->taken = HL_ARRAY(s->arena, int, n + 1);
  s->inner_list = HL_ARRAY(s->arena, int, s->n_subs + 1);
  for (int k = 0; k < subs->n; k++)
    *map_at(&place, map_key(subs->at[k])) = 1 + (uint64_t)k;
  int at = 0;
  for (int k = 0; k < subs->n; k++)
    for (int j = 0; j < subs->at[k]->n_nodes; j++) {
      const HlSimNode *node = subs->at[k]->nodes[j];
      s->sub_of[node->serial] = k;
      s->inner[node->serial] = at;
      for (int i = 0; i < node->n_subs; i++)
        s->inner_list[at++] = (int)(map_get(&place, map_key(node->subs[i])) - 1);
    }
  map_free(&place);
}

bool schedule_begin(SimSchedule *s, HlCx *cx, const HlSimGraph *graph,
                    const HlSimRunOptions *options) {
  *s = (SimSchedule){.cx = cx,
                     .graph = graph,
                     .compat = options->compat,
                     .branches = options->branches,
                     .log = options->log,
                     .keep_zeros = options->keep_zeros};
  if (!sim_validate_kind(cx, graph, false, false))
    return false;
  s->arena = hl_arena_new();
  SimSubs subs = {0};
  sim_list_subs(s->arena, graph, &subs);
  s->n_subs = subs.n;
  s->entry = subs.n - 1;
  s->sub = HL_ARRAY(s->arena, SimSubRun, subs.n + 1);
  s->node = HL_ARRAY(s->arena, SimNodeRun, graph->n_serials + 1);
  for (int k = 0; k < subs.n; k++)
    s->sub[k].sub = subs.at[k];
  list_inner(s, &subs);
  list_users(s);
  if (options->seed.given)
    twister_seed_pair(&s->random, (uint64_t)options->seed.value);
  else
    twister_seed(&s->random, 5489);
  return true;
}

void schedule_end(SimSchedule *s) {
  vec_free(&s->steps);
  vec_free(&s->ready);
  hl_arena_free(s->arena);
}

// --- States -----------------------------------------------------------------------------------------------------

// As deep as the graph is nested.
static void reset_sub(SimSchedule *s, int k, bool counts) {
  SimSubRun *sub = &s->sub[k];
  sub->finished = false;
  if (counts)
    sub->left = sub->sub->count;
  for (int j = 0; j < sub->sub->n_nodes; j++) {
    const HlSimNode *node = sub->sub->nodes[j];
    *run_of(s, node) = (SimNodeRun){.state = node->n_operands > 0 ? SIM_BLOCKED : SIM_FREE,
                                    .waiting = node->n_operands};
    for (int i = 0; i < node->n_subs; i++)
      reset_sub(s, s->inner_list[s->inner[node->serial] + i], true);
  }
}

static void push(SimSchedule *s, SimStep step) {
  vec_push(&s->steps, step);
}

// When a node may begin: in our time the latest of what it waits for.
static double ready_time(const SimSchedule *s, const HlSimNode *node) {
  double time = s->sub[s->sub_of[node->serial]].begun;
  if (!is_own(s))
    return s->now;
  for (int k = 0; k < node->n_operands; k++)
    if (run_of(s, node->operands[k])->finished > time)
      time = run_of(s, node->operands[k])->finished;
  return time;
}

// --- Choosing a subroutine ----------------------------------------------------------------------------------------

static int draw(SimSchedule *s, const HlSimNode *node) {
  double sum = 0, so_far = 0;
  const double unit = twister_unit(&s->random);
  for (int k = 0; k < node->n_subs; k++)
    sum += (double)(float)node->subs[k]->probability;
  for (int k = 0; k < node->n_subs - 1; k++) {
    so_far += (double)(float)node->subs[k]->probability / sum;
    if (unit <= so_far)
      return k;
  }
  return node->n_subs - 1;
}

static double seconds_of(const HlSimSub *sub) {
  double sum = 0;
  for (int k = 0; k < sub->n_nodes; k++) {
    sum += sub->nodes[k]->n_subs == 0 ? sub->nodes[k]->cost.seconds : 0;
    for (int j = 0; j < sub->nodes[k]->n_subs; j++)
      sum += seconds_of(sub->nodes[k]->subs[j]);
  }
  return sum * (double)sub->count;
}

static int longest(const HlSimNode *node) {
  int best = 0;
  for (int k = 1; k < node->n_subs; k++)
    if (seconds_of(node->subs[k]) > seconds_of(node->subs[best]))
      best = k;
  return best;
}

// In our way a branch is taken once; `again`: one has run.
static int pick_branch(SimSchedule *s, const HlSimNode *node, bool again) {
  if (!is_own(s))
    return draw(s, node);
  if (!again)
    s->taken[node->serial] = s->branches == HL_SIM_WORST ? longest(node) : draw(s, node);
  return s->taken[node->serial];
}

static void add_inner(const SimSchedule *s, const HlSimNode *node, double *start) {
  SimNodeRun *run = run_of(s, node);
  for (int k = 0; k < node->n_subs; k++) {
    if (is_own(s) && node->op == HL_SIM_CONDITIONAL && k != s->taken[node->serial])
      continue;
    for (int j = 0; j < node->subs[k]->n_nodes; j++) {
      const SimNodeRun *inner = run_of(s, node->subs[k]->nodes[j]);
      if (inner->started < *start)
        *start = inner->started;
      run->clock += inner->clock;
    }
  }
}

static int pick_of_loop(SimSchedule *s, const HlSimNode *node) {
  SimNodeRun *run = run_of(s, node);
  const SimSubRun *body = inner_of(s, node, 0), *condition = inner_of(s, node, 1);
  if (body->finished && condition->finished && condition->left > 0) {
    const bool first = run->clock == 0;
    double start = s->now;
    add_inner(s, node, &start);
    if (first)
      run->started = start;
    reset_sub(s, s->inner_list[s->inner[node->serial]], false);
    reset_sub(s, s->inner_list[s->inner[node->serial] + 1], false);
  } else if (body->finished && condition->finished) {
    run->wall = s->now - run->started;
  }
  return body->finished ? 1 : 0;
}

static int pick(SimSchedule *s, const HlSimNode *node, bool again) {
  int k = 0;
  if (node->op == HL_SIM_CONDITIONAL)
    return pick_branch(s, node, again);
  if (node->op == HL_SIM_WHILE)
    return pick_of_loop(s, node);
  if (node->op == HL_SIM_CALL)
    while (k < node->n_subs - 1 &&
           (inner_of(s, node, k)->finished || inner_of(s, node, k)->left <= 0))
      k++;
  return k;
}

// --- Steps ------------------------------------------------------------------------------------------------------

static void prepare(SimSchedule *s, const HlSimNode *node) {
  SimNodeRun *run = run_of(s, node);
  if (node->n_subs == 0) {
    run->ready = ready_time(s, node);
    if (node->op == HL_SIM_NULL) {
      run->started = run->ready;
      run->state = SIM_EXECUTING;
      push(s, (SimStep){.kind = STEP_FINISH, .node = node, .time = run->ready});
    } else {
      run->state = SIM_READY;
      vec_push(&s->ready, (HlSimNode *)node);
    }
    return;
  }
  bool seen = false;
  for (int k = 0; k < node->n_subs; k++)
    seen = seen || inner_of(s, node, k)->left != node->subs[k]->count;
  const bool again = seen || run->state == SIM_SCHEDULED;
  if (!again)
    run->ready = ready_time(s, node);
  run->state = SIM_SCHEDULED;
  const int k = pick(s, node, again);
  SimSubRun *sub = inner_of(s, node, k);
  if (sub->left > 0 && !sub->finished) {
    sub->begun = is_own(s) ? (again ? s->now : run->ready) : s->now;
    push(s,
         (SimStep){.kind = STEP_SUB, .sub = s->inner_list[s->inner[node->serial] + k], .at = -1});
  } else {
    push(s, (SimStep){.kind = STEP_FINISH, .node = node, .time = s->now});
  }
}

// Goes through the list of a subroutine that begins: what has no operands can run.
static void step_sub(SimSchedule *s, SimStep step) {
  SimSubRun *sub = &s->sub[step.sub];
  if (step.at < 0) {
    sub->todo = sub->sub->n_nodes;
    sub->ended = sub->begun;
    step.at = 0;
  }
  for (; step.at < sub->sub->n_nodes; step.at++) {
    const HlSimNode *node = sub->sub->nodes[step.at];
    if (run_of(s, node)->state != SIM_FREE)
      continue;
    push(s, (SimStep){.kind = STEP_SUB, .sub = step.sub, .at = step.at + 1});
    push(s, (SimStep){.kind = STEP_PREPARE, .node = node});
    return;
  }
}

static void write_log(SimSchedule *s, const HlSimNode *node, const SimNodeRun *run) {
  if (!s->log || (run->clock == 0 && !s->keep_zeros))
    return;
  const double times[] = {run->ready, run->started, run->finished, run->clock, run->wall};
  put_i64(s->log, s->graph->processor);
  put_char(s->log, ',');
  put(s->log, node->name.at, node->name.n);
  put_char(s->log, ',');
  put_text(s->log, hl_sim_op_text(sim_op(node)));
  for (int k = 0; k < HL_COUNT_OF(times); k++)
    hl_buf_printf(s->log, ",%.12f", times[k]);
  hl_buf_putc(s->log, '\n');
}

static void settle_times(SimSchedule *s, const HlSimNode *node, SimNodeRun *run) {
  double start = run->finished;
  if (node->n_subs == 0) {
    run->clock = run->wall = run->finished - run->started;
    return;
  }
  const bool once = run->clock == 0;  // of a loop: no iteration before this one
  add_inner(s, node, &start);
  if (node->op != HL_SIM_WHILE || (is_own(s) && once))
    run->started = start;
  if (node->op != HL_SIM_WHILE || is_own(s))
    run->wall = run->finished - run->started;
}

static void step_finish(SimSchedule *s, SimStep step) {
  const HlSimNode *node = step.node;
  SimNodeRun *run = run_of(s, node);
  SimSubRun *sub = &s->sub[s->sub_of[node->serial]];
  s->now = step.time;
  s->n_finished++;
  run->state = SIM_FINISHED;
  run->finished = step.time;
  settle_times(s, node, run);
  write_log(s, node, run);
  for (uint32_t k = s->first_user[node->serial]; k < s->first_user[node->serial + 1]; k++)
    run_of(s, s->user[k])->waiting--;
  push(s, (SimStep){.kind = STEP_USERS, .node = node, .at = 0});
  if (step.time > sub->ended)
    sub->ended = step.time;
  if (--sub->todo > 0)
    return;
  sub->left--;
  sub->finished = true;
  if (is_own(s))
    s->now = sub->ended;
  if (sub->sub->caller)
    push(s, (SimStep){.kind = STEP_PREPARE, .node = sub->sub->caller});
}

static void step_users(SimSchedule *s, SimStep step) {
  const uint32_t first = s->first_user[step.node->serial];
  const uint32_t n = s->first_user[step.node->serial + 1] - first;
  for (; (uint32_t)step.at < n; step.at++) {
    const HlSimNode *user = s->user[first + (uint32_t)step.at];
    if (run_of(s, user)->waiting > 0 || run_of(s, user)->state != SIM_BLOCKED)
      continue;
    step.at++;
    push(s, step);
    push(s, (SimStep){.kind = STEP_PREPARE, .node = user});
    return;
  }
}

static void work(SimSchedule *s) {
  uint32_t often = 0;
  while (s->steps.n > 0) {
    const SimStep step = vec_pop(&s->steps);
    base_look_often(&often);
    switch (step.kind) {
    case STEP_PREPARE: prepare(s, step.node); break;
    case STEP_FINISH: step_finish(s, step); break;
    case STEP_USERS: step_users(s, step); break;
    case STEP_SUB: step_sub(s, step); break;
    }
  }
}

void schedule_start(SimSchedule *s, double time) {
  s->now = time;
  reset_sub(s, s->entry, true);
  s->sub[s->entry].begun = time;
  push(s, (SimStep){.kind = STEP_SUB, .sub = s->entry, .at = -1});
  work(s);
}

void schedule_started(SimSchedule *s, const HlSimNode *node, double time) {
  s->now = time;
  run_of(s, node)->started = time;
  run_of(s, node)->state = SIM_EXECUTING;
}

void schedule_finished(SimSchedule *s, const HlSimNode *node, double time) {
  push(s, (SimStep){.kind = STEP_FINISH, .node = node, .time = time});
  work(s);
}
