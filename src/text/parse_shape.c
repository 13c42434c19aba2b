// parse_shape.c: reads shapes and layouts (hlo.md 2).
//
// shape  = type "[" [ dim { "," dim } ] "]" [ layout ] | "(" [ shape { "," shape } ] ")" | "b("
// shape ")"
// dim    = int | "<=" int | "?"
// layout = "{" [ int { "," int } ] [ ":" suffix ] "}"
//
// A program has few different shapes and writes each thousands of times, so the raw text of a shape
// is looked up in a cache first. Only texts that end where the shape surely ends get there.

#include "ir/wrong.h"
#include "text/parse.h"

#include <string.h>

static bool read_shape(Parser *p, const HlShape **out);

// Over the array or token that starts at `s`; its layout is left where it may be something else. NULL as below.
static inline const char *raw_array(const char *s, bool is_element) {
  while (lex_is(*s, LEX_IDENT))
    s++;
  if (*s != '[')
    return *s == ')' ? s : NULL;
  for (s++; lex_is(*s, LEX_SHAPE); s++) {
  }
  if (*s++ != ']')
    return NULL;
  if (*s != '{')
    return s;
  if (!lex_is(s[1], LEX_DIGIT) && s[1] != ':')
    return is_element ? NULL : s;
  for (s++; lex_is(*s, LEX_SHAPE); s++) {
  }
  return *s == '}' ? s + 1 : NULL;
}

// Over a blank and a comment, /*index=5*/, between elements.
static inline const char *raw_gap(const char *s) {
  s += *s == ' ';
  if (*s != '/' || s[1] != '*')
    return s;
  for (s += 2; lex_is(*s, LEX_IDENT) || *s == '='; s++) {
  }
  return *s == '*' && s[1] == '/' ? s + 2 : NULL;
}

// The end of a shape that has no white space and no comments outside of tuples, or NULL where only
// parsing tells.
static const char *raw_end(const char *s) {
  int depth = 0;
  for (;;) {
    if (*s == '(') {
      depth++;
      s++;
    } else {
      s = raw_array(s, depth > 0);
      if (!s)
        return NULL;
      for (; depth && *s == ')'; s++)
        depth--;
      if (!depth)
        return s;
      if (*s++ != ',')
        return NULL;
    }
    s = raw_gap(s);
    if (!s)
      return NULL;
  }
}

static bool opens_layout(Parser *p, const char *s) {
  if (*s != '{')
    return false;
  s = lex_skip(&p->in, s + 1);
  return lex_is(*s, LEX_DIGIT) || *s == ':' || (*s == '-' && lex_is(s[1], LEX_DIGIT));
}

bool parse_at_shape(Parser *p) {
  const char *s = p->in.at;
  if (*s == '(')
    return true;
  if (!lex_is(*s, LEX_START))
    return false;
  const char *end = lex_ident_end(s);
  if (*end == '[')
    return true;
  if (*end == ':' || *end == '=')
    return false;
  if (end == s + 1 && *s == 'b' && *lex_skip(&p->in, end) == '(')
    return true;
  return end - s <= 13 && hl_dtype_by_text((HlStr){s, (size_t)(end - s)}) != HL_NO_DTYPE;
}

bool parse_shape(Parser *p, const HlShape **out) {
  const char *begin = p->in.at;
  p->leaves = 0;
  const char *end = raw_end(begin);
  const char *next = end ? lex_skip(&p->in, end) : NULL;
  if (HL_UNLIKELY(!end || end > p->in.end || opens_layout(p, next)))
    return read_shape(p, out);
  const HlStr raw = {begin, (size_t)(end - begin)};
  bool hit;
  ParseSlot *slot = parse_slot(p, &p->shapes, raw, &hit);
  if (HL_LIKELY(hit)) {
    *out = slot->value;
    p->in.at = next;
    return true;
  }
  if (!read_shape(p, out))
    return false;
  if (p->in.at == next)
    parse_fill_slot(p, slot, raw, *out);
  return true;
}

// --- Layouts -------------------------------------------------------------------------------------

// Eats a layout item's letter when "(" follows it.
static bool eat_item(Parser *p, const char *letter) {
  return lex_is(*p->in.at, LEX_START) && lex_eat_word(&p->in, letter);
}

static bool read_item_int(Parser *p, const char *letter, int64_t *out, bool *any) {
  if (!eat_item(p, letter))
    return true;
  *any = true;
  return lex_need(&p->in, '(', "in a layout") && lex_int(&p->in, out) &&
         lex_need(&p->in, ')', "in a layout");
}

// "D(D,C+,S~)": of the sparse arrays of the past; read and forgotten.
static bool skip_level_types(Parser *p) {
  if (!eat_item(p, "D"))
    return true;
  if (!lex_need(&p->in, '(', "after D"))
    return false;
  while (!lex_at(&p->in, ')')) {
    if (!eat_item(p, "D") && !eat_item(p, "C") && !eat_item(p, "S") && !eat_item(p, "H"))
      return lex_expected(&p->in, "a dimension level type: D, C, S or H");
    lex_eat(&p->in, '+');
    lex_eat(&p->in, '~');
    if (!lex_eat(&p->in, ','))
      break;
  }
  return lex_need(&p->in, ')', "to end the dimension level types");
}

// "(8,*,128)", left on the stack of integers.
static bool read_tile(Parser *p) {
  if (!lex_need(&p->in, '(', "to start a tile"))
    return false;
  if (!lex_at(&p->in, ')')) {
    do {
      int64_t value = HL_TILE_COMBINE;
      if (!lex_eat(&p->in, '*') && !lex_int(&p->in, &value))
        return false;
      parse_push_int(p, value);
    } while (lex_eat(&p->in, ','));
  }
  return lex_need(&p->in, ')', "to end a tile");
}

static bool read_tiles(Parser *p, HlLayoutExtra *extra, bool *any) {
  if (!eat_item(p, "T"))
    return true;
  *any = true;
  const int base = p->ptrs.n;
  do {
    const int ints = p->ints.n;
    if (!read_tile(p))
      return false;
    HlI64s *tile = HL_NEW(p->m->arena, HlI64s);
    *tile = parse_take_ints(p, ints);
    parse_push_ptr(p, tile);
  } while (lex_at(&p->in, '('));
  HlI64s *tiles = HL_ARRAY(p->m->arena, HlI64s, p->ptrs.n - base);
  for (int k = base; k < p->ptrs.n; k++)
    tiles[extra->n_tiles++] = *(const HlI64s *)p->ptrs.at[k];
  p->ptrs.n = base;
  extra->tiles = tiles;
  return true;
}

// "#(u32)" and "*(u32)".
static bool read_item_type(Parser *p, char mark, HlDtype *out, bool *any) {
  if (!lex_eat(&p->in, mark))
    return true;
  *any = true;
  if (!lex_need(&p->in, '(', "before the type in a layout"))
    return false;
  const char *s = p->in.at, *end = lex_ident_end(s);
  *out = hl_dtype_by_text((HlStr){s, (size_t)(end - s)});
  if (!hl_is_unsigned(*out))
    return lex_expected(&p->in, "an unsigned integer type");
  lex_move(&p->in, end);
  return lex_need(&p->in, ')', "after the type in a layout");
}

// "SC(0:4)(1:2,6)".
static bool read_splits(Parser *p, HlLayoutExtra *extra, bool *any) {
  if (!eat_item(p, "SC"))
    return true;
  *any = true;
  const int base = p->ptrs.n;
  do {
    HlSplitConfig *split = HL_NEW(p->m->arena, HlSplitConfig);
    const int ints = p->ints.n;
    if (!lex_need(&p->in, '(', "to start a split configuration") ||
        !lex_int(&p->in, &split->dimension) || !parse_int_list(p, ':', ')', ',', "split indices"))
      return false;
    split->split_indices = parse_take_ints(p, ints);
    parse_push_ptr(p, split);
  } while (lex_at(&p->in, '('));
  HlSplitConfig *splits = HL_ARRAY(p->m->arena, HlSplitConfig, p->ptrs.n - base);
  for (int k = base; k < p->ptrs.n; k++)
    splits[extra->n_splits++] = *(const HlSplitConfig *)p->ptrs.at[k];
  p->ptrs.n = base;
  extra->splits = splits;
  return true;
}

static bool read_layout_extra(Parser *p, HlLayoutExtra *extra, bool *any) {
  if (!skip_level_types(p) || !read_tiles(p, extra, any) ||
      !read_item_int(p, "L", &extra->tail_padding_alignment, any) ||
      !read_item_type(p, '#', &extra->index_type, any) ||
      !read_item_type(p, '*', &extra->pointer_type, any) ||
      !read_item_int(p, "E", &extra->element_bits, any) ||
      !read_item_int(p, "S", &extra->memory_space, any) || !read_splits(p, extra, any))
    return false;
  if (lex_at_word(&p->in, "P"))
    return parse_error(p, p->in.at, "physical shapes are for sparse arrays, which are gone");
  return read_item_int(p, "M", &extra->dynamic_metadata_bytes, any);
}

// Reads the layout of an array of the given rank; its integers stay on the stack.
static bool read_layout(Parser *p, int rank, HlLayout *out, HlLayoutExtra *extra) {
  const char *begin = p->in.at;
  const int base = p->ints.n;
  lex_move(&p->in, begin + 1);
  if (!lex_at(&p->in, ':')) {
    do {
      int64_t value;
      if (!lex_int(&p->in, &value))
        return false;
      parse_push_int(p, value);
    } while (lex_eat(&p->in, ','));
  }
  bool any = false;
  *extra = (HlLayoutExtra){.tail_padding_alignment = 1};
  if (lex_eat(&p->in, ':') && !read_layout_extra(p, extra, &any))
    return false;
  if (!lex_need(&p->in, '}', "to end the layout"))
    return false;
  if (p->ints.n - base != rank)
    return parse_error(p, begin, "the layout lists %d dimensions, but the shape has %d",
                       p->ints.n - base, rank);
  *out = (HlLayout){{p->ints.at + base, rank}, any ? extra : NULL};
  return true;
}

// --- Shapes --------------------------------------------------------------------------------------

// Reads "[2,<=3,?]": sizes and then, when some are dynamic, as many 0 and 1 stay on the stack.
static bool read_dims(Parser *p, int *rank, bool *dynamic) {
  const int base = p->ints.n;
  *dynamic = false;
  if (!lex_need(&p->in, '[', "to start the dimensions of a shape"))
    return false;
  if (!lex_at(&p->in, ']')) {
    do {
      const char *at = p->in.at;
      int64_t size = HL_UNBOUNDED, is_dynamic = 1;
      if (!lex_eat(&p->in, '?')) {
        is_dynamic = lex_eat_pair(&p->in, "<=");
        if (!lex_int(&p->in, &size))
          return false;
        if (size < 0)
          return parse_error(p, at, "the size of a dimension may not be negative");
      }
      *dynamic |= is_dynamic;
      parse_push_int(p, size);
      parse_push_int(p, is_dynamic);
    } while (lex_eat(&p->in, ','));
  }
  *rank = (p->ints.n - base) / 2;
  // From pairs to two lists.
  for (int k = 0; k < *rank; k++)
    parse_push_int(p, p->ints.at[base + 2 * k + 1]);
  for (int k = 0; k < *rank; k++)
    p->ints.at[base + k] = p->ints.at[base + 2 * k];
  if (*rank > 0)
    memmove(p->ints.at + base + *rank, p->ints.at + base + 2 * *rank,
            sizeof(int64_t) * (size_t)*rank);
  p->ints.n = base + 2 * *rank;
  return lex_need(&p->in, ']', "to end the dimensions of a shape");
}

static bool read_array(Parser *p, HlDtype dtype, const HlShape **out) {
  const char *begin = p->in.at;
  const int base = p->ints.n;
  int rank = 0;
  bool any_dynamic;
  if (!read_dims(p, &rank, &any_dynamic))
    return false;
  if (!hl_is_array_dtype(dtype) && rank > 0)
    return parse_error(p, begin, "%s takes no dimensions: write %s[]", hl_dtype_text(dtype),
                       hl_dtype_text(dtype));
  HlLayout layout;
  HlLayoutExtra extra;
  const bool has_layout = opens_layout(p, p->in.at);
  if (has_layout && !read_layout(p, rank, &layout, &extra))
    return false;
  if (!hl_is_array_dtype(dtype)) {
    *out = dtype == HL_TOKEN ? hl_shape_token(p->m->shapes) : hl_shape_opaque(p->m->shapes);
  } else if (!has_layout && !any_dynamic) {
    *out = hl_shape_array(p->m->shapes, dtype, rank, p->ints.at + base);
  } else {
    if (!has_layout) {
      for (int k = rank - 1; k >= 0; k--)
        parse_push_int(p, k);
      layout = (HlLayout){{p->ints.at + base + 2 * rank, rank}, NULL};
    }
    bool *dynamic = any_dynamic ? HL_ARRAY(p->m->arena, bool, rank) : NULL;
    for (int k = 0; any_dynamic && k < rank; k++)
      dynamic[k] = p->ints.at[base + rank + k];
    *out = hl_shape_array_full(p->m->shapes, dtype, rank, p->ints.at + base, dynamic, &layout);
  }
  p->ints.n = base;
  return true;
}

// The elements of tuples XLA looks at when it reads them, arrays when it verifies.
static bool check_element(Parser *p, const char *begin, const HlShape *element) {
  const HlShape *where;
  const char *wrong = ir_wrong_shape(element, &where);
  return !wrong || parse_error(p, begin, "an element of the tuple %s", wrong);
}

static bool read_tuple(Parser *p, const HlShape **out) {
  const int base = p->ptrs.n;
  lex_move(&p->in, p->in.at + 1);
  if (!lex_at(&p->in, ')')) {
    do {
      const HlShape *element;
      const char *begin = p->in.at;
      if (!read_shape(p, &element) || !check_element(p, begin, element))
        return false;
      parse_push_ptr(p, element);
    } while (lex_eat(&p->in, ','));
  }
  const int n = p->ptrs.n - base;
  *out = hl_shape_tuple(p->m->shapes, n, (const HlShape *const *)(p->ptrs.at + base));
  p->ptrs.n = base;
  return lex_need(&p->in, ')', "to end the tuple shape");
}

static bool read_buffer(Parser *p, const HlShape **out) {
  const char *begin = p->in.at;
  const HlShape *array;
  lex_move(&p->in, begin + 1);
  if (!lex_need(&p->in, '(', "after b") || !read_shape(p, &array))
    return false;
  if (!hl_shape_is_array(array))
    return parse_error(p, begin, "a buffer holds one array, not %s", hl_shape_text(p->cx, array));
  *out = hl_shape_buffer(p->m->shapes, array);
  return lex_need(&p->in, ')', "to end the buffer shape");
}

static bool expected_shape(Parser *p, HlStr word) {
  lex_expected(&p->in, "a shape");
  const char *names[HL_DTYPE_COUNT];
  int n = 0;
  for (int k = HL_NO_DTYPE + 1; k < HL_TUPLE; k++)
    names[n++] = hl_dtype_info[k].text;
  const char *near = word.n ? hl_nearest(word, names, n) : NULL;
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

static bool read_any(Parser *p, const HlShape **out) {
  const char *s = p->in.at;
  if (++p->leaves > hl_cx_limits(p->cx)->tuple_leaves)
    return parse_limit(p, s, "the tuple has more than %lld leaves (limit tuple_leaves)",
                       (long long)hl_cx_limits(p->cx)->tuple_leaves);
  if (*s == '(')
    return read_tuple(p, out);
  const char *end = lex_ident_end(s);
  if (end == s + 1 && *s == 'b' && *lex_skip(&p->in, end) == '(')
    return read_buffer(p, out);
  const HlDtype dtype = hl_dtype_by_text((HlStr){s, (size_t)(end - s)});
  if (end == s || dtype == HL_NO_DTYPE || *end == ':' || *end == '=')
    return expected_shape(p, (HlStr){s, (size_t)(end - s)});
  lex_move(&p->in, end);
  return read_array(p, dtype, out);
}

static bool read_shape(Parser *p, const HlShape **out) {
  if (!parse_deeper(p))
    return false;
  const bool ok = read_any(p, out);
  p->depth--;
  return ok;
}
