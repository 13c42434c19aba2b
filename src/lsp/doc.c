// lsp/doc.c: documents: their text, edits of it, and places as the protocol counts them.
//
// A column counts UTF-16 units, unless the client prefers bytes. The text is UTF-8, which JSON guarantees.
#include <string.h>

#include "base/memory.h"
#include "hilo/text.h"
#include "lsp/lsp.h"

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

LspDoc *lsp_doc_new(const char *uri, const char *language) {
  LspDoc *doc = base_alloc(sizeof *doc);
  doc->uri = base_strdup(uri);
  doc->is_mlir = strcmp(language, "mlir") == 0 || strcmp(language, "stablehlo") == 0 ||
                 (strcmp(language, "hlo") != 0 && ends_with(uri, ".mlir"));
  return doc;
}

void lsp_doc_free(LspDoc *doc) {
  if (!doc)
    return;
  lsp_forget(doc);
  lsp_index_free(&doc->index);
  vec_free(&doc->lines);
  hl_buf_free(&doc->text);
  base_free(doc->uri);
  base_free(doc);
}

static void find_lines(LspDoc *doc) {
  doc->lines.n = 0;
  vec_push(&doc->lines, 0);
  const char *end = doc->text.at + doc->text.n;
  for (const char *s = doc->text.at; s && s < end;) {
    const char *line = memchr(s, '\n', (size_t)(end - s));
    if (!line)
      break;
    s = line + 1;
    vec_push(&doc->lines, (uint32_t)(s - doc->text.at));
  }
}

static void changed(LspDoc *doc) {
  find_lines(doc);
  doc->unread = doc->untold = true;
  doc->halfway = false;
  doc->indexed = false;
}

void lsp_doc_set(LspDoc *doc, const char *text, size_t n) {
  doc->text.n = 0;
  hl_buf_add(&doc->text, text, n);
  // What the text looks like counts for more than what the client calls it.
  const HlStr head = {text, n < 65536 ? n : 65536};
  if (hl_ml_text_sniff(head))
    doc->is_mlir = true;
  else if (hl_text_sniff(head))
    doc->is_mlir = false;
  changed(doc);
}

void lsp_doc_edit(LspDoc *doc, bool utf8, LspPlace from, LspPlace to, const char *text, size_t n) {
  uint32_t begin = lsp_offset(doc, utf8, from), end = lsp_offset(doc, utf8, to);
  if (end < begin)
    end = begin;
  const size_t behind = doc->text.n - end;
  if (begin + n + behind > UINT32_MAX / 2)  // no editor has such a text; offsets are 32 bits
    return;
  hl_buf_grow(&doc->text, n);
  memmove(doc->text.at + begin + n, doc->text.at + end, behind);
  memcpy(doc->text.at + begin, text, n);
  doc->text.n = begin + n + behind;
  doc->text.at[doc->text.n] = 0;
  changed(doc);
}

// --- Places ---------------------------------------------------------------------------------------

// The bytes of the character at `s`, of which `left` are there, and what it counts.
static uint32_t step(const char *s, uint32_t left, bool utf8, uint32_t *units) {
  const unsigned char c = (unsigned char)*s;
  uint32_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (n > left)
    n = left;
  *units = utf8 ? n : n == 4 ? 2 : 1;
  return n;
}

static uint32_t line_end(const LspDoc *doc, int64_t line) {
  if (line + 1 >= doc->lines.n)
    return (uint32_t)doc->text.n;
  uint32_t end = doc->lines.at[line + 1] - 1;
  if (end > doc->lines.at[line] && doc->text.at[end - 1] == '\r')
    end--;
  return end;
}

uint32_t lsp_offset(const LspDoc *doc, bool utf8, LspPlace place) {
  if (place.line < 0)
    return 0;
  if (place.line >= doc->lines.n)
    return (uint32_t)doc->text.n;
  uint32_t at = doc->lines.at[place.line];
  const uint32_t end = line_end(doc, place.line);
  int64_t left = place.character;
  while (at < end && left > 0) {
    uint32_t units;
    const uint32_t n = step(doc->text.at + at, end - at, utf8, &units);
    if (units > left)  // inside of a character: in front of it
      break;
    at += n;
    left -= units;
  }
  return at;
}

static int64_t line_of(const LspDoc *doc, uint32_t offset) {
  int64_t low = 0, high = doc->lines.n;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (doc->lines.at[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return low;
}

LspPlace lsp_place(const LspDoc *doc, bool utf8, uint32_t offset) {
  if (offset > doc->text.n)
    offset = (uint32_t)doc->text.n;
  const int64_t line = line_of(doc, offset);
  LspPlace place = {line, 0};
  for (uint32_t at = doc->lines.at[line]; at < offset;) {
    uint32_t units;
    at += step(doc->text.at + at, offset - at, utf8, &units);
    place.character += units;
  }
  return place;
}

const LspIndex *lsp_doc_index(LspDoc *doc) {
  if (doc->indexed)
    return &doc->index;
  lsp_index_free(&doc->index);
  // Room for what most texts have.
  vec_room(&doc->index.tokens, (int)(doc->text.n / 10));
  vec_room(&doc->index.statements, doc->lines.n);
  vec_room(&doc->index.names, doc->lines.n);
  map_room(&doc->index.by_name, (uint32_t)doc->lines.n);
  if (doc->is_mlir)
    lsp_index_mlir(&doc->index, lsp_text(doc));
  else
    lsp_index_hlo(&doc->index, lsp_text(doc));
  doc->indexed = true;
  return &doc->index;
}
