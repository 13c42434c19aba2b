// cpu/tile/affine.c: sums over loops: what indices and places in memory are while a nest is lowered.

#include "cpu/tile/build.h"

#include <string.h>

static int64_t gcd(int64_t a, int64_t b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static Affine in_lowest_terms(Affine a) {
  int64_t common = gcd(a.den, a.c);
  for (int v = 0; v < TILE_MAX_VARS; v++)
    common = gcd(common, a.k[v]);
  if (common > 1) {
    a.den /= common;
    a.c /= common;
    for (int v = 0; v < TILE_MAX_VARS; v++)
      a.k[v] /= common;
  }
  return a;
}

Affine affine_const(int64_t c) {
  return (Affine){.c = c, .den = 1};
}

Affine affine_var(int v) {
  Affine a = {.den = 1};
  a.k[v] = 1;
  return a;
}

Affine affine_times(const Affine *a, int64_t by) {
  Affine r = *a;
  r.c *= by;
  for (int v = 0; v < TILE_MAX_VARS; v++)
    r.k[v] *= by;
  return r.den == 1 ? r : in_lowest_terms(r);
}

Affine affine_plus(const Affine *a, int64_t c) {
  Affine r = *a;
  r.c += c * r.den;
  return r;
}

Affine affine_over(const Affine *a, int64_t den) {
  Affine r = *a;
  r.den *= den;
  return in_lowest_terms(r);
}

Affine affine_add(const Affine *a, const Affine *b) {
  Affine r = *a;
  if (r.den != b->den) {
    r.den *= b->den;
    r.c *= b->den;
    for (int v = 0; v < TILE_MAX_VARS; v++)
      r.k[v] *= b->den;
  }
  const int64_t times = r.den / b->den;
  r.c += b->c * times;
  for (int v = 0; v < TILE_MAX_VARS; v++)
    r.k[v] += b->k[v] * times;
  return r.den == 1 ? r : in_lowest_terms(r);
}

Affine affine_dot(int rank, const Affine *map, const int64_t *stride) {
  Affine sum = affine_const(0);
  for (int d = 0; d < rank; d++) {
    const Affine term = affine_times(&map[d], stride[d]);
    sum = affine_add(&sum, &term);
  }
  return sum;
}

bool affine_is_const(const Affine *a) {
  for (int v = 0; v < TILE_MAX_VARS; v++)
    if (a->k[v] != 0)
      return false;
  return a->den == 1;
}

uint32_t affine_deps(const Lower *l, const Affine *a) {
  uint32_t deps = 0;
  for (int v = 0; v < l->n_vars; v++)
    if (a->k[v] != 0)
      deps |= l->var[v].deps;
  return deps;
}

static int64_t floor_over(int64_t a, int64_t den) {
  return a / den - (a % den < 0);
}

void affine_range(const Lower *l, const Affine *a, int64_t *least, int64_t *most) {
  *least = *most = a->c;
  for (int v = 0; v < l->n_vars; v++) {
    const int64_t reach = a->k[v] * (l->var[v].n - 1);
    *(reach < 0 ? least : most) += reach;
  }
  *least = floor_over(*least, a->den);
  *most = floor_over(*most, a->den);
}

// --- Axes -----------------------------------------------------------------------------------------

static bool new_var(Lower *l, const Var *var) {
  if (l->n_vars == TILE_MAX_VARS) {
    tile_fail(l, "too many loops");
    return false;
  }
  l->var[l->n_vars++] = *var;
  return true;
}

// Cut at c0 | c1 | ..., an axis of n is loops of n / cm, ..., c1 / c0, c0 steps.
Affine affine_axis(Lower *l, int64_t n, int block) {
  const int axis = l->n_axes++;
  Affine sum = affine_const(0);
  if (n == 1)
    return sum;
  int64_t mult = 1;
  while (mult < n) {
    int64_t next = n;  // the smallest cut above mult
    for (int k = 0; k < l->cut.n; k++)
      if (l->cut.at[k].axis == axis && l->cut.at[k].at > mult && l->cut.at[k].at < next)
        next = l->cut.at[k].at;
    const int v = l->n_vars;
    if (!new_var(l, &(Var){.n = next / mult,
                           .axis = axis,
                           .mult = mult,
                           .block = block,
                           .node = -1,
                           .deps = UINT32_C(1) << v}))
      return sum;
    l->block.at[block].loops |= UINT32_C(1) << v;
    sum.k[v] = mult;
    mult = next;
  }
  return sum;
}

int tile_index_var(Lower *l, int node, int64_t n) {
  for (int v = 0; v < l->n_vars; v++)
    if (l->var[v].node == node && l->var[v].n == n)
      return v;
  const Var var = {.n = n, .axis = -1, .block = -1, .node = node, .deps = l->node.at[node].deps};
  return new_var(l, &var) ? l->n_vars - 1 : -1;
}

// False: the loop cannot be cut so.
static bool ask_for_cut(Lower *l, int v, int64_t inner) {
  const Var *var = &l->var[v];
  if (var->block < 0 || var->n % inner != 0)
    return false;
  const int64_t at = var->mult * inner;
  for (int k = 0; k < l->cut.n; k++)
    if (l->cut.at[k].axis == var->axis && at % l->cut.at[k].at != 0 && l->cut.at[k].at % at != 0)
      return false;
  vec_push_in(l->arena, &l->cut, ((Cut){var->axis, at}));
  l->again = true;
  tile_fail(l, "a loop is cut");
  return true;
}

// --- Reshapes -------------------------------------------------------------------------------------

// Each term of the place goes to the one dimension where it fits: with sizes [4, 6] (strides 6, 1) 12 i + 2 j + 1, where
// i < 2 and j < 3, is [2 i, 2 j + 1]. Terms that count down are turned round for this, and back. The place is one of the array
// only where it is asked for, behind a pad say: what adds whole arrays to it is 0 there.
typedef enum Split { SPLIT_DONE, SPLIT_CUTS, SPLIT_NO_SUM } Split;

static Split split(Lower *l, Affine a, int rank, const int64_t *dim, const HlI64s *minor_to_major,
                   Affine *map) {
  int64_t all = 1, stride = 1;
  for (int i = 0; i < rank; i++)
    all *= dim[i];
  for (int v = 0; v < l->n_vars; v++) {
    if (a.k[v] < 0)
      a.c += a.k[v] * (l->var[v].n - 1);
    if ((a.k[v] >= all || a.k[v] <= -all) && a.k[v] % all != 0)
      return SPLIT_NO_SUM;
  }
  a.c = (a.c % all + all) % all;
  for (int i = 0; i < rank; i++) {
    const int64_t d = minor_to_major ? minor_to_major->at[i] : (int64_t)rank - 1 - i;
    const int64_t next = stride * dim[d];
    Affine e = affine_const(a.c / stride % dim[d]);
    int64_t most = e.c;
    for (int v = 0; v < l->n_vars; v++) {
      const int64_t k = a.k[v] < 0 ? -a.k[v] : a.k[v], n = l->var[v].n;
      if (k < stride || k >= next)
        continue;
      const int64_t step = k / stride;
      if (k % stride != 0)
        return SPLIT_NO_SUM;
      if (step * (n - 1) >= dim[d])
        return dim[d] % step == 0 && ask_for_cut(l, v, dim[d] / step) ? SPLIT_CUTS : SPLIT_NO_SUM;
      most += step * (n - 1);
      e.k[v] = a.k[v] < 0 ? -step : step;
      e.c += a.k[v] < 0 ? step * (n - 1) : 0;
    }
    if (most >= dim[d])  // it carries from dimension to dimension
      return SPLIT_NO_SUM;
    map[d] = e;
    stride = next;
  }
  return SPLIT_DONE;
}

// By quotients and remainders, computed for each element.
static bool divide(Lower *l, const Affine *place, int rank, const int64_t *dim,
                   const HlI64s *minor_to_major, int scope, Affine *map) {
  int rest = tile_node(
      l,
      &(Node){.kind = NODE_IOTA, .op = VEC_OP_COUNT, .dtype = HL_S64, .scope = scope, .at = place});
  for (int i = 0; i < rank; i++) {
    const int64_t d = minor_to_major ? minor_to_major->at[i] : (int64_t)rank - 1 - i;
    map[d] = affine_const(0);
    if (dim[d] == 1)
      continue;
    const int size = tile_const_i64(l, HL_S64, dim[d]);
    const int index = tile_vec_plain(l, VEC_REMAINDER, HL_S64, HL_S64, scope, rest, size, -1);
    const int v = index < 0 ? -1 : tile_index_var(l, index, dim[d]);
    if (v < 0)
      return false;
    map[d] = affine_var(v);
    rest = tile_vec_plain(l, VEC_DIVIDE, HL_S64, HL_S64, scope, rest, size, -1);
  }
  return true;
}

bool affine_split(Lower *l, const Affine *place, int rank, const int64_t *dim,
                  const HlI64s *minor_to_major, int scope, Affine *map) {
  if (place->den != 1) {
    tile_fail(l, "a reshape of what is spread out");
    return false;
  }
  switch (split(l, *place, rank, dim, minor_to_major, map)) {
  case SPLIT_DONE: return true;
  case SPLIT_CUTS: return false;
  default: return divide(l, place, rank, dim, minor_to_major, scope, map) && !l->why;
  }
}
