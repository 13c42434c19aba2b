// print_kind.c: writes the values of attributes, one function for each kind of attrs.def
// (hlo.md 1.5, 1.11).

#include "text/print.h"

// --- Numbers, words, lists -----------------------------------------------------------------------

static void print_int(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_i64(p->out, attr->i);
}

static void print_bool(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_text(p->out, attr->i ? "true" : "false");
}

static void print_tristate(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_text(p->out, attr->i == 1 ? "true" : "false");
}

static void print_float(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_g(p->out, attr->f, 6);
}

static void put_quoted(HlBuf *out, const HlSym *text) {
  put_char(out, '"');
  if (text)
    hl_buf_c_escape(out, text->text, text->n);
  put_char(out, '"');
}

static void print_text(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_quoted(p->out, attr->sym);
}

static void print_enum(Print *p, const HlInst *inst, const HlAttr *attr) {
  const char *word = hl_enum_text(hl_attr_info[attr->key].words, attr->i);
  if (word)
    put_text(p->out, word);
  else
    put_i64(p->out, attr->i);
}

static void print_ints(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_braced(p->out, attr->ints);
}

static void print_one_int(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_braced(p->out, (HlI64s){&attr->i, 1});
}

static void put_lists(HlBuf *out, HlI64Lists lists) {
  put_char(out, '{');
  for (int k = 0; k < lists.n; k++) {
    if (k)
      put_char(out, ',');
    put_braced(out, lists.at[k]);
  }
  put_char(out, '}');
}

static void print_int_lists(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_lists(p->out, attr->lists);
}

static void print_pairs(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_char(p->out, '{');
  for (int k = 0; k + 1 < attr->ints.n; k += 2) {
    if (k)
      put_char(p->out, ',');
    put_braced(p->out, (HlI64s){attr->ints.at + k, 2});
  }
  put_char(p->out, '}');
}

static void print_bools(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_char(p->out, '{');
  for (int k = 0; k < attr->ints.n; k++) {
    if (k)
      put_char(p->out, ',');
    put_text(p->out, attr->ints.at[k] ? "true" : "false");
  }
  put_char(p->out, '}');
}

static void print_precision(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_char(p->out, '{');
  for (int k = 0; k < attr->ints.n; k++) {
    const char *word = hl_enum_text(&hl_enums[HL_ENUM_precision], attr->ints.at[k]);
    if (k)
      put_char(p->out, ',');
    put_text(p->out, word ? word : "default");
  }
  put_char(p->out, '}');
}

// "{[0:4], [1:9:2]}": strides for all dimensions or for none.
static void print_slices(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlI64s list = attr->ints;
  bool strides = false;
  for (int k = 2; k < list.n; k += 3)
    strides |= list.at[k] != 1;
  put_char(p->out, '{');
  for (int k = 0; k + 2 < list.n; k += 3) {
    if (k)
      PUT(p->out, ", ");
    put_char(p->out, '[');
    put_i64(p->out, list.at[k]);
    put_char(p->out, ':');
    put_i64(p->out, list.at[k + 1]);
    if (strides) {
      put_char(p->out, ':');
      put_i64(p->out, list.at[k + 2]);
    }
    put_char(p->out, ']');
  }
  put_char(p->out, '}');
}

// "1_2x3_4", or "1_2_0x3_4_1" when some interior padding is not zero.
static void print_padding(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlI64s list = attr->ints;
  bool interior = false;
  for (int k = 2; k < list.n; k += 3)
    interior |= list.at[k] != 0;
  for (int k = 0; k + 2 < list.n; k += 3) {
    if (k)
      put_char(p->out, 'x');
    put_i64(p->out, list.at[k]);
    put_char(p->out, '_');
    put_i64(p->out, list.at[k + 1]);
    if (interior) {
      put_char(p->out, '_');
      put_i64(p->out, list.at[k + 2]);
    }
  }
}

// --- Windows and convolutions --------------------------------------------------------------------

typedef int64_t WindowField(const HlWindowDim *dim);

static int64_t size_of(const HlWindowDim *d) {
  return d->size;
}
static int64_t stride_of(const HlWindowDim *d) {
  return d->stride;
}
static int64_t lhs_dilate_of(const HlWindowDim *d) {
  return d->lhs_dilate;
}
static int64_t rhs_dilate_of(const HlWindowDim *d) {
  return d->rhs_dilate;
}
static int64_t reversal_of(const HlWindowDim *d) {
  return d->reversal;
}

// " name=1x2", unless all have the default.
static void put_window_field(HlBuf *out, HlWindow w, const char *name, WindowField *field,
                             int64_t def) {
  bool all_default = true;
  for (int k = 0; k < w.n; k++)
    all_default &= field(&w.at[k]) == def;
  if (all_default)
    return;
  put_text(out, name);
  for (int k = 0; k < w.n; k++) {
    if (k)
      put_char(out, 'x');
    put_i64(out, field(&w.at[k]));
  }
}

static void put_window_pads(HlBuf *out, HlWindow w) {
  bool any = false;
  for (int k = 0; k < w.n; k++)
    any |= w.at[k].pad_low || w.at[k].pad_high;
  if (!any)
    return;
  PUT(out, " pad=");
  for (int k = 0; k < w.n; k++) {
    if (k)
      put_char(out, 'x');
    put_i64(out, w.at[k].pad_low);
    put_char(out, '_');
    put_i64(out, w.at[k].pad_high);
  }
}

static void print_window(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlWindow w = attr->window;
  PUT(p->out, "{");
  put_window_field(p->out, w, "size=", size_of, INT64_MIN);
  put_window_field(p->out, w, " stride=", stride_of, 1);
  put_window_pads(p->out, w);
  put_window_field(p->out, w, " lhs_dilate=", lhs_dilate_of, 1);
  put_window_field(p->out, w, " rhs_dilate=", rhs_dilate_of, 1);
  put_window_field(p->out, w, " rhs_reversal=", reversal_of, 0);
  put_char(p->out, '}');
}

// One operand's labels: a letter or digit at each position, `?` where there is none.
static void put_labels(HlBuf *out, int64_t first, char first_letter, int64_t second,
                       char second_letter, HlI64s spatial) {
  enum { MOST = 4096 };
  int64_t n = (first > second ? first : second) + 1;
  for (int k = 0; k < spatial.n; k++)
    n = spatial.at[k] >= n ? spatial.at[k] + 1 : n;
  n = n < 0 || n > MOST ? 0 : n;
  char *at = put_room(out, (size_t)n);
  memset(at, '?', (size_t)n);
  for (int k = 0; k < spatial.n; k++)
    if (spatial.at[k] >= 0 && spatial.at[k] < n)
      at[spatial.at[k]] = (char)('0' + k % 10);
  if (first >= 0 && first < n)
    at[first] = first_letter;
  if (second >= 0 && second < n)
    at[second] = second_letter;
  out->n += (size_t)n;
}

static void print_dim_labels(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlDimLabels *l = attr->ptr;
  put_labels(p->out, l->input_batch, 'b', l->input_feature, 'f', l->input_spatial);
  put_char(p->out, '_');
  put_labels(p->out, l->kernel_input, 'i', l->kernel_output, 'o', l->kernel_spatial);
  PUT(p->out, "->");
  put_labels(p->out, l->output_batch, 'b', l->output_feature, 'f', l->output_spatial);
}

bool print_has_sparsity(HlSparsityOf s) {
  return s.n || s.m || s.dimension || s.stride || s.idx;
}

static void put_sparsity(const Print *p, const char *side, HlSparsityOf s) {
  HlBuf *out = p->out;
  put_text(out, side);
  PUT(out, "={sparsity=");
  put_i64(out, s.n);
  put_char(out, 'x');
  put_i64(out, s.m);
  PUT(out, " dimension=");
  put_i64(out, s.dimension);
  PUT(out, " stride=");
  put_i64(out, s.stride);
  if (s.idx || hl_writes(p->dialect, HL_NEWS_SPARSITY)) {
    PUT(out, " idx=");
    put_i64(out, s.idx);
  }
  put_char(out, '}');
}

static void print_sparsity(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlSparsity *s = attr->ptr;
  const bool lhs = print_has_sparsity(s->lhs), rhs = print_has_sparsity(s->rhs);
  put_char(p->out, '{');
  if (lhs)
    put_sparsity(p, "lhs", s->lhs);
  if (lhs && rhs)
    put_char(p->out, ' ');
  if (rhs)
    put_sparsity(p, "rhs", s->rhs);
  put_char(p->out, '}');
}

static void put_by(HlBuf *out, HlI64s list) {
  for (int k = 0; k < list.n; k++) {
    if (k)
      put_char(out, 'x');
    put_i64(out, list.at[k]);
  }
}

static void put_scales(HlBuf *out, const char *side, const HlScalesOf *s) {
  put_text(out, side);
  PUT(out, "={scale_idx=");
  put_i64(out, s->scale_idx);
  if (s->has_zero) {
    PUT(out, " zero_idx=");
    put_i64(out, s->zero_idx);
  }
  PUT(out, " strides=");
  put_by(out, s->strides);
  PUT(out, " steps=");
  put_by(out, s->steps);
  put_char(out, '}');
}

static void print_scales(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlScales *s = attr->ptr;
  put_char(p->out, '{');
  if (s->lhs.is_there)
    put_scales(p->out, "lhs", &s->lhs);
  if (s->lhs.is_there && s->rhs.is_there)
    put_char(p->out, ' ');
  if (s->rhs.is_there)
    put_scales(p->out, "rhs", &s->rhs);
  put_char(p->out, '}');
}

// --- Groups, aliases, shapes, literals -----------------------------------------------------------

static void put_iota_groups(HlBuf *out, const HlGroups *groups) {
  put_char(out, '[');
  put_i64(out, groups->n_groups);
  put_char(out, ',');
  put_i64(out, groups->group_size);
  PUT(out, "]<=[");
  put_ints(out, groups->iota.dims);
  put_char(out, ']');
  if (groups->iota.dims.n > 1) {
    PUT(out, "T(");
    put_ints(out, groups->iota.perm);
    put_char(out, ')');
  }
}

static void print_groups(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlGroups *groups = attr->ptr;
  if (!groups) {
    PUT(p->out, "{}");
  } else if (groups->form == HL_GROUPS_LIST) {
    put_lists(p->out, groups->list);
  } else if (p->how.replica_group_lists) {
    HlArena *scratch = hl_cx_scratch(p->cx);
    const HlMark mark = hl_arena_mark(scratch);
    put_lists(p->out, hl_groups_lists(scratch, groups));
    hl_arena_release(scratch, mark);
  } else if (groups->form == HL_GROUPS_IOTA) {
    put_iota_groups(p->out, groups);
  } else {
    put_mesh(p->out, groups->mesh);
    put_char(p->out, ' ');
    put_axes(p->out, groups->mesh, groups->axes, ",");
  }
}

void print_aliases(HlBuf *out, HlAliases aliases, bool of_module) {
  for (int k = 0; k < aliases.n; k++) {
    const HlAlias *alias = &aliases.at[k];
    if (k)
      PUT(out, ", ");
    put_braced(out, alias->output);
    PUT(out, ": (");
    put_i64(out, alias->number);
    PUT(out, ", ");
    put_braced(out, alias->index);
    if (of_module) {
      const char *kind = hl_enum_text(&hl_enums[HL_ENUM_alias_kind], alias->kind);
      PUT(out, ", ");
      put_text(out, kind ? kind : "may-alias");
    }
    put_char(out, ')');
  }
}

static void print_aliasing(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_char(p->out, '{');
  print_aliases(p->out, attr->aliases, false);
  put_char(p->out, '}');
}

static void print_one_shape(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_shape(p->out, attr->ptr, true);
}

static void print_shapes(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_char(p->out, '{');
  for (int k = 0; k < attr->shapes.n; k++) {
    if (k)
      PUT(p->out, ", ");
    put_shape(p->out, attr->shapes.at[k], true);
  }
  put_char(p->out, '}');
}

// "s32[2]{0} {1, 2}"; of a tuple each element has its shape.
static void put_shaped_literal(HlBuf *out, const HlLiteral *literal) {
  if (literal->element) {
    PUT(out, "( ");
    for (int k = 0; k < literal->shape->rank; k++) {
      if (k)
        PUT(out, ", ");
      put_shaped_literal(out, literal->element[k]);
    }
    PUT(out, " )");
    return;
  }
  put_shape(out, literal->shape, true);
  put_char(out, ' ');
  put_literal(out, literal);
}

static void print_literal(Print *p, const HlInst *inst, const HlAttr *attr) {
  put_shaped_literal(p->out, attr->ptr);
}

// --- Dictionaries and what looks like one --------------------------------------------------------

// The end of a quoted string that starts at s, or NULL.
static const char *string_end(const char *s, const char *end) {
  for (s++; s < end; s++) {
    if (*s == '\\')
      s++;
    else if (*s == '"')
      return s + 1;
  }
  return NULL;
}

static const char *skip_space(const char *s, const char *end) {
  while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
    s++;
  return s;
}

// Whether a text, but for white space, is one balanced {...}: then it reads back without quotes.
static bool looks_like_dict(const HlSym *text) {
  const char *end = text->text + text->n;
  const char *s = skip_space(text->text, end);
  if (s == end || *s != '{')
    return false;
  int64_t depth = 0;
  while (s < end) {
    if (*s == '"') {
      s = string_end(s, end);
      if (!s)
        return false;
      continue;
    }
    depth += *s == '{' ? 1 : *s == '}' ? -1 : 0;
    s++;
    if (depth == 0)
      return skip_space(s, end) == end;
  }
  return false;
}

static void put_dict_text(HlBuf *out, const HlSym *text) {
  if (text && looks_like_dict(text))
    put_sym(out, text);
  else
    put_quoted(out, text);
}

static void print_dict_text(Print *p, const HlInst *inst, const HlAttr *attr) {
  if (!p->how.sorted_configs ||
      !print_sorted_json(p->cx, (HlStr){attr->sym->text, attr->sym->n}, p->out))
    put_dict_text(p->out, attr->sym);
}

void print_dict(HlBuf *out, const HlDict *dict) {
  put_char(out, '{');
  for (int k = 0; k < dict->n; k++) {
    if (k)
      put_char(out, ',');
    put_sym(out, dict->key[k]);
    put_char(out, '=');
    put_dict_text(out, dict->value[k]);
  }
  put_char(out, '}');
}

static void print_dict_attr(Print *p, const HlInst *inst, const HlAttr *attr) {
  PrintMemo *slot;
  if (print_memo(p, attr->ptr, &slot))
    return;
  const size_t from = p->out->n;
  print_dict(p->out, attr->ptr);
  print_memo_end(p, slot, attr->ptr, from);
}

static void print_statistics(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlStatistics *s = attr->ptr;
  PUT(p->out, "{visualizing_index=");
  put_i64(p->out, s->visualizing_index);
  for (int k = 0; k < s->n; k++) {
    put_char(p->out, ',');
    put_sym(p->out, s->name[k]);
    put_char(p->out, '=');
    put_g(p->out, s->value[k], 6);
  }
  put_char(p->out, '}');
}

static void print_accuracy(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlAccuracy *a = attr->ptr;
  if (a->has_tolerance) {
    PUT(p->out, "{tolerance={atol=");
    put_g(p->out, a->atol, 6);
    PUT(p->out, ",rtol=");
    put_g(p->out, a->rtol, 6);
    PUT(p->out, ",ulps=");
    put_i64(p->out, a->ulps);
    PUT(p->out, "}}");
    return;
  }
  const char *mode = hl_enum_text(&hl_enums[HL_ENUM_accuracy_mode], a->mode);
  PUT(p->out, "{mode=");
  put_text(p->out, mode ? mode : "default");
  put_char(p->out, '}');
}

// --- Shardings, domains, origins, metadata -------------------------------------------------------

static int sharding_with(const Print *p) {
  const bool reduction = hl_writes(p->dialect, HL_NEWS_REDUCTION_OP);
  return p->how.metadata ? PUT_METADATA | (reduction ? PUT_REDUCTION : 0) : 0;
}

static void print_sharding(Print *p, const HlInst *inst, const HlAttr *attr) {
  PrintMemo *slot;
  if (print_memo(p, attr->ptr, &slot))
    return;
  const size_t from = p->out->n;
  put_sharding(p->out, attr->ptr, sharding_with(p));
  print_memo_end(p, slot, attr->ptr, from);
}

// A side of a domain on which nothing is placed is {}.
static void print_side(Print *p, const HlSharding *side) {
  if (side)
    put_sharding(p->out, side, sharding_with(p));
  else
    PUT(p->out, "{}");
}

static void print_domain(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlDomain *domain = attr->ptr;
  PUT(p->out, "{kind=");
  put_quoted(p->out, domain->kind);
  PUT(p->out, ", entry=");
  print_side(p, domain->entry);
  PUT(p->out, ", exit=");
  print_side(p, domain->exit);
  put_char(p->out, '}');
}

static void put_origin_leaf(HlBuf *out, const HlOrigin *leaf) {
  put_char(out, '"');
  if (leaf->name)
    put_sym(out, leaf->name);
  put_char(out, '"');
  if (leaf->index.n) {
    put_char(out, ' ');
    put_braced(out, leaf->index);
  }
}

static void put_origin_tree(HlBuf *out, const HlOrigin *origin) {
  if (origin->kind == HL_ORIGIN_TUPLE) {
    put_char(out, '(');
    for (int k = 0; k < origin->n; k++) {
      if (k)
        PUT(out, ", ");
      put_origin_tree(out, origin->element[k]);
    }
    put_char(out, ')');
    return;
  }
  put_char(out, '{');
  if (origin->kind == HL_ORIGIN_LEAF)
    put_origin_leaf(out, origin);
  put_char(out, '}');
}

void print_origin(HlBuf *out, const HlOrigin *origin) {
  if (origin && origin->kind == HL_ORIGIN_LEAF)
    put_origin_leaf(out, origin);
}

static void print_origin_attr(Print *p, const HlInst *inst, const HlAttr *attr) {
  const HlOrigin *origin = attr->ptr;
  const bool calls = hl_writes(p->dialect, HL_NEWS_CALL_HIERARCHY);
  put_char(p->out, '{');
  if (origin->kind != HL_ORIGIN_SYNTHETIC_CALL)
    put_origin_tree(p->out, origin);
  else
    put_text(p->out, calls ? "()" : "[synthetic_call]");
  if (origin->call && (calls || origin->kind != HL_ORIGIN_SYNTHETIC_CALL)) {
    PUT(p->out, ",[\"");
    put_sym(p->out, origin->call);
    PUT(p->out, "\"]");
  }
  put_char(p->out, '}');
}

static void print_metadata(Print *p, const HlInst *inst, const HlAttr *attr) {
  PrintMemo *slot;
  if (print_memo(p, attr->ptr, &slot))
    return;
  const size_t from = p->out->n;
  put_char(p->out, '{');
  put_metadata_fields(p->out, attr->ptr);
  put_char(p->out, '}');
  print_memo_end(p, slot, attr->ptr, from);
}

PrintAttrFn *const print_kind[HL_ATTR_KIND_COUNT] = {
    [HL_KIND_OF_INT] = print_int,           [HL_KIND_OF_BOOL] = print_bool,
    [HL_KIND_OF_TRISTATE] = print_tristate, [HL_KIND_OF_FLOAT] = print_float,
    [HL_KIND_OF_TEXT] = print_text,         [HL_KIND_OF_DICT_TEXT] = print_dict_text,
    [HL_KIND_OF_ENUM] = print_enum,         [HL_KIND_OF_INTS] = print_ints,
    [HL_KIND_OF_ONE_INT] = print_one_int,   [HL_KIND_OF_INT_LISTS] = print_int_lists,
    [HL_KIND_OF_SLICES] = print_slices,     [HL_KIND_OF_PADDING] = print_padding,
    [HL_KIND_OF_WINDOW] = print_window,     [HL_KIND_OF_DIM_LABELS] = print_dim_labels,
    [HL_KIND_OF_GROUPS] = print_groups,     [HL_KIND_OF_PAIRS] = print_pairs,
    [HL_KIND_OF_SHAPE] = print_one_shape,   [HL_KIND_OF_SHAPES] = print_shapes,
    [HL_KIND_OF_LITERAL] = print_literal,   [HL_KIND_OF_PRECISION] = print_precision,
    [HL_KIND_OF_ALIASING] = print_aliasing, [HL_KIND_OF_DOMAIN] = print_domain,
    [HL_KIND_OF_SPARSITY] = print_sparsity, [HL_KIND_OF_SCALES] = print_scales,
    [HL_KIND_OF_ACCURACY] = print_accuracy, [HL_KIND_OF_SHARDING] = print_sharding,
    [HL_KIND_OF_DICT] = print_dict_attr,    [HL_KIND_OF_STATISTICS] = print_statistics,
    [HL_KIND_OF_BOOLS] = print_bools,       [HL_KIND_OF_ORIGIN] = print_origin_attr,
    [HL_KIND_OF_METADATA] = print_metadata,
};
