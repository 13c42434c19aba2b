// pjrt/ffi_attrs.c: attributes of handlers, from the dictionary in a custom call's backend_config.
//
//   {axis = 1 : i64, name = "x", scale = dense<[1.0, 2.0]> : tensor<2xf32>}
//
// MLIR's reader reads it as an attribute of a module.

#include <stdio.h>
#include <string.h>

#include "hilo/mlir.h"
#include "pjrt/ffi.h"

typedef struct Maker {
  HlCx *cx;
  HlArena *arena;
  HlPos pos;
  Fault *fault;
} Maker;

static bool unsupported(Maker *maker, const HlSym *name) {
  char text[256];
  const int n =
      snprintf(text, sizeof text, "Unsupported attribute type for attribute: %.200s", name->text);
  maker->fault = fault_new(PJRT_INVALID_ARGUMENT, text, (size_t)n);
  return false;
}

// `bits` begin with the elements' own bytes: little-endian.
static void *scalar(Maker *maker, int dtype, uint64_t bits) {
  FfiScalar *out = HL_NEW(maker->arena, FfiScalar);
  *out = (FfiScalar){dtype, hl_arena_copy(maker->arena, &bits, sizeof bits)};
  return out;
}

static void *array(Maker *maker, HlDtype dtype, const void *data, int64_t n) {
  FfiArray *out = HL_NEW(maker->arena, FfiArray);
  const size_t bytes = (size_t)n * (size_t)hl_dtype_bytes(dtype);
  *out = (FfiArray){hl_dtype_info[dtype].proto, (size_t)n,
                    bytes ? hl_arena_copy(maker->arena, data, bytes) : NULL};
  return out;
}

static void *dense(Maker *maker, const HlMlAttr *attr) {
  HlLiteral *value = hl_ml_literal(maker->cx, maker->pos, attr);
  if (!value) {
    maker->fault = fault_of_cx(maker->cx);
    return NULL;
  }
  void *out = array(maker, value->shape->dtype, value->data, value->n);
  hl_literal_unref(value);
  return out;
}

static FfiSpan *span(Maker *maker, const HlSym *sym) {
  FfiSpan *out = HL_NEW(maker->arena, FfiSpan);
  *out = (FfiSpan){hl_arena_copy(maker->arena, sym->text, sym->n + 1), sym->n};
  return out;
}

static bool dictionary(Maker *maker, const HlMlAttr *dict, FfiAttrs *out);

static void *nested(Maker *maker, const HlMlAttr *dict) {
  FfiAttrs *out = HL_NEW(maker->arena, FfiAttrs);
  return dictionary(maker, dict, out) ? out : NULL;
}

// NULL: it has no such value.
static void *value_of(Maker *maker, const HlMlAttr *attr, FfiAttrType *type) {
  const HlDtype dtype = attr->type ? hl_ml_dtype(attr->type) : HL_NO_DTYPE;
  *type = FFI_SCALAR;
  switch (attr->kind) {
  case HL_ML_A_BOOL: return scalar(maker, hl_dtype_info[HL_PRED].proto, attr->i != 0);
  case HL_ML_A_INT:
    return dtype == HL_NO_DTYPE ? NULL
                                : scalar(maker, hl_dtype_info[dtype].proto, (uint64_t)attr->i);
  case HL_ML_A_FLOAT:
    return dtype == HL_NO_DTYPE ? NULL : scalar(maker, hl_dtype_info[dtype].proto, attr->bits);
  case HL_ML_A_STRING: *type = FFI_STRING; return span(maker, attr->sym);
  case HL_ML_A_DICT: *type = FFI_DICTIONARY; return nested(maker, attr);
  case HL_ML_A_DENSE: *type = FFI_ARRAY; return dtype == HL_NO_DTYPE ? NULL : dense(maker, attr);
  case HL_ML_A_DENSE_ARRAY:
    *type = FFI_ARRAY;
    return dtype == HL_NO_DTYPE ? NULL : array(maker, dtype, attr->data, attr->n_elements);
  default: return NULL;
  }
}

// The reader has bounded how deep it nests, and sorted the names.
static bool dictionary(Maker *maker, const HlMlAttr *dict, FfiAttrs *out) {
  const int n = dict->n;
  FfiAttrType *types = HL_ARRAY(maker->arena, FfiAttrType, n + 1);
  const FfiSpan **names = HL_ARRAY(maker->arena, const FfiSpan *, n + 1);
  const void **attrs = HL_ARRAY(maker->arena, const void *, n + 1);
  for (int k = 0; k < n; k++) {
    const HlMlNamed *named = &dict->dict[k];
    names[k] = span(maker, named->name);
    attrs[k] = value_of(maker, named->value, &types[k]);
    if (!attrs[k])
      return maker->fault ? false : unsupported(maker, named->name);
  }
  *out = (FfiAttrs){.struct_size = FFI_SIZE_TO(FfiAttrs, attrs),
                    .size = n,
                    .types = types,
                    .names = names,
                    .attrs = attrs};
  return true;
}

static HlMlTree *read(Maker *maker, const char *config) {
  HlBuf text = {0};
  hl_buf_printf(&text, "module attributes {hilo.ffi = %s} {\n}\n", config);
  HlSource *source = hl_source_new("backend_config", text.at, text.n, false);
  HlMlTree **tree = NULL, *out = NULL;
  int n = 0;
  if (hl_ml_text_read(maker->cx, source, &tree, &n) && n == 1)
    out = tree[0];
  hl_free(tree);
  hl_source_unref(source);
  hl_buf_free(&text);
  return out;
}

Fault *ffi_attrs(HlCx *cx, HlArena *arena, const HlInst *inst, FfiAttrs *out) {
  const char *config = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  *out = (FfiAttrs){.struct_size = FFI_SIZE_TO(FfiAttrs, attrs)};
  if (!*config)
    return NULL;
  Maker maker = {.cx = cx, .arena = arena, .pos = hl_pos(inst)};
  HlMlTree *tree = read(&maker, config);
  if (!tree)
    return fault_of_cx(cx);
  const HlMlAttr *dict = hl_ml_attr(tree->module, "hilo.ffi");
  if (!dict || dict->kind != HL_ML_A_DICT) {
    static const char text[] = "the configuration of a typed custom call is no dictionary";
    maker.fault = fault_new(PJRT_INVALID_ARGUMENT, text, sizeof text - 1);
  } else {
    dictionary(&maker, dict, out);
  }
  hl_ml_free(tree);
  return maker.fault;
}
