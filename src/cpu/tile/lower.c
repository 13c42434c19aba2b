// cpu/tile/lower.c: what an element of an instruction is, at indices that are sums over loops.
//
// It is asked from the root to the operands (tile_ask), by rules for each op (lower_*.c); what was asked before at the same indices
// is there already.

#include "cpu/tile/build.h"

#include <string.h>

#include "base/compiler.h"
#include "hilo/op.h"

enum { MAX_DEPTH = 1000 };

static LowerFn call, marks;

static LowerFn *const rule[HL_OP_COUNT] = {
#define POINTWISE(id) [HL_OP_##id] = tile_pointwise,
#include "cpu/tile/pointwise.def"
#undef POINTWISE
    [HL_OP_REAL] = tile_complex,
    [HL_OP_IMAG] = tile_complex,
    [HL_OP_COMPLEX] = tile_complex,
    [HL_OP_COMPARE] = tile_compare,
    [HL_OP_CONVERT] = tile_convert,
    [HL_OP_BITCAST_CONVERT] = tile_bitcast_convert,
    [HL_OP_REDUCE_PRECISION] = tile_reduce_precision,
    [HL_OP_MAP] = tile_map,
    [HL_OP_IOTA] = tile_iota,
    [HL_OP_COPY] = tile_move,
    [HL_OP_BROADCAST] = tile_move,
    [HL_OP_TRANSPOSE] = tile_move,
    [HL_OP_REVERSE] = tile_move,
    [HL_OP_SLICE] = tile_move,
    [HL_OP_RESHAPE] = tile_reshape,
    [HL_OP_BITCAST] = tile_reshape,
    [HL_OP_PAD] = tile_pad,
    [HL_OP_CONCATENATE] = tile_concatenate,
    [HL_OP_DYNAMIC_SLICE] = tile_dynamic_slice,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = tile_dynamic_update_slice,
    [HL_OP_GATHER] = tile_gather,
    [HL_OP_REDUCE] = tile_reduce,
    [HL_OP_REDUCE_WINDOW] = tile_reduce_window,
    [HL_OP_FUSION] = call,
    [HL_OP_CALL] = call,
    [HL_OP_OPT_BARRIER] = marks,
};

bool tile_has_rule(HlOp op) {
  return rule[op] != NULL;
}

Val tile_fail(Lower *l, const char *why) {
  if (!l->why)
    l->why = why;
  return NO_VAL;
}

// --- Frames ---------------------------------------------------------------------------------------

struct Memo {
  Memo *next;
  Ask ask;
  Val value;
};

static int union_of(int *set, int k) {
  while (set[k] != k)
    k = set[k] = set[set[k]];
  return k;
}

bool tile_may_move(const HlInst *inst) {
  return rule[inst->op] && hl_op_moves((HlOp)inst->op) && inst->op != HL_OP_MAP &&
         hl_shape_is_array(inst->shape) &&
         (inst->op != HL_OP_BITCAST || inst->shape->dtype == inst->operands[0]->shape->dtype);
}

static bool moves_operand(const HlInst *inst, int k) {
  return tile_may_move(inst) && hl_operand_in(hl_op_facts((HlOp)inst->op)->elements, k, 1);
}

// Instructions that hand elements to each other are of one set; a set is moved if nothing in it computes or is computed with.
bool *tile_find_moved(HlArena *arena, const HlComp *comp) {
  int *set = HL_ARRAY(arena, int, comp->next_id + 1);
  bool *computed = HL_ARRAY(arena, bool, comp->next_id + 1);
  bool *moved = HL_ARRAY(arena, bool, comp->next_id + 1);
  for (uint32_t k = 0; k < comp->next_id; k++)
    set[k] = (int)k;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (moves_operand(inst, (int)k) && !hl_op_is((HlOp)inst->operands[k]->op, HL_T_GIVEN))
        set[union_of(set, (int)inst->id)] = union_of(set, (int)inst->operands[k]->id);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (!tile_may_move(inst))
      computed[union_of(set, (int)inst->id)] = true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (!moves_operand(inst, (int)k) && inst->op != HL_OP_TUPLE)
        computed[union_of(set, (int)inst->operands[k]->id)] = true;
  }
  for (uint32_t k = 0; k < comp->next_id; k++)
    moved[k] = !computed[union_of(set, (int)k)];
  return moved;
}

Frame *tile_frame(Lower *l, const HlComp *comp) {
  Frame *frame = HL_NEW(l->arena, Frame);
  frame->comp = comp;
  frame->memo = HL_ARRAY(l->arena, Memo *, comp->next_id + 1);
  return frame;
}

// --- Asking ---------------------------------------------------------------------------------------

static bool same_ask(const Lower *l, const Ask *known, const Ask *ask, int rank) {
  return known->leaf == ask->leaf && known->raw == ask->raw &&
         tile_scope_within(l, ask->scope, known->scope) &&
         (known->map == ask->map || rank == 0 ||
          memcmp(known->map, ask->map, sizeof *ask->map * (size_t)rank) == 0);
}

Val tile_load(Lower *l, int buffer, HlDtype dtype, const Affine *at, int scope) {
  const HlDtype part = dtype == HL_C64 ? HL_F32 : dtype == HL_C128 ? HL_F64 : dtype;
  Val v = {tile_node(l, &(Node){.kind = NODE_LOAD,
                                .op = VEC_OP_COUNT,
                                .dtype = part,
                                .from = dtype,
                                .scope = scope,
                                .buffer = buffer,
                                .at = at}),
           -1};
  if (hl_is_complex(dtype))
    v.im = tile_unary_node(l, NODE_IM, dtype, part, scope, v.re);
  return v;
}

static Val load_leaf(Lower *l, int buffer, const HlShape *shape, const Affine *map, int scope,
                     bool raw) {
  if (hl_shape_elements(shape) == 0)
    return tile_fail(l, "an empty operand is read");
  const Affine at = affine_dot(shape->rank, map, cpu_strides(l->arena, shape));
  return tile_load(l, buffer, raw ? tile_raw_dtype(shape->dtype) : shape->dtype, &at, scope);
}

static Val constant(Lower *l, const Ask *ask) {
  const HlLiteral *literal = hl_constant(ask->inst);
  if (!literal || hl_literal_is_elided(literal) || !hl_shape_is_array(ask->inst->shape))
    return tile_fail(l, "a constant that is not known");
  if (literal->n == 0)
    return tile_fail(l, "an empty operand is read");
  const HlShape *shape = literal->shape;
  const HlDtype raw = ask->raw ? tile_raw_dtype(shape->dtype) : HL_NO_DTYPE;
  int64_t *stride = HL_ARRAY(l->arena, int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, stride);
  const Affine at = affine_dot(shape->rank, ask->map, stride);
  if (literal->n == 1 || (literal->flags & HL_LIT_SPLAT) || affine_is_const(&at))
    return tile_const_of(l, literal, affine_is_const(&at) ? at.c : 0, raw);
  int k = 0;
  while (k < l->literal.n && l->literal.at[k] != literal)
    k++;
  if (k == l->literal.n)
    vec_push_in(l->arena, &l->literal, literal);
  return tile_load(l, TILE_CONSTANTS + k, ask->raw ? raw : shape->dtype, &at, ask->scope);
}

static Val parameter(Lower *l, const Ask *ask) {
  const Frame *f = ask->frame;
  const int p = (int)hl_parameter_number(ask->inst);
  if (f->bound)
    return f->bound[p];
  if (f->up)
    return tile_operand_leaf(l, &(Ask){.frame = f->up, .inst = f->call}, f->first_operand + p,
                             ask->leaf, ask->map, ask->scope, ask->raw);
  return load_leaf(l, f->first_buffer[p] + ask->leaf, cpu_leaf(ask->inst->shape, ask->leaf),
                   ask->map, ask->scope, ask->raw);
}

// The leaf of a tuple's operand that is a leaf of the tuple; of an operand that its element is.
static Val element(Lower *l, const Ask *ask) {
  int leaf = ask->leaf, k = 0;
  if (ask->inst->op == HL_OP_TUPLE) {
    for (int n; leaf >= (n = cpu_leaf_count(ask->inst->operands[k]->shape)); k++)
      leaf -= n;
    return tile_operand_leaf(l, ask, k, leaf, ask->map, ask->scope, ask->raw);
  }
  const HlShape *tuple = ask->inst->operands[0]->shape;
  for (int64_t e = 0; e < hl_attr_int(ask->inst, HL_A_INDEX); e++)
    leaf += cpu_leaf_count(tuple->element[e]);
  return tile_operand_leaf(l, ask, 0, leaf, ask->map, ask->scope, ask->raw);
}

Val tile_compute(Lower *l, const Ask *ask) {
  Val there;
  if ((l->box && tile_box_has(l, ask, &there)) || (l->given && l->given(l, ask, &there)))
    return there;
  switch (ask->inst->op) {
  case HL_OP_PARAMETER: return parameter(l, ask);
  case HL_OP_CONSTANT: return constant(l, ask);
  case HL_OP_TUPLE:
  case HL_OP_GET_TUPLE_ELEMENT: return element(l, ask);
  default: break;
  }
  LowerFn *const how = rule[ask->inst->op];
  return how ? how(l, ask) : tile_fail(l, hl_op_text((HlOp)ask->inst->op));
}

Val tile_ask(Lower *l, const Ask *ask) {
  Memo **memo = &ask->frame->memo[ask->inst->id];
  const int rank = hl_shape_is_tuple(ask->inst->shape) ? cpu_leaf(ask->inst->shape, ask->leaf)->rank
                                                       : ask->inst->shape->rank;
  for (const Memo *m = *memo; m; m = m->next)
    if (same_ask(l, &m->ask, ask, rank))
      return m->value;
  if (l->why)
    return NO_VAL;
  if (++l->depth > MAX_DEPTH)
    return tile_fail(l, "too deep");
  const Val value = tile_compute(l, ask);
  l->depth--;
  if (l->why || value.re < 0)
    return tile_fail(l, "no value");
  Memo *made = HL_NEW(l->arena, Memo);
  *made = (Memo){*memo, *ask, value};
  *memo = made;
  return value;
}

Val tile_operand_leaf(Lower *l, const Ask *ask, int k, int leaf, const Affine *map, int scope,
                      bool raw) {
  const HlInst *operand = ask->inst->operands[k];
  if (!ask->frame->comp)
    return load_leaf(l, ask->frame->first_buffer[k] + leaf, cpu_leaf(operand->shape, leaf), map,
                     scope, raw);
  return tile_ask(l, &(Ask){ask->frame, operand, leaf, map, scope, raw});
}

Val tile_operand(Lower *l, const Ask *ask, int k, const Affine *map, int scope, bool raw) {
  return tile_operand_leaf(l, ask, k, 0, map, scope, raw);
}

bool tile_operand_is_buffer(const Ask *ask, int k) {
  const Frame *f = ask->frame;
  return f->first_buffer &&
         (!f->comp || (!f->up && !f->bound && ask->inst->operands[k]->op == HL_OP_PARAMETER));
}

Val tile_load_place(Lower *l, const Ask *ask, int k, const Affine *place) {
  const HlInst *operand = ask->inst->operands[k];
  const Frame *f = ask->frame;
  const HlDtype dtype = operand->shape->dtype;
  const int64_t number = f->comp ? hl_parameter_number(operand) : k;
  if (hl_shape_elements(operand->shape) == 0)
    return tile_fail(l, "an empty operand is read");
  return tile_load(l, f->first_buffer[number], ask->raw ? tile_raw_dtype(dtype) : dtype, place,
                   ask->scope);
}

static Val marks(Lower *l, const Ask *ask) {
  return tile_operand_leaf(l, ask, 0, ask->leaf, ask->map, ask->scope, ask->raw);
}

// --- Calls ----------------------------------------------------------------------------------------

static Frame *frame_of(Lower *l, Frame *up, const HlInst *inst, const HlComp *comp, int first) {
  for (int k = 0; k < l->frame.n; k++)
    if (l->frame.at[k]->up == up && l->frame.at[k]->call == inst && l->frame.at[k]->comp == comp)
      return l->frame.at[k];
  Frame *frame = tile_frame(l, comp);
  frame->up = up;
  frame->call = inst;
  frame->first_operand = first;
  vec_push_in(l->arena, &l->frame, frame);
  return frame;
}

Frame *tile_call_frame(Lower *l, Frame *up, const HlInst *inst) {
  return frame_of(l, up, inst, hl_to_apply(inst), 0);
}

Frame *tile_branch_frame(Lower *l, Frame *up, const HlInst *inst, int branch) {
  return frame_of(l, up, inst, hl_called(inst, branch), branch + 1);
}

static Val call(Lower *l, const Ask *ask) {
  if (ask->inst->n_calls != 1)
    return tile_fail(l, "a call of nothing");
  Frame *frame = tile_call_frame(l, ask->frame, ask->inst);
  const Ask root = {frame, frame->comp->root, ask->leaf, ask->map, ask->scope, false};
  return ask->raw ? tile_fail(l, "moved out of a call") : tile_ask(l, &root);
}

Val tile_body(Lower *l, const HlComp *comp, const Val *bound, int leaf, int scope) {
  Frame *frame = tile_frame(l, comp);
  frame->bound = bound;
  return tile_ask(l, &(Ask){.frame = frame, .inst = comp->root, .leaf = leaf, .scope = scope});
}

Val tile_map(Lower *l, const Ask *ask) {
  Val *bound = HL_ARRAY(l->arena, Val, ask->inst->n_operands + 1);
  for (uint32_t k = 0; k < ask->inst->n_operands; k++)
    bound[k] = tile_operand(l, ask, (int)k, ask->map, ask->scope, false);
  return l->why ? NO_VAL : tile_body(l, hl_to_apply(ask->inst), bound, 0, ask->scope);
}
