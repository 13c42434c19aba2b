// cpu/chain/epilogue.c: a dot and what is computed from it element by element, as one kernel.
//
//   d = f32[512,768] dot(x, w)
//   y = f32[512,768] fusion(d, bias)         for each block of d: y of the same places, while the block is in the cache
//
// The dot's blocks are as it makes them (dot.h), and a box program (cpu/tile/box.h) computes what becomes of them: what it reads
// of the dot must be what stands in the same place. Elements as large as the result's are first put where the result will be, unless
// something else that is read may lie there; others never leave the cache.

#include <string.h>

#include "cpu/chain/plan.h"
#include "cpu/vec/vec.h"
#include "hilo/op.h"

typedef struct Epilogue {
  CpuKernel kernel;
  const DotPlan *plan;
  const TileBox *box;
  int operand[2];     // of the dot: buffers
  const int *source;  // of the box
  int result;
  int rank;  // of the result; dimensions by how far apart they lie, the farthest first
  const int *order;
  const int64_t *dim, *stride;
  DotBlocks blocks;
  int row, column;        // -1: none
  int64_t rows, columns;  // of a piece, at most
} Epilogue;

typedef struct Find {
  CpuMaker *maker;
  HlArena *arena;  // the maker's
  Chain *chain;
  const HlInst *dot, *value;
  const int64_t *stride;  // of the value
  int64_t *dot_stride;    // in the value, along each dimension of the dot
  int *dot_dim;           // by dimension of the value: that of the dot which it is in ...
  int64_t *dot_step;      // ... and how many of that a step is
  int n_sources;
  TileSource source[CHAIN_MAX_SOURCES];
  bool in_place[CHAIN_MAX_SOURCES];
} Find;

// --- Members --------------------------------------------------------------------------------------

static bool is_view(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST && inst->shape->dtype == inst->operands[0]->shape->dtype;
}

static bool is_used_once(const HlInst *inst) {
  return inst != inst->comp->root && inst->first_use && !inst->first_use->next;
}

// Element by element, and nothing else.
static bool is_pointwise(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT:
  case HL_OP_BROADCAST:
  case HL_OP_BITCAST:
  case HL_OP_IOTA: return true;
  default: return hl_op_is((HlOp)inst->op, HL_T_ELEMENTWISE) && inst->n_calls == 0;
  }
}

static bool may_end(const HlInst *last) {
  if (!hl_shape_is_array(last->shape) || hl_shape_is_dynamic(last->shape) ||
      hl_shape_elements(last->shape) == 0 || hl_has_side_effect(last))
    return false;
  if (last->op != HL_OP_FUSION)
    return hl_op_is((HlOp)last->op, HL_T_ELEMENTWISE) && last->n_calls == 0 && last->n_operands > 0;
  for (const HlInst *inst = hl_called(last, 0)->first; inst; inst = inst->next)
    if (!is_pointwise(inst))
      return false;
  return true;
}

// Which is packed when the kernel of the dot is made.
static bool has_constant(const HlInst *dot) {
  return dot->operands[0]->op == HL_OP_CONSTANT || dot->operands[1]->op == HL_OP_CONSTANT;
}

// The dot that an operand is, behind views; nobody else uses any of them.
static const HlInst *leads_to_dot(Chain *chain, const HlInst *operand) {
  chain->n_members = 1;
  while (chain->n_members < CHAIN_MAX_MEMBERS && is_used_once(operand)) {
    chain->member[chain->n_members++] = operand;
    if (operand->op == HL_OP_DOT)
      return has_constant(operand) ? NULL : operand;
    if (!is_view(operand))
      return NULL;
    operand = operand->operands[0];
  }
  return NULL;
}

// --- Dimensions -----------------------------------------------------------------------------------

// Each dimension of the dot is one of the value, or several that follow each other, and lies evenly in it.
static bool match_dims(Find *f) {
  const HlShape *d = f->dot->shape, *v = f->value->shape;
  f->dot_stride = HL_ARRAY(f->arena, int64_t, 2 * (d->rank + v->rank) + 2);
  f->dot_step = f->dot_stride + d->rank + 1;
  f->dot_dim = HL_ARRAY(f->arena, int, v->rank + 1);
  int at = v->rank;
  for (int e = d->rank - 1; e >= 0; e--) {
    int64_t n = 1;
    for (; at > 0 && (n < d->dim[e] || (v->dim[at - 1] == 1 && e == 0)); n *= v->dim[at]) {
      at--;
      if (n > 1 && v->dim[at] > 1 && f->stride[at] != f->dot_stride[e] * n)
        return false;
      if (n == 1)
        f->dot_stride[e] = f->stride[at];
      f->dot_dim[at] = e;
      f->dot_step[at] = n;
    }
    if (n != d->dim[e])
      return false;
  }
  return at == 0;
}

static int dim_of_step(const Find *f, int64_t step) {
  for (int d = 0; d < f->value->shape->rank && step > 0; d++)
    if (f->value->shape->dim[d] > 1 && f->stride[d] == step)
      return d;
  return -1;
}

// Whether the box reads of the dot what stands where it writes.
static bool reads_same_places(const Find *f, const TileBoxAsk *ask, const TileBox *box) {
  if (box->dot != f->dot || box->dot_call)
    return false;
  for (int e = 0; e < f->dot->shape->rank; e++) {
    int64_t size = 1;
    for (int d = 0; d < ask->rank; d++) {
      const bool own = f->dot_dim[d] == e;
      size *= own ? ask->size[d] : 1;
      if (ask->dim[d] > 1 && box->dot_base[e].k[d] != (own ? f->dot_step[d] : 0))
        return false;
    }
    if (box->dot_size[e] != size || box->dot_base[e].c != 0)
      return false;
  }
  return true;
}

// --- The kernel -----------------------------------------------------------------------------------

static int add_source(Find *f, TileSource source, bool in_place) {
  for (int k = 0; k < f->n_sources; k++)
    if (f->source[k].inst == source.inst && f->source[k].leaf == source.leaf) {
      f->in_place[k] = f->in_place[k] && in_place;
      return k;
    }
  if (f->n_sources == CHAIN_MAX_SOURCES)
    return -1;
  f->source[f->n_sources] = source;
  f->in_place[f->n_sources] = in_place;
  return f->n_sources++;
}

// The longest piece of a dimension in blocks of so many rows or columns, which begin at multiples of a unit (0: all at the first).
// A whole dimension is none where a block may begin inside: a piece would have one place to be at, and that is the first.
static int64_t longest(int64_t dim, int64_t most, int64_t unit) {
  return most < dim ? most : unit % dim == 0 ? dim : (dim + 1) / 2;
}

static const TileBox *make_box(Find *f, Epilogue *k) {
  enum { LONG = 64 };  // rows that are done one by one
  const HlShape *v = f->value->shape;
  const DotBlocks *blocks = &k->blocks;
  int64_t *dims = HL_ARRAY(f->arena, int64_t, 3 * v->rank + f->dot->shape->rank + 1);
  int64_t *size = dims, *first = size + v->rank, *count = first + v->rank, *hole = count + v->rank;
  for (int d = 0; d < v->rank; d++) {
    size[d] = d == k->column ? longest(v->dim[d], blocks->columns, blocks->column_unit)
              : d == k->row  ? longest(v->dim[d], blocks->rows, blocks->row_unit)
                             : 1;
    count[d] = v->dim[d] - size[d] + 1;
  }
  k->rows = k->row < 0 ? 1 : size[k->row];
  k->columns = k->column < 0 ? 1 : size[k->column];
  if (k->row >= 0)
    hole[f->dot_dim[k->row]] = blocks->row;
  if (blocks->is_in_place)
    memcpy(hole, f->dot_stride, sizeof *hole * (size_t)f->dot->shape->rank);
  else if (k->column >= 0)
    hole[f->dot_dim[k->column]] = 1;
  const TileBoxAsk ask = {.comp = f->value->comp,
                          .member = f->chain->member,
                          .n_members = f->chain->n_members,
                          .value = f->value,
                          .rank = v->rank,
                          .dim = v->dim,
                          .first = first,
                          .size = size,
                          .count = count,
                          .is_loose = true,
                          .narrow = k->column >= 0 && size[k->column] < v->dim[k->column],
                          .by_row = k->column >= 0 && size[k->column] >= LONG,
                          .row = k->row,
                          .column = k->column,
                          .hole = hole};
  const TileBox *box = tile_box(f->maker, &ask);
  return box && reads_same_places(f, &ask, box) ? box : NULL;
}

static bool find_sources(Find *f, Epilogue *k) {
  for (int side = 0; side < 2; side++)
    if ((k->operand[side] = add_source(f, (TileSource){f->dot->operands[side], 0}, false)) < 0)
      return false;
  int *source = HL_ARRAY(f->arena, int, k->box->n_sources + 1);
  for (int s = 0; s < k->box->n_sources; s++)
    if ((source[s] = add_source(f, k->box->source[s], k->box->in_place[s])) < 0)
      return false;
  k->source = source;
  k->result = f->n_sources;
  f->chain->n_sources = f->n_sources;
  f->chain->source = hl_arena_copy(f->arena, f->source, sizeof *f->source * (size_t)f->n_sources);
  f->chain->in_place =
      hl_arena_copy(f->arena, f->in_place, sizeof *f->in_place * (size_t)f->n_sources);
  return true;
}

static const int *order_of(Find *f) {
  const int rank = f->value->shape->rank;
  int *order = HL_ARRAY(f->arena, int, rank + 1);
  for (int d = 0; d < rank; d++) {
    int at = d;
    for (; at > 0 && f->stride[order[at - 1]] < f->stride[d]; at--)
      order[at] = order[at - 1];
    order[at] = d;
  }
  return order;
}

// Whether the result may lie where something is that is read beside the dot: blocks must not be written there before.
static bool may_be_replaced(const Find *f) {
  for (uint32_t k = 0; k < f->value->n_operands; k++) {
    const HlInst *operand = f->value->operands[k];
    if (operand != f->chain->member[1] && cpu_bytes(operand->shape) == cpu_bytes(f->value->shape))
      return true;
  }
  return false;
}

static bool make_kernel(Find *f) {
  const HlShape *v = f->value->shape;
  f->stride = cpu_strides(f->arena, v);
  const HlDtype carrier = vec_carrier(f->dot->shape->dtype);
  if (v->rank > CHAIN_MAX_RANK || !match_dims(f))
    return false;
  Epilogue *k = HL_NEW(f->arena, Epilogue);
  const bool apart = hl_dtype_bytes(carrier) != hl_dtype_bytes(v->dtype) || may_be_replaced(f);
  k->plan = dot_plan_changed(f->maker, f->dot, f->dot_stride, carrier, apart);
  if (!k->plan)
    return false;
  k->blocks = dot_blocks(k->plan);
  k->row = dim_of_step(f, k->blocks.row_step);
  k->column = dim_of_step(f, k->blocks.column_step);
  if (k->blocks.dtype != carrier || (k->blocks.row_step > 0) != (k->row >= 0) ||
      (k->blocks.column_step > 0) != (k->column >= 0))
    return false;
  k->box = make_box(f, k);
  if (!k->box || !find_sources(f, k))
    return false;
  k->rank = v->rank;
  k->order = order_of(f);
  k->dim = v->dim;
  k->stride = f->stride;
  k->kernel = (CpuKernel){&cpu_kind_epilogue, f->n_sources + 1,
                          dot_seconds(k->plan) + 0.5e-9 * (double)hl_shape_elements(v),
                          dot_held_bytes(k->plan)};
  f->chain->kernel = &k->kernel;
  return true;
}

bool epilogue_find(CpuMaker *maker, const HlInst *last, Chain *out) {
  enum { FEWEST = 1 << 15 };  // elements: of fewer a pass of their own is as fast
  if (!may_end(last) || hl_shape_elements(last->shape) < FEWEST)
    return false;
  for (uint32_t k = 0; k < last->n_operands; k++) {
    *out = (Chain){.last = last, .member = {last}, .apart = true};
    Find f = {.maker = maker, .arena = maker->arena, .chain = out, .value = last};
    f.dot = leads_to_dot(out, last->operands[k]);
    if (f.dot && make_kernel(&f))
      return true;
  }
  return false;
}

// --- Running --------------------------------------------------------------------------------------

typedef struct Job {
  const Epilogue *kernel;
  void *const *buffer;
} Job;

// Where in the result an element is.
static void indices_of(const Epilogue *k, int64_t place, int64_t *index) {
  for (int j = 0; j < k->rank; j++) {
    const int d = k->order[j];
    index[d] = k->dim[d] == 1 ? 0 : place / k->stride[d];
    place -= index[d] * k->stride[d];
  }
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t piece_of(int d, const Epilogue *k, const int64_t *index, int64_t most) {
  return d < 0 ? 1 : least(most, k->dim[d] - index[d]);
}

// Piece by piece of the block, as far as dimensions of the result go.
static bool run_block(void *user, const DotBlock *block, void *scratch) {
  const Job *job = user;
  const Epilogue *k = job->kernel;
  const int64_t bytes = hl_dtype_bytes(block->dtype);
  void *buffer[2 + CHAIN_MAX_SOURCES];
  int64_t index[CHAIN_MAX_RANK] = {0};
  buffer[1] = job->buffer[k->result];
  for (int s = 0; s < k->box->n_sources; s++)
    buffer[2 + s] = job->buffer[k->source[s]];
  for (int64_t i = 0, rows = 1; i < block->rows; i += rows)
    for (int64_t j = 0, columns; j < block->columns; j += columns) {
      indices_of(k, block->place + i * k->blocks.row_step + j * k->blocks.column_step, index);
      rows = piece_of(k->row, k, index, least(block->rows - i, k->rows));
      columns = piece_of(k->column, k, index, least(block->columns - j, k->columns));
      buffer[0] = (char *)block->at + (i * block->row + j) * bytes;
      tile_box_run_part(k->box, buffer, index, rows, columns, scratch);
    }
  return true;
}

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const Epilogue *k = (const Epilogue *)(const void *)kernel;
  Job job = {k, buffer};
  const DotEpilogue epilogue = {run_block, &job, k->box->scratch};
  return dot_run(k->plan, team, buffer[k->operand[0]], buffer[k->operand[1]], buffer[k->result],
                 &epilogue, kernel->held > 0 ? buffer[kernel->n_buffers] : NULL);
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const Epilogue *k = (const Epilogue *)(const void *)kernel;
  dot_print(out, k->plan);
  tile_box_print(out, k->box);
}

// Only chains of instructions: no single one is of this kind.
static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  return NULL;
}

const CpuKernelKind cpu_kind_epilogue = {"epilogue", make, run, print};
