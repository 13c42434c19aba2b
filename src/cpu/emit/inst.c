// cpu/emit/inst.c: making instructions, in the list where they belong; constants; lanes of another width.

#include "cpu/emit/inst.h"

#include <string.h>

#include "base/vec.h"

static int log2_of(int size) {
  return __builtin_ctz((unsigned)size);
}

int inst_bytes(const EmitBody *body, int size) {
  const int bytes = body->lanes * size;
  return bytes < 16 ? 16 : bytes;
}

bool inst_has(const EmitBody *body, X86Op op) {
  return op != X86_NONE &&
         (body->evex ? x86_info[op].evex || x86_info[op].vex : x86_info[op].vex != NULL);
}

static int new_value(EmitBody *body, EmitValue value) {
  vec_push_in(body->arena, &body->values, value);
  return body->values.n - 1;
}

// --- Constants -----------------------------------------------------------------------------------

static int constant(EmitBody *body, const EmitValue *value) {
  for (int k = 0; k < body->values.n; k++) {
    const EmitValue *other = &body->values.at[k];
    if (other->constant && memcmp(other->word, value->word, sizeof(value->word)) == 0)
      return k;
  }
  return new_value(body, *value);
}

int inst_const(EmitBody *body, uint64_t bits, int size) {
  for (int width = 8 * size; width < 64; width *= 2) {
    bits &= (UINT64_C(1) << width) - 1;
    bits |= bits << width;
  }
  const int unit = (uint32_t)bits == bits >> 32 ? 4 : 8;
  return constant(body, &(EmitValue){true, true, false, {bits, bits, bits, bits}, unit});
}

int inst_const32(EmitBody *body, const uint8_t bytes[32]) {
  EmitValue value = {true, true, false, {0}, 0};
  memcpy(value.word, bytes, 32);
  return constant(body, &value);
}

int inst_fold(EmitBody *body, uint64_t none, int size) {
  EmitFold fold = {.none = inst_const(body, none, size), .size = size};
  fold.acc = new_value(body, (EmitValue){0});
  for (int k = 0; k < EMIT_WAYS; k++)
    fold.way[k] = new_value(body, (EmitValue){0});
  vec_push_in(body->arena, &body->folds, fold);
  return body->folds.n - 1;
}

int inst_state(EmitBody *body) {
  const int value = new_value(body, (EmitValue){.state = true});
  vec_push_in(body->arena, &body->states, value);
  return value;
}

// --- Instructions --------------------------------------------------------------------------------

static bool varies(const EmitBody *body, int value) {
  return value >= 0 && !body->values.at[value].invariant;
}

int inst_add(EmitBody *body, EmitInst inst) {
  const bool defines = inst.kind != INST_STORE && inst.kind != INST_FOLD &&
                       inst.kind != INST_AT_STORE && inst.kind != INST_CARRY &&
                       inst.kind != INST_WHILE;
  const bool loop = !defines || inst.kind == INST_LOAD || inst.kind == INST_AT_LOAD ||
                    varies(body, inst.r) || varies(body, inst.v) || varies(body, inst.m) ||
                    varies(body, inst.s);
  inst.d = defines ? new_value(body, (EmitValue){.invariant = !loop}) : -1;
  if (body->begins && loop)
    vec_push_in(body->arena, &body->entry, inst);
  else if (body->ends)
    vec_push_in(body->arena, &body->after, inst);
  else if (loop)
    vec_push_in(body->arena, &body->loop, inst);
  else
    vec_push_in(body->arena, &body->before, inst);
  return inst.d;
}

int inst_op3(EmitBody *body, X86Op op, int size, int r, int v, int m, int imm) {
  return inst_add(body,
                  (EmitInst){INST_OP, op, inst_bytes(body, size), -1, r, v, m, -1, imm, -1, 0});
}

int inst_op(EmitBody *body, X86Op op, int size, int v, int m, int imm) {
  return inst_op3(body, op, size, -1, v, m, imm);
}

// The comparison of lanes of 4 or 8 bytes, in the loop, that a mask comes from; NULL: none.
static const EmitInst *comparison_of(const EmitBody *body, int size, int mask) {
  for (int i = body->loop.n - 1; i >= 0; i--) {
    const EmitInst *inst = &body->loop.at[i];
    if (inst->d == mask)
      return inst->kind == INST_OP && x86_info[inst->op].form == X86_KVMI && size >= 4 &&
                     x86_info[inst->op].unit == size
                 ? inst
                 : NULL;
  }
  return NULL;
}

int inst_select(EmitBody *body, int size, int mask, int yes, int no) {
  const EmitInst *compare = body->evex ? comparison_of(body, size, mask) : NULL;
  if (compare)  // a mask register is enough, unless others need the mask
    return inst_add(body, (EmitInst){INST_PICK, compare->op, compare->bytes, -1, no, compare->v,
                                     compare->m, yes, compare->imm, -1, size});
  if (body->evex)
    return inst_op3(body, X86_VPTERNLOGD, size, mask, yes, no, 0xca);
  return inst_add(body, (EmitInst){INST_OP, X86_VPBLENDVB, inst_bytes(body, size), -1, -1, no, yes,
                                   mask, 0, -1, 0});
}

// --- Lanes of another width ------------------------------------------------------------------------

// By logarithm of the widths; the upper bits of narrower ones are signs or zeros.
static const X86Op sign_extend[4][4] = {{0, X86_VPMOVSXBW, X86_VPMOVSXBD, X86_VPMOVSXBQ},
                                        {0, 0, X86_VPMOVSXWD, X86_VPMOVSXWQ},
                                        {0, 0, 0, X86_VPMOVSXDQ}};
static const X86Op zero_extend[4][4] = {{0, X86_VPMOVZXBW, X86_VPMOVZXBD, X86_VPMOVZXBQ},
                                        {0, 0, X86_VPMOVZXWD, X86_VPMOVZXWQ},
                                        {0, 0, 0, X86_VPMOVZXDQ}};
static const X86Op narrow[4][4] = {
    {0}, {X86_VPMOVWB}, {X86_VPMOVDB, X86_VPMOVDW}, {X86_VPMOVQB, X86_VPMOVQW, X86_VPMOVQD}};

// In AVX2 bytes are shuffled within halves of a register: those that stay go to the places where they will be when the upper
// half is put over the lower one.
static int narrow_by_shuffle(EmitBody *body, int value, int from, int to) {
  uint8_t pattern[32];
  memset(pattern, 0x80, sizeof(pattern));  // 0 goes there
  const int lanes = body->lanes, half = 16 / from;
  for (int lane = 0; lane < lanes; lane++)
    for (int k = 0; k < to; k++)
      pattern[lane / half * 16 + lane * to + k] = (uint8_t)(lane % half * from + k);
  const int mask = inst_const32(body, pattern);
  const int low = inst_op(body, X86_VPSHUFB, from, value, mask, 0);
  if (lanes <= half)
    return low;
  const int high = inst_op(body, X86_VEXTRACTI128, from, low, -1, 1);
  return inst_add(body, (EmitInst){INST_OP, X86_VPOR, 16, -1, -1, low, high, -1, 0, -1, 0});
}

int inst_resize(EmitBody *body, int value, int from, int to, bool is_signed) {
  const int a = log2_of(from), b = log2_of(to);
  if (from == to)
    return value;
  if (from < to)
    return inst_op(body, (is_signed ? sign_extend : zero_extend)[a][b], to, -1, value, 0);
  if (!body->evex)
    return narrow_by_shuffle(body, value, from, to);
  return inst_op(body, narrow[a][b], from, value, -1, 0);
}
