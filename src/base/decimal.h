// base/decimal.h: what readers of decimal numbers share: the common cases, in which nothing needs a library.
#ifndef HILO_BASE_DECIMAL_H
#define HILO_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

enum { BASE_EXACT_POWER = 22 };  // the largest power of ten that a double holds exactly
extern const double base_power_of_ten[BASE_EXACT_POWER + 1];

// mantissa * 10^exponent where a double holds both exactly: then the product is rounded once. False
// where it does not.
static inline bool base_exact_double(uint64_t mantissa, int64_t exponent, double *out) {
  if (mantissa >> 53 || exponent < -BASE_EXACT_POWER || exponent > BASE_EXACT_POWER)
    return false;
  *out = exponent < 0 ? (double)mantissa / base_power_of_ten[-exponent]
                      : (double)mantissa * base_power_of_ten[exponent];
  return true;
}

// The end of "e+12" at `s`, adding to *exponent (beyond a million some number as large); `s` itself
// if it is none. The text must end in a byte that is no digit.
static inline const char *base_read_exponent(const char *s, int64_t *exponent) {
  if (*s != 'e' && *s != 'E')
    return s;
  const char *k = s + 1;
  const bool negative = *k == '-';
  if (*k == '-' || *k == '+')
    k++;
  if (*k < '0' || *k > '9')
    return s;
  int64_t value = 0;
  for (; *k >= '0' && *k <= '9'; k++)
    if (value < 1000000)
      value = value * 10 + (*k - '0');
  *exponent += negative ? -value : value;
  return k;
}

#endif
