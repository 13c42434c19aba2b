// cpu/linalg/run.c: takes matrices from the buffers, factors or solves, and puts them back.

#include <math.h>
#include <string.h>

#include "cpu/linalg/linalg.h"

typedef struct Run {
  const LinalgKernel *f;
  void *const *buffer;
} Run;

// --- Arrays -------------------------------------------------------------------------------------------

static char *element_of(const Run *run, int which, int64_t batch, int size) {
  const LinalgKernel *f = run->f;
  int64_t at = 0;
  for (int d = f->n_outer - 1; d >= 0; d--) {
    at += batch % f->outer[d] * f->array[which].outer[d];
    batch /= f->outer[d];
  }
  return (char *)run->buffer[which] + at * size;
}

static LinalgMatrix matrix_of(const Run *run, int which, int64_t batch) {
  const LinalgArray *a = &run->f->array[which];
  return (LinalgMatrix){element_of(run, which, batch, run->f->math.size),
                        a->rows,
                        a->columns,
                        a->row,
                        a->column,
                        false};
}

static void put_info(const Run *run, int which, int64_t batch, int64_t info) {
  const int32_t value = (int32_t)info;
  memcpy(element_of(run, which, batch, sizeof value), &value, sizeof value);
}

// The elements from row to row of a leaf that all of the matrix may be, columns that are not its own not being there; else 0.
static int64_t panel_of(const LinalgKernel *f) {
  const int64_t width = linalg_width(&f->math);
  return f->n <= width && f->n <= f->m ? width : 0;
}

// A matrix of our own: as leaves of so many columns have it, if it is no wider.
static LinalgMatrix own(const LinalgMath *q, char **memory, int64_t rows, int64_t columns,
                        int64_t leaf) {
  if (columns > leaf)
    return linalg_new(q, memory, rows, columns);
  const LinalgMatrix m = {*memory, rows, columns, leaf, 1, false};
  *memory += rows * leaf * q->size;
  return m;
}

// --- One matrix ---------------------------------------------------------------------------------------

// Of a system on the right both sides are turned.
static bool solve_item(const Run *run, const LinalgWork *w, int64_t item, char *memory) {
  const LinalgKernel *f = run->f;
  const LinalgMath *q = &f->math;
  const int64_t batch = item / f->strips, first = item % f->strips * LINALG_STRIP;
  LinalgMatrix a = matrix_of(run, 0, batch), b = matrix_of(run, 1, batch),
               x = matrix_of(run, 2, batch);
  const bool turned = f->turned == f->left;
  a = turned ? linalg_turned(a) : a;
  a.conjugate = f->conjugate;
  b = f->left ? b : linalg_turned(b);
  x = f->left ? x : linalg_turned(x);
  const int64_t columns = linalg_least(LINALG_STRIP, x.columns - first);
  b = linalg_part(q, &b, 0, first, f->k, columns);
  x = linalg_part(q, &x, 0, first, f->k, columns);
  const LinalgMatrix work = x.column == 1 ? x : linalg_new(q, &memory, f->k, columns);
  linalg_copy(q, &b, &work);
  if (!linalg_solve(w, f->lower != turned, f->unit, &a, &work))
    return false;
  linalg_copy(q, &work, &x);
  return true;
}

static bool has_infinite_pivot(const LinalgMath *q, const LinalgMatrix *u) {
  for (int64_t k = 0; k < u->rows; k++) {
    const char *at = u->at + k * (u->row + 1) * q->size;
    if (q->type == 0 ? isinf(*(const float *)(const void *)at)
                     : isinf(*(const double *)(const void *)at))
      return true;
  }
  return false;
}

// The lower factor is the adjoint of the upper one of the matrix turned, its elements conjugate.
static bool cholesky_item(const Run *run, const LinalgWork *w, int64_t item, char *memory) {
  const LinalgKernel *f = run->f;
  const LinalgMath *q = &f->math;
  LinalgMatrix a = matrix_of(run, 0, item), out = matrix_of(run, 1, item);
  a = f->lower ? linalg_turned(a) : a;
  out = f->lower ? linalg_turned(out) : out;
  const bool is_conjugate = f->lower && q->parts;
  char *leaf = memory;
  memory += f->n > LINALG_LEAF ? LINALG_LEAF * LINALG_LEAF * q->size : 0;
  const LinalgMatrix u = own(q, &memory, f->n, f->n, LINALG_LEAF);
  int64_t info;
  linalg_copy(q, &a, &u);
  if (is_conjugate)
    linalg_conjugate(q, &u);
  if (!linalg_cholesky(w, &u, &info, leaf))
    return false;
  if (is_conjugate)
    linalg_conjugate(q, &u);
  if (f->is_op && (info > 0 || has_infinite_pivot(q, &u)))
    linalg_fill(q, &out, NAN);
  else
    linalg_join(q, &u, f->is_op ? NULL : &a, &out);
  if (!f->is_op)
    put_info(run, 2, item, info);
  return true;
}

static bool lu_item(const Run *run, const LinalgWork *w, int64_t item, char *memory) {
  const LinalgKernel *f = run->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix from = matrix_of(run, 0, item), to = matrix_of(run, 1, item);
  const int64_t n = linalg_least(f->m, f->n), leaf = panel_of(f);
  char *panel = memory;
  memory += leaf > 0 ? 0 : f->m * LINALG_PANEL;
  const LinalgMatrix a = own(q, &memory, f->m, f->n, leaf);
  int32_t *pivot = (int32_t *)(void *)memory;
  int64_t info;
  linalg_copy(q, &from, &a);
  if (!linalg_lu(w, &a, pivot, &info, panel))
    return false;
  linalg_copy(q, &a, &to);
  char *pivots = element_of(run, 2, item, sizeof *pivot);
  for (int64_t k = 0; k < n; k++) {
    const int32_t value = pivot[k] + 1;
    memcpy(pivots + k * f->array[2].row * (int64_t)sizeof value, &value, sizeof value);
  }
  put_info(run, 3, item, info);
  return true;
}

static bool qr_item(const Run *run, const LinalgWork *w, int64_t item, char *memory) {
  const LinalgKernel *f = run->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix from = matrix_of(run, 0, item), to = matrix_of(run, 1, item);
  const int64_t n = linalg_least(f->m, f->n);
  const LinalgMatrix tau = linalg_turned(matrix_of(run, 2, item));
  const LinalgMatrix a = own(q, &memory, f->m, f->n, panel_of(f));
  LinalgReflect r = linalg_reflect_new(q, memory, f->m, f->n);
  if (panel_of(f) > 0)
    r.panel = a.at;
  const LinalgMatrix found = {r.tau, 1, n, n, 1, false};
  linalg_copy(q, &from, &a);
  if (!linalg_qr(w, &a, &r))
    return false;
  linalg_copy(q, &a, &to);
  linalg_copy(q, &found, &tau);
  return true;
}

static bool reflectors_item(const Run *run, const LinalgWork *w, int64_t item, char *memory) {
  const LinalgKernel *f = run->f;
  const LinalgMath *q = &f->math;
  const LinalgMatrix from = matrix_of(run, 0, item), tau = linalg_turned(matrix_of(run, 1, item)),
                     to = matrix_of(run, 2, item);
  const LinalgMatrix a = linalg_new(q, &memory, f->m, f->n),
                     product = linalg_new(q, &memory, f->m, f->n);
  LinalgReflect r = linalg_reflect_new(q, memory, f->m, f->n);
  const LinalgMatrix given = {r.tau, 1, f->k, f->k, 1, false},
                     ones = {product.at, 1, f->n, 0, product.row + 1, false};
  linalg_copy(q, &from, &a);
  linalg_copy(q, &tau, &given);
  linalg_fill(q, &product, 0);
  linalg_fill(q, &ones, 1);
  if (!linalg_reflectors(w, &a, f->k, &product, &r))
    return false;
  linalg_copy(q, &product, &to);
  return true;
}

// --- All of them --------------------------------------------------------------------------------------

typedef struct Job {
  bool (*item)(const Run *run, const LinalgWork *w, int64_t item, char *memory);
  size_t bytes, panels;
} Job;

static Job job_of(const LinalgKernel *f) {
  const LinalgMath *q = &f->math;
  const int64_t m = f->m, n = f->n, longest = m > n ? m : n, width = linalg_width(q);
  const int64_t columns = linalg_least(f->left ? n : m, LINALG_STRIP);
  const size_t panels = linalg_panel_bytes(q, longest, longest, longest),
               leaf = (size_t)(LINALG_LEAF * LINALG_LEAF * q->size);
  switch (f->what) {
  case LINALG_SOLVE:
    return (Job){solve_item, linalg_bytes(q, f->k, columns),
                 linalg_panel_bytes(q, f->k, columns, f->k)};
  case LINALG_CHOLESKY: return (Job){cholesky_item, leaf + linalg_bytes(q, n, n), panels};
  case LINALG_LU:
    return (Job){lu_item,
                 (size_t)m * LINALG_PANEL + linalg_bytes(q, m, n > width ? n : width) +
                     linalg_bytes(q, 1, longest),
                 panels};
  case LINALG_QR:
    return (Job){qr_item, linalg_bytes(q, m, n > width ? n : width) + linalg_reflect_bytes(q, m, n),
                 panels};
  case LINALG_REFLECTORS:
    return (Job){reflectors_item, 2 * linalg_bytes(q, m, n) + linalg_reflect_bytes(q, m, n),
                 panels};
  }
  return (Job){0};
}

typedef struct Batch {
  Run run;
  Job job;
} Batch;

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Batch *b = user;
  const LinalgKernel *f = b->run.f;
  const size_t one = b->job.bytes + b->job.panels, several = linalg_beside_bytes(f);
  char *memory = cpu_scratch(member, one > several ? one : several);
  const LinalgWork w = {.math = &f->math, .member = member, .panels = memory};
  const int64_t end = linalg_least((chunk + 1) * f->group, f->batch * f->strips);
  bool ok = memory != NULL;
  for (int64_t item = chunk * f->group; item < end && ok;) {
    if (f->lanes > 0 && item + f->lanes <= end &&
        linalg_run_beside(f, b->run.buffer, item, memory)) {
      item += f->lanes;
      continue;
    }
    const int64_t next = f->lanes > 0 ? linalg_least(item + f->lanes, end) : item + 1;
    for (; item < next && ok; item++)
      ok = b->job.item(&b->run, &w, item, memory + b->job.panels);
  }
  return ok;
}

bool linalg_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const LinalgKernel *f = (const LinalgKernel *)kernel;
  Batch b = {{f, buffer}, job_of(f)};
  if (!f->shared)
    return cpu_parallel(team, (f->batch * f->strips + f->group - 1) / f->group, kernel->seconds,
                        run_chunk, &b);
  char *memory = cpu_team_scratch(team, b.job.bytes);
  const LinalgWork w = {.math = &f->math, .team = team};
  bool ok = memory != NULL;
  for (int64_t item = 0; item < f->batch && ok; item++)
    ok = b.job.item(&b.run, &w, item, memory);
  return ok;
}
