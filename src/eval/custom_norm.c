// eval/custom_norm.c: __cudnn$norm, layer normalisation in programs compiled for GPUs.
//
//   forward   (x, scale, bias) -> y, and perhaps of each row the mean m and the factor r
//   backward  (x, scale, dy, m, r) -> dx, dscale, dbias
//
// Rows are along the first dimension of x: each is normalised by itself, y = (x - m) * r * scale + bias with
// r = 1 / sqrt(variance + epsilon). The last result is a work space.

#include <math.h>

#include "base/memory.h"
#include "eval/custom.h"
#include "ir/backend_config.h"

typedef struct Rows {
  int64_t n, length;
  uint32_t *steps;  // how many elements were read
} Rows;

static double at(const HlLiteral *literal, Rows rows, int64_t row, int64_t k) {
  base_look_often(rows.steps);
  return hl_literal_f64(literal, row * rows.length + k);
}

static double mean_of(const HlLiteral *x, Rows rows, int64_t row) {
  double sum = 0;
  for (int64_t k = 0; k < rows.length; k++)
    sum += at(x, rows, row, k);
  return sum / (double)rows.length;
}

static double variance_of(const HlLiteral *x, Rows rows, int64_t row, double mean) {
  double sum = 0;
  for (int64_t k = 0; k < rows.length; k++)
    sum += (at(x, rows, row, k) - mean) * (at(x, rows, row, k) - mean);
  return sum / (double)rows.length;
}

static void forward(const HlLiteral *const *operand, Rows rows, double epsilon, HlLiteral *y,
                    HlLiteral *means, HlLiteral *factors) {
  for (int64_t row = 0; row < rows.n; row++) {
    const double mean = mean_of(operand[0], rows, row);
    const double factor = 1 / sqrt(variance_of(operand[0], rows, row, mean) + epsilon);
    for (int64_t k = 0; k < rows.length; k++)
      hl_literal_set_f64(y, row * rows.length + k,
                         (at(operand[0], rows, row, k) - mean) * factor *
                                 hl_literal_f64(operand[1], k) +
                             hl_literal_f64(operand[2], k));
    if (means) {
      hl_literal_set_f64(means, row, mean);
      hl_literal_set_f64(factors, row, factor);
    }
  }
}

// Of one row of x: what it is, normalised, and how much each element of it counts.
typedef struct Gradient {
  const HlLiteral *x, *scale, *dy;
  double mean, factor;
} Gradient;

static double normalised(const Gradient *g, Rows rows, int64_t row, int64_t k) {
  return (at(g->x, rows, row, k) - g->mean) * g->factor;
}

static double scaled(const Gradient *g, Rows rows, int64_t row, int64_t k) {
  return at(g->dy, rows, row, k) * hl_literal_f64(g->scale, k);
}

static void backward_row(const Gradient *g, Rows rows, int64_t row, HlLiteral *dx) {
  double sum = 0, sum_along = 0;
  for (int64_t k = 0; k < rows.length; k++) {
    sum += scaled(g, rows, row, k);
    sum_along += scaled(g, rows, row, k) * normalised(g, rows, row, k);
  }
  sum /= (double)rows.length;
  sum_along /= (double)rows.length;
  for (int64_t k = 0; k < rows.length; k++)
    hl_literal_set_f64(
        dx, row * rows.length + k,
        g->factor * (scaled(g, rows, row, k) - sum - normalised(g, rows, row, k) * sum_along));
}

static Gradient gradient_of(const HlLiteral *const *operand, int64_t row) {
  return (Gradient){operand[0], operand[1], operand[2], hl_literal_f64(operand[3], row),
                    hl_literal_f64(operand[4], row)};
}

static void backward(const HlLiteral *const *operand, Rows rows, HlLiteral *dx, HlLiteral *dscale,
                     HlLiteral *dbias) {
  for (int64_t row = 0; row < rows.n; row++) {
    const Gradient g = gradient_of(operand, row);
    backward_row(&g, rows, row, dx);
  }
  for (int64_t k = 0; k < rows.length; k++) {
    double along = 0, sum = 0;
    for (int64_t row = 0; row < rows.n; row++) {
      const Gradient g = gradient_of(operand, row);
      along += at(g.dy, rows, row, k) * normalised(&g, rows, row, k);
      sum += at(g.dy, rows, row, k);
    }
    hl_literal_set_f64(dscale, k, along);
    hl_literal_set_f64(dbias, k, sum);
  }
}

static bool has_floats(const HlLiteral *literal, int64_t n) {
  return literal && hl_shape_is_array(literal->shape) && hl_is_float(literal->shape->dtype) &&
         literal->n == n;
}

static bool fits(const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out, Rows rows) {
  const bool is_backward = inst->n_operands == 5;
  const int64_t all = rows.n * rows.length;
  const int64_t in_sizes[] = {all, rows.length, is_backward ? all : rows.length, rows.n, rows.n};
  const int64_t out_sizes[] = {all, is_backward ? rows.length : rows.n,
                               is_backward ? rows.length : rows.n};
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!has_floats(operand[k], in_sizes[k]))
      return false;
  for (int k = 0; k < custom_result_count(out) - 1; k++)
    if (!has_floats(custom_result(out, k), out_sizes[k]))
      return false;
  return true;
}

bool custom_norm(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  const int n_results = custom_result_count(out);
  const bool is_backward = inst->n_operands == 5 && n_results == 4;
  const bool is_forward = inst->n_operands == 3 && (n_results == 2 || n_results == 4);
  if ((!is_forward && !is_backward) || !hl_shape_is_array(operand[0]->shape) ||
      operand[0]->shape->rank < 1)
    return hl_inst_error(in->ev.cx, inst, "expected rows, scale and bias, or those of a gradient");
  uint32_t steps = 0;
  Rows rows = {.n = operand[0]->shape->dim[0], .steps = &steps};
  rows.length = rows.n > 0 ? operand[0]->n / rows.n : 0;
  if (!fits(inst, operand, out, rows))
    return hl_inst_error(in->ev.cx, inst, "the sizes do not fit rows of %lld elements",
                         (long long)rows.length);
  HlLiteral *first = custom_result(out, 0), *second = custom_result(out, 1);
  if (is_backward)
    backward(operand, rows, first, second, custom_result(out, 2));
  else
    forward(operand, rows, hl_norm_config(NULL, inst).epsilon, first,
            n_results == 4 ? second : NULL, n_results == 4 ? custom_result(out, 2) : NULL);
  return true;
}
