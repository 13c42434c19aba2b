// Writes HLO as StableHLO or MHLO: instructions, computations in place and as regions, what ops carry along.
#include "mlir/from_hlo/from_hlo.h"

#include <stdio.h>
#include <string.h>

static FhRule *const rules[HL_OP_COUNT] = {
#define RULE(op, name) [HL_OP_##op] = fh_rule_##name,
#include "mlir/from_hlo/from_hlo.def"
#undef RULE
};

// --- Values -------------------------------------------------------------------------------------------

FhValue fh_value(Fh *f, int64_t n) {
  return (FhValue){HL_ARRAY(f->arena, HlMlValue *, n ? n : 1), (int)n};
}

void fh_copy(FhValue *out, FhValue from) {
  for (int k = 0; k < out->n && k < from.n; k++)
    out->at[k] = from.at[k];
}

void fh_results(const HlMlOp *op, FhValue *out) {
  for (int k = 0; k < out->n && k < (int)op->n_results; k++)
    out->at[k] = &op->results[k];
}

FhValue fh_operands(Fh *f, const HlInst *inst, int from, int to) {
  int n = 0;
  for (int k = from; k < to; k++)
    n += fh_operand(f, inst, k).n;
  FhValue all = fh_value(f, n);
  int at = 0;
  for (int k = from; k < to; k++) {
    FhValue one = fh_operand(f, inst, k);
    if (one.n)
      memcpy(all.at + at, one.at, (size_t)one.n * sizeof *one.at);
    at += one.n;
  }
  return all;
}

int64_t fh_leaf_at(const HlShape *shape, HlI64s path, int64_t *n) {
  int64_t at = 0;
  for (int k = 0; k < path.n; k++) {
    if (!hl_shape_is_tuple(shape) || path.at[k] < 0 || path.at[k] >= shape->rank) {
      *n = 0;
      return at;
    }
    for (int64_t e = 0; e < path.at[k]; e++)
      at += hl_shape_leaves(shape->element[e]);
    shape = shape->element[path.at[k]];
  }
  *n = hl_shape_leaves(shape);
  return at;
}

// --- Ops ----------------------------------------------------------------------------------------------

HlMlOp *fh_op(Fh *f, HlMlRow row, int n, HlMlValue *const *operands, int n_results,
              const HlMlType *const *types, int n_regions) {
  HlMlOp *op = ml_op(f->tree, f->block, row, n, operands, n_results, types, n_regions);
  if (f->mhlo)
    ml_rename(f->tree, op, row, HL_ML_MHLO);
  op->location = f->location;
  op->loc = f->inst ? f->inst->loc : 0;
  return op;
}

HlMlValue *fh_make(Fh *f, HlMlRow row, int n, HlMlValue *const *operands, const HlMlType *type) {
  return &fh_op(f, row, n, operands, 1, &type, 0)->results[0];
}

void fh_set(Fh *f, HlMlOp *op, MlName name, const HlMlAttr *value) {
  if (value)
    ml_set_attr(f->tree, op, name, value);
}

bool fh_fill(Fh *f, HlMlOp *op, const HlInst *inst) {
  bool ok = true;
  for (const MlAttrRow *row = ml_row_of(op)->attrs; row->name; row++)
    fh_set(f, op, row->name, fh_attr_of(f, op, row, inst, &ok));
  return ok;
}

// --- What an op carries along ----------------------------------------------------------------------------

static void set_sharding(Fh *f, HlMlOp *op, const HlSharding *sharding, int leaf, int n_leaves) {
  if (sharding->kind == HL_SHARDING_TUPLE && op->n_results == 1 && sharding->n_elements == n_leaves)
    sharding = sharding->element[leaf];
  fh_set(f, op, ML_A_MHLO_SHARDING, fh_sharding(f, sharding));
}

// The op that gives a value, past what takes tuples apart.
static HlMlOp *giver(const HlMlValue *value) {
  HlMlOp *op = value->def;
  while (op && op->row == ML_STABLEHLO_GET_TUPLE_ELEMENT)
    op = op->operands[0]->def;
  return op;
}

// Shardings and frontend attributes go to the ops that give the value, if they were made for it.
static void decorate(Fh *f, const HlInst *inst, const FhValue *out, uint32_t first_value) {
  const HlSharding *sharding = hl_sharding(inst);
  const HlDict *frontend = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  if (!sharding && !frontend)
    return;
  HlMlOp *last = NULL;
  for (int k = 0; k < out->n; k++) {
    HlMlOp *op = out->at[k] ? giver(out->at[k]) : NULL;
    if (!op || op == last || op->results[0].index < first_value)
      continue;
    last = op;
    if (sharding)
      set_sharding(f, last, sharding, k, out->n);
    if (frontend && !ml_attr(last, ML_A_MHLO_FRONTEND_ATTRIBUTES))
      fh_set(f, last, ML_A_MHLO_FRONTEND_ATTRIBUTES, fh_string_dict(f, frontend));
  }
  if (sharding && !last && inst->op != HL_OP_PARAMETER && inst != f->m->entry->root)
    fh_lose(f, FH_LOSS_SHARDING, inst);
}

bool fh_has_layout(const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      if (fh_has_layout(shape->element[k]))
        return true;
    return false;
  }
  return shape->layout && !hl_layout_is_default(shape->layout);
}

static void note_losses(Fh *f, const HlInst *inst) {
  if (inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CUSTOM_CALL && fh_has_layout(inst->shape))
    fh_lose(f, FH_LOSS_LAYOUT, inst);
  if (inst->control && inst->control->n_preds)
    fh_lose(f, FH_LOSS_CONTROL, inst);
  if (inst->op != HL_OP_CUSTOM_CALL && hl_has_attr(inst, HL_A_BACKEND_CONFIG))
    fh_lose(f, FH_LOSS_CONFIG, inst);
  if (hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT))
    fh_lose(f, FH_LOSS_CONSTRAIN, inst);
  if (hl_has_attr(inst, HL_A_EXTRA))
    fh_lose(f, FH_LOSS_UNKNOWN, inst);
}

// --- Instructions and computations ------------------------------------------------------------------------

// Ops through which leaves that no op gives may pass.
static bool passes_gaps(int op) {
  return op == HL_OP_TUPLE || op == HL_OP_GET_TUPLE_ELEMENT || op == HL_OP_ASYNC_UPDATE ||
         op == HL_OP_ASYNC_DONE || op == HL_OP_COPY_DONE || op == HL_OP_SEND_DONE ||
         op == HL_OP_RECV_DONE || op == HL_OP_ALL_GATHER_DONE ||
         op == HL_OP_COLLECTIVE_PERMUTE_DONE;
}

static bool check_operands(Fh *f, const HlInst *inst) {
  int n = hl_op_info[inst->op].n_operands;
  if (n != HL_ANY && (int)inst->n_operands != n)
    return hl_inst_error(f->cx, inst, "%u operands, expected %d", inst->n_operands, n);
  if ((inst->op == HL_OP_CALL || inst->op == HL_OP_FUSION) && inst->n_calls != 1)
    return hl_inst_error(f->cx, inst, "it calls %u computations, expected one",
                         (unsigned)inst->n_calls);
  if (passes_gaps(inst->op))
    return true;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    FhValue in = fh_operand(f, inst, (int)k);
    for (int leaf = 0; leaf < in.n; leaf++)
      if (!in.at[leaf])
        return fh_error(f, inst, "it uses what is internal to the asynchronous '%s'",
                        inst->operands[k]->name->text);
  }
  return true;
}

static bool write_inst(Fh *f, const HlInst *inst) {
  f->inst = inst;
  f->location = fh_location(f, inst);
  int64_t n = hl_shape_leaves(inst->shape);
  if (n > hl_cx_limits(f->cx)->tuple_leaves)
    return hl_error_kind(f->cx, HL_LIMIT, hl_pos(inst),
                         "a value of more than %lld leaves (limit tuple_leaves)",
                         (long long)hl_cx_limits(f->cx)->tuple_leaves);
  FhValue out = fh_value(f, n);
  uint32_t first_value = f->tree->n_values;
  if (!check_operands(f, inst))
    return false;
  FhRule *rule = rules[inst->op] ? rules[inst->op] : fh_default;
  if (!rule(f, inst, &out))
    return false;
  if (++f->n_written > hl_cx_limits(f->cx)->instructions)
    return hl_error_kind(
        f->cx, HL_LIMIT, hl_pos(inst),
        "more than %lld instructions: computations used in many places (limit instructions)",
        (long long)hl_cx_limits(f->cx)->instructions);
  decorate(f, inst, &out, first_value);
  note_losses(f, inst);
  f->env->of[inst->id] = out;
  return true;
}

static bool write_insts(Fh *f, const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (!write_inst(f, inst))
      return false;
  return true;
}

bool fh_inline(Fh *f, const HlComp *comp, const FhValue *args, FhValue *out) {
  if (f->depth >= hl_cx_limits(f->cx)->nesting)
    return hl_error_kind(f->cx, HL_LIMIT, hl_comp_pos(comp),
                         "computations nested deeper than %d (limit nesting)", f->depth);
  HlMark mark = hl_arena_mark(f->arena);
  FhEnv *outer = f->env, env = {comp, HL_ARRAY(f->arena, FhValue, comp->next_id + 1), args};
  const HlInst *inst = f->inst;
  const HlMlLocation *location = f->location;
  f->env = &env;
  f->depth++;
  bool ok = write_insts(f, comp);
  f->depth--;
  f->env = outer;
  f->inst = inst;
  f->location = location;
  if (ok)
    fh_copy(out, env.of[comp->root->id]);
  hl_arena_release(f->arena, mark);
  return ok;
}

// --- Regions ---------------------------------------------------------------------------------------------

static HlMlValue *as_type(Fh *f, HlMlValue *value, const HlMlType *type) {
  if (value->type == type)
    return value;
  return fh_make(f, ML_STABLEHLO_CONVERT, 1, &value, type);
}

const FhValue *fh_block_args(Fh *f, HlMlBlock *block, const HlComp *comp,
                             const HlMlType *const *args) {
  FhValue *values = HL_ARRAY(f->arena, FhValue, comp->n_params + 1);
  int at = 0;
  for (int p = 0; p < comp->n_params; p++) {
    values[p] = fh_value(f, hl_shape_leaves(comp->params[p]->shape));
    int64_t n;
    const HlMlType **types = fh_leaf_types(f, comp->params[p]->shape, &n);
    if (!types)
      return NULL;
    for (int k = 0; k < values[p].n; k++, at++) {
      HlMlValue *arg = hl_ml_arg(f->tree, block, args ? args[at] : types[k]);
      arg->location = fh_location(f, comp->params[p]);
      values[p].at[k] = arg;
    }
  }
  for (int p = 0; args && p < comp->n_params; p++) {
    int64_t n;
    const HlMlType **types = fh_leaf_types(f, comp->params[p]->shape, &n);
    for (int k = 0; types && k < values[p].n; k++)
      values[p].at[k] = as_type(f, values[p].at[k], types[k]);
  }
  return values;
}

bool fh_region(Fh *f, HlMlOp *op, int region, const HlComp *comp, const HlMlType *const *args,
               const HlMlType *const *results) {
  HlMlBlock *outer = f->block;
  f->block = hl_ml_block(f->tree, &op->regions[region]);
  HlMark mark = hl_arena_mark(f->arena);
  const FhValue *values = fh_block_args(f, f->block, comp, args);
  FhValue out = fh_value(f, hl_shape_leaves(comp->root->shape));
  bool ok = values && fh_inline(f, comp, values, &out);
  for (int k = 0; ok && k < out.n; k++) {
    ok = out.at[k] || fh_error(f, comp->root, "it gives what is internal to an asynchronous op");
    if (ok && results)
      out.at[k] = as_type(f, out.at[k], results[k]);
  }
  if (ok)
    fh_op(f, ML_STABLEHLO_RETURN, out.n, out.at, 0, NULL, 0);
  hl_arena_release(f->arena, mark);
  f->block = outer;
  return ok;
}

bool fh_branch(Fh *f, HlMlOp *op, int region, const HlComp *comp, FhValue arg) {
  HlMlBlock *outer = f->block;
  f->block = hl_ml_block(f->tree, &op->regions[region]);
  HlMark mark = hl_arena_mark(f->arena);
  FhValue out = fh_value(f, hl_shape_leaves(comp->root->shape));
  bool ok = fh_inline(f, comp, &arg, &out);
  if (ok)
    fh_op(f, ML_STABLEHLO_RETURN, out.n, out.at, 0, NULL, 0);
  hl_arena_release(f->arena, mark);
  f->block = outer;
  return ok;
}

// --- The default: the op whose row names the HLO op -----------------------------------------------------------

// Ops that give the elements of their operands, which HLO lets differ in precision.
static bool moves(int op) {
  return op == HL_OP_GATHER || op == HL_OP_RESHAPE || op == HL_OP_TRANSPOSE || op == HL_OP_SLICE ||
         op == HL_OP_REVERSE || op == HL_OP_PAD || op == HL_OP_CONCATENATE;
}

// Regions see scalars of the element types of operands and results, whatever the computation was written for.
bool fh_default(Fh *f, const HlInst *inst, FhValue *out) {
  const MlOpRow *row = ml_row(f->row[inst->op]);
  if (!f->row[inst->op])
    return fh_error(f, inst, "%s has no op for it", f->mhlo ? "MHLO" : "StableHLO");
  int64_t n;
  const HlMlType **types = fh_leaf_types(f, inst->shape, &n);
  if (!types)
    return false;
  FhValue in = fh_operands(f, inst, 0, (int)inst->n_operands);
  if (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE || moves(inst->op))
    fh_unify(f, inst, &in);
  if (inst->op == HL_OP_CONVOLUTION)
    fh_widen(f, &in);
  int n_regions = row->regions[0] ? inst->n_calls : 0;
  HlMlOp *op = fh_op(f, (HlMlRow)f->row[inst->op], in.n, in.at, (int)n, types, n_regions);
  fh_results(op, out);
  if (!fh_fill(f, op, inst))
    return false;
  for (int k = 0; k < n_regions; k++)
    if (!fh_scalar_region(f, op, k, inst))
      return false;
  return true;
}
