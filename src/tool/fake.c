// tool/fake.c: inputs made up for a program, the same on every machine.
//
// The generator is splitmix64, started for each parameter from the seed and the parameter's number,
// so that one parameter's values do not depend on the others. Leaves of a tuple follow each other;
// elements are drawn in row-major order. Free values: floats uniform in [-0.1, 0.2), integers over the
// whole type, predicates by a fair coin. Factors of sums of n products, if these are many, are uniform in +-sqrt(6/n): then the values
// of deep networks neither grow beyond all numbers nor die out (He et al., Delving Deep into Rectifiers, 2015). What uses ask for
// (fake_analyse) narrows that.

#include "tool/fake.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

#include "hilo/cost.h"
#include "hilo/edit.h"
#include "hilo/tool.h"

static const double free_lo = -0.1, free_hi = 0.2, away = 0.02;

// Sums of so few products stay small with what is drawn freely, whose mean is 0.05.
enum { FEW_TERMS = 20 };

// Where floats are drawn: the usual interval if it lies inside what is wanted, else one of its length next to it.
static Range float_interval(Need n) {
  const bool is_factor = (n.flags & NEED_FACTOR) && n.terms > FEW_TERMS;
  const double most = is_factor ? sqrt(6 / n.terms) : INFINITY;
  if (is_factor && !(n.flags & NEED_HARD) && n.lo <= -most && n.hi >= most)
    return (Range){-most, most};
  double lo = fmax(free_lo, n.lo), hi = fmin(free_hi, n.hi);
  if ((n.flags & NEED_HARD) && isfinite(n.lo) && isfinite(n.hi))
    return (Range){n.lo, n.hi};
  if (hi - lo >= 0.1)
    return (Range){lo, hi};
  double length = free_hi - free_lo;
  if (isfinite(n.lo))
    return (Range){n.lo, fmin(n.hi, n.lo + length)};
  return (Range){isfinite(n.hi) ? n.hi - length : free_lo, isfinite(n.hi) ? n.hi : free_hi};
}

static double draw_float(HlRng *rng, Range r, Need n) {
  double x = r.lo + hl_rng_unit(rng) * (r.hi - r.lo);
  return (n.flags & NEED_NONZERO) && fabs(x) < away ? x + (x < 0 ? -away : away) : x;
}

// A number of any size, the named ones once in a million each.
static double draw_large(HlRng *rng, HlDtype dtype) {
  static const double named[] = {0, -0.0, 1, -1, INFINITY, -INFINITY};
  int64_t chance = hl_rng_below(rng, 1000000);
  if (chance < HL_COUNT_OF(named))
    return named[chance];
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  double least = dtype == HL_F64 ? -1022 : dtype == HL_F32 ? -126 : 1 - format->bias;
  double most = dtype == HL_F64   ? 1024
                : dtype == HL_F32 ? 128
                                  : (1 << format->exponent_bits) - 1 - format->bias;
  double x = exp2(least + hl_rng_unit(rng) * (most - least));
  return hl_rng_u64(rng) >> 63 ? -x : x;
}

// Where a wish stands in the way the usual numbers are drawn.
static bool is_free(Need n) {
  return !(n.flags & ~(unsigned)(NEED_NONZERO | NEED_FACTOR)) && n.lo == -INFINITY && n.hi == INFINITY;
}

static void fill_large(HlLiteral *out, HlRng *rng) {
  HlDtype part = hl_is_complex(out->shape->dtype) ? (out->shape->dtype == HL_C128 ? HL_F64 : HL_F32)
                                                  : out->shape->dtype;
  uint32_t step = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&step);
    double x = draw_large(rng, part);
    if (hl_is_complex(out->shape->dtype))
      hl_literal_set_complex(out, k, x, draw_large(rng, part));
    else
      hl_literal_set_f64(out, k, x);
  }
}

static void fill_floats(HlLiteral *out, Need n, HlRng *rng) {
  Range r = float_interval(n);
  uint32_t step = 0;
  if (out->shape->dtype == HL_F32) {
    float *at = out->data;
    for (int64_t k = 0; k < out->n; k++) {
      base_look_often(&step);
      at[k] = (float)draw_float(rng, r, n);
    }
    return;
  }
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&step);
    hl_literal_set_f64(out, k, draw_float(rng, r, n));
  }
}

static void fill_complex(HlLiteral *out, Need n, HlRng *rng) {
  Range r = float_interval(n);
  uint32_t step = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&step);
    double re = draw_float(rng, r, n);
    hl_literal_set_complex(out, k, re, draw_float(rng, (Range){free_lo, free_hi}, fake_free()));
  }
}

// Bounds of an integer type met with what is wanted; false when all of the type is free.
static bool integer_interval(HlDtype dtype, Need n, int64_t *lo, int64_t *hi) {
  int bits = hl_dtype_info[dtype].bits;
  double least = hl_is_signed(dtype) ? -ldexp(1, bits - 1) : 0;
  double most = ldexp(1, hl_is_signed(dtype) ? bits - 1 : bits) - 1;
  if (n.lo <= least && n.hi >= most)
    return false;
  double low = ceil(fmin(fmax(n.lo, least), most)), high = floor(fmin(fmax(n.hi, least), most));
  const double edge = 9.2e18;  // well inside int64
  *lo = (int64_t)fmin(fmax(low, -edge), edge);
  *hi = (int64_t)fmin(fmax(high, -edge), edge);
  if (*hi < *lo)
    *hi = *lo;
  return true;
}

static int64_t draw_between(HlRng *rng, int64_t lo, int64_t hi) {
  uint64_t span = (uint64_t)hi - (uint64_t)lo + 1;
  if (span == 0 || span > (uint64_t)INT64_MAX)
    return (int64_t)((uint64_t)lo + hl_rng_u64(rng) % (span ? span : 1));
  return (int64_t)((uint64_t)lo + (uint64_t)hl_rng_below(rng, (int64_t)span));
}

static void fill_integers(HlLiteral *out, Need n, HlRng *rng) {
  HlDtype dtype = out->shape->dtype;
  int64_t lo = 0, hi = 0;
  bool bounded = dtype != HL_PRED && integer_interval(dtype, n, &lo, &hi);
  int bits = hl_dtype_info[dtype].bits;
  uint32_t step = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&step);
    int64_t x = bounded ? draw_between(rng, lo, hi) : (int64_t)(hl_rng_u64(rng) >> (64 - bits));
    if (!bounded && hl_is_signed(dtype) && bits < 64)
      x -= x >> (bits - 1) ? (int64_t)1 << bits : 0;
    if (x == 0 && (n.flags & NEED_NONZERO) && dtype != HL_PRED)
      x = !bounded || hi > 0 ? 1 : lo < 0 ? -1 : 0;
    hl_literal_set_i64(out, k, x);
  }
}

static void shuffle(int64_t *at, int64_t n, HlRng *rng) {
  for (int64_t k = n - 1; k > 0; k--) {
    int64_t other = hl_rng_below(rng, k + 1), keep = at[k];
    at[k] = at[other];
    at[other] = keep;
  }
}

// Evenly spaced values for types that can tell them apart; the type's own numbers nearest to 1 and -1 for
// small ones.
static double distinct_float(HlDtype dtype, Range r, int64_t k, int64_t n) {
  if (dtype == HL_F32 || dtype == HL_F64)
    return r.lo + (r.hi - r.lo) * ((double)k + 0.5) / (double)n;
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  int64_t half = (n + 1) / 2, one = (int64_t)format->bias << format->mantissa_bits;
  int64_t first = one - half / 2 > 1 ? one - half / 2 : 1;
  double x = hl_float_decode(format, (uint32_t)(first + k % half));
  return k < half ? x : -x;
}

static bool few_enough(HlDtype dtype, int64_t n) {
  if (hl_is_float(dtype))
    return dtype == HL_F64 ||
           n < ((int64_t)1 << (dtype == HL_F32 ? 20 : hl_dtype_info[dtype].bits - 2));
  int bits = hl_dtype_info[dtype].bits;
  return bits >= 63 || n <= (int64_t)1 << bits;
}

// Different elements in random order; false when the type or the range has not enough of them.
static bool fill_distinct(HlLiteral *out, Need n, HlRng *rng) {
  HlDtype dtype = out->shape->dtype;
  int64_t lo = 0, hi = 0;
  if (hl_is_complex(dtype) || dtype == HL_PRED || dtype == HL_F8E8M0FNU ||
      !few_enough(dtype, out->n) || out->n == 0)
    return false;
  if (hl_is_integral(dtype)) {
    bool bounded = integer_interval(dtype, n, &lo, &hi);
    if (bounded && (uint64_t)hi - (uint64_t)lo < (uint64_t)out->n - 1)
      return false;
    lo = bounded ? lo : hl_is_signed(dtype) ? -(out->n / 2) : 0;
  }
  int64_t *order = base_alloc(sizeof(int64_t) * (size_t)out->n);
  for (int64_t k = 0; k < out->n; k++)
    order[k] = k;
  shuffle(order, out->n, rng);
  Range r = float_interval(n);
  for (int64_t k = 0; k < out->n; k++)
    if (hl_is_integral(dtype))
      hl_literal_set_i64(out, k, lo + order[k]);
    else
      hl_literal_set_f64(out, k, distinct_float(dtype, r, order[k], out->n));
  base_free(order);
  return true;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void sort_integers(HlLiteral *out) {
  if (!hl_is_integral(out->shape->dtype) || out->n < 2)
    return;
  int64_t *at = base_alloc(sizeof(int64_t) * (size_t)out->n);
  for (int64_t k = 0; k < out->n; k++)
    at[k] = hl_literal_i64(out, k);
  qsort(at, (size_t)out->n, sizeof(int64_t), ascending);
  for (int64_t k = 0; k < out->n; k++)
    hl_literal_set_i64(out, k, at[k]);
  base_free(at);
}

// Adds to the diagonals of the matrices in the last two dimensions, so that factors and inverses exist.
static void raise_diagonals(HlLiteral *out) {
  const HlShape *shape = out->shape;
  if (shape->rank < 2 || !(hl_is_float(shape->dtype) || hl_is_complex(shape->dtype)))
    return;
  int64_t rows = shape->dim[shape->rank - 2], columns = shape->dim[shape->rank - 1];
  if (rows <= 0 || columns <= 0)
    return;
  int64_t matrices = out->n / (rows * columns);
  for (int64_t m = 0; m < matrices; m++)
    for (int64_t d = 0; d < rows && d < columns; d++) {
      int64_t k = m * rows * columns + d * columns + d;
      double x = fabs(hl_literal_f64(out, k)) + 1 + 0.2 * (double)rows;
      if (hl_is_complex(shape->dtype))
        hl_literal_set_complex(out, k, x, 0);
      else
        hl_literal_set_f64(out, k, x);
    }
}

static void fill_all(HlLiteral *out, double value) {
  bool whole = hl_is_integral(out->shape->dtype) && fabs(value) < 9e15;
  for (int64_t k = 0; k < out->n; k++)
    if (whole)
      hl_literal_set_i64(out, k, (int64_t)value);
    else if (hl_is_integral(out->shape->dtype))  // an end of a 64-bit type
      hl_literal_set_i64(out, k,
                         value < 0                         ? INT64_MIN
                         : hl_is_signed(out->shape->dtype) ? INT64_MAX
                                                           : -1);
    else
      hl_literal_set_f64(out, k, value);
}

static void fill_array(HlLiteral *out, Need n, bool large, HlRng *rng) {
  HlDtype dtype = out->shape->dtype;
  if (n.flags & NEED_FIXED)
    fill_all(out, n.fixed);
  else if (large && is_free(n) && dtype != HL_F8E8M0FNU &&
           (hl_is_complex(dtype) || hl_is_float(dtype)))
    fill_large(out, rng);
  else if ((n.flags & NEED_DISTINCT) && fill_distinct(out, n, rng))
    ;
  else if (hl_is_complex(dtype))
    fill_complex(out, n, rng);
  else if (hl_is_float(dtype))
    fill_floats(out, n, rng);
  else
    fill_integers(out, n, rng);
  if (n.flags & NEED_SORTED)
    sort_integers(out);
  if (n.flags & NEED_DIAGONAL)
    raise_diagonals(out);
}

static void fill(HlLiteral *out, const Need *need, bool large, int *leaf, HlRng *rng) {
  if (out->shape->dtype == HL_TUPLE) {
    for (int k = 0; k < out->shape->rank; k++)
      fill(out->element[k], need, large, leaf, rng);
    return;
  }
  Need n = need ? fake_settled(need[*leaf]) : fake_free();
  ++*leaf;
  if (out->data && out->n > 0)
    fill_array(out, n, large, rng);
}

static bool check_size(HlCx *cx, const HlModule *m) {
  int64_t limit = hl_cx_limits(cx)->eval_bytes, sum = 0;
  for (int k = 0; k < m->entry->n_params; k++) {
    if (!m->entry->params[k])
      return hl_error(cx, hl_comp_pos(m->entry), "the entry has no parameter %d", k);
    if (__builtin_add_overflow(sum, hl_leaf_bytes(m->entry->params[k]->shape), &sum) || sum > limit)
      return hl_error_kind(cx, HL_LIMIT, hl_module_pos(m),
                           "the parameters take more than %lld bytes (limit eval_bytes)",
                           (long long)limit);
  }
  return true;
}

static bool make_args(HlCx *cx, const HlModule *m, uint64_t seed, bool large, HlLiteral **out) {
  if (!m->entry)
    return hl_error(cx, hl_module_pos(m), "the module has no entry computation");
  int n = m->entry->n_params, done = 0;
  for (int k = 0; k < n; k++)
    out[k] = NULL;
  if (!check_size(cx, m))
    return false;
  HlArena *arena = hl_arena_new();
  Fake f;
  bool known = n > 0 && fake_analyse(&f, arena, m);
  for (; done < n; done++) {
    const HlInst *p = m->entry->params[done];
    HlRng rng = {seed ^ (uint64_t)(done + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    int leaf = 0;
    if (!(out[done] = hl_literal_new(cx, p->shape)))
      break;
    fill(out[done], known ? fake_need(&f, p, 0) : NULL, large, &leaf, &rng);
  }
  hl_arena_free(arena);
  for (int k = 0; done < n && k < done; k++) {
    hl_literal_unref(out[k]);
    out[k] = NULL;
  }
  return done == n;
}

static bool fake_constant(HlCx *cx, HlInst *inst, const Need *need, uint64_t seed) {
  HlLiteral *value = hl_literal_new(cx, inst->shape);
  if (!value)
    return false;
  HlRng rng = {hl_hash_bytes(inst->name->text, inst->name->n, seed)};
  int leaf = 0;
  fill(value, need, false, &leaf, &rng);
  hl_set_attr(inst, &(HlAttr){.key = HL_A_VALUE, .ptr = value});
  hl_literal_unref(value);
  hl_warn(cx, hl_pos(inst),
          "the value of constant %s was elided from the text and is filled with random numbers",
          inst->name->text);
  return true;
}

bool hl_fake_elided(HlCx *cx, HlModule *m, uint64_t seed) {
  HlArena *arena = hl_arena_new();
  Fake f;
  bool known = false, looked = false, ok = true;
  for (HlComp *comp = m->first; ok && comp; comp = comp->next)
    for (HlInst *inst = comp->first; ok && inst; inst = inst->next) {
      if (inst->op != HL_OP_CONSTANT || (hl_constant(inst) && !hl_literal_is_elided(hl_constant(inst))))
        continue;
      if (!looked)
        known = fake_analyse(&f, arena, m);
      looked = true;
      ok = fake_constant(cx, inst, known ? fake_need(&f, inst, 0) : NULL, seed);
    }
  hl_arena_free(arena);
  return ok;
}

bool hl_fake_args(HlCx *cx, const HlModule *m, uint64_t seed, HlLiteral **out) {
  return make_args(cx, m, seed, false, out);
}

bool hl_fake_large_args(HlCx *cx, const HlModule *m, uint64_t seed, HlLiteral **out) {
  return make_args(cx, m, seed, true, out);
}
