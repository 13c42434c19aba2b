// tool/diff/diff.h: what the files of the comparison share.
//
// graph.c       a module as a graph of values: calls opened, fusions seen through
// match.c       pairs the nodes of two graphs
// wires.c       and what only hands values on
// stage.c       what an optimiser made of what is left without a partner
// what.c        how two instructions differ by themselves
// rows.c        what became of each: verdicts
// group.c       the same change in several places
// diff.c        the comparison as a whole: headers, names, fingerprints
// text.c, html.c, json.c   reports
// normalize.c   the one form of equal modules
// dump_pairs.c  which files of dumps belong together
#ifndef TOOL_DIFF_DIFF_H
#define TOOL_DIFF_DIFF_H

#include "base/vec.h"
#include "hilo/diff.h"

enum { DIFF_NONE = -1 };

// A user of a value: which, and as which operand. From CALLED on: as the root of its computation of that number.
typedef struct DiffUse {
  int user, position;
} DiffUse;
enum { DIFF_CALLED = 1 << 24 };

// An instruction in one call of its computation.
typedef struct DiffNode {
  const HlInst *inst;
  int frame;
  int value;      // whose value it hands on; itself, where it computes one
  int first_in;   // in DiffSide.in
  int n_in;       // values of its operands, then of the roots of what it calls
  int first_use;  // in DiffSide.use: users of its value
  int n_uses;
} DiffNode;

// One call of a computation.
typedef struct DiffFrame {
  const HlComp *comp;
  int caller;  // a node; DIFF_NONE: the entry
  int number;  // among the caller's computations
  int *node;   // by id of the instruction; DIFF_NONE where there is none
  bool opens;  // its parameters are the caller's operands, its root the caller's value
} DiffFrame;

typedef struct DiffSide {
  const HlModule *m;
  HlArena *arena;
  DiffNode *node;  // operands before users, what is called before who calls it
  int n;
  DiffFrame *frame;
  int n_frames;
  int *in;
  DiffUse *use;
  int *call;  // frames by node: call[first_call[node] + number]
  int *first_call;
  int *mate;      // of the other side, by node
  uint8_t *by;    // HlDiffBy
  uint64_t *own;  // what a node is by itself, at the level at hand
} DiffSide;

bool diff_side(HlCx *cx, HlArena *arena, const HlModule *m, DiffSide *out);
// Finds the values, operands and users anew. `loose`: what only moves or views a value hands it on.
void diff_wire(DiffSide *side, bool loose);
static inline bool diff_is_wire(const DiffSide *side, int node) {
  return side->node[node].value != node;
}
// The value of the entry's root.
static inline int diff_root(const DiffSide *side) {
  return side->node[side->frame[0].node[side->m->entry->root->id]].value;
}
static inline int diff_frame_of_call(const DiffSide *side, int node, int number) {
  return side->call[side->first_call[node] + number];
}

typedef struct DiffMatch {
  HlCx *cx;
  HlArena *arena;
  DiffSide a, b;
  uint32_t ignore;
  bool stages;
} DiffMatch;

static inline bool diff_is_free(const DiffSide *side, int node) {
  return side->mate[node] == DIFF_NONE;
}
static inline bool diff_same_name(const HlInst *a, const HlInst *b) {
  return hl_str_equal((HlStr){a->name->text, a->name->n}, (HlStr){b->name->text, b->name->n});
}

void diff_match(DiffMatch *match);
void diff_pair(DiffMatch *match, int a, int b, HlDiffBy by);
// Pairs fusions, calls and what else only hands values on, by the values.
void diff_match_wires(DiffMatch *match);
// Pairs the parameters of functions whose callers are partners, those that are wires too or not; the number of pairs.
int diff_pair_params(DiffMatch *match, bool wires);

// What is left of the first side in a comparison of stages.
typedef struct DiffFate {
  int into;  // node of b; DIFF_NONE
  uint8_t verdict, by;
  bool shares;  // it has a partner that is also another's: equal values became one
} DiffFate;
DiffFate *diff_fates(DiffMatch *match);  // by node of a
// By node of b, for those without a partner: the node of a that it is another copy of; DIFF_NONE.
int *diff_copies(DiffMatch *match);
// Hashes of values by what they are computed from, alike in both modules.
void diff_values(const DiffMatch *match, const DiffSide *side, bool loose, uint64_t *out);

void diff_rows(DiffMatch *match, HlDiff *diff);
void diff_group(DiffMatch *match, HlDiff *diff, const int *row_a, const int *row_b,
                const uint64_t *signature);
// How instructions a and b differ by themselves; words are appended to `detail` (NULL: none wanted).
uint32_t diff_what(const HlInst *a, const HlInst *b, uint32_t ignore, HlBuf *detail);
bool diff_bare_shape_equal(const HlShape *a, const HlShape *b);
uint64_t diff_bare_shape_hash(const HlShape *shape);
bool diff_attr_counts(const HlInst *inst, const HlAttr *attr);

#endif
