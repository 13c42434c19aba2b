// opt/fusion/fusion.h: fusions that grow, and the engine that goes over a module and lets them.
//
// A fusion is an instruction whose computation becomes one kernel. It grows from a consumer: the
// consumer is wrapped, and then one producer after another is copied into the body, where the
// parameter that stood for it was.
#ifndef HILO_OPT_FUSION_H
#define HILO_OPT_FUSION_H

#include "ir/vecs.h"
#include "hilo/pass.h"

// --- Bodies (fusion_body.c) -----------------------------------------------------------------------------

// None of these asks the engine; callers do (hl_change). `scratch` is only used during the call.

// A fusion with a copy of `inst` inside takes its place; `inst` is erased.
HlInst *fusion_wrap(HlArena *scratch, HlInst *inst, int kind, const char *name,
                    const char *body_name);
// A body that other fusions call too stays as it is: this fusion gets a copy. True if so. All that
// follows sees to it.
bool fusion_own_body(HlInst *fusion);
// A copy of a producer goes into a fusion that reads it; the producer itself stays where it is.
// A producer that is a fusion has its body copied. Returns what stands for the producer inside.
HlInst *fusion_fuse(HlArena *scratch, HlInst *fusion, HlInst *producer);
// The same for an instruction that the fusion does not read: its copy is not used yet.
HlInst *fusion_take_in(HlArena *scratch, HlInst *fusion, HlInst *inst);
// What the fusion reads of an operand, however often, it takes from within instead.
void fusion_replace_operand(HlArena *scratch, HlInst *fusion, const HlInst *operand, HlInst *by);
// The one user of a fusion's result goes into it and becomes its root. Returns the fusion that
// stands for both.
HlInst *fusion_fuse_user(HlArena *scratch, HlInst *fusion, HlInst *user);
// What a sibling or producer computes becomes one more result of a fusion (fusion_results.c). Both
// are erased; their users read elements of the tuple that the new fusion gives. A sibling or
// producer may have several results itself. The caller knows that neither depends on the other but
// directly.
HlInst *fusion_add_result(HlArena *scratch, HlInst *fusion, HlInst *inst);
// Erases an instruction without uses; of a fusion also the body, if nobody else calls it.
void fusion_erase(HlInst *inst);
// Gives the parameters of the body names with their numbers.
void fusion_name_params(HlInst *fusion);
// Which operand; -1: none.
int fusion_operand_index(const HlInst *fusion, const HlInst *operand);

static inline HlComp *fusion_body(const HlInst *fusion) {
  return hl_called(fusion, 0);
}
static inline int fusion_kind(const HlInst *fusion) {
  return (int)hl_attr_int(fusion, HL_A_KIND);
}

// --- What is known of single instructions (fusion_query.c) ------------------------------------------------

// How a result's elements read the elements of an operand.
typedef enum FusionUse {
  FUSION_USE_NONE,
  FUSION_USE_ONCE,      // each once, in the same order
  FUSION_USE_PERMUTED,  // each at most once, in another order
  FUSION_USE_AGAIN      // some more than once
} FusionUse;
FusionUse fusion_use(const HlInst *inst, int operand);
// Each element of the result is computed from the same element of each operand; constants and
// fusions of nothing else count as well.
bool fusion_is_elementwise(const HlInst *inst);
// May be inside a fusion at all: no control flow, no side effect, no edge that a fusion would lose.
bool fusion_is_fusible(const HlInst *inst);
// A fusion whose own attribute says that a library computes it.
bool fusion_is_custom(const HlInst *inst);
// What is expensive to compute twice on any machine.
bool fusion_is_expensive(const HlInst *inst);
// A scalar, or an array of one element, whose value is a constant, perhaps broadcast.
bool fusion_is_scalar_constant(const HlInst *inst);
// A consumer that writes into an operand's buffer would overwrite what the producer reads.
bool fusion_breaks_in_place(const HlInst *producer, const HlInst *consumer);
// An emitter starts a new block of code for it, so that values computed before are computed again.
bool fusion_opens_block(const HlInst *inst);
// Someone other than the consumer uses the producer.
bool fusion_duplicates(const HlInst *producer, const HlInst *consumer);

// --- What depends on what (fusion_reach.c) ----------------------------------------------------------------

typedef struct FusionReach {
  HlArena *arena;
  uint32_t *seen, n_ids, round;
  ConstInstVec stack;  // the owner frees it
} FusionReach;
// `b` depends on `a`, by operands or control edges, on a way that does not only consist of the edge
// from a to b if `direct` is allowed. What is too far apart to tell counts as dependent.
bool fusion_reaches(FusionReach *r, const HlInst *a, const HlInst *b, bool direct_allowed);

// --- The engine (fusion.c) ----------------------------------------------------------------------------

typedef struct Fuser Fuser;

typedef struct FusionPolicy {
  bool may_duplicate;  // producers with several users are copied
  const char *(*refuses)(Fuser *f, HlInst *consumer, int operand);  // NULL: fuse; or why not
  int (*kind)(Fuser *f, const HlInst *producer, const HlInst *consumer);
  bool (*is_expensive)(const HlInst *inst);
  bool (*keeps_whole)(const HlInst *producer);  // computed once, for all its users. May be NULL.
  // Nothing of this computation is fused. May be NULL.
  bool (*skips)(const HlComp *comp);
} FusionPolicy;

// Goes over the module's computations, users first, and fuses what the policy wants. The rule's
// name is "fuse".
bool fusion_run(HlPass *p, const FusionPolicy *policy);

// For policies: the rules that hold for every target. No fusion across the root, no copies of
// expensive producers, nothing that breaks an update in place. NULL: none says no; or why not.
const char *fuser_refuses(Fuser *f, HlInst *consumer, int operand);
// The consumer reads elements of this operand more than once.
bool fuser_reuses(Fuser *f, HlInst *consumer, int operand);
// Fusing this operand into a fusion would have its code written out too many times.
bool fuser_repeats_code(Fuser *f, HlInst *fusion, int operand);
// How many reductions a fusion holds.
int fuser_n_reduces(Fuser *f, const HlInst *fusion);
HlPass *fuser_pass(const Fuser *f);

#endif
