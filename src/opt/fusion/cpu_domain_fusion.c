// opt/fusion/cpu_domain_fusion.c
//
// cpu-domain-fusion: fusion for kernels that go over rows: what can be computed in one pass over the same rows is one kernel.
//
//   m = f32[64] reduce(x, -inf), dimensions={1}, max
//   e = f32[64,1000] exponential(x - broadcast(m))       f = f32[64,1000] fusion(x), calls={ all of it }
//   s = f32[64] reduce(e, 0), dimensions={1}, sum     =>
//   r = f32[64,1000] divide(e, broadcast(s))
//
// Such a kernel holds a row while it folds it and reads it again, so that a fold may be used for the whole of the row that it
// was made of, and what is dear is computed once a row although several read it. Of arrays this is known by the order of their
// elements alone: a value of the domain has one element a row, or all the row's, in the order of memory. Elsewhere what is dear is
// never computed twice.

#include "opt/fusion/fusion.h"
#include "opt/passes.h"

enum {
  MAX_PARTS = 8,    // of a concatenate
  MAX_REDUCES = 6,  // each has loops of its own
  MAX_SIZE = 400,   // instructions inside
  MAX_OPERANDS = 48,
  MAX_WINDOW = 16,  // along a dimension
  MAX_WINDOW_ELEMENTS = 256,
  LEAST_ROW = 32,        // shorter ones are not worth a loop of their own
  LONGEST_ROW = 1 << 13  // of which several stay in the first caches
};

// --- What there are loops for ---------------------------------------------------------------------

// Long ones are cumulative sums and their like, for which there is a better way than to fold each window.
static bool has_short_windows(const HlInst *inst) {
  const HlWindow window = hl_window(inst);
  int64_t n = 1;
  for (int d = 0; d < window.n; d++) {
    if (window.at[d].size > MAX_WINDOW)
      return false;
    n *= window.at[d].size;
  }
  return n <= MAX_WINDOW_ELEMENTS;
}

// Elements of the result are computed one by one from elements of the operands.
static bool is_loop(const HlInst *inst) {
  const bool computes_complex = hl_shape_is_array(inst->shape) &&
                                hl_is_complex(inst->shape->dtype) && fusion_is_expensive(inst);
  switch (inst->op) {
  case HL_OP_RNG:
  case HL_OP_MAP:
  case HL_OP_STOCHASTIC_CONVERT: return false;
  case HL_OP_BITCAST:
  case HL_OP_IOTA:
  case HL_OP_REDUCE: return true;
  case HL_OP_REDUCE_WINDOW: return has_short_windows(inst);
  case HL_OP_CONCATENATE: return inst->n_operands <= MAX_PARTS;
  default:
    return !computes_complex &&
           (hl_op_is((HlOp)inst->op, HL_T_REARRANGES) || fusion_is_elementwise(inst));
  }
}

static bool is_dear(const HlInst *inst) {
  return inst->op == HL_OP_REDUCE || inst->op == HL_OP_REDUCE_WINDOW || fusion_is_expensive(inst);
}

static bool only_moves(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_REARRANGES | HL_T_VIEW) || inst->op == HL_OP_IOTA ||
         inst->op == HL_OP_CONVERT || fusion_is_scalar_constant(inst);
}

// --- Rows -----------------------------------------------------------------------------------------

// A domain of rows, each of `columns` elements; 0: not known yet.
typedef struct Rows {
  int64_t rows, columns;
} Rows;

static bool is_ordered(const HlShape *shape) {
  return hl_shape_is_array(shape) && (!shape->layout || hl_layout_is_default(shape->layout));
}

// One element of `few` for so many of `many` that follow each other in memory, everywhere the same.
static bool set_rows(Rows *r, int64_t few, int64_t many) {
  if (few == 0 || many % few != 0)
    return false;
  if (r->columns == 0)
    *r = (Rows){few, many / few};
  return r->rows == few && r->rows * r->columns == many;
}

static bool folds_rows(const HlInst *reduce, Rows *r) {
  const HlShape *from = reduce->operands[0]->shape;
  const HlI64s dims = hl_dims(reduce);
  int64_t few = 1;
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < from->rank - dims.n)
      return false;
  for (int d = 0; d < from->rank - dims.n; d++)
    few *= from->dim[d];
  return is_ordered(from) && set_rows(r, few, hl_shape_elements(from));
}

static bool spreads_rows(const HlInst *broadcast, Rows *r) {
  const HlShape *from = broadcast->operands[0]->shape;
  const HlI64s dims = hl_dims(broadcast);
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k || from->dim[k] != broadcast->shape->dim[k])
      return false;
  return set_rows(r, hl_shape_elements(from), hl_shape_elements(broadcast->shape));
}

// Whether an instruction that reads the domain's values gives one.
static bool stays_in_rows(const HlInst *inst, const bool *reached, Rows *r) {
  switch (inst->op) {
  case HL_OP_REDUCE:
    for (uint32_t k = inst->n_operands / 2; k < inst->n_operands; k++)
      if (reached && reached[inst->operands[k]->id])
        return false;
    return folds_rows(inst, r);
  case HL_OP_BROADCAST: return is_ordered(inst->shape) && spreads_rows(inst, r);
  case HL_OP_RESHAPE:
  case HL_OP_BITCAST:
    return is_ordered(inst->shape) &&
           hl_shape_elements(inst->shape) == hl_shape_elements(inst->operands[0]->shape);
  default: return is_ordered(inst->shape) && fusion_is_elementwise(inst);
  }
}

// Whether all that a fusion makes of a parameter is of a domain of rows.
static bool body_stays_in_rows(const HlInst *fusion, int operand, Rows *r) {
  const HlComp *body = fusion_body(fusion);
  HlArena *arena = body->module->arena;
  const HlMark mark = hl_arena_mark(arena);
  bool *reached = HL_ARRAY(arena, bool, body->next_id), stays = true;
  reached[body->params[operand]->id] = true;
  for (const HlInst *inst = body->first; inst && stays; inst = inst->next) {
    bool reads = false;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      reads = reads || reached[inst->operands[k]->id];
    if (!reads)
      continue;
    reached[inst->id] = true;
    stays = stays_in_rows(inst, reached, r);
  }
  hl_arena_release(arena, mark);
  return stays;
}

// What reads the producer's elements again does so in the row that they are computed for.
static bool is_read_in_rows(const HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  Rows r = {0};
  if (!is_ordered(producer->shape))
    return false;
  if (producer->op == HL_OP_REDUCE && !folds_rows(producer, &r))
    return false;
  const bool stays = consumer->op == HL_OP_FUSION ? body_stays_in_rows(consumer, operand, &r)
                                                  : stays_in_rows(consumer, NULL, &r);
  return stays && r.columns >= LEAST_ROW && r.columns <= LONGEST_ROW;
}

// --- The decision ---------------------------------------------------------------------------------

static const char *refuses_pair(const HlInst *producer, const HlInst *consumer) {
  if (fusion_is_custom(consumer))
    return "a library computes the consumer";
  if (producer->op == HL_OP_FUSION)
    return "the producer is a fusion already";
  if (producer->op == HL_OP_CONSTANT && !hl_is_effective_scalar(producer->shape))
    return "the constant is an array";
  if (!is_loop(producer) || !hl_shape_is_array(producer->shape))
    return "no loop over elements computes the producer";
  if (consumer->op != HL_OP_FUSION && !is_loop(consumer))
    return "no loop over elements computes the consumer";
  return consumer->op != HL_OP_FUSION && producer->op == HL_OP_CONSTANT
             ? "a constant alone is no reason to make a fusion"
             : NULL;
}

static const char *refuses_size(Fuser *f, HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  if (consumer->op != HL_OP_FUSION)
    return NULL;
  if ((producer->op == HL_OP_REDUCE || producer->op == HL_OP_REDUCE_WINDOW) &&
      fuser_n_reduces(f, consumer) >= MAX_REDUCES)
    return "the kernel has many loops already";
  if (fusion_body(consumer)->n_insts >= MAX_SIZE ||
      consumer->n_operands + producer->n_operands > MAX_OPERANDS)
    return "the kernel is long already";
  return NULL;
}

// A window reads elements as often as windows overlap there.
static bool has_window(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return inst->op == HL_OP_REDUCE_WINDOW;
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (inner->op == HL_OP_REDUCE_WINDOW)
      return true;
  return false;
}

// In rows nothing is written out twice, and nothing is computed again but what is as cheap as reading it.
static const char *refuses_reuse(Fuser *f, HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  const bool again = fuser_reuses(f, consumer, operand);
  if (again && is_read_in_rows(consumer, operand))
    return NULL;
  if (consumer->op == HL_OP_FUSION && fuser_repeats_code(f, consumer, operand))
    return "the producer's code would be written out too many times";
  if (!again || only_moves(producer))
    return NULL;
  if (has_window(consumer))
    return "windows would compute the producer again and again";
  return is_dear(producer) ? "the consumer would compute something expensive again and again"
                           : NULL;
}

static const char *refuses(Fuser *f, HlInst *consumer, int operand) {
  const char *why = refuses_pair(consumer->operands[operand], consumer);
  why = why ? why : refuses_size(f, consumer, operand);
  why = why ? why : fuser_refuses(f, consumer, operand);
  return why ? why : refuses_reuse(f, consumer, operand);
}

static int choose_kind(Fuser *f, const HlInst *producer, const HlInst *consumer) {
  return HL_WORD_fusion_kind_LOOP;
}

// Computations that are part of an instruction (a reducer, a comparison) are written into its code.
static bool is_part_of_instruction(const HlComp *comp) {
  if (!comp->first_call)
    return comp != comp->module->entry;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL | HL_T_ASYNC))
      return true;
  return false;
}

bool pass_cpu_domain_fusion(HlPass *p) {
  const FusionPolicy policy = {.may_duplicate = true,
                               .refuses = refuses,
                               .kind = choose_kind,
                               .is_expensive = is_dear,
                               .skips = is_part_of_instruction};
  return fusion_run(p, &policy);
}
