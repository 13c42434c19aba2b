// tool/dumps/find.c: finds modules, computations and instructions by the index.
//
// Every term is asked of every string of the index once, which gives a bit a string (two, where an op is meant as a whole
// word). Then of a module its list of strings tells whether any term can hold at all, which few modules pass; and of those that do,
// the columns of their instructions are compared with bits of the local strings.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "tool/dumps/index.h"
#include "tool/regex.h"

// --- Terms --------------------------------------------------------------------------------------

// What a string can be for a term.
enum { AS_PART = 1, AS_OP = 2, AS_SHAPE = 4, AS_FILE = 8 };

typedef struct Term {
  HlFindField field;
  const char *text;  // as it is compared
  Regex *regex;
  uint8_t *bits;        // AS_*, by string of the index
  const char *file;     // of a source; "": any
  int64_t first, last;  // its lines; last 0: any
  bool has_place;       // it may be meant as a source, too: HL_FIND_ANYWHERE
} Term;

typedef struct Find {
  HlCx *cx;
  HlIndex *index;
  const HlFindQuery *query;
  HlFindShow *show;
  void *user;
  HlFindResult *out;
  HlArena *arena;
  Term *terms;
  bool gave_up, shows;
  int64_t last_program;
} Find;

static const char *folded(HlArena *arena, const char *text) {
  char *low = hl_arena_strndup(arena, text, strlen(text));
  for (char *c = low; *c; c++)
    *c = to_lower(*c);
  return low;
}

// FILE:LINE, FILE:FIRST-LAST, :LINE; without lines all of it is the file.
static bool read_place(HlArena *arena, const char *text, Term *out) {
  const char *colon = strrchr(text, ':');
  char *end;
  out->file = text;
  if (!colon || colon[1] < '0' || colon[1] > '9')
    return false;
  out->first = out->last = strtoll(colon + 1, &end, 10);
  if (*end == '-' && end[1] >= '0' && end[1] <= '9')
    out->last = strtoll(end + 1, &end, 10);
  if (*end) {
    out->first = out->last = 0;
    return false;
  }
  out->file = hl_arena_strndup(arena, text, (size_t)(colon - text));
  return true;
}

static bool check_ops(HlCx *cx, const char *words) {
  for (const char *at = words; *at;) {
    const size_t n = strcspn(at, ",");
    if (n > 0 && hl_op_by_text((HlStr){at, n}) == HL_OP_COUNT) {
      const char *all[HL_OP_COUNT];
      for (int k = 0; k < HL_OP_COUNT; k++)
        all[k] = hl_op_text((HlOp)k);
      hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "unknown op '%.*s'", (int)n, at);
      const char *near = hl_nearest((HlStr){at, n}, all, HL_OP_COUNT);
      if (near)
        hl_hint(cx, "did you mean '%s'?", near);
      return false;
    }
    at += n + (at[n] == ',');
  }
  return true;
}

static bool make_term(Find *f, const HlFindTerm *from, Term *out) {
  const bool fold = f->query->ignore_case;
  *out = (Term){.field = from->field, .file = ""};
  const char *text = from->text;
  if (from->field == HL_FIND_NAME && *text == '%')
    text++;
  if (from->field == HL_FIND_SOURCE || from->field == HL_FIND_ANYWHERE)
    out->has_place = read_place(f->arena, text, out);
  if (from->field == HL_FIND_SOURCE)
    text = out->file;
  if (f->query->is_regex && *text) {
    out->regex = (fold ? regex_new_folded : regex_new)(f->cx, "find", text);
    out->text = text;
    return out->regex != NULL;
  }
  out->text = fold ? folded(f->arena, text) : text;
  out->file = fold ? folded(f->arena, out->file) : out->file;
  return from->field != HL_FIND_OP || check_ops(f->cx, out->text);
}

// --- Strings ------------------------------------------------------------------------------------

static bool has_part(HlStr text, const char *part) {
  return memmem(text.at, text.n, part, strlen(part)) != NULL;
}

static bool is_word_of(HlStr text, const char *words) {
  for (const char *at = words; *at;) {
    const size_t n = strcspn(at, ",");
    if (hl_str_equal(text, (HlStr){at, n}))
      return true;
    at += n + (at[n] == ',');
  }
  return false;
}

// The path, or the end of it from a folder on.
static bool is_file(HlStr text, const char *file) {
  const size_t n = strlen(file);
  if (n == 0)
    return true;
  return text.n >= n && memcmp(text.at + text.n - n, file, n) == 0 &&
         (text.n == n || text.at[text.n - n - 1] == '/' || file[0] == '/');
}

// One array of a shape against a pattern: '*' in the brackets stands for one size, alone there for any; without brackets any
// dimensions will do, without braces any layout.
static bool array_fits(HlStr shape, const char *pattern) {
  size_t k = 0;
  for (; *pattern && *pattern != '*'; pattern++, k++)
    if (k >= shape.n || shape.at[k] != *pattern)
      return false;
  if (!*pattern)
    return k == shape.n || (pattern[-1] != ']' ? shape.at[k] == '[' : shape.at[k] == '{');
  if (pattern[1] == ']' && pattern[-1] == '[') {  // [*]: any rank
    while (k < shape.n && shape.at[k] != ']')
      k++;
  } else {
    while (k < shape.n && shape.at[k] != ',' && shape.at[k] != ']')
      k++;
  }
  return array_fits((HlStr){shape.at + k, shape.n - k}, pattern + 1) ||
         (!pattern[1] && k < shape.n && shape.at[k] == ']');
}

// The arrays of a shape: what stands between parentheses and commas outside of brackets and braces.
static bool shape_fits(HlStr shape, const char *pattern) {
  if (strchr(pattern, '('))
    return has_part(shape, pattern);
  size_t start = 0;
  int depth = 0;
  for (size_t k = 0; k <= shape.n; k++) {
    const char c = k < shape.n ? shape.at[k] : ',';
    depth += c == '[' || c == '{';
    depth -= c == ']' || c == '}';
    if (depth == 0 && (c == ',' || c == '(' || c == ')' || c == ' ' || c == '/')) {
      if (k > start && *pattern && array_fits((HlStr){shape.at + start, k - start}, pattern))
        return true;
      start = k + 1;
    }
  }
  return false;
}

static uint8_t bits_of(Find *f, const Term *t, HlStr text) {
  if (t->regex)
    return regex_finds(t->regex, text, &f->gave_up) ? AS_PART | AS_OP | AS_SHAPE | AS_FILE : 0;
  HlBuf low = {0};
  if (f->query->ignore_case) {
    hl_buf_add(&low, text.at, text.n);
    for (size_t k = 0; k < low.n; k++)
      low.at[k] = to_lower(low.at[k]);
    text = (HlStr){low.at, low.n};
  }
  uint8_t bits = 0;
  switch (t->field) {
  case HL_FIND_OP: bits = is_word_of(text, t->text) ? AS_OP : 0; break;
  case HL_FIND_SHAPE: bits = shape_fits(text, t->text) ? AS_SHAPE : 0; break;
  case HL_FIND_SOURCE: bits = is_file(text, t->file) ? AS_FILE : 0; break;
  case HL_FIND_ANYWHERE:
    bits = (uint8_t)((has_part(text, t->text) ? AS_PART | AS_SHAPE : 0) |
                     (hl_str_is(text, t->text) ? AS_OP : 0) |
                     (t->has_place && is_file(text, t->file) ? AS_FILE : 0));
    break;
  default: bits = has_part(text, t->text) ? AS_PART : 0;
  }
  hl_buf_free(&low);
  return bits;
}

static bool ask_strings(Find *f) {
  const IndexStrings *s = &f->index->strings;
  for (int k = 0; k < f->query->n_terms; k++) {
    Term *t = &f->terms[k];
    uint32_t step = 0;
    t->bits = HL_ARRAY(f->arena, uint8_t, s->at.n + 1);
    for (int j = 0; j < s->at.n; j++) {
      base_look_often(&step);
      t->bits[j] = j > 0 || t->field == HL_FIND_SOURCE ? bits_of(f, t, s->at.at[j]) : 0;
    }
  }
  return !f->gave_up ||
         hl_error_kind(f->cx, HL_LIMIT, (HlPos){0},
                       "the regular expression takes too long; expected a simpler one");
}

// --- One module ---------------------------------------------------------------------------------

typedef struct Searched {
  int64_t id, program;
  const char *path, *name;
  HlDumpStage stage;
  int64_t instructions;
  HlStr blob;
  IndexView view;
  const uint8_t **bits;   // of each term, by local string
  uint8_t *term_on;       // of each term: how it holds for the whole module: by file or module name
  const bool **frame_on;  // of each term: by frame
  uint32_t *comp_of;      // by instruction
} Searched;

// Whether a name of the module itself is enough for the term.
static bool holds_for_module(Find *f, const Term *t, const Searched *m) {
  if (t->field == HL_FIND_FILE)
    return bits_of(f, t, hl_str(m->path)) != 0;
  return (t->field == HL_FIND_MODULE || t->field == HL_FIND_ANYWHERE) &&
         (bits_of(f, t, hl_str(m->name)) & AS_PART);
}

static bool is_for_whole(HlFindField field) {
  return field == HL_FIND_MODULE || field == HL_FIND_FILE;
}

// False: some term cannot hold.
static bool ask_module(Find *f, HlArena *arena, Searched *m) {
  const int n = f->query->n_terms;
  m->term_on = HL_ARRAY(arena, uint8_t, n + 1);
  m->bits = HL_ARRAY(arena, const uint8_t *, n + 1);
  for (int k = 0; k < n; k++) {
    const Term *t = &f->terms[k];
    m->term_on[k] = holds_for_module(f, t, m);
    if (is_for_whole(t->field) && !m->term_on[k])
      return false;
    uint8_t any = m->term_on[k], *bits = HL_ARRAY(arena, uint8_t, m->view.n_strings + 1);
    for (uint32_t s = 0; s < m->view.n_strings; s++) {
      bits[s] =
          m->view.strings[s] < (uint32_t)f->index->strings.at.n ? t->bits[m->view.strings[s]] : 0;
      any |= bits[s];
    }
    m->bits[k] = bits;
    if (!any)
      return false;
  }
  return true;
}

static bool lines_fit(const Term *t, int64_t line, int64_t more) {
  return t->last == 0 || (line > 0 && line <= t->last && line + more >= t->first);
}

// Which frames, or those they were called from, are the place of a term.
static void ask_frames(Find *f, HlArena *arena, Searched *m) {
  m->frame_on = HL_ARRAY(arena, const bool *, f->query->n_terms + 1);
  for (int k = 0; k < f->query->n_terms; k++) {
    bool *on = HL_ARRAY(arena, bool, m->view.n_frames + 1);
    for (uint32_t j = 1; j <= m->view.n_frames; j++) {
      const IndexFrame *frame = &m->view.frames[j];
      on[j] = on[frame->parent] || (frame->file && (m->bits[k][frame->file] & AS_FILE) &&
                                    lines_fit(&f->terms[k], frame->line, frame->lines));
    }
    m->frame_on[k] = on;
  }
}

static bool is_at_place(const Term *t, int k, const Searched *m, uint32_t i) {
  const IndexView *v = &m->view;
  const uint32_t file = v->column[INDEX_SOURCE][i];
  return m->frame_on[k][v->column[INDEX_FRAME][i]] ||
         (file && (m->bits[k][file] & AS_FILE) &&
          lines_fit(t, v->column[INDEX_LINE][i], v->column[INDEX_LINES][i]));
}

// A word anywhere holds for an instruction where it holds for something of its own; the name of its module or file is for
// all of it.
static bool holds(const Find *f, int k, const Searched *m, uint32_t i) {
  const Term *t = &f->terms[k];
  const IndexView *v = &m->view;
  const uint8_t *bits = m->bits[k];
  switch (t->field) {
  case HL_FIND_NAME: return bits[v->column[INDEX_NAME][i]] & AS_PART;
  case HL_FIND_OP: return bits[v->column[INDEX_OP][i]] & AS_OP;
  case HL_FIND_SHAPE: return bits[v->column[INDEX_SHAPE][i]] & AS_SHAPE;
  case HL_FIND_SCOPE: return bits[v->column[INDEX_SCOPE][i]] & AS_PART;
  case HL_FIND_SOURCE: return is_at_place(t, k, m, i);
  case HL_FIND_TARGET:
    return v->column[INDEX_DETAIL][i] && (bits[v->column[INDEX_DETAIL][i]] & AS_PART);
  case HL_FIND_MODULE:
  case HL_FIND_FILE: return m->term_on[k];
  default:
    return ((bits[v->column[INDEX_NAME][i]] | bits[v->column[INDEX_SCOPE][i]] |
             bits[v->column[INDEX_SOURCE][i]] | bits[v->column[INDEX_DETAIL][i]] |
             bits[v->column[INDEX_SHAPE][i]]) &
            AS_PART) ||
           (bits[v->column[INDEX_OP][i]] & AS_OP) || (t->has_place && is_at_place(t, k, m, i));
  }
}

static bool comp_holds(const Find *f, int k, const Searched *m, const IndexComp *comp) {
  const HlFindField field = f->terms[k].field;
  if (is_for_whole(field))
    return m->term_on[k];
  return (field == HL_FIND_NAME || field == HL_FIND_ANYWHERE) && (m->bits[k][comp->name] & AS_PART);
}

// --- What is found ------------------------------------------------------------------------------

static const char *string_of(const Find *f, const Searched *m, uint32_t local) {
  const uint32_t id = m->view.strings[local];
  return id < (uint32_t)f->index->strings.at.n ? f->index->strings.at.at[id].at : "";
}

static void show(Find *f, const HlFound *found) {
  f->out->found++;
  if (f->shows)
    f->shows = f->show(f->user, found);
}

static HlFound found_in(const Find *f, const Searched *m, HlFoundKind kind) {
  HlFound out = {.kind = kind, .path = m->path, .stage = m->stage, .module = m->name};
  out.computation = out.name = out.caller = out.op = out.shape = out.scope = out.source =
      out.target = "";
  return out;
}

static void add_computation(const Find *f, const Searched *m, uint32_t c, HlFound *out) {
  const IndexComp *comp = &m->view.comps[c];
  out->computation = string_of(f, m, comp->name);
  out->is_entry = comp->flags & INDEX_COMP_ENTRY;
  out->is_fused = comp->flags & INDEX_COMP_FUSION;
  if (comp->caller)
    out->caller = string_of(f, m, m->view.column[INDEX_NAME][comp->caller - 1]);
}

static HlFound describe(const Find *f, const Searched *m, uint32_t i) {
  const IndexView *v = &m->view;
  HlFound out = found_in(f, m, HL_FOUND_INSTRUCTION);
  add_computation(f, m, m->comp_of[i], &out);
  out.name = string_of(f, m, v->column[INDEX_NAME][i]);
  out.op = string_of(f, m, v->column[INDEX_OP][i]);
  out.shape = string_of(f, m, v->column[INDEX_SHAPE][i]);
  out.scope = string_of(f, m, v->column[INDEX_SCOPE][i]);
  out.target = string_of(f, m, v->column[INDEX_DETAIL][i]);
  out.source = string_of(f, m, v->column[INDEX_SOURCE][i]);
  out.source_line = v->column[INDEX_LINE][i];
  out.line = v->column[INDEX_PLACE][i];
  const IndexFrame *frame = &v->frames[v->column[INDEX_FRAME][i]];
  if (!*out.source && v->column[INDEX_FRAME][i]) {
    out.source = string_of(f, m, frame->file);
    out.source_line = frame->line;
  }
  return out;
}

static bool number_comps(HlArena *arena, Searched *m) {
  uint32_t i = 0;
  m->comp_of = HL_ARRAY(arena, uint32_t, m->view.n + 1);
  for (uint32_t c = 0; c < m->view.n_comps; c++)
    for (uint32_t k = 0; k < m->view.comps[c].n; k++)
      m->comp_of[i++] = c;
  return i == m->view.n;
}

// --- Counterparts -------------------------------------------------------------------------------

enum { MOST_COUNTERPARTS = 8 };  // of a file

// The other forms of a program, read when they are first asked for.
typedef struct Others {
  int64_t program;
  HlArena *arena;
  VEC(Searched) at;
} Others;

static void others_free(Others *o) {
  hl_arena_free(o->arena);
  vec_free(&o->at);
  *o = (Others){0};
}

static bool damaged(Find *f, const char *path) {
  return hl_error(f->cx, (HlPos){0},
                  "what the index has of %s is damaged; 'hilo index --anew' makes it again", path);
}

static bool view_all(Find *f, HlArena *arena, Searched *m) {
  size_t body;
  return (index_view_strings(arena, m->blob, &m->view, &body) &&
          index_view_body(arena, m->blob, body, &m->view) && number_comps(arena, m)) ||
         damaged(f, m->path);
}

static const char *keep(HlArena *arena, const char *text) {
  return hl_arena_strndup(arena, text, strlen(text));
}

// A row of the query below, copied.
static Searched take_row(HlArena *arena, const SqlQuery *q) {
  const HlStr blob = sql_blob(q, 6);
  return (Searched){.id = sql_int(q, 0),
                    .path = keep(arena, sql_text(q, 1)),
                    .stage = index_stage(sql_int(q, 2)),
                    .program = sql_int(q, 3),
                    .name = keep(arena, sql_text(q, 4)),
                    .instructions = sql_int(q, 5),
                    .blob = {hl_arena_copy(arena, blob.at, blob.n), blob.n}};
}

#define ROWS                                                                                  \
  "SELECT module.id, file.path, file.stage, file.program, module.name, module.instructions, " \
  "record.data "                                                                              \
  "FROM file JOIN module ON module.content = file.content JOIN record ON record.module = "    \
  "module.id "

static bool read_others(Find *f, int64_t program, Others *o) {
  if (o->program == program)
    return true;
  others_free(o);
  o->program = program;
  o->arena = hl_arena_new();
  SqlQuery *q = sql_query(f->cx, f->index->db,
                          ROWS "WHERE file.program = ?1 AND file.stage IN (1, 2, 3, 5) ORDER BY "
                               "file.stage, file.path, module.k");
  if (!q)
    return false;
  sql_set_int(q, 1, program);
  SqlStep step;
  bool ok = true;
  while (ok && (step = sql_step(f->cx, q)) == SQL_ROW) {
    Searched m = take_row(o->arena, q);
    ok = view_all(f, o->arena, &m);
    vec_push(&o->at, m);
  }
  sql_end(q);
  return ok && step == SQL_DONE;
}

// What an instruction has to have in common with another: scope and place, as strings of the index.
typedef struct Mark {
  uint32_t scope, source, line;
} Mark;

static Mark mark_of(const Searched *m, uint32_t i) {
  const IndexView *v = &m->view;
  Mark mark = {v->strings[v->column[INDEX_SCOPE][i]], v->strings[v->column[INDEX_SOURCE][i]],
               v->column[INDEX_LINE][i]};
  const uint32_t frame = v->column[INDEX_FRAME][i];
  if (!mark.source && frame) {
    mark.source = v->strings[v->frames[frame].file];
    mark.line = v->frames[frame].line;
  }
  return mark;
}

// A jaxpr knows nothing of the scopes around its function: of a scope the primitive counts, its last part.
static HlStr cut_scope(const Find *f, uint32_t scope) {
  const HlStr text = f->index->strings.at.at[scope];
  const char *slash = memrchr(text.at, '/', text.n);
  return slash ? (HlStr){slash + 1, text.n - (size_t)(slash + 1 - text.at)} : text;
}

static bool are_counterparts(const Find *f, Mark a, Mark b, bool cut) {
  if (!a.scope || !b.scope)
    return false;
  if (cut)
    return hl_str_equal(cut_scope(f, a.scope), cut_scope(f, b.scope));
  return a.scope == b.scope &&
         (!a.source || !b.source || (a.source == b.source && a.line == b.line));
}

// A mark with what computes it there: where several have one mark, those that are of the same op and dimensions are meant.
typedef struct Part {
  Mark mark;
  uint32_t op, shape;
  bool has_twin;  // in the module that is looked at
} Part;
typedef VEC(Part) Parts;

static bool same_dimensions(const Find *f, uint32_t a, uint32_t b) {
  const char *x = f->index->strings.at.at[a].at, *y = f->index->strings.at.at[b].at;
  const size_t n = strcspn(x, "{");
  return a == b || (*x != '(' && n == strcspn(y, "{") && memcmp(x, y, n) == 0);
}

static bool are_twins(const Find *f, const Part *a, const Part *b) {
  return a->op == b->op && same_dimensions(f, a->shape, b->shape);
}

static Part part_of(const Searched *m, uint32_t i) {
  const IndexView *v = &m->view;
  return (Part){mark_of(m, i), v->strings[v->column[INDEX_OP][i]],
                v->strings[v->column[INDEX_SHAPE][i]], false};
}

static void add_part(HlArena *arena, Parts *parts, const Part *part) {
  for (int k = 0; k < parts->n; k++)
    if (memcmp(&parts->at[k].mark, &part->mark, sizeof part->mark) == 0 &&
        parts->at[k].op == part->op && parts->at[k].shape == part->shape)
      return;
  vec_push_in(arena, parts, *part);
}

// An instruction and, where it is a fusion, what is in it.
static Parts parts_of(HlArena *arena, const Searched *m, uint32_t i) {
  Parts parts = {0};
  const Part whole = part_of(m, i);
  uint32_t first = 0;
  for (uint32_t c = 0; c < m->view.n_comps; first += m->view.comps[c++].n)
    if ((m->view.comps[c].flags & INDEX_COMP_FUSION) && m->view.comps[c].caller == i + 1)
      for (uint32_t k = first; k < first + m->view.comps[c].n; k++) {
        const Part part = part_of(m, k);
        add_part(arena, &parts, &part);
      }
  if (parts.n == 0)
    add_part(arena, &parts, &whole);
  return parts;
}

static void find_twins(const Find *f, Parts *parts, const Searched *other, bool cut) {
  for (int k = 0; k < parts->n; k++)
    parts->at[k].has_twin = false;
  for (uint32_t j = 0; j < other->view.n; j++) {
    const Part part = part_of(other, j);
    for (int k = 0; k < parts->n; k++)
      parts->at[k].has_twin |= are_counterparts(f, parts->at[k].mark, part.mark, cut) &&
                               are_twins(f, &parts->at[k], &part);
  }
}

static void add_counterparts(const Find *f, const Searched *m, Parts *parts, const Searched *other,
                             HlFound *list, HlFound *out) {
  const bool cut = m->stage == HL_STAGE_JAXPR || other->stage == HL_STAGE_JAXPR;
  const int most = out->n_counterparts + MOST_COUNTERPARTS;
  find_twins(f, parts, other, cut);
  for (uint32_t j = 0; j < other->view.n; j++) {
    const Part part = part_of(other, j);
    int k = 0;
    while (k < parts->n &&
           !(are_counterparts(f, parts->at[k].mark, part.mark, cut) &&
             ((!parts->at[k].has_twin && !cut) || are_twins(f, &parts->at[k], &part))))
      k++;
    if (k == parts->n)
      continue;
    if (out->n_counterparts < most)
      list[out->n_counterparts++] = describe(f, other, j);
    else
      out->more_counterparts++;
  }
}

static bool has_lines(const Searched *m) {
  return m->view.n > 0 && m->view.column[INDEX_PLACE][0] > 0;
}

// The same state in another form, which has lines or comes first.
static bool is_said_elsewhere(const Others *others, int k) {
  const Searched *m = &others->at.at[k];
  for (int j = 0; j < others->at.n; j++) {
    const Searched *o = &others->at.at[j];
    if (j != k && o->stage == m->stage && o->view.n == m->view.n && strcmp(o->name, m->name) == 0 &&
        (has_lines(o) != has_lines(m) ? has_lines(o) : j < k))
      return true;
  }
  return false;
}

static void add_stack(const Find *f, HlArena *arena, const Searched *m, uint32_t i, HlFound *out) {
  const IndexView *v = &m->view;
  uint32_t n = 0;
  for (uint32_t k = v->column[INDEX_FRAME][i]; k; k = v->frames[k].parent)
    n++;
  HlFoundPlace *stack = HL_ARRAY(arena, HlFoundPlace, n + 1);
  n = 0;
  for (uint32_t k = v->column[INDEX_FRAME][i]; k; k = v->frames[k].parent)
    stack[n++] = (HlFoundPlace){string_of(f, m, v->frames[k].function),
                                string_of(f, m, v->frames[k].file), v->frames[k].line};
  out->stack = stack;
  out->n_stack = (int)n;
}

static int by_count(const void *a, const void *b) {
  const HlFoundSource *x = a, *y = b;
  if (x->instructions != y->instructions)
    return x->instructions > y->instructions ? -1 : 1;
  const int order = strcmp(x->file, y->file);
  return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

// Of a fusion the lines of what is in it.
static void add_sources(const Find *f, HlArena *arena, const Searched *m, uint32_t i,
                        HlFound *out) {
  VEC(HlFoundSource) sources = {0};
  Map seen = {.arena = arena};
  uint32_t first = 0;
  for (uint32_t c = 0; c < m->view.n_comps; first += m->view.comps[c++].n) {
    if (!(m->view.comps[c].flags & INDEX_COMP_FUSION) || m->view.comps[c].caller != i + 1)
      continue;
    for (uint32_t k = first; k < first + m->view.comps[c].n; k++) {
      const Mark mark = mark_of(m, k);
      if (!mark.source)
        continue;
      uint64_t *at = map_at(&seen, (uint64_t)mark.source << 32 | mark.line);
      if (!*at) {
        const HlFoundSource one = {f->index->strings.at.at[mark.source].at, mark.line, 0};
        vec_push_in(arena, &sources, one);
        *at = (uint64_t)sources.n;
      }
      sources.at[*at - 1].instructions++;
    }
  }
  if (sources.n > 0)
    qsort(sources.at, (size_t)sources.n, sizeof *sources.at, by_count);
  out->sources = sources.at;
  out->n_sources = sources.n;
}

static bool add_trace(Find *f, HlArena *arena, Others *others, const Searched *m, uint32_t i,
                      HlFound *out) {
  add_stack(f, arena, m, i, out);
  add_sources(f, arena, m, i, out);
  if (m->program <= 0)
    return true;
  if (!read_others(f, m->program, others))
    return false;
  Parts parts = parts_of(arena, m, i);
  HlFound *list = HL_ARRAY(arena, HlFound, MOST_COUNTERPARTS * (others->at.n + 1));
  for (int k = 0; k < others->at.n; k++)
    if (others->at.at[k].stage != m->stage && !is_said_elsewhere(others, k))
      add_counterparts(f, m, &parts, &others->at.at[k], list, out);
  out->counterparts = list;
  return true;
}

// --- All modules --------------------------------------------------------------------------------

static bool search_instructions(Find *f, HlArena *arena, Others *others, Searched *m) {
  const int n = f->query->n_terms;
  uint32_t step = 0;
  for (uint32_t i = 0; i < m->view.n; i++) {
    base_look_often(&step);
    int k = 0;
    while (k < n && holds(f, k, m, i))
      k++;
    if (k < n)
      continue;
    HlFound found = describe(f, m, i);
    if (f->query->trace && f->shows && !add_trace(f, arena, others, m, i, &found))
      return false;
    show(f, &found);
  }
  return true;
}

static bool all_hold_for_comp(const Find *f, const Searched *m, const IndexComp *comp) {
  bool by_name = false;
  for (int k = 0; k < f->query->n_terms; k++) {
    if (!comp_holds(f, k, m, comp))
      return false;
    by_name |= !is_for_whole(f->terms[k].field);
  }
  return by_name;
}

static bool all_hold_for_module(const Find *f, const Searched *m) {
  for (int k = 0; k < f->query->n_terms; k++)
    if (!m->term_on[k])
      return false;
  return true;
}

// Whether terms ask for nothing but which modules there are.
static bool is_about_modules(const Find *f) {
  for (int k = 0; k < f->query->n_terms; k++)
    if (!is_for_whole(f->terms[k].field))
      return false;
  return true;
}

static bool search(Find *f, Others *others, HlArena *arena, Searched *m) {
  size_t body;
  f->out->searched_modules++;
  if (!index_view_strings(arena, m->blob, &m->view, &body))
    return damaged(f, m->path);
  if (!ask_module(f, arena, m))
    return true;
  const int64_t before = f->out->found;
  if (all_hold_for_module(f, m)) {
    HlFound found = found_in(f, m, HL_FOUND_MODULE);
    found.name = m->name;
    found.instructions = m->instructions;
    show(f, &found);
  }
  if (!is_about_modules(f)) {
    if (!index_view_body(arena, m->blob, body, &m->view) || !number_comps(arena, m))
      return damaged(f, m->path);
    ask_frames(f, arena, m);
    uint32_t first = 0;
    for (uint32_t c = 0; c < m->view.n_comps; first += m->view.comps[c++].n)
      if (all_hold_for_comp(f, m, &m->view.comps[c])) {
        HlFound found = found_in(f, m, HL_FOUND_COMPUTATION);
        add_computation(f, m, c, &found);
        found.name = found.computation;
        found.instructions = m->view.comps[c].n;
        found.line = m->view.comps[c].n ? m->view.column[INDEX_PLACE][first] - 1 : 0;
        show(f, &found);
      }
    if (!search_instructions(f, arena, others, m))
      return false;
  }
  if (f->out->found > before) {
    f->out->modules++;
    f->out->programs += m->program != f->last_program || m->program <= 0;
    f->last_program = m->program;
  }
  return true;
}

static bool passes(const Find *f, const Searched *m, HlArena *arena) {
  if (f->query->stages && !(f->query->stages >> m->stage & 1))
    return false;
  return !f->query->after_pass ||
         strcmp(hl_dump_name_read(arena, m->path).after, f->query->after_pass) == 0;
}

static bool search_all(Find *f) {
  SqlQuery *q =
      sql_query(f->cx, f->index->db, ROWS "ORDER BY file.program, file.stage, file.path, module.k");
  if (!q)
    return false;
  Others others = {.program = -1};
  SqlStep step;
  bool ok = true;
  int64_t files_before = 0;
  char *last = NULL;
  while (ok && (step = sql_step(f->cx, q)) == SQL_ROW) {
    HlArena *arena = hl_arena_new();
    Searched m = take_row(arena, q);
    if (passes(f, &m, arena)) {
      const int64_t found = f->out->modules;
      const bool is_new = !last || strcmp(last, m.path) != 0;
      f->out->searched_files += is_new;
      if (is_new) {
        base_free(last);
        last = base_strdup(m.path);
        files_before = f->out->modules;
      }
      ok = search(f, &others, arena, &m);
      f->out->files += f->out->modules > found && found == files_before;
    }
    hl_arena_free(arena);
  }
  base_free(last);
  others_free(&others);
  sql_end(q);
  return ok && step == SQL_DONE;
}

bool hl_find(HlCx *cx, HlIndex *index, const HlFindQuery *query, HlFindShow *show_one, void *user,
             HlFindResult *out) {
  Find f = {.cx = cx,
            .index = index,
            .query = query,
            .show = show_one,
            .user = user,
            .out = out,
            .arena = hl_arena_new(),
            .shows = true,
            .last_program = -1};
  *out = (HlFindResult){0};
  f.terms = HL_ARRAY(f.arena, Term, query->n_terms + 1);
  bool ok = true;
  for (int k = 0; ok && k < query->n_terms; k++)
    ok = make_term(&f, &query->terms[k], &f.terms[k]);
  if (ok && sql_run(cx, index->db, "BEGIN")) {
    ok =
        index_strings_sync(cx, index->db, &index->strings) && ask_strings(&f) && search_all(&f) &&
        sql_number(cx, index->db, "SELECT count(*) FROM file WHERE state = 2", 0, &out->unreadable);
    ok = sql_run(cx, index->db, "END") && ok;
  } else {
    ok = false;
  }
  for (int k = 0; k < query->n_terms; k++)
    regex_free(f.terms[k].regex);
  hl_arena_free(f.arena);
  return ok;
}
