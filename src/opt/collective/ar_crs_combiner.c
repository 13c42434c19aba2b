// opt/collective/ar_crs_combiner.c
//
// ar-crs-combiner: a sum over the partitions of each replica, then one over replicas: one sum over all.
//
//   r = f32[8] all-reduce(x), channel_id=1, replica_groups={{0},{1}}     z = f32[8] multiply(x, y)
//   z = f32[8] multiply(r, y)                                        =>  s = f32[8] all-reduce(z), channel_id=1
//   s = f32[8] all-reduce(z)
//
// Between the two there may be operations that sums may pass. What they add to the sum is the same on all
// partitions and would be added once for each, so its part is taken. And among many replicas, a
// sum of what all partitions have alike may run over all devices, too: what it gives is divided by
// the number of partitions.

#include "opt/ask/collectives.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// How many times more replicas than partitions there are for a sum over all to be the faster one.
enum { MANY_REPLICAS = 8 };

// What is known of one computation's instructions, by id.
typedef struct Facts {
  bool *same;  // has one value on all partitions of a replica
  HlInst **
      sum;  // the sum over replicas that it comes to, if a sum over partitions can pass all between
  int *distance;  // to there
  HlInst *
      *farthest;  // of a sum over replicas: the sum over partitions that comes to it from farthest
} Facts;

// --- The two sums -------------------------------------------------------------------------------

static bool is_plain_sum(const HlInst *inst) {
  return inst->op == HL_OP_ALL_REDUCE && coll_is_plain(inst) && hl_shape_is_array(inst->shape) &&
         hl_reducer(hl_to_apply(inst)) == HL_OP_ADD;
}

// Each group is all partitions of one replica.
static bool is_over_partitions(HlPass *p, const HlInst *inst) {
  if (!is_plain_sum(inst) || !hl_has_attr(inst, HL_A_CHANNEL_ID))
    return false;
  const int64_t n = p->m->num_partitions;
  const CollGroups groups = coll_groups(p, inst);
  if (groups.lists.n != p->m->replica_count)
    return false;
  if (groups.mode == HL_CROSS_BOTH)
    return groups.size == n;
  if (groups.mode != HL_FLATTENED || groups.size != n)
    return false;
  bool *met = HL_ARRAY(p->arena, bool, n);
  for (int g = 0; g < groups.lists.n; g++) {
    const int64_t *id = groups.lists.at[g].at;
    for (int64_t k = 0; k < n; k++)
      met[k] = false;
    for (int64_t k = 0; k < n; k++) {
      if (id[k] < 0 || id[k] / n != id[0] / n || met[id[k] % n])
        return false;
      met[id[k] % n] = true;
    }
  }
  return true;
}

static bool is_over_replicas(HlPass *p, const HlInst *inst) {
  return is_plain_sum(inst) && hl_group_mode(inst) == HL_CROSS_REPLICA &&
         !hl_has_attr(inst, HL_A_CHANNEL_ID) && !hl_has_attr(inst, HL_A_MODE) &&
         coll_groups(p, inst).size != 1;
}

// --- What is the same on all partitions -----------------------------------------------------------

static bool is_same_parameter(const HlPass *p, const HlInst *param) {
  const int64_t k = hl_parameter_number(param);
  if (param->comp != p->m->entry || k >= p->m->n_spmd_parameter_shardings)
    return false;
  const HlSharding *sharding = p->m->spmd_parameter_shardings[k];
  return sharding && sharding->kind == HL_SHARDING_REPLICATED;
}

static bool is_same(HlPass *p, const Facts *facts, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER: return is_same_parameter(p, inst);
  case HL_OP_PARTITION_ID:
  case HL_OP_RNG:
  case HL_OP_CUSTOM_CALL: return false;
  case HL_OP_ALL_REDUCE:
    if (is_over_partitions(p, inst))
      return true;
    return is_over_replicas(p, inst) && facts->same[inst->operands[0]->id];
  default: break;
  }
  if (hl_op_info[inst->op].traits & HL_T_COLLECTIVE || hl_is_async((HlOp)inst->op) ||
      (inst->n_calls > 0 && inst->op != HL_OP_REDUCE) || hl_has_side_effect(inst))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!facts->same[inst->operands[k]->id])
      return false;
  return true;
}

// --- What sums may pass ---------------------------------------------------------------------------

static bool may_pass(const HlInst *inst) {
  if (inst->first_use != inst->last_use || !inst->first_use || inst->comp->root == inst ||
      hl_has_control(inst) || !hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(inst->shape))
    return false;
  const HlDtype to = inst->shape->dtype;
  switch (inst->op) {
  case HL_OP_TRANSPOSE:
  case HL_OP_RESHAPE: return true;
  case HL_OP_BITCAST: return to == inst->operands[0]->shape->dtype;
  case HL_OP_CONVERT: {
    const HlDtype from = inst->operands[0]->shape->dtype;
    return (hl_is_float(from) && hl_is_float(to)) ||
           (hl_is_integral(from) && hl_is_integral(to) &&
            hl_dtype_info[to].bits <= hl_dtype_info[from].bits);
  }
  case HL_OP_ADD:
  case HL_OP_SUBTRACT:
  case HL_OP_MULTIPLY: return hl_is_float(to) && inst->operands[0] != inst->operands[1];
  default: return false;
  }
}

static Facts find_facts(HlPass *p, const HlComp *comp) {
  const size_t n = comp->next_id;
  Facts facts = {HL_ARRAY(p->arena, bool, n), HL_ARRAY(p->arena, HlInst *, n),
                 HL_ARRAY(p->arena, int, n), HL_ARRAY(p->arena, HlInst *, n)};
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    facts.same[inst->id] = is_same(p, &facts, inst);
  for (HlInst *inst = comp->last; inst; inst = inst->prev) {
    if (!facts.same[inst->id])
      continue;
    const bool is_inner = is_over_partitions(p, inst);
    if (is_over_replicas(p, inst)) {
      facts.sum[inst->id] = inst;
    } else if (is_inner ? hl_one_user(inst) && inst->first_use == inst->last_use : may_pass(inst)) {
      const HlInst *user = inst->first_use->user;
      facts.sum[inst->id] = facts.sum[user->id];
      facts.distance[inst->id] = facts.distance[user->id] + 1;
    }
    HlInst *sum = facts.sum[inst->id];
    if (is_inner && sum) {
      HlInst **farthest = &facts.farthest[sum->id];
      if (!*farthest || facts.distance[(*farthest)->id] <= facts.distance[inst->id])
        *farthest = inst;
    }
    if (is_inner)
      facts.sum[inst->id] = NULL;
  }
  return facts;
}

// --- Rewriting ----------------------------------------------------------------------------------

static HlInst *divided(HlPass *p, HlBuild *b, HlInst *x) {
  return hl_b_binary(b, HL_OP_DIVIDE, x, hl_b_like(b, x, (double)p->m->num_partitions));
}

// What each partition adds of `other`, so that it is added once in all.
static HlInst *own_part(HlPass *p, HlBuild *b, HlInst *other) {
  if (is_over_partitions(p, other) && hl_one_user(other) && other->first_use == other->last_use)
    return other->operands[0];
  return divided(p, b, other);
}

// An operation between the sums, on x in place of `from`.
static HlInst *pass_by(HlPass *p, HlBuild *b, const HlInst *inst, const HlInst *from, HlInst *x) {
  HlInst *operands[2] = {x};
  if (inst->n_operands == 2) {
    const int side = inst->operands[1] == from;
    HlInst *other = inst->operands[!side];
    operands[side] = x;
    operands[!side] = inst->op == HL_OP_MULTIPLY ? other : own_part(p, b, other);
    if (!operands[!side])
      return NULL;
  }
  return hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands);
}

static void combine(HlPass *p, HlInst *inner, HlInst *sum) {
  HlBuild b;
  hl_begin(p, "two-sums", sum, &b);
  HlInst *x = inner->operands[0];
  const HlInst *from = inner;
  for (const HlInst *at = inner->first_use->user; at != sum && x; at = at->first_use->user) {
    x = pass_by(p, &b, at, from, x);
    from = at;
  }
  HlInst *all = x ? coll_copy(&b, sum, NULL, 1, &x) : NULL;
  if (all)
    hl_set_int(all, HL_A_CHANNEL_ID, hl_attr_int(inner, HL_A_CHANNEL_ID));
  hl_commit(p, all);
}

// A sum of what all partitions have alike, among many replicas.
static bool is_sum_of_same(HlPass *p, const Facts *facts, const HlInst *sum) {
  return p->m->replica_count >= MANY_REPLICAS * p->m->num_partitions &&
         sum->shape->dtype == HL_F32 && facts->same[sum->id] && is_over_replicas(p, sum) &&
         coll_groups(p, sum).lists.n == 1;
}

static void sum_over_all(HlPass *p, HlInst *sum, int64_t channel) {
  HlBuild b;
  hl_begin(p, "same-everywhere", sum, &b);
  HlInst *all = coll_copy(&b, sum, NULL, 1, sum->operands);
  if (all)
    hl_set_int(all, HL_A_CHANNEL_ID, channel);
  hl_commit(p, all ? divided(p, &b, all) : NULL);
}

bool pass_ar_crs_combiner(HlPass *p) {
  if (p->m->num_partitions < 2)
    return true;
  int n;
  int64_t channel = hl_free_channel(p->m);
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    if (!hl_comp_may_have(comps[k], HL_OP_ALL_REDUCE))
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    int n_insts;
    HlInst **insts = hl_pass_insts(p, comps[k], &n_insts);
    const Facts facts = find_facts(p, comps[k]);
    for (int j = 0; j < n_insts; j++) {
      HlInst *sum = insts[j];
      if (!hl_alive(sum) || sum->op != HL_OP_ALL_REDUCE)
        continue;
      HlInst *inner = facts.farthest[sum->id];
      if (inner)
        combine(p, inner, sum);
      else if (is_sum_of_same(p, &facts, sum))
        sum_over_all(p, sum, channel++);
    }
    hl_arena_release(p->arena, mark);
  }
  return true;
}
