// opt/fusion/horizontal_fusion.c
//
// horizontal_loop_fusion: small kernels that do not depend on each other, and whose results go to
// the same place, become one kernel: the results are laid end to end, and each is a slice.
//
//   a = f32[4] fusion(x), kind=kLoop        h = (f32[4], f32[6]) fusion(x, y), kind=kInput, calls={
//   b = f32[6] fusion(y), kind=kLoop   =>     c = concatenate(.., ..)
//   t = tuple(a, b)                           ROOT tuple(slice(c), slice(c)) }
//
// horizontal_input_fusion: the same for reductions of equal shapes; they become results of one
// fusion.

#include <stdlib.h>
#include <string.h>

#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// --- Candidates ---------------------------------------------------------------------------------

enum { MAX_INSTRUCTIONS = 30, MAX_TOGETHER = 32, MAX_OPERANDS = 64 };

static bool has_only_user(const HlInst *inst, const HlInst *user) {
  return inst->first_use && !fusion_duplicates(inst, user) && inst != inst->comp->root;
}

// NULL: it may be one of several loops in a kernel; or why not.
static const char *refuses_loop(const HlTarget *t, const HlInst *inst, const HlInst *user) {
  if (hl_has_control(inst))
    return "has edges of control";
  if (!has_only_user(inst, user))
    return "has another user, too";
  if (!hl_shape_is_array(inst->shape))
    return "has several results";
  if (hl_shape_elements(inst->shape) > t->busy_elements)
    return "keeps the machine busy alone";
  if (inst->n_operands > MAX_OPERANDS)
    return "reads too many arrays";
  if (inst->shape->layout && !hl_layout_is_default(inst->shape->layout))
    return "has a layout that is not the default one";
  if (inst->op != HL_OP_FUSION)
    return inst->n_operands > 0 && fusion_is_elementwise(inst) && inst->op != HL_OP_COPY
               ? NULL
               : "is no loop";
  const HlInst *root = fusion_body(inst)->root;
  if (fusion_kind(inst) != HL_WORD_fusion_kind_LOOP || root->op == HL_OP_TUPLE ||
      root->op == HL_OP_PARAMETER)
    return "is no loop";
  if (root->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    return "updates its operand in place";
  return fusion_body(inst)->n_insts > MAX_INSTRUCTIONS ? "has long code" : NULL;
}

// The same for reductions.
static const char *refuses_reduction(const HlTarget *t, const HlInst *inst, const HlInst *user) {
  if (inst->op != HL_OP_FUSION || gpu_emitter(t, inst) != GPU_REDUCTION)
    return "is no fusion that reduces";
  if (hl_has_control(inst))
    return "has edges of control";
  if (!has_only_user(inst, user))
    return "has another user, too";
  return hl_shape_is_tuple(inst->shape) ? "has several results" : NULL;
}

typedef const char *Refuses(const HlTarget *t, const HlInst *inst, const HlInst *user);

typedef struct Group {
  HlPass *p;
  HlInst *user;
  HlInst **at;
  int n;
  FusionReach reach;
} Group;

static int by_type_and_size(const void *a, const void *b) {
  const HlInst *x = *(HlInst *const *)a, *y = *(HlInst *const *)b;
  if (x->shape->dtype != y->shape->dtype)
    return x->shape->dtype < y->shape->dtype ? -1 : 1;
  uint32_t of_x = x->op == HL_OP_FUSION ? fusion_body(x)->n_insts : 1;
  uint32_t of_y = y->op == HL_OP_FUSION ? fusion_body(y)->n_insts : 1;
  if (of_x != of_y)
    return of_x < of_y ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_of_kind(const HlTarget *t, const HlInst *inst, bool of_loops) {
  if (inst->op == HL_OP_FUSION)
    return of_loops ? fusion_kind(inst) == HL_WORD_fusion_kind_LOOP
                    : gpu_emitter(t, inst) == GPU_REDUCTION;
  return of_loops && inst->n_operands > 0 && fusion_is_elementwise(inst);
}

// Tells of the other kernels of the kind among the operands: they do not go with the first candidate.
static void tell_left_out(const Group *group, Refuses *refuses) {
  for (uint32_t k = 0; k < group->user->n_operands; k++) {
    const HlInst *inst = group->user->operands[k];
    if (!is_of_kind(gpu_target(group->p), inst, refuses == refuses_loop))
      continue;
    const char *why = refuses(gpu_target(group->p), inst, group->user);
    if (!why && hl_sharding(inst))
      why = "has a sharding";
    if (why && inst->last_use->number == (int)k)
      hl_refuse(group->p, group->at[0], inst,
                hl_arena_printf(group->p->arena, "|%s| %s", inst->name->text, why));
  }
}

static void find_candidates(Group *group, Refuses *refuses) {
  HlInst *user = group->user;
  group->at = HL_ARRAY(group->p->arena, HlInst *, user->n_operands + 1);
  group->n = 0;
  for (uint32_t k = 0; k < user->n_operands; k++) {
    HlInst *inst = user->operands[k];
    // A sharding is of one result: it would be lost.
    if (!refuses(gpu_target(group->p), inst, user) && !hl_sharding(inst) &&
        inst->last_use->number == (int)k)
      group->at[group->n++] = inst;
  }
  qsort(group->at, (size_t)group->n, sizeof *group->at, by_type_and_size);
  if (group->n > 0 && hl_wants_refusals(group->p))
    tell_left_out(group, refuses);
}

// --- Loops --------------------------------------------------------------------------------------

static HlInst *as_fusion(Group *group, HlInst *inst) {
  if (inst->op == HL_OP_FUSION)
    return inst;
  return fusion_wrap(group->p->arena, inst, HL_WORD_fusion_kind_LOOP, "fusion",
                     "fused_computation");
}

static HlInst *flatten(HlBuild *b, HlInst *inst) {
  int64_t n = hl_shape_elements(inst->shape);
  return hl_b_reshape(b, inst, 1, &n);
}

// Lays the results of a fusion of several end to end, and makes each a slice.
static bool put_end_to_end(Group *group, HlComp *body, HlInst *const *results, int n,
                           HlInst **slices) {
  HlBuild b = {.cx = group->p->cx, .comp = body};
  HlInst **flat = HL_ARRAY(group->p->arena, HlInst *, n);
  for (int k = 0; k < n; k++)
    flat[k] = flatten(&b, results[k]);
  HlInst *joined = hl_b_concatenate(&b, n, flat, 0);
  int64_t at = 0;
  for (int k = 0; k < n; k++) {
    int64_t size = hl_shape_elements(results[k]->shape);
    slices[k] = hl_b_slice_dim(&b, joined, 0, at, at + size);
    at += size;
    if (!slices[k])
      return false;
  }
  return true;
}

// One fusion for the candidates from `first` on; each is replaced by its slice.
static bool fuse_loops(Group *group, int first, int n) {
  HlArena *arena = group->p->arena;
  HlModule *m = group->p->m;
  HlInst *fusion = as_fusion(group, group->at[first]);
  HlInst **old = HL_ARRAY(arena, HlInst *, n), **results = HL_ARRAY(arena, HlInst *, n);
  HlInst **slices = HL_ARRAY(arena, HlInst *, n);
  old[0] = fusion;
  results[0] = fusion_body(fusion)->root;
  for (int k = 1; k < n; k++) {
    old[k] = group->at[first + k];
    results[k] = fusion_take_in(arena, fusion, old[k]);
  }
  HlComp *body = fusion_body(fusion);
  if (!put_end_to_end(group, body, results, n, slices))
    return false;
  HlBuild inner = {.cx = group->p->cx, .comp = body};
  hl_set_root(body, hl_b_tuple(&inner, n, slices));
  const HlSym *name = hl_fresh_name(m, "horizontal_fusion");
  HlInst *joined = hl_inst_new(fusion->comp, HL_OP_FUSION, body->root->shape, name,
                               (int)fusion->n_operands, fusion->operands);
  hl_copy_attrs(joined, fusion);
  hl_set_int(joined, HL_A_KIND, HL_WORD_fusion_kind_INPUT);
  hl_set_calls(joined, 1, &body);
  fusion_name_params(joined);
  for (int k = 0; k < n; k++) {
    HlBuild b = {.cx = group->p->cx, .comp = fusion->comp, .metadata = hl_metadata(old[k])};
    HlInst *part = hl_b_element(&b, joined, k);
    HlAttr none = {0};
    HlInst *by = old[k]->shape->rank == 1
                     ? part
                     : hl_b_op(&b, HL_OP_BITCAST, old[k]->shape, 1, &part, 0, &none, 0, NULL);
    if (!by)
      return false;
    hl_replace_uses(old[k], by);
    fusion_erase(old[k]);
  }
  return true;
}

// NULL: candidate k goes with those from `first` on, which read so many arrays; or why not.
static const char *refuses_together(Group *group, int first, int k, int64_t operands) {
  const HlInst *a = group->at[first], *b = group->at[k];
  if (k - first == MAX_TOGETHER)
    return "so many are together already";
  if (a->shape->dtype != b->shape->dtype)
    return "the results have different types";
  for (int j = first; j < k; j++)
    if (fusion_reaches(&group->reach, group->at[j], b, false) ||
        fusion_reaches(&group->reach, b, group->at[j], false))
      return "one of them depends on another";
  return operands + b->n_operands + (k - first) + 1 > MAX_OPERANDS
             ? "together they would read too many arrays"
             : NULL;
}

static bool fuse_all_loops(Group *group) {
  for (int first = 0; first + 1 < group->n;) {
    int n = 1;
    int64_t operands = group->at[first]->n_operands;
    const char *why = NULL;
    for (; first + n < group->n; operands += group->at[first + n++]->n_operands) {
      why = refuses_together(group, first, first + n, operands);
      if (why)
        break;
    }
    if (why)
      hl_refuse(group->p, group->at[first], group->at[first + n], why);
    if (n > 1 && hl_change(group->p, "loops", group->at[first], group->at[first + 1])) {
      const bool ok = fuse_loops(group, first, n);
      hl_changed(group->p);
      if (!ok)
        return false;
    }
    first += n;
  }
  return true;
}

// --- Reductions ---------------------------------------------------------------------------------

static const char *refuses_pair(Group *group, const HlInst *a, const HlInst *b) {
  if (!gpu_share_threads(gpu_target(group->p), a, b))
    return "the threads of the one do not go over the elements of the other";
  if (!gpu_fits(gpu_target(group->p), a, gpu_needs(gpu_target(group->p), a), b,
                gpu_needs(gpu_target(group->p), b), true))
    return "a kernel has no room for the arguments, reductions or shared memory of both";
  return fusion_reaches(&group->reach, a, b, false) || fusion_reaches(&group->reach, b, a, false)
             ? "one of the two depends on the other"
             : NULL;
}

static void fuse_all_reductions(Group *group) {
  for (int first = 0; first < group->n; first++)
    for (int k = first + 1; group->at[first] && k < group->n; k++) {
      HlInst *a = group->at[first], *b = group->at[k];
      if (!b)
        continue;
      const char *why = refuses_pair(group, a, b);
      if (why)
        hl_refuse(group->p, a, b, why);
      if (why || !hl_change(group->p, "reductions", a, b))
        continue;
      HlInst *both = fusion_add_result(group->p->arena, a, b);
      fusion_name_params(both);
      if (!hl_changed(group->p))
        continue;
      group->at[first] = both;
      group->at[k] = NULL;
    }
}

// --- Passes -------------------------------------------------------------------------------------

static bool run(HlPass *p, Refuses *refuses, bool of_loops) {
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  Group group = {.p = p, .reach = {.arena = p->arena}};
  bool ok = true;
  for (int c = 0; ok && c < n_comps; c++) {
    if (!gpu_fuses_in(comps[c]))
      continue;
    int n;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    for (int k = n - 1; ok && k >= 0; k--) {
      if (!hl_alive(insts[k]) || insts[k]->n_operands < 2)
        continue;
      group.user = insts[k];
      find_candidates(&group, refuses);
      if (of_loops)
        ok = fuse_all_loops(&group);
      else
        fuse_all_reductions(&group);
    }
  }
  vec_free(&group.reach.stack);
  return ok;
}

bool pass_horizontal_loop_fusion(HlPass *p) {
  return run(p, refuses_loop, true);
}

bool pass_horizontal_input_fusion(HlPass *p) {
  return run(p, refuses_reduction, false);
}
