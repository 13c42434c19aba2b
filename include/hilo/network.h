// hilo/network.h: how the devices of a system are connected, and how long exchanges between them take.
//
//   HlArena *arena = hl_arena_new();
//   const HlSystem *s = hl_system_find(cx, arena, "h100");        // systems/h100.system, or a file's name
//   HlExchange what = {.kind = HL_ALL_REDUCE, .bytes = 1 << 20, .n = 8};        // its first eight devices
//   HlExchangeTime t;
//   if (hl_exchange_time(cx, s, &what, &t)) ...                  // seconds by formula, and by which algorithm
//   if (hl_exchange_messages(cx, s, &what, &t)) ...              // the same, message by message
//
// A system is a device (hilo/target.h) and levels of links, the innermost first. A device's place is a coordinate in each
// level: number = c0 + n0 * (c1 + n1 * (c2 ...)). A level connects those who differ in its coordinate alone; "shared" ones connect
// all that lies below as one place, so that the devices of a machine share its one wire. Messages go level by level,
// the innermost first.
//
// Times come in three ways, which agree where all three can say: formulas (the table in docs/sim.md), whose terms are
// latencies, bytes over links and bytes reduced; rounds, in which each pattern of messages is solved once for the rates that
// its messages get from links they share; and messages one by one, which wait for each other alone. These can also be
// followed by SimGrid (simgrid.org), where its library is installed.
#ifndef HILO_NETWORK_H
#define HILO_NETWORK_H

#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Systems --------------------------------------------------------------------------------------

typedef enum HlNetShape {
  HL_NET_RING,       // each with the next and the one before, the last with the first
  HL_NET_LINE,       // the same without that
  HL_NET_SWITCH,     // each with a switch that is never full
  HL_NET_FULL,       // each with each
  HL_NET_FAT_TREE,   // leaves with `down` places and `up` spines each
  HL_NET_DRAGONFLY   // groups of `routers` with `hosts` places each; a link between each two groups and routers of a group
} HlNetShape;
const char *hl_net_shape_text(HlNetShape shape);

typedef struct HlNetLevel {
  HlNetShape shape;
  int64_t n;               // places that it connects
  double bandwidth;        // bytes/s of a link, one way
  double latency;          // seconds to pass one link
  bool shared;             // the devices below are one place of it
  int torus;               // of a torus: the number of its first level + 1; levels with the same number work at the same time
  int64_t down, up;        // fat tree
  int64_t routers, hosts;  // dragonfly
  double far_bandwidth, far_latency;  // of a dragonfly's links between groups, and of a fat tree's to its spines
} HlNetLevel;

enum { HL_NET_LEVELS = 12 };

typedef struct HlSystem {
  const char *name;        // "h100"
  const char *about;       // what it is, a line
  const HlTarget *device;  // with what `share` makes of it
  HlNetLevel level[HL_NET_LEVELS];
  int n_levels;
  double start;            // seconds before the first message of an exchange
  double efficiency;       // share of a link's bandwidth that messages get
  double reduce;           // bytes/s that reducing takes in; 0: it takes no time
  double share;            // of the target that a device is
  double slowdown;         // times as long as alone a device computes while its links work; 1: they do not disturb
} HlSystem;

int64_t hl_system_devices(const HlSystem *system);
// By the name of one that is built in (from the folder `systems`), or a path (with a "." or "/" in it): a file in
// Hilo's own form (docs/sim.md) or in that of ASTRA-sim's networks. In the arena; NULL after reporting.
const HlSystem *hl_system_find(HlCx *cx, HlArena *arena, const char *name);
const HlSystem *hl_system_read(HlCx *cx, HlArena *arena, const HlSource *source);
const char *hl_system_name_at(int k);                        // those built in; NULL after the last
void hl_system_print(const HlSystem *system, HlBuf *out);   // in its own form
// A copy that has so many devices: the outermost level that can be is made longer or shorter. NULL after reporting.
const HlSystem *hl_system_resize(HlCx *cx, HlArena *arena, const HlSystem *system, int64_t devices);
// A copy with a fact changed: "bandwidth=2x", "latency=1us", "level1.bandwidth=100GB/s", "efficiency=0.8". NULL after reporting.
const HlSystem *hl_system_what_if(HlCx *cx, HlArena *arena, const HlSystem *system, const char *change);
// Numbers with a unit: "82GB/s", "1.5us", "64MiB", "2x": false if it is none of that unit ("B/s", "s", "B").
bool hl_quantity(const char *text, const char *unit, double *out);

// --- Links and routes -------------------------------------------------------------------------------

int64_t hl_net_links(const HlSystem *system);                // directed ones, numbered from 0
double hl_net_capacity(const HlSystem *system, int64_t link);    // bytes/s that messages get of it
// The links from one device to another, at most `room` of them; how many there are. *latency: seconds, all together.
int hl_net_route(const HlSystem *system, int64_t from, int64_t to, int64_t *links, int room, double *latency);
enum { HL_NET_HOPS = 4096 };                                 // of a route, at most

// Max-min fair rates: no flow can get more without another that has no more getting less. Flow f goes over
// link[first[f]] to link[first[f+1]-1]; one without links gets infinity.
void hl_max_min(int n_links, const double *capacity, int n_flows, const int *first, const int *link, double *rate);

// Flows over links that share them fairly, from when each begins: a flow waits its latency, then moves its bytes at the rates
// that it gets. When each is done; seconds.
typedef struct HlNetFlow {
  double begin, latency, bytes;
} HlNetFlow;
void hl_flows_finish(int n_links, const double *capacity, int n_flows, const HlNetFlow *flow, const int *first, const int *link,
                     double *done);

// --- Exchanges --------------------------------------------------------------------------------------

typedef enum HlExchangeKind {
  HL_ALL_REDUCE, HL_ALL_GATHER, HL_REDUCE_SCATTER, HL_ALL_TO_ALL, HL_BROADCAST, HL_REDUCE_TO_ONE, HL_GATHER_TO_ONE,
  HL_SCATTER_FROM_ONE, HL_PERMUTE, HL_BARRIER, HL_EXCHANGE_KINDS
} HlExchangeKind;
const char *hl_exchange_text(HlExchangeKind kind);           // "all-reduce"

typedef enum HlExchangeHow {
  HL_HOW_BEST,             // whichever takes the least time
  HL_HOW_RING,             // around, one way
  HL_HOW_BOTH_WAYS,        // around, half of it each way
  HL_HOW_LINE,             // along a line and back
  HL_HOW_TORUS,            // a stream for each dimension, each with rings both ways
  HL_HOW_LEVELS,           // level by level: within, across, within
  HL_HOW_DOUBLING,         // recursive doubling (and halving for reduce-scatter)
  HL_HOW_HALVING,          // all-reduce: halving, then doubling
  HL_HOW_DISSEMINATION,
  HL_HOW_BRUCK,
  HL_HOW_DIRECT,           // each with each, in turn
  HL_HOW_TREE,             // binomial
  HL_HOW_CHAIN,            // a pipeline in chunks
    HL_HOWS
} HlExchangeHow;
const char *hl_how_text(HlExchangeHow how);                  // "both-ways"
HlExchangeHow hl_how_find(const char *text);                 // HL_HOWS: no such
bool hl_how_does(HlExchangeHow how, HlExchangeKind kind);    // there is such an algorithm

typedef struct HlExchange {
  HlExchangeKind kind;
  HlExchangeHow how;
  double bytes;            // the largest of what a device gives and what it gets (all-gather: the result; all-reduce: the array)
  int64_t n;               // members of a group
  int64_t groups;          // that do the same at the same time; 0: one
  const int64_t *member;   // devices, groups * n of them, group by group; NULL: the first of the system
  const int64_t *target;   // permute: of each member of a group to whom, as a place in the group; -1: nobody
} HlExchange;

typedef struct HlExchangeTime {
  double seconds;
  double sent;             // bytes that leave the device that sends most
  HlExchangeHow how;       // which was taken
  int64_t rounds;          // one after another
  int64_t messages;        // of all members; INT64_MAX: that many or more
  bool by_rounds;          // no formula says it: messages were followed, or, of very many, rounds solved
} HlExchangeTime;

// All of these: false after reporting (a group outside the system, an algorithm that does not fit).
bool hl_exchange_time(HlCx *cx, const HlSystem *system, const HlExchange *what, HlExchangeTime *out);      // formula, else rounds
bool hl_exchange_rounds(HlCx *cx, const HlSystem *system, const HlExchange *what, HlExchangeTime *out);
bool hl_exchange_messages(HlCx *cx, const HlSystem *system, const HlExchange *what, HlExchangeTime *out);

// By which of them. The library of SimGrid is opened when it is asked for (HILO_SIMGRID names another one than the system's;
// HL_UNSUPPORTED where there is none) and works in a process of its own, for up to 4,096 devices.
typedef enum HlNetModel {
  HL_NET_FORMULA,          // hl_exchange_time
  HL_NET_MESSAGES,         // hl_exchange_messages
  HL_NET_SIMGRID,          // the same messages, followed by SimGrid
} HlNetModel;
bool hl_exchange_by(HlCx *cx, const HlSystem *system, const HlExchange *what, HlNetModel model, HlExchangeTime *out);

// --- Fits -------------------------------------------------------------------------------------------

// seconds = start + bytes / bandwidth, by least squares of relative errors.
typedef struct HlLineFit {
  double start, bandwidth, median, worst;     // errors, relative
} HlLineFit;
HlLineFit hl_fit_line(int n, const double *bytes, const double *seconds);
// The one number, system->efficiency, that makes predicted exchanges fit measured ones; the system's start stays. False after reporting.
bool hl_fit_efficiency(HlCx *cx, const HlSystem *system, int n, const HlExchange *what, const double *seconds, HlLineFit *out,
                       double *efficiency);

// --- As ASTRA-sim does it ------------------------------------------------------------------------------

// Its native ring on its analytical network, to the nanosecond: whole nanoseconds, gigabytes of 2^30, chunks after each other.
typedef struct HlAstra {
  int64_t endpoint_delay;  // ns
  double memory;           // local-mem-bw, GB/s
  int chunks;              // preferred-dataset-splits
  double bandwidth, latency;  // of its ring, GB/s and ns
  int64_t n;
} HlAstra;
bool hl_astra_read(HlCx *cx, const HlSource *network, const HlSource *system, HlAstra *out);
bool hl_astra_time(HlCx *cx, const HlAstra *astra, HlExchangeKind kind, int64_t bytes, int64_t *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
