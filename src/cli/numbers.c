// cli/numbers.c: numbers for people.
#include "cli/numbers.h"

#include "base/number.h"

const char *cli_short_number(double x, bool bytes, char *room, size_t n) {
  static const char *const decimal[] = {"", " k", " M", " G", " T", " P", " E"};
  static const char *const binary[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  double base = bytes ? 1024 : 1000;
  int k = 0;
  while (x >= base && k < 6) {
    x /= base;
    k++;
  }
  base_snprintf(room, n, k == 0 ? "%.0f%s" : "%.2f%s", x, bytes ? binary[k] : decimal[k]);
  return room;
}
