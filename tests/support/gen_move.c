// tests/support/gen_move.c: rules for ops that move, index, sort and fold.
#include "support/gen_core.h"

static int64_t elements(const HlShape *shape) {
  return hl_shape_elements(shape);
}

HlInst *rule_broadcast(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 2);
  int64_t dim[4], at[4];
  int rank = x->shape->rank + (int)gen_between(g, 0, 2), from = 0;
  for (int d = 0; d < rank; d++) {
    bool mine = from < x->shape->rank && (rank - d == x->shape->rank - from || gen_chance(g, 50));
    dim[d] = mine ? x->shape->dim[from] : gen_between(g, 1, 3);
    if (mine)
      at[from++] = d;
  }
  HlInst *inst = gen_make(g, op, gen_array(g, x->shape->dtype, rank, dim), 1, &x);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){at, from});
  return gen_done(g, inst);
}

HlInst *rule_reshape(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  int64_t n = elements(x->shape), dim[4];
  int rank = 0;
  for (int64_t f = 2; n > 1 && f <= n && rank < 3; f++)
    if (n % f == 0 && gen_chance(g, 60)) {
      dim[rank++] = f;
      n /= f;
    }
  if (n != 1 || gen_chance(g, 20))
    dim[rank++] = n;
  return gen_done(g, gen_make(g, op, gen_array(g, x->shape->dtype, rank, dim), 1, &x));
}

HlInst *rule_dynamic_reshape(Gen *g, HlOp op) {
  int64_t a = gen_between(g, 1, 4), b = gen_between(g, 1, 4), dim[2] = {a, b};
  bool dynamic[2] = {gen_chance(g, 50), gen_chance(g, 50)};
  int64_t flat = a * b;
  HlInst *in[3] = {gen_value(g, gen_array(g, gen_dtype(g, ANY), 1, &flat)), gen_int(g, HL_S32, a),
                   gen_int(g, HL_S32, b)};
  HlDtype t = in[0]->shape->dtype;
  const HlShape *shape = dynamic[0] || dynamic[1]
                             ? hl_shape_array_full(g->m->shapes, t, 2, dim, dynamic, NULL)
                             : gen_array(g, t, 2, dim);
  return gen_done(g, gen_make(g, op, hl_shape_with_default_layout(g->m->shapes, shape), 3, in));
}

static int permutation(Gen *g, const HlShape *shape, int64_t *out) {
  for (int d = 0; d < shape->rank; d++)
    out[d] = d;
  gen_shuffle(g, out, shape->rank);
  return shape->rank;
}

HlInst *rule_transpose(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  int64_t perm[4];
  int n = permutation(g, x->shape, perm);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){perm, n});
  return gen_done(g, inst);
}

HlInst *rule_reverse(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  int64_t dims[4];
  int n = permutation(g, x->shape, dims);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){dims, (int)gen_between(g, 0, n)});
  return gen_done(g, inst);
}

HlInst *rule_slice(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  int64_t at[12], dim[4];
  for (int d = 0; d < x->shape->rank; d++) {
    int64_t start = gen_between(g, 0, x->shape->dim[d]),
            limit = gen_between(g, start, x->shape->dim[d]);
    int64_t stride = gen_between(g, 1, 2);
    at[3 * d] = start;
    at[3 * d + 1] = limit;
    at[3 * d + 2] = stride;
    dim[d] = (limit - start + stride - 1) / stride;
  }
  HlInst *inst = gen_make(g, op, gen_array(g, x->shape->dtype, x->shape->rank, dim), 1, &x);
  hl_set_ints(inst, HL_A_SLICE, (HlI64s){at, 3 * x->shape->rank});
  return gen_done(g, inst);
}

HlInst *rule_concatenate(Gen *g, HlOp op) {
  HlInst *in[3] = {gen_any(g, ANY, 1, 3)};
  const HlShape *shape = in[0]->shape;
  int n = (int)gen_between(g, 1, 3);
  int64_t along = gen_below(g, shape->rank), dim[4];
  for (int k = 1; k < n; k++) {
    for (int d = 0; d < shape->rank; d++)
      dim[d] = d == along ? gen_between(g, 1, 3) : shape->dim[d];
    in[k] = gen_value(g, gen_array(g, shape->dtype, shape->rank, dim));
  }
  HlInst *inst = gen_make(g, op, shape, n, in);
  hl_set_int(inst, HL_A_DIMENSION, along);
  return gen_done(g, inst);
}

HlInst *rule_pad(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 1, 3)};
  const HlShape *shape = in[0]->shape;
  in[1] = gen_value(g, gen_scalar(g, shape->dtype));
  int64_t at[12];
  for (int d = 0; d < shape->rank; d++) {
    at[3 * d] = gen_between(g, shape->dim[d] > 2 ? -1 : 0, 2);
    at[3 * d + 1] = gen_between(g, shape->dim[d] > 2 ? -1 : 0, 2);
    at[3 * d + 2] = gen_chance(g, 30) ? gen_between(g, 0, 2) : 0;
  }
  HlInst *inst = gen_make(g, op, shape, 2, in);
  hl_set_ints(inst, HL_A_PADDING, (HlI64s){at, 3 * shape->rank});
  return gen_done(g, inst);
}

HlInst *rule_iota(Gen *g, HlOp op) {
  const HlShape *shape = gen_shape(g, gen_dtype(g, NUM), 1, 3);
  HlInst *inst = gen_make(g, op, shape, 0, NULL);
  hl_set_int(inst, HL_A_IOTA_DIMENSION, gen_below(g, shape->rank));
  return gen_done(g, inst);
}

static HlDtype index_type(Gen *g) {
  static const HlDtype types[] = {HL_S32, HL_S64, HL_U32, HL_S16, HL_U8};
  return gen_one_of(g, 5, types);
}

HlInst *rule_dynamic_slice(Gen *g, HlOp op) {
  HlInst *in[4] = {gen_any(g, ANY, 0, 3)};
  const HlShape *shape = in[0]->shape;
  int64_t size[4];
  HlDtype t = index_type(g);
  for (int d = 0; d < shape->rank; d++) {
    size[d] = gen_between(g, 0, shape->dim[d]);
    in[1 + d] = gen_value(g, gen_scalar(g, t));
  }
  HlInst *inst =
      gen_make(g, op, gen_array(g, shape->dtype, shape->rank, size), 1 + shape->rank, in);
  hl_set_ints(inst, HL_A_DYNAMIC_SLICE_SIZES, (HlI64s){size, shape->rank});
  return gen_done(g, inst);
}

HlInst *rule_dynamic_update_slice(Gen *g, HlOp op) {
  HlInst *in[5] = {gen_any(g, ANY, 0, 3)};
  const HlShape *shape = in[0]->shape;
  int64_t size[4];
  HlDtype t = index_type(g);
  for (int d = 0; d < shape->rank; d++) {
    size[d] = gen_between(g, 0, shape->dim[d]);
    in[2 + d] = gen_value(g, gen_scalar(g, t));
  }
  in[1] = gen_value(g, gen_array(g, shape->dtype, shape->rank, size));
  return gen_done(g, gen_make(g, op, shape, 2 + shape->rank, in));
}

HlInst *rule_sort(Gen *g, HlOp op) {
  static const int64_t directions[] = {HL_WORD_direction_LT, HL_WORD_direction_GT};
  HlInst *in[3] = {gen_any(g, REAL, 1, 3)};
  HlDtype types[3] = {in[0]->shape->dtype};
  const HlShape *shapes[3] = {in[0]->shape};
  int n = (int)gen_between(g, 1, 3);
  for (int k = 1; k < n; k++) {
    types[k] = gen_dtype(g, ANY);
    shapes[k] = hl_shape_with_dtype(g->m->shapes, in[0]->shape, types[k]);
    in[k] = gen_value(g, shapes[k]);
  }
  HlComp *less = gen_less(g, n, types, directions[gen_below(g, 2)]);
  HlInst *inst =
      gen_make(g, op, n == 1 ? shapes[0] : hl_shape_tuple(g->m->shapes, n, shapes), n, in);
  hl_set_int(inst, HL_A_DIMENSION, gen_below(g, shapes[0]->rank));
  hl_set_int(inst, HL_A_IS_STABLE, gen_below(g, 2));
  hl_set_calls(inst, 1, &less);
  gen_done(g, inst);
  return n == 1 ? inst : gen_element(g, inst, gen_below(g, n));
}

HlInst *rule_topk(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, I | F, 1, 3);
  int64_t k = gen_between(g, 0, x->shape->dim[x->shape->rank - 1]);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_int(inst, HL_A_K, k);
  hl_set_int(inst, HL_A_LARGEST, gen_below(g, 2));
  return gen_element(g, gen_done(g, inst), gen_below(g, 2));
}

HlInst *rule_get_dimension_size(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 1, 3);
  HlInst *inst = gen_make(g, op, gen_scalar(g, HL_S32), 1, &x);
  hl_set_int(inst, HL_A_DIMENSION, gen_below(g, x->shape->rank));
  return gen_done(g, inst);
}

// A dynamic value, and one or two uses of it.
HlInst *rule_set_dimension_size(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 1, 3)};
  const HlShape *shape = in[0]->shape;
  int64_t d = gen_below(g, shape->rank);
  in[1] = gen_int(g, HL_S32, gen_between(g, 0, shape->dim[d]));
  HlInst *inst = gen_make(g, op, shape, 2, in);
  hl_set_int(inst, HL_A_DIMENSION, d);
  gen_done(g, inst);
  HlInst *size = gen_make(g, HL_OP_GET_DIMENSION_SIZE, gen_scalar(g, HL_S32), 1, &inst);
  hl_set_int(size, HL_A_DIMENSION, d);
  gen_done(g, size);
  if (shape->dtype == HL_F32)
    gen_unary(g, HL_OP_NEGATE, inst);
  return inst;
}

HlInst *rule_scan(Gen *g, HlOp op) {
  HlDtype t = gen_dtype(g, ANY);
  int64_t dim[3] = {gen_between(g, 0, 4), gen_between(g, 1, 3), gen_between(g, 1, 3)};
  int rank = (int)gen_between(g, 1, 3);
  int64_t at = gen_below(g, rank), slice[2];
  for (int d = 0, k = 0; d < rank; d++)
    if (d != at)
      slice[k++] = dim[d];
  const HlShape *in_shape = gen_array(g, t, rank, dim),
                *slice_shape = gen_array(g, t, rank - 1, slice);
  HlInst *in[2] = {gen_value(g, in_shape), gen_value(g, slice_shape)};
  Place outer = gen_open(g, "step");
  g->at.bare = true;
  HlInst *x = gen_parameter(g, slice_shape), *carry = gen_parameter(g, slice_shape);
  HlInst *both[2];
  both[0] = gen_binary(g, HL_OP_ADD, x, carry);
  both[1] = gen_chance(g, 50) ? both[0] : gen_binary(g, HL_OP_MULTIPLY, x, carry);
  HlComp *step = gen_close(g, outer, gen_tuple(g, 2, both));
  const HlShape *out[2] = {in_shape, slice_shape};
  HlInst *inst = gen_make(g, op, hl_shape_tuple(g->m->shapes, 2, out), 2, in);
  hl_set_int(inst, HL_A_DIMENSION, at);
  hl_set_int(inst, HL_A_NUM_CARRIES, 1);
  hl_set_int(inst, HL_A_IS_REVERSE, gen_below(g, 2));
  hl_set_int(inst, HL_A_IS_ASSOCIATIVE, 1 + gen_below(g, 2));
  hl_set_calls(inst, 1, &step);
  return gen_element(g, gen_done(g, inst), gen_below(g, 2));
}

// --- gather and scatter -----------------------------------------------------------------------------------

// How boxes of an operand correspond to places of a result or of updates.
typedef struct Boxes {
  const HlShape *operand, *indices, *result;  // result: of the gather, updates of the scatter
  int64_t offset[4], collapsed[4], map[4], batching[1], index_batching[1], size[4], vector_dim;
  int n_offset, n_collapsed, n_map, n_batching;
} Boxes;

static void pick_map(Gen *g, Boxes *b, int first) {
  for (int d = first; d < b->operand->rank; d++)
    if (gen_chance(g, 60))
      b->map[b->n_map++] = d;
  gen_shuffle(g, b->map, b->n_map);
}

static Boxes pick_boxes(Gen *g, HlDtype dtype) {
  Boxes b = {.operand = gen_shape(g, dtype, 1, 3)};
  int64_t index_dim[4], result_dim[8];
  int n_batch = (int)gen_between(g, 0, 2), n_result = 0;
  bool batching = b.operand->rank > 1 && n_batch > 0 && gen_chance(g, 30);
  for (int k = 0; k < n_batch; k++)
    index_dim[k] = gen_between(g, 1, 3);
  if (batching) {
    index_dim[0] = b.operand->dim[0];
    b.batching[b.n_batching++] = 0;
    b.index_batching[0] = 0;
  }
  pick_map(g, &b, batching);
  index_dim[n_batch] = b.n_map;
  b.vector_dim = n_batch;
  bool implicit = b.n_map == 1 && gen_chance(g, 30);  // no dimension for the vector
  static const HlDtype types[] = {HL_S32, HL_S64, HL_U32, HL_S16};
  b.indices = gen_array(g, gen_one_of(g, 4, types), n_batch + !implicit, index_dim);
  for (int k = 0; k < n_batch; k++)
    result_dim[n_result++] = index_dim[k];
  for (int d = 0; d < b.operand->rank; d++) {
    bool batch = batching && d == 0,
         collapse = !batch && b.operand->dim[d] > 0 && gen_chance(g, 40);
    b.size[d] = batch      ? (b.operand->dim[d] > 0)
                : collapse ? 1
                           : gen_between(g, 0, b.operand->dim[d]);
    if (collapse) {
      b.collapsed[b.n_collapsed++] = d;
    } else if (!batch) {
      b.offset[b.n_offset++] = n_result;
      result_dim[n_result++] = b.size[d];
    }
  }
  b.result = gen_array(g, dtype, n_result, result_dim);
  return b;
}

HlInst *rule_gather(Gen *g, HlOp op) {
  Boxes b = pick_boxes(g, gen_dtype(g, ANY));
  HlInst *in[2] = {gen_value(g, b.operand), gen_value(g, b.indices)};
  HlInst *inst = gen_make(g, op, b.result, 2, in);
  hl_set_ints(inst, HL_A_OFFSET_DIMS, (HlI64s){b.offset, b.n_offset});
  hl_set_ints(inst, HL_A_COLLAPSED_SLICE_DIMS, (HlI64s){b.collapsed, b.n_collapsed});
  hl_set_ints(inst, HL_A_START_INDEX_MAP, (HlI64s){b.map, b.n_map});
  if (b.n_batching) {
    hl_set_ints(inst, HL_A_OPERAND_BATCHING_DIMS, (HlI64s){b.batching, 1});
    hl_set_ints(inst, HL_A_START_INDICES_BATCHING_DIMS, (HlI64s){b.index_batching, 1});
  }
  hl_set_int(inst, HL_A_INDEX_VECTOR_DIM, b.vector_dim);
  hl_set_ints(inst, HL_A_SLICE_SIZES, (HlI64s){b.size, b.operand->rank});
  return gen_done(g, inst);
}

HlInst *rule_scatter(Gen *g, HlOp op) {
  int n = (int)gen_between(g, 1, 2);
  HlDtype types[2] = {gen_dtype(g, ANY)};
  types[1] = gen_dtype_beside(g, types[0]);
  Boxes b = pick_boxes(g, types[0]);
  HlInst *in[5];
  const HlShape *out[2];
  for (int k = 0; k < n; k++) {
    in[k] = gen_value(g, out[k] = hl_shape_with_dtype(g->m->shapes, b.operand, types[k]));
    in[n + 1 + k] = gen_value(g, hl_shape_with_dtype(g->m->shapes, b.result, types[k]));
  }
  in[n] = gen_value(g, b.indices);
  HlComp *fold = gen_folder(g, n, types);
  HlInst *inst =
      gen_make(g, op, n == 1 ? out[0] : hl_shape_tuple(g->m->shapes, n, out), 2 * n + 1, in);
  hl_set_ints(inst, HL_A_UPDATE_WINDOW_DIMS, (HlI64s){b.offset, b.n_offset});
  hl_set_ints(inst, HL_A_INSERTED_WINDOW_DIMS, (HlI64s){b.collapsed, b.n_collapsed});
  hl_set_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, (HlI64s){b.map, b.n_map});
  if (b.n_batching) {
    hl_set_ints(inst, HL_A_INPUT_BATCHING_DIMS, (HlI64s){b.batching, 1});
    hl_set_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS, (HlI64s){b.index_batching, 1});
  }
  hl_set_int(inst, HL_A_INDEX_VECTOR_DIM, b.vector_dim);
  hl_set_calls(inst, 1, &fold);
  gen_done(g, inst);
  return n == 1 ? inst : gen_element(g, inst, gen_below(g, n));
}

// --- Folds ------------------------------------------------------------------------------------------------

// n arrays of one size and n initial values.
static int inputs_of_fold(Gen *g, int min_rank, HlInst **in, HlDtype *types) {
  int n = (int)gen_between(g, 1, 2);
  in[0] = gen_any(g, ANY, min_rank, 3);
  types[0] = in[0]->shape->dtype;
  for (int k = 1; k < n; k++) {
    types[k] = gen_dtype_beside(g, types[0]);
    in[k] = gen_value(g, hl_shape_with_dtype(g->m->shapes, in[0]->shape, types[k]));
  }
  for (int k = 0; k < n; k++)
    in[n + k] = gen_value(g, gen_scalar(g, types[k]));
  return n;
}

HlInst *rule_reduce(Gen *g, HlOp op) {
  HlInst *in[4];
  HlDtype types[2];
  int64_t dims[4];
  int n = inputs_of_fold(g, 0, in, types);
  int n_dims = (int)gen_between(g, 0, permutation(g, in[0]->shape, dims));
  HlComp *fold = gen_folder(g, n, types);
  HlInst *inst = gen_make(g, op, in[0]->shape, 2 * n, in);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){dims, n_dims});
  hl_set_calls(inst, 1, &fold);
  gen_done(g, inst);
  return n == 1 ? inst : gen_element(g, inst, gen_below(g, n));
}

static HlWindowDim window_dim(Gen *g, int64_t size) {
  HlWindowDim w = {.size = gen_between(g, 1, size > 2 ? 3 : 2),
                   .stride = gen_between(g, 1, 2),
                   .pad_low = gen_below(g, 2),
                   .pad_high = gen_below(g, 2),
                   .lhs_dilate = gen_chance(g, 15) ? 2 : 1,
                   .rhs_dilate = gen_chance(g, 15) ? 2 : 1};
  return w;
}

HlInst *rule_reduce_window(Gen *g, HlOp op) {
  HlInst *in[4];
  HlDtype types[2];
  HlWindowDim window[4];
  int n = inputs_of_fold(g, 1, in, types);
  for (int d = 0; d < in[0]->shape->rank; d++)
    window[d] = window_dim(g, in[0]->shape->dim[d]);
  HlComp *fold = gen_folder(g, n, types);
  HlInst *inst = gen_make(g, op, in[0]->shape, 2 * n, in);
  gen_window(inst, in[0]->shape->rank, window);
  hl_set_calls(inst, 1, &fold);
  gen_done(g, inst);
  return n == 1 ? inst : gen_element(g, inst, gen_below(g, n));
}

HlInst *rule_select_and_scatter(Gen *g, HlOp op) {
  HlDtype t = gen_dtype(g, I | F);
  int64_t dim[2] = {gen_between(g, 2, 5), gen_between(g, 2, 5)}, source[2];
  int rank = (int)gen_between(g, 1, 2);
  HlWindowDim window[2];
  for (int d = 0; d < rank; d++) {
    window[d] =
        (HlWindowDim){.size = 2, .stride = gen_between(g, 1, 2), .lhs_dilate = 1, .rhs_dilate = 1};
    source[d] = (dim[d] - 2) / window[d].stride + 1;
  }
  HlInst *in[3] = {gen_value(g, gen_array(g, t, rank, dim)),
                   gen_value(g, gen_array(g, t, rank, source)), gen_value(g, gen_scalar(g, t))};
  HlDtype both[1] = {t};
  HlComp *calls[2] = {gen_less(g, 1, both, HL_WORD_direction_GE), gen_folder(g, 1, both)};
  HlInst *inst = gen_make(g, op, in[0]->shape, 3, in);
  gen_window(inst, rank, window);
  hl_set_calls(inst, 2, calls);
  return gen_done(g, inst);
}
