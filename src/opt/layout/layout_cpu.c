// opt/layout/layout_cpu.c: what XLA's CPU backend wants of layouts, beyond what holds everywhere.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/cpu_dot.h"
#include "opt/layout/layout_assignment.h"

static bool cpu_wants_row_major(const HlInst *inst) {
  if (inst->op == HL_OP_CONVOLUTION)
    return hl_cpu_library_convolution(inst);
  if (inst->op == HL_OP_DOT)
    return hl_cpu_dot_wants_row_major(inst);
  return hl_is_call(inst, HL_CALL_TOPK);
}

// Every use of a constant reads it as the matrix that is better column-major.
static bool only_read_by_columns(const HlInst *constant) {
  for (const HlUse *use = constant->first_use; use; use = use->next) {
    if (hl_cpu_dot_column_major_operand(use->user) != use->number)
      return false;
    for (uint32_t k = 0; k < use->user->n_operands; k++)
      if ((int)k != use->number && use->user->operands[k] == constant)
        return false;
  }
  return true;
}

enum { UNKNOWN, BY_COLUMNS, OTHERWISE };

// -1: none.
static int column_major_operand(const HlInst *inst, char *known) {
  int operand = hl_cpu_dot_column_major_operand(inst);
  if (operand < 0)
    return -1;
  const HlInst *constant = inst->operands[operand];
  if (constant->op != HL_OP_CONSTANT)
    return -1;
  if (known[constant->id] == UNKNOWN)
    known[constant->id] = only_read_by_columns(constant) ? BY_COLUMNS : OTHERWISE;
  return known[constant->id] == BY_COLUMNS ? operand : -1;
}

static void want_operands_row_major(Layouts *a, HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (hl_shape_is_array(shape) && !layout_use(a->now, inst, (int)k)->order &&
        !layout_forwards(inst, (int)k))
      layout_want_array_use(a, inst, (int)k, layout_row_major(a, shape->rank), layout_must(a));
  }
}

void layout_cpu_wishes(Layouts *a) {
  char *known = HL_ARRAY(a->arena, char, a->now->comp->next_id);
  for (uint32_t k = 0; k < a->now->comp->n_insts; k++) {
    HlInst *inst = a->now->insts[k];
    int columns = -1;
    if (cpu_wants_row_major(inst))
      layout_want_row_major(a, inst);
    else if ((columns = column_major_operand(inst, known)) >= 0)
      layout_want_array_use(a, inst, columns,
                            layout_column_major(a, inst->operands[columns]->shape->rank),
                            layout_must(a));
    else if (inst->op == HL_OP_REDUCE_SCATTER || inst->op == HL_OP_ALL_GATHER)
      layout_want_major(a, inst, hl_attr_int(inst, HL_A_DIMENSION));
    else
      want_operands_row_major(a, inst);
  }
}
