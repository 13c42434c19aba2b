// cpu/loop/ops.c: from nodes to the ops of machine code: what is lowered as tile programs are comes out as a graph, and is looked over:
// only loads, at places that are known outside of rows, and ops on elements may be there.

#include "cpu/loop/ops.h"

#include <string.h>

#include "hilo/op.h"

// --- What may be lowered ---------------------------------------------------------------------------------

static bool may_be_op(const HlInst *inst) {
  switch (inst->op) {  // these have loops or scopes of their own
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW:
  case HL_OP_PAD:
  case HL_OP_CONCATENATE: return false;
  case HL_OP_CONDITIONAL: return true;
  default: return tile_has_rule((HlOp)inst->op);
  }
}

bool loop_may_compute_inst(const HlInst *inst, int *left) {
  if (--*left < 0 || !may_be_op(inst) || hl_has_side_effect(inst))
    return false;
  for (int k = 0; k < inst->n_calls; k++)
    if (!loop_may_compute(hl_called(inst, k), left))
      return false;
  return true;
}

bool loop_may_compute(const HlComp *comp, int *left) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    switch (inst->op) {
    case HL_OP_PARAMETER:
    case HL_OP_CONSTANT:
    case HL_OP_TUPLE:
    case HL_OP_GET_TUPLE_ELEMENT: continue;
    default: break;
    }
    if (!loop_may_compute_inst(inst, left))
      return false;
  }
  return true;
}

// --- Asking ----------------------------------------------------------------------------------------------

bool loop_given(Lower *l, const Ask *ask, Val *out) {
  const HlInst *inst = ask->inst;
  if (inst->op != HL_OP_CONDITIONAL)
    return false;
  const HlDtype dtype = cpu_leaf(inst->shape, ask->leaf)->dtype;
  const Val which = tile_operand(l, ask, 0, NULL, ask->scope, false);
  const bool by_pred = inst->operands[0]->shape->dtype == HL_PRED;
  *out = NO_VAL;
  for (int k = inst->n_calls - 1; k >= 0 && !l->why; k--) {
    Frame *frame = tile_branch_frame(l, ask->frame, inst, k);
    const Val branch =
        tile_ask(l, &(Ask){frame, frame->comp->root, ask->leaf, ask->map, ask->scope, false});
    if (branch.im >= 0 || ask->raw)
      tile_fail(l, "a branch of such elements");
    if (l->why || out->re < 0) {  // the last one is taken wherever no other is
      *out = branch;
      continue;
    }
    const int taken = by_pred ? which.re
                              : tile_vec(l, VEC_EQ, HL_S32, HL_PRED, ask->scope, which.re,
                                         tile_const_i64(l, HL_S32, k), -1);
    out->re = tile_vec(l, VEC_SELECT, dtype, dtype, ask->scope, taken, branch.re, out->re);
  }
  return true;
}

Ask loop_maker_of(Lower *l, Ask at) {
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
          memcmp(cpu_strides(l->arena, inst->shape),
                 cpu_strides(l->arena, inst->operands[0]->shape),
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

bool loop_take_length(LoopOps *m, const HlShape *shape) {
  const int64_t n = hl_shape_elements(shape);
  if (n == 1)
    return true;
  if (n > EMIT_MAX_ROW || long_dim(shape) < 0 || (m->n > 1 && m->n != n))
    return false;
  m->n = n;
  return true;
}

Affine *loop_row_map(const LoopOps *m, const HlShape *shape) {
  Affine *map = HL_ARRAY(m->l->arena, Affine, shape->rank + 1);
  for (int d = 0; d < shape->rank; d++)
    map[d] = shape->dim[d] > 1 ? m->row : affine_const(0);
  return map;
}

bool loop_ask_update(LoopOps *m, const Ask *update, const HlShape *over, Val *value, Affine *to) {
  Lower *l = m->l;
  const HlShape *box = update->inst->operands[1]->shape;
  Affine *start = HL_ARRAY(l->arena, Affine, box->rank + 1), *map = loop_row_map(m, box);
  if (!tile_update_start(l, update, start))
    return false;
  *value = tile_operand(l, update, 1, map, 0, false);
  for (int d = 0; d < box->rank; d++)
    map[d] = affine_add(&map[d], &start[d]);
  *to = affine_dot(box->rank, map, cpu_strides(l->arena, over));
  return !l->why && value->re >= 0 && value->im < 0;
}

// --- Ops ---------------------------------------------------------------------------------------------------

int loop_add(LoopOps *m, EmitLoopOp op) {
  vec_push_in(m->l->arena, &m->ops, op);
  return m->ops.n - 1;
}

bool loop_depends_on_row(const LoopOps *m, int node) {
  return m->l->node.at[node].deps != 0;
}

static int constant(LoopOps *m, int64_t value) {
  return loop_add(m,
                  (EmitLoopOp){.kind = LOOP_CONST,
                               .op = {.kind = EMIT_CONST, .dtype = HL_S64, .bits = (uint64_t)value},
                               .index = -1});
}

static int s64_op(LoopOps *m, VecOp vec, int a, int b) {
  const EmitLoopOp op = {.kind = LOOP_OP,
                         .op = {.kind = EMIT_VEC, .vec = vec, .dtype = HL_S64, .in = {a, b}},
                         .fn = vec_fn(m->l->maker->level, vec, HL_S64, 0),
                         .index = -1};
  return loop_add(m, op);
}

// A place in memory: elements along a row side by side, or one. False: it is no such place.
static bool find_place(LoopOps *m, const Affine *at, bool *row, int64_t *c, int *index) {
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
    if (loop_depends_on_row(m, node))
      return false;
    int term = loop_op_of(m, node);
    if (term < 0)
      return false;
    if (at->k[v] != 1)
      term = s64_op(m, VEC_MULTIPLY, term, constant(m, at->k[v]));
    *index = *index < 0 ? term : s64_op(m, VEC_ADD, *index, term);
  }
  return at->den == 1;
}

// State, once; all of it, as it is.
int loop_state_op(LoopOps *m, int k, bool row, int64_t c, int index) {
  LoopArray *array = &m->array[k];
  if (index >= 0 || c != 0 || row != array->row)
    return -1;
  if (array->op < 0)
    array->op = loop_add(m, (EmitLoopOp){.kind = LOOP_STATE,
                                         .op = {.dtype = array->dtype, .slot = k},
                                         .row = row,
                                         .index = -1});
  return array->op;
}

static int load_op(LoopOps *m, const Node *node) {
  bool row;
  int64_t c;
  int index;
  const bool is_array = node->buffer < m->n_arrays;
  if (node->dtype != node->from || !find_place(m, node->at, &row, &c, &index))
    return -1;
  if (is_array && m->array[node->buffer].use == LOOP_USE_STATE)
    return loop_state_op(m, node->buffer, row, c, index);
  const bool changes = is_array && m->array[node->buffer].use == LOOP_USE_WRITTEN;
  return loop_add(
      m, (EmitLoopOp){
             .kind = changes || index >= 0 ? LOOP_LOAD : LOOP_GIVEN,
             .op = {.dtype = node->from,
                    .slot = is_array ? node->buffer : m->n_arrays + node->buffer - TILE_CONSTANTS},
             .row = row,
             .at = c,
             .index = index});
}

static int compute_op(LoopOps *m, const Node *node, bool row) {
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
    op.op.in[k] = loop_op_of(m, node->arg[k]);
    if (op.op.in[k] < 0)
      return -1;
  }
  return loop_add(m, op);
}

// The op that a node is; -1: it cannot be done.
int loop_op_of(LoopOps *m, int n) {
  const Node *node = &m->l->node.at[n];
  if (m->op[n] >= 0)
    return m->op[n];
  switch (node->kind) {
  case NODE_CONST:
    m->op[n] = loop_add(
        m, (EmitLoopOp){.kind = LOOP_CONST,
                        .op = {.kind = EMIT_CONST, .dtype = node->dtype, .bits = node->bits},
                        .index = -1});
    break;
  case NODE_LOAD: m->op[n] = node->scope == 0 ? load_op(m, node) : -1; break;
  case NODE_VEC:
  case NODE_CONVERT:
  case NODE_ROUND:
  case NODE_SAME:
    m->op[n] = node->scope == 0 ? compute_op(m, node, loop_depends_on_row(m, n)) : -1;
    break;
  default: break;
  }
  return m->op[n];
}

// What a place depends on is known before anything is stored.
bool loop_knows_place(LoopOps *m, const Affine *at) {
  bool row;
  int64_t c;
  int index;
  return find_place(m, at, &row, &c, &index);
}

bool loop_store(LoopOps *m, int array, HlDtype dtype, const Affine *to, int node, bool row) {
  bool is_row;
  int64_t c;
  int index;
  const int value = loop_op_of(m, node);
  if (value < 0 || !find_place(m, to, &is_row, &c, &index) || is_row != row ||
      (m->ops.at[value].row && !row))
    return false;
  loop_add(m, (EmitLoopOp){.kind = LOOP_STORE,
                           .op = {.dtype = dtype, .slot = array, .in = {value}},
                           .row = row,
                           .at = c,
                           .index = index});
  return true;
}

// --- The rest --------------------------------------------------------------------------------------------

void loop_ops_start(LoopOps *m) {
  m->op = HL_ARRAY(m->l->arena, int, m->l->node.n + 1);
  for (int k = 0; k < m->l->node.n; k++)
    m->op[k] = -1;
}

const void *const *loop_constants(const LoopOps *m) {
  const void **constant = HL_ARRAY(m->l->maker->arena, const void *, m->l->literal.n + 1);
  for (int k = 0; k < m->l->literal.n; k++)
    constant[k] = m->l->literal.at[k]->data;
  return constant;
}

double loop_cost(const LoopOps *m) {
  double cost = 2;
  for (int k = 0; k < m->ops.n; k++) {
    const EmitLoopOp *op = &m->ops.at[k];
    const bool vec = op->kind == LOOP_OP && op->op.kind == EMIT_VEC;
    cost += vec ? 1 + vec_info[op->op.vec].cost * (op->row ? (double)m->n : 8) : 1;
  }
  return cost;
}
