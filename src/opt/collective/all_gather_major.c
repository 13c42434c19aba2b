// opt/collective/all_gather_major.c
//
// all-gather-major-dimension-rewriter: for GPUs, where an all-gather puts whole arrays one behind the other, so that it gathers
// along the most major dimension. Layout assignment copies before and behind an all-gather that lies otherwise than it is wanted;
// gathered as it lies, an array is copied once.
//
//   c = f32[8,16]{0,1} copy(f32[8,16]{1,0} x)
//   g = f32[8,64]{0,1} all-gather(c), dimensions={1}        g = f32[32,16]{1,0} all-gather(x), dimensions={0}
//   y = f32[8,64]{1,0} copy(g)                        =>    w = f32[4,8,16]{2,1,0} bitcast(g)
//                                                           c = f32[4,8,16]{2,0,1} copy(w)
//                                                           y = f32[8,64]{1,0} bitcast(c)

#include "hilo/edit.h"
#include "opt/ask/collectives.h"
#include "opt/passes.h"

static bool is_plain_layout(const HlShape *shape) {
  return shape->rank > 0 && shape->layout && !shape->layout->extra;
}

// The shape with one more dimension, in front of dimension `before`, that lies just above `below` in memory.
static const HlShape *with_parts(HlPass *p, const HlShape *shape, int64_t parts, int64_t before,
                                 int64_t below, HlI64s minor_to_major) {
  const int rank = shape->rank + 1;
  int64_t *size = HL_ARRAY(p->arena, int64_t, rank), *order = HL_ARRAY(p->arena, int64_t, rank);
  for (int d = 0; d < shape->rank; d++)
    size[d + (d >= before)] = shape->dim[d];
  size[before] = parts;
  int n = 0;
  for (int k = 0; k < minor_to_major.n; k++) {
    const int64_t d = minor_to_major.at[k];
    order[n++] = d + (d >= before);
    if (d == below)
      order[n++] = before;
  }
  const HlLayout layout = {.minor_to_major = {order, rank}};
  return hl_shape_array_full(p->m->shapes, shape->dtype, rank, size, NULL, &layout);
}

static HlInst *gather_as_it_lies(HlPass *p, HlBuild *b, HlInst *copy) {
  HlInst *gather = copy->operands[0];
  if (gather->op != HL_OP_ALL_GATHER || !coll_is_plain(gather) || !hl_one_user(gather))
    return NULL;
  HlInst *before = gather->operands[0];
  if (before->op != HL_OP_COPY || !hl_one_user(before) || hl_has_control(before))
    return NULL;
  HlInst *x = before->operands[0];
  const int64_t along = hl_dim(gather);
  const HlShape *part = x->shape, *whole = copy->shape;
  if (!is_plain_layout(part) || !is_plain_layout(whole) || hl_shape_is_dynamic(part) ||
      hl_shape_elements(part) == 0)
    return NULL;
  const int64_t parts = whole->dim[along] / part->dim[along];
  const HlI64s lies = {part->layout->minor_to_major.at, part->rank};
  const int64_t major = lies.at[lies.n - 1];
  const HlShape *rows = coll_resized(p, part, major, parts * part->dim[major]);
  HlInst *gathered = coll_new(b, HL_OP_ALL_GATHER, gather, rows, x, major);
  if (!gathered)
    return NULL;
  HlInst *apart = hl_inst_new(b->comp, HL_OP_BITCAST,
                              with_parts(p, part, parts, major, major, lies), NULL, 1, &gathered);
  const HlShape *to = with_parts(p, part, parts, major, along,
                                 (HlI64s){whole->layout->minor_to_major.at, whole->rank});
  HlInst *moved = hl_inst_new(b->comp, HL_OP_COPY, to, NULL, 1, &apart);
  return hl_inst_new(b->comp, HL_OP_BITCAST, whole, NULL, 1, &moved);
}

const HlRule all_gather_major_rules[] = {
    {HL_OP_COPY, gather_as_it_lies, "all-gather-major-dimension-rewriter",
     "copy(all-gather(copy(x))) => bitcast(copy(bitcast(all-gather(x))))",
     "it gathers along x's most major dimension"},
    {0}};
