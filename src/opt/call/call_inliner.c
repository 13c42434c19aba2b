// opt/call/call_inliner.c: puts what is called in place of the call.
//
// call-inliner:
//
//   f { p = f32[] parameter(0) ROOT n = f32[] negate(p) }
//   ROOT c = f32[] call(x), to_apply=f              =>   ROOT n.1 = f32[] negate(x)
//
// Callees come before callers, so that what is copied into a caller has no more calls of its own to
// be inlined. Where calls are nested so deeply that copies of copies would be most of the work,
// callers come first, and calls that come in with a body are inlined in their turn; the program is
// the same, but for numbers in names. With single_call_site only computations that are called once
// are inlined: the program does not grow. keep_shmap_bodies leaves what Shardy partitions by hand:
// computations whose names contain "shmap_body" or "xla.sdy.manual_computation_body".
//
// nullary-function-wrap-inliner: calls that take a token and nothing else, by which a frontend keeps what has no operands in
// the program's order. What comes in their place waits for what gives the token, by control edges.

#include <string.h>

#include "ir/vecs.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/frontend.h"
#include "opt/ask/inline.h"
#include "opt/passes.h"
#include "opt/simplify/dce.h"

typedef struct Inliner {
  HlPass *p;
  const char *preserve;  // names of composites, with ':' between
  bool *called_once;  // by id of computation, before anything is copied; NULL: it does not matter
  bool callers_first, keep_shmap_bodies;
} Inliner;

static bool is_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; *at;) {
    const size_t n = strcspn(at, ":");
    if (n == length && memcmp(at, name, n) == 0)
      return true;
    at += n + (at[n] == ':');
  }
  return false;
}

static bool is_preserved(const Inliner *in, const HlInst *call) {
  const char *name = frontend_get(call, "composite.name");
  return hl_attr_int(call, HL_A_IS_COMPOSITE) && *name && is_listed(in->preserve, name);
}

static bool is_shmap_body(const HlComp *comp) {
  return strstr(comp->name->text, "shmap_body") ||
         strstr(comp->name->text, "xla.sdy.manual_computation_body");
}

static bool is_candidate(const Inliner *in, const HlInst *call) {
  if (call->op != HL_OP_CALL || hl_has_attr(call, HL_A_BACKEND_CONFIG) || is_preserved(in, call))
    return false;
  const HlComp *callee = hl_to_apply(call);
  const char *wish = frontend_get(call, "inlineable");
  if ((*wish && strcmp(wish, "true") != 0) ||
      callee->execution_thread != call->comp->execution_thread ||
      (in->keep_shmap_bodies && is_shmap_body(callee)))
    return false;
  return !in->called_once || in->called_once[callee->id];
}

static bool *find_called_once(HlPass *p) {
  bool *once = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    once[comp->id] = comp->first_call == comp->last_call;
  return once;
}

// Whether somebody still needs the computation when all calls that may be are inlined.
static bool stays(const Inliner *in, const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!is_candidate(in, call->caller))
      return true;
  return !comp->first_call;
}

// Whether the module with calls inlined is small enough. Callees come before callers: the size of a
// computation is its own and that of all it calls. Decides the order, too: with callees first every
// computation is built in its full size, with callers first only those that stay.
static bool measure(Inliner *in) {
  enum { SMALL = 1 << 20 };
  HlPass *p = in->p;
  const int64_t limit = hl_cx_limits(p->cx)->instructions;
  int64_t *size = HL_ARRAY(p->arena, int64_t, p->m->next_comp_id + 1), all = 0, final = 0;
  for (const HlComp *comp = p->m->first; comp && final <= limit; comp = comp->next) {
    int64_t *own = &size[comp->id];
    *own = comp->n_insts;
    for (const HlInst *inst = comp->first; inst && *own <= limit; inst = inst->next)
      *own += is_candidate(in, inst) ? size[hl_to_apply(inst)->id] : 0;
    all = all <= limit ? all + *own : all;
    final += stays(in, comp) ? *own : 0;
  }
  in->callers_first = all > SMALL && all / 4 > final;
  return final <= limit ||
         hl_error_kind(
             p->cx, HL_LIMIT, hl_module_pos(p->m),
             "the module with calls inlined has more than %lld instructions (limit instructions)",
             (long long)limit);
}

// What tells a composite means nothing on what it consisted of.
static void drop_composite_attributes(HlInst *inst) {
  HlModule *m = inst->comp->module;
  const HlDict *old = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  if (!old)
    return;
  HlDict *dict = HL_NEW(m->arena, HlDict);
  const HlSym **keys = HL_ARRAY(m->arena, const HlSym *, old->n);
  const HlSym **values = HL_ARRAY(m->arena, const HlSym *, old->n);
  for (int k = 0; k < old->n; k++) {
    if (strncmp(old->key[k]->text, "composite.", 10) == 0)
      continue;
    keys[dict->n] = old->key[k];
    values[dict->n++] = old->value[k];
  }
  if (dict->n == old->n)
    return;
  dict->key = keys;
  dict->value = values;
  HlAttr attr = {.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict};
  hl_set_attr(inst, &attr);
}

// A wish that a call's body be one kernel is its instructions' wish now.
static const char *const fusion_wishes[] = {"MUST_FUSE", "MAXIMAL_FUSE", "mosaic_fusion_group"};

static bool is_fusion_wish(const HlSym *key) {
  for (size_t k = 0; k < HL_COUNT_OF(fusion_wishes); k++)
    if (strcmp(key->text, fusion_wishes[k]) == 0)
      return true;
  return false;
}

static bool takes_fusion_wish(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return !hl_op_is(op, HL_T_GIVEN | HL_T_CONTROL) && op != HL_OP_CUSTOM_CALL && op != HL_OP_TUPLE &&
         op != HL_OP_GET_TUPLE_ELEMENT && hl_shape_is_array(inst->shape) && hl_is_pure(inst);
}

// The two dictionaries as one; where both have a key, it is the first one's. Both are sorted.
static const HlDict *joined(HlModule *m, const HlDict *a, const HlDict *b) {
  HlDict *out = HL_NEW(m->arena, HlDict);
  const HlSym **keys = HL_ARRAY(m->arena, const HlSym *, a->n + b->n);
  const HlSym **values = HL_ARRAY(m->arena, const HlSym *, a->n + b->n);
  for (int i = 0, j = 0; i < a->n || j < b->n;) {
    const int order = i == a->n ? 1 : j == b->n ? -1 : strcmp(a->key[i]->text, b->key[j]->text);
    keys[out->n] = order <= 0 ? a->key[i] : b->key[j];
    values[out->n++] = order <= 0 ? a->value[i] : b->value[j];
    i += order <= 0;
    j += order >= 0;
  }
  out->key = keys;
  out->value = values;
  return out;
}

// NULL: the call has none.
static const HlDict *wishes_of(HlPass *p, const HlInst *call) {
  const HlDict *all = hl_attr_ptr(call, HL_A_FRONTEND_ATTRIBUTES);
  HlDict *out = HL_NEW(p->m->arena, HlDict);
  for (int k = 0; all && k < all->n; k++) {
    if (!is_fusion_wish(all->key[k]))
      continue;
    const HlSym **keys = HL_ARRAY(p->m->arena, const HlSym *, out->n + 1);
    const HlSym **values = HL_ARRAY(p->m->arena, const HlSym *, out->n + 1);
    for (int j = 0; j < out->n; j++) {
      keys[j] = out->key[j];
      values[j] = out->value[j];
    }
    keys[out->n] = all->key[k];
    values[out->n] = all->value[k];
    *out = (HlDict){keys, values, out->n + 1};
  }
  return out->n > 0 ? out : NULL;
}

static void pass_on_wishes(HlModule *m, const HlDict *wishes, const HlComp *callee,
                           HlInst *const *map, uint64_t first_serial) {
  const HlDict none = {0};
  for (uint32_t id = 0; id < callee->next_id; id++) {
    if (!map[id] || !hl_alive(map[id]) || map[id]->serial < first_serial ||
        !takes_fusion_wish(map[id]))
      continue;
    const HlDict *own = hl_attr_ptr(map[id], HL_A_FRONTEND_ATTRIBUTES);
    HlAttr attr = {.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = joined(m, wishes, own ? own : &none)};
    hl_set_attr(map[id], &attr);
  }
}

// The calls among the copies of a callee's instructions.
static void note_calls(const Inliner *in, const HlComp *callee, HlInst *const *map,
                       uint64_t first_serial, InstVec *waiting) {
  for (uint32_t id = 0; id < callee->next_id; id++)
    if (map[id] && map[id]->serial >= first_serial && is_candidate(in, map[id]))
      vec_push(waiting, map[id]);
}

static void inline_one(Inliner *in, HlInst *call, InstVec *waiting) {
  HlPass *p = in->p;
  HlComp *callee = hl_to_apply(call);
  const bool is_composite = hl_attr_int(call, HL_A_IS_COMPOSITE);
  const HlDict *wishes = wishes_of(p, call);
  const uint64_t first_serial = p->m->next_serial;
  HlMark mark = hl_arena_mark(p->arena);
  HlInst **map;
  HlInst *by =
      inline_call_mapped(p, "inline", call, callee, (int)call->n_operands, call->operands, &map);
  if (by && is_composite && by->serial >= first_serial)
    drop_composite_attributes(by);
  if (by && wishes)
    pass_on_wishes(p->m, wishes, callee, map, first_serial);
  if (by && in->callers_first)
    note_calls(in, callee, map, first_serial, waiting);
  hl_arena_release(p->arena, mark);
}

static void inline_in(Inliner *in, const HlComp *comp) {
  if (async_is_body(comp))
    return;
  InstVec waiting = {0};
  for (HlInst *inst = comp->last; inst; inst = inst->prev)  // the last waits longest
    if (is_candidate(in, inst))
      vec_push(&waiting, inst);
  while (waiting.n > 0) {
    HlInst *call = vec_pop(&waiting);
    if (hl_alive(call))
      inline_one(in, call, &waiting);
  }
  vec_free(&waiting);
}

bool pass_call_inliner(HlPass *p) {
  Inliner in = {.p = p,
                .preserve = hl_pass_text(p, "composites_to_preserve"),
                .keep_shmap_bodies = hl_pass_flag(p, "keep_shmap_bodies")};
  if (hl_pass_flag(p, "single_call_site"))
    in.called_once = find_called_once(p);
  if (!measure(&in))
    return false;
  p->relay_control = true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; in.callers_first && k < n; k++)  // before calls go
    comps[k] = stays(&in, comps[k]) ? comps[k] : NULL;
  for (int k = n - 1; in.callers_first && k >= 0; k--)
    if (comps[k])
      inline_in(&in, comps[k]);
  for (int k = 0; !in.callers_first && k < n; k++)
    inline_in(&in, comps[k]);
  return !p->changed || pass_dce(p);
}

// --- nullary-function-wrap-inliner --------------------------------------------------------------

static bool is_wrap(const HlInst *inst) {
  return inst->op == HL_OP_CALL && inst->n_operands == 1 &&
         inst->operands[0]->shape->dtype == HL_TOKEN;
}

static void unwrap(HlPass *p, HlInst *call) {
  const uint64_t first_serial = p->m->next_serial;
  HlComp *callee = hl_to_apply(call);
  HlInst *token = call->operands[0], **map;
  if (!inline_call_mapped(p, "unwrap", call, callee, 1, &token, &map))
    return;
  for (uint32_t id = 0; id < callee->next_id; id++)
    if (map[id] && hl_alive(map[id]) && map[id]->serial >= first_serial)
      hl_add_control(token, map[id]);
}

bool pass_nullary_wrap_inliner(HlPass *p) {
  p->relay_control = p->keep_operands = true;  // the token is still needed
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++) {
    if (async_is_body(comps[c]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && is_wrap(insts[k]))
        unwrap(p, insts[k]);
  }
  return true;
}
