// hilo/npy.h: NumPy's array files, .npy and .npz, from and to literals.
//
// How element types are stored: pred as bool, s1 to s8 as int8, u1 to u8 as uint8, bf16 and the
// 8-bit and 4-bit floats as float32 (which holds them exactly), all others as themselves. What is
// read has the file's own type; hl_literal_convert makes it the parameter's.
#ifndef HILO_NPY_H
#define HILO_NPY_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// Named arrays, in the order of the file; names are without ".npy". Start from {0}; on the heap.
typedef struct HlNpz {
  int n;
  char **names;
  HlLiteral **arrays;
} HlNpz;

// Reads a .npz, or a .npy as one array named "arr_0". Of a failed read nothing is left in *out.
bool hl_npz_read(HlCx *cx, const HlSource *source, HlNpz *out);
bool hl_npz_load(HlCx *cx, const char *path, HlNpz *out);  // the same of a file
void hl_npz_free(HlNpz *npz);
// The array of a name, the last one if there are several; NULL if there is none.
const HlLiteral *hl_npz_find(const HlNpz *npz, const char *name);

// Writes a .npz, uncompressed; the same arrays always give the same bytes.
bool hl_npz_write(HlCx *cx, const char *path, int n, const char *const *names,
                  HlLiteral *const *arrays);
// The same into a buffer; `deflated` makes it small and slow.
bool hl_npz_pack(HlCx *cx, int n, const char *const *names, HlLiteral *const *arrays, bool deflated,
                 HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
