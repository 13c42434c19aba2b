// cli/opt.h: what 'hilo opt' prints, and the decisions it reads.
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include "cli/cli.h"
#include "hilo/check_each.h"
#include "hilo/pass.h"
#include "hilo/session.h"

int cli_list_passes(const Cli *cli);
int cli_list_rules(const Cli *cli);

// With --json these go into the report of the module, otherwise to `out`.

// What each pass did; as text a line for each that changed something, on standard error.
void cli_print_steps(Cli *cli, const HlEngine *engine);
// What a dry run found; --decisions reads the JSON back.
void cli_print_rewrites(Cli *cli, const HlEngine *engine, HlBuf *out);
// For each instruction the rewrite that made it.
void cli_print_provenance(Cli *cli, const HlEngine *engine, const HlModule *m, HlBuf *out);
// "module m: every pass kept the results ...", without the end of a line.
void cli_put_kept(const HlModule *m, const HlCheckEach *check, HlBuf *out);
void cli_print_check(Cli *cli, const HlModule *m, const HlCheckEach *check, HlMaybeFloat tolerance,
                     HlBuf *out);

// What the module runs as on the processor, step by step, beside its HLO. False after reporting.
typedef enum CliEmit { CLI_EMIT_NONE, CLI_EMIT_TILE, CLI_EMIT_ASM } CliEmit;
bool cli_print_code(Cli *cli, HlCompiled *compiled, CliEmit what, const HlTextOptions *text,
                    HlBuf *out);

// A list of decisions from a JSON file: [{"pass": ..., "rule": ..., "computation": ..., "instruction": ..., "with": ...}], or
// the report of --dry --json, whose rewrites they are.
typedef struct CliDecisions {
  HlArena *arena;
  HlDecision *at;
  bool *met;  // which have allowed a rewrite in some module
  int n;
} CliDecisions;
bool cli_read_decisions(Cli *cli, const char *path, CliDecisions *out);
// Warns of decisions about instructions that none of the modules has: nothing would come of them.
void cli_check_decisions(Cli *cli, const CliDecisions *decisions, HlModule *const *modules, int n);
void cli_note_decisions(CliDecisions *decisions, const HlEngine *engine);
// Warns, at the end, of decisions that have allowed nothing.
void cli_end_decisions(Cli *cli, const CliDecisions *decisions);
void cli_decisions_free(CliDecisions *decisions);

#endif
