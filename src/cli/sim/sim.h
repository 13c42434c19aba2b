// cli/sim/sim.h: what the modes of `hilo sim` share.
#ifndef CLI_SIM_SIM_H
#define CLI_SIM_SIM_H

#include "cli/cli.h"
#include "hilo/sim_graph.h"

// The modes: the option that asks for each, and its function. The first that is asked for runs; the last one else.
#define SIM_MODES(MODE)              \
  MODE("--bridge", sim_bridge)       \
  MODE("--convert", sim_convert)     \
  MODE("--translate", sim_translate) \
  MODE("--alone", sim_alone)         \
  MODE("--list-systems", sim_list_systems) \
  MODE("--system", sim_cluster)      \
  MODE(NULL, sim_describe)
typedef int SimMode(Cli *cli);  // an exit status
#define MODE(option, function) SimMode function;
SIM_MODES(MODE)
#undef MODE

// What makes graphs of programs and changes them, from the options of the command.
typedef struct SimInput {
  HlSimBridge bridge;
  HlSimProfile *profile;
  int64_t extend;  // 0: not
} SimInput;
// graphs.c: checks and reads these options: an exit status; sim_input_free in either case.
int sim_input(Cli *cli, SimInput *out);
void sim_input_free(SimInput *input);
// A graph that a file is, or that a program of HLO in it becomes; after --extend, --trim and --enforce-postorder. NULL after
// reporting, or when a file found in a directory is neither: *skipped then.
HlSimGraph *sim_load(Cli *cli, CliFiles *files, int k, const SimInput *input, bool *skipped);
HlSimCompat sim_compat(const Cli *cli);
// Writes a graph in the form that the path says ("-": as text). False after reporting.
bool sim_write(Cli *cli, const HlSimGraph *graph, const char *path);
bool sim_write_in(Cli *cli, const HlSimGraph *graph, const char *path, HlBuf *room);  // in a buffer that is used again
// Appends the graph's description: lines, or with --json keys.
void sim_describe_graph(const Cli *cli, const HlSimGraph *graph, HlBuf *out);

#endif
