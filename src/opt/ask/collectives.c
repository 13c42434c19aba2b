// opt/ask/collectives.c: groups of devices, keys of collectives, and numbers that depend on the device.

#include "opt/ask/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "ir/backend_config.h"
#include "opt/ask/loops.h"

// --- Who takes part -----------------------------------------------------------------------------

int64_t coll_devices(const HlPass *p) {
  return p->m->replica_count * p->m->num_partitions;
}

static int64_t ids_of_mode(const HlPass *p, HlGroupMode mode) {
  return mode == HL_CROSS_PARTITION ? p->m->num_partitions
         : mode == HL_FLATTENED     ? coll_devices(p)
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
  CollGroups groups = {.mode = hl_group_mode(inst)};
  if (written)
    groups.lists = hl_groups_lists(p->arena, written);
  if (groups.lists.n == 0 || (groups.lists.n == 1 && groups.lists.at[0].n == 0))
    groups.lists = everybody(p, ids_of_mode(p, groups.mode));
  groups.size = groups.lists.at[0].n;
  for (int k = 1; k < groups.lists.n; k++)
    if (groups.lists.at[k].n != groups.size)
      groups.size = -1;
  if (groups.mode == HL_CROSS_BOTH && groups.size > 0)
    groups.size *= p->m->num_partitions;
  return groups;
}

bool coll_ids_are_devices(const HlPass *p, HlGroupMode mode) {
  switch (mode) {
  case HL_FLATTENED: return true;
  case HL_CROSS_PARTITION: return p->m->replica_count == 1;
  default: return p->m->num_partitions == 1;
  }
}

static HlInst *own_id(HlPass *p, HlBuild *b, HlGroupMode mode) {
  if (mode == HL_CROSS_BOTH && p->m->num_partitions > 1)
    return NULL;
  HlInst *replica = NULL, *partition = NULL;
  if (mode != HL_CROSS_PARTITION && (mode != HL_FLATTENED || p->m->replica_count > 1))
    replica = hl_b_op(b, HL_OP_REPLICA_ID, NULL, 0, NULL, 0, NULL, 0, NULL);
  if (mode == HL_CROSS_PARTITION || mode == HL_FLATTENED)
    partition = hl_b_op(b, HL_OP_PARTITION_ID, NULL, 0, NULL, 0, NULL, 0, NULL);
  if (!replica || !partition)
    return replica ? replica : partition;
  HlInst *row =
      hl_b_binary(b, HL_OP_MULTIPLY, replica, hl_b_scalar_int(b, HL_U32, p->m->num_partitions));
  return hl_b_binary(b, HL_OP_ADD, row, partition);
}

HlInst *coll_place_in_group(HlPass *p, HlBuild *b, const CollGroups *groups) {
  const int64_t n = ids_of_mode(p, groups->mode);
  HlInst *id = own_id(p, b, groups->mode);
  if (!id || n <= 0 || n > 65536)
    return NULL;
  HlLiteral *places = hl_literal_new(p->cx, hl_shape_array(p->m->shapes, HL_U32, 1, &n));
  if (!places)
    return NULL;
  bool is_id = true;
  for (int g = 0; g < groups->lists.n; g++)
    for (int k = 0; k < groups->lists.at[g].n; k++) {
      const int64_t member = groups->lists.at[g].at[k];
      if (member < 0 || member >= n) {
        hl_literal_unref(places);
        return NULL;
      }
      hl_literal_set_i64(places, member, k);
      is_id &= member == k;
    }
  HlInst *place = id;
  if (!is_id) {
    HlInst *list = hl_constant_new(b->comp, places, NULL);
    const int64_t one = 1;
    place = hl_b_dynamic_slice(b, list, &id, &one);
    place = place ? hl_b_reshape(b, place, 0, NULL) : NULL;
  }
  hl_literal_unref(places);
  return place;
}

// Notes a member's place on every device that its id stands for; false: no such device, or twice.
static bool note_member(const HlPass *p, HlGroupMode mode, int64_t id, CollPlace place,
                        CollPlace *places) {
  const int64_t partitions = p->m->num_partitions, replicas = p->m->replica_count;
  if (id < 0 || id >= ids_of_mode(p, mode))
    return false;
  const int64_t times = mode == HL_CROSS_PARTITION ? replicas
                        : mode == HL_FLATTENED     ? 1
                                                   : partitions;
  for (int64_t k = 0; k < times; k++) {
    const int64_t device = mode == HL_CROSS_PARTITION ? k * partitions + id
                           : mode == HL_FLATTENED     ? id
                                                      : id * partitions + k;
    if (places[device].index >= 0)
      return false;
    places[device] = place;
  }
  return true;
}

CollPlace *coll_places(HlPass *p, const CollGroups *groups) {
  const int64_t n = coll_devices(p);
  if (n <= 0 || n > 65536 || (groups->mode == HL_CROSS_BOTH && p->m->num_partitions > 1))
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

bool coll_groups_are_whole(HlPass *p, const HlInst *inst, const CollGroups *groups) {
  const HlGroups *written = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  const bool is_global = hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS) != 0;
  if (is_global &&
      (groups->mode != HL_FLATTENED || !written || hl_groups_lists(p->arena, written).n == 0))
    return false;
  int64_t total = 0;
  for (int g = 0; g < groups->lists.n; g++)
    total += groups->lists.at[g].n;
  const int64_t known = ids_of_mode(p, groups->mode);
  if ((known != 1 && total != known) || (groups->size <= 0 && inst->op != HL_OP_ALL_REDUCE))
    return false;
  bool *seen = HL_ARRAY(p->arena, bool, total + 1);
  for (int g = 0; g < groups->lists.n; g++) {
    if (groups->lists.at[g].n == 0)
      return false;
    for (int k = 0; k < groups->lists.at[g].n; k++) {
      const int64_t id = groups->lists.at[g].at[k];
      if (id < 0 || id >= total || seen[id])
        return false;
      seen[id] = true;
    }
  }
  return true;
}

static int compare_ids(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

bool coll_pairs_are_whole(HlPass *p, const HlInst *permute) {
  const HlI64s pairs = hl_attr_ints(permute, HL_A_SOURCE_TARGET_PAIRS);
  const int64_t known =
      hl_attr_int(permute, HL_A_CHANNEL_ID) > 0 ? p->m->num_partitions : p->m->replica_count;
  const int64_t end = known > 1 ? known : INT32_MAX;
  const int n = pairs.n / 2;
  int64_t *ids = HL_ARRAY(p->arena, int64_t, n + 1);
  for (int side = 0; side < 2; side++) {
    for (int k = 0; k < n; k++)
      ids[k] = pairs.at[2 * k + side];
    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
    for (int k = 0; k < n; k++)
      if (ids[k] < 0 || ids[k] >= end || (k > 0 && ids[k] == ids[k - 1]))
        return false;
  }
  return true;
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

const HlInst *coll_inside(const HlInst *inst) {
  return hl_fusion_code(inst) == HL_FUSION_TRITON_COLLECTIVE ? hl_called(inst, 0)->root : inst;
}

// --- Which go together --------------------------------------------------------------------------

bool coll_same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *of_a = hl_attr(a, key), *of_b = hl_attr(b, key);
  return of_a && of_b ? hl_attr_equal(of_a, of_b) : of_a == of_b;
}

// What decides, besides op, channel, reducer and groups.
static const HlAttrKey key_attrs[] = {
    HL_A_USE_GLOBAL_DEVICE_IDS, HL_A_SOURCE_TARGET_PAIRS, HL_A_DIMENSION, HL_A_MODE,
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

// Lists, an iota and axes of a mesh may spell the same groups; none is not everybody's.
static bool same_groups(HlPass *p, const HlInst *a, const HlInst *b) {
  if (coll_same_attr(a, b, HL_A_REPLICA_GROUPS))
    return true;
  const HlGroups *of_a = hl_attr_ptr(a, HL_A_REPLICA_GROUPS),
                 *of_b = hl_attr_ptr(b, HL_A_REPLICA_GROUPS);
  const HlMark mark = hl_arena_mark(p->arena);
  const bool same =
      of_a && of_b &&
      hl_i64_lists_equal(hl_groups_lists(p->arena, of_a), hl_groups_lists(p->arena, of_b));
  hl_arena_release(p->arena, mark);
  return same;
}

static uint64_t groups_hash(HlPass *p, const HlInst *inst) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  const HlMark mark = hl_arena_mark(p->arena);
  const HlI64Lists lists = groups ? hl_groups_lists(p->arena, groups) : (HlI64Lists){NULL, 0};
  uint64_t hash = (uint64_t)lists.n;
  for (int g = 0; g < lists.n; g++)
    for (int k = 0; k < lists.at[g].n; k++)
      hash = hash * 31 + (uint64_t)lists.at[g].at[k];
  hl_arena_release(p->arena, mark);
  return hash;
}

static bool same(HlPass *p, const HlInst *a, const HlInst *b, bool any_type, bool any_dim) {
  if (a->op != b->op || has_channel(a) != has_channel(b) || !same_reducer(a, b, any_type))
    return false;
  for (int k = 0; k < HL_COUNT_OF(key_attrs); k++)
    if (!(any_dim && key_attrs[k] == HL_A_DIMENSION) && !coll_same_attr(a, b, key_attrs[k]))
      return false;
  return same_groups(p, a, b);
}

bool coll_same(HlPass *p, const HlInst *a, const HlInst *b, bool any_type) {
  return same(p, a, b, any_type, false);
}

bool coll_same_but_dim(HlPass *p, const HlInst *a, const HlInst *b) {
  return same(p, a, b, false, true);
}

static uint64_t hash_of(HlPass *p, const HlInst *inst, bool any_dim) {
  uint64_t hash = (groups_hash(p, inst) * 31 + inst->op) * 2u + has_channel(inst);
  if (inst->n_calls > 0)
    hash = hash * 31 + hl_reducer(hl_to_apply(inst));
  for (int k = 0; k < HL_COUNT_OF(key_attrs); k++) {
    const HlAttr *attr =
        any_dim && key_attrs[k] == HL_A_DIMENSION ? NULL : hl_attr(inst, key_attrs[k]);
    hash = hash * 0x9e3779b97f4a7c15u + (attr ? hl_attr_hash(attr) : 1);
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t coll_hash(HlPass *p, const HlInst *inst) {
  return hash_of(p, inst, false);
}

uint64_t coll_hash_but_dim(HlPass *p, const HlInst *inst) {
  return hash_of(p, inst, true);
}

bool coll_is_plain(const HlInst *inst) {
  return inst->n_operands == 1 && hl_shape_is_array(inst->shape) && !hl_has_control(inst) &&
         !hl_shape_is_dynamic(inst->shape) && !hl_shape_is_dynamic(inst->operands[0]->shape) &&
         !hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT);
}

bool coll_any_constrains_layout(const HlModule *m, HlOp op) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = hl_comp_may_have(comp, op) ? comp->first : NULL; inst;
         inst = inst->next)
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
  static const HlAttrKey kept[] = {
      HL_A_CHANNEL_ID, HL_A_REPLICA_GROUPS,      HL_A_USE_GLOBAL_DEVICE_IDS,
      HL_A_METADATA,   HL_A_FRONTEND_ATTRIBUTES, HL_A_BACKEND_CONFIG};
  if (!operand || !shape)
    return NULL;
  HlInst *made = hl_inst_new(b->comp, op, shape, NULL, 1, &operand);
  hl_set_loc(made, like->loc);
  for (int k = 0; k < HL_COUNT_OF(kept); k++) {
    const HlAttr *attr = hl_attr(like, kept[k]);
    if (attr)
      hl_set_attr(made, attr);
  }
  if (dimension >= 0)
    hl_set_int(made, HL_A_DIMENSION, dimension);
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
  CollState state = {hl_free_channel(p->m)};
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

// --- Numbers that depend on the device -------------------------------------------------------------

enum { MAX_TERMS = 64 };

// An expression over the device's number: terms in the order in which they are computed.
typedef struct Terms {
  const HlInst *at[MAX_TERMS];
  int n;
} Terms;

static int find_term(const Terms *terms, const HlInst *inst) {
  for (int k = 0; k < terms->n; k++)
    if (terms->at[k] == inst)
      return k;
  return -1;
}

static bool is_integer(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) &&
         (hl_is_integral(inst->shape->dtype) || inst->shape->dtype == HL_PRED);
}

static bool is_small_integer(const HlInst *inst) {
  return is_integer(inst) && hl_shape_elements(inst->shape) == 1;
}

// One element out of a constant list, at an index that depends on the device.
static bool is_lookup(const HlInst *inst) {
  return inst->op == HL_OP_DYNAMIC_SLICE && inst->n_operands == 2 &&
         hl_is_constant(inst->operands[0]) && inst->operands[0]->shape->rank == 1 &&
         is_integer(inst->operands[0]) && is_small_integer(inst);
}

// Computes a term of what its operands are; 64 bits, which the caller cuts to the type. False: the value is not fixed by
// the language, as that of a division by zero.
typedef struct TermArgs {
  const HlInst *inst;
  const int64_t *x;
  int64_t replica, partition;
} TermArgs;
typedef bool TermFn(const TermArgs *a, int64_t *out);
static TermFn *term_of(const HlInst *inst);

// How many operands a term has that are terms themselves; -1: it is none.
static int term_operands(const HlInst *inst) {
  return is_small_integer(inst) && term_of(inst) ? (int)inst->n_operands : -1;
}

static bool find_terms(const HlInst *inst, Terms *terms) {
  const HlInst *waiting[MAX_TERMS * 4];
  int n = 0;
  waiting[n++] = inst;
  while (n > 0) {
    const HlInst *top = waiting[n - 1];
    int operands = term_operands(top), missing = 0;
    if (operands < 0)
      return false;
    for (int k = is_lookup(top); k < operands; k++) {
      const HlInst *operand = top->operands[k];
      if (find_term(terms, operand) >= 0)
        continue;
      if (n == MAX_TERMS * 4)
        return false;
      waiting[n++] = operand;
      missing++;
    }
    if (missing > 0)
      continue;
    n--;
    if (find_term(terms, top) >= 0)
      continue;
    if (terms->n == MAX_TERMS)
      return false;
    terms->at[terms->n++] = top;
  }
  return true;
}

// The value as its type holds it.
static int64_t wrap(HlDtype dtype, int64_t value) {
  const int bits = hl_dtype_info[dtype].bits;
  if (dtype == HL_PRED)
    return value != 0;
  if (bits >= 64)
    return value;
  const uint64_t low = (uint64_t)value & (((uint64_t)1 << bits) - 1);
  if (hl_is_signed(dtype) && (low >> (bits - 1)))
    return (int64_t)(low | ~(((uint64_t)1 << bits) - 1));
  return (int64_t)low;
}

static int compare(HlDtype dtype, int64_t a, int64_t b) {
  if (hl_is_signed(dtype))
    return (a > b) - (a < b);
  return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
}

static bool holds(int64_t direction, int order) {
  switch (direction) {
  case HL_WORD_direction_EQ: return order == 0;
  case HL_WORD_direction_NE: return order != 0;
  case HL_WORD_direction_LT: return order < 0;
  case HL_WORD_direction_LE: return order <= 0;
  case HL_WORD_direction_GT: return order > 0;
  default: return order >= 0;
  }
}

static int64_t look_up(const HlInst *inst, int64_t index, HlDtype index_type) {
  const HlLiteral *list = hl_constant(inst->operands[0]);
  if (compare(index_type, index, 0) < 0)
    index = 0;
  if (compare(index_type, index, list->n - 1) > 0)
    index = list->n - 1;
  return hl_literal_i64(list, index);
}

static HlDtype operand_type(const TermArgs *a) {
  return a->inst->operands[0]->shape->dtype;
}

static bool term_constant(const TermArgs *a, int64_t *out) {
  *out = hl_literal_i64(hl_constant(a->inst), 0);
  return true;
}

static bool term_partition(const TermArgs *a, int64_t *out) {
  *out = a->partition;
  return true;
}

static bool term_replica(const TermArgs *a, int64_t *out) {
  *out = a->replica;
  return true;
}

static bool term_add(const TermArgs *a, int64_t *out) {
  *out = (int64_t)((uint64_t)a->x[0] + (uint64_t)a->x[1]);
  return true;
}

static bool term_subtract(const TermArgs *a, int64_t *out) {
  *out = (int64_t)((uint64_t)a->x[0] - (uint64_t)a->x[1]);
  return true;
}

static bool term_multiply(const TermArgs *a, int64_t *out) {
  *out = (int64_t)((uint64_t)a->x[0] * (uint64_t)a->x[1]);
  return true;
}

static bool divides(const TermArgs *a) {
  const HlDtype type = operand_type(a);
  return a->x[1] != 0 && type != HL_PRED && !(hl_is_signed(type) && a->x[1] == -1);
}

static bool term_divide(const TermArgs *a, int64_t *out) {
  if (!divides(a))
    return false;
  *out = hl_is_signed(operand_type(a)) ? a->x[0] / a->x[1]
                                       : (int64_t)((uint64_t)a->x[0] / (uint64_t)a->x[1]);
  return true;
}

static bool term_remainder(const TermArgs *a, int64_t *out) {
  if (!divides(a))
    return false;
  *out = hl_is_signed(operand_type(a)) ? a->x[0] % a->x[1]
                                       : (int64_t)((uint64_t)a->x[0] % (uint64_t)a->x[1]);
  return true;
}

static bool term_minimum(const TermArgs *a, int64_t *out) {
  *out = a->x[compare(operand_type(a), a->x[0], a->x[1]) < 0 ? 0 : 1];
  return true;
}

static bool term_maximum(const TermArgs *a, int64_t *out) {
  *out = a->x[compare(operand_type(a), a->x[0], a->x[1]) > 0 ? 0 : 1];
  return true;
}

static bool term_compare(const TermArgs *a, int64_t *out) {
  *out = holds(hl_attr_int(a->inst, HL_A_DIRECTION), compare(operand_type(a), a->x[0], a->x[1]));
  return true;
}

static bool term_clamp(const TermArgs *a, int64_t *out) {
  const HlDtype type = operand_type(a);
  *out = compare(type, a->x[1], a->x[0]) < 0 ? a->x[0] : a->x[1];
  *out = compare(type, *out, a->x[2]) > 0 ? a->x[2] : *out;
  return true;
}

static bool term_select(const TermArgs *a, int64_t *out) {
  *out = a->x[0] ? a->x[1] : a->x[2];
  return true;
}

static bool term_first(const TermArgs *a, int64_t *out) {
  *out = a->x[0];
  return true;
}

static bool term_look_up(const TermArgs *a, int64_t *out) {
  *out = look_up(a->inst, a->x[1], a->inst->operands[1]->shape->dtype);
  return true;
}

static TermFn *const terms_by_op[HL_OP_COUNT] = {
    [HL_OP_CONSTANT] = term_constant,
    [HL_OP_PARTITION_ID] = term_partition,
    [HL_OP_REPLICA_ID] = term_replica,
    [HL_OP_ADD] = term_add,
    [HL_OP_SUBTRACT] = term_subtract,
    [HL_OP_MULTIPLY] = term_multiply,
    [HL_OP_DIVIDE] = term_divide,
    [HL_OP_REMAINDER] = term_remainder,
    [HL_OP_MINIMUM] = term_minimum,
    [HL_OP_MAXIMUM] = term_maximum,
    [HL_OP_COMPARE] = term_compare,
    [HL_OP_CLAMP] = term_clamp,
    [HL_OP_SELECT] = term_select,
    [HL_OP_CONVERT] = term_first,
    [HL_OP_RESHAPE] = term_first,
    [HL_OP_BITCAST] = term_first,
    [HL_OP_COPY] = term_first,
    [HL_OP_BROADCAST] = term_first,
    [HL_OP_DYNAMIC_SLICE] = term_look_up,
};

static TermFn *term_of(const HlInst *inst) {
  if ((inst->op == HL_OP_CONSTANT && !hl_is_constant(inst)) ||
      (inst->op == HL_OP_DYNAMIC_SLICE && !is_lookup(inst)))
    return NULL;
  return terms_by_op[inst->op];
}

static bool compute_on(const Terms *terms, int64_t replica, int64_t partition, int64_t *out) {
  int64_t value[MAX_TERMS];
  for (int k = 0; k < terms->n; k++) {
    const HlInst *inst = terms->at[k];
    int64_t x[3] = {0};
    for (int j = is_lookup(inst); j < term_operands(inst) && j < 3; j++)
      x[j] = value[find_term(terms, inst->operands[j])];
    const TermArgs args = {inst, x, replica, partition};
    if (!term_of(inst)(&args, &value[k]))
      return false;
    value[k] = wrap(inst->shape->dtype, value[k]);
  }
  *out = value[terms->n - 1];
  return true;
}

int64_t *coll_value_by_device(HlPass *p, const HlInst *scalar) {
  Terms terms = {.n = 0};
  const int64_t n = coll_devices(p);
  if (n <= 0 || n > 65536 || !find_terms(scalar, &terms))
    return NULL;
  int64_t *value = HL_ARRAY(p->arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    if (!compute_on(&terms, k / p->m->num_partitions, k % p->m->num_partitions, &value[k]))
      return NULL;
  return value;
}

int coll_sliced_dim(const HlInst *slice) {
  const HlShape *from = slice->operands[0]->shape;
  int found = -1;
  for (int d = 0; d < from->rank; d++)
    if (slice->shape->dim[d] != from->dim[d]) {
      if (found >= 0)
        return -1;
      found = d;
    }
  return found;
}

bool coll_takes_own_part(HlPass *p, const HlInst *slice, int dim, const CollGroups *groups) {
  if ((int)slice->n_operands != slice->operands[0]->shape->rank + 1)
    return false;
  const CollPlace *places = coll_places(p, groups);
  const int64_t *start = places ? coll_value_by_device(p, slice->operands[1 + dim]) : NULL;
  if (!start)
    return false;
  const int64_t part = slice->shape->dim[dim], last = slice->operands[0]->shape->dim[dim] - part;
  for (int64_t k = 0; k < coll_devices(p); k++) {
    const HlDtype type = slice->operands[1 + dim]->shape->dtype;
    int64_t at = compare(type, start[k], 0) < 0 ? 0 : start[k];
    at = compare(type, at, last) > 0 ? last : at;
    if (at != places[k].index * part)
      return false;
  }
  return true;
}
