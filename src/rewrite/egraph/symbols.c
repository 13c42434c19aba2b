// rewrite/egraph/symbols.c: what nodes are of: op, shape, attributes; which instructions stay as they are.
//
// Names, metadata, places in the source and layouts have no part in it: rewriting comes before layouts mean something. What reads
// memory as it lies (a bitcast, a fusion) is pinned with its operands, and so is all that must neither be doubled, nor left out, nor moved
// to elsewhere: side effects, collectives, random numbers, what has control edges, a sharding or frontend attributes, sizes that
// are known at run time only, constants whose value is not known.

#include "hilo/custom_calls.h"
#include "rewrite/egraph/egraph.h"

// --- What stays as it is ------------------------------------------------------------------------------

static bool differs_each_time(const HlInst *inst) {
  return inst->op == HL_OP_RNG || inst->op == HL_OP_RNG_GET_AND_UPDATE_STATE;
}

static bool is_elided(const HlInst *inst) {
  const HlLiteral *value = inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  return inst->op == HL_OP_CONSTANT && (!value || hl_literal_is_elided(value));
}

static bool is_read_as_memory(const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (hl_reads_memory(use->user))
      return true;
  return false;
}

static bool has_dynamic_size(const HlInst *inst) {
  bool dynamic = hl_shape_is_dynamic(inst->shape);
  for (uint32_t k = 0; !dynamic && k < inst->n_operands; k++)
    dynamic = hl_shape_is_dynamic(inst->operands[k]->shape);
  return dynamic;
}

bool eg_is_pinned(const HlInst *inst) {
  const uint32_t kinds =
      HL_T_COLLECTIVE | HL_T_DEVICE | HL_T_ASYNC | HL_T_SIDE_EFFECT | HL_T_PINNED;
  return hl_op_is((HlOp)inst->op, kinds) || inst->op == HL_OP_PARAMETER ||
         hl_is_async((HlOp)inst->op) || hl_op_marks((HlOp)inst->op) || !hl_is_pure(inst) ||
         differs_each_time(inst) || hl_has_control(inst) || hl_sharding(inst) ||
         hl_has_attr(inst, HL_A_FRONTEND_ATTRIBUTES) || is_elided(inst) || hl_reads_memory(inst) ||
         is_read_as_memory(inst) || has_dynamic_size(inst) || hl_call_has(inst, HL_CALL_BORDER) ||
         inst->op == HL_OP_ALTERNATIVES;
}

// --- Symbols --------------------------------------------------------------------------------------------

static bool counts(const HlAttr *attr) {
  return attr->key != HL_A_METADATA && attr->key != HL_A_ORIGIN && attr->key != HL_A_STATISTICS;
}

// In the home module, where an intermediate value's layout is the default one.
static const HlShape *home_shape(HlEgraph *eg, const HlShape *shape) {
  return hl_shape_with_default_layout(
      eg->home->shapes,
      hl_shape_without_layout(eg->home->shapes, hl_shape_intern(eg->home->shapes, shape)));
}

static uint64_t hash_of(HlOp op, const HlShape *shape, int n, const HlAttr *attrs) {
  uint64_t h = hl_hash_mix((uint64_t)op + 1, shape->hash);
  for (int k = 0; k < n; k++)
    if (counts(&attrs[k]))
      h = hl_hash_mix(h, hl_attr_hash(&attrs[k]));
  return h;
}

static int next_counting(int k, int n, const HlAttr *attrs) {
  while (k < n && !counts(&attrs[k]))
    k++;
  return k;
}

static bool same_attrs(int n, const HlAttr *a, int m, const HlAttr *b) {
  int i = next_counting(0, n, a), j = next_counting(0, m, b);
  while (i < n && j < m) {
    if (a[i].key != b[j].key || !hl_attr_equal(&a[i], &b[j]))
      return false;
    i = next_counting(i + 1, n, a);
    j = next_counting(j + 1, m, b);
  }
  return i == n && j == m;
}

static uint32_t find(const HlEgraph *eg, uint64_t hash, HlOp op, const HlShape *shape, int n,
                     const HlAttr *attrs) {
  MapWalk walk = map_walk(&eg->symbol_by_hash, hash);
  for (uint64_t found; (found = map_next(&walk));) {
    const HlInst *proto = eg->symbols.at[found - 1].proto;
    if (proto->op == op && proto->shape == shape &&
        same_attrs(proto->n_attrs, proto->attrs, n, attrs))
      return (uint32_t)(found - 1);
  }
  return NONE;
}

static uint32_t add(HlEgraph *eg, uint64_t hash, HlInst *proto) {
  const Symbol symbol = {.proto = proto, .hash = hash};
  vec_push_in(eg->arena, &eg->symbols, symbol);
  map_add(&eg->symbol_by_hash, hash, (uint64_t)eg->symbols.n);
  return (uint32_t)eg->symbols.n - 1;
}

static HlInst *proto_of(HlEgraph *eg, const HlInst *inst, const HlShape *shape) {
  HlInst *proto = hl_inst_new(eg->protos, (HlOp)inst->op, shape, eg->plain, 0, NULL);
  hl_copy_attrs(proto, inst);
  hl_remove_attr(proto, HL_A_METADATA);
  hl_remove_attr(proto, HL_A_ORIGIN);
  hl_remove_attr(proto, HL_A_STATISTICS);
  return proto;
}

uint32_t eg_symbol_of(HlEgraph *eg, const HlInst *inst) {
  const HlShape *shape = home_shape(eg, inst->shape);
  const uint64_t hash = hash_of((HlOp)inst->op, shape, inst->n_attrs, inst->attrs);
  const uint32_t found = find(eg, hash, (HlOp)inst->op, shape, inst->n_attrs, inst->attrs);
  return found != NONE ? found : add(eg, hash, proto_of(eg, inst, shape));
}

uint32_t eg_symbol_pinned(HlEgraph *eg, HlInst *inst) {
  const HlShape *shape = hl_shape_intern(eg->home->shapes, inst->shape);
  const Symbol symbol = {.proto = proto_of(eg, inst, shape),
                         .hash = hl_hash_mix((uint64_t)eg->symbols.n, 11),
                         .pinned = true,
                         .pin = inst};
  vec_push_in(eg->arena, &eg->symbols, symbol);
  return (uint32_t)eg->symbols.n - 1;
}

uint32_t eg_symbol_int(HlEgraph *eg, HlOp op, const HlShape *shape, HlAttrKey key, int64_t value) {
  const HlAttr attr = {.key = key, .i = value};
  shape = home_shape(eg, shape);
  const uint64_t hash = hash_of(op, shape, 1, &attr);
  const uint32_t found = find(eg, hash, op, shape, 1, &attr);
  if (found != NONE)
    return found;
  HlInst *proto = hl_inst_new(eg->protos, op, shape, eg->plain, 0, NULL);
  hl_set_int(proto, key, value);
  return add(eg, hash, proto);
}
