// cli/json.h: reports as JSON (docs/json.md).
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "cli/cli.h"
#include "hilo/exported.h"
#include "tool/json.h"

// The version of the schemas in schemas/: a key that goes or means something else makes it another, a new key does not.
enum { CLI_JSON_VERSION = 1 };

// --- Reports: an array of one object a file, or a thing of a table ---
// Starts the next object and says whose report it is; NULL: the running command's.
void json_begin_row(HlBuf *out, const char *report);
void json_end_row(HlBuf *out);
// Prints a table: its lines, or with --json its rows, whose array this ends; frees. The exit status.
int json_print_table(const Cli *cli, HlBuf *out);

// A command goes file by file; without --json these do nothing but cli_end_file, which is cli_flush then. The report is
// cli->report.
void cli_begin_file(Cli *cli, const char *path);
// What the context holds goes into the report and is forgotten; the exit status that the first error asks for.
int cli_end_file(Cli *cli);
// After the last file.
void cli_end_report(Cli *cli);
// Appends "diagnostics": [...], what the context holds from `first` on.
void json_diagnostics(const Cli *cli, HlBuf *out, int first);
// Appends "export": {...}, all of it but the module.
void json_exported(HlBuf *out, const HlExported *exported);

#endif
