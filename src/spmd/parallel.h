// spmd/parallel.h: dimensions of the operand of a gather or a scatter along which its indices count:
// where part k of an index vector is iota along dimension i of the indices, place j along i points to
// place j of the dimension of the operand that part k indexes. Cut alike, both stay on one device.
#ifndef SPMD_PARALLEL_H
#define SPMD_PARALLEL_H

#include "hilo/ir.h"

// By dimension of the operand, the dimension of the indices; -1: there is none. Of each dimension of
// the operand a slice has one element. `indices` are taken for those that inst has.
int *sp_parallel_dims(HlArena *arena, const HlInst *inst, const HlInst *indices);

#endif
