// lsp.c: no text harms the language server: it is opened, asked about in several places, edited and asked again; nor do bytes
// that are no messages. Every answer is JSON.

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/lsp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { QUESTIONS = 6 };

static void put(HlBuf *in, const char *format, ...) HL_PRINTF(2, 3);
static void put(HlBuf *in, const char *format, ...) {
  HlBuf body = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&body, format, args);
  va_end(args);
  hl_buf_printf(in, "Content-Length: %zu\r\n\r\n", body.n);
  hl_buf_add(in, body.at, body.n);
  hl_buf_free(&body);
}

static void put_open(HlBuf *in, const uint8_t *data, size_t size) {
  HlBuf text = {0};
  hl_buf_json_string(&text, (const char *)data, size);
  put(in,
      "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/"
      "didOpen\",\"params\":{\"textDocument\":{\"uri\":\"u\",\"languageId\":\"\","
      "\"version\":1,\"text\":%s}}}",
      text.at);
  hl_buf_free(&text);
}

static void put_question(HlBuf *in, HlRng *rng, int lines) {
  static const char *const methods[] = {
      "hover",      "definition",     "references",   "documentHighlight",   "prepareRename",
      "rename",     "documentSymbol", "foldingRange", "semanticTokens/full", "semanticTokens/range",
      "completion", "formatting",     "codeAction"};
  const int line = (int)hl_rng_below(rng, lines + 1), column = (int)hl_rng_below(rng, 80);
  put(in,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"textDocument/"
      "%s\",\"params\":{\"textDocument\":{\"uri\":\"u\"},\"position\":{"
      "\"line\":%d,\"character\":%d},\"newName\":\"other\",\"context\":{\"includeDeclaration\":"
      "true},\"range\":{\"start\":{"
      "\"line\":%d,\"character\":0},\"end\":{\"line\":%d,\"character\":%d}}}}",
      methods[hl_rng_below(rng, HL_COUNT_OF(methods))], line, column, line, line + 2, column);
}

static void put_edit(HlBuf *in, HlRng *rng, int lines) {
  static const char *const bits[] = {"", "x", "%", "}", "{", "(", "\\\"", "=", "\\n"};
  const int line = (int)hl_rng_below(rng, lines + 1), column = (int)hl_rng_below(rng, 80);
  put(in,
      "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/"
      "didChange\",\"params\":{\"textDocument\":{\"uri\":\"u\",\"version\":2},"
      "\"contentChanges\":[{\"range\":{\"start\":{\"line\":%d,\"character\":%d},\"end\":{\"line\":%"
      "d,\"character\":%d}},"
      "\"text\":\"%s\"}]}}",
      line, column, line, column + (int)hl_rng_below(rng, 5),
      bits[hl_rng_below(rng, HL_COUNT_OF(bits))]);
}

static void check(const HlBuf *out) {
  for (const char *s = out->at; s && s < out->at + out->n;) {
    size_t n = 0;
    const char *body = strstr(s, "\r\n\r\n");
    if (!body || sscanf(s, "Content-Length: %zu", &n) != 1)
      abort();
    json_t *json = json_loadb(body + 4, n, JSON_ALLOW_NUL, NULL);
    if (!json)
      abort();
    json_decref(json);
    s = body + 4 + n;
  }
}

static void feed(HlLsp *lsp, HlBuf *in, HlBuf *out) {
  hl_lsp_feed(lsp, in->at, in->n, out);
  in->n = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  HlCx *cx = hl_cx_new();
  HlLimits *limits = hl_cx_limits(cx);
  limits->literal_bytes = 1 << 22;
  limits->instructions = 1 << 12;
  limits->tuple_leaves = 1 << 10;
  limits->nesting = 100;
  HlRng rng = {hl_hash_bytes(data, size, 0)};
  HlLsp *lsp = hl_lsp_new(cx);
  HlBuf in = {0}, out = {0};
  int lines = 1;
  for (size_t k = 0; k < size; k++)
    lines += data[k] == '\n';
  put(&in, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"capabilities\":{"
           "\"textDocument\":{"
           "\"documentSymbol\":{\"hierarchicalDocumentSymbolSupport\":true}}}}}");
  put_open(&in, data, size);
  feed(lsp, &in, &out);
  for (int k = 0; k < QUESTIONS; k++) {
    if (k % 3 == 0)
      while (hl_lsp_has_work(lsp))
        hl_lsp_work(lsp, &out);
    put_question(&in, &rng, lines);
    if (k % 3 == 2)
      put_edit(&in, &rng, lines);
    feed(lsp, &in, &out);
  }
  hl_lsp_feed(lsp, data, size, &out);
  check(&out);
  hl_lsp_free(lsp);
  hl_buf_free(&in);
  hl_buf_free(&out);
  hl_cx_free(cx);
  return 0;
}
