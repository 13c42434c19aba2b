// opt/ask/memcpy_places.c: where in memory the piece lies that a slice or an update of a slice moves, if that is known when
// compiling: at one place, or in a loop, whose induction variable is known in each iteration, at one in each.
//
// Indices are computed by the interpreter's kernels from the induction variable, for each iteration.

#include "opt/ask/memcpy_places.h"

#include "hilo/op.h"
#include "ir/backend_config.h"
#include "opt/ask/loops.h"

// How long a list of offsets, and the way to an index, may be.
enum { MAX_TRIPS = 1 << 14, MAX_STEPS = 64 };

// The loop whose body it stands in, as its annotations tell.
typedef struct Loop {
  int64_t slot, init, step, trips;
} Loop;

// What an index is computed from: instructions of the loop's body and of a fusion's, operands first.
typedef struct Steps {
  HlInst *inst[MAX_STEPS];
  HlLiteral *value[MAX_STEPS];
  int n;
} Steps;

typedef struct Piece {
  const HlInst *inst, *slice;  // the slice or the fusion around it, and the slice
  int first_index;
  const HlShape *whole, *part;
  int64_t *stride;  // of each dimension in bytes; -1: none
} Piece;

static const HlInst *through_bitcast(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST ? inst->operands[0] : inst;
}

// --- The piece ----------------------------------------------------------------------------------

static int64_t nth_minor(const HlShape *shape, int k) {
  return shape->layout ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k;
}

static bool is_row_of_bytes(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) &&
         (shape->dtype == HL_PRED || hl_dtype_info[shape->dtype].bits >= 8) &&
         (!shape->layout || !shape->layout->extra ||
          (shape->layout->extra->n_tiles == 0 && shape->layout->extra->n_splits == 0 &&
           shape->layout->extra->element_bits == 0));
}

// In the order of memory: whole dimensions first, then at most one in part, then single elements.
static bool is_contiguous(const HlShape *whole, const HlShape *part) {
  bool is_cut = false;
  for (int k = 0; k < whole->rank; k++) {
    const int64_t d = nth_minor(whole, k);
    if (nth_minor(part, k) != d || (is_cut && part->dim[d] != 1))
      return false;
    is_cut |= part->dim[d] != whole->dim[d];
  }
  return true;
}

static bool find_piece(HlPass *p, const HlInst *inst, Piece *out) {
  const bool is_fusion = inst->op == HL_OP_FUSION;
  const HlInst *slice = is_fusion ? through_bitcast(hl_called(inst, 0)->root) : inst;
  const bool reads = slice->op == HL_OP_DYNAMIC_SLICE;
  if (!reads && slice->op != HL_OP_DYNAMIC_UPDATE_SLICE)
    return false;
  *out = (Piece){.inst = inst,
                 .slice = slice,
                 .first_index = reads ? 1 : 2,
                 .whole = slice->operands[0]->shape,
                 .part = reads ? slice->shape : slice->operands[1]->shape};
  for (int k = 0; is_fusion && k < out->first_index; k++)
    if (through_bitcast(slice->operands[k])->op != HL_OP_PARAMETER)
      return false;
  if (!is_row_of_bytes(out->whole) || !is_row_of_bytes(out->part) ||
      (int)slice->n_operands != out->first_index + out->whole->rank ||
      !is_contiguous(out->whole, out->part))
    return false;
  out->stride = HL_ARRAY(p->arena, int64_t, out->whole->rank + 1);
  int64_t stride = hl_dtype_bytes(out->whole->dtype);
  for (int k = 0; k < out->whole->rank; k++) {
    const int64_t d = nth_minor(out->whole, k);
    out->stride[d] = stride;
    if (__builtin_mul_overflow(stride, out->whole->dim[d], &stride))
      return false;
  }
  return true;
}

// --- The loop -----------------------------------------------------------------------------------

static bool find_loop(HlPass *p, const HlComp *body, Loop *out) {
  const HlCall *call = body->first_call;
  if (!call || call->next || call->caller->op != HL_OP_WHILE ||
      hl_while_body(call->caller) != body || !loop_is_plain(call->caller))
    return false;
  const HlLoopConfig config = hl_loop_config(NULL, call->caller);
  out->slot = config.slot.value;
  out->init = config.init.value;
  out->step = config.step.value;
  out->trips = config.trips.value;
  return config.slot.given && config.init.given && config.step.given && config.trips.given &&
         out->trips >= 0 && out->trips <= MAX_TRIPS;
}

// --- Indices in an iteration --------------------------------------------------------------------------

static bool is_computable(const HlInst *inst) {
  if (!hl_shape_is_scalar(inst->shape) || inst->n_calls > 0 || inst->n_operands > 3)
    return false;
  if (inst->op == HL_OP_CONSTANT)
    return hl_is_constant(inst);
  return inst->n_operands > 0 && (inst->op == HL_OP_COPY || inst->op == HL_OP_RESHAPE ||
                                  (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE));
}

static int place_of(const Steps *steps, const HlInst *inst) {
  int k = 0;
  while (k < steps->n && steps->inst[k] != inst)
    k++;
  return k;
}

static bool add_step(Steps *steps, HlInst *inst) {
  if (place_of(steps, inst) < steps->n)
    return true;
  if (steps->n == MAX_STEPS)
    return false;
  steps->inst[steps->n++] = inst;
  return true;
}

static bool comes_first(const HlInst *a, const HlInst *b, const HlComp *body) {
  return a->comp == b->comp ? hl_stands_before(a, b) : a->comp == body;
}

static void sort_steps(Steps *steps, const HlComp *body) {
  for (int k = 1; k < steps->n; k++) {
    HlInst *inst = steps->inst[k];
    int at = k;
    for (; at > 0 && comes_first(inst, steps->inst[at - 1], body); at--)
      steps->inst[at] = steps->inst[at - 1];
    steps->inst[at] = inst;
  }
}

// A parameter of a fusion's body is the operand outside.
static HlInst *outside(const HlInst *outer, const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER && outer->op == HL_OP_FUSION &&
                 inst->comp == hl_called(outer, 0)
             ? outer->operands[hl_parameter_number(inst)]
             : NULL;
}

// False: it depends on something else than the loop's induction variable.
static bool find_steps(const HlInst *outer, HlInst *index, int64_t slot, Steps *out) {
  out->n = 0;
  if (!add_step(out, index))
    return false;
  for (int k = 0; k < out->n; k++) {
    HlInst *inst = out->inst[k], *operand = outside(outer, inst);
    if (!hl_shape_is_scalar(inst->shape))
      return false;
    if (operand) {
      if (!add_step(out, operand))
        return false;
      continue;
    }
    const bool is_slot = inst->comp == outer->comp && loop_slot_of(inst) >= 0;
    if (is_slot ? loop_slot_of(inst) != slot : !is_computable(inst))
      return false;
    for (uint32_t j = 0; !is_slot && j < inst->n_operands; j++)
      if (!add_step(out, inst->operands[j]))
        return false;
  }
  sort_steps(out, outer->comp);
  return true;
}

static HlLiteral *scalar_of(HlPass *p, const HlShape *shape, int64_t value) {
  HlLiteral *literal = hl_literal_new(p->cx, shape);
  if (literal)
    hl_literal_set_i64(literal, 0, value);
  return literal;
}

// A new reference, or NULL.
static HlLiteral *run_step(HlPass *p, const HlInst *outer, const Steps *steps, const HlInst *inst,
                           int64_t induction) {
  const HlInst *operand = outside(outer, inst);
  if (operand)
    return hl_literal_ref(steps->value[place_of(steps, operand)]);
  if (inst->comp == outer->comp && loop_slot_of(inst) >= 0)
    return scalar_of(p, inst->shape, induction);
  if (inst->op == HL_OP_CONSTANT)
    return hl_literal_ref(hl_constant(inst));
  const HlLiteral *in[3] = {NULL, NULL, NULL};
  for (uint32_t k = 0; k < inst->n_operands; k++)
    in[k] = steps->value[place_of(steps, inst->operands[k])];
  if (inst->op == HL_OP_COPY)
    return hl_literal_ref(in[0]);
  HlEval ev = {.cx = p->cx};
  HlKernel *kernel = hl_kernel((HlOp)inst->op);
  HlLiteral *made = kernel ? hl_literal_new(p->cx, inst->shape) : NULL;
  if (made && !kernel(&ev, inst, in, made)) {
    hl_literal_unref(made);
    return NULL;
  }
  return made;
}

// The index, kept inside the array as the operation does.
static int64_t clamped(const Piece *piece, int dim, const HlLiteral *index) {
  const int64_t most = piece->whole->dim[dim] - piece->part->dim[dim];
  const int64_t at = hl_literal_i64(index, 0);
  if (at < 0)
    return index->shape->dtype == HL_U64 ? most : 0;
  return at < most ? at : most;
}

static bool run_steps(HlPass *p, const Piece *piece, int dim, Steps *steps, int64_t induction,
                      int64_t *offset) {
  const HlInst *index = piece->slice->operands[piece->first_index + dim];
  int n = 0;
  for (; n < steps->n; n++) {
    steps->value[n] = run_step(p, piece->inst, steps, steps->inst[n], induction);
    if (!steps->value[n])
      break;
  }
  const bool ok = n == steps->n;
  if (ok)
    *offset += clamped(piece, dim, steps->value[place_of(steps, index)]) * piece->stride[dim];
  for (int k = 0; k < n; k++)
    hl_literal_unref(steps->value[k]);
  return ok;
}

// --- Offsets of all iterations -----------------------------------------------------------------------

static bool add_offsets(HlPass *p, const Piece *piece, int dim, const Loop *loop,
                        MemcpyPlaces *all) {
  Steps steps;
  HlInst *index = piece->slice->operands[piece->first_index + dim];
  if (!find_steps(piece->inst, index, loop->slot, &steps))
    return false;
  for (int64_t iteration = 0; iteration < all->n; iteration++) {
    int64_t induction;
    if (__builtin_mul_overflow(iteration, loop->step, &induction) ||
        __builtin_add_overflow(loop->init, induction, &induction) ||
        !run_steps(p, piece, dim, &steps, induction, &all->at[iteration]))
      return false;
  }
  return true;
}

static bool find_offsets(HlPass *p, const Piece *piece, MemcpyPlaces *all) {
  Loop loop = {0};
  int64_t fixed = 0;
  *all = (MemcpyPlaces){.slice = piece->slice, .n = 1};
  for (int k = 0; k < piece->whole->rank; k++) {
    const HlInst *index = piece->slice->operands[piece->first_index + k];
    all->by_iteration |= !hl_is_constant(index) && piece->part->dim[k] != piece->whole->dim[k];
  }
  if (all->by_iteration && !find_loop(p, piece->inst->comp, &loop))
    return false;
  all->n = all->by_iteration ? loop.trips : 1;
  all->at = HL_ARRAY(p->arena, int64_t, all->n + 1);
  for (int k = 0; k < piece->whole->rank; k++) {
    const HlInst *index = piece->slice->operands[piece->first_index + k];
    if (piece->part->dim[k] == piece->whole->dim[k])
      continue;
    if (hl_is_constant(index))
      fixed += clamped(piece, k, hl_constant(index)) * piece->stride[k];
    else if (!add_offsets(p, piece, k, &loop, all))
      return false;
  }
  for (int64_t k = 0; k < all->n; k++)
    all->at[k] += fixed;
  return true;
}

bool memcpy_places(HlPass *p, const HlInst *inst, MemcpyPlaces *out) {
  Piece piece;
  return find_piece(p, inst, &piece) && find_offsets(p, &piece, out);
}
