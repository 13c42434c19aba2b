// tool/view_marks.c: what a comparison found, as colours of a page.
#include "tool/view_marks.h"

static HlMarkKind kind_of(HlVerdict verdict, bool before) {
  switch (verdict) {
  case HL_DIFF_CHANGED: return HL_MARK_CHANGED;
  case HL_DIFF_MOVED: return HL_MARK_MOVED;
  case HL_DIFF_FUSED: return HL_MARK_FUSED;
  case HL_DIFF_FOLDED: return HL_MARK_FOLDED;
  case HL_DIFF_INLINED: return HL_MARK_INLINED;
  case HL_DIFF_REMOVED: return before ? HL_MARK_GONE : HL_MARK_NONE;
  case HL_DIFF_ADDED: return before ? HL_MARK_NONE : HL_MARK_NEW;
  default: return HL_MARK_NONE;
  }
}

static void add(HlArena *arena, HlViewMark *marks, int *n, HlMarkKind kind, const HlInst *inst,
                const HlInst *partner, const char *note) {
  if (kind == HL_MARK_NONE || !inst)
    return;
  marks[(*n)++] = (HlViewMark){
      .kind = kind,
      .inst = hl_arena_printf(arena, "%s", inst->name->text),
      .comp = hl_arena_printf(arena, "%s", inst->comp->name->text),
      .partner = partner ? hl_arena_printf(arena, "%s", partner->name->text) : NULL,
      .note = note && *note ? hl_arena_printf(arena, "%s", note) : NULL};
}

void view_marks_of_diff(HlArena *arena, const HlDiff *diff, HlViewMark **in_before, int *n_before,
                        HlViewMark **in_after, int *n_after) {
  *in_before = HL_ARRAY(arena, HlViewMark, diff->n_rows + 1);
  *in_after = HL_ARRAY(arena, HlViewMark, diff->n_rows + 1);
  *n_before = *n_after = 0;
  for (int k = 0; k < diff->n_rows; k++) {
    const HlDiffRow *row = &diff->row[k];
    const HlInst *there = row->b ? row->b : row->into;
    add(arena, *in_before, n_before, kind_of(row->verdict, true), row->a, there, row->detail);
    add(arena, *in_after, n_after, kind_of(row->verdict, false), row->b, row->a, row->detail);
  }
}
