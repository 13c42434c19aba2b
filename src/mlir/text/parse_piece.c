// Reads MLIR text: the pieces of pretty forms that have a syntax of their own (#NAME of ops.def).
#include "mlir/text/parse.h"

#include <stdlib.h>
#include <string.h>

static HlI64s take_ints(MpParser *p, int base) {
  HlI64s ints = {p->ints.at + base, p->ints.n - base};
  p->ints.n = base;
  return ints;
}

// e8m7
static bool format(MpParser *p, MpState *s) {
  const char *at = p->in.at;
  HlStr word = ml_lex_word(&p->in);
  const HlMlType *i32 = mp_plain(p, MP_I32);
  static const MlName names[] = {ML_A_EXPONENT_BITS, ML_A_MANTISSA_BITS};
  const char letters[] = "em", *k = word.at;
  for (int part = 0; part < 2; part++) {
    int64_t value = 0;
    if (k >= word.at + word.n || *k++ != letters[part] || !ml_lex_is(*k, ML_DIGIT))
      return mp_error(p, at, "expected exponent mantissa in format e#m#, saw %.*s",
                      (int)(word.n < 60 ? word.n : 60), word.at);
    for (; ml_lex_is(*k, ML_DIGIT) && value <= INT32_MAX; k++)
      value = value * 10 + (*k - '0');
    if (value > INT32_MAX)
      return mp_error(p, at, "unable to parse %s: it does not fit 32 bits",
                      part ? "mantissa" : "exponent");
    mp_attr_of(p, s, names[part], hl_ml_int(p->tree, i32, value));
  }
  return k == word.at + word.n ||
         mp_error(p, at, "expected exponent mantissa in format e#m#, saw %.*s",
                  (int)(word.n < 60 ? word.n : 60), word.at);
}

// [1:3, 4:8:2]: start, limit and stride of each dimension.
static bool ranges(MpParser *p, MpState *s) {
  const int base = p->ints.n;
  if (!ml_lex_need(&p->in, '['))
    return false;
  while (!ml_lex_eat(&p->in, ']')) {
    int64_t start, limit, stride = 1;
    if ((p->ints.n > base && !ml_lex_need(&p->in, ',')) || !ml_lex_int(&p->in, &start) ||
        !ml_lex_need(&p->in, ':') || !ml_lex_int(&p->in, &limit) ||
        (ml_lex_eat(&p->in, ':') && !ml_lex_int(&p->in, &stride)))
      return false;
    mp_push_int(p, start);
    mp_push_int(p, limit);
    mp_push_int(p, stride);
  }
  static const MlName names[] = {ML_A_START_INDICES, ML_A_LIMIT_INDICES, ML_A_STRIDES};
  HlI64s all = take_ints(p, base);
  const int n = all.n / 3;
  int64_t few[16];
  int64_t *values = n <= HL_COUNT_OF(few) ? few : HL_ARRAY(p->own, int64_t, n);
  for (int part = 0; part < 3; part++) {
    for (int k = 0; k < n; k++)
      values[k] = all.at[3 * k + part];
    mp_attr_of(p, s, names[part], hl_ml_dense_i64s(p->tree, (HlI64s){values, n}));
  }
  return true;
}

// [0] x [1]
static bool dims_pair(MpParser *p, MlName lhs, MlName rhs) {
  int n;
  if (!mp_int_list(p, &n))
    return false;
  mp_push_named(p, ml_name(p->tree, lhs), hl_ml_dense_i64s(p->tree, take_ints(p, p->ints.n - n)),
                false);
  if (*p->in.at != 'x')
    return ml_lex_expected(&p->in, "'x'");
  ml_lex_move(&p->in, p->in.at + 1);
  if (!mp_int_list(p, &n))
    return false;
  mp_push_named(p, ml_name(p->tree, rhs), hl_ml_dense_i64s(p->tree, take_ints(p, p->ints.n - n)),
                false);
  return true;
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
static bool dot(MpParser *p, MpState *s) {
  const int base = p->nameds.n;
  if (ml_lex_eat_word(&p->in, "batching_dims") &&
      (!ml_lex_need(&p->in, '=') ||
       !dims_pair(p, ML_A_LHS_BATCHING_DIMENSIONS, ML_A_RHS_BATCHING_DIMENSIONS) ||
       !ml_lex_need(&p->in, ',')))
    return false;
  if (!ml_lex_need_word(&p->in, "contracting_dims") || !ml_lex_need(&p->in, '=') ||
      !dims_pair(p, ML_A_LHS_CONTRACTING_DIMENSIONS, ML_A_RHS_CONTRACTING_DIMENSIONS))
    return false;
  mp_attr_of(p, s, ML_A_DOT_DIMENSION_NUMBERS, mp_make_struct(p, ML_D_DOT, s->dialect, base));
  return true;
}

// Whether ", WORD =" stands here; the comma and the word are eaten then.
static bool eat_key(MpParser *p, const char *key) {
  MlLex in = p->in;
  if (!ml_lex_eat(&in, ',') || !ml_lex_eat_word(&in, key))
    return false;
  p->in.at = in.at;
  return true;
}

static bool precision(MpParser *p, MpState *s) {
  if (!eat_key(p, "precision"))
    return true;
  char buffer[ML_MAX_DEF_TEXT];
  const char *name = ml_spelt(ML_D_PRECISION, s->dialect, buffer);
  const MlEnum *words = ml_enum_of(ML_D_PRECISION);
  const int base = p->ptrs.n;
  if (!ml_lex_need(&p->in, '=') || !ml_lex_need(&p->in, '['))
    return false;
  while (!ml_lex_eat(&p->in, ']')) {
    if (p->ptrs.n > base && !ml_lex_need(&p->in, ','))
      return false;
    const HlMlAttr *value = mp_enum_word(p, words, name);
    if (!value)
      return false;
    mp_push(p, &p->ptrs, value);
  }
  mp_attr_of(p, s, ML_A_PRECISION_CONFIG, mp_array(p, base));
  return true;
}

static bool algorithm(MpParser *p, MpState *s) {
  if (!eat_key(p, "algorithm"))
    return true;
  const HlMlAttr *value =
      ml_lex_need(&p->in, '=') ? mp_short(p, ML_K_STRUCT, ML_D_ALGORITHM, s->dialect) : NULL;
  if (value)
    mp_attr_of(p, s, ML_A_ALGORITHM, value);
  return value != NULL;
}

static bool conv(MpParser *p, MpState *s) {
  char buffer[ML_MAX_DEF_TEXT];
  const HlMlAttr *value = mp_conv_body(p, hl_str(ml_spelt(ML_D_CONV, s->dialect, buffer)));
  if (value)
    mp_attr_of(p, s, ML_A_DIMENSION_NUMBERS, value);
  return value != NULL;
}

// [[0, 1], [2, 3]]
static const HlMlAttr *padding(MpParser *p) {
  const int base = p->ints.n;
  if (!ml_lex_need(&p->in, '['))
    return NULL;
  while (!ml_lex_eat(&p->in, ']')) {
    int n;
    if (p->ints.n > base && !ml_lex_need(&p->in, ','))
      return NULL;
    const char *at = p->in.at;
    if (!mp_int_list(p, &n))
      return NULL;
    if (n != 2) {
      mp_error(p, at, "expected array with 2 elements, got %d elements instead", n);
      return NULL;
    }
  }
  HlI64s all = take_ints(p, base);
  return hl_ml_dense_ints(p->tree, 2, (int64_t[]){all.n / 2, 2}, all.at);
}

// stride = [..], pad = [..], lhs_dilate = [..], rhs_dilate = [..], reverse = [..]
static bool window(MpParser *p, MpState *s) {
  static const char *const keys[] = {"stride", "pad", "lhs_dilate", "rhs_dilate", "reverse"};
  static const MlName names[] = {ML_A_WINDOW_STRIDES, ML_A_PADDING, ML_A_LHS_DILATION,
                                 ML_A_RHS_DILATION, ML_A_WINDOW_REVERSAL};
  bool seen[HL_COUNT_OF(keys)] = {false};
  while (ml_lex_is(*p->in.at, ML_START)) {
    const char *at = p->in.at;
    HlStr word = ml_lex_word(&p->in);
    int k = 0;
    while (k < HL_COUNT_OF(keys) && !hl_str_is(word, keys[k]))
      k++;
    if (k == HL_COUNT_OF(keys) || seen[k])
      return mp_error(p, at, "unexpected keyword %.*s", (int)(word.n < 60 ? word.n : 60), word.at);
    seen[k] = true;
    const HlMlAttr *value =
        !ml_lex_need(&p->in, '=') ? NULL
        : k == 1                  ? padding(p)
                 : mp_short(p, k == 4 ? ML_K_BOOLS : ML_K_I64S, ML_D_NONE, s->dialect);
    if (!value)
      return false;
    mp_attr_of(p, s, names[k], value);
    if (!ml_lex_eat(&p->in, ','))
      break;
  }
  return true;
}

// @f, or @"f g"
static bool target(MpParser *p, MpState *s) {
  const HlSym *name = mp_symbol_name(p);
  if (name)
    mp_attr_of(p, s, ML_A_CALL_TARGET_NAME, hl_ml_string_of(p->tree, name));
  return name != NULL;
}

// Nothing: the state of a random number generator has one type.
static bool state(MpParser *p, MpState *s) {
  mp_push(p, &p->types,
          hl_ml_tensor_type(p->tree, 1, (int64_t[]){2}, hl_ml_int_type(p->tree, 64, HL_ML_UNSIGNED),
                            NULL));
  s->n_results = 1;
  return true;
}

bool mp_piece(MpParser *p, MpState *s, HlStr name) {
  static const struct {
    const char *name;
    bool (*read)(MpParser *p, MpState *s);
  } pieces[] = {{"format", format},       {"ranges", ranges},       {"dot", dot},
                {"precision", precision}, {"algorithm", algorithm}, {"conv", conv},
                {"window", window},       {"target", target},       {"state", state}};
  for (int k = 0; k < HL_COUNT_OF(pieces); k++)
    if (hl_str_is(name, pieces[k].name))
      return pieces[k].read(p, s);
  return *p->in.at != '(' || mp_region_list(p, s);  // regions
}
