// cpu/scan/scan.c: reduce-window along one dimension with a long window: cumulative sums, products, extremes, and windows that slide.
//
// What stands along the dimension is a line; lines that lie side by side in memory go together, as `lanes`. A window of w places
// is folded from two parts. With the line cut into blocks of w,
//
//   prefix[j] = x[start of j's block] op ... op x[j]          suffix[j] = x[j] op ... op x[end of j's block]
//
// a window that begins at a and ends at b is suffix[a] op prefix[b], or one of them where it begins or ends with a block: a
// few steps an element however long the window is. Windows that all begin with the line, or all end with it, need one part alone,
// which goes in pieces with a carry.
//
// Sums and products of small floats are kept in f32 and rounded once, as the interpreter has them where windows are longer than 32;
// those of complex numbers are sums of two parts.

#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/vec/vec.h"

enum { SHORTEST = 33, FEW_ABREAST = 16, MOST_ABREAST = 256, PIECE = 8192, LONGEST = 1 << 23 };

typedef enum ScanKind { SCAN_FORWARDS, SCAN_BACKWARDS, SCAN_SLIDES } ScanKind;

typedef struct Scan {
  CpuKernel kernel;
  ScanKind kind;
  VecOp op;
  HlDtype dtype;
  int size, part;           // bytes of an element in memory, and of a part as it is carried
  int parts;                // 2: complex
  int64_t outer, n, inner;  // lines: `inner` of them side by side, `outer` times
  int64_t lanes;            // of them that go together
  int64_t m, width,
      pad;  // of a window: results along the line; places; of them before the line for the first result
  int64_t units, chunk;
  VecLoad *load;
  VecStore *store;
  VecFn *fn, *fn_init, *round;
  VecScan *scan;
} Scan;

extern const CpuKernelKind cpu_kind_scan;

// --- Making ---------------------------------------------------------------------------------------

static bool is_plain(const HlWindowDim *w) {
  return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
         w->lhs_dilate == 1 && w->rhs_dilate == 1;
}

// The one dimension that a window is long in; -1: it is none of ours.
static int long_dim(const HlWindow *window) {
  int found = -1;
  for (int d = 0; d < window->n; d++) {
    const HlWindowDim *w = &window->at[d];
    if (is_plain(w))
      continue;
    if (found >= 0 || w->size < SHORTEST || w->stride != 1 || w->lhs_dilate != 1 ||
        w->rhs_dilate != 1)
      return -1;
    found = d;
  }
  return found;
}

static bool same_strides(HlArena *arena, const HlShape *a, const HlShape *b, int along) {
  const int64_t *x = cpu_strides(arena, a), *y = cpu_strides(arena, b);
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] != 1 && x[d] * (x[d] > x[along] ? b->dim[along] : 1) !=
                              y[d] * (x[d] > x[along] ? a->dim[along] : 1))
      return false;
  return x[along] == y[along];
}

static ScanKind kind_of(const HlWindowDim *w, int64_t n, int64_t m) {
  if (m == n && w->pad_low == w->size - 1 && w->size >= n)
    return SCAN_FORWARDS;
  if (m == n && w->pad_low == 0 && w->size >= n)
    return SCAN_BACKWARDS;
  return SCAN_SLIDES;
}

static bool find_functions(Scan *s, CpuLevel level) {
  const HlDtype carrier = vec_carrier(s->dtype);
  const bool narrow = carrier != s->dtype && !hl_is_complex(s->dtype);
  s->load = vec_load(level, s->dtype);
  s->store = vec_store(level, s->dtype);
  s->fn = vec_fn(level, s->op, carrier, 0);
  s->fn_init = vec_fn(level, s->op, carrier, 1);
  s->scan = vec_scan(level, s->op, carrier);
  s->round = narrow ? vec_round(level, s->dtype) : NULL;
  s->part = hl_dtype_bytes(carrier);
  return s->fn && s->scan && (!narrow || s->round);
}

static bool is_ours(const HlInst *inst, int *along) {
  if (inst->op != HL_OP_REDUCE_WINDOW || inst->n_operands != 2)
    return false;
  const HlShape *from = inst->operands[0]->shape;
  const HlWindow window = hl_window(inst);
  *along = window.n == from->rank ? long_dim(&window) : -1;
  return *along >= 0 && from->dtype == inst->shape->dtype && !hl_shape_is_dynamic(from) &&
         !hl_shape_is_dynamic(inst->shape) && hl_shape_elements(from) > 0 &&
         hl_shape_elements(inst->shape) > 0;
}

static void cut(Scan *s) {
  const int64_t wish =
      s->kind != SCAN_SLIDES ? MOST_ABREAST : 8 * PIECE / s->n;  // a slide holds lines
  s->lanes = wish < 2 * FEW_ABREAST ? 2 * FEW_ABREAST : wish < MOST_ABREAST ? wish : MOST_ABREAST;
  s->lanes = s->inner < FEW_ABREAST ? 1 : s->lanes < s->inner ? s->lanes : s->inner;
  const int64_t across = s->inner < FEW_ABREAST ? s->inner : (s->inner + s->lanes - 1) / s->lanes;
  const int64_t each = (s->n + s->m) * s->lanes;
  s->units = s->outer * across;
  s->chunk = each >= 4 * PIECE ? 1 : 4 * PIECE / each;
  s->kernel.seconds = 1.5e-9 * (double)(each * s->units);
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  int along;
  if (!is_ours(inst, &along))
    return NULL;
  const HlShape *from = inst->operands[0]->shape;
  const HlDtype dtype = from->dtype;
  const VecOp op = vec_op_of(hl_to_apply(inst), dtype);
  if (op == VEC_OP_COUNT || (hl_is_complex(dtype) && op != VEC_ADD) ||
      (hl_is_integral(dtype) && hl_dtype_info[dtype].bits < 8) ||
      !same_strides(hl_cx_scratch(maker->cx), from, inst->shape, along))
    return NULL;
  const HlWindowDim *w = &hl_window(inst).at[along];
  Scan *s = HL_NEW(maker->arena, Scan);
  *s = (Scan){.kernel = {&cpu_kind_scan, 3, 0},
              .op = op,
              .dtype = dtype,
              .size = hl_dtype_bytes(dtype),
              .parts = hl_is_complex(dtype) ? 2 : 1,
              .n = from->dim[along],
              .m = inst->shape->dim[along],
              .width = w->size,
              .pad = w->pad_low};
  s->kind = kind_of(w, s->n, s->m);
  s->inner = cpu_strides(hl_cx_scratch(maker->cx), from)[along];
  s->outer = hl_shape_elements(from) / s->n / s->inner;
  if (!find_functions(s, maker->level))
    return NULL;
  cut(s);
  return s->kind == SCAN_SLIDES && s->n * s->lanes > LONGEST ? NULL : &s->kernel;
}

// --- Lines ----------------------------------------------------------------------------------------

// Some lanes of some lines: where they begin in memory, and what they are there.
typedef struct Lines {
  const Scan *s;
  const char *from;
  char *to;
  int64_t lanes;
  const char *init;  // of each part
} Lines;

// Elements first to last of the lines, `parts` after each other in `out`, each of `room` elements.
static void load(const Lines *l, int64_t first, int64_t last, char *out, int64_t room) {
  const Scan *s = l->s;
  char *im = s->parts > 1 ? out + room * s->part : NULL;
  const char *from = l->from + first * s->inner * s->size;
  if (l->lanes == 1 || l->lanes == s->inner) {
    const int64_t step = l->lanes == 1 ? s->inner : 1;
    s->load((last - first) * l->lanes, out, im, from, step);
    return;
  }
  const int64_t row = l->lanes * s->part;
  for (int64_t k = 0; k < last - first; k++)
    s->load(l->lanes, out + k * row, im ? im + k * row : NULL, from + k * s->inner * s->size, 1);
}

static void store(const Lines *l, int64_t first, int64_t last, char *x, int64_t room) {
  const Scan *s = l->s;
  const int64_t n = (last - first) * l->lanes, row = l->lanes * s->part;
  const char *im = s->parts > 1 ? x + room * s->part : NULL;
  char *to = l->to + first * s->inner * s->size;
  if (s->round)
    s->round(n, x, x, NULL, NULL);
  if (l->lanes == 1 || l->lanes == s->inner) {
    s->store(n, to, l->lanes == 1 ? s->inner : 1, x, im);
    return;
  }
  for (int64_t k = 0; k < last - first; k++)
    s->store(l->lanes, to + k * s->inner * s->size, 1, x + k * row, im ? im + k * row : NULL);
}

// out[k] = carry op x[0] op ... op x[k], of n times `lanes` of one part, and the last becomes the carry; or from the last down.
static void run_part(const Lines *l, int64_t n, char *out, char *carry, const char *x,
                     bool backwards) {
  const Scan *s = l->s;
  const int64_t row = l->lanes * s->part;
  if (n == 0)
    return;
  if (l->lanes == 1) {
    s->scan(n, out, carry, x, backwards);
    return;
  }
  const char *last = carry;
  for (int64_t k = 0; k < n; k++) {
    const int64_t at = (backwards ? n - 1 - k : k) * row;
    s->fn(l->lanes, out + at, last, x + at, NULL);
    last = out + at;
  }
  memcpy(carry, last, (size_t)row);
}

// --- Windows that begin, or end, with the line -----------------------------------------------------

static void run_cumulative(const Lines *l, char *memory) {
  const Scan *s = l->s;
  const bool backwards = s->kind == SCAN_BACKWARDS;
  const int64_t piece = PIECE / l->lanes, room = PIECE;
  char *carry = memory, *x = carry + 2 * MOST_ABREAST * s->part;
  for (int p = 0; p < s->parts; p++)
    for (int64_t k = 0; k < l->lanes; k++)
      memcpy(carry + (p * l->lanes + k) * s->part, l->init + p * s->part, (size_t)s->part);
  for (int64_t done = 0; done < s->n; done += piece) {
    const int64_t some = s->n - done < piece ? s->n - done : piece;
    const int64_t first = backwards ? s->n - done - some : done;
    load(l, first, first + some, x, room);
    for (int p = 0; p < s->parts; p++) {
      char *part = x + p * room * s->part;
      run_part(l, some, part, carry + p * l->lanes * s->part, part, backwards);
    }
    store(l, first, first + some, x, room);
  }
}

// --- Windows that slide ----------------------------------------------------------------------------

// prefix and suffix of every block of the lines.
static void run_blocks(const Lines *l, const char *x, char *prefix, char *suffix) {
  const Scan *s = l->s;
  const int64_t row = l->lanes * s->part;
  char carry[MOST_ABREAST * 8];
  for (int64_t from = 0; from < s->n; from += s->width) {
    const int64_t some = s->n - from < s->width ? s->n - from : s->width, last = from + some - 1;
    memcpy(prefix + from * row, x + from * row, (size_t)row);
    memcpy(carry, x + from * row, (size_t)row);
    run_part(l, some - 1, prefix + (from + 1) * row, carry, x + (from + 1) * row, false);
    memcpy(suffix + last * row, x + last * row, (size_t)row);
    memcpy(carry, x + last * row, (size_t)row);
    run_part(l, some - 1, suffix + from * row, carry, x + from * row, true);
  }
}

// Results i to j - 1, whose windows begin at a = i - pad and so on.
static void join_parts(const Lines *l, int64_t i, int64_t j, const char *prefix, const char *suffix,
                       const char *init, char *out) {
  const Scan *s = l->s;
  const int64_t row = l->lanes * s->part;
  for (int64_t k = i, next; k < j; k = next) {
    const int64_t a = k - s->pad < 0 ? 0 : k - s->pad, end = k - s->pad + s->width - 1;
    const int64_t b = end < s->n ? end : s->n - 1;
    char *to = out + (k - i) * row;
    next = k + 1;
    if (a > b) {
      for (int64_t lane = 0; lane < l->lanes; lane++)
        memcpy(to + lane * s->part, init, (size_t)s->part);
      continue;
    }
    const bool begins = a % s->width == 0, ends = b == s->n - 1 || (b + 1) % s->width == 0;
    const bool one_block = a / s->width == b / s->width;
    if (one_block && begins) {
      memcpy(to, prefix + b * row, (size_t)row);
    } else if (one_block && ends) {
      memcpy(to, suffix + a * row, (size_t)row);
    } else {
      // All up to the next block are of two blocks, too, where neither end of the line is near.
      if (k - s->pad > 0 && end < s->n)
        next = k + s->width - a % s->width;
      next = next < j ? next : j;
      next = end < s->n && next - 1 - s->pad + s->width > s->n ? k + s->n - b : next;
      s->fn((next - k) * l->lanes, to, suffix + a * row, prefix + b * row, NULL);
    }
    s->fn_init((next - k) * l->lanes, to, init, to, NULL);
  }
}

static void run_sliding(const Lines *l, char *memory) {
  const Scan *s = l->s;
  const int64_t room = s->n * l->lanes, bytes = room * s->part;
  const int64_t piece = PIECE / l->lanes;
  char *x = memory, *prefix = x + s->parts * bytes, *suffix = prefix + s->parts * bytes;
  char *out = suffix + s->parts * bytes;
  load(l, 0, s->n, x, room);
  for (int p = 0; p < s->parts; p++)
    run_blocks(l, x + p * bytes, prefix + p * bytes, suffix + p * bytes);
  for (int64_t i = 0; i < s->m; i += piece) {
    const int64_t j = s->m - i < piece ? s->m : i + piece;
    for (int p = 0; p < s->parts; p++)
      join_parts(l, i, j, prefix + p * bytes, suffix + p * bytes, l->init + p * s->part,
                 out + p * PIECE * s->part);
    store(l, i, j, out, PIECE);
  }
}

// --- All of them -----------------------------------------------------------------------------------

typedef struct Job {
  const Scan *s;
  const char *from;
  char *to;
  char init[2 * 8];
} Job;

static size_t bytes_of(const Scan *s) {
  const int64_t lines = s->kind == SCAN_SLIDES ? 3 * s->n * s->lanes : 2 * MOST_ABREAST;
  return (size_t)((lines + PIECE) * s->parts * s->part);
}

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Job *job = user;
  const Scan *s = job->s;
  const int64_t across = s->units / s->outer, last = (chunk + 1) * s->chunk;
  char *memory = cpu_scratch(member, bytes_of(s));
  if (!memory)
    return false;
  for (int64_t u = chunk * s->chunk; u < last && u < s->units; u++) {
    const int64_t first = u % across * s->lanes, left = s->inner - first;
    const int64_t before = u / across * s->inner;
    const Lines l = {.s = s,
                     .from = job->from + (before * s->n + first) * s->size,
                     .to = job->to + (before * s->m + first) * s->size,
                     .lanes = left < s->lanes ? left : s->lanes,
                     .init = job->init};
    (s->kind == SCAN_SLIDES ? run_sliding : run_cumulative)(&l, memory);
  }
  return true;
}

static bool run(const CpuKernel *base, CpuTeam *team, void *const *buffer, const char **why) {
  const Scan *s = (const Scan *)base;
  Job job = {.s = s, .from = buffer[0], .to = buffer[2]};
  s->load(1, job.init, s->parts > 1 ? job.init + s->part : NULL, buffer[1], 1);
  return cpu_parallel(team, (s->units + s->chunk - 1) / s->chunk, s->kernel.seconds, run_chunk,
                      &job);
}

static void print(HlBuf *out, const CpuKernel *base) {
  const Scan *s = (const Scan *)base;
  static const char *const kind[] = {"forwards", "backwards", "windows"};
  hl_buf_printf(out, "%s of %s, %s of %lld: %lld x %lld x %lld, %lld lanes\n", vec_info[s->op].text,
                hl_dtype_text(s->dtype), kind[s->kind], (long long)s->width, (long long)s->outer,
                (long long)s->n, (long long)s->inner, (long long)s->lanes);
}

const CpuKernelKind cpu_kind_scan = {"scan", make, run, print};
