// print_inst.c: writes instructions: name, shape, opcode, operands, computations (hlo.md 5.2).

#include "base/memory.h"
#include "text/print.h"

enum { FEW_ELEMENTS = 10, MOST_ESSENTIAL = 500000 };

// --- The sugar of async instructions -------------------------------------------------------------

// Only the root and parameters, which are its operands one by one: the sugar shows nothing of them, and reads so.
static bool is_one_instruction(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!root || root->n_operands != (uint32_t)comp->n_params)
    return false;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k] != comp->params[k])
      return false;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst != root && inst->op != HL_OP_PARAMETER)
      return false;
  return true;
}

bool print_is_sugar_body(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_ASYNC_START)
      return is_one_instruction(comp);
  return false;
}

const HlInst *print_sugar(Print *p, const HlInst *inst) {
  if (!p->how.async_sugar)
    return NULL;
  const HlInst *wrapped = hl_async_wrapped(&p->async, inst);
  return wrapped && is_one_instruction(wrapped->comp) ? wrapped : NULL;
}

static void print_opcode(Print *p, const HlInst *inst) {
  const HlInst *wrapped = NULL;
  if (hl_op_info[inst->op].traits & HL_T_ASYNC)
    wrapped = print_sugar(p, inst);
  if (!wrapped) {
    const char *text = hl_op_text(inst->op);
    put_hot(p->out, text, strlen(text));
    return;
  }
  put_text(p->out, hl_op_text(wrapped->op));
  put_text(p->out, inst->op == HL_OP_ASYNC_START    ? "-start"
                   : inst->op == HL_OP_ASYNC_UPDATE ? "-update"
                                                    : "-done");
}

// --- Operands ------------------------------------------------------------------------------------

static void print_canonical(Print *p, const HlInst *inst) {
  uint32_t *number = &p->canonical[inst->id];
  if (!*number)
    *number = ++p->next_canonical;
  PUT(p->out, "tmp_");
  put_u64(p->out, *number - 1);
}

bool print_is_inside(const Print *p, const HlInst *inst) {
  return p->how.tuple_elements && inst->op == HL_OP_GET_TUPLE_ELEMENT && inst != inst->comp->root &&
         !inst->control;
}

// `%t#1#0`: the tuple, and the way to the element from the outside in.
static void print_inside(Print *p, const HlInst *element) {
  int depth = 0;
  const HlInst *tuple = element;
  for (; print_is_inside(p, tuple); depth++)
    tuple = tuple->operands[0];
  if (p->how.canonical_names)
    print_canonical(p, tuple);
  else
    print_name(p, tuple->name);
  for (int k = depth - 1; k >= 0; k--) {
    const HlInst *step = element;
    for (int n = 0; n < k; n++)
      step = step->operands[0];
    put_char(p->out, '#');
    put_i64(p->out, hl_attr_int(step, HL_A_INDEX));
  }
}

static void print_operand(Print *p, const HlInst *operand) {
  bool space = false;
  if (p->how.operand_shapes) {
    print_shape(p, operand->shape);
    space = true;
  }
  const bool canonical = p->how.canonical_names;
  if (canonical ? !p->nested || !p->canonical : !p->how.operand_names)
    return;
  if (space)
    put_char_hot(p->out, ' ');
  if (HL_UNLIKELY(p->how.tuple_elements) && print_is_inside(p, operand))
    print_inside(p, operand);
  else if (canonical)
    print_canonical(p, operand);
  else
    print_name(p, operand->name);
}

// What says how a constant is used: whole, or "0", "1", integers, or nothing.
static void print_essential(Print *p, const HlInst *inst, const HlLiteral *literal) {
  const bool empty = !literal->element && !(literal->flags & HL_LIT_ELIDED) && literal->n == 0;
  if (empty || hl_literal_is_all(literal, 0))
    PUT(p->out, "0");
  else if (hl_literal_is_all(literal, 1))
    PUT(p->out, "1");
  else if (hl_is_integral(inst->shape->dtype) && literal->n <= MOST_ESSENTIAL)
    put_literal(p->out, literal);
  else
    PUT(p->out, "{...}");
}

static void print_constant(Print *p, const HlInst *inst) {
  const HlLiteral *literal = hl_constant(inst);
  const bool few = hl_shape_is_array(inst->shape) && hl_shape_elements(inst->shape) <= FEW_ELEMENTS;
  if (!literal)
    PUT(p->out, "{...}");
  else if (p->how.essential_constants)
    print_essential(p, inst, literal);
  else if (few || p->how.large_constants)
    put_literal(p->out, literal);
  else
    PUT(p->out, "{...}");
}

static void print_operands(Print *p, const HlInst *inst) {
  if (inst->op == HL_OP_CONSTANT) {
    print_constant(p, inst);
    return;
  }
  if (inst->op == HL_OP_PARAMETER) {
    put_i64(p->out, hl_parameter_number(inst));
    return;
  }
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (k && p->how.index_comments)
      put_comma(p->out, k);
    else if (k)
      PUT_HOT(p->out, ", ");
    print_operand(p, inst->operands[k]);
  }
}

// --- Instructions --------------------------------------------------------------------------------

void print_inst(Print *p, const HlInst *inst) {
  base_look_often(&p->step);
  if (!p->how.canonical_names) {
    print_name(p, inst->name);
    PUT_HOT(p->out, " = ");
  } else if (p->nested && p->canonical) {
    print_canonical(p, inst);
    PUT_HOT(p->out, " = ");
  }
  if (p->how.result_shape) {
    print_shape(p, inst->shape);
    put_char_hot(p->out, ' ');
  }
  print_opcode(p, inst);
  put_char_hot(p->out, '(');
  print_operands(p, inst);
  put_char_hot(p->out, ')');
  print_attrs(p, inst);
}
