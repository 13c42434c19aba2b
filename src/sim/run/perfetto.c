// sim/run/perfetto.c: a run as a trace in Perfetto's own format.
//
// A trace is packets one after another; tracks are described first, then slices begin and end on them, in nanoseconds. Names are
// interned: the first packet that uses one brings its text. Packets that need what was interned say so.

#include <string.h>

#include "base/memory.h"
#include "base/put.h"
#include "proto/wire.h"
#include "sim/run/run.h"

enum { TRACE_PACKET = 1 };
enum {
  PACKET_TIME = 8,
  PACKET_SEQUENCE = 10,
  PACKET_EVENT = 11,
  PACKET_INTERNED = 12,
  PACKET_FLAGS = 13,
  PACKET_TRACK = 60
};
enum {
  EVENT_CATEGORIES = 3,
  EVENT_TYPE = 9,
  EVENT_NAME = 10,
  EVENT_TRACK = 11,
  EVENT_COUNTER = 30
};
enum { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2 };
enum {
  TRACK_UUID = 1,
  TRACK_NAME = 2,
  TRACK_PROCESS = 3,
  TRACK_THREAD = 4,
  TRACK_PARENT = 5,
  TRACK_COUNTER = 8
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum { CLEARED = 1, NEEDS_STATE = 2, SEQUENCE = 1 };
enum { PROCESS = 1, STREAM_TRACKS = 10, MEMORY_TRACK = 2 };

typedef struct Trace {
  HlBuf *out;
  HlBuf packet, part, inner;
  Map names[2];  // categories, names: hash -> iid
  uint64_t n_names[2];
} Trace;

static void put_number(HlBuf *out, uint32_t field, uint64_t value) {
  wire_put_tag(out, field, WIRE_VARINT);
  wire_put_varint(out, value);
}

static void begin_packet(Trace *t, uint64_t flags) {
  t->packet.n = 0;
  put_number(&t->packet, PACKET_SEQUENCE, SEQUENCE);
  put_number(&t->packet, PACKET_FLAGS, flags);
}

static void end_packet(Trace *t) {
  wire_put_bytes(t->out, TRACE_PACKET, t->packet.at, t->packet.n);
}

// --- Tracks -------------------------------------------------------------------------------------------------

static void put_track(Trace *t, uint64_t uuid, const char *name, const char *process, int thread,
                      bool counter) {
  begin_packet(t, process ? CLEARED : NEEDS_STATE);
  t->part.n = 0;
  put_number(&t->part, TRACK_UUID, uuid);
  wire_put_bytes(&t->part, TRACK_NAME, name, strlen(name));
  t->inner.n = 0;
  if (process) {
    put_number(&t->inner, 1, 1);
    wire_put_bytes(&t->inner, 6, process, strlen(process));
    wire_put_bytes(&t->part, TRACK_PROCESS, t->inner.at, t->inner.n);
  } else {
    put_number(&t->part, TRACK_PARENT, PROCESS);
  }
  if (thread > 0) {
    put_number(&t->inner, 1, 1);
    put_number(&t->inner, 2, (uint64_t)thread);
    wire_put_bytes(&t->inner, 5, name, strlen(name));
    wire_put_bytes(&t->part, TRACK_THREAD, t->inner.at, t->inner.n);
  }
  if (counter) {
    put_number(&t->inner, 3, 3);  // bytes
    wire_put_bytes(&t->part, TRACK_COUNTER, t->inner.at, t->inner.n);
  }
  wire_put_bytes(&t->packet, PACKET_TRACK, t->part.at, t->part.n);
  end_packet(t);
}

// --- Events -------------------------------------------------------------------------------------------------

// The number of a text; a new one is put into `inner`, to be interned in this packet.
static uint64_t name_of(Trace *t, int which, HlStr text) {
  uint64_t *iid = map_at(&t->names[which], hl_hash_bytes(text.at, text.n, 1) | 1);
  if (*iid)
    return *iid;
  *iid = ++t->n_names[which];
  HlBuf entry = {0};
  put_number(&entry, 1, *iid);
  wire_put_bytes(&entry, 2, text.at, text.n);
  wire_put_bytes(&t->inner, which ? INTERNED_NAMES : INTERNED_CATEGORIES, entry.at, entry.n);
  hl_buf_free(&entry);
  return t->n_names[which];
}

static void begin_event(Trace *t, double at, int type, uint64_t track) {
  begin_packet(t, NEEDS_STATE);
  const double nanoseconds = at * 1e9 + 0.5;
  put_number(&t->packet, PACKET_TIME,
             nanoseconds < 0x1p64 ? (uint64_t)nanoseconds : UINT64_MAX);
  t->part.n = t->inner.n = 0;
  put_number(&t->part, EVENT_TYPE, (uint64_t)type);
  put_number(&t->part, EVENT_TRACK, track);
}

static void end_event(Trace *t) {
  if (t->inner.n > 0)
    wire_put_bytes(&t->packet, PACKET_INTERNED, t->inner.at, t->inner.n);
  wire_put_bytes(&t->packet, PACKET_EVENT, t->part.at, t->part.n);
  end_packet(t);
}

static void put_slice(Trace *t, double begin, double end, uint64_t track, HlStr name,
                      const char *category) {
  begin_event(t, begin, SLICE_BEGIN, track);
  put_number(&t->part, EVENT_CATEGORIES, name_of(t, 0, hl_str(category)));
  put_number(&t->part, EVENT_NAME, name_of(t, 1, name));
  end_event(t);
  begin_event(t, end, SLICE_END, track);
  end_event(t);
}

static void put_memory(Trace *t, double at, int64_t bytes) {
  begin_event(t, at, COUNTER, MEMORY_TRACK);
  put_number(&t->part, EVENT_COUNTER, (uint64_t)bytes);
  end_event(t);
}

static const char *const stream_names[HL_STREAMS] = {"device", "collectives", "permutations",
                                                     "copies"};

void hl_cluster_perfetto(const HlClusterProgram *p, const HlClusterRun *run, HlBuf *out) {
  Trace t = {.out = out};
  bool used[HL_STREAMS] = {true};
  int64_t live = -1;
  for (int k = 0; k < p->n_steps; k++)
    used[p->step[k].stream] = true;
  put_track(&t, PROCESS, p->name, p->name, 0, false);
  for (int k = 0; k < HL_STREAMS; k++)
    if (used[k])
      put_track(&t, (uint64_t)(STREAM_TRACKS + k), stream_names[k], NULL, k + 1, false);
  put_track(&t, MEMORY_TRACK, "memory", NULL, 0, true);
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    const HlStepRun *r = &run->step[k];
    if (step->kind == HL_STEP_WAIT ? r->end > r->begin : r->end > 0)
      put_slice(&t, r->begin, r->end, (uint64_t)(STREAM_TRACKS + step->stream), step->name,
                step->category);
    if (step->live != live && step->kind != HL_STEP_WAIT)
      put_memory(&t, r->begin, live = step->live);
  }
  for (int k = 0; k < 2; k++)
    map_free(&t.names[k]);
  hl_buf_free(&t.packet);
  hl_buf_free(&t.part);
  hl_buf_free(&t.inner);
}
