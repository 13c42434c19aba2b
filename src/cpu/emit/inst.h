// cpu/emit/inst.h: what stands between ops and machine code: vector instructions whose registers are not chosen yet.
//
// A vector holds `lanes` elements of any width: of the widest type of the segment as many as fit a register, of narrower types
// the same number in the lower part of one. A pred is a mask, all bits of a lane 0 or 1, as wide as what it came from.
//
// Instructions stand in two lists: those of the loop, and those that depend on nothing that it changes. Values are numbered; each is
// defined once, and straight lines is all there is.
#ifndef HILO_CPU_EMIT_INST_H
#define HILO_CPU_EMIT_INST_H

#include "cpu/emit/segment.h"

typedef enum InstKind {
  INST_OP,          // `op`; of a compare in EVEX its mask is made a vector
  INST_PICK,        // s where `op`, a comparison in EVEX, holds of v and m, else r
  INST_LOAD,        // `size` bytes a lane from pointer[slot]
  INST_STORE,       // v to it
  INST_FOLD,        // v is what fold `imm` has come to
  INST_UNIFORM,     // one element of `size` bytes there, `imm` bytes further, to all lanes
  // Of loops whose values stay in registers (loop.c). Memory is pointer[slot] + imm bytes + element s, if there is one.
  INST_AT_LOAD,     // `bytes` from memory; ONE: an element, to all lanes; REST: what a row has left
  INST_AT_STORE,    // v to memory, likewise
  INST_CARRY,       // v is what the state `imm` is from now on
  INST_WHILE,       // goes on if the mask v is set, else behind the loop
  INST_CALL         // the function s of `slot` elements, with up to three operands r, v, m
} InstKind;
enum { INST_ONE = 0, INST_REST = -1 };  // as `bytes`

typedef struct EmitInst {
  InstKind kind;
  X86Op op;
  int bytes;        // as X86Vec
  int d;            // the value it defines; -1: none
  int r, v, m, s;   // values in the places R (where it is read: then d is in the same register), V, M, S; -1: none. Where d is
                    // in the place M, the operand is v
  int imm;          // of LOAD: fetches what lies so many bytes further, too; 0: nothing
  int slot, size;
} EmitInst;

typedef struct EmitValue {
  bool invariant;   // of the first list, or a constant
  bool constant;
  bool state;       // has a place for good, from turn to turn of a loop
  uint64_t word[4]; // constant: a vector of 32 bytes; in EVEX, word 0 repeated
  int unit;         // constant: it repeats every 4 or 8 bytes; 0: it does not
} EmitValue;

typedef struct EmitInsts {
  EmitInst *at;
  int n, capacity;
} EmitInsts;
// A fold goes in ways side by side: turn k of the loop that does several goes on with way k. `none` is a constant, what all begin with.
enum { EMIT_WAYS = 4 };
typedef struct EmitFold {
  int none, size;
  int acc;          // what the turn at hand goes on with
  int way[EMIT_WAYS];
} EmitFold;
typedef struct EmitBody {
  HlArena *arena;
  bool evex;
  int lanes;
  EmitInsts before, entry, loop, after;
  bool begins, ends;  // what is added goes before the loop, once; behind it
  bool is_loop;     // the list is turned until it ends itself, not for elements
  struct {
    int *at, n, capacity;
  } states;         // values
  struct {
    EmitFold *at;
    int n, capacity;
  } folds;
  struct {
    EmitValue *at;
    int n, capacity;
  } values;
} EmitBody;

// A value of the segment: what a value number says as a type.
typedef struct EmitTyped {
  int value;
  int size;         // bytes of a lane; of a pred those of its mask
  int resized[4];   // a pred's masks of 1, 2, 4 and 8 bytes; -1: not made yet
} EmitTyped;

// --- Making instructions (inst.c) ----------------------------------------------------------------------

// Bytes of a register that has lanes of `size` bytes: 16 at least.
int inst_bytes(const EmitBody *body, int size);
bool inst_has(const EmitBody *body, X86Op op);  // in the encoding that is written
// The element `bits` of `size` bytes, in every lane.
int inst_const(EmitBody *body, uint64_t bits, int size);
int inst_const32(EmitBody *body, const uint8_t bytes[32]);  // VEX alone
// op v, m in lanes of `size` bytes (the wider of operand and result); v -1: has one operand.
int inst_op(EmitBody *body, X86Op op, int size, int v, int m, int imm);
// The same with what the register of its result holds before.
int inst_op3(EmitBody *body, X86Op op, int size, int r, int v, int m, int imm);
int inst_add(EmitBody *body, EmitInst inst);    // its d
int inst_state(EmitBody *body);                 // a new value that INST_CARRY sets
// A new fold of lanes that begin as `none`: which of body->folds.
int inst_fold(EmitBody *body, uint64_t none, int size);
// mask ? yes : no
int inst_select(EmitBody *body, int size, int mask, int yes, int no);
// Integers of another width: extended, or their lower bits.
int inst_resize(EmitBody *body, int value, int from, int to, bool is_signed);

// --- Stages (stages.c) ----------------------------------------------------------------------------------

// The instructions of the loop in the order of n stages.
typedef struct EmitStages {
  int n, n_kept;
  EmitInsts list;
  int *end;         // by stage: behind its last instruction
  int *kept;        // by value: which of those that later stages need; -1: none of them
} EmitStages;
// False: one is enough.
bool emit_stages(const EmitBody *body, EmitStages *out);

// --- To machine code (write.c) -----------------------------------------------------------------------------

// A function of the type EmitFn.
void emit_write(const EmitBody *body, int n_slots, X86Code *code);

// A function of the type EmitLoopFn (write_loop.c); of a row's last vector `rest` elements are its own, 0: all.
void emit_write_loop(const EmitBody *body, int n_slots, int rest, X86Code *code);

// --- What segments and loops share (segment.c) -----------------------------------------------------------

// An empty body for ops of these types. False: some type is not known, or the level has no machine code.
bool emit_start(EmitBody *body, HlArena *arena, CpuLevel level, int n, const EmitOp *op);
// An op with its operands; false: there is nothing for it.
bool emit_select(EmitBody *body, const EmitOp *op, EmitTyped *const in[3], EmitTyped *out);
int emit_operands(const EmitOp *op);
// From what memory has of a type to what is carried, and back.
EmitTyped emit_unpacked(EmitBody *body, HlDtype dtype, int value);
int emit_packed(EmitBody *body, HlDtype dtype, EmitTyped *in);

// --- From ops (select.c, convert.c) ----------------------------------------------------------------------

// A mask of the width, of a pred.
int inst_mask(EmitBody *body, EmitTyped *pred, int size);
// Make what defines the result; false: there is no such.
bool select_vec(EmitBody *body, const EmitOp *op, EmitTyped *const in[3], EmitTyped *out);
bool select_convert(EmitBody *body, const EmitOp *op, EmitTyped *in, EmitTyped *out);
bool select_round(EmitBody *body, HlDtype dtype, int x, int *out);
// A function of an f32; -1: there is no such (math.c).
int select_math(EmitBody *body, VecOp vec, int x);
// A comparison of values that are no preds: its mask, as wide as they are; -1: there is no such.
int select_compare(EmitBody *body, VecOp vec, HlDtype dtype, int x, int y);

#endif
