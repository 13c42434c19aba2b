// hilo/simulate.h: how long a program takes on a cluster, and what it spends the time on.
//
//   HlClusterProgram *p = hl_program_new(cx, arena, m, &(HlProgramOptions){.system = s});
//   HlClusterRun run;
//   if (p && hl_cluster_run(cx, arena, p, s, &(HlClusterOptions){0}, &run))
//     printf("%g ms, of which %g ms waiting for exchanges\n", 1e3 * run.seconds, 1e3 * run.exposed);
//
// A program is a list of steps, the same for all devices, in the order in which a device begins them: computing, which occupies
// it; exchanges, which occupy it, too, or run beside it on a stream of their own; and waiting for one of those. Exchanges
// begin when all members of a group have come to them. Devices that are bound to do the same at the same times are
// simulated once (a class); with jitter or stragglers each device is simulated for itself.
#ifndef HILO_SIMULATE_H
#define HILO_SIMULATE_H

#include "hilo/cost.h"
#include "hilo/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Programs ---------------------------------------------------------------------------------------

typedef enum HlStepKind { HL_STEP_COMPUTE, HL_STEP_EXCHANGE, HL_STEP_WAIT } HlStepKind;

// Devices in groups, as lists of equal lengths.
typedef struct HlDeviceGroups {
  int64_t groups, n;
  const int64_t *member;       // group by group
} HlDeviceGroups;

typedef struct HlProgramExchange {
  HlExchangeKind kind;
  double bytes;                // as HlExchange.bytes
  int groups;                  // index into HlClusterProgram.groups
  const int64_t *target;       // of a permutation: of each place to which; -1
} HlProgramExchange;

enum { HL_STREAMS = 4 };       // 0 the device itself, 1 collectives, 2 permutations and messages, 3 copies and other work
typedef struct HlClusterStep {
  HlStepKind kind;
  HlStr name;
  const char *category;        // an op's or an exchange's text, "loop fusion"
  const char *file;            // source line it comes from; NULL: not known
  int line;
  const HlInst *inst;          // as long as the module lives; NULL: none
  double seconds;              // of computing, alone
  double flops, bytes;         // of computing
  double times;                // as often: loops that are not written out
  int exchange;                // index; -1
  int stream;                  // on which it runs; 0: it occupies the device
  int waits;                   // step that a WAIT waits for; -1
  int64_t live;                // bytes of values that are alive after it, parameters included
} HlClusterStep;

typedef struct HlClusterProgram {
  const char *name;
  int64_t devices;
  int n_steps, n_exchanges, n_groups;
  HlClusterStep *step;
  HlProgramExchange *exchange;
  HlDeviceGroups *groups;
  int64_t folded;              // loops that stand there once, with `times`
  double unknown_loops;        // loops whose trips nobody says: taken once
} HlClusterProgram;

typedef enum HlOverlap {
  HL_OVERLAP_AS_WRITTEN,       // starts and dones as they stand, other exchanges occupy the device
  HL_OVERLAP_ALL               // every exchange runs beside, and is waited for by the first step that needs its result
} HlOverlap;

// How long a step takes, where somebody knows better than the roofline: false, nobody does.
typedef bool HlStepTime(void *user, HlStr name, const char *category, double roofline, double *seconds);

typedef struct HlProgramOptions {
  const HlSystem *system;      // whose device computes
  int64_t devices;             // 0: as many as the module is for; more: groups of all become groups of all of those, others are repeated
  bool copies_apart;           // but groups of all partitions of one copy stay as they are: copies are replicas
  HlOverlap overlap;
  int64_t trips;               // of loops of which nobody knows; 0: 1
  bool every_branch;           // of a conditional all branches, each as if it were equally often taken; else the longest
  int64_t unroll;              // steps that loops may become; 0: 4096; beyond that they stand there once
  HlStepTime *time;            // NULL: the roofline
  void *user;
} HlProgramOptions;
// In the arena, with pointers into the module. NULL after reporting.
HlClusterProgram *hl_program_new(HlCx *cx, HlArena *arena, const HlModule *m, const HlProgramOptions *options);
// Of a composite graph (hilo/sim_graph.h), which must outlive it. NULL after reporting.
struct HlSimGraph;
HlClusterProgram *hl_program_of_graph(HlCx *cx, HlArena *arena, const struct HlSimGraph *graph, const HlTarget *device);
// The same by hand: appends a step or an exchange; the index. All in the arena of hl_program_begin.
typedef struct HlProgramBuilder HlProgramBuilder;
HlProgramBuilder *hl_program_begin(HlArena *arena, const char *name, int64_t devices);
int hl_program_groups(HlProgramBuilder *b, HlDeviceGroups groups);
int hl_program_compute(HlProgramBuilder *b, HlStr name, const char *category, double seconds);
int hl_program_exchange(HlProgramBuilder *b, HlStr name, HlProgramExchange exchange, int stream);
int hl_program_wait(HlProgramBuilder *b, HlStr name, int step);
HlClusterProgram *hl_program_end(HlProgramBuilder *b);

// --- Meshes -----------------------------------------------------------------------------------------

// Devices by axes, the first the outermost: device = i0 * n1 + i1 of "data=64,model=8".
enum { HL_MESH_AXES = 8 };
typedef struct HlDeviceMesh {
  int n;
  const char *name[HL_MESH_AXES];
  int64_t size[HL_MESH_AXES];
} HlDeviceMesh;
int64_t hl_mesh_devices(const HlDeviceMesh *mesh);
// "data=64,model=8", or names alone, which get the size 1. In the arena. False after reporting.
bool hl_mesh_read(HlCx *cx, HlArena *arena, const char *text, HlDeviceMesh *out);
// Says of entry parameters how they lie on a mesh: "x=data,_;w=_,model" (a dimension an axis, or _; several axes by +), and makes the
// module one of as many partitions. False after reporting.
bool hl_mesh_shard(HlCx *cx, HlModule *m, const HlDeviceMesh *mesh, const char *spec);
// Runs the pipeline of the device's kind, which partitions a module by its shardings. False after reporting.
bool hl_mesh_partition(HlCx *cx, HlModule *m, const HlTarget *device);
// The next way to give so many devices to the axes, from all to the first on; false: there is none.
bool hl_mesh_next(HlDeviceMesh *mesh, int64_t devices);

// --- Runs -------------------------------------------------------------------------------------------

typedef struct HlClusterOptions {
  double jitter;               // standard deviation of a step's time, as a share of it
  double stragglers;           // share of devices that are slow,
  double straggle;             // and how many times as long they take
  uint64_t seed;
  HlExchangeHow how[HL_EXCHANGE_KINDS];  // 0: the best
  HlNetModel net;              // what says how long an exchange takes
  bool each;                   // every device for itself, even where classes would do
  int64_t device;              // whose times of each step are kept
} HlClusterOptions;

typedef struct HlStepRun {
  double begin, end;           // of the device kept
  double exposed, waiting;     // seconds that devices stood still for it, on average; of these for others to come
  double busy;                 // seconds that it took, on average
} HlStepRun;

typedef struct HlClusterRun {
  double seconds;              // when the last device was done
  double first;                // when the first was
  double compute, exposed, waiting, hidden;   // on average: computing; standing still for exchanges; of that for others; exchanges beside computing
  int64_t classes;             // that were simulated
  int n_steps;
  HlStepRun *step;
  HlExchangeTime *exchange;    // by HlClusterProgram.exchange: alone, once
  int64_t peak;                // bytes
  int peak_step;
} HlClusterRun;
bool hl_cluster_run(HlCx *cx, HlArena *arena, const HlClusterProgram *program, const HlSystem *system, const HlClusterOptions *options,
                    HlClusterRun *out);

// What the time is spent on, in shares that add up to run->seconds where all devices are alike: the longest chain of steps.
typedef struct HlPathPart {
  int step;
  double seconds;
} HlPathPart;
int hl_critical_path(HlArena *arena, const HlClusterProgram *program, const HlClusterRun *run, HlPathPart **out);

// Exposed time by exchange kind or source line, the largest first.
typedef struct HlExposed {
  const char *what;            // "all-reduce"; or a file
  int line;
  int64_t count;               // INT64_MAX: that many or more
  double bytes, exposed, waiting, busy;
} HlExposed;
int hl_exposed_by_kind(HlArena *arena, const HlClusterProgram *program, const HlClusterRun *run, HlExposed **out);
int hl_exposed_by_line(HlArena *arena, const HlClusterProgram *program, const HlClusterRun *run, HlExposed **out);

// --- Calibration ------------------------------------------------------------------------------------

// How many times as long as by the roofline steps of a category take, learned from measured ones: the median by time.
typedef struct HlCalibration HlCalibration;
HlCalibration *hl_calibration_new(HlArena *arena);
// `weight`: seconds that such steps took in all.
void hl_calibration_learn(HlCalibration *c, HlStr category, double measured, double roofline, double weight);
// From the rows of a profile (hilo/sim_graph.h): a device's roofline by their flops and bytes. How many rows said something.
struct HlSimProfile;
int hl_calibration_learn_profile(HlCalibration *c, const struct HlSimProfile *profile, const HlTarget *device);
// From the steps of a program that have a row of their name. How many.
int hl_calibration_learn_program(HlCalibration *c, const struct HlSimProfile *profile, const HlClusterProgram *program,
                                 const HlTarget *device);
// Computing takes the roofline of its flops and bytes times its category's factor, but steps that have a row in `measured` (NULL: none).
void hl_calibration_apply(const HlCalibration *c, HlClusterProgram *program, const HlTarget *device, const struct HlSimProfile *measured);
// 1 where nothing has been learned of the category nor of any.
double hl_calibration_factor(const HlCalibration *c, HlStr category);
// Of an op of a category ("convolution fusion"), of which no more is known: products at the rate of matrices, others at that of
// vectors, with what the device does not hide of the shorter of computing and moving, and a launch, as hl_time_of has it.
double hl_category_seconds(const HlTarget *device, HlStr category, double flops, double bytes);
// The larger of computing at the device's peak and moving bytes.
double hl_roofline(const HlTarget *device, double flops, double bytes);

// --- Timelines --------------------------------------------------------------------------------------

// A run as a trace that Perfetto reads (ui.perfetto.dev): streams as threads, memory as a counter. Its times are whole nanoseconds in 64
// bits: what comes after 584 years stands at their end.
void hl_cluster_perfetto(const HlClusterProgram *program, const HlClusterRun *run, HlBuf *out);
// A page with the timeline, where the time goes, and what if; opens without a network.
void hl_cluster_page(const HlClusterProgram *program, const HlClusterRun *run, const HlSystem *system, const HlClusterOptions *options,
                     HlBuf *out);

// All combinations of a few values, in their order, the last key's the fastest.
typedef struct HlSweepKey {
  const char *name;
  const char *const *value;
  int n;
} HlSweepKey;
typedef struct HlSweepPoint {
  double seconds, exposed;
} HlSweepPoint;
typedef struct HlSweep {
  const char *program, *system;
  int n_keys;                  // one or more
  const HlSweepKey *key;
  int n;                       // the product of their numbers of values
  const HlSweepPoint *point;
} HlSweep;
// A page with plots of times over the first key's values, a line for each combination of the others; opens without a network.
void hl_sweep_page(const HlSweep *sweep, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
