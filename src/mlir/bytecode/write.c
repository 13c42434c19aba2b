// Writes portable artifacts: pools, their entries, and the sections of the file.
#include "mlir/bytecode/write.h"

#include <string.h>

#include "base/memory.h"
#include "ir/put.h"

bool mlw_fail(MlwWriter *w, const char *format, ...) {
  if (w->failed)
    return false;
  w->failed = true;
  va_list args;
  va_start(args, format);
  hl_verror(w->cx, HL_UNSUPPORTED, w->op ? hl_ml_pos(w->tree, w->op) : (HlPos){0}, format, args);
  va_end(args);
  return false;
}

bool mlw_needs(MlwWriter *w, int since, const char *what, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, what);
  hl_buf_vprintf(&text, what, args);
  va_end(args);
  mlw_fail(w, "%s needs version %d.%d.0 of VHLO, the target is %d.%d.%d", text.at, since / 1000,
           since % 1000, w->target.major, w->target.minor, w->target.patch);
  hl_hint(w->cx, "write that version: --to mlirbc=%d.%d.0; older readers will refuse it",
          since / 1000, since % 1000);
  hl_buf_free(&text);
  return false;
}

// --- Primitives ----------------------------------------------------------------------------------

void mlw_varint(HlBuf *out, uint64_t value) {
  int n = 1;
  while (n < 9 && value >> 7 * n)
    n++;
  uint8_t *at = (uint8_t *)put_room(out, 9);
  out->n += (size_t)n;
  if (n == 9) {
    *at++ = 0;
    n--;
  } else {
    value = (value << 1 | 1) << (n - 1);
  }
  for (; n > 0; n--, value >>= 8)
    *at++ = (uint8_t)value;
}

void mlw_ints(HlBuf *out, HlI64s list) {
  mlw_varint(out, (uint64_t)list.n);
  for (int k = 0; k < list.n; k++)
    mlw_svarint(out, list.at[k]);
}

// --- Pools ---------------------------------------------------------------------------------------

static uint64_t hash_entry(const void *bytes, size_t n, uint32_t dialect, bool is_custom) {
  return hl_hash_bytes(bytes, n, 2 * (uint64_t)dialect + is_custom);
}

static bool is_same(const MlwPool *pool, const MlwEntry *entry, uint32_t dialect, bool is_custom,
                    const void *bytes, size_t n) {
  return entry->dialect == dialect && entry->is_custom == is_custom && entry->n == n &&
         (n == 0 || memcmp(pool->bytes.at + entry->at, bytes, n) == 0);
}

uint32_t mlw_add(MlwPool *pool, uint32_t dialect, bool is_custom, const void *bytes, size_t n) {
  const uint64_t hash = hash_entry(bytes, n, dialect, is_custom);
  MapWalk walk = map_walk(&pool->by_hash, hash);
  for (uint64_t place; (place = map_next(&walk));)
    if (is_same(pool, &pool->entries.at[place - 1], dialect, is_custom, bytes, n))
      return (uint32_t)place - 1;
  vec_push(&pool->entries, ((MlwEntry){pool->bytes.n, n, dialect, is_custom}));
  put(&pool->bytes, n ? bytes : "", n);
  map_add(&pool->by_hash, hash, (uint64_t)pool->entries.n);
  return (uint32_t)pool->entries.n - 1;
}

static void free_pool(MlwPool *pool) {
  hl_buf_free(&pool->bytes);
  vec_free(&pool->entries);
  map_free(&pool->by_hash);
}

bool mlw_seen(const MlwMemo *memo, const void *key, uint32_t *index) {
  const uint64_t seen = map_get(memo, map_key(key));
  *index = (uint32_t)seen - 1;
  return seen > 0;
}

void mlw_see(MlwMemo *memo, const void *key, uint32_t index) {
  *map_at(memo, map_key(key)) = 1 + (uint64_t)index;
}

uint32_t mlw_string(MlwWriter *w, const char *text, size_t n) {
  const HlSym *sym = hl_syms_add(w->syms, text, n);
  if (sym->index == (uint32_t)w->strings.n)
    vec_push(&w->strings, sym);
  return sym->index;
}

uint32_t mlw_dialect(MlwWriter *w, const char *name) {
  uint32_t index;
  if (mlw_seen(&w->dialect_memo, name, &index))
    return index;
  uint32_t string = mlw_string(w, name, strlen(name));
  index = mlw_add(&w->dialects, 0, true, &string, sizeof string);
  mlw_see(&w->dialect_memo, name, index);
  return index;
}

MlwRow *mlw_learn_row(MlwWriter *w, uint16_t row) {
  MlwRow *out = &w->row[row];
  out->is_known = true;
  out->is_vhlo = vhlo_newest_op(row) != NULL;
  out->vhlo = vhlo_op_at(row, w->vhlo);
  if (out->vhlo) {
    VhloSlot slots[VHLO_MAX_SLOTS];
    out->n_slots = vhlo_slots(out->vhlo, slots);
    out->slot = hl_arena_copy(w->arena, slots, (size_t)out->n_slots * sizeof *slots);
    out->absent = HL_ARRAY(w->arena, uint32_t, out->n_slots);
  }
  return out;
}

uint32_t mlw_op_name(MlwWriter *w, const char *dialect, const char *name) {
  uint32_t string = mlw_string(w, name, strlen(name));
  return mlw_add(&w->op_names, mlw_dialect(w, dialect), true, &string, sizeof string);
}

// --- Entries -------------------------------------------------------------------------------------

size_t mlw_begin(MlwWriter *w, int code) {
  size_t from = w->stack.n;
  mlw_varint(&w->stack, (uint64_t)code);
  return from;
}

uint32_t mlw_end(MlwWriter *w, size_t from, MlwPool *pool, const char *dialect) {
  uint32_t index =
      mlw_add(pool, mlw_dialect(w, dialect), true, w->stack.at + from, w->stack.n - from);
  w->stack.n = from;
  return index;
}

// What dialect a text belongs to: what stands between its first character and a dot or a bracket.
static const char *dialect_of_text(MlwWriter *w, const char *text) {
  if (text[0] != '#' && text[0] != '!')
    return "builtin";
  size_t n = strcspn(text + 1, ".<");
  return hl_arena_strndup(w->arena, text + 1, n);
}

uint32_t mlw_text(MlwWriter *w, size_t from, MlwPool *pool) {
  put_end(&w->stack);
  const uint32_t dialect = mlw_dialect(w, dialect_of_text(w, w->stack.at + from));
  put_char(&w->stack, 0);
  const uint32_t index = mlw_add(pool, dialect, false, w->stack.at + from, w->stack.n - from);
  w->stack.n = from;
  return index;
}

// --- Sections ------------------------------------------------------------------------------------

static void put_section(HlBuf *out, int id, HlBuf *data) {
  put_char(out, (char)id);
  mlw_varint(out, data->n);
  put(out, data->n ? data->at : "", data->n);
  hl_buf_free(data);
}

static uint32_t string_of(const MlwPool *pool, uint32_t k) {
  uint32_t string;
  memcpy(&string, pool->bytes.at + pool->entries.at[k].at, sizeof string);
  return string;
}

// How many entries from k on are of one dialect: a group.
static uint32_t run_length(const MlwPool *pool, uint32_t k) {
  uint32_t n = 1;
  while (k + n < (uint32_t)pool->entries.n &&
         pool->entries.at[k + n].dialect == pool->entries.at[k].dialect)
    n++;
  return n;
}

static void put_dialects(MlwWriter *w, HlBuf *out) {
  HlBuf data = {0};
  mlw_varint(&data, (uint64_t)w->dialects.entries.n);
  for (uint32_t k = 0; k < (uint32_t)w->dialects.entries.n; k++)
    mlw_varint(&data, w->version >= 1 ? (uint64_t)string_of(&w->dialects, k) << 1
                                      : string_of(&w->dialects, k));
  if (w->version >= 4)
    mlw_varint(&data, (uint64_t)w->op_names.entries.n);
  for (uint32_t k = 0; k < (uint32_t)w->op_names.entries.n;) {
    uint32_t n = run_length(&w->op_names, k);
    mlw_varint(&data, w->op_names.entries.at[k].dialect);
    mlw_varint(&data, n);
    for (; n > 0; n--, k++) {
      uint64_t string = string_of(&w->op_names, k);
      mlw_varint(&data, w->version >= 5 ? string << 1 | 1 : string);
    }
  }
  put_section(out, MLB_DIALECT, &data);
}

static void put_groups(const MlwPool *pool, HlBuf *out) {
  for (uint32_t k = 0; k < (uint32_t)pool->entries.n;) {
    uint32_t n = run_length(pool, k);
    mlw_varint(out, pool->entries.at[k].dialect);
    mlw_varint(out, n);
    for (; n > 0; n--, k++)
      mlw_varint(out, (uint64_t)pool->entries.at[k].n << 1 | pool->entries.at[k].is_custom);
  }
}

static void put_tables(MlwWriter *w, HlBuf *out) {
  HlBuf offsets = {0}, data = {0};
  mlw_varint(&offsets, (uint64_t)w->attrs.entries.n);
  mlw_varint(&offsets, (uint64_t)w->types.entries.n);
  put_groups(&w->attrs, &offsets);
  put_groups(&w->types, &offsets);
  put(&data, w->attrs.bytes.at, w->attrs.bytes.n);
  put(&data, w->types.bytes.n ? w->types.bytes.at : "", w->types.bytes.n);
  put_section(out, MLB_OFFSETS, &offsets);
  put_section(out, MLB_ATTR_TYPE, &data);
}

static void put_resources(HlBuf *out) {
  HlBuf offsets = {0}, data = {0};
  mlw_varint(&offsets, 0);
  put_section(out, MLB_RESOURCE_OFFSET, &offsets);
  put_section(out, MLB_RESOURCE, &data);
}

static void put_strings(MlwWriter *w, HlBuf *out) {
  HlBuf data = {0};
  uint32_t n = hl_syms_count(w->syms);
  mlw_varint(&data, n);
  for (uint32_t k = n; k-- > 0;)
    mlw_varint(&data, (uint64_t)w->strings.at[k]->n + 1);
  for (uint32_t k = 0; k < n; k++)
    put(&data, w->strings.at[k]->text, (size_t)w->strings.at[k]->n + 1);
  put_section(out, MLB_STRING, &data);
}

static void put_properties(MlwWriter *w, HlBuf *out) {
  HlBuf data = {0};
  mlw_varint(&data, (uint64_t)w->properties.entries.n);
  for (uint32_t k = 0; k < (uint32_t)w->properties.entries.n; k++) {
    mlw_varint(&data, w->properties.entries.at[k].n);
    put(&data, w->properties.bytes.at + w->properties.entries.at[k].at,
        w->properties.entries.at[k].n);
  }
  put_section(out, MLB_PROPERTIES, &data);
}

static void put_file(MlwWriter *w, HlBuf *code, HlBuf *out) {
  hl_buf_puts(out, "ML\xefR");
  mlw_varint(out, (uint64_t)w->version);
  put_end(out);
  hl_buf_printf(out, "StableHLO_v%d.%d.%d", w->target.major, w->target.minor, w->target.patch);
  put_char(out, 0);
  put_dialects(w, out);
  put_tables(w, out);
  put_section(out, MLB_IR, code);
  put_resources(out);
  put_strings(w, out);
  if (w->version >= 5)
    put_properties(w, out);
  put_end(out);
}

// --- Versions ------------------------------------------------------------------------------------

static int bytecode_version(int vhlo) {
  if (vhlo < vhlo_version(0, 10))
    return 0;
  if (vhlo < vhlo_version(0, 12))
    return 1;
  if (vhlo < vhlo_version(0, 14))
    return 3;
  return vhlo < vhlo_version(0, 15) ? 4 : MLB_NEWEST;
}

static bool check_version(HlCx *cx, HlMlVersion version) {
  HlMlVersion oldest = HL_ML_OLDEST, newest = HL_ML_NEWEST;
  const bool is_plain = version.minor < 1000 && version.minor >= 0 && version.patch >= 0 &&
                        version.major >= 0 && version.major < 1000;
  const int at = is_plain ? vhlo_version(version.major, version.minor) : -1;
  if (at >= vhlo_version(oldest.major, oldest.minor) &&
      at <= vhlo_version(newest.major, newest.minor))
    return true;
  return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                       "there is no version %d.%d.%d of VHLO; it is from %d.%d.%d to %d.%d.%d",
                       version.major, version.minor, version.patch, oldest.major, oldest.minor,
                       oldest.patch, newest.major, newest.minor, newest.patch);
}

static void free_writer(MlwWriter *w) {
  free_pool(&w->dialects);
  free_pool(&w->op_names);
  free_pool(&w->attrs);
  free_pool(&w->types);
  free_pool(&w->properties);
  for (int form = 0; form < MLW_FORM_COUNT; form++) {
    map_free(&w->attr_memo[form]);
    map_free(&w->type_memo[form]);
  }
  map_free(&w->location_memo);
  map_free(&w->dialect_memo);
  map_free(&w->captures);
  vec_free(&w->strings);
  hl_buf_free(&w->stack);
  hl_arena_free(w->arena);
}

bool hl_ml_artifact_write(HlCx *cx, const HlMlTree *tree, HlMlVersion version, HlBuf *out) {
  if (!check_version(cx, version))
    return false;
  HlArena *arena = hl_arena_new();
  int vhlo = vhlo_version(version.major, version.minor);
  HlMlTree *copy = mlw_say_otherwise(tree, vhlo);
  MlwWriter w = {.cx = cx,
                 .tree = copy ? copy : tree,
                 .target = version,
                 .vhlo = vhlo,
                 .arena = arena,
                 .syms = hl_syms_new(arena)};
  w.version = bytecode_version(w.vhlo);
  mlw_dialect(&w, "builtin");
  mlw_dialect(&w, "vhlo");
  HlBuf code = {0};
  bool done = mlw_code(&w, &code);
  if (done)
    put_file(&w, &code, out);
  hl_buf_free(&code);
  free_writer(&w);
  hl_ml_free(copy);
  return done;
}
