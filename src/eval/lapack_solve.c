// eval/lapack_solve.c: triangular and tridiagonal systems through LAPACK; pivots as permutations.

#include <string.h>

#include "base/memory.h"
#include "eval/lapack.h"

typedef void Trsm(const char *side, const char *uplo, const char *trans, const char *diag,
                  const int *m, const int *n, const void *alpha, const void *a, const int *lda,
                  void *b, const int *ldb, size_t, size_t, size_t, size_t);

static void set_alpha(const Lapack *l, void *alpha) {
  const float one_f = 1;
  const double one = 1;
  memset(alpha, 0, 16);
  if (l->alpha)
    memcpy(alpha, l->alpha->data, l->size);
  else if (l->real == HL_F32)
    memcpy(alpha, &one_f, sizeof one_f);
  else
    memcpy(alpha, &one, sizeof one);
}

// a, b -> alpha times the solution x of op(a) x = b or x op(a) = b.
bool lapack_trsm(Lapack *l) {
  const HlShape *shape = l->arg[1]->shape;
  if (!lapack_begin(l, 2) || !lapack_is_square(l))
    return false;
  if (shape->rank < 2 || shape->dim[shape->rank - 1] > INT32_MAX / 16 ||
      shape->dim[shape->rank - 2] > INT32_MAX / 16)
    return lapack_check(l, NULL, l->dtype, 2, 0, 0);
  const int m = (int)shape->dim[shape->rank - 2], n = (int)shape->dim[shape->rank - 1], k = l->n;
  const int lda = lapack_least(k), ldb = lapack_least(m);
  if (!lapack_check(l, l->arg[1], l->dtype, 2, m, n) ||
      !lapack_check(l, l->result[0], l->dtype, 2, m, n))
    return false;
  if (k != (l->side == 'L' ? m : n))
    return hl_inst_error(l->in->ev.cx, l->inst,
                         "a matrix of %d by %d does not fit right sides of %d by %d", k, k, m, n);
  char alpha[16];
  set_alpha(l, alpha);
  void *a = lapack_new(l, k, k, l->size), *x = lapack_new(l, m, n, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    lapack_load(l->arg[0], b, k, k, a);
    lapack_load(l->arg[1], b, m, n, x);
    ((Trsm *)l->call)(&l->side, &l->uplo, &l->trans, &l->diag, &m, &n, alpha, a, &lda, x, &ldb, 1,
                      1, 1, 1);
    lapack_store(x, b, m, n, l->result[0]);
  }
  return true;
}

// lower, main and upper diagonal (all of n; the first of the lower is not used), b -> the same
// overwritten, with the solution in place of b, and info.
bool lapack_gtsv(Lapack *l) {
  typedef void Gtsv(const int *n, const int *columns, void *lower, void *main, void *upper, void *b,
                    const int *ldb, int *info);
  const HlShape *shape = l->arg[3]->shape;
  if (!lapack_begin(l, 1) || shape->rank < 2 || shape->dim[shape->rank - 1] > INT32_MAX / 16)
    return lapack_check(l, NULL, l->dtype, 2, 0, 0);
  const int n = l->n, columns = (int)shape->dim[shape->rank - 1], ld = lapack_least(n);
  for (int k = 0; k < 4; k++)
    if (!lapack_check(l, l->arg[k], l->dtype, k < 3 ? 1 : 2, n, columns) ||
        !lapack_check(l, l->result[k], l->dtype, k < 3 ? 1 : 2, n, columns))
      return false;
  if (!lapack_check(l, l->result[4], HL_S32, 0, 0, 0))
    return false;
  void *x = lapack_new(l, n, columns, l->size);
  for (int64_t b = 0; b < l->batch; b++) {
    int info = 0;
    for (int k = 0; k < 3; k++)
      lapack_copy(l->arg[k], l->result[k], b, n);
    lapack_load(l->arg[3], b, n, columns, x);
    if (n > 0)
      ((Gtsv *)l->call)(&n, &columns, (char *)lapack_at(l, l->result[0], b, n) + l->size,
                        lapack_at(l, l->result[1], b, n), lapack_at(l, l->result[2], b, n), x, &ld,
                        &info);
    lapack_store(x, b, n, columns, l->result[3]);
    lapack_info(l->result[4], b, info);
  }
  return true;
}

// --- Pivots --------------------------------------------------------------------------------------

// Row exchanges (from 0) in the last dimension -> the permutation they make.
bool custom_pivots_to_permutation(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                                  HlLiteral *out) {
  if (!custom_counts(in, inst, 1, out, 1))
    return false;
  const HlShape *from = operand[0]->shape, *to = out->shape;
  bool good =
      from->dtype == HL_S32 && to->dtype == HL_S32 && from->rank > 0 && from->rank == to->rank;
  for (int k = 0; good && k < from->rank - 1; k++)
    good = from->dim[k] == to->dim[k];
  const int64_t n = good ? from->dim[from->rank - 1] : 0, size = good ? to->dim[to->rank - 1] : 0;
  if (!good || size < n)
    return hl_inst_error(in->ev.cx, inst,
                         "expected s32 pivots and a permutation of at least as many rows");
  for (int64_t b = 0; size > 0 && b < out->n / size; b++) {
    const int32_t *pivot = n ? (const int32_t *)operand[0]->data + b * n : NULL;
    int32_t *row = (int32_t *)out->data + b * size;
    base_look();
    for (int64_t k = 0; k < size; k++)
      row[k] = (int32_t)k;
    for (int64_t k = 0; k < n; k++) {
      if (pivot[k] < 0 || pivot[k] >= size)
        return hl_inst_error(in->ev.cx, inst, "pivot %d is not a row of %lld", pivot[k],
                             (long long)size);
      const int32_t swap = row[k];
      row[k] = row[pivot[k]];
      row[pivot[k]] = swap;
    }
  }
  return true;
}
