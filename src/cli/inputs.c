// cli/inputs.c: on which inputs a module runs, and by how many threads.
#include <string.h>

#include "cli/inputs.h"

enum { MOST_THREADS = 1024 };

static bool read_elided(const Cli *cli, HlElided *out) {
  const char *wish = cli_value(cli, "--elided");
  if (!wish || strcmp(wish, "random") == 0)
    *out = HL_ELIDED_RANDOM;
  else if (strcmp(wish, "zero") == 0)
    *out = HL_ELIDED_ZERO;
  else if (strcmp(wish, "refuse") == 0)
    *out = HL_ELIDED_REFUSE;
  else
    return cli_usage(cli, "unknown --elided '%s': random, zero or refuse", wish) == CLI_OK;
  return true;
}

bool cli_read_inputs(const Cli *cli, HlReplayOptions *out) {
  int64_t seed = 42;
  if (!cli_integer(cli, "--seed", 0, INT64_MAX, &seed) || !read_elided(cli, &out->eval.elided))
    return false;
  out->args = cli_value(cli, "--args");
  out->seed = out->eval.seed = (uint64_t)seed;
  return true;
}

bool cli_read_threads(const Cli *cli, int *out) {
  int64_t threads = 0;
  if (!cli_integer(cli, "--threads", 1, MOST_THREADS, &threads))
    return false;
  *out = (int)threads;
  return true;
}
