// lsp/index_mlir.c: what stands where in MLIR text (StableHLO and its kin), whole or half written.
//
// MLIR's pretty forms are many; for names, three things are enough: braces make scopes; an op begins at the start of a line
// (or of a region) where no bracket is open; and a value is defined in front of an op's `=`, or in a list of arguments
// (`%arg0: type`, `%iterArg = %0`), which the regions of that op see.
#include <string.h>

#include "base/ascii.h"
#include "lsp/index.h"

typedef enum FrameKind { REGION, OP } FrameKind;  // braces; an op, around its regions
typedef struct Frame {
  FrameKind kind;
  int32_t scope;
  int32_t statement;  // of an OP
  int32_t comp;       // the function it is in; LSP_NONE
  int brackets;       // open outside of it
  uint32_t open;      // a REGION's brace
  bool has_ops;
} Frame;

typedef struct Scan {
  LspIndex *index;
  HlStr text;
  const char *at, *end;
  VEC(Frame) frames;
  int32_t next_scope;
  int brackets;      // ( and [ that are open
  bool starts_line;  // nothing but white space stands before, on the line or behind a brace
  bool behind_brace;
  const char *last;   // the end of the last token
  int32_t arg_scope;  // of a block's arguments
} Scan;

enum { SYMBOLS = -2, ALIASES = -3 };  // scopes

static bool is_start(char c) {
  return is_alpha(c) || c == '_';
}

static bool is_word(char c) {
  return is_start(c) || is_digit(c) || c == '$' || c == '.';
}

// Names of values may have a minus, too.
static bool is_suffix(char c) {
  return is_word(c) || c == '-';
}

static uint32_t offset(const Scan *s, const char *at) {
  return (uint32_t)(at - s->text.at);
}

static const char *word_end(const Scan *s, const char *p) {
  while (p < s->end && is_word(*p))
    p++;
  return p;
}

static const char *suffix_end(const Scan *s, const char *p) {
  while (p < s->end && is_suffix(*p) && !(*p == '-' && p + 1 < s->end && p[1] == '>'))
    p++;
  return p;
}

static const char *string_end(const Scan *s, const char *p) {
  for (p++; p < s->end && *p != '"' && *p != '\n'; p++)
    p += *p == '\\' && p + 1 < s->end;
  return p < s->end && *p == '"' ? p + 1 : p < s->end ? p : s->end;
}

static const char *skip_blanks(const Scan *s, const char *p) {
  while (p < s->end && (*p == ' ' || *p == '\t'))
    p++;
  return p;
}

static void skip(Scan *s) {
  while (s->at < s->end) {
    const char c = *s->at;
    if (c == '\n') {
      s->starts_line = true;
      s->behind_brace = false;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      s->at++;
    } else if (c == '/' && s->at + 1 < s->end && s->at[1] == '/') {
      const char *line = memchr(s->at, '\n', (size_t)(s->end - s->at));
      const char *end = line ? line : s->end;
      lsp_add_token(s->index, offset(s, s->at), (uint32_t)(end - s->at), LSP_COMMENT);
      s->at = end;
    } else {
      return;
    }
  }
}

static int32_t take(Scan *s, const char *from, const char *end, LspKind kind) {
  const int32_t token = lsp_add_token(s->index, offset(s, from), (uint32_t)(end - from), kind);
  s->at = s->last = end;
  return token;
}

// --- Scopes ---------------------------------------------------------------------------------------

static Frame *top(Scan *s) {
  return &vec_last(&s->frames);
}

static void push_frame(Scan *s, FrameKind kind, int32_t statement) {
  Frame made = {.kind = kind,
                .scope = s->next_scope++,
                .statement = statement,
                .comp = LSP_NONE,
                .brackets = s->brackets,
                .open = offset(s, s->at)};
  if (s->frames.n)
    made.comp = top(s)->comp;
  vec_push(&s->frames, made);
}

static void end_statement(Scan *s) {
  if (top(s)->kind != OP)
    return;
  const Frame frame = vec_pop(&s->frames);
  LspStatement *statement = &s->index->statements.at[frame.statement];
  statement->all.end = offset(s, s->last);
  statement->end = s->index->tokens.n;
  if (top(s)->comp != frame.comp && frame.comp != LSP_NONE)
    s->index->comps.at[frame.comp].all.end = offset(s, s->last);
}

static void open_brace(Scan *s) {
  push_frame(s, REGION, LSP_NONE);
  s->last = ++s->at;
  s->starts_line = s->behind_brace = true;
}

static void close_brace(Scan *s) {
  end_statement(s);
  if (s->frames.n > 1) {
    const Frame frame = vec_pop(&s->frames);
    s->brackets = frame.brackets;
    if (frame.has_ops) {
      vec_push(&s->index->folds, ((LspSpan){frame.open, offset(s, s->at) + 1}));
      if (frame.comp != LSP_NONE) {
        LspComp *comp = &s->index->comps.at[frame.comp];
        comp->body = (LspSpan){frame.open + 1, offset(s, s->at)};  // the outermost is the last
        comp->closed = true;
      }
    }
  }
  s->last = ++s->at;
  s->starts_line = false;
}

static void define(Scan *s, int32_t token, int32_t scope) {
  const HlStr word = lsp_token_text(s->text, &s->index->tokens.at[token]);
  const int32_t name = lsp_name(s->index, s->text, scope, word, LSP_VALUE);
  lsp_refer(s->index, token, name, true);
  LspName *named = &s->index->names.at[name];
  if (named->statement == LSP_NONE && s->index->statements.n > 0) {
    named->statement = top(s)->kind == OP ? top(s)->statement : s->index->statements.n - 1;
    named->comp = top(s)->comp;
  }
}

static void use(Scan *s, int32_t token) {
  const HlStr word = lsp_token_text(s->text, &s->index->tokens.at[token]);
  int32_t name = LSP_NONE;
  for (int k = s->frames.n - 1; k >= 0 && name == LSP_NONE; k--)
    name = lsp_find_name(s->index, s->text, s->frames.at[k].scope, word);
  if (name == LSP_NONE)
    name = lsp_name(s->index, s->text, top(s)->scope, word, LSP_VALUE);
  lsp_refer(s->index, token, name, false);
}

// --- Ops ------------------------------------------------------------------------------------------

static bool is_any(HlStr word, const char *const *words) {
  for (; *words; words++)
    if (hl_str_is(word, *words))
      return true;
  return false;
}

// "%0 =", "%0:2 =", "%a, %b =".
static bool at_results(const Scan *s) {
  const char *p = s->at;
  while (p < s->end && *p == '%') {
    p = suffix_end(s, p + 1);
    if (p < s->end && *p == ':')
      for (p++; p < s->end && is_digit(*p);)
        p++;
    p = skip_blanks(s, p);
    if (p < s->end && *p == ',')
      p = skip_blanks(s, p + 1);
  }
  return p < s->end && *p == '=' && p > s->at;
}

// An op's name: a word with a dot, or one of few without. In an attribute dictionary a name is followed by `=`, `,` or `}`.
static bool at_op(const Scan *s) {
  static const char *const bare[] = {"return", "module", "func", "call", NULL};
  if (s->at >= s->end)
    return false;
  if (*s->at == '"') {
    const char *end = string_end(s, s->at);
    return end < s->end && *skip_blanks(s, end) == '(';
  }
  const char *end = word_end(s, s->at);
  if (!is_start(*s->at))
    return false;
  const HlStr word = {s->at, (size_t)(end - s->at)};
  const char *next = skip_blanks(s, end);
  if (next < s->end && (*next == '=' || (s->behind_brace && (*next == ',' || *next == '}'))))
    return false;
  return memchr(word.at, '.', word.n) || is_any(word, bare);
}

static void take_op(Scan *s, int32_t statement) {
  static const char *const functions[] = {"func.func", "func", NULL};
  const char *from = s->at + (*s->at == '"'), *end;
  int32_t op;
  if (*s->at == '"') {
    end = string_end(s, s->at);
    op = take(s, from, end > from && end[-1] == '"' ? end - 1 : end, LSP_OP);
    s->at = s->last = end;
  } else {
    end = word_end(s, s->at);
    op = take(s, from, end, LSP_OP);
  }
  s->index->statements.at[statement].op = op;
  if (!is_any(lsp_token_text(s->text, &s->index->tokens.at[op]), functions))
    return;
  const LspSpan all = {s->index->statements.at[statement].all.at, offset(s, s->at)};
  vec_push(&s->index->comps, ((LspComp){all, {0, 0}, LSP_NONE, 0, LSP_NONE, false, false}));
  top(s)->comp = s->index->comps.n - 1;
  s->index->statements.at[statement].comp = top(s)->comp;
}

static void take_results(Scan *s, int32_t statement) {
  const int32_t scope = s->frames.at[s->frames.n - 2].scope;  // of the region around the op
  while (s->at < s->end && *s->at == '%') {
    const int32_t token = take(s, s->at + 1, suffix_end(s, s->at + 1), LSP_VALUE);
    define(s, token, scope);
    LspStatement *made = &s->index->statements.at[statement];
    if (made->name == LSP_NONE)
      made->name = s->index->tokens.at[token].name;
    while (s->at < s->end && (*s->at == ':' || is_digit(*s->at)))
      s->at++;
    s->at = skip_blanks(s, s->at);
    if (s->at < s->end && *s->at == ',')
      s->at = skip_blanks(s, s->at + 1);
  }
  s->at = skip_blanks(s, s->at + 1);  // =
  skip(s);
}

static void begin_statement(Scan *s) {
  end_statement(s);
  top(s)->has_ops = true;
  s->arg_scope = LSP_NONE;
  int depth = 0;
  for (int k = 0; k < s->frames.n; k++)
    depth += s->frames.at[k].kind == OP;
  const uint32_t at = offset(s, s->at);
  const int32_t place = s->index->statements.n;
  vec_push(&s->index->statements, ((LspStatement){.all = {at, at},
                                                  .op = LSP_NONE,
                                                  .name = LSP_NONE,
                                                  .comp = top(s)->comp,
                                                  .first = s->index->tokens.n,
                                                  .depth = depth}));
  push_frame(s, OP, place);
  if (*s->at == '%')
    take_results(s, place);
  if (at_op(s))
    take_op(s, place);
}

// --- Tokens ---------------------------------------------------------------------------------------

// The end of a balanced <...> (which may hold ->), or `p` itself.
static const char *angle_end(const Scan *s, const char *p) {
  int depth = 0;
  for (const char *q = p; q < s->end && *q != '\n'; q++) {
    if (*q == '"') {
      q = string_end(s, q) - 1;
    } else if (*q == '<') {
      depth++;
    } else if (*q == '>' && q[-1] != '-' && --depth == 0) {
      return q + 1;
    }
  }
  return p;
}

static bool is_type(HlStr word) {
  static const char *const words[] = {"tensor", "complex", "tuple", "vector", "memref", "index",
                                      "none",   "bf16",    "tf32",  "f16",    "f32",    "f64",
                                      "f80",    "f128",    "array", "dense",  NULL};
  if (is_any(word, words))
    return true;
  size_t k = word.n > 1 && (word.at[0] == 's' || word.at[0] == 'u');
  if (k < word.n && (word.at[k] == 'i' || (k == 0 && word.at[0] == 'f')))
    k++;
  else
    return false;
  if (k == word.n || !is_digit(word.at[k]))
    return false;
  while (k < word.n && (is_digit(word.at[k]) || (word.at[0] == 'f' && is_start(word.at[k]))))
    k++;
  return k == word.n;
}

static void take_word(Scan *s) {
  static const char *const keywords[] = {"public", "private", "attributes", "loc", "to", NULL};
  const char *end = word_end(s, s->at);
  const HlStr word = {s->at, (size_t)(end - s->at)};
  const char *next = skip_blanks(s, end);
  const char after = next < s->end ? *next : 0;
  if (is_type(word)) {
    const bool has_angle = after == '<' && next == end;
    take(s, s->at, has_angle ? angle_end(s, end) : end, LSP_TYPE);
  } else if (is_any(word, keywords)) {
    take(s, s->at, end, LSP_KEYWORD);
  } else {
    const bool has_dot = memchr(word.at, '.', word.n);
    take(s, s->at, end, after == '=' || after == ':' ? LSP_ATTR : has_dot ? LSP_OP : LSP_WORD);
  }
}

static void take_value(Scan *s) {
  const int32_t token = take(s, s->at + 1, suffix_end(s, s->at + 1), LSP_VALUE);
  const char *next = skip_blanks(s, s->at);
  const bool in_list = s->brackets > top(s)->brackets;
  const bool is_argument =
      in_list && next < s->end &&
      ((*next == ':' && next == s->at && next + 1 < s->end && !is_digit(next[1])) ||
       (*next == '=' && next + 1 < s->end && next[1] != '='));
  if (is_argument)
    define(s, token, s->arg_scope != LSP_NONE ? s->arg_scope : top(s)->scope);
  else
    use(s, token);
}

static bool names_symbol(const Scan *s, const LspStatement *of) {
  static const char *const definers[] = {"func.func",      "func",     "module",
                                         "builtin.module", "sdy.mesh", NULL};
  if (of->op == LSP_NONE ||
      !is_any(lsp_token_text(s->text, &s->index->tokens.at[of->op]), definers))
    return false;
  for (int32_t k = of->op; k < s->index->tokens.n - 1; k++)
    if (s->index->tokens.at[k].kind == LSP_COMP || s->index->tokens.at[k].kind == LSP_MODULE)
      return false;
  return true;
}

// @f, @"f g": a function, a module, a mesh.
static void take_symbol(Scan *s) {
  LspIndex *index = s->index;
  const bool quoted = s->at + 1 < s->end && s->at[1] == '"';
  const char *from = s->at + 1 + quoted;
  const char *end = quoted ? string_end(s, s->at + 1) - 1 : suffix_end(s, from);
  if (end < from)
    end = from;
  const int32_t token = take(s, from, end, LSP_COMP);
  if (quoted && end < s->end && *end == '"')
    s->at = s->last = end + 1;
  const int32_t statement = top(s)->kind == OP ? top(s)->statement : LSP_NONE;
  const bool defines = statement != LSP_NONE && names_symbol(s, &index->statements.at[statement]);
  const int32_t name = lsp_name(index, s->text, SYMBOLS,
                                lsp_token_text(s->text, &index->tokens.at[token]), LSP_COMP);
  lsp_refer(index, token, name, defines);
  if (!defines)
    return;
  index->names.at[name].statement = statement;
  index->statements.at[statement].name = name;
  if (index->statements.at[statement].comp != LSP_NONE && top(s)->comp != LSP_NONE &&
      index->comps.at[top(s)->comp].name == LSP_NONE) {
    index->comps.at[top(s)->comp].name = name;
    index->names.at[name].comp = top(s)->comp;
  }
}

// #alias, !alias; a dialect's own: #stablehlo.dot<...>, !stablehlo.token.
static void take_alias(Scan *s) {
  const char *end = word_end(s, s->at + 1);
  const HlStr word = {s->at + 1, (size_t)(end - s->at - 1)};
  const bool foreign = memchr(word.at, '.', word.n) != NULL;
  const bool is_type_name = *s->at == '!';
  const bool defines = s->starts_line && s->brackets == 0 && *skip_blanks(s, end) == '=';
  if (is_type_name && end < s->end && *end == '<')
    end = angle_end(s, end);
  const int32_t token = take(s, s->at + 1, end, is_type_name ? LSP_TYPE : LSP_LABEL);
  if (foreign || end != word.at + word.n)
    return;
  const int32_t name =
      lsp_name(s->index, s->text, ALIASES - (is_type_name ? 1 : 0), word, LSP_LABEL);
  lsp_refer(s->index, token, name, defines);
}

// ^bb0(%x: i32):
static void take_block(Scan *s, bool defines) {
  if (defines)
    end_statement(s);
  const int32_t token = take(s, s->at + 1, suffix_end(s, s->at + 1), LSP_LABEL);
  int32_t scope = top(s)->scope;
  for (int k = s->frames.n - 1; k >= 0; k--)
    if (s->frames.at[k].kind == REGION) {
      scope = s->frames.at[k].scope;
      break;
    }
  // Labels and values of one region do not meet: a label's scope is a negative number.
  const int32_t name = lsp_name(s->index, s->text, -10 - scope,
                                lsp_token_text(s->text, &s->index->tokens.at[token]), LSP_LABEL);
  lsp_refer(s->index, token, name, defines);
  s->arg_scope = defines ? scope : LSP_NONE;
}

static void take_any(Scan *s) {
  const char c = *s->at;
  if (c == '%') {
    take_value(s);
  } else if (c == '@') {
    take_symbol(s);
  } else if (c == '^') {
    take_block(s, s->starts_line);
  } else if (c == '#' || c == '!') {
    take_alias(s);
  } else if (c == '"') {
    take(s, s->at, string_end(s, s->at), LSP_STRING);
  } else if (is_start(c)) {
    take_word(s);
  } else if (is_digit(c)) {
    take(s, s->at, suffix_end(s, s->at), LSP_NUMBER);
  } else {
    s->brackets += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (s->brackets < 0)
      s->brackets = 0;
    s->last = ++s->at;
    if (c == ':' && s->brackets == 0)
      s->arg_scope = LSP_NONE;
  }
}

void lsp_index_mlir(LspIndex *index, HlStr text) {
  Scan s = {.index = index,
            .text = text,
            .at = text.at,
            .end = text.at + text.n,
            .last = text.at,
            .starts_line = true,
            .arg_scope = LSP_NONE};
  push_frame(&s, REGION, LSP_NONE);
  for (skip(&s); s.at < s.end; skip(&s)) {
    const bool may_start = s.starts_line && s.brackets == top(&s)->brackets;
    if (*s.at == '{') {
      open_brace(&s);
      continue;
    }
    if (*s.at == '}') {
      close_brace(&s);
      continue;
    }
    if (may_start && ((*s.at == '%' && at_results(&s)) || at_op(&s)))
      begin_statement(&s);
    else
      take_any(&s);
    s.starts_line = s.behind_brace = false;
  }
  while (s.frames.n > 1) {
    end_statement(&s);
    if (s.frames.n > 1)
      (void)vec_pop(&s.frames);
  }
  vec_free(&s.frames);
}
