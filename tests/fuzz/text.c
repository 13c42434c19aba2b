// text.c: no text harms the HLO text reader, and a valid module prints to text that reads as the same
// graph.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/lib/mutate.h"
#include "hilo/text.h"
#include "hilo/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
FUZZ_TEXT("text")

// What does not read back, by the format's own flaws (hlo.md 10, 12 and 13): elided and tuple
// constants, padding of scalars, negative zero, tokens in literals.
static bool is_printable(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_CONSTANT || inst->op == HL_OP_PAD || hl_has_attr(inst, HL_A_LITERAL) ||
          hl_has_attr(inst, HL_A_STATISTICS))
        return false;
  return true;
}

static void check_round_trip(HlCx *cx, const HlModule *m) {
  HlTextOptions options = {0};
  options.large_constants = HL_ON;
  HlBuf text = {0};
  hl_text_print(cx, m, &options, &text);
  if (!is_printable(m) || text.n > 1 << 20 || !hl_verify(cx, m, NULL)) {
    hl_buf_free(&text);
    return;
  }
  HlModule *again = hl_text_parse(cx, text.at);
  if (!again || hl_graph_hash(again) != hl_graph_hash(m))
    abort();
  hl_module_free(again);
  hl_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->literal_bytes = 1 << 24;
  limits->instructions = 1 << 16;
  limits->tuple_leaves = 1 << 12;
  HlSource *source = hl_source_new("fuzz", data, size, false);
  HlModule **modules;
  int n;
  hl_text_sniff((HlStr){(const char *)data, size});
  if (hl_text_read(cx, source, &modules, &n)) {
    for (int k = 0; k < n; k++) {
      check_round_trip(cx, modules[k]);
      hl_module_free(modules[k]);
    }
    free(modules);
  }
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
