// pjrt/ffi_call.c: calls a handler of XLA's FFI.

#include "pjrt/ffi.h"

bool ffi_kernel(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                HlLiteral *out) {
  const FfiBinding *binding = user;
  (void)in, (void)out;
  return hl_error_kind(cx, HL_UNSUPPORTED, hl_pos(inst), "%s: handlers of custom calls (%s) cannot be called yet",
                       inst->name->text, binding->target->name);
}
