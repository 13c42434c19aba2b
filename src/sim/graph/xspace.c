// sim/graph/xspace.c: traces as XSpace, the message that profilers of XLA write (`jax.profiler`: *.xplane.pb).
//
//   XSpace: planes = 1, errors = 2, warnings = 3, hostnames = 4
//   XPlane: id = 1, name = 2, lines = 3, event_metadata = 4, stat_metadata = 5 (maps: key = 1, value = 2), stats = 6
//   XLine: id = 1, name = 2, timestamp_ns = 3, events = 4, duration_ps = 9, display_id = 10, display_name = 11
//   XEvent: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4, num_occurrences = 5
//   XStat: metadata_id = 1, double_value = 2, uint64_value = 3, int64_value = 4, str_value = 5, bytes_value = 6, ref_value = 7
//   XEventMetadata: id = 1, name = 2, metadata = 3, display_name = 4, stats = 5; XStatMetadata: id = 1, name = 2
//
// A plane is a device or the host, a line a thread or a stream of it. A text may be a reference to the name of an XStatMetadata.
// What is told of an op stands in its events or, once for all of them, in their metadata. An event is of an op if there is a
// stat hlo_op, or an hlo_category: then its metadata's display_name is the op's name, or its name, which on a TPU is the
// op's whole text.

#include <math.h>
#include <string.h>

#include "proto/wire.h"
#include "sim/graph/profile.h"

// What stats tell of an event.
typedef struct Said {
  HlStr op, category;
  double flops, bytes;
  uint64_t run, device;
  bool has_run, is_share;
} Said;

typedef struct EventMetadata {
  HlStr name, display_name;
  Said said;
} EventMetadata;

typedef enum StatName {
  OTHER,
  HLO_OP,
  HLO_CATEGORY,
  FLOPS,
  MODEL_FLOPS,
  BYTES,
  RUN_ID,
  DEVICE,
  CHUNKS,
  N_STAT_NAMES
} StatName;
static const char *const stat_names[N_STAT_NAMES] = {[HLO_OP] = "hlo_op",
                                                     [HLO_CATEGORY] = "hlo_category",
                                                     [FLOPS] = "flops",
                                                     [MODEL_FLOPS] = "model_flops",
                                                     [BYTES] = "bytes_accessed",
                                                     [RUN_ID] = "run_id",
                                                     [DEVICE] = "device_ordinal",
                                                     [CHUNKS] = "chunks"};

typedef struct Plane {
  HlCx *cx;
  const HlSource *source;
  ProfileEvents *out;
  uint64_t number;
  VEC(HlStr) stat;  // names
  VEC(EventMetadata) event;
  Map stat_by_id, event_by_id;
} Plane;

bool xspace_is(HlStr bytes) {
  WireField f, inner;
  bool planes = false;
  while (wire_next(&bytes, &f)) {
    HlStr plane = f.bytes;
    if (f.type != WIRE_BYTES || f.number < 1 || f.number > 4)
      return false;
    if (f.number == 1 && f.bytes.n > 0 && (!wire_next(&plane, &inner) || inner.number > 6))
      return false;
    planes = planes || f.number == 1;
  }
  return planes && bytes.n == 0;
}

static bool damaged(const Plane *p, const char *at, const char *what) {
  return hl_error(p->cx, wire_pos(p->source, at), "a profile with a damaged %s", what);
}

// --- Stats ------------------------------------------------------------------------------------------------

typedef struct Stat {
  StatName name;
  HlStr text;
  double number;
  uint64_t bits;  // of a number
} Stat;

static StatName stat_name(const Plane *p, uint64_t id) {
  const uint64_t at = map_get(&p->stat_by_id, id);
  for (int k = 1; at && k < N_STAT_NAMES; k++)
    if (hl_str_is(p->stat.at[at - 1], stat_names[k]))
      return (StatName)k;
  return OTHER;
}

static bool read_stat(const Plane *p, HlStr rest, Stat *out) {
  WireField f;
  const char *at = rest.at;
  *out = (Stat){.number = NAN};
  while (wire_next(&rest, &f)) {
    if (f.number == 1 && f.type == WIRE_VARINT) {
      out->name = stat_name(p, f.value);
    } else if (f.number == 2 && f.type == WIRE_FIXED64) {
      memcpy(&out->number, &f.value, sizeof out->number);
      out->bits = f.value;
    } else if ((f.number == 3 || f.number == 4) && f.type == WIRE_VARINT) {
      out->number = f.number == 3 ? (double)f.value : (double)(int64_t)f.value;
      out->bits = f.value;
    } else if ((f.number == 5 || f.number == 6) && f.type == WIRE_BYTES) {
      out->text = f.bytes;
    } else if (f.number == 7 && f.type == WIRE_VARINT) {
      const uint64_t named = map_get(&p->stat_by_id, f.value);
      out->text = named ? p->stat.at[named - 1] : (HlStr){0};
    }
  }
  return rest.n == 0 || damaged(p, at, "XStat");
}

static void take_stat(Said *said, const Stat *s) {
  switch (s->name) {
  case HLO_OP: said->op = s->text; break;
  case HLO_CATEGORY: said->category = s->text; break;
  case FLOPS: said->flops = s->number; break;
  case MODEL_FLOPS: said->flops = said->flops > 0 ? said->flops : s->number; break;
  case BYTES: said->bytes = s->number; break;
  case RUN_ID:
    said->run = s->text.n > 0 ? hl_hash_bytes(s->text.at, s->text.n, 0) : s->bits;
    said->has_run = true;
    break;
  case DEVICE: said->device = s->bits; break;
  case CHUNKS: said->is_share = true; break;
  case OTHER:
  case N_STAT_NAMES: break;
  }
}

// --- Metadata ---------------------------------------------------------------------------------------------

// An entry of a map: *value is empty where there is none.
static bool read_entry(const Plane *p, HlStr rest, uint64_t *key, HlStr *value) {
  WireField f;
  const char *at = rest.at;
  *key = 0;
  *value = (HlStr){0};
  while (wire_next(&rest, &f)) {
    if (f.number == 1 && f.type == WIRE_VARINT)
      *key = f.value;
    else if (f.number == 2 && f.type == WIRE_BYTES)
      *value = f.bytes;
  }
  return rest.n == 0 || damaged(p, at, "entry of its metadata");
}

static bool read_stat_metadata(Plane *p, HlStr entry) {
  uint64_t id;
  HlStr rest, name = {0};
  WireField f;
  if (!read_entry(p, entry, &id, &rest))
    return false;
  while (wire_next(&rest, &f))
    if (f.number == 2 && f.type == WIRE_BYTES)
      name = f.bytes;
  vec_push(&p->stat, name);
  *map_at(&p->stat_by_id, id) = (uint64_t)p->stat.n;
  return rest.n == 0 || damaged(p, entry.at, "XStatMetadata");
}

static bool read_event_metadata(Plane *p, HlStr entry) {
  uint64_t id;
  HlStr rest;
  WireField f;
  Stat stat;
  EventMetadata m = {0};
  if (!read_entry(p, entry, &id, &rest))
    return false;
  while (wire_next(&rest, &f)) {
    if (f.number == 2 && f.type == WIRE_BYTES)
      m.name = f.bytes;
    else if (f.number == 4 && f.type == WIRE_BYTES)
      m.display_name = f.bytes;
    else if (f.number == 5 && f.type == WIRE_BYTES && !read_stat(p, f.bytes, &stat))
      return false;
    else if (f.number == 5 && f.type == WIRE_BYTES)
      take_stat(&m.said, &stat);
  }
  vec_push(&p->event, m);
  *map_at(&p->event_by_id, id) = (uint64_t)p->event.n;
  return rest.n == 0 || damaged(p, entry.at, "XEventMetadata");
}

// --- Events -----------------------------------------------------------------------------------------------

// "%fusion.12 = f32[2] fusion(...)": up to the space.
static HlStr first_word(HlStr text) {
  const char *end = text.n > 0 ? memchr(text.at, ' ', text.n) : NULL;
  return end ? (HlStr){text.at, (size_t)(end - text.at)} : text;
}

static HlStr op_of(const EventMetadata *m, const Said *said) {
  if (said->op.n > 0)
    return said->op;
  if (said->category.n == 0)
    return (HlStr){0};
  return m->display_name.n > 0 ? m->display_name : first_word(m->name);
}

static bool read_event(Plane *p, HlStr rest, uint64_t line) {
  static const EventMetadata none = {0};
  WireField f;
  Stat stat;
  const char *at = rest.at;
  HlStr fields = rest;
  const EventMetadata *m = &none;
  double offset = 0, picoseconds = 0;
  uint64_t times = 1;
  while (wire_next(&rest, &f)) {
    if (f.type != WIRE_VARINT)
      continue;
    const uint64_t known = f.number == 1 ? map_get(&p->event_by_id, f.value) : 0;
    m = known ? &p->event.at[known - 1] : m;
    offset = f.number == 2 ? (double)(int64_t)f.value : offset;
    picoseconds = f.number == 3 ? (double)(int64_t)f.value : picoseconds;
    times = f.number == 5 ? f.value : times;
  }
  if (rest.n > 0)
    return damaged(p, at, "XEvent");
  Said said = m->said;
  while (wire_next(&fields, &f))
    if (f.number == 4 && f.type == WIRE_BYTES) {
      if (!read_stat(p, f.bytes, &stat))
        return false;
      take_stat(&said, &stat);
    }
  const HlStr name = op_of(m, &said);
  if (name.n == 0 || said.is_share)
    return true;
  if (picoseconds < 0 || times > INT32_MAX)
    return damaged(p, at, "XEvent: a time below 0, or a count beyond 2^31");
  const int op = events_op(p->out, name);
  events_about(p->out, op, said.category, said.flops, said.bytes);
  events_add(p->out, (ProfileEvent){.op = op,
                                    .line = line,
                                    .has_run = said.has_run,
                                    .run = hl_hash_mix(said.run, said.device),
                                    .at = offset * 1e-6,
                                    .micros = picoseconds * 1e-6,
                                    .times = times > 1 ? (int64_t)times : 1});
  return true;
}

static bool read_line(Plane *p, HlStr rest, uint64_t number) {
  WireField f;
  const char *at = rest.at;
  const uint64_t line = hl_hash_mix(p->number, number);
  while (wire_next(&rest, &f))
    if (f.number == 4 && f.type == WIRE_BYTES && !read_event(p, f.bytes, line))
      return false;
  return rest.n == 0 || damaged(p, at, "XLine");
}

// Metadata before what refers to them, whatever their order in the file.
static bool read_plane(Plane *p, HlStr plane) {
  static const uint32_t parts[] = {5, 4, 3};
  bool ok = true;
  for (int k = 0; ok && k < HL_COUNT_OF(parts); k++) {
    HlStr rest = plane;
    WireField f;
    for (uint64_t number = 0; ok && wire_next(&rest, &f); number++) {
      if (f.number != parts[k] || f.type != WIRE_BYTES)
        continue;
      ok = f.number == 5   ? read_stat_metadata(p, f.bytes)
           : f.number == 4 ? read_event_metadata(p, f.bytes)
                           : read_line(p, f.bytes, number);
    }
    ok = ok && (rest.n == 0 || damaged(p, plane.at, "XPlane"));
  }
  return ok;
}

bool xspace_read(HlCx *cx, const HlSource *source, ProfileEvents *out) {
  HlStr rest = hl_source_bytes(source);
  WireField f;
  bool ok = true;
  for (uint64_t number = 0; ok && wire_next(&rest, &f); number++) {
    Plane p = {.cx = cx, .source = source, .out = out, .number = number};
    if (f.number == 1)
      ok = read_plane(&p, f.bytes);
    vec_free(&p.stat);
    vec_free(&p.event);
    map_free(&p.stat_by_id);
    map_free(&p.event_by_id);
  }
  return ok;
}
