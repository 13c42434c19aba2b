// Writes portable artifacts: what an older VHLO has no op or attribute for, said with what it has. On a copy of the
// tree, made when something is to be said otherwise:
//   tan, before 1.4                          sine / cosine; of complex numbers by tan of the real part
//   batching dimensions of gather and        iota indices along them, put before the others; then they are
//   scatter, before 1.1                      collapsed (inserted) dimensions like others
//   replica groups by axes of a mesh,        the groups, listed
//   before 1.16
#include <string.h>

#include "mlir/bytecode/write.h"
#include "mlir/tree/tree.h"

static const HlMlAttr *batching_dims(const HlMlOp *op) {
  if (op->row == ML_STABLEHLO_GATHER)
    return ml_field(ml_attr(op, ML_A_DIMENSION_NUMBERS), ML_A_OPERAND_BATCHING_DIMS);
  return ml_field(ml_attr(op, ML_A_SCATTER_DIMENSION_NUMBERS), ML_A_INPUT_BATCHING_DIMS);
}

static bool has_mesh_groups(const HlMlOp *op) {
  const HlMlAttr *groups = ml_attr(op, ML_A_REPLICA_GROUPS);
  return groups && groups->kind == HL_ML_A_STRUCT;
}

static bool is_told_otherwise(const HlMlOp *op, int vhlo) {
  if (op->dialect != HL_ML_STABLEHLO)
    return false;
  if (op->row == ML_STABLEHLO_TAN)
    return vhlo < vhlo_version(1, 4);
  if (op->row == ML_STABLEHLO_GATHER || op->row == ML_STABLEHLO_SCATTER) {
    const HlMlAttr *dims = vhlo < vhlo_version(1, 1) ? batching_dims(op) : NULL;
    return dims && dims->n_elements > 0;
  }
  return vhlo < vhlo_version(1, 16) && has_mesh_groups(op);
}

// --- Making ops ----------------------------------------------------------------------------------

typedef struct Down {
  HlMlTree *tree;  // the copy
  const HlMlTree *from;
  HlMlOp *at;  // what is said otherwise: new ops stand before it
} Down;

static HlMlValue *make(Down *d, HlMlRow row, const HlMlType *type, int n,
                       HlMlValue *const *operands) {
  return &ml_op_before(d->tree, d->at, row, n, operands, 1, &type, 0)->results[0];
}

static HlMlValue *unary(Down *d, HlMlRow row, HlMlValue *x) {
  return make(d, row, x->type, 1, &x);
}

static HlMlValue *binary(Down *d, HlMlRow row, const HlMlType *type, HlMlValue *x, HlMlValue *y) {
  return make(d, row, type, 2, (HlMlValue *[]){x, y});
}

// The op itself becomes another, of two operands and the same result.
static void become(Down *d, HlMlRow row, HlMlValue *x, HlMlValue *y) {
  HlMlOp *op = d->at;
  ml_rename(d->tree, op, row, HL_ML_STABLEHLO);
  op->operands = HL_ARRAY(d->tree->arena, HlMlValue *, 2);
  op->operands[0] = x;
  op->operands[1] = y;
  op->n_operands = 2;
  ml_set_attr(d->tree, op, ML_A_RESULT_ACCURACY, NULL);
}

// --- Tan -----------------------------------------------------------------------------------------

static HlMlValue *ones_like(Down *d, const HlMlType *type) {
  uint64_t bits[2];
  const double one = 1;
  hl_convert_elements(hl_ml_dtype(type), bits, HL_F64, &one, 1);
  HlMlValue *value = make(d, ML_STABLEHLO_CONSTANT, type, 0, NULL);
  ml_set_attr(d->tree, value->def, ML_A_VALUE, hl_ml_dense(d->tree, type, bits, 1, true));
  return value;
}

// tan(a + bi) = (tan a + i tanh b) / (1 - i tan a tanh b)
static void expand_complex_tan(Down *d, HlMlValue *x) {
  const HlMlType *type = x->type;
  const HlMlType *part =
      hl_ml_tensor_type(d->tree, type->rank, type->dim, type->element[0]->element[0], NULL);
  HlMlValue *real = make(d, ML_STABLEHLO_REAL, part, 1, &x),
            *imag = make(d, ML_STABLEHLO_IMAG, part, 1, &x);
  HlMlValue *sine = unary(d, ML_STABLEHLO_SINE, real),
            *cosine = unary(d, ML_STABLEHLO_COSINE, real);
  HlMlValue *tan = binary(d, ML_STABLEHLO_DIVIDE, part, sine, cosine),
            *tanh = unary(d, ML_STABLEHLO_TANH, imag);
  HlMlValue *above = binary(d, ML_STABLEHLO_COMPLEX, type, tan, tanh), *one = ones_like(d, part);
  HlMlValue *minus =
      unary(d, ML_STABLEHLO_NEGATE, binary(d, ML_STABLEHLO_MULTIPLY, part, tan, tanh));
  HlMlValue *below = binary(d, ML_STABLEHLO_COMPLEX, type, one, minus);
  become(d, ML_STABLEHLO_DIVIDE, above, below);
}

// What asks for an accuracy stays, and is an error.
static void expand_tan(Down *d) {
  const HlMlOp *op = d->at;
  const HlMlAttr *accuracy = ml_attr(op, ML_A_RESULT_ACCURACY);
  if (op->n_operands != 1 || !hl_ml_is_tensor(op->operands[0]->type) ||
      (accuracy && !vhlo_is_default(ml_row(op->row),
                                    ml_find_attr(ml_row(op->row), ML_A_RESULT_ACCURACY), accuracy)))
    return;
  HlMlValue *x = op->operands[0];
  if (hl_ml_element(x->type)->kind != HL_ML_COMPLEX) {
    HlMlValue *sine = unary(d, ML_STABLEHLO_SINE, x), *cosine = unary(d, ML_STABLEHLO_COSINE, x);
    become(d, ML_STABLEHLO_DIVIDE, sine, cosine);
  } else if (hl_ml_is_static(x->type)) {
    expand_complex_tan(d, x);
  }
}

// --- Batching dimensions -------------------------------------------------------------------------

typedef struct Dims {  // the names of the parts in gather's and scatter's numbers
  MlName numbers, batching, of_indices, collapsed, map;
} Dims;
static const Dims gather_dims = {ML_A_DIMENSION_NUMBERS, ML_A_OPERAND_BATCHING_DIMS,
                                 ML_A_START_INDICES_BATCHING_DIMS, ML_A_COLLAPSED_SLICE_DIMS,
                                 ML_A_START_INDEX_MAP};
static const Dims scatter_dims = {ML_A_SCATTER_DIMENSION_NUMBERS, ML_A_INPUT_BATCHING_DIMS,
                                  ML_A_SCATTER_INDICES_BATCHING_DIMS, ML_A_INSERTED_WINDOW_DIMS,
                                  ML_A_SCATTER_DIMS_TO_OPERAND_DIMS};

static HlI64s ints_of(Down *d, const HlMlAttr *numbers, MlName field) {
  return ml_field_ints(d->tree->arena, numbers, field);
}

static HlI64s joined(Down *d, HlI64s a, HlI64s b, bool is_sorted) {
  int64_t *out = HL_ARRAY(d->tree->arena, int64_t, a.n + b.n);
  for (int k = 0, i = 0, j = 0; k < a.n + b.n; k++)
    out[k] = j == b.n || (i < a.n && (!is_sorted || a.at[i] <= b.at[j])) ? a.at[i++] : b.at[j++];
  return (HlI64s){out, a.n + b.n};
}

static bool is_rising(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k - 1] > list.at[k])
      return false;
  return true;
}

static bool fits(const HlMlType *type, int64_t size) {
  if (type->kind != HL_ML_INT || type->width >= 64)
    return true;
  return size < (int64_t)1 << (type->width - (type->sign != HL_ML_UNSIGNED));
}

// An element type of indices that can count along all batching dimensions.
static const HlMlType *index_element(Down *d, const HlMlType *type, HlI64s dims) {
  const HlMlType *element = type->element[0];
  for (int k = 0; k < dims.n; k++)
    if (!fits(element, type->dim[dims.at[k]]))
      element =
          hl_ml_int_type(d->tree, type->dim[dims.at[k]] <= INT32_MAX ? 32 : 64, HL_ML_SIGNLESS);
  return element;
}

static HlMlValue *iota(Down *d, const HlMlType *type, int64_t dim) {
  HlMlValue *value = make(d, ML_STABLEHLO_IOTA, type, 0, NULL);
  ml_set_attr(d->tree, value->def, ML_A_IOTA_DIMENSION, hl_ml_i64(d->tree, dim));
  return value;
}

// The indices with, before them along index_vector_dim, what each batching dimension's index is.
static HlMlValue *with_iotas(Down *d, HlMlValue *indices, int64_t vector_dim, HlI64s dims) {
  const HlMlType *type = indices->type, *element = index_element(d, type, dims);
  if (element != type->element[0]) {
    type = hl_ml_tensor_type(d->tree, type->rank, type->dim, element, NULL);
    indices = make(d, ML_STABLEHLO_CONVERT, type, 1, &indices);
  }
  int rank = type->rank + (vector_dim == type->rank);
  int64_t *dim = HL_ARRAY(d->tree->arena, int64_t, rank);
  memcpy(dim, type->dim, (size_t)type->rank * sizeof *dim);
  int64_t width = vector_dim == type->rank ? 1 : dim[vector_dim];
  dim[vector_dim] = 1;
  const HlMlType *iota_type = hl_ml_tensor_type(d->tree, rank, dim, element, NULL);
  if (vector_dim == type->rank)
    indices = make(d, ML_STABLEHLO_RESHAPE, iota_type, 1, &indices);
  HlMlValue **part = HL_ARRAY(d->tree->arena, HlMlValue *, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    part[k] = iota(d, iota_type, dims.at[k]);
  part[dims.n] = indices;
  dim[vector_dim] = width + dims.n;
  HlMlValue *out = make(d, ML_STABLEHLO_CONCATENATE,
                        hl_ml_tensor_type(d->tree, rank, dim, element, NULL), dims.n + 1, part);
  ml_set_attr(d->tree, out->def, ML_A_DIMENSION, hl_ml_i64(d->tree, vector_dim));
  return out;
}

static const HlMlAttr *new_numbers(Down *d, const HlMlAttr *old, const Dims *dims, HlI64s collapsed,
                                   HlI64s map) {
  HlMlNamed field[MLB_MAX_ATTRS];
  int n = 0;
  for (int k = 0; k < old->n && n < MLB_MAX_ATTRS; k++) {
    HlMlNamed named = old->dict[k];
    if (named.id == dims->batching || named.id == dims->of_indices)
      continue;
    if (named.id == dims->collapsed)
      named.value = hl_ml_dense_i64s(d->tree, collapsed);
    if (named.id == dims->map)
      named.value = hl_ml_dense_i64s(d->tree, map);
    field[n++] = named;
  }
  return hl_ml_struct(d->tree, old->name->text, n, field);
}

static bool are_dims(HlI64s dims, int rank) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] < 0 || dims.at[k] >= rank)
      return false;
  return true;
}

static void expand_batching(Down *d) {
  HlMlOp *op = d->at;
  const Dims *dims = op->row == ML_STABLEHLO_GATHER ? &gather_dims : &scatter_dims;
  uint32_t place = op->row == ML_STABLEHLO_GATHER ? 1 : op->n_operands / 2;
  const HlMlAttr *numbers = ml_attr(op, dims->numbers),
                 *vector_dim = ml_field(numbers, ML_A_INDEX_VECTOR_DIM);
  HlI64s batching = ints_of(d, numbers, dims->batching),
         of_indices = ints_of(d, numbers, dims->of_indices);
  if (place >= op->n_operands || !vector_dim || of_indices.n != batching.n)
    return;
  const HlMlType *type = op->operands[place]->type;
  if (!hl_ml_is_tensor(type) || !hl_ml_is_static(type) || vector_dim->i < 0 ||
      vector_dim->i > type->rank || !are_dims(of_indices, type->rank))
    return;
  HlI64s map = joined(d, batching, ints_of(d, numbers, dims->map), false);
  HlI64s collapsed = joined(d, batching, ints_of(d, numbers, dims->collapsed), true);
  op->operands[place] = with_iotas(d, op->operands[place], vector_dim->i, of_indices);
  ml_set_attr(d->tree, op, dims->numbers, new_numbers(d, numbers, dims, collapsed, map));
  if (!is_rising(of_indices) || !is_rising(map))
    ml_set_attr(d->tree, op, ML_A_INDICES_ARE_SORTED, NULL);
}

// --- Replica groups ------------------------------------------------------------------------------

enum { MAX_AXES = 64, MAX_DEVICES = 1 << 20 };

typedef struct Mesh {
  int n;
  const HlSym *name[MAX_AXES];
  int64_t size[MAX_AXES];
  int64_t devices;
  HlI64s ids;  // empty: in order
} Mesh;

// A mesh as a struct or a dictionary; by name, what the op of that name has.
static bool read_mesh(Down *d, const HlMlAttr *attr, Mesh *out) {
  if (attr && attr->kind == HL_ML_A_SYMBOL) {
    const HlMlOp *op = hl_ml_find_symbol(d->from, attr->sym);
    attr = op ? ml_attr(op, ML_A_STABLEHLO_MESH) : NULL;
    if (op && !attr)
      attr = ml_attr(op, ML_A_MESH);
  }
  const HlMlAttr *axes = ml_field(attr, ML_A_AXES), *ids = ml_field(attr, ML_A_DEVICE_IDS);
  if (!axes || axes->kind != HL_ML_A_ARRAY || axes->n > MAX_AXES)
    return false;
  *out = (Mesh){.n = axes->n, .devices = 1};
  for (int k = 0; k < axes->n; k++) {
    const HlMlAttr *name = ml_field(axes->list[k], ML_A_NAME),
                   *size = ml_field(axes->list[k], ML_A_SIZE);
    if (!name || !size || name->kind != HL_ML_A_STRING || size->kind != HL_ML_A_INT ||
        size->i < 1 || size->i > MAX_DEVICES / out->devices)
      return false;
    out->name[k] = name->sym;
    out->size[k] = size->i;
    out->devices *= size->i;
  }
  if (ids)
    out->ids = hl_ml_ints(d->tree->arena, ids);
  return out->ids.n == 0 || out->ids.n == out->devices;
}

// The order of axes, those that part groups first, those within a group after them. Returns how many devices a group
// has; 0: an axis that the mesh has not, or a part of one.
static int64_t order_axes(const Mesh *mesh, const HlMlAttr *axes, int order[MAX_AXES]) {
  bool is_within[MAX_AXES] = {0};
  int64_t size = 1;
  int inner[MAX_AXES], n = 0;
  for (int k = 0; k < axes->n; k++) {
    const HlMlAttr *name = ml_field(axes->list[k], ML_A_NAME);
    int at = 0;
    while (name && at < mesh->n && !ml_same_sym(mesh->name[at], name->sym))
      at++;
    if (!name || at == mesh->n || is_within[at] || ml_field(axes->list[k], ML_A_SUB_AXIS_INFO))
      return 0;
    is_within[at] = true;
    inner[n++] = at;
    size *= mesh->size[at];
  }
  int to = 0;
  for (int k = 0; k < mesh->n; k++)
    if (!is_within[k])
      order[to++] = k;
  for (int k = 0; k < n; k++)
    order[to++] = inner[k];
  return size;
}

static void list_groups(Down *d) {
  const HlMlAttr *groups = ml_attr(d->at, ML_A_REPLICA_GROUPS), *axes = ml_field(groups, ML_A_AXES);
  Mesh mesh;
  int order[MAX_AXES];
  if (!axes || axes->kind != HL_ML_A_ARRAY || !read_mesh(d, ml_field(groups, ML_A_MESH), &mesh))
    return;
  int64_t in_group = order_axes(&mesh, axes, order);
  if (in_group == 0)
    return;
  int64_t *device = HL_ARRAY(d->tree->arena, int64_t, mesh.devices);
  for (int64_t k = 0; k < mesh.devices; k++) {
    int64_t rest = k, at[MAX_AXES] = {0}, index = 0;
    for (int j = mesh.n - 1; j >= 0; j--) {
      at[order[j]] = rest % mesh.size[order[j]];
      rest /= mesh.size[order[j]];
    }
    for (int j = 0; j < mesh.n; j++)
      index = index * mesh.size[j] + at[j];
    device[k] = mesh.ids.n ? mesh.ids.at[index] : index;
  }
  const int64_t dim[] = {mesh.devices / in_group, in_group};
  ml_set_attr(d->tree, d->at, ML_A_REPLICA_GROUPS, hl_ml_dense_ints(d->tree, 2, dim, device));
}

// --- The tree ------------------------------------------------------------------------------------

static HlMlTree *copy_tree(const HlMlTree *tree) {
  HlMlTree *copy = hl_ml_new(tree->source);
  hl_ml_set_all(copy, copy->module, (int)tree->module->n_attrs, tree->module->attrs);
  copy->module->location = tree->module->location;
  HlMlValue **map = HL_ARRAY(copy->arena, HlMlValue *, tree->n_values);
  for (HlMlOp *op = hl_ml_body(tree->module, 0)->first; op; op = op->next)
    hl_ml_copy_op(copy, hl_ml_body(copy->module, 0), op, map, tree->n_values);
  return copy;
}

HlMlTree *mlw_say_otherwise(const HlMlTree *tree, int vhlo) {
  const HlMlOp *op = tree->module;
  while (op && !is_told_otherwise(op, vhlo))
    op = hl_ml_next(op, tree->module);
  if (!op)
    return NULL;
  HlMlTree *copy = copy_tree(tree);
  for (HlMlOp *at = copy->module; at; at = hl_ml_next(at, copy->module)) {
    Down d = {copy, tree, at};
    if (!is_told_otherwise(at, vhlo))
      continue;
    if (at->row == ML_STABLEHLO_TAN)
      expand_tan(&d);
    else if (at->row == ML_STABLEHLO_GATHER || at->row == ML_STABLEHLO_SCATTER)
      expand_batching(&d);
    else
      list_groups(&d);
  }
  return copy;
}
