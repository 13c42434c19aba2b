// opt/float/bfloat16_propagation.c
//
// bfloat16-propagation: what is rounded to bf16 in the end is rounded as soon as it is there.
//
//   t = f32[8,4] transpose(x)              c = bf16[4,8] convert(x)
//   s = f32[16,8,4] broadcast(t)     =>    t = bf16[8,4] transpose(c)
//   r = bf16[16,8,4] convert(s)            r = bf16[16,8,4] broadcast(t)
//
// Operations that only move or choose elements give the same bits either way, and so do maximum,
// minimum, clamp, abs and negate, as rounding keeps order and sign. Half the bytes then go through
// memory, between devices, and from iteration to iteration of a loop.
//
// What may be bf16 is found for all computations at once, inside of calls, branches, loops and
// fusions, too (bfloat16.h). What hangs together changes together, unless all of it happens inside
// a fusion, or more elements would be rounded than before, those in a loop counting for several
// iterations. Values that nobody reads in f32 are rounded where they are computed; that is not counted.

#include "base/vec.h"
#include "opt/ask/loops.h"
#include "opt/float/bfloat16.h"
#include "opt/passes.h"

enum { TRIPS = 16 };  // of a loop, where it matters

typedef struct Work {
  Bf16Places at;
  double *weight;     // by computation: how often it runs, roughly
  HlInst **narrow;    // by entry: its bf16 form if it stays f32, its f32 form if it does not
  HlInst **rounding;  // by place: somebody who rounds it
  int *group;         // by class: towards the classes that change together
  VEC(uint32_t) other_forms;  // entries of `narrow` that the change at hand has set
} Work;

static bool is_f32(const HlInst *inst) {
  return inst->shape->dtype == HL_F32;
}

static int place_of(const Work *w, const HlInst *inst) {
  return bf16_place(&w->at, inst);
}

static int class_of(const Work *w, int place) {
  return bf16_class(&w->at, place);
}

// It becomes bf16 itself.
static bool turns_narrow(const Work *w, int place) {
  const int c = class_of(w, place);
  return w->at.good[c] && !w->at.source[c];
}

// --- What changes together -----------------------------------------------------------------------

static int group_of(const Work *w, int place) {
  return bf16_root(w->group, class_of(w, place));
}

static void find_groups(Work *w) {
  w->group = HL_ARRAY(w->at.p->arena, int, w->at.n_places + 1);
  for (int c = 0; c < w->at.n_places; c++)
    w->group[c] = c;
  for (int k = 0; k < w->at.n_edges; k++) {
    const Bf16Edge *edge = &w->at.edge[k];
    const int from = place_of(w, edge->from);
    if (turns_narrow(w, edge->to) && w->at.good[class_of(w, from)] && !bf16_widened(edge->from) &&
        !bf16_is_constant(edge->from))
      w->group[group_of(w, from)] = group_of(w, edge->to);
  }
}

static void find_weights(Work *w) {
  for (uint32_t k = 0; k < w->at.m->next_comp_id; k++)
    w->weight[k] = 1;
  for (const HlComp *comp = w->at.m->last; comp; comp = comp->prev)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++) {
        const double weight = w->weight[comp->id] * (inst->op == HL_OP_WHILE ? TRIPS : 1);
        double *of = &w->weight[hl_called(inst, k)->id];
        if (weight > *of && weight < 1e9)
          *of = weight;
      }
}

static double cost_of_rounding(const Work *w, const HlInst *inst) {
  return w->weight[inst->comp->id] * (double)hl_shape_elements(inst->shape);
}

static void find_roundings(Work *w) {
  for (int k = 0; k < w->at.n_places; k++) {
    const HlInst *inst = w->at.owner[k];
    if (!is_f32(inst))
      continue;
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (bf16_is_rounding(use->user) &&
          (!w->rounding[k] || hl_stands_before(use->user, w->rounding[k])))
        w->rounding[k] = use->user;
  }
}

typedef struct Groups {
  double *cost;   // of rounding what is there in f32 anyway
  double *gain;   // of the roundings that it spares
  bool *outside;  // it is not all inside fusions
  Bf16Sorted places, edges;
} Groups;

// What the edges into a group cost. `served` has an entry a place: the last group that it was
// rounded for, from 1.
static double cost_of_edges(const Work *w, const Groups *g, int group, int *served) {
  double cost = 0;
  for (int k = g->edges.start[group]; k < g->edges.start[group + 1]; k++) {
    const HlInst *from = w->at.edge[g->edges.at[k]].from;
    const int place = place_of(w, from);
    if (turns_narrow(w, place) || served[place] == group + 1 || bf16_widened(from) ||
        bf16_is_constant(from))
      continue;
    served[place] = group + 1;
    if (!w->at.good[class_of(w, place)] && !w->rounding[place])
      cost += cost_of_rounding(w, from);
  }
  return cost;
}

static Groups weigh_groups(Work *w) {
  HlArena *arena = w->at.p->arena;
  const int n = w->at.n_places;
  Groups g = {.cost = HL_ARRAY(arena, double, n + 1),
              .gain = HL_ARRAY(arena, double, n + 1),
              .outside = HL_ARRAY(arena, bool, n + 1)};
  int *key = HL_ARRAY(arena, int, n + w->at.n_edges + 1), *served = HL_ARRAY(arena, int, n + 1);
  // Places and edges without a group go to the number behind the last group.
  for (int k = 0; k < w->at.n_edges; k++)
    key[k] = turns_narrow(w, w->at.edge[k].to) ? group_of(w, w->at.edge[k].to) : n;
  g.edges = bf16_sort(arena, key, w->at.n_edges, n + 1);
  for (int group = 0; group < n; group++)
    g.cost[group] = cost_of_edges(w, &g, group, served);
  for (int k = 0; k < n; k++) {
    const HlInst *inst = w->at.owner[k];
    const bool narrow = turns_narrow(w, k);
    key[k] = narrow || (served[k] && w->at.good[class_of(w, k)]) ? group_of(w, k) : n;
    if (key[k] == n)
      continue;
    g.outside[key[k]] |= narrow && (!inst->comp->is_fusion || inst->op == HL_OP_PARAMETER);
    for (const HlUse *use = inst->first_use; use && is_f32(inst); use = use->next)
      if (bf16_is_rounding(use->user))
        g.gain[key[k]] += cost_of_rounding(w, inst);
  }
  g.places = bf16_sort(arena, key, n, n + 1);
  return g;
}

// --- Changing them -------------------------------------------------------------------------------

static HlInst *converted(HlPass *p, HlInst *inst, HlDtype to) {
  const HlShape *shape = hl_shape_with_dtype(p->m->shapes, inst->shape, to);
  HlInst *convert = hl_inst_new(inst->comp, HL_OP_CONVERT, shape, NULL, 1, &inst);
  hl_inherit(convert, inst);
  return convert;
}

static HlInst *narrow_constant(HlPass *p, HlInst *inst) {
  HlLiteral *value = hl_literal_convert(p->cx, hl_constant(inst), HL_BF16);
  HlInst *constant = hl_constant_new(inst->comp, value, NULL);
  hl_literal_unref(value);
  hl_set_shape(constant, hl_shape_with_dtype(p->m->shapes, inst->shape, HL_BF16));
  hl_inherit(constant, inst);
  return constant;
}

static HlInst *note_form(Work *w, const HlInst *inst, HlInst *form) {
  const uint32_t entry = (uint32_t)bf16_entry(&w->at, inst);
  vec_push(&w->other_forms, entry);
  return w->narrow[entry] = form;
}

static void forget_forms(Work *w) {
  for (int k = 0; k < w->other_forms.n; k++)
    w->narrow[w->other_forms.at[k]] = NULL;
}

// The bf16 form of a value that stays f32.
static HlInst *rounded(Work *w, HlInst *inst) {
  HlInst *from = bf16_widened(inst), *narrow = w->narrow[bf16_entry(&w->at, inst)];
  if (from || narrow)
    return from ? from : narrow;
  if (bf16_is_constant(inst))
    return note_form(w, inst, narrow_constant(w->at.p, inst));
  HlInst *rounding = w->rounding[place_of(w, inst)];
  return note_form(w, inst, rounding ? rounding : converted(w->at.p, inst, HL_BF16));
}

// The shape with those leaves narrow that are in the group.
static const HlShape *narrow_shape(Work *w, const HlShape *shape, int group, int *place) {
  HlShapes *shapes = w->at.m->shapes;
  if (!hl_shape_is_tuple(shape)) {
    const int at = (*place)++;
    const bool in = turns_narrow(w, at) && group_of(w, at) == group;
    return in ? hl_shape_with_dtype(shapes, shape, HL_BF16) : shape;
  }
  const HlShape **element = HL_ARRAY(w->at.p->arena, const HlShape *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = narrow_shape(w, shape->element[k], group, place);
  return hl_shape_tuple(shapes, shape->rank, element);
}

static void narrow_inst(Work *w, HlInst *inst, int group) {
  int place = place_of(w, inst);
  hl_set_shape(inst, narrow_shape(w, inst->shape, group, &place));
  if (inst->op != HL_OP_REDUCE && inst->op != HL_OP_REDUCE_WINDOW)
    return;
  HlComp *old = hl_to_apply(inst);
  HlBuild b = {.cx = w->at.p->cx, .comp = inst->comp};
  HlComp *comp = hl_b_scalar_comp(&b, hl_reducer(old), HL_BF16);
  hl_set_calls(inst, 1, &comp);
  loop_drop_comp(w->at.p, old);
}

static void feed(Work *w, const Bf16Edge *edge) {
  HlInst *value = is_f32(edge->from) ? rounded(w, edge->from) : edge->from;
  if (value == edge->from)
    return;
  if (edge->user)
    hl_set_operand(edge->user, edge->number, value);
  else
    hl_set_root(edge->from->comp, value);
  if (!edge->from->first_use && edge->from->comp->root != edge->from &&
      !hl_has_control(edge->from) && edge->from->op != HL_OP_PARAMETER && bf16_widened(edge->from))
    hl_erase(edge->from);
}

// A user of a group's value: it rounds it, or needs it in f32.
typedef struct Reader {
  HlInst *from, *user;  // user NULL: the end of the computation
  int number;
  bool rounds;
} Reader;
typedef VEC(Reader) Readers;

static bool stays_inside(const Work *w, int to, int group) {
  return to != BF16_NOWHERE && turns_narrow(w, to) && group_of(w, to) == group;
}

// Those whose operands the change of the group does not set.
static void list_readers(Work *w, HlInst *inst, int group, Readers *out) {
  const bool narrow = turns_narrow(w, place_of(w, inst));
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const Reader reader = {inst, use->user, use->number, bf16_is_rounding(use->user)};
    if (reader.rounds ||
        (narrow && !stays_inside(w, bf16_target(&w->at, use->user, use->number), group)))
      vec_push(out, reader);
  }
  const Reader end = {.from = inst};
  if (narrow && inst->comp->root == inst &&
      !stays_inside(w, bf16_root_target(&w->at, inst->comp), group))
    vec_push(out, end);
}

static void serve(Work *w, const Reader *reader) {
  HlInst *from = reader->from;
  if (reader->rounds) {
    HlInst *narrow = is_f32(from) ? rounded(w, from) : from;
    if (narrow != reader->user) {
      hl_replace_uses(reader->user, narrow);
      hl_erase(reader->user);
    }
    return;
  }
  HlInst *wide = w->narrow[bf16_entry(&w->at, from)];
  if (!wide)
    wide = note_form(w, from, converted(w->at.p, from, HL_F32));
  if (reader->user)
    hl_set_operand(reader->user, reader->number, wide);
  else
    hl_set_root(from->comp, wide);
}

static bool change_group(Work *w, const Groups *g, int group, HlInst *first) {
  if (!hl_change(w->at.p, "narrow", first, NULL))
    return false;
  Readers readers = {0};
  w->other_forms.n = 0;
  const int from = g->places.start[group], to = g->places.start[group + 1];
  for (int k = from; k < to; k++)
    if (is_f32(w->at.owner[g->places.at[k]]))
      list_readers(w, w->at.owner[g->places.at[k]], group, &readers);
  const HlInst *last = NULL;
  for (int k = from; k < to; k++) {
    HlInst *inst = w->at.owner[g->places.at[k]];
    if (inst != last && turns_narrow(w, g->places.at[k]))
      narrow_inst(w, inst, group);
    last = inst;
  }
  for (int k = g->edges.start[group]; k < g->edges.start[group + 1]; k++)
    feed(w, &w->at.edge[g->edges.at[k]]);
  for (int k = 0; k < readers.n; k++)
    serve(w, &readers.at[k]);
  vec_free(&readers);
  const bool holds = hl_changed(w->at.p);
  if (!holds)
    forget_forms(w);
  return holds;
}

// The first that becomes narrow gives the change its name.
static HlInst *first_narrow(const Work *w, const Groups *g, int group) {
  for (int k = g->places.start[group]; k < g->places.start[group + 1]; k++)
    if (turns_narrow(w, g->places.at[k]))
      return w->at.owner[g->places.at[k]];
  return NULL;
}

// Of a constant inside a fusion only the bf16 form may be left with users; there nothing may stand without.
static void drop_wide_constants(HlModule *m) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; comp->is_fusion && inst; inst = next) {
      next = inst->next;
      if (bf16_is_constant(inst) && !inst->first_use && inst != comp->root && !hl_has_control(inst))
        hl_erase(inst);
    }
}

// False: nothing was changed.
static bool change_groups(Work *w) {
  const Groups g = weigh_groups(w);
  bool any = false;
  for (int group = 0; group < w->at.n_places; group++) {
    HlInst *inst =
        g.outside[group] && g.cost[group] <= g.gain[group] ? first_narrow(w, &g, group) : NULL;
    any |= inst && change_group(w, &g, group, inst);
  }
  if (any)
    drop_wide_constants(w->at.m);
  return any;
}

static bool has_conversions(const HlModule *m) {
  bool any = false;
  for (const HlComp *comp = m->first; comp && !any; comp = comp->next)
    any = hl_comp_may_have(comp, HL_OP_CONVERT);
  return any && hl_shapes_have_dtype(m->shapes, HL_BF16);
}

static bool once_over(HlPass *p) {
  Work w = {.at = bf16_places(p)};
  w.weight = HL_ARRAY(p->arena, double, p->m->next_comp_id);
  w.narrow = HL_ARRAY(p->arena, HlInst *, w.at.n_insts + 1);
  w.rounding = HL_ARRAY(p->arena, HlInst *, w.at.n_places + 1);
  find_groups(&w);
  find_weights(&w);
  find_roundings(&w);
  const bool any = change_groups(&w);
  vec_free(&w.other_forms);
  return any;
}

// What one group rounds is there for others, so there may be more to do.
bool pass_bfloat16_propagation(HlPass *p) {
  for (bool again = has_conversions(p->m); again;) {
    const HlMark mark = hl_arena_mark(p->arena);
    again = once_over(p);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
