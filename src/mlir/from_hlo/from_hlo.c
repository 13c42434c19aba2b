// Writes an HLO module as StableHLO or MHLO: the module, its functions, and what is lost on the way.
#include "mlir/from_hlo/from_hlo.h"

#include <stdio.h>
#include <string.h>

// --- Errors and losses --------------------------------------------------------------------------------

bool fh_error(Fh *f, const HlInst *inst, const char *format, ...) {
  va_list args;
  va_start(args, format);
  HlBuf text = {0};
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_error_kind(f->cx, HL_UNSUPPORTED, hl_pos(inst), "%s '%s': %s", hl_op_text(inst->op),
                inst->name->text, text.at);
  hl_buf_free(&text);
  return false;
}

void fh_lose(Fh *f, FhLoss loss, const HlInst *inst) {
  FhLost *lost = &f->lost[loss];
  if (lost->n++)
    return;
  lost->pos = inst ? hl_pos(inst) : hl_module_pos(f->m);
  lost->name = inst ? inst->name : NULL;
}

static const char *const loss_text[FH_LOSS_COUNT] = {
    [FH_LOSS_LAYOUT] = "layouts dropped",
    [FH_LOSS_FUSION] = "fusions written in place",
    [FH_LOSS_CONTROL] = "control dependencies dropped",
    [FH_LOSS_CONFIG] = "backend configs dropped",
    [FH_LOSS_SHARDING] = "shardings of values that no op gives dropped",
    [FH_LOSS_DOMAIN] = "domains dropped",
    [FH_LOSS_ASYNC] = "asynchronous ops written as the op itself",
    [FH_LOSS_ELIDED] = "constants without a value kept as dense_resource<__elided__>",
    [FH_LOSS_CALL_ATTRS] =
        "custom calls lose attributes that have no place (window, dim_labels, precision, ...)",
    [FH_LOSS_CALL_LAYOUTS] = "custom calls with tuples lose their layouts",
    [FH_LOSS_SCHEDULE] = "schedules dropped",
    [FH_LOSS_ALIAS] = "aliases dropped or weakened to may-alias",
    [FH_LOSS_CONSTRAIN] = "constrain_layout dropped",
    [FH_LOSS_PRECISION] = "precisions of dots with an algorithm dropped",
    [FH_LOSS_TRACE] = "traces dropped",
    [FH_LOSS_SPMD] =
        "settings of the header dropped (sharding propagation, alias_passthrough_params)",
    [FH_LOSS_UNKNOWN] = "instructions lose attributes that are unknown"};

static void tell_losses(Fh *f) {
  for (int k = 0; k < FH_LOSS_COUNT; k++) {
    const FhLost *lost = &f->lost[k];
    if (lost->n && lost->name)
      hl_tell(f->cx, lost->pos, "%s: %lld, first '%s'", loss_text[k], (long long)lost->n,
              lost->name->text);
    else if (lost->n)
      hl_tell(f->cx, lost->pos, "%s", loss_text[k]);
  }
}

// --- Functions -------------------------------------------------------------------------------------------

static bool name_is_taken(const Fh *f, const HlSym *name) {
  for (int k = 0; k < f->n_todo; k++)
    if (f->function[f->todo[k]->id] == name)
      return true;
  return false;
}

const HlSym *fh_function(Fh *f, const HlComp *comp) {
  if (f->function[comp->id])
    return f->function[comp->id];
  const HlSym *name = hl_ml_sym(f->tree, comp == f->m->entry ? "main" : comp->name->text);
  char text[300];
  for (int k = 0; name_is_taken(f, name); k++) {
    snprintf(text, sizeof text, "%.250s_%d", comp->name->text, k);
    name = hl_ml_sym(f->tree, text);
  }
  f->function[comp->id] = name;
  f->todo[f->n_todo++] = comp;
  return name;
}

typedef struct Attrs {  // attributes of an argument or a result, while they gather
  HlMlNamed at[6];
  int n;
} Attrs;

static void add_attr(Fh *f, Attrs *attrs, MlName name, const HlMlAttr *value) {
  if (attrs->n < HL_COUNT_OF(attrs->at))
    attrs->at[attrs->n++] = fh_named(f, name, value);
}

static const HlSharding *leaf_sharding(const HlSharding *sharding, int64_t leaf) {
  if (!sharding || sharding->kind != HL_SHARDING_TUPLE)
    return sharding;
  return leaf < sharding->n_elements ? sharding->element[leaf] : NULL;
}

static void describe_params(Fh *f, const HlComp *comp, Attrs *attrs) {
  int64_t at = 0;
  for (int p = 0; p < comp->n_params; p++) {
    const HlInst *param = comp->params[p];
    int64_t n = hl_shape_leaves(param->shape);
    const HlDict *frontend = hl_attr_ptr(param, HL_A_FRONTEND_ATTRIBUTES);
    HlI64s replicated = hl_attr_ints(param, HL_A_PARAMETER_REPLICATION);
    for (int64_t k = 0; k < n; k++, at++) {
      const HlSharding *sharding = leaf_sharding(hl_sharding(param), k);
      if (sharding)
        add_attr(f, &attrs[at], ML_A_MHLO_SHARDING, fh_sharding(f, sharding));
      if (frontend)
        add_attr(f, &attrs[at], ML_A_MHLO_FRONTEND_ATTRIBUTES, fh_string_dict(f, frontend));
      if (k < replicated.n) {
        const HlMlAttr *yes = hl_ml_bool(f->tree, replicated.at[k] != 0);
        add_attr(f, &attrs[at], ML_A_MHLO_PARAMETER_REPLICATION, hl_ml_array(f->tree, 1, &yes));
      }
    }
  }
}

// Which argument of the entry a path in a parameter is; -1: not exactly one.
static int64_t arg_at(const HlComp *entry, int64_t number, HlI64s path) {
  if (number < 0 || number >= entry->n_params)
    return -1;
  int64_t at = 0, n;
  for (int64_t p = 0; p < number; p++)
    at += hl_shape_leaves(entry->params[p]->shape);
  at += fh_leaf_at(entry->params[number]->shape, path, &n);
  return n == 1 ? at : -1;
}

static void describe_aliases(Fh *f, Attrs *attrs) {
  const HlModule *m = f->m;
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlAlias *alias = &m->input_output_alias.at[k];
    int64_t n, arg = arg_at(m->entry, alias->number, alias->index);
    int64_t result = fh_leaf_at(m->entry->root->shape, alias->output, &n);
    if (arg >= 0 && n == 1)
      add_attr(f, &attrs[arg], ML_A_TF_ALIASING_OUTPUT, fh_i32(f, result));
    if (arg < 0 || n != 1 || alias->kind == HL_WORD_alias_kind_MUST)
      fh_lose(f, FH_LOSS_ALIAS, NULL);
  }
  for (int k = 0; k < m->n_buffer_donor; k++) {
    int64_t arg = arg_at(m->entry, m->buffer_donor[k].number, m->buffer_donor[k].index);
    bool is_aliased = false;  // which says more
    for (int a = 0; arg >= 0 && a < attrs[arg].n; a++)
      is_aliased |= attrs[arg].at[a].id == ML_A_TF_ALIASING_OUTPUT;
    if (arg >= 0 && !is_aliased)
      add_attr(f, &attrs[arg], ML_A_JAX_BUFFER_DONOR, hl_ml_bool(f->tree, true));
    else
      fh_lose(f, FH_LOSS_ALIAS, NULL);
  }
}

static void set_dicts(Fh *f, HlMlOp *op, MlName name, int64_t n, const Attrs *attrs) {
  bool any = false;
  const HlMlAttr **dicts = HL_ARRAY(f->arena, const HlMlAttr *, n + 1);
  for (int64_t k = 0; k < n; k++) {
    any |= attrs[k].n > 0;
    dicts[k] = hl_ml_dict(f->tree, attrs[k].n, attrs[k].at);
  }
  if (any)
    fh_set(f, op, name, hl_ml_array(f->tree, (int)n, dicts));
}

// The types of a computation's parameters, then of its results.
static const HlMlType *function_type(Fh *f, const HlComp *comp, int64_t *n_args,
                                     int64_t *n_results) {
  *n_args = 0;
  for (int p = 0; p < comp->n_params; p++)
    *n_args += hl_shape_leaves(comp->params[p]->shape);
  *n_results = hl_shape_leaves(comp->root->shape);
  const HlMlType **types = HL_ARRAY(f->arena, const HlMlType *, *n_args + *n_results + 1),
                 **at = types;
  for (int p = 0; p < comp->n_params; p++) {
    if (!fh_types(f, comp->params[p]->shape, at))
      return NULL;
    at += hl_shape_leaves(comp->params[p]->shape);
  }
  if (!fh_types(f, comp->root->shape, at))
    return NULL;
  return hl_ml_function_type(f->tree, (int)*n_args, types, (int)*n_results, at);
}

static void describe_function(Fh *f, HlMlOp *op, const HlComp *comp, int64_t n_args,
                              int64_t n_results) {
  Attrs *args = HL_ARRAY(f->arena, Attrs, n_args + 1),
        *results = HL_ARRAY(f->arena, Attrs, n_results + 1);
  describe_params(f, comp, args);
  if (comp == f->m->entry)
    describe_aliases(f, args);
  const HlInst *root = comp->root;
  for (int64_t k = 0; k < n_results && root->op == HL_OP_TUPLE; k++) {
    const HlSharding *sharding = leaf_sharding(hl_sharding(root), k);
    if (sharding)
      add_attr(f, &results[k], ML_A_MHLO_SHARDING, fh_sharding(f, sharding));
  }
  set_dicts(f, op, ML_A_ARG_ATTRS, n_args, args);
  set_dicts(f, op, ML_A_RES_ATTRS, n_results, results);
}

static bool write_body(Fh *f, HlMlOp *op, const HlComp *comp) {
  f->block = hl_ml_block(f->tree, &op->regions[0]);
  const FhValue *args = fh_block_args(f, f->block, comp, NULL);
  FhValue out = fh_value(f, hl_shape_leaves(comp->root->shape));
  if (!args || !fh_inline(f, comp, args, &out))
    return false;
  for (int k = 0; k < out.n; k++)
    if (!out.at[k])
      return fh_error(f, comp->root, "it gives what is internal to an asynchronous op");
  f->location = NULL;
  fh_op(f, ML_FUNC_RETURN, out.n, out.at, 0, NULL, 0);
  return true;
}

// An asynchronous op wants the thread of what it calls.
static bool is_started(const HlComp *comp) {
  return comp->first_call && comp->first_call->caller->op == HL_OP_ASYNC_START;
}

static bool write_function(Fh *f, const HlComp *comp) {
  HlMark mark = hl_arena_mark(f->arena);
  int64_t n_args, n_results;
  const HlMlType *type = function_type(f, comp, &n_args, &n_results);
  if (!type)
    return false;
  HlMlBlock *module = hl_ml_body(f->tree->module, 0);
  HlMlOp *op = ml_op(f->tree, module, ML_FUNC_FUNC, 0, NULL, 0, NULL, 1);
  fh_set(f, op, ML_A_SYM_NAME, hl_ml_string_of(f->tree, fh_function(f, comp)));
  fh_set(f, op, ML_A_SYM_VISIBILITY, fh_text(f, comp == f->m->entry ? "public" : "private"));
  fh_set(f, op, ML_A_FUNCTION_TYPE, hl_ml_type_attr(f->tree, type));
  describe_function(f, op, comp, n_args, n_results);
  const char *thread = comp->execution_thread ? comp->execution_thread->text : "";
  if (f->mhlo && is_started(comp))
    fh_set(f, op, ML_A_EXECUTION_THREAD, fh_text(f, thread[0] ? thread : "main"));
  bool ok = write_body(f, op, comp);
  hl_arena_release(f->arena, mark);
  return ok;
}

// --- The module ---------------------------------------------------------------------------------------------

// Layouts of all leaves in a list, and their tiles.
static void add_layouts(Fh *f, const HlShape *shape, const HlMlAttr **layout,
                        const HlMlAttr **tiles, int64_t *n) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      add_layouts(f, shape->element[k], layout, tiles, n);
    return;
  }
  layout[*n] = fh_layout(f, shape);
  tiles[(*n)++] = fh_tiles(f, shape);
}

static bool has_tiles(const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      if (has_tiles(shape->element[k]))
        return true;
    return false;
  }
  return shape->layout && shape->layout->extra && shape->layout->extra->n_tiles;
}

static void describe_entry_layout(Fh *f) {
  const HlModule *m = f->m;
  if (!m->entry_params || !m->entry_result)
    return;
  bool any = fh_has_layout(m->entry_result), tiled = has_tiles(m->entry_result);
  int64_t n = hl_shape_leaves(m->entry_result);
  for (int p = 0; p < m->n_entry_params; p++) {
    any |= fh_has_layout(m->entry_params[p]);
    tiled |= has_tiles(m->entry_params[p]);
    n += hl_shape_leaves(m->entry_params[p]);
  }
  if (!any)
    return;
  const HlMlAttr **layout = HL_ARRAY(f->arena, const HlMlAttr *, n + 1),
                 **tiles = HL_ARRAY(f->arena, const HlMlAttr *, n + 1);
  int64_t n_args = 0, n_results = 0;
  for (int p = 0; p < m->n_entry_params; p++)
    add_layouts(f, m->entry_params[p], layout, tiles, &n_args);
  add_layouts(f, m->entry_result, layout + n_args, tiles + n_args, &n_results);
  HlMlOp *op = f->tree->module;
  fh_set(f, op, ML_A_MHLO_XLA_ENTRY_COMPUTATION_PARAMETER_LAYOUTS,
         hl_ml_array(f->tree, (int)n_args, layout));
  const HlMlAttr *results = hl_ml_array(f->tree, (int)n_results, layout + n_args);
  fh_set(f, op, ML_A_MHLO_XLA_ENTRY_COMPUTATION_RESULT_LAYOUT, results);
  if (!tiled)
    return;
  fh_set(f, op, ML_A_MHLO_XLA_ENTRY_COMPUTATION_PARAMETER_TILES,
         hl_ml_array(f->tree, (int)n_args, tiles));
  fh_set(f, op, ML_A_MHLO_XLA_ENTRY_COMPUTATION_RESULT_TILES,
         hl_ml_array(f->tree, (int)n_results, tiles + n_args));
}

static void describe_module(Fh *f) {
  const HlModule *m = f->m;
  HlMlOp *op = f->tree->module;
  fh_set(f, op, ML_A_SYM_NAME, hl_ml_string(f->tree, m->name->text, m->name->n));
  fh_set(f, op, ML_A_MHLO_NUM_PARTITIONS, fh_i32(f, m->num_partitions));
  fh_set(f, op, ML_A_MHLO_NUM_REPLICAS, fh_i32(f, m->replica_count));
  if (m->frontend_attributes.n)
    fh_set(f, op, ML_A_MHLO_FRONTEND_ATTRIBUTES, fh_string_dict(f, &m->frontend_attributes));
  if (m->use_auto_spmd)
    fh_set(f, op, ML_A_MHLO_USE_AUTO_SPMD_PARTITIONING, hl_ml_bool(f->tree, true));
  if (m->is_dynamic)
    fh_set(f, op, ML_A_MHLO_IS_DYNAMIC, hl_ml_bool(f->tree, true));
  if (m->spmd_output_sharding)
    fh_set(f, op, ML_A_MHLO_SPMD_OUTPUT_SHARDING, fh_sharding(f, m->spmd_output_sharding));
  static const HlSharding whole = {.kind = HL_SHARDING_REPLICATED};
  if (m->n_spmd_parameter_shardings) {
    int n = m->n_spmd_parameter_shardings;
    const HlMlAttr **list = HL_ARRAY(f->arena, const HlMlAttr *, n);
    for (int k = 0; k < n; k++)
      list[k] =
          fh_sharding(f, m->spmd_parameter_shardings[k] ? m->spmd_parameter_shardings[k] : &whole);
    fh_set(f, op, ML_A_MHLO_SPMD_PARAMETERS_SHARDINGS, hl_ml_array(f->tree, n, list));
  }
  describe_entry_layout(f);
  if (m->is_scheduled)
    fh_lose(f, FH_LOSS_SCHEDULE, NULL);
  if (m->spmd_to_parameters.n || m->spmd_to_output.n || m->alias_passthrough_params)
    fh_lose(f, FH_LOSS_SPMD, NULL);
}

// The row of the dialect that is written comes before the other's.
static void find_rows(Fh *f) {
  for (int pass = 0; pass < 2; pass++)
    for (int k = 1; k < ML_ROW_COUNT; k++) {
      const MlOpRow *row = ml_row(k);
      bool of_mhlo = ml_find_dialect(hl_str(row->name)) == HL_ML_MHLO;
      if (row->hlo != HL_OP_NO && !f->row[row->hlo] && (of_mhlo ? f->mhlo && pass == 1 : pass == 0))
        f->row[row->hlo] = (uint16_t)k;
    }
}

static bool write_module(Fh *f) {
  describe_module(f);
  fh_function(f, f->m->entry);
  for (int k = 0; k < f->n_todo; k++)
    if (!write_function(f, f->todo[k]))
      return false;
  return true;
}

HlMlTree *hl_ml_from_hlo(HlCx *cx, const HlModule *m, bool mhlo) {
  if (!m->entry) {
    hl_error(cx, hl_module_pos(m), "a module without an entry computation");
    return NULL;
  }
  Fh f = {.cx = cx, .m = m, .mhlo = mhlo, .tree = hl_ml_new(m->source), .arena = hl_arena_new()};
  f.function = HL_ARRAY(f.arena, const HlSym *, m->next_comp_id + 1);
  f.todo = HL_ARRAY(f.arena, const HlComp *, m->n_comps + 1);
  f.frame = HL_ARRAY(f.arena, const HlMlLocation *, m->frames.n_frames + 1);
  find_rows(&f);
  bool ok = write_module(&f);
  if (ok)
    tell_losses(&f);
  hl_arena_free(f.arena);
  if (ok)
    return f.tree;
  hl_ml_free(f.tree);
  return NULL;
}
