// opt/fusion/triton_tiles.c: which tile of its result a block of a kernel of Triton's computes: the one that takes the least
// time by XLA's model. Time is told in quarters of a nanosecond, so tiles of small kernels often take the same: the first wins.
//
// A tile of the result tells which tiles of everything in the kernel are needed: the same one before an elementwise operation,
// the whole row before the sum of a row, one further on before a slice. What is needed as two different tiles is computed twice.
// The kernel may be one that is not made yet, of a producer and its consumer.

#include <math.h>
#include <string.h>

#include "opt/fusion/gpu_fusible.h"

// --- Kernels --------------------------------------------------------------------------------------

// An instruction that a kernel computes, or outside of it one whose result it reads.
typedef struct Node {
  const HlInst *inst;
  int *operands;  // places of nodes
  HlI64s dims;    // of the instruction
  int64_t work;   // an element of it
  bool of_producer, is_read;
  bool keeps_tile;  // so that its operands need the tile that it is needed as
  int group;
} Node;

// What the tiles of a group's nodes ask of another group.
typedef struct Edge {
  const Node *node;
  uint32_t operand;
  bool keeps_tile;
  int to;
  struct Edge *next;
} Edge;

// Nodes of one rank that are needed as the same tiles, whatever the result's is: all who need one of them are in the group, and keep
// its tile.
typedef struct Group {
  int rank;
  int64_t work;  // of all, an element
  bool loads;    // a tile of one is held in registers: it is read, or counted up
  Edge *edges;
  struct Tile *tiles;  // as which it is needed
} Group;

enum { MOST_DIMS = 64 };  // of a result whose products of sizes are sets of bits

// A dimension of the result, by the size that its tile has there.
typedef struct Axis {
  int64_t power;   // of two, from the size on
  int64_t blocks;  // as many as it takes
} Axis;

// Tiles that have, each, a fixed number of elements for every one of a product of sizes of the result's tile.
typedef struct Product {
  uint64_t dims;   // whose sizes, a bit each; they are rounded up to powers of two
  int64_t work;    // all of it for each element of the product
  int64_t loaded;  // elements of the largest that is held in registers for each of the product
  int64_t largest;
} Product;

// Of what a block computes.
typedef struct Sums {
  int64_t work;
  int64_t loaded, largest;  // elements of the largest tile that is held in registers; of any
} Sums;

// Results that are read as the same tiles.
typedef struct Read {
  const HlShape *shape;
  struct Tile *tiles;
  int64_t bytes, times;
} Read;

// What it takes to write the result in rows of so many bytes.
typedef struct Written {
  int64_t bytes;
  GpuTime time;
} Written;

enum { WRITTEN_BITS = 4 };  // of the number of them that are kept
#define WRITTEN_HASH 0x9e3779b97f4a7c15u

typedef struct Kernel {
  HlArena *arena;
  const HlInst *producer, *consumer;  // producer: NULL for a kernel that is there
  VEC(Node) nodes;                    // the result first
  Map places;                         // of nodes, from 1
  Group *groups;                      // that of the result first
  int n_groups;
  struct Tile *tiles;  // the result's first
  VEC(Product) products;
  Sums line[2];  // of products without the last dimension's size; with it, for each element of it
  bool has_line;
  VEC(struct Tile *) others;  // tiles that are not of a product
  VEC(Read) reads;
  Axis *axes;  // the result's
  int64_t bytes_out;
  Written written[1 << WRITTEN_BITS];
} Kernel;

static int64_t power_of_two(int64_t n) {
  return n <= 1 ? 1 : (int64_t)1 << (64 - __builtin_clzll((uint64_t)n - 1));
}

static int64_t work_of(const HlInst *inst) {
  if (inst->op != HL_OP_REDUCE)
    return gpu_work_an_element(inst);
  int64_t work = 0, n = 1;
  for (const HlInst *inner = hl_to_apply(inst)->first; inner; inner = inner->next)
    work += gpu_work_an_element(inner);
  for (int k = 0; k < hl_dims(inst).n; k++)
    n *= power_of_two(inst->operands[0]->shape->dim[hl_dims(inst).at[k]]);
  return (n - 1) * work;
}

static bool keeps_tile(const HlInst *inst) {
  return !hl_op_is((HlOp)inst->op, HL_T_VIEW) && inst->op != HL_OP_SLICE &&
         inst->op != HL_OP_BROADCAST && inst->op != HL_OP_TRANSPOSE && inst->op != HL_OP_REDUCE;
}

static bool is_outside(const Kernel *k, const HlInst *inst) {
  return inst->comp == k->consumer->comp;
}

// What stands for an instruction: for a parameter what it is given, for a fusion its result.
static Node node_for(const Kernel *k, const HlInst *inst, bool of_producer) {
  for (;;) {
    const bool is_outer = is_outside(k, inst);
    if (!is_outer && inst->op == HL_OP_PARAMETER) {
      inst = (of_producer ? k->producer : k->consumer)->operands[hl_parameter_number(inst)];
    } else if (is_outer && (inst == k->producer || inst == k->consumer)) {
      of_producer = inst == k->producer;
      if (inst->op != HL_OP_FUSION)
        return (Node){.inst = inst, .of_producer = of_producer};
      inst = fusion_body(inst)->root;
    } else {
      return (Node){.inst = inst, .of_producer = of_producer && !is_outer, .is_read = is_outer};
    }
  }
}

static int place_for(Kernel *k, const HlInst *inst, bool of_producer) {
  const Node node = node_for(k, inst, of_producer);
  uint64_t *place = map_at(&k->places, map_key(node.inst) + node.of_producer);
  if (*place == 0) {
    vec_push_in(k->arena, &k->nodes, node);
    *place = (uint64_t)k->nodes.n;
  }
  return (int)*place - 1;
}

enum { USUAL_NODES = 48 };  // room for which is made at once

static Kernel kernel_of(HlArena *arena, const HlInst *producer, const HlInst *consumer) {
  Kernel kernel = {
      .arena = arena, .producer = producer, .consumer = consumer, .places = {.arena = arena}};
  vec_room_in(arena, &kernel.nodes, USUAL_NODES);
  map_room(&kernel.places, USUAL_NODES);
  place_for(&kernel, consumer, false);
  for (int i = 0; i < kernel.nodes.n; i++) {
    const Node node = kernel.nodes.at[i];
    if (node.is_read)
      continue;
    int *operands = HL_ARRAY(arena, int, node.inst->n_operands + 1);
    for (uint32_t k = 0; k < node.inst->n_operands; k++)
      operands[k] = place_for(&kernel, node.inst->operands[k], node.of_producer);
    kernel.nodes.at[i].operands = operands;
    kernel.nodes.at[i].dims =
        node.inst->op == HL_OP_SLICE ? hl_attr_ints(node.inst, HL_A_SLICE) : hl_dims(node.inst);
    kernel.nodes.at[i].work = work_of(node.inst);
    kernel.nodes.at[i].keeps_tile = keeps_tile(node.inst);
  }
  return kernel;
}

// --- Groups ---------------------------------------------------------------------------------------

static bool keeps_tile_for(const Node *node, uint32_t operand) {
  const HlShape *from = node->inst->operands[operand]->shape;
  return from->rank == 0 || (node->keeps_tile && from->rank == node->inst->shape->rank);
}

static uint32_t n_operands(const Node *node) {
  return node->is_read ? 0 : node->inst->n_operands;
}

enum { NOT_MET = -1, OWN_GROUP = -2 };

// A node joins the group of those who need it, if that is one.
static void join_group(Node *node, int group) {
  node->group = node->group == NOT_MET || node->group == group ? group : OWN_GROUP;
}

// The nodes in an order in which those who need one come before it; each gets its group.
static const int *order_groups(Kernel *k) {
  const int n = k->nodes.n;
  int *order = HL_ARRAY(k->arena, int, n), *left = HL_ARRAY(k->arena, int, n), n_ready = 1;
  for (int i = 0; i < n; i++) {
    k->nodes.at[i].group = NOT_MET;
    for (uint32_t o = 0; o < n_operands(&k->nodes.at[i]); o++)
      left[k->nodes.at[i].operands[o]]++;
  }
  for (int i = 0; i < n_ready; i++) {
    Node *node = &k->nodes.at[order[i]];
    if (node->group < 0)
      node->group = k->n_groups++;
    for (uint32_t o = 0; o < n_operands(node); o++) {
      const int operand = node->operands[o];
      const bool same = keeps_tile_for(node, o) &&
                        node->inst->operands[o]->shape->rank == node->inst->shape->rank;
      join_group(&k->nodes.at[operand], same ? node->group : OWN_GROUP);
      if (--left[operand] == 0)
        order[n_ready++] = operand;
    }
  }
  return order;
}

static bool has_edge(const Group *group, int to) {
  for (const Edge *edge = group->edges; edge; edge = edge->next)
    if (edge->keeps_tile && edge->to == to)
      return true;
  return false;
}

static void add_edges(Kernel *k, const Node *node) {
  Group *group = &k->groups[node->group];
  for (uint32_t o = 0; o < n_operands(node); o++) {
    const int to = k->nodes.at[node->operands[o]].group;
    const bool keeps = keeps_tile_for(node, o);
    if (to == node->group || (keeps && has_edge(group, to)))
      continue;
    Edge *edge = HL_ARRAY(k->arena, Edge, 1);
    *edge = (Edge){node, o, keeps, to, group->edges};
    group->edges = edge;
  }
}

static void group_nodes(Kernel *k) {
  const int *order = order_groups(k);
  k->groups = HL_ARRAY(k->arena, Group, k->n_groups);
  for (int i = 0; i < k->nodes.n; i++) {
    const Node *node = &k->nodes.at[order[i]];
    Group *group = &k->groups[node->group];
    group->rank = node->inst->shape->rank;
    group->work += node->work;
    group->loads |= node->is_read || node->inst->op == HL_OP_IOTA;
    add_edges(k, node);
  }
}

// --- Tiles ----------------------------------------------------------------------------------------

// As what a group is needed, whatever the sizes of the result's tile: those of the others follow from them.
typedef struct Tile {
  const Group *group;
  int64_t *
      size;  // of each dimension its size, how much further on than the result's it begins, and its step
  const int64_t *
      *from;  // what each size is, NULL where it stays; NULL for the result's, and before a view
  const Edge *view;  // sizes are those before this view of `behind`
  struct Tile *behind;
  bool is_before_view;
  bool is_counted;           // in a product: its sizes are set only where they are asked for
  bool is_repeated;          // for the time being: another one of the group is the same
  struct Tile *same, *next;  // the next one of this group; of all
} Tile;

enum { PARTS = 3 };

static int64_t *new_tile(HlArena *arena, int rank) {
  int64_t *size = HL_ARRAY(arena, int64_t, PARTS * rank + 1);
  for (int k = 0; k < rank; k++)
    size[k] = size[2 * rank + k] = 1;
  return size;
}

// Elements in registers: each dimension is rounded up.
static int64_t padded(int rank, const int64_t *size) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++)
    n *= power_of_two(size[k]);
  return n;
}

static void copy_part(const int64_t *from, int rank, int k, int64_t *to, int to_rank, int to_k) {
  for (int part = 0; part < PARTS; part++)
    to[part * to_rank + to_k] = from[part * rank + k];
}

// From the most minor one on, the next dimension that a view leaves alone: number i before it, j behind it.
static bool next_kept(const HlShape *from, const HlShape *to, int *i, int *j) {
  while (*i >= 0 && *j >= 0 && from->dim[*i] != to->dim[*j])
    if (from->dim[*i] == 1)
      --*i;
    else if (to->dim[*j] == 1)
      --*j;
    else
      return false;
  return *i >= 0 && *j >= 0;
}

static bool is_flat(const int64_t *size, int rank, int k) {
  return size[rank + k] == 0 && size[2 * rank + k] == 1;
}

// Dimensions that a view leaves alone keep their tiles; the others have as many elements, as far down as there is room. False:
// what a slice is taken of would begin within a row.
static bool tile_before_view(const HlShape *from, const HlShape *to, const int64_t *size,
                             int64_t *out) {
  int i = from->rank - 1, j = to->rank - 1;
  for (; next_kept(from, to, &i, &j); i--, j--)
    copy_part(size, to->rank, j, out, from->rank, i);
  int64_t left = 1;
  for (; j >= 0; j--) {
    left *= size[j];
    if (!is_flat(size, to->rank, j))
      return false;
  }
  for (; i >= 0; i--) {
    out[i] = left < from->dim[i] ? left : from->dim[i];
    left = out[i] ? (left + out[i] - 1) / out[i] : left;
  }
  return true;
}

static const HlShape *shape_before(const Edge *edge) {
  return edge->node->inst->operands[edge->operand]->shape;
}

static void copy_dim(const Tile *from, int k, Tile *to, int to_k) {
  const int rank = from->group->rank, to_rank = to->group->rank;
  copy_part(from->size, rank, k, to->size, to_rank, to_k);
  to->from[to_k] = from->from ? from->from[k] : &from->size[k];
}

// The same of a view that but adds or drops dimensions of size 1; false: it does more.
static bool tile_before_ranks(const HlShape *from, const HlShape *to, const Tile *tile, Tile *out) {
  int i = from->rank - 1, j = to->rank - 1;
  for (; next_kept(from, to, &i, &j); i--, j--)
    copy_dim(tile, j, out, i);
  for (; i >= 0; i--)
    if (from->dim[i] != 1)
      return false;
  for (; j >= 0; j--)
    if (to->dim[j] != 1 || !is_flat(tile->size, to->rank, j))
      return false;
  return true;
}

static void tile_before_slice(HlI64s bounds, const Tile *tile, Tile *out) {
  const int rank = tile->group->rank;
  for (int k = 0; k < rank; k++) {
    const int64_t start = bounds.at[3 * k], step = bounds.at[3 * k + 2];
    copy_dim(tile, k, out, k);
    out->size[rank + k] = start + tile->size[rank + k] * step;
    out->size[2 * rank + k] = tile->size[2 * rank + k] * step;
  }
}

// False: there is none.
static bool tile_before(HlArena *arena, Tile *tile, const Edge *edge, Tile *out) {
  if (edge->keeps_tile) {
    out->size = tile->size;
    out->from = tile->from;
    return true;
  }
  const HlInst *inst = edge->node->inst;
  const HlShape *from = shape_before(edge);
  const HlI64s dims = edge->node->dims;
  int next = 0;
  out->size = new_tile(arena, from->rank);
  out->from = HL_ARRAY(arena, const int64_t *, from->rank);
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW)) {
    if (tile_before_ranks(from, inst->shape, tile, out))
      return true;
    out->size = new_tile(arena, from->rank);
    out->from = NULL;
    out->view = edge;
    out->behind = tile;
    tile->is_before_view = true;
    return tile_before_view(from, inst->shape, tile->size, out->size);
  }
  if (inst->op == HL_OP_SLICE) {
    tile_before_slice(dims, tile, out);
    return true;
  }
  for (int k = 0; k < from->rank; k++)
    switch (inst->op) {
    case HL_OP_BROADCAST: copy_dim(tile, (int)dims.at[k], out, k); break;
    case HL_OP_TRANSPOSE: copy_dim(tile, k, out, (int)dims.at[k]); break;
    case HL_OP_REDUCE:
      if (hl_i64s_find(dims, k) >= 0)
        out->size[k] = from->dim[k];
      else
        copy_dim(tile, next++, out, k);
      break;
    default: copy_dim(tile, k, out, k);
    }
  return true;
}

static bool are_same_sizes(const Tile *a, const Tile *b) {
  for (int k = 0; k < PARTS * a->group->rank; k++)
    if (a->size[k] != b->size[k])
      return false;
  return true;
}

// The same for all sizes of the result's tile.
static bool are_same(const Tile *a, const Tile *b) {
  const int rank = a->group->rank;
  if (a->size == b->size || rank == 0)
    return true;
  if (a->view || b->view)
    return a->view == b->view && a->behind->size == b->behind->size;
  for (int k = 0; k < rank; k++)
    if (!a->from || !b->from || a->from[k] != b->from[k])
      return false;
  return are_same_sizes(a, b);
}

// Adds a tile to those of its group; false: it is there.
static bool add_tile(HlArena *arena, Group *group, Tile tile, Tile **last) {
  Tile **at = &group->tiles;
  for (; *at; at = &(*at)->same)
    if (are_same(*at, &tile))
      return false;
  *at = HL_ARRAY(arena, Tile, 1);
  **at = tile;
  if (*last)
    (*last)->next = *at;
  *last = *at;
  return true;
}

// Once those behind it have theirs, a tile gets its sizes.
static void set_sizes(Tile *tile) {
  if (tile->view)
    tile_before_view(shape_before(tile->view), tile->view->node->inst->shape, tile->behind->size,
                     tile->size);
  for (int k = 0; tile->from && k < tile->group->rank; k++)
    if (tile->from[k])
      tile->size[k] = *tile->from[k];
  tile->is_repeated = false;
  for (const Tile *other = tile->group->tiles; other != tile; other = other->same)
    tile->is_repeated |= are_same_sizes(other, tile);
}

// --- Products -------------------------------------------------------------------------------------

// Of the result, that whose size this is; -1: none.
static int result_dim(const Kernel *k, const int64_t *size) {
  for (int dim = 0; dim < k->groups[0].rank; dim++)
    if (size == &k->tiles->size[dim])
      return dim;
  return -1;
}

// False: its elements are not those of a product, or a view asks for its sizes. The fixed number goes into `largest`.
static bool is_of_product(const Kernel *k, const Tile *tile, Product *out) {
  *out = (Product){.largest = 1};
  if (tile->view || tile->is_before_view || k->groups[0].rank > MOST_DIMS)
    return false;
  for (int i = 0; i < tile->group->rank; i++) {
    const int64_t *from = tile->from ? tile->from[i] : &tile->size[i];
    const int dim = from ? result_dim(k, from) : -1;
    if (!from)
      out->largest *= power_of_two(tile->size[i]);
    else if (dim < 0 || out->dims & (uint64_t)1 << dim)
      return false;
    else
      out->dims |= (uint64_t)1 << dim;
  }
  return true;
}

// Of tiles of products: they begin elsewhere, or are of other fixed sizes.
static bool always_differ(const Tile *a, const Tile *b) {
  const int rank = a->group->rank;
  for (int k = 0; k < PARTS * rank; k++) {
    const bool is_fixed = k >= rank || (a->from && b->from && !a->from[k] && !b->from[k]);
    if (is_fixed && a->size[k] != b->size[k])
      return true;
  }
  return false;
}

// So that each of its tiles counts, whatever the result's is.
static bool are_of_products(const Kernel *k, const Group *group) {
  Product product;
  for (const Tile *tile = group->tiles; tile; tile = tile->same) {
    if (!is_of_product(k, tile, &product))
      return false;
    for (const Tile *other = group->tiles; other != tile; other = other->same)
      if (!always_differ(other, tile))
        return false;
  }
  return true;
}

static void add_product(Kernel *k, const Group *group, Product made) {
  made.work = group->work * made.largest;
  made.loaded = group->loads ? made.largest : 0;
  for (int i = 0; i < k->products.n; i++) {
    Product *product = &k->products.at[i];
    if (product->dims != made.dims)
      continue;
    product->work += made.work;
    product->loaded = made.loaded > product->loaded ? made.loaded : product->loaded;
    product->largest = made.largest > product->largest ? made.largest : product->largest;
    return;
  }
  vec_push_in(k->arena, &k->products, made);
}

static bool are_read_alike(const Read *read, const HlShape *shape, const Tile *tiles) {
  return read->shape == shape &&
         (read->tiles == tiles || (read->tiles->is_counted && tiles->is_counted && !tiles->same &&
                                   !read->tiles->same && are_same(read->tiles, tiles)));
}

static void add_read(Kernel *k, const HlShape *shape, Tile *tiles) {
  for (int i = 0; i < k->reads.n; i++)
    if (are_read_alike(&k->reads.at[i], shape, tiles)) {
      k->reads.at[i].times++;
      return;
    }
  vec_push_in(k->arena, &k->reads, ((Read){shape, tiles, gpu_bytes(shape), 1}));
}

// What does not depend on the sizes of the result's tile.
static void count_tiles(Kernel *k) {
  Product product;
  for (int i = 0; i < k->n_groups; i++)
    if (are_of_products(k, &k->groups[i]))
      for (Tile *tile = k->groups[i].tiles; tile; tile = tile->same) {
        tile->is_counted = is_of_product(k, tile, &product);
        add_product(k, tile->group, product);
      }
  for (Tile *tile = k->tiles; tile; tile = tile->next)
    if (!tile->is_counted)
      vec_push_in(k->arena, &k->others, tile);
  for (int i = 0; i < k->nodes.n; i++)
    if (k->nodes.at[i].is_read)
      add_read(k, k->nodes.at[i].inst->shape, k->groups[k->nodes.at[i].group].tiles);
}

// False: a tile of the result takes no tile of the rest.
static bool make_tiles(Kernel *k) {
  const HlShape *shape = k->nodes.at[0].inst->shape;
  k->bytes_out = hl_shape_elements(shape) * hl_dtype_bytes(shape->dtype);
  Tile *last = NULL;
  add_tile(k->arena, &k->groups[0],
           (Tile){.group = &k->groups[0], .size = new_tile(k->arena, k->groups[0].rank)}, &last);
  k->tiles = last;
  k->axes = HL_ARRAY(k->arena, Axis, k->groups[0].rank + 1);
  for (Tile *tile = k->tiles; tile; tile = tile->next)
    for (const Edge *edge = tile->group->edges; edge; edge = edge->next) {
      Tile made = {.group = &k->groups[edge->to]};
      if (!tile_before(k->arena, tile, edge, &made))
        return false;
      add_tile(k->arena, &k->groups[edge->to], made, &last);
    }
  count_tiles(k);
  return true;
}

// --- Time -----------------------------------------------------------------------------------------

static int64_t inside(const HlShape *shape, const int64_t *size, int k) {
  return size[k] < shape->dim[k] ? size[k] : shape->dim[k];
}

enum { TRANSACTION_BYTES = 64 };  // between memory and the cache

// Bytes of a tile that lie side by side.
static int64_t bytes_in_a_row(const HlShape *shape, const int64_t *size) {
  int64_t bytes = hl_dtype_bytes(shape->dtype);
  for (int k = shape->rank - 1; k >= 0 && size[2 * shape->rank + k] == 1; k--) {
    bytes *= inside(shape, size, k);
    if (size[k] < shape->dim[k])
      break;
  }
  return bytes;
}

// How much of what memory moves for a tile is of it.
static double share_used(int64_t bytes) {
  const int64_t moved = gpu_ceil_div(bytes, TRANSACTION_BYTES) * TRANSACTION_BYTES;
  return moved > 0 ? (double)bytes / (double)moved : 1;
}

// All tiles of a parameter, by all blocks.
static GpuTime time_to_read(const HlTarget *t, const Read *read, GpuLaunch launch) {
  const HlShape *shape = read->shape;
  int64_t total = 0;
  double used = 1;
  for (Tile *tile = read->tiles; tile; tile = tile->same) {
    if (tile->is_counted)
      set_sizes(tile);
    if (tile->is_repeated)
      continue;
    int64_t bytes = launch.blocks * hl_dtype_bytes(shape->dtype);
    for (int k = 0; k < shape->rank; k++)
      bytes *= inside(shape, tile->size, k);
    total += bytes;
    used = fmin(used, share_used(bytes_in_a_row(shape, tile->size)));
  }
  return gpu_read_time(t, read->bytes, total, used, launch);
}

static int warps_for(int64_t tile) {
  return tile <= 256 ? 1 : tile <= 1024 ? 2 : tile <= 4096 ? 4 : 8;
}

int64_t gpu_most_in_tile(const HlTarget *t) {
  return t->registers_per_block * 2 / 5;
}

// Few rows differ in their bytes: their times are kept.
static GpuTime time_to_write(const HlTarget *t, Kernel *kernel) {
  const int64_t bytes = bytes_in_a_row(kernel->nodes.at[0].inst->shape, kernel->tiles->size);
  Written *written = &kernel->written[(uint64_t)bytes * WRITTEN_HASH >> (64 - WRITTEN_BITS)];
  if (written->bytes != bytes)
    *written = (Written){bytes, gpu_write_time(t, kernel->bytes_out, share_used(bytes))};
  return written->time;
}

enum { NO_ROOM = -1, TOO_LONG = -2 };

static void add_to_sums(int64_t work, int64_t loaded, int64_t largest, int64_t n, Sums *sums) {
  sums->work += work * n;
  sums->loaded = loaded * n > sums->loaded ? loaded * n : sums->loaded;
  sums->largest = largest * n > sums->largest ? largest * n : sums->largest;
}

// Sizes of the last dimension are tried for the same ones of the others: what only these tell is kept.
static void set_line(Kernel *kernel) {
  const int last = kernel->groups[0].rank - 1;
  kernel->line[0] = (Sums){.largest = 1};
  kernel->line[1] = (Sums){0};
  for (int k = 0; k < kernel->products.n; k++) {
    const Product *product = &kernel->products.at[k];
    const bool has_last = last >= 0 && product->dims >> last & 1;
    int64_t n = 1;
    for (uint64_t left = product->dims; left; left &= left - 1)
      if (__builtin_ctzll(left) != last)
        n *= kernel->axes[__builtin_ctzll(left)].power;
    add_to_sums(product->work, product->loaded, product->largest, n, &kernel->line[has_last]);
  }
  kernel->has_line = true;
}

static Sums sums_of_products(Kernel *kernel) {
  if (!kernel->has_line)
    set_line(kernel);
  Sums sums = kernel->line[0];
  const Sums *more = &kernel->line[1];
  if (kernel->groups[0].rank > 0)
    add_to_sums(more->work, more->loaded, more->largest,
                kernel->axes[kernel->groups[0].rank - 1].power, &sums);
  return sums;
}

// What was too long for one tile of the result is looked at first for the next.
static void put_first(const Kernel *kernel, int k) {
  Read *read = kernel->reads.at, first = read[0];
  read[0] = read[k];
  read[k] = first;
}

// The two overlap, so that most are seen to be short without asking how much.
static bool is_too_long(const HlTarget *t, GpuTime compute, GpuTime memory, GpuTime limit) {
  return compute + memory >= limit && gpu_total_time(t, compute, memory) >= limit;
}

// By the sizes of the result's tile, given the time to write it. NO_ROOM where a tile that is read does not fit into registers;
// TOO_LONG where the time is not below a limit, which may be seen before all of the kernel is looked at.
static GpuTime time_of(const HlTarget *t, Kernel *kernel, GpuTime memory, GpuTime limit,
                       int *warps) {
  int64_t n_tiles = 1;
  for (int k = 0; k < kernel->groups[0].rank; k++)
    n_tiles *= kernel->axes[k].blocks;
  const int64_t most = gpu_most_in_tile(t);
  const GpuLaunch most_threads = {n_tiles, warps_for(INT64_MAX) * t->warp};
  const double most_work = gpu_work_within(t, limit, most_threads);
  Sums sums = sums_of_products(kernel);
  for (int k = 0; k < kernel->others.n && sums.loaded <= most; k++) {
    if ((double)(sums.work * n_tiles) > most_work)
      return TOO_LONG;
    Tile *tile = kernel->others.at[k];
    set_sizes(tile);
    if (tile->is_repeated)
      continue;
    const int64_t n = padded(tile->group->rank, tile->size);
    add_to_sums(tile->group->work, tile->group->loads, 1, n, &sums);
  }
  if (sums.loaded > most)
    return NO_ROOM;
  const int64_t work = sums.work * n_tiles;
  if ((double)work > most_work)
    return TOO_LONG;
  *warps = warps_for(sums.largest);
  const GpuLaunch launch = {n_tiles, *warps * t->warp};
  const GpuTime compute = gpu_compute_time(t, work, launch);
  if (is_too_long(t, compute, memory, limit))
    return TOO_LONG;
  for (int k = 0; k < kernel->reads.n; k++) {
    memory += kernel->reads.at[k].times * time_to_read(t, &kernel->reads.at[k], launch);
    if (is_too_long(t, compute, memory, limit)) {
      put_first(kernel, k);
      return TOO_LONG;
    }
  }
  return gpu_total_time(t, compute, memory);
}

// --- The best -------------------------------------------------------------------------------------

static void set_size(Kernel *kernel, int k, int64_t size) {
  const int64_t dim = kernel->nodes.at[0].inst->shape->dim[k];
  kernel->tiles->size[k] = size;
  kernel->axes[k] = (Axis){power_of_two(size), gpu_ceil_div(dim, size)};
  kernel->has_line &= k == kernel->groups[0].rank - 1;
}

static bool has_room(const Kernel *kernel, int64_t most) {
  int64_t n = 1;
  for (int k = 0; k < kernel->groups[0].rank; k++)
    n *= kernel->axes[k].power;
  return n <= most;
}

// Each size doubles up to that of the dimension, the last dimension's first; false: that was all. A tile that does not fit has none
// larger in every dimension that does.
static bool next_tile(Kernel *kernel, int64_t most, bool fits) {
  const int64_t *size = kernel->tiles->size, *dim = kernel->nodes.at[0].inst->shape->dim;
  for (int k = kernel->groups[0].rank - 1; k >= 0; k--) {
    if (fits && size[k] < dim[k]) {
      set_size(kernel, k, size[k] * 2 < dim[k] ? size[k] * 2 : dim[k]);
      if (has_room(kernel, most))
        return true;
    }
    fits |= size[k] > 1;
    set_size(kernel, k, 1);
  }
  return false;
}

static bool find_tile(const HlTarget *t, Kernel *kernel, GpuTile *best) {
  group_nodes(kernel);
  if (!make_tiles(kernel))
    return false;
  const int rank = kernel->groups[0].rank;
  int64_t *least = HL_ARRAY(kernel->arena, int64_t, rank + 1);
  bool found = false, fits = true;
  for (int k = 0; k < rank; k++)
    set_size(kernel, k, 1);
  do {
    fits = true;
    const GpuTime write = time_to_write(t, kernel);
    if (found && write >= best->time)
      continue;  // whatever the rest takes
    int warps;
    const GpuTime time = time_of(t, kernel, write, found ? best->time : INT64_MAX, &warps);
    fits = time != NO_ROOM;
    if (time < 0)
      continue;
    found = true;
    *best = (GpuTile){{least, rank}, warps, time};
    memcpy(least, kernel->tiles->size, (size_t)rank * sizeof *least);
  } while (next_tile(kernel, gpu_most_in_tile(t), fits));
  return found;
}

// All that tiles and their time follow from.
typedef struct Words {
  int64_t *at;
  int n;
} Words;

static Words words_of(const Kernel *kernel) {
  enum { OF_EACH = 5 };
  int most = 0;
  for (int k = 0; k < kernel->nodes.n; k++)
    most += OF_EACH + (int)n_operands(&kernel->nodes.at[k]) + kernel->nodes.at[k].dims.n;
  Words words = {HL_ARRAY(kernel->arena, int64_t, most), 0};
  for (int k = 0; k < kernel->nodes.n; k++) {
    const Node *node = &kernel->nodes.at[k];
    const int n = (int)n_operands(node);
    words.at[words.n++] = node->is_read ? -1 : (int64_t)node->inst->op;
    words.at[words.n++] = (int64_t)(intptr_t)node->inst->shape;
    words.at[words.n++] = node->work;
    words.at[words.n++] = n;
    for (int i = 0; i < n; i++)
      words.at[words.n++] = node->operands[i];
    words.at[words.n++] = node->dims.n;
    for (int i = 0; i < node->dims.n; i++)
      words.at[words.n++] = node->dims.at[i];
  }
  return words;
}

typedef struct Known {
  Words words;
  bool found;
  GpuTile tile;
} Known;

static Known *find_known(const GpuTiles *tiles, const Words *words, uint64_t hash) {
  MapWalk walk = map_walk(&tiles->known, hash);
  Known *known;
  while ((known = map_next_ptr(&walk)))
    if (known->words.n == words->n &&
        memcmp(known->words.at, words->at, (size_t)words->n * sizeof *words->at) == 0)
      break;
  return known;
}

static Known *add_known(GpuTiles *tiles, const Words *words, uint64_t hash) {
  Known *known = HL_NEW(tiles->arena, Known);
  known->words = (Words){
      hl_arena_copy(tiles->arena, words->at, (size_t)words->n * sizeof *words->at), words->n};
  map_add_ptr(&tiles->known, hash, known);
  return known;
}

static const Known *know(const HlTarget *t, GpuTiles *tiles, const HlInst *producer,
                         const HlInst *consumer) {
  const HlMark mark = hl_arena_mark(tiles->scratch);
  Kernel kernel = kernel_of(tiles->scratch, producer, consumer);
  const Words words = words_of(&kernel);
  const uint64_t hash = hl_hash_bytes(words.at, (size_t)words.n * sizeof *words.at, 0);
  Known *known = find_known(tiles, &words, hash);
  if (!known) {
    known = add_known(tiles, &words, hash);
    known->found = find_tile(t, &kernel, &known->tile);
    if (known->found)
      known->tile.size = hl_i64s_copy(tiles->arena, known->tile.size);
  }
  hl_arena_release(tiles->scratch, mark);
  return known;
}

// A question, mostly asked twice: whether there is a tile, and what time it takes.
typedef struct AskedTile {
  const HlInst *producer, *consumer;
  const Known *known;
  uint32_t n_changes;  // until it was asked
} AskedTile;

static AskedTile *asked_place(GpuTiles *tiles, const HlInst *producer, const HlInst *consumer) {
  enum { PLACES = 256 };
  if (!tiles->asked)
    tiles->asked = HL_ARRAY(tiles->arena, AskedTile, PLACES);
  return &tiles->asked[hl_hash_mix(map_key(producer), map_key(consumer)) % PLACES];
}

bool gpu_best_tile(const HlTarget *t, GpuTiles *tiles, const HlInst *producer,
                   const HlInst *consumer, GpuTile *best) {
  if (!hl_shape_is_array(consumer->shape))
    return false;
  AskedTile *asked = asked_place(tiles, producer, consumer);
  if (asked->consumer != consumer || asked->producer != producer ||
      asked->n_changes != tiles->n_changes)
    *asked = (AskedTile){producer, consumer, know(t, tiles, producer, consumer), tiles->n_changes};
  if (asked->known->found)
    *best = asked->known->tile;
  return asked->known->found;
}

GpuTime gpu_tile_time(const HlTarget *t, HlArena *arena, const HlInst *fusion, HlI64s size) {
  const HlMark mark = hl_arena_mark(arena);
  Kernel kernel = kernel_of(arena, NULL, fusion);
  group_nodes(&kernel);
  GpuTime time = NO_ROOM;
  int warps;
  if (make_tiles(&kernel)) {
    for (int k = 0; k < size.n; k++)
      set_size(&kernel, k, size.at[k]);
    time = time_of(t, &kernel, time_to_write(t, &kernel), INT64_MAX, &warps);
  }
  hl_arena_release(arena, mark);
  return time;
}
