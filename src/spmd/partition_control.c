// spmd/partition_control.c: parameters, loops, branches, calls, and the calls that say how to
// partition.

#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "spmd/partition.h"

// --- Parameters -----------------------------------------------------------------------------------

// Products and convolutions read tiles: what they take as it comes is said to be cut in tiles, not by names of axes.
static void say_tiles(PartComp *c, const HlInst *inst, HlInst *p, const HlTiles *tiles) {
  bool is_read = false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    is_read |= use->user->op == HL_OP_DOT || use->user->op == HL_OP_CONVOLUTION;
  if (!is_read || !hl_sharding(p) || hl_sharding(p)->kind != HL_SHARDING_NAMED)
    return;
  const HlAttr attr = {.key = HL_A_SHARDING, .ptr = hl_tiles_sharding(c->pt->m, tiles)};
  hl_set_attr(p, &attr);
}

// What says nothing is whole.
static void say_replicated(PartComp *c, HlInst *p) {
  HlSharding *whole = HL_NEW(c->pt->m->arena, HlSharding);
  whole->kind = HL_SHARDING_REPLICATED;
  const HlAttr attr = {.key = HL_A_SHARDING, .ptr = whole};
  hl_set_attr(p, &attr);
}

// A parameter is as the caller gives it: a call's by the operands, the entry's by its own sharding.
bool part_parameter(PartComp *c, HlInst *inst) {
  const int64_t number = hl_parameter_number(inst);
  const HlTiles *const *tiles = NULL;
  if (c->argument) {
    int64_t first = 0;
    for (int64_t k = 0; k < number; k++)
      first += hl_shape_leaves(c->from->params[k]->shape);
    tiles = c->argument + first;
  } else {
    tiles = part_tiles(c, inst);
  }
  if (!tiles)
    return false;
  HlInst *p = hl_parameter_new(c->to, number, part_local_shape(c->pt, inst->shape, tiles),
                               hl_fresh_name(c->pt->m, "param"));
  hl_copy_attrs(p, inst);
  hl_set_int(p, HL_A_PARAMETER_NUMBER, number);
  hl_set_loc(p, inst->loc);
  if (c->below)
    hl_remove_attr(p, HL_A_SHARDING);
  else if (hl_shape_is_array(inst->shape) && !hl_sharding(inst))
    say_replicated(c, p);
  else if (hl_shape_is_array(inst->shape))
    say_tiles(c, inst, p, tiles[0]);
  return hl_sharding(inst) && c->argument ? part_set_leaves(c, inst, p, tiles)
                                          : part_keep(c, inst, p, tiles);
}

// --- Loops, branches, calls -----------------------------------------------------------------------

static HlComp *enter(PartComp *c, const HlComp *from, const HlTiles *const *argument,
                     const HlTiles *const *result) {
  const char *name = hl_arena_printf(c->pt->arena, "%s_spmd", from->name->text);
  return part_enter(c->pt, from, name, argument, result)->to;
}

static HlInst *with_calls(HlInst *copy, int n, HlComp *const *comps) {
  if (copy)
    hl_set_calls(copy, n, comps);
  return copy;
}

static PartBodies enter_loop(PartComp *c, const HlInst *loop, const HlTiles *const *own) {
  const HlTiles **scalar = HL_NEW(c->pt->arena, const HlTiles *);
  *scalar = part_uncut(c->pt, hl_shape_leaves(loop->shape) > 0 ? own[0] : NULL, 0);
  PartBodies copies;
  copies.condition = enter(c, hl_while_condition(loop), own, scalar);
  copies.body = enter(c, hl_while_body(loop), own, own);
  return copies;
}

bool part_enter_loops(PartComp *c) {
  c->loop = HL_ARRAY(c->pt->arena, PartBodies, c->from->next_id + 1);
  for (const HlInst *inst = c->from->last; inst; inst = inst->prev) {
    if (inst->op != HL_OP_WHILE || !hl_sharding(inst))
      continue;
    const HlTiles *const *own = part_tiles(c, inst);
    if (!own)
      return false;
    c->loop[inst->id] = enter_loop(c, inst, own);
  }
  return true;
}

// What a loop carries is cut all along as the loop says.
bool part_while(PartComp *c, HlInst *inst) {
  const HlTiles *const *own =
      hl_sharding(inst) ? part_tiles(c, inst) : part_value(c, hl_operand(inst, 0))->tiles;
  HlInst *init = own ? part_value_as(c, hl_operand(inst, 0), own) : NULL;
  if (!init)
    return false;
  HlInst *copy = part_copy_anew(c, inst, init->shape, 1, &init);
  const PartBodies copies = c->loop[inst->id].body ? c->loop[inst->id] : enter_loop(c, inst, own);
  HlComp *comps[] = {copies.body, copies.condition};
  return part_keep(c, inst, with_calls(copy, 2, comps), own);
}

bool part_conditional(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  HlComp **comps = HL_ARRAY(c->pt->arena, HlComp *, inst->n_calls + 1);
  operand[0] =
      part_operand(c, inst, 0, part_uncut(c->pt, part_tiles_now(c, hl_operand(inst, 0)), 0));
  for (int k = 1; k < n; k++)
    operand[k] = part_value(c, hl_operand(inst, k))->local;
  HlInst *copy = part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, own), n, operand);
  for (int k = inst->n_calls - 1; copy && k >= 0; k--)
    comps[k] = enter(c, hl_called(inst, k), part_value(c, hl_operand(inst, k + 1))->tiles, own);
  return copy && part_keep(c, inst, with_calls(copy, inst->n_calls, comps), own);
}

bool part_call(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  int64_t n_leaves = 0, at = 0;
  for (int k = 0; k < n; k++)
    n_leaves += part_value(c, hl_operand(inst, k))->n;
  const HlTiles **argument = HL_ARRAY(c->pt->arena, const HlTiles *, n_leaves + 1);
  for (int k = 0; own && k < n; k++) {
    const PartValue *v = part_value(c, hl_operand(inst, k));
    operand[k] = v->local;
    for (int l = 0; l < v->n; l++)
      argument[at++] = v->tiles[l];
  }
  if (!own)
    return false;
  HlInst *copy = part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, own), n, operand);
  HlComp *comp = copy ? enter(c, hl_to_apply(inst), argument, own) : NULL;
  return copy && part_keep(c, inst, with_calls(copy, 1, &comp), own);
}

// --- Custom calls ---------------------------------------------------------------------------------

// From here on the device's part counts as an array of its own, or such arrays count as parts of
// one.
static bool change_view(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  const HlShape *shape = part_local_shape(c->pt, inst->shape, own);
  HlInst *x = part_value(c, hl_operand(inst, 0))->local;
  if (!hl_shape_compatible(x->shape, shape))
    return hl_inst_error(c->pt->p->cx, inst,
                         "a device's part of the operand is %s, of the result %s",
                         hl_shape_text(c->pt->p->cx, x->shape), hl_shape_text(c->pt->p->cx, shape));
  return part_keep(c, inst, hl_b_op(&c->b, HL_OP_COPY, x->shape, 1, &x, 0, NULL, 0, NULL), own);
}

// Arrays of which a call says that it does the same for each element of their leading dimensions:
// those may be cut.
static int64_t batch_dims(const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "num_batch_dims") == 0)
      return strtoll(dict->value[k]->text, NULL, 10);
  return 0;
}

static bool has_batch(const HlShape *shape, const HlShape *like, int64_t n) {
  if (!hl_shape_is_array(shape) || shape->rank < n || hl_shape_is_dynamic(shape))
    return false;
  for (int64_t k = 0; k < n; k++)
    if (shape->dim[k] != like->dim[k])
      return false;
  return true;
}

// The cuts of the batch dimensions, as one of an array of another rank.
static const HlTiles *batch_tiles(Part *pt, const HlTiles *t, int64_t n, int rank) {
  int *from = HL_ARRAY(pt->arena, int, rank + 1);
  for (int k = 0; k < rank; k++)
    from[k] = k < n ? k : -1;
  return hl_tiles_map(pt->arena, t, rank, from);
}

static void fit_layouts(Part *pt, HlInst *copy, int n, HlInst **operand) {
  const HlAttr *wish = copy ? hl_attr(copy, HL_A_OPERAND_LAYOUT_CONSTRAINTS) : NULL;
  if (!wish || wish->shapes.n != n)
    return;
  const HlShape **shape = HL_ARRAY(pt->m->arena, const HlShape *, n + 1);
  for (int k = 0; k < n; k++)
    shape[k] = hl_shape_with_layout(pt->m->shapes, operand[k]->shape, wish->shapes.at[k]->layout);
  hl_set_attr(copy, &(HlAttr){.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {shape, n}});
}

static bool batched_call(PartComp *c, HlInst *inst, int64_t n_batch) {
  Part *pt = c->pt;
  const HlTiles *const *own = part_tiles(c, inst);
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  const int n = (int)inst->n_operands, n_results = is_tuple ? inst->shape->rank : 1;
  const HlShape *first = n > 0 ? hl_operand(inst, 0)->shape : NULL;
  bool fits =
      own && n_results > 0 && first && has_batch(first, first, n_batch) && own[0]->unreduced == 1;
  for (int k = 1; fits && k < n; k++)
    fits = has_batch(hl_operand(inst, k)->shape, first, n_batch);
  for (int k = 0; fits && k < n_results; k++)
    fits = has_batch(is_tuple ? inst->shape->element[k] : inst->shape, first, n_batch);
  if (!fits)
    return own && part_default(c, inst);
  HlInst **operand = HL_ARRAY(pt->arena, HlInst *, n + 1);
  const HlTiles **tiles = HL_ARRAY(pt->arena, const HlTiles *, n_results + 1);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k,
                              batch_tiles(pt, own[0], n_batch, hl_operand(inst, k)->shape->rank));
  for (int k = 0; k < n_results; k++)
    tiles[k] = batch_tiles(pt, own[0], n_batch, own[k]->rank);
  HlInst *copy = part_copy_anew(c, inst, part_local_shape(pt, inst->shape, tiles), n, operand);
  fit_layouts(pt, copy, n, operand);
  if (copy)
    hl_remove_attr(copy, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  return part_set_leaves(c, inst, copy, tiles);
}

// Every device calls with what it has of the operands, even where the call is said to be one device's.
static bool call_with_parts(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operand[k] = part_value(c, hl_operand(inst, k))->local;
  HlInst *copy =
      own ? part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, own), n, operand) : NULL;
  fit_layouts(c->pt, copy, n, operand);
  return part_set_leaves(c, inst, copy, own);
}

bool part_custom_call(PartComp *c, HlInst *inst) {
  bool asked;
  const bool done = part_asked(c, inst, &asked);
  if (asked)
    return done;
  if (hl_is_call(inst, HL_CALL_PYTHON_PARTS))
    return call_with_parts(c, inst);
  if (hl_call_has(inst, HL_CALL_BORDER))
    return change_view(c, inst);
  if (hl_is_call(inst, HL_CALL_SHARDING) && inst->n_operands == 1) {
    const PartValue *v = part_value(c, hl_operand(inst, 0));
    return part_set_leaves(c, inst, v->local, v->tiles);
  }
  if (part_is_topk_call(c, inst))
    return part_topk_call(c, inst);
  const int64_t n_batch = batch_dims(inst);
  return n_batch > 0 ? batched_call(c, inst, n_batch) : part_default(c, inst);
}

// --- One device -----------------------------------------------------------------------------------

static const HlSharding *maximal(const HlInst *inst) {
  const HlSharding *s = hl_sharding(inst);
  for (int k = 0; s && s->kind == HL_SHARDING_TUPLE && k < s->n_elements; k++)
    if (s->element[k]->kind == HL_SHARDING_MAXIMAL)
      return s->element[k];
  return s && s->kind == HL_SHARDING_MAXIMAL ? s : NULL;
}

// Zeros of a shape; tokens anew.
static HlInst *nothing(HlBuild *b, HlArena *arena, const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    HlInst **element = HL_ARRAY(arena, HlInst *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = nothing(b, arena, shape->element[k]);
    return hl_b_tuple(b, shape->rank, element);
  }
  if (!hl_shape_is_array(shape))
    return hl_b_op(b, HL_OP_AFTER_ALL, shape, 0, NULL, 0, NULL, 0, NULL);
  HlInst *zero = hl_b_scalar_int(b, shape->dtype, 0);
  return shape->rank ? hl_b_broadcast(b, zero, shape->rank, shape->dim, (HlI64s){0}) : zero;
}

// Sums up over all devices what all but one have zeros for.
static HlInst *everybodys(PartComp *c, HlInst *x, const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    HlInst **element = HL_ARRAY(c->pt->arena, HlInst *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = everybodys(c, hl_b_element(&c->b, x, k), shape->element[k]);
    return hl_b_tuple(&c->b, shape->rank, element);
  }
  if (!hl_shape_is_array(shape))
    return x;
  const HlTiles *t = part_replicated(c->pt, shape->rank);
  return part_all_reduce_op(c, x, shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                            part_groups_of_dim(c, t, t->rank + 2));
}

// What must happen on one device alone happens in a branch; the others have zeros, and then the
// result is everybody's.
bool part_one_device(PartComp *c, HlInst *inst) {
  const HlSharding *on = maximal(inst);
  if (!on || hl_is_call(inst, HL_CALL_PYTHON_PARTS))
    return false;
  Part *pt = c->pt;
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(pt->arena, HlInst *, n + 1),
         **param = HL_ARRAY(pt->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    const PartValue *v = part_value(c, hl_operand(inst, k));
    const HlTiles **whole = HL_ARRAY(pt->arena, const HlTiles *, v->n + 1);
    for (int l = 0; l < v->n; l++)
      whole[l] = part_uncut(pt, NULL, v->tiles[l]->rank);
    operand[k] = part_value_as(c, hl_operand(inst, k), whole);
  }
  HlInst *arg = hl_b_tuple(&c->b, n, operand);
  HlBuild does = hl_b_nested(&c->b, "on_one_device"), waits = hl_b_nested(&c->b, "elsewhere");
  HlInst *given = arg ? hl_b_parameter(&does, arg->shape, "given") : NULL;
  if (!given || !hl_b_parameter(&waits, arg->shape, "given"))
    return false;
  for (int k = 0; k < n; k++)
    param[k] = hl_b_element(&does, given, k);
  HlInst *copy = hl_inst_copy(does.comp, inst, NULL, n, param);
  hl_remove_attr(copy, HL_A_SHARDING);
  hl_set_root(does.comp, copy);
  HlInst *zero = nothing(&waits, pt->arena, inst->shape);
  if (!zero)
    return false;
  hl_set_root(waits.comp, zero);
  HlInst *here = hl_b_compare(&c->b, HL_WORD_direction_EQ, part_id(c),
                              hl_b_scalar_int(&c->b, HL_U32, on->device));
  HlInst *operands[] = {here, arg, arg};
  HlComp *comps[] = {does.comp, waits.comp};
  HlInst *x = hl_b_op(&c->b, HL_OP_CONDITIONAL, inst->shape, 3, operands, 0, NULL, 2, comps);
  x = x ? everybodys(c, x, inst->shape) : NULL;
  const HlTiles *const *own = part_tiles(c, inst);
  return x && own && part_keep(c, inst, x, own);
}
