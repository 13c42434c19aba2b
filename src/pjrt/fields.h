// pjrt/fields.h: small messages of protobuf, written field by field.
#ifndef HILO_PJRT_FIELDS_H
#define HILO_PJRT_FIELDS_H

#include "hilo/base.h"

void field_int(HlBuf *out, uint32_t number, int64_t value);
void field_text(HlBuf *out, uint32_t number, const char *text);
void field_packed(HlBuf *out, uint32_t number, const int64_t *value, int n);
// A message inside: writes what `part` holds, and empties it.
void field_part(HlBuf *out, uint32_t number, HlBuf *part);

#endif
