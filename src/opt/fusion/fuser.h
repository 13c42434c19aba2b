// opt/fusion/fuser.h: the insides of the fusion engine; private to fusion*.c.
#ifndef HILO_OPT_FUSER_H
#define HILO_OPT_FUSER_H

#include "base/vec.h"
#include "opt/fusion/fusion.h"

// How often the code of each instruction of a fusion is written out (fusion_code.c).
typedef struct FusionCode FusionCode;

// An operand that is still in the queue, at which place, and why it is not fused.
typedef struct Candidate {
  int operand, place;
  const char *refusal;
} Candidate;

struct Fuser {
  HlPass *p;
  const FusionPolicy *policy;
  HlComp *comp;
  uint32_t
      n_ids;   // ids below may occur: today's, and one for each instruction that becomes a fusion
  int *place;  // by id: number in the post-order; -1: not queued
  bool *keep_whole;   // by id: must not be copied into some of its users only
  bool **again;       // by id, of fusions: which operands are read more than once
  FusionCode **code;  // by id, of fusions
  int *n_reduces;     // by id, of fusions: inside, plus one; 0: not counted yet
  bool *grew;         // by id, of fusions: it has taken something in
  HlInst **queue;     // users at the end; NULL where taken out
  int n_queue;
  VEC(Candidate) candidates;  // scratch: operands to be tried
};

// --- fusion_code.c
FusionCode *fusion_code_of(HlArena *arena, const HlInst *fusion);
bool fusion_code_too_long(const FusionCode *code, const HlInst *producer, int operand);
// Follows fusion_fuse: the producer was operand `at` of `fusion` and is now `copy`.
void fusion_code_fused(HlArena *arena, FusionCode *code, const HlInst *fusion, int at,
                       const HlInst *copy);

// --- fusion_paths.c
// Fills f->keep_whole: the producers that would be read more often if they were copied.
void fuser_find_keep_whole(Fuser *f, HlInst *const *post_order, int n);

#endif
