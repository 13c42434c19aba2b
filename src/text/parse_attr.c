// parse_attr.c: reads the value of an attribute, one function for each kind of attrs.def.

#include "text/parse.h"

#include <float.h>
#include <math.h>
#include <string.h>

// --- Pieces that several kinds share -------------------------------------------------------------

bool parse_bool(Parser *p, bool *out) {
  *out = lex_at_word(&p->in, "true");
  if (!*out && !lex_at_word(&p->in, "false"))
    return lex_expected(&p->in, "true or false");
  lex_move(&p->in, lex_ident_end(p->in.at));
  return true;
}

bool parse_int_list(Parser *p, char open, char close, char delimiter, const char *what) {
  if (!lex_eat(&p->in, open))
    return lex_expected(&p->in, "'%c' to start %s", open, what);
  if (!lex_at(&p->in, close)) {
    do {
      int64_t value;
      if (!lex_int(&p->in, &value))
        return false;
      parse_push_int(p, value);
    } while (lex_eat(&p->in, delimiter));
  }
  return lex_eat(&p->in, close) ||
         lex_expected(&p->in, "'%c' or '%c' in %s", delimiter, close, what);
}

// {1,0}; a comma may stand after the last.
bool parse_shape_index(Parser *p, HlI64s *out) {
  const int base = p->ints.n;
  if (!lex_need(&p->in, '{', "at the start of a shape index"))
    return false;
  while (!lex_at(&p->in, '}')) {
    int64_t value;
    if (!lex_int(&p->in, &value))
      return false;
    parse_push_int(p, value);
    if (!lex_eat(&p->in, ','))
      break;
  }
  *out = parse_take_ints(p, base);
  return lex_need(&p->in, '}', "at the end of a shape index");
}

// Reads `name=` when it is the given name.
static bool eat_name(Parser *p, const char *name) {
  const size_t n = strlen(name);
  if (strncmp(p->in.at, name, n) != 0 || p->in.at[n] != '=')
    return false;
  lex_move(&p->in, p->in.at + n + 1);
  return true;
}

// --- Numbers and words ---------------------------------------------------------------------------

static bool parse_INT(Parser *p, ParseInst *inst, HlAttr *out) {
  return lex_int(&p->in, &out->i);
}

static bool parse_BOOL(Parser *p, ParseInst *inst, HlAttr *out) {
  bool value;
  const bool ok = parse_bool(p, &value);
  out->i = value;
  return ok;
}

static bool parse_TRISTATE(Parser *p, ParseInst *inst, HlAttr *out) {
  bool value;
  const bool ok = parse_bool(p, &value);
  out->i = value ? 1 : 2;
  return ok;
}

static bool parse_FLOAT(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  double value;
  if (!lex_double(&p->in, &value))
    return false;
  if (value > (double)FLT_MAX || value < -(double)FLT_MAX)
    return parse_error(p, at, "the value is out of range for float");
  out->f = (double)(float)value;
  return true;
}

static bool parse_TEXT(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStr text;
  if (!lex_string(&p->in, &text))
    return false;
  out->sym = parse_sym(p, text);
  return true;
}

static bool parse_DICT_TEXT(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStr text;
  if (lex_at(&p->in, '{') ? !lex_json(&p->in, &text) : !lex_string(&p->in, &text))
    return false;
  out->sym = parse_sym(p, text);
  return true;
}

// Reads one word of an enum.
static bool read_word(Parser *p, const HlEnum *words, int64_t *out) {
  const char *s = p->in.at, *end = lex_ident_end(s);
  const HlStr word = {s, (size_t)(end - s)};
  if (lex_is(*s, LEX_START) && hl_enum_value(words, word, out)) {
    lex_move(&p->in, end);
    return true;
  }
  HlBuf all = {0};
  for (int k = 0; k < words->n; k++)
    hl_buf_printf(&all, "%s%s", k == 0 ? "" : k == words->n - 1 ? " or " : ", ", words->text[k]);
  lex_expected(&p->in, "%s", all.at);
  hl_buf_free(&all);
  const char *near = hl_nearest(word, words->text, words->n);
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

static bool parse_ENUM(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  if (!read_word(p, hl_attr_info[out->key].words, &out->i))
    return false;
  if (out->key == HL_A_API_VERSION && out->i == HL_WORD_api_version_UNSPECIFIED)
    return parse_error(p, at, "invalid API version: API_VERSION_UNSPECIFIED");
  if (out->key == HL_A_TRANSPOSE_A && out->i == HL_WORD_transpose_a_INVALID)
    out->key = HL_ATTR_COUNT;
  return true;
}

static bool parse_DROPPED(Parser *p, ParseInst *inst, HlAttr *out) {
  static const char *const modes[] = {"cross_replica", "cross_partition",
                                      "cross_replica_and_partition", "flattened_id"};
  out->key = HL_ATTR_COUNT;
  for (int k = 0; k < HL_COUNT_OF(modes); k++)
    if (lex_eat_word(&p->in, modes[k]))
      return true;
  return lex_expected(&p->in, "cross_replica, cross_partition, cross_replica_and_partition or "
                              "flattened_id");
}

// --- Lists of numbers ----------------------------------------------------------------------------

// Whether an empty list says no more than silence.
static bool is_optional_list(HlAttrKey key) {
  return key == HL_A_LHS_BATCH_DIMS || key == HL_A_RHS_BATCH_DIMS || key == HL_A_LHS_RAGGED_DIMS ||
         key == HL_A_RHS_GROUP_DIMS || key == HL_A_OPERAND_BATCHING_DIMS ||
         key == HL_A_START_INDICES_BATCHING_DIMS || key == HL_A_INPUT_BATCHING_DIMS ||
         key == HL_A_SCATTER_INDICES_BATCHING_DIMS;
}

static bool parse_INTS(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  const bool ok = parse_int_list(p, '{', '}', ',', "a list of integers");
  out->ints = parse_take_ints(p, base);
  if (out->ints.n == 0 && is_optional_list(out->key))
    out->key = HL_ATTR_COUNT;
  return ok;
}

// XLA takes the first of several for the ops named here, and dies on several for the others.
static bool takes_first(HlOp op) {
  return op == HL_OP_ALL_GATHER || op == HL_OP_ALL_GATHER_START || op == HL_OP_REDUCE_SCATTER ||
         op == HL_OP_GET_DIMENSION_SIZE || op == HL_OP_SET_DIMENSION_SIZE;
}

static bool parse_ONE_INT(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  const int base = p->ints.n;
  if (!parse_int_list(p, '{', '}', ',', "a list of one integer"))
    return false;
  const int n = p->ints.n - base;
  const HlOp op = inst->wrapped < HL_OP_COUNT ? inst->wrapped : inst->op;
  if (n == 0 || (n > 1 && !takes_first(op)))
    return parse_error(p, at, "expected exactly one dimension, but found %d", n);
  out->i = p->ints.at[base];
  p->ints.n = base;
  return true;
}

// Reads {{0,1},{2,3}}; `pairs`: each of two, else an error.
static bool read_lists(Parser *p, bool pairs, const char *what, HlI64Lists *out) {
  const int base = p->ptrs.n;
  if (!lex_eat(&p->in, '{'))
    return lex_expected(&p->in, "'{' to start %s", what);
  if (!lex_at(&p->in, '}')) {
    do {
      HlI64s *list = HL_NEW(p->m->arena, HlI64s);
      const char *at = p->in.at;
      const int ints = p->ints.n;
      if (!parse_int_list(p, '{', '}', ',', what))
        return false;
      *list = parse_take_ints(p, ints);
      if (pairs && list->n != 2)
        return parse_error(p, at, "expected a pair, but found %d numbers", list->n);
      parse_push_ptr(p, list);
    } while (lex_eat(&p->in, ','));
  }
  const int n = p->ptrs.n - base;
  HlI64s *lists = HL_ARRAY(p->m->arena, HlI64s, n);
  for (int k = 0; k < n; k++)
    lists[k] = *(const HlI64s *)p->ptrs.at[base + k];
  *out = (HlI64Lists){lists, n};
  p->ptrs.n = base;
  return lex_need(&p->in, '}', "to end the lists");
}

static bool parse_INT_LISTS(Parser *p, ParseInst *inst, HlAttr *out) {
  return read_lists(p, false, "a list of integers", &out->lists);
}

static bool parse_PAIRS(Parser *p, ParseInst *inst, HlAttr *out) {
  HlI64Lists lists;
  if (!read_lists(p, true, "a pair", &lists))
    return false;
  const int base = p->ints.n;
  for (int k = 0; k < lists.n; k++) {
    parse_push_int(p, lists.at[k].at[0]);
    parse_push_int(p, lists.at[k].at[1]);
  }
  out->ints = parse_take_ints(p, base);
  return true;
}

// {[0:4], [1:9:2]}
static bool parse_SLICES(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  if (!lex_need(&p->in, '{', "to start the ranges"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      const char *at = p->in.at;
      const int before = p->ints.n;
      if (!parse_int_list(p, '[', ']', ':', "a range"))
        return false;
      const int n = p->ints.n - before;
      if (n != 2 && n != 3)
        return parse_error(p, at,
                           "expected [start:limit] or [start:limit:step], but found %d numbers", n);
      if (n == 2)
        parse_push_int(p, 1);
    } while (lex_eat(&p->in, ','));
  }
  out->ints = parse_take_ints(p, base);
  return lex_need(&p->in, '}', "to end the ranges");
}

static bool parse_BOOLS(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  if (!lex_need(&p->in, '{', "to start a list of booleans"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      bool value;
      if (!parse_bool(p, &value))
        return false;
      parse_push_int(p, value);
    } while (lex_eat(&p->in, ','));
  }
  out->ints = parse_take_ints(p, base);
  return lex_need(&p->in, '}', "to end the list of booleans");
}

static bool parse_PRECISION(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  bool any = false;
  if (!lex_need(&p->in, '{', "to start the precisions"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      int64_t value;
      if (!read_word(p, &hl_enums[HL_ENUM_precision], &value))
        return false;
      any |= value != HL_WORD_precision_DEFAULT;
      parse_push_int(p, value);
    } while (lex_eat(&p->in, ','));
  }
  out->ints = parse_take_ints(p, base);
  if (!any)
    out->key = HL_ATTR_COUNT;
  return lex_need(&p->in, '}', "to end the precisions");
}

// --- Windows, padding, dimension labels ----------------------------------------------------------

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

// "3x3": one integer per dimension, left on the stack.
static bool read_dxd(Parser *p, const char *name) {
  const char *s = p->in.at;
  for (;;) {
    int64_t value;
    s = pattern_int(s, &value);
    if (!s)
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

static bool parse_PADDING(Parser *p, ParseInst *inst, HlAttr *out) {
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
    if (!eat_name(p, names[k]))
      continue;
    if (counts[k])
      return parse_error(p, at, "%s= already exists in the window", names[k]);
    starts[k] = p->ints.n;
    if (k == W_PAD ? !read_pad(p, false, "a window padding such as 0_0x3_3")
                   : !read_dxd(p, names[k]))
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

static bool parse_WINDOW(Parser *p, ParseInst *inst, HlAttr *out) {
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

static bool parse_DIM_LABELS(Parser *p, ParseInst *inst, HlAttr *out) {
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

// --- Shapes, literals, aliases -------------------------------------------------------------------

static bool parse_SHAPE(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlShape *shape;
  if (!parse_shape(p, &shape))
    return false;
  out->ptr = shape;
  return true;
}

static bool parse_SHAPES(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start a list of shapes"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      const HlShape *shape;
      if (!parse_shape(p, &shape))
        return false;
      parse_push_ptr(p, shape);
    } while (lex_eat(&p->in, ','));
  }
  out->shapes.at = (const HlShape *const *)parse_take_ptrs(p, base, &out->shapes.n);
  return lex_need(&p->in, '}', "to end the list of shapes");
}

static bool parse_LITERAL(Parser *p, ParseInst *inst, HlAttr *out) {
  HlLiteral *literal = NULL;
  if (!parse_shaped_literal(p, &literal))
    return false;
  out->ptr = literal;
  return true;
}

static bool read_alias_kind(Parser *p, HlAlias *alias) {
  const char *s = p->in.at, *end = lex_ident_end(s);
  int64_t kind;
  if (!hl_enum_value(&hl_enums[HL_ENUM_alias_kind], (HlStr){s, (size_t)(end - s)}, &kind))
    return lex_expected(&p->in, "may-alias or must-alias");
  alias->kind = (int)kind;
  lex_move(&p->in, end);
  return true;
}

// {0}: (1, {}, may-alias)
static bool read_alias(Parser *p, bool of_module, HlAlias *alias) {
  alias->kind = of_module ? HL_WORD_alias_kind_MAY : 0;
  return parse_shape_index(p, &alias->output) &&
         lex_need(&p->in, ':', "after the output index of an alias") &&
         lex_need(&p->in, '(', "to start the source of an alias") &&
         lex_int(&p->in, &alias->number) && lex_need(&p->in, ',', "after the number in an alias") &&
         parse_shape_index(p, &alias->index) &&
         (!of_module || !lex_eat(&p->in, ',') || read_alias_kind(p, alias)) &&
         lex_need(&p->in, ')', "to end the source of an alias");
}

bool parse_aliases(Parser *p, bool of_module, HlAliases *out) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "at the start of the aliases"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlAlias *alias = HL_NEW(p->m->arena, HlAlias);
    if (!read_alias(p, of_module, alias))
      return false;
    parse_push_ptr(p, alias);
    if (!lex_eat(&p->in, ','))
      break;
  }
  const int n = p->ptrs.n - base;
  HlAlias *list = HL_ARRAY(p->m->arena, HlAlias, n);
  for (int k = 0; k < n; k++)
    list[k] = *(const HlAlias *)p->ptrs.at[base + k];
  p->ptrs.n = base;
  *out = (HlAliases){list, n};
  return lex_need(&p->in, '}', "at the end of the aliases");
}

static bool parse_ALIASING(Parser *p, ParseInst *inst, HlAttr *out) {
  if (!parse_aliases(p, false, &out->aliases))
    return false;
  if (out->aliases.n == 0)
    out->key = HL_ATTR_COUNT;
  return true;
}

// --- Structures ----------------------------------------------------------------------------------

static bool parse_GROUPS(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlGroups *groups;
  if (!parse_groups(p, &groups))
    return false;
  out->ptr = groups;
  return true;
}

static bool parse_SHARDING(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlSharding *sharding;
  if (!parse_sharding(p, &sharding))
    return false;
  out->ptr = sharding;
  return true;
}

static bool parse_DICT(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlDict *dict;
  if (!parse_dict(p, &dict))
    return false;
  out->ptr = dict;
  if (dict->n == 0)
    out->key = HL_ATTR_COUNT;
  return true;
}

static bool parse_METADATA(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlMetadata *metadata;
  if (!parse_metadata(p, &metadata))
    return false;
  out->ptr = metadata;
  return true;
}

static bool parse_ORIGIN(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlOrigin *origin;
  if (!parse_origin(p, &origin))
    return false;
  out->ptr = origin;
  return true;
}

// {kind="sharding", entry={..}, exit={..}}
static bool parse_DOMAIN(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  HlDomain *domain = HL_NEW(p->m->arena, HlDomain);
  out->ptr = domain;
  if (!lex_need(&p->in, '{', "to start the domain"))
    return false;
  while (!lex_at(&p->in, '}')) {
    const char *field = p->in.at;
    HlStr text;
    if (lex_eat(&p->in, ',')) {
    } else if (!domain->kind && eat_name(p, "kind")) {
      if (!lex_string(&p->in, &text))
        return false;
      if (!hl_str_is(text, "sharding"))
        return parse_error(p, field, "unsupported domain kind: %.*s", (int)text.n, text.at);
      domain->kind = parse_sym(p, text);
    } else if (!domain->entry && eat_name(p, "entry")) {
      if (!parse_sharding(p, &domain->entry))
        return false;
    } else if (!domain->exit && eat_name(p, "exit")) {
      if (!parse_sharding(p, &domain->exit))
        return false;
    } else {
      return lex_expected(&p->in, "kind=, entry= and exit=, each once");
    }
  }
  lex_move(&p->in, p->in.at + 1);
  if (!domain->kind || !domain->entry || !domain->exit)
    return parse_error(p, at, "sub-attribute %s is expected but not seen",
                       !domain->kind    ? "kind"
                       : !domain->entry ? "entry"
                                        : "exit");
  return true;
}

// {sparsity=2x4 dimension=1 stride=3}
static bool read_sparsity_of(Parser *p, HlSparsityOf *out) {
  if (!lex_need(&p->in, '{', "to start the sparsity of an operand"))
    return false;
  while (!lex_at(&p->in, '}')) {
    const char *at = p->in.at;
    if (eat_name(p, "sparsity")) {
      const int base = p->ints.n;
      if (!read_dxd(p, "sparsity"))
        return false;
      if (p->ints.n - base != 2)
        return parse_error(p, at, "expected a sparsity such as 2x4");
      out->n = p->ints.at[base];
      out->m = p->ints.at[base + 1];
      p->ints.n = base;
    } else if (eat_name(p, "dimension")) {
      if (!lex_int(&p->in, &out->dimension))
        return false;
    } else if (eat_name(p, "stride")) {
      if (!lex_int(&p->in, &out->stride))
        return false;
    } else {
      return lex_expected(&p->in, "sparsity=, dimension= or stride=");
    }
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  return true;
}

static bool parse_SPARSITY(Parser *p, ParseInst *inst, HlAttr *out) {
  HlSparsity *sparsity = HL_NEW(p->m->arena, HlSparsity);
  out->ptr = sparsity;
  bool any = false;
  if (!lex_need(&p->in, '{', "to start the sparsity"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlSparsityOf *to = eat_name(p, "lhs")   ? &sparsity->lhs
                       : eat_name(p, "rhs") ? &sparsity->rhs
                                            : NULL;
    if (!to)
      return lex_expected(&p->in, "lhs= or rhs=");
    if (!read_sparsity_of(p, to))
      return false;
    any = true;
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  if (!any)
    out->key = HL_ATTR_COUNT;
  return true;
}

static bool read_tolerance(Parser *p, HlAccuracy *out) {
  out->has_tolerance = true;
  if (!lex_need(&p->in, '{', "to start the tolerances"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      double value;
      double *to = eat_name(p, "atol") ? &out->atol : eat_name(p, "rtol") ? &out->rtol : NULL;
      if (!to && !eat_name(p, "ulps"))
        return lex_expected(&p->in, "atol=, rtol= or ulps=");
      const char *at = p->in.at;
      if (!lex_double(&p->in, &value))
        return false;
      if (to)
        *to = value;
      else if (value >= -9e18 && value <= 9e18)
        out->ulps = (int64_t)value;
      else
        return parse_error(p, at, "the number of ulps is out of range");
    } while (lex_eat(&p->in, ','));
  }
  return lex_need(&p->in, '}', "at the end of the tolerances");
}

// {mode=highest} or {tolerance={atol=0.1,rtol=0,ulps=2}}
static bool parse_ACCURACY(Parser *p, ParseInst *inst, HlAttr *out) {
  HlAccuracy *accuracy = HL_NEW(p->m->arena, HlAccuracy);
  out->ptr = accuracy;
  if (!lex_need(&p->in, '{', "to start the result accuracy"))
    return false;
  if (eat_name(p, "mode")) {
    if (!read_word(p, &hl_enums[HL_ENUM_accuracy_mode], &accuracy->mode))
      return false;
    if (accuracy->mode == HL_WORD_accuracy_mode_DEFAULT)
      out->key = HL_ATTR_COUNT;
  } else if (eat_name(p, "tolerance")) {
    if (!read_tolerance(p, accuracy))
      return false;
  } else {
    return lex_expected(&p->in, "mode= or tolerance=");
  }
  return lex_need(&p->in, '}', "to end the result accuracy");
}

// One "name=1.5" of the statistics.
static bool read_statistic(Parser *p) {
  const char *s = p->in.at, *end = lex_is(*s, LEX_START) ? lex_ident_end(s) : s;
  if (end == s || *end != '=')
    return lex_expected(&p->in, "the name of a statistic, followed by '='");
  const HlSym *name = parse_sym(p, (HlStr){s, (size_t)(end - s)});
  lex_move(&p->in, end + 1);
  double *value = HL_NEW(p->m->arena, double);
  parse_push_ptr(p, name);
  parse_push_ptr(p, value);
  return lex_double(&p->in, value);
}

// {visualizing_index=0,name=1.5}
static bool parse_STATISTICS(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStatistics *statistics = HL_NEW(p->m->arena, HlStatistics);
  out->ptr = statistics;
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start the statistics"))
    return false;
  if (lex_eat(&p->in, '}')) {
    out->key = HL_ATTR_COUNT;
    return true;
  }
  if (!eat_name(p, "visualizing_index"))
    return lex_expected(&p->in, "visualizing_index=");
  if (!lex_int(&p->in, &statistics->visualizing_index))
    return false;
  while (lex_eat(&p->in, ','))
    if (!read_statistic(p))
      return false;
  statistics->n = (p->ptrs.n - base) / 2;
  const HlSym **names = HL_ARRAY(p->m->arena, const HlSym *, statistics->n);
  double *values = HL_ARRAY(p->m->arena, double, statistics->n);
  for (int k = 0; k < statistics->n; k++) {
    names[k] = p->ptrs.at[base + 2 * k];
    values[k] = *(const double *)p->ptrs.at[base + 2 * k + 1];
  }
  statistics->name = names;
  statistics->value = values;
  p->ptrs.n = base;
  if (statistics->n == 0)
    out->key = HL_ATTR_COUNT;
  return lex_need(&p->in, '}', "at the end of the statistics");
}

// --- Computations and instructions ---------------------------------------------------------------

static bool parse_COMP(Parser *p, ParseInst *inst, HlAttr *out) {
  HlComp *comp;
  if (!parse_comp_ref(p, &comp))
    return false;
  if (comp) {
    const int k = inst->single_comp[0] != NULL;
    inst->comp_key[k] = out->key;
    inst->single_comp[k] = comp;
  }
  inst->poisoned |= !comp;
  out->key = HL_ATTR_COUNT;
  return true;
}

static bool parse_COMPS(Parser *p, ParseInst *inst, HlAttr *out) {
  inst->comps = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start a list of computations"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      HlComp *comp;
      if (!parse_comp_ref(p, &comp))
        return false;
      inst->poisoned |= !comp;
      parse_push_ptr(p, comp);
    } while (lex_eat(&p->in, ','));
  }
  inst->n_comps = p->ptrs.n - inst->comps;
  out->key = HL_ATTR_COUNT;
  return lex_need(&p->in, '}', "to end the list of computations");
}

static bool parse_CONTROL(Parser *p, ParseInst *inst, HlAttr *out) {
  inst->preds = p->ptrs.n;
  if (!lex_need(&p->in, '{', "at the beginning of the control predecessors"))
    return false;
  do {
    const char *at = p->in.at;
    const HlSym *name;
    if (!parse_name(p, &name, "an instruction's name"))
      return false;
    const ParseDef *def = parse_find(p, name);
    if (!def) {
      parse_error(p, at, "instruction '%s' is not defined", name->text);
      parse_hint_inst(p, name);
      return false;
    }
    if (def->inst)
      parse_push_ptr(p, def->inst);
    else
      inst->poisoned = true;
  } while (lex_eat(&p->in, ','));
  inst->n_preds = p->ptrs.n - inst->preds;
  out->key = HL_ATTR_COUNT;
  return lex_need(&p->in, '}', "at the end of the control predecessors");
}

static bool parse_EXTRA(Parser *p, ParseInst *inst, HlAttr *out) {
  return lex_expected(&p->in, "an attribute");
}

ParseAttrFn *const parse_kind[HL_ATTR_KIND_COUNT] = {
#define ATTR_KIND(id, member, meaning) [HL_KIND_OF_##id] = parse_##id,
#include "hilo/attrs.def"
};
