// Calls of GPU libraries as kernels of the CPU, beside the interpreter: products with factors, added arrays, biases and relu, and
// convolutions with their gradients, in several types and layouts, with work spaces; what is malformed is taken by no kernel.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "support/cpu_check.h"

static const char *const types[] = {"f32", "f64", "f16", "bf16"};
static const double tolerance[] = {1e-5, 1e-12, 2e-3, 2e-2};

// The kernel that must take the root, or "no kernel takes it".
static void check(const char *text, double near, const char *complaint) {
  for (int level = 0; level < CPU_LEVELS; level++) {
    if (!cpu_runs((CpuLevel)level))
      continue;
    char *wrong = cpu_check(text, &(CpuCheck){.kind = "library",
                                              .tolerance = near,
                                              .has_level = true,
                                              .level = (CpuLevel)level,
                                              .seed = 7 + (uint64_t)level,
                                              .threads = 1 + level});
    if (complaint ? !wrong || !strstr(wrong, complaint) : wrong != NULL)
      print_error("%s\n%s\n", text, wrong ? wrong : "a kernel takes it");
    assert_true(complaint ? wrong && strstr(wrong, complaint) : !wrong);
    free(wrong);
  }
}

// --- Products -------------------------------------------------------------------------------------

typedef struct Gemm {
  const char *a, *b, *c, *y;     // dimensions and layouts; of c NULL: there is none
  const char *contract, *batch;  // "\"1\"", of each side
  const char *contract_b, *batch_b;
  const char *rest;  // of the config
  const char *bias;  // dimensions
  bool room;
} Gemm;

static void gemm(const Gemm *g, int type, double near, const char *complaint) {
  const char *t = types[type];
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m\nENTRY e {\n  a = %s%s parameter(0)\n  b = %s%s parameter(1)\n",
                t, g->a, t, g->b);
  int n = 2;
  if (g->c)
    hl_buf_printf(&text, "  c = %s%s parameter(%d)\n", t, g->c, n++);
  if (g->bias)
    hl_buf_printf(&text, "  bias = %s%s parameter(%d)\n", t, g->bias, n++);
  hl_buf_printf(&text, "  ROOT r = %s%s%s%s custom-call(a, b%s%s), custom_call_target=\"%s\", ",
                g->room ? "(" : "", t, g->y, g->room ? ", s8[64]{0})" : "", g->c ? ", c" : "",
                g->bias ? ", bias" : "", g->bias ? "__cublas$lt$matmul" : "__cublas$gemm");
  hl_buf_printf(&text,
                "backend_config={\"gemm_backend_config\":{\"dot_dimension_numbers\":"
                "{\"lhs_contracting_dimensions\":[%s],\"rhs_contracting_dimensions\":[%s],"
                "\"lhs_batch_dimensions\":[%s],\"rhs_batch_dimensions\":[%s]}%s}}\n}\n",
                g->contract, g->contract_b, g->batch, g->batch_b, g->rest);
  check(text.at, near, complaint);
  hl_buf_free(&text);
}

static const Gemm plain = {
    "[33,70]{1,0}", "[70,45]{1,0}", NULL, "[33,45]{1,0}", "\"1\"", "", "\"0\"", "", "",
    NULL,           false};

static void products(void **state) {
  for (int type = 0; type < 4; type++) {
    Gemm g = plain;
    gemm(&g, type, tolerance[type], NULL);
    g.room = true;
    g.y = "[33,45]{0,1}";
    gemm(&g, type, tolerance[type], NULL);
    g.b = "[45,70]{1,0}";
    g.contract_b = "\"1\"";
    g.rest = ",\"alpha_real\":0.125";
    gemm(&g, type, tolerance[type], NULL);
    g.c = "[33,45]{0,1}";
    g.rest = ",\"alpha_real\":-1.5,\"beta\":0.75";
    gemm(&g, type, tolerance[type], NULL);
  }
}

static void products_with_bias(void **state) {
  for (int type = 0; type < 4; type++) {
    Gemm g = plain;
    g.bias = "[45]";
    g.rest = ",\"epilogue\":\"BIAS\"";
    gemm(&g, type, tolerance[type], NULL);
    g.rest = ",\"epilogue\":\"BIAS_RELU\",\"alpha_real\":2";
    gemm(&g, type, tolerance[type], NULL);
    g.c = "[33,45]{1,0}";
    g.rest = ",\"epilogue\":\"BIAS_RELU\",\"alpha_real\":2,\"beta\":-1";
    gemm(&g, type, tolerance[type], NULL);
  }
}

static void batches(void **state) {
  const Gemm g = {"[3,20,17]{2,1,0}",
                  "[3,9,17]{2,1,0}",
                  NULL,
                  "[3,20,9]{2,1,0}",
                  "\"2\"",
                  "\"0\"",
                  "\"2\"",
                  "\"0\"",
                  ",\"alpha_real\":0.5",
                  NULL,
                  true};
  for (int type = 0; type < 4; type++)
    gemm(&g, type, tolerance[type], NULL);
}

// Long enough that threads share the second pass.
static void large_product(void **state) {
  const Gemm g = {"[300,40]{1,0}",
                  "[40,200]{1,0}",
                  "[300,200]{1,0}",
                  "[300,200]{1,0}",
                  "\"1\"",
                  "",
                  "\"0\"",
                  "",
                  ",\"beta\":1",
                  NULL,
                  false};
  gemm(&g, 0, tolerance[0], NULL);
}

// What the interpreter computes, or complains of, is its own.
static void products_left_alone(void **state) {
  Gemm g = plain;
  g.rest = ",\"epilogue\":\"GELU\"";
  gemm(&g, 0, 0, "no kernel for the epilogue");
  g = plain;
  g.y = "[33,44]{1,0}";
  gemm(&g, 0, 0, "the product is");
  g = plain;
  g.rest = ",\"beta\":1";
  gemm(&g, 0, 0, "a matrix product of 2 operands");
  // One matrix for all of a batch.
  const Gemm one = {"[3,20,17]{2,1,0}",
                    "[17,9]{1,0}",
                    NULL,
                    "[3,20,9]{2,1,0}",
                    "\"2\"",
                    "\"0\"",
                    "\"0\"",
                    "",
                    "",
                    NULL,
                    false};
  gemm(&one, 0, 1e-5, "no kernel takes it");
}

// --- Convolutions -----------------------------------------------------------------------------------

static void conv(const char *x, const char *w, const char *y, const char *target, const char *attrs,
                 const char *more, int type) {
  const char *t = types[type];
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m\nENTRY e {\n  x = %s%s parameter(0)\n  w = %s%s parameter(1)\n",
                t, x, t, w);
  if (more)
    hl_buf_printf(&text, "  b = %s[24]{0} parameter(2)\n", t);
  if (more && *more)
    hl_buf_printf(&text, "  side = %s%s parameter(3)\n", t, y);
  hl_buf_printf(
      &text,
      "  ROOT r = (%s%s, u8[0]{0}) custom-call(x, w%s%s), custom_call_target=\"%s\", %s\n}\n", t, y,
      more ? ", b" : "", more && *more ? ", side" : "", target, attrs);
  check(text.at, type == 3 ? 4e-2 : tolerance[type] * 4, NULL);
  hl_buf_free(&text);
}

static void convolutions(void **state) {
  for (int type = 0; type < 4; type++) {
    conv("[2,9,11,8]{3,2,1,0}", "[3,3,8,24]{3,2,1,0}", "[2,9,11,24]{3,2,1,0}",
         "__cudnn$convForward", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", NULL,
         type);
    conv("[2,8,9,11]{3,2,1,0}", "[24,4,3,3]{3,2,1,0}", "[2,24,5,6]{3,2,1,0}", "__cudnn$convForward",
         "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, "
         "feature_group_count=2",
         NULL, type);
    conv("[2,24,5,6]{3,2,1,0}", "[24,8,3,3]{3,2,1,0}", "[2,8,9,11]{3,2,1,0}",
         "__cudnn$convBackwardInput",
         "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01", NULL, type);
    conv("[2,9,11,8]{3,2,1,0}", "[2,5,6,24]{3,2,1,0}", "[3,3,8,24]{3,2,1,0}",
         "__cudnn$convBackwardFilter",
         "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", NULL, type);
  }
}

static void convolutions_with_more(void **state) {
  static const char relu[] =
      "window={size=3x3 pad=1_1x1_1}, dim_labels=%s, backend_config={\"cudnn_conv_backend_config\":"
      "{\"activation_mode\":\"%s\",\"conv_result_scale\":%s,\"side_input_scale\":%s}}";
  for (int type = 0; type < 4; type++)
    for (int k = 0; k < 4; k++) {
      HlBuf attrs = {0};
      const bool last = k % 2 == 0;
      hl_buf_printf(&attrs, relu, last ? "b01f_01io->b01f" : "bf01_oi01->bf01",
                    k < 2 ? "kRelu" : "kNone", k < 2 ? "1" : "0.5", k < 2 ? "0" : "2");
      conv(last ? "[2,9,11,8]{3,2,1,0}" : "[2,8,9,11]{3,2,1,0}",
           last ? "[3,3,8,24]{3,2,1,0}" : "[24,8,3,3]{3,2,1,0}",
           last ? "[2,9,11,24]{3,2,1,0}" : "[2,24,9,11]{3,2,1,0}",
           "__cudnn$convBiasActivationForward", attrs.at, k < 2 ? "" : "side", type);
      hl_buf_free(&attrs);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),
      cmocka_unit_test(products_with_bias),
      cmocka_unit_test(batches),
      cmocka_unit_test(large_product),
      cmocka_unit_test(products_left_alone),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(convolutions_with_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
