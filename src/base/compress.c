// compress.c: gzip and zstd, in memory, bounded by the limit on file sizes.
//
// Both formats allow several members one after the other, which decompress to their concatenation,
// and zeros after the last (tape blocks). A decoder is pumped: it reads from a view of the input
// and writes into the buffer, which grows as data come, so a small file that claims to be large
// costs nothing.

#include "base/compress.h"
#include "base/compiler.h"
#include "base/memory.h"

#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#define LAYERS 4
#define CHUNK ((size_t)256 << 10)

Packing base_packing_of(HlStr bytes) {
  if (bytes.n >= 3 && memcmp(bytes.at, "\x1f\x8b\x08", 3) == 0)
    return PACKED_GZIP;
  if (bytes.n < 4)
    return PACKED_NOT;
  const uint32_t magic = hl_load_u32(bytes.at);
  return magic == ZSTD_MAGICNUMBER ||
                 (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START
             ? PACKED_ZSTD
             : PACKED_NOT;
}

Packing base_packing_by_name(const char *path) {
  const size_t n = strlen(path);
  if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
    return PACKED_GZIP;
  return n > 4 && strcmp(path + n - 4, ".zst") == 0 ? PACKED_ZSTD : PACKED_NOT;
}

// --- Decompressing ---

typedef struct Unpack {
  HlCx *cx;
  HlPos pos;  // of the first byte of the outermost layer
  int layer;  // 0: the outermost
  const char *format;
  HlStr in;
  size_t done;  // bytes of `in` consumed
  HlBuf *out;
} Unpack;

static bool unpack_error(Unpack *u, const char *what) {
  HlPos pos = u->pos;
  if (u->layer > 0)
    return hl_error(u->cx, pos, "%s data within compressed data: %s (at byte %zu)", u->format, what,
                    u->done);
  if (pos.loc > 0 && u->done < UINT32_MAX - pos.loc)
    pos.loc += (HlLoc)u->done;
  return hl_error(u->cx, pos, "%s data: %s", u->format, what);
}

// Makes room for the next piece of output.
static bool make_room(Unpack *u) {
  const int64_t limit = hl_cx_limits(u->cx)->file_bytes;
  if ((int64_t)u->out->n > limit)
    return hl_error_kind(u->cx, HL_LIMIT, u->pos,
                         "%s data: more than %lld bytes when decompressed (limit file_bytes)",
                         u->format, (long long)limit);
  if (!base_buf_try_grow(u->out, CHUNK))
    return hl_error_kind(u->cx, HL_LIMIT, u->pos, "%s data: out of memory after %zu bytes",
                         u->format, u->out->n);
  return true;
}

// Whether another member follows; trailing zeros are taken, other bytes are an error.
static bool next_member(Unpack *u, Packing packing, bool *more) {
  const HlStr rest = {u->in.at + u->done, u->in.n - u->done};
  *more = base_packing_of(rest) == packing;
  if (*more)
    return true;
  for (size_t k = 0; k < rest.n; k++)
    if (rest.at[k])
      return unpack_error(u, "unknown bytes after its end");
  return true;
}

// Decodes one gzip member.
static bool inflate_member(Unpack *u, z_stream *z) {
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (!make_room(u))
      return false;
    const size_t left = u->in.n - u->done, room = u->out->capacity - u->out->n - 1;
    z->next_in = (const Bytef *)u->in.at + u->done;
    z->avail_in = left < UINT32_MAX ? (uInt)left : UINT32_MAX;
    z->next_out = (Bytef *)u->out->at + u->out->n;
    z->avail_out = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
    status = inflate(z, Z_NO_FLUSH);
    u->done = (size_t)((const char *)z->next_in - u->in.at);
    u->out->n = (size_t)((char *)z->next_out - u->out->at);
    if (status == Z_BUF_ERROR && u->done == u->in.n && z->avail_out > 0)
      return unpack_error(u, "ends too early");
    if (status == Z_NEED_DICT || (status < 0 && status != Z_BUF_ERROR))
      return unpack_error(u, z->msg ? z->msg : "damaged");
  }
  return true;
}

static void end_gzip(void *z) {
  inflateEnd(z);
}

static bool unpack_gzip(Unpack *u) {
  z_stream z = {0};
  if (inflateInit2(&z, 15 + 16) != Z_OK)
    return unpack_error(u, "cannot be read: out of memory");
  base_hold(&z, end_gzip);
  bool ok = true;
  for (bool more = true; ok && more;) {
    ok = inflate_member(u, &z) && next_member(u, PACKED_GZIP, &more);
    inflateReset(&z);
  }
  base_drop(&z);
  inflateEnd(&z);
  return ok;
}

// Decodes one zstd frame.
static bool unzstd_member(Unpack *u, ZSTD_DStream *stream) {
  for (size_t status = 1; status != 0;) {
    if (!make_room(u))
      return false;
    ZSTD_inBuffer in = {u->in.at, u->in.n, u->done};
    ZSTD_outBuffer out = {u->out->at, u->out->capacity - 1, u->out->n};
    status = ZSTD_decompressStream(stream, &out, &in);
    u->done = in.pos;
    u->out->n = out.pos;
    if (ZSTD_isError(status))
      return unpack_error(u, ZSTD_getErrorName(status));
    if (status != 0 && in.pos == in.size && out.pos < out.size)
      return unpack_error(u, "ends too early");
  }
  return true;
}

static void end_zstd(void *stream) {
  ZSTD_freeDStream(stream);
}

static bool unpack_zstd(Unpack *u) {
  ZSTD_DStream *stream = ZSTD_createDStream();
  if (!stream)
    return unpack_error(u, "cannot be read: out of memory");
  base_hold(stream, end_zstd);
  bool ok = true;
  for (bool more = true; ok && more;)
    ok = unzstd_member(u, stream) && next_member(u, PACKED_ZSTD, &more);
  base_drop(stream);
  ZSTD_freeDStream(stream);
  return ok;
}

// Takes one layer off.
static bool unpack_layer(HlCx *cx, HlPos pos, int layer, HlStr bytes, HlBuf *out) {
  const bool gzip = base_packing_of(bytes) == PACKED_GZIP;
  Unpack u = {.cx = cx,
              .pos = pos,
              .layer = layer,
              .format = gzip ? "gzip" : "zstd",
              .in = bytes,
              .out = out};
  if (!(gzip ? unpack_gzip(&u) : unpack_zstd(&u)))
    return false;
  const int64_t limit = hl_cx_limits(cx)->file_bytes;
  if ((int64_t)out->n > limit)
    return make_room(&u);
  hl_buf_add(out, "", 0);
  return true;
}

bool hl_decompress(HlCx *cx, HlPos pos, HlStr bytes, HlBuf *out, bool *was) {
  HlBuf now = {0};
  *was = false;
  for (int layer = 0; base_packing_of(bytes) != PACKED_NOT; layer++) {
    HlBuf next = {0};
    if (layer == LAYERS)
      hl_error_kind(cx, HL_LIMIT, pos, "compressed more than %d times over", LAYERS);
    if (layer == LAYERS || !unpack_layer(cx, pos, layer, bytes, &next)) {
      hl_buf_free(&now);
      hl_buf_free(&next);
      return false;
    }
    hl_buf_free(&now);
    now = next;
    bytes = (HlStr){now.at, now.n};
    *was = true;
  }
  if (*was) {
    hl_buf_free(out);
    *out = now;
  }
  return true;
}

// --- Compressing ---

static bool pack_gzip(HlStr bytes, HlBuf *out) {
  z_stream z = {0};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  int status = Z_OK;
  for (size_t done = 0; status == Z_OK || status == Z_BUF_ERROR;) {
    const size_t left = bytes.n - done;
    if (!base_buf_try_grow(out, CHUNK))
      break;
    z.next_in = (const Bytef *)bytes.at + done;
    z.avail_in = left < CHUNK ? (uInt)left : (uInt)CHUNK;
    z.next_out = (Bytef *)out->at + out->n;
    z.avail_out = (uInt)CHUNK;
    status = deflate(&z, left <= CHUNK ? Z_FINISH : Z_NO_FLUSH);
    done = (size_t)((const char *)z.next_in - bytes.at);
    out->n = (size_t)((char *)z.next_out - out->at);
  }
  deflateEnd(&z);
  return status == Z_STREAM_END;
}

static bool pack_zstd(HlStr bytes, HlBuf *out) {
  const size_t bound = ZSTD_compressBound(bytes.n);
  if (ZSTD_isError(bound) || !base_buf_try_grow(out, bound))
    return false;
  const size_t n = ZSTD_compress(out->at + out->n, bound, bytes.at, bytes.n, 3);
  if (ZSTD_isError(n))
    return false;
  out->n += n;
  return true;
}

bool base_compress(HlCx *cx, Packing packing, HlStr bytes, HlBuf *out) {
  if (!(packing == PACKED_GZIP ? pack_gzip(bytes, out) : pack_zstd(bytes, out)))
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot compress %zu bytes: out of memory",
                         bytes.n);
  hl_buf_add(out, "", 0);
  return true;
}
