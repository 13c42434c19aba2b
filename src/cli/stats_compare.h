// cli/stats_compare.h: the numbers of two programs side by side: stats --compare.
#ifndef CLI_STATS_COMPARE_H
#define CLI_STATS_COMPARE_H

#include "cli/cli.h"

// The whole command, of two operands: files, or directories, whose modules are added up. The exit status.
int cli_stats_compare(Cli *cli);

#endif
