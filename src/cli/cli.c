// What the commands share: option values, diagnostics on standard error, progress.
#include "cli/cli.h"
#include "base/number.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *cli_value(const Cli *cli, const char *name) {
  for (int k = 0; cli->command->options[k].name; k++)
    if (strcmp(cli->command->options[k].name, name) == 0)
      return cli->values[k];
  return NULL;
}

int cli_usage(const Cli *cli, const char *format, ...) {
  cli_progress(cli, NULL);
  fflush(stdout);
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  fprintf(stderr, "hilo %s: ", cli->command->name);
  hl_buf_vprintf(&text, format, args);
  fwrite(text.at, 1, text.n, stderr);
  hl_buf_free(&text);
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

// What an embedder would set in HlLimits.
static const struct {
  const char *name;
  size_t field;
  bool is_int;
  int64_t most;
} limits[] = {
#define LIMIT(name, is_int, most) \
  { #name, offsetof(HlLimits, name), is_int, most }
    LIMIT(instructions, false, INT64_MAX), LIMIT(nesting, true, 2000),
    LIMIT(tuple_leaves, false, INT64_MAX), LIMIT(literal_bytes, false, INT64_MAX),
    LIMIT(file_bytes, false, INT64_MAX),   LIMIT(eval_bytes, false, INT64_MAX),
    LIMIT(eval_steps, false, INT64_MAX),   LIMIT(devices, false, 65536),
#undef LIMIT
};

bool cli_limit(Cli *cli, const char *text) {
  const char *eq = strchr(text, '=');
  const size_t n = eq ? (size_t)(eq - text) : strlen(text);
  for (int k = 0; k < HL_COUNT_OF(limits); k++) {
    if (strlen(limits[k].name) != n || memcmp(limits[k].name, text, n) != 0)
      continue;
    char *field = (char *)hl_cx_limits(cli->cx) + limits[k].field, *end = NULL;
    errno = 0;
    const long long value = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || !eq[1] || *end || errno || value < 1 || value > limits[k].most) {
      cli_usage(cli, "limit %s needs a whole number from 1 to %lld", limits[k].name,
                (long long)limits[k].most);
      return false;
    }
    if (limits[k].is_int)
      *(int *)(void *)field = (int)value;
    else
      *(int64_t *)(void *)field = value;
    return true;
  }
  cli_usage(cli,
            "unknown limit '%.*s': instructions, nesting, tuple_leaves, literal_bytes, file_bytes, "
            "eval_bytes, eval_steps or devices",
            (int)n, text);
  return false;
}

// An error says in words which limit was reached; here it can be raised.
static void add_remedy(const HlDiag *d, HlBuf *out) {
  const char *at =
      d->kind == HL_LIMIT && d->severity == HL_ERROR ? strstr(d->text, "(limit ") : NULL;
  if (at)
    hl_buf_printf(out, "  --limit %.*s=N raises it\n", (int)strcspn(at + 7, ")"), at + 7);
}

int cli_flush(Cli *cli) {
  HlBuf text = {0};
  cli_progress(cli, NULL);
  for (int k = 0; k < hl_cx_n_diags(cli->cx); k++) {
    const HlDiag *d = hl_cx_diag(cli->cx, k);
    if (cli->quiet && d->severity != HL_ERROR)
      continue;
    hl_diag_render(d, cli->color, &text);
    if (cli->command)
      add_remedy(d, &text);
  }
  static const char *const many[] = {"notes", "warnings", "errors"};
  for (int k = cli->quiet ? HL_ERROR : HL_NOTE; k <= HL_ERROR; k++)
    if (hl_cx_n_lost(cli->cx, k) > 0)
      hl_buf_printf(&text, "and %lld more %s\n", (long long)hl_cx_n_lost(cli->cx, k), many[k]);
  if (text.n > 0) {
    fflush(stdout);  // where both go to one file, they stay in order
    fwrite(text.at, 1, text.n, stderr);
  }
  hl_buf_free(&text);
  int status = hl_cx_n_errors(cli->cx) > 0 ? (int)hl_cx_error_kind(cli->cx) : CLI_OK;
  hl_cx_clear(cli->cx);
  return status;
}

int cli_worse(int a, int b) {
  return a > b ? a : b;
}

void cli_print(const HlBuf *buf) {
  if (buf->n > 0)
    fwrite(buf->at, 1, buf->n, stdout);
}

void cli_say(const Cli *cli, const char *format, ...) {
  if (cli->quiet)
    return;
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  fwrite(text.at, 1, text.n, stdout);
  hl_buf_free(&text);
}

bool cli_may_write(const Cli *cli, const char *path, bool is_binary) {
  if (!is_binary || (path && strcmp(path, "-") != 0) || !isatty(STDOUT_FILENO))
    return true;
  cli_usage(cli, "binary is not written to a terminal: give -o OUT, or send it elsewhere");
  return false;
}

// As much of a text as fits into one line of the terminal, which is all that can be cleared.
static void put_line(const char *text) {
  struct winsize size;
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  fprintf(stderr, "%.*s", known ? size.ws_col - 1 : 79, text);
}

// Not more often than an eye can follow.
void cli_progress(const Cli *cli, const char *format, ...) {
  CliLine *line = cli->progress;
  const double now = line ? hl_now() : 0;
  if (!line || (!format && !line->drawn) || (format && now - line->last < 0.05))
    return;
  fflush(stdout);  // what was printed so far stands above
  fputs("\r\033[K", stderr);
  line->drawn = format != NULL;
  if (format) {
    char text[512];
    line->last = now;
    va_list args;
    va_start(args, format);
    base_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_line(text);
  }
  fflush(stderr);
}
