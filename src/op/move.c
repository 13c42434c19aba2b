// op/move.c: copying strided boxes of elements, the base of all data movement.
//
// Dimensions that continue each other on both sides are joined first, so that most moves become a
// few long runs; the rest walks the outer dimensions and copies rows with one loop per element
// size.

#include <string.h>

#include "base/memory.h"
#include "op/kernel.h"

typedef struct Element16 {
  uint64_t word[2];
} Element16;

#define FILL(T)                         \
  {                                     \
    T value, *at = to;                  \
    memcpy(&value, element, sizeof(T)); \
    for (int64_t i = 0; i < n; i++)     \
      at[i] = value;                    \
  }

void fill_elements(void *to, int64_t n, const void *element, int size) {
  if (n <= 0)
    return;
  switch (size) {
  case 1: memset(to, *(const uint8_t *)element, (size_t)n); break;
  case 2: FILL(uint16_t) break;
  case 4: FILL(uint32_t) break;
  case 8: FILL(uint64_t) break;
  default: FILL(Element16) break;
  }
}

#define COPY(T)                                 \
  {                                             \
    T *t = (T *)(void *)to;                     \
    const T *f = (const T *)(const void *)from; \
    for (int64_t i = 0; i < n; i++)             \
      t[i * to_step] = f[i * from_step];        \
  }

static void copy_row(int size, int64_t n, char *to, int64_t to_step, const char *from,
                     int64_t from_step) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)n * (size_t)size);
    return;
  }
  if (to_step == 1 && from_step == 0) {
    fill_elements(to, n, from, size);
    return;
  }
  switch (size) {
  case 1: COPY(uint8_t) break;
  case 2: COPY(uint16_t) break;
  case 4: COPY(uint32_t) break;
  case 8: COPY(uint64_t) break;
  default: COPY(Element16) break;
  }
}

typedef struct Box {
  int rank;
  int64_t *dim, *to, *from;  // sizes and strides
} Box;

// Drops dimensions of one element and joins those that continue each other on both sides.
static Box joined(HlArena *arena, int rank, const int64_t *dim, const int64_t *to,
                  const int64_t *from) {
  Box box = {0, HL_ARRAY(arena, int64_t, rank + 2), HL_ARRAY(arena, int64_t, rank + 2),
             HL_ARRAY(arena, int64_t, rank + 2)};
  for (int d = 0; d < rank; d++) {
    if (dim[d] == 1)
      continue;
    const int last = box.rank - 1;
    if (last >= 0 && box.to[last] == to[d] * dim[d] && box.from[last] == from[d] * dim[d]) {
      box.dim[last] *= dim[d];
      box.to[last] = to[d];
      box.from[last] = from[d];
      continue;
    }
    box.dim[box.rank] = dim[d];
    box.to[box.rank] = to[d];
    box.from[box.rank++] = from[d];
  }
  for (; box.rank < 2; box.rank++) {  // at least a plane: a dimension of one goes in front
    for (int d = box.rank; d > 0; d--) {
      box.dim[d] = box.dim[d - 1];
      box.to[d] = box.to[d - 1];
      box.from[d] = box.from[d - 1];
    }
    box.dim[0] = 1;
    box.to[0] = box.from[0] = 0;
  }
  return box;
}

// The two inner dimensions; in small squares where each side runs along another of them.
static void copy_plane(int size, const Box *box, char *to, const char *from) {
  const int r = box->rank - 2, c = r + 1;
  const int64_t rows = box->dim[r], columns = box->dim[c], to_row = box->to[r] * size,
                from_row = box->from[r] * size;
  const bool crossed = box->from[r] == 1 && box->from[c] != 1 && rows > 1;
  const int64_t block = crossed ? 32 : columns;
  base_look();
  for (int64_t c0 = 0; c0 < columns; c0 += block) {
    const int64_t n = columns - c0 < block ? columns - c0 : block;
    char *t = to + c0 * box->to[c] * size;
    const char *f = from + c0 * box->from[c] * size;
    for (int64_t k = 0; k < rows; k++)
      copy_row(size, n, t + k * to_row, box->to[c], f + k * from_row, box->from[c]);
  }
}

void move_box(HlCx *cx, int size, int rank, const int64_t *dim, Side to, Side from) {
  for (int d = 0; d < rank; d++)
    if (dim[d] <= 0)
      return;
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  const Box box = joined(arena, rank, dim, to.stride, from.stride);
  HlWalk walk;
  hl_walk_start(&walk, arena, box.rank - 2, box.dim, 2, (const int64_t *const[]){box.to, box.from});
  for (; !walk.done; hl_walk_next(&walk))
    copy_plane(size, &box, to.at + walk.offset[0] * size, from.at + walk.offset[1] * size);
  hl_arena_release(arena, mark);
}
