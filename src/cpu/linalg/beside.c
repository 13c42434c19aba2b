// cpu/linalg/beside.c: many small matrices, as many at once as a vector has lanes.
//
// A *plane* has one vector for each element of a matrix, in the order in which they lie in memory; a lane is a matrix of the
// batch. So arithmetic is that of one matrix, in vectors. What needs a decision of its own (no pivot, numbers whose squares are
// lost) is not done here: such matrices, and the last few of a batch, go one by one.

#include <string.h>

#include "cpu/linalg/linalg.h"
#include "cpu/vec/vec.h"

// Rows and columns, at most: where there are more, one matrix after the other is as fast.
enum { LARGEST = 32 };
static const int largest[] = {[LINALG_SOLVE] = 16,
                              [LINALG_CHOLESKY] = LARGEST,
                              [LINALG_LU] = 16,
                              [LINALG_QR] = LARGEST,
                              [LINALG_REFLECTORS] = LARGEST};

// Whether the elements of a matrix of a batch lie together, and those of all matrices evenly apart.
static bool is_even(const LinalgKernel *f, LinalgArray *a) {
  const int64_t m = a->rows, n = a->columns;
  const bool by_rows = a->column == 1 || n == 1, by_columns = a->row == 1 || m == 1;
  int64_t next = -1;
  for (int d = f->n_outer - 1; d >= 0; d--) {
    if (f->outer[d] == 1)
      continue;
    if (next >= 0 && a->outer[d] != next)
      return false;
    a->next = next >= 0 ? a->next : a->outer[d];
    next = a->outer[d] * f->outer[d];
  }
  return (by_rows && (m == 1 || a->row == n)) || (by_columns && (n == 1 || a->column == m));
}

void linalg_set_beside(LinalgKernel *f) {
  const int lanes = f->math.beside->lanes[f->math.type];
  if (f->batch < lanes || f->math.parts)
    return;
  for (int k = 0; k < f->kernel.n_buffers; k++) {
    const int64_t m = f->array[k].rows, n = f->array[k].columns;
    if (m < 1 || n < 1 || m > largest[f->what] || n > largest[f->what] || !is_even(f, &f->array[k]))
      return;
  }
  f->lanes = lanes;
}

size_t linalg_beside_bytes(const LinalgKernel *f) {
  return f->lanes > 0 ? (3 * LARGEST * LARGEST + 2 * LARGEST) * (size_t)(f->lanes * f->math.size)
                      : 0;
}

// --- Planes -------------------------------------------------------------------------------------------

typedef struct Group {
  const LinalgKernel *f;
  void *const *buffer;
  int64_t first;  // matrix
} Group;

static char *array_at(const Group *g, int which, int size) {
  return (char *)g->buffer[which] + g->first * g->f->array[which].next * size;
}

// A plane of an array's matrices; strides in vectors.
static LinalgMatrix load(const Group *g, int which, char *plane) {
  const LinalgMath *q = &g->f->math;
  const LinalgArray *a = &g->f->array[which];
  vec_transpose(q->simd, q->size)(g->f->lanes, a->rows * a->columns, plane, g->f->lanes,
                                  array_at(g, which, q->size), a->next);
  return (LinalgMatrix){plane, a->rows, a->columns, a->row, a->column, false};
}

static void store(const Group *g, int which, const char *plane, int size) {
  const LinalgArray *a = &g->f->array[which];
  vec_transpose(g->f->math.simd, size)(a->rows * a->columns, g->f->lanes, array_at(g, which, size),
                                       a->next, plane, g->f->lanes);
}

// The same plane in the order of another array's elements.
static LinalgMatrix reorder(const Group *g, const LinalgMatrix *m, int to, char *plane) {
  const LinalgArray *a = &g->f->array[to];
  const size_t vector = (size_t)(g->f->lanes * g->f->math.size);
  const LinalgMatrix out = {plane, m->rows, m->columns, a->row, a->column, false};
  if ((a->row == m->row || m->rows == 1) && (a->column == m->column || m->columns == 1))
    return *m;
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->columns; j++)
      memcpy(plane + (size_t)(i * out.row + j * out.column) * vector,
             m->at + (size_t)(i * m->row + j * m->column) * vector, vector);
  return out;
}

// --- Kernels ------------------------------------------------------------------------------------------

static void put_zeros(const Group *g, int which) {
  for (int64_t k = 0; k < g->f->lanes; k++)
    memset((char *)g->buffer[which] + (g->first + k) * g->f->array[which].next * 4, 0, 4);
}

static bool solve(const Group *g, char *const plane[3]) {
  const LinalgKernel *f = g->f;
  const LinalgMath *q = &f->math;
  const int64_t vector = f->lanes * q->size, last = f->k - 1;
  const bool turned = f->turned == f->left, lower = f->lower != turned;
  LinalgMatrix a = load(g, 0, plane[0]), b = load(g, 1, plane[1]);
  const LinalgMatrix out = reorder(g, &b, 2, plane[2]);
  LinalgMatrix x = f->left ? out : linalg_turned(out);
  a = turned ? linalg_turned(a) : a;
  if (!lower) {  // from the last row upwards it is
    a.at += last * (a.row + a.column) * vector;
    x.at += last * x.row * vector;
    a.row = -a.row;
    a.column = -a.column;
    x.row = -x.row;
  }
  q->beside->solve[q->type](f->unit, &a, &x);
  store(g, 2, out.at, q->size);
  return true;
}

static bool cholesky(const Group *g, char *const plane[3]) {
  const LinalgKernel *f = g->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix a = load(g, 0, plane[0]), out = reorder(g, &a, 1, plane[1]),
                     u = f->lower ? linalg_turned(out) : out;
  if (!q->beside->cholesky[q->type](&u))
    return false;
  const size_t vector = (size_t)(f->lanes * q->size);
  for (int64_t i = 1; i < f->n && f->is_op; i++)
    for (int64_t j = 0; j < i; j++)
      memset(u.at + (size_t)(i * u.row + j * u.column) * vector, 0, vector);
  store(g, 1, out.at, q->size);
  if (!f->is_op)
    put_zeros(g, 2);
  return true;
}

static bool lu(const Group *g, char *const plane[3]) {
  const LinalgKernel *f = g->f;
  const LinalgMath *q = &f->math;
  const int64_t n = linalg_least(f->m, f->n);
  const LinalgMatrix a = load(g, 0, plane[0]), out = reorder(g, &a, 1, plane[1]);
  if (!q->beside->lu[q->type](&out, plane[2]))
    return false;
  store(g, 1, out.at, q->size);
  for (int64_t k = 0; k < n * f->lanes; k++) {  // as wide as elements, from 0
    const char *from = plane[2] + k * q->size;
    int32_t pivot;
    memcpy(&pivot, from, sizeof pivot);
    pivot++;
    memcpy(plane[2] + k * 4, &pivot, sizeof pivot);
  }
  store(g, 2, plane[2], 4);
  put_zeros(g, 3);
  return true;
}

static bool qr(const Group *g, char *const plane[3]) {
  const LinalgKernel *f = g->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix a = load(g, 0, plane[0]), out = reorder(g, &a, 1, plane[1]);
  if (!q->beside->qr[q->type](&out, plane[2]))
    return false;
  store(g, 1, out.at, q->size);
  store(g, 2, plane[2], q->size);
  return true;
}

static bool reflectors(const Group *g, char *const plane[3]) {
  const LinalgKernel *f = g->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix a = load(g, 0, plane[0]), out = reorder(g, &a, 2, plane[1]),
                     tau = load(g, 1, plane[2]);
  q->beside->reflectors[q->type](&out, f->k, tau.at);
  store(g, 2, out.at, q->size);
  return true;
}

bool linalg_run_beside(const LinalgKernel *f, void *const *buffer, int64_t first, char *memory) {
  static bool (*const how[])(const Group *, char *const *) = {[LINALG_SOLVE] = solve,
                                                              [LINALG_CHOLESKY] = cholesky,
                                                              [LINALG_LU] = lu,
                                                              [LINALG_QR] = qr,
                                                              [LINALG_REFLECTORS] = reflectors};
  const int64_t bytes = LARGEST * LARGEST * f->lanes * f->math.size;
  char *const plane[] = {memory, memory + bytes, memory + 2 * bytes};
  return how[f->what](&(Group){f, buffer, first}, plane);
}
