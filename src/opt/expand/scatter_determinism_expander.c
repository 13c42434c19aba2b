// opt/expand/scatter_determinism_expander.c
//
// scatter_determinism_expander: scatters whose result would depend on the order of updates, as
// scatters in which every place is written at most once.
//
//   s = scatter(x, i, u)   =>   k, u' = sort(i, u), equal places side by side, in their old order
//                               log2(n) times: u'[j] = f(u'[j - w], u'[j]) where k[j - w] = k[j]
//                               k' = k where it is the last of its place, else outside
//                               s = scatter(x, k', u'), unique_indices=true
//
// Updates are single elements of one array, and the combiner is a single operation or keeps the
// update. Index vectors are taken as places in the array laid flat.

#include "opt/ask/gathers.h"
#include "opt/passes.h"

typedef struct Scatter {
  HlPass *p;
  HlBuild *b;
  HlInst *inst;
  HlComp *combiner;
  int64_t n, places;  // updates, elements of the array
} Scatter;

static bool is_wanted(const HlInst *scatter, int64_t rows) {
  const HlComp *combiner = hl_to_apply(scatter);
  const HlShape *indices = scatter_indices(scatter)->shape;
  const bool keeps_update = combiner->n_params == 2 && combiner->root == combiner->params[1];
  return scatter_n(scatter) == 1 && all_static(scatter) && rows > 1 &&
         !hl_attr_int(scatter, HL_A_UNIQUE_INDICES) && !scatter_is_associative(scatter) &&
         (keeps_update || hl_reducer(combiner) != HL_OP_COUNT) &&
         hl_attr_ints(scatter, HL_A_UPDATE_WINDOW_DIMS).n == 0 &&
         hl_attr_ints(scatter, HL_A_INPUT_BATCHING_DIMS).n == 0 &&
         (indices->dtype == HL_S32 || indices->dtype == HL_S64 || indices->dtype == HL_U32) &&
         hl_shape_elements(scatter->operands[0]->shape) < INT32_MAX - rows &&
         hl_shape_elements(scatter->operands[0]->shape) > 0;
}

static HlInst *full(const Scatter *s, int64_t value) {
  return hl_b_full(s->b, HL_S32, 1, &s->n, (double)value);
}

// Part k of all index vectors, as [n].
static HlInst *index_part(const Scatter *s, HlInst *indices, int k) {
  HlInst *part = indices->shape->rank > 1 ? hl_b_slice_dim(s->b, indices, 1, k, k + 1) : indices;
  return hl_b_reshape(s->b, part, 1, &s->n);
}

// The place of each update in the array laid flat; one behind its end where it lies outside.
static HlInst *flat_places(const Scatter *s) {
  HlI64s map = hl_attr_ints(s->inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS);
  const HlShape *shape = s->inst->operands[0]->shape;
  int64_t *stride = HL_ARRAY(s->p->arena, int64_t, shape->rank + 1);
  for (int64_t d = shape->rank - 1, n = 1; d >= 0; n *= shape->dim[d--])
    stride[d] = n;
  HlInst *indices = gather_flat_indices(s->p, s->b, scatter_indices(s->inst),
                                        hl_attr_int(s->inst, HL_A_INDEX_VECTOR_DIM));
  HlInst *place = full(s, 0), *inside = NULL;
  for (int k = 0; indices && k < map.n; k++) {
    HlInst *part = index_part(s, indices, k);
    if (!part)
      return NULL;
    const int64_t size = shape->dim[map.at[k]];
    HlInst *least = hl_b_like_int(s->b, part, 0), *most = hl_b_like_int(s->b, part, size - 1);
    HlInst *clamped = hl_b_clamp(s->b, least, part, most);
    HlInst *fits = hl_b_compare(s->b, HL_WORD_direction_EQ, clamped, part);
    inside = inside ? hl_b_binary(s->b, HL_OP_AND, inside, fits) : fits;
    HlInst *step = hl_b_binary(s->b, HL_OP_MULTIPLY, hl_b_convert(s->b, clamped, HL_S32),
                               full(s, stride[map.at[k]]));
    place = hl_b_binary(s->b, HL_OP_ADD, place, step);
  }
  return inside ? hl_b_select(s->b, inside, place, full(s, s->places)) : NULL;
}

// (place, place, update, update) -> first place < second place
static HlComp *comparator(const Scatter *s) {
  HlBuild in = hl_b_nested(s->b, "compare_places");
  in.metadata = NULL;
  HlShapes *shapes = s->p->m->shapes;
  const HlShape *place = hl_shape_scalar(shapes, HL_S32);
  const HlShape *update = hl_shape_scalar(shapes, s->inst->operands[0]->shape->dtype);
  HlInst *x = hl_b_parameter(&in, place, "place.lhs"), *y = hl_b_parameter(&in, place, "place.rhs");
  hl_b_parameter(&in, update, "update.lhs");
  hl_b_parameter(&in, update, "update.rhs");
  hl_set_root(in.comp, hl_b_compare(&in, HL_WORD_direction_LT, x, y));
  return in.comp;
}

// Moved back by w, with a value in front.
static HlInst *delayed(const Scatter *s, HlInst *x, int64_t w, HlInst *value) {
  const int64_t high = -w;
  return hl_b_pad(s->b, x, value, &w, &high, NULL);
}

static HlInst *combined(const Scatter *s, HlInst *before, HlInst *update) {
  HlInst *operands[] = {before, update};
  HlAttr attr = {.key = HL_A_DIMENSIONS,
                 .ints = hl_i64s_copy(s->p->m->arena, (HlI64s){(int64_t[]){0}, 1})};
  HlComp *combiner = s->combiner;
  return hl_b_op(s->b, HL_OP_MAP, NULL, 2, operands, 1, &attr, 1, &combiner);
}

// Each update with all those of its place before it.
static HlInst *fold_places(const Scatter *s, HlInst *place, HlInst *update) {
  HlInst *none = hl_b_scalar_int(s->b, HL_S32, -1);
  HlInst *zero = hl_b_scalar(s->b, s->inst->operands[0]->shape->dtype, 0);
  for (int64_t w = 1; w < s->n && place && update; w *= 2) {
    HlInst *same = hl_b_compare(s->b, HL_WORD_direction_EQ, delayed(s, place, w, none), place);
    HlInst *both = combined(s, delayed(s, update, w, zero), update);
    update = hl_b_select(s->b, same, both, update);
  }
  return update;
}

// The place where it is the last one of its like; behind the end elsewhere, each at its own.
static HlInst *last_places(const Scatter *s, HlInst *place) {
  const int64_t low = -1, high = 1;
  HlInst *next = hl_b_pad(s->b, place, hl_b_scalar_int(s->b, HL_S32, -1), &low, &high, NULL);
  HlInst *is_last = hl_b_compare(s->b, HL_WORD_direction_NE, place, next);
  HlInst *outside =
      hl_b_binary(s->b, HL_OP_ADD, full(s, s->places), hl_b_iota(s->b, HL_S32, 1, &s->n, 0));
  HlInst *fits = hl_b_compare(s->b, HL_WORD_direction_LT, place, full(s, s->places));
  return hl_b_select(s->b, hl_b_binary(s->b, HL_OP_AND, is_last, fits), place, outside);
}

static HlInst *unique_scatter(const Scatter *s, HlInst *place, HlInst *update) {
  HlArena *arena = s->p->m->arena;
  const HlShape *shape = s->inst->operands[0]->shape;
  HlI64s zero = hl_i64s_copy(arena, (HlI64s){(int64_t[]){0}, 1});
  HlInst *operands[] = {hl_b_reshape(s->b, s->inst->operands[0], 1, &s->places), place, update};
  HlAttr attrs[] = {
      {.key = HL_A_UPDATE_WINDOW_DIMS, .ints = {0}},
      {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = zero},
      {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, .ints = zero},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = 1},
      {.key = HL_A_UNIQUE_INDICES, .i = 1},
  };
  HlComp *combiner = s->combiner;
  HlInst *flat =
      hl_b_op(s->b, HL_OP_SCATTER, NULL, 3, operands, HL_COUNT_OF(attrs), attrs, 1, &combiner);
  return hl_b_reshape(s->b, flat, shape->rank, shape->dim);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *scatter) {
  const int64_t n = hl_shape_elements(scatter_update(scatter, 0)->shape);
  if (!is_wanted(scatter, n))
    return NULL;
  Scatter s = {
      p, b, scatter, hl_to_apply(scatter), n, hl_shape_elements(scatter->operands[0]->shape)};
  HlInst *operands[] = {flat_places(&s), hl_b_reshape(b, scatter_update(scatter, 0), 1, &n)};
  HlComp *compare = comparator(&s);
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = 0}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sorted =
      hl_b_op(b, HL_OP_SORT, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 1, &compare);
  HlInst *place = hl_b_element(b, sorted, 0), *update = hl_b_element(b, sorted, 1);
  update = fold_places(&s, place, update);
  return update ? unique_scatter(&s, last_places(&s, place), update) : NULL;
}

const HlRule scatter_determinism_rules[] = {
    {HL_OP_SCATTER, rewrite, "scatter_determinism_expander",
     "scatter(x, i, u) => scatter of updates sorted and folded by place, with unique indices",
     "one array, single elements; the order of updates shows"},
    {0},
};
