// file.c: whole files in and out of memory.
//
// Files are read, not mapped: one that shrinks meanwhile is then simply shorter. They are written
// under another name and renamed, so nobody ever sees half of one.

#include "base/compress.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)

static const char *shown_name(const char *path, const char *standard) {
  return strcmp(path, "-") == 0 ? standard : path;
}

// --- Reading ---

static bool read_error(HlCx *cx, const char *path, int code) {
  return hl_error(cx, (HlPos){0}, "cannot read %s: %s", shown_name(path, "standard input"),
                  strerror(code));
}

// Reads to the end; `expected` bytes are probably there.
static bool read_all(HlCx *cx, const char *path, int fd, size_t expected, HlBuf *out) {
  const int64_t limit = hl_cx_limits(cx)->file_bytes;
  size_t want = expected + 1;  // so that the end is seen without growing
  for (;;) {
    if (out->n > (size_t)limit)
      return hl_error_kind(cx, HL_LIMIT, (HlPos){0},
                           "cannot read %s: more than %lld bytes (limit file_bytes)", path,
                           (long long)limit);
    if (!base_buf_try_grow(out, want))
      return read_error(cx, path, ENOMEM);
    const ssize_t n = read(fd, out->at + out->n, out->capacity - out->n - 1);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return read_error(cx, path, errno);
    if (n == 0)
      break;
    out->n += (size_t)n;
    want = out->n < expected ? expected - out->n + 1 : CHUNK;
    if (out->n == expected)
      want = 1;
  }
  hl_buf_add(out, "", 0);
  return true;
}

static void close_file(void *fd) {
  close(*(const int *)fd);
}

static bool read_raw(HlCx *cx, const char *path, HlBuf *out) {
  const bool is_stdin = strcmp(path, "-") == 0;
  int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return read_error(cx, path, errno);
  if (!is_stdin)
    base_hold(&fd, close_file);
  struct stat info;
  bool ok = true;
  size_t expected = 0;
  if (fstat(fd, &info) == 0) {
    const int64_t limit = hl_cx_limits(cx)->file_bytes;
    if (S_ISDIR(info.st_mode))
      ok = read_error(cx, path, EISDIR);
    else if (S_ISREG(info.st_mode) && info.st_size > limit)
      ok = hl_error_kind(cx, HL_LIMIT, (HlPos){0},
                         "cannot read %s: its %lld bytes are more than %lld (limit file_bytes)",
                         path, (long long)info.st_size, (long long)limit);
    else if (S_ISREG(info.st_mode))
      expected = (size_t)info.st_size;
  }
  ok = ok && read_all(cx, path, fd, expected, out);
  if (!is_stdin) {
    base_drop(&fd);
    close(fd);
  }
  return ok;
}

// Text has no control characters but white space and escape; every binary form of a program has
// some near its start.
static bool looks_binary(HlStr bytes) {
  const size_t n = bytes.n < 8192 ? bytes.n : 8192;
  for (size_t k = 0; k < n; k++) {
    const unsigned char c = (unsigned char)bytes.at[k];
    if (c < 0x20 && !(c >= '\t' && c <= '\r') && c != 0x1b)
      return true;
  }
  return false;
}

// Takes over what was read.
static HlSource *unpack(HlCx *cx, const char *name, HlBuf *raw) {
  const HlStr bytes = {raw->at, raw->n};
  const bool is_binary = base_packing_of(bytes) != PACKED_NOT || looks_binary(bytes);
  HlSource *source = hl_source_take(name, raw, is_binary);
  HlBuf plain = {0};
  bool was = false;
  if (!hl_decompress(cx, (HlPos){source, 1}, hl_source_bytes(source), &plain, &was)) {
    hl_source_unref(source);
    return NULL;
  }
  if (was) {
    hl_source_unref(source);
    const bool plain_is_binary = looks_binary((HlStr){plain.at, plain.n});
    source = hl_source_take(name, &plain, plain_is_binary);
  }
  return source;
}

HlSource *hl_read_file(HlCx *cx, const char *path) {
  HlBuf raw = {0};
  if (read_raw(cx, path, &raw))
    return unpack(cx, shown_name(path, "<stdin>"), &raw);
  hl_buf_free(&raw);
  return NULL;
}

HlSource *hl_read_bytes(HlCx *cx, const char *name, const void *bytes, size_t n) {
  HlBuf raw = {0};
  hl_buf_add(&raw, bytes, n);
  return unpack(cx, name, &raw);
}

// --- Writing ---

static bool write_error(HlCx *cx, const char *path, int code) {
  return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot write %s: %s",
                       shown_name(path, "standard output"), strerror(code));
}

static bool write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    const ssize_t done = write(fd, bytes, n);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

// What cannot be replaced by renaming: standard output, a device, a pipe.
static bool write_in_place(HlCx *cx, const char *path, HlStr bytes) {
  const bool is_stdout = strcmp(path, "-") == 0;
  const int fd = is_stdout ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return write_error(cx, path, errno);
  const bool ok = write_all(fd, bytes.at, bytes.n);
  const int code = errno;
  if (!is_stdout)
    close(fd);
  return ok || write_error(cx, path, code);
}

// Opens a file beside `path` that did not exist; its name, on the heap, goes to *name. The start of a long name is
// enough: the whole of it and what is added might be too long.
static int open_beside(const char *path, char **name) {
  enum { KEPT = 200 };
  const char *slash = strrchr(path, '/');
  const size_t folder = slash ? (size_t)(slash + 1 - path) : 0, n = strlen(path);
  const int kept = (int)(n - folder > KEPT ? folder + KEPT : n);
  HlBuf buf = {0};
  for (int k = 0;; k++) {
    buf.n = 0;
    hl_buf_printf(&buf, "%.*s.%ld-%d.tmp", kept, path, (long)getpid(), k);
    const int fd = open(buf.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST || k == 1000) {
      *name = buf.at;
      return fd;
    }
  }
}

// Writes beside `path` and renames; `mode` is what the file had, or 0 for a new one.
static bool write_replacing(HlCx *cx, const char *path, mode_t mode, HlStr bytes) {
  char *name;
  const int fd = open_beside(path, &name);
  int code = fd < 0 ? errno : 0;
  if (fd >= 0) {
    if ((mode != 0 && fchmod(fd, mode) != 0) || !write_all(fd, bytes.at, bytes.n))
      code = errno;
    if (close(fd) != 0 && !code)
      code = errno;
    if (!code && rename(name, path) != 0)
      code = errno;
    if (code)
      unlink(name);
  }
  base_free(name);
  return !code || write_error(cx, path, code);
}

static bool write_raw(HlCx *cx, const char *path, HlStr bytes) {
  struct stat info;
  if (strcmp(path, "-") == 0)
    return write_in_place(cx, path, bytes);
  if (stat(path, &info) != 0)
    return write_replacing(cx, path, 0, bytes);
  if (S_ISDIR(info.st_mode))
    return write_error(cx, path, EISDIR);
  if (!S_ISREG(info.st_mode))
    return write_in_place(cx, path, bytes);
  char target[PATH_MAX];  // a symbolic link stays, what it names is replaced
  return write_replacing(cx, realpath(path, target) ? target : path, info.st_mode & 07777, bytes);
}

bool hl_write_file(HlCx *cx, const char *path, const void *bytes, size_t n) {
  const HlStr plain = {bytes, n};
  const Packing packing = base_packing_by_name(path);
  if (packing == PACKED_NOT)
    return write_raw(cx, path, plain);
  HlBuf packed = {0};
  const bool ok = base_compress(cx, packing, plain, &packed) &&
                  write_raw(cx, path, (HlStr){packed.at, packed.n});
  hl_buf_free(&packed);
  return ok;
}
