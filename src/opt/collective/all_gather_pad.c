// opt/collective/all_gather_pad.c
//
// all-gather-pad-ds-simplifier: sends parts only to the few devices that see them, where what is gathered is
// padded with zeros and each device takes a slice of it.
//
//   g = f32[8] all-gather(f32[2] x)                     four devices
//   p = f32[32] pad(g, 0), padding=0_24
//   s = f32[8] dynamic-slice(p, 8 * partition-id)       device 0 sees all of g, the others zeros
//   =>
//   c1 = f32[2] collective-permute(x), source_target_pairs={{1,0}}      and so on from each of the others
//   all = f32[8] concatenate(x, c1, c2, c3)
//   s = f32[8] select(partition-id == 0, all, 0)

#include "opt/ask/collectives.h"
#include "opt/passes.h"

typedef struct Parts {
  HlInst *gather;
  CollGroups groups;
  const CollPlace *places;
  int64_t n;  // devices
  int dim;
  int64_t before;  // zeros in front of what is gathered, where it is seen
  bool *sees;      // by device
  bool all_see;
} Parts;

// The pad adds zeros at one end of the dimension, nothing else.
static bool pads_end(const HlInst *pad, int dim) {
  const HlI64s padding = hl_attr_ints(pad, HL_A_PADDING);
  for (int d = 0; d < pad->shape->rank; d++) {
    const int64_t low = padding.at[3 * d], high = padding.at[3 * d + 1];
    if (padding.at[3 * d + 2] != 0 || low < 0 || high < 0 || (d != dim && (low || high)) ||
        (low && high))
      return false;
  }
  const HlLiteral *value = hl_splat(pad->operands[1]);
  return value && hl_literal_is_all(value, 0);
}

static bool matches(HlPass *p, const HlInst *slice, Parts *parts) {
  const HlInst *pad = slice->operands[0];
  if (pad->op != HL_OP_PAD || pad->operands[0]->op != HL_OP_ALL_GATHER || !hl_one_user(pad) ||
      (int)slice->n_operands != slice->shape->rank + 1)
    return false;
  parts->gather = pad->operands[0];
  parts->dim = coll_sliced_dim(slice);
  if (!hl_one_user(parts->gather) || !coll_is_plain(parts->gather) || parts->dim < 0 ||
      parts->dim != hl_dim(parts->gather) || !pads_end(pad, parts->dim) ||
      parts->gather->shape->dim[parts->dim] > slice->shape->dim[parts->dim])
    return false;
  parts->groups = coll_groups(p, parts->gather);
  const bool ids_fit = (parts->groups.mode == HL_FLATTENED && p->m->replica_count == 1) ||
                       (parts->groups.mode == HL_CROSS_REPLICA && p->m->num_partitions == 1);
  parts->places = ids_fit && parts->groups.size > 0 ? coll_places(p, &parts->groups) : NULL;
  parts->n = coll_devices(p);
  return parts->places != NULL;
}

// Which devices see what is gathered, all at the same place in their slice; false: some a part of it, nobody, or two of
// one group.
static bool find_seers(HlPass *p, const HlInst *slice, Parts *parts) {
  const HlInst *pad = slice->operands[0], *at = slice->operands[1 + parts->dim];
  const int64_t width = slice->shape->dim[parts->dim], room = pad->shape->dim[parts->dim] - width;
  const int64_t first = hl_attr_ints(pad, HL_A_PADDING).at[3 * parts->dim];
  const int64_t last = first + parts->gather->shape->dim[parts->dim];
  const int64_t *start = coll_value_by_device(p, at);
  bool *taken = HL_ARRAY(p->arena, bool, parts->groups.lists.n + 1), any = false;
  parts->sees = HL_ARRAY(p->arena, bool, parts->n + 1);
  parts->all_see = true;
  for (int64_t k = 0; start && k < parts->n; k++) {
    int64_t from = start[k] < 0 && hl_is_signed(at->shape->dtype) ? 0 : start[k];
    from = from < 0 || from > room ? room : from;
    parts->sees[k] = from < last && from + width > first;
    parts->all_see &= parts->sees[k];
    if (!parts->sees[k])
      continue;
    if (from > first || from + width < last || (any && parts->before != first - from) ||
        taken[parts->places[k].group])
      return false;
    parts->before = first - from;
    taken[parts->places[k].group] = any = true;
  }
  return any;
}

// Part j of each group where it is seen: x itself if it is there.
static HlInst *part_where_seen(HlPass *p, HlBuild *b, const Parts *parts, int64_t j) {
  HlInst *x = parts->gather->operands[0];
  int64_t *pairs = HL_ARRAY(p->arena, int64_t, 2 * parts->n + 1);
  int n = 0;
  bool stays = true;
  for (int64_t k = 0; k < parts->n; k++) {
    if (!parts->sees[k])
      continue;
    pairs[n++] = parts->groups.lists.at[parts->places[k].group].at[j];
    pairs[n++] = k;
    stays &= pairs[n - 2] == k;
  }
  if (stays)
    return x;
  HlInst *sent = coll_new(b, HL_OP_COLLECTIVE_PERMUTE, parts->gather, x->shape, x, -1);
  hl_remove_attr(sent, HL_A_REPLICA_GROUPS);
  hl_remove_attr(sent, HL_A_USE_GLOBAL_DEVICE_IDS);
  hl_set_ints(sent, HL_A_SOURCE_TARGET_PAIRS, (HlI64s){pairs, n});
  coll_fresh_channel(p, sent);
  return sent;
}

static HlInst *zeros(HlPass *p, HlBuild *b, const HlShape *like, int dim, int64_t size) {
  const HlShape *shape = coll_resized(p, like, dim, size);
  return hl_b_full(b, shape->dtype, shape->rank, shape->dim, 0);
}

// Whether the device at hand is one of those that see something.
static HlInst *sees_here(HlPass *p, HlBuild *b, const Parts *parts) {
  HlLiteral *list = hl_literal_new(p->cx, hl_shape_array(p->m->shapes, HL_PRED, 1, &parts->n));
  if (!list)
    return NULL;
  for (int64_t k = 0; k < parts->n; k++)
    hl_literal_set_i64(list, k, parts->sees[k]);
  HlInst *by_device = hl_constant_new(b->comp, list, NULL);
  hl_literal_unref(list);
  const HlOp id_op = parts->groups.mode == HL_CROSS_REPLICA ? HL_OP_REPLICA_ID : HL_OP_PARTITION_ID;
  HlInst *id = hl_inst_new(b->comp, id_op, hl_shape_scalar(p->m->shapes, HL_U32), NULL, 0, NULL);
  const int64_t one = 1;
  return hl_b_reshape(b, hl_b_dynamic_slice(b, by_device, &id, &one), 0, NULL);
}

static HlInst *send_to_seers(HlPass *p, HlBuild *b, HlInst *slice) {
  Parts parts = {0};
  if (!matches(p, slice, &parts) || !find_seers(p, slice, &parts))
    return NULL;
  const int64_t size = parts.groups.size, width = slice->shape->dim[parts.dim];
  const int64_t after = width - parts.before - parts.gather->shape->dim[parts.dim];
  HlInst **part = HL_ARRAY(p->arena, HlInst *, size + 2);
  int n = 0;
  if (parts.before > 0)
    part[n++] = zeros(p, b, slice->shape, parts.dim, parts.before);
  for (int64_t j = 0; j < size; j++)
    part[n++] = part_where_seen(p, b, &parts, j);
  if (after > 0)
    part[n++] = zeros(p, b, slice->shape, parts.dim, after);
  HlInst *all = n == 1 ? part[0] : hl_b_concatenate(b, n, part, parts.dim);
  if (parts.all_see)
    return all;
  HlInst *here = sees_here(p, b, &parts);
  return here ? hl_b_select(b, here, all, zeros(p, b, slice->shape, parts.dim, width)) : NULL;
}

const HlRule all_gather_pad_rules[] = {
    {HL_OP_DYNAMIC_SLICE, send_to_seers, "all-gather-pad-ds-simplifier",
     "dynamic-slice(pad(all-gather(x), 0)) => select(concatenate(collective-permute(x)...), 0)",
     "each device's slice holds all that is gathered, at one place, or nothing of it"},
    {0}};

bool pass_all_gather_pad(HlPass *p) {
  return coll_run_rules(p, all_gather_pad_rules, 1);
}
