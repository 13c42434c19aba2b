// tool/dumps/index.c: the index's file: where it is, its tables, its strings, and what is in it as lists.
#include "tool/dumps/index.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/version.h"

// --- Strings ------------------------------------------------------------------------------------

static void strings_begin(IndexStrings *s) {
  if (s->arena)
    return;
  const HlStr empty = {"", 0};
  s->arena = hl_arena_new();
  vec_push(&s->at, empty);
  s->n_kept = 1;
}

void index_strings_free(IndexStrings *s) {
  hl_arena_free(s->arena);
  map_free(&s->by_hash);
  vec_free(&s->at);
  *s = (IndexStrings){0};
}

static uint64_t hash_of(HlStr text) {
  return hl_hash_bytes(text.at, text.n, 5) | 1;
}

static uint32_t string_add(IndexStrings *s, HlStr text) {
  const HlStr own = {hl_arena_strndup(s->arena, text.at, text.n), text.n};
  vec_push(&s->at, own);
  map_add(&s->by_hash, hash_of(text), (uint64_t)s->at.n - 1);
  return (uint32_t)s->at.n - 1;
}

uint32_t index_string(IndexStrings *s, HlStr text) {
  strings_begin(s);
  if (text.n == 0)
    return 0;
  MapWalk walk = map_walk(&s->by_hash, hash_of(text));
  for (uint64_t k; (k = map_next(&walk));)
    if (hl_str_equal(s->at.at[k], text))
      return (uint32_t)k;
  return string_add(s, text);
}

// A chunk: of each string its length in four bytes, then it.
static bool take_chunk(IndexStrings *s, int64_t first, int64_t n, HlStr data) {
  if (first != s->at.n || n < 0)
    return false;
  for (int64_t k = 0; k < n; k++) {
    uint32_t length;
    if (data.n < sizeof length)
      return false;
    memcpy(&length, data.at, sizeof length);
    data = (HlStr){data.at + sizeof length, data.n - sizeof length};
    if (length > data.n)
      return false;
    string_add(s, (HlStr){data.at, length});
    data = (HlStr){data.at + length, data.n - length};
  }
  return data.n == 0;
}

bool index_strings_sync(HlCx *cx, Sql *db, IndexStrings *s) {
  strings_begin(s);
  if (s->at.n != s->n_kept)
    index_strings_free(s), strings_begin(s);
  SqlQuery *q =
      sql_query(cx, db, "SELECT first, n, data FROM string WHERE first >= ?1 ORDER BY first");
  if (!q)
    return false;
  sql_set_int(q, 1, s->n_kept);
  SqlStep step;
  bool ok = true;
  while (ok && (step = sql_step(cx, q)) == SQL_ROW)
    ok = take_chunk(s, sql_int(q, 0), sql_int(q, 1), sql_blob(q, 2)) ||
         hl_error(cx, (HlPos){0},
                  "the index's strings are damaged; 'hilo index --anew' makes it again");
  s->n_kept = s->at.n;
  sql_end(q);
  return ok && step == SQL_DONE;
}

bool index_strings_keep(HlCx *cx, Sql *db, IndexStrings *s) {
  if (s->at.n == s->n_kept)
    return true;
  SqlQuery *q = sql_query(cx, db, "INSERT INTO string(first, n, data) VALUES(?1, ?2, ?3)");
  if (!q)
    return false;
  HlBuf data = {0};
  for (int k = s->n_kept; k < s->at.n; k++) {
    const uint32_t length = (uint32_t)s->at.at[k].n;
    hl_buf_add(&data, &length, sizeof length);
    hl_buf_add(&data, s->at.at[k].at, length);
  }
  sql_set_int(q, 1, s->n_kept);
  sql_set_int(q, 2, s->at.n - s->n_kept);
  sql_set_blob(q, 3, data.at, data.n);
  const bool ok = sql_do(cx, q);
  sql_end(q);
  hl_buf_free(&data);
  if (ok)
    s->n_kept = s->at.n;
  return ok;
}

// --- Tables -------------------------------------------------------------------------------------

static const char tables[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    // state: HlIndexedState; why: where there is no module; ms: of a file that says how long compiling took.
    "CREATE TABLE file(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER, mtime "
    "INTEGER, "
    "  ctime INTEGER, read_at INTEGER, hash INTEGER, content INTEGER, state INTEGER, stage "
    "INTEGER, why TEXT, "
    "  ms REAL, program INTEGER);"
    "CREATE INDEX file_content ON file(content);"
    "CREATE TABLE content(id INTEGER PRIMARY KEY, hash INTEGER, size INTEGER, stage INTEGER, "
    "UNIQUE(hash, size));"
    "CREATE TABLE module(id INTEGER PRIMARY KEY, content INTEGER, k INTEGER, name TEXT, "
    "instructions INTEGER, "
    "  computations INTEGER, fusions INTEGER, flops REAL, transcendentals REAL, bytes_read REAL, "
    "  bytes_written REAL, collective_bytes REAL, peak_memory REAL, partitions INTEGER, replicas "
    "INTEGER, "
    "  is_scheduled INTEGER, graph_hash INTEGER, signature INTEGER);"
    "CREATE INDEX module_content ON module(content, k);"
    "CREATE TABLE record(module INTEGER PRIMARY KEY, data BLOB);"
    "CREATE TABLE string(first INTEGER PRIMARY KEY, n INTEGER, data BLOB);"
    "CREATE TABLE program(id INTEGER PRIMARY KEY, name TEXT, folder TEXT, number INTEGER, stamp "
    "INTEGER, ms REAL, "
    "  note TEXT);";

static bool drop_tables(HlCx *cx, Sql *db) {
  static const char *const names[] = {"meta",   "file",   "content", "module",
                                      "record", "string", "program"};
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    char text[64];
    snprintf(text, sizeof text, "DROP TABLE IF EXISTS %s", names[k]);
    if (!sql_run(cx, db, text))
      return false;
  }
  return true;
}

static bool set_meta(HlCx *cx, Sql *db, const char *key, const char *value) {
  SqlQuery *q = sql_query(cx, db, "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)");
  if (!q)
    return false;
  sql_set_text(q, 1, key);
  sql_set_text(q, 2, value);
  const bool ok = sql_do(cx, q);
  sql_end(q);
  return ok;
}

static bool meta_is(HlCx *cx, Sql *db, const char *key, const char *value, bool *out) {
  SqlQuery *q = sql_query(cx, db, "SELECT value FROM meta WHERE key = ?1");
  if (!q)
    return false;
  sql_set_text(q, 1, key);
  const SqlStep step = sql_step(cx, q);
  *out = step == SQL_ROW && strcmp(sql_text(q, 0), value) == 0;
  sql_end(q);
  return step != SQL_FAILED;
}

static bool make_tables(HlCx *cx, HlIndex *index) {
  char text[128];
  snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %d",
           INDEX_APPLICATION, INDEX_VERSION);
  return drop_tables(cx, index->db) && sql_run(cx, index->db, tables) &&
         sql_run(cx, index->db, text) && set_meta(cx, index->db, "directory", index->real) &&
         set_meta(cx, index->db, "hilo", hl_version());
}

// What is in the file: nothing, an index of this version and directory, another index, or something else.
static bool is_current(HlCx *cx, HlIndex *index, bool *current) {
  int64_t application, version, n_tables;
  *current = false;
  // Tables first: who makes them while this asks has said whose they are by then.
  if (!sql_number(cx, index->db, "SELECT count(*) FROM sqlite_master", 0, &n_tables) ||
      !sql_number(cx, index->db, "PRAGMA application_id", 0, &application) ||
      !sql_number(cx, index->db, "PRAGMA user_version", 0, &version))
    return false;
  if (n_tables > 0 && application != INDEX_APPLICATION)
    return hl_error(cx, (HlPos){0}, "%s is no index of hilo's but another database", index->path);
  if (n_tables == 0 || version != INDEX_VERSION)
    return true;
  if (!meta_is(cx, index->db, "hilo", hl_version(), current))
    return false;
  if (!*current)
    return true;
  // Paths are from the directory on: it may have been moved, and the index with it.
  if (index->is_beside)
    return true;
  return meta_is(cx, index->db, "directory", index->real, current);
}

static bool prepare(HlCx *cx, HlIndex *index, bool anew) {
  bool current = false;
  // Who has a write-ahead log need not wait for those who read, nor they for who writes. Where the file system cannot have
  // one, the database goes on with what it can.
  int64_t ignored;
  const int n = hl_cx_n_diags(cx);
  if (!is_current(cx, index, &current))  // nothing is done to another's database
    return false;
  if (!sql_number(cx, index->db, "PRAGMA journal_mode = WAL", 0, &ignored)) {
    if (sql_why(index->db) != SQL_WHY_BUSY)
      return false;
    hl_cx_forget(cx, n);
  }
  if (!sql_run(cx, index->db, "PRAGMA synchronous = NORMAL") || !is_current(cx, index, &current))
    return false;
  if (current && !anew)
    return true;
  // Two may come to this at a time: who is second finds it done.
  if (!sql_run(cx, index->db, "BEGIN IMMEDIATE"))
    return false;
  const bool ok = is_current(cx, index, &current) && ((current && !anew) || make_tables(cx, index));
  return sql_run(cx, index->db, ok ? "COMMIT" : "ROLLBACK") && ok;
}

// --- The file -----------------------------------------------------------------------------------

static bool make_folders(const char *path) {
  char whole[PATH_MAX];
  if (snprintf(whole, sizeof whole, "%s", path) >= (int)sizeof whole)
    return false;
  for (char *c = whole + 1; *c; c++)
    if (*c == '/') {
      *c = 0;
      mkdir(whole, 0777);
      *c = '/';
    }
  struct stat st;
  mkdir(whole, 0777);
  return stat(whole, &st) == 0 && S_ISDIR(st.st_mode);
}

// In the user's cache, by the directory's path; NULL where there is none that can be written.
static const char *in_cache(HlArena *arena, const char *real) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const char *folder = cache && *cache == '/' ? hl_arena_printf(arena, "%s/hilo", cache)
                       : home && *home        ? hl_arena_printf(arena, "%s/.cache/hilo", home)
                                              : NULL;
  if (!folder || !make_folders(folder) || access(folder, W_OK | X_OK) != 0)
    return NULL;
  const char *slash = strrchr(real, '/');
  return hl_arena_printf(arena, "%s/%016llx-%.80s.db", folder,
                         (unsigned long long)hl_hash_bytes(real, strlen(real), 0),
                         slash ? slash + 1 : real);
}

static bool may_write(const char *directory, const char *file) {
  return access(directory, W_OK | X_OK) == 0 &&
         (access(file, F_OK) != 0 || access(file, W_OK) == 0);
}

static void forget_files(const char *path) {
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  for (int k = 0; k < HL_COUNT_OF(endings); k++) {
    char file[PATH_MAX];
    if (snprintf(file, sizeof file, "%s%s", path, endings[k]) < (int)sizeof file)
      unlink(file);
  }
}

// Where there is no room for what SQLite keeps beside a database that may be written, one that nobody has open can be read.
static bool open_still(HlCx *cx, HlIndex *index, const char *path, int n_diags) {
  HlBuf log = {0};
  hl_buf_printf(&log, "%s-wal", path);
  struct stat st;
  const bool is_open = stat(log.at, &st) == 0 && st.st_size > 0;
  hl_buf_free(&log);
  SqlWhy why;
  bool current = false;
  const int n = hl_cx_n_diags(cx);
  if (is_open || access(path, R_OK) != 0)
    return false;
  index->db = sql_open_still(cx, path, &why);
  if (index->db && is_current(cx, index, &current) && current) {
    hl_cx_forget(cx, n_diags);
    hl_warn(cx, (HlPos){0}, "there is no room to write: the index %s is only read", path);
    index->is_still = true;
    return true;
  }
  sql_close(index->db);
  index->db = NULL;
  hl_cx_forget(cx, n);
  return false;
}

// Whether a file, damaged or not, was a database.
static bool was_database(const char *path) {
  static const char magic[] = "SQLite format 3";
  char head[sizeof magic] = "";
  FILE *file = fopen(path, "rb");
  const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
  if (file)
    fclose(file);
  return n == 0 || (n == sizeof head && memcmp(head, magic, sizeof head) == 0);
}

// Opens the database at a path; a damaged one is made anew, but no file of somebody's that never was one. On failure what was reported stays, and *why says what it was.
static bool open_at(HlCx *cx, HlIndex *index, const char *path, bool is_given, bool anew,
                    SqlWhy *why) {
  for (int turn = 0; turn < 2; turn++) {
    const int n = hl_cx_n_diags(cx);
    index->path = path;
    index->db = sql_open(cx, *path ? path : ":memory:", why);
    if (!index->db)
      return false;
    if (prepare(cx, index, anew))
      return true;
    *why = sql_why(index->db);
    sql_close(index->db);
    index->db = NULL;
    if (*why == SQL_WHY_FULL && !anew && open_still(cx, index, path, n))
      return true;
    if (*why != SQL_WHY_DAMAGED || turn > 0)
      return false;
    hl_cx_forget(cx, n);
    if (is_given && !was_database(path))
      return hl_error(cx, (HlPos){0}, "%s is no index but another file: it stays as it is", path);
    hl_warn(cx, (HlPos){0}, "the index %s was damaged; it is made anew", path);
    forget_files(path);
  }
  return false;
}

static bool open_somewhere(HlCx *cx, HlIndex *index, bool anew) {
  const char *beside = hl_arena_printf(index->arena, "%s/hilo-index.db", index->real);
  const int n = hl_cx_n_diags(cx);
  SqlWhy why = SQL_WHY_CANNOT_OPEN;
  index->shown = hl_arena_printf(index->arena, "%s/hilo-index.db", index->directory);
  index->is_beside = true;
  if (may_write(index->real, beside) && open_at(cx, index, beside, false, anew, &why))
    return true;
  index->shown = NULL;
  index->is_beside = false;
  if (why != SQL_WHY_CANNOT_OPEN)
    return false;
  hl_cx_forget(cx, n);
  const char *cached = in_cache(index->arena, index->real);
  if (cached && open_at(cx, index, cached, false, anew, &why))
    return true;
  if (cached && why != SQL_WHY_CANNOT_OPEN)
    return false;
  hl_cx_forget(cx, n);
  hl_warn(cx, (HlPos){0}, "neither %s nor a cache can be written: the index is not kept",
          index->directory);
  return open_at(cx, index, "", false, false, &why);
}

HlIndex *hl_index_open(HlCx *cx, const char *directory, const HlIndexOptions *options) {
  static const HlIndexOptions usual = {0};
  options = options ? options : &usual;
  struct stat st;
  char real[PATH_MAX];
  if (stat(directory, &st) != 0 || !realpath(directory, real)) {
    hl_error(cx, (HlPos){0}, "cannot read the directory %s: %s", directory, strerror(errno));
    return NULL;
  }
  if (!S_ISDIR(st.st_mode)) {
    hl_error(cx, (HlPos){0}, "%s is no directory; expected the folder of a dump", directory);
    return NULL;
  }
  HlArena *arena = hl_arena_new();
  HlIndex *index = HL_NEW(arena, HlIndex);
  index->arena = arena;
  index->directory = hl_arena_strndup(arena, directory, strlen(directory));
  index->real = hl_arena_strndup(arena, real, strlen(real));
  SqlWhy why;
  if (options->path ? open_at(cx, index, options->path, true, options->anew, &why)
                    : open_somewhere(cx, index, options->anew))
    return index;
  hl_index_free(index);
  return NULL;
}

void hl_index_free(HlIndex *index) {
  if (!index)
    return;
  sql_close(index->db);
  index_strings_free(&index->strings);
  hl_arena_free(index->arena);
}

const char *hl_index_path(const HlIndex *index) {
  return index->shown ? index->shown : index->path;
}

const char *hl_index_directory(const HlIndex *index) {
  return index->directory;
}

// --- Lists --------------------------------------------------------------------------------------

typedef VEC(HlIndexedFile) Files;
typedef VEC(HlIndexedProgram) Programs;

static const char *keep(HlArena *arena, const char *text) {
  return *text ? hl_arena_strndup(arena, text, strlen(text)) : "";
}

// The modules of each content, in order; the list's place for a content is noted by its id.
typedef struct ContentList {
  VEC(HlIndexedModule) at;
  Map first, n;  // by content: 1 + place; how many
} ContentList;

static bool list_modules(HlCx *cx, HlIndex *index, HlArena *arena, ContentList *out) {
  SqlQuery *q = sql_query(
      cx, index->db,
      "SELECT content, name, instructions, computations, fusions, flops, transcendentals, "
      "bytes_read, bytes_written, collective_bytes, peak_memory, partitions, replicas, "
      "is_scheduled, graph_hash FROM module ORDER BY content, k");
  if (!q)
    return false;
  SqlStep step;
  while ((step = sql_step(cx, q)) == SQL_ROW) {
    const uint64_t content = (uint64_t)sql_int(q, 0);
    const HlIndexedModule m = {.name = keep(arena, sql_text(q, 1)),
                               .instructions = sql_int(q, 2),
                               .computations = sql_int(q, 3),
                               .fusions = sql_int(q, 4),
                               .flops = sql_double(q, 5),
                               .transcendentals = sql_double(q, 6),
                               .bytes_read = sql_double(q, 7),
                               .bytes_written = sql_double(q, 8),
                               .collective_bytes = sql_double(q, 9),
                               .peak_memory = sql_double(q, 10),
                               .partitions = sql_int(q, 11),
                               .replicas = sql_int(q, 12),
                               .is_scheduled = sql_int(q, 13) != 0,
                               .graph_hash = (uint64_t)sql_int(q, 14)};
    vec_push_in(arena, &out->at, m);
    if (!map_get(&out->first, content))
      *map_at(&out->first, content) = (uint64_t)out->at.n;
    ++*map_at(&out->n, content);
  }
  sql_end(q);
  return step == SQL_DONE;
}

static bool list_programs(HlCx *cx, HlIndex *index, HlArena *arena, Programs *out) {
  SqlQuery *q = sql_query(cx, index->db,
                          "SELECT name, folder, number, stamp, ms, note FROM program ORDER BY id");
  if (!q)
    return false;
  SqlStep step;
  while ((step = sql_step(cx, q)) == SQL_ROW) {
    const HlIndexedProgram p = {.name = keep(arena, sql_text(q, 0)),
                                .folder = keep(arena, sql_text(q, 1)),
                                .number = sql_int(q, 2),
                                .stamp = sql_int(q, 3),
                                .ms = sql_double(q, 4),
                                .note = keep(arena, sql_text(q, 5))};
    vec_push_in(arena, out, p);
  }
  sql_end(q);
  return step == SQL_DONE;
}

static int by_program(const void *a, const void *b) {
  const HlIndexedFile *x = a, *y = b;
  const unsigned p = (unsigned)x->program, q = (unsigned)y->program;  // -1: last
  if (p != q)
    return p < q ? -1 : 1;
  if (x->stage != y->stage)
    return (int)x->stage - (int)y->stage;
  if (x->dump.step != y->dump.step)
    return x->dump.step - y->dump.step;
  return strcmp(x->path, y->path);
}

static HlIndexedState state_of(int64_t value) {
  return value == HL_INDEXED || value == HL_INDEXED_NO_MODULE ? (HlIndexedState)value
                                                              : HL_INDEXED_UNREADABLE;
}

static bool list_files(HlCx *cx, HlIndex *index, HlArena *arena, const ContentList *modules,
                       Files *out) {
  SqlQuery *q =
      sql_query(cx, index->db, "SELECT path, size, content, state, stage, why, program FROM file");
  if (!q)
    return false;
  SqlStep step;
  while ((step = sql_step(cx, q)) == SQL_ROW) {
    const uint64_t content = (uint64_t)sql_int(q, 2), first = map_get(&modules->first, content);
    HlIndexedFile f = {.path = keep(arena, sql_text(q, 0)),
                       .size = sql_int(q, 1),
                       .program = (int)sql_int(q, 6) - 1,
                       .stage = index_stage(sql_int(q, 4)),
                       .state = state_of(sql_int(q, 3)),
                       .why = keep(arena, sql_text(q, 5)),
                       .modules = first ? modules->at.at + first - 1 : NULL,
                       .n_modules = first ? (int)map_get(&modules->n, content) : 0};
    f.dump = hl_dump_name_read(arena, f.path);
    vec_push_in(arena, out, f);
  }
  sql_end(q);
  if (out->n > 0)
    qsort(out->at, (size_t)out->n, sizeof *out->at, by_program);
  return step == SQL_DONE;
}

bool hl_index_list(HlCx *cx, HlIndex *index, HlArena *arena, HlIndexList *out) {
  ContentList modules = {.first.arena = arena, .n.arena = arena};
  Files files = {0};
  Programs programs = {0};
  *out = (HlIndexList){0};
  if (!sql_run(cx, index->db, "BEGIN"))
    return false;
  const bool ok = list_modules(cx, index, arena, &modules) &&
                  list_programs(cx, index, arena, &programs) &&
                  list_files(cx, index, arena, &modules, &files);
  if (!sql_run(cx, index->db, "END") || !ok)
    return false;
  for (int k = 0; k < files.n; k++) {
    const int p = files.at[k].program;
    if (p < 0 || p >= programs.n)
      continue;
    if (programs.at[p].n++ == 0)
      programs.at[p].first = k;
  }
  *out = (HlIndexList){programs.at, files.at, programs.n, files.n};
  return true;
}

const HlIndexedFile *hl_indexed_stage(const HlIndexList *list, const HlIndexedProgram *program,
                                      HlDumpStage stage) {
  const HlIndexedFile *found = NULL;
  for (int k = program->first; k < program->first + program->n; k++)
    if (list->files[k].stage == stage && list->files[k].n_modules > 0)
      found = &list->files[k];
  return found;
}
