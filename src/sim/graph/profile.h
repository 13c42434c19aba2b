// sim/graph/profile.h: what the readers of profiles share.
#ifndef SIM_GRAPH_PROFILE_H
#define SIM_GRAPH_PROFILE_H

#include "sim/graph/graph.h"

struct HlSimProfile {
  HlArena *arena;
  VEC(HlSimProfileRow) rows;
  Map by_name;  // 1 + the row, by the name's hash
};

// Appends a row, whose texts are copied; false: there is one of that name.
bool profile_add(HlSimProfile *profile, HlSimProfileRow row);

// --- Traces (events.c) ---------------------------------------------------------------------------------

typedef struct ProfileOp ProfileOp;

// An event of an op.
typedef struct ProfileEvent {
  int op;
  bool has_run;
  uint64_t line;      // events of one line follow each other or lie within each other
  uint64_t run;       // of the program, on a device
  double at, micros;  // finite, `micros` 0 or more
  int64_t times;      // more than 1: so many executions, all together
} ProfileEvent;

typedef struct ProfileEvents {
  HlArena *arena;
  VEC(ProfileOp) op;
  VEC(ProfileEvent) event;
  Map by_name;
} ProfileEvents;

int events_op(ProfileEvents *e, HlStr name);  // its number
// What is told of it last counts; nothing: what is not.
void events_about(ProfileEvents *e, int op, HlStr category, double flops, double bytes);
void events_add(ProfileEvents *e, ProfileEvent event);
// Their rows. False after reporting.
bool events_rows(HlCx *cx, const HlSource *source, ProfileEvents *e, int64_t replicas,
                 HlSimProfile *out);

// trace.c and xspace.c: whether it is a trace in JSON, or an XSpace, and its events. False after reporting.
bool trace_is(HlStr bytes);
bool trace_read(HlCx *cx, const HlSource *source, ProfileEvents *out);
bool xspace_is(HlStr bytes);
bool xspace_read(HlCx *cx, const HlSource *source, ProfileEvents *out);

#endif
