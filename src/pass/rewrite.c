// pass/rewrite.c: the door through which passes change a module: may this rewrite happen, what was
// built for it, what is erased with it, and the record of it.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/text.h"
#include "pass/engine.h"

// --- May it happen ------------------------------------------------------------------------------

static Fuel *fuel_of(HlEngine *e, const char *pass) {
  for (int k = 0; k < e->n_pass_fuel; k++)
    if (hl_str_is(e->pass_fuel[k].pass, pass))
      return &e->pass_fuel[k];
  return NULL;
}

static bool takes_fuel(HlEngine *e, const char *pass) {
  Fuel *own = fuel_of(e, pass);
  if (e->fuel == 0 || (own && own->left == 0))
    return false;
  if (e->fuel > 0)
    e->fuel--;
  if (own)
    own->left--;
  return true;
}

// --- The record ---------------------------------------------------------------------------------

static HlRewrite *newest(HlEngine *e) {
  return &vec_last(&e->rewrites);
}

static void add_line(HlEngine *e, const HlInst *inst, HlBuf *out) {
  const HlTextOptions options = {.preset = HL_TEXT_SHORT, .metadata = HL_OFF, .frames = HL_OFF};
  if (out->n > 0)
    hl_buf_putc(out, '\n');
  hl_text_print_inst(e->cx, inst, &options, out);
}

// The text in the engine's arena; frees the buffer.
static const char *keep_text(HlEngine *e, HlBuf *text) {
  const char *kept = hl_arena_strndup(e->arena, text->at ? text->at : "", text->n);
  hl_buf_free(text);
  return kept;
}

static int by_place(const void *a, const void *b) {
  const uint64_t x = hl_place(*(HlInst *const *)a), y = hl_place(*(HlInst *const *)b);
  return x < y ? -1 : x > y;
}

// What a change in place has built, a line each, and what became of the instruction that it was about.
static const char *text_of_change(HlEngine *e, HlInst *inst, uint32_t first_id) {
  const HlComp *comp = inst->comp;
  InstVec made = {0};
  HlBuf out = {0};
  for (uint32_t id = first_id; hl_comp_alive(comp) && id < comp->next_id; id++)
    if (comp->by_id[id])
      vec_push(&made, comp->by_id[id]);
  if (made.n > 1)
    qsort(made.at, (size_t)made.n, sizeof *made.at, by_place);
  for (int k = 0; k < made.n; k++)
    add_line(e, made.at[k], &out);
  vec_free(&made);
  if (hl_alive(inst))
    add_line(e, inst, &out);
  return keep_text(e, &out);
}

// Of a rewrite "this by that": what is new stands at the end.
static const char *text_of_built(HlEngine *e, const HlComp *comp, uint64_t first,
                                 const HlInst *by) {
  HlBuf out = {0};
  const HlInst *at = NULL;
  for (const HlInst *inst = comp->last; inst && inst->serial >= first; inst = inst->prev)
    at = inst;
  for (; at; at = at->next)
    add_line(e, at, &out);
  if (by->serial < first)
    hl_buf_puts(&out, by->name->text);
  return keep_text(e, &out);
}

// Of the parties of a rewrite as they are.
static const char *text_of(HlEngine *e, const HlInst *inst, const HlInst *with) {
  HlBuf out = {0};
  if (with)
    add_line(e, with, &out);
  add_line(e, inst, &out);
  return keep_text(e, &out);
}

static bool explains(const HlEngine *e) {
  return (e->options.dry && !e->capture) || e->options.explain == e->n_rewrites + 1;
}

bool pass_no_change_open(HlPass *p) {
  HlEngine *e = p->engine;
  if (!e->change.open)
    return true;
  if (e->options.dry)
    hl_undo(p->m, e->change.mark);
  e->change.open = false;
  e->failed = true;
  return hl_error_kind(e->cx, HL_FAILED, (HlPos){0},
                       "pass %s does not say that its change %s in place has ended", p->info->name,
                       newest(e)->rule);
}

// A name that lives as long as the record: what a dry run has got from the module is undone.
static const char *keep_name(HlEngine *e, const HlSym *name) {
  return e->options.dry ? hl_arena_strndup(e->arena, name->text, name->n) : name->text;
}

// Asks, and notes the rewrite if it may happen. `by` is what stands for `inst` then; NULL: a change in place.
static bool ask(HlPass *p, const char *rule, const HlInst *inst, const HlInst *with,
                uint64_t first_serial, const HlInst *by) {
  HlEngine *e = p->engine;
  base_look();
  if (e->only_asks) {
    e->would_change = true;
    return false;
  }
  const bool dry = e->options.dry;
  if (!pass_no_change_open(p) || !pass_is_decided(e, p->info->name, rule, inst, with) ||
      (!dry && !takes_fuel(e, p->info->name)))
    return false;
  HlRewrite rewrite = {.pass = p->info->name,
                       .rule = rule,
                       .comp = keep_name(e, inst->comp->name),
                       .inst = keep_name(e, inst->name),
                       .with = with ? keep_name(e, with->name) : "",
                       .step = e->steps.n,
                       .from = first_serial,
                       .to = p->m->next_serial};
  if (explains(e)) {
    rewrite.before = text_of(e, inst, with);
    rewrite.after = by ? text_of_built(e, inst->comp, first_serial, by) : "";
  }
  vec_push_as(e->arena, &e->rewrites, rewrite);
  e->n_rewrites++;
  if (dry)
    return true;
  if (e->options.rewrite)
    e->options.rewrite(e->options.user, p->info->name, rule, inst, with);
  pass_note_parties(e, inst, with);
  p->changed = true;
  e->ops_known = false;
  return true;
}

// --- Showing it ---------------------------------------------------------------------------------

void pass_set_capture(HlEngine *e, const PassCapture *capture) {
  e->capture = capture;
}

// The newest rewrite, which the module holds for the moment.
static void show(HlEngine *e, const HlInst *inst, const HlComp *comp) {
  const HlRewrite *rewrite = newest(e);
  if (e->capture)
    e->capture->show(e->capture->user, &(PassShown){.pass = rewrite->pass,
                                                    .rule = rewrite->rule,
                                                    .inst = inst,
                                                    .name = rewrite->inst,
                                                    .comp = comp,
                                                    .with = rewrite->with});
}

// --- This by that -------------------------------------------------------------------------------

void hl_begin(HlPass *p, const char *rule, HlInst *inst, HlBuild *b) {
  HlEngine *e = p->engine;
  assert(!e->building.old);
  base_look();
  pass_no_change_open(p);
  e->building.rule = rule;
  e->building.old = inst;
  e->building.first_serial = p->m->next_serial;
  e->building.first_comp = p->m->next_comp_id;
  e->building.first_touched = hl_touched(inst->comp).n;
  e->building.also.n = 0;
  e->building.own_layout = false;
  e->building.leaves_frontend = false;
  e->building.marked = p->m->is_scheduled || inst->comp->schedule;
  if (e->building.marked)
    e->building.mark = hl_mark(p->m);
  *b = (HlBuild){
      .cx = p->cx, .comp = inst->comp, .metadata = &hl_inherited, .old = inst, .loc = inst->loc};
}

void hl_also(HlPass *p, HlInst *old, HlInst *by) {
  assert(p->engine->building.old);
  vec_push_as(p->engine->arena, &p->engine->building.also, ((Pair){old, by}));
}

void hl_keep_layout(HlPass *p) {
  p->engine->building.own_layout = true;
}

void hl_leave_frontend(HlPass *p) {
  p->engine->building.leaves_frontend = true;
}

// New instructions stand at the ends of their computations, since nothing uses them yet.
static void erase_built(HlModule *m, HlComp *comp, uint64_t first_serial, uint32_t first_comp) {
  while (comp->last && comp->last->serial >= first_serial)
    hl_erase(comp->last);
  bool erased = m->next_comp_id > first_comp;
  while (erased) {
    erased = false;
    for (HlComp *made = m->last, *prev; made && made->id >= first_comp; made = prev) {
      prev = made->prev;
      if (made->first_call)
        continue;
      hl_comp_erase(made);
      erased = true;
    }
  }
}

// Without a schedule to lose, erasing what was built is quicker than a mark for every rewrite tried.
void hl_drop(HlPass *p) {
  Building *building = &p->engine->building;
  assert(building->old);
  if (building->marked) {
    hl_undo(p->m, building->mark);
  } else {
    erase_built(p->m, building->old->comp, building->first_serial, building->first_comp);
    hl_touched_cut(building->old->comp, building->first_touched);
  }
  building->old = NULL;
}

void pass_end_unbuilt(HlPass *p) {
  Building *building = &p->engine->building;
  if (building->old && building->marked)
    hl_forget(p->m, building->mark);
  building->old = NULL;
}

// Two shapes with the same run-time sizes: element types, dimensions and which of them are dynamic.
static bool stands_for(const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (!hl_shape_compatible(a, b))
    return false;
  if (a->dtype == HL_TUPLE) {
    for (int k = 0; k < a->rank; k++)
      if (!stands_for(a->element[k], b->element[k]))
        return false;
    return true;
  }
  for (int k = 0; hl_shape_is_array(a) && k < a->rank; k++)
    if ((a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k]))
      return false;
  return true;
}

// A replacement of another shape is a mistake of the rule, not of the input.
static bool shape_error(HlPass *p, const HlInst *old, const HlInst *by) {
  p->engine->failed = true;
  return hl_error_kind(
      p->cx, HL_FAILED, (HlPos){0}, "rule %s of %s replaces %s of shape %s by %s of shape %s",
      p->engine->building.rule, p->info->name, old->name->text, hl_shape_text(p->cx, old->shape),
      by->name->text, hl_shape_text(p->cx, by->shape));
}

// What an async-start runs is one instruction: nothing can be built beside it.
static bool is_started(const HlComp *comp) {
  return comp->first_call && comp->first_call->caller->op == HL_OP_ASYNC_START;
}

// A link of a chain of asynchronous operations on which another follows: an update, or the end.
static bool is_awaited(const HlInst *inst) {
  return inst->first_use && hl_awaits((HlOp)inst->first_use->user->op);
}

// Where a value crosses into or out of a manual part its sharding says which elements a device has.
static bool crosses_border(const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (hl_call_has(use->user, HL_CALL_BORDER))
      return true;
  return false;
}

// What a loop's body or a branch results in is cut as the loop or the other branches say.
static bool is_bound_result(const HlInst *inst) {
  const HlCall *call = inst == inst->comp->root ? inst->comp->first_call : NULL;
  return call && (call->caller->op == HL_OP_WHILE || call->caller->op == HL_OP_CONDITIONAL);
}

// Elsewhere any sharding of an array does. What has none takes on the old one's, unless that says more than how it is cut.
static bool keeps_sharding(const HlInst *old, const HlInst *by) {
  const HlSharding *had = hl_sharding(old), *has = hl_sharding(by);
  if (has && is_bound_result(old) && (!had || !hl_sharding_equal(had, has)))
    return false;
  if (!had || (has && hl_sharding_equal(had, has)))
    return true;
  return !crosses_border(old) && (has || (!crosses_border(by) && by->op != HL_OP_PARAMETER));
}

// Who reads what lies in memory would read other values in another layout. (A new instruction takes on the old one's.)
static bool keeps_order(const HlInst *old, const HlInst *by) {
  if (hl_shape_same_order(old->shape, by->shape))
    return true;
  for (const HlUse *use = old->first_use; use; use = use->next)
    if (hl_reads_memory(use->user))
      return false;
  return old != old->comp->root || !old->comp->first_call ||
         !hl_reads_memory(old->comp->first_call->caller);
}

static bool may_stand_for(HlPass *p, const HlInst *old, const HlInst *by) {
  bool is_new = by->serial >= p->engine->building.first_serial;
  if (old == by || is_started(old->comp) || (is_awaited(old) && by->op != old->op))
    return false;
  if (!stands_for(old->shape, by->shape)) {
    if (hl_shape_compatible(old->shape, by->shape))
      return false;
    return shape_error(p, old, by);
  }
  if (hl_has_control(old) && !p->relay_control)
    return false;
  // A start that something waits for could not go with its end.
  if (hl_awaits((HlOp)old->op) && hl_has_control(old->operands[0]) && !p->keep_operands)
    return false;
  return is_new || (keeps_sharding(old, by) && keeps_order(old, by));
}

static bool all_may(HlPass *p, HlInst *by) {
  const Building *building = &p->engine->building;
  const Pair *also = building->also.at;
  for (int k = 0; k < building->also.n; k++)
    if (!also[k].by || !may_stand_for(p, also[k].old, also[k].by))
      return false;
  return may_stand_for(p, building->old, by);
}

// What waits for `old` waits for `by`, and a new `by` for what `old` waited for. One that was there already may itself
// come before that: then it does not wait, and the two sides are joined when `old` is erased.
static void relay_control(HlInst *old, HlInst *by, bool is_new) {
  HlControl *control = old->control;
  for (int k = 0; k < control->n_succs; k++)
    if (control->succs[k] != by)
      hl_add_control(by, control->succs[k]);
  while (is_new && control->n_preds > 0) {
    HlInst *pred = control->preds[control->n_preds - 1];
    hl_remove_control(pred, old);
    if (pred != by)
      hl_add_control(pred, by);
  }
  while (is_new && control->n_succs > 0)
    hl_remove_control(old, control->succs[control->n_succs - 1]);
}

// Links of asynchronous work go together, from what awaits back to the start, or not at all.
static bool chain_may_go(const HlInst *inst) {
  for (; hl_awaits((HlOp)inst->op); inst = inst->operands[0]) {
    const HlInst *before = inst->operands[0];
    if (hl_has_control(before) || !hl_one_user(before) || !hl_is_pure(before))
      return false;
  }
  return true;
}

static bool may_erase(const HlInst *inst) {
  return !inst->first_use && chain_may_go(inst) && inst->comp->root != inst &&
         inst->op != HL_OP_PARAMETER && !hl_has_control(inst) && hl_is_pure(inst);
}

// Erases an instruction without uses, and then what only it needed.
static void erase_with_operands(HlPass *p, HlInst *inst) {
  const HlArena *owner = p->engine->arena;
  InstVec *dead = &p->engine->dead;
  dead->n = 0;
  vec_push_as(owner, dead, inst);
  while (dead->n > 0) {
    HlInst *next = vec_pop(dead);
    if (!hl_alive(next))
      continue;
    uint32_t n = next->n_operands;
    HlInst *const *operands = next->operands;
    hl_erase(next);
    for (uint32_t k = 0; !p->keep_operands && k < n; k++)
      if (hl_alive(operands[k]) && may_erase(operands[k]))
        vec_push_as(owner, dead, operands[k]);
  }
}

// What the replacement is made of goes on using the old instruction.
static void replace_uses(HlInst *old, HlInst *by, uint64_t first_serial) {
  bool is_used = false;
  for (const HlUse *use = old->first_use; use; use = use->next)
    is_used = is_used || (use->user != by && use->user->serial >= first_serial);
  if (!is_used) {
    hl_replace_uses(old, by);
    return;
  }
  for (HlUse *use = old->first_use, *next; use; use = next) {
    next = use->next;
    if (use->user->serial < first_serial)
      hl_set_operand(use->user, use->number, by);
  }
  if (old->comp->root == old)
    hl_set_root(old->comp, by);
}

static void put_in_place(HlPass *p, HlInst *old, HlInst *by) {
  bool is_new = by->serial >= p->engine->building.first_serial;
  if (is_new) {
    const bool had_frontend = hl_has_attr(by, HL_A_FRONTEND_ATTRIBUTES);
    hl_inherit(by, old);
    if (p->engine->building.leaves_frontend && !had_frontend)
      hl_remove_attr(by, HL_A_FRONTEND_ATTRIBUTES);
    if (by->shape != old->shape && !(p->engine->building.own_layout && old != old->comp->root))
      hl_set_shape(by, old->shape);
  } else if (hl_sharding(old) && !hl_sharding(by)) {
    hl_set_attr(by, hl_attr(old, HL_A_SHARDING));
  }
  if (hl_has_control(old))
    relay_control(old, by, is_new);
  replace_uses(old, by, p->engine->building.first_serial);
}

// For tests of what finds miscompiles: makes one replacement wrong, as a mistake in a rule would.
static HlInst *broken(HlPass *p, HlInst *by) {
  HlEngine *e = p->engine;
  const char *rule = e->options.break_rule;
  if (!rule || e->broken || strcmp(rule, e->building.rule) != 0 || !hl_shape_is_array(by->shape))
    return by;
  HlBuild b = {.cx = p->cx, .comp = by->comp};
  HlInst *wrong = hl_b_unary(&b, by->shape->dtype == HL_PRED ? HL_OP_NOT : HL_OP_NEGATE, by);
  e->broken = wrong != NULL;
  return wrong ? wrong : by;
}

// Erases what was replaced. A replacement of the same op is the old instruction in another form: it goes on
// under its name, by which people and decisions know it.
static void retire(HlPass *p, HlInst *old, HlInst *by) {
  if (old->first_use || old->op == HL_OP_PARAMETER)
    return;
  erase_with_operands(p, old);
  if (by->serial >= p->engine->building.first_serial && by->op == old->op)
    hl_set_name(by, old->name);
}

// The replacement takes the place of what it replaces.
static void replace(HlPass *p, HlInst *old, HlInst *by) {
  const int n = p->engine->building.also.n;
  const Pair *also = p->engine->building.also.at;
  by = broken(p, by);
  put_in_place(p, old, by);
  for (int k = 0; k < n; k++)
    put_in_place(p, also[k].old, also[k].by);
  p->engine->building.old = NULL;
  retire(p, old, by);
  for (int k = 0; k < n; k++)
    if (hl_alive(also[k].old))
      retire(p, also[k].old, also[k].by);
}

// Does it for a moment, so that it can be seen.
static void show_replacement(HlPass *p, HlInst *old, HlInst *by) {
  HlComp *comp = old->comp;
  if (!p->engine->capture)
    return;
  const HlEditMark mark = hl_mark(p->m);
  replace(p, old, by);
  show(p->engine, old, comp);
  hl_undo(p->m, mark);
  p->engine->building.old = old;
}

bool hl_commit(HlPass *p, HlInst *by) {
  Building *building = &p->engine->building;
  HlInst *old = building->old;
  assert(old);
  if (!by || !all_may(p, by) || !ask(p, building->rule, old, NULL, building->first_serial, by)) {
    hl_drop(p);
    return false;
  }
  if (p->engine->options.dry) {
    show_replacement(p, old, by);
    hl_drop(p);
    return false;
  }
  if (building->marked)
    hl_forget(p->m, building->mark);
  replace(p, old, by);
  return true;
}

bool hl_replace(HlPass *p, const char *rule, HlInst *inst, HlInst *by) {
  HlBuild b;
  hl_begin(p, rule, inst, &b);
  return hl_commit(p, by);
}

// --- In place -----------------------------------------------------------------------------------

bool hl_change(HlPass *p, const char *rule, HlInst *inst, const HlInst *with) {
  HlEngine *e = p->engine;
  assert(!e->building.old);
  if (!ask(p, rule, inst, with, p->m->next_serial, NULL))
    return false;
  e->change =
      (Change){.open = true, .inst = inst, .comp = inst->comp, .first_id = inst->comp->next_id};
  if (e->options.dry)
    e->change.mark = hl_mark(p->m);
  return true;
}

bool hl_changed(HlPass *p) {
  HlEngine *e = p->engine;
  HlRewrite *rewrite = newest(e);
  assert(e->change.open && !e->building.old);
  e->change.open = false;
  rewrite->to = p->m->next_serial;
  if (rewrite->before)  // it is to be explained
    rewrite->after = text_of_change(e, e->change.inst, e->change.first_id);
  if (e->options.dry) {
    show(e, e->change.inst, e->change.comp);
    hl_undo(p->m, e->change.mark);
  }
  return !e->options.dry;
}

bool hl_wants_refusals(const HlPass *p) {
  return p->engine->options.refused;
}

void hl_refuse(HlPass *p, const HlInst *inst, const HlInst *with, const char *why) {
  const HlEngineOptions *options = &p->engine->options;
  if (options->refused)
    options->refused(options->user, p->info->name, why, inst, with);
}

bool hl_wants_fusion_steps(const HlPass *p) {
  return p->engine->options.fusion_step;
}

void hl_tell_fusion_step(HlPass *p, const HlFusionStep *step) {
  const HlEngineOptions *options = &p->engine->options;
  if (options->fusion_step)
    options->fusion_step(options->user, step);
}

bool hl_remove(HlPass *p, const char *rule, HlInst *inst) {
  assert(!inst->first_use);
  if (!hl_change(p, rule, inst, NULL))
    return false;
  hl_erase(inst);
  return hl_changed(p);
}

bool hl_pass_stage(HlPass *p, const char *stage) {
  const HlEngineOptions *options = &p->engine->options;
  return !options->stage || options->stage(options->user, p->m, p->info->name, stage);
}
