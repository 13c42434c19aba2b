// cpu/loop/make.c: from a while loop to the ops of a machine code loop.
//
// Condition and body are lowered as tile programs are, to a graph of nodes (cpu/tile/build.h): the leaves of the state are its
// buffers, and what the body makes of them is asked for at the indices of a row. What comes out is looked over: only loads
// and ops on elements may be there.
//
//   leaf of the state      the body's root has there                                is
//   any array              the same leaf                                            memory that is read
//   any array              dynamic-update-slice of that leaf                        memory that is written at the end of a turn
//   an element, a row      what is computed                                         in registers

#include "cpu/loop/loop.h"

#include <string.h>

#include "cpu/emit/loop.h"
#include "cpu/tile/build.h"
#include "hilo/op.h"

enum { MAX_LEAVES = 64, MAX_INSTS = 600 };

struct CpuLoop {
  EmitLoopFn *fn;
  int64_t turns;
  int n_leaves, n_constants;
  const void *const *constant;  // behind the leaves
  int n_ops;
  const char *text;             // of its machine code; NULL: it is not kept
};

typedef enum LeafKind { LEAF_READ, LEAF_WRITTEN, LEAF_STATE } LeafKind;

typedef struct Leaf {
  const HlShape *shape;
  LeafKind kind;
  bool row;
  Ask update;  // WRITTEN: the dynamic-update-slice
  Val next;    // STATE: what is next; WRITTEN: what is put ...
  Affine to;   // ... there
  int op;      // STATE: the op
} Leaf;

typedef struct Make {
  Lower *l;
  const HlInst *loop;
  Frame *condition, *body;
  Leaf leaf[MAX_LEAVES];
  int n_leaves;
  int64_t n;     // elements of a row; 1: there is none
  Affine row;    // where in it
  int test;      // node
  VEC(EmitLoopOp) ops;
  int *op;       // by node; -1: none yet
} Make;

// --- What is a small loop ------------------------------------------------------------------------------

static bool may_compute(const HlComp *comp, int *left) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    switch (inst->op) {
    case HL_OP_PARAMETER:
    case HL_OP_CONSTANT:
    case HL_OP_TUPLE:
    case HL_OP_GET_TUPLE_ELEMENT: continue;
    default: break;
    }
    if (--*left < 0 || !tile_has_rule((HlOp)inst->op) || hl_has_side_effect(inst))
      return false;
    const bool opens = inst->op == HL_OP_FUSION || inst->op == HL_OP_CALL;
    for (int k = 0; opens && k < inst->n_calls; k++)
      if (!may_compute(hl_called(inst, k), left))
        return false;
  }
  return true;
}

// --- The leaves ----------------------------------------------------------------------------------------

// Who makes the leaf of an instruction: behind tuples, fusions, and copies if it is to be the whole of an array.
static Ask maker_of(Lower *l, Ask at) {
  for (;;) {
    const HlInst *inst = at.inst;
    int leaf = at.leaf, k = 0;
    switch (inst->op) {
    case HL_OP_TUPLE:
      for (int n; leaf >= (n = cpu_leaf_count(inst->operands[k]->shape)); k++)
        leaf -= n;
      at = (Ask){.frame = at.frame, .inst = inst->operands[k], .leaf = leaf};
      continue;
    case HL_OP_GET_TUPLE_ELEMENT:
      for (int64_t e = 0; e < hl_attr_int(inst, HL_A_INDEX); e++)
        leaf += cpu_leaf_count(inst->operands[0]->shape->element[e]);
      at = (Ask){.frame = at.frame, .inst = inst->operands[0], .leaf = leaf};
      continue;
    case HL_OP_COPY:
      if (cpu_strides(l->arena, inst->shape) &&
          memcmp(cpu_strides(l->arena, inst->shape), cpu_strides(l->arena, inst->operands[0]->shape),
                 sizeof(int64_t) * (size_t)inst->shape->rank) != 0)
        return at;
      at.inst = inst->operands[0];
      continue;
    case HL_OP_FUSION:
      at.frame = tile_call_frame(l, at.frame, inst);
      at.inst = at.frame->comp->root;
      continue;
    case HL_OP_PARAMETER:
      if (!at.frame->up)
        return at;
      at.inst = at.frame->call->operands[hl_parameter_number(inst)];
      at.frame = at.frame->up;
      continue;
    default: return at;
    }
  }
}

static bool is_leaf(const Make *m, const Ask *at, int k) {
  return at->frame == m->body && at->inst->op == HL_OP_PARAMETER && at->leaf == k;
}

// Its only dimension of more than one element; -1: there are others, or none.
static int long_dim(const HlShape *shape) {
  int found = -1;
  for (int d = 0; d < shape->rank; d++) {
    if (shape->dim[d] == 1)
      continue;
    if (found >= 0)
      return -1;
    found = d;
  }
  return found;
}

// False: it is too long, or not of the length that there is.
static bool take_length(Make *m, const HlShape *shape) {
  const int64_t n = hl_shape_elements(shape);
  if (n == 1)
    return true;
  if (n > EMIT_MAX_ROW || long_dim(shape) < 0 || (m->n > 1 && m->n != n))
    return false;
  m->n = n;
  return true;
}

static bool sort_leaf(Make *m, int k) {
  Leaf *leaf = &m->leaf[k];
  *leaf = (Leaf){.shape = cpu_leaf(m->loop->shape, k), .kind = LEAF_STATE, .op = -1};
  if (!hl_shape_is_array(leaf->shape) || hl_shape_is_dynamic(leaf->shape) ||
      hl_shape_elements(leaf->shape) == 0)
    return false;
  const Ask maker = maker_of(m->l, (Ask){.frame = m->body, .inst = m->body->comp->root, .leaf = k});
  if (is_leaf(m, &maker, k)) {
    leaf->kind = LEAF_READ;
    return true;
  }
  if (hl_shape_elements(leaf->shape) > 1 && maker.inst->op == HL_OP_DYNAMIC_UPDATE_SLICE) {
    const Ask over = maker_of(
        m->l, (Ask){.frame = maker.frame, .inst = maker.inst->operands[0], .leaf = maker.leaf});
    leaf->kind = is_leaf(m, &over, k) ? LEAF_WRITTEN : LEAF_STATE;
    leaf->update = maker;
  }
  const HlShape *made = leaf->kind == LEAF_WRITTEN ? maker.inst->operands[1]->shape : leaf->shape;
  leaf->row = hl_shape_elements(made) > 1;
  return take_length(m, made);
}

// --- Asking ----------------------------------------------------------------------------------------------

static Affine *row_map(const Make *m, const HlShape *shape) {
  Affine *map = HL_ARRAY(m->l->arena, Affine, shape->rank + 1);
  for (int d = 0; d < shape->rank; d++)
    map[d] = shape->dim[d] > 1 ? m->row : affine_const(0);
  return map;
}

static bool ask_update(Make *m, Leaf *leaf) {
  Lower *l = m->l;
  const HlShape *box = leaf->update.inst->operands[1]->shape;
  Affine *start = HL_ARRAY(l->arena, Affine, box->rank + 1), *map = row_map(m, box);
  if (!tile_update_start(l, &leaf->update, start))
    return false;
  leaf->next = tile_operand(l, &leaf->update, 1, map, 0, false);
  for (int d = 0; d < box->rank; d++)
    map[d] = affine_add(&map[d], &start[d]);
  leaf->to = affine_dot(box->rank, map, cpu_strides(l->arena, leaf->shape));
  return !l->why;
}

static bool ask_all(Make *m) {
  Lower *l = m->l;
  const Ask root = {.frame = m->condition, .inst = m->condition->comp->root};
  m->test = tile_ask(l, &root).re;
  for (int k = 0; !l->why && k < m->n_leaves; k++) {
    Leaf *leaf = &m->leaf[k];
    if (leaf->kind == LEAF_WRITTEN && !ask_update(m, leaf))
      return false;
    const Ask ask = {m->body, m->body->comp->root, k, row_map(m, leaf->shape), 0, false};
    if (leaf->kind == LEAF_STATE)
      leaf->next = tile_ask(l, &ask);
    if (leaf->kind != LEAF_READ && (leaf->next.re < 0 || leaf->next.im >= 0))
      return false;
  }
  return !l->why && !l->again && l->block.n == 1;
}

// --- Ops ---------------------------------------------------------------------------------------------------

static int add(Make *m, EmitLoopOp op) {
  vec_push_in(m->l->arena, &m->ops, op);
  return m->ops.n - 1;
}

static bool depends_on_row(const Make *m, int node) {
  return m->l->node.at[node].deps != 0;
}

static int op_of(Make *m, int node);

static int constant(Make *m, int64_t value) {
  return add(m, (EmitLoopOp){.kind = LOOP_CONST,
                             .op = {.kind = EMIT_CONST, .dtype = HL_S64, .bits = (uint64_t)value},
                             .index = -1});
}

static int s64_op(Make *m, VecOp vec, int a, int b) {
  const EmitLoopOp op = {.kind = LOOP_OP,
                         .op = {.kind = EMIT_VEC, .vec = vec, .dtype = HL_S64, .in = {a, b}},
                         .fn = vec_fn(m->l->maker->level, vec, HL_S64, 0),
                         .index = -1};
  return add(m, op);
}

// A place in memory: elements along a row side by side, or one. False: it is no such place.
static bool find_place(Make *m, const Affine *at, bool *row, int64_t *c, int *index) {
  const Lower *l = m->l;
  *row = false;
  *c = at->c;
  *index = -1;
  for (int v = 0; v < l->n_vars; v++) {
    if (at->k[v] == 0)
      continue;
    const int node = l->var[v].node;
    if (node < 0) {
      if (at->k[v] != 1)
        return false;
      *row = true;
      continue;
    }
    if (depends_on_row(m, node))
      return false;
    int term = op_of(m, node);
    if (term < 0)
      return false;
    if (at->k[v] != 1)
      term = s64_op(m, VEC_MULTIPLY, term, constant(m, at->k[v]));
    *index = *index < 0 ? term : s64_op(m, VEC_ADD, *index, term);
  }
  return at->den == 1;
}

// State, once; all of it, as it is.
static int state_op(Make *m, int k, bool row, int64_t c, int index) {
  Leaf *leaf = &m->leaf[k];
  if (index >= 0 || c != 0 || row != leaf->row)
    return -1;
  if (leaf->op < 0)
    leaf->op = add(m, (EmitLoopOp){.kind = LOOP_STATE,
                                   .op = {.dtype = leaf->shape->dtype, .slot = k},
                                   .row = row,
                                   .index = -1});
  return leaf->op;
}

static int load_op(Make *m, const Node *node) {
  bool row;
  int64_t c;
  int index;
  const bool is_leaf = node->buffer < m->n_leaves;
  if (node->dtype != node->from || !find_place(m, node->at, &row, &c, &index))
    return -1;
  if (is_leaf && m->leaf[node->buffer].kind == LEAF_STATE)
    return state_op(m, node->buffer, row, c, index);
  const bool changes = is_leaf && m->leaf[node->buffer].kind == LEAF_WRITTEN;
  return add(m, (EmitLoopOp){.kind = changes || index >= 0 ? LOOP_LOAD : LOOP_GIVEN,
                             .op = {.dtype = node->from,
                                    .slot = is_leaf ? node->buffer
                                                    : m->n_leaves + node->buffer - TILE_CONSTANTS},
                             .row = row,
                             .at = c,
                             .index = index});
}

static int compute_op(Make *m, const Node *node, bool row) {
  const CpuLevel level = m->l->maker->level;
  EmitLoopOp op = {.kind = LOOP_OP, .op = {.dtype = node->from}, .row = row, .index = -1};
  switch (node->kind) {
  case NODE_VEC:
    op.op.kind = EMIT_VEC;
    op.op.vec = node->op;
    op.fn = vec_fn(level, node->op, node->from, 0);
    break;
  case NODE_CONVERT:
    op.op.kind = EMIT_CONVERT;
    op.op.to = node->dtype;
    op.fn = vec_convert(level, node->from, node->dtype);
    break;
  case NODE_ROUND:
    op.op.kind = EMIT_ROUND;
    op.op.dtype = node->dtype;
    op.fn = vec_round(level, node->dtype);
    break;
  default:
    op.kind = LOOP_SAME;
    op.op.dtype = node->dtype;
    if (node->dtype == HL_PRED || node->from == HL_PRED)
      return -1;
    break;
  }
  for (int k = 0; k < node->n; k++) {
    op.op.in[k] = op_of(m, node->arg[k]);
    if (op.op.in[k] < 0)
      return -1;
  }
  return add(m, op);
}

// The op that a node is; -1: it cannot be done.
static int op_of(Make *m, int n) {
  const Node *node = &m->l->node.at[n];
  if (m->op[n] >= 0)
    return m->op[n];
  switch (node->kind) {
  case NODE_CONST:
    m->op[n] = add(m, (EmitLoopOp){.kind = LOOP_CONST,
                                   .op = {.kind = EMIT_CONST, .dtype = node->dtype, .bits = node->bits},
                                   .index = -1});
    break;
  case NODE_LOAD: m->op[n] = node->scope == 0 ? load_op(m, node) : -1; break;
  case NODE_VEC:
  case NODE_CONVERT:
  case NODE_ROUND:
  case NODE_SAME:
    m->op[n] = node->scope == 0 ? compute_op(m, node, depends_on_row(m, n)) : -1;
    break;
  default: break;
  }
  return m->op[n];
}

// What a place depends on is known before anything is stored.
static bool knows_place(Make *m, const Affine *at) {
  bool row;
  int64_t c;
  int index;
  return find_place(m, at, &row, &c, &index);
}

static bool store_op(Make *m, int k) {
  const Leaf *leaf = &m->leaf[k];
  bool row;
  int64_t c;
  int index;
  const int value = op_of(m, leaf->next.re);
  if (value < 0 || !find_place(m, &leaf->to, &row, &c, &index) || row != leaf->row)
    return false;
  add(m, (EmitLoopOp){.kind = LOOP_STORE,
                      .op = {.dtype = leaf->shape->dtype, .slot = k, .in = {value}},
                      .row = row,
                      .at = c,
                      .index = index});
  return true;
}

static bool next_op(Make *m, int k) {
  const Leaf *leaf = &m->leaf[k];
  const int value = op_of(m, leaf->next.re), state = state_op(m, k, leaf->row, 0, -1);
  if (value < 0 || (m->ops.at[value].row && !leaf->row))
    return false;
  add(m, (EmitLoopOp){.kind = LOOP_NEXT,
                      .op = {.dtype = leaf->shape->dtype, .in = {value, state}},
                      .row = leaf->row,
                      .index = -1});
  return true;
}

// In the order in which it has to happen: all that is computed, the test, what is stored, what is next.
static bool list_ops(Make *m) {
  const int test = op_of(m, m->test);
  bool good = test >= 0 && !depends_on_row(m, m->test);
  for (int k = 0; good && k < m->n_leaves; k++)
    if (m->leaf[k].kind == LEAF_STATE)
      good = op_of(m, m->leaf[k].next.re) >= 0 && state_op(m, k, m->leaf[k].row, 0, -1) >= 0;
    else if (m->leaf[k].kind == LEAF_WRITTEN)
      good = op_of(m, m->leaf[k].next.re) >= 0 && knows_place(m, &m->leaf[k].to);
  if (!good)
    return false;
  add(m, (EmitLoopOp){.kind = LOOP_WHILE, .op = {.dtype = HL_PRED, .in = {test}}, .index = -1});
  for (int k = 0; good && k < m->n_leaves; k++)
    good = m->leaf[k].kind != LEAF_WRITTEN || store_op(m, k);
  for (int k = 0; good && k < m->n_leaves; k++)
    good = m->leaf[k].kind != LEAF_STATE || next_op(m, k);
  return good;
}

// --- The whole ---------------------------------------------------------------------------------------------

static Frame *frame_of(Lower *l, const HlComp *comp) {
  Frame *frame = tile_frame(l, comp);
  frame->first_buffer = HL_ARRAY(l->arena, int, 1);  // the state is all buffers
  return frame;
}

static CpuLoop *finish(Make *m) {
  CpuMaker *maker = m->l->maker;
  const int n = (int)m->n;
  EmitLoopFn *fn = emit_loop(maker->code, m->l->arena, maker->level, n, m->ops.n, m->ops.at,
                             maker->name);
  if (!fn)
    return NULL;
  CpuLoop *out = HL_NEW(maker->arena, CpuLoop);
  const void **constant = HL_ARRAY(maker->arena, const void *, m->l->literal.n + 1);
  for (int k = 0; k < m->l->literal.n; k++)
    constant[k] = m->l->literal.at[k]->data;
  enum { SLICE_NS = 200000 };
  double cost = 2;
  for (int k = 0; k < m->ops.n; k++)
    if (m->ops.at[k].kind == LOOP_OP)
      cost += m->ops.at[k].op.kind == EMIT_VEC
                  ? 1 + vec_info[m->ops.at[k].op.vec].cost * (m->ops.at[k].row ? n : 8)
                  : 1;
  *out = (CpuLoop){.fn = fn,
                   .turns = (int64_t)(SLICE_NS / cost) + 1,
                   .n_leaves = m->n_leaves,
                   .n_constants = m->l->literal.n,
                   .constant = constant,
                   .n_ops = m->ops.n,
                   .text = emit_loop_text(maker->code, fn)};
  return out;
}

static const CpuLoop *make(CpuMaker *maker, HlArena *arena, const HlInst *loop) {
  const HlComp *condition = hl_while_condition(loop), *body = hl_while_body(loop);
  Lower *l = HL_NEW(arena, Lower);
  l->maker = maker;
  l->arena = arena;
  tile_nest_start(l);
  Make *m = HL_NEW(arena, Make);
  *m = (Make){.l = l, .loop = loop, .n_leaves = cpu_leaf_count(loop->shape), .n = 1};
  m->condition = frame_of(l, condition);
  m->body = frame_of(l, body);
  for (int k = 0; k < m->n_leaves; k++)
    if (!sort_leaf(m, k))
      return NULL;
  m->row = affine_axis(l, m->n, 0);
  if (!ask_all(m))
    return NULL;
  m->op = HL_ARRAY(arena, int, l->node.n + 1);
  for (int k = 0; k < l->node.n; k++)
    m->op[k] = -1;
  return list_ops(m) ? finish(m) : NULL;
}

const CpuLoop *cpu_loop_make(CpuMaker *maker, const HlInst *loop) {
  int left = MAX_INSTS;
  if (!maker->code || maker->no_emit || cpu_leaf_count(loop->shape) > MAX_LEAVES ||
      !may_compute(hl_while_condition(loop), &left) || !may_compute(hl_while_body(loop), &left))
    return NULL;
  HlArena *arena = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(arena);
  const CpuLoop *out = make(maker, arena, loop);
  hl_arena_release(arena, mark);
  return out;
}

// --- Running ------------------------------------------------------------------------------------------------

int64_t cpu_loop_turns(const CpuLoop *loop) {
  return loop->turns;
}

bool cpu_loop_run(const CpuLoop *loop, void *const *buffer, int64_t *turns) {
  void *pointer[MAX_LEAVES + TILE_MAX_BUFFERS];
  for (int k = 0; k < loop->n_leaves; k++)
    pointer[k] = buffer[k];
  for (int k = 0; k < loop->n_constants; k++)
    pointer[loop->n_leaves + k] = (void *)(uintptr_t)loop->constant[k];
  const int64_t left = loop->fn(*turns, pointer);
  *turns -= left;
  return left > 0;
}

void cpu_loop_print(HlBuf *out, const CpuLoop *loop) {
  hl_buf_printf(out, "  %d ops on %d arrays, turn after turn in registers\n", loop->n_ops,
                loop->n_leaves);
  if (loop->text)
    hl_buf_puts(out, loop->text);
}
