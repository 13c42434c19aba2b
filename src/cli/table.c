// cli/table.c: tables as text.
#include "cli/table.h"

#include <string.h>

#include "base/number.h"

const char *cli_short_number(double x, bool bytes, char *room, size_t n) {
  static const char *const decimal[] = {"", " k", " M", " G", " T", " P", " E"};
  static const char *const binary[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  double base = bytes ? 1024 : 1000;
  int k = 0;
  while (x >= base && k < 6) {
    x /= base;
    k++;
  }
  base_snprintf(room, n, k == 0 ? "%.0f%s" : "%.2f%s", x, bytes ? binary[k] : decimal[k]);
  return room;
}

void table_begin(Table *t, const char *const *heads, int n) {
  *t = (Table){.arena = hl_arena_new(), .heads = heads, .n = n};
}

static void put(Table *t, const char *text) {
  vec_push_in(t->arena, &t->cells, text);
}

void table_row(Table *t) {
  while (t->cells.n % t->n != 0)
    put(t, "");
}

void table_text(Table *t, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  put(t, hl_arena_strndup(t->arena, text.at ? text.at : "", text.n));
  hl_buf_free(&text);
}

void table_number(Table *t, double value) {
  char room[32];
  table_text(t, "%s", cli_short_number(value, false, room, sizeof room));
}

void table_bytes(Table *t, double value) {
  char room[32];
  table_text(t, "%s", cli_short_number(value, true, room, sizeof room));
}

// Characters, not bytes: names may be in any script.
static int width_of(const char *text) {
  int n = 0;
  for (const char *c = text; *c; c++)
    n += ((unsigned char)*c & 0xc0) != 0x80;
  return n;
}

static void print_row(const Table *t, const char *const *cells, const int *width, HlBuf *out) {
  for (int c = 0; c < t->n; c++) {
    const char *text = cells ? cells[c] : t->heads[c] + (t->heads[c][0] == '>');
    const int blanks = width[c] - width_of(text);
    const bool right = t->heads[c][0] == '>';
    hl_buf_puts(out, c ? "  " : "  ");
    hl_buf_printf(out, "%*s%s%*s", right ? blanks : 0, "", text, right ? 0 : blanks, "");
  }
  while (out->n > 0 && out->at[out->n - 1] == ' ')  // no blanks before the end of the line
    out->n--;
  hl_buf_putc(out, '\n');
}

void table_print(Table *t, HlBuf *out) {
  table_row(t);
  int *width = HL_ARRAY(t->arena, int, t->n);
  for (int c = 0; c < t->n; c++)
    width[c] = width_of(t->heads[c]) - (t->heads[c][0] == '>');
  for (int k = 0; k < t->cells.n; k++)
    if (width_of(t->cells.at[k]) > width[k % t->n])
      width[k % t->n] = width_of(t->cells.at[k]);
  print_row(t, NULL, width, out);
  for (int k = 0; k < t->cells.n; k += t->n)
    print_row(t, &t->cells.at[k], width, out);
  hl_arena_free(t->arena);
  *t = (Table){0};
}
