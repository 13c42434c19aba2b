// Laws of the small floats: codes survive decoding and encoding, rounding is
// monotone, to nearest, ties to even.

#include "hilo/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  HlFloatFormat format;
} formats[] = {
#define FLOAT_FORMAT(id, bits, exponent, mantissa, bias, nan) \
  {#id, {bits, exponent, mantissa, bias, HL_NAN_##nan}},
#include "hilo/dtypes.def"
};

static const HlFloatFormat *format_named(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(formats); k++)
    if (strcmp(formats[k].name, name) == 0)
      return &formats[k].format;
  fail_msg("no format %s", name);
  return NULL;
}

// Every code that is a number comes back; nan comes back as a nan of the same sign.
static void codes_survive(void **state) {
  for (int k = 0; k < HL_COUNT_OF(formats); k++) {
    const HlFloatFormat *f = &formats[k].format;
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
      const double value = hl_float_decode(f, code);
      const uint32_t back = hl_float_encode(f, value);
      if (!isnan(value))
        assert_int_equal(back, code);
      else
        assert_true(isnan(hl_float_decode(f, back)));
      if (isnan(value) && f->nan != HL_NAN_E8M0)
        assert_int_equal(back >> (f->bits - 1), code >> (f->bits - 1));
    }
  }
}

// Between neighbours a and b: below the middle gives a, above gives b, the middle the even code.
static void rounds_to_nearest_even(void **state) {
  for (int k = 0; k < HL_COUNT_OF(formats); k++) {
    const HlFloatFormat *f = &formats[k].format;
    if (f->nan == HL_NAN_E8M0)
      continue;
    for (uint32_t code = 0; code + 1 < 1u << (f->bits - 1); code++) {
      const double a = hl_float_decode(f, code), b = hl_float_decode(f, code + 1);
      if (!isfinite(a) || !isfinite(b))
        break;
      assert_true(a < b);
      const double middle = (a + b) / 2;
      assert_int_equal(hl_float_encode(f, nextafter(middle, a)), code);
      assert_int_equal(hl_float_encode(f, middle), code + (code & 1));
      assert_int_equal(hl_float_encode(f, nextafter(middle, b)), code + 1);
    }
  }
}

static void signs_are_symmetric(void **state) {
  HlRng rng = {7};
  for (int k = 0; k < HL_COUNT_OF(formats); k++) {
    const HlFloatFormat *f = &formats[k].format;
    if (f->nan == HL_NAN_E8M0)
      continue;
    for (int n = 0; n < 2000; n++) {
      const double x = ldexp(hl_rng_unit(&rng), (int)hl_rng_below(&rng, 280) - 150);
      const double plus = hl_float_decode(f, hl_float_encode(f, x));
      const double minus = hl_float_decode(f, hl_float_encode(f, -x));
      assert_true(plus == -minus || (isnan(plus) && isnan(minus)));
    }
  }
}

static void check(const char *name, double value, uint32_t want) {
  const uint32_t got = hl_float_encode(format_named(name), value);
  if (got != want)
    fail_msg("%s of %g is 0x%x, not 0x%x", name, value, got, want);
}

static void overflow_and_specials(void **state) {
  check("F8E4M3FN", 464, 0x7e);  // ties to 448
  check("F8E4M3FN", 465, 0x7f);
  check("F8E4M3FN", -INFINITY, 0xff);
  check("F8E5M2", 61439, 0x7b);
  check("F8E5M2", 61440, 0x7c);
  check("F8E4M3", 248, 0x78);
  check("F8E3M4", 15.75, 0x70);
  check("F8E4M3FNUZ", -0.0, 0);
  check("F8E4M3FNUZ", -1e-30, 0);
  check("F8E4M3FNUZ", INFINITY, 0x80);
  check("F8E5M2FNUZ", 1e9, 0x80);
  check("F8E4M3B11FNUZ", 31.5, 0x80);
  check("F4E2M1FN", INFINITY, 7);
  check("F4E2M1FN", -100, 15);
  check("F4E2M1FN", -0.0, 8);
  check("F16", 65519, 0x7bff);
  check("F16", 65520, 0x7c00);
  check("F16", 5e-324, 0);
  check("BF16", -5e-324, 0x8000);
  check("BF16", NAN, 0x7fc0);
}

static void e8m0_is_powers_of_two(void **state) {
  check("F8E8M0FNU", 1, 127);
  check("F8E8M0FNU", 1.25, 127);
  check("F8E8M0FNU", 1.5, 128);
  check("F8E8M0FNU", 3, 129);
  check("F8E8M0FNU", 0, 255);
  check("F8E8M0FNU", -1, 255);
  check("F8E8M0FNU", INFINITY, 255);
  check("F8E8M0FNU", ldexp(1, 127), 254);
  check("F8E8M0FNU", ldexp(1.5, 127), 255);
  check("F8E8M0FNU", ldexp(1, -140), 0);
  check("F8E8M0FNU", 5e-324, 0);
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The fast ways agree with the general one.
static void fast_ways_agree(void **state) {
  const HlFloatFormat *f16 = format_named("F16"), *bf16 = format_named("BF16");
  for (uint32_t code = 0; code < 1u << 16; code++) {
    const double h = hl_float_decode(f16, code), b = hl_float_decode(bf16, code);
    if (!isnan(h))
      assert_int_equal(bits_of(hl_f16_to_f32((uint16_t)code)), bits_of((float)h));
    if (!isnan(b))
      assert_int_equal(bits_of(hl_bf16_to_f32((uint16_t)code)), bits_of((float)b));
  }
  HlRng rng = {11};
  for (int n = 0; n < 500000; n++) {
    const uint32_t bits = (uint32_t)hl_rng_u64(&rng);
    float x;
    memcpy(&x, &bits, sizeof x);
    if (n & 1)  // around the range of f16
      x = ldexpf(1 + (float)hl_rng_unit(&rng), (int)hl_rng_below(&rng, 44) - 27);
    assert_int_equal(hl_f16_from_f32(x), hl_float_encode(f16, (double)x));
    assert_int_equal(hl_bf16_from_f32(x), hl_float_encode(bf16, (double)x));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_survive),         cmocka_unit_test(rounds_to_nearest_even),
      cmocka_unit_test(signs_are_symmetric),   cmocka_unit_test(overflow_and_specials),
      cmocka_unit_test(e8m0_is_powers_of_two), cmocka_unit_test(fast_ways_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
