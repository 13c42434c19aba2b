// Reads MLIR bytecode: the attributes and types of VHLO, as today's.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <string.h>

// --- Types ---------------------------------------------------------------------------------------

static const HlMlType *simple_type(MlbReader *r, const char *text) {
  if (text[0] == '!') {
    if (strcmp(text, "!stablehlo.token") == 0)
      return hl_ml_simple_type(r->tree, HL_ML_TOKEN);
    HlMlType type = {.kind = HL_ML_OTHER, .text = hl_ml_sym(r->tree, text)};
    return hl_ml_type_intern(r->tree, &type);
  }
  if (strcmp(text, "index") == 0 || strcmp(text, "none") == 0)
    return hl_ml_simple_type(r->tree, text[0] == 'i' ? HL_ML_INDEX : HL_ML_NONE);
  bool is_unsigned = text[0] == 'u';
  if (!is_unsigned && text[0] != 'i')
    return hl_ml_float_type(r->tree, text);
  int width = 0;
  for (const char *at = text + 1 + is_unsigned; *at; at++)
    width = 10 * width + (*at - '0');
  return hl_ml_int_type(r->tree, width, is_unsigned ? HL_ML_UNSIGNED : HL_ML_SIGNLESS);
}

const HlMlType *vhlo_read_type(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  const VhloCode *row = code <= INT32_MAX ? vhlo_type_by_code((int)code) : NULL;
  if (row)
    return simple_type(r, row->text);
  switch (code) {
  case VHLO_T_COMPLEX: return mlb_wrapped_type(r, c, HL_ML_COMPLEX);
  case VHLO_T_UNRANKED: return mlb_wrapped_type(r, c, HL_ML_UNRANKED);
  case VHLO_T_FUNCTION: return mlb_function_type(r, c);
  case VHLO_T_TENSOR:
  case VHLO_T_TENSOR_WITH: return mlb_tensor_type(r, c, code == VHLO_T_TENSOR_WITH);
  case VHLO_T_BUFFER: return mlb_shaped_type(r, c, HL_ML_MEMREF);
  case VHLO_T_TUPLE: return mlb_list_type(r, c, HL_ML_TUPLE);
  case VHLO_T_FUTURE: return mlb_list_type(r, c, HL_ML_FUTURE);
  case VHLO_T_QUANT:
  case VHLO_T_QUANT_PER_AXIS: return mlb_quant_body(r, c, code == VHLO_T_QUANT_PER_AXIS);
  default: break;
  }
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "a type of VHLO with code %" PRIu64, code);
  return NULL;
}

// --- Quantised types -----------------------------------------------------------------------------

static bool read_points(MlbReader *r, MlbCursor *c, HlMlQuant *out) {
  const uint8_t *at = c->at;
  uint32_t n = mlb_count(r, c, 1, "scales");
  double *scale = HL_ARRAY(r->arena, double, n);
  for (uint32_t k = 0; k < n; k++)
    scale[k] = mlb_f64(r, c);
  HlI64s zero_point = mlb_ints(r, c);
  if (!r->failed && (zero_point.n != (int)n || n == 0))
    return mlb_fail(r, at, "%u scales and %d zero points", n, zero_point.n);
  out->scale = scale;
  out->zero_point = zero_point.at;
  out->n = (int)n;
  return !r->failed;
}

// The type of the quant dialect and the one of VHLO have the same fields.
const HlMlType *mlb_quant_body(MlbReader *r, MlbCursor *c, bool is_per_axis) {
  const uint8_t *at = c->at;
  uint64_t flags = mlb_varint(r, c);
  HlMlQuant quant = {.storage = mlb_type(r, c), .axis = -1, .n = 1, .is_signed = flags & 1};
  quant.expressed = mlb_type(r, c);
  double scale = 0;
  int64_t zero_point = 0;
  if (is_per_axis) {
    uint64_t axis = mlb_varint(r, c);
    if (!r->failed && axis > INT32_MAX)
      mlb_fail(r, at, "a quantised type along axis %" PRIu64, axis);
    quant.axis = (int)axis;
    quant.min = mlb_svarint(r, c);
    quant.max = mlb_svarint(r, c);
    read_points(r, c, &quant);
  } else {
    scale = mlb_f64(r, c);
    zero_point = mlb_svarint(r, c);
    quant.min = mlb_svarint(r, c);
    quant.max = mlb_svarint(r, c);
    quant.scale = &scale;
    quant.zero_point = &zero_point;
  }
  if (r->failed)
    return NULL;
  if (quant.storage->kind != HL_ML_INT || quant.expressed->kind != HL_ML_FLOAT) {
    mlb_fail(r, at, "a quantised type that is not stored as integers or does not express floats");
    return NULL;
  }
  HlMlType type = {.kind = HL_ML_QUANT, .quant = &quant};
  return hl_ml_type_intern(r->tree, &type);
}

enum { QUANT_UNIFORM = 3, QUANT_UNIFORM_PER_AXIS = 4 };

const HlMlType *mlb_quant_type(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (code == QUANT_UNIFORM || code == QUANT_UNIFORM_PER_AXIS)
    return mlb_quant_body(r, c, code == QUANT_UNIFORM_PER_AXIS);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "a type of quant with code %" PRIu64, code);
  return NULL;
}

// --- Attributes ----------------------------------------------------------------------------------

static const HlMlAttr *read_string(MlbReader *r, MlbCursor *c) {
  const HlSym *sym = mlb_string(r, c);
  return sym ? hl_ml_string_of(r->tree, sym) : NULL;
}

static const HlMlAttr *read_tensor(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlType *type = mlb_type(r, c);
  HlStr blob = mlb_bytes(r, c, mlb_varint(r, c));
  return type && !r->failed ? mlb_dense(r, at, type, blob) : NULL;
}

static const HlMlAttr *read_api_version(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t value = mlb_varint(r, c);
  if (!r->failed && value > 4)
    mlb_fail(r, at, "there is no version %" PRIu64 " of custom calls", value);
  return hl_ml_int(r->tree, hl_ml_int_type(r->tree, 32, HL_ML_SIGNLESS), (int64_t)value);
}

const HlMlAttr *vhlo_read_attr(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  const HlMlType *type;
  if (r->failed)
    return NULL;
  switch (code) {
  case VHLO_ARRAY: return mlb_array(r, c);
  case VHLO_BOOL: return hl_ml_bool(r->tree, mlb_varint(r, c) != 0);
  case VHLO_API_VERSION: return read_api_version(r, c);
  case VHLO_DICT: return mlb_dict(r, c);
  case VHLO_FLOAT: type = mlb_type(r, c); return type ? mlb_apfloat(r, c, type) : NULL;
  case VHLO_INTEGER: type = mlb_type(r, c); return type ? mlb_apint(r, c, type) : NULL;
  case VHLO_STRING: return read_string(r, c);
  case VHLO_TENSOR: return read_tensor(r, c);
  case VHLO_TYPE_ATTR: type = mlb_type(r, c); return type ? hl_ml_type_attr(r->tree, type) : NULL;
  default: break;
  }
  const VhloCode *row = code <= INT32_MAX ? vhlo_enum_by_code((int)code) : NULL;
  if (row)
    return mlb_enum(r, at, row->def, HL_ML_STABLEHLO, mlb_varint(r, c));
  row = code <= INT32_MAX ? vhlo_struct_by_code((int)code) : NULL;
  if (row)
    return mlb_struct(r, c, row->def, HL_ML_STABLEHLO, MLB_MAX_ATTRS, MLB_VHLO);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of VHLO with code %" PRIu64, code);
  return NULL;
}
