// cpu/emit/segment.c: from ops to instructions: how elements come from memory and go there, and the rest by select.c.

#include "cpu/emit/segment.h"

#include "cpu/emit/inst.h"
#include "hilo/ir.h"

enum { MAX_OPS = 512, MAX_SLOTS = 256 };

// --- Between memory and registers --------------------------------------------------------------------

static bool known_dtype(HlDtype dtype) {
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_PRED:
  case HL_KIND_SINT:
  case HL_KIND_UINT: return true;
  case HL_KIND_FLOAT:
    return dtype == HL_F64 || dtype == HL_F32 || dtype == HL_BF16 || dtype == HL_F16;
  default: return false;
  }
}

static int carried_size(HlDtype dtype) {
  return hl_dtype_bytes(vec_carrier(dtype));
}

EmitTyped emit_unpacked(EmitBody *body, HlDtype dtype, int value) {
  EmitTyped out = {value, carried_size(dtype), {-1, -1, -1, -1}};
  if (dtype == HL_PRED)
    out.value = inst_op(body, X86_VPSUBB, 1, inst_const(body, 0, 1), value, 0);
  else if (dtype == HL_BF16)
    out.value = inst_op(body, X86_VPSLLD_I, 4, -1, inst_resize(body, value, 2, 4, false), 16);
  else if (dtype == HL_F16)
    out.value = inst_op(body, X86_VCVTPH2PS, 4, -1, value, 0);
  return out;
}

int emit_packed(EmitBody *body, HlDtype dtype, EmitTyped *in) {
  if (dtype == HL_PRED)
    return inst_op(body, X86_VPAND, 1, inst_mask(body, in, 1), inst_const(body, 1, 1), 0);
  if (dtype == HL_BF16)
    return inst_resize(body, inst_op(body, X86_VPSRLD_I, 4, -1, in->value, 16), 4, 2, false);
  if (dtype == HL_F16)
    return inst_op(body, X86_VCVTPS2PH, 4, in->value, -1, 0);
  return in->value;
}

static bool move(EmitBody *body, const EmitOp *op, EmitTyped *in, EmitTyped *out) {
  EmitInst inst = {.kind = INST_LOAD,
                   .d = -1,
                   .r = -1,
                   .v = -1,
                   .m = -1,
                   .s = -1,
                   .slot = op->slot,
                   .size = hl_dtype_bytes(op->dtype),
                   .imm = op->ahead};
  switch (op->kind) {
  case EMIT_CONST:
    if (op->dtype == HL_PRED)
      *out = (EmitTyped){inst_const(body, op->bits ? UINT64_MAX : 0, 1), 1, {-1, -1, -1, -1}};
    else
      *out = (EmitTyped){inst_const(body, op->bits, carried_size(op->dtype)),
                         carried_size(op->dtype),
                         {-1, -1, -1, -1}};
    return true;
  case EMIT_STORE:
    inst.kind = INST_STORE;
    inst.v = emit_packed(body, op->dtype, in);
    inst_add(body, inst);
    return true;
  case EMIT_UNIFORM: inst.kind = INST_UNIFORM; break;
  default: break;
  }
  *out = emit_unpacked(body, op->dtype, inst_add(body, inst));
  return true;
}

// --- Folds -----------------------------------------------------------------------------------------------

static bool folded(EmitBody *body, const EmitOp *op, int x, int y, int *out) {
  EmitTyped typed[3], result;
  const int size = carried_size(op->dtype);
  typed[0] = (EmitTyped){x, size, {-1, -1, -1, -1}};
  typed[1] = (EmitTyped){y, size, {-1, -1, -1, -1}};
  const EmitOp vec = {.kind = EMIT_VEC, .vec = op->vec, .dtype = op->dtype};
  if (!select_vec(body, &vec, (EmitTyped *const[3]){&typed[0], &typed[1], NULL}, &result))
    return false;
  *out = result.value;
  return true;
}

// Whole registers alone are folded: elements as wide as the widest.
static bool fold(EmitBody *body, const EmitOp *op, const EmitTyped *in) {
  const int size = carried_size(op->dtype);
  uint64_t none;
  if (size < 4 || size * body->lanes != (body->evex ? 64 : 32) ||
      op->dtype != vec_carrier(op->dtype) || !vec_neutral(op->vec, op->dtype, &none))
    return false;
  const int k = inst_fold(body, none, size);
  const EmitFold f = body->folds.at[k];
  int next, left, right, all;
  if (!folded(body, op, f.acc, in->value, &next))
    return false;
  inst_add(body,
           (EmitInst){INST_FOLD, X86_NONE, body->lanes * size, -1, -1, next, -1, -1, k, -1, size});
  body->ends = true;
  const bool ok = folded(body, op, f.way[0], f.way[1], &left) &&
                  folded(body, op, f.way[2], f.way[3], &right) &&
                  folded(body, op, left, right, &all);
  if (ok)
    inst_add(body, (EmitInst){INST_STORE, X86_NONE, 0, -1, -1, all, -1, -1, 0, op->slot, size});
  body->ends = false;
  return ok;
}

// --- Ops -----------------------------------------------------------------------------------------------

bool emit_select(EmitBody *body, const EmitOp *op, EmitTyped *const in[3], EmitTyped *out) {
  switch (op->kind) {
  case EMIT_VEC: return select_vec(body, op, in, out);
  case EMIT_FOLD: return fold(body, op, in[0]);
  case EMIT_CONVERT: return select_convert(body, op, in[0], out);
  case EMIT_ROUND:
    *out = (EmitTyped){-1, 4, {-1, -1, -1, -1}};
    return select_round(body, op->dtype, in[0]->value, &out->value);
  default: return move(body, op, in[0], out);
  }
}

int emit_operands(const EmitOp *op) {
  switch (op->kind) {
  case EMIT_VEC: return vec_info[op->vec].operands;
  case EMIT_CONVERT:
  case EMIT_ROUND:
  case EMIT_FOLD:
  case EMIT_STORE: return 1;
  default: return 0;
  }
}

// Bytes of the widest lane; 0: some type is not known.
static int widest(int n, const EmitOp *op) {
  int most = 1;
  for (int k = 0; k < n; k++) {
    const HlDtype to = op[k].kind == EMIT_CONVERT ? op[k].to : op[k].dtype;
    if (!known_dtype(op[k].dtype) || !known_dtype(to))
      return 0;
    const int a = carried_size(op[k].dtype), b = carried_size(to);
    most = a > most ? a : most;
    most = b > most ? b : most;
    if (op[k].kind == EMIT_VEC && (op[k].vec == VEC_DIVIDE || op[k].vec == VEC_REMAINDER) &&
        hl_is_integral(op[k].dtype) && a == 4)
      most = 8;  // by way of f64
  }
  return most;
}

bool emit_start(EmitBody *body, HlArena *arena, CpuLevel level, int n, const EmitOp *op) {
  const int lane = widest(n, op);
  if (level < CPU_V3 || lane == 0 || n > MAX_OPS)
    return false;
  const bool evex = level >= CPU_V4;
  *body = (EmitBody){.arena = arena, .evex = evex, .lanes = (evex ? 64 : 32) / lane};
  return true;
}

// Between pointers to data and to functions C has no conversion, but this system has.
typedef union Place {
  const void *data;
  EmitFn *function;
} Place;

EmitFn *emit_segment(EmitMemory *memory, HlArena *scratch, CpuLevel level, int n, const EmitOp *op,
                     const char *name) {
  EmitBody body;
  int n_slots = 0;
  if (!emit_start(&body, scratch, level, n, op))
    return NULL;
  EmitTyped *typed = HL_ARRAY(scratch, EmitTyped, n);
  for (int k = 0; k < n; k++) {
    EmitTyped *in[3] = {NULL};
    for (int j = 0; j < emit_operands(&op[k]); j++)
      in[j] = &typed[op[k].in[j]];
    if (!emit_select(&body, &op[k], in, &typed[k]))
      return NULL;
    const bool moves = op[k].kind == EMIT_LOAD || op[k].kind == EMIT_UNIFORM ||
                       op[k].kind == EMIT_STORE || op[k].kind == EMIT_FOLD;
    if (moves && op[k].slot >= n_slots)
      n_slots = op[k].slot + 1;
  }
  if (n_slots > MAX_SLOTS)
    return NULL;
  X86Code code = {.arena = scratch, .takes_notes = emit_memory_tells(memory) & EMIT_KEEPS_TEXT};
  emit_write(&body, n_slots, &code);
  const Place place = {emit_place(memory, &code, name)};
  return place.function;
}

const char *emit_segment_text(const EmitMemory *memory, EmitFn *fn) {
  const Place place = {.function = fn};
  return emit_text(memory, place.data);
}

bool emit_has(HlArena *scratch, CpuLevel level, const EmitOp *op, int is_const) {
  EmitBody body;
  EmitTyped typed[3], out, *in[3] = {NULL};
  if (!emit_start(&body, scratch, level, 1, op))
    return false;
  for (int j = 0; j < emit_operands(op); j++) {
    const bool pred =
        op->dtype == HL_PRED || (op->kind == EMIT_VEC && op->vec == VEC_SELECT && j == 0);
    const EmitOp operand = {.kind = is_const >> j & 1 ? EMIT_CONST : EMIT_LOAD,
                            .dtype = pred ? HL_PRED : vec_carrier(op->dtype)};
    in[j] = &typed[j];
    move(&body, &operand, NULL, in[j]);
  }
  return emit_select(&body, op, in, &out);
}
