// opt/fusion/hoist_fused_bitcasts.c
//
// hoist-fused-bitcasts: for GPUs: in kernels of matrix products, bitcasts and reshapes move out to where the
// kernel is called, so that the code inside sees dimensions of the matrices only.
//
//   f = fusion(x, y), calls={                         b = f32[8,16] bitcast(x)
//     x = f32[128], y = f32[16,4]                     f = fusion(b, y), calls={
//     n = f32[128] negate(x)                    =>      x = f32[8,16], y = f32[16,4]
//     b = f32[8,16] bitcast(n)                          n = f32[8,16] negate(x)
//     ROOT d = f32[8,4] dot(b, y) }                     ROOT d = f32[8,4] dot(n, y) }
//
// Before the product they move up to the parameters, behind it down to the root. On the way the shapes of
// elementwise operations change, and those of broadcasts and transposes where no group of dimensions that a
// bitcast joins or divides is torn apart. Arrays are row-major; but what a bitcast that moves up gives may have its
// dimensions in any order, which all that comes before it then has.

#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/fusion/fusion.h"
#include "opt/passes.h"

// --- Order in memory ------------------------------------------------------------------------------

static bool is_row_major(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) &&
         (!shape->layout || hl_layout_is_default(shape->layout));
}

// The dimension that is the k-th in memory.
static int64_t dim_in_memory(const HlShape *shape, int64_t k) {
  return shape->layout ? shape->layout->minor_to_major.at[shape->rank - 1 - k] : k;
}

// The same bytes with dimensions in the order of memory; NULL: there is more to the layout than that.
static const HlShape *in_rows(HlArena *arena, HlShapes *shapes, const HlShape *shape) {
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) ||
      (shape->layout && shape->layout->extra))
    return NULL;
  int64_t *sizes = HL_ARRAY(arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    sizes[k] = shape->dim[dim_in_memory(shape, k)];
  return hl_shape_array(shapes, shape->dtype, shape->rank, sizes);
}

// --- Groups of dimensions -------------------------------------------------------------------------

// Dimensions [a, a_end) of the one shape hold the same elements as [b, b_end) of the other.
typedef struct Group {
  int a, a_end, b, b_end;
} Group;
typedef struct Groups {
  Group *at;
  int n;
} Groups;

// The finest ones; sizes of 1 go with a neighbour.
static bool find_groups(HlArena *arena, const HlShape *a, const HlShape *b, Groups *out) {
  *out = (Groups){HL_ARRAY(arena, Group, a->rank + 1), 0};
  int i = 0, j = 0;
  if (hl_shape_elements(a) == 0 || a->rank == 0 || b->rank == 0)
    return false;
  while (i < a->rank && j < b->rank) {
    Group *g = &out->at[out->n++];
    *g = (Group){.a = i, .b = j};
    int64_t of_a = a->dim[i++], of_b = b->dim[j++];
    while (of_a != of_b)
      if (of_a < of_b && i < a->rank)
        of_a *= a->dim[i++];
      else if (of_b < of_a && j < b->rank)
        of_b *= b->dim[j++];
      else
        return false;
    g->a_end = i;
    g->b_end = j;
  }
  out->at[out->n - 1].a_end = a->rank;
  out->at[out->n - 1].b_end = b->rank;
  return true;
}

static const HlShape *with_sizes(HlShapes *shapes, HlDtype dtype, HlI64s sizes) {
  return hl_shape_array(shapes, dtype, sizes.n, sizes.at);
}

// What becomes of an instruction's other end, and of its `dimensions`.
typedef struct Moved {
  const HlShape *shape;
  HlI64s dims;
} Moved;

// list[from..to) counts up by one.
static bool counts_up(const int64_t *list, int from, int to) {
  for (int k = from + 1; k < to; k++)
    if (list[k] != list[k - 1] + 1)
      return false;
  return true;
}

// A transpose by `permutation`, whose result takes the shape `to`: its operand, and its permutation then.
static bool through_transpose(HlArena *arena, HlShapes *shapes, const HlShape *result,
                              HlI64s permutation, const HlShape *to, Moved *out) {
  Groups groups;
  if (!find_groups(arena, result, to, &groups))
    return false;
  int64_t *sizes = HL_ARRAY(arena, int64_t, to->rank);
  int64_t *dims = HL_ARRAY(arena, int64_t, to->rank);
  int64_t next = 0;
  for (int d = 0; d < result->rank; d++)  // operand's dimensions, in order
    for (int g = 0; g < groups.n; g++) {
      const Group *group = &groups.at[g];
      if (permutation.at[group->a] != d)
        continue;
      if (!counts_up(permutation.at, group->a, group->a_end))
        return false;
      for (int k = group->b; k < group->b_end; k++) {
        dims[k] = next;
        sizes[next++] = to->dim[k];
      }
    }
  *out = (Moved){with_sizes(shapes, result->dtype, (HlI64s){sizes, to->rank}), {dims, to->rank}};
  return next == to->rank;
}

// A broadcast whose result takes the shape `to`: its operand and dimensions then.
static bool above_broadcast(HlArena *arena, HlShapes *shapes, const HlInst *broadcast,
                            const HlShape *to, Moved *out) {
  Groups groups;
  const HlI64s old = hl_dims(broadcast);
  if (!find_groups(arena, broadcast->shape, to, &groups))
    return false;
  int64_t *sizes = HL_ARRAY(arena, int64_t, to->rank);
  int64_t *dims = HL_ARRAY(arena, int64_t, to->rank);
  int n = 0, met = 0;
  for (int g = 0; g < groups.n; g++) {
    const Group *group = &groups.at[g];
    bool inside = false, all = true;  // but for sizes of 1
    for (int d = group->a; d < group->a_end; d++)
      if (hl_i64s_find(old, d) >= 0) {
        if (old.at[met++] != d)  // not in order
          return false;
        inside = true;
      } else {
        all = all && broadcast->shape->dim[d] == 1;
      }
    if (inside && !all)
      return false;
    for (int k = group->b; k < group->b_end && inside; k++) {
      dims[n] = k;
      sizes[n++] = to->dim[k];
    }
  }
  *out = (Moved){with_sizes(shapes, broadcast->shape->dtype, (HlI64s){sizes, n}), {dims, n}};
  return true;
}

// One whose operand takes the shape `to`: its result and dimensions then.
static bool below_broadcast(HlArena *arena, HlShapes *shapes, const HlInst *broadcast,
                            const HlShape *to, Moved *out) {
  Groups groups;
  const HlI64s old = hl_dims(broadcast);
  const HlShape *result = broadcast->shape;
  if (!find_groups(arena, broadcast->operands[0]->shape, to, &groups))
    return false;
  int64_t *sizes = HL_ARRAY(arena, int64_t, result->rank + to->rank);
  int64_t *dims = HL_ARRAY(arena, int64_t, to->rank);
  int n = 0, g = 0;
  for (int d = 0; d < result->rank; d++) {
    if (hl_i64s_find(old, d) < 0) {
      sizes[n++] = result->dim[d];
      continue;
    }
    const Group *group = &groups.at[g++];
    if (g > groups.n || old.at[group->a] != d || !counts_up(old.at, group->a, group->a_end))
      return false;
    for (int k = group->b; k < group->b_end; k++) {
      dims[k] = n;
      sizes[n++] = to->dim[k];
    }
    d += group->a_end - group->a - 1;
  }
  *out = (Moved){with_sizes(shapes, result->dtype, (HlI64s){sizes, n}), {dims, to->rank}};
  return g == groups.n;
}

// --- Plans ----------------------------------------------------------------------------------------

// The shapes and dimensions that instructions of a body are to have, by id; NULL: as before. Shapes are row-major, also
// where the bitcast's is not: `relabelled` tells what becomes of them.
typedef struct Plan {
  HlPass *p;
  HlInst *fusion;
  HlComp *body;
  HlInst *bitcast;
  HlInst *outer;        // of the fusion's result, made when an earlier one moved down; NULL: none
  const HlShape *rows;  // of a bitcast that moves up: its result in the order of memory
  bool *inside;         // by id: before the bitcast
  const bool *behind;   // by id, of n_behind: computed from a product
  uint32_t n_behind;
  const HlShape **shape;
  HlI64s *dims;
} Plan;

static bool is_bitcast(const HlInst *inst) {
  return (inst->op == HL_OP_BITCAST || inst->op == HL_OP_RESHAPE) &&
         hl_shape_is_array(inst->shape) && hl_shape_is_array(inst->operands[0]->shape) &&
         inst->shape->dtype == inst->operands[0]->shape->dtype;
}

// Above a bitcast that moves up another one gives whatever order is asked for.
static bool takes_any_order(const Plan *plan, const HlInst *inst) {
  return plan->rows && is_bitcast(inst);
}

static bool wish(Plan *plan, const HlInst *inst, const HlShape *sizes) {
  const HlShape *shape =
      hl_shape_array(plan->p->m->shapes, inst->shape->dtype, sizes->rank, sizes->dim);
  if (!(is_row_major(inst->shape) || takes_any_order(plan, inst)) ||
      (plan->shape[inst->id] && plan->shape[inst->id] != shape))
    return false;
  plan->shape[inst->id] = shape;
  return true;
}

static Plan new_plan(HlPass *p, HlInst *fusion, HlInst *bitcast) {
  HlComp *body = fusion_body(fusion);
  return (Plan){.p = p,
                .fusion = fusion,
                .body = body,
                .bitcast = bitcast,
                .inside = HL_ARRAY(p->arena, bool, body->next_id),
                .shape = HL_ARRAY(p->arena, const HlShape *, body->next_id),
                .dims = HL_ARRAY(p->arena, HlI64s, body->next_id)};
}

static bool keeps_sizes(const HlInst *inst) {
  if (!(hl_op_info[inst->op].traits & HL_T_ELEMENTWISE))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!hl_shape_is_array(inst->operands[k]->shape) ||
        !hl_shape_same_dims(inst->operands[k]->shape, inst->shape))
      return false;
  return true;
}

// What is broadcast has fewer dimensions, in the order of memory.
static bool is_relabelled(const Plan *plan, const HlShape *shape) {
  return plan->rows && !is_row_major(plan->bitcast->shape) && shape->rank == plan->rows->rank;
}

// A planned shape with the dimensions as the bitcast names them.
static const HlShape *relabelled(const Plan *plan, const HlShape *shape) {
  if (!is_relabelled(plan, shape))
    return shape;
  const HlShape *like = plan->bitcast->shape;
  int64_t *sizes = HL_ARRAY(plan->p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    sizes[dim_in_memory(like, k)] = shape->dim[k];
  HlShapes *shapes = plan->p->m->shapes;
  return hl_shape_with_layout(shapes, hl_shape_array(shapes, shape->dtype, shape->rank, sizes),
                              like->layout);
}

// A permutation of the dimensions in the order of memory, as the bitcast names them on both sides.
static HlI64s relabelled_permutation(const Plan *plan, const HlShape *to, HlI64s permutation) {
  if (!is_relabelled(plan, to))
    return permutation;
  const HlShape *like = plan->bitcast->shape;
  int64_t *at = HL_ARRAY(plan->p->arena, int64_t, permutation.n + 1);
  for (int k = 0; k < permutation.n; k++)
    at[dim_in_memory(like, k)] = dim_in_memory(like, permutation.at[k]);
  return (HlI64s){at, permutation.n};
}

// The dimensions of a broadcast to a planned shape as the bitcast names them, which must still count up.
static bool relabel_dims(const Plan *plan, const HlShape *to, HlI64s *dims) {
  if (!is_relabelled(plan, to))
    return true;
  int64_t *at = HL_ARRAY(plan->p->arena, int64_t, dims->n + 1);
  for (int k = 0; k < dims->n; k++) {
    at[k] = dim_in_memory(plan->bitcast->shape, dims->at[k]);
    if (k > 0 && at[k] < at[k - 1])
      return false;
  }
  dims->at = at;
  return true;
}

// Up: what the operands of an instruction with a new shape must be.
static bool plan_operands(Plan *plan, const HlInst *inst) {
  HlArena *arena = plan->p->arena;
  HlShapes *shapes = plan->p->m->shapes;
  const HlShape *to = plan->shape[inst->id];
  Moved moved;
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return is_bitcast(inst);
  switch (inst->op) {
  case HL_OP_PARAMETER: return true;
  case HL_OP_BROADCAST:
    if (!above_broadcast(arena, shapes, inst, to, &moved) || !relabel_dims(plan, to, &moved.dims))
      return false;
    plan->dims[inst->id] = moved.dims;
    return inst->operands[0]->shape->rank == 0 || wish(plan, inst->operands[0], moved.shape);
  case HL_OP_TRANSPOSE:
    if (!through_transpose(arena, shapes, inst->shape, hl_dims(inst), to, &moved))
      return false;
    plan->dims[inst->id] = relabelled_permutation(plan, to, moved.dims);
    return wish(plan, inst->operands[0], moved.shape);
  default:
    for (uint32_t k = 0; keeps_sizes(inst) && k < inst->n_operands; k++)
      if (!wish(plan, inst->operands[k], to))
        return false;
    return keeps_sizes(inst) && inst->n_operands > 0;
  }
}

static bool used_outside(const Plan *plan, const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user != plan->bitcast && !plan->inside[use->user->id])
      return true;
  return inst == plan->body->root;
}

static bool plan_up(Plan *plan) {
  HlInst *bitcast = plan->bitcast;
  plan->rows = in_rows(plan->p->arena, plan->p->m->shapes, bitcast->shape);
  if (!plan->rows || bitcast == plan->body->root || !wish(plan, bitcast->operands[0], plan->rows))
    return false;
  plan->inside[bitcast->operands[0]->id] = true;
  for (const HlInst *inst = bitcast->prev; inst; inst = inst->prev) {
    if (!plan->inside[inst->id])
      continue;
    if (plan->shape[inst->id] && (used_outside(plan, inst) || !plan_operands(plan, inst)))
      return false;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      plan->inside[inst->operands[k]->id] = true;
  }
  return true;
}

// A bitcast of another operand is of use only if it can move on, up.
static bool others_may_follow(const Plan *plan, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const uint32_t id = inst->operands[k]->id;
    if (!plan->shape[id] && id < plan->n_behind && plan->behind[id])
      return false;
  }
  return true;
}

// Down: what an instruction must be that reads one with a new shape.
static bool plan_result(Plan *plan, const HlInst *inst, const HlShape *operand) {
  HlArena *arena = plan->p->arena;
  HlShapes *shapes = plan->p->m->shapes;
  Moved moved;
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return is_bitcast(inst) && is_row_major(inst->shape);
  switch (inst->op) {
  case HL_OP_BROADCAST:
    if (!below_broadcast(arena, shapes, inst, operand, &moved))
      return false;
    plan->dims[inst->id] = moved.dims;
    return wish(plan, inst, moved.shape);
  case HL_OP_TRANSPOSE: {
    const HlI64s order = hl_dims(inst);
    int64_t *inverse = HL_ARRAY(arena, int64_t, order.n + 1);
    for (int k = 0; k < order.n; k++)
      inverse[order.at[k]] = k;
    if (!through_transpose(arena, shapes, inst->operands[0]->shape, (HlI64s){inverse, order.n},
                           operand, &moved))
      return false;
    int64_t *back = HL_ARRAY(arena, int64_t, moved.dims.n + 1);
    for (int k = 0; k < moved.dims.n; k++)
      back[moved.dims.at[k]] = k;
    plan->dims[inst->id] = (HlI64s){back, moved.dims.n};
    return wish(plan, inst, moved.shape);
  }
  default: return keeps_sizes(inst) && others_may_follow(plan, inst) && wish(plan, inst, operand);
  }
}

static bool plan_down(Plan *plan) {
  HlInst *bitcast = plan->bitcast;
  const HlShape *from = bitcast->operands[0]->shape;
  if (!is_row_major(from) || !wish(plan, bitcast, from))
    return false;
  for (const HlInst *inst = bitcast->next; inst; inst = inst->next)
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      const HlShape *operand = plan->shape[inst->operands[k]->id];
      if (operand && !plan_result(plan, inst, operand))
        return false;
    }
  return true;
}

// --- Changes --------------------------------------------------------------------------------------

static HlInst *bitcast_to(HlInst *x, const HlShape *like) {
  const HlShape *shape = hl_shape_with_dtype(x->comp->module->shapes, like, x->shape->dtype);
  return hl_inst_new(x->comp, HL_OP_BITCAST, shape, NULL, 1, &x);
}

// The same outside of the fusion, with the frontend attributes of the fusion.
static HlInst *outer_bitcast(const Plan *plan, HlInst *x, const HlShape *like) {
  HlInst *bitcast = bitcast_to(x, like);
  const HlAttr *frontend = hl_attr(plan->fusion, HL_A_FRONTEND_ATTRIBUTES);
  if (frontend)
    hl_set_attr(bitcast, frontend);
  return bitcast;
}

static void reshape_insts(const Plan *plan, HlInst *const *insts, int n) {
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    if (inst == plan->bitcast || !plan->shape[inst->id])
      continue;
    hl_set_shape(inst, relabelled(plan, plan->shape[inst->id]));
    hl_remove_attr(inst, HL_A_SHARDING);
    if (inst->op == HL_OP_BROADCAST || inst->op == HL_OP_TRANSPOSE)
      hl_set_ints(inst, HL_A_DIMENSIONS, plan->dims[inst->id]);
  }
}

// Bitcasts to the shape that their operand has by now.
static void erase_idle(HlComp *body) {
  for (HlInst *inst = body->first, *next; inst; inst = next) {
    next = inst->next;
    if (!is_bitcast(inst) || inst->shape != inst->operands[0]->shape || inst == body->root)
      continue;
    hl_replace_uses(inst, inst->operands[0]);
    hl_erase(inst);
  }
}

static void drop_bitcast(const Plan *plan) {
  hl_replace_uses(plan->bitcast, plan->bitcast->operands[0]);
  hl_erase(plan->bitcast);
  erase_idle(plan->body);
}

static void move_up(const Plan *plan) {
  int n;
  HlInst **insts = hl_pass_insts(plan->p, plan->body, &n);
  reshape_insts(plan, insts, n);
  for (int k = 0; k < plan->body->n_params; k++) {
    const HlInst *param = plan->body->params[k];
    const HlShape *shape = plan->shape[param->id] ? param->shape : NULL;
    HlInst *outer = plan->fusion->operands[k];
    if (shape &&
        !(hl_shape_same_dims(shape, outer->shape) && hl_shape_same_order(shape, outer->shape)))
      hl_set_operand(plan->fusion, k, outer_bitcast(plan, outer, shape));
  }
  drop_bitcast(plan);
}

// Operands that do not come from the bitcast get one of their own.
static void adapt_operands(const Plan *plan, HlInst *inst) {
  if (inst == plan->bitcast || !plan->shape[inst->id] || !keeps_sizes(inst))
    return;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!plan->shape[inst->operands[k]->id])
      hl_set_operand(inst, (int)k, bitcast_to(inst->operands[k], plan->shape[inst->id]));
}

// The fusion results in this shape now; users read it as before, by one bitcast whatever moves out.
static void change_result(Plan *plan, const HlShape *shape) {
  HlInst *fusion = plan->fusion;
  if (!plan->outer || !hl_alive(plan->outer)) {
    plan->outer = bitcast_to(fusion, fusion->shape);
    hl_inherit(plan->outer, fusion);
    hl_replace_uses(fusion, plan->outer);
  }
  hl_set_shape(fusion, shape);
  hl_remove_attr(fusion, HL_A_SHARDING);
}

static void move_down(Plan *plan) {
  int n;
  HlInst **insts = hl_pass_insts(plan->p, plan->body, &n);
  const HlShape *root = plan->shape[plan->body->root->id];
  for (int k = 0; k < n; k++)
    adapt_operands(plan, insts[k]);
  reshape_insts(plan, insts, n);
  drop_bitcast(plan);
  if (root)
    change_result(plan, root);
}

// What stands at the border of the body goes out whatever the order of dimensions: nothing else sees it.
static bool is_at_border(const Plan *plan, bool is_down) {
  const HlInst *bitcast = plan->bitcast, *operand = bitcast->operands[0];
  if (is_down)
    return bitcast == plan->body->root && operand->op != HL_OP_PARAMETER;
  return operand->op == HL_OP_PARAMETER && hl_one_user(operand) && bitcast != plan->body->root;
}

static void move_out(Plan *plan, bool is_down) {
  HlInst *operand = plan->bitcast->operands[0];
  const HlShape *shape = plan->bitcast->shape;
  if (!is_down) {
    const int k = (int)hl_parameter_number(operand);
    hl_set_operand(plan->fusion, k, outer_bitcast(plan, plan->fusion->operands[k], shape));
    hl_set_shape(operand, shape);
  }
  drop_bitcast(plan);
  if (is_down)
    change_result(plan, operand->shape);
}

// --- The pass -------------------------------------------------------------------------------------

static bool is_product(const HlInst *inst) {
  return inst->op == HL_OP_DOT || inst->op == HL_OP_SCALED_DOT;
}

// Not cuDNN's own fusions, which want their dimensions as they are.
static bool is_for_pass(const HlInst *inst) {
  if (inst->calls[0].comp->first_call->next || hl_fusion_code(inst) == HL_FUSION_CUDNN ||
      hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING) || !hl_shape_is_array(inst->shape))
    return false;
  const HlComp *body = hl_called(inst, 0);
  return hl_comp_may_have(body, HL_OP_DOT) || hl_comp_may_have(body, HL_OP_SCALED_DOT);
}

static bool *find_behind(HlPass *p, const HlComp *body) {
  bool *behind = HL_ARRAY(p->arena, bool, body->next_id);
  for (const HlInst *inst = body->first; inst; inst = inst->next) {
    behind[inst->id] = is_product(inst);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      behind[inst->id] |= behind[inst->operands[k]->id];
  }
  return behind;
}

static void move(Plan *plan, bool is_down) {
  const bool at_border = is_at_border(plan, is_down);
  if ((!at_border && !(is_down ? plan_down(plan) : plan_up(plan))) ||
      !hl_change(plan->p, is_down ? "down" : "up", plan->bitcast, plan->fusion))
    return;
  if (at_border)
    move_out(plan, is_down);
  else if (is_down)
    move_down(plan);
  else
    move_up(plan);
  if (!hl_changed(plan->p))
    plan->outer = NULL;
}

// Down first: what is moved there may ask for bitcasts of parameters, which then go up.
static void visit(HlPass *p, HlInst *fusion) {
  if (!is_for_pass(fusion))
    return;
  HlInst *outer = NULL;
  for (int is_down = 1; is_down >= 0; is_down--) {
    HlComp *body = fusion_body(fusion);
    int n;
    HlInst **insts = hl_pass_insts(p, body, &n);
    const uint32_t n_ids = body->next_id;
    const bool *behind = find_behind(p, body);
    for (int k = n - 1; k >= 0; k--) {
      if (!hl_alive(insts[k]) || !is_bitcast(insts[k]) || behind[insts[k]->id] != (is_down == 1))
        continue;
      const HlMark mark = hl_arena_mark(p->arena);
      Plan plan = new_plan(p, fusion, insts[k]);
      plan.behind = behind;
      plan.n_behind = n_ids;
      plan.outer = outer;
      move(&plan, is_down == 1);
      outer = plan.outer;
      hl_arena_release(p->arena, mark);
    }
  }
}

bool pass_hoist_fused_bitcasts(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_FUSION, visit);
  return true;
}
