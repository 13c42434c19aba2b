// opt/expand/dynamic_padder.c
//
// dynamic_padder: arrays of dynamic size become static ones of the bound, with their sizes as
// numbers beside them; dynamic shapes are left where values come in and go out.
//
//   x = f32[<=8] parameter(0)        pad = (f32[8], s32[]) custom-call(x), PadToStatic
//   r = f32[] reduce(x, zero)    =>  data = get-tuple-element(pad), n = get-tuple-element(pad)
//                                    inside = compare(iota, broadcast(n)), direction=LT
//                                    r = reduce(select(inside, data, zeros), zero)
//
// Every operation is rewritten by itself: its operands are read as data and sizes, and what it
// gives is put together again by SliceToDynamic, which the next one reads. What is not known how to
// rewrite stays dynamic between such a SliceToDynamic and a PadToStatic. Callers come before what
// they call, so that the state of a loop is static when its body is met.
//
// get-dimension-size of a static dimension is a constant; nothing else happens to static modules.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/inline.h"
#include "opt/ask/loops.h"
#include "opt/expand/dynamic_dims.h"
#include "opt/passes.h"

static bool has_dynamic(const HlShape *shape) {
  return hl_shape_is_dynamic(shape) && !hl_shape_is_unbounded(shape);
}

// --- Tuples as lists of static arrays -----------------------------------------------------------

// The arrays of a value, dynamic ones as their data and sizes.
typedef struct Flat {
  HlPass *p;
  HlBuild *b;
  HlInst **at;
  int n, capacity;
} Flat;

static void put(Flat *flat, HlInst *x) {
  if (flat->n == flat->capacity) {
    HlInst **more = HL_ARRAY(flat->p->arena, HlInst *, 2 * flat->capacity + 8);
    if (flat->n > 0)
      memcpy(more, flat->at, (size_t)flat->n * sizeof(HlInst *));
    flat->at = more;
    flat->capacity = 2 * flat->capacity + 8;
  }
  flat->at[flat->n++] = x;
}

static void flatten(Flat *flat, HlInst *x) {
  if (x && hl_shape_is_tuple(x->shape)) {
    for (int k = 0; k < x->shape->rank; k++)
      flatten(flat, hl_b_element(flat->b, x, k));
    return;
  }
  if (!x || !hl_shape_is_array(x->shape)) {
    put(flat, x);
    return;
  }
  DynValue value = dyn_read_any(flat->p, flat->b, x);
  put(flat, value.data);
  for (int d = 0; d < x->shape->rank; d++)
    if (dyn_is_dim(x->shape, d))
      put(flat, dyn_size(flat->b, value, d));
}

static HlInst *flat_tuple(HlPass *p, HlBuild *b, HlInst *x) {
  Flat flat = {.p = p, .b = b};
  flatten(&flat, x);
  return hl_b_tuple(b, flat.n, flat.at);
}

// The value of a shape whose arrays stand in a flat tuple from *at on.
static HlInst *unflatten(HlPass *p, HlBuild *b, HlInst *flat, const HlShape *shape, int *at) {
  if (hl_shape_is_tuple(shape)) {
    HlInst **part = HL_ARRAY(p->arena, HlInst *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      part[k] = unflatten(p, b, flat, shape->element[k], at);
    return hl_b_tuple(b, shape->rank, part);
  }
  HlInst *data = hl_b_element(b, flat, (*at)++);
  if (!data || !hl_shape_is_array(shape))
    return data;
  DynValue value = dyn_new(p, data);
  for (int d = 0; d < shape->rank; d++)
    if (dyn_is_dim(shape, d))
      value.size[d] = hl_b_element(b, flat, (*at)++);
  return dyn_write(p, b, value, shape);
}

static HlInst *whole(HlPass *p, HlBuild *b, HlInst *flat, const HlShape *shape) {
  int at = 0;
  return flat ? unflatten(p, b, flat, shape, &at) : NULL;
}

// A computation of one parameter that takes, and if asked returns, a flat tuple.
static HlComp *flat_comp(HlPass *p, const HlBuild *b, const HlComp *old, const HlShape *state,
                         bool flat_argument, bool flat_result) {
  HlBuild in = hl_b_nested(b, old->name->text);
  in.metadata = NULL;
  hl_comp_set_thread(in.comp, old->execution_thread);
  const HlInst *parameter = old->params[0];
  HlInst *arg = hl_b_parameter(&in, state, parameter->name->text);
  if (flat_argument)
    arg = whole(p, &in, arg, parameter->shape);
  HlInst *root = arg ? hl_graft(in.comp, old, 1, &arg, NULL) : NULL;
  if (root && flat_result)
    root = flat_tuple(p, &in, root);
  if (!root)
    return NULL;
  hl_set_root(in.comp, root);
  return in.comp;
}

// --- Loops, conditionals, calls -----------------------------------------------------------------

static bool is_plain_loop(const HlInst *loop) {
  return loop->n_calls == 2 && hl_while_body(loop)->n_params == 1 &&
         hl_while_condition(loop)->n_params == 1 && !hl_sharding(loop);
}

static bool pad_loop(HlPass *p, HlInst *loop) {
  HlBuild b;
  if (!has_dynamic(loop->shape) || !is_plain_loop(loop))
    return false;
  hl_begin(p, "while", loop, &b);
  HlInst *init = flat_tuple(p, &b, loop->operands[0]), *by = NULL;
  if (init) {
    HlComp *body = flat_comp(p, &b, hl_while_body(loop), init->shape, true, true);
    HlComp *condition = flat_comp(p, &b, hl_while_condition(loop), init->shape, true, false);
    HlInst *flat = body && condition ? hl_b_while(&b, condition, body, init) : NULL;
    if (flat && hl_has_attr(loop, HL_A_BACKEND_CONFIG))
      hl_set_text(flat, HL_A_BACKEND_CONFIG, hl_attr_text(loop, HL_A_BACKEND_CONFIG));
    by = whole(p, &b, flat, loop->shape);
  }
  return loop_commit(p, loop, by);
}

static bool pad_conditional(HlPass *p, HlInst *cond) {
  const int n = cond->n_calls;
  const bool result = has_dynamic(cond->shape);
  bool any = result;
  if (cond->n_operands != (uint32_t)n + 1 || hl_sharding(cond))
    return false;
  for (int k = 0; k < n; k++) {
    any |= has_dynamic(cond->operands[k + 1]->shape);
    if (hl_called(cond, k)->n_params != 1)
      return false;
  }
  if (!any)
    return false;
  HlBuild b;
  hl_begin(p, "conditional", cond, &b);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1), *by;
  HlComp **branch = HL_ARRAY(p->arena, HlComp *, n + 1),
         **old = HL_ARRAY(p->arena, HlComp *, n + 1);
  operands[0] = cond->operands[0];
  for (int k = 0; k < n; k++) {
    HlInst *x = cond->operands[k + 1];
    const bool argument = has_dynamic(x->shape);
    old[k] = hl_called(cond, k);
    operands[k + 1] = argument ? flat_tuple(p, &b, x) : x;
    branch[k] =
        operands[k + 1] ? flat_comp(p, &b, old[k], operands[k + 1]->shape, argument, result) : NULL;
    if (!branch[k]) {
      hl_drop(p);
      return false;
    }
  }
  const HlShape *shape = result ? branch[0]->root->shape : cond->shape;
  by = hl_inst_copy(cond->comp, cond, shape, n + 1, operands);
  hl_remove_attr(by, HL_A_ORIGIN);
  hl_set_calls(by, n, branch);
  if (!hl_commit(p, result ? whole(p, &b, by, cond->shape) : by))
    return false;
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(old[k]))
      loop_drop_comp(p, old[k]);
  return true;
}

static bool pad_call(HlPass *p, HlInst *call) {
  bool any = has_dynamic(call->shape);
  for (uint32_t k = 0; k < call->n_operands; k++)
    any |= has_dynamic(call->operands[k]->shape);
  HlComp *callee = hl_to_apply(call);
  return any && inline_call(p, "call", call, callee, (int)call->n_operands, call->operands);
}

// --- Elements -----------------------------------------------------------------------------------

// An element of a tuple that stands there, of a PadToStatic of a SliceToDynamic, or not rewritten.
static bool pad_element(HlPass *p, HlInst *inst) {
  HlInst *tuple = inst->operands[0];
  const int64_t k = hl_attr_int(inst, HL_A_INDEX);
  if (tuple->op == HL_OP_TUPLE && has_dynamic(tuple->shape))
    return hl_replace(p, "element", inst, tuple->operands[k]);
  DynValue value;
  if (!hl_is_call(tuple, HL_CALL_PAD_TO_STATIC) || tuple->n_operands != 1 ||
      !hl_is_call(tuple->operands[0], HL_CALL_SLICE_TO_DYNAMIC) ||
      !dyn_read(p, tuple->operands[0], &value) || tuple->shape->rank != value.data->shape->rank + 1)
    return false;
  HlBuild b;
  hl_begin(p, "element", inst, &b);
  return hl_commit(p, k == 0 ? value.data : dyn_size(&b, value, (int)k - 1));
}

static bool fold_static_size(HlPass *p, HlInst *inst) {
  const HlShape *shape = inst->operands[0]->shape;
  const int64_t d = hl_dim(inst);
  if (!hl_shape_is_array(shape) || dyn_is_dim(shape, (int)d))
    return false;
  HlBuild b;
  hl_begin(p, "static-size", inst, &b);
  return hl_commit(p, dyn_number(&b, shape->dim[d]));
}

// --- All ----------------------------------------------------------------------------------------

static bool reads_dynamic(const HlInst *inst) {
  bool any = false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (hl_shape_is_unbounded(shape))
      return false;
    any |= hl_shape_is_dynamic(shape);
  }
  return any || inst->op == HL_OP_SET_DIMENSION_SIZE || inst->op == HL_OP_DYNAMIC_RESHAPE;
}

static bool expand(HlPass *p, HlInst *inst) {
  if (!reads_dynamic(inst))
    return false;
  HlBuild b;
  hl_begin(p, "pad", inst, &b);
  return hl_commit(p, dyn_expand(p, &b, inst));
}

// Some use of it is no PadToStatic.
static bool is_wanted(const HlInst *inst) {
  bool wanted = inst->comp->root == inst;
  for (const HlUse *use = inst->first_use; use && !wanted; use = use->next)
    wanted = !hl_is_call(use->user, HL_CALL_PAD_TO_STATIC);
  return wanted;
}

static bool pad_other(HlPass *p, HlInst *inst) {
  return inst->n_operands > 0 && expand(p, inst);
}

static bool pad_size(HlPass *p, HlInst *inst) {
  return fold_static_size(p, inst) || expand(p, inst);
}

static bool (*const pad_of[HL_OP_COUNT])(HlPass *, HlInst *) = {
    [HL_OP_WHILE] = pad_loop,
    [HL_OP_CONDITIONAL] = pad_conditional,
    [HL_OP_CALL] = pad_call,
    [HL_OP_GET_TUPLE_ELEMENT] = pad_element,
    [HL_OP_GET_DIMENSION_SIZE] = pad_size,
};

static bool rewrite(HlPass *p, HlInst *inst) {
  if (hl_is_call(inst, HL_CALL_SLICE_TO_DYNAMIC) || hl_is_call(inst, HL_CALL_PAD_TO_STATIC))
    return false;
  const bool done = (pad_of[inst->op] ? pad_of[inst->op] : pad_other)(p, inst);
  if (done || !dyn_is_array(inst->shape) || !is_wanted(inst) || !hl_change(p, "border", inst, NULL))
    return done;
  dyn_wrap(p, inst);
  return hl_changed(p);
}

// Again as long as something happens: calls leave instructions that were not there before.
static void rewrite_comp(HlPass *p, HlComp *comp) {
  int n;
  for (bool again = true; again;) {
    again = false;
    HlMark mark = hl_arena_mark(p->arena);
    HlInst **insts = hl_pass_insts(p, comp, &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]))
        again |= rewrite(p, insts[k]);
    hl_arena_release(p->arena, mark);
  }
}

static bool is_concerned(HlPass *p) {
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (has_dynamic(inst->shape) || inst->op == HL_OP_GET_DIMENSION_SIZE ||
          inst->op == HL_OP_SET_DIMENSION_SIZE)
        return true;
  return false;
}

// Data and all in place of a dynamic result.
static void drop_result_slice(HlPass *p) {
  HlComp *entry = p->m->entry;
  HlInst *root = entry->root;
  DynValue value;
  if (!dyn_is_array(root->shape) || !dyn_read(p, root, &value) ||
      !hl_change(p, "result", root, NULL))
    return;
  hl_set_root(entry, value.data);
  if (p->m->entry_result)
    hl_set_entry_layout(p->m, p->m->n_entry_params, p->m->entry_params,
                        hl_shape_static(p->m->shapes, p->m->entry_result));
  if (!root->first_use)
    hl_erase(root);
  hl_changed(p);
}

bool pass_dynamic_padder(HlPass *p) {
  if (!is_concerned(p))
    return true;
  int n;
  uint32_t first_new = p->m->next_comp_id;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = n - 1; k >= 0; k--)
    if (hl_comp_alive(comps[k]))
      rewrite_comp(p, comps[k]);
  while (first_new < p->m->next_comp_id) {  // bodies of new loops, and of loops in those
    const uint32_t from = first_new;
    first_new = p->m->next_comp_id;
    comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
    for (int k = n - 1; k >= 0; k--)
      if (hl_comp_alive(comps[k]) && comps[k]->id >= from)
        rewrite_comp(p, comps[k]);
  }
  if (!hl_pass_flag(p, "slice_dynamic_output"))
    drop_result_slice(p);
  return true;
}
