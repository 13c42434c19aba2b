// opt/expand/topk_rewriter.c: a descending sort of which only the first k are taken becomes a call of
// TopK.
//
//   s = (f32[9], s32[9]) sort(x, iota), to_apply=greater     t = (f32[4], s32[4]) custom-call(x),
//   v = slice(s#0), slice={[0:4]}                       =>         custom_call_target="TopK"
//   i = slice(s#1), slice={[0:4]}                            v = t#0, i = t#1
//
// A sort of values alone does as well. The call takes a vector or the rows of a matrix: x is
// transposed and reshaped before it where that is not so, and what it returns likewise after it.
#include "hilo/custom_calls.h"
#include "opt/ask/dots.h"

// --- Comparators ---------------------------------------------------------------------------------

static bool is_int_constant(const HlInst *inst, int64_t value) {
  while (inst->op == HL_OP_CONVERT)
    inst = inst->operands[0];
  return hl_is_constant(inst) && hl_shape_is_scalar(inst->shape) && hl_is_all_int(inst, value);
}

static bool is_bits_of(const HlInst *inst, HlDtype as, const HlInst *value) {
  return inst->op == HL_OP_BITCAST_CONVERT && inst->shape->dtype == as &&
         inst->operands[0] == value;
}

// The bits of a negative number, turned so that they order as the number does: max ^ bits, or max -
// bits.
static bool is_turned(const HlInst *inst, const HlInst *bits, const HlInst *value) {
  if (inst->op == HL_OP_XOR)
    return (is_int_constant(inst->operands[0], INT32_MAX) && inst->operands[1] == bits) ||
           (is_int_constant(inst->operands[1], INT32_MAX) && inst->operands[0] == bits);
  if (inst->op != HL_OP_BITCAST_CONVERT)
    return false;
  const HlInst *minus = inst->operands[0];
  return minus->op == HL_OP_SUBTRACT && is_int_constant(minus->operands[0], INT32_MAX) &&
         is_bits_of(minus->operands[1], HL_U32, value);
}

// A number that orders as parameter k does, nans included: the parameter, or its bits.
static bool orders_as_parameter(const HlInst *inst, int k) {
  if (inst->op == HL_OP_PARAMETER) {
    HlDtype dtype = inst->shape->dtype;
    return hl_parameter_number(inst) == k &&
           (dtype == HL_F32 || dtype == HL_BF16 || dtype == HL_S32 || dtype == HL_U32);
  }
  if (inst->op != HL_OP_SELECT)
    return false;
  const HlInst *negative = inst->operands[0], *bits = inst->operands[2];
  if (bits->op != HL_OP_BITCAST_CONVERT || bits->shape->dtype != HL_S32)
    return false;
  const HlInst *value = bits->operands[0], *param = value;
  if (value->op == HL_OP_CONVERT && value->operands[0]->shape->dtype == HL_BF16)
    param = value->operands[0];
  return value->shape->dtype == HL_F32 && param->op == HL_OP_PARAMETER &&
         hl_parameter_number(param) == k && negative->op == HL_OP_COMPARE &&
         hl_attr_int(negative, HL_A_DIRECTION) == HL_WORD_direction_LT &&
         negative->operands[0] == bits && is_int_constant(negative->operands[1], 0) &&
         is_turned(inst->operands[1], bits, value);
}

static bool is_greater_than(const HlComp *comp) {
  const HlInst *root = comp->root;
  return root->op == HL_OP_COMPARE && hl_attr_int(root, HL_A_DIRECTION) == HL_WORD_direction_GT &&
         orders_as_parameter(root->operands[0], 0) && orders_as_parameter(root->operands[1], 1);
}

// --- Sorts of which the first k are taken --------------------------------------------------------

static bool counts_along(const HlInst *iota, int64_t dim) {
  if (iota->op == HL_OP_IOTA)
    return iota->shape->dtype == HL_S32 &&
           (iota->shape->rank == 1 || hl_attr_int(iota, HL_A_IOTA_DIMENSION) == dim);
  if (iota->op != HL_OP_BROADCAST || iota->shape->dtype != HL_S32)
    return false;
  const HlInst *line = iota->operands[0];
  return line->op == HL_OP_IOTA && line->shape->rank == 1 && hl_dims(iota).at[0] == dim;
}

static bool is_sort(const HlInst *sort, HlDtype only) {
  if (sort->op != HL_OP_SORT || sort->n_operands > 2 || hl_has_control(sort) || !all_static(sort))
    return false;
  const HlShape *x = sort->operands[0]->shape;
  if (x->rank < 1 || (x->dtype != HL_F32 && x->dtype != only))
    return false;
  return (sort->n_operands == 1 || counts_along(sort->operands[1], hl_dim(sort))) &&
         is_greater_than(hl_to_apply(sort));
}

// How many a slice takes from the front of dimension `dim`, and all of every other; -1: otherwise.
static int64_t slice_length(const HlInst *slice, int64_t dim) {
  if (slice->op != HL_OP_SLICE)
    return -1;
  HlI64s triples = hl_attr_ints(slice, HL_A_SLICE);
  const HlShape *x = slice->operands[0]->shape;
  for (int d = 0; d < x->rank; d++)
    if (triples.at[3 * d] != 0 || triples.at[3 * d + 2] != 1 ||
        (d != dim && triples.at[3 * d + 1] != x->dim[d]))
      return -1;
  return triples.at[3 * dim + 1];
}

static const HlInst *only_user(const HlInst *inst) {
  return hl_one_user(inst) && inst->first_use == inst->last_use ? inst->first_use->user : NULL;
}

// The slice behind a use of the sort; `*k` which result it takes.
static const HlInst *slice_of_use(const HlInst *sort, const HlInst *user, int64_t *k) {
  *k = 0;
  if (sort->shape->dtype != HL_TUPLE)
    return user;
  if (user->op != HL_OP_GET_TUPLE_ELEMENT)
    return NULL;
  *k = hl_attr_int(user, HL_A_INDEX);
  return only_user(user);
}

// The k that all users agree on; -1: they do not, or take something else.
static int64_t find_k(const HlInst *sort) {
  int64_t k = -1;
  if (sort->comp->root == sort)
    return -1;
  for (const HlUse *use = sort->first_use; use; use = use->next) {
    int64_t which;
    const HlInst *slice = slice_of_use(sort, use->user, &which);
    int64_t length = slice ? slice_length(slice, hl_dim(sort)) : -1;
    if (length < 0 || (k >= 0 && k != length))
      return -1;
    k = length;
  }
  return k;
}

// --- The call ------------------------------------------------------------------------------------

// Swaps the sorted dimension with the last one; its own inverse.
static HlI64s sorted_last(HlPass *p, const HlInst *sort) {
  int rank = sort->operands[0]->shape->rank;
  int64_t *order = HL_ARRAY(p->arena, int64_t, rank), d = hl_dim(sort);
  for (int k = 0; k < rank; k++)
    order[k] = k;
  order[d] = rank - 1;
  order[rank - 1] = d;
  return (HlI64s){order, rank};
}

// x as a vector or as rows.
static HlInst *as_rows(HlBuild *b, HlInst *x) {
  if (!x || x->shape->rank <= 2)
    return x;
  int64_t sizes[2] = {1, x->shape->dim[x->shape->rank - 1]};
  for (int d = 0; d < x->shape->rank - 1; d++)
    sizes[0] *= x->shape->dim[d];
  return hl_b_reshape(b, x, 2, sizes);
}

static HlInst *call_topk(HlPass *p, HlBuild *b, const HlInst *sort, int64_t k, HlI64s order) {
  HlModule *m = hl_b_module(b);
  HlInst *x = as_rows(b, hl_b_transpose(b, sort->operands[0], order));
  if (!x)
    return NULL;
  int rank = x->shape->rank;
  int64_t dim[2] = {rank == 1 ? k : x->shape->dim[0], k};
  const HlShape *parts[] = {hl_shape_array(m->shapes, x->shape->dtype, rank, dim),
                            hl_shape_array(m->shapes, HL_S32, rank, dim)};
  HlAttr target = {.key = HL_A_CUSTOM_CALL_TARGET,
                   .sym = hl_sym(m, hl_call_info[HL_CALL_TOPK].name)};
  HlComp *before = hl_to_apply(sort);
  HlInst *call = hl_b_op(b, HL_OP_CUSTOM_CALL, hl_shape_tuple(m->shapes, 2, parts), 1, &x, 1,
                         &target, 1, &before);
  if (call && hl_pass_since(p, HL_XLA_0_11))
    hl_set_text(call, HL_A_BACKEND_CONFIG,
                hl_attr_int(sort, HL_A_IS_STABLE) ? "{is_stable = true}" : "{is_stable = false}");
  return call;
}

// Result `which` of the call in the dimensions of `slice`.
static HlInst *taken_from(HlPass *p, HlBuild *b, HlInst *call, int64_t which, HlI64s order,
                          const HlInst *slice) {
  HlInst *part = hl_b_element(b, call, (int)which);
  HlI64s sizes = dims_mapped(p->arena, order, slice->shape->dim);
  part = part ? hl_b_reshape(b, part, sizes.n, sizes.at) : NULL;
  return part ? hl_b_transpose(b, part, order) : NULL;
}

// Met at the slice behind the sort's first use; the other slice follows in the same step.
static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *sort = slice->operands[0];
  if (sort->op == HL_OP_GET_TUPLE_ELEMENT)
    sort = sort->operands[0];
  int64_t which;
  if (!is_sort(sort, hl_pass_flag(p, "bf16") ? HL_BF16 : HL_F32) || !sort->first_use ||
      slice_of_use(sort, sort->first_use->user, &which) != slice)
    return NULL;
  int64_t k = find_k(sort);
  if (k < 0)
    return NULL;
  HlI64s order = sorted_last(p, sort);
  HlInst *call = call_topk(p, b, sort, k, order), *parts[2] = {NULL, NULL}, *own = NULL;
  for (HlUse *use = sort->first_use; use && call; use = use->next) {
    HlInst *taken = (HlInst *)slice_of_use(sort, use->user, &which);
    if (!parts[which])
      parts[which] = taken_from(p, b, call, which, order, taken);
    if (taken == slice)
      own = parts[which];
    else
      hl_also(p, taken, parts[which]);
  }
  return own;
}

const HlRule topk_rewriter_rules[] = {
    {HL_OP_SLICE, rewrite, "topk-rewriter", "slice(sort(x, iota), [0:k]) => custom-call(x) TopK",
     "descending; every use takes the first k along the sorted dimension and all of the others; "
     "f32"},
    {0},
};
