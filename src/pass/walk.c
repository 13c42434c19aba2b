// pass/walk.c: the ways passes go over a module, and rules tried over all of it.

#include <string.h>

#include "base/compiler.h"
#include "pass/engine.h"

bool hl_alive(const HlInst *inst) {
  const HlComp *comp = inst->comp;
  return comp->by_id && comp->by_id[inst->id] == inst;
}

bool hl_comp_alive(const HlComp *comp) {
  return comp->by_id != NULL;
}

HlComp **hl_pass_comps(HlPass *p, HlComps which, int *n) {
  HlComp **all = HL_ARRAY(p->arena, HlComp *, p->m->n_comps + 1);
  base_look();
  *n = 0;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    if (which == HL_COMPS_ALL || !comp->is_fusion)
      all[(*n)++] = comp;
  return all;
}

HlInst **hl_pass_insts(HlPass *p, const HlComp *comp, int *n) {
  HlInst **all = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
  base_look();
  *n = 0;
  for (HlInst *inst = hl_listed_by_id(comp) ? NULL : comp->first; inst; inst = inst->next)
    all[(*n)++] = inst;
  for (uint32_t id = 0; *n < (int)comp->n_insts; id++)  // does not wait for one to know the next
    if (comp->by_id[id])
      all[(*n)++] = comp->by_id[id];
  return all;
}

static void visit_insts(HlPass *p, const HlComp *comp, HlOp op, HlVisit *visit) {
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  const HlMark mark = hl_arena_mark(p->arena);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]) && (op == HL_OP_COUNT || insts[k]->op == op)) {
      visit(p, insts[k]);
      hl_arena_release(p->arena, mark);
    }
}

void hl_pass_visit(HlPass *p, HlComps which, HlOp op, HlVisit *visit) {
  int n;
  HlComp **comps = hl_pass_comps(p, which, &n);
  for (int k = 0; k < n; k++) {
    const HlMark mark = hl_arena_mark(p->arena);
    if (hl_comp_alive(comps[k]) && (op == HL_OP_COUNT || hl_comp_may_have(comps[k], op)))
      visit_insts(p, comps[k], op, visit);
    hl_arena_release(p->arena, mark);
  }
}

// --- Rules --------------------------------------------------------------------------------------

// The rules by op: those of op k and those of every op, in the table's order. One that is about users stands with every op
// where they are visited, and with that of what they use where it is (`once`).
typedef struct RuleIndex {
  const HlRule **at[HL_OP_COUNT];
  int n[HL_OP_COUNT];
  uint64_t ops[HL_OP_WORDS];  // that have a rule
  bool once;
} RuleIndex;

static bool is_below(const HlRule *rule) {
  return rule->op > HL_OP_COUNT;
}

static int op_visited(const HlRule *rule, bool once) {
  return !is_below(rule) ? rule->op : once ? rule->op - HL_BELOW(0) : HL_OP_COUNT;
}

static RuleIndex *index_rules(HlPass *p, const HlRule *rules, bool once) {
  RuleIndex *index = HL_NEW(p->arena, RuleIndex);
  int count[HL_OP_COUNT + 1] = {0};
  for (const HlRule *rule = rules; rule->name; rule++)
    count[op_visited(rule, once)]++;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    if (count[op] + count[HL_OP_COUNT] == 0)
      continue;
    index->ops[op / 64] |= (uint64_t)1 << (op % 64);
    index->at[op] = HL_ARRAY(p->arena, const HlRule *, count[op] + count[HL_OP_COUNT]);
  }
  index->once = once;
  for (const HlRule *rule = rules; rule->name; rule++) {
    const int at = op_visited(rule, once);
    const bool of_all = at == HL_OP_COUNT;
    for (int op = of_all ? 0 : at, end = of_all ? HL_OP_COUNT : op + 1; op < end; op++)
      index->at[op][index->n[op]++] = rule;
  }
  return index;
}

// The different users, as they are now.
static HlInst **users_of(HlPass *p, const HlInst *inst, int *n) {
  HlInst **users = HL_ARRAY(p->arena, HlInst *, hl_n_users(inst) + 1);
  *n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (hl_is_first_use(use))
      users[(*n)++] = use->user;
  return users;
}

// Tries a rule on each user of what is visited.
static bool try_below(HlPass *p, const HlRule *rule, HlInst *inst) {
  bool changed = false;
  int n;
  HlInst **users = users_of(p, inst, &n);
  p->above = inst;
  for (int k = 0; k < n && hl_alive(inst); k++) {
    if (!hl_alive(users[k]))
      continue;
    HlBuild b;
    hl_begin(p, rule->name, users[k], &b);
    HlInst *by = rule->apply(p, &b, users[k]);
    if (!by && pass_built_nothing(p))
      pass_end_unbuilt(p);
    else
      changed |= hl_commit(p, by);
  }
  p->above = NULL;
  return changed;
}

// Nearly every rule says no at once: a rewrite is begun anew only after one that has built something.
static bool try_rules(HlPass *p, const RuleIndex *index, HlInst *inst) {
  // Rules of convolutions know two operands; sparse and scaled ones have more.
  if (inst->op == HL_OP_CONVOLUTION && inst->n_operands > 2)
    return false;
  Building *building = &p->engine->building;
  HlBuild fresh;
  for (int k = 0, n = index->n[inst->op]; k < n; k++) {
    const HlRule *rule = index->at[inst->op][k];
    if (is_below(rule) && index->once) {
      pass_end_unbuilt(p);
      if (try_below(p, rule, inst))
        return true;
      continue;
    }
    if (!building->old)
      hl_begin(p, rule->name, inst, &fresh);
    building->rule = rule->name;
    HlBuild b = fresh;
    HlInst *by = rule->apply(p, &b, inst);
    if (!by && pass_built_nothing(p))
      continue;
    if (hl_commit(p, by))
      return true;
  }
  pass_end_unbuilt(p);
  return false;
}

// How far rules look; 0: all of the computation is to be visited.
static int reach_of(const HlPass *p) {
  return p->engine->options.whole ? 0 : p->reach;
}

// The instructions that some rule is about.
static HlInst **insts_with_rules(HlPass *p, const RuleIndex *index, HlComp *comp, int *n) {
  const int reach = reach_of(p);
  return reach > 0 ? pass_changes(p, comp, reach, index->ops, n)
                   : pass_all_insts(p, comp, index->ops, n);
}

static bool walk_comp(HlPass *p, const RuleIndex *index, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  int n;
  HlInst **insts = insts_with_rules(p, index, comp, &n);
  bool changed = false;
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]))
      changed |= try_rules(p, index, insts[k]);
  hl_arena_release(p->arena, mark);
  return changed;
}

// One visit of a computation as XLA's visitors make it: each instruction after its operands, as they were when it was met,
// from those that nobody uses and then from the root. What a rule builds is visited only where an instruction met later uses
// it.
enum { NOT_MET, OPEN, DONE };  // an instruction: open while its operands are visited

typedef struct Visit {
  HlPass *p;
  const RuleIndex *index;
  uint8_t *state;  // by id, below n_states
  uint32_t n_states;
  VEC(HlInst *)
  todo;  // an open one lies under its operands; the others there may be done meanwhile
  const uint64_t *wanted;  // a bit for each id below n_old: it or what is near it has changed
  uint32_t n_old;
  int left;  // of those wanted, not tried yet
  bool changed;
} Visit;

static uint8_t *state_of(Visit *v, const HlInst *inst) {
  if (HL_UNLIKELY(inst->id >= v->n_states)) {
    uint8_t *states = HL_ARRAY(v->p->arena, uint8_t, 2 * (size_t)inst->id);
    memcpy(states, v->state, v->n_states);
    v->state = states;
    v->n_states = 2 * inst->id;
  }
  return &v->state[inst->id];
}

static void meet(Visit *v, HlInst *inst) {
  if (*state_of(v, inst) == NOT_MET)
    vec_push_in(v->p->arena, &v->todo, inst);
}

// The first operand lies on top.
static void open_inst(Visit *v, const HlInst *inst) {
  for (int k = inst->control ? inst->control->n_preds : 0; k > 0; k--)
    meet(v, inst->control->preds[k - 1]);
  for (uint32_t k = inst->n_operands; k > 0; k--)
    meet(v, inst->operands[k - 1]);
}

static bool has_succs(const HlInst *inst) {
  return inst->control && inst->control->n_succs > 0;
}

static bool is_wanted(const Visit *v, const HlInst *inst) {
  return inst->id >= v->n_old || (v->wanted[inst->id / 64] >> (inst->id % 64) & 1);
}

static void try_inst(Visit *v, HlInst *inst) {
  if (v->index->n[inst->op] == 0 || !is_wanted(v, inst))
    return;
  v->left -= inst->id < v->n_old;
  v->changed |= try_rules(v->p, v->index, inst);
}

// Nothing goes before something has changed. Where nothing has, and all that may is tried, the rest need not be met.
static void visit_from(Visit *v, HlInst *root) {
  meet(v, root);
  while (v->todo.n > 0 && (v->left > 0 || v->changed)) {
    HlInst *inst = vec_last(&v->todo);
    const bool is_there = !v->changed || hl_alive(inst);
    uint8_t *state = state_of(v, inst);
    if (is_there && *state == NOT_MET) {
      *state = OPEN;
      open_inst(v, inst);
      continue;
    }
    v->todo.n--;
    const bool was_open = *state == OPEN;
    *state = DONE;
    if (is_there && was_open)
      try_inst(v, inst);
  }
}

enum { AHEAD = 8 };  // instructions that memory is asked for before they are looked at

// What nobody uses and nothing waits for, but the root.
static HlInst **unused(HlPass *p, const HlComp *comp, int *n) {
  VEC(HlInst *) found = {0};
  for (uint32_t id = 0; id < comp->next_id; id++) {
    HlInst *inst = comp->by_id[id];
    if (id + AHEAD < comp->next_id)
      __builtin_prefetch(comp->by_id[id + AHEAD]);
    if (inst && !inst->first_use && inst != comp->root && !has_succs(inst))
      vec_push_in(p->arena, &found, inst);
  }
  *n = pass_sort_by_place(p, found.at, found.n);
  return found.at;
}

enum { SHORT = 256 };  // instructions that are met sooner than they are asked

// Whether a rule would change something as things are. Met at this cost, those that change nothing - most visits of a
// pipeline - need no order.
static bool any_would_change(const Visit *v, HlComp *comp) {
  HlEngine *e = v->p->engine;
  e->only_asks = true;
  e->would_change = false;
  const HlEditMark mark = hl_mark(comp->module);
  for (uint32_t word = 0; word <= v->n_old / 64 && !e->would_change; word++)
    for (uint64_t left = v->wanted[word]; left && !e->would_change; left &= left - 1)
      try_rules(v->p, v->index, comp->by_id[word * 64 + (uint32_t)__builtin_ctzll(left)]);
  hl_undo(comp->module, mark);
  e->only_asks = false;
  return e->would_change;
}

static bool may_change(const Visit *v, HlComp *comp) {
  return v->left > 0 &&
         (comp->n_insts < SHORT || v->left > (int)comp->n_insts / 2 || v->p->engine->options.dry ||
          hl_wants_refusals(v->p) || any_would_change(v, comp));
}

static bool visit_comp(HlPass *p, const RuleIndex *index, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Visit v = {.p = p, .index = index, .n_old = comp->next_id, .n_states = comp->next_id};
  v.wanted = pass_change_ids(p, comp, reach_of(p), index->ops, &v.left);
  if (may_change(&v, comp)) {
    v.state = HL_ARRAY(p->arena, uint8_t, v.n_states);
    int n;
    HlInst **from = unused(p, comp, &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(from[k]))
        visit_from(&v, from[k]);
    visit_from(&v, comp->root);
  }
  hl_arena_release(p->arena, mark);
  return v.changed;
}

// Most passes with rules look for ops that the module does not have: they should cost nothing.
static bool has_ops(HlEngine *e, const HlRule *rules) {
  if (!e->ops_known) {
    memset(e->ops, 0, sizeof e->ops);
    for (const HlComp *comp = e->m->first; comp; comp = comp->next)
      for (int k = 0; k < HL_OP_WORDS && !comp->is_fusion; k++)
        e->ops[k] |= comp->ops[k];
    e->ops_known = true;
  }
  for (const HlRule *rule = rules; rule->name; rule++) {
    const int op = op_visited(rule, true);
    if (op == HL_OP_COUNT || (e->ops[op / 64] >> (op % 64) & 1))
      return true;
  }
  return false;
}

// `rounds` walks of each computation, as long as they change something.
static bool walk_all(HlPass *p, const HlRule *rules, int rounds,
                     bool (*walk)(HlPass *p, const RuleIndex *index, HlComp *comp)) {
  if (!has_ops(p->engine, rules))
    return true;
  const RuleIndex *index = index_rules(p, rules, walk == visit_comp);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    for (int round = 0;
         round < rounds && hl_comp_alive(comps[k]) && hl_comp_may_have_any(comps[k], index->ops);
         round++)
      if (!walk(p, index, comps[k]))
        break;
    if (p->changed && hl_comp_alive(comps[k]))
      pass_tell_callers(p->engine, comps[k]);
  }
  return true;
}

bool hl_run_rules(HlPass *p, const HlRule *rules, int rounds) {
  return walk_all(p, rules, rounds, walk_comp);
}

bool hl_run_rules_once(HlPass *p, const HlRule *rules) {
  return walk_all(p, rules, 1, visit_comp);
}
