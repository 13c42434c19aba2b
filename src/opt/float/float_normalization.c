// opt/float/float_normalization.c: computes in a wider type what the target cannot compute in a narrow
// one.
//
// float-normalization-T for each narrow type T: an op that the target does not have for T gets its
// operands converted to the wider type H and its result converted back, so that every value between
// ops is still rounded to T:
//
//   a = T[4] add(x, y)     =>     a' = H[4] add(H convert(x), H convert(y))
//                                 a  = T[4] convert(a')
//
// Computations it calls (a reducer) are copied and given parameters and a result of type H.
// Reducers of collectives run inside a library and may not convert: they are written anew in H if
// they are a single op; otherwise the collective stays.
//
// bf16-mixed-precision-removal does the same where an op mixes bf16 and f32, element_type_converter
// wherever a type occurs that its options name.
//
// With allow_excess_precision a later convert of `a` back to H reads a' itself. XLA's CPU backend
// has almost no op for the narrow types but bf16; XLA's GPU backend moves data and does bf16 arithmetic.

#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/cpu_dot.h"
#include "opt/ask/emitters.h"
#include "opt/ask/reducers.h"
#include "opt/ask/types.h"
#include "opt/float/float_normalization.h"
#include "opt/passes.h"
#include "opt/simplify/tuples.h"

typedef struct Norm {
  HlPass *p;
  HlDtype low, high;
  bool moves;  // narrow elements can be moved, and some computed with
  bool excess;
  bool mixed_only;  // ops of the narrow type alone are fine
  bool everywhere;  // no op of the narrow type is
} Norm;

// --- Which types --------------------------------------------------------------------------------

static HlDtype wider(HlDtype low) {
  switch (low) {
  case HL_BF16:
  case HL_F8E8M0FNU: return HL_F32;
  case HL_S4: return HL_S8;
  case HL_U4: return HL_U8;
  default: return HL_F16;
  }
}

static Norm norm_of(HlPass *p) {  // its name says for which type
  HlDtype low = hl_dtype_by_text(hl_str(p->info->name + strlen("float-normalization-")));
  return (Norm){.p = p,
                .low = low,
                .high = wider(low),
                .moves = p->target->moves_narrow,
                .excess = hl_pass_flag(p, "allow_excess_precision") && !p->keeps_rounding};
}

// --- What the target can do ----------------------------------------------------------------------

// A type without infinities: what overflows in it becomes another value than in a wider type.
static bool has_no_infinity(HlDtype dtype) {
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  return format->bits != 0 && format->nan != HL_NAN_IEEE;
}

// A type without zero, which is what a device gets that nobody sends to.
static bool has_no_zero(HlDtype dtype) {
  return hl_dtype_info[dtype].format.nan == HL_NAN_E8M0;
}

// Ops that are no arithmetic of their own, whose meaning is in the bits, or whose callees get
// normalized themselves.
static bool is_never_touched(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_REDUCE_PRECISION: return has_no_infinity(inst->shape->dtype);
  case HL_OP_COLLECTIVE_PERMUTE: return has_no_zero(inst->shape->dtype);
  case HL_OP_ADD_DEPENDENCY: return false;
  case HL_OP_FUSION:
  case HL_OP_CONVERT:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_BITCAST_CONVERT:
  case HL_OP_STOCHASTIC_CONVERT:
  case HL_OP_RNG_BIT_GENERATOR:
  case HL_OP_SCAN: return true;
  default:
    return hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_WIRE | HL_T_CONTROL | HL_T_INTEGER) ||
           hl_has_side_effect(inst) || hl_is_async((HlOp)inst->op);
  }
}

static bool gpu_computes_all(const HlComp *comp, HlDtype low) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && !hl_gpu_computes(inst, low))
      return false;
  return true;
}

bool hl_gpu_computes(const HlInst *inst, HlDtype low) {
  bool is_packed = hl_dtype_info[low].bits < 8;
  if ((hl_op_info[inst->op].traits & HL_T_COLLECTIVE) && is_packed)
    return false;
  switch ((GpuFloats)emitters_of((HlOp)inst->op)->gpu_floats) {
  case GPU_ANY: return true;
  case GPU_BF16: return low == HL_BF16;
  case GPU_CALLED: return gpu_computes_all(hl_to_apply(inst), low);
  case GPU_NONE: return false;
  default: return hl_op_moves((HlOp)inst->op) && !hl_op_is((HlOp)inst->op, HL_T_WIRE);
  }
}

static bool mixes(const Norm *n, const HlInst *inst) {
  bool low = hl_has_type(inst->shape, n->low), high = hl_has_type(inst->shape, n->high);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    low |= hl_has_type(inst->operands[k]->shape, n->low);
    high |= hl_has_type(inst->operands[k]->shape, n->high);
  }
  return low && high;
}

// Since 0.11 XLA's CPU backend has what moves, compares and chooses elements for bfloat16, but not what sends them to
// another device.
static bool cpu_computes_bf16(const HlPass *p, const HlInst *inst) {
  if (hl_cpu_library_takes(p, inst))
    return true;
  const HlOp op = (HlOp)inst->op;
  const bool alone = p->m->num_partitions <= 1 && p->m->replica_count <= 1;
  const uint32_t apart = alone ? HL_T_WIRE : HL_T_WIRE | HL_T_COLLECTIVE;
  return hl_pass_since(p, HL_XLA_0_11) &&
         (emitters_of(op)->cpu_bf16 || (hl_op_moves(op) && !hl_op_is(op, apart)));
}

static bool target_computes(const Norm *n, const HlInst *inst) {
  if (n->mixed_only || n->everywhere)
    return n->mixed_only && !mixes(n, inst);
  if (n->moves)
    return hl_gpu_computes(inst, n->low);
  return n->low == HL_BF16 && cpu_computes_bf16(n->p, inst);
}

// --- Computations that stay as they are ----------------------------------------------------------

static bool is_reducing_collective(const HlInst *inst) {
  return inst->op == HL_OP_ALL_REDUCE || inst->op == HL_OP_REDUCE_SCATTER;
}

// The computations this instruction calls are not rewritten for it.
static bool keeps_callees(const Norm *n, const HlInst *inst) {
  if (is_reducing_collective(inst))
    return true;
  if (n->moves)
    return false;
  if (inst->op == HL_OP_FUSION)
    return hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM;
  return (inst->op == HL_OP_REDUCE || inst->op == HL_OP_REDUCE_WINDOW) && target_computes(n, inst);
}

static bool has_low(const Norm *n, const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (hl_has_type(inst->shape, n->low))
      return true;
  return false;
}

// Gives every caller that keeps its callees a copy of this one.
static bool split_callers(const Norm *n, HlComp *comp) {
  HlComp *kept = NULL;
  for (HlCall *call = comp->first_call, *next; call; call = next) {
    next = call->next;
    HlInst *caller = call->caller;
    if (!keeps_callees(n, caller))
      continue;
    if (!hl_change(n->p, "own-reducer", caller, NULL))
      return false;
    if (!kept)
      kept = hl_comp_copy(n->p->m, comp, "kept", true, NULL);
    HlComp **calls = HL_ARRAY(n->p->arena, HlComp *, caller->n_calls);
    for (int k = 0; k < caller->n_calls; k++)
      calls[k] = hl_called(caller, k) == comp ? kept : hl_called(caller, k);
    hl_set_calls(caller, caller->n_calls, calls);
    if (!hl_changed(n->p))
      return false;
    next = comp->first_call;  // of a caller that calls it twice both edges are gone
  }
  return true;
}

// A computation's instructions are rewritten unless some caller needs them as they are.
static bool is_rewritten(const Norm *n, HlComp *comp) {
  int n_keeping = 0, n_others = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    *(keeps_callees(n, call->caller) ? &n_keeping : &n_others) += 1;
  if (n_keeping == 0)
    return true;
  return n_others > 0 && has_low(n, comp) && split_callers(n, comp);
}

// --- One instruction ----------------------------------------------------------------------------

// The parts of a complex number are of the type that goes with it.
static bool has_complex(const HlInst *inst) {
  bool found = hl_is_complex(inst->shape->dtype);
  for (uint32_t k = 0; !found && k < inst->n_operands; k++)
    found = hl_is_complex(inst->operands[k]->shape->dtype);
  return found;
}

static bool uses_low(const Norm *n, const HlInst *inst) {
  if (has_complex(inst))
    return false;
  bool found = hl_has_type(inst->shape, n->low);
  for (uint32_t k = 0; !found && k < inst->n_operands; k++)
    found = hl_has_type(inst->operands[k]->shape, n->low);
  return found;
}

static bool interface_has_low(const Norm *n, const HlComp *comp) {
  bool found = hl_has_type(comp->root->shape, n->low);
  for (int k = 0; !found && k < comp->n_params; k++)
    found = comp->params[k] && hl_has_type(comp->params[k]->shape, n->low);
  return found;
}

// What a widened instruction calls instead of `comp`; NULL: that cannot be had.
static HlComp *widened_callee(const Norm *n, HlBuild *b, const HlInst *inst, HlComp *comp) {
  if (!interface_has_low(n, comp))
    return comp;
  if (is_reducing_collective(inst)) {
    HlOp op = hl_reducer(comp);
    return op == HL_OP_COUNT ? NULL : hl_b_scalar_comp(b, op, n->high);
  }
  HlComp *copy = hl_comp_copy(n->p->m, comp, "clone", false, NULL);
  return hl_swap_interface(b, copy, n->low, n->high) ? copy : NULL;
}

static bool widen_calls(const Norm *n, HlBuild *b, const HlInst *inst, HlInst *wide) {
  HlArena *arena = n->p->arena;
  HlComp **calls = HL_ARRAY(arena, HlComp *, inst->n_calls);
  for (int k = 0; k < inst->n_calls; k++) {
    calls[k] = widened_callee(n, b, inst, hl_called(inst, k));
    if (!calls[k])
      return false;
  }
  if (inst->n_calls > 0)
    hl_set_calls(wide, inst->n_calls, calls);
  return true;
}

// The instruction in the wide type; NULL: cannot be.
static HlInst *widened(const Norm *n, HlBuild *b, const HlInst *inst) {
  HlShapes *shapes = n->p->m->shapes;
  HlInst **operands = HL_ARRAY(n->p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    operands[k] = hl_convert_to(b, x, hl_swap_type(shapes, x->shape, n->low, n->high));
    if (!operands[k])
      return NULL;
  }
  const HlShape *shape = hl_swap_type(shapes, inst->shape, n->low, n->high);
  HlInst *wide = hl_inst_copy(b->comp, inst, shape, (int)inst->n_operands, operands);
  return widen_calls(n, b, inst, wide) ? wide : NULL;
}

// Users that convert the result to the wide type again may have it before it is rounded. Rounding to
// a type without zero is more than that: zero and what is below it become nan.
static void bypass_converts(const Norm *n, HlInst *inst, HlInst *wide) {
  if (!n->excess || !hl_dtype_has_zero(n->low) || !hl_shape_is_array(inst->shape))
    return;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op == HL_OP_CONVERT && use->user->shape->dtype == n->high &&
        !hl_has_control(use->user) && !hl_sharding(use->user))
      hl_also(n->p, use->user, wide);
}

// An instruction whose elements are taken out one by one: each element is replaced, and the
// instruction dies with the last.
static bool all_take_elements(const HlInst *inst) {
  if (inst->shape->dtype != HL_TUPLE || inst->comp->root == inst || !inst->first_use ||
      hl_has_control(inst))
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_has_control(use->user))
      return false;
  return true;
}

static HlInst *element_back(HlBuild *b, HlInst *wide, const HlInst *take) {
  return hl_convert_to(b, hl_b_element(b, wide, (int)hl_attr_int(take, HL_A_INDEX)), take->shape);
}

static void normalize_elements(const Norm *n, HlInst *inst) {
  HlBuild b;
  HlInst *first = inst->first_use->user;
  hl_begin(n->p, "normalize", first, &b);
  HlInst *wide = widened(n, &b, inst);
  for (const HlUse *use = inst->first_use->next; wide && use; use = use->next)
    hl_also(n->p, use->user, element_back(&b, wide, use->user));
  hl_commit(n->p, wide ? element_back(&b, wide, first) : NULL);
}

static void normalize(const Norm *n, HlInst *inst) {
  if (all_take_elements(inst)) {
    normalize_elements(n, inst);
    return;
  }
  HlBuild b;
  hl_begin(n->p, "normalize", inst, &b);
  HlInst *wide = widened(n, &b, inst);
  HlInst *back = wide ? hl_convert_to(&b, wide, inst->shape) : NULL;
  if (back && back != wide) {
    bypass_converts(n, inst, wide);
    hl_leave_frontend(n->p);
  }
  hl_commit(n->p, back);
}

// --- The passes -----------------------------------------------------------------------------------

static bool run(const Norm *n) {
  HlPass *p = n->p;
  if (!hl_shapes_have_dtype(p->m->shapes, n->low))
    return true;
  p->relay_control = true;
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    if (!hl_comp_alive(comps[c]) || !is_rewritten(n, comps[c]))
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    int n_insts;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && uses_low(n, insts[k]) && !is_never_touched(insts[k]) &&
          !target_computes(n, insts[k]))
        normalize(n, insts[k]);
    hl_arena_release(p->arena, mark);
  }
  return true;
}

bool pass_float_normalization(HlPass *p) {
  Norm n = norm_of(p);
  const bool ok = run(&n);
  if (ok && p->changed)
    tuples_simplify(p, false);
  return ok;
}

bool pass_bf16_mixed_precision_removal(HlPass *p) {
  Norm n = {.p = p, .low = HL_BF16, .high = HL_F32, .mixed_only = true};
  return run(&n);
}

bool pass_element_type_converter(HlPass *p) {
  const char *from = hl_pass_text(p, "from"), *to = hl_pass_text(p, "to");
  Norm n = {.p = p,
            .low = hl_dtype_by_text(hl_str(from)),
            .high = hl_dtype_by_text(hl_str(to)),
            .everywhere = true};
  if (n.low == HL_NO_DTYPE || n.high == HL_NO_DTYPE || n.low == n.high)
    return hl_error(p->cx, (HlPos){0},
                    "expected two element types as from and to, but got '%s' and '%s'", from, to);
  return run(&n);
}
