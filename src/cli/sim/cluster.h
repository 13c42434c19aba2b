// cli/sim/cluster.h: what the modes of `hilo sim` share that simulate clusters.
#ifndef CLI_SIM_CLUSTER_H
#define CLI_SIM_CLUSTER_H

#include "cli/sim/sim.h"
#include "hilo/chakra.h"
#include "hilo/simulate.h"

int sim_exchange_times(Cli *cli);  // exchange.c: of --system, with --exchange

#define SIM_CLUSTER_OPTIONS                                                                        \
  {"--system", "S",                                                                                \
   "simulate on this system: one of --list-systems, or a file (docs/sim.md; ASTRA-sim's networks " \
   "too)"},                                                                                        \
      {"--list-systems", NULL, "the systems that are built in"},                                   \
      {"--devices", "N",                                                                           \
       "of --system: so many devices; groups of all become groups of all of them, others are "     \
       "repeated"},                                                                                \
      {"--mesh", "AXES",                                                                           \
       "of --system: the devices by axes, as data=64,model=8: a program with shardings is "        \
       "partitioned first"},                                                                       \
      {"--shard", "SPEC",                                                                          \
       "with a mesh: how parameters lie on it, as 'x=data,_;w=_,model'; the program is "           \
       "partitioned so"},                                                                          \
      {"--search-mesh", "AXES",                                                                    \
       "with --devices and --shard: all sizes of these axes, as data,model, the fastest first"},   \
      {"--overlap", NULL,                                                                          \
       "of --system: every exchange runs beside computing until its result is needed"},            \
      {"--how", "LIST",                                                                            \
       "of --system: algorithms, as all-reduce=ring,all-gather=direct (default: the fastest)"},    \
      {"--net", "NET",                                                                             \
       "of --system: what says how long exchanges take: formula, where there is one (default), "   \
       "messages, each followed, or simgrid, the same by SimGrid"},                                \
      {"--jitter", "SHARE",                                                                        \
       "of --system: standard deviation of a step's time, as 0.02; each device for itself"},       \
      {"--stragglers", "SHARE,TIMES",                                                              \
       "of --system: so many devices are so many times slower, as 0.01,1.5"},                      \
      {"--each", NULL, "of --system: simulate each device for itself where classes would do"},     \
      {"--device", "N", "of --system: the device whose timeline is shown (default 0)"},            \
      {"--calibrate", "FILE",                                                                      \
       "of --system: a profile as of --profile: how far from the roofline ops of each category "   \
       "are"},                                                                                     \
      {"--what-if", "CHANGES",                                                                     \
       "of --system: times with these changes, as bandwidth=2x,level1.latency=1us"},               \
      {"--sweep", "SPEC",                                                                          \
       "of --system: all combinations of values, as "                                              \
       "'bandwidth=1x,2x;devices=64,128;all-reduce=ring,levels'"},                                 \
      {"--plot", "OUT", "of --sweep: a page with its times drawn over the first key's values"},    \
      {"--timeline", "OUT", "of --system: a trace for ui.perfetto.dev"},                           \
      {"--page", "OUT", "of --system: a page with the timeline and where the time goes"},          \
      {"--chakra", "PREFIX",                                                                       \
       "of --system: Chakra traces for ASTRA-sim, PREFIX.RANK.et and PREFIX.groups.json"},         \
      {"--exchange", "KIND",                                                                       \
       "with --system: how long one exchange takes, as all-reduce, by every algorithm"},           \
      {"--bytes", "SIZE", "of --exchange: what a device gives or gets, as 64MiB (default 1MiB)"},  \
  {                                                                                                \
    "--messages", NULL, "of --exchange: message by message too"                                    \
  }

// What is simulated, from the options. False after reporting or a usage message (*usage).
typedef struct SimCluster {
  HlArena *arena;
  const HlSystem *system;
  int64_t devices;    // wished for; 0: none
  HlDeviceMesh mesh;  // --mesh, or the axes of --search-mesh
  HlClusterOptions options;
  HlOverlap overlap;
  bool every_branch;
  int64_t trips;  // of loops of which nobody knows; 0: once, with a warning
  HlSimProfile *profile;
  HlSimProfile *lessons;  // --calibrate
} SimCluster;
int sim_cluster_options(Cli *cli, SimCluster *out);  // an exit status
void sim_cluster_free(SimCluster *c);
// The system as large as the program wants it. NULL after reporting.
const HlSystem *sim_system_for(Cli *cli, HlArena *arena, const HlSystem *system, int64_t devices);
// "all-reduce=ring,...": false after a usage message.
bool sim_read_how(const Cli *cli, const char *list, HlExchangeHow *how);
// sweep.c: --what-if and --sweep of one program.
bool sim_what_if(Cli *cli, const SimCluster *c, const HlModule *m, const HlClusterProgram *p,
                 const HlSystem *s, double seconds, HlBuf *out);
bool sim_sweep(Cli *cli, const SimCluster *c, const HlModule *m, const HlClusterProgram *p,
               HlBuf *out);
// mesh.c: all ways to give the devices to the axes, the fastest first.
bool sim_search_mesh(Cli *cli, const SimCluster *c, const char *path, const HlModule *m);
// Whether --what-if and --sweep can be read; false after saying why not.
bool sim_check_changes(Cli *cli, const SimCluster *c);
// A program of a module, by the options. NULL after reporting.
HlClusterProgram *sim_program(Cli *cli, const SimCluster *c, HlArena *arena, const HlModule *m,
                              int64_t devices);
// "1.23 ms", in the arena.
const char *sim_seconds(HlArena *arena, double seconds);

#endif
