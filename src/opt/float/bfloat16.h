// opt/float/bfloat16.h: where a module's f32 values go, and which of them may be bf16: what
// bfloat16-propagation goes by.
//
// Places. Each array that an instruction gives, alone or inside a tuple, is a place. Places that
// are one buffer share a type, so they form a class: a tuple's element and what reads it; the state
// of a loop, inside and out; the results of a call and of its body. From one class to another lead
// edges, on which a value may be converted: operands of operations that move elements, of tuples,
// of calls, and the arrays that bodies end with.
#ifndef OPT_BFLOAT16_H
#define OPT_BFLOAT16_H

#include "hilo/pass.h"

enum { BF16_NOWHERE = -1 };

// What an instruction's result is.
typedef enum Bf16Role {
  BF16_SOURCE,   // computed: it stays f32, and is rounded behind
  BF16_MOVED,    // elements of operands
  BF16_CARRIED,  // a part of a tuple or of a call
} Bf16Role;

// A way into a class on which a value may be converted.
typedef struct Bf16Edge {
  HlInst *from, *user;  // user NULL: it is the root of its computation
  int number;           // which operand of the user
  int to;               // a place
} Bf16Edge;

typedef struct Bf16Places {
  HlPass *p;
  HlModule *m;
  // By computation:
  int *base;   // where the entries of its instructions start
  bool *open;  // all its callers are known, and hand over operands and root as they are
  // By base and instruction id:
  int *place;    // of the first leaf
  int **offset;  // of a tuple: from that place to that of each element
  uint8_t *role;
  int n_insts;
  // By place:
  HlInst **owner;
  const HlShape **leaf;
  int *parent;  // towards the class
  int n_places;
  // By place that stands for a class:
  bool *pinned;  // stays as it is
  bool *needed;  // somebody needs it in f32
  bool *source;  // computed
  bool *strict;  // goes into a fusion, call or branch
  bool *state;   // of a loop
  bool *given;   // of a loop: only bf16 comes into it
  bool *good;    // may be narrow
  Bf16Edge *edge;
  int n_edges;
} Bf16Places;

// Finds all of it, in p->arena.
Bf16Places bf16_places(HlPass *p);
static inline int bf16_entry(const Bf16Places *w, const HlInst *inst) {
  return w->base[inst->comp->id] + (int)inst->id;
}
static inline int bf16_place(const Bf16Places *w, const HlInst *inst) {
  return w->place[bf16_entry(w, inst)];
}
// Forests of numbers: the root of k.
int bf16_root(int *parent, int k);
static inline int bf16_class(const Bf16Places *w, int place) {
  return bf16_root(w->parent, place);
}
// Where an array goes as operand `number` of its user, or at the end of a computation: a place, or
// BF16_NOWHERE.
int bf16_target(const Bf16Places *w, const HlInst *user, int number);
int bf16_root_target(const Bf16Places *w, const HlComp *comp);

// A conversion from f32 to bf16, and nothing else.
bool bf16_is_rounding(const HlInst *inst);
// The value of bf16 that was only widened, or NULL.
HlInst *bf16_widened(const HlInst *inst);
bool bf16_is_constant(const HlInst *inst);  // one whose value is known

// Numbers sorted by a key below n_keys: those of key k are at[start[k]] to at[start[k + 1]].
typedef struct Bf16Sorted {
  int *start, *at;
} Bf16Sorted;
Bf16Sorted bf16_sort(HlArena *arena, const int *key, int n, int n_keys);

#endif
