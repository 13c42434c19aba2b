// jaxpr.c: no text harms the jaxpr reader, nor what it makes of one the verifier.

#include <stdint.h>
#include <stdlib.h>

#include "fuzz/lib/mutate.h"
#include "hilo/jaxpr.h"
#include "hilo/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
FUZZ_TEXT("jaxpr")

// The listing of equations stays within the text.
static void list_equations(const HlJaxpr *jaxpr, const HlSource *source) {
  HlStr bytes = hl_source_bytes(source);
  for (int k = 0; k < hl_jaxpr_n_equations(jaxpr); k++) {
    HlJaxprEquation e = hl_jaxpr_equation(jaxpr, k);
    if (e.loc == 0 || e.loc - 1 + e.text.n > bytes.n || e.depth < 0 || e.line < 1)
      abort();
  }
  for (int k = 0; k < hl_jaxpr_n_consts(jaxpr); k++) {
    hl_jaxpr_const_shape(jaxpr, k);
    if (hl_jaxpr_const_name(jaxpr, k).n == 0)
      abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->literal_bytes = 1 << 24;
  limits->instructions = 1 << 12;
  limits->tuple_leaves = 1 << 12;
  HlSource *source = hl_source_new("fuzz", data, size, false);
  hl_jaxpr_sniff((HlStr){(const char *)data, size});
  HlJaxpr *jaxpr = hl_jaxpr_parse(cx, source);
  if (jaxpr) {
    list_equations(jaxpr, source);
    const HlJaxprOptions options = {.missing = HL_JAXPR_CONSTS_PARAMETERS};
    HlModule *m = hl_jaxpr_to_hlo(cx, jaxpr, &options);
    if (m)
      hl_verify(cx, m, NULL);
    else if (hl_cx_n_errors(cx) == 0)
      abort();
    hl_module_free(m);
  } else if (hl_cx_n_errors(cx) == 0) {
    abort();
  }
  hl_jaxpr_free(jaxpr);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
