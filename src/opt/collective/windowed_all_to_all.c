// opt/collective/windowed_all_to_all.c
//
// windowed-einsum-handler, of all-to-alls beside products: in pieces, so that the exchange of one can
// overlap with the product of another.
//
//   dot(all-to-all(x), y)  =>  dot(all-to-all(x[:, 0:k]), y[0:k]) + dot(all-to-all(x[:, k:2k]), y[k:2k]) + ...
//   all-to-all(dot(x, y))  =>  all-to-all(dot(x[:, 0:k], y[0:k])) + all-to-all(dot(x[:, k:2k], y[k:2k])) + ...
//
// There are as many pieces as members of a group, along the summed dimension. Between the two there
// may be transposes, copies, and reshapes that leave the exchanged dimension alone: the all-to-all
// trades places with them. XLA does this by an experimental flag alone.

#include "opt/ask/collectives.h"
#include "opt/collective/windowed.h"
#include "opt/passes.h"

// --- What lies between ----------------------------------------------------------------------------

static bool keeps_elements(const HlInst *inst) {
  return (inst->op == HL_OP_TRANSPOSE || inst->op == HL_OP_RESHAPE || inst->op == HL_OP_COPY) &&
         hl_one_user(inst) && !hl_has_control(inst);
}

// Down from x through what keeps the elements; the ops, x first.
static HlInst **way_down(HlPass *p, HlInst *x, int *n, HlInst **end) {
  *n = 0;
  for (HlInst *at = x; keeps_elements(at); at = at->operands[0])
    ++*n;
  HlInst **way = HL_ARRAY(p->arena, HlInst *, *n + 1);
  for (int k = 0; k < *n; k++, x = x->operands[0])
    way[k] = x;
  *end = x;
  return way;
}

// The same dimension in another shape of as many elements: of the same size, behind as many; -1: none.
static int same_dim(const HlShape *from, int dim, const HlShape *to) {
  int64_t before = 1, passed = 1;
  for (int k = 0; k < dim; k++)
    before *= from->dim[k];
  for (int k = 0; k < to->rank; passed *= to->dim[k++])
    if (passed == before && to->dim[k] == from->dim[dim] && to->dim[k] > 1)
      return k;
  return -1;
}

// The result's dimension that an operand's becomes, and back.
static int dim_above(const HlInst *inst, int dim) {
  if (dim < 0 || inst->op == HL_OP_COPY)
    return dim;
  return inst->op == HL_OP_TRANSPOSE ? hl_i64s_find(hl_dims(inst), dim)
                                     : same_dim(inst->operands[0]->shape, dim, inst->shape);
}

static int dim_below(const HlInst *inst, int dim) {
  if (dim < 0 || inst->op == HL_OP_COPY)
    return dim;
  return inst->op == HL_OP_TRANSPOSE ? (int)hl_dims(inst).at[dim]
                                     : same_dim(inst->shape, dim, inst->operands[0]->shape);
}

static HlInst *way_up(HlInst **way, int n, HlInst *x) {
  for (int k = n - 1; x && k >= 0; k--)
    x = hl_inst_copy(x->comp, way[k], NULL, 1, &x);
  return x;
}

// --- Pieces ---------------------------------------------------------------------------------------

typedef struct Pieces {
  int64_t n, size;
  int lhs_dim, rhs_dim;  // of the dot, summed
} Pieces;

static bool find_pieces(HlPass *p, const HlInst *dot, const HlInst *exchange, Pieces *out) {
  const HlI64s lhs = hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS),
               rhs = hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS);
  if (exchange->op != HL_OP_ALL_TO_ALL || !coll_is_plain(exchange) ||
      !hl_has_attr(exchange, HL_A_DIMENSION) || !hl_has_attr(exchange, HL_A_REPLICA_GROUPS) ||
      dot->op != HL_OP_DOT || dot->n_operands != 2 || hl_has_control(dot) || lhs.n != 1 ||
      rhs.n != 1 || dot->shape->dtype == HL_PRED)
    return false;
  const int64_t summed = dot->operands[1]->shape->dim[rhs.at[0]];
  *out = (Pieces){
      .n = coll_groups(p, exchange).size, .lhs_dim = (int)lhs.at[0], .rhs_dim = (int)rhs.at[0]};
  if (out->n < 2 || summed == 0 || summed % out->n != 0)
    return false;
  out->size = summed / out->n;
  return true;
}

static HlInst *piece(HlBuild *b, HlInst *x, int dim, const Pieces *pieces, int64_t k) {
  return hl_b_slice_dim(b, x, dim, k * pieces->size, (k + 1) * pieces->size);
}

static HlInst *exchanged(HlPass *p, HlBuild *b, const HlInst *like, int dim, HlInst *x) {
  HlInst *made = x ? coll_copy(b, like, x->shape, 1, &x) : NULL;
  if (!made)
    return NULL;
  hl_set_int(made, HL_A_DIMENSION, dim);
  coll_fresh_channel(p, made);
  return made;
}

static HlInst *product(HlPass *p, const HlInst *dot, HlInst *lhs, HlInst *rhs, int64_t queue) {
  HlInst *operands[] = {lhs, rhs};
  HlInst *made = lhs && rhs ? hl_inst_copy(lhs->comp, dot, dot->shape, 2, operands) : NULL;
  if (made)
    windowed_set_queue(p, made, queue);
  return made;
}

// Sums up pieces in the order of their queues; a sum waits for the products it needs itself.
static HlInst *added(HlPass *p, HlBuild *b, HlInst *sum, HlInst *x, int64_t queue) {
  HlInst *both = sum ? hl_b_binary(b, HL_OP_ADD, sum, x) : NULL;
  if (both && sum->op == HL_OP_DOT)
    windowed_wait_for(p, both, queue - 1);
  if (both && x->op == HL_OP_DOT)
    windowed_wait_for(p, both, queue);
  return sum ? both : x;
}

static HlInst *exchange_then_product(HlPass *p, HlBuild *b, HlInst *dot) {
  Pieces pieces;
  HlInst *exchange;
  int n;
  HlInst **way = way_down(p, dot->operands[0], &n, &exchange);
  if (!find_pieces(p, dot, exchange, &pieces) || !hl_one_user(exchange))
    return NULL;
  int dim = (int)hl_attr_int(exchange, HL_A_DIMENSION);
  for (int k = n - 1; k >= 0; k--)
    dim = dim_above(way[k], dim);
  if (dim < 0 || dim == pieces.lhs_dim)
    return NULL;
  HlInst *x = way_up(way, n, exchange->operands[0]), *sum = NULL;
  const int64_t queue = coll_next_channel(p);
  for (int64_t k = 0; k < pieces.n; k++) {
    HlInst *lhs = exchanged(p, b, exchange, dim, piece(b, x, pieces.lhs_dim, &pieces, k));
    HlInst *part =
        product(p, dot, lhs, piece(b, dot->operands[1], pieces.rhs_dim, &pieces, k), queue + k);
    if (!part)
      return NULL;
    sum = added(p, b, sum, part, queue + k);
  }
  return sum;
}

static HlInst *product_then_exchange(HlPass *p, HlBuild *b, HlInst *exchange) {
  Pieces pieces;
  HlInst *dot;
  int n;
  if (exchange->n_operands != 1)
    return NULL;
  HlInst **way = way_down(p, exchange->operands[0], &n, &dot);
  if (!find_pieces(p, dot, exchange, &pieces) || !hl_one_user(dot))
    return NULL;
  int dim = (int)hl_attr_int(exchange, HL_A_DIMENSION);
  for (int k = 0; k < n; k++)
    dim = dim_below(way[k], dim);
  if (dim < 0)
    return NULL;
  HlInst *sum = NULL;
  const int64_t queue = coll_next_channel(p);
  for (int64_t k = 0; k < pieces.n; k++) {
    HlInst *part = product(p, dot, piece(b, dot->operands[0], pieces.lhs_dim, &pieces, k),
                           piece(b, dot->operands[1], pieces.rhs_dim, &pieces, k), queue + k);
    HlInst *x = exchanged(p, b, exchange, dim, part);
    if (!x)
      return NULL;
    windowed_wait_for(p, x, queue + k);
    sum = added(p, b, sum, x, queue + k);
  }
  return way_up(way, n, sum);
}

const HlRule windowed_einsum_rules[] = {
    {HL_OP_DOT, exchange_then_product, "all-to-all-dot", "dot(all-to-all(x), y) => sum of pieces",
     "the dimension that is exchanged is not the one that is summed"},
    {HL_OP_ALL_TO_ALL, product_then_exchange, "dot-all-to-all",
     "all-to-all(dot(x, y)) => sum of pieces", ""},
    {0}};

bool windowed_all_to_alls(HlPass *p) {
  p->reach = 0;
  return coll_run_rules(p, windowed_einsum_rules, 1);
}
