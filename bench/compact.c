// What passes leave in memory, and what compacting leaves of it.
//
//   compact FILE PIPELINE...    {"read": 9.1, "after_passes": 122.0, "compacted": 23.1, "clone": 23.0} in MiB,
//                               and what it took: "passes_ms", "compact_ms", "clone_ms"
//
// The pipelines run one after another over the same module. A clone of the module knows no names that it has given;
// the compacted one does.
#include <stdio.h>

#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/pass.h"
#include "hilo/target.h"
#include "hilo/tool.h"

static double mib(const HlModule *m) {
  return (double)hl_module_bytes(m) / (1 << 20);
}

static bool run(HlCx *cx, HlModule *m, const char *pipeline) {
  const HlEngineOptions options = {
      .passes = &hl_passes, .pipelines = &hl_pipelines, .target = hl_target_find(pipeline)};
  HlEngine *engine = hl_engine_new(cx, &options);
  const bool ok = engine && hl_engine_run(engine, m, pipeline);
  hl_engine_free(engine);
  return ok;
}

static int measure(HlCx *cx, HlModule *m, int n, char **pipelines) {
  const double read = mib(m), begin = hl_now();
  for (int k = 0; k < n; k++)
    if (!run(cx, m, pipelines[k])) {
      HlBuf why = {0};
      for (int d = 0; d < hl_cx_n_diags(cx); d++)
        hl_diag_render(hl_cx_diag(cx, d), false, &why);
      fprintf(stderr, "%s fails\n%s", pipelines[k], why.at ? why.at : "");
      hl_buf_free(&why);
      return 1;
    }
  const double after = mib(m), passed = hl_now();
  HlModule *clone = hl_clone(cx, m);
  const double cloned = hl_now();
  if (!clone || !hl_compact(cx, m, NULL, NULL))
    return 1;
  printf("{\"read\": %.1f, \"after_passes\": %.1f, \"compacted\": %.1f, \"clone\": %.1f, "
         "\"passes_ms\": %.1f, \"compact_ms\": %.1f, \"clone_ms\": %.1f}\n",
         read, after, mib(m), mib(clone), 1e3 * (passed - begin), 1e3 * (hl_now() - cloned),
         1e3 * (cloned - passed));
  const bool same = hl_graph_hash(clone) == hl_graph_hash(m);
  hl_module_free(clone);
  return same ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: compact FILE PIPELINE...\n");
    return 2;
  }
  HlCx *cx = hl_cx_new();
  HlFile file = {0};
  int status = 2;
  if (hl_load(cx, argv[1], NULL, &file) && file.n > 0)
    status = measure(cx, file.modules[0], argc - 2, argv + 2);
  hl_file_free(&file);
  hl_cx_free(cx);
  return status;
}
