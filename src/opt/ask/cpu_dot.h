// opt/ask/cpu_dot.h: how XLA's CPU backend computes dots and convolutions, which several passes decide
// by.
#ifndef HILO_OPT_CPU_DOT_H
#define HILO_OPT_CPU_DOT_H

#include "hilo/pass.h"

typedef enum HlCpuDot {
  HL_CPU_DOT_NAIVE,   // three loops
  HL_CPU_DOT_GEMV,    // tiled matrix times vector
  HL_CPU_DOT_GEMM,    // tiled matrix product written out as code
  HL_CPU_DOT_LIBRARY  // a call of Eigen's or YNN's product
} HlCpuDot;

// The strategy for a dot in dot_decomposer's form: one contracting dimension, at most one free one
// a side, leading batch dimensions. Any other dot is naive.
HlCpuDot hl_cpu_dot(const HlInst *dot);
// A transpose of an operand may be folded into the dot.
bool hl_cpu_dot_folds_transpose(const HlInst *dot);
// Operands and result must lie row-major.
bool hl_cpu_dot_wants_row_major(const HlInst *dot);
// The operand that is better read column-major: the matrix of vector times matrix; -1: none.
int hl_cpu_dot_column_major_operand(const HlInst *inst);
// The convolution may go to Eigen's: batch, space, features; kernel space, in, out; one to three
// spatial dimensions.
bool hl_cpu_library_convolution(const HlInst *inst);
// An op that goes to a library as it stands, element types included: passes that widen narrow types
// leave it. Which types that are differs by release.
bool hl_cpu_library_takes(const HlPass *p, const HlInst *inst);

#endif
