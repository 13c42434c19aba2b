// spmd/export.h: what propagation found, as attributes of the module.
#ifndef SPMD_EXPORT_H
#define SPMD_EXPORT_H

#include "spmd/propagate.h"

typedef struct SpExport {
  HlPass *p;
  const SpGraph *graph;
  const HlMesh *named;  // shardings name its axes; NULL: they are tiles
  enum { SP_CACHE = 256 } cache_size;
  struct SpCached {  // shardings made lately, by a hash of the spec
    const SpSpec *spec;
    const HlSharding *sharding;
  } * cache;
} SpExport;

// `named`: NULL, or the mesh whose axes are the graph's, to be named by what is written.
void sp_export_start(SpExport *e, HlPass *p, const SpGraph *graph, const HlMesh *named);
// The sharding of a spec, in the module's arena.
const HlSharding *sp_export_sharding(SpExport *e, const SpSpec *spec);
const HlSharding *sp_export_replicated(const SpExport *e);
// The sharding of an instruction's value by what is known of its leaves: NULL when that is nothing.
const HlSharding *sp_export_value(SpExport *e, const HlInst *inst);
// The same of a value of this shape from the specs of its leaves (NULL: nothing is known).
const HlSharding *sp_export_specs(SpExport *e, const HlShape *shape, const SpSpec *const *spec);
// Asks to give an instruction this sharding; nothing to do where it has it.
void sp_export_set(SpExport *e, HlInst *inst, const HlSharding *sharding);
// hl_changed; shardings made since hl_change are forgotten where it was undone.
bool sp_export_changed(SpExport *e);
bool sp_spec_equal(const SpSpec *a, const SpSpec *b);  // the same cuts and subgroups
// Gives what is computed from constants the sharding of its uses, and uses of different shardings their own copies.
void sp_export_split(SpExport *e);
// Makes one of equal constants, and of equal broadcasts of a scalar, that have the same sharding.
void sp_export_merge(SpExport *e);

#endif
