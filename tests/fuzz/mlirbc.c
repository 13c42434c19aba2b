// mlirbc.c: no bytes harm the reader of MLIR bytecode or, as a tree, the writer of portable artifacts; what is
// written of a valid program reads as what is written the same.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/mlir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Casts that change nothing are not read back.
static bool has_casts(const HlMlTree *tree) {
  for (const HlMlOp *op = tree->module; op; op = hl_ml_next(op, tree->module))
    if (hl_ml_is(op, "builtin.unrealized_conversion_cast"))
      return true;
  return false;
}

// Attributes of no meaning may change (a symbol is a string in VHLO), but only once.
static void check_round_trip(HlCx *cx, const HlMlTree *tree, HlMlVersion version) {
  HlBuf out = {0}, out_again = {0};
  const int n = hl_cx_n_diags(cx);
  if (hl_ml_artifact_write(cx, tree, version, &out)) {
    HlSource *source = hl_source_new("again", out.at, out.n, true);
    HlMlTree *again = hl_ml_bytecode_read(cx, source);
    if (!again || !hl_ml_artifact_write(cx, again, version, &out_again) || out.n != out_again.n ||
        memcmp(out.at, out_again.at, out.n) != 0)
      abort();
    hl_ml_free(again);
    hl_source_unref(source);
  }
  hl_buf_free(&out);
  hl_buf_free(&out_again);
  hl_cx_forget(cx, n);
}

// A program that is not valid is written, or not; nothing else happens.
static void write_any(HlCx *cx, const HlMlTree *tree) {
  HlBuf out = {0};
  hl_ml_artifact_write(cx, tree, HL_ML_NEWEST, &out);
  hl_ml_artifact_write(cx, tree, HL_ML_OLDEST, &out);
  hl_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->literal_bytes = 1 << 24;
  limits->instructions = 1 << 16;
  limits->tuple_leaves = 1 << 12;
  HlSource *source = hl_source_new("fuzz", data, size, true);
  HlMlTree *tree = hl_ml_bytecode_read(cx, source);
  if (!tree == (hl_cx_n_errors(cx) == 0))
    abort();
  if (tree && !has_casts(tree) && hl_ml_verify(cx, tree)) {
    check_round_trip(cx, tree, HL_ML_NEWEST);
    check_round_trip(cx, tree, HL_ML_OLDEST);
  } else if (tree) {
    write_any(cx, tree);
  }
  hl_ml_free(tree);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
