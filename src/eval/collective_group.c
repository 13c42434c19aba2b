// eval/collective_group.c: the group of a collective that this device belongs to, and meeting its members.

#include "eval/collective.h"

static bool mode_of(Interp *in, const HlInst *inst, HlGroupMode *mode) {
  if (hl_has_global_ids((HlOp)inst->op) && hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS) != 0 &&
      hl_attr_int(inst, HL_A_CHANNEL_ID) <= 0)
    return hl_inst_error(in->ev.cx, inst, "use_global_device_ids=true needs a channel_id");
  *mode = hl_group_mode(inst);
  return true;
}

static int64_t own_id(const Interp *in, HlGroupMode mode) {
  return mode == HL_CROSS_PARTITION ? in->partition
         : mode == HL_FLATTENED     ? in->device
                                    : in->replica;
}

static int64_t id_limit(const Interp *in, HlGroupMode mode) {
  const Cluster *cluster = in->cluster;
  return mode == HL_CROSS_PARTITION ? cluster->partitions
         : mode == HL_FLATTENED     ? cluster->n_devices
                                    : cluster->replicas;
}

// The ids of the group that holds `own`, or everybody's where no groups are written. n = 0: none.
static HlI64s ids_of_group(Interp *in, const HlInst *inst, HlGroupMode mode) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  const HlI64Lists lists = groups ? hl_groups_lists(in->frames, groups) : (HlI64Lists){NULL, 0};
  bool some = false;
  for (int k = 0; k < lists.n; k++) {
    if (hl_i64s_find(lists.at[k], own_id(in, mode)) >= 0)
      return lists.at[k];
    some = some || lists.at[k].n > 0;
  }
  if (some)
    return (HlI64s){NULL, 0};
  const int64_t n = id_limit(in, mode);
  int64_t *all = HL_ARRAY(in->frames, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    all[k] = k;
  return (HlI64s){all, (int)n};
}

static int64_t device_of_id(const Interp *in, HlGroupMode mode, int64_t id) {
  const int64_t partitions = in->cluster->partitions;
  return mode == HL_CROSS_PARTITION ? in->replica * partitions + id
         : mode == HL_FLATTENED     ? id
                                    : id * partitions + in->partition;
}

// A proto of a module does not say on how many devices it runs: then the caller must.
static bool too_few(const Interp *in, const HlInst *inst, HlGroupMode mode, int64_t id) {
  hl_inst_error(in->ev.cx, inst, "replica_groups name %lld, but there are only %lld %s",
                (long long)id, (long long)id_limit(in, mode),
                mode == HL_CROSS_PARTITION ? "partitions"
                : mode == HL_FLATTENED     ? "devices"
                                           : "replicas");
  hl_hint(in->ev.cx,
          "the module says %lld replicas and %lld partitions; --replicas=N and "
          "--partitions=N say otherwise",
          (long long)in->module->replica_count, (long long)in->module->num_partitions);
  return false;
}

bool collective_group(Interp *in, const HlInst *inst, Group *group) {
  HlGroupMode mode = HL_CROSS_REPLICA;
  if (!mode_of(in, inst, &mode))
    return false;
  const HlI64s ids = ids_of_group(in, inst, mode);
  const int each = mode == HL_CROSS_BOTH ? in->cluster->partitions : 1;
  int64_t *device = HL_ARRAY(in->frames, int64_t, (int64_t)ids.n * each + 1);
  *group = (Group){device, ids.n * each, -1};
  for (int k = 0; k < ids.n; k++) {
    if (ids.at[k] < 0 || ids.at[k] >= id_limit(in, mode))
      return too_few(in, inst, mode, ids.at[k]);
    if (hl_i64s_find((HlI64s){ids.at, k}, ids.at[k]) >= 0)
      return hl_inst_error(in->ev.cx, inst, "replica_groups name %lld twice in one group",
                           (long long)ids.at[k]);
    for (int p = 0; p < each; p++)
      device[in->cluster->is_process_grid ? p * ids.n + k : k * each + p] =
          mode == HL_CROSS_BOTH ? ids.at[k] * each + p : device_of_id(in, mode, ids.at[k]);
  }
  for (int k = 0; k < group->n; k++)
    if (device[k] == in->device)
      group->me = k;
  return true;
}

int collective_peer(const Interp *in, const HlInst *inst, int64_t id) {
  const HlGroupMode mode =
      hl_attr_int(inst, HL_A_CHANNEL_ID) > 0 ? HL_CROSS_PARTITION : HL_CROSS_REPLICA;
  return id < 0 || id >= id_limit(in, mode) ? -1 : (int)device_of_id(in, mode, id);
}

// --- Meeting -------------------------------------------------------------------------------------

static bool is_usable(const HlLiteral *value) {
  return hl_shape_is_array(value->shape) && !hl_literal_is_elided(value);
}

static bool same_kind(const HlLiteral *a, const HlLiteral *b) {
  return a->shape->dtype == b->shape->dtype && hl_shape_same_dims(a->shape, b->shape) &&
         a->n == b->n;
}

static bool check_mine(Interp *in, const HlInst *inst, const HlLiteral *const *mine, int n_mine) {
  for (int k = 0; k < n_mine; k++)
    if (!is_usable(mine[k]))
      return hl_inst_error(in->ev.cx, inst, "operand %d is no array of known values", k);
  return true;
}

static bool check_all(Interp *in, const HlInst *inst, int n, int n_mine,
                      const HlLiteral *const *mine, HlLiteral *const *all) {
  for (int k = 0; k < n * n_mine; k++) {
    if (all[k] && is_usable(all[k]) && same_kind(all[k], mine[k % n_mine]))
      continue;
    return hl_inst_error(in->ev.cx, inst,
                         "the devices bring different shapes: %s here, %s elsewhere",
                         hl_shape_text(in->ev.cx, mine[k % n_mine]->shape),
                         all[k] ? hl_shape_text(in->ev.cx, all[k]->shape) : "nothing");
  }
  return true;
}

// Groups of different instructions may share a channel, so the key holds the op and the members.
static MeetKey key_of(const HlInst *inst, const Group *group) {
  const int64_t channel = hl_attr_int(inst, HL_A_CHANNEL_ID);
  const uint64_t members =
      hl_hash_bytes(group->device, (size_t)group->n * sizeof *group->device, inst->op);
  return device_key(inst, channel, (int64_t)members);
}

bool collective_exchange(Interp *in, const HlInst *inst, const Group *group,
                         const HlLiteral *const *mine, int n_mine, HlLiteral **all) {
  if (!check_mine(in, inst, mine, n_mine))
    return false;
  if (group->n == 1) {
    for (int k = 0; k < n_mine; k++)
      all[k] = hl_literal_ref(mine[k]);
    return true;
  }
  if (!device_exchange(in, inst, key_of(inst, group), group->n, group->device, group->me, mine, n_mine, all))
    return false;
  if (check_all(in, inst, group->n, n_mine, mine, all))
    return true;
  collective_drop(in, all, group->n * n_mine);
  return false;
}

void collective_drop(Interp *in, HlLiteral **values, int n) {
  for (int k = 0; k < n; k++) {
    interp_drop(in, values[k]);
    values[k] = NULL;
  }
}
