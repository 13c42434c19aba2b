// opt/gpu/fission.c: fusions taken apart again, for cuBLAS to compute their products.
//
// The body becomes a program by itself, so that nothing around the fusion is looked at. Its dots become calls of cuBLAS, which get
// the algorithm that was chosen; the rest is fused anew. What has come out stands in the fusion's place.
//
//   f = f32[8,4] fusion(x, y), {"kind":"__triton_gemm"}, calls: negate(dot(x, y))
//   =>  g = (f32[8,4], s8[1024]) custom-call(x, y), custom_call_target="__cublas$lt$matmul", {.. "selected_algorithm":"3" ..}
//       d = f32[8,4] get-tuple-element(g), index=0
//       f = f32[8,4] fusion(d), kind=kLoop, calls: negate(d)

#include "opt/gpu/fission.h"

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "hilo/opt.h"
#include "opt/fusion/fusion.h"

// --- Products by cuBLAS ---------------------------------------------------------------------------

bool gemm_has_room(const HlInst *inst) {
  if (inst->op != HL_OP_CUSTOM_CALL || !hl_shape_is_tuple(inst->shape) || inst->shape->rank < 2 ||
      hl_call_info[hl_call_target(inst)].library != HL_LIBRARY_CUBLASLT)
    return false;
  const HlShape *room = inst->shape->element[inst->shape->rank - 1];
  return hl_shape_is_array(room) && room->dtype == HL_S8;
}

// Nobody has the result of this number, or all of them as one.
static bool is_unused(const HlInst *inst, int number) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(use->user, HL_A_INDEX) == number)
      return false;
  return inst != inst->comp->root;
}

void gemm_choose(HlPass *p, HlInst *call, const HlGemmConfig *chosen) {
  const int last = call->shape->rank - 1;
  HlGemmConfig config = hl_gemm_config(p->arena, call);
  config.chosen = chosen->chosen;
  config.room = chosen->room;
  hl_set_gemm_config(p->arena, call, &config);
  if (!is_unused(call, last))
    return;
  HlShapes *shapes = call->comp->module->shapes;
  const HlShape **results =
      hl_arena_copy(p->arena, call->shape->element, sizeof *results * (size_t)(last + 1));
  results[last] = hl_shape_array(shapes, HL_S8, 1, &chosen->room.value);
  hl_set_shape(call, hl_shape_tuple(shapes, last + 1, results));
}

// --- Copies between modules -----------------------------------------------------------------------

typedef struct Copies {
  HlArena *arena;
  HlModule *to;
  HlComp **of;  // by the id of a computation that is called
} Copies;

// Adds what a computation has and `map` does not know yet, by id, to another one. What its root became.
static HlInst *copy_insts(const Copies *c, HlComp *to, const HlComp *from, HlInst **map) {
  for (const HlInst *inst = from->first; inst; inst = inst->next) {
    if (map[inst->id])
      continue;
    HlInst **operands = HL_ARRAY(c->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = map[inst->operands[k]->id];
    HlComp **calls = HL_ARRAY(c->arena, HlComp *, inst->n_calls + 1);
    for (int k = 0; k < inst->n_calls; k++)
      calls[k] = c->of[hl_called(inst, k)->id];
    HlInst *copy =
        hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(c->to->shapes, inst->shape),
                    hl_fresh_name(c->to, inst->name->text), (int)inst->n_operands, operands);
    hl_copy_attrs(copy, inst);
    hl_set_loc(copy, inst->loc);
    hl_set_calls(copy, inst->n_calls, calls);
    map[inst->id] = copy;
  }
  return map[from->root->id];
}

static HlComp *copy_comp(const Copies *c, const HlComp *from) {
  const HlSym *name = hl_fresh_comp_name(c->to, from->name->text);
  HlComp *copy = hl_comp_new(c->to, name->text, name->n);
  HlInst **map = HL_ARRAY(c->arena, HlInst *, from->next_id + 1);
  hl_comp_set_loc(copy, from->loc);
  hl_set_root(copy, copy_insts(c, copy, from, map));
  return copy;
}

// All that a computation calls, and what that calls.
static Copies copy_called(HlArena *arena, const HlComp *top, HlModule *to) {
  const HlModule *m = top->module;
  Copies c = {arena, to, HL_ARRAY(arena, HlComp *, m->next_comp_id + 1)};
  bool *is_called = HL_ARRAY(arena, bool, m->next_comp_id + 1);
  HlComp **comps = hl_comp_order(arena, m);  // callees first
  for (uint32_t k = m->n_comps; k-- > 0;)
    if (comps[k] == top || is_called[comps[k]->id])
      for (const HlInst *inst = comps[k]->first; inst; inst = inst->next)
        for (int call = 0; call < inst->n_calls; call++)
          is_called[hl_called(inst, call)->id] = true;
  for (uint32_t k = 0; k < m->n_comps; k++)
    if (is_called[comps[k]->id]) {
      c.of[comps[k]->id] = copy_comp(&c, comps[k]);
      if (comps[k]->is_fusion)
        hl_comp_set_fusion(c.of[comps[k]->id]);
    }
  return c;
}

// --- Fissions -------------------------------------------------------------------------------------

static HlModule *as_program(HlPass *p, const HlComp *body) {
  HlModule *m = hl_module_new(body->name->text, p->m->source);
  hl_set_dialect(m, p->m->dialect);
  const Copies c = copy_called(p->arena, body, m);
  hl_comp_set_entry(copy_comp(&c, body));
  hl_complete_entry_layout(m);
  return m;
}

static bool run(HlPass *p, HlModule *m, const char *pipeline) {
  const HlEngineOptions options = {.passes = &hl_passes,
                                   .target = p->target,
                                   .release = p->release,
                                   .excess_precision = p->keeps_rounding ? HL_OFF : HL_USUAL};
  HlEngine *engine = hl_engine_new(p->cx, &options);
  const bool ok = hl_engine_run(engine, m, pipeline);
  hl_engine_free(engine);
  return ok;
}

// How many products the library computes.
static int choose_all(HlPass *p, HlModule *m, const HlGemmConfig *chosen) {
  int n = 0;
  for (HlInst *inst = m->entry->first; inst; inst = inst->next)
    if (gemm_has_room(inst)) {
      gemm_choose(p, inst, chosen);
      n++;
    }
  return n;
}

HlModule *fission_parts(HlPass *p, const HlInst *fusion, const HlGemmConfig *chosen,
                        const char **why) {
  static const char products[] =
      "dot-algorithm-rewriter, scaled-dot-rewriter, cublas-gemm-rewriter{cublaslt large}";
  *why = NULL;
  if (!chosen->chosen.given || chosen->room.value < 0) {
    *why = "no algorithm is named";
    return NULL;
  }
  HlModule *m = as_program(p, fusion_body(fusion));
  if (run(p, m, products)) {
    if (choose_all(p, m, chosen) == 0)
      *why = "it has no product that cuBLAS computes";
    else if (run(p, m, "priority-fusion"))
      return m;
  }
  hl_module_free(m);
  return NULL;
}

void fission_inline(HlPass *p, HlInst *fusion, const HlModule *parts) {
  HlBuild b;
  HlComp *body = hl_called(fusion, 0);
  const HlComp *entry = parts->entry;
  hl_begin(p, "fission", fusion, &b);
  const Copies c = copy_called(p->arena, entry, p->m);
  HlInst **map = HL_ARRAY(p->arena, HlInst *, entry->next_id + 1);
  for (int k = 0; k < entry->n_params; k++)
    map[entry->params[k]->id] = fusion->operands[k];
  HlInst *by = copy_insts(&c, b.comp, entry, map);
  p->relay_control = true;
  const bool done = hl_commit(p, by);
  p->relay_control = false;
  if (done && !body->first_call)
    hl_comp_erase(body);
}
