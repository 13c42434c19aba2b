// sim/run/calibrate.c: how far from the roofline steps of each category are, from measured ones.
//
// A category's factor is the median of measured over predicted time, weighted by the time that steps took: what is usual for
// the steps that matter, whatever a few odd ones do. A category of which nothing is known gets the median of all.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/sim_graph.h"
#include "sim/run/run.h"

typedef struct Lesson {
  double factor, weight;
} Lesson;
typedef VEC(Lesson) Lessons;

typedef struct Category {
  HlStr name;
  Lessons lessons;
} Category;

struct HlCalibration {
  HlArena *arena;
  VEC(Category) category;
  Lessons all;
};

HlCalibration *hl_calibration_new(HlArena *arena) {
  HlCalibration *c = HL_NEW(arena, HlCalibration);
  c->arena = arena;
  return c;
}

static Category *find(const HlCalibration *c, HlStr name) {
  for (int k = 0; k < c->category.n; k++)
    if (hl_str_equal(c->category.at[k].name, name))
      return &c->category.at[k];
  return NULL;
}

void hl_calibration_learn(HlCalibration *c, HlStr name, double measured, double roofline,
                          double weight) {
  const double factor = measured / roofline;  // 0, infinite or nan if either is, or both too far apart
  if (!(factor > 0) || !isfinite(factor) || !(weight > 0) || !isfinite(weight))
    return;
  Category *category = find(c, name);
  if (!category) {
    vec_push_in(c->arena, &c->category,
                ((Category){{hl_arena_strndup(c->arena, name.at, name.n), name.n}, {0}}));
    category = &vec_last(&c->category);
  }
  const Lesson lesson = {factor, weight};
  vec_push_in(c->arena, &category->lessons, lesson);
  vec_push_in(c->arena, &c->all, lesson);
}

double hl_roofline(const HlTarget *t, double flops, double bytes) {
  const double rate = t->matrix.of[HL_BF16] > 0 ? t->matrix.of[HL_BF16] : t->vector.of[HL_F32];
  const double computing = rate > 0 ? flops / rate : 0;
  const double moving = t->memory_bandwidth > 0 ? bytes / t->memory_bandwidth : 0;
  return computing > moving ? computing : moving;
}

// Exchanges and what waits for the host are not the device's.
static bool is_computing(HlStr category) {
  static const char *const others[] = {
      "all-reduce", "all-gather", "all-to-all",  "reduce-scatter", "collective-permute", "infeed",
      "outfeed",    "while",      "conditional", "call",           "custom-call"};
  for (int k = 0; k < HL_COUNT_OF(others); k++)
    if (hl_str_is(category, others[k]))
      return false;
  return true;
}

int hl_calibration_learn_profile(HlCalibration *c, const HlSimProfile *profile,
                                 const HlTarget *device) {
  const HlSimProfileRow *row;
  const int n = hl_sim_profile_rows(profile, &row);
  int learned = 0;
  for (int k = 0; k < n; k++) {
    const double roofline = hl_roofline(device, row[k].flops, row[k].bytes);
    if (!is_computing(row[k].category) || !(roofline > 0))
      continue;
    hl_calibration_learn(c, row[k].category, row[k].seconds, roofline,
                         row[k].seconds * (double)row[k].occurrences);
    learned++;
  }
  return learned;
}

int hl_calibration_learn_program(HlCalibration *c, const HlSimProfile *profile,
                                 const HlClusterProgram *p, const HlTarget *device) {
  int learned = 0;
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    const double roofline = hl_roofline(device, step->flops, step->bytes);
    const HlSimProfileRow *row =
        step->kind == HL_STEP_COMPUTE ? hl_sim_profile_find(profile, step->name) : NULL;
    if (!row || !(roofline > 0) || !(row->seconds > 0))
      continue;
    hl_calibration_learn(c, hl_str(step->category), row->seconds, roofline,
                         row->seconds * step->times);
    learned++;
  }
  return learned;
}

static int by_factor(const void *a, const void *b) {
  const Lesson *x = a, *y = b;
  return x->factor < y->factor ? -1 : x->factor > y->factor;
}

static double median(const Lessons *lessons) {
  Lesson *copy = base_alloc(sizeof *copy * (size_t)lessons->n);
  double sum = 0, half = 0, result = 1;
  memcpy(copy, lessons->at, sizeof *copy * (size_t)lessons->n);
  qsort(copy, (size_t)lessons->n, sizeof *copy, by_factor);
  for (int k = 0; k < lessons->n; k++)
    half += copy[k].weight / 2;
  for (int k = 0; k < lessons->n && sum < half; k++) {
    sum += copy[k].weight;
    result = copy[k].factor;
  }
  base_free(copy);
  return result;
}

double hl_calibration_factor(const HlCalibration *c, HlStr name) {
  const Category *category = find(c, name);
  if (category)
    return median(&category->lessons);
  return c->all.n > 0 ? median(&c->all) : 1;
}

void hl_calibration_apply(const HlCalibration *c, HlClusterProgram *p, const HlTarget *device,
                          const HlSimProfile *measured) {
  for (int k = 0; k < p->n_steps; k++) {
    HlClusterStep *step = &p->step[k];
    const HlStr category = hl_str(step->category ? step->category : "");
    if (step->kind == HL_STEP_COMPUTE && is_computing(category) && step->seconds > 0 &&
        !(measured && hl_sim_profile_find(measured, step->name)))
      step->seconds =
          hl_roofline(device, step->flops, step->bytes) * hl_calibration_factor(c, category);
  }
}
