// Writes portable artifacts: types, as VHLO's or as those of builtin, StableHLO and sdy.
#include <string.h>

#include "mlir/bytecode/write.h"

// A list of types; each is an entry before it is named.
static void put_types(MlwWriter *w, int n, const HlMlType *const *type, MlwForm form) {
  mlw_varint(&w->stack, (uint64_t)n);
  for (int k = 0; k < n; k++) {
    uint32_t index = mlw_type(w, type[k], form);
    mlw_varint(&w->stack, index);
  }
}

static void put_sizes(MlwWriter *w, const HlMlType *type) {
  mlw_ints(&w->stack, (HlI64s){type->dim, type->rank});
}

static uint32_t text_type(MlwWriter *w, const HlMlType *type) {
  size_t from = w->stack.n;
  hl_ml_type_print(&w->stack, type);
  return mlw_text(w, from, &w->types);
}

static uint32_t unsupported_type(MlwWriter *w, const HlMlType *type) {
  HlBuf text = {0};
  hl_ml_type_print(&text, type);
  mlw_fail(w, "the type %s in %s has no form in VHLO", text.at, w->op->name->text);
  hl_buf_free(&text);
  return 0;
}

static void put_quant(MlwWriter *w, const HlMlQuant *quant, MlwForm form) {
  mlw_varint(&w->stack, quant->is_signed);
  mlw_put_type(w, quant->storage, form);
  mlw_put_type(w, quant->expressed, form);
  if (quant->axis < 0) {
    mlw_put_double(&w->stack, quant->scale[0]);
    mlw_svarint(&w->stack, quant->zero_point[0]);
  } else {
    mlw_varint(&w->stack, (uint64_t)quant->axis);
  }
  mlw_svarint(&w->stack, quant->min);
  mlw_svarint(&w->stack, quant->max);
  if (quant->axis < 0)
    return;
  mlw_varint(&w->stack, (uint64_t)quant->n);
  for (int k = 0; k < quant->n; k++)
    mlw_put_double(&w->stack, quant->scale[k]);
  mlw_ints(&w->stack, (HlI64s){quant->zero_point, quant->n});
}

static uint32_t vhlo_quant(MlwWriter *w, const HlMlType *type) {
  const HlMlQuant *quant = type->quant;
  if (quant->block_axes.n)
    return unsupported_type(w, type);
  if (quant->axis >= 0)
    mlw_wants(w, vhlo_version(0, 18), "a type that is quantised per axis");
  size_t from = mlw_begin(w, quant->axis < 0 ? VHLO_T_QUANT : VHLO_T_QUANT_PER_AXIS);
  put_quant(w, quant, MLW_VHLO);
  return mlw_end(w, from, &w->types, "vhlo");
}

// Types without parts, which vhlo.def lists by text.
static uint32_t vhlo_simple(MlwWriter *w, const HlMlType *type) {
  HlBuf text = {0};
  hl_ml_type_print(&text, type);
  const VhloCode *row = vhlo_type_by_text((HlStr){text.at, text.n});
  if (row)
    mlw_wants(w, row->min, text.at);
  hl_buf_free(&text);
  if (!row)
    return unsupported_type(w, type);
  size_t from = mlw_begin(w, row->code);
  return mlw_end(w, from, &w->types, "vhlo");
}

static uint32_t vhlo_type(MlwWriter *w, const HlMlType *type) {
  size_t from;
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_COMPLEX:
  case HL_ML_UNRANKED:
    from = mlw_begin(w, type->kind == HL_ML_COMPLEX ? VHLO_T_COMPLEX : VHLO_T_UNRANKED);
    mlw_put_type(w, type->element[0], MLW_VHLO);
    break;
  case HL_ML_TUPLE:
  case HL_ML_FUTURE:
    if (type->kind == HL_ML_FUTURE)
      mlw_wants(w, vhlo_version(1, 15), "!stablehlo.future");
    from = mlw_begin(w, type->kind == HL_ML_TUPLE ? VHLO_T_TUPLE : VHLO_T_FUTURE);
    put_types(w, type->n, type->element, MLW_VHLO);
    break;
  case HL_ML_FUNCTION:
    from = mlw_begin(w, VHLO_T_FUNCTION);
    put_types(w, type->n_inputs, type->element, MLW_VHLO);
    put_types(w, type->n - type->n_inputs, type->element + type->n_inputs, MLW_VHLO);
    break;
  case HL_ML_TENSOR:
    from = mlw_begin(w, type->encoding ? VHLO_T_TENSOR_WITH : VHLO_T_TENSOR);
    if (type->encoding)
      mlw_put_attr(w, type->encoding, MLW_VHLO);
    put_sizes(w, type);
    mlw_put_type(w, type->element[0], MLW_VHLO);
    break;
  case HL_ML_MEMREF:
    if (type->encoding)
      return unsupported_type(w, type);
    mlw_wants(w, vhlo_version(1, 13), "memref");
    from = mlw_begin(w, VHLO_T_BUFFER);
    put_sizes(w, type);
    mlw_put_type(w, type->element[0], MLW_VHLO);
    break;
  case HL_ML_QUANT: return vhlo_quant(w, type);
  default: return vhlo_simple(w, type);
  }
  return mlw_end(w, from, &w->types, "vhlo");
}

static int float_code(const HlMlType *type) {
  for (int code = 0; code < MLB_FLOAT_CODES; code++)
    if (mlb_float_of_code[code] && strcmp(mlb_float_of_code[code], type->text->text) == 0)
      return code;
  return -1;
}

static uint32_t native_type(MlwWriter *w, const HlMlType *type) {
  size_t from = w->stack.n;
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_INT:
    mlw_begin(w, MLB_T_INTEGER);
    mlw_varint(&w->stack, (uint64_t)type->width << 2 | type->sign);
    break;
  case HL_ML_FLOAT:
    if (float_code(type) < 0)
      return text_type(w, type);
    mlw_begin(w, float_code(type));
    break;
  case HL_ML_INDEX: mlw_begin(w, MLB_T_INDEX); break;
  case HL_ML_NONE: mlw_begin(w, MLB_T_NONE); break;
  case HL_ML_COMPLEX:
  case HL_ML_UNRANKED:
    mlw_begin(w, type->kind == HL_ML_COMPLEX ? MLB_T_COMPLEX : MLB_T_UNRANKED);
    mlw_put_type(w, type->element[0], MLW_NATIVE);
    break;
  case HL_ML_TUPLE:
    mlw_begin(w, MLB_T_TUPLE);
    put_types(w, type->n, type->element, MLW_NATIVE);
    break;
  case HL_ML_FUNCTION:
    mlw_begin(w, MLB_T_FUNCTION);
    put_types(w, type->n_inputs, type->element, MLW_NATIVE);
    put_types(w, type->n - type->n_inputs, type->element + type->n_inputs, MLW_NATIVE);
    break;
  case HL_ML_TENSOR:
    mlw_begin(w, type->encoding ? MLB_T_TENSOR_WITH : MLB_T_TENSOR);
    if (type->encoding)
      mlw_put_attr(w, type->encoding, MLW_NATIVE);
    put_sizes(w, type);
    mlw_put_type(w, type->element[0], MLW_NATIVE);
    break;
  case HL_ML_TOKEN:
    if (type->is_mhlo)
      return text_type(w, type);
    mlw_begin(w, 0);
    return mlw_end(w, from, &w->types, "stablehlo");
  case HL_ML_FUTURE:
    mlw_begin(w, 1);
    put_types(w, type->n, type->element, MLW_NATIVE);
    return mlw_end(w, from, &w->types, "stablehlo");
  default: return text_type(w, type);
  }
  return mlw_end(w, from, &w->types, "builtin");
}

uint32_t mlw_type(MlwWriter *w, const HlMlType *type, MlwForm form) {
  uint32_t index;
  if (w->failed)
    return 0;
  if (mlw_seen(&w->type_memo[form], type, &index))
    return index;
  index = form == MLW_VHLO ? vhlo_type(w, type) : native_type(w, type);
  mlw_see(&w->type_memo[form], type, index);
  return index;
}
