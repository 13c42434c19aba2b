// eval/lapack_svd.c: singular values through LAPACK, by divide and conquer or by QR iteration.

#include <string.h>

#include "eval/lapack.h"

typedef void RealGesdd(const char *job, const int *m, const int *n, void *a, const int *lda,
                       void *s, void *u, const int *ldu, void *vt, const int *ldvt, void *work,
                       const int *lwork, int *iwork, int *info, size_t);
typedef void ComplexGesdd(const char *job, const int *m, const int *n, void *a, const int *lda,
                          void *s, void *u, const int *ldu, void *vt, const int *ldvt, void *work,
                          const int *lwork, void *rwork, int *iwork, int *info, size_t);
typedef void RealGesvd(const char *job_u, const char *job_v, const int *m, const int *n, void *a,
                       const int *lda, void *s, void *u, const int *ldu, void *vt, const int *ldvt,
                       void *work, const int *lwork, int *info, size_t, size_t);
typedef void ComplexGesvd(const char *job_u, const char *job_v, const int *m, const int *n, void *a,
                          const int *lda, void *s, void *u, const int *ldu, void *vt,
                          const int *ldvt, void *work, const int *lwork, void *rwork, int *info,
                          size_t, size_t);

// One decomposition's sizes and buffers.
typedef struct Svd {
  Lapack *l;
  bool divides;          // gesdd
  int k, columns, rows;  // of s, of u, of vt
  void *a, *u, *vt, *work, *rwork;
  int *iwork;
  int n_work;
} Svd;

static int call_svd(const Svd *d, void *s) {
  Lapack *l = d->l;
  const int *m = &l->m, *n = &l->n, ld = lapack_least(l->m), ldu = ld, ldvt = lapack_least(d->rows);
  int info = 0;
  if (d->divides && l->complex)
    ((ComplexGesdd *)l->call)(&l->job, m, n, d->a, &ld, s, d->u, &ldu, d->vt, &ldvt, d->work,
                              &d->n_work, d->rwork, d->iwork, &info, 1);
  else if (d->divides)
    ((RealGesdd *)l->call)(&l->job, m, n, d->a, &ld, s, d->u, &ldu, d->vt, &ldvt, d->work,
                           &d->n_work, d->iwork, &info, 1);
  else if (l->complex)
    ((ComplexGesvd *)l->call)(&l->job, &l->job, m, n, d->a, &ld, s, d->u, &ldu, d->vt, &ldvt,
                              d->work, &d->n_work, d->rwork, &info, 1, 1);
  else
    ((RealGesvd *)l->call)(&l->job, &l->job, m, n, d->a, &ld, s, d->u, &ldu, d->vt, &ldvt, d->work,
                           &d->n_work, &info, 1, 1);
  return info;
}

static int64_t size_of_rwork(const Svd *d) {
  const int64_t m = d->l->m, n = d->l->n, k = d->k, most = m > n ? m : n;
  const int64_t a = 5 * k + 7, b = 2 * most + 2 * k + 1;
  return !d->divides ? 5 * k + 1 : d->l->job == 'N' ? 7 * k + 1 : k * (a > b ? a : b) + 1;
}

static void make_space(Svd *d) {
  Lapack *l = d->l;
  d->a = lapack_new(l, l->m, l->n, l->size);
  d->u = lapack_new(l, l->m, d->columns, l->size);
  d->vt = lapack_new(l, d->rows, l->n, l->size);
  d->rwork = lapack_new(l, size_of_rwork(d), 1, l->real_size);
  d->iwork = lapack_new(l, 8, d->k, sizeof(int));
  char first[16] = {0};
  d->work = first;
  d->n_work = -1;
  call_svd(d, l->none);
  d->n_work = lapack_answer(l, first);
  d->work = lapack_new(l, d->n_work, 1, l->size);
}

static bool check_svd(const Svd *d) {
  Lapack *l = d->l;
  if (!lapack_check(l, l->result[0], l->dtype, 2, l->m, l->n) ||
      !lapack_check(l, l->result[1], l->real, 1, d->k, 0) ||
      !lapack_check(l, l->result[4], HL_S32, 0, 0, 0))
    return false;
  return l->job == 'N' || (lapack_check(l, l->result[2], l->dtype, 2, l->m, d->columns) &&
                           lapack_check(l, l->result[3], l->dtype, 2, l->gives_v ? l->n : d->rows,
                                        l->gives_v ? d->rows : l->n));
}

static void conjugate(void *at, int64_t n, HlDtype dtype) {
  for (int64_t k = 1; k < 2 * n; k += 2)
    if (dtype == HL_C64)
      ((float *)at)[k] = -((float *)at)[k];
    else
      ((double *)at)[k] = -((double *)at)[k];
}

// In memory, column by column, the adjoint of v is v's conjugate row by row.
static void store_v(const Svd *d, int64_t b, HlLiteral *to) {
  const int64_t n = (int64_t)d->rows * d->l->n;
  if (n == 0)
    return;
  void *at = lapack_at(d->l, to, b, n);
  memcpy(at, d->vt, (size_t)n * d->l->size);
  if (d->l->complex)
    conjugate(at, n, d->l->dtype);
}

// a -> what LAPACK leaves of it, singular values, u, the adjoint of v, info.
static bool run_svd(Lapack *l, bool divides) {
  if (!lapack_begin(l, 2))
    return false;
  if (l->job != 'A' && l->job != 'S')
    l->job = 'N';
  Svd d = {.l = l, .divides = divides, .k = lapack_smaller(l->m, l->n)};
  d.columns = l->job == 'A' ? l->m : d.k;
  d.rows = l->job == 'A' ? l->n : d.k;
  if (!check_svd(&d))
    return false;
  make_space(&d);
  for (int64_t b = 0; b < l->batch; b++) {
    int info = -4;  // not finite
    lapack_load(l->arg[0], b, l->m, l->n, d.a);
    if (lapack_all_finite(l, d.a, (int64_t)l->m * l->n))
      info = call_svd(&d, lapack_at(l, l->result[1], b, d.k));
    lapack_store(d.a, b, l->m, l->n, l->result[0]);
    if (l->job != 'N') {
      lapack_store(d.u, b, l->m, d.columns, l->result[2]);
      if (l->gives_v)
        store_v(&d, b, l->result[3]);
      else
        lapack_store(d.vt, b, d.rows, l->n, l->result[3]);
    }
    lapack_info(l->result[4], b, info);
  }
  return true;
}

bool lapack_gesdd(Lapack *l) {
  return run_svd(l, true);
}
bool lapack_gesvd(Lapack *l) {
  return run_svd(l, false);
}
