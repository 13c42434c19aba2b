// opt/loop/while_trip_count.c
//
// while-loop-trip-count-annotator: writes into each loop's backend config which slot decides how
// often it iterates, and how often that is.
//
//   w = while(init), ...   =>   w = while(init), ..., backend_config={"known_induction_variable":
//                               {"tuple_index":"0"}, "known_init_step":{"init":"0","step":"1"},
//                               "known_trip_count":{"n":"20"}}

#include <string.h>

#include "ir/backend_config.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

static const char *annotated(HlPass *p, const HlInst *loop, const char *config) {
  int slot = loop_induction_slot(p, loop);
  if (slot < 0)
    return config;
  HlLoopConfig to = hl_loop_config(NULL, loop);
  to.slot = (HlMaybeInt){true, slot};
  LoopCounter counter;
  int64_t trips;
  if (loop_counter(p, loop, &counter) && counter.init >= 0) {
    trips = counter.trips;
    to.init = (HlMaybeInt){true, counter.init};
    to.step = (HlMaybeInt){true, counter.step};
  } else {
    trips = loop_trips(p, loop, 128);
  }
  if (trips >= 0)
    to.trips = (HlMaybeInt){true, trips};
  if (!to.dynamic_variables.at)
    to.dynamic_variables = hl_str("[]");
  return hl_loop_config_text(p->arena, p->m->dialect, config, &to);
}

bool pass_while_trip_count(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++) {
    const char *old = hl_attr_text(loops[k], HL_A_BACKEND_CONFIG);
    const char *now = annotated(p, loops[k], old);
    if (strcmp(old, now) == 0 || !hl_change(p, "trip-count", loops[k], NULL))
      continue;
    hl_set_text(loops[k], HL_A_BACKEND_CONFIG, now);
    hl_changed(p);
  }
  return true;
}
