// cpu/emit/loop.c: from the ops of a loop to instructions: where values live from turn to turn, and memory. The ops themselves are
// those of segments (select.c, convert.c).

#include "cpu/emit/loop.h"

#include "base/vec.h"
#include "cpu/emit/inst.h"

enum { MAX_OPS = 512, MAX_SLOTS = 200, MAX_PARTS = 8 };

typedef EmitTyped Parts[MAX_PARTS];  // the registers of a value: one, or those of a row

typedef struct Loop {
  EmitBody *body;
  int n;  // of a row
  const EmitLoopOp *op;
  Parts *value;  // by op
} Loop;

static int parts_of(const Loop *l, const EmitLoopOp *op) {
  return op->row ? (l->n + l->body->lanes - 1) / l->body->lanes : 1;
}

// Of an operand: one element is the same for every part.
static EmitTyped *part(Loop *l, int op, int k) {
  return &l->value[op][l->op[op].row ? k : 0];
}

// --- Memory ------------------------------------------------------------------------------------------

static EmitInst access(const Loop *l, InstKind kind, const EmitLoopOp *op, int k) {
  const int size = hl_dtype_bytes(op->op.dtype), lanes = l->body->lanes;
  return (EmitInst){.kind = kind,
                    .bytes = !op->row                  ? INST_ONE
                             : (k + 1) * lanes <= l->n ? lanes * size
                                                       : INST_REST,
                    .d = -1,
                    .r = -1,
                    .v = -1,
                    .m = -1,
                    .s = op->index < 0 ? -1 : l->value[op->index][0].value,
                    .imm = (int)((op->at + k * lanes) * size),
                    .slot = op->op.slot,
                    .size = size};
}

static EmitTyped loaded(const Loop *l, const EmitLoopOp *op, int k) {
  EmitInst inst = access(l, INST_AT_LOAD, op, k);
  if (op->kind == LOOP_GIVEN && !op->row)
    inst.kind = INST_UNIFORM;
  return emit_unpacked(l->body, op->op.dtype, inst_add(l->body, inst));
}

static void store(Loop *l, const EmitLoopOp *op, EmitTyped *from, int k) {
  EmitInst inst = access(l, INST_AT_STORE, op, k);
  inst.v = emit_packed(l->body, op->op.dtype, from);
  inst_add(l->body, inst);
}

// --- State -------------------------------------------------------------------------------------------

static void carry(EmitBody *body, int state, int value) {
  inst_add(body, (EmitInst){.kind = INST_CARRY,
                            .d = -1,
                            .r = -1,
                            .v = value,
                            .m = -1,
                            .s = -1,
                            .imm = state,
                            .slot = -1});
}

// Of a pred the mask is as wide as it is made here: of bytes.
static EmitTyped state(Loop *l, const EmitLoopOp *op, int k) {
  l->body->begins = true;
  EmitTyped out = loaded(l, op, k);
  const int from = out.value;
  out.value = inst_state(l->body);
  carry(l->body, out.value, from);
  l->body->begins = false;
  return out;
}

// State that becomes other state is copied first: that may have changed by then.
static int next_value(Loop *l, const EmitLoopOp *op, int k) {
  EmitTyped *in = part(l, op->op.in[0], k);
  const int value = op->op.dtype == HL_PRED ? inst_mask(l->body, in, 1) : in->value;
  return l->body->values.at[value].state ? inst_op(l->body, X86_VMOVAPS, in->size, -1, value, 0)
                                         : value;
}

// --- Ops ---------------------------------------------------------------------------------------------

static EmitTyped result_of(const EmitOp *op) {
  const HlDtype dtype = op->kind == EMIT_CONVERT ? op->to : op->dtype;
  return (EmitTyped){-1, hl_dtype_bytes(vec_carrier(dtype)), {-1, -1, -1, -1}};
}

static bool makes_pred(const EmitOp *op) {
  if (op->kind == EMIT_VEC)
    return op->dtype == HL_PRED || op->vec == VEC_IS_FINITE ||
           (op->vec >= VEC_EQ && op->vec <= VEC_TOTAL_GE);
  return op->kind == EMIT_CONVERT && op->to == HL_PRED;
}

static bool takes_pred(const EmitOp *op, int k) {
  return op->dtype == HL_PRED || (op->kind == EMIT_VEC && op->vec == VEC_SELECT && k == 0);
}

// By a function, between places in memory, where a pred is a byte.
static bool call(Loop *l, const EmitLoopOp *op, int n_in, EmitTyped *const in[3], int k,
                 EmitTyped *out) {
  EmitBody *body = l->body;
  if (!op->fn)
    return false;
  int operand[3] = {-1, -1, -1};
  for (int j = 0; j < n_in; j++)
    operand[j] = takes_pred(&op->op, j) ? emit_packed(body, HL_PRED, in[j]) : in[j]->value;
  *out = result_of(&op->op);
  if (makes_pred(&op->op))
    out->size = 1;
  const int rest = l->n - k * body->lanes;
  const uintptr_t fn = (uintptr_t)op->fn;
  const int made = inst_add(body, (EmitInst){.kind = INST_CALL,
                                             .bytes = op->row ? 1 : INST_ONE,
                                             .d = -1,
                                             .r = operand[0],
                                             .v = operand[1],
                                             .m = operand[2],
                                             .s = inst_const(body, fn, 8),
                                             .slot = !op->row             ? 1
                                                     : rest < body->lanes ? rest
                                                                          : body->lanes,
                                             .size = out->size});
  out->value = made;
  if (makes_pred(&op->op))
    *out = emit_unpacked(body, HL_PRED, made);
  return true;
}

static bool compute(Loop *l, const EmitLoopOp *op, int k, EmitTyped *out) {
  const int n_in = emit_operands(&op->op);
  EmitTyped *in[3] = {NULL};
  for (int j = 0; j < n_in; j++)
    in[j] = part(l, op->op.in[j], k);
  return emit_select(l->body, &op->op, in, out) || call(l, op, n_in, in, k, out);
}

static bool add(Loop *l, int i, int k) {
  const EmitLoopOp *op = &l->op[i];
  EmitTyped *out = &l->value[i][k];
  switch (op->kind) {
  case LOOP_STATE: *out = state(l, op, k); return true;
  case LOOP_GIVEN: *out = op->row ? state(l, op, k) : loaded(l, op, k); return true;
  case LOOP_LOAD: *out = loaded(l, op, k); return true;
  case LOOP_CONST: return emit_select(l->body, &op->op, (EmitTyped *const[3]){NULL}, out);
  case LOOP_OP: return compute(l, op, k, out);
  case LOOP_SAME: *out = *part(l, op->op.in[0], k); return true;
  case LOOP_WHILE:
    inst_add(l->body, (EmitInst){.kind = INST_WHILE,
                                 .d = -1,
                                 .r = -1,
                                 .v = part(l, op->op.in[0], 0)->value,
                                 .m = -1,
                                 .s = -1,
                                 .slot = -1});
    return true;
  case LOOP_STORE: store(l, op, part(l, op->op.in[0], k), k); return true;
  case LOOP_NEXT: return true;
  }
  return false;
}

// All that is next is known before any of it is put in its place.
static void turn(Loop *l, int n_ops) {
  VEC(int) values = {0};
  for (int i = 0; i < n_ops; i++)
    for (int k = 0; l->op[i].kind == LOOP_NEXT && k < parts_of(l, &l->op[i]); k++)
      vec_push_in(l->body->arena, &values, next_value(l, &l->op[i], k));
  int at = 0;
  for (int i = 0; i < n_ops; i++)
    for (int k = 0; l->op[i].kind == LOOP_NEXT && k < parts_of(l, &l->op[i]); k++)
      carry(l->body, l->value[l->op[i].op.in[1]][k].value, values.at[at++]);
}

static void finish(Loop *l, int n_ops) {
  l->body->ends = true;
  for (int i = 0; i < n_ops; i++) {
    const EmitLoopOp *next = &l->op[i];
    for (int k = 0; next->kind == LOOP_NEXT && k < parts_of(l, next); k++)
      store(l, &l->op[next->op.in[1]], &l->value[next->op.in[1]][k], k);
  }
  l->body->ends = false;
}

// Between pointers to data and to functions C has no conversion, but this system has.
typedef union Place {
  const void *data;
  EmitLoopFn *function;
} Place;

static bool is_near(const EmitLoopOp *op) {
  enum { FAR = 1 << 26 };
  return op->at >= 0 && op->at < FAR;
}

EmitLoopFn *emit_loop(EmitMemory *memory, HlArena *scratch, CpuLevel level, int n, int n_ops,
                      const EmitLoopOp *op, const char *name) {
  EmitBody body;
  EmitOp *all = HL_ARRAY(scratch, EmitOp, n_ops + 1);
  int n_slots = 0;
  for (int k = 0; k < n_ops; k++)
    all[k] = op[k].op;
  if (n_ops > MAX_OPS || n > EMIT_MAX_ROW || !emit_start(&body, scratch, level, n_ops, all) ||
      n > MAX_PARTS * body.lanes)
    return NULL;
  body.is_loop = true;
  Loop l = {&body, n, op, HL_ARRAY(scratch, Parts, n_ops + 1)};
  for (int i = 0; i < n_ops; i++) {
    if (!is_near(&op[i]))
      return NULL;
    for (int k = 0; k < parts_of(&l, &op[i]); k++)
      if (!add(&l, i, k))
        return NULL;
    n_slots = op[i].op.slot >= n_slots ? op[i].op.slot + 1 : n_slots;
  }
  if (n_slots > MAX_SLOTS)
    return NULL;
  turn(&l, n_ops);
  finish(&l, n_ops);
  X86Code code = {.arena = scratch, .takes_notes = emit_memory_tells(memory) & EMIT_KEEPS_TEXT};
  emit_write_loop(&body, n_slots, n % body.lanes, &code);
  const Place place = {emit_place(memory, &code, name)};
  return place.function;
}

const char *emit_loop_text(const EmitMemory *memory, EmitLoopFn *fn) {
  const Place place = {.function = fn};
  return emit_text(memory, place.data);
}
