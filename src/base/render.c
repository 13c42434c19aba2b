// render.c: a diagnostic as the text that people read.
//
//   model.hlo:3:18: error: unknown opcode 'ad'
//     ROOT c = f32[2] ad(p, p)
//                     ^
//     did you mean 'add'?
//
// A binary source has byte offsets instead: `model.pb: byte 1042: error: ...`. Lines of a megabyte
// are usual (constants), so a long line is cut to a window around the caret. Control characters of
// the input never reach the terminal.

#include "hilo/base.h"

#include <string.h>

#define TAB 8
#define WINDOW 100  // bytes of a source line that are shown
#define BEFORE 60   // of them, at least so many before the caret, if the line is cut

static const char *const severity_text[] = {
    [HL_NOTE] = "note", [HL_WARNING] = "warning", [HL_ERROR] = "error"};
static const char *const severity_color[] = {
    [HL_NOTE] = "\033[1;36m", [HL_WARNING] = "\033[1;35m", [HL_ERROR] = "\033[1;31m"};

static bool is_control(char c) {
  return (c >= 0 && c < 0x20) || c == 0x7f;
}

// Adds text, its control characters escaped; a newline goes through.
static void add_text(HlBuf *out, const char *text) {
  for (; *text; text++) {
    if (is_control(*text) && *text != '\n')
      hl_buf_c_escape(out, text, 1);
    else
      hl_buf_putc(out, *text);
  }
}

static void add_place(const HlDiag *diag, HlLineCol place, HlBuf *out) {
  if (!diag->source)
    return;
  add_text(out, hl_source_name(diag->source));
  if (diag->loc == 0)
    hl_buf_puts(out, ": ");
  else if (hl_source_is_binary(diag->source))
    hl_buf_printf(out, ": byte %lld: ", (long long)place.column);
  else
    hl_buf_printf(out, ":%lld:%lld: ", (long long)place.line, (long long)place.column);
}

// A part of a line, and the byte in it that the caret is under.
typedef struct Window {
  HlStr part;
  size_t caret;
  bool is_cut_before, is_cut_after;
} Window;

static bool is_continuation(char c) {
  return ((unsigned char)c & 0xc0) == 0x80;
}

static Window find_window(HlStr line, size_t caret) {
  size_t from = 0, to = line.n;
  if (line.n > WINDOW) {
    from = caret > BEFORE ? caret - BEFORE : 0;
    from = from < line.n - WINDOW ? from : line.n - WINDOW;
    to = from + WINDOW;
  }
  while (from > 0 && from < caret && is_continuation(line.at[from]))
    from++;
  while (to < line.n && to > caret && is_continuation(line.at[to]))
    to--;
  return (Window){{line.at + from, to - from}, caret - from, from > 0, to < line.n};
}

// Adds the window; returns the column on the screen, from 0, where the caret belongs.
static int add_window(HlBuf *out, const Window *window) {
  int column = 0, caret = 0;
  if (window->is_cut_before) {
    hl_buf_puts(out, "...");
    column = 3;
  }
  for (size_t k = 0; k < window->part.n; k++) {
    const char c = window->part.at[k];
    if (k == window->caret)
      caret = column;
    const int width = c == '\t' ? TAB - column % TAB : is_continuation(c) ? 0 : 1;
    if (c == '\t')
      hl_buf_printf(out, "%*s", width, "");
    else
      hl_buf_putc(out, is_control(c) ? '?' : c);
    column += width;
  }
  if (window->caret >= window->part.n)
    caret = column;
  if (window->is_cut_after)
    hl_buf_puts(out, "...");
  return caret;
}

static HlStr source_line(HlStr bytes, size_t offset, size_t column) {
  const char *start = bytes.at + offset - column;
  const size_t left = bytes.n - (offset - column);
  const char *end = left ? memchr(start, '\n', left) : NULL;
  size_t n = end ? (size_t)(end - start) : left;
  if (n > 0 && n > column && start[n - 1] == '\r')
    n--;
  return (HlStr){start, n};
}

static void add_excerpt(const HlDiag *diag, HlLineCol place, bool color, HlBuf *out) {
  const HlStr bytes = hl_source_bytes(diag->source);
  const size_t offset = diag->loc - 1 < bytes.n ? diag->loc - 1 : bytes.n;
  const size_t column = (size_t)place.column - 1;
  const Window window = find_window(source_line(bytes, offset, column), column);
  hl_buf_puts(out, "\n  ");
  const int caret = add_window(out, &window);
  hl_buf_printf(out, "\n  %*s%s^%s", caret, "", color ? "\033[1;32m" : "", color ? "\033[0m" : "");
}

void hl_diag_render(const HlDiag *diag, bool color, HlBuf *out) {
  const HlLineCol place = hl_source_line_col(diag->source, diag->loc);
  if (color)
    hl_buf_puts(out, "\033[1m");
  add_place(diag, place, out);
  if (color)
    hl_buf_puts(out, severity_color[diag->severity]);
  hl_buf_printf(out, "%s: ", severity_text[diag->severity]);
  if (color)
    hl_buf_puts(out, "\033[0m");
  add_text(out, diag->text);
  if (diag->times > 1)
    hl_buf_printf(out, " (the same, %lld times)", (long long)diag->times);
  if (place.line > 0)
    add_excerpt(diag, place, color, out);
  if (diag->hint) {
    hl_buf_puts(out, "\n  ");
    add_text(out, diag->hint);
  }
  hl_buf_putc(out, '\n');
}
