// cli/isolate.c: runs the instructions of a module one by one, each as a module of its own on made-up inputs, and
// prints what became of them, the worst last.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "cli/two_sides.h"
#include "hilo/isolate.h"

typedef struct Row {
  Outcome reference, test;
  const char *name;
  const char *status;
} Row;

typedef struct Table {
  Row *row;
  int n;
  Map seen;  // by the hash of what has run: graphs that differ in names only run once
} Table;

static bool is_new(Table *table, uint64_t hash) {
  uint64_t *seen = map_at(&table->seen, hash);
  const bool fresh = !*seen;
  *seen = true;
  return fresh;
}

// The first error, on one line; the context is empty then.
static const char *take_error(TwoSides *t) {
  const char *text = "";
  for (int k = 0; k < hl_cx_n_diags(t->cx) && !*text; k++)
    if (hl_cx_diag(t->cx, k)->severity == HL_ERROR) {
      const char *said = hl_cx_diag(t->cx, k)->text;
      text = hl_arena_strndup(t->arena, said, strcspn(said, "\n"));
    }
  hl_cx_clear(t->cx);
  return text;
}

static void run_one(TwoSides *t, Table *table, const HlInst *inst, uint64_t seed) {
  HlModule *alone = hl_isolate(t->cx, inst);
  if (alone && !is_new(table, hl_graph_hash(alone))) {
    hl_module_free(alone);
    return;
  }
  Row *row = &table->row[table->n++];
  *row = (Row){OTHER_ERROR, OTHER_ERROR, hl_arena_printf(t->arena, "%s", inst->name->text), ""};
  Trial trial = {0};
  if (alone && trial_arguments(t, alone, NULL, seed, &trial)) {
    trial_run(t, alone, &trial);
    row->test = trial.test;
    row->reference = trial.reference;
  }
  row->status = take_error(t);
  trial_free(&trial);
  hl_module_free(alone);
}

static int by_outcome(const void *a, const void *b) {
  const Row *x = a, *y = b;
  if (x->test != y->test)
    return (int)x->test - (int)y->test;
  return x->reference != y->reference ? (int)x->reference - (int)y->reference
                                      : strcmp(x->name, y->name);
}

static bool went_wrong(const Row *row) {
  return row->test >= OTHER_ERROR || row->reference >= OTHER_ERROR;
}

static void print_counts(const Table *table, HlBuf *out) {
  for (int k = 0, next; k < table->n; k = next) {
    const Row *row = &table->row[k];
    for (next = k; next < table->n && table->row[next].test == row->test &&
                   table->row[next].reference == row->reference;)
      next++;
    hl_buf_printf(out, "%6d  reference %s, test %s\n", next - k, outcome_names[row->reference],
                  outcome_names[row->test]);
  }
}

static void print_table(Table *table) {
  HlBuf out = {0};
  qsort(table->row, (size_t)table->n, sizeof *table->row, by_outcome);
  hl_buf_printf(&out, "%-18s %-18s %-32s %s\n", "Reference", "Test", "Module", "Status");
  for (int k = 0; k < table->n; k++) {
    const Row *row = &table->row[k];
    hl_buf_printf(&out, "%-18s %-18s %s", outcome_names[row->reference], outcome_names[row->test],
                  row->name);
    if (*row->status)
      hl_buf_printf(&out, "%*s %s", strlen(row->name) < 32 ? (int)(32 - strlen(row->name)) : 0, "",
                    row->status);
    hl_buf_putc(&out, '\n');
  }
  hl_buf_putc(&out, '\n');
  print_counts(table, &out);
  cli_print(&out);
  hl_buf_free(&out);
}

void isolate_run(TwoSides *t, const HlModule *m, uint64_t seed, int *failed, int *runs) {
  if (t->run_test_hlo_passes || t->run_reference_hlo_passes)
    hl_warn(
        t->cx, (HlPos){0},
        "passes run over the isolated instructions, too: for a module that is optimised already "
        "give --run_test_hlo_passes=false --run_reference_hlo_passes=false");
  dropin_flush(t->cx);
  int n_comps;
  HlComp **comps = hl_control_flow_comps(t->arena, m, &n_comps);
  Table table = {.row = HL_ARRAY(t->arena, Row, hl_count_instructions(m) + 1),
                 .seen = {.arena = t->arena}};
  t->quiet = true;
  for (int k = 0; k < n_comps; k++)
    for (const HlInst *inst = comps[k]->first; inst; inst = inst->next)
      if (hl_is_worth_isolating(inst))
        run_one(t, &table, inst, seed);
  t->quiet = false;
  print_table(&table);
  *runs += table.n;
  for (int k = 0; k < table.n; k++)
    *failed += went_wrong(&table.row[k]);
}
