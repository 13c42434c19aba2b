// lsp/index_hlo.c: what stands where in HLO text, whole or half written.
//
// One walk over the text by the grammar of docs/forms.md, which takes what is there: an instruction ends where the next one
// begins (`name =`), a computation at its brace or, where that is missing, where the next one begins.
#include <string.h>

#include "lsp/index.h"
#include "text/lex.h"

enum { MAX_DEPTH = 100 };  // of computations written where they are called

typedef struct Scan {
  LspIndex *index;
  HlStr text;
  const char *at, *end;
  Map attrs;  // hash of an attribute's text: 1 + its key
  int32_t module;
  int32_t comp;  // LSP_NONE: outside
  int depth;
  bool any;  // something of the module was seen
} Scan;

static uint32_t offset(const Scan *s, const char *at) {
  return (uint32_t)(at - s->text.at);
}

// Names of computations are known all over a module, those of instructions in their computation.
static int32_t module_scope(const Scan *s) {
  return -2 - s->module;
}

// --- Tokens ---------------------------------------------------------------------------------------

static const char *comment_end(const Scan *s, const char *at) {
  if (at[1] == '*') {
    const char *close = memmem(at + 2, (size_t)(s->end - at) - 2, "*/", 2);
    return close ? close + 2 : s->end;
  }
  const char *line = memchr(at, '\n', (size_t)(s->end - at));
  return line ? line : s->end;
}

static bool at_separator(const Scan *s) {
  return lex_at_separator(s->at) && (s->at == s->text.at || s->at[-1] == '\n');
}

static void begin_module(Scan *s) {
  s->module += s->any;
  s->any = false;
}

// White space and comments, which become tokens.
static void skip(Scan *s) {
  for (;;) {
    while (s->at < s->end && lex_is(*s->at, LEX_SPACE))
      s->at++;
    if (s->end - s->at < 2 || *s->at != '/' || (s->at[1] != '/' && s->at[1] != '*'))
      return;
    if (at_separator(s) && s->comp == LSP_NONE)
      begin_module(s);
    const char *end = comment_end(s, s->at);
    lsp_add_token(s->index, offset(s, s->at), (uint32_t)(end - s->at), LSP_COMMENT);
    s->at = end;
  }
}

static bool more(const Scan *s) {
  return s->at < s->end;
}

static bool at(const Scan *s, char c) {
  return s->at < s->end && *s->at == c;
}

static int32_t take(Scan *s, const char *end, LspKind kind) {
  const int32_t token = lsp_add_token(s->index, offset(s, s->at), (uint32_t)(end - s->at), kind);
  s->at = end;
  return token;
}

static bool at_word(const Scan *s, const char *word) {
  const size_t n = strlen(word);
  return (size_t)(s->end - s->at) >= n && memcmp(s->at, word, n) == 0 &&
         !lex_is(s->at[n], LEX_IDENT);
}

// In instructions a string ends with its line, if need be: else a missing quote would hide all that follows. (The header may
// have modules in strings.)
static void take_string(Scan *s) {
  const char *close = lex_string_end(s->at + 1, '"');
  const char *line = memchr(s->at, '\n', (size_t)(s->end - s->at));
  if (!close || close >= s->end || (line && line < close && s->comp != LSP_NONE))
    take(s, line ? line : s->end, LSP_STRING);
  else
    take(s, close + 1, LSP_STRING);
}

// Where a name stands: behind the %, or at a word. NULL: it is none.
static const char *name_start(const char *at) {
  at += *at == '%';
  return lex_is(*at, LEX_START) ? at : NULL;
}

static void take_name(Scan *s, int32_t scope, LspKind kind, bool defines) {
  s->at = name_start(s->at);
  const int32_t token = take(s, lex_ident_end(s->at), kind);
  const HlStr word = lsp_token_text(s->text, &s->index->tokens.at[token]);
  const int32_t name = lsp_name(s->index, s->text, scope, word, kind);
  lsp_refer(s->index, token, name, defines);
}

static const char *skip_blanks(const Scan *s, const char *p) {
  while (p < s->end && lex_is(*p, LEX_SPACE))
    p++;
  return p;
}

// Whether an instruction begins here: `%name =`, `name =` (but no attribute: `name=`), ROOT.
static bool at_instruction(const Scan *s) {
  if (at_word(s, "ROOT"))
    return true;
  const char *start = name_start(s->at);
  if (!start)
    return false;
  const char *end = lex_ident_end(start), *next = skip_blanks(s, end + (*end == ':'));
  return next < s->end && *next == '=' && (next > end || *s->at == '%');
}

// --- Shapes ---------------------------------------------------------------------------------------

static const char *balanced_end(const Scan *s, const char *p) {
  const char *close = *p == '[' ? "]" : "}";
  const char *stop = p;
  while (stop < s->end && *stop != *close && *stop != '\n' && *stop != '"' &&
         (*stop != '=' || stop[-1] == '<'))
    stop++;
  return stop < s->end && *stop == *close ? stop + 1 : p;
}

static bool at_array(const Scan *s) {
  if (!more(s) || !lex_is(*s->at, LEX_START))
    return false;
  const char *end = lex_ident_end(s->at);
  return *end == '[' || (*end == '(' && end - s->at == 1 && *s->at == 'b');
}

static void take_array(Scan *s) {
  const char *end = lex_ident_end(s->at);
  if (*end == '[')
    end = balanced_end(s, end);
  const char *layout = skip_blanks(s, end);
  if (*end == '{' || (layout < s->end && *layout == '{' && lex_is(layout[1], LEX_DIGIT)))
    end = balanced_end(s, layout);
  take(s, end, LSP_TYPE);
}

// A shape, tuples too; what is no shape stays.
static void take_shape(Scan *s) {
  int depth = 0;
  while (more(s)) {
    bool is_buffer = false;  // b(f32[2])
    if (at_array(s)) {
      take_array(s);
      is_buffer = at(s, '(');
    } else if (at(s, '(') || (at(s, ')') && depth > 0)) {
      depth += at(s, '(') ? 1 : -1;
      s->at++;
    } else if (at(s, ',') && depth > 0) {
      s->at++;
    } else {
      return;
    }
    if (depth == 0 && !is_buffer)
      return;
    skip(s);
  }
}

// --- Values of attributes ---------------------------------------------------------------------------

static void scan_body(Scan *s, int32_t comp);
static bool at_line_of_module(const Scan *s);

static int32_t open_comp(Scan *s, const char *from, bool entry) {
  const uint32_t start = offset(s, from);
  const LspComp made = {{start, start}, {start, start}, LSP_NONE, s->module, s->comp, entry, false};
  vec_push(&s->index->comps, made);
  return s->index->comps.n - 1;
}

static HlAttrKind attr_kind(const Scan *s, HlStr name) {
  const uint64_t key = map_get(&s->attrs, hl_hash_bytes(name.at, name.n, 0));
  return key ? hl_attr_info[key - 1].kind : HL_ATTR_KIND_COUNT;
}

static void take_word(Scan *s, HlAttrKind kind) {
  const bool percent = *s->at == '%';
  const char *end = lex_ident_end(name_start(s->at));
  if (kind == HL_KIND_OF_COMP || kind == HL_KIND_OF_COMPS)
    take_name(s, module_scope(s), LSP_COMP, false);
  else if (kind == HL_KIND_OF_CONTROL && s->comp != LSP_NONE)
    take_name(s, s->comp, LSP_VALUE, false);
  else if (percent)
    take_name(s, module_scope(s), LSP_COMP, false);  // of an attribute that nobody knows
  else if (at_array(s) && kind != HL_KIND_OF_SHARDING)
    take_array(s);
  else
    take(s, end, *end == '=' || *end == ':' ? LSP_ATTR : LSP_WORD);
}

// Up to the comma, bracket or instruction that ends it.
static void scan_value(Scan *s, HlAttrKind kind) {
  int depth = 0;
  for (skip(s); more(s); skip(s)) {
    const char c = *s->at;
    if (depth == 0 && (c == ',' || at_instruction(s) || at_line_of_module(s)))
      return;
    if (c == '"') {
      take_string(s);
    } else if (c == '{' || c == '(' || c == '[') {
      depth++;
      s->at++;
    } else if (c == '}' || c == ')' || c == ']') {
      if (depth-- == 0)
        return;
      s->at++;
    } else if (name_start(s->at)) {
      take_word(s, kind);
    } else if (lex_is(c, LEX_DIGIT) || (c == '-' && lex_is(s->at[1], LEX_DIGIT))) {
      take(s, lex_ident_end(s->at + 1), LSP_NUMBER);
    } else {
      s->at++;
    }
  }
}

// A computation that has no name, in the place of one.
static void scan_inline(Scan *s) {
  const int32_t outer = s->comp, made = open_comp(s, s->at, false);
  s->at++;
  s->depth++;
  scan_body(s, made);
  s->depth--;
  s->comp = outer;
}

// { "," name "=" value }
static void scan_attributes(Scan *s) {
  for (skip(s); at(s, ','); skip(s)) {
    s->at++;
    skip(s);
    if (!more(s) || !lex_is(*s->at, LEX_START))
      continue;
    const char *end = lex_ident_end(s->at);
    if (*end != '=') {
      if (at_instruction(s))
        return;
      take(s, end, LSP_ATTR);
      continue;
    }
    const HlAttrKind kind = attr_kind(s, (HlStr){s->at, (size_t)(end - s->at)});
    take(s, end, LSP_ATTR);
    s->at++;
    skip(s);
    if (kind == HL_KIND_OF_COMP && at(s, '{') && s->depth < MAX_DEPTH)
      scan_inline(s);
    else
      scan_value(s, kind);
  }
}

// --- Instructions ---------------------------------------------------------------------------------

// What stands in the parentheses of an op that has no operands: numbers, a literal.
static void scan_literal(Scan *s) {
  int depth = 0;
  do {
    const char c = *s->at;
    if (c == '"') {
      take_string(s);
    } else {
      depth += (c == '(' || c == '{' || c == '[') - (c == ')' || c == '}' || c == ']');
      s->at = lex_is(c, LEX_START) ? lex_ident_end(s->at) : s->at + 1;
    }
    if (depth > 0)
      skip(s);
  } while (more(s) && depth > 0 && !(name_start(s->at) && at_instruction(s)));
}

static bool has_literal(const Scan *s, int32_t op) {
  const HlStr word = lsp_token_text(s->text, &s->index->tokens.at[op]);
  return hl_str_is(word, "constant") || hl_str_is(word, "parameter");
}

// [ shape ] [ "%" ] name, separated by commas; an instruction may stand in the place of a name.
static void scan_operands(Scan *s) {
  int depth = 0;
  do {
    const char c = *s->at;
    if (c == '(' || c == '{' || c == '[') {
      depth++;
      s->at++;
    } else if (c == ')' || c == '}' || c == ']') {
      depth--;
      s->at++;
    } else if (c == '"') {
      take_string(s);
    } else if (*s->at != '%' && at_array(s)) {
      take_array(s);
    } else if (at_instruction(s)) {
      return;  // the parenthesis was never closed
    } else if (name_start(s->at)) {
      const char *end = lex_ident_end(name_start(s->at)), *next = skip_blanks(s, end);
      if (*s->at != '%' && next < s->end && *next == '(') {
        const int32_t op = take(s, end, LSP_OP);
        skip(s);
        if (has_literal(s, op) && more(s))
          scan_literal(s);
      } else if (s->comp != LSP_NONE) {
        take_name(s, s->comp, LSP_VALUE, false);
      } else {
        s->at = end;
      }
    } else if (lex_is(c, LEX_IDENT)) {
      take(s, lex_ident_end(s->at), LSP_NUMBER);
    } else {
      s->at++;
    }
    if (depth > 0)
      skip(s);
  } while (more(s) && depth > 0);
}

// shape opcode "(" operands ")" attributes
static void scan_right(Scan *s, int32_t statement) {
  LspIndex *index = s->index;
  skip(s);
  const char *from = s->at;
  take_shape(s);
  const LspSpan shape = {offset(s, from), offset(s, s->at)};
  skip(s);
  int32_t op = LSP_NONE;
  if (more(s) && lex_is(*s->at, LEX_START) && !at_instruction(s))
    op = take(s, lex_ident_end(s->at), LSP_OP);
  index->statements.at[statement].shape = shape;
  index->statements.at[statement].op = op;
  skip(s);
  if (at(s, '(') && op != LSP_NONE && has_literal(s, op))
    scan_literal(s);
  else if (at(s, '('))
    scan_operands(s);
  scan_attributes(s);
}

// Whatever is left of an instruction that is not understood.
static void scan_rest(Scan *s) {
  int depth = 0;
  for (skip(s); more(s) && !at_instruction(s); skip(s)) {
    const char c = *s->at;
    if (c == '}' && depth == 0)
      return;
    depth += (c == '{' || c == '(' || c == '[') - (c == '}' || c == ')' || c == ']');
    if (depth < 0)
      depth = 0;
    if (c == '"')
      take_string(s);
    else if (lex_is(c, LEX_IDENT))
      s->at = lex_ident_end(s->at);
    else
      s->at++;
  }
}

// An instruction ends before the white space and comments that were read in search of more of it.
static void end_statement(Scan *s, int32_t place) {
  LspIndex *index = s->index;
  LspStatement *of = &index->statements.at[place];
  const char *end = s->at;
  int32_t last = index->tokens.n;
  for (;;) {
    while (end > s->text.at && lex_is(end[-1], LEX_SPACE))
      end--;
    const LspToken *token = &index->tokens.at[last - 1];
    if (last <= of->first || token->kind != LSP_COMMENT || token->at + token->n != offset(s, end))
      break;
    end = s->text.at + token->at;
    last--;
  }
  of->all.end = offset(s, end);
  of->end = last;
}

static void scan_statement(Scan *s) {
  LspIndex *index = s->index;
  LspStatement made = {.op = LSP_NONE, .name = LSP_NONE, .comp = s->comp, .first = index->tokens.n};
  made.all.at = offset(s, s->at);
  made.root = at_word(s, "ROOT");
  made.depth = s->depth;
  if (made.root) {
    take(s, s->at + 4, LSP_KEYWORD);
    skip(s);
  }
  const int32_t place = index->statements.n;
  vec_push(&index->statements, made);
  if (more(s) && at_instruction(s) && !at_word(s, "ROOT")) {
    take_name(s, s->comp, LSP_VALUE, true);
    const int32_t name = index->tokens.at[index->tokens.n - 1].name;
    index->statements.at[place].name = name;
    if (index->names.at[name].statement == LSP_NONE) {
      index->names.at[name].statement = place;
      index->names.at[name].comp = s->comp;
    }
    s->at += at(s, ':');
    skip(s);
    s->at++;  // =
    scan_right(s, place);
  }
  scan_rest(s);
  end_statement(s, place);
}

// --- Computations ---------------------------------------------------------------------------------

// A name, and then "{" or "(".
static bool opens_computation(const Scan *s) {
  const char *start = name_start(s->at);
  if (!start)
    return false;
  const char *next = skip_blanks(s, lex_ident_end(start));
  return next < s->end && (*next == '{' || *next == '(');
}

// Whether a computation or module begins here, at the start of a line.
static bool at_computation(const Scan *s) {
  if (s->at > s->text.at && s->at[-1] != '\n')
    return false;
  return at_word(s, "ENTRY") || at_word(s, "HloModule") || opens_computation(s);
}

// The instructions behind the opening brace.
static void scan_body(Scan *s, int32_t comp) {
  LspIndex *index = s->index;
  s->comp = comp;
  index->comps.at[comp].body.at = offset(s, s->at);
  const char *body_end = s->at;
  for (skip(s); more(s) && !at(s, '}') && !at_computation(s); skip(s)) {
    if (at_instruction(s))
      scan_statement(s);
    else if (lex_is(*s->at, LEX_IDENT))
      s->at = lex_ident_end(s->at);
    else if (*s->at == '"')
      take_string(s);
    else
      s->at++;
    body_end = s->at;
  }
  index->comps.at[comp].closed = at(s, '}');
  index->comps.at[comp].body.end = offset(s, at(s, '}') ? s->at : body_end);
  if (at(s, '}'))
    s->at++;
  index->comps.at[comp].all.end =
      offset(s, at(s, '}') || index->comps.at[comp].closed ? s->at : body_end);
}

// "(p: f32[2], q: (s32[], f32[])) -> f32[2]"
static void scan_signature(Scan *s, int32_t comp) {
  int depth = 0;
  do {
    const char c = *s->at;
    const char *start = name_start(s->at), *end = start ? lex_ident_end(start) : NULL;
    if (start && end < s->end && *end == ':') {
      take_name(s, comp, LSP_VALUE, false);
    } else if (at_array(s)) {
      take_array(s);
    } else {
      depth += (c == '(') - (c == ')');
      s->at = start ? end : s->at + 1;
    }
    if (depth > 0)
      skip(s);
  } while (more(s) && depth > 0 && !at(s, '{'));
  skip(s);
  if (s->end - s->at < 2 || s->at[0] != '-' || s->at[1] != '>')
    return;
  s->at += 2;
  skip(s);
  take_shape(s);
  skip(s);
}

static void scan_computation(Scan *s) {
  LspIndex *index = s->index;
  const char *from = s->at;
  const bool entry = at_word(s, "ENTRY");
  if (entry) {
    take(s, s->at + 5, LSP_KEYWORD);
    skip(s);
  }
  const int32_t comp = open_comp(s, from, entry);
  s->any = true;
  if (more(s) && name_start(s->at)) {
    take_name(s, module_scope(s), LSP_COMP, true);
    const int32_t name = index->tokens.at[index->tokens.n - 1].name;
    index->comps.at[comp].name = name;
    if (index->names.at[name].comp == LSP_NONE)
      index->names.at[name].comp = comp;
  }
  skip(s);
  if (at(s, '('))
    scan_signature(s, comp);
  index->comps.at[comp].all.end = offset(s, s->at);
  if (!at(s, '{'))
    return;
  s->at++;
  scan_body(s, comp);
  s->comp = LSP_NONE;
  scan_attributes(s);
}

static const char *const table_words[] = {"FileNames", "FunctionNames", "FileLocations",
                                          "StackFrames"};

// What follows a module's header, at the start of a line.
static bool at_line_of_module(const Scan *s) {
  if (s->at > s->text.at && s->at[-1] != '\n')
    return false;
  for (int k = 0; k < HL_COUNT_OF(table_words); k++)
    if (at_word(s, table_words[k]))
      return true;
  return at_computation(s);
}

// FileNames and its kin: a word, then rows that start with numbers.
static bool scan_table(Scan *s) {
  for (int k = 0; k < HL_COUNT_OF(table_words); k++) {
    if (!at_word(s, table_words[k]))
      continue;
    const uint32_t from = offset(s, s->at);
    take(s, s->at + strlen(table_words[k]), LSP_KEYWORD);
    uint32_t end = offset(s, s->at);
    for (skip(s); more(s) && lex_is(*s->at, LEX_DIGIT); skip(s)) {
      take(s, lex_ident_end(s->at), LSP_NUMBER);
      while (more(s) && *s->at != '\n') {
        if (*s->at == '"')
          take_string(s);
        else if (lex_is(*s->at, LEX_START))
          take(s, lex_ident_end(s->at), LSP_ATTR);
        else
          s->at++;
      }
      end = offset(s, s->at);
    }
    vec_push(&s->index->folds, ((LspSpan){from, end}));
    return true;
  }
  return false;
}

static void scan_header(Scan *s) {
  begin_module(s);
  s->any = true;
  take(s, s->at + 9, LSP_KEYWORD);
  skip(s);
  if (more(s) && name_start(s->at) && !at_computation(s)) {
    s->at = name_start(s->at);
    vec_push(&s->index->modules, take(s, lex_ident_end(s->at), LSP_MODULE));
  }
  scan_attributes(s);
}

void lsp_index_hlo(LspIndex *index, HlStr text) {
  Scan s = {.index = index, .text = text, .at = text.at, .end = text.at + text.n, .comp = LSP_NONE};
  for (int k = 0; k < HL_ATTR_COUNT; k++)
    if (*hl_attr_info[k].text)
      *map_at(&s.attrs, hl_hash_bytes(hl_attr_info[k].text, strlen(hl_attr_info[k].text), 0)) =
          1 + (uint64_t)k;
  for (skip(&s); more(&s); skip(&s)) {
    if (at_word(&s, "HloModule"))
      scan_header(&s);
    else if (at_word(&s, "ENTRY"))
      scan_computation(&s);
    else if (scan_table(&s))
      continue;
    else if (at_instruction(&s))
      scan_statement(&s);
    else if (opens_computation(&s))
      scan_computation(&s);
    else {
      index->strays++;
      s.at = lex_is(*s.at, LEX_IDENT) ? lex_ident_end(s.at) : s.at + 1;
    }
  }
  map_free(&s.attrs);
}
