// cli/form.h: the forms that modules are written in.
#ifndef CLI_FORM_H
#define CLI_FORM_H

#include "cli/cli.h"
#include "cli/load.h"
#include "hilo/proto.h"
#include "hilo/text.h"

typedef enum CliFormKind {
  CLI_FORM_TEXT,
  CLI_FORM_PROTO,
  CLI_FORM_JSON,
  CLI_FORM_MLIR,
  CLI_FORM_ARTIFACT,
  CLI_FORM_VIEW
} CliFormKind;

typedef struct CliForm {
  const char *name;
  CliFormKind kind;
  HlProtoForm proto;
  bool as_text;
  const char *ending;  // of a file name that means this form
} CliForm;

// The form that --to asks for, or else the name of -o; text without both. A name that means none: `other`, or if that is
// NULL a usage message and false.
bool cli_find_form(Cli *cli, const CliForm *other, const CliForm **out);
extern const CliForm *const cli_form_text;
// The spelling that --print asks for: not every form has every one. False after a usage message.
bool cli_find_preset(Cli *cli, const CliForm *form, HlTextPreset *out);
// Appends one module; `recorded`: of a snapshot, or NULL. False after reporting.
bool cli_write_module(Cli *cli, const CliForm *form, const HlModule *m, const HlRecorded *recorded,
                      const HlTextOptions *options, HlBuf *out);
// Appends the modules of a file, or the one of --module where the form holds one; the exit status of the usage.
int cli_write_form(Cli *cli, const CliForm *form, HlFile *file, const HlTextOptions *options,
                   HlBuf *out);

#endif
