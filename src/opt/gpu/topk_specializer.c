// opt/gpu/topk_specializer.c: the few largest of many elements by XLA's own kernel for GPUs.
//
//   t = TopK(f32[8,4096] x), k=8  =>  u = __gpu$TopK(x), t = tuple(u#0, u#1)
//
// The kernel keeps up to 16 candidates in registers, and pays from 1024 elements on. All others become
// sorts (topk-decomposer).
#include "hilo/custom_calls.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

enum { MOST = 16, SHORTEST = 1024 };

static bool is_topk(const HlInst *call) {
  return call->n_operands == 1 && all_static(call) && hl_shape_is_tuple(call->shape) &&
         call->shape->rank == 2 && hl_is_call(call, HL_CALL_TOPK);
}

static HlInst *specialize(HlPass *p, HlBuild *b, HlInst *call) {
  (void)p;
  if (!is_topk(call))
    return NULL;
  const HlShape *x = call->operands[0]->shape, *best = call->shape->element[0];
  if ((x->dtype != HL_F32 && x->dtype != HL_BF16) || x->rank < 1 || x->rank > 2 ||
      best->rank != x->rank)
    return NULL;
  const int64_t n = x->dim[x->rank - 1], k = best->dim[x->rank - 1];
  if (k > MOST || n < SHORTEST)
    return NULL;
  HlInst *kernel = hl_inst_copy(b->comp, call, NULL, 1, call->operands);
  hl_set_call_target(kernel, HL_CALL_GPU_TOPK);
  hl_set_int(kernel, HL_A_API_VERSION, HL_WORD_api_version_TYPED_FFI);
  return hl_b_tuple(b, 2, (HlInst *[]){hl_b_element(b, kernel, 0), hl_b_element(b, kernel, 1)});
}

const HlRule topk_specializer_rules[] = {
    {HL_OP_CUSTOM_CALL, specialize, "topk-specializer", "TopK(x) => __gpu$TopK(x)",
     "f32 or bf16, a vector or rows, k at most 16 of at least 1024"},
    {0},
};
