// Writes StableHLO, MHLO and portable artifacts.
#include "cli/mlir.h"

#include <stdio.h>
#include <string.h>

#include "cli/load.h"
#include "cli/select.h"

HlLoadOptions cli_load_options(const Cli *cli) {
  return (HlLoadOptions){.entry = cli_value(cli, "--entry"),
                         .arg_shapes = cli_value(cli, "--arg-shapes"),
                         .args = cli_value(cli, "--args"),
                         .consts_as_parameters = !cli_value(cli, "--args")};
}

static void print_tree(const Cli *cli, const HlMlTree *tree, HlBuf *out) {
  const char *print = cli_value(cli, "--print");
  HlMlTextOptions options = {.generic = print && strcmp(print, "generic") == 0,
                             .locations = cli_flag(cli, "--locations"),
                             .large_constants = true};
  hl_buf_puts(out, out->n > 0 ? "// -----\n\n" : "");
  hl_ml_text_print(tree, &options, out);
}

static bool print_module(Cli *cli, const HlModule *m, bool mhlo, HlBuf *out) {
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
      print_module(cli, m, mhlo, out);
    return m ? CLI_OK : CLI_USAGE;
  }
  for (int k = 0; k < file->n; k++)
    if (!print_module(cli, file->modules[k], mhlo, out))
      break;
  return CLI_OK;
}

// --- Artifacts -----------------------------------------------------------------------------------------

bool cli_mlir_version(const Cli *cli, HlMlVersion *out) {
  const char *to = cli_value(cli, "--to"), *text = to ? strchr(to, '=') : NULL;
  HlMlVersion version = HL_ML_NEWEST;
  char more;
  if (text) {
    version.patch = 0;
    int n = sscanf(text + 1, "%d.%d.%d%c", &version.major, &version.minor, &version.patch, &more);
    if (n < 2 || n > 3)
      return cli_usage(cli, "'%s' is no version; expected one like 1.13.0", text + 1) == CLI_OK;
  }
  if (out)
    *out = version;
  return true;
}

bool cli_write_artifact(Cli *cli, const HlModule *m, HlBuf *out) {
  HlMlVersion version;
  HlMlTree *tree = hl_ml_from_hlo(cli->cx, m, false);
  bool ok = tree && cli_mlir_version(cli, &version) && hl_ml_artifact_write(cli->cx, tree, version, out);
  hl_ml_free(tree);
  return ok;
}

int cli_write_artifact_of_tree(Cli *cli, const HlFile *file, HlBuf *out) {
  HlMlVersion version;
  if (file->n_trees > 1)
    return cli_usage(cli, "the file has %d sections; an artifact holds one program", file->n_trees);
  if (!cli_mlir_version(cli, &version))
    return CLI_USAGE;
  hl_ml_artifact_write(cli->cx, file->trees[0], version, out);
  return CLI_OK;
}
