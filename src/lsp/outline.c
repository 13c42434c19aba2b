// lsp/outline.c: the text from afar: symbols, what can be folded, kinds of tokens.
#include <string.h>

#include "base/memory.h"
#include "lsp/lsp.h"

// --- Symbols --------------------------------------------------------------------------------------

enum { MODULE_SYMBOL = 2, FUNCTION_SYMBOL = 12, VARIABLE_SYMBOL = 13, PARAMETER_SYMBOL = 26 };
// In a longer text an outline of instructions would be of no use to people, and no editor shows it in time.
enum { MAX_LISTED = 20000 };

static HlStr comp_name(const LspDoc *doc, const LspComp *comp) {
  if (comp->name == LSP_NONE)
    return hl_str("(unnamed)");
  const LspName *name = &doc->index.names.at[comp->name];
  return name->token >= 0 ? lsp_token_text(lsp_text(doc), &doc->index.tokens.at[name->token])
                          : hl_str("(unnamed)");
}

static void open_symbol(const LspAsk *ask, HlStr name, HlStr detail, int kind, LspSpan all,
                        LspSpan at) {
  json_open(ask->out, NULL, '{');
  json_bytes(ask->out, "name", name.at, name.n);
  if (detail.n)
    json_bytes(ask->out, "detail", detail.at, detail.n);
  json_int(ask->out, "kind", kind);
  if (!ask->lsp->nested_symbols) {
    json_open(ask->out, "location", '{');
    json_text(ask->out, "uri", ask->doc->uri);
    lsp_put_range(ask, "range", all);
    json_close(ask->out, '}');
    return;
  }
  lsp_put_range(ask, "range", all);
  lsp_put_range(ask, "selectionRange", at);
}

static void put_statement_symbol(const LspAsk *ask, const LspStatement *of) {
  const LspDoc *doc = ask->doc;
  const LspName *name = &doc->index.names.at[of->name];
  const LspToken *at = &doc->index.tokens.at[name->token];
  HlBuf detail = {0};
  if (of->shape.end > of->shape.at) {
    hl_buf_add(&detail, doc->text.at + of->shape.at, of->shape.end - of->shape.at);
    hl_buf_putc(&detail, ' ');
  }
  const HlStr op = of->op != LSP_NONE ? lsp_token_text(lsp_text(doc), &doc->index.tokens.at[of->op])
                                      : hl_str("");
  hl_buf_add(&detail, op.at, op.n);
  open_symbol(ask, lsp_token_text(lsp_text(doc), at), (HlStr){detail.at, detail.n},
              hl_str_is(op, "parameter") ? PARAMETER_SYMBOL : VARIABLE_SYMBOL, of->all,
              lsp_token_span(at));
  json_close(ask->out, '}');
  hl_buf_free(&detail);
}

// The statements of a computation that give a value a name, in the order of the text.
static void put_statements(const LspAsk *ask, int32_t comp, int *from) {
  const LspIndex *index = &ask->doc->index;
  for (; *from < index->statements.n; ++*from) {
    const LspStatement *of = &index->statements.at[*from];
    if (of->comp > comp)
      return;
    if (of->comp == comp && of->name != LSP_NONE && index->names.at[of->name].token >= 0 &&
        index->names.at[of->name].kind == LSP_VALUE)
      put_statement_symbol(ask, of);
  }
}

static void put_comp_symbol(const LspAsk *ask, int32_t which, bool listed, int *from) {
  const LspDoc *doc = ask->doc;
  const LspComp *comp = &doc->index.comps.at[which];
  LspSpan at = {comp->all.at, comp->all.at};
  if (comp->name != LSP_NONE && doc->index.names.at[comp->name].token >= 0)
    at = lsp_token_span(&doc->index.tokens.at[doc->index.names.at[comp->name].token]);
  if (at.at < comp->all.at || at.end > comp->all.end)  // another computation has the name
    at = (LspSpan){comp->all.at, comp->all.at};
  open_symbol(ask, comp_name(doc, comp), hl_str(comp->entry ? "ENTRY" : ""), FUNCTION_SYMBOL,
              comp->all, at);
  if (listed && ask->lsp->nested_symbols) {
    json_open(ask->out, "children", '[');
    put_statements(ask, which, from);
    json_close(ask->out, ']');
  }
  json_close(ask->out, '}');
}

// Modules' names stand beside the computations; instructions below these, unless there are too many.
void lsp_symbols(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  int from = 0;
  json_open(ask->out, NULL, '[');
  for (int k = 0; k < index->modules.n; k++) {
    const LspToken *token = &index->tokens.at[index->modules.at[k]];
    open_symbol(ask, lsp_token_text(lsp_text(ask->doc), token), hl_str("HloModule"), MODULE_SYMBOL,
                lsp_token_span(token), lsp_token_span(token));
    json_close(ask->out, '}');
  }
  for (int k = 0; k < index->comps.n; k++)
    put_comp_symbol(ask, k, index->statements.n <= MAX_LISTED, &from);
  json_close(ask->out, ']');
}

// --- Folding --------------------------------------------------------------------------------------

// What ends in a brace leaves the brace's line to be seen.
static void put_fold(const LspAsk *ask, LspSpan span, const char *kind, bool brace) {
  const int64_t first = lsp_place(ask->doc, true, span.at).line;
  const int64_t last = lsp_place(ask->doc, true, span.end).line - brace;
  if (last <= first)
    return;
  json_open(ask->out, NULL, '{');
  json_int(ask->out, "startLine", first);
  json_int(ask->out, "endLine", last);
  if (kind)
    json_text(ask->out, "kind", kind);
  json_close(ask->out, '}');
}

// Comments of several lines, and several of a line each.
static void put_comment_folds(const LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  for (int k = 0; k < index->tokens.n; k++) {
    if (index->tokens.at[k].kind != LSP_COMMENT)
      continue;
    int last = k;
    while (last + 1 < index->tokens.n && index->tokens.at[last + 1].kind == LSP_COMMENT)
      last++;
    const uint32_t at = index->tokens.at[k].at;
    const LspPlace place = lsp_place(ask->doc, true, at);
    if (strspn(ask->doc->text.at + ask->doc->lines.at[place.line], " \t") ==
        (size_t)place.character)
      put_fold(ask, (LspSpan){at, lsp_token_span(&index->tokens.at[last]).end}, "comment", false);
    k = last;
  }
}

void lsp_folding(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  json_open(ask->out, NULL, '[');
  if (!ask->doc->is_mlir)
    for (int k = 0; k < index->comps.n; k++)
      put_fold(ask, (LspSpan){index->comps.at[k].all.at, index->comps.at[k].body.end}, NULL, true);
  for (int k = 0; k < index->folds.n; k++)
    put_fold(ask, index->folds.at[k], NULL, ask->doc->is_mlir);
  put_comment_folds(ask);
  json_close(ask->out, ']');
}

// --- Kinds of tokens ------------------------------------------------------------------------------

// Where the last token stood; tokens are told by the distance from the one before.
typedef struct Told {
  uint32_t at;
  int64_t line, column;  // of `at`
  int64_t last_line, last_column;
} Told;

static void move_to(const LspAsk *ask, Told *told, uint32_t at) {
  const LspDoc *doc = ask->doc;
  while (told->line + 1 < doc->lines.n && doc->lines.at[told->line + 1] <= at) {
    told->at = doc->lines.at[++told->line];
    told->column = 0;
  }
  for (; told->at < at; told->at++) {  // a character counts where it begins
    const unsigned char c = (unsigned char)doc->text.at[told->at];
    told->column += ask->lsp->utf8 ? 1 : (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
  }
}

// One line of a token.
static void put_token(const LspAsk *ask, Told *told, uint32_t at, uint32_t end,
                      const LspToken *token) {
  move_to(ask, told, at);
  const int64_t line = told->line, column = told->column;
  move_to(ask, told, end);
  const int64_t length = told->column - column;
  if (length <= 0 || told->line != line)
    return;
  const int64_t over = line - told->last_line;
  const int64_t five[] = {over, over ? column : column - told->last_column, length, token->kind,
                          token->defines};
  for (int k = 0; k < 5; k++) {
    if (ask->out->at[ask->out->n - 1] != '[')
      hl_buf_putc(ask->out, ',');
    hl_buf_i64(ask->out, five[k]);
  }
  told->last_line = line;
  told->last_column = column;
}

static void put_tokens(const LspAsk *ask, LspSpan within) {
  const LspDoc *doc = ask->doc;
  Told told = {0};
  json_open(ask->out, NULL, '{');
  json_open(ask->out, "data", '[');
  for (int k = 0; k < doc->index.tokens.n; k++) {
    const LspToken *token = &doc->index.tokens.at[k];
    const uint32_t end = token->at + token->n;
    if (end < within.at || token->at > within.end)
      continue;
    for (uint32_t at = token->at; at < end;) {  // a token of the protocol is of one line
      const char *line = memchr(doc->text.at + at, '\n', end - at);
      const uint32_t stop = line ? (uint32_t)(line - doc->text.at) : end;
      put_token(ask, &told, at, stop, token);
      at = stop + 1;
    }
  }
  json_close(ask->out, ']');
  json_close(ask->out, '}');
}

void lsp_tokens_full(LspAsk *ask) {
  put_tokens(ask, (LspSpan){0, (uint32_t)ask->doc->text.n});
}

static uint32_t place_in(const LspAsk *ask, const char *key) {
  const json_t *place = json_object_get(json_object_get(ask->params, "range"), key);
  return lsp_offset(ask->doc, ask->lsp->utf8,
                    (LspPlace){lsp_integer(place, "line", 0), lsp_integer(place, "character", 0)});
}

void lsp_tokens_range(LspAsk *ask) {
  put_tokens(ask, (LspSpan){place_in(ask, "start"), place_in(ask, "end")});
}
