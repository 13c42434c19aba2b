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
// What several chunks need of an operand is packed before, by all threads: of B `span` columns at a time, or all of A. An operand
// that is the same from run to run is packed whole in the first one.

#include <string.h>

#include "cpu/dot/plan.h"

typedef struct Run {
  const DotPlan *p;
  const char *operand[2];  // of the plan's sides
  char *c;
  const DotEpilogue *epilogue;
  const char *packed[2];  // panels of all batches, made before; NULL: of this operand there are none
  const char *shared[2];  // panels of the rows and columns below; NULL: each chunk packs for itself
  int64_t batch, batches;  // what is made now: so many batches from one on, and of each
  int64_t first, columns;  // columns [first, first + columns)
  int64_t bn;              // columns of a chunk
  int helpers;             // other threads that take chunks
} Run;

enum { LINE = 64 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t parts_of(int64_t n, int64_t part) {
  return (n + part - 1) / part;
}

// --- Scratch ------------------------------------------------------------------------------------

static size_t lay_out(const Run *run, char *start, DotScratch *out) {
  const DotPlan *p = run->p;
  const int64_t columns = p->is_row ? DOT_STRIP : p->hot,
                block = p->is_row ? p->bm * columns : p->bm * p->parts * columns * p->parts;
  const int64_t a = p->is_row ? p->bm * p->depth * p->word
                              : dot_packed_bytes(p, &p->side[0], p->bm, p->kc) * p->blocks,
                b = run->shared[1] || p->is_row ? 0
                                                : dot_packed_bytes(p, &p->side[1], p->hot, p->kc);
  const struct {
    char **to;
    int64_t bytes;
  } parts[] = {{&out->a, p->side[0].is_direct || run->shared[0] ? 0 : a},
               {&out->b, b},
               {&out->block, p->in_place ? 0 : block * p->word},
               {&out->row, columns * 16},
               {&out->offset, columns * 8},
               {&out->pack, p->is_row ? p->depth * 8 : (int64_t)dot_pack_scratch(p)},
               {&out->epilogue, run->epilogue ? (int64_t)run->epilogue->scratch : 0}};
  size_t at = 0;
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
    *parts[k].to = start + at;
    at += ((size_t)parts[k].bytes + 63) & ~(size_t)63;
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

static Panels packed_before(const Run *run, int which, int64_t batch) {
  const DotSide *side = &run->p->side[which];
  return (Panels){run->packed[which] + batch * dot_whole_bytes(run->p, side), 0, side->n};
}

// Where it lies: words are elements.
static Feed as_it_lies(const Run *run, int which, int64_t batch, int64_t lane, int64_t block) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[which];
  int64_t row, step;
  dot_even(&side->lanes, side->array, 0, 0, &row);
  dot_even(&p->k, side->array, 0, 0, &step);
  return (Feed){operand_at(run, which, batch) + (lane * row + block * p->kc * step) * p->word,
                side->width * row * p->word, row, step};
}

static Panels packed_rows(const Run *run, int64_t batch, int64_t first, int64_t n,
                          const DotScratch *s) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[0];
  if (run->packed[0])
    return packed_before(run, 0, batch);
  if (run->shared[0])
    return (Panels){run->shared[0], 0, side->n};
  for (int64_t block = 0; block < p->blocks && !side->is_direct; block++)
    dot_pack(p, side, operand_at(run, 0, batch), first, n, block * p->kc,
             least(p->kc, p->depth - block * p->kc),
             s->a + block * dot_packed_bytes(p, side, n, p->kc), s->pack);
  return (Panels){s->a, first, n};
}

static Feed rows_of(const Run *run, int64_t batch, const Panels *panels, int64_t first,
                    int64_t block, int64_t depth) {
  return run->p->side[0].is_direct ? as_it_lies(run, 0, batch, first, block)
                                   : feed_of(run->p, &run->p->side[0], panels, first, block, depth);
}

static Feed columns_of(const Run *run, int64_t batch, int64_t first, int64_t n, int64_t block,
                       int64_t depth, const DotScratch *s) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[1];
  if (run->packed[1] || run->shared[1]) {
    const Panels panels = run->packed[1] ? packed_before(run, 1, batch)
                                         : (Panels){run->shared[1], run->first, run->columns};
    return feed_of(p, side, &panels, first, block, depth);
  }
  if (side->is_direct && n >= side->width)
    return as_it_lies(run, 1, batch, first, block);
  dot_pack(p, side, operand_at(run, 1, batch), first, n, block * p->kc, depth, s->b, s->pack);
  const Panels panels = {s->b, first, n};
  return feed_of(p, side, &panels, first, 0, depth);
}

// --- What is wanted soon ------------------------------------------------------------------------

// Tiles ask for memory while they multiply: those of a panel of B for the next panel, and where B is packed strip by strip, for the
// elements of the next strip: so many lines each of which has pieces `step` bytes apart, `next` bytes from line to line.
typedef struct Ahead {
  const char *at;
  int64_t step, next, lines;
} Ahead;

static bool packs_strips(const Run *run) {
  const DotSide *side = &run->p->side[1];
  return !run->packed[1] && !run->shared[1] && !side->is_direct;
}

// The strip of block `block` of k of columns [first, first + n).
static Ahead strip_ahead(const Run *run, int64_t batch, int64_t first, int64_t n, int64_t block) {
  const DotPlan *p = run->p;
  const DotSide *side = &p->side[1];
  const int64_t bytes = hl_dtype_bytes(side->dtype), depth = least(p->kc, p->depth - block * p->kc);
  int64_t lane, step;
  if (!dot_even(&side->lanes, side->array, first, n, &lane) ||
      !dot_even(&p->k, side->array, block * p->kc, depth, &step))
    return (Ahead){0};
  const char *at = operand_at(run, 1, batch) + (dot_offset(&side->lanes, side->array, first) +
                                                dot_offset(&p->k, side->array, block * p->kc)) *
                                                   bytes;
  if (lane == 1)
    return (Ahead){at, step * p->each * bytes, LINE, parts_of(n * bytes, LINE)};
  if (step == 1 && lane == depth)
    return (Ahead){at, LINE, dot_words(p, depth) * LINE, parts_of(n * p->each * bytes, LINE)};
  return step == 1 ? (Ahead){at, lane * bytes, LINE, parts_of(depth * bytes, LINE)} : (Ahead){0};
}

// What is packed after a strip: the next block of k, the next columns of the part, or those of the part that this thread may make
// next.
static Ahead ahead_of(const Run *run, const DotBlock *block, int64_t k, int64_t end) {
  const DotPlan *p = run->p;
  int64_t first = block->column0;
  if (!packs_strips(run))
    return (Ahead){0};
  if (++k == p->blocks) {
    k = 0;
    first += p->hot;
    first += first >= end ? run->bn * run->helpers : 0;
  }
  const int64_t n = least(p->hot, run->first + run->columns - first);
  return n > 0 ? strip_ahead(run, block->batch, first, n, k) : (Ahead){0};
}

// --- Products -----------------------------------------------------------------------------------

// Rows and columns of words; where a tile is wider than what is left of C it works beside.
static void multiply(const DotPlan *p, Feed a, Feed b, int64_t k, char *c, int64_t c_row,
                     int64_t rows, int64_t columns, bool add, Ahead *ahead) {
  _Alignas(64) char edge[DOT_MAX_MR * DOT_MAX_ROW];
  const DotTiles *t = p->tiles;
  const int64_t mr = (int64_t)p->side[0].width * p->parts;
  for (int64_t j = 0; j < columns; j += t->nr, b.at += b.panel) {
    const char *rows_at = a.at;
    const size_t width = (size_t)least(t->nr, columns - j) * (size_t)p->word;
    for (int64_t i = 0; i < rows; i += mr, rows_at += a.panel) {
      const int64_t n = least(mr, rows - i);
      char *to = c + (i * c_row + j) * p->word;
      const char *soon = b.at + (columns - j > t->nr ? b.panel : 0) + i / mr % 2 * LINE;
      int64_t soon_step = b.step * p->word;
      if (ahead->lines > 0) {
        soon = ahead->at;
        soon_step = ahead->step;
        ahead->at += ahead->next;
        ahead->lines--;
      }
      if (columns - j >= t->nr) {
        t->rows[n](k, rows_at, a.row, a.step, b.at, b.step, to, c_row, add, soon, soon_step);
        continue;
      }
      for (int64_t r = 0; r < n && add; r++)
        memcpy(edge + r * t->nr * p->word, to + r * c_row * p->word, width);
      t->rows[n](k, rows_at, a.row, a.step, b.at, b.step, edge, t->nr, add, soon, soon_step);
      for (int64_t r = 0; r < n; r++)
        memcpy(to + r * c_row * p->word, edge + r * t->nr * p->word, width);
    }
  }
}

// --- Blocks ---------------------------------------------------------------------------------------

// `end`: of the part's columns.
static bool make_block(const Run *run, const Panels *a, DotBlock *block, int64_t end, char *c,
                       const DotScratch *s) {
  const DotPlan *p = run->p;
  const int64_t rows = block->rows * p->parts;
  if (p->in_place) {
    int64_t row, column;
    dot_even(&p->side[0].lanes, DOT_C, 0, 0, &row);
    dot_even(&p->side[1].lanes, DOT_C, 0, 0, &column);
    block->at = c + (block->row0 * row + block->column0 * column) * p->word;
    block->row = row;
  } else {
    block->at = s->block;
    block->row = p->hot * p->parts;
  }
  if (p->blocks == 0)
    memset(block->at, 0, (size_t)(rows * block->row * p->word));
  for (int64_t k = 0; k < p->blocks; k++) {
    const int64_t depth = least(p->kc, p->depth - k * p->kc);
    const Feed from_a = rows_of(run, block->batch, a, block->row0, k, depth);
    // A tile reads whole rows: of a matrix that is not packed, what is left over is.
    const int64_t rest = p->side[1].is_direct ? block->columns % p->side[1].width : 0;
    Ahead ahead = ahead_of(run, block, k, end);
    for (int64_t j = 0, n; j < block->columns; j += n) {
      n = j == 0 && rest < block->columns ? block->columns - rest : rest;
      const Feed from_b = columns_of(run, block->batch, block->column0 + j, n, k, depth, s);
      multiply(p, from_a, from_b, dot_words(p, depth), (char *)block->at + j * p->parts * p->word,
               block->row, rows, n * p->parts, k > 0, &ahead);
    }
  }
  return dot_finish(p, run->epilogue, block, c, s);
}

// Rows [i, i + m) and columns [j, j + n) of one batch.
static bool make_part(const Run *run, int64_t batch, int64_t i, int64_t m, int64_t j, int64_t n,
                      const DotScratch *s) {
  const DotPlan *p = run->p;
  char *c = run->c + dot_offset(&p->batch, DOT_C, batch) * hl_dtype_bytes(p->result);
  if (p->is_row) {
    const char *const operand[] = {operand_at(run, 0, batch), operand_at(run, 1, batch)};
    return dot_vector_part(p, run->epilogue, batch, j, n, operand, c, s);
  }
  const Panels a = packed_rows(run, batch, i, m, s);
  for (int64_t at = j; at < j + n; at += p->hot) {
    DotBlock block = {.batch = batch,
                      .row0 = i,
                      .rows = m,
                      .column0 = at,
                      .columns = least(p->hot, j + n - at),
                      .dtype = p->sum};
    if (!make_block(run, &a, &block, j + n, c, s))
      return false;
  }
  return true;
}

// --- Chunks -------------------------------------------------------------------------------------

static DotScratch *scratch_of(const Run *run, CpuMember *member, DotScratch *s) {
  char *start = cpu_scratch(member, lay_out(run, NULL, s));
  if (start)
    lay_out(run, start, s);
  return start ? s : NULL;
}

// What is packed for all chunks: of A its rows, of B what columns there are now; some lanes and a block of k at a time.
typedef struct Packing {
  const Run *run;
  char *to[2];  // NULL: not this side
  int64_t chunks[2];
} Packing;

static int64_t shared_lanes(const Run *run, int which) {
  return which == 0 ? run->p->side[0].n : run->columns;
}

static int64_t lanes_together(const DotPlan *p, int which) {
  return which == 0 ? dot_round_up(p->hot, p->side[0].width) : p->hot;
}

static bool pack_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Packing *packing = user;
  const Run *run = packing->run;
  const DotPlan *p = run->p;
  const int which = chunk >= packing->chunks[0];
  const DotSide *side = &p->side[which];
  char *scratch = cpu_scratch(member, dot_pack_scratch(p));
  if (!scratch)
    return false;
  chunk -= which ? packing->chunks[0] : 0;
  const int64_t lanes = shared_lanes(run, which), together = lanes_together(p, which),
                across = parts_of(lanes, together), block = chunk / across,
                at = chunk % across * together, depth = least(p->kc, p->depth - block * p->kc);
  dot_pack(p, side, operand_at(run, which, run->batch), (which ? run->first : 0) + at,
           least(together, lanes - at), block * p->kc, depth,
           packing->to[which] + block * dot_packed_bytes(p, side, lanes, p->kc) +
               dot_packed_bytes(p, side, at, depth),
           scratch);
  return true;
}

static bool part_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const DotPlan *p = run->p;
  DotScratch s;
  if (!scratch_of(run, member, &s))
    return false;
  const int64_t m = p->side[0].n, across = parts_of(run->columns, run->bn),
                down = parts_of(m, p->bm), j = chunk % across * run->bn,
                i = chunk / across % down * p->bm,
                first = run->batch + chunk / across / down * p->group;
  for (int64_t batch = first; batch < first + p->group && batch < run->batch + run->batches;
       batch++)
    if (!make_part(run, batch, i, least(p->bm, m - i), run->first + j,
                   least(run->bn, run->columns - j), &s))
      return false;
  return true;
}

// --- The product --------------------------------------------------------------------------------

// `to`: by side; NULL: not that one.
static bool pack_sides(const Run *run, CpuTeam *team, char *const to[2]) {
  const DotPlan *p = run->p;
  Packing packing = {.run = run, .to = {to[0], to[1]}};
  int64_t bytes = 0;
  for (int which = 0; which < 2; which++)
    if (to[which]) {
      const int64_t lanes = shared_lanes(run, which);
      bytes += dot_packed_bytes(p, &p->side[which], lanes, p->kc) * p->blocks;
      packing.chunks[which] = p->blocks * parts_of(lanes, lanes_together(p, which));
    }
  return cpu_parallel(team, packing.chunks[0] + packing.chunks[1], (double)bytes / 8e9, pack_chunk,
                      &packing);
}

// Packs what chunks share into memory of the team's.
static bool pack_shared(Run *run, CpuTeam *team, char *memory) {
  const DotPlan *p = run->p;
  char *to[2] = {NULL, NULL};
  for (int which = 0; which < 2; which++)
    if (p->shared[which]) {
      run->shared[which] = to[which] = memory;
      memory += dot_packed_bytes(p, &p->side[which], shared_lanes(run, which), p->kc) * p->blocks;
    }
  return pack_sides(run, team, to);
}

// Finds the panels that are there before, those that are held too, which are made now if nobody has made them.
static bool find_packed(Run *run, CpuTeam *team, char *held) {
  const DotPlan *p = run->p;
  int64_t *is_made = (int64_t *)(void *)held;
  for (int which = 0; which < 2; which++)
    run->packed[which] = p->side[which].is_held ? held + p->side[which].held : p->side[which].packed;
  if (p->held == 0 || *is_made)
    return true;
  for (run->batch = 0; run->batch < p->batches; run->batch++) {
    char *to[2] = {NULL, NULL};
    for (int which = 0; which < 2; which++)
      if (p->side[which].is_held)
        to[which] = held + p->side[which].held + run->batch * dot_whole_bytes(p, &p->side[which]);
    if (!pack_sides(run, team, to))
      return false;
  }
  run->batch = 0;
  *is_made = 1;
  return true;
}

static bool run_parts(Run *run, CpuTeam *team, double seconds) {
  const DotPlan *p = run->p;
  const int64_t chunks = parts_of(run->columns, run->bn) * parts_of(p->side[0].n, p->bm) *
                         parts_of(run->batches, p->group);
  return cpu_parallel(team, chunks, seconds, part_chunk, run);
}

static bool run_shared(Run *run, CpuTeam *team) {
  const DotPlan *p = run->p;
  const int64_t n = p->side[1].n, span = p->shared[1] ? p->span : n;
  int64_t bytes = 0;
  for (int which = 0; which < 2; which++)
    if (p->shared[which])
      bytes += dot_packed_bytes(p, &p->side[which], which ? least(span, n) : p->side[0].n, p->kc) *
               p->blocks;
  char *memory = cpu_team_scratch(team, (size_t)bytes);
  bool ok = memory != NULL;
  run->batches = 1;
  for (run->batch = 0; run->batch < p->batches && ok; run->batch++)
    for (run->first = 0; run->first < n && ok; run->first += span) {
      run->columns = least(span, n - run->first);
      const double share = (double)run->columns / (double)(n * p->batches);
      ok = pack_shared(run, team, memory) && run_parts(run, team, p->seconds * share);
    }
  return ok;
}

// Memory is read fastest in long rows, so those of a matrix that streams by are cut as little as is needed to have all threads busy.
// What comes out is the same: sums do not know of other columns.
static int64_t columns_of_chunk(const DotPlan *p, const CpuTeam *team) {
  enum { LONG = 2048 };
  const int64_t even = parts_of(p->side[1].n, p->bn * cpu_team_threads(team)) * p->bn;
  return !p->across || p->group > 1 ? p->bn : even < LONG ? even : parts_of(LONG, p->bn) * p->bn;
}

// --- Pieces of k --------------------------------------------------------------------------------

static bool run_pieces(const DotPlan *p, CpuTeam *team, const char *a, const char *b, char *c,
                       const DotEpilogue *epilogue) {
  const int64_t m = p->side[0].n, n = p->side[1].n, done = p->pieces * p->length,
                parts = hl_is_complex(p->sum) ? 2 : 1, some = m * n * hl_dtype_bytes(p->sum),
                row = dot_round_up(n * 16, LINE), all = dot_round_up(some * (p->pieces + 1), LINE);
  char *sums =
      cpu_team_scratch(team, (size_t)(all + row + n * 8) + (epilogue ? epilogue->scratch : 0));
  if (!sums || !dot_run(p->piece, team, a, b, sums, NULL, NULL))
    return false;
  const DotLoop *k = &p->k.at[0];
  const int of_a = p->turned ? 1 : 0;
  if (p->rest &&
      !dot_run(p->rest, team, a + done * k->stride[DOT_A] * hl_dtype_bytes(p->side[of_a].dtype),
               b + done * k->stride[DOT_B] * hl_dtype_bytes(p->side[!of_a].dtype),
               sums + some * p->pieces, NULL, NULL))
    return false;
  for (int64_t piece = 1; piece < p->pieces + (p->rest != NULL); piece++)
    p->add(m * n * parts, sums, sums, sums + some * piece, NULL);
  const DotScratch s = {
      .row = sums + all, .offset = sums + all + row, .epilogue = sums + all + row + n * 8};
  const DotBlock block = {.at = sums, .rows = m, .columns = n, .row = n, .dtype = p->sum};
  return dot_put(p, epilogue, &block, c, &s);
}

bool dot_run(const DotPlan *p, CpuTeam *team, const void *a, const void *b, void *c,
             const DotEpilogue *epilogue, void *held) {
  const int64_t m = p->side[0].n, n = p->side[1].n;
  Run run = {.p = p,
             .operand = {p->turned ? b : a, p->turned ? a : b},
             .c = c,
             .epilogue = epilogue,
             .batches = p->batches,
             .columns = n,
             .bn = columns_of_chunk(p, team),
             .helpers = cpu_team_threads(team) - 1};
  if (m == 0 || n == 0 || p->batches == 0)
    return true;
  if (p->piece)
    return run_pieces(p, team, a, b, c, epilogue);
  if (!find_packed(&run, team, held))
    return false;
  return p->shared[0] || p->shared[1] ? run_shared(&run, team) : run_parts(&run, team, p->seconds);
}

// --- Alone --------------------------------------------------------------------------------------

size_t dot_alone_bytes(const DotPlan *p) {
  return lay_out(&(Run){.p = p}, NULL, &(DotScratch){0});
}

DotArray dot_kept_array(const DotPlan *p) {
  return p->side[1].array;
}

size_t dot_kept_bytes(const DotPlan *p) {
  const DotSide *side = &p->side[1];
  if (p->is_row || side->is_direct || side->packed || p->batches != 1)
    return 0;
  return (size_t)(dot_packed_bytes(p, side, side->n, p->kc) * p->blocks);
}

void dot_keep(const DotPlan *p, const void *operand, void *kept, void *memory) {
  const DotSide *side = &p->side[1];
  DotScratch s;
  lay_out(&(Run){.p = p}, memory, &s);
  for (int64_t k = 0; k < p->blocks; k++)
    dot_pack(p, side, operand, 0, side->n, k * p->kc, least(p->kc, p->depth - k * p->kc),
             (char *)kept + k * dot_packed_bytes(p, side, side->n, p->kc), s.pack);
}

bool dot_alone(const DotPlan *p, const void *a, const void *b, void *c, const void *kept,
               void *memory) {
  Run run = {
      .p = p, .operand = {p->turned ? b : a, p->turned ? a : b}, .c = c, .columns = p->side[1].n};
  const int64_t m = p->side[0].n, n = p->side[1].n;
  DotScratch s;
  lay_out(&run, memory, &s);
  run.packed[0] = p->side[0].packed;
  run.packed[1] = p->side[1].packed;
  run.shared[1] = kept;
  bool ok = true;
  for (int64_t batch = 0; batch < p->batches && ok; batch++)
    for (int64_t i = 0; i < m && n > 0 && ok; i += p->bm)
      ok = make_part(&run, batch, i, least(p->bm, m - i), 0, n, &s);
  return ok;
}
