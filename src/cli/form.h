// cli/form.h: which form a module is written in.
#ifndef CLI_FORM_H
#define CLI_FORM_H

#include "cli/cli.h"
#include "cli/load.h"
#include "tool/form.h"

// The form that --to asks for, or else the name of -o; text without both. A name that means none: `other`, or if that is
// NULL a usage message and false.
bool cli_find_form(Cli *cli, const Form *other, const Form **out);
// The spelling that --print asks for: not every form has every one. False after a usage message.
bool cli_find_preset(Cli *cli, const Form *form, HlTextPreset *out);
// Appends one module; `recorded`: of a snapshot, or NULL. False after reporting.
bool cli_write_module(Cli *cli, const Form *form, const HlModule *m, const HlRecorded *recorded,
                      const HlTextOptions *options, HlBuf *out);
// Appends the modules of a file, or the one of --module where the form holds one; the exit status of the usage.
int cli_write_form(Cli *cli, const Form *form, HlFile *file, const HlTextOptions *options,
                   HlBuf *out);

#endif
