// opt/expand/associative_scan_rewriter.c
//
// associative-scan-rewriter: a scan that may be bracketed in any way, by a simple op from its
// neutral element, is a reduce-window over all that came before; reduce-window-rewriter then makes
// a tree of it.
//
//   (y, c) = scan(x, 0), dimensions={0}, is_associative=true, to_apply={(x + c, x + c)}
//   =>  y = reduce-window(x, 0), window={size=n pad=n-1_0}, to_apply=add
//       c = the last element of y

#include "opt/ask/reducers.h"
#include "opt/passes.h"

// The op that gives both the output and the carry from the input and the carry; HL_OP_COUNT: none.
static HlOp scanned_op(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!root || root->op != HL_OP_TUPLE || root->n_operands != 2 || comp->n_params != 2 ||
      root->operands[0] != root->operands[1])
    return HL_OP_COUNT;
  const HlInst *inst = root->operands[0];
  if (inst->n_operands != 2 || hl_has_control(inst) ||
      !((inst->operands[0] == comp->params[0] && inst->operands[1] == comp->params[1]) ||
        (inst->operands[0] == comp->params[1] && inst->operands[1] == comp->params[0])))
    return HL_OP_COUNT;
  // XLA leaves xor alone.
  const HlOp op = (HlOp)inst->op;
  return hl_op_is(op, HL_T_ASSOCIATES) && op != HL_OP_XOR ? op : HL_OP_COUNT;
}

static HlInst *cumulative(HlPass *p, HlBuild *b, HlOp op, HlInst *x, HlInst *init, int along) {
  const int rank = x->shape->rank;
  HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, rank);
  for (int d = 0; d < rank; d++)
    at[d] = (HlWindowDim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  at[along].size = x->shape->dim[along];
  at[along].pad_low = at[along].size - 1;
  HlAttr window = {.key = HL_A_WINDOW, .window = {at, rank}};
  HlComp *comp = hl_b_scalar_comp(b, op, x->shape->dtype);
  HlInst *operands[2] = {x, init};
  return comp ? hl_b_op(b, HL_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &window, 1, &comp) : NULL;
}

// A scalar constant like the equal elements of the scan's init.
static HlInst *scalar_of(HlBuild *b, const HlInst *init) {
  const HlLiteral *splat = hl_splat(init);
  if (!splat)
    return NULL;
  HlDtype dtype = init->shape->dtype;
  return hl_is_float(dtype) ? hl_b_scalar(b, dtype, hl_literal_f64(splat, 0))
                            : hl_b_scalar_int(b, dtype, hl_literal_i64(splat, 0));
}

static HlInst *rewrite_scan(HlPass *p, HlBuild *b, HlInst *inst) {
  HlOp op = scanned_op(hl_to_apply(inst));
  if (op == HL_OP_COUNT || inst->n_operands != 2 || hl_attr_int(inst, HL_A_NUM_CARRIES) != 1 ||
      hl_attr_int(inst, HL_A_IS_ASSOCIATIVE) != 1 || hl_attr_int(inst, HL_A_IS_REVERSE))
    return NULL;
  HlInst *x = hl_operand(inst, 0), *init = hl_operand(inst, 1);
  const int along = (int)hl_dim(inst);
  if (hl_shape_is_dynamic(x->shape) || hl_is_complex(x->shape->dtype) ||
      !reducer_is_identity(op, init) || x->shape->dim[along] == 0)
    return NULL;
  const int64_t n = x->shape->dim[along];
  HlInst *y = cumulative(p, b, op, x, scalar_of(b, init), along);
  HlInst *last =
      hl_b_reshape(b, hl_b_slice_dim(b, y, along, n - 1, n), init->shape->rank, init->shape->dim);
  HlInst *results[2] = {y, last};
  return hl_b_tuple(b, 2, results);
}

const HlRule rules_associative_scan[] = {
    {HL_OP_SCAN, rewrite_scan, "associative-scan-rewriter",
     "scan(x, 0), to_apply=add => reduce-window(x, 0) over all before",
     "forwards, associative, from the op's neutral element"},
    {0}};
