// cli/select.h: which module of a file a command works on.
#ifndef CLI_SELECT_H
#define CLI_SELECT_H

#include "cli/cli.h"

#define CLI_MODULE_OPTION \
  { "--module", "N|NAME", "which module of a file that holds several, from 0" }

// The module of --module, or the only one; NULL after a usage message. Borrowed from the file.
HlModule *cli_select(const Cli *cli, const HlFile *file, const char *path);

#endif
