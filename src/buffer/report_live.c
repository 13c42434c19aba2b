// buffer/report_live.c: the report on live ranges, as XLA dumps it: the flattened schedule, the range of each
// value, what is alive where most is, and where in the program that comes from.

#include <stdlib.h>
#include <string.h>

#include "hilo/buffers.h"
#include "ir/put.h"

// --- The peak ------------------------------------------------------------------------------------

// The first time at which the values alive take the most bytes. As in XLA each value counts with the
// whole shape of the instruction that defines it.
static int64_t peak_time(HlArena *arena, const HlLive *live) {
  const HlFlow *flow = live->flow;
  int64_t *delta = HL_ARRAY(arena, int64_t, live->n + 3);
  for (uint32_t v = 0; v < flow->n_values; v++) {
    if (live->range[v].start < 0)
      continue;
    int64_t bytes = hl_shape_buffer_bytes(hl_value_inst(flow, v)->shape, 8);
    delta[live->range[v].start] += bytes;
    delta[live->range[v].end + 1] -= bytes;
  }
  // XLA adds what starts at a time before it takes off what ended before it.
  int64_t *starting = HL_ARRAY(arena, int64_t, live->n + 3);
  for (uint32_t v = 0; v < flow->n_values; v++)
    if (live->range[v].start >= 0)
      starting[live->range[v].start] += hl_shape_buffer_bytes(hl_value_inst(flow, v)->shape, 8);
  int64_t usage = 0, most = 0, peak = 0;
  for (int64_t time = 0; time <= live->n + 1; time++) {
    if (usage + starting[time] > most) {
      most = usage + starting[time];
      peak = time;
    }
    usage += delta[time];
  }
  return peak;
}

typedef struct Alive {
  int64_t bytes;
  uint32_t value;
  const char *name;
  HlI64s index;
} Alive;

static int by_bytes(const void *a, const void *b) {
  const Alive *x = a, *y = b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  int order = strcmp(x->name, y->name);
  for (int k = 0; order == 0 && k < x->index.n && k < y->index.n; k++)
    order = x->index.at[k] < y->index.at[k] ? -1 : x->index.at[k] > y->index.at[k];
  return order != 0 ? order : x->index.n - y->index.n;
}

static Alive *find_alive(HlArena *arena, const HlLive *live, int64_t time, int *n) {
  const HlFlow *flow = live->flow;
  Alive *list = HL_ARRAY(arena, Alive, flow->n_values + 1);
  *n = 0;
  for (uint32_t v = 0; v < flow->n_values; v++)
    if (live->range[v].start >= 0 && live->range[v].start <= time && time <= live->range[v].end)
      list[(*n)++] = (Alive){hl_value_bytes(flow, v), v, hl_value_inst(flow, v)->name->text,
                             hl_slot_index(arena, flow, flow->value[v].slot)};
  qsort(list, (size_t)*n, sizeof *list, by_bytes);
  return list;
}

// --- Where it comes from -------------------------------------------------------------------------

// The path of names to a value: computations and the instructions that call them, from the entry on. A
// computation with several callers counts at the first.
typedef struct Path {
  const char **part;
  int n;
  int64_t bytes;
} Path;
enum { MAX_PATH = 200 };

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *push_word(HlArena *arena, const char *text, const char **part, int *n) {
  const char *end = text;
  while (is_word(*end))
    end++;
  if (*n < MAX_PATH)
    part[(*n)++] = hl_arena_strndup(arena, text, (size_t)(end - text));
  return end;
}

static void push_key(HlArena *arena, const char *text, const char *end, const char **part, int *n) {
  for (;;) {
    const char *slash = memchr(text, '/', (size_t)(end - text));
    const char *stop = slash ? slash : end;
    if (*n < MAX_PATH)
      part[(*n)++] = hl_arena_strndup(arena, text, (size_t)(stop - text));
    if (!slash)
      return;
    text = slash + 1;
  }
}

// "params['layer/w'].value" as params, layer, w, value; anything else whole.
static int split_name(HlArena *arena, const char *name, const char **part) {
  int n = 0;
  bool keys = false;
  const char *at = name;
  if (is_word(*at) && !(*at >= '0' && *at <= '9'))
    at = push_word(arena, at, part, &n);
  while (n > 0) {
    const char *end = at[0] == '[' && at[1] == '\'' ? strchr(at + 2, '\'') : NULL;
    if (end && end > at + 2 && end[1] == ']') {
      push_key(arena, at + 2, end, part, &n);
      keys = true;
      at = end + 2;
    } else if (at[0] == '.' && is_word(at[1])) {
      at = push_word(arena, at + 1, part, &n);
    } else {
      break;
    }
  }
  if (*at == '\0' && keys)
    return n;
  part[0] = name;
  return 1;
}

static const char *name_of(const HlInst *inst) {
  const HlMetadata *metadata = hl_metadata(inst);
  return metadata && metadata->op_name && metadata->op_name->n > 0 ? metadata->op_name->text
                                                                   : inst->name->text;
}

static Path path_to(HlArena *arena, const Alive *alive, const HlFlow *flow) {
  const char *piece[MAX_PATH], *reversed[2 * MAX_PATH];
  int n = 0;
  for (const HlInst *inst = hl_value_inst(flow, alive->value); inst && n < MAX_PATH;) {
    int pieces = split_name(arena, name_of(inst), piece);
    for (int k = pieces - 1; k >= 0 && n < MAX_PATH; k--)
      reversed[n++] = piece[k];
    reversed[n++] = inst->comp->name->text;
    inst = inst->comp->first_call ? inst->comp->first_call->caller : NULL;
  }
  if (alive->index.n > 0) {
    HlBuf text = {0};
    hl_buf_puts(&text, reversed[0]);
    put_braced(&text, alive->index);
    reversed[0] = hl_arena_strndup(arena, text.at, text.n);
    hl_buf_free(&text);
  }
  Path path = {HL_ARRAY(arena, const char *, n), n, alive->bytes};
  for (int k = 0; k < n; k++)
    path.part[k] = reversed[n - 1 - k];
  return path;
}

static int by_path(const void *a, const void *b) {
  const Path *x = a, *y = b;
  for (int k = 0; k < x->n && k < y->n; k++) {
    int order = strcmp(x->part[k], y->part[k]);
    if (order != 0)
      return order;
  }
  return x->n - y->n;
}

typedef struct Node {
  const char *name;
  int64_t total, own;
  int first, next;  // child, sibling; -1: none
} Node;

typedef struct Tree {
  HlBuf *out;
  HlArena *arena;
  Node *node;
  int n;
  int64_t total, left;
} Tree;

static int add_node(Tree *t, int parent, const char *name) {
  t->node[t->n] = (Node){name, 0, 0, -1, parent >= 0 ? t->node[parent].first : -1};
  if (parent >= 0)
    t->node[parent].first = t->n;
  return t->n++;
}

// Paths in order share their beginnings with their predecessors.
static void grow(Tree *t, const Path *path, int n) {
  int at[MAX_PATH + 2];
  at[0] = add_node(t, -1, "");
  int depth = 0;
  for (int k = 0; k < n; k++) {
    int same = 0;
    while (k > 0 && same < depth && same < path[k].n &&
           strcmp(path[k].part[same], path[k - 1].part[same]) == 0)
      same++;
    for (depth = same; depth < path[k].n; depth++)
      at[depth + 1] = add_node(t, at[depth], path[k].part[depth]);
    t->node[at[depth]].own += path[k].bytes;
    for (int j = 0; j <= depth; j++)
      t->node[at[j]].total += path[k].bytes;
  }
}

static void print_spaced(HlBuf *out, int64_t bytes) {
  char digits[32];
  HlBuf text = {0};
  hl_buf_i64(&text, bytes);
  memcpy(digits, text.at, text.n + 1);
  for (size_t k = 0; k < text.n; k++) {
    if (k > 0 && (text.n - k) % 3 == 0)
      hl_buf_putc(out, ' ');
    hl_buf_putc(out, digits[k]);
  }
  hl_buf_free(&text);
}

static int by_total(const void *a, const void *b) {
  const Node *x = *(const Node *const *)a, *y = *(const Node *const *)b;
  if (x->total != y->total)
    return x->total > y->total ? -1 : 1;
  return strcmp(x->name, y->name);
}

static void print_node(Tree *t, const Node *node, const char *prefix, bool first_level, bool last) {
  t->left -= node->own;
  hl_buf_puts(t->out, prefix);
  hl_buf_puts(t->out, first_level ? "  " : last ? "\u2514\u2500\u2500 " : "\u251c\u2500\u2500 ");
  hl_buf_printf(t->out, "%s (%.1f%%, total: ", node->name,
                t->total > 0 ? 100.0 * (double)node->total / (double)t->total : 0.0);
  print_spaced(t->out, node->total);
  hl_buf_puts(t->out, " bytes, current: ");
  print_spaced(t->out, node->own);
  hl_buf_puts(t->out, " bytes, remaining: ");
  print_spaced(t->out, t->left);
  hl_buf_puts(t->out, " bytes)\n");
}

static void print_children(Tree *t, const Node *node, const char *prefix, bool first_level) {
  int n = 0;
  for (int k = node->first; k >= 0; k = t->node[k].next)
    n += t->node[k].total > 0;
  HlMark mark = hl_arena_mark(t->arena);
  const Node **child = HL_ARRAY(t->arena, const Node *, n + 1);
  n = 0;
  for (int k = node->first; k >= 0; k = t->node[k].next)
    if (t->node[k].total > 0)
      child[n++] = &t->node[k];
  qsort(child, (size_t)n, sizeof *child, by_total);
  for (int k = 0; k < n; k++) {
    bool last = k == n - 1;
    print_node(t, child[k], prefix, first_level, last);
    print_children(t, child[k],
                   hl_arena_printf(t->arena, "%s%s", prefix, last ? "    " : "\u2502   "), false);
  }
  hl_arena_release(t->arena, mark);
}

static void print_origins(HlBuf *out, HlArena *arena, const HlFlow *flow, const Alive *alive,
                          int n) {
  Path *path = HL_ARRAY(arena, Path, n + 1);
  int nodes = 1;
  Tree tree = {.out = out, .arena = arena};
  for (int k = 0; k < n; k++) {
    path[k] = path_to(arena, &alive[k], flow);
    nodes += path[k].n;
    tree.total += alive[k].bytes;
  }
  qsort(path, (size_t)n, sizeof *path, by_path);
  tree.node = HL_ARRAY(arena, Node, nodes);
  tree.left = tree.total;
  grow(&tree, path, n);
  hl_buf_puts(out, "  Stack trace breakdown for peak usage: ");
  print_spaced(out, tree.total);
  hl_buf_puts(out, " bytes\n");
  print_children(&tree, &tree.node[0], "  ", true);
}

// --- The report ----------------------------------------------------------------------------------

void hl_buffers_print_live(HlBuf *out, const HlBuffers *buffers) {
  const HlLive *live = buffers->live;
  const HlFlow *flow = live->flow;
  HlArena *arena = hl_arena_new();
  hl_buf_printf(out, "HloLiveRange (max %lld):\n  InstructionSequence:\n", (long long)live->n);
  for (int64_t k = 0; k < live->n; k++)
    hl_buf_printf(out, "    %lld:%s\n", (long long)k, live->sequence[k]->name->text);
  hl_buf_puts(out, "  BufferLiveRange:\n");
  for (uint32_t v = 0; v < flow->n_values; v++) {
    if (live->range[v].start < 0)
      continue;
    hl_buf_printf(out, "    %s", hl_value_inst(flow, v)->name->text);
    HlMark mark = hl_arena_mark(arena);
    put_braced(out, hl_slot_index(arena, flow, flow->value[v].slot));
    hl_arena_release(arena, mark);
    hl_buf_printf(out, ":%lld-%lld\n", (long long)live->range[v].start,
                  (long long)live->range[v].end);
  }
  int64_t peak = peak_time(arena, live), sum = 0;
  int n;
  const Alive *alive = find_alive(arena, live, peak, &n);
  hl_buf_printf(out, "  Live ranges at %lld (peak):\n", (long long)peak);
  for (int k = 0; k < n; k++) {
    sum += alive[k].bytes;
    hl_buf_printf(out, "    %s", alive[k].name);
    put_braced(out, alive[k].index);
    hl_buf_printf(out, ": %lld bytes (cumulative: %lld bytes)\n", (long long)alive[k].bytes,
                  (long long)sum);
  }
  print_origins(out, arena, flow, alive, n);
  hl_arena_free(arena);
}
