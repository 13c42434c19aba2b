// parse_attr.c: reads the value of an attribute, one function for each kind of attrs.def.

#include "ir/backend_config.h"
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

bool parse_int32(Parser *p, int32_t *out) {
  int64_t value;
  const char *at = p->in.at;
  if (!lex_int(&p->in, &value))
    return false;
  if (value != (int32_t)value)
    return parse_error(p, at, "value %lld is out of range for int32", (long long)value);
  *out = (int32_t)value;
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
bool parse_eat_name(Parser *p, const char *name) {
  const size_t n = strlen(name);
  if (strncmp(p->in.at, name, n) != 0 || p->in.at[n] != '=')
    return false;
  lex_move(&p->in, p->in.at + n + 1);
  return true;
}

// --- Numbers and words ---------------------------------------------------------------------------

bool parse_INT(Parser *p, ParseInst *inst, HlAttr *out) {
  return lex_int(&p->in, &out->i);
}

bool parse_BOOL(Parser *p, ParseInst *inst, HlAttr *out) {
  bool value;
  const bool ok = parse_bool(p, &value);
  out->i = value;
  return ok;
}

bool parse_TRISTATE(Parser *p, ParseInst *inst, HlAttr *out) {
  bool value;
  const bool ok = parse_bool(p, &value);
  out->i = value ? 1 : 2;
  return ok;
}

bool parse_FLOAT(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  double value;
  if (!lex_double(&p->in, &value))
    return false;
  if (value > (double)FLT_MAX || value < -(double)FLT_MAX)
    return parse_error(p, at, "the value is out of range for float");
  out->f = (double)(float)value;
  return true;
}

bool parse_TEXT(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStr text;
  if (!lex_string(&p->in, &text))
    return false;
  out->sym = parse_sym(p, text);
  return true;
}

bool parse_DICT_TEXT(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStr text;
  if (lex_at(&p->in, '{') ? !lex_json(&p->in, &text) : !lex_string(&p->in, &text))
    return false;
  out->sym = hl_config_read(p->m, text);
  return true;
}

// Reads one word of an enum.
bool parse_enum(Parser *p, const HlEnum *words, int64_t *out) {
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

bool parse_ENUM(Parser *p, ParseInst *inst, HlAttr *out) {
  if (!parse_enum(p, hl_attr_info[out->key].words, &out->i))
    return false;
  if (out->key == HL_A_TRANSPOSE_A && out->i == HL_WORD_transpose_a_INVALID)
    out->key = HL_ATTR_COUNT;
  return true;
}

bool parse_DROPPED(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_INTS(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  const bool ok = parse_int_list(p, '{', '}', ',', "a list of integers");
  out->ints = parse_take_ints(p, base);
  if (out->ints.n == 0 && is_optional_list(out->key))
    out->key = HL_ATTR_COUNT;
  return ok;
}

bool parse_ONE_INT(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  const int base = p->ints.n;
  if (!parse_int_list(p, '{', '}', ',', "a list of one integer"))
    return false;
  const int n = p->ints.n - base;
  if (n != 1)
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

bool parse_INT_LISTS(Parser *p, ParseInst *inst, HlAttr *out) {
  return read_lists(p, false, "a list of integers", &out->lists);
}

bool parse_PAIRS(Parser *p, ParseInst *inst, HlAttr *out) {
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
bool parse_SLICES(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_BOOLS(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_PRECISION(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ints.n;
  bool any = false;
  if (!lex_need(&p->in, '{', "to start the precisions"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      int64_t value;
      if (!parse_enum(p, &hl_enums[HL_ENUM_precision], &value))
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

// --- Computations and instructions ---------------------------------------------------------------

bool parse_COMP(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_COMPS(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_CONTROL(Parser *p, ParseInst *inst, HlAttr *out) {
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

bool parse_EXTRA(Parser *p, ParseInst *inst, HlAttr *out) {
  return lex_expected(&p->in, "an attribute");
}

ParseAttrFn *const parse_kind[HL_ATTR_KIND_COUNT] = {
#define ATTR_KIND(id, member, meaning) [HL_KIND_OF_##id] = parse_##id,
#include "hilo/attrs.def"
};
