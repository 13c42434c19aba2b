// op/kernel.h: what reference kernels share: their declarations, and moving boxes of elements
// about.
#ifndef HILO_OP_KERNEL_H
#define HILO_OP_KERNEL_H

#include "hilo/op.h"

// Every eval_<kernel> of ops.def; eval_driver and eval_none stand for "no kernel" (kernel.c).
#define OP(id, text, in, traits, shape, dims, kernel, ...) HlKernel eval_##kernel;
#include "hilo/ops.def"
HlKernel eval_driver, eval_none;

// Reports that a kernel does not know an element type; returns false.
bool kernel_no_type(HlEval *ev, const HlInst *inst, HlDtype dtype);

// One side of a move: where the element at index 0 stands, and per dimension how far the next one
// is, in elements (0 repeats, negative goes backwards).
typedef struct Side {
  char *at;
  const int64_t *stride;
} Side;
// Copies a box of elements of `size` bytes from one side to the other. Scratch from the context.
void move_box(HlCx *cx, int size, int rank, const int64_t *dim, Side to, Side from);
// n copies of one element.
void fill_elements(void *to, int64_t n, const void *element, int size);

#endif
