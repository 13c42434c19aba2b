// opt/fusion/fusion_code.c: how often an emitter writes out the code of an instruction inside a fusion.
//
// Code is written from the root back, for an index into the result. An instruction of the same
// shape as its user is asked for the same index, and what was computed for that is used again; one
// of another shape is asked for a new index by each such user. So each value has a set of index
// givers, and is written once for each time each of them is.
//
//   root = f32[8] add(x, b)       index givers of x: the fusion (written 1 time)
//   b = f32[8] broadcast(s)       of b: the fusion; of s: b
//
// Counts beyond what is allowed are not told apart: sets are kept small.

#include <string.h>

#include "opt/fusion/fuser.h"

enum { ALLOWED = 15, MAX_GIVERS = ALLOWED + 1 };

static const uint32_t FUSION_ITSELF = UINT32_MAX;

typedef struct Givers {
  int n;
  uint32_t id[MAX_GIVERS];  // of inner instructions
} Givers;

struct FusionCode {
  HlBuf count;   // of uint8_t, by id of inner instructions
  HlBuf givers;  // of Givers, by operand of the fusion
};

static void give(Givers *givers, uint32_t id) {
  for (int k = 0; k < givers->n; k++)
    if (givers->id[k] == id)
      return;
  if (givers->n < MAX_GIVERS)
    givers->id[givers->n++] = id;
}

// Buffers in the arena: the old place of one that grows is let go.
static void reserve(HlArena *arena, HlBuf *buf, size_t size) {
  if (buf->capacity >= size)
    return;
  size_t capacity = buf->capacity * 2 > size ? buf->capacity * 2 : size;
  char *at = HL_ARRAY(arena, char, capacity);
  if (buf->n > 0)
    memcpy(at, buf->at, buf->n);
  buf->at = at;
  buf->capacity = capacity;
}

static void set_count(HlArena *arena, FusionCode *code, uint32_t id, uint8_t count) {
  reserve(arena, &code->count, id + 1);
  if (code->count.n <= id)
    code->count.n = id + 1;
  code->count.at[id] = (char)count;
}

static int times_written(const FusionCode *code, const Givers *givers) {
  int total = 0;
  for (int k = 0; k < givers->n; k++)
    total += givers->id[k] == FUSION_ITSELF ? 1 : (uint8_t)code->count.at[givers->id[k]];
  return total < MAX_GIVERS ? total : MAX_GIVERS;
}

static bool keeps_index(const HlInst *user, const HlInst *operand) {
  if (user->op == HL_OP_TRANSPOSE)
    return true;
  if (!hl_shape_is_array(operand->shape) || !hl_shape_is_array(user->shape))
    return operand->shape == user->shape;
  HlShapes *shapes = user->comp->module->shapes;
  return hl_shape_with_dtype(shapes, operand->shape, user->shape->dtype) == user->shape;
}

static void give_operand(const HlInst *user, const Givers *of_user, const HlInst *operand,
                         Givers *of_operand) {
  if (!keeps_index(user, operand)) {
    give(of_operand, user->id);
    return;
  }
  for (int k = 0; k < of_user->n; k++)
    give(of_operand, of_user->id[k]);
}

static Givers *operand_givers(const FusionCode *code, int operand) {
  return &((Givers *)(void *)code->givers.at)[operand];
}

FusionCode *fusion_code_of(HlArena *arena, const HlInst *fusion) {
  const HlComp *body = fusion_body(fusion);
  FusionCode *code = HL_NEW(arena, FusionCode);
  Givers *givers = HL_ARRAY(arena, Givers, body->next_id);
  give(&givers[body->root->id], FUSION_ITSELF);
  for (const HlInst *inst = body->last; inst; inst = inst->prev) {
    if (inst->op == HL_OP_PARAMETER)
      continue;
    set_count(arena, code, inst->id, (uint8_t)times_written(code, &givers[inst->id]));
    for (uint32_t k = 0; k < inst->n_operands; k++)
      give_operand(inst, &givers[inst->id], inst->operands[k], &givers[inst->operands[k]->id]);
  }
  reserve(arena, &code->givers, sizeof(Givers) * (fusion->n_operands + 1));
  code->givers.n = sizeof(Givers) * fusion->n_operands;
  for (int k = 0; k < (int)fusion->n_operands; k++)
    *operand_givers(code, k) = givers[body->params[k]->id];
  return code;
}

// Uses of the value, counting those inside a fusion that reads it; more than one are not counted
// on.
static bool is_used_again(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n < 2; use = use->next) {
    if (use->user->op == HL_OP_FUSION)
      n += hl_n_users(fusion_body(use->user)->params[use->number]);
    else
      n += hl_is_first_use(use);
  }
  return n > 1;
}

bool fusion_code_too_long(const FusionCode *code, const HlInst *producer, int operand) {
  if (producer->op == HL_OP_BROADCAST)  // the alternative is to write it to memory
    return false;
  int times = times_written(code, operand_givers(code, operand));
  if (times > ALLOWED)
    return true;
  return fusion_opens_block(producer) && (times > 1 || is_used_again(producer));
}

void fusion_code_fused(HlArena *arena, FusionCode *code, const HlInst *fusion, int at,
                       const HlInst *copy) {
  Givers of_copy = *operand_givers(code, at);
  size_t n = code->givers.n / sizeof(Givers) - 1;
  memmove(operand_givers(code, at), operand_givers(code, at + 1),
          (n - (size_t)at) * sizeof(Givers));
  reserve(arena, &code->givers, sizeof(Givers) * (fusion->n_operands + 1));
  for (size_t k = n; k < fusion->n_operands; k++)
    memset(operand_givers(code, (int)k), 0, sizeof(Givers));
  code->givers.n = sizeof(Givers) * fusion->n_operands;
  set_count(arena, code, copy->id, (uint8_t)times_written(code, &of_copy));
  // An operand that the body computes itself by now was none of the fusion's when the copy was
  // made.
  for (uint32_t k = 0; k < copy->n_operands; k++) {
    const HlInst *param = copy->operands[k];
    give_operand(copy, &of_copy, param, operand_givers(code, (int)hl_parameter_number(param)));
  }
}
