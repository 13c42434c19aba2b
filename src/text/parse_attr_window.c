// parse_attr_window.c: reads windows, padding and the dimension labels of convolutions.

#include "text/parse.h"

#include <string.h>

// Reads an integer of a pattern at `s` and returns its end, or NULL. No white space inside.
static const char *pattern_int(const char *s, int64_t *out) {
  const char *k = s + (*s == '-');
  if (!lex_is(*k, LEX_DIGIT))
    return NULL;
  LexNumber number = {0};
  uint64_t value = 0;
  for (; lex_is(*k, LEX_DIGIT); k++) {
    if (value > (uint64_t)(INT64_MAX - 9) / 10)
      return NULL;
    value = value * 10 + (uint64_t)(*k - '0');
  }
  number.i = (int64_t)value;
  *out = *s == '-' ? -number.i : number.i;
  return k;
}

// "3x3": one integer per dimension, left on the stack. Only one that stands alone may be negative.
bool parse_dxd(Parser *p, const char *name) {
  const char *s = p->in.at;
  for (bool alone = true;; alone = false) {
    int64_t value;
    s = pattern_int(s, &value);
    if (!s || (value < 0 && (!alone || *s == 'x')))
      return lex_expected(&p->in, "sizes such as 3x3 after %s=", name);
    parse_push_int(p, value);
    if (*s != 'x')
      break;
    s++;
  }
  if (lex_is(*s, LEX_IDENT))
    return lex_expected(&p->in, "sizes such as 3x3 after %s=", name);
  lex_move(&p->in, s);
  return true;
}

// "1_2x3_4" or, with interiors, "1_2_0x3_4_1": low, high, interior per dimension, left on the
// stack.
static bool read_pad(Parser *p, bool interior, const char *what) {
  const char *s = p->in.at;
  for (;;) {
    int64_t value = 0;
    for (int k = 0; k < 2; k++) {
      s = pattern_int(s, &value);
      if (!s || (k == 0 && *s++ != '_'))
        return lex_expected(&p->in, "%s", what);
      parse_push_int(p, value);
    }
    value = 0;
    if (*s == '_' && (!interior || !(s = pattern_int(s + 1, &value)) || value < 0))
      return lex_expected(&p->in, "%s", what);
    parse_push_int(p, value);
    if (*s != 'x')
      break;
    s++;
  }
  if (lex_is(*s, LEX_IDENT))
    return lex_expected(&p->in, "%s", what);
  lex_move(&p->in, s);
  return true;
}

bool parse_PADDING(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  if (!read_pad(p, true, "a padding such as 0_0_0x3_3_1"))
    return false;
  out->ints = parse_take_ints(p, base);
  return true;
}

enum { W_SIZE, W_STRIDE, W_PAD, W_LHS_DILATE, W_RHS_DILATE, W_REVERSAL, W_COUNT };

static bool read_window_field(Parser *p, int *starts, int *counts) {
  static const char *const names[W_COUNT] = {"size",       "stride",     "pad",
                                             "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  const char *at = p->in.at;
  for (int k = 0; k < W_COUNT; k++) {
    if (!parse_eat_name(p, names[k]))
      continue;
    if (counts[k])
      return parse_error(p, at, "%s= already exists in the window", names[k]);
    starts[k] = p->ints.n;
    if (k == W_PAD ? !read_pad(p, false, "a window padding such as 0_0x3_3")
                   : !parse_dxd(p, names[k]))
      return false;
    counts[k] = (p->ints.n - starts[k]) / (k == W_PAD ? 3 : 1);
    return true;
  }
  return lex_expected(&p->in, "size=, stride=, pad=, lhs_dilate=, rhs_dilate= or rhs_reversal=");
}

static bool check_window(Parser *p, const char *at, const int *counts) {
  static const char *const names[W_COUNT] = {"",           "stride",     "pad",
                                             "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  for (int k = 1; k < W_COUNT; k++)
    if (counts[k] && counts[k] != counts[W_SIZE])
      return parse_error(p, at, "%s= has %d dimensions, but size= has %d", names[k], counts[k],
                         counts[W_SIZE]);
  return true;
}

bool parse_WINDOW(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  const int base = p->ints.n;
  int starts[W_COUNT] = {0}, counts[W_COUNT] = {0};
  if (!lex_need(&p->in, '{', "to start the window"))
    return false;
  while (!lex_at(&p->in, '}'))
    if (!read_window_field(p, starts, counts))
      return false;
  lex_move(&p->in, p->in.at + 1);
  if (!check_window(p, at, counts))
    return false;
  const int n = counts[W_SIZE];
  const int64_t *ints = p->ints.at;
  HlWindowDim *dims = HL_ARRAY(p->m->arena, HlWindowDim, n ? n : 1);
  for (int k = 0; k < n; k++) {
    dims[k].size = ints[starts[W_SIZE] + k];
    dims[k].stride = counts[W_STRIDE] ? ints[starts[W_STRIDE] + k] : 1;
    dims[k].lhs_dilate = counts[W_LHS_DILATE] ? ints[starts[W_LHS_DILATE] + k] : 1;
    dims[k].rhs_dilate = counts[W_RHS_DILATE] ? ints[starts[W_RHS_DILATE] + k] : 1;
    dims[k].reversal = counts[W_REVERSAL] && ints[starts[W_REVERSAL] + k] == 1;
    dims[k].pad_low = counts[W_PAD] ? ints[starts[W_PAD] + 3 * k] : 0;
    dims[k].pad_high = counts[W_PAD] ? ints[starts[W_PAD] + 3 * k + 1] : 0;
  }
  p->ints.n = base;
  out->window = (HlWindow){dims, n};
  if (n == 0 && inst->op != HL_OP_CUSTOM_CALL)
    out->key = HL_ATTR_COUNT;
  return true;
}

// The labels of one array: positions of its two named dimensions and of the spatial ones.
static bool read_labels(Parser *p, const char *s, int n, const char *names, int64_t *first,
                        int64_t *second, HlI64s *spatial) {
  const char *at = p->in.at;
  int n_spatial = 0;
  for (int k = 0; k < n; k++) {
    n_spatial += lex_is(s[k], LEX_DIGIT);
    if (s[k] != '?' && s[k] != names[0] && s[k] != names[1] && !lex_is(s[k], LEX_DIGIT))
      return parse_error(p, at, "expected %c, %c, ? or digits in the dimension labels '%.*s'",
                         names[0], names[1], n, s);
    if (s[k] != '?' && memchr(s + k + 1, s[k], (size_t)(n - k - 1)))
      return parse_error(p, at, "the dimension labels '%.*s' repeat '%c'", n, s, s[k]);
  }
  int64_t *positions = HL_ARRAY(p->m->arena, int64_t, n_spatial);
  for (int k = 0; k < n; k++) {
    if (s[k] == names[0])
      *first = k;
    else if (s[k] == names[1])
      *second = k;
    else if (s[k] != '?' && s[k] - '0' >= n_spatial)
      return parse_error(p, at,
                         "the dimension labels '%.*s' name dimension %c, but have %d spatial ones",
                         n, s, s[k], n_spatial);
    else if (s[k] != '?')
      positions[s[k] - '0'] = k;
  }
  *spatial = (HlI64s){positions, n_spatial};
  return true;
}

bool parse_DIM_LABELS(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *s = p->in.at, *end = s;
  while (lex_is(*end, LEX_LABEL))
    end++;
  const char *line = memchr(s, '_', (size_t)(end - s));
  const char *arrow = line;
  while (arrow && arrow < end && !(arrow[0] == '-' && arrow[1] == '>'))
    arrow++;
  if (!line || arrow >= end || line - s < 2 || arrow - line < 3 || end - arrow < 4)
    return lex_expected(&p->in, "dimension labels such as bf0_0io->0bf");
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  if (!read_labels(p, s, (int)(line - s), "bf", &labels->input_batch, &labels->input_feature,
                   &labels->input_spatial) ||
      !read_labels(p, line + 1, (int)(arrow - line - 1), "io", &labels->kernel_input,
                   &labels->kernel_output, &labels->kernel_spatial) ||
      !read_labels(p, arrow + 2, (int)(end - arrow - 2), "bf", &labels->output_batch,
                   &labels->output_feature, &labels->output_spatial))
    return false;
  if (labels->input_spatial.n != labels->kernel_spatial.n ||
      labels->input_spatial.n != labels->output_spatial.n)
    return parse_error(p, s,
                       "input, kernel, and output must have same number of spatial dimensions, but "
                       "got %d, %d, %d, respectively",
                       labels->input_spatial.n, labels->kernel_spatial.n, labels->output_spatial.n);
  lex_move(&p->in, end);
  out->ptr = labels;
  return true;
}
