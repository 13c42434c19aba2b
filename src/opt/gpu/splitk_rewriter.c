// opt/gpu/splitk_rewriter.c
//
// splitk-rewriter: for GPUs: a dot that sums up many products and gives few results is cut along
// the contracted dimension, so that more cores have work; the parts are added afterwards.
//
//   r = f32[64,64] dot(f32[64,8192] x, f32[8192,64] y)
//   =>  d = f32[16,64,64] dot(f32[64,16,512] reshape(x), f32[16,512,64] reshape(y)), batch 16
//       r = f32[64,64] reduce(d), dimensions={0}, to_apply=add

#include "opt/ask/dots.h"
#include "opt/passes.h"

typedef struct Product {
  int64_t b, m, n, k;
  int64_t bits[3];  // of an element of each operand, as it is read, and of the result
} Product;

// Conversions and the like are computed on the way: what counts is what lies in memory.
static int64_t bits_read(const HlInst *x) {
  while (hl_is_elementwise(x) && x->n_operands == 1)
    x = x->operands[0];
  return hl_dtype_info[x->shape->dtype].bits;
}

static Product measure(const HlInst *dot, DotDims d) {
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  return (Product){.b = dims_product(x, d.batch[0]),
                   .m = dims_product(x, d.free[0]),
                   .n = dims_product(y, d.free[1]),
                   .k = dims_product(x, d.contract[0]),
                   .bits = {bits_read(dot->operands[0]), bits_read(dot->operands[1]),
                            hl_dtype_info[dot->shape->dtype].bits}};
}

static int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n)
    power *= 2;
  return power;
}

static int64_t power_of_two_below(int64_t n) {
  int64_t power = 1;
  while (power <= n / 2)
    power *= 2;
  return power;
}

// XLA's measured bounds: how much arithmetic for 256 bits read keeps a core busy, and how long
// what is left of the contracted dimension must be.
static int64_t choose_parts(Product d, int64_t cores) {
  enum {
    BUSY = 240,
    SHORTEST_READ = 768,
    SHORTEST_COMPUTED = 1220,
    MOST = 128,
    ROWS = 64,
    COLUMNS = 128
  };
  const double read = (double)d.m * (double)d.k * (double)d.bits[0] +
                      (double)d.n * (double)d.k * (double)d.bits[1] +
                      (double)d.m * (double)d.n * (double)d.bits[2];
  if (read <= 0)
    return 1;
  if (256.0 * (double)d.m * (double)d.n * (double)d.k / read < BUSY) {
    const int64_t parts = power_of_two_from(d.k / SHORTEST_READ);
    return parts < MOST ? parts : MOST;
  }
  const int64_t tiles = d.b * ((d.m + ROWS - 1) / ROWS) * ((d.n + COLUMNS - 1) / COLUMNS);
  const int64_t wanted = (cores + cores / 2 + tiles - 1) / tiles;
  const int64_t most = power_of_two_below(d.k / SHORTEST_COMPUTED);
  return power_of_two_from(wanted < most ? wanted : most);
}

// The contracted dimension as [parts, rest], zeros before it where it does not divide.
static HlInst *split(HlPass *p, HlBuild *b, HlInst *x, int64_t d, int64_t parts) {
  const HlShape *shape = x->shape;
  const int64_t missing = (parts - shape->dim[d] % parts) % parts;
  if (missing > 0) {
    int64_t *low = HL_ARRAY(p->arena, int64_t, shape->rank),
            *high = HL_ARRAY(p->arena, int64_t, shape->rank);
    low[d] = missing;
    x = hl_b_pad(b, x, hl_b_scalar(b, shape->dtype, 0), low, high, NULL);
  }
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0, at = 0; k < shape->rank; k++) {
    if (k == d)
      dim[at++] = parts;
    dim[at++] = k == d ? (shape->dim[d] + missing) / parts : shape->dim[k];
  }
  return hl_b_reshape(b, x, shape->rank + 1, dim);
}

// Dimensions behind the one that was split.
static HlI64s moved(HlPass *p, HlI64s dims, int64_t from) {
  int64_t *at = HL_ARRAY(p->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    at[k] = dims.at[k] + (dims.at[k] >= from);
  return (HlI64s){at, dims.n};
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  const HlDtype dtype = dot->shape->dtype;
  if (d.contract[0].n != 1 || d.contract[1].n != 1 || !all_static(dot) || dot->n_operands != 2 ||
      dot->operands[0]->shape->dtype == HL_S32 || dot->operands[1]->shape->dtype == HL_S32)
    return NULL;
  const int64_t parts =
      choose_parts(measure(dot, d),
                   hl_pass_fact(p, "cores", hl_target_of_kind(p->target, HL_TARGET_GPU)->cores));
  if (parts == 1)
    return NULL;
  HlInst *part[2];
  HlI64s batch[2], contract[2];
  for (int side = 0; side < 2; side++) {
    const int64_t k = d.contract[side].at[0];
    part[side] = split(p, b, dot->operands[side], k, parts);
    batch[side] = dims_joined(p->arena, moved(p, d.batch[side], k), dims_from(p->arena, k, 1));
    contract[side] = moved(p, d.contract[side], k);
  }
  const bool is_small = hl_is_float(dtype) && dtype != HL_F64;
  const HlDtype sum = is_small ? HL_F32 : dtype;
  HlInst *all = hl_b_dot(b, part[0], part[1], batch[0], batch[1], contract[0], contract[1], sum);
  static const HlAttrKey kept[] = {HL_A_OPERAND_PRECISION, HL_A_ALGORITHM};
  for (int k = 0; all && k < HL_COUNT_OF(kept); k++)
    if (hl_has_attr(dot, kept[k]))
      hl_set_attr(all, hl_attr(dot, kept[k]));
  HlI64s along = dims_from(p->arena, d.batch[0].n, 1);
  HlInst *reduced = all ? hl_b_reduce(b, HL_OP_ADD, all, hl_b_scalar(b, sum, 0), along) : NULL;
  return reduced ? hl_b_convert(b, reduced, dtype) : NULL;
}

const HlRule splitk_rules[] = {
    {HL_OP_DOT, rewrite, "splitk-rewriter", "dot(x, y) => reduce(dot(reshape(x), reshape(y)))",
     "one contracted dimension, long; few results"},
    {0},
};
