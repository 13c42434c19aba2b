// op/infer_linalg.c: shape rules of dots, FFT, factorisations and batch normalisation (hlo.md 4.8).

#include "op/infer.h"

#include <inttypes.h>

// --- dot ----------------------------------------------------------------------------------------

typedef struct DotDims {
  HlI64s lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
} DotDims;

static DotDims dot_dims(const HlInst *inst) {
  return (DotDims){
      hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS), hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS),
      hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS), hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)};
}

// Checks that batch and contracting numbers of one side are in range and different.
static bool dot_side(const HlInfer *q, const char *side, const HlShape *x, HlI64s batch,
                     HlI64s contracting) {
  for (int k = 0; k < batch.n + contracting.n; k++) {
    int64_t d = k < batch.n ? batch.at[k] : contracting.at[k - batch.n];
    if (d < 0 || d >= x->rank) {
      hl_infer_error(q, "a dimension number is out of range in %s: %s dimension %" PRId64 " of %s",
                     infer_op(q), side, d, infer_text(q, x));
      return false;
    }
  }
  bool unique = infer_unique(batch, x->rank) && infer_unique(contracting, x->rank);
  for (int k = 0; k < contracting.n; k++)
    unique &= hl_i64s_find(batch, contracting.at[k]) < 0;
  if (!unique)
    hl_infer_error(q,
                   "a dimension number is not unique in %s: %s_batch_dims={%s}, "
                   "%s_contracting_dims={%s}",
                   infer_op(q), side, infer_ints(q, batch), side, infer_ints(q, contracting));
  return unique;
}

static bool dot_pairs(const HlInfer *q, const char *what, HlI64s lhs, HlI64s rhs) {
  const HlShape *a = q->in[0], *b = q->in[1];
  if (lhs.n != rhs.n) {
    hl_infer_error(
        q,
        "cannot infer shape for %s operation: %s and %s: must specify the same number of %s "
        "dimensions for lhs and rhs, got {%s} and {%s}",
        infer_op(q), infer_text(q, a), infer_text(q, b), what, infer_ints(q, lhs),
        infer_ints(q, rhs));
    return false;
  }
  for (int k = 0; k < lhs.n; k++) {
    int64_t i = lhs.at[k], j = rhs.at[k];
    if (infer_sizes_fit(a->dim[i], b->dim[j]))
      continue;
    hl_infer_error(q,
                   "cannot infer shape for %s operation: %s and %s: %s dimension sizes are not "
                   "compatible: lhs dimension %" PRId64 " is %" PRId64 ", rhs dimension %" PRId64
                   " is %" PRId64,
                   infer_op(q), infer_text(q, a), infer_text(q, b), what, i, a->dim[i], j,
                   b->dim[j]);
    return false;
  }
  return true;
}

static bool dot_is_valid(const HlInfer *q, const DotDims *dot) {
  return infer_array(q, 0, "lhs of dot") && infer_array(q, 1, "rhs of dot") &&
         dot_side(q, "lhs", q->in[0], dot->lhs_batch, dot->lhs_contracting) &&
         dot_side(q, "rhs", q->in[1], dot->rhs_batch, dot->rhs_contracting) &&
         dot_pairs(q, "contracting", dot->lhs_contracting, dot->rhs_contracting) &&
         dot_pairs(q, "batch", dot->lhs_batch, dot->rhs_batch);
}

static void push_dim(InferDims *dims, int64_t size, bool dynamic) {
  dims->dim[dims->rank] = size;
  dims->dynamic[dims->rank++] = dynamic;
}

// Appends batch dimensions, then the free ones of lhs and rhs; `group` dimensions do not show.
static const HlShape *dot_result(const HlInfer *q, const DotDims *dot, InferDims *dims,
                                 HlI64s group) {
  const HlShape *a = q->in[0], *b = q->in[1];
  for (int k = 0; k < dot->lhs_batch.n; k++)
    push_dim(dims, a->dim[dot->lhs_batch.at[k]], infer_dynamic(a, (int)dot->lhs_batch.at[k]));
  for (int d = 0; d < a->rank; d++)
    if (hl_i64s_find(dot->lhs_batch, d) < 0 && hl_i64s_find(dot->lhs_contracting, d) < 0)
      push_dim(dims, a->dim[d], infer_dynamic(a, d));
  for (int d = 0; d < b->rank; d++)
    if (hl_i64s_find(dot->rhs_batch, d) < 0 && hl_i64s_find(dot->rhs_contracting, d) < 0 &&
        hl_i64s_find(group, d) < 0)
      push_dim(dims, b->dim[d], infer_dynamic(b, d));
  bool preferred = q->declared != NULL && hl_is_array_dtype(q->declared->dtype);
  return infer_make(q, preferred ? q->declared->dtype : infer_wider(a->dtype, b->dtype), dims);
}

static InferDims no_dims(const HlInfer *q, int room) {
  InferDims dims = infer_dims(q, room);
  dims.rank = 0;
  return dims;
}

const HlShape *infer_dot(const HlInfer *q) {
  DotDims dot = dot_dims(q->inst);
  if (!dot_is_valid(q, &dot))
    return NULL;
  InferDims dims = no_dims(q, q->in[0]->rank + q->in[1]->rank);
  return dot_result(q, &dot, &dims, (HlI64s){0});
}

static bool one_scale(const HlInfer *q, int operand, int64_t n_contracting) {
  const HlShape *x = q->in[operand], *scale = q->in[operand + 2];
  if (!infer_array(q, operand + 2, "scale of scaled-dot"))
    return false;
  bool ones = true, larger = false;
  for (int d = 0; d < scale->rank; d++)
    ones &= scale->dim[d] == 1;
  for (int d = 0; d < x->rank; d++)
    larger |= x->dim[d] != 1;
  if (x->dtype == HL_BF16 && scale->dtype == HL_BF16 && ones && larger)
    return true;  // a stand-in for "no scale"
  if (scale->rank != x->rank) {
    hl_infer_error(
        q, "scale operand %d (%s) has a different number of dimensions than operand %d (%s)",
        operand + 2, infer_text(q, scale), operand, infer_text(q, x));
    return false;
  }
  if (n_contracting != 1) {
    hl_infer_error(q, "scaled-dot must have exactly one contracting dimension, got %" PRId64,
                   n_contracting);
    return false;
  }
  for (int d = 0; d < x->rank; d++) {
    if (scale->dim[d] > 0 && x->dim[d] % scale->dim[d] == 0)
      continue;
    hl_infer_error(q,
                   "dimension %d of operand %d (%s) should be a multiple of dimension %d of scale "
                   "operand %d (%s)",
                   d, operand, infer_text(q, x), d, operand + 2, infer_text(q, scale));
    return false;
  }
  return true;
}

const HlShape *infer_scaled_dot(const HlInfer *q) {
  DotDims dot = dot_dims(q->inst);
  if (!dot_is_valid(q, &dot) || !one_scale(q, 0, dot.lhs_contracting.n) ||
      !one_scale(q, 1, dot.rhs_contracting.n))
    return NULL;
  if (hl_shape_is_scalar(q->in[2]) && hl_shape_is_scalar(q->in[3]))
    return hl_infer_error(q, "at least one of the scales should be not a scalar");
  InferDims dims = no_dims(q, q->in[0]->rank + q->in[1]->rank);
  return dot_result(q, &dot, &dims, (HlI64s){0});
}

// --- ragged-dot ---------------------------------------------------------------------------------

typedef enum RaggedMode { RAGGED_FREE, RAGGED_CONTRACTING, RAGGED_BATCH } RaggedMode;

// group_sizes is [g], or [.., g] with the dimensions of lhs before the ragged one in its own class.
static bool ragged_groups(const HlInfer *q, const DotDims *dot, RaggedMode mode, int64_t ragged) {
  const HlShape *a = q->in[0], *sizes = q->in[2];
  InferDims prefix = no_dims(q, a->rank);
  for (int k = 0; k < dot->lhs_batch.n; k++) {
    if (mode == RAGGED_BATCH && dot->lhs_batch.at[k] == ragged)
      break;
    push_dim(&prefix, a->dim[dot->lhs_batch.at[k]], false);
  }
  for (int k = 0; mode == RAGGED_CONTRACTING && dot->lhs_contracting.at[k] != ragged; k++)
    push_dim(&prefix, a->dim[dot->lhs_contracting.at[k]], false);
  for (int d = 0; mode == RAGGED_FREE && d < ragged; d++)
    if (hl_i64s_find(dot->lhs_batch, d) < 0 && hl_i64s_find(dot->lhs_contracting, d) < 0)
      push_dim(&prefix, a->dim[d], false);
  if (sizes->rank == 1)
    return true;
  if (sizes->rank != prefix.rank + 1) {
    hl_infer_error(q, "expected group_sizes of ragged-dot to have rank %d, got %d (%s)",
                   prefix.rank + 1, sizes->rank, infer_text(q, sizes));
    return false;
  }
  for (int d = 0; d < prefix.rank; d++) {
    if (prefix.dim[d] == sizes->dim[d])
      continue;
    hl_infer_error(q,
                   "group_sizes of ragged-dot is expected to have size %" PRId64
                   " in dimension %d, got "
                   "%s",
                   prefix.dim[d], d, infer_text(q, sizes));
    return false;
  }
  return true;
}

static bool ragged_group_dims(const HlInfer *q, const DotDims *dot, RaggedMode mode, HlI64s group,
                              int64_t n_groups) {
  const HlShape *b = q->in[1];
  for (int k = 0; k < group.n; k++) {
    int64_t d = group.at[k];
    if (d < 0 || d >= b->rank) {
      hl_infer_error(q, "rhs group dimension %" PRId64 " is out of range [0, %d)", d, b->rank);
      return false;
    }
    if (hl_i64s_find(dot->rhs_batch, d) >= 0 || hl_i64s_find(dot->rhs_contracting, d) >= 0) {
      hl_infer_error(q, "rhs group dimension cannot be a batch or contracting dimension: %" PRId64,
                     d);
      return false;
    }
  }
  if (mode != RAGGED_FREE && group.n != 0) {
    hl_infer_error(
        q,
        "there must be zero group dimensions in the rhs when the ragged dimension is batch "
        "or contracting, got {%s}",
        infer_ints(q, group));
    return false;
  }
  if (mode != RAGGED_FREE)
    return true;
  if (group.n != 1) {
    hl_infer_error(
        q,
        "there must be exactly one group dimension in the rhs when the lhs ragged dimension "
        "is non-contracting, got {%s}",
        infer_ints(q, group));
    return false;
  }
  if (infer_sizes_fit(n_groups, b->dim[group.at[0]]))
    return true;
  hl_infer_error(q, "rhs group dimension is expected to have size=%" PRId64 ", got %" PRId64,
                 n_groups, b->dim[group.at[0]]);
  return false;
}

const HlShape *infer_ragged_dot(const HlInfer *q) {
  DotDims dot = dot_dims(q->inst);
  HlI64s ragged = hl_attr_ints(q->inst, HL_A_LHS_RAGGED_DIMS);
  HlI64s group = hl_attr_ints(q->inst, HL_A_RHS_GROUP_DIMS);
  if (!dot_is_valid(q, &dot) || !infer_array(q, 2, "group_sizes of ragged dot"))
    return NULL;
  const HlShape *a = q->in[0], *sizes = q->in[2];
  if (ragged.n != 1)
    return hl_infer_error(q, "there must be exactly one ragged dimension in the lhs, got {%s}",
                          infer_ints(q, ragged));
  if (ragged.at[0] < 0 || ragged.at[0] >= a->rank)
    return hl_infer_error(q, "lhs ragged dimension %" PRId64 " is out of range [0, %d)",
                          ragged.at[0], a->rank);
  if (sizes->rank == 0)
    return hl_infer_error(q, "group_sizes of ragged-dot must have rank 1 or more, got %s",
                          infer_text(q, sizes));
  RaggedMode mode = hl_i64s_find(dot.lhs_batch, ragged.at[0]) >= 0         ? RAGGED_BATCH
                    : hl_i64s_find(dot.lhs_contracting, ragged.at[0]) >= 0 ? RAGGED_CONTRACTING
                                                                           : RAGGED_FREE;
  int64_t n_groups = sizes->dim[sizes->rank - 1];
  if (!ragged_groups(q, &dot, mode, ragged.at[0]) ||
      !ragged_group_dims(q, &dot, mode, group, n_groups))
    return NULL;
  InferDims dims = no_dims(q, 1 + a->rank + q->in[1]->rank);
  if (mode == RAGGED_CONTRACTING)
    push_dim(&dims, n_groups, infer_dynamic(sizes, sizes->rank - 1));
  return dot_result(q, &dot, &dims, group);
}

// --- fft ----------------------------------------------------------------------------------------

static const HlShape *with_last_dim(const HlInfer *q, const HlShape *x, HlDtype dtype,
                                    int64_t size) {
  InferDims dims = infer_dims_of(q, x);
  dims.dim[x->rank - 1] = size;
  dims.dynamic[x->rank - 1] &= !infer_unbounded(x, x->rank - 1);
  bool dynamic = false;
  for (int d = 0; d < x->rank; d++)
    dynamic |= dims.dynamic[d];
  return hl_shape_array_full(q->shapes, dtype, x->rank, dims.dim, dynamic ? dims.dynamic : NULL,
                             x->layout);
}

static bool fft_dim(const HlInfer *q, const HlShape *x, int d, int64_t wanted) {
  if (infer_sizes_fit(x->dim[d], wanted))
    return true;
  hl_infer_error(q,
                 "%s requires dimension %d of the operand to be %" PRId64
                 " by its fft_length, but it is %" PRId64 " in %s",
                 hl_enum_text(&hl_enums[HL_ENUM_fft_type], hl_attr_int(q->inst, HL_A_FFT_TYPE)), d,
                 wanted, x->dim[d], infer_text(q, x));
  return false;
}

static const HlShape *infer_rfft(const HlInfer *q, const HlShape *x, HlI64s length) {
  for (int k = 0; k < length.n; k++)
    if (!fft_dim(q, x, x->rank - length.n + k, length.at[k]))
      return NULL;
  int64_t n = length.at[length.n - 1];
  HlDtype dtype = x->dtype == HL_F32 ? HL_C64 : HL_C128;
  return n == 0 ? hl_shape_with_dtype(q->shapes, x, dtype) : with_last_dim(q, x, dtype, n / 2 + 1);
}

static const HlShape *infer_irfft(const HlInfer *q, const HlShape *x, HlI64s length) {
  for (int k = 0; k < length.n - 1; k++)
    if (!fft_dim(q, x, x->rank - length.n + k, length.at[k]))
      return NULL;
  int64_t n = length.at[length.n - 1], last = x->dim[x->rank - 1];
  if ((last != 0 || n != 0) && !fft_dim(q, x, x->rank - 1, n / 2 + 1))
    return NULL;
  return with_last_dim(q, x, x->dtype == HL_C128 ? HL_F64 : HL_F32, n);
}

const HlShape *infer_fft(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s length = hl_attr_ints(q->inst, HL_A_FFT_LENGTH);
  int64_t type = hl_attr_int(q->inst, HL_A_FFT_TYPE);
  const char *name = hl_enum_text(&hl_enums[HL_ENUM_fft_type], type);
  if (name == NULL)
    return hl_infer_error(q, "fft needs fft_type=FFT, IFFT, RFFT or IRFFT");
  if (length.n < 1 || length.n > 3)
    return hl_infer_error(q, "FFT only supports ranks 1-3; got %d", length.n);
  for (int k = 0; k < length.n; k++)
    if (length.at[k] < 0)
      return hl_infer_error(q, "FFT length must not be negative: %" PRId64, length.at[k]);
  if (!infer_array(q, 0, "operand of fft"))
    return NULL;
  if (type == HL_WORD_fft_type_RFFT && x->dtype != HL_F32 && x->dtype != HL_F64)
    return hl_infer_error(q, "RFFT requires F32 or F64 input type, found %s",
                          hl_dtype_info[x->dtype].name);
  if (type != HL_WORD_fft_type_RFFT && !hl_is_complex(x->dtype))
    return hl_infer_error(q, "%s requires complex input type, found %s", name,
                          hl_dtype_info[x->dtype].name);
  if (x->rank < length.n)
    return hl_infer_error(
        q, "FFT of rank %d requires input of at least same rank; got input of rank %d", length.n,
        x->rank);
  if (type == HL_WORD_fft_type_RFFT)
    return infer_rfft(q, x, length);
  return type == HL_WORD_fft_type_IRFFT ? infer_irfft(q, x, length) : x;
}

// --- cholesky, triangular-solve -----------------------------------------------------------------

static bool square_minor_dims(const HlInfer *q, const HlShape *a, const char *op) {
  if (!hl_is_float(a->dtype) && !hl_is_complex(a->dtype)) {
    hl_infer_error(q, "expected element type in shape to be floating or complex for %s; got %s", op,
                   hl_dtype_info[a->dtype].name);
    return false;
  }
  if (a->rank < 2) {
    hl_infer_error(q, "the 'a' argument to %s must have rank >= 2, got shape %s", op,
                   infer_text(q, a));
    return false;
  }
  if (infer_sizes_fit(a->dim[a->rank - 2], a->dim[a->rank - 1]))
    return true;
  hl_infer_error(q, "the two minor dimensions of 'a' must have equal size, got %s",
                 infer_text(q, a));
  return false;
}

const HlShape *infer_cholesky(const HlInfer *q) {
  return square_minor_dims(q, q->in[0], "cholesky") ? q->in[0] : NULL;
}

const HlShape *infer_triangular_solve(const HlInfer *q) {
  const HlShape *a = q->in[0], *b = q->in[1];
  if (!square_minor_dims(q, a, "triangular-solve"))
    return NULL;
  if (a->dtype != b->dtype)
    return hl_infer_error(
        q,
        "expected element types in shape to be floating or complex and identical for "
        "triangular-solve; got %s and %s",
        hl_dtype_info[a->dtype].name, hl_dtype_info[b->dtype].name);
  if (a->rank != b->rank)
    return hl_infer_error(q, "arguments to triangular solve must have equal rank; got %s and %s",
                          infer_text(q, b), infer_text(q, a));
  bool left = hl_attr_int(q->inst, HL_A_LEFT_SIDE) != 0;
  if (!infer_sizes_fit(a->dim[a->rank - 1], b->dim[b->rank - (left ? 2 : 1)]))
    return hl_infer_error(
        q, "the shared dimension of 'a' and 'b' does not match, got shapes %s and %s",
        infer_text(q, a), infer_text(q, b));
  for (int d = 0; d < a->rank - 2; d++)
    if (a->dim[d] != b->dim[d])
      return hl_infer_error(
          q,
          "the leading batch dimensions of the arguments to triangular solve must be "
          "equal; got %s and %s",
          infer_text(q, b), infer_text(q, a));
  if (hl_attr_int(q->inst, HL_A_TRANSPOSE_A) == HL_WORD_transpose_a_INVALID)
    return hl_infer_error(q, "invalid transpose option value for triangular solve: write "
                             "transpose_a=NO_TRANSPOSE, TRANSPOSE or ADJOINT");
  return b;
}

// --- Batch normalisation ------------------------------------------------------------------------

// Checks operand 0 and feature_index; gives the number of features.
static bool norm_operand(const HlInfer *q, int64_t *features) {
  const HlShape *x = q->in[0];
  int64_t at = hl_attr_int(q->inst, HL_A_FEATURE_INDEX);
  if (!infer_array(q, 0, "operand of batch normalisation"))
    return false;
  if (at < 0 || at >= x->rank) {
    hl_infer_error(
        q,
        "expected feature_index of %s to be non-negative and smaller than the rank of the "
        "operand; got feature_index %" PRId64 ", and rank %d",
        infer_op(q), at, x->rank);
    return false;
  }
  if (!hl_is_float(x->dtype)) {
    hl_infer_error(q, "the operand to %s must have a floating point element type, but it is %s",
                   infer_op(q), infer_text(q, x));
    return false;
  }
  *features = x->dim[at];
  return true;
}

static bool norm_vector(const HlInfer *q, int operand, const char *name, int64_t features) {
  const HlShape *v = q->in[operand];
  if (!infer_array(q, operand, name))
    return false;
  if (v->rank != 1) {
    hl_infer_error(q, "%s input of %s must have rank 1, but has rank %d", name, infer_op(q),
                   v->rank);
    return false;
  }
  if (!hl_is_float(v->dtype)) {
    hl_infer_error(
        q,
        "the inputs should have the same element type for %s, but %s is %s and the operand is "
        "%s",
        infer_op(q), name, infer_text(q, v), infer_text(q, q->in[0]));
    return false;
  }
  if (infer_sizes_fit(v->dim[0], features))
    return true;
  hl_infer_error(
      q,
      "the size of %s should be compatible with feature count, but the size of %s is %" PRId64
      " and the feature count is %" PRId64,
      name, name, v->dim[0], features);
  return false;
}

// The operand's shape and two vectors of its features.
static const HlShape *norm_tuple(const HlInfer *q, int64_t features) {
  const HlShape *x = q->in[0];
  InferDims dims = infer_dims(q, 1);
  dims.dim[0] = features;
  dims.dynamic[0] = infer_dynamic(x, (int)hl_attr_int(q->inst, HL_A_FEATURE_INDEX));
  const HlShape *vector = infer_make(q, x->dtype, &dims);
  const HlShape *three[3] = {x, vector, vector};
  return vector == NULL ? NULL : hl_shape_tuple(q->shapes, 3, three);
}

const HlShape *infer_batch_norm_training(const HlInfer *q) {
  int64_t features;
  if (!norm_operand(q, &features) || !norm_vector(q, 1, "scale", features) ||
      !norm_vector(q, 2, "offset", features))
    return NULL;
  return norm_tuple(q, features);
}

const HlShape *infer_batch_norm_inference(const HlInfer *q) {
  int64_t features;
  if (!norm_operand(q, &features) || !norm_vector(q, 1, "scale", features) ||
      !norm_vector(q, 2, "offset", features) || !norm_vector(q, 3, "mean", features) ||
      !norm_vector(q, 4, "variance", features))
    return NULL;
  return q->in[0];
}

const HlShape *infer_batch_norm_grad(const HlInfer *q) {
  int64_t features;
  if (!norm_operand(q, &features) || !norm_vector(q, 1, "scale", features) ||
      !norm_vector(q, 2, "mean", features) || !norm_vector(q, 3, "variance", features) ||
      !infer_array(q, 4, "output_grad input of batch norm grad"))
    return NULL;
  const HlShape *x = q->in[0], *grad = q->in[4];
  bool same = x->rank == grad->rank && hl_is_float(grad->dtype);
  for (int d = 0; same && d < x->rank; d++)
    same = infer_sizes_fit(x->dim[d], grad->dim[d]);
  if (!same)
    return hl_infer_error(
        q,
        "the operand and output_grad of batch-norm-grad should have the same type, rank "
        "and sizes; got %s and %s",
        infer_text(q, x), infer_text(q, grad));
  return norm_tuple(q, features);
}
