// tool/dumps/sql.h: an SQLite database, so far as the index of a dump needs one. Nothing else of the project knows SQLite; where the
// build has none, sql_open says so.
//
//   Sql *db = sql_open(cx, path);
//   SqlQuery *q = sql_query(cx, db, "SELECT name FROM module WHERE content = ?1");
//   sql_set_int(q, 1, content);
//   while (sql_step(cx, q) == SQL_ROW)
//     use(sql_text(q, 0));
//
// Queries belong to the database and are finished by sql_end or with it. Texts and blobs that a row gives are good until the
// next step.
#ifndef TOOL_DUMPS_SQL_H
#define TOOL_DUMPS_SQL_H

#include "hilo/base.h"

typedef struct Sql Sql;
typedef struct SqlQuery SqlQuery;
typedef enum SqlStep { SQL_FAILED, SQL_ROW, SQL_DONE } SqlStep;

bool sql_is_there(void);  // whether the build has SQLite
// Opens, or makes, a database file; ":memory:" is none. Waits for others who write, for up to a minute. NULL after reporting,
// *code then says why (SqlWhy).
typedef enum SqlWhy {
  SQL_WHY_OTHER,
  SQL_WHY_CANNOT_OPEN,
  SQL_WHY_DAMAGED,
  SQL_WHY_FULL,
  SQL_WHY_BUSY
} SqlWhy;
Sql *sql_open(HlCx *cx, const char *path, SqlWhy *why);
// The same to read alone, of a file that nobody writes as long as it is open: that needs neither locks nor files beside it.
Sql *sql_open_still(HlCx *cx, const char *path, SqlWhy *why);
void sql_close(Sql *db);  // NULL is fine; what is not committed is taken back
// Of the newest failure.
SqlWhy sql_why(const Sql *db);

// Statements without results, separated by semicolons.
bool sql_run(HlCx *cx, Sql *db, const char *text);
// The number that a statement gives, such as PRAGMA user_version; `otherwise` where it gives none.
bool sql_number(HlCx *cx, Sql *db, const char *text, int64_t otherwise, int64_t *out);
int64_t sql_last_row(const Sql *db);  // the id of the row that was added last
int64_t sql_changed(const Sql *db);   // how many rows the last statement changed

SqlQuery *sql_query(HlCx *cx, Sql *db, const char *text);  // NULL after reporting
void sql_end(SqlQuery *q);                                 // NULL is fine
void sql_set_int(SqlQuery *q, int k, int64_t value);       // parameters are numbered from 1
void sql_set_double(SqlQuery *q, int k, double value);
void sql_set_text(SqlQuery *q, int k,
                  const char *text);  // NULL: null; borrowed until the query is reset
void sql_set_blob(SqlQuery *q, int k, const void *at, size_t n);
SqlStep sql_step(HlCx *cx, SqlQuery *q);
bool sql_do(HlCx *cx, SqlQuery *q);  // steps to the end and resets
void sql_reset(SqlQuery *q);
int64_t sql_int(const SqlQuery *q, int column);  // columns are numbered from 0
double sql_double(const SqlQuery *q, int column);
const char *sql_text(const SqlQuery *q, int column);  // "" for null
HlStr sql_blob(const SqlQuery *q, int column);

#endif
