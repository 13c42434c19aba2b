// tool/env/generate.c: random modules.
//
// A pool of values grows by one rule after the other, each drawn with a weight that is about how often models have it; operands are
// drawn so that what is new is more likely, which gives long chains and a few values that many read.

#include "hilo/generate.h"

#include <string.h>

#include "base/vec.h"
#include "hilo/build.h"

typedef struct Gen {
  HlBuild b;
  HlRng rng;
  const HlGenerateOptions *o;
  VEC(HlInst *) pool;  // f32 arrays of up to three dimensions
} Gen;

static int64_t below(Gen *g, int64_t n) {
  return hl_rng_below(&g->rng, n);
}

static HlInst *any(Gen *g) {
  const int64_t n = g->pool.n, near = n < 8 ? n : 8;
  return g->pool.at[below(g, 3) ? n - 1 - below(g, near) : below(g, n)];
}

// Another of the same sizes, or itself.
static HlInst *like(Gen *g, const HlInst *x) {
  HlInst *found = NULL;
  int64_t seen = 0;
  for (int k = 0; k < g->pool.n; k++)
    if (hl_shape_same_dims(g->pool.at[k]->shape, x->shape) && below(g, ++seen) == 0)
      found = g->pool.at[k];
  return found;
}

static HlI64s all_dims(Gen *g, const HlInst *x) {
  int64_t *at = HL_ARRAY(hl_b_module(&g->b)->arena, int64_t, x->shape->rank + 1);
  for (int k = 0; k < x->shape->rank; k++)
    at[k] = k;
  return (HlI64s){at, x->shape->rank};
}

// --- Rules: NULL where it does not apply -------------------------------------------------------------

static HlInst *unary(Gen *g) {
  static const HlOp ops[] = {HL_OP_TANH, HL_OP_NEGATE, HL_OP_LOGISTIC, HL_OP_ABS, HL_OP_SINE,
                             HL_OP_COSINE, HL_OP_SIGN, HL_OP_CEIL};
  return hl_b_unary(&g->b, ops[below(g, HL_COUNT_OF(ops))], any(g));
}

static HlInst *binary(Gen *g) {
  static const HlOp ops[] = {HL_OP_ADD, HL_OP_ADD, HL_OP_MULTIPLY, HL_OP_SUBTRACT, HL_OP_MAXIMUM,
                             HL_OP_MINIMUM};
  HlInst *x = any(g);
  return hl_b_binary(&g->b, ops[below(g, HL_COUNT_OF(ops))], x, like(g, x));
}

static HlInst *with_constant(Gen *g) {
  static const double values[] = {0, 1, -1, 0.5, 2};
  HlInst *x = any(g);
  const HlOp op = below(g, 2) ? HL_OP_ADD : HL_OP_MULTIPLY;
  return hl_b_binary(&g->b, op, x, hl_b_like(&g->b, x, values[below(g, HL_COUNT_OF(values))]));
}

static HlInst *choice(Gen *g) {
  HlInst *x = any(g), *y = like(g, x);
  HlInst *c = hl_b_compare(&g->b, HL_WORD_direction_LT, x, y);
  return hl_b_select(&g->b, c, x, hl_b_like(&g->b, x, 0));
}

// A mean or a maximum over a dimension, so that sizes stay moderate.
static HlInst *reduction(Gen *g) {
  HlInst *x = any(g);
  if (x->shape->rank == 0)
    return NULL;
  const int64_t dim = below(g, x->shape->rank);
  const HlI64s dims = hl_i64s_copy(hl_b_module(&g->b)->arena, (HlI64s){&dim, 1});
  const double size = (double)x->shape->dim[dim];
  if (below(g, 3) == 0)
    return hl_b_reduce(&g->b, HL_OP_MAXIMUM, x, hl_b_scalar(&g->b, HL_F32, -1e30), dims);
  HlInst *sum = hl_b_reduce(&g->b, HL_OP_ADD, x, hl_b_scalar(&g->b, HL_F32, 0), dims);
  return sum ? hl_b_binary(&g->b, HL_OP_MULTIPLY, sum, hl_b_like(&g->b, sum, 1 / size)) : NULL;
}

// Something smaller along leading dimensions of something larger.
static HlInst *broadcast(Gen *g) {
  HlInst *x = any(g);
  const HlShape *s = x->shape;
  int64_t dim[4];
  if (s->rank >= 3)
    return NULL;
  memcpy(dim, s->dim, sizeof *dim * (size_t)s->rank);
  dim[s->rank] = 1 + below(g, g->o->size);
  return hl_b_broadcast(&g->b, x, s->rank + 1, dim, all_dims(g, x));
}

static HlInst *transposition(Gen *g) {
  HlInst *x = any(g);
  if (x->shape->rank < 2)
    return NULL;
  const HlI64s dims = all_dims(g, x);
  int64_t *turned = hl_arena_copy(hl_b_module(&g->b)->arena, dims.at, sizeof *turned * (size_t)dims.n);
  turned[0] = dims.n - 1;
  turned[dims.n - 1] = 0;
  return hl_b_transpose(&g->b, x, (HlI64s){turned, dims.n});
}

static HlInst *flattening(Gen *g) {
  HlInst *x = any(g);
  const int64_t n = hl_shape_elements(x->shape);
  return x->shape->rank < 2 ? NULL : hl_b_reshape(&g->b, x, 1, &n);
}

static HlInst *part(Gen *g) {
  HlInst *x = any(g);
  if (x->shape->rank == 0)
    return NULL;
  const int dim = (int)below(g, x->shape->rank);
  const int64_t size = x->shape->dim[dim], start = below(g, size);
  return hl_b_slice_dim(&g->b, x, dim, start, start + 1 + below(g, size - start));
}

static HlInst *side_by_side(Gen *g) {
  HlInst *x = any(g);
  if (x->shape->rank == 0 || x->shape->dim[0] > g->o->size)
    return NULL;
  return hl_b_concatenate(&g->b, 2, (HlInst *[]){x, like(g, x)}, 0);
}

// A product of matrices, scaled by the length of what is summed.
static HlInst *product(Gen *g) {
  HlInst *x = any(g);
  if (x->shape->rank != 2)
    return NULL;
  const int64_t k = x->shape->dim[1], n = 1 + below(g, g->o->size), dim[2] = {k, n};
  HlInst *y = NULL;
  for (int i = g->pool.n - 1; i >= 0 && !y; i--)
    if (g->pool.at[i]->shape->rank == 2 && g->pool.at[i]->shape->dim[0] == k)
      y = g->pool.at[i];
  if (!y)
    y = hl_b_full(&g->b, HL_F32, 2, dim, 0.5);
  const int64_t one = 1, zero = 0;
  HlInst *dot = hl_b_dot(&g->b, x, y, (HlI64s){0}, (HlI64s){0}, (HlI64s){&one, 1},
                         (HlI64s){&zero, 1}, HL_F32);
  return dot ? hl_b_binary(&g->b, HL_OP_MULTIPLY, dot, hl_b_like(&g->b, dot, 1 / (double)k)) : NULL;
}

// The value goes through a loop of a few rounds of something elementwise.
static HlInst *loop(Gen *g) {
  HlModule *m = hl_b_module(&g->b);
  HlInst *x = any(g);
  HlInst *init[] = {hl_b_scalar_int(&g->b, HL_S32, 0), x};
  HlInst *tuple = hl_b_tuple(&g->b, 2, init);
  HlComp *cond = hl_comp_new(m, "condition", 9), *body = hl_comp_new(m, "body", 4);
  HlBuild c = {.cx = g->b.cx, .comp = cond}, d = {.cx = g->b.cx, .comp = body};
  HlInst *p = hl_b_parameter(&c, tuple->shape, "p");
  hl_set_root(cond, hl_b_compare(&c, HL_WORD_direction_LT, hl_b_element(&c, p, 0),
                                 hl_b_scalar_int(&c, HL_S32, 2 + below(g, 4))));
  HlInst *q = hl_b_parameter(&d, tuple->shape, "p");
  HlInst *next[] = {hl_b_binary(&d, HL_OP_ADD, hl_b_element(&d, q, 0),
                                hl_b_scalar_int(&d, HL_S32, 1)),
                    hl_b_unary(&d, HL_OP_SINE, hl_b_element(&d, q, 1))};
  hl_set_root(body, hl_b_tuple(&d, 2, next));
  HlInst *w = hl_b_while(&g->b, cond, body, tuple);
  return w ? hl_b_element(&g->b, w, 1) : NULL;
}

static const struct {
  HlInst *(*build)(Gen *g);
  int weight;
  bool is_loop;
} rules[] = {
    {unary, 20, false},        {binary, 30, false},     {with_constant, 12, false},
    {choice, 6, false},        {reduction, 8, false},   {broadcast, 10, false},
    {transposition, 6, false}, {flattening, 3, false},  {part, 5, false},
    {side_by_side, 3, false},  {product, 8, false},     {loop, 2, true},
};

static HlInst *grow(Gen *g) {
  int64_t sum = 0;
  for (int k = 0; k < HL_COUNT_OF(rules); k++)
    sum += rules[k].is_loop && !g->o->loops ? 0 : rules[k].weight;
  int64_t at = below(g, sum);
  for (int k = 0; k < HL_COUNT_OF(rules); k++) {
    at -= rules[k].is_loop && !g->o->loops ? 0 : rules[k].weight;
    if (at < 0)
      return rules[k].build(g);
  }
  return NULL;
}

// --- The module ---------------------------------------------------------------------------------------

static void add_parameters(Gen *g, int n) {
  HlModule *m = hl_b_module(&g->b);
  const int64_t rows = 1 + below(g, g->o->size), columns = 1 + below(g, g->o->size);
  for (int k = 0; k < n; k++) {
    const int64_t dim[2] = {below(g, 2) ? rows : columns, below(g, 2) ? rows : columns};
    const int rank = below(g, 4) ? 2 : 1;
    vec_push(&g->pool, hl_b_parameter(&g->b, hl_shape_array(m->shapes, HL_F32, rank, dim), "x"));
  }
}

static bool finish(Gen *g) {
  HlInst **results = HL_ARRAY(hl_b_module(&g->b)->arena, HlInst *, g->pool.n + 1);
  int n = 0;
  for (int k = 0; k < g->pool.n; k++)
    if (!g->pool.at[k]->first_use && g->pool.at[k]->op != HL_OP_PARAMETER)
      results[n++] = g->pool.at[k];
  HlInst *root = hl_b_tuple(&g->b, n, results);
  if (root)
    hl_set_root(g->b.comp, root);
  return root;
}

HlModule *hl_generate(HlCx *cx, const HlGenerateOptions *options) {
  HlGenerateOptions o = *options;
  o.instructions = o.instructions > 0 ? o.instructions : 40;
  o.parameters = o.parameters > 0 ? o.parameters : 3;
  o.size = o.size > 0 ? o.size : 64;
  HlModule *m = hl_module_new("generated", NULL);
  HlComp *entry = hl_comp_new(m, "main", 4);
  Gen g = {.b = {.cx = cx, .comp = entry}, .rng = {o.seed}, .o = &o};
  hl_comp_set_entry(entry);
  add_parameters(&g, o.parameters);
  const int64_t errors = hl_cx_n_errors(cx), most = 1 << 22;
  while ((int)entry->n_insts < o.instructions && hl_cx_n_errors(cx) == errors) {
    HlInst *made = grow(&g);
    if (made && hl_shape_elements(made->shape) <= most)
      vec_push(&g.pool, made);
  }
  const bool ok = hl_cx_n_errors(cx) == errors && finish(&g) && hl_sort_comps(cx, m);
  vec_free(&g.pool);
  if (ok) {
    hl_unique_names(m);
    hl_complete_entry_layout(m);
    return m;
  }
  hl_module_free(m);
  return NULL;
}
