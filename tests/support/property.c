// tests/support/property.c: the loop of all property tests.
#include "support/property.h"

#include <stdlib.h>

#include "hilo/text.h"

static int64_t number_from(const char *variable, int64_t otherwise) {
  const char *text = getenv(variable);
  return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

static int64_t iterations_wanted(int64_t wanted) {
  return number_from("HILO_ITERATIONS", wanted);
}
static uint64_t first_seed(void) {
  return (uint64_t)number_from("HILO_SEED", 0);
}

GenOptions property_options(uint64_t seed, bool runnable) {
  return (GenOptions){.seed = seed,
                      .wishes = (int)(seed % 7) * 3,
                      .runnable = runnable,
                      .first = (HlOp)(seed % HL_OP_COUNT)};
}

void property_print_errors(HlCx *cx, FILE *to) {
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(cx) && k < 5; k++)
    hl_diag_render(hl_cx_diag(cx, k), false, &text);
  if (text.n)
    fputs(text.at, to);
  hl_buf_free(&text);
}

static void print_module(HlCx *cx, const HlModule *m) {
  HlTextOptions options = {.preset = HL_TEXT_SHORT};
  HlBuf text = {0};
  hl_text_print(cx, m, &options, &text);
  if (text.n < 20000)
    fputs(text.at, stderr);
  hl_buf_free(&text);
}

static bool check_seed(const char *name, uint64_t seed, bool runnable, PropertyFn *property) {
  HlCx *cx = hl_cx_new();
  char why[1024] = "";
  GenOptions options = property_options(seed, runnable);
  HlModule *m = gen_module(cx, &options);
  bool good = m && property(cx, m, why, sizeof why);
  if (!good) {
    fprintf(stderr, "%s: broken by seed %llu (HILO_SEED=%llu HILO_ITERATIONS=1): %s\n", name,
            (unsigned long long)seed, (unsigned long long)seed,
            m ? why : "no module could be made");
    property_print_errors(cx, stderr);
    if (m && getenv("HILO_SEED"))
      print_module(cx, m);
  }
  hl_module_free(m);
  hl_cx_free(cx);
  return good;
}

int64_t property_check(const char *name, int64_t iterations, bool runnable, PropertyFn *property) {
  int64_t n = iterations_wanted(iterations), broken = 0, k = 0;
  for (; k < n && broken < 20; k++)
    broken += !check_seed(name, first_seed() + (uint64_t)k, runnable, property);
  fprintf(stderr, "%s: %lld of %lld modules\n", name, (long long)(k - broken), (long long)k);
  return k > 0 ? broken : 1;
}
