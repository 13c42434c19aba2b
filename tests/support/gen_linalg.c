// tests/support/gen_linalg.c: rules for products, transforms, factorisations, normalisation, random numbers.
#include "support/gen_core.h"

static void set_precision(Gen *g, HlInst *inst, int n) {
  int64_t both[2] = {gen_below(g, 3), gen_below(g, 3)};
  if (gen_chance(g, 30) && (both[0] || both[1]))
    hl_set_ints(inst, HL_A_OPERAND_PRECISION, (HlI64s){both, n});
}

// Sizes by name: a batch, a free and a contracted dimension, in random order.
static const HlShape *side(Gen *g, HlDtype t, bool batch, bool free, int64_t b, int64_t f,
                           int64_t c, int64_t *at) {
  int64_t order[3], dim[3];
  int n = 0;
  if (batch)
    order[n++] = 0;
  if (free)
    order[n++] = 1;
  order[n++] = 2;
  gen_shuffle(g, order, n);
  for (int k = 0; k < n; k++) {
    at[order[k]] = k;
    dim[k] = order[k] == 0 ? b : order[k] == 1 ? f : c;
  }
  return gen_array(g, t, n, dim);
}

HlInst *rule_dot(Gen *g, HlOp op) {
  HlDtype t = gen_dtype(g, NUM);
  bool batch = gen_chance(g, 40);
  int64_t b = gen_between(g, 1, 3), c = gen_between(g, 0, 4), l[3], r[3];
  HlInst *in[2] = {
      gen_value(g, side(g, t, batch, gen_chance(g, 80), b, gen_between(g, 1, 4), c, l)),
      gen_value(g, side(g, t, batch, gen_chance(g, 80), b, gen_between(g, 1, 4), c, r))};
  HlInst *inst = gen_make(g, op, gen_scalar(g, t), 2, in);
  if (batch) {
    hl_set_ints(inst, HL_A_LHS_BATCH_DIMS, (HlI64s){&l[0], 1});
    hl_set_ints(inst, HL_A_RHS_BATCH_DIMS, (HlI64s){&r[0], 1});
  }
  hl_set_ints(inst, HL_A_LHS_CONTRACTING_DIMS, (HlI64s){&l[2], 1});
  hl_set_ints(inst, HL_A_RHS_CONTRACTING_DIMS, (HlI64s){&r[2], 1});
  set_precision(g, inst, 2);
  if (t == HL_F32 && gen_chance(g, 20))
    hl_set_int(inst, HL_A_ALGORITHM, HL_WORD_dot_algorithm_F32_F32_F32);
  return gen_done(g, inst);
}

HlInst *rule_ragged_dot(Gen *g, HlOp op) {
  HlDtype t = gen_dtype(g, F);
  int64_t m = gen_between(g, 1, 5), k = gen_between(g, 1, 3), n = gen_between(g, 1, 3),
          groups = gen_between(g, 1, 3);
  int64_t lhs[2] = {m, k}, rhs[3] = {groups, k, n}, zero = 0, one = 1;
  HlInst *in[3] = {gen_value(g, gen_array(g, t, 2, lhs)), gen_value(g, gen_array(g, t, 3, rhs)),
                   gen_value(g, gen_array(g, HL_S32, 1, &groups))};
  int64_t out[2] = {m, n};
  HlInst *inst = gen_make(g, op, gen_array(g, t, 2, out), 3, in);
  hl_set_ints(inst, HL_A_LHS_CONTRACTING_DIMS, (HlI64s){&one, 1});
  hl_set_ints(inst, HL_A_RHS_CONTRACTING_DIMS, (HlI64s){&one, 1});
  hl_set_ints(inst, HL_A_LHS_RAGGED_DIMS, (HlI64s){&zero, 1});
  hl_set_ints(inst, HL_A_RHS_GROUP_DIMS, (HlI64s){&zero, 1});
  return gen_done(g, inst);
}

HlInst *rule_scaled_dot(Gen *g, HlOp op) {
  static const HlDtype small[] = {HL_F8E4M3FN, HL_F8E5M2, HL_F4E2M1FN},
                       out_types[] = {HL_F32, HL_BF16};
  HlDtype t = gen_one_of(g, 3, small);
  int64_t m = gen_between(g, 1, 3), k = 2 * gen_between(g, 1, 3), n = gen_between(g, 1, 3), one = 1,
          zero = 0;
  int64_t lhs[2] = {m, k}, rhs[2] = {k, n}, lhs_scale[2] = {m, k / 2}, rhs_scale[2] = {k / 2, n},
          out[2] = {m, n};
  HlInst *in[4] = {gen_value(g, gen_array(g, t, 2, lhs)), gen_value(g, gen_array(g, t, 2, rhs)),
                   gen_value(g, gen_array(g, HL_F8E8M0FNU, 2, lhs_scale)),
                   gen_value(g, gen_array(g, HL_F8E8M0FNU, 2, rhs_scale))};
  HlInst *inst = gen_make(g, op, gen_array(g, gen_one_of(g, 2, out_types), 2, out), 4, in);
  hl_set_ints(inst, HL_A_LHS_CONTRACTING_DIMS, (HlI64s){&one, 1});
  hl_set_ints(inst, HL_A_RHS_CONTRACTING_DIMS, (HlI64s){&zero, 1});
  return gen_done(g, inst);
}

// Positions of n dimensions: two named ones, the spatial ones.
static void pick_labels(Gen *g, int n_spatial, int64_t *first, int64_t *second, HlI64s *spatial) {
  int64_t order[4] = {0, 1, 2, 3};
  int64_t *at = gen_alloc(g, sizeof(int64_t) * 2);
  gen_shuffle(g, order, 2 + n_spatial);
  *first = order[0];
  *second = order[1];
  for (int k = 0; k < n_spatial; k++)
    at[k] = order[2 + k];
  *spatial = (HlI64s){at, n_spatial};
}

HlInst *rule_convolution(Gen *g, HlOp op) {
  HlDtype t = gen_dtype(g, NUM);
  int n = (int)gen_between(g, 0, 2);
  HlDimLabels *labels = gen_alloc(g, sizeof *labels);
  pick_labels(g, n, &labels->input_batch, &labels->input_feature, &labels->input_spatial);
  pick_labels(g, n, &labels->kernel_input, &labels->kernel_output, &labels->kernel_spatial);
  pick_labels(g, n, &labels->output_batch, &labels->output_feature, &labels->output_spatial);
  int64_t groups = gen_chance(g, 30) ? 2 : 1,
          batch_groups = groups == 1 && gen_chance(g, 20) ? 2 : 1;
  int64_t in_features = gen_between(g, 1, 2), lhs[4], rhs[4];
  HlWindowDim window[2];
  lhs[labels->input_batch] = batch_groups * gen_between(g, 1, 2);
  lhs[labels->input_feature] = groups * in_features;
  rhs[labels->kernel_input] = in_features;
  rhs[labels->kernel_output] = groups * batch_groups * gen_between(g, 1, 2);
  for (int d = 0; d < n; d++) {
    int64_t size = gen_between(g, 1, 3);
    window[d] = (HlWindowDim){.size = size,
                              .stride = gen_between(g, 1, 2),
                              .pad_low = gen_below(g, 3),
                              .pad_high = gen_below(g, 3),
                              .lhs_dilate = gen_chance(g, 20) ? 2 : 1,
                              .rhs_dilate = gen_chance(g, 20) ? 2 : 1,
                              .reversal = gen_chance(g, 20)};
    lhs[labels->input_spatial.at[d]] = gen_between(g, 1, 5);
    rhs[labels->kernel_spatial.at[d]] = size;
  }
  HlInst *in[2] = {gen_value(g, gen_array(g, t, 2 + n, lhs)),
                   gen_value(g, gen_array(g, t, 2 + n, rhs))};
  HlInst *inst = gen_make(g, op, gen_scalar(g, t), 2, in);
  if (n > 0)
    gen_window(inst, n, window);
  gen_ptr(inst, HL_A_DIM_LABELS, labels);
  hl_set_int(inst, HL_A_FEATURE_GROUP_COUNT, groups);
  hl_set_int(inst, HL_A_BATCH_GROUP_COUNT, batch_groups);
  set_precision(g, inst, 2);
  return gen_done(g, inst);
}

HlInst *rule_fft(Gen *g, HlOp op) {
  bool wide = gen_chance(g, 50);
  int64_t type = gen_below(g, 4), dim[3], length[3];
  int rank = (int)gen_between(g, 1, 3), n = (int)gen_between(g, 1, rank);
  for (int d = 0; d < rank; d++)
    dim[d] = gen_between(g, 1, 5);
  for (int k = 0; k < n; k++)
    length[k] = dim[rank - n + k];
  if (type == HL_WORD_fft_type_IRFFT)
    dim[rank - 1] = length[n - 1] / 2 + 1;
  HlDtype t = type == HL_WORD_fft_type_RFFT ? (wide ? HL_F64 : HL_F32) : wide ? HL_C128 : HL_C64;
  HlInst *x = gen_value(g, gen_array(g, t, rank, dim));
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_int(inst, HL_A_FFT_TYPE, type);
  hl_set_ints(inst, HL_A_FFT_LENGTH, (HlI64s){length, n});
  return gen_done(g, inst);
}

static HlDtype matrix_type(Gen *g) {
  static const HlDtype types[] = {HL_F32, HL_F64, HL_C64, HL_C128};
  return gen_one_of(g, 4, types);
}

HlInst *rule_cholesky(Gen *g, HlOp op) {
  int64_t n = gen_between(g, 1, 4), dim[3] = {gen_between(g, 1, 2), n, n};
  int skip = (int)gen_below(g, 2);
  HlInst *x = gen_value(g, gen_array(g, matrix_type(g), 3 - skip, dim + skip));
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_int(inst, HL_A_LOWER, gen_below(g, 2));
  return gen_done(g, inst);
}

HlInst *rule_triangular_solve(Gen *g, HlOp op) {
  int64_t n = gen_between(g, 1, 4), other = gen_between(g, 1, 3), left = gen_below(g, 2);
  int64_t a[3] = {gen_between(g, 1, 2), n, n}, b[3] = {a[0], left ? n : other, left ? other : n};
  int skip = (int)gen_below(g, 2);
  HlDtype t = matrix_type(g);
  HlInst *in[2] = {gen_value(g, gen_array(g, t, 3 - skip, a + skip)),
                   gen_value(g, gen_array(g, t, 3 - skip, b + skip))};
  HlInst *inst = gen_make(g, op, in[1]->shape, 2, in);
  hl_set_int(inst, HL_A_LEFT_SIDE, left);
  hl_set_int(inst, HL_A_LOWER, gen_below(g, 2));
  hl_set_int(inst, HL_A_UNIT_DIAGONAL, gen_below(g, 2));
  hl_set_int(inst, HL_A_TRANSPOSE_A, gen_between(g, 1, 3));
  return gen_done(g, inst);
}

HlInst *rule_batch_norm(Gen *g, HlOp op) {
  static const HlDtype types[] = {HL_F32, HL_F64, HL_BF16, HL_F16};
  HlInst *in[5] = {gen_value(g, gen_shape(g, gen_one_of(g, 4, types), 1, 3))};
  const HlShape *x = in[0]->shape;
  int64_t feature = gen_below(g, x->rank), n = x->dim[feature];
  int operands = op == HL_OP_BATCH_NORM_TRAINING ? 3 : 5;
  for (int k = 1; k < operands; k++)
    in[k] = gen_value(g, op == HL_OP_BATCH_NORM_GRAD && k == 4 ? x : gen_array(g, x->dtype, 1, &n));
  HlInst *inst = gen_make(g, op, x, operands, in);
  HlAttr epsilon = {.key = HL_A_EPSILON};
  epsilon.f = 0.125;
  hl_set_attr(inst, &epsilon);
  hl_set_int(inst, HL_A_FEATURE_INDEX, feature);
  gen_done(g, inst);
  return hl_shape_is_tuple(inst->shape) ? gen_element(g, inst, gen_below(g, 3)) : inst;
}

HlInst *rule_rng(Gen *g, HlOp op) {
  static const HlDtype types[] = {HL_F32, HL_F64, HL_BF16, HL_F16, HL_S32, HL_U32, HL_U8, HL_S64};
  bool normal = gen_chance(g, 40);
  HlDtype t = gen_one_of(g, normal ? 4 : 8, types);
  HlInst *in[2] = {gen_int(g, HL_S32, 0), gen_int(g, HL_S32, 3)};
  for (int k = 0; k < 2; k++)
    in[k] = gen_done(g, gen_make(g, HL_OP_CONVERT, gen_scalar(g, t), 1, &in[k]));
  HlInst *inst = gen_make(g, op, gen_shape(g, t, 0, 3), 2, in);
  hl_set_int(inst, HL_A_DISTRIBUTION,
             normal ? HL_WORD_distribution_NORMAL : HL_WORD_distribution_UNIFORM);
  return gen_done(g, inst);
}

HlInst *rule_rng_bit_generator(Gen *g, HlOp op) {
  static const HlDtype types[] = {HL_U32, HL_U64, HL_S32, HL_U16, HL_U8, HL_S8, HL_S64, HL_F32};
  int64_t algorithm = gen_below(g, 3);
  int64_t n = algorithm == HL_WORD_rng_algorithm_THREE_FRY ? 2 : gen_between(g, 2, 3);
  HlInst *state = gen_value(g, gen_array(g, HL_U64, 1, &n));
  const HlShape *two[2] = {state->shape, gen_shape(g, gen_one_of(g, 7, types), 0, 3)};
  HlInst *inst = gen_make(g, op, hl_shape_tuple(g->m->shapes, 2, two), 1, &state);
  hl_set_int(inst, HL_A_RNG_ALGORITHM, algorithm);
  return gen_element(g, gen_done(g, inst), gen_below(g, 2));
}

HlInst *rule_rng_state(Gen *g, HlOp op) {
  int64_t two = 2;
  HlInst *inst = gen_make(g, op, gen_array(g, HL_U64, 1, &two), 0, NULL);
  hl_set_int(inst, HL_A_DELTA, gen_between(g, 1, 9));
  return gen_done(g, inst);
}
