// sim/run/where.c: where the time of a run goes: exposed exchanges by kind and line, and the longest chain of steps.

#include <stdlib.h>
#include <string.h>

#include "sim/run/run.h"

static int by_exposed(const void *a, const void *b) {
  const HlExposed *x = a, *y = b;
  if (x->exposed != y->exposed)
    return x->exposed > y->exposed ? -1 : 1;
  const int words = strcmp(x->what, y->what);
  return words ? words : x->line - y->line;
}

static HlExposed *row_of(HlExposed *rows, int *n, const char *what, int line) {
  for (int k = 0; k < *n; k++)
    if (rows[k].line == line && strcmp(rows[k].what, what) == 0)
      return &rows[k];
  rows[*n] = (HlExposed){.what = what, .line = line};
  return &rows[(*n)++];
}

static int add_up(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run, bool by_line,
                  HlExposed **out) {
  int n = 0, most = 0;
  for (int k = 0; k < p->n_steps; k++)
    most += p->step[k].kind == HL_STEP_EXCHANGE;
  HlExposed *rows = HL_ARRAY(arena, HlExposed, most + 1);
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    if (step->kind != HL_STEP_EXCHANGE)
      continue;
    HlExposed *row = by_line
                         ? row_of(rows, &n, step->file ? step->file : "", step->line)
                         : row_of(rows, &n, hl_exchange_text(p->exchange[step->exchange].kind), 0);
    const int64_t times = step->times < 0x1p62 ? (int64_t)(step->times + 0.5) : INT64_MAX;
    row->count = times < INT64_MAX - row->count ? row->count + times : INT64_MAX;
    row->bytes += step->times * p->exchange[step->exchange].bytes;
    row->exposed += run->step[k].exposed;
    row->waiting += run->step[k].waiting;
    row->busy += run->step[k].busy;
  }
  qsort(rows, (size_t)n, sizeof *rows, by_exposed);
  *out = rows;
  return n;
}

int hl_exposed_by_kind(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run,
                       HlExposed **out) {
  return add_up(arena, p, run, false, out);
}

int hl_exposed_by_line(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run,
                       HlExposed **out) {
  return add_up(arena, p, run, true, out);
}

// Of the device that was kept: whatever occupied it, and where it stood still the exchange that it stood still for.
int hl_critical_path(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run,
                     HlPathPart **out) {
  HlPathPart *part = HL_ARRAY(arena, HlPathPart, p->n_steps + 1);
  int n = 0;
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    const double seconds = run->step[k].end - run->step[k].begin;
    if (seconds <= 0 || (step->kind != HL_STEP_WAIT && step->stream))
      continue;
    part[n++] = (HlPathPart){step->kind == HL_STEP_WAIT ? step->waits : k, seconds};
  }
  *out = part;
  return n;
}
