// sim/graph/devices.c: replica groups and pairs of HLO as numbers of processors.

#include <string.h>

#include "base/ascii.h"
#include "base/vec.h"
#include "sim/graph/devices.h"

typedef VEC(int64_t) Ids;

static const HlGroups *groups_of(const HlInst *inst) {
  return hl_has_attr(inst, HL_A_REPLICA_GROUPS) ? hl_attr_ptr(inst, HL_A_REPLICA_GROUPS) : NULL;
}

static HlI64Lists lists_of(HlArena *arena, const HlInst *inst) {
  const HlGroups *groups = groups_of(inst);
  return groups ? hl_groups_lists(arena, groups) : (HlI64Lists){NULL, 0};
}

// The pairs that a send or recv notes as text, "{{0,1},{1,2}}".
static const char *pairs_text(const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "_xla_send_recv_source_target_pairs") == 0)
      return dict->value[k]->text;
  if ((inst->op == HL_OP_SEND_DONE || inst->op == HL_OP_RECV_DONE) && inst->n_operands > 0 &&
      (inst->operands[0]->op == HL_OP_SEND || inst->operands[0]->op == HL_OP_RECV))
    return pairs_text(inst->operands[0]);
  return NULL;
}

static HlI64s raw_pairs(HlArena *arena, const HlInst *inst) {
  if (hl_has_attr(inst, HL_A_SOURCE_TARGET_PAIRS))
    return hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  Ids ids = {0};
  const char *at = pairs_text(inst);
  while (at && *at)
    if (!is_digit(*at)) {
      at++;
    } else {
      int64_t number = 0;
      for (; is_digit(*at); at++)
        number = number < INT32_MAX ? number * 10 + (*at - '0') : number;
      vec_push_in(arena, &ids, number);
    }
  return (HlI64s){ids.at, ids.n & ~1};
}

// --- How many -------------------------------------------------------------------------------------------------

// Old dumps do not say how many there are; their groups do. `ids` are of one list of an instruction.
static void note_largest(const HlInst *inst, HlI64s ids, SimDevices *out) {
  const HlGroupMode mode = hl_group_mode(inst);
  int64_t *count = mode == HL_CROSS_PARTITION ? &out->partitions : &out->replicas;
  for (int k = 0; k < ids.n; k++) {
    const int64_t id = mode == HL_FLATTENED ? ids.at[k] / out->partitions : ids.at[k];
    if (id >= *count && id < INT64_MAX)
      *count = id + 1;
  }
}

static void note_all(HlArena *arena, const HlInst *inst, bool partitions, SimDevices *out) {
  if ((hl_group_mode(inst) == HL_CROSS_PARTITION) != partitions)
    return;
  const HlI64Lists lists = lists_of(arena, inst);
  for (int k = 0; k < lists.n; k++)
    note_largest(inst, lists.at[k], out);
  note_largest(inst, raw_pairs(arena, inst), out);
}

static bool takes_part(const HlInst *inst) {
  return hl_has_attr(inst, HL_A_REPLICA_GROUPS) || hl_has_attr(inst, HL_A_SOURCE_TARGET_PAIRS) ||
         inst->op == HL_OP_SEND || inst->op == HL_OP_RECV;
}

SimDevices sim_devices(HlCx *cx, const HlModule *m, int64_t replicas) {
  HlArena *arena = hl_arena_new();
  SimDevices out = {m->replica_count > 0 ? m->replica_count : 1,
                    m->num_partitions > 0 ? m->num_partitions : 1};
  for (int pass = 0; pass < 2;
       pass++)  // partitions, which numbers of replicas stand on, then replicas
    for (const HlComp *comp = m->first; comp; comp = comp->next)
      for (const HlInst *inst = comp->first; inst; inst = inst->next)
        if (takes_part(inst))
          note_all(arena, inst, pass == 0, &out);
  if (replicas > out.replicas)
    out.replicas = replicas;
  hl_arena_free(arena);
  return out;
}

// --- Groups ---------------------------------------------------------------------------------------------------

static int64_t n_devices(const SimDevices *d) {
  return d->replicas * d->partitions;
}

// Lists of all of them are made.
static bool check_number(HlCx *cx, const SimDevices *d, const HlInst *inst) {
  enum { MOST = 1 << 24 };
  return d->replicas <= MOST / d->partitions ||
         (hl_error_kind(cx, HL_LIMIT, hl_pos(inst),
                        "%lld replicas of %lld partitions are more than %d processors",
                        (long long)d->replicas, (long long)d->partitions, MOST),
          false);
}

static bool check(HlCx *cx, const HlInst *inst, int64_t id, int64_t n) {
  return (id >= 0 && id < n) || hl_inst_error(cx, inst, "its groups name %lld: there are %lld",
                                              (long long)id, (long long)n);
}

// All ids of a mode: what groups that are not written out mean.
static HlI64Lists everybody(HlArena *arena, int64_t n) {
  int64_t *ids = HL_ARRAY(arena, int64_t, n);
  HlI64s *list = HL_NEW(arena, HlI64s);
  for (int64_t k = 0; k < n; k++)
    ids[k] = k;
  *list = (HlI64s){ids, (int)n};
  return (HlI64Lists){list, 1};
}

// Where id k of a group is, in the copy of the group number `copy`, as its `part`.
static int64_t processor_of(const SimDevices *d, HlGroupMode mode, int64_t id, int64_t copy,
                            int64_t part) {
  switch (mode) {
  case HL_CROSS_REPLICA: return id * d->partitions + copy;
  case HL_CROSS_PARTITION: return copy * d->partitions + id;
  case HL_CROSS_BOTH: return id * d->partitions + part;
  default: return id;
  }
}

typedef struct Meaning {
  HlGroupMode mode;
  int64_t ids;     // that there are
  int64_t copies;  // of each group
  int64_t parts;   // processors for an id
} Meaning;

static Meaning meaning_of(const SimDevices *d, HlGroupMode mode) {
  switch (mode) {
  case HL_CROSS_REPLICA: return (Meaning){mode, d->replicas, d->partitions, 1};
  case HL_CROSS_PARTITION: return (Meaning){mode, d->partitions, d->replicas, 1};
  case HL_CROSS_BOTH: return (Meaning){mode, d->replicas, 1, d->partitions};
  default: return (Meaning){mode, n_devices(d), 1, 1};
  }
}

bool sim_device_groups(HlCx *cx, HlArena *arena, const SimDevices *devices, const HlInst *inst,
                       HlI64Lists *out) {
  HlI64Lists lists = lists_of(arena, inst);
  if (!check_number(cx, devices, inst))
    return false;
  const Meaning m = meaning_of(devices, hl_group_mode(inst));
  if (lists.n == 0)
    lists = everybody(arena, m.ids);
  HlI64s *groups = HL_ARRAY(arena, HlI64s, lists.n * m.copies);
  int n = 0;
  for (int k = 0; k < lists.n; k++)
    for (int64_t copy = 0; copy < m.copies; copy++) {
      int64_t *ids = HL_ARRAY(arena, int64_t, lists.at[k].n * m.parts + 1);
      int n_ids = 0;
      for (int j = 0; j < lists.at[k].n; j++) {
        if (!check(cx, inst, lists.at[k].at[j], m.ids))
          return false;
        for (int64_t part = 0; part < m.parts; part++)
          ids[n_ids++] = processor_of(devices, m.mode, lists.at[k].at[j], copy, part);
      }
      groups[n++] = (HlI64s){ids, n_ids};
    }
  *out = (HlI64Lists){groups, n};
  return true;
}

bool sim_device_pairs(HlCx *cx, HlArena *arena, const SimDevices *devices, const HlInst *inst,
                      HlI64s *out) {
  const HlI64s pairs = raw_pairs(arena, inst);
  if (!check_number(cx, devices, inst))
    return false;
  const Meaning m = meaning_of(devices, hl_group_mode(inst));
  int64_t *ids = HL_ARRAY(arena, int64_t, pairs.n * m.copies + 1);
  int n = 0;
  for (int64_t copy = 0; copy < m.copies; copy++)
    for (int k = 0; k < pairs.n; k++) {
      if (!check(cx, inst, pairs.at[k], m.ids))
        return false;
      ids[n++] = processor_of(devices, m.mode, pairs.at[k], copy, 0);
    }
  *out = (HlI64s){ids, n};
  return true;
}
