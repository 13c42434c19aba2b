// sim/run/chakra_read.c: Chakra's traces as a program.
//
// Nodes are taken in an order in which what they depend on comes first. Collectives run beside the device; whoever depends on
// one waits for it. All ranks must have the same nodes in that order; the groups they name may differ, and messages between two of
// them do: what ranks send between one of their common nodes and the next are permutations, in as many rounds as the busiest
// rank needs, which run beside until somebody's common node depends on a message.

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

// A send or a receive, behind so many of the rank's common nodes.
typedef struct Message {
  int node, slot;
} Message;

typedef struct Trace {
  HlSource *source;
  VEC(Node) node;
  int *order;  // of all nodes, then of the common ones
  int n_common;
  VEC(Message) message;
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

// A number that is to be whole, as a rank; false: it is not, or beyond its range.
static bool whole(double value, double most, int64_t *out) {
  if (!(value >= -1 && value <= most) || value != floor(value))
    return false;
  *out = (int64_t)value;
  return true;
}

static bool take_attr(Node *node, const Attr *a) {
  int64_t number = 0;
  if (hl_str_is(a->name, "num_ops"))
    node->flops = a->value;
  else if (hl_str_is(a->name, "tensor_size"))
    node->bytes = a->value;
  else if (hl_str_is(a->name, "seconds"))
    node->seconds = a->value;
  else if (hl_str_is(a->name, "comm_type")) {
    if (!whole(a->value, INT32_MAX, &number))
      return false;
    node->coll = (int)number;
  } else if (hl_str_is(a->name, "comm_size"))
    node->size = a->value;
  else if (hl_str_is(a->name, "comm_dst") || hl_str_is(a->name, "comm_src"))
    return whole(a->value, INT32_MAX, &node->peer);
  else if (hl_str_is(a->name, "comm_tag"))
    return whole(a->value, 0x1p53, &node->tag);
  else if (hl_str_is(a->name, "pg_name"))
    node->group = number_of(a->text);
  return true;
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
      if (!take_attr(&node, &attr))
        return bad(r, t, f.bytes.at, "a number beyond its range");
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

static bool is_message(const Node *node) {
  return node->type == CHAKRA_SEND || node->type == CHAKRA_RECV;
}

static void take_out_messages(Reader *r, Trace *t) {
  for (int k = 0; k < t->node.n; k++)
    if (is_message(&t->node.at[t->order[k]]))
      vec_push_in(r->arena, &t->message, ((Message){t->order[k], t->n_common}));
    else
      t->order[t->n_common++] = t->order[k];
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
    take_out_messages(r, &t);
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
    if ((number && !json_is_integer(item)) || ids[k] < 0 || ids[k] >= r->n_ranks || seen[ids[k]])
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
    bool same = t->n_common == first->n_common;
    for (int k = 0; same && k < t->n_common; k++)
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
    const int step = hl_program_compute(b, node->name,
                                        node->type == CHAKRA_COMP ? "compute" : "memory", seconds);
    b->step.at[step].flops = node->flops;
    b->step.at[step].bytes = node->bytes;
    return true;
  }
  default: hl_program_compute(b, node->name, "metadata", 0); return true;
  }
}

static void wait_for(HlProgramBuilder *b, const Node *node, Begun begun) {
  for (int k = 0; k < begun.n; k++)
    hl_program_wait(b, node->name, begun.first + k);
}

// --- Messages ---------------------------------------------------------------------------------------------------

// What is sent in a slot: the rank, to whom, and in which round.
typedef struct Sent {
  const Node *node;
  int64_t rank;
  int slot, round;
} Sent;

typedef struct Slots {
  VEC(Sent) sent;  // by slot, then by round
  Begun *begun;    // by slot
  int *needed;     // by slot: the common node that waits for it; n_common: the end
  int *first,
      *next;  // by common node: a slot that it waits for; by slot: another for the same node; 1 + it, 0: none
} Slots;

static uint64_t message_key(int64_t from, int64_t to, int64_t tag, int slot) {
  return hl_hash_mix(hl_hash_mix((uint64_t)from, (uint64_t)to),
                     hl_hash_mix((uint64_t)tag, (uint64_t)slot)) |
         1;
}

// Counts receives up and sends down: each send has its receive in the same slot.
static bool count_messages(Reader *r, Map *open) {
  int64_t left = 0;
  for (int receives = 1; receives >= 0; receives--)
    for (int64_t rank = 0; rank < r->n_ranks; rank++)
      for (int k = 0; k < r->trace[rank].message.n; k++) {
        const Message m = r->trace[rank].message.at[k];
        const Node *node = &r->trace[rank].node.at[m.node];
        if ((node->type == CHAKRA_RECV) != (receives == 1))
          continue;
        if (node->peer < 0 || node->peer >= r->n_ranks)
          return hl_error(r->cx, (HlPos){0}, "node %.*s of rank %lld is with rank %lld of %lld",
                          (int)node->name.n, node->name.at, (long long)rank, (long long)node->peer,
                          (long long)r->n_ranks);
        uint64_t *at = map_at(open, receives ? message_key(node->peer, rank, node->tag, m.slot)
                                             : message_key(rank, node->peer, node->tag, m.slot));
        *at += *at == 0;  // 1 + the receives that are open
        if (!receives && *at == 1)
          return hl_error(r->cx, (HlPos){0},
                          "rank %lld sends %.*s to rank %lld, which does not receive it there",
                          (long long)rank, (int)node->name.n, node->name.at, (long long)node->peer);
        *at += receives ? 1 : UINT64_MAX;
        left += receives ? 1 : -1;
      }
  return left == 0 ||
         hl_error(r->cx, (HlPos){0}, "%lld messages are received and never sent", (long long)left);
}

static int by_round(const void *a, const void *b) {
  const Sent *x = a, *y = b;
  if (x->slot != y->slot)
    return x->slot - y->slot;
  if (x->round != y->round)
    return x->round - y->round;
  if (x->node->size != y->node->size)
    return x->node->size < y->node->size ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

// In a round each rank sends once and receives once, at most.
static void list_sent(Reader *r, Slots *out) {
  Map next = {.arena = r->arena};  // by rank, way and slot: its next round
  for (int64_t rank = 0; rank < r->n_ranks; rank++)
    for (int k = 0; k < r->trace[rank].message.n; k++) {
      const Message m = r->trace[rank].message.at[k];
      const Node *node = &r->trace[rank].node.at[m.node];
      if (node->type != CHAKRA_SEND || node->peer == rank)
        continue;
      const uint64_t from = message_key(rank, -1, 0, m.slot),
                     to = message_key(node->peer, -2, 0, m.slot);
      const uint64_t a = map_get(&next, from), b = map_get(&next, to), round = a > b ? a : b;
      *map_at(&next, from) = round + 1;
      *map_at(&next, to) = round + 1;
      vec_push_in(r->arena, &out->sent, ((Sent){node, rank, m.slot, (int)round}));
    }
  if (out->sent.n > 0)
    qsort(out->sent.at, (size_t)out->sent.n, sizeof *out->sent.at, by_round);
}

// Which common node of any rank is the first to depend on a message of each slot.
static void find_needs(Reader *r, Slots *out) {
  for (int64_t rank = 0; rank < r->n_ranks; rank++) {
    const Trace *t = &r->trace[rank];
    if (t->message.n == 0)
      continue;
    int *slot = base_alloc(sizeof *slot * (size_t)(t->node.n + 1));
    for (int k = 0; k < t->message.n; k++)
      slot[t->message.at[k].node] = t->message.at[k].slot + 1;
    for (int k = 0; k < t->n_common; k++) {
      const Node *node = &t->node.at[t->order[k]];
      for (int i = 0; i < node->n_deps; i++) {
        const int on = slot[node->deps[i]] - 1;
        if (on >= 0 && out->needed[on] > k)
          out->needed[on] = k;
      }
    }
    base_free(slot);
  }
}

static bool find_messages(Reader *r, Slots *out) {
  const int n = r->trace[0].n_common;
  Map open = {.arena = r->arena};
  out->begun = HL_ARRAY(r->arena, Begun, n + 1);
  out->needed = HL_ARRAY(r->arena, int, n + 1);
  for (int k = 0; k <= n; k++)
    out->needed[k] = n;
  if (!count_messages(r, &open))
    return false;
  list_sent(r, out);
  find_needs(r, out);
  out->first = HL_ARRAY(r->arena, int, n + 1);
  out->next = HL_ARRAY(r->arena, int, n + 1);
  for (int k = n; k >= 0; k--) {
    out->next[k] = out->first[out->needed[k]];
    out->first[out->needed[k]] = k + 1;
  }
  return true;
}

// The permutations of a slot, whose first message is number *at.
static void add_slot(Reader *r, HlProgramBuilder *b, Slots *slots, int slot, int *at) {
  int64_t *ids = HL_ARRAY(r->arena, int64_t, r->n_ranks);
  Begun begun = {b->step.n, 0};
  for (int64_t k = 0; k < r->n_ranks; k++)
    ids[k] = k;
  while (*at < slots->sent.n && slots->sent.at[*at].slot == slot) {
    const Sent first = slots->sent.at[*at];
    int64_t *target = HL_ARRAY(r->arena, int64_t, r->n_ranks);
    for (int64_t k = 0; k < r->n_ranks; k++)
      target[k] = -1;
    for (; *at < slots->sent.n; ++*at) {
      const Sent *s = &slots->sent.at[*at];
      if (s->slot != slot || s->round != first.round || s->node->size != first.node->size)
        break;
      target[s->rank] = s->node->peer;
    }
    const HlProgramExchange x = {.kind = HL_PERMUTE,
                                 .bytes = first.node->size,
                                 .groups =
                                     hl_program_groups(b, (HlDeviceGroups){1, r->n_ranks, ids}),
                                 .target = target};
    hl_program_exchange(b, first.node->name, x, 2);
    begun.n++;
  }
  slots->begun[slot] = begun;
}

// --- All --------------------------------------------------------------------------------------------------------

// What runs beside and has not been waited for is waited for by the first that depends on it; a collective need not wait for
// another, as they run one after another.
static bool add_steps(Reader *r, HlProgramBuilder *b) {
  const Trace *t = &r->trace[0];
  Begun *begun = HL_ARRAY(r->arena, Begun, t->node.n + 1);
  char *open = HL_ARRAY(r->arena, char, t->node.n + 1);
  Slots slots = {0};
  int message = 0;
  if (!find_messages(r, &slots))
    return false;
  for (int k = 0; k < t->n_common; k++) {
    const int at = t->order[k];
    const Node *node = &t->node.at[at];
    if (message < slots.sent.n && slots.sent.at[message].slot == k)
      add_slot(r, b, &slots, k, &message);
    for (int slot = slots.first[k]; slot; slot = slots.next[slot - 1])
      wait_for(b, node, slots.begun[slot - 1]);
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
  add_slot(r, b, &slots, t->n_common, &message);
  for (int k = 0; k < t->node.n; k++)
    if (open[k])
      wait_for(b, &t->node.at[k], begun[k]);
  for (int slot = slots.first[t->n_common]; slot; slot = slots.next[slot - 1])
    wait_for(b, &(Node){.name = hl_str("end")}, slots.begun[slot - 1]);
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
