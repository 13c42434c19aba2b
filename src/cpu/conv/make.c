// cpu/conv/make.c: takes a convolution apart: types, axes, parts, boxes.

#include <inttypes.h>
#include <string.h>

#include "cpu/conv/winograd.h"

// --- Types --------------------------------------------------------------------------------------

// What is computed in: wide enough for all three. False if kinds are mixed, or there is no such type.
static bool find_type(ConvKernel *c) {
  const HlDtype all[] = {c->x_dtype, c->w_dtype, c->y_dtype};
  int bytes = 4;
  bool is_float = true, is_int = true;
  for (int k = 0; k < 3; k++) {
    is_float = is_float && hl_is_float(all[k]);
    is_int = is_int && hl_is_integral(all[k]) && hl_dtype_info[all[k]].bits >= 8;
    bytes = hl_dtype_bytes(all[k]) > bytes ? hl_dtype_bytes(all[k]) : bytes;
  }
  c->complex = hl_is_complex(all[0]);
  if (c->complex) {
    c->dtype = all[0];
    c->type = all[0] == HL_C64 ? CONV_F32 : CONV_F64;
    return all[1] == all[0] && all[2] == all[0];
  }
  if (is_float)
    c->type = bytes == 4 ? CONV_F32 : CONV_F64;
  else
    c->type = bytes == 4 ? CONV_I32 : CONV_I64;
  static const HlDtype dtype[] = {HL_F32, HL_F64, HL_S32, HL_S64};
  c->dtype = dtype[c->type];
  return is_float || is_int;
}

// --- Axes ---------------------------------------------------------------------------------------

static int64_t size_of(const HlShape *shape, int64_t dim) {
  return shape->dim[dim];
}

// Orders 0 .. n - 1 from the largest stride to the smallest; equal ones stay.
static void order_by(const int64_t *stride, int n, int *order) {
  for (int k = 0; k < n; k++) {
    int at = k;
    for (; at > 0 && stride[order[at - 1]] < stride[k]; at--)
      order[at] = order[at - 1];
    order[at] = k;
  }
}

typedef struct Source {
  const HlShape *x, *w, *y;
  const HlDimLabels *labels;
  HlWindow window;
  int64_t feature_groups, batch_groups;
  const int64_t *xs, *ws, *ys;  // strides of the three
} Source;

static bool set_slices(ConvKernel *c, const Source *s, int64_t groups, int64_t outputs) {
  const HlDimLabels *l = s->labels;
  const int64_t lanes = c->level->lanes[c->type], unit = c->complex ? 2 : 1;
  const int64_t w_output = s->ws[l->kernel_output] * unit,
                y_output = s->ys[l->output_feature] * unit;
  const int64_t group = s->feature_groups > 1 ? c->x_dim[X_FEATURE] * c->x_stride[X_FEATURE]
                                              : c->x_dim[X_BATCH] * c->x_stride[X_BATCH];
  // How full vectors are, either way; across groups x may have to be turned.
  const double by_outputs = (double)outputs / (double)((outputs + lanes - 1) / lanes * lanes),
               by_groups = (double)groups / (double)((groups + lanes - 1) / lanes * lanes);
  c->across_groups = !c->complex && groups > 1 && by_groups * 0.7 > by_outputs;
  c->columns = (c->across_groups ? groups : outputs) * unit;
  c->slices = c->across_groups ? outputs : groups;
  c->w_column = c->across_groups ? w_output * outputs : w_output;
  c->y_column = c->across_groups ? y_output * outputs : y_output;
  c->w_slice = c->across_groups ? w_output : w_output * outputs;
  c->y_slice = c->across_groups ? y_output : y_output * outputs;
  c->x_slice = c->across_groups ? 0 : group;
  c->x_dim[X_GROUP] = c->across_groups ? groups : 1;
  c->x_stride[X_GROUP] = c->across_groups ? group : 0;
  c->vectors = c->columns > lanes ? 2 : 1;
  c->block = c->vectors * lanes;
  return true;
}

static bool set_axes(ConvKernel *c, const Source *s) {
  const HlDimLabels *l = s->labels;
  const int64_t unit = c->complex ? 2 : 1;
  const int64_t batches = size_of(s->x, l->input_batch), features = size_of(s->x, l->input_feature),
                outputs = size_of(s->w, l->kernel_output),
                groups = s->feature_groups * s->batch_groups;
  if (s->feature_groups < 1 || s->batch_groups < 1 ||
      (s->feature_groups > 1 && s->batch_groups > 1) || outputs % groups != 0 ||
      features % s->feature_groups != 0 || batches % s->batch_groups != 0 ||
      size_of(s->w, l->kernel_input) != features / s->feature_groups ||
      size_of(s->y, l->output_batch) != batches / s->batch_groups ||
      size_of(s->y, l->output_feature) != outputs)
    return false;
  for (int k = 0; k < X_AXES; k++)
    c->x_dim[k] = 1;
  c->x_dim[X_BATCH] = batches / s->batch_groups;
  c->x_stride[X_BATCH] = s->xs[l->input_batch] * unit;
  c->x_dim[X_FEATURE] = features / s->feature_groups;
  c->x_stride[X_FEATURE] = s->xs[l->input_feature] * unit;
  c->x_dim[X_HALF] = unit;
  c->x_stride[X_HALF] = c->complex ? 1 : 0;
  for (int d = 0; d < c->spatial; d++) {
    c->x_dim[X_SPATIAL + d] = size_of(s->x, l->input_spatial.at[d]);
    c->x_stride[X_SPATIAL + d] = s->xs[l->input_spatial.at[d]] * unit;
  }
  set_slices(c, s, groups, outputs / groups);
  // Of a copy of x groups lie innermost.
  int64_t stride[X_AXES];
  memcpy(stride, c->x_stride, sizeof stride);
  if (c->across_groups)
    stride[X_GROUP] = -1;
  order_by(stride, X_AXES, c->x_order);
  int64_t of_place[PLACE_AXES] = {c->x_stride[X_BATCH]},
          of_sum[SUM_AXES] = {c->x_stride[X_FEATURE], c->x_stride[X_HALF]};
  for (int d = 0; d < c->spatial; d++)
    of_place[PLACE_SPATIAL + d] = of_sum[SUM_TAP + d] = c->x_stride[X_SPATIAL + d];
  order_by(of_place, PLACE_AXES, c->place_order);
  order_by(of_sum, SUM_AXES, c->sum_order);
  return true;
}

// --- Parts --------------------------------------------------------------------------------------

static int64_t gcd(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Drops the taps at both ends that see padding only.
static void trim(ConvDim *dim, int64_t size, int64_t places, int64_t *tap, int64_t *taps) {
  while (*taps > 0 && dim->first + (places - 1) * dim->stride < 0) {
    dim->first += dim->dilation;
    ++*tap, --*taps;
  }
  while (*taps > 0 && dim->first + (*taps - 1) * dim->dilation >= size)
    --*taps;
}

// Along dimension d: the places `phase`, `phase` + n, ... and the taps that see elements there, not holes.
static void set_phase(const ConvKernel *c, const Source *s, int d, int64_t phase, ConvPart *part) {
  const HlWindowDim *w = &s->window.at[d];
  const int64_t size = size_of(s->y, s->labels->output_spatial.at[d]);
  const int64_t window = size_of(s->w, s->labels->kernel_spatial.at[d]);
  const int64_t n = w->lhs_dilate / gcd(w->lhs_dilate, w->stride),
                every = w->lhs_dilate / gcd(w->lhs_dilate, w->rhs_dilate);
  int64_t tap = 0;
  while (tap < every && (phase * w->stride + tap * w->rhs_dilate - w->pad_low) % w->lhs_dilate != 0)
    tap++;
  int64_t taps = tap < every && tap < window ? (window - tap + every - 1) / every : 0;
  ConvDim dim = {
      .stride = n * w->stride / w->lhs_dilate,
      .dilation = every * w->rhs_dilate / w->lhs_dilate,
      .first = taps ? (phase * w->stride + tap * w->rhs_dilate - w->pad_low) / w->lhs_dilate : 0};
  const int64_t places = (size - phase + n - 1) / n, unit = c->complex ? 2 : 1;
  int64_t dropped = 0;
  trim(&dim, c->x_dim[X_SPATIAL + d], places, &dropped, &taps);
  tap += dropped * every;
  const int64_t unit_of_all = gcd(places > 1 ? dim.stride : 0, taps > 1 ? dim.dilation : 0);
  dim.unit = unit_of_all > 0 ? unit_of_all : 1;
  const int64_t w_stride = s->ws[s->labels->kernel_spatial.at[d]] * unit,
                y_stride = s->ys[s->labels->output_spatial.at[d]] * unit;
  part->dim[d] = dim;
  part->places[PLACE_SPATIAL + d] = places;
  part->y += phase * y_stride;
  part->y_step[PLACE_SPATIAL + d] = n * y_stride;
  part->sums[SUM_TAP + d] = taps;
  if (taps > 0)
    part->w += (w->reversal ? window - 1 - tap : tap) * w_stride;
  part->w_step[SUM_TAP + d] = (w->reversal ? -every : every) * w_stride;
}

static void begin_part(const ConvKernel *c, const Source *s, ConvPart *part) {
  const int64_t unit = c->complex ? 2 : 1;
  for (int k = 0; k < PLACE_AXES; k++)
    part->places[k] = 1;
  for (int k = 0; k < SUM_AXES; k++)
    part->sums[k] = 1;
  for (int d = 0; d < CONV_SPATIAL; d++)
    part->dim[d].unit = 1;
  part->places[PLACE_BATCH] = c->x_dim[X_BATCH];
  part->y_step[PLACE_BATCH] = s->ys[s->labels->output_batch] * unit;
  part->sums[SUM_FEATURE] = c->x_dim[X_FEATURE];
  part->w_step[SUM_FEATURE] = s->ws[s->labels->kernel_input] * unit;
  part->sums[SUM_HALF] = c->x_dim[X_HALF];
}

static bool window_fits(const Source *s, int64_t *n_parts) {
  const int64_t most = 1 << 30;
  *n_parts = 1;
  for (int d = 0; d < s->window.n; d++) {
    const HlWindowDim *w = &s->window.at[d];
    if (w->stride < 1 || w->stride > most || w->lhs_dilate < 1 || w->lhs_dilate > 4096 ||
        w->rhs_dilate < 1 || w->rhs_dilate > most || w->pad_low > most || w->pad_low < -most ||
        size_of(s->x, s->labels->input_spatial.at[d]) > most ||
        size_of(s->w, s->labels->kernel_spatial.at[d]) > most ||
        size_of(s->y, s->labels->output_spatial.at[d]) > most)
      return false;
    const int64_t phases = w->lhs_dilate / gcd(w->lhs_dilate, w->stride),
                  size = size_of(s->y, s->labels->output_spatial.at[d]);
    *n_parts *= phases < size ? phases : size;
    if (*n_parts > 4096)
      return false;
  }
  return true;
}

static void set_parts(ConvKernel *c, const Source *s, HlArena *arena) {
  c->part = HL_ARRAY(arena, ConvPart, c->n_parts + 1);
  int64_t phase[CONV_SPATIAL] = {0};
  for (int k = 0; k < c->n_parts; k++) {
    begin_part(c, s, &c->part[k]);
    for (int d = 0; d < c->spatial; d++)
      set_phase(c, s, d, phase[d], &c->part[k]);
    for (int d = c->spatial - 1; d >= 0; d--) {
      const HlWindowDim *w = &s->window.at[d];
      const int64_t phases = w->lhs_dilate / gcd(w->lhs_dilate, w->stride),
                    size = size_of(s->y, s->labels->output_spatial.at[d]);
      if (++phase[d] < phases && phase[d] < size)
        break;
      phase[d] = 0;
    }
  }
}

// --- Boxes --------------------------------------------------------------------------------------

void conv_range(const ConvKernel *c, const ConvPart *part, const ConvBox *box, int64_t *low,
                int64_t *n, int64_t *unit) {
  for (int k = 0; k < X_SPATIAL; k++)
    unit[k] = 1;
  low[X_BATCH] = box->place[PLACE_BATCH];
  n[X_BATCH] = box->places[PLACE_BATCH];
  low[X_FEATURE] = box->sum[SUM_FEATURE];
  n[X_FEATURE] = box->sums[SUM_FEATURE];
  low[X_GROUP] = c->across_groups ? box->column : 0;
  n[X_GROUP] = c->across_groups ? (box->columns + c->block - 1) / c->block * c->block : 1;
  low[X_HALF] = box->sum[SUM_HALF];
  n[X_HALF] = box->sums[SUM_HALF];
  for (int d = 0; d < CONV_SPATIAL; d++) {
    const ConvDim *dim = &part->dim[d];
    const int64_t places = box->places[PLACE_SPATIAL + d], taps = box->sums[SUM_TAP + d];
    low[X_SPATIAL + d] = box->place[PLACE_SPATIAL + d] * dim->stride +
                         box->sum[SUM_TAP + d] * dim->dilation + dim->first;
    n[X_SPATIAL + d] =
        taps == 0 ? 0 : ((places - 1) * dim->stride + (taps - 1) * dim->dilation) / dim->unit + 1;
    unit[X_SPATIAL + d] = dim->unit;
  }
}

static int64_t product(const int64_t *at, int n) {
  int64_t all = 1;
  for (int k = 0; k < n; k++)
    all *= at[k];
  return all;
}

int64_t conv_copy(const ConvKernel *c, const int64_t *n, int64_t *stride) {
  const int64_t line = 64 / (c->type == CONV_F32 || c->type == CONV_I32 ? 4 : 8);
  int64_t next = 1;
  for (int k = X_AXES - 1; k >= 0; k--) {
    const int axis = c->x_order[k];
    if (n[axis] > 1 && next > 0 && next % (8 * line) == 0)
      next += line;  // at most an eighth
    stride[axis] = next;
    next *= n[axis];
  }
  return next;
}

// Elements of x that a box of a part sees at most; a copy is not three times as large.
static int64_t elements(const ConvKernel *c, const ConvPart *part) {
  ConvBox box = {.columns = c->column_box};
  memcpy(box.places, part->place_box, sizeof box.places);
  memcpy(box.sums, part->sum_box, sizeof box.sums);
  int64_t low[X_AXES], n[X_AXES], unit[X_AXES];
  conv_range(c, part, &box, low, n, unit);
  return product(n, X_AXES);
}

static int64_t pieces(int64_t n, int64_t box) {
  return box > 0 ? (n + box - 1) / box : 1;
}

// Makes the box along an axis about `by` times smaller, in equal pieces of no less than `least`.
static void cut(int64_t *box, int64_t n, int64_t by, int64_t least) {
  int64_t n_pieces = pieces(n, *box) * by, size = (n + n_pieces - 1) / n_pieces;
  size = size < least ? least : size;
  if (size < *box)
    *box = size;
}

// The sum of a box: features are cut first, for windows of neighbouring places overlap; but not short runs in memory.
static void cut_sums(const ConvKernel *c, ConvPart *part, int64_t most) {
  const int64_t run = c->x_stride[X_FEATURE] == 1 ? 64 : 1;
  memcpy(part->sum_box, part->sums, sizeof part->sums);
  int64_t all = product(part->sum_box, SUM_AXES);
  if (all > most)
    cut(&part->sum_box[SUM_FEATURE], part->sums[SUM_FEATURE], (all + most - 1) / most, run);
  for (int k = 0; k < SUM_AXES; k++) {
    const int axis = c->sum_order[k];
    all = product(part->sum_box, SUM_AXES);
    if (all > most && axis != SUM_FEATURE && axis != SUM_HALF)
      cut(&part->sum_box[axis], part->sums[axis], (all + most - 1) / most, 1);
  }
}

// Cuts the outermost axis of places that can be cut; false if none can.
static bool cut_places(const ConvKernel *c, ConvPart *part, int64_t by) {
  for (int k = 0; k < PLACE_AXES; k++) {
    const int axis = c->place_order[k];
    if (part->place_box[axis] > 1) {
      cut(&part->place_box[axis], part->places[axis], by, 1);
      return true;
    }
  }
  return false;
}

enum {
  MOST_STEPS = 640,        // of a panel
  MOST_ROWS = 512,         // of places
  MOST_BYTES = 192 << 10,  // of x in a box
  FEW_ROWS = 96,           // each has to be worth packing a panel of weights
  ENOUGH_CHUNKS = 32,
  CHUNK_MACS = 1 << 20,   // less is not worth being cut
  MOST_SPLIT = 4 << 20,   // elements of results that are added
  MOST_PACKED = 1 << 24,  // of weights that are packed before
};

static int64_t n_boxes(const int64_t *all, const int64_t *box, int axes) {
  int64_t n = 1;
  for (int k = 0; k < axes; k++)
    n *= pieces(all[k], box[k]);
  return n;
}

static void cut_part(const ConvKernel *c, ConvPart *part) {
  const int64_t bytes = c->type == CONV_F32 || c->type == CONV_I32 ? 4 : 8;
  cut_sums(c, part, MOST_STEPS);
  memcpy(part->place_box, part->places, sizeof part->places);
  for (int64_t rows; (rows = product(part->place_box, PLACE_AXES)) > MOST_ROWS;)
    cut_places(c, part, (rows + MOST_ROWS - 1) / MOST_ROWS);
  while (product(part->place_box, PLACE_AXES) > FEW_ROWS / 2 &&
         elements(c, part) * bytes > MOST_BYTES)
    cut_places(c, part, 2);
}

static int64_t count_boxes(ConvKernel *c) {
  c->boxes = 0;
  c->column_boxes = pieces(c->columns, c->column_box);
  for (int k = 0; k < c->n_parts; k++) {
    ConvPart *part = &c->part[k];
    part->boxes = n_boxes(part->places, part->place_box, PLACE_AXES);
    part->sum_boxes = n_boxes(part->sums, part->sum_box, SUM_AXES);
    part->first_box = c->boxes;
    c->boxes += part->boxes;
  }
  return c->boxes * c->column_boxes * c->slices * c->splits;
}

// Deals the sum out among chunks, no fewer than `least` terms each; false if that makes no more chunks.
static bool split_sum(ConvKernel *c, int64_t chunks, int64_t least) {
  if (c->n_parts != 1)
    return false;
  const ConvPart *part = &c->part[0];
  const int64_t unsplit = chunks / c->splits,
                most[] = {product(part->sums, SUM_AXES) / least,
                          (int64_t)(c->macs / (double)unsplit / CHUNK_MACS),
                          MOST_SPLIT / (c->y_elements + 1), part->sum_boxes};
  int64_t splits = (ENOUGH_CHUNKS + unsplit - 1) / unsplit;
  for (int k = 0; k < 4; k++)
    splits = most[k] < splits ? most[k] : splits;
  const bool more = splits > c->splits;
  c->splits = more ? splits : c->splits;
  return more;
}

// What is cut when there are too few chunks, in this order: a chunk has no fewer rows, terms of a sum and blocks of columns.
typedef struct Least {
  int64_t rows, terms, blocks;
} Least;

// Cuts once; false if nothing can be cut.
static bool cut_once(ConvKernel *c, int64_t chunks, Least least) {
  bool any = false;
  for (int k = 0; k < c->n_parts; k++)
    if (product(c->part[k].place_box, PLACE_AXES) / 2 >= least.rows)
      any |= cut_places(c, &c->part[k], 2);
  if (any || split_sum(c, chunks, least.terms))
    return true;
  const int64_t blocks = c->column_box / c->block;
  if (blocks / 2 < least.blocks)
    return false;
  c->column_box = (blocks + 1) / 2 * c->block;
  return true;
}

// Cuts until there is enough for many threads. It does not depend on how many there are.
static void cut_more(ConvKernel *c) {
  static const Least order[] = {
      {INT64_MAX, 2048, INT64_MAX},
      {2 * FEW_ROWS, 2048, INT64_MAX},
      {2 * FEW_ROWS, 512, CONV_AT_ONCE},
      {FEW_ROWS, 512, 1},
  };
  for (int k = 0; k < 4;) {
    const int64_t chunks = count_boxes(c);
    if (chunks >= ENOUGH_CHUNKS || c->macs / (double)chunks < CHUNK_MACS)
      return;
    k += !cut_once(c, chunks, order[k]);
  }
}

// Whether neighbours in x lie so far apart that they take each other's place in the cache: reading a copy is better then, if it is
// read often.
static bool conflicts(const ConvKernel *c) {
  const int64_t far = 1024 / (c->type == CONV_F32 || c->type == CONV_I32 ? 4 : 8), many = 4;
  if (c->column_box < CONV_AT_ONCE * c->block || c->n_parts == 0)
    return false;
  const ConvPart *part = &c->part[0];
  bool any = part->sum_box[SUM_FEATURE] > many && c->x_stride[X_FEATURE] % far == 0;
  for (int d = 0; d < c->spatial; d++)
    any |= (part->place_box[PLACE_SPATIAL + d] > many || part->sum_box[SUM_TAP + d] > many) &&
           c->x_stride[X_SPATIAL + d] * part->dim[d].stride % far == 0;
  return any;
}

static void set_boxes(ConvKernel *c) {
  c->column_box = (c->columns + c->block - 1) / c->block * c->block;
  c->macs = 0;
  for (int k = 0; k < c->n_parts; k++) {
    const ConvPart *part = &c->part[k];
    c->macs += (double)product(part->places, PLACE_AXES) * (double)product(part->sums, SUM_AXES) *
               (double)c->columns * (double)c->slices;
    cut_part(c, &c->part[k]);
  }
  c->splits = 1;
  cut_more(c);
  c->copies = conflicts(c);
  for (int k = 0; k < c->n_parts; k++) {
    const ConvPart *part = &c->part[k];
    const int64_t rows = product(part->place_box, PLACE_AXES),
                  steps = product(part->sum_box, SUM_AXES), n = 3 * elements(c, part);
    c->most_rows = rows > c->most_rows ? rows : c->most_rows;
    c->most_steps = steps > c->most_steps ? steps : c->most_steps;
    c->most_elements = n > c->most_elements ? n : c->most_elements;
  }
  const double packed = (double)c->slices * (double)c->part[0].sum_boxes *
                        (double)(pieces(c->columns, c->block) * c->block) * (double)c->most_steps;
  if (c->n_parts == 1 && c->part[0].boxes > 1 && packed <= MOST_PACKED)
    c->panel_elements = (int64_t)packed;
}

// --- The whole ----------------------------------------------------------------------------------

static bool is_static(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape);
}

// The convolution of a kernel: the instruction, or the root of a fusion of nothing else. NULL: it is none.
static const HlInst *find_conv(const HlInst *inst, int *buffer) {
  const HlInst *conv = inst->op == HL_OP_FUSION ? hl_called(inst, 0)->root : inst;
  if (conv->op != HL_OP_CONVOLUTION || conv->n_operands != 2)
    return NULL;
  for (int k = 0; k < 2; k++) {
    const HlInst *operand = conv->operands[k];
    if (conv != inst && operand->op != HL_OP_PARAMETER)
      return NULL;
    buffer[k] = conv == inst ? k : (int)hl_parameter_number(operand);
  }
  buffer[2] = (int)inst->n_operands;
  return conv;
}

CpuKernel *conv_make(CpuMaker *maker, const HlInst *inst) {
  int buffer[3];
  const HlInst *conv = find_conv(inst, buffer);
  if (!conv)
    return NULL;
  Source s = {.x = inst->operands[buffer[0]]->shape,
              .w = inst->operands[buffer[1]]->shape,
              .y = inst->shape,
              .labels = hl_attr_ptr(conv, HL_A_DIM_LABELS),
              .window = hl_window(conv),
              .feature_groups = hl_attr_int(conv, HL_A_FEATURE_GROUP_COUNT),
              .batch_groups = hl_attr_int(conv, HL_A_BATCH_GROUP_COUNT)};
  int64_t n_parts = 0;
  const HlDimLabels *l = s.labels;
  if (!l || !is_static(s.x) || !is_static(s.w) || !is_static(s.y) || s.window.n > CONV_SPATIAL ||
      l->input_spatial.n != s.window.n || l->kernel_spatial.n != s.window.n ||
      l->output_spatial.n != s.window.n || s.x->rank != s.window.n + 2 ||
      s.w->rank != s.window.n + 2 || s.y->rank != s.window.n + 2 || !window_fits(&s, &n_parts))
    return NULL;
  s.xs = cpu_strides(maker->arena, s.x);
  s.ws = cpu_strides(maker->arena, s.w);
  s.ys = cpu_strides(maker->arena, s.y);
  static const ConvLevel *const levels[CPU_LEVELS] = SIMD_LEVELS(&conv_level);
  ConvKernel *c = HL_NEW(maker->arena, ConvKernel);
  *c = (ConvKernel){.kernel = {.kind = &cpu_kind_conv, .n_buffers = buffer[2] + 1},
                    .buffer = {buffer[0], buffer[1], buffer[2]},
                    .x_dtype = s.x->dtype,
                    .w_dtype = s.w->dtype,
                    .y_dtype = s.y->dtype,
                    .simd = maker->level,
                    .level = levels[maker->level],
                    .spatial = s.window.n,
                    .n_parts = (int)n_parts};
  if (!find_type(c) || !set_axes(c, &s))
    return NULL;
  c->transpose = vec_transpose(maker->level, c->type == CONV_F32 || c->type == CONV_I32 ? 4 : 8);
  const int64_t unit = c->complex ? 2 : 1;
  c->x_elements = hl_shape_elements(s.x) * unit;
  c->w_elements = hl_shape_elements(s.w) * unit;
  c->y_elements = hl_shape_elements(s.y) * unit;
  if (c->y_elements == 0)
    c->n_parts = 0;
  set_parts(c, &s, maker->arena);
  set_boxes(c);
  const double rate = 8e9 * (1 << maker->level) / (c->type == CONV_F32 ? 1 : 2);  // macs a second
  c->winograd = c->n_parts == 1 ? winograd_plan(c, maker->arena) : NULL;
  c->kernel.seconds = c->macs / rate / (c->winograd ? 2 : 1);
  return &c->kernel;
}

void conv_print(HlBuf *out, const CpuKernel *kernel) {
  const ConvKernel *c = (const ConvKernel *)kernel;
  if (c->winograd)
    hl_buf_printf(out,
                  "convolution: %" PRId64 " tiles of 2x2 places, 16 products each (Winograd)\n",
                  c->winograd->tiles);
  else
    hl_buf_printf(out,
                  "convolution: %d parts, vectors across %s, blocks of %" PRId64
                  " columns, %" PRId64 " boxes of up to %" PRId64 " places times %" PRId64
                  ", sums of %" PRId64 " in %" PRId64 "\n",
                  c->n_parts, c->across_groups ? "groups" : "output features", c->block,
                  c->boxes * c->slices * c->column_boxes, c->most_rows, c->column_box,
                  c->most_steps, c->splits);
}

const CpuKernelKind cpu_kind_conv = {"conv", conv_make, conv_run, conv_print};
