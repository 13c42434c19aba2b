// hilo check: reads and verifies; every error, located; one summary line per module.
#include <string.h>

#include "cli/cli.h"
#include "hilo/verify.h"

static void report_text(const char *path, const HlModule *m, int64_t errors) {
  int64_t n = hl_count_instructions(m);
  if (errors == 0)
    printf("%s: ok: module %s, %lld instruction%s in %u computation%s\n", path, m->name->text,
           (long long)n, n == 1 ? "" : "s", m->n_comps, m->n_comps == 1 ? "" : "s");
  else
    printf("%s: module %s: %lld error%s\n", path, m->name->text, (long long)errors,
           errors == 1 ? "" : "s");
}

static void add_json(HlBuf *out, const char *path, const HlModule *m, int64_t errors) {
  hl_buf_puts(out, out->n > 1 ? ",\n " : "");
  hl_buf_puts(out, "{\"file\": ");
  hl_buf_json_string(out, path, strlen(path));
  if (m) {
    hl_buf_puts(out, ", \"module\": ");
    hl_buf_json_string(out, m->name->text, m->name->n);
    hl_buf_printf(out, ", \"instructions\": %lld, \"computations\": %u",
                  (long long)hl_count_instructions(m), m->n_comps);
  }
  hl_buf_printf(out, ", \"valid\": %s, \"errors\": %lld", errors ? "false" : "true",
                (long long)errors);
}

static void add_diags(const Cli *cli, HlBuf *out) {
  hl_buf_puts(out, ", ");
  cli_diags_json(cli, out);
  hl_buf_putc(out, '}');
}

// The status of one file; -1 when it was skipped.
static int check_file(Cli *cli, CliFiles *files, int which, HlBuf *json) {
  HlFile file;
  bool skipped;
  const char *path = files->at[which];
  if (!cli_load(cli, files, which, &file, &skipped)) {
    if (skipped)
      return -1;
    int status = (int)hl_cx_error_kind(cli->cx);
    if (cli->json) {
      add_json(json, path, NULL, hl_cx_n_errors(cli->cx));
      add_diags(cli, json);
      hl_cx_clear(cli->cx);
      return status;
    }
    printf("%s: not valid: %lld error%s\n", path, (long long)hl_cx_n_errors(cli->cx),
           hl_cx_n_errors(cli->cx) == 1 ? "" : "s");
    return cli_flush(cli);
  }
  int status = CLI_OK;
  for (int k = 0; k < file.n; k++) {
    hl_verify(cli->cx, file.modules[k], NULL);
    int64_t errors = hl_cx_n_errors(cli->cx);
    if (errors)
      status = cli_worse(status, (int)hl_cx_error_kind(cli->cx));
    if (cli->json) {
      add_json(json, path, file.modules[k], errors);
      add_diags(cli, json);
      hl_cx_clear(cli->cx);
    } else {
      cli_flush(cli);
      report_text(path, file.modules[k], errors);
    }
  }
  hl_file_free(&file);
  return status;
}

static void print_total(int checked, int bad, int skipped) {
  printf("%d file%s: ", checked, checked == 1 ? "" : "s");
  if (bad)
    printf("%d valid, %d not", checked - bad, bad);
  else
    printf("all valid");
  if (skipped)
    printf("; %d other%s skipped", skipped, skipped == 1 ? "" : "s");
  putchar('\n');
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  CliFiles files;
  if (!cli_expand(cli, &files)) {
    cli_files_free(&files);
    return cli_flush(cli);
  }
  HlBuf json = {0};
  hl_buf_putc(&json, '[');
  int status = CLI_OK, bad = 0, checked = 0;
  for (int k = 0; k < files.n; k++) {
    if (files.n > 1)
      cli_progress(cli, "checking %d of %d: %s", k + 1, files.n, files.at[k]);
    int one = check_file(cli, &files, k, &json);
    checked += one >= 0;
    bad += one > 0;
    status = cli_worse(status, one);
  }
  cli_progress(cli, NULL);
  hl_buf_puts(&json, "]\n");
  if (cli->json)
    cli_print(&json);
  else if (files.n > 1 || files.skipped)
    print_total(checked, bad, files.skipped);
  hl_buf_free(&json);
  cli_files_free(&files);
  return status;
}

static const CliOption options[] = {{NULL, NULL, NULL}};

const CliCommand cli_check = {
    .name = "check",
    .usage = "FILE...",
    .summary = "read and verify; report every error",
    .about = "Reads each file, verifies each module in it by XLA's rules, and reports every error "
             "with file, line,\n"
             "column, the line itself and what was expected. Prints one summary line per module.",
    .options = options,
    .reports = true,
    .run = run,
};
