// cpu/linalg/linalg.h: triangular systems and factors of matrices: Cholesky's, LU, QR.
//
// A matrix is brought into memory of its own, row by row, whatever its layout; there it is halved until what is left is a leaf of
// a few rows or columns. Between leaves all work is products, c -= a b, by the tiles of cpu/dot. What has several forms comes down
// to one by the strides of a view: of a transposed matrix they change places. Complex products are real ones of matrices twice as large.
//
//   triangular system   x1 = solve(a11, b1); b2 -= a21 x1; x2 = solve(a22, b2)                          solve.c
//   Cholesky, upper     u11 = factor(a11); u12 = solve(u11^H, a12); a22 -= u12^H u12; factor(a22)      factor.c
//   LU                  columns in halves: the left one, its exchanges of rows and a solve on the right, a22 -= l21 u12
//   QR                  blocks of reflectors, which are applied together                                reflect.c
//
// Matrices of a batch are shared among threads, small ones as many at once as a vector has lanes (beside.c); of few large ones
// products and systems are shared, by rows and columns. No element's arithmetic depends on how that is cut.
#ifndef HILO_CPU_LINALG_LINALG_H
#define HILO_CPU_LINALG_LINALG_H

#include "cpu/dot/tile.h"
#include "cpu/kernel/kernel.h"

// Rows of a leaf of a triangle; bytes of a row of a leaf of columns (a panel).
enum { LINALG_LEAF = 32, LINALG_PANEL = 64 };

// Element (i, j) is at at[i * row + j * column], counted in elements; `conjugate`: its conjugate is meant.
typedef struct LinalgMatrix {
  char *at;
  int64_t rows, columns, row, column;
  bool conjugate;
} LinalgMatrix;

// The leaves for a type. A leaf of a triangle has LINALG_LEAF elements from row to row, one of columns as many as LINALG_PANEL bytes
// hold; what lies beyond its n columns may be written.
typedef struct LinalgLeaves {
  // x = l^-1 x for n <= LINALG_LEAF rows of x, `row` elements apart; of l the lower triangle is looked at.
  void (*solve)(int64_t n, const LinalgMatrix *l, bool unit, void *x, int64_t row, int64_t columns);
  // The factor u^H u = a of the upper triangle, in its place. 0; or 1 + the column whose pivot is not positive, where it stopped.
  int64_t (*cholesky)(int64_t n, void *u);
  // LU of m rows and n <= m columns. pivot[j]: the row that row j has changed places with. 0; or 1 + the first column without a
  // pivot that is not 0.
  int64_t (*lu)(int64_t m, int64_t n, void *panel, int32_t *pivot);
  // QR of m rows and n <= m columns: R, the reflectors below it, and their factors.
  void (*qr)(int64_t m, int64_t n, void *panel, void *tau);
  void (*negate)(int64_t n, void *x);
  // Of complex numbers: a as a real matrix of twice the columns, b as one of twice the rows and columns, whose product is a b.
  void (*spread_rows)(const LinalgMatrix *a, bool negate, void *to);
  void (*spread_columns)(const LinalgMatrix *b, void *to);
} LinalgLeaves;
typedef LinalgLeaves LinalgTypes[2];  // of float, of double
SIMD_DECLARE(const LinalgTypes, linalg_real);
SIMD_DECLARE(const LinalgTypes, linalg_complex);

// The same of small real matrices beside each other: an element is a vector, of which each lane is another matrix's; strides are in
// vectors. False: a matrix wants to be looked at by itself; what is there is lost.
typedef struct LinalgBeside {
  int lanes[2];
  bool (*solve[2])(bool unit, const LinalgMatrix *l, const LinalgMatrix *x);
  bool (*cholesky[2])(const LinalgMatrix *u);
  bool (*lu[2])(const LinalgMatrix *a, void *pivots);  // integers as wide as elements, from 0
  bool (*qr[2])(const LinalgMatrix *a, void *tau);
  bool (*reflectors[2])(const LinalgMatrix *a, int64_t n, const void *tau);  // their product takes their place
} LinalgBeside;
SIMD_DECLARE(const LinalgBeside, linalg_beside);

// How a kernel computes.
typedef struct LinalgMath LinalgMath;
struct LinalgMath {
  int type, size;                // of parts: 0 float, 1 double; bytes of an element
  const LinalgMath *parts;       // of complex numbers: how their parts are multiplied; else NULL
  CpuLevel simd;
  const LinalgLeaves *leaf;
  const LinalgBeside *beside;
  const DotTiles *tiles;         // of parts
  DotPack *pack;
};

// Who computes, and in which memory. With a team products and systems are shared by its members, each in memory of its own.
typedef struct LinalgWork {
  const LinalgMath *math;
  CpuTeam *team;                 // or else:
  const CpuMember *member;
  char *panels;                  // linalg_panel_bytes
} LinalgWork;

static inline int64_t linalg_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline LinalgMatrix linalg_part(const LinalgMath *q, const LinalgMatrix *m, int64_t i, int64_t j, int64_t rows,
                                       int64_t columns) {
  return (LinalgMatrix){m->at + (i * m->row + j * m->column) * q->size, rows, columns, m->row, m->column, m->conjugate};
}
static inline LinalgMatrix linalg_turned(LinalgMatrix m) {
  return (LinalgMatrix){m.at, m.columns, m.rows, m.column, m.row, m.conjugate};
}
static inline LinalgMatrix linalg_adjoint(const LinalgMath *q, LinalgMatrix m) {
  return (LinalgMatrix){m.at, m.columns, m.rows, m.column, m.row, m.conjugate != (q->parts != NULL)};
}
// Elements of a panel's row.
static inline int64_t linalg_width(const LinalgMath *q) {
  return LINALG_PANEL / q->size;
}

// --- Matrices in memory (matrix.c) ----------------------------------------------------------------

// How far apart rows of so many columns lie in memory of a kernel's own, in elements: whole lines, not all in one place of a cache.
int64_t linalg_row(const LinalgMath *q, int64_t columns);
// A matrix of its own, in *memory, which goes on behind it; linalg_bytes of it.
LinalgMatrix linalg_new(const LinalgMath *q, char **memory, int64_t rows, int64_t columns);
size_t linalg_bytes(const LinalgMath *q, int64_t rows, int64_t columns);
// As they stand: whether conjugates are meant is not looked at.
void linalg_copy(const LinalgMath *q, const LinalgMatrix *from, const LinalgMatrix *to);
// The upper triangle of a square matrix from `from`, which loses what it has below, and the rest from `lower`; NULL: zeros.
void linalg_join(const LinalgMath *q, const LinalgMatrix *from, const LinalgMatrix *lower, const LinalgMatrix *to);
void linalg_fill(const LinalgMath *q, const LinalgMatrix *m, double value);
// Makes of each element its conjugate. Rows are contiguous.
void linalg_conjugate(const LinalgMath *q, const LinalgMatrix *m);
// Exchanges rows [first, first + n) with rows pivot[0], pivot[1], ..., one after another. Its rows are contiguous.
void linalg_exchange(const LinalgMath *q, const LinalgMatrix *m, int64_t first, int64_t n, const int32_t *pivot);

// --- Products (product.c) -------------------------------------------------------------------------

typedef enum LinalgHow {
  LINALG_ADD = 0,
  LINALG_SUBTRACT = 1,
  LINALG_UPPER = 2               // what is below the diagonal of c is not wanted, and becomes anything
} LinalgHow;
// c += a b, or c -= a b. The rows of c are contiguous, and not meant as conjugates. False: no memory, or stopped.
bool linalg_product(const LinalgWork *w, int how, const LinalgMatrix *a, const LinalgMatrix *b, const LinalgMatrix *c);
// Memory for products of at most so many rows, columns, and elements in a sum.
size_t linalg_panel_bytes(const LinalgMath *q, int64_t rows, int64_t columns, int64_t depth);

// --- Algorithms, on matrices whose rows are contiguous -----------------------------------------------

// x = a^-1 x, where a is the lower or the upper triangle of a view of any strides, with ones on its diagonal if `unit`.
bool linalg_solve(const LinalgWork *w, bool lower, bool unit, const LinalgMatrix *a, const LinalgMatrix *x);  // solve.c
// In place of the upper triangle its factor; what is below becomes anything. *info as LAPACK's potrf. `leaf`: LINALG_LEAF^2 elements.
bool linalg_cholesky(const LinalgWork *w, const LinalgMatrix *a, int64_t *info, char *leaf);   // factor.c
// In place of a its factors; min(rows, columns) pivots from 0 and *info. `panel`: rows of LINALG_PANEL bytes.
bool linalg_lu(const LinalgWork *w, const LinalgMatrix *a, int32_t *pivot, int64_t *info, char *panel);

// Memory that reflectors are found and applied in.
typedef struct LinalgReflect {
  LinalgMatrix v;                // as they are: ones on the diagonal, zeros above
  LinalgMatrix s;                // the inverse of their triangular factor
  LinalgMatrix product;          // v^H c
  char *panel, *tau;             // tau: min(rows, columns) elements
} LinalgReflect;
size_t linalg_reflect_bytes(const LinalgMath *q, int64_t rows, int64_t columns);
LinalgReflect linalg_reflect_new(const LinalgMath *q, char *memory, int64_t rows, int64_t columns);
// In place of a its factor R and the reflectors, and r->tau.
bool linalg_qr(const LinalgWork *w, const LinalgMatrix *a, const LinalgReflect *r);  // reflect.c
// `to`, the identity at first, becomes the product of the first n reflectors of a.
bool linalg_reflectors(const LinalgWork *w, const LinalgMatrix *a, int64_t n, const LinalgMatrix *to,
                       const LinalgReflect *r);

// --- Kernels (make.c, run.c) --------------------------------------------------------------------------

typedef enum LinalgWhat { LINALG_SOLVE, LINALG_CHOLESKY, LINALG_LU, LINALG_QR, LINALG_REFLECTORS } LinalgWhat;

// An array of matrices, vectors (of one column) or numbers: how far apart their elements lie, and those of a batch.
typedef struct LinalgArray {
  int64_t rows, columns, row, column;
  const int64_t *outer;
  int64_t next;                  // where lanes are set: from one matrix to the next
} LinalgArray;
enum { LINALG_ARRAYS = 4 };      // at most: buffers of a kernel

typedef struct LinalgKernel {
  CpuKernel kernel;
  LinalgMath math, parts;
  LinalgWhat what;
  bool lower, unit, turned, conjugate, left;  // of a triangular system: turned: the transpose of a, and its conjugate
  bool is_op;                    // HLO's own: nan where there is no factor, 0 in the other triangle
  int64_t m, n, k;               // rows and columns of the result; of a triangle; reflectors
  int n_outer;
  const int64_t *outer;          // the batch
  int64_t batch, strips;         // strips of columns of a system, each for itself
  LinalgArray array[LINALG_ARRAYS];
  bool shared;                   // all threads do one matrix after another
  int64_t group;                 // else: matrices or strips of a chunk
  int64_t lanes;                 // small matrices that are done beside each other; 0: none are
} LinalgKernel;

enum { LINALG_STRIP = 128 };     // columns of a strip
// Sets f->lanes (beside.c), and does matrices [first, first + lanes). False: one of them must be done by itself.
void linalg_set_beside(LinalgKernel *f);
size_t linalg_beside_bytes(const LinalgKernel *f);
bool linalg_run_beside(const LinalgKernel *f, void *const *buffer, int64_t first, char *memory);
bool linalg_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);
extern const CpuKernelKind cpu_kind_linalg;

#endif
