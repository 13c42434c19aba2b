// opt/simplify/slices.c: slices on the move: slice-sinker, slice-hoister, dead-dus-elimination.

#include "ir/vecs.h"
#include "opt/ask/same.h"
#include "opt/passes.h"

static bool same_slice(const HlInst *a, const HlInst *b) {
  return hl_i64s_equal(hl_attr_ints(a, HL_A_SLICE), hl_attr_ints(b, HL_A_SLICE));
}

// --- slice-sinker -------------------------------------------------------------------------------
//
//   a0 = f32[2] slice(a), slice={[0:2]}     b0 = f32[2] slice(b), slice={[0:2]}
//   a1 = f32[2] slice(a), slice={[2:4]}     b1 = f32[2] slice(b), slice={[2:4]}
//   s0 = f32[2] add(a0, b0)
//   s1 = f32[2] add(a1, b1)
//                                                            =>
//   s = f32[4] add(a, b)
//   s0 = f32[2] slice(s), slice={[0:2]}
//   s1 = f32[2] slice(s), slice={[2:4]}

typedef struct Sinker {
  HlPass *p;
  bool *tried;  // by id of the computation at hand: its group was looked at
} Sinker;

static bool is_on_slices(const HlInst *inst) {
  if (inst->n_operands == 0 || !inst->first_use || !hl_is_elementwise(inst) ||
      inst->operands[0]->op != HL_OP_SLICE ||
      hl_shape_is_dynamic(inst->operands[0]->operands[0]->shape))
    return false;
  const HlInst *first = inst->operands[0];
  for (uint32_t k = 1; k < inst->n_operands; k++) {
    const HlInst *slice = inst->operands[k];
    if (slice->op != HL_OP_SLICE || !same_slice(slice, first) ||
        !hl_shape_same_dims(slice->operands[0]->shape, first->operands[0]->shape) ||
        hl_shape_is_dynamic(slice->operands[0]->shape))
      return false;
  }
  return true;
}

// Whether `other` does to other slices of the same arrays what `inst` does.
static bool is_similar(const HlInst *inst, const HlInst *other) {
  if (other->op != inst->op || other->shape->dtype != inst->shape->dtype || !is_on_slices(other) ||
      other->n_operands != inst->n_operands || !same_attrs(inst, other))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (other->operands[k]->operands[0] != inst->operands[k]->operands[0])
      return false;
  return true;
}

// All of a group, `inst` first, in the pass's arena; how many elements they have together.
static HlInst **find_group(Sinker *s, HlInst *inst, int *n, int64_t *elements) {
  const HlInst *source = inst->operands[0]->operands[0];
  InstVec found = {0};
  vec_push_in(s->p->arena, &found, inst);
  s->tried[inst->id] = true;
  *elements = hl_shape_elements(inst->shape);
  for (const HlUse *slice = source->first_use; slice; slice = slice->next)
    for (const HlUse *use = slice->user->op == HL_OP_SLICE ? slice->user->first_use : NULL; use;
         use = use->next) {
      HlInst *other = use->user;
      if (s->tried[other->id] || !is_similar(inst, other))
        continue;
      s->tried[other->id] = true;
      *elements += hl_shape_elements(other->shape);
      vec_push_in(s->p->arena, &found, other);
    }
  *n = found.n;
  return found.at;
}

static HlInst *slice_like(HlInst *of, const HlInst *slice, const HlShape *shape) {
  return hl_inst_copy(of->comp, slice, shape, 1, &of);
}

static void sink(Sinker *s, HlInst *inst) {
  int n;
  int64_t elements;
  HlInst **group = find_group(s, inst, &n, &elements);
  const HlShape *whole = inst->operands[0]->operands[0]->shape;
  if (elements < hl_shape_elements(whole))
    return;
  HlInst **sources = HL_ARRAY(s->p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    sources[k] = inst->operands[k]->operands[0];
  HlBuild b;
  hl_begin(s->p, "sink", inst, &b);
  HlInst *all = hl_inst_copy(inst->comp, inst,
                             hl_shape_with_dtype(s->p->m->shapes, whole, inst->shape->dtype),
                             (int)inst->n_operands, sources);
  hl_remove_attr(all, HL_A_SHARDING);
  for (int k = 1; k < n; k++)
    hl_also(s->p, group[k], slice_like(all, group[k]->operands[0], group[k]->shape));
  hl_commit(s->p, slice_like(all, inst->operands[0], inst->shape));
}

bool pass_slice_sinker(HlPass *p) {
  Sinker s = {.p = p};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = 0; k < n; k++) {
    HlMark mark = hl_arena_mark(p->arena);
    s.tried = HL_ARRAY(p->arena, bool, comps[k]->next_id);
    int n_insts;
    HlInst **insts = hl_pass_insts(p, comps[k], &n_insts);
    for (int j = 0; j < n_insts; j++)
      if (hl_alive(insts[j]) && !s.tried[insts[j]->id] && is_on_slices(insts[j]))
        sink(&s, insts[j]);
    hl_arena_release(p->arena, mark);
  }
  return true;
}

// --- slice-hoister ------------------------------------------------------------------------------
//
//   s = f32[4] add(a, b)
//   r = f32[2] slice(s), slice={[0:2]}
//                                                            =>
//   a0 = f32[2] slice(a), slice={[0:2]}
//   b0 = f32[2] slice(b), slice={[0:2]}
//   r = f32[2] add(a0, b0)

enum { LATEST_USES = 8 };

// The same slice of another array: an equal one made lately, or a new one.
static HlInst *slice_of(HlInst *of, const HlInst *slice, const HlShape *shape) {
  int tries = 0;
  for (const HlUse *use = of->last_use; use && tries < LATEST_USES; use = use->prev, tries++)
    if (use->user->op == HL_OP_SLICE && same_slice(use->user, slice) && !hl_sharding(use->user) &&
        use->user->shape == shape)
      return use->user;
  HlInst *made = slice_like(of, slice, shape);
  hl_remove_attr(made, HL_A_SHARDING);
  return made;
}

static HlInst *hoist_over_binary(HlInst *slice) {
  const HlInst *binary = slice->operands[0];
  HlInst *operands[2];
  for (int k = 0; k < 2; k++)
    operands[k] = slice_of(binary->operands[k], slice, slice->shape);
  HlInst *made = hl_inst_copy(slice->comp, binary, slice->shape, 2, operands);
  hl_remove_attr(made, HL_A_SHARDING);
  return made;
}

// Dimension k of the transpose is dimension permutation[k] of its operand.
static HlInst *hoist_over_transpose(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *transpose = slice->operands[0];
  const HlI64s permutation = hl_dims(transpose), box = hl_attr_ints(slice, HL_A_SLICE);
  int64_t *start = HL_ARRAY(p->arena, int64_t, permutation.n);
  int64_t *limit = HL_ARRAY(p->arena, int64_t, permutation.n);
  int64_t *stride = HL_ARRAY(p->arena, int64_t, permutation.n);
  for (int k = 0; k < permutation.n; k++) {
    const int64_t d = permutation.at[k];
    start[d] = box.at[3 * k];
    limit[d] = box.at[3 * k + 1];
    stride[d] = box.at[3 * k + 2];
  }
  return hl_b_transpose(b, hl_b_slice(b, transpose->operands[0], start, limit, stride),
                        permutation);
}

static bool is_plain_binary(const HlInst *inst, const HlInst *slice) {
  return inst->n_operands == 2 && hl_is_elementwise(inst) &&
         inst->operands[0]->shape == inst->operands[1]->shape &&
         inst->operands[0]->shape->dtype == slice->shape->dtype &&
         inst->shape->dtype == slice->shape->dtype;
}

static void hoist(HlPass *p, HlInst *slice) {
  const HlInst *over = slice->operands[0];
  if (hl_shape_is_dynamic(over->shape) ||
      !(is_plain_binary(over, slice) || over->op == HL_OP_TRANSPOSE))
    return;
  HlBuild b;
  hl_begin(p, "hoist", slice, &b);
  hl_commit(p, over->op == HL_OP_TRANSPOSE ? hoist_over_transpose(p, &b, slice)
                                           : hoist_over_binary(slice));
}

// New slices come to the end of the list of those made, and are hoisted further from there.
bool pass_slice_hoister(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (uint32_t id = 0; id < comps[k]->next_id; id++) {
      HlInst *inst = comps[k]->by_id[id];
      if (inst && inst->op == HL_OP_SLICE)
        hoist(p, inst);
    }
  return true;
}

// --- dead-dus-elimination -----------------------------------------------------------------------
//
//   d = f32[8] dynamic-update-slice(x, u, c0), c0 = 0, u: f32[2]
//   s = f32[4] slice(d), slice={[4:8]}           =>   s = f32[4] slice(x), slice={[4:8]}

// Where the update starts in each dimension, or false.
static bool find_start(const HlInst *update, int64_t *start) {
  const HlShape *whole = update->shape, *box = update->operands[1]->shape;
  if ((int)update->n_operands != 2 + whole->rank)
    return false;
  for (int d = 0; d < whole->rank; d++) {
    const HlInst *index = update->operands[2 + d];
    if (!hl_is_constant(index))
      return false;
    int64_t at = hl_literal_i64(hl_constant(index), 0);
    if (hl_is_unsigned(index->shape->dtype) && at < 0)
      at = INT64_MAX;
    const int64_t most = whole->dim[d] - box->dim[d];
    start[d] = at < 0 ? 0 : at > most ? most : at;
  }
  return true;
}

static bool is_outside(const HlInst *slice, const int64_t *start, const HlShape *box) {
  const HlI64s at = hl_attr_ints(slice, HL_A_SLICE);
  for (int d = 0; d < box->rank; d++)
    if (at.at[3 * d + 1] <= start[d] || at.at[3 * d] >= start[d] + box->dim[d])
      return true;
  return false;
}

static bool is_unread(HlPass *p, const HlInst *update) {
  int64_t *start = HL_ARRAY(p->arena, int64_t, update->shape->rank + 1);
  if (update == update->comp->root || !update->first_use || hl_shape_is_dynamic(update->shape) ||
      !find_start(update, start))
    return false;
  for (const HlUse *use = update->first_use; use; use = use->next)
    if (use->user->op != HL_OP_SLICE || !is_outside(use->user, start, update->operands[1]->shape))
      return false;
  return true;
}

bool pass_dead_dus_elimination(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->last, *prev; inst; inst = prev) {
      prev = inst->prev;
      HlMark mark = hl_arena_mark(p->arena);
      const bool unread = inst->op == HL_OP_DYNAMIC_UPDATE_SLICE && is_unread(p, inst);
      hl_arena_release(p->arena, mark);
      p->keep_operands = true;
      if (unread)
        hl_replace(p, "unread-update", inst, inst->operands[0]);
    }
  return true;
}
