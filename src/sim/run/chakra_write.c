// sim/run/chakra_write.c: programs as Chakra's traces.
//
// Field by field with the wire's own functions: a member of a oneof is written even where it is 0, which proto3's writers do, too, and
// other fields are not.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "proto/wire.h"
#include "sim/run/chakra.h"
#include "sim/run/run.h"

typedef struct Writer {
  HlCx *cx;
  const HlClusterProgram *p;
  int64_t rank;
  const HlChakraOptions *o;
  HlBuf *out;
  HlBuf node, attr;
  int64_t next;         // id
  int64_t before;       // the node that occupied the device last; -1
  int64_t *node_of;     // of a step; -1
  VEC(int64_t) waited;  // nodes that the next one waits for
  int64_t *place;       // the rank's, by groups: + 1; 0: not looked for, -1: it has none
  int64_t *to, *from;   // of a permutation, by exchange: + 1; 0: not looked for, -1: none
} Writer;

static int64_t named_before(const HlClusterProgram *p, int groups) {
  int64_t n = 1;
  for (int k = 0; k < groups; k++)
    if (p->groups[k].n < p->devices)
      n += p->groups[k].groups;
  return n;
}

int64_t chakra_group_number(const HlClusterProgram *p, int groups, int64_t group) {
  return p->groups[groups].n < p->devices ? named_before(p, groups) + group : 0;
}

// --- Attributes ---------------------------------------------------------------------------------------------

static void begin_attr(Writer *w, const char *name) {
  w->attr.n = 0;
  wire_put_bytes(&w->attr, ATTR_NAME, name, strlen(name));
}

static void end_attr(Writer *w) {
  wire_put_bytes(&w->node, NODE_ATTR, w->attr.at, w->attr.n);
}

static void put_number(Writer *w, const char *name, uint32_t field, uint64_t value) {
  begin_attr(w, name);
  wire_put_tag(&w->attr, field, WIRE_VARINT);
  wire_put_varint(&w->attr, value);
  end_attr(w);
}

static void put_real(Writer *w, const char *name, double value) {
  begin_attr(w, name);
  wire_put_tag(&w->attr, ATTR_DOUBLE, WIRE_FIXED64);
  hl_buf_add(&w->attr, &value, sizeof value);
  end_attr(w);
}

static void put_string(Writer *w, const char *name, const char *value) {
  begin_attr(w, name);
  wire_put_bytes(&w->attr, ATTR_STRING, value, strlen(value));
  end_attr(w);
}

// --- Nodes --------------------------------------------------------------------------------------------------

static void put_plain(HlBuf *out, uint32_t field, uint64_t value) {
  if (value == 0)
    return;
  wire_put_tag(out, field, WIRE_VARINT);
  wire_put_varint(out, value);
}

static void put_packed(Writer *w, uint32_t field, const int64_t *at, int n) {
  if (n == 0)
    return;
  w->attr.n = 0;
  for (int k = 0; k < n; k++)
    wire_put_varint(&w->attr, (uint64_t)at[k]);
  wire_put_bytes(&w->node, field, w->attr.at, w->attr.n);
}

// What comes before a node's attributes. `after` what occupied the device, and what is waited for.
static void begin_node(Writer *w, HlStr name, int type) {
  w->node.n = 0;
  put_plain(&w->node, NODE_ID, (uint64_t)w->next);
  if (name.n > 0)
    wire_put_bytes(&w->node, NODE_NAME, name.at, name.n);
  put_plain(&w->node, NODE_TYPE, (uint64_t)type);
  if (w->before >= 0)
    put_packed(w, NODE_CTRL_DEPS, &w->before, 1);
  put_packed(w, NODE_DATA_DEPS, w->waited.at, w->waited.n);
}

static void end_node(Writer *w, const HlClusterStep *step) {
  wire_put_varint(w->out, w->node.n);
  hl_buf_add(w->out, w->node.at, w->node.n);
  if (!step->stream) {
    w->before = w->next;
    w->waited.n = 0;
  }
  w->next++;
}

// Of what has no more than 63 bits in a trace, 2^63 - 1 stands for all that is larger (docs/sim.md).
static uint64_t whole(double value) {
  return value > 0 ? value < 0x1p63 ? (uint64_t)(value + 0.5) : (uint64_t)INT64_MAX : 0;
}

static void write_compute(Writer *w, const HlClusterStep *step) {
  const double seconds = step->seconds * step->times;
  begin_node(w, step->name, CHAKRA_COMP);
  put_plain(&w->node, NODE_DURATION, whole(ceil(1e6 * seconds)));
  put_number(w, "is_cpu_op", ATTR_BOOL, 0);
  put_number(w, "num_ops", ATTR_INT64, whole(step->flops * step->times));
  put_number(w, "tensor_size", ATTR_UINT64, whole(step->bytes * step->times));
  if (!w->o->plain)
    put_real(w, "seconds", seconds);
  end_node(w, step);
}

static const int colls[HL_EXCHANGE_KINDS] = {[HL_ALL_REDUCE] = COLL_ALL_REDUCE,
                                             [HL_ALL_GATHER] = COLL_ALL_GATHER,
                                             [HL_REDUCE_SCATTER] = COLL_REDUCE_SCATTER,
                                             [HL_ALL_TO_ALL] = COLL_ALL_TO_ALL,
                                             [HL_BROADCAST] = COLL_BROADCAST,
                                             [HL_REDUCE_TO_ONE] = COLL_REDUCE,
                                             [HL_GATHER_TO_ONE] = COLL_GATHER,
                                             [HL_SCATTER_FROM_ONE] = COLL_SCATTER,
                                             [HL_BARRIER] = COLL_BARRIER};

static int64_t place_in(Writer *w, int groups) {
  const HlDeviceGroups *g = &w->p->groups[groups];
  if (w->place[groups] == 0) {
    w->place[groups] = -1;
    for (int64_t k = 0; k < g->groups * g->n; k++)
      if (g->member[k] == w->rank)
        w->place[groups] = k + 1;
  }
  return w->place[groups] > 0 ? w->place[groups] - 1 : -1;
}

static void write_collective(Writer *w, const HlClusterStep *step, const HlProgramExchange *x) {
  const HlDeviceGroups *g = &w->p->groups[x->groups];
  const int64_t place = place_in(w, x->groups);
  if (place < 0)
    return;
  // Of an all-gather ASTRA-sim wants what one rank gives.
  const double bytes = x->kind == HL_ALL_GATHER ? x->bytes / (double)g->n : x->bytes;
  begin_node(w, step->name, CHAKRA_COLL);
  put_number(w, "is_cpu_op", ATTR_BOOL, 0);
  put_number(w, "comm_type", ATTR_INT64, (uint64_t)colls[x->kind]);
  put_number(w, "comm_size", ATTR_INT64, whole(bytes * step->times));
  if (g->n < w->p->devices) {
    char number[32];
    const int64_t name = chakra_group_number(w->p, x->groups, place / g->n);
    HlBuf text = {0};
    hl_buf_i64(&text, name);
    memcpy(number, text.at, text.n + 1);
    hl_buf_free(&text);
    put_string(w, "pg_name", number);
  }
  end_node(w, step);
}

// A message as a node of its own: to or from `peer`.
static void write_half(Writer *w, const HlClusterStep *step, double bytes, bool sends, int64_t peer,
                       int tag) {
  begin_node(w, step->name, sends ? CHAKRA_SEND : CHAKRA_RECV);
  put_number(w, "is_cpu_op", ATTR_BOOL, 0);
  put_number(w, sends ? "comm_dst" : "comm_src", ATTR_INT32, (uint64_t)peer);
  put_number(w, "comm_size", ATTR_INT64, whole(bytes * step->times));
  put_number(w, "comm_tag", ATTR_INT32, (uint64_t)tag);
  end_node(w, step);
}

static void find_peers(Writer *w, int exchange) {
  const HlProgramExchange *x = &w->p->exchange[exchange];
  const HlDeviceGroups *g = &w->p->groups[x->groups];
  w->to[exchange] = w->from[exchange] = -1;
  for (int64_t i = 0; i < g->n; i++) {
    const int64_t to = x->target[i];
    if (to < 0 || to == i)
      continue;
    if (g->member[i] == w->rank)
      w->to[exchange] = g->member[to] + 1;
    if (g->member[to] == w->rank)
      w->from[exchange] = g->member[i] + 1;
  }
}

static void write_permute(Writer *w, int k, const HlClusterStep *step) {
  const double bytes = w->p->exchange[step->exchange].bytes;
  if (w->to[step->exchange] == 0)
    find_peers(w, step->exchange);
  if (w->to[step->exchange] > 0)
    write_half(w, step, bytes, true, w->to[step->exchange] - 1, k);
  if (w->from[step->exchange] > 0)
    write_half(w, step, bytes, false, w->from[step->exchange] - 1, k);
}

static void write_step(Writer *w, int k) {
  const HlClusterStep *step = &w->p->step[k];
  const int64_t first = w->next;
  if (step->kind == HL_STEP_WAIT) {
    if (w->node_of[step->waits] >= 0)
      vec_push(&w->waited, w->node_of[step->waits]);
    return;
  }
  if (step->kind == HL_STEP_COMPUTE) {
    write_compute(w, step);
  } else {
    const HlProgramExchange *x = &w->p->exchange[step->exchange];
    if (x->kind == HL_PERMUTE)
      write_permute(w, k, step);
    else
      write_collective(w, step, x);
  }
  if (w->next > first)
    w->node_of[k] = w->next - 1;
}

static void write_metadata(Writer *w) {
  const char *version = w->o->version ? w->o->version : "0.0.4";
  w->node.n = 0;
  wire_put_bytes(&w->node, META_VERSION, version, strlen(version));
  wire_put_varint(w->out, w->node.n);
  hl_buf_add(w->out, w->node.at, w->node.n);
}

bool hl_chakra_write(HlCx *cx, const HlClusterProgram *p, int64_t rank,
                     const HlChakraOptions *options, HlBuf *out) {
  static const HlChakraOptions usual = {0};
  if (rank < 0 || rank >= p->devices)
    return hl_error(cx, (HlPos){0}, "rank %lld of a program for %lld devices", (long long)rank,
                    (long long)p->devices);
  Writer w = {
      .cx = cx, .p = p, .rank = rank, .o = options ? options : &usual, .out = out, .before = -1};
  w.node_of = base_alloc(sizeof *w.node_of * (size_t)(p->n_steps + 1));
  for (int k = 0; k < p->n_steps; k++)
    w.node_of[k] = -1;
  w.place = base_alloc(sizeof *w.place * (size_t)(p->n_groups + 1));
  w.to = base_alloc(sizeof *w.to * (size_t)(p->n_exchanges + 1));
  w.from = base_alloc(sizeof *w.from * (size_t)(p->n_exchanges + 1));
  write_metadata(&w);
  for (int k = 0; k < p->n_steps; k++)
    write_step(&w, k);
  base_free(w.node_of);
  base_free(w.place);
  base_free(w.to);
  base_free(w.from);
  vec_free(&w.waited);
  hl_buf_free(&w.node);
  hl_buf_free(&w.attr);
  return true;
}

// --- Groups -------------------------------------------------------------------------------------------------

static bool has_named_groups(const HlClusterProgram *p) {
  for (int k = 0; k < p->n_groups; k++)
    if (p->groups[k].n < p->devices)
      return true;
  return false;
}

void hl_chakra_groups(const HlClusterProgram *p, HlBuf *out) {
  int n = 0;
  hl_buf_puts(out, "{");
  for (int k = 0; k < p->n_groups; k++) {
    const HlDeviceGroups *g = &p->groups[k];
    for (int64_t i = 0; i < g->groups && g->n < p->devices; i++) {
      hl_buf_printf(out, "%s\n  \"%lld\": [", n++ ? "," : "",
                    (long long)chakra_group_number(p, k, i));
      for (int64_t m = 0; m < g->n; m++)
        hl_buf_printf(out, "%s%lld", m ? ", " : "", (long long)g->member[i * g->n + m]);
      hl_buf_putc(out, ']');
    }
  }
  hl_buf_puts(out, "\n}\n");
}

bool hl_chakra_write_all(HlCx *cx, const HlClusterProgram *p, const char *prefix,
                         const HlChakraOptions *options) {
  HlArena *arena = hl_arena_new();
  HlBuf out = {0};
  bool ok = true;
  for (int64_t rank = 0; ok && rank < p->devices; rank++) {
    const HlMark mark = hl_arena_mark(arena);
    out.n = 0;
    ok = hl_chakra_write(cx, p, rank, options, &out) &&
         hl_write_file(cx, hl_arena_printf(arena, "%s.%lld.et", prefix, (long long)rank), out.at,
                       out.n);
    hl_arena_release(arena, mark);
    base_look();
  }
  if (ok && has_named_groups(p)) {
    out.n = 0;
    hl_chakra_groups(p, &out);
    ok = hl_write_file(cx, hl_arena_printf(arena, "%s.groups.json", prefix), out.at, out.n);
  }
  hl_buf_free(&out);
  hl_arena_free(arena);
  return ok;
}
