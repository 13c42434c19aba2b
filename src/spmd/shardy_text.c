// The texts in Shardy's frontend attributes: meshes, shardings, sets of axes.
//
//   meshes    ::= '{' name '=' '#sdy.mesh<[' axis '=' size, ... ']' [', device_ids=[' ids ']'] '>', ... '}'
//   sharding  ::= '@' mesh ', [' dimension, ... ']' [', replicated={' axes '}'] [', unreduced={' axes '}']
//   dimension ::= '{' axes [', ?' | '?'] '}' ['p' priority]
//   axis      ::= '"' name '"' [':(' pre ')' size]
#include "spmd/shardy_text.h"

#include <stdlib.h>
#include <string.h>

// --- Characters --------------------------------------------------------------------------------------

static void skip_spaces(const char **at) {
  while (**at == ' ')
    (*at)++;
}

static bool eat(const char **at, const char *word) {
  skip_spaces(at);
  const size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0)
    return false;
  *at += n;
  return true;
}

static bool read_number(const char **at, int64_t *out) {
  char *end;
  skip_spaces(at);
  *out = strtoll(*at, &end, 10);
  const bool ok = end != *at;
  *at = end;
  return ok;
}

// A name, quoted (\" is how some spell the quotes) or bare.
static bool read_name(const char **at, HlStr *out) {
  skip_spaces(at);
  const bool escaped = **at == '\\';
  *at += escaped;
  const bool quoted = **at == '"';
  *at += quoted;
  const size_t n = quoted ? strcspn(*at, escaped ? "\\" : "\"") : strcspn(*at, " =,<>[]{}()\"\\");
  *out = (HlStr){*at, n};
  *at += n;
  if (quoted && !(escaped ? eat(at, "\\\"") : eat(at, "\"")))
    return false;
  return n > 0;
}

// --- Meshes --------------------------------------------------------------------------------------------

static bool read_axes_of_mesh(HlArena *arena, const char **at, SpNamedMesh *mesh) {
  mesh->axis = HL_ARRAY(arena, HlStr, strlen(*at) / 3 + 1);
  mesh->size = HL_ARRAY(arena, int64_t, strlen(*at) / 3 + 1);
  mesh->n_devices = 1;
  while (!eat(at, "]")) {
    if ((mesh->n_axes > 0 && !eat(at, ",")) || !read_name(at, &mesh->axis[mesh->n_axes]) ||
        !eat(at, "=") || !read_number(at, &mesh->size[mesh->n_axes]))
      return false;
    const int64_t size = mesh->size[mesh->n_axes++];
    if (size < 1 || size > (1 << SP_DIGITS) / mesh->n_devices)
      return false;
    mesh->n_devices *= size;
  }
  return true;
}

static bool read_device_ids(HlArena *arena, const char **at, SpNamedMesh *mesh) {
  mesh->devices = HL_ARRAY(arena, int64_t, mesh->n_devices);
  int64_t n = 0;
  for (; !eat(at, "]"); n++)
    if ((n > 0 && !eat(at, ",")) || n == mesh->n_devices || !read_number(at, &mesh->devices[n]))
      return false;
  return n == mesh->n_devices;
}

bool sp_read_meshes(HlArena *arena, const char *text, SpMeshes *out) {
  const char *at = text;
  *out = (SpMeshes){HL_ARRAY(arena, SpNamedMesh, strlen(text) / 12 + 1), 0};
  if (!eat(&at, "{"))
    return false;
  while (!eat(&at, "}")) {
    SpNamedMesh *mesh = &out->at[out->n];
    if ((out->n > 0 && !eat(&at, ",")) || !read_name(&at, &mesh->name) || !eat(&at, "=") ||
        !eat(&at, "#sdy.mesh<[") || !read_axes_of_mesh(arena, &at, mesh))
      return false;
    if (eat(&at, ", device_ids=[") && !read_device_ids(arena, &at, mesh))
      return false;
    if (!eat(&at, ">"))
      return false;
    out->n++;
  }
  return true;
}

// --- Shardings -------------------------------------------------------------------------------------------

static int find_axis(const SpNamedMesh *mesh, HlStr name) {
  for (int k = 0; k < mesh->n_axes; k++)
    if (hl_str_equal(mesh->axis[k], name))
      return k;
  return -1;
}

// Its number among the axes that cut anything.
static int cutting_axis(const SpNamedMesh *mesh, int axis) {
  int n = 0;
  for (int k = 0; k < axis; k++)
    n += mesh->size[k] > 1;
  return n;
}

// An axis or a part of one, appended in digits.
static bool read_axis(const SpNamedMesh *main, const SpMesh *mesh, const char **at, SpAxes *out) {
  HlStr name;
  if (!read_name(at, &name))
    return false;
  const int axis = find_axis(main, name);
  if (axis < 0)
    return false;
  int64_t pre = 1, size = main->size[axis];
  if (eat(at, ":(") && (!read_number(at, &pre) || !eat(at, ")") || !read_number(at, &size)))
    return false;
  return size == 1 || sp_mesh_digits(mesh, cutting_axis(main, axis), pre, size, out);
}

// Axes up to the closing brace; *open tells of a question mark.
static bool read_axes(const SpNamedMesh *main, const SpMesh *mesh, const char **at, SpAxes *out,
                      bool *open) {
  *open = false;
  while (!eat(at, "}")) {
    eat(at, ",");
    if (eat(at, "?"))
      *open = true;
    else if (!read_axis(main, mesh, at, out))
      return false;
  }
  return true;
}

static bool read_set(const SpNamedMesh *main, const SpMesh *mesh, const char **at, uint32_t *out) {
  SpAxes axes = {0};
  bool open;
  if (!read_axes(main, mesh, at, &axes, &open))
    return false;
  *out |= sp_axes_set(&axes);
  return true;
}

static bool read_dims(const SpNamedMesh *main, const SpMesh *mesh, const char **at, SpSpec *spec) {
  int d = 0;
  for (; !eat(at, "]"); d++) {
    if ((d > 0 && !eat(at, ",")) || d == spec->rank || !eat(at, "{"))
      return false;
    bool open;
    SpDim dim = {0};
    int64_t priority = 0;
    if (!read_axes(main, mesh, at, &dim.axes, &open))
      return false;
    if (eat(at, "p") && !read_number(at, &priority))
      return false;
    dim.closed = !open;
    dim.priority = (uint8_t)(priority < 0 ? 0 : priority > 200 ? 200 : priority);
    spec->dim[d] = dim;
  }
  return d == spec->rank;
}

static const SpNamedMesh *find_mesh(const SpMeshes *meshes, HlStr name) {
  for (int k = 0; k < meshes->n; k++)
    if (hl_str_equal(meshes->at[k].name, name))
      return &meshes->at[k];
  return NULL;
}

// All of it on one device: not a matter of axes.
static bool is_one_device(const SpNamedMesh *mesh) {
  return mesh->n_axes == 0 && mesh->devices;
}

// The axes of one mesh, of the same devices, in the digits of another.
static bool translate(const SpMesh *from, const SpMesh *to, SpSpec *spec) {
  HlArena *arena = hl_arena_new();
  const HlTiles *tiles = sp_spec_tiles(arena, from, spec);
  const bool ok = tiles && !spec->replicated && sp_spec_of_tiles(to, tiles, spec);
  hl_arena_free(arena);
  return ok;
}

static bool read_rest(const SpNamedMesh *main, const SpMesh *mesh, const char **at, SpSpec *spec);

static bool read_one(const SpMeshes *meshes, const SpNamedMesh *main, const SpMesh *mesh,
                     const char **at, SpSpec *spec) {
  HlStr name;
  if (!eat(at, "@") || !read_name(at, &name) || !eat(at, ", ["))
    return false;
  const SpNamedMesh *of = find_mesh(meshes, name);
  if (!of || is_one_device(of))
    return false;
  if (of == main || of->n_axes == 0)
    return read_rest(main, mesh, at, spec);
  HlArena *arena = hl_arena_new();
  const SpMesh *other = sp_mesh_new(arena, of->n_axes, of->size, of->devices);
  const bool ok = other && other->n_devices == mesh->n_devices && read_rest(of, other, at, spec) &&
                  translate(other, mesh, spec);
  hl_arena_free(arena);
  return ok;
}

static bool read_rest(const SpNamedMesh *main, const SpMesh *mesh, const char **at, SpSpec *spec) {
  if (!read_dims(main, mesh, at, spec))
    return false;
  while (!eat(at, ">")) {
    uint32_t *set = NULL;
    eat(at, ",");
    if (eat(at, "replicated={"))
      set = &spec->replicated;
    else if (eat(at, "unreduced={"))
      set = &spec->unreduced;
    if (!set || !read_set(main, mesh, at, set))
      return false;
  }
  spec->known = true;
  return sp_spec_is_sound(spec) && !(spec->replicated & sp_spec_used(spec));
}

// Steps over `<...>` whatever is in it.
static bool skip_one(const char **at) {
  int depth = 0;
  for (; **at; (*at)++) {
    depth += **at == '<';
    depth -= **at == '>';
    if (depth == 0) {
      (*at)++;
      return true;
    }
  }
  return false;
}

static bool read_sharding(const SpMeshes *meshes, const SpNamedMesh *main, const SpMesh *mesh,
                          const char *text, int64_t k, SpSpec *spec) {
  const char *at = text;
  if (eat(&at, "#sdy.sharding<"))
    return k == 0 && read_one(meshes, main, mesh, &at, spec);
  if (!eat(&at, "#sdy.sharding_per_value<["))
    return false;
  for (; k > 0; k--) {
    skip_spaces(&at);
    if (!skip_one(&at) || !eat(&at, ","))
      return false;
  }
  return eat(&at, "<") && read_one(meshes, main, mesh, &at, spec);
}

bool sp_read_sharding(const SpMeshes *meshes, const SpNamedMesh *main, const SpMesh *mesh,
                      const char *text, int64_t k, SpSpec *spec) {
  SpSpec read = *spec;
  if (read_sharding(meshes, main, mesh, text, k, &read)) {
    *spec = read;
    return true;
  }
  if (spec->rank > 0)  // half of it may have been read
    memset(spec->dim, 0, (size_t)spec->rank * sizeof *spec->dim);
  return false;
}

bool sp_read_manual_axes(const SpNamedMesh *main, const SpMesh *mesh, const char *text,
                         uint32_t *out) {
  const char *at = text;
  *out = 0;
  return eat(&at, "#sdy<manual_axes{") && read_set(main, mesh, &at, out);
}
