// opt/cpu/dot_library_rewriter.c
//
// dot-library-rewriter: puts what the library YNNPACK computes into custom fusions, which XLA:CPU
// hands to it as a whole: dots and convolutions alone, reductions with all around them that the
// library knows.
//
//   d = f32[32,64] dot(x, w), ...  =>  d = f32[32,64] fusion(x, w), kind=kCustom, calls={ ROOT dot(..) },
//                                          backend_config={... "kind":"__ynn_fusion" ...}
//
// A fusion takes in operands that nobody else needs, and the user if there is only one.

#include <string.h>

#include "base/vec.h"
#include "ir/backend_config.h"
#include "opt/cpu/ynn.h"
#include "opt/fusion/fusion.h"
#include "opt/passes.h"

typedef struct Candidate {
  HlInst *inst;
  bool down;  // it uses the fusion; else the fusion uses it
} Candidate;

typedef struct Rewriter {
  HlPass *p;
  HlComp *comp;
  bool *fused;        // by id: is in a fusion, though it may still stand here for others
  uint32_t *visited;  // by id: the round in which it was waiting
  uint32_t n_ids;
  uint32_t round;
  VEC(Candidate) waiting;
} Rewriter;

static bool is_library_fusion(const HlInst *inst) {
  return fusion_is_custom(inst) && hl_fusion_code(inst) == HL_FUSION_YNN;
}

// --- Candidates ---------------------------------------------------------------------------------

// Ids grow with each fusion made.
static void reserve(Rewriter *r) {
  if (r->comp->next_id <= r->n_ids)
    return;
  uint32_t n = r->comp->next_id * 2;
  bool *fused = HL_ARRAY(r->p->arena, bool, n);
  uint32_t *visited = HL_ARRAY(r->p->arena, uint32_t, n);
  if (r->n_ids > 0) {
    memcpy(fused, r->fused, sizeof *fused * r->n_ids);
    memcpy(visited, r->visited, sizeof *visited * r->n_ids);
  }
  r->fused = fused;
  r->visited = visited;
  r->n_ids = n;
}

static bool is_new(const Rewriter *r, const HlInst *inst) {
  return !r->fused[inst->id] && r->visited[inst->id] != r->round;
}

static void wait(Rewriter *r, HlInst *inst, bool down) {
  r->visited[inst->id] = r->round;
  vec_push(&r->waiting, ((Candidate){inst, down}));
}

// Those that came after the first n of the list.
static void forget_waiting(Rewriter *r, int n) {
  for (int k = n; k < r->waiting.n; k++)
    r->visited[r->waiting.at[k].inst->id] = 0;
  r->waiting.n = n;
}

// Nobody needs the operand but what is inside by now, or goes in with it.
static bool is_only_for(const Rewriter *r, const HlInst *operand, const HlInst *fusion,
                        const HlInst *inst) {
  if (operand == r->comp->root)
    return false;
  for (const HlUse *use = operand->first_use; use; use = use->next)
    if (use->user != fusion && use->user != inst && !r->fused[use->user->id])
      return false;
  return true;
}

static void add_operands(Rewriter *r, const HlInst *fusion, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (is_new(r, operand) && is_only_for(r, operand, fusion, inst))
      wait(r, operand, false);
  }
}

static void add_user(Rewriter *r, const HlInst *inst) {
  if (hl_one_user(inst) && is_new(r, inst->first_use->user))
    wait(r, inst->first_use->user, true);
}

// --- Growing ------------------------------------------------------------------------------------

static HlInst *merge(Rewriter *r, HlInst *fusion, HlInst *other, bool down) {
  HlInst *into = down ? other : fusion, *from = down ? fusion : other;
  fusion_fuse(r->p->arena, into, from);
  fusion_erase(from);
  return into;
}

static HlInst *grow(Rewriter *r, HlInst *fusion, HlInst *inst, bool down) {
  if (is_library_fusion(inst))
    return merge(r, fusion, inst, down);
  if (down)
    return fusion_fuse_user(r->p->arena, fusion, inst);
  fusion_fuse(r->p->arena, fusion, inst);
  if (!inst->first_use)
    hl_erase(inst);
  return fusion;
}

enum { MAX_SIZE = 100 };  // instructions inside, parameters included

static bool may_take(const HlPass *p, const HlInst *fusion, const HlInst *inst) {
  if (is_library_fusion(inst))
    return fusion_body(fusion)->n_insts + fusion_body(inst)->n_insts <= MAX_SIZE;
  return !hl_has_control(inst) && inst->op != HL_OP_PARAMETER && ynn_takes(p, inst);
}

// Takes in a neighbour, and its neighbours wait next.
static bool take(Rewriter *r, HlInst **fusion, Candidate next) {
  if (!hl_change(r->p, "grow", *fusion, next.inst))
    return false;
  const int n_waiting = r->waiting.n;
  const uint32_t id = next.inst->id;
  if (!is_library_fusion(next.inst)) {
    if (next.down)
      add_user(r, next.inst);
    else
      add_operands(r, *fusion, next.inst);
    r->fused[id] = true;
  }
  HlInst *grown = grow(r, *fusion, next.inst, next.down);
  if (!hl_changed(r->p)) {
    forget_waiting(r, n_waiting);
    r->fused[id] = false;
    return false;
  }
  *fusion = grown;
  reserve(r);
  return true;
}

// One round over the neighbours; the fusion may become another instruction.
static bool take_neighbours(Rewriter *r, HlInst **fusion) {
  r->round++;
  r->waiting.n = 0;
  reserve(r);
  r->visited[(*fusion)->id] = r->round;
  add_operands(r, *fusion, *fusion);
  add_user(r, *fusion);
  bool changed = false;
  for (int k = 0; k < r->waiting.n; k++) {
    Candidate next = r->waiting.at[k];
    if (fusion_body(*fusion)->n_insts >= MAX_SIZE)
      break;
    if (may_take(r->p, *fusion, next.inst))
      changed |= take(r, fusion, next);
  }
  return changed;
}

// --- Starting -----------------------------------------------------------------------------------

static bool starts_fusion(const HlPass *p, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONVOLUTION:
  case HL_OP_DOT:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return ynn_takes(p, inst) && !hl_has_control(inst);
  default: return false;
  }
}

static void start(Rewriter *r, HlInst *inst) {
  if (!hl_change(r->p, "library", inst, NULL))
    return;
  const bool grows = inst->op == HL_OP_REDUCE || inst->op == HL_OP_REDUCE_WINDOW;
  const uint32_t id = inst->id;
  HlInst *fusion =
      fusion_wrap(r->p->arena, inst, HL_WORD_fusion_kind_CUSTOM, "ynn_fusion", "fused_computation");
  const HlCpuConfig config = {.kind = HL_FUSION_YNN};
  hl_set_text(fusion, HL_A_BACKEND_CONFIG,
              hl_cpu_config_text(r->p->arena, r->p->m->dialect, "", &config));
  if (!hl_changed(r->p))
    return;
  r->fused[id] = true;
  reserve(r);
  while (grows && take_neighbours(r, &fusion))
    ;
  fusion_name_params(fusion);
}

static bool is_reducer(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (!hl_op_is((HlOp)call->caller->op, HL_T_CONTROL))
      return true;
  return false;
}

static void rewrite_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Rewriter r = {.p = p, .comp = comp};
  reserve(&r);
  HlInst **order = hl_post_order(p->arena, comp);
  int n = (int)comp->n_insts;
  for (int k = n - 1; k >= 0; k--)
    if (!r.fused[order[k]->id] && starts_fusion(r.p, order[k]))
      start(&r, order[k]);
  vec_free(&r.waiting);
  hl_arena_release(p->arena, mark);
}

bool pass_dot_library_rewriter(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    if (!is_reducer(comps[k]))
      rewrite_comp(p, comps[k]);
  return true;
}
