// tool/shrink/reduce_dims.c: makes single dimensions smaller, and with each what goes together with it.
//
// reduce_sizes takes all dimensions of one size for the same; what is left are sizes that mean several things, and those that follow
// from others. Here a plan (tool/shrink/sizes.h) says which dimensions have to follow. Where no sizes of an instruction would serve, it
// is cut out: what it gives comes from a parameter of the smaller shape, or, inside of loops and fusions, is zeros; and an
// instruction whose result stays as it is gets what it had as such. Whether that is bad still is for the test to say.
//
// All dimensions are tried together at size 1, then halves of them, down to one by one; of those that are left each is
// halved as long as that does, and then the least size is looked for between the last two.

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tool/shrink/reduce.h"
#include "tool/shrink/sizes.h"

typedef struct Wish {
  const char *name;  // of an instruction
  int at;            // which of its slots
  int64_t size;
  bool strict;  // cut at ops without rules
} Wish;

typedef struct Shrink {
  Reducer *r;
  HlCx *cx;
  HlModule *m;
  Sizes plan;
} Shrink;

// --- What an instruction says of sizes ------------------------------------------------------------------------

static void set_window(Shrink *s, HlInst *inst, const HlWindowDim *at) {
  const int n = hl_window(inst).n;
  HlWindowDim *own = HL_ARRAY(s->m->arena, HlWindowDim, n + 1);
  memcpy(own, at, (size_t)n * sizeof *own);
  hl_set_attr(inst, &(HlAttr){.key = HL_A_WINDOW, .window = {own, n}});
}

// Lengths of a transform: of the side that is real.
static void set_lengths(Shrink *s, HlInst *inst, const HlShape *from, const HlShape *to) {
  const bool back = hl_attr_int(inst, HL_A_FFT_TYPE) != HL_WORD_fft_type_RFFT;
  const int n = hl_attr_ints(inst, HL_A_FFT_LENGTH).n;
  const HlShape *real = back ? to : from;
  hl_set_ints(inst, HL_A_FFT_LENGTH, (HlI64s){real->dim + real->rank - n, n});
}

static void set_operand_shapes(Shrink *s, HlInst *inst) {
  const HlShapeList old = hl_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS)->shapes;
  const HlShape **own = HL_ARRAY(s->m->arena, const HlShape *, old.n + 1);
  for (int k = 0; k < old.n; k++) {
    const HlShape *now =
        k < (int)inst->n_operands ? sizes_shape(&s->plan, inst->operands[k]) : NULL;
    own[k] = now && hl_shape_is_array(now) && hl_shape_is_array(old.at[k])
                 ? hl_shape_with_layout(s->m->shapes, now, old.at[k]->layout)
                 : old.at[k];
  }
  hl_set_attr(inst, &(HlAttr){.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {own, old.n}});
}

static void set_groups(HlInst *inst, const Local *l) {
  static const HlAttrKey keys[] = {HL_A_FEATURE_GROUP_COUNT, HL_A_BATCH_GROUP_COUNT};
  for (int k = 0; k < HL_COUNT_OF(keys); k++)
    if (hl_attr_int(inst, keys[k]) > 1 && l->factors.n > 0)
      hl_set_int(inst, keys[k], l->now[0]);  // the rule's first factor
}

static void drop_operands(Shrink *s, HlInst *inst, const bool *dropped) {
  HlInst **left = HL_ARRAY(s->plan.arena, HlInst *, inst->n_operands + 1);
  int n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!dropped[k])
      left[n++] = inst->operands[k];
  if (n < (int)inst->n_operands)
    hl_set_operands(inst, n, left);
}

static void set_attrs(Shrink *s, HlInst *inst, const HlShape *shape) {
  const Local *l = s->plan.local[inst->serial];
  static const HlAttrKey ints[] = {HL_A_SLICE, HL_A_PADDING, HL_A_SLICE_SIZES};
  for (int k = 0; k < HL_COUNT_OF(ints); k++)
    if (l && l->ints && hl_has_attr(inst, ints[k]))
      hl_set_ints(inst, ints[k], (HlI64s){l->ints, hl_attr_ints(inst, ints[k]).n});
  if (l && l->window && hl_has_attr(inst, HL_A_WINDOW))
    set_window(s, inst, l->window);
  if (l && inst->op == HL_OP_CONVOLUTION)
    set_groups(inst, l);
  if (l && l->dropped)
    drop_operands(s, inst, l->dropped);
  if (hl_has_attr(inst, HL_A_DYNAMIC_SLICE_SIZES))
    hl_set_ints(inst, HL_A_DYNAMIC_SLICE_SIZES, (HlI64s){shape->dim, shape->rank});
  if (hl_has_attr(inst, HL_A_FFT_LENGTH))
    set_lengths(s, inst, sizes_shape(&s->plan, inst->operands[0]), shape);
  if (inst->op == HL_OP_TOPK)
    hl_set_int(inst, HL_A_K, shape->element[0]->dim[shape->element[0]->rank - 1]);
  if (hl_has_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS))
    set_operand_shapes(s, inst);
  if (hl_has_attr(inst, HL_A_OUTFEED_SHAPE))
    hl_set_attr(inst, &(HlAttr){.key = HL_A_OUTFEED_SHAPE,
                                .ptr = sizes_shape(&s->plan, inst->operands[0])});
  if (inst->op != HL_OP_CUSTOM_CALL)
    hl_remove_attr(inst, HL_A_BACKEND_CONFIG);  // sizes of tiles and the like
}

static bool set_constant(Shrink *s, HlInst *inst, const HlShape *shape) {
  const HlLiteral *old = hl_constant(inst);
  HlLiteral *now = old && hl_shape_is_array(shape) ? reduce_leading(s->cx, old, shape) : NULL;
  if (!now)
    return false;
  hl_set_attr(inst, &(HlAttr){.key = HL_A_VALUE, .ptr = now});
  hl_literal_unref(now);
  return true;
}

static bool set_sizes(Shrink *s, HlInst *inst) {
  const HlShape *shape = sizes_shape(&s->plan, inst);
  if (inst->op == HL_OP_CONSTANT && !set_constant(s, inst, shape))
    return false;
  set_attrs(s, inst, shape);
  hl_set_shape(inst, shape);
  return true;
}

// --- What is broken ---------------------------------------------------------------------------------------

// The op's own rule has the last word.
static bool agrees(Shrink *s, const HlInst *inst) {
  const HlShape **in = HL_ARRAY(s->plan.arena, const HlShape *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    in[k] = inst->operands[k]->shape;
  const HlInfer q = {.cx = s->cx,
                     .shapes = s->m->shapes,
                     .inst = inst,
                     .in = in,
                     .n = (int)inst->n_operands,
                     .declared = inst->shape};
  const HlShape *shape = hl_has_infer((HlOp)inst->op) ? hl_infer(&q) : inst->shape;
  return shape && hl_shape_compatible(shape, inst->shape);
}

static bool holds_arrays(const HlShape *shape) {
  for (int64_t k = 0; k < hl_shape_leaves(shape); k++)
    if (!hl_shape_is_array(hl_leaf_shape(shape, k)))
      return false;
  return true;
}

// A value of a shape that comes from nowhere: of the entry a parameter, which has what it is called by. NULL: there is none.
static HlInst *stand_in(Shrink *s, HlComp *comp, const HlShape *shape, const HlSym *name) {
  HlBuild b = {.cx = s->cx, .comp = comp};
  if (!holds_arrays(shape))
    return NULL;
  if (comp != s->m->entry)
    return reduce_plain_value(&b, shape, 0);
  return hl_parameter_new(comp, comp->n_params, shape, name);
}

static bool replace_result(Shrink *s, HlInst *inst) {
  const HlSym *name = inst->name;
  if (inst->op == HL_OP_PARAMETER)
    return false;
  hl_set_name(inst, hl_fresh_name(s->m, name->text));
  HlInst *by = stand_in(s, inst->comp, inst->shape, name);
  if (!by)
    return false;
  hl_replace_uses(inst, by);
  return true;
}

static bool replace_operands(Shrink *s, HlInst *inst, const HlShape *const *was) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (operand->shape == was[k])
      continue;
    const HlSym *name =
        hl_fresh_name(s->m, hl_arena_printf(s->plan.arena, "%s.whole", operand->name->text));
    HlInst *by = stand_in(s, inst->comp, was[k], name);
    if (!by)
      return false;
    values_alias(s->r, name->text, operand->name->text);
    hl_set_operand(inst, (int)k, by);
  }
  return true;
}

typedef struct Changed {
  HlInst *inst;
  const HlShape **was;  // of its operands
} Changed;

// Everything that is another now gets its sizes; then what does not serve is cut out.
static bool apply(Shrink *s) {
  Sizes *p = &s->plan;
  VEC(Changed) list = {0};
  bool ok = true;
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!sizes_changes_around(p, inst) && !p->broken[inst->serial])
        continue;
      const HlShape **was = HL_ARRAY(p->arena, const HlShape *, inst->n_operands + 1);
      for (uint32_t k = 0; k < inst->n_operands; k++)
        was[k] = inst->operands[k]->shape;
      vec_push(&list, ((Changed){inst, was}));
    }
  // What is broken and gives what it gave is left as it is.
  for (int k = 0; ok && k < list.n; k++)
    if (!p->broken[list.at[k].inst->serial] || sizes_changes(p, list.at[k].inst))
      ok = set_sizes(s, list.at[k].inst);
  for (int k = 0; ok && k < list.n; k++)
    if (!p->broken[list.at[k].inst->serial] && !agrees(s, list.at[k].inst))
      sizes_break(p, list.at[k].inst);
  for (int k = 0; ok && k < list.n; k++) {
    HlInst *inst = list.at[k].inst;
    if (p->broken[inst->serial])
      ok = sizes_changes(p, inst) ? replace_result(s, inst)
                                  : replace_operands(s, inst, list.at[k].was);
  }
  vec_free(&list);
  return ok;
}

// --- Candidates -------------------------------------------------------------------------------------------

static void say(const Sizes *p, const HlInst *inst, int at, int n, HlBuf *what) {
  const int slot = p->base[inst->serial] + at, dims = sizes_slots(inst);
  hl_buf_printf(what, "%s %d of '%s' %lld -> %lld", at < dims ? "dimension" : "window",
                at < dims ? at : at - dims, inst->name->text, (long long)p->was[slot],
                (long long)p->size[slot]);
  if (n > 1)
    hl_buf_printf(what, " and %d more", n - 1);
}

static HlModule *with_wishes(Reducer *r, const Move *move, const int *thing, int n, bool strict,
                             HlBuf *what) {
  Found f = reduce_open_copy(r);
  if (!f.m)
    return reduce_close_copy(&f, false);
  Shrink s = {.r = r, .cx = r->cx, .m = f.m};
  sizes_start(&s.plan, f.arena, f.m);
  s.plan.strict = strict;
  const HlInst *first = NULL;
  int first_at = 0, changed = 0;
  for (int k = 0; k < n; k++) {
    const Wish *wish = (const Wish *)move->things + thing[k];
    const HlInst *inst = reduce_find(&f, wish->name);
    const int slot = inst ? s.plan.base[inst->serial] + wish->at : 0;
    if (!inst || wish->at >= sizes_all_slots(inst) || s.plan.set[slot] ||
        s.plan.was[slot] <= wish->size)
      continue;
    sizes_wish(&s.plan, slot, wish->size);
    if (changed++ == 0) {
      first = inst;
      first_at = wish->at;
    }
  }
  if (first)
    say(&s.plan, first, first_at, changed, what);
  const bool ok = first && apply(&s);
  sizes_free(&s.plan);
  if (ok)
    hl_forget_interface(f.m);
  return reduce_close_copy(&f, ok);
}

// Ops of which nothing is known take what they get, if that is valid HLO; else they are cut out.
static HlModule *with_dims(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Wish *first = (const Wish *)move->things + *thing;
  HlModule *m = first->strict ? NULL : with_wishes(r, move, thing, n, false, what);
  if (m) {
    reduce_clean(m);  // of what was cut out
    hl_complete_entry_layout(m);
  }
  if (m && (!r->is_valid || reduce_is_valid(r, m)))
    return m;
  hl_module_free(m);
  hl_buf_free(what);
  return with_wishes(r, move, thing, n, true, what);
}

// --- Which dimensions there are -----------------------------------------------------------------------------

enum { MOST_TOGETHER = 4000, MOST_SINGLE = 200 };

// One dimension of each set of those that go together, larger than 1. Strict: of those for which something is cut out.
static int list_wishes(Reducer *r, bool strict, Wish **out) {
  HlArena *arena = hl_arena_new();
  VEC(Wish) list = {0};
  Sizes p;  // of which nothing else may be in the arena
  sizes_start(&p, arena, r->m);
  p.strict = strict;
  bool *seen = base_alloc((size_t)p.n + 1);
  for (int slot = 0; slot < p.n && list.n < MOST_TOGETHER; slot++) {
    if (seen[slot] || p.was[slot] < 2)
      continue;
    sizes_wish(&p, slot, 1);
    for (int k = 0; k < p.touched.n; k++)
      seen[p.touched.at[k]] = true;
    const HlInst *inst = p.owner[slot];
    if (!strict || p.n_broken > 0)
      vec_push(&list, ((Wish){hl_arena_printf(r->arena, "%s", inst->name->text),
                              slot - p.base[inst->serial], 1, strict}));
    sizes_forget(&p);
  }
  *out = HL_ARRAY(r->arena, Wish, list.n + 1);
  const int n = list.n;
  if (n > 0)
    memcpy(*out, list.at, (size_t)n * sizeof **out);
  base_free(seen);
  vec_free(&list);
  sizes_free(&p);
  hl_arena_free(arena);
  return n;
}

static bool try_wishes(Reducer *r, Wish *wishes, int n) {
  Move move = {
      .phase = "dimensions", .n = n, .things = wishes, .make = with_dims, .any_size = true};
  return reduce_try(r, &move);
}

// What size a wish's dimension has in the best; 0: it is gone.
static int64_t size_now(Reducer *r, const Wish *wish) {
  HlArena *arena = hl_arena_new();
  int64_t size = 0;
  Sizes p;
  sizes_start(&p, arena, r->m);
  for (int slot = 0; slot < p.n; slot++) {
    const HlInst *inst = p.owner[slot];
    if (slot - p.base[inst->serial] == wish->at && strcmp(inst->name->text, wish->name) == 0)
      size = p.was[slot];
  }
  sizes_free(&p);
  hl_arena_free(arena);
  return size;
}

// The least size between 1, which does not do, and what there is.
static bool find_least(Reducer *r, Wish wish) {
  bool changed = false;
  int64_t low = 1, high = size_now(r, &wish);
  while (high - low > 1 && !r->stopped) {
    wish.size = low + (high - low) / 2;
    if (try_wishes(r, &wish, 1)) {
      changed = true;
      high = wish.size;
    } else {
      low = wish.size;
    }
  }
  return changed;
}

bool reduce_dims(Reducer *r) {
  bool changed = false;
  for (int strict = 0; strict < 2; strict++) {
    Wish *wishes;
    int n = list_wishes(r, strict, &wishes);
    changed |= n > 0 && try_wishes(r, wishes, n);
    n = list_wishes(r, strict, &wishes);
    for (int k = 0; k < n && k < MOST_SINGLE && !r->stopped; k++)
      changed |= find_least(r, wishes[k]);
  }
  return changed;
}
