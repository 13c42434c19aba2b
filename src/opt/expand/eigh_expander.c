// opt/expand/eigh_expander.c: eigenvalues of Hermitian matrices by Jacobi rotations, many at a time.
//
// eigh_expander. The custom call "Eigh" becomes a call. The matrix is cut into four quarters W. One
// step rotates each pair (row i of the upper half, row i of the lower half) so that the diagonals
// of the quarters on the other diagonal vanish; then rows and columns move round, so that after n -
// 1 steps, a sweep, every row was paired with every other:
//
//   upper  0 1 2 3      0 4 1 2      row 0 stays, the others go round:
//   lower  4 5 6 7  =>  5 6 7 3      up to the right of 0, along, down, and back
//
// Sweeps go on until what is off the diagonal is small against the whole, or for as long as the
// call says: its configuration is "lower,sorted,sweeps,tolerance". An odd matrix gets a row and a
// column of zeros.

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/expand/matrices.h"
#include "opt/passes.h"

typedef struct Config {
  int lower, sorted;
  long long sweeps;
  float tolerance;
  int64_t size;  // of a quarter
} Config;

enum { TL, TR, BL, BR, QUARTERS };
enum { VECTORS = QUARTERS, STATE = 2 * QUARTERS };

typedef struct Rotation {
  HlInst *upper, *lower;  // eigenvalues of the pair
  HlInst *c, *s;          // cosine and sine
} Rotation;

static HlInst *binary(HlBuild *b, HlOp op, HlInst *x, HlInst *y) {
  return hl_b_binary(b, op, x, y);
}

static HlInst *mul(HlBuild *b, HlInst *x, HlInst *y) {
  return binary(b, HL_OP_MULTIPLY, x, y);
}

static HlInst *full(HlBuild *b, HlInst *like, double value) {
  return like ? hl_b_full(b, like->shape->dtype, like->shape->rank, like->shape->dim, value) : NULL;
}

static HlInst *real(HlBuild *b, HlInst *x) {
  return x && hl_is_complex(x->shape->dtype) ? hl_b_unary(b, HL_OP_REAL, x) : x;
}

static HlInst *as(HlBuild *b, HlInst *x, HlDtype dtype) {
  return x ? hl_b_convert(b, x, dtype) : NULL;
}

// --- One pair of rows ---------------------------------------------------------------------------

// The unit number that takes a complex x to its length.
static HlInst *turn_back(HlBuild *b, HlInst *x, HlInst *length) {
  HlInst *unit = binary(b, HL_OP_DIVIDE, mat_conj(b, x), as(b, length, x->shape->dtype));
  HlInst *none = hl_b_compare(b, HL_WORD_direction_EQ, length, full(b, length, 0));
  return hl_b_select(b, none, full(b, x, 1), unit);
}

// Of the 2x2 matrices (upper, across; conj(across), lower), all given as lists.
static Rotation rotation_of(HlBuild *b, HlInst *upper, HlInst *across, HlInst *lower) {
  Rotation none = {0};
  if (!upper || !across || !lower)
    return none;
  HlDtype dtype = across->shape->dtype;
  HlInst *turn = NULL;
  upper = real(b, upper);
  lower = real(b, lower);
  if (hl_is_complex(dtype)) {
    HlInst *length = hl_b_unary(b, HL_OP_ABS, across);
    if (!length)
      return none;
    turn = turn_back(b, across, length);
    across = length;
  }
  HlInst *one = full(b, upper, 1), *zero = full(b, upper, 0);
  HlInst *tau = binary(b, HL_OP_DIVIDE, binary(b, HL_OP_SUBTRACT, lower, upper),
                       mul(b, full(b, upper, 2), across));
  HlInst *root = hl_b_unary(b, HL_OP_SQRT, binary(b, HL_OP_ADD, one, mul(b, tau, tau)));
  HlInst *is_up = hl_b_compare(b, HL_WORD_direction_GE, tau, zero);
  root = hl_b_select(b, is_up, root, hl_b_unary(b, HL_OP_NEGATE, root));
  HlInst *t = binary(b, HL_OP_DIVIDE, one, binary(b, HL_OP_ADD, tau, root));
  HlInst *least =
      binary(b, HL_OP_MINIMUM, hl_b_unary(b, HL_OP_ABS, upper), hl_b_unary(b, HL_OP_ABS, lower));
  HlInst *is_tiny = hl_b_compare(b, HL_WORD_direction_LE, hl_b_unary(b, HL_OP_ABS, across),
                                 mul(b, full(b, upper, 0.1 * (double)FLT_EPSILON), least));
  t = hl_b_select(b, is_tiny, zero, t);
  HlInst *c = hl_b_unary(b, HL_OP_RSQRT, binary(b, HL_OP_ADD, one, mul(b, t, t)));
  HlInst *s = mul(b, t, c), *shift = mul(b, t, across);
  Rotation r = {binary(b, HL_OP_SUBTRACT, upper, shift), binary(b, HL_OP_ADD, lower, shift), c, s};
  if (!turn)
    return r;
  return (Rotation){as(b, r.upper, dtype), as(b, r.lower, dtype), as(b, c, dtype),
                    mul(b, as(b, s, dtype), turn)};
}

// x * c - y * conj(s) and x * s + y * c, on rows; on columns s and conj(s) change places.
static void rotate(HlBuild *b, HlInst **x, HlInst **y, HlInst *c, HlInst *s, HlInst *s_conj) {
  HlInst *new_x = binary(b, HL_OP_SUBTRACT, mul(b, *x, c), mul(b, *y, s_conj));
  HlInst *new_y = binary(b, HL_OP_ADD, mul(b, *x, s), mul(b, *y, c));
  *x = new_x;
  *y = new_y;
}

static void rotate_rows(HlPass *p, HlBuild *b, HlInst **q, const Rotation *r) {
  HlInst *c = mat_by_row(p, b, r->c, q[TL]), *s = mat_by_row(p, b, r->s, q[TL]);
  HlInst *s_conj = mat_conj(b, s);
  rotate(b, &q[TL], &q[BL], c, s, s_conj);
  rotate(b, &q[TR], &q[BR], c, s, s_conj);
}

static void rotate_columns(HlPass *p, HlBuild *b, HlInst **q, const Rotation *r) {
  HlInst *c = mat_by_column(p, b, r->c, q[TL]), *s = mat_by_column(p, b, r->s, q[TL]);
  HlInst *s_conj = mat_conj(b, s);
  rotate(b, &q[TL], &q[TR], c, s_conj, s);
  rotate(b, &q[BL], &q[BR], c, s_conj, s);
}

static HlInst *with_diagonal(HlPass *p, HlBuild *b, HlInst *x, HlInst *diagonal) {
  HlInst *on = hl_b_compare(b, HL_WORD_direction_EQ, mat_row_numbers(b, x), mat_col_numbers(b, x));
  return hl_b_select(b, on, mat_by_row(p, b, diagonal, x), x);
}

// --- Going round
// ----------------------------------------------------------------------------------

static HlInst *band(HlPass *p, HlBuild *b, HlInst *x, bool rows, int64_t first, int64_t end) {
  return rows ? mat_slice(p, b, x, first, 0, end, mat_cols(x))
              : mat_slice(p, b, x, 0, first, mat_rows(x), end);
}

static void go_round(HlPass *p, HlBuild *b, HlInst **x, HlInst **y, bool rows) {
  if (!*x || !*y)
    return;
  int64_t k = mat_rows(*x);
  if (k <= 1)
    return;
  int dim = (*x)->shape->rank - (rows ? 2 : 1);
  HlInst *first[] = {band(p, b, *x, rows, 0, 1), band(p, b, *y, rows, 0, 1),
                     k > 2 ? band(p, b, *x, rows, 1, k - 1) : NULL};
  HlInst *second[] = {band(p, b, *y, rows, 1, k), band(p, b, *x, rows, k - 1, k)};
  *x = hl_b_concatenate(b, k > 2 ? 3 : 2, first, dim);
  *y = hl_b_concatenate(b, 2, second, dim);
}

// One step: state is the quarters of W, then those of the vectors.
static bool step(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  HlInst **w = state, **v = state + VECTORS;
  Rotation r = rotation_of(b, mat_diagonal(p, b, w[TL]), mat_diagonal(p, b, w[TR]),
                           mat_diagonal(p, b, w[BR]));
  if (!r.s)
    return false;
  rotate_rows(p, b, w, &r);
  rotate_columns(p, b, w, &r);
  HlInst *zero = full(b, r.upper, 0);
  w[TL] = with_diagonal(p, b, w[TL], r.upper);
  w[TR] = with_diagonal(p, b, w[TR], zero);
  w[BL] = with_diagonal(p, b, w[BL], zero);
  w[BR] = with_diagonal(p, b, w[BR], r.lower);
  go_round(p, b, &w[TL], &w[TR], false);
  go_round(p, b, &w[BL], &w[BR], false);
  go_round(p, b, &w[TL], &w[BL], true);
  go_round(p, b, &w[TR], &w[BR], true);
  rotate_rows(p, b, v, &r);
  go_round(p, b, &v[TL], &v[BL], true);
  go_round(p, b, &v[TR], &v[BR], true);
  for (int k = 0; k < STATE; k++)
    if (!state[k])
      return false;
  return true;
}

// --- Sweeps -------------------------------------------------------------------------------------

static HlInst *squares(HlPass *p, HlBuild *b, HlInst *x, bool without_diagonal) {
  if (without_diagonal) {
    HlInst *on =
        hl_b_compare(b, HL_WORD_direction_EQ, mat_row_numbers(b, x), mat_col_numbers(b, x));
    x = hl_b_select(b, on, full(b, x, 0), x);
  }
  return real(b, mul(b, x, mat_conj(b, x)));
}

// The sum of all squares of W, a number a matrix; without those on its diagonal or with them.
static HlInst *norm(HlPass *p, HlBuild *b, HlInst **w, bool without_diagonal) {
  HlInst *sum = squares(p, b, w[TL], without_diagonal);
  for (int k = TR; k < QUARTERS; k++)
    sum = binary(b, HL_OP_ADD, sum, squares(p, b, w[k], without_diagonal && k == BR));
  if (!sum)
    return NULL;
  int rank = sum->shape->rank;
  int64_t dims[] = {rank - 2, rank - 1};
  return hl_b_reduce(b, HL_OP_ADD, sum, hl_b_scalar(b, sum->shape->dtype, 0), (HlI64s){dims, 2});
}

// Some matrix of the batch is not diagonal enough yet.
static HlInst *goes_on(HlPass *p, HlBuild *b, HlInst **w, const Config *config) {
  HlInst *whole = norm(p, b, w, false), *off = norm(p, b, w, true);
  if (!whole || !off)
    return NULL;
  double square = (double)config->tolerance * (double)config->tolerance;
  HlInst *more = hl_b_compare(b, HL_WORD_direction_LT, mul(b, whole, full(b, whole, square)), off);
  int rank = whole->shape->rank;
  int64_t *dims = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    dims[k] = k;
  if (rank == 0)
    return more;
  return hl_b_reduce(b, HL_OP_OR, more, hl_b_scalar(b, HL_PRED, 0), (HlI64s){dims, rank});
}

static bool open_state(HlBuild *b, const HlShape *shape, HlInst **number, HlInst **state) {
  HlInst *tuple = hl_b_parameter(b, shape, NULL);
  *number = hl_b_element(b, tuple, 0);
  for (int k = 0; k < STATE; k++)
    state[k] = hl_b_element(b, tuple, k + 1);
  return tuple && state[STATE - 1];
}

static HlComp *sweep_condition(HlPass *p, HlBuild *b, const HlShape *shape, const Config *config) {
  HlBuild in = hl_b_nested(b, "eigh_condition");
  HlInst *number, *state[STATE];
  if (!open_state(&in, shape, &number, state))
    return NULL;
  HlInst *most = hl_b_scalar_int(&in, HL_S32, config->sweeps);
  HlInst *root = binary(&in, HL_OP_AND, hl_b_compare(&in, HL_WORD_direction_LT, number, most),
                        goes_on(p, &in, state, config));
  if (!root)
    return NULL;
  hl_set_root(in.comp, root);
  return in.comp;
}

static HlComp *sweep_body(HlPass *p, HlBuild *b, const HlShape *shape, const Config *config) {
  HlBuild in = hl_b_nested(b, "eigh_body");
  HlInst *number, *state[STATE], *next[STATE + 1];
  if (!open_state(&in, shape, &number, state) ||
      !mat_loop(p, &in, "eigh_sweep", 2 * config->size - 1, STATE, state, step, NULL))
    return NULL;
  next[0] = binary(&in, HL_OP_ADD, number, hl_b_scalar_int(&in, HL_S32, 1));
  memcpy(next + 1, state, sizeof state);
  HlInst *root = hl_b_tuple(&in, STATE + 1, next);
  if (!root)
    return NULL;
  hl_set_root(in.comp, root);
  return in.comp;
}

static bool sweep(HlPass *p, HlBuild *b, HlInst **state, const Config *config) {
  HlInst *init[STATE + 1] = {hl_b_scalar_int(b, HL_S32, 0)};
  memcpy(init + 1, state, sizeof *state * STATE);
  HlInst *start = hl_b_tuple(b, STATE + 1, init);
  if (!start)
    return false;
  HlComp *condition = sweep_condition(p, b, start->shape, config);
  HlComp *body = sweep_body(p, b, start->shape, config);
  HlInst *loop = condition && body ? hl_b_while(b, condition, body, start) : NULL;
  for (int k = 0; loop && k < STATE; k++)
    state[k] = hl_b_element(b, loop, k + 1);
  return loop;
}

// --- The whole ----------------------------------------------------------------------------------

// The matrix that one triangle stands for.
static HlInst *symmetric(HlPass *p, HlBuild *b, HlInst *a, bool lower) {
  HlInst *rows = mat_row_numbers(b, a), *cols = mat_col_numbers(b, a);
  HlInst *kept = hl_b_compare(b, lower ? HL_WORD_direction_GT : HL_WORD_direction_LT, rows, cols);
  HlInst *on = hl_b_compare(b, HL_WORD_direction_EQ, rows, cols);
  HlInst *diagonal = as(b, real(b, a), a->shape->dtype);
  HlInst *mirror = mat_conj(b, mat_transpose(p, b, a));
  return hl_b_select(b, on, diagonal, hl_b_select(b, kept, a, mirror));
}

// A quarter, filled up with zeros where the matrix is odd.
static HlInst *quarter(HlPass *p, HlBuild *b, HlInst *a, int64_t k, bool low, bool right) {
  int64_t n = mat_rows(a);
  HlInst *x = mat_slice(p, b, a, low ? k : 0, right ? k : 0, low ? n : k, right ? n : k);
  if (!x || (mat_rows(x) == k && mat_cols(x) == k))
    return x;
  int rank = x->shape->rank;
  int64_t *none = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  high[rank - 2] = k - mat_rows(x);
  high[rank - 1] = k - mat_cols(x);
  return hl_b_pad(b, x, hl_b_scalar(b, x->shape->dtype, 0), none, high, NULL);
}

static HlInst *whole(HlPass *p, HlBuild *b, HlInst **q, int64_t n) {
  if (!q[TL])
    return NULL;
  int rank = q[TL]->shape->rank;
  HlInst *rows[] = {hl_b_concatenate(b, 2, q, rank - 1), hl_b_concatenate(b, 2, q + 2, rank - 1)};
  if (!rows[0] || !rows[1])
    return NULL;
  return mat_slice(p, b, hl_b_concatenate(b, 2, rows, rank - 2), 0, 0, n, n);
}

// Sorts the columns of v by the values in each row of w.
static bool sort_columns(HlPass *p, HlBuild *b, HlInst **w, HlInst **v) {
  HlBuild in = hl_b_nested(b, "less");
  HlShapes *shapes = p->m->shapes;
  HlInst *param[4];
  for (int k = 0; k < 4; k++)
    param[k] = hl_b_parameter(
        &in, hl_shape_scalar(shapes, k < 2 ? (*w)->shape->dtype : (*v)->shape->dtype), NULL);
  HlInst *less = hl_b_compare_total(&in, HL_WORD_direction_LT, param[0], param[1]);
  if (!less)
    return false;
  hl_set_root(in.comp, less);
  HlInst *operands[] = {*w, *v};
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = (*v)->shape->rank - 1},
                    {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sort = hl_b_op(b, HL_OP_SORT, NULL, 2, operands, 2, attrs, 1, &in.comp);
  *w = hl_b_element(b, sort, 0);
  *v = hl_b_element(b, sort, 1);
  return *v;
}

static HlInst *solve(HlPass *p, HlBuild *b, HlInst *a, const HlShape *list, const Config *config) {
  int64_t n = mat_rows(a);
  if (n == 1) {
    HlInst *one[] = {full(b, a, 1), hl_b_reshape(b, real(b, a), list->rank, list->dim)};
    return hl_b_tuple(b, 2, one);
  }
  a = symmetric(p, b, a, config->lower);
  if (!a)
    return NULL;
  HlInst *state[STATE];
  for (int k = 0; k < QUARTERS; k++)
    state[k] = quarter(p, b, a, config->size, k >= BL, k % 2 == 1);
  if (!state[TL])
    return NULL;
  HlInst *eye = mat_identity_like(p, b, state[TL]), *zero = full(b, state[TL], 0);
  for (int k = 0; k < QUARTERS; k++)
    state[VECTORS + k] = k == TL || k == BR ? eye : zero;
  if (!sweep(p, b, state, config))
    return NULL;
  HlInst *w = mat_diagonal(p, b, real(b, whole(p, b, state, n)));
  HlInst *v = mat_conj(b, mat_transpose(p, b, whole(p, b, state + VECTORS, n)));
  if (!w || !v)
    return NULL;
  if (config->sorted) {
    HlInst *keys = mat_by_column(p, b, w, v);
    if (!keys || !sort_columns(p, b, &keys, &v))
      return NULL;
    w = mat_slice(p, b, keys, 0, 0, 1, n);
  }
  HlInst *both[] = {v, hl_b_reshape(b, w, list->rank, list->dim)};
  return hl_b_tuple(b, 2, both);
}

static bool read_config(const HlInst *inst, Config *config) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  int n = 0;
  if (sscanf(text, "%d,%d,%lld,%n", &config->lower, &config->sorted, &config->sweeps, &n) != 3 ||
      n == 0)
    return false;
  char *end;
  config->tolerance = base_read_float(text + n, &end);
  return end > text + n && *end == '\0' && config->sweeps >= 0 && config->sweeps <= INT32_MAX;
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  Config config;
  if (!hl_is_call(inst, HL_CALL_EIGH) || inst->n_operands != 1 || inst->shape->dtype != HL_TUPLE ||
      inst->shape->rank != 2 || !read_config(inst, &config))
    return NULL;
  HlInst *a = hl_operand(inst, 0);
  if (a->shape->rank < 2 || hl_shape_is_dynamic(a->shape) || mat_rows(a) != mat_cols(a) ||
      hl_shape_elements(a->shape) == 0)
    return NULL;
  config.size = (mat_rows(a) + 1) / 2;
  HlBuild in = hl_b_nested(b, "eigh");
  HlInst *x = hl_b_parameter(&in, a->shape, "a");
  HlInst *root = x ? solve(p, &in, x, inst->shape->element[1], &config) : NULL;
  if (!root || !hl_shape_compatible(root->shape, inst->shape))
    return NULL;
  hl_set_root(in.comp, root);
  return hl_b_call(b, in.comp, 1, &a);
}

const HlRule eigh_expander_rules[] = {
    {HL_OP_CUSTOM_CALL, expand, "eigh_expander", "custom-call(a) => call(a)",
     "Eigh, its configuration readable"},
    {0},
};
