// spmd/shardy.h: what the files of shardy-xla share.
#ifndef SPMD_SHARDY_H
#define SPMD_SHARDY_H

#include "hilo/custom_calls.h"
#include "spmd/export.h"
#include "spmd/propagate.h"
#include "spmd/shardy_text.h"

// A border of a manual computation: an instruction xla.sdy.GlobalToLocalShape or xla.sdy.LocalToGlobalShape.
typedef struct SpBorder {
  HlInst *inst;
  bool inwards;
  uint32_t manual;  // the digits the program has for itself
  SpSpec **global;  // of each value that crosses, as it is cut outside
  int n;
} SpBorder;

typedef struct Shardy {
  HlPass *p;
  HlModule *m;
  SpMeshes meshes;
  const SpNamedMesh *main;  // NULL: the module has none
  const HlMesh *named;  // that of the module's shardings, if all name axes of one mesh, or NULL
  SpMesh *mesh;
  SpGraph *graph;
  SpExport export;
  SpBorder *border;
  int n_borders, border_room;
  const HlInst *result_root;  // the entry's root if it says how its values are handed out, or NULL
  SpSpec **result;            // by leaf of the entry's result: what its root says of it, or NULL
  const HlSharding **result_kept;  // the same where digits do not express it: it stays as it is
} Shardy;

// The value of a frontend attribute, or NULL.
const char *sp_attribute(const HlInst *inst, const char *key);
const char *sp_dict_text(HlDict dict, const char *key);
// The meshes that the module names, and the first of all its partitions (NULL: none). False after reporting.
bool sp_module_meshes(HlCx *cx, HlArena *arena, const HlModule *m, SpMeshes *meshes,
                      const SpNamedMesh **main);

// Manual computations: their borders and the axes inside (shardy_manual.c).
void sp_import_manual(Shardy *s);
SpAxes sp_own_axes(const SpAxes *axes, uint32_t manual);  // the program's own at the head of a dimension
void sp_export_manual(Shardy *s);
// All that was found, as attributes and copies (shardy_export.c).
void sp_shardy_export(Shardy *s);
// Erases `old`, whose uses go to `by`, which takes over its name and metadata and gets the sharding (unless NULL).
void sp_shardy_replace(HlInst *old, HlInst *by, const HlSharding *sharding);

#endif
