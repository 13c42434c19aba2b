// eval/constant.c: the values of constants, with those whose text was elided filled in.

#include "base/memory.h"
#include "eval/device.h"
#include "eval/step.h"

// One element of an elided constant: floats in [-0.1, 0.2), integers of a few values, fair coins.
static void fill_element(HlLiteral *out, int64_t k, HlRng *rng) {
  const HlDtype dtype = out->shape->dtype;
  if (hl_is_complex(dtype)) {
    const double re = hl_rng_unit(rng) * 0.3 - 0.1;
    hl_literal_set_complex(out, k, re, hl_rng_unit(rng) * 0.3 - 0.1);
  } else if (hl_is_float(dtype)) {
    hl_literal_set_f64(out, k, dtype == HL_F8E8M0FNU ? 1 : hl_rng_unit(rng) * 0.3 - 0.1);
  } else {
    const int bits = hl_dtype_info[dtype].bits - hl_is_signed(dtype);
    hl_literal_set_i64(out, k,
                       bits < 1 ? 0 : hl_rng_below(rng, bits < 4 ? INT64_C(1) << bits : 16));
  }
}

static void fill(HlLiteral *out, HlRng *rng) {
  for (int k = 0; out->element && k < out->shape->rank; k++)
    fill(out->element[k], rng);
  uint32_t steps = 0;
  for (int64_t k = 0; out->data && k < out->n; k++) {
    base_look_often(&steps);
    fill_element(out, k, rng);
  }
}

static const char *const filled_with[] = {
    [HL_ELIDED_RANDOM] = "random numbers",
    [HL_ELIDED_ZERO] = "zeros",
};

HlLiteral *eval_constant(HlCx *cx, const HlInst *inst, const HlEvalOptions *options, bool warns) {
  const HlLiteral *literal = hl_constant(inst);
  if (literal && !hl_literal_is_elided(literal)) {
    if (hl_shape_compatible(literal->shape, inst->shape))
      return hl_literal_ref(literal);
    hl_inst_error(cx, inst, "the constant's value does not have its shape");
    return NULL;
  }
  if (options->elided == HL_ELIDED_REFUSE) {
    hl_inst_error(cx, inst, "the value of constant %s was elided from the text", inst->name->text);
    return NULL;
  }
  HlLiteral *out = hl_literal_new(cx, inst->shape);
  if (!out)
    return NULL;
  if (warns)
    hl_warn(cx, hl_pos(inst),
            "the value of constant %s was elided from the text and is filled with %s",
            inst->name->text,
            filled_with[options->elided == HL_ELIDED_ZERO ? HL_ELIDED_ZERO : HL_ELIDED_RANDOM]);
  HlRng rng = {hl_hash_bytes(inst->name->text, inst->name->n, options->seed)};
  if (options->elided == HL_ELIDED_RANDOM)
    fill(out, &rng);
  return out;
}

HlLiteral *interp_constant(Interp *in, const HlInst *inst) {
  return eval_constant(in->ev.cx, inst, in->cluster->options, in->device == 0);
}
