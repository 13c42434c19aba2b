// eval/lapack_factor.c: Cholesky, LU and QR factorisations through LAPACK.

#include <string.h>

#include "eval/lapack.h"

// a -> its triangular factor, info.
bool lapack_potrf(Lapack *l) {
  typedef void Potrf(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
  if (!lapack_begin(l, 2) || !lapack_is_square(l) ||
      !lapack_check(l, l->result[0], l->dtype, 2, l->n, l->n) ||
      !lapack_check(l, l->result[1], HL_S32, 0, 0, 0))
    return false;
  const int n = l->n, ld = lapack_least(n);
  void *a = lapack_new(l, n, n, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    int info = 0;
    lapack_load(l->arg[0], b, n, n, a);
    ((Potrf *)l->call)(&l->uplo, &n, a, &ld, &info, 1);
    lapack_store(a, b, n, n, l->result[0]);
    lapack_info(l->result[1], b, info);
  }
  return true;
}

// a -> both factors in one matrix, pivots from 1, info.
bool lapack_getrf(Lapack *l) {
  typedef void Getrf(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
  if (!lapack_begin(l, 2))
    return false;
  const int m = l->m, n = l->n, k = lapack_smaller(m, n), ld = lapack_least(m);
  if (!lapack_check(l, l->result[0], l->dtype, 2, m, n) ||
      !lapack_check(l, l->result[1], HL_S32, 1, k, 0) ||
      !lapack_check(l, l->result[2], HL_S32, 0, 0, 0))
    return false;
  void *a = lapack_new(l, m, n, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    int info = 0;
    lapack_load(l->arg[0], b, m, n, a);
    ((Getrf *)l->call)(&m, &n, a, &ld, lapack_at(l, l->result[1], b, k), &info);
    lapack_store(a, b, m, n, l->result[0]);
    lapack_info(l->result[2], b, info);
  }
  return true;
}

// a -> R with reflectors below it, their factors tau.
bool lapack_geqrf(Lapack *l) {
  typedef void Geqrf(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                     const int *lwork, int *info);
  if (!lapack_begin(l, 2))
    return false;
  const int m = l->m, n = l->n, k = lapack_smaller(m, n), ld = lapack_least(m);
  if (!lapack_check(l, l->result[0], l->dtype, 2, m, n) ||
      !lapack_check(l, l->result[1], l->dtype, 1, k, 0))
    return false;
  char first[16];
  int query = -1, info = 0;
  void *a = lapack_new(l, m, n, l->size);
  ((Geqrf *)l->call)(&m, &n, a, &ld, l->none, first, &query, &info);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, m, n, a);
    ((Geqrf *)l->call)(&m, &n, a, &ld, lapack_at(l, l->result[1], b, k), work, &size, &info);
    lapack_store(a, b, m, n, l->result[0]);
  }
  return true;
}

typedef void RealGeqp3(const int *m, const int *n, void *a, const int *lda, int *pivots, void *tau,
                       void *work, const int *lwork, int *info);
typedef void ComplexGeqp3(const int *m, const int *n, void *a, const int *lda, int *pivots,
                          void *tau, void *work, const int *lwork, void *rwork, int *info);

static void call_geqp3(Lapack *l, void *a, int ld, int *pivots, void *tau, void *work,
                       const int *lwork, void *rwork) {
  int info = 0;
  if (l->complex)
    ((ComplexGeqp3 *)l->call)(&l->m, &l->n, a, &ld, pivots, tau, work, lwork, rwork, &info);
  else
    ((RealGeqp3 *)l->call)(&l->m, &l->n, a, &ld, pivots, tau, work, lwork, &info);
}

// a, pivots -> R with reflectors, pivots, tau.
bool lapack_geqp3(Lapack *l) {
  if (!lapack_begin(l, 2))
    return false;
  const int m = l->m, n = l->n, k = lapack_smaller(m, n), ld = lapack_least(m);
  if (!lapack_check(l, l->arg[1], HL_S32, 1, n, 0) ||
      !lapack_check(l, l->result[0], l->dtype, 2, m, n) ||
      !lapack_check(l, l->result[1], HL_S32, 1, n, 0) ||
      !lapack_check(l, l->result[2], l->dtype, 1, k, 0))
    return false;
  char first[16];
  const int query = -1;
  void *a = lapack_new(l, m, n, l->size), *rwork = lapack_new(l, 2, n, l->real_size);
  call_geqp3(l, a, ld, (int *)(void *)l->none, l->none, first, &query, rwork);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, m, n, a);
    lapack_copy(l->arg[1], l->result[1], b, n);
    call_geqp3(l, a, ld, lapack_at(l, l->result[1], b, n), lapack_at(l, l->result[2], b, k), work,
               &size, rwork);
    lapack_store(a, b, m, n, l->result[0]);
  }
  return true;
}

// Reads vector `b` of n elements without writing to the operand.
static void *load_vector(Lapack *l, const HlLiteral *from, int64_t b, int n, void *to) {
  const size_t bytes = (size_t)n * l->size;
  if (bytes && from->n)
    memcpy(to, (const char *)from->data + (size_t)b * bytes, bytes);
  return to;
}

// reflectors, tau -> the product of the first k of them.
bool lapack_orgqr(Lapack *l) {
  typedef void Orgqr(const int *m, const int *n, const int *k, void *a, const int *lda,
                     const void *tau, void *work, const int *lwork, int *info);
  if (!lapack_begin(l, 2))
    return false;
  const HlShape *taus = l->arg[1]->shape;
  const int m = l->m, n = l->n, ld = lapack_least(m);
  const int k =
      taus->rank > 0 && taus->dim[taus->rank - 1] <= n ? (int)taus->dim[taus->rank - 1] : n;
  if (m < n || !lapack_check(l, l->arg[1], l->dtype, 1, k, 0) ||
      !lapack_check(l, l->result[0], l->dtype, 2, m, n))
    return m >= n ? false
                  : hl_inst_error(l->in->ev.cx, l->inst, "%d reflectors of %d rows are too many", n,
                                  m);
  char first[16];
  int query = -1, info = 0;
  void *a = lapack_new(l, m, n, l->size), *tau = lapack_new(l, k, 1, l->size);
  ((Orgqr *)l->call)(&m, &n, &k, a, &ld, tau, first, &query, &info);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, m, n, a);
    ((Orgqr *)l->call)(&m, &n, &k, a, &ld, load_vector(l, l->arg[1], b, k, tau), work, &size,
                       &info);
    lapack_store(a, b, m, n, l->result[0]);
  }
  return true;
}

typedef void Ormqr(const char *side, const char *trans, const int *m, const int *n, const int *k,
                   const void *a, const int *lda, const void *tau, void *c, const int *ldc,
                   void *work, const int *lwork, int *info, size_t, size_t);

// reflectors, tau, c -> c multiplied by their product from the left or from the right.
bool lapack_ormqr(Lapack *l) {
  const HlShape *c_shape = l->arg[2]->shape, *taus = l->arg[1]->shape;
  if (!lapack_begin(l, 2) || c_shape->rank < 2 || taus->rank < 1 ||
      c_shape->dim[c_shape->rank - 1] > INT32_MAX / 16 ||
      c_shape->dim[c_shape->rank - 2] > INT32_MAX / 16 || taus->dim[taus->rank - 1] > l->n)
    return lapack_check(l, NULL, l->dtype, 2, 0, 0);
  const int rows = (int)c_shape->dim[c_shape->rank - 2],
            columns = (int)c_shape->dim[c_shape->rank - 1];
  const int k = (int)taus->dim[taus->rank - 1], ld = lapack_least(l->m), ldc = lapack_least(rows);
  const char side = l->is_left ? 'L' : 'R', trans = !l->is_transposed ? 'N'
                                                    : l->complex      ? 'C'
                                                                      : 'T';
  if (!lapack_check(l, l->arg[1], l->dtype, 1, k, 0) ||
      !lapack_check(l, l->arg[2], l->dtype, 2, rows, columns) ||
      !lapack_check(l, l->result[0], l->dtype, 2, rows, columns))
    return false;
  if (l->m != (l->is_left ? rows : columns) || k > l->m)
    return hl_inst_error(l->in->ev.cx, l->inst,
                         "reflectors of %d rows do not fit a matrix of %d by %d", l->m, rows,
                         columns);
  char first[16];
  int query = -1, info = 0;
  void *a = lapack_new(l, l->m, l->n, l->size), *tau = lapack_new(l, k, 1, l->size);
  void *c = lapack_new(l, rows, columns, l->size);
  ((Ormqr *)l->call)(&side, &trans, &rows, &columns, &k, a, &ld, tau, c, &ldc, first, &query, &info,
                     1, 1);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, l->m, l->n, a);
    lapack_load(l->arg[2], b, rows, columns, c);
    load_vector(l, l->arg[1], b, k, tau);
    ((Ormqr *)l->call)(&side, &trans, &rows, &columns, &k, a, &ld, tau, c, &ldc, work, &size, &info,
                       1, 1);
    lapack_store(c, b, rows, columns, l->result[0]);
  }
  return true;
}
