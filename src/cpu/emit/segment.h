// cpu/emit/segment.h: machine code for a run of simple ops and functions, in one loop over the elements.
//
// What a tile function does for one op on a vector in memory, a segment does for several, and what lies between them stays in
// registers: it has the same bits as the functions of cpu/vec/vec.h, those of nans too; only whether a signaling nan has become a
// quiet one may differ.
//
//   f32: 0 load slot 0, 1 load slot 1, 2 multiply 0 1, 3 constant 0.5, 4 add 2 3, 5 store 4 to slot 2
//   pointer[2][k] = pointer[0][k] * pointer[1][k] + 0.5 for 0 <= k < n
#ifndef HILO_CPU_EMIT_SEGMENT_H
#define HILO_CPU_EMIT_SEGMENT_H

#include "cpu/emit/code.h"
#include "cpu/vec/vec.h"

typedef enum EmitKind {
  EMIT_LOAD,        // element k of the array at pointer[slot], of `dtype` as memory has it
  EMIT_UNIFORM,     // the one element there
  EMIT_CONST,       // `bits`, an element as it is carried
  EMIT_STORE,       // in[0] to element k of the array at pointer[slot], as memory has `dtype`
  EMIT_VEC,         // vec of in[0], ...; dtype: of the operands, of select that of its second
  EMIT_CONVERT,     // in[0] of `dtype` to `to`, as vec_convert
  EMIT_FOLD,        // elements of in[0] by vec, as vec_fold goes, to a vector at pointer[slot], which vec_lanes joins
  EMIT_ROUND        // in[0], a float, to what `dtype` has, as vec_round
} EmitKind;

// A value is what carries its dtype: bf16 and f16 are f32 that they have exactly, except in memory that is loaded or stored as such.
typedef struct EmitOp {
  EmitKind kind;
  VecOp vec;
  HlDtype dtype, to;
  int in[3];        // earlier ops
  int slot;
  int ahead;        // EMIT_LOAD: what lies so many bytes further will be wanted soon; 0: nothing
  uint64_t bits;
} EmitOp;

typedef void EmitFn(int64_t n, void *const *pointer);

// NULL: an op is not among those that it has, or there is no memory: then nothing has changed, and tile functions do the same.
// Levels below v3 have no segments. An array that is stored may be one that is loaded, but not overlap one otherwise; nothing
// is read or written beyond n elements. `scratch` is for while it works.
EmitFn *emit_segment(EmitMemory *memory, HlArena *scratch, CpuLevel level, int n, const EmitOp *op, const char *name);
// Its machine code as text, a line an instruction; NULL: the memory keeps none (EMIT_KEEPS_TEXT).
const char *emit_segment_text(const EmitMemory *memory, EmitFn *fn);
// Whether segments of the level have the op. `is_const`: bit j, operand j is a constant (amounts of shifts ask).
bool emit_has(HlArena *scratch, CpuLevel level, const EmitOp *op, int is_const);

#endif
