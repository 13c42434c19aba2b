// opt/fusion/rename_fusions.c
//
// rename_fusions: fusions for GPUs are named after what they are: kind and the operations that give
// their results.
//
//   fusion.7 = f32[8] fusion(x), kind=kLoop, calls=fused_computation.7
//     =>  loop_add_fusion = f32[8] fusion(x), kind=kLoop, calls=fused_add

#include <string.h>

#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// "add_reduce": each op once, in the order of the results; dashes give way to underscores.
static const char *heroes_text(const HlTarget *t, HlArena *arena, const HlInst *fusion) {
  const HlInst *root = fusion_body(fusion)->root;
  if (root->op != HL_OP_TUPLE)
    return hl_op_text((HlOp)gpu_hero(t, fusion)->op);
  const char *text = "";
  bool seen[HL_OP_COUNT] = {0};
  for (uint32_t k = 0; k < root->n_operands; k++) {
    HlOp op = (HlOp)root->operands[k]->op;
    if (!seen[op])
      text = hl_arena_printf(arena, "%s%s%s", text, *text ? "_" : "", hl_op_text(op));
    seen[op] = true;
  }
  return *text ? text : "tuple";
}

static const char *underscored(HlArena *arena, const char *text) {
  char *copy = hl_arena_printf(arena, "%s", text);
  for (char *at = copy; *at; at++)
    if (*at == '-')
      *at = '_';
  return copy;
}

static const char *kind_text(const HlInst *fusion) {
  switch (fusion_kind(fusion)) {
  case HL_WORD_fusion_kind_LOOP: return "loop";
  case HL_WORD_fusion_kind_INPUT: return "input";
  case HL_WORD_fusion_kind_OUTPUT: return "output";
  default: return NULL;
  }
}

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static void rename_one(HlPass *p, HlInst *fusion) {
  const char *kind = kind_text(fusion);
  if (!kind || starts_with(fusion->name->text, "wrapped_"))
    return;
  const char *heroes = underscored(p->arena, heroes_text(gpu_target(p), p->arena, fusion));
  const char *name = hl_arena_printf(p->arena, "%s_%s_fusion", kind, heroes);
  if (starts_with(fusion->name->text, name) || !hl_change(p, "rename", fusion, NULL))
    return;
  HlComp *body = fusion_body(fusion);
  hl_set_name(fusion, hl_fresh_name(p->m, name));
  hl_comp_set_name(body, hl_fresh_comp_name(p->m, hl_arena_printf(p->arena, "fused_%s", heroes)));
  hl_changed(p);
}

bool pass_rename_fusions(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION)
        rename_one(p, inst);
  return true;
}
