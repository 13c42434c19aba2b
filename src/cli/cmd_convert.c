// hilo convert: writes a module in another form.
#include <string.h>

#include "cli/form.h"
#include "cli/mlir.h"
#include "cli/select.h"
#include "hilo/diff.h"
#include "hilo/tool.h"

static bool find_options(Cli *cli, const Form *form, HlTextOptions *out) {
  *out = (HlTextOptions){0};
  if (!cli_find_preset(cli, form, &out->preset))
    return false;
  if (cli_flag(cli, "--large-constants"))
    out->large_constants = HL_ON;
  if (cli_flag(cli, "--no-metadata"))
    out->metadata = out->frames = HL_OFF;
  return true;
}

static bool is_mhlo(const Form *form) {
  return strcmp(form->name, "mhlo") == 0;
}

// Whether MLIR goes to the output without becoming HLO on the way.
static bool stays_mlir(const Cli *cli, const Form *form) {
  bool is_asked_for_more =
      cli_value(cli, "--arg-shapes") || cli_value(cli, "--entry") ||
      cli_value(cli, "--elided") || cli_flag(cli, "--normalize");
  return !is_asked_for_more &&
         (form->kind == FORM_ARTIFACT || strcmp(form->name, "stablehlo") == 0 || is_mhlo(form));
}

// What is in the other of the two dialects gets there by way of HLO.
static bool lower_other(Cli *cli, const Form *form, HlFile *file) {
  bool is_other = false;
  for (int k = 0; k < file->n_trees; k++) {
    const HlMlOp *top = file->trees[k]->module;
    for (const HlMlOp *op = hl_ml_next(top, top); op && !is_other; op = hl_ml_next(op, top))
      is_other = is_mhlo(form) ? op->dialect == HL_ML_STABLEHLO : op->dialect == HL_ML_MHLO;
  }
  return !is_other || hl_load_lower(cli->cx, NULL, file);
}

// In place of each module the one form of all that are equal to it but for names, order and metadata.
static bool normalize(Cli *cli, HlFile *file, HlTextOptions *options) {
  if (!cli_flag(cli, "--normalize"))
    return true;
  for (int k = 0; k < file->n; k++) {
    HlModule *m = hl_normalize(cli->cx, file->modules[k]);
    if (!m)
      return false;
    hl_module_free(file->modules[k]);
    file->modules[k] = m;
  }
  options->sorted_configs = HL_ON;
  return true;
}

// Gives constants {...} made-up values, as far as that is asked for.
static bool fill_elided(Cli *cli, HlFile *file) {
  int64_t seed = 42;
  const char *how = cli_value(cli, "--elided");
  bool ok = cli_integer(cli, "--seed", 0, INT64_MAX, &seed);
  for (int k = 0; ok && how && strcmp(how, "random") == 0 && k < file->n; k++)
    ok = hl_fake_elided(cli->cx, file->modules[k], (uint64_t)seed);
  return ok;
}

static int convert(Cli *cli, const Form *form, HlTextOptions *options) {
  HlFile file;
  HlBuf out = {0};
  HlLoadOptions how = cli_load_options(cli);
  how.trees_only = stays_mlir(cli, form);
  how.structure = false;  // what can be read can be written
  if (!hl_load(cli->cx, cli->files[0], &how, &file) || !lower_other(cli, form, &file) ||
      !fill_elided(cli, &file) || !normalize(cli, &file, options)) {
    hl_file_free(&file);
    return cli_flush(cli);
  }
  int usage = cli_write_form(cli, form, &file, options, &out);
  const char *path = cli_value(cli, "-o");
  if (!usage && hl_cx_n_errors(cli->cx) == 0)
    hl_write_file(cli->cx, path ? path : "-", out.at, out.n);
  hl_buf_free(&out);
  hl_file_free(&file);
  return cli_worse(usage, cli_flush(cli));
}

static int run(Cli *cli) {
  const Form *form;
  HlTextOptions options;
  const char *elided = cli_value(cli, "--elided");
  if (elided && strcmp(elided, "random") != 0 && strcmp(elided, "keep") != 0)
    return cli_usage(cli, "unknown --elided '%s': keep or random", elided);
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  if (!cli_find_form(cli, NULL, &form) || !find_options(cli, form, &options) ||
      !cli_mlir_version(cli, NULL) || !cli_check_dialect(cli) ||
      !cli_may_write(cli, cli_value(cli, "-o"), !form->as_text))
    return CLI_USAGE;
  return convert(cli, form, &options);
}

static const CliOption options[] = {
    {"--to", "FORM",
     "hlo, stablehlo, mhlo, mlirbc[=VERSION], proto (HloModuleProto), hloproto (HloProto), pbtxt, "
     "snapshot, json, dot, svg, html"},
    {"-o", "OUT", "where to write; .gz and .zst compress (default: standard output)"},
    {"--print", "PRESET",
     "of HLO: default, short, XLA's canonical (instructions are numbered; computations keep their "
     "names), fingerprint or module-fingerprint (the same for programs that differ in names only); "
     "of MLIR: default, generic"},
    {"--large-constants", NULL, "print constants of more than ten elements in full"},
    {"--elided", "HOW", "constants {...}: keep (as they are, the default), random (made-up values, so that other versions of the program can be compared with it; with --large-constants they stand in text)"},
    {"--seed", "N", "of made-up values (42)"},
    {"--normalize", NULL,
     "names, order and computations in one form, without metadata: programs that are equal but for these become the same "
     "text"},
    {"--no-metadata", NULL, "leave out metadata and stack frames"},
    {"--locations", NULL, "print MLIR's locations"},
    {"--closed-fusions", NULL, "in pictures: a fusion is one node"},
    CLI_MODULE_OPTION,
    CLI_DIALECT_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_convert = {
    .name = "convert",
    .usage = "FILE --to FORM [-o OUT]",
    .summary = "write a module in another form",
    .about =
        "Reads any form and writes another. Text is exactly what XLA prints. Without --to the "
        "form follows\n"
        "from OUT's name, and is text without OUT. A text file of several modules prints all; "
        "other forms\n"
        "need --module. MLIR (StableHLO, MHLO, portable artifacts) and jaxprs become HLO unless "
        "the "
        "output is\n"
        "MLIR of the same dialect or an artifact; each function that `run` would run becomes a "
        "module. What the "
        "output has no\n"
        "word for is said in a note.",
    .examples = "  hilo convert m.hlo --to=stablehlo            as StableHLO\n"
                "  hilo convert m.mlir -o m.hlo.pb.gz           the form follows from the name\n"
                "  hilo convert m.hlo --print=canonical         what XLA's canonical form is\n"
                "  hilo convert m.hlo --normalize               the same whatever the names and order were\n"
                "  hilo convert m.hlo --to=html -o m.html       a page to look at\n",
    .options = options,
    .run = run,
};
