// number.c: numbers as text by the C library, in the C locale.
//
// The library's own locale is asked for each time: that takes some 40 ns and no memory, and needs no global.

#include "base/number.h"

#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale(void) {
  return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double base_read_double(const char *text, char **end) {
  const locale_t c = c_locale();
  const double value = strtod_l(text, end, c);
  freelocale(c);
  return value;
}

float base_read_float(const char *text, char **end) {
  const locale_t c = c_locale();
  const float value = strtof_l(text, end, c);
  freelocale(c);
  return value;
}

// Whether a format writes a floating-point number: nothing else depends on a locale.
static bool has_float(const char *format) {
  while ((format = strchr(format, '%'))) {
    format += 1 + strspn(format + 1, "-+ #0123456789.*hljztL");
    if (*format && strchr("aAeEfFgG", *format))
      return true;
    format += *format != 0;
  }
  return false;
}

int base_vsnprintf(char *out, size_t room, const char *format, va_list args) {
  if (!has_float(format))
    return vsnprintf(out, room, format, args);
  const locale_t c = c_locale(), old = uselocale(c);
  const int n = vsnprintf(out, room, format, args);
  uselocale(old);
  freelocale(c);
  return n;
}

int base_snprintf(char *out, size_t room, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = base_vsnprintf(out, room, format, args);
  va_end(args);
  return n;
}

int base_fprintf(FILE *to, const char *format, ...) {
  const locale_t c = c_locale(), old = uselocale(c);
  va_list args;
  va_start(args, format);
  const int n = vfprintf(to, format, args);
  va_end(args);
  uselocale(old);
  freelocale(c);
  return n;
}
