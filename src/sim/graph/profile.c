// sim/graph/profile.c: profiles: the table of ops that TPU profilers write as CSV; traces are read beside (trace.c).
//
// A row an op, quoted where it has commas, with "" for a quote. Columns go by their places; the header names them.

#include <math.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "sim/graph/profile.h"

enum {
  CATEGORY = 1,
  OP_TEXT = 2,
  OCCURRENCES = 4,
  SELF_TIME = 8,
  ARITHMETIC = 12,
  TRAFFIC = 13,
  COLUMNS = 14
};

typedef struct Csv {
  HlCx *cx;
  const HlSource *source;
  HlStr rest;
  HlBuf field;     // of the row, each ended by a NUL
  VEC(size_t) at;  // where each begins in `field`
} Csv;

static HlPos here(const Csv *csv, const char *at) {
  return (HlPos){csv->source, (HlLoc)(at - hl_source_bytes(csv->source).at + 1)};
}

static void begin_field(Csv *csv) {
  if (csv->at.n > 0)
    hl_buf_putc(&csv->field, 0);
  vec_push(&csv->at, csv->field.n);
}

// Splits the next line; false: there is none. What stands in quotes may have commas; a quote in it stands there twice.
static bool next_row(Csv *csv) {
  while (csv->rest.n > 0 && is_space(csv->rest.at[0]))
    csv->rest = (HlStr){csv->rest.at + 1, csv->rest.n - 1};
  if (csv->rest.n == 0)
    return false;
  const char *end = memchr(csv->rest.at, '\n', csv->rest.n);
  const size_t n = end ? (size_t)(end - csv->rest.at) : csv->rest.n;
  csv->field.n = 0;
  csv->at.n = 0;
  begin_field(csv);
  bool quoted = false;
  for (size_t k = 0; k < n; k++) {
    const char c = csv->rest.at[k];
    const bool twice = quoted && c == '"' && k + 1 < n && csv->rest.at[k + 1] == '"';
    if (twice)
      hl_buf_putc(&csv->field, csv->rest.at[k++]);
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      begin_field(csv);
    else if (c != '\r' || k + 1 < n)
      hl_buf_putc(&csv->field, c);
  }
  csv->rest = (HlStr){csv->rest.at + n, csv->rest.n - n};
  return true;
}

static const char *field(const Csv *csv, int column) {
  return csv->field.at + csv->at.at[column];
}

// A number of a column; false after reporting.
static bool number(const Csv *csv, HlPos pos, int column, const char *what, double *out) {
  char *end;
  const char *text = field(csv, column);
  *out = base_read_double(text, &end);
  return (end > text && !*end && isfinite(*out) && *out >= 0) ||
         hl_error(csv->cx, pos, "column %d, %s, is '%.40s': expected a number of 0 or more",
                  column + 1, what, text);
}

// How often an op was executed: an integer that a double holds.
static bool count(const Csv *csv, HlPos pos, int column, const char *what, int64_t *out) {
  double value;
  if (!number(csv, pos, column, what, &value))
    return false;
  if (value > 0x1p53)
    return hl_error(csv->cx, pos, "column %d, %s, is %.40s: expected at most 2^53", column + 1,
                    what, field(csv, column));
  *out = (int64_t)value;
  return true;
}

static uint64_t name_hash(HlStr name) {
  return hl_hash_bytes(name.at, name.n, 0);
}

const HlSimProfileRow *hl_sim_profile_find(const HlSimProfile *profile, HlStr name) {
  MapWalk walk = map_walk(&profile->by_name, name_hash(name));
  for (uint64_t k; (k = map_next(&walk));)
    if (hl_str_equal(profile->rows.at[k - 1].name, name))
      return &profile->rows.at[k - 1];
  return NULL;
}

int hl_sim_profile_rows(const HlSimProfile *profile, const HlSimProfileRow **out) {
  *out = profile->rows.at;
  return profile->rows.n;
}

bool profile_add(HlSimProfile *profile, HlSimProfileRow row) {
  if (hl_sim_profile_find(profile, row.name))
    return false;
  row.name.at = hl_arena_strndup(profile->arena, row.name.at, row.name.n);
  row.category.at = hl_arena_strndup(profile->arena, row.category.at, row.category.n);
  vec_push_in(profile->arena, &profile->rows, row);
  map_add(&profile->by_name, name_hash(row.name), (uint64_t)profile->rows.n);
  return true;
}

// "%fusion.12 = ..." or "fusion.12"
static HlStr op_name(const char *text) {
  text += *text == '%';
  return (HlStr){text, strcspn(text, " ")};
}

static bool add_row(const Csv *csv, HlPos pos, HlSimProfile *out, int64_t replicas,
                    HlSimCompat compat) {
  int64_t occurrences = 0;
  double micros, gigaflops, bandwidth;
  if (csv->at.n < COLUMNS)
    return hl_error(csv->cx, pos,
                    "a row with %d columns: expected %d or more, as TPU profilers write them",
                    csv->at.n, COLUMNS);
  if (strcmp(field(csv, CATEGORY), "unknown") == 0)
    return true;
  if (!count(csv, pos, OCCURRENCES, "occurrences", &occurrences) ||
      !number(csv, pos, SELF_TIME, "average self time", &micros) ||
      !number(csv, pos, ARITHMETIC, "GFLOP/s", &gigaflops) ||
      !number(csv, pos, TRAFFIC, "GiB/s", &bandwidth))
    return false;
  const HlStr name = op_name(field(csv, OP_TEXT));
  if (hl_sim_profile_find(out, name))
    return hl_error(csv->cx, pos, "%.*s has a row already", (int)(name.n < 80 ? name.n : 80),
                    name.at);
  const double giga = compat == HL_SIM_PARAGRAPH ? 1e9 : 1073741824.0;
  const HlSimProfileRow row = {.name = name,
                               .category = hl_str(field(csv, CATEGORY)),
                               .occurrences = occurrences / replicas,
                               .seconds = micros * 1e-6,
                               .flops = gigaflops * micros * 1000,
                               .bytes = bandwidth * micros * (giga / 1e9) * 1000};
  return profile_add(out, row);
}

static bool check_header(const Csv *csv, HlPos pos) {
  return (csv->at.n >= COLUMNS && strstr(field(csv, OP_TEXT), "HLO")) ||
         hl_error(csv->cx, pos, "expected the header of a profile: Rank, Category, HLO op, ...");
}

static bool read_csv(HlCx *cx, const HlSource *source, int64_t replicas, HlSimCompat compat,
                     HlSimProfile *out) {
  Csv csv = {.cx = cx, .source = source, .rest = hl_source_bytes(source)};
  bool ok = next_row(&csv) ? check_header(&csv, here(&csv, hl_source_bytes(source).at))
                           : hl_error(cx, (HlPos){source, 1}, "the profile is empty");
  for (const char *row = csv.rest.at; ok && next_row(&csv); row = csv.rest.at)
    ok = add_row(&csv, here(&csv, row + (*row == '\n')), out, replicas > 0 ? replicas : 1, compat);
  hl_buf_free(&csv.field);
  vec_free(&csv.at);
  return ok;
}

HlSimProfile *hl_sim_profile_read(HlCx *cx, HlSource *source, int64_t replicas,
                                  HlSimCompat compat) {
  HlArena *arena = hl_arena_new();
  HlSimProfile *out = HL_NEW(arena, HlSimProfile);
  *out = (HlSimProfile){.arena = arena, .by_name = {.arena = arena}};
  const bool ok = trace_is(hl_source_bytes(source)) ? trace_read(cx, source, replicas, out)
                                                    : read_csv(cx, source, replicas, compat, out);
  if (ok)
    return out;
  hl_arena_free(arena);
  return NULL;
}

void hl_sim_profile_free(HlSimProfile *profile) {
  if (profile)
    hl_arena_free(profile->arena);
}
