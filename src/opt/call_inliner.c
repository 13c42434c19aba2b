// opt/call_inliner.c: call-inliner: puts what is called in place of the call.
//
//   f { p = f32[] parameter(0) ROOT n = f32[] negate(p) }
//   ROOT c = f32[] call(x), to_apply=f              =>   ROOT n.1 = f32[] negate(x)
//
// Callees come before callers, so that what is copied into a caller has no more calls of its own to
// be inlined. With single_call_site only computations that are called once are inlined: the program
// does not grow.

#include <string.h>

#include "opt/dce.h"
#include "opt/inline.h"

bool pass_call_inliner(HlPass *p);

typedef struct Inliner {
  HlPass *p;
  bool single_call_site;
  const char *preserve;  // names of composites, with ':' between
} Inliner;

static const char *frontend(const HlInst *inst, const char *key) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, key) == 0)
      return dict->value[k]->text;
  return NULL;
}

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
  const char *name = frontend(call, "composite.name");
  return hl_attr_int(call, HL_A_IS_COMPOSITE) && name && is_listed(in->preserve, name);
}

static bool is_async_body(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (hl_op_info[call->caller->op].traits & HL_T_ASYNC)
      return true;
  return false;
}

static bool is_candidate(const Inliner *in, const HlInst *call) {
  if (call->op != HL_OP_CALL || hl_has_attr(call, HL_A_BACKEND_CONFIG) || is_preserved(in, call))
    return false;
  const HlComp *callee = hl_to_apply(call);
  const char *wish = frontend(call, "inlineable");
  if ((wish && strcmp(wish, "true") != 0) ||
      callee->execution_thread != call->comp->execution_thread)
    return false;
  return !in->single_call_site || callee->first_call == callee->last_call;
}

// Whether the module with calls inlined is small enough. Callees come before callers.
static bool check_size(const Inliner *in) {
  HlPass *p = in->p;
  const int64_t limit = hl_cx_limits(p->cx)->instructions;
  int64_t *size = HL_ARRAY(p->arena, int64_t, p->m->next_comp_id + 1), total = 0;
  for (const HlComp *comp = p->m->first; comp && total <= limit; comp = comp->next) {
    int64_t *own = &size[comp->id];
    *own = comp->n_insts;
    for (const HlInst *inst = comp->first; inst && *own <= limit; inst = inst->next)
      *own += is_candidate(in, inst) ? size[hl_to_apply(inst)->id] : 0;
    total += *own;
  }
  return total <= limit ||
         hl_error_kind(p->cx, HL_LIMIT, hl_module_pos(p->m),
                       "the module with calls inlined has more than %lld instructions",
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

static void inline_in(Inliner *in, HlComp *comp) {
  if (is_async_body(comp))
    return;
  HlMark mark = hl_arena_mark(in->p->arena);
  int n;
  HlInst **insts = hl_pass_insts(in->p, comp, &n);
  for (int k = 0; k < n; k++) {
    HlInst *call = insts[k];
    if (!is_candidate(in, call))
      continue;
    HlComp *callee = hl_to_apply(call);
    const bool is_composite = hl_attr_int(call, HL_A_IS_COMPOSITE);
    const uint64_t first_serial = in->p->m->next_serial;
    HlInst *by = inline_call(in->p, "inline", call, callee, (int)call->n_operands, call->operands);
    if (by && is_composite && by->serial >= first_serial)
      drop_composite_attributes(by);
  }
  hl_arena_release(in->p->arena, mark);
}

bool pass_call_inliner(HlPass *p) {
  Inliner in = {p, hl_pass_flag(p, "single_call_site"), hl_pass_text(p, "composites_to_preserve")};
  if (!check_size(&in))
    return false;
  p->relay_control = true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    inline_in(&in, comps[k]);
  return !p->changed || pass_dce(p);
}
