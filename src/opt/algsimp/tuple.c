// opt/algsimp/tuple.c: algebraic rules of sorts, maps, tuples and collectives (E18 to E21), and of
// maxima found beside their places (E10).
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"

// --- Sorts ---------------------------------------------------------------------------------------

HlInst *alg_e18_short_sort(HlPass *p, HlBuild *b, HlInst *sort) {
  const HlShape *x = sort->operands[0]->shape;
  if (!all_static(sort) || x->rank == 0)
    return NULL;
  if (x->dim[hl_dim(sort)] > 1 && hl_shape_elements(x) != 0)
    return NULL;
  if (sort->shape->dtype != HL_TUPLE)
    return alg_existing(p, sort, sort->operands[0]);
  return hl_b_tuple(b, (int)sort->n_operands, sort->operands);
}

// --- Tuples --------------------------------------------------------------------------------------

HlInst *alg_e19_element(HlPass *p, HlBuild *b, HlInst *element) {
  (void)b;
  HlInst *tuple = element->operands[0];
  if (tuple->op != HL_OP_TUPLE || hl_has_control(tuple))
    return NULL;
  return alg_existing(p, element, tuple->operands[hl_attr_int(element, HL_A_INDEX)]);
}

// Which elements of a barrier's tuple somebody takes; false if somebody takes the tuple.
static bool find_taken(const HlInst *barrier, bool *taken, int *n) {
  *n = 0;
  if (barrier->comp->root == barrier)
    return false;
  for (const HlUse *use = barrier->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
    int64_t k = hl_attr_int(use->user, HL_A_INDEX);
    *n += !taken[k];
    taken[k] = true;
  }
  return true;
}

// Elements of an opt-barrier that nobody takes do not pass through it.
HlInst *alg_e19_barrier(HlPass *p, HlBuild *b, HlInst *barrier) {
  HlInst *tuple = barrier->operands[0];
  if (tuple->op != HL_OP_TUPLE || hl_has_control(barrier) || hl_sharding(barrier))
    return NULL;
  int all = (int)tuple->n_operands, n;
  bool *taken = HL_ARRAY(p->arena, bool, all + 1);
  if (!find_taken(barrier, taken, &n) || n == all || n == 0)
    return NULL;
  HlInst **kept = HL_ARRAY(p->arena, HlInst *, n), **out = HL_ARRAY(p->arena, HlInst *, all);
  for (int k = 0, next = 0; k < all; k++)
    if (taken[k])
      kept[next++] = tuple->operands[k];
  HlInst *smaller = hl_b_tuple(b, n, kept);
  smaller = hl_b_op(b, HL_OP_OPT_BARRIER, NULL, 1, &smaller, 0, NULL, 0, NULL);
  for (int k = 0, next = 0; k < all; k++)
    out[k] = taken[k] ? hl_b_element(b, smaller, next++) : tuple->operands[k];
  return hl_b_tuple(b, all, out);
}

// --- Maps ----------------------------------------------------------------------------------------

HlInst *alg_e20_inline(HlPass *p, HlBuild *b, HlInst *map) {
  HlInst *root = hl_to_apply(map)->root;
  if (!all_static(map))
    return NULL;
  if (root->op == HL_OP_PARAMETER)
    return alg_existing(p, map, map->operands[hl_parameter_number(root)]);
  if (root->op == HL_OP_CONSTANT)
    return alg_spread(b, hl_inst_copy(b->comp, root, NULL, 0, NULL), map->shape);
  if (!hl_is_elementwise(root) || root->n_operands == 0 || root->n_calls > 0)
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, root->n_operands);
  for (uint32_t k = 0; k < root->n_operands; k++) {
    const HlInst *param = root->operands[k];
    if (param->op != HL_OP_PARAMETER)
      return NULL;
    operands[k] = map->operands[hl_parameter_number(param)];
  }
  return hl_inst_copy(b->comp, root, map->shape, (int)root->n_operands, operands);
}

// --- Collectives ---------------------------------------------------------------------------------

HlInst *alg_e21_of_constant(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (inst->n_operands != 1 || !hl_shape_is_array(inst->shape) || !all_static(inst))
    return NULL;
  HlInst *scalar = hl_scalar_broadcast(inst->operands[0]);
  if (!scalar || !hl_is_constant(scalar))
    return NULL;
  return alg_spread(b, scalar, inst->shape);
}

// --- A maximum beside its place ------------------------------------------------------------------

static bool is_compare(const HlInst *inst, int64_t direction, const HlInst *x, const HlInst *y) {
  return inst->op == HL_OP_COMPARE && hl_attr_int(inst, HL_A_DIRECTION) == direction &&
         inst->operands[0] == x && inst->operands[1] == y;
}

// x is taken rather than y: x beats y, or is a nan.
static bool prefers(const HlInst *inst, int64_t direction, const HlInst *x, const HlInst *y) {
  return inst->op == HL_OP_OR && ((is_compare(inst->operands[0], direction, x, y) &&
                                   is_compare(inst->operands[1], HL_WORD_direction_NE, x, x)) ||
                                  (is_compare(inst->operands[1], direction, x, y) &&
                                   is_compare(inst->operands[0], HL_WORD_direction_NE, x, x)));
}

// (x, i, y, j) -> (select(x beats y or is nan, x, y), ...), as JAX writes argmax.
static bool finds_extreme(const HlComp *comp, int64_t direction) {
  const HlInst *root = comp->root;
  if (comp->n_params != 4 || root->op != HL_OP_TUPLE || root->n_operands != 2)
    return false;
  const HlInst *pick = root->operands[0], *x = comp->params[0], *y = comp->params[2];
  return pick->op == HL_OP_SELECT && pick->operands[1] == x && pick->operands[2] == y &&
         prefers(pick->operands[0], direction, x, y);
}

enum { MOST_USES = 64 };  // that are looked through: many maxima of one array stay cheap

static HlInst *find_argmax(const HlInst *reduce, int64_t direction) {
  const HlInst *x = reduce->operands[0];
  int n = 0;
  for (const HlUse *use = x->first_use; use && n < MOST_USES; use = use->next, n++) {
    HlInst *other = use->user;
    if (other->op == HL_OP_REDUCE && other->n_operands == 4 && use->number == 0 &&
        other->operands[1]->op == HL_OP_IOTA && hl_is_constant(other->operands[2]) &&
        hl_is_constant(other->operands[3]) &&
        hl_literal_equal(hl_constant(other->operands[2]), hl_constant(reduce->operands[1])) &&
        hl_i64s_equal(hl_dims(other), hl_dims(reduce)) &&
        finds_extreme(hl_to_apply(other), direction))
      return other;
  }
  return NULL;
}

HlInst *alg_e10_beside_argmax(HlPass *p, HlBuild *b, HlInst *reduce) {
  if (alg_sensitive(p) || reduce->n_operands != 2 || !hl_shape_is_array(reduce->shape) ||
      !hl_is_constant(reduce->operands[1]) || !hl_is_float(reduce->shape->dtype))
    return NULL;
  HlOp op = hl_reducer(hl_to_apply(reduce));
  if (op != HL_OP_MAXIMUM && op != HL_OP_MINIMUM)
    return NULL;
  double worst = hl_literal_f64(hl_constant(reduce->operands[1]), 0);
  if (!(op == HL_OP_MAXIMUM ? worst < -1e308 : worst > 1e308))
    return NULL;
  HlInst *both =
      find_argmax(reduce, op == HL_OP_MAXIMUM ? HL_WORD_direction_GT : HL_WORD_direction_LT);
  return both ? hl_b_element(b, both, 0) : NULL;
}
