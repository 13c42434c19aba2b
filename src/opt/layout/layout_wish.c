// opt/layout/layout_wish.c: wishes for layouts, which of two wins, and what follows from a wish that won.
//
// A wish is about a buffer (the array as it is made) or about a use (the array as one user reads
// it); where the two end up different a copy will stand between. A wish that changes something is
// followed:
//
//   about a buffer:   its definer's operands, if its op ties them; its users, to spare copies
//   about a use:      the buffers it reads; the user's other operands and result, if tied
//   about the result: the buffers that make up the root
//
// What is depth-first is followed before everything noted earlier, so that one wish spreads through
// a region of the graph before another one meets it.

#include "base/memory.h"
#include "opt/layout/layout_assignment.h"

enum { MOST_USE_CHANGES = 8 };  // of one use: equal mandatory wishes must not take turns for ever

// --- The list of what is to be followed
// ---------------------------------------------------------------

static LayoutItem *new_item(Layouts *a, LayoutBuffer *buffer, LayoutUse *use, LayoutWeight weight) {
  LayoutItem *item = a->spare;
  if (item)
    a->spare = item->next;
  else
    item = HL_NEW(a->arena, LayoutItem);
  *item = (LayoutItem){buffer, use, weight.depth_first, weight.priority, NULL};
  return item;
}

static void put_last(LayoutItem **first, LayoutItem **last, LayoutItem *item) {
  item->next = NULL;
  *(*first ? &(*last)->next : first) = item;
  *last = item;
}

// Wishes that are not depth-first stand by priority among those of the same step.
static void add_item(Layouts *a, LayoutItem *item) {
  if (item->depth_first || !a->added || a->last_added->priority >= item->priority) {
    put_last(&a->added, &a->last_added, item);
    return;
  }
  LayoutItem *after = NULL;
  for (LayoutItem *at = a->added; at; at = at->next)
    if (at->priority >= item->priority)
      after = at;
  item->next = after ? after->next : a->added;
  *(after ? &after->next : &a->added) = item;
}

static void take_added(Layouts *a) {
  for (LayoutItem *item = a->added, *next; item; item = next) {
    next = item->next;
    if (!item->depth_first) {
      put_last(&a->waiting, &a->last_waiting, item);
      continue;
    }
    item->next = a->waiting;
    if (!a->waiting)
      a->last_waiting = item;
    a->waiting = item;
  }
  a->added = a->last_added = NULL;
}

// --- Wishes -------------------------------------------------------------------------------------

static bool raise_weight(LayoutWeight *old, LayoutWeight by) {
  bool raised = (by.mandatory && !old->mandatory) || (by.depth_first && !old->depth_first) ||
                by.priority > old->priority;
  old->mandatory |= by.mandatory;
  old->depth_first |= by.depth_first;
  if (by.priority > old->priority)
    old->priority = by.priority;
  return raised;
}

static bool buffer_gives_way(const LayoutBuffer *buffer, LayoutWeight weight) {
  if (weight.mandatory)
    return true;
  return buffer->changes < LAYOUT_MOST_CHANGES && hl_shape_is_array(buffer->inst->shape) &&
         weight.priority > buffer->weight.priority;
}

// A result that shares memory with an operand lies like it.
static void want_alias(Layouts *a, LayoutBuffer *buffer) {
  const HlAttr *attr = hl_attr(buffer->inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    if (alias->index.n == 0 && alias->number < buffer->inst->n_operands &&
        layout_leaf_at(buffer->inst->shape, alias->output) == buffer->leaf)
      layout_want_array_use(a, buffer->inst, (int)alias->number, buffer->order, buffer->weight);
  }
}

void layout_want_buffer(Layouts *a, LayoutBuffer *buffer, LayoutOrder order, LayoutWeight weight) {
  if (!buffer->order) {
    buffer->order = order;
    buffer->weight = weight;
  } else if (layout_same(buffer->order, order, buffer->array->rank)) {
    if (!raise_weight(&buffer->weight, weight) || buffer->array->rank <= 1)
      return;
  } else {
    if (!buffer_gives_way(buffer, weight))
      return;
    buffer->order = order;
    buffer->weight = weight;
    buffer->changes++;
  }
  add_item(a, new_item(a, buffer, NULL, buffer->weight));
  want_alias(a, buffer);
}

// Small operands of an update, and slices about to be reshaped, have less to say.
static LayoutWeight weight_of_use(const HlInst *user, int operand, LayoutWeight weight) {
  bool is_minor =
      (user->op == HL_OP_DYNAMIC_UPDATE_SLICE && operand > 0 && weight.priority > LAYOUT_UNSET) ||
      (user->op == HL_OP_RESHAPE && user->operands[0]->op == HL_OP_DYNAMIC_SLICE);
  if (is_minor && !weight.mandatory) {
    weight.depth_first = false;
    weight.priority--;
  }
  return weight;
}

static bool is_constrained_collective(const HlInst *inst) {
  return (hl_op_info[inst->op].traits & HL_T_COLLECTIVE) &&
         hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT);
}

static bool same_leaves(const HlShape *shape, const LayoutOrder *x, const LayoutOrder *y) {
  if (shape->dtype != HL_TUPLE)
    return !y[0] || (x[0] && layout_same(x[0], y[0], shape->rank));
  int at = 0;
  for (int k = 0; k < shape->rank; k++) {
    if (!same_leaves(shape->element[k], x + at, y + at))
      return false;
    at += layout_n_leaves(shape->element[k]);
  }
  return true;
}

static bool use_gives_way(const LayoutUse *use, LayoutWeight weight) {
  if (use->changes >= MOST_USE_CHANGES)
    return false;
  return weight.mandatory && use->weight.priority <= weight.priority;
}

void layout_want_use(Layouts *a, HlInst *user, int operand, const LayoutOrder *order,
                     LayoutWeight weight) {
  const HlShape *shape = user->operands[operand]->shape;
  if (shape->dtype != HL_TUPLE && shape->rank == 0)
    return;
  weight = weight_of_use(user, operand, weight);
  LayoutUse *use = layout_use(a->now, user, operand);
  if (use->order) {
    if (same_leaves(shape, use->order, order) || !use_gives_way(use, weight))
      return;
    use->changes++;
  }
  use->order = hl_arena_copy(a->arena, order, sizeof *order * (size_t)layout_n_leaves(shape));
  use->weight = weight;
  add_item(a, new_item(a, NULL, use, weight));
}

void layout_want_array_use(Layouts *a, HlInst *user, int operand, LayoutOrder order,
                           LayoutWeight weight) {
  layout_want_use(a, user, operand, &order, weight);
}

void layout_want_result(Layouts *a, HlInst *inst, const LayoutOrder *order, LayoutWeight weight) {
  LayoutBuffer **leaves = layout_leaves(a->now, inst);
  int n = layout_n_leaves(inst->shape);
  for (int k = 0; k < n; k++)
    if (leaves[k] && order[k])
      layout_want_buffer(a, leaves[k], order[k], weight);
  if (!hl_shape_is_array(inst->shape) || !order[0] || inst->op == HL_OP_WHILE ||
      inst->op == HL_OP_CONDITIONAL || !layout_is_kept(inst))
    return;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (hl_shape_is_array(inst->operands[k]->shape) &&
        inst->operands[k]->shape->rank == inst->shape->rank)
      layout_want_array_use(a, inst, (int)k, order[0], weight);
}

void layout_want_root(Layouts *a) {
  LayoutWeight weight = {true, true, a->now->priority};
  add_item(a, new_item(a, NULL, NULL, weight));
}

// --- What follows -------------------------------------------------------------------------------

static bool is_small(const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return shape->rank <= 1;
  for (int k = 0; k < shape->rank; k++)
    if (!is_small(shape->element[k]))
      return false;
  return true;
}

// The buffers behind what someone reads are better made the way they are read.
static void follow_to_defs(Layouts *a, const HlInst *read, const LayoutOrder *order,
                           int64_t priority) {
  LayoutBuffer **leaves = layout_leaves(a->now, read);
  int n = layout_n_leaves(read->shape);
  for (int k = 0; k < n; k++) {
    LayoutBuffer *buffer = leaves[k];
    if (!buffer || !order[k])
      continue;
    if (buffer->inst->op == HL_OP_REDUCE && buffer->inst->shape->dtype == HL_TUPLE)
      continue;
    layout_want_buffer(a, buffer, order[k], (LayoutWeight){false, true, priority});
  }
}

// A longer operand of a concatenation decides.
static bool longer_sibling(const HlInst *user, const HlInst *operand) {
  if (user->op != HL_OP_CONCATENATE)
    return false;
  int64_t dim = hl_dim(user);
  for (uint32_t k = 0; k < user->n_operands; k++)
    if (user->operands[k]->shape->dim[dim] > operand->shape->dim[dim])
      return true;
  return false;
}

static void follow_to_siblings(Layouts *a, LayoutUse *use) {
  HlInst *user = use->user, *operand = user->operands[use->number];
  LayoutWeight weight = {true, true, use->weight.priority};
  for (uint32_t k = 0; k < user->n_operands; k++) {
    const HlInst *sibling = user->operands[k];
    if (sibling != operand && hl_shape_is_array(sibling->shape) && sibling->shape->rank > 1 &&
        sibling->shape->rank == operand->shape->rank)
      layout_want_array_use(a, user, (int)k, use->order[0], weight);
  }
  LayoutBuffer **leaves = layout_leaves(a->now, user);
  int n = layout_n_leaves(user->shape);
  for (int k = 0; k < n; k++)
    if (leaves[k] && leaves[k]->inst == user && leaves[k]->array->rank == operand->shape->rank)
      layout_want_buffer(a, leaves[k], use->order[0], weight);
}

// What a reduction folds lies alike.
static void follow_to_folded(Layouts *a, LayoutUse *use) {
  HlInst *user = use->user;
  const HlInst *operand = user->operands[use->number];
  for (uint32_t k = 0; k < user->n_operands / 2; k++)
    if (user->operands[k] != operand && user->operands[k]->shape->rank == operand->shape->rank)
      layout_want_array_use(a, user, (int)k, use->order[0],
                            (LayoutWeight){true, true, use->weight.priority});
}

// The result's layout, if it can be told from this operand's.
static void follow_to_result(Layouts *a, LayoutUse *use) {
  HlInst *user = use->user;
  LayoutOrder order = layout_of_result(a, user, use->number, use->order[0]);
  LayoutWeight weight = {user->op == HL_OP_TRANSPOSE, layout_goes_deep(user), use->weight.priority};
  LayoutBuffer **leaves = layout_leaves(a->now, user);
  int n = layout_n_leaves(user->shape);
  for (int k = 0; order && k < n; k++)
    if (leaves[k] && leaves[k]->inst == user && leaves[k]->array->rank > 1)
      layout_want_buffer(a, leaves[k], order, weight);
}

// An all-reduce of several arrays ties each operand to its own result.
static LayoutBuffer *own_result(Layouts *a, const HlInst *inst, int operand) {
  LayoutBuffer **leaves = layout_leaves(a->now, inst);
  return leaves[inst->shape->dtype == HL_TUPLE ? operand : 0];
}

static void follow_to_alias(Layouts *a, LayoutUse *use) {
  const HlAttr *attr = hl_attr(use->user, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    if (alias->number != use->number)
      continue;
    LayoutBuffer *buffer =
        layout_leaves(a->now, use->user)[layout_leaf_at(use->user->shape, alias->output)];
    if (buffer && use->order[0])
      layout_want_buffer(a, buffer, use->order[0],
                         (LayoutWeight){false, layout_goes_deep(use->user), use->weight.priority});
  }
}

static void follow_use(Layouts *a, LayoutUse *use) {
  HlInst *user = use->user, *operand = user->operands[use->number];
  if (is_small(operand->shape))
    return;
  follow_to_defs(a, operand, use->order, use->weight.priority);
  if (user->op == HL_OP_CUSTOM_CALL)
    follow_to_alias(a, use);
  if (!hl_shape_is_array(operand->shape) || is_constrained_collective(user) ||
      layout_forwards(user, use->number))
    return;
  if (user->op == HL_OP_ALL_REDUCE) {
    LayoutBuffer *result = own_result(a, user, use->number);
    if (result)
      layout_want_buffer(a, result, use->order[0], layout_must(a));
    return;
  }
  if (layout_is_kept(user)) {
    if (!longer_sibling(user, operand))
      follow_to_siblings(a, use);
  } else if (user->op == HL_OP_REDUCE) {
    follow_to_folded(a, use);
  } else if (hl_shape_is_array(user->shape)) {
    follow_to_result(a, use);
  }
}

static void follow_to_operands(Layouts *a, LayoutBuffer *buffer) {
  HlInst *inst = buffer->inst;
  if (is_small(inst->shape))
    return;
  if (inst->op == HL_OP_ALL_REDUCE) {
    int operand = inst->shape->dtype == HL_TUPLE ? buffer->leaf : 0;
    layout_want_array_use(a, inst, operand, buffer->order,
                          (LayoutWeight){true, true, buffer->weight.priority});
    return;
  }
  bool is_kept = layout_is_kept(inst);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *operand = inst->operands[k]->shape;
    if (is_small(operand) || !hl_shape_is_array(operand))
      continue;
    if (is_kept) {
      if (operand->rank == buffer->array->rank)
        layout_want_array_use(a, inst, (int)k, buffer->order, layout_must(a));
    } else if (hl_shape_is_array(inst->shape)) {
      LayoutOrder order = layout_of_operand(a, inst, (int)k, buffer->order);
      LayoutWeight weight = {inst->op == HL_OP_BROADCAST, layout_goes_deep(inst), a->priority};
      if (order)
        layout_want_array_use(a, inst, (int)k, order, weight);
    }
  }
}

// What a loop's body gives back it takes again next time.
static void follow_back_edge(Layouts *a, LayoutBuffer *buffer) {
  HlComp *comp = a->now->comp;
  const HlCall *call = comp->first_call;
  const HlInst *root = comp->root;
  if (!call || call->next || call->caller->op != HL_OP_WHILE || root->op != HL_OP_TUPLE ||
      comp->n_params != 1 || !comp->params[0] || !hl_shape_is_array(buffer->inst->shape))
    return;
  for (const HlUse *use = buffer->inst->first_use; use; use = use->next) {
    if (use->user != root)
      continue;
    int leaf = 0;
    for (int k = 0; k < use->number; k++)
      leaf += layout_n_leaves(root->shape->element[k]);
    LayoutBuffer *param = layout_leaves(a->now, comp->params[0])[leaf];
    if (param)
      layout_want_buffer(a, param, buffer->order, (LayoutWeight){false, true, a->priority});
    return;
  }
}

static void follow_to_uses(Layouts *a, LayoutBuffer *buffer) {
  LayoutWeight weight = {false, true, buffer->weight.priority};
  for (const LayoutHolder *holder = buffer->holders; holder; holder = holder->next)
    for (const HlUse *use = holder->inst->first_use; use; use = use->next)
      if (!layout_forwards(use->user, use->number))
        layout_want_array_use(a, use->user, use->number, buffer->order, weight);
}

static void follow_buffer(Layouts *a, LayoutBuffer *buffer) {
  follow_to_operands(a, buffer);
  follow_to_uses(a, buffer);
  follow_back_edge(a, buffer);
}

void layout_follow(Layouts *a) {
  take_added(a);
  uint32_t step = 0;
  while (a->waiting) {
    LayoutItem *item = a->waiting;
    base_look_often(&step);
    a->waiting = item->next;
    if (item->buffer)
      follow_buffer(a, item->buffer);
    else if (item->use)
      follow_use(a, item->use);
    else if (a->now->result)
      follow_to_defs(a, a->now->comp->root, a->now->result, a->priority);
    item->next = a->spare;
    a->spare = item;
    take_added(a);
  }
}

// --- Common wishes
// -------------------------------------------------------------------------------------

LayoutOrder layout_column_major(Layouts *a, int rank) {
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    order[k] = k;
  return order;
}

// Row-major, but for one dimension that is the most major of all.
static LayoutOrder with_major(Layouts *a, int rank, int64_t dim) {
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  int n = 0;
  for (int k = rank - 1; k >= 0; k--)
    if (k != dim)
      order[n++] = k;
  order[n] = dim;
  return order;
}

static LayoutOrder *row_major_leaves(Layouts *a, const HlShape *shape) {
  int n = layout_n_leaves(shape);
  const HlShape *one, **leaf = n == 1 ? &one : HL_ARRAY(a->arena, const HlShape *, n);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  layout_flatten(shape, leaf);
  for (int k = 0; k < n; k++)
    if (hl_is_array_dtype(leaf[k]->dtype))
      order[k] = layout_row_major(a, leaf[k]->rank);
  return order;
}

void layout_want_row_major(Layouts *a, HlInst *inst) {
  layout_want_result(a, inst, row_major_leaves(a, inst->shape), layout_must(a));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    layout_want_use(a, inst, (int)k, row_major_leaves(a, inst->operands[k]->shape), layout_must(a));
}

// The result of a collective with one dimension most major.
void layout_want_major(Layouts *a, HlInst *inst, int64_t dim) {
  int n = layout_n_leaves(inst->shape);
  const HlShape **leaf = HL_ARRAY(a->arena, const HlShape *, n + 1);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  layout_flatten(inst->shape, leaf);
  for (int k = 0; k < n; k++)
    if (dim < leaf[k]->rank)
      order[k] = with_major(a, leaf[k]->rank, dim);
  layout_want_result(a, inst, order, layout_must(a));
}
