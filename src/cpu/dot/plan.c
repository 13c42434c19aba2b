// cpu/dot/plan.c: decides how a product is made.

#include <string.h>

#include "cpu/dot/plan.h"

// --- Loops --------------------------------------------------------------------------------------

int64_t dot_offset(const DotLoops *loops, DotArray array, int64_t index) {
  int64_t offset = 0;
  for (int k = loops->n - 1; k >= 0; k--) {
    offset += index % loops->at[k].size * loops->at[k].stride[array];
    index /= loops->at[k].size;
  }
  return offset;
}

void dot_offsets(const DotLoops *loops, DotArray array, int64_t index, int64_t n, int64_t *offset) {
  const DotLoop *inner = &loops->at[loops->n - 1];
  for (int64_t k = 0, run; k < n; k += run) {
    const int64_t first = dot_offset(loops, array, index + k);
    run = loops->n ? inner->size - (index + k) % inner->size : 1;
    run = run < n - k ? run : n - k;
    for (int64_t i = 0; i < run; i++)
      offset[k + i] = first + (loops->n ? i * inner->stride[array] : 0);
  }
}

bool dot_even(const DotLoops *loops, DotArray array, int64_t index, int64_t n, int64_t *stride) {
  *stride = loops->n ? loops->at[loops->n - 1].stride[array] : 1;
  return loops->n <= 1 || index % loops->at[loops->n - 1].size + n <= loops->at[loops->n - 1].size;
}

static int64_t total(const DotLoops *loops) {
  int64_t n = 1;
  for (int k = 0; k < loops->n; k++)
    n *= loops->at[k].size;
  return n;
}

// The order that brings together what can be one: by the distance in the array that matters most.
static int64_t distance(const DotLoop *loop) {
  const int64_t d = loop->stride[DOT_C] ? loop->stride[DOT_C] : loop->stride[DOT_B];
  return d < 0 ? -d : d;
}

static bool continues(const DotLoop *outer, const DotLoop *inner) {
  for (int a = 0; a < 3; a++)
    if (outer->stride[a] != inner->stride[a] * inner->size)
      return false;
  return true;
}

// Without loops of one step, sorted, neighbours that step alike made one.
static DotLoops simplified(HlArena *arena, const DotLoops *from) {
  DotLoops to = {0, HL_ARRAY(arena, DotLoop, from->n + 1)};
  for (int k = 0; k < from->n; k++) {
    const DotLoop loop = from->at[k];
    int at = to.n;
    if (loop.size == 1)
      continue;
    for (; at > 0 && distance(&to.at[at - 1]) < distance(&loop); at--)
      to.at[at] = to.at[at - 1];
    to.at[at] = loop;
    to.n++;
  }
  int n = 0;
  for (int k = 0; k < to.n; k++)
    if (n > 0 && continues(&to.at[n - 1], &to.at[k])) {
      const int64_t outer = to.at[n - 1].size;
      to.at[n - 1] = to.at[k];
      to.at[n - 1].size *= outer;
    } else {
      to.at[n++] = to.at[k];
    }
  to.n = n;
  return to;
}

static int64_t inner_stride(const DotLoops *loops, DotArray array) {
  return loops->n ? loops->at[loops->n - 1].stride[array] : 0;
}

// --- Types --------------------------------------------------------------------------------------

typedef struct Types {
  DotWord word;
  HlDtype carrier, sum;
  int bytes, parts, each;
} Types;

static const Types types_f32 = {DOT_F32, HL_F32, HL_F32, 4, 1, 1},
                   types_f64 = {DOT_F64, HL_F64, HL_F64, 8, 1, 1},
                   types_c64 = {DOT_F32, HL_C64, HL_C64, 4, 2, 1},
                   types_c128 = {DOT_F64, HL_C128, HL_C128, 8, 2, 1},
                   types_s8 = {DOT_S8, HL_S8, HL_S32, 4, 1, 4},
                   types_s16 = {DOT_S16, HL_S16, HL_S32, 4, 1, 2},
                   types_s32 = {DOT_S32, HL_S32, HL_S32, 4, 1, 1},
                   types_s64 = {DOT_S64, HL_S64, HL_S64, 8, 1, 1};

static bool is_whole(HlDtype t) {
  return hl_is_integral(t) || t == HL_PRED;
}

static int bits(HlDtype t) {
  return hl_dtype_info[t].bits;
}

// Whether f32, or its complex numbers, have all values of the type.
static bool fits_f32(HlDtype t) {
  return t == HL_F32 || t == HL_C64 || bits(t) <= 16;
}

static bool fits_s16(HlDtype t) {
  return bits(t) <= (hl_is_unsigned(t) ? 15 : 16);
}

// Whether its elements are bytes with a sign, or might as well be.
static bool is_signed_byte(HlDtype t) {
  return hl_dtype_bytes(t) == 1 && t != HL_U8;
}

// Sums have the type of the result, or one that is wider; sums of integers wrap, so that theirs has as many bits at least.
static const Types *types_of(const DotLevel *level, const HlDtype t[3], int64_t depth) {
  const HlDtype a = t[DOT_A], b = t[DOT_B], c = t[DOT_C];
  if (hl_is_complex(c))
    return c == HL_C64 && fits_f32(a) && fits_f32(b) ? &types_c64 : &types_c128;
  if (hl_is_complex(a) || hl_is_complex(b))
    return NULL;
  if (hl_is_float(c))
    return c != HL_F64 && fits_f32(a) && fits_f32(b) ? &types_f32 : &types_f64;
  if (!is_whole(a) || !is_whole(b))
    return NULL;
  if (c == HL_PRED)
    return a == HL_PRED && b == HL_PRED && depth < INT32_MAX ? &types_s16 : NULL;
  if (bits(c) == 64)
    return &types_s64;
  if (is_signed_byte(a) && is_signed_byte(b) && level->tiles[DOT_S8].nr > 0 && cpu_has_vnni())
    return &types_s8;
  return fits_s16(a) && fits_s16(b) ? &types_s16 : &types_s32;
}

// The packer of an operand, and what it must be converted to before: itself mostly.
static DotForm form_of(const Types *t, HlDtype dtype, HlDtype *carrier) {
  *carrier = dtype;
  if (t == &types_f32 && dtype == HL_BF16)
    return DOT_BF16_F32;
  if (t == &types_f32 && dtype == HL_F16)
    return DOT_F16_F32;
  if (t == &types_s8)
    return DOT_S8_FOURS;
  if (t == &types_s16 && dtype == HL_U8)
    return DOT_U8_PAIRS;
  if (t == &types_s16 && hl_dtype_bytes(dtype) == 1)
    return DOT_S8_PAIRS;
  const bool same_bits = is_whole(dtype) && is_whole(t->carrier) && bits(dtype) == bits(t->carrier);
  if (!same_bits)
    *carrier = t->carrier;
  if (t == &types_s16)
    return DOT_S16_PAIRS;
  return t->bytes * t->parts == 4 ? DOT_WORD4 : t->bytes * t->parts == 8 ? DOT_WORD8 : DOT_WORD16;
}

// --- The plan -----------------------------------------------------------------------------------

static int64_t at_least(int64_t n, int64_t least) {
  return n > least ? n : least;
}

static int64_t at_most(int64_t n, int64_t most) {
  return n < most ? n : most;
}

// As even parts of n as there are of at most `most` each, rounded up.
static int64_t even_part(int64_t n, int64_t most, int64_t multiple) {
  const int64_t parts = at_least((n + most - 1) / most, 1);
  return dot_round_up(at_least((n + parts - 1) / parts, 1), multiple);
}

// The columns of a tile are to lie beside each other in C; one row is better than one column.
static bool wants_turning(const DotProduct *q) {
  const int64_t m = total(&q->index[DOT_M]), n = total(&q->index[DOT_N]);
  if (m == 1 || n == 1)
    return m > 1;
  return inner_stride(&q->index[DOT_M], DOT_C) == 1 && inner_stride(&q->index[DOT_N], DOT_C) != 1;
}

static void set_side(DotPlan *p, const DotLevel *level, const Types *t, const DotProduct *q,
                     int which) {
  DotSide *side = &p->side[which];
  side->array = which == p->turned ? DOT_A : DOT_B;
  side->dtype = q->dtype[side->array];
  side->lanes = q->index[side->array == DOT_A ? DOT_M : DOT_N];
  side->n = total(&side->lanes);
  side->width = (which == 0 ? p->tiles->mr : p->tiles->nr) / t->parts;
  side->pack = level->pack[form_of(t, side->dtype, &side->carrier)];
}

// Tiles can write into C itself where their words are its elements.
static bool can_be_in_place(const DotPlan *p) {
  const DotLoops *rows = &p->side[0].lanes, *columns = &p->side[1].lanes;
  return p->depth > 0 && p->parts == 1 && bits(p->result) == bits(p->sum) &&
         hl_is_float(p->result) == hl_is_float(p->sum) && rows->n <= 1 && columns->n <= 1 &&
         (columns->n == 0 || columns->at[0].stride[DOT_C] == 1);
}

// --- One row ------------------------------------------------------------------------------------

static int stream_of(const DotPlan *p, HlDtype matrix) {
  if (p->sum == HL_F32)
    return matrix == HL_F32    ? DOT_STREAM_F32
           : matrix == HL_BF16 ? DOT_STREAM_BF16
           : matrix == HL_F16  ? DOT_STREAM_F16
                               : -1;
  if (p->sum == HL_F64)
    return matrix == HL_F64 ? DOT_STREAM_F64 : -1;
  if (p->parts == 2)
    return -1;
  if (p->sum == HL_S64)
    return bits(matrix) == 64 ? DOT_STREAM_S64 : -1;
  return bits(matrix) == 32            ? DOT_STREAM_S32
         : matrix == HL_U8             ? DOT_STREAM_U8
         : hl_dtype_bytes(matrix) == 1 ? DOT_STREAM_S8
                                       : -1;
}

// Of a few rows and a matrix so large that tiles would wait for memory, or that would be packed for them.
static bool is_few(const DotPlan *p, bool is_along) {
  enum { FEW = 8, LARGE = 4 << 20, PACKED = 1 << 18, DEEP = 512 };
  const int64_t bytes = p->side[1].n * p->depth * hl_dtype_bytes(p->side[1].dtype);
  return p->side[0].n <= FEW && p->side[0].lanes.n <= 1 &&
         (is_along ? p->depth >= DEEP && bytes >= PACKED : bytes >= LARGE * p->side[0].n);
}

// A product of one row, or a few, with a matrix that lies evenly, its elements beside each other one way or the other. A constant
// matrix is rather packed once.
static void set_row(DotPlan *p, CpuLevel level, bool is_constant) {
  static const DotVectorLevel *const levels[] = SIMD_LEVELS(&dot_vector_level);
  const DotSide *row = &p->side[0], *matrix = &p->side[1];
  const int stream = stream_of(p, matrix->dtype);
  p->along = NULL;
  p->across = NULL;
  if (p->depth == 0 || stream < 0 || p->k.n > 1 || matrix->lanes.n > 1)
    return;
  if (p->k.n == 0 || p->k.at[0].stride[matrix->array] == 1)
    p->along = levels[level]->along[stream];
  else if (matrix->lanes.n == 0 || matrix->lanes.at[0].stride[matrix->array] == 1)
    p->across = levels[level]->across[stream];
  p->is_row =
      (p->along || p->across) && (row->n == 1 || (!is_constant && is_few(p, p->along != NULL)));
  if (!p->is_row) {
    p->along = NULL;
    p->across = NULL;
  }
  p->load = vec_load(level, row->dtype);
  p->widen = vec_carrier(row->dtype) == p->sum && row->dtype == p->sum
                 ? NULL
                 : vec_convert(level, row->dtype, p->sum);
}

// Which operand has the rows. A few columns of C are rows of what is computed where a matrix streams by.
static void set_sides(DotPlan *p, CpuLevel level, const Types *t, const DotProduct *q,
                      const void *const constant[2]) {
  static const DotLevel *const levels[] = SIMD_LEVELS(&dot_level);
  const bool turned = p->turned, narrow = total(&q->index[DOT_N]) < total(&q->index[DOT_M]);
  for (int k = turned || !narrow; k < 2 && !p->is_row; k++) {
    p->turned = k == 0 ? !turned : turned;
    for (int which = 0; which < 2; which++)
      set_side(p, levels[level], t, q, which);
    set_row(p, level, constant[p->side[1].array] != NULL);
  }
}

// --- The cut ------------------------------------------------------------------------------------

// Whether tiles can read an operand that is not packed: its words are its elements and lie evenly, those of a row of B
// beside each other.
static bool can_be_direct(const DotPlan *p, const DotSide *side) {
  const bool is_b = side == &p->side[1];
  return !side->packed && p->parts == 1 && p->each == 1 && side->carrier == side->dtype &&
         hl_dtype_bytes(side->dtype) == p->word && p->k.n <= 1 && side->lanes.n <= 1 &&
         (!is_b || side->lanes.n == 0 || side->lanes.at[0].stride[side->array] == 1);
}

static void cut_row(DotPlan *p) {
  enum { LONG = 512 };
  const int64_t n = p->side[1].n, work = p->side[0].n == 1 ? 1 << 17 : 1 << 19;
  p->bm = p->side[0].n;
  p->bn = even_part(n, at_least(work / p->depth, p->across ? LONG : 16), 16);
  p->group = n <= p->bn ? at_most(at_least(work / (n * p->depth), 1), p->batches) : 1;
}

// Bytes from the first to the last element of an operand, along its loops of lanes and k: one of each.
static int64_t extent(const DotPlan *p, const DotSide *side) {
  const int64_t lane = inner_stride(&side->lanes, side->array),
                step = inner_stride(&p->k, side->array);
  return ((side->n - 1) * (lane < 0 ? -lane : lane) + (p->depth - 1) * (step < 0 ? -step : step) +
          1) *
         p->word;
}

// Rows of A that lie whole pages apart take turns in the same places of the first cache.
static bool collides(const DotPlan *p, const DotSide *side) {
  enum { PAGE = 4096 };
  const int64_t row = inner_stride(&side->lanes, side->array) * p->word;
  return side->n > 1 && row % PAGE == 0 && row / p->word != 1;
}

// Where A and B lie such that tiles read them well, packing them costs more than it gains.
static void choose_direct(DotPlan *p) {
  enum { VERY_FEW_ROWS = 12, VERY_FEW_COLUMNS = 64 };
  const DotTiles *t = p->tiles;
  DotSide *a = &p->side[0], *b = &p->side[1];
  a->is_direct = can_be_direct(p, a) &&
                 (b->n <= VERY_FEW_COLUMNS || (extent(p, a) <= t->direct_bytes &&
                                               (b->n <= t->direct_columns || !collides(p, a))));
  // Long rows of B, of a power of two mostly, take turns in the same places of a cache: then the rows of C are to be very few, or
  // B small.
  b->is_direct =
      can_be_direct(p, b) &&
      (a->n <= VERY_FEW_ROWS || (a->n <= t->direct_rows && extent(p, b) <= t->direct_bytes));
}

static bool packs_each_time(const DotSide *side) {
  return !side->is_direct && !side->packed && !side->is_held;
}

// How C is cut into chunks, by the sizes alone. Of many rows each chunk has some and all columns: else all rows and some columns,
// or, where there are few of both, some of both. Products of a batch that are small are not cut.
static void cut(DotPlan *p) {
  enum {
    CHUNKS = 16,
    FEW_CHUNKS = 8,
    FEW_ROWS = 64,
    MANY_ROWS = 256,
    FEW_COLUMNS = 128,
    STRIP = 128,  // columns that a chunk packs for itself
    SMALL = 1 << 25
  };
  const int64_t span_bytes = 32 << 20, strip_bytes = 3 << 19, work = 4000000;
  const int64_t m = p->side[0].n, n = p->side[1].n, mr = p->side[0].width, nr = p->side[1].width;
  const int64_t k_bytes = at_least(p->depth, 1) * p->word * p->parts / p->each;
  const int64_t flops = m * n * at_least(p->depth, 1);
  const bool is_small = p->batches >= FEW_CHUNKS && flops <= SMALL;
  const bool packs_a = packs_each_time(&p->side[0]), packs_b = packs_each_time(&p->side[1]);
  int64_t rows = at_most(p->tiles->mc / p->parts, at_least(m / CHUNKS, FEW_ROWS));
  p->bn = at_least(n, 1);
  if (is_small) {
    rows = at_most(m, MANY_ROWS / p->parts);
  } else if (m <= MANY_ROWS) {
    const bool packs_both = packs_a && packs_b && n < FEW_CHUNKS * FEW_COLUMNS;
    p->bn = even_part(n, at_least(n / CHUNKS, packs_both ? FEW_COLUMNS / 2 : FEW_COLUMNS), nr);
    const int64_t across = (n + p->bn - 1) / p->bn;
    rows = across >= FEW_CHUNKS ? at_most(m, MANY_ROWS / p->parts)
                                : at_least(m * across / CHUNKS, FEW_ROWS);
  }
  const bool cuts_n = p->bn < n;
  if (packs_a && !cuts_n)
    rows = at_most(rows, at_least(strip_bytes / k_bytes, mr));
  p->bm = even_part(m, rows, 1);
  if (p->side[0].is_direct)
    p->side[0].width = (int)even_part(p->bm, mr, 1);
  else  // whole panels: rather a chunk more than some that are longer than the others
    p->bm = p->bm < m && p->bm > mr ? p->bm / mr * mr : dot_round_up(p->bm, mr);
  p->shared[1] = packs_b && m > p->bm && !is_small;
  const int64_t hot = (packs_b && !p->shared[1] ? STRIP : DOT_HOT) / p->parts;
  p->hot = even_part(at_most(p->bn, hot), hot, nr);
  p->span = at_most(dot_round_up(n, nr), dot_round_up(at_least(span_bytes / k_bytes, nr), nr));
  p->shared[0] = packs_a && cuts_n && (!p->shared[1] || p->span >= n);
  p->group = m <= p->bm && n <= p->bn && !p->shared[0]
                 ? at_most(at_least(work / at_least(flops, 1), 1), p->batches)
                 : 1;
}

static double guess_seconds(const DotPlan *p, const DotProduct *q) {
  const double m = (double)p->side[0].n * p->parts, n = (double)p->side[1].n * p->parts,
               k = (double)p->depth, b = (double)p->batches;
  double bytes = 0;
  const double elements[3] = {b * m * k, b * n * k, b * m * n};
  for (int a = 0; a < 3; a++)
    bytes += elements[p->turned && a < 2 ? 1 - a : a] * hl_dtype_bytes(q->dtype[a]) / p->parts;
  const double rate = 3e9 * p->tiles->nr;  // multiply-adds
  return b * m * n * k / (rate * p->each) + bytes / 10e9;
}

// --- Constants, and what is the same for some time -----------------------------------------------

// At most so many bytes of a program's memory go to one operand.
#define WORTH_KEEPING ((int64_t)64 << 20)

static void hold(DotPlan *p, const DotProduct *q) {
  enum { HEAD = 64 };  // a word that says whether the panels are made
  for (int which = 0; which < 2; which++) {
    DotSide *side = &p->side[which];
    const int64_t bytes = dot_whole_bytes(p, side) * p->batches;
    side->is_held = q->fixed[side->array] && packs_each_time(side) && p->depth > 0 && bytes > 0 &&
                    bytes <= WORTH_KEEPING;
    if (!side->is_held)
      continue;
    side->held = p->held > 0 ? p->held : HEAD;
    p->held = dot_round_up(side->held + bytes, 64);
  }
}

static const char *pack_whole(HlArena *arena, const DotPlan *p, const DotSide *side,
                              const char *from) {
  const int64_t batch = dot_whole_bytes(p, side);
  if (batch * p->batches > WORTH_KEEPING || p->depth == 0)
    return NULL;
  char *start = hl_arena_alloc(arena, (size_t)(batch * p->batches) + 64);
  const HlMark mark = hl_arena_mark(arena);
  char *scratch = hl_arena_alloc(arena, dot_pack_scratch(p));
  char *packed = start + (64 - (uintptr_t)start % 64) % 64;
  const int bytes = hl_dtype_bytes(side->dtype);
  for (int64_t b = 0; b < p->batches; b++)
    for (int64_t k = 0; k < p->depth; k += p->kc)
      dot_pack(p, side, from + dot_offset(&p->batch, side->array, b) * bytes, 0, side->n, k,
               at_most(p->kc, p->depth - k),
               packed + b * batch + k / p->kc * dot_packed_bytes(p, side, side->n, p->kc), scratch);
  hl_arena_release(arena, mark);
  return packed;
}

// --- Pieces of k ------------------------------------------------------------------------------------

// C has too few elements for threads to share, and each of them is a long sum.
static bool wants_pieces(const DotPlan *p, const DotProduct *q) {
  enum { SMALL = 4096, CHUNKS = 8, LONG = 1 << 14 };
  const int64_t m = p->side[0].n, n = p->side[1].n;
  const int64_t chunks = ((m + p->bm - 1) / p->bm) * ((n + p->bn - 1) / p->bn);
  return !q->changed && p->batches == 1 && m * n <= SMALL && chunks < CHUNKS && p->k.n == 1 &&
         p->depth >= LONG && p->seconds > 4e-4 && !p->side[0].packed && !p->side[1].packed &&
         p->held == 0;
}

// Row-major in the order of the plan's lanes.
static void lay_out_lanes(HlArena *arena, DotLoops *loops, int64_t step) {
  loops->at = hl_arena_copy(arena, loops->at, sizeof *loops->at * (size_t)(loops->n + 1));
  for (int k = loops->n - 1; k >= 0; step *= loops->at[k--].size)
    loops->at[k].stride[DOT_C] = step;
}

// A product of `length` of k, `times` times, each with a C of its own.
static const DotPlan *plan_piece(HlArena *arena, CpuLevel level, const DotPlan *p,
                                 const DotProduct *q, int64_t times, int64_t length) {
  DotProduct piece = *q;
  const DotLoop k = p->k.at[0];
  DotLoop *loop = HL_ARRAY(arena, DotLoop, 2);
  loop[0] = (DotLoop){
      times, {k.stride[DOT_A] * length, k.stride[DOT_B] * length, p->side[0].n * p->side[1].n}};
  loop[1] = k;
  loop[1].size = length;
  piece.dtype[DOT_C] = p->sum;
  piece.fixed[DOT_A] = piece.fixed[DOT_B] = false;
  piece.index[DOT_BATCH] = (DotLoops){1, &loop[0]};
  piece.index[DOT_K] = (DotLoops){1, &loop[1]};
  lay_out_lanes(arena, &piece.index[p->turned ? DOT_N : DOT_M], p->side[1].n);
  lay_out_lanes(arena, &piece.index[p->turned ? DOT_M : DOT_N], 1);
  const DotPlan *made = dot_plan(arena, level, &piece, (const void *const[]){NULL, NULL});
  return made && !made->shared[0] && !made->shared[1] && !made->piece ? made : NULL;
}

static void cut_k(HlArena *arena, CpuLevel level, DotPlan *p, const DotProduct *q) {
  enum { PIECES = 16 };
  if (!wants_pieces(p, q))
    return;
  const int64_t length = p->depth / PIECES / p->kc * p->kc, pieces = p->depth / length,
                left = p->depth - pieces * length;
  const DotPlan *piece = plan_piece(arena, level, p, q, pieces, length);
  const DotPlan *rest = left > 0 ? plan_piece(arena, level, p, q, 1, left) : NULL;
  if (!piece || (left > 0 && !rest))
    return;
  p->piece = piece;
  p->rest = rest;
  p->pieces = pieces;
  p->length = length;
  const HlDtype part = p->sum == HL_C64 ? HL_F32 : p->sum == HL_C128 ? HL_F64 : p->sum;
  p->add = vec_fn(level, VEC_ADD, part, 0);
}

const DotPlan *dot_plan(HlArena *arena, CpuLevel level, const DotProduct *product,
                        const void *const constant[2]) {
  static const DotLevel *const levels[] = SIMD_LEVELS(&dot_level);
  DotProduct q = *product;
  for (int k = 0; k < 4; k++)
    q.index[k] = simplified(arena, &product->index[k]);
  const int64_t depth = total(&q.index[DOT_K]);
  const Types *t = types_of(levels[level], q.dtype, depth);
  if (!t)
    return NULL;
  DotPlan *p = HL_NEW(arena, DotPlan);
  *p = (DotPlan){.batch = q.index[DOT_BATCH],
                 .k = q.index[DOT_K],
                 .depth = depth,
                 .batches = total(&q.index[DOT_BATCH]),
                 .tiles = &levels[level]->tiles[t->word],
                 .word = t->bytes,
                 .parts = t->parts,
                 .each = t->each,
                 .sum = t->sum,
                 .result = q.dtype[DOT_C],
                 .turned = wants_turning(&q)};
  set_sides(p, level, t, &q, constant);
  p->kc = even_part(depth, (int64_t)(p->tiles->kc / p->parts) * p->each, p->each);
  p->blocks = (depth + p->kc - 1) / p->kc;
  p->in_place = !q.apart && can_be_in_place(p);
  p->apart = q.apart || q.changed;
  if (t == &types_f32 && p->result != HL_F32)
    p->round = vec_round(level, p->result);
  p->store = vec_store(level, p->result);
  p->scatter = vec_scatter(level, p->result);
  p->seconds = guess_seconds(p, &q);
  if (p->is_row) {
    cut_row(p);
    cut_k(arena, level, p, &q);
    return p;
  }
  for (int which = 0; which < 2; which++)
    if (constant[p->side[which].array])
      p->side[which].packed = pack_whole(arena, p, &p->side[which], constant[p->side[which].array]);
  choose_direct(p);
  hold(p, &q);
  cut(p);
  cut_k(arena, level, p, &q);
  return p;
}

static int64_t common(int64_t a, int64_t b) {
  return b == 0 ? a : common(b, a % b);
}

// Columns are cut into spans, these into chunks, and a chunk into blocks.
static int64_t column_unit(const DotPlan *p) {
  const int64_t n = p->side[1].n, block = p->is_row ? DOT_STRIP : p->hot;
  const int64_t span = p->shared[1] && p->span < n ? p->span : 0, chunk = p->bn < n ? p->bn : 0;
  return common(common(span, chunk), block < n ? block : 0);
}

DotBlocks dot_blocks(const DotPlan *p) {
  const DotLoops *rows = &p->side[0].lanes, *columns = &p->side[1].lanes;
  const int64_t n = p->side[1].n;
  return (DotBlocks){.rows = at_most(p->bm, p->side[0].n),
                     .columns = at_most(p->is_row ? DOT_STRIP : p->hot, n),
                     .row = p->in_place ? inner_stride(rows, DOT_C)
                            : p->is_row ? DOT_STRIP
                                        : p->hot,
                     .row_unit = p->bm < p->side[0].n ? p->bm : 0,
                     .column_unit = column_unit(p),
                     .is_in_place = p->in_place,
                     .row_step = inner_stride(rows, DOT_C),
                     .column_step = inner_stride(columns, DOT_C),
                     .dtype = p->sum};
}

int64_t dot_held_bytes(const DotPlan *plan) {
  return plan->held;
}

double dot_seconds(const DotPlan *plan) {
  return plan->seconds;
}

void dot_print(HlBuf *out, const DotPlan *p) {
  hl_buf_printf(out, "%lld x %lld x %lld", (long long)p->side[0].n, (long long)p->side[1].n,
                (long long)p->depth);
  if (p->batches != 1)
    hl_buf_printf(out, ", %lld times", (long long)p->batches);
  hl_buf_printf(out, ", sums in %s", hl_dtype_text(p->sum));
  if (p->piece)
    hl_buf_printf(out, ", of %lld of k each", (long long)p->length);
  for (int which = 0; which < 2; which++)
    if (p->side[which].packed || p->side[which].is_held)
      hl_buf_printf(out, ", operand %d packed%s", p->side[which].array == DOT_A ? 0 : 1,
                    p->side[which].is_held ? " once a loop" : "");
  hl_buf_puts(out, "\n");
}
