// opt/fusion/gpu_cost.c: what a kernel costs on a GPU: operations, bytes, code, and the time for them.
//
// Inside a fusion every value is computed as often as its users ask for it: elementwise users ask
// as often as they are asked themselves, others by how much they read of it.

#include <math.h>

#include "opt/ask/effects.h"
#include "opt/ask/emitters.h"
#include "opt/fusion/gpu_fusible.h"

// --- One instruction ----------------------------------------------------------------------------

static double elements(const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return (double)hl_shape_elements(shape);
  double n = 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += elements(shape->element[k]);
  return n;
}

static double bytes(const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return (double)hl_shape_elements(shape) * hl_dtype_info[shape->dtype].bits / 8;
  double n = 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += bytes(shape->element[k]);
  return n;
}

static double flops_an_element(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (emitters_of(op)->gpu_work)
    return emitters_of(op)->gpu_work;
  if (op == HL_OP_CONCATENATE) {
    int64_t dim = hl_dim(inst);
    return dim > 0 && inst->operands[0]->shape->dim[dim] % 32 != 0 ? 400 : 6;
  }
  return effects_none(op) || op == HL_OP_COPY || hl_op_is(op, HL_T_REARRANGES) ? 0 : 3;
}

static double window_size(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  double n = 1;
  for (int k = 0; k < window.n; k++)
    n *= (double)window.at[k].size;
  return n;
}

static double flops_of(const HlInst *inst) {
  if (inst->op == HL_OP_REDUCE)
    return 3 * elements(inst->operands[0]->shape);
  if (inst->op == HL_OP_REDUCE_WINDOW)
    return 3 * elements(inst->shape) * window_size(inst);
  return flops_an_element(inst) * elements(inst->shape);
}

// How often each element of an operand is read to compute the whole result.
static double reads_of(const HlInst *inst, int operand) {
  double in = elements(inst->operands[operand]->shape), out = elements(inst->shape);
  if (in == 0)
    return 0;
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_SLICE: return out / in;
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_GATHER: return operand == 0 ? out / in : 1;
  case HL_OP_DYNAMIC_UPDATE_SLICE:
    return operand == 0 ? (in - elements(inst->operands[1]->shape)) / in : 1;
  case HL_OP_REDUCE: return operand < (int)inst->n_operands / 2 ? 1 : elements(inst->shape);
  case HL_OP_REDUCE_WINDOW:
    return operand < (int)inst->n_operands / 2 ? out * window_size(inst) / in : 1;
  case HL_OP_PAD: return operand == 0 ? 1 : out - elements(inst->operands[0]->shape);
  default: return 1;
  }
}

static bool passes_roots_on(const HlInst *inst) {
  return fusion_is_elementwise(inst) || inst->op == HL_OP_TUPLE ||
         inst->op == HL_OP_GET_TUPLE_ELEMENT ||
         (inst->op == HL_OP_BITCAST && hl_shape_same_dims(inst->operands[0]->shape, inst->shape));
}

// --- Fusions ------------------------------------------------------------------------------------

typedef struct Node {
  double reads, emissions;
  const HlInst *root;  // the user that set the index it is asked for; NULL: several
} Node;

static void ask(Node *node, const HlInst *root, double reads, double emissions) {
  if (node->emissions > 0 && node->root == root && root) {
    if (node->reads < reads)
      node->reads = reads;
    return;
  }
  node->root = node->emissions > 0 ? NULL : root;
  node->reads += reads;
  node->emissions += emissions;
}

static void cost_of_body(HlArena *arena, const HlInst *fusion, GpuCost *cost) {
  const HlComp *body = fusion_body(fusion);
  HlMark mark = hl_arena_mark(arena);
  Node *nodes = HL_ARRAY(arena, Node, body->next_id);
  ask(&nodes[body->root->id], body->root, 1, 1);
  for (const HlInst *inst = body->last; inst; inst = inst->prev) {
    const Node *node = &nodes[inst->id];
    if (inst->op == HL_OP_PARAMETER || node->emissions == 0)
      continue;
    cost->flops += node->reads * flops_of(inst);
    cost->code += node->emissions;
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      bool passes = passes_roots_on(inst);
      double reads = node->reads * (passes ? 1 : reads_of(inst, (int)k));
      ask(&nodes[inst->operands[k]->id], passes ? node->root : inst, reads, node->emissions);
    }
  }
  for (uint32_t k = 0; k < fusion->n_operands; k++) {
    const Node *node = &nodes[body->params[k]->id];
    cost->reads[k] = node->reads;
    cost->emissions[k] = node->emissions;
  }
  hl_arena_release(arena, mark);
}

GpuCost gpu_cost(const HlTarget *t, HlArena *arena, const HlInst *inst) {
  GpuCost cost = {.emitter = gpu_emitter(t, inst),
                  .needs = gpu_needs(t, inst),
                  .reduces_many = gpu_reduces_many(inst),
                  .bytes_out = bytes(inst->shape),
                  .column_blocks = (double)gpu_column_blocks(t, inst),
                  .reads = HL_ARRAY(arena, double, inst->n_operands + 1),
                  .emissions = HL_ARRAY(arena, double, inst->n_operands + 1)};
  if (inst->op == HL_OP_FUSION) {
    cost_of_body(arena, inst, &cost);
    return cost;
  }
  cost.flops = flops_of(inst);
  cost.code = 1;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    cost.reads[k] = reads_of(inst, (int)k);
    cost.emissions[k] = 1;
  }
  return cost;
}

// --- Time ---------------------------------------------------------------------------------------

typedef struct Grid {
  double blocks, threads;  // of a block
} Grid;

enum {
  BLOCK_WARPS = 4,  // of a kernel that leaves the emitter the choice
  COLUMN_WARPS = 32
};

// Blocks that sum columns are as many as the columns need, however long these are; else threads are shared out over the
// elements of the largest shape.
static Grid grid_of(const HlTarget *t, const HlInst *inst, const GpuCost *cost) {
  if (cost->column_blocks > 0)
    return (Grid){cost->column_blocks, (double)(COLUMN_WARPS * t->warp)};
  double n = elements(inst->shape);
  if (cost->emitter == GPU_REDUCTION)
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      double in = elements(inst->operands[k]->shape);
      n = in > n ? in : n;
    }
  const double block = (double)(BLOCK_WARPS * t->warp);
  return (Grid){n / block < 1 ? 1 : n / block, n < block ? n : block};
}

static double compute_time(const HlTarget *t, double flops, Grid grid) {
  double cores = fmin(grid.blocks, (double)t->cores), lanes = fmin(grid.threads, (double)t->lanes);
  return lanes < 1 ? 0 : flops / (t->clock / 1e6 * 2 * cores * lanes);
}

// Bytes that are read again come from the nearest cache that holds them.
static double read_time(const HlTarget *t, const HlShape *shape, double times) {
  double size = bytes(shape), total = size * times;
  double net = total < size ? total : size;
  double memory = gpu_memory_speed(t), speed = memory;
  speed *= net < (double)t->l2_bytes ? t->l2_speed : 1;
  speed *= net < (double)t->l1_bytes * (double)t->cores ? t->l1_speed : 1;
  return net / memory + (total - net) / speed;
}

static double total_time(const HlTarget *t, double compute, double memory) {
  double less = compute < memory ? compute : memory;
  return compute + memory - t->overlap * less;
}

double gpu_time(const HlTarget *t, const HlInst *inst, const GpuCost *cost) {
  double memory = cost->bytes_out / gpu_memory_speed(t);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    memory += read_time(t, inst->operands[k]->shape, cost->reads[k]);
  return total_time(t, compute_time(t, cost->flops, grid_of(t, inst, cost)), memory);
}

double gpu_time_fused(const HlTarget *t, const HlInst *producer, const GpuCost *of_producer,
                      const HlInst *consumer, const GpuCost *of_consumer, bool gives_both) {
  const double written = of_consumer->bytes_out + (gives_both ? of_producer->bytes_out : 0);
  double memory = written / gpu_memory_speed(t), times = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++)
    if (consumer->operands[k] == producer)
      times += of_consumer->reads[k];
  for (uint32_t k = 0; k < consumer->n_operands; k++) {
    const HlInst *operand = consumer->operands[k];
    if (operand == producer)
      continue;
    int also = fusion_operand_index(producer, operand);
    // What both read elementwise is at hand the second time.
    double reads = of_consumer->reads[k];
    if (also >= 0 && times * of_producer->reads[also] > reads)
      reads = times * of_producer->reads[also];
    memory += read_time(t, operand->shape, reads);
  }
  for (uint32_t k = 0; k < producer->n_operands; k++)
    if (fusion_operand_index(consumer, producer->operands[k]) < 0)
      memory += read_time(t, producer->operands[k]->shape, times * of_producer->reads[k]);
  double flops = of_consumer->flops + times * of_producer->flops;
  return total_time(t, compute_time(t, flops, grid_of(t, consumer, of_consumer)), memory);
}

double gpu_code_fused(const HlInst *producer, const GpuCost *of_producer, const HlInst *consumer,
                      const GpuCost *of_consumer) {
  double emissions = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++)
    if (consumer->operands[k] == producer)
      emissions += of_consumer->emissions[k];
  return of_consumer->code + emissions * of_producer->code;
}
