// opt/bfloat16_propagation.c
//
// bfloat16-propagation: what is rounded to bf16 in the end is rounded before it is moved about.
//
//   t = f32[8,4] transpose(x)              c = bf16[4,8] convert(x)
//   s = f32[16,8,4] broadcast(t)     =>    t = bf16[8,4] transpose(c)
//   r = bf16[16,8,4] convert(s)            r = bf16[16,8,4] broadcast(t)
//
// Operations that only move or choose elements give the same bits either way, and so do maximum,
// minimum and clamp, as rounding keeps the order. A group of such operations changes as a whole: all that
// anybody reads of it must be rounded, and no more elements may be rounded than before. Half the
// bytes then go through memory, and between devices.

#include "hilo/pass.h"

bool pass_bfloat16_propagation(HlPass *p);

// Whether operand k takes elements that come out again as they are.
static bool passes_elements(const HlInst *inst, int k) {
  switch (inst->op) {
  case HL_OP_ALL_GATHER:
  case HL_OP_ALL_TO_ALL:
  case HL_OP_COLLECTIVE_PERMUTE:
  case HL_OP_COLLECTIVE_BROADCAST: return inst->n_operands == 1;
  case HL_OP_BROADCAST:
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_REVERSE:
  case HL_OP_SLICE:
  case HL_OP_TRANSPOSE:
  case HL_OP_CONCATENATE:
  case HL_OP_PAD:
  case HL_OP_CLAMP:
  case HL_OP_MAXIMUM:
  case HL_OP_MINIMUM: return true;
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_GATHER: return k == 0;
  case HL_OP_DYNAMIC_UPDATE_SLICE: return k < 2;
  case HL_OP_SELECT: return k > 0;
  default: return false;
  }
}

static bool is_rounding(const HlInst *inst) {
  return inst->op == HL_OP_CONVERT && inst->shape->dtype == HL_BF16 && !hl_has_control(inst) &&
         inst->operands[0]->shape->dtype == HL_F32;
}

typedef struct Group {
  HlPass *p;
  HlComp *comp;
  int *place;       // by id: in the list, operands first
  bool *moves;      // by id: it may compute in bf16
  int *group;       // by id: the number of the group that it is in or goes into; 0: none yet
  HlInst **narrow;  // by id: the bf16 form
  // The group at hand:
  int number;
  HlInst **member;
  HlInst **end;    // conversions behind it
  HlInst **input;  // f32 values that go into it
  int n, n_ends, n_inputs;
  int64_t rounded_before, rounded_after;
} Group;

static bool may_move(const Group *g, const HlInst *inst) {
  if (inst->shape->dtype != HL_F32 || !inst->first_use || inst == g->comp->root ||
      hl_has_control(inst) || hl_shape_is_dynamic(inst->shape) || hl_sharding(inst) ||
      hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING) || inst->n_operands == 0 ||
      !passes_elements(inst, inst->op == HL_OP_SELECT))
    return false;
  const HlShape *narrow = hl_shape_with_dtype(g->p->m->shapes, inst->shape, HL_BF16);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!(is_rounding(use->user) && use->user->shape == narrow) &&
        !(g->moves[use->user->id] && passes_elements(use->user, use->number)))
      return false;
  return true;
}

// A value of bf16 that was only widened, or NULL.
static HlInst *widened(const HlInst *inst) {
  return inst->op == HL_OP_CONVERT && inst->operands[0]->shape->dtype == HL_BF16 ? inst->operands[0]
                                                                                 : NULL;
}

static void add_member(Group *g, HlInst *inst) {
  if (g->group[inst->id] == g->number)
    return;
  g->group[inst->id] = g->number;
  g->member[g->n++] = inst;
}

static void add_neighbours(Group *g, HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (!passes_elements(inst, (int)k))
      continue;
    if (g->moves[operand->id]) {
      add_member(g, operand);
    } else if (g->group[operand->id] != g->number) {
      g->group[operand->id] = g->number;
      g->input[g->n_inputs++] = operand;
      if (!widened(operand) && !hl_is_constant(operand))
        g->rounded_after += hl_shape_elements(operand->shape);
    }
  }
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (g->moves[use->user->id]) {
      add_member(g, use->user);
    } else {
      g->end[g->n_ends++] = use->user;
      g->rounded_before += hl_shape_elements(use->user->shape);
    }
}

static void sort_members(Group *g) {  // by heap: lists may be long
  for (int size = g->n, start = g->n / 2; size > 1;) {
    int at;
    if (start > 0) {
      at = --start;
    } else {
      HlInst *swap = g->member[0];
      g->member[0] = g->member[--size];
      g->member[size] = swap;
      at = 0;
    }
    for (int child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && g->place[g->member[child + 1]->id] > g->place[g->member[child]->id])
        child++;
      if (g->place[g->member[child]->id] <= g->place[g->member[at]->id])
        break;
      HlInst *swap = g->member[at];
      g->member[at] = g->member[child];
      g->member[child] = swap;
    }
  }
}

// All that hangs together with it; false if that is not to change.
static bool find_group(Group *g, HlInst *inst) {
  g->number++;
  g->n = g->n_ends = g->n_inputs = 0;
  g->rounded_before = g->rounded_after = 0;
  add_member(g, inst);
  for (int k = 0; k < g->n; k++)
    add_neighbours(g, g->member[k]);
  sort_members(g);
  return g->rounded_after <= g->rounded_before;
}

static HlInst *to_bf16(HlBuild *b, HlInst *inst) {
  HlInst *narrow = widened(inst);
  if (narrow)
    return narrow;
  narrow = hl_b_convert(b, inst, HL_BF16);
  if (narrow)
    hl_set_shape(narrow, hl_shape_with_dtype(hl_b_module(b)->shapes, inst->shape, HL_BF16));
  return narrow;
}

static void narrow_group(Group *g) {
  HlPass *p = g->p;
  HlBuild b;
  hl_begin(p, "narrow", g->end[0], &b);
  for (int k = 0; k < g->n_inputs; k++)
    g->narrow[g->input[k]->id] = to_bf16(&b, g->input[k]);
  for (int k = 0; k < g->n; k++) {
    const HlInst *inst = g->member[k];
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t j = 0; j < inst->n_operands; j++)
      operands[j] =
          passes_elements(inst, (int)j) ? g->narrow[inst->operands[j]->id] : inst->operands[j];
    const HlShape *shape = hl_shape_with_dtype(p->m->shapes, inst->shape, HL_BF16);
    g->narrow[inst->id] = hl_inst_copy(g->comp, inst, shape, (int)inst->n_operands, operands);
    hl_inherit(g->narrow[inst->id], inst);
  }
  for (int k = 1; k < g->n_ends; k++)
    hl_also(p, g->end[k], g->narrow[g->end[k]->operands[0]->id]);
  hl_commit(p, g->narrow[g->end[0]->operands[0]->id]);
}

static void in_computation(HlPass *p, HlComp *comp) {
  const uint32_t n = comp->next_id + 1;
  int n_insts;
  HlInst **insts = hl_pass_insts(p, comp, &n_insts);
  size_t n_edges = 1;
  for (int k = 0; k < n_insts; k++)
    n_edges += insts[k]->n_operands;
  Group g = {.p = p,
             .comp = comp,
             .place = HL_ARRAY(p->arena, int, n),
             .moves = HL_ARRAY(p->arena, bool, n),
             .group = HL_ARRAY(p->arena, int, n),
             .narrow = HL_ARRAY(p->arena, HlInst *, n),
             .member = HL_ARRAY(p->arena, HlInst *, n),
             .end = HL_ARRAY(p->arena, HlInst *, n_edges),
             .input = HL_ARRAY(p->arena, HlInst *, n)};
  for (int k = n_insts - 1; k >= 0; k--) {
    g.place[insts[k]->id] = k;
    g.moves[insts[k]->id] = may_move(&g, insts[k]);
  }
  for (int k = 0; k < n_insts; k++)
    if (insts[k]->id < n && hl_alive(insts[k]) && g.moves[insts[k]->id] &&
        g.group[insts[k]->id] == 0 && find_group(&g, insts[k]))
      narrow_group(&g);
}

bool pass_bfloat16_propagation(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    in_computation(p, comps[k]);
  return true;
}
