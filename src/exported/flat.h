// exported/flat.h: reading FlatBuffers of a known schema, each step within the bounds of the file.
//
// A table is an offset back to its vtable (the sizes of both, then for each field where it stands in the table, 0: absent)
// and the fields; strings, vectors and tables stand elsewhere, at offsets from the fields that mention them.
#ifndef HILO_EXPORTED_FLAT_H
#define HILO_EXPORTED_FLAT_H

#include "hilo/base.h"

typedef struct Flat {
  HlCx *cx;
  HlSource *source;
  HlArena *arena;     // of what is read
  const uint8_t *at;  // n bytes
  uint32_t n;
  int depth;      // of tables
  int64_t steps;  // entries that may still be met: tables may be shared, and so make little mean much
} Flat;

typedef struct FlatTable {
  uint32_t at, vtable;
  uint16_t size, vtable_size;
} FlatTable;

typedef struct FlatList {  // of `n` entries from `at` on
  uint32_t at, n;
} FlatList;

// Of a FlatBuffer whose root is meant; what is wrong is said at the byte. False: reported.
bool flat_open(Flat *f, HlCx *cx, HlSource *source, HlArena *arena);
bool flat_root(Flat *f, FlatTable *out);
bool flat_bad(Flat *f, uint32_t at, const char *format, ...) HL_PRINTF(3, 4);

// A field by its number in the schema. Absent ones are 0, "", an empty list; *has tells of a table.
bool flat_int(Flat *f, const FlatTable *table, int field, int bytes, int64_t *out);
bool flat_text(Flat *f, const FlatTable *table, int field, const char **out);
bool flat_list(Flat *f, const FlatTable *table, int field, int bytes, FlatList *out);
bool flat_table(Flat *f, const FlatTable *table, int field, bool *has, FlatTable *out);
bool flat_texts(Flat *f, const FlatTable *table, int field, const char *const **out, int *n);
// Entry k of a list.
int64_t flat_item(const Flat *f, const FlatList *list, uint32_t k, int bytes);
bool flat_item_table(Flat *f, const FlatList *list, uint32_t k, FlatTable *out);

// Whether a table with at least so many fields, all inside it, is the root.
bool flat_looks_like_table(HlStr bytes, int n_fields);

#endif
