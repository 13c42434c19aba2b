// opt/call/map_inline.c: map-inline: a map of a single operation is that operation on whole arrays.
//
//   m = f32[4] map(x, y), to_apply={add}        =>   m = f32[4] add(x, y)

#include "hilo/pass.h"

static bool reads_parameters(const HlInst *root) {
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k]->op != HL_OP_PARAMETER)
      return false;
  return root->n_operands > 0;
}

// Whether what the op does to a scalar it does to each element of an array.
static bool goes_elementwise(const HlInst *root) {
  return hl_is_elementwise(root) || root->op == HL_OP_COPY || root->op == HL_OP_BITCAST_CONVERT;
}

static bool has_effects(const HlComp *body) {
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (!hl_is_pure(inst) || hl_has_control(inst))
      return true;
  return false;
}

static HlInst *inline_map(HlPass *p, HlBuild *b, HlInst *map) {
  const HlInst *root = hl_to_apply(map)->root;
  if (has_effects(hl_to_apply(map)) || !hl_shape_is_array(map->shape) ||
      hl_shape_is_dynamic(map->shape))
    return NULL;
  if (root->op == HL_OP_PARAMETER)
    return map->operands[hl_parameter_number(root)];
  if (root->op == HL_OP_CONSTANT)
    return hl_b_broadcast(b, hl_constant_new(b->comp, hl_constant(root), NULL), map->shape->rank,
                          map->shape->dim, (HlI64s){NULL, 0});
  if (!goes_elementwise(root) || !reads_parameters(root))
    return NULL;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, root->n_operands);
  for (uint32_t k = 0; k < root->n_operands; k++)
    operands[k] = map->operands[hl_parameter_number(root->operands[k])];
  return hl_inst_copy(map->comp, root, map->shape, (int)root->n_operands, operands);
}

const HlRule map_inline_rules[] = {
    {HL_OP_MAP, inline_map, "map-inline", "map(x..., f) => f(x...)",
     "f is one elementwise op, a parameter or a constant"},
    {0},
};
