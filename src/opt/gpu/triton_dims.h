// opt/gpu/triton_dims.h: how an array around a dot walks through the dot's dimensions, in memory order.
//
// A tile of a dot's operand or result is a block of each of its dimensions. What computes the operand joins the kernel only
// if the block stays a block with constant strides in every array on the way. So each array on the way is described by
// fragments, innermost first: which dimension of the dot's operand (or result) this part of memory walks along, and how
// far.
//
//   p = f32[8,4,16] parameter(0)              [2: 16, 1: 4, 0: 8]  in dimensions of t below it becomes
//   t = f32[4,8,16] transpose(p), {1,0,2}     1:16  0:4  0:8
//   b = f32[32,16] bitcast(t)                 1:16  0:8  0:4
//   d = dot(b, ...)                           1:16  0:32
#ifndef HILO_OPT_TRITON_DIMS_H
#define HILO_OPT_TRITON_DIMS_H

#include "hilo/pass.h"

typedef struct TritonPart {
  int dim;       // of the dot's operand or result
  int64_t size;  // in the array
  int64_t start, count;  // the slice of it that is walked; count == size: all of it
} TritonPart;

typedef struct TritonDims {
  TritonPart *at;  // in memory, innermost first
  int *order;      // where the parts of each dimension stand in `at`, the innermost one of the dimension first
  int n;
} TritonDims;

// Which dimension may fall apart into two places, and into which (0: not decided); -1: none.
typedef struct TritonSplit {
  int dim;
  int64_t major;
  int free;  // the dimension along which arrays may be joined; -1: none
} TritonSplit;

// An operand of a dot, or its result.
TritonDims triton_dims_of(HlArena *arena, const HlShape *shape);

// From an instruction's result to its operands (out[k] of each; upwards), or from its operand to the result (out[0]). False
// where the way is not known, or a block of a dimension would fall apart in more than the way that `split` allows, which
// learns of it.
bool triton_dims_up(HlArena *arena, const HlInst *inst, const TritonDims *dims, TritonSplit *split,
                    TritonDims *out);
bool triton_dims_down(HlArena *arena, const HlInst *inst, const TritonDims *dims,
                      TritonSplit *split, TritonDims *out);

// Both walk through memory the same way.
bool triton_dims_equal(HlArena *arena, const TritonDims *a, const TritonDims *b);

#endif
