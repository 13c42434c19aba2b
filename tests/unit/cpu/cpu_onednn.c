// Products by oneDNN: which ones, that they are right in every layout, and that ours are made where the library is missing, is another
// one, or fails. The library is tests/libraries/onednn.c; the true one, too, where there is libdnnl.so.3.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/cpu.h"
#include "support/cpu_check.h"

static int *fake(const char *name) {
  void *library = dlopen(FAKE_ONEDNN, RTLD_LAZY | RTLD_LOCAL);
  assert_non_null(library);
  int *found = dlsym(library, name);
  assert_non_null(found);
  return found;
}

#define PLAIN                                                                       \
  "ENTRY e {\n  a = bf16[300,256] parameter(0)\n  b = bf16[256,256] parameter(1)\n" \
  "  ROOT c = f32[300,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"

static void expect(const char *entry, const char *library, const char *kind) {
  char text[1024];
  snprintf(text, sizeof text, "HloModule m\n\n%s", entry);
  char *wrong = cpu_check(text, &(CpuCheck){.kind = kind, .onednn = library});
  if (wrong)
    fail_msg("%s\nwith %s: %s", text, library, wrong);
  assert_int_equal(*fake("fake_alive"), 0);
}

static void products(void **state) {
  *fake("fake_executed") = 0;
  expect(PLAIN, FAKE_ONEDNN, "onednn");
  assert_int_equal(*fake("fake_executed"), 2);  // of 256 rows, and of 44
  expect("ENTRY e {\n  a = bf16[4,2,64,256]{0,3,2,1} parameter(0)\n  b = bf16[2,4,1024,256] "
         "parameter(1)\n"
         "  ROOT c = bf16[4,64,1024] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={1}, "
         "lhs_contracting_dims={1,3}, "
         "rhs_contracting_dims={0,3}\n}\n",
         FAKE_ONEDNN, "dot");  // what is summed over does not lie evenly
  expect("ENTRY e {\n  a = bf16[2,256,64] parameter(0)\n  b = bf16[2,1024,256] parameter(1)\n"
         "  ROOT c = bf16[2,64,1024] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
         "lhs_contracting_dims={1}, "
         "rhs_contracting_dims={2}\n}\n",
         FAKE_ONEDNN, "onednn");
  expect("ENTRY e {\n  a = s8[256,256]{0,1} parameter(0)\n  b = s8[256,257] parameter(1)\n"
         "  ROOT c = s32[256,257]{0,1} dot(a, b), lhs_contracting_dims={0}, "
         "rhs_contracting_dims={0}\n}\n",
         FAKE_ONEDNN, "onednn");
}

static void others(void **state) {
  *fake("fake_executed") = 0;
  expect(
      "ENTRY e {\n  a = f32[300,256] parameter(0)\n  b = f32[256,256] parameter(1)\n"
      "  ROOT c = f32[300,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
      FAKE_ONEDNN, "dot");
  expect(
      "ENTRY e {\n  a = bf16[30,256] parameter(0)\n  b = bf16[256,256] parameter(1)\n"
      "  ROOT c = f32[30,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
      FAKE_ONEDNN, "dot");
  expect(PLAIN, "off", "dot");
  assert_int_equal(*fake("fake_executed"), 0);
}

static void failures(void **state) {
  setenv("FAKE_ONEDNN", "matmul", 1);
  expect(PLAIN, FAKE_ONEDNN, "dot");
  *fake("fake_executed") = 0;
  setenv("FAKE_ONEDNN", "execute", 1);
  expect(PLAIN, FAKE_ONEDNN, "onednn");
  unsetenv("FAKE_ONEDNN");
}

static void refuses(const char *library, const char *why) {
  char *wrong =
      cpu_check("HloModule m\n\n" PLAIN, &(CpuCheck){.kind = "onednn", .onednn = library});
  assert_non_null(wrong);
  if (!strstr(wrong, why))
    fail_msg("with %s: %s", library, wrong);
  free(wrong);
}

static void libraries(void **state) {
  refuses("/nowhere/libdnnl.so.3", "cannot be opened");
  refuses("libc.so.6", "lacks what version 3");
  setenv("FAKE_ONEDNN", "version", 1);
  refuses(FAKE_ONEDNN, "not version 3");
  unsetenv("FAKE_ONEDNN");
}

static void real(void **state) {
  void *library = dlopen("libdnnl.so.3", RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    print_message("skipped: there is no libdnnl.so.3\n");
    skip();
  }
  expect(PLAIN, "on", "onednn");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),  cmocka_unit_test(others), cmocka_unit_test(failures),
      cmocka_unit_test(libraries), cmocka_unit_test(real),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
