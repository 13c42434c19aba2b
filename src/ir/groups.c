// groups.c: replica groups in any of their three forms as plain lists.

#include "ir/sharding.h"

// The devices of a mesh in the order of its axes.
static HlI64s mesh_devices(HlArena *arena, const HlMesh *mesh) {
  const int64_t n = ir_product((HlI64s){mesh->size, mesh->n});
  if (mesh->devices.n)
    return mesh->devices.n == n ? mesh->devices : (HlI64s){NULL, 0};
  if (mesh->iota.dims.n)
    return ir_product(mesh->iota.dims) == n ? hl_iota_ids(arena, &mesh->iota) : (HlI64s){NULL, 0};
  const HlIota plain = {{&n, 1}, {NULL, 0}};
  return hl_iota_ids(arena, &plain);
}

// A mesh axis cut at the borders of the sub-axes that are asked for.
typedef struct Part {
  int axis;
  int64_t pre, size;  // product of the axis' parts before this one; its own size
  int rank;           // place among the axes of the groups, or -1
} Part;

// Cuts axis `a` into parts; how many. -1 when the sub-axes do not fit it.
static int cut_axis(const HlMesh *mesh, HlAxes axes, int a, Part *parts) {
  const int64_t whole = mesh->size[a];
  int n = 0;
  for (int64_t pre = 1; pre < whole || n == 0;) {
    int64_t next = whole;
    int rank = -1;
    for (int k = 0; k < axes.n; k++) {
      const HlAxisRef *ref = &axes.at[k];
      if (ref->axis != a)
        continue;
      const int64_t from = ref->size ? ref->pre_size : 1, size = ref->size ? ref->size : whole;
      if (from == pre) {
        rank = k;
        next = from * size;
        break;
      }
      if (from > pre && from < next)
        next = from;
    }
    if (next <= 0 || next % pre || whole % next || (next == pre && whole > 1) || n >= 64)
      return -1;
    parts[n++] = (Part){a, pre, next / pre, rank};
    pre = next;
    if (whole <= 1)
      break;
  }
  return n;
}

// Groups of a mesh: one for each place of the other axes, its members along the named ones.
static HlI64Lists mesh_lists(HlArena *arena, const HlGroups *groups) {
  const HlMesh *mesh = groups->mesh;
  const HlI64s devices = mesh_devices(arena, mesh);
  Part *parts = HL_ARRAY(arena, Part, 64 * (mesh->n + 1));
  int n = 0;
  for (int a = 0; a < mesh->n; a++) {
    const int more = cut_axis(mesh, groups->axes, a, parts + n);
    if (more < 0)
      return (HlI64Lists){NULL, 0};
    n += more;
  }
  int64_t *dims = HL_ARRAY(arena, int64_t, n + 1), *perm = HL_ARRAY(arena, int64_t, n + 1);
  int placed = 0;
  int64_t size = 1;
  for (int k = 0; k < n; k++) {
    dims[k] = parts[k].size;
    if (parts[k].rank < 0)
      perm[placed++] = k;
  }
  for (int r = 0; r < groups->axes.n; r++)
    for (int k = 0; k < n; k++)
      if (parts[k].rank == r) {
        perm[placed++] = k;
        size *= parts[k].size;
      }
  if (devices.n == 0 || placed != n || size <= 0 || devices.n % size)
    return (HlI64Lists){NULL, 0};
  const HlI64s ids = ir_transpose(arena, devices, (HlI64s){dims, n}, (HlI64s){perm, n});
  const int n_lists = (int)(ids.n / size);
  HlI64s *lists = HL_ARRAY(arena, HlI64s, n_lists);
  for (int k = 0; k < n_lists; k++)
    lists[k] = (HlI64s){ids.at + k * size, (int)size};
  return (HlI64Lists){lists, n_lists};
}

static HlI64Lists iota_lists(HlArena *arena, const HlGroups *groups) {
  const HlI64s ids = hl_iota_ids(arena, &groups->iota);
  const int64_t size = groups->group_size;
  if (size <= 0 || groups->n_groups <= 0 || ids.n / size < groups->n_groups)
    return (HlI64Lists){NULL, 0};
  HlI64s *lists = HL_ARRAY(arena, HlI64s, groups->n_groups);
  for (int64_t k = 0; k < groups->n_groups; k++)
    lists[k] = (HlI64s){ids.at + k * size, (int)size};
  return (HlI64Lists){lists, (int)groups->n_groups};
}

HlI64Lists hl_groups_lists(HlArena *arena, const HlGroups *groups) {
  switch (groups->form) {
  case HL_GROUPS_IOTA: return iota_lists(arena, groups);
  case HL_GROUPS_MESH: return mesh_lists(arena, groups);
  default: return groups->list;
  }
}
