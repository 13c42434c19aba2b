// tool/diff/graph.c: a module as a graph of values.
//
// Every call of a computation is a frame of its own, so that an instruction of a computation that is called twice is two
// nodes, each with what it gets and who uses it there. A fusion or a call computes nothing by itself: its value is that of
// the root of its computation, whose parameters are the caller's operands. The same holds for an element of a tuple made
// on the spot. Such nodes are wires: edges go through them. Hence what is fused or inlined in one module and not in
// another looks the same.

#include "hilo/custom_calls.h"
#include "tool/diff/diff.h"

#include <string.h>

// --- Nodes ----------------------------------------------------------------------------------------

typedef VEC(DiffNode) Nodes;
typedef VEC(DiffFrame) Frames;
typedef VEC(int) Ints;

typedef struct Builder {
  HlCx *cx;
  DiffSide *side;
  Nodes nodes;
  Frames frames;
  Ints call, first_call;
  int *shared;    // by computation: a frame that stands for all further calls; DIFF_NONE
  int64_t limit;  // of nodes: beyond, calls are not opened any more
} Builder;

// Whether what is called is a part of the caller rather than a function that it runs by itself.
static bool opens(const HlInst *caller) {
  return caller->n_calls == 1 && (caller->op == HL_OP_FUSION || caller->op == HL_OP_CALL ||
                                  caller->op == HL_OP_ASYNC_START);
}

static int add_frame(Builder *b, const HlComp *comp, int number) {
  const DiffFrame frame = {.comp = comp,
                           .caller = DIFF_NONE,
                           .number = number,
                           .node = HL_ARRAY(b->side->arena, int, comp->next_id + 1)};
  memset(frame.node, 0xff, sizeof(int) * (comp->next_id + 1));
  vec_push_in(b->side->arena, &b->frames, frame);
  return b->frames.n - 1;
}

static bool fill_frame(Builder *b, int frame, int depth);

// The frame of a call: a new one, or beyond the limit the one that all share.
static int open_call(Builder *b, const HlInst *inst, int number, int depth) {
  const HlComp *comp = inst->calls[number].comp;
  const bool is_full = b->nodes.n + (int64_t)comp->n_insts > b->limit;
  if (is_full && b->shared[comp->id] != DIFF_NONE)
    return b->shared[comp->id];
  const int frame = add_frame(b, comp, number);
  b->frames.at[frame].opens = opens(inst) && !is_full;
  if (b->shared[comp->id] == DIFF_NONE)
    b->shared[comp->id] = frame;
  return fill_frame(b, frame, depth + 1) ? frame : DIFF_NONE;
}

// Calls nest no deeper than the limit on nesting.
static bool fill_frame(Builder *b, int frame, int depth) {
  const HlComp *comp = b->frames.at[frame].comp;
  if (depth > hl_cx_limits(b->cx)->nesting)
    return hl_error_kind(b->cx, HL_LIMIT, hl_comp_pos(comp),
                         "computations call each other more than %d deep (limit nesting)",
                         hl_cx_limits(b->cx)->nesting);
  HlArena *arena = b->side->arena;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    int called[16], *frames = inst->n_calls <= 16 ? called : HL_ARRAY(arena, int, inst->n_calls);
    for (int k = 0; k < inst->n_calls; k++)
      if ((frames[k] = open_call(b, inst, k, depth)) == DIFF_NONE)
        return false;
    const int node = b->nodes.n;
    vec_push_in(arena, &b->nodes, ((DiffNode){.inst = inst, .frame = frame, .value = node}));
    vec_push_in(arena, &b->first_call, b->call.n);
    b->frames.at[frame].node[inst->id] = node;
    for (int k = 0; k < inst->n_calls; k++) {
      vec_push_in(arena, &b->call, frames[k]);
      if (b->frames.at[frames[k]].caller == DIFF_NONE)
        b->frames.at[frames[k]].caller = node;
    }
  }
  return true;
}

bool diff_side(HlCx *cx, HlArena *arena, const HlModule *m, DiffSide *out) {
  enum { LEAST = 1 << 17, TIMES = 8 };
  *out = (DiffSide){.m = m, .arena = arena};
  Builder b = {.cx = cx, .side = out, .shared = HL_ARRAY(arena, int, m->next_comp_id + 1)};
  memset(b.shared, 0xff, sizeof(int) * (m->next_comp_id + 1));
  b.limit = TIMES * hl_count_instructions(m);
  b.limit = b.limit > LEAST ? b.limit : LEAST;
  if (!m->entry)
    return hl_error(cx, hl_module_pos(m), "the module has no entry computation");
  if (!fill_frame(&b, add_frame(&b, m->entry, 0), 0))
    return false;
  out->node = b.nodes.at;
  out->n = b.nodes.n;
  out->frame = b.frames.at;
  out->n_frames = b.frames.n;
  out->call = b.call.at;
  out->first_call = b.first_call.at;
  out->mate = HL_ARRAY(arena, int, out->n + 1);
  memset(out->mate, 0xff, sizeof(int) * (size_t)(out->n + 1));
  out->by = HL_ARRAY(arena, uint8_t, out->n + 1);
  out->own = HL_ARRAY(arena, uint64_t, out->n + 1);
  return true;
}

// --- Wires ----------------------------------------------------------------------------------------

static int node_of(const DiffSide *side, int frame, const HlInst *inst) {
  return side->frame[frame].node[inst->id];
}

static int operand_value(const DiffSide *side, int node, uint32_t k) {
  const DiffNode *n = &side->node[node];
  return side->node[node_of(side, n->frame, n->inst->operands[k])].value;
}

static int root_value(const DiffSide *side, int frame) {
  const HlComp *comp = side->frame[frame].comp;
  return comp->root ? side->node[node_of(side, frame, comp->root)].value : DIFF_NONE;
}

static int parameter_value(const DiffSide *side, int node) {
  const DiffFrame *frame = &side->frame[side->node[node].frame];
  const int64_t number = hl_parameter_number(side->node[node].inst);
  if (!frame->opens || frame->caller == DIFF_NONE)
    return node;
  const HlInst *caller = side->node[frame->caller].inst;
  if (number < 0 || number >= (int64_t)caller->n_operands)
    return node;
  const int outer = side->node[frame->caller].frame;
  return side->node[node_of(side, outer, caller->operands[number])].value;
}

static int element_value(const DiffSide *side, int node) {
  const int of = operand_value(side, node, 0);
  const HlInst *tuple = side->node[of].inst;
  const int64_t k = hl_attr_int(side->node[node].inst, HL_A_INDEX);
  if (tuple->op != HL_OP_TUPLE || k < 0 || k >= (int64_t)tuple->n_operands)
    return node;
  return operand_value(side, of, (uint32_t)k);
}

static int awaited_value(const DiffSide *side, int node) {
  int at = node;
  for (int steps = 0; steps < side->n; steps++) {
    const DiffNode *n = &side->node[at];
    if (n->inst->op == HL_OP_ASYNC_START && n->inst->n_calls == 1) {
      const int root = root_value(side, diff_frame_of_call(side, at, 0));
      return root == DIFF_NONE ? node : root;
    }
    if ((at != node && n->inst->op != HL_OP_ASYNC_UPDATE) || n->inst->n_operands == 0)
      return node;
    at = node_of(side, n->frame, n->inst->operands[0]);
  }
  return node;
}

// Ops that give their operand another place, order or form in memory.
static bool only_moves(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_COPY:
  case HL_OP_BITCAST:
  case HL_OP_RESHAPE:
  case HL_OP_TRANSPOSE:
  case HL_OP_OPT_BARRIER: return inst->n_operands == 1;
  case HL_OP_CUSTOM_CALL:
    return inst->n_operands == 1 && hl_is_call(inst, HL_CALL_SHARDING);
  default: return false;
  }
}

static int value_of(const DiffSide *side, int node, bool loose) {
  const HlInst *inst = side->node[node].inst;
  if (loose && only_moves(inst))
    return operand_value(side, node, 0);
  switch (inst->op) {
  case HL_OP_PARAMETER: return parameter_value(side, node);
  case HL_OP_GET_TUPLE_ELEMENT: return inst->n_operands == 1 ? element_value(side, node) : node;
  case HL_OP_ASYNC_DONE: return awaited_value(side, node);
  case HL_OP_FUSION:
  case HL_OP_CALL: {
    const int frame = inst->n_calls == 1 ? diff_frame_of_call(side, node, 0) : DIFF_NONE;
    const int root =
        frame != DIFF_NONE && side->frame[frame].opens ? root_value(side, frame) : DIFF_NONE;
    return root == DIFF_NONE ? node : root;
  }
  default: return node;
  }
}

static int count_edges(const DiffSide *side) {
  int64_t n = 0;
  for (int k = 0; k < side->n; k++)
    n += side->node[k].inst->n_operands + side->node[k].inst->n_calls;
  return (int)n;
}

static void set_ins(DiffSide *side) {
  int n = 0;
  for (int k = 0; k < side->n; k++) {
    DiffNode *node = &side->node[k];
    node->first_in = n;
    node->n_uses = 0;
    for (uint32_t j = 0; node->value == k && j < node->inst->n_operands; j++)
      side->in[n++] = operand_value(side, k, j);
    for (int j = 0; node->value == k && j < node->inst->n_calls; j++) {
      const int root = root_value(side, diff_frame_of_call(side, k, j));
      side->in[n++] = root == DIFF_NONE ? k : root;
    }
    node->n_in = n - node->first_in;
  }
}

static void set_uses(DiffSide *side) {
  for (int k = 0; k < side->n; k++)
    for (int j = 0; j < side->node[k].n_in; j++)
      side->node[side->in[side->node[k].first_in + j]].n_uses++;
  int n = 0;
  for (int k = 0; k < side->n; k++) {
    side->node[k].first_use = n;
    n += side->node[k].n_uses;
    side->node[k].n_uses = 0;
  }
  for (int k = 0; k < side->n; k++) {
    const int operands = (int)side->node[k].inst->n_operands;
    for (int j = 0; j < side->node[k].n_in; j++) {
      DiffNode *of = &side->node[side->in[side->node[k].first_in + j]];
      side->use[of->first_use + of->n_uses++] =
          (DiffUse){k, j < operands ? j : DIFF_CALLED + j - operands};
    }
  }
}

void diff_wire(DiffSide *side, bool loose) {
  if (!side->in) {
    const int n = count_edges(side);
    side->in = HL_ARRAY(side->arena, int, n + 1);
    side->use = HL_ARRAY(side->arena, DiffUse, n + 1);
  }
  for (int k = 0; k < side->n; k++)
    side->node[k].value = value_of(side, k, loose);
  set_ins(side);
  set_uses(side);
}
