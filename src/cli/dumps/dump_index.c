// cli/dumps/dump_index.c: opens the index of a directory for a command.
#include "cli/dumps/dump_index.h"

static void show_progress(void *user, int64_t k, int64_t n, const char *path) {
  cli_progress(user, "reading %lld of %lld: %s", (long long)k + 1, (long long)n, path);
}

HlIndex *cli_open_index(Cli *cli, const char *directory, bool anew, bool update,
                        HlIndexCounts *counts) {
  const HlIndexOptions options = {.path = cli_value(cli, "--index"), .anew = anew};
  *counts = (HlIndexCounts){0};
  HlIndex *index = hl_index_open(cli->cx, directory, &options);
  if (index && update && !hl_index_update(cli->cx, index, show_progress, cli, counts)) {
    hl_index_free(index);
    index = NULL;
  }
  cli_progress(cli, NULL);
  return index;
}
