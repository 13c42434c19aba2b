// sim/run/mesh.c: devices by axes, and programs laid out on them.
//
// A parameter's sharding is written as HLO writes it: the sizes of the axes that each dimension is split by, the other axes
// behind them as copies, and the order of devices as an iota over the mesh whose axes change places.

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "sim/run/run.h"

int64_t hl_mesh_devices(const HlDeviceMesh *mesh) {
  int64_t n = 1;
  for (int k = 0; k < mesh->n; k++)
    n *= mesh->size[k];
  return n;
}

static int axis_of(const HlDeviceMesh *mesh, HlStr name) {
  for (int k = 0; k < mesh->n; k++)
    if (hl_str_is(name, mesh->name[k]))
      return k;
  return -1;
}

static bool read_axis(HlCx *cx, HlArena *arena, HlStr text, HlDeviceMesh *out) {
  const char *eq = memchr(text.at, '=', text.n);
  const HlStr name = {text.at, eq ? (size_t)(eq - text.at) : text.n};
  int64_t size = eq ? 0 : 1;
  bool good = name.n > 0 && axis_of(out, name) < 0 && !hl_str_is(name, "_");
  for (const char *at = eq ? eq + 1 : NULL; good && at && at < text.at + text.n; at++) {
    good = is_digit(*at) && size < 1 << 24;
    size = 10 * size + (*at - '0');
  }
  if (!good || size < 1 || size > (1 << 24) || hl_mesh_devices(out) > (1 << 24) / size)
    return hl_error(cx, (HlPos){0}, "a mesh: '%.*s' is no new axis and its size, as data=64",
                    (int)text.n, text.at);
  if (out->n == HL_MESH_AXES)
    return hl_error(cx, (HlPos){0}, "a mesh of more than %d axes", HL_MESH_AXES);
  out->name[out->n] = hl_arena_strndup(arena, name.at, name.n);
  out->size[out->n++] = size;
  return true;
}

bool hl_mesh_read(HlCx *cx, HlArena *arena, const char *text, HlDeviceMesh *out) {
  *out = (HlDeviceMesh){0};
  do {
    const size_t n = strcspn(text, ",");
    if (!read_axis(cx, arena, (HlStr){text, n}, out))
      return false;
    text += n;
  } while (*text++);
  return true;
}

// --- Shardings ------------------------------------------------------------------------------------------------

typedef struct Layout {
  int order[HL_MESH_AXES];  // axes in the order in which dimensions use them
  int n_used;
  bool used[HL_MESH_AXES];
  HlBuf tile;  // "64,1"
  int n_dims;
} Layout;

static bool bad_shard(HlCx *cx, HlStr text, const char *why) {
  return hl_error(cx, (HlPos){0}, "sharding '%.*s': %s", (int)text.n, text.at, why);
}

// One dimension: "_", "data", "data+model".
static bool read_dim(HlCx *cx, const HlDeviceMesh *mesh, HlStr text, Layout *out) {
  int64_t size = 1;
  HlStr rest = text;
  while (!hl_str_is(text, "_") && rest.n > 0) {
    const char *plus = memchr(rest.at, '+', rest.n);
    const HlStr name = {rest.at, plus ? (size_t)(plus - rest.at) : rest.n};
    const int axis = axis_of(mesh, name);
    if (axis < 0 || out->used[axis])
      return bad_shard(cx, text, axis < 0 ? "no axis of the mesh" : "an axis is used twice");
    out->used[axis] = true;
    out->order[out->n_used++] = axis;
    size *= mesh->size[axis];
    rest = plus ? (HlStr){plus + 1, rest.n - name.n - 1} : (HlStr){rest.at, 0};
  }
  hl_buf_printf(&out->tile, "%s%lld", out->n_dims++ ? "," : "", (long long)size);
  return true;
}

static bool read_dims(HlCx *cx, const HlDeviceMesh *mesh, HlStr text, Layout *out) {
  while (text.n > 0) {
    const char *comma = memchr(text.at, ',', text.n);
    const HlStr dim = {text.at, comma ? (size_t)(comma - text.at) : text.n};
    if (dim.n == 0 || !read_dim(cx, mesh, dim, out))
      return dim.n > 0 ? false : bad_shard(cx, text, "a dimension is missing");
    text = comma ? (HlStr){comma + 1, text.n - dim.n - 1} : (HlStr){text.at, 0};
  }
  return true;
}

static void write_sharding(const HlDeviceMesh *mesh, Layout *l, HlBuf *out) {
  int64_t copies = 1;
  const int n_used = l->n_used;
  for (int k = 0; k < mesh->n; k++)
    if (!l->used[k]) {
      l->order[l->n_used++] = k;
      copies *= mesh->size[k];
    }
  if (copies == hl_mesh_devices(mesh)) {
    hl_buf_puts(out, "{replicated}");
    return;
  }
  hl_buf_printf(out, "{devices=[%s", l->tile.at);
  if (n_used < mesh->n)
    hl_buf_printf(out, ",%lld", (long long)copies);
  hl_buf_puts(out, "]<=[");
  for (int k = 0; k < mesh->n; k++)
    hl_buf_printf(out, "%s%lld", k ? "," : "", (long long)mesh->size[k]);
  hl_buf_puts(out, "]T(");
  for (int k = 0; k < mesh->n; k++)
    hl_buf_printf(out, "%s%d", k ? "," : "", l->order[k]);
  hl_buf_puts(out, n_used < mesh->n ? ") last_tile_dim_replicate}" : ")}");
}

static HlInst *parameter_named(const HlModule *m, HlStr name) {
  for (int k = 0; k < m->entry->n_params; k++) {
    HlInst *p = m->entry->params[k];
    if (p && p->name->n == name.n && memcmp(p->name->text, name.at, name.n) == 0)
      return p;
  }
  return NULL;
}

static bool shard_one(HlCx *cx, HlModule *m, const HlDeviceMesh *mesh, HlStr text) {
  const char *eq = memchr(text.at, '=', text.n);
  if (!eq)
    return bad_shard(cx, text, "expected PARAMETER=AXES, as x=data,_");
  HlInst *p = parameter_named(m, (HlStr){text.at, (size_t)(eq - text.at)});
  Layout layout = {0};
  HlBuf written = {0};
  const HlSharding *sharding;
  bool ok = p || bad_shard(cx, text, "the entry has no such parameter");
  ok = ok && read_dims(cx, mesh, (HlStr){eq + 1, text.n - (size_t)(eq + 1 - text.at)}, &layout);
  if (ok && (!hl_shape_is_array(p->shape) || p->shape->rank != layout.n_dims))
    ok = bad_shard(cx, text, "another number of dimensions than the parameter has");
  if (ok) {
    write_sharding(mesh, &layout, &written);
    ok = hl_text_sharding(cx, m, (HlPos){0}, (HlStr){written.at, written.n}, &sharding);
  }
  if (ok) {
    const HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
    hl_set_attr(p, &attr);
  }
  hl_buf_free(&layout.tile);
  hl_buf_free(&written);
  return ok;
}

bool hl_mesh_shard(HlCx *cx, HlModule *m, const HlDeviceMesh *mesh, const char *spec) {
  while (*spec) {
    const size_t n = strcspn(spec, ";");
    if (!shard_one(cx, m, mesh, (HlStr){spec, n}))
      return false;
    spec += n + (spec[n] != 0);
  }
  hl_set_devices(m, m->replica_count, hl_mesh_devices(mesh));
  return true;
}

bool hl_mesh_partition(HlCx *cx, HlModule *m, const HlTarget *device) {
  HlEngine *engine = hl_engine_new(
      cx, &(HlEngineOptions){.passes = &hl_passes, .pipelines = &hl_pipelines, .target = device});
  const bool ok = hl_engine_run(engine, m, device->kind == HL_TARGET_GPU ? "gpu" : "cpu");
  hl_engine_free(engine);
  return ok;
}

// --- Search -----------------------------------------------------------------------------------------------------

// As an odometer of divisors: the last axis takes what is left.
bool hl_mesh_next(HlDeviceMesh *mesh, int64_t devices) {
  if (hl_mesh_devices(mesh) != devices) {
    for (int k = 0; k < mesh->n; k++)
      mesh->size[k] = k == 0 ? devices : 1;
    return true;
  }
  for (int k = mesh->n - 2; k >= 0; k--) {
    int64_t left = devices;
    for (int i = 0; i < k; i++)
      left /= mesh->size[i];
    int64_t size = mesh->size[k] - 1;
    while (size > 0 && left % size != 0)
      size--;
    if (size < 1)
      continue;
    mesh->size[k] = size;
    left /= size;
    for (int i = k + 1; i < mesh->n; i++) {
      mesh->size[i] = left;
      left = 1;
    }
    return true;
  }
  return false;
}
