// tool/diff/text.c: what differs, for people.

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "tool/diff/diff.h"

typedef struct Writer {
  const HlDiff *diff;
  HlDiffShow show;
  HlBuf *out;
} Writer;

static const char *const colours[HL_DIFF_VERDICTS] = {[HL_DIFF_SAME] = "",
                                                      [HL_DIFF_CHANGED] = "\033[33m",
                                                      [HL_DIFF_MOVED] = "\033[36m",
                                                      [HL_DIFF_FUSED] = "\033[34m",
                                                      [HL_DIFF_FOLDED] = "\033[35m",
                                                      [HL_DIFF_INLINED] = "\033[36m",
                                                      [HL_DIFF_REMOVED] = "\033[31m",
                                                      [HL_DIFF_ADDED] = "\033[32m"};
static const char signs[HL_DIFF_VERDICTS] = {'=', '~', '>', 'f', 'c', 'i', '-', '+'};

static void colour(Writer *w, HlVerdict verdict) {
  if (w->show.color)
    hl_buf_puts(w->out, colours[verdict]);
}

static void plain(Writer *w) {
  if (w->show.color)
    hl_buf_puts(w->out, "\033[0m");
}

// --- The head -------------------------------------------------------------------------------------

static const char *plural(int64_t n) {
  return n == 1 ? "" : "s";
}

static void put_head(Writer *w) {
  const HlDiff *d = w->diff;
  hl_buf_printf(w->out, "%s -> %s: %s%s\n", w->show.name_a, w->show.name_b, hl_diff_headline(d),
                d->stages && !d->equal ? " of the program" : "");
  hl_buf_printf(w->out, "  module %s, %" PRId64 " instruction%s", d->a->name->text, d->n_a,
                plural(d->n_a));
  hl_buf_printf(w->out, " -> %s, %" PRId64 "\n", d->module_renamed ? d->b->name->text : "the same",
                d->n_b);
  if (!d->equal) {
    const char *between = "  ";
    for (int k = 0; k < HL_DIFF_VERDICTS; k++) {
      if (!d->count[k])
        continue;
      hl_buf_puts(w->out, between);
      colour(w, (HlVerdict)k);
      hl_buf_printf(w->out, "%" PRId64 " %s", d->count[k], hl_verdict_text((HlVerdict)k));
      plain(w);
      between = ", ";
    }
    hl_buf_putc(w->out, '\n');
  }
  for (int k = 0; k < d->n_header; k++)
    hl_buf_printf(w->out, "  header: %s\n", d->header[k]);
  if (d->n_elided)
    hl_buf_printf(w->out, "  %" PRId64 " constant%s elided, {...}: whether %s equal is NOT KNOWN\n",
                  d->n_elided, d->n_elided == 1 ? " is" : "s are",
                  d->n_elided == 1 ? "its values are" : "their values are");
}

static void put_names(Writer *w) {
  const HlDiff *d = w->diff;
  const bool names = d->module_renamed || d->comps_renamed || d->insts_renamed;
  if (!names || (d->options.ignore & HL_DIFF_NAMES) || d->stages)
    return;
  hl_buf_puts(w->out, "  names that differ: ");
  const char *between = "";
  if (d->module_renamed) {
    hl_buf_printf(w->out, "the module's");
    between = ", ";
  }
  if (d->comps_renamed) {
    hl_buf_printf(w->out, "%s%" PRId64 " computation%s", between, d->comps_renamed,
                  plural(d->comps_renamed));
    between = ", ";
  }
  if (d->insts_renamed)
    hl_buf_printf(w->out, "%s%" PRId64 " instruction%s", between, d->insts_renamed,
                  plural(d->insts_renamed));
  hl_buf_putc(w->out, '\n');
}

static void put_fingerprint(Writer *w) {
  const HlDiff *d = w->diff;
  const bool names =
      d->module_renamed || d->comps_renamed || d->insts_renamed || d->insts_reordered;
  if (d->stages || (!d->fingerprint_a && !d->fingerprint_b) ||
      (d->equal && (!names || (d->options.ignore & HL_DIFF_NAMES))))
    return;
  if (d->fingerprint_a == d->fingerprint_b)
    hl_buf_printf(w->out, "  module fingerprint %016" PRIx64 " of both: %s\n", d->fingerprint_a,
                  d->equal ? "a cache keyed by it hits, one keyed by text or proto misses"
                           : "it does not tell them apart");
  else
    hl_buf_printf(w->out, "  module fingerprint %016" PRIx64 " -> %016" PRIx64 ", first:\n    %s\n",
                  d->fingerprint_a, d->fingerprint_b, d->fingerprint_why);
}

// --- Rows -----------------------------------------------------------------------------------------

static void put_row(Writer *w, const HlDiffRow *row) {
  const HlInst *inst = row->a ? row->a : row->b;
  hl_buf_puts(w->out, "    ");
  colour(w, row->verdict);
  hl_buf_printf(w->out, "%c %s", signs[row->verdict], inst->name->text);
  if (row->a && row->b &&
      (row->a->name->n != row->b->name->n || strcmp(row->a->name->text, row->b->name->text) != 0))
    hl_buf_printf(w->out, " -> %s", row->b->name->text);
  plain(w);
  hl_buf_printf(w->out, " = ");
  HlBuf shape = {0};
  hl_shape_print(&shape, inst->shape, false);
  hl_buf_printf(w->out, shape.n > 60 ? "%.57s..." : "%s", shape.at);
  hl_buf_free(&shape);
  hl_buf_printf(w->out, " %s", hl_op_text((HlOp)inst->op));
  if (row->into && row->verdict == HL_DIFF_FUSED)
    hl_buf_printf(w->out, " into %s", row->into->name->text);
  else if (row->into)
    hl_buf_printf(w->out, ", now in %s", row->into->name->text);
  if (row->times > 1)
    hl_buf_printf(w->out, " in %d calls", row->times);
  if (*row->detail)
    hl_buf_printf(w->out, ": %s", row->detail);
  hl_buf_putc(w->out, '\n');
}

// "3 multiply, add, 2 tanh": the ops of a group's rows, in their order.
static void put_ops(Writer *w, const HlDiffGroup *group) {
  enum { MOST = 6 };
  int count[HL_OP_COUNT] = {0}, order[HL_OP_COUNT], n = 0;
  for (int k = 0; k < group->n; k++) {
    const HlDiffRow *row = &w->diff->row[group->row[k]];
    const int op = (row->a ? row->a : row->b)->op;
    if (count[op]++ == 0)
      order[n++] = op;
  }
  for (int k = 0; k < n && k < MOST; k++) {
    hl_buf_puts(w->out, k ? ", " : "");
    if (count[order[k]] > 1)
      hl_buf_printf(w->out, "%d ", count[order[k]]);
    hl_buf_puts(w->out, hl_op_text((HlOp)order[k]));
  }
  if (n > MOST)
    hl_buf_printf(w->out, " and %d more kinds", n - MOST);
}

static const char *scope_of(const HlInst *inst) {
  const HlMetadata *meta = hl_metadata(inst);
  return meta && meta->op_name && meta->op_name->n ? meta->op_name->text : "";
}

// Where else the same happened.
static void put_places(Writer *w, const HlDiffGroup *group) {
  enum { MOST = 4 };
  hl_buf_printf(w->out, "  the same in %d places: ", group->times);
  for (int k = 0; k < group->times && k < MOST; k++) {
    const HlDiffRow *row = &w->diff->row[group->first[k]];
    hl_buf_printf(w->out, "%s%s", k ? ", " : "", (row->a ? row->a : row->b)->name->text);
  }
  hl_buf_puts(w->out, group->times > MOST ? ", ...\n" : "\n");
}

static void put_group(Writer *w, const HlDiffGroup *group) {
  const int lines = w->show.all ? group->n : w->show.lines ? w->show.lines : 12;
  const HlDiffRow *first = &w->diff->row[group->row[0]];
  hl_buf_putc(w->out, '\n');
  if (group->times > 1 || group->n > 1) {
    hl_buf_printf(w->out, "  %d instruction%s: ", group->n, plural(group->n));
    put_ops(w, group);
    const char *scope = scope_of(first->a ? first->a : first->b);
    hl_buf_printf(w->out, *scope ? " (%s)\n" : "\n", scope);
  }
  if (group->times > 1)
    put_places(w, group);
  for (int k = 0; k < group->n && k < lines; k++)
    put_row(w, &w->diff->row[group->row[k]]);
  if (group->n > lines)
    hl_buf_printf(w->out, "    ... and %d more\n", group->n - lines);
}

static void put_same(Writer *w) {
  hl_buf_putc(w->out, '\n');
  for (int k = 0; k < w->diff->n_rows; k++)
    if (w->diff->row[k].verdict == HL_DIFF_SAME)
      put_row(w, &w->diff->row[k]);
}

// Groups that an optimised module has of itself, what it added, come as a number: they are told by what went into them.
static bool is_worth(const Writer *w, const HlDiffGroup *group) {
  return !w->diff->stages || w->show.all || w->diff->row[group->row[0]].verdict != HL_DIFF_ADDED;
}

void hl_diff_text(const HlDiff *diff, const HlDiffShow *show, HlBuf *out) {
  Writer w = {.diff = diff, .out = out};
  if (show)
    w.show = *show;
  w.show.name_a = w.show.name_a ? w.show.name_a : diff->a->name->text;
  w.show.name_b = w.show.name_b ? w.show.name_b : diff->b->name->text;
  put_head(&w);
  put_names(&w);
  put_fingerprint(&w);
  for (int k = 0; k < diff->n_groups; k++)
    if (is_worth(&w, &diff->group[k]))
      put_group(&w, &diff->group[k]);
  if (w.show.all)
    put_same(&w);
}
