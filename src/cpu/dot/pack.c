// cpu/dot/pack.c: brings operands into panels.
//
// Lanes that lie evenly, and elements of k that do, go straight into a panel. Whatever else, types that no packer knows and loops
// that break off within a panel, is first gathered into rows, and converted there.

#include <string.h>

#include "cpu/dot/plan.h"

// What a panel of one side has at most: lanes by elements of k, 16 bytes each.
static int64_t gathered_bytes(const DotPlan *p) {
  const int width = p->side[0].width > p->side[1].width ? p->side[0].width : p->side[1].width;
  return (int64_t)width * p->kc * 16;
}

size_t dot_pack_scratch(const DotPlan *p) {
  return 2 * (size_t)gathered_bytes(p);
}

int64_t dot_packed_bytes(const DotPlan *p, const DotSide *side, int64_t lanes, int64_t depth) {
  return dot_round_up(lanes, side->width) * p->parts * dot_words(p, depth) * p->word;
}

#define GATHER(T)                       \
  for (int64_t r = 0; r < rows; r++)    \
    for (int64_t k = 0; k < depth; k++) \
      ((T *)to)[r * depth + k] = *(const T *)(from + (size_t)(lane[r] + element[k]) * sizeof(T));

typedef struct Pair64 {
  uint64_t at[2];
} Pair64;

static void gather(int bytes, int64_t rows, int64_t depth, char *to, const char *from,
                   const int64_t *lane, const int64_t *element) {
  switch (bytes) {
  case 1: GATHER(uint8_t) break;
  case 2: GATHER(uint16_t) break;
  case 4: GATHER(uint32_t) break;
  case 8: GATHER(uint64_t) break;
  default: GATHER(Pair64)
  }
}
#undef GATHER

static void pack_gathered(const DotPlan *p, const DotSide *side, const char *from, int64_t first,
                          int64_t rows, int64_t k, int64_t depth, char *to, char *scratch) {
  int64_t lane[DOT_MAX_ROW], element[DOT_MAX_KC];
  dot_offsets(&side->lanes, side->array, first, rows, lane);
  dot_offsets(&p->k, side->array, k, depth, element);
  char *converted = scratch + gathered_bytes(p);
  gather(hl_dtype_bytes(side->dtype), rows, depth, scratch, from, lane, element);
  hl_convert_elements(side->carrier, converted, side->dtype, scratch, rows * depth);
  side->pack(rows, side->width, depth, to, converted, depth, 1);
}

// Many panels of lanes that lie beside each other: some elements of k at a time, so that memory is read in long rows.
static void pack_rows(const DotPlan *p, const DotSide *side, const char *from, int64_t n,
                      int64_t depth, int64_t step, char *to) {
  enum { TOGETHER = 16 };
  const int64_t panel = dot_packed_bytes(p, side, side->width, depth);
  const int bytes = hl_dtype_bytes(side->dtype);
  for (int64_t k = 0; k < depth; k += TOGETHER) {
    const int64_t some = depth - k < TOGETHER ? depth - k : TOGETHER;
    char *at = to + dot_packed_bytes(p, side, side->width, k);
    for (int64_t l = 0; l < n; l += side->width, at += panel)
      side->pack(n - l < side->width ? n - l : side->width, side->width, some, at,
                 from + (l + k * step) * bytes, 1, step);
  }
}

void dot_pack(const DotPlan *p, const DotSide *side, const char *from, int64_t first, int64_t n,
              int64_t k, int64_t depth, char *to, char *scratch) {
  const int64_t panel = dot_packed_bytes(p, side, side->width, depth);
  const int64_t at_k = dot_offset(&p->k, side->array, k);
  const int bytes = hl_dtype_bytes(side->dtype);
  int64_t row, step;
  const bool even = side->carrier == side->dtype && dot_even(&p->k, side->array, k, depth, &step);
  if (even && n > side->width && dot_even(&side->lanes, side->array, first, n, &row) && row == 1) {
    pack_rows(p, side, from + (dot_offset(&side->lanes, side->array, first) + at_k) * bytes, n,
              depth, step, to);
    return;
  }
  for (int64_t l = first; l < first + n; l += side->width, to += panel) {
    const int64_t rows = first + n - l < side->width ? first + n - l : side->width;
    if (even && dot_even(&side->lanes, side->array, l, rows, &row))
      side->pack(rows, side->width, depth, to,
                 from + (dot_offset(&side->lanes, side->array, l) + at_k) * bytes, row, step);
    else
      pack_gathered(p, side, from, l, rows, k, depth, to, scratch);
  }
}
