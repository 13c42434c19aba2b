// Prints types of MLIR.
#include "mlir/text/print.h"

#include <math.h>

#include "base/bits.h"

void mlp_dim(Printer *p, int64_t size) {
  if (size == HL_UNBOUNDED)
    put_char(p->out, '?');
  else
    put_i64(p->out, size);
}

static void print_list(Printer *p, int n, const HlMlType *const *element) {
  for (int k = 0; k < n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_type(p, element[k]);
  }
}

static void print_shaped(Printer *p, const char *word, const HlMlType *type) {
  put_text(p->out, word);
  put_char(p->out, '<');
  for (int k = 0; k < type->rank; k++) {
    mlp_dim(p, type->dim[k]);
    put_char(p->out, 'x');
  }
  mlp_type(p, type->element[0]);
  if (type->encoding) {
    PUT(p->out, ", ");
    mlp_attr(p, type->encoding, PR_TYPE);
  }
  put_char(p->out, '>');
}

static void print_function(Printer *p, const HlMlType *type) {
  int n_results = type->n - type->n_inputs;
  const HlMlType *const *result = type->element + type->n_inputs;
  put_char(p->out, '(');
  print_list(p, type->n_inputs, type->element);
  PUT(p->out, ") -> ");
  bool bare = n_results == 1 && result[0]->kind != HL_ML_FUNCTION;
  if (!bare)
    put_char(p->out, '(');
  print_list(p, n_results, result);
  if (!bare)
    put_char(p->out, ')');
}

// --- Quantised types -----------------------------------------------------------------------------------

// A scale of an integer of many digits would be printed as a pattern, which is not a scale: 123456789.0.
static void print_double(Printer *p, double value) {
  static const HlMlType f64 = {.kind = HL_ML_FLOAT, .width = 64, .dtype = HL_F64};
  size_t start = p->out->n;
  if (!mlp_float(p->out, &f64, hl_f64_bits(value), value) || !isfinite(value))
    return;
  p->out->n = start;
  hl_buf_printf(p->out, "%.1f", value);
}

static void print_scale(Printer *p, const HlMlQuant *quant, int k) {
  print_double(p, quant->scale[k]);
  if (quant->zero_point[k]) {
    put_char(p->out, ':');
    put_i64(p->out, quant->zero_point[k]);
  }
}

static void print_storage(Printer *p, const HlMlQuant *quant) {
  int width = quant->storage->width;
  put_char(p->out, quant->is_signed ? 'i' : 'u');
  put_i64(p->out, width);
  int64_t min = quant->is_signed ? -((int64_t)1 << (width - 1)) : 0;
  int64_t max = quant->is_signed ? ((int64_t)1 << (width - 1)) - 1 : ((int64_t)1 << width) - 1;
  if (quant->min == min && quant->max == max)
    return;
  put_char(p->out, '<');
  put_i64(p->out, quant->min);
  put_char(p->out, ':');
  put_i64(p->out, quant->max);
  put_char(p->out, '>');
}

static void print_blocks(Printer *p, const HlMlQuant *quant) {
  put_char(p->out, '{');
  for (int k = 0; k < quant->block_axes.n; k++) {
    if (k)
      PUT(p->out, ", ");
    put_i64(p->out, quant->block_axes.at[k]);
    put_char(p->out, ':');
    put_i64(p->out, quant->block_sizes.at[k]);
  }
  put_char(p->out, '}');
}

static void print_scales(Printer *p, const HlMlQuant *quant) {
  put_char(p->out, '{');
  for (int k = 0; k < quant->n; k++) {
    if (k)
      put_char(p->out, ',');
    print_scale(p, quant, k);
  }
  put_char(p->out, '}');
}

static void print_quant(Printer *p, const HlMlQuant *quant) {
  PUT(p->out, "!quant.uniform<");
  print_storage(p, quant);
  put_char(p->out, ':');
  mlp_type(p, quant->expressed);
  if (quant->block_axes.n) {
    put_char(p->out, ':');
    print_blocks(p, quant);
    PUT(p->out, ", ");
    print_scales(p, quant);
  } else if (quant->axis >= 0) {
    put_char(p->out, ':');
    put_i64(p->out, quant->axis);
    PUT(p->out, ", ");
    print_scales(p, quant);
  } else {
    PUT(p->out, ", ");
    print_scale(p, quant, 0);
  }
  put_char(p->out, '>');
}

// --- Any type -------------------------------------------------------------------------------------------

static void print_bracketed(Printer *p, const char *word, const HlMlType *type) {
  put_text(p->out, word);
  put_char(p->out, '<');
  print_list(p, type->n, type->element);
  put_char(p->out, '>');
}

static void print_int_type(Printer *p, const HlMlType *type) {
  static const char *const letters[] = {
      [HL_ML_SIGNLESS] = "i", [HL_ML_SIGNED] = "si", [HL_ML_UNSIGNED] = "ui"};
  put_text(p->out, letters[type->sign]);
  put_i64(p->out, type->width);
}

void mlp_type(Printer *p, const HlMlType *type) {
  if (p->aliases && mlp_type_alias(p, type))
    return;
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_INT: print_int_type(p, type); return;
  case HL_ML_FLOAT:
  case HL_ML_OTHER: put_sym(p->out, type->text); return;
  case HL_ML_INDEX: PUT(p->out, "index"); return;
  case HL_ML_NONE: PUT(p->out, "none"); return;
  case HL_ML_COMPLEX: print_bracketed(p, "complex", type); return;
  case HL_ML_TUPLE: print_bracketed(p, "tuple", type); return;
  case HL_ML_FUNCTION: print_function(p, type); return;
  case HL_ML_TENSOR: print_shaped(p, "tensor", type); return;
  case HL_ML_VECTOR: print_shaped(p, "vector", type); return;
  case HL_ML_MEMREF: print_shaped(p, "memref", type); return;
  case HL_ML_UNRANKED:
    PUT(p->out, "tensor<*x");
    mlp_type(p, type->element[0]);
    put_char(p->out, '>');
    return;
  case HL_ML_TOKEN: put_text(p->out, type->is_mhlo ? "!mhlo.token" : "!stablehlo.token"); return;
  case HL_ML_FUTURE: print_bracketed(p, "!stablehlo.future", type); return;
  case HL_ML_BUNDLE: print_bracketed(p, "!mhlo.async_bundle", type); return;
  case HL_ML_QUANT: print_quant(p, type->quant); return;
  }
}

// --- Alone ----------------------------------------------------------------------------------------------

void hl_ml_type_print(HlBuf *out, const HlMlType *type) {
  Printer p = {.out = out, .options = {.large_constants = true}};
  mlp_type(&p, type);
  put_end(out);
}

const char *hl_ml_type_text(HlCx *cx, const HlMlType *type) {
  HlBuf buf = {0};
  hl_ml_type_print(&buf, type);
  const char *text = hl_arena_strndup(hl_cx_scratch(cx), buf.at, buf.n);
  hl_buf_free(&buf);
  return text;
}
