// cost/peak.c: peak memory by liveness.
//
// A value lives from its instruction to the last use of it or of anything that merely renames it
// (tuples, bitcasts, loops, which work in place). Two walks over the order of execution: backwards
// for the last uses, forwards for the sum. A called computation's own peak comes on top while its
// caller runs; its parameters are the caller's values and count nothing there.

#include "cost/cost.h"

typedef struct Life {
  HlInst *const *order;
  int n;
  int *place;  // by instruction id
  int *last;   // place of the last use, by instruction id
} Life;

// Whether the result is (a part of) its operands' memory.
static bool renames(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_WIRE) || hl_awaits((HlOp)inst->op) ||
         inst->op == HL_OP_WHILE || inst->op == HL_OP_TUPLE_SELECT;
}

static int later(int a, int b) {
  return a > b ? a : b;
}

// The use ends where the user stands, or, when the user renames it, where the user's own life ends.
static int use_end(const Life *life, const HlInst *user) {
  return later(life->place[user->id], renames(user) ? life->last[user->id] : 0);
}

// A tuple's operands live as long as those who take just them out of it: get-tuple-elements of other
// elements do not matter. `end` has one entry per operand.
static void element_ends(const Life *life, const HlInst *tuple, bool is_root, int *end) {
  int all = is_root ? life->n : life->place[tuple->id];
  for (const HlUse *use = tuple->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    int64_t k = user->op == HL_OP_GET_TUPLE_ELEMENT ? hl_attr_int(user, HL_A_INDEX) : -1;
    if (k >= 0 && k < tuple->n_operands)
      end[k] = later(end[k], use_end(life, user));
    else
      all = later(all, use_end(life, user));
  }
  for (int k = 0; k < (int)tuple->n_operands; k++)
    end[k] = later(end[k], all);
}

static void find_lives(HlArena *arena, const HlComp *comp, Life *life) {
  for (int p = life->n - 1; p >= 0; p--) {  // users stand later: their lives are known
    HlInst *inst = life->order[p];
    int last = later(life->last[inst->id], inst == comp->root ? life->n : p);
    life->last[inst->id] = last;
    if (inst->op != HL_OP_TUPLE) {
      for (int k = 0; k < (int)inst->n_operands; k++)
        life->last[inst->operands[k]->id] =
            later(life->last[inst->operands[k]->id], later(p, renames(inst) ? last : 0));
      continue;
    }
    HlMark mark = hl_arena_mark(arena);
    int *end = HL_ARRAY(arena, int, inst->n_operands + 1);
    element_ends(life, inst, inst == comp->root, end);
    for (int k = 0; k < (int)inst->n_operands; k++)
      life->last[inst->operands[k]->id] = later(life->last[inst->operands[k]->id], end[k]);
    hl_arena_release(arena, mark);
  }
}

// Memory of its own; `outer` is the entry, whose parameters are nobody else's.
static double own_bytes(const HlInst *inst, bool outer) {
  if (renames(inst) || (inst->op == HL_OP_PARAMETER && !outer))
    return 0;
  return cost_bytes(inst->shape);
}

static bool runs_inside(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START;
}

// What the called computations need beyond the result, which is theirs too.
static double inside_bytes(const HlInst *inst, const double *peaks, double own) {
  double most = 0;
  for (int k = 0; runs_inside(inst) && k < inst->n_calls; k++) {
    double one = peaks[inst->calls[k].comp->id];
    most = one > most ? one : most;
  }
  return most > own ? most - own : 0;
}

static double comp_peak(const HlComp *comp, const double *peaks) {
  HlArena *arena = hl_arena_new();
  Life life = {.n = (int)comp->n_insts,
               .place = HL_ARRAY(arena, int, comp->next_id + 1),
               .last = HL_ARRAY(arena, int, comp->next_id + 1)};
  life.order = comp->schedule ? comp->schedule : hl_print_order(arena, comp);
  for (int p = 0; p < life.n; p++)
    life.place[life.order[p]->id] = p;
  find_lives(arena, comp, &life);
  bool outer = comp == comp->module->entry;
  double *freed = HL_ARRAY(arena, double, life.n + 2);  // after each place
  double alive = 0, peak = 0;
  for (int p = 0; p < life.n; p++) {
    const HlInst *inst = life.order[p];
    double own = own_bytes(inst, outer), inside = inside_bytes(inst, peaks, own);
    alive += own;
    freed[life.last[inst->id]] += own;
    peak = alive + inside > peak ? alive + inside : peak;
    alive -= freed[p];
  }
  hl_arena_free(arena);
  return peak;
}

int64_t hl_peak_memory(HlCx *cx, const HlModule *m) {
  if (!m->entry)
    return 0;
  HlArena *arena = hl_arena_new();
  double *peaks = HL_ARRAY(arena, double, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    if (!comp->is_fusion)
      peaks[comp->id] = comp_peak(comp, peaks);
    if (comp == m->entry)
      break;
  }
  double peak = peaks[m->entry->id];
  hl_arena_free(arena);
  return peak >= 9.2e18 ? INT64_MAX : (int64_t)peak;
}
