// cli/form.c: the forms that modules are written in, and writing them.
#include "cli/form.h"

#include <string.h>

#include "cli/mlir.h"
#include "cli/select.h"

static const struct {
  const char *name;
  HlTextPreset preset;
  FormKind kind;  // that it is a spelling of; MLIR: cli/mlir.c
} presets[] = {
    {"default", HL_TEXT_DEFAULT, FORM_TEXT},
    {"short", HL_TEXT_SHORT, FORM_TEXT},
    {"canonical", HL_TEXT_CANONICAL, FORM_TEXT},
    {"fingerprint", HL_TEXT_FINGERPRINT, FORM_TEXT},
    {"module-fingerprint", HL_TEXT_MODULE_FINGERPRINT, FORM_TEXT},
    {"default", HL_TEXT_DEFAULT, FORM_MLIR},
    {"generic", HL_TEXT_DEFAULT, FORM_MLIR},
};

void cli_list_forms(void) {
  for (int k = 0; form_at(k); k++)
    printf("%s\n", form_at(k)->name);
}

void cli_list_presets(void) {
  for (int k = 0; k < HL_COUNT_OF(presets); k++)
    if (k == 0 || presets[k].preset != HL_TEXT_DEFAULT || strcmp(presets[k].name, "generic") == 0)
      printf("%s\n", presets[k].name);
}

// The form that an output's name asks for, compression endings aside; the longest ending wins.
static const Form *form_by_ending(const char *path) {
  size_t n = strlen(path);
  if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
    n -= 3;
  else if (n > 4 && strcmp(path + n - 4, ".zst") == 0)
    n -= 4;
  const Form *best = NULL;
  for (int k = 0; form_at(k); k++) {
    const Form *form = form_at(k);
    size_t m = strlen(form->ending);
    bool fits = n >= m && memcmp(path + n - m, form->ending, m) == 0;
    if (fits && (!best || m > strlen(best->ending)))
      best = form;
  }
  return best;
}

bool cli_find_form(Cli *cli, const Form *other, const Form **out) {
  const char *to = cli_value(cli, "--to"), *path = cli_value(cli, "-o");
  if (path && strcmp(path, "-") == 0)
    path = NULL;
  *out = to ? form_by_name(to) : path ? form_by_ending(path) : form_at(0);
  if (!to && !*out)
    *out = other;
  if (*out)
    return true;
  if (!to) {
    cli_usage(cli, "cannot tell the form from the name '%s'; give --to", path);
    return false;
  }
  HlBuf known = {0};
  for (int k = 0; form_at(k); k++)
    hl_buf_printf(&known, "%s%s", k == 0 ? "" : form_at(k + 1) ? ", " : " or ", form_at(k)->name);
  cli_usage(cli, "unknown form '%s': %s", to, known.at);
  hl_buf_free(&known);
  return false;
}

bool cli_find_preset(Cli *cli, const Form *form, HlTextPreset *out) {
  const char *wish = cli_value(cli, "--print");
  if (!wish)
    return true;
  HlBuf known = {0};
  for (int k = 0; k < HL_COUNT_OF(presets); k++) {
    if (presets[k].kind != form->kind)
      continue;
    if (strcmp(presets[k].name, wish) == 0) {
      *out = presets[k].preset;
      hl_buf_free(&known);
      return true;
    }
    hl_buf_printf(&known, "%s%s", known.n > 0 ? ", " : "", presets[k].name);
  }
  if (known.n > 0)
    cli_usage(cli, "unknown --print '%s' of the form %s: %s", wish, form->name, known.at);
  else
    cli_usage(cli, "--print is of text; %s has one spelling", form->name);
  hl_buf_free(&known);
  return false;
}

static bool is_mhlo(const Form *form) {
  return strcmp(form->name, "mhlo") == 0;
}

bool cli_write_module(Cli *cli, const Form *form, const HlModule *m, const HlRecorded *recorded,
                      const HlTextOptions *options, HlBuf *out) {
  if (form->kind == FORM_TEXT) {
    cli_print_module(cli, m, options, out);
    return true;
  }
  if (form->kind == FORM_MLIR)
    return cli_write_mlir_module(cli, m, is_mhlo(form), out);
  FormOptions how = {.view.closed_fusions = cli_flag(cli, "--closed-fusions"), .recorded = recorded};
  return cli_mlir_version(cli, &how.version) && form_write(cli->cx, form, m, &how, out);
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

int cli_write_form(Cli *cli, const Form *form, HlFile *file, const HlTextOptions *options,
                   HlBuf *out) {
  if (form->kind == FORM_TEXT)
    return write_texts(cli, file, options, out) ? CLI_OK : CLI_USAGE;
  if (form->kind == FORM_MLIR)
    return cli_write_mlir(cli, file, is_mhlo(form), out);
  if (form->kind == FORM_ARTIFACT && file->n_trees > 0)
    return cli_write_artifact_of_tree(cli, file, out);
  const HlModule *m = cli_select(cli, file, cli->files[0]);
  if (m)
    cli_write_module(cli, form, m, &file->recorded, options, out);
  return m ? CLI_OK : CLI_USAGE;
}
