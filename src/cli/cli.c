// What the commands share: option values, diagnostics on standard error, progress.
#include "cli/cli.h"
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *cli_value(const Cli *cli, const char *name) {
  for (int k = 0; cli->command->options[k].name; k++)
    if (strcmp(cli->command->options[k].name, name) == 0)
      return cli->values[k];
  return NULL;
}

int cli_usage(const Cli *cli, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "hilo %s: ", cli->command->name);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\nusage: hilo %s %s\n       'hilo %s --help' tells more\n", cli->command->name,
          cli->command->usage, cli->command->name);
  va_end(args);
  return CLI_USAGE;
}

bool cli_number(const Cli *cli, const char *name, double *out) {
  const char *text = cli_value(cli, name);
  if (!text)
    return true;
  char *end;
  double value = base_read_double(text, &end);
  if (end == text || *end || value != value) {
    cli_usage(cli, "option '%s' needs a number, not '%s'", name, text);
    return false;
  }
  *out = value;
  return true;
}

bool cli_integer(const Cli *cli, const char *name, int64_t low, int64_t high, int64_t *out) {
  const char *text = cli_value(cli, name);
  if (!text)
    return true;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < low || value > high) {
    cli_usage(cli, "option '%s' needs a whole number from %lld to %lld, not '%s'", name,
              (long long)low, (long long)high, text);
    return false;
  }
  *out = value;
  return true;
}

bool cli_xla_flags(const Cli *cli, HlFlags *out) {
  *out = (HlFlags){0};
  bool ok = hl_flags_text(cli->cx, out, getenv("XLA_FLAGS"));
  for (int k = 0; ok && k < cli->n_xla_flags; k++)
    ok = hl_flags_word(cli->cx, out, cli->xla_flags[k]);
  return ok;
}

int cli_flush(Cli *cli) {
  HlBuf text = {0};
  cli_progress(cli, NULL);
  for (int k = 0; k < hl_cx_n_diags(cli->cx); k++)
    hl_diag_render(hl_cx_diag(cli->cx, k), cli->color, &text);
  int64_t stored = 0, errors = hl_cx_n_errors(cli->cx);
  for (int k = 0; k < hl_cx_n_diags(cli->cx); k++)
    stored += hl_cx_diag(cli->cx, k)->severity == HL_ERROR;
  if (errors > stored)
    hl_buf_printf(&text, "and %lld more errors\n", (long long)(errors - stored));
  if (text.n > 0)
    fwrite(text.at, 1, text.n, stderr);
  hl_buf_free(&text);
  int status = errors > 0 ? (int)hl_cx_error_kind(cli->cx) : CLI_OK;
  hl_cx_clear(cli->cx);
  return status;
}

static const char *const severities[] = {"note", "warning", "error"};

void cli_diags_json(const Cli *cli, HlBuf *out) {
  hl_buf_puts(out, "\"diagnostics\": [");
  for (int k = 0; k < hl_cx_n_diags(cli->cx); k++) {
    const HlDiag *d = hl_cx_diag(cli->cx, k);
    HlLineCol at = hl_source_line_col(d->source, d->loc);
    hl_buf_printf(out, "%s{\"severity\": \"%s\", \"line\": %lld, \"column\": %lld, \"text\": ",
                  k > 0 ? ", " : "", severities[d->severity], (long long)at.line,
                  (long long)at.column);
    hl_buf_json_string(out, d->text, strlen(d->text));
    if (d->hint) {
      hl_buf_puts(out, ", \"hint\": ");
      hl_buf_json_string(out, d->hint, strlen(d->hint));
    }
    hl_buf_putc(out, '}');
  }
  hl_buf_putc(out, ']');
}

int cli_worse(int a, int b) {
  return a > b ? a : b;
}

void cli_print(const HlBuf *buf) {
  if (buf->n > 0)
    fwrite(buf->at, 1, buf->n, stdout);
}

void cli_progress(const Cli *cli, const char *format, ...) {
  if (!cli->progress)
    return;
  fputs("\r\033[K", stderr);
  if (!format)
    return;
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fflush(stderr);
}
