// opt/ask/loops.h: what passes of while loops share: the slots of a loop's state, how often it iterates,
// and making a loop anew with another state.
//
// A plain loop carries a tuple; slot k of it is element k. In body and condition a slot is read by
// a get-tuple-element of the parameter; the body's root tuple says what the slot holds in the next
// iteration.
#ifndef OPT_LOOPS_H
#define OPT_LOOPS_H

#include "hilo/pass.h"

// --- Reading a loop -----------------------------------------------------------------------------

// A while over a tuple whose body ends in a `tuple` instruction.
bool loop_is_plain(const HlInst *loop);
// The same, and every use of the state inside and of the result outside is a get-tuple-element.
bool loop_is_open(const HlInst *loop);
// Body and condition belong to this loop alone.
bool loop_owns_comps(const HlInst *loop);
static inline int loop_slots(const HlInst *loop) {
  return loop->shape->rank;
}
// The slot that a value inside body or condition is, or -1.
int loop_slot_of(const HlInst *inst);
// What slot k starts with: an operand of the init, if that is a `tuple`; else NULL.
HlInst *loop_init(const HlInst *loop, int k);
// A slot hands on a link of asynchronous work, whose tuple must stay one and may not go through a call.
bool loop_carries_link(const HlInst *loop);
// What the body puts into slot k; the loop must be plain.
HlInst *loop_next(const HlInst *loop, int k);
bool loop_is_invariant(const HlInst *loop, int k);  // the body passes slot k through
// The only value of an integer constant of one element.
bool loop_constant_int(const HlInst *inst, int64_t *out);
// The elements of a body's or condition's parameter by slot: the first one, then each one's next
// of the same slot by its id. has_other: something uses the state as a whole.
typedef struct LoopElements {
  HlInst **first, **next;
  bool has_other;
} LoopElements;
LoopElements loop_elements(HlPass *p, const HlComp *comp);
bool loop_reads(const LoopElements *elements, int k);  // some element of slot k is used
// Some instruction of these ops stands in the computation or what it calls.
bool loop_calls_any(HlPass *p, const HlComp *comp, const HlOp *ops, int n);
// The while instructions of all computations, callees first, in p->arena.
HlInst **loop_all(HlPass *p, int *n);
// Visits those of them that are still there, plain and free of control edges when their turn comes.
void loop_each(HlPass *p, void (*visit)(HlPass *p, HlInst *loop));

// --- Iterations --------------------------------------------------------------------------------------

// The one slot that decides how often the loop iterates: the condition is computed from it alone, and
// so is its next value, by scalars; -1: there is none.
int loop_induction_slot(HlPass *p, const HlInst *loop);
// A counter from `init` by a positive `step` while it is below a bound, `trips` times.
typedef struct LoopCounter {
  int slot;
  int64_t init, step, trips;
} LoopCounter;
bool loop_counter(HlPass *p, const HlInst *loop, LoopCounter *out);
bool loop_counter_of_sums(const HlInst *loop,
                          LoopCounter *out);  // also if it adds several times an iteration
// How often the loop iterates: by its counter, else found by running the scalars of the induction slot
// for at most `tries` iterations; -1: not known.
int64_t loop_trips(HlPass *p, const HlInst *loop, int64_t tries);

// --- A loop made anew ---------------------------------------------------------------------------

typedef enum LoopPlace { LOOP_IN_BODY, LOOP_IN_CONDITION, LOOP_AFTER } LoopPlace;

// One of the three places where the old state's slots need values in terms of the new state: the
// new body, the new condition, and behind the new loop.
typedef struct LoopPart {
  HlPass *p;
  LoopPlace place;
  HlBuild b;           // builds here; without metadata inside
  const HlInst *loop;  // the old one
  const HlComp *from;  // what is copied; NULL behind the loop
  HlInst *state;       // the new state here: the parameter, or the new loop
  HlInst **slot;       // what stands for each slot of the old state; NULL: not asked for yet
  const int *at;       // where old slots are in the new state; -1: nowhere
  HlInst **map;        // by id of the copied instruction
} LoopPart;

// What is to become of a loop's state.
typedef struct LoopPlan {
  HlInst *loop;
  const char *prefix, *suffix;  // of the new computations' names
  int n;                        // slots of the new state
  HlInst **init;                // what they start with
  int *at;                      // for each old slot its new place, or -1
  int *from;                    // for each new slot the old one that gives its next value, or -1
  // Gives values (part->slot, or part->map of an instruction that is not to be copied) to old slots
  // that have no place. What is made and not used is erased. May be NULL.
  void (*open)(LoopPart *part, void *user);
  // Instructions of the old body whose copies `next` asks for (loop_part_copy).
  HlInst **used;
  int n_used;
  // The next value of a new slot that `from` has no old slot for, in the new body. NULL: it stays
  // what it is.
  HlInst *(*next)(LoopPart *part, int k, void *user);
  void *user;
  // In XLA's form, for tuple-simplifier to take apart: the old body and condition read elements of a tuple like the old
  // state, and the next values are elements of one like the old body's result.
  bool keeps_form;
  bool forwards;  // elements read of the old loop become elements of the new one, by no tuple between
  HlInst *made;  // the new loop, once there is one
} LoopPlan;

// A plan of no slots, or of all old slots in their places, with room for the old ones and `more`.
LoopPlan loop_plan(HlPass *p, HlInst *loop, int more);
LoopPlan loop_plan_all(HlPass *p, HlInst *loop, int more);
// The next new slot is the old slot k.
void loop_plan_keep(LoopPlan *plan, int k);
// The next new slot is none of the old ones: returns its number. `init` may be set later.
int loop_plan_add(LoopPlan *plan, HlInst *init);
// Of a plan of all old slots: something else takes the place of slot k, computed by `used`.
void loop_plan_take(LoopPlan *plan, int k, HlInst *used);
void loop_plan_use(LoopPlan *plan, HlInst *inst);
// Fills in what slots start with that were given nothing yet: the same as the old slot that gives
// their next value or, where there is none, whose place they take.
void loop_plan_start(LoopPlan *plan, HlBuild *b);
// Does that, rebuilds and commits; the caller has called hl_begin.
bool loop_plan_commit(HlPass *p, HlBuild *b, LoopPlan *plan);

// The value of an old slot in a part.
HlInst *loop_part_slot(LoopPart *part, int k);
// The copy of an instruction of the old body or condition.
HlInst *loop_part_copy(LoopPart *part, const HlInst *inst);
// Builds the new loop and, from it, a tuple like the old loop's result, to be committed in its
// place (the caller calls hl_begin and hl_commit). NULL after reporting.
HlInst *loop_rebuild(HlPass *p, HlBuild *b, LoopPlan *plan);
// An element of a tuple, even if what stands there is at hand.
HlInst *loop_made_element(HlBuild *b, HlInst *tuple, int k);
// One iteration of the body in b's computation: from the values of all slots to the next ones.
// Collectives get channels of their own from *channel on (0: from hl_free_channel on); NULL: they
// keep theirs, as those of one iteration may.
void loop_iteration(HlPass *p, HlBuild *b, const HlInst *loop, HlInst *const *slot, HlInst **next,
               int64_t *channel);
// hl_commit, then erases the old computations if nobody calls them any more.
bool loop_commit(HlPass *p, HlInst *loop, HlInst *by);
// Erases a computation that nobody calls, and what only it called.
void loop_drop_comp(HlPass *p, HlComp *comp);

// --- Iterations one after another (while_unroller.c) -----------------------------------------------------

// The loop iterates so few times, and is so small, that its iterations may be written out.
bool loop_may_unroll(HlPass *p, const HlInst *loop, const LoopCounter *counter);
// Writes them out in b's computation; `slot` are the values of all slots before, and then after.
void loop_all_iterations(HlPass *p, HlBuild *b, const HlInst *loop, const LoopCounter *counter,
                    HlInst **slot);
// A loop that iterates once. `slot` (n, and room for one more) are what its slots start with; `fill` makes
// of them, in the body, what they hold after the iteration; and then they are the loop's results.
HlInst *loop_trivial(HlBuild *b, const char *condition, const char *body, int n, HlInst **slot,
                     void (*fill)(HlBuild *b, HlInst **slot, void *user), void *user);

#endif
