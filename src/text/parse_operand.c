// parse_operand.c: reads what stands in an instruction's parentheses: operands, the number of a parameter, a literal.
//
// operands = [ operand { "," operand } ]
// operand  = [ shape ] name { "#" integer } | rhs without attributes

#include "text/parse.h"

#include <inttypes.h>
#include <string.h>

static bool missing_operand(Parser *p, const HlSym *name, const char *at) {
  parse_error(p, at, "instruction does not exist: %s", name->text);
  parse_hint_inst(p, name);
  return false;
}

// A parameter for an operand that a single instruction names but nobody defines.
static bool make_operand(Parser *p, const HlSym *name, const HlShape *shape, const char *at,
                         HlInst **out) {
  if (!shape)
    return parse_error(p, at, "operand %s had no shape; cannot create a parameter for it",
                       name->text);
  if (!name) {
    char text[32];
    text[0] = '_';
    HlBuf number = {0};
    hl_buf_i64(&number, p->n_missing);
    memcpy(text + 1, number.at, number.n + 1);
    hl_buf_free(&number);
    name = hl_sym(p->m, text);
  }
  *out = hl_parameter_new(p->scope->comp, p->n_missing++, shape, name);
  hl_set_loc(*out, lex_pos(&p->in, at).loc);
  return parse_define(p, name, at, *out);
}

static bool wrong_operand_shape(Parser *p, const char *at, const HlShape *declared,
                                const HlShape *actual) {
  HlBuf text = {0};
  hl_buf_puts(&text, "the declared operand shape ");
  hl_shape_print(&text, declared, true);
  hl_buf_puts(&text, " is not compatible with the shape of the operand instruction ");
  hl_shape_print(&text, actual, true);
  parse_error(p, at, "%s", text.at);
  hl_buf_free(&text);
  return false;
}

HL_RARE bool parse_too_many(Parser *p, const char *at) {
  return parse_limit(p, at, "the module has more than %lld instructions (limit instructions)",
                     (long long)hl_cx_limits(p->cx)->instructions);
}

// The element `index` of a tuple that an operand names as `tuple#index`: one instruction a computation, made where it
// is first used and found under the name as written, the `#` included.
static bool take_element(Parser *p, const char *at, const HlSym *whole, HlInst *tuple,
                         const HlSym **key, HlInst **out) {
  int64_t index;
  if (!lex_int(&p->in, &index))
    return false;
  HlArena *arena = p->m->arena;
  dialect_has(&p->signs, hl_news_since(HL_NEWS_TUPLE_ELEMENTS));
  p->elements = true;
  const char *text = hl_arena_printf(arena, "%s#%" PRId64, whole->text, index);
  *key = hl_sym(p->m, text);
  const ParseDef *def = parse_find(p, *key);
  *out = def ? def->inst : NULL;
  if (def || !tuple)
    return true;
  if (tuple->shape->dtype != HL_TUPLE)
    return parse_error(p, at, "'#' takes an element of a tuple, but %s has the shape %s",
                       whole->text, hl_shape_text(p->cx, tuple->shape));
  if (index < 0 || index >= tuple->shape->rank)
    return parse_error(p, at, "element %" PRId64 " is out of bounds for %s of shape %s", index,
                       whole->text, hl_shape_text(p->cx, tuple->shape));
  if (!parse_count(p, at))
    return false;
  const HlStr name = hl_sanitise_name(arena, (HlStr){text, strlen(text)});
  *out = hl_inst_new(p->scope->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[index],
                     hl_syms_add(p->m->syms, name.at, name.n), 1, &tuple);
  hl_set_int(*out, HL_A_INDEX, index);
  hl_set_loc(*out, lex_pos(&p->in, at).loc);
  p->rename = true;
  return parse_define(p, *key, at, *out);
}

// The same for each `#index` that follows the name of an operand.
static HL_RARE bool take_elements(Parser *p, const char *at, const HlSym *name, HlInst **operand) {
  while (lex_eat(&p->in, '#'))
    if (!take_element(p, at, name, *operand, &name, operand))
      return false;
  return true;
}

static bool add_named_operand(Parser *p, ParseInst *inst, const HlSym *name, const HlShape *shape,
                              const char *at) {
  const ParseDef *def = parse_find(p, name);
  HlInst *operand = def ? def->inst : NULL;
  if (HL_UNLIKELY(!def)) {
    if (!p->single || p->scope->outer)
      return missing_operand(p, name, at);
    if (!make_operand(p, name, shape, at, &operand))
      return false;
  }
  if (HL_UNLIKELY(lex_at(&p->in, '#')) && !take_elements(p, at, name, &operand))
    return false;
  if (HL_UNLIKELY(!operand)) {
    inst->poisoned = true;
  } else if (shape && shape != operand->shape && !hl_shape_compatible(operand->shape, shape) &&
             !parse_old_operand(operand, shape)) {
    return wrong_operand_shape(p, at, shape, operand->shape);
  }
  parse_push_ptr(p, operand);
  return true;
}

// An operand that is an instruction itself; `begin` is where its shape or opcode stands.
static bool add_nested_operand(Parser *p, ParseInst *inst, const char *begin) {
  HlInst *operand;
  p->in.at = begin;
  if (!parse_rhs(p, NULL, begin, &operand))
    return false;
  inst->poisoned |= !operand;
  parse_push_ptr(p, operand);
  return true;
}

static bool read_operand(Parser *p, ParseInst *inst) {
  const char *begin = p->in.at;
  const HlShape *shape = NULL;
  if (*begin != '%' && parse_at_shape(p) && !parse_shape(p, &shape))
    return false;
  const char *at = p->in.at;
  if (HL_LIKELY(*at == '%')) {
    const HlSym *name;
    return parse_name(p, &name, "an operand") && add_named_operand(p, inst, name, shape, at);
  }
  if (shape && p->single && !p->scope->outer && (*at == ',' || *at == ')')) {
    HlInst *operand;
    if (!make_operand(p, NULL, shape, at, &operand))
      return false;
    parse_push_ptr(p, operand);
    return true;
  }
  if (shape && (*at == ',' || *at == ')')) {
    hl_warn(p->cx, lex_pos(&p->in, begin), "an operand without a name is ignored, as XLA does");
    return true;
  }
  const char *end = lex_is(*at, LEX_START) ? lex_ident_end(at) : at;
  if (end > at && *lex_skip(&p->in, end) == '(')
    return add_nested_operand(p, inst, begin);
  const HlSym *name;
  return parse_name(p, &name, "an operand: a name or an instruction") &&
         add_named_operand(p, inst, name, shape, at);
}

static bool read_operands(Parser *p, ParseInst *inst) {
  const char *at = p->in.at;
  inst->ops = p->ptrs.n;
  if (!lex_need(&p->in, '(', "at the beginning of the operands"))
    return false;
  if (!lex_at(&p->in, ')')) {
    do {
      if (!read_operand(p, inst))
        return false;
    } while (lex_eat(&p->in, ','));
  }
  inst->n_ops = p->ptrs.n - inst->ops;
  if (!lex_need(&p->in, ')', "at the end of the operands"))
    return false;
  const int want = hl_op_info[inst->op].n_operands;
  if (HL_UNLIKELY(want != HL_ANY && want != inst->n_ops) && !parse_old_transfer(p, inst))
    return parse_error(p, at, "%s expects %d operand%s, but has %d", hl_op_text(inst->op), want,
                       want == 1 ? "" : "s", inst->n_ops);
  return true;
}

// parameter(0)
static bool read_parameter(Parser *p, ParseInst *inst) {
  HlAttr attr = {.key = HL_A_PARAMETER_NUMBER};
  if (!lex_need(&p->in, '(', "before the parameter number"))
    return false;
  const char *at = p->in.at;
  if (!lex_int(&p->in, &attr.i))
    return false;
  if (attr.i < 0)
    return parse_error(p, at, "parameter number must be >= 0");
  const HlComp *comp = p->scope->comp;
  if (attr.i < comp->n_params && comp->params[attr.i])
    return parse_error(p, at, "duplicate parameter number %lld", (long long)attr.i);
  if (attr.i >= p->in.end - p->in.begin)
    return parse_error(p, at,
                       "parameter numbers must be dense, but %lld is greater than the text has "
                       "instructions",
                       (long long)attr.i);
  parse_add_attr(inst, &attr);
  p->scope->n_params++;
  return lex_need(&p->in, ')', "after the parameter number");
}

// The shape of a constant: static, and with a byte for each element, whatever was written.
static const HlShape *constant_shape(Parser *p, const HlShape *shape) {
  HlShapes *shapes = p->m->shapes;
  shape = hl_shape_static(shapes, shape);
  if (shape->dtype == HL_TUPLE) {
    const HlShape **elements = HL_ARRAY(p->m->arena, const HlShape *, shape->rank);
    for (int k = 0; k < shape->rank; k++)
      elements[k] = constant_shape(p, shape->element[k]);
    return hl_shape_tuple(shapes, shape->rank, elements);
  }
  if (!shape->layout || !shape->layout->extra || !shape->layout->extra->element_bits)
    return shape;
  HlLayoutExtra extra = *shape->layout->extra;
  extra.element_bits = 0;
  const bool plain = !extra.n_tiles && !extra.n_splits && extra.tail_padding_alignment == 1 &&
                     !extra.index_type && !extra.pointer_type && !extra.memory_space &&
                     !extra.dynamic_metadata_bytes;
  const HlLayout layout = {shape->layout->minor_to_major, plain ? NULL : &extra};
  return hl_shape_with_layout(shapes, shape, &layout);
}

// constant({1, 2})
static bool read_constant(Parser *p, ParseInst *inst) {
  HlLiteral *literal = NULL;
  if (!lex_need(&p->in, '(', "before the literal"))
    return false;
  inst->shape = constant_shape(p, inst->shape);
  if (HL_UNLIKELY(lex_is(*p->in.at, LEX_START)))
    parse_old_literal(p, inst->shape);
  if (!parse_literal(p, inst->shape, &literal))
    return false;
  parse_add_attr(inst, &(HlAttr){.key = HL_A_VALUE, .ptr = literal});
  return lex_need(&p->in, ')', "after the literal");
}

bool parse_arguments(Parser *p, ParseInst *inst) {
  if (inst->op == HL_OP_PARAMETER)
    return read_parameter(p, inst);
  return inst->op == HL_OP_CONSTANT ? read_constant(p, inst) : read_operands(p, inst);
}
