// iota.c: short forms of device lists: reshape(transpose(reshape(iota))).

#include "ir/sharding.h"

#include <string.h>

int64_t ir_product(HlI64s sizes) {
  int64_t product = 1;
  for (int k = 0; k < sizes.n; k++)
    if (sizes.at[k] < 0 || __builtin_mul_overflow(product, sizes.at[k], &product))
      return -1;
  return product;
}

static bool is_permutation(HlArena *arena, HlI64s perm) {
  bool *seen = HL_ARRAY(arena, bool, perm.n + 1);
  for (int k = 0; k < perm.n; k++) {
    if (perm.at[k] < 0 || perm.at[k] >= perm.n || seen[perm.at[k]])
      return false;
    seen[perm.at[k]] = true;
  }
  return true;
}

HlIota ir_iota_simplify(HlArena *arena, HlIota iota) {
  const int n = iota.dims.n;
  if (n <= 1 || iota.perm.n != n || !is_permutation(arena, iota.perm))
    return iota;
  // Runs of source dimensions that stay together under the transpose become one; `size` of the
  // first holds the whole, that of the others 1.
  int64_t *size = HL_ARRAY(arena, int64_t, n), *place = HL_ARRAY(arena, int64_t, n);
  int64_t *kept = HL_ARRAY(arena, int64_t, n);
  int64_t *next = HL_ARRAY(arena, int64_t, n);  // the next dimension of size > 1, by source
  memcpy(size, iota.dims.at, (size_t)n * sizeof *size);
  for (int k = n - 1, after = -1; k >= 0; k--) {
    next[k] = after;
    if (size[k] != 1)
      after = k;
  }
  int n_kept = 0;
  for (int k = 0, base = -1, last = -1; k < n; k++) {
    const int d = (int)iota.perm.at[k];
    if (iota.dims.at[d] == 1)
      continue;
    if (last >= 0 && next[last] == d) {
      size[base] *= size[d];
      size[d] = 1;
    } else {
      kept[n_kept++] = base = d;
    }
    last = d;
  }
  int64_t *dims = HL_ARRAY(arena, int64_t, n_kept + 1);
  int64_t *perm = HL_ARRAY(arena, int64_t, n_kept + 1);
  int n_dims = 0;
  for (int k = 0; k < n; k++)
    if (size[k] != 1) {
      place[k] = n_dims;
      dims[n_dims++] = size[k];
    }
  for (int k = 0; k < n_kept; k++)
    perm[k] = place[kept[k]];
  if (n_dims == 0)
    dims[n_dims++] = 1;
  return (HlIota){{dims, n_dims}, {perm, n_dims}};
}

HlI64s ir_transpose(HlArena *arena, HlI64s values, HlI64s dims, HlI64s perm) {
  const int rank = dims.n;
  int64_t *out = HL_ARRAY(arena, int64_t, values.n + 1);
  int64_t *stride = HL_ARRAY(arena, int64_t, rank + 1), *index = HL_ARRAY(arena, int64_t, rank + 1);
  int64_t step = 1;
  for (int k = rank - 1; k >= 0; k--) {
    stride[k] = step;
    step *= dims.at[k];
  }
  int64_t from = 0;
  for (int k = 0; k < values.n; k++) {
    out[k] = values.at[from];
    for (int d = rank - 1; d >= 0; d--) {  // counts up, last place fastest
      const int source = (int)perm.at[d];
      from += stride[source];
      if (++index[d] < dims.at[source])
        break;
      from -= stride[source] * dims.at[source];
      index[d] = 0;
    }
  }
  return (HlI64s){out, values.n};
}

HlI64s hl_iota_ids(HlArena *arena, const HlIota *iota) {
  const int64_t n = ir_product(iota->dims);
  if (n <= 0 || n > IR_MOST_DEVICES)
    return (HlI64s){NULL, 0};
  int64_t *ids = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    ids[k] = k;
  const HlI64s plain = {ids, (int)n};
  if (iota->dims.n <= 1 || iota->perm.n != iota->dims.n || !is_permutation(arena, iota->perm))
    return plain;
  return ir_transpose(arena, plain, iota->dims, iota->perm);
}
