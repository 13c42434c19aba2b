// cli/rewrite/rewrite.h: what the modes of 'hilo rewrite' share.
#ifndef CLI_REWRITE_H
#define CLI_REWRITE_H

#include "cli/cli.h"
#include "hilo/egraph.h"
#include "hilo/trajectory.h"

// What the options ask for.
typedef struct Rewrite {
  const char *path;  // of the module that comes now
  HlEnvSetting setting;
  HlPolicyOptions policy;
  HlEgraphOptions saturation;
  HlArena *arena;
  HlRuleSet *rules;
} Rewrite;

// A mode: what to do with a module. The first whose option is given is taken; that of policies when none is.
typedef struct RewriteMode {
  const char *option;
  // Appends to `out`, or with --json to the module's object in cli->report; `*result` becomes what is written to -o, the caller's, or
  // stays NULL. False after reporting.
  bool (*run)(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out);
} RewriteMode;

bool rewrite_by_policy(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out);
bool rewrite_list(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out);
bool rewrite_saturate(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out);
bool rewrite_choose(Cli *cli, const Rewrite *plan, HlModule *m, HlModule **result, HlBuf *out);

// Options that say which environment, and reading them; shared with 'hilo env'. False after a usage message.
#define REWRITE_ENV_OPTIONS                                                                       \
  {"--env", "NAME", "which environment (--list-envs; default: simplify)"},                        \
      {"--target", "NAME|FILE", "the device whose costs count: as of 'hilo opt'"},                \
      {"--metric", "NAME", "what is to get less: time (default), kernels, bytes, flops, "         \
                           "instructions, memory, measured, compile"},                            \
      {"--reward", "KIND", "delta (default), relative or absolute"},                              \
      {"--actions", "KIND", "one, all, sites or passes, instead of the environment's"},           \
      {"--first", "LIST", "passes before all, instead of the environment's"},                     \
      {"--choose", "LIST", "passes whose rewrites are the choices"},                              \
      {"--rules", "FILE", "rules as text, tried before they are used: the pass text-rules, chosen from where --choose says nothing else"}, \
      {"--after", "LIST", "passes after each step"},                                              \
      {"--menu", "LIST", "passes to choose from, with --actions=passes"},                         \
      {"--max-steps", "N", "steps of a game at most"}, {                                          \
    "--seed", "N", "of what is done by chance"                                                    \
  }
bool rewrite_read_setting(Cli *cli, Rewrite *out);

// Of --saturate. Reading them says what is wrong before any file is read.
#define REWRITE_SATURATE_OPTIONS                                                                 \
  {"--fast-math", NULL, "of --saturate: rules that round otherwise, too"},                       \
      {"--engine-rules", "LIST",                                                                        \
       "of --saturate: passes whose rewrites are rules, '' for none (default: those that pay)"}, \
      {"--compile", "LIST",                                                                      \
       "of --saturate: passes before programs are priced, '' for none (default: the target's)"}, \
      {"--extract", "WAY",                                                                       \
       "of --saturate: all (default), greedy, shared, local, exact, or random"},                 \
      {"--nodes", "N", "of --saturate: no rounds beyond so many nodes (default: 100000)"},       \
      {"--rounds", "N", "of --saturate: rounds of rules (default: 12)"},                         \
      {"--seconds", "S", "of --saturate: no rounds beyond this time (default: 10)"}, {           \
    "--measuring", "S",                                                                          \
        "of --saturate --metric=measured: try other kernels for so long (default: 60)"           \
  }
bool rewrite_read_saturation(Cli *cli, HlEgraphOptions *out);
// How many results there was nothing to compare of, if any.
void rewrite_put_silent(const HlValidated *v, HlBuf *out);
// Whether the results of both are the same, by the interpreter, if --validate asks. False after reporting.
bool rewrite_validate(Cli *cli, const HlModule *before, const HlModule *after, HlBuf *out);

// "12.3 us", "1.2 MiB", "34": a value of a metric. Into the room of n, which it returns.
const char *rewrite_value(const char *metric, double value, char *room, size_t n);

#endif
