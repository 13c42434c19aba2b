// cpu/sort/sort.c: kernels of sort.
//
// A row is packed into records, the records are sorted by their keys, and the results are unpacked from them. There are two ways to
// make records (plans). Where keys and what follows them fit, they hold all there is of the elements, and nothing else is
// looked at any more. Else they hold the keys and the place, by which the results are picked; so also in rows where a key does not say
// what the element was (-0, NaN). Keys of more than 64 bits are sorted by one after the other, the least first.
//
// Rows go to threads as they come; of few long rows each is cut into parts (radix.h). Rows in which the comparator is no order,
// and comparators that are no keys at all, are merged (merge.h).

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/sort/bits.h"
#include "cpu/sort/merge.h"
#include "cpu/sort/radix.h"

enum { LONG_ROW = 1 << 15, PART = 1 << 16, MOST_PARTS = 32, CHUNK = 1 << 14, MOST_OPERANDS = 1000 };

typedef struct Plan {
  int size, low;  // of radix.h
  int n_keys, n_fields;
  SortField *field;  // keys, then the other operands or the place
} Plan;

static const SortField place_field = {.form = SORT_PLACE, .parts = 1, .bytes = 4, .fresh = true};

typedef struct Sort {
  CpuKernel kernel;
  int n;  // operands
  const HlDtype *dtype;
  int64_t length, rows;  // of a row; how many
  int n_dims;            // of rows; the first is the fastest
  const int64_t *dim;
  const int64_t *stride;      // by buffer: of the elements of a row
  const int64_t *row_stride;  // by buffer and dimension
  Plan whole;                 // size 0: there is none
  Plan *placed;               // the one that decides least first
  int n_placed;
  unsigned fails;          // SORT_SAW_*: rows with one of these are merged
  const Machine *machine;  // NULL: not needed, or not to be had
  MachineKey key;          // what it makes of each element, where has_key
  bool has_key;
  int size;  // bytes of the largest record and element
} Sort;

extern const CpuKernelKind cpu_kind_sort;

// --- Plans --------------------------------------------------------------------------------------

static SortField key_field(const Sort *s, const SortKey *key) {
  const int bytes = hl_dtype_bytes(key->dtype);
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1), ones = sign | (sign - 1);
  SortField f = {.form = key->kind,
                 .operand = key->operand,
                 .part = key->part,
                 .parts = hl_is_complex(s->dtype[key->operand]) ? 2 : 1,
                 .bytes = bytes,
                 .table = key->table};
  if (key->kind == SORT_INTEGER && hl_is_signed(key->dtype))
    f.flip = sign;
  if (key->kind == SORT_FLOAT)
    f.most = bits_largest_number(key->dtype);
  if (key->down)
    f.flip ^= ones;
  return f;
}

// Puts keys into the highest bits, the others below; false: they need more than there is.
static bool lay_out(Plan *p) {
  int keys = 0, others = 0;
  for (int k = 0; k < p->n_fields; k++)
    *(k < p->n_keys ? &keys : &others) += 8 * p->field[k].bytes;
  if (keys > 64 || others > 64)
    return false;
  p->size = keys + others <= 32 ? 4 : keys + others <= 64 ? 8 : 16;
  const int width = p->size == 4 ? 32 : 64;
  p->low = width - keys;
  for (int k = 0, at = width; k < p->n_fields; k++) {
    SortField *f = &p->field[k];
    if (k == p->n_keys && p->size == 16)
      at = width;
    at -= 8 * f->bytes;
    f->shift = at;
    f->high = p->size == 16 && k < p->n_keys;
    f->fresh = at + 8 * f->bytes == width;
  }
  return true;
}

static bool is_key(const SortKey *key, int n_keys, int operand, int part) {
  for (int k = 0; k < n_keys; k++)
    if (key[k].operand == operand && key[k].part == part)
      return true;
  return false;
}

// All of all operands.
static bool plan_whole(Sort *s, HlArena *arena, const SortKey *key, int n_keys) {
  Plan *p = &s->whole;
  p->field = HL_ARRAY(arena, SortField, n_keys + s->n);
  for (; p->n_keys < n_keys; p->n_keys++)
    p->field[p->n_keys] = key_field(s, &key[p->n_keys]);
  p->n_fields = n_keys;
  for (int k = 0; k < s->n; k++) {
    const bool one = is_key(key, n_keys, k, 0), two = is_key(key, n_keys, k, 1);
    if (hl_is_complex(s->dtype[k]) ? one && two : one)
      continue;
    const int bytes = hl_dtype_bytes(s->dtype[k]);
    if (one || two || bytes > 8)
      return false;
    p->field[p->n_fields++] =
        (SortField){.form = SORT_INTEGER, .operand = k, .parts = 1, .bytes = bytes};
  }
  return lay_out(p);
}

// As many of the keys before `n_keys` as fit, and the place; how many.
static int plan_placed(const Sort *s, Plan *p, HlArena *arena, const SortKey *key, int n_keys) {
  int first = n_keys, bytes = 0;
  while (first > 0 && bytes + hl_dtype_bytes(key[first - 1].dtype) <= 8)
    bytes += hl_dtype_bytes(key[--first].dtype);
  p->field = HL_ARRAY(arena, SortField, n_keys - first + 1);
  for (int k = first; k < n_keys; k++)
    p->field[p->n_keys++] = key_field(s, &key[k]);
  p->field[p->n_keys] = (SortField){.form = SORT_PLACE, .parts = 1, .bytes = 4};
  p->n_fields = p->n_keys + 1;
  lay_out(p);
  p->field[p->n_keys].shift = 0;
  return first;
}

// The key is what the machine makes of an element.
static void plan_computed(Plan *p, HlArena *arena) {
  *p = (Plan){.size = 16, .n_fields = 1, .field = HL_ARRAY(arena, SortField, 1)};
  p->field[0] = place_field;
}

// --- Making -------------------------------------------------------------------------------------

// The dimensions of rows, those that lie closest in operand 0 first.
static void set_rows(Sort *s, HlArena *arena, const HlInst *inst, int64_t dimension) {
  const HlShape *shape = inst->operands[0]->shape;
  const int64_t *lies = cpu_strides(arena, shape);
  int64_t *of = HL_ARRAY(arena, int64_t, shape->rank), *dim = HL_ARRAY(arena, int64_t, shape->rank),
          *stride = HL_ARRAY(arena, int64_t, 2 * s->n),
          *row_stride = HL_ARRAY(arena, int64_t, 2 * s->n * shape->rank);
  s->length = shape->dim[dimension];
  s->rows = 1;
  for (int d = 0; d < shape->rank; d++) {
    if (d == dimension || shape->dim[d] == 1)
      continue;
    int to = s->n_dims++;
    for (; to > 0 && lies[of[to - 1]] > lies[d]; to--)
      of[to] = of[to - 1];
    of[to] = d;
    s->rows *= shape->dim[d];
  }
  for (int k = 0; k < s->n_dims; k++)
    dim[k] = shape->dim[of[k]];
  for (int b = 0; b < 2 * s->n; b++) {
    const HlShape *leaf = b < s->n ? inst->operands[b]->shape : cpu_leaf(inst->shape, b - s->n);
    const int64_t *strides = cpu_strides(arena, leaf);
    stride[b] = strides[dimension];
    for (int k = 0; k < s->n_dims; k++)
      row_stride[b * s->n_dims + k] = strides[of[k]];
  }
  s->dim = dim;
  s->stride = stride;
  s->row_stride = row_stride;
}

static bool set_order(Sort *s, CpuMaker *maker, const HlComp *comp) {
  int n = 0;
  HlArena *scratch = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(scratch);
  const SortKey *key = sort_find_keys(maker->arena, scratch, comp, &n);
  hl_arena_release(scratch, mark);
  for (int k = 0; k < n; k++)
    s->fails |= key[k].fails;
  if (!key || s->fails)
    s->machine = machine_new(maker->arena, comp);
  if ((!key || s->fails) && !s->machine)
    return false;
  s->placed = HL_ARRAY(maker->arena, Plan, n + 1);
  if (key) {
    if (!plan_whole(s, maker->arena, key, n))
      s->whole.size = 0;
    for (int left = n; left > 0;)
      left = plan_placed(s, &s->placed[s->n_placed++], maker->arena, key, left);
  } else if (machine_find_key(maker->arena, s->machine, &s->key)) {
    s->has_key = true;
    s->fails = SORT_SAW_CHAOS | SORT_SAW_NAN;
    plan_computed(&s->placed[s->n_placed++], maker->arena);
  }
  return true;
}

static bool fits(const HlInst *inst) {
  const HlShape *shape = inst->n_operands ? inst->operands[0]->shape : NULL;
  const int64_t dimension = hl_dim(inst);
  if (!shape || inst->n_operands > MOST_OPERANDS ||
      cpu_leaf_count(inst->shape) != (int)inst->n_operands ||
      hl_to_apply(inst)->n_params != 2 * (int)inst->n_operands || dimension < 0 ||
      dimension >= shape->rank || shape->dim[dimension] > INT32_MAX)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *to = cpu_leaf(inst->shape, (int)k), *from = inst->operands[k]->shape;
    const HlComp *comp = hl_to_apply(inst);
    if (!hl_shape_is_array(from) || !hl_shape_is_array(to) || !hl_shape_same_dims(from, shape) ||
        !hl_shape_same_dims(to, shape) || from->dtype != to->dtype ||
        comp->params[2 * k]->shape->dtype != from->dtype ||
        comp->params[2 * k + 1]->shape->dtype != from->dtype)
      return false;
  }
  return true;
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  if (inst->op != HL_OP_SORT || !fits(inst))
    return NULL;
  Sort *s = HL_NEW(maker->arena, Sort);
  s->n = (int)inst->n_operands;
  HlDtype *dtype = HL_ARRAY(maker->arena, HlDtype, s->n);
  s->size = 8;
  for (int k = 0; k < s->n; k++) {
    dtype[k] = inst->operands[k]->shape->dtype;
    s->size = hl_dtype_bytes(dtype[k]) > 8 ? 16 : s->size;
  }
  s->dtype = dtype;
  if (!set_order(s, maker, hl_to_apply(inst)))
    return NULL;
  set_rows(s, maker->arena, inst, hl_dim(inst));
  int bits = 0;
  for (int k = 0; k < s->n_placed; k++) {
    s->size = s->placed[k].size > s->size ? s->placed[k].size : s->size;
    bits += (s->placed[k].size > 8 ? 64 : 32) - s->placed[k].low % 32;
  }
  s->size = s->whole.size > s->size ? s->whole.size : s->size;
  s->kernel = (CpuKernel){.kind = &cpu_kind_sort,
                          .n_buffers = 2 * s->n,
                          .seconds = (double)(s->rows * s->length) *
                                     (s->n_placed ? 3e-9 + 0.15e-9 * bits : 400e-9)};
  return &s->kernel;
}

// --- Rows ---------------------------------------------------------------------------------------

// A row at hand: by one thread, or by the parts of a team.
typedef struct Row {
  const Sort *s;
  void *const *buffer;
  char **base;    // by buffer: of the row
  CpuTeam *team;  // NULL: one part, here
  const Plan *plan;
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
                    .stride = row->s->stride[buffer] * field->parts,
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

static size_t machine_bytes(const Sort *s) {
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
  const Sort *s = row->s;
  unsigned saw = 0;
  Machine *m = machine_of(row, part);
  SortPair *record = row->radix.records;
  const int k = s->key.operand;
  for (int64_t i = sort_part(&row->radix, part); i < sort_part(&row->radix, part + 1); i++) {
    m->cell[2 * k] = m->cell[2 * k + 1] = cell_load(s->dtype[k], row->base[k], i * s->stride[k]);
    machine_run(m);
    saw |= m->cell[s->key.a] != m->cell[s->key.b] ? SORT_SAW_CHAOS : 0;
    record[i].high = number_of(&s->key, m->cell[s->key.a], &saw);
  }
  atomic_fetch_or(&row->saw, saw);
}

// Makes records by a plan, of the elements as they are.
static bool pack(Row *row, const Plan *plan) {
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
  const Sort *s = row->s;
  const int k = row->operand;
  SortSpan span = span_of(row, part, &place_field, s->n + k);
  if (is_in_place(row)) {
    span.base = row->radix.spare;
    span.stride = 1;
  }
  sort_pick(&span, hl_dtype_bytes(s->dtype[k]), row->base[k], s->stride[k]);
}

static void put_part(Row *row, int part) {
  const Sort *s = row->s;
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
  const Sort *s = row->s;
  return (SortMerge){machine_of(row, part), s->n, s->dtype, row->base, s->stride, s->length};
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
  static const Plan places = {.size = 8};
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
  const Sort *s = row->s;
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
  const Sort *s = row->s;
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
  const Sort *s = row->s;
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

static void go_to(Row *row, int64_t number) {
  const Sort *s = row->s;
  for (int b = 0; b < 2 * s->n; b++) {
    int64_t offset = 0, left = number;
    for (int d = 0; d < s->n_dims; left /= s->dim[d], d++)
      offset += left % s->dim[d] * s->row_stride[b * s->n_dims + d];
    row->base[b] = (char *)row->buffer[b] + offset * hl_dtype_bytes(s->dtype[b % s->n]);
  }
}

typedef struct Rows {
  const Sort *s;
  void *const *buffer;
  int64_t chunk;  // rows of one
} Rows;

static bool run_rows(void *user, int64_t chunk, CpuMember *member) {
  const Rows *rows = user;
  const Sort *s = rows->s;
  Row row = {.s = s, .buffer = rows->buffer};
  void *memory = cpu_scratch(member, set_memory(&row, 1, NULL));
  if (!memory)
    return false;
  set_memory(&row, 1, memory);
  const int64_t first = chunk * rows->chunk, end = first + rows->chunk;
  bool ok = true;
  for (int64_t k = first; ok && k < s->rows && k < end; k++) {
    go_to(&row, k);
    ok = sort_row(&row);
  }
  return ok;
}

static bool run_long_rows(const Sort *s, CpuTeam *team, void *const *buffer) {
  Row row = {.s = s, .buffer = buffer, .team = team};
  const int64_t most = s->length / PART;
  const int parts = most > MOST_PARTS ? MOST_PARTS : most < 2 ? 2 : (int)most;
  void *memory = cpu_team_scratch(team, set_memory(&row, parts, NULL));
  if (!memory)
    return false;
  set_memory(&row, parts, memory);
  bool ok = true;
  for (int64_t k = 0; ok && k < s->rows; k++) {
    go_to(&row, k);
    ok = sort_row(&row);
  }
  return ok;
}

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const Sort *s = (const Sort *)kernel;
  const int threads = cpu_team_threads(team);
  if (s->rows == 0 || s->length == 0)
    return true;
  if (threads > 1 && s->length >= LONG_ROW && s->rows < 2 * threads)
    return run_long_rows(s, team, buffer);
  Rows rows = {s, buffer, s->length >= CHUNK ? 1 : CHUNK / s->length};
  return cpu_parallel(team, (s->rows + rows.chunk - 1) / rows.chunk, kernel->seconds, run_rows,
                      &rows);
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const Sort *s = (const Sort *)kernel;
  hl_buf_printf(out, "%" PRId64 " rows of %" PRId64 " elements", s->rows, s->length);
  if (s->whole.size)
    hl_buf_printf(out, ", as records of %d bytes", s->whole.size);
  for (int k = 0; k < s->n_placed; k++)
    hl_buf_printf(out, ", keys and places of %d", s->placed[k].size);
  hl_buf_puts(out, s->machine ? ", merges\n" : "\n");
}

const CpuKernelKind cpu_kind_sort = {"sort", make, run, print};
