// lsp/format.c: the text as Hilo prints it, in the manner in which it is written, with its comments.
//
// The printer knows nothing of comments. Each is tied to what it stands in front of (on lines of its own) or beside (behind
// something on its line), and goes to where that is printed: instructions and computations of HLO are found again by name,
// ops of MLIR by their number. A comment that is tied to nothing, or to the middle of something, would be lost; then nothing
// is formatted, and the reason is told. What comes out is read again, and must say the same.
#include <string.h>

#include "base/memory.h"
#include "hilo/text.h"
#include "lsp/lsp.h"

typedef enum TieKind { BEFORE, BESIDE, BEHIND, AT_END } TieKind;  // BEHIND: on the lines below
typedef enum ThingKind { STATEMENT, COMP, MODULE } ThingKind;
typedef struct Tie {
  TieKind kind;
  ThingKind of;
  int32_t which;
  LspSpan comment;
} Tie;

typedef struct Insert {
  uint32_t at;  // in what was printed
  int order;
  const Tie *tie;
} Insert;

typedef struct Format {
  LspAsk *ask;
  LspDoc *doc;  // as it is written
  LspDoc *printed;
  VEC(Tie) ties;
  VEC(Insert) inserts;
} Format;

// --- The manner -----------------------------------------------------------------------------------

static bool has_percent(const LspDoc *doc) {
  for (int k = 0; k < doc->index.tokens.n; k++) {
    const LspToken *token = &doc->index.tokens.at[k];
    if (token->name >= 0 && token->at > 0 && doc->text.at[token->at - 1] == '%')
      return true;
  }
  return false;
}

static bool has_signatures(const LspDoc *doc) {
  for (int k = 0; k < doc->index.comps.n; k++) {
    const LspComp *comp = &doc->index.comps.at[k];
    if (comp->body.at > comp->all.at &&
        memchr(doc->text.at + comp->all.at, '(', comp->body.at - comp->all.at))
      return true;
  }
  return false;
}

// Whether shapes stand in front of operands.
static bool has_operand_shapes(const LspDoc *doc) {
  for (int k = 0; k < doc->index.statements.n; k++) {
    const LspStatement *of = &doc->index.statements.at[k];
    for (int t = of->op; t != LSP_NONE && t + 1 < of->end; t++) {
      const LspToken *type = &doc->index.tokens.at[t], *next = type + 1;
      if (type->kind == LSP_ATTR)
        break;
      if (type->kind == LSP_TYPE && next->kind == LSP_VALUE)
        return true;
    }
  }
  return false;
}

// The header has layouts in any case.
static bool has_layouts(const LspDoc *doc) {
  for (int k = 0; k < doc->index.statements.n; k++) {
    const LspSpan shape = doc->index.statements.at[k].shape;
    if (memchr(doc->text.at + shape.at, '{', shape.end - shape.at))
      return true;
  }
  return false;
}

// Whether every fifth operand has its number in front.
static bool has_index_comments(const LspDoc *doc) {
  for (int k = 0; k + 1 < doc->index.tokens.n; k++) {
    const LspToken *comment = &doc->index.tokens.at[k];
    if (comment->kind == LSP_COMMENT && comment[1].kind == LSP_VALUE &&
        strncmp(doc->text.at + comment->at, "/*index=", 8) == 0)
      return true;
  }
  return false;
}

static bool has_text(const LspDoc *doc, const char *text) {
  return memmem(doc->text.at, doc->text.n, text, strlen(text)) != NULL;
}

static void print_hlo(HlCx *cx, const LspDoc *doc, HlBuf *out) {
  const bool percent = has_percent(doc);
  const HlTextOptions how = {
      .preset = percent ? HL_TEXT_DEFAULT : HL_TEXT_SHORT,
      .signatures = hl_switch(has_signatures(doc)),
      .operand_shapes = hl_switch(has_operand_shapes(doc)),
      .layouts = hl_switch(has_layouts(doc)),
      .index_comments = hl_switch(has_index_comments(doc)),
      .metadata = HL_ON,
      .backend_config = HL_ON,
      .control_predecessors = HL_ON,
      .frames = HL_ON,
      .large_constants = HL_ON,
  };
  for (int k = 0; k < doc->n_modules; k++) {
    if (k)
      hl_buf_puts(out, "\n// -----\n\n");
    hl_text_print(cx, doc->modules[k], &how, out);
  }
}

static void print_mlir(const LspDoc *doc, HlBuf *out) {
  const HlMlTextOptions how = {.locations = has_text(doc, " loc("), .large_constants = true};
  for (int k = 0; k < doc->n_trees; k++) {
    if (k)
      hl_buf_puts(out, "\n// -----\n\n");
    hl_ml_text_print(doc->trees[k], &how, out);
  }
}

// --- Comments -------------------------------------------------------------------------------------

// Comments that the printer writes, and lines between modules.
static bool is_printed(const LspDoc *doc, const LspToken *comment) {
  const char *at = doc->text.at + comment->at;
  return (comment->n > 8 && memcmp(at, "/*index=", 8) == 0) ||
         (comment->n >= 8 && memcmp(at, "// -----", 8) == 0 &&
          (comment->n == 8 || strchr(" \t\r", at[8])));
}

static bool begins_line(const LspDoc *doc, uint32_t at) {
  while (at > 0 && (doc->text.at[at - 1] == ' ' || doc->text.at[at - 1] == '\t'))
    at--;
  return at == 0 || doc->text.at[at - 1] == '\n';
}

static bool ends_line(const LspDoc *doc, uint32_t at) {
  while (at < doc->text.n &&
         (doc->text.at[at] == ' ' || doc->text.at[at] == '\t' || doc->text.at[at] == '\r'))
    at++;
  return at == doc->text.n || doc->text.at[at] == '\n';
}

static bool same_line(const LspDoc *doc, uint32_t a, uint32_t b) {
  return a <= b && !memchr(doc->text.at + a, '\n', b - a);
}

// Where a thing's first line ends as far as the thing goes: of a computation behind its brace.
static uint32_t head_end(const LspDoc *doc, ThingKind kind, int32_t which) {
  const LspIndex *index = &doc->index;
  if (kind == COMP)
    return index->comps.at[which].body.at;
  if (kind == MODULE)
    return lsp_token_span(&index->tokens.at[index->modules.at[which]]).end;
  const LspSpan all = index->statements.at[which].all;
  const char *line = memchr(doc->text.at + all.at, '\n', all.end - all.at);
  return line && doc->is_mlir ? (uint32_t)(line - doc->text.at) : all.end;
}

static uint32_t thing_start(const LspDoc *doc, ThingKind kind, int32_t which) {
  const LspIndex *index = &doc->index;
  if (kind == COMP)
    return index->comps.at[which].all.at;
  if (kind == MODULE)
    return index->tokens.at[index->modules.at[which]].at;
  return index->statements.at[which].all.at;
}

static int32_t n_things(const LspDoc *doc, ThingKind kind) {
  return kind == COMP     ? doc->index.comps.n
         : kind == MODULE ? doc->index.modules.n
                          : doc->index.statements.n;
}

// The first thing of a kind that starts at or behind a byte.
static int32_t next_thing(const LspDoc *doc, ThingKind kind, uint32_t at) {
  int32_t low = 0, high = n_things(doc, kind);
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (thing_start(doc, kind, middle) < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The end of the comment that starts at a byte; the byte itself where none does.
static uint32_t comment_end(const LspDoc *doc, uint32_t at) {
  const int32_t which = doc->text.at[at] == '/' ? lsp_token_at(&doc->index, at) : LSP_NONE;
  const LspToken *token = which == LSP_NONE ? NULL : &doc->index.tokens.at[which];
  return token && token->kind == LSP_COMMENT && token->at == at ? at + token->n : at;
}

// Nothing but white space, other comments and the words in front of things (HloModule, ENTRY) between.
static bool only_blank(const LspDoc *doc, uint32_t from, uint32_t to) {
  const int32_t first = next_thing(doc, MODULE, from);
  for (uint32_t k = from; k < to;) {
    const char *s = doc->text.at + k;
    if (*s == ' ' || *s == '\n' || *s == '\r' || *s == '\t')
      k++;
    else if (comment_end(doc, k) > k)
      k = comment_end(doc, k);
    else if (first < doc->index.modules.n && strncmp(s, "HloModule", 9) == 0)
      k += 9;
    else
      return false;
  }
  return true;
}

static bool tie_before(Format *f, LspSpan comment) {
  const LspDoc *doc = f->doc;
  for (int kind = doc->is_mlir ? STATEMENT : MODULE; kind >= STATEMENT; kind--) {
    const int32_t next = next_thing(doc, (ThingKind)kind, comment.end);
    if (next < n_things(doc, (ThingKind)kind) &&
        only_blank(doc, comment.end, thing_start(doc, (ThingKind)kind, next))) {
      vec_push(&f->ties, ((Tie){BEFORE, (ThingKind)kind, next, comment}));
      return true;
    }
  }
  if (only_blank(doc, comment.end, (uint32_t)doc->text.n)) {
    vec_push(&f->ties, ((Tie){AT_END, STATEMENT, 0, comment}));
    return true;
  }
  // In front of a brace: behind the last instruction.
  const int32_t last = next_thing(doc, STATEMENT, comment.at) - 1;
  if (last < 0 || (!doc->is_mlir && doc->index.statements.at[last].all.end > comment.at))
    return false;
  int32_t of = last;  // of nested ops, the outermost that ends before the comment
  for (int32_t k = last; k >= 0 && k > last - 4096; k--)
    if (doc->index.statements.at[k].all.end <= comment.at &&
        doc->index.statements.at[k].depth <= doc->index.statements.at[of].depth &&
        doc->index.statements.at[k].all.end >= doc->index.statements.at[of].all.end)
      of = k;
  if (doc->index.statements.at[of].all.end > comment.at)
    return false;
  vec_push(&f->ties, ((Tie){BEHIND, STATEMENT, of, comment}));
  return true;
}

static bool tie_beside(Format *f, LspSpan comment) {
  const LspDoc *doc = f->doc;
  for (int kind = MODULE; kind >= STATEMENT; kind--) {
    const int32_t last = next_thing(doc, (ThingKind)kind, comment.at) - 1;
    if (last < 0 || (kind == COMP && doc->is_mlir))
      continue;
    const uint32_t end = head_end(doc, (ThingKind)kind, last);
    const bool behind = kind == STATEMENT && !doc->is_mlir ? end <= comment.at : true;
    const uint32_t from = doc->is_mlir ? thing_start(doc, (ThingKind)kind, last) : end;
    if (behind && same_line(doc, from, comment.at)) {
      vec_push(&f->ties, ((Tie){BESIDE, (ThingKind)kind, last, comment}));
      return true;
    }
  }
  return false;
}

static bool tie_comments(Format *f) {
  const LspDoc *doc = f->doc;
  for (int k = 0; k < doc->index.tokens.n; k++) {
    const LspToken *token = &doc->index.tokens.at[k];
    const LspSpan comment = lsp_token_span(token);
    if (token->kind != LSP_COMMENT || is_printed(doc, token))
      continue;
    // A comment inside of something has more of it behind.
    if (!ends_line(doc, comment.end) ||
        !(begins_line(doc, comment.at) ? tie_before(f, comment) : tie_beside(f, comment))) {
      const LspPlace at = lsp_place(doc, true, comment.at);
      lsp_fail(f->ask, LSP_REQUEST_FAILED,
               "the comment in line %lld would be lost: it stands inside of something",
               (long long)at.line + 1);
      return false;
    }
  }
  return true;
}

// --- Where things are printed -----------------------------------------------------------------------

static HlStr name_text(const LspDoc *doc, int32_t name) {
  const int32_t token = name == LSP_NONE ? LSP_NONE : doc->index.names.at[name].token;
  return token >= 0 ? lsp_token_text(lsp_text(doc), &doc->index.tokens.at[token]) : (HlStr){0};
}

static int32_t find_comp(const LspDoc *in, int32_t module, HlStr name) {
  for (int k = 0; k < in->index.comps.n; k++)
    if (in->index.comps.at[k].module == module &&
        hl_str_equal(name_text(in, in->index.comps.at[k].name), name))
      return k;
  return LSP_NONE;
}

// The same thing in what was printed; LSP_NONE: it is not there, or not under its name.
static int32_t printed_thing(const Format *f, const Tie *tie) {
  const LspDoc *doc = f->doc, *in = f->printed;
  if (tie->of == MODULE || doc->is_mlir)
    return tie->which < n_things(in, tie->of) ? tie->which : LSP_NONE;
  const int32_t comp = tie->of == COMP ? tie->which : doc->index.statements.at[tie->which].comp;
  if (comp == LSP_NONE)
    return LSP_NONE;
  const LspComp *of = &doc->index.comps.at[comp];
  const HlStr name = name_text(doc, of->name);
  const int32_t found = name.n ? find_comp(in, of->module, name) : LSP_NONE;
  if (tie->of == COMP || found == LSP_NONE)
    return found;
  const HlStr inst = name_text(doc, doc->index.statements.at[tie->which].name);
  const int32_t there = inst.n ? lsp_find_name(&in->index, lsp_text(in), found, inst) : LSP_NONE;
  return there == LSP_NONE ? LSP_NONE : in->index.names.at[there].statement;
}

static uint32_t line_start(const LspDoc *doc, uint32_t at) {
  while (at > 0 && doc->text.at[at - 1] != '\n')
    at--;
  return at;
}

static uint32_t line_end(const LspDoc *doc, uint32_t at) {
  const char *line = at < doc->text.n ? memchr(doc->text.at + at, '\n', doc->text.n - at) : NULL;
  return line ? (uint32_t)(line - doc->text.at) : (uint32_t)doc->text.n;
}

static bool place_ties(Format *f) {
  const LspDoc *in = f->printed;
  for (int k = 0; k < f->ties.n; k++) {
    const Tie *tie = &f->ties.at[k];
    uint32_t at = (uint32_t)in->text.n;
    if (tie->kind != AT_END) {
      const int32_t which = printed_thing(f, tie);
      if (which == LSP_NONE) {
        const LspPlace place = lsp_place(f->doc, true, tie->comment.at);
        lsp_fail(f->ask, LSP_REQUEST_FAILED,
                 "the comment in line %lld would be lost: what it belongs to is "
                 "printed under another name",
                 (long long)place.line + 1);
        return false;
      }
      const uint32_t start = thing_start(in, tie->of, which);
      at = tie->kind == BEFORE   ? line_start(in, start)
           : tie->kind == BESIDE ? line_end(in, tie->of == STATEMENT && !in->is_mlir
                                                    ? in->index.statements.at[which].all.end
                                                    : start)
                                 : line_end(in, in->index.statements.at[which].all.end);
    }
    vec_push(&f->inserts, ((Insert){at, k, tie}));
  }
  return true;
}

static int by_place(const void *a, const void *b) {
  const Insert *x = a, *y = b;
  return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->order - y->order;
}

static void put_indent(const LspDoc *doc, uint32_t line, HlBuf *out) {
  for (uint32_t k = line; k < doc->text.n && doc->text.at[k] == ' '; k++)
    hl_buf_putc(out, ' ');
}

static void put_comment(const Format *f, const Insert *insert, HlBuf *out) {
  const LspDoc *doc = f->doc, *in = f->printed;
  const char *text = doc->text.at + insert->tie->comment.at;
  size_t n = insert->tie->comment.end - insert->tie->comment.at;
  while (n && (text[n - 1] == '\r' || text[n - 1] == ' '))
    n--;
  switch (insert->tie->kind) {
  case BEFORE: put_indent(in, insert->at, out); break;
  case BESIDE: hl_buf_puts(out, "  "); break;
  case BEHIND:
    hl_buf_putc(out, '\n');
    put_indent(in, line_start(in, insert->at), out);
    break;
  case AT_END:
    if (out->n && out->at[out->n - 1] != '\n')
      hl_buf_putc(out, '\n');
    break;
  }
  hl_buf_add(out, text, n);
  if (insert->tie->kind == BEFORE || insert->tie->kind == AT_END)
    hl_buf_putc(out, '\n');
}

static void put_with_comments(Format *f, HlBuf *out) {
  const LspDoc *in = f->printed;
  if (f->inserts.n)
    qsort(f->inserts.at, (size_t)f->inserts.n, sizeof *f->inserts.at, by_place);
  uint32_t done = 0;
  for (int k = 0; k < f->inserts.n; k++) {
    const Insert *insert = &f->inserts.at[k];
    hl_buf_add(out, in->text.at + done, insert->at - done);
    done = insert->at;
    put_comment(f, insert, out);
  }
  hl_buf_add(out, in->text.at + done, in->text.n - done);
}

// --- The answer -----------------------------------------------------------------------------------

static int count_comments(const LspDoc *doc) {
  int n = 0;
  for (int k = 0; k < doc->index.tokens.n; k++)
    n += doc->index.tokens.at[k].kind == LSP_COMMENT && !is_printed(doc, &doc->index.tokens.at[k]);
  return n;
}

// What comes out must be the same program with as many comments; NULL, or what is not so.
static const char *what_differs(Format *f, const HlBuf *text) {
  LspDoc *doc = f->doc, *other = lsp_doc_new(doc->uri, doc->is_mlir ? "mlir" : "hlo");
  lsp_doc_set(other, text->at, text->n);
  other->is_mlir = doc->is_mlir;
  lsp_check(f->ask->cx, other);
  lsp_doc_index(other);
  bool same = other->n_modules == doc->n_modules && other->n_trees == doc->n_trees;
  for (int k = 0; same && k < doc->n_modules; k++)
    same = hl_graph_equal(f->ask->cx, doc->modules[k], other->modules[k]);
  const char *where, *why = NULL;
  for (int k = 0; same && k < doc->n_trees; k++)
    same = hl_ml_equal(doc->trees[k], other->trees[k], &where);
  if (!other->whole)
    why = "what is printed could not be read again";
  else if (!same)
    why = "what is printed would not be the same program (digits of a constant, say)";
  else if (count_comments(other) != count_comments(doc))
    why = "a comment would be lost";
  hl_cx_clear(f->ask->cx);
  lsp_doc_free(other);
  return why;
}

static void put_edit(LspAsk *ask, const HlBuf *text) {
  const LspDoc *doc = ask->doc;
  json_open(ask->out, NULL, '[');
  if (text->n != doc->text.n || memcmp(text->at, doc->text.at, text->n) != 0) {
    json_open(ask->out, NULL, '{');
    lsp_put_range(ask, "range", (LspSpan){0, (uint32_t)doc->text.n});
    json_bytes(ask->out, "newText", text->at, text->n);
    json_close(ask->out, '}');
  }
  json_close(ask->out, ']');
}

static void format(Format *f) {
  HlBuf text = {0}, whole = {0};
  if (f->doc->is_mlir)
    print_mlir(f->doc, &text);
  else
    print_hlo(f->ask->cx, f->doc, &text);
  while (text.n && text.at[text.n - 1] == '\n')  // an editor's file ends in one
    text.n--;
  hl_buf_putc(&text, '\n');
  f->printed = lsp_doc_new(f->doc->uri, "");
  lsp_doc_set(f->printed, text.at, text.n);
  f->printed->is_mlir = f->doc->is_mlir;
  lsp_doc_index(f->printed);
  const bool counts = !f->doc->is_mlir || f->ties.n == 0 ||
                      f->printed->index.statements.n == f->doc->index.statements.n;
  if (!counts) {
    lsp_fail(f->ask, LSP_REQUEST_FAILED,
             "the text has comments and more or fewer ops than what is printed");
  } else if (place_ties(f)) {
    put_with_comments(f, &whole);
    const char *why = what_differs(f, &whole);
    if (why)
      lsp_fail(f->ask, LSP_REQUEST_FAILED, "%s; nothing is changed", why);
    else
      put_edit(f->ask, &whole);
  }
  hl_buf_free(&text);
  hl_buf_free(&whole);
  lsp_doc_free(f->printed);
}

void lsp_formatting(LspAsk *ask) {
  LspDoc *doc = ask->doc;
  if (doc->is_mlir && doc->lowered)  // its trees are gone
    doc->unread = true;
  lsp_check(ask->cx, doc);
  if (!doc->whole) {
    lsp_fail(ask, LSP_REQUEST_FAILED, "the text has errors, it cannot be formatted");
    return;
  }
  if (doc->index.strays) {
    lsp_fail(ask, LSP_REQUEST_FAILED, "the text is a log with modules in it, which would be lost");
    return;
  }
  Format f = {.ask = ask, .doc = doc};
  if (tie_comments(&f))
    format(&f);
  vec_free(&f.ties);
  vec_free(&f.inserts);
}
