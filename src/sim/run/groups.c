// sim/run/groups.c: which devices exchange with each other, by an instruction's replica groups or pairs.
//
// Device = replica * partitions + partition, as XLA assigns them. A program that is run on more devices than it was made for
// is taken for several copies of it that share what all devices share: a group of all becomes one of all there are, any
// other is there once for each copy.

#include "sim/run/run.h"

typedef struct Devices {
  int64_t replicas, partitions, all, copies;
} Devices;

static Devices devices_of(const HlProgramBuilder *b) {
  Devices d = {b->replicas, b->partitions, b->replicas * b->partitions, 1};
  d.copies = b->program->devices / d.all > 0 ? b->program->devices / d.all : 1;
  return d;
}

static int64_t ids_of(const Devices *d, HlGroupMode mode) {
  return mode == HL_CROSS_PARTITION ? d->partitions : mode == HL_FLATTENED ? d->all : d->replicas;
}

typedef VEC(int64_t) Members;

// The devices of one group of ids, once for each replica or partition that is meant by itself.
static void add_group(const Devices *d, HlGroupMode mode, HlI64s ids, int64_t copy, Members *out) {
  const int64_t base = copy * d->all;
  const int64_t alone = mode == HL_CROSS_PARTITION ? d->replicas
                        : mode == HL_CROSS_REPLICA ? d->partitions
                                                   : 1;
  for (int64_t k = 0; k < alone; k++)
    for (int i = 0; i < ids.n; i++) {
      const int64_t id = ids.at[i];
      if (mode == HL_CROSS_BOTH) {
        for (int64_t p = 0; p < d->partitions; p++)
          vec_push(out, base + id * d->partitions + p);
      } else {
        vec_push(out, base + (mode == HL_FLATTENED         ? id
                              : mode == HL_CROSS_PARTITION ? k * d->partitions + id
                                                           : id * d->partitions + k));
      }
    }
}

static HlI64s all_ids(HlArena *arena, int64_t n) {
  int64_t *ids = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    ids[k] = k;
  return (HlI64s){ids, (int)n};
}

static HlI64Lists lists_of(HlArena *arena, const HlInst *inst, int64_t n_ids) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  HlI64Lists lists = groups ? hl_groups_lists(arena, groups) : (HlI64Lists){NULL, 0};
  for (int k = 0; k < lists.n; k++)
    if (lists.at[k].n > 0)
      return lists;
  HlI64s *all = HL_NEW(arena, HlI64s);
  *all = all_ids(arena, n_ids);
  return (HlI64Lists){all, 1};
}

static bool check_lists(HlCx *cx, const HlInst *inst, HlI64Lists lists, int64_t n_ids) {
  for (int k = 0; k < lists.n; k++)
    for (int i = 0; i < lists.at[k].n; i++)
      if (lists.at[k].at[i] < 0 || lists.at[k].at[i] >= n_ids)
        return hl_inst_error(cx, inst, "replica_groups name %lld, but there are only %lld",
                             (long long)lists.at[k].at[i], (long long)n_ids);
  return true;
}

// `lists` are of one size, of which there may be others (`some`).
static int make_groups(HlProgramBuilder *b, const Devices *d, HlGroupMode mode, HlI64Lists lists,
                       bool some) {
  Members members = {0};
  int64_t width = lists.at[0].n;
  if (mode == HL_CROSS_BOTH)
    width *= d->partitions;
  const bool joins = !(b->copies_apart && d->replicas == 1) && !some;
  if (lists.n == 1 && width == d->all && d->copies > 1 && joins) {
    for (int64_t copy = 0; copy < d->copies; copy++)
      add_group(d, mode, lists.at[0], copy, &members);
    width *= d->copies;
  } else {
    for (int64_t copy = 0; copy < d->copies; copy++)
      for (int k = 0; k < lists.n; k++)
        add_group(d, mode, lists.at[k], copy, &members);
  }
  const int groups = hl_program_groups(b, (HlDeviceGroups){members.n / width, width, members.at});
  vec_free(&members);
  return groups;
}

static bool is_first_of_size(HlI64Lists lists, int k) {
  for (int i = 0; i < k; i++)
    if (lists.at[i].n == lists.at[k].n)
      return false;
  return lists.at[k].n > 0;
}

static RunGroups make_sets(HlProgramBuilder *b, HlArena *scratch, const Devices *d,
                           HlGroupMode mode, HlI64Lists lists) {
  VEC(int) sets = {0};
  for (int k = 0, left = lists.n; k < lists.n && left > 0; k++) {
    if (!is_first_of_size(lists, k))
      continue;
    VEC(HlI64s) same = {0};
    for (int i = k; i < lists.n; i++)
      if (lists.at[i].n == lists.at[k].n)
        vec_push_in(scratch, &same, lists.at[i]);
    left -= same.n;
    vec_push_in(b->arena, &sets,
                make_groups(b, d, mode, (HlI64Lists){same.at, same.n}, same.n < lists.n));
  }
  return (RunGroups){sets.n, sets.at};
}

RunGroups run_group_sets(HlProgramBuilder *b, HlI64Lists lists) {
  HlArena *scratch = hl_arena_new();
  const Devices d = {1, 1, b->program->devices, 1};
  const RunGroups out = make_sets(b, scratch, &d, HL_FLATTENED, lists);
  hl_arena_free(scratch);
  return out;
}

bool run_groups(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, HlGroupMode mode,
                RunGroups *out) {
  HlArena *scratch = hl_arena_new();
  const Devices d = devices_of(b);
  const int64_t n_ids = ids_of(&d, mode);
  const HlI64Lists lists = lists_of(scratch, inst, n_ids);
  const bool ok = check_lists(cx, inst, lists, n_ids);
  if (ok)
    *out = make_sets(b, scratch, &d, mode, lists);
  hl_arena_free(scratch);
  return ok;
}

static void add_pair(const Devices *d, HlGroupMode mode, int64_t from, int64_t to, int64_t base,
                     int64_t *target) {
  if (mode == HL_CROSS_PARTITION)
    for (int64_t r = 0; r < d->replicas; r++)
      target[base + r * d->partitions + from] = base + r * d->partitions + to;
  else if (mode == HL_FLATTENED)
    target[base + from] = base + to;
  else
    for (int64_t p = 0; p < d->partitions; p++)
      target[base + from * d->partitions + p] = base + to * d->partitions + p;
}

bool run_pairs(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, int *groups,
               const int64_t **target) {
  const Devices d = devices_of(b);
  const HlGroupMode mode = hl_group_mode(inst);
  const int64_t n_ids = ids_of(&d, mode), all = d.all * d.copies;
  const HlI64s pairs = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  int64_t *to = HL_ARRAY(b->arena, int64_t, all);
  for (int64_t k = 0; k < all; k++)
    to[k] = -1;
  for (int k = 0; k + 1 < pairs.n; k += 2) {
    const int64_t from = pairs.at[k], end = pairs.at[k + 1];
    if (from < 0 || from >= n_ids || end < 0 || end >= n_ids)
      return hl_inst_error(cx, inst, "source_target_pairs go outside %lld ids", (long long)n_ids);
    // Who sends to itself needs nobody else.
    for (int64_t copy = 0; copy < d.copies && from != end; copy++)
      add_pair(&d, mode, from, end, copy * d.all, to);
  }
  const HlI64s ids = all_ids(b->arena, all);
  *groups = hl_program_groups(b, (HlDeviceGroups){1, all, ids.at});
  *target = to;
  return true;
}

// --- How many there are ---------------------------------------------------------------------------------------

static int64_t most_named(HlArena *arena, const HlInst *inst) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  const HlI64s pairs = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  const HlI64Lists lists = groups ? hl_groups_lists(arena, groups) : (HlI64Lists){NULL, 0};
  int64_t most = -1;
  for (int k = 0; k < lists.n; k++)
    for (int i = 0; i < lists.at[k].n; i++)
      most = lists.at[k].at[i] > most ? lists.at[k].at[i] : most;
  for (int k = 0; k < pairs.n; k++)
    most = pairs.at[k] > most ? pairs.at[k] : most;
  return most + 1;
}

void run_devices(HlArena *arena, const HlModule *m, int64_t *replicas, int64_t *partitions) {
  int64_t all = 0;
  *replicas = m->replica_count > 0 ? m->replica_count : 1;
  *partitions = m->num_partitions > 0 ? m->num_partitions : 1;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE))
        continue;
      const HlMark mark = hl_arena_mark(arena);
      const int64_t n = most_named(arena, inst);
      hl_arena_release(arena, mark);
      const HlGroupMode mode = hl_group_mode(inst);
      int64_t *of = mode == HL_CROSS_PARTITION ? partitions
                    : mode == HL_FLATTENED     ? &all
                                               : replicas;
      *of = n > *of && n <= 1 << 24 ? n : *of;
    }
  // Of flattened ids nobody says which are whose: all of them replicas.
  if (*replicas < 1 << 24 && *partitions < 1 << 24 && all > *replicas * *partitions)
    *replicas = (all + *partitions - 1) / *partitions;
}
