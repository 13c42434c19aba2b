// Lowers gather and scatter with their modes for indices that are out of bounds.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"

typedef enum Mode { MODE_CLIP, MODE_FILL_OR_DROP, MODE_IN_BOUNDS } Mode;

// GatherScatterMode.CLIP, <GatherScatterMode.CLIP: 0>, 0, None
static Mode read_mode(const Rule *r, Mode absent) {
  static const char *const names[] = {"CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"};
  const Value *v = jx_param(r, "mode");
  int64_t number;
  if (jx_value_is_none(v))
    return absent;
  if (jx_value_int(v, &number))
    return number == 0 ? MODE_CLIP : number == 1 ? MODE_FILL_OR_DROP : MODE_IN_BOUNDS;
  for (int k = 0; k < HL_COUNT_OF(names); k++)
    if (memmem(v->text.at, v->text.n, names[k], strlen(names[k])))
      return (Mode)k;
  return MODE_IN_BOUNDS;
}

// A list of the dimension numbers; not written: empty.
static bool numbers(const Rule *r, const char *name, HlI64s *out) {
  const Value *v = jx_param(r, "dimension_numbers"), *field = jx_value_field(v, name);
  *out = (HlI64s){0};
  if (!v)
    return jx_fail(r, "parameter 'dimension_numbers' is missing");
  return !field || jx_value_ints(r->lo->arena, field, out) ||
         jx_fail(r, "expected integers as '%s'", name);
}

static HlI64s append(const Rule *r, HlI64s list, int64_t value) {
  int64_t *more = HL_ARRAY(r->lo->arena, int64_t, list.n + 1);
  if (list.n > 0)
    memcpy(more, list.at, sizeof *more * (size_t)list.n);
  more[list.n] = value;
  return (HlI64s){more, list.n + 1};
}

static HlI64s kept(const Rule *r, HlI64s list) {
  return hl_i64s_copy(r->lo->m->arena, list);
}

static bool check_indices(const Rule *r, HlInst *indices) {
  return (indices->shape->rank > 0 && hl_is_integral(indices->shape->dtype)) ||
         jx_fail(r, "indices are %s, expected integers of at least one dimension",
                 jx_type_text(r->lo, indices->shape));
}

// Constants 0, 1, .. as an array that stands along the last dimension of `like`.
static HlInst *along_last(Rule *r, HlInst *like, const int64_t *values, int n) {
  const int64_t dim = n, last = like->shape->rank - 1;
  HlLiteral *literal =
      hl_literal_new(r->lo->cx, hl_shape_array(r->lo->m->shapes, like->shape->dtype, 1, &dim));
  if (!literal)
    return NULL;
  for (int k = 0; k < n; k++)
    hl_literal_set_i64(literal, k, values[k]);
  HlInst *line = hl_b_constant(r->b, literal);
  hl_literal_unref(literal);
  return hl_b_broadcast(r->b, line, like->shape->rank, like->shape->dim, (HlI64s){&last, 1});
}

// --- Gather -------------------------------------------------------------------------------------------------------

typedef struct Gather {
  HlI64s offset_dims, collapsed, start_map, operand_batching, indices_batching, sizes;
} Gather;

static bool read_gather(const Rule *r, Gather *g) {
  if (!numbers(r, "offset_dims", &g->offset_dims) ||
      !numbers(r, "collapsed_slice_dims", &g->collapsed) ||
      !numbers(r, "start_index_map", &g->start_map) ||
      !numbers(r, "operand_batching_dims", &g->operand_batching) ||
      !numbers(r, "start_indices_batching_dims", &g->indices_batching) ||
      !jx_param_ints(r, "slice_sizes", &g->sizes))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (jx_is_key(r, 0)) {
    g->offset_dims = append(r, g->offset_dims, r->in[1]->shape->rank - 1 + g->offset_dims.n);
    g->sizes = append(r, g->sizes, s->dim[s->rank - 1]);
  }
  return jx_want_rank(r, "slice_sizes", g->sizes, s->rank) &&
         jx_want_dims(r, "start_index_map", g->start_map, s->rank);
}

static HlInst *plain_gather(Rule *r, const Gather *g, HlInst *indices) {
  HlInst *operands[] = {r->in[0], indices};
  HlAttr attrs[] = {{.key = HL_A_OFFSET_DIMS, .ints = kept(r, g->offset_dims)},
                    {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = kept(r, g->collapsed)},
                    {.key = HL_A_START_INDEX_MAP, .ints = kept(r, g->start_map)},
                    {.key = HL_A_OPERAND_BATCHING_DIMS, .ints = kept(r, g->operand_batching)},
                    {.key = HL_A_START_INDICES_BATCHING_DIMS, .ints = kept(r, g->indices_batching)},
                    {.key = HL_A_INDEX_VECTOR_DIM, .i = indices->shape->rank - 1},
                    {.key = HL_A_SLICE_SIZES, .ints = kept(r, g->sizes)},
                    {.key = HL_A_INDICES_ARE_SORTED, .i = jx_param_flag(r, "indices_are_sorted")}};
  return hl_b_op(r->b, HL_OP_GATHER, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 0, NULL);
}

// What stands where indices are out of bounds: as written, else nan, the lowest signed, the highest unsigned.
static HlInst *fill_value(Rule *r, HlDtype dtype) {
  const Value *v = jx_param(r, "fill_value");
  bool flag;
  if (!jx_value_is_none(v)) {
    if (v->kind == VALUE_INT && hl_is_integral(dtype))
      return hl_b_scalar_int(r->b, dtype, v->i);
    if (v->kind == VALUE_INT || v->kind == VALUE_FLOAT)
      return hl_b_scalar(r->b, dtype, v->f);
    if (jx_value_bool(v, &flag))
      return hl_b_scalar_int(r->b, dtype, flag);
    jx_refuse(r, "fill value '%.*s'", (int)v->text.n, v->text.at);
    return NULL;
  }
  if (hl_is_float(dtype) || hl_is_complex(dtype))
    return hl_b_scalar(r->b, dtype, NAN);
  return hl_is_signed(dtype) ? jx_lowest(r->b, dtype) : jx_highest(r->b, dtype);
}

// Whether each index vector is within bounds: pred of the batch dimensions.
static HlInst *in_bounds(Rule *r, const Gather *g, HlInst *indices) {
  int64_t upper[MAX_RANK];
  const int64_t last = indices->shape->rank - 1;
  for (int k = 0; k < g->start_map.n; k++) {
    const int64_t d = g->start_map.at[k];
    upper[k] = r->in[0]->shape->dim[d] - g->sizes.at[d];
  }
  HlInst *low = hl_b_compare(r->b, HL_WORD_direction_GE, indices, hl_b_like_int(r->b, indices, 0));
  HlInst *high = hl_b_compare(r->b, HL_WORD_direction_LE, indices,
                              along_last(r, indices, upper, g->start_map.n));
  HlInst *both = hl_b_binary(r->b, HL_OP_AND, low, high);
  return hl_b_reduce(r->b, HL_OP_AND, both, hl_b_scalar_int(r->b, HL_PRED, 1), (HlI64s){&last, 1});
}

static bool masked_gather(Rule *r, const Gather *g) {
  HlInst *indices = r->in[1];
  const bool wide = hl_dtype_info[indices->shape->dtype].bits > 32;
  indices = hl_b_convert(r->b, indices, wide ? HL_S64 : HL_S32);
  HlInst *mask = indices ? in_bounds(r, g, indices) : NULL,
         *out = mask ? plain_gather(r, g, indices) : NULL;
  if (!out)
    return false;
  const HlShape *s = out->shape;
  int64_t batch[MAX_RANK];
  int n = 0;
  for (int d = 0; d < s->rank && n < MAX_RANK; d++)
    if (hl_i64s_find(g->offset_dims, d) < 0)
      batch[n++] = d;
  if (n != mask->shape->rank)
    return jx_fail(r, "%d batch dimensions in the result, but %d in the indices", n,
                   mask->shape->rank);
  mask = hl_b_broadcast_in_dim(r->b, mask, s->rank, s->dim, (HlI64s){batch, n});
  HlInst *fill = fill_value(r, s->dtype);
  fill = fill && s->rank > 0 ? hl_b_broadcast(r->b, fill, s->rank, s->dim, (HlI64s){0}) : fill;
  return jx_give(r, hl_b_select(r->b, mask, out, fill));
}

static bool gather(Rule *r) {
  Gather g;
  if (!jx_want_at_least(r, 2) || !check_indices(r, r->in[1]) || !read_gather(r, &g))
    return false;
  const HlShape *indices = r->in[1]->shape;
  if (indices->dim[indices->rank - 1] != g.start_map.n)
    return jx_fail(r, "index vectors of length %lld, expected %d",
                   (long long)indices->dim[indices->rank - 1], g.start_map.n);
  if (read_mode(r, MODE_CLIP) == MODE_FILL_OR_DROP)
    return masked_gather(r, &g);
  return jx_give(r, plain_gather(r, &g, r->in[1]));  // the op itself clips
}

// --- Scatter --------------------------------------------------------------------------------------------------------

typedef struct Scatter {
  HlI64s window_dims, inserted, dims_map, operand_batching, indices_batching;
} Scatter;

static bool read_scatter(const Rule *r, Scatter *s) {
  if (!numbers(r, "update_window_dims", &s->window_dims) ||
      !numbers(r, "inserted_window_dims", &s->inserted) ||
      !numbers(r, "scatter_dims_to_operand_dims", &s->dims_map) ||
      !numbers(r, "operand_batching_dims", &s->operand_batching) ||
      !numbers(r, "scatter_indices_batching_dims", &s->indices_batching))
    return false;
  if (jx_is_key(r, 0))
    s->window_dims = append(r, s->window_dims, r->in[2]->shape->rank - 1);
  return jx_want_dims(r, "update_window_dims", s->window_dims, r->in[2]->shape->rank) &&
         jx_want_dims(r, "scatter_dims_to_operand_dims", s->dims_map, r->in[0]->shape->rank);
}

// Indices kept between 0 and the last place where an update fits.
static HlInst *clamp_indices(Rule *r, const Scatter *s) {
  const HlShape *operand = r->in[0]->shape, *updates = r->in[2]->shape;
  HlInst *indices = r->in[1];
  int64_t size[MAX_RANK], upper[MAX_RANK];
  int at = 0;
  for (int d = 0; d < operand->rank; d++) {
    const bool single =
        hl_i64s_find(s->inserted, d) >= 0 || hl_i64s_find(s->operand_batching, d) >= 0;
    if (!single && at >= s->window_dims.n) {
      jx_fail(r, "fewer window dimensions than the operand has");
      return NULL;
    }
    size[d] = single ? 1 : updates->dim[s->window_dims.at[at++]];
  }
  const HlDtype dtype = indices->shape->dtype;
  const int bits = hl_dtype_info[dtype].bits - (hl_is_signed(dtype) ? 1 : 0);
  for (int k = 0; k < s->dims_map.n; k++) {
    upper[k] = operand->dim[s->dims_map.at[k]] - size[s->dims_map.at[k]];
    if (bits < 63 && upper[k] > ((int64_t)1 << bits) - 1)
      upper[k] = ((int64_t)1 << bits) - 1;
  }
  HlInst *zero = hl_b_like_int(r->b, indices, 0);
  return hl_b_clamp(r->b, zero, indices, along_last(r, indices, upper, s->dims_map.n));
}

// What combines an old element with an update: the primitive's op, or the jaxpr of a plain scatter.
static HlComp *combiner(Rule *r, HlDtype dtype) {
  if (r->row->op != HL_OP_COUNT)
    return hl_b_scalar_comp(r->b, (HlOp)r->row->op, dtype);
  const Jaxpr *jaxpr = jx_value_jaxpr(r->lo->frame->jaxpr, jx_param(r, "update_jaxpr"));
  const HlShape *scalar = hl_shape_scalar(r->lo->m->shapes, dtype), *shapes[] = {scalar, scalar};
  if (jaxpr && jaxpr->n_consts == 0)
    return jx_lower_comp(r->lo, jaxpr, "region", r->lo->path, 2, shapes);
  HlBuild nested = hl_b_nested(r->b, "replace");
  hl_b_parameter(&nested, scalar, NULL);
  hl_set_root(nested.comp, hl_b_parameter(&nested, scalar, NULL));
  return nested.comp;
}

static bool scatter(Rule *r) {
  Scatter s;
  if (!jx_want_at_least(r, 3) || !check_indices(r, r->in[1]) || !read_scatter(r, &s))
    return false;
  const HlShape *shape = r->in[1]->shape;
  if (shape->dim[shape->rank - 1] != s.dims_map.n)
    return jx_fail(r, "index vectors of length %lld, expected %d",
                   (long long)shape->dim[shape->rank - 1], s.dims_map.n);
  HlInst *indices = read_mode(r, MODE_FILL_OR_DROP) == MODE_CLIP ? clamp_indices(r, &s) : r->in[1];
  HlComp *comp = indices ? combiner(r, r->in[0]->shape->dtype) : NULL;
  if (!comp)
    return false;
  HlInst *operands[] = {r->in[0], indices, r->in[2]};
  HlAttr attrs[] = {
      {.key = HL_A_UPDATE_WINDOW_DIMS, .ints = kept(r, s.window_dims)},
      {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = kept(r, s.inserted)},
      {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, .ints = kept(r, s.dims_map)},
      {.key = HL_A_INPUT_BATCHING_DIMS, .ints = kept(r, s.operand_batching)},
      {.key = HL_A_SCATTER_INDICES_BATCHING_DIMS, .ints = kept(r, s.indices_batching)},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = indices->shape->rank - 1},
      {.key = HL_A_INDICES_ARE_SORTED, .i = jx_param_flag(r, "indices_are_sorted")},
      {.key = HL_A_UNIQUE_INDICES, .i = jx_param_flag(r, "unique_indices")}};
  return jx_give(
      r, hl_b_op(r->b, HL_OP_SCATTER, NULL, 3, operands, HL_COUNT_OF(attrs), attrs, 1, &comp));
}

const Row jx_gather_rows[] = {{"gather", gather, 0, NULL},
                              {"scatter", scatter, HL_OP_COUNT, NULL},
                              {"scatter-add", scatter, HL_OP_ADD, NULL},
                              {"scatter-sub", scatter, HL_OP_SUBTRACT, NULL},
                              {"scatter-mul", scatter, HL_OP_MULTIPLY, NULL},
                              {"scatter-min", scatter, HL_OP_MINIMUM, NULL},
                              {"scatter-max", scatter, HL_OP_MAXIMUM, NULL},
                              {"scatter_add", scatter, HL_OP_ADD, NULL},
                              {"scatter_sub", scatter, HL_OP_SUBTRACT, NULL},
                              {"scatter_mul", scatter, HL_OP_MULTIPLY, NULL},
                              {"scatter_min", scatter, HL_OP_MINIMUM, NULL},
                              {"scatter_max", scatter, HL_OP_MAXIMUM, NULL},
                              {NULL, NULL, 0, NULL}};
