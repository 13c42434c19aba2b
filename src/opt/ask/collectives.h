// opt/ask/collectives.h: what passes of operations between devices share: who takes part, which two go
// together, what a number is on each device.
#ifndef OPT_COLLECTIVES_H
#define OPT_COLLECTIVES_H

#include "hilo/pass.h"
#include "opt/ask/reducers.h"

// --- Who takes part -----------------------------------------------------------------------------

typedef struct CollGroups {
  HlGroupMode mode;
  HlI64Lists lists;  // written or not: everybody's one group then
  int64_t size;      // devices in each group; -1: groups of different sizes
} CollGroups;
CollGroups coll_groups(HlPass *p, const HlInst *inst);  // in p->arena

// Where each device (replica * partitions + partition) stands in its group, and who is its group's
// first; NULL where some device is in no group or the order of members is not fixed. In p->arena.
typedef struct CollPlace {
  int64_t group, index;
} CollPlace;
CollPlace *coll_places(HlPass *p, const CollGroups *groups);
int64_t coll_devices(const HlPass *p);
// What the verifier asks: each id from 0 on stands in one group, as many as the module has devices where it says so, in groups
// of one size but for an all-reduce's; each device is at most one source and one target.
bool coll_groups_are_whole(HlPass *p, const HlInst *inst, const CollGroups *groups);
bool coll_pairs_are_whole(HlPass *p, const HlInst *permute);
// The ids of the mode are the numbers of devices.
bool coll_ids_are_devices(const HlPass *p, HlGroupMode mode);
// The place of the device at hand in its group, as a u32 scalar; NULL where no op says it.
HlInst *coll_place_in_group(HlPass *p, HlBuild *b, const CollGroups *groups);
// The replica_groups attribute of lists; they are copied into the module.
void coll_set_groups(HlInst *inst, HlI64Lists lists);

// What a kernel does that is an exchange alone (collective-fusion); of all else itself.
const HlInst *coll_inside(const HlInst *inst);

// --- Which go together --------------------------------------------------------------------------

// One or both may lack it; values compared otherwise.
bool coll_same_attr(const HlInst *a, const HlInst *b, HlAttrKey key);
// The same op among the same devices, in whatever form the groups are written, in the same mode, by
// the same reducer and along the same dimension. The element types of reducers may differ if
// `any_type`.
bool coll_same(HlPass *p, const HlInst *a, const HlInst *b, bool any_type);
uint64_t coll_hash(HlPass *p, const HlInst *inst);  // of what coll_same compares
// The same along any dimension.
bool coll_same_but_dim(HlPass *p, const HlInst *a, const HlInst *b);
uint64_t coll_hash_but_dim(HlPass *p, const HlInst *inst);
// One array in, one static array out, without control edges and layout constraints.
bool coll_is_plain(const HlInst *inst);
bool coll_any_constrains_layout(const HlModule *m, HlOp op);

// --- Making them --------------------------------------------------------------------------------

// A copy on other operands that keeps what says how devices take part; sharding and origin are not
// copied.
HlInst *coll_copy(HlBuild *b, const HlInst *like, const HlShape *shape, int n,
                  HlInst *const *operands);
// Another op among the devices of `like`; a reducer goes along where the op takes one.
HlInst *coll_new(HlBuild *b, HlOp op, const HlInst *like, const HlShape *shape, HlInst *operand,
                 int64_t dimension);
// Runs the rules with a counter of channels that nobody has; for two out of one.
bool coll_run_rules(HlPass *p, const HlRule *rules, int rounds);
void coll_fresh_channel(HlPass *p, HlInst *inst);  // if it has one; only under coll_run_rules
int64_t coll_next_channel(HlPass *p);

// The shape with another size of one dimension, static and of the same layout.
const HlShape *coll_resized(HlPass *p, const HlShape *shape, int64_t dim, int64_t size);

// --- Numbers that depend on the device -------------------------------------------------------------

// What an integer of one element is on each device, in p->arena; NULL: it is computed from more than
// the device's own number and constants.
int64_t *coll_value_by_device(HlPass *p, const HlInst *scalar);
// The one dimension in which the slice is smaller than what it is taken from; -1: none or several.
int coll_sliced_dim(const HlInst *slice);
// The dynamic slice takes, on each device, the part along `dim` with the device's number in its group.
bool coll_takes_own_part(HlPass *p, const HlInst *slice, int dim, const CollGroups *groups);

#endif
