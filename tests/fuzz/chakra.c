// Fuzzes the reader of Chakra's traces, of one rank or of two that do the same: what is read runs, is written again and reads back as
// the same number of steps.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hilo/chakra.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char folder[64];

static void remove_folder(void) {
  char path[128];
  for (int rank = 0; rank < 2; rank++) {
    snprintf(path, sizeof path, "%s/t.%d.et", folder, rank);
    unlink(path);
  }
  rmdir(folder);
}

static void write_rank(int rank, const void *bytes, size_t n) {
  char path[128];
  snprintf(path, sizeof path, "%s/t.%d.et", folder, rank);
  unlink(path);
  FILE *file = n > 0 ? fopen(path, "wb") : NULL;
  if (file) {
    fwrite(bytes, 1, n, file);
    fclose(file);
  }
}

static void run(HlCx *cx, HlArena *arena, const HlClusterProgram *p) {
  const HlSystem *s = hl_system_find(cx, arena, "h100");
  HlClusterRun r;
  HlBuf out = {0};
  assert(s);
  if (p->devices <= 2 && hl_cluster_run(cx, arena, p, s, &(HlClusterOptions){0}, &r)) {
    HlExposed *rows;
    HlPathPart *parts;
    hl_exposed_by_kind(arena, p, &r, &rows);
    hl_exposed_by_line(arena, p, &r, &rows);
    hl_critical_path(arena, p, &r, &parts);
    hl_cluster_perfetto(p, &r, &out);
  }
  out.n = 0;
  hl_cx_clear(cx);
  for (int64_t rank = 0; rank < p->devices && rank < 2; rank++) {
    out.n = 0;
    if (hl_chakra_write(cx, p, rank, NULL, &out))
      write_rank((int)rank, out.at, out.n);
  }
  hl_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char prefix[80];
  if (!*folder) {
    const char *where = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/chakra-XXXXXX", where && *where ? where : "/tmp");
    if (!mkdtemp(folder))
      abort();
    atexit(remove_folder);
  }
  snprintf(prefix, sizeof prefix, "%s/t", folder);
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  write_rank(0, data, n);
  write_rank(1, data, n % 2 ? n : 0);
  const HlClusterProgram *p = hl_chakra_read(cx, arena, prefix, NULL, hl_target_find("h100"));
  assert((p == NULL) == (hl_cx_n_errors(cx) > 0));
  if (p && p->devices <= 2) {
    run(cx, arena, p);
    const HlClusterProgram *again =
        hl_chakra_read(cx, arena, prefix, NULL, hl_target_find("h100"));
    assert(!again || again->n_exchanges == p->n_exchanges);
  }
  hl_arena_free(arena);
  hl_cx_free(cx);
  return 0;
}
