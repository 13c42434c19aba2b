// zip.c: as much of ZIP as .npz files need: stored and deflated members, large ones too.
//
// An archive ends in an end record, which names the directory, which names the members; a header is
// repeated before each member's bytes. Only the directory is believed. Where a size or an offset
// does not fit 32 bits, its field is all ones and the number stands in an extra field (zip64).
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT

#include "base/compiler.h"
#include "base/memory.h"
#include "npy/npy.h"

#define ZLIB_CONST
#include <zlib.h>

enum {
  LOCAL = 0x04034b50,
  LISTED = 0x02014b50,
  END = 0x06054b50,
  END64 = 0x06064b50,
  END64_LOCATOR = 0x07064b50,
  LOCAL_BYTES = 30,
  LISTED_BYTES = 46,
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR_BYTES = 20,
  ZIP64 = 1,  // the extra field
  STORED = 0,
  DEFLATED = 8,
  ENCRYPTED = 1,  // flag
  UTF8 = 0x800,   // flag
  JANUARY_1980 = 0x21
};
#define ONES UINT32_MAX

bool zip_is(HlStr bytes) {
  return bytes.n >= 4 && (hl_load_u32(bytes.at) == LOCAL || hl_load_u32(bytes.at) == END);
}

// --- The directory ---

// Whether `n` bytes at an offset are within the source.
static bool inside(HlStr bytes, uint64_t offset, uint64_t n) {
  return offset <= bytes.n && n <= bytes.n - offset;
}

typedef struct Directory {
  uint64_t offset, size, n;
} Directory;

// Finds the end record, which is last but for a comment of at most 64 KiB.
static bool find_end(HlCx *cx, const HlSource *source, uint64_t *out) {
  const HlStr bytes = hl_source_bytes(source);
  const uint64_t least = bytes.n > END_BYTES + 0xffff ? bytes.n - END_BYTES - 0xffff : 0;
  if (bytes.n >= END_BYTES) {
    for (uint64_t at = bytes.n - END_BYTES + 1; at-- > least;) {
      if (hl_load_u32(bytes.at + at) == END &&
          inside(bytes, at + END_BYTES, hl_load_u16(bytes.at + at + 20))) {
        *out = at;
        return true;
      }
    }
  }
  return hl_error(cx, npy_pos(source, bytes.n),
                  "zip archive: no directory at its end (is it cut short?)");
}

// Reads the end record of a large archive, which stands before the usual one.
static bool read_end64(HlCx *cx, const HlSource *source, uint64_t end, Directory *out) {
  const HlStr bytes = hl_source_bytes(source);
  if (end < LOCATOR_BYTES || hl_load_u32(bytes.at + end - LOCATOR_BYTES) != END64_LOCATOR)
    return true;
  const uint64_t at = hl_load_u64(bytes.at + end - LOCATOR_BYTES + 8);
  if (!inside(bytes, at, END64_BYTES) || hl_load_u32(bytes.at + at) != END64)
    return hl_error(cx, npy_pos(source, end - LOCATOR_BYTES),
                    "zip archive: damaged zip64 end record");
  *out = (Directory){.n = hl_load_u64(bytes.at + at + 32),
                     .size = hl_load_u64(bytes.at + at + 40),
                     .offset = hl_load_u64(bytes.at + at + 48)};
  return true;
}

static bool find_directory(HlCx *cx, const HlSource *source, Directory *out) {
  const HlStr bytes = hl_source_bytes(source);
  uint64_t end = 0;
  if (!find_end(cx, source, &end))
    return false;
  *out = (Directory){.n = hl_load_u16(bytes.at + end + 10),
                     .size = hl_load_u32(bytes.at + end + 12),
                     .offset = hl_load_u32(bytes.at + end + 16)};
  if (!read_end64(cx, source, end, out))
    return false;
  if (!inside(bytes, out->offset, out->size) || out->n > out->size / LISTED_BYTES)
    return hl_error(cx, npy_pos(source, end),
                    "zip archive: its directory of %llu members is not where it should be",
                    (unsigned long long)out->n);
  return true;
}

// Reads the numbers of a zip64 extra field into those whose own field is all ones.
static bool read_zip64(ZipEntry *entry, const char *extra, size_t n) {
  uint64_t *const wide[] = {&entry->size, &entry->packed, &entry->header};
  for (size_t length; n >= 4; extra += 4 + length, n -= 4 + length) {
    length = hl_load_u16(extra + 2);
    if (length > n - 4)
      return false;
    if (hl_load_u16(extra) != ZIP64)
      continue;
    size_t used = 0;
    for (int k = 0; k < 3; k++) {
      if (*wide[k] != ONES)
        continue;
      if (used + 8 > length)
        return false;
      *wide[k] = hl_load_u64(extra + 4 + used);
      used += 8;
    }
    return true;
  }
  return true;
}

// Reads the row of a member; `left` bytes of the directory are there. Moves *at behind it.
static bool read_row(HlCx *cx, const HlSource *source, uint64_t *at, uint64_t left, ZipEntry *out) {
  const char *row = hl_source_bytes(source).at + *at;
  if (left < LISTED_BYTES || hl_load_u32(row) != LISTED)
    return hl_error(cx, npy_pos(source, *at), "zip archive: damaged directory");
  const size_t name = hl_load_u16(row + 28), extra = hl_load_u16(row + 30);
  const size_t length = LISTED_BYTES + name + extra + hl_load_u16(row + 32);
  if (length > left)
    return hl_error(cx, npy_pos(source, *at), "zip archive: directory ends within a row");
  *out = (ZipEntry){
      .name = {row + LISTED_BYTES, name},
      .flags = hl_load_u16(row + 8),
      .method = hl_load_u16(row + 10),
      .crc = hl_load_u32(row + 16),
      .packed = hl_load_u32(row + 20),
      .size = hl_load_u32(row + 24),
      .header = hl_load_u32(row + 42),
      .listed = *at,
  };
  if (!read_zip64(out, row + LISTED_BYTES + name, extra))
    return hl_error(cx, npy_pos(source, *at), "zip archive: damaged zip64 field of '%.*s'",
                    (int)name, row + LISTED_BYTES);
  *at += length;
  return true;
}

bool zip_list(HlCx *cx, const HlSource *source, HlArena *arena, ZipEntry **out, int *n) {
  Directory directory;
  if (!find_directory(cx, source, &directory))
    return false;
  const int64_t limit = hl_cx_limits(cx)->tuple_leaves;
  if (directory.n > (uint64_t)limit)
    return hl_error_kind(cx, HL_LIMIT, npy_pos(source, directory.offset),
                         "zip archive: more than %lld members (limit tuple_leaves)",
                         (long long)limit);
  *n = (int)directory.n;
  *out = HL_ARRAY(arena, ZipEntry, *n);
  uint64_t at = directory.offset;
  for (int k = 0; k < *n; k++)
    if (!read_row(cx, source, &at, directory.offset + directory.size - at, &(*out)[k]))
      return false;
  return true;
}

// --- Members ---

static bool entry_error(HlCx *cx, const HlSource *source, uint64_t at, const ZipEntry *entry,
                        const char *what) {
  return hl_error(cx, npy_pos(source, at), "member '%.*s' of the archive: %s", (int)entry->name.n,
                  entry->name.at, what);
}

// Inflates into a buffer that has the room; whether exactly `size` bytes came out.
static bool inflate_all(HlStr packed, HlBuf *out, uint64_t size, const char **why) {
  z_stream z = {0};
  *why = "cannot be read: out of memory";
  if (inflateInit2(&z, -15) != Z_OK)
    return false;
  int status = Z_OK;
  size_t done = 0;
  do {
    const size_t left = packed.n - done, room = (size_t)size - out->n;
    z.next_in = (const Bytef *)packed.at + done;
    z.avail_in = left < UINT32_MAX ? (uInt)left : UINT32_MAX;
    z.next_out = (Bytef *)out->at + out->n;
    z.avail_out = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
    status = inflate(&z, Z_NO_FLUSH);
    done = (size_t)((const char *)z.next_in - packed.at);
    out->n = (size_t)((char *)z.next_out - out->at);
  } while (status == Z_OK);
  *why =
      status != Z_STREAM_END && z.msg ? z.msg : "damaged: it is not as long as the directory says";
  inflateEnd(&z);
  return status == Z_STREAM_END && out->n == size;
}

// Finds the bytes of a member behind its own header.
static bool find_bytes(HlCx *cx, const HlSource *source, const ZipEntry *entry, uint64_t *at) {
  const HlStr bytes = hl_source_bytes(source);
  const uint64_t header = entry->header;
  if (!inside(bytes, header, LOCAL_BYTES) || hl_load_u32(bytes.at + header) != LOCAL)
    return entry_error(cx, source, entry->listed, entry, "is not where the directory says");
  *at = header + LOCAL_BYTES + hl_load_u16(bytes.at + header + 26) +
        hl_load_u16(bytes.at + header + 28);
  if (!inside(bytes, *at, entry->packed))
    return entry_error(cx, source, header, entry, "goes beyond the end of the file");
  return true;
}

// Deflate makes nothing smaller than by a factor of 1032, so the size of the input bounds what may
// be asked of memory.
static bool inflate_member(HlCx *cx, const HlSource *source, const ZipEntry *entry, uint64_t at,
                           HlBuf *storage) {
  const char *why;
  const HlStr packed = {hl_source_bytes(source).at + at, (size_t)entry->packed};
  if (entry->size / 1032 > entry->packed)
    return entry_error(cx, source, at, entry,
                       "damaged: it cannot be that much smaller than its size");
  if (!base_buf_try_grow(storage, (size_t)entry->size))
    return entry_error(cx, source, at, entry, "out of memory");
  return inflate_all(packed, storage, entry->size, &why) || entry_error(cx, source, at, entry, why);
}

static uint32_t crc_of(HlStr bytes) {
  uLong crc = crc32(0, NULL, 0);
  for (size_t k = 0, step; k < bytes.n; k += step) {
    step = bytes.n - k < ((size_t)1 << 30) ? bytes.n - k : (size_t)1 << 30;
    crc = crc32(crc, (const Bytef *)bytes.at + k, (uInt)step);
  }
  return (uint32_t)crc;
}

bool zip_read(HlCx *cx, const HlSource *source, const ZipEntry *entry, HlBuf *storage,
              NpyView *out) {
  uint64_t at = 0;
  if ((entry->flags & ENCRYPTED) || (entry->method != STORED && entry->method != DEFLATED))
    return hl_error_kind(cx, HL_UNSUPPORTED, npy_pos(source, entry->listed),
                         "member '%.*s' of the archive: %s", (int)entry->name.n, entry->name.at,
                         entry->flags & ENCRYPTED ? "encrypted" : "unknown compression");
  if (!find_bytes(cx, source, entry, &at))
    return false;
  const bool is_inflated = entry->method == DEFLATED;
  HlStr bytes = {hl_source_bytes(source).at + at, (size_t)entry->packed};
  if (is_inflated) {
    if (!inflate_member(cx, source, entry, at, storage))
      return false;
    bytes = (HlStr){storage->at, storage->n};
  } else if (entry->size != entry->packed) {
    return entry_error(cx, source, entry->listed, entry, "damaged: two sizes");
  }
  if (crc_of(bytes) != entry->crc)
    return entry_error(cx, source, at, entry, "damaged: its checksum differs");
  *out = (NpyView){bytes, source, at, is_inflated, entry->name};
  return true;
}

// --- Writing ---

static void put(HlBuf *out, int bytes, uint64_t value) {
  for (int k = 0; k < bytes; k++)
    hl_buf_putc(out, (char)(value >> (8 * k) & 0xff));
}

static void patch(HlBuf *out, size_t at, int bytes, uint64_t value) {
  for (int k = 0; k < bytes; k++)
    out->at[at + (size_t)k] = (char)(value >> (8 * k) & 0xff);
}

static uint64_t narrow(uint64_t value) {
  return value < ONES ? value : ONES;
}

static unsigned name_flags(HlStr name) {
  for (size_t k = 0; k < name.n; k++)
    if ((unsigned char)name.at[k] >= 0x80)
      return UTF8;
  return 0;
}

// The fields that local header and directory row share; sizes and checksum come later.
static void put_common(HlBuf *out, HlStr name, bool wide) {
  put(out, 2, wide ? 45 : 20);  // version needed
  put(out, 2, name_flags(name));
  put(out, 2, STORED);
  put(out, 2, 0);  // time
  put(out, 2, JANUARY_1980);
  put(out, 4, 0);  // checksum
  put(out, 4, 0);  // packed size
  put(out, 4, 0);  // size
  put(out, 2, name.n);
}

bool zip_open(HlCx *cx, ZipWriter *writer, HlStr name, uint64_t size) {
  HlBuf *out = writer->out;
  const bool wide = size >= ONES;
  if (name.n > 0xffff)
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "an array's name is longer than 65535 bytes");
  if (!base_buf_try_grow(out, size + name.n + 256))
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "out of memory for an archive of %zu bytes",
                         out->n + (size_t)size);
  writer->name = name;
  writer->header = out->n;
  put(out, 4, LOCAL);
  put_common(out, name, wide);
  put(out, 2, wide ? 20 : 0);
  hl_buf_add(out, name.at, name.n);
  if (wide) {
    put(out, 2, ZIP64);
    put(out, 2, 16);
    put(out, 8, size);
    put(out, 8, size);
  }
  writer->data = out->n;
  return true;
}

// Replaces the open member's bytes by their deflated form, if that is smaller.
static bool deflate_member(ZipWriter *writer) {
  HlBuf *out = writer->out;
  const HlStr plain = {out->at + writer->data, out->n - writer->data};
  uLong room = compressBound((uLong)plain.n);
  HlBuf packed = {0};
  z_stream z = {0};
  if (plain.n >= ONES || room >= ONES || !base_buf_try_grow(&packed, room) ||
      deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    hl_buf_free(&packed);
    return false;
  }
  z.next_in = (const Bytef *)plain.at;
  z.avail_in = (uInt)plain.n;
  z.next_out = (Bytef *)packed.at;
  z.avail_out = (uInt)room;
  const bool smaller = deflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out < plain.n;
  if (smaller) {
    out->n = writer->data;
    hl_buf_add(out, packed.at, z.total_out);
  }
  deflateEnd(&z);
  hl_buf_free(&packed);
  return smaller;
}

// Adds the row of the member that was just written.
static void add_row(ZipWriter *writer, unsigned method, uint32_t crc, uint64_t packed,
                    uint64_t size) {
  HlBuf *row = &writer->directory;
  const uint64_t numbers[] = {size, packed, writer->header - writer->start};
  int n_wide = 0;
  for (int k = 0; k < 3; k++)
    n_wide += numbers[k] >= ONES;
  const size_t start = row->n;
  put(row, 4, LISTED);
  put(row, 2, 3 << 8 | 45);  // made by: Unix
  put_common(row, writer->name, n_wide > 0);
  patch(row, start + 10, 2, method);
  patch(row, start + 16, 4, crc);
  patch(row, start + 20, 4, narrow(packed));
  patch(row, start + 24, 4, narrow(size));
  put(row, 2, n_wide ? 4 + 8 * (uint64_t)n_wide : 0);
  put(row, 2, 0);  // comment
  put(row, 2, 0);  // disk
  put(row, 2, 0);  // attributes
  put(row, 4, (uint64_t)0100600 << 16);
  put(row, 4, narrow(numbers[2]));
  hl_buf_add(row, writer->name.at, writer->name.n);
  if (n_wide > 0) {
    put(row, 2, ZIP64);
    put(row, 2, 8 * (uint64_t)n_wide);
    for (int k = 0; k < 3; k++)
      if (numbers[k] >= ONES)
        put(row, 8, numbers[k]);
  }
  writer->n++;
}

void zip_close(ZipWriter *writer, bool deflated) {
  HlBuf *out = writer->out;
  const HlStr plain = {out->at + writer->data, out->n - writer->data};
  const uint64_t size = plain.n;
  const uint32_t crc = crc_of(plain);
  const unsigned method = deflated && deflate_member(writer) ? DEFLATED : STORED;
  const uint64_t packed = out->n - writer->data;
  patch(out, writer->header + 8, 2, method);
  patch(out, writer->header + 14, 4, crc);
  patch(out, writer->header + 18, 4, size < ONES ? packed : ONES);
  patch(out, writer->header + 22, 4, narrow(size));
  add_row(writer, method, crc, packed, size);
}

void zip_end(ZipWriter *writer) {
  HlBuf *out = writer->out;
  const uint64_t at = out->n - writer->start, size = writer->directory.n, end = at + size;
  hl_buf_add(out, writer->directory.at, writer->directory.n);
  hl_buf_free(&writer->directory);
  if (at >= ONES || size >= ONES || writer->n >= 0xffff) {
    put(out, 4, END64);
    put(out, 8, END64_BYTES - 12);
    put(out, 2, 3 << 8 | 45);
    put(out, 2, 45);
    put(out, 8, 0);  // disks
    put(out, 8, writer->n);
    put(out, 8, writer->n);
    put(out, 8, size);
    put(out, 8, at);
    put(out, 4, END64_LOCATOR);
    put(out, 4, 0);
    put(out, 8, end);
    put(out, 4, 1);
  }
  put(out, 4, END);
  put(out, 4, 0);  // disks
  put(out, 2, writer->n < 0xffff ? writer->n : 0xffff);
  put(out, 2, writer->n < 0xffff ? writer->n : 0xffff);
  put(out, 4, narrow(size));
  put(out, 4, narrow(at));
  put(out, 2, 0);  // comment
}
