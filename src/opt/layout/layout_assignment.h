// opt/layout/layout_assignment.h: the parts of layout-assignment among each other. The algorithm is told
// in layout_assignment.c.
#ifndef HILO_OPT_LAYOUT_ASSIGNMENT_H
#define HILO_OPT_LAYOUT_ASSIGNMENT_H

#include "hilo/pass.h"

// The order of an array's dimensions, minor to major; NULL is "not decided".
typedef const int64_t *LayoutOrder;

// How much a wish counts.
typedef struct LayoutWeight {
  bool mandatory;
  bool depth_first;  // its consequences are followed at once
  int64_t priority;
} LayoutWeight;

enum {
  LAYOUT_ROUNDS = 2,
  LAYOUT_LATER = 3,   // priority of a layout that the module's interface gives
  LAYOUT_UNSET = -2,  // of a computation whose interface is not known yet
  LAYOUT_MOST_CHANGES = 2
};

// An instruction through which an array can be seen: the one that defines it, or an element taken
// out of a tuple that holds it.
typedef struct LayoutHolder {
  HlInst *inst;
  struct LayoutHolder *next;
} LayoutHolder;

// An array that one instruction defines: the whole result or a leaf of its tuple.
typedef struct LayoutBuffer {
  HlInst *inst;
  int leaf;
  const HlShape *array;
  LayoutOrder order;
  LayoutWeight weight;
  int changes;
  LayoutHolder *holders, *last_holder;
} LayoutBuffer;

// The layouts that a user wants of one operand, leaf by leaf.
typedef struct LayoutUse {
  HlInst *user;
  int number;
  LayoutOrder *order;  // of each leaf; NULL: not wanted yet
  LayoutWeight weight;
  int changes;
} LayoutUse;

// What is known about one computation.
typedef struct LayoutComp {
  HlComp *comp;
  HlInst **insts;          // n_insts in order of creation: the order in which wishes are made
  LayoutBuffer ***leaf;    // by instruction id: the buffer of each leaf (NULL: a token)
  LayoutUse **use;         // by instruction id: of each operand
  LayoutBuffer **buffers;  // all that its instructions define, in list order
  int n_buffers;
  LayoutOrder **param;  // interface: of each parameter's leaves; NULL: not known
  LayoutOrder *result;  // NULL: not known
  int64_t priority;
  bool bends;  // a branch whose result must follow another branch's
  bool is_entry;
} LayoutComp;

typedef struct LayoutItem {
  LayoutBuffer *buffer;  // or
  LayoutUse *use;        // or, both NULL, the computation's result
  bool depth_first;
  int64_t priority;
  struct LayoutItem *next;
} LayoutItem;

enum { LAYOUT_MOST_RANK = 16 };  // of the row-major orders that are kept

typedef struct Layouts {
  HlPass *p;
  HlShapes *shapes;
  HlArena *arena;
  LayoutComp **by_comp;  // by computation id; NULL: none of ours
  uint32_t n_by_comp;
  LayoutComp **order;  // in the order of work
  int n;
  int64_t priority;  // number of the round
  LayoutComp *now;
  LayoutItem *added, *last_added;      // wishes since the last step
  LayoutItem *waiting, *last_waiting;  // to be followed up
  LayoutItem *spare;
  LayoutOrder row_major[LAYOUT_MOST_RANK];  // by rank; NULL: not asked for yet
} Layouts;

static inline LayoutComp *layout_comp(const Layouts *a, const HlComp *comp) {
  return comp->id < a->n_by_comp ? a->by_comp[comp->id] : NULL;
}
static inline LayoutBuffer **layout_leaves(const LayoutComp *c, const HlInst *inst) {
  return c->leaf[inst->id];
}
static inline LayoutUse *layout_use(const LayoutComp *c, const HlInst *user, int number) {
  return &c->use[user->id][number];
}
static inline LayoutWeight layout_must(const Layouts *a) {
  return (LayoutWeight){true, true, a->priority};
}

// --- layout_points.c: which arrays there are, and through which instructions they pass
// -----------------

LayoutComp *layout_comp_new(Layouts *a, HlComp *comp);
// Leaves of a shape, tokens included, in order: written to `out`, returns how many.
int layout_flatten(const HlShape *shape, const HlShape **out);
int layout_n_leaves(const HlShape *shape);
// The first leaf under a path into a shape.
int layout_leaf_at(const HlShape *shape, HlI64s path);
// The operand is handed through: its buffers are those of the result.
bool layout_forwards(const HlInst *inst, int operand);

// --- layout_choose.c: which layout follows from which
// ---------------------------------------------------

LayoutOrder layout_row_major(Layouts *a, int rank);
LayoutOrder layout_order_of(const HlShape *array);  // as it stands; NULL: none
bool layout_same(LayoutOrder x, LayoutOrder y, int rank);
// Operands and results of the same rank must lie in the same order.
bool layout_is_kept(const HlInst *inst);
// Wishes about results and operands that are better followed before anything else.
bool layout_goes_deep(const HlInst *inst);
// NULL: nothing follows.
LayoutOrder layout_of_result(Layouts *a, const HlInst *inst, int operand, LayoutOrder order);
LayoutOrder layout_of_operand(Layouts *a, const HlInst *inst, int operand, LayoutOrder order);

// --- layout_wish.c: wishes and what follows from them
// ---------------------------------------------------

void layout_want_buffer(Layouts *a, LayoutBuffer *buffer, LayoutOrder order, LayoutWeight weight);
// All leaves of an operand; NULL entries are not asked for.
void layout_want_use(Layouts *a, HlInst *user, int operand, const LayoutOrder *order,
                     LayoutWeight weight);
void layout_want_array_use(Layouts *a, HlInst *user, int operand, LayoutOrder order,
                           LayoutWeight weight);
// The result of an instruction, leaf by leaf, and what must lie like it.
void layout_want_result(Layouts *a, HlInst *inst, const LayoutOrder *order, LayoutWeight weight);
void layout_want_root(Layouts *a);  // the computation's result
void layout_follow(Layouts *a);     // until nothing is left to follow
// Common wishes: results and operands row-major; a result row-major but for one dimension most
// major.
void layout_want_row_major(Layouts *a, HlInst *inst);
void layout_want_major(Layouts *a, HlInst *inst, int64_t dim);
LayoutOrder layout_column_major(Layouts *a, int rank);

// --- layout_cpu.c, layout_gpu.c: what the targets want
// ---------------------------------------------------

void layout_cpu_wishes(Layouts *a);
void layout_gpu_wishes(Layouts *a);

// --- layout_apply.c: writing the decision into the module
// -------------------------------------------------

bool layout_apply(Layouts *a);

#endif
