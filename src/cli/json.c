// cli/json.c: reports as JSON.
#include "cli/json.h"

// --- Reports ------------------------------------------------------------------------------------

void json_begin_row(HlBuf *out, const char *report) {
  hl_buf_puts(out, out->n > 0 ? ",\n {" : "[\n {");
  json_text(out, "report", report);
  json_int(out, "version", CLI_JSON_VERSION);
}

void json_end_row(HlBuf *out) {
  json_close(out, '}');
}

static void end_array(HlBuf *out) {
  hl_buf_puts(out, out->n > 0 ? "\n]\n" : "[]\n");
}

int json_print_table(const Cli *cli, HlBuf *out) {
  if (cli->json)
    end_array(out);
  cli_print(out);
  hl_buf_free(out);
  return CLI_OK;
}

void cli_begin_file(Cli *cli, const char *path) {
  if (!cli->json)
    return;
  json_begin_row(&cli->report, cli->command->name);
  json_text(&cli->report, "file", path);
}

int cli_end_file(Cli *cli) {
  if (!cli->json)
    return cli_flush(cli);
  cli_progress(cli, NULL);
  json_diagnostics(cli, &cli->report, 0);
  json_end_row(&cli->report);
  const int status = hl_cx_n_errors(cli->cx) > 0 ? (int)hl_cx_error_kind(cli->cx) : CLI_OK;
  hl_cx_clear(cli->cx);
  return status;
}

void cli_end_report(Cli *cli) {
  if (cli->json)
    json_print_table(cli, &cli->report);
}

// The last of a severity: how many more there were.
static void put_lost(HlBuf *out, const char *severity, int64_t n) {
  if (n == 0)
    return;
  char text[64];
  snprintf(text, sizeof text, "and %lld more %ss", (long long)n, severity);
  json_open(out, NULL, '{');
  json_text(out, "severity", severity);
  json_int(out, "line", 0);
  json_int(out, "column", 0);
  json_text(out, "text", text);
  json_close(out, '}');
}

void json_diagnostics(const Cli *cli, HlBuf *out, int first) {
  static const char *const severities[] = {"note", "warning", "error"};
  json_open(out, "diagnostics", '[');
  for (int k = first; k < hl_cx_n_diags(cli->cx); k++) {
    const HlDiag *d = hl_cx_diag(cli->cx, k);
    const HlLineCol at = hl_source_line_col(d->source, d->loc);
    json_open(out, NULL, '{');
    json_text(out, "severity", severities[d->severity]);
    json_int(out, "line", at.line);
    json_int(out, "column", at.column);
    json_text(out, "text", d->text);
    if (d->hint)
      json_text(out, "hint", d->hint);
    if (d->times > 1)
      json_int(out, "times", d->times);
    json_close(out, '}');
  }
  for (int k = HL_NOTE; k <= HL_ERROR; k++)
    put_lost(out, severities[k], hl_cx_n_lost(cli->cx, k));
  json_close(out, ']');
}

// --- What jax.export serialises -----------------------------------------------------------------

static void json_words(HlBuf *out, const char *key, const char *const *words, int n) {
  json_open(out, key, '[');
  for (int k = 0; k < n; k++)
    json_text(out, NULL, words[k]);
  json_close(out, ']');
}

static void json_exported_values(HlBuf *out, const char *key, const HlExportedValue *values, int n,
                                 bool are_arguments) {
  json_open(out, key, '[');
  for (int k = 0; k < n; k++) {
    json_open(out, NULL, '{');
    json_text(out, "type", values[k].type);
    json_text(out, "memory", values[k].memory);
    json_text(out, "sharding", values[k].sharding);
    if (are_arguments)
      json_bool(out, "used", values[k].is_kept);
    json_close(out, '}');
  }
  json_close(out, ']');
}

void json_exported(HlBuf *out, const HlExported *e) {
  int n = 0;
  for (const HlExported *vjp = e->vjp; vjp; vjp = vjp->vjp)
    n++;
  json_open(out, "export", '{');
  json_text(out, "function", e->function);
  json_text(out, "jax", e->jax);
  json_int(out, "format", e->serialization);
  json_int(out, "calling_convention", e->calling_convention);
  json_int(out, "devices", e->n_devices);
  json_words(out, "platforms", e->platforms, e->n_platforms);
  json_text(out, "arguments_tree", e->in_tree);
  json_exported_values(out, "arguments", e->in, e->n_in, true);
  json_text(out, "results_tree", e->out_tree);
  json_exported_values(out, "results", e->out, e->n_out, false);
  json_words(out, "ordered_effects", e->ordered_effects, e->n_ordered_effects);
  json_words(out, "other_effects", e->unordered_effects, e->n_unordered_effects);
  json_words(out, "checks_left_out", e->disabled_checks, e->n_disabled_checks);
  json_int(out, "derivatives", n);
  json_close(out, '}');
}
