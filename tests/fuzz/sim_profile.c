// Fuzzes the readers of profiles, the table of ops and traces: rows have names and times, and are found by their names.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "hilo/sim_graph.h"
#include "hilo/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlSource *source = hl_source_new("input", data, n, false);
  HlSimProfile *profile = hl_sim_profile_read(cx, source, 1 + (int64_t)(n % 3), HL_SIM_OWN);
  assert((profile == NULL) == (hl_cx_n_errors(cx) > 0));
  if (profile) {
    const HlSimProfileRow *row;
    const int rows = hl_sim_profile_rows(profile, &row);
    for (int k = 0; k < rows; k++)
      assert(hl_sim_profile_find(profile, row[k].name) == &row[k]);
    HlCalibration *lessons = hl_calibration_new(arena);
    hl_calibration_learn_profile(lessons, profile, hl_target_find("tpu-v3"));
    assert(hl_calibration_factor(lessons, hl_str("fusion")) > 0);
  }
  hl_sim_profile_free(profile);
  hl_source_unref(source);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}
