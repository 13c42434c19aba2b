// opt/simplify/reshape_mover.c: reshape-mover: moves reshapes and transposes down past elementwise ops.
//
//   rx = f32[6] reshape(x)               x, y: f32[2,3]
//   ry = f32[6] reshape(y)          =>   s1 = f32[2,3] add(x, y)
//   s = f32[6] add(rx, ry)               s = f32[6] reshape(s1)
//
// One reshape takes the place of several, and may meet another one below that undoes it. All
// operands must be rearranged in the same way, or be such that rearranging them costs nothing: a
// constant, a broadcast that is one as well the other way round. And it must pay: a rearrangement
// that has another user stays where it is, so those that use it stay too.

#include <stdlib.h>

#include "ir/vecs.h"
#include "opt/passes.h"

enum {
  REACH = 4
};  // from what a broadcast broadcasts, through it and a rearrangement, to who may move

typedef struct Mover {
  HlPass *p;
  bool cheap_1d;  // reshape_of_1d_broadcast_is_cheap
  bool *moves;    // by id of the computation at hand: the op is to move above its rearrangements
  bool *asked;    // by id: a rearrangement that was asked whether it stays
  InstVec candidates;  // of the computation at hand
} Mover;

static bool is_rearrange(const HlInst *inst) {
  return inst->op == HL_OP_RESHAPE || inst->op == HL_OP_TRANSPOSE;
}

static bool same_rearrange(const HlInst *a, const HlInst *b) {
  if (a->op != b->op || !hl_shape_same_dims(a->shape, b->shape))
    return false;
  if (a->op == HL_OP_TRANSPOSE)
    return hl_i64s_equal(hl_dims(a), hl_dims(b));
  return hl_shape_same_dims(a->operands[0]->shape, b->operands[0]->shape);
}

static bool is_identity(const HlInst *rearrange) {
  if (rearrange->op == HL_OP_RESHAPE)
    return hl_shape_same_dims(rearrange->shape, rearrange->operands[0]->shape);
  const HlI64s permutation = hl_dims(rearrange);
  for (int k = 0; k < permutation.n; k++)
    if (permutation.at[k] != k)
      return false;
  return true;
}

// --- What can be rearranged for nothing ----------------------------------------------------------

static bool is_sorted(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k - 1] > list.at[k])
      return false;
  return true;
}

static int true_rank(const HlShape *shape) {
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += shape->dim[k] != 1;
  return n;
}

// Whether each of these dimensions has a counterpart of its size before the reshape, with as many
// elements in front of it.
static bool leaves_dims(const HlInst *reshape, HlI64s dims) {
  const HlShape *from = reshape->shape, *to = reshape->operands[0]->shape;
  for (int k = 0; k < dims.n; k++) {
    int64_t before = 1, found = 1;
    for (int d = 0; d < dims.at[k]; d++)
      before *= from->dim[d];
    int d = 0;
    while (d < to->rank && (found < before || to->dim[d] != from->dim[dims.at[k]]) &&
           found <= before)
      found *= to->dim[d++];
    if (d == to->rank || found != before)
      return false;
  }
  return true;
}

// Whether the dimensions keep their order when the transpose is undone: dimension d of the result
// is dimension permutation[d] of the operand.
static bool keeps_order(const HlInst *transpose, HlI64s dims) {
  const HlI64s permutation = hl_dims(transpose);
  for (int k = 1; k < dims.n; k++)
    if (permutation.at[dims.at[k - 1]] > permutation.at[dims.at[k]])
      return false;
  return true;
}

static bool is_free(const Mover *m, const HlInst *inst, const HlInst *rearrange) {
  if (is_identity(rearrange) || inst->op == HL_OP_CONSTANT)
    return true;
  if (inst->op == HL_OP_RNG)
    return hl_n_users(inst) == 1;
  if (inst->op != HL_OP_BROADCAST || !is_sorted(hl_dims(inst)))
    return false;
  if (rearrange->op == HL_OP_TRANSPOSE)
    return keeps_order(rearrange, hl_dims(inst));
  const HlShape *source = inst->operands[0]->shape;
  return hl_shape_is_scalar(source) ||
         (m->cheap_1d && (true_rank(source) <= 1 || leaves_dims(rearrange, hl_dims(inst))));
}

// --- Candidates ---------------------------------------------------------------------------------

// The rearrangement among the operands that gives the direction, or NULL.
static const HlInst *leading_rearrange(const Mover *m, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (is_rearrange(inst->operands[k]) &&
        !is_free(m, inst->operands[k]->operands[0], inst->operands[k]))
      return inst->operands[k];
  return NULL;
}

static bool goes_elementwise(const HlInst *inst) {
  if (inst->op == HL_OP_COPY)
    return true;
  if (inst->op == HL_OP_BITCAST_CONVERT)
    return hl_shape_same_dims(inst->shape, inst->operands[0]->shape);
  return hl_is_elementwise(inst);
}

static bool has_plain_shapes(const HlInst *inst) {
  if (hl_shape_is_dynamic(inst->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (hl_shape_is_dynamic(shape) || !hl_shape_same_dims(shape, inst->shape))
      return false;
  }
  return true;
}

static bool is_candidate(const Mover *m, const HlInst *inst) {
  if (inst->n_operands == 0 || !goes_elementwise(inst))
    return false;
  const HlInst *rearrange = leading_rearrange(m, inst);
  if (!rearrange || !has_plain_shapes(inst) || hl_shape_is_dynamic(rearrange->operands[0]->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (is_rearrange(operand) ? !same_rearrange(operand, rearrange)
                              : !is_free(m, operand, rearrange))
      return false;
  }
  return true;
}

static void consider(Mover *m, HlInst *inst) {
  if (m->moves[inst->id] || !is_candidate(m, inst))
    return;
  m->moves[inst->id] = true;
  vec_push(&m->candidates, inst);
}

static void consider_users(Mover *m, const HlInst *rearrange) {
  if (m->asked[rearrange->id])
    return;
  m->asked[rearrange->id] = true;
  for (const HlUse *use = rearrange->first_use; use; use = use->next)
    consider(m, use->user);
}

static int by_place(const void *a, const void *b) {
  const HlInst *x = *(HlInst *const *)a, *y = *(HlInst *const *)b;
  return x == y ? 0 : hl_stands_before(x, y) ? -1 : 1;
}

// Those among the changes, and those that share a rearrangement with one of them and so decide with it.
static void find_candidates(Mover *m, HlComp *comp) {
  int n_changes;
  HlInst **changes = hl_pass_changes(m->p, comp, REACH, &n_changes);
  m->moves = HL_ARRAY(m->p->arena, bool, comp->next_id);
  m->asked = HL_ARRAY(m->p->arena, bool, comp->next_id);
  m->candidates.n = 0;
  for (int k = 0; k < n_changes; k++) {
    consider(m, changes[k]);
    if (is_rearrange(changes[k]))
      consider_users(m, changes[k]);
  }
  for (int k = 0; k < m->candidates.n; k++) {
    const HlInst *inst = m->candidates.at[k];
    for (uint32_t o = 0; o < inst->n_operands; o++)
      if (is_rearrange(inst->operands[o]))
        consider_users(m, inst->operands[o]);
  }
  if (m->candidates.n > 1)
    qsort(m->candidates.at, (size_t)m->candidates.n, sizeof(HlInst *), by_place);
}

static bool stays(const Mover *m, const HlInst *rearrange) {
  for (const HlUse *use = rearrange->first_use; use; use = use->next)
    if (!m->moves[use->user->id])
      return true;
  return false;
}

// All users of a rearrangement that stays are no longer candidates; then other rearrangements that
// they use stay as well.
static void keep_users(Mover *m, HlInst *rearrange, InstVec *waiting) {
  for (const HlUse *use = rearrange->first_use; use; use = use->next) {
    HlInst *user = use->user;
    if (!m->moves[user->id])
      continue;
    m->moves[user->id] = false;
    for (uint32_t k = 0; k < user->n_operands; k++)
      if (is_rearrange(user->operands[k]))
        vec_push(waiting, user->operands[k]);
  }
}

static void prune(Mover *m) {
  InstVec waiting = {0};
  for (int c = 0; c < m->candidates.n; c++)
    for (uint32_t k = 0; k < m->candidates.at[c]->n_operands; k++) {
      HlInst *operand = m->candidates.at[c]->operands[k];
      if (!is_rearrange(operand) || m->asked[operand->id])
        continue;
      m->asked[operand->id] = true;
      if (stays(m, operand))
        vec_push(&waiting, operand);
    }
  while (waiting.n > 0)
    keep_users(m, vec_pop(&waiting), &waiting);
  vec_free(&waiting);
}

// --- Moving -------------------------------------------------------------------------------------

static HlI64s inverse(HlArena *arena, HlI64s permutation) {
  int64_t *at = HL_ARRAY(arena, int64_t, permutation.n);
  for (int k = 0; k < permutation.n; k++)
    at[permutation.at[k]] = k;
  return (HlI64s){at, permutation.n};
}

// That of what is rearranged, layout and all.
static const HlShape *source_shape(const HlInst *rearrange, HlDtype dtype) {
  return hl_shape_with_dtype(rearrange->comp->module->shapes, rearrange->operands[0]->shape, dtype);
}

// What undoes the rearrangement of an operand counts as part of that operand.
static HlInst *undo(HlPass *p, HlBuild *of, const HlInst *rearrange, HlInst *operand) {
  HlBuild own = *of, *b = &own;
  own.metadata = hl_metadata(operand);
  if (rearrange->op == HL_OP_TRANSPOSE)
    return hl_b_transpose(b, operand, inverse(p->arena, hl_dims(rearrange)));
  const HlShape *shape = source_shape(rearrange, operand->shape->dtype);
  if (operand->op == HL_OP_RESHAPE && hl_shape_equal(operand->operands[0]->shape, shape))
    return operand->operands[0];
  return hl_b_op(b, HL_OP_RESHAPE, shape, 1, &operand, 0, NULL, 0, NULL);
}

static void move(Mover *m, HlInst *inst) {
  HlPass *p = m->p;
  const HlInst *rearrange = leading_rearrange(m, inst);
  if (!rearrange)
    return;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  HlBuild b;
  hl_begin(p, "sink", inst, &b);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!(operands[k] = undo(p, &b, rearrange, inst->operands[k]))) {
      hl_drop(p);
      return;
    }
  HlInst *moved = hl_inst_copy(inst->comp, inst, source_shape(rearrange, inst->shape->dtype),
                               (int)inst->n_operands, operands);
  hl_remove_attr(moved, HL_A_SHARDING);
  hl_commit(p, rearrange->op == HL_OP_TRANSPOSE
                   ? hl_b_transpose(&b, moved, hl_dims(rearrange))
                   : hl_b_reshape(&b, moved, inst->shape->rank, inst->shape->dim));
}

static void move_in(Mover *m, HlComp *comp) {
  if (!hl_comp_may_have(comp, HL_OP_RESHAPE) && !hl_comp_may_have(comp, HL_OP_TRANSPOSE))
    return;
  find_candidates(m, comp);
  const InstVec *insts = &m->candidates;
  if (insts->n == 0)
    return;
  m->asked = HL_ARRAY(m->p->arena, bool, comp->next_id);
  prune(m);
  for (int k = 0; k < insts->n; k++)
    if (m->moves[insts->at[k]->id] && hl_alive(insts->at[k]))
      move(m, insts->at[k]);
}

bool pass_reshape_mover(HlPass *p) {
  Mover m = {.p = p, .cheap_1d = hl_pass_flag(p, "reshape_of_1d_broadcast_is_cheap")};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    HlMark mark = hl_arena_mark(p->arena);
    move_in(&m, comps[k]);
    hl_arena_release(p->arena, mark);
  }
  vec_free(&m.candidates);
  return true;
}
