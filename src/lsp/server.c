// lsp/server.c: what the server can do, which documents are open, and which function answers what.
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/version.h"
#include "lsp/lsp.h"

HlLsp *hl_lsp_new(HlCx *cx) {
  HlLsp *lsp = base_alloc(sizeof *lsp);
  lsp->cx = cx;
  return lsp;
}

void hl_lsp_free(HlLsp *lsp) {
  if (!lsp)
    return;
  for (int k = 0; k < lsp->docs.n; k++)
    lsp_doc_free(lsp->docs.at[k]);
  vec_free(&lsp->docs);
  hl_buf_free(&lsp->in);
  hl_buf_free(&lsp->result);
  base_free(lsp);
}

bool hl_lsp_is_over(const HlLsp *lsp) {
  return lsp->over;
}

bool hl_lsp_was_shut_down(const HlLsp *lsp) {
  return lsp->shut_down;
}

// --- Reading parameters -----------------------------------------------------------------------------

const char *lsp_string(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

int64_t lsp_integer(const json_t *object, const char *key, int64_t absent) {
  const json_t *value = json_object_get(object, key);
  return json_is_integer(value) ? json_integer_value(value) : absent;
}

static LspPlace place_of(const json_t *position) {
  return (LspPlace){lsp_integer(position, "line", 0), lsp_integer(position, "character", 0)};
}

static bool is_set(const json_t *object, const char *const *path) {
  for (; *path && object; path++)
    object = json_object_get(object, *path);
  return json_is_true(object);
}

static LspDoc *find_doc(const HlLsp *lsp, const char *uri) {
  for (int k = 0; uri && k < lsp->docs.n; k++)
    if (strcmp(lsp->docs.at[k]->uri, uri) == 0)
      return lsp->docs.at[k];
  return NULL;
}

// --- Pieces of answers ------------------------------------------------------------------------------

void lsp_fail(LspAsk *ask, int error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  base_free(ask->why);
  ask->why = base_vprintf(format, args);
  ask->error = error;
  va_end(args);
}

static void put_place(const HlLsp *lsp, const LspDoc *doc, HlBuf *out, const char *key,
                      uint32_t offset) {
  const LspPlace place = lsp_place(doc, lsp->utf8, offset);
  json_open(out, key, '{');
  json_int(out, "line", place.line);
  json_int(out, "character", place.character);
  json_close(out, '}');
}

static void put_range(const HlLsp *lsp, const LspDoc *doc, HlBuf *out, const char *key,
                      LspSpan span) {
  json_open(out, key, '{');
  put_place(lsp, doc, out, "start", span.at);
  put_place(lsp, doc, out, "end", span.end);
  json_close(out, '}');
}

void lsp_put_place(const LspAsk *ask, const char *key, uint32_t offset) {
  put_place(ask->lsp, ask->doc, ask->out, key, offset);
}

void lsp_put_range(const LspAsk *ask, const char *key, LspSpan span) {
  put_range(ask->lsp, ask->doc, ask->out, key, span);
}

// --- Diagnostics ----------------------------------------------------------------------------------

static void put_note(const HlLsp *lsp, const LspDoc *doc, const LspDiag *d, HlBuf *out) {
  json_open(out, "relatedInformation", '[');
  json_open(out, NULL, '{');
  json_open(out, "location", '{');
  json_text(out, "uri", doc->uri);
  put_range(lsp, doc, out, "range", d->related);
  json_close(out, '}');
  json_text(out, "message", d->note);
  json_close(out, '}');
  json_close(out, ']');
}

static void put_diag(const HlLsp *lsp, const LspDoc *doc, const LspDiag *d, HlBuf *out) {
  static const int severity[] = {[HL_NOTE] = 3, [HL_WARNING] = 2, [HL_ERROR] = 1};
  json_open(out, NULL, '{');
  put_range(lsp, doc, out, "range", d->span);
  json_int(out, "severity", severity[d->severity]);
  json_text(out, "source", "hilo");
  json_text(out, "message", d->text);
  if (d->note)
    put_note(lsp, doc, d, out);
  json_close(out, '}');
}

static void publish(HlLsp *lsp, const LspDoc *doc, bool any) {
  HlBuf params = {0};
  json_open(&params, NULL, '{');
  json_text(&params, "uri", doc->uri);
  json_int(&params, "version", doc->version);
  json_open(&params, "diagnostics", '[');
  for (int k = 0; any && k < doc->diags.n; k++)
    put_diag(lsp, doc, &doc->diags.at[k], &params);
  json_close(&params, ']');
  json_close(&params, '}');
  lsp_notify(lsp, "textDocument/publishDiagnostics", &params);
  hl_buf_free(&params);
}

// What there is to do for a document, most urgent first: its diagnostics, the index, what hovering asks for.
static bool is_idle(const LspDoc *doc) {
  return !doc->untold && lsp_is_checked(doc) && doc->indexed && (!doc->is_mlir || doc->lowered || !doc->valid);
}

bool hl_lsp_has_work(const HlLsp *lsp) {
  for (int k = 0; k < lsp->docs.n; k++)
    if (!is_idle(lsp->docs.at[k]))
      return true;
  return false;
}

enum { SMALL = 1 << 20 };

void hl_lsp_work(HlLsp *lsp, HlBuf *out) {
  lsp->out = out;
  for (int k = 0; k < lsp->docs.n; k++) {
    LspDoc *doc = lsp->docs.at[k];
    if (!doc->untold)
      continue;
    lsp_check_step(lsp->cx, doc);
    if (doc->text.n < SMALL)  // what takes no time is told at once
      lsp_check(lsp->cx, doc);
    publish(lsp, doc, true);
    doc->untold = !lsp_is_checked(doc);
    return;
  }
  for (int k = 0; k < lsp->docs.n; k++) {
    LspDoc *doc = lsp->docs.at[k];
    if (is_idle(doc))
      continue;
    lsp_doc_index(doc);
    if (doc->valid)
      lsp_lower(lsp->cx, doc);
    return;
  }
}

// --- Documents ------------------------------------------------------------------------------------

static void did_open(HlLsp *lsp, const json_t *params) {
  const json_t *item = json_object_get(params, "textDocument"),
               *text = json_object_get(item, "text");
  const char *uri = lsp_string(item, "uri"), *language = lsp_string(item, "languageId");
  if (!uri || !json_is_string(text))
    return;
  LspDoc *doc = find_doc(lsp, uri);
  if (!doc) {
    doc = lsp_doc_new(uri, language ? language : "");
    vec_push(&lsp->docs, doc);
  }
  doc->version = lsp_integer(item, "version", 0);
  lsp_doc_set(doc, json_string_value(text), json_string_length(text));
}

static void change(const HlLsp *lsp, LspDoc *doc, const json_t *edit) {
  const json_t *text = json_object_get(edit, "text"), *range = json_object_get(edit, "range");
  if (!json_is_string(text))
    return;
  const char *bytes = json_string_value(text);
  const size_t n = json_string_length(text);
  if (!json_is_object(range))
    lsp_doc_set(doc, bytes, n);
  else
    lsp_doc_edit(doc, lsp->utf8, place_of(json_object_get(range, "start")),
                 place_of(json_object_get(range, "end")), bytes, n);
}

static void did_change(HlLsp *lsp, const json_t *params) {
  const json_t *item = json_object_get(params, "textDocument");
  const json_t *edits = json_object_get(params, "contentChanges");
  LspDoc *doc = find_doc(lsp, lsp_string(item, "uri"));
  if (!doc)
    return;
  doc->version = lsp_integer(item, "version", doc->version + 1);
  for (size_t k = 0; k < json_array_size(edits); k++)
    change(lsp, doc, json_array_get(edits, k));
}

static void did_close(HlLsp *lsp, const json_t *params) {
  const LspDoc *doc = find_doc(lsp, lsp_string(json_object_get(params, "textDocument"), "uri"));
  for (int k = 0; doc && k < lsp->docs.n; k++) {
    if (lsp->docs.at[k] != doc)
      continue;
    publish(lsp, doc, false);
    lsp_doc_free(lsp->docs.at[k]);
    memmove(lsp->docs.at + k, lsp->docs.at + k + 1,
            (size_t)(lsp->docs.n - k - 1) * sizeof *lsp->docs.at);
    lsp->docs.n--;
    break;
  }
}

// --- The beginning ----------------------------------------------------------------------------------

static void put_words(HlBuf *out, const char *key, int n, const char *const *words) {
  json_open(out, key, '[');
  for (int k = 0; k < n; k++)
    json_text(out, NULL, words[k]);
  json_close(out, ']');
}

static void put_semantic_tokens(HlBuf *out) {
  static const char *const kinds[] = {
#define KIND(id, text) text,
      LSP_KINDS(KIND)
#undef KIND
  };
  static const char *const modifiers[] = {"definition"};
  json_open(out, "semanticTokensProvider", '{');
  json_open(out, "legend", '{');
  put_words(out, "tokenTypes", HL_COUNT_OF(kinds), kinds);
  put_words(out, "tokenModifiers", 1, modifiers);
  json_close(out, '}');
  json_bool(out, "full", true);
  json_bool(out, "range", true);
  json_close(out, '}');
}

static void put_capabilities(const HlLsp *lsp, HlBuf *out) {
  static const char *const triggers[] = {"%", "@", "=", ".", "("};
  static const char *const answers[] = {"hoverProvider",
                                        "definitionProvider",
                                        "referencesProvider",
                                        "documentHighlightProvider",
                                        "documentSymbolProvider",
                                        "foldingRangeProvider",
                                        "documentFormattingProvider",
                                        "codeActionProvider"};
  json_open(out, "capabilities", '{');
  json_text(out, "positionEncoding", lsp->utf8 ? "utf-8" : "utf-16");
  json_open(out, "textDocumentSync", '{');
  json_bool(out, "openClose", true);
  json_int(out, "change", 2);  // incremental
  json_close(out, '}');
  for (int k = 0; k < HL_COUNT_OF(answers); k++)
    json_bool(out, answers[k], true);
  json_open(out, "renameProvider", '{');
  json_bool(out, "prepareProvider", true);
  json_close(out, '}');
  json_open(out, "completionProvider", '{');
  put_words(out, "triggerCharacters", HL_COUNT_OF(triggers), triggers);
  json_close(out, '}');
  put_semantic_tokens(out);
  json_close(out, '}');
}

static void initialize(HlLsp *lsp, const json_t *params) {
  const json_t *can = json_object_get(params, "capabilities");
  const json_t *encodings = json_object_get(json_object_get(can, "general"), "positionEncodings");
  const json_t *text = json_object_get(can, "textDocument");
  for (size_t k = 0; k < json_array_size(encodings); k++) {
    const char *word = json_string_value(json_array_get(encodings, k));
    lsp->utf8 |= word && strcmp(word, "utf-8") == 0;
  }
  lsp->nested_symbols = is_set(
      text, (const char *const[]){"documentSymbol", "hierarchicalDocumentSymbolSupport", NULL});
  lsp->initialized = true;
  HlBuf *out = &lsp->result;
  json_open(out, NULL, '{');
  put_capabilities(lsp, out);
  json_open(out, "serverInfo", '{');
  json_text(out, "name", "hilo");
  json_text(out, "version", hl_version());
  json_close(out, '}');
  json_close(out, '}');
}

// --- Messages -------------------------------------------------------------------------------------

static const struct {
  const char *method;
  LspAnswer *answer;
} answers[] = {
    {"textDocument/hover", lsp_hover},
    {"textDocument/definition", lsp_definition},
    {"textDocument/references", lsp_references},
    {"textDocument/documentHighlight", lsp_highlight},
    {"textDocument/prepareRename", lsp_prepare_rename},
    {"textDocument/rename", lsp_rename},
    {"textDocument/documentSymbol", lsp_symbols},
    {"textDocument/foldingRange", lsp_folding},
    {"textDocument/semanticTokens/full", lsp_tokens_full},
    {"textDocument/semanticTokens/range", lsp_tokens_range},
    {"textDocument/completion", lsp_completion},
    {"textDocument/formatting", lsp_formatting},
    {"textDocument/codeAction", lsp_code_action},
};

static const struct {
  const char *method;
  void (*take)(HlLsp *lsp, const json_t *params);
} notices[] = {
    {"textDocument/didOpen", did_open},
    {"textDocument/didChange", did_change},
    {"textDocument/didClose", did_close},
};

static void answer(HlLsp *lsp, const json_t *id, LspAnswer *function, const json_t *params) {
  LspAsk ask = {.lsp = lsp, .cx = lsp->cx, .params = params, .out = &lsp->result};
  ask.doc = find_doc(lsp, lsp_string(json_object_get(params, "textDocument"), "uri"));
  if (!ask.doc) {
    lsp_reply(lsp, id, LSP_INVALID_PARAMS, "params.textDocument.uri is no open document");
    return;
  }
  ask.at = lsp_offset(ask.doc, lsp->utf8, place_of(json_object_get(params, "position")));
  lsp_doc_index(ask.doc);
  function(&ask);
  lsp_reply(lsp, id, ask.error, ask.why);
  base_free(ask.why);
}

static void take_request(HlLsp *lsp, const json_t *id, const char *method, const json_t *params) {
  if (strcmp(method, "initialize") == 0 && !lsp->initialized) {
    initialize(lsp, params);
    lsp_reply(lsp, id, 0, NULL);
    return;
  }
  if (!lsp->initialized || lsp->shut_down || strcmp(method, "initialize") == 0) {
    lsp_reply(lsp, id, lsp->initialized ? LSP_INVALID_REQUEST : LSP_NOT_INITIALIZED,
              lsp->shut_down     ? "the server is shut down"
              : lsp->initialized ? "the server is initialized already"
                                 : "the first request must be 'initialize'");
    return;
  }
  if (strcmp(method, "shutdown") == 0) {
    lsp->shut_down = true;
    lsp_reply(lsp, id, 0, NULL);
    return;
  }
  for (int k = 0; k < HL_COUNT_OF(answers); k++)
    if (strcmp(answers[k].method, method) == 0) {
      answer(lsp, id, answers[k].answer, params);
      return;
    }
  HlBuf why = {0};
  hl_buf_printf(&why, "unknown method '%.100s'", method);
  lsp_reply(lsp, id, LSP_NO_METHOD, why.at);
  hl_buf_free(&why);
}

void lsp_handle(HlLsp *lsp, const json_t *message) {
  const json_t *id = json_object_get(message, "id");
  const char *method = lsp_string(message, "method");
  const json_t *params = json_object_get(message, "params");
  if (!method) {  // an answer to something that was never asked, or no message at all
    const bool is_answer = json_object_get(message, "result") || json_object_get(message, "error");
    if (!is_answer)
      lsp_reply(lsp, id, LSP_INVALID_REQUEST,
                "the message is neither a request nor a notification");
    return;
  }
  if (id) {
    take_request(lsp, id, method, params);
    return;
  }
  if (strcmp(method, "exit") == 0)
    lsp->over = true;
  for (int k = 0; lsp->initialized && !lsp->shut_down && k < HL_COUNT_OF(notices); k++)
    if (strcmp(notices[k].method, method) == 0)
      notices[k].take(lsp, params);
}
