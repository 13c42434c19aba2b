// rewrite/features/features.c: a module as arrays, in one block of memory (hilo/features.h).
//
// First everything is counted, so that the block is laid out once; then nodes are written in their order, and edges, which
// need every node's place. An operand that stands several times is one edge, and so is a user.

#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/edit.h"
#include "rewrite/features/features.h"

enum { DIMS = HL_FEATURE_DIMS, ALIGN = 64 };

const HlFeatureInfo hl_feature_info[HL_FEATURE_COUNT] = {
#define FEATURE(group, name, type, dtype, per, width) \
  {#group, #name, dtype, HL_PER_##per, width, (int)sizeof(type)},
    HL_FEATURES(FEATURE)
#undef FEATURE
};

// Twice the serial, so that there is room for the odd numbers of `alternatives`.
int64_t hl_uid(const HlInst *inst) {
  const int64_t own = (int64_t)inst->serial * 2;
  return inst->op == HL_OP_ALTERNATIVES ? own + HL_UID_ALTERNATIVES + 1 : own;
}

// An edge that inlining adds.
typedef struct Extra {
  int32_t from, to;
} Extra;

typedef struct Graph {
  HlArena *arena;
  const HlModule *m;
  HlFeatures *f;
  HlComp **comp;        // by gid
  int32_t *gid;         // by id of the computation
  int32_t **node_of;    // by its id and the instruction's
  const HlInst **inst;  // by node
  int32_t *seen;        // by node: 1 + the node whose edges have met it
  int64_t n_nodes;
  bool inlines;
  bool *is_inlined;  // by node: edges lead into what it calls
  Extra *extra;      // by `to`, and again by `from`, each in order
  int64_t n_extra;
  int64_t *first_to, *first_from;  // by node: where its ones begin
  int64_t *by_from;                // numbers of extra edges
} Graph;

static int32_t node_of(const Graph *g, const HlInst *inst) {
  return g->node_of[inst->comp->id][inst->id];
}

// --- Nodes --------------------------------------------------------------------------------------

static void order_nodes(Graph *g) {
  const HlModule *m = g->m;
  HlComp **order = hl_comp_order(g->arena, m);
  g->comp = HL_ARRAY(g->arena, HlComp *, m->n_comps + 1);
  g->gid = HL_ARRAY(g->arena, int32_t, m->next_comp_id + 1);
  g->node_of = HL_ARRAY(g->arena, int32_t *, m->next_comp_id + 1);
  g->inst = HL_ARRAY(g->arena, const HlInst *, g->n_nodes + 1);
  g->seen = HL_ARRAY(g->arena, int32_t, g->n_nodes + 1);
  int32_t n = 0;
  for (uint32_t k = 0; k < m->n_comps; k++) {
    HlComp *comp = g->comp[k] = order[m->n_comps - 1 - k];
    int32_t *node = HL_ARRAY(g->arena, int32_t, comp->next_id + 1);
    const HlMark mark = hl_arena_mark(g->arena);
    HlInst **insts = hl_post_order(g->arena, comp);
    g->gid[comp->id] = (int32_t)k;
    g->node_of[comp->id] = node;
    for (uint32_t i = 0; i < comp->n_insts; i++) {
      node[insts[i]->id] = n;
      g->inst[n++] = insts[i];
    }
    hl_arena_release(g->arena, mark);
  }
}

// --- Inlining -----------------------------------------------------------------------------------

// Whether parameters of what an instruction calls stand for its operands one by one.
static bool can_inline(const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_FUSION:
  case HL_OP_CALL:
  case HL_OP_MAP:
  case HL_OP_WHILE:
  case HL_OP_CONDITIONAL:
  case HL_OP_ASYNC_START: return inst->n_calls > 0;
  default: return false;
  }
}

// Of a conditional the first operand chooses, and each branch has one of its own.
static const HlInst *operand_of_param(const HlInst *inst, int call, int param) {
  const int k = inst->op == HL_OP_CONDITIONAL ? call + 1 : param;
  return k < (int)inst->n_operands ? inst->operands[k] : NULL;
}

static void add_extra(Graph *g, const HlInst *from, const HlInst *to) {
  if (g->extra)
    g->extra[g->n_extra] = (Extra){node_of(g, from), node_of(g, to)};
  g->n_extra++;
}

static void find_extra(Graph *g) {
  g->n_extra = 0;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const HlInst *inst = g->inst[k];
    if (!can_inline(inst))
      continue;
    g->is_inlined[k] = true;
    for (int c = 0; c < inst->n_calls; c++) {
      const HlComp *comp = inst->calls[c].comp;
      for (int p = 0; p < comp->n_params; p++)
        if (comp->params[p] && operand_of_param(inst, c, p))
          add_extra(g, operand_of_param(inst, c, p), comp->params[p]);
      if (inst->op == HL_OP_CONDITIONAL && c == 0)
        add_extra(g, inst->operands[0], inst);
      if (comp->root)
        add_extra(g, comp->root, inst);
    }
  }
}

// Where those of each node begin, counted by one end.
static int64_t *starts(Graph *g, bool by_from) {
  int64_t *first = HL_ARRAY(g->arena, int64_t, g->n_nodes + 2);
  for (int64_t k = 0; k < g->n_extra; k++)
    first[(by_from ? g->extra[k].from : g->extra[k].to) + 1]++;
  for (int64_t k = 0; k < g->n_nodes; k++)
    first[k + 1] += first[k];
  return first;
}

static void sort_extra(Graph *g) {
  Extra *sorted = HL_ARRAY(g->arena, Extra, g->n_extra + 1);
  g->first_to = starts(g, false);
  int64_t *next = hl_arena_copy(g->arena, g->first_to, sizeof *next * (size_t)(g->n_nodes + 1));
  for (int64_t k = 0; k < g->n_extra; k++)
    sorted[next[g->extra[k].to]++] = g->extra[k];
  g->extra = sorted;
  g->first_from = starts(g, true);
  g->by_from = HL_ARRAY(g->arena, int64_t, g->n_extra + 1);
  next = hl_arena_copy(g->arena, g->first_from, sizeof *next * (size_t)(g->n_nodes + 1));
  for (int64_t k = 0; k < g->n_extra; k++)
    g->by_from[next[sorted[k].from]++] = k;
}

static void inline_calls(Graph *g) {
  g->is_inlined = HL_ARRAY(g->arena, bool, g->n_nodes + 1);
  find_extra(g);
  g->extra = HL_ARRAY(g->arena, Extra, g->n_extra + 1);
  find_extra(g);
  sort_extra(g);
}

// --- Edges as lists -------------------------------------------------------------------------------

// Whether the edges of `node` meet `other` for the first time.
static bool meets(Graph *g, int64_t node, int32_t other) {
  if (g->seen[other] == node + 1)
    return false;
  g->seen[other] = (int32_t)node + 1;
  return true;
}

static void forget_meetings(Graph *g) {
  memset(g->seen, 0, sizeof *g->seen * (size_t)g->n_nodes);
}

// The nodes that a node reads, each once; `out` NULL: only how many.
static int64_t sources(Graph *g, int64_t node, uint64_t *out) {
  const HlInst *inst = g->inst[node];
  int64_t n = 0;
  for (uint32_t k = 0; k < inst->n_operands && !(g->inlines && g->is_inlined[node]); k++) {
    const int32_t from = node_of(g, inst->operands[k]);
    if (inst->n_operands == 1 || meets(g, node, from)) {
      if (out)
        out[n] = (uint64_t)from;
      n++;
    }
  }
  for (int64_t k = g->inlines ? g->first_to[node] : 0; g->inlines && k < g->first_to[node + 1]; k++)
    if (meets(g, node, g->extra[k].from)) {
      if (out)
        out[n] = (uint64_t)g->extra[k].from;
      n++;
    }
  return n;
}

static int64_t users(Graph *g, int64_t node, uint64_t *out) {
  const HlInst *inst = g->inst[node];
  const HlUse *only = inst->first_use == inst->last_use ? inst->first_use : NULL;
  int64_t n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const int32_t to = node_of(g, use->user);
    if (g->inlines && g->is_inlined[to])
      continue;
    if (only || meets(g, node, to)) {
      if (out)
        out[n] = (uint64_t)to;
      n++;
    }
  }
  for (int64_t k = g->inlines ? g->first_from[node] : 0; g->inlines && k < g->first_from[node + 1];
       k++) {
    const int32_t to = g->extra[g->by_from[k]].to;
    if (meets(g, node, to)) {
      if (out)
        out[n] = (uint64_t)to;
      n++;
    }
  }
  return n;
}

// --- The block ----------------------------------------------------------------------------------

static void count_edges(Graph *g) {
  int64_t *n = g->f->n;
  for (int64_t k = 0; k < g->n_nodes; k++)
    n[HL_PER_IN_EDGE] += sources(g, k, NULL);
  n[HL_PER_OUT_EDGE] = n[HL_PER_IN_EDGE];
  if (!g->inlines)
    return;
  forget_meetings(g);
  n[HL_PER_OUT_EDGE] = 0;
  for (int64_t k = 0; k < g->n_nodes; k++)
    n[HL_PER_OUT_EDGE] += users(g, k, NULL);
}

static int n_attrs(const HlInst *inst) {
  const int opcode = hl_feature_opcode((HlOp)inst->op);
  return opcode >= HL_FEATURE_OPCODES || inst->op == HL_OP_SET_DIMENSION_SIZE
             ? 0
             : hl_feature_opcode_attrs[2 * opcode] + hl_feature_opcode_attrs[2 * opcode + 1];
}

static void count(Graph *g) {
  int64_t *n = g->f->n;
  memset(n, 0, sizeof g->f->n);
  n[HL_PER_NODE] = g->n_nodes;
  n[HL_PER_NODE_AND_ONE] = g->n_nodes + 1;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const HlInst *inst = g->inst[k];
    n[HL_PER_ALTERNATIVES] += inst->op == HL_OP_ALTERNATIVES;
    n[HL_PER_ATTRIBUTE] += n_attrs(inst);
    n[HL_PER_NAME_BYTE] += inst->name->n;
  }
  count_edges(g);
}

static size_t round_up(size_t n) {
  return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// Memory for all arrays: what there is, if it is enough. The contents are written anew.
static void lay_out(Graph *g) {
  HlFeatures *f = g->f;
  size_t at = 0;
  for (int k = 0; k < HL_FEATURE_COUNT; k++) {
    f->offset[k] = at;
    at = round_up(at + (size_t)hl_feature_length(f, k) * (size_t)hl_feature_info[k].bytes);
  }
  const size_t insts = at;
  f->bytes = at + sizeof *f->inst * (size_t)(g->n_nodes + 1);
  if (f->bytes > f->capacity) {
    base_free(f->block);
    f->block = NULL;
    f->capacity = 0;
    f->block = base_alloc(f->bytes);
    f->capacity = f->bytes;
  }
#define FEATURE(group, name, type, ...) \
  f->group##_##name = (type *)(void *)(f->block + f->offset[HL_FEATURE_##group##_##name]);
  HL_FEATURES(FEATURE)
#undef FEATURE
  f->inst = (const HlInst **)(void *)(f->block + insts);
  memcpy(f->inst, g->inst, sizeof *f->inst * (size_t)g->n_nodes);
}

// --- Writing --------------------------------------------------------------------------------------

static bool write_nodes(HlCx *cx, Graph *g) {
  HlFeatures *f = g->f;
  int64_t attr = 0, alternatives = 0;
  uint32_t name = 0;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const HlInst *inst = g->inst[k];
    const HlComp *comp = inst->comp;
    const int32_t gid = g->gid[comp->id];
    const int64_t uid = hl_uid(inst);
    if (uid > INT32_MAX)
      return hl_error_kind(
          cx, HL_LIMIT, hl_pos(inst),
          "too many instructions were made: the number of '%s' takes more than 31 bits",
          inst->name->text);
    f->node_uids[k] = (int32_t)uid;
    f->node_gids[k] = (uint64_t)gid;
    f->node_fused_comp_ids[k] = inst->n_calls > 0 ? (uint64_t)g->gid[inst->calls[0].comp->id] : 0;
    f->node_opcodes[k] = hl_feature_opcode((HlOp)inst->op);
    int numbers = 0, slots = 0;
    if (n_attrs(inst) > 0)
      features_attrs(inst, f->node_opcode_attrs + attr, &numbers, &slots);
    attr += numbers + slots;
    f->node_num_opcode_attrs[2 * k] = numbers;
    f->node_num_opcode_attrs[2 * k + 1] = slots;
    f->node_is_alternative[k] = inst->op == HL_OP_ALTERNATIVES;
    if (inst->op == HL_OP_ALTERNATIVES)
      f->graph_alternative_indices[alternatives++] = (int32_t)k;
    f->node_is_in_fusion[k] = comp->is_fusion;
    f->node_normalized_num_group_inst[k] = gid > 0 ? 1.0f / (float)comp->n_insts : 0;
    f->node_name_offsets[k] = name;
    memcpy(f->node_name_bytes + name, inst->name->text, inst->name->n);
    name += inst->name->n;
  }
  f->node_name_offsets[g->n_nodes] = name;
  return true;
}

// What is inlined counts as of the computation that it calls last.
static void move_callers(Graph *g) {
  HlFeatures *f = g->f;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const HlInst *inst = g->inst[k];
    for (int c = 0; g->is_inlined[k] && c < inst->n_calls; c++) {
      const HlComp *comp = inst->calls[c].comp;
      f->node_gids[k] = (uint64_t)g->gid[comp->id];
      if (f->node_normalized_num_group_inst[k] == 0)
        f->node_normalized_num_group_inst[k] = 1.0f / (float)comp->n_insts;
    }
  }
}

// The arrays of edges of one direction.
typedef struct Edges {
  int64_t *uids;
  int32_t *srcs, *dsts;
  int64_t *dims, *layouts, *lehmercodes;
  uint8_t *types;
  int32_t *dtypes;
} Edges;

// Dimensions and layout of a shape; how many elements HloEnv takes it to have.
static int64_t write_shape(const HlShape *shape, int64_t *dims, int64_t *layout, int64_t *lehmer) {
  const int rank = !hl_shape_is_array(shape) ? 0 : shape->rank < DIMS ? shape->rank : DIMS;
  const HlI64s order = shape->layout && rank > 0 ? shape->layout->minor_to_major : (HlI64s){0};
  uint64_t product = 1;
  for (int k = 0; k < DIMS; k++) {
    dims[k] = k < rank ? shape->dim[k] : -1;
    layout[k] = k >= rank ? -1 : k < order.n ? order.at[k] : shape->rank - 1 - k;
    product *= (uint64_t)dims[k];
    lehmer[k] = 0;
    for (int i = 0; i < k && k < rank; i++)
      lehmer[k] += layout[i] > layout[k];
  }
  const int64_t n = (int64_t)product;
  return n == INT64_MIN ? INT64_MAX : n < 0 ? -n : n;
}

// An edge of a value from one node to another; how many elements go along it.
static int64_t write_edge(Graph *g, const Edges *e, int64_t at, int64_t from, int64_t to) {
  const HlFeatures *f = g->f;
  const HlShape *shape = g->inst[from]->shape;
  e->uids[at] = (int64_t)f->node_uids[from] << 32 | f->node_uids[to];
  e->srcs[at] = (int32_t)from;
  e->dsts[at] = (int32_t)to;
  e->types[at] = f->node_gids[from] != f->node_gids[to] ? 2 : f->node_gids[from] > 0;
  e->dtypes[at] = hl_dtype_info[shape->dtype].proto;
  return write_shape(shape, e->dims + at * DIMS, e->layouts + at * DIMS,
                     e->lehmercodes + at * DIMS);
}

static void write_in_edges(Graph *g) {
  HlFeatures *f = g->f;
  const Edges e = {f->in_edge_uids,    f->in_edge_srcs,        f->in_edge_dsts,  f->in_edge_dims,
                   f->in_edge_layouts, f->in_edge_lehmercodes, f->in_edge_types, f->in_edge_dtypes};
  int64_t at = 0;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const int64_t n = sources(g, k, f->graph_in_edge_indices + at);
    uint64_t elements = 0;
    f->graph_in_edge_offsets[k] = (uint64_t)at;
    f->node_num_operands[k] = (int32_t)n;
    for (int64_t end = at + n; at < end; at++)
      elements += (uint64_t)write_edge(g, &e, at, (int64_t)f->graph_in_edge_indices[at], k);
    f->node_in_tensor_sizes[k] = (int64_t)elements;
  }
  f->graph_in_edge_offsets[g->n_nodes] = (uint64_t)at;
}

static void write_out_edges(Graph *g) {
  HlFeatures *f = g->f;
  const Edges e = {f->out_edge_uids,  f->out_edge_srcs,    f->out_edge_dsts,
                   f->out_edge_dims,  f->out_edge_layouts, f->out_edge_lehmercodes,
                   f->out_edge_types, f->out_edge_dtypes};
  int64_t at = 0;
  for (int64_t k = 0; k < g->n_nodes; k++) {
    const int64_t n = users(g, k, f->graph_out_edge_indices + at);
    uint64_t elements = 0;
    f->graph_out_edge_offsets[k] = (uint64_t)at;
    f->node_num_users[k] = (int32_t)n;
    for (int64_t end = at + n; at < end; at++)
      elements += (uint64_t)write_edge(g, &e, at, k, (int64_t)f->graph_out_edge_indices[at]);
    f->node_out_tensor_sizes[k] = (int64_t)elements;
  }
  f->graph_out_edge_offsets[g->n_nodes] = (uint64_t)at;
}

static void mark_greatest(const int64_t *size, uint8_t *out, int64_t n) {
  int64_t most = INT64_MIN;
  for (int64_t k = 0; k < n; k++)
    most = size[k] > most ? size[k] : most;
  for (int64_t k = 0; k < n; k++)
    out[k] = size[k] == most;
}

static bool fill(HlCx *cx, Graph *g) {
  g->n_nodes = hl_count_instructions(g->m);
  if (g->n_nodes >= INT32_MAX)
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0},
                         "the module has too many instructions for features");
  order_nodes(g);
  if (g->inlines)
    inline_calls(g);
  count(g);
  lay_out(g);
  if (!write_nodes(cx, g))
    return false;
  if (g->inlines)
    move_callers(g);
  forget_meetings(g);
  write_in_edges(g);
  forget_meetings(g);
  write_out_edges(g);
  mark_greatest(g->f->node_in_tensor_sizes, g->f->node_has_max_in_tensor, g->n_nodes);
  mark_greatest(g->f->node_out_tensor_sizes, g->f->node_has_max_out_tensor, g->n_nodes);
  return true;
}

bool hl_features_fill(HlCx *cx, const HlModule *m, const HlFeatureOptions *options,
                      HlFeatures *out) {
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  Graph g = {.arena = arena, .m = m, .f = out, .inlines = options && options->inline_fused_comp};
  const bool ok = fill(cx, &g);
  hl_arena_release(arena, mark);
  return ok;
}

void hl_features_free(HlFeatures *features) {
  base_free(features->block);
  *features = (HlFeatures){0};
}
