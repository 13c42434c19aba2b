// tool/dumps/index_update.c: makes the index say what is in the directory.
//
// Whether a file is as it was read is told by its size and times, as a build tool tells it; where these leave room for doubt,
// because it was written at about the time it was read, or where they differ, by its content. What was read is added in
// batches, each one short transaction: readers never wait, and another process that updates at the same time waits for a batch at most.

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "tool/dumps/index.h"
#include "tool/dumps/listing.h"

// --- What is known ------------------------------------------------------------------------------

typedef struct Known {
  const char *path;
  int64_t id, size, mtime, ctime, read_at, hash, state;
} Known;

// What is to be put into the index of one file.
typedef struct Pending {
  const ListingFile *file;
  int64_t id;  // of its row; 0: it has none
  int64_t read_at, hash;
  int64_t bytes;  // that were read, which may be more or fewer than there were when it was listed
  HlIndexedState state;
  HlDumpStage stage;
  char *why;  // heap; NULL: nothing to say
  double ms;
  bool is_same;  // only its times differ
  bool has_content;
  bool was_there;        // its content, in the index or in what is pending
  HlFile loaded;         // the records borrow from it
  IndexRecord *records;  // loaded.n of them
} Pending;

typedef struct Update {
  HlCx *cx;
  HlIndex *index;
  Listing listing;
  VEC(Known) known;  // by path
  HlArena *arena;
  VEC(Pending) pending;
  int64_t pending_bytes;
  double last_flush;
  bool changed, replaced;  // something; something that was there before
  Map read_now;            // hashes of what is pending
  HlIndexCounts *counts;
} Update;

static bool read_known(Update *u) {
  SqlQuery *q = sql_query(
      u->cx, u->index->db,
      "SELECT id, path, size, mtime, ctime, read_at, hash, state FROM file ORDER BY path");
  if (!q)
    return false;
  SqlStep step;
  while ((step = sql_step(u->cx, q)) == SQL_ROW) {
    const char *path = sql_text(q, 1);
    const Known one = {.id = sql_int(q, 0),
                       .path = hl_arena_strndup(u->arena, path, strlen(path)),
                       .size = sql_int(q, 2),
                       .mtime = sql_int(q, 3),
                       .ctime = sql_int(q, 4),
                       .read_at = sql_int(q, 5),
                       .hash = sql_int(q, 6),
                       .state = sql_int(q, 7)};
    vec_push_in(u->arena, &u->known, one);
  }
  sql_end(q);
  return step == SQL_DONE;
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Written so shortly before it was read that it may have been written again since without another time. Clocks of file
// systems tick every few milliseconds, of some every two seconds.
static bool in_doubt(const Known *known) {
  const bool is_coarse = known->mtime % 1000000000 == 0;
  const int64_t tick = is_coarse ? INT64_C(2000000000) : 50000000;
  const int64_t newest = known->mtime > known->ctime ? known->mtime : known->ctime;
  return newest + tick > known->read_at;
}

static bool is_as_known(const ListingFile *file, const Known *known) {
  return known && known->size == file->size && known->mtime == file->mtime &&
         known->ctime == file->ctime && !in_doubt(known);
}

// --- Reading one file ---------------------------------------------------------------------------

static void close_file(void *file) {
  fclose(file);
}

static bool read_bytes(Update *u, const char *path, HlBuf *out) {
  char *whole = NULL;
  HlBuf name = {0};
  hl_buf_printf(&name, "%s/%s", u->index->real, path);
  whole = name.at;
  FILE *file = fopen(whole, "rb");
  if (file)
    base_hold(file, close_file);
  struct stat st;
  const int64_t most = hl_cx_limits(u->cx)->file_bytes;
  bool ok = file && fstat(fileno(file), &st) == 0;
  if (ok && st.st_size > most) {
    errno = EFBIG;
    ok = false;
  }
  if (ok) {
    hl_buf_grow(out, (size_t)st.st_size + 1);
    for (size_t n; (n = fread(out->at + out->n, 1, out->capacity - out->n - 1, file)) > 0;) {
      out->n += n;
      if (out->n + 1 >= out->capacity)
        hl_buf_grow(out, out->n);
    }
    ok = !ferror(file);
    out->at[out->n] = 0;
  }
  const int code = errno;
  if (file) {
    base_drop(file);
    fclose(file);
  }
  hl_buf_free(&name);
  errno = code;
  return ok;
}

// The first error since, on one line with its place; it is forgotten with all others.
static char *take_why(HlCx *cx, int n_diags) {
  HlBuf text = {0};
  for (int k = n_diags; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *d = hl_cx_diag(cx, k);
    if (d->severity != HL_ERROR)
      continue;
    const HlLineCol at = hl_source_line_col(d->source, d->loc);
    if (at.line > 0)
      hl_buf_printf(&text, "%lld:%lld: ", (long long)at.line, (long long)at.column);
    hl_buf_printf(&text, "%.*s", (int)strcspn(d->text, "\n"), d->text);
    break;
  }
  hl_cx_forget(cx, n_diags);
  if (text.n == 0)
    hl_buf_puts(&text, "it cannot be read");
  return text.at;
}

static HlDumpStage stage_by_content(const HlFile *file) {
  if (file->format == HL_FORMAT_MLIR || file->format == HL_FORMAT_MLIR_BYTECODE ||
      file->format == HL_FORMAT_EXPORTED)
    return HL_STAGE_STABLEHLO;
  if (file->format == HL_FORMAT_JAXPR)
    return HL_STAGE_JAXPR;
  return file->n > 0 && file->modules[0]->is_scheduled ? HL_STAGE_AFTER : HL_STAGE_OTHER;
}

static void load_modules(Update *u, Pending *p, HlBuf *bytes, ListingLook look) {
  static const HlLoadOptions how = {.consts_as_parameters = true, .jaxprs_without_types = true};
  const int n = hl_cx_n_diags(u->cx);
  HlSource *source = hl_read_bytes(u->cx, p->file->path, bytes->at ? bytes->at : "", bytes->n);
  hl_buf_free(bytes);
  const bool ok = source && hl_load_source(u->cx, source, &how, &p->loaded);
  hl_source_unref(source);
  p->state = HL_INDEXED;
  if (!ok) {
    p->state = look != LISTING_IS_MODULE && !hl_format_is_program(p->loaded.format)
                   ? HL_INDEXED_NO_MODULE
                   : HL_INDEXED_UNREADABLE;
    p->why = take_why(u->cx, n);
    return;
  }
  hl_cx_forget(u->cx, n);
  if (p->stage == HL_STAGE_OTHER)
    p->stage = stage_by_content(&p->loaded);
  if (p->loaded.n == 0)
    p->why = base_strdup(p->loaded.jaxpr ? "a jaxpr whose values have no types"
                                         : "it has no function to run");
  p->records = base_alloc((size_t)p->loaded.n * sizeof *p->records + 1);
  for (int k = 0; k < p->loaded.n; k++)
    index_record_make(u->cx, p->loaded.modules[k], &p->records[k]);
}

// How long compiling took, by XLA's list of passes with their times; negative: it does not say.
static double times_of(HlStr text) {
  static const char *const keys[] = {"start_timestamp_usec:", "end_timestamp_usec:"};
  int64_t first = INT64_MAX, last = 0;
  for (int k = 0; k < HL_COUNT_OF(keys); k++) {
    const char *at = text.at, *end = text.at + text.n;
    while ((at = memmem(at, (size_t)(end - at), keys[k], strlen(keys[k])))) {
      at += strlen(keys[k]);
      const int64_t time = strtoll(at, NULL, 10);
      if (k == 0 && time < first)
        first = time;
      if (k == 1 && time > last)
        last = time;
    }
  }
  return last > first ? (double)(last - first) / 1e3 : -1;
}

static bool ends_with(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

static void read_content(Update *u, Pending *p, HlBuf *bytes) {
  const ListingLook look = listing_look(p->file->path);
  const bool is_times = ends_with(p->file->path, ".metadata.textproto");
  const size_t head = bytes->n < 4096 ? bytes->n : 4096;
  p->state = HL_INDEXED_NO_MODULE;
  if (is_times)
    p->ms = times_of((HlStr){bytes->at ? bytes->at : "", bytes->n});
  if (is_times)
    p->why = base_strdup("the times of passes");
  else if (look == LISTING_IS_NO_MODULE)
    p->why = base_strdup("a report or side file of a dump");
  else if (look == LISTING_MAY_BE_MODULE &&
           !listing_may_be_module(p->file->path, (HlStr){bytes->at ? bytes->at : "", head}))
    p->why = base_strdup("no program");
  else
    load_modules(u, p, bytes, look);
}

// What neither name nor first bytes take for a program is not read to its end.
static bool is_worth_reading(const Update *u, const char *path) {
  if (ends_with(path, ".metadata.textproto"))
    return true;
  const ListingLook look = listing_look(path);
  HlBuf name = {0};
  hl_buf_printf(&name, "%s/%s", u->index->real, path);
  const bool worth =
      look == LISTING_IS_MODULE || (look == LISTING_MAY_BE_MODULE &&
                                    (access(name.at, R_OK) != 0 || listing_looks_inside(name.at)));
  hl_buf_free(&name);
  return worth;
}

static bool is_in_index(Update *u, int64_t hash, int64_t size, bool *out) {
  SqlQuery *q =
      sql_query(u->cx, u->index->db, "SELECT 1 FROM content WHERE hash = ?1 AND size = ?2");
  if (!q)
    return false;
  sql_set_int(q, 1, hash);
  sql_set_int(q, 2, size);
  const SqlStep step = sql_step(u->cx, q);
  *out = step == SQL_ROW;
  sql_end(q);
  return step != SQL_FAILED;
}

// Reads a file as far as is needed, into a new pending entry.
static bool read_file(Update *u, const ListingFile *file, const Known *known) {
  Pending p = {.file = file, .id = known ? known->id : 0, .read_at = now(), .ms = -1};
  HlArena *arena = hl_arena_new();
  const HlDumpName name = hl_dump_name_read(arena, file->path);
  p.stage = name.stage;
  hl_arena_free(arena);
  HlBuf bytes = {0};
  bool there = false;
  if (!is_worth_reading(u, file->path)) {
    read_content(u, &p, &bytes);
    p.is_same = known && known->hash == 0 && known->state == p.state;
  } else if (!read_bytes(u, file->path, &bytes)) {
    p.state = HL_INDEXED_UNREADABLE;
    p.why = base_strdup(strerror(errno));
  } else {
    p.hash = (int64_t)(hl_hash_bytes(bytes.at, bytes.n, 9) | 1);
    p.has_content = true;
    p.bytes = (int64_t)bytes.n;
    p.is_same = known && known->hash == p.hash && known->size == p.bytes;
    if (!p.is_same && !is_in_index(u, p.hash, p.bytes, &there))
      return false;
    there = there || map_get(&u->read_now, (uint64_t)p.hash);
    if (!p.is_same && !there) {
      read_content(u, &p, &bytes);
      if (p.state == HL_INDEXED)
        *map_at(&u->read_now, (uint64_t)p.hash) = 1;
    }
  }
  p.was_there = there;
  p.has_content = p.has_content && (there || p.state == HL_INDEXED);
  u->counts->read += !p.is_same;
  u->counts->same += p.is_same;
  u->pending_bytes += p.bytes;
  hl_buf_free(&bytes);
  vec_push(&u->pending, p);
  return true;
}

// --- Putting into the index ---------------------------------------------------------------------

typedef struct Queries {
  SqlQuery *find_file, *touch, *put_file, *find_content, *put_content, *put_module, *put_record;
} Queries;

static bool prepare(Update *u, Queries *q) {
  static const struct {
    size_t at;
    const char *text;
  } texts[] = {
      {offsetof(Queries, find_file),
       "SELECT size, mtime, ctime, hash, read_at FROM file WHERE path = ?1"},
      {offsetof(Queries, touch),
       "UPDATE file SET size = ?2, mtime = ?3, ctime = ?4, read_at = ?5 WHERE path = ?1"},
      {offsetof(Queries, put_file), "INSERT OR REPLACE INTO file(id, path, size, mtime, ctime, "
                                    "read_at, hash, content, state, stage, why, ms) "
                                    "VALUES((SELECT id FROM file WHERE path = ?1), ?1, ?2, ?3, ?4, "
                                    "?5, ?6, ?7, ?8, ?9, ?10, ?11)"},
      {offsetof(Queries, find_content),
       "SELECT id, stage FROM content WHERE hash = ?1 AND size = ?2"},
      {offsetof(Queries, put_content), "INSERT INTO content(hash, size, stage) VALUES(?1, ?2, ?3)"},
      {offsetof(Queries, put_module),
       "INSERT INTO module(content, k, name, instructions, computations, fusions, flops, "
       "transcendentals, bytes_read, "
       "bytes_written, collective_bytes, peak_memory, partitions, replicas, is_scheduled, "
       "graph_hash, signature) "
       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"},
      {offsetof(Queries, put_record), "INSERT INTO record(module, data) VALUES(?1, ?2)"},
  };
  *q = (Queries){0};
  for (int k = 0; k < HL_COUNT_OF(texts); k++) {
    SqlQuery *one = sql_query(u->cx, u->index->db, texts[k].text);
    if (!one)
      return false;
    memcpy((char *)q + texts[k].at, &one, sizeof one);
  }
  return true;
}

static void end(Queries *q) {
  SqlQuery *all[sizeof *q / sizeof(SqlQuery *)];
  memcpy(all, q, sizeof all);
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    sql_end(all[k]);
}

static bool put_module(Update *u, Queries *q, int64_t content, int k, const IndexRecord *record) {
  const HlIndexedModule *m = &record->module;
  SqlQuery *p = q->put_module;
  sql_set_int(p, 1, content);
  sql_set_int(p, 2, k);
  sql_set_text(p, 3, m->name);
  sql_set_int(p, 4, m->instructions);
  sql_set_int(p, 5, m->computations);
  sql_set_int(p, 6, m->fusions);
  sql_set_double(p, 7, m->flops);
  sql_set_double(p, 8, m->transcendentals);
  sql_set_double(p, 9, m->bytes_read);
  sql_set_double(p, 10, m->bytes_written);
  sql_set_double(p, 11, m->collective_bytes);
  sql_set_double(p, 12, m->peak_memory);
  sql_set_int(p, 13, m->partitions);
  sql_set_int(p, 14, m->replicas);
  sql_set_int(p, 15, m->is_scheduled);
  sql_set_int(p, 16, (int64_t)m->graph_hash);
  sql_set_int(p, 17, (int64_t)record->signature);
  if (!sql_do(u->cx, p))
    return false;
  HlBuf blob = {0};
  index_record_blob(record, &u->index->strings, &blob);
  sql_set_int(q->put_record, 1, sql_last_row(u->index->db));
  sql_set_blob(q->put_record, 2, blob.at, blob.n);
  const bool ok = sql_do(u->cx, q->put_record);
  hl_buf_free(&blob);
  return ok;
}

// The content of a file: found, or added with its modules; 0 after reporting; -1: another process has taken it out. Its stage is what it showed when it was read.
static int64_t put_content(Update *u, Queries *q, Pending *p) {
  sql_set_int(q->find_content, 1, p->hash);
  sql_set_int(q->find_content, 2, p->bytes);
  const SqlStep step = sql_step(u->cx, q->find_content);
  const int64_t found = step == SQL_ROW ? sql_int(q->find_content, 0) : 0;
  if (found && p->stage == HL_STAGE_OTHER)
    p->stage = index_stage(sql_int(q->find_content, 1));
  sql_reset(q->find_content);
  if (found || step == SQL_FAILED)
    return found;
  if (p->was_there)
    return -1;
  sql_set_int(q->put_content, 1, p->hash);
  sql_set_int(q->put_content, 2, p->bytes);
  sql_set_int(q->put_content, 3, stage_by_content(&p->loaded));
  if (!sql_do(u->cx, q->put_content))
    return 0;
  const int64_t content = sql_last_row(u->index->db);
  for (int k = 0; k < p->loaded.n; k++)
    if (!put_module(u, q, content, k, &p->records[k]))
      return 0;
  return content;
}

static bool put_file(Update *u, Queries *q, Pending *p) {
  const int64_t content = p->has_content ? put_content(u, q, p) : 0;
  if (p->has_content && !content)
    return false;
  SqlQuery *f = q->put_file;
  sql_set_text(f, 1, p->file->path);
  sql_set_int(f, 2, p->file->size);
  sql_set_int(f, 3, p->file->mtime);
  sql_set_int(f, 4, p->file->ctime);
  sql_set_int(f, 5, content < 0 ? 0 : p->read_at);  // 0: it is read again next time
  sql_set_int(f, 6, content < 0 ? 0 : p->hash);
  sql_set_int(f, 7, content < 0 ? 0 : content);
  sql_set_int(f, 8, p->state);
  sql_set_int(f, 9, p->stage);
  sql_set_text(f, 10, p->why);
  sql_set_double(f, 11, p->ms);
  return sql_do(u->cx, f);
}

static bool touch_file(Update *u, Queries *q, const Pending *p) {
  sql_set_text(q->touch, 1, p->file->path);
  sql_set_int(q->touch, 2, p->file->size);
  sql_set_int(q->touch, 3, p->file->mtime);
  sql_set_int(q->touch, 4, p->file->ctime);
  sql_set_int(q->touch, 5, p->read_at);
  return sql_do(u->cx, q->touch);
}

// Whether another process has put the same in since.
static bool is_done(Update *u, Queries *q, const Pending *p) {
  sql_set_text(q->find_file, 1, p->file->path);
  const bool there =
      sql_step(u->cx, q->find_file) == SQL_ROW && sql_int(q->find_file, 0) == p->file->size &&
      sql_int(q->find_file, 1) == p->file->mtime && sql_int(q->find_file, 2) == p->file->ctime &&
      sql_int(q->find_file, 3) == p->hash && sql_int(q->find_file, 4) >= p->read_at;
  sql_reset(q->find_file);
  return there;
}

static void pending_free(Pending *p) {
  for (int k = 0; p->records && k < p->loaded.n; k++)
    index_record_free(&p->records[k]);
  base_free(p->records);
  base_free(p->why);
  hl_file_free(&p->loaded);
}

static void drop_pending(Update *u) {
  for (int k = 0; k < u->pending.n; k++)
    pending_free(&u->pending.at[k]);
  u->pending.n = 0;
  u->pending_bytes = 0;
  map_free(&u->read_now);
  u->last_flush = hl_now();
}

static bool put_pending(Update *u, Queries *q) {
  bool ok = index_strings_sync(u->cx, u->index->db, &u->index->strings);
  for (int k = 0; ok && k < u->pending.n; k++) {
    Pending *p = &u->pending.at[k];
    if (p->is_same)
      ok = touch_file(u, q, p);
    else if (!is_done(u, q, p)) {
      ok = put_file(u, q, p);
      u->changed = true;
      u->replaced |= p->id != 0;
    }
  }
  return ok && index_strings_keep(u->cx, u->index->db, &u->index->strings) &&
         (!u->changed || sql_run(u->cx, u->index->db,
                                 "INSERT OR REPLACE INTO meta(key, value) VALUES('grouped', '0')"));
}

static bool flush(Update *u) {
  if (u->pending.n == 0)
    return true;
  Queries q;
  bool ok = sql_run(u->cx, u->index->db, "BEGIN IMMEDIATE");
  if (ok) {
    ok = prepare(u, &q) && put_pending(u, &q);
    end(&q);
    ok = ok && sql_run(u->cx, u->index->db, "COMMIT");
    if (!ok)
      sql_run(u->cx, u->index->db, "ROLLBACK");
  }
  drop_pending(u);
  return ok;
}

// --- All of it ----------------------------------------------------------------------------------

static bool remove_gone(Update *u, const int64_t *gone, int n) {
  if (n == 0)
    return true;
  SqlQuery *q = sql_query(u->cx, u->index->db, "DELETE FROM file WHERE id = ?1");
  bool ok = q && sql_run(u->cx, u->index->db, "BEGIN IMMEDIATE");
  for (int k = 0; ok && k < n; k++) {
    sql_set_int(q, 1, gone[k]);
    ok = sql_do(u->cx, q);
  }
  sql_end(q);
  u->changed = u->replaced = true;
  return ok && sql_run(u->cx, u->index->db,
                       "INSERT OR REPLACE INTO meta(key, value) VALUES('grouped', '0'); COMMIT");
}

// What no file points to any more, and which file belongs to which program.
static bool finish(Update *u) {
  static const char orphans[] = "DELETE FROM content WHERE id NOT IN (SELECT content FROM file);"
                                "DELETE FROM module WHERE content NOT IN (SELECT id FROM content);"
                                "DELETE FROM record WHERE module NOT IN (SELECT id FROM module)";
  int64_t grouped;
  if (!sql_number(u->cx, u->index->db, "SELECT value FROM meta WHERE key = 'grouped'", 0, &grouped))
    return false;
  if (!u->changed && grouped)
    return true;
  if (!sql_run(u->cx, u->index->db, "BEGIN IMMEDIATE"))
    return false;
  const bool ok = (!u->replaced || sql_run(u->cx, u->index->db, orphans)) &&
                  index_group(u->cx, u->index) &&
                  sql_run(u->cx, u->index->db,
                          "INSERT OR REPLACE INTO meta(key, value) VALUES('grouped', '1')");
  return sql_run(u->cx, u->index->db, ok ? "COMMIT" : "ROLLBACK") && ok;
}

typedef struct Todo {
  const ListingFile *file;
  const Known *known;
} Todo;
typedef VEC(Todo) Todos;
typedef VEC(int64_t) Ids;

// Walks both lists, which are sorted alike, side by side.
static void compare(Update *u, Todos *todo, Ids *gone) {
  int k = 0;
  for (int f = 0; f < u->listing.files.n; f++) {
    const ListingFile *file = &u->listing.files.at[f];
    int order = -1;
    while (k < u->known.n && (order = strcmp(u->known.at[k].path, file->path)) < 0)
      vec_push_in(u->arena, gone, u->known.at[k++].id);
    const Known *known = k < u->known.n && order == 0 ? &u->known.at[k++] : NULL;
    const Todo one = {file, known};
    if (!is_as_known(file, known))
      vec_push_in(u->arena, todo, one);
  }
  while (k < u->known.n)
    vec_push_in(u->arena, gone, u->known.at[k++].id);
}

enum { BATCH_FILES = 512, BATCH_BYTES = 32 << 20 };

static bool read_all(Update *u, const Todos *todo, HlIndexProgress *progress, void *user) {
  u->last_flush = hl_now();
  for (int k = 0; k < todo->n; k++) {
    if (progress)
      progress(user, k, todo->n, todo->at[k].file->path);
    base_look();
    if (!read_file(u, todo->at[k].file, todo->at[k].known))
      return false;
    if (u->pending.n >= BATCH_FILES || u->pending_bytes > BATCH_BYTES ||
        hl_now() - u->last_flush > 1)
      if (!flush(u))
        return false;
  }
  return flush(u);
}

// Indexes and journals are none of the files that are indexed, but for the list of times that dumps have.
static bool is_apart(const char *path) {
  return listing_is_own(path) && !ends_with(path, ".jsonl");
}

static void leave_out_own(Update *u) {
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  char path[PATH_MAX];
  const size_t folder = strlen(u->index->real);
  const bool is_inside = *u->index->path && realpath(u->index->path, path) &&
                         strncmp(path, u->index->real, folder) == 0;
  const char *own = is_inside ? path + folder + (path[folder] == '/') : "\n";
  int n = 0;
  for (int k = 0; k < u->listing.files.n; k++) {
    const char *name = u->listing.files.at[k].path;
    const size_t length = strlen(own);
    bool is_own = is_apart(name);
    for (int e = 0; e < HL_COUNT_OF(endings); e++)
      is_own |= strncmp(name, own, length) == 0 && strcmp(name + length, endings[e]) == 0;
    if (!is_own)
      u->listing.files.at[n++] = u->listing.files.at[k];
  }
  u->listing.files.n = n;
}

bool hl_index_update(HlCx *cx, HlIndex *index, HlIndexProgress *progress, void *user,
                     HlIndexCounts *out) {
  const double start = hl_now();
  Update u = {.cx = cx, .index = index, .arena = hl_arena_new(), .counts = out};
  Todos todo = {0};
  Ids gone = {0};
  *out = (HlIndexCounts){0};
  bool ok = listing_read(cx, index->real, &u.listing);
  if (ok) {
    leave_out_own(&u);
    ok = read_known(&u);
  }
  if (ok) {
    compare(&u, &todo, &gone);
    out->files = u.listing.files.n;
    out->gone = gone.n;
    out->unread_folders = u.listing.unread_folders;
    const bool no_room = index->is_still && todo.n + gone.n > 0;
    ok = !no_room ||
         hl_error_kind(cx, HL_FAILED, (HlPos){0},
                       "the index %s is not up to date: No space left on device", index->path);
    ok =
        ok && remove_gone(&u, gone.at, gone.n) && read_all(&u, &todo, progress, user) && finish(&u);
  }
  drop_pending(&u);
  vec_free(&u.pending);
  listing_free(&u.listing);
  hl_arena_free(u.arena);
  out->seconds = hl_now() - start;
  return ok;
}
