// Reads MLIR bytecode: types of builtin, StableHLO and quant.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <string.h>

const char *const mlb_float_of_code[MLB_FLOAT_CODES] = {
    [MLB_T_BF16] = "bf16",
    [MLB_T_F16] = "f16",
    [MLB_T_F32] = "f32",
    [MLB_T_F64] = "f64",
    [MLB_T_F80] = "f80",
    [MLB_T_F128] = "f128",
    [MLB_T_TF32] = "tf32",
    "f8E5M2",
    "f8E4M3",
    "f8E4M3FN",
    "f8E5M2FNUZ",
    "f8E4M3FNUZ",
    "f8E4M3B11FNUZ",
    "f8E3M4",
    "f4E2M1FN",
    "f6E2M3FN",
    "f6E3M2FN",
    "f8E8M0FNU",
};

const HlMlType **mlb_types(MlbReader *r, MlbCursor *c, int *n) {
  *n = (int)mlb_count(r, c, 1, "types");
  const HlMlType **out = HL_ARRAY(r->arena, const HlMlType *, *n);
  for (int k = 0; k < *n; k++)
    if (!(out[k] = mlb_type(r, c)))
      return NULL;
  return r->failed ? NULL : out;
}

static const HlMlType *read_integer(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t value = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  if ((value & 3) > HL_ML_UNSIGNED || value >> 2 == 0 || value >> 2 >= 1 << 24) {
    mlb_fail(r, at, "an integer type of %" PRIu64 " bits and sign %d", value >> 2,
             (int)(value & 3));
    return NULL;
  }
  return hl_ml_int_type(r->tree, (int)(value >> 2), (HlMlSign)(value & 3));
}

const HlMlType *mlb_function_type(MlbReader *r, MlbCursor *c) {
  int n_in, n_out;
  const HlMlType **in = mlb_types(r, c, &n_in);
  const HlMlType **out = in ? mlb_types(r, c, &n_out) : NULL;
  return out ? hl_ml_function_type(r->tree, n_in, in, n_out, out) : NULL;
}

const HlMlType *mlb_list_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind) {
  int n;
  const HlMlType **element = mlb_types(r, c, &n);
  return element ? hl_ml_list_type(r->tree, kind, n, element) : NULL;
}

const HlMlType *mlb_wrapped_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind) {
  const HlMlType *element = mlb_type(r, c);
  return element ? hl_ml_list_type(r->tree, kind, 1, &element) : NULL;
}

static bool is_good_shape(MlbReader *r, const uint8_t *at, HlI64s dim) {
  for (int k = 0; k < dim.n; k++)
    if (dim.at[k] < 0 && dim.at[k] != HL_UNBOUNDED)
      return mlb_fail(r, at, "dimension %d of a shape is negative: %" PRId64, k, dim.at[k]);
  return !r->failed;
}

const HlMlType *mlb_tensor_type(MlbReader *r, MlbCursor *c, bool has_encoding) {
  const uint8_t *at = c->at;
  const HlMlAttr *encoding = has_encoding ? mlb_attr(r, c) : NULL;
  if (has_encoding && !encoding)
    return NULL;
  HlI64s dim = mlb_ints(r, c);
  const HlMlType *element = mlb_type(r, c);
  if (!element || !is_good_shape(r, at, dim))
    return NULL;
  return hl_ml_tensor_type(r->tree, dim.n, dim.at, element, encoding);
}

const HlMlType *mlb_shaped_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind) {
  const uint8_t *at = c->at;
  HlI64s dim = mlb_ints(r, c);
  const HlMlType *element = mlb_type(r, c);
  if (!element || !is_good_shape(r, at, dim))
    return NULL;
  HlMlType type = {
      .kind = (uint8_t)kind, .rank = dim.n, .dim = dim.at, .n = 1, .element = &element};
  return hl_ml_type_intern(r->tree, &type);
}

// affine_map<(d0, d1) -> (d0, d1)>: what a memref has whose layout is not stated.
static bool is_identity(const HlMlAttr *layout) {
  static const char before[] = "affine_map<", between[] = " -> ";
  if (layout->kind != HL_ML_A_OTHER || strncmp(layout->sym->text, before, sizeof before - 1) != 0)
    return false;
  const char *from = layout->sym->text + sizeof before - 1, *arrow = strstr(from, between);
  if (!arrow)
    return false;
  const char *to = arrow + sizeof between - 1;
  size_t n = (size_t)(arrow - from);
  return strncmp(from, to, n) == 0 && strcmp(to + n, ">") == 0;
}

static const HlMlType *read_memref(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  HlI64s dim = mlb_ints(r, c);
  const HlMlType *element = mlb_type(r, c);
  const HlMlAttr *layout = element ? mlb_attr(r, c) : NULL;
  if (!layout || !is_good_shape(r, at, dim))
    return NULL;
  HlMlType type = {.kind = HL_ML_MEMREF,
                   .rank = dim.n,
                   .dim = dim.at,
                   .n = 1,
                   .element = &element,
                   .encoding = is_identity(layout) ? NULL : layout};
  return hl_ml_type_intern(r->tree, &type);
}

static const HlMlType *read_builtin(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  if (code < MLB_FLOAT_CODES && mlb_float_of_code[code])
    return hl_ml_float_type(r->tree, mlb_float_of_code[code]);
  switch (code) {
  case MLB_T_INTEGER: return read_integer(r, c);
  case MLB_T_INDEX: return hl_ml_simple_type(r->tree, HL_ML_INDEX);
  case MLB_T_NONE: return hl_ml_simple_type(r->tree, HL_ML_NONE);
  case MLB_T_FUNCTION: return mlb_function_type(r, c);
  case MLB_T_COMPLEX: return mlb_wrapped_type(r, c, HL_ML_COMPLEX);
  case MLB_T_UNRANKED: return mlb_wrapped_type(r, c, HL_ML_UNRANKED);
  case MLB_T_TUPLE: return mlb_list_type(r, c, HL_ML_TUPLE);
  case MLB_T_TENSOR:
  case MLB_T_TENSOR_WITH: return mlb_tensor_type(r, c, code == MLB_T_TENSOR_WITH);
  case MLB_T_VECTOR: return mlb_shaped_type(r, c, HL_ML_VECTOR);
  case MLB_T_MEMREF: return read_memref(r, c);
  default: break;
  }
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "a type of builtin with code %" PRIu64, code);
  return NULL;
}

static const HlMlType *read_stablehlo(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  if (code == 0)
    return hl_ml_simple_type(r->tree, HL_ML_TOKEN);
  if (code == 1)
    return mlb_list_type(r, c, HL_ML_FUTURE);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "a type of stablehlo with code %" PRIu64, code);
  return NULL;
}

static const HlMlType *read_mhlo(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  if (code == 0)
    return hl_ml_type_intern(r->tree, &(HlMlType){.kind = HL_ML_TOKEN, .is_mhlo = true});
  if (code == 1)
    return mlb_list_type(r, c, HL_ML_BUNDLE);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "a type of mhlo with code %" PRIu64, code);
  return NULL;
}

static const HlMlType *read_custom(MlbReader *r, MlbCursor *c, const MlbDialect *dialect) {
  switch (dialect->dialect) {
  case HL_ML_BUILTIN: return read_builtin(r, c);
  case HL_ML_VHLO: return vhlo_read_type(r, c);
  case HL_ML_STABLEHLO: return read_stablehlo(r, c);
  case HL_ML_MHLO: return read_mhlo(r, c);
  case HL_ML_QUANT_DIALECT: return mlb_quant_type(r, c);
  default: break;
  }
  mlb_fail_kind(r, HL_UNSUPPORTED, c->at, "a type of the dialect '%s' in an encoding of its own",
                dialect->name->text);
  return NULL;
}

static const HlMlType busy;  // marks what is being decoded

const HlMlType *mlb_type_at(MlbReader *r, const uint8_t *at, uint64_t index) {
  if (r->failed)
    return NULL;
  if (index >= r->n_types) {
    mlb_fail(r, at, "there is no type %" PRIu64 ", only %u", index, r->n_types);
    return NULL;
  }
  if (HL_LIKELY(r->type_of[index] && r->type_of[index] != &busy))
    return r->type_of[index];
  const MlbEntry *entry = &r->type[index];
  if (r->type_of[index] == &busy) {
    mlb_fail(r, entry->at, "type %" PRIu64 " contains itself", index);
    return NULL;
  }
  if (!mlb_enter(r, entry->at))
    return NULL;
  r->type_of[index] = &busy;
  MlbCursor c = {entry->at, entry->at + entry->n};
  const HlMlType *type =
      entry->is_custom ? read_custom(r, &c, &r->dialect[entry->dialect]) : mlb_type_of_text(r, &c);
  mlb_leave(r);
  if (!type || !mlb_at_end(r, &c, "a type") || !mlb_is_small(r, entry->at, type->depth, type->size))
    return NULL;
  return r->type_of[index] = type;
}

const HlMlType *mlb_type(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  return mlb_type_at(r, at, mlb_varint(r, c));
}
