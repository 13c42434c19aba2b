// tool/align_vectors.h: eigen- and singular vectors beside those that are expected.
//
// A vector is known up to its sign (real) or phase (complex); of vectors of one value only the space is known, and any basis of unit
// vectors at right angles is as good as another.
#ifndef TOOL_ALIGN_VECTORS_H
#define TOOL_ALIGN_VECTORS_H

#include "hilo/tool.h"

// A copy of the actual vectors, each turned by a unit number towards the expected one; where several belong to one of `values` (those
// of the expected vectors, a row for each matrix; NULL: not known) and the expected ones are a basis, the parts of the expected
// ones that lie in the space of the actual ones. NULL when memory does not suffice: reported.
HlLiteral *tool_aligned(HlCx *cx, const HlLiteral *actual, const HlLiteral *expected, HlVectorLeaf leaf, const HlLiteral *values);

#endif
