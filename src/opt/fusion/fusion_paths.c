// opt/fusion/fusion_paths.c: which producers had better not be copied into their users.
//
// A producer that reads more than it writes, say add(x, y) for two large arrays, makes every kernel
// it is copied into read x and y instead of one array. That is worth it only if it then need not
// be computed by itself at all: if every step of every path from it to each of its users can be
// fused.

#include <stdlib.h>

#include "opt/fusion/fuser.h"

static int true_rank(const HlShape *shape) {
  int rank = 0;
  for (int k = 0; k < shape->rank; k++)
    rank += shape->dim[k] != 1;
  return rank;
}

static int result_rank(const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return true_rank(shape);
  int rank = 0;
  for (int k = 0; k < shape->rank && hl_shape_is_tuple(shape); k++) {
    int inner = result_rank(shape->element[k]);
    rank = inner > rank ? inner : rank;
  }
  return rank;
}

static bool is_negligible(const HlInst *operand, int rank) {
  if (operand->op == HL_OP_BROADCAST || operand->op == HL_OP_IOTA)
    return true;
  if (operand->op == HL_OP_CONSTANT && hl_is_effective_scalar(operand->shape))
    return true;
  int own = hl_shape_is_array(operand->shape) ? true_rank(operand->shape) : 0;
  return own < rank;
}

// Reads at most one large array.
static bool is_effectively_unary(const HlInst *inst) {
  int rank = result_rank(inst->shape), n = 0;
  for (uint32_t k = 0; k < inst->n_operands && n < 2; k++)
    n += !is_negligible(inst->operands[k], rank);
  return n <= 1;
}

static double total_elements(const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return (double)hl_shape_elements(shape);
  double n = 0;
  for (int k = 0; k < shape->rank && hl_shape_is_tuple(shape); k++)
    n += total_elements(shape->element[k]);
  return n;
}

enum { MANY_OPERANDS = 64 };  // beyond that, operands that come twice count twice

static bool writes_no_less(const HlInst *inst) {
  double in = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    bool is_first = true;
    for (uint32_t j = 0; is_first && j < k && inst->n_operands <= MANY_OPERANDS; j++)
      is_first = inst->operands[j] != inst->operands[k];
    if (is_first)
      in += total_elements(inst->operands[k]->shape);
  }
  return in <= total_elements(inst->shape);
}

// --- Paths --------------------------------------------------------------------------------------

static bool fuses_into_users(Fuser *f, const HlInst *producer) {
  for (const HlUse *use = producer->first_use; use; use = use->next)
    if (!fusion_is_fusible(use->user) || f->policy->refuses(f, use->user, use->number))
      return false;
  return true;
}

// What stands between a producer and its users. Where it is more than this, they are far apart, and
// not everything between will fuse.
enum { MAX_BETWEEN = 2000, MAX_STEPS = 10 * MAX_BETWEEN };

typedef struct Placed {
  HlInst *inst;
  int place;
} Placed;

typedef struct Between {
  Placed at[MAX_BETWEEN];
  int n;
} Between;

static bool add_between(const Fuser *f, Between *between, uint32_t *seen, HlInst *inst,
                        const HlInst *producer) {
  if (seen[inst->id] == producer->id + 1 || f->place[inst->id] <= f->place[producer->id])
    return true;
  seen[inst->id] = producer->id + 1;
  if (between->n == MAX_BETWEEN)
    return false;
  between->at[between->n++] = (Placed){inst, f->place[inst->id]};
  return true;
}

// All that the users need and that comes after the producer, users included.
static bool find_between(const Fuser *f, Between *between, uint32_t *seen, const HlInst *producer) {
  between->n = 0;
  for (const HlUse *use = producer->first_use; use; use = use->next)
    if (!add_between(f, between, seen, use->user, producer))
      return false;
  int steps = 0;
  for (int k = 0; k < between->n; k++)
    for (uint32_t o = 0; o < between->at[k].inst->n_operands; o++)
      if (++steps > MAX_STEPS ||
          !add_between(f, between, seen, between->at[k].inst->operands[o], producer))
        return false;
  return true;
}

static int by_place(const void *a, const void *b) {
  int x = ((const Placed *)a)->place, y = ((const Placed *)b)->place;
  return x < y ? -1 : x > y;
}

// Marks in `on_path` (with the producer's id + 1) what depends on the producer, and tries each
// step.
static bool steps_fuse(Fuser *f, Between *between, uint32_t *on_path, const HlInst *producer) {
  qsort(between->at, (size_t)between->n, sizeof *between->at, by_place);
  uint32_t mark = producer->id + 1;
  on_path[producer->id] = mark;
  for (int k = 0; k < between->n; k++) {
    HlInst *inst = between->at[k].inst;
    for (uint32_t o = 0; o < inst->n_operands; o++) {
      const HlInst *operand = inst->operands[o];
      if (on_path[operand->id] != mark)
        continue;
      on_path[inst->id] = mark;
      if (!fusion_is_fusible(inst) || f->keep_whole[operand->id] ||
          f->policy->refuses(f, inst, (int)o))
        return false;
    }
  }
  return true;
}

static bool has_one_user(const HlInst *inst) {
  return !inst->first_use || inst->first_use->user == inst->last_use->user;
}

void fuser_find_keep_whole(Fuser *f, HlInst *const *post_order, int n) {
  Between *between = HL_NEW(f->p->arena, Between);
  uint32_t *seen = HL_ARRAY(f->p->arena, uint32_t, f->comp->next_id);
  uint32_t *on_path = HL_ARRAY(f->p->arena, uint32_t, f->comp->next_id);
  for (int k = n - 1; k >= 0; k--) {
    HlInst *producer = post_order[k];
    if (is_effectively_unary(producer) || writes_no_less(producer))
      continue;
    bool ok = fusion_is_fusible(producer) && fuses_into_users(f, producer) &&
              (has_one_user(producer) || (find_between(f, between, seen, producer) &&
                                          steps_fuse(f, between, on_path, producer)));
    f->keep_whole[producer->id] = !ok;
  }
}
