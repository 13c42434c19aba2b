// Verifies MLIR trees: types: which element types and ranks an op takes, when two types agree,
// traits.
#include "mlir/verify/verify.h"

#include <assert.h>
#include <string.h>

// --- Questions about types ----------------------------------------------------------------------

bool mv_is_shaped(const HlMlType *type) {
  return type->kind == HL_ML_TENSOR || type->kind == HL_ML_UNRANKED || type->kind == HL_ML_VECTOR ||
         type->kind == HL_ML_MEMREF;
}

bool mv_is_ranked(const HlMlType *type) {
  return mv_is_shaped(type) && type->kind != HL_ML_UNRANKED;
}

bool mv_is_quantised(const HlMlType *type) {
  return hl_ml_element(type)->kind == HL_ML_QUANT;
}

bool mv_is_per_axis(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_QUANT && element->quant->axis >= 0;
}

bool mv_is_int(const HlMlType *type, int width) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_INT && element->sign == HL_ML_SIGNLESS && element->width == width;
}

bool mv_is_i1(const HlMlType *type) {
  return mv_is_int(type, 1);
}

int mv_bits(const HlMlType *element) {
  switch (element->kind) {
  case HL_ML_COMPLEX: return 2 * mv_bits(element->element[0]);
  case HL_ML_QUANT: return mv_bits(element->quant->storage);
  case HL_ML_INDEX: return 64;
  default: return element->width;
  }
}

static bool has_one_bounded(const HlMlType *type) {
  const HlI64s bounds = hl_ml_bounds(type);
  int n_bounded = 0, n_dynamic = 0;
  for (int k = 0; k < type->rank; k++) {
    n_dynamic += mv_is_dynamic_size(type->dim[k]);
    n_bounded += k < bounds.n && !mv_is_dynamic_size(bounds.at[k]);
  }
  return n_bounded == 1 && n_dynamic == 1;
}

// --- Agreement ----------------------------------------------------------------------------------

bool mv_shapes_agree(const HlMlType *a, const HlMlType *b) {
  if (!mv_is_shaped(a) || !mv_is_shaped(b))
    return mv_is_shaped(a) == mv_is_shaped(b);
  if (!mv_is_ranked(a) || !mv_is_ranked(b))
    return true;
  if (a->rank != b->rank)
    return false;
  for (int k = 0; k < a->rank; k++)
    if (!mv_sizes_agree(a->dim[k], b->dim[k]))
      return false;
  return true;
}

// Two quantised types agree when they store and express the same; scales and zero points may
// differ.
static bool quants_agree(const HlMlQuant *a, const HlMlQuant *b) {
  return a->storage == b->storage && a->is_signed == b->is_signed && a->min == b->min &&
         a->max == b->max && a->expressed == b->expressed && (a->axis >= 0) == (b->axis >= 0);
}

bool mv_elements_agree(const HlMlType *a, const HlMlType *b) {
  a = hl_ml_element(a);
  b = hl_ml_element(b);
  if (a->kind == HL_ML_QUANT && b->kind == HL_ML_QUANT)
    return quants_agree(a->quant, b->quant);
  return a == b;
}

static bool fits_bounds(const HlMlType *type, HlI64s bounds) {
  for (int k = 0; k < type->rank && k < bounds.n; k++)
    if (!mv_is_dynamic_size(bounds.at[k]) && !mv_is_dynamic_size(type->dim[k]) &&
        bounds.at[k] < type->dim[k])
      return false;
  return true;
}

bool mv_types_agree(const HlMlType *a, const HlMlType *b) {
  if (a == b)
    return true;
  if (!mv_is_shaped(a) || !mv_is_shaped(b))
    return mv_elements_agree(a, b);
  if (!mv_shapes_agree(a, b) || !mv_elements_agree(a, b))
    return false;
  if (a->kind != HL_ML_TENSOR || b->kind != HL_ML_TENSOR)
    return true;
  return fits_bounds(a, hl_ml_bounds(b)) && fits_bounds(b, hl_ml_bounds(a));
}

const char *mv_text(MlVerify *v, const HlMlType *type) {
  return hl_ml_type_text(v->cx, type);
}

static void add_size(HlBuf *out, int64_t size) {
  if (mv_is_dynamic_size(size))
    hl_buf_putc(out, '?');
  else
    hl_buf_i64(out, size);
}

static const char *keep(MlVerify *v, HlBuf *text) {
  const char *kept = hl_arena_strndup(v->arena, text->n ? text->at : "", text->n);
  hl_buf_free(text);
  return kept;
}

const char *mv_ints_text(MlVerify *v, HlI64s list) {
  HlBuf text = {0};
  for (int k = 0; k < list.n; k++) {
    if (k > 0)
      hl_buf_puts(&text, ", ");
    add_size(&text, list.at[k]);
  }
  return keep(v, &text);
}

// --- Types by themselves ------------------------------------------------------------------------

static bool bounds_fit(MlVerify *v, const HlMlOp *op, const HlMlType *type) {
  const HlI64s bounds = hl_ml_bounds(type);
  if (bounds.n == 0)
    return true;
  if (bounds.n != type->rank)
    return mv_bad(v, op, "%d bounds for a tensor of rank %d: %s", bounds.n, type->rank,
                  mv_text(v, type));
  for (int k = 0; k < type->rank; k++)
    if (!mv_is_dynamic_size(bounds.at[k]) && !mv_is_dynamic_size(type->dim[k]))
      return mv_bad(v, op, "static dimension %d cannot have a bound: %s", k, mv_text(v, type));
  return true;
}

static bool futures_fit(MlVerify *v, const HlMlOp *op, const HlMlType *type) {
  for (int k = 0; k < type->n; k++)
    if (type->element[k]->kind != HL_ML_TENSOR)
      return mv_bad(v, op, "the element types of a future must be ranked tensors, but one is '%s'",
                    mv_text(v, type->element[k]));
  return true;
}

// The least and greatest positive values of the types that quantised ones express.
static bool find_limits(HlDtype dtype, double *least, double *most) {
  switch (dtype) {
  case HL_F16: *least = 0x1p-24, *most = 65504; return true;
  case HL_BF16: *least = 0x1p-133, *most = 0x1.fep127; return true;
  case HL_F32: *least = 0x1p-149, *most = 0x1.fffffep127; return true;
  default: return false;
  }
}

static bool scales_fit(MlVerify *v, const HlMlOp *op, const HlMlQuant *q) {
  double least, most;
  if (!find_limits(q->expressed->dtype, &least, &most))
    return true;
  for (int k = 0; k < q->n; k++)
    if (q->scale[k] < least || q->scale[k] > most)
      return mv_bad(v, op, "scale %e is out of the range of the expressed type '%s'", q->scale[k],
                    mv_text(v, q->expressed));
  return true;
}

bool mv_type_is_well_formed(MlVerify *v, const HlMlOp *op, const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  if (element->kind == HL_ML_QUANT && !scales_fit(v, op, element->quant))
    return false;
  if (type->kind == HL_ML_TENSOR && type->encoding != NULL)
    return bounds_fit(v, op, type);
  if (type->kind == HL_ML_FUTURE)
    return futures_fit(v, op, type);
  return true;
}

// --- The types an op takes ----------------------------------------------------------------------

static bool is_power_of_two_width(int width) {
  return width == 2 || width == 4 || width == 8 || width == 16 || width == 32 || width == 64;
}

// The zero points of a quantised type must be values of its storage.
static bool is_hlo_quant(const HlMlQuant *q) {
  if (q->block_sizes.n > 0 || q->storage->sign == HL_ML_SIGNED || q->storage->width > 32 ||
      !is_power_of_two_width(q->storage->width))
    return false;
  for (int k = 0; k < q->n; k++)
    if (q->zero_point[k] < q->min || q->zero_point[k] > q->max)
      return false;
  return true;
}

static bool is_hlo_float(const HlMlType *e) {
  return e->kind == HL_ML_FLOAT && e->dtype != HL_NO_DTYPE;
}

static bool letter_takes(char letter, const HlMlType *e) {
  const bool is_int = e->kind == HL_ML_INT;
  const bool is_signless = is_int && e->sign == HL_ML_SIGNLESS,
             is_unsigned = is_int && e->sign == HL_ML_UNSIGNED;
  const bool is_wide = is_int && is_power_of_two_width(e->width);
  switch (letter) {
  case 'p': return is_signless && e->width == 1;
  case 's': return is_signless && is_wide;
  case 'u': return is_unsigned && is_wide;
  case 'i': return (is_signless || is_unsigned) && is_wide;
  case 'j': return is_signless && e->width == 32;
  case 'w': return is_unsigned && e->width == 32;
  case 'y': return is_int;
  case 'x': return e->kind == HL_ML_INDEX;
  case 'f': return is_hlo_float(e);
  case 'd': return e->dtype == HL_F32 || e->dtype == HL_F64;
  case 'c': return e->kind == HL_ML_COMPLEX && (e->dtype == HL_C64 || e->dtype == HL_C128);
  case 'q': return e->kind == HL_ML_QUANT && e->quant->axis < 0 && is_hlo_quant(e->quant);
  case 'a': return e->kind == HL_ML_QUANT && e->quant->axis >= 0 && is_hlo_quant(e->quant);
  case 't':
    return (is_signless && e->width == 1) || ((is_signless || is_unsigned) && is_wide) ||
           is_hlo_float(e) || letter_takes('c', e) || letter_takes('q', e);
  default: return false;
  }
}

static bool any_letter_takes(const char *letters, size_t n, const HlMlType *element) {
  for (size_t k = 0; k < n; k++)
    if (letter_takes(letters[k], element))
      return true;
  return false;
}

// The quantised axis is one of the tensor's, and has a scale per index.
static bool axis_fits(const HlMlType *type) {
  if (!mv_is_per_axis(type) || type->kind != HL_ML_TENSOR)
    return true;
  const HlMlQuant *q = hl_ml_element(type)->quant;
  return q->axis < type->rank &&
         (mv_is_dynamic_size(type->dim[q->axis]) || type->dim[q->axis] == q->n);
}

static bool shape_takes(const char *shape, size_t n, const HlMlType *type) {
  for (size_t k = 0; k < n; k++) {
    if (shape[k] >= '0' && shape[k] <= '2' && type->rank != shape[k] - '0')
      return false;
    if (shape[k] == 's' && !hl_ml_is_static(type))
      return false;
    if (shape[k] == 'b' && !hl_ml_is_static(type) && !has_one_bounded(type))
      return false;
  }
  return true;
}

static bool tuple_fits(const char *spec, size_t n, const HlMlType *type) {
  for (int k = 0; k < type->n; k++)
    if (!mv_fits(spec, n, type->element[k]))
      return false;
  return true;
}

bool mv_fits(const char *spec, size_t n, const HlMlType *type) {
  if (n == 1 && spec[0] == '?')
    return true;
  const char *colon = memchr(spec, ':', n);
  const char *letters = colon ? colon + 1 : spec;
  const size_t n_letters = (size_t)(spec + n - letters),
               n_shape = colon ? (size_t)(colon - spec) : 0;
  const HlMlType *element = hl_ml_element(type);
  switch (type->kind) {
  case HL_ML_TENSOR:
    return shape_takes(spec, n_shape, type) && any_letter_takes(letters, n_letters, element) &&
           axis_fits(type);
  case HL_ML_UNRANKED:
    return n_shape > 0 && memchr(spec, '*', n_shape) != NULL &&
           any_letter_takes(letters, n_letters, element);
  case HL_ML_MEMREF: return memchr(letters, 'M', n_letters) != NULL && letter_takes('t', element);
  case HL_ML_TOKEN: return memchr(letters, 'T', n_letters) != NULL;
  case HL_ML_FUTURE: return memchr(letters, 'R', n_letters) != NULL;
  case HL_ML_BUNDLE: return memchr(letters, 'R', n_letters) != NULL;
  case HL_ML_TUPLE:
    return memchr(letters, 'U', n_letters) != NULL && tuple_fits("*:taTUM", 7, type);
  default: return false;
  }
}

// What the letters of a constraint mean in words.
typedef struct LetterText {
  char letter;
  const char *text;
} LetterText;
static const LetterText element_texts[] = {
    {'t', "i1, integer, float, complex or per-tensor quantised integer"},
    {'p', "i1"},
    {'i', "integer"},
    {'s', "signless integer"},
    {'u', "unsigned integer"},
    {'j', "i32"},
    {'w', "ui32"},
    {'y', "any integer"},
    {'x', "index"},
    {'f', "float"},
    {'d', "f32 or f64"},
    {'c', "complex<f32 or f64>"},
    {'q', "per-tensor quantised integer"},
    {'a', "per-axis quantised integer"}};
static const LetterText kind_texts[] = {
    {'T', "a token"}, {'U', "a tuple"}, {'M', "a memref"}, {'R', "a future"}};

// The constraint in words: "0-dimensional tensor of i1 or integer".
static const char *spec_text(MlVerify *v, const char *spec, size_t n) {
  const char *colon = memchr(spec, ':', n);
  const char *letters = colon ? colon + 1 : spec, *end = spec + n;
  const size_t n_letters = (size_t)(end - letters);
  HlBuf text = {0};
  for (const char *at = spec; colon && at < colon; at++)
    hl_buf_puts(&text, *at == 's'   ? "statically shaped "
                       : *at == 'b' ? "statically shaped or single bounded dimension "
                       : *at == '0' ? "0-dimensional "
                       : *at == '1' ? "1-dimensional "
                       : *at == '2' ? "2-dimensional "
                                    : "");
  bool is_first = true;
  for (int k = 0; k < HL_COUNT_OF(element_texts); k++)
    if (memchr(letters, element_texts[k].letter, n_letters)) {
      hl_buf_puts(&text, is_first ? "tensor of " : " or ");
      hl_buf_puts(&text, element_texts[k].text);
      is_first = false;
    }
  for (int k = 0; k < HL_COUNT_OF(kind_texts); k++)
    if (memchr(letters, kind_texts[k].letter, n_letters)) {
      hl_buf_puts(&text, is_first ? kind_texts[k].text + 2 : " or ");
      if (!is_first)
        hl_buf_puts(&text, kind_texts[k].text);
      is_first = false;
    }
  return keep(v, &text);
}

// MHLO lets tuples stand wherever tensors do, and does not ask for static shapes.
static bool mhlo_fits(const char *spec, size_t n, const HlMlType *type) {
  const char *colon = memchr(spec, ':', n);
  const char *letters = colon ? colon + 1 : spec;
  for (const char *at = spec; colon && at < colon; at++)
    if (*at >= '0' && *at <= '2' && type->rank != *at - '0')
      return type->kind == HL_ML_TUPLE;
  return type->kind == HL_ML_TUPLE ||
         (type->kind == HL_ML_TENSOR &&
          any_letter_takes(letters, (size_t)(spec + n - letters), hl_ml_element(type)) &&
          axis_fits(type));
}

static bool check_value(MlVerify *v, const HlMlOp *op, const char *what, int number,
                        const char *spec, size_t n, const HlMlType *type) {
  if (mv_fits(spec, n, type) || (op->dialect == HL_ML_MHLO && mhlo_fits(spec, n, type)))
    return true;
  return mv_bad(v, op, "%s #%d must be %s, but is '%s'", what, number, spec_text(v, spec, n),
                mv_text(v, type));
}

// The next word of a constraint list; the last one stands for all that follow.
static HlStr next_word(const char **at) {
  const size_t n = strcspn(*at, " ");
  const HlStr word = {*at, n};
  if ((*at)[n] == ' ')
    *at += n + 1;
  return word;
}

// The operands or results: as many as the row names, each of a type that its word takes.
static bool check_values(MlVerify *v, const HlMlOp *op, bool is_operand, const char *spec) {
  const char *names = is_operand ? ml_row_of(op)->operands : ml_row_of(op)->results;
  const char *what = is_operand ? "operand" : "result";
  const int n = (int)(is_operand ? op->n_operands : op->n_results);
  int size[ML_GROUPS], n_groups, number = 0;
  if (!mv_groups(names, n, mv_segments(v, op, is_operand), size, &n_groups))
    return mv_bad(v, op, "has %d %ss, which do not fit (%s)", n, what, names);
  for (int group = 0; spec && group < n_groups; group++) {
    const HlStr word = next_word(&spec);
    for (int k = 0; k < size[group]; k++, number++)
      if (!check_value(v, op, what, number, word.at, word.n,
                       is_operand ? mv_in(op, number) : mv_out(op, number)))
        return false;
  }
  return true;
}

bool mv_check_types(MlVerify *v, const HlMlOp *op, const MlRules *rules) {
  return check_values(v, op, true, rules->operands) && check_values(v, op, false, rules->results);
}

// --- Traits -------------------------------------------------------------------------------------

static const HlMlType *type_at(const HlMlOp *op, uint32_t k) {
  return k < op->n_operands ? op->operands[k]->type : op->results[k - op->n_operands].type;
}

// Whether all operands and results agree with the first of them.
static bool all_agree(const HlMlOp *op, uint32_t n,
                      bool (*agree)(const HlMlType *, const HlMlType *)) {
  for (uint32_t k = 1; k < n; k++)
    if (!agree(type_at(op, k), type_at(op, 0)))
      return false;
  return true;
}

// Compatible shapes: equal ranks, and in each dimension one size of all that is known.
static bool all_same_shape(const HlMlOp *op, uint32_t n) {
  const HlMlType *first = NULL;
  for (uint32_t k = 0; k < n; k++) {
    const HlMlType *type = type_at(op, k);
    if (!mv_shapes_agree(type, type_at(op, 0)))
      return false;
    if (first == NULL && mv_is_ranked(type))
      first = type;
    if (first && mv_is_ranked(type) && type->rank != first->rank)
      return false;
  }
  for (int d = 0; first && d < first->rank; d++) {
    int64_t size = HL_UNBOUNDED;
    for (uint32_t k = 0; k < n; k++) {
      const HlMlType *type = type_at(op, k);
      if (!mv_is_ranked(type) || mv_is_dynamic_size(type->dim[d]))
        continue;
      if (!mv_sizes_agree(size, type->dim[d]))
        return false;
      size = type->dim[d];
    }
  }
  return true;
}

static bool same_element(const HlMlType *a, const HlMlType *b) {
  return hl_ml_element(a) == hl_ml_element(b);
}

static bool same_type(const HlMlType *a, const HlMlType *b) {
  return a == b;
}

static bool check_pairs(MlVerify *v, const HlMlOp *op, unsigned traits) {
  if (op->n_operands != op->n_results)
    return mv_bad(v, op, "requires as many results as operands, but has %u operands and %u results",
                  op->n_operands, op->n_results);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlType *in = mv_in(op, (int)k), *out = mv_out(op, (int)k);
    if ((traits & ML_PAIRED_TYPE) != 0 ? in != out : hl_ml_element(in) != hl_ml_element(out))
      return mv_bad(v, op, "requires the same %stype for operand and result %u: '%s' vs '%s'",
                    (traits & ML_PAIRED_TYPE) != 0 ? "" : "element ", k, mv_text(v, in),
                    mv_text(v, out));
  }
  return true;
}

// The result of an elementwise op is what is known of its operands.
static bool check_inferred(MlVerify *v, const HlMlOp *op) {
  if (op->n_operands == 0 || op->n_results != 1)
    return true;
  const HlMlType **types = HL_ARRAY(v->arena, const HlMlType *, op->n_operands);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    types[k] = mv_in(op, (int)k);
    if (types[k]->kind != HL_ML_TENSOR)
      return true;
  }
  MlShape shape;
  return mv_most_specific(v, op, (int)op->n_operands, types, &shape) &&
         mv_result_is(v, op, 0, &shape);
}

bool mv_check_traits(MlVerify *v, const HlMlOp *op, unsigned traits) {
  const uint32_t n = op->n_operands + op->n_results;
  if ((traits & (ML_SAME_SHAPE | ML_SAME_ELEMENT)) != 0 && op->n_operands == 0)
    return mv_bad(v, op, "expected 1 or more operands, but found 0");
  if ((traits & ML_SAME_ELEMENT) != 0 && !all_agree(op, n, same_element))
    return mv_bad(v, op, "requires the same element type for all operands and results");
  if ((traits & ML_COMPATIBLE_ELEMENT) != 0 && !all_agree(op, n, mv_elements_agree))
    return mv_bad(v, op, "requires compatible element types for all operands and results");
  if ((traits & ML_COMPATIBLE_TYPE) != 0 && !all_agree(op, n, mv_types_agree))
    return mv_bad(v, op, "requires compatible types for all operands and results");
  if ((traits & ML_SAME_SHAPE) != 0 && !all_same_shape(op, n))
    return mv_bad(v, op, "requires the same shape for all operands and results");
  if ((traits & ML_COMPATIBLE_OPERANDS) != 0 && !all_agree(op, op->n_operands, mv_elements_agree))
    return mv_bad(v, op, "requires compatible element types for all operands");
  if ((traits & ML_SAME_OPERANDS) != 0 && !all_agree(op, op->n_operands, same_type))
    return mv_bad(v, op, "requires all operands to have the same type");
  if ((traits & (ML_PAIRED_ELEMENT | ML_PAIRED_TYPE)) != 0 && !check_pairs(v, op, traits))
    return false;
  return (traits & ML_COMPATIBLE_TYPE) == 0 || check_inferred(v, op);
}

// --- What a result should be --------------------------------------------------------------------

MlShape mv_shape_of(MlVerify *v, const HlMlType *type) {
  const HlI64s bounds = hl_ml_bounds(type);
  MlShape shape = {.rank = type->rank, .element = hl_ml_element(type)};
  shape.dim = hl_arena_copy(v->arena, type->dim, sizeof *type->dim * (size_t)type->rank);
  if (bounds.n == type->rank && bounds.n > 0)
    shape.bound = hl_arena_copy(v->arena, bounds.at, sizeof *bounds.at * (size_t)bounds.n);
  return shape;
}

MlShape mv_shape_new(MlVerify *v, int rank, const HlMlType *element) {
  MlShape shape = {.rank = rank, .element = element, .dim = HL_ARRAY(v->arena, int64_t, rank)};
  for (int k = 0; k < rank; k++)
    shape.dim[k] = HL_UNBOUNDED;
  return shape;
}

static const char *dtype_text(HlDtype dtype) {
  switch (dtype) {
  case HL_PRED: return "i1";
  case HL_S32: return "i32";
  case HL_U32: return "ui32";
  case HL_C64: return "complex<f32>";
  case HL_C128: return "complex<f64>";
  default: return "*";
  }
}

static const char *shape_text(MlVerify *v, const MlShape *shape) {
  HlBuf text = {0};
  hl_buf_puts(&text, "tensor<");
  for (int k = 0; k < shape->rank; k++) {
    add_size(&text, shape->dim[k]);
    hl_buf_putc(&text, 'x');
  }
  hl_buf_puts(&text, shape->element ? mv_text(v, shape->element) : dtype_text(shape->dtype));
  bool is_bounded = false;
  for (int k = 0; shape->bound && k < shape->rank; k++)
    is_bounded |= !mv_is_dynamic_size(shape->bound[k]);
  if (is_bounded) {
    hl_buf_puts(&text, ", #stablehlo.bounds<");
    hl_buf_puts(&text, mv_ints_text(v, (HlI64s){shape->bound, shape->rank}));
    hl_buf_putc(&text, '>');
  }
  hl_buf_putc(&text, '>');
  return keep(v, &text);
}

static bool element_is(const HlMlType *type, const MlShape *shape) {
  if (shape->element != NULL)
    return mv_elements_agree(type, shape->element);
  return shape->dtype == HL_NO_DTYPE || hl_ml_element(type)->dtype == shape->dtype;
}

static bool shape_is(const HlMlType *type, const MlShape *shape) {
  if (!mv_is_shaped(type))
    return false;
  if (!mv_is_ranked(type))
    return true;
  if (type->rank != shape->rank)
    return false;
  const HlI64s bounds = hl_ml_bounds(type);
  for (int k = 0; k < shape->rank; k++) {
    if (!mv_sizes_agree(type->dim[k], shape->dim[k]))
      return false;
    const int64_t bound = k < bounds.n ? bounds.at[k] : HL_UNBOUNDED;
    if (!mv_is_dynamic_size(bound) && !mv_is_dynamic_size(shape->dim[k]) && bound < shape->dim[k])
      return false;
    if (shape->bound && !mv_is_dynamic_size(shape->bound[k]) && !mv_is_dynamic_size(type->dim[k]) &&
        shape->bound[k] < type->dim[k])
      return false;
  }
  return true;
}

bool mv_has_results(MlVerify *v, const HlMlOp *op, int n) {
  if (op->n_results == (uint32_t)n)
    return true;
  return mv_bad(v, op, "should have %d results, but has %u", n, op->n_results);
}

bool mv_result_is(MlVerify *v, const HlMlOp *op, int result, const MlShape *shape) {
  if ((uint32_t)result >= op->n_results)
    return mv_bad(v, op, "has %u results, but the op gives more", op->n_results);
  const HlMlType *type = mv_out(op, result);
  if (shape_is(type, shape) && element_is(type, shape))
    return true;
  return mv_bad(v, op,
                "result #%d is inferred as \'%s\', which does not agree with its type \'%s\'",
                result, shape_text(v, shape), mv_text(v, type));
}

bool mv_result_is_type(MlVerify *v, const HlMlOp *op, int result, const HlMlType *type) {
  if ((uint32_t)result < op->n_results && mv_types_agree(mv_out(op, result), type))
    return true;
  if ((uint32_t)result >= op->n_results)
    return mv_bad(v, op, "has %u results, but the op gives more", op->n_results);
  return mv_bad(v, op,
                "result #%d is inferred as \'%s\', which does not agree with its type \'%s\'",
                result, mv_text(v, type), mv_text(v, mv_out(op, result)));
}

bool mv_merge_size(MlVerify *v, const HlMlOp *op, int dimension, int64_t *size, int64_t *bound,
                   int64_t other_size, int64_t other_bound) {
  const bool left = !mv_is_dynamic_size(*size), right = !mv_is_dynamic_size(other_size);
  if (!left && !right) {
    if (mv_is_dynamic_size(*bound) || (!mv_is_dynamic_size(other_bound) && other_bound < *bound))
      *bound = other_bound;
    return true;
  }
  if (left && right && *size != other_size)
    return mv_bad(v, op, "mismatched sizes %lld and %lld in dimension %d", (long long)*size,
                  (long long)other_size, dimension);
  const int64_t limit = mv_is_dynamic_size(*bound) ? other_bound : *bound;
  *size = left ? *size : other_size;
  *bound = HL_UNBOUNDED;
  if (!mv_is_dynamic_size(limit) && *size > limit)
    return mv_bad(v, op, "mismatched size %lld and bound %lld in dimension %d", (long long)*size,
                  (long long)limit, dimension);
  return true;
}

bool mv_most_specific(MlVerify *v, const HlMlOp *op, int n, const HlMlType *const *types,
                      MlShape *out) {
  assert(n > 0);
  *out = mv_shape_of(v, types[0]);
  if (out->bound == NULL)
    out->bound = mv_shape_new(v, out->rank, NULL).dim;
  for (int k = 1; k < n; k++) {
    const HlI64s bounds = hl_ml_bounds(types[k]);
    if (types[k]->rank != out->rank)
      return mv_bad(v, op, "mismatched ranks %d and %d", out->rank, types[k]->rank);
    for (int d = 0; d < out->rank; d++)
      if (!mv_merge_size(v, op, d, &out->dim[d], &out->bound[d], types[k]->dim[d],
                         d < bounds.n ? bounds.at[d] : HL_UNBOUNDED))
        return false;
  }
  bool is_bounded = false;
  for (int d = 0; d < out->rank; d++)
    is_bounded |= !mv_is_dynamic_size(out->bound[d]);
  if (!is_bounded)
    out->bound = NULL;
  return true;
}
