// tool/partitions.c: for how many partitions a program is written.

#include "hilo/tool.h"
#include "spmd/shardy.h"

static int64_t product(HlI64s sizes) {
  int64_t n = 1;
  for (int k = 0; k < sizes.n; k++)
    if (sizes.at[k] <= 0 || __builtin_mul_overflow(n, sizes.at[k], &n))
      return 1;
  return n;
}

static int64_t named_by(const HlSharding *sharding) {
  int64_t most = 1;
  switch (sharding->kind) {
  case HL_SHARDING_TILED: return product(sharding->tile);
  case HL_SHARDING_NAMED:
    for (int k = 0; sharding->mesh && k < sharding->mesh->n; k++)
      if (__builtin_mul_overflow(most, sharding->mesh->size[k], &most))
        return 1;
    return most;
  case HL_SHARDING_TUPLE:
    for (int k = 0; k < sharding->n_elements; k++) {
      const int64_t n = named_by(sharding->element[k]);
      most = n > most ? n : most;
    }
    return most;
  default: return 1;
  }
}

// Of Shardy's meshes, which the module lists.
static int64_t named_by_meshes(const HlModule *m) {
  const char *text = sp_dict_text(m->frontend_attributes, "xla.sdy.meshes");
  HlArena *arena = hl_arena_new();
  SpMeshes meshes = {0};
  int64_t most = 1;
  if (text && sp_read_meshes(arena, text, &meshes))
    for (int k = 0; k < meshes.n; k++)
      if (meshes.at[k].n_axes > 0 && meshes.at[k].n_devices > most)
        most = meshes.at[k].n_devices;
  hl_arena_free(arena);
  return most;
}

int64_t hl_named_partitions(const HlModule *m) {
  int64_t most = named_by_meshes(m);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *sharding = hl_sharding(inst);
      const int64_t n = sharding ? named_by(sharding) : 1;
      most = n > most ? n : most;
    }
  return most;
}
