// tool/dumps/clean_journal.c: the journal of a run of cleaning, which is its report, too.
//
//   {"hilo-clean": 1, "how": "names metadata"}
//   {"file": "dump/a.txt", "size": 812, "mtime": 1732713..., "of_file": 1, "state": "kept", "module": "jit_f", "index": 0, ...}

#include "tool/dumps/clean_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "tool/json.h"

static const char *const states[] = {"kept", "duplicate", "no module", "unreadable"};

static uint64_t key_of(const char *file) {
  return hl_hash_bytes(file, strlen(file), 13) | 1;
}

static bool failed(HlCx *cx, const CleanJournal *j, const char *what) {
  return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot %s %s: %s", what, j->path,
                       strerror(errno));
}

// --- Reading ------------------------------------------------------------------------------------

static const char *text_at(HlArena *arena, const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text && *text ? hl_arena_strndup(arena, text, strlen(text)) : "";
}

static int64_t int_at(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

static bool state_at(const json_t *object, HlCleanState *out) {
  const char *text = json_string_value(json_object_get(object, "state"));
  for (int k = 0; text && k < HL_COUNT_OF(states); k++)
    if (strcmp(text, states[k]) == 0) {
      *out = (HlCleanState)k;
      return true;
    }
  return false;
}

static bool read_entry(HlArena *arena, const json_t *object, CleanEntry *out) {
  const char *hash = json_string_value(json_object_get(object, "hash"));
  *out = (CleanEntry){.size = int_at(object, "size"),
                      .mtime = int_at(object, "mtime"),
                      .bytes = int_at(object, "bytes"),
                      .n = (int)int_at(object, "of_file")};
  out->what = (HlCleaned){.file = text_at(arena, object, "file"),
                          .module = text_at(arena, object, "module"),
                          .index = (int)int_at(object, "index"),
                          .out = text_at(arena, object, "out"),
                          .of = text_at(arena, object, "of"),
                          .why = text_at(arena, object, "why"),
                          .hash = hash ? strtoull(hash, NULL, 16) : 0,
                          .instructions = int_at(object, "instructions"),
                          .elided = int_at(object, "elided"),
                          .is_old = true};
  return state_at(object, &out->what.state) && *out->what.file && out->n > 0;
}

static bool damaged(HlCx *cx, const CleanJournal *j, int line) {
  return hl_error(cx, (HlPos){0},
                  "%s: line %d is no line of a journal; remove the file to begin anew", j->path,
                  line);
}

// The entries of a file stand together and were added together: what a crash left of them does not count.
static bool take_line(HlCx *cx, CleanJournal *j, int number, const json_t *object, int64_t end,
                      int *missing) {
  CleanEntry entry;
  if (!read_entry(j->arena, object, &entry))
    return damaged(cx, j, number);
  if (*missing == 0)
    *missing = entry.n;
  vec_push_in(j->arena, &j->old, entry);
  if (--*missing > 0)
    return true;
  *map_at(&j->by_file, key_of(entry.what.file)) = 1 + (uint64_t)(j->old.n - entry.n);
  j->end = end;
  return true;
}

static bool check_head(HlCx *cx, const CleanJournal *j, const json_t *object, const char *how) {
  const char *was = json_string_value(json_object_get(object, "how"));
  if (int_at(object, "hilo-clean") != 1 || !was)
    return damaged(cx, j, 1);
  if (strcmp(was, how) != 0)
    return hl_error(
        cx, (HlPos){0},
        "%s was begun with other options ('%s', now '%s'); expected the same, or another folder",
        j->path, was, how);
  return true;
}

static void let_go_object(void *object) {
  json_decref(object);
}

static bool read_lines(HlCx *cx, CleanJournal *j, HlStr text, const char *how) {
  int number = 0, missing = 0;
  for (size_t at = 0; at < text.n;) {
    const char *newline = memchr(text.at + at, '\n', text.n - at);
    if (!newline)
      break;
    const size_t n = (size_t)(newline - text.at) - at;
    json_error_t error;
    json_t *object = json_loadb(text.at + at, n, 0, &error);
    at += n + 1;
    number++;
    base_hold(object, let_go_object);
    const bool ok = !object       ? damaged(cx, j, number)
                    : number == 1 ? check_head(cx, j, object, how)
                                  : take_line(cx, j, number, object, (int64_t)at, &missing);
    base_drop(object);
    json_decref(object);
    if (!ok)
      return false;
    if (number == 1)
      j->end = (int64_t)at;
  }
  return true;
}

static bool read_all(HlCx *cx, CleanJournal *j, const char *how) {
  struct stat st;
  if (fstat(j->fd, &st) != 0)
    return failed(cx, j, "read");
  HlBuf text = {0};
  hl_buf_grow(&text, (size_t)st.st_size);
  for (ssize_t n;
       (n = pread(j->fd, text.at + text.n, (size_t)st.st_size - text.n, (off_t)text.n)) > 0;)
    text.n += (size_t)n;
  bool ok = (int64_t)text.n == st.st_size || failed(cx, j, "read");
  ok = ok && read_lines(cx, j, (HlStr){text.at, text.n}, how);
  hl_buf_free(&text);
  return ok && (ftruncate(j->fd, (off_t)j->end) == 0 || failed(cx, j, "write"));
}

// --- Writing ------------------------------------------------------------------------------------

static bool add_bytes(HlCx *cx, CleanJournal *j, const HlBuf *bytes) {
  for (size_t done = 0; done < bytes->n;) {
    const ssize_t n =
        pwrite(j->fd, bytes->at + done, bytes->n - done, (off_t)(j->end + (int64_t)done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      const int code = n < 0 ? errno : ENOSPC;
      if (ftruncate(j->fd, (off_t)j->end) != 0)
        errno = code;
      errno = code;
      return failed(cx, j, "write");
    }
    done += (size_t)n;
  }
  j->end += (int64_t)bytes->n;
  return true;
}

void clean_json(HlBuf *out, const HlCleaned *one) {
  char hash[24];
  snprintf(hash, sizeof hash, "%016" PRIx64, one->hash);
  json_text(out, "file", one->file);
  json_text(out, "state", states[one->state]);
  json_text(out, "module", one->module);
  json_int(out, "index", one->index);
  json_text(out, "out", one->out);
  json_text(out, "of", one->of);
  json_text(out, "why", one->why);
  json_text(out, "hash", hash);
  json_int(out, "instructions", one->instructions);
  json_int(out, "elided", one->elided);
}

static void put_entry(HlBuf *out, const CleanEntry *e) {
  json_open(out, NULL, '{');
  clean_json(out, &e->what);
  json_int(out, "size", e->size);
  json_int(out, "mtime", e->mtime);
  json_int(out, "of_file", e->n);
  json_int(out, "bytes", e->bytes);
  json_close(out, '}');
}

bool clean_journal_add(HlCx *cx, CleanJournal *j, const CleanEntry *entries, int n) {
  HlBuf text = {0}, line = {0};
  for (int k = 0; k < n; k++) {
    line.n = 0;
    put_entry(&line, &entries[k]);
    hl_buf_add(&text, line.at, line.n);
    hl_buf_putc(&text, '\n');
  }
  hl_buf_free(&line);
  const bool ok = add_bytes(cx, j, &text);
  hl_buf_free(&text);
  return ok;
}

// --- Opening ------------------------------------------------------------------------------------

static bool put_head(HlCx *cx, CleanJournal *j, const char *how) {
  HlBuf text = {0};
  json_open(&text, NULL, '{');
  json_int(&text, "hilo-clean", 1);
  json_text(&text, "how", how);
  json_close(&text, '}');
  hl_buf_putc(&text, '\n');
  const bool ok = add_bytes(cx, j, &text);
  hl_buf_free(&text);
  return ok;
}

static void let_go(void *journal) {
  const CleanJournal *j = journal;
  if (j->fd >= 0)
    close(j->fd);
}

bool clean_journal_open(HlCx *cx, const char *folder, const char *how, CleanJournal *out) {
  *out = (CleanJournal){.arena = hl_arena_new(), .fd = -1};
  out->by_file.arena = out->arena;
  out->path = hl_arena_printf(out->arena, "%s/hilo-clean.jsonl", folder);
  base_hold(out, let_go);
  out->fd = open(out->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (out->fd < 0)
    return failed(cx, out, "open");
  if (flock(out->fd, LOCK_EX | LOCK_NB) != 0)
    return hl_error_kind(cx, HL_FAILED, (HlPos){0},
                         "another process is at work in %s: %s is locked", folder, out->path);
  return read_all(cx, out, how) && (out->end > 0 || put_head(cx, out, how));
}

void clean_journal_close(CleanJournal *j) {
  base_drop(j);
  let_go(j);
  hl_arena_free(j->arena);
  *j = (CleanJournal){.fd = -1};
}

const CleanEntry *clean_journal_find(const CleanJournal *j, const char *file, int64_t size,
                                     int64_t mtime) {
  const uint64_t at = map_get(&j->by_file, key_of(file));
  const CleanEntry *e = at ? &j->old.at[at - 1] : NULL;
  return e && strcmp(e->what.file, file) == 0 && e->size == size && e->mtime == mtime ? e : NULL;
}
