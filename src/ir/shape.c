// ir/shape.c: makes and interns shapes: one copy of each per interner, found by a hash of
// everything.

#include <assert.h>
#include <string.h>

#include "ir/state.h"

struct HlShapes {
  HlArena *arena;
  const HlShape **slot;  // open addressing; capacity is a power of two
  uint32_t n, capacity;
  uint64_t dtypes;  // bits
  BaseUndo *undo;   // NULL: nothing need be noted
};
_Static_assert(HL_DTYPE_COUNT <= 64, "element types are bits of a word");

HlShapes *hl_shapes_new(HlArena *arena) {
  HlShapes *shapes = HL_NEW(arena, HlShapes);
  shapes->arena = arena;
  shapes->capacity = 64;
  shapes->slot = HL_ARRAY(arena, const HlShape *, shapes->capacity);
  return shapes;
}

bool hl_shapes_have_dtype(const HlShapes *shapes, HlDtype dtype) {
  return shapes->dtypes >> dtype & 1;
}

// --- Hashes -------------------------------------------------------------------------------------

// Quick and good enough: shapes are short, and equality is checked after.
static inline uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t hash_extra(const HlLayoutExtra *extra, uint64_t h) {
  for (int k = 0; k < extra->n_tiles; k++) {
    h = mix(h, (uint64_t)extra->tiles[k].n);
    for (int d = 0; d < extra->tiles[k].n; d++)
      h = mix(h, (uint64_t)extra->tiles[k].at[d]);
  }
  for (int k = 0; k < extra->n_splits; k++) {
    h = mix(h, (uint64_t)extra->splits[k].dimension + 77);
    for (int d = 0; d < extra->splits[k].split_indices.n; d++)
      h = mix(h, (uint64_t)extra->splits[k].split_indices.at[d]);
  }
  h = mix(h, (uint64_t)extra->tail_padding_alignment);
  h = mix(h, (uint64_t)extra->index_type << 8 | (uint64_t)extra->pointer_type);
  h = mix(h, (uint64_t)extra->element_bits);
  h = mix(h, (uint64_t)extra->memory_space);
  return mix(h, (uint64_t)extra->dynamic_metadata_bytes);
}

static uint64_t hash_layout(const HlLayout *layout, uint64_t h) {
  if (!layout)
    return mix(h, 1);
  h = mix(h, 2 + (uint64_t)layout->minor_to_major.n);
  for (int k = 0; k < layout->minor_to_major.n; k++)
    h = mix(h, (uint64_t)layout->minor_to_major.at[k]);
  return layout->extra ? hash_extra(layout->extra, h) : h;
}

static uint64_t hash_array(HlDtype dtype, int rank, const int64_t *dim, const bool *dynamic,
                           const HlLayout *layout) {
  uint64_t h = mix(0x51ed270b, (uint64_t)dtype << 32 | (uint64_t)rank);
  for (int k = 0; k < rank; k++)
    h = mix(h, (uint64_t)dim[k]);
  if (dynamic)
    for (int k = 0; k < rank; k++)
      h = mix(h, dynamic[k]);
  return hash_layout(layout, h);
}

// --- Equality -----------------------------------------------------------------------------------

static bool extra_equal(const HlLayoutExtra *a, const HlLayoutExtra *b) {
  if (a == b)
    return true;
  if (!a || !b || a->n_tiles != b->n_tiles || a->n_splits != b->n_splits ||
      a->tail_padding_alignment != b->tail_padding_alignment || a->index_type != b->index_type ||
      a->pointer_type != b->pointer_type || a->element_bits != b->element_bits ||
      a->memory_space != b->memory_space || a->dynamic_metadata_bytes != b->dynamic_metadata_bytes)
    return false;
  for (int k = 0; k < a->n_tiles; k++)
    if (!hl_i64s_equal(a->tiles[k], b->tiles[k]))
      return false;
  for (int k = 0; k < a->n_splits; k++)
    if (a->splits[k].dimension != b->splits[k].dimension ||
        !hl_i64s_equal(a->splits[k].split_indices, b->splits[k].split_indices))
      return false;
  return true;
}

static bool layout_equal(const HlLayout *a, const HlLayout *b) {
  if (a == b)
    return true;
  if (!a || !b || a->minor_to_major.n != b->minor_to_major.n)
    return false;
  for (int k = 0; k < a->minor_to_major.n; k++)
    if (a->minor_to_major.at[k] != b->minor_to_major.at[k])
      return false;
  return extra_equal(a->extra, b->extra);
}

static bool array_equal(const HlShape *a, const HlShape *b) {
  for (int k = 0; k < a->rank; k++)
    if (a->dim[k] != b->dim[k])
      return false;
  if (a->dynamic || b->dynamic)
    for (int k = 0; k < a->rank; k++)
      if ((a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k]))
        return false;
  return layout_equal(a->layout, b->layout);
}

bool hl_shape_equal(const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (a->dtype != b->dtype || a->rank != b->rank)
    return false;
  if (hl_is_array_dtype(a->dtype))
    return array_equal(a, b);
  for (int k = 0; k < a->rank; k++)
    if (!hl_shape_equal(a->element[k], b->element[k]))
      return false;
  return true;
}

// --- The table ----------------------------------------------------------------------------------

static void grow(HlShapes *shapes) {
  uint32_t capacity = shapes->capacity * 2;
  const HlShape **slot = HL_ARRAY(shapes->arena, const HlShape *, capacity);
  for (uint32_t k = 0; k < shapes->capacity; k++) {
    const HlShape *shape = shapes->slot[k];
    if (!shape)
      continue;
    uint32_t at = (uint32_t)shape->hash & (capacity - 1);
    while (slot[at])
      at = (at + 1) & (capacity - 1);
    slot[at] = shape;
  }
  shapes->slot = slot;
  shapes->capacity = capacity;
}

static void insert(HlShapes *shapes, const HlShape *shape) {
  if (shapes->n * 2 >= shapes->capacity)
    grow(shapes);
  uint32_t at = (uint32_t)shape->hash & (shapes->capacity - 1);
  while (shapes->slot[at])
    at = (at + 1) & (shapes->capacity - 1);
  BASE_SET(shapes->undo, shapes->slot[at], shape);
  shapes->n++;
}

void ir_shapes_watch(HlShapes *shapes, BaseUndo *undo) {
  shapes->undo = undo;
  if (undo)
    base_undo_bytes(undo, shapes, sizeof *shapes);
}

// Interned elements make comparing a tuple a comparison of pointers.
static bool found_equal(const HlShape *a, const HlShape *b) {
  if (a->hash != b->hash || a->dtype != b->dtype || a->rank != b->rank)
    return false;
  if (hl_is_array_dtype(a->dtype))
    return array_equal(a, b);
  return a->rank == 0 ||
         memcmp(a->element, b->element, sizeof(a->element[0]) * (size_t)a->rank) == 0;
}

static const HlShape *find(const HlShapes *shapes, const HlShape *key) {
  for (uint32_t at = (uint32_t)key->hash & (shapes->capacity - 1); shapes->slot[at];
       at = (at + 1) & (shapes->capacity - 1))
    if (found_equal(shapes->slot[at], key))
      return shapes->slot[at];
  return NULL;
}

// --- Copies into the arena ----------------------------------------------------------------------

static const HlLayoutExtra *copy_extra(HlArena *arena, const HlLayoutExtra *extra) {
  HlLayoutExtra *copy = hl_arena_copy(arena, extra, sizeof *extra);
  HlI64s *tiles = hl_arena_copy(arena, extra->tiles, sizeof(HlI64s) * (size_t)extra->n_tiles);
  for (int k = 0; k < extra->n_tiles; k++)
    tiles[k] = hl_i64s_copy(arena, extra->tiles[k]);
  HlSplitConfig *splits =
      hl_arena_copy(arena, extra->splits, sizeof(HlSplitConfig) * (size_t)extra->n_splits);
  for (int k = 0; k < extra->n_splits; k++)
    splits[k].split_indices = hl_i64s_copy(arena, extra->splits[k].split_indices);
  copy->tiles = tiles;
  copy->splits = splits;
  return copy;
}

// One block holds an array's shape, layout and lists.
static const HlShape *add_array(HlShapes *shapes, const HlShape *key) {
  size_t rank = (size_t)key->rank;
  size_t n_order = key->layout ? (size_t)key->layout->minor_to_major.n : 0;
  char *block = hl_arena_alloc(shapes->arena,
                               sizeof(HlShape) + (key->layout ? sizeof(HlLayout) : 0) +
                                   (rank + n_order) * sizeof(int64_t) + (key->dynamic ? rank : 0));
  HlShape *shape = (HlShape *)block;
  *shape = *key;
  block += sizeof *shape;
  HlLayout *layout = (HlLayout *)block;
  int64_t *dim = (int64_t *)(block + (key->layout ? sizeof *layout : 0));
  if (rank > 0)
    memcpy(dim, key->dim, rank * sizeof *dim);
  shape->dim = dim;
  if (key->layout) {
    if (n_order > 0)
      memcpy(dim + rank, key->layout->minor_to_major.at, n_order * sizeof *dim);
    layout->minor_to_major = (HlI64s){dim + rank, (int)n_order};
    layout->extra = key->layout->extra ? copy_extra(shapes->arena, key->layout->extra) : NULL;
    shape->layout = layout;
  }
  if (key->dynamic)
    shape->dynamic = memcpy(dim + rank + n_order, key->dynamic, rank);
  shapes->dtypes |= (uint64_t)1 << shape->dtype;
  insert(shapes, shape);
  return shape;
}

static const HlShape *add_tuple(HlShapes *shapes, const HlShape *key) {
  HlShape *shape = hl_arena_copy(shapes->arena, key, sizeof *key);
  shape->element =
      hl_arena_copy(shapes->arena, key->element, sizeof(key->element[0]) * (size_t)key->rank);
  insert(shapes, shape);
  return shape;
}

// --- Making -------------------------------------------------------------------------------------

static bool is_default_extra(const HlLayoutExtra *extra) {
  return extra->n_tiles == 0 && extra->n_splits == 0 && extra->tail_padding_alignment == 1 &&
         extra->index_type == HL_NO_DTYPE && extra->pointer_type == HL_NO_DTYPE &&
         extra->element_bits == 0 && extra->memory_space == 0 && extra->dynamic_metadata_bytes == 0;
}

const HlShape *hl_shape_array_full(HlShapes *shapes, HlDtype dtype, int rank, const int64_t *dim,
                                   const bool *dynamic, const HlLayout *layout) {
  HlLayout plain;
  if (layout && layout->extra && is_default_extra(layout->extra)) {
    plain = (HlLayout){layout->minor_to_major, NULL};
    layout = &plain;
  }
  bool any_dynamic = false;
  for (int k = 0; dynamic && k < rank; k++)
    any_dynamic |= dynamic[k];
  if (!any_dynamic)
    dynamic = NULL;
  HlShape key = {.dtype = dtype, .rank = rank, .dim = dim, .dynamic = dynamic, .layout = layout};
  key.hash = hash_array(dtype, rank, dim, dynamic, layout);
  const HlShape *found = find(shapes, &key);
  return found ? found : add_array(shapes, &key);
}

enum { SMALL_RANK = 16 };

const HlShape *hl_shape_array(HlShapes *shapes, HlDtype dtype, int rank, const int64_t *dim) {
  int64_t small[SMALL_RANK];
  int64_t *order = rank <= SMALL_RANK ? small : HL_ARRAY(shapes->arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    order[k] = rank - 1 - k;
  HlLayout layout = {{order, rank}, NULL};
  return hl_shape_array_full(shapes, dtype, rank, dim, NULL, &layout);
}

const HlShape *hl_shape_scalar(HlShapes *shapes, HlDtype dtype) {
  return hl_shape_array(shapes, dtype, 0, NULL);
}

// A shape with elements that are interned here already, or none.
static const HlShape *of_elements(HlShapes *shapes, HlDtype dtype, int n,
                                  const HlShape *const *element) {
  HlShape key = {.dtype = dtype, .rank = n, .element = element};
  key.hash = mix(0x2545f491, (uint64_t)dtype << 32 | (uint64_t)n);
  for (int k = 0; k < n; k++)
    key.hash = mix(key.hash, element[k]->hash);
  const HlShape *found = find(shapes, &key);
  return found ? found : add_tuple(shapes, &key);
}

const HlShape *hl_shape_tuple(HlShapes *shapes, int n, const HlShape *const *element) {
  const HlShape *small[SMALL_RANK];
  HlMark mark = hl_arena_mark(shapes->arena);
  uint32_t before = shapes->n;
  const HlShape **own = n <= SMALL_RANK ? small : HL_ARRAY(shapes->arena, const HlShape *, n);
  for (int k = 0; k < n; k++)
    own[k] = hl_shape_intern(shapes, element[k]);
  const HlShape *tuple = of_elements(shapes, HL_TUPLE, n, own);
  if (n > SMALL_RANK && shapes->n == before)  // nothing new: the list of elements can go
    hl_arena_release(shapes->arena, mark);
  return tuple;
}

const HlShape *hl_shape_buffer(HlShapes *shapes, const HlShape *array) {
  const HlShape *own = hl_shape_intern(shapes, array);
  return of_elements(shapes, HL_BUFFER, 1, &own);
}

const HlShape *hl_shape_token(HlShapes *shapes) {
  return of_elements(shapes, HL_TOKEN, 0, NULL);
}
const HlShape *hl_shape_opaque(HlShapes *shapes) {
  return of_elements(shapes, HL_OPAQUE, 0, NULL);
}

// --- Changing -----------------------------------------------------------------------------------

typedef const HlShape *LeafFn(HlShapes *shapes, const HlShape *array, const void *with);

// The shape with every array replaced by fn's answer.
static const HlShape *map_leaves(HlShapes *shapes, const HlShape *shape, LeafFn *fn,
                                 const void *with) {
  if (hl_is_array_dtype(shape->dtype))
    return fn(shapes, shape, with);
  if (shape->rank == 0)
    return of_elements(shapes, shape->dtype, 0, NULL);
  const HlShape *small[4];
  const HlShape **element =
      shape->rank <= 4 ? small : HL_ARRAY(shapes->arena, const HlShape *, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    element[k] = map_leaves(shapes, shape->element[k], fn, with);
  return of_elements(shapes, shape->dtype, shape->rank, element);
}

static const HlShape *same_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  return hl_shape_array_full(shapes, s->dtype, s->rank, s->dim, s->dynamic, s->layout);
}

static const HlShape *bare_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  return hl_shape_array_full(shapes, s->dtype, s->rank, s->dim, s->dynamic, NULL);
}

static const HlShape *default_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  if (s->layout)
    return same_leaf(shapes, s, with);
  const HlShape *plain = hl_shape_array(shapes, s->dtype, s->rank, s->dim);
  return s->dynamic
             ? hl_shape_array_full(shapes, s->dtype, s->rank, s->dim, s->dynamic, plain->layout)
             : plain;
}

static const HlShape *static_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  return hl_shape_array_full(shapes, s->dtype, s->rank, s->dim, NULL, s->layout);
}

// The size that elements of a type smaller than a byte are given is not that of another type.
static const HlShape *typed_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  const HlDtype dtype = *(const HlDtype *)with;
  const HlLayoutExtra *sized = s->layout ? s->layout->extra : NULL;
  if (!sized || !sized->element_bits || dtype == s->dtype)
    return hl_shape_array_full(shapes, dtype, s->rank, s->dim, s->dynamic, s->layout);
  HlLayoutExtra extra = *sized;
  extra.element_bits = 0;
  const HlLayout layout = {s->layout->minor_to_major, &extra};
  return hl_shape_array_full(shapes, dtype, s->rank, s->dim, s->dynamic, &layout);
}

static const HlShape *laid_leaf(HlShapes *shapes, const HlShape *s, const void *with) {
  return hl_shape_array_full(shapes, s->dtype, s->rank, s->dim, s->dynamic, with);
}

const HlShape *hl_shape_intern(HlShapes *shapes, const HlShape *shape) {
  if (shape->hash)  // perhaps it is ours already
    for (uint32_t at = (uint32_t)shape->hash & (shapes->capacity - 1); shapes->slot[at];
         at = (at + 1) & (shapes->capacity - 1))
      if (shapes->slot[at] == shape)
        return shape;
  return map_leaves(shapes, shape, same_leaf, NULL);
}

const HlShape *hl_shape_with_dtype(HlShapes *shapes, const HlShape *shape, HlDtype dtype) {
  return map_leaves(shapes, shape, typed_leaf, &dtype);
}

const HlShape *hl_shape_with_layout(HlShapes *shapes, const HlShape *shape,
                                    const HlLayout *layout) {
  return map_leaves(shapes, shape, laid_leaf, layout);
}

int64_t hl_memory_space(const HlShape *shape) {
  return shape->layout && shape->layout->extra ? shape->layout->extra->memory_space : 0;
}

const HlShape *hl_with_memory_space(HlShapes *shapes, const HlShape *shape, int64_t space) {
  shape = hl_shape_with_default_layout(shapes, shape);
  if (hl_memory_space(shape) == space)
    return shape;
  HlLayoutExtra extra = shape->layout->extra ? *shape->layout->extra
                                             : (HlLayoutExtra){.tail_padding_alignment = 1,
                                                               .index_type = HL_NO_DTYPE,
                                                               .pointer_type = HL_NO_DTYPE};
  extra.memory_space = space;
  HlLayout layout = {shape->layout->minor_to_major, &extra};
  return hl_shape_with_layout(shapes, shape, &layout);
}

const HlShape *hl_shape_without_layout(HlShapes *shapes, const HlShape *shape) {
  return map_leaves(shapes, shape, bare_leaf, NULL);
}

const HlShape *hl_shape_with_default_layout(HlShapes *shapes, const HlShape *shape) {
  return map_leaves(shapes, shape, default_leaf, NULL);
}

const HlShape *hl_shape_static(HlShapes *shapes, const HlShape *shape) {
  return map_leaves(shapes, shape, static_leaf, NULL);
}
