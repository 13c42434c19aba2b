// opt/ask/inline.c: puts the body of a computation where it is called.

#include "opt/ask/inline.h"
#include "ir/vecs.h"

#include <string.h>

// --- Names of operations ------------------------------------------------------------------------

enum { LONGEST_OP_NAME = 1024 };

// Without slashes at the end, or at both ends.
static HlStr strip(const HlSym *sym, bool front) {
  HlStr s = sym ? (HlStr){sym->text, sym->n} : (HlStr){"", 0};
  if (front && s.n > 0 && s.at[0] == '/')
    s = (HlStr){s.at + 1, s.n - 1};
  if (s.n > 0 && s.at[s.n - 1] == '/')
    s.n--;
  return s;
}

static const HlSym *op_name(const HlInst *inst) {
  const HlMetadata *metadata = hl_metadata(inst);
  return metadata ? metadata->op_name : NULL;
}

bool inline_needs_prefix(const HlInst *inst, const HlSym *prefix) {
  const HlStr before = strip(prefix, false), own = strip(op_name(inst), true);
  if (before.n == 0 || before.n + own.n >= LONGEST_OP_NAME)
    return false;
  return own.n < before.n || memcmp(own.at, before.at, before.n) != 0;
}

bool inline_prefix(HlInst *inst, const HlSym *prefix) {
  if (!inline_needs_prefix(inst, prefix))
    return false;
  HlModule *m = inst->comp->module;
  const HlStr before = strip(prefix, false), own = strip(op_name(inst), true);
  char text[LONGEST_OP_NAME + 1];
  memcpy(text, before.at, before.n);
  size_t n = before.n;
  if (own.n > 0) {
    text[n++] = '/';
    memcpy(text + n, own.at, own.n);
    n += own.n;
  }
  HlMetadata metadata = hl_metadata(inst) ? *hl_metadata(inst) : (HlMetadata){0};
  metadata.op_name = hl_syms_add(m->syms, text, n);
  HlAttr attr = {.key = HL_A_METADATA, .ptr = hl_intern_metadata(m, &metadata)};
  hl_set_attr(inst, &attr);
  return true;
}

// --- Bodies -------------------------------------------------------------------------------------

static bool is_new(const HlInst *inst, uint64_t first_serial) {
  return inst->serial >= first_serial;
}

HlInst *inline_body(HlPass *p, HlInst *inst, HlComp *callee, int n, HlInst *const *operands,
                    HlInst ***map) {
  *map = HL_ARRAY(p->arena, HlInst *, callee->next_id + 1);
  const uint64_t first_serial = p->m->next_serial;
  HlInst *root = hl_graft(inst->comp, callee, n, operands, *map);
  const HlSym *prefix = op_name(inst);
  for (uint32_t id = 0; id < callee->next_id; id++) {
    HlInst *copy = (*map)[id];
    if (!copy || !is_new(copy, first_serial))
      continue;
    if (prefix)
      inline_prefix(copy, prefix);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      hl_add_control(inst->control->preds[k], copy);
  }
  return root;
}

static bool has_bodies(const HlInst *inst) {
  return inst->op == HL_OP_WHILE || inst->op == HL_OP_CONDITIONAL;
}

static void note_bodies(const HlInst *inst, CompVec *waiting) {
  for (int k = 0; has_bodies(inst) && k < inst->n_calls; k++)
    vec_push(waiting, hl_called(inst, k));
}

void inline_finish(HlPass *p, const HlMetadata *of, const HlComp *callee, HlInst *const *map) {
  if (!of || !of->op_name)
    return;
  CompVec waiting = {0};
  for (uint32_t id = 0; id < callee->next_id; id++)
    if (map[id] && callee->by_id[id] && callee->by_id[id]->op != HL_OP_PARAMETER)
      note_bodies(map[id], &waiting);
  while (waiting.n > 0) {
    HlComp *body = vec_pop(&waiting);
    bool changed = false;
    for (HlInst *inst = body->first; inst; inst = inst->next)
      changed |= inline_prefix(inst, of->op_name);
    for (HlInst *inst = changed ? body->first : NULL; inst; inst = inst->next)
      note_bodies(inst, &waiting);
  }
  vec_free(&waiting);
}

HlInst *inline_call_mapped(HlPass *p, const char *rule, HlInst *inst, HlComp *callee, int n,
                           HlInst *const *operands, HlInst ***map) {
  const HlMetadata *metadata = hl_metadata(inst);
  HlBuild b;
  hl_begin(p, rule, inst, &b);
  const uint64_t first_serial = p->m->next_serial;
  HlInst *root = inline_body(p, inst, callee, n, operands, map);
  // Nothing new is there that what came after the call could be made to wait for.
  const bool is_lost = hl_has_control(inst) && !is_new(root, first_serial);
  if (!hl_commit(p, is_lost ? NULL : root))
    return NULL;
  inline_finish(p, metadata, callee, *map);
  return root;
}

HlInst *inline_call(HlPass *p, const char *rule, HlInst *inst, HlComp *callee, int n,
                    HlInst *const *operands) {
  HlMark mark = hl_arena_mark(p->arena);
  HlInst **map, *by = inline_call_mapped(p, rule, inst, callee, n, operands, &map);
  hl_arena_release(p->arena, mark);
  return by;
}
