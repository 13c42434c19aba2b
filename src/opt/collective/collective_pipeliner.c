// opt/collective/collective_pipeliner.c: collectives of a loop's iteration that happen during the iteration before or after.
//
// collective-pipeliner-forward: what an iteration exchanges and only writes into an array, the next iteration
// exchanges.
//
//   (i, a) = while((0, a0)), body: (i + 1, dynamic-update-slice(a, all-reduce(f(i)), i))
//   =>  (i, a, x, j) = while((0, a0, 0, 0)),
//         body: (i + 1, dynamic-update-slice(a, all-reduce(x), j), f(i), i)
//       a = dynamic-update-slice(a, all-reduce(x), j)
//
// The first iteration writes the exchange of zeros where the second writes over it with what belongs there.
//
// collective-pipeliner-backward: what an iteration exchanges of values that no iteration changes, the iteration before
// exchanges.
//
//   i = while(0), body: use(all-gather(dynamic-slice(w, i))), i + 1
//   =>  (i, y) = while((0, all-gather(dynamic-slice(w, 0)))),
//         body: use(y), (i + 1, all-gather(dynamic-slice(w, i + 1)))
//
// The last iteration exchanges what nobody uses.
//
// collective-pipeliner-forwardsink: what all iterations exchange and write side by side into an array, is exchanged at
// once behind the loop.
//
//   (i, a) = while((0, a0)), body: (i + 1, dynamic-update-slice(a, all-reduce(f(i)), i))
//   =>  (i, b) = while((0, 0)), body: (i + 1, dynamic-update-slice(b, f(i), i))
//       a = all-reduce(b)

#include <string.h>

#include "opt/ask/collectives.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Pipeline {
  HlPass *p;
  HlInst *loop;
  LoopCounter counter;
  int64_t channel;  // the next one free
  int n;            // slots of the old state
  HlInst **moved;   // forward, sink: by slot: the collective; NULL: none
  int *place;       // forward, by slot: of its operand in the new state
  HlInst *all;      // backward: the collective
  HlInst **needs;   // backward: what it is computed by, operands first, itself last
  int n_needs;
} Pipeline;

// The option `kinds` names the op: all-reduce/all-gather/...
static bool is_wanted(const HlPass *p, const HlInst *inst) {
  const char *kinds = hl_pass_text(p, "kinds"), *name = hl_op_text((HlOp)inst->op);
  if (!(hl_op_info[inst->op].traits & HL_T_COLLECTIVE) || !coll_is_plain(inst))
    return false;
  for (size_t n; *kinds; kinds += n + (kinds[n] == '/')) {
    n = strcspn(kinds, "/");
    if (n == strlen(name) && strncmp(kinds, name, n) == 0)
      return true;
  }
  return false;
}

static bool is_used_once(const HlInst *inst) {
  return inst->first_use && inst->first_use == inst->last_use && inst->comp->root != inst;
}

static bool finds_trips(Pipeline *pl) {
  return loop_counter(pl->p, pl->loop, &pl->counter) && pl->counter.trips >= 1 &&
         pl->loop->shape->element[pl->counter.slot]->rank == 0;
}

// --- forward --------------------------------------------------------------------------------------

static bool changes_form(const HlInst *inst) {
  return (inst->op == HL_OP_RESHAPE || inst->op == HL_OP_BITCAST || inst->op == HL_OP_CONVERT ||
          inst->op == HL_OP_TRANSPOSE || inst->op == HL_OP_COPY) &&
         is_used_once(inst) && !hl_has_control(inst);
}

// The collective whose result slot k gets an update from; NULL: something else happens to it.
static HlInst *written_into(const Pipeline *pl, int k) {
  const HlInst *update = loop_next(pl->loop, k);
  if (update->op != HL_OP_DYNAMIC_UPDATE_SLICE || !is_used_once(update) || hl_has_control(update) ||
      loop_slot_of(update->operands[0]) != k || update->shape != pl->loop->shape->element[k])
    return NULL;
  for (uint32_t j = 2; j < update->n_operands; j++)
    if (!hl_is_constant(update->operands[j]) &&
        loop_slot_of(update->operands[j]) != pl->counter.slot)
      return NULL;
  HlInst *from = update->operands[1];
  while (changes_form(from))
    from = from->operands[0];
  return is_wanted(pl->p, from) && is_used_once(from) ? from : NULL;
}

static bool is_read_elsewhere(const LoopElements *elements, int k, const HlInst *reader) {
  for (const HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (use->user != reader || use->number != 0)
        return true;
  return false;
}

// Slot k with the exchange that the iteration before left to do.
static HlInst *write_late(LoopPart *part, const Pipeline *pl, int k) {
  HlBuild *b = &part->b;
  const HlInst *update = loop_next(pl->loop, k), *all = pl->moved[k];
  HlInst *x = hl_b_element(b, part->state, pl->place[k]);
  int n = 0;
  for (const HlInst *at = update->operands[1]; at != all; at = at->operands[0])
    n++;
  const HlInst **way = HL_ARRAY(pl->p->arena, const HlInst *, n + 1);
  for (const HlInst *at = update->operands[1]; at != all; at = at->operands[0])
    way[--n] = at;
  HlInst *value = coll_copy(b, all, NULL, 1, &x);
  for (const HlInst **at = way; *at; at++)
    value = hl_inst_copy(b->comp, *at, NULL, 1, &value);
  HlInst **operands = HL_ARRAY(pl->p->arena, HlInst *, update->n_operands);
  operands[0] = hl_b_element(b, part->state, k);
  operands[1] = value;
  for (uint32_t j = 2; j < update->n_operands; j++) {
    const HlInst *index = update->operands[j];
    operands[j] = index->op == HL_OP_CONSTANT
                      ? hl_constant_new(b->comp, hl_constant(index), NULL)
                      : hl_b_element(b, part->state, part->state->shape->rank - 1);
  }
  return hl_inst_copy(b->comp, update, NULL, (int)update->n_operands, operands);
}

static void open_forward(LoopPart *part, void *user) {
  Pipeline *pl = user;
  for (int k = 0; part->place == LOOP_AFTER && k < pl->n; k++) {
    if (!pl->moved[k])
      continue;
    part->slot[k] = write_late(part, pl, k);
    for (HlInst *inst = part->slot[k]->operands[1]; inst; inst = inst->operands[0])
      if (hl_op_info[inst->op].traits & HL_T_COLLECTIVE) {
        if (hl_attr_int(inst, HL_A_CHANNEL_ID) > 0)
          hl_set_int(inst, HL_A_CHANNEL_ID, pl->channel++);
        break;
      }
  }
}

static HlInst *next_forward(LoopPart *part, int k, void *user) {
  const Pipeline *pl = user;
  if (k < pl->n)
    return write_late(part, pl, k);
  for (int j = 0; j < pl->n; j++)
    if (pl->moved[j] && pl->place[j] == k)
      return loop_part_copy(part, pl->moved[j]->operands[0]);
  return loop_part_slot(part, pl->counter.slot);
}

static HlInst *zeros(HlBuild *b, const HlShape *shape) {
  return hl_b_full(b, shape->dtype, shape->rank, shape->dim, 0);
}

static void pipeline_forward(HlPass *p, HlInst *loop) {
  if (!loop_owns_comps(loop))
    return;
  const int n = loop_slots(loop);
  Pipeline pl = {.p = p,
                 .loop = loop,
                 .n = n,
                 .moved = HL_ARRAY(p->arena, HlInst *, n + 1),
                 .place = HL_ARRAY(p->arena, int, n + 1)};
  if (!finds_trips(&pl))
    return;
  const LoopElements tested = loop_elements(p, hl_while_condition(loop));
  const LoopElements elements = loop_elements(p, hl_while_body(loop));
  if (tested.has_other || elements.has_other)
    return;
  LoopPlan plan = loop_plan_all(p, loop, n + 1);
  plan.open = open_forward, plan.next = next_forward, plan.user = &pl;
  for (int k = 0; k < n; k++) {
    HlInst *all = written_into(&pl, k);
    if (!all || is_read_elsewhere(&elements, k, loop_next(loop, k)) ||
        is_read_elsewhere(&tested, k, NULL))
      continue;
    pl.moved[k] = all;
    pl.place[k] = loop_plan_add(&plan, NULL);
    loop_plan_take(&plan, k, all->operands[0]);
  }
  if (plan.n_used == 0)
    return;
  pl.channel = hl_free_channel(p->m);
  HlBuild b;
  hl_begin(p, "forward", loop, &b);
  for (int k = 0; k < n; k++)
    if (pl.moved[k])
      plan.init[pl.place[k]] = zeros(&b, pl.moved[k]->operands[0]->shape);
  loop_plan_add(&plan, hl_b_element(&b, loop->operands[0], pl.counter.slot));
  loop_plan_commit(p, &b, &plan);
}

bool pass_collective_pipeliner_forward(HlPass *p) {
  loop_each(p, pipeline_forward);
  return true;
}

// --- backward -------------------------------------------------------------------------------------

// Something each iteration computes anew from the counter and what no iteration changes.
static bool is_known_before(const Pipeline *pl, const bool *known, const HlInst *inst) {
  const int slot = loop_slot_of(inst);
  if (slot >= 0)
    return slot == pl->counter.slot || loop_is_invariant(pl->loop, slot);
  if (inst->op == HL_OP_CONSTANT || inst->op == HL_OP_PARTITION_ID || inst->op == HL_OP_REPLICA_ID)
    return true;
  if (inst->n_operands == 0 || hl_has_control(inst) || inst->n_calls > 0 || !hl_is_pure(inst) ||
      (hl_op_info[inst->op].traits & (HL_T_COLLECTIVE | HL_T_ASYNC)) ||
      inst->op == HL_OP_CUSTOM_CALL || inst->op == HL_OP_RNG_GET_AND_UPDATE_STATE)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!known[inst->operands[k]->id])
      return false;
  return true;
}

// Something else than the next state takes it: what only that does is early already.
static bool is_used_in_iteration(const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user != inst->comp->root)
      return true;
  return false;
}

// The first collective of the body that reads a slice by the counter; fills in what it needs.
static HlInst *find_backward(Pipeline *pl) {
  const HlComp *body = hl_while_body(pl->loop);
  bool *known = HL_ARRAY(pl->p->arena, bool, body->next_id + 1);
  bool *counts = HL_ARRAY(pl->p->arena, bool, body->next_id + 1);
  HlInst *found = NULL;
  for (HlInst *inst = body->first; inst && !found; inst = inst->next) {
    known[inst->id] = is_known_before(pl, known, inst);
    counts[inst->id] = loop_slot_of(inst) == pl->counter.slot;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      counts[inst->id] |= counts[inst->operands[k]->id];
    if (is_wanted(pl->p, inst) && is_used_in_iteration(inst) && known[inst->operands[0]->id] &&
        counts[inst->operands[0]->id])
      found = inst;
  }
  if (!found)
    return NULL;
  bool *needed = HL_ARRAY(pl->p->arena, bool, body->next_id + 1);
  pl->needs = HL_ARRAY(pl->p->arena, HlInst *, body->n_insts + 1);
  needed[found->id] = true;
  for (HlInst *inst = found; inst; inst = inst->prev) {
    if (!needed[inst->id] || loop_slot_of(inst) >= 0)
      continue;
    pl->needs[pl->n_needs++] = inst;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  }
  return found;
}

// The collective again, from values of the slots: `slot` gives them.
static HlInst *exchange_at(const Pipeline *pl, HlBuild *b, HlInst **slot) {
  const HlComp *body = hl_while_body(pl->loop);
  HlInst **map = HL_ARRAY(pl->p->arena, HlInst *, body->next_id + 1);
  HlInst *made = NULL;
  for (int k = pl->n_needs; k-- > 0;) {
    const HlInst *inst = pl->needs[k];
    HlInst **operands = HL_ARRAY(pl->p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t j = 0; j < inst->n_operands; j++) {
      const int from = loop_slot_of(inst->operands[j]);
      operands[j] = from >= 0 ? slot[from] : map[inst->operands[j]->id];
    }
    made = map[inst->id] = hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands);
  }
  return made;
}

static void open_backward(LoopPart *part, void *user) {
  const Pipeline *pl = user;
  if (part->place == LOOP_IN_BODY)
    part->map[pl->all->id] = hl_b_element(&part->b, part->state, pl->n);
}

static HlInst *next_backward(LoopPart *part, int k, void *user) {
  const Pipeline *pl = user;
  (void)k;
  HlInst **slot = HL_ARRAY(pl->p->arena, HlInst *, pl->n + 1);
  for (int j = 0; j < pl->n; j++)
    slot[j] = j == pl->counter.slot            ? loop_part_copy(part, loop_next(pl->loop, j))
              : loop_is_invariant(pl->loop, j) ? loop_part_slot(part, j)
                                               : NULL;
  return exchange_at(pl, &part->b, slot);
}

static void pipeline_backward(HlPass *p, HlInst *loop) {
  if (!loop_owns_comps(loop))
    return;
  const int n = loop_slots(loop);
  Pipeline pl = {.p = p, .loop = loop, .n = n};
  if (!finds_trips(&pl) || !(pl.all = find_backward(&pl)))
    return;
  const LoopElements tested = loop_elements(p, hl_while_condition(loop));
  const LoopElements elements = loop_elements(p, hl_while_body(loop));
  if (tested.has_other || elements.has_other)
    return;
  LoopPlan plan = loop_plan_all(p, loop, 1);
  plan.open = open_backward, plan.next = next_backward, plan.user = &pl;
  HlBuild b;
  hl_begin(p, "backward", loop, &b);
  loop_plan_start(&plan, &b);
  HlInst *first = exchange_at(&pl, &b, plan.init);
  if (hl_attr_int(first, HL_A_CHANNEL_ID) > 0)
    hl_set_int(first, HL_A_CHANNEL_ID, hl_free_channel(p->m));
  loop_plan_add(&plan, first);
  loop_plan_use(&plan, loop_next(loop, pl.counter.slot));
  loop_plan_commit(p, &b, &plan);
}

bool pass_collective_pipeliner_backward(HlPass *p) {
  loop_each(p, pipeline_backward);
  return true;
}

// --- forwardsink ----------------------------------------------------------------------------------

// Sizes with one more in front.
static const HlShape *stacked(const Pipeline *pl, const HlShape *shape, int64_t count) {
  int64_t *dim = HL_ARRAY(pl->p->arena, int64_t, shape->rank + 1);
  dim[0] = count;
  for (int d = 0; d < shape->rank; d++)
    dim[d + 1] = shape->dim[d];
  return hl_shape_array(pl->p->m->shapes, shape->dtype, shape->rank + 1, dim);
}

// The iterations write slot k from its first row to its last.
static bool fills(const Pipeline *pl, int k) {
  const HlInst *update = loop_next(pl->loop, k);
  const HlShape *whole = update->shape, *row = update->operands[1]->shape;
  if (whole->rank == 0 || hl_shape_is_dynamic(whole) || row->dim[0] != 1 ||
      whole->dim[0] != pl->counter.trips || pl->counter.init != 0 || pl->counter.step != 1 ||
      loop_slot_of(update->operands[2]) != pl->counter.slot)
    return false;
  for (int d = 1; d < whole->rank; d++) {
    int64_t start;
    if (row->dim[d] != whole->dim[d] || !loop_constant_int(update->operands[2 + d], &start) ||
        start != 0)
      return false;
  }
  return true;
}

// It does to all rows at once what it does to one.
static bool is_stackable(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_RAGGED_ALL_TO_ALL: return false;
  case HL_OP_RESHAPE:
  case HL_OP_CONVERT:
  case HL_OP_TRANSPOSE:
  case HL_OP_COPY: return true;
  case HL_OP_ALL_TO_ALL: return hl_has_attr(inst, HL_A_DIMENSION);
  default: return hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE) && !hl_is_async((HlOp)inst->op);
  }
}

static HlInst *sinkable(const Pipeline *pl, int k) {
  HlInst *all = written_into(pl, k);
  if (!all || !fills(pl, k) || hl_shape_is_dynamic(all->operands[0]->shape))
    return NULL;
  for (const HlInst *inst = loop_next(pl->loop, k)->operands[1]; inst != all;
       inst = inst->operands[0])
    if (!is_stackable(inst))
      return NULL;
  return is_stackable(all) ? all : NULL;
}

// The operation on rows x that `inst` is on one row.
static HlInst *on_rows(const Pipeline *pl, HlBuild *b, const HlInst *inst, HlInst *x) {
  const HlShape *shape = stacked(pl, inst->shape, pl->counter.trips);
  if (inst->op == HL_OP_RESHAPE)
    return hl_b_reshape(b, x, shape->rank, shape->dim);
  HlInst *made = (hl_op_info[inst->op].traits & HL_T_COLLECTIVE)
                     ? coll_copy(b, inst, shape, 1, &x)
                     : hl_inst_copy(b->comp, inst, shape, 1, &x);
  if (hl_has_attr(inst, HL_A_DIMENSION))
    hl_set_int(made, HL_A_DIMENSION, hl_dim(inst) + 1);
  const HlI64s dims = hl_dims(inst);
  if (dims.n == 0)
    return made;
  const bool permutes = inst->op == HL_OP_TRANSPOSE;
  int64_t *moved = HL_ARRAY(pl->p->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    moved[k + permutes] = dims.at[k] + 1;
  hl_set_ints(made, HL_A_DIMENSIONS, (HlI64s){moved, dims.n + permutes});
  return made;
}

static HlInst *exchange_rows(LoopPart *part, const Pipeline *pl, int k) {
  const HlInst *all = pl->moved[k], *row = loop_next(pl->loop, k)->operands[1];
  const HlShape *whole = pl->loop->shape->element[k];
  int n = 0;
  for (const HlInst *at = row; at != all; at = at->operands[0])
    n++;
  const HlInst **way = HL_ARRAY(pl->p->arena, const HlInst *, n + 2);
  way[n + 1] = NULL;
  for (const HlInst *at = row;; at = at->operands[0]) {
    way[n--] = at;
    if (at == all)
      break;
  }
  HlInst *x = hl_b_element(&part->b, part->state, k);
  for (const HlInst **at = way; *at; at++)
    x = on_rows(pl, &part->b, *at, x);
  x = hl_b_reshape(&part->b, x, whole->rank, whole->dim);
  hl_set_shape(x, whole);
  return x;
}

static void open_sink(LoopPart *part, void *user) {
  const Pipeline *pl = user;
  for (int k = 0; part->place == LOOP_AFTER && k < pl->n; k++)
    if (pl->moved[k])
      part->slot[k] = exchange_rows(part, pl, k);
}

static HlInst *next_sink(LoopPart *part, int k, void *user) {
  const Pipeline *pl = user;
  HlBuild *b = &part->b;
  const HlInst *update = loop_next(pl->loop, k);
  HlInst *x = loop_part_copy(part, pl->moved[k]->operands[0]);
  const HlShape *row = stacked(pl, x->shape, 1);
  const int n = 2 + row->rank;
  HlInst **operands = HL_ARRAY(pl->p->arena, HlInst *, n);
  operands[0] = hl_b_element(b, part->state, k);
  operands[1] = hl_b_reshape(b, x, row->rank, row->dim);
  operands[2] = loop_part_slot(part, pl->counter.slot);
  for (int d = 1; d < row->rank; d++)
    operands[2 + d] = hl_b_scalar_int(b, operands[2]->shape->dtype, 0);
  return hl_inst_copy(b->comp, update, operands[0]->shape, n, operands);
}

static void pipeline_sink(HlPass *p, HlInst *loop) {
  if (!loop_owns_comps(loop))
    return;
  const int n = loop_slots(loop);
  Pipeline pl = {.p = p, .loop = loop, .n = n, .moved = HL_ARRAY(p->arena, HlInst *, n + 1)};
  if (!finds_trips(&pl))
    return;
  const LoopElements tested = loop_elements(p, hl_while_condition(loop));
  const LoopElements elements = loop_elements(p, hl_while_body(loop));
  if (tested.has_other || elements.has_other)
    return;
  LoopPlan plan = loop_plan_all(p, loop, 0);
  plan.open = open_sink, plan.next = next_sink, plan.user = &pl;
  for (int k = 0; k < n; k++) {
    HlInst *all = sinkable(&pl, k);
    if (!all || is_read_elsewhere(&elements, k, loop_next(loop, k)) ||
        is_read_elsewhere(&tested, k, NULL))
      continue;
    pl.moved[k] = all;
    loop_plan_take(&plan, k, all->operands[0]);
  }
  if (plan.n_used == 0)
    return;
  HlBuild b;
  hl_begin(p, "sink", loop, &b);
  for (int k = 0; k < n; k++)
    if (pl.moved[k])
      plan.init[k] = zeros(&b, stacked(&pl, pl.moved[k]->operands[0]->shape, pl.counter.trips));
  loop_plan_commit(p, &b, &plan);
}

bool pass_collective_pipeliner_sink(HlPass *p) {
  loop_each(p, pipeline_sink);
  return true;
}
