// cli/table.h: tables as text, whose columns are as wide as what stands in them.
//
//   static const char *const heads[] = {"name", ">count"};   '>': to the right
//   table_begin(&t, heads, 2);
//   table_row(&t), table_text(&t, "%s", name), table_number(&t, count);
//   table_print(&t, out);                                    appends, and empties it
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/vec.h"
#include "hilo/base.h"

// "1.23 G", "456"; "4.50 MiB" for bytes. Into the room of n, which it returns.
const char *cli_short_number(double x, bool bytes, char *room, size_t n);

typedef struct Table {
  HlArena *arena;
  const char *const *heads;
  int n;  // columns
  VEC(const char *) cells;
} Table;

void table_begin(Table *t, const char *const *heads, int n);
void table_row(Table *t);  // fills what is left of the row before
void table_text(Table *t, const char *format, ...) HL_PRINTF(2, 3);
void table_number(Table *t, double value);  // 1.23 G
void table_bytes(Table *t, double value);   // 4.50 MiB
void table_print(Table *t, HlBuf *out);

#endif
