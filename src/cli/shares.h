// cli/shares.h: where a module's cost is, and who holds its memory: hilo stats --by, --peak.
#ifndef CLI_SHARES_H
#define CLI_SHARES_H

#include "cli/cli.h"
#include "hilo/shares.h"
#include "hilo/tool.h"

typedef struct CliShares {
  bool costs, peak;        // --by, --top or --sort; --peak
  HlShareBy by;
  HlShareOrder order;
  int64_t top, depth;
  const HlTarget *target;  // NULL: each module's own
  HlArena *arena;
} CliShares;

#define CLI_SHARES_OPTIONS                                                                             \
  {"--by", "WHAT",                                                                                     \
   "a table of costs by instruction, op, scope (op_name), source (line), computation or loop"},        \
      {"--sort", "COST",                                                                               \
       "its order: time (default, estimated), flops, bytes, transcendentals, collective, steps"},      \
      {"--top", "N", "its rows, and those of --peak; default 10, 0: all"},                             \
      {"--depth", "N", "parts of a scope's path that count; default: all"},                            \
      {"--peak", NULL, "who is alive when memory is fullest, and what would save some"},               \
      {"--target", "NAME|FILE",                                                                        \
       "the device that times and buffers are estimated for ('hilo targets'); default: the usual "     \
       "one of the module's kind"}

// False after reporting. cli_shares_free in either case.
bool cli_shares_read(Cli *cli, CliShares *out);
void cli_shares_free(CliShares *s);
// Appends the tables that were asked for, or, with --json, members of the module's object. False after reporting.
bool cli_shares(Cli *cli, const CliShares *s, const HlModule *m, HlBuf *out);

#endif
