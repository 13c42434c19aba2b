// cli/numbers.h: numbers for people.
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

// "1.23 G", "456"; "4.50 MiB" for bytes. Into the room of n, which it returns.
const char *cli_short_number(double x, bool bytes, char *room, size_t n);

#endif
