// buffer/block_share.c: what a kernel of blocks of threads may write over its operand.
//
// Each element of the operand must be read before the thread that writes the output's element there has written it: all on
// the way from the parameter goes element by element, bitcasts included. Two more ways are safe. The emitter of reductions
// finishes the reduction before it writes any other output, so what lies behind the reduction does not count. And a scatter
// or dynamic-update-slice that makes the output may change the operand where a dynamic-slice of the same place read it.
//
//   f(p, g): n = add(p, g); s = reduce(multiply(n, n)); ROOT t = tuple(s, n)   =>   n over p
//
// Rule: XLA's alias information for GPUs, by which copy-insertion and buffer assignment go there.

#include "buffer/flow.h"

typedef struct Kernel {
  const HlInst *output, *made;  // the output, and what makes it below a bitcast
  const HlInst *reduction;      // done before anything is written, or NULL
} Kernel;

// Through what does not change which element is where.
static const HlInst *find_hero(const HlInst *root) {
  while (root->op != HL_OP_REDUCE && root->n_operands == 1 &&
         (root->op == HL_OP_BITCAST || (hl_op_info[root->op].traits & HL_T_ELEMENTWISE)))
    root = root->operands[0];
  return root;
}

// The first reduction that the fusion's emitter goes by.
static const HlInst *find_reduction(const HlInst *fusion) {
  if (hl_attr_int(fusion, HL_A_KIND) != HL_WORD_fusion_kind_INPUT)
    return NULL;
  const HlInst *root = hl_to_apply(fusion)->root;
  const bool many = root->op == HL_OP_TUPLE;
  for (uint32_t k = 0; k < (many ? root->n_operands : 1); k++) {
    const HlInst *hero = find_hero(many ? root->operands[k] : root);
    if (hero->op == HL_OP_REDUCE)
      return hero;
  }
  return NULL;
}

static int count_as_operand(const HlInst *inst, const HlInst *operand) {
  int n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += inst->operands[k] == operand;
  return n;
}

// A dynamic-slice that reads just what the dynamic-update-slice writes.
static bool reads_what_is_written(const HlInst *slice, const HlInst *update) {
  if (update->op != HL_OP_DYNAMIC_UPDATE_SLICE || slice->op != HL_OP_DYNAMIC_SLICE ||
      slice->operands[0] != update->operands[0] || slice->shape != update->operands[1]->shape)
    return false;
  if (hl_shape_elements(slice->shape) == 1)
    return true;
  for (uint32_t k = 1; k < slice->n_operands; k++)
    if (slice->operands[k] != update->operands[k + 1])
      return false;
  return true;
}

static bool keeps_order(const Kernel *kernel, const HlInst *inst, uint32_t number) {
  const HlInst *operand = inst->operands[number];
  if (inst == kernel->made && inst->op == HL_OP_SCATTER)
    return (int64_t)number < hl_shape_leaves(inst->shape) && count_as_operand(inst, operand) == 1;
  if (inst == kernel->made && inst->op == HL_OP_DYNAMIC_UPDATE_SLICE && number == 1)
    return true;
  return inst->op == HL_OP_BITCAST || inst->op == HL_OP_TUPLE || inst == kernel->reduction ||
         (inst->op != HL_OP_COPY && flow_elementwise_on(inst, number)) ||
         reads_what_is_written(inst, kernel->made);
}

// Marks what follows from the parameter, as far as the reduction; false where an element may be read too late.
static bool follow(const Kernel *kernel, const HlInst *parameter, bool *reached) {
  reached[parameter->id] = true;
  for (const HlInst *inst = parameter->comp->first; inst; inst = inst->next)  // operands first
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      const HlInst *operand = inst->operands[k];
      if (!reached[operand->id] || operand == kernel->reduction)
        continue;
      reached[inst->id] = true;
      if (!keeps_order(kernel, inst, k))
        return false;
    }
  return true;
}

// Another output that follows from the parameter may be written in another order than a scatter's.
static bool reaches_others(const Kernel *kernel, const HlInst *root, const bool *reached) {
  if (root->op != HL_OP_TUPLE || root->n_operands < 2 ||
      (hl_op_info[kernel->made->op].traits & HL_T_ELEMENTWISE))
    return false;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k] != kernel->output && reached[root->operands[k]->id])
      return true;
  return false;
}

static bool same_room(const HlShape *a, const HlShape *b) {
  return a == b || (hl_shape_is_array(a) && hl_shape_is_array(b) &&
                    hl_shape_elements(a) == hl_shape_elements(b) &&
                    hl_dtype_info[a->dtype].bits == hl_dtype_info[b->dtype].bits);
}

bool flow_block_shares(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot,
                       uint32_t number) {
  const HlInst *fusion = flow->slot_inst[user_slot];
  const HlComp *body = hl_to_apply(fusion);
  if (!same_room(flow->slot_shape[slot], flow->slot_shape[user_slot]))
    return false;
  const HlI64s index = hl_slot_index(arena, flow, user_slot);
  Kernel kernel = {.output = body->root, .reduction = find_reduction(fusion)};
  if (kernel.output->op == HL_OP_TUPLE) {
    if (index.n != 1)
      return false;
    kernel.output = kernel.output->operands[index.at[0]];
  }
  kernel.made = kernel.output->op == HL_OP_BITCAST ? kernel.output->operands[0] : kernel.output;
  bool *reached = HL_ARRAY(arena, bool, body->next_id + 1);
  return follow(&kernel, body->params[number], reached) && reached[kernel.output->id] &&
         !reaches_others(&kernel, body->root, reached);
}
