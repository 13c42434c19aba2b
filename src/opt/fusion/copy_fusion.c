// opt/fusion/copy_fusion.c
//
// copy_fusion: for GPUs: a copy of what a kernel computes becomes one more result of the kernel, which
// writes the value twice instead of having it read again.
//
//   f = f32[8] fusion(x), calls={ ROOT exp(x) }      t = (f32[8], f32[8]) fusion(x), calls={
//   c = f32[8] copy(f)                         =>      e = exp(x), ROOT tuple(e, copy(e)) }
//                                                    f = get-tuple-element(t), index=0
//                                                    c = get-tuple-element(t), index=1
//
// Only in the entry, where a copy never shares its buffer with what the kernel reads, and only where
// each thread reads just the elements that it writes.

#include "hilo/edit.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

enum { MAX_RESULTS = 96 };

// A result of the kernel, and the copy of it, perhaps behind a bitcast.
typedef struct Copy {
  int result;
  HlInst *bitcast, *copy;  // bitcast: NULL if there is none
} Copy;

// --- Kernels --------------------------------------------------------------------------------------

// Instructions stand behind their operands: one walk finds all that depends on parameters.
static bool computes_in_place(HlArena *scratch, const HlComp *body) {
  const HlMark mark = hl_arena_mark(scratch);
  bool *reached = HL_ARRAY(scratch, bool, body->next_id), good = true;
  for (const HlInst *inst = body->first; inst && good; inst = inst->next) {
    reached[inst->id] = inst->op == HL_OP_PARAMETER;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      reached[inst->id] |= reached[inst->operands[k]->id];
    if (reached[inst->id] && inst->op != HL_OP_PARAMETER && inst->op != HL_OP_BITCAST &&
        inst->op != HL_OP_TUPLE)
      good = fusion_is_elementwise(inst) && inst->op != HL_OP_COPY;
  }
  hl_arena_release(scratch, mark);
  return good;
}

static bool has_tuple_root(const HlInst *fusion) {
  return fusion_body(fusion)->root->op == HL_OP_TUPLE;
}

static const HlInst *result(const HlInst *fusion, int k) {
  const HlInst *root = fusion_body(fusion)->root;
  return has_tuple_root(fusion) ? root->operands[k] : root;
}

static int n_results(const HlInst *fusion) {
  return has_tuple_root(fusion) ? fusion->shape->rank : 1;
}

static bool all_results_are(const HlInst *fusion, HlOp op) {
  for (int k = 0; k < n_results(fusion); k++)
    if (result(fusion, k)->op != op)
      return false;
  return true;
}

static bool may_write_twice(HlPass *p, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION || fusion_kind(inst) == HL_WORD_fusion_kind_CUSTOM ||
      hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return false;
  const HlInst *root = fusion_body(inst)->root;
  if (!hl_shape_is_array(inst->shape) && root->op != HL_OP_TUPLE)
    return false;
  if (is_block_reduction(gpu_target(p), root) || root->op == HL_OP_SCATTER ||
      all_results_are(inst, HL_OP_DYNAMIC_UPDATE_SLICE) ||
      (root->op == HL_OP_TUPLE && all_results_are(inst, HL_OP_SLICE)))
    return false;
  return computes_in_place(p->arena, fusion_body(inst));
}

// --- Copies ---------------------------------------------------------------------------------------

static HlInst *only_user(const HlInst *inst) {
  return hl_n_users(inst) == 1 && inst->comp->root != inst ? inst->first_use->user : NULL;
}

static bool is_plain_copy(const HlInst *inst) {
  return inst->op == HL_OP_COPY && inst->shape == inst->operands[0]->shape &&
         hl_shape_is_array(inst->shape) && !hl_has_control(inst);
}

// The copy behind a user of the kernel; false: none.
static bool find_copy(const HlTarget *t, const HlInst *fusion, HlInst *user, Copy *out) {
  *out = (Copy){0};
  if (has_tuple_root(fusion)) {
    if (user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
    out->result = (int)hl_attr_int(user, HL_A_INDEX);
    user = only_user(user);
    if (!user || is_block_reduction(t, result(fusion, out->result)))
      return false;
  }
  if (user->op == HL_OP_BITCAST && only_user(user)) {
    out->bitcast = user;
    user = only_user(user);
  }
  out->copy = user;
  return is_plain_copy(user) &&
         gpu_fits(t, fusion, gpu_needs(t, fusion), user, gpu_needs(t, user), false);
}

static Copy *find_copies(HlPass *p, const HlInst *fusion, int *n) {
  int most = 0;
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    most++;
  Copy *copies = HL_ARRAY(p->arena, Copy, most + 1);
  *n = 0;
  for (const HlUse *use = fusion->first_use; use; use = use->next)
    *n += find_copy(gpu_target(p), fusion, use->user, &copies[*n]);
  return copies;
}

// --- The change -----------------------------------------------------------------------------------

static HlInst *copy_inside(HlInst *of, const Copy *c) {
  if (c->bitcast)
    of = hl_inst_copy(of->comp, c->bitcast, NULL, 1, &of);
  return hl_inst_copy(of->comp, c->copy, NULL, 1, &of);
}

static void replace_root(HlPass *p, HlInst *fusion, const Copy *copies, int n) {
  HlComp *body = fusion_body(fusion);
  HlInst *root = body->root;
  const bool was_tuple = root->op == HL_OP_TUPLE;
  const int before = n_results(fusion), all = before + n;
  HlInst **inner = HL_ARRAY(p->arena, HlInst *, all);
  const HlShape **shape = HL_ARRAY(p->arena, const HlShape *, all);
  for (int k = 0; k < all; k++) {
    HlInst *old = was_tuple ? root->operands[k < before ? k : copies[k - before].result] : root;
    inner[k] = k < before ? old : copy_inside(old, &copies[k - before]);
    shape[k] = inner[k]->shape;
  }
  const HlShape *both = hl_shape_tuple(p->m->shapes, all, shape);
  hl_set_root(body, hl_inst_new(body, HL_OP_TUPLE, both, NULL, all, inner));
  if (was_tuple)
    hl_erase(root);
  hl_set_shape(fusion, both);
  hl_remove_attr(fusion, HL_A_SHARDING);
  hl_remove_attr(fusion, HL_A_ORIGIN);
}

static HlInst *element(HlInst *tuple, int k) {
  HlInst *made =
      hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], NULL, 1, &tuple);
  hl_set_int(made, HL_A_INDEX, k);
  return made;
}

// What led from the kernel to the copy has no use any more.
static void erase_chain(HlInst *inst, const HlInst *fusion) {
  while (inst != fusion && !inst->first_use) {
    HlInst *operand = inst->operands[0];
    hl_erase(inst);
    inst = operand;
  }
}

static void fuse(HlPass *p, HlInst *fusion, const Copy *copies, int n) {
  fusion_own_body(fusion);
  const bool was_tuple = has_tuple_root(fusion);
  const int before = n_results(fusion);
  replace_root(p, fusion, copies, n);
  if (!was_tuple) {
    HlInst *first = element(fusion, 0);
    hl_inherit(first, fusion);
    hl_replace_uses(fusion, first);
  }
  for (int k = 0; k < n; k++) {
    HlInst *made = element(fusion, before + k);
    hl_inherit(made, copies[k].copy);
    hl_replace_uses(copies[k].copy, made);
    erase_chain(copies[k].copy, fusion);
  }
}

bool pass_copy_fusion(HlPass *p) {
  int n_insts;
  HlInst **insts = hl_pass_insts(p, p->m->entry, &n_insts);
  for (int k = 0; k < n_insts; k++) {
    HlInst *fusion = insts[k];
    if (!hl_alive(fusion) || !may_write_twice(p, fusion))
      continue;
    int n;
    Copy *copies = find_copies(p, fusion, &n);
    if (n > 0 && n_results(fusion) + n <= MAX_RESULTS &&
        hl_change(p, "fuse-copies", fusion, copies[0].copy)) {
      fuse(p, fusion, copies, n);
      hl_changed(p);
    }
  }
  return true;
}
