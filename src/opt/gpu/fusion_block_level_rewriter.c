// opt/gpu/fusion_block_level_rewriter.c
//
// fusion-block-level-rewriter: for GPUs: kernels that Triton's emitter, which works on tiles, does
// better than the others, go to it.
//
//   f = f32[64,8,32] fusion(x), kind=kLoop,        f = f32[64,8,32] fusion(x), kind=kCustom, calls={
//   calls={ ROOT t = transpose(x),            =>   ROOT t = transpose(x) }, "kind":"__triton",
//           dimensions={2,1,0} }                   "block_level_fusion_config":{..[{"sizes":["32","1","32"]}]..}
//
// They are transposes of a parameter, or of a bitcast of one with a last dimension that is a power
// of two, where the last dimension changes places with one that is not next to it; and reductions
// of s32 along one dimension, from a constant, of what is computed element by element: products of
// matrices of integers that have become sums. With the option `all`, these reductions may be of any
// type that Triton has.
//
// Tiles: of a transpose 32 in the two dimensions that change places, 1 in the other ones. Of a
// reduction one result, or 32 neighbouring ones where the last dimension stays; a tile has all that
// they sum up, so that must not be larger than Triton's largest tile, both sizes rounded up to
// powers of two.

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

enum { EDGE = 32 };

static int64_t power_of_two(int64_t size, int64_t most) {
  int64_t power = 1;
  while (power < size && power < most)
    power *= 2;
  return power;
}

// --- Transposes -----------------------------------------------------------------------------------

// A permutation of as few dimensions as possible: those of size 1 are left out, those that stay
// neighbours are one.
typedef struct Order {
  int64_t *from;  // which dimension of the operand
  int *last;      // the last dimension of the result that belongs to it
  int n;
} Order;

static Order shortest_order(HlArena *arena, const HlInst *transpose) {
  const HlShape *shape = transpose->shape;
  const HlI64s perm = hl_dims(transpose);
  Order order = {HL_ARRAY(arena, int64_t, shape->rank + 1), HL_ARRAY(arena, int, shape->rank + 1),
                 0};
  int64_t *group = HL_ARRAY(
      arena, int64_t, shape->rank + 1);  // by dimension of the operand: its part in the result
  int64_t before = -2;
  for (int k = 0; k < shape->rank; k++)
    group[k] = -1;
  for (int k = 0; k < shape->rank; k++) {
    if (shape->dim[k] == 1)
      continue;
    int64_t next = before + 1;
    while (next >= 0 && next < shape->rank && transpose->operands[0]->shape->dim[next] == 1)
      next++;
    if (perm.at[k] != next)
      order.n++;
    order.last[order.n - 1] = k;
    group[perm.at[k]] = order.n - 1;
    before = perm.at[k];
  }
  int64_t n = 0, current = -1;
  for (int d = 0; d < shape->rank; d++) {
    if (group[d] < 0)
      continue;
    if (group[d] != current)
      order.from[group[d]] = n++;
    current = group[d];
  }
  return order;
}

static bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

static bool moves_only(const HlInst *transpose) {
  const HlInst *x = transpose->operands[0];
  if (x->op == HL_OP_PARAMETER)
    return true;
  return x->op == HL_OP_BITCAST && x->operands[0]->op == HL_OP_PARAMETER &&
         triton_is_plain(x->operands[0]) && triton_has_type(x->operands[0]) &&
         x->shape->dtype == x->operands[0]->shape->dtype && x->shape->rank > 0 &&
         is_power_of_two(x->shape->dim[x->shape->rank - 1]);
}

static bool tile_transpose(HlPass *p, const HlInst *fusion, HlI64s *tile, int64_t *largest) {
  const HlInst *root = fusion_body(fusion)->root;
  if (fusion_kind(fusion) != HL_WORD_fusion_kind_LOOP || root->op != HL_OP_TRANSPOSE ||
      !triton_is_plain(root) || !triton_has_type(root) || !triton_is_plain(root->operands[0]) ||
      !moves_only(root) || hl_shape_elements(root->shape) == 0)
    return false;
  const Order order = shortest_order(p->arena, root);
  const int n = order.n;
  if (n < 3 || order.from[n - 1] >= n - 2 || order.from[order.from[n - 1]] != n - 1)
    return false;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, root->shape->rank + 1);
  for (int k = 0; k < root->shape->rank; k++)
    sizes[k] = 1;
  const int ends[] = {order.last[n - 1], order.last[order.from[n - 1]]};
  for (int k = 0; k < 2; k++)
    sizes[ends[k]] = power_of_two(root->shape->dim[ends[k]], EDGE);
  *tile = (HlI64s){sizes, root->shape->rank};
  *largest = sizes[ends[0]] * sizes[ends[1]];
  return true;
}

// --- Reductions -----------------------------------------------------------------------------------

// A body of operations of which each gives an element for an element, up to the root, a reduction.
static bool is_elementwise_before(const HlInst *reduce) {
  const HlShape *sizes = reduce->operands[0]->shape;
  for (const HlInst *inst = reduce->comp->first; inst; inst = inst->next) {
    if (inst == reduce || inst->op == HL_OP_CONSTANT)
      continue;
    if (!triton_is_plain(inst) || !triton_has_type(inst))
      return false;
    if (inst->op == HL_OP_PARAMETER || triton_is_splat(inst))
      continue;
    const bool is_start = inst == reduce->operands[1];
    if (!triton_is_elementwise(inst) || (!is_start && !hl_shape_same_dims(inst->shape, sizes)))
      return false;
  }
  return true;
}

static bool tile_reduction(HlPass *p, const HlInst *fusion, HlI64s *tile, int64_t *largest) {
  const HlInst *root = fusion_body(fusion)->root;
  if (!triton_is_reduction(root) || !triton_is_plain(root) || !is_elementwise_before(root))
    return false;
  const HlShape *shape = root->shape, *summed = root->operands[0]->shape;
  const bool all = hl_pass_flag(p, "all");
  if ((!all && (shape->dtype != HL_S32 || summed->dtype != HL_S32)) ||
      hl_shape_elements(summed) == 0)
    return false;
  const int64_t along = hl_dims(root).at[0];
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    sizes[k] = 1;
  if (along != summed->rank - 1)
    sizes[shape->rank - 1] = power_of_two(shape->dim[shape->rank - 1], EDGE);
  *tile = (HlI64s){sizes, shape->rank};
  const int64_t neighbours = shape->rank ? sizes[shape->rank - 1] : 1;
  const int64_t most = hl_target_of_kind(p->target, HL_TARGET_GPU)->tile_elements;
  *largest = power_of_two(summed->dim[along], 2 * most) * neighbours;
  return *largest <= most;
}

// --- The pass -------------------------------------------------------------------------------------

// What else the configuration says stays.
static void set_config(HlPass *p, HlInst *fusion, HlI64s tile, int64_t largest) {
  HlFusionConfig config = hl_fusion_config(p->arena, fusion);
  config.kind = HL_FUSION_TRITON;
  triton_set_tile(&config, tile, triton_warps(largest));
  HlNativeConfig native = hl_native_config(p->arena, fusion);  // a config is of one kind of emitter
  if (native.known) {
    native.known = false;
    hl_set_native_config(p->arena, fusion, &native);
  }
  hl_set_fusion_config(p->arena, fusion, &config);
}

static void visit_fusion(HlPass *p, HlInst *inst) {
  if (fusion_is_custom(inst) || hl_fusion_code(inst) != HL_FUSION_NONE)
    return;
  HlI64s tile;
  int64_t largest;  // of the tiles on the way
  if ((tile_transpose(p, inst, &tile, &largest) || tile_reduction(p, inst, &tile, &largest)) &&
      hl_change(p, "tile", inst, NULL)) {
    hl_set_int(inst, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
    set_config(p, inst, tile, largest);
    hl_changed(p);
  }
}

bool pass_fusion_block_level_rewriter(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_FUSION, visit_fusion);
  return true;
}
