// opt/float/bfloat16_places.c: where a module's f32 values go, and which of them may be bf16
// (bfloat16.h).
//
// A class may be narrow when whatever reads it rounds it, or passes it on to a class that may. That
// is found for all computations at once, by striking out what somebody needs in f32 and then what
// feeds that. A loop's state may be narrow, too, if only widened bf16 ever comes into it. What goes
// into a fusion, call or branch is narrow only if it is so outside already.
//
//   body: f32[8] s -> convert(f(bf16[8] convert(s)))    =>    body: bf16[8] s -> f(s)

#include "opt/float/bfloat16.h"

// --- Places -------------------------------------------------------------------------------------

int bf16_root(int *parent, int k) {
  while (parent[k] != k)
    k = parent[k] = parent[parent[k]];
  return k;
}

static bool is_f32(const HlInst *inst) {
  return inst->shape->dtype == HL_F32;
}

static void join(Bf16Places *w, int a, int b, int n) {
  for (int k = 0; k < n; k++)
    w->parent[bf16_class(w, a + k)] = bf16_class(w, b + k);
}

static int leaves_of(const HlShape *shape) {
  int n = shape->dtype == HL_TUPLE ? 0 : 1;
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    n += leaves_of(shape->element[k]);
  return n;
}

static int list_leaves(Bf16Places *w, HlInst *inst, const HlShape *shape, int at) {
  if (shape->dtype != HL_TUPLE) {
    w->owner[at] = inst;
    w->leaf[at] = shape;
    w->parent[at] = at;
    return at + 1;
  }
  for (int k = 0; k < shape->rank; k++)
    at = list_leaves(w, inst, shape->element[k], at);
  return at;
}

static void list_places(Bf16Places *w) {
  HlArena *arena = w->p->arena;
  for (HlComp *comp = w->m->first; comp; comp = comp->next) {
    w->base[comp->id] = w->n_insts;
    w->n_insts += (int)comp->next_id;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      w->n_places += leaves_of(inst->shape);
  }
  w->place = HL_ARRAY(arena, int, w->n_insts + 1);
  w->offset = HL_ARRAY(arena, int *, w->n_insts + 1);
  w->role = HL_ARRAY(arena, uint8_t, w->n_insts + 1);
  w->owner = HL_ARRAY(arena, HlInst *, w->n_places + 1);
  w->leaf = HL_ARRAY(arena, const HlShape *, w->n_places + 1);
  w->parent = HL_ARRAY(arena, int, w->n_places + 1);
  bool **lists[] = {&w->pinned, &w->needed, &w->source, &w->strict, &w->state, &w->given, &w->good};
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
    *lists[k] = HL_ARRAY(arena, bool, w->n_places + 1);
  int at = 0;
  for (HlComp *comp = w->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      w->place[bf16_entry(w, inst)] = at;
      if (hl_shape_is_tuple(inst->shape)) {
        int *offset = HL_ARRAY(arena, int, inst->shape->rank + 1);
        for (int k = 0; k < inst->shape->rank; k++)
          offset[k + 1] = offset[k] + leaves_of(inst->shape->element[k]);
        w->offset[bf16_entry(w, inst)] = offset;
      }
      at = list_leaves(w, inst, inst->shape, at);
    }
}

static int n_leaves(const Bf16Places *w, const HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) ? w->offset[bf16_entry(w, inst)][inst->shape->rank] : 1;
}

static int element_place(const Bf16Places *w, const HlInst *tuple, int k) {
  return bf16_place(w, tuple) + w->offset[bf16_entry(w, tuple)][k];
}

// --- What instructions do with elements ----------------------------------------------------------

// Whether operand k takes elements that come out again as they are.
static bool takes_elements(const HlInst *inst, int k) {
  switch (inst->op) {
  case HL_OP_ABS:
  case HL_OP_NEGATE: return true;  // but for the sign
  case HL_OP_ADD_DEPENDENCY:       // these stay as they are
  case HL_OP_DOMAIN:
  case HL_OP_DYNAMIC_RESHAPE:
  case HL_OP_SET_DIMENSION_SIZE:
  case HL_OP_RAGGED_ALL_TO_ALL: return false;
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: {
    const HlOp op = inst->n_operands == 2 ? hl_reducer(hl_to_apply(inst)) : HL_OP_COUNT;
    return op == HL_OP_MAXIMUM || op == HL_OP_MINIMUM;
  }
  default:
    return hl_operand_in(hl_op_facts((HlOp)inst->op)->elements, k, 1) &&
           (inst->n_operands == 1 || !hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE));
  }
}

static bool moves_elements(const HlInst *inst) {
  if (!is_f32(inst) || inst->n_operands == 0 || hl_shape_is_dynamic(inst->shape) ||
      hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return false;
  bool any = false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (!takes_elements(inst, (int)k))
      continue;
    any = true;
    if (!is_f32(inst->operands[k]) || hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  }
  return any;
}

// A sort carries operand j along: its comparison, which is its alone, does not look at it.
static bool sort_carries(const HlInst *sort, int j) {
  const HlComp *comp = hl_to_apply(sort);
  if (!hl_shape_is_tuple(sort->shape) || comp->first_call != comp->last_call ||
      comp->n_params != 2 * (int)sort->n_operands || !is_f32(sort->operands[j]))
    return false;
  for (int k = 2 * j; k < 2 * j + 2; k++)
    if (!comp->params[k] || comp->params[k]->first_use || comp->root == comp->params[k])
      return false;
  return true;
}

// It hands over its operands and gives what its computations end with.
static bool is_plain_call(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_WHILE:
    return inst->n_calls == 2 && hl_while_body(inst)->n_params == 1 &&
           hl_while_condition(inst)->n_params == 1;
  case HL_OP_CONDITIONAL:
    for (int k = 0; k < inst->n_calls; k++)
      if (hl_called(inst, k)->n_params != 1)
        return false;
    return inst->n_operands == inst->n_calls + 1u;
  case HL_OP_FUSION:
    if (hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM)
      return false;
    // fall through
  case HL_OP_CALL:
    return inst->n_calls == 1 && hl_to_apply(inst)->n_params == (int)inst->n_operands &&
           !hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING) &&
           !hl_attr_int(inst, HL_A_IS_COMPOSITE);
  default: return false;
  }
}

// The parameter that operand k of a plain call becomes; NULL: none, or the state of a loop.
static HlInst *parameter_for(const HlInst *call, int k) {
  if (call->op == HL_OP_WHILE)
    return NULL;
  if (call->op == HL_OP_CONDITIONAL)
    return k > 0 ? hl_called(call, k - 1)->params[0] : NULL;
  return hl_to_apply(call)->params[k];
}

bool bf16_is_rounding(const HlInst *inst) {
  const HlInst *from = inst->op == HL_OP_CONVERT ? inst->operands[0] : NULL;
  return from && inst->shape->dtype == HL_BF16 && is_f32(from) && !hl_has_control(inst) &&
         inst->shape == hl_shape_with_dtype(inst->comp->module->shapes, from->shape, HL_BF16) &&
         (!hl_sharding(inst) ||
          (hl_sharding(from) && hl_sharding_equal(hl_sharding(inst), hl_sharding(from))));
}

HlInst *bf16_widened(const HlInst *inst) {
  if (inst->op != HL_OP_CONVERT || hl_has_control(inst))
    return NULL;
  const HlShape *narrow = hl_shape_with_dtype(inst->comp->module->shapes, inst->shape, HL_BF16);
  return inst->operands[0]->shape == narrow ? inst->operands[0] : NULL;
}

bool bf16_is_constant(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT && hl_is_constant(inst);
}

// A value of bf16, or as good as one.
static bool is_narrow_already(Bf16Places *w, const HlInst *inst) {
  if (bf16_widened(inst))
    return true;
  const HlLiteral *value = bf16_is_constant(inst) ? hl_constant(inst) : hl_splat(inst);
  HlLiteral *narrow = value ? hl_literal_convert(w->p->cx, value, HL_BF16) : NULL;
  HlLiteral *back = narrow ? hl_literal_convert(w->p->cx, narrow, HL_F32) : NULL;
  const bool same = back && hl_literal_equal(back, value);
  hl_literal_unref(narrow);
  hl_literal_unref(back);
  return same;
}

// --- Classes and edges ---------------------------------------------------------------------------

static void pin(Bf16Places *w, const HlInst *inst) {
  const int place = bf16_place(w, inst), n = n_leaves(w, inst);
  for (int k = 0; k < n; k++)
    w->pinned[place + k] = true;
}

static Bf16Role role_of(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_TUPLE:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_PARAMETER: return BF16_CARRIED;
  case HL_OP_OPT_BARRIER:
    return hl_shape_is_tuple(inst->shape) ? BF16_CARRIED
           : moves_elements(inst)         ? BF16_MOVED
                                          : BF16_SOURCE;
  case HL_OP_SORT: return hl_shape_is_tuple(inst->shape) ? BF16_MOVED : BF16_SOURCE;
  default:
    return is_plain_call(inst) ? BF16_CARRIED : moves_elements(inst) ? BF16_MOVED : BF16_SOURCE;
  }
}

static void join_insts(Bf16Places *w, const HlInst *a, const HlInst *b) {
  join(w, bf16_place(w, a), bf16_place(w, b), n_leaves(w, a));
}

static void join_call(Bf16Places *w, HlInst *call) {
  for (int k = 0; k < call->n_calls; k++) {
    HlComp *comp = hl_called(call, k);
    if (call->op == HL_OP_WHILE)
      join_insts(w, call, comp->params[0]);
    if (call->op == HL_OP_WHILE && k == 1)
      break;  // the condition gives no part of the state
    if (hl_shape_is_tuple(call->shape))
      join_insts(w, call, comp->root);
    const HlInst *first = comp->first_call->caller;
    if (first != call && is_plain_call(first))
      join_insts(w, call, first);
  }
  for (uint32_t k = 0; k < call->n_operands; k++) {
    const HlInst *operand = call->operands[k], *param = parameter_for(call, (int)k);
    if (hl_shape_is_tuple(operand->shape))
      join_insts(w, operand, param ? param : call);
  }
}

// Whoever takes a tuple takes it apart, or hands it on as it is.
static void pin_if_read_whole(Bf16Places *w, const HlInst *tuple) {
  for (const HlUse *use = tuple->first_use; use; use = use->next)
    if (w->role[bf16_entry(w, use->user)] != BF16_CARRIED) {
      pin(w, tuple);
      return;
    }
}

static void join_sort(Bf16Places *w, const HlInst *sort) {
  for (int j = 0; j < (int)sort->n_operands; j++) {
    if (!sort_carries(sort, j)) {
      w->pinned[bf16_place(w, sort) + j] = true;
      continue;
    }
    for (int k = 2 * j; k < 2 * j + 2; k++)
      join(w, bf16_place(w, hl_to_apply(sort)->params[k]), bf16_place(w, sort) + j, 1);
  }
}

static void join_places(Bf16Places *w, HlInst *inst) {
  const Bf16Role role = w->role[bf16_entry(w, inst)];
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    const int k = (int)hl_attr_int(inst, HL_A_INDEX);
    join(w, bf16_place(w, inst), element_place(w, inst->operands[0], k), n_leaves(w, inst));
  } else if (inst->op == HL_OP_TUPLE) {
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (hl_shape_is_tuple(inst->operands[k]->shape))
        join(w, bf16_place(w, inst->operands[k]), element_place(w, inst, (int)k),
             n_leaves(w, inst->operands[k]));
  } else if (inst->op == HL_OP_SORT && role == BF16_MOVED) {
    join_sort(w, inst);
  } else if (inst->op == HL_OP_OPT_BARRIER && role == BF16_CARRIED) {
    join_insts(w, inst, inst->operands[0]);
  } else if (role == BF16_CARRIED && inst->op != HL_OP_PARAMETER) {
    join_call(w, inst);
  } else if (role == BF16_SOURCE && hl_shape_is_tuple(inst->shape)) {
    pin(w, inst);
  }
  if (hl_shape_is_tuple(inst->shape))
    pin_if_read_whole(w, inst);
}

static bool is_open(const Bf16Places *w, const HlComp *comp) {
  if (comp == w->m->entry || !comp->first_call || comp->execution_thread)
    return false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!is_plain_call(call->caller))
      return false;
  return true;
}

// What goes into and comes out of a computation with other callers stays as it is.
static void pin_interface(Bf16Places *w, const HlComp *comp) {
  const HlInst *caller = comp->first_call ? comp->first_call->caller : NULL;
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k] && !(caller && caller->op == HL_OP_SORT && sort_carries(caller, k / 2)))
      pin(w, comp->params[k]);
  if (hl_shape_is_tuple(comp->root->shape))
    pin(w, comp->root);
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (is_plain_call(call->caller))
      pin(w, call->caller);
}

// Flags of places become flags of their classes.
static void gather_flags(Bf16Places *w) {
  for (int k = 0; k < w->n_places; k++) {
    const HlInst *inst = w->owner[k];
    const HlLayout *layout = w->leaf[k]->layout;
    const bool far = layout && layout->extra && layout->extra->memory_space != 0;
    const int c = bf16_class(w, k);
    w->pinned[c] |=
        w->pinned[k] || w->leaf[k]->dtype != HL_F32 || far || hl_shape_is_dynamic(w->leaf[k]);
    w->source[c] |= w->role[bf16_entry(w, inst)] == BF16_SOURCE;
    if (inst->op != HL_OP_PARAMETER || !w->open[inst->comp->id])
      continue;
    const bool in_loop = inst->comp->first_call->caller->op == HL_OP_WHILE;
    w->state[c] |= in_loop;
    w->strict[c] |= !in_loop;
  }
}

int bf16_target(const Bf16Places *w, const HlInst *user, int number) {
  const Bf16Role role = w->role[bf16_entry(w, user)];
  if (role == BF16_SOURCE)
    return BF16_NOWHERE;
  if (user->op == HL_OP_TUPLE)
    return element_place(w, user, number);
  if (user->op == HL_OP_SORT)
    return sort_carries(user, number) ? bf16_place(w, user) + number : BF16_NOWHERE;
  if (role == BF16_MOVED)
    return takes_elements(user, number) ? bf16_place(w, user) : BF16_NOWHERE;
  if (user->op == HL_OP_WHILE)
    return bf16_place(w, user);
  const HlInst *param = parameter_for(user, number);
  return param ? bf16_place(w, param) : BF16_NOWHERE;
}

int bf16_root_target(const Bf16Places *w, const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (is_plain_call(call->caller))
      return bf16_place(w, call->caller);
  return BF16_NOWHERE;
}

static void list_edge(Bf16Places *w, HlInst *from, HlInst *user, int number, int to) {
  if (to == BF16_NOWHERE)
    w->needed[bf16_class(w, bf16_place(w, from))] = true;
  else
    w->edge[w->n_edges++] = (Bf16Edge){from, user, number, to};
}

static void list_edges(Bf16Places *w) {
  size_t n = 1;
  for (const HlComp *comp = w->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      n += inst->n_operands + 1;
  w->edge = HL_ARRAY(w->p->arena, Bf16Edge, n);
  for (HlComp *comp = w->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!is_f32(inst))
        continue;
      for (const HlUse *use = inst->first_use; use; use = use->next)
        if (!bf16_is_rounding(use->user))
          list_edge(w, inst, use->user, use->number, bf16_target(w, use->user, use->number));
      if (comp->root == inst)
        list_edge(w, inst, NULL, 0, bf16_root_target(w, comp));
      if (comp->root == inst && !w->open[comp->id])
        w->needed[bf16_class(w, bf16_place(w, inst))] = true;
    }
}

static void find_classes(Bf16Places *w) {
  for (HlComp *comp = w->m->first; comp; comp = comp->next) {
    w->open[comp->id] = is_open(w, comp);
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      w->role[bf16_entry(w, inst)] = (uint8_t)role_of(inst);
  }
  for (HlComp *comp = w->m->first; comp; comp = comp->next) {
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      join_places(w, inst);
    if (!w->open[comp->id])
      pin_interface(w, comp);
  }
  gather_flags(w);
  list_edges(w);
}

// --- Which classes may be narrow -----------------------------------------------------------------

Bf16Sorted bf16_sort(HlArena *arena, const int *key, int n, int n_keys) {
  Bf16Sorted s = {HL_ARRAY(arena, int, n_keys + 2), HL_ARRAY(arena, int, n + 1)};
  for (int k = 0; k < n; k++)
    s.start[key[k] + 2]++;
  for (int k = 2; k < n_keys + 2; k++)
    s.start[k] += s.start[k - 1];
  for (int k = 0; k < n; k++)
    s.at[s.start[key[k] + 1]++] = k;
  return s;
}

// The states of loops into which only bf16 comes.
static void find_given(Bf16Places *w) {
  for (int k = 0; k < w->n_places; k++)
    w->given[k] = w->state[k] && !w->pinned[k];
  for (int k = 0; k < w->n_edges; k++) {
    const int to = bf16_class(w, w->edge[k].to);
    if (w->given[to] && bf16_class(w, bf16_place(w, w->edge[k].from)) != to &&
        !is_narrow_already(w, w->edge[k].from))
      w->given[to] = false;
  }
}

static void strike(Bf16Places *w, int c, int *waiting, int *n) {
  if (!w->good[c])
    return;
  w->good[c] = false;
  waiting[(*n)++] = c;
}

static void find_good(Bf16Places *w) {
  HlArena *arena = w->p->arena;
  int *from = HL_ARRAY(arena, int, w->n_edges + 1), *to = HL_ARRAY(arena, int, w->n_edges + 1);
  int *waiting = HL_ARRAY(arena, int, w->n_places + 1), n = 0;
  for (int k = 0; k < w->n_edges; k++) {
    from[k] = bf16_class(w, bf16_place(w, w->edge[k].from));
    to[k] = bf16_class(w, w->edge[k].to);
  }
  const Bf16Sorted out = bf16_sort(arena, from, w->n_edges, w->n_places);
  const Bf16Sorted in = bf16_sort(arena, to, w->n_edges, w->n_places);
  for (int c = 0; c < w->n_places; c++)
    w->good[c] = w->parent[c] == c;
  for (int c = 0; c < w->n_places; c++)
    if (w->pinned[c] || (w->needed[c] && !w->given[c]))
      strike(w, c, waiting, &n);
  while (n > 0) {
    const int c = waiting[--n];
    for (int k = in.start[c]; k < in.start[c + 1]; k++)
      if (!w->given[from[in.at[k]]])
        strike(w, from[in.at[k]], waiting, &n);
    for (int k = out.start[c]; k < out.start[c + 1]; k++) {
      const HlInst *value = w->edge[out.at[k]].from;
      if (w->strict[to[out.at[k]]] && !bf16_widened(value) && !bf16_is_constant(value))
        strike(w, to[out.at[k]], waiting, &n);
    }
  }
}

Bf16Places bf16_places(HlPass *p) {
  Bf16Places w = {.p = p, .m = p->m};
  w.base = HL_ARRAY(p->arena, int, p->m->next_comp_id);
  w.open = HL_ARRAY(p->arena, bool, p->m->next_comp_id);
  list_places(&w);
  find_classes(&w);
  find_given(&w);
  find_good(&w);
  return w;
}
