// lsp/rpc.c: messages of JSON-RPC: cut out of the stream of bytes, answered with headers in front.
//
//   Content-Length: 52\r\n
//   \r\n
//   {"jsonrpc": "2.0", "id": 1, "method": "shutdown"}
//
// What is no message is answered with an error and skipped: a header without a length, JSON that is none, a message that is
// larger than any text.
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "lsp/lsp.h"

enum { MAX_HEADER = 1 << 16 };
static const size_t MAX_MESSAGE = (size_t)1 << 28;

// --- Out ------------------------------------------------------------------------------------------

static void send_body(HlLsp *lsp, const HlBuf *body) {
  hl_buf_printf(lsp->out, "Content-Length: %zu\r\n\r\n", body->n);
  hl_buf_add(lsp->out, body->at, body->n);
}

static void put_id(HlBuf *out, const json_t *id) {
  if (json_is_integer(id))
    json_int(out, "id", json_integer_value(id));
  else if (json_is_string(id))
    json_bytes(out, "id", json_string_value(id), json_string_length(id));
  else
    json_nothing(out, "id");
}

void lsp_reply(HlLsp *lsp, const json_t *id, int error, const char *why) {
  HlBuf body = {0};
  json_open(&body, NULL, '{');
  json_text(&body, "jsonrpc", "2.0");
  put_id(&body, id);
  if (error) {
    json_open(&body, "error", '{');
    json_int(&body, "code", error);
    json_text(&body, "message", why ? why : "");
    json_close(&body, '}');
  } else if (lsp->result.n) {
    json_key(&body, "result");
    hl_buf_add(&body, lsp->result.at, lsp->result.n);
  } else {
    json_nothing(&body, "result");
  }
  json_close(&body, '}');
  send_body(lsp, &body);
  hl_buf_free(&body);
}

void lsp_notify(HlLsp *lsp, const char *method, const HlBuf *params) {
  HlBuf body = {0};
  json_open(&body, NULL, '{');
  json_text(&body, "jsonrpc", "2.0");
  json_text(&body, "method", method);
  json_key(&body, "params");
  hl_buf_add(&body, params->at, params->n);
  json_close(&body, '}');
  send_body(lsp, &body);
  hl_buf_free(&body);
}

// --- In -------------------------------------------------------------------------------------------

// The length that a header says; false: none.
static bool read_length(const char *at, size_t n, size_t *out) {
  static const char name[] = "content-length:";
  const char *end = at + n;
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    const char *stop = line ? line : end;
    if ((size_t)(stop - at) > sizeof name - 1 && same_letters(at, name, sizeof name - 1)) {
      const char *s = at + sizeof name - 1;
      while (s < stop && (*s == ' ' || *s == '\t'))
        s++;
      size_t value = 0;
      const char *digits = s;
      for (; s < stop && *s >= '0' && *s <= '9'; s++)
        value = value > MAX_MESSAGE * 16 ? value : value * 10 + (size_t)(*s - '0');
      *out = value;
      return s > digits;
    }
    at = stop + 1;
  }
  return false;
}

static void take_body(HlLsp *lsp, const char *at, size_t n) {
  json_error_t wrong;
  json_t *message = json_loadb(at, n, JSON_ALLOW_NUL, &wrong);
  hl_buf_free(&lsp->result);
  if (message) {
    lsp_handle(lsp, message);
  } else {
    HlBuf why = {0};
    hl_buf_printf(&why, "the message is no JSON: byte %d: %s", wrong.position, wrong.text);
    lsp_reply(lsp, NULL, LSP_PARSE_ERROR, why.at);
    hl_buf_free(&why);
  }
  json_decref(message);
}

static void drop(HlLsp *lsp, size_t n) {
  memmove(lsp->in.at, lsp->in.at + n, lsp->in.n - n);
  lsp->in.n -= n;
  lsp->in.at[lsp->in.n] = 0;
}

static void skip_large(HlLsp *lsp) {
  const size_t n = lsp->skip < lsp->in.n ? lsp->skip : lsp->in.n;
  if (n == 0)
    return;
  drop(lsp, n);
  lsp->skip -= n;
}

// The length of the header that stands at `at`, its empty line included; 0: it is not all there.
static size_t header_end(const char *at, size_t n) {
  const char *full = memmem(at, n, "\r\n\r\n", 4), *bare = memmem(at, n, "\n\n", 2);
  if (full && (!bare || full < bare))
    return (size_t)(full - at) + 4;
  return bare ? (size_t)(bare - at) + 2 : 0;
}

// Takes one message, `from` bytes into the buffer; how many bytes it was, 0 if it is not all there.
static size_t take_message(HlLsp *lsp, size_t from) {
  const char *at = lsp->in.at + from;
  const size_t n = lsp->in.n - from, look = n < MAX_HEADER ? n : MAX_HEADER;
  const size_t head = header_end(at, look);
  size_t length = 0;
  if (head == 0 && n < MAX_HEADER)
    return 0;
  if (head == 0 || !read_length(at, head, &length)) {
    lsp_reply(lsp, NULL, LSP_PARSE_ERROR, "a message must start with a header 'Content-Length: N'");
    return head ? head : look;
  }
  if (length > MAX_MESSAGE) {
    lsp_reply(lsp, NULL, LSP_INVALID_REQUEST, "the message is too large; it is skipped");
    lsp->skip = length;
    return head;
  }
  if (n - head < length)
    return 0;
  take_body(lsp, at + head, length);
  return head + length;
}

void hl_lsp_feed(HlLsp *lsp, const void *bytes, size_t n, HlBuf *out) {
  lsp->out = out;
  if (n)
    hl_buf_add(&lsp->in, bytes, n);
  if (lsp->skip)
    skip_large(lsp);
  size_t done = 0;
  while (!lsp->skip && done < lsp->in.n && !lsp->over) {
    const size_t taken = take_message(lsp, done);
    if (!taken)
      break;
    done += taken;
    if (lsp->skip) {
      drop(lsp, done);
      done = 0;
      skip_large(lsp);
    }
  }
  if (done)
    drop(lsp, done);
}
