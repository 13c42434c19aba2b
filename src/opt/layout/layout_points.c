// opt/layout/layout_points.c: which arrays a computation has and through which instructions they pass.
//
// Every array has one instruction that defines it. Tuples are only bundles: `tuple` and
// `get-tuple-element` hand arrays through, and whoever sees an array through them sees the same
// array. Loops, conditionals, calls and parameters define theirs anew; their agreement is made
// elsewhere.

#include "base/vec.h"
#include "opt/layout/layout_assignment.h"

int layout_n_leaves(const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return 1;
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += layout_n_leaves(shape->element[k]);
  return n;
}

int layout_flatten(const HlShape *shape, const HlShape **out) {
  if (shape->dtype != HL_TUPLE) {
    out[0] = shape;
    return 1;
  }
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += layout_flatten(shape->element[k], out + n);
  return n;
}

// --- Handing through ----------------------------------------------------------------------------

static bool hands_all_through(const HlInst *inst) {
  if (inst->op == HL_OP_COPY)
    return inst->shape->dtype == HL_TUPLE;
  return hl_op_is((HlOp)inst->op, HL_T_WIRE) && inst->op != HL_OP_BITCAST;
}

bool layout_forwards(const HlInst *inst, int operand) {
  return hands_all_through(inst) && (inst->op != HL_OP_ADD_DEPENDENCY || operand == 0);
}

// The first leaf that lies under a tuple path.
int layout_leaf_at(const HlShape *shape, HlI64s path) {
  int leaf = 0;
  for (int k = 0; k < path.n && shape->dtype == HL_TUPLE; k++) {
    for (int e = 0; e < path.at[k] && e < shape->rank; e++)
      leaf += layout_n_leaves(shape->element[e]);
    if (path.at[k] >= shape->rank)
      return leaf;
    shape = shape->element[path.at[k]];
  }
  return leaf;
}

// --- Buffers ------------------------------------------------------------------------------------

static void hold(Layouts *a, LayoutBuffer *buffer, HlInst *inst) {
  LayoutHolder *holder = HL_NEW(a->arena, LayoutHolder);
  holder->inst = inst;
  *(buffer->last_holder ? &buffer->last_holder->next : &buffer->holders) = holder;
  buffer->last_holder = holder;
}

static LayoutBuffer **leaf_of_element(LayoutComp *c, const HlInst *take) {
  const HlInst *tuple = take->operands[0];
  int64_t index = hl_attr_int(take, HL_A_INDEX);
  int first = layout_leaf_at(tuple->shape, (HlI64s){&index, 1});
  return layout_leaves(c, tuple) + first;
}

// The leaves of an instruction that hands its operands through.
static LayoutBuffer **handed_through(Layouts *a, LayoutComp *c, const HlInst *inst, int n) {
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT)
    return leaf_of_element(c, inst);
  if (inst->op != HL_OP_TUPLE)
    return layout_leaves(c, inst->operands[0]);
  LayoutBuffer **leaves = HL_ARRAY(a->arena, LayoutBuffer *, n);
  int at = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    LayoutBuffer **from = layout_leaves(c, inst->operands[k]);
    int count = layout_n_leaves(inst->operands[k]->shape);
    for (int e = 0; e < count; e++)
      leaves[at++] = from[e];
  }
  return leaves;
}

typedef VEC(LayoutBuffer *) LayoutBuffers;

static void own_leaves(Layouts *a, HlInst *inst, LayoutBuffer **leaves, LayoutBuffers *buffers) {
  int n = layout_n_leaves(inst->shape);
  const HlShape *one, **shape = n == 1 ? &one : HL_ARRAY(a->arena, const HlShape *, n);
  layout_flatten(inst->shape, shape);
  for (int k = 0; k < n; k++) {
    if (!hl_is_array_dtype(shape[k]->dtype))
      continue;
    LayoutBuffer *buffer = HL_NEW(a->arena, LayoutBuffer);
    *buffer = (LayoutBuffer){.inst = inst, .leaf = k, .array = shape[k]};
    leaves[k] = buffer;
    vec_push_in(a->arena, buffers, buffer);
  }
}

static void add_inst(Layouts *a, LayoutComp *c, HlInst *inst, LayoutBuffers *buffers) {
  int n = layout_n_leaves(inst->shape);
  LayoutBuffer **leaves;
  if (hands_all_through(inst)) {
    leaves = handed_through(a, c, inst, n);
  } else {
    leaves = HL_ARRAY(a->arena, LayoutBuffer *, n + 1);
    own_leaves(a, inst, leaves, buffers);
  }
  c->leaf[inst->id] = leaves;
  if (hl_shape_is_array(inst->shape) && leaves[0])
    hold(a, leaves[0], inst);
  c->use[inst->id] = HL_ARRAY(a->arena, LayoutUse, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    c->use[inst->id][k] = (LayoutUse){.user = inst, .number = (int)k};
}

static HlInst **by_creation(Layouts *a, const HlComp *comp) {
  HlInst **slot = HL_ARRAY(a->arena, HlInst *, comp->next_order + 1);
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    slot[inst->order] = inst;
  uint32_t n = 0;
  for (uint32_t k = 0; k < comp->next_order; k++)
    if (slot[k])
      slot[n++] = slot[k];
  return slot;
}

LayoutComp *layout_comp_new(Layouts *a, HlComp *comp) {
  LayoutComp *c = HL_NEW(a->arena, LayoutComp);
  c->comp = comp;
  c->priority = LAYOUT_UNSET;
  c->is_entry = comp == comp->module->entry;
  c->leaf = HL_ARRAY(a->arena, LayoutBuffer **, comp->next_id);
  c->use = HL_ARRAY(a->arena, LayoutUse *, comp->next_id);
  c->insts = by_creation(a, comp);
  LayoutBuffers buffers = {0};
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    add_inst(a, c, inst, &buffers);
  c->n_buffers = buffers.n;
  c->buffers = buffers.at;
  return c;
}
