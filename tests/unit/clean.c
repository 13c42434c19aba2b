// Cleaning a module: what it computes stays, what it is called goes; and running out of memory, or being cancelled, on the way.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/clean.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "support/folder.h"

static const char one[] = "HloModule jit_f\n\nsum {\n  x = f32[] parameter(0)\n  y = f32[] "
                          "parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n\n"
                          "ENTRY main {\n"
                          "  p = f32[8] parameter(0)\n"
                          "  z = f32[] constant(0)\n"
                          "  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=sum, "
                          "metadata={op_name=\"jit(f)/sum\" source_line=3}\n}\n";
static const char two[] =
    "HloModule other\n\nplus {\n  y = f32[] parameter(1)\n  x = f32[] parameter(0)\n  ROOT t = "
    "f32[] add(x, y)\n}\n\n"
    "ENTRY start {\n"
    "  nothing = f32[] constant(0)\n"
    "  data = f32[8] parameter(0)\n"
    "  ROOT total = f32[] reduce(data, nothing), dimensions={0}, to_apply=plus\n}\n";

static char *text_of(HlCx *cx, const HlModule *m) {
  HlBuf out = {0};
  hl_text_print(cx, m, NULL, &out);
  return out.at;
}

static void keeps_what_it_computes(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, one), *was = hl_text_parse(cx, one);
  hl_clean_module(m, false, false);
  assert_true(hl_verify(cx, m, NULL));
  assert_true(hl_graph_equal(cx, m, was));
  char *text = text_of(cx, m);
  assert_null(strstr(text, "metadata"));
  assert_null(strstr(text, "jit_f"));
  assert_non_null(strstr(text, "reduce.6"));
  // What it prints, read and cleaned again, prints the same.
  HlModule *again = hl_text_parse(cx, text);
  hl_clean_module(again, false, false);
  char *same = text_of(cx, again);
  assert_string_equal(text, same);
  hl_free(same);
  hl_free(text);
  hl_module_free(again);
  hl_module_free(m);
  hl_module_free(was);
  hl_cx_free(cx);
}

// --- Files --------------------------------------------------------------------------------------

typedef struct Job {
  char folder[FOLDER_ROOM];
  int kept, duplicates;
} Job;

static void put(const Job *job, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", job->folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static int make_folder(void **state) {
  Job *job = calloc(1, sizeof *job);
  if (!folder_make(job->folder, "clean"))
    return 1;
  put(job, "a.hlo", one);
  put(job, "b.hlo", two);
  *state = job;
  return 0;
}

static int drop_folder(void **state) {
  Job *job = *state;
  const bool gone = folder_remove(job->folder);
  free(job);
  return !gone;
}

static void count(void *user, const HlCleaned *cleaned, int64_t k, int64_t n) {
  Job *job = user;
  job->kept += cleaned->state == HL_CLEAN_KEPT;
  job->duplicates += cleaned->state == HL_CLEAN_DUPLICATE;
}

static bool clean(HlCx *cx, void *user) {
  Job *job = user;
  char out[512];
  const char *in = job->folder;
  snprintf(out, sizeof out, "%s/out", job->folder);
  const HlCleanOptions options = {.folder = out, .load.verify = true};
  HlCleanCounts counts;
  job->kept = job->duplicates = 0;
  return hl_clean(cx, 1, &in, &options, count, job, &counts);
}

static void without_memory(void **state) {
  Job *job = *state;
  int failed = 0;
  for (int n = 1, done = 0; !done; n++) {
    HlCx *cx = hl_cx_new();
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s/out", job->folder);
    assert_int_equal(system(command), 0);
    hl_cx_limits(cx)->fail_allocation = n;
    done = hl_try(cx, clean, job) && hl_cx_limits(cx)->fail_allocation != 0;
    failed += hl_cx_n_errors(cx) > 0;
    hl_cx_free(cx);
  }
  assert_true(failed > 100);
  HlCx *cx = hl_cx_new();
  assert_true(hl_try(cx, clean, job));
  assert_int_equal(job->kept, 1);
  assert_int_equal(job->duplicates, 1);
  hl_cx_free(cx);
}

static bool soon(void *user) {
  return ++*(int *)user > 2;
}

static void cancelled(void **state) {
  Job *job = *state;
  HlCx *cx = hl_cx_new();
  int looks = 0;
  hl_cx_set_poll(cx, soon, &looks);
  assert_false(hl_try(cx, clean, job));
  assert_int_equal(hl_cx_error_kind(cx), HL_CANCELLED);
  hl_cx_set_poll(cx, NULL, NULL);
  hl_cx_resume(cx);
  hl_cx_clear(cx);
  assert_true(hl_try(cx, clean, job));  // and nobody holds the folder
  assert_int_equal(job->kept, 1);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_what_it_computes),
      cmocka_unit_test_setup_teardown(without_memory, make_folder, drop_folder),
      cmocka_unit_test_setup_teardown(cancelled, make_folder, drop_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
