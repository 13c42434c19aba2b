// spmd/whole.h: programs with manual parts, as programs that can be run before they are partitioned.
//
// Before partitioning every device has whole arrays. In a manual part (between SPMDFullToShardShape and
// SPMDShardToFullShape, or Shardy's xla.sdy.GlobalToLocalShape and xla.sdy.LocalToGlobalShape) a device has its own part of
// them, which the interpreter knows nothing of. Written out, a device takes its part where the program goes in, and the
// devices exchange their parts where it comes out:
//
//   l = f32[4] custom-call(x), custom_call_target="SPMDFullToShardShape"     x: f32[8]
//   g = f32[8] custom-call(l), custom_call_target="SPMDShardToFullShape"
// =>
//   l = f32[4] dynamic-slice(x, {0, 4}[partition-id]), dynamic_slice_sizes={4}
//   a = f32[2,4] all-gather(f32[1,4] reshape(l)), dimensions={0}
//   g = f32[8] concatenate(f32[4] reshape(slice(a)), f32[4] reshape(slice(a))), dimensions={0}
//
// Where only some axes of the mesh are manual, the devices along the others have the same whole arrays inside, too.
#ifndef SPMD_WHOLE_H
#define SPMD_WHOLE_H

#include "hilo/ir.h"

bool sp_has_borders(const HlModule *m);  // it has manual parts, for several partitions
// A copy of a module with its borders written out. NULL after reporting: what crosses one is not told exactly.
HlModule *sp_without_borders(HlCx *cx, const HlModule *m);

#endif
