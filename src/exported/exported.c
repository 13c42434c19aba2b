// exported/exported.c: the schema of jax.export's files. Fields are numbered as JAX has added them; those that newer
// versions of JAX leave out or write in another way are read in both ways.
#include "hilo/exported.h"

#include <string.h>

#include "exported/flat.h"

// Numbers of fields.
enum { TREE_KIND, TREE_CHILDREN, TREE_NAMES, TREE_CUSTOM };
enum { MESH_SIZES, MESH_NAMES };
enum { ONE_AXES };
enum { SPEC_PARTITIONS, SPEC_REDUCED, SPEC_UNREDUCED };
enum { NAMED_MESH, NAMED_SPEC, NAMED_MEMORY, NAMED_MESH_NUMBER };
enum { VALUE_KIND, VALUE_SHAPE, VALUE_DTYPE, VALUE_MEMORY };
enum { SHARDING_KIND, SHARDING_PROTO, SHARDING_NAMED };
enum { EFFECT_NAME };
enum { CHECK_KIND, CHECK_TARGET };
enum {
  EX_SERIALIZATION,
  EX_FUNCTION,
  EX_IN_TREE,
  EX_IN,
  EX_OUT_TREE,
  EX_OUT,
  EX_DEVICES_SHORT,
  EX_IN_SHARDINGS,
  EX_OUT_SHARDINGS,
  EX_PLATFORMS,
  EX_ORDERED,
  EX_UNORDERED,
  EX_CHECKS,
  EX_MODULE,
  EX_CALLING,
  EX_KEPT,
  EX_GLOBALS,
  EX_VJP,
  EX_DEVICES,
  EX_VALUES,
  EX_MESHES,
  EX_NAMED,
  EX_IN_NUMBERS,
  EX_OUT_NUMBERS,
  EX_IN_SHARDING_NUMBERS,
  EX_OUT_SHARDING_NUMBERS,
  EX_JAX
};

static const char *word(const char *const *words, int n, int64_t value) {
  return value >= 0 && value < n ? words[value] : "?";
}
#define WORD(words, value) word(words, HL_COUNT_OF(words), value)

static char *taken(Flat *f, HlBuf *text) {
  char *copy = hl_arena_strndup(f->arena, text->at ? text->at : "", text->n);
  hl_buf_free(text);
  return copy;
}

static void put_names(HlBuf *out, const char *const *name, int n, const char *quote) {
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "%s%s%s%s", k ? ", " : "", quote, name[k], quote);
}

// --- Trees -----------------------------------------------------------------------------------------------------------

enum { LEAF, NONE, TUPLE, LIST, DICT, CUSTOM };

static bool put_tree(Flat *f, const FlatTable *tree, HlBuf *out);

static bool put_children(Flat *f, const FlatTable *tree, int64_t kind, HlBuf *out) {
  FlatList children;
  const char *const *names;
  int n_names;
  if (!flat_list(f, tree, TREE_CHILDREN, 4, &children) ||
      !flat_texts(f, tree, TREE_NAMES, &names, &n_names))
    return false;
  if (kind == DICT && n_names != (int)children.n)
    return flat_bad(f, tree->at, "a dictionary of %u entries has %d keys", children.n, n_names);
  hl_buf_puts(out, kind == TUPLE ? "(" : kind == DICT ? "{" : "[");
  for (uint32_t k = 0; k < children.n; k++) {
    FlatTable child;
    hl_buf_puts(out, k ? ", " : "");
    if (kind == DICT)
      hl_buf_printf(out, "'%s': ", names[k]);
    if (!flat_item_table(f, &children, k, &child) || !put_tree(f, &child, out))
      return false;
  }
  hl_buf_puts(out, kind == TUPLE && children.n == 1 ? "," : "");
  hl_buf_puts(out, kind == TUPLE ? ")" : kind == DICT ? "}" : "]");
  return true;
}

static bool put_tree(Flat *f, const FlatTable *tree, HlBuf *out) {
  int64_t kind;
  const char *custom;
  if (!flat_int(f, tree, TREE_KIND, 1, &kind))
    return false;
  if (kind == LEAF || kind == NONE) {
    hl_buf_puts(out, kind == LEAF ? "*" : "None");
    return true;
  }
  if (kind > CUSTOM)
    return flat_bad(f, tree->at, "a tree has a node of kind %lld", (long long)kind);
  if (f->depth >= hl_cx_limits(f->cx)->nesting)
    return hl_error_kind(f->cx, HL_LIMIT, (HlPos){f->source, tree->at + 1},
                         "trees nested more than %d deep", hl_cx_limits(f->cx)->nesting);
  if (kind == CUSTOM && !flat_text(f, tree, TREE_CUSTOM, &custom))
    return false;
  if (kind == CUSTOM)
    hl_buf_puts(out, custom);
  f->depth++;
  const bool ok = put_children(f, tree, kind, out);
  f->depth--;
  return ok;
}

static bool read_tree(Flat *f, const FlatTable *exported, int field, const char **out) {
  FlatTable tree;
  bool has, ok = flat_table(f, exported, field, &has, &tree);
  HlBuf text = {0};
  if (ok && has)
    ok = put_tree(f, &tree, &text);
  *out = taken(f, &text);
  return ok;
}

// --- Shardings -------------------------------------------------------------------------------------------------------

static bool put_mesh(Flat *f, const FlatTable *mesh, HlBuf *out) {
  FlatList sizes;
  const char *const *names;
  int n;
  if (!flat_list(f, mesh, MESH_SIZES, 4, &sizes) || !flat_texts(f, mesh, MESH_NAMES, &names, &n))
    return false;
  if (n != (int)sizes.n)
    return flat_bad(f, mesh->at, "a mesh has %d names for %u axes", n, sizes.n);
  hl_buf_puts(out, "(");
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "%s'%s': %lld", k ? ", " : "", names[k],
                  (long long)flat_item(f, &sizes, (uint32_t)k, 4));
  hl_buf_puts(out, ")");
  return true;
}

static bool put_partition(Flat *f, const FlatTable *one, HlBuf *out) {
  const char *const *axes;
  int n;
  if (!flat_texts(f, one, ONE_AXES, &axes, &n))
    return false;
  hl_buf_puts(out, n == 0 ? "None" : n > 1 ? "(" : "");
  put_names(out, axes, n, "'");
  hl_buf_puts(out, n > 1 ? ")" : "");
  return true;
}

static bool put_spec(Flat *f, const FlatTable *spec, HlBuf *out) {
  static const char *const words[] = {"reduced", "unreduced"};
  FlatList partitions;
  if (!flat_list(f, spec, SPEC_PARTITIONS, 4, &partitions))
    return false;
  hl_buf_puts(out, "P(");
  for (uint32_t k = 0; k < partitions.n; k++) {
    FlatTable one;
    hl_buf_puts(out, k ? ", " : "");
    if (!flat_item_table(f, &partitions, k, &one) || !put_partition(f, &one, out))
      return false;
  }
  for (int k = 0; k < 2; k++) {
    const char *const *axes;
    int n;
    if (!flat_texts(f, spec, SPEC_REDUCED + k, &axes, &n))
      return false;
    if (n == 0)
      continue;
    hl_buf_printf(out, "%s%s={", partitions.n || k ? ", " : "", words[k]);
    put_names(out, axes, n, "'");
    hl_buf_puts(out, "}");
  }
  hl_buf_puts(out, ")");
  return true;
}

// The mesh stands in the sharding, or since April 2026 in a list of all.
static bool put_mesh_of(Flat *f, const FlatTable *named, const FlatList *meshes, HlBuf *out) {
  FlatTable mesh;
  int64_t number;
  bool has;
  if (meshes->n == 0)
    return flat_table(f, named, NAMED_MESH, &has, &mesh) && (!has || put_mesh(f, &mesh, out));
  if (!flat_int(f, named, NAMED_MESH_NUMBER, 4, &number))
    return false;
  if (number >= meshes->n)
    return flat_bad(f, named->at, "a sharding is on mesh %lld of %u", (long long)number, meshes->n);
  return flat_item_table(f, meshes, (uint32_t)number, &mesh) && put_mesh(f, &mesh, out);
}

static bool put_named(Flat *f, const FlatTable *named, const FlatList *meshes, HlBuf *out) {
  FlatTable spec;
  const char *memory;
  bool has;
  hl_buf_puts(out, "NamedSharding(");
  if (!put_mesh_of(f, named, meshes, out) || !flat_table(f, named, NAMED_SPEC, &has, &spec))
    return false;
  hl_buf_puts(out, ", ");
  if ((has && !put_spec(f, &spec, out)) || !flat_text(f, named, NAMED_MEMORY, &memory))
    return false;
  if (*memory)
    hl_buf_printf(out, ", memory_kind='%s'", memory);
  hl_buf_puts(out, ")");
  return true;
}

static bool put_sharding(Flat *f, const FlatTable *sharding, const FlatList *meshes, HlBuf *out) {
  FlatTable named;
  FlatList proto;
  bool has;
  if (!flat_table(f, sharding, SHARDING_NAMED, &has, &named) ||
      !flat_list(f, sharding, SHARDING_PROTO, 1, &proto))
    return false;
  if (has)
    return put_named(f, &named, meshes, out);
  if (proto.n > 0)
    hl_buf_printf(out, "HloSharding(%u bytes; the module says it)", proto.n);
  return true;
}

// What an export has of lists of arguments, or of results.
typedef struct Side {
  int values, numbers, shardings, sharding_numbers;  // fields
} Side;

static bool read_sharding(Flat *f, const FlatTable *ex, const Side *side, uint32_t k,
                          const char **out) {
  FlatList meshes, numbers, named, each;
  FlatTable sharding;
  HlBuf text = {0};
  *out = "";
  if (!flat_list(f, ex, EX_MESHES, 4, &meshes) || !flat_list(f, ex, EX_NAMED, 4, &named) ||
      !flat_list(f, ex, side->sharding_numbers, 4, &numbers) ||
      !flat_list(f, ex, side->shardings, 4, &each))
    return false;
  bool ok = true;
  const int64_t number = k < numbers.n ? flat_item(f, &numbers, k, 4) : 0;
  if (numbers.n > 0 && number > named.n)
    return flat_bad(f, numbers.at + 4 * k, "a value has sharding %lld of %u", (long long)number,
                    named.n);
  if (number > 0)
    ok = flat_item_table(f, &named, (uint32_t)number - 1, &sharding) &&
         put_named(f, &sharding, &meshes, &text);
  else if (numbers.n == 0 && k < each.n)
    ok = flat_item_table(f, &each, k, &sharding) && put_sharding(f, &sharding, &meshes, &text);
  *out = taken(f, &text);
  return ok;
}

// --- Values ----------------------------------------------------------------------------------------------------------

static bool read_value(Flat *f, const FlatTable *value, HlExportedValue *out) {
  static const char *const dtypes[] = {"bool",          "int8",
                                       "int16",         "int32",
                                       "int64",         "uint8",
                                       "uint16",        "uint32",
                                       "uint64",        "float16",
                                       "float32",       "float64",
                                       "complex64",     "complex128",
                                       "bfloat16",      "int4",
                                       "uint4",         "float8_e4m3b11fnuz",
                                       "float8_e4m3fn", "float8_e4m3fnuz",
                                       "float8_e5m2",   "float8_e5m2fnuz",
                                       "float0",        "float8_e4m3",
                                       "float8_e3m4",   "float8_e8m0fnu",
                                       "float4_e2m1fn", "key<fry>",
                                       "key<rbg>",      "key<unsafe_rbg>"};
  static const char *const memories[] = {"", "device", "host", "any"};
  int64_t kind, dtype, memory;
  const char *const *sizes;
  int n;
  if (!flat_int(f, value, VALUE_KIND, 1, &kind) || !flat_int(f, value, VALUE_DTYPE, 1, &dtype) ||
      !flat_int(f, value, VALUE_MEMORY, 1, &memory) ||
      !flat_texts(f, value, VALUE_SHAPE, &sizes, &n))
    return false;
  out->memory = WORD(memories, memory);
  if (kind != 0) {
    out->type = "token";
    return true;
  }
  HlBuf text = {0};
  hl_buf_printf(&text, "%s[", WORD(dtypes, dtype));
  for (int k = 0; k < n; k++)
    hl_buf_printf(&text, "%s%s", k ? "," : "", sizes[k]);
  hl_buf_puts(&text, "]");
  out->type = taken(f, &text);
  return true;
}

// Each value, or since April 2026 its number in a list of all.
static bool read_side(Flat *f, const FlatTable *ex, const Side *side, HlExportedValue **out,
                      int *n) {
  FlatList all, each, numbers;
  if (!flat_list(f, ex, EX_VALUES, 4, &all) || !flat_list(f, ex, side->values, 4, &each) ||
      !flat_list(f, ex, side->numbers, 4, &numbers))
    return false;
  const uint32_t count = numbers.n ? numbers.n : each.n;
  *out = HL_ARRAY(f->arena, HlExportedValue, count + 1);
  for (uint32_t k = 0; k < count; k++) {
    const int64_t number = numbers.n ? flat_item(f, &numbers, k, 4) : k;
    const FlatList *list = numbers.n ? &all : &each;
    FlatTable value;
    if (number >= list->n)
      return flat_bad(f, numbers.at + 4 * k, "a value is of type %lld of %u", (long long)number,
                      list->n);
    if (!flat_item_table(f, list, (uint32_t)number, &value) || !read_value(f, &value, &(*out)[k]) ||
        !read_sharding(f, ex, side, k, &(*out)[k].sharding))
      return false;
  }
  *n = (int)count;
  return true;
}

// --- The rest --------------------------------------------------------------------------------------------------------

static bool read_effects(Flat *f, const FlatTable *ex, int field, const char *const **out, int *n) {
  FlatList list;
  if (!flat_list(f, ex, field, 4, &list))
    return false;
  const char **names = HL_ARRAY(f->arena, const char *, list.n + 1);
  for (uint32_t k = 0; k < list.n; k++) {
    FlatTable effect;
    if (!flat_item_table(f, &list, k, &effect) || !flat_text(f, &effect, EFFECT_NAME, &names[k]))
      return false;
  }
  *out = names;
  *n = (int)list.n;
  return true;
}

static bool read_checks(Flat *f, const FlatTable *ex, HlExported *out) {
  static const char *const kinds[] = {"platform", "custom_call", "shape_assertions"};
  FlatList list;
  if (!flat_list(f, ex, EX_CHECKS, 4, &list))
    return false;
  const char **names = HL_ARRAY(f->arena, const char *, list.n + 1);
  for (uint32_t k = 0; k < list.n; k++) {
    FlatTable check;
    int64_t kind;
    const char *target;
    if (!flat_item_table(f, &list, k, &check) || !flat_int(f, &check, CHECK_KIND, 1, &kind) ||
        !flat_text(f, &check, CHECK_TARGET, &target))
      return false;
    names[k] = hl_arena_printf(f->arena, *target ? "%s: %s" : "%s%s", WORD(kinds, kind), target);
  }
  out->disabled_checks = names;
  out->n_disabled_checks = (int)list.n;
  return true;
}

static bool read_kept(Flat *f, const FlatTable *ex, HlExported *out) {
  FlatList kept;
  if (!flat_list(f, ex, EX_KEPT, 2, &kept))
    return false;
  for (uint32_t k = 0; k < kept.n; k++) {
    const int64_t which = flat_item(f, &kept, k, 2);
    if (which >= out->n_in)
      return flat_bad(f, kept.at + 2 * k, "the module takes argument %lld of %d", (long long)which,
                      out->n_in);
    out->in[which].is_kept = true;
  }
  return true;
}

static bool read_module(Flat *f, const FlatTable *ex, HlExported *out) {
  FlatList module;
  if (!flat_list(f, ex, EX_MODULE, 1, &module))
    return false;
  if (module.n == 0)
    return flat_bad(f, ex->at, "the export has no module");
  const char *name = hl_arena_printf(f->arena, "%s:module", hl_source_name(f->source));
  out->module = hl_source_new(name, f->at + module.at, module.n, true);
  return true;
}

static bool read_exported(Flat *f, const FlatTable *ex, HlExported *out);

static bool read_vjp(Flat *f, const FlatTable *ex, HlExported *out) {
  FlatTable vjp;
  bool has;
  if (!flat_table(f, ex, EX_VJP, &has, &vjp))
    return false;
  if (!has)
    return true;
  if (++f->depth > hl_cx_limits(f->cx)->nesting)
    return hl_error_kind(f->cx, HL_LIMIT, (HlPos){f->source, vjp.at + 1},
                         "derivatives nested more than %d deep", hl_cx_limits(f->cx)->nesting);
  out->vjp = HL_NEW(f->arena, HlExported);
  const bool ok = read_exported(f, &vjp, out->vjp);
  f->depth--;
  return ok;
}

static bool read_exported(Flat *f, const FlatTable *ex, HlExported *out) {
  static const Side in = {EX_IN, EX_IN_NUMBERS, EX_IN_SHARDINGS, EX_IN_SHARDING_NUMBERS},
                    results = {EX_OUT, EX_OUT_NUMBERS, EX_OUT_SHARDINGS, EX_OUT_SHARDING_NUMBERS};
  int64_t serialization, calling, devices, devices_short, globals;
  if (!flat_int(f, ex, EX_SERIALIZATION, 2, &serialization) ||
      !flat_int(f, ex, EX_CALLING, 2, &calling) || !flat_int(f, ex, EX_DEVICES, 4, &devices) ||
      !flat_int(f, ex, EX_DEVICES_SHORT, 2, &devices_short) ||
      !flat_int(f, ex, EX_GLOBALS, 1, &globals))
    return false;
  out->serialization = (int)serialization;
  out->calling_convention = (int)calling;
  out->n_devices = devices ? devices : devices_short;
  out->has_global_constants = globals != 0;
  return read_module(f, ex, out) && flat_text(f, ex, EX_FUNCTION, &out->function) &&
         flat_text(f, ex, EX_JAX, &out->jax) && read_tree(f, ex, EX_IN_TREE, &out->in_tree) &&
         read_tree(f, ex, EX_OUT_TREE, &out->out_tree) &&
         read_side(f, ex, &in, &out->in, &out->n_in) &&
         read_side(f, ex, &results, &out->out, &out->n_out) &&
         flat_texts(f, ex, EX_PLATFORMS, &out->platforms, &out->n_platforms) &&
         read_effects(f, ex, EX_ORDERED, &out->ordered_effects, &out->n_ordered_effects) &&
         read_effects(f, ex, EX_UNORDERED, &out->unordered_effects, &out->n_unordered_effects) &&
         read_checks(f, ex, out) && read_kept(f, ex, out) && read_vjp(f, ex, out);
}

bool hl_exported_sniff(HlStr bytes) {
  return flat_looks_like_table(bytes, EX_MODULE + 1);
}

HlExported *hl_exported_read(HlCx *cx, HlSource *source) {
  HlArena *arena = hl_arena_new();
  HlExported *out = HL_NEW(arena, HlExported);
  out->arena = arena;
  Flat f;
  FlatTable root;
  if (flat_open(&f, cx, source, arena) && flat_root(&f, &root) && read_exported(&f, &root, out))
    return out;
  hl_exported_free(out);
  return NULL;
}

void hl_exported_free(HlExported *exported) {
  HlArena *arena = exported ? exported->arena : NULL;
  for (; exported; exported = exported->vjp)
    hl_source_unref(exported->module);
  if (arena)
    hl_arena_free(arena);
}
