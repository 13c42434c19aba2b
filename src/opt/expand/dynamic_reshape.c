// opt/expand/dynamic_reshape.c: reshapes of arrays of dynamic size as operations on static arrays.
//
// Where the dynamic dimension is the outermost one of those that are merged or split, elements keep
// their places in the buffer: a reshape of the data does. Else each element of the result looks up
// its own: its place among the result's elements is the place among the operand's.
//
//   r = f32[<=12] reshape(f32[3,<=4] x), n = size of x   =>   j = iota
//                                                             r = data[j / n, j % n]

#include "opt/expand/dynamic_dims.h"

// Dimensions of operand and result that hold the same elements: a group of the one, a group of the
// other.
typedef struct Group {
  int from, from_end, to, to_end;
} Group;

typedef struct Reshape {
  HlPass *p;
  HlBuild *b;
  HlInst *inst;
  DynValue x;
  const HlShape *from, *to;
  HlInst **size;  // of the result
  Group *group;
  int n;
} Reshape;

static void find_groups(Reshape *r) {
  r->group = HL_ARRAY(r->p->arena, Group, r->from->rank + r->to->rank + 1);
  int a = 0, b = 0;
  while (a < r->from->rank || b < r->to->rank) {
    Group g = {.from = a, .to = b};
    int64_t x = 1, y = 1;
    do {
      if (b >= r->to->rank || (a < r->from->rank && x <= y))
        x *= r->from->dim[a++];
      else
        y *= r->to->dim[b++];
    } while ((x != y || a == 0 || b == g.to) && (a < r->from->rank || b < r->to->rank));
    g.from_end = a;
    g.to_end = b;
    r->group[r->n++] = g;
  }
}

// The number of elements in dimensions of the operand.
static HlInst *count(const Reshape *r, int first, int end) {
  int64_t fixed = 1;
  HlInst *n = NULL;
  for (int d = first; d < end; d++) {
    HlInst *size = r->x.size[d];
    if (!size)
      fixed *= r->from->dim[d];
    else
      n = n ? hl_b_binary(r->b, HL_OP_MULTIPLY, n, size) : size;
  }
  return dyn_times(r->b, n, fixed);
}

// The first dynamic dimension of each group takes what the other ones leave.
static bool find_sizes(Reshape *r) {
  for (int k = 0; k < r->n; k++) {
    const Group g = r->group[k];
    HlInst *n = count(r, g.from, g.from_end);
    int64_t rest = 1;
    int free = -1;
    for (int d = g.to; d < g.to_end; d++)
      if (dyn_is_dim(r->to, d) && free < 0)
        free = d;
      else
        rest *= r->to->dim[d];
    if ((n && free < 0) || rest == 0)
      return false;
    if (n)
      r->size[free] = dyn_over(r->b, n, rest);
  }
  return true;
}

static bool given_sizes(Reshape *r) {
  if (r->inst->n_operands != (uint32_t)r->to->rank + 1)
    return false;
  for (int d = 0; d < r->to->rank; d++)
    if (dyn_is_dim(r->to, d)) {
      DynValue size;
      if (!dyn_read(r->p, r->inst->operands[d + 1], &size))
        return false;
      r->size[d] = hl_b_convert(r->b, size.data, HL_S32);
    }
  return true;
}

// All dimensions but the outermost of more than one element are as large as their bounds.
static bool keeps_places(HlInst *const *size, const int64_t *dim, int first, int end) {
  bool outer = true;
  for (int d = first; d < end; d++) {
    if (size[d] && !outer)
      return false;
    outer = outer && dim[d] == 1 && !size[d];
  }
  return true;
}

static bool all_keep_places(const Reshape *r) {
  for (int k = 0; k < r->n; k++) {
    const Group g = r->group[k];
    if (!keeps_places(r->x.size, r->from->dim, g.from, g.from_end) ||
        !keeps_places(r->size, r->to->dim, g.to, g.to_end))
      return false;
  }
  return true;
}

static HlInst *everywhere(const Reshape *r, HlInst *scalar) {
  return hl_b_broadcast(r->b, scalar, r->to->rank, r->to->dim, (HlI64s){NULL, 0});
}

static HlInst *op2(const Reshape *r, HlOp op, HlInst *x, HlInst *y) {
  return x && y ? hl_b_binary(r->b, op, x, y) : NULL;
}

// Which element of the result this is, counted without what lies beyond the sizes.
static HlInst *place_in_result(const Reshape *r) {
  const int last = r->to->rank - 1;
  if (last < 0)
    return dyn_number(r->b, 0);
  HlInst *place = hl_b_iota(r->b, HL_S32, r->to->rank, r->to->dim, last), *stride = NULL;
  for (int d = last - 1; d >= 0; d--) {
    HlInst *size = r->size[d + 1] ? r->size[d + 1] : dyn_number(r->b, r->to->dim[d + 1]);
    stride = stride ? op2(r, HL_OP_MULTIPLY, stride, size) : size;
    HlInst *i = hl_b_iota(r->b, HL_S32, r->to->rank, r->to->dim, d);
    place = op2(r, HL_OP_ADD, place, op2(r, HL_OP_MULTIPLY, i, everywhere(r, stride)));
  }
  return place;
}

// Where that element stands in the operand's buffer.
static HlInst *place_in_buffer(const Reshape *r) {
  HlInst *left = place_in_result(r), *place = NULL;
  int64_t stride = 1;
  for (int d = r->from->rank - 1; d >= 0; d--) {
    HlInst *i = left;
    if (d > 0) {
      HlInst *size = everywhere(r, dyn_max(r->b, dyn_size(r->b, r->x, d), 1));
      i = op2(r, HL_OP_REMAINDER, left, size);
      left = op2(r, HL_OP_DIVIDE, left, size);
    }
    if (stride != 1)
      i = op2(r, HL_OP_MULTIPLY, i, everywhere(r, dyn_number(r->b, stride)));
    place = place ? op2(r, HL_OP_ADD, place, i) : i;
    stride *= r->from->dim[d];
  }
  return place ? place : everywhere(r, dyn_number(r->b, 0));
}

static HlInst *look_up(const Reshape *r) {
  HlArena *arena = hl_b_module(r->b)->arena;
  static const int64_t zero[] = {0}, one[] = {1};
  const int64_t n = hl_shape_elements(r->from);
  if (n > INT32_MAX || hl_shape_elements(r->to) > INT32_MAX)
    return NULL;
  HlInst *operands[] = {hl_b_reshape(r->b, r->x.data, 1, &n), place_in_buffer(r)};
  HlAttr attrs[] = {
      {.key = HL_A_OFFSET_DIMS, .ints = {0}},
      {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = hl_i64s_copy(arena, (HlI64s){zero, 1})},
      {.key = HL_A_START_INDEX_MAP, .ints = hl_i64s_copy(arena, (HlI64s){zero, 1})},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = r->to->rank},
      {.key = HL_A_SLICE_SIZES, .ints = hl_i64s_copy(arena, (HlI64s){one, 1})},
  };
  return hl_b_op(r->b, HL_OP_GATHER, NULL, 2, operands, HL_COUNT_OF(attrs), attrs, 0, NULL);
}

HlInst *dyn_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  Reshape r = {.p = p, .b = b, .inst = inst};
  if (!dyn_read(p, inst->operands[0], &r.x))
    return NULL;
  r.from = r.x.data->shape;
  r.to = inst->shape;
  r.size = HL_ARRAY(p->arena, HlInst *, r.to->rank + 1);
  const bool same_bounds = hl_shape_elements(r.from) == hl_shape_elements(r.to);
  if (inst->op == HL_OP_RESHAPE && !same_bounds)
    return NULL;
  if (same_bounds)
    find_groups(&r);
  if (inst->op == HL_OP_RESHAPE ? !find_sizes(&r) : !given_sizes(&r))
    return NULL;
  HlInst *data = same_bounds && all_keep_places(&r)
                     ? hl_b_reshape(b, r.x.data, r.to->rank, r.to->dim)
                     : look_up(&r);
  return dyn_write(p, b, (DynValue){data, r.size}, inst->shape);
}
