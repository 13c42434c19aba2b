// cli/form.c: the forms that modules are written in, and writing them.
#include "cli/form.h"

#include <string.h>

#include "cli/mlir.h"
#include "cli/select.h"
#include "hilo/view.h"

static const CliForm forms[] = {
    {"hlo", CLI_FORM_TEXT, HL_PROTO_NONE, true, ".hlo"},
    {"proto", CLI_FORM_PROTO, HL_PROTO_MODULE, false, ".pb"},
    {"hloproto", CLI_FORM_PROTO, HL_PROTO_HLO, false, ".hlo.pb"},
    {"pbtxt", CLI_FORM_PROTO, HL_PROTO_HLO, true, ".pbtxt"},
    {"snapshot", CLI_FORM_PROTO, HL_PROTO_SNAPSHOT, false, ".snapshot.pb"},
    {"json", CLI_FORM_JSON, HL_PROTO_NONE, true, ".json"},
    {"txt", CLI_FORM_TEXT, HL_PROTO_NONE, true, ".txt"},
    {"stablehlo", CLI_FORM_MLIR, HL_PROTO_NONE, true, ".mlir"},
    {"mhlo", CLI_FORM_MLIR, HL_PROTO_NONE, true, ".mhlo"},
    {"mlirbc", CLI_FORM_ARTIFACT, HL_PROTO_NONE, false, ".mlirbc"},
    {"dot", CLI_FORM_VIEW, HL_PROTO_NONE, true, ".dot"},
    {"svg", CLI_FORM_VIEW, HL_PROTO_NONE, true, ".svg"},
    {"html", CLI_FORM_VIEW, HL_PROTO_NONE, true, ".html"},
};

static const struct {
  const char *name;
  HlTextPreset preset;
  CliFormKind kind;  // that it is a spelling of; MLIR: cli/mlir.c
} presets[] = {
    {"default", HL_TEXT_DEFAULT, CLI_FORM_TEXT},
    {"short", HL_TEXT_SHORT, CLI_FORM_TEXT},
    {"canonical", HL_TEXT_CANONICAL, CLI_FORM_TEXT},
    {"fingerprint", HL_TEXT_FINGERPRINT, CLI_FORM_TEXT},
    {"module-fingerprint", HL_TEXT_MODULE_FINGERPRINT, CLI_FORM_TEXT},
    {"default", HL_TEXT_DEFAULT, CLI_FORM_MLIR},
    {"generic", HL_TEXT_DEFAULT, CLI_FORM_MLIR},
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
  for (int k = 0; k < HL_COUNT_OF(forms); k++)
    printf("%s\n", forms[k].name);
}

void cli_list_presets(void) {
  for (int k = 0; k < HL_COUNT_OF(presets); k++)
    if (k == 0 || presets[k].preset != HL_TEXT_DEFAULT || strcmp(presets[k].name, "generic") == 0)
      printf("%s\n", presets[k].name);
}

static const CliForm *form_by_name(const char *name) {
  size_t n = strcspn(name, "=");
  for (int k = 0; k < HL_COUNT_OF(other_names); k++)
    if (strlen(other_names[k].word) == n && memcmp(other_names[k].word, name, n) == 0)
      return form_by_name(other_names[k].name);
  for (int k = 0; k < HL_COUNT_OF(forms); k++)
    if (strlen(forms[k].name) == n && memcmp(forms[k].name, name, n) == 0)
      return &forms[k];
  return NULL;
}

// The form that an output's name asks for, compression endings aside; the longest ending wins.
static const CliForm *form_by_ending(const char *path) {
  size_t n = strlen(path);
  if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
    n -= 3;
  else if (n > 4 && strcmp(path + n - 4, ".zst") == 0)
    n -= 4;
  const CliForm *best = NULL;
  for (int k = 0; k < HL_COUNT_OF(forms); k++) {
    size_t m = strlen(forms[k].ending);
    bool fits = n >= m && memcmp(path + n - m, forms[k].ending, m) == 0;
    if (fits && (!best || m > strlen(best->ending)))
      best = &forms[k];
  }
  return best;
}

const CliForm *const cli_form_text = &forms[0];

bool cli_find_form(Cli *cli, const CliForm *other, const CliForm **out) {
  const char *to = cli_value(cli, "--to"), *path = cli_value(cli, "-o");
  if (path && strcmp(path, "-") == 0)
    path = NULL;
  *out = to ? form_by_name(to) : path ? form_by_ending(path) : cli_form_text;
  if (!to && !*out)
    *out = other;
  if (*out)
    return true;
  if (!to) {
    cli_usage(cli, "cannot tell the form from the name '%s'; give --to", path);
    return false;
  }
  HlBuf known = {0};
  for (int k = 0; k < HL_COUNT_OF(forms); k++)
    hl_buf_printf(&known, "%s%s",
                  k == 0                       ? ""
                  : k + 1 < HL_COUNT_OF(forms) ? ", "
                                               : " or ",
                  forms[k].name);
  cli_usage(cli, "unknown form '%s': %s", to, known.at);
  hl_buf_free(&known);
  return false;
}

bool cli_find_preset(Cli *cli, const CliForm *form, HlTextPreset *out) {
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

static bool is_mhlo(const CliForm *form) {
  return strcmp(form->name, "mhlo") == 0;
}

// A picture of the entry, or a page of all computations.
static void write_picture(Cli *cli, const CliForm *form, const HlModule *m, HlBuf *out) {
  HlViewOptions options = {.closed_fusions = cli_flag(cli, "--closed-fusions")};
  if (strcmp(form->name, "dot") == 0)
    hl_view_dot(cli->cx, m->entry, &options, out);
  else if (strcmp(form->name, "svg") == 0)
    hl_view_svg(cli->cx, m->entry, &options, out);
  else
    hl_view_page(cli->cx, m, &options, out);
}

bool cli_write_module(Cli *cli, const CliForm *form, const HlModule *m, const HlRecorded *recorded,
                      const HlTextOptions *options, HlBuf *out) {
  if (form->kind == CLI_FORM_PROTO || form->kind == CLI_FORM_JSON)
    cli_warn_elided(cli->cx, m);
  switch (form->kind) {
  case CLI_FORM_TEXT: cli_print_module(cli, m, options, out); return true;
  case CLI_FORM_PROTO: return hl_proto_write(cli->cx, m, form->proto, form->as_text, recorded, out);
  case CLI_FORM_JSON: hl_proto_write_json(cli->cx, m, out); return true;
  case CLI_FORM_MLIR: return cli_write_mlir_module(cli, m, is_mhlo(form), out);
  case CLI_FORM_ARTIFACT: return cli_write_artifact(cli, m, out);
  case CLI_FORM_VIEW: write_picture(cli, form, m, out); return true;
  }
  return false;
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

int cli_write_form(Cli *cli, const CliForm *form, HlFile *file, const HlTextOptions *options,
                   HlBuf *out) {
  if (form->kind == CLI_FORM_TEXT)
    return write_texts(cli, file, options, out) ? CLI_OK : CLI_USAGE;
  if (form->kind == CLI_FORM_MLIR)
    return cli_write_mlir(cli, file, is_mhlo(form), out);
  if (form->kind == CLI_FORM_ARTIFACT && file->n_trees > 0)
    return cli_write_artifact_of_tree(cli, file, out);
  const HlModule *m = cli_select(cli, file, cli->files[0]);
  if (m)
    cli_write_module(cli, form, m, &file->recorded, options, out);
  return m ? CLI_OK : CLI_USAGE;
}
