// opt/gpu/cublas_pad_for_gemms.c
//
// cublas-pad-for-gemms: dots of an element type are padded with zeros so that their sizes are
// multiples of what the fast units work on; the result is a slice.
//
//   d = f16[5,7] dot(x, y)    =>    d = f16[5,7] slice(dot(pad(x), pad(y)))

#include <string.h>

#include "opt/ask/dots.h"
#include "opt/passes.h"

static const double MAX_GROWTH = 1.35;  // of all bytes read and written

static int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The sizes of a shape, those from dimension `first` on made multiples.
static const int64_t *padded(HlArena *arena, const HlShape *shape, int first, int64_t multiple) {
  int64_t *sizes = HL_ARRAY(arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    sizes[k] = k < first ? shape->dim[k] : round_up(shape->dim[k], multiple);
  return sizes;
}

static double n_elements(int rank, const int64_t *sizes) {
  double n = 1;
  for (int k = 0; k < rank; k++)
    n *= (double)sizes[k];
  return n;
}

static HlInst *pad_to(HlBuild *b, HlArena *arena, HlInst *x, const int64_t *sizes) {
  int64_t *low = HL_ARRAY(arena, int64_t, x->shape->rank + 1);
  int64_t *high = HL_ARRAY(arena, int64_t, x->shape->rank + 1);
  bool changes = false;
  for (int k = 0; k < x->shape->rank; k++) {
    high[k] = sizes[k] - x->shape->dim[k];
    changes |= high[k] != 0;
  }
  return changes ? hl_b_pad(b, x, hl_b_scalar(b, x->shape->dtype, 0), low, high, NULL) : x;
}

static bool is_leading(HlI64s dims) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

static HlInst *pad_dot(HlPass *p, HlBuild *b, HlInst *dot) {
  const HlShape *shape[3] = {dot->operands[0]->shape, dot->operands[1]->shape, dot->shape};
  HlDtype dtype =
      hl_dtype_by_text((HlStr){hl_pass_text(p, "type"), strlen(hl_pass_text(p, "type"))});
  const HlTarget *t = hl_target_of_kind(p->target, HL_TARGET_GPU);
  const int64_t multiple = hl_pass_fact(p, "multiple", (int64_t)t->matrix_sizes.of[dtype]);
  HlI64s batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS);
  if (multiple < 2 || !all_static(dot) || !is_leading(batch) ||
      !is_leading(hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS)) ||
      hl_has_attr(dot, HL_A_SPARSITY_CONFIG) || hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n != 1)
    return NULL;
  const int64_t *sizes[3];
  double before = 0, after = 0;
  for (int k = 0; k < 3; k++) {
    if (shape[k]->dtype != dtype || shape[k]->rank != batch.n + 2)
      return NULL;
    sizes[k] = padded(p->arena, shape[k], batch.n, multiple);
    before += n_elements(shape[k]->rank, shape[k]->dim);
    after += n_elements(shape[k]->rank, sizes[k]);
  }
  if (after == before || after > MAX_GROWTH * before)
    return NULL;
  HlInst *x = pad_to(b, p->arena, dot->operands[0], sizes[0]);
  HlInst *y = pad_to(b, p->arena, dot->operands[1], sizes[1]);
  if (!x || !y)
    return NULL;
  HlInst *wide = dot_of(b, dot, x, y, dot_dims(p->arena, dot));
  int64_t *start = HL_ARRAY(p->arena, int64_t, dot->shape->rank);
  return hl_b_slice(b, wide, start, dot->shape->dim, NULL);
}

const HlRule cublas_pad_rules[] = {{HL_OP_DOT, pad_dot, "cublas-pad-for-gemms",
                                    "dot(x, y) => slice(dot(pad(x), pad(y)))",
                                    "of the element type; bytes grow by at most 35 %"},
                                   {0}};
