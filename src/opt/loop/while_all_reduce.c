// opt/loop/while_all_reduce.c
//
// while-loop-all-reduce-code-motion: what every iteration sums over the devices and adds to a slot that
// nothing else in the loop reads, each device adds up by itself; one all-reduce behind the loop
// does the rest.
//
//   (i, s) = while((0, s0)), body: (i + 1, s + all-reduce(x))
//   =>  (i, l) = while((0, 0)), body: (i + 1, l + x);  s = s0 + all-reduce(l)
//
// The same with multiply, minimum and maximum, where the all-reduce is of the same op. What every
// iteration sums and writes into its place of an array that nothing else in the loop reads, each device
// writes as it is, all in the same place; where no iteration writes, the array must hold what sums leave
// alone:
//
//   (i, a) = while((0, zeros)), body: (i + 1, dynamic-update-slice(a, all-reduce(x), i))
//   =>  (i, l) = while((0, zeros)), body: (i + 1, dynamic-update-slice(l, x, i));
//       a = all-reduce(l)

#include "opt/ask/loops.h"
#include "opt/ask/reducers.h"
#include "opt/passes.h"

typedef struct Sums {
  HlPass *p;
  HlInst *loop;
  HlInst **sum;                   // by slot: the all-reduce in the body; NULL: the slot stays
  HlInst **reshape;               // by slot: what stands between it and the dynamic-update-slice
  LoopElements elements, tested;  // of the body, of the condition
} Sums;

// The only use of slot k in the body, or NULL if there are others, there or in the condition.
static HlInst *only_reader(const Sums *s, int k) {
  HlInst *reader = NULL;
  if (loop_reads(&s->tested, k))
    return NULL;
  for (HlInst *inst = s->elements.first[k]; inst; inst = s->elements.next[inst->id])
    for (const HlUse *read = inst->first_use; read; read = read->next) {
      if (reader)
        return NULL;
      reader = read->user;
    }
  return reader;
}

static bool can_move(const HlInst *sum, HlOp op) {
  return sum->op == HL_OP_ALL_REDUCE && sum->n_operands == 1 && hl_shape_is_array(sum->shape) &&
         sum->shape == sum->operands[0]->shape && !hl_has_control(sum) && sum != sum->comp->root &&
         sum->first_use == sum->last_use && hl_reducer(hl_to_apply(sum)) == op &&
         !hl_shape_is_dynamic(sum->shape) && !hl_is_complex(sum->shape->dtype);
}

// Sums of it over any number of devices are it again.
static bool is_neutral(const HlInst *init, HlOp op) {
  return op == HL_OP_ADD ? hl_is_all(init, 0) : op == HL_OP_MULTIPLY && hl_is_all(init, 1);
}

// Computed by a few scalar operations from constants and the slot that counts iterations from a
// constant: then it is the same on all devices.
static bool is_uniform(const HlInst *loop, int counter, const HlInst *index) {
  enum { MOST = 16 };
  const HlInst *waiting[MOST];
  int n = 0, seen = 0;
  waiting[n++] = index;
  while (n > 0) {
    const HlInst *inst = waiting[--n];
    if (inst->op == HL_OP_CONSTANT)
      continue;
    if (loop_slot_of(inst) >= 0) {
      if (loop_slot_of(inst) != counter ||
          loop->operands[0]->operands[counter]->op != HL_OP_CONSTANT)
        return false;
      continue;
    }
    if (!hl_is_elementwise(inst) || inst->n_operands == 0 || ++seen > MOST)
      return false;
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      if (n == MOST)
        return false;
      waiting[n++] = inst->operands[k];
    }
  }
  return true;
}

static bool has_uniform_place(HlPass *p, const HlInst *loop, const HlInst *into) {
  const int counter = loop_induction_slot(p, loop);
  for (uint32_t k = 2; k < into->n_operands; k++)
    if (!is_uniform(loop, counter, into->operands[k]))
      return false;
  return counter >= 0;
}

// The all-reduce that is written into slot k; NULL: none.
static HlInst *written(Sums *s, int k) {
  const HlInst *loop = s->loop, *init = loop->operands[0];
  HlInst *into = loop_next(loop, k), *sum = into->operands[1];
  if (init->op != HL_OP_TUPLE || loop_slot_of(into->operands[0]) != k ||
      only_reader(s, k) != into || hl_has_control(into) || into->first_use != into->last_use ||
      into->shape != loop->shape->element[k])
    return NULL;
  if (!has_uniform_place(s->p, loop, into))
    return NULL;
  if (sum->op == HL_OP_RESHAPE && sum->first_use == sum->last_use && !hl_has_control(sum)) {
    s->reshape[k] = sum;
    sum = sum->operands[0];
  }
  const HlOp op = sum->op == HL_OP_ALL_REDUCE ? hl_reducer(hl_to_apply(sum)) : HL_OP_COUNT;
  return is_neutral(init->operands[k], op) && can_move(sum, op) ? sum : NULL;
}

// The all-reduce that slot k gathers; NULL: it does something else.
static HlInst *gathered(Sums *s, int k) {
  const HlInst *loop = s->loop;
  HlInst *into = loop_next(loop, k);
  if (into->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    return written(s, k);
  if (into->n_operands != 2 || only_reader(s, k) != into || hl_has_control(into) ||
      into->first_use != into->last_use || into->shape != loop->shape->element[k])
    return NULL;
  if (into->op != HL_OP_ADD && into->op != HL_OP_MULTIPLY && into->op != HL_OP_MAXIMUM &&
      into->op != HL_OP_MINIMUM)
    return NULL;
  for (int side = 0; side < 2; side++)
    if (loop_slot_of(into->operands[1 - side]) == k &&
        can_move(into->operands[side], (HlOp)into->op))
      return into->operands[side];
  return NULL;
}

static HlInst *neutral(HlBuild *b, HlOp op, const HlShape *shape) {
  HlInst *x = hl_b_neutral(b, op, shape->dtype);
  return hl_b_broadcast(b, x, shape->rank, shape->dim, (HlI64s){0});
}

static bool is_written(const Sums *s, int k) {
  return loop_next(s->loop, k)->op == HL_OP_DYNAMIC_UPDATE_SLICE;
}

static void open(LoopPart *part, void *user) {
  const Sums *s = user;
  for (int k = 0; k < loop_slots(s->loop); k++) {
    HlInst *sum = s->sum[k];
    if (!sum)
      continue;
    HlInst *own = hl_b_element(&part->b, part->state, k);
    if (part->place == LOOP_IN_BODY) {
      part->map[sum->id] = own;  // not to be copied, nor asked for
    } else if (part->place == LOOP_AFTER) {
      HlInst *all = hl_inst_copy(part->b.comp, sum, own->shape, 1, &own);
      if (is_written(s, k)) {
        part->slot[k] = all;
        continue;
      }
      HlInst *init = hl_b_element(&part->b, s->loop->operands[0], k);
      part->slot[k] = hl_b_binary(&part->b, (HlOp)loop_next(s->loop, k)->op, init, all);
    }
  }
}

static HlInst *next_written(LoopPart *part, const Sums *s, int k, HlInst *own) {
  const HlInst *into = loop_next(s->loop, k);
  HlInst *x = loop_part_copy(part, s->sum[k]->operands[0]);
  HlInst **operands = HL_ARRAY(s->p->arena, HlInst *, into->n_operands);
  if (s->reshape[k])
    x = hl_inst_copy(part->b.comp, s->reshape[k], NULL, 1, &x);
  operands[0] = own;
  operands[1] = x;
  for (uint32_t j = 2; j < into->n_operands; j++)
    operands[j] = loop_part_copy(part, into->operands[j]);
  return hl_inst_copy(part->b.comp, into, NULL, (int)into->n_operands, operands);
}

static HlInst *next(LoopPart *part, int k, void *user) {
  const Sums *s = user;
  HlInst *own = hl_b_element(&part->b, part->state, k);
  if (is_written(s, k))
    return next_written(part, s, k, own);
  return hl_b_binary(&part->b, (HlOp)loop_next(s->loop, k)->op, own,
                     loop_part_copy(part, s->sum[k]->operands[0]));
}

static void move_sums(HlPass *p, HlInst *loop) {
  const int n = loop_slots(loop);
  Sums s = {.p = p,
            .loop = loop,
            .sum = HL_ARRAY(p->arena, HlInst *, n + 1),
            .reshape = HL_ARRAY(p->arena, HlInst *, n + 1),
            .elements = loop_elements(p, hl_while_body(loop)),
            .tested = loop_elements(p, hl_while_condition(loop))};
  if (s.elements.has_other || s.tested.has_other)
    return;
  int n_operands = 0;
  for (int k = 0; k < n; k++) {
    s.sum[k] = gathered(&s, k);
    n_operands += s.sum[k] ? (int)loop_next(loop, k)->n_operands : 0;
  }
  if (n_operands == 0)
    return;
  LoopPlan plan = loop_plan_all(p, loop, n_operands);
  plan.open = open, plan.next = next, plan.user = &s;
  HlBuild b;
  hl_begin(p, "all-reduce", loop, &b);
  for (int k = 0; k < n; k++) {
    const HlInst *into = loop_next(loop, k);
    if (!s.sum[k])
      continue;
    loop_plan_take(&plan, k, s.sum[k]->operands[0]);
    if (!is_written(&s, k))
      plan.init[k] = neutral(&b, (HlOp)into->op, loop->shape->element[k]);
    for (uint32_t j = 2; j < into->n_operands; j++)
      loop_plan_use(&plan, into->operands[j]);
  }
  loop_plan_commit(p, &b, &plan);
}

bool pass_while_all_reduce(HlPass *p) {
  loop_each(p, move_sums);
  return true;
}
