// tool/shrink/sizes.h: which dimensions have to get smaller with one of them.
//
// A plan holds a size for each dimension of a module's values. A wish (sizes_wish) sets one, and the sizes of all that goes
// together with it follow, by the ops' rules of dimensions (hl_factors_of) and by what hands values on: tuples, loops, calls. Where
// no sizes serve, the instruction is broken: what it gives has to come from elsewhere. Sizes only get smaller, and not 0.
#ifndef TOOL_SIZES_H
#define TOOL_SIZES_H

#include "base/vec.h"
#include "hilo/op.h"

// What an instruction that was looked at says of the sizes around it.
typedef struct Local {
  bool known;  // `factors` holds
  HlFactors factors;
  int64_t *now;         // [factor] its size
  bool *locked;         // [factor] it stays so
  int64_t *ints;        // of a slice or a padding, as the attribute has them; else NULL
  HlWindowDim *window;  // [dimension of the window]; else NULL
  bool *dropped;        // [operand] of a concatenation; else NULL
} Local;

typedef struct Sizes {
  HlModule *m;  // is not changed
  HlArena *arena;
  HlMark mark;  // what lies behind it goes with sizes_forget
  int n;  // slots: a dimension of a leaf of a value, or of the window of a reduction over windows
  int *base;                      // [serial] the first slot
  HlInst **owner;                 // [slot]
  int64_t *was, *size;            // [slot]
  bool *set;                      // [slot] `size` is wanted
  Local **local;                  // [serial] NULL: not looked at
  bool *queued, *waits, *broken;  // [serial]
  VEC(HlInst *) queue;            // what is to be looked at
  VEC(HlInst *) later;            // what follows by rules of choice, once all that is sure is known
  int n_later;                    // of these have been
  int n_deferred;                 // in a row
  VEC(int) touched;               // slots
  VEC(HlInst *) visited;
  int n_broken;
  bool
      strict;  // an op without a rule is broken where a size of it changes; else equal sizes of it go together
} Sizes;

// The plan in which all is as it is. Memory is the arena's and the heap's: sizes_free.
void sizes_start(Sizes *p, HlArena *arena, HlModule *m);
void sizes_free(Sizes *p);
// Back to the start; the arena, too: what was asked of it since is gone.
void sizes_forget(Sizes *p);
// Wants a size of a slot that has no size yet, and all that follows.
void sizes_wish(Sizes *p, int slot, int64_t size);
// For rules of ops: a size that follows from others. False: it has another one, or cannot have it.
bool sizes_set(Sizes *p, int slot, int64_t size);
bool sizes_same(Sizes *p, int a, int b);  // two slots are of one size
void sizes_break(Sizes *p, const HlInst *inst);

int sizes_slots(const HlInst *inst);      // how many there are of an instruction's value
int sizes_all_slots(const HlInst *inst);  // and of its window, which come last
int sizes_window_slot(const Sizes *p, const HlInst *inst);  // the first of the window's
int sizes_leaf_slot(const Sizes *p, const HlInst *inst, int leaf);
bool sizes_changes(const Sizes *p, const HlInst *inst);         // a size of its own
bool sizes_changes_around(const Sizes *p, const HlInst *inst);  // of its own or of an operand
const HlShape *sizes_shape(Sizes *p, const HlInst *inst);       // its shape, interned in the module

// What an op says beside its factors (sizes_ops.c); NULL: nothing. False: it is broken.
typedef bool SizesFn(Sizes *p, HlInst *inst, Local *l);
SizesFn *sizes_rule(HlOp op);
bool sizes_rule_is_sure(HlOp op);  // the rule leaves no choice
static inline int sizes_operand_slot(const Sizes *p, const HlInst *inst, int k) {
  return p->base[inst->operands[k]->serial];
}

#endif
