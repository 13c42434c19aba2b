// eval/custom_check.c: custom calls that check values: check.expect_* of StableHLO's test programs,
// and the probes they compare with (mlir.md 9).

#include "base/memory.h"
#include "base/number.h"
#include "eval/custom.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// A value that interpreter.probe has seen, of a device.
struct Probe {
  const char *id;
  HlLiteral *value;  // a reference
  Probe *next;       // older
};

// --- Parameters in backend_config ------------------------------------------------------------------

// The text of probe_id in the frame arena; "" if there is none.
static const char *probe_id(Interp *in, const HlInst *inst) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG), *at = strstr(text, "probe_id");
  const char *from = at ? strchr(at, '"') : NULL, *to = from ? strchr(from + 1, '"') : NULL;
  return to ? hl_arena_strndup(in->arena, from + 1, (size_t)(to - from - 1)) : "";
}

// --- Elements ------------------------------------------------------------------------------------------

// A part of element k as a number: 0 real, 1 imaginary.
static double part_of(const HlLiteral *value, int64_t k, int part) {
  return part ? hl_literal_imag(value, k) : hl_literal_f64(value, k);
}

static int parts(const HlLiteral *value) {
  return hl_is_complex(value->shape->dtype) ? 2 : 1;
}

static bool is_float_like(const HlLiteral *value) {
  return hl_is_float(value->shape->dtype) || hl_is_complex(value->shape->dtype);
}

// A nan equals nothing; zeros of either sign are equal.
static bool same_element(const HlLiteral *a, const HlLiteral *b, int64_t k) {
  if (!is_float_like(a))
    return hl_literal_i64(a, k) == hl_literal_i64(b, k);
  for (int part = 0; part < parts(a); part++)
    if (part_of(a, k, part) != part_of(b, k, part))
      return false;
  return true;
}

static bool near_element(const HlLiteral *a, const HlLiteral *b, int64_t k, double tolerance) {
  if (!is_float_like(a))
    return hl_literal_i64(a, k) == hl_literal_i64(b, k);
  for (int part = 0; part < parts(a); part++) {
    const double x = part_of(a, k, part), y = part_of(b, k, part);
    if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= tolerance))
      return false;
  }
  return true;
}

// The bits of one part of a floating-point element.
static uint64_t bits_of(const HlLiteral *value, int64_t k, int part) {
  const size_t bytes = (size_t)hl_dtype_bytes(value->shape->dtype) / (size_t)parts(value);
  uint64_t bits = 0;
  memcpy(&bits,
         (const char *)value->data + ((size_t)k * (size_t)parts(value) + (size_t)part) * bytes,
         bytes);
  return bits;
}

// How many values of the type lie between two parts; UINT64_MAX where one is not finite.
static uint64_t ulps_between(const HlLiteral *a, const HlLiteral *b, int64_t k, int part) {
  const int bits = hl_dtype_info[a->shape->dtype].bits / parts(a);
  const uint64_t x = bits_of(a, k, part), y = bits_of(b, k, part), sign = UINT64_C(1) << (bits - 1);
  const double fx = part_of(a, k, part), fy = part_of(b, k, part);
  if (x == y || (isnan(fx) && isnan(fy)))
    return 0;
  if (!isfinite(fx) || !isfinite(fy))
    return UINT64_MAX;
  const uint64_t mx = x & ~sign, my = y & ~sign;
  if ((x ^ y) & sign)
    return mx + my;
  return mx > my ? mx - my : my - mx;
}

static uint64_t ulps(const HlLiteral *a, const HlLiteral *b, int64_t k) {
  uint64_t most = 0;
  for (int part = 0; part < parts(a); part++) {
    const uint64_t one = ulps_between(a, b, k, part);
    most = one > most ? one : most;
  }
  return most;
}

// --- Reports -------------------------------------------------------------------------------------------

static bool differs(Interp *in, const HlInst *inst, const HlLiteral *actual,
                    const HlLiteral *expected, int64_t first, int64_t n_different,
                    const char *bound) {
  HlBuf text = {0};
  hl_buf_printf(&text, "%s: element ", hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET));
  hl_shape_print_index(&text, actual->shape, first);
  hl_buf_puts(&text, " is ");
  hl_literal_print_element(&text, actual, first);
  hl_buf_puts(&text, ", expected ");
  hl_literal_print_element(&text, expected, first);
  hl_buf_printf(&text, "%s; %" PRId64 " of %" PRId64 " differ", bound, n_different, actual->n);
  hl_error_kind(in->ev.cx, HL_DIFFERS, hl_pos(inst), "%s", text.at);
  hl_buf_free(&text);
  return false;
}

// Whether two arrays can be compared element by element.
static bool comparable(Interp *in, const HlInst *inst, const HlLiteral *a, const HlLiteral *b) {
  if (a->shape->dtype == b->shape->dtype && hl_shape_same_dims(a->shape, b->shape) && a->n == b->n)
    return true;
  return hl_error_kind(in->ev.cx, HL_DIFFERS, hl_pos(inst), "%s: the value is %s, expected %s",
                       hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET),
                       hl_shape_text(in->ev.cx, a->shape), hl_shape_text(in->ev.cx, b->shape));
}

// --- The checks ------------------------------------------------------------------------------------------

typedef struct Bound {
  double tolerance;           // near
  uint64_t min_ulp, max_ulp;  // close
} Bound;
typedef bool Agrees(const HlLiteral *actual, const HlLiteral *expected, int64_t k,
                    const Bound *bound);

static bool agrees_exactly(const HlLiteral *a, const HlLiteral *b, int64_t k, const Bound *bound) {
  (void)bound;
  return same_element(a, b, k);
}
static bool agrees_nearly(const HlLiteral *a, const HlLiteral *b, int64_t k, const Bound *bound) {
  return near_element(a, b, k, bound->tolerance);
}
static bool agrees_closely(const HlLiteral *a, const HlLiteral *b, int64_t k, const Bound *bound) {
  const uint64_t distance = is_float_like(a)        ? ulps(a, b, k)
                            : same_element(a, b, k) ? 0
                                                    : UINT64_MAX;
  return distance >= bound->min_ulp && distance <= bound->max_ulp;
}

static bool check(Interp *in, const HlInst *inst, const HlLiteral *a, const HlLiteral *b,
                  Agrees *agrees, const Bound *bound, const char *words) {
  if (in->cluster->options->no_checks)
    return true;
  if (!comparable(in, inst, a, b))
    return false;
  int64_t first = -1, n = 0;
  uint32_t steps = 0;
  for (int64_t k = 0; k < a->n; k++) {
    base_look_often(&steps);
    if (agrees(a, b, k, bound))
      continue;
    first = first < 0 ? k : first;
    n++;
  }
  return first < 0 || differs(in, inst, a, b, first, n, words);
}

bool custom_expect_eq(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral *out) {
  return custom_counts(in, inst, 2, out, custom_result_count(out)) &&
         check(in, inst, operand[0], operand[1], agrees_exactly, NULL, "");
}

bool custom_expect_almost_eq(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral *out) {
  const Bound bound = {.tolerance = custom_float(inst, "tolerance", 1e-3)};
  char words[64];
  base_snprintf(words, sizeof words, " within %g", bound.tolerance);
  return custom_counts(in, inst, 2, out, custom_result_count(out)) &&
         check(in, inst, operand[0], operand[1], agrees_nearly, &bound, words);
}

bool custom_expect_close(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                         HlLiteral *out) {
  const Bound bound = {.min_ulp = (uint64_t)custom_int(inst, "min_ulp_difference", 0),
                       .max_ulp = (uint64_t)custom_int(inst, "max_ulp_difference", 3)};
  char words[64];
  base_snprintf(words, sizeof words, " within %" PRIu64 " to %" PRIu64 " ulp", bound.min_ulp,
                bound.max_ulp);
  return custom_counts(in, inst, 2, out, custom_result_count(out)) &&
         check(in, inst, operand[0], operand[1], agrees_closely, &bound, words);
}

// Integers exactly, floats within 1e-4: what programs on quantised types check with.
bool custom_check_eq(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral *out) {
  const Bound bound = {.tolerance = custom_float(inst, "tolerance", 1e-4)};
  return custom_counts(in, inst, 2, out, custom_result_count(out)) &&
         check(in, inst, operand[0], operand[1], agrees_nearly, &bound, " within 0.0001");
}

// --- Probes ------------------------------------------------------------------------------------------------

bool custom_probe(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  if (!custom_counts(in, inst, 1, out, 1) || !custom_copy(in, inst, operand[0], out))
    return false;
  Probe *probe = HL_NEW(in->arena, Probe);
  *probe = (Probe){probe_id(in, inst), hl_literal_ref(operand[0]), in->probes};
  in->probes = probe;
  return true;
}

void custom_free_probes(Interp *in) {
  for (Probe *probe = in->probes; probe; probe = probe->next)
    hl_literal_unref(probe->value);
  in->probes = NULL;
}

// The value that a probe saw when it was reached for the (iteration + 1)-th time.
static const HlLiteral *probed(const Interp *in, const char *id, int64_t iteration) {
  int64_t n = 0;
  for (const Probe *probe = in->probes; probe; probe = probe->next)
    n += strcmp(probe->id, id) == 0;
  for (const Probe *probe = in->probes; probe; probe = probe->next)
    if (strcmp(probe->id, id) == 0 && --n == iteration)
      return probe->value;
  return NULL;
}

bool custom_expect_serialized_eq(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                                 HlLiteral *out) {
  const char *id = probe_id(in, inst);
  const int64_t iteration = custom_int(inst, "iteration", 0);
  if (!custom_counts(in, inst, 1, out, custom_result_count(out)))
    return false;
  const HlLiteral *seen = probed(in, id, iteration);
  if (!seen)
    return hl_inst_error(in->ev.cx, inst, "no probe \"%s\" has been reached %" PRId64 " times", id,
                         iteration + 1);
  return check(in, inst, seen, operand[0], agrees_exactly, NULL, "");
}

// Shows a value as a note: what a program prints is part of what it says.
bool custom_print(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  if (!custom_counts(in, inst, 1, out, custom_result_count(out)))
    return false;
  HlBuf text = {0};
  hl_shape_print(&text, operand[0]->shape, false);
  hl_buf_putc(&text, ' ');
  hl_literal_print(&text, operand[0]);
  hl_tell(in->ev.cx, hl_pos(inst), "%s = %s", inst->operands[0]->name->text, text.at);
  hl_buf_free(&text);
  return true;
}
