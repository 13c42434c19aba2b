// Reads MLIR bytecode: the file's sections, strings, dialects and the tables of entries.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"

// --- Failing -------------------------------------------------------------------------------------

static HlPos pos_of(const MlbReader *r, const uint8_t *at) {
  size_t offset = at ? (size_t)(at - r->base) : 0;
  return (HlPos){r->source, offset < UINT32_MAX ? (HlLoc)(offset + 1) : 0};
}

bool mlb_fail_kind(MlbReader *r, HlErrorKind kind, const uint8_t *at, const char *format, ...) {
  if (r->failed)
    return false;
  r->failed = true;
  va_list args;
  va_start(args, format);
  hl_verror(r->cx, kind, pos_of(r, at), format, args);
  va_end(args);
  return false;
}

bool mlb_fail(MlbReader *r, const uint8_t *at, const char *format, ...) {
  if (r->failed)
    return false;
  r->failed = true;
  va_list args;
  va_start(args, format);
  hl_verror(r->cx, HL_INVALID, pos_of(r, at), format, args);
  va_end(args);
  return false;
}

bool mlb_fail_end(MlbReader *r, MlbCursor *c) {
  mlb_fail(r, c->end, "the data ends too early");
  c->at = c->end;
  return false;
}

bool mlb_at_end(MlbReader *r, const MlbCursor *c, const char *what) {
  if (r->failed)
    return false;
  return c->at == c->end ||
         mlb_fail(r, c->at, "%s has %zu bytes too many", what, (size_t)(c->end - c->at));
}

bool mlb_enter(MlbReader *r, const uint8_t *at) {
  if (++r->depth <= r->max_depth)
    return true;
  return mlb_fail_kind(r, HL_LIMIT, at, "nested deeper than %d levels (limit nesting)",
                       r->max_depth);
}

bool mlb_is_small(MlbReader *r, const uint8_t *at, int depth, uint32_t size) {
  int64_t most = hl_cx_limits(r->cx)->tuple_leaves;
  if (depth > r->max_depth)
    return mlb_fail_kind(r, HL_LIMIT, at, "nested deeper than %d levels (limit nesting)",
                         r->max_depth);
  return size <= most ||
         mlb_fail_kind(r, HL_LIMIT, at, "it has more than %" PRId64 " parts (limit tuple_leaves)",
                       most);
}

// --- Primitives ----------------------------------------------------------------------------------

// The zero bits below the lowest one of the first byte count the bytes that follow.
uint64_t mlb_long_varint(MlbReader *r, MlbCursor *c) {
  if (c->at >= c->end)
    return mlb_fail_end(r, c);
  unsigned first = *c->at;
  int more = first ? __builtin_ctz(first) : 8;
  if (c->end - c->at <= more)
    return mlb_fail_end(r, c);
  uint64_t value = 0;
  for (int k = more; k > 0; k--)
    value = value << 8 | c->at[k];
  c->at += more + 1;
  if (more == 8)
    return value;
  return (value << 8 | first) >> (more + 1);
}

uint32_t mlb_count(MlbReader *r, MlbCursor *c, size_t least, const char *what) {
  const uint8_t *at = c->at;
  uint64_t n = mlb_varint(r, c);
  if (r->failed)
    return 0;
  if (n > (size_t)(c->end - c->at) / least || n > INT32_MAX) {
    mlb_fail(r, at, "%" PRIu64 " %s cannot be in the %zu bytes that are left", n, what,
             (size_t)(c->end - c->at));
    return 0;
  }
  return (uint32_t)n;
}

HlStr mlb_bytes(MlbReader *r, MlbCursor *c, uint64_t n) {
  if (n > (uint64_t)(c->end - c->at)) {
    mlb_fail_end(r, c);
    return (HlStr){"", 0};
  }
  HlStr out = {(const char *)c->at, (size_t)n};
  c->at += n;
  return out;
}

HlI64s mlb_ints(MlbReader *r, MlbCursor *c) {
  uint32_t n = mlb_count(r, c, 1, "numbers");
  int64_t *at = HL_ARRAY(r->arena, int64_t, n);
  for (uint32_t k = 0; k < n; k++)
    at[k] = mlb_svarint(r, c);
  return (HlI64s){at, (int)n};
}

const HlSym *mlb_string_at(MlbReader *r, const uint8_t *at, uint64_t index) {
  if (r->failed)
    return NULL;
  if (index >= r->n_strings) {
    mlb_fail(r, at, "there is no string %" PRIu64 ", only %u", index, r->n_strings);
    return NULL;
  }
  if (!r->sym[index])
    r->sym[index] = hl_syms_add(r->tree->syms, r->string[index].at, r->string[index].n);
  return r->sym[index];
}

const HlSym *mlb_string(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  return mlb_string_at(r, at, mlb_varint(r, c));
}

double mlb_f64(MlbReader *r, MlbCursor *c) {
  return hl_f64_of_bits((uint64_t)mlb_svarint(r, c));
}

// --- Sections ------------------------------------------------------------------------------------

static const char *const section_names[MLB_SECTION_COUNT] = {
    "strings",   "dialects",  "attributes and types", "offsets",
    "code",      "resources", "offsets of resources", "versions of dialects",
    "properties"};

bool mlb_section(MlbReader *r, MlbCursor *c, int *id, MlbCursor *out) {
  const uint8_t *at = c->at;
  uint8_t byte = mlb_byte(r, c);
  uint64_t n = mlb_varint(r, c);
  *id = byte & 0x7f;
  if (byte & 0x80) {
    uint64_t alignment = mlb_varint(r, c);
    if (!r->failed && (alignment == 0 || alignment > 1u << 30))
      return mlb_fail(r, at, "a section is aligned to %" PRIu64, alignment);
    while (!r->failed && (uint64_t)(c->at - r->base) % alignment)
      mlb_byte(r, c);
  }
  if (r->failed)
    return false;
  if (*id >= MLB_SECTION_COUNT)
    return mlb_fail(r, at, "there is no section %d", *id);
  HlStr bytes = mlb_bytes(r, c, n);
  *out = (MlbCursor){(const uint8_t *)bytes.at, (const uint8_t *)bytes.at + bytes.n};
  return !r->failed;
}

static bool index_sections(MlbReader *r, MlbCursor *c) {
  while (c->at < c->end) {
    const uint8_t *at = c->at;
    int id;
    MlbCursor data;
    if (!mlb_section(r, c, &id, &data))
      return false;
    if (r->has[id])
      return mlb_fail(r, at, "a second section of %s", section_names[id]);
    r->has[id] = true;
    r->section[id] = data;
  }
  static const uint8_t needed[] = {MLB_STRING, MLB_DIALECT, MLB_ATTR_TYPE, MLB_OFFSETS, MLB_IR};
  for (int k = 0; k < HL_COUNT_OF(needed); k++)
    if (!r->has[needed[k]])
      return mlb_fail(r, c->end, "there is no section of %s", section_names[needed[k]]);
  return true;
}

// The lengths come last first, each with the NUL that ends the string.
static bool read_strings(MlbReader *r) {
  MlbCursor c = r->section[MLB_STRING];
  uint32_t n = mlb_count(r, &c, 2, "strings");
  r->string = HL_ARRAY(r->arena, HlStr, n);
  r->sym = HL_ARRAY(r->arena, const HlSym *, n);
  for (uint32_t k = n; k-- > 0;) {
    uint64_t length = mlb_varint(r, &c);
    if (!r->failed && (length == 0 || length > UINT32_MAX))
      return mlb_fail(r, c.at, "string %u has the length %" PRIu64, k, length);
    r->string[k].n = length;
  }
  for (uint32_t k = 0; k < n; k++) {
    HlStr bytes = mlb_bytes(r, &c, r->string[k].n);
    if (r->failed)
      return false;
    if (bytes.at[bytes.n - 1] != 0)
      return mlb_fail(r, c.at - 1, "string %u does not end with a NUL", k);
    r->string[k] = (HlStr){bytes.at, bytes.n - 1};
  }
  r->n_strings = n;
  return mlb_at_end(r, &c, "the section of strings");
}

static bool read_dialect(MlbReader *r, MlbCursor *c, MlbDialect *out) {
  const uint8_t *at = c->at;
  uint64_t name = mlb_varint(r, c);
  bool has_version = r->version >= 1 && (name & 1);
  out->name = mlb_string_at(r, at, r->version >= 1 ? name >> 1 : name);
  if (!out->name)
    return false;
  out->dialect = ml_find_dialect((HlStr){out->name->text, out->name->n});
  r->is_artifact |= out->dialect == HL_ML_VHLO;
  if (!has_version)
    return true;
  int id;
  MlbCursor version;
  if (!mlb_section(r, c, &id, &version))
    return false;
  return id == MLB_VERSIONS ||
         mlb_fail(r, at, "section %d instead of the version of a dialect", id);
}

static bool read_op_names(MlbReader *r, MlbCursor *c) {
  uint64_t stated = r->version >= 4 ? mlb_varint(r, c) : 0;
  uint32_t room = (uint32_t)((size_t)(c->end - c->at) < UINT32_MAX ? c->end - c->at : 0);
  r->op_name = HL_ARRAY(r->arena, MlbOpName, r->version >= 4 && stated < room ? stated : room);
  uint32_t most = r->version >= 4 && stated < room ? (uint32_t)stated : room;
  while (c->at < c->end && !r->failed) {
    const uint8_t *at = c->at;
    uint64_t dialect = mlb_varint(r, c);
    uint32_t n = mlb_count(r, c, 1, "names of ops");
    if (!r->failed && dialect >= r->n_dialects)
      return mlb_fail(r, at, "there is no dialect %" PRIu64 ", only %u", dialect, r->n_dialects);
    for (uint32_t k = 0; k < n && !r->failed; k++) {
      uint64_t name = mlb_varint(r, c);
      if (r->n_op_names >= most)
        return mlb_fail(r, at, "there are more names of ops than the %" PRIu64 " stated", stated);
      MlbOpName *out = &r->op_name[r->n_op_names++];
      out->is_registered = r->version < 5 || (name & 1);
      uint64_t text = r->version >= 5 ? name >> 1 : name;
      if (text >= r->n_strings)
        return mlb_fail(r, at, "there is no string %" PRIu64 ", only %u", text, r->n_strings);
      out->text = (uint32_t)text;
      out->file_dialect = (uint32_t)dialect;
    }
  }
  if (!r->failed && r->version >= 4 && stated != r->n_op_names)
    return mlb_fail(r, c->at, "there are %u names of ops, not %" PRIu64, r->n_op_names, stated);
  return !r->failed;
}

static bool read_dialects(MlbReader *r) {
  MlbCursor c = r->section[MLB_DIALECT];
  uint32_t n = mlb_count(r, &c, 1, "dialects");
  r->dialect = HL_ARRAY(r->arena, MlbDialect, n);
  for (uint32_t k = 0; k < n; k++)
    if (!read_dialect(r, &c, &r->dialect[k]))
      return false;
  r->n_dialects = n;
  return read_op_names(r, &c);
}

static bool read_properties(MlbReader *r) {
  if (!r->has[MLB_PROPERTIES])
    return true;
  MlbCursor c = r->section[MLB_PROPERTIES];
  uint32_t n = mlb_count(r, &c, 1, "properties");
  r->properties = HL_ARRAY(r->arena, MlbProperties, n);
  for (uint32_t k = 0; k < n; k++) {
    HlStr bytes = mlb_bytes(r, &c, mlb_varint(r, &c));
    r->properties[k].at = (const uint8_t *)bytes.at;
    r->properties[k].n = bytes.n;
  }
  r->n_properties = n;
  return mlb_at_end(r, &c, "the section of properties");
}

// Entries of the table of attributes or types, in groups of one dialect.
static bool read_entries(MlbReader *r, MlbCursor *c, MlbCursor *data, MlbEntry *entry, uint32_t n) {
  for (uint32_t k = 0; k < n;) {
    const uint8_t *at = c->at;
    uint64_t dialect = mlb_varint(r, c), group = mlb_varint(r, c);
    if (r->failed)
      return false;
    if (dialect >= r->n_dialects || group > n - k || group == 0)
      return mlb_fail(
          r, at, "a group of %" PRIu64 " entries of dialect %" PRIu64 " where %u entries are left",
          group, dialect, n - k);
    for (uint64_t j = 0; j < group; j++, k++) {
      uint64_t size = mlb_varint(r, c);
      HlStr bytes = mlb_bytes(r, data, size >> 1);
      entry[k] = (MlbEntry){(const uint8_t *)bytes.at, (uint32_t)dialect, size & 1, bytes.n};
      if (r->failed)
        return false;
    }
  }
  return true;
}

static bool read_tables(MlbReader *r) {
  MlbCursor c = r->section[MLB_OFFSETS], data = r->section[MLB_ATTR_TYPE];
  uint32_t n_attrs = mlb_count(r, &c, 1, "attributes"), n_types = mlb_count(r, &c, 1, "types");
  if (r->failed)
    return false;
  r->attr = HL_ARRAY(r->arena, MlbEntry, n_attrs);
  r->type = HL_ARRAY(r->arena, MlbEntry, n_types);
  r->attr_of = HL_ARRAY(r->arena, const HlMlAttr *, n_attrs);
  r->location_of = HL_ARRAY(r->arena, const HlMlLocation *, n_attrs);
  r->location_measure = HL_ARRAY(r->arena, MlbMeasure, n_attrs);
  r->type_of = HL_ARRAY(r->arena, const HlMlType *, n_types);
  if (!read_entries(r, &c, &data, r->attr, n_attrs) ||
      !read_entries(r, &c, &data, r->type, n_types))
    return false;
  r->n_attrs = n_attrs;
  r->n_types = n_types;
  return mlb_at_end(r, &c, "the section of offsets") &&
         mlb_at_end(r, &data, "the section of attributes and types");
}

// --- Resources -----------------------------------------------------------------------------------

static bool read_blob(MlbReader *r, MlbCursor *c, HlMlResource *out) {
  const uint8_t *at = c->at;
  uint64_t alignment = mlb_varint(r, c), n = mlb_varint(r, c);
  if (!r->failed && (alignment == 0 || alignment > 1u << 30))
    return mlb_fail(r, at, "a resource is aligned to %" PRIu64, alignment);
  while (!r->failed && (uint64_t)(c->at - r->base) % alignment)
    mlb_byte(r, c);
  HlStr bytes = mlb_bytes(r, c, n);
  out->alignment = (int64_t)alignment;
  out->data = bytes.at;  // in the source, which the tree keeps
  out->n = bytes.n;
  return !r->failed;
}

enum { RESOURCE_BLOB, RESOURCE_BOOL, RESOURCE_STRING };

// Resources of tools (`is_external`) are read over.
static bool read_group(MlbReader *r, MlbCursor *c, MlbCursor *data, const HlSym *dialect,
                       bool is_external, HlMlResource *out, int *n_out) {
  uint32_t n = mlb_count(r, c, 3, "resources");
  for (uint32_t k = 0; k < n && !r->failed; k++) {
    const uint8_t *at = c->at;
    const HlSym *key = mlb_string(r, c);
    HlStr bytes = mlb_bytes(r, data, mlb_varint(r, c));
    uint8_t kind = mlb_byte(r, c);
    if (r->failed)
      return false;
    if (kind > RESOURCE_STRING)
      return mlb_fail(r, at, "there are no resources of kind %d", kind);
    if (is_external)
      continue;
    HlMlResource *resource = &out[(*n_out)++];
    *resource = (HlMlResource){.dialect = dialect, .key = key};
    MlbCursor value = {(const uint8_t *)bytes.at, (const uint8_t *)bytes.at + bytes.n};
    if (kind == RESOURCE_BLOB && bytes.n && !read_blob(r, &value, resource))
      return false;
  }
  return !r->failed;
}

static bool read_resources(MlbReader *r) {
  if (!r->has[MLB_RESOURCE_OFFSET])
    return true;
  MlbCursor c = r->section[MLB_RESOURCE_OFFSET], data = r->section[MLB_RESOURCE];
  r->tree->resources = HL_ARRAY(r->tree->arena, HlMlResource, (size_t)(c.end - c.at) / 3 + 1);
  uint32_t n_external = mlb_count(r, &c, 2, "groups of resources");
  for (uint32_t k = 0; k < n_external; k++)
    if (!mlb_string(r, &c) || !read_group(r, &c, &data, NULL, true, NULL, NULL))
      return false;
  while (c.at < c.end && !r->failed) {
    const uint8_t *at = c.at;
    uint64_t dialect = mlb_varint(r, &c);
    if (!r->failed && dialect >= r->n_dialects)
      return mlb_fail(r, at, "there is no dialect %" PRIu64 ", only %u", dialect, r->n_dialects);
    if (r->failed || !read_group(r, &c, &data, r->dialect[dialect].name, false, r->tree->resources,
                                 &r->tree->n_resources))
      return false;
  }
  return !r->failed;
}

// --- The file ------------------------------------------------------------------------------------

// "StableHLO_v1.2.3" tells the version of VHLO.
static bool read_producer(MlbReader *r, MlbCursor *c) {
  const uint8_t *nul = memchr(c->at, 0, (size_t)(c->end - c->at));
  if (!nul)
    return mlb_fail_end(r, c);
  const char *text = hl_arena_strndup(r->tree->arena, (const char *)c->at, (size_t)(nul - c->at));
  HlMlVersion *version = &r->tree->version;
  r->tree->producer = text;
  c->at = nul + 1;
  if (sscanf(text, "StableHLO_v%9d.%9d.%9d", &version->major, &version->minor, &version->patch) !=
      3) {
    *version = (HlMlVersion){0};
    return true;
  }
  HlMlVersion newest = HL_ML_NEWEST;
  if (version->major > newest.major ||
      (version->major == newest.major && version->minor > newest.minor))
    return mlb_fail_kind(
        r, HL_UNSUPPORTED, nul - strlen(text),
        "a portable artifact of version %d.%d.%d; the newest that is known is %d.%d.%d",
        version->major, version->minor, version->patch, newest.major, newest.minor, newest.patch);
  return true;
}

static bool read_header(MlbReader *r, MlbCursor *c) {
  static const uint8_t magic[4] = {'M', 'L', 0xef, 'R'};
  HlStr first = mlb_bytes(r, c, sizeof magic);
  if (r->failed || memcmp(first.at, magic, sizeof magic) != 0)
    return mlb_fail(r, r->base, "not MLIR bytecode, which begins with 4d 4c ef 52");
  uint64_t version = mlb_varint(r, c);
  if (r->failed)
    return false;
  if (version > MLB_NEWEST)
    return mlb_fail_kind(r, HL_UNSUPPORTED, r->base + 4,
                         "bytecode of version %" PRIu64 "; the newest that is known is %d", version,
                         MLB_NEWEST);
  r->version = (int)version;
  return read_producer(r, c);
}

static bool read_file(MlbReader *r) {
  HlStr bytes = hl_source_bytes(r->source);
  MlbCursor c = {(const uint8_t *)bytes.at, (const uint8_t *)bytes.at + bytes.n};
  return read_header(r, &c) && index_sections(r, &c) && read_strings(r) && read_dialects(r) &&
         read_properties(r) && read_resources(r) && read_tables(r) && mlb_read_ir(r);
}

static HlMlTree *read_tree(HlCx *cx, HlSource *source) {
  MlbReader r = {.cx = cx,
                 .source = source,
                 .base = (const uint8_t *)hl_source_bytes(source).at,
                 .tree = hl_ml_new(source),
                 .arena = hl_arena_new(),
                 .max_depth = hl_cx_limits(cx)->nesting};
  bool done = read_file(&r);
  mlb_end_text(&r);
  hl_arena_free(r.arena);
  if (done)
    return r.tree;
  hl_ml_free(r.tree);
  return NULL;
}

typedef struct Reading {
  HlSource *source;
  HlMlTree *tree;
} Reading;

static bool try_reading(HlCx *cx, void *user) {
  Reading *reading = user;
  reading->tree = read_tree(cx, reading->source);
  return reading->tree;
}

HlMlTree *hl_ml_bytecode_read(HlCx *cx, HlSource *source) {
  Reading reading = {source, NULL};
  return hl_try(cx, try_reading, &reading) ? reading.tree : NULL;
}
