// opt/gpu/triton_gemm_tiles.c
//
// For GPUs: kernels of matrix products whose sizes of blocks have been measured say so in the words
// of Triton's emitter, which knows tiles of results only.
//
// convert_triton_gemm_config:
//
//   f = f32[64,128] fusion(x, y), calls={                f = f32[64,128] fusion(x, y), calls={
//     ROOT d = dot(x, y) },                         =>     ROOT d = dot(x, y), {"sizes":["32"]} },
//   "kind":"__triton_gemm",                              "kind":"__triton_nested_gemm_fusion",
//   "triton_gemm_config":{"block_m":"16",                "block_level_fusion_config":{..
//   "block_n":"64","block_k":"32",..}                    "output_tiles":[{"sizes":["16","64"]}],..}
//
// nest_gemm_fusion does the same, but puts what each operand of the dot is computed from into a
// fusion of its own inside the kernel, which bears the operand's tile:
//
//     l = fusion(x), calls={..}, [{"sizes":["16","32"]}]
//     r = fusion(y), calls={..}, [{"sizes":["32","64"]}]
//     ROOT d = dot(l, r)
//
// The tile of the dot's result is [1, .., block_m, block_n]. That of the kernel's result follows
// from it through elementwise operations, transposes, and bitcasts and reshapes that only bring or
// take dimensions of size 1; where something else lies between, the kernel stays as it is, as it
// does with more than one dot.

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

// --- Configurations -------------------------------------------------------------------------------

// False: its blocks have no sizes yet.
static bool read_blocks(HlPass *p, const HlInst *inst, HlFusionConfig *out) {
  if (inst->op != HL_OP_FUSION || !fusion_is_custom(inst))
    return false;
  *out = hl_fusion_config(p->arena, inst);
  return out->gemm && out->block_m > 0 && out->block_n > 0 && out->block_k > 0 && out->split_k <= 1;
}

static int64_t at_least_one(int64_t n) {
  return n ? n : 1;
}

// The words of the emitter that knows tiles only.
static void set_tile(HlPass *p, HlInst *fusion, const HlFusionConfig *blocks, HlI64s tile) {
  HlFusionConfig config = hl_fusion_config(p->arena, fusion);
  config.kind = HL_FUSION_TRITON_NESTED;
  config.gemm = false;
  triton_set_tile(&config, tile, blocks->gemm_warps);
  config.ctas = at_least_one(blocks->gemm_ctas);
  config.stages = at_least_one(blocks->gemm_stages);
  config.tma = blocks->gemm_tma;
  config.roles = blocks->gemm_roles;
  hl_set_fusion_config(p->arena, fusion, &config);
}

// --- Tiles ----------------------------------------------------------------------------------------

// The tile of the one dimension that is summed over, and of the one that is not.
static bool side_tile(HlArena *arena, const HlInst *dot, int side, int64_t contract,
                      int64_t free_size, HlI64s *out) {
  const DotDims d = dot_dims(arena, dot);
  const int rank = dot->operands[side]->shape->rank;
  if (d.contract[side].n != 1 || d.free[side].n != 1)
    return false;
  int64_t *tile = HL_ARRAY(arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    tile[k] = 1;
  tile[d.contract[side].at[0]] = contract;
  tile[d.free[side].at[0]] = free_size;
  *out = (HlI64s){tile, rank};
  return true;
}

// Dimension k of a view, from the outermost one: of a bitcast in memory, of a reshape as it counts.
static int outer_dim(const HlInst *view, const HlShape *shape, int k) {
  const HlLayout *layout = shape->layout;
  const bool by_memory = view->op == HL_OP_BITCAST && layout;
  return by_memory ? (int)layout->minor_to_major.at[shape->rank - 1 - k] : k;
}

// The view only names the dimensions in another order.
static bool only_renames(const HlInst *view, const HlShape *from, const HlShape *to) {
  for (int k = 0; from->rank == to->rank && k < to->rank; k++)
    if (from->dim[outer_dim(view, from, k)] != to->dim[outer_dim(view, to, k)])
      return false;
  return from->rank == to->rank;
}

// Dimensions that have a tile and those that do not go together like the sizes that are not 1.
static bool tile_of_view(const HlInst *inst, const int64_t *tile, int64_t *out) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (only_renames(inst, from, to)) {
    for (int k = 0; k < to->rank; k++)
      out[outer_dim(inst, to, k)] = tile[outer_dim(inst, from, k)];
    return true;
  }
  int i = 0;
  for (int k = 0; k < to->rank; k++) {
    const int d = outer_dim(inst, to, k);
    out[d] = 1;
    if (to->dim[d] == 1)
      continue;
    while (i < from->rank && from->dim[outer_dim(inst, from, i)] == 1)
      i++;
    if (i == from->rank || from->dim[outer_dim(inst, from, i)] != to->dim[d])
      return false;
    out[d] = tile[outer_dim(inst, from, i++)];
  }
  return true;
}

// The tile of a result, given that of one operand.
static bool next_tile(const HlInst *inst, const HlShape *from, const int64_t *tile, int64_t *out) {
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return tile_of_view(inst, tile, out);
  const bool turns = inst->op == HL_OP_TRANSPOSE;
  if (!turns && (!hl_is_elementwise(inst) || !hl_shape_same_dims(inst->shape, from)))
    return false;
  for (int k = 0; k < inst->shape->rank; k++)
    out[k] = tile[turns ? hl_dims(inst).at[k] : k];
  return true;
}

// The tile of the body's result; `insts` are its instructions, operands first.
static bool result_tile(HlPass *p, const HlInst *dot, const HlFusionConfig *blocks,
                        HlInst *const *insts, int n, HlI64s *out) {
  const HlComp *body = dot->comp;
  int64_t **tile = HL_ARRAY(p->arena, int64_t *, body->next_id + 1);
  for (int k = 0; k < n; k++) {
    const HlInst *inst = insts[k];
    const int rank = inst->shape->rank;
    if (inst == dot) {
      tile[inst->id] = HL_ARRAY(p->arena, int64_t, rank + 1);
      for (int d = 0; d < rank; d++)
        tile[inst->id][d] = d == rank - 1 ? blocks->block_n : d == rank - 2 ? blocks->block_m : 1;
      continue;
    }
    for (uint32_t i = 0; i < inst->n_operands && !tile[inst->id]; i++) {
      const HlInst *from = inst->operands[i];
      if (!tile[from->id])
        continue;
      tile[inst->id] = HL_ARRAY(p->arena, int64_t, rank + 1);
      if (!hl_shape_is_array(inst->shape) ||
          !next_tile(inst, from->shape, tile[from->id], tile[inst->id]))
        return false;
    }
  }
  *out = (HlI64s){tile[body->root->id], body->root->shape->rank};
  return out->at != NULL;
}

// --- Kernels --------------------------------------------------------------------------------------

typedef struct Kernel {
  HlInst *fusion, *dot, **insts;
  int n;
  HlFusionConfig blocks;
  HlI64s result, side[2];
} Kernel;

// False: nothing to do.
static bool read_kernel(HlPass *p, HlInst *fusion, Kernel *out) {
  *out = (Kernel){.fusion = fusion};
  if (!read_blocks(p, fusion, &out->blocks) || fusion_kind(fusion) != HL_WORD_fusion_kind_CUSTOM)
    return false;
  out->insts = hl_pass_insts(p, fusion_body(fusion), &out->n);
  for (int k = 0; k < out->n; k++)
    if (out->insts[k]->op == HL_OP_DOT) {
      if (out->dot)
        return false;
      out->dot = out->insts[k];
    }
  const HlFusionConfig *b = &out->blocks;
  return out->dot && out->dot->shape->rank >= 2 &&
         side_tile(p->arena, out->dot, 0, b->block_k, b->block_m, &out->side[0]) &&
         side_tile(p->arena, out->dot, 1, b->block_k, b->block_n, &out->side[1]) &&
         result_tile(p, out->dot, b, out->insts, out->n, &out->result);
}

// Of a body that other kernels call as well this kernel gets its own: read again, from the copy.
static bool own_kernel(HlPass *p, Kernel *kernel) {
  if (!fusion_own_body(kernel->fusion))
    return true;
  return read_kernel(p, kernel->fusion, kernel);
}

static void convert(HlPass *p, Kernel *kernel) {
  HlTileConfig dot = hl_tile_config(p->arena, kernel->dot);
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, dot.sizes.n + 1);
  for (int k = 0; k < dot.sizes.n; k++)
    sizes[k] = dot.sizes.at[k];
  sizes[dot.sizes.n] = kernel->blocks.block_k;
  dot.sizes = (HlI64s){sizes, dot.sizes.n + 1};
  hl_set_tile_config(p->arena, kernel->dot, &dot);
  set_tile(p, kernel->fusion, &kernel->blocks, kernel->result);
}

// --- Nesting --------------------------------------------------------------------------------------

// A fusion, in the body, of what an operand of the dot is computed from.
static HlInst *nest(HlPass *p, const Kernel *kernel, HlInst *operand) {
  HlComp *body = operand->comp;
  HlModule *m = body->module;
  bool *inside = HL_ARRAY(p->arena, bool, body->next_id + 1);
  HlInst **copy = HL_ARRAY(p->arena, HlInst *, body->next_id + 1);
  HlInst **inputs = HL_ARRAY(p->arena, HlInst *, kernel->n + 1);
  int n_inputs = 0;
  inside[operand->id] = true;
  for (int k = kernel->n - 1; k >= 0; k--)
    for (uint32_t i = 0; inside[kernel->insts[k]->id] && i < kernel->insts[k]->n_operands; i++)
      inside[kernel->insts[k]->operands[i]->id] = true;
  const HlSym *name = hl_fresh_comp_name(m, "block_fusion_computation");
  HlComp *nested = hl_comp_new(m, name->text, name->n);
  hl_comp_set_fusion(nested);
  hl_comp_set_thread(nested, body->execution_thread);
  for (int k = 0; k < kernel->n; k++) {
    HlInst *inst = kernel->insts[k];
    if (!inside[inst->id])
      continue;
    if (inst->op == HL_OP_PARAMETER) {
      const char *wish = hl_arena_printf(p->arena, "parameter_%d", n_inputs);
      copy[inst->id] = hl_parameter_new(nested, n_inputs, inst->shape, hl_fresh_name(m, wish));
      inputs[n_inputs++] = inst;
      continue;
    }
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t i = 0; i < inst->n_operands; i++)
      operands[i] = copy[inst->operands[i]->id];
    copy[inst->id] = hl_inst_copy(nested, inst, NULL, (int)inst->n_operands, operands);
  }
  hl_set_root(nested, copy[operand->id]);
  HlInst *fusion = hl_inst_new(body, HL_OP_FUSION, operand->shape, hl_fresh_name(m, "block_fusion"),
                               n_inputs, inputs);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  hl_set_calls(fusion, 1, &nested);
  return fusion;
}

static void nest_side(HlPass *p, const Kernel *kernel, int side) {
  HlInst *fusion = nest(p, kernel, kernel->dot->operands[side]);
  set_tile(p, fusion, &kernel->blocks, kernel->side[side]);
  hl_set_operand(kernel->dot, side, fusion);
}

static void nest_kernel(HlPass *p, Kernel *kernel) {
  for (int side = 0; side < 2; side++)
    nest_side(p, kernel, side);
  for (int k = kernel->n - 1; k >= 0; k--) {
    HlInst *inst = kernel->insts[k];
    if (!inst->first_use && inst != inst->comp->root && inst->op != HL_OP_PARAMETER)
      hl_erase(inst);
  }
  set_tile(p, kernel->fusion, &kernel->blocks, kernel->result);
}

// --- Passes ---------------------------------------------------------------------------------------

static void visit_fusion(HlPass *p, HlInst *inst, const char *rule,
                         void (*change)(HlPass *p, Kernel *kernel)) {
  Kernel kernel;
  if (!read_kernel(p, inst, &kernel) || !hl_change(p, rule, inst, NULL))
    return;
  if (own_kernel(p, &kernel))
    change(p, &kernel);
  hl_changed(p);
}

static void convert_one(HlPass *p, HlInst *fusion) {
  visit_fusion(p, fusion, "tile", convert);
}

static void nest_one(HlPass *p, HlInst *fusion) {
  visit_fusion(p, fusion, "nest", nest_kernel);
}

bool pass_convert_triton_gemm_config(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_FUSION, convert_one);
  return true;
}

bool pass_nest_gemm_fusion(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_FUSION, nest_one);
  return true;
}
