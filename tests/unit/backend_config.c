// Backend configs: each kind read and written by its rows; what is not known, and what says the same, stays as it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/edit.h"
#include "hilo/text.h"
#include "ir/backend_config.h"

typedef struct Fixture {
  HlCx *cx;
  HlModule *m;
  HlArena *arena;
} Fixture;

static int set_up(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->cx = hl_cx_new();
  f->arena = hl_arena_new();
  f->m = hl_text_parse(f->cx, "HloModule m\nf { ROOT x = f32[] parameter(0) }\n"
                              "ENTRY e { x = f32[] parameter(0)\n"
                              "ROOT y = f32[] fusion(x), kind=kCustom, calls=f }");
  *state = f;
  return f->m ? 0 : -1;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  hl_module_free(f->m);
  hl_arena_free(f->arena);
  hl_cx_free(f->cx);
  free(f);
  return 0;
}

static HlInst *with(const Fixture *f, const char *config) {
  hl_set_text(f->m->entry->root, HL_A_BACKEND_CONFIG, config);
  return f->m->entry->root;
}

static const char *text_of(const Fixture *f) {
  return hl_attr_text(f->m->entry->root, HL_A_BACKEND_CONFIG);
}

// What XLA writes of a kernel that runs like any other.
#define USUAL_QUEUE "\"operation_queue_id\":\"0\""
#define USUAL_SCHEDULE                                                                       \
  "\"force_earliest_schedule\":false,\"reification_cost\":[],\"device_type\":\"DEVICE_TYPE_" \
  "INVALID\""

// --- What stays, what moves --------------------------------------------------------------------------

static const char *queue_in(const Fixture *f, const char *old, HlMaybeInt queue) {
  HlInst *inst = with(f, old);
  HlQueueConfig config = hl_queue_config(f->arena, inst);
  config.queue = queue;
  hl_set_queue_config(f->arena, inst, &config);
  return text_of(f);
}

static void test_places(void **state) {
  const Fixture *f = *state;
  const HlMaybeInt four = {true, 4}, none = {0};
  // In the place of the old one, whatever order the fields have; spelling and unknown fields stay.
  assert_string_equal(
      queue_in(f, "{\"z\": 1.50 ,\"operation_queue_id\":\"3\",\"a\":{\"n\":[1,\"}\"]}}", four),
      "{\"z\":1.50 ,\"operation_queue_id\":\"4\",\"a\":{\"n\":[1,\"}\"]}}");
  assert_string_equal(queue_in(f, "{\"z\":1,\"operation_queue_id\":\"3\"}", none), "{\"z\":1}");
  assert_string_equal(queue_in(f, "{\"operation_queue_id\":\"3\"}", none), "");
  // A new one before the first that the table has later, else at the end.
  assert_string_equal(
      queue_in(f, "{\"z\":1,\"force_earliest_schedule\":false,\"y\":2}", four),
      "{\"z\":1,\"operation_queue_id\":\"4\",\"force_earliest_schedule\":false,\"y\":2}");
  assert_string_equal(queue_in(f, "{\"z\":1}", four), "{\"z\":1,\"operation_queue_id\":\"4\"}");
  // Where nothing stood, all that XLA writes.
  assert_string_equal(queue_in(f, "", four), "{\"operation_queue_id\":\"4\"," USUAL_SCHEDULE "}");
  assert_string_equal(queue_in(f, " { } ", four),
                      "{\"operation_queue_id\":\"4\"," USUAL_SCHEDULE "}");
  // The same number, spelt otherwise, is no change.
  assert_string_equal(queue_in(f, "{\"operation_queue_id\": 4 }", four),
                      "{\"operation_queue_id\": 4 }");
  // What is no object stays.
  assert_string_equal(queue_in(f, "no object", four), "no object");
  assert_string_equal(queue_in(f, "{\"n\"", four), "{\"n\"");
  assert_string_equal(queue_in(f, "{\"n\":[{}", four), "{\"n\":[{}");
}

static void test_lists(void **state) {
  const Fixture *f = *state;
  HlInst *inst =
      with(f, "{\"wait_on_operation_queues\":[ \"7\" , 8],\"device_type\":\"DEVICE_TYPE_HOST\"}");
  HlQueueConfig config = hl_queue_config(f->arena, inst);
  assert_int_equal(config.waits.n, 2);
  assert_int_equal(config.waits.at[0], 7);
  assert_int_equal(config.waits.at[1], 8);
  assert_int_equal(config.device, HL_DEVICE_HOST);
  config.waits.n = 1;
  hl_set_queue_config(f->arena, inst, &config);
  assert_string_equal(
      text_of(f), "{\"wait_on_operation_queues\":[\"7\"],\"device_type\":\"DEVICE_TYPE_HOST\"}");
  config.waits.n = 0;
  config.earliest = HL_OFF;
  hl_set_queue_config(f->arena, inst, &config);
  assert_string_equal(text_of(f),
                      "{\"force_earliest_schedule\":false,\"device_type\":\"DEVICE_TYPE_HOST\"}");
}

// --- Loops ------------------------------------------------------------------------------------------

static void test_loops(void **state) {
  const Fixture *f = *state;
  HlInst *loop = with(f, "{\"known_trip_count\":{ \"n\": 10 },"
                         "\"known_init_step\":{\"init\":\"-2\",\"step\":\"3\"},\"other\":[ ]}");
  HlLoopConfig config = hl_loop_config(NULL, loop);
  assert_true(config.trips.given && config.trips.value == 10);
  assert_true(config.init.given && config.init.value == -2 && config.step.value == 3);
  assert_false(config.slot.given);
  assert_null(config.dynamic_variables.at);
  // Nothing changes: nothing is spelt anew.
  assert_string_equal(hl_loop_config_text(f->arena, HL_XLA_UNTOLD, text_of(f), &config),
                      text_of(f));
  config.slot = (HlMaybeInt){true, 1};
  config.init = config.step = (HlMaybeInt){0};
  config.trips.value = 5;
  assert_string_equal(hl_loop_config_text(f->arena, HL_XLA_UNTOLD, text_of(f), &config),
                      "{\"known_trip_count\":{\"n\":\"5\"},\"other\":[ ],"
                      "\"known_induction_variable\":{\"tuple_index\":\"1\"}}");
  assert_false(hl_loop_config(NULL, with(f, "")).trips.given);
}

// --- Fusions ----------------------------------------------------------------------------------------

static HlFusionCode code_of(const Fixture *f, const char *config) {
  return hl_fusion_code(with(f, config));
}

static void test_fusion_codes(void **state) {
  const Fixture *f = *state;
  assert_int_equal(code_of(f, "{\"fusion_backend_config\":{\"kind\":\"__triton_gemm\"}}"),
                   HL_FUSION_TRITON_GEMM);
  assert_int_equal(
      code_of(f,
              "{\"outer_dimension_partitions\":[],\"fusion_config\":{\"kind\":\"__ynn_fusion\"}}"),
      HL_FUSION_YNN);
  assert_int_equal(code_of(f, "{\"fusion_backend_config\":{\"kind\":\"__triton_gemma\"}}"),
                   HL_FUSION_OTHER);
  assert_int_equal(code_of(f, "{\"fusion_backend_config\":{}}"), HL_FUSION_NONE);
  assert_int_equal(code_of(f, "{\"note\":\"__ynn_fusion\"}"), HL_FUSION_NONE);
}

// An object goes with all that it says, and comes with all of its fields; a word that no row has stays.
static void test_objects(void **state) {
  const Fixture *f = *state;
  HlInst *inst =
      with(f, "{\"fusion_backend_config\":{\"kind\":\"__triton_gemm\",\"triton_gemm_config\":"
              "{\"block_m\":\"16\",\"is_tma_allowed\":false},\"x\":0}}");
  HlFusionConfig config = hl_fusion_config(f->arena, inst);
  assert_true(config.gemm && config.block_m == 16 && config.block_n == 0 && !config.tiled);
  const int64_t sizes[] = {4, 8};
  config.kind = HL_FUSION_TRITON;
  config.gemm = false;
  config.tiled = true;
  config.tile = (HlI64s){sizes, 2};
  config.warps = 2;
  config.ctas = 1;
  hl_set_fusion_config(f->arena, inst, &config);
  assert_string_equal(text_of(f),
                      "{\"fusion_backend_config\":{\"kind\":\"__triton\",\"x\":0,"
                      "\"block_level_fusion_config\":{\"num_warps\":\"2\",\"output_tiles\":"
                      "[{\"sizes\":[\"4\",\"8\"]}],\"num_ctas\":1,\"num_stages\":0,"
                      "\"is_tma_allowed\":false,\"is_warp_specialization_allowed\":false,"
                      "\"waves_per_eu\":0,\"num_tiles_per_pid\":0,\"group_size\":0}}}");
  config = hl_fusion_config(f->arena, inst);
  assert_int_equal(config.tile.n, 2);
  assert_int_equal(config.tile.at[1], 8);

  inst = with(f, "{\"fusion_backend_config\":{\"kind\":\"__new\"}}");
  config = hl_fusion_config(f->arena, inst);
  config.own = true;
  config.kernel = HL_KERNEL_SLICES;
  hl_set_fusion_config(f->arena, inst, &config);
  assert_string_equal(text_of(f),
                      "{\"fusion_backend_config\":{\"kind\":\"__new\",\"custom_fusion_config\":"
                      "{\"name\":\"address_computation\",\"kernel_index\":0}}}");
}

// --- Libraries --------------------------------------------------------------------------------------

static void test_gemm(void **state) {
  const Fixture *f = *state;
  const int64_t one[] = {1}, precision[] = {HL_WORD_precision_HIGHEST, HL_WORD_precision_DEFAULT};
  HlGemmConfig config = {.alpha = 0.1,
                         .lhs_contract = {one, 1},
                         .precision = {precision, 2},
                         .algorithm = HL_WORD_dot_algorithm_F32_F32_F32,
                         .epilogue = HL_EPILOGUE_BIAS,
                         .lhs_stride = 7};
  const char whole[] =
      "{" USUAL_QUEUE ",\"gemm_backend_config\":{\"alpha_real\":0.10000000000000001,\"beta\":0,"
      "\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],"
      "\"rhs_contracting_dimensions\":[],\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]},"
      "\"alpha_imag\":0,\"precision_config\":{\"operand_precision\":[\"HIGHEST\",\"DEFAULT\"],"
      "\"algorithm\":\"ALG_DOT_F32_F32_F32\"},\"epilogue\":\"BIAS\",\"lhs_stride\":\"7\","
      "\"rhs_stride\":\"0\",\"grad_x\":false,\"grad_y\":false,\"damax_output\":false,"
      "\"autotune_workspace_size\":\"0\",\"scale_mode\":0}," USUAL_SCHEDULE "}";
  assert_string_equal(hl_gemm_config_text(f->arena, HL_XLA_UNTOLD, "", &config), whole);
  const HlGemmConfig again = hl_gemm_config(f->arena, with(f, whole));
  assert_true(again.alpha == 0.1 && again.algorithm == config.algorithm &&
              again.epilogue == HL_EPILOGUE_BIAS && again.lhs_stride == 7);
  assert_int_equal(again.precision.at[0], HL_WORD_precision_HIGHEST);
  assert_string_equal(hl_gemm_config_text(f->arena, HL_XLA_UNTOLD, whole, &again), whole);
}

// A release writes the fields that it has.
static void test_releases(void **state) {
  const Fixture *f = *state;
  const HlCollectiveConfig config = {.is_sync = HL_ON};
  const char begin[] =
      "{" USUAL_QUEUE ",\"collective_backend_config\":{\"is_sync\":true,\"is_pipelined\":false,"
      "\"backend\":\"DEFAULT\",\"collectives_mode\":\"COLLECTIVES_MODE_INVALID\","
      "\"kernel_strategy\":\"KERNEL_STRATEGY_DEFAULT\"";
  const char *text = hl_collective_config_text(f->arena, HL_XLA_0_10, "", &config);
  assert_string_equal(text, hl_arena_printf(f->arena, "%s}," USUAL_SCHEDULE "}", begin));
  text = hl_collective_config_text(f->arena, HL_XLA_0_11, "", &config);
  assert_string_equal(
      text,
      hl_arena_printf(f->arena, "%s%s}," USUAL_SCHEDULE "}", begin,
                      ",\"is_spmd_generated\":false,"
                      "\"communication_domain\":\"COLLECTIVE_COMMUNICATION_DOMAIN_UNSPECIFIED\""));
}

// Fields that are not there have their defaults, and are written only when they say more.
static void test_part(void **state) {
  const Fixture *f = *state;
  HlInst *inst = with(f, "{\"gemm_backend_config\":{\"epilogue\":0,\"autotune\":{}}}");
  HlGemmConfig config = hl_gemm_config(f->arena, inst);
  assert_true(config.alpha == 1 && config.beta == 0 && config.epilogue == HL_EPILOGUE_DEFAULT);
  config.beta = 1;
  hl_set_gemm_config(f->arena, inst, &config);
  assert_string_equal(text_of(f),
                      "{\"gemm_backend_config\":{\"beta\":1,\"epilogue\":0,\"autotune\":{}}}");
}

// Older dumps have the fields of the library's object at the top: there they are read, and written.
static void test_old_form(void **state) {
  const Fixture *f = *state;
  HlInst *inst = with(f, "{\"algorithm\":\"0\",\"conv_result_scale\":2,\"activation_mode\":\"2\"}");
  HlConvConfig config = hl_conv_config(NULL, inst);
  assert_true(config.scale == 2 && config.activation == HL_ACTIVATION_RELU);
  config.scale = 3;
  hl_set_conv_config(f->arena, inst, &config);
  assert_string_equal(text_of(f),
                      "{\"algorithm\":\"0\",\"conv_result_scale\":3,\"activation_mode\":\"2\"}");
  assert_true(hl_solve_config(NULL, with(f, "{\"left_side\":true,\"transpose_a\":\"ADJOINT\"}"))
                  .transpose_a == HL_WORD_transpose_a_ADJOINT);
}

// --- Any text -----------------------------------------------------------------------------------------

// Reads a text as each kind of config, and writes over it what was read: a text with fields stays.
static void read_all(const Fixture *f, const char *text) {
  const HlMark mark = hl_arena_mark(f->arena);
  const HlInst *inst = with(f, text);
#define CONFIG(name, Type, whose)                                                        \
  {                                                                                      \
    const Type config = hl_##name##_config(f->arena, inst);                              \
    const char *again = hl_##name##_config_text(f->arena, HL_XLA_UNTOLD, text, &config); \
    if (strchr(text, '"') && strcmp(again, text) != 0)                                   \
      fail_msg("%s as a config of %s became %s", text, #name, again);                    \
  }
#define FIELD(Type, kind, member, path, absent)
#define CONFIG_END(Type)
#include "ir/config_fields.def"
  hl_arena_release(f->arena, mark);
}

// What a config says that is not there takes all fields of its kind, and is read from them again.
static void test_every_kind(void **state) {
  const Fixture *f = *state;
#define CONFIG(name, Type, whose)                                                              \
  {                                                                                            \
    const Type usual = hl_##name##_config(f->arena, with(f, ""));                              \
    const char *text = hl_##name##_config_text(f->arena, HL_XLA_UNTOLD, "", &usual);           \
    const Type again = hl_##name##_config(f->arena, with(f, text));                            \
    assert_string_equal(hl_##name##_config_text(f->arena, HL_XLA_UNTOLD, text, &again), text); \
    assert_string_equal(hl_##name##_config_text(f->arena, HL_XLA_UNTOLD, "", &again), text);   \
  }
#define FIELD(Type, kind, member, path, absent)
#define CONFIG_END(Type)
#include "ir/config_fields.def"
}

// Every beginning of a text, and the text with any byte made another: no text is too strange to be read.
static void test_damaged(void **state) {
  const Fixture *f = *state;
  static const char whole[] =
      "{\"fusion_backend_config\":{\"kind\":\"__triton\",\"block_level_fusion_config\":"
      "{\"output_tiles\":[{\"sizes\":[\"4\",\"8\"]}],\"num_ctas\":1}},\"gemm_backend_config\":"
      "{\"alpha_real\":0.5,\"precision_config\":{\"operand_precision\":[\"HIGH\",\"DEFAULT\"]}},"
      "\"wait_on_operation_queues\":[\"1\",2],\"known_init_step\":{\"init\":\"-1\"},\"a\\\"\":"
      "null}";
  read_all(f, whole);
  char text[sizeof whole];
  for (size_t n = 0; n < sizeof whole - 1; n++) {
    memcpy(text, whole, n);
    text[n] = '\0';
    read_all(f, text);
    for (const char *c = "{}[]\",:\\ 0"; *c; c++) {
      memcpy(text, whole, sizeof whole);
      text[n] = *c;
      read_all(f, text);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_loops, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_fusion_codes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_objects, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_gemm, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_releases, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_part, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_old_form, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_every_kind, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
