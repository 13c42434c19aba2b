// rewrite/features/attrs.c: attributes as numbers, opcode by opcode, as HloEnv has them: first plain numbers, then words
// and dimensions, each a group of slots of which one is 1.
//
//   s32[4,1] broadcast(x), dimensions={0}     1 0 0 0 0 0 0  0 0 0 0 0 0 1  0 0 0 0 0 0 1  ...: dimension 0, and five that are absent
//
// A dimension beyond the sixth counts as absent.

#include <string.h>

#include "rewrite/features/features.h"

enum { DIMS = 6, ABSENT = 6, DIM_SLOTS = 7 };

typedef struct Writer {
  int32_t *at;
  int n;
} Writer;

static void put(Writer *w, int64_t number) {
  w->at[w->n++] = (int32_t)number;
}

// A group of n slots, of which one is 1; none if the word is none of them.
static void put_slots(Writer *w, int64_t word, int n) {
  memset(w->at + w->n, 0, sizeof *w->at * (size_t)n);
  if (word >= 0 && word < n)
    w->at[w->n + word] = 1;
  w->n += n;
}

static void put_dim(Writer *w, int64_t dim) {
  put_slots(w, dim < 0 || dim > ABSENT ? ABSENT : dim, DIM_SLOTS);
}

static void put_dims(Writer *w, HlI64s dims) {
  for (int k = 0; k < DIMS; k++)
    put_dim(w, k < dims.n ? dims.at[k] : ABSENT);
}

// `groups` groups of `width` numbers, of the list as far as it goes.
static void put_list(Writer *w, HlI64s list, int groups, int width) {
  for (int k = 0; k < groups * width; k++)
    put(w, k < list.n ? list.at[k] : -1);
}

static void put_window(Writer *w, HlWindow window) {
  for (int k = 0; k < 2; k++) {
    const HlWindowDim none = {0}, *d = window.n == 2 ? &window.at[k] : &none;
    put(w, d->size), put(w, d->stride), put(w, d->pad_low), put(w, d->pad_high);
    put(w, d->lhs_dilate), put(w, d->rhs_dilate), put(w, d->reversal);
  }
}

static int convolution(const HlInst *inst, Writer *w) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS), none = {0};
  const HlDimLabels *l = labels ? labels : &none;
  put_window(w, hl_window(inst));
  put(w, hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT));
  put(w, hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT));
  const int numbers = w->n;
  put_dim(w, l->input_batch), put_dim(w, l->input_feature), put_dims(w, l->input_spatial);
  put_dim(w, l->kernel_input), put_dim(w, l->kernel_output), put_dims(w, l->kernel_spatial);
  put_dim(w, l->output_batch), put_dim(w, l->output_feature), put_dims(w, l->output_spatial);
  return numbers;
}

static int dot(const HlInst *inst, Writer *w) {
  const HlI64s precision = hl_attr_ints(inst, HL_A_OPERAND_PRECISION);
  put_dims(w, hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS));
  put_slots(w, precision.n > 0 ? precision.at[0] : 0, 3);
  return 0;
}

static int gather(const HlInst *inst, Writer *w) {
  put(w, hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM));
  put_list(w, hl_attr_ints(inst, HL_A_SLICE_SIZES), DIMS, 1);
  const int numbers = w->n;
  put_dims(w, hl_attr_ints(inst, HL_A_OFFSET_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_START_INDEX_MAP));
  put_slots(w, hl_attr_int(inst, HL_A_INDICES_ARE_SORTED), 2);
  return numbers;
}

static int scatter(const HlInst *inst, Writer *w) {
  put(w, hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM));
  put_dims(w, hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS));
  put_dims(w, hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS));
  put_slots(w, hl_attr_int(inst, HL_A_INDICES_ARE_SORTED), 2);
  put_slots(w, hl_attr_int(inst, HL_A_UNIQUE_INDICES), 2);
  return 1;
}

static int triangular_solve(const HlInst *inst, Writer *w) {
  put_slots(w, hl_attr_int(inst, HL_A_LEFT_SIDE), 2);
  put_slots(w, hl_attr_int(inst, HL_A_LOWER), 2);
  put_slots(w, hl_attr_int(inst, HL_A_UNIT_DIAGONAL), 2);
  put_slots(w, hl_attr_int(inst, HL_A_TRANSPOSE_A), 4);
  return 0;
}

static int sort(const HlInst *inst, Writer *w) {
  put_dim(w, hl_dim(inst));
  put_slots(w, hl_attr_int(inst, HL_A_IS_STABLE), 2);
  return 0;
}

static int compare(const HlInst *inst, Writer *w) {
  put_slots(w, hl_attr_int(inst, HL_A_DIRECTION), 6);
  put_slots(w, hl_comparison_type(inst) - HL_WORD_comparison_type_FLOAT, 4);
  return 0;
}

static int custom_call(const HlInst *inst, Writer *w) {
  static const char *const targets[] = {"__cublas$gemm",
                                        "__cublas$triangularSolve",
                                        "__cudnn$convBackwardFilter",
                                        "__cudnn$convBackwardInput",
                                        "__cudnn$convBiasActivationForward",
                                        "__cudnn$convForward",
                                        "cublas_trsm_batched",
                                        "cuda_lu_pivots_to_permutation",
                                        "cuda_threefry2x32",
                                        "cusolver_getrf",
                                        "cusolver_potrf",
                                        "cusolver_syevd"};
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  int k = 0;
  while (k < HL_COUNT_OF(targets) && strcmp(targets[k], target) != 0)
    k++;
  put_slots(w, k, HL_COUNT_OF(targets) + 1);
  return 0;
}

// Writes them, and returns how many are plain numbers.
static int write_attrs(const HlInst *inst, Writer *w) {
  switch ((HlOp)inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_CONCATENATE:
  case HL_OP_REDUCE:
  case HL_OP_REVERSE:
  case HL_OP_TRANSPOSE: break;
  case HL_OP_COMPARE: return compare(inst, w);
  case HL_OP_CONVOLUTION: return convolution(inst, w);
  case HL_OP_DOT: return dot(inst, w);
  case HL_OP_GATHER: return gather(inst, w);
  case HL_OP_SCATTER: return scatter(inst, w);
  case HL_OP_SORT: return sort(inst, w);
  case HL_OP_TRIANGULAR_SOLVE: return triangular_solve(inst, w);
  case HL_OP_CUSTOM_CALL: return custom_call(inst, w);
  case HL_OP_DYNAMIC_SLICE:
    put_list(w, hl_attr_ints(inst, HL_A_DYNAMIC_SLICE_SIZES), DIMS, 1);
    return w->n;
  case HL_OP_PAD: put_list(w, hl_attr_ints(inst, HL_A_PADDING), DIMS, 3); return w->n;
  case HL_OP_SLICE: put_list(w, hl_attr_ints(inst, HL_A_SLICE), DIMS, 3); return w->n;
  case HL_OP_GET_TUPLE_ELEMENT: put(w, hl_attr_int(inst, HL_A_INDEX)); return w->n;
  case HL_OP_IOTA: put_dim(w, hl_attr_int(inst, HL_A_IOTA_DIMENSION)); return 0;
  default: return 0;
  }
  // concatenate has one dimension, the others a list
  if (hl_op_has_attr((HlOp)inst->op, HL_A_DIMENSION)) {
    const int64_t dim = hl_dim(inst);
    put_dims(w, (HlI64s){&dim, 1});
  } else {
    put_dims(w, hl_dims(inst));
  }
  return 0;
}

void features_attrs(const HlInst *inst, int32_t *out, int *n_numbers, int *n_slots) {
  Writer w = {.at = out};
  *n_numbers = write_attrs(inst, &w);
  *n_slots = w.n - *n_numbers;
}
