// tests/support/gen_attrs.c: attributes that instructions and modules may carry besides what they need.
#include "support/gen_core.h"

static void set_dict(Gen *g, HlInst *inst, HlAttrKey key, const char *name, const char *value) {
  HlDict *dict = gen_alloc(g, sizeof *dict);
  const HlSym **pair = gen_alloc(g, 2 * sizeof *pair);
  pair[0] = hl_sym(g->m, name);
  pair[1] = hl_sym(g->m, value);
  *dict = (HlDict){&pair[0], &pair[1], 1};
  gen_ptr(inst, key, dict);
}

// --- Of instructions --------------------------------------------------------------------------------------

static void add_metadata(Gen *g, HlInst *inst) {
  HlMetadata md = {.op_type = hl_sym(g->m, "op"),
                   .op_name = hl_sym(g->m, gen_chance(g, 50) ? "jit(f)/x" : "a \"b\"\n"),
                   .source_line = (int32_t)gen_below(g, 3) * 7};
  if (gen_chance(g, 50))
    md.source_file = hl_sym(g->m, "dir/file.py");
  if (gen_chance(g, 20))
    md.source_end_line = 9, md.source_column = 3, md.source_end_column = 70;
  if (gen_chance(g, 10))
    md.deduplicated_name = hl_sym(g->m, "same.as"), md.scheduling_name = hl_sym(g->m, "when");
  gen_ptr(inst, HL_A_METADATA, hl_intern_metadata(g->m, &md));
}

static void add_statistics(Gen *g, HlInst *inst) {
  HlStatistics *s = gen_alloc(g, sizeof *s);
  const HlSym **name = gen_alloc(g, sizeof *name);
  double *value = gen_alloc(g, sizeof *value);
  *name = hl_sym(g->m, "stat");
  *value = (double)gen_below(g, 8) / 4;
  *s = (HlStatistics){0, name, value, 1};
  gen_ptr(inst, HL_A_STATISTICS, s);
}

static void add_accuracy(Gen *g, HlInst *inst) {
  HlAccuracy *a = gen_alloc(g, sizeof *a);
  if (gen_chance(g, 50))
    a->mode = HL_WORD_accuracy_mode_HIGHEST;
  else
    *a = (HlAccuracy){.has_tolerance = true, .atol = 0.5, .rtol = 0.25, .ulps = gen_below(g, 4)};
  gen_ptr(inst, HL_A_RESULT_ACCURACY, a);
}

// Two devices along one dimension, in order, swapped, or with a replicated rest.
static HlSharding tiled(Gen *g, int rank) {
  int64_t *tile = gen_alloc(g, sizeof *tile * (size_t)(rank + 1)),
          *two = gen_alloc(g, sizeof *two * 4);
  bool rest = gen_chance(g, 30);
  for (int d = 0; d <= rank; d++)
    tile[d] = 1;
  tile[gen_below(g, rank)] = 2;
  tile[rank] = 2;
  two[0] = rest ? 4 : 2;
  two[2] = 1;
  HlSharding s = {.kind = HL_SHARDING_TILED, .tile = {tile, rank + rest}, .replicate_last = rest};
  if (!rest && gen_chance(g, 50))
    s.devices = (HlI64s){two + 2, 2};  // 1, 0
  else
    s.iota = (HlIota){{two, 1}, {two + 1, 1}};
  return s;
}

static void add_sharding(Gen *g, HlInst *inst) {
  static const HlShardingKind kinds[] = {HL_SHARDING_REPLICATED, HL_SHARDING_MAXIMAL,
                                         HL_SHARDING_MANUAL};
  HlSharding *s = gen_alloc(g, sizeof *s);
  s->kind = kinds[gen_below(g, 3)];
  if (inst->shape->rank > 0 && gen_chance(g, 60))
    *s = tiled(g, inst->shape->rank);
  gen_ptr(inst, HL_A_SHARDING, hl_sharding_canonical(g->m->arena, s));
}

static void add_origin(Gen *g, HlInst *inst) {
  HlOrigin *o = gen_alloc(g, sizeof *o);
  *o = (HlOrigin){.kind = HL_ORIGIN_LEAF, .name = hl_sym(g->m, "old")};
  gen_ptr(inst, HL_A_ORIGIN, o);
}

// Attributes that any instruction may carry; in bare computations none.
void gen_decorate(Gen *g, HlInst *inst) {
  bool array = hl_shape_is_array(inst->shape),
       elementwise = hl_op_info[inst->op].traits & HL_T_ELEMENTWISE;
  if (g->at.bare || (hl_op_info[inst->op].traits & (HL_T_ASYNC | HL_T_COLLECTIVE)))
    return;
  if (gen_chance(g, 25))
    add_metadata(g, inst);
  if (!elementwise || !array)
    return;
  if (gen_chance(g, 5))
    add_sharding(g, inst);
  if (gen_chance(g, 5))
    set_dict(g, inst, HL_A_FRONTEND_ATTRIBUTES, "key", gen_chance(g, 50) ? "a\"b" : "{\"x\":1}");
  if (gen_chance(g, 5))
    add_statistics(g, inst);
  if (gen_chance(g, 5))
    hl_set_text(inst, HL_A_BACKEND_CONFIG, gen_chance(g, 50) ? "{\"a\":[1,2]}" : "plain \"text\"");
  if (gen_chance(g, 5))
    add_origin(g, inst);
  if (gen_chance(g, 20) && (hl_op_info[inst->op].traits & HL_T_ACCURACY))
    add_accuracy(g, inst);
  if (gen_chance(g, 5) && inst->comp->first != inst && g->depth == 0)
    hl_add_control(inst->comp->first, inst);
}

// A layout with the odd things a compiler adds.
const HlShape *gen_odd_layout(Gen *g, const HlShape *shape) {
  int64_t order[8], tile[2] = {8, 128};
  HlI64s tiles = {tile, 2};
  HlLayoutExtra extra = {.tail_padding_alignment = 1};
  for (int d = 0; d < shape->rank; d++)
    order[d] = d;
  gen_shuffle(g, order, shape->rank);
  if (gen_chance(g, 40) && shape->rank >= 2)
    extra.tiles = &tiles, extra.n_tiles = 1;
  if (gen_chance(g, 40))
    extra.memory_space = gen_between(g, 1, 5);
  if (gen_chance(g, 20) && hl_dtype_info[shape->dtype].bits == 4)
    extra.element_bits = 4;
  bool odd = extra.n_tiles || extra.memory_space || extra.element_bits;
  HlLayout layout = {{order, shape->rank}, odd ? &extra : NULL};
  return hl_shape_with_layout(g->m->shapes, shape, &layout);
}

// --- Of modules ---------------------------------------------------------------------------------------------

// An output that may take over a parameter's memory.
static void add_alias(Gen *g) {
  const HlShape *result = g->m->entry->root->shape;
  for (int k = 0; hl_shape_is_tuple(result) && k < result->rank; k++)
    for (int p = 0; p < g->m->entry->n_params; p++) {
      if (g->m->entry->params[p]->shape != result->element[k])
        continue;
      HlAlias *alias = gen_alloc(g, sizeof *alias);
      int64_t *at = gen_alloc(g, sizeof *at);
      *at = k;
      *alias =
          (HlAlias){.output = {at, 1},
                    .number = p,
                    .kind = gen_chance(g, 50) ? HL_WORD_alias_kind_MAY : HL_WORD_alias_kind_MUST};
      g->m->input_output_alias = (HlAliases){alias, 1};
      return;
    }
}

static void add_donor(Gen *g) {
  const HlComp *entry = g->m->entry;
  int64_t p = gen_below(g, entry->n_params);
  bool aliased = g->m->input_output_alias.n && g->m->input_output_alias.at[0].number == p;
  if (entry->n_params == 0 || aliased || !hl_shape_is_array(entry->params[p]->shape))
    return;
  HlDonor *donor = gen_alloc(g, sizeof *donor);
  donor->number = p;
  g->m->buffer_donor = donor;
  g->m->n_buffer_donor = 1;
}

static void add_schedule(Gen *g) {
  HlArena *arena = hl_arena_new();
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    if (!comp->is_fusion)
      hl_set_schedule(comp, hl_post_order(arena, comp));
  g->m->is_scheduled = true;
  hl_arena_free(arena);
}

static void add_propagation(Gen *g) {
  int64_t *flags = gen_alloc(g, sizeof *flags * 2);
  flags[0] = gen_below(g, 2);
  g->m->spmd_to_output = (HlI64s){flags, 1};
}

static void add_module_dict(Gen *g) {
  const HlSym **pair = gen_alloc(g, 2 * sizeof *pair);
  pair[0] = hl_sym(g->m, "fingerprint");
  pair[1] = hl_sym(g->m, "a1=\"b\"");
  g->m->frontend_attributes = (HlDict){&pair[0], &pair[1], 1};
}

static void add_names(Gen *g) {
  static const char *const wishes[] = {"x.7", "_a-b", "fusion.clone.1", "p.0", "true_", "y.1.2"};
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (gen_chance(g, 10))
        hl_set_name(inst, hl_fresh_name(g->m, wishes[gen_below(g, HL_COUNT_OF(wishes))]));
}

void gen_decorate_module(Gen *g) {
  if (gen_chance(g, 20))
    add_alias(g);
  if (gen_chance(g, 20))
    add_donor(g);
  if (gen_chance(g, 20))
    add_schedule(g);
  if (gen_chance(g, 20))
    add_propagation(g);
  if (gen_chance(g, 20))
    add_module_dict(g);
  if (gen_chance(g, 20))
    add_names(g);
}
