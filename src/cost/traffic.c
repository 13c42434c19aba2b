// cost/traffic.c: the bytes an instruction reads and writes.
//
// By default all operands and the result. Ops that touch a part of an operand, or only rename
// buffers, have a line of their own.

#include "cost/cost.h"

typedef enum Traffic {
  T_ALL,     // operands and result
  T_NONE,    // renames buffers, or what it calls counts
  T_WRITE,   // the result only
  T_PART,    // reads as much of operand 0 as it writes, and the other operands
  T_UPDATE,  // dynamic-update-slice: reads the update, writes as much
  T_SCATTER,
  T_FEED  // infeed and outfeed: what goes in or out
} Traffic;

static const uint8_t traffic_of[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = T_NONE,
    [HL_OP_CONSTANT] = T_NONE,
    [HL_OP_TUPLE] = T_NONE,
    [HL_OP_GET_TUPLE_ELEMENT] = T_NONE,
    [HL_OP_BITCAST] = T_NONE,
    [HL_OP_OPT_BARRIER] = T_NONE,
    [HL_OP_AFTER_ALL] = T_NONE,
    [HL_OP_ADD_DEPENDENCY] = T_NONE,
    [HL_OP_CALL] = T_NONE,
    [HL_OP_WHILE] = T_NONE,
    [HL_OP_CONDITIONAL] = T_NONE,
    [HL_OP_DOMAIN] = T_NONE,
    [HL_OP_ASYNC_START] = T_NONE,
    [HL_OP_ASYNC_UPDATE] = T_NONE,
    [HL_OP_ASYNC_DONE] = T_NONE,
    [HL_OP_COPY_DONE] = T_NONE,
    [HL_OP_ALL_REDUCE_DONE] = T_NONE,
    [HL_OP_ALL_GATHER_DONE] = T_NONE,
    [HL_OP_COLLECTIVE_PERMUTE_DONE] = T_NONE,
    [HL_OP_SEND_DONE] = T_NONE,
    [HL_OP_RECV] = T_NONE,
    [HL_OP_TUPLE_SELECT] = T_NONE,
    [HL_OP_TRACE] = T_NONE,
    [HL_OP_ALTERNATIVES] = T_NONE,
    [HL_OP_IOTA] = T_WRITE,
    [HL_OP_RECV_DONE] = T_WRITE,
    [HL_OP_INFEED] = T_FEED,
    [HL_OP_OUTFEED] = T_FEED,
    [HL_OP_SEND] = T_FEED,
    [HL_OP_SLICE] = T_PART,
    [HL_OP_DYNAMIC_SLICE] = T_PART,
    [HL_OP_GATHER] = T_PART,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = T_UPDATE,
    [HL_OP_SCATTER] = T_SCATTER,
};

static double operand_bytes(const HlInst *inst, int from) {
  double sum = 0;
  for (int k = from; k < (int)inst->n_operands; k++)
    sum += cost_bytes(inst->operands[k]->shape);
  return sum;
}

// A copy, a collective and the like that start: the result names the operand again beside the new value.
static bool result_holds_operands(const HlInst *inst) {
  return inst->op == HL_OP_COPY_START || inst->op == HL_OP_ALL_GATHER_START ||
         inst->op == HL_OP_COLLECTIVE_PERMUTE_START;
}

static double result_bytes(const HlInst *inst) {
  double all = cost_bytes(inst->shape);
  return result_holds_operands(inst)
             ? all - operand_bytes(inst, 0) > 0 ? all - operand_bytes(inst, 0) : 0
             : all;
}

// N operands, indices, N updates: reads what it overwrites, the updates and the indices.
static void scatter_traffic(const HlInst *inst, HlCost *out) {
  int n = (int)inst->n_operands / 2;
  double updates = operand_bytes(inst, n + 1);
  out->bytes_read += 2 * updates + (operand_bytes(inst, n) - updates);
  out->bytes_written += updates;
}

void cost_traffic(const HlInst *inst, HlCost *out) {
  const HlShape *update = cost_operand(inst, 1);
  switch ((Traffic)traffic_of[inst->op]) {
  case T_NONE: break;
  case T_WRITE: out->bytes_written += result_bytes(inst); break;
  case T_PART:
    out->bytes_read += result_bytes(inst) + operand_bytes(inst, 1);
    out->bytes_written += result_bytes(inst);
    break;
  case T_UPDATE:
    out->bytes_read += operand_bytes(inst, 1);
    out->bytes_written += update ? cost_bytes(update) : 0;
    break;
  case T_SCATTER: scatter_traffic(inst, out); break;
  case T_FEED:
    if (inst->op == HL_OP_INFEED)
      out->bytes_written += result_bytes(inst);
    else
      out->bytes_read += operand_bytes(inst, 0);
    break;
  case T_ALL:
    out->bytes_read += operand_bytes(inst, 0);
    out->bytes_written += result_bytes(inst);
    break;
  }
}
