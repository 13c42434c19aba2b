// op/kernel.c: the table of reference kernels, from the `kernel` column of ops.def.

#include "op/kernel.h"

static HlKernel *const kernels[HL_OP_COUNT] = {
#define OP(id, text, in, traits, shape, dims, kernel, ...) [HL_OP_##id] = eval_##kernel,
#include "hilo/ops.def"
};

// Stands in the table for the ops that the interpreter does itself.
bool eval_driver(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  return hl_inst_error(ev->cx, inst, "%s is evaluated by the interpreter, not by a kernel",
                       hl_op_text((HlOp)inst->op));
}

// Stands in the table for the ops that nobody can evaluate.
bool eval_none(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  return hl_error_kind(ev->cx, HL_UNSUPPORTED, hl_pos(inst), "%s cannot be evaluated",
                       hl_op_text((HlOp)inst->op));
}

HlKernel *hl_kernel(HlOp op) {
  HlKernel *kernel = kernels[op];
  return kernel == eval_driver || kernel == eval_none ? NULL : kernel;
}

bool hl_op_is_driven(HlOp op) {
  return kernels[op] == eval_driver;
}

bool kernel_no_type(HlEval *ev, const HlInst *inst, HlDtype dtype) {
  return hl_error_kind(ev->cx, HL_UNSUPPORTED, hl_pos(inst), "%s of %s cannot be evaluated",
                       hl_op_text((HlOp)inst->op), hl_dtype_text(dtype));
}
