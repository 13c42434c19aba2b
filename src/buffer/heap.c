// buffer/heap.c: packs values into memory as XLA does.
//
// The program is replayed: a value is allocated when its live range starts and freed where it ends. A
// value may take over the place of an operand that dies there, and values of one buffer share
// theirs. That gives intervals in time. They are placed one by one, each in the smallest gap that no
// interval of the same time occupies; once in order of size, once in order of duration, and the better
// of the two counts.

#include "buffer/heap.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

// --- Replay --------------------------------------------------------------------------------------

// What holds one address for some time; several share an address: a group.
typedef struct Interval {
  uint32_t value;
  int64_t size, start, end;
  int32_t next;    // the next member of its group, -1: last
  int32_t leader;  // the member that gets a place
  // Of leaders, over all members:
  int32_t tail;
  int64_t most, from, to;  // largest size, first start, last end
} Interval;

typedef struct Heap {
  HlArena *scratch;
  const HlLive *live;
  const bool *wanted;
  int64_t alignment;
  HlRange *range;       // by value; grows where an operand's place is taken over
  int32_t *interval;    // by value, -1: none yet
  int64_t *group_size;  // by value found by union-find
  uint32_t *group;
  int64_t now;
  Interval *at;
  int n;
  HlHeapEvent *event;  // two for each interval
  int n_events;
  int64_t live_bytes, peak_bytes;
} Heap;

static uint32_t find_group(Heap *h, uint32_t value) {
  while (h->group[value] != value) {
    h->group[value] = h->group[h->group[value]];
    value = h->group[value];
  }
  return value;
}

static int64_t size_of(Heap *h, uint32_t value) {
  return h->group_size[find_group(h, value)];
}

static void note(Heap *h, HlHeapKind kind, uint32_t value, uint32_t with) {
  h->event[h->n_events++] = (HlHeapEvent){kind, value, with};
}

static void hold(Heap *h, uint32_t value, int32_t leader) {
  int64_t size = size_of(h, value);
  h->interval[value] = h->n;
  if (leader >= 0) {
    leader = h->at[leader].leader;
    h->at[h->at[leader].tail].next = h->n;
    h->at[leader].tail = h->n;
  }
  h->at[h->n] = (Interval){.value = value,
                           .size = size,
                           .start = size > 0 ? h->now++ : 0,
                           .end = -1,
                           .next = -1,
                           .leader = leader >= 0 ? leader : h->n,
                           .tail = h->n};
  h->n++;
  h->live_bytes += size;
  if (h->live_bytes > h->peak_bytes)
    h->peak_bytes = h->live_bytes;
}

static void allocate(Heap *h, uint32_t value) {
  note(h, HL_HEAP_ALLOCATE, value, HL_NO_VALUE);
  hold(h, value, -1);
}

static void release(Heap *h, uint32_t value) {
  note(h, HL_HEAP_FREE, value, HL_NO_VALUE);
  Interval *interval = &h->at[h->interval[value]];
  h->live_bytes -= interval->size;
  interval->end = interval->size > 0 ? h->now++ : 0;
}

// The value takes over the place of another, both grown to the larger of the two sizes.
static void share(Heap *h, uint32_t value, uint32_t with) {
  uint32_t a = find_group(h, value), b = find_group(h, with);
  int64_t size = h->group_size[a] > h->group_size[b] ? h->group_size[a] : h->group_size[b];
  h->group[b] = a;
  h->group_size[a] = size;
  note(h, HL_HEAP_SHARE, value, with);
  hold(h, value, h->interval[with]);
}

// --- Taking over an operand's place --------------------------------------------------------------

typedef struct Ends {            // the values that end at one time, in order
  int32_t *first, *next, *last;  // by time; by value; by time
} Ends;

static void ends_add(Ends *e, int64_t time, uint32_t value) {
  e->next[value] = -1;
  if (e->first[time] < 0)
    e->first[time] = (int32_t)value;
  else
    e->next[e->last[time]] = (int32_t)value;
  e->last[time] = (int32_t)value;
}

static bool is_alone(const HlFlow *flow, uint32_t value) {
  return flow->buffer[flow->value[value].buffer].n == 1;
}

static bool take_over(Heap *h, uint32_t value, int64_t time, bool *freed) {
  const HlFlow *flow = h->live->flow;
  const HlInst *inst = hl_value_inst(flow, value);
  if (!is_alone(flow, value) || inst->op == HL_OP_COPY)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    uint32_t operand = hl_value_of(flow, inst->operands[k]);
    if (operand == HL_NO_VALUE || !is_alone(flow, operand) || !h->wanted[operand] ||
        h->range[operand].end != time || freed[operand] || h->interval[operand] < 0)
      continue;
    const HlInst *definer = hl_value_inst(flow, operand);
    bool direct = false;
    for (uint32_t j = 0; j < inst->n_operands; j++)
      direct |= inst->operands[j] == definer;
    if (!direct ||
        !hl_can_share(flow, h->scratch, flow->value[operand].slot, flow->value[value].slot))
      continue;
    release(h, operand);
    freed[operand] = true;
    share(h, value, operand);
    h->range[operand].end = h->range[value].end;
    return true;
  }
  return false;
}

typedef struct Ordered {
  HlRange range;
  uint32_t value;
} Ordered;

static int by_start(const void *a, const void *b) {
  const Ordered *x = a, *y = b;
  if (x->range.start != y->range.start)
    return x->range.start < y->range.start ? -1 : 1;
  if (x->range.end != y->range.end)
    return x->range.end < y->range.end ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

static void start_groups(Heap *h) {
  const HlFlow *flow = h->live->flow;
  for (uint32_t b = 0; b < flow->n_buffers; b++) {
    const HlBuffer *buffer = &flow->buffer[b];
    uint32_t first = flow->buffer_value[buffer->first];
    int64_t size = 0;
    for (uint32_t k = 0; k < buffer->n; k++) {
      uint32_t value = flow->buffer_value[buffer->first + k];
      int64_t bytes = hl_value_bytes(flow, value);
      h->group[value] = first;
      size = bytes > size ? bytes : size;
    }
    h->group_size[first] = size;
  }
}

static void replay(Heap *h) {
  const HlLive *live = h->live;
  const HlFlow *flow = live->flow;
  uint32_t n = flow->n_values;
  Ordered *order = HL_ARRAY(h->scratch, Ordered, n + 1);
  int n_order = 0;
  for (uint32_t v = 0; v < n; v++)
    if (h->wanted[v] && live->range[v].start >= 0)
      order[n_order++] = (Ordered){live->range[v], v};
  qsort(order, (size_t)n_order, sizeof *order, by_start);
  Ends ends = {HL_ARRAY(h->scratch, int32_t, live->n + 2), HL_ARRAY(h->scratch, int32_t, n + 1),
               HL_ARRAY(h->scratch, int32_t, live->n + 2)};
  memset(ends.first, 0xff, sizeof *ends.first * (size_t)(live->n + 2));
  for (int k = 0; k < n_order; k++)
    ends_add(&ends, order[k].range.end, order[k].value);
  int32_t *first_of = HL_ARRAY(h->scratch, int32_t, flow->n_buffers + 1);
  memset(first_of, 0xff, sizeof *first_of * flow->n_buffers);
  bool *freed = HL_ARRAY(h->scratch, bool, n + 1);
  int at = 0;
  for (int64_t time = 0; time <= live->n; time++) {
    for (; at < n_order && order[at].range.start == time; at++) {
      uint32_t value = order[at].value;
      int32_t *first = &first_of[flow->value[value].buffer];
      if (*first >= 0) {
        share(h, value, (uint32_t)*first);
      } else if (!take_over(h, value, time, freed)) {
        allocate(h, value);
        *first = (int32_t)value;
      }
    }
    for (int32_t v = ends.first[time]; v >= 0; v = ends.next[v])
      if (!freed[v]) {
        release(h, (uint32_t)v);
        freed[v] = true;
      }
  }
}

static Heap start(HlArena *scratch, const HlLive *live, const bool *wanted, int64_t alignment) {
  uint32_t n = live->flow->n_values;
  Heap h = {.scratch = scratch, .live = live, .wanted = wanted, .alignment = alignment};
  h.range = hl_arena_copy(scratch, live->range, sizeof *h.range * (n + 1));
  h.interval = HL_ARRAY(scratch, int32_t, n + 1);
  memset(h.interval, 0xff, sizeof *h.interval * n);
  h.group = HL_ARRAY(scratch, uint32_t, n + 1);
  h.group_size = HL_ARRAY(scratch, int64_t, n + 1);
  h.at = HL_ARRAY(scratch, Interval, n + 1);
  h.event = HL_ARRAY(scratch, HlHeapEvent, 2 * (size_t)n + 1);
  start_groups(&h);
  replay(&h);
  for (int k = 0; k < h.n; k++) {  // groups may have grown since
    Interval *leader = &h.at[h.at[k].leader];
    if (leader == &h.at[k]) {
      leader->most = leader->size;
      leader->from = leader->start;
      leader->to = leader->end;
    }
    leader->most = h.at[k].size > leader->most ? h.at[k].size : leader->most;
    leader->from = h.at[k].start < leader->from ? h.at[k].start : leader->from;
    leader->to = h.at[k].end > leader->to ? h.at[k].end : leader->to;
  }
  return h;
}

// --- Placing -------------------------------------------------------------------------------------

typedef struct Chunk {
  int64_t offset, end;
} Chunk;

static int by_offset(const void *a, const void *b) {
  const Chunk *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Placed intervals by start time: a segment tree of the latest end below each node. Each has its chunk of
// memory; chunks are numbered as they are placed, and most are ranked by offset, so that those which a
// query meets come out in order without sorting: they are marked in a set of bits by rank. Only the
// newest have no rank yet.
enum { MAX_FRESH = 256 };
typedef struct Tree {
  int64_t width;      // a power of two above all times
  int64_t *latest;    // 2 * width nodes; -1: nothing
  int32_t *chunk_at;  // by start time
  Chunk *chunk;       // by number
  int n, n_ranked;
  int32_t *rank;  // by number, of the ranked
  Chunk *ranked;
  uint64_t *mark;  // by rank
  Chunk *met;      // what a query found, by offset
  int n_met;
  Chunk fresh[MAX_FRESH];  // unranked ones that the query met
  int n_fresh;
  bool fresh_met[MAX_FRESH];  // by number from n_ranked on
} Tree;

typedef struct Numbered {
  Chunk chunk;  // first, for by_offset
  int32_t number;
} Numbered;

static void rank_chunks(Tree *t, HlArena *arena) {
  HlMark mark = hl_arena_mark(arena);
  Numbered *list = HL_ARRAY(arena, Numbered, t->n + 1);
  for (int k = 0; k < t->n; k++)
    list[k] = (Numbered){t->chunk[k], k};
  qsort(list, (size_t)t->n, sizeof *list, by_offset);
  for (int k = 0; k < t->n; k++) {
    t->rank[list[k].number] = k;
    t->ranked[k] = list[k].chunk;
  }
  t->n_ranked = t->n;
  hl_arena_release(arena, mark);
}

static int add_chunk(Tree *t, HlArena *arena, Chunk chunk) {
  if (t->n - t->n_ranked == MAX_FRESH)
    rank_chunks(t, arena);
  t->chunk[t->n] = chunk;
  return t->n++;
}

static void tree_add(Tree *t, int64_t start, int64_t end, int chunk) {
  t->chunk_at[start] = chunk;
  for (int64_t node = start + t->width; node > 0; node /= 2)
    if (t->latest[node] < end)
      t->latest[node] = end;
}

static void meet(Tree *t, int32_t chunk) {
  if (chunk < t->n_ranked) {
    int32_t rank = t->rank[chunk];
    t->mark[rank / 64] |= 1ull << (rank % 64);
  } else if (!t->fresh_met[chunk - t->n_ranked]) {
    t->fresh_met[chunk - t->n_ranked] = true;
    t->fresh[t->n_fresh++] = t->chunk[chunk];
  }
}

// Marks what was placed for any time of [start, end]; as deep as the tree.
static void walk(Tree *t, int64_t node, int64_t from, int64_t to, int64_t start, int64_t end) {
  while (to - from > 1) {
    int64_t middle = (from + to) / 2;
    bool left = t->latest[2 * node] >= start;
    bool right = middle <= end && t->latest[2 * node + 1] >= start;
    if (left && right)
      walk(t, 2 * node, from, middle, start, end);
    else if (!left && !right)
      return;
    node = right ? 2 * node + 1 : 2 * node;
    *(right ? &from : &to) = middle;
  }
  meet(t, t->chunk_at[from]);
}

// What is in the memory at any time of [start, end]; several such queries add up.
static void tree_overlapping(Tree *t, int64_t start, int64_t end) {
  if (t->latest[1] >= start)
    walk(t, 1, 0, t->width, start, end);
}

// The chunks met, by offset, in t->met; the next query starts anew.
static void collect(Tree *t) {
  qsort(t->fresh, (size_t)t->n_fresh, sizeof *t->fresh, by_offset);
  int fresh = 0, words = (t->n_ranked + 63) / 64;
  t->n_met = 0;
  for (int w = 0; w < words; w++) {
    for (uint64_t bits = t->mark[w]; bits; bits &= bits - 1) {
      Chunk chunk = t->ranked[64 * w + __builtin_ctzll(bits)];
      while (fresh < t->n_fresh && t->fresh[fresh].offset < chunk.offset)
        t->met[t->n_met++] = t->fresh[fresh++];
      t->met[t->n_met++] = chunk;
    }
    t->mark[w] = 0;
  }
  while (fresh < t->n_fresh)
    t->met[t->n_met++] = t->fresh[fresh++];
  t->n_fresh = 0;
  memset(t->fresh_met, 0, sizeof t->fresh_met);
}

static Tree new_tree(HlArena *arena, int64_t times, int intervals) {
  Tree t = {.width = 1};
  while (t.width < times)
    t.width *= 2;
  t.latest = HL_ARRAY(arena, int64_t, 2 * t.width);
  memset(t.latest, 0xff, sizeof *t.latest * (size_t)(2 * t.width));
  t.chunk_at = HL_ARRAY(arena, int32_t, t.width);
  t.chunk = HL_ARRAY(arena, Chunk, intervals + 1);
  t.ranked = HL_ARRAY(arena, Chunk, intervals + 1);
  t.rank = HL_ARRAY(arena, int32_t, intervals + 1);
  t.mark = HL_ARRAY(arena, uint64_t, intervals / 64 + 1);
  t.met = HL_ARRAY(arena, Chunk, 2 * intervals + 1);
  return t;
}

static int64_t align(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// The start of the smallest gap that `most` bytes fit in, among the chunks met; gaps smaller than
// `size` are no gaps.
static int64_t find_gap(const Tree *t, int64_t size, int64_t most, int64_t alignment) {
  int64_t best = -1, best_size = INT64_MAX, free_from = 0;
  for (int k = 0; k < t->n_met;) {
    Chunk run = t->met[k++];
    for (; k < t->n_met && t->met[k].offset < run.end; k++)
      if (t->met[k].end > run.end)
        run.end = t->met[k].end;
    int64_t gap = run.offset - free_from;
    if (gap >= size && gap >= most && gap < best_size) {
      best = free_from;
      best_size = gap;
    }
    int64_t next = align(run.end, alignment);
    free_from = next > free_from ? next : free_from;
  }
  return best >= 0 ? best : free_from;
}

static int by_space(const void *a, const void *b) {
  const Interval *x = *(Interval *const *)a, *y = *(Interval *const *)b;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  if (x->end - x->start != y->end - y->start)
    return x->end - x->start > y->end - y->start ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

static int by_time(const void *a, const void *b) {
  const Interval *x = *(Interval *const *)a, *y = *(Interval *const *)b;
  if (x->to - x->from != y->to - y->from)
    return x->to - x->from > y->to - y->from ? -1 : 1;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

typedef int Compare(const void *, const void *);

// Offsets of all leaders, by interval; the size of the heap.
static int64_t place_all(const Heap *h, Compare *compare, int64_t *offset) {
  HlMark mark = hl_arena_mark(h->scratch);
  Interval **order = HL_ARRAY(h->scratch, Interval *, h->n + 1);
  int n = 0;
  for (int k = 0; k < h->n; k++)
    if (h->at[k].leader == k && h->at[k].size > 0)
      order[n++] = &h->at[k];
  qsort(order, (size_t)n, sizeof *order, compare);
  Tree tree = new_tree(h->scratch, h->now + 1, h->n);
  int64_t size = 0;
  for (int k = 0; k < n; k++) {
    int32_t leader = order[k]->leader;
    base_look();
    for (int32_t j = leader; j >= 0; j = h->at[j].next)
      tree_overlapping(&tree, h->at[j].start, h->at[j].end);
    collect(&tree);
    int64_t at = find_gap(&tree, order[k]->size, order[k]->most, h->alignment);
    offset[leader] = at;
    int chunk = add_chunk(&tree, h->scratch, (Chunk){at, at + order[k]->most});
    for (int32_t j = leader; j >= 0; j = h->at[j].next)
      tree_add(&tree, h->at[j].start, h->at[j].end, chunk);
    size = at + order[k]->most > size ? at + order[k]->most : size;
  }
  hl_arena_release(h->scratch, mark);
  return size;
}

// --- The peak ------------------------------------------------------------------------------------

typedef struct Peak {
  int64_t *bytes;   // by value
  int32_t *holds;   // by value: how many values hold the place it was the first to have
  uint32_t *first;  // by value: the first to have its place
} Peak;

// Bytes in use after an event, less those before.
static int64_t step(Peak *p, const HlHeapEvent *e) {
  int64_t bytes = p->bytes[e->value];
  if (e->kind == HL_HEAP_FREE)
    return --p->holds[p->first[e->value]] == 0 ? -bytes : 0;
  p->first[e->value] = e->kind == HL_HEAP_SHARE ? e->with : e->value;
  return p->holds[p->first[e->value]]++ == 0 ? bytes : 0;
}

// The values there after the event with which the use is greatest first, one for each place.
static void find_peak(const Heap *h, HlArena *arena, HeapResult *r) {
  uint32_t n = h->live->flow->n_values;
  Peak p = {HL_ARRAY(h->scratch, int64_t, n + 1), HL_ARRAY(h->scratch, int32_t, n + 1),
            HL_ARRAY(h->scratch, uint32_t, n + 1)};
  for (int k = 0; k < r->n; k++)
    p.bytes[r->place[k].value] = r->place[k].size;
  int64_t sum = 0, most = 0;
  int end = 0;
  for (int k = 0; k < h->n_events; k++) {
    sum += step(&p, &h->event[k]);
    if (sum > most) {
      most = sum;
      end = k + 1;
    }
  }
  bool *there = HL_ARRAY(h->scratch, bool, n + 1), *listed = HL_ARRAY(h->scratch, bool, n + 1);
  for (int k = 0; k < end; k++)
    there[h->event[k].value] = h->event[k].kind != HL_HEAP_FREE;
  r->peak = HL_ARRAY(arena, uint32_t, h->n + 1);
  for (uint32_t v = 0; v < n; v++)
    if (there[v] && !listed[p.first[v]]) {
      listed[p.first[v]] = true;
      r->peak[r->n_peak++] = v;
    }
}

HeapResult heap_place(HlArena *arena, const HlLive *live, const bool *wanted, int64_t alignment) {
  HlArena *scratch = hl_arena_new();
  Heap h = start(scratch, live, wanted, alignment);
  int64_t *spatial = HL_ARRAY(scratch, int64_t, h.n + 1);
  int64_t *temporal = HL_ARRAY(scratch, int64_t, h.n + 1);
  int64_t size = place_all(&h, by_space, spatial), size2 = place_all(&h, by_time, temporal);
  HeapResult result = {
      .size = size <= size2 ? size : size2, .place = HL_ARRAY(arena, HlPlace, h.n + 1), .n = h.n};
  for (int k = 0; k < h.n; k++) {
    const Interval *leader = &h.at[h.at[k].leader];
    bool empty = h.at[k].size == 0;
    result.place[k] =
        (HlPlace){h.at[k].value, empty ? 0 : (size <= size2 ? spatial : temporal)[h.at[k].leader],
                  empty ? 0 : leader->most};
  }
  result.event = hl_arena_copy(arena, h.event, sizeof *h.event * (size_t)h.n_events);
  result.n_events = h.n_events;
  find_peak(&h, arena, &result);
  hl_arena_free(scratch);
  return result;
}

int64_t hl_minimum_memory(HlArena *arena, const HlLive *live) {
  HlMark mark = hl_arena_mark(arena);
  HlArena *scratch = hl_arena_new();
  bool *wanted = HL_ARRAY(arena, bool, live->flow->n_values + 1);
  for (uint32_t v = 0; v < live->flow->n_values; v++)
    wanted[v] = hl_value_inst(live->flow, v)->op != HL_OP_CONSTANT;
  int64_t peak = start(scratch, live, wanted, 1).peak_bytes;
  hl_arena_free(scratch);
  hl_arena_release(arena, mark);
  return peak;
}
