// exported/flat.c: FlatBuffers: tables, strings and vectors, checked.
#include "exported/flat.h"

#include <string.h>

static uint32_t unsigned_at(const uint8_t *at, int bytes) {
  uint32_t value = 0;
  for (int k = 0; k < bytes; k++)
    value |= (uint32_t)at[k] << 8 * k;
  return value;
}

bool flat_bad(Flat *f, uint32_t at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(f->cx, HL_INVALID, (HlPos){f->source, at + 1}, format, args);
  va_end(args);
  return false;
}

static bool fits(const Flat *f, int64_t at, int64_t bytes) {
  return at >= 0 && at <= (int64_t)f->n - bytes;
}

// A table that stands at `at`.
static bool open_table(Flat *f, uint32_t at, FlatTable *out) {
  if (f->steps-- <= 0)
    return hl_error_kind(f->cx, HL_LIMIT, (HlPos){f->source, at + 1},
                         "tables are mentioned more often than the file has bytes");
  if (!fits(f, at, 4))
    return flat_bad(f, at, "a table stands outside the file");
  const int64_t vtable = (int64_t)at - (int32_t)unsigned_at(f->at + at, 4);
  if (!fits(f, vtable, 4))
    return flat_bad(f, at, "the list of a table's fields stands outside the file");
  *out = (FlatTable){.at = at,
                     .vtable = (uint32_t)vtable,
                     .vtable_size = (uint16_t)unsigned_at(f->at + vtable, 2),
                     .size = (uint16_t)unsigned_at(f->at + vtable + 2, 2)};
  if (out->vtable_size < 4 || out->vtable_size % 2 || !fits(f, vtable, out->vtable_size))
    return flat_bad(f, out->vtable, "the list of a table's fields has %u bytes", out->vtable_size);
  if (out->size < 4 || !fits(f, at, out->size))
    return flat_bad(f, at, "a table of %u bytes does not end within the file", out->size);
  return true;
}

// Where a field of so many bytes stands; *at 0: it is absent.
static bool find_field(Flat *f, const FlatTable *table, int field, int bytes, uint32_t *at) {
  *at = 0;
  const int slot = 4 + 2 * field;
  if (slot + 2 > table->vtable_size)
    return true;
  const uint32_t offset = unsigned_at(f->at + table->vtable + slot, 2);
  if (offset == 0)
    return true;
  if (offset < 4 || offset + (uint32_t)bytes > table->size)
    return flat_bad(f, table->vtable + (uint32_t)slot, "field %d stands outside its table", field);
  *at = table->at + offset;
  return true;
}

// What the offset at `at` leads to.
static bool follow(Flat *f, uint32_t at, uint32_t *out) {
  const int64_t to = (int64_t)at + unsigned_at(f->at + at, 4);
  if (!fits(f, to, 4))
    return flat_bad(f, at, "an offset leads to byte %lld of %u", (long long)to, f->n);
  *out = (uint32_t)to;
  return true;
}

bool flat_int(Flat *f, const FlatTable *table, int field, int bytes, int64_t *out) {
  uint32_t at;
  if (!find_field(f, table, field, bytes, &at))
    return false;
  *out = at ? unsigned_at(f->at + at, bytes) : 0;
  return true;
}

// The bytes of a string, a copy in the arena.
static bool read_text(Flat *f, uint32_t at, const char **out) {
  const uint32_t n = unsigned_at(f->at + at, 4);
  if (!fits(f, (int64_t)at + 4, (int64_t)n))
    return flat_bad(f, at, "a string of %u bytes does not end within the file", n);
  if (n > 0 && memchr(f->at + at + 4, 0, n))
    return flat_bad(f, at, "a string holds NUL bytes");
  if ((f->steps -= n) < 0)
    return hl_error_kind(f->cx, HL_LIMIT, (HlPos){f->source, at + 1},
                         "strings are mentioned more often than the file has bytes");
  *out = hl_arena_strndup(f->arena, (const char *)f->at + at + 4, n);
  return true;
}

bool flat_text(Flat *f, const FlatTable *table, int field, const char **out) {
  uint32_t at, to;
  *out = "";
  return find_field(f, table, field, 4, &at) &&
         (!at || (follow(f, at, &to) && read_text(f, to, out)));
}

bool flat_list(Flat *f, const FlatTable *table, int field, int bytes, FlatList *out) {
  uint32_t at, to;
  *out = (FlatList){0};
  if (!find_field(f, table, field, 4, &at) || (at && !follow(f, at, &to)))
    return false;
  if (!at)
    return true;
  *out = (FlatList){to + 4, unsigned_at(f->at + to, 4)};
  if (!fits(f, out->at, (int64_t)out->n * bytes))
    return flat_bad(f, to, "a list of %u entries does not end within the file", out->n);
  return true;
}

int64_t flat_item(const Flat *f, const FlatList *list, uint32_t k, int bytes) {
  return unsigned_at(f->at + list->at + k * (uint32_t)bytes, bytes);
}

bool flat_item_table(Flat *f, const FlatList *list, uint32_t k, FlatTable *out) {
  uint32_t to;
  return follow(f, list->at + 4 * k, &to) && open_table(f, to, out);
}

bool flat_table(Flat *f, const FlatTable *table, int field, bool *has, FlatTable *out) {
  uint32_t at, to;
  *has = false;
  if (!find_field(f, table, field, 4, &at))
    return false;
  *has = at != 0;
  return !at || (follow(f, at, &to) && open_table(f, to, out));
}

bool flat_texts(Flat *f, const FlatTable *table, int field, const char *const **out, int *n) {
  FlatList list;
  if (!flat_list(f, table, field, 4, &list))
    return false;
  const char **texts = HL_ARRAY(f->arena, const char *, list.n + 1);
  for (uint32_t k = 0; k < list.n; k++) {
    uint32_t to;
    if (!follow(f, list.at + 4 * k, &to) || !read_text(f, to, &texts[k]))
      return false;
  }
  *out = texts;
  *n = (int)list.n;
  return true;
}

bool flat_open(Flat *f, HlCx *cx, HlSource *source, HlArena *arena) {
  const HlStr bytes = hl_source_bytes(source);
  *f = (Flat){.cx = cx, .source = source, .arena = arena, .at = (const uint8_t *)bytes.at};
  if (bytes.n > INT32_MAX)
    return hl_error_kind(cx, HL_LIMIT, (HlPos){source, 0}, "a FlatBuffer has at most 2 GiB");
  f->n = (uint32_t)bytes.n;
  f->steps = f->n;
  return f->n >= 8 || flat_bad(f, 0, "the file ends within its first table");
}

bool flat_root(Flat *f, FlatTable *out) {
  uint32_t to;
  return follow(f, 0, &to) && open_table(f, to, out);
}

bool flat_looks_like_table(HlStr bytes, int n_fields) {
  const uint8_t *at = (const uint8_t *)bytes.at;
  if (bytes.n < 16 || bytes.n > INT32_MAX)
    return false;
  const int64_t n = (int64_t)bytes.n, root = unsigned_at(at, 4);
  if (root % 4 || root < 4 || root > n - 4)
    return false;
  const int64_t vtable = root - (int32_t)unsigned_at(at + root, 4);
  if (vtable < 4 || vtable > n - 4 || vtable % 2)
    return false;
  const uint32_t vtable_size = unsigned_at(at + vtable, 2), size = unsigned_at(at + vtable + 2, 2);
  if (vtable_size % 2 || vtable_size < 4 + 2 * (uint32_t)n_fields || vtable_size > n - vtable ||
      size < 4 || size > n - root)
    return false;
  for (uint32_t k = 4; k < vtable_size; k += 2) {
    const uint32_t offset = unsigned_at(at + vtable + k, 2);
    if (offset && (offset < 4 || offset >= size))
      return false;
  }
  return true;
}
