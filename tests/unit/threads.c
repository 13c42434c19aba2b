// Threads that share nothing: each reads, converts, compiles, interprets and prints all golden modules with a context of
// its own, beginning at another one, and all come to the same. What they might share by mistake, a table filled when it is
// first asked for or another library's state, is what the thread sanitizer finds in this program:
//
//   cmake -G Ninja -S . -B build/tsan -DCMAKE_BUILD_TYPE=Debug -DHILO_SANITIZE=thread -DHILO_TEST_PREFIX=tsan.
//   ninja -C build/tsan unit_threads unit_session unit_collective unit_pjrt && ctest --test-dir build/tsan -R 'threads|session|collective|pjrt'
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "hilo/eval.h"
#include "hilo/proto.h"
#include "hilo/session.h"
#include "hilo/text.h"

enum { THREADS = 2, MOST_STEPS = 100000, MOST_DEVICES = 8, MOST_PARAMS = 64 };

typedef struct Done {  // with one file
  uint64_t hash;       // of all that came out, errors too
  int modules, runs;
} Done;

typedef struct Worker {
  const glob_t *files;
  size_t first;
  HlSession *session[2];  // for the CPU and for the GPU, by turns
  Done *done;             // by file
} Worker;

static void note(Done *done, HlBuf *text) {
  done->hash = hl_hash_bytes(text->at ? text->at : "", text->n, done->hash);
  hl_buf_free(text);
}

static void print(HlCx *cx, const HlModule *m, Done *done) {
  HlBuf text = {0};
  hl_text_print(cx, m, NULL, &text);
  note(done, &text);
}

static void convert(HlCx *cx, const HlModule *m, Done *done) {
  HlBuf bytes = {0};
  if (hl_proto_write(cx, m, HL_PROTO_MODULE, false, NULL, &bytes)) {
    HlSource *source = hl_source_new("proto", bytes.at, bytes.n, false);
    HlModule *back = hl_proto_read(cx, source, NULL);
    if (back)
      print(cx, back, done);
    hl_module_free(back);
    hl_source_unref(source);
  }
  hl_buf_free(&bytes);
}

static void run(HlCx *cx, const HlModule *m, Done *done) {
  const int n = hl_eval_devices(m, NULL), n_params = m->entry->n_params;
  HlLiteral *in[MOST_PARAMS], *out[MOST_DEVICES];
  if (n > MOST_DEVICES || n_params > MOST_PARAMS || !hl_fake_args(cx, m, 1, in))
    return;
  const HlLiteral *const *args[MOST_DEVICES];
  for (int d = 0; d < n; d++)
    args[d] = (const HlLiteral *const *)in;
  if (hl_eval(cx, m, NULL, args, out)) {
    HlBuf text = {0};
    for (int d = 0; d < n; d++) {
      hl_literal_print(&text, out[d]);
      hl_literal_unref(out[d]);
    }
    note(done, &text);
    done->runs++;
  }
  for (int k = 0; k < n_params; k++)
    hl_literal_unref(in[k]);
}

static void compile(HlCx *cx, HlSession *session, const HlModule *m, Done *done) {
  HlCompiled *compiled = hl_compile(cx, session, &(HlProgram){.module = m}, NULL);
  if (compiled)
    print(cx, hl_compiled_module(compiled), done);
  hl_compiled_unref(compiled);
}

static void use_file(HlCx *cx, HlSession *session, const char *path, Done *done) {
  HlFile file;
  hl_load(cx, path, NULL, &file);
  for (int k = 0; k < file.n; k++) {
    print(cx, file.modules[k], done);
    convert(cx, file.modules[k], done);
    run(cx, file.modules[k], done);
    compile(cx, session, file.modules[k], done);
    done->modules++;
  }
  hl_file_free(&file);
  HlBuf said = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    hl_buf_puts(&said, hl_cx_diag(cx, k)->text);
  note(done, &said);
  hl_cx_clear(cx);
}

static void *work(void *user) {
  Worker *w = user;
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->eval_steps = MOST_STEPS;
  w->session[0] = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  w->session[1] = hl_session_new(cx, &(HlSessionOptions){.platform = "gpu"});
  for (size_t k = 0; k < w->files->gl_pathc; k++) {
    const size_t which = (w->first + k) % w->files->gl_pathc;
    use_file(cx, w->session[which % 2], w->files->gl_pathv[which], &w->done[which]);
  }
  hl_session_free(w->session[0]);
  hl_session_free(w->session[1]);
  hl_cx_free(cx);
  return NULL;
}

static void all_come_to_the_same(void **state) {
  static const char *const patterns[] = {"run/*.hlo",    "algsimp/*/*.hlo", "text/*.hlo",
                                         "text/*/*.hlo", "mlir/*.mlir",     "jaxpr/*.jaxpr"};
  glob_t files = {0};
  for (int k = 0; k < HL_COUNT_OF(patterns); k++) {
    char path[64];
    snprintf(path, sizeof path, "tests/golden/%s", patterns[k]);
    assert_int_equal(glob(path, k > 0 ? GLOB_APPEND : 0, NULL, &files), 0);
  }
  Worker worker[THREADS];
  pthread_t thread[THREADS];
  for (int k = 0; k < THREADS; k++) {
    worker[k] = (Worker){.files = &files, .first = (size_t)k * files.gl_pathc / THREADS};
    worker[k].done = calloc(files.gl_pathc, sizeof *worker[k].done);
    assert_int_equal(pthread_create(&thread[k], NULL, work, &worker[k]), 0);
  }
  for (int k = 0; k < THREADS; k++)
    assert_int_equal(pthread_join(thread[k], NULL), 0);
  int modules = 0, runs = 0;
  for (size_t f = 0; f < files.gl_pathc; f++) {
    const Done *first = &worker[0].done[f];
    for (int k = 1; k < THREADS; k++)
      if (worker[k].done[f].hash != first->hash)
        fail_msg("%s comes out otherwise in thread %d", files.gl_pathv[f], k);
    modules += first->modules;
    runs += first->runs;
  }
  print_message("%zu files, %d modules, %d runs a thread\n", files.gl_pathc, modules, runs);
  assert_true(modules > 150 && runs > 80);
  for (int k = 0; k < THREADS; k++)
    free(worker[k].done);
  globfree(&files);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_come_to_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
