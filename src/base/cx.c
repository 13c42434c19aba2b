// cx.c: the context: limits, scratch memory, registered things, and the diagnostics so far.
//
// Errors and other diagnostics are stored up to limits.errors of each, so that many warnings do not
// hide an error; a warning that has been given before is counted, not stored again. A note belongs to what it follows, and goes
// with it; but for outcomes, which stand for themselves.

#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Entry {
  HlDiag diag;
  bool is_outcome;        // of a note: it belongs to nothing
  int64_t errors_before;  // n_errors when it was reported,
  int64_t lost_before[3];
} Entry;

struct HlCx {
  HlLimits limits;
  HlArena *scratch;
  Entry *entries;
  int n_entries, capacity;
  int n_stored[3];         // of each severity
  int n_outcomes;          // of these
  int64_t n_lost[3];       // of each severity, not stored
  int64_t n_errors;        // all, stored or not
  HlErrorKind error_kind;  // of the first error
  bool dropped;            // the newest diagnostic was not stored,
  bool known;              // for it is one that is, or belongs to it
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

// Whose fate a diagnostic shares.
typedef enum Standing { STANDS_ALONE, FOLLOWS, IS_OUTCOME, IS_CONCLUSION } Standing;

// Whether there is room for one more; a note follows the fate of what it belongs to.
static bool has_room(const HlCx *cx, HlSeverity severity, Standing standing) {
  const int limit = cx->limits.errors > 1 ? cx->limits.errors : 1;
  if (standing >= IS_OUTCOME)
    return standing == IS_CONCLUSION || cx->n_outcomes < 4 * limit;
  if (standing == FOLLOWS && cx->n_entries > 0)
    return !cx->dropped && cx->n_stored[HL_NOTE] - cx->n_outcomes < 4 * limit;
  return cx->n_stored[severity] < limit;
}

// Stores a diagnostic, whose text, hint and source reference become the context's.
static void store(HlCx *cx, HlDiag diag, Standing standing) {
  if (cx->n_entries == cx->capacity) {
    const int capacity = cx->capacity ? 2 * cx->capacity : 8;
    cx->entries = base_realloc_as(cx, cx->entries, sizeof *cx->entries * (size_t)capacity);
    cx->capacity = capacity;
  }
  base_give(diag.text, cx);
  base_give(diag.hint, cx);
  base_source_give(diag.source, cx);
  Entry *entry = &cx->entries[cx->n_entries++];
  *entry =
      (Entry){.diag = diag, .is_outcome = standing >= IS_OUTCOME, .errors_before = cx->n_errors};
  memcpy(entry->lost_before, cx->n_lost, sizeof cx->n_lost);
  cx->n_stored[diag.severity]++;
  cx->n_outcomes += entry->is_outcome;
}

static void free_diag(HlCx *cx, HlDiag *diag) {
  base_source_unref_by(diag->source, cx);
  base_free(diag->text);
  base_free(diag->hint);
}

// What has been reported before in the same words of the same place: a warning at any time, an outcome just now, for what a
// program prints has an order. NULL: nothing, or it is to be seen each time.
static HlDiag *find_equal(const HlCx *cx, const HlDiag *diag, Standing standing) {
  if (diag->severity != HL_WARNING && standing < IS_OUTCOME)
    return NULL;
  const int last = standing >= IS_OUTCOME && cx->n_entries > 0 ? cx->n_entries - 1 : 0;
  for (int k = cx->n_entries; k-- > last;) {
    HlDiag *before = &cx->entries[k].diag;
    if (before->severity == diag->severity && before->loc == diag->loc &&
        before->source == diag->source && cx->entries[k].is_outcome == (standing >= IS_OUTCOME) &&
        strcmp(before->text, diag->text) == 0)
      return before;
  }
  return NULL;
}

// Errors that are not stored need no text.
static void report(HlCx *cx, HlSeverity severity, Standing standing, HlErrorKind kind, HlPos pos,
                   const char *format, va_list args) {
  const bool room = has_room(cx, severity, standing);
  HlDiag diag = {.severity = severity,
                 .kind = kind,
                 .source = (HlSource *)pos.source,
                 .loc = pos.source ? pos.loc : 0,
                 .times = 1};
  if (room || severity == HL_WARNING || standing >= IS_OUTCOME)
    diag.text = base_vprintf(format, args);
  HlDiag *before = diag.text ? find_equal(cx, &diag, standing) : NULL;
  cx->known = before || (standing == FOLLOWS && cx->dropped && cx->known);
  cx->dropped = before || !room;
  if (before)
    before->times++;
  else if (!room && !cx->known)
    cx->n_lost[severity]++;
  if (cx->dropped) {
    base_free(diag.text);
  } else {
    hl_source_ref(diag.source);
    store(cx, diag, standing);
  }
  if (severity == HL_ERROR)
    count_error(cx, kind);
}

bool hl_verror(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, va_list args) {
  report(cx, HL_ERROR, STANDS_ALONE, kind, pos, format, args);
  return false;
}

bool hl_error_kind(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_ERROR, STANDS_ALONE, kind, pos, format, args);
  va_end(args);
  return false;
}

bool hl_error(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_ERROR, STANDS_ALONE, HL_INVALID, pos, format, args);
  va_end(args);
  return false;
}

void hl_warn(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_WARNING, STANDS_ALONE, HL_INVALID, pos, format, args);
  va_end(args);
}

void hl_note(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_NOTE, FOLLOWS, HL_INVALID, pos, format, args);
  va_end(args);
}

void hl_tell(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_NOTE, IS_OUTCOME, HL_INVALID, pos, format, args);
  va_end(args);
}

void hl_conclude(HlCx *cx, HlPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(cx, HL_NOTE, IS_CONCLUSION, HL_INVALID, pos, format, args);
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

int64_t hl_cx_n_lost(const HlCx *cx, HlSeverity severity) {
  return cx->n_lost[severity];
}

HlErrorKind hl_cx_error_kind(const HlCx *cx) {
  return cx->error_kind;
}

void hl_cx_clear(HlCx *cx) {
  hl_cx_forget(cx, 0);
  cx->n_errors = 0;
  memset(cx->n_lost, 0, sizeof cx->n_lost);
  cx->error_kind = 0;
  cx->dropped = cx->known = false;
}

// Errors beyond the limit come after those stored, so they go too once a stored one goes.
void hl_cx_forget(HlCx *cx, int n) {
  while (cx->n_entries > (n > 0 ? n : 0)) {
    Entry *entry = &cx->entries[--cx->n_entries];
    cx->n_errors = entry->errors_before;
    memcpy(cx->n_lost, entry->lost_before, sizeof cx->n_lost);
    cx->n_stored[entry->diag.severity]--;
    cx->n_outcomes -= entry->is_outcome;
    cx->dropped = false;
    free_diag(cx, &entry->diag);
  }
  if (cx->n_errors == 0)
    cx->error_kind = 0;
}

// A diagnostic of another context, whose text and hint go over where there is room for it.
static void take_over(HlCx *cx, Entry *entry) {
  HlDiag *diag = &entry->diag;
  const Standing standing = entry->is_outcome           ? IS_CONCLUSION
                            : diag->severity == HL_NOTE ? FOLLOWS
                                                        : STANDS_ALONE;
  HlDiag *before = find_equal(cx, diag, standing);
  cx->known = before || (standing == FOLLOWS && cx->dropped && cx->known);
  cx->dropped = before || !has_room(cx, diag->severity, standing);
  if (before)
    before->times += diag->times;
  else if (cx->dropped && !cx->known)
    cx->n_lost[diag->severity] += diag->times;
  if (cx->dropped)
    return;
  HlDiag moved = *diag;
  moved.source = hl_source_ref(diag->source);
  store(cx, moved, standing);
  if (diag->severity == HL_ERROR)
    cx->n_errors++;
  diag->text = diag->hint = NULL;  // these have moved
}

void hl_cx_merge(HlCx *cx, HlCx *from) {
  const int64_t total = cx->n_errors + from->n_errors;
  if (cx->n_errors == 0)
    cx->error_kind = from->error_kind;
  for (int k = 0; k < from->n_entries; k++)
    take_over(cx, &from->entries[k]);
  for (int k = 0; k < HL_COUNT_OF(cx->n_lost); k++)
    cx->n_lost[k] += from->n_lost[k];
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
    store(cx, (HlDiag){.severity = HL_ERROR, .kind = kind, .text = text, .times = 1}, STANDS_ALONE);
  }
  cx->dropped = !text;
  count_error(cx, kind);
}
