// mlir.c: no text harms the MLIR text reader, and what it read prints to text that reads as the same program. A valid
// one becomes HLO or an error.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/lib/mutate.h"
#include "hilo/mlir.h"
#include "hilo/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
FUZZ_TEXT("mlir")

static void free_all(HlMlTree **trees, int n) {
  for (int k = 0; k < n; k++)
    hl_ml_free(trees[k]);
  free(trees);
}

static void check_round_trip(HlCx *cx, const HlMlTree *tree, bool generic) {
  const HlMlTextOptions options = {.generic = generic, .locations = true, .large_constants = true};
  HlBuf text = {0};
  hl_ml_text_print(tree, &options, &text);
  HlMlTree **again;
  int n;
  const char *where;
  HlSource *source = hl_source_take("again", &text, false);
  if (!hl_ml_text_read(cx, source, &again, &n) || n != 1 || !hl_ml_equal(tree, again[0], &where))
    abort();
  free_all(again, n);
  hl_source_unref(source);
}

static void lower(HlCx *cx, HlMlTree *tree) {
  HlModule *m = hl_ml_to_hlo(cx, tree, NULL);
  if (!m == (hl_cx_n_errors(cx) == 0))
    abort();
  if (m)
    hl_verify(cx, m, NULL);
  hl_module_free(m);
  hl_cx_clear(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->literal_bytes = 1 << 24;
  limits->instructions = 1 << 16;
  limits->tuple_leaves = 1 << 12;
  limits->nesting = 200;
  HlSource *source = hl_source_new("fuzz", data, size, false);
  HlMlTree **trees;
  int n;
  hl_ml_text_sniff((HlStr){(const char *)data, size});
  if (hl_ml_text_read(cx, source, &trees, &n)) {
    for (int k = 0; k < n; k++) {
      const bool is_valid = hl_ml_verify(cx, trees[k]);
      hl_cx_clear(cx);
      if (is_valid) {
        check_round_trip(cx, trees[k], true);
        check_round_trip(cx, trees[k], false);
        lower(cx, trees[k]);
      }
    }
    free_all(trees, n);
  } else if (hl_cx_n_errors(cx) == 0) {
    abort();
  }
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
