// opt/expand/topk_splitter.c: the k largest of a very long vector: those of its parts, and of them the k
// largest.
//
//   t = TopK(x [4096]), k=4  =>  u = TopK(reshape(x) [4,1024]): values and places, [4,4] each
//     (parts of 1024)              s = sort(values, places + part * 1024), [16] each
//                                  t = (slice(s#0), slice(s#1))
#include "hilo/custom_calls.h"
#include "opt/ask/dots.h"

static bool is_long_topk(const HlInst *call, int64_t limit, int64_t *k) {
  if (call->n_operands != 1 || call->n_calls != 1 || !all_static(call) ||
      !hl_is_call(call, HL_CALL_TOPK) || call->shape->dtype != HL_TUPLE || call->shape->rank != 2 ||
      hl_called(call, 0)->n_params != 4)
    return false;
  const HlShape *x = call->operands[0]->shape;
  *k = call->shape->element[0]->dim[call->shape->element[0]->rank - 1];
  return limit > 0 && x->rank == 1 && x->dim[0] > limit && x->dim[0] % limit == 0 && *k <= limit;
}

// The k largest of each row.
static HlInst *topk_of_rows(HlPass *p, HlBuild *b, const HlInst *call, HlInst *rows, int64_t k) {
  const int64_t dim[] = {rows->shape->dim[0], k};
  const HlShape *parts[] = {hl_shape_array(p->m->shapes, rows->shape->dtype, 2, dim),
                            hl_shape_array(p->m->shapes, HL_S32, 2, dim)};
  HlInst *copy = hl_inst_copy(b->comp, call, hl_shape_tuple(p->m->shapes, 2, parts), 1, &rows);
  hl_remove_attr(copy, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  return copy;
}

static HlInst *split(HlPass *p, HlBuild *b, HlInst *call) {
  int64_t limit = hl_pass_int(p, "split_threshold"), k;
  if (!is_long_topk(call, limit, &k))
    return NULL;
  const int64_t n = call->operands[0]->shape->dim[0] / limit, flat = n * k;
  const int64_t rows[] = {n, limit}, best[] = {n, k};
  HlInst *top = topk_of_rows(p, b, call, hl_b_reshape(b, call->operands[0], 2, rows), k);
  HlInst *part = hl_b_iota(b, HL_S32, 2, best, 0);
  HlInst *start = hl_b_binary(b, HL_OP_MULTIPLY, part, hl_b_like_int(b, part, limit));
  HlInst *place = hl_b_binary(b, HL_OP_ADD, hl_b_element(b, top, 1), start);
  HlInst *both[] = {hl_b_reshape(b, hl_b_element(b, top, 0), 1, &flat),
                    hl_b_reshape(b, place, 1, &flat)};
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = 0}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlComp *before = hl_called(call, 0);
  HlInst *sort = hl_b_op(b, HL_OP_SORT, NULL, 2, both, 2, attrs, 1, &before);
  HlInst *out[2];
  for (int j = 0; j < 2; j++)
    out[j] = sort ? hl_b_slice_dim(b, hl_b_element(b, sort, j), 0, 0, k) : NULL;
  return hl_b_tuple(b, 2, out);
}

const HlRule topk_splitter_rules[] = {
    {HL_OP_CUSTOM_CALL, split, "topk-splitter", "TopK(x) => slice(sort(TopK(reshape(x))))",
     "x a vector longer than split_threshold, and a multiple of it"},
    {0},
};
