// tool/dump_usage.c: the memory usage report as XLA's message: allocations by falling size, what they add up to,
// the values in each and the table that the text has.

#include "proto/wire.h"
#include "proto/xla.pb-c.h"
#include "tool/dump.h"

static void put_allocation(const HlBuffers *buffers, int number, int64_t sum, HlBuf *out) {
  const HlAllocation *a = &buffers->allocation[number];
  Xla__MemoryUsageAllocation message = XLA__MEMORY_USAGE_ALLOCATION__INIT;
  HlArena *arena = hl_arena_new();
  message.index = number;
  message.size = a->size;
  message.cumulative_size = sum;
  message.cumulative_fraction = buffers->total > 0 ? (double)sum / (double)buffers->total : 0;
  message.values = HL_ARRAY(arena, char *, a->n_places + 1);
  for (int k = 0; k < a->n_places; k++)
    message.values[message.n_values++] =
        (char *)hl_value_inst(buffers->flow, a->place[k].value)->name->text;
  HlBuf table = {0};
  hl_buffers_print_table(&table, buffers, number);
  message.table = hl_arena_strndup(arena, table.at, table.n > 0 ? table.n - 1 : 0);
  wire_put_message(out, 3, &message.base);
  hl_buf_free(&table);
  hl_arena_free(arena);
}

void dump_usage_message(const HlBuffers *buffers, HlBuf *out) {
  Xla__MemoryUsageSpace space = XLA__MEMORY_USAGE_SPACE__INIT;
  HlArena *arena = hl_arena_new();
  const int *order = hl_buffers_by_size(arena, buffers);
  int64_t sum = 0;
  HlBuf bytes = {0};
  space.total_bytes = buffers->total;
  wire_put_packed(&bytes, &space.base);
  for (int k = 0; k < buffers->n; k++) {
    sum += buffers->allocation[order[k]].size;
    put_allocation(buffers, order[k], sum, &bytes);
  }
  wire_put_bytes(out, 1, bytes.at, bytes.n);
  hl_buf_free(&bytes);
  hl_arena_free(arena);
}
