// cpu/conv/run.c: computes a convolution box by box.

#include <string.h>

#include "cpu/conv/winograd.h"

typedef struct Run {
  const ConvKernel *c;
  const char *x, *w;  // as they are computed in
  char *y,
      *more;  // the first of the results that are to be added, and the others, one after the other
  void *const *buffer;  // what was given
  char *
      panels;  // weights packed before, [slice][box of the sum][block of columns]; NULL: each chunk packs its own
} Run;

// One chunk: a box of places, a slice, some columns; then each box of its sum.
typedef struct Work {
  const Run *run;
  const ConvKernel *c;
  const ConvPart *part;
  int64_t slice, split;
  char *y;
  ConvBox box;
  int64_t rows, steps;
  // In scratch memory:
  int64_t *row, *to, *to_own;  // of a place: in x, in y, in `own`
  int64_t *step, *weight;      // of a step of the sum: in x, in w
  char *panel, *copy;
  char *own;  // results of columns that cannot be written where they belong, [block][place]
} Work;

static size_t size_of(const ConvKernel *c) {
  return c->type == CONV_F32 || c->type == CONV_I32 ? 4 : 8;
}

// --- Offsets ------------------------------------------------------------------------------------

// Adds an axis inside those before: at[k * n + j] = at[k] + j * stride.
static int64_t expand(int64_t *at, int64_t count, int64_t n, int64_t stride) {
  for (int64_t k = count - 1; k >= 0; k--)
    for (int64_t j = n - 1; j >= 0; j--)
      at[k * n + j] = at[k] + j * stride;
  return count * n;
}

static void set_rows(Work *w, const int64_t *x_stride) {
  const ConvKernel *c = w->c;
  const ConvPart *part = w->part;
  int64_t count = 1, start = part->y + w->slice * c->y_slice;
  for (int k = 0; k < PLACE_AXES; k++)
    start += w->box.place[k] * part->y_step[k];
  w->row[0] = 0;
  w->to[0] = start;
  for (int k = 0; k < PLACE_AXES; k++) {
    const int axis = c->place_order[k], d = axis - PLACE_SPATIAL;
    const int64_t n = w->box.places[axis];
    expand(w->to, count, n, part->y_step[axis]);
    count = expand(w->row, count, n,
                   axis == PLACE_BATCH
                       ? x_stride[X_BATCH]
                       : part->dim[d].stride / part->dim[d].unit * x_stride[X_SPATIAL + d]);
  }
  w->rows = count;
}

static void set_steps(Work *w, const int64_t *x_stride) {
  const ConvKernel *c = w->c;
  const ConvPart *part = w->part;
  int64_t count = 1, start = part->w + w->slice * c->w_slice;
  for (int k = 0; k < SUM_AXES; k++)
    start += w->box.sum[k] * part->w_step[k];
  w->step[0] = 0;
  w->weight[0] = start;
  for (int k = 0; k < SUM_AXES; k++) {
    const int axis = c->sum_order[k], d = axis - SUM_TAP;
    const int64_t n = w->box.sums[axis];
    expand(w->weight, count, n, part->w_step[axis]);
    count = expand(w->step, count, n,
                   axis == SUM_FEATURE ? x_stride[X_FEATURE]
                   : axis == SUM_HALF
                       ? x_stride[X_HALF]
                       : part->dim[d].dilation / part->dim[d].unit * x_stride[X_SPATIAL + d]);
  }
  w->steps = count;
}

// --- The input ----------------------------------------------------------------------------------

// How many of n places from `low` on, `unit` apart, come before `end`.
static int64_t before(int64_t low, int64_t unit, int64_t n, int64_t end) {
  const int64_t k = low >= end ? 0 : (end - low + unit - 1) / unit;
  return k < n ? k : n;
}

// The axis whose elements are copied in lines, each a `piece`: axes inside of it that are seen whole and lie beside each other here
// and there.
static int find_line(const ConvKernel *c, const int64_t *low, const int64_t *n, const int64_t *unit,
                     const int64_t *stride, int64_t *piece) {
  int line = X_AXES - 1;  // the innermost with something to it
  while (line > 0 && n[c->x_order[line]] == 1)
    line--;
  *piece = 1;
  for (;;) {
    const int axis = c->x_order[line];
    int next = line - 1;
    while (next > 0 && n[c->x_order[next]] == 1)
      next--;
    const int outer = next < 0 ? axis : c->x_order[next];
    const int64_t all = *piece * n[axis];
    if (outer == axis || low[axis] != 0 || n[axis] != c->x_dim[axis] || unit[axis] != 1 ||
        unit[outer] != 1 || c->x_stride[axis] != *piece || stride[axis] != *piece ||
        c->x_stride[outer] != all || stride[outer] != all)
      return line;
    *piece = all;
    line = next;
  }
}

// Copies the box with zeros around; `stride` is that of the copy.
static void copy_box(const Work *w, const char *x, const int64_t *low, const int64_t *n,
                     const int64_t *unit, const int64_t *stride) {
  const ConvKernel *c = w->c;
  int64_t piece;
  const int line = find_line(c, low, n, unit, stride, &piece), axis = c->x_order[line];
  const size_t size = size_of(c), bytes = (size_t)piece * size;
  const int64_t all = n[axis], step = c->x_stride[axis] * unit[axis],
                first = before(low[axis], unit[axis], all, 0),
                last = before(low[axis], unit[axis], all, c->x_dim[axis]);
  int64_t at[X_AXES] = {0};
  for (;;) {
    bool inside = true;
    int64_t from = low[axis] * c->x_stride[axis] + first * step, to = 0;
    for (int k = 0; k < X_AXES; k++) {
      const int a = c->x_order[k];
      if (k == line)
        continue;
      const int64_t place = low[a] + at[a] * unit[a];
      inside = inside && place >= 0 && place < c->x_dim[a];
      from += place * c->x_stride[a];
      to += at[a] * stride[a];
    }
    char *out = w->copy + (size_t)to * size;
    if (!inside) {
      memset(out, 0, (size_t)all * bytes);
    } else {
      const char *in = x + from * (int64_t)size;
      memset(out, 0, (size_t)first * bytes);
      if (step == piece)
        memcpy(out + (size_t)first * bytes, in, (size_t)(last - first) * bytes);
      else if (size == 4)
        for (int64_t k = first; k < last; k++, in += step * 4)
          memcpy(out + k * 4, in, 4);
      else
        for (int64_t k = first; k < last; k++, in += step * 8)
          memcpy(out + k * 8, in, 8);
      memset(out + (size_t)last * bytes, 0, (size_t)(all - last) * bytes);
    }
    int k = line - 1;
    for (; k >= 0 && ++at[c->x_order[k]] == n[c->x_order[k]]; k--)
      at[c->x_order[k]] = 0;
    if (k < 0)
      return;
  }
}

// The axis along which neighbours in the box are neighbours in memory, where the innermost of the copy is another; -1: none.
static int axis_along(const ConvKernel *c, const int64_t *n, const int64_t *unit) {
  const int inner = c->x_order[X_AXES - 1];
  if (inner != X_GROUP || n[inner] == 1 || c->x_stride[inner] == 1)
    return -1;
  for (int k = 0; k < X_AXES; k++)
    if (k != inner && n[k] > 1 && c->x_stride[k] == 1 && unit[k] == 1)
      return k;
  return -1;
}

// One row along `axis` of all groups: `in` is where the first of them begin, none of which is outside; `inside`: of the others.
static void copy_turned_row(const Work *w, int axis, const int64_t *low, const int64_t *n,
                            const int64_t *stride, const char *in, bool inside, char *out) {
  const ConvKernel *c = w->c;
  const size_t size = size_of(c);
  const int64_t groups = c->x_dim[X_GROUP] - low[X_GROUP],
                here = groups < n[X_GROUP] ? groups : n[X_GROUP],
                first = inside ? before(low[axis], 1, n[axis], 0) : n[axis],
                last = inside ? before(low[axis], 1, n[axis], c->x_dim[axis]) : n[axis];
  for (int64_t k = 0; k < n[axis]; k++)
    if (k < first || k >= last)
      memset(out + (size_t)(k * stride[axis]) * size, 0, (size_t)n[X_GROUP] * size);
    else if (here < n[X_GROUP])
      memset(out + (size_t)(k * stride[axis] + here) * size, 0, (size_t)(n[X_GROUP] - here) * size);
  if (first < last)
    c->transpose(here, last - first, out + (size_t)(first * stride[axis]) * size, stride[axis],
                 in + (low[axis] + first) * (int64_t)size, c->x_stride[X_GROUP]);
}

// The same where groups lie apart in x, and beside each other in the copy.
static void copy_turned(const Work *w, int axis, const char *x, const int64_t *low,
                        const int64_t *n, const int64_t *unit, const int64_t *stride) {
  const ConvKernel *c = w->c;
  const int64_t size = (int64_t)size_of(c);
  int64_t at[X_AXES] = {0};
  for (;;) {
    bool inside = true;
    int64_t from = low[X_GROUP] * c->x_stride[X_GROUP], to = 0;
    for (int a = 0; a < X_AXES; a++) {
      if (a == axis || a == X_GROUP)
        continue;
      const int64_t place = low[a] + at[a] * unit[a];
      inside = inside && place >= 0 && place < c->x_dim[a];
      from += place * c->x_stride[a];
      to += at[a] * stride[a];
    }
    copy_turned_row(w, axis, low, n, stride, x + (inside ? from : 0) * size, inside,
                    w->copy + to * size);
    int a = X_AXES - 1;
    for (; a >= 0; a--) {
      if (a == axis || a == X_GROUP)
        continue;
      if (++at[a] < n[a])
        break;
      at[a] = 0;
    }
    if (a < 0)
      return;
  }
}

// Where the box of x begins and how far apart its elements lie: in the input where that can be, else in a copy.
static const char *find_box(const Work *w, int64_t *stride) {
  const ConvKernel *c = w->c;
  int64_t low[X_AXES], n[X_AXES], unit[X_AXES], from = 0;
  conv_range(c, w->part, &w->box, low, n, unit);
  bool inside = !c->copies && (!c->across_groups || c->x_stride[X_GROUP] == 1);
  for (int k = 0; k < X_AXES; k++) {
    inside = inside && low[k] >= 0 && low[k] + (n[k] - 1) * unit[k] < c->x_dim[k];
    from += low[k] * c->x_stride[k];
    stride[k] = c->x_stride[k] * unit[k];
  }
  const int64_t slice = w->slice * c->x_slice;
  if (inside)
    return w->run->x + (from + slice) * (int64_t)size_of(c);
  const int along = axis_along(c, n, unit);
  const char *x = w->run->x + slice * (int64_t)size_of(c);
  if (conv_copy(c, n, stride) > 0) {
    if (along < 0)
      copy_box(w, x, low, n, unit, stride);
    else
      copy_turned(w, along, x, low, n, unit, stride);
  }
  return w->copy;
}

// --- Weights ------------------------------------------------------------------------------------

// How many steps in a row have weights beside each other.
static int64_t run_of(const Work *w) {
  int64_t n = 1;
  while (n < w->steps && w->weight[n] == w->weight[0] + n)
    n++;
  return w->steps % n == 0 ? n : 1;
}

// Panels [steps][block] one after the other, from n columns; those beyond are 0.
#define PACK(name, T)                                                                    \
  static void name(const Work *w, int64_t column, int64_t n) {                           \
    const ConvKernel *c = w->c;                                                          \
    const T *from = (const T *)w->run->w + column * c->w_column;                         \
    for (int64_t k = 0; k < w->steps; k++) {                                             \
      T *panel = (T *)w->panel + k * c->block;                                           \
      const T *at = from + w->weight[k];                                                 \
      for (int64_t left = n; left > 0; left -= c->block, panel += w->steps * c->block) { \
        const int64_t here = left < c->block ? left : c->block;                          \
        if (c->w_column == 1)                                                            \
          memcpy(panel, at, (size_t)here * sizeof(T));                                   \
        else                                                                             \
          for (int64_t j = 0; j < here; j++)                                             \
            panel[j] = at[j * c->w_column];                                              \
        for (int64_t j = here; j < c->block; j++)                                        \
          panel[j] = 0;                                                                  \
        at += here * c->w_column;                                                        \
      }                                                                                  \
    }                                                                                    \
  }
PACK(pack_4, uint32_t)
PACK(pack_8, uint64_t)
#undef PACK

// The same of complex numbers, whose steps and columns are pairs of halves: (re, im) meets re of x, (-im, re) meets im.
#define PACK(name, T)                                                                    \
  static void name(const Work *w, int64_t column, int64_t n) {                           \
    const ConvKernel *c = w->c;                                                          \
    const T *from = (const T *)w->run->w + column / 2 * c->w_column;                     \
    for (int64_t k = 0; k < w->steps; k++) {                                             \
      T *panel = (T *)w->panel + k * c->block;                                           \
      const T *at = from + w->weight[k];                                                 \
      for (int64_t left = n; left > 0; left -= c->block, panel += w->steps * c->block) { \
        for (int64_t j = 0; j < c->block; j += 2) {                                      \
          const bool is = j < left;                                                      \
          panel[j] = !is ? 0 : k % 2 == 0 ? at[0] : -at[1];                              \
          panel[j + 1] = !is ? 0 : k % 2 == 0 ? at[1] : at[0];                           \
          at += is ? c->w_column : 0;                                                    \
        }                                                                                \
      }                                                                                  \
    }                                                                                    \
  }
PACK(pack_c64, float)
PACK(pack_c128, double)
#undef PACK

// Where steps lie beside each other and columns do not.
static void pack_turned(const Work *w, int64_t column, int64_t n, int64_t run) {
  const ConvKernel *c = w->c;
  const size_t size = size_of(c);
  const char *from = w->run->w + column * c->w_column * (int64_t)size;
  char *panel = w->panel;
  for (int64_t left = n; left > 0; left -= c->block) {
    const int64_t here = left < c->block ? left : c->block;
    for (int64_t k = 0; k < w->steps; k += run, panel += (size_t)(run * c->block) * size) {
      if (here < c->block)
        memset(panel, 0, (size_t)(run * c->block) * size);
      c->transpose(here, run, panel, c->block, from + w->weight[k] * (int64_t)size, c->w_column);
    }
    from += here * c->w_column * (int64_t)size;
  }
}

static void pack(const Work *w, int64_t column, int64_t n) {
  const bool small = size_of(w->c) == 4;
  if (w->c->complex) {
    (small ? pack_c64 : pack_c128)(w, column, n);
    return;
  }
  const int64_t run = w->c->w_column == 1 ? 1 : run_of(w);
  if (run > 1)
    pack_turned(w, column, n, run);
  else
    (small ? pack_4 : pack_8)(w, column, n);
}

// Those of a box of the sum that are packed before.
static char *panels_at(const Work *w, int64_t sum_box) {
  const ConvKernel *c = w->c;
  const int64_t blocks = (c->columns + c->block - 1) / c->block;
  return w->run->panels +
         (size_t)((w->slice * w->part->sum_boxes + sum_box) * blocks * c->block * c->most_steps) *
             size_of(c);
}

// --- The result ---------------------------------------------------------------------------------

// Whether n columns can be written where they belong.
static bool is_direct(const ConvKernel *c, int64_t n) {
  return n == c->block && c->y_column == (c->complex ? 2 : 1);
}

// How many places from r on lie beside each other.
static int64_t places_beside(const Work *w, int64_t r) {
  int64_t n = 1;
  while (r + n < w->rows && w->to[r + n] == w->to[r] + n)
    n++;
  return n;
}

// Element by element.
#define SPREAD(name, T)                                                                    \
  static void name(const Work *w, const char *own, int64_t r, int64_t column, int64_t n) { \
    const ConvKernel *c = w->c;                                                            \
    const T *from = (const T *)(const void *)own;                                          \
    T *to = (T *)(void *)w->y + w->to[r];                                                  \
    for (int64_t j = 0; j < n; j++) {                                                      \
      const int64_t k = column + j;                                                        \
      to[c->complex ? k / 2 * c->y_column + k % 2 : k * c->y_column] = from[j];            \
    }                                                                                      \
  }
SPREAD(spread_4, uint32_t)
SPREAD(spread_8, uint64_t)
#undef SPREAD

// Columns lie beside each other, or places do, or neither.
static void store(const Work *w, const char *own, int64_t column, int64_t n) {
  const ConvKernel *c = w->c;
  const size_t size = size_of(c);
  for (int64_t r = 0, count = 1; r < w->rows;
       r += count, own += (size_t)(count * c->block) * size) {
    count = c->complex || c->y_column == 1 ? 1 : places_beside(w, r);
    char *to = w->y + (w->to[r] + column * c->y_column) * (int64_t)size;
    if (!c->complex && c->y_column == 1)
      memcpy(to, own, (size_t)n * size);
    else if (count > 1)
      c->transpose(count, n, to, c->y_column, own, c->block);
    else
      (size == 4 ? spread_4 : spread_8)(w, own, r, column, n);
  }
}

// --- Chunks -------------------------------------------------------------------------------------

static int64_t min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The columns of the chunk for one box of the sum.
static void multiply(Work *w, int64_t sum_box, bool add) {
  const ConvKernel *c = w->c;
  const size_t size = size_of(c);
  int64_t stride[X_AXES];
  const char *x = find_box(w, stride);
  set_rows(w, stride);
  set_steps(w, stride);
  ConvPanelFn *panel = c->level->panel[c->type][c->across_groups][c->vectors - 1];
  ConvPanel p = {.row = w->row, .step = w->step, .rows = w->rows, .steps = w->steps, .add = add};
  for (int64_t k = 0, own = 0; k < w->box.columns; k += c->block) {
    const int64_t column = w->box.column + k, n = min(c->block, w->box.columns - k),
                  packed = k / c->block % CONV_AT_ONCE;
    if (w->run->panels) {
      p.w = panels_at(w, sum_box) + (size_t)(column * w->steps) * size;
    } else {
      if (packed == 0)
        pack(w, column, min(CONV_AT_ONCE * c->block, w->box.columns - k));
      p.w = w->panel + (size_t)(packed * w->steps * c->block) * size;
    }
    p.x = c->across_groups ? x + (size_t)k * size : x;
    if (is_direct(c, n)) {
      p.y = w->y + (size_t)(column / (c->complex ? 2 : 1) * c->y_column) * size;
      p.to = w->to;
    } else {
      p.y = w->own + (size_t)(own++ * w->rows * c->block) * size;
      p.to = w->to_own;
    }
    panel(&p);
  }
}

// Box number k of those that `axes` axes are cut into, the last in the order counting fastest.
static void nth_box(int64_t k, const int *order, int axes, const int64_t *all, const int64_t *box,
                    int64_t *first, int64_t *n) {
  for (int j = axes - 1; j >= 0; j--) {
    const int axis = order[j];
    const int64_t pieces = all[axis] > 0 ? (all[axis] + box[axis] - 1) / box[axis] : 1;
    first[axis] = k % pieces * box[axis];
    n[axis] = min(box[axis], all[axis] - first[axis]);
    k /= pieces;
  }
}

static void compute(Work *w) {
  const ConvKernel *c = w->c;
  const ConvPart *part = w->part;
  const int64_t first = part->sum_boxes * w->split / c->splits,
                end = part->sum_boxes * (w->split + 1) / c->splits;
  for (int64_t k = first; k < end; k++) {
    nth_box(k, c->sum_order, SUM_AXES, part->sums, part->sum_box, w->box.sum, w->box.sums);
    multiply(w, k, k > first);
  }
  for (int64_t k = 0, own = 0; k < w->box.columns; k += c->block) {
    const int64_t n = min(c->block, w->box.columns - k);
    if (!is_direct(c, n))
      store(w, w->own + (size_t)(own++ * w->rows * c->block) * size_of(c), w->box.column + k, n);
  }
}

static char *take(char **scratch, size_t bytes) {
  char *at = *scratch;
  *scratch += (bytes + 63) & ~(size_t)63;
  return at;
}

static bool set_scratch(Work *w, CpuMember *member) {
  const ConvKernel *c = w->c;
  const size_t size = size_of(c), rows = (size_t)c->most_rows * 8,
               steps = (size_t)c->most_steps * 8,
               panel = (size_t)(c->most_steps * min(CONV_AT_ONCE * c->block, c->column_box)) * size,
               copy = (size_t)c->most_elements * size,
               own = (size_t)((is_direct(c, c->block) ? c->block : c->column_box) * c->most_rows) *
                     size;
  char *scratch = cpu_scratch(member, 3 * rows + 2 * steps + panel + copy + own + 9 * 64);
  if (!scratch)
    return false;
  w->row = (int64_t *)take(&scratch, rows + 8);
  w->to = (int64_t *)take(&scratch, rows + 8);
  w->to_own = (int64_t *)take(&scratch, rows + 8);
  w->step = (int64_t *)take(&scratch, steps + 8);
  w->weight = (int64_t *)take(&scratch, steps + 8);
  w->panel = take(&scratch, panel);
  w->copy = take(&scratch, copy);
  w->own = take(&scratch, own);
  w->to_own[0] = 0;
  expand(w->to_own, 1, c->most_rows, c->block);
  return true;
}

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvKernel *c = run->c;
  Work w = {.run = run, .c = c, .part = c->part};
  if (!set_scratch(&w, member))
    return false;
  int64_t place = chunk % c->boxes, rest = chunk / c->boxes;
  w.box.column = rest % c->column_boxes * c->column_box;
  w.box.columns = min(c->column_box, c->columns - w.box.column);
  rest /= c->column_boxes;
  w.slice = rest % c->slices;
  w.split = rest / c->slices;
  w.y = w.split == 0 ? run->y : run->more + (size_t)((w.split - 1) * c->y_elements) * size_of(c);
  while (place >= w.part->first_box + w.part->boxes)
    w.part++;
  nth_box(place - w.part->first_box, c->place_order, PLACE_AXES, w.part->places, w.part->place_box,
          w.box.place, w.box.places);
  compute(&w);
  return true;
}

// Packs CONV_AT_ONCE blocks of columns for a box of the sum of a slice.
static bool pack_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvKernel *c = run->c;
  Work w = {.run = run, .c = c, .part = c->part};
  if (!set_scratch(&w, member))
    return false;
  const int64_t at_once = CONV_AT_ONCE * c->block, groups = (c->columns + at_once - 1) / at_once,
                column = chunk % groups * at_once, sum_box = chunk / groups % w.part->sum_boxes,
                nothing[X_AXES] = {0};
  w.slice = chunk / groups / w.part->sum_boxes;
  nth_box(sum_box, c->sum_order, SUM_AXES, w.part->sums, w.part->sum_box, w.box.sum, w.box.sums);
  set_steps(&w, nothing);
  w.panel = panels_at(&w, sum_box) + (size_t)(column * w.steps) * size_of(c);
  pack(&w, column, min(at_once, c->columns - column));
  return true;
}

// --- Before and after ---------------------------------------------------------------------------

enum { PIECE = 16384, LINE = 512 };  // elements of a chunk, and at once

static int64_t n_pieces(int64_t n) {
  return (n + PIECE - 1) / PIECE;
}

static void widen(const ConvKernel *c, HlDtype dtype, int64_t n, const char *from, char *to) {
  const HlDtype carrier = vec_carrier(dtype);
  VecLoad *load = vec_load(c->simd, dtype);
  if (carrier == c->dtype) {
    load(n, to, NULL, from, 1);
    return;
  }
  VecFn *convert = vec_convert(c->simd, carrier, c->dtype);
  int64_t line[LINE];
  for (int64_t k = 0; k < n; k += LINE) {
    const int64_t m = min(LINE, n - k);
    load(m, line, NULL, from + k * hl_dtype_bytes(dtype), 1);
    convert(m, to + (size_t)k * size_of(c), line, NULL, NULL);
  }
}

static bool widen_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvKernel *c = run->c;
  const bool is_x = c->x_dtype != c->dtype && chunk < n_pieces(c->x_elements);
  if (!is_x && c->x_dtype != c->dtype)
    chunk -= n_pieces(c->x_elements);
  const HlDtype dtype = is_x ? c->x_dtype : c->w_dtype;
  const int64_t first = chunk * PIECE,
                n = min(PIECE, (is_x ? c->x_elements : c->w_elements) - first);
  widen(c, dtype, n,
        (const char *)run->buffer[c->buffer[is_x ? 0 : 1]] + first * hl_dtype_bytes(dtype),
        (char *)(is_x ? run->x : run->w) + (size_t)first * size_of(c));
  return true;
}

// Adds what was dealt out, and brings it to the result's type.
static bool finish_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvKernel *c = run->c;
  const size_t size = size_of(c);
  const int64_t first = chunk * PIECE, n = min(PIECE, c->y_elements - first);
  static const HlDtype unit[] = {HL_F32, HL_F64, HL_S32, HL_S64};
  VecFn *add = vec_fn(c->simd, VEC_ADD, unit[c->type], 0);
  char *y = run->y + (size_t)first * size;
  for (int64_t k = 0; k + 1 < c->splits; k++)
    add(n, y, y, run->more + (size_t)(k * c->y_elements + first) * size, NULL);
  if (c->y_dtype == c->dtype)
    return true;
  const HlDtype carrier = vec_carrier(c->y_dtype);
  VecFn *round = vec_round(c->simd, c->y_dtype),
        *convert = carrier == c->dtype ? NULL : vec_convert(c->simd, c->dtype, carrier);
  VecStore *store_y = vec_store(c->simd, c->y_dtype);
  int64_t line[LINE];
  for (int64_t k = 0; k < n; k += LINE) {
    const int64_t m = min(LINE, n - k);
    const char *from = y + (size_t)k * size;
    if (convert)
      convert(m, line, from, NULL, NULL);
    else
      round(m, line, from, NULL, NULL);
    if (convert && round)
      round(m, line, line, NULL, NULL);
    store_y(m, (char *)run->buffer[c->buffer[2]] + (first + k) * hl_dtype_bytes(c->y_dtype), 1,
            line, NULL);
  }
  return true;
}

bool conv_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const ConvKernel *c = (const ConvKernel *)kernel;
  if (c->winograd)
    return winograd_run(c, team, buffer[c->buffer[0]], buffer[c->buffer[1]], buffer[c->buffer[2]]);
  const int64_t chunks = c->boxes * c->slices * c->column_boxes * c->splits;
  if (chunks == 0)
    return true;
  const bool other_x = c->x_dtype != c->dtype, other_w = c->w_dtype != c->dtype,
             other_y = c->y_dtype != c->dtype;
  const size_t x = other_x ? (size_t)c->x_elements * size_of(c) + 64 : 0,
               w = other_w ? (size_t)c->w_elements * size_of(c) + 64 : 0,
               y = (size_t)c->y_elements * size_of(c) + 64,
               more = (size_t)(c->splits - 1 + other_y) * y,
               panels = (size_t)c->panel_elements * size_of(c), all = x + w + more + panels;
  char *scratch = all > 0 ? cpu_team_scratch(team, all + 4 * 64) : NULL;
  if (!scratch && all > 0)
    return false;
  Run run = {.c = c, .buffer = buffer};
  run.x = other_x ? take(&scratch, x) : buffer[c->buffer[0]];
  run.w = other_w ? take(&scratch, w) : buffer[c->buffer[1]];
  run.y = other_y ? take(&scratch, y) : buffer[c->buffer[2]];
  run.panels = panels ? take(&scratch, panels) : NULL;
  run.more = scratch;
  const int64_t widened =
      (other_x ? n_pieces(c->x_elements) : 0) + (other_w ? n_pieces(c->w_elements) : 0);
  const double second = 1e-9;  // of an element
  if (widened > 0 &&
      !cpu_parallel(team, widened, (double)widened * PIECE * second, widen_chunk, &run))
    return false;
  const int64_t at_once = CONV_AT_ONCE * c->block,
                packs = (c->columns + at_once - 1) / at_once * c->slices * c->part[0].sum_boxes;
  if (panels && !cpu_parallel(team, packs, (double)c->panel_elements * second, pack_chunk, &run))
    return false;
  if (!cpu_parallel(team, chunks, kernel->seconds, run_chunk, &run))
    return false;
  return (c->splits == 1 && !other_y) ||
         cpu_parallel(team, n_pieces(c->y_elements), (double)(c->y_elements * c->splits) * second,
                      finish_chunk, &run);
}
