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

// trace.c: whether it is a trace in JSON, and its ops as rows. False after reporting.
bool trace_is(HlStr bytes);
bool trace_read(HlCx *cx, const HlSource *source, int64_t replicas, HlSimProfile *out);

#endif
