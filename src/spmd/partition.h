// spmd/partition.h: what the partitioner's files share: values, their shardings, and the steps of
// an exchange.
//
// The partitioner writes a second copy of each computation, in which every array has the sizes of
// the tile that one device holds. A PartValue is an instruction of the program together with what
// stands for it in the copy; a rule (one per op, partition_rules) makes the copy of one instruction
// out of those of its operands.
//
// What lies beyond the end of an array in a short or empty tile is garbage. Whoever reads it, as a
// sum along a cut dimension does, masks it first.
#ifndef SPMD_PARTITION_H
#define SPMD_PARTITION_H

#include "hilo/pass.h"

#include "spmd/mesh.h"
#include "spmd/tiles.h"

// A value in another sharding: brought into it, or made so.
typedef struct PartMoved {
  const HlTiles *tiles;
  HlInst *local;
  struct PartMoved *next;
} PartMoved;

typedef struct PartValue {
  HlInst *local;                // NULL: not made yet
  const HlShape *global;        // the shape of all of it
  const HlTiles *const *tiles;  // of each leaf; one for what is not a tuple
  int n;
  PartMoved *moved;  // arrays only
  bool began_loop;   // a loop of a product began with it (partition_einsum.c)
  bool by_tiles;     // the copy's grid is known as tiles, not by the names of a mesh's axes
  bool said_in_tiles;  // the same of what the instruction itself says
} PartValue;

// Grids are as large as the devices are many, and programs have few different ones: the newest are kept.
enum { PART_LATELY = 32 };
typedef struct PartLately {
  const HlSharding *sharding;
  int rank;
  const HlTiles *tiles;
} PartLately;

// Which products become loops that hand tiles on (partition_einsum.c).
typedef struct PartWindowing {
  int64_t least_bytes;      // of what would be exchanged whole; below 0: none
  int64_t least_total;      // of both operands, instead; below 0: by least_bytes
  int64_t most_steps;
  bool gathers, scatters;   // operands may go round, results may
  bool unrolls, both_ways;
  bool partly;              // also where a ring is only some of the devices of the operand's own cuts
  bool spares_shared;       // not where others need the same exchange
  bool once_an_operand;     // not where such a loop has an operand already
} PartWindowing;

// All of the module.
typedef struct Part {
  HlPass *p;
  HlModule *m;
  HlArena *arena;
  int64_t n_devices, n_replicas;
  int64_t next_channel;
  const HlMesh *named;                // whose axes all shardings name, or NULL
  SpMesh *mesh;                       // the same
  PartWindowing windowing;
  PartLately lately[PART_LATELY];
  unsigned n_lately;                  // ever put there
  const HlTiles *whole[PART_LATELY];  // replicated, by rank
  struct PartComp *top;               // the computation in hand; the ones below it wait for it
} Part;

// The copies of a loop's body and condition, which are written before the computation that it stands in.
typedef struct PartBodies {
  HlComp *body, *condition;
} PartBodies;

// One computation.
typedef struct PartComp {
  Part *pt;
  struct PartComp *below;
  const HlComp *from;
  HlComp *to;
  HlBuild b;         // builds in `to`
  PartValue *value;  // by id in `from`
  HlInst **order;    // the instructions of `from`, and how far the copy has come
  int n, at;
  HlInst *id;                    // partition-id
  bool by_tiles;                 // what is exchanged now is known so (PartValue)
  const HlInst *complete;        // seen as if its sum were complete (part_tiles), or NULL
  PartBodies *loop;              // by id in `from`; NULL: it is not begun
  const HlTiles *const *result;  // how the caller wants the root; NULL: as it is
  const HlTiles *const
      *argument;  // how the caller gives the parameters, all leaves in a row; NULL: as they say
} PartComp;

// Of exchanges: how many, and the bytes that a device receives.
typedef struct PartCost {
  double bytes;
  int64_t n;
} PartCost;

// --- Values (partition_value.c) -------------------------------------------------------------------

// The shardings of an instruction's leaves: as it says, and where it says nothing, not cut. NULL:
// reported.
const HlTiles *const *part_tiles(PartComp *c, const HlInst *inst);
const HlTiles *part_tiles_of(PartComp *c, const HlInst *inst, const HlSharding *sharding,
                             const HlShape *leaf);
// The same with unreduced or, if `manual`, manual subgroups too as replicas.
const HlTiles *part_complete(PartComp *c, const HlTiles *tiles, bool manual);
// The shape of what a device has of it; leaf shardings in order.
const HlShape *part_local_shape(Part *pt, const HlShape *global, const HlTiles *const *tiles);
const HlTiles *part_replicated(Part *pt, int rank);
// Not cut, for an array of this rank, with the subgroups of `like` that a program handles itself.
const HlTiles *part_uncut(Part *pt, const HlTiles *like, int rank);

PartValue *part_value(PartComp *c, const HlInst *inst);
const HlTiles *part_tiles_now(PartComp *c, const HlInst *inst);  // of an array, as it was made
// Operand k in another sharding (arrays and tokens).
HlInst *part_operand(PartComp *c, const HlInst *inst, int k, const HlTiles *tiles);
void part_operand_cost(PartComp *c, const HlInst *inst, int k, const HlTiles *tiles, PartCost *cost);
// A value of any shape, leaf by leaf.
HlInst *part_value_as(PartComp *c, const HlInst *inst, const HlTiles *const *tiles);
// Gives the instruction its copy, which is cut as `tiles` say, and brings it into the sharding the
// instruction has.
bool part_set(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *tiles);
// The same for any shape, as it is: it stays in this sharding.
bool part_keep(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *const *tiles);
bool part_set_leaves(PartComp *c, const HlInst *inst, HlInst *local, const HlTiles *const *tiles);
// A copy of the instruction on other operands: attributes, computations, name; without its
// sharding.
HlInst *part_copy(PartComp *c, const HlInst *inst, const HlShape *shape, int n,
                  HlInst *const *operands);
// The copy of an instruction whose one result is cut as tiles say.
HlInst *part_copy_as(PartComp *c, const HlInst *inst, const HlTiles *tiles, int n,
                     HlInst *const *operands);
// A copy that is named after its op.
HlInst *part_copy_anew(PartComp *c, const HlInst *inst, const HlShape *shape, int n,
                       HlInst *const *operands);
// A view of tiles in which the marked dimensions are not cut.
const HlTiles *part_without(PartComp *c, const HlTiles *tiles, const bool *drop);
// The cut of one dimension moved to the first other one whose tiles it divides; dropped if there is none.
const HlTiles *part_move_cut(PartComp *c, const HlTiles *tiles, int dim, const HlShape *shape);

// --- Exchanges (partition_exchange.c) -------------------------------------------------------------

HlInst *part_reshard(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *from,
                     const HlTiles *to);
// What that costs is added to *cost. An all-reduce of so many bytes among n is a sum of parts and their gathering.
void part_reshard_cost(PartComp *c, const HlShape *global, const HlTiles *from, const HlTiles *to,
                       PartCost *cost);
static inline void part_add_cost(PartCost *cost, double bytes) {
  cost->bytes += bytes;
  cost->n++;
}
static inline double part_all_reduce_bytes(double bytes, int64_t n) {
  return 2 * bytes * (double)(n - 1) / (double)n;
}
bool part_is_broadcast_scalar(const HlInst *x);  // in any sharding made anew
// The grid after a factor of the parts of `dim` (its minor part) went to be the minor part of the
// parts of `to`, or, if `to` is -1, the major part of the replicas.
const HlTiles *part_moved_parts(PartComp *c, const HlTiles *tiles, int dim, int to, int64_t factor);
// Groups of devices that differ in the `factor` minor parts of one dimension (rank + 2: the
// replicas), by device number over all replicas, or of partitions; as lists of partitions; and of
// devices that differ along all the marked dimensions.
const HlGroups *part_groups(PartComp *c, const HlTiles *tiles, int dim, int64_t factor,
                            bool by_device);
HlI64Lists part_minor_groups(PartComp *c, const HlTiles *tiles, int dim, int64_t factor);
const HlGroups *part_groups_of_dim(PartComp *c, const HlTiles *tiles,
                                   int dim);  // all its parts, by device number
const HlGroups *part_groups_along(PartComp *c, const HlTiles *tiles, const bool *along);
HlInst *part_all_reduce(PartComp *c, HlInst *x, const HlComp *reducer, const HlGroups *groups);
HlInst *part_all_reduce_op(PartComp *c, HlInst *x, HlOp op, const HlGroups *groups);
HlInst *part_all_gather(PartComp *c, HlInst *x, int dim, const HlGroups *groups,
                        int64_t n);  // groups of n
// Position m of `dim` (one for each of a group) goes to member m, which puts what it gets from
// member k at k.
HlInst *part_all_to_all(PartComp *c, HlInst *x, int dim, const HlGroups *groups);
HlInst *part_permute(PartComp *c, HlInst *x, int n, const int64_t *source, const int64_t *target);

// --- Numbers that depend on the device (partition_index.c) ----------------------------------------

HlInst *part_id(PartComp *c);
// The number of this device out of a table with one for each; a constant where they are equal.
HlInst *part_number(PartComp *c, HlDtype dtype, const int64_t *by_device);
// Numbers as a constant, and the one at an index.
HlInst *part_table(PartComp *c, HlDtype dtype, const int64_t *value, int64_t n);
HlInst *part_entry(PartComp *c, HlInst *table, HlInst *index);
// Where the device's tile begins along a dimension of this size.
HlInst *part_offset(PartComp *c, HlDtype dtype, const HlTiles *tiles, int dim, int64_t size);
// The same in s32, in two steps: which tile, and where that begins.
HlInst *part_offset_by_ordinal(PartComp *c, const HlTiles *tiles, int dim, int64_t size);
// Which tile along the dimension.
HlInst *part_ordinal(PartComp *c, const HlTiles *tiles, int dim);
// This device's place in the grid's last subgroup is the first one (pred[]).
HlInst *part_is_first_replica(PartComp *c, const HlTiles *tiles);
// x with `value`, a scalar, wherever one of the marked dimensions (NULL: all) is beyond the array's
// end.
HlInst *part_mask(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *tiles,
                  const bool *dims, HlInst *value);
// pred of shape `like`: low <= begin + index along dim < high.
HlInst *part_in_range(PartComp *c, const HlShape *like, int dim, HlInst *begin, int64_t low,
                      int64_t high);
HlInst *part_scalar_index(PartComp *c, int64_t value);  // s32[]

// --- Windows (partition_window.c) -----------------------------------------------------------------

// What a device wants along one dimension: `length` elements from start + ordinal * step on, as
// indices of the whole array. Nobody reads what it gets of those from `end` on, if that is above 0.
// With a divisor above 1 it is 1 / divisor of that, rounded down, and read up to where the next one
// begins.
typedef struct PartReach {
  int64_t start, step, length, end, divisor;
} PartReach;
// Neighbours exchange what is needed; elements outside the array are `fill` (NULL: garbage).
HlInst *part_window(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *tiles, int dim,
                    PartReach reach, HlInst *fill);
// They exchange less than all of it.
bool part_window_pays(Part *pt, const HlShape *global, const HlTiles *tiles, int dim,
                      PartReach reach);
// The array moved by so many elements towards the end of dim, from which they come back to the
// front; tiles are even.
HlInst *part_rotate(PartComp *c, HlInst *x, const HlTiles *tiles, int dim, int64_t by);
// What lies tiles away, sent by itself (partition_far.c): windows of an array of this size, of which nobody reads what lies from `end`
// on, by the permutes they need; how many, and of how many elements along the dimension. Then the windows themselves, with `fill`
// (NULL: garbage) beyond the array's ends.
typedef struct PartFar PartFar;
PartFar *part_far(Part *pt, int64_t size, int64_t end, int64_t parts, PartReach reach);
void part_far_cost(const PartFar *far, int64_t *messages, int64_t *elements);
HlInst *part_far_window(PartComp *c, const PartFar *far, HlInst *x, const HlTiles *t, int dim,
                        PartReach reach, HlInst *fill);
// What the windows of a tile of results read.
PartReach part_window_reach(const HlWindowDim *w, int64_t tile);

// --- Loops over all dimensions (partition_loop.c) -------------------------------------------------

// A product, a gather or a scatter is a loop over dimensions that its three arrays share. One
// sharding of the loop says what each device computes, and with it how each array is to be cut.
enum { PART_LOOP_ARRAYS = 3 };
typedef struct PartLoop {
  int rank;
  int result;                  // which array is the result
  int *dim[PART_LOOP_ARRAYS];  // which dimension of the array a dimension of the loop is, or -1
  const HlShape *shape[PART_LOOP_ARRAYS];
} PartLoop;
PartLoop part_loop(Part *pt, int result, const HlShape *a, const HlShape *b, const HlShape *c);
void part_loop_add(PartLoop *loop, int64_t a, int64_t b, int64_t c);
static inline bool part_loop_sums(const PartLoop *loop, int k) {
  return loop->dim[loop->result][k] < 0;
}
// An array's sharding as one of the loop: of all its dimensions, those the result has not, or those
// it has.
enum { PART_ALL_DIMS, PART_SUMMED, PART_KEPT };
const HlTiles *part_loop_tiles(Part *pt, const PartLoop *loop, int array, const HlTiles *tiles,
                               int which);
const HlTiles *part_loop_array(Part *pt, const PartLoop *loop, int array, const HlTiles *tiles);
// Those along dimension k of the loop, which the array has: by its mesh where nothing else is cut.
const HlGroups *part_loop_groups(PartComp *c, const PartLoop *loop, int array, const HlTiles *tiles,
                                 int k);
// The common refinement, or `other` where there is none.
const HlTiles *part_merged_or(Part *pt, const HlTiles *a, const HlTiles *b, const HlTiles *other);
// What `more` cuts is cut, too, as far as no device is asked for twice.
const HlTiles *part_loop_with(PartComp *c, const HlTiles *t, const HlTiles *more);
// Another sharding of the loop of two operands and their result, which is to be cut as `own` says, by
// which less is exchanged and no device computes more: as the result or an operand is cut, in all or
// in what is summed, and then as the others are. `t` itself where there is none.
const HlTiles *part_cheaper_loop(PartComp *c, const HlInst *inst, const PartLoop *loop,
                                 const HlTiles *t, const HlTiles *own);

// --- Products (partition_dot.c, partition_einsum.c) -----------------------------------------------

// The loop of a dot: batch, what is the lhs' own, what is the rhs' own, what is summed.
PartLoop part_dot_loop(PartComp *c, const HlInst *inst);
// An operand of a product, cut so.
HlInst *part_product_operand(PartComp *c, HlInst *inst, const PartLoop *loop, int array,
                             const HlTiles *tiles);
// Makes the copy of a dot a loop in which tiles go round, where that is wanted: true, and *done is
// what a rule says. `t` cuts the loop, `own` is the result's sharding.
bool part_windowed_dot(PartComp *c, HlInst *inst, const PartLoop *loop, const HlTiles *t,
                       const HlTiles *own, bool *done);

static inline bool part_is_product(const HlInst *inst) {
  return inst->op == HL_OP_DOT || inst->op == HL_OP_CONVOLUTION;
}

// --- Control flow (partition_control.c) -----------------------------------------------------------

// Starts a copy of a computation; it is written before the one in hand goes on.
PartComp *part_enter(Part *pt, const HlComp *from, const char *name, const HlTiles *const *argument,
                     const HlTiles *const *result);
// Enters the bodies and conditions of its loops that say how they are cut; the first loop's are on top. False: reported.
bool part_enter_loops(PartComp *c);

// --- The first of a line (partition_sort.c) --------------------------------------------------------

// A call of TopK whose line is cut into parts of more than it takes.
bool part_is_topk_call(PartComp *c, const HlInst *inst);

// --- Custom calls that somebody else partitions (partition_custom.c) --------------------------------

// A rule, if there is somebody to be asked (*asked).
bool part_asked(PartComp *c, HlInst *inst, bool *asked);

// --- Rules ----------------------------------------------------------------------------------------

// Makes the copy of an instruction. False: reported, or, of part_one_device, it does not apply.
typedef bool PartRule(PartComp *c, HlInst *inst);
PartRule part_default, part_elementwise, part_constant, part_parameter, part_tuple, part_element,
    part_barrier;
PartRule part_broadcast, part_transpose, part_reshape, part_reverse, part_iota, part_concatenate;
PartRule part_slice, part_pad, part_reduce_window, part_select_and_scatter, part_reduce, part_dot,
    part_convolution;
PartRule part_gather, part_scatter, part_sort, part_topk, part_topk_call, part_dynamic_slice,
    part_dynamic_update_slice;
PartRule part_batched, part_fft, part_rng, part_while, part_conditional, part_call, part_custom_call,
    part_one_device;
PartRule part_as_it_is, part_async, part_collective, part_bitcast_convert;

#endif
