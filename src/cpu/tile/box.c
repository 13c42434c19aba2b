// cpu/tile/box.c: box programs: a nest over one box, with a dot whose elements are at hand.

#include "cpu/tile/box.h"

#include <string.h>

#include "cpu/tile/build.h"
#include "hilo/op.h"

enum { HOLE, OUT, FIRST_SOURCE, MAX_TRIES = 40 };

struct BoxLower {
  const TileBoxAsk *ask;
  Frame *frame;  // of ask->comp
  int *var;      // by dimension of the box
  const HlInst *call, *dot;
  int64_t *size;  // by dimension of the dot, as far as is known
  Affine *base;
  bool has_base;
  VEC(TileSource) source;
};

// --- What is asked for ----------------------------------------------------------------------------

static bool is_member(const struct BoxLower *b, const HlInst *inst) {
  for (int k = 0; k < b->ask->n_members; k++)
    if (b->ask->member[k] == inst)
      return true;
  return false;
}

static bool is_number(const struct BoxLower *b, int var) {
  for (int d = 0; d < b->ask->rank; d++)
    if (b->var[d] == var)
      return true;
  return false;
}

// An index of the dot as where the box begins and the place in it, which is within `size`.
static bool split_index(Lower *l, struct BoxLower *b, const Affine *index, int d, Affine *local) {
  Affine base = affine_const(index->c);
  *local = affine_const(0);
  if (index->den != 1)
    return false;
  for (int v = 0; v < l->n_vars; v++) {
    if (index->k[v] != 0 && l->var[v].node >= 0)
      return false;
    (is_number(b, v) ? &base : local)->k[v] = index->k[v];
  }
  if (b->has_base && memcmp(&base, &b->base[d], sizeof base) != 0)
    return false;
  b->base[d] = base;
  int64_t least, most;
  affine_range(l, local, &least, &most);
  if (least < 0)
    return false;
  if (most >= b->size[d]) {  // all over again, with more of it
    b->size[d] = most + 1;
    l->again = true;
  }
  return true;
}

static Val hole(Lower *l, const Ask *ask) {
  struct BoxLower *b = l->box;
  const HlInst *dot = ask->inst, *call = ask->frame == b->frame ? NULL : ask->frame->call;
  const HlDtype dtype = dot->shape->dtype, held = vec_carrier(dtype);
  const int rank = dot->shape->rank;
  if ((b->dot && (b->dot != dot || b->call != call)) || (call && ask->frame->up != b->frame))
    return tile_fail(l, "two products");
  const bool is_whole = dtype == HL_S32 || dtype == HL_S64;  // as which sums of integers are kept
  if ((!hl_is_float(dtype) && !is_whole) || (ask->raw && held != dtype))
    return tile_fail(l, "a product of another type");
  if (!b->dot) {
    b->dot = dot;
    b->call = call;
    b->size = HL_ARRAY(l->arena, int64_t, rank + 1);
    b->base = HL_ARRAY(l->arena, Affine, rank + 1);
  }
  Affine *local = HL_ARRAY(l->arena, Affine, rank + 1);
  for (int d = 0; d < rank; d++)
    if (!split_index(l, b, &ask->map[d], d, &local[d]))
      return tile_fail(l, "elements of the product beyond the box");
  b->has_base = true;
  int64_t *stride = HL_ARRAY(l->arena, int64_t, rank + 1);
  hl_strides(rank, b->size, stride);
  if (b->ask->is_loose)
    memcpy(stride, b->ask->hole, sizeof *stride * (size_t)rank);
  const Affine at = affine_dot(rank, local, stride);
  const Val v = tile_load(l, HOLE, ask->raw ? tile_raw_dtype(dtype) : held, &at, ask->scope);
  return held == dtype || l->why
             ? v
             : (Val){tile_unary_node(l, NODE_ROUND, HL_F32, dtype, ask->scope, v.re), -1};
}

static Val source(Lower *l, const Ask *ask) {
  struct BoxLower *b = l->box;
  const HlShape *shape = cpu_leaf(ask->inst->shape, ask->leaf);
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) || hl_shape_elements(shape) == 0)
    return tile_fail(l, "an operand that is no array");
  int k = 0;
  while (k < b->source.n &&
         (b->source.at[k].inst != ask->inst || b->source.at[k].leaf != ask->leaf))
    k++;
  if (k == b->source.n)
    vec_push_in(l->arena, &b->source, ((TileSource){ask->inst, ask->leaf}));
  if (FIRST_SOURCE + b->source.n > TILE_MAX_BUFFERS / 2)
    return tile_fail(l, "too many operands");
  const Affine at = affine_dot(shape->rank, ask->map, cpu_strides(l->arena, shape));
  return tile_load(l, FIRST_SOURCE + k, ask->raw ? tile_raw_dtype(shape->dtype) : shape->dtype, &at,
                   ask->scope);
}

bool tile_box_by_row(const Lower *l) {
  return l->box && (l->box->ask->narrow || l->box->ask->by_row);
}

bool tile_box_has(Lower *l, const Ask *ask, Val *out) {
  const struct BoxLower *b = l->box;
  const bool outside = ask->frame == b->frame && !is_member(b, ask->inst);
  if (ask->inst->op == HL_OP_DOT && !outside)
    *out = hole(l, ask);
  else if (outside && ask->inst->op != HL_OP_CONSTANT)
    *out = source(l, ask);
  else
    return false;
  return true;
}

// --- The nest -------------------------------------------------------------------------------------

// The indices of the box in the value, and where it goes.
static bool map_box(Lower *l, const TileBoxAsk *ask, Affine *map, Affine *to) {
  const HlShape *shape = ask->value->shape;
  Affine *index = HL_ARRAY(l->arena, Affine, 2 * ask->rank + 1), *local = index + ask->rank;
  for (int d = 0; d < ask->rank; d++) {
    local[d] = affine_axis(l, ask->size[d], 0);
    index[d] = affine_plus(&local[d], ask->first[d]);
    const bool moves = ask->is_loose ? ask->dim[d] > 1 : ask->count[d] > 1;
    if (moves && l->n_vars < TILE_MAX_VARS) {
      const int v = l->box->var[d] = l->n_vars++;
      l->var[v] = (Var){.n = ask->count[d], .axis = -1, .block = -1, .node = -1};
      index[d].k[v] = ask->is_loose ? 1 : ask->size[d];
    }
  }
  int64_t *stride = HL_ARRAY(l->arena, int64_t, ask->rank + 1);
  hl_strides(ask->rank, ask->dim, stride);
  if (ask->rank == shape->rank &&
      memcmp(ask->dim, shape->dim, sizeof *stride * (size_t)ask->rank) == 0) {
    memcpy(map, index, sizeof *map * (size_t)ask->rank);
  } else {
    const Affine place = affine_dot(ask->rank, index, stride);
    if (!affine_split(l, &place, shape->rank, shape->dim, NULL, 0, map))
      return false;
  }
  if (ask->is_local) {
    hl_strides(ask->rank, ask->size, stride);
    *to = affine_dot(ask->rank, local, stride);
  } else {
    *to = affine_dot(shape->rank, map, cpu_strides(l->arena, shape));
  }
  return !l->why;
}

static bool lower_box(Lower *l, TileNest *nest) {
  const TileBoxAsk *ask = l->box->ask;
  int tries = 0;
  do {
    tile_nest_start(l);
    l->box->has_base = false;
    for (int d = 0; d < ask->rank; d++)
      l->box->var[d] = -1;
    l->box->frame = tile_frame(l, ask->comp);
    Affine *map = HL_ARRAY(l->arena, Affine, ask->value->shape->rank + 1), to;
    if (!map_box(l, ask, map, &to))
      continue;
    Frame *frame = ask->call ? tile_call_frame(l, l->box->frame, ask->call) : l->box->frame;
    const Val value = tile_ask(l, &(Ask){.frame = frame, .inst = ask->value, .map = map});
    if (!l->why)
      tile_store(l, OUT, ask->value->shape->dtype, &to, value, 0);
  } while (l->again && ++tries < MAX_TRIES);
  return !l->why && !l->again && l->box->has_base && tile_schedule(l, nest);
}

// --- Loose boxes ----------------------------------------------------------------------------------

// The loop of a dimension; -1: it has one turn, or is one with another.
static int loop_of(const Lower *l, int d) {
  for (int v = 0; v < l->n_vars; v++)
    if (l->var[v].axis == d && l->var[v].n > 1)
      return v;
  return -1;
}

// False: a loop is neither that of a dimension nor both.
static bool find_loops(const Lower *l, const TileBoxAsk *ask, TileBox *box) {
  const int64_t rows = ask->row < 0 ? 1 : ask->size[ask->row],
                columns = ask->column < 0 ? 1 : ask->size[ask->column];
  box->row_var = ask->row < 0 ? -1 : loop_of(l, ask->row);
  box->column_var = ask->column < 0 ? -1 : loop_of(l, ask->column);
  box->joined = rows > 1 && columns > 1 && box->row_var < 0;
  const int64_t own = box->column_var < 0 ? 1 : l->var[box->column_var].n;
  return own == columns * (box->joined ? rows : 1) && !(box->joined && ask->narrow) &&
         (box->row_var < 0 ? rows == 1 || box->joined : l->var[box->row_var].n == rows);
}

// Whether a source is read at the places of the result alone.
static const bool *find_in_place(const Lower *l, HlArena *arena) {
  bool *in_place = HL_ARRAY(arena, bool, l->box->source.n + 1);
  const Store *store = &l->store.at[0];
  for (int k = 0; k < l->box->source.n; k++)
    in_place[k] = true;
  for (int n = 0; n < l->node.n; n++) {
    const Node *node = &l->node.at[n];
    if (node->kind == NODE_LOAD && node->buffer >= FIRST_SOURCE &&
        node->buffer < FIRST_SOURCE + l->box->source.n &&
        (hl_dtype_bytes(node->from) != hl_dtype_bytes(store->dtype) ||
         memcmp(node->at, &store->at, sizeof store->at) != 0))
      in_place[node->buffer - FIRST_SOURCE] = false;
  }
  return in_place;
}

// --- The whole ------------------------------------------------------------------------------------

static const TileBase *bases_of(Lower *l, HlArena *arena) {
  const struct BoxLower *b = l->box;
  const int rank = b->dot->shape->rank;
  TileBase *base = HL_ARRAY(arena, TileBase, rank + 1);
  for (int e = 0; e < rank; e++) {
    int64_t *k = HL_ARRAY(arena, int64_t, b->ask->rank + 1);
    for (int d = 0; d < b->ask->rank; d++)
      k[d] = b->var[d] < 0 ? 0 : b->base[e].k[b->var[d]];
    base[e] = (TileBase){b->base[e].c, k};
  }
  return base;
}

const TileBox *tile_box(CpuMaker *maker, const TileBoxAsk *ask) {
  HlArena *arena = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(arena);
  Lower *l = HL_NEW(arena, Lower);
  struct BoxLower *b = HL_NEW(arena, struct BoxLower);
  *b = (struct BoxLower){.ask = ask, .var = HL_ARRAY(maker->arena, int, ask->rank + 1)};
  *l = (Lower){.maker = maker, .arena = arena, .box = b};
  TileNest nest;
  TileBox *box = NULL;
  if (hl_shape_is_array(ask->value->shape) && lower_box(l, &nest) &&
      FIRST_SOURCE + b->source.n + l->literal.n <= TILE_MAX_BUFFERS) {
    l->n_outer = FIRST_SOURCE + b->source.n;
    vec_push_in(maker->arena, &l->nest, nest);
    tile_finish_nests(l);
    const int rank = b->dot->shape->rank;
    const void **constant = HL_ARRAY(maker->arena, const void *, l->literal.n + 1);
    for (int k = 0; k < l->literal.n; k++)
      constant[k] = l->literal.at[k]->data;
    box = HL_NEW(maker->arena, TileBox);
    *box = (TileBox){
        .rank = ask->rank,
        .var = b->var,
        .nest = l->nest.at,
        .dot_call = b->call,
        .dot = b->dot,
        .dot_size = hl_arena_copy(maker->arena, b->size, sizeof *b->size * (size_t)(rank + 1)),
        .dot_base = bases_of(l, maker->arena),
        .n_sources = b->source.n,
        .in_place = find_in_place(l, maker->arena),
        .source =
            hl_arena_copy(maker->arena, b->source.at, sizeof *b->source.at * (size_t)b->source.n),
        .n_constants = l->literal.n,
        .constant = constant,
        .scratch = tile_frame_bytes(l->nest.at)};
    if (ask->is_loose && !find_loops(l, ask, box))
      box = NULL;
  }
  hl_arena_release(arena, mark);
  return box;
}

static void run(const TileBox *box, const TileNest *nest, void *const *buffer,
                const int64_t *number, void *scratch) {
  void *all[TILE_MAX_BUFFERS];
  int64_t index[TILE_MAX_VARS] = {0};
  int n = FIRST_SOURCE + box->n_sources;
  memcpy(all, buffer, sizeof *all * (size_t)n);
  for (int k = 0; k < box->n_constants; k++)
    all[n++] = (void *)(uintptr_t)box->constant[k];
  for (int d = 0; d < box->rank; d++)
    if (box->var[d] >= 0)
      index[box->var[d]] = number[d];
  tile_run_nest(nest, all, index, scratch);
}

void tile_box_run(const TileBox *box, void *const *buffer, const int64_t *number, void *scratch) {
  run(box, box->nest, buffer, number, scratch);
}

void tile_box_run_part(const TileBox *box, void *const *buffer, const int64_t *number, int64_t rows,
                       int64_t columns, void *scratch) {
  int64_t extent[TILE_MAX_VARS];
  TileNest nest = *box->nest;
  memcpy(extent, nest.extent, sizeof *extent * (size_t)nest.n_vars);
  if (box->row_var >= 0)
    extent[box->row_var] = rows;
  if (box->column_var >= 0)
    extent[box->column_var] = columns * (box->joined ? rows : 1);
  nest.extent = extent;
  nest.cut = INT64_MAX / 2;
  nest.units = 1;
  for (int k = 0; k < nest.grid.n_loops; k++)
    nest.units *= extent[nest.grid.loop[k]];
  run(box, &nest, buffer, number, scratch);
}

void tile_box_print(HlBuf *out, const TileBox *box) {
  const TileProgram program = {.n_nests = 1, .nest = box->nest};
  tile_print(out, &program.base);
}
