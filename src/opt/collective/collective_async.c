// opt/collective/collective_async.c: collectives that run while others compute, and in which order.
//
// async-collective-creator:      y = f32[8] all-reduce(x)   =>   s = f32[8] all-reduce-start(x)
//                                                                y = f32[8] all-reduce-done(s)
//   with `generic`, as on GPUs: s = ((f32[8]), f32[8]) async-start(x), calls={ ROOT all-reduce(..) }, y = async-done(s)
// async-collective-annotator:    notes on each start whether it is to be waited for at once.
// convert-async-collectives-to-sync: in a schedule, halves with nothing to compute between become one.
// collectives-schedule-linearizer:   control edges keep collectives in the order in which they stand.

#include <string.h>

#include "hilo/cost.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/collectives.h"
#include "opt/ask/effects.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// --- async-collective-creator -----------------------------------------------------------------------

// The options that say whether a collective becomes asynchronous, and from what size on.
static const struct {
  const char *flag, *min_bytes;
} wanted[HL_OP_COUNT] = {
    [HL_OP_ALL_REDUCE] = {"all_reduce", "all_reduce_min_bytes"},
    [HL_OP_ALL_GATHER] = {"all_gather", "all_gather_min_bytes"},
    [HL_OP_COLLECTIVE_PERMUTE] = {"collective_permute", NULL},
    [HL_OP_ALL_TO_ALL] = {"all_to_all", NULL},
    [HL_OP_REDUCE_SCATTER] = {"reduce_scatter", NULL},
    [HL_OP_COLLECTIVE_BROADCAST] = {"collective_broadcast", NULL},
    [HL_OP_RAGGED_ALL_TO_ALL] = {"ragged_all_to_all", NULL},
};

static bool is_wanted(const HlPass *p, const HlInst *inst) {
  const char *flag = wanted[inst->op].flag, *min_bytes = wanted[inst->op].min_bytes;
  return flag && hl_pass_flag(p, flag) &&
         (!min_bytes || hl_leaf_bytes(inst->shape) >= hl_pass_int(p, min_bytes));
}

static const HlShape *operand_shapes(HlPass *p, const HlInst *inst, bool always_tuple) {
  if (inst->n_operands == 1 && !always_tuple)
    return inst->operands[0]->shape;
  const HlShape **shapes = HL_ARRAY(p->arena, const HlShape *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    shapes[k] = inst->operands[k]->shape;
  return hl_shape_tuple(p->m->shapes, (int)inst->n_operands, shapes);
}

static const HlShape *in_and_out(HlPass *p, const HlShape *in, const HlInst *inst) {
  const HlShape *two[2] = {in, inst->shape};
  return hl_shape_tuple(p->m->shapes, 2, two);
}

// A permute into a given buffer: its first operand is what is sent.
static const HlShape *permute_start_shape(HlPass *p, const HlInst *inst) {
  const bool in_place = hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
  return in_and_out(p, in_place ? inst->operands[0]->shape : operand_shapes(p, inst, false), inst);
}

// Which results of a start lie where operands are: those of an all-reduce each in its operand's place, that of a permute
// into a given buffer there.
static void set_places(HlPass *p, HlInst *start, const HlInst *inst) {
  const bool is_reduce = inst->op == HL_OP_ALL_REDUCE;
  const bool is_in_place =
      inst->op == HL_OP_COLLECTIVE_PERMUTE && hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
  if (!is_reduce && !is_in_place)
    return;
  const int n = is_reduce ? (int)inst->n_operands : 1;
  HlAlias *list = HL_ARRAY(p->m->arena, HlAlias, n);
  for (int k = 0; k < n; k++) {
    int64_t *at = HL_ARRAY(p->m->arena, int64_t, 2);
    at[0] = 1;
    at[1] = k;
    list[k] = (HlAlias){.output = {at, hl_shape_is_tuple(inst->shape) ? 2 : 1},
                        .number = is_in_place ? 1 : k};
  }
  hl_set_attr(start, &(HlAttr){.key = HL_A_OUTPUT_TO_OPERAND_ALIASING, .aliases = {list, n}});
}

// The collective alone in a computation, called by an async-start.
static HlInst *start_by_call(HlPass *p, HlBuild *b, const HlInst *inst, bool generic) {
  const char *name =
      generic ? "async_computation" : hl_arena_printf(p->arena, "%s_computation", inst->name->text);
  HlBuild inner = hl_b_nested(b, name);
  HlInst **params = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    params[k] = hl_b_parameter(&inner, inst->operands[k]->shape, NULL);
  HlInst *copy = hl_inst_copy(inner.comp, inst, NULL, (int)inst->n_operands, params);
  hl_set_root(inner.comp, copy);
  HlInst *start =
      hl_inst_new(b->comp, HL_OP_ASYNC_START, in_and_out(p, operand_shapes(p, inst, true), inst),
                  NULL, (int)inst->n_operands, inst->operands);
  hl_set_calls(start, 1, &inner.comp);
  if (generic) {
    set_places(p, start, inst);
    async_inherit(start, inst);
  } else {
    hl_inherit(start, inst);
  }
  return start;
}

static HlInst *start(HlPass *p, HlBuild *b, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  const HlOp op = hl_op_half_of((HlOp)inst->op, HL_HALF_START);
  const bool generic = hl_pass_flag(p, "generic");
  if (generic || op == HL_OP_COUNT)
    return start_by_call(p, b, inst, generic);
  if (inst->op == HL_OP_ALL_GATHER)
    shape = in_and_out(p, operand_shapes(p, inst, false), inst);
  if (inst->op == HL_OP_COLLECTIVE_PERMUTE)
    shape = permute_start_shape(p, inst);
  HlInst *made = hl_inst_new(b->comp, op, shape, NULL, (int)inst->n_operands, inst->operands);
  hl_copy_attrs(made, inst);
  hl_set_loc(made, inst->loc);
  if (inst->n_calls > 0) {
    HlComp *reducer = hl_to_apply(inst);
    hl_set_calls(made, 1, &reducer);
  }
  return made;
}

static HlOp done_op(const HlInst *started) {
  return hl_op_half_of(hl_op_plain((HlOp)started->op), HL_HALF_DONE);
}

static void start_early(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "start", inst, &b);
  HlInst *started = start(p, &b, inst);
  hl_remove_attr(started, HL_A_SHARDING);
  HlInst *done = hl_inst_new(b.comp, done_op(started), inst->shape, NULL, 1, &started);
  hl_set_loc(done, inst->loc);
  if (hl_pass_flag(p, "generic"))
    async_inherit(done, inst);
  async_commit(p, inst, started, done);
}

bool pass_async_collective_creator(HlPass *p) {
  p->relay_control = true;
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    const bool is_wrapped =
        comps[k]->first_call && comps[k]->first_call->caller->op == HL_OP_ASYNC_START;
    if (comps[k]->schedule || is_wrapped)
      continue;
    HlInst **insts = hl_pass_insts(p, comps[k], &n_insts);
    for (int j = 0; j < n_insts; j++)
      if (hl_alive(insts[j]) && is_wanted(p, coll_inside(insts[j])))
        start_early(p, insts[j]);
  }
  return true;
}

// --- async-collective-annotator ---------------------------------------------------------------------

// The collective that an instruction starts, or NULL.
static const HlInst *started_by(const HlInst *inst) {
  if (inst->op == HL_OP_ASYNC_START) {
    const HlInst *root = inst->n_calls == 1 ? hl_called(inst, 0)->root : NULL;
    return root && hl_op_is((HlOp)coll_inside(root)->op, HL_T_COLLECTIVE) ? root : NULL;
  }
  return hl_is_async((HlOp)inst->op) && hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE) ? inst : NULL;
}

// The option of that kind names it as one to wait for at once.
static bool is_to_wait(const HlPass *p, const HlInst *started) {
  const char *kinds = hl_pass_text(p, "sync");
  const char *name = hl_op_text((HlOp)started->op);
  size_t length = strlen(name);
  if (length > 6 && strcmp(name + length - 6, "-start") == 0)
    length -= 6;
  while (*kinds) {
    const size_t n = strcspn(kinds, "/");
    if (n == length && strncmp(kinds, name, n) == 0)
      return true;
    kinds += n + (kinds[n] == '/');
  }
  return false;
}

static void annotate(HlPass *p, HlInst *inst, bool waits) {
  HlCollectiveConfig config = hl_collective_config(NULL, inst);
  if (config.is_sync == hl_switch(waits) || !hl_change(p, "annotate", inst, NULL))
    return;
  config.is_sync = hl_switch(waits);
  hl_set_collective_config(p->arena, inst, &config);
  hl_changed(p);
}

bool pass_async_collective_annotator(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next) {
      const HlInst *started = started_by(inst);
      if (started && started->op != HL_OP_FUSION)
        annotate(p, inst, is_to_wait(p, started));
    }
  return true;
}

// --- convert-async-collectives-to-sync -----------------------------------------------------------------

static bool computes_nothing(const HlInst *inst) {
  return effects_none((HlOp)inst->op) || started_by(inst) != NULL;
}

static HlInst *finished_by(const HlInst *inst) {
  return hl_op_half((HlOp)inst->op) == HL_HALF_DONE && started_by(inst->operands[0])
             ? inst->operands[0]
             : NULL;
}

// Whether only its done uses what was started, and that nothing waits for else.
static bool is_lone_pair(const HlInst *started) {
  return started->first_use && started->first_use == started->last_use &&
         started != started->comp->root && !hl_has_control(started) &&
         !hl_has_control(started->first_use->user);
}

static HlInst *together(HlPass *p, const HlInst *started, const HlInst *done) {
  const HlInst *what = started_by(started);
  static const HlOp ops[][2] = {{HL_OP_ALL_REDUCE_START, HL_OP_ALL_REDUCE},
                                {HL_OP_ALL_GATHER_START, HL_OP_ALL_GATHER},
                                {HL_OP_COLLECTIVE_PERMUTE_START, HL_OP_COLLECTIVE_PERMUTE}};
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, what->n_operands + 1);
  for (uint32_t k = 0; k < what->n_operands; k++) {
    if (what == started)
      operands[k] = started->operands[k];
    else if (what->operands[k]->op == HL_OP_PARAMETER)
      operands[k] = started->operands[hl_parameter_number(what->operands[k])];
    else
      return NULL;
  }
  if (what != started) {
    HlInst *made = hl_inst_copy(started->comp, what, NULL, (int)what->n_operands, operands);
    if (hl_has_attr(started, HL_A_BACKEND_CONFIG))
      hl_set_attr(made, hl_attr(started, HL_A_BACKEND_CONFIG));
    return made;
  }
  HlOp op = HL_OP_ALL_REDUCE;
  for (int k = 0; k < HL_COUNT_OF(ops); k++)
    op = ops[k][0] == (HlOp)started->op ? ops[k][1] : op;
  HlInst *made =
      hl_inst_new(started->comp, op, done->shape, NULL, (int)started->n_operands, operands);
  hl_copy_attrs(made, started);
  hl_set_loc(made, started->loc);
  if (started->n_calls > 0) {
    HlComp *reducer = hl_to_apply(started);
    hl_set_calls(made, 1, &reducer);
  }
  return made;
}

static void note_sync(HlPass *p, HlInst *inst) {
  HlCollectiveConfig config = hl_collective_config(NULL, inst);
  config.is_sync = HL_ON;
  hl_set_collective_config(p->arena, inst, &config);
}

// The schedule, with what stands for an erased start in its place and erased dones left out.
static void restore_schedule(HlPass *p, HlComp *comp, HlInst *const *old, uint32_t n,
                             HlInst *const *instead) {
  HlInst **order = HL_ARRAY(p->arena, HlInst *, n + 1);
  uint32_t count = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (instead[k])
      order[count++] = instead[k];
    else if (hl_alive(old[k]))
      order[count++] = old[k];
  }
  if (count == comp->n_insts)
    hl_set_schedule(comp, order);
}

static void join_halves(HlPass *p, HlComp *comp) {
  const uint32_t n = comp->n_insts;
  HlInst **order = hl_arena_copy(p->arena, comp->schedule, n * sizeof *order);
  HlInst **instead = HL_ARRAY(p->arena, HlInst *, n + 1);
  int *place = HL_ARRAY(p->arena, int, comp->next_id + 1);
  int *busy =
      HL_ARRAY(p->arena, int, n + 1);  // instructions before this place that compute something
  for (uint32_t k = 0; k < n; k++) {
    place[order[k]->id] = (int)k;
    busy[k + 1] = busy[k] + !(computes_nothing(order[k]) || finished_by(order[k]));
  }
  for (uint32_t k = 0; k < n; k++) {
    HlInst *done = order[k], *started = hl_alive(done) ? finished_by(done) : NULL;
    if (!started || !is_lone_pair(started) || busy[k] != busy[place[started->id] + 1])
      continue;
    const int at = place[started->id];
    HlBuild b;
    hl_begin(p, "sync", done, &b);
    HlInst *sync = together(p, started, done);
    if (sync && sync->op != HL_OP_FUSION && hl_pass_flag(p, "note"))
      note_sync(p, sync);
    if (hl_commit(p, sync)) {
      instead[at] = sync;
      if (hl_alive(started))
        hl_erase(started);
    }
  }
  if (!comp->schedule)
    restore_schedule(p, comp, order, n, instead);
}

static bool has_done(const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (finished_by(inst))
      return true;
  return false;
}

bool pass_async_collectives_to_sync(HlPass *p) {
  const bool was_scheduled = p->m->is_scheduled;
  p->keep_operands = true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  bool all = true;
  for (int k = 0; k < n; k++) {
    const bool scheduled = comps[k]->schedule != NULL;
    if (scheduled && has_done(comps[k]))
      join_halves(p, comps[k]);
    all &= !scheduled || comps[k]->schedule;
  }
  if (all)
    hl_set_scheduled(p->m, was_scheduled);
  return true;
}

// --- collectives-schedule-linearizer ---------------------------------------------------------------

static bool is_link(const HlInst *inst) {
  return (hl_op_info[inst->op].traits & HL_T_COLLECTIVE) || started_by(inst);
}

// Where the collective is over: its done, or itself.
static HlInst *end_of(HlInst *inst) {
  for (const HlUse *use = started_by(inst) ? inst->first_use : NULL; use; use = use->next)
    if (finished_by(use->user) == inst)
      return use->user;
  return inst;
}

// Dependence is followed as the number of the newest collective whose end an instruction needs; since
// collectives form a chain, that one stands for all before it.
static void link_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  int *needs = HL_ARRAY(p->arena, int, comp->next_id + 1), number = 0;
  int *ends = HL_ARRAY(p->arena, int, comp->next_id + 1);
  HlInst *before = NULL;
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    int *newest = &needs[inst->id];
    for (uint32_t j = 0; j < inst->n_operands; j++)
      *newest = needs[inst->operands[j]->id] > *newest ? needs[inst->operands[j]->id] : *newest;
    for (int j = 0; inst->control && j < inst->control->n_preds; j++) {
      int of = needs[inst->control->preds[j]->id];
      *newest = of > *newest ? of : *newest;
    }
    if (is_link(inst)) {
      // An end that stands behind this collective would make a circle.
      if (before && *newest < number && hl_stands_before(before, inst) &&
          hl_change(p, "order", inst, before)) {
        hl_add_control(before, inst);
        hl_changed(p);
      }
      before = end_of(inst);
      ends[before->id] = ++number;
    }
    if (ends[inst->id] > *newest)
      *newest = ends[inst->id];
  }
  hl_arena_release(p->arena, mark);
}

bool pass_collectives_schedule_linearizer(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    link_comp(p, comps[k]);
  return true;
}
