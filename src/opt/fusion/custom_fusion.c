// opt/fusion/custom_fusion.c: builds custom fusions of instructions that lie together.

#include <string.h>

#include "hilo/edit.h"
#include "opt/fusion/custom_fusion.h"

struct CustomPlace {
  uint32_t round;
  HlInst *inner;
};

CustomFusion custom_fusion_of(HlArena *arena, HlComp *comp) {
  return (CustomFusion){.arena = arena, .comp = comp};
}

// Ids grow with each fusion made.
static void reserve(CustomFusion *f) {
  if (f->comp->next_id <= f->n_ids)
    return;
  const uint32_t n = f->comp->next_id * 2;
  CustomPlace *places = HL_ARRAY(f->arena, CustomPlace, n);
  if (f->n_ids > 0)
    memcpy(places, f->places, sizeof *places * f->n_ids);
  f->places = places;
  f->n_ids = n;
}

void custom_fusion_begin(CustomFusion *f, const char *body_name) {
  HlModule *m = f->comp->module;
  const HlSym *name = hl_fresh_comp_name(m, body_name);
  f->body = hl_comp_new(m, name->text, name->n);
  hl_comp_set_fusion(f->body);
  hl_comp_set_thread(f->body, f->comp->execution_thread);
  f->operands.n = 0;
  f->round++;
  reserve(f);
}

HlInst *custom_fusion_inner(const CustomFusion *f, const HlInst *inst) {
  return inst->id < f->n_ids && f->places[inst->id].round == f->round ? f->places[inst->id].inner
                                                                      : NULL;
}

static HlInst *note(CustomFusion *f, const HlInst *inst, HlInst *inner) {
  f->places[inst->id] = (CustomPlace){f->round, inner};
  return inner;
}

HlInst *custom_fusion_operand(CustomFusion *f, HlInst *outer) {
  HlInst *inner = custom_fusion_inner(f, outer);
  if (inner)
    return inner;
  const int number = f->operands.n;
  vec_push(&f->operands, outer);
  const char *wish = hl_arena_printf(f->arena, "p%d", number);
  HlModule *m = f->comp->module;
  return note(f, outer, hl_parameter_new(f->body, number, outer->shape, hl_fresh_name(m, wish)));
}

HlInst *custom_fusion_add(CustomFusion *f, HlInst *inst) {
  HlInst **inner = HL_ARRAY(f->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    inner[k] = custom_fusion_operand(f, inst->operands[k]);
  return note(f, inst, hl_inst_copy(f->body, inst, NULL, (int)inst->n_operands, inner));
}

HlInst *custom_fusion_end(CustomFusion *f, HlInst *root, const char *name, HlOwnKernel kernel) {
  hl_set_root(f->body, root);
  const HlSym *sym = hl_fresh_name(f->comp->module, name);
  HlInst *fusion =
      hl_inst_new(f->comp, HL_OP_FUSION, root->shape, sym, f->operands.n, f->operands.at);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  const HlFusionConfig config = {.kind = HL_FUSION_CUSTOM, .own = true, .kernel = kernel};
  hl_set_fusion_config(f->arena, fusion, &config);
  hl_set_calls(fusion, 1, &f->body);
  return fusion;
}

void custom_fusion_clean(HlInst *const *insts, int n) {
  for (int k = n - 1; k >= 0; k--)
    if (hl_alive(insts[k]) && !insts[k]->first_use && insts[k]->comp->root != insts[k])
      hl_erase(insts[k]);
}
