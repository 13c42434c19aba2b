// verify/collective.c: who takes part in an operation between devices: groups and pairs (hlo.md
// 4.10).

#include "verify/verify.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const mode_text[] = {
    [HL_CROSS_REPLICA] = "cross_replica",
    [HL_CROSS_PARTITION] = "cross_partition",
    [HL_CROSS_BOTH] = "cross_replica_and_partition",
    [HL_FLATTENED] = "flattened_id",
};

// A channel id that is not positive is none.
static bool group_mode(Verify *v, const HlInst *inst, HlGroupMode *out) {
  *out = hl_group_mode(inst);
  if (*out != HL_CROSS_REPLICA || !hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS))
    return true;
  return hl_inst_error(v->cx, inst, "cannot have use_global_device_ids=true without channel_id");
}

// --- Groups -------------------------------------------------------------------------------------

typedef struct Groups {
  int64_t n_groups;  // 0: one group of everyone
  int64_t first;     // size of the first group
  int64_t total;     // ids in all groups
  bool uniform;
} Groups;

static bool check_ids(Verify *v, const HlInst *inst, HlI64Lists lists, Groups *out) {
  *out = (Groups){.n_groups = lists.n, .first = lists.n > 0 ? lists.at[0].n : 0, .uniform = true};
  for (int k = 0; k < lists.n; k++) {
    if (lists.at[k].n == 0)
      return hl_inst_error(v->cx, inst, "instruction cannot have an empty replica group");
    out->uniform &= lists.at[k].n == out->first;
    out->total += lists.at[k].n;
  }
  bool *seen = HL_ARRAY(v->scratch, bool, out->total + 1);
  for (int k = 0; k < lists.n; k++) {
    for (int j = 0; j < lists.at[k].n; j++) {
      int64_t id = lists.at[k].at[j];
      if (id < 0 || id >= out->total)
        return hl_inst_error(v->cx, inst,
                             "replica %" PRId64
                             " is out of range in instruction's replica-groups: with %" PRId64
                             " ids in all they must be in [0, %" PRId64 ")",
                             id, out->total, out->total);
      if (seen[id])
        return hl_inst_error(v->cx, inst,
                             "replica %" PRId64 " is repeated in instruction's replica-groups", id);
      seen[id] = true;
    }
  }
  return true;
}

static bool read_groups(Verify *v, const HlInst *inst, Groups *out) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  *out = (Groups){.uniform = true};
  if (groups == NULL)
    return true;
  if (groups->form == HL_GROUPS_LIST)
    return check_ids(v, inst, groups->list, out);
  if (groups->form == HL_GROUPS_MESH)
    return check_ids(v, inst, hl_groups_lists(v->scratch, groups), out);
  // The ids of an iota are a permutation by construction.
  *out = (Groups){groups->n_groups, groups->group_size, 0, true};
  if (__builtin_mul_overflow(groups->n_groups, groups->group_size, &out->total) || out->total <= 0)
    return hl_inst_error(v->cx, inst, "replica groups [%" PRId64 ",%" PRId64 "] have no valid size",
                         groups->n_groups, groups->group_size);
  return true;
}

static int64_t devices_of(const HlModule *m, HlGroupMode mode) {
  int64_t both;
  switch (mode) {
  case HL_CROSS_PARTITION: return m->num_partitions;
  case HL_FLATTENED:
    return __builtin_mul_overflow(m->replica_count, m->num_partitions, &both) ? INT64_MAX : both;
  default: return m->replica_count;
  }
}

// Checks groups against the module's devices; the check of numbers is skipped where they are not
// set.
static bool check_groups(Verify *v, const HlInst *inst, HlGroupMode mode, const Groups *groups) {
  bool uneven_is_fine = inst->op == HL_OP_ALL_REDUCE || inst->op == HL_OP_ALL_REDUCE_START;
  if (groups->n_groups == 0) {
    if (mode != HL_FLATTENED)
      return true;
    return hl_inst_error(v->cx, inst,
                         "replica groups must be specified in flattened-id mode (channel_id with "
                         "use_global_device_ids=true)");
  }
  int64_t wanted = devices_of(v->m, mode);
  if (wanted != 1 && groups->total != wanted)
    return hl_inst_error(
        v->cx, inst,
        "in %s mode, replica groups should contain %" PRId64 " ids, but found %" PRId64
        " (the module has replica_count=%" PRId64 ", num_partitions=%" PRId64 ")",
        mode_text[mode], wanted, groups->total, v->m->replica_count, v->m->num_partitions);
  if (!groups->uniform && !uneven_is_fine)
    return hl_inst_error(v->cx, inst, "replica groups expected to be of uniform size");
  return true;
}

// How many devices exchange data.
static int64_t subgroup_size(const HlModule *m, HlGroupMode mode, const Groups *groups) {
  int64_t size = groups->n_groups > 0         ? groups->first
                 : mode == HL_CROSS_PARTITION ? m->num_partitions
                                              : m->replica_count;
  if (mode == HL_CROSS_BOTH && __builtin_mul_overflow(size, m->num_partitions, &size))
    return INT64_MAX;
  return size;
}

// --- Shapes against groups ----------------------------------------------------------------------

static const HlShape *first_result(const HlInst *inst) {
  const HlShape *shape = inst->shape;
  if (inst->op == HL_OP_ALL_GATHER_START)
    shape = shape->element[1];
  return inst->n_operands > 1 ? shape->element[0] : shape;
}

// The written shape has passed the op's shape rule when this is asked.
static bool check_shards(Verify *v, const HlInst *inst, int64_t group) {
  int64_t at = hl_dim(inst), in = inst->operands[0]->shape->dim[at],
          out = first_result(inst)->dim[at];
  int64_t large = in > out ? in : out, small = in > out ? out : in;
  if (inst->op == HL_OP_REDUCE_SCATTER) {
    large = in;
    small = out;
  }
  int64_t shards = small <= 0 ? 1 : large / small + (large % small != 0);
  if (group == 1 || shards == group || large < 0 || small < 0)
    return true;
  return hl_inst_error(v->cx, inst,
                       "%s changes dimension %" PRId64 " by a factor of %" PRId64 " (%" PRId64
                       " to %" PRId64 "), but its groups have %" PRId64 " devices",
                       hl_op_text((HlOp)inst->op), at, shards, in, out, group);
}

static bool check_all_to_all(Verify *v, const HlInst *inst, int64_t group) {
  if (!hl_has_attr(inst, HL_A_DIMENSION)) {
    if ((int64_t)inst->n_operands == group)
      return true;
    return hl_inst_error(v->cx, inst,
                         "all-to-all expects one operand for each of the %" PRId64
                         " devices of a group, "
                         "got %u",
                         group, (unsigned)inst->n_operands);
  }
  int64_t size = inst->operands[0]->shape->dim[hl_dim(inst)];
  if (size == HL_UNBOUNDED || group <= 0 || size % group == 0)
    return true;
  return hl_inst_error(v->cx, inst,
                       "all-to-all split dimension size %" PRId64
                       " must be dividable by split_count %" PRId64,
                       size, group);
}

// --- collective-permute -------------------------------------------------------------------------

static bool buffer_offset(Verify *v, const HlInst *inst, const HlShape *buffer,
                          const HlShape *offset) {
  if (!hl_shape_is_tuple(offset))
    return hl_inst_error(v->cx, inst, "buffer offset is not tuple: %s", verify_text(v, offset));
  bool arrays = true, tuples = true;
  for (int k = 0; k < offset->rank; k++) {
    arrays &= hl_is_array_dtype(offset->element[k]->dtype);
    tuples &= hl_shape_is_tuple(offset->element[k]);
  }
  if (!arrays && !tuples)
    return hl_inst_error(
        v->cx, inst, "buffer offset should either be a tuple of arrays or a tuple of tuples: %s",
        verify_text(v, offset));
  bool fits = tuples || offset->rank == buffer->rank;
  for (int k = 0; tuples && k < offset->rank; k++)
    fits &= offset->element[k]->rank == buffer->rank;
  return fits || hl_inst_error(v->cx, inst,
                               "buffer offset index should have the same number of elements as the "
                               "buffer's rank: %s for %s",
                               verify_text(v, offset), verify_text(v, buffer));
}

// In the in-place form operands 2 and 3 say where in the buffers the slices start.
static bool check_in_place(Verify *v, const HlInst *inst, int64_t *uses) {
  for (int side = 0; side < 2; side++) {
    const HlShape *buffer = inst->operands[side]->shape, *offset = inst->operands[side + 2]->shape;
    if (hl_shape_is_tuple(buffer) != hl_shape_is_tuple(inst->operands[0]->shape) ||
        (hl_shape_is_tuple(buffer) && buffer->rank != inst->operands[0]->shape->rank))
      return hl_inst_error(v->cx, inst, "unmatching input buffers and output buffers: %s and %s",
                           verify_text(v, inst->operands[0]->shape), verify_text(v, buffer));
    if (!hl_shape_is_tuple(buffer)) {
      if (!buffer_offset(v, inst, buffer, offset))
        return false;
      continue;
    }
    if (!hl_shape_is_tuple(offset) || offset->rank != buffer->rank)
      return hl_inst_error(v->cx, inst, "unmatching %s buffers and %s offset: %s and %s",
                           side == 0 ? "input" : "output", side == 0 ? "input" : "output",
                           verify_text(v, buffer), verify_text(v, offset));
    for (int k = 0; k < buffer->rank; k++)
      if (!buffer_offset(v, inst, buffer->element[k], offset->element[k]))
        return false;
  }
  const HlShape *offset = inst->operands[2]->shape;
  bool several = hl_shape_is_tuple(inst->operands[0]->shape);
  *uses = several ? (offset->rank > 0 ? offset->element[0]->rank : 0) : offset->rank;
  return true;
}

static int compare_ints(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// Reports a device that stands in more than `uses` pairs on one side (0: source, 1: target).
static bool check_side(Verify *v, const HlInst *inst, HlI64s pairs, int side, int64_t uses) {
  int n = pairs.n / 2;
  int64_t *device = HL_ARRAY(v->scratch, int64_t, n + 1), run = 0;
  for (int k = 0; k < n; k++)
    device[k] = pairs.at[2 * k + side];
  qsort(device, (size_t)n, sizeof *device, compare_ints);
  for (int k = 0; k < n; k++) {
    run = k > 0 && device[k] == device[k - 1] ? run + 1 : 1;
    if (run > uses)
      return hl_inst_error(
          v->cx, inst, "%s %" PRId64 " appears more than %s in instruction's source-target pairs",
          side == 0 ? "source" : "target", device[k],
          uses == 1 ? "once" : hl_arena_printf(v->scratch, "%" PRId64 " times", uses));
  }
  return true;
}

static bool check_pairs(Verify *v, const HlInst *inst, int64_t uses) {
  HlI64s pairs = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  HlGroupMode mode;
  if (!group_mode(v, inst, &mode))
    return false;
  const int64_t known = mode == HL_CROSS_REPLICA ? v->m->replica_count : v->m->num_partitions;
  // A module of one device may be one that does not say; yet devices are counted in 32 bits.
  const int64_t limit = known > 1 ? known : INT32_MAX;
  for (int k = 0; k < pairs.n; k++)
    if (pairs.at[k] < 0 || pairs.at[k] >= limit)
      return hl_inst_error(v->cx, inst,
                           "%s %" PRId64
                           " in the instruction's source-target pair must be in [0, %" PRId64
                           "), the %s",
                           k % 2 == 0 ? "source" : "target", pairs.at[k], limit,
                           known <= 1                 ? "numbers of devices"
                           : mode == HL_CROSS_REPLICA ? "module's replicas"
                                                      : "module's partitions");
  return check_side(v, inst, pairs, 0, uses) && check_side(v, inst, pairs, 1, uses);
}

static bool check_permute(Verify *v, const HlInst *inst) {
  int64_t uses = 1;
  if (hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES) && !check_in_place(v, inst, &uses))
    return false;
  return check_pairs(v, inst, uses);
}

// --- All ----------------------------------------------------------------------------------------

static bool check_reduction(Verify *v, const HlInst *inst) {
  const HlAttr *channel = hl_attr(inst, HL_A_CHANNEL_ID);
  if (channel != NULL && channel->i <= 0)
    return hl_inst_error(v->cx, inst, "all reduce channel id must be greater than 0, got %" PRId64,
                         channel->i);
  return true;
}

bool verify_collective(Verify *v, const HlInst *inst) {
  HlOp op = (HlOp)inst->op;
  if (op == HL_OP_COLLECTIVE_PERMUTE || op == HL_OP_COLLECTIVE_PERMUTE_START)
    return check_permute(v, inst);
  if (op == HL_OP_COLLECTIVE_BROADCAST || v->has_grids)
    return true;
  HlGroupMode mode;
  Groups groups;
  if (!group_mode(v, inst, &mode) || !read_groups(v, inst, &groups) ||
      !check_groups(v, inst, mode, &groups))
    return false;
  int64_t group = subgroup_size(v->m, mode, &groups);
  switch (op) {
  case HL_OP_ALL_GATHER:
  case HL_OP_ALL_GATHER_START:
  case HL_OP_REDUCE_SCATTER: return check_shards(v, inst, group);
  case HL_OP_ALL_TO_ALL: return check_all_to_all(v, inst, group);
  case HL_OP_ALL_REDUCE: return check_reduction(v, inst);
  default: return true;
  }
}
