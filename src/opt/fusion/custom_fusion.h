// opt/fusion/custom_fusion.h: groups of instructions that a hand-written kernel computes, as custom
// fusions.
//
// Copies of the instructions join the body one by one, operands first; what they read from outside
// becomes operands of the fusion, in the order in which it is met.
#ifndef HILO_OPT_CUSTOM_FUSION_H
#define HILO_OPT_CUSTOM_FUSION_H

#include "ir/backend_config.h"
#include "ir/vecs.h"
#include "opt/fusion/fusion.h"

typedef struct CustomPlace CustomPlace;

// For many fusions of one computation, one after the other.
typedef struct CustomFusion {
  HlArena *arena;
  HlComp *comp, *body;
  CustomPlace *places;  // by id: the copy inside, of this round
  uint32_t n_ids, round;
  InstVec operands;  // the owner frees it
} CustomFusion;

CustomFusion custom_fusion_of(HlArena *arena, HlComp *comp);
// Starts a body of this name.
void custom_fusion_begin(CustomFusion *f, const char *body_name);
// What stands inside for the instruction: its copy, or else a parameter.
HlInst *custom_fusion_operand(CustomFusion *f, HlInst *inst);
// The copy of the instruction inside.
HlInst *custom_fusion_add(CustomFusion *f, HlInst *inst);
HlInst *custom_fusion_inner(const CustomFusion *f, const HlInst *inst);  // NULL: it was not added
// The fusion, which nobody uses yet.
HlInst *custom_fusion_end(CustomFusion *f, HlInst *root, const char *name, HlOwnKernel kernel);
// Erases what has no use any more, those first that stand last in the list.
void custom_fusion_clean(HlInst *const *insts, int n);

#endif
