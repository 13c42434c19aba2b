// parse_comp.c: reads computations, and knows what their names mean.
//
// computation = [ "ENTRY" ] name [ signature ] "{" { instruction } "}" [ "," "execution_thread="
// string ]
// signature   = "(" [ name shape { "," name shape } ] ")" "->" shape
//
// Names of instructions are local to a computation. The table `defs` has one entry per symbol; an
// entry counts only while the stamp of the computation being read stands in it, so that a new
// computation costs nothing. An inline body hides names of the computation around it; what it hides
// is put back when it ends.
//
// After an error, reading goes on with the next instruction. The one that failed still defines its
// name, as poisoned: what uses it fails in silence.

#include "base/memory.h"
#include "text/parse.h"

#include <stdlib.h>
#include <string.h>

// --- Names ---------------------------------------------------------------------------------------

static bool is_reserved(const HlSym *sym) {
  static const char *const words[] = {"true",
                                      "false",
                                      "inf",
                                      "nan",
                                      "HloModule",
                                      "ENTRY",
                                      "ROOT",
                                      "FileNames",
                                      "StackFrames",
                                      "FunctionNames",
                                      "FileLocations",
                                      "maximal",
                                      "replicated",
                                      "manual",
                                      "unknown",
                                      "unreduced",
                                      "shard_as",
                                      "shard_like",
                                      "last_tile_dim_replicate"};
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    if (strcmp(sym->text, words[k]) == 0)
      return true;
  return hl_dtype_by_text((HlStr){sym->text, sym->n}) != HL_NO_DTYPE;
}

static void grow_defs(Parser *p, uint32_t index) {
  uint32_t n = p->n_defs ? p->n_defs * 2 : 256;
  while (n <= index)
    n *= 2;
  ParseDef *defs = base_realloc(p->defs, sizeof *defs * n);
  memset(defs + p->n_defs, 0, sizeof *defs * (n - p->n_defs));
  p->defs = defs;
  p->n_defs = n;
}

ParseDef *parse_def(Parser *p, const HlSym *sym) {
  if (HL_UNLIKELY(sym->index >= p->n_defs))
    grow_defs(p, sym->index);
  return &p->defs[sym->index];
}

// Whether uniquing would keep the name if nobody else has it: not `r.02`. What is called `r.0` is
// noted: it is kept unless there is an `r`.
static bool is_normal(Parser *p, const HlSym *sym) {
  const char *text = sym->text, *s = text + sym->n;
  while (s > text && lex_is(s[-1], LEX_DIGIT))
    s--;
  if (*s != '0' || s - text < 2 || s[-1] != '.')
    return true;
  if (s[1])
    return false;
  if (p->n_zeros == PARSE_MAX_ZEROS)
    return false;
  p->zeros[p->n_zeros++] = sym;
  return true;
}

// Whether some `r.0` has to give way to an `r`.
bool parse_zeros_clash(Parser *p) {
  for (int k = 0; k < p->n_zeros; k++) {
    const HlSym *root = hl_syms_find(p->m->syms, p->zeros[k]->text, p->zeros[k]->n - 2);
    const ParseDef *def = root ? parse_def(p, root) : NULL;
    if (def && (def->bits & PARSE_DEF_EVER || parse_def_comp(p, def)))
      return true;
  }
  return false;
}

// Whether the bytes of an identifier, which the lexer has seen to, make a legal name.
static bool is_legal(const HlSym *sym) {
  if (sym->text[0] == '_' && sym->text[1] == '_' && strncmp(sym->text, "__xla_", 6) != 0)
    return false;
  return hl_dtype_by_text((HlStr){sym->text, sym->n}) == HL_NO_DTYPE;
}

// What is true of a name whatever it means; found out once.
static ParseDef *checked_def(Parser *p, const HlSym *sym) {
  ParseDef *def = parse_def(p, sym);
  if (HL_LIKELY(def->bits & PARSE_DEF_CHECKED))
    return def;
  def->bits |= PARSE_DEF_CHECKED;
  if (is_legal(sym))
    def->bits |= PARSE_DEF_CLEAN;
  if (is_normal(p, sym))
    def->bits |= PARSE_DEF_NORMAL;
  return def;
}

// Whether a bare word may not be a name.
static bool is_reserved_name(Parser *p, const HlSym *sym) {
  ParseDef *def = parse_def(p, sym);
  if (HL_UNLIKELY(!(def->bits & PARSE_DEF_BARE))) {
    def->bits |= PARSE_DEF_BARE;
    if (is_reserved(sym))
      def->bits |= PARSE_DEF_RESERVED;
  }
  return def->bits & PARSE_DEF_RESERVED;
}

// The symbol of a name. Most operands are among the names seen last, which need no look into the
// table of all symbols.
static const HlSym *intern_name(Parser *p, const char *s, size_t n) {
  if (HL_UNLIKELY(s + n - 8 < p->in.begin))
    return hl_syms_add(p->m->syms, s, n);
  uint64_t last = hl_load_u64(s + n - 8);
  if (n < 8)
    last >>= 8 * (8 - n);
  const uint64_t hash = (last ^ n * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  const HlSym **slot = &p->recent[hash >> 32 & p->recent_mask];
  const HlSym *sym = *slot;
  if (HL_LIKELY(sym && sym->n == n)) {
    const char *text = sym->text;
    if (HL_LIKELY(lex_same(text, s, n)))
      return sym;
  }
  return *slot = hl_syms_add(p->m->syms, s, n);
}

bool parse_name(Parser *p, const HlSym **out, const char *what) {
  const char *s = p->in.at;
  if (HL_LIKELY(*s == '%')) {
    const char *end = lex_ident_end(s + 1);
    if (!lex_is(s[1], LEX_START))
      return lex_expected(&p->in, "%s", what);
    *out = intern_name(p, s + 1, (size_t)(end - s - 1));
    lex_move(&p->in, end);
    return true;
  }
  const char *end = lex_ident_end(s);
  if (!lex_is(*s, LEX_START) || s >= p->in.end || *end == '=')
    return lex_expected(&p->in, "%s", what);
  *out = intern_name(p, s, (size_t)(end - s));
  if (*end != ':' && is_reserved_name(p, *out))
    return lex_expected(&p->in, "%s", what);
  lex_move(&p->in, end + (*end == ':'));
  return true;
}

ParseDef *parse_find(Parser *p, const HlSym *name) {
  ParseDef *def = parse_def(p, name);
  return HL_LIKELY(def->stamp == p->scope->stamp) ? def : NULL;
}

bool parse_name_is_legal(Parser *p, const HlSym *name, const char *at) {
  if (HL_LIKELY(checked_def(p, name)->bits & PARSE_DEF_CLEAN))
    return true;
  const HlStr clean = hl_sanitise_name(p->m->arena, (HlStr){name->text, name->n});
  return parse_error(p, at, "illegal instruction name: %s; suggest renaming to: %.*s", name->text,
                     (int)clean.n, clean.at);
}

// Remembers what a name means in the computation around this one.
static void hide(Parser *p, const HlSym *name, const ParseDef *def) {
  if (p->n_hidden == p->hidden_capacity) {
    p->hidden_capacity = p->hidden_capacity ? p->hidden_capacity * 2 : 64;
    p->hidden = base_realloc(p->hidden, sizeof *p->hidden * (size_t)p->hidden_capacity);
  }
  p->hidden[p->n_hidden++] = (ParseHidden){name->index, def->stamp, def->inst};
}

bool parse_define(Parser *p, const HlSym *name, const char *name_at, HlInst *inst) {
  ParseDef *def = checked_def(p, name);
  if (def->stamp == p->scope->stamp) {
    parse_error(p, name_at, "instruction already exists: %s", name->text);
    if (def->inst)
      hl_note(p->cx, hl_pos(def->inst), "instruction previously defined here");
    return false;
  }
  if (HL_UNLIKELY(p->scope->outer && def->stamp))
    hide(p, name, def);
  def->inst = inst;
  def->stamp = p->scope->stamp;
  p->rename |= (def->bits & (PARSE_DEF_EVER | PARSE_DEF_NORMAL)) != PARSE_DEF_NORMAL;
  def->bits |= PARSE_DEF_EVER;
  return true;
}

void parse_hint_inst(Parser *p, const HlSym *name) {
  const int base = p->ptrs.n;
  int seen = 0;
  for (const HlInst *inst = p->scope->comp->last; inst && seen < 4000; inst = inst->prev, seen++)
    parse_push_ptr(p, inst->name->text);
  const char *near = hl_nearest((HlStr){name->text, name->n},
                                (const char *const *)(p->ptrs.at + base), p->ptrs.n - base);
  p->ptrs.n = base;
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
}

void parse_begin_scope(Parser *p, ParseScope *scope, HlComp *comp) {
  *scope = (ParseScope){.comp = comp, .stamp = ++p->next_stamp, .outer = p->scope};
  p->scope = scope;
}

// Ends the scope, and puts back what it hid (`hidden` on the stack from then on).
static void end_scope(Parser *p, int hidden) {
  while (p->n_hidden > hidden) {
    const ParseHidden *old = &p->hidden[--p->n_hidden];
    ParseDef *def = &p->defs[old->sym];
    def->inst = old->inst;
    def->stamp = old->stamp;
  }
  p->scope = p->scope->outer;
}

void parse_end_scope(Parser *p) {
  end_scope(p, p->scope->outer ? p->n_hidden : 0);
}

// --- Going on after an error ---------------------------------------------------------------------

// The byte behind "%name =" or "name =" at `s`, or NULL.
static const char *behind_name(const char *s) {
  const bool percent = *s == '%';
  s += percent;
  if (!lex_is(*s, LEX_START))
    return NULL;
  const char *end = lex_ident_end(s), *k = end;
  while (lex_is(*k, LEX_SPACE))
    k++;
  return *k == '=' && (percent || k > end) ? k + 1 : NULL;
}

static bool at_root_word(const char *s) {
  return strncmp(s, "ROOT", 4) == 0 && !lex_is(s[4], LEX_IDENT);
}

// Whether an instruction starts at the word at `s`.
static bool starts_instruction(const char *s) {
  return at_root_word(s) || behind_name(s);
}

// The next instruction, or the brace that ends the computation, at or after `s`, which is outside
// of all brackets; NULL when the brackets do not match.
static const char *next_instruction(Parser *p, const char *s) {
  int depth = 0;
  while (s < p->in.end) {
    if (*s == '"') {
      s = lex_string_end(s + 1, '"');
      if (!s)
        return NULL;
      s++;
    } else if (*s == '(' || *s == '[' || *s == '{') {
      depth++;
      s++;
    } else if (*s == ')' || *s == ']' || *s == '}') {
      if (depth == 0)
        return *s == '}' ? s : NULL;
      depth--;
      s++;
    } else if (*s == '%' || lex_is(*s, LEX_START)) {
      if (depth == 0 && starts_instruction(s))
        return s;
      s = lex_ident_end(s + 1);
    } else if (lex_is(*s, LEX_IDENT)) {
      s = lex_ident_end(s);
    } else {
      s = lex_skip(&p->in, s + (*s != '/'));
      if (*s == '/')
        s++;
    }
  }
  return NULL;
}

// The same by the look of lines, where brackets do not help.
static const char *next_line(const Parser *p, const char *s) {
  while (s < p->in.end) {
    const char *line = memchr(s, '\n', (size_t)(p->in.end - s));
    if (!line)
      break;
    for (s = line + 1; *s == ' ' || *s == '\t'; s++) {
    }
    if (*s == '}' || starts_instruction(s))
      return s;
  }
  return p->in.end;
}

// Moves behind the instruction that failed; `from` is behind its "name =".
static void skip_instruction(Parser *p, const char *from) {
  const char *next = next_instruction(p, from);
  p->in.at = next ? next : next_line(p, p->in.at);
}

// --- Bodies --------------------------------------------------------------------------------------

// A number far beyond the instructions before it is not noted at once; now all are there.
static void note_params(HlComp *comp) {
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    if (inst->op != HL_OP_PARAMETER)
      continue;
    const int64_t number = hl_parameter_number(inst);
    if (number >= comp->n_params || !comp->params[number])
      hl_set_int(inst, HL_A_PARAMETER_NUMBER, number);
  }
}

static bool check_params(Parser *p, HlComp *comp, const char *at) {
  const int n = p->scope->n_params;
  bool complete = comp->n_params == n;
  for (int k = 0; complete && k < n; k++)
    complete = comp->params[k] != NULL;
  if (HL_LIKELY(complete))
    return true;
  note_params(comp);
  for (int k = 0; k < comp->n_params; k++)
    if (!comp->params[k])
      return parse_error(p, at, "the computation has no parameter %d, but has parameter %d", k,
                         comp->n_params - 1);
  return comp->n_params == n || parse_error(p, at,
                                            "the computation has %d parameters, but a parameter's "
                                            "number is far beyond that",
                                            n);
}

// Reads one instruction, and after an error finds the next.
static bool read_or_skip(Parser *p) {
  const int ints = p->ints.n, ptrs = p->ptrs.n, depth = p->depth;
  ParseScope *scope = p->scope;
  const char *at = p->in.at;
  if (HL_LIKELY(parse_instruction(p)))
    return true;
  p->ints.n = ints;
  p->ptrs.n = ptrs;
  p->depth = depth;
  p->scope = scope;
  scope->failed = true;
  // The "name =" of the instruction itself is not the next instruction.
  if (at_root_word(at))
    at = lex_skip(&p->in, at + 4);
  const char *behind = behind_name(at);
  if (behind)
    at = behind;
  else if (at < p->in.end && *at != '}')
    at++;
  if (parse_gives_up(p))
    return false;
  skip_instruction(p, at);
  return true;
}

// The body behind its opening brace, which is at `open`.
static bool read_body(Parser *p, HlComp *comp, const char *open) {
  const char *at = p->in.at;
  do {
    if (lex_at_end(&p->in))
      return parse_error(p, open, "the computation that opens here is never closed");
    if (!read_or_skip(p))
      return false;
  } while (!lex_at(&p->in, '}'));
  lex_move(&p->in, p->in.at + 1);
  if (p->scope->failed)
    return false;
  if (p->scope->root)
    hl_set_root(comp, p->scope->root);
  else if (comp->last)
    hl_set_root(comp, comp->last);
  return check_params(p, comp, at);
}

bool parse_instruction_list(Parser *p, HlComp *comp) {
  const char *open = p->in.at;
  if (!lex_eat(&p->in, '{'))
    return lex_expected(&p->in, "'{' at the beginning of the instructions");
  if (!parse_deeper(p))
    return false;
  ParseScope scope;
  const int hidden = p->n_hidden;
  parse_begin_scope(p, &scope, comp);
  const bool ok = read_body(p, comp, open);
  end_scope(p, hidden);
  p->depth--;
  return ok;
}

static bool hint_comp(Parser *p, const HlSym *name) {
  const int base = p->ptrs.n;
  for (const HlComp *comp = p->m->last; comp && p->ptrs.n - base < 4000; comp = comp->prev)
    parse_push_ptr(p, comp->name->text);
  const char *near = hl_nearest((HlStr){name->text, name->n},
                                (const char *const *)(p->ptrs.at + base), p->ptrs.n - base);
  p->ptrs.n = base;
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

// Reads the name of a computation above, or an inline body. *out is NULL, without an error, for a
// computation that was read with errors.
bool parse_comp_ref(Parser *p, HlComp **out) {
  *out = NULL;
  if (lex_at(&p->in, '{')) {
    *out = hl_comp_new(p->m, "_", 1);
    hl_comp_set_loc(*out, lex_pos(&p->in, p->in.at).loc);
    p->unordered = p->rename = true;
    return parse_instruction_list(p, *out);
  }
  const char *at = p->in.at;
  const HlSym *name;
  if (!parse_name(p, &name, "a computation's name or body"))
    return false;
  const ParseDef *def = parse_def(p, name);
  if (def->bits & PARSE_DEF_BAD_COMP)
    return true;
  *out = parse_def_comp(p, def);
  if (*out)
    return true;
  parse_error(p, at, "computation does not exist: %s", name->text);
  return hint_comp(p, name);
}

// --- Computations --------------------------------------------------------------------------------

// "(p: f32[2], q: s32[])": read and forgotten.
static bool skip_param_list(Parser *p) {
  lex_move(&p->in, p->in.at + 1);
  if (!lex_at(&p->in, ')')) {
    do {
      const char *s = p->in.at + (*p->in.at == '%');
      const HlShape *shape;
      const char *end = lex_ident_end(s);
      if (!lex_is(*s, LEX_START) || *end == '=')
        return lex_expected(&p->in, "a parameter's name");
      lex_move(&p->in, end);
      lex_eat(&p->in, ':');
      if (!parse_shape(p, &shape))
        return false;
    } while (lex_eat(&p->in, ','));
  }
  return lex_need(&p->in, ')', "at the end of the parameters");
}

static bool read_signature(Parser *p, const HlShape **shape, const char **shape_at) {
  if (!lex_at(&p->in, '('))
    return true;
  if (!skip_param_list(p))
    return false;
  if (!lex_eat_pair(&p->in, "->"))
    return lex_expected(&p->in, "'->' and the result's shape");
  *shape_at = p->in.at;
  return parse_shape(p, shape);
}

static bool read_comp_attributes(Parser *p, HlComp *comp) {
  bool seen = false;
  while (lex_eat(&p->in, ',')) {
    const char *at = p->in.at;
    if (strncmp(at, "execution_thread=", 17) != 0)
      return lex_expected(&p->in, "execution_thread=");
    if (seen)
      return parse_error(p, at, "attribute execution_thread already exists");
    seen = true;
    lex_move(&p->in, at + 17);
    HlStr text;
    if (!lex_string(&p->in, &text))
      return false;
    hl_comp_set_thread(comp, hl_str_is(text, "main") ? NULL : parse_sym(p, text));
  }
  return true;
}

static bool check_result(Parser *p, const HlComp *comp, const HlSym *name, const HlShape *shape,
                         const char *at) {
  const HlShape *root = comp->root->shape;
  if (!shape || shape == root || hl_shape_compatible(shape, root))
    return true;
  return parse_error(p, at,
                     "shape of computation %s, %s, is not compatible with that of its root "
                     "instruction %s, %s",
                     name->text, hl_shape_text(p->cx, shape), comp->root->name->text,
                     hl_shape_text(p->cx, root));
}

static bool define_comp(Parser *p, const HlSym *name, const char *at, HlComp *comp, bool ok) {
  ParseDef *def = parse_def(p, name);
  const HlComp *other = parse_def_comp(p, def);
  if (other || def->bits & PARSE_DEF_BAD_COMP) {
    parse_error(p, at, "computation already exists: %s", name->text);
    if (other)
      hl_note(p->cx, hl_comp_pos(other), "computation previously defined here");
    return false;
  }
  if (p->comps.n >= PARSE_MAX_COMPS)
    return parse_limit(p, at, "the module has more than %d computations", PARSE_MAX_COMPS);
  if (comp) {
    parse_push_comp(p, comp);
    def->bits |= (uint32_t)p->comps.n * PARSE_DEF_COMP;
  }
  if (!ok)
    def->bits |= PARSE_DEF_BAD_COMP;
  return true;
}

// Moves behind the body of a computation whose head is not understood.
static bool skip_computation(Parser *p) {
  const char *open = memchr(p->in.at, '{', (size_t)(p->in.end - p->in.at));
  const char *end = open ? lex_balanced(open) : NULL;
  lex_move(&p->in, end && end <= p->in.end ? end : p->in.end);
  return false;
}

bool parse_computation(Parser *p, HlComp **entry, HlComp **last) {
  const char *at = p->in.at;
  const bool is_entry = lex_eat_word(&p->in, "ENTRY");
  const char *name_at = p->in.at;
  const HlSym *name;
  if (!parse_name(p, &name, "a computation's name"))
    return skip_computation(p);
  const HlShape *shape = NULL;
  const char *shape_at = NULL;
  if (!read_signature(p, &shape, &shape_at)) {
    define_comp(p, name, name_at, NULL, false);
    return skip_computation(p);
  }
  const HlStr clean = hl_sanitise_name(p->m->arena, (HlStr){name->text, name->n});
  HlComp *comp = hl_comp_new(p->m, clean.at, clean.n);
  p->rename |= clean.at != name->text || !is_normal(p, name);
  hl_comp_set_loc(comp, lex_pos(&p->in, name_at).loc);
  *last = comp;
  bool ok = parse_instruction_list(p, comp);
  ok = ok && check_result(p, comp, name, shape, shape_at);
  ok = (ok || hl_cx_n_errors(p->cx) > p->first_error) && read_comp_attributes(p, comp) && ok;
  if (is_entry && *entry)
    ok = parse_error(p, at, "expects only one ENTRY");
  else if (is_entry)
    *entry = comp;
  return define_comp(p, name, name_at, comp, ok) && ok;
}
