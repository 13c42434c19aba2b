// hilo check: reads and verifies; every error, located; one summary line per module.
#include <string.h>

#include "cli/json.h"
#include "hilo/mlir.h"
#include "hilo/verify.h"

// One module or section of a file, and how large it is.
typedef struct Checked {
  const char *path, *name;
  int64_t n, n_parts, errors;
  bool is_tree;     // ops and functions, not instructions and computations
  bool is_untyped;  // a jaxpr without types: equations
} Checked;

static void report_text(const Cli *cli, const Checked *c) {
  const char *one = c->is_tree ? "op" : "instruction",
             *part = c->is_tree ? "function" : "computation";
  if (c->is_untyped)
    cli_say(
        cli,
        "%s: ok: jaxpr of %lld equation%s, whose values have no types or sizes: what they compute "
        "is not checked\n",
        c->path, (long long)c->n, c->n == 1 ? "" : "s");
  else if (c->errors == 0)
    cli_say(cli, "%s: ok: module %s, %lld %s%s in %lld %s%s\n", c->path, c->name, (long long)c->n,
            one, c->n == 1 ? "" : "s", (long long)c->n_parts, part, c->n_parts == 1 ? "" : "s");
  else
    cli_say(cli, "%s: module %s: %lld error%s\n", c->path, c->name, (long long)c->errors,
            c->errors == 1 ? "" : "s");
}

// A module of a file, with what is wrong there.
static void add_json(Cli *cli, const Checked *c) {
  HlBuf *out = &cli->report;
  json_open(out, NULL, '{');
  json_text(out, "module", c->name);
  json_int(out, c->is_tree ? "ops" : c->is_untyped ? "equations" : "instructions", c->n);
  if (!c->is_untyped)
    json_int(out, c->is_tree ? "functions" : "computations", c->n_parts);
  json_bool(out, "valid", c->errors == 0);
  json_int(out, "errors", c->errors);
  json_diagnostics(cli, out, 0);
  json_close(out, '}');
}

// Reports one module with what the context holds, and forgets that; the status.
static int report(Cli *cli, const Checked *c) {
  int status = c->errors ? (int)hl_cx_error_kind(cli->cx) : CLI_OK;
  if (cli->json) {
    add_json(cli, c);
    hl_cx_clear(cli->cx);
  } else {
    cli_flush(cli);
    report_text(cli, c);
  }
  return status;
}

static int check_module(Cli *cli, const char *path, const HlModule *m) {
  hl_verify(cli->cx, m, NULL);
  Checked c = {
      .path = path, .name = m->name->text, .n = hl_count_instructions(m), .n_parts = m->n_comps};
  c.errors = hl_cx_n_errors(cli->cx);
  return report(cli, &c);
}

static int check_tree(Cli *cli, const char *path, const HlMlTree *tree) {
  hl_ml_verify(cli->cx, tree);
  const HlSym *name = hl_ml_symbol_name(tree->module);
  Checked c = {.path = path, .name = name ? name->text : "(unnamed)", .is_tree = true};
  c.n = hl_ml_count_ops(tree, &c.n_parts);
  c.errors = hl_cx_n_errors(cli->cx);
  return report(cli, &c);
}

// Of a file that nothing could be read from.
static int report_unreadable(Cli *cli, const char *path) {
  const int64_t errors = hl_cx_n_errors(cli->cx);
  if (cli->json) {
    json_open(&cli->report, "modules", '[');
    json_close(&cli->report, ']');
    json_bool(&cli->report, "valid", false);
  }
  const int status = cli_end_file(cli);
  if (!cli->json)
    cli_say(cli, "%s: not valid: %lld error%s\n", path, (long long)errors, errors == 1 ? "" : "s");
  return status;
}

// Texts printed before 2021 do not say what types their inputs have.
static int check_jaxpr(Cli *cli, const char *path, const HlJaxpr *jaxpr) {
  Checked c = {.path = path, .name = "jaxpr", .is_untyped = true};
  c.n = hl_jaxpr_n_equations(jaxpr);
  return report(cli, &c);
}

// The status of one file; -1 when it was skipped.
static int check_file(Cli *cli, CliFiles *files, int which) {
  static const HlLoadOptions how = {
      .trees_only = true, .jaxprs_without_types = true, .consts_as_parameters = true};
  HlFile file;
  bool skipped;
  const char *path = files->at[which].at;
  const bool ok = cli_load(cli, files, which, &how, &file, &skipped);
  if (skipped)
    return -1;
  cli_begin_file(cli, path);
  if (!ok)
    return report_unreadable(cli, path);
  int status = CLI_OK;
  if (cli->json)
    json_open(&cli->report, "modules", '[');
  for (int k = 0; k < file.n; k++)
    status = cli_worse(status, check_module(cli, path, file.modules[k]));
  for (int k = 0; k < file.n_trees; k++)
    status = cli_worse(status, check_tree(cli, path, file.trees[k]));
  if (file.exported && !cli->json) {
    HlBuf text = {0};
    hl_exported_print(file.exported, "  ", &text);
    cli_say(cli, "%.*s", (int)text.n, text.at);
    hl_buf_free(&text);
  }
  if (file.jaxpr)
    status = cli_worse(status, check_jaxpr(cli, path, file.jaxpr));
  if (cli->json) {
    json_close(&cli->report, ']');
    if (file.exported)
      json_exported(&cli->report, file.exported);
    json_bool(&cli->report, "valid", status == CLI_OK);
  }
  hl_file_free(&file);
  return cli_worse(status, cli_end_file(cli));
}

static void print_total(const Cli *cli, int checked, int bad, int skipped) {
  cli_say(cli, "%d file%s: ", checked, checked == 1 ? "" : "s");
  if (bad)
    cli_say(cli, "%d valid, %d not", checked - bad, bad);
  else
    cli_say(cli, checked > 0 ? "all valid" : "none checked");
  if (skipped)
    cli_say(cli, "; %d other%s skipped", skipped, skipped == 1 ? "" : "s");
  cli_say(cli, "\n");
}

static int run(Cli *cli) {
  CliFiles files;
  int status = cli_take_files(cli, &files);
  if (status)
    return status;
  int bad = 0, checked = 0;
  for (int k = 0; k < files.n; k++) {
    if (files.n > 1)
      cli_progress(cli, "checking %d of %d: %s", k + 1, files.n, files.at[k].at);
    int one = check_file(cli, &files, k);
    checked += one >= 0;
    bad += one > 0;
    status = cli_worse(status, one);
  }
  cli_progress(cli, NULL);
  cli_end_report(cli);
  if (!cli->json && (files.n > 1 || files.skipped))
    print_total(cli, checked, bad, files.skipped);
  return cli_worse(status, cli_end_files(cli, &files));
}

static const CliOption options[] = {{NULL, NULL, NULL}};

const CliCommand cli_check = {
    .name = "check",
    .usage = "FILE...",
    .summary = "read and verify; report every error",
    .about = "Reads each file, verifies each module in it by XLA's rules, and reports every error "
             "with file, line,\n"
             "column, the line itself and what was expected. Prints one summary line per module. "
             "MLIR is "
             "checked by\n"
             "the rules of its dialects, section by section.",
    .examples = "  hilo check m.hlo                   is it valid\n"
                "  hilo check -q dump/ && echo fine   a whole dump, silent where all is well\n"
                "  hilo check --json *.hlo            every error as JSON\n",
    .options = options,
    .reports = true,
    .run = run,
};
