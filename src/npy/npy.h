// npy/npy.h: what the files of this folder share.
#ifndef HILO_NPY_NPY_H
#define HILO_NPY_NPY_H

#include "hilo/npy.h"

// Where a byte of a source is; far into a huge one, it is nowhere in particular.
HlPos npy_pos(const HlSource *source, uint64_t offset);

// npy.c

// The bytes of one .npy file, and where they stand in the source.
typedef struct NpyView {
  HlStr bytes;
  const HlSource *source;
  uint64_t offset;   // of the first byte in the source
  bool is_inflated;  // the bytes are elsewhere: all errors are at the offset
  HlStr name;        // of the archive's member; empty for a file of its own
} NpyView;

bool npy_is(HlStr bytes);  // by magic number
HlLiteral *npy_read(HlCx *cx, const NpyView *view);
// Bytes that npy_write adds, or a negative number where a literal is no array (reported).
int64_t npy_size(HlCx *cx, const HlLiteral *literal);
void npy_write(const HlLiteral *literal, HlBuf *out);

// zip.c

typedef struct ZipEntry {
  HlStr name;
  unsigned flags, method;
  uint32_t crc;
  uint64_t packed, size;  // bytes in the archive, and as a file
  uint64_t header;        // offset of the local header
  uint64_t listed;        // offset of the row in the directory
} ZipEntry;

bool zip_is(HlStr bytes);
// The directory, in the arena.
bool zip_list(HlCx *cx, const HlSource *source, HlArena *arena, ZipEntry **out, int *n);
// The bytes of a member: in the source, or inflated into *storage.
bool zip_read(HlCx *cx, const HlSource *source, const ZipEntry *entry, HlBuf *storage,
              NpyView *out);

// An archive being written: zip_open, add the member's bytes to `out`, zip_close, ..., zip_end.
typedef struct ZipWriter {
  HlBuf *out;
  size_t start;  // of the archive in `out`; offsets count from there
  HlBuf directory;
  uint64_t n;
  HlStr name;           // of the open member
  size_t header, data;  // its local header and its bytes, in `out`
} ZipWriter;
bool zip_open(HlCx *cx, ZipWriter *writer, HlStr name, uint64_t size);
void zip_close(ZipWriter *writer, bool deflated);
void zip_end(ZipWriter *writer);

#endif
