// lsp/navigate.c: where a name is defined, where it is used, and giving it another name.
#include <string.h>

#include "base/memory.h"
#include "hilo/edit.h"
#include "hilo/text.h"
#include "lsp/lsp.h"
#include "text/lex.h"

// The token of a name at the cursor; LSP_NONE.
static int32_t name_token(const LspAsk *ask) {
  const int32_t token = lsp_token_at(&ask->doc->index, ask->at);
  return token != LSP_NONE && ask->doc->index.tokens.at[token].name >= 0 ? token : LSP_NONE;
}

static void put_location(const LspAsk *ask, LspSpan span) {
  json_open(ask->out, NULL, '{');
  json_text(ask->out, "uri", ask->doc->uri);
  lsp_put_range(ask, "range", span);
  json_close(ask->out, '}');
}

void lsp_definition(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  const int32_t token = name_token(ask);
  if (token == LSP_NONE)
    return;
  const LspName *name = &index->names.at[index->tokens.at[token].name];
  if (name->token < 0)
    return;
  json_open(ask->out, NULL, '[');
  put_location(ask, lsp_token_span(&index->tokens.at[name->token]));
  json_close(ask->out, ']');
}

void lsp_references(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  const int32_t token = name_token(ask);
  if (token == LSP_NONE)
    return;
  const int32_t name = index->tokens.at[token].name;
  const json_t *context = json_object_get(ask->params, "context");
  const bool all = json_is_true(json_object_get(context, "includeDeclaration"));
  json_open(ask->out, NULL, '[');
  for (int k = 0; k < index->tokens.n; k++)
    if (index->tokens.at[k].name == name && (all || k != index->names.at[name].token))
      put_location(ask, lsp_token_span(&index->tokens.at[k]));
  json_close(ask->out, ']');
}

void lsp_highlight(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  const int32_t token = name_token(ask);
  if (token == LSP_NONE)
    return;
  json_open(ask->out, NULL, '[');
  for (int k = 0; k < index->tokens.n; k++) {
    if (index->tokens.at[k].name != index->tokens.at[token].name)
      continue;
    json_open(ask->out, NULL, '{');
    lsp_put_range(ask, "range", lsp_token_span(&index->tokens.at[k]));
    json_int(ask->out, "kind", index->tokens.at[k].defines ? 3 : 2);  // written, read
    json_close(ask->out, '}');
  }
  json_close(ask->out, ']');
}

// --- Other names ----------------------------------------------------------------------------------

void lsp_prepare_rename(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  const int32_t token = name_token(ask);
  if (token == LSP_NONE) {
    lsp_fail(ask, LSP_REQUEST_FAILED,
             "here stands no name of an instruction, computation or value");
    return;
  }
  const LspToken *at = &index->tokens.at[token];
  json_open(ask->out, NULL, '{');
  lsp_put_range(ask, "range", lsp_token_span(at));
  json_bytes(ask->out, "placeholder", ask->doc->text.at + at->at, at->n);
  json_close(ask->out, '}');
}

static bool is_hlo_name(HlStr name) {
  if (name.n == 0 || !lex_is(name.at[0], LEX_START) || hl_dtype_by_text(name) != HL_NO_DTYPE)
    return false;
  HlArena *arena = hl_arena_new();
  const HlStr clean = hl_sanitise_name(arena, name);
  const bool ok = hl_str_equal(clean, name) && lex_ident_end(name.at) == name.at + name.n;
  hl_arena_free(arena);
  return ok;
}

// suffix-id: digits, or a letter and then letters, digits, $ . _ -
static bool is_mlir_name(HlStr name, LspKind kind) {
  size_t n_digits = 0;
  for (size_t k = 0; k < name.n; k++) {
    const char c = name.at[k];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
                        c == '.' || c == '-';
    if (!letter && !(c >= '0' && c <= '9'))
      return false;
    n_digits += !letter;
  }
  const bool first_digit = name.n > 0 && name.at[0] >= '0' && name.at[0] <= '9';
  return name.n > 0 && (!first_digit || (kind == LSP_VALUE && n_digits == name.n));
}

// The text with the name replaced wherever it stands.
static void put_renamed(const LspDoc *doc, int32_t name, HlStr to, HlBuf *out) {
  uint32_t done = 0;
  for (int k = 0; k < doc->index.tokens.n; k++) {
    const LspToken *token = &doc->index.tokens.at[k];
    if (token->name != name)
      continue;
    hl_buf_add(out, doc->text.at + done, token->at - done);
    hl_buf_add(out, to.at, to.n);
    done = token->at + token->n;
  }
  hl_buf_add(out, doc->text.at + done, doc->text.n - done);
}

// Whether the other text says the same but for names; false after saying why not.
static bool means_the_same(LspAsk *ask, const HlBuf *text) {
  LspDoc *doc = ask->doc, *other = lsp_doc_new(doc->uri, doc->is_mlir ? "mlir" : "hlo");
  lsp_doc_set(other, text->at, text->n);
  other->is_mlir = doc->is_mlir;
  lsp_check(ask->cx, other);
  bool same = other->whole && other->n_modules == doc->n_modules && other->n_trees == doc->n_trees;
  for (int k = 0; same && k < doc->n_modules; k++)
    same = hl_graph_equal(ask->cx, doc->modules[k], other->modules[k]);
  for (int k = 0; same && k < doc->n_trees; k++) {
    const char *where;
    same = hl_ml_equal(doc->trees[k], other->trees[k], &where);
  }
  if (!same)
    lsp_fail(ask, LSP_REQUEST_FAILED, "with that name the program would be another%s%s",
             other->diags.n ? ": " : "", other->diags.n ? other->diags.at[0].text : "");
  hl_cx_clear(ask->cx);
  lsp_doc_free(other);
  return same;
}

// Trees that were lowered are not there to be compared with.
static void read_again(LspAsk *ask) {
  if (ask->doc->is_mlir && ask->doc->lowered)
    ask->doc->unread = true;
  lsp_check(ask->cx, ask->doc);
}

// Names of functions are known outside of the text: symbols that compare equal only if they are the same.
static bool is_symbol(const LspDoc *doc, const LspName *name) {
  return doc->is_mlir && name->kind == LSP_COMP;
}

static bool may_rename(LspAsk *ask, int32_t which, HlStr to) {
  LspDoc *doc = ask->doc;
  const LspName *name = &doc->index.names.at[which];
  const bool ok = doc->is_mlir ? is_mlir_name(to, (LspKind)name->kind) : is_hlo_name(to);
  if (!ok) {
    lsp_fail(ask, LSP_INVALID_PARAMS, "'%.*s' is no name%s", (int)to.n, to.at,
             doc->is_mlir ? " (letters, digits and $ . _ -, or digits alone)"
                          : " (letters, digits and _ . -, first a letter or _; no element type)");
    return false;
  }
  const int32_t other = lsp_find_name(&doc->index, lsp_text(doc), name->scope, to);
  if (other != LSP_NONE && other != which) {
    lsp_fail(ask, LSP_INVALID_PARAMS, "there is another '%.*s' already", (int)to.n, to.at);
    return false;
  }
  if (name->token < 0) {
    lsp_fail(ask, LSP_REQUEST_FAILED, "nothing defines this name");
    return false;
  }
  if (is_symbol(doc, name))
    return true;
  read_again(ask);
  if (!doc->whole)
    return true;
  HlBuf text = {0};
  put_renamed(doc, which, to, &text);
  const bool same = means_the_same(ask, &text);
  hl_buf_free(&text);
  return same;
}

void lsp_rename(LspAsk *ask) {
  const LspIndex *index = &ask->doc->index;
  const int32_t token = name_token(ask);
  const char *to = lsp_string(ask->params, "newName");
  if (token == LSP_NONE || !to) {
    lsp_fail(ask, LSP_INVALID_PARAMS, to ? "here stands no name" : "params.newName is missing");
    return;
  }
  HlStr word = hl_str(to);
  if (word.n && (*word.at == '%' || *word.at == '@')) {  // as people write it
    word.at++;
    word.n--;
  }
  const int32_t name = index->tokens.at[token].name;
  if (!may_rename(ask, name, word))
    return;
  json_open(ask->out, NULL, '{');
  json_open(ask->out, "changes", '{');
  json_open(ask->out, ask->doc->uri, '[');
  for (int k = 0; k < index->tokens.n; k++) {
    if (index->tokens.at[k].name != name)
      continue;
    json_open(ask->out, NULL, '{');
    lsp_put_range(ask, "range", lsp_token_span(&index->tokens.at[k]));
    json_bytes(ask->out, "newText", word.at, word.n);
    json_close(ask->out, '}');
  }
  json_close(ask->out, ']');
  json_close(ask->out, '}');
  json_close(ask->out, '}');
}

// --- Quick fixes ----------------------------------------------------------------------------------

static void put_fix(const LspAsk *ask, const LspDiag *d) {
  LspSpan span = d->span;
  const char first = ask->doc->text.at[span.at];
  span.at += (first == '%' || first == '@') && *d->instead != first;  // the sign stays
  HlBuf title = {0};
  hl_buf_printf(&title, "Write '%s'", d->instead);
  json_open(ask->out, NULL, '{');
  json_text(ask->out, "title", title.at);
  json_text(ask->out, "kind", "quickfix");
  json_bool(ask->out, "isPreferred", true);
  json_open(ask->out, "edit", '{');
  json_open(ask->out, "changes", '{');
  json_open(ask->out, ask->doc->uri, '[');
  json_open(ask->out, NULL, '{');
  lsp_put_range(ask, "range", span);
  json_text(ask->out, "newText", d->instead);
  json_close(ask->out, '}');
  json_close(ask->out, ']');
  json_close(ask->out, '}');
  json_close(ask->out, '}');
  json_close(ask->out, '}');
  hl_buf_free(&title);
}

static uint32_t range_end(const LspAsk *ask, const char *key) {
  const json_t *place = json_object_get(json_object_get(ask->params, "range"), key);
  return lsp_offset(ask->doc, ask->lsp->utf8,
                    (LspPlace){lsp_integer(place, "line", 0), lsp_integer(place, "character", 0)});
}

// What a diagnostic's hint says to write instead.
void lsp_code_action(LspAsk *ask) {
  const LspSpan at = {range_end(ask, "start"), range_end(ask, "end")};
  lsp_check(ask->cx, ask->doc);
  json_open(ask->out, NULL, '[');
  for (int k = 0; k < ask->doc->diags.n; k++) {
    const LspDiag *d = &ask->doc->diags.at[k];
    if (d->instead && d->span.at <= at.end && at.at <= d->span.end)
      put_fix(ask, d);
  }
  json_close(ask->out, ']');
}
