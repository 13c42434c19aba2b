// Prints attributes of MLIR.
#include "base/ascii.h"
#include "mlir/text/print.h"

// --- Names and strings ------------------------------------------------------------------------------

static bool is_word(const HlSym *sym) {
  if (!sym->n || !(is_alpha(sym->text[0]) || sym->text[0] == '_'))
    return false;
  for (uint32_t k = 1; k < sym->n; k++) {
    unsigned char c = (unsigned char)sym->text[k];
    if (!is_alnum(c) && c != '_' && c != '$' && c != '.')
      return false;
  }
  return true;
}

static bool is_plain(unsigned char c) {
  return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

void mlp_string(Printer *p, const char *text, size_t n) {
  put_char(p->out, '"');
  for (size_t k = 0, start; k < n; k++) {
    for (start = k; k < n && is_plain((unsigned char)text[k]);)
      k++;
    put(p->out, text + start, k - start);
    if (k == n)
      break;
    put_char(p->out, '\\');
    if (text[k] == '\\')
      put_char(p->out, '\\');
    else
      mlp_hex(p->out, &text[k], 1);
  }
  put_char(p->out, '"');
}

void mlp_symbol(Printer *p, const HlSym *sym) {
  put_char(p->out, '@');
  if (is_word(sym))
    put_sym(p->out, sym);
  else
    mlp_string(p, sym->text, sym->n);
}

// Names of attributes may be punctuated words; others are quoted.
static void print_key(Printer *p, const HlSym *sym) {
  if (is_word(sym))
    put_sym(p->out, sym);
  else
    mlp_string(p, sym->text, sym->n);
}

void mlp_named(Printer *p, const HlMlNamed *named) {
  print_key(p, named->name);
  if (named->value->kind == HL_ML_A_UNIT)
    return;
  PUT(p->out, " = ");
  mlp_attr(p, named->value, PR_TYPE);
}

void mlp_dict(Printer *p, int n, const HlMlNamed *named) {
  put_char(p->out, '{');
  for (int k = 0; k < n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_named(p, &named[k]);
  }
  put_char(p->out, '}');
}

void mlp_ints(Printer *p, HlI64s list, const char *between) {
  for (int k = 0; k < list.n; k++) {
    if (k)
      put_text(p->out, between);
    put_i64(p->out, list.at[k]);
  }
}

// --- Kinds ------------------------------------------------------------------------------------------------

static void print_suffix(Printer *p, const HlMlAttr *attr, PrSuffix suffix) {
  if (suffix == PR_NO_TYPE || !attr->type)
    return;
  PUT(p->out, " : ");
  mlp_type(p, attr->type);
}

static void print_int(Printer *p, const HlMlAttr *attr, PrSuffix suffix) {
  const HlMlType *type = attr->type;
  if (type->kind == HL_ML_INT && type->width == 1 && type->sign == HL_ML_SIGNLESS) {
    put_text(p->out, attr->i ? "true" : "false");
    return;
  }
  if (type->kind == HL_ML_INT && type->sign == HL_ML_UNSIGNED)
    put_u64(p->out, (uint64_t)attr->i);
  else
    put_i64(p->out, attr->i);
  bool is_plain = type->kind == HL_ML_INT && type->width == 64 && type->sign == HL_ML_SIGNLESS;
  if (suffix != PR_TYPE_IF_RARE || !is_plain)
    print_suffix(p, attr, suffix);
}

static void print_float_attr(Printer *p, const HlMlAttr *attr, PrSuffix suffix) {
  bool is_pattern = mlp_float(p->out, attr->type, attr->bits, attr->f);
  if (suffix != PR_TYPE_IF_RARE || attr->type->dtype != HL_F64 || is_pattern)
    print_suffix(p, attr, suffix);
}

static void print_nested_symbol(Printer *p, const HlMlAttr *attr) {
  mlp_symbol(p, attr->sym);
  for (int k = 0; k < attr->n; k++) {
    PUT(p->out, "::");
    mlp_symbol(p, attr->list[k]->sym);
  }
}

static void print_array(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '[');
  for (int k = 0; k < attr->n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_attr(p, attr->list[k], PR_TYPE_IF_RARE);
  }
  put_char(p->out, ']');
}

static void print_dense_array(Printer *p, const HlMlAttr *attr) {
  PUT(p->out, "array<");
  mlp_type(p, attr->type);
  int bytes = hl_ml_element_bytes(attr->type);
  for (int64_t k = 0; k < attr->n_elements; k++) {
    if (k)
      PUT(p->out, ", ");
    else
      PUT(p->out, ": ");
    HlMlAttr one = {.kind = HL_ML_A_DENSE,
                    .type = attr->type,
                    .n_elements = 1,
                    .data = (const char *)attr->data + k * bytes};
    mlp_elements(p, &one);
  }
  put_char(p->out, '>');
}

enum { MAX_SMALL = 16 };  // elements of a constant that is shown when large ones are not

static bool is_elided(const Printer *p, const HlMlAttr *attr) {
  int64_t n = attr->kind == HL_ML_A_DENSE_STRINGS ? attr->n : attr->n_elements;
  return !p->options.large_constants && n > MAX_SMALL;
}

static void print_dense(Printer *p, const HlMlAttr *attr) {
  if (is_elided(p, attr)) {
    PUT(p->out, "dense_resource<__elided__>");
    return;
  }
  PUT(p->out, "dense<");
  mlp_elements(p, attr);
  put_char(p->out, '>');
}

static void print_resource(Printer *p, const HlMlAttr *attr) {
  PUT(p->out, "dense_resource<");
  print_key(p, attr->sym);
  put_char(p->out, '>');
}

// #stablehlo<comparison_direction LT>; those with brackets of their own: #stablehlo.result_accuracy_mode<LT>.
// Enums spelt #mhlo.rng_algorithm<PHILOX>; others are #mhlo<precision HIGH>.
static bool has_name_outside(MlAttrDef def, HlMlDialect dialect) {
  return def == ML_D_ACCURACY_MODE ||
         (dialect == HL_ML_MHLO && (def == ML_D_RNG_ALGORITHM || def == ML_D_RNG_DISTRIBUTION));
}

static void print_enum(Printer *p, const HlMlAttr *attr) {
  const char *name = attr->name->text, *dot = strchr(name, '.');
  const MlAttrDef def = ml_def_of(attr);
  if (ml_enum_is_number(def)) {
    put_i64(p->out, attr->i);
    PUT(p->out, " : i32");
    return;
  }
  put_char(p->out, '#');
  if (has_name_outside(def, ml_find_dialect((HlStr){name, attr->name->n}))) {
    put_text(p->out, name);
    put_char(p->out, '<');
  } else if (dot) {
    put(p->out, name, (size_t)(dot - name));
    put_char(p->out, '<');
    put_text(p->out, dot + 1);
    put_char(p->out, ' ');
  }
  put_sym(p->out, attr->sym);
  put_char(p->out, '>');
}

void mlp_attr(Printer *p, const HlMlAttr *attr, PrSuffix suffix) {
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_UNIT: PUT(p->out, "unit"); return;
  case HL_ML_A_BOOL: put_text(p->out, attr->i ? "true" : "false"); return;
  case HL_ML_A_INT: print_int(p, attr, suffix); return;
  case HL_ML_A_FLOAT: print_float_attr(p, attr, suffix); return;
  case HL_ML_A_TYPE: mlp_type(p, attr->type); return;
  case HL_ML_A_SYMBOL: print_nested_symbol(p, attr); return;
  case HL_ML_A_ARRAY: print_array(p, attr); return;
  case HL_ML_A_DICT: mlp_dict(p, attr->n, attr->dict); return;
  case HL_ML_A_DENSE_ARRAY: print_dense_array(p, attr); return;
  case HL_ML_A_ENUM: print_enum(p, attr); return;
  case HL_ML_A_STRUCT: mlp_struct(p, attr); return;
  case HL_ML_A_LOCATION: mlp_location(p, attr->location); return;
  case HL_ML_A_OTHER:
    if (mlp_is_map(attr->sym))
      mlp_map(p, attr->sym);
    else
      put_sym(p->out, attr->sym);
    return;
  case HL_ML_A_STRING: mlp_string(p, attr->sym->text, attr->sym->n); break;
  case HL_ML_A_DENSE:
  case HL_ML_A_DENSE_STRINGS: print_dense(p, attr); break;
  case HL_ML_A_RESOURCE: print_resource(p, attr); break;
  }
  print_suffix(p, attr, suffix);
}

void hl_ml_attr_print(HlBuf *out, const HlMlAttr *attr) {
  Printer p = {.out = out, .options = {.large_constants = true}};
  mlp_attr(&p, attr, PR_TYPE);
  put_end(out);
}
