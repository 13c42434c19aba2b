// The types of an MLIR tree: interning, makers, questions.
#include "mlir/tree/tree.h"

#include <assert.h>
#include <string.h>

// --- Hashing and comparing ------------------------------------------------------------------------------

static uint64_t hash_quant(const HlMlQuant *quant) {
  uint64_t hash = hl_hash_mix(quant->storage->hash, quant->expressed->hash);
  hash = hl_hash_mix(hash, (uint64_t)quant->min ^ (uint64_t)quant->max << 1);
  hash = hl_hash_mix(hash, (uint64_t)quant->axis * 2 + quant->is_signed);
  hash = hl_hash_bytes(quant->zero_point, (size_t)quant->n * sizeof *quant->zero_point, hash);
  return hl_hash_bytes(quant->scale, (size_t)quant->n * sizeof *quant->scale, hash);
}

static uint64_t hash_type(const HlMlType *type) {
  uint64_t hash = hl_hash_mix(type->kind * 64u + type->sign * 8u + type->is_mhlo,
                              (uint64_t)(unsigned)type->width);
  hash = hl_hash_mix(hash, (uint64_t)(unsigned)type->n << 32 | (unsigned)type->n_inputs);
  if (type->rank)
    hash = hl_hash_bytes(type->dim, (size_t)type->rank * sizeof *type->dim, hash);
  for (int k = 0; k < type->n; k++)
    hash = hl_hash_mix(hash, type->element[k]->hash);
  if (type->encoding)
    hash = hl_hash_mix(hash, ml_attr_hash(type->encoding));
  if (type->quant)
    hash = hl_hash_mix(hash, hash_quant(type->quant));
  if (type->text)
    hash = hl_hash_mix(hash, type->text->hash);
  return hash;
}

static bool same_ints(const int64_t *a, const int64_t *b, int n) {
  return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static bool quant_equal(const HlMlQuant *a, const HlMlQuant *b) {
  return hl_ml_type_equal(a->storage, b->storage) && hl_ml_type_equal(a->expressed, b->expressed) &&
         a->is_signed == b->is_signed && a->min == b->min && a->max == b->max &&
         a->axis == b->axis && a->n == b->n &&
         memcmp(a->scale, b->scale, (size_t)a->n * sizeof *a->scale) == 0 &&
         same_ints(a->zero_point, b->zero_point, a->n) &&
         hl_i64s_equal(a->block_axes, b->block_axes) &&
         hl_i64s_equal(a->block_sizes, b->block_sizes);
}

bool hl_ml_type_equal(const HlMlType *a, const HlMlType *b) {
  if (a == b)
    return true;
  if (!a || !b || a->hash != b->hash || a->kind != b->kind || a->sign != b->sign ||
      a->is_mhlo != b->is_mhlo || a->width != b->width || a->rank != b->rank || a->n != b->n ||
      a->n_inputs != b->n_inputs || !ml_same_sym(a->text, b->text) ||
      !same_ints(a->dim, b->dim, a->rank))
    return false;
  for (int k = 0; k < a->n; k++)
    if (!hl_ml_type_equal(a->element[k], b->element[k]))
      return false;
  if (!a->quant != !b->quant || (a->quant && !quant_equal(a->quant, b->quant)))
    return false;
  return !a->encoding == !b->encoding &&
         (!a->encoding || hl_ml_attr_equal(a->encoding, b->encoding));
}

// --- Interning ----------------------------------------------------------------------------------------

static const HlMlQuant *copy_quant(HlMlTree *tree, const HlMlQuant *from) {
  HlMlQuant *to = hl_arena_copy(tree->arena, from, sizeof *from);
  to->scale = hl_arena_copy(tree->arena, from->scale, (size_t)from->n * sizeof *from->scale);
  to->zero_point =
      hl_arena_copy(tree->arena, from->zero_point, (size_t)from->n * sizeof *from->zero_point);
  to->block_axes = hl_i64s_copy(tree->arena, from->block_axes);
  to->block_sizes = hl_i64s_copy(tree->arena, from->block_sizes);
  return to;
}

static HlDtype int_dtype(int width, HlMlSign sign) {
  bool is_unsigned = sign == HL_ML_UNSIGNED;
  switch (width) {
  case 1: return sign == HL_ML_SIGNLESS ? HL_PRED : is_unsigned ? HL_U1 : HL_S1;
  case 2: return is_unsigned ? HL_U2 : HL_S2;
  case 4: return is_unsigned ? HL_U4 : HL_S4;
  case 8: return is_unsigned ? HL_U8 : HL_S8;
  case 16: return is_unsigned ? HL_U16 : HL_S16;
  case 32: return is_unsigned ? HL_U32 : HL_S32;
  case 64: return is_unsigned ? HL_U64 : HL_S64;
  default: return HL_NO_DTYPE;
  }
}

typedef struct FloatName {
  const char *text;
  int width;
  HlDtype dtype;
} FloatName;

// Those of HLO (of other types the name is empty), and those that have none there.
static const FloatName floats[] = {
#define DTYPE(id, text, proto, bits, kind, name, mlir, list, field) {mlir, bits, HL_##id},
#include "hilo/dtypes.def"
    {"tf32", 19, HL_NO_DTYPE}, {"f80", 80, HL_NO_DTYPE}, {"f128", 128, HL_NO_DTYPE}};

static const FloatName *find_float(const char *text) {
  for (int k = 0; *text && k < HL_COUNT_OF(floats); k++)
    if (strcmp(floats[k].text, text) == 0)
      return &floats[k];
  return NULL;
}

static HlDtype dtype_of(const HlMlType *type) {
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_INT: return int_dtype(type->width, type->sign);
  case HL_ML_INDEX: return HL_S64;
  case HL_ML_FLOAT: return find_float(type->text->text)->dtype;
  case HL_ML_COMPLEX: {
    HlDtype part = type->element[0]->dtype;
    return part == HL_F32 ? HL_C64 : part == HL_F64 ? HL_C128 : HL_NO_DTYPE;
  }
  default: return HL_NO_DTYPE;
  }
}

static void measure(HlMlType *type) {
  type->size = 1;
  for (int k = 0; k < type->n; k++) {
    type->size = ml_add_size(type->size, type->element[k]->size);
    if (type->element[k]->depth > type->depth)
      type->depth = type->element[k]->depth;
  }
  if (type->encoding) {
    type->size = ml_add_size(type->size, type->encoding->size);
    if (type->encoding->depth > type->depth)
      type->depth = type->encoding->depth;
  }
  type->depth++;
}

static const HlMlType *copy_type(HlMlTree *tree, const HlMlType *from) {
  HlMlType *to = hl_arena_copy(tree->arena, from, sizeof *from);
  to->dim = hl_arena_copy(tree->arena, from->dim, (size_t)from->rank * sizeof *from->dim);
  const HlMlType **element = HL_ARRAY(tree->arena, const HlMlType *, from->n);
  for (int k = 0; k < from->n; k++)
    element[k] = from->element[k];
  to->element = element;
  to->quant = from->quant ? copy_quant(tree, from->quant) : NULL;
  to->dtype = dtype_of(to);
  measure(to);
  return to;
}

const HlMlType *hl_ml_type_intern(HlMlTree *tree, const HlMlType *type) {
  Map *types = &ml_tables(tree)->types;
  HlMlType wanted = *type;
  wanted.hash = hash_type(type);
  wanted.depth = 0;
  MapWalk walk = map_walk(types, wanted.hash);
  for (const HlMlType *known; (known = map_next_ptr(&walk));)
    if (hl_ml_type_equal(known, &wanted))
      return known;
  const HlMlType *made = copy_type(tree, &wanted);
  map_add_ptr(types, wanted.hash, made);
  if (made->kind == HL_ML_TUPLE && made->n > 16)
    ml_tables(tree)->has_aliases = true;
  return made;
}

// --- Makers -------------------------------------------------------------------------------------------

const HlMlType *hl_ml_int_type(HlMlTree *tree, int width, HlMlSign sign) {
  return hl_ml_type_intern(tree,
                           &(HlMlType){.kind = HL_ML_INT, .width = width, .sign = (uint8_t)sign});
}

const HlMlType *hl_ml_float_type(HlMlTree *tree, const char *text) {
  const FloatName *name = find_float(text);
  if (!name)
    return NULL;
  return hl_ml_type_intern(
      tree, &(HlMlType){.kind = HL_ML_FLOAT, .width = name->width, .text = hl_ml_sym(tree, text)});
}

const HlMlType *hl_ml_simple_type(HlMlTree *tree, HlMlTypeKind kind) {
  return hl_ml_type_intern(tree, &(HlMlType){.kind = (uint8_t)kind});
}

const HlMlType *hl_ml_list_type(HlMlTree *tree, HlMlTypeKind kind, int n,
                                const HlMlType *const *element) {
  return hl_ml_type_intern(tree, &(HlMlType){.kind = (uint8_t)kind, .n = n, .element = element});
}

const HlMlType *hl_ml_function_type(HlMlTree *tree, int n_inputs, const HlMlType *const *input,
                                    int n_results, const HlMlType *const *result) {
  int n = n_inputs + n_results;
  const HlMlType *few[32];
  const HlMlType **element =
      n <= HL_COUNT_OF(few) ? few : HL_ARRAY(tree->arena, const HlMlType *, n);
  if (n_inputs)
    memcpy(element, input, (size_t)n_inputs * sizeof *element);
  if (n_results)
    memcpy(element + n_inputs, result, (size_t)n_results * sizeof *element);
  return hl_ml_type_intern(
      tree, &(HlMlType){.kind = HL_ML_FUNCTION, .n = n, .n_inputs = n_inputs, .element = element});
}

const HlMlType *hl_ml_tensor_type(HlMlTree *tree, int rank, const int64_t *dim,
                                  const HlMlType *element, const HlMlAttr *encoding) {
  return hl_ml_type_intern(tree, &(HlMlType){.kind = HL_ML_TENSOR,
                                             .rank = rank,
                                             .dim = dim,
                                             .n = 1,
                                             .element = &element,
                                             .encoding = encoding});
}

static const HlMlType *float_of_dtype(HlMlTree *tree, HlDtype dtype) {
  for (int k = 0; k < HL_COUNT_OF(floats); k++)
    if (floats[k].dtype == dtype && *floats[k].text)
      return hl_ml_float_type(tree, floats[k].text);
  return NULL;
}

const HlMlType *hl_ml_dtype_type(HlMlTree *tree, HlDtype dtype) {
  int width = hl_dtype_info[dtype].bits;
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_PRED: return hl_ml_int_type(tree, 1, HL_ML_SIGNLESS);
  case HL_KIND_SINT: return hl_ml_int_type(tree, width, width == 1 ? HL_ML_SIGNED : HL_ML_SIGNLESS);
  case HL_KIND_UINT: return hl_ml_int_type(tree, width, HL_ML_UNSIGNED);
  case HL_KIND_FLOAT: return float_of_dtype(tree, dtype);
  case HL_KIND_COMPLEX: {
    const HlMlType *part = float_of_dtype(tree, dtype == HL_C64 ? HL_F32 : HL_F64);
    return hl_ml_list_type(tree, HL_ML_COMPLEX, 1, &part);
  }
  default: return dtype == HL_TOKEN ? hl_ml_simple_type(tree, HL_ML_TOKEN) : NULL;
  }
}

static const HlMlAttr *bounds_of(HlMlTree *tree, const HlShape *shape) {
  if (!shape->dynamic)
    return NULL;
  int64_t *bound = HL_ARRAY(tree->arena, int64_t, shape->rank);
  bool any = false;
  for (int k = 0; k < shape->rank; k++) {
    bool is_bounded = shape->dynamic[k];
    bound[k] = is_bounded ? shape->dim[k] : HL_UNBOUNDED;
    any |= is_bounded && bound[k] != HL_UNBOUNDED;
  }
  if (!any)
    return NULL;
  HlMlNamed field =
      ml_named(tree, ML_A_BOUNDS, hl_ml_dense_i64s(tree, (HlI64s){bound, shape->rank}));
  return hl_ml_struct(tree, ml_def_text[ML_D_EXTENSIONS], 1, &field);
}

static const HlMlType *array_type(HlMlTree *tree, const HlShape *shape, HlMlTypeKind kind) {
  const HlMlType *element = hl_ml_dtype_type(tree, shape->dtype);
  int64_t few[16];
  int64_t *dim =
      shape->rank <= HL_COUNT_OF(few) ? few : HL_ARRAY(tree->arena, int64_t, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    dim[k] = shape->dynamic && shape->dynamic[k] ? HL_UNBOUNDED : shape->dim[k];
  const HlMlAttr *encoding = bounds_of(tree, shape);
  return hl_ml_type_intern(tree, &(HlMlType){.kind = (uint8_t)kind,
                                             .rank = shape->rank,
                                             .dim = dim,
                                             .n = 1,
                                             .element = &element,
                                             .encoding = encoding});
}

const HlMlType *hl_ml_shape_type(HlMlTree *tree, const HlShape *shape) {
  switch (shape->dtype) {
  case HL_TOKEN: return hl_ml_simple_type(tree, HL_ML_TOKEN);
  case HL_BUFFER: return array_type(tree, shape->element[0], HL_ML_MEMREF);
  case HL_TUPLE: {
    const HlMlType **element = HL_ARRAY(tree->arena, const HlMlType *, shape->rank);
    for (int k = 0; k < shape->rank; k++) {
      element[k] = hl_ml_shape_type(tree, shape->element[k]);
      if (!element[k])
        return NULL;
    }
    return hl_ml_list_type(tree, HL_ML_TUPLE, shape->rank, element);
  }
  default: return hl_is_array_dtype(shape->dtype) ? array_type(tree, shape, HL_ML_TENSOR) : NULL;
  }
}

// --- Questions ----------------------------------------------------------------------------------------

const HlMlType *hl_ml_element(const HlMlType *type) {
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_TENSOR:
  case HL_ML_UNRANKED:
  case HL_ML_VECTOR:
  case HL_ML_MEMREF: return type->element[0];
  default: return type;
  }
}

HlDtype hl_ml_dtype(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_QUANT ? element->quant->storage->dtype : element->dtype;
}

int hl_ml_element_bytes(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  if (element->kind == HL_ML_QUANT)
    element = element->quant->storage;
  if (element->kind == HL_ML_COMPLEX)
    return 2 * hl_ml_element_bytes(element->element[0]);
  if (element->dtype != HL_NO_DTYPE)
    return hl_dtype_bytes(element->dtype);
  if (element->kind != HL_ML_INT && element->kind != HL_ML_FLOAT)
    return 0;
  int bytes = 1;
  while (8 * bytes < element->width)
    bytes *= 2;
  return bytes;
}

bool hl_ml_is_tensor(const HlMlType *type) {
  return type->kind == HL_ML_TENSOR;
}

bool hl_ml_is_static(const HlMlType *type) {
  if (type->kind != HL_ML_TENSOR && type->kind != HL_ML_VECTOR && type->kind != HL_ML_MEMREF)
    return false;
  for (int k = 0; k < type->rank; k++)
    if (type->dim[k] < 0)
      return false;
  return true;
}

HlI64s hl_ml_bounds(const HlMlType *type) {
  const HlMlAttr *bounds = type->encoding ? ml_field(type->encoding, ML_A_BOUNDS) : NULL;
  if (!bounds || bounds->kind != HL_ML_A_DENSE_ARRAY || bounds->type->dtype != HL_S64)
    return (HlI64s){0};
  return (HlI64s){bounds->data, (int)bounds->n_elements};
}

int64_t hl_ml_elements(const HlMlType *type) {
  if (!hl_ml_is_static(type))
    return -1;
  int64_t n = 1;
  for (int k = 0; k < type->rank; k++) {
    if (type->dim[k] == 0)
      return 0;
    n = n > INT64_MAX / type->dim[k] ? INT64_MAX : n * type->dim[k];
  }
  return n;
}
