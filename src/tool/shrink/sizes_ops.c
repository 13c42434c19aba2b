// tool/shrink/sizes_ops.c: what ops say of sizes beside the rules of dimensions: what hands values on from place to place, and where a
// size follows from another that is not the same: slices, paddings, windows.
//
//   s = f32[6] slice(x), slice={[2:8]}    of x: f32[10]; where x becomes f32[4], s becomes f32[4] and [0:4]
//   p = f32[9] pad(x, zero), padding=1_2  of x: f32[6]; where p becomes f32[2], x becomes f32[1] and 1_0

#include <string.h>

#include "tool/shrink/sizes.h"

// --- What hands values on -----------------------------------------------------------------------------

static bool same_range(Sizes *p, int a, int b, int n) {
  for (int k = 0; k < n; k++)
    if (!sizes_same(p, a + k, b + k))
      return false;
  return true;
}

static bool same_value(Sizes *p, const HlInst *a, const HlInst *b) {
  const int n = sizes_slots(a);
  return n == sizes_slots(b) && same_range(p, p->base[a->serial], p->base[b->serial], n);
}

static bool free_size(Sizes *p, HlInst *inst, Local *l) {
  return true;
}

static bool of_tuple(Sizes *p, HlInst *inst, Local *l) {
  int at = p->base[inst->serial];
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const int n = sizes_slots(inst->operands[k]);
    if (!same_range(p, sizes_operand_slot(p, inst, (int)k), at, n))
      return false;
    at += n;
  }
  return true;
}

static bool of_element(Sizes *p, HlInst *inst, Local *l) {
  const HlShape *tuple = inst->operands[0]->shape;
  int64_t leaf = 0;
  for (int64_t k = 0; k < hl_attr_int(inst, HL_A_INDEX); k++)
    leaf += hl_shape_is_tuple(tuple->element[k]) ? hl_shape_leaves(tuple->element[k]) : 1;
  return same_range(p, sizes_leaf_slot(p, inst->operands[0], (int)leaf), p->base[inst->serial],
                    sizes_slots(inst));
}

// A barrier, a copy: what is no tuple goes by the rule of dimensions, too.
static bool of_first(Sizes *p, HlInst *inst, Local *l) {
  return same_value(p, inst, inst->operands[0]);
}

static bool same_params(Sizes *p, const HlInst *inst, const HlComp *callee) {
  for (int k = 0; k < callee->n_params; k++)
    if (!same_value(p, callee->params[k], inst->operands[k]))
      return false;
  return callee->n_params == (int)inst->n_operands;
}

static bool of_call(Sizes *p, HlInst *inst, Local *l) {
  const HlComp *callee = hl_called(inst, 0);
  return same_params(p, inst, callee) && same_value(p, inst, callee->root);
}

static bool of_while(Sizes *p, HlInst *inst, Local *l) {
  const HlComp *body = hl_while_body(inst), *condition = hl_while_condition(inst);
  return same_params(p, inst, body) && same_params(p, inst, condition) &&
         same_value(p, inst, body->root) && same_value(p, inst, inst->operands[0]);
}

static bool of_conditional(Sizes *p, HlInst *inst, Local *l) {
  for (int k = 0; k < inst->n_calls; k++) {
    const HlComp *branch = hl_called(inst, k);
    if (branch->n_params != 1 || k + 1 >= (int)inst->n_operands ||
        !same_value(p, branch->params[0], inst->operands[k + 1]) ||
        !same_value(p, branch->root, inst))
      return false;
  }
  return true;
}

// --- Slices --------------------------------------------------------------------------------------------

static int64_t *own_ints(Sizes *p, const HlInst *inst, Local *l, HlAttrKey key) {
  const HlI64s old = hl_attr_ints(inst, key);
  if (l->ints)
    return l->ints;
  l->ints = HL_ARRAY(p->arena, int64_t, old.n + 1);
  if (old.n > 0)
    memcpy(l->ints, old.at, (size_t)old.n * sizeof *old.at);
  return l->ints;
}

// A slice keeps its place as far as there is one.
static bool of_slice(Sizes *p, HlInst *inst, Local *l) {
  const int from = sizes_operand_slot(p, inst, 0), to = p->base[inst->serial];
  int64_t *at = own_ints(p, inst, l, HL_A_SLICE);
  for (int d = 0; d < inst->shape->rank; d++, at += 3) {
    const int64_t in = p->size[from + d], stride = at[2];
    if (in == p->was[from + d] && p->size[to + d] == p->was[to + d])
      continue;
    int64_t out = p->size[to + d];
    if ((out - 1) * stride + 1 > in)
      out = (in - 1) / stride + 1;
    if (out != p->size[to + d] && !sizes_set(p, to + d, out))
      return false;
    const int64_t last = in - (out - 1) * stride - 1;
    at[0] = at[0] < last ? at[0] : last;
    at[1] = at[0] + (out - 1) * stride + 1;
  }
  return true;
}

// What is taken out, or written over, is not more than there is.
static bool within(Sizes *p, int part, int whole) {
  return p->size[part] <= p->size[whole] || sizes_set(p, part, p->size[whole]);
}

static bool of_dynamic_slice(Sizes *p, HlInst *inst, Local *l) {
  for (int d = 0; d < inst->shape->rank; d++)
    if (!within(p, p->base[inst->serial] + d, sizes_operand_slot(p, inst, 0) + d))
      return false;
  return true;
}

static bool of_update(Sizes *p, HlInst *inst, Local *l) {
  for (int d = 0; d < inst->shape->rank; d++)
    if (!within(p, sizes_operand_slot(p, inst, 1) + d, p->base[inst->serial] + d))
      return false;
  return true;
}

// How many numbers an index has stays as it is.
static bool keeps_index(const Sizes *p, const HlInst *inst, int index) {
  const int64_t d = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  const int slot = sizes_operand_slot(p, inst, index) + (int)d;
  return d >= inst->operands[index]->shape->rank || p->size[slot] == p->was[slot];
}

static bool among(HlI64s list, int64_t d) {
  return hl_i64s_find(list, d) >= 0;
}

static bool of_gather(Sizes *p, HlInst *inst, Local *l) {
  const HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS);
  int64_t *sizes = own_ints(p, inst, l, HL_A_SLICE_SIZES);
  for (int d = 0, k = 0; d < inst->operands[0]->shape->rank; d++) {
    if (among(hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS), d) ||
        among(hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS), d))
      continue;
    const int to = p->base[inst->serial] + (int)offset.at[k++];
    if (!within(p, to, sizes_operand_slot(p, inst, 0) + d))
      return false;
    sizes[d] = p->size[to];
  }
  return keeps_index(p, inst, 1);
}

static bool of_scatter(Sizes *p, HlInst *inst, Local *l) {
  const int n = ((int)inst->n_operands - 1) / 2;
  const HlI64s window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  for (int d = 0, w = 0; d < inst->operands[0]->shape->rank; d++) {
    if (among(hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS), d) ||
        among(hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS), d))
      continue;
    const int to = (int)window.at[w++];
    for (int k = 0; k < n; k++)
      if (!within(p, sizes_operand_slot(p, inst, n + 1 + k) + to,
                  sizes_operand_slot(p, inst, 0) + d))
        return false;
  }
  return keeps_index(p, inst, n);
}

static bool of_topk(Sizes *p, HlInst *inst, Local *l) {
  const int last = inst->operands[0]->shape->rank - 1;
  const int from = sizes_operand_slot(p, inst, 0) + last, to = p->base[inst->serial] + last;
  return within(p, to, from) && sizes_same(p, to, sizes_leaf_slot(p, inst, 1) + last);
}

// --- Paddings and concatenations --------------------------------------------------------------------------

static int64_t dilated(int64_t size, int64_t dilation) {
  return size < 1 ? 0 : (size - 1) * dilation + 1;
}

// What is inside gets smaller first, then the edges do.
static bool of_pad(Sizes *p, HlInst *inst, Local *l) {
  const int from = sizes_operand_slot(p, inst, 0), to = p->base[inst->serial];
  int64_t *at = own_ints(p, inst, l, HL_A_PADDING);
  for (int d = 0; d < inst->shape->rank; d++, at += 3) {
    const int64_t step = at[2] + 1;
    int64_t in = p->size[from + d], out = p->size[to + d];
    if (in == p->was[from + d] && out == p->was[to + d])
      continue;
    if (!p->set[to + d]) {
      if (!sizes_set(p, to + d, dilated(in, step) + at[0] + at[1]))
        return false;
      continue;
    }
    if (!p->set[from + d]) {
      const int64_t want = out - at[0] - at[1];
      in = want < 1 ? 1 : (want - 1) / step + 1;
      if (in != p->size[from + d] && !sizes_set(p, from + d, in))
        return false;
    }
    const int64_t edges = out - dilated(in, step);
    at[0] = at[0] < edges || edges < 0 ? at[0] : edges;
    at[1] = edges - at[0];
  }
  return true;
}

// Takes so much from the operands whose size is not wanted: of the largest first, down to 1; then the last ones go.
static bool take_away(const Sizes *p, const HlInst *inst, Local *l, int64_t *size, int64_t more) {
  const int n = (int)inst->n_operands, d = (int)hl_dim(inst);
  int left = n;
  while (more > 0) {
    int largest = -1;
    for (int k = 0; k < n; k++)
      if (!p->set[sizes_operand_slot(p, inst, k) + d] && size[k] > 0 &&
          (largest < 0 || size[k] > size[largest] || (size[k] == size[largest] && size[k] == 1)))
        largest = k;
    if (largest < 0 || (size[largest] == 1 && left == 1))
      return false;
    const int64_t most = size[largest] == 1 ? 1 : size[largest] / 2;
    const int64_t part = more < most ? more : most;
    size[largest] -= part;
    more -= part;
    l->dropped[largest] = size[largest] == 0;
    left -= size[largest] == 0;
  }
  return more == 0;
}

static bool of_concatenate(Sizes *p, HlInst *inst, Local *l) {
  const int n = (int)inst->n_operands, d = (int)hl_dim(inst), to = p->base[inst->serial] + d;
  int64_t *size = HL_ARRAY(p->arena, int64_t, n + 1), sum = 0;
  if (!l->dropped)
    l->dropped = HL_ARRAY(p->arena, bool, n + 1);
  for (int k = 0; k < n; k++) {
    size[k] = l->dropped[k] ? 0 : p->size[sizes_operand_slot(p, inst, k) + d];
    sum += size[k];
  }
  if (sum == p->size[to])
    return true;
  if (!p->set[to])
    return sizes_set(p, to, sum);
  if (!take_away(p, inst, l, size, sum - p->size[to]))
    return false;
  for (int k = 0; k < n; k++) {
    const int slot = sizes_operand_slot(p, inst, k) + d;
    if (!l->dropped[k] && size[k] != p->size[slot] && !sizes_set(p, slot, size[k]))
      return false;
  }
  return true;
}

// --- Windows -------------------------------------------------------------------------------------------

static int64_t steps_of(const HlWindowDim *w, int64_t in) {
  const int64_t room = dilated(in, w->lhs_dilate) + w->pad_low + w->pad_high;
  const int64_t size = dilated(w->size, w->rhs_dilate);
  return room < size ? 0 : (room - size) / w->stride + 1;
}

// A smaller window wants less around what it runs over; half of it on each side.
static void set_window(HlWindowDim *w, int64_t size) {
  int64_t less = dilated(w->size, w->rhs_dilate) - dilated(size, w->rhs_dilate);
  int64_t *const pads[] = {&w->pad_low, &w->pad_high, &w->pad_low};
  for (int k = 0; k < 3 && less > 0; k++) {
    const int64_t half = k == 0 ? (less + 1) / 2 : less, have = *pads[k] > 0 ? *pads[k] : 0;
    const int64_t part = half < have ? half : have;
    *pads[k] -= part;
    less -= part;
  }
  w->size = size;
}

// The largest input that gives so many steps; 0: there is none.
static int64_t input_for(const HlWindowDim *w, int64_t steps, int64_t most) {
  int64_t low = 1, high = most;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (steps_of(w, middle) > steps)
      high = middle - 1;
    else
      low = middle;
  }
  return steps_of(w, low) == steps ? low : 0;
}

// Edges that make up for what is missing or too much.
static bool set_edges(HlWindowDim *w, int64_t in, int64_t out) {
  const int64_t want = (out - 1) * w->stride + dilated(w->size, w->rhs_dilate);
  const int64_t edges = want - dilated(in, w->lhs_dilate);
  if (steps_of(w, in) == out)
    return true;
  w->pad_low = edges < 0 ? 0 : w->pad_low < edges ? w->pad_low : edges;
  w->pad_high = edges - w->pad_low;
  return steps_of(w, in) == out;
}

// One dimension that a window runs along.
static bool along_window(Sizes *p, HlWindowDim *w, int in, int out, int size) {
  if (p->size[in] == p->was[in] && p->size[out] == p->was[out] && p->size[size] == p->was[size])
    return true;
  if (p->size[size] < w->size)
    set_window(w, p->size[size]);
  if (!p->set[out] && steps_of(w, p->size[in]) < 1) {
    int64_t fits = dilated(p->size[in], w->lhs_dilate) + w->pad_low + w->pad_high;
    fits = fits < 1 ? 1 : (fits - 1) / w->rhs_dilate + 1;
    if (!sizes_set(p, size, fits < p->size[size] ? fits : 1))
      return false;
    w->size = p->size[size];
  }
  const int64_t steps = steps_of(w, p->size[in]);
  if (steps == p->size[out])
    return true;
  if (!p->set[out] && steps < p->size[out])
    return sizes_set(p, out, steps);
  if (!p->set[in]) {
    const int64_t fits = input_for(w, p->size[out], p->size[in]);
    if (!sizes_set(p, in, fits > 0 ? fits : 1))
      return false;
  }
  return set_edges(w, p->size[in], p->size[out]);
}

static HlWindowDim *own_window(Sizes *p, const HlInst *inst, Local *l) {
  const HlWindow old = hl_window(inst);
  if (l->window)
    return l->window;
  l->window = HL_ARRAY(p->arena, HlWindowDim, old.n + 1);
  if (old.n > 0)
    memcpy(l->window, old.at, (size_t)old.n * sizeof *old.at);
  return l->window;
}

static bool of_reduce_window(Sizes *p, HlInst *inst, Local *l) {
  HlWindowDim *w = own_window(p, inst, l);
  const int n = (int)inst->n_operands / 2, size = sizes_window_slot(p, inst);
  for (int d = 0; d < hl_window(inst).n; d++)
    for (int k = 0; k < n; k++) {
      const int in = sizes_operand_slot(p, inst, k) + d, out = sizes_leaf_slot(p, inst, k) + d;
      if (!sizes_same(p, in, sizes_operand_slot(p, inst, 0) + d) ||
          !sizes_same(p, out, p->base[inst->serial] + d) ||
          !along_window(p, &w[d], in, out, size + d))
        return false;
    }
  return true;
}

static bool of_select_and_scatter(Sizes *p, HlInst *inst, Local *l) {
  HlWindowDim *w = own_window(p, inst, l);
  const int in = sizes_operand_slot(p, inst, 0), out = sizes_operand_slot(p, inst, 1);
  for (int d = 0; d < hl_window(inst).n; d++)
    if (!sizes_same(p, in + d, p->base[inst->serial] + d) ||
        !along_window(p, &w[d], in + d, out + d, sizes_window_slot(p, inst) + d))
      return false;
  return true;
}

static bool of_convolution(Sizes *p, HlInst *inst, Local *l) {
  const HlDimLabels *at = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  HlWindowDim *w = own_window(p, inst, l);
  if (!at || !l->known)
    return false;
  for (int d = 0; d < at->input_spatial.n && d < hl_window(inst).n; d++)
    if (!along_window(p, &w[d], sizes_operand_slot(p, inst, 0) + (int)at->input_spatial.at[d],
                      p->base[inst->serial] + (int)at->output_spatial.at[d],
                      sizes_operand_slot(p, inst, 1) + (int)at->kernel_spatial.at[d]))
      return false;
  return true;
}

// --- Others --------------------------------------------------------------------------------------------

// Of real values and back one side has n of them, the other n/2 + 1.
static bool of_fft(Sizes *p, HlInst *inst, Local *l) {
  const int64_t type = hl_attr_int(inst, HL_A_FFT_TYPE);
  const int last = inst->shape->rank - 1;
  const int in = sizes_operand_slot(p, inst, 0) + last, out = p->base[inst->serial] + last;
  if (type != HL_WORD_fft_type_RFFT && type != HL_WORD_fft_type_IRFFT)
    return sizes_same(p, in, out);
  const int real = type == HL_WORD_fft_type_RFFT ? in : out;
  const int complex = type == HL_WORD_fft_type_RFFT ? out : in;
  if (p->size[complex] == p->size[real] / 2 + 1)
    return true;
  return p->set[real] ? sizes_set(p, complex, p->size[real] / 2 + 1)
                      : sizes_set(p, real, p->size[complex] > 1 ? 2 * (p->size[complex] - 1) : 1);
}

// The state has the size that the algorithm gives it.
static bool of_generator(Sizes *p, HlInst *inst, Local *l) {
  const int state = p->base[inst->serial], given = sizes_operand_slot(p, inst, 0);
  return p->size[state] == p->was[state] && p->size[given] == p->was[given];
}

static SizesFn *const rules[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = free_size,
    [HL_OP_CONSTANT] = free_size,
    [HL_OP_IOTA] = free_size,
    [HL_OP_RNG] = free_size,
    [HL_OP_BROADCAST] = free_size,
    [HL_OP_GET_DIMENSION_SIZE] = free_size,
    [HL_OP_AFTER_ALL] = free_size,
    [HL_OP_TUPLE] = of_tuple,
    [HL_OP_GET_TUPLE_ELEMENT] = of_element,
    [HL_OP_COPY] = of_first,
    [HL_OP_OPT_BARRIER] = of_first,
    [HL_OP_ADD_DEPENDENCY] = of_first,
    [HL_OP_DOMAIN] = of_first,
    [HL_OP_CALL] = of_call,
    [HL_OP_FUSION] = of_call,
    [HL_OP_WHILE] = of_while,
    [HL_OP_CONDITIONAL] = of_conditional,
    [HL_OP_RNG_BIT_GENERATOR] = of_generator,
};

// These have a choice.
static SizesFn *const choices[HL_OP_COUNT] = {
    [HL_OP_SLICE] = of_slice,
    [HL_OP_DYNAMIC_SLICE] = of_dynamic_slice,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = of_update,
    [HL_OP_GATHER] = of_gather,
    [HL_OP_SCATTER] = of_scatter,
    [HL_OP_TOPK] = of_topk,
    [HL_OP_PAD] = of_pad,
    [HL_OP_CONCATENATE] = of_concatenate,
    [HL_OP_REDUCE_WINDOW] = of_reduce_window,
    [HL_OP_SELECT_AND_SCATTER] = of_select_and_scatter,
    [HL_OP_CONVOLUTION] = of_convolution,
    [HL_OP_FFT] = of_fft,
};

SizesFn *sizes_rule(HlOp op) {
  return rules[op] ? rules[op] : choices[op];
}

bool sizes_rule_is_sure(HlOp op) {
  return rules[op] != NULL;
}
