// hilo/dry.h: what the opportunities of a dry run would leave.
#ifndef HILO_DRY_H
#define HILO_DRY_H

#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlDryResults {
  HlArena *arena;
  const char **after;  // [n], by rewrite: what would stand there instead, as text; "" if nothing would, or if left out
  int64_t n;
  int64_t n_left_out;
} HlDryResults;

// A dry run knows at once what a rewrite "this by that" would leave; where a pass changes in place, nothing has been
// made yet. Those rewrites are made here, each alone in a copy of `m`, the module of the dry run, with the pipeline and
// options of that run, as long as `seconds` allow (< 0: all of them). False after reporting, when out of memory;
// *out: free with hl_dry_results_free.
bool hl_dry_results(HlCx *cx, const HlModule *m, const char *pipeline, const HlEngineOptions *options,
                    const HlEngine *dry, double seconds, HlDryResults *out);
void hl_dry_results_free(HlDryResults *results);

#ifdef __cplusplus
}
#endif
#endif
