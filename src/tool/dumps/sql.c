// tool/dumps/sql.c: SQLite, through its C library.
//
// SQLite asks the system for memory itself, so a try does not know what it holds: the database is held (base_hold), and closed
// with its queries when the try ends early, which takes back what was not committed.

#include "tool/dumps/sql.h"

#include <string.h>

#include "base/memory.h"

#ifdef HILO_HAS_SQLITE

#include <sqlite3.h>
#include <time.h>

enum { WAIT_SECONDS = 60, NAP_MS = 5 };

struct Sql {
  sqlite3 *db;
  double waiting_since;
  SqlWhy why;
};

struct SqlQuery {
  Sql *sql;
  sqlite3_stmt *statement;
};

bool sql_is_there(void) {
  return true;
}

static void close_now(void *db) {
  for (sqlite3_stmt *s; (s = sqlite3_next_stmt(db, NULL));)
    sqlite3_finalize(s);
  sqlite3_close(db);
}

// Called where another process has the database; 0: no more waiting. Not to jump from: SQLite's frames are between.
static int wait_for_others(void *user, int count) {
  Sql *sql = user;
  if (count == 0)
    sql->waiting_since = hl_now();
  if (base_unwanted() || hl_now() - sql->waiting_since > WAIT_SECONDS)
    return 0;
  const struct timespec nap = {0, NAP_MS * 1000000};
  nanosleep(&nap, NULL);
  return 1;
}

// Whether work that takes long is not wanted any more: then the statement ends, and the try after it.
static int look(void *user) {
  return base_unwanted();
}

static SqlWhy why_of(int code) {
  switch (code & 0xff) {
  case SQLITE_CANTOPEN:
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_AUTH: return SQL_WHY_CANNOT_OPEN;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return SQL_WHY_DAMAGED;
  case SQLITE_FULL:
  case SQLITE_IOERR: return SQL_WHY_FULL;
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return SQL_WHY_BUSY;
  default: return SQL_WHY_OTHER;
  }
}

static bool failed(HlCx *cx, Sql *sql) {
  const int code = sqlite3_extended_errcode(sql->db);
  base_look();
  sql->why = why_of(code);
  if ((code & 0xff) == SQLITE_NOMEM)
    base_end_try(0);
  const char *path = sqlite3_db_filename(sql->db, "main");
  const int system = sql->why == SQL_WHY_FULL || sql->why == SQL_WHY_CANNOT_OPEN
                         ? sqlite3_system_errno(sql->db)
                         : 0;
  hl_error_kind(cx, sql->why == SQL_WHY_DAMAGED ? HL_INVALID : HL_FAILED, (HlPos){0},
                "the index %s: %s%s%s", path && *path ? path : "in memory", sqlite3_errmsg(sql->db),
                system ? ": " : "", system ? strerror(system) : "");
  if (sql->why == SQL_WHY_DAMAGED)
    hl_hint(cx, "'hilo index --anew' makes it again");
  return false;
}

static Sql *open_as(HlCx *cx, const char *path, int flags, SqlWhy *why) {
  sqlite3 *db = NULL;
  const int code = sqlite3_open_v2(path, &db, flags, NULL);
  if (code != SQLITE_OK || !db) {
    *why = why_of(code);
    hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot open the index: %s",
                  db ? sqlite3_errmsg(db) : "out of memory");
    sqlite3_close(db);
    return NULL;
  }
  base_hold(db, close_now);
  Sql *sql = base_alloc(sizeof *sql);
  sql->db = db;
  sqlite3_busy_handler(db, wait_for_others, sql);
  sqlite3_progress_handler(db, 10000, look, NULL);
  // The file lies where dumps do, and may come from anywhere: what its schema says is not trusted.
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif
  return sql;
}

Sql *sql_open(HlCx *cx, const char *path, SqlWhy *why) {
  return open_as(cx, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, why);
}

Sql *sql_open_still(HlCx *cx, const char *path, SqlWhy *why) {
  HlBuf uri = {0};
  hl_buf_puts(&uri, "file:");
  for (const char *c = path; *c; c++)
    hl_buf_printf(&uri, strchr("%?#", *c) ? "%%%02x" : "%c", *c);
  hl_buf_puts(&uri, "?immutable=1");
  Sql *sql = open_as(cx, uri.at, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, why);
  hl_buf_free(&uri);
  return sql;
}

void sql_close(Sql *sql) {
  if (!sql)
    return;
  base_drop(sql->db);
  close_now(sql->db);
  base_free(sql);
}

SqlWhy sql_why(const Sql *sql) {
  return sql->why;
}

bool sql_run(HlCx *cx, Sql *sql, const char *text) {
  return sqlite3_exec(sql->db, text, NULL, NULL, NULL) == SQLITE_OK || failed(cx, sql);
}

int64_t sql_last_row(const Sql *sql) {
  return sqlite3_last_insert_rowid(sql->db);
}

int64_t sql_changed(const Sql *sql) {
  return sqlite3_changes(sql->db);
}

SqlQuery *sql_query(HlCx *cx, Sql *sql, const char *text) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(sql->db, text, -1, &statement, NULL) != SQLITE_OK) {
    failed(cx, sql);
    return NULL;
  }
  SqlQuery *q = base_alloc(sizeof *q);
  *q = (SqlQuery){sql, statement};
  return q;
}

void sql_end(SqlQuery *q) {
  if (!q)
    return;
  sqlite3_finalize(q->statement);
  base_free(q);
}

void sql_set_int(SqlQuery *q, int k, int64_t value) {
  sqlite3_bind_int64(q->statement, k, value);
}

void sql_set_double(SqlQuery *q, int k, double value) {
  sqlite3_bind_double(q->statement, k, value);
}

void sql_set_text(SqlQuery *q, int k, const char *text) {
  if (text)
    sqlite3_bind_text(q->statement, k, text, -1, SQLITE_STATIC);
  else
    sqlite3_bind_null(q->statement, k);
}

void sql_set_blob(SqlQuery *q, int k, const void *at, size_t n) {
  sqlite3_bind_blob64(q->statement, k, at ? at : "", n, SQLITE_STATIC);
}

SqlStep sql_step(HlCx *cx, SqlQuery *q) {
  const int code = sqlite3_step(q->statement);
  if (code == SQLITE_ROW)
    return SQL_ROW;
  if (code == SQLITE_DONE)
    return SQL_DONE;
  failed(cx, q->sql);
  return SQL_FAILED;
}

void sql_reset(SqlQuery *q) {
  sqlite3_reset(q->statement);
}

int64_t sql_int(const SqlQuery *q, int column) {
  return sqlite3_column_int64(q->statement, column);
}

double sql_double(const SqlQuery *q, int column) {
  return sqlite3_column_double(q->statement, column);
}

const char *sql_text(const SqlQuery *q, int column) {
  const char *text = (const char *)sqlite3_column_text(q->statement, column);
  return text ? text : "";
}

HlStr sql_blob(const SqlQuery *q, int column) {
  const void *at = sqlite3_column_blob(q->statement, column);
  return (HlStr){at, (size_t)sqlite3_column_bytes(q->statement, column)};
}

#else  // without SQLite nothing can be opened, so nothing else is ever called

static void report_absent(HlCx *cx) {
  hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                "this hilo was built without SQLite, which an index needs");
  hl_hint(cx, "install libsqlite3-dev, then build with -DHILO_SQLITE=ON");
}

bool sql_is_there(void) {
  return false;
}

Sql *sql_open(HlCx *cx, const char *path, SqlWhy *why) {
  *why = SQL_WHY_OTHER;
  report_absent(cx);
  return NULL;
}

Sql *sql_open_still(HlCx *cx, const char *path, SqlWhy *why) {
  return sql_open(cx, path, why);
}

void sql_close(Sql *sql) {
}

SqlWhy sql_why(const Sql *sql) {
  return SQL_WHY_OTHER;
}

bool sql_run(HlCx *cx, Sql *sql, const char *text) {
  report_absent(cx);
  return false;
}

int64_t sql_last_row(const Sql *sql) {
  return 0;
}

int64_t sql_changed(const Sql *sql) {
  return 0;
}

SqlQuery *sql_query(HlCx *cx, Sql *sql, const char *text) {
  report_absent(cx);
  return NULL;
}

void sql_end(SqlQuery *q) {
}
void sql_set_int(SqlQuery *q, int k, int64_t value) {
}
void sql_set_double(SqlQuery *q, int k, double value) {
}
void sql_set_text(SqlQuery *q, int k, const char *text) {
}
void sql_set_blob(SqlQuery *q, int k, const void *at, size_t n) {
}

SqlStep sql_step(HlCx *cx, SqlQuery *q) {
  report_absent(cx);
  return SQL_FAILED;
}

void sql_reset(SqlQuery *q) {
}

int64_t sql_int(const SqlQuery *q, int column) {
  return 0;
}

double sql_double(const SqlQuery *q, int column) {
  return 0;
}

const char *sql_text(const SqlQuery *q, int column) {
  return "";
}

HlStr sql_blob(const SqlQuery *q, int column) {
  return (HlStr){"", 0};
}

#endif

bool sql_do(HlCx *cx, SqlQuery *q) {
  SqlStep step;
  while ((step = sql_step(cx, q)) == SQL_ROW)
    ;
  sql_reset(q);
  return step == SQL_DONE;
}

bool sql_number(HlCx *cx, Sql *sql, const char *text, int64_t otherwise, int64_t *out) {
  SqlQuery *q = sql_query(cx, sql, text);
  if (!q)
    return false;
  const SqlStep step = sql_step(cx, q);
  *out = step == SQL_ROW ? sql_int(q, 0) : otherwise;
  sql_end(q);
  return step != SQL_FAILED;
}
