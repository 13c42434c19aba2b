// sim/run/program.c: a module as a program of steps.
//
// Computations are walked in the order in which a device runs them: their schedule, or the order they are written in.
// Calls and conditionals stand there as what they run (of a conditional the branch that takes longest), loops as often as they
// turn, or once with `times` where that would be too much. What only names values takes no step. Between two steps
// nothing else has to be said of dependences: a device does one thing at a time, and what runs beside it is waited for where it is
// said so, or, with HL_OVERLAP_ALL, by the first step that needs the result.

#include <string.h>

#include "sim/run/run.h"

typedef VEC(int) Pending;  // steps that run beside and have not been waited for

typedef struct Walk {
  HlCx *cx;
  HlArena *arena;
  HlProgramBuilder *b;
  const HlProgramOptions *o;
  HlTimes times;
  double factor;  // loops around that are not written out
  double live;
  int depth;
  int64_t unrolled;
  int64_t messages;  // sends and receives
  bool failed;
} Walk;

// What is known of the values of one computation in one walk through it.
typedef struct Frame {
  const HlComp *comp;
  HlInst *const *order;
  int32_t *last;                    // by id: the place in the order of the last that uses it
  int32_t *first_free, *next_free;  // of a place: those that end there, by id + 1
  Pending *pending;                 // by id
} Frame;

static bool is_wire(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_WIRE | HL_T_GIVEN) || hl_op_is((HlOp)inst->op, HL_T_CONTROL);
}

// --- Who is alive -------------------------------------------------------------------------------------------

// Values live until their last use, or the last use of what names them again.
static void find_last_uses(Walk *w, Frame *f) {
  const uint32_t n = f->comp->n_insts;
  int32_t *place = HL_ARRAY(w->arena, int32_t, f->comp->next_id);
  f->last = HL_ARRAY(w->arena, int32_t, f->comp->next_id);
  f->first_free = HL_ARRAY(w->arena, int32_t, n + 1);
  f->next_free = HL_ARRAY(w->arena, int32_t, f->comp->next_id);
  for (uint32_t k = 0; k < n; k++)
    place[f->order[k]->id] = (int32_t)k;
  for (uint32_t k = n; k-- > 0;) {
    const HlInst *inst = f->order[k];
    int32_t last = inst == f->comp->root ? (int32_t)n : (int32_t)k;
    for (const HlUse *use = inst->first_use; use; use = use->next) {
      const int32_t at = is_wire(use->user) ? f->last[use->user->id] : place[use->user->id];
      last = at > last ? at : last;
    }
    f->last[inst->id] = last;
    f->next_free[inst->id] = f->first_free[last];
    f->first_free[last] = (int32_t)inst->id + 1;
  }
}

static double own_bytes(const HlInst *inst) {
  const bool none = is_wire(inst) || hl_op_half((HlOp)inst->op) == HL_HALF_DONE;
  return none ? 0 : (double)hl_leaf_bytes(inst->shape);
}

static void let_go(Walk *w, const Frame *f, uint32_t place) {
  for (int32_t id = f->first_free[place]; id; id = f->next_free[id - 1])
    w->live -= own_bytes(f->comp->by_id[id - 1]);
}

// --- Steps ----------------------------------------------------------------------------------------------------

// As profilers call them: a fusion by what is heavy in it.
static const char *fusion_category(const HlInst *fusion) {
  static const char *const kinds[] = {"loop fusion", "input fusion", "output fusion",
                                      "custom fusion"};
  const char *found = NULL;
  for (const HlInst *inst = fusion->n_calls > 0 ? hl_to_apply(fusion)->first : NULL; inst;
       inst = inst->next) {
    if (inst->op == HL_OP_DOT || inst->op == HL_OP_CONVOLUTION)
      return "convolution fusion";
    if (inst->op == HL_OP_SCATTER)
      found = "scatter fusion";
    else if (inst->op == HL_OP_GATHER && !found)
      found = "gather fusion";
  }
  const int64_t kind = hl_attr_int(fusion, HL_A_KIND);
  return found ? found : kind >= 0 && kind < HL_COUNT_OF(kinds) ? kinds[kind] : "fusion";
}

static const char *category_of(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_FUSION)
    return fusion_category(inst);
  if (op == HL_OP_COPY || op == HL_OP_TRANSPOSE || op == HL_OP_RESHAPE || op == HL_OP_REVERSE)
    return "data formatting";
  if (hl_op_is(op, HL_T_ELEMENTWISE))
    return "non-fusion elementwise";
  return hl_op_text(op);
}

static HlClusterStep *add_step(Walk *w, const HlInst *inst, HlStepKind kind) {
  const HlMetadata *meta = hl_metadata(inst);
  const bool named = meta && meta->source_file;
  return run_add_step(w->b,
                      (HlClusterStep){.kind = kind,
                                      .name = {inst->name->text, inst->name->n},
                                      .category = category_of(inst),
                                      .file = named ? meta->source_file->text : NULL,
                                      .line = named ? meta->source_line : 0,
                                      .inst = inst,
                                      .times = w->factor,
                                      .exchange = -1,
                                      .waits = -1,
                                      .live = w->live < 0x1p62 ? (int64_t)w->live : INT64_MAX});
}

static void wait_for(Walk *w, const HlInst *inst, int step) {
  HlClusterStep *s = add_step(w, inst, HL_STEP_WAIT);
  s->category = "wait";
  s->waits = step;
}

static void add_compute(Walk *w, const HlInst *inst, double seconds, int stream) {
  const HlCost cost = hl_cost_inst_by(inst, w->times.comps);
  HlClusterStep *s = add_step(w, inst, HL_STEP_COMPUTE);
  s->flops = cost.flops + cost.transcendentals;
  s->bytes = cost.bytes_read + cost.bytes_written;
  s->stream = stream;
  s->seconds = seconds;
  if (w->o->time)
    w->o->time(w->o->user, s->name, s->category, seconds, &s->seconds);
}

typedef struct Exchange {
  HlOp op;
  HlExchangeKind kind;
} Exchange;
static const Exchange exchanges[] = {
    {HL_OP_ALL_REDUCE, HL_ALL_REDUCE},           {HL_OP_ALL_GATHER, HL_ALL_GATHER},
    {HL_OP_REDUCE_SCATTER, HL_REDUCE_SCATTER},   {HL_OP_ALL_TO_ALL, HL_ALL_TO_ALL},
    {HL_OP_RAGGED_ALL_TO_ALL, HL_ALL_TO_ALL},    {HL_OP_COLLECTIVE_BROADCAST, HL_BROADCAST},
    {HL_OP_COLLECTIVE_REDUCE, HL_REDUCE_TO_ONE}, {HL_OP_COLLECTIVE_PERMUTE, HL_PERMUTE}};

static const Exchange *exchange_of(HlOp op) {
  for (int k = 0; k < HL_COUNT_OF(exchanges); k++)
    if (exchanges[k].op == op)
      return &exchanges[k];
  return NULL;
}

// A permutation that writes into an array in place has that and two lists of indices behind what is sent.
static bool permutes_in_place(const HlInst *inst) {
  return inst->n_operands == 4 &&
         (!hl_shape_is_array(inst->operands[2]->shape) ||
          (inst->operands[2]->shape->dtype == HL_S32 && inst->operands[0]->shape->dtype != HL_S32));
}

static double sent_bytes(const HlInst *inst, HlOp op) {
  double sum = 0;
  const bool first =
      op == HL_OP_RAGGED_ALL_TO_ALL || (op == HL_OP_COLLECTIVE_PERMUTE && permutes_in_place(inst));
  const uint32_t n = first ? 1 : inst->n_operands;
  for (uint32_t k = 0; k < n && k < inst->n_operands; k++) {
    const int64_t bytes = hl_leaf_bytes(inst->operands[k]->shape);
    sum += (double)bytes;
  }
  return sum;
}

static bool sends(const int64_t *target, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (target[k] >= 0)
      return true;
  return false;
}

static void add_exchange_step(Walk *w, const HlInst *inst, HlProgramExchange e, int stream) {
  const int64_t n = w->b->groups.at[e.groups].n;
  if (n < 2 || (e.target && !sends(e.target, n)))
    return;
  if (e.kind == HL_ALL_GATHER)
    e.bytes *= (double)n;
  HlClusterStep *s = add_step(w, inst, HL_STEP_EXCHANGE);
  s->category = hl_exchange_text(e.kind);
  s->exchange = run_add_exchange(w->b, e);
  s->stream = stream;
}

// `what` says what is exchanged, `inst` where it stands: for an async-start, what it wraps and itself. How many steps: none where a
// group is one device, or after reporting; one for each size of groups.
static int add_exchange(Walk *w, const HlInst *inst, const HlInst *what, const Exchange *x,
                        int stream) {
  HlProgramExchange e = {.kind = x->kind, .bytes = sent_bytes(what, x->op)};
  const int before = w->b->step.n;
  RunGroups sets = {1, &e.groups};
  w->failed = x->kind == HL_PERMUTE ? !run_pairs(w->cx, w->b, what, &e.groups, &e.target)
                                    : !run_groups(w->cx, w->b, what, hl_group_mode(what), &sets);
  for (int k = 0; k < sets.n && !w->failed; k++) {
    e.groups = sets.at[k];
    add_exchange_step(w, inst, e, stream);
  }
  return w->b->step.n - before;
}

// --- What waits for what ---------------------------------------------------------------------------------------

static void inherit(Walk *w, Frame *f, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const Pending *p = &f->pending[inst->operands[k]->id];
    for (int i = 0; i < p->n; i++)
      vec_push_in(w->arena, &f->pending[inst->id], p->at[i]);
  }
}

// Steps that what it uses comes from, each waited for once.
static void wait_for_operands(Walk *w, Frame *f, const HlInst *inst, Map *waited) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    Pending *p = &f->pending[inst->operands[k]->id];
    for (int i = 0; i < p->n; i++)
      if (!map_get(waited, (uint64_t)p->at[i] + 1)) {
        *map_at(waited, (uint64_t)p->at[i] + 1) = 1;
        wait_for(w, inst, p->at[i]);
      }
  }
}

// The last `n` steps run beside, until somebody needs what `inst` gives.
static void leave_pending(Walk *w, Frame *f, const HlInst *inst, int n) {
  for (int k = w->b->step.n - n; k < w->b->step.n; k++)
    vec_push_in(w->arena, &f->pending[inst->id], k);
}

static void walk(Walk *w, const HlComp *comp);

// --- Instructions ---------------------------------------------------------------------------------------------

// What a walk through a computation is worth, at least: its steps, and 1 for all that it only names and calls.
static int64_t steps_of(const HlComp *comp) {
  int64_t n = 1;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    n += !is_wire(inst);
  return n;
}

static void walk_loop(Walk *w, const HlInst *loop) {
  int64_t trips = hl_trip_count(loop);
  if (trips < 0) {
    trips = w->o->trips > 0 ? w->o->trips : 1;
    w->b->program->unknown_loops++;
  }
  const int64_t steps = steps_of(hl_while_body(loop)) + steps_of(hl_while_condition(loop));
  const int64_t room = w->o->unroll > 0 ? w->o->unroll : 4096;
  if (trips == 0)
    return;
  if (trips > (room - w->unrolled) / steps) {
    const double outer = w->factor;
    w->factor *= (double)trips;
    w->b->program->folded++;
    walk(w, hl_while_condition(loop));
    walk(w, hl_while_body(loop));
    w->factor = outer;
    return;
  }
  w->unrolled += trips * steps;
  for (int64_t k = 0; k < trips && !w->failed; k++) {
    walk(w, hl_while_condition(loop));
    walk(w, hl_while_body(loop));
  }
}

static void walk_control(Walk *w, const HlInst *inst) {
  if (inst->op == HL_OP_WHILE) {
    walk_loop(w, inst);
    return;
  }
  if (inst->op == HL_OP_CONDITIONAL && w->o->every_branch) {
    const double outer = w->factor;
    w->factor /= inst->n_calls > 0 ? inst->n_calls : 1;
    for (int k = 0; k < inst->n_calls; k++)
      walk(w, hl_called(inst, k));
    w->factor = outer;
    return;
  }
  if (inst->op == HL_OP_CONDITIONAL) {
    const HlComp *longest = NULL;
    for (int k = 0; k < inst->n_calls; k++)
      if (!longest || w->times.seconds[hl_called(inst, k)->id] > w->times.seconds[longest->id])
        longest = hl_called(inst, k);
    if (longest)
      walk(w, longest);
    return;
  }
  for (int k = 0; k < inst->n_calls; k++)
    walk(w, hl_called(inst, k));
}

static double moving(const Walk *w, const HlInst *inst) {
  const double rate = w->times.target->memory_bandwidth;
  const int64_t bytes = inst->n_operands > 0 ? hl_leaf_bytes(inst->operands[0]->shape) : 0;
  return rate > 0 && bytes != INT64_MAX ? 2 * (double)bytes / rate : 0;
}

// Begins something beside the device.
static void walk_start(Walk *w, Frame *f, const HlInst *inst) {
  const HlInst *wrapped =
      inst->op == HL_OP_ASYNC_START && inst->n_calls > 0 ? hl_to_apply(inst)->root : inst;
  const HlOp plain = wrapped == inst ? hl_op_plain((HlOp)inst->op) : (HlOp)wrapped->op;
  const Exchange *x = exchange_of(plain);
  int steps = 1;
  if (x) {
    steps = add_exchange(w, inst, wrapped, x, x->kind == HL_PERMUTE ? 2 : 1);
  } else {
    if (plain == HL_OP_SEND || plain == HL_OP_RECV)
      w->messages++;
    const double seconds =
        inst->op == HL_OP_ASYNC_START ? hl_time_of(&w->times, inst) : moving(w, inst);
    add_compute(w, inst, seconds, 3);
  }
  leave_pending(w, f, inst, steps);
}

static bool is_start(const HlInst *inst) {
  return hl_op_half((HlOp)inst->op) == HL_HALF_START;
}

static void walk_inst(Walk *w, Frame *f, const HlInst *inst, Map *waited) {
  const HlOp op = (HlOp)inst->op;
  if (hl_op_is(op, HL_T_CONTROL)) {
    wait_for_operands(w, f, inst, waited);
    walk_control(w, inst);
    return;
  }
  if (is_wire(inst)) {
    inherit(w, f, inst);
    return;
  }
  if (hl_op_half(op) == HL_HALF_UPDATE) {
    inherit(w, f, inst);
    return;
  }
  w->live += own_bytes(inst);
  wait_for_operands(w, f, inst, waited);
  if (hl_op_half(op) == HL_HALF_DONE)
    return;
  const Exchange *x = exchange_of(op);
  if (is_start(inst)) {
    walk_start(w, f, inst);
  } else if (x && w->o->overlap == HL_OVERLAP_ALL) {
    leave_pending(w, f, inst, add_exchange(w, inst, inst, x, x->kind == HL_PERMUTE ? 2 : 1));
  } else if (x) {
    add_exchange(w, inst, inst, x, 0);
  } else {
    add_compute(w, inst, hl_time_of(&w->times, inst), 0);
  }
}

// What is still under way when a computation ends is waited for there.
static void end_walk(Walk *w, Frame *f, Map *waited) {
  for (uint32_t k = 0; k < f->comp->n_insts; k++) {
    const Pending *p = &f->pending[f->order[k]->id];
    for (int i = 0; i < p->n; i++)
      if (!map_get(waited, (uint64_t)p->at[i] + 1)) {
        *map_at(waited, (uint64_t)p->at[i] + 1) = 1;
        wait_for(w, f->comp->root, p->at[i]);
      }
  }
}

static void walk(Walk *w, const HlComp *comp) {
  if (w->failed)
    return;
  if (w->depth >= hl_cx_limits(w->cx)->nesting || w->b->step.n > 50000000) {
    w->failed = !hl_error_kind(w->cx, HL_LIMIT, hl_comp_pos(comp),
                               "a program of more than 50 million steps, or nested too deeply");
    return;
  }
  w->depth++;
  Frame f = {.comp = comp,
             .order = comp->schedule ? comp->schedule : hl_print_order(w->arena, comp)};
  Map waited = {.arena = w->arena};
  f.pending = HL_ARRAY(w->arena, Pending, comp->next_id);
  find_last_uses(w, &f);
  for (uint32_t k = 0; k < comp->n_insts && !w->failed; k++) {
    walk_inst(w, &f, f.order[k], &waited);
    let_go(w, &f, k);
  }
  end_walk(w, &f, &waited);
  let_go(w, &f, comp->n_insts);
  w->depth--;
}

static double parameter_bytes(const HlComp *entry) {
  double sum = 0;
  for (int k = 0; k < entry->n_params; k++)
    if (entry->params[k])
      sum += (double)hl_leaf_bytes(entry->params[k]->shape);
  return sum;
}

HlClusterProgram *hl_program_new(HlCx *cx, HlArena *arena, const HlModule *m,
                                 const HlProgramOptions *o) {
  int64_t replicas, partitions;
  run_devices(arena, m, &replicas, &partitions);
  const bool fits = replicas <= 1 << 24 && partitions <= (1 << 24) / replicas;
  const int64_t own = fits ? replicas * partitions : INT64_MAX;
  const int64_t devices = o->devices > 0 ? o->devices : own;
  if (!m->entry) {
    hl_error(cx, hl_module_pos(m), "the module has no entry computation");
    return NULL;
  }
  if (!fits) {
    hl_error_kind(cx, HL_LIMIT, hl_module_pos(m),
                  "the module is for %lld replicas of %lld partitions: there may be 2^24 devices",
                  (long long)replicas, (long long)partitions);
    return NULL;
  }
  if (devices % own != 0 || devices > 1 << 24) {
    hl_error(cx, hl_module_pos(m),
             "the module is for %lld devices; %lld is no multiple of that up to 2^24",
             (long long)own, (long long)devices);
    return NULL;
  }
  Walk w = {.cx = cx, .arena = arena, .o = o, .factor = 1};
  w.b = hl_program_begin(arena, m->name->text, devices);
  w.b->replicas = replicas;
  w.b->partitions = partitions;
  w.b->copies_apart = o->copies_apart;
  w.times = hl_times(arena, m, o->system->device, hl_cost_comps(arena, m));
  w.live = parameter_bytes(m->entry);
  walk(&w, m->entry);
  if (w.messages > 0)
    hl_warn(cx, hl_module_pos(m),
            "%lld sends and receives take the time of copies: whom they go to is not simulated",
            (long long)w.messages);
  if (w.b->program->unknown_loops > 0 && o->trips == 0)
    hl_warn(cx, hl_module_pos(m), "%.0f loops do not say how often they run: each is taken once",
            w.b->program->unknown_loops);
  return w.failed ? NULL : hl_program_end(w.b);
}
