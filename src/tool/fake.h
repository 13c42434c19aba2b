// tool/fake.h: what made-up inputs must respect, found from how the program uses its parameters.
#ifndef TOOL_FAKE_H
#define TOOL_FAKE_H

#include "hilo/ir.h"

enum {                // of Need.flags
  NEED_HARD = 1,      // the range is no matter of taste: indices, sizes
  NEED_DISTINCT = 2,  // no two elements equal
  NEED_NONZERO = 4,
  NEED_SORTED = 8,    // ascending in row-major order
  NEED_FIXED = 16,    // every element is `fixed`
  NEED_DIAGONAL = 32,  // square matrices with a large diagonal
  NEED_FACTOR = 64     // of products that are summed up `terms` at a time
};

// What the users of a value want of it. Of a wish lo <= hi; wishes add up in any order: in a slot lo may come to
// lie above hi (fake_settled says what then holds), and hard_lo, hard_hi are what the hard wishes say.
typedef struct Need {
  double lo, hi, fixed;
  unsigned flags;
  double hard_lo, hard_hi;
  double terms;
} Need;

typedef struct Range {  // where a value lies whatever the inputs are
  double lo, hi;
} Range;

// Every array (or token) in every value of the module has a slot.
typedef struct Fake {
  HlArena *arena;
  const HlModule *m;
  int **first;   // first slot of an instruction, by computation id and instruction id
  int ***start;  // slots before each element of a tuple, likewise; NULL: not a tuple
  int n_slots;
  Range *range;
  Need *need;
  bool *condition;  // by computation id: decides whether a loop goes on
  bool changed;
} Fake;

// Fills `need` and `range`; false when the module is too large to look at (nothing is known then).
bool fake_analyse(Fake *f, HlArena *arena, const HlModule *m);

static inline int fake_slot(const Fake *f, const HlInst *inst, int leaf) {
  return f->first[inst->comp->id][inst->id] + leaf;
}
static inline Need *fake_need(const Fake *f, const HlInst *inst, int leaf) {
  return &f->need[fake_slot(f, inst, leaf)];
}
static inline Range *fake_range(const Fake *f, const HlInst *inst, int leaf) {
  return &f->range[fake_slot(f, inst, leaf)];
}
int fake_leaves(const Fake *f, const HlInst *inst);
static inline int fake_start(const Fake *f, const HlInst *tuple, int64_t element) {
  return f->start[tuple->comp->id][tuple->id][element];
}
// Adds a wish about leaf `leaf` of a value.
void fake_want(Fake *f, const HlInst *value, int leaf, Need what);
Need fake_free(void);  // no wish
// What a slot comes to: everything if that can be, else the hard wishes, else what lies between them.
Need fake_settled(Need n);

// fake_range.c: where the result of one instruction lies.
void fake_range_inst(Fake *f, const HlInst *inst);
// fake_demand.c: what an instruction wants of its operands by its own nature.
void fake_demand(Fake *f, const HlInst *inst);
// fake_flow.c: hands what is wanted of the result on to the operands.
void fake_flow(Fake *f, const HlInst *inst);
// fake_arith.c: the same through arithmetic; false if the op is none.
bool fake_flow_arithmetic(Fake *f, const HlInst *inst, Need n);
// Which op a combiner of n values folds value k with (add(p_k, p_{k+n})); HL_OP_COUNT if no single one.
HlOp fake_combiner(const HlComp *comp, int k, int n);

#endif
