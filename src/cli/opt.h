// cli/opt.h: what 'hilo opt' prints, and the decisions it reads.
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include "cli/cli.h"
#include "hilo/check_each.h"
#include "hilo/pass.h"

int cli_list_passes(const Cli *cli);
int cli_list_rules(const Cli *cli);

// A line a pass that changed something, on standard error.
void cli_print_steps(const Cli *cli, const HlEngine *engine);
// What a dry run found: text, or JSON that --decisions reads back. Several modules go into one list, which the
// second function ends.
void cli_print_rewrites(const Cli *cli, const HlEngine *engine, HlBuf *out);
void cli_end_rewrites(const Cli *cli, HlBuf *out);
// For each instruction the rewrite that made it.
void cli_print_provenance(const HlEngine *engine, const HlModule *m, HlBuf *out);
void cli_print_check(const Cli *cli, const HlModule *m, const HlCheckEach *check, HlBuf *out);

// A list of decisions from a JSON file: [{"pass": ..., "rule": ..., "computation": ..., "instruction": ..., "with": ...}].
typedef struct CliDecisions {
  HlArena *arena;
  HlDecision *at;
  int n;
} CliDecisions;
bool cli_read_decisions(Cli *cli, const char *path, CliDecisions *out);
void cli_decisions_free(CliDecisions *decisions);

#endif
