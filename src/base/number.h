// base/number.h: numbers as text, the same whatever locale the host has set: the point is a point.
//
// Doubles are written by put_g, put_f32 and put_f64 (base/put.h) and by the printf of HlBufs and arenas; nothing else of
// ours asks the C library for a number with a point, nor what a letter is (tools/locale.sh).
#ifndef HILO_BASE_NUMBER_H
#define HILO_BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "hilo/base.h"

// As strtod and strtof in the C locale: correctly rounded, nan, inf and hexadecimal floats too. `end` may be NULL.
double base_read_double(const char *text, char **end);
float base_read_float(const char *text, char **end);

// As snprintf and fprintf in the C locale.
int base_vsnprintf(char *out, size_t room, const char *format, va_list args);
int base_snprintf(char *out, size_t room, const char *format, ...) HL_PRINTF(3, 4);
int base_fprintf(FILE *to, const char *format, ...) HL_PRINTF(2, 3);

#endif
