// Reads MLIR text: types (mlir.md 1.4).
//
// Tensor types are most of what a program says, and few of them differ: they are looked up by their text first.
#include "mlir/text/parse.h"

#include <stdlib.h>
#include <string.h>

static bool is_type_word(HlStr word) {
  const char *s = word.at, *end = word.at + word.n;
  switch (*s) {
  case 't': return ML_IS(word, "tensor") || ML_IS(word, "tuple") || ML_IS(word, "tf32");
  case 'c': return ML_IS(word, "complex");
  case 'v': return ML_IS(word, "vector");
  case 'm': return ML_IS(word, "memref");
  case 'n': return ML_IS(word, "none");
  case 'b': return ML_IS(word, "bf16");
  case 'f': return word.n > 1 && ml_lex_is(s[1], ML_DIGIT);
  case 's':
  case 'u':
    if (s[1] != 'i')
      return false;
    s++;
    break;
  case 'i':
    if (ML_IS(word, "index"))
      return true;
    break;
  default: return false;
  }
  for (s++; s < end && ml_lex_is(*s, ML_DIGIT); s++) {
  }
  return s == end && ml_lex_is(s[-1], ML_DIGIT);
}

bool mp_at_type(const MpParser *p) {
  const char *at = p->in.at;
  if (*at == '(' || *at == '!')
    return true;
  return ml_lex_is(*at, ML_START) && is_type_word((HlStr){at, (size_t)(ml_lex_word_end(at) - at)});
}

// --- Limits ------------------------------------------------------------------------------------------------

// Aliases can make little text mean very much.
static const HlMlType *within_limits(MpParser *p, const char *at, const HlMlType *type) {
  if (type->depth > p->max_depth || type->size > hl_cx_limits(p->cx)->tuple_leaves) {
    hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, at), "the type is too large");
    return NULL;
  }
  return type;
}

// --- Scalars -----------------------------------------------------------------------------------------------

enum { MAX_INT_WIDTH = (1 << 24) - 1 };

static const HlMlType *int_type(MpParser *p, HlStr word) {
  const char *s = word.at;
  const HlMlSign sign = *s == 's' ? HL_ML_SIGNED : *s == 'u' ? HL_ML_UNSIGNED : HL_ML_SIGNLESS;
  s += 1 + (sign != HL_ML_SIGNLESS);
  int64_t width = 0;
  for (; s < word.at + word.n && width <= MAX_INT_WIDTH; s++)
    width = width * 10 + (*s - '0');
  if (width == 0 || width > MAX_INT_WIDTH) {
    mp_error(p, word.at, "invalid integer width");
    return NULL;
  }
  return hl_ml_int_type(p->tree, (int)width, sign);
}

static const HlMlType *float_type(MpParser *p, HlStr word) {
  char text[16];
  const HlMlType *type = NULL;
  if (word.n < sizeof text) {
    memcpy(text, word.at, word.n);
    text[word.n] = 0;
    type = hl_ml_float_type(p->tree, text);
  }
  if (!type)
    mp_error(p, word.at, "expected a type, but found '%.*s'", (int)(word.n < 60 ? word.n : 60),
             word.at);
  return type;
}

const HlMlType *mp_plain(MpParser *p, MpPlain which) {
  const HlMlType **type = &p->plain[which];
  if (!*type)
    *type = which == MP_F64 || which == MP_F32
                ? hl_ml_float_type(p->tree, which == MP_F64 ? "f64" : "f32")
                : hl_ml_int_type(p->tree, which == MP_I64 ? 64 : 32, HL_ML_SIGNLESS);
  return *type;
}

// --- Shapes ------------------------------------------------------------------------------------------------

static bool dimension(MpParser *p, int64_t *out) {
  const char *s = p->in.at;
  if (*s == '?') {
    *out = HL_UNBOUNDED;
    ml_lex_move(&p->in, s + 1);
    return true;
  }
  int64_t value = 0;
  for (; ml_lex_is(*s, ML_DIGIT); s++) {
    if (value > (INT64_MAX - 9) / 10)
      return mp_error(p, p->in.at, "invalid dimension: it does not fit 64 bits");
    value = value * 10 + (*s - '0');
  }
  *out = value;
  ml_lex_move(&p->in, s);
  return true;
}

static bool dimension_list(MpParser *p) {
  while (*p->in.at == '?' || ml_lex_is(*p->in.at, ML_DIGIT)) {
    int64_t value = 0;
    if (!dimension(p, &value))
      return false;
    if (*p->in.at != 'x')
      return ml_lex_expected(&p->in, "'x' in dimension list");
    mp_push_int(p, value);
    ml_lex_move(&p->in, p->in.at + 1);
  }
  return true;
}

static bool is_element(const HlMlType *type) {
  switch ((HlMlTypeKind)type->kind) {
  case HL_ML_NONE:
  case HL_ML_TUPLE:
  case HL_ML_FUNCTION:
  case HL_ML_TENSOR:
  case HL_ML_UNRANKED:
  case HL_ML_MEMREF: return false;
  default: return true;
  }
}

static const HlMlType *element_type(MpParser *p) {
  const char *at = p->in.at;
  const HlMlType *type = mp_type(p);
  if (!type || is_element(type))
    return type;
  mp_error(p, at, "invalid element type: '%s'", hl_ml_type_text(p->cx, type));
  return NULL;
}

static const HlMlType *unranked(MpParser *p) {
  ml_lex_move(&p->in, p->in.at + 1);
  if (*p->in.at != 'x') {
    ml_lex_expected(&p->in, "'x' after '*'");
    return NULL;
  }
  ml_lex_move(&p->in, p->in.at + 1);
  const HlMlType *element = element_type(p);
  if (!element || !ml_lex_need(&p->in, '>'))
    return NULL;
  return hl_ml_list_type(p->tree, HL_ML_UNRANKED, 1, &element);
}

// A type that is only carried, all of its text.
static const HlMlType *other_type(MpParser *p, const char *begin, const char *name_end) {
  const char *end = name_end;
  if (*end == '<') {
    end = ml_lex_balanced(end + 1, false);
    if (!end || *end != '>') {
      mp_error(p, name_end, "unbalanced '<' in a type");
      return NULL;
    }
    end++;
  }
  ml_lex_move(&p->in, end);
  const HlSym *text = mp_sym(p, begin, (size_t)(end - begin));
  return hl_ml_type_intern(p->tree, &(HlMlType){.kind = HL_ML_OTHER, .text = text});
}

static bool check_bounds(MpParser *p, const char *at, const HlMlType *type) {
  HlI64s bounds = hl_ml_bounds(type);
  if (!bounds.n)
    return true;
  if (bounds.n != type->rank)
    return mp_error(p, at, "bounds length is %d, expected to be equal to rank(%d) of the tensor",
                    bounds.n, type->rank);
  for (int k = 0; k < bounds.n; k++)
    if (bounds.at[k] != HL_UNBOUNDED && type->dim[k] != HL_UNBOUNDED)
      return mp_error(
          p, at, "static dimension %d cannot have a bound, use ? to indicate a missing bound", k);
  return true;
}

// What follows `tensor`, `vector` or `memref`.
static const HlMlType *shaped_type(MpParser *p, HlMlTypeKind kind, const char *begin) {
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  if (*p->in.at == '*' && kind == HL_ML_TENSOR)
    return unranked(p);
  if ((*p->in.at == '[' && kind == HL_ML_VECTOR) || (*p->in.at == '*' && kind == HL_ML_MEMREF))
    return other_type(p, begin, begin + strlen("vector"));  // scalable, unranked
  const int base = p->ints.n;
  if (!dimension_list(p))
    return NULL;
  const HlMlType *element = element_type(p);
  const HlMlAttr *encoding = NULL;
  if (!element || (ml_lex_eat(&p->in, ',') && !(encoding = mp_attr(p, NULL))))
    return NULL;
  const int rank = p->ints.n - base;
  p->ints.n = base;
  if (kind == HL_ML_MEMREF && *p->in.at == ',')  // a memory space
    return other_type(p, begin, begin + strlen("memref"));
  if (!ml_lex_need(&p->in, '>'))
    return NULL;
  const HlMlType type = {.kind = (uint8_t)kind,
                         .rank = rank,
                         .dim = p->ints.at + base,
                         .n = 1,
                         .element = &element,
                         .encoding = encoding};
  return check_bounds(p, begin, &type) ? hl_ml_type_intern(p->tree, &type) : NULL;
}

// The end (behind the bracket) of the type at `s`, which begins with a word and "<"; NULL: none is in sight.
static const char *text_end(const char *s) {
  int depth = 0;
  for (const char *limit = s + MP_MAX_CACHED; *s && s < limit; s++) {
    if (*s == '>') {
      if (--depth == 0)
        return s + 1;
    } else if (*s == '<') {
      depth++;
    } else if (*s == '"' || *s == '-' || *s == '/') {
      return NULL;
    }
  }
  return NULL;
}

static const HlMlType *tensor_type(MpParser *p, const char *begin) {
  const char *end = text_end(begin);
  if (!end) {
    ml_lex_move(&p->in, begin + strlen("tensor"));
    return shaped_type(p, HL_ML_TENSOR, begin);
  }
  const size_t n = (size_t)(end - begin);
  const uint32_t hash = (uint32_t)hl_hash_bytes(begin, n, 0);
  MpSlot *slot = &p->type_slots[hash & (MP_TYPE_SLOTS - 1)];
  if (slot->hash == hash && slot->n == n && memcmp(slot->text, begin, n) == 0) {
    ml_lex_move(&p->in, end);
    return slot->value;
  }
  ml_lex_move(&p->in, begin + strlen("tensor"));
  const HlMlType *type = shaped_type(p, HL_ML_TENSOR, begin);
  if (type)
    *slot = (MpSlot){begin, (uint32_t)n, hash, type};
  return type;
}

// --- Types of types ----------------------------------------------------------------------------------------

bool mp_type_list(MpParser *p) {
  do {
    const HlMlType *type = mp_type(p);
    if (!type)
      return false;
    mp_push(p, &p->types, type);
  } while (ml_lex_eat(&p->in, ','));
  return true;
}

// "<T, U>", which may be empty.
static const HlMlType *list_type(MpParser *p, HlMlTypeKind kind) {
  const int base = p->types.n;
  if (!ml_lex_need(&p->in, '<') || (*p->in.at != '>' && !mp_type_list(p)) ||
      !ml_lex_need(&p->in, '>'))
    return NULL;
  const int n = p->types.n - base;
  p->types.n = base;
  return hl_ml_list_type(p->tree, kind, n, (const HlMlType *const *)p->types.at + base);
}

static const HlMlType *complex_type(MpParser *p) {
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  const char *at = p->in.at;
  const HlMlType *element = mp_type(p);
  if (!element || !ml_lex_need(&p->in, '>'))
    return NULL;
  if (element->kind != HL_ML_INT && element->kind != HL_ML_FLOAT) {
    mp_error(p, at, "invalid element type for complex: '%s'", hl_ml_type_text(p->cx, element));
    return NULL;
  }
  return hl_ml_list_type(p->tree, HL_ML_COMPLEX, 1, &element);
}

static const HlMlType *function_type(MpParser *p) {
  const int base = p->types.n;
  MpState s = {.types = base};
  if (!mp_fn_type(p, &s))
    return NULL;
  p->types.n = base;
  const HlMlType *const *types = (const HlMlType *const *)p->types.at + base;
  return hl_ml_function_type(p->tree, s.n_operands, types, s.n_results, types + s.n_operands);
}

// --- Types of dialects -------------------------------------------------------------------------------------

static const HlMlType *alias(MpParser *p, HlStr name) {
  const HlSym *sym = hl_syms_find(p->tree->syms, name.at, name.n);
  const HlMlType *type = sym && sym->index < p->n_type_alias ? p->type_alias[sym->index] : NULL;
  if (!type)
    mp_error(p, name.at - 1, "undefined symbol alias id '%.*s'", (int)(name.n < 60 ? name.n : 60),
             name.at);
  return type;
}

static const HlMlType *unknown_type(MpParser *p, HlStr name) {
  const char *dot = memchr(name.at, '.', name.n);
  mp_error(p, name.at - 1, "unknown %.*s type: %.*s", (int)(dot - name.at), name.at,
           (int)(name.at + name.n - dot - 1), dot + 1);
  return NULL;
}

static const HlMlType *dialect_type(MpParser *p) {
  const char *begin = p->in.at, *end = ml_lex_suffix_end(begin + 1);
  HlStr name = {begin + 1, (size_t)(end - begin - 1)};
  if (name.n && !memchr(name.at, '.', name.n) && *end != '<') {
    ml_lex_move(&p->in, end);
    return alias(p, name);
  }
  static const struct {
    const char *text;
    HlMlTypeKind kind;
  } known[] = {{"stablehlo.token", HL_ML_TOKEN},
               {"mhlo.token", HL_ML_TOKEN},
               {"stablehlo.future", HL_ML_FUTURE},
               {"mhlo.async_bundle", HL_ML_BUNDLE},
               {"quant.uniform", HL_ML_QUANT}};
  for (int k = 0; k < HL_COUNT_OF(known); k++) {
    if (!hl_str_is(name, known[k].text))
      continue;
    ml_lex_move(&p->in, end);
    if (known[k].kind == HL_ML_TOKEN)
      return hl_ml_type_intern(p->tree,
                               &(HlMlType){.kind = HL_ML_TOKEN, .is_mhlo = name.at[0] == 'm'});
    return known[k].kind == HL_ML_QUANT ? mp_quant(p) : list_type(p, known[k].kind);
  }
  const HlMlDialect dialect = ml_find_dialect(name);
  if (name.n && *end != '<' && (dialect == HL_ML_STABLEHLO || dialect == HL_ML_MHLO))
    return unknown_type(p, name);
  if (name.n == 0 || (dialect == HL_ML_STABLEHLO && memchr(name.at, '.', name.n))) {
    ml_lex_expected(&p->in, "a type");
    return NULL;
  }
  return other_type(p, begin, end);
}

// --- All of them -------------------------------------------------------------------------------------------

static const HlMlType *word_type(MpParser *p) {
  const char *begin = p->in.at;
  HlStr word = ml_lex_word(&p->in);
  if (ML_IS(word, "index"))
    return hl_ml_simple_type(p->tree, HL_ML_INDEX);
  if (ML_IS(word, "none"))
    return hl_ml_simple_type(p->tree, HL_ML_NONE);
  if (ML_IS(word, "complex"))
    return complex_type(p);
  if (ML_IS(word, "tuple"))
    return list_type(p, HL_ML_TUPLE);
  if (ML_IS(word, "vector"))
    return shaped_type(p, HL_ML_VECTOR, begin);
  if (ML_IS(word, "memref"))
    return shaped_type(p, HL_ML_MEMREF, begin);
  if (is_type_word(word))
    return *begin == 'i' || begin[1] == 'i' ? int_type(p, word) : float_type(p, word);
  p->in.at = begin;
  ml_lex_expected(&p->in, "a type");
  return NULL;
}

static const HlMlType *any_type(MpParser *p) {
  const char *at = p->in.at;
  if (*at == '(')
    return function_type(p);
  if (*at == '!')
    return dialect_type(p);
  if (ml_lex_is(*at, ML_START))
    return word_type(p);
  ml_lex_expected(&p->in, "a type");
  return NULL;
}

const HlMlType *mp_type(MpParser *p) {
  const char *at = p->in.at;
  if (!mp_enter(p))
    return NULL;
  const HlMlType *type =
      HL_LIKELY(strncmp(at, "tensor<", 7) == 0) ? tensor_type(p, at) : any_type(p);
  mp_leave(p);
  return type ? within_limits(p, at, type) : NULL;
}
