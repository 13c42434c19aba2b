// cpu/emit/loop.h: machine code for a whole loop, whose values stay in registers from turn to turn.
//
//   0 state slot 0 (s32), 1 state slot 1 (f32), 2 memory slot 2 (s32)       while (i < n)
//   3 less 0 2, 4 while 3                                                     i = i + 1, x = x * 0.5
//   5 constant 1, 6 add 0 5, 7 constant 0.5, 8 multiply 1 7
//   9 next 6 of 0, 10 next 8 of 1
//
// All is one straight line. A value is one element, or a row of n; one element stands in all lanes of its register, a row in as many
// registers as it takes. What a turn computes in vain when the condition fails does no harm: nothing is stored before `while`.
#ifndef HILO_CPU_EMIT_LOOP_H
#define HILO_CPU_EMIT_LOOP_H

#include "cpu/emit/segment.h"

enum { EMIT_MAX_ROW = 64 };

typedef enum EmitLoopKind {
  LOOP_STATE,       // what pointer[slot] has before the loop, then what `next` says; is there again in the end
  LOOP_GIVEN,       // what memory has, which the loop does not change
  LOOP_LOAD,        // what memory has now
  LOOP_CONST,       // op.bits
  LOOP_OP,          // op: EMIT_VEC, EMIT_CONVERT, EMIT_ROUND
  LOOP_SAME,        // in[0] as another type of the same size
  LOOP_WHILE,       // the loop goes on where in[0], a pred, holds
  LOOP_STORE,       // in[0] to memory; behind WHILE
  LOOP_NEXT         // in[0] is what the state in[1] is in the next turn; behind all the others
} EmitLoopKind;

typedef struct EmitLoopOp {
  EmitLoopKind kind;
  EmitOp op;        // dtype and slot where memory is meant; in: earlier ops
  VecFn *fn;        // OP: a function that does the same, where machine code has nothing for it
  bool row;
  int64_t at;       // memory: so many elements from the pointer on, ...
  int index;        // ... and as many as this op says, one s64; -1: none
} EmitLoopOp;

// Up to so many turns, 1 at least. How many are left when the condition fails; 0: it has not failed.
typedef int64_t EmitLoopFn(int64_t turns, void *const *pointer);

// Rows are of n elements. NULL: there is no machine code for it. At most EMIT_MAX_ROW elements.
EmitLoopFn *emit_loop(EmitMemory *memory, HlArena *scratch, CpuLevel level, int n, int n_ops, const EmitLoopOp *op,
                      const char *name);
const char *emit_loop_text(const EmitMemory *memory, EmitLoopFn *fn);

#endif
