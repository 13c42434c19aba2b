// opt/float/algorithm_checker.c
//
// algorithm-checker: refuses dots whose `algorithm` the GPU does not have for the types of their operands and result.
// It changes nothing.
//
//   d = f32[4,2] dot(f16[4,8] x, f16[8,2] y), algorithm=dot_f16_f16_f16   => error: no GPU sums up in f16
//
// `compute_capability` is NVIDIA's number of the hardware's generation, 10 times the major one and the minor
// one, 0 for the target's: bf16 and tf32 came with 8.0, f8 with 8.9. GPUs of others have none: nothing is refused.

#include "opt/passes.h"

enum { BF16_SINCE = 80, F8_SINCE = 89 };

static bool is_for_f8(const HlInst *dot) {
  const HlDtype x = dot->operands[0]->shape->dtype, y = dot->operands[1]->shape->dtype;
  switch (dot->shape->dtype) {
  case HL_BF16:
  case HL_F16:
  case HL_F32:
  case HL_F8E4M3FN:
  case HL_F8E5M2: return x == HL_F8E4M3FN && y == HL_F8E4M3FN;
  default: return false;
  }
}

static bool is_of(const HlInst *dot, HlDtype operands, HlDtype result) {
  return dot->operands[0]->shape->dtype == operands && dot->shape->dtype == result;
}

// Whether the hardware has the algorithm of a dot whose operands are of one type.
static bool is_supported(const HlInst *dot, int64_t algorithm, int64_t capability) {
  switch (algorithm) {
  case HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32:
  case HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM:
    return capability >= F8_SINCE && is_for_f8(dot);
  case HL_WORD_dot_algorithm_F16_F16_F32:
    return is_of(dot, HL_F16, HL_F16) || is_of(dot, HL_F16, HL_F32);
  case HL_WORD_dot_algorithm_BF16_BF16_F32:
    return capability >= BF16_SINCE && (is_of(dot, HL_BF16, HL_BF16) ||
                                        is_of(dot, HL_BF16, HL_F32) || is_of(dot, HL_F32, HL_F32));
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X3:
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X6:
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X9:
  case HL_WORD_dot_algorithm_TF32_TF32_F32:
  case HL_WORD_dot_algorithm_TF32_TF32_F32_X3:
    return capability >= BF16_SINCE && is_of(dot, HL_F32, HL_F32);
  case HL_WORD_dot_algorithm_F32_F32_F32: return is_of(dot, HL_F32, HL_F32);
  case HL_WORD_dot_algorithm_F64_F64_F64: return is_of(dot, HL_F64, HL_F64);
  default: return false;
  }
}

static bool check_dot(HlPass *p, const HlInst *dot, int64_t capability) {
  const int64_t algorithm = hl_attr_int(dot, HL_A_ALGORITHM);
  if (algorithm == HL_WORD_dot_algorithm_UNSET)
    return true;
  const HlDtype x = dot->operands[0]->shape->dtype, y = dot->operands[1]->shape->dtype;
  const char *name = hl_enum_text(&hl_enums[HL_ENUM_dot_algorithm], algorithm);
  if (x != y)
    return hl_error_kind(
        p->cx, HL_UNSUPPORTED, hl_pos(dot),
        "the operands of '%s' are of types %s and %s, where algorithm=%s needs one",
        dot->name->text, hl_dtype_info[x].text, hl_dtype_info[y].text, name);
  return is_supported(dot, algorithm, capability) ||
         hl_error_kind(
             p->cx, HL_UNSUPPORTED, hl_pos(dot),
             "compute capability %lld.%lld does not have algorithm=%s from %s to %s for '%s'",
             (long long)(capability / 10), (long long)(capability % 10), name,
             hl_dtype_info[x].text, hl_dtype_info[dot->shape->dtype].text, dot->name->text);
}

// A library computes it in its own way.
static bool is_composite(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_CALL && hl_attr_int(call->caller, HL_A_IS_COMPOSITE))
      return true;
  return false;
}

bool pass_algorithm_checker(HlPass *p) {
  const int64_t capability = hl_pass_fact(p, "compute_capability",
                                          hl_target_of_kind(p->target, HL_TARGET_GPU)->capability);
  if (capability == 0)
    return true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++) {
    if (is_composite(comps[c]))
      continue;
    for (const HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_DOT && !check_dot(p, inst, capability))
        return false;
  }
  return true;
}
