// eval/lapack_eigen.c: eigenvalues, Schur, Hessenberg and tridiagonal forms through LAPACK.

#include <string.h>

#include "base/memory.h"
#include "eval/lapack.h"

// --- Symmetric and Hermitian ---------------------------------------------------------------------

typedef void Syevd(const char *job, const char *uplo, const int *n, void *a, const int *lda,
                   void *w, void *work, const int *lwork, int *iwork, const int *liwork, int *info,
                   size_t, size_t);
typedef void Heevd(const char *job, const char *uplo, const int *n, void *a, const int *lda,
                   void *w, void *work, const int *lwork, void *rwork, const int *lrwork,
                   int *iwork, const int *liwork, int *info, size_t, size_t);

typedef struct Space {
  void *work, *rwork;
  int *iwork;
  int n_work, n_rwork, n_iwork;
} Space;

static int call_syevd(Lapack *l, void *a, void *w, const Space *s) {
  const int ld = lapack_least(l->n);
  int info = 0;
  if (l->complex)
    ((Heevd *)l->call)(&l->job, &l->uplo, &l->n, a, &ld, w, s->work, &s->n_work, s->rwork,
                       &s->n_rwork, s->iwork, &s->n_iwork, &info, 1, 1);
  else
    ((Syevd *)l->call)(&l->job, &l->uplo, &l->n, a, &ld, w, s->work, &s->n_work, s->iwork,
                       &s->n_iwork, &info, 1, 1);
  return info;
}

static Space space_of_syevd(Lapack *l, void *a) {
  char work[16] = {0}, rwork[16] = {0};
  int iwork = 1;
  const Space query = {work, rwork, &iwork, -1, -1, -1};
  call_syevd(l, a, l->none, &query);
  Space s = {.n_work = lapack_answer(l, work),
             .n_rwork = lapack_answer(l, rwork),
             .n_iwork = lapack_least(iwork)};
  s.work = lapack_new(l, s.n_work, 1, l->size);
  s.rwork = lapack_new(l, s.n_rwork, 1, l->real_size);
  s.iwork = lapack_new(l, s.n_iwork, 1, sizeof(int));
  return s;
}

// a -> eigenvectors, eigenvalues (ascending), info.
bool lapack_syevd(Lapack *l) {
  if (!lapack_begin(l, 2) || !lapack_is_square(l) ||
      !lapack_check(l, l->result[0], l->dtype, 2, l->n, l->n) ||
      !lapack_check(l, l->result[1], l->real, 1, l->n, 0) ||
      (l->result[2] && !lapack_check(l, l->result[2], HL_S32, 0, 0, 0)))
    return false;
  const int n = l->n;
  void *a = lapack_new(l, n, n, l->size);
  const Space s = space_of_syevd(l, a);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, n, n, a);
    const int info = call_syevd(l, a, lapack_at(l, l->result[1], b, n), &s);
    lapack_store(a, b, n, n, l->result[0]);
    lapack_info(l->result[2], b, info);
  }
  return true;
}

// a -> its tridiagonal form with reflectors, main diagonal, side diagonal, tau, info.
bool lapack_sytrd(Lapack *l) {
  typedef void Sytrd(const char *uplo, const int *n, void *a, const int *lda, void *d, void *e,
                     void *tau, void *work, const int *lwork, int *info, size_t);
  const int n_results = 5;
  if (!lapack_begin(l, 2) || !lapack_is_square(l))
    return false;
  const int n = l->n, less = n > 0 ? n - 1 : 0, ld = lapack_least(n);
  for (int k = 0; k < n_results; k++)
    if (!lapack_check(l, l->result[k],
                      k == 4             ? HL_S32
                      : k == 1 || k == 2 ? l->real
                                         : l->dtype,
                      k == 0   ? 2
                      : k == 4 ? 0
                               : 1,
                      k < 2 ? n : less, n))
      return false;
  char first[16];
  int query = -1, info = 0;
  void *a = lapack_new(l, n, n, l->size);
  ((Sytrd *)l->call)(&l->uplo, &n, a, &ld, l->none, l->none, l->none, first, &query, &info, 1);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, n, n, a);
    ((Sytrd *)l->call)(&l->uplo, &n, a, &ld, lapack_at(l, l->result[1], b, n),
                       lapack_at(l, l->result[2], b, less), lapack_at(l, l->result[3], b, less),
                       work, &size, &info, 1);
    lapack_store(a, b, n, n, l->result[0]);
    lapack_info(l->result[4], b, info);
  }
  return true;
}

// a -> its Hessenberg form with reflectors, tau, info.
bool lapack_gehrd(Lapack *l) {
  typedef void Gehrd(const int *n, const int *low, const int *high, void *a, const int *lda,
                     void *tau, void *work, const int *lwork, int *info);
  if (!lapack_begin(l, 2) || !lapack_is_square(l))
    return false;
  const int n = l->n, less = n > 0 ? n - 1 : 0, ld = lapack_least(n);
  if (!lapack_check(l, l->result[0], l->dtype, 2, n, n) ||
      !lapack_check(l, l->result[1], l->dtype, 1, less, 0) ||
      !lapack_check(l, l->result[2], HL_S32, 0, 0, 0))
    return false;
  const int high = l->high > 0 && l->high <= n ? l->high : n,
            low = l->low <= lapack_least(high) ? l->low : 1;
  char first[16];
  int query = -1, info = 0;
  void *a = lapack_new(l, n, n, l->size);
  ((Gehrd *)l->call)(&n, &low, &high, a, &ld, l->none, first, &query, &info);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, n, n, a);
    ((Gehrd *)l->call)(&n, &low, &high, a, &ld, lapack_at(l, l->result[1], b, less), work, &size,
                       &info);
    lapack_store(a, b, n, n, l->result[0]);
    lapack_info(l->result[2], b, info);
  }
  return true;
}

// --- General -------------------------------------------------------------------------------------

typedef void RealGeev(const char *left, const char *right, const int *n, void *a, const int *lda,
                      void *wr, void *wi, void *vl, const int *ldvl, void *vr, const int *ldvr,
                      void *work, const int *lwork, int *info, size_t, size_t);
typedef void ComplexGeev(const char *left, const char *right, const int *n, void *a, const int *lda,
                         void *w, void *vl, const int *ldvl, void *vr, const int *ldvr, void *work,
                         const int *lwork, void *rwork, int *info, size_t, size_t);

typedef struct Vectors {
  void *left, *right;
} Vectors;

static int call_geev(Lapack *l, void *a, void *wr, void *wi, Vectors v, void *work,
                     const int *lwork, void *rwork) {
  const int ld = lapack_least(l->n);
  int info = 0;
  if (l->complex)
    ((ComplexGeev *)l->call)(&l->left, &l->right, &l->n, a, &ld, wr, v.left, &ld, v.right, &ld,
                             work, lwork, rwork, &info, 1, 1);
  else
    ((RealGeev *)l->call)(&l->left, &l->right, &l->n, a, &ld, wr, wi, v.left, &ld, v.right, &ld,
                          work, lwork, &info, 1, 1);
  return info;
}

static double part_at(const Lapack *l, const void *from, int64_t k) {
  return l->real == HL_F32 ? (double)((const float *)from)[k] : ((const double *)from)[k];
}

// Real eigenvectors: a pair of conjugate ones stands in two columns, as real and imaginary parts.
static void unpack(const Lapack *l, const void *wi, const void *v, int64_t b, HlLiteral *to) {
  const int64_t n = l->n;
  for (int64_t c = 0; c < n; c++) {
    base_look();
    const bool pair = part_at(l, wi, c) != 0 && c + 1 < n;
    for (int64_t r = 0; r < n; r++) {
      const int64_t at = (b * n + r) * n + c;
      const double re = part_at(l, v, c * n + r), im = pair ? part_at(l, v, (c + 1) * n + r) : 0;
      hl_literal_set_complex(to, at, re, im);
      if (pair)
        hl_literal_set_complex(to, at + 1, re, -im);
    }
    c += pair;
  }
}

static bool check_geev(Lapack *l) {
  if (!lapack_begin(l, 2) || !lapack_is_square(l))
    return false;
  const HlDtype complex = l->real == HL_F32 ? HL_C64 : HL_C128;
  HlLiteral **vectors = l->result + (l->complex ? 1 : 2);
  return lapack_check(l, l->result[0], l->dtype, 1, l->n, 0) &&
         (l->complex || lapack_check(l, l->result[1], l->dtype, 1, l->n, 0)) &&
         lapack_check(l, vectors[0], complex, 2, l->n, l->n) &&
         lapack_check(l, vectors[1], complex, 2, l->n, l->n) &&
         lapack_check(l, vectors[2], HL_S32, 0, 0, 0);
}

static void store_vectors(Lapack *l, char job, const void *wi, const void *v, int64_t b,
                          HlLiteral *to) {
  if (job != 'V')
    return;
  if (l->complex)
    lapack_store(v, b, l->n, l->n, to);
  else
    unpack(l, wi, v, b, to);
}

// a -> eigenvalues (real and imaginary parts for real types), left and right eigenvectors, info.
bool lapack_geev(Lapack *l) {
  if (!check_geev(l))
    return false;
  const int n = l->n;
  HlLiteral **vectors = l->result + (l->complex ? 1 : 2);
  void *a = lapack_new(l, n, n, l->size), *rwork = lapack_new(l, 2, n, l->real_size);
  const Vectors v = {lapack_new(l, n, n, l->size), lapack_new(l, n, n, l->size)};
  char first[16] = {0};
  const int query = -1;
  call_geev(l, a, l->none, l->none, v, first, &query, rwork);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, n, n, a);
    void *wr = lapack_at(l, l->result[0], b, n),
         *wi = lapack_at(l, l->complex ? NULL : l->result[1], b, n);
    int info = -4;  // not finite: LAPACK might not come back
    if (lapack_all_finite(l, a, (int64_t)n * n)) {
      info = call_geev(l, a, wr, wi, v, work, &size, rwork);
      store_vectors(l, l->left, wi, v.left, b, vectors[0]);
      store_vectors(l, l->right, wi, v.right, b, vectors[1]);
    }
    lapack_info(vectors[2], b, info);
  }
  return true;
}

// --- Schur ---------------------------------------------------------------------------------------

typedef void RealGees(const char *job, const char *sort, void *select, const int *n, void *a,
                      const int *lda, int *chosen, void *wr, void *wi, void *vs, const int *ldvs,
                      void *work, const int *lwork, int *bwork, int *info, size_t, size_t);
typedef void ComplexGees(const char *job, const char *sort, void *select, const int *n, void *a,
                         const int *lda, int *chosen, void *w, void *vs, const int *ldvs,
                         void *work, const int *lwork, void *rwork, int *bwork, int *info, size_t,
                         size_t);

static int call_gees(Lapack *l, void *a, void *wr, void *wi, void *vs, void *work, const int *lwork,
                     void *rwork) {
  const int ld = lapack_least(l->n);
  const char job = l->job, sort = 'N';
  int chosen = 0, bwork = 0, info = 0;
  if (l->complex)
    ((ComplexGees *)l->call)(&job, &sort, NULL, &l->n, a, &ld, &chosen, wr, vs, &ld, work, lwork,
                             rwork, &bwork, &info, 1, 1);
  else
    ((RealGees *)l->call)(&job, &sort, NULL, &l->n, a, &ld, &chosen, wr, wi, vs, &ld, work, lwork,
                          &bwork, &info, 1, 1);
  return info;
}

static bool check_gees(Lapack *l) {
  if (!lapack_begin(l, 2) || !lapack_is_square(l))
    return false;
  const int n = l->n;
  HlLiteral **after = l->result + (l->complex ? 3 : 4);  // the number chosen, info
  return lapack_check(l, l->result[0], l->dtype, 2, n, n) &&
         lapack_check(l, l->result[1], l->dtype, 2, n, n) &&
         lapack_check(l, l->result[2], l->dtype, 1, n, 0) &&
         (l->complex || lapack_check(l, l->result[3], l->dtype, 1, n, 0)) &&
         lapack_check(l, after[0], HL_S32, 0, 0, 0) && lapack_check(l, after[1], HL_S32, 0, 0, 0);
}

// a -> Schur form, Schur vectors, eigenvalues (in parts for real types), number chosen (0), info.
bool lapack_gees(Lapack *l) {
  if (!check_gees(l))
    return false;
  const int n = l->n;
  void *a = lapack_new(l, n, n, l->size), *vs = lapack_new(l, n, n, l->size);
  void *rwork = lapack_new(l, 1, n, l->real_size);
  char first[16] = {0};
  const int query = -1;
  call_gees(l, a, l->none, l->none, vs, first, &query, rwork);
  const int size = lapack_answer(l, first);
  void *work = lapack_new(l, size, 1, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    int info = -5;
    lapack_load(l->arg[0], b, n, n, a);
    if (lapack_all_finite(l, a, (int64_t)n * n))
      info =
          call_gees(l, a, lapack_at(l, l->result[2], b, n),
                    lapack_at(l, l->complex ? NULL : l->result[3], b, n), vs, work, &size, rwork);
    lapack_store(a, b, n, n, l->result[0]);
    if (l->job == 'V')
      lapack_store(vs, b, n, n, l->result[1]);
    lapack_info(l->result[l->complex ? 4 : 5], b, info);
  }
  return true;
}
