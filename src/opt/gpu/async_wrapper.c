// opt/gpu/async_wrapper.c: work that starts, and is waited for later, so that a GPU runs other work beside it.
//
// async-wrapper: of the kinds that an option names
//
//   y = f32[8,8] dot(a, b)        work { a, b = parameters, ROOT y = dot(a, b) }
//                            =>   s = ((f32[8,4], f32[4,8]), f32[8,8], u32[]) async-start(a, b), calls=work
//                                 y = f32[8,8] async-done(s)
//
// It looks at what the entry reaches through calls, loops and conditionals. Copies have halves of their
// own, copy-start and copy-done.
//
// dynamic-slice-copy-fusion-async-wrapper: fusions that move a piece of an array of which is known where it lies in each
// iteration (dynamic-slice-annotator).
//
// gpu-copy-async-wrapper: copies from so many bytes on, within the device and without a change of layout: copy-start and
// copy-done.
//
// explicit-collectives-group-async-wrapper: a call that the program marked as a group of collectives,
// frontend_attributes={_collectives_group=""}, starts and ends as one. What is inside no longer belongs to any
// scheduling group of its own; the group as a whole keeps all that was said of the call.

#include <string.h>

#include "hilo/cost.h"
#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"
#include "opt/ask/loops.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

// --- async-wrapper ------------------------------------------------------------------------------

static bool is_cublaslt(HlPass *p, const HlInst *inst) {
  (void)p;
  return hl_call_info[hl_call_target(inst)].library == HL_LIBRARY_CUBLASLT;
}

static const struct {
  const char *name;
  HlOp op;
  bool (*is)(HlPass *p, const HlInst *inst);  // NULL: all of the op
} kinds[] = {
    {"cublaslt", HL_OP_CUSTOM_CALL, is_cublaslt},
    {"triton", HL_OP_FUSION, triton_is_gemm},
    {"convolution", HL_OP_CONVOLUTION, NULL},
    {"copy", HL_OP_COPY, NULL},
    {"custom-call", HL_OP_CUSTOM_CALL, NULL},
    {"dot", HL_OP_DOT, NULL},
    {"fusion", HL_OP_FUSION, NULL},
    {"sort", HL_OP_SORT, NULL},
};

static int find_kind(const char *name, size_t length) {
  for (int k = 0; k < HL_COUNT_OF(kinds); k++)
    if (strlen(kinds[k].name) == length && strncmp(kinds[k].name, name, length) == 0)
      return k;
  return -1;
}

// The kinds that the option names, as bits; false after reporting one that does not exist.
static bool read_kinds(HlPass *p, uint32_t *out) {
  *out = 0;
  for (const char *text = hl_pass_text(p, "kinds"); *text;) {
    const size_t length = strcspn(text, "/");
    const int kind = find_kind(text, length);
    if (kind < 0) {
      hl_error(p->cx, (HlPos){0}, "async-wrapper: no kind '%.*s'", (int)length, text);
      return false;
    }
    *out |= 1u << kind;
    text += length + (text[length] == '/');
  }
  return true;
}

static bool is_wanted(HlPass *p, uint32_t wanted, const HlInst *inst) {
  for (int k = 0; k < HL_COUNT_OF(kinds); k++)
    if ((wanted >> k & 1) && kinds[k].op == (HlOp)inst->op &&
        (!kinds[k].is || kinds[k].is(p, inst)))
      return true;
  return false;
}

static HlInst *start_copy(HlPass *p, HlBuild *b, const HlInst *copy) {
  const HlShape *parts[3] = {copy->shape, copy->operands[0]->shape,
                             hl_shape_scalar(p->m->shapes, HL_U32)};
  return hl_inst_new(b->comp, HL_OP_COPY_START, hl_shape_tuple(p->m->shapes, 3, parts), NULL, 1,
                     copy->operands);
}

static void wrap(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "wrap", inst, &b);
  const bool is_copy = inst->op == HL_OP_COPY;
  HlInst *start = is_copy ? start_copy(p, &b, inst)
                          : async_start(p, &b, inst, hl_shape_scalar(p->m->shapes, HL_U32));
  HlInst *done = hl_inst_new(b.comp, is_copy ? HL_OP_COPY_DONE : HL_OP_ASYNC_DONE, inst->shape,
                             NULL, 1, &start);
  async_inherit(start, inst);
  async_inherit(done, inst);
  async_commit(p, inst, start, done);
}

// Marks what the entry reaches through calls, loops and conditionals.
static bool *reached_comps(HlPass *p, HlComp *const *comps, int n) {
  bool *reached = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  reached[p->m->entry->id] = true;
  // Callers stand behind what they call.
  for (int c = n; c-- > 0;)
    for (const HlInst *inst = reached[comps[c]->id] ? comps[c]->first : NULL; inst;
         inst = inst->next) {
      const bool goes_on = hl_op_is((HlOp)inst->op, HL_T_CONTROL);
      for (uint32_t k = 0; goes_on && k < inst->n_calls; k++)
        reached[hl_called(inst, k)->id] = true;
    }
  return reached;
}

static void wrap_all(HlPass *p, uint32_t wanted,
                     bool (*is)(HlPass *p, uint32_t wanted, const HlInst *inst)) {
  p->relay_control = true;
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  const bool *reached = reached_comps(p, comps, n);
  for (int c = 0; c < n; c++) {
    if (!reached[comps[c]->id] || comps[c]->schedule || async_is_body(comps[c]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && is(p, wanted, insts[k]))
        wrap(p, insts[k]);
  }
}

bool pass_async_wrapper(HlPass *p) {
  uint32_t wanted;
  if (!read_kinds(p, &wanted))
    return false;
  if (wanted != 0 && hl_pass_flag(p, "enable"))
    wrap_all(p, wanted, is_wanted);
  return true;
}

// --- dynamic-slice-copy-fusion-async-wrapper ----------------------------------------------------

static const HlInst *through_bitcast(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST ? inst->operands[0] : inst;
}

static bool is_input(const HlInst *inst) {
  return through_bitcast(inst)->op == HL_OP_PARAMETER;
}

static bool takes_known_piece(HlPass *p, const HlInst *inst) {
  return inst->op == HL_OP_DYNAMIC_SLICE && is_input(inst->operands[0]) &&
         hl_slice_config(p->arena, inst).known;
}

// A piece is taken, or put where it belongs, or both.
static bool moves_known_piece(HlPass *p, uint32_t wanted, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION || hl_fusion_code(inst) != HL_FUSION_NONE)
    return false;
  const HlInst *slice = through_bitcast(hl_called(inst, 0)->root);
  if (slice->op != HL_OP_DYNAMIC_UPDATE_SLICE)
    return takes_known_piece(p, slice);
  return is_input(slice->operands[0]) && hl_slice_config(p->arena, slice).known &&
         (is_input(slice->operands[1]) ||
          takes_known_piece(p, through_bitcast(slice->operands[1])));
}

bool pass_dynamic_slice_copy_wrapper(HlPass *p) {
  wrap_all(p, 0, moves_known_piece);
  return true;
}

// --- gpu-copy-async-wrapper ---------------------------------------------------------------------

static bool is_large_copy(HlPass *p, uint32_t wanted, const HlInst *inst) {
  const int64_t least = hl_pass_int(p, "min_bytes");
  if (inst->op != HL_OP_COPY || least < 0)
    return false;
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  return hl_shape_is_array(to) && from == to && hl_memory_space(to) == 0 &&
         hl_leaf_bytes(to) >= least;
}

bool pass_gpu_copy_wrapper(HlPass *p) {
  wrap_all(p, 0, is_large_copy);
  return true;
}

// --- explicit-collectives-group-async-wrapper ---------------------------------------------------

static void wrap_group(HlPass *p, HlInst *call) {
  HlBuild b;
  hl_begin(p, "group", call, &b);
  HlComp *group = hl_comp_copy(p->m, hl_to_apply(call), "collectives_group", false, NULL);
  for (HlInst *inst = group->first; inst; inst = inst->next)
    frontend_remove(inst, "_scheduling_group_id");
  const HlShape *parts[2] = {async_operand_shapes(p, call), call->shape};
  HlInst *start = hl_inst_new(b.comp, HL_OP_ASYNC_START, hl_shape_tuple(p->m->shapes, 2, parts),
                              NULL, (int)call->n_operands, call->operands);
  hl_set_calls(start, 1, &group);
  async_finish(p, &b, call, start);
}

bool pass_collectives_group_wrapper(HlPass *p) {
  p->relay_control = true;
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++) {
    if (comps[c]->schedule || async_is_body(comps[c]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[c], &n_insts);
    for (int k = 0; k < n_insts; k++)
      if (hl_alive(insts[k]) && insts[k]->op == HL_OP_CALL &&
          frontend_has(insts[k], "_collectives_group"))
        wrap_group(p, insts[k]);
  }
  return true;
}
