// cx.c: the context: limits, scratch memory, registered things, and the diagnostics so far.
//
// Errors and other diagnostics are stored up to limits.errors of each, so that many warnings do not
// hide an error. A note belongs to what it follows, and goes with it.

#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Entry {
  HlDiag diag;
  int64_t errors_before;  // n_errors when it was reported
} Entry;

struct HlCx {
  HlLimits limits;
  HlArena *scratch;
  Entry *entries;
  int n_entries, capacity;
  int n_stored[3];         // of each severity
  int64_t n_errors;        // all, stored or not
  HlErrorKind error_kind;  // of the first error
  bool dropped;            // the newest diagnostic was not stored
  HlArena *arena;          // of the registry
  HlSyms *keys;
  void **values;  // by index of the key
  uint32_t n_values;
  atomic_bool cancelled;
  HlPoll *poll;
  void *poll_user;
};

static const HlLimits default_limits = {
    .instructions = (int64_t)1 << 26,
    .nesting = 1000,
    .tuple_leaves = (int64_t)1 << 20,
    .literal_bytes = (int64_t)8 << 30,
    .file_bytes = (int64_t)8 << 30,
    .eval_bytes = (int64_t)64 << 30,
    .eval_steps = 0,
    .errors = 100,
    .devices = 1024,
};

HlCx *hl_cx_new(void) {
  HlCx *cx = base_alloc(sizeof *cx);  // what hangs on it is as old as this
  cx->limits = default_limits;
  if (cx->limits.eval_bytes > base_machine_memory())
    cx->limits.eval_bytes = base_machine_memory();
  cx->scratch = hl_arena_new();
  return cx;
}

void hl_cx_free(HlCx *cx) {
  if (!cx)
    return;
  hl_cx_clear(cx);
  hl_arena_free(cx->scratch);
  hl_arena_free(cx->arena);
  base_free(cx->entries);
  base_free(cx->values);
  base_free(cx);
}

HlLimits *hl_cx_limits(HlCx *cx) {
  return &cx->limits;
}

HlArena *hl_cx_scratch(HlCx *cx) {
  return cx->scratch;
}

// --- Reporting ---

static void count_error(HlCx *cx, HlErrorKind kind) {
  if (cx->n_errors++ == 0)
    cx->error_kind = kind;
}

// Whether there is room for one more of a severity; a note follows the fate of what it belongs to.
static bool has_room(const HlCx *cx, HlSeverity severity) {
  const int limit = cx->limits.errors > 1 ? cx->limits.errors : 1;
  if (severity == HL_NOTE && cx->n_entries > 0)
    return !cx->dropped && cx->n_stored[HL_NOTE] < 4 * limit;
  return cx->n_stored[severity] < limit;
}

// Stores a diagnostic, whose text, hint and source reference become the context's.
static void store(HlCx *cx, HlDiag diag) {
  if (cx->n_entries == cx->capacity) {
    const int capacity = cx->capacity ? 2 * cx->capacity : 8;
    cx->entries = base_realloc_as(cx, cx->entries, sizeof *cx->entries * (size_t)capacity);
    cx->capacity = capacity;
  }
  base_give(diag.text, cx);
  base_give(diag.hint, cx);
  base_source_give(diag.source, cx);
  cx->entries[cx->n_entries++] = (Entry){diag, cx->n_errors};
  cx->n_stored[diag.severity]++;
}

static void free_diag(HlCx *cx, HlDiag *diag) {
  base_source_unref_by(diag->source, cx);
  base_free(diag->text);
  base_free(diag->hint);
}

static void report(HlCx *cx, HlSeverity severity, HlErrorKind kind, HlPos pos, const char *format,
                   va_list args) {
  const bool room = has_room(cx, severity);
  cx->dropped = !room;
  if (room) {
    store(cx, (HlDiag){.severity = severity,
                       .kind = kind,
                       .source = hl_source_ref((HlSource *)pos.source),
                       .loc = pos.source ? pos.loc : 0,
                       .text = base_vprintf(format, args)});
  }
  if (severity == HL_ERROR)
    count_error(cx, kind);
}

bool hl_verror(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, va_list args) {
  report(cx, HL_ERROR, kind, pos, format, args);
  return false;
}

bool hl_error_kind(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_ERROR, kind, pos, format, args);
  va_end(args);
  return false;
}

bool hl_error(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_ERROR, HL_INVALID, pos, format, args);
  va_end(args);
  return false;
}

void hl_warn(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_WARNING, HL_INVALID, pos, format, args);
  va_end(args);
}

void hl_note(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_NOTE, HL_INVALID, pos, format, args);
  va_end(args);
}

void hl_hint(HlCx *cx, const char *format, ...) {
  if (cx->n_entries == 0 || cx->dropped)
    return;
  HlDiag *diag = &cx->entries[cx->n_entries - 1].diag;
  va_list args;
  va_start(args, format);
  base_free(diag->hint);
  diag->hint = NULL;
  diag->hint = base_vprintf(format, args);
  base_give(diag->hint, cx);
  va_end(args);
}

// --- What was reported ---

int hl_cx_n_diags(const HlCx *cx) {
  return cx->n_entries;
}

const HlDiag *hl_cx_diag(const HlCx *cx, int k) {
  return k >= 0 && k < cx->n_entries ? &cx->entries[k].diag : NULL;
}

int64_t hl_cx_n_errors(const HlCx *cx) {
  return cx->n_errors;
}

HlErrorKind hl_cx_error_kind(const HlCx *cx) {
  return cx->error_kind;
}

void hl_cx_clear(HlCx *cx) {
  hl_cx_forget(cx, 0);
  cx->n_errors = 0;
  cx->error_kind = 0;
  cx->dropped = false;
}

// Errors beyond the limit come after those stored, so they go too once a stored one goes.
void hl_cx_forget(HlCx *cx, int n) {
  while (cx->n_entries > (n > 0 ? n : 0)) {
    Entry *entry = &cx->entries[--cx->n_entries];
    cx->n_errors = entry->errors_before;
    cx->n_stored[entry->diag.severity]--;
    cx->dropped = false;
    free_diag(cx, &entry->diag);
  }
  if (cx->n_errors == 0)
    cx->error_kind = 0;
}

void hl_cx_merge(HlCx *cx, HlCx *from) {
  const int64_t total = cx->n_errors + from->n_errors;
  if (cx->n_errors == 0)
    cx->error_kind = from->error_kind;
  for (int k = 0; k < from->n_entries; k++) {
    HlDiag *diag = &from->entries[k].diag;
    cx->dropped = !has_room(cx, diag->severity);
    if (cx->dropped)
      continue;
    HlDiag moved = *diag;
    moved.source = hl_source_ref(diag->source);
    store(cx, moved);
    if (diag->severity == HL_ERROR)
      cx->n_errors++;
    diag->text = diag->hint = NULL;  // these have moved
  }
  cx->n_errors = total;
  hl_cx_clear(from);
}

// --- Registered things ---

void hl_cx_register(HlCx *cx, const char *key, void *value) {
  if (!cx->arena) {
    cx->arena = hl_arena_new();
    base_give(cx->arena, cx);
  }
  if (!cx->keys)
    cx->keys = hl_syms_new(cx->arena);
  const HlStr text = hl_str(key);
  const HlSym *sym = hl_syms_add(cx->keys, text.at, text.n);
  if (sym->index >= cx->n_values) {
    const uint32_t n = sym->index ? 2 * sym->index : 8;
    cx->values = base_realloc_as(cx, cx->values, n * sizeof *cx->values);
    while (cx->n_values < n)
      cx->values[cx->n_values++] = NULL;
  }
  cx->values[sym->index] = value;
}

void hl_cx_register_copy(HlCx *cx, const char *key, const void *value, size_t size) {
  hl_cx_register(cx, key, NULL);
  hl_cx_register(cx, key, hl_arena_copy(cx->arena, value, size));
}

void *hl_cx_lookup(const HlCx *cx, const char *key) {
  if (!cx->keys)
    return NULL;
  const HlStr text = hl_str(key);
  const HlSym *sym = hl_syms_find(cx->keys, text.at, text.n);
  return sym ? cx->values[sym->index] : NULL;
}

// --- Cancelling ---

void hl_cx_cancel(HlCx *cx) {
  atomic_store(&cx->cancelled, true);
}

void hl_cx_resume(HlCx *cx) {
  atomic_store(&cx->cancelled, false);
}

bool hl_cx_is_cancelled(const HlCx *cx) {
  return atomic_load_explicit(&cx->cancelled, memory_order_relaxed);
}

void hl_cx_set_poll(HlCx *cx, HlPoll *poll, void *user) {
  cx->poll = poll;
  cx->poll_user = user;
}

bool base_cx_polls(const HlCx *cx) {
  return cx->poll != NULL;
}

bool base_cx_poll(HlCx *cx) {
  if (cx->poll && cx->poll(cx->poll_user))
    hl_cx_cancel(cx);
  return hl_cx_is_cancelled(cx);
}

// --- Trying (base/try.c) ---

bool base_cx_mark(HlCx *cx, BaseCxMark *out) {
  *out = (BaseCxMark){.scratch = hl_arena_mark(cx->scratch), .n_values = cx->n_values};
  if (cx->n_values == 0)
    return true;
  const size_t size = cx->n_values * sizeof *out->values;
  out->values = malloc(size);
  if (out->values)
    memcpy(out->values, cx->values, size);
  else
    count_error(cx, HL_LIMIT);
  return out->values != NULL;
}

void base_cx_mark_free(BaseCxMark *mark) {
  free(mark->values);
}

// Whether there is room for one more diagnostic, whatever the limit says; without memory there is none.
static bool has_memory(HlCx *cx) {
  if (cx->n_entries < cx->capacity)
    return true;
  Entry *longer = base_try_realloc(cx->entries, sizeof *longer * (size_t)(cx->n_entries + 8));
  if (!longer)
    return false;
  cx->entries = longer;
  cx->capacity = cx->n_entries + 8;
  return true;
}

void base_cx_back(HlCx *cx, BaseCxMark *mark, BaseEnd end) {
  hl_arena_release(cx->scratch, mark->scratch);
  for (uint32_t k = 0; k < cx->n_values; k++)
    cx->values[k] = k < mark->n_values ? mark->values[k] : NULL;
  enum { ROOM = 120 };
  const HlErrorKind kind = end.cancelled ? HL_CANCELLED : HL_LIMIT;
  char *text = has_memory(cx) ? base_try_alloc(ROOM) : NULL;
  if (text) {
    if (end.cancelled)
      snprintf(text, ROOM, "cancelled");
    else
      snprintf(text, ROOM,
               "out of memory: the system gave no %zu bytes more (ulimit -v may allow more)",
               end.size);
    store(cx, (HlDiag){.severity = HL_ERROR, .kind = kind, .text = text});
  }
  cx->dropped = !text;
  count_error(cx, kind);
}
