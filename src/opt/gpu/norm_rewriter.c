// opt/gpu/norm_rewriter.c
//
// norm-rewriter: layer normalisations become calls of cuDNN.
//
//   m = mean(x), v = mean((x - m)^2)             t = (f32[8,64,1,1], u8[..]) custom-call(
//   y = (x - m) * rsqrt(v + 1e-5) * s + b   =>         reshape(x), reshape(s), reshape(b)),
//                                                      custom_call_target="__cudnn$norm"
//                                                y = reshape(t#0)
//
// s and b are broadcast along the dimensions over which the mean is not taken. Those come first in the call, as
// one; x is transposed where they do not. For the gradient, programs need the mean and r = rsqrt(v + 1e-5) again, and
// r / (v + 1e-5): where that is there, the call gives the mean and r besides, and r * r * r is computed from r.
// The gradient then is another call (norm_gradient.c tells what it computes):
//
//   t = (f32[8,64,1,1] dx, f32[1,64,1,1] ds, f32[1,64,1,1] db, u8[..]) custom-call(x, s, dy, mean, r)

#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/gpu/norm.h"
#include "opt/passes.h"

enum { RANK = 4 };  // the fewest dimensions the library takes

// --- Conditions -----------------------------------------------------------------------------------

static bool is_row_major(const HlInst *inst) {
  return !inst->shape->layout || hl_layout_is_default(inst->shape->layout);
}

static bool has_kernel_type(const HlInst *inst) {
  const HlDtype dtype = inst->shape->dtype;
  return dtype == HL_F32 || dtype == HL_F16 || dtype == HL_BF16;
}

// Scale and bias are of one type: the one that both were widened from, if need be.
static bool agree(Norm *n) {
  HlInst **pair[] = {&n->scale, &n->bias};
  const HlInst *below[2];
  for (int k = 0; k < 2; k++)
    below[k] = (*pair[k])->op == HL_OP_CONVERT ? (*pair[k])->operands[0] : *pair[k];
  if (below[0]->shape->dtype == below[1]->shape->dtype && has_kernel_type(below[0]) &&
      n->scale->shape->dtype == HL_F32)
    for (int k = 0; k < 2; k++)
      *pair[k] = (HlInst *)below[k];
  return n->scale->shape->dtype == n->bias->shape->dtype &&
         hl_shape_same_dims(n->scale->shape, n->bias->shape);
}

// `y`, which stands for the sum, is what the call is to give.
static bool is_for_library(Norm *n, const HlInst *y) {
  return agree(n) && has_kernel_type(n->x) && has_kernel_type(n->scale) &&
         y->shape->dtype == n->x->shape->dtype && is_row_major(n->x) && is_row_major(n->scale) &&
         is_row_major(n->bias) && is_row_major(y) && all_static(y);
}

// --- The call -------------------------------------------------------------------------------------

// The dimensions of x, those that are not reduced first; *n_rows of them.
static HlI64s rows_first(HlArena *arena, const Norm *n, int *n_rows) {
  const HlShape *x = n->x->shape;
  int64_t *order = HL_ARRAY(arena, int64_t, x->rank + 1);
  int at = 0;
  for (int reduced = 0; reduced < 2; reduced++) {
    *n_rows = reduced ? at : 0;
    for (int d = 0, k = 0; d < x->rank; d++) {
      const bool is_reduced = x->dim[d] > 1 && n->reduced >> k & 1;
      k += x->dim[d] > 1;
      if (is_reduced == (reduced == 1))
        order[at++] = d;
    }
  }
  return (HlI64s){order, at};
}

// Rows as one dimension, the reduced ones, and more of size 1.
static HlI64s call_sizes(HlArena *arena, const Norm *n, HlI64s order, int n_rows) {
  int64_t *sizes = HL_ARRAY(arena, int64_t, order.n + RANK);
  int count = 1;
  sizes[0] = 1;
  for (int k = 0; k < order.n; k++) {
    const int64_t size = n->x->shape->dim[order.at[k]];
    if (k < n_rows)
      sizes[0] *= size;
    else
      sizes[count++] = size;
  }
  while (count < RANK)
    sizes[count++] = 1;
  return (HlI64s){sizes, count};
}

// Its elements are moved: what comes out is row-major as well.
static HlInst *moved(HlBuild *b, HlInst *x, HlI64s order) {
  if (!x || dims_are_iota(order))
    return x;
  HlInst *made = hl_b_transpose(b, x, order);
  if (made)
    hl_set_shape(made, hl_shape_array(hl_b_module(b)->shapes, made->shape->dtype, made->shape->rank,
                                      made->shape->dim));
  return made;
}

// The most that the library's kernels need: something for each block that may run.
static int64_t work_space(const HlPass *p, int64_t rows, bool trains) {
  enum { PER_BLOCK = 4 + 256 };
  const HlTarget *t = hl_target_of_kind(p->target, HL_TARGET_GPU);
  return 2 * t->blocks_per_core * t->cores_made * PER_BLOCK + (trains ? 32 : 2 * rows * 4 + 64);
}

static void set_config(HlPass *p, HlInst *call, double epsilon, int64_t room, HlNormKind kind) {
  const HlNormConfig config = {.epsilon = epsilon,
                               .math = HL_MATH_TENSOR,
                               .knobs = hl_str("{}"),
                               .room = room,
                               .kind = kind};
  hl_set_norm_config(p->arena, call, &config);
}

static HlInst *build_call(HlPass *p, HlBuild *b, const Norm *n, HlI64s order, HlI64s sizes,
                          bool trains) {
  HlShapes *shapes = p->m->shapes;
  int64_t *one_row = HL_ARRAY(p->arena, int64_t, sizes.n);
  for (int k = 0; k < sizes.n; k++)
    one_row[k] = k == 0 ? 1 : sizes.at[k];
  HlInst *x = moved(b, n->x, order);
  HlInst *operands[] = {x ? hl_b_reshape(b, x, sizes.n, sizes.at) : NULL,
                        hl_b_reshape(b, n->scale, sizes.n, one_row),
                        hl_b_reshape(b, n->bias, sizes.n, one_row)};
  if (!operands[0] || !operands[1] || !operands[2])
    return NULL;
  const int64_t by_row[RANK] = {sizes.at[0], 1, 1, 1}, room = work_space(p, sizes.at[0], trains);
  const HlShape *parts[4];
  int n_parts = 0;
  parts[n_parts++] = operands[0]->shape;
  if (trains) {
    parts[n_parts++] = hl_shape_array(shapes, n->mean->shape->dtype, RANK, by_row);
    parts[n_parts++] = hl_shape_array(shapes, n->factor->shape->dtype, RANK, by_row);
  }
  parts[n_parts++] = hl_shape_array(shapes, HL_U8, 1, &room);
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(shapes, n_parts, parts),
                             NULL, 3, operands);
  hl_set_call_target(call, HL_CALL_CUDNN_NORM);
  set_config(p, call, n->epsilon, room, trains ? HL_NORM_TRAIN : HL_NORM_INFER);
  return call;
}

static HlInst *result(HlBuild *b, HlInst *call, int k, const HlShape *shape) {
  HlInst *element = hl_b_element(b, call, k);
  return element ? hl_b_reshape(b, element, shape->rank, shape->dim) : NULL;
}

static HlInst *normalised(HlPass *p, HlBuild *b, HlInst *call, const Norm *n, HlI64s order,
                          const HlShape *shape) {
  HlI64s sizes = dims_mapped(p->arena, order, n->x->shape->dim);
  HlInst *element = hl_b_element(b, call, 0);
  HlInst *y = element ? hl_b_reshape(b, element, sizes.n, sizes.at) : NULL;
  y = moved(b, y, dims_inverse(p->arena, order));
  return y ? hl_b_reshape(b, y, shape->rank, shape->dim) : NULL;
}

// --- For the gradient -----------------------------------------------------------------------------

// The factor divided by what it is the root of, which a gradient multiplies by.
static HlInst *cube_of(const Norm *n) {
  for (const HlUse *use = n->factor->first_use; use; use = use->next)
    if (use->user->op == HL_OP_DIVIDE && use->number == 0 &&
        use->user->operands[1] == n->factor->operands[0])
      return use->user;
  return NULL;
}

// One value for each row, all of them used through the array that is found.
static bool is_by_row(const Norm *n, const HlInst *inst) {
  return has_kernel_type(inst) && !hl_has_control(inst) && is_row_major(inst) &&
         hl_shape_elements(n->x->shape) % hl_shape_elements(inst->shape) == 0;
}

static int64_t n_rows_of(const Norm *n) {
  int64_t rows = 1;
  for (int k = 0; k < n->n_dims; k++)
    rows *= n->reduced >> k & 1 ? 1 : n->size[k];
  return rows;
}

static bool trains(HlPass *p, const Norm *n, const HlInst *cube) {
  const int64_t rows = n_rows_of(n);
  if (!cube || hl_has_control(cube) || !n->mean || !is_by_row(n, n->mean) ||
      !is_by_row(n, n->factor) || hl_shape_elements(n->mean->shape) != rows ||
      hl_shape_elements(n->factor->shape) != rows)
    return false;
  // What the call reads must not be computed from what it will give.
  const HlInst *given[] = {n->mean, n->factor};
  for (int k = 0; k < 2; k++)
    if (hl_reaches(p, given[k], n->x) || hl_reaches(p, given[k], n->scale) ||
        hl_reaches(p, given[k], n->bias))
      return false;
  return true;
}

static void give_rest(HlPass *p, HlBuild *b, HlInst *call, const Norm *n, HlInst *cube) {
  HlInst *mean = result(b, call, 1, n->mean->shape), *r = result(b, call, 2, n->factor->shape);
  hl_also(p, n->mean, mean);
  hl_also(p, n->factor, r);
  hl_also(p, cube, hl_b_binary(b, HL_OP_MULTIPLY, hl_b_binary(b, HL_OP_MULTIPLY, r, r), r));
}

// --- The gradient ---------------------------------------------------------------------------------

// The forward call was given this x and this scale.
static bool reads(const NormGradient *g, HlI64s order, HlI64s sizes) {
  HlInst *x = g->call->operands[0], *scale = g->call->operands[1];
  if (x->shape->rank != sizes.n ||
      memcmp(x->shape->dim, sizes.at, sizeof *sizes.at * (size_t)sizes.n) != 0 ||
      scale->op != HL_OP_RESHAPE)
    return false;
  if (x->op == HL_OP_RESHAPE && x != g->norm.x)
    x = x->operands[0];
  if (!dims_are_iota(order)) {
    const HlI64s moved_by = x->op == HL_OP_TRANSPOSE ? hl_dims(x) : (HlI64s){0};
    if (moved_by.n != order.n ||
        memcmp(moved_by.at, order.at, sizeof *order.at * (size_t)order.n) != 0)
      return false;
    x = x->operands[0];
  }
  return x == g->norm.x && norm_below(norm_whole(scale->operands[0]), false).inst == g->norm.scale;
}

static bool is_gradient_for_library(HlPass *p, const NormGradient *g, const HlInst *dx) {
  const HlInst *call = g->call;
  const HlDtype x = call->operands[0]->shape->dtype, scale = call->operands[1]->shape->dtype;
  const int bytes = hl_dtype_bytes(x);
  return has_kernel_type(g->dy) && has_kernel_type(dx) && dx->shape->dtype == x &&
         bytes >= hl_dtype_bytes(g->dy->shape->dtype) && bytes >= hl_dtype_bytes(scale) &&
         g->dscale->shape->dtype == scale && !hl_has_control(g->dscale) && is_row_major(g->dy) &&
         is_row_major(dx) && is_row_major(g->dscale) && all_static(dx) &&
         hl_shape_same_dims(g->dy->shape, g->norm.x->shape) && !hl_reaches(p, g->dscale, g->call) &&
         !hl_reaches(p, g->dscale, g->dy);
}

// Its place may be taken: nothing that the new call reads comes from it.
static bool gives_dbias(HlPass *p, const NormGradient *g) {
  const HlInst *dbias = g->dbias;
  return dbias && dbias->shape->dtype == g->dscale->shape->dtype && is_row_major(dbias) &&
         !hl_has_control(dbias) && !hl_reaches(p, dbias, g->call) && !hl_reaches(p, dbias, g->dy);
}

static HlInst *build_gradient(HlPass *p, HlBuild *b, const NormGradient *g, HlI64s order,
                              HlI64s sizes) {
  HlInst *x = g->call->operands[0], *scale = g->call->operands[1];
  HlInst *dy = moved(b, g->dy, order);
  dy = dy ? hl_b_reshape(b, dy, sizes.n, sizes.at) : NULL;
  if (!dy)
    return NULL;
  const int64_t room = work_space(p, sizes.at[0], false);
  const HlShape *parts[] = {x->shape, scale->shape, scale->shape,
                            hl_shape_array(p->m->shapes, HL_U8, 1, &room)};
  HlInst *operands[] = {x, scale, dy, hl_b_element(b, g->call, 1), hl_b_element(b, g->call, 2)};
  HlInst *made = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(p->m->shapes, 4, parts),
                             NULL, 5, operands);
  hl_set_call_target(made, HL_CALL_CUDNN_NORM);
  set_config(p, made, 0, room, HL_NORM_BACKWARD);
  return made;
}

static HlInst *from_gradient(HlPass *p, HlBuild *b, HlInst *dx) {
  NormGradient g;
  if (!hl_pass_flag(p, "enable") || !norm_match_gradient(dx, &g) ||
      !is_gradient_for_library(p, &g, dx))
    return NULL;
  int n_rows;
  const HlI64s order = rows_first(p->arena, &g.norm, &n_rows);
  const HlI64s sizes = call_sizes(p->arena, &g.norm, order, n_rows);
  const bool has_dbias = gives_dbias(p, &g);
  if (!reads(&g, order, sizes))
    return NULL;
  HlInst *call = build_gradient(p, b, &g, order, sizes);
  if (!call)
    return NULL;
  hl_also(p, g.dscale, result(b, call, 1, g.dscale->shape));
  if (has_dbias)
    hl_also(p, g.dbias, result(b, call, 2, g.dbias->shape));
  return normalised(p, b, call, &g.norm, order, dx->shape);
}

// --- Rules ----------------------------------------------------------------------------------------

static HlInst *rewrite(HlPass *p, HlBuild *b, const HlInst *sum, const HlInst *y) {
  Norm n;
  if (!hl_pass_flag(p, "enable") || !norm_match(sum, &n) || !is_for_library(&n, y))
    return NULL;
  int n_rows;
  const HlI64s order = rows_first(p->arena, &n, &n_rows);
  const HlI64s sizes = call_sizes(p->arena, &n, order, n_rows);
  HlInst *cube = cube_of(&n);
  const bool gives_rest = trains(p, &n, cube);
  HlInst *call = build_call(p, b, &n, order, sizes, gives_rest);
  if (call && gives_rest)
    give_rest(p, b, call, &n, cube);
  return call ? normalised(p, b, call, &n, order, y->shape) : NULL;
}

// The sum may be computed in a wider type than x: then the conversion back is what the call gives.
static HlInst *from_sum(HlPass *p, HlBuild *b, HlInst *sum) {
  return rewrite(p, b, sum, sum);
}

static HlInst *from_convert(HlPass *p, HlBuild *b, HlInst *convert) {
  const HlInst *sum = convert->operands[0];
  if (!hl_one_user(sum) || hl_has_control(sum))
    return NULL;
  return rewrite(p, b, sum, convert);
}

const HlRule norm_rewriter_rules[] = {
    {HL_OP_ADD, from_sum, "norm", "(x - mean) * rsqrt(variance + e) * s + b => cudnn(x, s, b)[0]",
     "s and b broadcast along what is not reduced; floats of up to 32 bits"},
    {HL_OP_SUBTRACT, from_sum, "norm", "x * r * s + b - mean * r * s => cudnn(x, s, b)[0]",
     "r = rsqrt(variance + e)"},
    {HL_OP_ADD, from_gradient, "norm-gradient",
     "dy s r - c r^3 sum(dy s c) / n - sum(dy s r) / n => cudnn(x, s, dy, mean, r)[0]",
     "c = x - mean; a call gives mean and r; the gradient of s is there, too"},
    {HL_OP_CONVERT, from_convert, "norm-convert", "convert(norm) => cudnn(x, s, b)[0]",
     "back to the type of x"},
    {0}};

// A gradient is one of a call that the round before made.
enum { ROUNDS = 3 };

bool pass_norm_rewriter(HlPass *p) {
  return hl_run_rules(p, norm_rewriter_rules, ROUNDS);
}
