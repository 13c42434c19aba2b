// opt/while_concat.c
//
// while-loop-concat-code-motion: slots that every turn puts together, and cuts apart again for the
// next turn, are carried as one.
//
//   (i, a, b) = while((0, a0, b0)), body: v = f(concatenate(a, b)); (i + 1, v[0:2], v[2:4])
//   =>  (i, c) = while((0, concatenate(a0, b0))), body: v = f(c); (i + 1, v)
//       a = c[0:2], b = c[2:4]

#include "opt/loops.h"

bool pass_while_concat(HlPass *p);

// A concatenate of slots, and what the body cuts into them.
typedef struct Joint {
  HlInst *concat, *whole;
  int64_t dim;
} Joint;

typedef struct Joints {
  HlInst *loop;
  Joint *joint;
  int n, n_kept;    // joints; slots that stay
  int *of;          // by slot: its joint, or -1
  int64_t *offset;  // by slot: where it stands in it
} Joints;

// Nothing reads slot k but the concatenate, once.
static bool is_only_for(const HlInst *concat, const LoopElements *elements, int k) {
  const HlInst *element = elements->first[k];
  return element && !elements->next[element->id] && element->first_use == element->last_use &&
         element->first_use && element->first_use->user == concat;
}

// The next value of a slot is the piece [offset, offset + size) of `whole` along the dimension.
static bool is_piece(const HlInst *next, const HlInst *whole, int64_t dim, int64_t offset,
                     int64_t size) {
  if (next->op != HL_OP_SLICE || next->operands[0] != whole || hl_has_control(next))
    return false;
  HlI64s slice = hl_attr_ints(next, HL_A_SLICE);
  for (int d = 0; d < whole->shape->rank; d++) {
    const int64_t start = d == dim ? offset : 0, n = d == dim ? size : whole->shape->dim[d];
    if (slice.at[3 * d] != start || slice.at[3 * d + 1] != start + n || slice.at[3 * d + 2] != 1)
      return false;
  }
  return true;
}

static bool is_joint(const HlInst *loop, HlInst *concat, const LoopElements *elements,
                     const LoopElements *tested, Joint *out) {
  if (concat->op != HL_OP_CONCATENATE || concat->n_operands < 2 || hl_has_control(concat) ||
      hl_shape_is_dynamic(concat->shape))
    return false;
  *out = (Joint){concat, NULL, hl_dim(concat)};
  int64_t offset = 0;
  for (uint32_t j = 0; j < concat->n_operands; j++) {
    int k = loop_slot_of(concat->operands[j]);
    if (k < 0 || !is_only_for(concat, elements, k) || tested->first[k])
      return false;
    HlInst *next = loop_next(loop, k);
    if (j == 0)
      out->whole = next->op == HL_OP_SLICE ? next->operands[0] : NULL;
    const int64_t size = concat->operands[j]->shape->dim[out->dim];
    if (!out->whole || out->whole->shape != concat->shape ||
        !is_piece(next, out->whole, out->dim, offset, size))
      return false;
    offset += size;
  }
  return true;
}

static void add_joint(Joints *s, const Joint *joint) {
  int64_t offset = 0;
  for (uint32_t j = 0; j < joint->concat->n_operands; j++) {
    const HlInst *element = joint->concat->operands[j];
    s->of[loop_slot_of(element)] = s->n;
    s->offset[loop_slot_of(element)] = offset;
    offset += element->shape->dim[joint->dim];
  }
  s->joint[s->n++] = *joint;
}

static void open(LoopPart *part, void *user) {
  const Joints *s = user;
  if (part->place == LOOP_IN_BODY)
    for (int k = 0; k < s->n; k++)
      part->map[s->joint[k].concat->id] = hl_b_element(&part->b, part->state, s->n_kept + k);
  for (int k = 0; part->place == LOOP_AFTER && k < loop_slots(s->loop); k++) {
    if (s->of[k] < 0)
      continue;
    const Joint *joint = &s->joint[s->of[k]];
    HlInst *whole = hl_b_element(&part->b, part->state, s->n_kept + s->of[k]);
    const int64_t size = s->loop->shape->element[k]->dim[joint->dim];
    part->slot[k] =
        hl_b_slice_dim(&part->b, whole, (int)joint->dim, s->offset[k], s->offset[k] + size);
  }
}

static HlInst *next(LoopPart *part, int k, void *user) {
  const Joints *s = user;
  return loop_part_copy(part, s->joint[k - s->n_kept].whole);
}

static HlInst *joined_init(HlPass *p, HlBuild *b, const Joints *s, const Joint *joint) {
  const int n = (int)joint->concat->n_operands;
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, n);
  for (int j = 0; j < n; j++)
    parts[j] = hl_b_element(b, s->loop->operands[0], loop_slot_of(joint->concat->operands[j]));
  return hl_b_concatenate(b, n, parts, joint->dim);
}

static bool find_joints(HlPass *p, Joints *s) {
  const HlComp *body = hl_while_body(s->loop);
  const int n = loop_slots(s->loop);
  LoopElements elements = loop_elements(p, body);
  LoopElements tested = loop_elements(p, hl_while_condition(s->loop));
  s->joint = HL_ARRAY(p->arena, Joint, n + 1);
  s->of = HL_ARRAY(p->arena, int, n + 1);
  s->offset = HL_ARRAY(p->arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    s->of[k] = -1;
  if (elements.has_other || tested.has_other)
    return false;
  for (HlInst *inst = body->first; inst; inst = inst->next) {
    Joint joint;
    if (is_joint(s->loop, inst, &elements, &tested, &joint))
      add_joint(s, &joint);
  }
  return s->n > 0;
}

static void join_slots(HlPass *p, HlInst *loop) {
  Joints s = {.loop = loop};
  if (!find_joints(p, &s))
    return;
  const int n = loop_slots(loop);
  int *at = HL_ARRAY(p->arena, int, n + 1), *from = HL_ARRAY(p->arena, int, n + 1);
  HlInst **init = HL_ARRAY(p->arena, HlInst *, n + 1), **used = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlBuild b;
  hl_begin(p, "concat", loop, &b);
  for (int k = 0; k < n; k++) {
    at[k] = -1;
    if (s.of[k] >= 0)
      continue;
    at[k] = s.n_kept;
    from[s.n_kept] = k;
    init[s.n_kept++] = hl_b_element(&b, loop->operands[0], k);
  }
  for (int k = 0; k < s.n; k++) {
    from[s.n_kept + k] = -1;
    init[s.n_kept + k] = joined_init(p, &b, &s, &s.joint[k]);
    used[k] = s.joint[k].whole;
  }
  LoopPlan plan = {.loop = loop,
                   .prefix = "",
                   .suffix = ".joined",
                   .n = s.n_kept + s.n,
                   .init = init,
                   .at = at,
                   .from = from,
                   .open = open,
                   .next = next,
                   .used = used,
                   .n_used = s.n,
                   .user = &s};
  loop_commit(p, loop, loop_rebuild(p, &b, &plan));
}

bool pass_while_concat(HlPass *p) {
  loop_each(p, join_slots);
  return true;
}
