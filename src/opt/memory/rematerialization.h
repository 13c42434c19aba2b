// opt/memory/rematerialization.h: what the files of rematerialization share.
//
// rematerialization.c        the pass: limits of computations, rounds
// rematerialization_walk.c   a computation in its order, with the bytes that are alive
// rematerialization_find.c   what would help at a point
// rematerialization_do.c     doing it
#ifndef HILO_OPT_REMATERIALIZATION_H
#define HILO_OPT_REMATERIALIZATION_H

#include "ir/vecs.h"
#include "hilo/buffers.h"
#include "hilo/pass.h"

// --- A computation in its order (rematerialization_walk.c) ------------------------------------------------

typedef struct RematLeaf {  // an array that an instruction makes
  int64_t bytes;
  uint32_t left;  // uses to come, through views
} RematLeaf;

// An instruction in the order being made. Those whose arrays are read in their computation alone, by themselves or through
// views (bitcasts, and elements of a tuple that is nothing else), are tracked: they have leaves.
typedef struct RematItem {
  HlInst *inst;
  int32_t prev, next;
  uint64_t label;   // grows along the order
  RematLeaf *leaf;  // one of an array, one of each element of a tuple; NULL: not tracked
  int32_t n_leaves;
  int32_t home, number;   // of a view: whose leaf it shows, and which; else itself
  int64_t others;         // bytes of values that are not tracked
  int64_t frees;          // bytes of such values that end here
  int64_t callee;         // the most that what it calls needs
  int64_t at;             // bytes in use while it runs, as things are; of those to come
  uint32_t left;          // uses to come of all leaves
  int32_t live_at;        // in the list of live items, -1: not live
  int32_t copy, copy_of;  // of a view: its latest copy, and of which item that shows a leaf
  bool placed, refused;
  int64_t
      worse_at;  // where, and with what size of block, making it again would need more elsewhere
  bool again;    // made here: only a first user that is through lets it be made once more
} RematItem;

typedef struct RematUse {  // through views
  int32_t user;
  int number;   // of the operand
  HlInst *via;  // what is read: the instruction itself, or a view of it
} RematUse;

// A view of an array, of the element of this number where it is one of a tuple.
typedef struct RematView {
  HlInst *inst;
  int32_t number;
} RematView;

// Bytes as they are summed up: arrays may be of any size, but more than 16 TiB is no more than that.
static inline int64_t remat_summand(int64_t bytes) {
  const int64_t most = (int64_t)1 << 44;
  return bytes < most ? bytes : most;
}

// One go over a module.
typedef struct RematJob {
  HlPass *p;
  bool on_trial;  // what it does will be undone: nobody is asked
  HlArena *arena;
  const HlFlow *flow;
  const HlLive *live;
  HlInst ***order;  // by comp->id: the orders at the start, then those made
  uint32_t *n_order;
  bool *counted;   // by value: its buffer is counted with it, in its computation
  int64_t *peak;   // by comp->id
  int64_t *limit;  // by comp->id: what is left for it
  int64_t next_channel;
  bool careful;  // nothing that needs more than ever elsewhere
  bool changed;
} RematJob;

typedef struct RematWalk {
  RematJob *job;
  HlArena *arena;
  const HlFlow *flow;
  const HlLive *live;
  HlComp *comp;
  RematItem *item;  // item 0 is the end of the circular order
  int32_t n, capacity;
  int32_t *item_of;  // by instruction id
  uint32_t n_ids;
  int32_t *alive;  // tracked items that are live
  int32_t n_alive, alive_capacity;
  // Scratch:
  InstVec shown;       // an instruction and its views
  VEC(RematUse) uses;  // of them
  VEC(RematView) views;
  VEC(int32_t) way;  // items from a view to its home
  int64_t usage, limit;
  int64_t peak;         // before the walk
  int64_t least_bytes;  // smaller values are left alone
  int block_limit;
  bool compress, recompute, offload;
  bool *
      refused;  // by instruction id: changes of it were undone in an earlier walk; NULL: nothing is changed
  bool undone;  // the newest change was: the walk is of no use any more
} RematWalk;

void remat_find_counted(RematJob *job);  // once the orders are known
RematWalk remat_start(RematJob *job, HlArena *arena, HlComp *comp, bool *refused);
void remat_end(RematWalk *w);
// Asks to change item k before `with`, which may be -1; a copy of the module is not asked about. After a yes remat_changed
// ends the change.
bool remat_change(RematWalk *w, const char *rule, int32_t k, int32_t with);
void remat_changed(RematWalk *w, int32_t k);
void remat_start_item(RematWalk *w, int32_t k);
void remat_end_item(RematWalk *w, int32_t k);
// The bytes in use while a step runs that has been started.
int64_t remat_usage(const RematWalk *w, int32_t k);

static inline int32_t remat_item_of(const RematWalk *w, const HlInst *inst) {
  return w->item_of[inst->id];
}
// The item whose leaf this instruction is or shows, and the leaf (NULL: not tracked).
static inline RematItem *remat_home(const RematWalk *w, const HlInst *inst) {
  return &w->item[w->item[w->item_of[inst->id]].home];
}
RematLeaf *remat_leaf(const RematWalk *w, const HlInst *inst);
int64_t remat_bytes(const RematItem *item);  // of the leaves that are live
bool remat_reads(const RematWalk *w, const HlInst *inst, int32_t k);
// Uses by others than views; valid until the next such question, when graph and order have stayed.
const RematUse *remat_uses(RematWalk *w, int32_t k, int *n);
bool remat_has_placed_user(RematWalk *w, int32_t k);

void remat_add_use(RematWalk *w, const HlInst *operand);
void remat_drop_use(RematWalk *w, const HlInst *operand);
// Items for new instructions, not yet in the order: with leaves like those of `like` (or one of these bytes), or a view of
// item `home`.
int32_t remat_add(RematWalk *w, HlInst *inst, int32_t like, int64_t bytes);
int32_t remat_add_view(RematWalk *w, HlInst *inst, int32_t home, int32_t number);
void remat_insert(RematWalk *w, int32_t k, int32_t next);
void remat_remove(RematWalk *w, int32_t k);
void remat_make_live(RematWalk *w, int32_t k);

// --- What would help (rematerialization_find.c) ---------------------------------------------------------

enum { REMAT_BLOCK_MAX = 64 };

// Instructions that are made again together, operands first; the last one is what is wanted.
typedef struct RematBlock {
  int32_t item[REMAT_BLOCK_MAX];
  int n;
  int64_t saved;
} RematBlock;

static inline int64_t remat_place(int32_t now, int limit) {  // for `worse_at`
  return (int64_t)now << 8 | limit;
}
// The block of at most `limit` instructions that saves most; n is 0 if none does.
RematBlock remat_choose(RematWalk *w, int32_t now, int limit);
// Whether on the way to its first user to come, or there, more would be in use than ever was.
bool remat_makes_worse(RematWalk *w, const RematBlock *block, int32_t now);
// The block is going to be made before `next`: notes what will be in use until then.
void remat_foresee(RematWalk *w, const RematBlock *block, int32_t now, int32_t next);
int32_t remat_first_user_to_come(RematWalk *w, int32_t k);
// The value that a denser layout makes smaller by more than `saved` bytes, and that by most; -1: none.
int32_t remat_choose_to_compress(RematWalk *w, int32_t now, int64_t saved);
// The largest value of more than `saved` bytes that nobody needs now; -1: none.
int32_t remat_choose_to_offload(RematWalk *w, int32_t now, int64_t saved);
const HlShape *remat_dense_shape(const RematWalk *w, const HlShape *shape);

// --- Doing it (rematerialization_do.c) --------------------------------------------------------------------

void remat_repeat(RematWalk *w, const RematBlock *block, int32_t now);
void remat_compress(RematWalk *w, int32_t k, int32_t now);
void remat_offload(RematWalk *w, int32_t k, int32_t now);

#endif
