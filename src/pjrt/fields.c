// pjrt/fields.c: small messages of protobuf, written field by field.

#include <string.h>

#include "pjrt/fields.h"
#include "proto/wire.h"

void field_int(HlBuf *out, uint32_t number, int64_t value) {
  wire_put_tag(out, number, WIRE_VARINT);
  wire_put_varint(out, (uint64_t)value);
}

void field_text(HlBuf *out, uint32_t number, const char *text) {
  wire_put_bytes(out, number, text, strlen(text));
}

void field_part(HlBuf *out, uint32_t number, HlBuf *part) {
  wire_put_bytes(out, number, part->at ? part->at : "", part->n);
  part->n = 0;
}

void field_packed(HlBuf *out, uint32_t number, const int64_t *value, int n) {
  HlBuf packed = {0};
  for (int k = 0; k < n; k++)
    wire_put_varint(&packed, (uint64_t)value[k]);
  field_part(out, number, &packed);
  hl_buf_free(&packed);
}
