// hilo convert: writes a module in another form.
#include <string.h>

#include "cli/cli.h"
#include "cli/load.h"
#include "cli/mlir.h"
#include "cli/select.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/view.h"

typedef enum Form { FORM_TEXT, FORM_PROTO, FORM_JSON, FORM_MLIR, FORM_ARTIFACT, FORM_VIEW } Form;

typedef struct Target {
  const char *name;
  Form form;
  HlProtoForm proto;
  bool as_text;
  const char *ending;  // of a file name that means this form
} Target;

static const Target targets[] = {
    {"hlo", FORM_TEXT, HL_PROTO_NONE, true, ".hlo"},
    {"proto", FORM_PROTO, HL_PROTO_MODULE, false, ".pb"},
    {"hloproto", FORM_PROTO, HL_PROTO_HLO, false, ".hlo.pb"},
    {"pbtxt", FORM_PROTO, HL_PROTO_HLO, true, ".pbtxt"},
    {"snapshot", FORM_PROTO, HL_PROTO_SNAPSHOT, false, ".snapshot.pb"},
    {"json", FORM_JSON, HL_PROTO_NONE, true, ".json"},
    {"txt", FORM_TEXT, HL_PROTO_NONE, true, ".txt"},
    {"stablehlo", FORM_MLIR, HL_PROTO_NONE, true, ".mlir"},
    {"mhlo", FORM_MLIR, HL_PROTO_NONE, true, ".mhlo"},
    {"mlirbc", FORM_ARTIFACT, HL_PROTO_NONE, false, ".mlirbc"},
    {"dot", FORM_VIEW, HL_PROTO_NONE, true, ".dot"},
    {"svg", FORM_VIEW, HL_PROTO_NONE, true, ".svg"},
    {"html", FORM_VIEW, HL_PROTO_NONE, true, ".html"},
};

static const struct {
  const char *name;
  HlTextPreset preset;
  Form form;  // that it is a spelling of; MLIR: cli/mlir.c
} presets[] = {
    {"default", HL_TEXT_DEFAULT, FORM_TEXT},
    {"short", HL_TEXT_SHORT, FORM_TEXT},
    {"canonical", HL_TEXT_CANONICAL, FORM_TEXT},
    {"fingerprint", HL_TEXT_FINGERPRINT, FORM_TEXT},
    {"module-fingerprint", HL_TEXT_MODULE_FINGERPRINT, FORM_TEXT},
    {"default", HL_TEXT_DEFAULT, FORM_MLIR},
    {"generic", HL_TEXT_DEFAULT, FORM_MLIR},
};

// Words that people try.
static const struct {
  const char *word, *name;
} other_names[] = {{"text", "hlo"},
                   {"pb", "proto"},
                   {"mlir", "stablehlo"},
                   {"bc", "mlirbc"},
                   {"textproto", "pbtxt"}};

void cli_list_forms(void) {
  for (int k = 0; k < HL_COUNT_OF(targets); k++)
    printf("%s\n", targets[k].name);
}

void cli_list_presets(void) {
  for (int k = 0; k < HL_COUNT_OF(presets); k++)
    if (k == 0 || presets[k].preset != HL_TEXT_DEFAULT || strcmp(presets[k].name, "generic") == 0)
      printf("%s\n", presets[k].name);
}

static const Target *target_by_name(const char *name) {
  size_t n = strcspn(name, "=");
  for (int k = 0; k < HL_COUNT_OF(other_names); k++)
    if (strlen(other_names[k].word) == n && memcmp(other_names[k].word, name, n) == 0)
      return target_by_name(other_names[k].name);
  for (int k = 0; k < HL_COUNT_OF(targets); k++)
    if (strlen(targets[k].name) == n && memcmp(targets[k].name, name, n) == 0)
      return &targets[k];
  return NULL;
}

// The form that an output's name asks for, compression endings aside; the longest ending wins.
static const Target *target_by_ending(const char *path) {
  size_t n = strlen(path);
  if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
    n -= 3;
  else if (n > 4 && strcmp(path + n - 4, ".zst") == 0)
    n -= 4;
  const Target *best = NULL;
  for (int k = 0; k < HL_COUNT_OF(targets); k++) {
    size_t m = strlen(targets[k].ending);
    bool fits = n >= m && memcmp(path + n - m, targets[k].ending, m) == 0;
    if (fits && (!best || m > strlen(best->ending)))
      best = &targets[k];
  }
  return best;
}

static bool find_target(Cli *cli, const Target **out) {
  const char *to = cli_value(cli, "--to"), *path = cli_value(cli, "-o");
  if (path && strcmp(path, "-") == 0)
    path = NULL;
  *out = to ? target_by_name(to) : path ? target_by_ending(path) : &targets[0];
  if (*out)
    return true;
  if (!to) {
    cli_usage(cli, "cannot tell the form from the name '%s'; give --to", path);
    return false;
  }
  HlBuf known = {0};
  for (int k = 0; k < HL_COUNT_OF(targets); k++)
    hl_buf_printf(&known, "%s%s",
                  k == 0                         ? ""
                  : k + 1 < HL_COUNT_OF(targets) ? ", "
                                                 : " or ",
                  targets[k].name);
  cli_usage(cli, "unknown form '%s': %s", to, known.at);
  hl_buf_free(&known);
  return false;
}

// The spelling that --print asks for: not every form has every one. False after a usage message.
static bool find_preset(Cli *cli, const Target *target, HlTextPreset *out) {
  const char *wish = cli_value(cli, "--print");
  if (!wish)
    return true;
  HlBuf known = {0};
  for (int k = 0; k < HL_COUNT_OF(presets); k++) {
    if (presets[k].form != target->form)
      continue;
    if (strcmp(presets[k].name, wish) == 0) {
      *out = presets[k].preset;
      hl_buf_free(&known);
      return true;
    }
    hl_buf_printf(&known, "%s%s", known.n > 0 ? ", " : "", presets[k].name);
  }
  if (known.n > 0)
    cli_usage(cli, "unknown --print '%s' of the form %s: %s", wish, target->name, known.at);
  else
    cli_usage(cli, "--print is of text; %s has one spelling", target->name);
  hl_buf_free(&known);
  return false;
}

static bool find_options(Cli *cli, const Target *target, HlTextOptions *out) {
  *out = (HlTextOptions){0};
  if (!find_preset(cli, target, &out->preset))
    return false;
  if (cli_flag(cli, "--large-constants"))
    out->large_constants = HL_ON;
  if (cli_flag(cli, "--no-metadata"))
    out->metadata = out->frames = HL_OFF;
  return true;
}

static bool write_texts(Cli *cli, const HlFile *file, const HlTextOptions *options, HlBuf *out) {
  if (cli_value(cli, "--module") || file->n == 1) {
    const HlModule *m = cli_select(cli, file, cli->files[0]);
    if (m)
      cli_print_module(cli, m, options, out);
    return m != NULL;
  }
  for (int k = 0; k < file->n; k++) {
    if (k > 0)
      hl_buf_puts(out, "// -----\n\n");
    cli_print_module(cli, file->modules[k], options, out);
  }
  return true;
}

// A picture of the entry, or a page of all computations.
static void write_picture(Cli *cli, const Target *target, const HlModule *m, HlBuf *out) {
  HlViewOptions options = {.closed_fusions = cli_flag(cli, "--closed-fusions")};
  if (strcmp(target->name, "dot") == 0)
    hl_view_dot(cli->cx, m->entry, &options, out);
  else if (strcmp(target->name, "svg") == 0)
    hl_view_svg(cli->cx, m->entry, &options, out);
  else
    hl_view_page(cli->cx, m, &options, out);
}

// One module in a form that holds one.
static int write_module(Cli *cli, const Target *target, const HlFile *file, HlBuf *out) {
  const HlModule *m = cli_select(cli, file, cli->files[0]);
  if (!m)
    return CLI_USAGE;
  if (target->form == FORM_JSON || target->form == FORM_PROTO)
    cli_warn_elided(cli->cx, m);
  if (target->form == FORM_JSON)
    hl_proto_write_json(cli->cx, m, out);
  else if (target->form == FORM_VIEW)
    write_picture(cli, target, m, out);
  else if (target->form == FORM_ARTIFACT)
    cli_write_artifact(cli, m, out);
  else
    hl_proto_write(cli->cx, m, target->proto, target->as_text, &file->recorded, out);
  return CLI_OK;
}

static int write_form(Cli *cli, const Target *target, HlFile *file, const HlTextOptions *options,
                      HlBuf *out) {
  bool is_mhlo = strcmp(target->name, "mhlo") == 0;
  if (target->form == FORM_TEXT)
    return write_texts(cli, file, options, out) ? CLI_OK : CLI_USAGE;
  if (target->form == FORM_MLIR)
    return cli_write_mlir(cli, file, is_mhlo, out);
  if (target->form == FORM_ARTIFACT && file->n_trees > 0)
    return cli_write_artifact_of_tree(cli, file, out);
  return write_module(cli, target, file, out);
}

// Whether MLIR goes to the output without becoming HLO on the way.
static bool stays_mlir(const Cli *cli, const Target *target) {
  bool is_asked_for_more = cli_value(cli, "--arg-shapes") || cli_value(cli, "--entry");
  return !is_asked_for_more &&
         (target->form == FORM_ARTIFACT || strcmp(target->name, "stablehlo") == 0);
}

// MHLO becomes StableHLO by way of HLO.
static bool lower_mhlo(Cli *cli, HlFile *file) {
  bool is_mhlo = false;
  for (int k = 0; k < file->n_trees; k++) {
    const HlMlOp *top = file->trees[k]->module;
    for (const HlMlOp *op = hl_ml_next(top, top); op && !is_mhlo; op = hl_ml_next(op, top))
      is_mhlo = op->dialect == HL_ML_MHLO;
  }
  return !is_mhlo || hl_load_lower(cli->cx, NULL, file);
}

static int convert(Cli *cli, const Target *target, const HlTextOptions *options) {
  HlFile file;
  HlBuf out = {0};
  HlLoadOptions how = cli_load_options(cli);
  how.trees_only = stays_mlir(cli, target);
  if (!hl_load(cli->cx, cli->files[0], &how, &file) || !lower_mhlo(cli, &file)) {
    hl_file_free(&file);
    return cli_flush(cli);
  }
  int usage = write_form(cli, target, &file, options, &out);
  const char *path = cli_value(cli, "-o");
  if (!usage && hl_cx_n_errors(cli->cx) == 0)
    hl_write_file(cli->cx, path ? path : "-", out.at, out.n);
  hl_buf_free(&out);
  hl_file_free(&file);
  return cli_worse(usage, cli_flush(cli));
}

static int run(Cli *cli) {
  const Target *target;
  HlTextOptions options;
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  if (!find_target(cli, &target) || !find_options(cli, target, &options) ||
      !cli_mlir_version(cli, NULL) || !cli_check_dialect(cli) ||
      !cli_may_write(cli, cli_value(cli, "-o"), !target->as_text))
    return CLI_USAGE;
  return convert(cli, target, &options);
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
        "StableHLO or an artifact; each function that `run` would run becomes a module. What the "
        "output has no\n"
        "word for is said in a note.",
    .examples = "  hilo convert m.hlo --to=stablehlo            as StableHLO\n"
                "  hilo convert m.mlir -o m.hlo.pb.gz           the form follows from the name\n"
                "  hilo convert m.hlo --print=canonical         what XLA's canonical form is\n"
                "  hilo convert m.hlo --to=html -o m.html       a page to look at\n",
    .options = options,
    .run = run,
};
