// tool/diff/diff.c: the comparison of two modules as a whole.

#include <inttypes.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/memory.h"
#include "hilo/text.h"
#include "tool/diff/diff.h"

// --- Stages or versions ---------------------------------------------------------------------------

static bool has_fusions(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (comp->is_fusion)
      return true;
  return false;
}

// An optimised module beside one that is not.
static bool are_stages(const HlModule *a, const HlModule *b) {
  return (b->is_scheduled && !a->is_scheduled) || (has_fusions(b) && !has_fusions(a));
}

// --- Headers --------------------------------------------------------------------------------------

typedef VEC(const char *) Lines;

static void add_line(HlDiff *diff, Lines *lines, const char *what, const char *from,
                     const char *to) {
  enum { MOST = 100 };
  if (strcmp(from, to) == 0)
    return;
  size_t same = 0;
  while (from[same] && from[same] == to[same])
    same++;
  const size_t skip = same > MOST / 2 ? same - MOST / 4 : 0;
  const char *cut = skip ? "..." : "";
  from += skip;
  to += skip;
  vec_push_in(diff->arena, lines,
              hl_arena_printf(diff->arena, "%s %s%.*s%s -> %s%.*s%s", what, cut, MOST, from,
                              strlen(from) > MOST ? "..." : "", cut, MOST, to,
                              strlen(to) > MOST ? "..." : ""));
}

static void add_number(HlDiff *diff, Lines *lines, const char *what, int64_t from, int64_t to) {
  if (from != to)
    vec_push_in(diff->arena, lines,
                hl_arena_printf(diff->arena, "%s %" PRId64 " -> %" PRId64, what, from, to));
}

static const char *shape_text(HlDiff *diff, const HlShape *shape, bool layout) {
  HlBuf buf = {0};
  if (shape)
    hl_shape_print(&buf, shape, layout);
  const char *text = hl_arena_printf(diff->arena, "%s", buf.at ? buf.at : "none");
  hl_buf_free(&buf);
  return text;
}

static const char *dict_text(HlDiff *diff, HlDict dict) {
  const char *text = "";
  for (int k = 0; k < dict.n; k++)
    text = hl_arena_printf(diff->arena, "%s%s%s=%s", text, k ? "," : "", dict.key[k]->text,
                           dict.value[k]->text);
  return hl_arena_printf(diff->arena, "{%s}", text);
}

static const char *index_text(HlDiff *diff, HlI64s index) {
  const char *text = "";
  for (int k = 0; k < index.n; k++)
    text = hl_arena_printf(diff->arena, "%s%s%" PRId64, text, k ? "," : "", index.at[k]);
  return hl_arena_printf(diff->arena, "{%s}", text);
}

static const char *aliases_text(HlDiff *diff, HlAliases aliases) {
  const char *text = "";
  for (int k = 0; k < aliases.n; k++)
    text = hl_arena_printf(diff->arena, "%s%s%s:(%" PRId64 ",%s,%d)", text, k ? "," : "",
                           index_text(diff, aliases.at[k].output), aliases.at[k].number,
                           index_text(diff, aliases.at[k].index), aliases.at[k].kind);
  return hl_arena_printf(diff->arena, "{%s}", text);
}

static const char *donors_text(HlDiff *diff, const HlModule *m) {
  const char *text = "";
  for (int k = 0; k < m->n_buffer_donor; k++)
    text = hl_arena_printf(diff->arena, "%s%s(%" PRId64 ",%s)", text, k ? "," : "",
                           m->buffer_donor[k].number, index_text(diff, m->buffer_donor[k].index));
  return hl_arena_printf(diff->arena, "{%s}", text);
}

static void compare_interface(HlDiff *diff, Lines *lines) {
  const HlModule *a = diff->a, *b = diff->b;
  const bool layout = !(diff->options.ignore & HL_DIFF_LAYOUT);
  add_number(diff, lines, "parameters", a->n_entry_params, b->n_entry_params);
  for (int k = 0; k < a->n_entry_params && k < b->n_entry_params; k++)
    add_line(diff, lines, hl_arena_printf(diff->arena, "layout of parameter %d", k),
             shape_text(diff, a->entry_params[k], layout),
             shape_text(diff, b->entry_params[k], layout));
  add_line(diff, lines, "layout of the result", shape_text(diff, a->entry_result, layout),
           shape_text(diff, b->entry_result, layout));
}

static void compare_headers(HlDiff *diff) {
  const HlModule *a = diff->a, *b = diff->b;
  Lines lines = {0};
  compare_interface(diff, &lines);
  add_number(diff, &lines, "replica_count", a->replica_count, b->replica_count);
  add_number(diff, &lines, "num_partitions", a->num_partitions, b->num_partitions);
  add_line(diff, &lines, "input_output_alias", aliases_text(diff, a->input_output_alias),
           aliases_text(diff, b->input_output_alias));
  add_line(diff, &lines, "buffer_donor", donors_text(diff, a), donors_text(diff, b));
  if (!(diff->options.ignore & HL_DIFF_FRONTEND))
    add_line(diff, &lines, "frontend_attributes", dict_text(diff, a->frontend_attributes),
             dict_text(diff, b->frontend_attributes));
  if (!diff->stages && !(diff->options.ignore & HL_DIFF_ORDER))
    add_number(diff, &lines, "is_scheduled", a->is_scheduled, b->is_scheduled);
  if (!diff->stages && !(diff->options.ignore & HL_DIFF_SHARDING)) {
    add_line(diff, &lines, "allow_spmd_sharding_propagation_to_parameters",
             index_text(diff, a->spmd_to_parameters), index_text(diff, b->spmd_to_parameters));
    add_line(diff, &lines, "allow_spmd_sharding_propagation_to_output",
             index_text(diff, a->spmd_to_output), index_text(diff, b->spmd_to_output));
  }
  diff->header = lines.at;
  diff->n_header = lines.n;
}

// --- Fingerprints ---------------------------------------------------------------------------------

// The line around a place, from a little before it on where it is long.
static const char *line_at(HlArena *arena, HlStr text, size_t at) {
  enum { BEFORE = 40, MOST = 120 };
  size_t from = at, end = at;
  while (from > 0 && text.at[from - 1] != '\n')
    from--;
  while (end < text.n && text.at[end] != '\n')
    end++;
  while (from < end && text.at[from] == ' ')
    from++;
  const bool cut = at - from > MOST - BEFORE && end - from > MOST;
  from = cut ? at - BEFORE : from;
  const bool more = end - from > MOST;
  return hl_arena_printf(arena, "%s%.*s%s", cut ? "..." : "", more ? MOST : (int)(end - from),
                         text.at + from, more ? "..." : "");
}

// XLA's module fingerprint text; false where the bodies of computations inside those that call them would make it too long.
static bool fingerprint_text(HlCx *cx, const HlModule *m, HlBuf *out) {
  static const HlTextOptions how = {.preset = HL_TEXT_MODULE_FINGERPRINT};
  HlCx *own = hl_cx_new();
  *hl_cx_limits(own) = *hl_cx_limits(cx);
  hl_cx_limits(own)->instructions = 8 * hl_count_instructions(m) + (1 << 17);
  hl_text_print(own, m, &how, out);
  const bool ok = hl_cx_n_errors(own) == 0;
  hl_cx_free(own);
  return ok;
}

static void compare_fingerprints(HlCx *cx, HlDiff *diff) {
  HlBuf a = {0}, b = {0};
  diff->fingerprint_why = "";
  if (fingerprint_text(cx, diff->a, &a) && fingerprint_text(cx, diff->b, &b)) {
    const HlStr x = {a.at, a.n}, y = {b.at, b.n};
    size_t k = 0;
    while (k < x.n && k < y.n && x.at[k] == y.at[k])
      k++;
    if (k < x.n || k < y.n)
      diff->fingerprint_why = hl_arena_printf(diff->arena, "%s -> %s", line_at(diff->arena, x, k),
                                              line_at(diff->arena, y, k));
    diff->fingerprint_a = base_fingerprint64(x);
    diff->fingerprint_b = base_fingerprint64(y);
  }
  hl_buf_free(&a);
  hl_buf_free(&b);
}

// --- All of it ------------------------------------------------------------------------------------

static bool is_equal(const HlDiff *diff) {
  if (!(diff->options.ignore & HL_DIFF_HEADER) && diff->n_header > 0)
    return false;
  for (int k = 0; k < HL_DIFF_VERDICTS; k++)
    if (k != HL_DIFF_SAME && diff->count[k] > 0)
      return false;
  return true;
}

static bool is_elided(const HlInst *inst) {
  const HlLiteral *value = inst && inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  return value && hl_literal_is_elided(value);
}

static int64_t count_elided(const HlDiff *diff) {
  int64_t n = 0;
  for (int k = 0; k < diff->n_rows; k++) {
    const HlDiffRow *row = &diff->row[k];
    n += row->a && row->b && (is_elided(row->a) || is_elided(row->b)) &&
         !(row->what & HL_DIFF_CONSTANTS);
  }
  return n;
}

static bool compare(HlCx *cx, HlDiff *diff) {
  HlArena *arena = hl_arena_new();
  DiffMatch match = {
      .cx = cx, .arena = diff->arena, .ignore = diff->options.ignore, .stages = diff->stages};
  const bool ok =
      diff_side(cx, arena, diff->a, &match.a) && diff_side(cx, arena, diff->b, &match.b);
  if (ok) {
    diff_match(&match);
    compare_headers(diff);
    diff_rows(&match, diff);
    compare_fingerprints(cx, diff);
    diff->equal = is_equal(diff);
    diff->n_elided = diff->options.ignore & HL_DIFF_CONSTANTS ? 0 : count_elided(diff);
    diff->same_program = hl_graph_equal(cx, diff->a, diff->b);
  }
  hl_arena_free(arena);
  return ok;
}

HlDiff *hl_diff(HlCx *cx, const HlModule *a, const HlModule *b, const HlDiffOptions *options) {
  HlArena *arena = hl_arena_new();
  HlDiff *diff = HL_NEW(arena, HlDiff);
  *diff = (HlDiff){.arena = arena, .a = a, .b = b};
  if (options)
    diff->options = *options;
  diff->stages =
      diff->options.mode == HL_DIFF_TELL ? are_stages(a, b) : diff->options.mode == HL_DIFF_STAGES;
  diff->n_a = hl_count_instructions(a);
  diff->n_b = hl_count_instructions(b);
  if (compare(cx, diff))
    return diff;
  hl_arena_free(arena);
  return NULL;
}

void hl_diff_free(HlDiff *diff) {
  if (diff)
    hl_arena_free(diff->arena);
}

const char *hl_diff_headline(const HlDiff *diff) {
  const bool names = diff->module_renamed || diff->comps_renamed || diff->insts_renamed;
  if (diff->equal) {
    if (names && !(diff->options.ignore & HL_DIFF_NAMES))
      return diff->insts_reordered > 0 ? "renaming and reordering only" : "renaming only";
    return diff->insts_reordered > 0 && !(diff->options.ignore & HL_DIFF_ORDER) ? "reordering only"
                                                                                : "equal";
  }
  if (diff->n_header == 0 && diff->count[HL_DIFF_CHANGED] == diff->what[7] &&
      diff->n_rows == diff->count[HL_DIFF_SAME] + diff->count[HL_DIFF_CHANGED]) {
    bool only = true;
    for (int k = 0; k < diff->n_rows && only; k++)
      only = (diff->row[k].what & ~(uint32_t)HL_DIFF_METADATA) == 0;
    if (only)
      return "metadata only";
  }
  return diff->stages ? "another stage" : "different";
}
