// rewrite/egraph/import.c: computations into regions.
//
// A region has classes of its own: equal nodes of two computations are two nodes, for a value of one cannot be had in the other.
// Two computations that are the same, node by node, are one region, though, so that reductions by two copies of a sum, or two
// loops of equal bodies, are alike.

#include <string.h>

#include "rewrite/egraph/egraph.h"

// --- What a computation is made of ------------------------------------------------------------------------

static void put(HlBuf *out, uint32_t word) {
  hl_buf_add(out, &word, sizeof word);
}

// Words that two computations have in common only if they are the same: symbols, regions, places of operands, in the order of the graph.
// Nothing of one that has something pinned beside its parameters.
static bool describe(HlEgraph *eg, const HlComp *comp, const uint32_t *symbol, Map *known,
                     HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlInst **order = hl_post_order(arena, comp);
  uint32_t *place = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  bool ok = comp != eg->module->entry;
  put(out, (uint32_t)comp->n_params);
  for (uint32_t k = 0; ok && k < comp->n_insts; k++) {
    const HlInst *inst = order[k];
    place[inst->id] = k;
    ok = inst->op == HL_OP_PARAMETER || !eg->symbols.at[symbol[inst->id]].pinned;
    if (inst->op == HL_OP_PARAMETER) {
      put(out, NONE);
      put(out, (uint32_t)hl_parameter_number(inst));
      hl_shape_print(out, inst->shape, true);
      continue;
    }
    put(out, symbol[inst->id]);
    for (uint32_t i = 0; i < inst->n_operands; i++)
      put(out, place[inst->operands[i]->id]);
    for (int i = 0; i < inst->n_calls; i++)
      put(out, (uint32_t)map_get(known, map_key(hl_called(inst, i))));
  }
  put(out, place[comp->root->id]);
  if (comp->execution_thread)
    hl_buf_puts(out, comp->execution_thread->text);
  hl_arena_free(arena);
  return ok;
}

static uint32_t find_like(const HlEgraph *eg, uint64_t hash, const HlBuf *key) {
  MapWalk walk = map_walk(&eg->region_by_hash, hash);
  for (uint64_t found; (found = map_next(&walk));) {
    const HlBuf *other = &eg->regions.at[found - 1].key;
    if (other->n == key->n && memcmp(other->at, key->at, key->n) == 0)
      return (uint32_t)(found - 1);
  }
  return NONE;
}

// --- Its nodes --------------------------------------------------------------------------------------------

static uint32_t *symbols_of(HlEgraph *eg, HlArena *arena, HlComp *comp, bool own) {
  uint32_t *symbol = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    const bool pinned = eg_is_pinned(inst);
    if (pinned && !own && inst->op != HL_OP_PARAMETER)
      return NULL;
    symbol[inst->id] = pinned ? eg_symbol_pinned(eg, inst) : eg_symbol_of(eg, inst);
  }
  return symbol;
}

static uint32_t add_inst(HlEgraph *eg, uint32_t region, HlInst *inst, uint32_t symbol,
                         const uint32_t *class, const Map *known) {
  HlArena *arena = hl_cx_scratch(eg->cx);
  const HlMark mark = hl_arena_mark(arena);
  const bool pinned = eg->symbols.at[symbol].pinned;
  const int n = (int)inst->n_operands, n_regions = pinned ? 0 : inst->n_calls;
  uint32_t *operands = HL_ARRAY(arena, uint32_t, n + 1);
  uint32_t *regions = HL_ARRAY(arena, uint32_t, n_regions + 1);
  for (int k = 0; k < n; k++)
    operands[k] = class[inst->operands[k]->id];
  for (int k = 0; k < n_regions; k++)
    regions[k] = (uint32_t)map_get(known, map_key(hl_called(inst, k))) - 1;
  const uint32_t made = eg_add(eg, region, symbol, n, operands, n_regions, regions);
  hl_arena_release(arena, mark);
  for (int k = 0; hl_op_is((HlOp)inst->op, HL_T_CONTROL) && k < inst->n_calls; k++) {
    Region *callee = &eg->regions.at[map_get(known, map_key(hl_called(inst, k))) - 1];
    callee->is_live = callee->root != NONE;
  }
  return made;
}

static void note_origin(HlEgraph *eg, HlInst *inst, uint32_t class, int nodes_before) {
  *map_at(&eg->class_of_inst, map_key(inst)) = (uint64_t) class + 1;
  if (eg->nodes.n > nodes_before)
    *map_at(&eg->origin_of_node, (uint64_t)eg->nodes.n - 1) = map_key(inst);
}

static void fill(HlEgraph *eg, uint32_t id, HlComp *comp, const uint32_t *symbol, const Map *known,
                 bool own) {
  HlArena *arena = hl_arena_new();
  uint32_t *class = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    const int before = eg->nodes.n;
    class[inst->id] = add_inst(eg, id, inst, symbol[inst->id], class, known);
    Region *region = &eg->regions.at[id];
    if (own)
      note_origin(eg, inst, class[inst->id], before);
    if (inst->op == HL_OP_PARAMETER)
      region->param[hl_parameter_number(inst)] = class[inst->id];
    else if (eg->symbols.at[symbol[inst->id]].pinned && (!hl_is_pure(inst) || hl_has_control(inst)))
      vec_push_in(eg->arena, &region->anchors, class[inst->id]);
  }
  eg->regions.at[id].root = class[comp->root->id];
  hl_arena_free(arena);
}

static uint32_t new_region(HlEgraph *eg, HlComp *comp, const HlBuf *key, bool own) {
  Region region = {.comp = own ? comp : NULL,
                   .n_params = (uint32_t)comp->n_params,
                   .param = HL_ARRAY(eg->arena, uint32_t, comp->n_params + 1),
                   .name = hl_sym(eg->home, comp->name->text),
                   .root = NONE,
                   .is_live = own && comp == eg->module->entry};
  for (int k = 0; k < comp->n_params; k++)
    region.param[k] = NONE;
  if (key) {
    region.key.at = hl_arena_copy(eg->arena, key->at, key->n);
    region.key.n = key->n;
  }
  vec_push_in(eg->arena, &eg->regions, region);
  return (uint32_t)eg->regions.n - 1;
}

// Those that it calls are known.
static uint32_t region_of_one(HlEgraph *eg, HlComp *comp, Map *known, bool own) {
  if (comp->is_fusion && own)
    return new_region(eg, comp, NULL, own);
  HlArena *arena = hl_arena_new();
  const uint32_t *symbol = symbols_of(eg, arena, comp, own);
  uint32_t region = NONE;
  HlBuf key = {0};
  if (symbol) {
    const bool has_key = describe(eg, comp, symbol, known, &key);
    const uint64_t hash = hl_hash_bytes(key.at, key.n, 5);
    region = has_key ? find_like(eg, hash, &key) : NONE;
    if (region == NONE) {
      region = new_region(eg, comp, has_key ? &key : NULL, own);
      if (has_key)
        map_add(&eg->region_by_hash, hash, (uint64_t)region + 1);
      fill(eg, region, comp, symbol, known, own);
    }
  }
  hl_buf_free(&key);
  hl_arena_free(arena);
  return region;
}

// Callees first, without recursion: what waits lies on a list until all it calls is known.
uint32_t eg_region_of(HlEgraph *eg, HlComp *comp, Map *known, bool own) {
  VEC(HlComp *) waiting = {0};
  uint32_t region = NONE;
  vec_push(&waiting, comp);
  while (waiting.n > 0) {
    HlComp *top = vec_last(&waiting);
    const int before = waiting.n;
    for (HlInst *inst = top->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        if (!map_get(known, map_key(hl_called(inst, k))))
          vec_push(&waiting, hl_called(inst, k));
    if (waiting.n > before)
      continue;
    waiting.n--;
    const uint64_t found = map_get(known, map_key(top));
    region = found ? (uint32_t)found - 1 : region_of_one(eg, top, known, own);
    if (region == NONE)
      break;
    *map_at(known, map_key(top)) = (uint64_t)region + 1;
  }
  vec_free(&waiting);
  return region;
}

bool hl_egraph_add_module(HlEgraph *eg, HlModule *m) {
  if (m->is_scheduled)
    return hl_error_kind(
        eg->cx, HL_UNSUPPORTED, hl_module_pos(m),
        "module %s has an order of execution, which rewriting would drop: it comes "
        "before scheduling",
        m->name->text);
  if (!m->entry)
    return hl_error_kind(eg->cx, HL_INVALID, hl_module_pos(m), "module %s has no entry",
                         m->name->text);
  eg->module = m;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    if (eg_region_of(eg, comp, &eg->region_of_comp, true) == NONE)
      return false;
  return true;
}
