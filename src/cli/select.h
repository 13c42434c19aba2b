// cli/select.h: which module of a file a command works on.
#ifndef CLI_SELECT_H
#define CLI_SELECT_H

#include "cli/cli.h"

#define CLI_MODULE_OPTION \
  { "--module", "N|NAME", "which module of a file that holds several, from 0" }

#define CLI_PARTITIONS_OPTION                                                      \
  {                                                                                \
    "--partitions", "N",                                                           \
        "how many partitions a program has, where its header does not say: JAX's " \
        "lowered text, compiled for several devices"                               \
  }

// The module of --module, or the only one; NULL after a usage message. Borrowed from the file.
HlModule *cli_select(const Cli *cli, const HlFile *file, const char *path);

// Whether --partitions is a number; a usage message otherwise.
bool cli_has_partitions(const Cli *cli);
// Sets the number of partitions that --partitions asks for, or warns where the module's shardings are for more than it has.
void cli_set_partitions(const Cli *cli, HlModule *m);

#endif
