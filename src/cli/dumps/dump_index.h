// cli/dumps/dump_index.h: what the commands over an index share.
#ifndef CLI_DUMPS_DUMP_INDEX_H
#define CLI_DUMPS_DUMP_INDEX_H

#include "cli/cli.h"
#include "hilo/index.h"

#define CLI_INDEX_OPTION \
  { "--index", "FILE", "where the index is (default: DIR/hilo-index.db, or in the user's cache)" }

// The index of a directory, up to date where `update` says so. NULL after reporting in the context.
HlIndex *cli_open_index(Cli *cli, const char *directory, bool anew, bool update,
                        HlIndexCounts *counts);

#endif
