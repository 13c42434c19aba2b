// Writes StableHLO, MHLO and portable artifacts.
#include "cli/mlir.h"

#include <string.h>

#include "cli/form.h"
#include "cli/load.h"
#include "cli/select.h"

bool cli_check_dialect(const Cli *cli) {
  const char *wish = cli_value(cli, "--xla");
  HlDialect dialect;
  if (!wish || hl_dialect_by_text(hl_str(wish), &dialect))
    return true;
  HlBuf all = {0};
  for (int k = HL_XLA_UNTOLD + 1; k < HL_DIALECT_COUNT; k++)
    hl_buf_printf(&all, "%s%s", all.n ? ", " : "", hl_dialect_text((HlDialect)k));
  cli_usage(cli, "unknown --xla '%s': %s", wish, all.at);
  hl_buf_free(&all);
  return false;
}

HlLoadOptions cli_load_options(const Cli *cli) {
  const char *wish = cli_value(cli, "--xla");
  HlDialect dialect = HL_XLA_UNTOLD;
  if (wish)
    hl_dialect_by_text(hl_str(wish), &dialect);
  return (HlLoadOptions){.entry = cli_value(cli, "--entry"),
                         .arg_shapes = cli_value(cli, "--arg-shapes"),
                         .args = cli_value(cli, "--args"),
                         .consts_as_parameters = !cli_value(cli, "--args"),
                         .verify = !cli_flag(cli, "--no-verify"),
                         .structure = true,
                         .dialect = dialect};
}

static void print_tree(const Cli *cli, const HlMlTree *tree, HlBuf *out) {
  const char *print = cli_value(cli, "--print");
  HlMlTextOptions options = {.generic = print && strcmp(print, "generic") == 0,
                             .locations = cli_flag(cli, "--locations"),
                             .large_constants = true};
  hl_buf_puts(out, out->n > 0 ? "// -----\n\n" : "");
  hl_ml_text_print(tree, &options, out);
}

bool cli_write_mlir_module(Cli *cli, const HlModule *m, bool mhlo, HlBuf *out) {
  HlMlTree *tree = hl_ml_from_hlo(cli->cx, m, mhlo);
  if (tree)
    print_tree(cli, tree, out);
  hl_ml_free(tree);
  return tree != NULL;
}

int cli_write_mlir(Cli *cli, const HlFile *file, bool mhlo, HlBuf *out) {
  for (int k = 0; k < file->n_trees; k++)
    print_tree(cli, file->trees[k], out);
  if (cli_value(cli, "--module")) {
    const HlModule *m = cli_select(cli, file, cli->files[0]);
    if (m)
      cli_write_mlir_module(cli, m, mhlo, out);
    return m ? CLI_OK : CLI_USAGE;
  }
  for (int k = 0; k < file->n; k++)
    if (!cli_write_mlir_module(cli, file->modules[k], mhlo, out))
      break;
  return CLI_OK;
}

// --- Artifacts -----------------------------------------------------------------------------------------

bool cli_mlir_version(const Cli *cli, HlMlVersion *out) {
  const char *to = cli_value(cli, "--to"), *text = to ? strchr(to, '=') : NULL;
  HlMlVersion version = hl_ml_portable_version();
  if (text && !hl_ml_version_of(text + 1, &version))
    return cli_usage(cli,
                     "'%s' is no version; expected one like 1.16.2, or newest, week_4, week_12",
                     text + 1) == CLI_OK;
  if (out)
    *out = version;
  return true;
}

static bool write_tree(Cli *cli, HlMlTree *tree, HlBuf *out) {
  HlMlVersion version;
  return cli_mlir_version(cli, &version) && form_write_artifact(cli->cx, tree, version, out);
}

// The first op of CHLO that no artifact can hold; NULL: none.
static const HlMlOp *find_chlo(const HlMlTree *tree) {
  for (const HlMlOp *op = hl_ml_next(tree->module, tree->module); op;
       op = hl_ml_next(op, tree->module))
    if (op->dialect == HL_ML_CHLO)
      return op;
  return NULL;
}

// What CHLO says for short is written out on the way through HLO.
static void write_through_hlo(Cli *cli, HlFile *file, const HlMlOp *because, HlBuf *out) {
  hl_tell(cli->cx, hl_ml_pos(file->trees[0], because),
          "artifacts have no %s: the program goes through HLO, which expands it",
          because->name->text);
  if (!hl_load_lower(cli->cx, NULL, file))
    return;
  if (file->n == 1)
    cli_write_module(cli, form_by_name("mlirbc"), file->modules[0], NULL, NULL, out);
  else
    hl_error(cli->cx, (HlPos){0},
             "the file holds %d programs; an artifact holds one: name it with --entry", file->n);
}

int cli_write_artifact_of_tree(Cli *cli, HlFile *file, HlBuf *out) {
  if (file->n_trees > 1)
    return cli_usage(cli, "the file has %d sections; an artifact holds one program", file->n_trees);
  hl_ml_make_portable(file->trees[0]);
  const HlMlOp *chlo = find_chlo(file->trees[0]);
  if (chlo)
    write_through_hlo(cli, file, chlo, out);
  else
    write_tree(cli, file->trees[0], out);
  return CLI_OK;
}
