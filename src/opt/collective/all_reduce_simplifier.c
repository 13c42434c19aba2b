// opt/collective/all_reduce_simplifier.c: collectives that another, or none, can do the work of.
//
// all-reduce-folder:      all-reduce(all-reduce(x)) among groups that together make larger groups.
// all-reduce-simplifier:  collectives that leave everything as it is; sums of what all devices have alike.
// all-gather-simplifier, all-gather-dynamic-slice-simplifier: gathered, and only the own part is used.
// all-gather-to-collective-permute-simplifier: gathered, and each device uses another one's part.
// reduce-scatter-creator: summed, and only the own part is used.
//
//   r = f32[8] all-reduce(x)                              =>  s = f32[2] reduce-scatter(x), dimensions={0}
//   s = f32[2] dynamic-slice(r, partition-id * 2)

#include "opt/ask/collectives.h"
#include "opt/passes.h"

// --- all-reduce-folder --------------------------------------------------------------------------
//
// Between {{0,1},{2,3}} and then {{0,2},{1,3}} everybody's value arrives once: {{0,1,2,3}}.

// The number of the list that holds each id, -1 where none does; NULL: an id stands in two.
static int *list_of_ids(HlPass *p, HlI64Lists lists, int64_t n_ids) {
  int *of = HL_ARRAY(p->arena, int, n_ids + 1);
  for (int64_t k = 0; k < n_ids; k++)
    of[k] = -1;
  for (int g = 0; g < lists.n; g++)
    for (int k = 0; k < lists.at[g].n; k++) {
      int64_t id = lists.at[g].at[k];
      if (id < 0 || id >= n_ids || of[id] >= 0)
        return NULL;
      of[id] = g;
    }
  return of;
}

static int64_t largest_id(HlI64Lists lists) {
  int64_t largest = -1;
  for (int g = 0; g < lists.n; g++)
    for (int k = 0; k < lists.at[g].n; k++)
      largest = lists.at[g].at[k] > largest ? lists.at[g].at[k] : largest;
  return largest;
}

// The inner groups that an outer group meets, each once, all of union `u`; those of no union join it
// if `may_join`.
static bool meet(const int *inner_of, int *united, int *met, HlI64s list, int g, int u,
                 bool may_join) {
  for (int k = 0; k < list.n; k++) {
    const int from = inner_of[list.at[k]];
    if (from < 0 || met[from] == g || united[from] != (may_join ? -1 : u))
      return false;
    met[from] = g;
    united[from] = u;
  }
  return true;
}

// For each inner group, the number of the union it becomes part of: that of the first outer group
// which meets it. False: unions that overlap, or that do not hold the same devices before and after.
static bool find_unions(HlPass *p, HlI64Lists inner, HlI64Lists outer, int **out, int *n_unions) {
  const int64_t n_ids = largest_id(inner) + 1;
  if (n_ids <= 0 || n_ids > 1 << 20 || largest_id(outer) >= n_ids)
    return false;
  const int *inner_of = list_of_ids(p, inner, n_ids), *outer_of = list_of_ids(p, outer, n_ids);
  if (!inner_of || !outer_of)
    return false;
  int *united = HL_ARRAY(p->arena, int, inner.n), *met = HL_ARRAY(p->arena, int, inner.n);
  int *size = HL_ARRAY(p->arena, int, outer.n + 1), *of_outer = HL_ARRAY(p->arena, int, outer.n);
  for (int g = 0; g < inner.n; g++)
    united[g] = met[g] = -1;
  *n_unions = 0;
  for (int g = 0; g < outer.n; g++) {
    const HlI64s list = outer.at[g];
    const int first = inner_of[list.at[0]];
    if (first < 0)
      return false;
    const bool is_new = united[first] < 0;
    of_outer[g] = is_new ? (*n_unions)++ : united[first];
    if (is_new)
      size[of_outer[g]] = list.n;
    if (list.n != size[of_outer[g]] || !meet(inner_of, united, met, list, g, of_outer[g], is_new))
      return false;
  }
  for (int64_t id = 0; id < n_ids; id++)
    if ((inner_of[id] >= 0) != (outer_of[id] >= 0) ||
        (inner_of[id] >= 0 && united[inner_of[id]] != of_outer[outer_of[id]]))
      return false;
  *out = united;
  return true;
}

static HlI64Lists unite(HlPass *p, HlI64Lists inner, const int *united, int n_unions) {
  HlI64s *at = HL_ARRAY(p->arena, HlI64s, n_unions + 1);
  int64_t **ids = HL_ARRAY(p->arena, int64_t *, n_unions + 1);
  for (int g = 0; g < inner.n; g++)
    at[united[g]].n += inner.at[g].n;
  for (int u = 0; u < n_unions; u++) {
    at[u].at = ids[u] = HL_ARRAY(p->arena, int64_t, at[u].n + 1);
    at[u].n = 0;
  }
  for (int g = 0; g < inner.n; g++)
    for (int k = 0; k < inner.at[g].n; k++)
      ids[united[g]][at[united[g]].n++] = inner.at[g].at[k];
  return (HlI64Lists){at, n_unions};
}

static bool has_written_groups(HlPass *p, const HlInst *inst) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  if (!groups)
    return false;
  HlI64Lists lists = hl_groups_lists(p->arena, groups);
  for (int k = 0; k < lists.n; k++)
    if (lists.at[k].n == 0)
      return false;
  return lists.n > 0;
}

static HlInst *fold_all_reduces(HlPass *p, HlBuild *b, HlInst *outer) {
  HlInst *inner = outer->operands[0];
  if (!coll_is_plain(outer) || inner->op != HL_OP_ALL_REDUCE || !coll_is_plain(inner) ||
      !hl_one_user(inner) || hl_group_mode(inner) != hl_group_mode(outer) ||
      !has_written_groups(p, inner) || !has_written_groups(p, outer) ||
      hl_reducer(hl_to_apply(inner)) == HL_OP_COUNT ||
      hl_reducer(hl_to_apply(inner)) != hl_reducer(hl_to_apply(outer)) ||
      hl_to_apply(inner)->root->shape != hl_to_apply(outer)->root->shape)
    return NULL;
  HlI64Lists lists = coll_groups(p, inner).lists;
  int *united, n_unions;
  if (!find_unions(p, lists, coll_groups(p, outer).lists, &united, &n_unions))
    return NULL;
  HlInst *all = coll_copy(b, outer, NULL, 1, inner->operands);
  coll_set_groups(all, unite(p, lists, united, n_unions));
  return all;
}

const HlRule all_reduce_folder_rules[] = {{HL_OP_ALL_REDUCE, fold_all_reduces, "all-reduce-folder",
                                           "all-reduce(all-reduce(x)) => all-reduce(x)",
                                           "the groups make up larger ones"},
                                          {0}};

// --- all-reduce-simplifier ------------------------------------------------------------------------

static HlInst *unchanged(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p, (void)b;
  return coll_is_plain(inst) && hl_shape_compatible(inst->shape, inst->operands[0]->shape)
             ? inst->operands[0]
             : NULL;
}

static HlInst *alone(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  if (!coll_is_plain(inst) || hl_reducer(hl_to_apply(inst)) == HL_OP_COUNT)
    return NULL;
  CollGroups groups = coll_groups(p, inst);
  return groups.size == 1 ? inst->operands[0] : NULL;
}

// What is the same on all devices, by id of the computation's instructions.
typedef struct Alike {
  const HlComp *comp;
  uint32_t n;
  bool *at;
} Alike;

static bool among_everybody(HlPass *p, const HlInst *inst) {
  CollGroups groups = coll_groups(p, inst);
  return groups.lists.n == 1 && groups.size == coll_devices(p);
}

static bool is_alike(HlPass *p, const bool *alike, const HlInst *inst) {
  if (inst->op == HL_OP_ALL_REDUCE || inst->op == HL_OP_ALL_GATHER)
    return among_everybody(p, inst);
  if (inst->op == HL_OP_CONSTANT || inst->op == HL_OP_IOTA)
    return true;
  if (inst->n_operands == 0 || (inst->n_calls > 0 && inst->op != HL_OP_REDUCE) ||
      (hl_op_info[inst->op].traits & (HL_T_COLLECTIVE | HL_T_SIDE_EFFECT | HL_T_ASYNC)) ||
      inst->op == HL_OP_CUSTOM_CALL || inst->op == HL_OP_RNG ||
      inst->op == HL_OP_RNG_GET_AND_UPDATE_STATE)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!alike[inst->operands[k]->id])
      return false;
  return true;
}

static Alike find_alike(HlPass *p, const HlComp *comp) {
  Alike found = {comp, comp->next_id, HL_ARRAY(p->arena, bool, comp->next_id + 1)};
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    found.at[inst->id] = is_alike(p, found.at, inst);
  return found;
}

// The sum of n equal values, or their minimum, maximum, and, or: without asking the others.
static HlInst *of_equal_values(HlPass *p, HlBuild *b, HlInst *inst, const Alike *alike) {
  HlInst *x = inst->operands[0];
  if (!coll_is_plain(inst) || x->id >= alike->n || !alike->at[x->id])
    return NULL;
  CollGroups groups = coll_groups(p, inst);
  const HlDtype dtype = x->shape->dtype;
  if (groups.size <= 0)
    return NULL;
  const HlOp op = hl_reducer(hl_to_apply(inst));
  if (op == HL_OP_ADD) {
    if (hl_is_integral(dtype))
      return hl_b_binary(b, HL_OP_MULTIPLY, x, hl_b_like_int(b, x, groups.size));
    return hl_is_float(dtype)
               ? hl_b_binary(b, HL_OP_MULTIPLY, x, hl_b_like(b, x, (double)groups.size))
               : NULL;
  }
  return op < HL_OP_COUNT && hl_op_is(op, HL_T_IDEMPOTENT) ? x : NULL;
}

static void simplify_equal_values(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Alike alike = {0};
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++) {
    if (!hl_alive(insts[k]) || insts[k]->op != HL_OP_ALL_REDUCE)
      continue;
    if (!alike.comp)
      alike = find_alike(p, comp);
    HlBuild b;
    hl_begin(p, "replicated", insts[k], &b);
    hl_commit(p, of_equal_values(p, &b, insts[k], &alike));
  }
  hl_arena_release(p->arena, mark);
}

const HlRule all_reduce_simplifier_rules[] = {
    {HL_OP_ALL_GATHER, unchanged, "all-gather", "all-gather(x) => x", "among one"},
    {HL_OP_REDUCE_SCATTER, unchanged, "reduce-scatter", "reduce-scatter(x) => x", "among one"},
    {HL_OP_ALL_REDUCE, alone, "all-reduce", "all-reduce(x) => x", "among one"},
    {0}};

bool pass_all_reduce_simplifier(HlPass *p) {
  if (!hl_run_rules(p, all_reduce_simplifier_rules, 1))
    return false;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    simplify_equal_values(p, comps[k]);
  return true;
}

// --- The own part ---------------------------------------------------------------------------------

static bool is_plain_slice(const HlInst *slice) {
  return !hl_shape_is_dynamic(slice->shape) && !hl_shape_is_dynamic(slice->operands[0]->shape);
}

static int64_t elements_before(const HlShape *shape, int dim) {
  int64_t n = 1;
  for (int d = 0; d < dim; d++)
    n *= shape->dim[d];
  return n;
}

// The slice, perhaps of a reshape, is along what `gather` gathers along, in as many parts.
static bool is_along(const HlInst *slice, int dim, const HlInst *gather) {
  const HlShape *x = gather->operands[0]->shape, *cut = slice->operands[0]->shape;
  const int64_t along = hl_dim(gather),
                parts = gather->shape->dim[along] / (x->dim[along] ? x->dim[along] : 1);
  return dim >= 0 && slice->shape->dim[dim] * parts == cut->dim[dim] &&
         elements_before(cut, dim) == elements_before(gather->shape, (int)along);
}

static HlInst *gathered(HlInst *slice, bool through_reshape) {
  HlInst *from = slice->operands[0];
  if (through_reshape && from->op == HL_OP_RESHAPE && hl_one_user(from))
    from = from->operands[0];
  return from->op == HL_OP_ALL_GATHER && coll_is_plain(from) && is_plain_slice(slice) &&
                 hl_shape_elements(slice->shape) == hl_shape_elements(from->operands[0]->shape)
             ? from
             : NULL;
}

static HlInst *own_of_gathered(HlPass *p, HlBuild *b, HlInst *slice, bool through_reshape) {
  HlInst *gather = gathered(slice, through_reshape);
  const int dim = coll_sliced_dim(slice);
  if (!gather || !is_along(slice, dim, gather))
    return NULL;
  CollGroups groups = coll_groups(p, gather);
  if (!coll_takes_own_part(p, slice, dim, &groups))
    return NULL;
  return hl_b_reshape(b, gather->operands[0], slice->shape->rank, slice->shape->dim);
}

static HlInst *own_of_only_gathered(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *gather = slice->operands[0];
  return hl_one_user(gather) ? own_of_gathered(p, b, slice, false) : NULL;
}

static HlInst *own_of_any_gathered(HlPass *p, HlBuild *b, HlInst *slice) {
  return own_of_gathered(p, b, slice, true);
}

const HlRule all_gather_simplifier_rules[] = {
    {HL_OP_ALL_GATHER, unchanged, "all-gather-simplifier", "all-gather(x) => x", "among one"},
    {HL_OP_DYNAMIC_SLICE, own_of_only_gathered, "all-gather-simplifier",
     "dynamic-slice(all-gather(x)) => x", "the own part; nobody else uses it"},
    {0}};

const HlRule all_gather_slice_rules[] = {
    {HL_OP_DYNAMIC_SLICE, own_of_any_gathered, "all-gather-dynamic-slice-simplifier",
     "dynamic-slice(all-gather(x)) => x", "the own part; perhaps of a reshape"},
    {0}};

// --- Another one's part ------------------------------------------------------------------------------

// From whom each device takes: NULL, if not from everybody once.
static int64_t *givers(HlPass *p, const HlInst *slice, int dim, const CollGroups *groups) {
  const int64_t n = coll_devices(p), part = slice->shape->dim[dim];
  const CollPlace *places = coll_places(p, groups);
  const int64_t *start = places ? coll_value_by_device(p, slice->operands[1 + dim]) : NULL;
  if (!start || part == 0)
    return NULL;
  int64_t *giver = HL_ARRAY(p->arena, int64_t, n);
  bool *gives = HL_ARRAY(p->arena, bool, n);
  for (int64_t k = 0; k < n; k++) {
    const HlI64s members = groups->lists.at[places[k].group];
    if (start[k] < 0 || start[k] % part != 0 || start[k] / part >= members.n)
      return NULL;
    giver[k] = members.at[start[k] / part];
    if (gives[giver[k]])
      return NULL;
    gives[giver[k]] = true;
  }
  return giver;
}

// Ids of groups, devices and source-target pairs are the same numbers.
static bool ids_are_devices(const HlPass *p, HlGroupMode mode) {
  return (mode == HL_FLATTENED && p->m->replica_count == 1) ||
         (mode == HL_CROSS_REPLICA && p->m->num_partitions == 1);
}

static HlInst *permute_in_place_of_gather(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *gather = gathered(slice, false);
  const int dim = coll_sliced_dim(slice);
  if (!gather || !hl_one_user(gather) || !is_along(slice, dim, gather) ||
      (int)slice->n_operands != slice->shape->rank + 1)
    return NULL;
  CollGroups groups = coll_groups(p, gather);
  if (!ids_are_devices(p, groups.mode) || coll_takes_own_part(p, slice, dim, &groups))
    return NULL;
  const int64_t *giver = givers(p, slice, dim, &groups);
  if (!giver)
    return NULL;
  const int64_t n = coll_devices(p);
  int64_t *pairs = HL_ARRAY(p->arena, int64_t, 2 * n);
  for (int64_t k = 0; k < n; k++) {
    pairs[2 * k] = giver[k];
    pairs[2 * k + 1] = k;
  }
  HlInst *x = gather->operands[0];
  HlInst *sent = coll_new(b, HL_OP_COLLECTIVE_PERMUTE, gather, x->shape, x, -1);
  hl_remove_attr(sent, HL_A_REPLICA_GROUPS);
  hl_remove_attr(sent, HL_A_USE_GLOBAL_DEVICE_IDS);
  hl_set_ints(sent, HL_A_SOURCE_TARGET_PAIRS, (HlI64s){pairs, (int)(2 * n)});
  return sent;
}

const HlRule all_gather_to_permute_rules[] = {
    {HL_OP_DYNAMIC_SLICE, permute_in_place_of_gather, "all-gather-to-collective-permute-simplifier",
     "dynamic-slice(all-gather(x)) => collective-permute(x)",
     "each device takes another one's part"},
    {0}};

// --- reduce-scatter-creator ---------------------------------------------------------------------------

static HlInst *create_reduce_scatter(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *from = slice->operands[0];
  HlInst *sum = from->op == HL_OP_RESHAPE && hl_one_user(from) ? from->operands[0] : from;
  if (sum->op != HL_OP_ALL_REDUCE || !coll_is_plain(sum) || !hl_one_user(sum) ||
      !is_plain_slice(slice) || hl_reducer(hl_to_apply(sum)) == HL_OP_COUNT)
    return NULL;
  const int dim = coll_sliced_dim(slice);
  CollGroups groups = coll_groups(p, sum);
  if (dim < 0 || groups.size <= 1 || slice->shape->dim[dim] > from->shape->dim[dim] / groups.size ||
      !coll_takes_own_part(p, slice, dim, &groups))
    return NULL;
  HlInst *x = sum->operands[0];
  if (from != sum)
    x = hl_b_reshape(b, x, from->shape->rank, from->shape->dim);
  const int64_t whole = slice->shape->dim[dim] * groups.size;
  if (x && whole < x->shape->dim[dim])
    x = hl_b_slice_dim(b, x, dim, 0, whole);
  HlInst *made = coll_new(b, HL_OP_REDUCE_SCATTER, sum, slice->shape, x, dim);
  if (made)
    coll_fresh_channel(p, made);
  return made;
}

const HlRule reduce_scatter_creator_rules[] = {
    {HL_OP_DYNAMIC_SLICE, create_reduce_scatter, "reduce-scatter-creator",
     "dynamic-slice(all-reduce(x)) => reduce-scatter(x)", "the own part; nobody else uses the sum"},
    {0}};

bool pass_reduce_scatter_creator(HlPass *p) {
  return coll_run_rules(p, reduce_scatter_creator_rules, 1);
}
