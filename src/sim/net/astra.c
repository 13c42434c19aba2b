// sim/net/astra.c: ASTRA-sim's files, and its time for a ring.
//
// Its network files are a few keys with lists (YAML in the flow style), its system files JSON. In its analytical network a
// gigabyte is 2^30 bytes, and a message takes latency + bytes / bandwidth, cut to whole nanoseconds. In its native ring a chunk waits
// the endpoint's delay once to begin and once for each message that comes in; what is to be reduced takes three passes over
// local memory, each cut to whole nanoseconds; with one active chunk the chunks go one after another.

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "sim/net/net.h"

enum { MAX_DIMENSIONS = HL_NET_LEVELS };

typedef struct Yaml {
  HlCx *cx;
  const HlSource *source;
  const char *base;
  int n_topology, n_count, n_bandwidth, n_latency;
  HlStr topology[MAX_DIMENSIONS];
  double count[MAX_DIMENSIONS], bandwidth[MAX_DIMENSIONS], latency[MAX_DIMENSIONS];
} Yaml;

static HlPos pos_of(const Yaml *y, const char *at) {
  return (HlPos){y->source, (HlLoc)(at - y->base + 1)};
}

static HlStr trim(HlStr s) {
  while (s.n > 0 && (is_space(*s.at) || *s.at == '"' || *s.at == '\''))
    s.at++, s.n--;
  while (s.n > 0 && (is_space(s.at[s.n - 1]) || s.at[s.n - 1] == '"' || s.at[s.n - 1] == '\''))
    s.n--;
  return s;
}

// "a, b" between brackets, or one value alone.
static bool split_list(Yaml *y, HlStr list, HlStr *out, int *n) {
  list = trim(list);
  if (list.n >= 2 && list.at[0] == '[' && list.at[list.n - 1] == ']')
    list = (HlStr){list.at + 1, list.n - 2};
  *n = 0;
  while (list.n > 0) {
    const char *comma = memchr(list.at, ',', list.n);
    const HlStr item = {list.at, comma ? (size_t)(comma - list.at) : list.n};
    if (*n == MAX_DIMENSIONS)
      return hl_error(y->cx, pos_of(y, item.at), "more than %d dimensions", MAX_DIMENSIONS);
    out[(*n)++] = trim(item);
    if (!comma)
      break;
    list = (HlStr){comma + 1, list.n - item.n - 1};
  }
  return true;
}

static bool numbers(Yaml *y, const HlStr *item, int n, double *out) {
  for (int k = 0; k < n; k++) {
    char text[64] = "", *end;
    if (item[k].n >= sizeof text)
      return hl_error(y->cx, pos_of(y, item[k].at), "expected a number");
    memcpy(text, item[k].at, item[k].n);
    out[k] = base_read_double(text, &end);
    if (end == text || *end || !isfinite(out[k]) || out[k] < 0)
      return hl_error(y->cx, pos_of(y, item[k].at), "expected a number, found '%s'", text);
  }
  return true;
}

static bool read_key(Yaml *y, HlStr key, HlStr value) {
  HlStr item[MAX_DIMENSIONS];
  int n;
  if (!split_list(y, value, item, &n))
    return false;
  if (hl_str_is(key, "topology")) {
    memcpy(y->topology, item, sizeof item);
    y->n_topology = n;
    return true;
  }
  if (hl_str_is(key, "npus_count"))
    return y->n_count = n, numbers(y, item, n, y->count);
  if (hl_str_is(key, "bandwidth"))
    return y->n_bandwidth = n, numbers(y, item, n, y->bandwidth);
  if (hl_str_is(key, "latency"))
    return y->n_latency = n, numbers(y, item, n, y->latency);
  return hl_error(y->cx, pos_of(y, key.at),
                  "'%.*s' is no key of a network: topology, npus_count, bandwidth, latency",
                  (int)key.n, key.at);
}

static bool read_yaml(Yaml *y) {
  const HlStr bytes = hl_source_bytes(y->source);
  y->base = bytes.at;
  const char *const end = bytes.at + bytes.n;
  for (const char *line = bytes.at; line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
    const char *hash = memchr(line, '#', (size_t)(stop - line));
    const HlStr text = trim((HlStr){line, (size_t)((hash ? hash : stop) - line)});
    const char *colon = text.n ? memchr(text.at, ':', text.n) : NULL;
    if (text.n && !colon)
      return hl_error(y->cx, pos_of(y, text.at), "expected 'key: [values]'");
    if (text.n && !read_key(y, trim((HlStr){text.at, (size_t)(colon - text.at)}),
                            (HlStr){colon + 1, text.n - (size_t)(colon + 1 - text.at)}))
      return false;
    line = stop + 1;
  }
  if (y->n_topology < 1 || y->n_count != y->n_topology || y->n_bandwidth != y->n_topology ||
      y->n_latency != y->n_topology)
    return hl_error(y->cx, (HlPos){y->source, 0},
                    "topology, npus_count, bandwidth and latency must be lists of one length");
  return true;
}

// Its files begin with one of its keys; ours never do, as no line of ours has a colon behind its first word.
bool net_is_astra(const HlSource *source) {
  HlStr rest = hl_source_bytes(source);
  while (rest.n > 0) {
    const char *newline = memchr(rest.at, '\n', rest.n);
    const HlStr line = trim((HlStr){rest.at, newline ? (size_t)(newline - rest.at) : rest.n});
    if (line.n > 0 && *line.at != '#') {
      const size_t n = strlen("topology:");
      return line.n > n &&
             (memcmp(line.at, "topology:", n) == 0 || memcmp(line.at, "npus_count:", n + 2) == 0);
    }
    if (!newline)
      return false;
    rest = (HlStr){newline + 1, rest.n - (size_t)(newline + 1 - rest.at)};
  }
  return false;
}

static int shape_of(Yaml *y, HlStr word) {
  static const char *const words[] = {"Ring", "Switch", "FullyConnected"};
  static const HlNetShape shapes[] = {HL_NET_RING, HL_NET_SWITCH, HL_NET_FULL};
  const int k = net_word(word, words, HL_COUNT_OF(words));
  if (k >= 0)
    return shapes[k];
  hl_error(y->cx, pos_of(y, word.at), "no topology '%.*s': Ring, Switch or FullyConnected",
           (int)word.n, word.at);
  return -1;
}

const HlSystem *net_read_astra(HlCx *cx, HlArena *arena, const HlSource *source) {
  Yaml y = {.cx = cx, .source = source};
  if (!read_yaml(&y))
    return NULL;
  HlSystem *s = HL_NEW(arena, HlSystem);
  *s = (HlSystem){.name = "astra",
                  .about = "a network of ASTRA-sim's",
                  .device = hl_target_find("h100"),
                  .n_levels = y.n_topology,
                  .efficiency = 1,
                  .slowdown = 1,
                  .share = 1};
  double devices = 1;
  for (int k = 0; k < y.n_topology; k++) {
    const int shape = shape_of(&y, y.topology[k]);
    if (shape < 0)
      return NULL;
    if (!(y.count[k] >= 1) || y.count[k] != floor(y.count[k]) || !(y.bandwidth[k] > 0) ||
        (devices *= y.count[k]) > 1 << 24) {
      hl_error(cx, (HlPos){source, 0}, "a dimension of %.17g places with %.17g GB/s", y.count[k],
               y.bandwidth[k]);
      return NULL;
    }
    const double bandwidth = y.bandwidth[k] * 1073741824, latency = y.latency[k] * 1e-9;
    s->level[k] = (HlNetLevel){.shape = (HlNetShape)shape,
                               .n = (int64_t)y.count[k],
                               .bandwidth = bandwidth,
                               .latency = latency,
                               .far_bandwidth = bandwidth,
                               .far_latency = latency};
  }
  return s;
}

// --- Its time of a ring -----------------------------------------------------------------------------------------

static bool read_system(HlCx *cx, const HlSource *source, HlAstra *out) {
  const HlStr bytes = hl_source_bytes(source);
  json_error_t error;
  json_t *root = json_loadb(bytes.at, bytes.n, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return hl_error(cx, (HlPos){source, (HlLoc)error.position}, "no JSON: %s", error.text);
  const json_t *delay = json_object_get(root, "endpoint-delay"),
               *memory = json_object_get(root, "local-mem-bw"),
               *splits = json_object_get(root, "preferred-dataset-splits"),
               *active = json_object_get(root, "active-chunks-per-dimension");
  const json_t *how = json_array_get(json_object_get(root, "all-reduce-implementation"), 0);
  bool ok = true;
  if (!json_is_integer(delay) || !json_is_number(memory) || !json_is_integer(splits) ||
      json_integer_value(delay) < 0 || json_integer_value(delay) > 1000000000 ||
      !(json_number_value(memory) > 0) || json_integer_value(splits) < 1 ||
      json_integer_value(splits) > 1 << 20)
    ok = hl_error(cx, (HlPos){source, 0},
                  "expected endpoint-delay, local-mem-bw and preferred-dataset-splits");
  else if (json_is_string(how) && strcmp(json_string_value(how), "ring") != 0)
    ok = hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){source, 0}, "its '%s' is not there: ring alone",
                       json_string_value(how));
  else if (json_is_integer(active) && json_integer_value(active) != 1)
    ok = hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){source, 0},
                       "several active chunks are not there: one alone");
  if (ok) {
    out->endpoint_delay = json_integer_value(delay);
    out->memory = json_number_value(memory);
    out->chunks = (int)json_integer_value(splits);
  }
  json_decref(root);
  return ok;
}

bool hl_astra_read(HlCx *cx, const HlSource *network, const HlSource *system, HlAstra *out) {
  Yaml y = {.cx = cx, .source = network};
  *out = (HlAstra){0};
  if (!read_yaml(&y) || !read_system(cx, system, out))
    return false;
  if (y.n_topology != 1 || !hl_str_is(y.topology[0], "Ring"))
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){network, 0},
                         "to the nanosecond there is one Ring alone");
  if (!(y.count[0] >= 2) || y.count[0] > 1 << 20 || !(y.bandwidth[0] > 0))
    return hl_error(cx, (HlPos){network, 0}, "a ring of %.17g with %.17g GB/s", y.count[0],
                    y.bandwidth[0]);
  out->n = (int64_t)y.count[0];
  out->bandwidth = y.bandwidth[0];
  out->latency = y.latency[0];
  return true;
}

bool hl_astra_time(HlCx *cx, const HlAstra *a, HlExchangeKind kind, int64_t bytes,
                   int64_t *nanoseconds) {
  const int64_t p = a->n;
  const double per_ns = a->bandwidth * 1073741824 / 1e9;
  const int64_t chunk = bytes / a->chunks, message = kind == HL_ALL_GATHER ? chunk : chunk / p;
  int64_t messages = p - 1, reduced = p - 1;
  if (kind == HL_ALL_REDUCE)
    messages = 2 * (p - 1);
  else if (kind == HL_ALL_TO_ALL)
    messages = p * (p - 1) / 2, reduced = 0;
  else if (kind == HL_ALL_GATHER)
    reduced = 0;
  else if (kind != HL_REDUCE_SCATTER)
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "ASTRA-sim has no %s",
                         hl_exchange_text(kind));
  if (message < 1)
    return hl_error(cx, (HlPos){0}, "%lld bytes make no messages for %lld in %d chunks",
                    (long long)bytes, (long long)p, a->chunks);
  const double link = trunc(a->latency + (double)message / per_ns),
               pass = trunc((double)message / (a->memory * 1e9) * 1e9);
  const double about =
      a->chunks * ((double)(messages + 1) * (double)a->endpoint_delay + (double)messages * link +
                   (double)reduced * 3 * pass);
  if (!(fabs(link) < 0x1p53 && pass < 0x1p53 && fabs(about) < 0x1p62))
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "it takes longer than 2^62 ns");
  *nanoseconds = a->chunks * ((messages + 1) * a->endpoint_delay + messages * (int64_t)link +
                              reduced * 3 * (int64_t)pass);
  return true;
}
