// opt/gpu/config_assigner.c
//
// config-assigner: for GPUs: notes which code makes each kernel, and how. XLA measures what Triton and the libraries make of
// it; here what has been measured is read (hilo/tuning.h), and of all else stays what XLA takes where it cannot measure:
// products by Triton in the first sizes of its search, convolutions by the algorithm that cuDNN chooses (-1), and what has no
// code of its own by now is for XLA's native emitters, which choose for themselves.
//
// Products of which no tile can be computed (triton_gemm_fit.c) are for the native emitters, too.
//
//   f = f32[64] fusion(x), kind=kLoop
//   =>  the same, backend_config={"native_emitter_backend_config":{"type":"NATIVE_EMITTER_TYPE_INVALID","unroll_factor":0}}
//
//   g = (c64[8,8], s8[33554432]) custom-call(x, y), custom_call_target="__cublas$lt$matmul"
//   =>  g = (c64[8,8], s8[4194304]) custom-call(..), {.. "selected_algorithm":"0","autotune_workspace_size":"4194304"}
//
//   d = f32[64,32] fusion(x, y), {"kind":"__triton_gemm"}
//   =>  the same, {"kind":"__triton_gemm","triton_gemm_config":{"block_m":"16","block_n":"8","block_k":"16",..}}
//
// Where a fusion was measured to be done best by cuBLAS, it comes apart (fission.c).

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/convs.h"
#include "opt/ask/dots.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/gpu/fission.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"
#include "pass/tuning.h"

// --- What XLA takes without measuring -------------------------------------------------------------

static int64_t power_up(int64_t n) {
  int64_t power = 1;
  while (power < n)
    power *= 2;
  return power;
}

static int64_t power_down(int64_t n) {
  const int64_t power = power_up(n + 1) / 2;
  return power ? power : 1;
}

static int64_t at_most(int64_t n, int64_t most) {
  return n < most ? n : most;
}

static int64_t sizes_of(const HlShape *shape, HlI64s dims) {
  int64_t n = 1;
  for (int k = 0; k < dims.n; k++)
    n *= shape->dim[dims.at[k]];
  return n;
}

// The sizes of a product: batches, rows and columns of the result, numbers summed up for each.
typedef struct Product {
  int64_t batch, m, n, k;
  int bits, result_bits;
} Product;

static Product product_of(HlArena *arena, const HlInst *dot) {
  const DotDims d = dot_dims(arena, dot);
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  return (Product){sizes_of(x, d.batch[0]),      sizes_of(x, d.free[0]),
                   sizes_of(y, d.free[1]),       sizes_of(x, d.contract[0]),
                   hl_dtype_info[x->dtype].bits, hl_dtype_info[dot->shape->dtype].bits};
}

static int64_t tiles_along(int64_t size, int64_t tile) {
  return (size + tile - 1) / tile;
}

// Even the largest tiles that fit into registers, as square as can be, keep each core busy.
static bool fills_device(const HlTarget *t, const Product *p) {
  enum { TILES_EACH = 5, WORD_BITS = 32 };
  const int64_t room = t->registers_per_block * WORD_BITS / p->result_bits;
  const int64_t rows = power_up(p->m), columns = power_up(p->n);
  int64_t m = 1;
  while (4 * m * m <= room)
    m *= 2;
  int64_t n = power_down(room / m);
  if (rows < m) {
    m = rows;
    n = at_most(power_down(room / m), columns);
  }
  if (columns < n) {
    n = columns;
    m = at_most(power_down(room / n), rows);
  }
  return p->batch * tiles_along(p->m, m) * tiles_along(p->n, n) >= TILES_EACH * t->cores;
}

enum { LEAST_M = 16, LEAST_N = 8, LEAST_K = 16 };  // of a tile that units for products take

// The first of the sizes that XLA would measure: the smallest that units for products take, or, of products so large that
// these need not be shared out, 64 rows. Wide numbers then go through three stages where there are so many steps.
static HlFusionConfig first_sizes(const HlTarget *t, const Product *p) {
  enum { STEP = 64, STAGES = 3, WIDE = 32 };
  HlFusionConfig config = {
      .kind = HL_FUSION_TRITON_GEMM, .gemm = true, .gemm_ctas = 1, .gemm_group = {true, 1}};
  const bool large = fills_device(t, p);
  const bool staged = large && p->bits >= WIDE && tiles_along(p->k, STEP) >= STAGES;
  const int64_t step = at_most(power_up(p->k), STEP);
  config.block_m = large ? 64 : LEAST_M;
  config.block_n = large ? 32 : LEAST_N;
  config.block_k = large && step > LEAST_K ? step : LEAST_K;
  config.gemm_stages = staged ? STAGES : 1;
  config.gemm_warps = large && !staged ? 4 : 2;
  return config;
}

static const HlInst *only_dot(const HlInst *fusion) {
  const HlInst *dot = NULL;
  for (const HlInst *inst = fusion_body(fusion)->first; inst; inst = inst->next)
    if (inst->op == HL_OP_DOT) {
      if (dot)
        return NULL;
      dot = inst;
    }
  return dot;
}

// --- Kernels that wait for a choice ---------------------------------------------------------------

// Scatters have no configuration: their order in memory is not fixed, so that they cannot be measured against each other.
static bool is_native(const HlTarget *t, const HlInst *inst) {
  const GpuEmitter emitter = gpu_emitter(t, inst);
  return hl_fusion_code(inst) == HL_FUSION_NONE && emitter != GPU_LIBRARY && emitter != GPU_SCATTER;
}

// False: the kernel has been decided on, or there is nothing to choose.
static bool usual_choice(HlPass *p, const HlInst *inst, Tuned *out) {
  const HlTarget *t = gpu_target(p);
  const Tuned native = {.by = XLA_TUNING__BACKEND__NATIVE_EMITTER,
                        .native = {.known = true, .type = HL_NATIVE_INVALID}};
  *out = (Tuned){0};
  ConvKind kind;
  if (conv_kind(inst, &kind)) {
    *out = (Tuned){.by = XLA_TUNING__BACKEND__CUDNN, .conv = hl_conv_config(p->arena, inst)};
    const bool waits = !out->conv.chosen;
    out->conv.chosen = true;
    out->conv.algorithm = -1;
    out->conv.math = HL_MATH_DEFAULT;
    out->conv.knobs = (HlStr){"{}", 2};
    return waits;
  }
  if (gemm_has_room(inst)) {
    enum { ROOM = 4 << 20 };
    *out = (Tuned){.by = XLA_TUNING__BACKEND__CUBLASLT,
                   .gemm = {.chosen = {true, 0}, .room = {true, ROOM}}};
    return !hl_gemm_config(p->arena, inst).chosen.given;
  }
  if (inst->op != HL_OP_FUSION)
    return false;
  if (hl_fusion_code(inst) == HL_FUSION_TRITON_GEMM) {
    const HlInst *dot = only_dot(inst);
    if (!dot || hl_fusion_config(p->arena, inst).gemm)
      return false;
    const Product product = product_of(p->arena, dot);
    *out = triton_gemm_fits(p->arena, dot, LEAST_M, LEAST_N, LEAST_K)
               ? (Tuned){.by = XLA_TUNING__BACKEND__TRITON, .fusion = first_sizes(t, &product)}
               : native;
    return true;
  }
  *out = native;
  return is_native(t, inst) && !hl_native_config(p->arena, inst).known;
}

// --- Choices --------------------------------------------------------------------------------------

// The call with the memory that the algorithm works in, in the place of one without.
static HlInst *with_room(HlPass *p, HlBuild *b, HlInst *call, int64_t bytes) {
  const HlShape *parts[] = {call->shape->element[0],
                            hl_shape_array(p->m->shapes, HL_U8, 1, &bytes)};
  HlInst *both = hl_inst_copy(b->comp, call, hl_shape_tuple(p->m->shapes, 2, parts),
                              (int)call->n_operands, call->operands);
  HlLiteral *nothing = hl_literal_new(p->cx, call->shape->element[1]);
  if (!nothing)
    return NULL;
  HlInst *result[] = {hl_b_element(b, both, 0), hl_b_constant(b, nothing)};
  hl_literal_unref(nothing);
  return hl_b_tuple(b, 2, result);
}

static void assign_convolution(HlPass *p, HlInst *call, const HlConvConfig *chosen) {
  HlConvConfig config = hl_conv_config(p->arena, call);
  config.chosen = true;
  config.algorithm = chosen->algorithm;
  config.math = chosen->math;
  config.knobs = chosen->knobs;
  config.by_graph = chosen->by_graph;
  config.room = chosen->room;
  const char *old = hl_attr_text(call, HL_A_BACKEND_CONFIG);
  if (chosen->room.value <= 0) {
    if (hl_change(p, "algorithm", call, NULL)) {
      hl_set_conv_config(p->arena, call, &config);
      hl_changed(p);
    }
    return;
  }
  HlBuild b;
  hl_begin(p, "algorithm", call, &b);
  HlInst *by = with_room(p, &b, call, chosen->room.value);
  if (by)
    hl_set_text(by->operands[0]->operands[0], HL_A_BACKEND_CONFIG,
                hl_conv_config_text(p->arena, p->m->dialect, old, &config));
  hl_commit(p, by);
}

static void assign_gemm(HlPass *p, HlInst *call, const HlGemmConfig *chosen) {
  if (!hl_change(p, "gemm", call, NULL))
    return;
  gemm_choose(p, call, chosen);
  hl_changed(p);
}

static void assign_fusion(HlPass *p, HlInst *fusion, const Tuned *tuned) {
  if (!hl_change(p, tuned->by == XLA_TUNING__BACKEND__NATIVE_EMITTER ? "native" : "triton", fusion,
                 NULL))
    return;
  if (tuned->by == XLA_TUNING__BACKEND__NATIVE_EMITTER) {
    if (hl_fusion_code(fusion) == HL_FUSION_TRITON_GEMM)
      hl_remove_attr(fusion, HL_A_BACKEND_CONFIG);
    hl_set_native_config(p->arena, fusion, &tuned->native);
  } else {
    hl_set_fusion_config(p->arena, fusion, &tuned->fusion);
    hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  }
  hl_changed(p);
}

// --- What was measured ----------------------------------------------------------------------------

static bool is_fission(XlaTuning__Backend by) {
  return by == XLA_TUNING__BACKEND__CUBLASLT_FISSION ||
         by == XLA_TUNING__BACKEND__HIPBLASLT_FISSION ||
         by == XLA_TUNING__BACKEND__CUSTOM_KERNEL_FISSION;
}

// NULL: `why` says why it does not come apart, or is NULL after an error.
static HlModule *parts_of(HlPass *p, const HlInst *inst, const Tuned *measured, const char **why) {
  const XlaTuning__Backend here = gpu_target(p)->capability > 0
                                      ? XLA_TUNING__BACKEND__CUBLASLT_FISSION
                                      : XLA_TUNING__BACKEND__HIPBLASLT_FISSION;
  *why = measured->by != here       ? "XLA has no such backend for this device"
         : inst->op != HL_OP_FUSION ? "it is no fusion"
                                    : NULL;
  return *why ? NULL : fission_parts(p, inst, &measured->gemm, why);
}

// Whether a kernel of this kind can be given to the backend here.
static bool is_possible(const HlInst *inst, const Tuned *tuned) {
  ConvKind kind;
  switch (tuned->by) {
  case XLA_TUNING__BACKEND__CUDNN: return conv_kind(inst, &kind);
  case XLA_TUNING__BACKEND__CUBLASLT: return gemm_has_room(inst) && tuned->gemm.room.value >= 0;
  case XLA_TUNING__BACKEND__TRITON: return hl_fusion_code(inst) == HL_FUSION_TRITON_GEMM;
  case XLA_TUNING__BACKEND__BLOCK_LEVEL_EMITTER:
  case XLA_TUNING__BACKEND__NATIVE_EMITTER: return hl_fusion_code(inst) == HL_FUSION_NONE;
  default: return false;
  }
}

// Takes what was measured in place of the usual choice, if there is something and it is possible. With `parts` the fusion comes
// apart into these, which are the caller's. False after reporting.
static bool take_measured(HlPass *p, const HlInst *inst, Tuned *tuned, HlModule **parts) {
  Tuned measured;
  const char *why = NULL;
  *parts = NULL;
  if (!tuning_find(p->cx, p->tuning, p->arena, gpu_target(p), inst, &measured))
    return true;
  if (is_fission(measured.by)) {
    *parts = parts_of(p, inst, &measured, &why);
    if (!*parts && !why)
      return false;
  }
  if (*parts || is_possible(inst, &measured))
    *tuned = measured;
  else
    hl_warn(p->cx, hl_pos(inst), "%s was measured to be best by %s, which is not made here%s%s",
            inst->name->text, tuning_backend(measured.by), why ? ": " : "", why ? why : "");
  return true;
}

static void assign(HlPass *p, HlInst *inst) {
  bool *ok = p->user;
  Tuned tuned;
  HlModule *parts;
  if (!*ok || !usual_choice(p, inst, &tuned))
    return;
  *ok = take_measured(p, inst, &tuned, &parts);
  if (!*ok)
    return;
  tuning_add(p->cx, p->tuned, gpu_target(p), inst, &tuned);
  if (parts)
    fission_inline(p, inst, parts);
  else if (tuned.by == XLA_TUNING__BACKEND__CUDNN)
    assign_convolution(p, inst, &tuned.conv);
  else if (tuned.by == XLA_TUNING__BACKEND__CUBLASLT)
    assign_gemm(p, inst, &tuned.gemm);
  else
    assign_fusion(p, inst, &tuned);
  hl_module_free(parts);
}

bool pass_config_assigner(HlPass *p) {
  bool ok = true;
  p->user = &ok;
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, assign);
  return ok;
}
