// Turns composites and custom calls of known names back into the ops that they were made of.
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/to_hlo/to_hlo.h"

// Ops that travel as calls, or as composites of the same names in CHLO: mhlo.acos, chlo.acos.
static const struct {
  HlCallTarget call;
  HlMlRow row;
} known[] = {{HL_CALL_MHLO_TOP_K, ML_CHLO_TOP_K},  {HL_CALL_MHLO_TOPK, ML_CHLO_TOP_K},
             {HL_CALL_MHLO_TAN, ML_STABLEHLO_TAN}, {HL_CALL_MHLO_ERF, ML_CHLO_ERF},
             {HL_CALL_MHLO_ACOS, ML_CHLO_ACOS},    {HL_CALL_MHLO_ACOSH, ML_CHLO_ACOSH},
             {HL_CALL_MHLO_ASIN, ML_CHLO_ASIN},    {HL_CALL_MHLO_ASINH, ML_CHLO_ASINH},
             {HL_CALL_MHLO_ATANH, ML_CHLO_ATANH},  {HL_CALL_MHLO_COSH, ML_CHLO_COSH},
             {HL_CALL_MHLO_SINH, ML_CHLO_SINH},    {HL_CALL_MHLO_RAGGED_DOT, ML_CHLO_RAGGED_DOT}};

static HlMlRow known_op(const HlSym *name) {
  const size_t prefix = strlen("mhlo.");
  if (!name ||
      (strncmp(name->text, "chlo.", prefix) != 0 && strncmp(name->text, "mhlo.", prefix) != 0))
    return ML_NONE;
  for (int k = 0; k < HL_COUNT_OF(known); k++)
    if (strcmp(name->text + prefix, hl_call_info[known[k].call].name + prefix) == 0)
      return known[k].row;
  return ML_NONE;
}

// The op that a composite or call stands for, and the dictionary of its attributes; ML_NONE: it stands for itself.
static HlMlRow stands_for(const HlMlOp *op, const HlMlAttr **attrs) {
  if (op->row == ML_STABLEHLO_COMPOSITE) {
    *attrs = ml_attr(op, ML_A_COMPOSITE_ATTRIBUTES);
    return op->n_regions == 0 ? known_op(ml_attr_sym(op, ML_A_NAME)) : ML_NONE;
  }
  if (op->row != ML_STABLEHLO_CUSTOM_CALL)
    return ML_NONE;
  *attrs = ml_attr(op, ML_A_MHLO_ATTRIBUTES);
  return known_op(ml_attr_sym(op, ML_A_CALL_TARGET_NAME));
}

// The new op's attributes are the dictionary's, and what is discardable of the old one's.
static void take_attributes(HlMlTree *tree, HlMlOp *fresh, const HlMlOp *op,
                            const HlMlAttr *attrs) {
  if (attrs && attrs->kind == HL_ML_A_DICT)
    for (int k = 0; k < attrs->n; k++)
      if (ml_find_attr(ml_row_of(fresh), (MlName)attrs->dict[k].id))
        ml_set_attr(tree, fresh, (MlName)attrs->dict[k].id, attrs->dict[k].value);
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    const MlName name = (MlName)op->attrs[k].id;
    if (name == ML_A_MHLO_SHARDING || name == ML_A_MHLO_FRONTEND_ATTRIBUTES ||
        name == ML_A_SDY_SHARDING)
      ml_set_attr(tree, fresh, name, op->attrs[k].value);
  }
}

// Results of fresh ops in place of the old ones', by the index of the old value.
typedef struct Replaced {
  HlMlValue **by;
  uint32_t n;
} Replaced;

static void recompose_op(HlMlTree *tree, HlMlOp *op, HlMlRow row, const HlMlAttr *attrs,
                         Replaced *replaced) {
  const HlMlType **types = HL_ARRAY(tree->arena, const HlMlType *, op->n_results + 1);
  for (uint32_t k = 0; k < op->n_results; k++)
    types[k] = op->results[k].type;
  HlMlOp *fresh =
      ml_op(tree, NULL, row, (int)op->n_operands, op->operands, (int)op->n_results, types, 0);
  fresh->location = op->location;
  fresh->loc = op->loc;
  take_attributes(tree, fresh, op, attrs);
  hl_ml_place_before(fresh, op);
  for (uint32_t k = 0; k < op->n_results; k++)
    if (op->results[k].index < replaced->n)
      replaced->by[op->results[k].index] = &fresh->results[k];
  hl_ml_unlink(op);
}

static void recompose_region(HlMlTree *tree, HlMlRegion *region, Replaced *replaced) {
  for (HlMlBlock *block = region->first; block; block = block->next)
    for (HlMlOp *op = block->first, *next; op; op = next) {
      next = op->next;
      for (uint32_t k = 0; k < op->n_operands; k++)
        if (op->operands[k]->index < replaced->n && replaced->by[op->operands[k]->index])
          op->operands[k] = replaced->by[op->operands[k]->index];
      for (uint32_t k = 0; k < op->n_regions; k++)
        recompose_region(tree, &op->regions[k], replaced);
      const HlMlAttr *attrs = NULL;
      const HlMlRow row = stands_for(op, &attrs);
      if (row != ML_NONE)
        recompose_op(tree, op, row, attrs, replaced);
    }
}

bool ml_recompose(HlCx *cx, HlMlTree *tree) {
  HlArena *scratch = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(scratch);
  Replaced replaced = {HL_ARRAY(scratch, HlMlValue *, tree->n_values + 1), tree->n_values};
  recompose_region(tree, &tree->module->regions[0], &replaced);
  hl_arena_release(scratch, mark);
  return true;
}
