// opt/collectives.c: groups of devices, keys of collectives, and numbers that depend on the device.

#include "opt/collectives.h"

#include <string.h>

#include "opt/loops.h"

// --- Who takes part -----------------------------------------------------------------------------

static bool has_global_flag(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_ALL_REDUCE:
  case HL_OP_ALL_REDUCE_START:
  case HL_OP_REDUCE_SCATTER:
  case HL_OP_ALL_GATHER:
  case HL_OP_ALL_GATHER_START: return true;
  default: return false;
  }
}

CollMode coll_mode(const HlInst *inst) {
  if (hl_attr_int(inst, HL_A_CHANNEL_ID) <= 0)
    return COLL_REPLICA;
  if (!has_global_flag(inst))
    return COLL_PARTITION;
  return hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS) ? COLL_FLATTENED : COLL_BOTH;
}

int64_t coll_devices(const HlPass *p) {
  return p->m->replica_count * p->m->num_partitions;
}

static int64_t ids_of_mode(const HlPass *p, CollMode mode) {
  return mode == COLL_PARTITION ? p->m->num_partitions
         : mode == COLL_FLATTENED ? coll_devices(p)
                                  : p->m->replica_count;
}

static HlI64Lists everybody(HlPass *p, int64_t n) {
  int64_t *ids = HL_ARRAY(p->arena, int64_t, n + 1);
  for (int64_t k = 0; k < n; k++)
    ids[k] = k;
  HlI64s *list = HL_NEW(p->arena, HlI64s);
  *list = (HlI64s){ids, (int)n};
  return (HlI64Lists){list, 1};
}

CollGroups coll_groups(HlPass *p, const HlInst *inst) {
  const HlGroups *written = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  CollGroups groups = {.mode = coll_mode(inst)};
  if (written)
    groups.lists = hl_groups_lists(p->arena, written);
  if (groups.lists.n == 0 || (groups.lists.n == 1 && groups.lists.at[0].n == 0))
    groups.lists = everybody(p, ids_of_mode(p, groups.mode));
  groups.size = groups.lists.at[0].n;
  for (int k = 1; k < groups.lists.n; k++)
    if (groups.lists.at[k].n != groups.size)
      groups.size = -1;
  if (groups.mode == COLL_BOTH && groups.size > 0)
    groups.size *= p->m->num_partitions;
  return groups;
}

// Notes a member's place on every device that its id stands for; false: no such device, or twice.
static bool note_member(const HlPass *p, CollMode mode, int64_t id, CollPlace place,
                        CollPlace *places) {
  const int64_t partitions = p->m->num_partitions, replicas = p->m->replica_count;
  if (id < 0 || id >= ids_of_mode(p, mode))
    return false;
  const int64_t times = mode == COLL_PARTITION   ? replicas
                        : mode == COLL_FLATTENED ? 1
                                                 : partitions;
  for (int64_t k = 0; k < times; k++) {
    const int64_t device = mode == COLL_PARTITION   ? k * partitions + id
                           : mode == COLL_FLATTENED ? id
                                                    : id * partitions + k;
    if (places[device].index >= 0)
      return false;
    places[device] = place;
  }
  return true;
}

CollPlace *coll_places(HlPass *p, const CollGroups *groups) {
  const int64_t n = coll_devices(p);
  if (n <= 0 || n > 65536 || (groups->mode == COLL_BOTH && p->m->num_partitions > 1))
    return NULL;
  CollPlace *places = HL_ARRAY(p->arena, CollPlace, n);
  for (int64_t k = 0; k < n; k++)
    places[k].index = -1;
  for (int g = 0; g < groups->lists.n; g++)
    for (int k = 0; k < groups->lists.at[g].n; k++)
      if (!note_member(p, groups->mode, groups->lists.at[g].at[k], (CollPlace){g, k}, places))
        return NULL;
  for (int64_t k = 0; k < n; k++)
    if (places[k].index < 0)
      return NULL;
  return places;
}

void coll_set_groups(HlInst *inst, HlI64Lists lists) {
  HlArena *arena = inst->comp->module->arena;
  HlI64s *at = HL_ARRAY(arena, HlI64s, lists.n + 1);
  for (int k = 0; k < lists.n; k++)
    at[k] = hl_i64s_copy(arena, lists.at[k]);
  HlGroups *groups = HL_NEW(arena, HlGroups);
  groups->form = HL_GROUPS_LIST;
  groups->list = (HlI64Lists){at, lists.n};
  hl_set_attr(inst, &(HlAttr){.key = HL_A_REPLICA_GROUPS, .ptr = groups});
}

// --- Which go together --------------------------------------------------------------------------

bool coll_same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *of_a = hl_attr(a, key), *of_b = hl_attr(b, key);
  return of_a && of_b ? hl_attr_equal(of_a, of_b) : of_a == of_b;
}

// What decides, besides op, channel and reducer.
static const HlAttrKey key_attrs[] = {HL_A_USE_GLOBAL_DEVICE_IDS, HL_A_REPLICA_GROUPS,
                                      HL_A_SOURCE_TARGET_PAIRS,   HL_A_DIMENSION,
                                      HL_A_DIMENSIONS,            HL_A_MODE,
                                      HL_A_PERMUTE_SLICE_SIZES,   HL_A_CONSTRAIN_LAYOUT};

static bool same_reducer(const HlInst *a, const HlInst *b, bool any_type) {
  if (a->n_calls == 0 || b->n_calls == 0)
    return a->n_calls == b->n_calls;
  const HlComp *by_a = hl_to_apply(a), *by_b = hl_to_apply(b);
  return hl_reducer(by_a) != HL_OP_COUNT && hl_reducer(by_a) == hl_reducer(by_b) &&
         (any_type || by_a->root->shape->dtype == by_b->root->shape->dtype);
}

static bool has_channel(const HlInst *inst) {
  return hl_attr_int(inst, HL_A_CHANNEL_ID) > 0;
}

bool coll_same(const HlInst *a, const HlInst *b, bool any_type) {
  if (a->op != b->op || has_channel(a) != has_channel(b) || !same_reducer(a, b, any_type))
    return false;
  for (size_t k = 0; k < HL_COUNT_OF(key_attrs); k++)
    if (!coll_same_attr(a, b, key_attrs[k]))
      return false;
  return true;
}

uint64_t coll_hash(const HlInst *inst) {
  uint64_t hash = inst->op * 2u + has_channel(inst);
  if (inst->n_calls > 0)
    hash = hash * 31 + hl_reducer(hl_to_apply(inst));
  for (size_t k = 0; k < HL_COUNT_OF(key_attrs); k++) {
    const HlAttr *attr = hl_attr(inst, key_attrs[k]);
    hash = hash * 0x9e3779b97f4a7c15u + (attr ? hl_attr_hash(attr) : 1);
    hash ^= hash >> 29;
  }
  return hash;
}

bool coll_is_plain(const HlInst *inst) {
  return inst->n_operands == 1 && hl_shape_is_array(inst->shape) && !hl_has_control(inst) &&
         !hl_shape_is_dynamic(inst->shape) && !hl_shape_is_dynamic(inst->operands[0]->shape) &&
         !hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT);
}

bool coll_any_constrains_layout(const HlModule *m, HlOp op) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == op && hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT))
        return true;
  return false;
}

// --- Making them --------------------------------------------------------------------------------

HlInst *coll_copy(HlBuild *b, const HlInst *like, const HlShape *shape, int n,
                  HlInst *const *operands) {
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return NULL;
  HlInst *copy = hl_inst_copy(b->comp, like, shape, n, operands);
  hl_remove_attr(copy, HL_A_SHARDING);
  hl_remove_attr(copy, HL_A_ORIGIN);
  return copy;
}

HlInst *coll_new(HlBuild *b, HlOp op, const HlInst *like, const HlShape *shape, HlInst *operand,
                 int64_t dimension) {
  static const HlAttrKey kept[] = {HL_A_CHANNEL_ID, HL_A_REPLICA_GROUPS, HL_A_USE_GLOBAL_DEVICE_IDS,
                                   HL_A_METADATA, HL_A_FRONTEND_ATTRIBUTES, HL_A_BACKEND_CONFIG};
  if (!operand || !shape)
    return NULL;
  HlInst *made = hl_inst_new(b->comp, op, shape, NULL, 1, &operand);
  hl_set_loc(made, like->loc);
  for (size_t k = 0; k < HL_COUNT_OF(kept); k++) {
    const HlAttr *attr = hl_attr(like, kept[k]);
    if (attr)
      hl_set_attr(made, attr);
  }
  if (dimension >= 0 && op == HL_OP_ALL_GATHER)
    hl_set_ints(made, HL_A_DIMENSIONS, (HlI64s){&dimension, 1});
  else if (dimension >= 0)
    hl_set_ints(made, HL_A_DIMENSIONS, (HlI64s){&dimension, 1});
  if (like->n_calls == 1 && (op == HL_OP_ALL_REDUCE || op == HL_OP_REDUCE_SCATTER)) {
    HlComp *reducer = hl_to_apply(like);
    hl_set_calls(made, 1, &reducer);
  }
  return made;
}

typedef struct CollState {
  int64_t channel;
} CollState;

bool coll_run_rules(HlPass *p, const HlRule *rules, int rounds) {
  CollState state = {loop_free_channel(p)};
  p->user = &state;
  bool good = hl_run_rules(p, rules, rounds);
  p->user = NULL;
  return good;
}

int64_t coll_next_channel(HlPass *p) {
  CollState *state = p->user;
  return state->channel++;
}

void coll_fresh_channel(HlPass *p, HlInst *inst) {
  if (has_channel(inst))
    hl_set_int(inst, HL_A_CHANNEL_ID, coll_next_channel(p));
}

const HlShape *coll_resized(HlPass *p, const HlShape *shape, int64_t dim, int64_t size) {
  int64_t *dims = hl_arena_copy(p->arena, shape->dim, sizeof *dims * (size_t)shape->rank);
  dims[dim] = size;
  return hl_shape_array_full(p->m->shapes, shape->dtype, shape->rank, dims, NULL, shape->layout);
}
