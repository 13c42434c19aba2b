// cpu/program/lower.c: from a module and its buffers to a flat list of steps.
//
// Computations are written out in the order of their schedules, what they call where it is called. Memory is decided before:
// loops have their state, branches their results in one place, so that control flow is jumps and nothing is moved.
//
//   w = while(t), condition=c, body=b        head:  steps of c
//                                                   unless (root of c) go to end
//                                                   steps of b
//                                                   go to head
//                                            end:
//
// What defines no array and has no effect needs no step: parameters, tuples, bitcasts. A step that no kernel takes is the
// interpreter's. Before the steps of a loop may stand the whole of it as machine code (cpu/loop). A module that cannot be seen
// like this is left to it whole, and the reason kept. What a kernel holds for the turns of a loop has memory of its own.

#include <string.h>

#include "base/vec.h"
#include "cpu/chain/chain.h"
#include "cpu/loop/line.h"
#include "cpu/program/program.h"
#include "hilo/op.h"
#include "ir/async.h"

// What a kernel holds, and the loop at whose end it is forgotten.
typedef struct Held {
  int64_t bytes;
  const HlInst *loop;
} Held;

typedef struct Turns {
  struct Turns *outer;
  const HlInst *loop;
} Turns;

typedef struct Lower {
  HlCx *cx;
  HlCpuProgram *program;
  HlArena *arena, *scratch;
  const HlBuffers *buffers;
  const HlFlow *flow;
  CpuPlace *place;  // by value
  CpuMaker maker;
  CpuKernels kernels;
  VEC(CpuStep) steps;
  int depth, loops;     // computations, and loops, that we are in
  struct Turns *turns;  // the innermost of these loops
  VEC(Held) held;
  int64_t held_bytes;
} Lower;

// --- Modules that are left to the interpreter -----------------------------------------------------

static bool refuse(Lower *l, const HlInst *inst, const char *why) {
  l->program->whole = inst ? hl_arena_printf(l->arena, "%s: %s", inst->name->text, why) : why;
  return false;
}

static bool look_at_shape(Lower *l, const HlInst *inst, const HlShape *shape) {
  if (shape->dtype == HL_TUPLE) {
    for (int k = 0; k < shape->rank; k++)
      if (!look_at_shape(l, inst, shape->element[k]))
        return false;
    return true;
  }
  if (shape->dtype == HL_BUFFER)
    return refuse(l, inst, "buffers are values of the interpreter");
  for (int d = 0; hl_is_array_dtype(shape->dtype) && d < shape->rank; d++)
    if ((shape->dynamic && shape->dynamic[d]) || shape->dim[d] < 0) {
      l->program->is_dynamic = true;
      return refuse(l, inst, "its size is known only at run time");
    }
  return true;
}

// A computation that runs as a step has memory for one run at a time, and its caller hands its values over there.
static bool is_called_once(const HlComp *comp) {
  return comp->first_call && !comp->first_call->next;
}

// --- Places ----------------------------------------------------------------------------------------

static CpuPlace place_at(const Lower *l, uint32_t slot) {
  const uint32_t value = l->flow->value_at[slot];
  return value == HL_NO_VALUE ? (CpuPlace){0, 0} : l->place[value];
}

static bool is_array_slot(const Lower *l, uint32_t slot) {
  return hl_is_array_dtype(l->flow->slot_shape[slot]->dtype);
}

static bool in_one_place(const Lower *l, const HlInst *a, const HlInst *b) {
  uint32_t x = hl_slot(l->flow, a), y = hl_slot(l->flow, b);
  const uint32_t n = l->flow->slot_size[x];
  if (l->flow->slot_size[y] != n)
    return false;
  for (uint32_t k = 0; k < n; k++) {
    const CpuPlace p = place_at(l, x + k), q = place_at(l, y + k);
    if (is_array_slot(l, x + k) && cpu_bytes(l->flow->slot_shape[x + k]) > 0 &&
        (p.allocation != q.allocation || p.offset != q.offset))
      return false;
  }
  return true;
}

static CpuPlace *add_places(const Lower *l, CpuPlace *to, const HlInst *inst) {
  const uint32_t first = hl_slot(l->flow, inst);
  for (uint32_t k = 0; k < l->flow->slot_size[first]; k++)
    if (l->flow->slot_shape[first + k]->dtype != HL_TUPLE)
      *to++ = place_at(l, first + k);
  return to;
}

// Whether the array at the slot is made by the instruction itself.
static bool defines(const Lower *l, const HlInst *inst, uint32_t slot) {
  const uint32_t value = l->flow->value_at[slot];
  return value != HL_NO_VALUE && is_array_slot(l, slot) && l->flow->value[value].slot == slot;
}

// Whether the instruction makes arrays; *writable: and none of them where what is given stands.
static bool makes_arrays(const Lower *l, const HlInst *inst, bool *writable) {
  const uint32_t first = hl_slot(l->flow, inst);
  bool any = false;
  *writable = true;
  for (uint32_t k = first; k < first + l->flow->slot_size[first]; k++) {
    if (!defines(l, inst, k))
      continue;
    const HlAllocation *a = &l->buffers->allocation[place_at(l, k).allocation];
    *writable = *writable && !a->is_constant && !(a->is_parameter && !a->parameter_aliased);
    any = true;
  }
  return any;
}

// Whether two arrays that the instruction makes have bytes in common: what it updates in place may be one thing twice.
static bool writes_twice(const Lower *l, const HlInst *inst) {
  const uint32_t first = hl_slot(l->flow, inst), end = first + l->flow->slot_size[first];
  for (uint32_t a = first; a < end; a++)
    for (uint32_t b = first; b < a; b++) {
      if (!defines(l, inst, a) || !defines(l, inst, b))
        continue;
      const CpuPlace p = place_at(l, a), q = place_at(l, b);
      if (p.allocation == q.allocation && p.offset < q.offset + cpu_bytes(l->flow->slot_shape[b]) &&
          q.offset < p.offset + cpu_bytes(l->flow->slot_shape[a]))
        return true;
    }
  return false;
}

// --- What loops leave alone ------------------------------------------------------------------------

// Whether the value goes through the loop's turns unchanged: in its state at some place, and there again at their end.
static bool passes_through(const Lower *l, const HlInst *loop, uint32_t value) {
  const HlComp *body = hl_while_body(loop);
  const uint32_t in = hl_slot(l->flow, body->params[0]), out = hl_slot(l->flow, body->root);
  for (uint32_t k = 0; k < l->flow->slot_size[in]; k++)
    if (l->flow->value_at[in + k] == value && l->flow->value_at[out + k] == value)
      return true;
  return false;
}

// The outermost loop all of whose turns see the same elements; NULL: there is none.
static const HlInst *fixed_in(const Lower *l, const HlInst *operand) {
  const HlInst *loop = NULL;
  const uint32_t value = l->flow->value_at[hl_slot(l->flow, operand)];
  for (const Turns *turns = l->turns; turns && value != HL_NO_VALUE; turns = turns->outer)
    if (passes_through(l, turns->loop, value))
      loop = turns->loop;
    else
      break;
  return loop;
}

static bool is_fixed(void *user, const HlInst *operand) {
  const int64_t most = (int64_t)128 << 20;
  const Lower *l = user;
  return l->held_bytes < most && fixed_in(l, operand) != NULL;
}

// --- Steps -----------------------------------------------------------------------------------------

static CpuStep *add_step(Lower *l, CpuStepKind kind, const HlInst *inst) {
  vec_push_in(l->scratch, &l->steps, ((CpuStep){.kind = kind, .inst = inst}));
  return &vec_last(&l->steps);
}

static void set_targets(Lower *l, int step, const int32_t *target, int n) {
  l->steps.at[step].target = hl_arena_copy(l->arena, target, (size_t)n * sizeof *target);
  l->steps.at[step].n_targets = n;
}

static void jump(Lower *l, int from, int32_t to) {
  set_targets(l, from, &to, 1);
}

static void set_place(Lower *l, CpuStep *step, const HlInst *value) {
  CpuPlace *place = HL_ARRAY(l->arena, CpuPlace, 1);
  *place = place_at(l, hl_slot(l->flow, value));
  step->place = place;
  step->n_places = 1;
}

// Gives the step memory that lasts over the turns of the loop in which nothing of what the kernel may rely on changes.
static void hold(Lower *l, CpuStep *step, int n, const HlInst *const *operand) {
  if (step->kernel->held == 0)
    return;
  const HlInst *loop = NULL;
  for (const Turns *turns = l->turns; turns && !loop; turns = turns->outer)
    for (int k = 0; k < n; k++)
      if (fixed_in(l, operand[k]) == turns->loop)
        loop = turns->loop;
  step->held = l->buffers->n + l->held.n;
  vec_push_in(l->scratch, &l->held, ((Held){step->kernel->held, loop}));
  l->held_bytes += step->kernel->held;
}

// At the end of the loop, what was held for it is.
static void set_ends(Lower *l, CpuStep *unless, const HlInst *loop) {
  int32_t *end = HL_ARRAY(l->arena, int32_t, l->held.n + 1);
  for (int k = 0; k < l->held.n; k++)
    if (l->held.at[k].loop == loop)
      end[unless->n_ends++] = l->buffers->n + k;
  unless->ends = end;
}

static bool same_layout(const HlShape *a, const HlShape *b) {
  return a->dtype == b->dtype && hl_shape_same_dims(a, b) &&
         (a->layout == b->layout || (cpu_is_row_major(a) && cpu_is_row_major(b)) ||
          (a->layout && b->layout &&
           hl_i64s_equal(a->layout->minor_to_major, b->layout->minor_to_major)));
}

static bool is_plain_copy(const HlInst *inst) {
  return inst->op == HL_OP_COPY && hl_is_array_dtype(inst->shape->dtype) &&
         same_layout(inst->shape, inst->operands[0]->shape);
}

// Whether others may hold on to what an interpreted step is given: a collective, a callback, or one in what it calls.
static bool keeps_operands(const HlInst *inst) {
  if (interp_keeps(inst))
    return true;
  for (int k = 0; k < inst->n_calls; k++)
    for (const HlInst *i = hl_called(inst, k)->first; i; i = i->next)
      if (keeps_operands(i))
        return true;
  return false;
}

static bool lower_plain(Lower *l, const HlInst *inst) {
  bool writable;
  if (!makes_arrays(l, inst, &writable) && !hl_has_side_effect(inst))
    return true;
  if (!writable)
    return refuse(l, inst, "it would be written over a constant or an argument");
  if (writes_twice(l, inst))
    return refuse(l, inst, "two of its results would be in one place");
  int n = cpu_leaf_count(inst->shape);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += cpu_leaf_count(inst->operands[k]->shape);
  CpuPlace *place = HL_ARRAY(l->arena, CpuPlace, n + 1), *next = place;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    next = add_places(l, next, inst->operands[k]);
  add_places(l, next, inst);
  const bool copies = is_plain_copy(inst);
  const CpuKernel *kernel = copies ? NULL : cpu_kernel_of(&l->kernels, &l->maker, inst);
  if (!kernel && hl_cx_n_errors(l->cx))
    return false;
  CpuStep *step = add_step(l, copies ? STEP_COPY : kernel ? STEP_KERNEL : STEP_INTERPRET, inst);
  step->place = place;
  step->n_places = n;
  if (n + 1 > l->program->max_buffers)
    l->program->max_buffers = n + 1;
  if (copies) {
    step->bytes = cpu_bytes(inst->shape);
  } else if (kernel) {
    step->kernel = kernel;
    hold(l, step, (int)inst->n_operands, (const HlInst *const *)inst->operands);
  } else {
    step->why = "no kernel takes it";
    step->keeps = keeps_operands(inst);
    l->program->needs_interp = true;
  }
  return true;
}

// --- Chains ----------------------------------------------------------------------------------------

// What a computation's instructions are to each other: by id the chain that ends there; `gone`: computed on the way to a last one.
typedef struct Chains {
  const Chain **ends;
  bool *gone;
} Chains;

typedef struct Bytes {
  CpuPlace place;
  int64_t n;
} Bytes;

static bool overlap(const Bytes *a, const Bytes *b) {
  return a->place.allocation == b->place.allocation && a->place.offset < b->place.offset + b->n &&
         b->place.offset < a->place.offset + a->n;
}

static CpuPlace place_of_leaf(const Lower *l, const HlInst *inst, int leaf) {
  uint32_t slot = hl_slot(l->flow, inst);
  for (;; slot++)
    if (l->flow->slot_shape[slot]->dtype != HL_TUPLE && leaf-- == 0)
      return place_at(l, slot);
}

// Whether an instruction may write where a chain reads.
static bool disturbs(const Lower *l, const HlInst *inst, const Chain *chain) {
  if (hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START)
    return true;
  const uint32_t first = hl_slot(l->flow, inst);
  for (uint32_t k = first; k < first + l->flow->slot_size[first]; k++)
    for (int s = 0; defines(l, inst, k) && s < chain->n_sources; s++) {
      const TileSource *source = &chain->source[s];
      const Bytes made = {place_at(l, k), cpu_bytes(l->flow->slot_shape[k])},
                  read = {place_of_leaf(l, source->inst, source->leaf),
                          cpu_bytes(cpu_leaf(source->inst->shape, source->leaf))};
      if (source->inst != inst && overlap(&made, &read))
        return true;
    }
  return false;
}

// All of it runs where its last instruction stands: from the first one to there, what it reads must stay.
static bool stays(const Lower *l, const HlComp *comp, int last, const Chain *chain) {
  int to_come = chain->n_members;
  for (int k = last; k >= 0 && to_come > 0; k--) {
    bool member = false;
    for (int j = 0; j < chain->n_members; j++)
      member = member || chain->member[j] == comp->schedule[k];
    to_come -= member;
    if (!member && disturbs(l, comp->schedule[k], chain))
      return false;
  }
  return true;
}

static bool is_apart(const Lower *l, const Chain *chain) {
  const Bytes made = {place_of_leaf(l, chain->last, 0), cpu_bytes(chain->last->shape)};
  for (int s = 0; s < chain->n_sources; s++) {
    const TileSource *source = &chain->source[s];
    const Bytes read = {place_of_leaf(l, source->inst, source->leaf),
                        cpu_bytes(cpu_leaf(source->inst->shape, source->leaf))};
    const bool same = made.place.allocation == read.place.allocation &&
                      made.place.offset == read.place.offset && made.n == read.n;
    if (overlap(&made, &read) && !(chain->in_place && chain->in_place[s] && same))
      return false;
  }
  return true;
}

static bool find_chains(Lower *l, const HlComp *comp, Chains *out) {
  *out = (Chains){HL_ARRAY(l->scratch, const Chain *, comp->next_id + 1),
                  HL_ARRAY(l->scratch, bool, comp->next_id + 1)};
  for (int k = (int)comp->n_insts - 1; k >= 0; k--) {
    const HlInst *last = comp->schedule[k];
    Chain found;
    if (out->gone[last->id] || !chain_find(&l->maker, last, &found) || !stays(l, comp, k, &found) ||
        (found.apart && !is_apart(l, &found))) {
      if (hl_cx_n_errors(l->cx))
        return false;
      continue;
    }
    out->ends[last->id] = hl_arena_copy(l->scratch, &found, sizeof found);
    for (int j = 0; j < found.n_members; j++)
      out->gone[found.member[j]->id] = found.member[j] != last;
  }
  return true;
}

static void hold_of_chain(Lower *l, CpuStep *step, const Chain *chain) {
  const HlInst **source = HL_ARRAY(l->scratch, const HlInst *, chain->n_sources + 1);
  for (int k = 0; k < chain->n_sources; k++)
    source[k] = chain->source[k].inst;
  hold(l, step, chain->n_sources, source);
}

static void add_chain(Lower *l, const Chain *chain) {
  CpuPlace *place = HL_ARRAY(l->arena, CpuPlace, chain->n_sources + 1);
  for (int k = 0; k < chain->n_sources; k++)
    place[k] = place_of_leaf(l, chain->source[k].inst, chain->source[k].leaf);
  place[chain->n_sources] = place_of_leaf(l, chain->last, 0);
  CpuStep *step = add_step(l, STEP_KERNEL, chain->last);
  step->kernel = chain->kernel;
  const HlInst **way = HL_ARRAY(l->arena, const HlInst *, chain->n_members);
  for (int k = 0; k < chain->n_members; k++)
    if (chain->member[k] != chain->last)
      way[step->n_way++] = chain->member[k];
  step->way = way;
  step->place = place;
  step->n_places = chain->n_sources + 1;
  hold_of_chain(l, step, chain);
  if (step->n_places + 1 > l->program->max_buffers)
    l->program->max_buffers = step->n_places + 1;
}

// --- Lines -----------------------------------------------------------------------------------------

static bool has_no_step(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT || inst->op == HL_OP_TUPLE ||
         inst->op == HL_OP_GET_TUPLE_ELEMENT || inst->op == HL_OP_BITCAST;
}

static bool may_be_in_line(const Lower *l, const Chains *chains, const HlInst *inst) {
  bool writable;
  return !chains->ends[inst->id] && !chains->gone[inst->id] && cpu_line_may(inst) &&
         makes_arrays(l, inst, &writable) && writable && !writes_twice(l, inst);
}

// What is updated stands where the result will.
static bool is_in_place(const Lower *l, const CpuLine *line, const HlInst *const *member, int n) {
  int at = 0;
  for (int k = 0; k < n; k++)
    for (int leaf = 0; leaf < cpu_leaf_count(member[k]->shape); leaf++, at++) {
      const TileSource *over = &line->over[at];
      if (!over->inst)
        continue;
      const CpuPlace to = place_of_leaf(l, member[k], leaf),
                     from = place_of_leaf(l, over->inst, over->leaf);
      if (to.allocation != from.allocation || to.offset != from.offset)
        return false;
    }
  return true;
}

static void add_line_step(Lower *l, const CpuLine *line, const HlInst *const *member, int n) {
  int n_places = line->n_sources;
  for (int k = 0; k < n; k++)
    n_places += cpu_leaf_count(member[k]->shape);
  CpuPlace *place = HL_ARRAY(l->arena, CpuPlace, n_places + 1), *next = place;
  for (int k = 0; k < line->n_sources; k++)
    *next++ = place_of_leaf(l, line->source[k].inst, line->source[k].leaf);
  for (int k = 0; k < n; k++)
    next = add_places(l, next, member[k]);
  CpuStep *step = add_step(l, STEP_KERNEL, member[n - 1]);
  step->kernel = line->kernel;
  step->place = place;
  step->n_places = n_places;
  step->line = hl_arena_copy(l->arena, member, sizeof *member * (size_t)n);
  step->n_line = n;
  l->kernels.n++;
  if (n_places > l->program->max_buffers)
    l->program->max_buffers = n_places;
}

// From instruction k of the schedule on, as many as can be are one step; how many of the schedule that are. 0: none. Outside of
// loops it would not pay to try.
static uint32_t add_line(Lower *l, const HlComp *comp, const Chains *chains, uint32_t k) {
  const HlInst *member[CPU_LINE_MEMBERS];
  uint32_t end[CPU_LINE_MEMBERS];
  int n = 0;
  for (uint32_t j = k; l->loops > 0 && j < comp->n_insts && n < CPU_LINE_MEMBERS; j++) {
    const HlInst *inst = comp->schedule[j];
    if (has_no_step(inst) && n > 0)
      continue;
    if (!may_be_in_line(l, chains, inst))
      break;
    member[n] = inst;
    end[n++] = j + 1;
  }
  for (; n > 0; n = n > 4 ? n / 2 : n - 1) {
    CpuLine line;
    l->maker.name = member[n - 1]->name->text;
    if (!cpu_line_make(&l->maker, comp, member, n, &line) || !is_in_place(l, &line, member, n))
      continue;
    add_line_step(l, &line, member, n);
    return end[n - 1] - k;
  }
  return 0;
}

static bool lower_comp(Lower *l, const HlComp *comp);

static bool enter(Lower *l, const HlInst *caller, const HlComp *comp) {
  if (!is_called_once(comp))
    return refuse(l, caller, "what it calls is called from elsewhere, too");
  return lower_comp(l, comp);
}

// A loop in machine code, before its steps; -1: it is none.
static int add_loop(Lower *l, const HlInst *inst) {
  l->maker.name = inst->name->text;
  const CpuLoop *loop = cpu_loop_make(&l->maker, inst);
  if (!loop)
    return -1;
  const int n = cpu_leaf_count(inst->shape);
  CpuPlace *place = HL_ARRAY(l->arena, CpuPlace, n + 1);
  add_places(l, place, inst);
  CpuStep *step = add_step(l, STEP_LOOP, inst);
  step->loop = loop;
  step->place = place;
  step->n_places = n;
  l->program->max_buffers = n > l->program->max_buffers ? n : l->program->max_buffers;
  return l->steps.n - 1;
}

static bool lower_while(Lower *l, const HlInst *inst) {
  const HlComp *condition = hl_while_condition(inst), *body = hl_while_body(inst);
  if (!in_one_place(l, inst, inst->operands[0]) || !in_one_place(l, inst, condition->params[0]) ||
      !in_one_place(l, inst, body->params[0]) || !in_one_place(l, inst, body->root))
    return refuse(l, inst, "its state is not in one place: copies are missing");
  const int loop = add_loop(l, inst), head = l->steps.n;
  l->loops += loop < 0;  // the steps of the other ones hardly ever run
  Turns turns = {l->turns, inst};
  l->turns = &turns;
  if (hl_cx_n_errors(l->cx) || !enter(l, inst, condition))
    return false;
  const int test = l->steps.n;
  set_place(l, add_step(l, STEP_UNLESS, inst), condition->root);
  if (!enter(l, inst, body))
    return false;
  add_step(l, STEP_JUMP, inst);
  jump(l, l->steps.n - 1, head);
  jump(l, test, l->steps.n);
  set_ends(l, &l->steps.at[test], inst);
  l->loops -= loop < 0;
  l->turns = turns.outer;
  if (loop >= 0) {
    l->steps.at[loop].behind = l->steps.n;
    l->steps.at[loop].n_test = test + 1 - head;
    l->steps.at[loop].n_turn = l->steps.n - head;
  }
  return true;
}

static bool lower_conditional(Lower *l, const HlInst *inst) {
  const int n = inst->n_calls, start = l->steps.n;
  int32_t *branch = HL_ARRAY(l->scratch, int32_t, n + 1), *end = HL_ARRAY(l->scratch, int32_t, n);
  set_place(l, add_step(l, STEP_SWITCH, inst), inst->operands[0]);
  for (int k = 0; k < n; k++) {
    const HlComp *comp = hl_called(inst, k);
    if (!in_one_place(l, inst->operands[k + 1], comp->params[0]) ||
        !in_one_place(l, inst, comp->root))
      return refuse(l, inst, "its results are not in one place: copies are missing");
    branch[k] = l->steps.n;
    if (!enter(l, inst, comp))
      return false;
    end[k] = l->steps.n;
    add_step(l, STEP_JUMP, inst);
  }
  set_targets(l, start, branch, n);
  for (int k = 0; k < n; k++)
    jump(l, end[k], l->steps.n);
  return true;
}

// call; async-start, which runs at once all that it wraps.
static bool lower_call(Lower *l, const HlInst *inst) {
  const HlComp *comp = hl_called(inst, 0);
  if ((int)inst->n_operands != comp->n_params)
    return refuse(l, inst, "what it calls gets more arguments later");
  for (int k = 0; k < comp->n_params; k++)
    if (!in_one_place(l, inst->operands[k], comp->params[k]))
      return refuse(l, inst, "its arguments are not where it looks for them");
  return enter(l, inst, comp);
}

// Sends and recvs in what runs on its own wait for each other in ways of the interpreter's.
static bool lower_async(Lower *l, const HlInst *inst) {
  static const HlOp transfers[] = {HL_OP_SEND, HL_OP_RECV, HL_OP_SEND_DONE, HL_OP_RECV_DONE};
  for (size_t k = 0; k < HL_COUNT_OF(transfers); k++)
    if (hl_comp_may_have(hl_called(inst, 0), transfers[k]))
      return refuse(l, inst, "it sends or receives");
  // The next turn's result would be where this one's still is.
  if (l->turns && hl_async_enters_loop(inst))
    return refuse(l, inst, "it goes on from one turn of a loop to the next");
  return lower_call(l, inst);
}

// The same bytes in the interpreter's eyes, too: those of elements below a byte are not.
static bool lower_bitcast(Lower *l, const HlInst *inst) {
  return cpu_bytes(inst->shape) == cpu_bytes(inst->operands[0]->shape) ||
         refuse(l, inst, "it takes elements below a byte apart");
}

static bool same_layouts(const HlShape *a, const HlShape *b) {
  for (int k = 0; k < cpu_leaf_count(a); k++)
    if (hl_is_array_dtype(cpu_leaf(a, k)->dtype) && !same_layout(cpu_leaf(a, k), cpu_leaf(b, k)))
      return false;
  return true;
}

// What only passes arrays on shows one in another layout than it has: layout assignment lets these choose.
static bool turns_layout(const HlInst *inst) {
  const HlShape *to = inst->shape, *from = inst->n_operands > 0 ? inst->operands[0]->shape : NULL;
  switch (inst->op) {
  case HL_OP_COPY_DONE: from = from->element[0]; break;
  case HL_OP_RECV_DONE:
    from = from->element[0];
    to = to->element[0];
    break;
  case HL_OP_ASYNC_DONE:
  case HL_OP_ALL_GATHER_DONE:
  case HL_OP_COLLECTIVE_PERMUTE_DONE: from = from->element[1]; break;
  case HL_OP_ALL_REDUCE_DONE:
  case HL_OP_DOMAIN: break;
  default: return false;
  }
  return cpu_leaf_count(from) == cpu_leaf_count(to) && !same_layouts(from, to);
}

static bool lower_inst(Lower *l, const HlInst *inst) {
  if (!look_at_shape(l, inst, inst->shape))
    return false;
  if (turns_layout(inst))
    return refuse(l, inst, "it passes on what it shows in another layout");
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT: return true;
  case HL_OP_BITCAST: return lower_bitcast(l, inst);
  case HL_OP_CALL: return lower_call(l, inst);
  case HL_OP_ASYNC_START: return lower_async(l, inst);
  case HL_OP_ASYNC_UPDATE:
  case HL_OP_ASYNC_DONE: return true;
  case HL_OP_WHILE: return lower_while(l, inst);
  case HL_OP_CONDITIONAL: return lower_conditional(l, inst);
  default: return lower_plain(l, inst);
  }
}

static bool lower_comp(Lower *l, const HlComp *comp) {
  if (!comp->schedule)
    return refuse(l, comp->root, "its computation has no schedule");
  if (++l->depth > hl_cx_limits(l->cx)->nesting)
    return hl_error_kind(l->cx, HL_LIMIT, hl_comp_pos(comp),
                         "computations call each other too deeply (limit nesting)");
  Chains chains;
  bool good = find_chains(l, comp, &chains);
  for (uint32_t k = 0, line_end = 0; good && k < comp->n_insts; k++) {
    const HlInst *inst = comp->schedule[k];
    if (k >= line_end)
      line_end = k + add_line(l, comp, &chains, k);
    if (k < line_end && !has_no_step(inst))
      continue;
    if (chains.ends[inst->id])
      add_chain(l, chains.ends[inst->id]);
    else if (!chains.gone[inst->id])
      good = lower_inst(l, inst);
  }
  l->depth--;
  return good;
}

// --- The whole -------------------------------------------------------------------------------------

// Whether every value has room for elements of whole bytes.
static bool has_room(const HlBuffers *buffers) {
  for (int a = 0; a < buffers->n; a++)
    for (int k = 0; k < buffers->allocation[a].n_places; k++) {
      const HlPlace *place = &buffers->allocation[a].place[k];
      if (place->size < cpu_bytes(hl_value_shape(buffers->flow, place->value)))
        return false;
    }
  return true;
}

// Complaints are reasons to leave the module to the interpreter.
static const HlBuffers *assign(Lower *l, const HlBuffers *given) {
  if (given && has_room(given))
    return given;
  HlCx *cx = hl_cx_new();
  const HlBuffers *buffers =
      hl_buffers_new(cx, l->arena, l->program->m, &(HlBuffersOptions){.whole_bytes = true});
  if (!buffers)
    refuse(l, NULL, hl_arena_printf(l->arena, "%s", hl_cx_diag(cx, 0)->text));
  hl_cx_free(cx);
  return buffers;
}

static void find_places(Lower *l) {
  l->place = HL_ARRAY(l->scratch, CpuPlace, l->flow->n_values + 1);
  for (int a = 0; a < l->buffers->n; a++)
    for (int k = 0; k < l->buffers->allocation[a].n_places; k++) {
      const HlPlace *place = &l->buffers->allocation[a].place[k];
      l->place[place->value] = (CpuPlace){a, place->offset};
    }
}

static void list_held(Lower *l) {
  HlCpuProgram *p = l->program;
  p->n_kept = l->held.n;
  p->kept = HL_ARRAY(l->arena, int64_t, l->held.n + 1);
  for (int k = 0; k < l->held.n; k++)
    p->kept[k] = l->held.at[k].bytes;
}

static bool lower(Lower *l, const HlCpuOptions *options) {
  HlCpuProgram *p = l->program;
  if (!p->m->is_scheduled)
    return refuse(l, NULL, "the module has no schedule");
  l->buffers = assign(l, options->buffers);
  if (!l->buffers)
    return false;
  l->flow = l->buffers->flow;
  find_places(l);
  if (!lower_comp(l, p->m->entry))
    return false;
  list_held(l);
  if (!cpu_place_memory(l->cx, p, l->buffers, l->place))
    return false;
  p->n_steps = l->steps.n;
  p->n_kernels = l->kernels.n;
  p->step = hl_arena_copy(l->arena, l->steps.at, sizeof *p->step * (size_t)l->steps.n);
  return true;
}

bool cpu_lower(HlCx *cx, HlCpuProgram *program, const HlCpuOptions *options) {
  HlArena *scratch = hl_arena_new();
  Lower l = {.cx = cx,
             .program = program,
             .arena = program->arena,
             .scratch = scratch,
             .maker = {.cx = cx,
                       .arena = program->arena,
                       .level = cpu_level(),
                       .no_emit = options->no_emit,
                       .code = program->code,
                       .onednn = options->onednn,
                       .is_fixed = is_fixed},
             .kernels = {scratch, {.arena = scratch}, 0}};
  l.maker.user = &l;
  cpu_list_leaves(program);
  bool good = lower(&l, options);
  if (!good && program->whole) {
    program->n_steps = 0;
    good = true;
  }
  hl_arena_free(scratch);
  return good;
}
