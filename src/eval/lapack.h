// eval/lapack.h: LAPACK routines behind custom calls: one call's operands, results and parameters.
#ifndef HILO_EVAL_LAPACK_H
#define HILO_EVAL_LAPACK_H

#include "eval/custom.h"
#include "hilo/custom_calls.h"

typedef void LapackSymbol(void);

// One custom call on its way into LAPACK. Matrices are logically row-major in literals and are copied
// into column-major buffers and back; leading dimensions are a batch.
typedef struct Lapack {
  Interp *in;
  const HlInst *inst;
  HlRoutine routine;
  char letter;          // s, d, c or z, by the type of the first array
  bool complex;
  HlDtype dtype, real;  // of elements and of their parts
  size_t size, real_size;
  LapackSymbol *call;
  HlArena *arena;  // scratch
  // In the order of the typed form ("_ffi") of the custom call.
  const HlLiteral *arg[4];
  HlLiteral *result[6];
  // Parameters, as LAPACK's letters where it has them.
  char uplo, side, trans, diag, job, left, right;
  bool is_left, is_transposed, gives_v;
  int low, high;
  const HlLiteral *alpha;  // of trsm; NULL: 1
  // The batch, and the sizes of the first array behind it (lapack_begin).
  const int64_t *batch_dim;
  int batch_rank;
  int64_t batch;
  int m, n;
  char none[16];  // stands for arrays without elements
} Lapack;

typedef bool LapackRun(Lapack *l);

LapackRun lapack_potrf, lapack_getrf, lapack_geqrf, lapack_geqp3, lapack_orgqr,
    lapack_ormqr;                                                              // lapack_factor.c
LapackRun lapack_trsm, lapack_gtsv;                                            // lapack_solve.c
LapackRun lapack_syevd, lapack_geev, lapack_gees, lapack_gehrd, lapack_sytrd;  // lapack_eigen.c
LapackRun lapack_gesdd, lapack_gesvd;                                          // lapack_svd.c

// Splits the first array into a batch and `tail` (1 or 2) dimensions of its own: m and n (or n alone).
bool lapack_begin(Lapack *l, int tail);
// Checks that a value is there with this element type, the batch's dimensions and `tail` more.
bool lapack_check(Lapack *l, const HlLiteral *value, HlDtype dtype, int tail, int64_t rows,
                  int64_t columns);
bool lapack_is_square(Lapack *l);
// Memory for rows * columns elements of `size` bytes, never NULL; zeroed.
void *lapack_new(Lapack *l, int64_t rows, int64_t columns, size_t size);
// Matrix `b` of a literal of shape [batch, rows, columns], to and from column-major.
void lapack_load(const HlLiteral *from, int64_t b, int rows, int columns, void *to);
void lapack_store(const void *from, int64_t b, int rows, int columns, HlLiteral *to);
// Elements b * n and on of a literal: vector `b` of a batch; something valid if it has no elements.
void *lapack_at(Lapack *l, HlLiteral *value, int64_t b, int64_t n);
// Copies vector `b` of n elements between literals of one type.
void lapack_copy(const HlLiteral *from, HlLiteral *to, int64_t b, int64_t n);
// The size a workspace query answered in its first element, as elements to allocate.
int lapack_answer(const Lapack *l, const void *work);
bool lapack_all_finite(const Lapack *l, const void *a, int64_t n);
static inline int lapack_least(int n) {
  return n > 1 ? n : 1;
}  // a leading dimension is at least 1
static inline int lapack_smaller(int a, int b) {
  return a < b ? a : b;
}
// Writes info of batch element `b`, where there is a result for it.
void lapack_info(HlLiteral *result, int64_t b, int info);

#endif
