// cost/sizes.c: how many elements and bytes shapes hold.

#include "cost/cost.h"

enum { MAX_PARTS = 1 << 20 };  // of one shape: tuples that share elements may have far more

// Sums over the arrays of a shape; stops when the budget of parts is used up.
static double sum_leaves(const HlShape *shape, bool bytes, int *budget) {
  if (--*budget < 0)
    return 0;
  if (hl_is_array_dtype(shape->dtype))
    return (double)(bytes ? hl_shape_buffer_bytes(shape, 8) : hl_shape_elements(shape));
  double sum = 0;
  for (int k = 0; k < shape->rank && *budget >= 0; k++)
    sum += sum_leaves(shape->element[k], bytes, budget);
  return sum;
}

double cost_elements(const HlShape *shape) {
  int budget = MAX_PARTS;
  return sum_leaves(shape, false, &budget);
}

double cost_bytes(const HlShape *shape) {
  int budget = MAX_PARTS;
  return sum_leaves(shape, true, &budget);
}

int64_t hl_leaf_bytes(const HlShape *shape) {
  double bytes = cost_bytes(shape);
  return bytes >= 9.2e18 ? INT64_MAX : (int64_t)bytes;
}

double cost_dim(const HlShape *shape, int64_t d) {
  bool there = hl_shape_is_array(shape) && d >= 0 && d < shape->rank && shape->dim[d] >= 0;
  return there ? (double)shape->dim[d] : 1;
}

const HlShape *cost_operand(const HlInst *inst, int k) {
  return k < (int)inst->n_operands ? inst->operands[k]->shape : NULL;
}

void cost_add(HlCost *to, const HlCost *what, double times) {
  to->flops += times * what->flops;
  to->transcendentals += times * what->transcendentals;
  to->bytes_read += times * what->bytes_read;
  to->bytes_written += times * what->bytes_written;
  to->collective_bytes += times * what->collective_bytes;
}
