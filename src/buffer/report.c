// buffer/report.c: the reports on buffer assignment, as XLA dumps them.

#include <stdlib.h>
#include <string.h>

#include "hilo/buffers.h"
#include "hilo/text.h"
#include "ir/put.h"

// --- Pieces --------------------------------------------------------------------------------------

static void print_index(HlBuf *out, const HlFlow *flow, uint32_t slot) {
  HlMark mark = hl_arena_mark(flow->arena);
  put_braced(out, hl_slot_index(flow->arena, flow, slot));
  hl_arena_release(flow->arena, mark);
}

// "<12 while.3{1} (phi) @0>"
static void print_value(HlBuf *out, const HlFlow *flow, uint32_t value) {
  const HlInst *inst = hl_value_inst(flow, value);
  hl_buf_putc(out, '<');
  hl_buf_u64(out, flow->value[value].id);
  hl_buf_putc(out, ' ');
  hl_buf_puts(out, inst->name->text);
  if (hl_shape_is_tuple(inst->shape))
    print_index(out, flow, flow->value[value].slot);
  hl_buf_puts(out, flow->value[value].is_phi ? " (phi) @0>" : " @0>");
}

// "4.8KiB", "34.17MiB".
static void print_bytes(HlBuf *out, int64_t bytes) {
  if (bytes < 1024) {
    hl_buf_printf(out, "%lldB", (long long)bytes);
    return;
  }
  static const char units[] = "KMGTPE";
  int unit = 0;
  for (; bytes >= 1024 * 1024 && unit < 5; unit++)
    bytes /= 1024;  // what is lost here XLA loses, too
  hl_buf_printf(out, unit == 0 ? "%.1f%ciB" : "%.2f%ciB", (double)bytes / 1024, units[unit]);
}

// --- -buffer-assignment.txt ----------------------------------------------------------------------

// The result of the module, if its own table is in the allocation.
static const HlInst *output_of(const HlFlow *flow, const HlAllocation *a) {
  const HlInst *root = flow->m->entry->root;
  uint32_t value = hl_value_of(flow, root);
  for (int k = 0; k < a->n_places; k++)
    if (a->place[k].value == value)
      return root;
  return NULL;
}

static void print_head(HlBuf *out, const HlFlow *flow, const HlAllocation *a, int number) {
  hl_buf_printf(out, "allocation %d: size %lld", number, (long long)a->size);
  if (hl_writes(flow->m->dialect, HL_NEWS_ALLOCATION_PAGES))
    hl_buf_puts(out, ", page 0");
  if (a->is_parameter) {
    const HlInst *parameter = flow->m->entry->params[a->parameter];
    hl_buf_printf(out, ", parameter %lld, shape |", (long long)a->parameter);
    hl_shape_print(out, hl_shape_at(parameter->shape, a->parameter_index), false);
    hl_buf_puts(out, "| at ShapeIndex ");
    print_index(out, flow, hl_slot_at(flow, parameter, a->parameter_index));
  }
  const HlInst *root = output_of(flow, a);
  if (root) {
    hl_buf_puts(out, ", output shape is |");
    hl_shape_print(out, root->shape, false);
    hl_buf_putc(out, '|');
  }
  if (a->is_constant)
    hl_buf_puts(out, ", constant");
  if (a->is_thread_local)
    hl_buf_puts(out, ", thread-local");
  if (a->live_out)
    hl_buf_puts(out, ", maybe-live-out");
  if (a->is_temp)
    hl_buf_puts(out, ", preallocated-temp");
  hl_buf_puts(out, ":\n");
}

void hl_buffers_print(HlBuf *out, const HlBuffers *buffers) {
  const HlFlow *flow = buffers->flow;
  hl_buf_puts(out, "BufferAssignment:\n");
  for (int k = 0; k < buffers->n; k++) {
    const HlAllocation *a = &buffers->allocation[k];
    print_head(out, flow, a, k);
    for (int j = 0; j < a->n_places; j++) {
      const HlPlace *place = &a->place[j];
      hl_buf_puts(out, " value: ");
      print_value(out, flow, place->value);
      hl_buf_printf(out, " (size=%lld,offset=%lld): ", (long long)place->size,
                    (long long)place->offset);
      hl_shape_print(out, hl_value_shape(flow, place->value), true);
      hl_buf_putc(out, '\n');
    }
  }
}

// --- -buffer-assignment-values.txt ---------------------------------------------------------------

static void print_uses(HlBuf *out, const HlFlow *flow, uint32_t value) {
  HlMark mark = hl_arena_mark(flow->arena);
  int n;
  const HlValueUse *use = hl_value_uses(flow->arena, flow, value, &n);
  hl_buf_puts(out, " uses:\n");
  if (n == 0)
    hl_buf_puts(out, "  (none)\n");
  for (int k = 0; k < n; k++) {
    hl_buf_printf(out, "  %s, operand %u", use[k].user->name->text, use[k].number);
    if (hl_shape_is_tuple(use[k].user->operands[use[k].number]->shape)) {
      hl_buf_putc(out, ' ');
      print_index(out, flow, use[k].slot);
    }
    hl_buf_putc(out, '\n');
  }
  hl_arena_release(flow->arena, mark);
}

static void print_value_at_length(HlCx *cx, HlBuf *out, const HlFlow *flow, uint32_t value,
                                  const HlTextOptions *options) {
  const HlValue *v = &flow->value[value];
  print_value(out, flow, value);
  hl_buf_puts(out, "\n positions:\n");
  for (uint32_t k = 0; k < v->n_positions; k++) {
    uint32_t slot = flow->position[v->first_position + k];
    const HlInst *inst = flow->slot_inst[slot];
    hl_buf_printf(out, "  %s", inst->name->text);
    if (hl_shape_is_tuple(inst->shape)) {
      hl_buf_putc(out, ' ');
      print_index(out, flow, slot);
    }
    hl_buf_putc(out, '\n');
  }
  print_uses(out, flow, value);
  hl_buf_puts(out, " from instruction: ");
  hl_text_print_inst(cx, hl_value_inst(flow, value), options, out);
  hl_buf_putc(out, '\n');
}

void hl_buffers_print_values(HlCx *cx, HlBuf *out, const HlBuffers *buffers) {
  const HlFlow *flow = buffers->flow;
  HlTextOptions options = {0};
  HlArena *arena = hl_arena_new();
  bool *used = HL_ARRAY(arena, bool, flow->n_values + 1);
  for (int k = 0; k < buffers->n; k++)
    for (int j = 0; j < buffers->allocation[k].n_places; j++)
      used[buffers->allocation[k].place[j].value] = true;
  hl_buf_printf(out, "\nTotal bytes used: %lld (", (long long)buffers->total);
  print_bytes(out, buffers->total);
  hl_buf_puts(out, ")\n\nUsed values:\n");
  for (uint32_t v = 0; v < flow->n_values; v++)
    if (used[v])
      print_value_at_length(cx, out, flow, v, &options);
  hl_arena_free(arena);
}

// --- -memory-usage-report.txt --------------------------------------------------------------------

typedef struct Shared {  // the values at one offset of an allocation
  int64_t offset, size;
  int first, n;   // in the list by offset
  uint32_t last;  // value
} Shared;

static int by_offset(const void *a, const void *b) {
  const HlPlace *x = *(HlPlace *const *)a, *y = *(HlPlace *const *)b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->value < y->value ? -1 : x->value > y->value;
}

static int by_size(const void *a, const void *b) {
  const Shared *x = a, *y = b;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  return x->last < y->last ? -1 : x->last > y->last;
}

typedef struct Counted {
  const char *shape;
  int n;
} Counted;

static int by_text(const void *a, const void *b) {
  return strcmp(((const Counted *)a)->shape, ((const Counted *)b)->shape);
}

static int by_count(const void *a, const void *b) {
  const Counted *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n ? -1 : 1) : strcmp(x->shape, y->shape);
}

// "f32[5,16], 2×f32[8]"
static void print_shapes(HlBuf *out, HlArena *arena, const HlFlow *flow, HlPlace **place, int n) {
  Counted *list = HL_ARRAY(arena, Counted, n + 1);
  HlBuf text = {0};
  for (int k = 0; k < n; k++) {
    text.n = 0;
    hl_shape_print(&text, hl_value_shape(flow, place[k]->value), false);
    list[k] = (Counted){hl_arena_strndup(arena, text.at, text.n), 1};
  }
  hl_buf_free(&text);
  qsort(list, (size_t)n, sizeof *list, by_text);
  int distinct = 0;
  for (int k = 0; k < n; k++) {
    if (distinct > 0 && strcmp(list[distinct - 1].shape, list[k].shape) == 0)
      list[distinct - 1].n++;
    else
      list[distinct++] = list[k];
  }
  qsort(list, (size_t)distinct, sizeof *list, by_count);
  for (int k = 0; k < distinct; k++) {
    hl_buf_puts(out, k > 0 ? ", " : "");
    if (list[k].n > 1)
      hl_buf_printf(out, "%d\xc3\x97", list[k].n);
    hl_buf_puts(out, list[k].shape);
  }
}

// Lists end after so many rows when what is left is small.
enum { SHOWN = 50 };

static bool is_small(int64_t rest, int64_t total) {
  return (double)rest < (double)((float)total * 0.05f);
}

// The groups of places at one offset, largest first; fills in the list by offset.
static Shared *find_shared(HlArena *arena, const HlAllocation *a, HlPlace **place, int *n) {
  Shared *shared = HL_ARRAY(arena, Shared, a->n_places + 1);
  *n = 0;
  for (int k = 0; k < a->n_places; k++)
    place[k] = &a->place[k];
  qsort(place, (size_t)a->n_places, sizeof *place, by_offset);
  for (int k = 0; k < a->n_places; k++) {
    if (*n == 0 || shared[*n - 1].offset != place[k]->offset)
      shared[(*n)++] = (Shared){.offset = place[k]->offset, .first = k};
    Shared *s = &shared[*n - 1];
    s->size = place[k]->size > s->size ? place[k]->size : s->size;
    s->n++;
    s->last = place[k]->value;
  }
  qsort(shared, (size_t)*n, sizeof *shared, by_size);
  return shared;
}

static void print_sizes(HlBuf *out, const Shared *shared, int64_t sum, int64_t total) {
  HlBuf so_far = {0}, size = {0};
  print_bytes(&so_far, sum);
  print_bytes(&size, shared->size);
  hl_buf_printf(out, "  %9s(%3.0f%%); %10s; %12lld; %16d; ", so_far.at,
                100. * (double)sum / (double)total, size.at, (long long)shared->offset, shared->n);
  hl_buf_free(&so_far);
  hl_buf_free(&size);
}

static void print_table(HlBuf *out, const HlFlow *flow, const HlAllocation *a) {
  HlArena *arena = hl_arena_new();
  HlPlace **place = HL_ARRAY(arena, HlPlace *, a->n_places + 1);
  int n;
  const Shared *shared = find_shared(arena, a, place, &n);
  int64_t total = 0, sum = 0;
  for (int k = 0; k < n; k++)
    total += shared[k].size;
  hl_buf_puts(out, "  cumulative_size;       size;       offset; used_by_n_values; shapes_list\n"
                   "  ------------------------------------------------------------\n");
  for (int k = 0; k < n; k++) {
    sum += shared[k].size;
    print_sizes(out, &shared[k], sum, total);
    print_shapes(out, arena, flow, place + shared[k].first, shared[k].n);
    hl_buf_putc(out, '\n');
    if (k >= SHOWN && is_small(total - sum, total)) {
      hl_buf_printf(out,
                    "  The rest %d values are less than 5%% of the total size and not shown.\n",
                    n - k - 1);
      break;
    }
  }
  hl_buf_putc(out, '\n');
  hl_arena_free(arena);
}

typedef struct Sized {
  int64_t size;
  int number;
} Sized;

static int by_allocation(const void *a, const void *b) {
  const Sized *x = a, *y = b;
  if (x->size != y->size)
    return x->size > y->size ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

int *hl_buffers_by_size(HlArena *arena, const HlBuffers *buffers) {
  Sized *list = HL_ARRAY(arena, Sized, buffers->n + 1);
  int *numbers = HL_ARRAY(arena, int, buffers->n + 1);
  for (int k = 0; k < buffers->n; k++)
    list[k] = (Sized){buffers->allocation[k].size, k};
  qsort(list, (size_t)buffers->n, sizeof *list, by_allocation);
  for (int k = 0; k < buffers->n; k++)
    numbers[k] = list[k].number;
  return numbers;
}

void hl_buffers_print_table(HlBuf *out, const HlBuffers *buffers, int allocation) {
  print_table(out, buffers->flow, &buffers->allocation[allocation]);
}

void hl_buffers_print_usage(HlBuf *out, const HlBuffers *buffers) {
  hl_buf_printf(out, "Memory Space: default (color=0)\nTotal bytes: %lld (",
                (long long)buffers->total);
  print_bytes(out, buffers->total);
  hl_buf_puts(out, ")\n");
  HlArena *arena = hl_arena_new();
  const int *list = hl_buffers_by_size(arena, buffers);
  int64_t sum = 0;
  for (int k = 0; k < buffers->n; k++) {
    print_table(out, buffers->flow, &buffers->allocation[list[k]]);
    sum += buffers->allocation[list[k]].size;
    if (k >= SHOWN && is_small(buffers->total - sum, buffers->total))
      break;
  }
  hl_buf_putc(out, '\n');
  hl_arena_free(arena);
}
