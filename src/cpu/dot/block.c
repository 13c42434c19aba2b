// cpu/dot/block.c: runs a product: packs, multiplies and stores block by block.
//
// A chunk is a strip of rows of C and a range of its columns, or all of some batches. It packs its rows of A for all of k, then
// goes over its columns in blocks that stay in the cache, and over k within each:
//
//   for each block of columns
//     for each block of k
//       for each panel of B, in L1
//         for each panel of A, from L2
//           a tile
//     combine the parts of complex numbers, run the epilogue, convert, store
//
// What several chunks need of B is packed before, by all threads; `span` columns at a time.

#include <string.h>

#include "cpu/dot/plan.h"
#include "cpu/pool/alloc.h"

typedef struct Run {
  const DotPlan *p;
  const char *operand[2];  // of the plan's sides
  char *c;
  const DotEpilogue *epilogue;
  int64_t batch, first,
      columns;   // what is packed in `shared`: columns [first, first + columns) of a batch
  char *shared;  // NULL: each chunk packs for itself
} Run;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t parts_of(int64_t n, int64_t part) {
  return (n + part - 1) / part;
}

// --- Scratch ------------------------------------------------------------------------------------

typedef struct Scratch {
  char *a, *b, *block, *row, *pack, *epilogue;
} Scratch;

static size_t lay_out(const Run *run, char *start, Scratch *out) {
  const DotPlan *p = run->p;
  const size_t sizes[] = {
      (size_t)(dot_packed_bytes(p, &p->side[0], p->bm, p->kc) * p->blocks),
      run->shared ? 0 : (size_t)dot_packed_bytes(p, &p->side[1], p->hot, p->kc),
      p->in_place ? 0 : (size_t)(p->bm * p->parts * p->hot * p->parts * p->word),
      (size_t)p->hot * 16,
      dot_pack_scratch(p),
      run->epilogue ? run->epilogue->scratch : 0,
  };
  char **const to[] = {&out->a, &out->b, &out->block, &out->row, &out->pack, &out->epilogue};
  size_t at = 0;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    *to[k] = start + at;
    at += (sizes[k] + 63) & ~(size_t)63;
  }
  return at;
}

// --- Operands -----------------------------------------------------------------------------------

// What tiles read of an operand: its panels from lane `first` on, for all of k or a block of it.
typedef struct Panels {
  const char *at;
  int64_t first, lanes;
} Panels;
// For one block of k, in words: where, and how far to the next panel, lane and element of k.
typedef struct Feed {
  const char *at;
  int64_t panel, row, step;
} Feed;

static Feed feed_of(const DotPlan *p, const DotSide *side, const Panels *panels, int64_t lane,
                    int64_t block, int64_t depth) {
  const int64_t panel = dot_packed_bytes(p, side, side->width, depth);
  return (Feed){panels->at + block * dot_packed_bytes(p, side, panels->lanes, p->kc) +
                    (lane - panels->first) / side->width * panel,
                panel, 1, (int64_t)side->width * p->parts};
}

static const char *operand_at(const Run *run, int which, int64_t batch) {
  const DotSide *side = &run->p->side[which];
  return run->operand[which] +
         dot_offset(&run->p->batch, side->array, batch) * hl_dtype_bytes(side->dtype);
}

// A constant's, packed when the kernel was made.
static Panels kept(const DotPlan *p, const DotSide *side, int64_t batch) {
  const int64_t bytes = dot_packed_bytes(p, side, side->n, p->kc) * p->blocks;
  return (Panels){side->packed + batch * bytes, 0, side->n};
}

static Panels packed_rows(const Run *run, int64_t batch, int64_t first, int64_t n,
                          const Scratch *s) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[0];
  if (side->packed)
    return kept(p, side, batch);
  for (int64_t block = 0; block < p->blocks; block++)
    dot_pack(p, side, operand_at(run, 0, batch), first, n, block * p->kc,
             least(p->kc, p->depth - block * p->kc),
             s->a + block * dot_packed_bytes(p, side, n, p->kc), s->pack);
  return (Panels){s->a, first, n};
}

static Feed columns_of(const Run *run, int64_t batch, int64_t first, int64_t n, int64_t block,
                       int64_t depth, const Scratch *s) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[1];
  if (side->packed || run->shared) {
    const Panels panels =
        side->packed ? kept(p, side, batch) : (Panels){run->shared, run->first, run->columns};
    return feed_of(p, side, &panels, first, block, depth);
  }
  dot_pack(p, side, operand_at(run, 1, batch), first, n, block * p->kc, depth, s->b, s->pack);
  const Panels panels = {s->b, first, n};
  return feed_of(p, side, &panels, first, 0, depth);
}

// --- Products -----------------------------------------------------------------------------------

// Rows and columns of words; where a tile is wider than what is left of C it works beside.
static void multiply(const DotPlan *p, Feed a, Feed b, int64_t k, char *c, int64_t c_row,
                     int64_t rows, int64_t columns, bool add) {
  _Alignas(64) char edge[DOT_MAX_MR * DOT_MAX_ROW];
  const DotTiles *t = p->tiles;
  for (int64_t j = 0; j < columns; j += t->nr, b.at += b.panel) {
    const char *rows_at = a.at;
    const size_t width = (size_t)least(t->nr, columns - j) * (size_t)p->word;
    for (int64_t i = 0; i < rows; i += t->mr, rows_at += a.panel) {
      const int64_t n = least(t->mr, rows - i);
      char *to = c + (i * c_row + j) * p->word;
      if (columns - j >= t->nr) {
        t->rows[n](k, rows_at, a.row, a.step, b.at, b.step, to, c_row, add);
        continue;
      }
      for (int64_t r = 0; r < n && add; r++)
        memcpy(edge + r * t->nr * p->word, to + r * c_row * p->word, width);
      t->rows[n](k, rows_at, a.row, a.step, b.at, b.step, edge, t->nr, add);
      for (int64_t r = 0; r < n; r++)
        memcpy(to + r * c_row * p->word, edge + r * t->nr * p->word, width);
    }
  }
}

// --- Finished blocks ----------------------------------------------------------------------------

// The products of all parts with all parts, rows re, im, re, im, ... by columns likewise, become complex numbers, in the first of
// their two rows.
#define COMBINE(T)                                 \
  for (int64_t i = 0; i < rows; i++) {             \
    T *re = (T *)at + 2 * i * row, *im = re + row; \
    for (int64_t j = 0; j < columns; j++) {        \
      const T real = re[2 * j] - im[2 * j + 1];    \
      re[2 * j + 1] += im[2 * j];                  \
      re[2 * j] = real;                            \
    }                                              \
  }
static void combine_c64(char *at, int64_t row, int64_t rows, int64_t columns) {
  COMBINE(float)
}
static void combine_c128(char *at, int64_t row, int64_t rows, int64_t columns) {
  COMBINE(double)
}
#undef COMBINE

static void spread(char *to, const int64_t *offset, const char *from, int64_t n, size_t bytes) {
  for (int64_t k = 0; k < n; k++)
    memcpy(to + (size_t)offset[k] * bytes, from + (size_t)k * bytes, bytes);
}

static void store(const DotPlan *p, const DotBlock *block, char *c, char *row) {
  const DotLoops *rows = &p->side[0].lanes, *columns = &p->side[1].lanes;
  const size_t bytes = (size_t)hl_dtype_bytes(p->result);
  const char *from = block->at;
  int64_t stride, offset[DOT_HOT];
  const bool beside =
      dot_even(columns, DOT_C, block->column0, block->columns, &stride) && stride == 1;
  if (!beside)
    dot_offsets(columns, DOT_C, block->column0, block->columns, offset);
  for (int64_t i = 0; i < block->rows; i++, from += block->row * hl_dtype_bytes(p->sum)) {
    char *to = c + (size_t)dot_offset(rows, DOT_C, block->row0 + i) * bytes;
    if (beside)
      to += (size_t)dot_offset(columns, DOT_C, block->column0) * bytes;
    hl_convert_elements(p->result, beside ? to : row, p->sum, from, block->columns);
    if (!beside)
      spread(to, offset, row, block->columns, bytes);
  }
}

static bool finish(const Run *run, DotBlock *block, char *c, const Scratch *s) {
  const DotPlan *p = run->p;
  if (p->parts == 2)
    (p->word == 4 ? combine_c64 : combine_c128)(block->at, block->row, block->rows, block->columns);
  if (run->epilogue && !run->epilogue->run(run->epilogue->user, block, s->epilogue))
    return false;
  if (!p->in_place)
    store(p, block, c, s->row);
  return true;
}

static bool make_block(const Run *run, const Panels *a, DotBlock *block, char *c,
                       const Scratch *s) {
  const DotPlan *p = run->p;
  const int64_t rows = block->rows * p->parts, columns = block->columns * p->parts;
  if (p->in_place) {
    int64_t row, column;
    dot_even(&p->side[0].lanes, DOT_C, 0, 0, &row);
    dot_even(&p->side[1].lanes, DOT_C, 0, 0, &column);
    block->at = c + (block->row0 * row + block->column0 * column) * p->word;
    block->row = row;
  } else {
    block->at = s->block;
    block->row = columns;
  }
  if (p->blocks == 0)
    memset(block->at, 0, (size_t)(rows * columns * p->word));
  for (int64_t k = 0; k < p->blocks; k++) {
    const int64_t depth = least(p->kc, p->depth - k * p->kc);
    const Feed from_b = columns_of(run, block->batch, block->column0, block->columns, k, depth, s);
    const Feed from_a = feed_of(p, &p->side[0], a, block->row0, k, depth);
    multiply(p, from_a, from_b, dot_words(p, depth), block->at, block->row, rows, columns, k > 0);
  }
  return finish(run, block, c, s);
}

// Rows [i, i + m) and columns [j, j + n) of one batch.
static bool make_part(const Run *run, int64_t batch, int64_t i, int64_t m, int64_t j, int64_t n,
                      const Scratch *s) {
  const DotPlan *p = run->p;
  const Panels a = packed_rows(run, batch, i, m, s);
  char *c = run->c + dot_offset(&p->batch, DOT_C, batch) * hl_dtype_bytes(p->result);
  for (int64_t at = j; at < j + n; at += p->hot) {
    DotBlock block = {.batch = batch,
                      .row0 = i,
                      .rows = m,
                      .column0 = at,
                      .columns = least(p->hot, j + n - at),
                      .dtype = p->sum,
                      .turned = p->turned};
    if (!make_block(run, &a, &block, c, s))
      return false;
  }
  return true;
}

// --- Chunks -------------------------------------------------------------------------------------

static Scratch *scratch_of(const Run *run, CpuMember *member, Scratch *s) {
  char *start = cpu_scratch(member, lay_out(run, NULL, s));
  if (start)
    lay_out(run, start, s);
  return start ? s : NULL;
}

static bool pack_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[1];
  Scratch s;
  if (!scratch_of(run, member, &s))
    return false;
  const int64_t across = parts_of(run->columns, p->hot), block = chunk / across,
                first = chunk % across * p->hot, depth = least(p->kc, p->depth - block * p->kc);
  dot_pack(p, side, operand_at(run, 1, run->batch), run->first + first,
           least(p->hot, run->columns - first), block * p->kc, depth,
           run->shared + block * dot_packed_bytes(p, side, run->columns, p->kc) +
               dot_packed_bytes(p, side, first, depth),
           s.pack);
  return true;
}

static bool shared_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const DotPlan *p = run->p;
  Scratch s;
  return scratch_of(run, member, &s) &&
         make_part(run, run->batch, chunk * p->bm, least(p->bm, p->side[0].n - chunk * p->bm),
                   run->first, run->columns, &s);
}

static bool own_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const DotPlan *p = run->p;
  Scratch s;
  if (!scratch_of(run, member, &s))
    return false;
  const int64_t m = p->side[0].n, n = p->side[1].n, across = parts_of(n, p->bn),
                down = parts_of(m, p->bm), j = chunk % across * p->bn,
                i = chunk / across % down * p->bm, first = chunk / across / down * p->group;
  for (int64_t batch = first; batch < first + p->group && batch < p->batches; batch++)
    if (!make_part(run, batch, i, least(p->bm, m - i), j, least(p->bn, n - j), &s))
      return false;
  return true;
}

// --- The product --------------------------------------------------------------------------------

static bool run_shared(Run *run, CpuTeam *team) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[1];
  const size_t bytes = (size_t)(dot_packed_bytes(p, side, p->span, p->kc) * p->blocks);
  const double share = (double)least(p->span, side->n) / (double)(side->n * p->batches);
  run->shared = cpu_block_new(bytes);
  bool ok = run->shared != NULL;
  for (run->batch = 0; run->batch < p->batches && ok; run->batch++)
    for (run->first = 0; run->first < side->n && ok; run->first += p->span) {
      run->columns = least(p->span, side->n - run->first);
      ok = cpu_parallel(team, p->blocks * parts_of(run->columns, p->hot), (double)bytes / 8e9,
                        pack_chunk, run) &&
           cpu_parallel(team, parts_of(p->side[0].n, p->bm), p->seconds * share, shared_chunk, run);
    }
  cpu_block_free(run->shared, bytes);
  return ok;
}

bool dot_run(const DotPlan *p, CpuTeam *team, const void *a, const void *b, void *c,
             const DotEpilogue *epilogue) {
  Run run = {
      .p = p, .operand = {p->turned ? b : a, p->turned ? a : b}, .c = c, .epilogue = epilogue};
  const int64_t m = p->side[0].n, n = p->side[1].n;
  if (m == 0 || n == 0 || p->batches == 0)
    return true;
  if (p->span)
    return run_shared(&run, team);
  const int64_t chunks = parts_of(n, p->bn) * parts_of(m, p->bm) * parts_of(p->batches, p->group);
  return cpu_parallel(team, chunks, p->seconds, own_chunk, &run);
}
