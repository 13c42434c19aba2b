// Shardy's results written into the module: attributes, copies for constraints, the entry's results.
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "spmd/alike.h"
#include "spmd/rule.h"
#include "spmd/shardy.h"

void sp_shardy_replace(HlInst *old, HlInst *by, const HlSharding *sharding) {
  const HlSym *name = old->name;
  if (sharding) {
    const HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
    hl_set_attr(by, &attr);
  }
  hl_replace_uses(old, by);
  for (int k = 0; old->control && k < old->control->n_preds; k++)
    hl_add_control(old->control->preds[k], by);
  for (int k = 0; old->control && k < old->control->n_succs; k++)
    hl_add_control(by, old->control->succs[k]);
  hl_erase(old);
  hl_set_name(by, name);
}

// What a parameter or a result of the entry can be outside: dimensions that divide evenly, and whole axes of the mesh.
static const SpSpec *outside(Shardy *s, const SpSpec *spec, const HlShape *shape) {
  SpSpec *result = HL_NEW(s->p->arena, SpSpec);
  *result = *spec;
  result->dim = HL_ARRAY(s->p->arena, SpDim, spec->rank + 1);
  for (int d = 0; d < spec->rank; d++) {
    const SpAxes *axes = &spec->dim[d].axes;
    int64_t parts = 1;
    for (int a = 0, whole = 0; a < axes->n; a++) {
      const int digit = axes->at[a];
      const bool starts = s->mesh->axis_start >> digit & 1;
      if (a == whole && !starts)
        break;
      parts *= s->mesh->size[digit];
      if (a > whole && digit != axes->at[a - 1] + 1)
        break;
      if (!(s->mesh->axis_end >> digit & 1))
        continue;
      if (shape->dim[d] % parts)
        break;
      whole = a + 1;
      result->dim[d].axes = *axes;
      result->dim[d].axes.n = (uint8_t)whole;
    }
  }
  return result;
}

// --- Attributes ------------------------------------------------------------------------------------

// Loop state is cut as the loop has it, on the way in and at the end of each iteration; what a branch
// results in, as the conditional has it.
static const HlInst *state_of(const HlInst *inst) {
  const HlCall *call = inst->comp->first_call;
  const HlInst *caller = inst == inst->comp->root && call && !call->next ? call->caller : NULL;
  if (caller && caller->op == HL_OP_CONDITIONAL)
    return caller;
  if (inst->op != HL_OP_TUPLE)
    return inst;
  if (caller && caller->op == HL_OP_WHILE)
    return caller;
  const HlUse *use = inst->first_use;
  return use && !use->next && use->user->op == HL_OP_WHILE ? use->user : inst;
}

// Of a scalar that is computed there is nothing to say.
static bool is_plain_scalar(Shardy *s, const HlInst *inst) {
  return hl_shape_is_scalar(inst->shape) && inst->op != HL_OP_PARAMETER &&
         inst->op != HL_OP_GET_TUPLE_ELEMENT && inst->op != HL_OP_CUSTOM_CALL &&
         inst->op != HL_OP_CONDITIONAL && inst->op != HL_OP_CALL && !hl_sharding(inst) &&
         sp_graph_spec(s->graph, inst, 0)->manual == 0;
}

// Parameters of the entry and elements of a value with a sharding say theirs even where it is nothing.
static const HlSharding *said(Shardy *s, const HlInst *inst) {
  const HlSharding *sharding = sp_export_value(&s->export, state_of(inst));
  const bool must = (inst->op == HL_OP_PARAMETER && inst->comp == s->m->entry) ||
                    (inst->op == HL_OP_GET_TUPLE_ELEMENT && hl_sharding(inst->operands[0]));
  if (sharding && is_plain_scalar(s, inst))
    return NULL;
  if (sharding && inst->op == HL_OP_PARAMETER && inst->comp == s->m->entry &&
      hl_shape_is_array(inst->shape) && !sp_graph_spec(s->graph, inst, 0)->given)
    return sp_export_sharding(&s->export,
                              outside(s, sp_graph_spec(s->graph, inst, 0), inst->shape));
  if (sharding || !must || hl_sharding(inst))
    return sharding;
  return hl_shape_is_tuple(inst->shape) ? NULL : sp_export_replicated(&s->export);
}

// A sharding that is no cut of the mesh is not read, and not replaced.
static bool is_kept(const void *who, const HlInst *inst) {
  const Shardy *s = who;
  bool fixed = false;
  for (int64_t k = 0; hl_sharding(inst) && k < hl_shape_leaves(inst->shape) && !fixed; k++) {
    const SpSpec *spec = sp_graph_spec(s->graph, inst, k);
    fixed = spec && spec->fixed;
  }
  return fixed;
}

static void set_attributes(Shardy *s) {
  SpAlike alike = {.export = &s->export, .m = s->m, .is_kept = is_kept, .who = s};
  sp_alike_find(&alike);
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *agreed = sp_alike_of(&alike, inst);
      if (agreed || (!sp_graph_splits(s->graph, inst) && inst != s->result_root))
        sp_export_set(&s->export, inst, agreed ? agreed : said(s, inst));
    }
}

// --- Elements of tuples ----------------------------------------------------------------------------

// element(tuple(x)) is x: Shardy's own form of a program has no tuples but those of calls.
static void fold_elements(Shardy *s) {
  for (HlComp *comp = s->m->first; s->named && comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      HlInst *tuple = inst->op == HL_OP_GET_TUPLE_ELEMENT ? inst->operands[0] : NULL;
      if (!tuple || tuple->op != HL_OP_TUPLE || inst == comp->root || hl_has_control(inst) ||
          !hl_change(s->p, "element", inst, tuple))
        continue;
      hl_replace_uses(inst, tuple->operands[hl_attr_int(inst, HL_A_INDEX)]);
      hl_erase(inst);
      if (!tuple->first_use && tuple != comp->root && !hl_has_control(tuple))
        hl_erase(tuple);
      hl_changed(s->p);
    }
}

// --- Loops of which nothing is known ---------------------------------------------------------------

// The body gives element k of its state as it got it.
static bool hands_on(const HlInst *loop, int k) {
  const HlInst *root = hl_while_body(loop)->root;
  const HlInst *next = root->op == HL_OP_TUPLE ? root->operands[k] : NULL;
  return next && next->op == HL_OP_GET_TUPLE_ELEMENT &&
         next->operands[0] == hl_while_body(loop)->params[0] && hl_attr_int(next, HL_A_INDEX) == k;
}

// What a loop changes is said to be whole on the mesh; what it only hands on, whole.
static const HlSharding *whole_state(Shardy *s, const HlInst *loop) {
  static const HlSharding whole = {.kind = HL_SHARDING_REPLICATED};
  HlSharding *sharding = HL_NEW(s->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(s->m->arena, const HlSharding *, loop->shape->rank + 1);
  for (int k = 0; k < loop->shape->rank; k++)
    element[k] =
        hands_on(loop, k) ? hl_sharding_copy(s->m, &whole) : sp_export_replicated(&s->export);
  *sharding =
      (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = loop->shape->rank};
  return sharding;
}

static bool is_flat_tuple(const HlShape *shape) {
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    if (!hl_shape_is_array(shape->element[k]))
      return false;
  return hl_shape_is_tuple(shape) && shape->rank > 0;
}

static void say_loop(Shardy *s, HlInst *loop) {
  HlInst *state = loop->operands[0];
  HlInst *member[] = {loop, hl_while_body(loop)->root, hl_while_body(loop)->params[0],
                      hl_while_condition(loop)->params[0], state->op == HL_OP_TUPLE ? state : loop};
  for (int k = 0; k < HL_COUNT_OF(member); k++)
    if (hl_sharding(member[k]))
      return;
  const HlSharding *sharding = whole_state(s, loop);
  for (int k = 0; k < HL_COUNT_OF(member); k++)
    sp_export_set(&s->export, member[k], sharding);
}

static void say_loops(Shardy *s) {
  for (HlComp *comp = s->m->first; s->named && comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE && is_flat_tuple(inst->shape))
        say_loop(s, inst);
}

// A parameter of the entry that a loop only hands on is copied into it.
static void copy_into_loops(Shardy *s) {
  int n;
  HlInst **insts = hl_pass_insts(s->p, s->m->entry, &n);
  for (int k = 0; s->named && k < n; k++) {
    HlInst *tuple = insts[k]->op == HL_OP_WHILE ? insts[k]->operands[0] : NULL;
    for (uint32_t o = 0; tuple && tuple->op == HL_OP_TUPLE && o < tuple->n_operands; o++) {
      HlInst *param = tuple->operands[o];
      if (param->op != HL_OP_PARAMETER || param->shape->rank == 0 || !hands_on(insts[k], (int)o) ||
          !hl_change(s->p, "loop", param, tuple))
        continue;
      HlInst *copy = hl_inst_new(param->comp, HL_OP_COPY, param->shape, NULL, 1, &param);
      hl_inherit(copy, param);
      hl_set_operand(tuple, (int)o, copy);
      hl_changed(s->p);
    }
  }
}

// --- Markers -----------------------------------------------------------------------------------------

static void export_constraint(Shardy *s, HlInst *inst) {
  if (!hl_change(s->p, "constraint", inst, NULL))
    return;
  HlInst *copy = hl_inst_new(inst->comp, HL_OP_COPY, inst->shape, NULL, 1, inst->operands);
  hl_inherit(copy, inst);
  sp_shardy_replace(inst, copy, NULL);
  hl_changed(s->p);
}

static bool is_passing(const HlInst *inst) {
  return inst->n_operands == 1 && hl_shape_is_array(inst->shape) &&
         hl_shape_compatible(inst->shape, inst->operands[0]->shape);
}

// A same-shape reshape of a result, which nobody reads: readers of MLIR leave them behind.
static void erase_echoes(HlInst *marker) {
  for (HlUse *use = marker->first_use, *next; use; use = next) {
    next = use->next;
    HlInst *user = use->user;
    if (user->op == HL_OP_RESHAPE && !user->first_use && user != user->comp->root &&
        !hl_has_control(user))
      hl_erase(user);
  }
}

static void drop_marker(Shardy *s, HlInst *inst) {
  if (!hl_change(s->p, "marker", inst, NULL))
    return;
  erase_echoes(inst);
  hl_replace_uses(inst, inst->operands[0]);
  hl_erase(inst);
  hl_changed(s->p);
}

static void drop_group(Shardy *s, HlInst *inst) {
  if (!inst->first_use && inst != inst->comp->root)
    hl_remove(s->p, "group", inst);
}

static void export_markers(Shardy *s) {
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (hl_is_call(inst, HL_CALL_SDY_GROUP))
        drop_group(s, inst);
      else if (hl_is_call(inst, HL_CALL_SHARDING) && is_passing(inst))
        export_constraint(s, inst);
      else if (hl_is_call(inst, HL_CALL_SDY_BARRIER) && is_passing(inst))
        drop_marker(s, inst);
    }
}

// --- Results of the entry ------------------------------------------------------------------------------

// What is said of each leaf of the result: by a marker, if there is one, else what was found.
typedef struct Results {
  int64_t n;
  const SpSpec **spec;      // NULL: nothing is known
  const HlSharding **kept;  // as the program says it, in place of a spec
} Results;

static Results find_results(Shardy *s) {
  const HlInst *root = s->m->entry->root;
  Results r = {hl_shape_leaves(root->shape), NULL, s->result_kept};
  r.spec = HL_ARRAY(s->p->arena, const SpSpec *, r.n + 1);
  for (int64_t k = 0; k < r.n; k++) {
    const SpSpec *spec = sp_graph_spec(s->graph, root, k);
    if (s->result[k])
      r.spec[k] = s->result[k];
    else if (!r.kept[k] && spec && spec->known && !spec->fixed)
      r.spec[k] = outside(s, spec, hl_leaf_shape(root->shape, k));
  }
  return r;
}

static bool is_known(const Results *r, int64_t k) {
  return r->spec[k] || r->kept[k];
}

static const HlSharding *result_sharding(Shardy *s, const Results *r, int64_t k) {
  static const HlSharding replicated = {.kind = HL_SHARDING_REPLICATED};
  if (r->kept[k])
    return r->kept[k];
  return r->spec[k] ? sp_export_sharding(&s->export, r->spec[k])
                    : hl_sharding_copy(s->m, &replicated);
}

static const HlSharding *tuple_sharding(Shardy *s, const Results *r) {
  HlSharding *sharding = HL_NEW(s->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(s->m->arena, const HlSharding *, r->n + 1);
  for (int64_t k = 0; k < r->n; k++)
    element[k] = result_sharding(s, r, k);
  *sharding = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = (int)r->n};
  return sharding;
}

static bool any_known(const Results *r) {
  for (int64_t k = 0; k < r->n; k++)
    if (is_known(r, k))
      return true;
  return false;
}

// A single result that is cut otherwise outside: as an element of a tuple it has a sharding of its own.
static void wrap_root(Shardy *s, const Results *r) {
  HlComp *entry = s->m->entry;
  HlInst *root = entry->root;
  const HlSharding *own = hl_sharding(root), *wanted = result_sharding(s, r, 0);
  if (!own || hl_sharding_equal(own, wanted) || !hl_change(s->p, "result", root, NULL))
    return;
  HlInst *tuple = hl_inst_new(entry, HL_OP_TUPLE, hl_shape_tuple(s->m->shapes, 1, &root->shape),
                              NULL, 1, &root);
  HlSharding *of_tuple = HL_NEW(s->m->arena, HlSharding);
  *of_tuple = (HlSharding){.kind = HL_SHARDING_TUPLE,
                           .element = hl_arena_copy(s->m->arena, &own, sizeof(void *)),
                           .n_elements = 1};
  HlAttr attr = {.key = HL_A_SHARDING, .ptr = of_tuple};
  hl_set_attr(tuple, &attr);
  HlInst *element = hl_inst_new(entry, HL_OP_GET_TUPLE_ELEMENT, root->shape, NULL, 1, &tuple);
  hl_set_int(element, HL_A_INDEX, 0);
  attr.ptr = wanted;
  hl_set_attr(element, &attr);
  hl_set_root(entry, element);
  hl_changed(s->p);
}

// element(tuple(x)) at the root, all of one sharding, is x. True: it was.
static bool unwrap_root(Shardy *s, const Results *r) {
  HlComp *entry = s->m->entry;
  HlInst *root = entry->root, *tuple = root->operands[0], *value = tuple->operands[0];
  if (is_known(r, 0) && !hl_sharding(value))
    sp_export_set(&s->export, value, result_sharding(s, r, 0));
  if ((is_known(r, 0) && hl_sharding(value) &&
       !hl_sharding_equal(hl_sharding(value), result_sharding(s, r, 0))) ||
      hl_has_control(root) || !hl_change(s->p, "result", root, NULL))
    return false;
  hl_set_root(entry, value);
  if (!root->first_use) {
    hl_erase(root);
    if (!tuple->first_use && !hl_has_control(tuple))
      hl_erase(tuple);
  }
  return hl_changed(s->p);
}

static bool is_wrapped(const HlInst *root) {
  return root->op == HL_OP_GET_TUPLE_ELEMENT && root->operands[0]->op == HL_OP_TUPLE &&
         root->operands[0]->n_operands == 1;
}

static void drop_result_markers(Shardy *s) {
  int n;
  HlInst **insts = hl_pass_insts(s->p, s->m->entry, &n);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]) && hl_is_call(insts[k], HL_CALL_SDY_RESULT) && is_passing(insts[k]))
      drop_marker(s, insts[k]);
}

static void export_results(Shardy *s) {
  const Results r = find_results(s);
  drop_result_markers(s);
  HlInst *root = s->m->entry->root;
  if (hl_shape_is_tuple(root->shape)) {
    if (any_known(&r))
      sp_export_set(&s->export, root, tuple_sharding(s, &r));
    return;
  }
  if (is_wrapped(root) && (unwrap_root(s, &r) || !is_known(&r, 0)))
    return;
  if (is_wrapped(root) || (!hl_sharding(root) && is_known(&r, 0)))
    sp_export_set(&s->export, root, result_sharding(s, &r, 0));
  else
    wrap_root(s, &r);
}

// Shardy's own form of a program has no layouts; those of the entry's parameters are its interface, and a transpose made anew
// lies as its operand does.
static const HlShape *plain_shape(HlModule *m, const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return !shape->layout || hl_layout_is_default(shape->layout) || shape->layout->extra
               ? shape
               : hl_shape_with_default_layout(m->shapes, hl_shape_without_layout(m->shapes, shape));
  if (!hl_shape_is_tuple(shape))
    return shape;
  const HlShape **element = HL_ARRAY(m->arena, const HlShape *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = plain_shape(m, shape->element[k]);
  return hl_shape_tuple(m->shapes, shape->rank, element);
}

// Elementwise operations lie as their first array does, and the entry's results as they come.
static const HlShape *shape_made_anew(Shardy *s, const HlInst *inst) {
  HlShapes *shapes = s->m->shapes;
  if (inst == s->m->entry->root && inst->op == HL_OP_TUPLE) {
    const HlShape **element = HL_ARRAY(s->p->arena, const HlShape *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      element[k] = inst->operands[k]->shape;
    return hl_shape_tuple(shapes, (int)inst->n_operands, element);
  }
  const bool has_choice = inst->op == HL_OP_SELECT || inst->op == HL_OP_CLAMP;
  const HlShape *lead =
      hl_is_elementwise(inst) && inst->n_operands > 0 ? inst->operands[has_choice]->shape : NULL;
  if (!lead || !hl_shape_same_dims(lead, inst->shape) || !lead->layout || lead->layout->extra ||
      inst->shape->layout->extra)
    return plain_shape(s->m, inst->shape);
  return hl_shape_with_layout(shapes, inst->shape, lead->layout);
}

static void drop_layouts(Shardy *s) {
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if ((inst->op == HL_OP_PARAMETER && comp == s->m->entry) || inst->op == HL_OP_CUSTOM_CALL ||
          inst->op == HL_OP_TRANSPOSE)
        continue;
      const HlShape *shape = shape_made_anew(s, inst);
      if (shape == inst->shape || !hl_change(s->p, "layout", inst, NULL))
        continue;
      hl_set_shape(inst, shape);
      hl_changed(s->p);
    }
}

// Results of which a sharding is said have the usual layout.
static void reshape_results(Shardy *s) {
  HlInst *root = s->m->entry->root;
  const HlSharding *sharding = hl_sharding(root);
  if (!s->named || !sharding || root->op != HL_OP_TUPLE ||
      plain_shape(s->m, root->shape) == root->shape || !hl_change(s->p, "layout", root, NULL))
    return;
  for (uint32_t k = 0; k < root->n_operands; k++) {
    HlInst *x = root->operands[k];
    const HlShape *shape = plain_shape(s->m, x->shape);
    if (shape == x->shape || !hl_shape_is_array(shape))
      continue;
    HlInst *reshape = hl_inst_new(x->comp, HL_OP_RESHAPE, shape, NULL, 1, &x);
    const HlSharding *own = hl_sharding_leaf(sharding, k);
    const HlAttr attr = {.key = HL_A_SHARDING, .ptr = own};
    if (own && own->kind == HL_SHARDING_NAMED)
      hl_set_attr(reshape, &attr);
    hl_set_operand(root, (int)k, reshape);
  }
  hl_set_shape(root, plain_shape(s->m, root->shape));
  hl_changed(s->p);
}

void sp_shardy_export(Shardy *s) {
  sp_export_start(&s->export, s->p, s->graph, s->named);
  fold_elements(s);
  drop_layouts(s);
  set_attributes(s);
  sp_export_split(&s->export);
  sp_export_merge(&s->export);
  say_loops(s);
  copy_into_loops(s);
  export_results(s);
  reshape_results(s);
  sp_export_manual(s);
  export_markers(s);
}
