// hilo sim: from HLO to what a cluster executes.
#include <string.h>

#include "cli/load.h"
#include "cli/sim/cluster.h"

static const struct {
  const char *option;
  SimMode *run;
} modes[] = {
#define MODE(option, function) {option, function},
    SIM_MODES(MODE)
#undef MODE
};

static int run(Cli *cli) {
  const char *compat = cli_value(cli, "--compat"), *asked = NULL;
  SimMode *mode = NULL;
  if (compat && strcmp(compat, "paragraph") != 0)
    return cli_usage(cli, "unknown --compat '%s': paragraph", compat);
  for (int k = 0; k < HL_COUNT_OF(modes); k++) {
    if (modes[k].option && !cli_flag(cli, modes[k].option))
      continue;
    if (mode && modes[k].option)
      return cli_usage(cli, "%s and %s are two modes: one at a time", asked, modes[k].option);
    if (!mode) {
      mode = modes[k].run;
      asked = modes[k].option;
    }
  }
  return mode(cli);
}

static const CliOption options[] = {
    {"--bridge", NULL, "write the graph of a program in HLO, of all processors together"},
    {"--convert", NULL, "write a graph in another form, or changed"},
    {"--translate", "CONFIG",
     "write a graph for each processor, its collectives as messages, by a configuration in JSON"},
    {"--alone", NULL, "run a processor's graph by ParaGraph's simulator, which waits for no other"},
    {"-o", "OUT",
     "what to write: a graph, .pb or .textproto (default: text on standard output); of --translate "
     "a directory"},
    {"--compat", "WHO", "paragraph: what ParaGraph does, to the last digit"},
    {"--replicas", "N", "copies of the program; of a profile, the cores that it sums over"},
    {"--tflops", "T", "10^12 operations a second of one processor (default 125)"},
    {"--ttrps", "T", "10^12 transcendental functions a second (default 125)"},
    {"--gibps", "G", "GiB a second of its memory (default 900)"},
    {"--trips", "N", "how often a loop runs that does not say so (default 1, with a warning)"},
    {"--profile", "FILE",
     "a TPU profiler's table of ops as CSV, or a trace of jax.profiler (.xplane.pb, .trace.json.gz) "
     "or hilo run --profile: times, and how often loops run"},
    {"--no-profile-time", NULL, "with a profile: costs from shapes all the same"},
    {"--no-profile-only", NULL, "with a profile: what has no row costs something all the same"},
    {"--no-profile-loops", NULL, "with a profile: loops run as often as the program says"},
    {"--extend", "N", "a data parallel graph for N processors"},
    {"--trim", NULL, "take out subroutines that cost nothing"},
    {"--enforce-postorder", NULL, "let each instruction depend on the one before it"},
    {"--processors", "LIST", "of --translate: these alone, as 0,3"},
    {"--form", "FORM", "of --translate: pb or textproto (default: as the graph)"},
    {"--log", "FILE", "of --alone: the CSV of what ran when (default: standard output)"},
    {"--keep-zeros", NULL, "of --alone: with instructions that take no time"},
    {"--net-gbit", "G", "of --alone: 2^30 bits a second of the network interface (default 656)"},
    {"--start", "S", "of --alone: the time at the beginning, in seconds"},
    {"--seed", "N", "of --alone: of the numbers that branches are drawn with; of --system: of jitter and stragglers"},
    {"--branches", "HOW",
     "of --alone: draw a branch by its probability, or take the worst; of --system: worst (the "
     "longest one), or expected, all of them, equally often"},
    SIM_CLUSTER_OPTIONS,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_sim = {
    .name = "sim",
    .usage = "FILE... [--bridge|--convert|--translate=CONFIG|--alone] [-o OUT]",
    .summary = "from a program to what a cluster executes: ParaGraph's graphs",
    .about = "Reads programs in HLO and ParaGraph's graphs, binary or text, and tells what a graph "
             "amounts to. --bridge writes the graph of\n"
             "a program: computation with its cost, communication with its groups, loops with "
             "their counts. --translate makes the graph of\n"
             "each processor, with collectives as sends and receives by the algorithms that a "
             "configuration names. --alone runs one of these.\n"
             "Called as hlo_bridge, graph_converter, graph_data_parallel_extender, "
             "graph_translator or simulator it takes the flags of\n"
             "ParaGraph's tools, and does what they do. docs/sim.md explains all of it.",
    .examples =
        "  hilo sim step.hlo                                        what a step amounts to\n"
        "  hilo sim --bridge step.hlo -o step.pb                    its graph\n"
        "  hilo sim --translate=ring.json step.pb -o graphs         a graph for each processor\n"
        "  hilo sim --alone graphs/step.0.pb --log step.0.csv       when each instruction runs\n",
    .options = options,
    .reports = true,
    .run = run,
};
