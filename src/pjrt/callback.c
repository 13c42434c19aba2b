// pjrt/callback.c: custom calls that call back into Python.
//
// JAX hands over a list of callables with each execution (FFI's user data); the call names one by its number. How to call it is
// told by the Python package (hilo_pjrt_set_callback), which takes Python's lock: none of ours is held meanwhile, for the callable may
// run programs of its own.

#include <string.h>

#include "eval/custom.h"
#include "pjrt/ffi.h"
#include "pjrt/strides.h"

static _Atomic(HiloCallback) call_python;

void hilo_pjrt_set_callback(HiloCallback callback) {
  atomic_store(&call_python, callback);
}

// As jaxlib lays it out.
typedef struct Callables {
  void **callable;
  uint32_t n;
} Callables;

static void *find_callable(HlCx *cx, const Context *context, const HlInst *inst) {
  const int64_t index = custom_int(inst, "index", -1);
  for (int k = 0; context->user && k < context->user->n; k++) {
    const Callables *list = context->user->data[k].data;
    if (list && index >= 0 && index < list->n)
      return list->callable[index];
  }
  hl_inst_error(cx, inst, "the execution was given no Python callable number %lld",
                (long long)index);
  return NULL;
}

static HiloCallbackArray array_of(HlArena *arena, const HlLiteral *value) {
  const HlShape *shape = value->shape;
  if (!hl_is_array_dtype(shape->dtype))
    return (HiloCallbackArray){.dtype = hl_dtype_info[HL_TOKEN].proto};
  long long *dims = HL_ARRAY(arena, long long, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    dims[k] = shape->dim[k];
  static const char nothing[1];  // of an array without elements: not NULL, which would be a token
  return (HiloCallbackArray){value->data ? value->data : nothing, hl_dtype_info[shape->dtype].proto,
                             shape->rank, dims};
}

bool callback_kernel(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                     HlLiteral *out) {
  const FfiBinding *binding = user;
  const HiloCallback call = atomic_load(&call_python);
  if (!call)
    return hl_error_kind(cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: calls Python, but the plugin's Python package is not loaded",
                         inst->name->text);
  void *callable = find_callable(cx, binding->context, inst);
  if (!callable)
    return false;
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  const int n_operands = (int)inst->n_operands, n_results = custom_result_count(out);
  HiloCallbackArray *operand = HL_ARRAY(scratch, HiloCallbackArray, n_operands + 1);
  HiloCallbackArray *result = HL_ARRAY(scratch, HiloCallbackArray, n_results + 1);
  for (int k = 0; k < n_operands; k++)
    operand[k] = array_of(scratch, in[k]);
  for (int k = 0; k < n_results; k++)
    result[k] = array_of(scratch, custom_result(out, k));
  char error[4096] = "";
  dispatch_blocks(true);
  const bool good =
      call(callable, n_operands, operand, n_results, result, error, sizeof error) == 0;
  dispatch_blocks(false);
  for (int k = 0; k < n_results; k++) {
    HlLiteral *value = custom_result(out, k);
    if (hl_is_array_dtype(value->shape->dtype))
      elements_take(value->shape->dtype, value->data, (size_t)hl_literal_bytes(value));
  }
  hl_arena_release(scratch, mark);
  return good || hl_error_kind(cx, HL_FAILED, hl_pos(inst), "%s", error);
}
