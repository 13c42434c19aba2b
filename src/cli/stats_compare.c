// cli/stats_compare.c: the numbers of two programs side by side: stats --compare.
#include "cli/stats_compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "cli/json.h"
#include "cli/load.h"
#include "tool/stats.h"

// --- Numbers ----------------------------------------------------------------------------------------

typedef enum Unit { COUNT, FLOPS, BYTES } Unit;

static const char *number_text(double x, Unit unit, bool sign, char *room, size_t n) {
  static const char *const decimal[] = {"", " k", " M", " G", " T", " P", " E"};
  static const char *const binary[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  const double base = unit == BYTES ? 1024 : 1000;
  double size = fabs(x);
  int k = 0;
  while (unit != COUNT && size >= base && k < 6) {
    size /= base;
    k++;
  }
  const char *s = x < 0 ? "-" : sign && x > 0 ? "+" : "";
  base_snprintf(room, n, k == 0 ? "%s%.0f%s" : "%s%.2f%s", s, size,
                unit == BYTES   ? binary[k]
                : unit == FLOPS ? decimal[k]
                                : "");
  return room;
}

static void put_row(HlBuf *out, const char *label, double a, double b, Unit unit) {
  char x[40], y[40], d[40], percent[40] = "";
  if (a != b && a > 0)
    base_snprintf(percent, sizeof percent, "%+.1f%%", 100 * (b - a) / a);
  hl_buf_printf(out, "  %-28s %12s %12s %12s %9s\n", label,
                number_text(a, unit, false, x, sizeof x), number_text(b, unit, false, y, sizeof y),
                a == b ? "" : number_text(b - a, unit, true, d, sizeof d), percent);
  while (out->n > 1 && out->at[out->n - 2] == ' ') {  // no blanks before the end of the line
    out->at[out->n - 2] = '\n';
    out->n--;
  }
}

static const struct {
  const char *label;
  size_t at;
  bool whole;  // an int64_t, else a double
  Unit unit;
} rows[] = {
#define WHOLE(label, field) \
  { label, offsetof(Stats, field), true, COUNT }
#define REAL(label, field, unit) \
  { label, offsetof(Stats, field), false, unit }
    WHOLE("modules", modules),
    WHOLE("computations", computations),
    WHOLE("instructions", instructions),
    WHOLE("parameters", parameters),
    REAL("bytes of parameters", parameter_bytes, BYTES),
    WHOLE("constants", constants),
    REAL("bytes of constants", constant_bytes, BYTES),
    WHOLE("fusions", fusions),
    WHOLE("instructions in fusions", fused),
    WHOLE("collectives", collectives),
    REAL("flops", cost.flops, FLOPS),
    REAL("transcendentals", cost.transcendentals, FLOPS),
    REAL("bytes read", cost.bytes_read, BYTES),
    REAL("bytes written", cost.bytes_written, BYTES),
    REAL("bytes into collectives", cost.collective_bytes, BYTES),
    REAL("peak memory", peak_memory, BYTES),
#undef WHOLE
#undef REAL
};

static double value_of(const Stats *s, int row) {
  const char *at = (const char *)s + rows[row].at;
  int64_t whole;
  double real;
  memcpy(&whole, at, sizeof whole);
  memcpy(&real, at, sizeof real);
  return rows[row].whole ? (double)whole : real;
}

// --- Text -------------------------------------------------------------------------------------------

typedef struct Change {
  HlOp op;
  int64_t by;
} Change;

static int64_t size_of(int64_t x) {
  return x < 0 ? -x : x;
}

static bool goes_first(Change a, Change b) {
  return size_of(a.by) != size_of(b.by) ? size_of(a.by) > size_of(b.by)
                                        : strcmp(hl_op_text(a.op), hl_op_text(b.op)) < 0;
}

// What changed most first.
static int changed_ops(const Stats *a, const Stats *b, Change *out) {
  int n = 0;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    const Change change = {(HlOp)op, b->op[op] - a->op[op]};
    if (!change.by)
      continue;
    int at = n++;
    for (; at > 0 && goes_first(change, out[at - 1]); at--)
      out[at] = out[at - 1];
    out[at] = change;
  }
  return n;
}

static void put_text(const Cli *cli, const Stats *a, const Stats *b, HlBuf *out) {
  Change change[HL_OP_COUNT];
  hl_buf_printf(out, "a: %s\nb: %s\n\n  %-28s %12s %12s %12s\n", cli->files[0], cli->files[1], "",
                "a", "b", "b - a");
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    if (rows[k].at != offsetof(Stats, modules) || a->modules > 1 || b->modules > 1)
      put_row(out, rows[k].label, value_of(a, k), value_of(b, k), rows[k].unit);
  if (cli_flag(cli, "--brief"))
    return;
  const int n = changed_ops(a, b, change);
  hl_buf_puts(out, n ? "\n  op\n" : "\n  as many of every op\n");
  for (int k = 0; k < n; k++)
    put_row(out, hl_op_text(change[k].op), (double)a->op[change[k].op], (double)b->op[change[k].op],
            COUNT);
}

// --- JSON -------------------------------------------------------------------------------------------

static void side_json(HlBuf *out, const char *key, const Stats *s) {
  json_open(out, key, '{');
  json_int(out, "modules", s->modules);
  stats_json(out, s);
  json_close(out, '}');
}

static void put_json(Cli *cli, const Stats *a, const Stats *b) {
  HlBuf *out = &cli->report;
  Change change[HL_OP_COUNT];
  side_json(out, "a", a);
  side_json(out, "b", b);
  json_open(out, "difference", '{');
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    char key[64];
    base_snprintf(key, sizeof key, "%s", rows[k].label);
    for (char *c = key; *c; c++)
      *c = *c == ' ' ? '_' : *c;
    json_count(out, key, value_of(b, k) - value_of(a, k));
  }
  json_open(out, "ops", '{');
  const int n = changed_ops(a, b, change);
  for (int k = 0; k < n; k++)
    json_int(out, hl_op_text(change[k].op), change[k].by);
  json_close(out, '}');
  json_close(out, '}');
}

// --- All of it --------------------------------------------------------------------------------------

static void add_file(Cli *cli, CliFiles *files, int k, Stats *sum) {
  HlFile file;
  bool skipped;
  const HlLoadOptions how = cli_load_options(cli);
  if (!cli_load(cli, files, k, &how, &file, &skipped))
    return;
  for (int j = 0; j < file.n; j++) {
    const Stats one = stats_of_module(cli->cx, file.modules[j]);
    stats_add(sum, &one);
  }
  hl_file_free(&file);
}

int cli_stats_compare(Cli *cli) {
  CliFiles files;
  Stats side[2] = {{0}, {0}};
  if (cli->n_files != 2)
    return cli_usage(cli, "--compare takes two files or two directories");
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  if (cli->json) {
    json_begin_row(&cli->report, "stats_compare");
    json_text(&cli->report, "file", cli->files[0]);
    json_text(&cli->report, "other_file", cli->files[1]);
  }
  for (int k = 0; k < files.n; k++) {
    if (files.n > 2)
      cli_progress(cli, "reading %d of %d: %s", k + 1, files.n, files.at[k].at);
    add_file(cli, &files, k, &side[files.at[k].operand]);
  }
  cli_progress(cli, NULL);
  if (cli->json && hl_cx_n_errors(cli->cx) == 0)
    put_json(cli, &side[0], &side[1]);
  HlBuf out = {0};
  if (!cli->json && hl_cx_n_errors(cli->cx) == 0) {
    put_text(cli, &side[0], &side[1], &out);
    cli_print(&out);
  }
  hl_buf_free(&out);
  status = cli_end_file(cli);
  status = cli_worse(status, cli_end_files(cli, &files));
  cli_end_report(cli);
  return status;
}
