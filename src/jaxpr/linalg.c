// Lowers linear algebra to calls of LAPACK, as JAX does for the CPU.
//
// Matrices go in and out in column-major layout; where a routine says that it failed, the results are
// replaced by nans.
#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "jaxpr/lower.h"

// --- Calls -------------------------------------------------------------------------------------------------------

// A batch of matrices: sizes [batch..., m, n].
typedef struct Batch {
  const HlShape *shape;
  int n_batch;
  int64_t m, n;
} Batch;

static bool read_batch(const Rule *r, int operand, Batch *out) {
  const HlShape *s = r->in[operand]->shape;
  if (s->rank < 2 || !hl_shape_is_array(s) || (!hl_is_float(s->dtype) && !hl_is_complex(s->dtype)))
    return jx_fail(r, "operand %d is %s, expected matrices of floats", operand,
                   jx_type_text(r->lo, s));
  *out = (Batch){
      .shape = s, .n_batch = s->rank - 2, .m = s->dim[s->rank - 2], .n = s->dim[s->rank - 1]};
  return true;
}

static HlDtype real_of(HlDtype dtype) {
  return dtype == HL_C64 ? HL_F32 : dtype == HL_C128 ? HL_F64 : dtype;
}

static HlDtype complex_of(HlDtype dtype) {
  return dtype == HL_F32 ? HL_C64 : dtype == HL_F64 ? HL_C128 : dtype;
}

// An array of the batch's dimensions and n more.
static const HlShape *batch_shape(const Rule *r, const Batch *batch, HlDtype dtype, int n,
                                  const int64_t *more) {
  int64_t dim[MAX_RANK + 2];
  for (int d = 0; d < batch->n_batch; d++)
    dim[d] = batch->shape->dim[d];
  for (int k = 0; k < n; k++)
    dim[batch->n_batch + k] = more[k];
  return hl_shape_array(r->lo->m->shapes, dtype, batch->n_batch + n, dim);
}

static const HlShape *vector_shape(const Rule *r, const Batch *batch, HlDtype dtype, int64_t n) {
  return batch_shape(r, batch, dtype, 1, &n);
}

static const HlShape *matrix_shape(const Rule *r, const Batch *batch, HlDtype dtype, int64_t m,
                                   int64_t n) {
  const int64_t more[] = {m, n};
  return batch_shape(r, batch, dtype, 2, more);
}

static const HlShape *info_shape(const Rule *r, const Batch *batch) {
  return batch_shape(r, batch, HL_S32, 0, NULL);
}

// Matrices in column-major layout; other arrays as they are.
static const HlShape *column_major(const Rule *r, const HlShape *shape, int matrix_rank) {
  int64_t order[MAX_RANK + 2];
  if (shape->rank != matrix_rank)
    return shape;
  order[0] = shape->rank - 2;
  order[1] = shape->rank - 1;
  for (int k = 2; k < shape->rank; k++)
    order[k] = shape->rank - 1 - k;
  const HlLayout layout = {.minor_to_major = {order, shape->rank}};
  return hl_shape_with_layout(r->lo->m->shapes, shape, &layout);
}

// NULL after reporting.
static const char *target(const Rule *r, HlRoutine routine, HlDtype dtype) {
  const char *name = hl_routine_target(r->lo->arena, routine, dtype);
  if (!name)
    jx_refuse(r, "LAPACK has no routines for %s", hl_dtype_text(dtype));
  return name;
}

typedef struct Lapack {
  const char *target;  // NULL: already reported
  const char *config;  // {uplo = 76 : ui8}
  int n_in, n_out;
  HlInst *in[4];
  const HlShape *out[6];
  int alias[4][2];  // operand, result
  int n_alias;
} Lapack;

static HlAliases aliases(const Rule *r, const Lapack *call) {
  HlAlias *list = HL_ARRAY(r->lo->m->arena, HlAlias, call->n_alias + 1);
  for (int k = 0; k < call->n_alias; k++) {
    const int64_t result = call->alias[k][1];
    list[k].number = call->alias[k][0];
    if (call->n_out > 1)
      list[k].output = hl_i64s_copy(r->lo->m->arena, (HlI64s){&result, 1});
  }
  return (HlAliases){list, call->n_alias};
}

// The call; out[k] become its results.
static bool run(Rule *r, const Lapack *call, HlInst **out) {
  HlModule *m = r->lo->m;
  if (!call->target)
    return false;
  int matrix_rank = 0;
  for (int k = 0; k < call->n_in; k++) {
    if (!call->in[k])
      return false;
    matrix_rank = call->in[k]->shape->rank > matrix_rank ? call->in[k]->shape->rank : matrix_rank;
  }
  const HlShape **in = HL_ARRAY(m->arena, const HlShape *, call->n_in), *result[6];
  for (int k = 0; k < call->n_in; k++)
    in[k] = column_major(r,
                         hl_shape_array(m->shapes, call->in[k]->shape->dtype,
                                        call->in[k]->shape->rank, call->in[k]->shape->dim),
                         matrix_rank);
  for (int k = 0; k < call->n_out; k++)
    result[k] = column_major(r, call->out[k], matrix_rank);
  const HlShape *shape =
      call->n_out == 1 ? result[0] : hl_shape_tuple(m->shapes, call->n_out, result);
  HlAttr attrs[5] = {{.key = HL_A_CUSTOM_CALL_TARGET, .sym = hl_sym(m, call->target)},
                     {.key = HL_A_API_VERSION, .i = HL_WORD_api_version_TYPED_FFI},
                     {.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {in, call->n_in}},
                     {.key = HL_A_BACKEND_CONFIG, .sym = hl_sym(m, call->config)}};
  int n = 4;
  if (call->n_alias > 0)
    attrs[n++] = (HlAttr){.key = HL_A_OUTPUT_TO_OPERAND_ALIASING, .aliases = aliases(r, call)};
  const HlSym *key = hl_sym(m, "num_batch_dims");
  const HlSym *value = hl_sym(m, hl_arena_printf(r->lo->arena, "%d", matrix_rank - 2));
  const HlSym **pair = HL_ARRAY(m->arena, const HlSym *, 2);
  pair[0] = key;
  pair[1] = value;
  HlBuild b = *r->b;
  b.frontend = (HlDict){.key = pair, .value = pair + 1, .n = 1};
  HlInst *inst = hl_b_op(&b, HL_OP_CUSTOM_CALL, shape, call->n_in, call->in, n, attrs, 0, NULL);
  if (!inst)
    return false;
  for (int k = 0; k < call->n_out; k++)
    if (!(out[k] = call->n_out == 1 ? inst : hl_b_element(r->b, inst, k)))
      return false;
  return true;
}

// Whether each problem of the batch was solved.
static HlInst *succeeded(HlBuild *b, HlInst *info, int direction) {
  return hl_b_compare(b, direction, info, hl_b_like_int(b, info, 0));
}

// x where ok (of the batch's sizes), else nan.
static HlInst *or_nan(HlBuild *b, HlInst *ok, HlInst *x) {
  int64_t dims[MAX_RANK];
  if (!ok || !x)
    return NULL;
  for (int k = 0; k < ok->shape->rank; k++)
    dims[k] = k;
  if (x->shape->rank > 0)
    ok = hl_b_broadcast(b, ok, x->shape->rank, x->shape->dim, (HlI64s){dims, ok->shape->rank});
  return hl_b_select(b, ok, x, hl_b_like(b, x, NAN));
}

// --- Triangles ------------------------------------------------------------------------------------------------------

// x with what is below the diagonal set to 0.
static HlInst *upper_triangle(HlBuild *b, HlInst *x) {
  if (!x)
    return NULL;
  const HlShape *s = x->shape;
  const int64_t rows = s->rank - 2, columns = s->rank - 1;
  HlInst *row = hl_b_iota(b, HL_S32, 1, &s->dim[rows], 0),
         *column = hl_b_iota(b, HL_S32, 1, &s->dim[columns], 0);
  row = row ? hl_b_binary(b, HL_OP_ADD, row, hl_b_like_int(b, row, -1)) : NULL;
  row = hl_b_broadcast(b, row, s->rank, s->dim, (HlI64s){&rows, 1});
  column = hl_b_broadcast(b, column, s->rank, s->dim, (HlI64s){&columns, 1});
  HlInst *below = hl_b_compare(b, HL_WORD_direction_GE, row, column);
  return hl_b_select(b, below, hl_b_like(b, x, 0), x);
}

// --- Factorisations ----------------------------------------------------------------------------------------------------

static bool cholesky(Rule *r) {
  Batch a;
  HlInst *out[2];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  Lapack call = {.target = target(r, HL_ROUTINE_POTRF, a.shape->dtype),
                 .config = "{uplo = 76 : ui8}",
                 .n_in = 1,
                 .n_out = 2,
                 .in = {r->in[0]},
                 .out = {a.shape, info_shape(r, &a)},
                 .n_alias = 1};
  return run(r, &call, out) &&
         jx_give(r, or_nan(r->b, succeeded(r->b, out[1], HL_WORD_direction_EQ), out[0]));
}

// One step of turning row exchanges into a permutation: rows i and pivots[i] change places. State: i, permutation,
// pivots.
static HlComp *exchange_body(Rule *r, const HlShape *state) {
  HlBuild b = hl_b_nested(r->b, "exchange");
  HlInst *tuple = hl_b_parameter(&b, state, "arg_tuple"), *e[3], *start[MAX_RANK];
  for (int k = 0; k < 3; k++)
    if (!(e[k] = hl_b_element(&b, tuple, k)))
      return NULL;
  const HlShape *s = e[1]->shape;
  int64_t sizes[MAX_RANK], dims[MAX_RANK], last = s->rank - 1;
  for (int d = 0; d < s->rank; d++) {
    start[d] = d < last ? hl_b_scalar_int(&b, HL_S32, 0) : e[0];
    sizes[d] = d < last ? s->dim[d] : 1;
    dims[d] = d;
  }
  const HlI64s batch = {dims, s->rank - 1}, on_last = {&last, 1};
  HlInst *pivot = hl_b_reshape(&b, hl_b_dynamic_slice(&b, e[2], start, sizes), s->rank - 1, s->dim);
  HlInst *here = hl_b_reshape(&b, hl_b_dynamic_slice(&b, e[1], start, sizes), s->rank - 1, s->dim);
  HlInst *number =
      hl_b_broadcast(&b, hl_b_iota(&b, HL_S32, 1, &s->dim[last], 0), s->rank, s->dim, on_last);
  HlInst *at_i = hl_b_compare(&b, HL_WORD_direction_EQ, number,
                              hl_b_broadcast(&b, e[0], s->rank, s->dim, (HlI64s){0}));
  HlInst *at_pivot = hl_b_compare(&b, HL_WORD_direction_EQ, number,
                                  hl_b_broadcast(&b, pivot, s->rank, s->dim, batch));
  HlInst *masked = hl_b_select(&b, at_pivot, e[1], hl_b_like_int(&b, e[1], 0));
  HlInst *there = hl_b_reduce(&b, HL_OP_ADD, masked, hl_b_scalar_int(&b, HL_S32, 0), on_last);
  HlInst *moved = hl_b_select(&b, at_pivot, hl_b_broadcast(&b, here, s->rank, s->dim, batch), e[1]);
  HlInst *next[] = {hl_b_binary(&b, HL_OP_ADD, e[0], hl_b_scalar_int(&b, HL_S32, 1)),
                    hl_b_select(&b, at_i, hl_b_broadcast(&b, there, s->rank, s->dim, batch), moved),
                    e[2]};
  HlInst *root = hl_b_tuple(&b, 3, next);
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

static HlComp *exchange_condition(Rule *r, const HlShape *state, int64_t n) {
  HlBuild b = hl_b_nested(r->b, "exchange_cond");
  HlInst *i = hl_b_element(&b, hl_b_parameter(&b, state, "arg_tuple"), 0);
  HlInst *root = hl_b_compare(&b, HL_WORD_direction_LT, i, hl_b_scalar_int(&b, HL_S32, n));
  if (!root)
    return NULL;
  hl_set_root(b.comp, root);
  return b.comp;
}

static HlInst *permutation_of(Rule *r, HlInst *pivots, int64_t m) {
  const HlShape *s = pivots->shape;
  const int64_t last = s->rank - 1;
  int64_t dim[MAX_RANK];
  for (int d = 0; d < last; d++)
    dim[d] = s->dim[d];
  dim[last] = m;
  HlInst *line = hl_b_iota(r->b, HL_S32, 1, &m, 0);
  HlInst *rows = last == 0 ? line : hl_b_broadcast(r->b, line, s->rank, dim, (HlI64s){&last, 1});
  HlInst *init[] = {hl_b_scalar_int(r->b, HL_S32, 0), rows, pivots},
         *tuple = hl_b_tuple(r->b, 3, init);
  HlComp *body = tuple ? exchange_body(r, tuple->shape) : NULL;
  HlComp *condition = body ? exchange_condition(r, tuple->shape, s->dim[last]) : NULL;
  return condition ? hl_b_element(r->b, hl_b_while(r->b, condition, body, tuple), 1) : NULL;
}

static bool lu_pivots_to_permutation(Rule *r) {
  int64_t m;
  if (!jx_want(r, 1) || !jx_param_int(r, "permutation_size", &m))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (s->rank == 0 || s->dtype != HL_S32 || m < s->dim[s->rank - 1])
    return jx_fail(r, "pivots are %s for %lld rows", jx_type_text(r->lo, s), (long long)m);
  return jx_give(r, permutation_of(r, r->in[0], m));
}

static bool lu(Rule *r) {
  Batch a;
  HlInst *out[3];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  const int64_t k = a.m < a.n ? a.m : a.n;
  Lapack call = {.target = target(r, HL_ROUTINE_GETRF, a.shape->dtype),
                 .config = "{}",
                 .n_in = 1,
                 .n_out = 3,
                 .in = {r->in[0]},
                 .out = {a.shape, vector_shape(r, &a, HL_S32, k), info_shape(r, &a)},
                 .n_alias = 1};
  if (!run(r, &call, out))
    return false;
  HlInst *pivots = hl_b_binary(r->b, HL_OP_SUBTRACT, out[1], hl_b_like_int(r->b, out[1], 1));
  HlInst *factors = or_nan(r->b, succeeded(r->b, out[2], HL_WORD_direction_GE), out[0]);
  return pivots && jx_give(r, factors) && jx_give(r, pivots) &&
         jx_give(r, permutation_of(r, pivots, a.m));
}

static bool run_geqrf(Rule *r, HlInst *x, HlInst *out[2]) {
  const HlShape *s = x->shape;
  const Batch a = {
      .shape = s, .n_batch = s->rank - 2, .m = s->dim[s->rank - 2], .n = s->dim[s->rank - 1]};
  Lapack call = {.target = target(r, HL_ROUTINE_GEQRF, s->dtype),
                 .config = "{}",
                 .n_in = 1,
                 .n_out = 2,
                 .in = {x},
                 .out = {s, vector_shape(r, &a, s->dtype, a.m < a.n ? a.m : a.n)},
                 .n_alias = 1};
  return run(r, &call, out);
}

static HlInst *run_orgqr(Rule *r, HlInst *x, HlInst *taus) {
  HlInst *out;
  if (!x || !taus)
    return NULL;
  Lapack call = {
      .target = target(r, HL_ROUTINE_ORGQR, x->shape->dtype),
      .config = "{}",
      .n_in = 2,
      .n_out = 1,
      .in = {x, taus},
      .out = {hl_shape_array(r->lo->m->shapes, x->shape->dtype, x->shape->rank, x->shape->dim)},
      .n_alias = 1};
  return run(r, &call, &out) ? out : NULL;
}

static bool run_geqp3(Rule *r, HlInst *x, HlInst *pivots, HlInst *out[3]) {
  const HlShape *s = x->shape;
  const Batch a = {
      .shape = s, .n_batch = s->rank - 2, .m = s->dim[s->rank - 2], .n = s->dim[s->rank - 1]};
  Lapack call = {.target = target(r, HL_ROUTINE_GEQP3, s->dtype),
                 .config = "{}",
                 .n_in = 2,
                 .n_out = 3,
                 .in = {x, pivots},
                 .out = {s, pivots->shape, vector_shape(r, &a, s->dtype, a.m < a.n ? a.m : a.n)},
                 .alias = {{0, 0}, {1, 1}},
                 .n_alias = 2};
  return run(r, &call, out);
}

static bool geqrf(Rule *r) {
  Batch a;
  HlInst *out[2];
  return jx_want(r, 1) && read_batch(r, 0, &a) && run_geqrf(r, r->in[0], out) &&
         jx_give(r, out[0]) && jx_give(r, out[1]);
}

static bool geqp3(Rule *r) {
  Batch a;
  HlInst *out[3];
  return jx_want(r, 2) && read_batch(r, 0, &a) && run_geqp3(r, r->in[0], r->in[1], out) &&
         jx_give(r, out[0]) && jx_give(r, out[1]) && jx_give(r, out[2]);
}

static bool householder_product(Rule *r) {
  Batch a;
  return jx_want(r, 2) && read_batch(r, 0, &a) && jx_give(r, run_orgqr(r, r->in[0], r->in[1]));
}

static bool ormqr(Rule *r) {
  Batch a, c;
  HlInst *out;
  if (!jx_want(r, 3) || !read_batch(r, 0, &a) || !read_batch(r, 2, &c))
    return false;
  Lapack call = {.target = target(r, HL_ROUTINE_ORMQR, a.shape->dtype),
                 .config = hl_arena_printf(r->lo->arena, "{left = %s, transpose = %s}",
                                           jx_param_flag(r, "left") ? "true" : "false",
                                           jx_param_flag(r, "transpose") ? "true" : "false"),
                 .n_in = 3,
                 .n_out = 1,
                 .in = {r->in[0], r->in[1], r->in[2]},
                 .out = {c.shape},
                 .alias = {{2, 0}},
                 .n_alias = 1};
  return run(r, &call, &out) && jx_give(r, out);
}

// The first rows and columns of matrices.
static HlInst *corner(HlBuild *b, HlInst *x, int64_t m, int64_t n) {
  x = x ? hl_b_slice_dim(b, x, x->shape->rank - 2, 0, m) : NULL;
  return x ? hl_b_slice_dim(b, x, x->shape->rank - 1, 0, n) : NULL;
}

// n columns of zeros more.
static HlInst *widen(Rule *r, HlInst *x, int64_t n) {
  const int rank = x->shape->rank;
  int64_t *high = jx_fill_ints(r, rank, 0), *low = jx_fill_ints(r, rank, 0);
  high[rank - 1] = n;
  return hl_b_pad(r->b, x, hl_b_scalar(r->b, x->shape->dtype, 0), low, high, NULL);
}

static bool qr(Rule *r) {
  Batch a;
  HlInst *out[3] = {NULL}, *q, *pivots = NULL;
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  if (a.m == 0 || a.n == 0)
    return jx_refuse(r, "of empty matrices");
  HlInst *taus;
  if (jx_param_flag(r, "pivoting")) {
    const HlShape *s = vector_shape(r, &a, HL_S32, a.n);
    HlInst *free_columns = hl_b_full(r->b, HL_S32, s->rank, s->dim, 0);
    if (!free_columns || !run_geqp3(r, r->in[0], free_columns, out))
      return false;
    pivots = hl_b_binary(r->b, HL_OP_SUBTRACT, out[1], hl_b_like_int(r->b, out[1], 1));
    taus = out[2];
  } else {
    if (!run_geqrf(r, r->in[0], out))
      return false;
    taus = out[1];
  }
  HlInst *upper = out[0];
  if (a.m < a.n) {
    q = run_orgqr(r, corner(r->b, upper, a.m, a.m), taus);
  } else if (jx_param_flag(r, "full_matrices")) {
    q = run_orgqr(r, a.m > a.n ? widen(r, upper, a.m - a.n) : upper, taus);
  } else {
    q = run_orgqr(r, upper, taus);
    upper = a.m > a.n ? corner(r->b, upper, a.n, a.n) : upper;
  }
  return jx_give(r, q) && jx_give(r, upper_triangle(r->b, upper)) &&
         (!jx_param_flag(r, "pivoting") || jx_give(r, pivots));
}

// --- Eigenvalues, singular values ----------------------------------------------------------------------------------------

static bool eigh(Rule *r) {
  Batch a;
  HlInst *out[3];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  const Value *lower = jx_param(r, "lower");
  Lapack call = {
      .target = target(r, HL_ROUTINE_SYEVD, a.shape->dtype),
      .config = !lower || jx_param_flag(r, "lower") ? "{mode = 86 : ui8, uplo = 76 : ui8}"
                                                    : "{mode = 86 : ui8, uplo = 85 : ui8}",
      .n_in = 1,
      .n_out = 3,
      .in = {r->in[0]},
      .out = {a.shape, vector_shape(r, &a, real_of(a.shape->dtype), a.n), info_shape(r, &a)},
      .n_alias = 1};
  HlI64s subset = {0};
  if (!jx_value_is_none(jx_param(r, "subset_by_index")) &&
      (!jx_param_ints(r, "subset_by_index", &subset) || subset.n != 2 || subset.at[0] != 0 ||
       subset.at[1] != a.n))
    return jx_refuse(r, "of part of the eigenvalues");
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[2], HL_WORD_direction_EQ);
  return jx_give(r, or_nan(r->b, ok, out[0])) && jx_give(r, or_nan(r->b, ok, out[1]));
}

static bool eig(Rule *r) {
  Batch a;
  HlInst *out[5];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  const HlDtype dtype = a.shape->dtype;
  const bool real = hl_is_float(dtype), left = jx_param_flag(r, "compute_left_eigenvectors"),
             right = jx_param_flag(r, "compute_right_eigenvectors");
  const HlShape *values = vector_shape(r, &a, dtype, a.n),
                *vectors = matrix_shape(r, &a, complex_of(dtype), a.m, a.n);
  Lapack call = {.target = target(r, HL_ROUTINE_GEEV, dtype),
                 .config = hl_arena_printf(r->lo->arena,
                                           "{compute_left = %d : ui8, compute_right = %d : ui8}",
                                           left ? 'V' : 'N', right ? 'V' : 'N'),
                 .n_in = 1,
                 .n_out = 4 + real,
                 .in = {r->in[0]},
                 .out = {values, values, vectors, vectors, info_shape(r, &a)}};
  if (!real) {
    call.out[1] = call.out[2] = vectors;
    call.out[3] = info_shape(r, &a);
  }
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[3 + real], HL_WORD_direction_EQ);
  HlInst *w = real ? hl_b_binary(r->b, HL_OP_COMPLEX, out[0], out[1]) : out[0];
  return jx_give(r, or_nan(r->b, ok, w)) &&
         (!left || jx_give(r, or_nan(r->b, ok, out[1 + real]))) &&
         (!right || jx_give(r, or_nan(r->b, ok, out[2 + real])));
}

static bool svd(Rule *r) {
  Batch a;
  HlInst *out[5];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  if (a.m == 0 || a.n == 0)
    return jx_refuse(r, "of empty matrices");
  const bool full = jx_param_flag(r, "full_matrices"), vectors = jx_param_flag(r, "compute_uv");
  const bool by_qr = jx_value_is(jx_param(r, "algorithm"), "QR");
  const int64_t k = a.m < a.n ? a.m : a.n;
  const HlDtype dtype = a.shape->dtype;
  Lapack call = {.target = target(r, by_qr ? HL_ROUTINE_GESVD : HL_ROUTINE_GESDD, dtype),
                 .config = hl_arena_printf(r->lo->arena, "{mode = %d : ui8}",
                                           !vectors ? 'N'
                                           : full   ? 'A'
                                                    : 'S'),
                 .n_in = 1,
                 .n_out = 5,
                 .in = {r->in[0]},
                 .out = {a.shape, vector_shape(r, &a, real_of(dtype), k),
                         matrix_shape(r, &a, dtype, a.m, full ? a.m : k),
                         matrix_shape(r, &a, dtype, full ? a.n : k, a.n), info_shape(r, &a)},
                 .n_alias = 1};
  HlI64s subset = {0};
  if (!jx_value_is_none(jx_param(r, "subset_by_index")) &&
      (!jx_param_ints(r, "subset_by_index", &subset) || subset.n != 2 || subset.at[0] != 0 ||
       subset.at[1] != k))
    return jx_refuse(r, "of part of the singular values");
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[4], HL_WORD_direction_EQ);
  return jx_give(r, or_nan(r->b, ok, out[1])) &&
         (!vectors ||
          (jx_give(r, or_nan(r->b, ok, out[2])) && jx_give(r, or_nan(r->b, ok, out[3]))));
}

static bool schur(Rule *r) {
  Batch a;
  HlInst *out[6];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  if (jx_param_flag(r, "sort_eig_vals"))
    return jx_refuse(r, "with sorted eigenvalues");
  const bool real = hl_is_float(a.shape->dtype),
             vectors = jx_param_flag(r, "compute_schur_vectors");
  const HlShape *values = vector_shape(r, &a, a.shape->dtype, a.n), *info = info_shape(r, &a);
  Lapack call = {.target = target(r, HL_ROUTINE_GEES, a.shape->dtype),
                 .config = vectors ? "{mode = 86 : ui8, sort = 78 : ui8}"
                                   : "{mode = 78 : ui8, sort = 78 : ui8}",
                 .n_in = 1,
                 .n_out = 5 + real,
                 .in = {r->in[0]},
                 .out = {a.shape, a.shape, values, real ? values : info, info, info},
                 .n_alias = 1};
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[4 + real], HL_WORD_direction_EQ);
  return jx_give(r, or_nan(r->b, ok, out[0])) && (!vectors || jx_give(r, or_nan(r->b, ok, out[1])));
}

static bool hessenberg(Rule *r) {
  Batch a;
  HlInst *out[3];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  if (a.n == 0)
    return jx_refuse(r, "of empty matrices");
  Lapack call = {
      .target = target(r, HL_ROUTINE_GEHRD, a.shape->dtype),
      .config = hl_arena_printf(r->lo->arena, "{high = %lld : i32, low = 1 : i32}", (long long)a.n),
      .n_in = 1,
      .n_out = 3,
      .in = {r->in[0]},
      .out = {a.shape, vector_shape(r, &a, a.shape->dtype, a.n - 1), info_shape(r, &a)},
      .n_alias = 1};
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[2], HL_WORD_direction_EQ);
  return jx_give(r, or_nan(r->b, ok, out[0])) && jx_give(r, or_nan(r->b, ok, out[1]));
}

static bool tridiagonal(Rule *r) {
  Batch a;
  HlInst *out[5];
  if (!jx_want(r, 1) || !read_batch(r, 0, &a))
    return false;
  if (a.n == 0)
    return jx_refuse(r, "of empty matrices");
  const HlDtype dtype = a.shape->dtype;
  Lapack call = {.target = target(r, HL_ROUTINE_SYTRD, dtype),
                 .config = jx_param_flag(r, "lower") ? "{uplo = 76 : ui8}" : "{uplo = 85 : ui8}",
                 .n_in = 1,
                 .n_out = 5,
                 .in = {r->in[0]},
                 .out = {a.shape, vector_shape(r, &a, real_of(dtype), a.n),
                         vector_shape(r, &a, real_of(dtype), a.n - 1),
                         vector_shape(r, &a, dtype, a.n - 1), info_shape(r, &a)},
                 .n_alias = 1};
  if (!run(r, &call, out))
    return false;
  HlInst *ok = succeeded(r->b, out[4], HL_WORD_direction_EQ);
  for (int k = 0; k < 4; k++)
    if (!jx_give(r, or_nan(r->b, ok, out[k])))
      return false;
  return true;
}

// --- Solvers -----------------------------------------------------------------------------------------------------------

static HlInst *conjugate(HlBuild *b, HlInst *x) {
  if (!hl_is_complex(x->shape->dtype))
    return x;
  HlInst *re = hl_b_unary(b, HL_OP_REAL, x), *im = hl_b_unary(b, HL_OP_IMAG, x);
  return hl_b_binary(b, HL_OP_COMPLEX, re, hl_b_unary(b, HL_OP_NEGATE, im));
}

static bool triangular_solve(Rule *r) {
  Batch a, b;
  HlInst *out, *matrix;
  if (!jx_want(r, 2) || !read_batch(r, 0, &a) || !read_batch(r, 1, &b))
    return false;
  const bool left = jx_param_flag(r, "left_side"), lower = jx_param_flag(r, "lower"),
             unit = jx_param_flag(r, "unit_diagonal"), transposed = jx_param_flag(r, "transpose_a");
  bool conjugated = jx_param_flag(r, "conjugate_a");
  matrix = r->in[0];
  if (conjugated && !transposed) {
    matrix = conjugate(r->b, matrix);
    conjugated = false;
  }
  const HlDtype dtype = a.shape->dtype;
  if (dtype == HL_F32 || dtype == HL_F64 || hl_is_complex(dtype)) {
    Lapack call = {.target = target(r, HL_ROUTINE_TRSM, dtype),
                   .config = hl_arena_printf(
                       r->lo->arena,
                       "{diag = %d : ui8, side = %d : ui8, trans_x = %d : ui8, uplo = %d : ui8}",
                       unit ? 'U' : 'N', left ? 'L' : 'R',
                       transposed ? (conjugated ? 'C' : 'T') : 'N', lower ? 'L' : 'U'),
                   .n_in = 2,
                   .n_out = 1,
                   .in = {matrix, r->in[1]},
                   .out = {b.shape},
                   .alias = {{1, 0}},
                   .n_alias = 1};
    return run(r, &call, &out) && jx_give(r, out);
  }
  HlInst *operands[] = {matrix, r->in[1]};
  const int64_t transpose = !transposed  ? HL_WORD_transpose_a_NO_TRANSPOSE
                            : conjugated ? HL_WORD_transpose_a_ADJOINT
                                         : HL_WORD_transpose_a_TRANSPOSE;
  HlAttr attrs[] = {{.key = HL_A_LEFT_SIDE, .i = left},
                    {.key = HL_A_LOWER, .i = lower},
                    {.key = HL_A_UNIT_DIAGONAL, .i = unit},
                    {.key = HL_A_TRANSPOSE_A, .i = transpose}};
  return jx_give(r, hl_b_op(r->b, HL_OP_TRIANGULAR_SOLVE, NULL, 2, operands, 4, attrs, 0, NULL));
}

static bool tridiagonal_solve(Rule *r) {
  Batch b;
  HlInst *out[5];
  if (!jx_want(r, 4) || !read_batch(r, 3, &b))
    return false;
  if (jx_param_flag(r, "perturb_singular"))
    return jx_refuse(r, "with perturbation of singular systems");
  Lapack call = {.target = target(r, HL_ROUTINE_GTSV, b.shape->dtype),
                 .config = "{}",
                 .n_in = 4,
                 .n_out = 5,
                 .out = {[4] = info_shape(r, &b)},
                 .alias = {{0, 0}, {1, 1}, {2, 2}, {3, 3}},
                 .n_alias = 4};
  for (int k = 0; k < 4; k++) {
    call.in[k] = r->in[k];
    call.out[k] = r->in[k]->shape;
  }
  return run(r, &call, out) &&
         jx_give(r, or_nan(r->b, succeeded(r->b, out[4], HL_WORD_direction_EQ), out[3]));
}

const Row jx_linalg_rows[] = {{"cholesky", cholesky, 0, NULL},
                              {"lu", lu, 0, NULL},
                              {"lu_pivots_to_permutation", lu_pivots_to_permutation, 0, NULL},
                              {"geqrf", geqrf, 0, NULL},
                              {"geqp3", geqp3, 0, NULL},
                              {"householder_product", householder_product, 0, NULL},
                              {"ormqr", ormqr, 0, NULL},
                              {"qr", qr, 0, NULL},
                              {"eigh", eigh, 0, NULL},
                              {"eig", eig, 0, NULL},
                              {"svd", svd, 0, NULL},
                              {"schur", schur, 0, NULL},
                              {"hessenberg", hessenberg, 0, NULL},
                              {"tridiagonal", tridiagonal, 0, NULL},
                              {"triangular_solve", triangular_solve, 0, NULL},
                              {"tridiagonal_solve", tridiagonal_solve, 0, NULL},
                              {NULL, NULL, 0, NULL}};
