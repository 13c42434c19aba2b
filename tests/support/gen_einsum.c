// tests/support/gen_einsum.c: a dot over a few dimensions of four kinds, on devices in a grid of three axes. Two are the
// ring along which something is to be exchanged; the third, if it has any size, cuts what else there is.
#include "support/gen_einsum.h"

#include <string.h>

#include "spmd/tiles.h"

enum { LHS, RHS, OUT, ARRAYS };
enum { MAX_DIMS = 8 };
enum { RING = 1, SECOND = 2, GRID = 4, AXES = 3 };  // what cuts a dimension: a set of axes

// A dimension of the dot: which arrays have it, and what cuts it in each.
typedef struct Dim {
  bool in[ARRAYS];
  int64_t size;
  int cut[ARRAYS];
} Dim;

typedef struct Einsum {
  HlRng rng;
  HlBuild b;
  HlModule *m;
  Dim dim[MAX_DIMS];
  int n;
  int order[ARRAYS][MAX_DIMS], rank[ARRAYS];
  int64_t size[AXES];  // of the axes
  int order_of_axes[AXES];
  int64_t device[64];
} Einsum;

static int64_t below(Einsum *e, int64_t n) {
  return hl_rng_below(&e->rng, n);
}

static void add_dims(Einsum *e, int n, bool lhs, bool rhs, bool out) {
  for (int k = 0; k < n; k++)
    e->dim[e->n++] = (Dim){.in = {lhs, rhs, out}, .size = 1 + below(e, 9)};
}

static void put_in_order(Einsum *e, int array) {
  int *order = e->order[array], n = 0;
  for (int k = 0; k < e->n; k++)
    if (e->dim[k].in[array])
      order[n++] = k;
  for (int k = n - 1; k > 0 && array != OUT; k--) {
    const int j = (int)below(e, k + 1), swap = order[k];
    order[k] = order[j];
    order[j] = swap;
  }
  e->rank[array] = n;
}

// The result has the batch, then what is the lhs' own in its order, then the rhs'.
static void order_result(Einsum *e) {
  int *order = e->order[OUT], n = 0;
  for (int k = 0; k < e->n; k++)
    if (e->dim[k].in[LHS] && e->dim[k].in[RHS] && e->dim[k].in[OUT])
      order[n++] = k;
  for (int a = LHS; a <= RHS; a++)
    for (int k = 0; k < e->rank[a]; k++) {
      const Dim *d = &e->dim[e->order[a][k]];
      if (d->in[OUT] && !d->in[a == LHS ? RHS : LHS])
        order[n++] = e->order[a][k];
    }
  e->rank[OUT] = n;
}

// A dimension that is in these arrays, not in those (-1: either), and not taken; -1: none.
static int pick(Einsum *e, int lhs, int rhs, int out) {
  const int wish[] = {lhs, rhs, out};
  int found = -1, n = 0;
  for (int k = 0; k < e->n; k++) {
    const Dim *d = &e->dim[k];
    bool fits = !d->cut[LHS] && !d->cut[RHS] && !d->cut[OUT];
    for (int a = 0; a < ARRAYS; a++)
      fits = fits && (wish[a] < 0 || wish[a] == d->in[a]);
    if (fits && below(e, ++n) == 0)
      found = k;
  }
  return found;
}

static void cut(Einsum *e, int dim, int by, bool lhs, bool rhs, bool out) {
  const bool in[] = {lhs, rhs, out};
  for (int a = 0; dim >= 0 && a < ARRAYS; a++)
    if (in[a] && e->dim[dim].in[a])
      e->dim[dim].cut[a] = by;
}

// Cuts one dimension by the whole ring, or two by an axis of it each.
static void cut_by_ring(Einsum *e, int in_lhs, int in_rhs, int in_out, bool lhs, bool rhs,
                        bool out) {
  const int first = pick(e, in_lhs, in_rhs, in_out);
  cut(e, first, RING, lhs, rhs, out);
  const int other = below(e, 2) ? pick(e, in_lhs, in_rhs, in_out) : -1;
  if (other >= 0)
    cut(e, other, SECOND, lhs, rhs, out);
  else
    cut(e, first, RING | SECOND, lhs, rhs, out);
}

// Each device computes rows by its tile of y, and has a tile of x cut elsewhere.
static void ask_for_gather(Einsum *e) {
  const bool x = below(e, 2), y = !x;
  const int64_t kind = below(e, 3);  // of x' dimension: all have it, x alone, or it is summed
  cut_by_ring(e, y, x, 1, y, x, true);
  if (kind == 0)
    cut_by_ring(e, 1, 1, 1, x, y, false);
  else if (kind == 1)
    cut_by_ring(e, x, y, 1, x, y, false);
  else
    cut_by_ring(e, 1, 1, 0, x, y, false);
  if (below(e, 2))
    cut(e, pick(e, 1, 1, 1), GRID, true, true, true);
  else
    cut(e, pick(e, x, y, 1), GRID, true, true, true);
  if (below(e, 2))
    cut(e, pick(e, 1, 1, 0), GRID, y, x, false);
}

static void ask_for_scatter(Einsum *e) {
  const bool x = below(e, 2);
  cut_by_ring(e, 1, 1, 0, true, true, false);
  cut_by_ring(e, x, !x, 1, false, false, true);
  cut(e, pick(e, -1, -1, 1), GRID, true, true, true);
}

// Which device stands at these places along the axes.
static int64_t device_at(const Einsum *e, const int64_t *at) {
  int64_t n = 0;
  for (int k = 0; k < AXES; k++)
    n = n * e->size[e->order_of_axes[k]] + at[e->order_of_axes[k]];
  return e->device[n];
}

// Takes places along the axes of a set off a number, the last axis first.
static int64_t take_off(const Einsum *e, int axes, int64_t number, int64_t *at) {
  for (int a = AXES - 1; a >= 0; a--)
    if (axes >> a & 1) {
      at[a] = number % e->size[a];
      number /= e->size[a];
    }
  return number;
}

static int64_t size_of(const Einsum *e, int axes) {
  int64_t n = 1;
  for (int a = 0; a < AXES; a++)
    n *= axes >> a & 1 ? e->size[a] : 1;
  return n;
}

static const HlSharding *sharding_of(Einsum *e, int array) {
  int64_t parts[MAX_DIMS], device[64], at[AXES];
  int axes[MAX_DIMS], used = 0;
  for (int k = 0; k < e->rank[array]; k++) {
    axes[k] = e->dim[e->order[array][k]].cut[array] & ~used;
    parts[k] = size_of(e, axes[k]);
    used |= axes[k];
  }
  const int left = ~used & (RING | SECOND | GRID);
  const int64_t n = size_of(e, RING | SECOND | GRID);
  for (int64_t place = 0; place < n; place++) {
    int64_t rest = take_off(e, left, place, at);
    for (int k = e->rank[array] - 1; k >= 0; k--)
      rest = take_off(e, axes[k], rest, at);
    device[place] = device_at(e, at);
  }
  const HlTiles *t =
      hl_tiles_new(e->m->arena, e->rank[array], parts, 1, 1, size_of(e, left), device);
  return hl_tiles_sharding(e->m, t);
}

static void choose_devices(Einsum *e) {
  static const int64_t rings[] = {2, 3, 4, 2, 4, 8}, seconds[] = {1, 1, 2}, grids[] = {1, 1, 2, 3};
  static const int orders[][AXES] = {{0, 1, 2}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}};
  e->size[0] = rings[below(e, HL_COUNT_OF(rings))];
  e->size[1] = seconds[below(e, HL_COUNT_OF(seconds))];
  e->size[2] = grids[below(e, HL_COUNT_OF(grids))];
  memcpy(e->order_of_axes, orders[below(e, HL_COUNT_OF(orders))], sizeof orders[0]);
  const int64_t n = size_of(e, RING | SECOND | GRID);
  for (int64_t k = 0; k < n; k++)
    e->device[k] = k;
  for (int64_t k = n - 1; k > 0 && below(e, 4) == 0; k--) {
    const int64_t j = below(e, k + 1), swap = e->device[k];
    e->device[k] = e->device[j];
    e->device[j] = swap;
  }
  hl_set_devices(e->m, 1, n);
}

static void set_sharding(Einsum *e, HlInst *inst, int array) {
  if (inst)
    hl_set_attr(inst, &(HlAttr){.key = HL_A_SHARDING, .ptr = sharding_of(e, array)});
}

static HlInst *param(Einsum *e, int array, HlDtype dtype) {
  int64_t dim[MAX_DIMS];
  for (int k = 0; k < e->rank[array]; k++)
    dim[k] = e->dim[e->order[array][k]].size;
  HlInst *x = hl_b_parameter(&e->b, hl_shape_array(e->m->shapes, dtype, e->rank[array], dim), NULL);
  set_sharding(e, x, array);
  return x;
}

// Of 8 bits and scaled up, if the type is one of 8 bits.
static HlInst *operand(Einsum *e, int array, HlDtype dtype) {
  HlInst *x = param(e, array, dtype);
  if (dtype != HL_F8E4M3FN)
    return x;
  HlInst *scale = hl_b_parameter(&e->b, hl_shape_scalar(e->m->shapes, HL_F32), NULL);
  HlInst *wide = hl_b_convert(&e->b, x, HL_F32);
  HlInst *all = hl_b_broadcast(&e->b, scale, x->shape->rank, x->shape->dim, (HlI64s){0});
  set_sharding(e, wide, array);
  set_sharding(e, all, array);
  HlInst *scaled = hl_b_binary(&e->b, below(e, 2) ? HL_OP_MULTIPLY : HL_OP_DIVIDE, wide, all);
  set_sharding(e, scaled, array);
  return scaled;
}

// Where an operand has the dimensions that both have, and the result has or has not.
static HlI64s places(Einsum *e, int array, bool out, int64_t *at) {
  int n = 0;
  for (int k = 0; k < e->n; k++)
    for (int j = 0; j < e->rank[array]; j++)
      if (e->order[array][j] == k && e->dim[k].in[LHS] && e->dim[k].in[RHS] &&
          e->dim[k].in[OUT] == out)
        at[n++] = j;
  return (HlI64s){at, n};
}

static HlInst *dot(Einsum *e, HlInst *x, HlInst *y, HlDtype dtype) {
  int64_t at[4][MAX_DIMS];
  HlInst *dot = hl_b_dot(&e->b, x, y, places(e, LHS, true, at[0]), places(e, RHS, true, at[1]),
                         places(e, LHS, false, at[2]), places(e, RHS, false, at[3]),
                         dtype == HL_BF16 ? HL_F32 : HL_NO_DTYPE);
  set_sharding(e, dot, OUT);
  return dot;
}

// One product, or two of the same lhs.
static HlInst *build(Einsum *e) {
  static const HlDtype dtypes[] = {HL_F32, HL_F64, HL_S32, HL_C64, HL_BF16, HL_U8, HL_F8E4M3FN};
  const HlDtype dtype = dtypes[below(e, HL_COUNT_OF(dtypes))];
  HlInst *x = operand(e, LHS, dtype);
  HlInst *d = dot(e, x, operand(e, RHS, dtype), dtype);
  if (!d || below(e, 4))
    return d;
  HlInst *both[] = {d, dot(e, x, operand(e, RHS, dtype), dtype)};
  HlInst *tuple = hl_b_tuple(&e->b, 2, both);
  if (!tuple)
    return NULL;
  const HlSharding **element = HL_ARRAY(e->m->arena, const HlSharding *, 2);
  element[0] = element[1] = sharding_of(e, OUT);
  HlSharding *sharding = HL_NEW(e->m->arena, HlSharding);
  *sharding = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = 2};
  hl_set_attr(tuple, &(HlAttr){.key = HL_A_SHARDING, .ptr = sharding});
  return tuple;
}

HlModule *gen_einsum(HlCx *cx, uint64_t seed) {
  HlModule *m = hl_module_new("einsum", NULL);
  HlComp *entry = hl_comp_new(m, "main", 4);
  hl_comp_set_entry(entry);
  Einsum e = {.rng = {seed}, .m = m, .b = {.cx = cx, .comp = entry}};
  choose_devices(&e);
  add_dims(&e, (int)below(&e, 2), true, true, true);
  add_dims(&e, 1 + (int)below(&e, 2), true, false, true);
  add_dims(&e, 1 + (int)below(&e, 2), false, true, true);
  add_dims(&e, 1 + (int)below(&e, 2), true, true, false);
  put_in_order(&e, LHS);
  put_in_order(&e, RHS);
  order_result(&e);
  if (below(&e, 3))
    ask_for_gather(&e);
  else
    ask_for_scatter(&e);
  HlInst *root = build(&e);
  if (root) {
    hl_set_root(entry, root);
    return m;
  }
  hl_module_free(m);
  return NULL;
}
