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
//
// A loop carries in bf16 what is bf16 whenever a turn ends, or is only read to be rounded; a fusion
// writes in bf16 what everybody rounds:
//
//   body: f32[8] s -> convert(f(bf16[8] convert(s)))    =>    body: bf16[8] s -> f(s)

#include "opt/loops.h"

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

// --- Loops --------------------------------------------------------------------------------------

typedef struct Narrowing {
  HlPass *p;
  HlInst *loop;
  const HlShape **shape;  // by slot: the bf16 form; NULL: stays
  HlInst **value;         // by slot: the bf16 value that the body widens for it; NULL: none
  LoopElements body, condition;
  HlInst *result;  // the new loop
} Narrowing;

// The bf16 value that this one is, in f32.
static HlInst *widened_from(const HlInst *inst, const HlShape *narrow) {
  HlInst *from = inst ? widened(inst) : NULL;
  return from && from->shape == narrow && !hl_has_control(inst) ? from : NULL;
}

// How many round what is read here; -1: somebody does not.
static int count_roundings(const HlInst *read, const HlShape *narrow) {
  int n = 0;
  for (const HlUse *use = read->first_use; use; use = use->next) {
    if (use->user->op == HL_OP_TUPLE && use->user == read->comp->root &&
        loop_slot_of(read) == use->number)
      continue;
    if (!is_rounding(use->user) || use->user->shape != narrow)
      return -1;
    n++;
  }
  return n;
}

static int count_inside(const LoopElements *elements, int k, const HlShape *narrow) {
  int n = 0;
  for (const HlInst *read = elements->first[k]; read; read = elements->next[read->id]) {
    const int more = count_roundings(read, narrow);
    if (more < 0 || read->comp->root == read || hl_has_control(read))
      return -1;
    n += more;
  }
  return n;
}

static int count_behind(const HlInst *loop, int k, const HlShape *narrow) {
  int n = 0;
  for (const HlUse *use = loop->first_use; use; use = use->next) {
    if (hl_attr_int(use->user, HL_A_INDEX) != k)
      continue;
    int more = use->user->comp->root == use->user ? -1 : 0;
    for (const HlUse *read = use->user->first_use; read && more >= 0; read = read->next)
      more = is_rounding(read->user) && read->user->shape == narrow ? more + 1 : -1;
    if (more < 0)
      return -1;
    n += more;
  }
  return n;
}

// The slot holds bf16 whenever a turn ends; or everybody rounds it, at least as often as the new loop would.
static bool may_narrow(const Narrowing *w, int k, const HlShape *narrow) {
  const HlInst *init = loop_init(w->loop, k);
  const bool invariant = loop_is_invariant(w->loop, k);
  const bool next_known = invariant || widened_from(loop_next(w->loop, k), narrow);
  const bool init_known = widened_from(init, narrow) != NULL;
  if (next_known && init_known)
    return true;
  const int in_body = count_inside(&w->body, k, narrow), behind = count_behind(w->loop, k, narrow);
  const int in_condition = count_inside(&w->condition, k, narrow);
  if (in_body < 0 || behind < 0 || in_condition < 0)
    return false;
  const int each_turn = in_body + in_condition, more = !next_known;
  return each_turn >= more && (init_known || behind > 0 || each_turn > more);
}

static HlInst *with_shape(HlInst *inst, const HlShape *shape) {
  if (inst)
    hl_set_shape(inst, shape);
  return inst;
}

// Who rounds the slot gets it as it is; others get it widened.
static void read_narrow(LoopPart *part, void *user) {
  Narrowing *w = user;
  if (part->place == LOOP_AFTER)
    w->result = part->state;
  for (int k = 0; k < loop_slots(w->loop); k++) {
    if (!w->shape[k])
      continue;
    HlInst *element = hl_b_element(&part->b, part->state, k);
    part->slot[k] = with_shape(hl_b_convert(&part->b, element, HL_F32), w->loop->shape->element[k]);
    if (part->place == LOOP_AFTER)
      continue;
    const LoopElements *elements = part->place == LOOP_IN_BODY ? &w->body : &w->condition;
    for (const HlInst *read = elements->first[k]; read; read = elements->next[read->id])
      for (const HlUse *use = read->first_use; use; use = use->next)
        if (is_rounding(use->user) && use->user->shape == w->shape[k])
          part->map[use->user->id] = element;
  }
}

static HlInst *next_narrow(LoopPart *part, int k, void *user) {
  const Narrowing *w = user;
  if (loop_is_invariant(w->loop, k))
    return hl_b_element(&part->b, part->state, k);
  if (w->value[k])
    return loop_part_copy(part, w->value[k]);
  HlInst *wide = loop_part_copy(part, loop_next(w->loop, k));
  return with_shape(hl_b_convert(&part->b, wide, HL_BF16), w->shape[k]);
}

// What rounds the results of the old loop takes those of the new one.
static void take_results(Narrowing *w, HlBuild *b) {
  for (const HlUse *use = w->loop->first_use; use; use = use->next) {
    const int k = (int)hl_attr_int(use->user, HL_A_INDEX);
    HlInst *element = NULL;
    for (const HlUse *read = use->user->first_use; read && w->shape[k]; read = read->next) {
      if (!is_rounding(read->user) || read->user->shape != w->shape[k])
        continue;
      if (!element)
        element = hl_b_element(b, w->result, k);
      hl_also(w->p, read->user, element);
    }
  }
}

static void rebuild_loop(Narrowing *w) {
  HlPass *p = w->p;
  const int n = loop_slots(w->loop);
  int *at = HL_ARRAY(p->arena, int, n + 1);
  HlInst **init = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlInst **used = HL_ARRAY(p->arena, HlInst *, n + 1);
  LoopPlan plan = {.loop = w->loop,
                   .prefix = "",
                   .suffix = ".bf16",
                   .n = n,
                   .init = init,
                   .at = at,
                   .from = at,
                   .open = read_narrow,
                   .used = used,
                   .next = next_narrow,
                   .user = w};
  HlBuild b;
  hl_begin(p, "loop", w->loop, &b);
  for (int k = 0; k < n; k++) {
    at[k] = w->shape[k] ? -1 : k;
    init[k] = hl_b_element(&b, w->loop->operands[0], k);
    if (!w->shape[k])
      continue;
    HlInst *from = widened_from(init[k], w->shape[k]);
    init[k] = from ? from : with_shape(hl_b_convert(&b, init[k], HL_BF16), w->shape[k]);
    if (!loop_is_invariant(w->loop, k))
      used[plan.n_used++] = w->value[k] ? w->value[k] : loop_next(w->loop, k);
  }
  HlInst *by = loop_rebuild(p, &b, &plan);
  if (by)
    take_results(w, &b);
  if (by)
    loop_commit(p, w->loop, by);
  else
    hl_drop(p);
}

static void narrow_loop(HlPass *p, HlInst *loop) {
  if (!loop_is_open(loop) || !loop_owns_comps(loop) || hl_sharding(loop) ||
      hl_has_control(hl_while_body(loop)->root) || !hl_shapes_have_dtype(p->m->shapes, HL_BF16))
    return;
  const int n = loop_slots(loop);
  Narrowing w = {.p = p, .loop = loop};
  w.shape = HL_ARRAY(p->arena, const HlShape *, n + 1);
  w.value = HL_ARRAY(p->arena, HlInst *, n + 1);
  w.body = loop_elements(p, hl_while_body(loop));
  w.condition = loop_elements(p, hl_while_condition(loop));
  bool any = false;
  for (int k = 0; k < n; k++) {
    const HlShape *shape = loop->shape->element[k];
    if (shape->dtype != HL_F32 || hl_shape_is_dynamic(shape))
      continue;
    const HlShape *narrow = hl_shape_with_dtype(p->m->shapes, shape, HL_BF16);
    if (!may_narrow(&w, k, narrow))
      continue;
    w.shape[k] = narrow;
    w.value[k] = widened_from(loop_next(loop, k), narrow);
    any = true;
  }
  if (any)
    rebuild_loop(&w);
}

// --- Fusions ------------------------------------------------------------------------------------

static bool everybody_rounds(const HlInst *inst, const HlShape *narrow) {
  if (!inst->first_use || inst->comp->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!is_rounding(use->user) || use->user->shape != narrow)
      return false;
  return true;
}

static void narrow_fusion(HlPass *p, HlInst *fusion) {
  HlComp *body = hl_to_apply(fusion);
  if (fusion->shape->dtype != HL_F32 || hl_shape_is_dynamic(fusion->shape) ||
      hl_has_control(fusion) || hl_sharding(fusion) ||
      hl_attr_int(fusion, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM ||
      hl_has_attr(fusion, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return;
  const HlShape *narrow = hl_shape_with_dtype(p->m->shapes, fusion->shape, HL_BF16);
  if (!everybody_rounds(fusion, narrow))
    return;
  HlBuild b;
  HlInst *first = fusion->first_use->user;
  hl_begin(p, "fusion", first, &b);
  HlComp *comp = hl_comp_copy(p->m, body, "bf16", false, NULL);
  HlBuild in = {.cx = p->cx, .comp = comp};
  HlInst *from = widened_from(comp->root, narrow);
  hl_set_root(comp, from ? from : with_shape(hl_b_convert(&in, comp->root, HL_BF16), narrow));
  HlInst *by =
      hl_inst_copy(fusion->comp, fusion, narrow, (int)fusion->n_operands, fusion->operands);
  hl_remove_attr(by, HL_A_ORIGIN);
  hl_set_calls(by, 1, &comp);
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    if (use->user != first)
      hl_also(p, use->user, by);
  if (hl_commit(p, by))
    loop_drop_comp(p, body);
}

bool pass_bfloat16_propagation(HlPass *p) {
  loop_each(p, narrow_loop);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    int n_insts;
    HlInst **insts = hl_pass_insts(p, comps[k], &n_insts);
    for (int j = 0; j < n_insts; j++)
      if (hl_alive(insts[j]) && insts[j]->op == HL_OP_FUSION)
        narrow_fusion(p, insts[j]);
    in_computation(p, comps[k]);
  }
  return true;
}
