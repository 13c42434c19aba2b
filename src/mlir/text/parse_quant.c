// Reads MLIR text: quantised types.
//
// "<" storage [ "<" min ":" max ">" ] ":" expressed [ ":" axis | ":" "{" axis ":" size, .. "}" ] "," scales ">"
// scales = scale [ ":" zero-point ] | "{" scales { "," scales } "}"
#include "mlir/text/parse.h"

#include <math.h>

#include "base/bits.h"

// i8, u8, or a float type.
static bool storage_type(MpParser *p, HlMlQuant *quant) {
  const char *at = p->in.at;
  quant->is_signed = *at != 'u';
  if (*at == 'u' && ml_lex_is(at[1], ML_DIGIT)) {
    int64_t width;
    p->in.at++;
    if (!ml_lex_int(&p->in, &width))
      return false;
    if (width < 1 || width > 32)
      return mp_error(p, at, "illegal storage type size: %lld", (long long)width);
    quant->storage = hl_ml_int_type(p->tree, (int)width, HL_ML_UNSIGNED);
    return true;
  }
  quant->storage = mp_type(p);
  if (!quant->storage)
    return false;
  if (quant->storage->kind != HL_ML_FLOAT &&
      (quant->storage->kind != HL_ML_INT || quant->storage->width > 32))
    return mp_error(p, at, "illegal storage type '%s'", hl_ml_type_text(p->cx, quant->storage));
  return true;
}

static bool storage_range(MpParser *p, HlMlQuant *quant) {
  const int width = quant->storage->kind == HL_ML_INT ? quant->storage->width : 31;
  const int64_t least = quant->is_signed ? -((int64_t)1 << (width - 1)) : 0;
  const int64_t most = quant->is_signed ? -1 - least : ((int64_t)1 << width) - 1;
  quant->min = least;
  quant->max = most;
  if (!ml_lex_eat(&p->in, '<'))
    return true;
  const char *at = p->in.at;
  if (!ml_lex_int(&p->in, &quant->min) || !ml_lex_need(&p->in, ':'))
    return false;
  if (quant->min < least)
    return mp_error(p, at, "illegal storage type minimum: %lld", (long long)quant->min);
  at = p->in.at;
  if (!ml_lex_int(&p->in, &quant->max) || !ml_lex_need(&p->in, '>'))
    return false;
  if (quant->max > most)
    return mp_error(p, at, "illegal storage type maximum: %lld", (long long)quant->max);
  return true;
}

// "{0:1, 1:2}": the blocks' axes and sizes.
static bool blocks(MpParser *p, HlMlQuant *quant) {
  const int base = p->ints.n;
  while (!ml_lex_eat(&p->in, '}')) {
    int64_t axis, size;
    if ((p->ints.n > base && !ml_lex_need(&p->in, ',')) || !ml_lex_int(&p->in, &axis) ||
        !ml_lex_need(&p->in, ':') || !ml_lex_int(&p->in, &size))
      return false;
    mp_push_int(p, axis);
    mp_push_int(p, size);
  }
  const int n = (p->ints.n - base) / 2;
  int64_t *axes = HL_ARRAY(p->arena, int64_t, n), *sizes = HL_ARRAY(p->arena, int64_t, n);
  for (int k = 0; k < n; k++) {
    axes[k] = p->ints.at[base + 2 * k];
    sizes[k] = p->ints.at[base + 2 * k + 1];
  }
  quant->block_axes = (HlI64s){axes, n};
  quant->block_sizes = (HlI64s){sizes, n};
  p->ints.n = base;
  return true;
}

// One scale and zero point; the scale's bits and the zero point go onto p->ints.
static bool one_scale(MpParser *p) {
  const char *at = p->in.at;
  MlNumber number;
  const char *end = ml_lex_number(at, &number);
  if (end == at || number.kind != ML_NUMBER_FLOAT)
    return ml_lex_expected(&p->in, "a floating point scale");
  if (!(number.f > 0) || isinf(number.f))
    return mp_error(p, at, "illegal scale: %g", number.f);
  ml_lex_move(&p->in, end);
  int64_t zero_point = 0;
  if (ml_lex_eat(&p->in, ':')) {
    if (!ml_lex_int(&p->in, &zero_point))
      return false;
  }
  mp_push_int(p, (int64_t)hl_f64_bits(number.f));
  mp_push_int(p, zero_point);
  return true;
}

static bool scales(MpParser *p) {
  if (!ml_lex_eat(&p->in, '{'))
    return one_scale(p);
  if (!mp_enter(p))
    return false;
  do {
    if (!scales(p))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  mp_leave(p);
  return ml_lex_need(&p->in, '}');
}

static void take_scales(MpParser *p, HlMlQuant *quant, int base) {
  const int n = (p->ints.n - base) / 2;
  double *scale = HL_ARRAY(p->arena, double, n);
  int64_t *zero_point = HL_ARRAY(p->arena, int64_t, n);
  for (int k = 0; k < n; k++) {
    scale[k] = hl_f64_of_bits((uint64_t)p->ints.at[base + 2 * k]);
    zero_point[k] = p->ints.at[base + 2 * k + 1];
  }
  quant->scale = scale;
  quant->zero_point = zero_point;
  quant->n = n;
  p->ints.n = base;
}

static bool axis(MpParser *p, HlMlQuant *quant) {
  quant->axis = -1;
  if (!ml_lex_eat(&p->in, ':'))
    return true;
  if (ml_lex_eat(&p->in, '{'))
    return blocks(p, quant);
  const char *at = p->in.at;
  int64_t value;
  if (!ml_lex_int(&p->in, &value))
    return false;
  if (value < 0 || value > INT32_MAX)
    return mp_error(p, at, "illegal quantized dimension: %lld", (long long)value);
  quant->axis = (int)value;
  return true;
}

const HlMlType *mp_quant(MpParser *p) {
  HlMlQuant quant = {0};
  if (!ml_lex_need(&p->in, '<') || !storage_type(p, &quant) || !storage_range(p, &quant) ||
      !ml_lex_need(&p->in, ':'))
    return NULL;
  const char *at = p->in.at;
  quant.expressed = mp_type(p);
  if (!quant.expressed)
    return NULL;
  if (quant.expressed->kind != HL_ML_FLOAT) {
    mp_error(p, at, "expressed type must be floating point");
    return NULL;
  }
  if (!axis(p, &quant) || !ml_lex_need(&p->in, ','))
    return NULL;
  const bool is_list = *p->in.at == '{',
             wants_list = quant.axis >= 0 || quant.block_axes.at != NULL;
  if (is_list != wants_list) {
    ml_lex_expected(&p->in, wants_list ? "'{' of the scales" : "one scale");
    return NULL;
  }
  const int base = p->ints.n;
  if (!scales(p) || !ml_lex_need(&p->in, '>'))
    return NULL;
  take_scales(p, &quant, base);
  return hl_ml_type_intern(p->tree, &(HlMlType){.kind = HL_ML_QUANT, .quant = &quant});
}
