// op/reduce.c: reduce: folds dimensions by a scalar computation.
//
// The operand is read once in memory order. Its dimensions are grouped into alternating runs of
// kept and reduced ones, so that the innermost loop either folds a run into one accumulator or adds
// a row to a row of accumulators; every accumulator sees its elements in row-major order. Three
// ways: a simple op folds wide values; other scalar computations run on a machine; what machines
// cannot do goes to the interpreter, one call for all accumulators at each reduced position.

#include <string.h>

#include "base/memory.h"
#include "op/fold.h"
#include "op/machine.h"

// Where the accumulator of each element stands: grouped dimensions with strides into the result.
typedef struct Groups {
  int rank;  // of the groups before the innermost
  int64_t *dim;
  int64_t *stride;  // 0: reduced
  int64_t run;      // length of the innermost group
  bool run_is_reduced;
} Groups;

static Groups group_dims(HlArena *arena, const HlShape *shape, HlI64s reduced) {
  int64_t *dim = HL_ARRAY(arena, int64_t, shape->rank + 1);
  bool *folds = HL_ARRAY(arena, bool, shape->rank + 1);
  int n = 0;
  for (int d = 0; d < shape->rank; d++) {
    const bool fold = hl_i64s_find(reduced, d) >= 0;
    if (shape->dim[d] == 1)
      continue;
    if (n > 0 && folds[n - 1] == fold) {
      dim[n - 1] *= shape->dim[d];
    } else {
      dim[n] = shape->dim[d];
      folds[n++] = fold;
    }
  }
  if (n == 0) {
    dim[0] = 1;
    folds[n++] = true;
  }
  int64_t *stride = HL_ARRAY(arena, int64_t, n);
  int64_t step = 1;
  for (int g = n - 1; g >= 0; g--) {
    stride[g] = folds[g] ? 0 : step;
    step *= folds[g] ? 1 : dim[g];
  }
  return (Groups){n - 1, dim, stride, dim[n - 1], folds[n - 1]};
}

enum { BLOCK = 2048 };

// Simple ops: blocks of elements are widened, then folded run by run. The initial values repeat
// over the results: one, or the two parts of a complex number.
static bool reduce_simple(HlEval *ev, const HlInst *inst, HlOp op, const HlLiteral *x,
                          const HlLiteral *init, const Groups *groups, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlDtype dtype = x->shape->dtype, wide = wide_dtype(wide_of(dtype));
  const size_t bytes = (size_t)hl_dtype_bytes(dtype);
  Slot *acc = kernel_alloc(ev, inst, out->n, sizeof *acc);
  if (!acc)
    return false;
  uint32_t blocks = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&blocks);
    acc[k] = slot_load(dtype, init->data, k % init->n);
  }
  HlWalk walk;
  const int64_t *const strides[] = {groups->stride};
  hl_walk_start(&walk, arena, groups->rank, groups->dim, 1, strides);
  Slot block[BLOCK];
  int64_t in_run = 0;
  for (int64_t at = 0; at < x->n; at += BLOCK) {
    const int64_t n = x->n - at < BLOCK ? x->n - at : BLOCK;
    base_look_often(&blocks);
    hl_convert_elements(wide, block, dtype, (const char *)x->data + (size_t)at * bytes, n);
    for (int64_t k = 0; k < n;) {
      const int64_t left = groups->run - in_run, take = left < n - k ? left : n - k;
      Slot *to = acc + walk.offset[0];
      if (groups->run_is_reduced)
        *to = fold_run(op, dtype, *to, block + k, take);
      else
        fold_vectors(op, dtype, to + in_run, block + k, take);
      k += take;
      in_run += take;
      if (in_run == groups->run) {
        in_run = 0;
        hl_walk_next(&walk);
      }
    }
  }
  wide_store(out, 0, wide_of(dtype), acc, out->n);
  base_free(acc);
  return true;
}

// Sums of complex numbers are sums of pairs: one more kept dimension of two.
static bool reduce_complex_sum(HlEval *ev, const HlInst *inst, const HlLiteral *x,
                               const HlLiteral *init, HlI64s reduced, HlLiteral *out) {
  HlLiteral parts[3];
  HlShape shapes[3];
  const HlLiteral *whole[3] = {x, init, out};
  for (int k = 0; k < 3; k++)
    fold_as_parts(hl_cx_scratch(ev->cx), whole[k], &parts[k], &shapes[k]);
  const Groups groups = group_dims(hl_cx_scratch(ev->cx), parts[0].shape, reduced);
  return reduce_simple(ev, inst, HL_OP_ADD, &parts[0], &parts[1], &groups, &parts[2]);
}

// Any scalar computation that a machine can run, with any number of operands.
static bool reduce_machine(HlEval *ev, const HlInst *inst, Machine *m, int n,
                           const HlLiteral *const *in, const Groups *groups, HlLiteral *out) {
  const int64_t n_acc = kernel_result(out, 0)->n;
  Cell *acc = kernel_alloc(ev, inst, n_acc, sizeof *acc * (size_t)n);
  if (!acc)
    return false;
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < n_acc; i++)
      acc[i * n + k] = cell_load(m->param_dtype[k], in[n + k]->data, 0);
  HlWalk walk;
  const int64_t *const strides[] = {groups->stride};
  hl_walk_start(&walk, hl_cx_scratch(ev->cx), groups->rank, groups->dim, 1, strides);
  const int64_t step = groups->run_is_reduced ? 0 : 1;
  uint32_t elements = 0;
  for (int64_t at = 0; at < in[0]->n; hl_walk_next(&walk)) {
    for (int64_t i = 0; i < groups->run; i++, at++) {
      base_look_often(&elements);
      Cell *mine = acc + (walk.offset[0] + i * step) * n;
      for (int k = 0; k < n; k++) {
        m->cell[k] = mine[k];
        m->cell[n + k] = cell_load(m->param_dtype[n + k], in[k]->data, at);
      }
      machine_run(m);
      for (int k = 0; k < n; k++)
        mine[k] = machine_result(m, k);
    }
  }
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < n_acc; i++)
      cell_store(m->result_dtype[k], kernel_result(out, k)->data, i, acc[i * n + k]);
  base_free(acc);
  return true;
}

// --- Through the interpreter --------------------------------------------------------------------

// The operands as matrices: a row per reduced position, a column per result.
typedef struct Rows {
  int n;
  int64_t rows, columns;
  HlLiteral **x;            // n vectors of rows x columns
  HlLiteral **acc, **part;  // n each: vectors of columns; scratch
} Rows;

static bool make_rows(HlEval *ev, const HlLiteral *const *in, HlI64s reduced, Rows *r) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlShape *shape = in[0]->shape;
  const HlI64s kept = kernel_other_dims(arena, shape->rank, reduced, (HlI64s){0});
  const HlI64s folded = kernel_other_dims(arena, shape->rank, kept, (HlI64s){0});
  int64_t *all = HL_ARRAY(arena, int64_t, shape->rank + 1);
  int64_t *dim = HL_ARRAY(arena, int64_t, shape->rank + 1);
  int64_t *from = HL_ARRAY(arena, int64_t, shape->rank + 1);
  int64_t *to = HL_ARRAY(arena, int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, all);
  for (int k = 0; k < shape->rank; k++) {
    const int64_t d = k < folded.n ? folded.at[k] : kept.at[k - folded.n];
    dim[k] = shape->dim[d];
    from[k] = all[d];
  }
  hl_strides(shape->rank, dim, to);
  for (int k = 0; k < r->n; k++) {
    const HlDtype dtype = in[k]->shape->dtype;
    r->x[k] = kernel_vector(ev, dtype, in[k]->n);
    r->acc[k] = r->x[k] ? kernel_vector(ev, dtype, r->columns) : NULL;
    if (!r->acc[k])
      return false;
    move_box(ev->cx, hl_dtype_bytes(dtype), shape->rank, dim, (Side){r->x[k]->data, to},
             (Side){in[k]->data, from});
    fill_elements(r->acc[k]->data, r->columns, in[r->n + k]->data, hl_dtype_bytes(dtype));
  }
  return true;
}

// Copies rows first, first + step, ... of x into a new vector; NULL after reporting.
static HlLiteral *pick_rows(HlEval *ev, const HlLiteral *x, int64_t columns, int64_t first,
                            int64_t step, int64_t count) {
  const size_t row = (size_t)(columns * hl_dtype_bytes(x->shape->dtype));
  HlLiteral *out = kernel_vector(ev, x->shape->dtype, count * columns);
  for (int64_t k = 0; out && k < count; k++)
    memcpy((char *)out->data + (size_t)k * row, (char *)x->data + (size_t)(first + k * step) * row,
           row);
  return out;
}

// Folds rows 0 and 1, 2 and 3, ...: half as many.
static bool fold_pairs(HlEval *ev, const HlComp *comp, Rows *r) {
  const int64_t half = r->rows / 2, odd = r->rows % 2;
  HlLiteral **left = HL_ARRAY(hl_cx_scratch(ev->cx), HlLiteral *, r->n);
  bool ok = true;
  for (int k = 0; k < r->n && ok; k++) {
    left[k] = pick_rows(ev, r->x[k], r->columns, 0, 2, half);
    r->part[k] = left[k] ? pick_rows(ev, r->x[k], r->columns, 1, 2, half) : NULL;
    ok = r->part[k] != NULL;
  }
  ok = ok && fold_call(ev, comp, left, r->n, r->part, r->n);
  for (int k = 0; k < r->n; k++) {
    hl_literal_unref(r->part[k]);
    r->part[k] = NULL;
    if (ok) {  // the results, then the row left over
      const size_t row = (size_t)(r->columns * hl_dtype_bytes(left[k]->shape->dtype));
      char *x = r->x[k]->data;
      memcpy(x, left[k]->data, (size_t)half * row);
      if (odd)
        memmove(x + (size_t)half * row, x + (size_t)(r->rows - 1) * row, row);
    }
    hl_literal_unref(left[k]);
  }
  r->rows = half + odd;
  return ok;
}

// One call for all results at each reduced position. Where those are many, neighbours are folded
// first: like XLA, this takes the computation to be associative.
static bool reduce_calls(HlEval *ev, const HlInst *inst, int n, const HlLiteral *const *in,
                         HlI64s reduced, HlLiteral *out) {
  enum { MANY = 64 };
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlComp *comp = hl_to_apply(inst);
  const int64_t columns = kernel_result(out, 0)->n;
  if (columns == 0)
    return true;
  Rows r = {.n = n, .rows = in[0]->n / columns, .columns = columns};
  r.x = HL_ARRAY(arena, HlLiteral *, 3 * n);
  r.acc = r.x + n;
  r.part = r.acc + n;
  bool ok = make_rows(ev, in, reduced, &r);
  while (ok && r.rows >= MANY)
    ok = fold_pairs(ev, comp, &r);
  for (int64_t row = 0; ok && row < r.rows; row++) {
    for (int k = 0; k < n && ok; k++)
      ok = (r.part[k] = pick_rows(ev, r.x[k], columns, row, 1, 1)) != NULL;
    ok = ok && fold_call(ev, comp, r.acc, n, r.part, n);
    for (int k = 0; k < n; k++) {
      hl_literal_unref(r.part[k]);
      r.part[k] = NULL;
    }
  }
  for (int k = 0; k < n; k++) {
    HlLiteral *to = kernel_result(out, k);
    if (ok)
      memcpy(to->data, r.acc[k]->data, (size_t)(columns * hl_dtype_bytes(to->shape->dtype)));
    hl_literal_unref(r.acc[k]);
    hl_literal_unref(r.x[k]);
  }
  return ok;
}

// --- The kernel ---------------------------------------------------------------------------------

bool eval_reduce(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const int n = (int)inst->n_operands / 2;
  const HlI64s reduced = hl_dims(inst);
  const HlComp *comp = hl_to_apply(inst);
  if (!kernel_check_dims(ev, inst, reduced, in[0]->shape->rank))
    return false;
  if (n < 1 || comp->n_params != 2 * n)
    return hl_inst_error(ev->cx, inst, "reduce needs a computation of two parameters per operand");
  const HlMark mark = hl_arena_mark(arena);
  const Groups groups = group_dims(arena, in[0]->shape, reduced);
  const HlOp op = fold_simple_op(comp);
  bool ok;
  Machine *m;
  if (n == 1 && fold_is_wide(op, in[0]->shape->dtype))
    ok = reduce_simple(ev, inst, op, in[0], in[1], &groups, out);
  else if (n == 1 && op == HL_OP_ADD && hl_is_complex(in[0]->shape->dtype))
    ok = reduce_complex_sum(ev, inst, in[0], in[1], reduced, out);
  else if ((m = machine_new(arena, comp)) && machine_folds(m, n, in, out))
    ok = reduce_machine(ev, inst, m, n, in, &groups, out);
  else
    ok = reduce_calls(ev, inst, n, in, reduced, out);
  hl_arena_release(arena, mark);
  return ok;
}
