// opt/fusion/fusion_query.c: what fusion passes ask about single instructions.

#include "opt/fusion/fusion.h"

#include "opt/ask/emitters.h"

// --- What they are ------------------------------------------------------------------------------

static bool is_elementwise_map(const HlInst *map) {
  HlI64s dims = hl_dims(map);
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

static bool has_elementwise_body(const HlInst *fusion) {
  for (const HlInst *inst = fusion_body(fusion)->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && !fusion_is_elementwise(inst))
      return false;
  return true;
}

bool fusion_is_elementwise(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONSTANT:
  case HL_OP_COPY:
  case HL_OP_RNG: return true;
  case HL_OP_BITCAST_CONVERT:
    return hl_dtype_info[inst->shape->dtype].bits ==
           hl_dtype_info[inst->operands[0]->shape->dtype].bits;
  case HL_OP_MAP: return is_elementwise_map(inst);
  case HL_OP_FUSION: return has_elementwise_body(inst);
  default: return hl_op_info[inst->op].traits & HL_T_ELEMENTWISE;
  }
}

bool fusion_is_custom(const HlInst *inst) {
  return inst->op == HL_OP_FUSION && fusion_kind(inst) == HL_WORD_fusion_kind_CUSTOM;
}

bool fusion_is_fusible(const HlInst *inst) {
  if (hl_has_control(inst))
    return false;
  switch (inst->op) {
  case HL_OP_DOMAIN:
  case HL_OP_PARAMETER: return false;
  case HL_OP_FUSION:
  case HL_OP_MAP:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return true;
  case HL_OP_RNG: return !inst->first_use || hl_one_user(inst);
  default: return !hl_op_is((HlOp)inst->op, HL_T_CONTROL) && !hl_has_side_effect(inst);
  }
}

bool fusion_opens_block(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONCATENATE:
  case HL_OP_DOT:
  case HL_OP_DYNAMIC_UPDATE_SLICE:
  case HL_OP_PAD:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return true;
  default: return false;
  }
}

bool fusion_duplicates(const HlInst *producer, const HlInst *consumer) {
  for (const HlUse *use = producer->first_use; use; use = use->next)
    if (use->user != consumer)
      return true;
  return false;
}

bool fusion_is_scalar_constant(const HlInst *inst) {
  if (inst->op == HL_OP_BROADCAST)
    inst = inst->operands[0];
  return inst->op == HL_OP_CONSTANT && hl_is_effective_scalar(inst->shape);
}

// --- What they cost -----------------------------------------------------------------------------

bool fusion_is_expensive(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (emitters_of(op)->plain_on_reals)
    return hl_is_complex(inst->shape->dtype);
  if (hl_op_facts(op)->divisor)  // by a known integer it is a multiplication and shifts
    return !hl_is_integral(inst->shape->dtype) || !fusion_is_scalar_constant(inst->operands[1]);
  return !hl_op_is(op, HL_T_CHEAP);
}

// --- How they read their operands ---------------------------------------------------------------

static FusionUse use_after(FusionUse outer, FusionUse inner) {
  if (outer == FUSION_USE_NONE || inner == FUSION_USE_NONE)
    return FUSION_USE_NONE;
  return outer > inner ? outer : inner;
}

// Two reads of one value: only where both keep the order an element is at hand when it is read
// again.
static FusionUse use_both(FusionUse a, FusionUse b) {
  if (a == FUSION_USE_NONE)
    return b;
  if (b == FUSION_USE_NONE)
    return a;
  return a == FUSION_USE_ONCE && b == FUSION_USE_ONCE ? FUSION_USE_ONCE : FUSION_USE_AGAIN;
}

// How the root of a body reads a parameter: from the root backwards.
static FusionUse use_in_body(const HlComp *body, const HlInst *param) {
  HlArena *arena = body->module->arena;
  HlMark mark = hl_arena_mark(arena);
  FusionUse *use = HL_ARRAY(arena, FusionUse, body->next_id);
  use[body->root->id] = FUSION_USE_ONCE;
  for (const HlInst *inst = body->last; inst; inst = inst->prev)
    for (uint32_t k = 0; use[inst->id] != FUSION_USE_NONE && k < inst->n_operands; k++) {
      FusionUse *of = &use[inst->operands[k]->id];
      *of = use_both(*of, use_after(use[inst->id], fusion_use(inst, (int)k)));
    }
  FusionUse found = use[param->id];
  hl_arena_release(arena, mark);
  return found;
}

static FusionUse use_in_dot(const HlInst *dot, int operand) {
  bool makes_vector = dot->shape->rank <= 1;
  return makes_vector && dot->operands[1 - operand]->shape->rank <= 1 ? FUSION_USE_ONCE
                                                                      : FUSION_USE_AGAIN;
}

FusionUse fusion_use(const HlInst *inst, int operand) {
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_DYNAMIC_SLICE: return FUSION_USE_AGAIN;
  case HL_OP_PAD: return operand > 0 ? FUSION_USE_AGAIN : FUSION_USE_PERMUTED;
  case HL_OP_REDUCE:
    return operand >= (int)inst->n_operands / 2 ? FUSION_USE_AGAIN : FUSION_USE_PERMUTED;
  case HL_OP_DOT: return use_in_dot(inst, operand);
  case HL_OP_DYNAMIC_UPDATE_SLICE: return operand < 2 ? FUSION_USE_ONCE : FUSION_USE_AGAIN;
  case HL_OP_FUSION: {
    const HlComp *body = fusion_body(inst);
    return operand < body->n_params ? use_in_body(body, body->params[operand]) : FUSION_USE_AGAIN;
  }
  default:
    if (hl_op_is((HlOp)inst->op, HL_T_REARRANGES | HL_T_VIEW))
      return FUSION_USE_PERMUTED;
    return fusion_is_elementwise(inst) &&
                   hl_shape_same_dims(inst->operands[operand]->shape, inst->shape)
               ? FUSION_USE_ONCE
               : FUSION_USE_AGAIN;
  }
}

// --- Updates in place ---------------------------------------------------------------------------

static bool is_in_place(const HlInst *inst) {
  return inst->op == HL_OP_DYNAMIC_UPDATE_SLICE || inst->op == HL_OP_SCATTER;
}

static int n_in_place(const HlInst *inst) {
  return inst->op == HL_OP_SCATTER ? (int)inst->n_operands / 2 : 1;
}

// The operand of `consumer` whose buffer becomes the result: number `k` of them, in no special
// order; -1: there are no more. -2: that one is none.
enum { NO_MORE = -1, NONE_HERE = -2 };

// The instruction that makes result k of a fusion, bitcasts included; NULL: there is none.
static const HlInst *result_of_fusion(const HlInst *fusion, int k) {
  const HlInst *root = fusion_body(fusion)->root;
  if (root->op == HL_OP_TUPLE)
    return k < (int)root->n_operands ? root->operands[k] : NULL;
  return k == 0 ? root : NULL;
}

static const HlInst *below_bitcasts(const HlInst *inst) {
  while (inst->op == HL_OP_BITCAST)
    inst = inst->operands[0];
  return inst;
}

static int in_place_of_fusion(const HlInst *fusion, int k) {
  const HlInst *result = result_of_fusion(fusion, k);
  if (!result)
    return NO_MORE;
  result = below_bitcasts(result);
  if (!is_in_place(result))
    return NONE_HERE;
  const HlInst *buffer = below_bitcasts(result->operands[0]);
  return buffer->op == HL_OP_PARAMETER ? (int)hl_parameter_number(buffer) : NONE_HERE;
}

static int in_place_operand(const HlInst *consumer, int k) {
  if (consumer->op == HL_OP_FUSION)
    return in_place_of_fusion(consumer, k);
  return is_in_place(consumer) && k < n_in_place(consumer) ? k : NO_MORE;
}

static bool counts_as_non_elementwise(const HlInst *inst) {
  return inst->op != HL_OP_FUSION && inst->op != HL_OP_BITCAST && inst->op != HL_OP_PARAMETER &&
         inst->op != HL_OP_TUPLE && !fusion_is_elementwise(inst);
}

typedef struct Match {
  const HlInst *inst;  // the last one found
  int n;
} Match;

static Match find_non_elementwise(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return (Match){inst, counts_as_non_elementwise(inst)};
  Match match = {0};
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (counts_as_non_elementwise(inner))
      match = (Match){inner, match.n + 1};
  return match;
}

static Match find_updates(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return (Match){inst, inst->op == HL_OP_DYNAMIC_UPDATE_SLICE};
  Match match = {0};
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (inner->op == HL_OP_DYNAMIC_UPDATE_SLICE)
      match = (Match){inner, match.n + 1};
  return match;
}

// What an inner instruction is outside: the operand for a parameter, else itself.
static const HlInst *outside(const HlInst *fusion, const HlInst *inner) {
  return fusion->op == HL_OP_FUSION && inner->op == HL_OP_PARAMETER
             ? fusion->operands[hl_parameter_number(inner)]
             : inner;
}

static bool same_index(const HlInst *a, const HlInst *b) {
  if (a == b)
    return true;
  return hl_is_constant(a) && hl_is_constant(b) &&
         hl_literal_i64(hl_constant(a), 0) == hl_literal_i64(hl_constant(b), 0);
}

// The slice reads just what the update writes.
static bool reads_what_is_written(const HlInst *producer, const HlInst *slice,
                                  const HlInst *consumer, const HlInst *update) {
  if (!hl_shape_compatible(slice->shape, update->operands[1]->shape))
    return false;
  HlI64s bounds = hl_attr_ints(slice, HL_A_SLICE);
  for (int k = 0; k < update->shape->rank; k++) {
    const HlInst *to = outside(consumer, update->operands[2 + k]);
    if (slice->op == HL_OP_SLICE) {
      if (bounds.at[3 * k + 2] != 1 || !hl_is_constant(to) ||
          hl_literal_i64(hl_constant(to), 0) != bounds.at[3 * k])
        return false;
    } else if (!same_index(outside(producer, slice->operands[1 + k]), to)) {
      return false;
    }
  }
  return true;
}

// Something other than `except` that is not elementwise computes from a parameter of a body.
static bool reaches_another(const HlInst *param, const HlInst *except, bool bitcasts_count) {
  const HlComp *body = param->comp;
  HlArena *arena = body->module->arena;
  HlMark mark = hl_arena_mark(arena);
  bool *reached = HL_ARRAY(arena, bool, body->next_id);
  reached[param->id] = true;
  bool found = false;
  for (const HlInst *inst = param->next; inst && !found; inst = inst->next) {
    for (uint32_t k = 0; k < inst->n_operands && !reached[inst->id]; k++)
      reached[inst->id] = reached[inst->operands[k]->id];
    found = reached[inst->id] && inst != except &&
            (counts_as_non_elementwise(inst) || (bitcasts_count && inst->op == HL_OP_BITCAST));
  }
  hl_arena_release(arena, mark);
  return found;
}

static bool reaches_another_in(const HlInst *consumer, const HlInst *producer, const HlInst *except,
                               bool bitcasts_count) {
  if (consumer->op != HL_OP_FUSION)
    return false;
  int at = fusion_operand_index(consumer, producer);
  return at >= 0 && reaches_another(fusion_body(consumer)->params[at], except, bitcasts_count);
}

// `k`: which of the consumer's results is written over what the producer reads or makes.
static bool breaks_update(const HlInst *producer, const HlInst *consumer, int k) {
  const Match reader = find_non_elementwise(producer);
  if (reader.n > 1)
    return true;
  if (reader.n == 0)  // what follows the update, if only a bitcast, is then no part of it
    return reaches_another_in(
        consumer, producer, consumer->op == HL_OP_FUSION ? result_of_fusion(consumer, k) : consumer,
        false);
  const Match update = find_updates(consumer);
  if (update.n == 0)
    return false;
  const bool is_slice = reader.inst->op == HL_OP_SLICE || reader.inst->op == HL_OP_DYNAMIC_SLICE;
  return update.n > 1 || !is_slice ||
         !reads_what_is_written(producer, reader.inst, consumer, update.inst) ||
         reaches_another_in(consumer, producer, update.inst, true);
}

bool fusion_breaks_in_place(const HlInst *producer, const HlInst *consumer) {
  for (int k = 0;; k++) {
    int number = in_place_operand(consumer, k);
    if (number == NO_MORE)
      return false;
    if (number == NONE_HERE)
      continue;
    const HlInst *buffer = consumer->operands[number];
    for (uint32_t o = 0; o < consumer->n_operands; o++)
      if ((int)o != number && consumer->operands[o] == buffer)
        return true;
    bool matters = buffer == producer || fusion_operand_index(producer, buffer) >= 0;
    if (matters && breaks_update(producer, consumer, k))
      return true;
  }
}
