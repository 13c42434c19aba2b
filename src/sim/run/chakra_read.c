// sim/run/chakra_read.c: Chakra's traces as a program.
//
// Nodes are taken in an order in which what they depend on comes first. Collectives run beside the device; whoever depends on
// one waits for it. All ranks must have the same nodes in that order; the groups they name, and whom they send to, may differ.

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "proto/wire.h"
#include "sim/run/chakra.h"
#include "sim/run/run.h"

typedef struct Node {
  uint64_t id;
  HlStr name;
  int type;
  double seconds, flops, bytes;  // seconds < 0: not said
  int coll;
  double size;
  int64_t peer, tag, group;  // group 0: all
  int n_deps;
  uint64_t *deps;
  int waiting;  // dependences that are not placed yet
} Node;

typedef struct Trace {
  HlSource *source;
  VEC(Node) node;
  int *order;
} Trace;

typedef struct Reader {
  HlCx *cx;
  HlArena *arena;
  const HlTarget *device;
  Trace *trace;
  int64_t n_ranks;
  json_t *groups;
} Reader;

static bool bad(Reader *r, const Trace *t, const char *at, const char *what) {
  return hl_error(r->cx, wire_pos(t->source, at), "no Chakra trace: %s", what);
}

// --- One node -----------------------------------------------------------------------------------------------

static bool read_deps(Reader *r, const Trace *t, const WireField *f, Node *node) {
  HlStr rest = f->bytes;
  uint64_t one = f->value;
  if (f->type == WIRE_VARINT)
    rest = (HlStr){NULL, 0};
  else if (f->type != WIRE_BYTES)
    return bad(r, t, f->start, "dependences of another type");
  const size_t most = rest.n + 1;
  uint64_t *deps = HL_ARRAY(r->arena, uint64_t, (size_t)node->n_deps + most);
  if (node->n_deps > 0)
    memcpy(deps, node->deps, (size_t)node->n_deps * sizeof *deps);
  node->deps = deps;
  if (f->type == WIRE_VARINT)
    deps[node->n_deps++] = one;
  while (wire_varint(&rest, &one))
    deps[node->n_deps++] = one;
  return rest.n == 0 || bad(r, t, f->start, "damaged dependences");
}

typedef struct Attr {
  HlStr name, text;
  double value;
} Attr;

static bool read_attr(Reader *r, const Trace *t, HlStr rest, Attr *out) {
  WireField f;
  const char *at = rest.at;
  *out = (Attr){0};
  while (wire_next(&rest, &f)) {
    if (f.number == ATTR_NAME && f.type == WIRE_BYTES)
      out->name = f.bytes;
    else if (f.type == WIRE_BYTES)
      out->text = f.bytes;
    else if (f.number == ATTR_DOUBLE && f.type == WIRE_FIXED64)
      memcpy(&out->value, &f.value, sizeof out->value);
    else if (f.number == ATTR_INT64 || f.number == ATTR_INT32)
      out->value = (double)(int64_t)f.value;
    else
      out->value = (double)f.value;
  }
  return rest.n == 0 || bad(r, t, at, "a damaged attribute");
}

static int64_t number_of(HlStr text) {
  int64_t n = 0;
  for (size_t k = 0; k < text.n; k++) {
    if (text.at[k] < '0' || text.at[k] > '9' || n > INT32_MAX)
      return -1;
    n = 10 * n + (text.at[k] - '0');
  }
  return n;
}

static void take_attr(Node *node, const Attr *a) {
  if (hl_str_is(a->name, "num_ops"))
    node->flops = a->value;
  else if (hl_str_is(a->name, "tensor_size"))
    node->bytes = a->value;
  else if (hl_str_is(a->name, "seconds"))
    node->seconds = a->value;
  else if (hl_str_is(a->name, "comm_type"))
    node->coll = (int)a->value;
  else if (hl_str_is(a->name, "comm_size"))
    node->size = a->value;
  else if (hl_str_is(a->name, "comm_dst") || hl_str_is(a->name, "comm_src"))
    node->peer = (int64_t)a->value;
  else if (hl_str_is(a->name, "comm_tag"))
    node->tag = (int64_t)a->value;
  else if (hl_str_is(a->name, "pg_name"))
    node->group = number_of(a->text);
}

static bool read_node(Reader *r, Trace *t, HlStr rest) {
  Node node = {.seconds = -1, .coll = -1, .peer = -1};
  WireField f;
  const char *at = rest.at;
  double micros = 0;
  while (wire_next(&rest, &f)) {
    Attr attr;
    if (f.number == NODE_ID)
      node.id = f.value;
    else if (f.number == NODE_NAME && f.type == WIRE_BYTES)
      node.name = (HlStr){hl_arena_strndup(r->arena, f.bytes.at, f.bytes.n), f.bytes.n};
    else if (f.number == NODE_TYPE)
      node.type = f.value <= CHAKRA_COLL ? (int)f.value : -1;
    else if ((f.number == NODE_CTRL_DEPS || f.number == NODE_DATA_DEPS) &&
             !read_deps(r, t, &f, &node))
      return false;
    else if (f.number == NODE_DURATION)
      micros = (double)f.value;
    else if (f.number == NODE_ATTR && f.type == WIRE_BYTES) {
      if (!read_attr(r, t, f.bytes, &attr))
        return false;
      take_attr(&node, &attr);
    }
  }
  if (rest.n > 0 || node.type < 0)
    return bad(r, t, at, node.type < 0 ? "a node of an unknown type" : "a damaged node");
  if (!(node.size >= 0) || !(node.flops >= 0) || !(node.bytes >= 0) || node.group < 0 ||
      !isfinite(node.size + node.flops + node.bytes))
    return bad(r, t, at, "a negative size");
  if (!(node.seconds >= 0) && micros > 0)
    node.seconds = 1e-6 * micros;
  vec_push_in(r->arena, &t->node, node);
  return true;
}

// --- One file -------------------------------------------------------------------------------------------------

static bool read_messages(Reader *r, Trace *t) {
  HlStr rest = hl_source_bytes(t->source);
  for (int k = 0; rest.n > 0; k++) {
    uint64_t n;
    const char *at = rest.at;
    if (!wire_varint(&rest, &n) || n > rest.n)
      return bad(r, t, at, "a length beyond the end of the file");
    if (t->node.n >= hl_cx_limits(r->cx)->instructions)
      return hl_error_kind(r->cx, HL_LIMIT, wire_pos(t->source, at), "too many nodes");
    if (k > 0 && !read_node(r, t, (HlStr){rest.at, (size_t)n}))
      return false;
    rest = (HlStr){rest.at + n, rest.n - (size_t)n};
  }
  return t->node.n > 0 ||
         hl_error(r->cx, (HlPos){t->source, 0}, "no Chakra trace: it has no nodes");
}

// Places nodes in the order of the file, each after what it depends on.
static bool place_nodes(Reader *r, Trace *t) {
  const int n = t->node.n;
  Map by_id = {.arena = r->arena};
  int *first_user = HL_ARRAY(r->arena, int, n), *next_user = NULL;
  int64_t n_edges = 0;
  for (int k = 0; k < n; k++) {
    uint64_t *place = map_at(&by_id, t->node.at[k].id);
    if (*place)
      return hl_error(r->cx, (HlPos){t->source, 0}, "two nodes have the id %llu",
                      (unsigned long long)t->node.at[k].id);
    *place = (uint64_t)k + 1;
    n_edges += t->node.at[k].n_deps;
  }
  next_user = HL_ARRAY(r->arena, int, n_edges + 1);
  int *user = HL_ARRAY(r->arena, int, n_edges + 1), edge = 1;
  for (int k = n - 1; k >= 0; k--)
    for (int i = 0; i < t->node.at[k].n_deps; i++) {
      const uint64_t on = map_get(&by_id, t->node.at[k].deps[i]);
      if (!on)
        return hl_error(
            r->cx, (HlPos){t->source, 0}, "node %llu depends on %llu, which is not there",
            (unsigned long long)t->node.at[k].id, (unsigned long long)t->node.at[k].deps[i]);
      t->node.at[k].deps[i] = on - 1;
      t->node.at[k].waiting++;
      user[edge] = k;
      next_user[edge] = first_user[on - 1];
      first_user[on - 1] = edge++;
    }
  VEC(int) ready = {0};
  t->order = HL_ARRAY(r->arena, int, n);
  int placed = 0;
  for (int k = 0; k < n; k++) {
    if (t->node.at[k].waiting != 0)
      continue;
    vec_push_in(r->arena, &ready, k);
    while (ready.n > 0) {
      const int one = vec_pop(&ready);
      t->order[placed++] = one;
      t->node.at[one].waiting = -1;
      for (int e = first_user[one]; e; e = next_user[e])
        if (--t->node.at[user[e]].waiting == 0 && user[e] < k)
          vec_push_in(r->arena, &ready, user[e]);
    }
  }
  return placed == n ||
         hl_error(r->cx, (HlPos){t->source, 0}, "nodes depend on each other in a circle");
}

static bool read_traces(Reader *r, const char *prefix) {
  VEC(Trace) traces = {0};
  for (int64_t rank = 0;; rank++) {
    const char *path = hl_arena_printf(r->arena, "%s.%lld.et", prefix, (long long)rank);
    if (access(path, F_OK) != 0 && rank > 0)
      break;
    Trace t = {.source = hl_read_file(r->cx, path)};
    if (!t.source)
      return false;
    const bool ok = read_messages(r, &t) && place_nodes(r, &t);
    hl_source_unref(t.source);
    t.source = NULL;
    if (!ok)
      return false;
    vec_push_in(r->arena, &traces, t);
  }
  r->trace = traces.at;
  r->n_ranks = traces.n;
  return true;
}

// --- Groups ---------------------------------------------------------------------------------------------------

static bool read_groups(Reader *r, const char *prefix, const char *path) {
  const bool asked = path != NULL;
  if (!asked)
    path = hl_arena_printf(r->arena, "%s.groups.json", prefix);
  if (!asked && access(path, F_OK) != 0)
    return true;
  HlSource *source = hl_read_file(r->cx, path);
  if (!source)
    return false;
  json_error_t error;
  const HlStr bytes = hl_source_bytes(source);
  r->groups = json_loadb(bytes.at, bytes.n, JSON_REJECT_DUPLICATES, &error);
  const bool ok =
      json_is_object(r->groups) || hl_error(r->cx, (HlPos){source, 0}, "no JSON object of groups");
  hl_source_unref(source);
  return ok;
}

static const json_t *group_list(const Reader *r, int64_t number) {
  char text[32];
  HlBuf buf = {0};
  hl_buf_i64(&buf, number);
  memcpy(text, buf.at, buf.n + 1);
  hl_buf_free(&buf);
  return json_object_get(r->groups, text);
}

// The ranks of a group, in the arena; false after reporting.
static bool read_group(Reader *r, int64_t number, char *seen, HlI64s *out) {
  const json_t *list = number ? group_list(r, number) : NULL;
  const int64_t size = number ? (int64_t)json_array_size(list) : r->n_ranks;
  if (size < 1 || size > r->n_ranks)
    return hl_error(r->cx, (HlPos){0}, "no group of these ranks is called %lld", (long long)number);
  int64_t *ids = HL_ARRAY(r->arena, int64_t, size);
  for (int64_t k = 0; k < size; k++) {
    const json_t *item = number ? json_array_get(list, (size_t)k) : NULL;
    ids[k] = number ? (int64_t)json_integer_value(item) : k;
    if ((number && !json_is_integer(item)) || ids[k] < 0 || ids[k] >= r->n_ranks ||
        seen[ids[k]])
      return hl_error(r->cx, (HlPos){0},
                      "group %lld names rank %lld, which is not there or in another group",
                      (long long)number, (long long)ids[k]);
    seen[ids[k]] = 1;
  }
  *out = (HlI64s){ids, (int)size};
  return true;
}

// The groups of one step: whatever the ranks name, together.
static bool groups_of(Reader *r, HlProgramBuilder *b, int at, RunGroups *out) {
  VEC(HlI64s) lists = {0};
  char *seen = HL_ARRAY(r->arena, char, r->n_ranks);
  for (int64_t rank = 0; rank < r->n_ranks; rank++) {
    const Trace *t = &r->trace[rank];
    HlI64s group;
    if (seen[rank])
      continue;
    if (!read_group(r, t->node.at[t->order[at]].group, seen, &group))
      return false;
    vec_push_in(r->arena, &lists, group);
  }
  *out = run_group_sets(b, (HlI64Lists){lists.at, lists.n});
  return true;
}

// --- Steps ------------------------------------------------------------------------------------------------------

static bool same_nodes(const Node *a, const Node *b) {
  return a->type == b->type && a->coll == b->coll && a->size == b->size &&
         a->seconds == b->seconds && a->flops == b->flops && a->bytes == b->bytes;
}

static bool check_ranks(Reader *r) {
  const Trace *first = &r->trace[0];
  for (int64_t rank = 1; rank < r->n_ranks; rank++) {
    const Trace *t = &r->trace[rank];
    bool same = t->node.n == first->node.n;
    for (int k = 0; same && k < t->node.n; k++)
      same = same_nodes(&t->node.at[t->order[k]], &first->node.at[first->order[k]]);
    if (!same)
      return hl_error_kind(r->cx, HL_UNSUPPORTED, (HlPos){0},
                           "rank %lld does other things than rank 0, which is not simulated",
                           (long long)rank);
  }
  return true;
}

static const int kinds[COLLS] = {[COLL_ALL_REDUCE] = HL_ALL_REDUCE,
                                 [COLL_REDUCE] = HL_REDUCE_TO_ONE,
                                 [COLL_ALL_GATHER] = HL_ALL_GATHER,
                                 [COLL_GATHER] = HL_GATHER_TO_ONE,
                                 [COLL_SCATTER] = HL_SCATTER_FROM_ONE,
                                 [COLL_BROADCAST] = HL_BROADCAST,
                                 [COLL_ALL_TO_ALL] = HL_ALL_TO_ALL,
                                 [COLL_REDUCE_SCATTER] = HL_REDUCE_SCATTER,
                                 [COLL_REDUCE_SCATTER_BLOCK] = HL_REDUCE_SCATTER,
                                 [COLL_BARRIER] = HL_BARRIER};

// The steps of a node: a collective has one for each size of groups.
typedef struct Begun {
  int first, n;
} Begun;

static bool add_collective(Reader *r, HlProgramBuilder *b, int at, const Node *node, Begun *out) {
  RunGroups sets = {0, NULL};
  if (node->coll < 0 || node->coll >= COLLS)
    return hl_error(r->cx, (HlPos){0}, "node %.*s is a collective of an unknown type",
                    (int)node->name.n, node->name.at);
  if (!groups_of(r, b, at, &sets))
    return false;
  *out = (Begun){b->step.n, sets.n};
  for (int k = 0; k < sets.n; k++) {
    HlProgramExchange x = {
        .kind = (HlExchangeKind)kinds[node->coll], .bytes = node->size, .groups = sets.at[k]};
    if (x.kind == HL_ALL_GATHER)
      x.bytes *= (double)b->groups.at[sets.at[k]].n;
    hl_program_exchange(b, node->name, x, 1);
  }
  return true;
}

static bool add_node(Reader *r, HlProgramBuilder *b, int at, const Node *node, Begun *out) {
  *out = (Begun){b->step.n, 1};
  switch (node->type) {
  case CHAKRA_COLL: return add_collective(r, b, at, node, out);
  case CHAKRA_COMP:
  case CHAKRA_MEM_LOAD:
  case CHAKRA_MEM_STORE: {
    const double seconds =
        node->seconds >= 0 ? node->seconds : hl_roofline(r->device, node->flops, node->bytes);
    const int step = hl_program_compute(
        b, node->name, node->type == CHAKRA_COMP ? "compute" : "memory", seconds);
    b->step.at[step].flops = node->flops;
    b->step.at[step].bytes = node->bytes;
    return true;
  }
  case CHAKRA_SEND:
  case CHAKRA_RECV:
    return hl_error_kind(r->cx, HL_UNSUPPORTED, (HlPos){0},
                         "messages between two ranks (node %.*s) are not read", (int)node->name.n,
                         node->name.at);
  default: hl_program_compute(b, node->name, "metadata", 0); return true;
  }
}

static void wait_for(HlProgramBuilder *b, const Node *node, Begun begun) {
  for (int k = 0; k < begun.n; k++)
    hl_program_wait(b, node->name, begun.first + k);
}

// What runs beside and has not been waited for is waited for by the first that depends on it; a collective need not, as they
// run one after another.
static bool add_steps(Reader *r, HlProgramBuilder *b) {
  const Trace *t = &r->trace[0];
  Begun *begun = HL_ARRAY(r->arena, Begun, t->node.n + 1);
  char *open = HL_ARRAY(r->arena, char, t->node.n + 1);
  for (int k = 0; k < t->node.n; k++) {
    const int at = t->order[k];
    const Node *node = &t->node.at[at];
    for (int i = 0; i < node->n_deps; i++) {
      const uint64_t on = node->deps[i];
      if (open[on] && node->type != CHAKRA_COLL) {
        open[on] = 0;
        wait_for(b, node, begun[on]);
      }
    }
    if (!add_node(r, b, k, node, &begun[at]))
      return false;
    open[at] = node->type == CHAKRA_COLL;
  }
  for (int k = 0; k < t->node.n; k++)
    if (open[k])
      wait_for(b, &t->node.at[k], begun[k]);
  return true;
}

HlClusterProgram *hl_chakra_read(HlCx *cx, HlArena *arena, const char *prefix, const char *groups,
                                 const HlTarget *device) {
  Reader r = {.cx = cx, .arena = arena, .device = device};
  HlProgramBuilder *b = NULL;
  if (read_traces(&r, prefix) && check_ranks(&r) && read_groups(&r, prefix, groups)) {
    b = hl_program_begin(arena, prefix, r.n_ranks);
    if (!add_steps(&r, b))
      b = NULL;
  }
  json_decref(r.groups);
  return b ? hl_program_end(b) : NULL;
}
