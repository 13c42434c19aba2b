// sim/net/net.h: what the network's files share.
#ifndef SIM_NET_NET_H
#define SIM_NET_NET_H

#include "hilo/network.h"

// The systems that are built in: cmake/embed_systems.cmake.
typedef struct NetSystemFile {
  const char *name, *text;
} NetSystemFile;
extern const NetSystemFile net_system_files[];

// --- Places (topology.c) ------------------------------------------------------------------------------

// Devices below one place of a level, and those that its places hold together.
int64_t net_below(const HlSystem *s, int level);
// The first level of a torus, of others the level: what lies below it shares its links, if it is shared.
int net_place(const HlSystem *s, int level);
int64_t net_coordinate(const HlSystem *s, int64_t device, int level);
// Of a level by itself: seconds from one place to another.
double net_level_latency(const HlNetLevel *level, int64_t from, int64_t to);
// The links of the way, of a level that is no ring or line; how many.
enum { NET_LEVEL_HOPS = 5 };
int net_level_route(const HlNetLevel *level, int64_t from, int64_t to, int64_t *links);
bool net_level_is_far(const HlNetLevel *level, int64_t link);

// --- Who takes part (group.c) ---------------------------------------------------------------------------

// An axis of a group that is a grid: coordinates of a level, first, first + stride, ...
typedef struct NetAxis {
  int level;
  int64_t count, stride, first;
} NetAxis;
typedef struct NetGroup {
  int64_t n, groups;
  const int64_t *
      member;  // groups * n, each group in ascending order unless places in it mean something; NULL: 0, 1, 2, ...
  bool
      grid;  // each group is all combinations of coordinates; groups differ in where they begin alone
  bool tiles;  // the groups are all devices of the system
  int n_axes;
  NetAxis axis[HL_NET_LEVELS];
} NetGroup;
bool net_group(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what, NetGroup *out);
static inline int64_t net_member(const NetGroup *g, int64_t group, int64_t k) {
  return g->member ? g->member[group * g->n + k] : group * g->n + k;
}

// --- Schedules (schedule.c) -----------------------------------------------------------------------------

// What a member does: in each stream (which run side by side) a number of rounds; in a round it sends and receives a few
// messages, and goes on when all have gone and come. A message of a round goes from a member in it to one in it.
enum { NET_SENDS = 2 };
typedef struct NetStep {
  int n_send, n_receive;
  int64_t to[NET_SENDS], from[NET_SENDS];  // places in the group
  double bytes[NET_SENDS], got[NET_SENDS];
  double reduced;  // bytes that are reduced before it goes on
} NetStep;

// Along one axis of a grid.
typedef struct NetStage {
  NetAxis axis;
  int64_t inner;        // places of the group from one of its members to the next
  HlExchangeKind kind;  // all-gather, reduce-scatter or all-to-all
  bool line;            // of a line, both ways at once
  bool halves;  // by halving or doubling: a power of two of places that all reach each other
  int way;      // of a ring: 1 or -1
  double
      bytes;  // of this stream, as HlExchange.bytes says, before a reduce-scatter or after an all-gather
  int64_t begin, rounds;
} NetStage;

typedef struct NetSchedule {
  HlExchangeKind kind;
  HlExchangeHow how;
  double bytes;
  int64_t n;
  const int64_t *target, *source;  // permute
  int streams;
  int64_t rounds;  // of each stream
  int64_t chunks;  // of pipelines
  int n_stages;
  NetStage *stage;  // n_stages of each stream, one after another
} NetSchedule;
// False after reporting: no such algorithm for this group.
bool net_schedule(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                  const NetGroup *g, HlExchangeHow how, NetSchedule *out);
void net_step(const NetSchedule *schedule, int64_t member, int stream, int64_t round, NetStep *out);
// The first round after this one in which some stream may do other than it does in this one.
int64_t net_same_until(const NetSchedule *schedule, int64_t round);
double net_latency_chunks(double p, double bytes, double alpha, double beta);
int net_log2(int64_t n);  // rounded up
// Whether all streams come to each of their stages in the same round.
bool net_in_step(const NetSchedule *schedule);
// The chains of stages that make a grid's exchange level by level.
bool net_stages(HlArena *arena, const HlSystem *s, const NetGroup *g, NetSchedule *out);
static inline NetStage *net_stage(const NetSchedule *s, int stream, int at) {
  return &s->stage[stream * s->n_stages + at];
}

// --- Flows (flow.c) ---------------------------------------------------------------------------------------

// Flows in time: links are shared fairly; timers besides. Tags come back when they are done, in the order of time.
typedef struct NetFlows NetFlows;
NetFlows *net_flows_new(int64_t n_links, const double *capacity);
void net_flows_free(NetFlows *flows);
void net_flow(NetFlows *flows, double begin, double latency, double bytes, const int64_t *links,
              int n_links, uint64_t tag);
void net_timer(NetFlows *flows, double at, uint64_t tag);
bool net_flows_next(NetFlows *flows, double *at, uint64_t *tag);  // false: all is done

// What is followed message by message where no formula is exact.
enum { NET_FEW_MESSAGES = 100000 };

// --- Formulas (formula.c) ------------------------------------------------------------------------------

// False, nothing reported: links are shared in a way that no formula says.
bool net_formula(const HlSystem *s, const NetSchedule *schedule, const NetGroup *g,
                 HlExchangeTime *out);

// Message by message, by SimGrid (simgrid.c).
bool net_by_simgrid(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                    HlExchangeTime *out);
// hl_exchange_by of a group that is looked at once for many exchanges (exchange.c).
bool net_time_by(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                 const NetGroup *g, HlNetModel model, HlExchangeTime *out);

// --- ASTRA-sim's network files (astra.c) ---
bool net_is_astra(const HlSource *source);
const HlSystem *net_read_astra(HlCx *cx, HlArena *arena, const HlSource *source);

// What a word of a file or an option stands for, in a table of words; -1.
int net_word(HlStr word, const char *const *words, int n);

#endif
