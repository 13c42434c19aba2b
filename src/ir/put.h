// ir/put.h: appending what a module is made of to an HlBuf on hot paths, without the NUL until put_end.
#ifndef HILO_IR_PUT_H
#define HILO_IR_PUT_H

#include "base/put.h"
#include "hilo/ir.h"

// What separates elements of a list: ", ", and the number before every fifth.
static inline void put_comma(HlBuf *out, int64_t k) {
  PUT(out, ", ");
  if (k % 5 == 0) {
    PUT(out, "/*index=");
    put_i64(out, k);
    PUT(out, "*/");
  }
}

// A shape, as hl_shape_print, but without the NUL.
void put_shape(HlBuf *out, const HlShape *shape, bool with_layout);
// The value of a literal, as hl_literal_print, but without the NUL.
void put_literal(HlBuf *out, const HlLiteral *literal);
// With its metadata, and among them how an unreduced one is to be reduced (always where that is not a sum).
enum { PUT_METADATA = 1, PUT_REDUCTION = 2 };
void put_sharding(HlBuf *out, const HlSharding *sharding, int with);
// "mesh['a'=2,'b'=4]", and "{'a', 'b':(1)2}" with what stands between two axes: ", " in shardings, "," in groups.
void put_mesh(HlBuf *out, const HlMesh *mesh);
void put_axes(HlBuf *out, const HlMesh *mesh, HlAxes axes, const char *between);
// The fields of a metadata, without the braces; nothing where XLA would print nothing.
void put_metadata_fields(HlBuf *out, const HlMetadata *metadata);
bool put_metadata_wanted(const HlMetadata *metadata);

#endif
