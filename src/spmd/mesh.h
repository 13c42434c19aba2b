// spmd/mesh.h: shardings as axes of one mesh, the form that propagation calculates with.
//
// Which of an array's dimensions may be cut how is a question of the mesh's axes: two shardings agree along a
// dimension when the axes of the one start with the axes of the other, and an axis cuts one dimension of an
// array only. So propagation writes every sharding as a list of axes per dimension. All axes are cut into
// digits of prime size, major first: an axis of 4 is two digits of 2, and the half of an axis that a
// dimension of size 2 can take is its first digit.
#ifndef SPMD_MESH_H
#define SPMD_MESH_H

#include "spmd/tiles.h"

enum { SP_DIGITS = 20 };  // most digits of a mesh: as many as MOST_DEVICES has

typedef struct SpMesh {
  int64_t n_devices;
  int n_digits;
  int64_t size[SP_DIGITS];        // of each digit, major first
  int64_t step[SP_DIGITS];        // places between neighbours along it
  uint32_t axis_start, axis_end;  // digits that are an axis' first, its last
  const int64_t *device;          // by place, or NULL: the places themselves
  const int64_t *place;           // by device, or NULL
} SpMesh;

// Digits, major to minor.
typedef struct SpAxes {
  uint8_t n;
  uint8_t at[SP_DIGITS];
} SpAxes;

typedef struct SpDim {
  SpAxes axes;
  bool closed;       // takes no further axes
  uint8_t priority;  // of the user's; 0 is the first
} SpDim;

// The sharding of one array. What is neither in a dimension nor in one of the sets is replicated, and free to be used.
typedef struct SpSpec {
  int number;  // among the values of a graph
  int rank;
  bool known;  // somebody said something, or propagation did
  bool fixed;  // not expressible by digits or of no concern: nothing passes
  bool given;  // the program said so: it is not taken back
  SpDim *dim;
  uint32_t replicated;         // digits that must cut no dimension
  uint32_t unreduced, manual;  // digits of the subgroups
} SpSpec;

// A mesh of these axes; `devices` (n of them, or NULL) by place. NULL: not 1 ... 2^20 devices.
SpMesh *sp_mesh_new(HlArena *arena, int n_axes, const int64_t *size, const int64_t *devices);
// A mesh in which the module's shardings can be written, from their iotas.
SpMesh *sp_mesh_of_module(HlArena *arena, const HlModule *m);
// The mesh of all partitions whose axes all shardings of the module name; NULL: there is none.
const HlMesh *sp_named_mesh(const HlModule *m);
SpMesh *sp_mesh_of_named(HlArena *arena, const HlMesh *named);
// Digits by these names: those of an axis that follow each other as one part of it.
HlAxes sp_axes_named(HlArena *arena, const SpMesh *mesh, const HlMesh *named, const SpAxes *axes);
// The digits of the part [pre, pre * size) of an axis, the `axis`-th of those longer than 1; false: it is not made of whole digits.
bool sp_mesh_digits(const SpMesh *mesh, int axis, int64_t pre, int64_t size, SpAxes *out);

int64_t sp_axes_size(const SpMesh *mesh, const SpAxes *axes);
uint32_t sp_axes_set(const SpAxes *axes);
static inline void sp_axes_add(SpAxes *axes, int digit) {
  axes->at[axes->n++] = (uint8_t)digit;
}
bool sp_axes_starts(const SpAxes *axes, const SpAxes *with);  // `axes` starts with `with`
bool sp_axes_equal(const SpAxes *a, const SpAxes *b);
uint32_t sp_spec_used(const SpSpec *spec);  // digits of dimensions and subgroups

// Writes the tiles in digits into spec (whose rank and dim are set). False: they cannot be, spec is unchanged.
bool sp_spec_of_tiles(const SpMesh *mesh, const HlTiles *tiles, SpSpec *spec);
// No digit stands in two places.
bool sp_spec_is_sound(const SpSpec *spec);
// What is not sound is replicated.
const HlTiles *sp_spec_tiles(HlArena *arena, const SpMesh *mesh, const SpSpec *spec);
bool sp_spec_is_cut(const SpSpec *spec);  // some dimension has axes, or there is a subgroup

#endif
