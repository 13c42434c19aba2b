// spmd/propagate.h: shardings flow through the instructions of a module until nothing moves.
//
// Each value (a leaf of an instruction's result) has one SpSpec. An instruction's rule (rule.h) says which
// dimensions of its operands and results go together; a factor that is cut in one of them may be cut in the others:
//
//   x [{a}, {}]   w [{}, {b}]              dot([i, k], [k, j]) -> [i, j]
//   y = dot(x, w)             =>           y [{a}, {b}]
//
// The axes of a factor are the longest list on which all tensors that have it agree: [{a}] and [{a, b}] make {a, b},
// {a, b} and {a, c} make {a}. Every tensor then takes as much of it as it can: its dimension must be open, and an axis
// cuts only one dimension of an array. Where two factors want the same axis in one tensor, the one that comes from the
// larger tensor wins, then the earlier tensor's, then the earlier factor. Some ops wait until others
// are done: what passes everything first, broadcasts last.
//
// Values that are one and the same share a spec: elements and their tuples, loop state in body and condition. Values
// that meet (a loop's initial and next state, a conditional's branches, parameters and operands of calls) are linked as
// by an elementwise operation.
#ifndef SPMD_PROPAGATE_H
#define SPMD_PROPAGATE_H

#include "hilo/pass.h"
#include "spmd/mesh.h"

typedef struct SpGraph SpGraph;

enum { SP_FORWARD = 1, SP_BACKWARD = 2, SP_BOTH = 3 };

// All values of the module, with nothing known of them. Lives in the arena. `split`: every use of what is computed
// from constants alone, and of a broadcast scalar, is a value by itself, since the one who exports may give each
// user a copy of its own; nothing flows from one such use to another.
SpGraph *sp_graph_new(HlArena *arena, HlModule *m, SpMesh *mesh, bool split);
SpMesh *sp_graph_mesh(const SpGraph *graph);
// The spec of leaf k of an instruction's value, shared by all that are the same value; NULL: not an array.
SpSpec *sp_graph_spec(const SpGraph *graph, const HlInst *inst, int64_t k);
// Whether an instruction may be copied for its users (see `split`).
bool sp_graph_splits(const SpGraph *graph, const HlInst *inst);
// The spec of one use of such an instruction.
SpSpec *sp_graph_use(const SpGraph *graph, const HlInst *user, int operand);
// Values that are to have one sharding, as far as it goes: all n of them have one shape.
void sp_graph_link(SpGraph *graph, int n, SpSpec *const *specs, const HlShape *shape);
// The same for a value and what the program asks of it as a result: heard before all others.
void sp_graph_link_result(SpGraph *graph, SpSpec *value, SpSpec *result, const HlShape *shape);
// A spec beside the module's values, of a rank, to link others with.
SpSpec *sp_graph_extra(SpGraph *graph, int rank);
// The same of which one, `local`, lies inside a computation that has some axes for itself (its `manual`): dimension d
// of `global` starts with those of them that own[d] holds, and goes on as the dimension of `local` does.
void sp_graph_link_manual(SpGraph *graph, SpSpec *global, SpSpec *local, const SpAxes *own);
// Lets everything flow, by the levels of ops and the priorities of dimensions.
void sp_graph_run(SpGraph *graph);

// Whether shardings may flow into parameter or result k: flags are for each, or one for all.
static inline bool sp_is_allowed(HlI64s flags, int64_t k) {
  return flags.n == 1 ? flags.at[0] : k < flags.n && flags.at[k];
}

#endif
