// cpu/tile/nests.c: from an instruction to a tile program: which results share a nest, what is written in place.
//
// Each result is a nest of loops over its elements; results of one shape share a nest. A dynamic-update-slice of what a buffer
// holds is a nest over the update alone, which writes over that buffer, or over a copy where the result has another. Where an update
// reads what updates write, it is computed apart first. So are the parts of long reductions (parts.c).

#include "cpu/tile/build.h"

#include <string.h>

#include "base/compiler.h"
#include "hilo/op.h"

enum { MAX_CUTS = 32 };

// --- Nests ----------------------------------------------------------------------------------------

void tile_nest_start(Lower *l) {
  l->again = false;
  l->why = NULL;
  l->n_axes = l->n_vars = l->depth = 0;
  l->node.n = l->scope.n = l->block.n = l->store.n = l->frame.n = l->folded.n = 0;
  l->known = (Map){.arena = l->arena};
  vec_push_in(l->arena, &l->scope, ((Scope){.parent = -1}));
  tile_block(l);  // the grid
}

void tile_store(Lower *l, int buffer, HlDtype dtype, const Affine *at, Val value, int scope) {
  vec_push_in(
      l->arena, &l->store,
      ((Store){.buffer = buffer, .dtype = dtype, .at = *at, .value = value, .scope = scope}));
}

void tile_update(Lower *l, int buffer, HlDtype dtype, const Affine *at, Val value,
                 const Update *update) {
  vec_push_in(l->arena, &l->store, ((Store){buffer, dtype, *at, value, 0, *update}));
}

// The frame of the kernel's instruction: a fusion's computation, or nothing but its operands.
static Frame *outermost(Lower *l, const HlInst *inst, const int *first_buffer) {
  Frame *frame;
  if (inst->op == HL_OP_FUSION) {
    frame = tile_frame(l, hl_to_apply(inst));
    frame->moved = tile_find_moved(l->arena, frame->comp);
  } else {
    frame = HL_NEW(l->arena, Frame);
  }
  frame->first_buffer = first_buffer;
  return frame;
}

typedef struct Roots {
  const HlInst *inst;       // the kernel's
  const int *first_buffer;  // of its operands
  int n;                    // leaves of the result
  int first_out;            // their first buffer
  bool *done;
  const HlInst **update;  // of those that are updates in place: the last one
  int *over;              // and the buffer that they update
} Roots;

// The instruction that makes a leaf of the result.
static const HlInst *maker_of(const HlInst *root, int leaf) {
  while (root->op == HL_OP_TUPLE) {
    int k = 0;
    for (int n; leaf >= (n = cpu_leaf_count(root->operands[k]->shape)); k++)
      leaf -= n;
    root = root->operands[k];
  }
  return root;
}

static bool compute_root(Lower *l, const Roots *r, Frame *frame, int leaf, const Affine *map) {
  const HlShape *shape = cpu_leaf(r->inst->shape, leaf);
  const HlInst *root = frame->comp ? frame->comp->root : r->inst;
  const HlInst *maker = maker_of(root, leaf);
  const bool raw = frame->comp ? frame->moved[maker->id] : tile_may_move(r->inst);
  const Ask ask = {frame, root, leaf, map, 0, raw};
  const Val value = frame->comp ? tile_ask(l, &ask) : tile_compute(l, &ask);
  if (l->why)
    return false;
  const Affine at = affine_dot(shape->rank, map, cpu_strides(l->arena, shape));
  tile_store(l, r->first_out + leaf, raw ? tile_raw_dtype(shape->dtype) : shape->dtype, &at, value,
             0);
  return true;
}

static void add_nest(Lower *l, const TileNest *nest) {
  vec_push_in(l->maker->arena, &l->nest, *nest);
}

// The computation of a nest by loops over these sizes: `fill` asks for what it stores. Starts over where an axis is to be cut.
typedef struct Filling {
  const Roots *r;
  int leaf;
  const HlInst *inst;  // of updates and parts
  int part;            // the first reduction whose parts it makes
  bool is_rest;
  int temp;            // -1: none
  HlDtype dtype;       // of it
  const int64_t *dim;  // of the nest
  int rank;
} Filling;
typedef void Fill(Lower *l, const Filling *f, Frame *frame, const Affine *map);

static bool lower_nest(Lower *l, const Filling *f, Fill *fill, TileNest *out) {
  l->cut.n = 0;
  do {
    tile_nest_start(l);
    Frame *frame = outermost(l, f->r->inst, f->r->first_buffer);
    Affine *map = HL_ARRAY(l->arena, Affine, f->rank + 1);
    for (int d = 0; d < f->rank; d++)
      map[d] = affine_axis(l, f->dim[d], 0);
    if (!l->why)
      fill(l, f, frame, map);
  } while (l->again && l->cut.n < MAX_CUTS);
  return !l->why && tile_schedule(l, out);
}

static int new_temp(Lower *l, int64_t bytes) {
  vec_push_in(l->arena, &l->temp, bytes);
  return TILE_TEMPS + l->temp.n - 1;
}

static int64_t elements_of(int rank, const int64_t *dim) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++)
    n *= dim[d];
  return n;
}

static Affine row_major(Lower *l, const Filling *f, const Affine *map) {
  int64_t *stride = HL_ARRAY(l->arena, int64_t, f->rank + 1);
  hl_strides(f->rank, f->dim, stride);
  return affine_dot(f->rank, map, stride);
}

// --- Parts ----------------------------------------------------------------------------------------

static bool same_loops(const Part *a, const Part *b) {
  return a->dim == b->dim && a->length == b->length &&
         hl_shape_same_dims(a->inst->operands[0]->shape, b->inst->operands[0]->shape) &&
         hl_i64s_equal(hl_dims(a->inst), hl_dims(b->inst));
}

// All reductions that have the loops of the first: their whole parts, or the rest.
static void fill_parts(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  const Part *first = &l->part.at[f->part];
  const bool is_rest = f->is_rest;
  const int rank = f->rank - 1;
  int64_t *dim = hl_arena_copy(l->arena, f->dim, sizeof *dim * (size_t)f->rank);
  dim[rank] = first->whole + (first->rest > 0);
  Affine *to = hl_arena_copy(l->arena, map, sizeof *to * (size_t)f->rank);
  to[rank] = is_rest ? affine_const(first->whole) : map[rank];
  const Filling all = {.dim = dim, .rank = f->rank};
  const Affine at = row_major(l, &all, to), begin = affine_times(&to[rank], first->length);
  for (int k = f->part; k < l->part.n && !l->why; k++) {
    const Part *part = &l->part.at[k];
    if (!same_loops(part, first))
      continue;
    const Ask ask = {.frame = frame, .inst = part->inst, .map = map};
    const Val value =
        tile_reduce_part(l, &ask, part->dim, &begin, is_rest ? part->rest : part->length);
    if (!l->why)
      tile_store(l, part->buffer, part->dtype, &at, value, 0);
  }
}

static bool lower_parts(Lower *l, const Roots *r, int first) {
  const Part *part = &l->part.at[first];
  const HlShape *shape = part->inst->shape;
  const int rank = shape->rank;
  const int64_t all = hl_shape_elements(shape) * (part->whole + (part->rest > 0));
  int64_t *dim = HL_ARRAY(l->arena, int64_t, rank + 1);
  for (int d = 0; d < rank; d++)
    dim[d] = shape->dim[d];
  for (int k = first; k < l->part.n; k++)
    if (same_loops(&l->part.at[k], part))
      l->part.at[k].buffer = new_temp(l, all * hl_dtype_bytes(l->part.at[k].dtype));
  for (int is_rest = 0; is_rest <= (part->rest > 0); is_rest++) {
    TileNest nest;
    dim[rank] = is_rest ? 1 : part->whole;
    const Filling f = {
        .r = r, .part = first, .is_rest = is_rest, .temp = -1, .dim = dim, .rank = rank + 1};
    if (!lower_nest(l, &f, fill_parts, &nest))
      return false;
    add_nest(l, &nest);
  }
  return true;
}

// What of the leaf, and of others of the same sizes, is better made in parts is made. Where that cannot be, nothing is.
static void make_parts(Lower *l, const Roots *r, int leaf) {
  const HlShape *shape = cpu_leaf(r->inst->shape, leaf);
  const bool alone = r->inst->op != HL_OP_FUSION;
  const int first = l->part.n, temps = l->temp.n, nests = l->nest.n;
  for (int k = leaf; k < r->n; k++)
    if (hl_shape_same_dims(cpu_leaf(r->inst->shape, k), shape) && !r->update[k])
      tile_find_parts(l, alone ? r->inst : maker_of(hl_to_apply(r->inst)->root, k), alone);
  bool good = true;
  for (int k = first; k < l->part.n && good; k++)
    good = l->part.at[k].buffer >= 0 || lower_parts(l, r, k);
  if (!good) {
    l->part.n = first;
    l->temp.n = temps;
    l->nest.n = nests;
  }
}

// --- Results --------------------------------------------------------------------------------------

// A leaf, and others of the same sizes.
static void fill_roots(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  const HlShape *shape = cpu_leaf(f->r->inst->shape, f->leaf);
  for (int k = f->leaf; k < f->r->n && !l->why; k++)
    if (hl_shape_same_dims(cpu_leaf(f->r->inst->shape, k), shape) && !f->r->update[k])
      f->r->done[k] = compute_root(l, f->r, frame, k, map);
}

static bool lower_roots(Lower *l, const Roots *r, int leaf) {
  const HlShape *shape = cpu_leaf(r->inst->shape, leaf);
  make_parts(l, r, leaf);
  const Filling f = {.r = r, .leaf = leaf, .temp = -1, .dim = shape->dim, .rank = shape->rank};
  TileNest nest;
  if (!lower_nest(l, &f, fill_roots, &nest))
    return false;
  add_nest(l, &nest);
  return true;
}

// --- Updates of computed places -------------------------------------------------------------------

static bool is_scattered(const HlInst *inst) {
  return tile_is_scatter(inst) || tile_is_select_and_scatter(inst);
}

// What is there first: of scatter its operand, of select-and-scatter one value everywhere.
static void fill_before(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  const bool scatters = f->inst->op == HL_OP_SCATTER;
  const Ask ask = {.frame = frame, .inst = f->inst, .map = map};
  const Val value = tile_operand(l, &ask, scatters ? 0 : 2, scatters ? map : NULL, 0, false);
  const Affine to = affine_dot(f->rank, map, cpu_strides(l->arena, f->inst->shape));
  if (!l->why)
    tile_store(l, f->r->first_out + f->leaf, f->inst->shape->dtype, &to, value, 0);
}

static void fill_scattered(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  const Ask ask = {.frame = frame, .inst = f->inst, .map = map};
  Update u = {.is_one = true};
  Affine to;
  Val value;
  if ((f->inst->op == HL_OP_SCATTER ? tile_scatter : tile_select_and_scatter)(l, &ask, &u, &to,
                                                                              &value))
    tile_update(l, f->r->first_out + f->leaf, f->inst->shape->dtype, &to, value, &u);
}

static bool reads_elsewhere(const Lower *l, int buffer, bool same_place);

// `over`: the buffer that holds what is there first, -1: it is computed.
static bool lower_scattered(Lower *l, const Roots *r, int leaf, int over) {
  const HlInst *inst = r->update[leaf];
  const HlShape *updates = inst->operands[inst->op == HL_OP_SCATTER ? 2 : 1]->shape;
  Filling f = {.r = r, .leaf = leaf, .inst = inst, .temp = -1, .dim = inst->shape->dim};
  f.rank = inst->shape->rank;
  TileNest nest = {0};
  if (over < 0) {
    if (!lower_nest(l, &f, fill_before, &nest))
      return false;
    add_nest(l, &nest);
  }
  f.dim = updates->dim;
  f.rank = updates->rank;
  nest = (TileNest){0};
  if (elements_of(f.rank, f.dim) > 0 && !lower_nest(l, &f, fill_scattered, &nest))
    return false;
  if (over >= 0 && elements_of(f.rank, f.dim) > 0 && reads_elsewhere(l, over, false))
    return false;
  nest.copy_from = over;
  nest.copy_to = over < 0 ? -1 : r->first_out + leaf;
  nest.copy_bytes = cpu_bytes(inst->shape);
  add_nest(l, &nest);
  return true;
}

// --- Updates in place -----------------------------------------------------------------------------

static const HlInst *behind_bitcasts(const HlInst *inst) {
  while (inst->op == HL_OP_BITCAST && inst->shape->dtype == inst->operands[0]->shape->dtype)
    inst = inst->operands[0];
  return inst;
}

// The dynamic-update-slice that a leaf is, if what it updates is, behind others such, an operand of the kernel; `buffer`: which.
static const HlInst *find_update(const Roots *r, const HlInst *root, bool alone, int leaf,
                                 int *buffer) {
  const HlInst *found = behind_bitcasts(maker_of(root, leaf));
  const HlInst *at = found;
  if (is_scattered(found)) {
    const HlInst *into = behind_bitcasts(found->operands[0]);
    const bool held = found->op == HL_OP_SCATTER && (alone || into->op == HL_OP_PARAMETER);
    *buffer = !held ? -1 : r->first_buffer[alone ? 0 : hl_parameter_number(into)];
    return found;
  }
  while (at->op == HL_OP_DYNAMIC_UPDATE_SLICE) {
    if (alone) {
      *buffer = r->first_buffer[0];
      return found;
    }
    at = behind_bitcasts(at->operands[0]);
  }
  if (found == at || at->op != HL_OP_PARAMETER)
    return NULL;
  *buffer = r->first_buffer[hl_parameter_number(at)];
  return found;
}

// The update at `map`, and where it goes.
static Val ask_update(Lower *l, const Filling *f, Frame *frame, const Affine *map, bool *raw,
                      Affine *to) {
  const HlShape *shape = f->inst->shape;
  Affine *place = HL_ARRAY(l->arena, Affine, shape->rank + 1);
  *raw = frame->comp ? frame->moved[f->inst->id] : true;
  const Ask ask = {.frame = frame, .inst = f->inst, .map = map, .raw = *raw};
  if (!tile_update_start(l, &ask, place))
    return NO_VAL;
  for (int d = 0; d < shape->rank; d++)
    place[d] = affine_add(&place[d], &map[d]);
  *to = affine_dot(shape->rank, place, cpu_strides(l->arena, shape));
  return f->temp >= 0 && f->dtype == HL_NO_DTYPE ? NO_VAL : tile_operand(l, &ask, 1, map, 0, *raw);
}

static void fill_update(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  bool raw;
  Affine to;
  const Val value = ask_update(l, f, frame, map, &raw, &to);
  const HlDtype dtype = f->inst->shape->dtype;
  if (f->temp >= 0)
    to = row_major(l, f, map);
  if (!l->why)
    tile_store(l, f->temp >= 0 ? f->temp : f->r->first_out + f->leaf,
               raw ? tile_raw_dtype(dtype) : dtype, &to, value, 0);
}

// What was computed apart goes to its place.
static void fill_from_temp(Lower *l, const Filling *f, Frame *frame, const Affine *map) {
  bool raw;
  Affine to;
  Filling place = *f;
  place.dtype = HL_NO_DTYPE;
  ask_update(l, &place, frame, map, &raw, &to);
  const HlDtype dtype = tile_raw_dtype(f->inst->shape->dtype);
  const Affine from = row_major(l, f, map);
  if (!l->why)
    tile_store(l, f->r->first_out + f->leaf, dtype, &to, tile_load(l, f->temp, dtype, &from, 0), 0);
}

// Whether the nest just lowered reads the buffer anywhere but where it writes.
static bool reads_elsewhere(const Lower *l, int buffer, bool same_place) {
  for (int k = 0; k < l->node.n; k++) {
    const Node *node = &l->node.at[k];
    if (node->kind == NODE_LOAD && node->buffer == buffer &&
        !(same_place && memcmp(node->at, &l->store.at[0].at, sizeof *node->at) == 0))
      return true;
  }
  return false;
}

static bool lower_updates(Lower *l, const Roots *r, int leaf) {
  enum { MANY = 64 };
  if (is_scattered(r->update[leaf]))
    return lower_scattered(l, r, leaf, r->over[leaf]);
  const HlInst *chain[MANY];
  const HlInst *at = r->update[leaf];
  int n = 0;
  for (; at->op == HL_OP_DYNAMIC_UPDATE_SLICE && n < MANY; at = behind_bitcasts(at->operands[0])) {
    chain[n++] = at;
    if (r->inst->op != HL_OP_FUSION)
      break;
  }
  if (n == MANY)
    return false;
  TileNest *last =
      HL_ARRAY(l->arena, TileNest, n);  // those that write, after those that compute apart
  for (int k = n - 1; k >= 0; k--) {
    const HlShape *box = chain[k]->operands[1]->shape;
    Filling f = {
        .r = r, .leaf = leaf, .inst = chain[k], .temp = -1, .dim = box->dim, .rank = box->rank};
    f.dtype = chain[k]->shape->dtype;
    last[k] = (TileNest){0};
    if (elements_of(box->rank, box->dim) == 0)
      continue;
    if (!lower_nest(l, &f, fill_update, &last[k]))
      return false;
    if (!reads_elsewhere(l, r->over[leaf], n == 1))
      continue;
    f.temp = new_temp(l, cpu_bytes(box));
    if (!lower_nest(l, &f, fill_update, &last[k]))
      return false;
    add_nest(l, &last[k]);
    if (!lower_nest(l, &f, fill_from_temp, &last[k]) || reads_elsewhere(l, r->over[leaf], false))
      return false;
  }
  for (int k = n - 1; k >= 0; k--) {
    last[k].copy_from = k == n - 1 ? r->over[leaf] : -1;
    last[k].copy_to = k == n - 1 ? r->first_out + leaf : -1;
    last[k].copy_bytes = cpu_bytes(cpu_leaf(r->inst->shape, leaf));
    add_nest(l, &last[k]);
  }
  return true;
}

// --- All of them ----------------------------------------------------------------------------------

static bool lower_all(Lower *l, const HlInst *inst) {
  int *first_buffer = HL_ARRAY(l->arena, int, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    first_buffer[k] = l->n_outer;
    l->n_outer += cpu_leaf_count(inst->operands[k]->shape);
  }
  Roots r = {.inst = inst,
             .first_buffer = first_buffer,
             .n = cpu_leaf_count(inst->shape),
             .first_out = l->n_outer};
  l->n_outer += r.n;
  if (l->n_outer > TILE_MAX_BUFFERS)
    return false;
  r.done = HL_ARRAY(l->arena, bool, r.n + 1);
  r.update = HL_ARRAY(l->arena, const HlInst *, r.n + 1);
  r.over = HL_ARRAY(l->arena, int, r.n + 1);
  const bool alone = inst->op != HL_OP_FUSION;
  const HlInst *root = alone ? inst : hl_to_apply(inst)->root;
  for (int k = 0; k < r.n; k++)
    r.update[k] = find_update(&r, root, alone, k, &r.over[k]);
  for (int k = 0; k < r.n; k++)
    if (!r.update[k] && !r.done[k] && hl_shape_elements(cpu_leaf(inst->shape, k)) > 0 &&
        !lower_roots(l, &r, k))
      return false;
  for (int k = 0; k < r.n; k++)
    if (r.update[k] && hl_shape_elements(cpu_leaf(inst->shape, k)) > 0 && !lower_updates(l, &r, k))
      return false;
  return l->n_outer + l->literal.n + l->temp.n <= TILE_MAX_BUFFERS;
}

static bool is_plain_shape(const HlShape *shape) {
  for (int k = 0; k < cpu_leaf_count(shape); k++) {
    const HlShape *leaf = cpu_leaf(shape, k);
    if (!hl_shape_is_array(leaf) || hl_shape_is_dynamic(leaf))
      return false;
  }
  return true;
}

TileProgram *tile_lower(CpuMaker *maker, const HlInst *inst) {
  if ((!tile_has_rule((HlOp)inst->op) && !is_scattered(inst)) || inst->op == HL_OP_CALL ||
      !is_plain_shape(inst->shape))
    return NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_plain_shape(inst->operands[k]->shape))
      return NULL;
  HlArena *arena = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(arena);
  Lower *l = HL_NEW(arena, Lower);
  l->maker = maker;
  l->arena = arena;
  TileProgram *program = lower_all(l, inst) ? tile_program(l, inst) : NULL;
  hl_arena_release(arena, mark);
  return program;
}
