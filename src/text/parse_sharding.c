// parse_sharding.c: reads shardings, device meshes and replica groups (hlo.md 1.7, 1.11).
//
// sharding = "{" { item } "}" | "{" [ sharding { "," sharding } ] "}" | "{" named "}"
// item     = "replicated" | "manual" | "unreduced" | "unknown" | "maximal" | "device=" int
//          | "devices=" tile | "last_tile_dim_replicate" | "last_tile_dims={" type { "," type } "}"
//          | "shard_as" int | "shard_like" int | "metadata=" ...
// tile     = dims ( int { "," int } | "<=" dims [ "T(" int { "," int } ")" ] )
// named    = mesh "," ( "replicated" | "unreduced" | "manual" | "[" dim { "," dim } "]" { "," axes
// } )
//
// What comes out is canonical (hl_sharding_canonical), as XLA constructs it.

#include "text/parse.h"

#include <string.h>

static bool eat_attr(Parser *p, const char *name) {
  const size_t n = strlen(name);
  if (strncmp(p->in.at, name, n) != 0 || p->in.at[n] != '=')
    return false;
  lex_move(&p->in, p->in.at + n + 1);
  return true;
}

// The product of positive numbers, or -1.
static int64_t product(HlI64s list) {
  int64_t total = 1;
  for (int k = 0; k < list.n; k++)
    if (list.at[k] <= 0 || __builtin_mul_overflow(total, list.at[k], &total))
      return -1;
  return total;
}

// --- Tile assignments ----------------------------------------------------------------------------

static bool read_perm(Parser *p, int rank, HlI64s *out) {
  if (!lex_eat_word(&p->in, "T"))
    return lex_expected(&p->in, "'T(' and a permutation of the %d dimensions", rank);
  const char *at = p->in.at;
  const int base = p->ints.n;
  if (!parse_int_list(p, '(', ')', ',', "the permutation"))
    return false;
  if (p->ints.n - base != rank)
    return parse_error(p, at, "the permutation has %d entries, but there are %d dimensions",
                       p->ints.n - base, rank);
  for (int k = base; k < p->ints.n; k++) {
    const int64_t value = p->ints.at[k];
    if (value < 0 || value >= rank)
      return parse_error(p, at, "entry %lld of the permutation is outside [0, %d)",
                         (long long)value, rank);
    for (int other = base; other < k; other++)
      if (p->ints.at[other] == value)
        return parse_error(p, at, "the permutation repeats %lld", (long long)value);
  }
  *out = parse_take_ints(p, base);
  return true;
}

// "[4,2]T(1,0)".
static bool read_iota(Parser *p, HlIota *out) {
  const char *at = p->in.at;
  const int base = p->ints.n;
  if (!parse_int_list(p, '[', ']', ',', "the iota dimensions"))
    return false;
  if (p->ints.n == base)
    return parse_error(p, at, "expected at least one iota dimension");
  out->dims = parse_take_ints(p, base);
  if (product(out->dims) < 0)
    return parse_error(p, at, "iota dimensions must be positive");
  if (out->dims.n > 1)
    return read_perm(p, out->dims.n, &out->perm);
  parse_push_int(p, 0);
  out->perm = parse_take_ints(p, base);
  return true;
}

// "[2,4]<=[8]" or, when `devices` is wanted, "[2,2]0,1,2,3".
static bool read_tile(Parser *p, HlI64s *tile, HlIota *iota, HlI64s *devices) {
  const char *at = p->in.at;
  const int base = p->ints.n;
  if (!parse_int_list(p, '[', ']', ',', "the tile dimensions"))
    return false;
  if (p->ints.n == base)
    return parse_error(p, at, "expected at least one tile dimension");
  *tile = parse_take_ints(p, base);
  const int64_t n = product(*tile);
  if (n < 0)
    return parse_error(p, at, "tile dimensions must be positive");
  if (lex_eat_pair(&p->in, "<=")) {
    if (!read_iota(p, iota))
      return false;
    if (product(iota->dims) != n)
      return parse_error(p, at, "the tile has %lld places, but the iota has %lld devices",
                         (long long)n, (long long)product(iota->dims));
    return true;
  }
  if (!devices)
    return lex_expected(&p->in, "'<=' and an iota tile assignment");
  do {
    int64_t device;
    if (!lex_int(&p->in, &device))
      return false;
    parse_push_int(p, device);
  } while (lex_eat(&p->in, ','));
  *devices = parse_take_ints(p, base);
  if (devices->n != n)
    return parse_error(p, at, "the tile has %lld places, but %d devices are listed", (long long)n,
                       devices->n);
  return true;
}

// --- Meshes --------------------------------------------------------------------------------------

// An axis' name: bare or in quotes. `before` is the byte that must follow directly.
static bool read_axis_name(Parser *p, const HlSym **out) {
  const char *s = p->in.at;
  if (*s == '"' || *s == '\'') {
    HlStr text;
    if (!lex_string(&p->in, &text))
      return false;
    *out = parse_sym(p, text);
    return true;
  }
  const char *end = lex_ident_end(s);
  if (!lex_is(*s, LEX_START))
    return lex_expected(&p->in, "the name of a mesh axis");
  *out = parse_sym(p, (HlStr){s, (size_t)(end - s)});
  lex_move(&p->in, end);
  return true;
}

static bool read_maximal_mesh(Parser *p, HlMesh *mesh) {
  if (!lex_need(&p->in, '[', "after maximal_mesh"))
    return false;
  if (!eat_attr(p, "device_id"))
    return lex_expected(&p->in, "device_id= in maximal_mesh");
  return lex_int(&p->in, &mesh->maximal_device) && lex_need(&p->in, ']', "to end maximal_mesh");
}

static bool read_device_ids(Parser *p, HlMesh *mesh) {
  const char *at = p->in.at;
  if (!lex_need(&p->in, '(', "for device_ids"))
    return false;
  int64_t n;
  if (lex_at(&p->in, '[')) {
    if (!read_iota(p, &mesh->iota))
      return false;
    n = product(mesh->iota.dims);
  } else {
    const int base = p->ints.n;
    do {
      int64_t id;
      if (!lex_int(&p->in, &id))
        return false;
      parse_push_int(p, id);
    } while (lex_eat(&p->in, ','));
    mesh->devices = parse_take_ints(p, base);
    n = mesh->devices.n;
  }
  const int64_t want = product((HlI64s){mesh->size, mesh->n});
  if (n != want)
    return parse_error(p, at, "expected %lld device ids for the mesh axes, but found %lld",
                       (long long)want, (long long)n);
  return lex_need(&p->in, ')', "to end device_ids");
}

static bool read_mesh_axes(Parser *p, HlMesh *mesh) {
  const char *at = p->in.at;
  const int names = p->ptrs.n, sizes = p->ints.n;
  if (!lex_need(&p->in, '[', "after mesh"))
    return false;
  if (!lex_at(&p->in, ']')) {
    do {
      const HlSym *name;
      int64_t size;
      if (!read_axis_name(p, &name) || !lex_need(&p->in, '=', "after the name of a mesh axis") ||
          !lex_int(&p->in, &size))
        return false;
      for (int k = names; k < p->ptrs.n; k++)
        if (p->ptrs.at[k] == name)
          return parse_error(p, at, "the mesh has two axes named '%s'", name->text);
      parse_push_ptr(p, name);
      parse_push_int(p, size);
    } while (lex_eat(&p->in, ','));
  }
  mesh->axis = (const HlSym *const *)parse_take_ptrs(p, names, &mesh->n);
  const HlI64s list = parse_take_ints(p, sizes);
  mesh->size = list.at;
  if (product(list) < 0)
    return parse_error(p, at, "mesh axes must have positive sizes");
  return lex_need(&p->in, ']', "to end the mesh axes");
}

static bool read_mesh(Parser *p, const HlMesh **out) {
  HlMesh *mesh = HL_NEW(p->m->arena, HlMesh);
  mesh->maximal_device = -1;
  *out = mesh;
  if (lex_eat_word(&p->in, "maximal_mesh"))
    return read_maximal_mesh(p, mesh);
  if (!lex_eat_word(&p->in, "mesh"))
    return lex_expected(&p->in, "'mesh' or 'maximal_mesh'");
  if (!read_mesh_axes(p, mesh))
    return false;
  if (lex_at(&p->in, ',')) {
    const char *comma = p->in.at;
    lex_move(&p->in, comma + 1);
    if (eat_attr(p, "device_ids"))
      return read_device_ids(p, mesh);
    p->in.at = comma;
  }
  return true;
}

static int find_axis(const HlMesh *mesh, const HlSym *name) {
  for (int k = 0; k < mesh->n; k++)
    if (mesh->axis[k] == name)
      return k;
  if (name->n == 1 && lex_is(name->text[0], LEX_DIGIT) && name->text[0] - '0' < mesh->n)
    return name->text[0] - '0';
  return -1;
}

// "a", "'a'", "'a':(1)2".
static bool read_axis_ref(Parser *p, const HlMesh *mesh, HlAxisRef *out) {
  const char *at = p->in.at;
  const HlSym *name;
  if (!read_axis_name(p, &name))
    return false;
  *out = (HlAxisRef){.axis = find_axis(mesh, name)};
  if (out->axis < 0)
    return parse_error(p, at, "the mesh has no axis '%s'", name->text);
  if (!lex_eat(&p->in, ':'))
    return true;
  if (!lex_need(&p->in, '(', "before the size in front of a sub-axis") ||
      !lex_int(&p->in, &out->pre_size) ||
      !lex_need(&p->in, ')', "after the size in front of a sub-axis") ||
      !lex_int(&p->in, &out->size))
    return false;
  const int64_t whole = mesh->size[out->axis];
  if (out->pre_size < 1 || out->size < 1 || out->size >= whole || out->pre_size > whole ||
      whole % out->pre_size || whole / out->pre_size % out->size)
    return parse_error(p, at, "(%lld)%lld is no sub-axis of '%s', which has size %lld",
                       (long long)out->pre_size, (long long)out->size, name->text,
                       (long long)whole);
  return true;
}

// "{'a', 'b':(1)2}", with "?" at the end where `open` is wanted.
static bool read_axes(Parser *p, const HlMesh *mesh, HlAxes *out, bool *open) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start a list of mesh axes"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      if (open && lex_eat(&p->in, '?')) {
        *open = true;
        break;
      }
      HlAxisRef *axis = HL_NEW(p->m->arena, HlAxisRef);
      if (!read_axis_ref(p, mesh, axis))
        return false;
      parse_push_ptr(p, axis);
    } while (lex_eat(&p->in, ','));
  }
  out->n = p->ptrs.n - base;
  HlAxisRef *list = HL_ARRAY(p->m->arena, HlAxisRef, out->n);
  for (int k = 0; k < out->n; k++)
    list[k] = *(const HlAxisRef *)p->ptrs.at[base + k];
  out->at = list;
  p->ptrs.n = base;
  return lex_need(&p->in, '}', "to end the list of mesh axes");
}

// --- Named shardings -----------------------------------------------------------------------------

// "metadata={..}" or "metadata={{..}, {..}}", after the "metadata=".
static bool read_metadata(Parser *p, HlSharding *sharding) {
  const int base = p->ptrs.n;
  const bool list = lex_at(&p->in, '{') && *lex_skip(&p->in, p->in.at + 1) == '{';
  if (list)
    lex_move(&p->in, p->in.at + 1);
  do {
    const HlMetadata *metadata;
    if (!parse_metadata(p, &metadata))
      return false;
    parse_push_ptr(p, metadata);
  } while (list && lex_eat(&p->in, ','));
  sharding->metadata = (const HlMetadata *const *)parse_take_ptrs(p, base, &sharding->n_metadata);
  sharding->metadata_list = list;
  return !list || lex_need(&p->in, '}', "to end the metadata list");
}

static bool read_mesh_dims(Parser *p, HlSharding *sharding) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '[', "to start the dimensions of a named sharding"))
    return false;
  if (!lex_at(&p->in, ']')) {
    do {
      HlAxesDim *dim = HL_NEW(p->m->arena, HlAxesDim);
      if (!read_axes(p, sharding->mesh, &dim->axes, &dim->open))
        return false;
      parse_push_ptr(p, dim);
    } while (lex_eat(&p->in, ','));
  }
  sharding->n_dims = p->ptrs.n - base;
  HlAxesDim *dims = HL_ARRAY(p->m->arena, HlAxesDim, sharding->n_dims);
  for (int k = 0; k < sharding->n_dims; k++)
    dims[k] = *(const HlAxesDim *)p->ptrs.at[base + k];
  sharding->dims = dims;
  p->ptrs.n = base;
  return lex_need(&p->in, ']', "to end the dimensions of a named sharding");
}

static HlAxes all_axes(Parser *p, const HlMesh *mesh) {
  HlAxisRef *list = HL_ARRAY(p->m->arena, HlAxisRef, mesh->n);
  for (int k = 0; k < mesh->n; k++)
    list[k].axis = k;
  return (HlAxes){list, mesh->n};
}

// How to reduce what is unreduced, where that is said: sum, max or min.
static bool read_reduction(Parser *p, HlSharding *sharding) {
  if (!lex_is(*p->in.at, LEX_START))
    return true;
  dialect_has(&p->signs, hl_news_since(HL_NEWS_REDUCTION_OP));
  return parse_enum(p, &hl_enums[HL_ENUM_reduction_op], &sharding->reduction);
}

static bool read_named_axes(Parser *p, HlSharding *sharding) {
  if (eat_attr(p, "replicated"))
    return read_axes(p, sharding->mesh, &sharding->replicated, NULL);
  if (eat_attr(p, "unreduced"))
    return read_reduction(p, sharding) && read_axes(p, sharding->mesh, &sharding->unreduced, NULL);
  if (eat_attr(p, "manual"))
    return read_axes(p, sharding->mesh, &sharding->manual, NULL);
  if (eat_attr(p, "metadata"))
    return read_metadata(p, sharding);
  return lex_expected(&p->in, "replicated=, unreduced=, manual= or metadata=");
}

static bool mark_axes(const HlAxes *axes, bool *used) {
  for (int k = 0; k < axes->n; k++) {
    if (axes->at[k].size)
      continue;
    if (used[axes->at[k].axis])
      return false;
    used[axes->at[k].axis] = true;
  }
  return true;
}

static bool check_axes(Parser *p, const char *at, const HlSharding *sharding) {
  bool *used = HL_ARRAY(p->m->arena, bool, sharding->mesh->n);
  bool ok = mark_axes(&sharding->replicated, used) && mark_axes(&sharding->unreduced, used) &&
            mark_axes(&sharding->manual, used);
  for (int k = 0; k < sharding->n_dims; k++)
    ok = ok && mark_axes(&sharding->dims[k].axes, used);
  return ok || parse_error(p, at, "the sharding uses a mesh axis twice");
}

static bool read_named(Parser *p, HlSharding *sharding) {
  const char *at = p->in.at;
  sharding->kind = HL_SHARDING_NAMED;
  if (!read_mesh(p, &sharding->mesh))
    return false;
  if (sharding->mesh->maximal_device < 0) {
    lex_eat(&p->in, ',');
    if (lex_eat_word(&p->in, "replicated")) {
    } else if (lex_eat_word(&p->in, "unreduced")) {
      sharding->unreduced = all_axes(p, sharding->mesh);
    } else if (eat_attr(p, "unreduced")) {
      sharding->unreduced = all_axes(p, sharding->mesh);
      if (!read_reduction(p, sharding))
        return false;
    } else if (lex_eat_word(&p->in, "manual")) {
      sharding->manual = all_axes(p, sharding->mesh);
    } else if (!read_mesh_dims(p, sharding)) {
      return false;
    }
  }
  while (lex_eat(&p->in, ','))
    if (!read_named_axes(p, sharding))
      return false;
  return check_axes(p, at, sharding) && lex_need(&p->in, '}', "to end the sharding");
}

// --- Tiled and simple shardings ------------------------------------------------------------------

// The words seen in one sharding, and what they brought along.
typedef struct Items {
  bool maximal, replicated, manual, unknown, unreduced, last_replicate, last_dims, shard_as,
      shard_like;
  HlI64s device;
} Items;

static bool read_type(Parser *p, int64_t *out) {
  static const struct {
    const char *word;
    HlShardingKind kind;
  } types[] = {{"maximal", HL_SHARDING_MAXIMAL},
               {"replicated", HL_SHARDING_REPLICATED},
               {"manual", HL_SHARDING_MANUAL},
               {"unreduced", HL_SHARDING_UNREDUCED}};
  for (int k = 0; k < HL_COUNT_OF(types); k++)
    if (lex_eat_word(&p->in, types[k].word)) {
      *out = types[k].kind;
      return true;
    }
  return lex_expected(&p->in, "maximal, replicated, manual or unreduced");
}

static bool read_last_dims(Parser *p, HlSharding *sharding) {
  const int base = p->ints.n;
  if (!lex_need(&p->in, '{', "to start last_tile_dims"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      int64_t type = 0;
      if (!read_type(p, &type))
        return false;
      parse_push_int(p, type);
    } while (lex_eat(&p->in, ','));
  }
  sharding->last_tile_dims = parse_take_ints(p, base);
  return lex_need(&p->in, '}', "to end last_tile_dims");
}

static bool read_item(Parser *p, HlSharding *sharding, Items *items) {
  if (eat_attr(p, "devices"))
    return read_tile(p, &sharding->tile, &sharding->iota, &sharding->devices);
  if (lex_eat_word(&p->in, "replicated"))
    return items->replicated = true;
  if (lex_eat_word(&p->in, "maximal"))
    return items->maximal = true;
  if (eat_attr(p, "device")) {
    int64_t device;
    const int base = p->ints.n;
    if (!lex_int(&p->in, &device))
      return false;
    parse_push_int(p, device);
    items->device = parse_take_ints(p, base);
    return true;
  }
  if (lex_eat_word(&p->in, "last_tile_dim_replicate"))
    return items->last_replicate = true;
  if (eat_attr(p, "last_tile_dims")) {
    items->last_dims = true;
    return read_last_dims(p, sharding);
  }
  if (lex_eat_word(&p->in, "manual"))
    return items->manual = true;
  if (lex_eat_word(&p->in, "unknown"))
    return items->unknown = true;
  if (lex_eat_word(&p->in, "unreduced"))
    return items->unreduced = true;
  if (lex_eat_word(&p->in, "shard_as")) {
    items->shard_as = true;
    return lex_int(&p->in, &sharding->shard_group_id);
  }
  if (lex_eat_word(&p->in, "shard_like")) {
    items->shard_like = true;
    return lex_int(&p->in, &sharding->shard_group_id);
  }
  if (eat_attr(p, "metadata"))
    return read_metadata(p, sharding);
  return lex_expected(&p->in,
                      "a part of a sharding (replicated, maximal, manual, unreduced, unknown, "
                      "device=, devices=, last_tile_dims=, last_tile_dim_replicate, "
                      "shard_as, shard_like, metadata=)");
}

static bool finish_tiled(Parser *p, const char *at, HlSharding *sharding, const Items *items) {
  sharding->kind = HL_SHARDING_TILED;
  if (sharding->tile.n == 0)
    return parse_error(p, at, "a sharding that is not maximal needs devices= with tile dimensions");
  if (items->last_replicate && items->last_dims)
    return parse_error(p, at, "last_tile_dim_replicate and last_tile_dims exclude each other");
  if (sharding->last_tile_dims.n > sharding->tile.n)
    return parse_error(p, at, "last_tile_dims names %d dimensions, but the tile has %d",
                       sharding->last_tile_dims.n, sharding->tile.n);
  if (sharding->iota.dims.n == 0 && sharding->devices.n <= 1)
    return parse_error(p, at, "non-maximal shardings must have more than one device assigned");
  sharding->replicate_last = items->last_replicate;
  return true;
}

static bool finish_items(Parser *p, const char *at, HlSharding *sharding, const Items *items) {
  sharding->shard_group = items->shard_as ? 1 : items->shard_like ? 2 : 0;
  const int n_devices = sharding->devices.n + items->device.n;
  if (items->maximal && !items->replicated) {
    if (n_devices != 1)
      return parse_error(p, at, "maximal shardings should have exactly one device assigned");
    sharding->kind = HL_SHARDING_MAXIMAL;
    sharding->device = items->device.n ? items->device.at[0] : sharding->devices.at[0];
    return true;
  }
  const char *simple = items->replicated  ? "replicated"
                       : items->manual    ? "manual"
                       : items->unknown   ? "unknown"
                       : items->unreduced ? "unreduced"
                                          : NULL;
  if (!simple)
    return finish_tiled(p, at, sharding, items);
  if (n_devices)
    return parse_error(p, at, "%s shardings should not have any devices assigned", simple);
  sharding->kind = items->replicated ? HL_SHARDING_REPLICATED
                   : items->manual   ? HL_SHARDING_MANUAL
                   : items->unknown  ? HL_SHARDING_UNKNOWN
                                     : HL_SHARDING_UNREDUCED;
  sharding->tile = (HlI64s){0};
  sharding->iota = (HlIota){0};
  sharding->last_tile_dims = (HlI64s){0};
  return true;
}

// The rest of a single sharding, after its opening brace.
static bool read_single(Parser *p, const HlSharding **out) {
  const char *at = p->in.at;
  HlSharding *sharding = HL_NEW(p->m->arena, HlSharding);
  if (lex_at_word(&p->in, "mesh") || lex_at_word(&p->in, "maximal_mesh")) {
    if (!read_named(p, sharding))
      return false;
  } else {
    Items items = {0};
    while (!lex_at(&p->in, '}'))
      if (!read_item(p, sharding, &items))
        return false;
    if (!finish_items(p, at, sharding, &items))
      return false;
    lex_move(&p->in, p->in.at + 1);
  }
  *out = hl_sharding_canonical(p->m->arena, sharding);
  if ((*out)->kind != HL_SHARDING_NAMED && hl_sharding_is_unreduced(*out)) {
    const HlDialect since = hl_news_since(HL_NEWS_REDUCTION_OP);
    if ((*out)->n_metadata < sharding->n_metadata)
      dialect_has(&p->signs, since);
    else
      dialect_lacks(&p->signs, since);
  }
  return true;
}

static const HlSharding *make_tuple(Parser *p, int base) {
  HlSharding *tuple = HL_NEW(p->m->arena, HlSharding);
  tuple->kind = HL_SHARDING_TUPLE;
  tuple->element = (const HlSharding *const *)parse_take_ptrs(p, base, &tuple->n_elements);
  return tuple;
}

// The rest of a tuple of shardings, after its opening brace.
static bool read_tuple(Parser *p, const HlSharding **out) {
  const int base = p->ptrs.n;
  if (!lex_at(&p->in, '}')) {
    do {
      const HlSharding *element;
      if (!lex_need(&p->in, '{', "to start the sharding of a tuple element"))
        return false;
      if (lex_at(&p->in, '{'))
        return parse_error(p, p->in.at, "shardings of tuples are flat lists, one for each leaf");
      if (!read_single(p, &element))
        return false;
      parse_push_ptr(p, element);
    } while (lex_eat(&p->in, ','));
  }
  *out = make_tuple(p, base);
  return lex_need(&p->in, '}', "to end the sharding");
}

static bool read_sharding(Parser *p, const HlSharding **out) {
  if (!lex_need(&p->in, '{', "to start a sharding"))
    return false;
  return lex_at(&p->in, '{') || lex_at(&p->in, '}') ? read_tuple(p, out) : read_single(p, out);
}

bool parse_sharding(Parser *p, const HlSharding **out) {
  const char *begin = p->in.at;
  const char *end = *begin == '{' ? lex_balanced(begin) : NULL;
  if (!end)
    return read_sharding(p, out);
  const HlStr raw = {begin, (size_t)(end - begin)};
  bool hit;
  ParseSlot *slot = parse_slot(p, &p->shardings, raw, &hit);
  if (hit) {
    *out = slot->value;
    lex_move(&p->in, end);
    return true;
  }
  if (!read_sharding(p, out))
    return false;
  if (p->in.at == lex_skip(&p->in, end))
    parse_fill_slot(p, slot, raw, *out);
  return true;
}

// The sharding of a value of the shape: what is not a tuple is repeated for each leaf of a tuple.
const HlSharding *parse_sharding_for(Parser *p, const HlSharding *sharding, const HlShape *shape) {
  if (shape->dtype != HL_TUPLE || sharding->kind == HL_SHARDING_TUPLE)
    return sharding;
  const int64_t leaves = hl_shape_leaves(shape), n = leaves ? leaves : 1;
  const HlSharding **element = HL_ARRAY(p->m->arena, const HlSharding *, n);
  for (int64_t k = 0; k < n; k++)
    element[k] = sharding;
  HlSharding *tuple = HL_NEW(p->m->arena, HlSharding);
  tuple->kind = HL_SHARDING_TUPLE;
  tuple->element = element;
  tuple->n_elements = (int)n;
  return tuple;
}

// --- Replica groups ------------------------------------------------------------------------------

static bool read_iota_groups(Parser *p, HlGroups *groups) {
  const char *at = p->in.at;
  HlSharding tiled = {.kind = HL_SHARDING_TILED};
  if (!read_tile(p, &tiled.tile, &tiled.iota, NULL))
    return false;
  if (tiled.tile.n != 2)
    return parse_error(p, at,
                       "replica groups need two dimensions (groups, group size), but have %d",
                       tiled.tile.n);
  groups->form = HL_GROUPS_IOTA;
  groups->n_groups = tiled.tile.at[0];
  groups->group_size = tiled.tile.at[1];
  const HlSharding *canonical = hl_sharding_canonical(p->m->arena, &tiled);
  groups->iota = canonical->iota.dims.n ? canonical->iota : tiled.iota;
  return true;
}

static bool read_mesh_groups(Parser *p, HlGroups *groups) {
  groups->form = HL_GROUPS_MESH;
  if (!read_mesh(p, &groups->mesh))
    return false;
  const HlSharding over_mesh = {.kind = HL_SHARDING_NAMED, .mesh = groups->mesh};
  groups->mesh = hl_sharding_canonical(p->m->arena, &over_mesh)->mesh;
  lex_eat(&p->in, ',');
  return read_axes(p, groups->mesh, &groups->axes, NULL);
}

static bool read_list_groups(Parser *p, HlGroups *groups) {
  const int base = p->ptrs.n;
  groups->form = HL_GROUPS_LIST;
  lex_move(&p->in, p->in.at + 1);
  if (!lex_at(&p->in, '}')) {
    do {
      HlI64s *group = HL_NEW(p->m->arena, HlI64s);
      const int ints = p->ints.n;
      if (!parse_int_list(p, '{', '}', ',', "a replica group"))
        return false;
      *group = parse_take_ints(p, ints);
      parse_push_ptr(p, group);
    } while (lex_eat(&p->in, ','));
  }
  const int n = p->ptrs.n - base;
  HlI64s *list = HL_ARRAY(p->m->arena, HlI64s, n);
  for (int k = 0; k < n; k++)
    list[k] = *(const HlI64s *)p->ptrs.at[base + k];
  groups->list = (HlI64Lists){list, n};
  p->ptrs.n = base;
  return lex_need(&p->in, '}', "to end the replica groups");
}

bool parse_groups(Parser *p, const HlGroups **out) {
  HlGroups *groups = HL_NEW(p->m->arena, HlGroups);
  *out = groups;
  if (lex_at(&p->in, '{'))
    return read_list_groups(p, groups);
  if (lex_at(&p->in, '['))
    return read_iota_groups(p, groups);
  if (lex_at_word(&p->in, "mesh"))
    return read_mesh_groups(p, groups);
  return lex_expected(&p->in, "replica groups: {{0,1},{2,3}}, [2,2]<=[4] or mesh[...] {...}");
}
