// opt/fusion/cpu_fusion.c
//
// fusion: XLA's instruction fusion for CPUs. A kernel is one loop nest that computes each element
// of its result from elements of its operands; everything that can be computed so is fused until
// the code would be repeated, something expensive computed twice, or reading become slow.
//
//   b = f32[8,4] broadcast(s)                     f = f32[8,4] fusion(x, s), kind=kLoop, calls={
//   r = f32[8,4] add(x, b)              =>          ROOT add(x, broadcast(s))
//                                                 }
//
// A sum of a small matrix-vector product and something else is an output fusion: the product is
// computed by its own code, which adds as it writes.

#include "opt/fusion/fusion.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// --- What the emitters can do -------------------------------------------------------------------

static bool is_loop_fusible(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BITCAST:
  case HL_OP_IOTA:
  case HL_OP_REDUCE: return true;
  default: return hl_op_is((HlOp)inst->op, HL_T_REARRANGES) || fusion_is_elementwise(inst);
  }
}

static bool is_expensive(const HlInst *inst) {
  if (inst->op == HL_OP_CONVERT)  // rounding checks for NaN, several instructions an element
    return inst->shape->dtype == HL_BF16 && inst->operands[0]->shape->dtype == HL_F32;
  if (hl_op_facts((HlOp)inst->op)->divisor)
    return !hl_is_integral(inst->shape->dtype) || !fusion_is_scalar_constant(inst->operands[0]);
  return inst->op == HL_OP_SINH || fusion_is_expensive(inst);
}

// --- Products with a vector ---------------------------------------------------------------------

static bool is_used_once(const HlInst *inst) {
  return inst->first_use && inst->first_use == inst->last_use;
}

static bool is_vector_product(const HlInst *inst) {
  return inst->op == HL_OP_DOT && inst->shape->rank <= 1 && !hl_is_complex(inst->shape->dtype) &&
         hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS).n == 0;
}

static bool makes_output_fusion(const HlInst *producer, const HlInst *consumer) {
  return consumer->op == HL_OP_ADD && is_vector_product(producer) && is_used_once(producer);
}

static bool may_take_product(const HlInst *add) {
  return add->op == HL_OP_ADD &&
         (makes_output_fusion(add->operands[0], add) || makes_output_fusion(add->operands[1], add));
}

// A matrix that is computed while it is multiplied by a vector that takes less than half of the cache need not be
// written.
static bool is_matrix_of_small_product(Fuser *f, const HlInst *dot, int operand) {
  if (dot->op != HL_OP_DOT || dot->shape->rank > 1)
    return false;
  const HlShape *vector = dot->operands[1 - operand]->shape;
  return vector->rank == 1 &&
         hl_shape_elements(vector) * hl_dtype_bytes(vector->dtype) <
             hl_target_of_kind(fuser_pass(f)->target, HL_TARGET_CPU)->l1_bytes / 2;
}

// --- Concatenation ------------------------------------------------------------------------------

enum { MAX_PARTS = 8, LONG_ROW = 128 };

// Fused, each element asks which part it lies in; unfused, parts are copied as they are.
static bool is_better_alone(const HlInst *inst) {
  if (inst->op != HL_OP_CONCATENATE)
    return false;
  if (inst->n_operands > MAX_PARTS)
    return true;
  const HlShape *shape = inst->shape;
  int64_t dim = hl_dim(inst);
  int64_t minor = shape->layout && shape->layout->minor_to_major.n > 0
                      ? shape->layout->minor_to_major.at[0]
                      : shape->rank - 1;
  return shape->rank > 1 && dim == minor && shape->dim[dim] >= LONG_ROW;
}

// --- The decision -------------------------------------------------------------------------------

enum { MAX_REDUCES = 5 };

// Of the two by themselves.
static const char *refuses_pair(const HlInst *producer, const HlInst *consumer) {
  if (fusion_is_custom(consumer))
    return "a library computes the consumer";
  if (producer->op == HL_OP_FUSION)
    return "the producer is a fusion already";
  if (producer->op == HL_OP_CONSTANT && !hl_is_effective_scalar(producer->shape))
    return "the constant is an array";
  return NULL;
}

// Of what the code would be.
static const char *refuses_code(const HlInst *producer, const HlInst *consumer) {
  if (may_take_product(producer))
    return "the producer itself may take in a product";
  if (!is_loop_fusible(producer))
    return "no loop over elements computes the producer";
  return is_better_alone(producer) || is_better_alone(consumer)
             ? "a concatenation copies whole parts by itself"
             : NULL;
}

static const char *refuses_fusion(Fuser *f, const HlInst *producer, HlInst *consumer, int operand) {
  if (producer->op == HL_OP_REDUCE && fuser_n_reduces(f, consumer) > MAX_REDUCES)
    return "kernels of many reductions take the compiler too long";
  if (fuser_repeats_code(f, consumer, operand))
    return "the producer's code would be written out too many times";
  return fusion_kind(consumer) == HL_WORD_fusion_kind_LOOP || is_loop_fusible(consumer)
             ? NULL
             : "the consumer is no loop over elements";
}

static const char *refuses(Fuser *f, HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  const char *why = refuses_pair(producer, consumer);
  if (why || makes_output_fusion(producer, consumer))
    return why;
  why = refuses_code(producer, consumer);
  if (!why && is_expensive(producer) && fuser_reuses(f, consumer, operand))
    why = "the consumer would compute something expensive again and again";
  if (!why)
    why = fuser_refuses(f, consumer, operand);
  if (why)
    return why;
  if (consumer->op == HL_OP_FUSION)
    return refuses_fusion(f, producer, consumer, operand);
  if (producer->op == HL_OP_CONSTANT)
    return "a constant alone is no reason to make a fusion";
  return is_matrix_of_small_product(f, consumer, operand) || is_loop_fusible(consumer)
             ? NULL
             : "no loop over elements computes the consumer";
}

// --- Values of which the maximum is subtracted --------------------------------------------------------

static const HlInst *broadcast_of(const HlInst *inst) {
  return inst->op == HL_OP_BROADCAST ? inst->operands[0] : inst;
}

static bool is_maximum_of(const HlInst *reduce, const HlInst *x) {
  return reduce->op == HL_OP_REDUCE && reduce->operands[0] == x &&
         hl_to_apply(reduce)->root->op == HL_OP_MAXIMUM;
}

// x minus its maximum along some dimensions, of which the exponential is taken.
static bool is_shift_of(const HlInst *subtract, const HlInst *x, const HlInst *maximum) {
  if (subtract->op != HL_OP_SUBTRACT)
    return false;
  const HlInst *const *side = (const HlInst *const *)subtract->operands;
  bool has_x = broadcast_of(side[0]) == x || broadcast_of(side[1]) == x, has_maximum = false;
  for (int k = 0; k < 2; k++)
    has_maximum |= side[k]->op == HL_OP_BROADCAST && side[k]->operands[0] == maximum;
  for (const HlUse *use = subtract->first_use; has_x && has_maximum && use; use = use->next)
    if (use->user->op == HL_OP_EXPONENTIAL)
      return true;
  return false;
}

// What a softmax is taken of: computed twice it may round in two ways (a multiplication and an addition become one
// instruction in the one copy and not in the other), and what exceeds the maximum then has an exponential above 1.
static bool is_shifted_by_maximum(const HlInst *x) {
  if (x->op == HL_OP_FUSION || !fusion_is_elementwise(x))
    return false;
  const HlInst *maximum = NULL;
  for (const HlUse *use = x->first_use; use && !maximum; use = use->next)
    if (is_maximum_of(use->user, x))
      maximum = use->user;
  for (const HlUse *use = x->first_use; use && maximum; use = use->next)
    if (is_shift_of(use->user, x, maximum))
      return true;
  return false;
}

static int choose_kind(Fuser *f, const HlInst *producer, const HlInst *consumer) {
  return makes_output_fusion(producer, consumer) ? HL_WORD_fusion_kind_OUTPUT
                                                 : HL_WORD_fusion_kind_LOOP;
}

// Computations that are part of an instruction (a reducer, a comparison) are written into its code;
// what nobody calls is never run.
static bool is_part_of_instruction(const HlComp *comp) {
  if (!comp->first_call)
    return comp != comp->module->entry;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL | HL_T_ASYNC))
      return true;
  return false;
}

bool pass_fusion(HlPass *p) {
  if (hl_target_has_blocks(p->target))
    return gpu_run_fusion(p, hl_pass_flag(p, "may_duplicate"));
  FusionPolicy policy = {.may_duplicate = hl_pass_flag(p, "may_duplicate"),
                         .refuses = refuses,
                         .kind = choose_kind,
                         .is_expensive = is_expensive,
                         .keeps_whole =
                             hl_pass_since(p, HL_XLA_0_11) ? is_shifted_by_maximum : NULL,
                         .skips = is_part_of_instruction};
  return fusion_run(p, &policy);
}
