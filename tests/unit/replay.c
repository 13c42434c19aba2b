// What `run` makes of the arrays it is given: a program for one device of several takes the whole program's arrays, and is compared with its results.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/edit.h"
#include "hilo/npy.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/text.h"

static const char program[] = "HloModule m\n\n"
                              "ENTRY main {\n"
                              "  x = f32[5,2] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                              "  y = f32[2] parameter(1), sharding={replicated}\n"
                              "  yy = f32[5,2] broadcast(y), dimensions={1}\n"
                              "  ROOT r = f32[5,2] add(x, yy), sharding={devices=[2,1]<=[2]}\n"
                              "}\n";

static HlLiteral *numbers(HlCx *cx, const HlModule *m, int rank, const int64_t *dim, double first) {
  HlLiteral *out = hl_literal_new(cx, hl_shape_array(m->shapes, HL_F32, rank, dim));
  for (int64_t k = 0; k < out->n; k++)
    hl_literal_set_f64(out, k, first + (double)k);
  return out;
}

static void write_arrays(HlCx *cx, const HlModule *m, const char *args, const char *results,
                         double wrong) {
  const int64_t dims[] = {5, 2};
  HlLiteral *x = numbers(cx, m, 2, dims, 0), *y = numbers(cx, m, 1, dims + 1, 100),
            *r = numbers(cx, m, 2, dims, 0);
  for (int64_t k = 0; k < r->n; k++)
    hl_literal_set_f64(r, k, (double)k + 100 + (double)(k % 2) + (k == 9 ? wrong : 0));
  assert_true(hl_npz_write(cx, args, 2, (const char *[]){"a0", "a1"}, (HlLiteral *[]){x, y}));
  assert_true(hl_npz_write(cx, results, 1, (const char *[]){"r0"}, &r));
  hl_literal_unref(x);
  hl_literal_unref(y);
  hl_literal_unref(r);
}

static HlModule *partitioned(HlCx *cx) {
  HlModule *m = hl_text_parse(cx, program);
  assert_int_equal(hl_named_partitions(m), 2);
  hl_set_devices(m, 1, hl_named_partitions(m));
  const HlEngineOptions options = {.passes = &hl_passes, .pipelines = &hl_pipelines};
  HlEngine *engine = hl_engine_new(cx, &options);
  assert_true(hl_engine_run(engine, m, "spmd-partitioning"));
  hl_engine_free(engine);
  assert_int_equal(m->entry->params[0]->shape->dim[0], 3);
  return m;
}

static void replay(double wrong, int n_different) {
  char args[] = "/tmp/hilo-args-XXXXXX", results[] = "/tmp/hilo-results-XXXXXX";
  close(mkstemp(args));
  close(mkstemp(results));
  HlCx *cx = hl_cx_new();
  HlModule *m = partitioned(cx);
  write_arrays(cx, m, args, results, wrong);
  HlReplay r;
  const HlReplayOptions options = {.args = args, .expect = results};
  assert_true(hl_replay(cx, m, NULL, &options, &r));
  assert_int_equal(r.devices, 2);
  assert_int_equal(r.n_compared, 2);
  assert_int_equal(r.n_different, n_different);
  hl_replay_free(&r);
  hl_module_free(m);
  hl_cx_free(cx);
  unlink(args);
  unlink(results);
}

static void whole_arrays_are_cut(void **state) {
  (void)state;
  replay(0, 0);
}

// The last element, which the second device has.
static void a_difference_is_found(void **state) {
  (void)state;
  replay(1, 1);
}

// The arguments given say which sizes a dynamic program has; what JAX adds is not among them.
static const char dynamic[] =
    "module @m {\n"
    "  func.func public @main(%p: tensor<i32> {jax.global_constant = \"_platform_index\"},\n"
    "                         %x: tensor<?x?xf32>) -> tensor<?x?xf32> {\n"
    "    %0 = stablehlo.add %x, %x : tensor<?x?xf32>\n"
    "    return %0 : tensor<?x?xf32>\n"
    "  }\n"
    "}\n";

static void arguments_tell_sizes(void **state) {
  (void)state;
  char args[] = "/tmp/hilo-args-XXXXXX";
  close(mkstemp(args));
  HlCx *cx = hl_cx_new();
  HlModule *like = hl_text_parse(cx, program);
  HlLiteral *x = numbers(cx, like, 2, (const int64_t[]){3, 4}, 0);
  assert_true(hl_npz_write(cx, args, 1, (const char *[]){"a0"}, &x));
  HlSource *source = hl_source_new("dynamic", dynamic, strlen(dynamic), false);
  HlFile file;
  const HlLoadOptions options = {.args = args, .fill_hidden = true, .verify = true};
  assert_true(hl_load_source(cx, source, &options, &file));
  HlReplay r;
  assert_true(hl_replay(cx, file.modules[0], NULL, &(HlReplayOptions){.args = args}, &r));
  assert_int_equal(r.n_params, 1);
  assert_int_equal(r.leaves[0].value->shape->dim[1], 4);
  assert_float_equal(hl_literal_f64(r.leaves[0].value, 5), 10, 0);
  hl_replay_free(&r);
  hl_file_free(&file);
  hl_source_unref(source);
  hl_literal_unref(x);
  hl_module_free(like);
  hl_cx_free(cx);
  unlink(args);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_arrays_are_cut),
      cmocka_unit_test(a_difference_is_found),
      cmocka_unit_test(arguments_tell_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
