// rewrite/alternatives/parts.c: modules made of parts of a module, or of what is proposed for one: what the part reads is its parameters.

#include <stdlib.h>
#include <string.h>

#include "hilo/features.h"
#include "rewrite/alternatives/proposals.h"

typedef struct Part {
  HlCx *cx;
  const HlProposals *p;  // whose store instructions may be of; NULL
  HlModule *to;
  HlComp *entry;
  Map like;                  // instructions of the part by those they are copies of
  VEC(const HlComp *) from;  // computations that are called, and their copies
  VEC(HlComp *) comps;
  int n_params;
} Part;

static Part part_new(HlCx *cx, const HlProposals *p, const char *name) {
  Part part = {.cx = cx, .p = p, .to = hl_module_new(name, NULL), .like.arena = hl_cx_scratch(cx)};
  part.entry = hl_comp_new(part.to, name, strlen(name));
  hl_comp_set_entry(part.entry);
  return part;
}

static HlInst *add_param(Part *part, const HlInst *inst, const HlSym *name) {
  HlInst *param = hl_parameter_new(part->entry, part->n_params++,
                                   hl_shape_intern(part->to->shapes, inst->shape), name);
  map_put_ptr(&part->like, inst, param);
  return param;
}

static HlComp *called(Part *part, const HlComp *comp) {
  for (int k = 0; k < part->from.n; k++)
    if (part->from.at[k] == comp)
      return part->comps.at[k];
  HlComp *to = hl_comp_new(part->to, comp->name->text, comp->name->n);
  if (comp->is_fusion)
    hl_comp_set_fusion(to);
  if (comp->execution_thread)
    hl_comp_set_thread(to, hl_sym(part->to, comp->execution_thread->text));
  vec_push_in(hl_cx_scratch(part->cx), &part->from, comp);
  vec_push_in(hl_cx_scratch(part->cx), &part->comps, to);
  return to;
}

static const HlComp *nth_called(const Part *part, const HlInst *inst, int k) {
  const Calls *calls = part->p ? store_calls(part->p, inst) : NULL;
  return !calls ? inst->calls[k].comp : calls->known[k] ? calls->known[k] : calls->made[k];
}

static int n_called(const Part *part, const HlInst *inst) {
  const Calls *calls = part->p ? store_calls(part->p, inst) : NULL;
  return calls ? calls->n : inst->n_calls;
}

// Whoever wants a body of its own gets one.
static void set_calls(Part *part, HlInst *copy, const HlInst *inst) {
  const int n = n_called(part, inst);
  HlComp **comps = HL_ARRAY(hl_cx_scratch(part->cx), HlComp *, n + 1);
  for (int k = 0; k < n; k++)
    comps[k] = called(part, nth_called(part, inst, k));
  if (n > 0)
    hl_set_calls(copy, n, comps);
}

static HlInst *add_copy(Part *part, HlComp *to, const HlInst *inst, HlInst *const *operands) {
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(part->to->shapes, inst->shape),
                             hl_sym(part->to, inst->name->text), (int)inst->n_operands, operands);
  hl_copy_attrs(copy, inst);
  hl_remove_attr(copy, HL_A_METADATA);
  set_calls(part, copy, inst);
  return copy;
}

// A copy whose operands are the copies of the instruction's.
static HlInst *add_like(Part *part, HlComp *to, const HlInst *inst) {
  HlInst **operands = HL_ARRAY(hl_cx_scratch(part->cx), HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = map_get_ptr(&part->like, inst->operands[k]);
  HlInst *copy = add_copy(part, to, inst, operands);
  map_put_ptr(&part->like, inst, copy);
  return copy;
}

static void copy_body(Part *part, const HlComp *from, HlComp *to) {
  for (const HlInst *inst = from->first; inst; inst = inst->next) {
    HlInst *copy = add_like(part, to, inst);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      hl_add_control(map_get_ptr(&part->like, inst->control->preds[k]), copy);
  }
  hl_set_root(to, map_get_ptr(&part->like, from->root));
}

// Who wants a body of its own and shares one gets a copy.
static void own_bodies(Part *part) {
  for (HlInst *inst = part->entry->first; inst; inst = inst->next) {
    HlComp *body = inst->op == HL_OP_FUSION && inst->n_calls == 1 ? inst->calls[0].comp : NULL;
    if (body && body->first_call != body->last_call)
      hl_set_calls(inst, 1, (HlComp *[]){hl_comp_copy(part->to, body, "clone", true, NULL)});
  }
}

static HlModule *finish(Part *part, HlInst *root) {
  hl_set_root(part->entry, root);
  for (int k = 0; k < part->from.n; k++)
    copy_body(part, part->from.at[k], part->comps.at[k]);
  own_bodies(part);
  hl_complete_entry_layout(part->to);
  hl_unique_names(part->to);
  if (hl_sort_comps(part->cx, part->to))
    return part->to;
  hl_module_free(part->to);
  return NULL;
}

// --- One instruction ------------------------------------------------------------------------------------

static HlModule *inst_module(HlCx *cx, const HlInst *inst, int64_t repeat) {
  Part part = part_new(cx, NULL, "module");
  HlInst **operands = HL_ARRAY(hl_cx_scratch(cx), HlInst *, inst->n_operands + 1), *last = NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const char *name = hl_arena_printf(hl_cx_scratch(cx), "param%u", k);
    operands[k] = add_param(&part, inst->operands[k], hl_sym(part.to, name));
  }
  for (int64_t k = 0; k < repeat; k++) {
    HlInst *copy = add_copy(&part, part.entry, inst, operands);
    if (last)
      hl_add_control(last, copy);
    last = copy;
  }
  return finish(&part, last);
}

HlModule *hl_inst_module(HlCx *cx, const HlInst *inst, int64_t repeat) {
  if (repeat < 1 || repeat > 1 << 20) {
    hl_error(cx, (HlPos){0}, "an instruction is repeated 1 to 1048576 times");
    return NULL;
  }
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  HlModule *m = inst_module(cx, inst, repeat);
  hl_arena_release(hl_cx_scratch(cx), mark);
  return m;
}

// --- What an instruction is computed from ---------------------------------------------------------------

// Puts instructions, operands first, into the part; what they read and is not among them is parameters.
static HlModule *make_part(Part *part, HlInst *const *insts, int n, const HlInst *root) {
  for (int k = 0; k < n; k++) {
    const HlInst *inst = insts[k];
    for (uint32_t i = 0; i < inst->n_operands; i++)
      if (!map_get_ptr(&part->like, inst->operands[i]))
        add_param(part, inst->operands[i], hl_sym(part->to, inst->operands[i]->name->text));
    if (inst->op == HL_OP_PARAMETER)
      add_param(part, inst, hl_sym(part->to, inst->name->text));
    else
      add_like(part, part->entry, inst);
  }
  HlInst *last = map_get_ptr(&part->like, root);
  return finish(part, last ? last : add_param(part, root, hl_sym(part->to, root->name->text)));
}

static int by_place(const void *a, const void *b) {
  const uint64_t x = hl_place(*(HlInst *const *)a), y = hl_place(*(HlInst *const *)b);
  return x < y ? -1 : x > y;
}

static HlModule *cone_module(HlCx *cx, const HlInst *inst, int64_t height) {
  HlArena *arena = hl_cx_scratch(cx);
  Map seen = {.arena = arena};
  InstList found = {0};
  vec_push_in(arena, &found, (HlInst *)inst);
  *map_at(&seen, map_key(inst)) = 1;
  for (int begin = 0, end = 1; height > 0 && begin < end; height--, begin = end, end = found.n)
    for (int k = begin; k < end; k++)
      for (uint32_t i = 0; i < found.at[k]->n_operands; i++) {
        HlInst *operand = found.at[k]->operands[i];
        uint64_t *at = map_at(&seen, map_key(operand));
        if (*at == 0)
          vec_push_in(arena, &found, operand);
        *at = 1;
      }
  qsort(found.at, (size_t)found.n, sizeof *found.at, by_place);
  Part part = part_new(cx, NULL, "extracted");
  return make_part(&part, found.at, found.n, inst);
}

HlModule *hl_cone_module(HlCx *cx, const HlInst *inst, int64_t height) {
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  HlModule *m = cone_module(cx, inst, height);
  hl_arena_release(hl_cx_scratch(cx), mark);
  return m;
}

// --- Proposals ------------------------------------------------------------------------------------------

static bool is_there(HlCx *cx, const HlProposals *p, int k) {
  return (k >= 0 && k < p->offers.n) ||
         hl_error(cx, (HlPos){0}, "there is no proposal %d: there are %d", k, p->offers.n);
}

HlModule *hl_proposal_original(HlCx *cx, const HlModule *m, const HlProposals *p, int k) {
  if (!is_there(cx, p, k))
    return NULL;
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  int n;
  HlInst **insts = region_of(arena, &p->offers.at[k], &n);
  Part part = part_new(cx, NULL, "original");
  HlModule *out = make_part(&part, insts, n, p->offers.at[k].old);
  hl_arena_release(arena, mark);
  return out;
}

// What stands for instructions of the module in the stage becomes parameters.
HlModule *hl_proposal_replacement(HlCx *cx, const HlModule *m, const HlProposals *p, int k) {
  if (!is_there(cx, p, k))
    return NULL;
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  const Offer *offer = &p->offers.at[k];
  InstList found = {0};
  bool *seen = HL_ARRAY(arena, bool, offer->stage->comp->next_id + 1);
  vec_push_in(arena, &found, offer->by);
  for (int i = 0; i < found.n; i++) {
    const HlInst *inst = found.at[i];
    for (uint32_t o = 0; o < inst->n_operands; o++) {
      if (!seen[inst->operands[o]->id])
        vec_push_in(arena, &found, inst->operands[o]);
      seen[inst->operands[o]->id] = true;
    }
  }
  qsort(found.at, (size_t)found.n, sizeof *found.at, by_place);
  Part part = part_new(cx, p, "replacement");
  HlModule *out = make_part(&part, found.at, found.n, offer->by);
  hl_arena_release(arena, mark);
  return out;
}

int64_t *hl_proposal_uids(HlArena *arena, const HlModule *m, const HlProposals *p, int k, int *n) {
  HlInst **insts = region_of(arena, &p->offers.at[k], n);
  int64_t *out = HL_ARRAY(arena, int64_t, *n + 1);
  for (int i = 0; i < *n; i++)
    out[i] = hl_uid(insts[i]);
  return out;
}
