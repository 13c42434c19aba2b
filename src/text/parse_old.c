// parse_old.c: what texts of years ago say otherwise.
//
// Until 2018 sends and receives had no tokens:
//
//   r = (f32[], u32[]) recv()              t = token[] after-all()
//                                          r = (f32[], u32[], token[]) recv(t)
//   d = f32[] recv-done(r)          =>     d.done = (f32[], token[]) recv-done(r)
//                                          d = f32[] get-tuple-element(d.done), index=0
//
// Constants repeated their shape: c = f32[2,1]{1,0} constant(f32[2,1] { {1}, {2} }).

#include "text/parse.h"

#include <string.h>

static const HlShape *with_token(Parser *p, const HlShape *shape) {
  HlShapes *shapes = p->m->shapes;
  if (!shape || shape->dtype != HL_TUPLE || shape->rank != 2)
    return shape;
  const HlShape *elements[] = {shape->element[0], shape->element[1], hl_shape_token(shapes)};
  return hl_shape_tuple(shapes, 3, elements);
}

bool parse_old_transfer(Parser *p, ParseInst *inst) {
  if (!(inst->op == HL_OP_RECV && inst->n_ops == 0) &&
      !(inst->op == HL_OP_SEND && inst->n_ops == 1))
    return false;
  HlInst *token = hl_inst_new(p->scope->comp, HL_OP_AFTER_ALL, hl_shape_token(p->m->shapes),
                              hl_sym(p->m, "after-all"), 0, NULL);
  hl_set_loc(token, lex_pos(&p->in, inst->op_at).loc);
  parse_push_ptr(p, token);
  inst->n_ops++;
  inst->shape = with_token(p, inst->shape);
  p->rename = true;
  return true;
}

void parse_old_literal(Parser *p, const HlShape *shape) {
  HlBuf text = {0};
  hl_shape_print(&text, shape, false);
  if (shape->rank > 0 && strncmp(p->in.at, text.at, text.n) == 0)
    lex_move(&p->in, p->in.at + text.n);
  hl_buf_free(&text);
}

bool parse_old_operand(const HlInst *operand, const HlShape *shape) {
  const HlShape *now = operand->shape;
  return (operand->op == HL_OP_RECV || operand->op == HL_OP_SEND) && now->rank == 3 &&
         shape->dtype == HL_TUPLE && shape->rank == 2 &&
         hl_shape_compatible(shape->element[0], now->element[0]);
}

void parse_old_done(Parser *p, ParseInst *inst) {
  const HlInst *from = p->ptrs.at[inst->ops];
  HlShapes *shapes = p->m->shapes;
  if (inst->op == HL_OP_SEND_DONE && inst->shape && inst->shape->dtype == HL_TUPLE &&
      inst->shape->rank == 0)
    inst->shape = hl_shape_token(shapes);
  if (inst->op != HL_OP_RECV_DONE || from->op != HL_OP_RECV || !inst->shape ||
      !hl_shape_compatible(inst->shape, from->shape->element[0]))
    return;
  const HlShape *elements[] = {inst->shape, hl_shape_token(shapes)};
  inst->shape = hl_shape_tuple(shapes, 2, elements);
  inst->done = hl_sym(p->m, hl_arena_printf(p->m->arena, "%s.done", inst->name->text));
  p->rename = true;
}

HlInst *parse_old_result(Parser *p, const ParseInst *inst, HlInst *done) {
  HlInst *out = hl_inst_new(p->scope->comp, HL_OP_GET_TUPLE_ELEMENT, done->shape->element[0],
                            inst->name, 1, &done);
  hl_set_int(out, HL_A_INDEX, 0);
  hl_set_loc(out, lex_pos(&p->in, inst->name_at).loc);
  return out;
}
