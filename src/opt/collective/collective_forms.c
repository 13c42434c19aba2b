// opt/collective/collective_forms.c: one collective written as others.
//
// all-reduce-decomposer:      y = all-reduce(x)        =>  g = all-gather(reshape(x)), y = reduce(g)
// reduce-scatter-decomposer:  y = reduce-scatter(x)    =>  r = all-reduce(x), y = dynamic-slice(r, own)
// all_gather_decomposer:      y = all-gather(x)        =>  u = dynamic-update-slice(0, x, own), y = all-reduce(u)
// all-reduce-reduce-scatter-reorder: reduce-scatter(all-reduce(x)) => all-reduce(reduce-scatter(x))
// all-reduce-contiguous:      several arrays as one behind one another
// all-reduce-blueconnect:     first within each host, then between hosts, then within each host

#include "opt/ask/collectives.h"
#include "opt/passes.h"

// --- all-reduce-decomposer ------------------------------------------------------------------------

static HlInst *gather_and_reduce(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  const HlOp op = hl_reducer(hl_to_apply(inst));
  if (!coll_is_plain(inst) || op == HL_OP_COUNT)
    return NULL;
  const CollGroups groups = coll_groups(p, inst);
  HlInst *init = groups.size > 0 ? hl_b_neutral(b, op, x->shape->dtype) : NULL;
  if (!init)
    return NULL;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, x->shape->rank + 1);
  dim[0] = 1;
  for (int d = 0; d < x->shape->rank; d++)
    dim[d + 1] = x->shape->dim[d];
  HlInst *row = hl_b_reshape(b, x, x->shape->rank + 1, dim);
  HlInst *all =
      row ? coll_new(b, HL_OP_ALL_GATHER, inst, coll_resized(p, row->shape, 0, groups.size), row, 0)
          : NULL;
  const int64_t first = 0;
  return all ? hl_b_reduce(b, op, all, init, (HlI64s){&first, 1}) : NULL;
}

const HlRule all_reduce_decomposer_rules[] = {{HL_OP_ALL_REDUCE, gather_and_reduce,
                                               "all-reduce-decomposer",
                                               "all-reduce(x) => reduce(all-gather(x))", ""},
                                              {0}};

bool pass_all_reduce_decomposer(HlPass *p) {
  return coll_run_rules(p, all_reduce_decomposer_rules, 1);
}

// --- reduce-scatter-decomposer, all_gather_decomposer ------------------------------------------------

// Where the own part starts: in dimension `along` at the own place times its size.
static HlInst **own_start(HlPass *p, HlBuild *b, const HlInst *inst, int rank, int64_t along,
                          int64_t size) {
  const CollGroups groups = coll_groups(p, inst);
  if (groups.size <= 0)
    return NULL;
  HlInst *place = coll_place_in_group(p, b, &groups);
  HlInst *at =
      place ? hl_b_binary(b, HL_OP_MULTIPLY, place, hl_b_scalar_int(b, HL_U32, size)) : NULL;
  HlInst *zero = rank > 1 ? hl_b_scalar_int(b, HL_U32, 0) : NULL;
  HlInst **start = HL_ARRAY(p->arena, HlInst *, rank + 1);
  for (int d = 0; d < rank; d++)
    start[d] = d == along ? at : zero;
  return at ? start : NULL;
}

static HlInst *reduce_and_slice(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlShape *part = inst->shape;
  HlInst **start = coll_is_plain(inst)
                       ? own_start(p, b, inst, part->rank, hl_dim(inst), part->dim[hl_dim(inst)])
                       : NULL;
  if (!start)
    return NULL;
  HlInst *all =
      coll_new(b, HL_OP_ALL_REDUCE, inst, inst->operands[0]->shape, inst->operands[0], -1);
  coll_fresh_channel(p, all);
  return hl_b_dynamic_slice(b, all, start, part->dim);
}

const HlRule reduce_scatter_decomposer_rules[] = {
    {HL_OP_REDUCE_SCATTER, reduce_and_slice, "reduce-scatter-decomposer",
     "reduce-scatter(x) => dynamic-slice(all-reduce(x))", ""},
    {0}};

bool pass_reduce_scatter_decomposer(HlPass *p) {
  return coll_run_rules(p, reduce_scatter_decomposer_rules, 1);
}

static HlInst *place_and_add(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!coll_is_plain(inst))
    return NULL;
  HlInst *x = inst->operands[0];
  const HlShape *whole = inst->shape;
  const HlDtype dtype = whole->dtype;
  HlInst **start = own_start(p, b, inst, whole->rank, hl_dim(inst), x->shape->dim[hl_dim(inst)]);
  if (!start)
    return NULL;
  HlOp add = dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD;
  HlInst *zero = hl_b_neutral(b, add, dtype);
  if (!zero)
    return NULL;
  HlInst *zeros = hl_b_broadcast(b, zero, whole->rank, whole->dim, (HlI64s){0});
  HlInst *mine = hl_b_dynamic_update_slice(b, zeros, x, start);
  HlInst *all = coll_new(b, HL_OP_ALL_REDUCE, inst, whole, mine, -1);
  HlComp *adds = hl_b_scalar_comp(b, add, dtype);
  if (!all || !adds)
    return NULL;
  hl_set_calls(all, 1, &adds);
  coll_fresh_channel(p, all);
  return all;
}

const HlRule all_gather_decomposer_rules[] = {
    {HL_OP_ALL_GATHER, place_and_add, "all_gather_decomposer",
     "all-gather(x) => all-reduce(dynamic-update-slice(0, x))", "the type has a zero"},
    {0}};

bool pass_all_gather_decomposer(HlPass *p) {
  return coll_run_rules(p, all_gather_decomposer_rules, 1);
}

// --- all-reduce-reduce-scatter-reorder ---------------------------------------------------------------
//
// Allowed where devices whose sums meet hold the same part, and both ways the same values meet.

typedef struct Meeting {
  HlI64Lists sums, parts;  // of the all-reduce, of the reduce-scatter
  const CollPlace *in_sums, *in_parts;
  int *count;  // by device
} Meeting;

// Adds `by` for every value that reaches `device` through a group of `first`, then of `second`.
static void count_values(const Meeting *m, int64_t device, HlI64Lists first,
                         const CollPlace *in_first, HlI64Lists second, const CollPlace *in_second,
                         int by) {
  const HlI64s via = first.at[in_first[device].group];
  for (int k = 0; k < via.n; k++) {
    const HlI64s from = second.at[in_second[via.at[k]].group];
    for (int j = 0; j < from.n; j++)
      m->count[from.at[j]] += by;
  }
}

static bool same_values_meet(const Meeting *m, int64_t device) {
  const HlI64s sums = m->sums.at[m->in_sums[device].group];
  for (int k = 0; k < sums.n; k++)
    if (m->in_parts[sums.at[k]].index != m->in_parts[device].index)
      return false;
  count_values(m, device, m->parts, m->in_parts, m->sums, m->in_sums, 1);
  count_values(m, device, m->sums, m->in_sums, m->parts, m->in_parts, -1);
  bool same = true;
  const HlI64s parts = m->parts.at[m->in_parts[device].group];
  for (int k = 0; k < parts.n; k++) {
    const HlI64s from = m->sums.at[m->in_sums[parts.at[k]].group];
    for (int j = 0; j < from.n; j++)
      same &= m->count[from.at[j]] == 0;
  }
  return same;
}

static HlInst *scatter_first(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *sum = inst->operands[0];
  if (!coll_is_plain(inst) || sum->op != HL_OP_ALL_REDUCE || !coll_is_plain(sum) ||
      !hl_one_user(sum) || hl_reducer(hl_to_apply(sum)) == HL_OP_COUNT ||
      hl_reducer(hl_to_apply(sum)) != hl_reducer(hl_to_apply(inst)))
    return NULL;
  const CollGroups sums = coll_groups(p, sum), parts = coll_groups(p, inst);
  Meeting m = {sums.lists, parts.lists, coll_places(p, &sums), coll_places(p, &parts),
               HL_ARRAY(p->arena, int, coll_devices(p) + 1)};
  if (!m.in_sums || !m.in_parts || !coll_ids_are_devices(p, sums.mode) ||
      !coll_ids_are_devices(p, parts.mode) || sums.size <= 0 || parts.size <= 0 ||
      coll_devices(p) > (1 << 20) / (sums.size * parts.size))
    return NULL;
  for (int64_t k = 0; k < coll_devices(p); k++)
    if (!same_values_meet(&m, k))
      return NULL;
  HlInst *part = coll_copy(b, inst, NULL, 1, sum->operands);
  return coll_copy(b, sum, inst->shape, 1, &part);
}

const HlRule reduce_scatter_reorder_rules[] = {
    {HL_OP_REDUCE_SCATTER, scatter_first, "all-reduce-reduce-scatter-reorder",
     "reduce-scatter(all-reduce(x)) => all-reduce(reduce-scatter(x))", "the same values meet"},
    {0}};

bool pass_reduce_scatter_reorder(HlPass *p) {
  return hl_run_rules(p, reduce_scatter_reorder_rules, 1);
}

// --- all-reduce-contiguous ---------------------------------------------------------------------------

// Which element is added to which stays the same: the order in memory does not matter.
static HlInst *bitcast(HlBuild *b, HlInst *x, const HlShape *shape) {
  return hl_b_op(b, HL_OP_BITCAST, shape, 1, &x, 0, NULL, 0, NULL);
}

static HlInst *flattened(HlBuild *b, HlInst *x) {
  const int64_t size = hl_shape_elements(x->shape);
  return bitcast(b, x, hl_shape_array(hl_b_module(b)->shapes, x->shape->dtype, 1, &size));
}

static HlInst *reduce_as_one(HlPass *p, HlBuild *b, HlInst *inst) {
  const int n = (int)inst->n_operands;
  if (n < 2 || hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT) || hl_has_control(inst))
    return NULL;
  HlInst **flat = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (shape->dtype != inst->operands[0]->shape->dtype || hl_shape_is_dynamic(shape))
      return NULL;
    flat[k] = flattened(b, inst->operands[k]);
  }
  HlInst *whole = hl_b_concatenate(b, n, flat, 0);
  HlInst *all = whole ? coll_copy(b, inst, whole->shape, 1, &whole) : NULL;
  int64_t at = 0;
  for (int k = 0; k < n; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    const int64_t size = hl_shape_elements(shape);
    HlInst *part = all ? hl_b_slice_dim(b, all, 0, at, at + size) : NULL;
    flat[k] = part ? bitcast(b, part, shape) : NULL;
    at += size;
  }
  return hl_b_tuple(b, n, flat);
}

const HlRule all_reduce_contiguous_rules[] = {
    {HL_OP_ALL_REDUCE, reduce_as_one, "all-reduce-contiguous",
     "all-reduce(x, y) => slices of all-reduce(concatenate(x, y))", "of one element type"},
    {0}};

// The tuple of the parts says nothing of where it came from.
static void drop_frontend_attributes(HlPass *p, HlInst *tuple) {
  if (!hl_has_attr(tuple, HL_A_FRONTEND_ATTRIBUTES) ||
      !hl_change(p, "all-reduce-contiguous", tuple, NULL))
    return;
  hl_remove_attr(tuple, HL_A_FRONTEND_ATTRIBUTES);
  hl_changed(p);
}

bool pass_all_reduce_contiguous(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    int n;
    HlInst **insts = hl_pass_insts(p, comp, &n);
    for (int k = 0; k < n; k++) {
      if (insts[k]->op != HL_OP_ALL_REDUCE)
        continue;
      HlBuild b;
      hl_begin(p, "all-reduce-contiguous", insts[k], &b);
      HlInst *tuple = reduce_as_one(p, &b, insts[k]);
      if (hl_commit(p, tuple))
        drop_frontend_attributes(p, tuple);
    }
  }
  return true;
}

// --- all-reduce-blueconnect --------------------------------------------------------------------------
//
// With 2 devices a host, among {{0,1,2,3}}:
//
//   y = f32[8] all-reduce(x)   =>   s = f32[4] reduce-scatter(x), {{0,1},{2,3}}
//                                   r = f32[4] all-reduce(s), {{0,2},{1,3}}
//                                   y = f32[8] all-gather(r), {{0,1},{2,3}}

typedef struct Levels {
  HlI64s *within, *between;
  int n_within, n_between;
  int64_t per_host;  // members of a group on each of its hosts
} Levels;

// Sorts the members of a group by host; false: not as many on each, or but one host or one device a host.
static bool split_group(HlPass *p, HlI64s group, int64_t devices_per_host, Levels *levels) {
  int64_t largest = 0;
  for (int k = 0; k < group.n; k++)
    largest = group.at[k] / devices_per_host > largest ? group.at[k] / devices_per_host : largest;
  if (largest > 1 << 20)
    return false;
  int *host_of = HL_ARRAY(p->arena, int, largest + 1),
      *count = HL_ARRAY(p->arena, int, group.n + 1);
  int n_hosts = 0;
  for (int k = 0; k < group.n; k++) {
    int *host = &host_of[group.at[k] / devices_per_host];
    if (*host == 0)
      *host = ++n_hosts;
    count[*host - 1]++;
  }
  const int each = count[0];
  for (int k = 1; k < n_hosts; k++)
    if (count[k] != each)
      return false;
  if (n_hosts < 2 || each < 2 || (levels->per_host && levels->per_host != each))
    return false;
  levels->per_host = each;
  int64_t *rows = HL_ARRAY(p->arena, int64_t, group.n),
          *columns = HL_ARRAY(p->arena, int64_t, group.n);
  for (int k = 0; k < n_hosts; k++)
    count[k] = 0;
  for (int k = 0; k < group.n; k++) {
    const int host = host_of[group.at[k] / devices_per_host] - 1, at = count[host]++;
    rows[host * each + at] = group.at[k];
    columns[at * n_hosts + host] = group.at[k];
  }
  for (int k = 0; k < n_hosts; k++)
    levels->within[levels->n_within++] = (HlI64s){rows + k * each, each};
  for (int k = 0; k < each; k++)
    levels->between[levels->n_between++] = (HlI64s){columns + k * n_hosts, n_hosts};
  return true;
}

static HlInst *by_levels(HlPass *p, HlBuild *b, HlInst *inst) {
  const int64_t per_host = hl_pass_fact(
      p, "num_devices_per_host", hl_target_of_kind(p->target, HL_TARGET_GPU)->devices_per_host);
  if (!coll_is_plain(inst) || per_host < 2 || hl_reducer(hl_to_apply(inst)) == HL_OP_COUNT)
    return NULL;
  const CollGroups groups = coll_groups(p, inst);
  if (!coll_places(p, &groups) || !coll_ids_are_devices(p, groups.mode))
    return NULL;
  Levels levels = {.within = HL_ARRAY(p->arena, HlI64s, coll_devices(p) + 1),
                   .between = HL_ARRAY(p->arena, HlI64s, coll_devices(p) + 1)};
  for (int g = 0; g < groups.lists.n; g++)
    if (!split_group(p, groups.lists.at[g], per_host, &levels))
      return NULL;
  const int64_t size = hl_shape_elements(inst->shape);
  if (size % levels.per_host != 0)
    return NULL;
  HlInst *flat = hl_b_reshape(b, inst->operands[0], 1, &size);
  if (!flat)
    return NULL;
  const HlShape *part_shape = coll_resized(p, flat->shape, 0, size / levels.per_host);
  HlInst *part = coll_new(b, HL_OP_REDUCE_SCATTER, inst, part_shape, flat, 0);
  coll_set_groups(part, (HlI64Lists){levels.within, levels.n_within});
  HlInst *sum = coll_copy(b, inst, part_shape, 1, &part);
  coll_set_groups(sum, (HlI64Lists){levels.between, levels.n_between});
  coll_fresh_channel(p, sum);
  HlInst *all = coll_new(b, HL_OP_ALL_GATHER, inst, flat->shape, sum, 0);
  coll_set_groups(all, (HlI64Lists){levels.within, levels.n_within});
  coll_fresh_channel(p, all);
  coll_fresh_channel(p, part);
  return hl_b_reshape(b, all, inst->shape->rank, inst->shape->dim);
}

const HlRule blueconnect_rules[] = {{HL_OP_ALL_REDUCE, by_levels, "all-reduce-blueconnect",
                                     "all-reduce(x) => all-gather(all-reduce(reduce-scatter(x)))",
                                     "as many members on each host"},
                                    {0}};

bool pass_blueconnect(HlPass *p) {
  return coll_run_rules(p, blueconnect_rules, 1);
}
