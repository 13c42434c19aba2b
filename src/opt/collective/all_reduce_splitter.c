// opt/collective/all_reduce_splitter.c
//
// all-reduce-splitter: a sum among everybody of which several devices take the same slice is made among
// those that together take all slices, and then among those that take the same one.
//
//   r = f32[8] all-reduce(x), {{0,1,2,3}}        r = f32[8] all-reduce(x), {{0,1},{2,3}}
//   s = f32[4] dynamic-slice(r, (id % 2) * 4)    t = f32[4] dynamic-slice(r, (id % 2) * 4)
//                                            =>  s = f32[4] all-reduce(t), {{0,2},{1,3}}
//
// reduce-scatter-creator then makes one of the first two. Only where the computation has an all-reduce among the
// latter groups anyway, which the new one can be combined with.

#include "opt/ask/collectives.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// How one group's members share the slices among them.
typedef struct Split {
  HlI64s *whole, *same;  // groups that take all slices; that take the same one
  int n_whole, n_same;
} Split;

// Sorts a group's members by the slice they take; false: not as many for each, or one only.
static bool split_group(HlPass *p, HlI64s group, const int64_t *start, int64_t part, int64_t parts,
                        Split *split) {
  if (group.n % parts != 0 || group.n / parts < 2 || parts < 2)
    return false;
  const int64_t copies = group.n / parts;
  int64_t *rows = HL_ARRAY(p->arena, int64_t, group.n),
          *columns = HL_ARRAY(p->arena, int64_t, group.n);
  int64_t *count = HL_ARRAY(p->arena, int64_t, parts);
  for (int k = 0; k < group.n; k++) {
    const int64_t device = group.at[k], slice = start[device] / part;
    if (start[device] < 0 || start[device] % part != 0 || slice >= parts || count[slice] == copies)
      return false;
    rows[count[slice] * parts + slice] = device;
    columns[slice * copies + count[slice]++] = device;
  }
  for (int64_t k = 0; k < copies; k++)
    split->whole[split->n_whole++] = (HlI64s){rows + k * parts, (int)parts};
  for (int64_t k = 0; k < parts; k++)
    split->same[split->n_same++] = (HlI64s){columns + k * copies, (int)copies};
  return true;
}

// The groups that all-reduces of a computation have, each once.
typedef struct Known {
  HlI64Lists *at;
  int n;
} Known;

enum { MAX_KNOWN = 64 };

static Known find_known(HlPass *p, const HlComp *comp) {
  Known known = {HL_ARRAY(p->arena, HlI64Lists, MAX_KNOWN), 0};
  for (const HlInst *inst = comp->first; inst && known.n < MAX_KNOWN; inst = inst->next) {
    if (inst->op != HL_OP_ALL_REDUCE)
      continue;
    const CollGroups groups = coll_groups(p, inst);
    bool is_new = coll_ids_are_devices(p, groups.mode);
    for (int k = 0; k < known.n && is_new; k++)
      is_new = !hl_i64_lists_equal(known.at[k], groups.lists);
    if (is_new)
      known.at[known.n++] = groups.lists;
  }
  return known;
}

static bool is_known(const Known *known, HlI64Lists lists) {
  for (int k = 0; k < known->n; k++)
    if (hl_i64_lists_equal(known->at[k], lists))
      return true;
  return false;
}

static bool find_split(HlPass *p, const HlInst *slice, const HlInst *sum, int dim, Split *split) {
  const CollGroups groups = coll_groups(p, sum);
  const int64_t part = slice->shape->dim[dim], whole = sum->shape->dim[dim];
  if (part == 0 || whole % part != 0 || !coll_ids_are_devices(p, groups.mode) ||
      !coll_places(p, &groups))
    return false;
  const int64_t *start = coll_value_by_device(p, slice->operands[1 + dim]);
  if (!start)
    return false;
  split->whole = HL_ARRAY(p->arena, HlI64s, coll_devices(p) + 1);
  split->same = HL_ARRAY(p->arena, HlI64s, coll_devices(p) + 1);
  for (int g = 0; g < groups.lists.n; g++)
    if (!split_group(p, groups.lists.at[g], start, part, whole / part, split))
      return false;
  return true;
}

static void split_sum(HlPass *p, HlInst *slice, const Known *known, int64_t *channel) {
  HlInst *sum = slice->operands[0];
  if (sum->op != HL_OP_ALL_REDUCE || !coll_is_plain(sum) || !hl_one_user(sum) ||
      hl_shape_is_dynamic(slice->shape) || (int)slice->n_operands != sum->shape->rank + 1)
    return;
  Split split = {0};
  const int dim = coll_sliced_dim(slice);
  if (dim < 0 || !find_split(p, slice, sum, dim, &split) ||
      !is_known(known, (HlI64Lists){split.same, split.n_same}))
    return;
  HlBuild b;
  hl_begin(p, "split", slice, &b);
  HlInst *first = coll_copy(&b, sum, NULL, 1, sum->operands);
  coll_set_groups(first, (HlI64Lists){split.whole, split.n_whole});
  HlInst **operands =
      hl_arena_copy(p->arena, slice->operands, sizeof *operands * slice->n_operands);
  operands[0] = first;
  HlInst *part = hl_inst_copy(b.comp, slice, NULL, (int)slice->n_operands, operands);
  HlInst *second = coll_copy(&b, sum, slice->shape, 1, &part);
  coll_set_groups(second, (HlI64Lists){split.same, split.n_same});
  if (hl_attr_int(second, HL_A_CHANNEL_ID) > 0)
    hl_set_int(second, HL_A_CHANNEL_ID, (*channel)++);
  hl_commit(p, second);
}

bool pass_all_reduce_splitter(HlPass *p) {
  int64_t channel = hl_free_channel(p->m);
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    const Known known = find_known(p, comps[k]);
    HlInst **insts = known.n > 0 ? hl_pass_insts(p, comps[k], &n_insts) : NULL;
    for (int j = 0; insts && j < n_insts; j++)
      if (hl_alive(insts[j]) && insts[j]->op == HL_OP_DYNAMIC_SLICE)
        split_sum(p, insts[j], &known, &channel);
  }
  return true;
}
