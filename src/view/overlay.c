// view/overlay.c: marks of instructions from JSON (docs/view.md, "Overlays"), made by `hilo diff` or any program.
//
//   {"overlay": 1, "before": [MARK, ...], "after": [MARK, ...]}
//   MARK: {"instruction": "add.3", "computation": "main", "change": "changed", "partner": "add.7", "note": "another shape"}
//
// Of a mark `instruction` and `change` are wanted; words of `change` are hl_mark_word's.

#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/view.h"

typedef struct Reader {
  HlCx *cx;
  HlArena *arena;
  HlSource *source;
} Reader;

static bool bad(const Reader *r, const char *side, size_t k, const char *what) {
  return hl_error(r->cx, (HlPos){r->source, 0}, "mark %zu of '%s' %s", k, side, what);
}

static const char *copy_of(const Reader *r, const json_t *mark, const char *key) {
  const char *text = json_string_value(json_object_get(mark, key));
  return text ? hl_arena_printf(r->arena, "%s", text) : NULL;
}

static HlMarkKind kind_of(const char *word) {
  for (int k = 1; word && k < HL_MARK_COUNT; k++)
    if (strcmp(word, hl_mark_word((HlMarkKind)k)) == 0)
      return (HlMarkKind)k;
  return HL_MARK_NONE;
}

static bool read_mark(const Reader *r, const char *side, size_t k, const json_t *mark,
                      HlViewMark *out) {
  if (!json_is_object(mark))
    return bad(r, side, k, "is no object");
  *out = (HlViewMark){.kind = kind_of(json_string_value(json_object_get(mark, "change"))),
                      .inst = copy_of(r, mark, "instruction"),
                      .comp = copy_of(r, mark, "computation"),
                      .partner = copy_of(r, mark, "partner"),
                      .note = copy_of(r, mark, "note")};
  if (!out->inst)
    return bad(r, side, k, "names no 'instruction'");
  if (out->kind == HL_MARK_NONE)
    return bad(r, side, k,
               "has no 'change' that is changed, moved, new, gone, fused, folded or inlined");
  return true;
}

static bool read_side(const Reader *r, const json_t *root, const char *side, HlViewMark **marks,
                      int *n) {
  const json_t *list = json_object_get(root, side);
  *marks = NULL;
  *n = 0;
  if (!list)
    return true;
  if (!json_is_array(list))
    return hl_error(r->cx, (HlPos){r->source, 0}, "'%s' of an overlay is a list of marks", side);
  const size_t size = json_array_size(list);
  *marks = HL_ARRAY(r->arena, HlViewMark, size + 1);
  for (size_t k = 0; k < size; k++)
    if (!read_mark(r, side, k, json_array_get(list, k), &(*marks)[(*n)++]))
      return false;
  return true;
}

static void let_go(void *root) {
  json_decref(root);
}

bool hl_view_read_overlay(HlCx *cx, HlArena *arena, HlSource *source, HlViewMark **in_before,
                          int *n_before, HlViewMark **in_after, int *n_after) {
  const Reader r = {cx, arena, source};
  const HlStr bytes = hl_source_bytes(source);
  json_error_t error;
  json_t *root = json_loadb(bytes.at, bytes.n, 0, &error);
  if (!root)
    return hl_error(cx, (HlPos){source, (HlLoc)(error.position > 0 ? error.position : 0)},
                    "an overlay is JSON: %s", error.text);
  base_hold(root, let_go);
  const bool known = json_integer_value(json_object_get(root, "overlay")) == 1;
  bool ok =
      known || hl_error(cx, (HlPos){source, 0}, "this is no overlay: expected \"overlay\": 1");
  ok = ok && read_side(&r, root, "before", in_before, n_before) &&
       read_side(&r, root, "after", in_after, n_after);
  base_drop(root);
  json_decref(root);
  return ok;
}
