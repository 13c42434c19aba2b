// buffer/flow.c: which value stands at every position of every instruction.
//
// An instruction defines values at the slots it computes; at the others (elements of a tuple, what a
// get-tuple-element, bitcast, call, while or conditional gives) values of other instructions pass
// through. They are followed to a fixed point with a worklist in the order the program runs. Where
// several values meet - a loop's state before and after an iteration, the results of two branches - a phi
// value is made, and dropped again if it proves to be one value only. So each slot has one value.
//
//   t = (f32[4], s32[]) tuple(x, i)         values:  t{}  (x and i pass through)
//   w = (f32[4], s32[]) while(t), body=b             w{0} (phi)  w{1} (phi)

#include <string.h>

#include "base/memory.h"
#include "buffer/flow.h"

typedef struct Work {
  HlFlow *flow;
  HlArena *scratch;
  Drafts drafts;
  uint32_t
      *rank;  // by first slot: when an instruction runs; HL_NO_VALUE: it passes nothing through
  HlInst **by_rank;   // those that do
  uint64_t *waiting;  // bits by rank
  uint32_t n_ranks, next;
  CallContext *context;  // by comp->id
} Work;

// --- The worklist: bits in the order of execution ------------------------------------------------

static void enqueue(Work *w, const HlInst *inst) {
  uint32_t rank = w->rank[hl_slot(w->flow, inst)];
  if (rank == HL_NO_VALUE)
    return;
  w->waiting[rank / 64] |= (uint64_t)1 << (rank % 64);
  w->next = rank < w->next ? rank : w->next;
}

// The first that waits; NULL: none does.
static HlInst *dequeue(Work *w) {
  for (uint32_t word = w->next / 64; word <= w->n_ranks / 64; word++) {
    if (w->waiting[word] == 0)
      continue;
    uint32_t rank = word * 64 + (uint32_t)__builtin_ctzll(w->waiting[word]);
    w->waiting[word] &= w->waiting[word] - 1;
    w->next = rank + 1;
    return w->by_rank[rank];
  }
  return NULL;
}

// --- Order of execution --------------------------------------------------------------------------

// What an op does with values: which are its own, and where the others come from. NULL: all are its own.
typedef struct Passing {
  void (*define)(Work *w, const HlInst *inst);
  bool (*update)(Work *w, const HlInst *inst);  // false: all as before
} Passing;
static const Passing *passing_of(HlOp op);

// Whether a parameter's values are what callers hand over.
static bool is_handed(const Work *w, const HlInst *parameter) {
  return w->context[parameter->comp->id] == CALLED_AS_STEP && parameter->comp->first_call;
}

// Whether values stand in the instruction that are not its own.
static bool passes_through(const Work *w, const HlInst *inst) {
  return inst->op == HL_OP_COPY        ? hl_shape_is_tuple(inst->shape)
         : inst->op == HL_OP_PARAMETER ? is_handed(w, inst)
                                       : passing_of((HlOp)inst->op) != NULL;
}

static void give_rank(Work *w, HlInst *inst) {
  if (!passes_through(w, inst))
    return;
  w->by_rank[w->n_ranks] = inst;
  w->rank[hl_slot(w->flow, inst)] = w->n_ranks++;
}

typedef struct Frame {
  HlComp *comp;
  uint32_t at;  // in its post order
  int step;     // called computations of that instruction already walked
} Frame;

// A walk into everything that runs as a step.
static void rank_from(Work *w, HlComp *start, Frame *stack, uint8_t *entered) {
  int depth = 0;
  stack[depth++] = (Frame){start, 0, 0};
  entered[start->id] = 1;
  while (depth > 0) {
    Frame *top = &stack[depth - 1];
    if (top->at == top->comp->n_insts) {
      depth--;
      continue;
    }
    HlInst *inst = w->flow->post_order[top->comp->id][top->at];
    if (top->step < flow_n_steps(inst)) {
      HlComp *callee = flow_step(inst, top->step++);
      if (!entered[callee->id]) {
        entered[callee->id] = 1;
        stack[depth++] = (Frame){callee, 0, 0};
      }
      continue;
    }
    give_rank(w, inst);
    top->at++;
    top->step = 0;
  }
}

// Ranks what passes values through, as it runs from the entry; what is not reached so comes first.
static void rank_instructions(Work *w) {
  HlFlow *flow = w->flow;
  w->rank = HL_ARRAY(w->scratch, uint32_t, flow->n_slots + 1);
  memset(w->rank, 0xff, sizeof *w->rank * flow->n_slots);
  w->by_rank = HL_ARRAY(w->scratch, HlInst *, flow->n_slots + 1);
  Frame *stack = HL_ARRAY(w->scratch, Frame, flow->m->n_comps + 1);
  uint8_t *entered = HL_ARRAY(w->scratch, uint8_t, flow->m->next_comp_id + 1);
  for (const HlComp *comp = flow->m->first; comp; comp = comp->next)
    if (w->context[comp->id] != CALLED_AS_STEP && flow->post_order[comp->id])
      for (uint32_t k = 0; k < comp->n_insts; k++)
        give_rank(w, flow->post_order[comp->id][k]);
  rank_from(w, flow->m->entry, stack, entered);
  for (HlComp *comp = flow->m->first; comp; comp = comp->next)
    if (w->context[comp->id] == CALLED_AS_STEP && !entered[comp->id])
      rank_from(w, comp, stack, entered);
  w->waiting = HL_ARRAY(w->scratch, uint64_t, w->n_ranks / 64 + 1);
}

// --- Definitions ---------------------------------------------------------------------------------

static void define(Work *w, uint32_t slot) {
  w->flow->value_at[slot] = draft_add(&w->drafts, slot, false);
}

static void define_all(Work *w, const HlInst *inst) {
  uint32_t first = hl_slot(w->flow, inst);
  for (uint32_t k = 0; k < w->flow->slot_size[first]; k++)
    define(w, first + k);
}

// All tuples of the instruction's shape, and everything from element `from` on but element `except`.
static void define_tuples_and(Work *w, const HlInst *inst, int64_t from, int64_t except) {
  const HlFlow *flow = w->flow;
  uint32_t first = hl_slot(flow, inst), child = first + 1;
  if (!hl_shape_is_tuple(inst->shape))
    return;
  define(w, first);
  for (int64_t k = 0; k < inst->shape->rank; k++) {
    for (uint32_t j = child; j < child + flow->slot_size[child]; j++)
      if ((k >= from && k != except) || hl_shape_is_tuple(flow->slot_shape[j]))
        define(w, j);
    child += flow->slot_size[child];
  }
}

static void define_child(Work *w, const HlInst *inst, int64_t k) {
  uint32_t slot = hl_slot_child(w->flow, hl_slot(w->flow, inst), k);
  if (slot != HL_NO_VALUE)
    define(w, slot);
}

static void define_nothing(Work *w, const HlInst *inst) {
}

static void define_parameter(Work *w, const HlInst *inst) {
  if (!is_handed(w, inst))
    define_all(w, inst);
}

static void define_top(Work *w, const HlInst *inst) {
  define(w, hl_slot(w->flow, inst));
}

static void define_tuple(Work *w, const HlInst *inst) {
  if (hl_shape_is_tuple(inst->shape))
    define_top(w, inst);
}

static void define_tuples(Work *w, const HlInst *inst) {
  define_tuples_and(w, inst, INT64_MAX, -1);
}

static void define_behind_operands(Work *w, const HlInst *inst) {
  define_tuples_and(w, inst, 1, -1);
}

static void define_behind_results(Work *w, const HlInst *inst) {
  define_tuples_and(w, inst, 2, -1);
}

static void define_copy_start(Work *w, const HlInst *inst) {
  define_top(w, inst);
  define_child(w, inst, 0);
  define_child(w, inst, 2);
}

// --- Values that pass through --------------------------------------------------------------------

static bool pass_slot(HlFlow *flow, uint32_t to, uint32_t from) {
  if (flow->value_at[to] == flow->value_at[from])
    return false;
  flow->value_at[to] = flow->value_at[from];
  return true;
}

// Everything below `from` goes below `to`; shapes of one tree.
static bool pass_tree(HlFlow *flow, uint32_t to, uint32_t from) {
  if (to == HL_NO_VALUE || from == HL_NO_VALUE || flow->slot_size[to] != flow->slot_size[from])
    return false;
  bool changed = false;
  for (uint32_t k = 0; k < flow->slot_size[to]; k++)
    changed |= pass_slot(flow, to + k, from + k);
  return changed;
}

// Arrays and tokens only: the tuples around are values of their own.
static bool pass_leaves(HlFlow *flow, uint32_t to, uint32_t from) {
  if (to == HL_NO_VALUE || from == HL_NO_VALUE || flow->slot_size[to] != flow->slot_size[from])
    return false;
  bool changed = false;
  for (uint32_t k = 0; k < flow->slot_size[to]; k++)
    if (!hl_shape_is_tuple(flow->slot_shape[to + k]))
      changed |= pass_slot(flow, to + k, from + k);
  return changed;
}

static bool phi_slot(Work *w, uint32_t to, int n, const uint32_t *from) {
  HlFlow *flow = w->flow;
  uint32_t few[16], *input = few, old = flow->value_at[to];
  if (n > HL_COUNT_OF(few))
    input = HL_ARRAY(w->scratch, uint32_t, n);
  int n_inputs = 0;
  for (int k = 0; k < n; k++)
    if (flow->value_at[from[k]] != HL_NO_VALUE)
      input[n_inputs++] = flow->value_at[from[k]];
  if (n_inputs == 0)
    return false;
  bool mine = old != HL_NO_VALUE && w->drafts.at[old].slot == to;
  if (n_inputs == 1) {
    if (old == input[0])
      return false;
    if (mine)
      w->drafts.at[old].deleted = true;
    flow->value_at[to] = input[0];
    return true;
  }
  if (mine && w->drafts.at[old].is_phi) {
    if (draft_inputs_are(&w->drafts, old, n_inputs, input))
      return false;
    draft_set_inputs(&w->drafts, old, n_inputs, input);
    return true;
  }
  flow->value_at[to] = draft_add(&w->drafts, to, true);
  draft_set_inputs(&w->drafts, flow->value_at[to], n_inputs, input);
  return true;
}

static bool phi(Work *w, const HlInst *inst, int n, const uint32_t *from) {
  HlFlow *flow = w->flow;
  uint32_t to = hl_slot(flow, inst);
  int same = 0;
  uint32_t *at = HL_ARRAY(w->scratch, uint32_t, n > 0 ? n : 1);
  for (int k = 0; k < n; k++)  // shapes that differ are for the verifier
    if (flow->slot_size[from[k]] == flow->slot_size[to])
      at[same++] = from[k];
  bool changed = false;
  for (uint32_t k = 0; k < flow->slot_size[to]; k++) {
    changed |= phi_slot(w, to + k, same, at);
    for (int j = 0; j < same; j++)
      at[j]++;
  }
  return changed;
}

static int count_calls(const HlComp *comp) {
  int n = 0;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    n++;
  return n;
}

// What arrives at a parameter of a computation that runs as a step.
static bool update_parameter(Work *w, const HlInst *inst) {
  const HlFlow *flow = w->flow;
  const HlComp *comp = inst->comp;
  if (!is_handed(w, inst))
    return false;
  int64_t number = hl_parameter_number(inst);
  uint32_t *from = HL_ARRAY(w->scratch, uint32_t, 2 * count_calls(comp) + 1);
  int n = 0;
  bool merges = false;
  for (const HlCall *call = comp->first_call; call; call = call->next) {
    const HlInst *caller = call->caller;
    if (caller->op == HL_OP_WHILE) {
      from[n++] = hl_slot(flow, caller->operands[0]);
      if (inst != hl_while_body(caller)->root)
        from[n++] = hl_slot(flow, hl_while_body(caller)->root);
      merges = true;
    } else if (caller->op == HL_OP_CONDITIONAL) {
      if ((uint32_t)call->number + 1 < caller->n_operands)
        from[n++] = hl_slot(flow, caller->operands[call->number + 1]);
      merges = true;
    } else if (caller->op == HL_OP_CALL || caller->op == HL_OP_ASYNC_START) {
      if (number < (int64_t)caller->n_operands)
        from[n++] = hl_slot(flow, caller->operands[number]);
      merges |= n > 1;
    }
  }
  if (merges)
    return phi(w, inst, n, from);
  return n > 0 && pass_tree(w->flow, hl_slot(flow, inst), from[0]);
}

static bool update_conditional(Work *w, const HlInst *inst) {
  uint32_t *from = HL_ARRAY(w->scratch, uint32_t, inst->n_calls + 1);
  for (int k = 0; k < inst->n_calls; k++)
    from[k] = hl_slot(w->flow, hl_called(inst, k)->root);
  return phi(w, inst, inst->n_calls, from);
}

static bool update_tuple(Work *w, const HlInst *inst) {
  HlFlow *flow = w->flow;
  bool changed = false;
  uint32_t child = hl_slot(flow, inst) + 1;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    uint32_t size = flow->slot_size[child];
    changed |= pass_tree(flow, child, hl_slot(flow, inst->operands[k]));
    child += size;
  }
  return changed;
}

static bool update_async_start(Work *w, const HlInst *inst) {
  HlFlow *flow = w->flow;
  uint32_t slot = hl_slot(flow, inst), inputs = hl_slot_child(flow, slot, 0);
  bool changed = false;
  for (uint32_t k = 0; inputs != HL_NO_VALUE && k < inst->n_operands; k++)
    changed |= pass_leaves(flow, hl_slot_child(flow, inputs, k), hl_slot(flow, inst->operands[k]));
  if (inst->n_calls > 0)
    changed |=
        pass_leaves(flow, hl_slot_child(flow, slot, 1), hl_slot(flow, hl_called(inst, 0)->root));
  return changed;
}

static bool update_async_update(Work *w, const HlInst *inst) {
  HlFlow *flow = w->flow;
  const HlShape *link = inst->operands[0]->shape;
  const HlInst *wrapped = hl_async_wrapped(NULL, inst);
  uint32_t slot = hl_slot(flow, inst), from = hl_slot(flow, inst->operands[0]),
           inputs = hl_slot_child(flow, slot, 0), before = hl_slot_child(flow, from, 0);
  const int n_before = link->element[0]->rank;
  bool changed = false;
  for (int k = 0; k < n_before; k++)
    changed |= pass_leaves(flow, hl_slot_child(flow, inputs, k), hl_slot_child(flow, before, k));
  for (uint32_t k = 1; k < inst->n_operands; k++)
    changed |= pass_leaves(flow, hl_slot_child(flow, inputs, n_before + (int)k - 1),
                           hl_slot(flow, inst->operands[k]));
  if (hl_shape_compatible(link->element[1], inst->shape->element[1]))
    return changed | pass_leaves(flow, hl_slot_child(flow, slot, 1), hl_slot_child(flow, from, 1));
  return changed |
         (wrapped && pass_leaves(flow, hl_slot_child(flow, slot, 1), hl_slot(flow, wrapped)));
}

// Operands of a start go to element 0 of its result, side by side when there are several.
static bool update_start(Work *w, const HlInst *inst) {
  HlFlow *flow = w->flow;
  uint32_t inputs = hl_slot_child(flow, hl_slot(flow, inst), 0);
  if (inputs == HL_NO_VALUE)
    return false;
  bool changed = false, many = hl_shape_is_tuple(flow->slot_shape[inputs]);
  if (!many || (inst->n_operands == 1 && hl_shape_is_tuple(inst->operands[0]->shape)))
    return pass_leaves(flow, inputs, hl_slot(flow, inst->operands[0]));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    changed |= pass_leaves(flow, hl_slot_child(flow, inputs, k), hl_slot(flow, inst->operands[k]));
  return changed;
}

static uint32_t operand_slot(const Work *w, const HlInst *inst) {
  return hl_slot(w->flow, inst->operands[0]);
}

static bool update_same(Work *w, const HlInst *inst) {
  return pass_tree(w->flow, hl_slot(w->flow, inst), operand_slot(w, inst));
}

static bool update_element(Work *w, const HlInst *inst) {
  return pass_tree(w->flow, hl_slot(w->flow, inst),
                   hl_slot_child(w->flow, operand_slot(w, inst), hl_attr_int(inst, HL_A_INDEX)));
}

static bool update_copy(Work *w, const HlInst *inst) {
  const uint32_t slot = hl_slot(w->flow, inst);
  bool changed = false;
  for (uint32_t k = 1; k < w->flow->slot_size[slot]; k++)
    changed |= pass_slot(w->flow, slot + k, operand_slot(w, inst) + k);
  return changed;
}

static bool update_call(Work *w, const HlInst *inst) {
  return pass_tree(w->flow, hl_slot(w->flow, inst), hl_slot(w->flow, hl_to_apply(inst)->root));
}

static bool update_while(Work *w, const HlInst *inst) {
  return phi(w, inst, 2,
             (uint32_t[]){hl_slot(w->flow, hl_while_body(inst)->root), operand_slot(w, inst)});
}

static bool update_copy_start(Work *w, const HlInst *inst) {
  return pass_tree(w->flow, hl_slot_child(w->flow, hl_slot(w->flow, inst), 1),
                   operand_slot(w, inst));
}

static bool update_copy_done(Work *w, const HlInst *inst) {
  return pass_tree(w->flow, hl_slot(w->flow, inst),
                   hl_slot_child(w->flow, operand_slot(w, inst), 0));
}

// Of a start's operands and results, the results.
static bool update_done(Work *w, const HlInst *inst) {
  return pass_leaves(w->flow, hl_slot(w->flow, inst),
                     hl_slot_child(w->flow, operand_slot(w, inst), 1));
}

// Where the chain has promised no result, the called computation has it.
static bool update_async_done(Work *w, const HlInst *inst) {
  const HlInst *wrapped = hl_async_wrapped(NULL, inst);
  const HlShape *link = inst->operands[0]->shape;
  if (!wrapped || hl_shape_compatible(link->element[1], inst->shape))
    return update_done(w, inst);
  return pass_leaves(w->flow, hl_slot(w->flow, inst), hl_slot(w->flow, wrapped));
}

static bool update_send(Work *w, const HlInst *inst) {
  return pass_leaves(w->flow, hl_slot_child(w->flow, hl_slot(w->flow, inst), 0),
                     operand_slot(w, inst));
}

static bool update_recv_done(Work *w, const HlInst *inst) {
  return pass_leaves(w->flow, hl_slot_child(w->flow, hl_slot(w->flow, inst), 0),
                     hl_slot_child(w->flow, operand_slot(w, inst), 0));
}

// --- All ops -------------------------------------------------------------------------------------

static const Passing passing[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = {define_parameter, update_parameter},
    [HL_OP_TUPLE] = {define_top, update_tuple},
    [HL_OP_GET_TUPLE_ELEMENT] = {define_nothing, update_element},
    [HL_OP_COPY] = {define_top, update_copy},
    [HL_OP_CALL] = {define_nothing, update_call},
    [HL_OP_WHILE] = {define_nothing, update_while},
    [HL_OP_CONDITIONAL] = {define_nothing, update_conditional},
    [HL_OP_ASYNC_START] = {define_behind_results, update_async_start},
    [HL_OP_ASYNC_UPDATE] = {define_behind_results, update_async_update},
    [HL_OP_ASYNC_DONE] = {define_tuples, update_async_done},
    [HL_OP_COPY_START] = {define_copy_start, update_copy_start},
    [HL_OP_COPY_DONE] = {define_nothing, update_copy_done},
    [HL_OP_ALL_REDUCE_DONE] = {define_nothing, update_same},
    [HL_OP_ALL_GATHER_START] = {define_behind_operands, update_start},
    [HL_OP_ALL_GATHER_DONE] = {define_tuple, update_done},
    [HL_OP_COLLECTIVE_PERMUTE_START] = {define_behind_operands, update_start},
    [HL_OP_COLLECTIVE_PERMUTE_DONE] = {define_tuple, update_done},
    [HL_OP_SEND] = {define_behind_operands, update_send},
    [HL_OP_RECV_DONE] = {define_behind_operands, update_recv_done},
};

// What moves nothing and computes nothing passes everything on.
static const Passing *passing_of(HlOp op) {
  static const Passing wire = {define_nothing, update_same};
  return passing[op].update ? &passing[op] : hl_op_is(op, HL_T_WIRE) ? &wire : NULL;
}

static void define_values(Work *w, const HlInst *inst) {
  const Passing *how = passing_of((HlOp)inst->op);
  (how ? how->define : define_all)(w, inst);
}

static bool update(Work *w, const HlInst *inst) {
  const Passing *how = passing_of((HlOp)inst->op);
  return how && how->update(w, inst);
}

// --- The fixed point -----------------------------------------------------------------------------

static void enqueue_params(Work *w, const HlComp *comp) {
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k])
      enqueue(w, comp->params[k]);
}

static void enqueue_dependants(Work *w, const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    HlInst *user = use->user;
    enqueue(w, user);
    if (user->op == HL_OP_CONDITIONAL) {
      if (use->number > 0 && use->number <= user->n_calls)
        enqueue_params(w, hl_called(user, use->number - 1));
    } else {
      for (int k = 0; k < flow_n_steps(user); k++) {
        const HlComp *callee = hl_called(user, k);
        if (use->number < callee->n_params && callee->params[use->number])
          enqueue(w, callee->params[use->number]);
      }
    }
  }
  if (inst != inst->comp->root)
    return;
  for (const HlCall *call = inst->comp->first_call; call; call = call->next) {
    if (w->context[inst->comp->id] != CALLED_AS_STEP)
      continue;
    enqueue(w, call->caller);
    if (call->caller->op == HL_OP_WHILE)
      for (int k = 0; k < 2; k++)
        enqueue_params(w, hl_called(call->caller, k));
  }
}

static void propagate(Work *w) {
  rank_instructions(w);
  for (uint32_t rank = 0; rank < w->n_ranks; rank++)
    w->waiting[rank / 64] |= (uint64_t)1 << (rank % 64);
  for (const HlInst *inst = dequeue(w); inst; inst = dequeue(w)) {
    base_look();
    if (update(w, inst))
      enqueue_dependants(w, inst);
  }
}

// --- The result ----------------------------------------------------------------------------------

// Drafts become values: needless phis go, the others keep their ids.
static void settle(Work *w) {
  HlFlow *flow = w->flow;
  draft_optimise(&w->drafts);
  uint32_t *index = HL_ARRAY(w->scratch, uint32_t, w->drafts.n + 1);
  flow->value = HL_ARRAY(flow->arena, HlValue, w->drafts.n + 1);
  for (uint32_t id = 0; id < (uint32_t)w->drafts.n; id++) {
    const Draft *draft = &w->drafts.at[id];
    if (draft->deleted || draft->by != id)
      continue;
    index[id] = flow->n_values;
    flow->value[flow->n_values++] =
        (HlValue){.id = id, .slot = draft->slot, .is_phi = draft->is_phi};
  }
  for (uint32_t slot = 0; slot < flow->n_slots; slot++)
    if (flow->value_at[slot] != HL_NO_VALUE)
      flow->value_at[slot] = index[draft_find(&w->drafts, flow->value_at[slot])];
}

static bool is_other_position(const HlFlow *flow, uint32_t slot) {
  uint32_t value = flow->value_at[slot];
  return value != HL_NO_VALUE && hl_value_inst(flow, value) != flow->slot_inst[slot];
}

static void list_positions(HlFlow *flow) {
  uint32_t n = flow->n_values;
  for (uint32_t v = 0; v < flow->n_values; v++)
    flow->value[v].n_positions = 1;
  for (uint32_t slot = 0; slot < flow->n_slots; slot++)
    if (is_other_position(flow, slot)) {
      flow->value[flow->value_at[slot]].n_positions++;
      n++;
    }
  flow->position = HL_ARRAY(flow->arena, uint32_t, n + 1);
  uint32_t next = 0;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    HlValue *value = &flow->value[v];
    value->first_position = next;
    next += value->n_positions;
    flow->position[value->first_position] = value->slot;
    value->n_positions = 1;
  }
  const HlInst *root = flow->m->entry->root;
  for (uint32_t slot = 0; slot < flow->n_slots; slot++) {
    if (flow->value_at[slot] == HL_NO_VALUE)
      continue;
    HlValue *value = &flow->value[flow->value_at[slot]];
    if (is_other_position(flow, slot))
      flow->position[value->first_position + value->n_positions++] = slot;
    if (flow->slot_inst[slot] == root)
      value->live_out = true;
  }
}

static bool find_contexts(HlCx *cx, Work *w) {
  w->context = HL_ARRAY(w->scratch, CallContext, w->flow->m->next_comp_id + 1);
  for (const HlComp *comp = w->flow->m->first; comp; comp = comp->next) {
    w->context[comp->id] = flow_context(comp);
    if (w->context[comp->id] == CALLED_BOTH)
      return hl_error_kind(cx, HL_UNSUPPORTED, hl_comp_pos(comp),
                           "computation '%s' is called both as a step of the program and by an "
                           "instruction that applies it in parallel",
                           comp->name->text);
  }
  return true;
}

static void run(Work *w, bool fusions) {
  HlFlow *flow = w->flow;
  flow_number_slots(flow, fusions);
  flow->value_at = HL_ARRAY(flow->arena, uint32_t, flow->n_slots + 1);
  memset(flow->value_at, 0xff, sizeof *flow->value_at * flow->n_slots);
  flow->post_order = HL_ARRAY(flow->arena, HlInst **, flow->m->next_comp_id + 1);
  for (HlComp *comp = flow->m->first; comp; comp = comp->next) {
    if (!flow->first_slot[comp->id])
      continue;
    HlInst **order = flow->post_order[comp->id] = hl_post_order(flow->arena, comp);
    for (uint32_t k = 0; k < comp->n_insts; k++)
      define_values(w, order[k]);
  }
  propagate(w);
  settle(w);
  list_positions(flow);
}

HlFlow *hl_flow_new(HlCx *cx, HlArena *arena, const HlModule *m, int what) {
  HlArena *scratch = hl_arena_new();
  HlFlow *flow = HL_NEW(arena, HlFlow);
  flow->m = m;
  flow->arena = arena;
  flow->blocks = what & HL_FLOW_BLOCKS;
  flow->whole_bytes = what & HL_FLOW_WHOLE_BYTES;
  Work w = {.flow = flow, .scratch = scratch, .drafts = {.arena = scratch}};
  bool fine = find_contexts(cx, &w);
  if (fine) {
    run(&w, !(what & HL_FLOW_NO_FUSIONS));
    if (what & HL_FLOW_MERGE)
      flow_merge(flow, scratch);
    else
      flow_split(flow);
  }
  hl_arena_free(scratch);
  return fine ? flow : NULL;
}

// --- Uses ----------------------------------------------------------------------------------------

// Whether the user looks at the value at this slot of its operand, rather than pass it on unseen.
static bool looks_at(const HlFlow *flow, const HlInst *user, uint32_t slot) {
  switch (user->op) {
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_COPY: return slot == hl_slot(flow, flow->slot_inst[slot]);
  case HL_OP_DOMAIN:
  case HL_OP_TUPLE: return false;
  default: return true;
  }
}

// Whether the value also stands in the result of the user, a computation's root.
static bool stands_in_root(const HlFlow *flow, const HlInst *user, const HlValue *value) {
  if (user != user->comp->root)
    return false;
  for (uint32_t k = 0; k < value->n_positions; k++)
    if (flow->slot_inst[flow->position[value->first_position + k]] == user)
      return true;
  return false;
}

bool flow_is_use(const HlFlow *flow, const HlUse *use, uint32_t slot, const HlValue *value) {
  return looks_at(flow, use->user, slot) || stands_in_root(flow, use->user, value);
}

HlValueUse *hl_value_uses(HlArena *arena, const HlFlow *flow, uint32_t value, int *n) {
  const HlValue *v = &flow->value[value];
  size_t most = 1;
  for (uint32_t k = 0; k < v->n_positions; k++)
    for (const HlUse *use = flow->slot_inst[flow->position[v->first_position + k]]->first_use; use;
         use = use->next)
      most++;
  HlValueUse *out = HL_ARRAY(arena, HlValueUse, most);
  *n = 0;
  for (uint32_t k = 0; k < v->n_positions; k++) {
    uint32_t slot = flow->position[v->first_position + k];
    for (const HlUse *use = flow->slot_inst[slot]->first_use; use; use = use->next)
      if (flow_is_use(flow, use, slot, v))
        out[(*n)++] = (HlValueUse){use->user, (uint32_t)use->number, slot};
  }
  return out;
}
