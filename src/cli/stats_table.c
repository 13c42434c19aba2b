// cli/stats_table.c: the numbers of many modules as one table.
#include "cli/stats_table.h"

#include <inttypes.h>

#include "hilo/dump_names.h"

static const char *const heads[] = {"module", "stage",   ">instr",  ">fusions", ">flops", ">bytes",
                                    ">peak",  ">params", ">consts", ">sent",    "file"};

void stats_table_begin(Table *t) {
  table_begin(t, heads, HL_COUNT_OF(heads));
}

static void put_numbers(Table *t, const Stats *s) {
  table_text(t, "%" PRId64, s->instructions);
  table_text(t, "%" PRId64, s->fusions);
  table_number(t, s->cost.flops);
  table_bytes(t, s->cost.bytes_read + s->cost.bytes_written);
  table_bytes(t, s->peak_memory);
  table_bytes(t, s->parameter_bytes);
  table_bytes(t, s->constant_bytes);
  table_bytes(t, s->cost.collective_bytes);
}

void stats_table_row(Table *t, const char *path, const char *module, const Stats *s) {
  HlArena *arena = hl_arena_new();
  const HlStage stage = hl_dump_name_read(arena, path).stage;
  hl_arena_free(arena);
  table_row(t);
  table_text(t, "%s", module);
  table_text(t, "%s", stage == HL_STAGE_OTHER ? "" : hl_stage_text(stage));
  put_numbers(t, s);
  table_text(t, "%s", path);
}

void stats_table_end(Table *t, const Stats *total, HlBuf *out) {
  table_row(t);
  table_text(t, "all %" PRId64 " module%s", total->modules, total->modules == 1 ? "" : "s");
  table_text(t, "%s", "");
  put_numbers(t, total);
  table_print(t, out);
}
