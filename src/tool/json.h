// tool/json.h: values as JSON, appended to a buffer. Commas come by themselves; `key` NULL makes an element of an array.
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include "hilo/base.h"

void json_open(HlBuf *out, const char *key, char bracket);  // '{' or '['
void json_close(HlBuf *out, char bracket);                  // '}' or ']'
void json_text(HlBuf *out, const char *key, const char *value);
void json_bytes(HlBuf *out, const char *key, const char *value, size_t n);
void json_int(HlBuf *out, const char *key, int64_t value);
void json_number(HlBuf *out, const char *key, double value);  // what is not finite as text
void json_count(HlBuf *out, const char *key, double value);   // a whole number
void json_bool(HlBuf *out, const char *key, bool value);
void json_nothing(HlBuf *out, const char *key);                // null: the name json_null is jansson's
// A key, after which the caller appends the value.
void json_key(HlBuf *out, const char *key);

#endif
