// tool/dumps/index_programs.c: which files belong to one program.
//
// XLA's names say it: folder, time, number, module name. But a name that was too long is left out, file by file, so that it is
// taken from the module then; and several processes may have dumped into one folder under the same numbers, so that states
// whose parameters and results have other types are no states of one program. JAX counts its jaxprs and its StableHLO by numbers of
// their own: they are paired by function name and types, and where several fit, in order. Names made by hand belong together by what is
// left of them without the words that say the state.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "base/number.h"
#include "tool/dumps/index.h"

typedef struct Member {
  int64_t id;
  HlDumpName dump;
  HlDumpStage stage;
  const char *path, *module;  // module: the first one's name; ""
  uint64_t signature;         // 0: no module
  bool is_partitioned;
  double ms;
  int program;  // 1 + number of it; 0: none
} Member;

typedef struct Program {
  int64_t id;  // its place in the order in which programs are shown
  const char *name, *folder, *note;
  int64_t number, stamp;
  double ms;
  uint64_t signature;            // of what came in; 0: not known
  bool is_xla;                   // XLA's files are in it
  bool has_jax[HL_STAGE_COUNT];  // of JAX's own files
} Program;

typedef struct Grouping {
  HlCx *cx;
  HlIndex *index;
  HlArena *arena;
  VEC(Member) members;
  VEC(Program) programs;
  Map by_key;  // hash of a key: 1 + a program; several
  Map times;   // hash of folder, number, name: 1 + a place in `ms`
  VEC(double) ms;
} Grouping;

// What hilo notes of all modules that it dumped.
static bool is_own_list(const char *path) {
  const char *slash = strrchr(path, '/');
  return strcmp(slash ? slash + 1 : path, "hilo-index.jsonl") == 0;
}

static bool read_members(Grouping *g) {
  SqlQuery *q = sql_query(
      g->cx, g->index->db,
      "SELECT file.id, file.path, file.stage, file.ms, module.name, module.signature, "
      "module.partitions, "
      "file.state FROM file LEFT JOIN module ON module.content = file.content AND module.k = 0 "
      "ORDER BY file.path");
  if (!q)
    return false;
  SqlStep step;
  while ((step = sql_step(g->cx, q)) == SQL_ROW) {
    const char *path = sql_text(q, 1), *module = sql_text(q, 4);
    Member m = {.id = sql_int(q, 0), .stage = index_stage(sql_int(q, 2)), .ms = sql_double(q, 3)};
    m.path = hl_arena_strndup(g->arena, path, strlen(path));
    m.module = hl_arena_strndup(g->arena, module, strlen(module));
    m.dump = hl_dump_name_read(g->arena, m.path);
    m.signature = (uint64_t)sql_int(q, 5);
    m.is_partitioned = sql_int(q, 6) > 1;
    // What is no module, but a report about one, belongs to none.
    if (sql_int(q, 7) == HL_INDEXED_NO_MODULE && m.ms <= 0 && !is_own_list(m.path))
      continue;
    vec_push_in(g->arena, &g->members, m);
  }
  sql_end(q);
  return step == SQL_DONE;
}

// --- Programs -----------------------------------------------------------------------------------

// As XLA spells a module's name in the name of a file.
static const char *file_safe(HlArena *arena, const char *name) {
  char *safe = hl_arena_strndup(arena, name, strlen(name));
  for (char *c = safe; *c; c++)
    if (strchr("/\\[] ", *c))
      *c = '_';
  return safe;
}

static uint64_t key_of(const char *key) {
  return hl_hash_bytes(key, strlen(key), 11) | 1;
}

static int new_program(Grouping *g, uint64_t key, const Program *like) {
  vec_push_in(g->arena, &g->programs, *like);
  map_add(&g->by_key, key, (uint64_t)g->programs.n);
  return g->programs.n;
}

static const char *name_of(const Grouping *g, const Member *m) {
  return *m->dump.name ? m->dump.name : file_safe(g->arena, m->module);
}

// Whether a state can be one of a program: partitioning changes types, and a state of unknown types says nothing.
static bool fits(const Program *p, const Member *m) {
  return !p->signature || !m->signature || m->is_partitioned || p->signature == m->signature;
}

static int find_program(Grouping *g, uint64_t key, const Member *m, const char *name) {
  MapWalk walk = map_walk(&g->by_key, key);
  int n = 0;
  for (uint64_t k; (k = map_next(&walk)); n++)
    if (fits(&g->programs.at[k - 1], m)) {
      Program *p = &g->programs.at[k - 1];
      p->signature = p->signature || m->is_partitioned ? p->signature : m->signature;
      return (int)k;
    }
  Program fresh = {.name = name,
                   .folder = m->dump.folder,
                   .number = m->dump.number,
                   .stamp = m->dump.stamp,
                   .ms = -1};
  fresh.signature = m->is_partitioned ? 0 : m->signature;
  fresh.is_xla = m->dump.is_numbered && !m->dump.is_jax;
  fresh.note =
      n == 0 ? "" : "another program has the same number and name: other parameters or results";
  return new_program(g, key, &fresh);
}

static void place(Grouping *g, Member *m, int program) {
  m->program = program;
  g->programs.at[program - 1].has_jax[m->stage] |= m->dump.is_jax;
}

static void place_xla(Grouping *g, Member *m) {
  const char *name = name_of(g, m);
  const char *key = hl_arena_printf(g->arena, "x%s|%lld|%lld|%s", m->dump.folder,
                                    (long long)m->dump.stamp, (long long)m->dump.number, name);
  place(g, m, find_program(g, key_of(key), m, name));
}

// What no name of a state tells, say a kernel's program: the module's name is some part of it, up to a dot.
static void place_beside(Grouping *g, Member *m) {
  char *name = hl_arena_printf(g->arena, "%s.%s", m->dump.name, m->dump.label);
  for (char *dot; (dot = strrchr(name, '.'));) {
    *dot = 0;
    const char *key = hl_arena_printf(g->arena, "x%s|%lld|%lld|%s", m->dump.folder,
                                      (long long)m->dump.stamp, (long long)m->dump.number, name);
    MapWalk walk = map_walk(&g->by_key, key_of(key));
    const uint64_t there = map_next(&walk);
    if (there) {
      place(g, m, (int)there);
      return;
    }
  }
  place_xla(g, m);
}

static void place_by_words(Grouping *g, Member *m) {
  const bool plain = !*m->dump.name;
  const char *name = plain ? (*m->module ? m->module : m->path) : m->dump.name;
  const char *key = hl_arena_printf(g->arena, "w%s|%s", m->dump.folder, m->dump.name);
  MapWalk walk = map_walk(&g->by_key, key_of(key));
  const uint64_t there = map_next(&walk);
  if (there) {
    place(g, m, (int)there);
    return;
  }
  const Program fresh = {
      .name = name, .folder = m->dump.folder, .number = -1, .ms = -1, .note = ""};
  place(g, m, new_program(g, key_of(key), &fresh));
}

// --- JAX's own files ----------------------------------------------------------------------------

// Function names as all forms can have them: what is no letter or digit is '_'; what tells how it was compiled is left out.
static const char *function_of(HlArena *arena, const char *name) {
  static const char *const ways[] = {"jit_", "pjit_", "pmap_", "xla_computation_"};
  for (int k = 0; k < HL_COUNT_OF(ways); k++)
    if (strncmp(name, ways[k], strlen(ways[k])) == 0) {
      name += strlen(ways[k]);
      break;
    }
  char *plain = hl_arena_strndup(arena, name, strlen(name));
  size_t n = 0;
  for (const char *c = name; *c; c++)
    if (is_alnum(*c) || (n > 0 && plain[n - 1] != '_'))
      plain[n++] = is_alnum(*c) ? *c : '_';
  while (n > 0 && plain[n - 1] == '_')
    n--;
  plain[n] = 0;
  return plain;
}

// Whether one folder is the other, or above it, or beside it in the same one.
static bool are_near(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;
  if (strncmp(a, b, least) == 0 && (n == m || least == 0 || (n < m ? b : a)[least] == '/'))
    return true;
  const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
  const size_t up_a = x ? (size_t)(x - a) : 0, up_b = y ? (size_t)(y - b) : 0;
  return up_a == up_b && strncmp(a, b, up_a) == 0;
}

typedef struct JaxNames {
  Map programs,
      members;  // hash of a function's name: 1 + a program of XLA's (several); how many JAX files of a stage have it
} JaxNames;

static uint64_t function_key(Grouping *g, const char *name, int extra) {
  return key_of(hl_arena_printf(g->arena, "f%d%s", extra, function_of(g->arena, name)));
}

// The first program that a jaxpr or StableHLO can be of: nearby, of its name and types, without one yet. Parameters that are
// not used are gone from HLO, so where there is one of the name on both sides, types do not matter.
static int partner_of(Grouping *g, const JaxNames *names, const Member *m) {
  MapWalk walk = map_walk(&names->programs, function_key(g, m->dump.name, 0));
  int n = 0, only = 0;
  for (uint64_t k; (k = map_next(&walk));) {
    const Program *p = &g->programs.at[k - 1];
    if (p->has_jax[m->stage] || !are_near(p->folder, m->dump.folder))
      continue;
    if (p->signature && m->signature && p->signature == m->signature)
      return (int)k;
    n++;
    only = (int)k;
  }
  const bool is_only =
      n == 1 && map_get(&names->members, function_key(g, m->dump.name, 1 + (int)m->stage)) == 1;
  return is_only ? only : 0;
}

static void place_jax(Grouping *g, const JaxNames *names, Member *m) {
  int program = partner_of(g, names, m);
  if (!program) {
    const Program fresh = {.name = m->dump.name,
                           .folder = m->dump.folder,
                           .number = m->dump.number,
                           .ms = -1,
                           .signature = m->signature,
                           .note = ""};
    program = new_program(g, function_key(g, m->dump.name, 100), &fresh);
    map_add((Map *)&names->programs, function_key(g, m->dump.name, 0), (uint64_t)program);
  }
  place(g, m, program);
}

static int by_jax_number(const void *a, const void *b) {
  const Member *x = *(Member *const *)a, *y = *(Member *const *)b;
  if (x->stage != y->stage)
    return x->stage == HL_STAGE_STABLEHLO ? -1 : 1;
  if (x->dump.number != y->dump.number)
    return x->dump.number < y->dump.number ? -1 : 1;
  return strcmp(x->path, y->path);
}

static int by_number(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : x[1] > y[1];
}

static void place_all_jax(Grouping *g) {
  JaxNames names = {.programs.arena = g->arena, .members.arena = g->arena};
  int64_t(*order)[2] = hl_arena_alloc(g->arena, sizeof *order * (size_t)(g->programs.n + 1));
  for (int k = 0; k < g->programs.n; k++) {
    order[k][0] = g->programs.at[k].number;
    order[k][1] = k;
  }
  if (g->programs.n > 0)
    qsort(order, (size_t)g->programs.n, sizeof *order, by_number);
  for (int k = 0; k < g->programs.n; k++)
    if (g->programs.at[order[k][1]].is_xla)
      map_add(&names.programs, function_key(g, g->programs.at[order[k][1]].name, 0),
              1 + (uint64_t)order[k][1]);
  Member **jax = HL_ARRAY(g->arena, Member *, g->members.n + 1);
  int n = 0;
  for (int k = 0; k < g->members.n; k++) {
    Member *m = &g->members.at[k];
    if (!m->dump.is_jax)
      continue;
    jax[n++] = m;
    ++*map_at(&names.members, function_key(g, m->dump.name, 1 + (int)m->stage));
  }
  if (n > 0)
    qsort(jax, (size_t)n, sizeof *jax, by_jax_number);
  for (int k = 0; k < n; k++)
    place_jax(g, &names, jax[k]);
}

// --- Times --------------------------------------------------------------------------------------

static uint64_t time_key(Grouping *g, const char *folder, int64_t number, const char *name) {
  return key_of(hl_arena_printf(g->arena, "%s|%lld|%s", folder, (long long)number, name));
}

static void note_time(Grouping *g, uint64_t key, double ms) {
  vec_push_in(g->arena, &g->ms, ms);
  *map_at(&g->times, key) = (uint64_t)g->ms.n;
}

// The lines of hilo-index.jsonl: {"module":3,"name":"jit_f",...,"ms":1.5,...}; a later line of a module counts.
static void take_line(Grouping *g, const char *folder, const char *line) {
  long long number = -1;
  int end = 0;
  const char *ms = strstr(line, "\"ms\":");
  if (sscanf(line, "{\"module\":%lld,\"name\":\"%n", &number, &end) < 1 || end == 0 || !ms)
    return;
  const size_t n = strcspn(line + end, "\"\\");
  const char *name = file_safe(g->arena, hl_arena_strndup(g->arena, line + end, n));
  char *stop;
  note_time(g, time_key(g, folder, number, name), base_read_double(ms + 5, &stop));
}

static void take_lines(Grouping *g, const Member *m) {
  const int n = hl_cx_n_diags(g->cx);
  HlSource *source =
      hl_read_file(g->cx, hl_arena_printf(g->arena, "%s/%s", g->index->real, m->path));
  hl_cx_forget(g->cx, n);
  const HlStr text = source ? hl_source_bytes(source) : (HlStr){"", 0};
  for (size_t at = 0; at < text.n;) {
    const char *newline = memchr(text.at + at, '\n', text.n - at);
    const size_t length = newline ? (size_t)(newline - text.at) - at : text.n - at;
    take_line(g, m->dump.folder, hl_arena_strndup(g->arena, text.at + at, length));
    at += length + 1;
  }
  hl_source_unref(source);
}

static void take_times(Grouping *g) {
  for (int k = 0; k < g->members.n; k++) {
    const Member *m = &g->members.at[k];
    if (m->ms > 0 && m->dump.number >= 0)
      note_time(g, time_key(g, m->dump.folder, m->dump.number, ""), m->ms);
    else if (is_own_list(m->path))
      take_lines(g, m);
  }
  for (int k = 0; k < g->programs.n; k++) {
    Program *p = &g->programs.at[k];
    uint64_t at = map_get(&g->times, time_key(g, p->folder, p->number, p->name));
    at = at ? at : map_get(&g->times, time_key(g, p->folder, p->number, ""));
    p->ms = at && p->is_xla ? g->ms.at[at - 1] : -1;
  }
}

// --- Into the index -----------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
  const Program *x = *(Program *const *)a, *y = *(Program *const *)b;
  const int folder = strcmp(x->folder, y->folder);
  if (folder)
    return folder;
  if (x->stamp != y->stamp)
    return x->stamp < y->stamp ? -1 : 1;
  if (x->number != y->number)
    return x->number < y->number ? -1 : 1;
  const int name = strcmp(x->name, y->name);
  return name ? name : x < y ? -1 : x > y;
}

static void number_programs(Grouping *g) {
  Program **order = HL_ARRAY(g->arena, Program *, g->programs.n + 1);
  for (int k = 0; k < g->programs.n; k++)
    order[k] = &g->programs.at[k];
  if (g->programs.n > 0)
    qsort(order, (size_t)g->programs.n, sizeof *order, by_place);
  for (int k = 0; k < g->programs.n; k++)
    order[k]->id = k + 1;
}

static bool put_programs(Grouping *g) {
  number_programs(g);
  SqlQuery *q = sql_query(g->cx, g->index->db,
                          "INSERT INTO program(id, name, folder, number, stamp, ms, note) "
                          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  bool ok = q && sql_run(g->cx, g->index->db, "DELETE FROM program");
  for (int k = 0; ok && k < g->programs.n; k++) {
    const Program *p = &g->programs.at[k];
    sql_set_int(q, 1, p->id);
    sql_set_text(q, 2, p->name);
    sql_set_text(q, 3, p->folder);
    sql_set_int(q, 4, p->number);
    sql_set_int(q, 5, p->stamp);
    sql_set_double(q, 6, p->ms);
    sql_set_text(q, 7, p->note);
    ok = sql_do(g->cx, q);
  }
  sql_end(q);
  return ok;
}

static bool put_members(Grouping *g) {
  SqlQuery *q = sql_query(g->cx, g->index->db,
                          "UPDATE file SET program = ?2 WHERE id = ?1 AND program IS NOT ?2");
  bool ok = q && sql_run(g->cx, g->index->db,
                         "UPDATE file SET program = 0 WHERE state = 1 AND program IS NOT 0");
  for (int k = 0; ok && k < g->members.n; k++) {
    sql_set_int(q, 1, g->members.at[k].id);
    const int program = g->members.at[k].program;
    sql_set_int(q, 2, program ? g->programs.at[program - 1].id : 0);
    ok = sql_do(g->cx, q);
  }
  sql_end(q);
  return ok;
}

// States that came in are placed first: they say of which types the program is. Last what only its content tells of.
static void place_all(Grouping *g) {
  for (int turn = 0; turn < 3; turn++)
    for (int k = 0; k < g->members.n; k++) {
      Member *m = &g->members.at[k];
      const int when = m->stage == HL_STAGE_BEFORE ? 0 : m->dump.is_report ? 2 : 1;
      if (m->ms > 0 || when != turn || m->dump.is_jax || is_own_list(m->path))
        continue;
      if (m->dump.is_report)
        place_beside(g, m);
      else if (m->dump.is_numbered)
        place_xla(g, m);
      else
        place_by_words(g, m);
    }
  place_all_jax(g);
}

bool index_group(HlCx *cx, HlIndex *index) {
  Grouping g = {.cx = cx, .index = index, .arena = hl_arena_new()};
  g.by_key.arena = g.times.arena = g.arena;
  bool ok = read_members(&g);
  if (ok) {
    place_all(&g);
    take_times(&g);
    ok = put_programs(&g) && put_members(&g);
  }
  hl_arena_free(g.arena);
  return ok;
}
