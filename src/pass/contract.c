// pass/contract.c: what holds of a module, and whether a pipeline's passes get what they need.
//
// A pass says in its row which properties it needs, gives, breaks and keeps (hilo/properties.def). Before a pipeline
// runs, its passes are gone through in order with what holds of the module: a need that nothing before can have
// given, or that something before has broken, is an error, which names the pass and its place. What came to
// be missing on the way (a property that fades, a rewrite that was refused) is seen when the pass is to run. Wishes of
// order are rows of a table, too; a pipeline that goes against them is warned of.

#include <string.h>

#include "pass/engine.h"

// --- What holds ---------------------------------------------------------------------------------

static bool check_SCHEDULED(const HlModule *m) {
  return m->is_scheduled;
}

static bool check_WHOLE(const HlModule *m) {
  return !hl_is_partitioned(m);
}

static bool may_go(const HlInst *inst) {
  return !inst->first_use && inst != inst->comp->root && inst->op != HL_OP_PARAMETER &&
         !hl_has_control(inst) && !hl_sharding(inst) && hl_is_pure(inst);
}

static bool check_LIVE(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    if (comp != m->entry && !comp->first_call)
      return false;
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (may_go(inst))
        return false;
  }
  return true;
}

static bool all_have_layouts(const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return !hl_shape_is_array(shape) || shape->layout;
  for (int k = 0; k < shape->rank; k++)
    if (!all_have_layouts(shape->element[k]))
      return false;
  return true;
}

// What runs inside fusions and reducers lies in registers.
static bool check_LAYOUTS(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      if (!all_have_layouts(inst->shape))
        return false;
  return true;
}

static bool lies_as_fused(const HlInst *fusion) {
  const HlComp *body = hl_to_apply(fusion);
  bool same = hl_shape_same_order(fusion->shape, body->root->shape);
  for (uint32_t k = 0; same && k < fusion->n_operands; k++)
    same = hl_shape_same_order(fusion->operands[k]->shape, body->params[k]->shape);
  return same;
}

// By the calls of the bodies: that many instructions are looked at, not all there are.
static bool check_FUSED_LAYOUTS(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlCall *call = comp->first_call; call; call = call->next)
      if (call->caller->op == HL_OP_FUSION && !lies_as_fused(call->caller))
        return false;
  return true;
}

static bool check_FLAT(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    int n = 0;
    for (const HlCall *call = comp->first_call; call; call = call->next)
      n += call->caller->op == HL_OP_WHILE || call->caller->op == HL_OP_CONDITIONAL ||
           call->caller->op == HL_OP_CALL;
    if (n > 1)
      return false;
  }
  return true;
}

static bool has_op(const HlModule *m, HlOp op) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = hl_comp_may_have(comp, op) ? comp->first : NULL; inst;
         inst = inst->next)
      if (inst->op == op)
        return true;
  return false;
}

static bool check_NO_FUSIONS(const HlModule *m) {
  return !has_op(m, HL_OP_FUSION);
}

static bool check_NO_DOMAINS(const HlModule *m) {
  return !has_op(m, HL_OP_DOMAIN);
}

static bool check_NO_CONTROL(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_has_control(inst))
        return false;
  return true;
}

static bool are_first(HlI64s dims) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

static bool is_canonical_side(const HlInst *dot, int side, HlI64s batch, HlI64s contracting) {
  return are_first(batch) && contracting.n == 1 &&
         dot->operands[side]->shape->rank <= batch.n + contracting.n + 1;
}

static bool check_CANONICAL_DOTS(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_DOT && !hl_shape_is_dynamic(inst->operands[0]->shape) &&
          !hl_shape_is_dynamic(inst->operands[1]->shape) &&
          !(is_canonical_side(inst, 0, hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS),
                              hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)) &&
            is_canonical_side(inst, 1, hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS),
                              hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS))))
        return false;
  return true;
}

const HlPropertyInfo hl_property_info[HL_PROPERTY_COUNT] = {
#define PROPERTY(id, name, fades, meaning) {name, meaning, fades, check_##id},
#include "hilo/properties.def"
};

uint32_t hl_properties_of(const HlModule *m, uint32_t among) {
  uint32_t found = 0;
  for (int k = 0; k < HL_PROPERTY_COUNT; k++)
    if ((among >> k & 1) && hl_property_info[k].holds(m))
      found |= (uint32_t)1 << k;
  return found;
}

// --- Needs --------------------------------------------------------------------------------------

// The passes of a pipeline that would run, in order, those of a list to a fixed point once.
typedef struct Flat {
  HlEngine *engine;
  const HlPipelineItem **at;
  int n;
} Flat;

static void flatten(Flat *flat, const HlPipelineItem *item) {
  if (!pass_meets_condition(flat->engine, item))
    return;
  if (item->pass)
    flat->at[flat->n++] = item;
  for (int k = 0; k < item->n; k++)
    flatten(flat, &item->items[k]);
}

static int first_of(uint32_t properties) {
  int k = 0;
  while (!(properties >> k & 1))
    k++;
  return k;
}

static const char *place_of(const HlEngine *e, const HlPipelineItem *item) {
  return hl_arena_printf(e->arena, "%s, at character %d of the pipeline's text,", item->name,
                         item->offset + 1);
}

static void hint_givers(const HlEngine *e, int property) {
  HlBuf names = {0};
  for (int k = 0; k < e->options.passes->n; k++)
    if (e->options.passes->at[k].gives >> property & 1) {
      hl_buf_puts(&names, names.n > 0 ? ", " : "");
      hl_buf_puts(&names, e->options.passes->at[k].name);
    }
  if (names.n > 0)
    hl_hint(e->cx, "given by: %.*s", (int)names.n, names.at);
  hl_buf_free(&names);
}

static bool missing(const HlEngine *e, const HlPipelineItem *item, uint32_t needs,
                    const HlPipelineItem *breaker) {
  const int property = first_of(needs);
  const HlPropertyInfo *info = &hl_property_info[property];
  if (breaker)
    hl_error(e->cx, (HlPos){0}, "%s needs '%s' (%s), which %s breaks", place_of(e, item),
             info->name, info->meaning, place_of(e, breaker));
  else
    hl_error(e->cx, (HlPos){0}, "%s needs '%s' (%s)", place_of(e, item), info->name, info->meaning);
  hint_givers(e, property);
  return false;
}

// What a module may lack from the start: passes that need it leave such a module alone. A program that was cut for its
// devices is input like any other; a pipeline that cuts twice is a mistake.
static const uint32_t PASSED_OVER = (uint32_t)1 << HL_HAS_WHOLE;

// The same, and the engine does not call them: before layouts are assigned fusions need not say how arrays lie, and a bitcast
// would mean that they do.
static const uint32_t NOT_CALLED = (uint32_t)1 << HL_HAS_FUSED_LAYOUTS;

// Properties that fade may be there still; whether they are is seen when the pass is to run.
static bool check_needs(const Flat *flat) {
  const HlPipelineItem *breaker[HL_PROPERTY_COUNT] = {0};
  uint32_t needs = 0;
  for (int k = 0; k < flat->n; k++)
    needs |= flat->at[k]->pass->needs;
  uint32_t may_hold = hl_properties_of(flat->engine->m, needs) | PASSED_OVER | NOT_CALLED;
  for (int k = 0; k < flat->n; k++) {
    const HlPassInfo *pass = flat->at[k]->pass;
    const uint32_t lacks = pass->needs & ~may_hold;
    if (lacks)
      return missing(flat->engine, flat->at[k], lacks, breaker[first_of(lacks)]);
    may_hold = (may_hold & ~pass->breaks) | pass->gives;
    for (int j = 0; j < HL_PROPERTY_COUNT; j++)
      if (pass->breaks >> j & 1)
        breaker[j] = flat->at[k];
  }
  return true;
}

// --- Order --------------------------------------------------------------------------------------

static bool is_named(const HlPipelineItem *item, const char *name) {
  return strcmp(item->pass->name, name) == 0;
}

static void check_order(const Flat *flat, const HlPassOrder *wish) {
  int then = 0, first = flat->n - 1;
  while (then < flat->n && !is_named(flat->at[then], wish->after))
    then++;
  while (first > then && !is_named(flat->at[first], wish->before))
    first--;
  if (first <= then)
    return;
  const HlEngine *e = flat->engine;
  hl_warn(e->cx, (HlPos){0}, "%s comes after %s and should come before it: %s",
          place_of(e, flat->at[first]), place_of(e, flat->at[then]), wish->why);
}

bool pass_check_pipeline(HlEngine *e, const HlPipelineItem *all) {
  Flat flat = {e, HL_ARRAY(e->arena, const HlPipelineItem *, all->n_passes + 1), 0};
  flatten(&flat, all);
  if (!check_needs(&flat))
    return false;
  for (int k = 0; k < e->options.passes->n_orders; k++)
    check_order(&flat, &e->options.passes->order[k]);
  return true;
}

// Where not every rewrite is allowed, passes do not give all they say.
static bool is_restricted(const HlEngine *e) {
  const HlEngineOptions *o = &e->options;
  return o->dry || e->fuel >= 0 || e->n_pass_fuel > 0 || o->decisions || o->disable ||
         o->enable_only || o->start_at;
}

bool pass_has_needs(HlEngine *e, const HlPipelineItem *item, bool *has) {
  const uint32_t needs = item->pass->needs & ~PASSED_OVER,
                 lacks = needs & ~hl_properties_of(e->m, needs);
  *has = lacks == 0;
  if (*has || is_restricted(e))
    return true;
  if (lacks & ~NOT_CALLED)
    return missing(e, item, lacks & ~NOT_CALLED, NULL);
  hl_tell(e->cx, (HlPos){0}, "%s leaves the module alone, for it needs '%s' (%s)", item->name,
          hl_property_info[first_of(lacks)].name, hl_property_info[first_of(lacks)].meaning);
  return true;
}
