// cli/stats_table.h: the numbers of many modules as one table, a row each.
#ifndef CLI_STATS_TABLE_H
#define CLI_STATS_TABLE_H

#include "cli/table.h"
#include "tool/stats.h"

void stats_table_begin(Table *t);
void stats_table_row(Table *t, const char *path, const char *module, const Stats *s);
// The last row, of all modules together, and all of it to `out`.
void stats_table_end(Table *t, const Stats *total, HlBuf *out);

#endif
