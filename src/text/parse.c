// parse.c: reads HLO text: files of one or several modules, and what is done when a module ends.
//
// text   = segment { "// -----" segment }
// segment = { module } | computations without a header | a single instruction
// module = "HloModule" name { "," attribute } [ tables ] computation { computation }

#include "text/parse.h"
#include "base/memory.h"

#include "hilo/text.h"

#include <string.h>

// --- Small things --------------------------------------------------------------------------------

static bool report(Parser *p, HlErrorKind kind, const char *at, const char *format, va_list args) {
  return hl_verror(p->cx, kind, lex_pos(&p->in, at), format, args);
}

bool parse_error(Parser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(p, HL_INVALID, at, format, args);
  va_end(args);
  return false;
}

bool parse_limit(Parser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(p, HL_LIMIT, at, format, args);
  va_end(args);
  p->stop = true;  // what follows would only reach the limit again
  return false;
}

bool parse_deeper(Parser *p) {
  if (HL_LIKELY(p->depth < p->max_depth)) {
    p->depth++;
    return true;
  }
  return parse_limit(p, p->in.at, "the text is nested more than %d levels deep (limit nesting)",
                     p->max_depth);
}

static void *grow(void *at, int *capacity, size_t size) {
  *capacity = *capacity ? *capacity * 2 : 256;
  return base_realloc(at, size * (size_t)*capacity);
}

void parse_push_int(Parser *p, int64_t value) {
  if (HL_UNLIKELY(p->ints.n == p->ints.capacity))
    p->ints.at = grow(p->ints.at, &p->ints.capacity, sizeof *p->ints.at);
  p->ints.at[p->ints.n++] = value;
}

void parse_push_ptr(Parser *p, const void *value) {
  if (HL_UNLIKELY(p->ptrs.n == p->ptrs.capacity))
    p->ptrs.at = grow(p->ptrs.at, &p->ptrs.capacity, sizeof *p->ptrs.at);
  p->ptrs.at[p->ptrs.n++] = value;
}

void parse_push_comp(Parser *p, const HlComp *comp) {
  if (p->comps.n == p->comps.capacity)
    p->comps.at = grow(p->comps.at, &p->comps.capacity, sizeof *p->comps.at);
  p->comps.at[p->comps.n++] = comp;
}

// Makes room for n more pointers.
void parse_reserve_ptrs(Parser *p, int n) {
  while (HL_UNLIKELY(p->ptrs.capacity - p->ptrs.n < n))
    p->ptrs.at = grow(p->ptrs.at, &p->ptrs.capacity, sizeof *p->ptrs.at);
}

HlI64s parse_take_ints(Parser *p, int base) {
  const HlI64s list = {p->ints.at + base, p->ints.n - base};
  p->ints.n = base;
  return list.n ? hl_i64s_copy(p->m->arena, list) : (HlI64s){0};
}

const void **parse_take_ptrs(Parser *p, int base, int *n) {
  *n = p->ptrs.n - base;
  p->ptrs.n = base;
  return hl_arena_copy(p->m->arena, p->ptrs.at + base, sizeof *p->ptrs.at * (size_t)*n);
}

ParseSlot *parse_slot(Parser *p, ParseCache *cache, HlStr raw, bool *hit) {
  const uint64_t hash = hl_hash_bytes(raw.at, raw.n, 0);
  ParseSlot *slot = &cache->slots[hash & cache->mask];
  *hit = slot->hash == hash && slot->n == raw.n && slot->generation == p->generation &&
         lex_same(slot->text, raw.at, raw.n);
  if (!*hit) {
    slot->hash = hash;
    slot->generation = 0;
  }
  return slot;
}

void parse_fill_slot(Parser *p, ParseSlot *slot, HlStr raw, const void *value) {
  *slot = (ParseSlot){raw.at, value, slot->hash, (uint32_t)raw.n, p->generation};
}

// --- When a module ends --------------------------------------------------------------------------

static bool check_aliases(Parser *p, const char *at) {
  const HlModule *m = p->m;
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlAlias *alias = &m->input_output_alias.at[k];
    if (alias->number < 0)
      return parse_error(p, at, "input_output_alias: parameter number must be >= 0");
    if (!hl_shape_at(m->entry_result, alias->output))
      return parse_error(p, at,
                         "input_output_alias: the result, %s, has no element at an aliased index",
                         hl_shape_text(p->cx, m->entry_result));
  }
  return true;
}

static void set_schedules(Parser *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (comp->is_fusion)
      continue;
    const int base = p->ptrs.n;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      parse_push_ptr(p, inst);
    hl_set_schedule(comp, (HlInst *const *)(void *)(p->ptrs.at + base));
    p->ptrs.n = base;
  }
}

static void name_after_entry(Parser *p) {
  HlBuf name = {0};
  hl_buf_puts(&name, "module_");
  hl_buf_add(&name, p->m->entry->name->text, p->m->entry->name->n);
  hl_module_set_name(p->m, parse_sym(p, (HlStr){name.at, name.n}));
  hl_buf_free(&name);
}

static bool finish_module(Parser *p, const char *at, bool headerless) {
  HlModule *m = p->m;
  if (headerless)
    name_after_entry(p);
  // XLA adds inline bodies before what calls them, but behind a single instruction. Names that are
  // unique as they are, nearly always, need no work.
  p->rename = p->rename || parse_zeros_clash(p);
  if (p->rename && p->single)
    hl_unique_names(m);
  if (p->unordered && !hl_sort_comps(p->cx, m))
    return false;
  if (p->rename && !p->single)
    hl_unique_names(m);
  if (m->is_scheduled || p->single)
    set_schedules(p);
  if (p->single)
    hl_set_scheduled(m, true);
  if (m->frames.n_frames || p->any_frame)
    hl_intern_frames(m);
  // The entry of a single instruction has default layouts, whatever the instruction says.
  if (p->single)
    hl_default_entry_layout(m);
  hl_complete_entry_layout(m);
  hl_set_dialect(m, dialect_told(&p->signs));
  hl_set_tuple_elements(m, p->elements);
  return check_aliases(p, at);
}

// --- Modules -------------------------------------------------------------------------------------

bool parse_gives_up(const Parser *p) {
  return p->stop || hl_cx_n_errors(p->cx) - p->first_error >= hl_cx_limits(p->cx)->errors;
}

// Forgets what belongs to the module before.
static void begin_module(Parser *p, HlSource *source) {
  p->m = hl_module_new("_", source);
  hl_module_set_loc(p->m, lex_pos(&p->in, p->in.at).loc);
  p->generation++;
  p->scope = NULL;
  p->single = p->unordered = p->rename = p->any_frame = p->stop = p->elements = false;
  p->depth = p->n_hidden = p->ints.n = p->ptrs.n = p->comps.n = 0;
  memset(p->recent, 0, sizeof *p->recent * (p->recent_mask + 1));
  p->n_insts = p->literal_bytes = p->n_missing = p->n_zeros = 0;
  memset(p->anon, 0, sizeof p->anon);
  if (p->defs)
    memset(p->defs, 0, sizeof *p->defs * p->n_defs);
}

static bool read_computations(Parser *p) {
  HlComp *entry = NULL, *last = NULL;
  bool ok = true;
  if (lex_at_end(&p->in))
    return lex_expected(&p->in, "a computation");
  do {
    ok &= parse_computation(p, &entry, &last);
  } while (!lex_at_end(&p->in) && !lex_at_word(&p->in, "HloModule") && !parse_gives_up(p));
  if (ok && !entry && p->m->entry_result)
    hl_warn(p->cx, hl_comp_pos(last), "no computation is marked ENTRY: the last one, %s, is taken",
            last->name->text);
  if (ok)
    hl_comp_set_entry(entry ? entry : last);
  return ok;
}

// The name of the module: any bare word but a reserved one.
static bool read_module_name(Parser *p) {
  const HlSym *name;
  lex_move(&p->in, p->in.at + strlen("HloModule"));
  if (!parse_name(p, &name, "the module's name"))
    return false;
  hl_module_set_name(p->m, name);
  return true;
}

static bool read_module(Parser *p, bool headerless) {
  const char *at = p->in.at;
  bool ok = headerless || (read_module_name(p) && parse_header(p));
  ok = parse_frames(p) && read_computations(p) && ok;
  return ok && finish_module(p, at, headerless);
}

static bool read_single(Parser *p) {
  const char *at = p->in.at;
  p->single = true;
  return parse_single_instruction(p) && finish_module(p, at, false);
}

// Whether the text is computations without a header: it starts with ENTRY or with `name {`.
static bool is_headerless(Parser *p) {
  if (lex_at_word(&p->in, "ENTRY"))
    return true;
  const char *s = p->in.at + (*p->in.at == '%');
  if (!lex_is(*s, LEX_START))
    return false;
  s = lex_ident_end(s);
  return *lex_skip(&p->in, s + (*s == ':')) == '{';
}

// Reads what stands at the cursor as a module; NULL after reporting.
static HlModule *read_one(Parser *p, HlSource *source) {
  begin_module(p, source);
  bool ok;
  if (lex_at_word(&p->in, "HloModule"))
    ok = read_module(p, false);
  else
    ok = is_headerless(p) ? read_module(p, true) : read_single(p);
  HlModule *m = p->m;
  p->m = NULL;
  if (ok)
    return m;
  hl_module_free(m);
  return NULL;
}

// --- Texts ---------------------------------------------------------------------------------------

static ParseCache new_cache(Parser *p, uint32_t n) {
  return (ParseCache){HL_ARRAY(p->arena, ParseSlot, n), n - 1};
}

static void init(Parser *p, HlCx *cx, const HlSource *source, HlStr text) {
  *p = (Parser){.cx = cx, .arena = hl_arena_new(), .first_error = hl_cx_n_errors(cx)};
  p->in =
      (Lex){.at = text.at, .begin = text.at, .end = text.at + text.n, .cx = cx, .source = source};
  const int nesting = hl_cx_limits(cx)->nesting;
  p->max_depth = nesting < 2000 ? nesting : 2000;  // each level takes about 2 KiB of stack
  uint32_t n = 32;
  while (n < 2048 && n < text.n / 256)
    n *= 2;
  p->shapes = new_cache(p, n);
  p->metas = new_cache(p, n);
  p->shardings = new_cache(p, n / 4);
  p->dicts = new_cache(p, n / 4);
  p->words = HL_ARRAY(p->arena, ParseWord, PARSE_WORD_SLOTS);
  p->recent = HL_ARRAY(p->arena, const HlSym *, n);
  p->recent_mask = n - 1;
  p->ints.at = grow(NULL, &p->ints.capacity, sizeof *p->ints.at);
  p->ptrs.at = grow(NULL, &p->ptrs.capacity, sizeof *p->ptrs.at);
}

static void deinit(Parser *p) {
  hl_buf_free(&p->in.unescaped);
  base_free((void *)p->comps.at);
  base_free(p->hidden);
  base_free(p->defs);
  base_free(p->ints.at);
  base_free((void *)p->ptrs.at);
  hl_arena_free(p->arena);
}

// Where the segment in which `s` stands ends: before a line "// -----", or at the end of the text.
static const char *segment_end(const char *s, const char *end) {
  while (s < end) {
    const char *line = memchr(s, '\n', (size_t)(end - s));
    if (!line)
      return end;
    s = line + 1;
    if (lex_at_separator(s))
      return s;
  }
  return end;
}

typedef struct Modules {
  HlModule **at;
  int n, capacity;
} Modules;

static void add_module(Modules *list, HlModule *m) {
  if (!m)
    return;
  if (list->n == list->capacity)
    list->at = grow(list->at, &list->capacity, sizeof(HlModule *));
  list->at[list->n++] = m;
}

static void read_segments(Parser *p, HlSource *source, const char *end, Modules *list) {
  bool any = false;
  const char *s = p->in.at;
  while (s < end && !parse_gives_up(p)) {
    p->in.end = end;  // until the lexer meets a separator
    lex_move(&p->in, s);
    bool ok = true;
    while (p->in.at < p->in.end && ok && !parse_gives_up(p)) {
      any = true;
      HlModule *m = read_one(p, source);
      add_module(list, m);
      // Behind a module that failed, only the next header is safe ground.
      ok = m || lex_at_word(&p->in, "HloModule");
    }
    s = ok ? p->in.end : segment_end(p->in.at, p->in.end);
    if (s < end) {
      const char *line = memchr(s, '\n', (size_t)(end - s));
      s = line ? line + 1 : end;
    }
  }
  if (!any)
    hl_error(p->cx, (HlPos){source, 0}, "the text is empty: expected 'HloModule NAME'");
}

// --- Entry points --------------------------------------------------------------------------------

typedef struct Reading {
  HlSource *source;
  Modules modules;
} Reading;

static bool read_modules(HlCx *cx, void *user) {
  Reading *reading = user;
  HlSource *source = reading->source, *clean = parse_without_log(source);
  if (clean)
    source = clean;
  const HlStr text = hl_source_bytes(source);
  Parser p;
  Modules list = {0};
  init(&p, cx, source, text);
  read_segments(&p, source, text.at + text.n, &list);
  const bool ok = hl_cx_n_errors(cx) == p.first_error;
  deinit(&p);
  hl_source_unref(clean);
  if (!ok) {
    for (int k = 0; k < list.n; k++)
      hl_module_free(list.at[k]);
    base_free(list.at);
    return false;
  }
  reading->modules = list;
  return true;
}

bool hl_text_read(HlCx *cx, HlSource *source, HlModule ***out, int *n) {
  Reading reading = {source, {0}};
  const bool ok = hl_try(cx, read_modules, &reading);
  *out = ok ? reading.modules.at : NULL;
  *n = ok ? reading.modules.n : 0;
  return ok;
}

HlModule *hl_text_parse(HlCx *cx, const char *text) {
  HlSource *source = hl_source_new("text", text, strlen(text), false);
  HlModule **modules;
  int n;
  HlModule *first = NULL;
  if (hl_text_read(cx, source, &modules, &n)) {
    first = modules[0];
    for (int k = 1; k < n; k++)
      hl_module_free(modules[k]);
    base_free(modules);
  }
  hl_source_unref(source);
  return first;
}

// Read as that of the only instruction of a module.
bool hl_text_sharding(HlCx *cx, HlModule *m, HlPos pos, HlStr text, const HlSharding **out) {
  *out = NULL;
  if (text.n == 0)
    return true;
  HlCx *own = hl_cx_new();
  HlBuf program = {0};
  hl_buf_printf(&program, "ENTRY e {\n  ROOT x = f32[] parameter(0), sharding=%.*s\n}\n",
                (int)text.n, text.at);
  HlModule *holder = hl_text_parse(own, program.at);
  const HlSharding *sharding = holder ? hl_sharding(holder->entry->root) : NULL;
  *out = sharding ? hl_sharding_copy(m, sharding) : NULL;
  hl_buf_free(&program);
  hl_module_free(holder);
  hl_cx_free(own);
  return *out || hl_error(cx, pos, "this is no sharding: '%.*s'", (int)text.n, text.at);
}

HlModule *parse_inner_module(Parser *p, HlStr text) {
  HlCx *cx = hl_cx_new();
  *hl_cx_limits(cx) = *hl_cx_limits(p->cx);
  hl_cx_limits(cx)->nesting = p->max_depth - p->depth - 100;
  HlModule *m = NULL;
  HlSource *source = hl_source_new(hl_source_name(p->in.source), text.at, text.n, false);
  HlModule **modules;
  int n;
  if (hl_cx_limits(cx)->nesting > 0 && hl_text_read(cx, source, &modules, &n)) {
    m = n ? modules[0] : NULL;
    for (int k = 1; k < n; k++)
      hl_module_free(modules[k]);
    base_free(modules);
  }
  hl_source_unref(source);
  hl_cx_free(cx);
  return m;
}

// HLO text starts with HloModule, ENTRY, or a word and then "{" or "=" or a shape; perhaps behind
// comments or log headers.
bool hl_text_sniff(HlStr bytes) {
  HlSource *source = hl_source_new("", bytes.at, bytes.n < 4096 ? bytes.n : 4096, false);
  HlSource *clean = parse_without_log(source);
  const HlStr text = hl_source_bytes(clean ? clean : source);
  Parser p = {0};
  p.in = (Lex){.at = text.at, .begin = text.at, .end = text.at + text.n, .source = source};
  lex_move(&p.in, text.at);
  bool found = lex_at_word(&p.in, "HloModule") || is_headerless(&p);
  if (!found) {
    const char *s = p.in.at;
    if (lex_at_word(&p.in, "ROOT"))
      s = lex_skip(&p.in, s + 4);
    const char *name = s + (*s == '%');
    const char *end = lex_is(*name, LEX_START) ? lex_ident_end(name) : name;
    const char *next = lex_skip(&p.in, end);
    found = (end > name && next > end && next[0] == '=' && next[1] == ' ') ||
            (end > name && *end == '[' &&
             hl_dtype_by_text((HlStr){name, (size_t)(end - name)}) != HL_NO_DTYPE);
  }
  hl_source_unref(clean);
  hl_source_unref(source);
  return found;
}
