// cpu/sort/merge.c: sorting by a comparator that is no chain of keys.

#include "cpu/sort/merge.h"

#include <string.h>

static bool less(const SortMerge *s, uint32_t a, uint32_t b) {
  Machine *m = s->machine;
  for (int k = 0; k < s->n_operands; k++) {
    if (m->uses[2 * k])
      m->cell[2 * k] = cell_load(s->dtype[k], s->base[k], a * s->stride[k]);
    if (m->uses[2 * k + 1])
      m->cell[2 * k + 1] = cell_load(s->dtype[k], s->base[k], b * s->stride[k]);
  }
  machine_run(m);
  return (uint8_t)machine_result(m, 0) != 0;
}

static int64_t min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

void sort_merge_runs(const SortMerge *m, int64_t first, int64_t width, const uint32_t *from,
                     uint32_t *to) {
  const int64_t middle = min(first + width, m->n), end = min(middle + width, m->n);
  int64_t i = first, j = middle, k = first;
  while (i < middle && j < end)
    to[k++] = less(m, from[j], from[i]) ? from[j++] : from[i++];
  memcpy(to + k, from + i, sizeof *to * (size_t)(middle - i));
  memcpy(to + k + (middle - i), from + j, sizeof *to * (size_t)(end - j));
}

void sort_by_merging(const SortMerge *m, int64_t first, int64_t end, uint32_t *order,
                     uint32_t *spare) {
  uint32_t *from = order, *to = spare;
  for (int64_t k = first; k < end; k++)
    order[k] = (uint32_t)k;
  for (int64_t width = 1; width < end - first; width *= 2) {
    for (int64_t run = first; run < end; run += 2 * width)
      sort_merge_runs(m, run, width, from, to);
    uint32_t *sorted = to;
    to = from;
    from = sorted;
  }
  if (from != order)
    memcpy(order + first, from + first, sizeof *order * (size_t)(end - first));
}
