// tool/diff/what.c: how two instructions differ by themselves, in bits and in words.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hilo/text.h"
#include "ir/same.h"
#include "tool/diff/diff.h"

// --- Words ----------------------------------------------------------------------------------------

static const char *const verdicts[HL_DIFF_VERDICTS] = {"same",   "changed", "moved",   "fused",
                                                       "folded", "inlined", "removed", "added"};
static const char *const whats[HL_DIFF_WHATS] = {
    "op",     "shape",    "layout",  "operands", "attributes", "constants", "sharding", "metadata",
    "config", "frontend", "control", "channels", "order",      "names",     "header"};
static const char *const bys[HL_BY_COUNT] = {"",           "structure", "place",
                                             "neighbours", "metadata",  "users"};

const char *hl_verdict_text(HlVerdict verdict) {
  return verdicts[verdict];
}

const char *hl_diff_by_text(HlDiffBy by) {
  return bys[by];
}

const char *hl_diff_what_text(HlDiffWhat what) {
  for (int k = 0; k < HL_DIFF_WHATS; k++)
    if ((int)what == 1 << k)
      return whats[k];
  return "";
}

static uint32_t bit_of(HlStr word) {
  static const struct {
    const char *word;
    uint32_t bit;
  } others[] = {{"layouts", HL_DIFF_LAYOUT},        {"literals", HL_DIFF_CONSTANTS},
                {"literal", HL_DIFF_CONSTANTS},     {"constant", HL_DIFF_CONSTANTS},
                {"shapes", HL_DIFF_SHAPE},          {"operand", HL_DIFF_OPERANDS},
                {"attribute", HL_DIFF_ATTRIBUTES},  {"shardings", HL_DIFF_SHARDING},
                {"backend_config", HL_DIFF_CONFIG}, {"frontend_attributes", HL_DIFF_FRONTEND},
                {"channel_ids", HL_DIFF_CHANNELS},  {"name", HL_DIFF_NAMES},
                {"schedule", HL_DIFF_ORDER}};
  for (int k = 0; k < HL_DIFF_WHATS; k++)
    if (hl_str_is(word, whats[k]))
      return 1u << k;
  for (int k = 0; k < HL_COUNT_OF(others); k++)
    if (hl_str_is(word, others[k].word))
      return others[k].bit;
  return 0;
}

bool hl_diff_what_by_text(HlCx *cx, HlStr words, uint32_t *out) {
  *out = 0;
  for (size_t at = 0; at <= words.n;) {
    const char *comma = memchr(words.at + at, ',', words.n - at);
    const size_t end = comma ? (size_t)(comma - words.at) : words.n;
    const HlStr word = {words.at + at, end - at};
    const uint32_t bit = bit_of(word);
    if (!bit) {
      hl_error(cx, (HlPos){0}, "nothing called '%.*s' can be ignored", (int)word.n, word.at);
      const char *near = hl_nearest(word, whats, HL_DIFF_WHATS);
      if (near)
        hl_hint(cx, "did you mean '%s'?", near);
      return false;
    }
    *out |= bit;
    at = end + 1;
  }
  return true;
}

// --- Attributes -----------------------------------------------------------------------------------

// What is compared apart does not count here: what controls come first, and what is called.
bool diff_attr_counts(const HlInst *inst, const HlAttr *attr) {
  const HlAttrKind kind = hl_attr_info[attr->key].kind;
  return attr->key != HL_A_CONTROL_PREDECESSORS && kind != HL_KIND_OF_COMP &&
         kind != HL_KIND_OF_COMPS && ir_attr_counts(inst, attr);
}

static uint32_t what_of(HlAttrKey key) {
  switch (key) {
  case HL_A_VALUE: return HL_DIFF_CONSTANTS;
  case HL_A_SHARDING: return HL_DIFF_SHARDING;
  case HL_A_FRONTEND_ATTRIBUTES: return HL_DIFF_FRONTEND;
  case HL_A_BACKEND_CONFIG: return HL_DIFF_CONFIG;
  case HL_A_CHANNEL_ID: return HL_DIFF_CHANNELS;
  default: return HL_DIFF_ATTRIBUTES;
  }
}

// The attributes that differ, each bit once in `keys`.
static uint32_t attrs_differ(const HlInst *a, const HlInst *b, bool *keys) {
  uint32_t what = 0;
  int i = 0, j = 0;
  while (i < a->n_attrs || j < b->n_attrs) {
    const HlAttr *x = i < a->n_attrs ? &a->attrs[i] : NULL,
                 *y = j < b->n_attrs ? &b->attrs[j] : NULL;
    if (x && !diff_attr_counts(a, x)) {
      i++;
      continue;
    }
    if (y && !diff_attr_counts(b, y)) {
      j++;
      continue;
    }
    const HlAttrKey key = !y || (x && x->key <= y->key) ? x->key : y->key;
    const bool in_a = x && x->key == key, in_b = y && y->key == key;
    // Where parameters came or went the others moved up; the header tells.
    const bool moved_up = key == HL_A_PARAMETER_NUMBER && a->comp == a->comp->module->entry &&
                          b->comp == b->comp->module->entry;
    if (!moved_up && (!in_a || !in_b || !hl_attr_equal(x, y))) {
      what |= what_of(key);
      keys[key] = true;
    }
    i += in_a;
    j += in_b;
  }
  return what;
}

// --- Metadata -------------------------------------------------------------------------------------

static HlStr text_of(const HlSym *sym) {
  return sym ? (HlStr){sym->text, sym->n} : (HlStr){"", 0};
}

typedef struct Place {
  HlStr file;
  int64_t line;
} Place;

// The line that an instruction came from: written there, or by way of the tables of frames.
static Place source_of(const HlModule *m, const HlMetadata *meta) {
  const HlFrames *f = &m->frames;
  const int32_t frame = meta->stack_frame_id;
  if (frame <= 0 || frame > f->n_frames)
    return (Place){text_of(meta->source_file), meta->source_line};
  const int32_t location = f->frames[frame - 1].file_location_id;
  if (location <= 0 || location > f->n_locations)
    return (Place){{"", 0}, 0};
  const HlFileLocation *at = &f->locations[location - 1];
  const bool named = at->file_name_id > 0 && at->file_name_id <= f->n_file_names;
  return (Place){text_of(named ? f->file_names[at->file_name_id - 1] : NULL), at->line};
}

static void put_metadata(HlBuf *out, const HlModule *m, const HlMetadata *meta) {
  if (!meta) {
    hl_buf_puts(out, "none");
    return;
  }
  const Place at = source_of(m, meta);
  hl_buf_printf(out, "\"%s\"", text_of(meta->op_name).at);
  if (at.line)
    hl_buf_printf(out, " %.*s:%" PRId64, (int)at.file.n, at.file.at, at.line);
}

static HlStr name_of(const HlSym *const *names, int n, int32_t id) {
  return text_of(id > 0 && id <= n ? names[id - 1] : NULL);
}

static bool location_equal(const HlFrames *f, int32_t x, const HlFrames *g, int32_t y) {
  static const HlFileLocation nowhere = {0};
  const HlFileLocation *a = x > 0 && x <= f->n_locations ? &f->locations[x - 1] : &nowhere;
  const HlFileLocation *b = y > 0 && y <= g->n_locations ? &g->locations[y - 1] : &nowhere;
  return a->line == b->line && a->column == b->column && a->end_line == b->end_line &&
         a->end_column == b->end_column &&
         hl_str_equal(name_of(f->file_names, f->n_file_names, a->file_name_id),
                      name_of(g->file_names, g->n_file_names, b->file_name_id)) &&
         hl_str_equal(name_of(f->function_names, f->n_function_names, a->function_name_id),
                      name_of(g->function_names, g->n_function_names, b->function_name_id));
}

// Frame by frame, as far as tables go that nobody has checked.
static bool stack_equal(const HlFrames *f, int32_t x, const HlFrames *g, int32_t y) {
  for (int k = 0; k <= f->n_frames && x > 0 && x <= f->n_frames && y > 0 && y <= g->n_frames; k++) {
    if (!location_equal(f, f->frames[x - 1].file_location_id, g, g->frames[y - 1].file_location_id))
      return false;
    x = f->frames[x - 1].parent_frame_id;
    y = g->frames[y - 1].parent_frame_id;
  }
  return (x > 0 && x <= f->n_frames) == (y > 0 && y <= g->n_frames);
}

// Where one has its stack in tables and the other its line written out, the line counts.
static bool place_equal(const HlInst *a, const HlMetadata *x, const HlInst *b,
                        const HlMetadata *y) {
  const HlModule *m = a->comp->module, *n = b->comp->module;
  const Place from = source_of(m, x), to = source_of(n, y);
  if (!hl_str_equal(from.file, to.file) || from.line != to.line)
    return false;
  if (x->stack_frame_id > 0 && y->stack_frame_id > 0)
    return stack_equal(&m->frames, x->stack_frame_id, &n->frames, y->stack_frame_id);
  return x->stack_frame_id > 0 || y->stack_frame_id > 0 ||
         (x->source_end_line == y->source_end_line && x->source_column == y->source_column &&
          x->source_end_column == y->source_end_column);
}

static bool said_equal(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *x = hl_attr(a, key), *y = hl_attr(b, key);
  return x && y ? hl_attr_equal(x, y) : x == y;
}

static bool metadata_equal(const HlInst *a, const HlInst *b) {
  const HlMetadata *x = hl_metadata(a), *y = hl_metadata(b);
  if (!said_equal(a, b, HL_A_ORIGIN) || !said_equal(a, b, HL_A_STATISTICS))
    return false;
  if (!x || !y)
    return !x && !y;
  return hl_str_equal(text_of(x->op_name), text_of(y->op_name)) &&
         hl_str_equal(text_of(x->op_type), text_of(y->op_type)) &&
         hl_str_equal(text_of(x->deduplicated_name), text_of(y->deduplicated_name)) &&
         hl_str_equal(text_of(x->scheduling_name), text_of(y->scheduling_name)) &&
         hl_str_equal(text_of(x->payload), text_of(y->payload)) && place_equal(a, x, b, y);
}

// --- In words -------------------------------------------------------------------------------------

static void begin(HlBuf *out, const char *what) {
  hl_buf_printf(out, "%s%s ", out->n > 0 ? "; " : "", what);
}

// The text of an attribute in that of its instruction: up to the comma that ends it.
static HlStr attr_text(HlStr line, const char *name) {
  char mark[128];
  const int n = snprintf(mark, sizeof mark, ", %s=", name);
  const char *at = n < (int)sizeof mark ? memmem(line.at, line.n, mark, (size_t)n) : NULL;
  if (!at)
    return (HlStr){"none", 4};
  at += n;
  size_t k = 0;
  int depth = 0;
  for (bool quoted = false; at + k < line.at + line.n; k++) {
    const char c = at[k];
    if (c == '"' && (k == 0 || at[k - 1] != '\\'))
      quoted = !quoted;
    depth += quoted                             ? 0
             : c == '{' || c == '(' || c == '[' ? 1
             : c == '}' || c == ')' || c == ']' ? -1
                                                : 0;
    if (depth < 0 || (depth == 0 && !quoted && c == ','))
      break;
  }
  return (HlStr){at, k};
}

static void put_short(HlBuf *out, HlStr text) {
  enum { MOST = 120 };
  hl_buf_add(out, text.at, text.n < MOST ? text.n : MOST);
  if (text.n >= MOST)
    hl_buf_puts(out, "...");
}

static void put_attrs(HlBuf *out, const HlInst *a, const HlInst *b, const bool *keys) {
  static const HlTextOptions how = {
      .percent = HL_OFF, .metadata = HL_OFF, .index_comments = HL_OFF};
  HlBuf x = {0}, y = {0};
  HlCx *cx = hl_cx_new();
  hl_text_print_inst(cx, a, &how, &x);
  hl_text_print_inst(cx, b, &how, &y);
  for (int key = 0; key < HL_ATTR_COUNT; key++) {
    if (!keys[key] || key == HL_A_VALUE || key == HL_A_PARAMETER_NUMBER)
      continue;
    begin(out, hl_attr_info[key].text);
    put_short(out, attr_text((HlStr){x.at, x.n}, hl_attr_info[key].text));
    hl_buf_puts(out, " -> ");
    put_short(out, attr_text((HlStr){y.at, y.n}, hl_attr_info[key].text));
  }
  hl_cx_free(cx);
  hl_buf_free(&x);
  hl_buf_free(&y);
}

static bool is_small(const HlInst *inst) {
  enum { FEW = 10 };
  const HlLiteral *literal = inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  return literal && hl_shape_is_array(literal->shape) && !hl_literal_is_elided(literal) &&
         literal->n <= FEW;
}

// Elements that differ, where both have as many.
static void put_constants(HlBuf *out, const HlInst *a, const HlInst *b) {
  if (a->op != HL_OP_CONSTANT || b->op != HL_OP_CONSTANT)
    return;
  begin(out, "constant");
  const HlLiteral *x = hl_constant(a), *y = hl_constant(b);
  if (is_small(a) && is_small(b)) {
    hl_literal_print(out, x);
    hl_buf_puts(out, " -> ");
    hl_literal_print(out, y);
  } else if (x && y && x->data && y->data && x->n == y->n && x->shape->dtype == y->shape->dtype) {
    const size_t size = (size_t)hl_dtype_bytes(x->shape->dtype);
    int64_t n = 0, first = 0;
    for (int64_t k = x->n - 1; k >= 0; k--)
      if (memcmp((const char *)x->data + (size_t)k * size, (const char *)y->data + (size_t)k * size,
                 size) != 0) {
        n++;
        first = k;
      }
    hl_buf_printf(out, "%" PRId64 " of %" PRId64 " elements, first ", n, x->n);
    hl_shape_print_index(out, x->shape, first);
    hl_buf_puts(out, ": ");
    hl_literal_print_element(out, x, first);
    hl_buf_puts(out, " -> ");
    hl_literal_print_element(out, y, first);
  } else {
    hl_buf_puts(out, "of another size or not known");
  }
}

static void put_shapes(HlBuf *out, const HlInst *a, const HlInst *b, uint32_t what) {
  const bool layout = !(what & HL_DIFF_SHAPE);
  begin(out, layout ? "layout" : "shape");
  HlBuf x = {0}, y = {0};
  hl_shape_print(&x, a->shape, layout);
  hl_shape_print(&y, b->shape, layout);
  put_short(out, (HlStr){x.at, x.n});
  hl_buf_puts(out, " -> ");
  put_short(out, (HlStr){y.at, y.n});
  hl_buf_free(&x);
  hl_buf_free(&y);
}

// What differs may be none of what is shown of metadata: then that is said.
static void put_metadata_of_both(HlBuf *detail, const HlInst *a, const HlInst *b) {
  HlBuf x = {0}, y = {0};
  put_metadata(&x, a->comp->module, hl_metadata(a));
  put_metadata(&y, b->comp->module, hl_metadata(b));
  begin(detail, "metadata");
  hl_buf_puts(detail, x.at);
  if (strcmp(x.at, y.at) == 0)
    hl_buf_puts(detail, ": another stack, column, origin or note");
  else
    hl_buf_printf(detail, " -> %s", y.at);
  hl_buf_free(&x);
  hl_buf_free(&y);
}

static int n_preds(const HlInst *inst) {
  return inst->control ? inst->control->n_preds : 0;
}

uint32_t diff_what(const HlInst *a, const HlInst *b, uint32_t ignore, HlBuf *detail) {
  bool keys[HL_ATTR_COUNT] = {false};
  uint32_t what = a->op != b->op ? HL_DIFF_OP : 0;
  if (!diff_bare_shape_equal(a->shape, b->shape))
    what |= HL_DIFF_SHAPE;
  else if (!hl_shape_equal(a->shape, b->shape))
    what |= HL_DIFF_LAYOUT;
  what |= attrs_differ(a, b, keys);
  if (!metadata_equal(a, b))
    what |= HL_DIFF_METADATA;
  if (n_preds(a) != n_preds(b))
    what |= HL_DIFF_CONTROL;
  what &= ~ignore;
  for (int key = 0; key < HL_ATTR_COUNT; key++)
    keys[key] = keys[key] && !(what_of((HlAttrKey)key) & ignore);
  if (!detail || !what)
    return what;
  if (what & HL_DIFF_OP) {
    begin(detail, "op");
    hl_buf_printf(detail, "%s -> %s", hl_op_text((HlOp)a->op), hl_op_text((HlOp)b->op));
  }
  if (what & (HL_DIFF_SHAPE | HL_DIFF_LAYOUT))
    put_shapes(detail, a, b, what);
  if (what & HL_DIFF_CONSTANTS)
    put_constants(detail, a, b);
  if (what & (HL_DIFF_ATTRIBUTES | HL_DIFF_SHARDING | HL_DIFF_FRONTEND | HL_DIFF_CONFIG |
              HL_DIFF_CHANNELS))
    put_attrs(detail, a, b, keys);
  if (what & HL_DIFF_METADATA) {
    put_metadata_of_both(detail, a, b);
  }
  if (what & HL_DIFF_CONTROL) {
    begin(detail, "control predecessors");
    hl_buf_printf(detail, "%d -> %d", n_preds(a), n_preds(b));
  }
  return what;
}
