// opt/gpu/splitk_rewriter.c
//
// splitk-rewriter: for GPUs: a dot that sums up many products and gives few results is cut along
// the contracted dimension, so that more cores have work; the parts are added afterwards. Into how many
// is what costs least by XLA's formula: the product's time by its arithmetic or by its memory, and the sum's.
//
//   r = f32[64,64] dot(f32[64,8192] x, f32[8192,64] y)
//   =>  d = f32[16,64,64] dot(f32[64,16,512] reshape(x), f32[16,512,64] reshape(y)), batch 16
//       r = f32[64,64] reduce(d), dimensions={0}, to_apply=add

#include <math.h>

#include "opt/ask/dots.h"
#include "opt/passes.h"

typedef struct Product {
  double b, m, n, k;
  double bytes[2];     // of an element of each operand, as it is read
  double sum, result;  // of one of a sum of parts, and of the result
  double flops;        // an element of a sum takes
} Product;

// Conversions and the like are computed on the way: what counts is what lies in memory.
static double bytes_read(const HlInst *x) {
  while (hl_is_elementwise(x) && x->n_operands == 1)
    x = x->operands[0];
  return x->shape->dtype == HL_PRED ? 1 : hl_dtype_info[x->shape->dtype].bits / 8.0;
}

static HlDtype sum_type(HlDtype dtype) {
  return hl_is_float(dtype) && dtype != HL_F64 ? HL_F32 : dtype;
}

// Algorithms that make a product of several narrower ones.
static double flops_each(const HlInst *dot) {
  switch (hl_attr_int(dot, HL_A_ALGORITHM)) {
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X3:
  case HL_WORD_dot_algorithm_TF32_TF32_F32_X3: return 12;
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X6: return 20;
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X9: return 28;
  default: return 2;
  }
}

static Product measure(const HlInst *dot, DotDims d) {
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  return (Product){.b = (double)dims_product(x, d.batch[0]),
                   .m = (double)dims_product(x, d.free[0]),
                   .n = (double)dims_product(y, d.free[1]),
                   .k = (double)dims_product(x, d.contract[0]),
                   .bytes = {bytes_read(dot->operands[0]), bytes_read(dot->operands[1])},
                   .sum = hl_dtype_bytes(sum_type(dot->shape->dtype)),
                   .result = hl_dtype_bytes(dot->shape->dtype),
                   .flops = flops_each(dot)};
}

// What XLA measured: the cost of an operation, of a byte of the product, and of a byte and of the start of the sum.
typedef struct Costs {
  int64_t capability;  // of devices from this one on
  double flop, byte, sum_byte, sum;
} Costs;
static const Costs costs[] = {
    {100, 100, 0.0848863, 189.711, 1.21563e8},
    {90, 100, 0.194136, 193.1384, 4.36e7},
    {0, 100, 0.0666955, 467.815, 5.65307e7},
};

static double at_most(double a, double b) {
  return a < b ? a : b;
}

// Tiles of at most 128 by 128 run in waves, as many at a time as fit on the cores; smaller ones share a core.
static double cost_of(const Product *d, double parts, double cores, const Costs *w) {
  enum { TILE = 128 };
  const double k = ceil(d->k / parts), batch = d->b * parts;
  const double tile = at_most(d->m, TILE) * at_most(d->n, TILE);
  const double tiles = batch * ceil(d->m / TILE) * ceil(d->n / TILE);
  const double waves = fmax(1, tiles / (cores * TILE * TILE / tile));
  const double compute = d->flops * tile * k * waves * w->flop;
  const double read = d->b * d->k * (d->m * d->bytes[0] + d->n * d->bytes[1]);
  const double made = d->m * d->n * batch * (parts > 1 ? d->sum : d->result);
  const double product = fmax(compute, (read + made) * w->byte);
  if (parts == 1)
    return product;
  return product + w->sum + (made + d->b * d->m * d->n * d->result) * w->sum_byte;
}

static int64_t choose_parts(Product d, const HlTarget *gpu, double cores) {
  enum { MOST = 2048 };
  const Costs *w = costs;
  while (gpu->capability < w->capability)
    w++;
  int64_t best = 1;
  for (int64_t parts = 2; parts <= MOST; parts *= 2)
    if (cost_of(&d, (double)parts, cores, w) < cost_of(&d, (double)best, cores, w))
      best = parts;
  return best;
}

// So long that each part is whole and begins where 16 bytes do.
static int64_t padded_size(const Product *d, int64_t parts) {
  enum { ALIGNED = 16 };
  const double least = at_most(ALIGNED, at_most(d->bytes[0], d->bytes[1]));
  const int64_t unit = (int64_t)((double)(parts * ALIGNED) / least), k = (int64_t)d->k;
  return (k + unit - 1) / unit * unit;
}

// In memory the parts lie where the dimension lay.
static void keep_layout(HlPass *p, HlInst *reshape, const HlShape *shape, int64_t d) {
  int64_t *minor = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  int n = 0;
  for (int k = 0; k < shape->rank; k++) {
    const int64_t dim = shape->layout->minor_to_major.at[k];
    if (dim >= d)
      minor[n++] = dim + 1;
    if (dim <= d)
      minor[n++] = dim;
  }
  const HlLayout layout = {.minor_to_major = {minor, n}};
  hl_set_shape(reshape, hl_shape_with_layout(p->m->shapes, reshape->shape, &layout));
}

// The contracted dimension as [parts, rest], zeros behind it where it is too short.
static HlInst *split(HlPass *p, HlBuild *b, HlInst *x, int64_t d, int64_t parts, int64_t padded) {
  const HlShape *shape = x->shape;
  if (padded > shape->dim[d]) {
    int64_t *low = HL_ARRAY(p->arena, int64_t, shape->rank),
            *high = HL_ARRAY(p->arena, int64_t, shape->rank);
    high[d] = padded - shape->dim[d];
    x = hl_b_pad(b, x, hl_b_scalar(b, shape->dtype, 0), low, high, NULL);
  }
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0, at = 0; k < shape->rank; k++) {
    if (k == d)
      dim[at++] = parts;
    dim[at++] = k == d ? padded / parts : shape->dim[k];
  }
  HlInst *reshape = hl_b_reshape(b, x, shape->rank + 1, dim);
  if (reshape && shape->layout)
    keep_layout(p, reshape, shape, d);
  return reshape;
}

// Dimensions behind the one that was split.
static HlI64s moved(HlPass *p, HlI64s dims, int64_t from) {
  int64_t *at = HL_ARRAY(p->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    at[k] = dims.at[k] + (dims.at[k] >= from);
  return (HlI64s){at, dims.n};
}

// The list with one more in place `at`.
static HlI64s inserted(HlPass *p, HlI64s dims, int at, int64_t dim) {
  const HlI64s before = {dims.at, at}, after = {dims.at + at, dims.n - at};
  return dims_joined(p->arena, dims_joined(p->arena, before, (HlI64s){&dim, 1}), after);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  const HlDtype dtype = dot->shape->dtype;
  if (d.contract[0].n != 1 || d.contract[1].n != 1 || !all_static(dot) || dot->n_operands != 2 ||
      dot->operands[0]->shape->dtype == HL_S32 || dot->operands[1]->shape->dtype == HL_S32)
    return NULL;
  const HlTarget *gpu = hl_target_of_kind(p->target, HL_TARGET_GPU);
  const Product product = measure(dot, d);
  const int64_t parts = choose_parts(product, gpu, (double)hl_pass_fact(p, "cores", gpu->cores));
  if (parts == 1)
    return NULL;
  HlInst *part[2];
  HlI64s batch[2], contract[2];
  int place = 0;  // of the new batch dimension: where it is among those of the left side
  while (place < d.batch[0].n && d.batch[0].at[place] < d.contract[0].at[0])
    place++;
  for (int side = 0; side < 2; side++) {
    const int64_t k = d.contract[side].at[0];
    part[side] = split(p, b, dot->operands[side], k, parts, padded_size(&product, parts));
    batch[side] = inserted(p, moved(p, d.batch[side], k), place, k);
    contract[side] = moved(p, d.contract[side], k);
  }
  const HlDtype sum = sum_type(dtype);
  HlInst *all = hl_b_dot(b, part[0], part[1], batch[0], batch[1], contract[0], contract[1], sum);
  static const HlAttrKey kept[] = {HL_A_OPERAND_PRECISION, HL_A_ALGORITHM};
  for (int k = 0; all && k < HL_COUNT_OF(kept); k++)
    if (hl_has_attr(dot, kept[k]))
      hl_set_attr(all, hl_attr(dot, kept[k]));
  HlI64s along = dims_from(p->arena, place, 1);
  HlInst *reduced = all ? hl_b_reduce(b, HL_OP_ADD, all, hl_b_scalar(b, sum, 0), along) : NULL;
  if (reduced && dot->shape->layout)
    hl_set_shape(reduced, hl_shape_with_layout(p->m->shapes, reduced->shape, dot->shape->layout));
  return reduced ? hl_b_convert(b, reduced, dtype) : NULL;
}

const HlRule splitk_rules[] = {
    {HL_OP_DOT, rewrite, "splitk-rewriter", "dot(x, y) => reduce(dot(reshape(x), reshape(y)))",
     "one contracted dimension, long; few results"},
    {0},
};
