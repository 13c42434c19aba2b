// cpu/kernel/kernel.c: asks each kind of kernel, and how arrays lie in memory.

#include "cpu/kernel/kernel.h"

#define KIND(name, what) extern const CpuKernelKind cpu_kind_##name;
#include "cpu/kernel/kinds.def"
#undef KIND

const CpuKernel *cpu_kernel_make(CpuMaker *maker, const HlInst *inst) {
  static const CpuKernelKind *const kinds[] = {
#define KIND(name, what) &cpu_kind_##name,
#include "cpu/kernel/kinds.def"
#undef KIND
      NULL};
  for (int k = 0; kinds[k]; k++) {
    const CpuKernel *kernel = kinds[k]->make(maker, inst);
    if (kernel || hl_cx_n_errors(maker->cx))
      return kernel;
  }
  return NULL;
}

// --- Arrays in memory ---------------------------------------------------------------------------

const int64_t *cpu_strides(HlArena *arena, const HlShape *shape) {
  int64_t *stride = HL_ARRAY(arena, int64_t, shape->rank + 1), next = 1;
  for (int k = 0; k < shape->rank; k++) {
    const int64_t d =
        shape->layout ? shape->layout->minor_to_major.at[k] : (int64_t)shape->rank - 1 - k;
    stride[d] = next;
    next *= shape->dim[d];
  }
  return stride;
}

int64_t cpu_bytes(const HlShape *shape) {
  return hl_is_array_dtype(shape->dtype) ? hl_shape_elements(shape) * hl_dtype_bytes(shape->dtype)
                                         : 0;
}

int cpu_leaf_count(const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return 1;
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += cpu_leaf_count(shape->element[k]);
  return n;
}

const HlShape *cpu_leaf(const HlShape *shape, int k) {
  while (shape->dtype == HL_TUPLE) {
    int e = 0;
    for (int n; k >= (n = cpu_leaf_count(shape->element[e])); e++)
      k -= n;
    shape = shape->element[e];
  }
  return shape;
}
