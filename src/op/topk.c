// op/topk.c: the k largest (or smallest) elements of each last-dimension line, and where.
//
// Floats are compared in total order, equal elements by lower index. A heap of the k best so far
// has the worst of them on top.

#include <string.h>

#include "base/memory.h"
#include "op/fold.h"

typedef struct Entry {
  int64_t key;  // larger is better
  int64_t index;
} Entry;

static int64_t key_of(HlDtype dtype, const void *data, int64_t at, bool largest) {
  const Slot value = slot_load(dtype, data, at);
  int64_t key = value.i;
  if (hl_is_float(dtype) && key < 0)
    key ^= INT64_MAX;  // the bits of the double, ordered
  if (dtype == HL_U64)
    key ^= INT64_MIN;
  return largest ? key : ~key;
}

static bool better(const Entry *a, const Entry *b) {
  return a->key != b->key ? a->key > b->key : a->index < b->index;
}

static void sift_down(Entry *heap, int64_t n, int64_t at) {
  const Entry moved = heap[at];
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && better(&heap[child], &heap[child + 1]))
      child++;
    if (!better(&moved, &heap[child]))
      break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

// Leaves the k best of a line in heap[0..k-1], best first.
static void select_line(HlDtype dtype, const void *data, int64_t base, int64_t n, int64_t k,
                        bool largest, Entry *heap) {
  for (int64_t i = 0; i < k; i++)
    heap[i] = (Entry){key_of(dtype, data, base + i, largest), i};
  for (int64_t i = k / 2 - 1; i >= 0; i--)
    sift_down(heap, k, i);
  for (int64_t i = k; i < n; i++) {
    const Entry entry = {key_of(dtype, data, base + i, largest), i};
    if (better(&entry, &heap[0])) {
      heap[0] = entry;
      sift_down(heap, k, 0);
    }
  }
  for (int64_t last = k - 1; last > 0; last--) {
    const Entry worst = heap[0];
    heap[0] = heap[last];
    heap[last] = worst;
    sift_down(heap, last, 0);
  }
}

bool eval_topk(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlShape *shape = in[0]->shape;
  const HlDtype dtype = shape->dtype;
  if (hl_is_complex(dtype) || shape->rank == 0 || !hl_shape_is_tuple(out->shape))
    return kernel_no_type(ev, inst, dtype);
  HlLiteral *values = out->element[0], *indices = out->element[1];
  const int64_t n = shape->dim[shape->rank - 1], k = values->shape->dim[values->shape->rank - 1];
  const size_t size = (size_t)hl_dtype_bytes(dtype);
  const bool largest = !hl_has_attr(inst, HL_A_LARGEST) || hl_attr_int(inst, HL_A_LARGEST) != 0;
  if (k > n)
    return hl_inst_error(ev->cx, inst, "k is %lld but a line has %lld elements", (long long)k,
                         (long long)n);
  Entry *heap = kernel_alloc(ev, inst, k, sizeof *heap);
  if (!heap)
    return false;
  for (int64_t line = 0; k > 0 && line < values->n / k; line++) {
    base_look();
    select_line(dtype, in[0]->data, line * n, n, k, largest, heap);
    for (int64_t i = 0; i < k; i++) {
      memcpy((char *)values->data + (size_t)(line * k + i) * size,
             (const char *)in[0]->data + (size_t)(line * n + heap[i].index) * size, size);
      hl_literal_set_i64(indices, line * k + i, heap[i].index);
    }
  }
  base_free(heap);
  return true;
}
