// opt/space_to_batch_converter.c
//
// space-to-batch-converter: a convolution of few large images becomes one of more, smaller ones.
//
// The first spatial dimension is cut into pieces, each with the rows that its windows need of the
// next piece (its halo); pieces become images:
//
//   c = f32[1,14,8] convolution(f32[1,16,4] x, f32[3,4,8] k), window={size=3}
//     =>  with 2 pieces
//   p = f32[1,21,4] pad(x)                        three pieces of 7 rows
//   r = f32[1,3,7,4] reshape(p)
//   a = f32[1,2,7,4] slice(r, 0:2)                the pieces
//   h = f32[1,2,2,4] slice(r, 1:3 and rows 0:2)   their halos
//   b = f32[2,9,4] reshape(concatenate(a, h))
//   d = f32[2,7,8] convolution(b, k), window={size=3}
//   c = f32[1,14,8] slice(reshape(d))

#include "hilo/pass.h"

extern const HlRule space_to_batch_rules[];

typedef struct Cut {
  HlPass *p;
  HlBuild *b;
  const HlDimLabels *labels;
  HlWindowDim window;  // of the dimension that is cut
  int64_t batch, pieces;
  int64_t rows, halo;  // of results in a piece; more rows that their windows reach
  int64_t results;     // of the whole dimension
} Cut;

// Two dimensions first, then the others.
static HlI64s order_of(HlPass *p, int64_t first, int64_t second, int rank) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, rank), n = 0;
  order[n++] = first;
  order[n++] = second;
  for (int64_t d = 0; d < rank; d++)
    if (d != first && d != second)
      order[n++] = d;
  return (HlI64s){order, rank};
}

static HlI64s inverse(HlArena *arena, HlI64s order) {
  int64_t *back = HL_ARRAY(arena, int64_t, order.n);
  for (int k = 0; k < order.n; k++)
    back[order.at[k]] = k;
  return (HlI64s){back, order.n};
}

static bool find_cut(HlPass *p, HlBuild *b, const HlInst *inst, Cut *out) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlWindow window = hl_window(inst);
  if (!labels || window.n == 0 || labels->input_spatial.n != window.n ||
      labels->output_spatial.n != window.n || hl_shape_is_dynamic(inst->shape) ||
      hl_shape_is_dynamic(inst->operands[0]->shape) || hl_sharding(inst) ||
      hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) != 1)
    return false;
  const HlWindowDim w = window.at[0];
  *out = (Cut){.p = p,
               .b = b,
               .labels = labels,
               .window = w,
               .batch = inst->operands[0]->shape->dim[labels->input_batch],
               .pieces = hl_pass_int(p, "number_of_splits"),
               .results = inst->shape->dim[labels->output_spatial.at[0]],
               .halo = (w.size - 1) * w.rhs_dilate};
  if (out->pieces < 2 || out->batch < 1 || out->batch > hl_pass_int(p, "limit_on_batch_size") ||
      w.stride != 1 || w.lhs_dilate != 1 || w.pad_low < 0 || w.pad_high < 0)
    return false;
  out->rows = (out->results + out->pieces - 1) / out->pieces;
  return out->rows > out->halo && out->rows > 1 && hl_is_float(inst->shape->dtype);
}

// The first two dimensions in place of one of the input, or of the result.
static HlInst *reshape_front(HlBuild *b, HlInst *x, int n, const int64_t *front, int from) {
  int64_t *dim = HL_ARRAY(hl_b_module(b)->arena, int64_t, x->shape->rank + 2);
  int rank = 0;
  for (int k = 0; k < n; k++)
    dim[rank++] = front[k];
  for (int d = from; d < x->shape->rank; d++)
    dim[rank++] = x->shape->dim[d];
  return hl_b_reshape(b, x, rank, dim);
}

// Row by row with padding, as many as all pieces have and one piece more.
static HlInst *padded(const Cut *c, HlInst *x) {
  const int64_t rank = x->shape->rank, rows = (c->pieces + 1) * c->rows;
  int64_t *low = HL_ARRAY(c->p->arena, int64_t, rank), *high = HL_ARRAY(c->p->arena, int64_t, rank);
  low[1] = c->window.pad_low;
  high[1] = rows - x->shape->dim[1] - low[1];
  return hl_b_pad(c->b, x, hl_b_scalar(c->b, x->shape->dtype, 0), low, high, NULL);
}

static HlInst *pieces_of(const Cut *c, HlInst *input) {
  HlInst *x = hl_b_transpose(
      c->b, input,
      order_of(c->p, c->labels->input_batch, c->labels->input_spatial.at[0], input->shape->rank));
  x = x ? padded(c, x) : NULL;
  if (!x)
    return NULL;
  x = reshape_front(c->b, x, 3, (int64_t[]){c->batch, c->pieces + 1, c->rows}, 2);
  HlInst *piece = hl_b_slice_dim(c->b, x, 1, 0, c->pieces);
  if (piece && c->halo > 0) {
    HlInst *halo = hl_b_slice_dim(c->b, x, 1, 1, c->pieces + 1);
    HlInst *both[] = {piece, hl_b_slice_dim(c->b, halo, 2, 0, c->halo)};
    piece = hl_b_concatenate(c->b, 2, both, 2);
  }
  return piece ? reshape_front(c->b, piece, 2, (int64_t[]){c->batch * c->pieces, c->rows + c->halo},
                               3)
               : NULL;
}

static HlI64s relabelled(HlArena *arena, HlI64s labels, HlI64s back) {
  int64_t *list = HL_ARRAY(arena, int64_t, labels.n);
  for (int k = 0; k < labels.n; k++)
    list[k] = back.at[labels.at[k]];
  return (HlI64s){list, labels.n};
}

static void set_labels(const Cut *c, HlInst *conv, HlI64s in, HlI64s out) {
  HlArena *arena = c->p->m->arena;
  HlDimLabels *labels = HL_NEW(arena, HlDimLabels);
  *labels = *c->labels;
  labels->input_batch = in.at[labels->input_batch];
  labels->input_feature = in.at[labels->input_feature];
  labels->input_spatial = relabelled(arena, labels->input_spatial, in);
  labels->output_batch = out.at[labels->output_batch];
  labels->output_feature = out.at[labels->output_feature];
  labels->output_spatial = relabelled(arena, labels->output_spatial, out);
  hl_set_attr(conv, &(HlAttr){.key = HL_A_DIM_LABELS, .ptr = labels});
}

// The padding is in the pieces already.
static void set_window(const Cut *c, HlInst *conv) {
  const HlWindow window = hl_window(conv);
  HlWindowDim *dims = hl_arena_copy(c->p->m->arena, window.at, sizeof *dims * (size_t)window.n);
  dims[0].pad_low = dims[0].pad_high = 0;
  hl_set_attr(conv, &(HlAttr){.key = HL_A_WINDOW, .window = {dims, window.n}});
}

static HlInst *cut_convolution(HlPass *p, HlBuild *b, HlInst *inst) {
  Cut c;
  if (!find_cut(p, b, inst, &c))
    return NULL;
  const int rank = inst->shape->rank;
  const HlDimLabels *labels = c.labels;
  HlI64s in = order_of(p, labels->input_batch, labels->input_spatial.at[0], rank);
  HlI64s out = order_of(p, labels->output_batch, labels->output_spatial.at[0], rank);
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 2; k < rank; k++)
    dim[k] = inst->shape->dim[out.at[k]];
  dim[0] = c.batch * c.pieces;
  dim[1] = c.rows;
  HlInst *operands[] = {pieces_of(&c, inst->operands[0]), inst->operands[1]};
  if (!operands[0])
    return NULL;
  const HlShape *shape = hl_shape_array(p->m->shapes, inst->shape->dtype, rank, dim);
  HlInst *conv = hl_inst_copy(b->comp, inst, shape, 2, operands);
  set_labels(&c, conv, inverse(p->arena, in), inverse(p->arena, out));
  set_window(&c, conv);
  HlInst *whole = reshape_front(b, conv, 2, (int64_t[]){c.batch, c.pieces * c.rows}, 2);
  whole = hl_b_slice_dim(b, whole, 1, 0, c.results);
  return whole ? hl_b_transpose(b, whole, inverse(p->arena, out)) : NULL;
}

const HlRule space_to_batch_rules[] = {
    {HL_OP_CONVOLUTION, cut_convolution, "space-to-batch",
     "convolution(x, k) => join(convolution(pieces(x), k))",
     "few images; more rows in a piece than the window reaches beyond it; no stride"},
    {0},
};
