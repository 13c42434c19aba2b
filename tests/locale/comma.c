// Loaded into the programs by locale.comma (tests/locale/run.sh): sets the locale that HILO_TEST_LOCALE names, as a program that
// embeds the library may. Where that fails the program ends, so that the test does not pass on nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void set_locale(void) {
  static const char *const ours[] = {"hilo", "hlo-opt", "run_hlo_module"};
  const char *name = getenv("HILO_TEST_LOCALE");
  for (int k = 0; name && k < 3; k++) {
    if (strcmp(program_invocation_short_name, ours[k]) != 0)
      continue;
    if (!setlocale(LC_ALL, name) || strcmp(localeconv()->decimal_point, ",") != 0) {
      fprintf(stderr, "there is no locale %s with a decimal comma\n", name);
      _Exit(99);
    }
    setlocale(LC_MESSAGES, "C");  // what the system's errors are called is the host's business
  }
}
