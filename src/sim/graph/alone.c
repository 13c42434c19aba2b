// sim/graph/alone.c: runs the graph of one processor: ParaGraph's own simulator.
//
// Three clocks: the processor's, and those of its network interface for sending and receiving. Messages take the time that their
// bytes need on the wire; nobody waits for a peer. ParaGraph takes instructions in the order in which they became ready in its
// scheduler, and ends when the processor does; here the one that is ready first comes first, and the end is the latest one.

#include "base/heap.h"
#include "sim/graph/schedule.h"

typedef struct Waiting {
  double ready;
  int64_t number;  // in the order of coming
  const HlSimNode *node;
} Waiting;
typedef VEC(Waiting) Queue;

static bool earlier(const Waiting *a, const Waiting *b) {
  return a->ready < b->ready || (a->ready == b->ready && a->number < b->number);
}
HEAP(queue, Waiting, Queue, earlier)

typedef enum Clock { PROCESSOR, SENDER, RECEIVER, CLOCKS } Clock;
typedef struct Machine {
  SimSchedule schedule;
  Queue queue;
  int head;  // of ParaGraph's queue, which is first in first out
  int64_t n_queued;
  double clock[CLOCKS], net, latest;
} Machine;

static void fetch(Machine *m) {
  SimSchedule *s = &m->schedule;
  for (int k = 0; k < s->ready.n; k++) {
    const HlSimNode *node = s->ready.at[k];
    const Waiting one = {s->node[node->serial].ready, m->n_queued++, node};
    s->node[node->serial].state = SIM_SCHEDULED;
    if (s->compat == HL_SIM_OWN)
      queue_push(NULL, &m->queue, one);
    else
      vec_push(&m->queue, one);
  }
  s->ready.n = 0;
}

static bool next(Machine *m, const HlSimNode **out) {
  if (m->head == m->queue.n)
    return false;
  if (m->schedule.compat == HL_SIM_OWN) {
    *out = queue_pop(&m->queue).node;
    return true;
  }
  *out = m->queue.at[m->head++].node;
  if (m->head == m->queue.n)
    m->head = m->queue.n = 0;
  return true;
}

static bool cost_of(Machine *m, const HlSimNode *node, Clock *clock, double *seconds) {
  *clock = PROCESSOR;
  *seconds = 0;
  switch (sim_op(node)) {
  case HL_SIM_DELAY:
  case HL_SIM_INFEED:
  case HL_SIM_OUTFEED:
  case HL_SIM_NULL: *seconds = node->cost.seconds; return true;
  case HL_SIM_SEND_START:
    *seconds = node->cost.bytes_in / m->net;
    *clock = SENDER;
    return true;
  case HL_SIM_SEND_DONE: *clock = SENDER; return true;
  case HL_SIM_RECV_START: *clock = RECEIVER; return true;
  case HL_SIM_RECV_DONE:
    *seconds = node->cost.bytes_out / m->net;
    *clock = RECEIVER;
    return true;
  default:
    return hl_error_kind(
        m->schedule.cx, HL_UNSUPPORTED, (HlPos){0},
        "%s %.*s is not translated: the simulator runs sends and receives that have a protocol",
        hl_sim_op_text(sim_op(node)), (int)node->name.n, node->name.at);
  }
}

static bool run_one(Machine *m, const HlSimNode *node) {
  Clock clock;
  double seconds, time = m->schedule.node[node->serial].ready;
  if (!cost_of(m, node, &clock, &seconds))
    return false;
  if (m->clock[clock] > time)
    time = m->clock[clock];
  schedule_started(&m->schedule, node, time);
  time += seconds;
  schedule_finished(&m->schedule, node, time);
  m->clock[clock] = time;
  if (time > m->latest)
    m->latest = time;
  fetch(m);
  return true;
}

bool hl_sim_run_alone(HlCx *cx, const HlSimGraph *graph, const HlSimRunOptions *options,
                      HlSimRun *out) {
  Machine m = {.net = options->net_bytes > 0 ? options->net_bytes : 656 * 1073741824.0 / 8};
  const int64_t limit = hl_cx_limits(cx)->eval_steps;
  *out = (HlSimRun){0};
  if (!schedule_begin(&m.schedule, cx, graph, options))
    return false;
  if (options->log)
    hl_buf_puts(options->log,
                "processor_id,instruction_name,opcode,ready,started,finished,clock,wall\n");
  m.clock[PROCESSOR] = m.clock[SENDER] = m.clock[RECEIVER] = m.latest = options->start;
  schedule_start(&m.schedule, options->start);
  fetch(&m);
  bool ok = true;
  for (const HlSimNode *node; ok && next(&m, &node);) {
    ok = run_one(&m, node);
    if (ok && limit > 0 && m.schedule.n_finished > limit)
      ok = hl_error_kind(cx, HL_LIMIT, (HlPos){0},
                         "more than %lld instructions ran (limit eval_steps)", (long long)limit);
  }
  if (ok && !m.schedule.sub[m.schedule.entry].finished)
    ok = hl_error(cx, (HlPos){0}, "the graph does not come to its end");
  out->end = options->compat == HL_SIM_PARAGRAPH ? m.clock[PROCESSOR] : m.latest;
  out->n_finished = m.schedule.n_finished;
  vec_free(&m.queue);
  schedule_end(&m.schedule);
  return ok;
}
