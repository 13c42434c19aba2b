// op/ragged_dot.c: ragged-dot: dots over groups whose sizes are known at run time.
//
// Where the ragged dimension stands in the lhs decides what groups are: of rows (each group has its
// own rhs), of the contracted dimension (each group gives a result of its own), or of batches (the
// groups then change nothing). Rows in no group are 0.

#include "base/memory.h"
#include "op/matmul.h"

typedef struct Ragged {
  HlEval *ev;
  const HlInst *inst;
  Wide wide;
  DotSide lhs, rhs;
  const HlLiteral *sizes;
  int64_t dim;  // ragged, of the lhs
  int64_t n_groups;
  HlLiteral *out;
} Ragged;

// Size of group g in row `row` of `rows` rows of sizes (one row stands for all), kept within
// `left`.
static int64_t group_size(const Ragged *r, int64_t row, int64_t rows, int64_t g, int64_t left) {
  const int64_t given = r->sizes->n / r->n_groups;
  const int64_t at = (given >= rows ? row : given > 1 ? row * given / rows : 0) * r->n_groups + g;
  const int64_t size = hl_literal_i64(r->sizes, at);
  return size < 0 ? 0 : size < left ? size : left;
}

// [b, m, k] x [b, g, k, n] -> [b, m, n]; m is outer x ragged x inner.
static bool ragged_rows(Ragged *r, HlI64s rows) {
  HlArena *arena = hl_cx_scratch(r->ev->cx);
  const HlI64s group = hl_attr_ints(r->inst, HL_A_RHS_GROUP_DIMS);
  if (!kernel_check_dims(r->ev, r->inst, group, r->rhs.shape->rank) || group.n != 1 ||
      r->rhs.shape->dim[group.at[0]] != r->n_groups)
    return hl_inst_error(r->ev->cx, r->inst,
                         "the group dimension of the rhs does not fit the group sizes");
  int64_t *other = HL_ARRAY(arena, int64_t, r->rhs.shape->rank + 1);
  int n_other = 0;
  for (int k = 0; k < r->rhs.batch.n; k++)
    other[n_other++] = r->rhs.batch.at[k];
  if (hl_i64s_find((HlI64s){other, n_other}, group.at[0]) < 0)
    other[n_other++] = group.at[0];
  const HlI64s lead = {other, n_other};
  const HlI64s columns = kernel_other_dims(arena, r->rhs.shape->rank, lead, r->rhs.contracting);
  const int64_t m = dot_size(r->lhs.shape, rows), n = dot_size(r->rhs.shape, columns);
  const int64_t k = dot_size(r->lhs.shape, r->lhs.contracting),
                batches = dot_size(r->lhs.shape, r->lhs.batch);
  const int at = hl_i64s_find(rows, r->dim);
  const int64_t outer = dot_size(r->lhs.shape, (HlI64s){rows.at, at});
  const int64_t inner = dot_size(r->lhs.shape, (HlI64s){rows.at + at + 1, rows.n - at - 1});
  const int64_t length = r->lhs.shape->dim[r->dim];
  const size_t bytes = wide_bytes(r->wide);
  char *a = dot_arrange(r->ev, r->inst, r->wide, &r->lhs, r->lhs.batch, rows, r->lhs.contracting);
  char *b =
      a ? dot_arrange(r->ev, r->inst, r->wide, &r->rhs, lead, r->rhs.contracting, columns) : NULL;
  char *c = b ? kernel_alloc(r->ev, r->inst, m * n, bytes) : NULL;
  for (int64_t i = 0; c && i < batches * outer; i++) {
    base_look();
    int64_t first = 0;
    for (int64_t g = 0; g < r->n_groups; g++) {
      const int64_t size = group_size(r, i, batches * outer, g, length - first);
      const int64_t row = (i * length + first) * inner;  // batches x outer x ragged x inner
      matmul(r->wide, size * inner, k, n, a + (size_t)(row * k) * bytes, k,
             b + (size_t)((i / outer * r->n_groups + g) * k * n) * bytes, c);
      wide_store(r->out, row * n, r->wide, c, size * inner * n);
      first += size;
    }
  }
  const bool ok = c != NULL;
  base_free(a);
  base_free(b);
  base_free(c);
  return ok;
}

// [b, m, k] x [b, k, n] -> [g, b, m, n], the ragged dimension outermost in k.
static bool ragged_contraction(Ragged *r, HlI64s rows) {
  HlArena *arena = hl_cx_scratch(r->ev->cx);
  const HlI64s columns =
      kernel_other_dims(arena, r->rhs.shape->rank, r->rhs.batch, r->rhs.contracting);
  const int n_contracting = r->lhs.contracting.n, at = hl_i64s_find(r->lhs.contracting, r->dim);
  int64_t *of_lhs = HL_ARRAY(arena, int64_t, n_contracting),
          *of_rhs = HL_ARRAY(arena, int64_t, n_contracting);
  for (int k = 0; k < n_contracting; k++) {
    const int from = k == 0 ? at : k <= at ? k - 1 : k;
    of_lhs[k] = r->lhs.contracting.at[from];
    of_rhs[k] = r->rhs.contracting.at[from];
  }
  const int64_t m = dot_size(r->lhs.shape, rows), n = dot_size(r->rhs.shape, columns);
  const int64_t k = dot_size(r->lhs.shape, r->lhs.contracting),
                batches = dot_size(r->lhs.shape, r->lhs.batch);
  const int64_t length = r->lhs.shape->dim[r->dim], inner = length > 0 ? k / length : 0;
  const size_t bytes = wide_bytes(r->wide);
  char *a = dot_arrange(r->ev, r->inst, r->wide, &r->lhs, r->lhs.batch, rows,
                        (HlI64s){of_lhs, n_contracting});
  char *b = a ? dot_arrange(r->ev, r->inst, r->wide, &r->rhs, r->rhs.batch,
                            (HlI64s){of_rhs, n_contracting}, columns)
              : NULL;
  char *c = b ? kernel_alloc(r->ev, r->inst, m * n, bytes) : NULL;
  for (int64_t i = 0; c && i < batches; i++) {
    base_look();
    int64_t first = 0;
    for (int64_t g = 0; g < r->n_groups; g++) {
      const int64_t size = group_size(r, i, batches, g, length - first);
      matmul(r->wide, m, size * inner, n, a + (size_t)(i * m * k + first * inner) * bytes, k,
             b + (size_t)((i * k + first * inner) * n) * bytes, c);
      wide_store(r->out, (g * batches + i) * m * n, r->wide, c, m * n);
      first += size;
    }
  }
  const bool ok = c != NULL;
  base_free(a);
  base_free(b);
  base_free(c);
  return ok;
}

static bool ragged_product(Ragged *r) {
  HlArena *arena = hl_cx_scratch(r->ev->cx);
  if (hl_i64s_find(r->lhs.batch, r->dim) >= 0)
    return dot_product(r->ev, r->inst, r->wide, &r->lhs, &r->rhs, r->out);
  const HlI64s rows =
      kernel_other_dims(arena, r->lhs.shape->rank, r->lhs.batch, r->lhs.contracting);
  return hl_i64s_find(r->lhs.contracting, r->dim) >= 0 ? ragged_contraction(r, rows)
                                                       : ragged_rows(r, rows);
}

bool eval_ragged_dot(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s ragged = hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS);
  Ragged r = {
      .ev = ev, .inst = inst, .wide = wide_of(out->shape->dtype), .sizes = in[2], .out = out};
  const HlShape *sizes = in[2]->shape;
  r.n_groups = sizes->rank > 0 ? sizes->dim[sizes->rank - 1] : 0;
  if (ragged.n != 1 || !kernel_check_dims(ev, inst, ragged, in[0]->shape->rank) || r.n_groups < 1)
    return hl_inst_error(ev->cx, inst, "ragged-dot needs one ragged dimension and group sizes");
  r.dim = ragged.at[0];
  if (!dot_sides(ev, inst, in, r.wide, &r.lhs, &r.rhs))
    return false;
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const bool ok = ragged_product(&r);
  hl_arena_release(arena, mark);
  base_free(r.lhs.data);
  base_free(r.rhs.data);
  return ok;
}
