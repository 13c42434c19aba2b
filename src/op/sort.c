// op/sort.c: sort: orders lines along a dimension by a comparator, several operands together.
//
// Each line is an array of positions sorted by a stable merge sort, after which the operands are
// permuted. A comparison runs on a machine; where machines cannot run the comparator, all merges of
// a level advance together, one comparison each per call of the interpreter.

#include <string.h>

#include "base/memory.h"
#include "op/fold.h"
#include "op/machine.h"

typedef struct Sort {
  HlEval *ev;
  const HlInst *inst;
  const HlComp *comp;
  Machine *machine;  // NULL: through the interpreter
  int n_operands;
  const HlLiteral *const *in;
  int64_t n;               // length of a line
  uint32_t steps;          // merges so far
  int64_t stride;          // between its elements
  int64_t base;            // first element of the line at hand
  Cell **value;            // of each operand the comparator looks at: the line's values
  int64_t *order, *spare;  // positions
  MachineKey key;          // when has_key: the comparator compares keys of single elements
  bool has_key;
  KeyValue *keys;  // of the line
} Sort;

// --- Comparing on a machine ----------------------------------------------------------------------

static bool less(const Sort *s, int64_t a, int64_t b) {
  Machine *m = s->machine;
  for (int k = 0; k < s->n_operands; k++) {
    if (!s->value[k])
      continue;
    m->cell[2 * k] = s->value[k][a];
    m->cell[2 * k + 1] = s->value[k][b];
  }
  machine_run(m);
  return machine_result(m, 0) != 0;
}

// Fills in the keys of the line; false when the two sides of the comparator make different keys.
static bool find_keys(Sort *s) {
  Machine *m = s->machine;
  const MachineKey *key = &s->key;
  for (int64_t i = 0; i < s->n; i++) {
    base_look_often(&s->steps);
    m->cell[2 * key->operand] = m->cell[2 * key->operand + 1] = s->value[key->operand][i];
    machine_run(m);
    if (m->cell[key->a] != m->cell[key->b])
      return false;
    s->keys[i] = machine_key_value(key, m->cell[key->a]);
  }
  return true;
}

// Merges two neighbouring sorted runs; TAKE_RIGHT says whether the right head is before the left
// one.
#define MERGE(TAKE_RIGHT)                   \
  while (i < middle && j < end) {           \
    const int64_t a = from[i], b = from[j]; \
    if (TAKE_RIGHT)                         \
      to[k++] = b, j++;                     \
    else                                    \
      to[k++] = a, i++;                     \
  }
static void merge(const Sort *s, bool by_key, const int64_t *from, int64_t *to, int64_t start,
                  int64_t middle, int64_t end) {
  int64_t i = start, j = middle, k = start;
  const KeyValue *key = s->keys;
  if (!by_key)
    MERGE(less(s, b, a))
  else if (s->key.is_float && s->key.up)
    MERGE(key[b].f < key[a].f)
  else if (s->key.is_float)
    MERGE(key[b].f > key[a].f)
  else if (s->key.up)
    MERGE(key[b].i < key[a].i)
  else
    MERGE(key[b].i > key[a].i)
  memcpy(to + k, from + i, sizeof *to * (size_t)(middle - i));
  memcpy(to + k + (middle - i), from + j, sizeof *to * (size_t)(end - j));
}
#undef MERGE

static void sort_on_machine(Sort *s) {
  for (int k = 0; k < s->n_operands; k++)
    for (int64_t i = 0; s->value[k] && i < s->n; i++)
      s->value[k][i] = cell_load(s->in[k]->shape->dtype, s->in[k]->data, s->base + i * s->stride);
  const bool by_key = s->has_key && find_keys(s);
  for (int64_t width = 1; width < s->n; width *= 2) {
    for (int64_t start = 0; start < s->n; start += 2 * width) {
      base_look_often(&s->steps);
      const int64_t middle = start + width < s->n ? start + width : s->n;
      const int64_t end = middle + width < s->n ? middle + width : s->n;
      merge(s, by_key, s->order, s->spare, start, middle, end);
    }
    int64_t *sorted = s->spare;
    s->spare = s->order;
    s->order = sorted;
  }
}

// --- Comparing through the interpreter -----------------------------------------------------------

// Whether right[q] is before left[q], for n pairs of positions.
static bool compare_pairs(Sort *s, const int64_t *left, const int64_t *right, int64_t n,
                          uint8_t *out) {
  const int n_args = 2 * s->n_operands;
  HlLiteral **args = HL_ARRAY(hl_cx_scratch(s->ev->cx), HlLiteral *, n_args);
  bool ok = true;
  for (int k = 0; k < n_args && ok; k++) {
    const HlLiteral *x = s->in[k / 2];
    const int64_t *at = k % 2 == 0 ? right : left;
    const int64_t size = hl_dtype_bytes(x->shape->dtype);
    args[k] = kernel_vector(s->ev, x->shape->dtype, n);
    ok = args[k] != NULL;
    for (int64_t q = 0; ok && q < n; q++)
      memcpy((char *)args[k]->data + q * size,
             (const char *)x->data + (s->base + at[q] * s->stride) * size, (size_t)size);
  }
  HlLiteral *result = NULL;
  ok = ok && s->ev->call_scalar(s->ev, s->comp, (const HlLiteral *const *)args, n_args, &result, 1);
  if (ok)
    memcpy(out, result->data, (size_t)n);
  hl_literal_unref(result);
  for (int k = 0; k < n_args; k++)
    hl_literal_unref(args[k]);
  return ok;
}

// All merges of runs of `width` in lockstep. `head` has two cursors per merge.
static bool merge_level(Sort *s, int64_t width, int64_t *head, int64_t *pair, uint8_t *first) {
  const int64_t n_merges = (s->n + 2 * width - 1) / (2 * width);
  for (int64_t q = 0; q < n_merges; q++) {
    head[2 * q] = 2 * q * width;
    head[2 * q + 1] = 2 * q * width + width;
  }
  for (;;) {
    int64_t n = 0;
    int64_t *left = pair, *right = pair + n_merges;
    for (int64_t q = 0; q < n_merges; q++) {
      const int64_t middle = 2 * q * width + width,
                    end = middle + width < s->n ? middle + width : s->n;
      if (head[2 * q] < middle && head[2 * q + 1] < end) {
        left[n] = s->order[head[2 * q]];
        right[n++] = s->order[head[2 * q + 1]];
      }
    }
    if (n > 0 && !compare_pairs(s, left, right, n, first))
      return false;
    if (n == 0)
      break;
    n = 0;
    for (int64_t q = 0; q < n_merges; q++) {
      const int64_t middle = 2 * q * width + width,
                    end = middle + width < s->n ? middle + width : s->n;
      if (head[2 * q] < middle && head[2 * q + 1] < end) {
        const int64_t to = head[2 * q] + head[2 * q + 1] - middle;
        const bool take_right = first[n++] != 0;
        s->spare[to] = s->order[head[2 * q + (take_right ? 1 : 0)]++];
      }
    }
  }
  for (int64_t q = 0; q < n_merges; q++) {
    const int64_t middle = 2 * q * width + width < s->n ? 2 * q * width + width : s->n;
    const int64_t end = middle + width < s->n ? middle + width : s->n;
    int64_t i = head[2 * q], j = head[2 * q + 1] < end ? head[2 * q + 1] : end;
    int64_t to = i + j - middle;
    while (i < middle)
      s->spare[to++] = s->order[i++];
    while (j < end)
      s->spare[to++] = s->order[j++];
  }
  return true;
}

static bool sort_by_calls(Sort *s) {
  int64_t *head = kernel_alloc(s->ev, s->inst, 2 * s->n + 2, 2 * sizeof *head);
  uint8_t *first = head ? kernel_alloc(s->ev, s->inst, s->n + 1, 1) : NULL;
  bool ok = first != NULL;
  for (int64_t width = 1; ok && width < s->n; width *= 2) {
    HlArena *arena = hl_cx_scratch(s->ev->cx);
    const HlMark mark = hl_arena_mark(arena);
    ok = merge_level(s, width, head, head + 2 * s->n + 2, first);
    int64_t *sorted = s->spare;
    s->spare = s->order;
    s->order = sorted;
    hl_arena_release(arena, mark);
  }
  base_free(head);
  base_free(first);
  return ok;
}

// --- The kernel ----------------------------------------------------------------------------------

static bool sort_line(Sort *s, HlLiteral *out) {
  for (int64_t i = 0; i < s->n; i++)
    s->order[i] = i;
  if (s->machine)
    sort_on_machine(s);
  else if (!sort_by_calls(s))
    return false;
  for (int k = 0; k < s->n_operands; k++) {
    const HlLiteral *x = s->in[k];
    const size_t size = (size_t)hl_dtype_bytes(x->shape->dtype);
    char *to = (char *)kernel_result(out, k)->data;
    for (int64_t i = 0; i < s->n; i++) {
      base_look_often(&s->steps);
      memcpy(to + (size_t)(s->base + i * s->stride) * size,
             (const char *)x->data + (size_t)(s->base + s->order[i] * s->stride) * size, size);
    }
  }
  return true;
}

static bool sort_lines(Sort *s, int dimension, HlLiteral *out) {
  const HlShape *shape = s->in[0]->shape;
  int64_t outer = 1;
  s->stride = 1;
  for (int d = 0; d < shape->rank; d++)
    if (d < dimension)
      outer *= shape->dim[d];
    else if (d > dimension)
      s->stride *= shape->dim[d];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < s->stride; i++) {
      s->base = o * s->n * s->stride + i;
      if (!sort_line(s, out))
        return false;
    }
  return true;
}

bool eval_sort(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const int64_t dimension = hl_dim(inst);
  Sort s = {.ev = ev,
            .inst = inst,
            .comp = hl_to_apply(inst),
            .n_operands = (int)inst->n_operands,
            .in = in};
  if (s.n_operands < 1 || s.comp->n_params != 2 * s.n_operands)
    return hl_inst_error(ev->cx, inst, "sort needs a comparator of two parameters per operand");
  if (dimension < 0 || dimension >= in[0]->shape->rank)
    return hl_inst_error(ev->cx, inst, "dimension %lld is out of range", (long long)dimension);
  s.n = in[0]->shape->dim[dimension];
  s.machine = machine_new(arena, s.comp);
  s.value = HL_ARRAY(arena, Cell *, s.n_operands);
  s.has_key = s.machine && machine_find_key(arena, s.machine, &s.key);
  bool ok = true;
  for (int k = 0; k < s.n_operands && ok; k++)
    if (s.machine && (s.machine->uses[2 * k] || s.machine->uses[2 * k + 1])) {
      s.value[k] = kernel_alloc(ev, inst, s.n, sizeof(Cell));
      ok = s.value[k] != NULL;
    }
  s.keys = ok && s.has_key ? kernel_alloc(ev, inst, s.n, sizeof(KeyValue)) : NULL;
  ok = ok && (s.keys || !s.has_key);
  int64_t *order = ok ? kernel_alloc(ev, inst, s.n, 2 * sizeof *order) : NULL;
  s.order = order;
  s.spare = order + (order ? s.n : 0);
  ok = order && sort_lines(&s, (int)dimension, out);
  for (int k = 0; k < s.n_operands; k++)
    base_free(s.value[k]);
  base_free(s.keys);
  base_free(order);
  hl_arena_release(arena, mark);
  return ok;
}
