// spmd/shardy_text.h: what Shardy writes into frontend attributes, read.
#ifndef SPMD_SHARDY_TEXT_H
#define SPMD_SHARDY_TEXT_H

#include "hilo/pass.h"
#include "spmd/mesh.h"

// A mesh of the module attribute xla.sdy.meshes: `{mesh = #sdy.mesh<["x"=4, "y"=2], device_ids=[...]>, ...}`.
typedef struct SpNamedMesh {
  HlStr name;
  int n_axes;
  HlStr *axis;
  int64_t *size;
  int64_t *devices;  // by place, or NULL: in order
  int64_t n_devices;
} SpNamedMesh;
typedef struct SpMeshes {
  SpNamedMesh *at;
  int n;
} SpMeshes;

bool sp_read_meshes(HlArena *arena, const char *text, SpMeshes *out);
// Sharding number k of `#sdy.sharding<...>` or `#sdy.sharding_per_value<[<...>, ...]>` into a spec whose rank is set,
// in the digits of the mesh named `main`. False: not readable, of another mesh, or of another rank.
bool sp_read_sharding(const SpMeshes *meshes, const SpNamedMesh *main, const SpMesh *mesh,
                      const char *text, int64_t k, SpSpec *spec);
// `#sdy<manual_axes{"x", "y"}>`: the digits of these axes. False: not readable.
bool sp_read_manual_axes(const SpNamedMesh *main, const SpMesh *mesh, const char *text,
                         uint32_t *out);

#endif
