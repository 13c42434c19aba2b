// cpu/sort/sort.c: running sorts.
//
// Rows go to threads as they come; of few long rows each is cut into parts (radix.h). Rows in which the comparator is no order,
// and comparators that are no keys at all, are merged (merge.h).

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/sort/merge.h"
#include "cpu/sort/radix.h"
#include "cpu/sort/sort.h"

enum {
  LONG_ROW = 1 << 15,  // so long that threads share it
  PART = 1 << 16,      // about as much as a part of one has
  MOST_PARTS = 32,
  CHUNK = 1 << 14  // elements of short rows that are a chunk
};

static const SortField place_field = SORT_PLACE_FIELD;

// --- Rows ---------------------------------------------------------------------------------------

// A row at hand: by one thread, or by the parts of a team.
typedef struct Row {
  const SortKernel *s;
  void *const *buffer;
  char **base;    // by buffer: of the row
  CpuTeam *team;  // NULL: one part, here
  const SortPlan *plan;
  SortRadix radix;
  void *memory[2];  // s->size bytes an element each
  uint32_t *order;  // where there are several placed plans
  char *machines;   // one for each part
  int64_t width;    // of runs that are merged
  int operand;      // that is picked
  atomic_uint saw;
} Row;

// Something done with each part.
typedef void Part(Row *row, int part);
typedef struct Parts {
  Row *row;
  Part *each;
} Parts;

static bool run_part(void *user, int64_t chunk, CpuMember *member) {
  const Parts *p = user;
  p->each(p->row, (int)chunk);
  return true;
}

static bool in_parts(Row *row, double seconds, Part *each) {
  if (!row->team) {
    each(row, 0);
    return true;
  }
  return cpu_parallel(row->team, row->radix.parts, seconds * (double)row->s->length, run_part,
                      &(Parts){row, each});
}

static SortSpan span_of(const Row *row, int part, const SortField *field, int buffer) {
  const int64_t first = sort_part(&row->radix, part);
  return (SortSpan){.field = field,
                    .base = row->base[buffer] + field->part * field->bytes,
                    .stride = row->s->rows.stride[buffer] * field->parts,
                    .first = first,
                    .n = sort_part(&row->radix, part + 1) - first,
                    .records = row->radix.records,
                    .size = row->plan->size};
}

// --- Packing ------------------------------------------------------------------------------------

static void pack_part(Row *row, int part) {
  unsigned saw = 0;
  for (int k = 0; k < row->plan->n_fields; k++) {
    const SortSpan span = span_of(row, part, &row->plan->field[k], row->plan->field[k].operand);
    saw |= sort_pack(&span);
  }
  atomic_fetch_or(&row->saw, saw);
}

static size_t machine_bytes(const SortKernel *s) {
  return s->machine ? (machine_copy_bytes(s->machine) + 63) & ~(size_t)63 : 0;
}

static Machine *machine_of(Row *row, int part) {
  const Machine *m = row->s->machine;
  return machine_copy(m, row->machines + (size_t)part * machine_bytes(row->s));
}

static uint64_t number_of(const MachineKey *key, Cell cell, unsigned *saw) {
  const uint64_t sign = (uint64_t)1 << 63;
  const KeyValue value = machine_key_value(key, cell);
  if (!key->is_float)
    return (uint64_t)value.i ^ sign ^ (key->up ? 0 : UINT64_MAX);
  *saw |= value.f != value.f ? SORT_SAW_NAN : 0;
  uint64_t bits;
  const double f = value.f == 0 ? 0 : value.f;
  memcpy(&bits, &f, sizeof bits);
  return (bits & sign ? ~bits : bits | sign) ^ (key->up ? 0 : UINT64_MAX);
}

// Adds the keys that the machine makes.
static void compute_part(Row *row, int part) {
  const SortKernel *s = row->s;
  unsigned saw = 0;
  Machine *m = machine_of(row, part);
  SortPair *record = row->radix.records;
  const int k = s->key.operand;
  for (int64_t i = sort_part(&row->radix, part); i < sort_part(&row->radix, part + 1); i++) {
    m->cell[2 * k] = m->cell[2 * k + 1] =
        cell_load(s->dtype[k], row->base[k], i * s->rows.stride[k]);
    machine_run(m);
    saw |= m->cell[s->key.a] != m->cell[s->key.b] ? SORT_SAW_CHAOS : 0;
    record[i].high = number_of(&s->key, m->cell[s->key.a], &saw);
  }
  atomic_fetch_or(&row->saw, saw);
}

// Makes records by a plan, of the elements as they are.
static bool pack(Row *row, const SortPlan *plan) {
  row->plan = plan;
  row->radix.records = row->memory[0];
  row->radix.spare = row->memory[1];
  row->radix.size = plan->size;
  row->radix.low = plan->low;
  return in_parts(row, 1e-9, pack_part) &&
         (!row->s->has_key || in_parts(row, 100e-9, compute_part));
}

// The places of records, in their order.
static void note_part(Row *row, int part) {
  const SortRadix *r = &row->radix;
  const uint64_t *word = r->records;
  const int64_t step = r->size / 8;
  for (int64_t k = sort_part(r, part); k < sort_part(r, part + 1); k++)
    row->order[k] = (uint32_t)word[k * step];
}

// Brings new records into the order that was noted.
static void reorder_part(Row *row, int part) {
  const SortRadix *r = &row->radix;
  for (int64_t k = sort_part(r, part); k < sort_part(r, part + 1); k++)
    if (r->size == 8)
      ((uint64_t *)r->spare)[k] = ((const uint64_t *)r->records)[row->order[k]];
    else
      ((SortPair *)r->spare)[k] = ((const SortPair *)r->records)[row->order[k]];
}

// --- Sorting ------------------------------------------------------------------------------------

static void look_part(Row *row, int part) {
  sort_look(&row->radix, part);
}

static void count_part(Row *row, int part) {
  sort_count(&row->radix, part);
}

static void move_part(Row *row, int part) {
  sort_move(&row->radix, part);
}

static bool sort_records(Row *row) {
  SortRadix *r = &row->radix;
  if (r->n <= SORT_FEW) {
    sort_few(r);
    return true;
  }
  if (!in_parts(row, 0.5e-9, look_part))
    return false;
  for (int left = sort_digits(r); left > 0; left--, sort_next_digit(r)) {
    if (!in_parts(row, 0.5e-9, count_part))
      return false;
    if (!sort_place(r))
      continue;
    if (!in_parts(row, 1.5e-9, move_part))
      return false;
    sort_swap(r);
  }
  return true;
}

// --- Unpacking ----------------------------------------------------------------------------------

static void unpack_part(Row *row, int part) {
  for (int k = 0; k < row->plan->n_fields; k++) {
    const SortField *field = &row->plan->field[k];
    const SortSpan span = span_of(row, part, field, row->s->n + field->operand);
    sort_unpack(&span);
  }
}

// Where a result lies where its operand does, it is gathered beside it first.
static bool is_in_place(const Row *row) {
  return row->buffer[row->operand] == row->buffer[row->s->n + row->operand];
}

static void pick_part(Row *row, int part) {
  const SortKernel *s = row->s;
  const int k = row->operand;
  SortSpan span = span_of(row, part, &place_field, s->n + k);
  if (is_in_place(row)) {
    span.base = row->radix.spare;
    span.stride = 1;
  }
  sort_pick(&span, hl_dtype_bytes(s->dtype[k]), row->base[k], s->rows.stride[k]);
}

static void put_part(Row *row, int part) {
  const SortKernel *s = row->s;
  const SortSpan span = span_of(row, part, &place_field, s->n + row->operand);
  sort_put(&span, hl_dtype_bytes(s->dtype[row->operand]), row->radix.spare);
}

static bool pick_all(Row *row) {
  for (row->operand = 0; row->operand < row->s->n; row->operand++)
    if (!in_parts(row, 3e-9, pick_part) || (is_in_place(row) && !in_parts(row, 1e-9, put_part)))
      return false;
  return true;
}

// --- Merging ------------------------------------------------------------------------------------

static SortMerge merge_of(Row *row, int part) {
  const SortKernel *s = row->s;
  return (SortMerge){machine_of(row, part), s->n, s->dtype, row->base, s->rows.stride, s->length};
}

static void merge_stretch(Row *row, int part) {
  const SortMerge m = merge_of(row, part);
  const int64_t first = part * row->width, end = first + row->width;
  sort_by_merging(&m, first, end < m.n ? end : m.n, row->radix.records, row->radix.spare);
}

static void merge_two(Row *row, int part) {
  const SortMerge m = merge_of(row, part);
  sort_merge_runs(&m, 2 * part * row->width, row->width, row->radix.records, row->radix.spare);
}

// The places, as records have them.
static void widen_part(Row *row, int part) {
  const SortRadix *r = &row->radix;
  for (int64_t k = sort_part(r, part); k < sort_part(r, part + 1); k++)
    ((uint64_t *)r->spare)[k] = ((const uint32_t *)r->records)[k];
}

static bool merge_row(Row *row) {
  static const SortPlan places = {.size = 8};
  SortRadix *r = &row->radix;
  const int parts = r->parts;
  row->plan = &places;
  r->records = row->memory[0];
  r->spare = row->memory[1];
  for (row->width = 1; row->width * parts < r->n; row->width *= 2)
    ;
  r->parts = (int)((r->n + row->width - 1) / row->width);
  bool ok = in_parts(row, 1e-6, merge_stretch);
  for (; ok && row->width < r->n; row->width *= 2) {
    r->parts = (int)((r->n + 2 * row->width - 1) / (2 * row->width));
    ok = in_parts(row, 100e-9, merge_two);
    sort_swap(r);
  }
  r->parts = parts;
  ok = ok && in_parts(row, 1e-9, widen_part);
  sort_swap(r);
  return ok && pick_all(row);
}

// --- Running ------------------------------------------------------------------------------------

static bool sort_placed(Row *row) {
  const SortKernel *s = row->s;
  for (int k = 0; k < s->n_placed; k++) {
    if (k > 0 && !in_parts(row, 1e-9, note_part))
      return false;
    if (!pack(row, &s->placed[k]))
      return false;
    if (atomic_load(&row->saw) & s->fails)
      return merge_row(row);
    if (k > 0) {
      if (!in_parts(row, 2e-9, reorder_part))
        return false;
      sort_swap(&row->radix);
    }
    if (!sort_records(row))
      return false;
  }
  return s->n_placed ? pick_all(row) : merge_row(row);
}

static bool sort_row(Row *row) {
  const SortKernel *s = row->s;
  atomic_store(&row->saw, 0);
  if (!s->whole.size)
    return sort_placed(row);
  if (!pack(row, &s->whole))
    return false;
  const unsigned saw = atomic_load(&row->saw);
  if (saw & s->fails)
    return merge_row(row);
  return saw ? sort_placed(row) : sort_records(row) && in_parts(row, 1e-9, unpack_part);
}

static void *take(uintptr_t *memory, size_t bytes) {
  const uintptr_t at = *memory;
  *memory += (bytes + 63) & ~(size_t)63;
  return (void *)at;
}

// Shares out memory; how much it takes, which is all that is asked where there is none yet.
static size_t set_memory(Row *row, int parts, void *memory) {
  const SortKernel *s = row->s;
  uintptr_t at = (uintptr_t)memory;
  row->base = take(&at, sizeof(char *) * 2 * (size_t)s->n);
  row->radix.count = take(&at, sizeof(uint32_t) * SORT_DIGITS * (size_t)parts);
  row->radix.differ = take(&at, sizeof(uint64_t) * (size_t)parts);
  for (int k = 0; k < 2; k++)
    row->memory[k] = take(&at, (size_t)(s->length * s->size));
  row->order = take(&at, s->n_placed > 1 ? sizeof(uint32_t) * (size_t)s->length : 0);
  row->machines = take(&at, machine_bytes(s) * (size_t)parts);
  row->radix.parts = parts;
  row->radix.n = s->length;
  return at - (uintptr_t)memory;
}

typedef struct Rows {
  const SortKernel *s;
  void *const *buffer;
  int64_t chunk;  // rows of one
} Rows;

static bool run_rows(void *user, int64_t chunk, CpuMember *member) {
  const Rows *rows = user;
  const SortKernel *s = rows->s;
  Row row = {.s = s, .buffer = rows->buffer};
  void *memory = cpu_scratch(member, set_memory(&row, 1, NULL));
  if (!memory)
    return false;
  set_memory(&row, 1, memory);
  const int64_t first = chunk * rows->chunk, end = first + rows->chunk;
  bool ok = true;
  for (int64_t k = first; ok && k < s->rows.n && k < end; k++) {
    sort_rows_at(&s->rows, row.buffer, k, row.base);
    ok = sort_row(&row);
  }
  return ok;
}

static bool run_long_rows(const SortKernel *s, CpuTeam *team, void *const *buffer) {
  Row row = {.s = s, .buffer = buffer, .team = team};
  const int64_t most = s->length / PART;
  const int parts = most > MOST_PARTS ? MOST_PARTS : most < 2 ? 2 : (int)most;
  void *memory = cpu_team_scratch(team, set_memory(&row, parts, NULL));
  if (!memory)
    return false;
  set_memory(&row, parts, memory);
  bool ok = true;
  for (int64_t k = 0; ok && k < s->rows.n; k++) {
    sort_rows_at(&s->rows, row.buffer, k, row.base);
    ok = sort_row(&row);
  }
  return ok;
}

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const SortKernel *s = (const SortKernel *)kernel;
  const int threads = cpu_team_threads(team);
  if (s->rows.n == 0 || s->length == 0)
    return true;
  if (threads > 1 && s->length >= LONG_ROW && s->rows.n < 2 * threads)
    return run_long_rows(s, team, buffer);
  Rows rows = {s, buffer, s->length >= CHUNK ? 1 : CHUNK / s->length};
  return cpu_parallel(team, (s->rows.n + rows.chunk - 1) / rows.chunk, kernel->seconds, run_rows,
                      &rows);
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const SortKernel *s = (const SortKernel *)kernel;
  hl_buf_printf(out, "%" PRId64 " rows of %" PRId64 " elements", s->rows.n, s->length);
  if (s->whole.size)
    hl_buf_printf(out, ", as records of %d bytes", s->whole.size);
  for (int k = 0; k < s->n_placed; k++)
    hl_buf_printf(out, ", keys and places of %d", s->placed[k].size);
  hl_buf_puts(out, s->machine ? ", merges\n" : "\n");
}

const CpuKernelKind cpu_kind_sort = {"sort", sort_make, run, print};
