// Verifies MLIR trees: sdy: meshes, shardings, manual computations.
#include "mlir/verify/verify.h"

#include <string.h>

// --- Meshes -------------------------------------------------------------------------------------

static const HlMlAttr *list_of(const HlMlAttr *of, MlName name) {
  const HlMlAttr *list = of ? ml_field(of, name) : NULL;
  return list && list->kind == HL_ML_A_ARRAY ? list : NULL;
}

static const HlSym *name_of(const HlMlAttr *of) {
  const HlMlAttr *name = ml_field(of, ML_A_NAME);
  return name ? name->sym : NULL;
}

enum { MOST_AXES = 1000 };  // of a mesh, of a sharding

static bool check_mesh(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh) {
  const HlMlAttr *axes = list_of(mesh, ML_A_AXES);
  const HlI64s devices = mv_field_ints(v, mesh, ML_A_DEVICE_IDS);
  int64_t n = 1;
  if (axes && axes->n > MOST_AXES)
    return mv_bad(v, op, "the mesh has %d axes, more than %d", axes->n, MOST_AXES);
  for (int k = 0; axes && k < axes->n; k++) {
    const int64_t size = ml_field_int(axes->list[k], ML_A_SIZE, 0);
    if (size <= 0 || __builtin_mul_overflow(n, size, &n))
      return mv_bad(v, op, "axis %d of the mesh has the size %lld, which must be positive", k,
                    (LL)size);
    for (int i = 0; i < k; i++)
      if (name_of(axes->list[i]) == name_of(axes->list[k]))
        return mv_bad(v, op, "the mesh has two axes '%s'",
                      name_of(axes->list[k]) ? name_of(axes->list[k])->text : "");
  }
  if (devices.n == 0)
    return true;
  const bool is_one = (axes == NULL || axes->n == 0) && devices.n == 1;
  if (!is_one && devices.n != n)
    return mv_bad(v, op, "the mesh has %lld devices, but %d device_ids", (LL)n, devices.n);
  for (int k = 0; k < devices.n; k++)
    if (devices.at[k] < 0 || (!is_one && devices.at[k] >= n))
      return mv_bad(v, op, "device id %lld is out of bounds", (LL)devices.at[k]);
  if (!mv_is_unique(v, devices))
    return mv_bad(v, op, "a device id is there more than once");
  return true;
}

bool mv_rule_mesh(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *mesh = ml_attr(op, ML_A_MESH);
  return mesh == NULL || check_mesh(v, op, mesh);
}

// The mesh a sharding stands on; false if there is none of that name. *mesh NULL: it is of no sdy
// form.
static bool find_mesh(MlVerify *v, const HlMlOp *op, const HlMlAttr *sharding,
                      const HlMlAttr **mesh) {
  const HlMlAttr *ref = ml_field(sharding, ML_A_MESH_OR_REF);
  *mesh = NULL;
  if (ref == NULL)
    return true;
  if (ref->kind != HL_ML_A_SYMBOL) {
    *mesh = ref->kind == HL_ML_A_STRUCT ? ref : NULL;
    return *mesh == NULL || check_mesh(v, op, *mesh);
  }
  const HlMlOp *def = ref->sym ? mv_symbol(v, ref->sym) : NULL;
  if (def == NULL || def->row != ML_SDY_MESH)
    return mv_bad(v, op, "there is no mesh '%s'", ref->sym ? ref->sym->text : "?");
  *mesh = ml_attr(def, ML_A_MESH);
  return true;
}

// --- Shardings ----------------------------------------------------------------------------------

static bool list_names(const HlMlAttr *list, const HlSym *name) {
  for (int k = 0; list && k < list->n; k++)
    if (list->list[k]->sym == name)
      return true;
  return false;
}

// Whether a manual computation around the op has made the axis its own.
static bool is_bound(const HlMlOp *op, const HlSym *name) {
  for (op = op->block ? op->block->region->op : NULL; op;
       op = op->block ? op->block->region->op : NULL)
    if (op->row == ML_SDY_MANUAL_COMPUTATION &&
        list_names(list_of(ml_attr(op, ML_A_MANUAL_AXES), ML_A_AXES), name))
      return true;
  return false;
}

// Axes of a sharding that are used so far.
typedef struct Used {
  const HlMlAttr **at;
  int n;
} Used;

static int64_t axis_size(const HlMlAttr *mesh, const HlSym *name) {
  const HlMlAttr *axes = list_of(mesh, ML_A_AXES);
  for (int k = 0; axes && k < axes->n; k++)
    if (name_of(axes->list[k]) == name)
      return ml_field_int(axes->list[k], ML_A_SIZE, 0);
  return -1;
}

// The part [pre, pre * size) of an axis; the whole without sub_axis_info.
static void part_of(const HlMlAttr *axis, int64_t whole, int64_t *pre, int64_t *size) {
  const HlMlAttr *sub = ml_field(axis, ML_A_SUB_AXIS_INFO);
  *pre = sub ? ml_field_int(sub, ML_A_PRE_SIZE, 1) : 1;
  *size = sub ? ml_field_int(sub, ML_A_SIZE, 1) : whole;
}

static bool check_axis(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh, const HlMlAttr *axis,
                       Used *used) {
  const HlSym *name = name_of(axis);
  const int64_t whole = name ? axis_size(mesh, name) : -1;
  int64_t pre, size, other_pre, other_size, end, other_end;
  if (whole < 0)
    return mv_bad(v, op, "there is no axis '%s' in the mesh", name ? name->text : "?");
  if (is_bound(op, name))
    return mv_bad(v, op, "axis '%s' belongs to a manual computation around it", name->text);
  part_of(axis, whole, &pre, &size);
  if (ml_field(axis, ML_A_SUB_AXIS_INFO)) {
    if (pre < 1 || size <= 1 || __builtin_mul_overflow(pre, size, &end) || whole % end != 0)
      return mv_bad(v, op, "sub-axis '%s':(%lld)%lld does not divide the axis of size %lld",
                    name->text, (LL)pre, (LL)size, (LL)whole);
    if (size == whole)
      return mv_bad(v, op, "sub-axis '%s':(%lld)%lld is the whole axis", name->text, (LL)pre,
                    (LL)size);
  }
  end = pre * size;
  for (int k = 0; k < used->n; k++) {
    if (name_of(used->at[k]) != name)
      continue;
    part_of(used->at[k], whole, &other_pre, &other_size);
    other_end = other_pre * other_size;
    if (pre < other_end && other_pre < end)
      return mv_bad(v, op, "axis '%s' is used more than once", name->text);
  }
  used->at[used->n++] = axis;
  return true;
}

static bool check_axes(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh, const HlMlAttr *axes,
                       Used *used) {
  for (int k = 0; axes && k < axes->n; k++)
    if (!check_axis(v, op, mesh, axes->list[k], used))
      return false;
  return true;
}

static int axis_number(const HlMlAttr *mesh, const HlSym *name) {
  const HlMlAttr *axes = list_of(mesh, ML_A_AXES);
  for (int k = 0; axes && k < axes->n; k++)
    if (name_of(axes->list[k]) == name)
      return k;
  return -1;
}

// Axes that are a set stand in the order of the mesh, parts of one axis from major to minor.
static bool in_mesh_order(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh, const HlMlAttr *axes,
                          const char *what) {
  for (int k = 1; axes && k < axes->n; k++) {
    const HlMlAttr *a = axes->list[k - 1], *b = axes->list[k];
    const int x = axis_number(mesh, name_of(a)), y = axis_number(mesh, name_of(b));
    int64_t a_pre, b_pre, size;
    part_of(a, 1, &a_pre, &size);
    part_of(b, 1, &b_pre, &size);
    if (x > y || (x == y && a_pre > b_pre))
      return mv_bad(v, op, "%s axes are not in the order of the mesh", what);
  }
  return true;
}

static int count_axes(const HlMlAttr *sharding, const HlMlAttr *dims) {
  const HlMlAttr *replicated = list_of(sharding, ML_A_REPLICATED_AXES),
                 *unreduced = list_of(sharding, ML_A_UNREDUCED_AXES);
  int n = (replicated ? replicated->n : 0) + (unreduced ? unreduced->n : 0);
  for (int k = 0; dims && k < dims->n; k++) {
    const HlMlAttr *axes = list_of(dims->list[k], ML_A_AXES);
    n += axes ? axes->n : 0;
  }
  return n;
}

// Of a value of the type; NULL: the rank is not checked.
static bool check_sharding(MlVerify *v, const HlMlOp *op, const HlMlAttr *sharding,
                           const HlMlType *type) {
  const HlMlAttr *mesh, *dims = list_of(sharding, ML_A_DIM_SHARDINGS);
  if (!find_mesh(v, op, sharding, &mesh))
    return false;
  if (mesh == NULL)
    return true;
  Used used = {.at = HL_ARRAY(v->arena, const HlMlAttr *, count_axes(sharding, dims) + 1)};
  const HlMlAttr *axes = list_of(mesh, ML_A_AXES);
  const bool is_one_device =
      (axes == NULL || axes->n == 0) && mv_field_ints(v, mesh, ML_A_DEVICE_IDS).n == 1;
  if (is_one_device && ((dims && dims->n > 0) || count_axes(sharding, dims) > 0))
    return mv_bad(v, op, "a sharding on one device should have no dimensions and no axes");
  if (is_one_device)
    return true;
  if (type && mv_is_ranked(type) && dims && dims->n != type->rank)
    return mv_bad(v, op, "a sharding of %d dimensions is on a tensor of rank %d", dims->n,
                  type->rank);
  for (int k = 0; dims && k < dims->n; k++) {
    const HlMlAttr *inner = list_of(dims->list[k], ML_A_AXES);
    if (ml_field(dims->list[k], ML_A_PRIORITY) && (inner == NULL || inner->n == 0) &&
        ml_field_int(dims->list[k], ML_A_IS_CLOSED, 0))
      return mv_bad(v, op, "dimension %d of the sharding is empty and closed, but has a priority",
                    k);
    if (!check_axes(v, op, mesh, inner, &used))
      return false;
  }
  const HlMlAttr *replicated = list_of(sharding, ML_A_REPLICATED_AXES),
                 *unreduced = list_of(sharding, ML_A_UNREDUCED_AXES);
  return check_axes(v, op, mesh, replicated, &used) && check_axes(v, op, mesh, unreduced, &used) &&
         in_mesh_order(v, op, mesh, replicated, "replicated") &&
         in_mesh_order(v, op, mesh, unreduced, "unreduced");
}

bool mv_rule_sharding(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *sharding = ml_attr(op, ML_A_SHARDING);
  return sharding == NULL || check_sharding(v, op, sharding, mv_in(op, 0));
}

// The axes by dimension that a collective works on: known, and none twice.
static bool check_moved_axes(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh) {
  static const MlName names[] = {ML_A_GATHERING_AXES, ML_A_SLICING_AXES,   ML_A_REDUCE_SCATTER_AXES,
                                 ML_A_AXES,           ML_A_REDUCTION_AXES, ML_A_PARAMS};
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    const HlMlAttr *lists = list_of(ml_attr(op, names[k]), ML_A_VALUE);
    int n = 0;
    for (int i = 0; lists && i < lists->n; i++) {
      const HlMlAttr *inner = list_of(lists->list[i], ML_A_AXES),
                     *value = list_of(lists->list[i], ML_A_VALUE);
      n += inner ? inner->n : value ? value->n : 1;
    }
    Used used = {.at = HL_ARRAY(v->arena, const HlMlAttr *, n + 1)};
    for (int i = 0; lists && i < lists->n; i++) {
      const HlMlAttr *inner = list_of(lists->list[i], ML_A_AXES),
                     *value = list_of(lists->list[i], ML_A_VALUE);
      const bool ok = inner || value ? check_axes(v, op, mesh, inner ? inner : value, &used)
                                     : check_axis(v, op, mesh, lists->list[i], &used);
      if (!ok)
        return false;
    }
  }
  return true;
}

bool mv_rule_out_sharding(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *sharding = ml_attr(op, ML_A_OUT_SHARDING), *mesh;
  if (sharding == NULL)
    return true;
  if (!check_sharding(v, op, sharding, mv_out(op, 0)) || !find_mesh(v, op, sharding, &mesh))
    return false;
  return mesh == NULL || check_moved_axes(v, op, mesh);
}

bool mv_rule_propagation_barrier(MlVerify *v, const HlMlOp *op) {
  const HlSym *direction = ml_attr_sym(op, ML_A_ALLOWED_DIRECTION);
  if (direction && strcmp(direction->text, "BOTH") == 0)
    return mv_bad(v, op, "allowed_direction should not be BOTH, which is no barrier");
  return true;
}

// --- manual_computation -------------------------------------------------------------------------

static bool check_list(MlVerify *v, const HlMlOp *op, const HlMlAttr *per_value, MlName name,
                       uint32_t n, bool is_operand) {
  const HlMlAttr *list = list_of(per_value, ML_A_SHARDINGS);
  if (list == NULL)
    return true;
  if ((uint32_t)list->n != n)
    return mv_bad(v, op, "%s has %d shardings for %u values", ml_name_text[name], list->n, n);
  for (int k = 0; k < list->n; k++)
    if (!check_sharding(v, op, list->list[k], is_operand ? mv_in(op, k) : mv_out(op, k)))
      return false;
  return true;
}

// The size that a dimension of the global type has within: divided by the manual axes, which come
// before the others.
static bool local_size(MlVerify *v, const HlMlOp *op, const HlMlAttr *mesh, const HlMlAttr *axes,
                       int64_t *size) {
  const HlMlAttr *manual = list_of(ml_attr(op, ML_A_MANUAL_AXES), ML_A_AXES);
  int64_t product = 1, pre, part;
  bool is_free = false;
  for (int k = 0; axes && k < axes->n; k++) {
    const HlSym *name = name_of(axes->list[k]);
    if (!list_names(manual, name)) {
      is_free = true;
      continue;
    }
    if (is_free)
      return mv_bad(v, op, "the manual axis '%s' comes after free axes of its dimension",
                    name->text);
    part_of(axes->list[k], axis_size(mesh, name), &pre, &part);
    if (__builtin_mul_overflow(product, part, &product))
      return mv_bad(v, op, "the manual axes of a dimension have too large a size");
  }
  if (mv_is_dynamic_size(*size))
    return true;
  if (product <= 0 || *size % product != 0)
    return mv_bad(v, op,
                  "a dimension of size %lld is not divisible by its manual axes of size %lld",
                  (LL)*size, (LL)product);
  *size /= product;
  return true;
}

static bool check_local(MlVerify *v, const HlMlOp *op, const HlMlAttr *per_value, int k,
                        const HlMlType *global, const HlMlType *local, const char *what) {
  const HlMlAttr *list = list_of(per_value, ML_A_SHARDINGS), *mesh;
  if (hl_ml_element(local) != hl_ml_element(global) || !mv_shapes_agree(local, local) ||
      (mv_is_ranked(global) && local->rank != global->rank))
    return mv_bad(v, op, "%s %d, '%s', does not fit '%s' outside", what, k, mv_text(v, local),
                  mv_text(v, global));
  if (list == NULL || !mv_is_ranked(global) || !find_mesh(v, op, list->list[k], &mesh) ||
      mesh == NULL)
    return true;
  const HlMlAttr *dims = list_of(list->list[k], ML_A_DIM_SHARDINGS);
  for (int d = 0; dims && d < dims->n && d < global->rank; d++) {
    int64_t size = global->dim[d];
    if (!local_size(v, op, mesh, list_of(dims->list[d], ML_A_AXES), &size))
      return false;
    if (!mv_sizes_agree(size, local->dim[d]))
      return mv_bad(v, op,
                    "%s %d should have size %lld in dimension %d by its sharding, but is '%s'",
                    what, k, (LL)size, d, mv_text(v, local));
  }
  return true;
}

bool mv_rule_manual_computation(MlVerify *v, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlMlOp *end = mv_return(body);
  const HlMlAttr *in = ml_attr(op, ML_A_IN_SHARDINGS), *out = ml_attr(op, ML_A_OUT_SHARDINGS);
  if (!check_list(v, op, in, ML_A_IN_SHARDINGS, op->n_operands, true) ||
      !check_list(v, op, out, ML_A_OUT_SHARDINGS, op->n_results, false))
    return false;
  if ((uint32_t)body->n_args != op->n_operands)
    return mv_bad(v, op, "its body takes %d parameters, but there are %u operands", body->n_args,
                  op->n_operands);
  if (end->n_operands != op->n_results)
    return mv_bad(v, op, "its body returns %u values, but it has %u results", end->n_operands,
                  op->n_results);
  for (int k = 0; k < body->n_args; k++)
    if (!check_local(v, op, in, k, mv_in(op, k), body->args[k]->type, "parameter"))
      return false;
  for (int k = 0; k < (int)op->n_results; k++)
    if (!check_local(v, op, out, k, mv_out(op, k), mv_in(end, k), "value"))
      return false;
  return true;
}

// --- named_computation --------------------------------------------------------------------------

bool mv_rule_named_computation(MlVerify *v, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlMlOp *end = mv_return(body);
  if (!check_list(v, op, ml_attr(op, ML_A_IN_SHARDINGS), ML_A_IN_SHARDINGS, op->n_operands, true) ||
      !check_list(v, op, ml_attr(op, ML_A_OUT_SHARDINGS), ML_A_OUT_SHARDINGS, op->n_results, false))
    return false;
  if ((uint32_t)body->n_args != op->n_operands || end->n_operands != op->n_results)
    return mv_bad(v, op,
                  "its body takes %d values and returns %u, but there are %u operands and %u "
                  "results",
                  body->n_args, end->n_operands, op->n_operands, op->n_results);
  for (int k = 0; k < body->n_args; k++)
    if (body->args[k]->type != mv_in(op, k))
      return mv_bad(v, op, "parameter %d, '%s', is not of operand's type '%s'", k,
                    mv_text(v, body->args[k]->type), mv_text(v, mv_in(op, k)));
  for (int k = 0; k < (int)op->n_results; k++)
    if (mv_in(end, k) != mv_out(op, k))
      return mv_bad(v, op, "value %d, '%s', is not of result's type '%s'", k,
                    mv_text(v, mv_in(end, k)), mv_text(v, mv_out(op, k)));
  return true;
}

// --- Shardings that other ops carry -------------------------------------------------------------

// An op without results may have one sharding, which says on which device it runs.
static bool is_placed(const HlMlOp *op, const HlMlAttr *per_value) {
  const HlMlAttr *list = list_of(per_value, ML_A_SHARDINGS);
  if (op->n_results > 0 || list == NULL || list->n != 1)
    return false;
  const HlMlAttr *dims = list_of(list->list[0], ML_A_DIM_SHARDINGS);
  return (dims == NULL || dims->n == 0) && count_axes(list->list[0], dims) == 0;
}

bool mv_check_carried_sharding(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *sharding = ml_attr(op, ML_A_SDY_SHARDING);
  if (sharding && is_placed(op, sharding))
    return check_sharding(v, op, list_of(sharding, ML_A_SHARDINGS)->list[0], NULL);
  return sharding == NULL || check_list(v, op, sharding, ML_A_SDY_SHARDING, op->n_results, false);
}

bool mv_check_listed_sharding(MlVerify *v, const HlMlOp *op, MlName list, int n,
                              const HlMlType *const *types) {
  const HlMlAttr *dicts = ml_attr(op, list);
  for (int k = 0; dicts && dicts->kind == HL_ML_A_ARRAY && k < dicts->n && k < n; k++) {
    const HlMlAttr *sharding = ml_field(dicts->list[k], ML_A_SDY_SHARDING);
    if (sharding && sharding->kind == HL_ML_A_STRUCT && !check_sharding(v, op, sharding, types[k]))
      return false;
  }
  return true;
}
