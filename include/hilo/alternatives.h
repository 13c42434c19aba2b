// hilo/alternatives.h: what passes would do, to choose from.
//
// hl_propose runs a pipeline dry and keeps every rewrite it would make: the instructions that it would build, in a store of
// their own. Nothing of the module changes. A proposal is one value that would be read in the place of another; a rewrite
// that replaces several values (a fusion with several results) is several proposals of one number. Then either
//
//   - hl_alternatives_make puts all of them into the module: an instruction `alternatives(original, choice, choice, ...)`
//     for each value, read by what would read the choice; hl_alternatives_select decides, hl_prune drops what is left over;
//   - or hl_proposals_apply makes just some of them, in order, and says of each what became of it.
//
//   HlProposals *p = hl_propose(cx, m, "fusion{may_duplicate}", &options);
//   hl_alternatives_make(cx, m, p);                       // text, clones, hashes and features show them
//   HlInst **at = hl_alternatives(arena, m, &n);
//   for (int k = 0; k < n; k++)
//     choice[k] = (HlSelection){at[k], best_operand_of(at[k])};
//   hl_alternatives_select(cx, m, n, choice);             // and prunes
//
// To select 0 everywhere gives back the module, whatever was proposed, but for an order of execution, which every edit drops. Marks (hilo/edit.h) undo each of these.
#ifndef HILO_ALTERNATIVES_H
#define HILO_ALTERNATIVES_H

#include "hilo/edit.h"
#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Proposing ------------------------------------------------------------------------------------

typedef struct HlProposals HlProposals;

typedef struct HlProposal {
  int rewrite;                         // its number among what the run would do; proposals may share one
  const char *pass, *rule;
  const char *comp, *inst, *with;      // names of what is replaced, and of the rewrite's other party ("": none)
  int n_uses;                          // that would read the other value; the root's place counts
  int n_made;                          // instructions built for it in the computation
  int n_inside;                        // and in the bodies of its fusions
  bool is_known;                       // the other value was there before
} HlProposal;

typedef struct HlProposeOptions {
  const HlPassTable *passes;           // NULL: hl_passes
  const HlPipelineTable *pipelines;    // NULL: hl_pipelines
  const HlTarget *target;              // borrowed; NULL: no device in particular
  HlDialect release;
  const HlTuning *tuning;              // borrowed; NULL: nothing
} HlProposeOptions;

// NULL after reporting. The module is as it was. The proposals hold until it is edited, or that is undone (hl_undo).
HlProposals *hl_propose(HlCx *cx, HlModule *m, const char *pipeline, const HlProposeOptions *options);
void hl_proposals_free(HlProposals *proposals);       // NULL is fine
int hl_n_proposals(const HlProposals *proposals);
HlProposal hl_proposal(const HlProposals *proposals, int k);  // its texts live as long as the proposals
typedef struct HlProposeCounts {
  int64_t rewrites;                    // that the passes asked for
  int64_t merged;                      // proposals that were there already: the same value for the same one
  int64_t in_place;                    // rewrites that give no value to choose: an order, a layout, something dead removed
} HlProposeCounts;
HlProposeCounts hl_propose_counts(const HlProposals *proposals);

// --- Alternatives ---------------------------------------------------------------------------------

// Puts the proposals into the module: how many instructions `alternatives` that makes; -1 after reporting. What would make a
// value depend on itself is left out. The proposals are then those of the instructions (hl_choice_origin).
int hl_alternatives_make(HlCx *cx, HlModule *m, HlProposals *proposals);
// All there are, in the order of the nodes of features (hilo/features.h), in the arena.
HlInst **hl_alternatives(HlArena *arena, const HlModule *m, int *n);
// Which proposal an operand of an `alternatives` was made of: its number; -1: it is the original, or not known.
int hl_choice_origin(const HlProposals *proposals, const HlInst *alternatives, int operand);

typedef struct HlSelection {
  HlInst *inst;                        // an `alternatives`
  int64_t operand;
} HlSelection;
// Puts in the place of each `alternatives` the operand chosen, and prunes. All there are must be listed, each once; else, or
// where there is no such operand, false after reporting, and nothing has changed.
bool hl_alternatives_select(HlCx *cx, HlModule *m, int n, const HlSelection *choice);
// The same by rows (which, operand), of n: which are all the indices of nodes, or else all the uids (hl_uid) of those there are.
bool hl_alternatives_decide(HlCx *cx, HlModule *m, int64_t n, const int64_t *rows);
// Removes what nothing needs: parameters and operands of fusions, dead instructions, computations that nobody calls.
// Parameters of other computations and side effects stay.
void hl_prune(HlModule *m);

// --- Applying some ----------------------------------------------------------------------------------

// HloEnv's numbers.
typedef enum HlRewriteStatus {
  HL_REWRITE_OK,
  HL_REWRITE_ADJACENCY,                // it touches an edge that one applied before it has touched
  HL_REWRITE_CYCLE,                    // a value would depend on itself
  HL_REWRITE_PRUNED,                   // applied, but what came later left it dead
  HL_REWRITE_ORIG_INST_DELETED,
  HL_REWRITE_ALREADY_APPLIED
} HlRewriteStatus;
const char *hl_rewrite_status_text(HlRewriteStatus status);
// Of each pair whether both would change an edge between the same two instructions: n * n entries. Those of one rewrite are not
// adjacent to each other, but each is to itself.
void hl_proposals_adjacency(const HlProposals *proposals, bool *out);
// Applies proposals in the order of the list, and prunes. `status` gets what became of each. The proposals are spent. False after reporting: a number
// is none of a proposal's, and nothing has changed.
bool hl_proposals_apply(HlCx *cx, HlModule *m, HlProposals *proposals, int n, const int64_t *which, HlRewriteStatus *status);
// The part of the module that a proposal is about, or what it would put there, as a module whose parameters are what both
// read; NULL after reporting. The caller's.
HlModule *hl_proposal_original(HlCx *cx, const HlModule *m, const HlProposals *proposals, int k);
HlModule *hl_proposal_replacement(HlCx *cx, const HlModule *m, const HlProposals *proposals, int k);
// The uids of the instructions of the first, in the arena.
int64_t *hl_proposal_uids(HlArena *arena, const HlModule *m, const HlProposals *proposals, int k, int *n);

// --- Parts of modules -------------------------------------------------------------------------------

// A module with `repeat` copies of an instruction, each of which waits for the one before; its operands are parameters, the last copy
// is the root. The caller's; NULL after reporting.
HlModule *hl_inst_module(HlCx *cx, const HlInst *inst, int64_t repeat);
// A module with the operands of an instruction, theirs and so on, `height` deep; what they read is parameters. The caller's; NULL after reporting.
HlModule *hl_cone_module(HlCx *cx, const HlInst *inst, int64_t height);

// Calls of cuDNN's forward convolutions become convolutions again, which machines without it have kernels for.
void hl_plain_convolutions(HlModule *m);

#ifdef __cplusplus
}
#endif
#endif
