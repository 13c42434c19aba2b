// opt/fusion/cpu_multi_output_fusion.c
//
// cpu_multi_output_fusion: loop fusions of one shape that read the same arrays become one of
// several results, those first that share most bytes.
//
//   a = f32[8] fusion(x, y), kind=kLoop         t = (f32[8], f32[8]) fusion(x, y, z), kind=kLoop
//   b = f32[8] fusion(x, z), kind=kLoop   =>    a = f32[8] get-tuple-element(t), index=0
//                                               b = f32[8] get-tuple-element(t), index=1

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "hilo/cost.h"
#include "opt/fusion/fusion.h"
#include "opt/passes.h"

enum { MAX_OPERANDS = 20, MAX_USERS = 64 };

typedef struct Pair {
  HlInst *a, *b;
  int64_t shared_bytes;
} Pair;
typedef VEC(Pair) Pairs;

static bool is_loop(const HlInst *inst) {
  return inst->op == HL_OP_FUSION && fusion_kind(inst) == HL_WORD_fusion_kind_LOOP &&
         inst->first_use;
}

// NULL: it comes into question; or why not.
static const char *refuses_loop(const HlInst *loop) {
  if (!hl_shape_is_array(loop->shape))
    return "one of the two has several results";
  if (hl_has_control(loop))
    return "one of the two has edges of control";
  return loop->n_operands >= MAX_OPERANDS ? "one of the two reads too many arrays" : NULL;
}

static bool is_candidate(const HlInst *inst) {
  return is_loop(inst) && !refuses_loop(inst);
}

static int64_t shared_bytes(const HlInst *a, const HlInst *b) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (fusion_operand_index(b, a->operands[k]) >= 0 &&
        !hl_is_effective_scalar(a->operands[k]->shape))
      bytes += hl_leaf_bytes(a->operands[k]->shape);
  return bytes;
}

// Pairs are noted at the first operand that both read, so that each is noted once: those that come into question, or all.
static void note_pairs(const HlInst *operand, bool all, Pairs *pairs) {
  HlInst *users[MAX_USERS];
  int n = 0;
  for (const HlUse *use = operand->first_use; use && n < MAX_USERS; use = use->next)
    if (all ? is_loop(use->user) : is_candidate(use->user))
      users[n++] = use->user;
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      if (users[i] == users[j] || (users[i]->shape != users[j]->shape && !all))
        continue;
      Pair pair = {users[i], users[j], shared_bytes(users[i], users[j])};
      int first = 0;
      while (fusion_operand_index(pair.b, pair.a->operands[first]) < 0 ||
             hl_is_effective_scalar(pair.a->operands[first]->shape))
        first++;
      if (pair.a->operands[first] == operand)
        vec_push(pairs, pair);
    }
}

static int most_bytes_first(const void *a, const void *b) {
  const Pair *x = a, *y = b;
  if (x->shared_bytes != y->shared_bytes)
    return x->shared_bytes > y->shared_bytes ? -1 : 1;
  if (x->a->id != y->a->id)
    return x->a->id < y->a->id ? -1 : 1;
  return x->b->id < y->b->id ? -1 : x->b->id > y->b->id;
}

// NULL: the two may be one; or why not.
static const char *refuses(FusionReach *reach, const Pair *pair) {
  const char *why = refuses_loop(pair->a);
  why = why ? why : refuses_loop(pair->b);
  if (why)
    return why;
  if (pair->a->shape != pair->b->shape)
    return "the results have different shapes";
  return fusion_reaches(reach, pair->a, pair->b, false) ||
                 fusion_reaches(reach, pair->b, pair->a, false)
             ? "one of the two depends on the other"
             : NULL;
}

static void merge(HlPass *p, FusionReach *reach, const Pair *pair) {
  if (!hl_alive(pair->a) || !hl_alive(pair->b) || refuses(reach, pair) ||
      !hl_change(p, "sibling", pair->a, pair->b))
    return;
  fusion_name_params(fusion_add_result(p->arena, pair->a, pair->b));
  hl_changed(p);
}

static void find_pairs(const HlComp *comp, bool all, Pairs *pairs) {
  pairs->n = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (hl_shape_is_array(inst->shape) && !hl_is_effective_scalar(inst->shape))
      note_pairs(inst, all, pairs);
  if (pairs->n > 1)
    qsort(pairs->at, (size_t)pairs->n, sizeof(Pair), most_bytes_first);
}

static void tell_refusals(HlPass *p, HlComp *comp, FusionReach *reach, Pairs *pairs) {
  if (!hl_wants_refusals(p))
    return;
  find_pairs(comp, true, pairs);
  for (int k = 0; k < pairs->n; k++) {
    const char *why = refuses(reach, &pairs->at[k]);
    if (why)
      hl_refuse(p, pairs->at[k].a, pairs->at[k].b, why);
  }
}

static void fuse_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  FusionReach reach = {.arena = p->arena};
  Pairs pairs = {0};
  find_pairs(comp, false, &pairs);
  for (int k = 0; k < pairs.n; k++)
    merge(p, &reach, &pairs.at[k]);
  tell_refusals(p, comp, &reach, &pairs);
  vec_free(&pairs);
  vec_free(&reach.stack);
  hl_arena_release(p->arena, mark);
}

bool pass_cpu_multi_output_fusion(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    fuse_comp(p, comps[k]);
  return true;
}
