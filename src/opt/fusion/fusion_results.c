// opt/fusion/fusion_results.c: fusions of several results.
//
//   f = f32[8] fusion(x), calls={ ROOT exp(x) }      t = (f32[8], f32[8]) fusion(x), calls={
//   n = f32[8] negate(x)                       =>      ROOT tuple(exp(x), negate(x)) }
//                                                    f = f32[8] get-tuple-element(t), index=0
//                                                    n = f32[8] get-tuple-element(t), index=1

#include <assert.h>
#include <string.h>

#include "hilo/edit.h"
#include "opt/fusion/fusion.h"

// The results inside the body and, outside, who stands for each.
typedef struct Results {
  HlInst **inner;
  int n;
} Results;

static bool has_tuple_root(const HlInst *fusion) {
  return fusion_body(fusion)->root->op == HL_OP_TUPLE && hl_shape_is_tuple(fusion->shape);
}

static HlInst *new_element(HlInst *tuple, int k, const HlSym *name) {
  HlInst *element =
      hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], name, 1, &tuple);
  hl_set_int(element, HL_A_INDEX, k);
  return element;
}

// The elements of a tuple, also of one that a single operation gives (a reduction of several arrays).
static void add_results(Results *results, HlInst *root, bool is_tuple) {
  if (!is_tuple) {
    results->inner[results->n++] = root;
    return;
  }
  for (int k = 0; k < root->shape->rank; k++)
    results->inner[results->n++] =
        root->op == HL_OP_TUPLE
            ? root->operands[k]
            : new_element(root, k, hl_fresh_name(root->comp->module, "get-tuple-element"));
}

// Users of an instruction read elements first, first + 1, ... of the tuple instead.
static void redirect(HlArena *scratch, HlInst *from, bool was_tuple, HlInst *tuple, int first) {
  HlModule *m = from->comp->module;
  if (!was_tuple) {
    HlInst *element = new_element(tuple, first, hl_fresh_name(m, "get-tuple-element"));
    hl_inherit(element, from);
    hl_replace_uses(from, element);
    return;
  }
  int n = 0;
  for (HlUse *use = from->first_use; use; use = use->next)
    n++;
  HlInst **users = HL_ARRAY(scratch, HlInst *, n + 1);
  n = 0;
  for (HlUse *use = from->first_use; use; use = use->next)
    users[n++] = use->user;
  for (int k = 0; k < n; k++) {
    assert(users[k]->op == HL_OP_GET_TUPLE_ELEMENT);
    int64_t index = hl_attr_int(users[k], HL_A_INDEX);
    hl_set_operand(users[k], 0, tuple);
    hl_set_int(users[k], HL_A_INDEX, index + first);
  }
}

static const HlShape *shape_of(HlArena *scratch, HlModule *m, const Results *results) {
  const HlShape **shapes = HL_ARRAY(scratch, const HlShape *, results->n);
  for (int k = 0; k < results->n; k++)
    shapes[k] = results->inner[k]->shape;
  return hl_shape_tuple(m->shapes, results->n, shapes);
}

HlInst *fusion_add_result(HlArena *scratch, HlInst *fusion, HlInst *inst) {
  HlMark mark = hl_arena_mark(scratch);
  HlModule *m = fusion->comp->module;
  bool was_tuple = has_tuple_root(fusion), adds_tuple = hl_shape_is_tuple(inst->shape);
  int n_old = was_tuple ? fusion->shape->rank : 1, n_new = adds_tuple ? inst->shape->rank : 1;
  HlInst *copy = fusion_operand_index(fusion, inst) >= 0 ? fusion_fuse(scratch, fusion, inst)
                                                         : fusion_take_in(scratch, fusion, inst);
  fusion_replace_operand(scratch, fusion, inst, copy);  // a fusion may read it several times
  HlComp *body = fusion_body(fusion);
  HlInst *old_root = body->root;
  Results results = {.inner = HL_ARRAY(scratch, HlInst *, n_old + n_new)};
  add_results(&results, old_root, was_tuple);
  add_results(&results, copy, adds_tuple);
  const HlShape *shape = shape_of(scratch, m, &results);
  HlInst *root = hl_inst_new(body, HL_OP_TUPLE, shape, NULL, results.n, results.inner);
  hl_set_root(body, root);
  if (was_tuple)
    hl_erase(old_root);
  if (adds_tuple && copy->op == HL_OP_TUPLE)
    hl_erase(copy);
  const HlSym *name = hl_fresh_name(m, fusion->name->text);
  HlInst *grown = hl_inst_new(fusion->comp, HL_OP_FUSION, shape, name, (int)fusion->n_operands,
                              fusion->operands);
  hl_copy_attrs(grown, fusion);
  hl_remove_attr(grown, HL_A_SHARDING);  // it was that of fewer results
  hl_set_calls(grown, 1, &body);
  redirect(scratch, fusion, was_tuple, grown, 0);
  redirect(scratch, inst, adds_tuple, grown, n_old);
  hl_erase(fusion);
  fusion_erase(inst);
  hl_arena_release(scratch, mark);
  return grown;
}
