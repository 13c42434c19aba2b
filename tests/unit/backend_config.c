// Backend configs: fields by enumerators, loops, kinds of fusions; what is not known stays.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/edit.h"
#include "hilo/text.h"
#include "ir/backend_config.h"

static void test_fields(void **state) {
  (void)state;
  HlArena *a = hl_arena_new();
  const char *config = "{\"a\":{\"n\":[1,\"}\"]},\"operation_queue_id\":\"3\",\"z\":1.50}";
  assert_string_equal(hl_config_get(a, config, HL_CONFIG_OPERATION_QUEUE_ID), "\"3\"");
  assert_null(hl_config_get(a, config, HL_CONFIG_N));
  // Set, put in its place, taken out; all else as it was written.
  assert_string_equal(hl_config_with(a, config, HL_CONFIG_OPERATION_QUEUE_ID, "\"4\""),
                      "{\"a\":{\"n\":[1,\"}\"]},\"operation_queue_id\":\"4\",\"z\":1.50}");
  assert_string_equal(
      hl_config_with(a, config, HL_CONFIG_IS_SYNC, "true"),
      "{\"a\":{\"n\":[1,\"}\"]},\"is_sync\":true,\"operation_queue_id\":\"3\",\"z\":1.50}");
  assert_string_equal(hl_config_with(a, config, HL_CONFIG_OPERATION_QUEUE_ID, NULL),
                      "{\"a\":{\"n\":[1,\"}\"]},\"z\":1.50}");
  assert_string_equal(hl_config_with(a, "", HL_CONFIG_N, "1"), "{\"n\":1}");
  assert_string_equal(hl_config_with(a, "{\"n\":1}", HL_CONFIG_N, NULL), "");
  assert_string_equal(hl_config_with(a, "no object", HL_CONFIG_N, "1"), "no object");
  assert_null(hl_config_get(a, "{\"n\"", HL_CONFIG_N));
  hl_arena_free(a);
}

static HlInst *with_config(HlModule *m, const char *config) {
  hl_set_text(m->entry->root, HL_A_BACKEND_CONFIG, config);
  return m->entry->root;
}

static void test_loops(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *a = hl_arena_new();
  HlModule *m = hl_text_parse(cx, "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }");
  assert_non_null(m);
  HlInst *loop = with_config(m, "{\"known_init_step\":{\"init\":\"-2\",\"step\":\"3\"},"
                                "\"known_trip_count\":{ \"n\": 10 },\"other\":[ ]}");
  HlLoopConfig config = hl_loop_config(loop);
  assert_true(config.trips.given && config.trips.value == 10);
  assert_true(config.init.given && config.init.value == -2 && config.step.value == 3);
  assert_false(config.slot.given);
  // Nothing changes: nothing is spelt anew.
  assert_string_equal(hl_loop_config_text(a, loop, &config),
                      hl_attr_text(loop, HL_A_BACKEND_CONFIG));
  config.slot = (HlMaybeInt){true, 1};
  config.init = config.step = (HlMaybeInt){0};
  config.trips.value = 5;
  assert_string_equal(hl_loop_config_text(a, loop, &config),
                      "{\"known_induction_variable\":{\"tuple_index\":\"1\"},"
                      "\"known_trip_count\":{\"n\":\"5\"},\"other\":[ ]}");
  assert_false(hl_loop_config(with_config(m, "")).trips.given);
  hl_module_free(m);
  hl_arena_free(a);
  hl_cx_free(cx);
}

static HlFusionCode code_of(HlModule *m, const char *config) {
  return hl_fusion_code(with_config(m, config));
}

static void test_fusions(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, "HloModule m\nf { ROOT x = f32[] parameter(0) }\n"
                                  "ENTRY e { x = f32[] parameter(0)\n"
                                  "ROOT y = f32[] fusion(x), kind=kCustom, calls=f }");
  assert_non_null(m);
  assert_int_equal(code_of(m, "{\"fusion_backend_config\":{\"kind\":\"__triton_gemm\"}}"),
                   HL_FUSION_TRITON_GEMM);
  assert_int_equal(
      code_of(m,
              "{\"outer_dimension_partitions\":[],\"fusion_config\":{\"kind\":\"__ynn_fusion\"}}"),
      HL_FUSION_YNN);
  assert_int_equal(code_of(m, "{\"fusion_backend_config\":{\"kind\":\"__triton_gemma\"}}"),
                   HL_FUSION_NONE);
  assert_int_equal(code_of(m, "{\"note\":\"__ynn_fusion\"}"), HL_FUSION_NONE);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_fusions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
