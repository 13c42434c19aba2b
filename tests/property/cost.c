// Costs and made-up inputs of random modules, valid and damaged: finite, never negative, nothing breaks.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/cost.h"
#include "hilo/tool.h"
#include "support/property.h"

static bool sound(double x) {
  return isfinite(x) && x >= 0;
}

static bool sound_cost(const HlCost *cost) {
  return sound(cost->flops) && sound(cost->transcendentals) && sound(cost->bytes_read) &&
         sound(cost->bytes_written) && sound(cost->collective_bytes);
}

// What stands under one computation is the sum of its instructions; the peak holds the parameters and the result.
static bool holds(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlArena *arena = hl_arena_new();
  HlCost *costs = hl_cost_comps(arena, m), sum = {0};
  bool good = true;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    good = good && sound_cost(&costs[comp->id]);
  for (const HlInst *inst = m->entry->first; inst; inst = inst->next)
    sum.flops += hl_cost_inst(inst).flops;
  good = good && fabs(sum.flops - costs[m->entry->id].flops) <= 1e-9 * sum.flops;
  hl_arena_free(arena);
  int64_t least = 0;
  for (int k = 0; k < m->entry->n_params; k++)
    if (hl_leaf_bytes(m->entry->params[k]->shape) > least)
      least = hl_leaf_bytes(m->entry->params[k]->shape);
  snprintf(why, room, "flops %g of %g, peak %lld", sum.flops, costs ? hl_cost_module(m).flops : 0,
           (long long)hl_peak_memory(cx, m));
  return good && hl_peak_memory(cx, m) >= least;
}

// Puts wrong operands into a copy: shapes no longer fit, which the functions must survive.
static bool survives_damage(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlModule *bad = hl_clone(cx, m);
  HlRng rng = {(uint64_t)hl_count_instructions(m)};
  HlInst *seen[64];
  if (!bad)
    return false;
  for (HlComp *comp = bad->first; comp; comp = comp->next) {
    int n = 0;
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (n > 0 && inst->n_operands > 0 && hl_rng_below(&rng, 3) == 0)
        hl_set_operand(inst, (int)hl_rng_below(&rng, inst->n_operands),
                       seen[hl_rng_below(&rng, n)]);
      if (n > 0 && hl_rng_below(&rng, 20) == 0)
        hl_set_operands(inst, (int)hl_rng_below(&rng, 3),
                        (HlInst *const[]){seen[0], seen[n - 1], seen[n / 2]});
      if (n < 64)
        seen[n++] = inst;
    }
  }
  HlCost cost = hl_cost_module(bad);
  HlLiteral *args[256];
  bool good = sound_cost(&cost) && hl_peak_memory(cx, bad) >= 0;
  snprintf(why, room, "damage is not survived");
  if (good && bad->entry->n_params <= 256 && hl_fake_args(cx, bad, 1, args))
    for (int k = 0; k < bad->entry->n_params; k++)
      hl_literal_unref(args[k]);
  hl_module_free(bad);
  return good;
}

static void costs(void **state) {
  assert_int_equal(property_check("costs", 3000, false, holds), 0);
}
static void damaged(void **state) {
  assert_int_equal(property_check("damaged", 3000, false, survives_damage), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(costs), cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
