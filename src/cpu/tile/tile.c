// cpu/tile/tile.c: tile programs as a kind of kernel.

#include "cpu/tile/tile.h"

extern const CpuKernelKind cpu_kind_tile;

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  TileProgram *program = tile_lower(maker, inst);
  if (!program)
    return NULL;
  program->base.kind = &cpu_kind_tile;
  return &program->base;
}

const CpuKernelKind cpu_kind_tile = {"tile", make, tile_run, tile_print};
