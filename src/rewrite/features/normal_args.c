// rewrite/features/normal_args.c: arguments as HloEnv makes them up, bit by bit, so that results can be compared with recorded ones.
//
// The engine is x -> 16807 x mod (2^31 - 1). A number in [0, 1) takes two draws; two such numbers in the unit circle
// (Marsaglia's polar method) give two normal ones, of which the second is kept for the next call.

#include <math.h>

#include "hilo/features.h"

typedef struct Normal {
  uint32_t state;
  bool has_saved;
  double saved;
} Normal;

static uint32_t draw(Normal *normal) {
  normal->state = (uint32_t)((uint64_t)normal->state * 16807 % 2147483647);
  return normal->state;
}

static double unit(Normal *normal) {
  const double range = 2147483646;
  double sum = (double)(draw(normal) - 1);
  sum += (double)(draw(normal) - 1) * range;
  const double out = sum / (range * range);
  return out < 1 ? out : nextafter(1, 0);
}

static double next(Normal *normal) {
  double x, y, square;
  if (normal->has_saved) {
    normal->has_saved = false;
    return normal->saved;
  }
  do {
    x = 2 * unit(normal) - 1;
    y = 2 * unit(normal) - 1;
    square = x * x + y * y;
  } while (square > 1 || square == 0);
  const double scale = sqrt(-2 * log(square) / square);
  normal->saved = x * scale;
  normal->has_saved = true;
  return y * scale;
}

static bool is_drawn(HlDtype dtype) {
  return dtype == HL_F32 || dtype == HL_F64 || dtype == HL_F16 || dtype == HL_BF16;
}

// Tuples are filled element by element; their depth is what readers allow.
static void fill(Normal *normal, HlLiteral *literal) {
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    fill(normal, literal->element[k]);
  if (literal->data && is_drawn(literal->shape->dtype))
    for (int64_t k = 0; k < literal->n; k++)
      hl_literal_set_f64(literal, k, next(normal));
}

bool hl_normal_args(HlCx *cx, const HlModule *m, uint32_t seed, HlLiteral **out) {
  Normal normal = {.state = seed % 2147483647 == 0 ? 1 : seed % 2147483647};
  for (int k = 0; k < m->entry->n_params; k++)
    out[k] = NULL;
  for (int k = 0; k < m->entry->n_params; k++) {
    const HlInst *param = m->entry->params[k];
    if (!(out[k] = hl_literal_new(cx, param->shape))) {
      for (int i = 0; i < k; i++)
        hl_literal_unref(out[i]);
      return false;
    }
    fill(&normal, out[k]);
  }
  return true;
}
