// literal.c: literals: making, sharing, comparing, reading and writing elements.
//
// A literal is one heap block: the header, its own copy of its shape, run-time sizes, pointers to
// elements, and the data, aligned for vectors.

#include "base/memory.h"
#include "ir/put.h"
#include "ir/state.h"

#include <math.h>

enum { DATA_ALIGN = 64 };

// --- Copying a shape into the block --------------------------------------------------------------

// A walk that copies a shape does so twice: once to count bytes (at NULL), once to fill them.
typedef struct Bump {
  char *at;
  size_t used;
} Bump;

static void *bump(Bump *b, const void *from, size_t size) {
  void *place = b->at ? b->at + b->used : NULL;
  if (place && from && size)
    memcpy(place, from, size);
  b->used += (size + 15) & ~(size_t)15;
  return place;
}

static HlI64s bump_ints(Bump *b, HlI64s list) {
  return (HlI64s){list.n ? bump(b, list.at, (size_t)list.n * sizeof *list.at) : NULL, list.n};
}

static const HlLayoutExtra *bump_extra(Bump *b, const HlLayoutExtra *from) {
  HlLayoutExtra *to = bump(b, from, sizeof *from);
  HlI64s *tiles = bump(b, from->tiles, (size_t)from->n_tiles * sizeof *tiles);
  for (int k = 0; k < from->n_tiles; k++) {
    const HlI64s tile = bump_ints(b, from->tiles[k]);
    if (tiles)
      tiles[k] = tile;
  }
  HlSplitConfig *splits = bump(b, from->splits, (size_t)from->n_splits * sizeof *splits);
  for (int k = 0; k < from->n_splits; k++) {
    const HlI64s indices = bump_ints(b, from->splits[k].split_indices);
    if (splits)
      splits[k].split_indices = indices;
  }
  if (to) {
    to->tiles = tiles;
    to->splits = splits;
  }
  return to;
}

static const HlLayout *bump_layout(Bump *b, const HlLayout *from) {
  HlLayout *to = bump(b, from, sizeof *from);
  const HlI64s order = bump_ints(b, from->minor_to_major);
  const HlLayoutExtra *extra = from->extra ? bump_extra(b, from->extra) : NULL;
  if (to)
    *to = (HlLayout){order, extra};
  return to;
}

static bool has_elements(const HlShape *shape) {
  return shape->dtype == HL_TUPLE || shape->dtype == HL_BUFFER;
}

static HlShape *bump_shape(Bump *b, const HlShape *from) {
  HlShape *to = bump(b, from, sizeof *from);
  const size_t rank = (size_t)from->rank;
  const HlShape **element = NULL;
  const int64_t *dim = NULL;
  const bool *dynamic = NULL;
  if (has_elements(from)) {
    element = bump(b, NULL, rank * sizeof *element);
    for (size_t k = 0; k < rank; k++) {
      const HlShape *copy = bump_shape(b, from->element[k]);
      if (element)
        element[k] = copy;
    }
  } else if (rank) {
    dim = bump(b, from->dim, rank * sizeof *dim);
    dynamic = from->dynamic ? bump(b, from->dynamic, rank * sizeof *dynamic) : NULL;
  }
  const HlLayout *layout = from->layout ? bump_layout(b, from->layout) : NULL;
  if (to) {
    to->dim = dim;
    to->dynamic = dynamic;
    to->element = element;
    to->layout = layout;
  }
  return to;
}

// --- Making and letting go -----------------------------------------------------------------------

static int64_t byte_limit(HlCx *cx) {
  const HlLimits *limits = hl_cx_limits(cx);
  return limits->literal_bytes > limits->eval_bytes ? limits->literal_bytes : limits->eval_bytes;
}

static HlLiteral *too_large(HlCx *cx, const HlShape *shape) {
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "a value of shape %s is too large",
                hl_shape_text(cx, shape));
  hl_arena_release(scratch, mark);
  return NULL;
}

// How many elements an array literal holds, or -1 when that makes no sense or is beyond the limit.
// Sizes in front of a zero count too: printing walks them.
static int64_t count_elements(const HlShape *shape, int64_t limit) {
  const int64_t bytes = hl_dtype_bytes(shape->dtype);
  int64_t n = 1, walked = bytes > 0 ? bytes : 1;
  for (int k = 0; k < shape->rank; k++) {
    if (shape->dim[k] < 0)
      return -1;
    n = n && shape->dim[k] && n > limit / shape->dim[k] ? limit + 1 : n * shape->dim[k];
    if (!n)
      break;
    if (walked > limit / shape->dim[k])
      return -1;
    walked *= shape->dim[k];
  }
  return n;
}

// The block of one literal without its elements' own literals; data of n elements, zeroed.
static HlLiteral *new_block(HlCx *cx, const HlShape *shape, int64_t n) {
  const bool tuple = shape->dtype == HL_TUPLE;
  const size_t size = (size_t)n * (size_t)hl_dtype_bytes(shape->dtype);
  const size_t extents = shape->dynamic ? (size_t)shape->rank * sizeof(int64_t) : 0;
  const size_t pointers = tuple ? (size_t)shape->rank * sizeof(HlLiteral *) : 0;
  Bump count = {NULL, 0};
  bump(&count, NULL, sizeof(HlLiteral));
  bump_shape(&count, shape);
  bump(&count, NULL, extents);
  bump(&count, NULL, pointers);
  const size_t total = count.used + (n ? size + DATA_ALIGN : 0);
  char *block = base_try_alloc(total);
  if (!block) {
    too_large(cx, shape);
    base_end_try(total);
    return NULL;
  }
  Bump fill = {block, 0};
  HlLiteral *literal = bump(&fill, NULL, sizeof *literal);
  literal->refs = 1;
  literal->shape = bump_shape(&fill, shape);
  literal->extent = extents ? bump(&fill, NULL, extents) : NULL;
  literal->element = tuple ? bump(&fill, NULL, pointers) : NULL;
  literal->n = n;
  for (int k = 0; literal->extent && k < shape->rank; k++)
    literal->extent[k] = shape->dim[k] < 0 ? 0 : shape->dim[k];
  if (n) {
    const uintptr_t after = (uintptr_t)(block + fill.used);
    literal->data = block + fill.used + (DATA_ALIGN - after % DATA_ALIGN) % DATA_ALIGN;
  }
  return literal;
}

HlLiteral *hl_literal_new(HlCx *cx, const HlShape *shape) {
  int64_t n = 0;
  if (hl_is_array_dtype(shape->dtype)) {
    n = count_elements(shape, byte_limit(cx));
    if (n < 0)
      return too_large(cx, shape);
  }
  HlLiteral *literal = new_block(cx, shape, n);
  for (int k = 0; literal && literal->element && k < shape->rank; k++) {
    literal->element[k] = hl_literal_new(cx, shape->element[k]);
    if (!literal->element[k]) {
      hl_literal_unref(literal);
      return NULL;
    }
  }
  return literal;
}

HlLiteral *hl_literal_new_elided(HlCx *cx, const HlShape *shape) {
  HlLiteral *literal = new_block(cx, shape, 0);
  if (!literal)
    return NULL;
  literal->flags = HL_LIT_ELIDED;
  for (int k = 0; literal->element && k < shape->rank; k++) {
    literal->element[k] = hl_literal_new_elided(cx, shape->element[k]);
    if (!literal->element[k]) {
      hl_literal_unref(literal);
      return NULL;
    }
  }
  return literal;
}

HlLiteral *hl_literal_borrow(HlCx *cx, const HlShape *shape, void *data) {
  const int64_t n = count_elements(shape, byte_limit(cx));
  HlLiteral *literal = n < 0 ? too_large(cx, shape) : new_block(cx, shape, 0);
  if (literal) {
    literal->n = n;
    literal->data = data;
  }
  return literal;
}

static int64_t bytes_of(const HlLiteral *literal) {
  return literal->n * hl_dtype_bytes(literal->shape->dtype);
}

// What a try that fails does with a new one.
static void let_go_adopted(void *at, int64_t n) {
  HlLiteral *literal = at;
  literal->let_go(literal->data, bytes_of(literal));
  base_free(literal);
}

void hl_literal_adopt(HlLiteral *literal, void *data, void (*let_go)(void *data, int64_t bytes)) {
  const bool is_new = base_is_new(literal);
  literal->data = data;
  literal->let_go = let_go;
  base_unmade(literal);
  if (is_new)
    base_made(NULL, literal, let_go_adopted, 0);
}

HlLiteral *hl_literal_tuple(HlCx *cx, int n, HlLiteral *const *element) {
  const HlShape **shapes = base_alloc(((size_t)n + 1) * sizeof *shapes);
  for (int k = 0; k < n; k++)
    shapes[k] = element[k]->shape;
  HlShape shape = {.dtype = HL_TUPLE, .rank = n, .element = shapes};
  for (int k = 0; k < n; k++)
    shape.hash = hl_hash_mix(shape.hash, shapes[k]->hash);
  HlLiteral *literal = new_block(cx, &shape, 0);
  base_free(shapes);
  for (int k = 0; literal && k < n; k++)
    literal->element[k] = hl_literal_ref(element[k]);
  return literal;
}

static void drop(HlLiteral *literal) {
  if (__atomic_sub_fetch(&literal->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    ir_literal_let_go(literal->element[k], literal);
  if (literal->let_go)
    literal->let_go(literal->data, bytes_of(literal));
  base_free(literal);
}

static void give_back(void *literal, int64_t n) {
  if (n < 0)
    __atomic_add_fetch(&((HlLiteral *)literal)->refs, (int)-n, __ATOMIC_RELAXED);
  for (; n > 0; n--)
    drop(literal);
}

void ir_literal_let_go(HlLiteral *literal, const void *holder) {
  if (!literal)
    return;
  if (!base_in_try() || base_is_new(holder))
    base_note_ref(literal, -1, give_back);
  drop(literal);
}

void ir_literal_give(HlLiteral *literal, const void *holder) {
  if (!base_in_try() || base_is_new(holder))
    return;
  if (!base_give_counted(literal, literal->refs - 1, give_back)) {
    base_note_ref(literal, -1, give_back);
    return;
  }
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    ir_literal_give(literal->element[k], literal);
}

HlLiteral *hl_literal_ref(const HlLiteral *literal) {
  HlLiteral *shared = (HlLiteral *)(uintptr_t)literal;
  if (!shared)
    return NULL;
  __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
  base_note_ref(shared, 1, give_back);
  return shared;
}

void hl_literal_unref(HlLiteral *literal) {
  if (!literal)
    return;
  base_note_ref(literal, -1, give_back);
  drop(literal);
}

HlLiteral *hl_literal_copy(HlCx *cx, const HlLiteral *from) {
  HlLiteral *to = new_block(cx, from->shape, from->n);
  if (!to)
    return NULL;
  to->flags = from->flags;
  if (from->n)
    memcpy(to->data, from->data, (size_t)from->n * (size_t)hl_dtype_bytes(from->shape->dtype));
  if (to->extent && from->extent)
    memcpy(to->extent, from->extent, (size_t)from->shape->rank * sizeof *to->extent);
  for (int k = 0; to->element && k < from->shape->rank; k++) {
    to->element[k] = hl_literal_copy(cx, from->element[k]);
    if (!to->element[k]) {
      hl_literal_unref(to);
      return NULL;
    }
  }
  return to;
}

HlLiteral *hl_literal_reshape(HlCx *cx, const HlLiteral *from, const HlShape *to) {
  const bool elided = from->flags & HL_LIT_ELIDED;
  HlLiteral *literal = elided ? hl_literal_new_elided(cx, to) : hl_literal_new(cx, to);
  if (!literal || elided)
    return literal;
  if (literal->n != from->n || hl_dtype_bytes(to->dtype) != hl_dtype_bytes(from->shape->dtype)) {
    hl_literal_unref(literal);
    hl_error(cx, (HlPos){0}, "cannot reshape %lld elements", (long long)from->n);
    return NULL;
  }
  literal->flags = from->flags & HL_LIT_SPLAT;
  if (from->n)
    memcpy(literal->data, from->data, (size_t)from->n * (size_t)hl_dtype_bytes(to->dtype));
  return literal;
}

// Bytes of an array's elements.
static size_t data_size(const HlLiteral *literal) {
  return (size_t)literal->n * (size_t)hl_dtype_bytes(literal->shape->dtype);
}

// --- Comparing -----------------------------------------------------------------------------------

static bool same_extents(const HlLiteral *a, const HlLiteral *b) {
  for (int k = 0; k < a->shape->rank; k++) {
    const int64_t x = a->extent ? a->extent[k] : a->shape->dim[k];
    const int64_t y = b->extent ? b->extent[k] : b->shape->dim[k];
    if (x != y)
      return false;
  }
  return true;
}

bool hl_literal_equal(const HlLiteral *a, const HlLiteral *b) {
  if (a == b)
    return true;
  if (!a || !b || a->shape->dtype != b->shape->dtype || a->shape->rank != b->shape->rank ||
      a->n != b->n || (a->flags & HL_LIT_ELIDED) != (b->flags & HL_LIT_ELIDED))
    return false;
  for (int k = 0; a->element && k < a->shape->rank; k++)
    if (!hl_literal_equal(a->element[k], b->element[k]))
      return false;
  if (a->element)
    return true;
  if (!hl_is_array_dtype(a->shape->dtype))
    return hl_shape_compatible(a->shape, b->shape);
  return hl_shape_same_dims(a->shape, b->shape) && same_extents(a, b) &&
         (!a->n || !memcmp(a->data, b->data, data_size(a)));
}

uint64_t hl_literal_hash(const HlLiteral *literal) {
  const HlShape *shape = literal->shape;
  uint64_t hash = hl_hash_mix((uint64_t)shape->dtype, (uint64_t)shape->rank);
  hash = hl_hash_mix(hash, literal->flags & HL_LIT_ELIDED);
  if (literal->element) {
    for (int k = 0; k < shape->rank; k++)
      hash = hl_hash_mix(hash, hl_literal_hash(literal->element[k]));
    return hash;
  }
  if (!hl_is_array_dtype(shape->dtype))
    return hash;
  for (int k = 0; k < shape->rank; k++)
    hash = hl_hash_mix(hash, (uint64_t)shape->dim[k]);
  if (!literal->n)
    return hash;
  return hl_hash_bytes(literal->data, data_size(literal), hash);
}

bool hl_literal_is_elided(const HlLiteral *literal) {
  if (literal->flags & HL_LIT_ELIDED)
    return true;
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    if (hl_literal_is_elided(literal->element[k]))
      return true;
  return false;
}

int64_t hl_literal_bytes(const HlLiteral *literal) {
  int64_t bytes = literal->n * hl_dtype_bytes(literal->shape->dtype);
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    bytes += hl_literal_bytes(literal->element[k]);
  return bytes;
}

bool hl_literal_is_all(const HlLiteral *literal, double value) {
  if (!literal->n || !literal->data)
    return false;
  const size_t width = (size_t)hl_dtype_bytes(literal->shape->dtype);
  if (hl_literal_f64(literal, 0) != value || hl_literal_imag(literal, 0) != 0)
    return false;
  if (value == 0 && hl_dtype_kind(literal->shape->dtype) >= HL_KIND_FLOAT &&
      !signbit(hl_literal_f64(literal, 0)) != !signbit(value))
    return false;
  // All bytes equal those one element earlier.
  const char *data = literal->data;
  return !memcmp(data, data + width, (size_t)(literal->n - 1) * width);
}

// --- Single elements -----------------------------------------------------------------------------

#define AT(T) (((const T *)literal->data)[k])

double hl_literal_f64(const HlLiteral *literal, int64_t k) {
  if (!literal->data)
    return 0;
  const HlDtype dtype = literal->shape->dtype;
  switch (dtype) {
  case HL_F32: return AT(float);
  case HL_F64: return AT(double);
  case HL_C64: return ((const float *)literal->data)[2 * k];
  case HL_C128: return ((const double *)literal->data)[2 * k];
  case HL_U64: return (double)AT(uint64_t);
  case HL_F16: return hl_f16_to_f32(AT(uint16_t));
  case HL_BF16: return hl_bf16_to_f32(AT(uint16_t));
  default: break;
  }
  if (hl_is_float(dtype))
    return hl_float_decode(&hl_dtype_info[dtype].format, AT(uint8_t));
  return (double)hl_literal_i64(literal, k);
}

double hl_literal_imag(const HlLiteral *literal, int64_t k) {
  if (!literal->data)
    return 0;
  switch (literal->shape->dtype) {
  case HL_C64: return ((const float *)literal->data)[2 * k + 1];
  case HL_C128: return ((const double *)literal->data)[2 * k + 1];
  default: return 0;
  }
}

int64_t hl_literal_i64(const HlLiteral *literal, int64_t k) {
  if (!literal->data)
    return 0;
  switch (literal->shape->dtype) {
  case HL_PRED:
  case HL_U1:
  case HL_U2:
  case HL_U4:
  case HL_U8: return AT(uint8_t);
  case HL_S1:
  case HL_S2:
  case HL_S4:
  case HL_S8: return AT(int8_t);
  case HL_S16: return AT(int16_t);
  case HL_S32: return AT(int32_t);
  case HL_S64:
  case HL_U64: return AT(int64_t);
  case HL_U16: return AT(uint16_t);
  case HL_U32: return AT(uint32_t);
  default: break;
  }
  int64_t value = 0;
  const double from = hl_literal_f64(literal, k);
  hl_convert_elements(HL_S64, &value, HL_F64, &from, 1);
  return value;
}

// The place of element k, for writing.
static void *place(HlLiteral *literal, int64_t k) {
  return (char *)literal->data + k * hl_dtype_bytes(literal->shape->dtype);
}

void hl_literal_set_f64(HlLiteral *literal, int64_t k, double value) {
  if (literal->data)
    hl_convert_elements(literal->shape->dtype, place(literal, k), HL_F64, &value, 1);
}

void hl_literal_set_complex(HlLiteral *literal, int64_t k, double re, double im) {
  const double value[2] = {re, im};
  if (literal->data)
    hl_convert_elements(literal->shape->dtype, place(literal, k), HL_C128, value, 1);
}

void hl_literal_set_i64(HlLiteral *literal, int64_t k, int64_t value) {
  if (literal->data)
    hl_convert_elements(literal->shape->dtype, place(literal, k),
                        literal->shape->dtype == HL_U64 ? HL_U64 : HL_S64, &value, 1);
}
