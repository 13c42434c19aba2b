// cpu/sort/topk.c: kernels of topk: the k best of each row, best first, and where they were.
//
// Elements become keys of which a smaller one is better, the place below them: so no two are equal, and of equal elements the
// first is better. The k best so far are a heap with the worst of them on top. Keys are made a block at a time; hardly any is
// better than the worst of many, so that most blocks are only looked through. Where k is a good part of the row, all of it is sorted.

#include <inttypes.h>
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/sort/bits.h"
#include "cpu/sort/radix.h"
#include "cpu/sort/rows.h"
#include "eval/custom.h"
#include "hilo/custom_calls.h"
#include "hilo/op.h"
#include "op/fold.h"

extern const CpuKernelKind cpu_kind_topk;

enum { BLOCK = 256, LOOK = 32, SORTED_SHARE = 8, CHUNK = 1 << 14 };
__extension__ typedef unsigned __int128 WideEntry;

typedef struct TopK {
  CpuKernel kernel;
  SortRows rows;  // in the operand, values, places
  int64_t n, k;
  SortField key, place;
  bool sorts;  // whole rows
  int size;    // of an entry: a key above a place
} TopK;

// --- Making -------------------------------------------------------------------------------------

static int64_t number_of(HlDtype dtype, uint8_t byte) {
  const Slot slot = slot_load(dtype, &byte, 0);
  return hl_is_float(dtype) && slot.i < 0 ? slot.i ^ INT64_MAX
                                          : slot.i;  // the bits of a double, in order
}

// How bytes rank as numbers.
static const SortTable *make_table(HlArena *arena, HlDtype dtype) {
  SortTable *t = HL_NEW(arena, SortTable);
  for (int a = 0; a < 256; a++) {
    int smaller = 0;
    for (int b = 0; b < 256; b++)
      smaller += number_of(dtype, (uint8_t)b) < number_of(dtype, (uint8_t)a);
    t->rank[a] = (uint8_t)smaller;
  }
  return t;
}

static SortField key_field(HlArena *arena, HlDtype dtype, bool largest) {
  const int bytes = hl_dtype_bytes(dtype);
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  SortField f = {.form = SORT_INTEGER, .parts = 1, .bytes = bytes, .fresh = true};
  if (bytes == 1) {
    f.form = SORT_TABLE;
    f.table = make_table(arena, dtype);
  } else if (hl_is_float(dtype)) {
    f.form = dtype == HL_F64 ? SORT_TOTAL : SORT_QUIET;
    f.most = bits_largest_number(dtype);
  } else if (hl_is_signed(dtype)) {
    f.flip = sign;
  }
  if (largest)
    f.flip ^= sign | (sign - 1);
  return f;
}

static bool is_topk(const HlInst *inst, bool *largest) {
  *largest = true;
  if (inst->op == HL_OP_TOPK) {
    *largest = !hl_has_attr(inst, HL_A_LARGEST) || hl_attr_int(inst, HL_A_LARGEST) != 0;
    return true;
  }
  static const HlCallTarget targets[] = {HL_CALL_TOPK, HL_CALL_GPU_TOPK, HL_CALL_MHLO_TOPK};
  for (int k = 0; k < HL_COUNT_OF(targets); k++)
    if (hl_is_call(inst, targets[k])) {
      *largest = !custom_topk_smallest(inst);
      return true;
    }
  return false;
}

// A row-wise choice of values and places, of sizes as they must be.
static bool fits(const HlInst *inst) {
  if (inst->n_operands != 1 || hl_shape_is_dynamic(inst->shape) ||
      hl_shape_is_dynamic(inst->operands[0]->shape) || inst->shape->dtype != HL_TUPLE ||
      inst->shape->rank != 2)
    return false;
  const HlShape *x = inst->operands[0]->shape, *values = inst->shape->element[0],
                *places = inst->shape->element[1];
  if (!hl_shape_is_array(x) || !hl_shape_is_array(values) || !hl_shape_is_array(places) ||
      hl_is_complex(x->dtype) || x->rank == 0 || values->rank != x->rank ||
      values->dtype != x->dtype || !hl_shape_same_dims(values, places) ||
      !hl_is_integral(places->dtype) || hl_dtype_bytes(places->dtype) < 4)
    return false;
  for (int d = 0; d < x->rank - 1; d++)
    if (x->dim[d] != values->dim[d])
      return false;
  const int64_t n = x->dim[x->rank - 1];
  return values->dim[x->rank - 1] <= n && n <= INT32_MAX;
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  bool largest;
  if (!is_topk(inst, &largest) || !fits(inst))
    return NULL;
  TopK *t = HL_NEW(maker->arena, TopK);
  const HlShape *x = inst->operands[0]->shape,
                *shape[] = {x, inst->shape->element[0], inst->shape->element[1]};
  sort_rows_make(&t->rows, maker->arena, 3, shape, x->rank - 1);
  t->n = x->dim[x->rank - 1];
  t->k = shape[1]->dim[x->rank - 1];
  t->key = key_field(maker->arena, x->dtype, largest);
  t->size = t->key.bytes > 4 ? 16 : 8;
  t->sorts = t->k > 4 && t->k > t->n / SORTED_SHARE;
  t->place = (SortField){.form = SORT_PLACE, .parts = 1, .bytes = 4, .fresh = t->size == 16};
  if (t->sorts && t->size == 8)
    t->key.shift = 64 - 8 * t->key.bytes;
  t->key.high = t->sorts && t->size == 16;
  t->kernel = (CpuKernel){.kind = &cpu_kind_topk,
                          .n_buffers = 3,
                          .seconds = (double)(t->rows.n * t->n) * (t->sorts ? 10e-9 : 1.5e-9)};
  return &t->kernel;
}

// --- Selecting ----------------------------------------------------------------------------------

typedef struct Row {
  const TopK *t;
  char **base;
  void *entries, *spare;  // the best; of rows that are sorted, all
  void *keys;             // of a block
  uint32_t *count;
} Row;

// Of keys of type K, in entries E that have them above their place.
#define SELECT(name, K, E)                                                                                                \
  static void sift_##name(E *heap, int64_t n, int64_t at) {                                                               \
    const E moved = heap[at];                                                                                             \
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {                                                           \
      child += child + 1 < n && heap[child] < heap[child + 1];                                                            \
      if (heap[child] <= moved)                                                                                           \
        break;                                                                                                            \
      heap[at] = heap[child];                                                                                             \
    }                                                                                                                     \
    heap[at] = moved;                                                                                                     \
  }                                                                                                                       \
  static bool any_##name(const K *key, int64_t n, K worst) {                                                              \
    K any = 0;                                                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                                       \
      any |= key[i] < worst;                                                                                              \
    return any != 0;                                                                                                      \
  }                                                                                                                       \
  /* At most LOOK keys, from `place` on: those that are better than the worst, without a branch each, then one by one. */ \
  static void take_##name(E *heap, int64_t k, const K *key, int64_t n, int64_t place) {                                   \
    E better[LOOK + 1];                                                                                                   \
    int found = 0;                                                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                     \
      const E entry = (E)key[i] << (8 * sizeof(K)) | (E)(place + i);                                                      \
      better[found] = entry;                                                                                              \
      found += entry < heap[0];                                                                                           \
    }                                                                                                                     \
    for (int i = 0; i < found; i++)                                                                                       \
      if (better[i] < heap[0]) {                                                                                          \
        heap[0] = better[i];                                                                                              \
        sift_##name(heap, k, 0);                                                                                          \
      }                                                                                                                   \
  }                                                                                                                       \
  static void look_##name(E *heap, int64_t k, const K *key, int64_t n, int64_t place) {                                   \
    if (!any_##name(key, n, (K)(heap[0] >> (8 * sizeof(K)))))                                                             \
      return;                                                                                                             \
    for (int64_t i = 0; i < n; i += LOOK) {                                                                               \
      const int64_t look = n - i < LOOK ? n - i : LOOK;                                                                   \
      if (any_##name(key + i, look, (K)(heap[0] >> (8 * sizeof(K)))))                                                     \
        take_##name(heap, k, key + i, look, place + i);                                                                   \
    }                                                                                                                     \
  }                                                                                                                       \
  static void select_##name(const Row *row) {                                                                             \
    const TopK *t = row->t;                                                                                               \
    E *heap = row->entries;                                                                                               \
    const K *key = row->keys;                                                                                             \
    int64_t have = 0;                                                                                                     \
    for (int64_t first = 0; first < t->n; first += BLOCK) {                                                               \
      const int64_t n = t->n - first < BLOCK ? t->n - first : BLOCK;                                                      \
      pack_block(row, first, n);                                                                                          \
      int64_t i = 0;                                                                                                      \
      for (; i < n && have < t->k; i++) {                                                                                 \
        heap[have++] = (E)key[i] << (8 * sizeof(K)) | (E)(first + i);                                                     \
        for (int64_t q = have == t->k ? have / 2 - 1 : -1; q >= 0; q--)                                                   \
          sift_##name(heap, have, q);                                                                                     \
      }                                                                                                                   \
      if (i < n)                                                                                                          \
        look_##name(heap, t->k, key + i, n - i, first + i);                                                               \
    }                                                                                                                     \
    for (int64_t last = t->k - 1; last > 0; last--) {                                                                     \
      const E worst = heap[0];                                                                                            \
      heap[0] = heap[last];                                                                                               \
      heap[last] = worst;                                                                                                 \
      sift_##name(heap, last, 0);                                                                                         \
    }                                                                                                                     \
  }

// The keys of a block.
static void pack_block(const Row *row, int64_t first, int64_t n) {
  const TopK *t = row->t;
  const int64_t stride = t->rows.stride[0];
  sort_pack(&(SortSpan){.field = &t->key,
                        .base = row->base[0] + first * stride * t->key.bytes,
                        .stride = stride,
                        .n = n,
                        .records = row->keys,
                        .size = t->size / 2});
}

SELECT(narrow, uint32_t, uint64_t)
SELECT(wide, uint64_t, WideEntry)
#undef SELECT

// Leaves all entries of the row in order.
static void sort_all(Row *row) {
  const TopK *t = row->t;
  uint64_t differ;
  SortRadix r = {.size = t->size,
                 .low = t->key.shift,
                 .n = t->n,
                 .records = row->entries,
                 .spare = row->spare,
                 .parts = 1,
                 .count = row->count,
                 .differ = &differ};
  const SortField *const fields[] = {&t->key, &t->place};
  for (int k = 0; k < 2; k++)
    sort_pack(&(SortSpan){.field = fields[k],
                          .base = row->base[0],
                          .stride = t->rows.stride[0],
                          .n = t->n,
                          .records = row->entries,
                          .size = t->size});
  if (t->n <= SORT_FEW) {
    sort_few(&r);
    return;
  }
  sort_look(&r, 0);
  for (int left = sort_digits(&r); left > 0; left--, sort_next_digit(&r)) {
    sort_count(&r, 0);
    if (sort_place(&r)) {
      sort_move(&r, 0);
      sort_swap(&r);
    }
  }
  row->entries = r.records;
  row->spare = r.spare;
}

static void write_row(const Row *row) {
  const TopK *t = row->t;
  const SortSpan values = {.field = &t->place,
                           .base = row->base[1],
                           .stride = t->rows.stride[1],
                           .n = t->k,
                           .records = row->entries,
                           .size = t->size};
  sort_pick(&values, t->key.bytes, row->base[0], t->rows.stride[0]);
  const uint64_t *entry = row->entries;
  for (int64_t i = 0; i < t->k; i++) {
    const uint64_t place = (uint32_t)entry[i * (t->size / 8)];
    const int64_t to = i * t->rows.stride[2];
    if (t->rows.bytes[2] == 8)
      ((uint64_t *)row->base[2])[to] = place;
    else
      ((uint32_t *)row->base[2])[to] = (uint32_t)place;
  }
}

// --- Running ------------------------------------------------------------------------------------

typedef struct Rows {
  const TopK *t;
  void *const *buffer;
  int64_t chunk;
} Rows;

static bool run_rows(void *user, int64_t chunk, CpuMember *member) {
  const Rows *rows = user;
  const TopK *t = rows->t;
  const size_t entries = (size_t)((t->sorts ? t->n : t->k) * t->size + 63) & ~(size_t)63,
               keys = BLOCK * sizeof(uint64_t), count = SORT_DIGITS * sizeof(uint32_t);
  char *memory = cpu_scratch(member, 2 * entries + keys + count);
  if (!memory)
    return false;
  char *base[3];
  Row row = {.t = t,
             .base = base,
             .entries = memory,
             .spare = memory + entries,
             .keys = memory + 2 * entries,
             .count = (uint32_t *)(memory + 2 * entries + keys)};
  const int64_t first = chunk * rows->chunk, end = first + rows->chunk;
  for (int64_t k = first; k < t->rows.n && k < end; k++) {
    sort_rows_at(&t->rows, rows->buffer, k, base);
    if (t->sorts)
      sort_all(&row);
    else if (t->size == 8)
      select_narrow(&row);
    else
      select_wide(&row);
    write_row(&row);
  }
  return true;
}

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const TopK *t = (const TopK *)kernel;
  if (t->rows.n == 0 || t->k == 0)
    return true;
  Rows rows = {t, buffer, t->n >= CHUNK ? 1 : CHUNK / t->n};
  return cpu_parallel(team, (t->rows.n + rows.chunk - 1) / rows.chunk, kernel->seconds, run_rows,
                      &rows);
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const TopK *t = (const TopK *)kernel;
  hl_buf_printf(out, "%" PRId64 " of each of %" PRId64 " rows of %" PRId64 ", by %s\n", t->k,
                t->rows.n, t->n, t->sorts ? "sorting" : "a heap");
}

const CpuKernelKind cpu_kind_topk = {"topk", make, run, print};
