// opt/loop/while_concat.c
//
// while-loop-concat-code-motion: slots that every iteration puts together are carried as one.
//
//   (i, a, b) = while((0, a0, b0)), body: f(concatenate(a, b)); (i + 1, g(a), g(b))
//   =>  (i, c) = while((0, concatenate(a0, b0))), body: f(c); (i + 1, g(c))
//       a = c[0:2], b = c[2:4]
//
// From the operands of a concatenate on, values are grouped: one value from each part, to be
// computed side by side as one. A group of equal operations makes groups of their operands, down to
// slots, whose next values must form a group as well; to the slices that take one value apart; or
// to one value that all parts share, which is repeated. If that ends anywhere else, or wants a
// value in two groups, the concatenate stays. Outside its group a part is a slice of the whole.
//
// The parts stand side by side along a dimension that they have, or are stacked along one that they
// do not have (behind a broadcast or a reshape, say); a reshape leads from one form to the other.

#include "opt/ask/loops.h"
#include "opt/ask/same.h"
#include "opt/passes.h"

enum { EFFORT = 16 };  // values looked at, for each instruction of the body

// Where parts stand: side by side along `dim`, or stacked along a new dimension in front of it.
typedef struct Form {
  int dim;
  bool stacked;
} Form;

typedef struct Group {
  HlInst **part;
  int n;
  Form form;
  int64_t *start;  // where each part stands in the whole
  HlInst *whole;   // in the new body
} Group;

typedef struct Search {
  HlPass *p;
  HlInst *loop;
  LoopElements elements, tested;
  Same same;
  Group *group;  // from 1
  int n_groups;  // the last one
  int n_open;    // those behind it still need groups of operands
  int *of;       // by id: the group that an instruction is in, or 0
  int *index;    // by id: its place there
  bool *alone;   // by id: it is in no group
  int *lonely;   // ids of those
  int n_lonely;
  int64_t effort;
  bool *joined;    // by id: a concatenate whose operands form a group
  HlInst **stack;  // of instructions to be made first
  // The new state: slots that stay, then one for each group of slots.
  int n_kept, n_slot_groups;
  int *slot_group;  // group numbers of those
} Search;

// --- Shapes -------------------------------------------------------------------------------------

static bool shape_fits(const HlInst *a, const HlInst *b, Form form) {
  if (a->shape->dtype != b->shape->dtype || a->shape->rank != b->shape->rank)
    return false;
  for (int d = 0; d < a->shape->rank; d++)
    if (a->shape->dim[d] != b->shape->dim[d] && (form.stacked || d != form.dim))
      return false;
  return true;
}

static int64_t width(const Group *g, int k) {
  return g->form.stacked ? 1 : g->part[k]->shape->dim[g->form.dim];
}

// The sizes of n parts like the first, which together are `total` wide.
static const HlShape *sizes_of(HlPass *p, const HlShape *part, Form form, int64_t total) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, part->rank + 1);
  int n = 0;
  for (int d = 0; d < part->rank; d++) {
    if (form.stacked && d == form.dim)
      dim[n++] = total;
    dim[n++] = !form.stacked && d == form.dim ? total : part->dim[d];
  }
  if (form.stacked && form.dim == part->rank)
    dim[n++] = total;
  return hl_shape_array(p->m->shapes, part->dtype, n, dim);
}

static const HlShape *whole_shape(HlPass *p, const Group *g, bool stacked) {
  const Form form = {g->form.dim, stacked};
  int64_t total = 0;
  for (int k = 0; k < g->n; k++)
    total += stacked ? 1 : g->part[k]->shape->dim[form.dim];
  return sizes_of(p, g->part[0]->shape, form, total);
}

static HlInst *reshaped(HlBuild *b, HlInst *x, const HlShape *shape) {
  return hl_b_reshape(b, x, shape->rank, shape->dim);
}

static HlInst *in_form(HlPass *p, HlBuild *b, const Group *g, bool stacked) {
  return g->form.stacked == stacked ? g->whole : reshaped(b, g->whole, whole_shape(p, g, stacked));
}

static HlInst *part_of(HlBuild *b, const Group *g, HlInst *whole, int k) {
  HlInst *piece = hl_b_slice_dim(b, whole, g->form.dim, g->start[k], g->start[k] + width(g, k));
  return g->form.stacked ? reshaped(b, piece, g->part[k]->shape) : piece;
}

static HlInst *join_parts(HlPass *p, HlBuild *b, const Group *g, HlInst **part) {
  for (int k = 0; k < g->n && g->form.stacked; k++)
    part[k] = reshaped(b, part[k], sizes_of(p, part[k]->shape, g->form, 1));
  return hl_b_concatenate(b, g->n, part, g->form.dim);
}

// One value n times, in the form that its parts have.
static HlInst *repeated(HlPass *p, HlBuild *b, HlInst *x, int n, Form form) {
  int64_t *dims = HL_ARRAY(p->arena, int64_t, x->shape->rank);
  for (int d = 0; d < x->shape->rank; d++)
    dims[d] = d + (d >= form.dim);
  const HlShape *many = sizes_of(p, x->shape, (Form){form.dim, true}, n);
  HlInst *whole = hl_b_broadcast(b, x, many->rank, many->dim, (HlI64s){dims, x->shape->rank});
  if (form.stacked)
    return whole;
  return reshaped(b, whole, sizes_of(p, x->shape, form, n * x->shape->dim[form.dim]));
}

// --- Forms of operands ---------------------------------------------------------------------------

static bool operand_of_broadcast(const HlInst *inst, Form form, Form *out) {
  const HlI64s dims = hl_dims(inst);
  *out = (Form){0, true};
  for (int k = 0; k < dims.n; k++) {
    if (k > 0 && dims.at[k] <= dims.at[k - 1])
      return false;
    if (dims.at[k] == form.dim && !form.stacked)
      out->stacked = false;
    out->dim += dims.at[k] < form.dim;
  }
  return true;
}

static Form operand_of_reduce(const HlInst *inst, Form form) {
  const HlI64s dims = hl_dims(inst);
  bool gone = true;
  for (int d = 0, kept = 0;; d++) {
    gone = false;
    for (int k = 0; k < dims.n; k++)
      gone |= dims.at[k] == d;
    if (d == inst->operands[0]->shape->rank || (!gone && kept == form.dim))
      return (Form){d, form.stacked};
    kept += !gone;
  }
}

// The dimension in front of which the operand has as many elements as the result has in front of
// its own.
static bool operand_of_reshape(const HlInst *inst, Form form, Form *out) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  int64_t before = 1, here = 1;
  for (int d = 0; d < form.dim; d++)
    before *= to->dim[d];
  *out = (Form){-1, true};
  for (int d = 0; d <= from->rank && here <= before; d++) {
    const bool is_better = out->dim < 0 || (out->stacked && form.stacked);
    if (here == before && is_better)
      *out = (Form){d, d == from->rank || (form.stacked && from->dim[d] != 1)};
    if (here == before && d < from->rank && !form.stacked && from->dim[d] == to->dim[form.dim]) {
      *out = (Form){d, false};
      break;
    }
    here *= d < from->rank ? from->dim[d] : 1;
  }
  return out->dim >= 0;
}

static bool operand_form(const HlInst *inst, Form form, Form *out) {
  *out = form;
  if (inst->op == HL_OP_BROADCAST)
    return operand_of_broadcast(inst, form, out);
  if (inst->op == HL_OP_RESHAPE)
    return operand_of_reshape(inst, form, out);
  if (inst->op == HL_OP_REDUCE)
    *out = operand_of_reduce(inst, form);
  return true;
}

// How many operands go along with the parts: all but the start of a reduce.
static uint32_t n_grouped(const HlInst *inst) {
  return inst->op == HL_OP_REDUCE ? 1 : inst->n_operands;
}

// One number for all elements, as a clamp's bounds may be.
static bool is_scalar_beside(const HlInst *inst, uint32_t k) {
  return inst->operands[k]->shape->rank == 0 && inst->shape->rank > 0 &&
         inst->op != HL_OP_BROADCAST && inst->op != HL_OP_RESHAPE;
}

// --- Finding groups ------------------------------------------------------------------------------

static bool is_shared(HlInst *const *part, int n) {
  for (int k = 1; k < n; k++)
    if (part[k] != part[0])
      return false;
  return true;
}

static bool keep_alone(Search *s, const HlInst *inst) {
  if (s->of[inst->id])
    return false;
  if (!s->alone[inst->id])
    s->lonely[s->n_lonely++] = (int)inst->id;
  s->alone[inst->id] = true;
  return true;
}

static bool is_group(const Search *s, int number, HlInst *const *part, int n, Form form) {
  const Group *g = &s->group[number];
  if (g->n != n || g->form.dim != form.dim)
    return false;
  for (int k = 0; k < n; k++)
    if (part[k] != g->part[k] ||
        !shape_fits(part[0], part[k], (Form){form.dim, form.stacked || g->form.stacked}))
      return false;
  return true;
}

// These are to be computed as one.
static bool want(Search *s, HlInst **part, int n, Form form) {
  s->effort -= n;
  if (s->effort < 0)
    return false;
  if (is_shared(part, n))
    return keep_alone(s, part[0]);
  if (s->of[part[0]->id])
    return is_group(s, s->of[part[0]->id], part, n, form);
  if (!hl_shape_is_array(part[0]->shape) || form.dim + !form.stacked > part[0]->shape->rank ||
      hl_shape_elements(part[0]->shape) == 0)
    return false;
  const int number = ++s->n_groups;
  s->group[number] = (Group){.part = part, .n = n, .form = form};
  for (int k = 0; k < n; k++) {
    if (s->of[part[k]->id] || s->alone[part[k]->id] || hl_has_control(part[k]) ||
        hl_sharding(part[k]) || hl_shape_is_dynamic(part[k]->shape) ||
        !shape_fits(part[0], part[k], form)) {
      s->group[number].n = k;  // those to be given back
      return false;
    }
    s->of[part[k]->id] = number;
    s->index[part[k]->id] = k;
  }
  return true;
}

static bool all_slots(const Search *s, const Group *g) {
  for (int k = 0; k < g->n; k++) {
    const int slot = loop_slot_of(g->part[k]);
    if (slot < 0 || s->tested.first[slot] || s->elements.next[g->part[k]->id])
      return false;
    if (s->elements.first[slot] != g->part[k])
      return false;
  }
  return true;
}

// They take one value apart.
static bool all_slices(const Group *g) {
  const HlInst *from = g->part[0]->operands[0];
  if (!hl_shape_is_array(from->shape) || hl_shape_is_dynamic(from->shape) ||
      g->form.dim >= from->shape->rank)
    return false;
  int64_t at = 0;
  for (int k = 0; k < g->n; k++) {
    const HlInst *part = g->part[k];
    if (part->op != HL_OP_SLICE || part->operands[0] != from)
      return false;
    const HlI64s slice = hl_attr_ints(part, HL_A_SLICE);
    for (int d = 0; d < part->shape->rank; d++) {
      const int64_t start = d == g->form.dim ? at : 0;
      if (slice.at[3 * d] != start || slice.at[3 * d + 2] != 1 ||
          (d != g->form.dim && part->shape->dim[d] != from->shape->dim[d]))
        return false;
    }
    at += part->shape->dim[g->form.dim];
  }
  return at == from->shape->dim[g->form.dim];
}

static bool is_groupable(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_RESHAPE: return true;
  case HL_OP_REDUCE: return inst->n_operands == 2;
  case HL_OP_ALL_REDUCE: return inst->n_operands == 1 && !hl_has_attr(inst, HL_A_CHANNEL_ID);
  default:
    return inst->n_operands > 0 && inst->n_calls == 0 && hl_is_elementwise(inst) &&
           hl_is_pure(inst);
  }
}

static bool do_the_same(Search *s, const HlInst *a, const HlInst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_calls != b->n_calls ||
      !same_attrs(a, b))
    return false;
  for (int k = 0; k < a->n_calls; k++)
    if (!same_comp(&s->same, hl_called(a, k), hl_called(b, k)))
      return false;
  return a->op != HL_OP_REDUCE || a->operands[1] == b->operands[1];
}

static HlInst **operands_of(Search *s, const Group *g, uint32_t k) {
  HlInst **part = HL_ARRAY(s->p->arena, HlInst *, g->n);
  for (int j = 0; j < g->n; j++)
    part[j] = g->part[j]->operands[k];
  return part;
}

static HlInst **next_of(Search *s, const Group *g) {
  HlInst **part = HL_ARRAY(s->p->arena, HlInst *, g->n);
  for (int k = 0; k < g->n; k++)
    part[k] = loop_next(s->loop, loop_slot_of(g->part[k]));
  return part;
}

// Where operands are stacked, the results are so at first, and then must be equally wide.
static bool can_stack(const Group *g, Form operand) {
  for (int k = 1; k < g->n; k++)
    if (!shape_fits(g->part[0], g->part[k], (Form){g->form.dim, operand.stacked}) &&
        operand.stacked)
      return false;
  return true;
}

// Wants what a group needs.
static bool follow(Search *s, int number) {
  const Group g = s->group[number];
  if (all_slots(s, &g))
    return want(s, next_of(s, &g), g.n, g.form);
  if (g.part[0]->op == HL_OP_SLICE)
    return all_slices(&g) && keep_alone(s, g.part[0]->operands[0]);
  if (!is_groupable(g.part[0]))
    return false;
  for (int k = 1; k < g.n; k++)
    if (!do_the_same(s, g.part[0], g.part[k]))
      return false;
  Form form;
  if (!operand_form(g.part[0], g.form, &form) || !can_stack(&g, form))
    return false;
  for (uint32_t k = 0; k < n_grouped(g.part[0]); k++) {
    HlInst **part = operands_of(s, &g, k);
    const bool fits = is_scalar_beside(g.part[0], k)
                          ? is_shared(part, g.n) && keep_alone(s, part[0])
                          : want(s, part, g.n, form);
    if (!fits)
      return false;
  }
  return g.part[0]->op != HL_OP_REDUCE || keep_alone(s, g.part[0]->operands[1]);
}

static void give_back(Search *s, int n_groups, int n_lonely) {
  for (; s->n_groups > n_groups; s->n_groups--)
    for (int k = 0; k < s->group[s->n_groups].n; k++)
      s->of[s->group[s->n_groups].part[k]->id] = 0;
  while (s->n_lonely > n_lonely)
    s->alone[s->lonely[--s->n_lonely]] = false;
}

static void group_for(Search *s, HlInst *concat) {
  const int n_groups = s->n_groups, n_lonely = s->n_lonely, n = (int)concat->n_operands;
  HlInst **part = hl_arena_copy(s->p->arena, concat->operands, sizeof *part * (size_t)n);
  bool done = want(s, part, n, (Form){(int)hl_dim(concat), false}) && s->of[part[0]->id];
  for (int k = n_groups + 1; done && k <= s->n_groups; k++)
    done = follow(s, k);
  if (done)
    s->joined[concat->id] = true;
  else
    give_back(s, n_groups, n_lonely);
}

static void find_starts(HlPass *p, Group *g) {
  g->start = HL_ARRAY(p->arena, int64_t, g->n + 1);
  for (int k = 0; k < g->n; k++)
    g->start[k + 1] = g->start[k] + width(g, k);
}

static bool find_groups(HlPass *p, Search *s) {
  HlComp *body = hl_while_body(s->loop);
  const uint32_t n = body->next_id + 1;
  s->elements = loop_elements(p, body);
  s->tested = loop_elements(p, hl_while_condition(s->loop));
  if (s->elements.has_other || s->tested.has_other || !hl_comp_may_have(body, HL_OP_CONCATENATE))
    return false;
  s->same = same_new(p, false);
  s->group = HL_ARRAY(p->arena, Group, n + 1);
  s->of = HL_ARRAY(p->arena, int, n);
  s->index = HL_ARRAY(p->arena, int, n);
  s->alone = HL_ARRAY(p->arena, bool, n);
  s->lonely = HL_ARRAY(p->arena, int, n);
  s->joined = HL_ARRAY(p->arena, bool, n);
  s->effort = EFFORT * (int64_t)n;
  for (HlInst *inst = body->first; inst; inst = inst->next)
    if (inst->op == HL_OP_CONCATENATE && inst->n_operands > 1 && !hl_has_control(inst))
      group_for(s, inst);
  s->slot_group = HL_ARRAY(p->arena, int, s->n_groups + 1);
  for (int k = 1; k <= s->n_groups; k++)
    find_starts(p, &s->group[k]);
  for (int k = 1; k <= s->n_groups; k++)
    if (loop_slot_of(s->group[k].part[0]) >= 0)
      s->slot_group[s->n_slot_groups++] = k;
  return s->n_slot_groups > 0;
}

// --- The new body --------------------------------------------------------------------------------

// What stands for operand k of a group.
static HlInst *whole_operand(Search *s, LoopPart *part, const Group *g, uint32_t k, Form form) {
  const HlInst *operand = g->part[0]->operands[k];
  const int number = s->of[operand->id];
  if (number)
    return in_form(s->p, &part->b, &s->group[number], form.stacked);
  HlInst *one = loop_part_copy(part, operand);
  return is_scalar_beside(g->part[0], k) ? one : repeated(s->p, &part->b, one, g->n, form);
}

static HlInst *make_broadcast(Search *s, LoopPart *part, const Group *g, Form form) {
  const HlInst *inst = g->part[0], *operand = inst->operands[0];
  const HlI64s old = hl_dims(inst);
  const bool is_one = !s->of[operand->id] && form.stacked;  // the result repeats it anyway
  const bool stacks = form.stacked && !is_one;
  HlInst *x = is_one ? loop_part_copy(part, operand) : whole_operand(s, part, g, 0, form);
  const HlShape *shape = whole_shape(s->p, g, g->form.stacked || stacks);
  int64_t *dims = HL_ARRAY(s->p->arena, int64_t, old.n + 1), n = 0;
  for (int k = 0; k <= old.n; k++) {
    if (stacks && k == form.dim)
      dims[n++] = g->form.dim;
    if (k < old.n)
      dims[n++] = old.at[k] + ((g->form.stacked || stacks) && old.at[k] >= g->form.dim);
  }
  HlInst *whole = hl_b_broadcast(&part->b, x, shape->rank, shape->dim, (HlI64s){dims, (int)n});
  return reshaped(&part->b, whole, whole_shape(s->p, g, g->form.stacked));
}

static HlInst *whole_of(Search *s, LoopPart *part, const Group *g, HlInst *const *operands) {
  const HlInst *inst = g->part[0];
  HlInst *whole = hl_inst_copy(part->b.comp, inst, whole_shape(s->p, g, g->form.stacked),
                               (int)inst->n_operands, operands);
  hl_remove_attr(whole, HL_A_ORIGIN);
  return whole;
}

static HlInst *make_reduce(Search *s, LoopPart *part, const Group *g, Form form) {
  const HlInst *inst = g->part[0];
  HlInst *operands[] = {whole_operand(s, part, g, 0, form),
                        loop_part_copy(part, inst->operands[1])};
  const HlI64s old = hl_dims(inst);
  int64_t *dims = HL_ARRAY(s->p->arena, int64_t, old.n + 1);
  for (int k = 0; k < old.n; k++)
    dims[k] = old.at[k] + (form.stacked && old.at[k] >= form.dim);
  HlInst *whole = whole_of(s, part, g, operands);
  hl_set_ints(whole, HL_A_DIMENSIONS, (HlI64s){dims, old.n});
  return whole;
}

static HlInst *make_whole(Search *s, LoopPart *part, const Group *g) {
  const HlInst *inst = g->part[0];
  const HlShape *shape = whole_shape(s->p, g, g->form.stacked);
  if (inst->op == HL_OP_SLICE)
    return reshaped(&part->b, loop_part_copy(part, inst->operands[0]), shape);
  Form form;
  operand_form(inst, g->form, &form);
  if (inst->op == HL_OP_BROADCAST)
    return make_broadcast(s, part, g, form);
  if (inst->op == HL_OP_REDUCE)
    return make_reduce(s, part, g, form);
  if (inst->op == HL_OP_RESHAPE)
    return reshaped(&part->b, whole_operand(s, part, g, 0, form), shape);
  HlInst **operands = HL_ARRAY(s->p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = whole_operand(s, part, g, k, form);
  return whole_of(s, part, g, operands);
}

// A group has its whole; its parts, for others, are slices of it.
static void set_whole(LoopPart *part, Group *g, HlInst *whole) {
  g->whole = whole;
  for (int k = 0; k < g->n; k++) {
    HlInst *piece = part_of(&part->b, g, whole, k);
    const int slot = loop_slot_of(g->part[k]);
    if (slot >= 0)
      part->slot[slot] = piece;
    else
      part->map[g->part[k]->id] = piece;
  }
}

static bool is_made(const Search *s, const LoopPart *part, const HlInst *inst) {
  return s->of[inst->id] ? s->group[s->of[inst->id]].whole != NULL
                         : part->map[inst->id] || loop_slot_of(inst) >= 0;
}

// All operands being made.
static void make(Search *s, LoopPart *part, const HlInst *inst) {
  Group *g = s->of[inst->id] ? &s->group[s->of[inst->id]] : NULL;
  if (g) {
    set_whole(part, g, make_whole(s, part, g));
    return;
  }
  if (s->joined[inst->id]) {
    part->map[inst->id] = in_form(s->p, &part->b, &s->group[s->of[inst->operands[0]->id]], false);
    return;
  }
  HlInst **operands = HL_ARRAY(s->p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = loop_part_copy(part, inst->operands[k]);
  part->map[inst->id] = hl_inst_copy(part->b.comp, inst, NULL, (int)inst->n_operands, operands);
}

// Makes it and whatever it needs.
static void make_all(Search *s, LoopPart *part, HlInst *inst) {
  int n = 0;
  s->stack[n++] = inst;
  while (n > 0) {
    HlInst *top = s->stack[n - 1];
    if (is_made(s, part, top)) {
      n--;
      continue;
    }
    // Operands of the first part stand for those of its group.
    if (s->of[top->id])
      top = s->group[s->of[top->id]].part[0];
    const int before = n;
    for (uint32_t k = 0; k < top->n_operands; k++)
      if (!is_made(s, part, top->operands[k]))
        s->stack[n++] = top->operands[k];
    if (n == before) {
      make(s, part, top);
      n--;
    }
  }
}

static void open_body(LoopPart *part, Search *s) {
  for (int k = 0; k < s->n_slot_groups; k++)
    set_whole(part, &s->group[s->slot_group[k]],
              hl_b_element(&part->b, part->state, s->n_kept + k));
  size_t n = 1;
  for (HlInst *inst = part->from->first; inst; inst = inst->next)
    n += inst->n_operands + 1;
  s->stack = HL_ARRAY(s->p->arena, HlInst *, n);
  for (int k = 1; k <= s->n_groups; k++)
    make_all(s, part, s->group[k].part[0]);
  for (HlInst *inst = part->from->first; inst; inst = inst->next)
    if (s->joined[inst->id])
      make_all(s, part, inst);
}

static void open(LoopPart *part, void *user) {
  Search *s = user;
  if (part->place == LOOP_IN_BODY)
    open_body(part, s);
  for (int k = 0; part->place == LOOP_AFTER && k < s->n_slot_groups; k++) {
    const Group *g = &s->group[s->slot_group[k]];
    HlInst *whole = hl_b_element(&part->b, part->state, s->n_kept + k);
    for (int j = 0; j < g->n; j++)
      part->slot[loop_slot_of(g->part[j])] = part_of(&part->b, g, whole, j);
  }
}

static HlInst *next(LoopPart *part, int k, void *user) {
  Search *s = user;
  const Group *g = &s->group[s->slot_group[k - s->n_kept]];
  HlInst **parts = next_of(s, g);
  if (is_shared(parts, g->n))
    return repeated(s->p, &part->b, loop_part_copy(part, parts[0]), g->n, g->form);
  return in_form(s->p, &part->b, &s->group[s->of[parts[0]->id]], g->form.stacked);
}

// --- The new loop --------------------------------------------------------------------------------

static HlInst *joined_init(HlPass *p, HlBuild *b, const Search *s, const Group *g) {
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, g->n);
  for (int k = 0; k < g->n; k++)
    parts[k] = hl_b_element(b, s->loop->operands[0], loop_slot_of(g->part[k]));
  return join_parts(p, b, g, parts);
}

static void join_slots(HlPass *p, HlInst *loop) {
  Search s = {.p = p, .loop = loop};
  if (!find_groups(p, &s))
    return;
  const int n = loop_slots(loop);
  int *at = HL_ARRAY(p->arena, int, n + 1), *from = HL_ARRAY(p->arena, int, n + 1);
  HlInst **init = HL_ARRAY(p->arena, HlInst *, n + 1), **used = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlBuild b;
  hl_begin(p, "concat", loop, &b);
  for (int k = 0; k < n; k++) {
    const HlInst *element = s.elements.first[k];
    at[k] = -1;
    if (element && s.of[element->id])
      continue;
    at[k] = s.n_kept;
    from[s.n_kept] = k;
    init[s.n_kept++] = hl_b_element(&b, loop->operands[0], k);
  }
  int n_used = 0;
  for (int k = 0; k < s.n_slot_groups; k++) {
    const Group *g = &s.group[s.slot_group[k]];
    HlInst **parts = next_of(&s, g);
    from[s.n_kept + k] = -1;
    init[s.n_kept + k] = joined_init(p, &b, &s, g);
    if (is_shared(parts, g->n))
      used[n_used++] = parts[0];
  }
  LoopPlan plan = {.loop = loop,
                   .prefix = "",
                   .suffix = ".joined",
                   .n = s.n_kept + s.n_slot_groups,
                   .init = init,
                   .at = at,
                   .from = from,
                   .open = open,
                   .next = next,
                   .used = used,
                   .n_used = n_used,
                   .user = &s};
  loop_commit(p, loop, loop_rebuild(p, &b, &plan));
}

bool pass_while_concat(HlPass *p) {
  loop_each(p, join_slots);
  return true;
}
