// opt/collective/collective_pipelining_analyzer.c
//
// collective-pipelining-analyzer: marks exchanges in the bodies of loops that the loop's iterations could share without
// carrying more from iteration to iteration, with the frontend attribute trivially_pipelineable.
//
//   r = all-reduce(x)                                    g = all-gather(s)
//   u = dynamic-update-slice(state, r, i)    or          s = dynamic-slice(parameter, i)
//   ROOT t = tuple(.., u)
//
// i counts the iterations. What is sent goes only into the iteration's own place of an array, which nobody looks at within
// the iteration; or it is the iteration's own part of an array that the loop was given. On the way only shapes and types change.
// Nothing of a gibibyte or more is marked: it would have to be kept for an iteration more.

#include "hilo/cost.h"
#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

static const int64_t max_bytes = (int64_t)1 << 30;

// --- What depends on the iteration alone ---------------------------------------------------------------

// Per computation, by id of its instructions.
typedef struct Known {
  const bool *constant;  // computed from constants alone
  const bool
      *by_iteration;  // from them and the number of the iteration; NULL: there is no such number
  bool has_by_iteration;
} Known;

typedef struct Analyzer {
  HlPass *p;
  Known *known;  // by id of the computation
} Analyzer;

// `iteration` may be NULL.
static const bool *depends_only_on(HlPass *p, const HlComp *comp, const HlInst *iteration) {
  bool *only = HL_ARRAY(p->arena, bool, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    bool all = inst->n_operands > 0;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      all &= only[inst->operands[k]->id];
    only[inst->id] = all || inst == iteration || inst->op == HL_OP_CONSTANT;
  }
  return only;
}

static const bool *constants_of(Analyzer *a, const HlComp *comp) {
  Known *known = &a->known[comp->id];
  if (!known->constant)
    known->constant = depends_only_on(a->p, comp, NULL);
  return known->constant;
}

// The one element of the body's parameter that reads the slot, or NULL.
static const HlInst *only_reader(const HlComp *body, int slot) {
  const HlInst *found = NULL;
  for (const HlUse *use = body->params[0]->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || loop_slot_of(use->user) != slot)
      continue;
    if (found)
      return NULL;
    found = use->user;
  }
  return found;
}

static const bool *find_by_iteration(Analyzer *a, const HlComp *comp) {
  const HlCall *call = comp->first_call;
  if (!call || call != comp->last_call || call->caller->op != HL_OP_WHILE ||
      hl_called(call->caller, 0) != comp || !loop_is_plain(call->caller))
    return NULL;
  const HlInst *loop = call->caller;
  const int slot = loop_induction_slot(a->p, loop);
  const HlInst *iteration = slot >= 0 ? only_reader(comp, slot) : NULL;
  const HlInst *init = iteration ? loop_init(loop, slot) : NULL;
  if (!init || !constants_of(a, loop->comp)[init->id])
    return NULL;
  const bool *only = depends_only_on(a->p, comp, iteration);
  return only[loop_next(loop, slot)->id] ? only : NULL;
}

static const bool *by_iteration_of(Analyzer *a, const HlComp *comp) {
  Known *known = &a->known[comp->id];
  if (!known->has_by_iteration)
    known->by_iteration = find_by_iteration(a, comp);
  known->has_by_iteration = true;
  return known->by_iteration;
}

static bool is_turns_own(Analyzer *a, const HlInst *slice, uint32_t first_index) {
  const bool *by_iteration = by_iteration_of(a, slice->comp);
  for (uint32_t k = first_index; k < slice->n_operands; k++)
    if (slice->operands[k]->op != HL_OP_CONSTANT &&
        !(by_iteration && by_iteration[slice->operands[k]->id]))
      return false;
  return true;
}

// --- Ways ---------------------------------------------------------------------------------------

static bool computes_nothing(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST || inst->op == HL_OP_TUPLE ||
         inst->op == HL_OP_GET_TUPLE_ELEMENT;
}

static bool only_formats(const HlInst *inst) {
  return computes_nothing(inst) || inst->op == HL_OP_RESHAPE || inst->op == HL_OP_CONVERT ||
         inst->op == HL_OP_TRANSPOSE;
}

// The only instruction that uses it, perhaps several times; NULL if there are none or several.
static const HlInst *only_user(const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user != inst->first_use->user)
      return NULL;
  return inst->first_use ? inst->first_use->user : NULL;
}

static bool is_written_by_iteration(Analyzer *a, const HlInst *hero) {
  const HlInst *inst = only_user(hero);
  while (inst && inst->op != HL_OP_DYNAMIC_UPDATE_SLICE && only_formats(inst))
    inst = only_user(inst);
  if (!inst || inst->op != HL_OP_DYNAMIC_UPDATE_SLICE || !is_turns_own(a, inst, 2))
    return false;
  const HlInst *last = only_user(inst);
  while (last && only_user(last)) {
    if (!computes_nothing(last))
      return false;
    last = only_user(last);
  }
  return last && last == last->comp->root;
}

// The slice that an array is a form of; NULL: something else.
static const HlInst *sliced_from(const HlInst *inst) {
  while (inst->op != HL_OP_DYNAMIC_SLICE && inst->op != HL_OP_SLICE) {
    if (!only_formats(inst) || inst->n_operands != 1)
      return NULL;
    inst = inst->operands[0];
  }
  return inst;
}

// The first operand that is a slice decides.
static bool is_read_by_iteration(Analyzer *a, const HlInst *gather) {
  const HlInst *slice = NULL;
  for (uint32_t k = 0; k < gather->n_operands && !slice; k++) {
    slice = sliced_from(gather->operands[k]);
    if (slice && slice->op == HL_OP_DYNAMIC_SLICE && !is_turns_own(a, slice, 1))
      slice = NULL;
  }
  if (!slice || slice->op != HL_OP_DYNAMIC_SLICE)
    return false;
  const HlInst *inst = slice->operands[0];
  for (; inst->n_operands == 1; inst = inst->operands[0])
    if (!computes_nothing(inst))
      return false;
  return inst->op == HL_OP_PARAMETER;
}

// --- The mark -----------------------------------------------------------------------------------

// A sum of which each device takes its own part is to be a reduce-scatter: the part is what goes on.
static const HlInst *own_part_of(HlPass *p, const HlInst *sum) {
  const HlInst *from = sum, *slice = only_user(sum);
  if (slice && slice->op == HL_OP_RESHAPE) {
    from = slice;
    slice = only_user(slice);
  }
  if (!slice || slice->op != HL_OP_DYNAMIC_SLICE || slice->operands[0] != from ||
      !coll_is_plain(sum))
    return sum;
  const int dim = coll_sliced_dim(slice);
  const CollGroups groups = coll_groups(p, sum);
  return dim >= 0 && groups.size > 1 && coll_takes_own_part(p, slice, dim, &groups) ? slice : sum;
}

static bool is_pipelineable(Analyzer *a, const HlInst *inst) {
  if (hl_leaf_bytes(inst->shape) >= max_bytes)
    return false;
  switch (inst->op) {
  case HL_OP_ALL_REDUCE:
    return inst->n_operands == 1 && is_written_by_iteration(a, own_part_of(a->p, inst));
  case HL_OP_REDUCE_SCATTER: return inst->n_operands == 1 && is_written_by_iteration(a, inst);
  case HL_OP_ALL_GATHER: return is_read_by_iteration(a, inst);
  default: return false;
  }
}

bool pass_collective_pipelining_analyzer(HlPass *p) {
  Analyzer a = {p, HL_ARRAY(p->arena, Known, p->m->next_comp_id + 1)};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++)
    for (HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if ((hl_op_info[inst->op].traits & HL_T_COLLECTIVE) && is_pipelineable(&a, inst) &&
          !frontend_has(inst, "trivially_pipelineable") && hl_change(p, "mark", inst, NULL)) {
        frontend_set(inst, inst, "trivially_pipelineable", "");
        hl_changed(p);
      }
  return true;
}
