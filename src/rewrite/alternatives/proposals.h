// rewrite/alternatives/proposals.h: between the files of the room.
//
// What a dry run would build lies in a module of its own, the store: for each computation in which something is proposed a
// stage, a computation whose parameters stand for instructions of the module that are there already. What is built twice
// lies there once. Computations that the instructions call are noted beside them (Calls): some are the module's own.
#ifndef REWRITE_ALTERNATIVES_PROPOSALS_H
#define REWRITE_ALTERNATIVES_PROPOSALS_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/alternatives.h"

// What an instruction of the store calls, one by one: a computation of the module, or one of the store.
typedef struct Calls {
  int n;
  HlComp *const *known;  // NULL: one of the store
  HlComp *const *made;
  uint64_t hash;
} Calls;

typedef struct Stage {
  HlComp *comp;         // in the store
  HlComp *home;         // in the module
  HlInst **stands_for;  // by id in the home: the parameter that stands for it, or NULL
  VEC(HlInst *) known;  // by number of the parameter: what it stands for
} Stage;

typedef struct Use {
  HlInst *user;  // NULL: the root's place
  int number;
} Use;

// One proposal.
typedef struct Offer {
  int rewrite;
  const char *pass, *rule, *inst_name, *with, *comp_name;
  Stage *stage;
  HlInst *old;  // of the module
  HlInst *by;   // of the stage; a parameter: what it stands for
  Use *use;     // that would read it
  int n_uses;
  int n_made, n_inside;
  uint64_t hash;  // of old, by and uses
  // Of the `alternatives` that it became (make.c).
  HlInst *node;
  int operand;  // 0: it was left out
} Offer;

struct HlProposals {
  HlCx *cx;
  HlArena *arena;
  HlModule *m, *store;
  Stage **stage;  // by id of the home; NULL: none
  uint32_t n_comps;
  VEC(Offer) offers;
  Map offer_by_hash;  // 1 + the number
  Map known;          // instructions of stages by what they are
  Map calls;          // Calls by instruction of the store
  HlProposeCounts counts;
  bool is_made;  // they are in the module
};

// store.c: a store with nothing in it.
void store_begin(HlProposals *p);
// The parameter that stands for an instruction of the module; its stage.
HlInst *store_stand_in(HlProposals *p, Stage *stage, HlInst *known);
Stage *store_stage(HlProposals *p, HlComp *home);
// An instruction like `inst`, whose operands are those of the stage: a new one, or one that is there already. Calls: computations
// that `is_old` says are the module's own are called, others copied.
HlInst *store_add(HlProposals *p, Stage *stage, const HlInst *inst, HlInst *const *operands,
                  bool (*is_old)(void *user, const HlComp *comp), void *user);
const Calls *store_calls(const HlProposals *p, const HlInst *inst);  // NULL: none
// How many instructions a value of the stage consists of, and how many lie in the bodies of its fusions.
void store_count(const HlProposals *p, const Stage *stage, const HlInst *by, int *n_made,
                 int *n_inside);

// capture.c: runs the pipeline and notes what it offers.
bool capture_run(HlProposals *p, const char *pipeline, const HlProposeOptions *options);

// build.c: puts values of stages into the module, each once.
typedef struct Builder {
  HlProposals *p;
  HlInst ***built;  // by id of the home and of the instruction in the stage; NULL: not yet
} Builder;
Builder builder_new(HlProposals *p);
// What stands for a stage's instruction in the module.
HlInst *builder_get(const Builder *b, const Stage *stage, const HlInst *inst);
HlInst *builder_build(Builder *b, const Stage *stage, HlInst *by);

// Of one computation: what depends on what.
typedef struct Reach {
  HlArena *arena;
  uint32_t *seen, *target,
      n_ids;  // by id: the round in which it was met, and in which it was a target
  uint32_t round;
  uint64_t least;  // no target stands before this place
  VEC(HlInst *) stack;
} Reach;
void reach_begin(Reach *r, const HlComp *comp);  // no targets
void reach_target(Reach *r, const HlInst *on);
bool reach_any(Reach *r, HlInst *from);  // it is a target or depends on one

// region.c: the instructions of the module that a proposal is about: the value that is replaced, and what lies between it and what
// its replacement reads. In the arena, operands first.
HlInst **region_of(HlArena *arena, const Offer *offer, int *n);
// What the replacement reads of the module.
HlInst **region_inputs(HlArena *arena, const Offer *offer, int *n);
// Edges that it would change, as numbers.
uint64_t *region_edges(HlArena *arena, const Offer *offer, int *n);

// select.c: erases instructions that nothing needs, and then what only they needed; computations that nobody calls then, too.
typedef VEC(HlInst *) InstList;
void prune_from(HlCx *cx, HlModule *m, InstList *list);

#endif
