// opt/gpu/sort_rewriter.c
//
// sort-rewriter: large sorts of numbers in their natural order become calls of CUB's radix sort, of keys alone or of
// keys and one array that follows them. The last element of the result is a work space.
//
//   s = f32[65536] sort(x), to_apply=less      =>  t = (f32[65536], u8[...]) custom-call(x),
//                                                      custom_call_target="__cub$DeviceRadixSort"
//                                                  s = get-tuple-element(t), index=0
//
// Radix sort tells -0 from 0 and orders NaNs by their bits, so floats are sorted by it only where the
// comparison is a total order.

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

// What a comparison compares: the elements of one operand, in one direction.
typedef struct Order {
  int operand;
  bool descending;
} Order;

static bool is_total(const HlInst *compare) {
  HlDtype dtype = compare->operands[0]->shape->dtype;
  return !hl_is_float(dtype) ||
         hl_attr_int(compare, HL_A_COMPARISON_TYPE) == HL_WORD_comparison_type_TOTALORDER;
}

// False: it is no comparison of the two elements of one operand.
static bool read_order(const HlInst *sort, Order *order) {
  const HlInst *root = hl_to_apply(sort)->root;
  if (root->op != HL_OP_COMPARE || root->operands[0]->op != HL_OP_PARAMETER ||
      root->operands[1]->op != HL_OP_PARAMETER || !is_total(root))
    return false;
  int64_t x = hl_attr_int(root->operands[0], HL_A_PARAMETER_NUMBER);
  int64_t y = hl_attr_int(root->operands[1], HL_A_PARAMETER_NUMBER);
  int64_t way = hl_attr_int(root, HL_A_DIRECTION);
  if (x / 2 != y / 2 || x == y || (way != HL_WORD_direction_LT && way != HL_WORD_direction_GT))
    return false;
  *order = (Order){(int)(x / 2), (way == HL_WORD_direction_GT) == (x < y)};
  return true;
}

// The sort by words of up to 64 bits; a sort that must be stable moves no two equal keys.
static bool is_for_library(HlPass *p, const HlInst *sort, const Order *order) {
  const HlShape *shape = sort->operands[0]->shape;
  if (sort->n_operands > 2 || !all_static(sort) || hl_dim(sort) != shape->rank - 1 ||
      hl_shape_elements(shape) < hl_pass_int(p, "min_elements"))
    return false;
  for (uint32_t k = 0; k < sort->n_operands; k++) {
    HlDtype dtype = sort->operands[k]->shape->dtype;
    bool is_number = hl_is_float(dtype) || (hl_is_integral(dtype));
    int bytes = hl_dtype_bytes(dtype);
    if (!is_number || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8))
      return false;
  }
  HlDtype key = sort->operands[order->operand]->shape->dtype;
  return !hl_is_float(key) || key == HL_F16 || key == HL_BF16 || key == HL_F32 || key == HL_F64;
}

static HlInst *sort_by_library(HlPass *p, HlBuild *b, HlInst *sort) {
  Order order;
  if (!read_order(sort, &order) || !is_for_library(p, sort, &order))
    return NULL;
  int n = (int)sort->n_operands, first = order.operand;
  HlInst *operands[] = {sort->operands[first], sort->operands[n - 1 - first]};
  const int64_t nothing[] = {0};
  const HlShape *shapes[3] = {operands[0]->shape, operands[n - 1]->shape};
  shapes[n] = hl_shape_array(p->m->shapes, HL_U8, 1, nothing);
  HlInst *call =
      hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(p->m->shapes, n + 1, shapes),
                  hl_fresh_name(p->m, "cub-sort"), n, operands);
  hl_set_call_target(call, HL_CALL_CUB_SORT);
  hl_set_sort_config(p->arena, call, &(HlSortConfig){.descending = order.descending});
  if (n == 1 && hl_shape_is_array(sort->shape))
    return hl_b_element(b, call, 0);
  HlInst *element[2];
  for (int k = 0; k < n; k++)
    element[k] = hl_b_element(b, call, first == 0 ? k : n - 1 - k);
  return hl_b_tuple(b, n, element);
}

const HlRule sort_rewriter_rules[] = {
    {HL_OP_SORT, sort_by_library, "sort-rewriter", "sort(x) => cub(x)[0]",
     "many numbers, compared by < or > in a total order, with at most one array that follows"},
    {0},
};
