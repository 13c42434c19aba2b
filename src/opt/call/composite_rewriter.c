// opt/call/composite_rewriter.c
//
// composite-rewriter: for GPUs: a call that is marked as a scaled dot is one.
//
//   r = call(x, y, s, t), is_composite=true, frontend_attributes={composite.name="xla.scaled_dot",
//         composite.attributes="{dimension_numbers = [[[1], [0]], [[], []]]}"}
//   =>  r = scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}

#include <string.h>

#include "opt/ask/dots.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

// --- dimension_numbers = [[[1], [0]], [[], []]] --------------------------------------------------

static bool take(const char **at, char c) {
  *at += strspn(*at, " ");
  if (**at != c)
    return false;
  ++*at;
  return true;
}

// A list of numbers; they may have a type behind them, as in `1 : i64`.
static bool read_list(HlPass *p, const char **at, HlI64s *out) {
  if (!take(at, '['))
    return false;
  int64_t *list = HL_ARRAY(p->arena, int64_t, strlen(*at) / 2 + 1);
  int n = 0;
  while (!take(at, ']')) {
    if (n > 0 && !take(at, ','))
      return false;
    *at += strspn(*at, " ");
    const size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 3)
      return false;
    for (size_t k = 0; k < digits; k++)
      list[n] = list[n] * 10 + ((*at)[k] - '0');
    n++;
    *at += digits + strspn(*at + digits, " ");
    if (**at == ':')
      *at += strcspn(*at, ",]");
  }
  *out = (HlI64s){list, n};
  return true;
}

static bool read_pair(HlPass *p, const char **at, HlI64s out[2]) {
  return take(at, '[') && read_list(p, at, &out[0]) && take(at, ',') && read_list(p, at, &out[1]) &&
         take(at, ']');
}

static bool read_numbers(HlPass *p, const char *text, DotDims *out) {
  const char *at = strstr(text, "dimension_numbers");
  if (!at)
    return false;
  at += strlen("dimension_numbers");
  return take(&at, '=') && take(&at, '[') && read_pair(p, &at, out->contract) && take(&at, ',') &&
         read_pair(p, &at, out->batch) && take(&at, ']');
}

// --- What libraries take -------------------------------------------------------------------------

static bool all_ones(const HlInst *scale) {
  for (int d = 0; d < scale->shape->rank; d++)
    if (scale->shape->dim[d] != 1)
      return false;
  return hl_is_all(scale, 1);
}

// Eight or four bits with a power of two for every 32 numbers or a multiple of that; or bf16 not
// scaled at all.
static bool is_supported(const HlInst *x, const HlInst *scale, HlI64s contract) {
  const HlDtype dtype = x->shape->dtype;
  if (x->shape->rank != scale->shape->rank || !dot_scale_fits(scale, x->shape))
    return false;
  if (dtype == HL_BF16 && scale->shape->dtype == HL_BF16)
    return all_ones(scale);
  if ((dtype != HL_F8E4M3FN && dtype != HL_F8E5M2 && dtype != HL_F4E2M1FN) ||
      scale->shape->dtype != HL_F8E8M0FNU || contract.at[0] >= x->shape->rank)
    return false;
  const int64_t d = contract.at[0];
  return x->shape->dim[d] / scale->shape->dim[d] % 32 == 0;
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *call) {
  DotDims d = {0};
  if (!hl_attr_int(call, HL_A_IS_COMPOSITE) || call->n_operands != 4 || !all_static(call) ||
      strcmp(frontend_get(call, "composite.name"), "xla.scaled_dot") != 0 ||
      !read_numbers(p, frontend_get(call, "composite.attributes"), &d))
    return NULL;
  if (d.contract[0].n != 1 || d.contract[1].n != 1 || d.batch[0].n > 1 ||
      d.batch[0].n != d.batch[1].n ||
      !is_supported(call->operands[0], call->operands[2], d.contract[0]) ||
      !is_supported(call->operands[1], call->operands[3], d.contract[1]))
    return NULL;
  HlArena *arena = hl_b_module(b)->arena;
  HlAttr attrs[] = {{.key = HL_A_LHS_BATCH_DIMS, .ints = hl_i64s_copy(arena, d.batch[0])},
                    {.key = HL_A_LHS_CONTRACTING_DIMS, .ints = hl_i64s_copy(arena, d.contract[0])},
                    {.key = HL_A_RHS_BATCH_DIMS, .ints = hl_i64s_copy(arena, d.batch[1])},
                    {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = hl_i64s_copy(arena, d.contract[1])}};
  return hl_b_op(b, HL_OP_SCALED_DOT, call->shape, 4, call->operands, HL_COUNT_OF(attrs), attrs, 0,
                 NULL);
}

const HlRule composite_rules[] = {
    {HL_OP_CALL, rewrite, "composite-rewriter",
     "xla.scaled_dot(x, y, s, t) => scaled-dot(x, y, s, t)",
     "a composite call; types and blocks that libraries take"},
    {0},
};
