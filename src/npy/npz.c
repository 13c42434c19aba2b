// npz.c: named arrays in one file: a zip archive of .npy files.

#include "base/memory.h"
#include "npy/npy.h"

#include <string.h>

#define ENDING ".npy"

static bool has_ending(HlStr name) {
  const size_t n = sizeof ENDING - 1;
  return name.n >= n && memcmp(name.at + name.n - n, ENDING, n) == 0;
}

// Appends an array, whose reference becomes the archive's.
static void add_array(HlNpz *npz, HlStr name, HlLiteral *array) {
  HlBuf text = {0};
  hl_buf_add(&text, name.at, name.n);
  npz->names[npz->n] = text.at;
  npz->arrays[npz->n++] = array;
}

static void make_room(HlNpz *npz, int n) {
  npz->names = base_alloc(((size_t)n + 1) * sizeof *npz->names);
  npz->arrays = base_alloc(((size_t)n + 1) * sizeof *npz->arrays);
}

static bool read_member(HlCx *cx, const HlSource *source, const ZipEntry *entry, HlNpz *out) {
  HlBuf storage = {0};
  NpyView view;
  HlLiteral *array = NULL;
  if (zip_read(cx, source, entry, &storage, &view))
    array = npy_read(cx, &view);
  hl_buf_free(&storage);
  if (!array)
    return false;
  add_array(out, (HlStr){entry->name.at, entry->name.n - (sizeof ENDING - 1)}, array);
  return true;
}

// Several rows of a hostile directory may name the same bytes, so it is their sum that is limited.
static bool check_total(HlCx *cx, const HlSource *source, const ZipEntry *entries, int n) {
  const int64_t limit = hl_cx_limits(cx)->literal_bytes;
  uint64_t left = (uint64_t)limit;
  for (int k = 0; k < n; k++) {
    if (!has_ending(entries[k].name))
      continue;
    if (entries[k].size > left)
      return hl_error_kind(cx, HL_LIMIT, npy_pos(source, entries[k].listed),
                           "more than %lld bytes of arrays (limit literal_bytes)",
                           (long long)limit);
    left -= entries[k].size;
  }
  return true;
}

static bool read_archive(HlCx *cx, const HlSource *source, HlNpz *out) {
  HlArena *arena = hl_arena_new();
  ZipEntry *entries;
  int n = 0;
  bool ok = zip_list(cx, source, arena, &entries, &n) && check_total(cx, source, entries, n);
  if (ok)
    make_room(out, n);
  for (int k = 0; ok && k < n; k++)
    if (has_ending(entries[k].name))
      ok = read_member(cx, source, &entries[k], out);
  hl_arena_free(arena);
  return ok;
}

static bool read_single(HlCx *cx, const HlSource *source, HlNpz *out) {
  const NpyView view = {.bytes = hl_source_bytes(source), .source = source};
  make_room(out, 1);
  HlLiteral *array = npy_read(cx, &view);
  if (array)
    add_array(out, hl_str("arr_0"), array);
  return array;
}

bool hl_npz_read(HlCx *cx, const HlSource *source, HlNpz *out) {
  const HlStr bytes = hl_source_bytes(source);
  *out = (HlNpz){0};
  const bool ok = zip_is(bytes) ? read_archive(cx, source, out)
                  : npy_is(bytes)
                      ? read_single(cx, source, out)
                      : hl_error(cx, npy_pos(source, 0), "neither a .npz nor a .npy file");
  if (!ok)
    hl_npz_free(out);
  return ok;
}

bool hl_npz_load(HlCx *cx, const char *path, HlNpz *out) {
  HlSource *source = hl_read_file(cx, path);
  bool ok = source && hl_npz_read(cx, source, out);
  hl_source_unref(source);
  return ok;
}

void hl_npz_free(HlNpz *npz) {
  for (int k = 0; k < npz->n; k++) {
    base_free(npz->names[k]);
    hl_literal_unref(npz->arrays[k]);
  }
  base_free(npz->names);
  base_free(npz->arrays);
  *npz = (HlNpz){0};
}

const HlLiteral *hl_npz_find(const HlNpz *npz, const char *name) {
  for (int k = npz->n - 1; k >= 0; k--)
    if (strcmp(npz->names[k], name) == 0)
      return npz->arrays[k];
  return NULL;
}

static bool pack_one(HlCx *cx, ZipWriter *writer, const char *name, const HlLiteral *array,
                     bool deflated) {
  const int64_t size = npy_size(cx, array);
  HlBuf file = {0};
  hl_buf_printf(&file, "%s" ENDING, name);
  const bool ok = size >= 0 && zip_open(cx, writer, (HlStr){file.at, file.n}, (uint64_t)size);
  if (ok) {
    npy_write(array, writer->out);
    zip_close(writer, deflated);
  }
  hl_buf_free(&file);
  return ok;
}

bool hl_npz_pack(HlCx *cx, int n, const char *const *names, HlLiteral *const *arrays, bool deflated,
                 HlBuf *out) {
  ZipWriter writer = {.out = out, .start = out->n};
  bool ok = true;
  for (int k = 0; ok && k < n; k++)
    ok = pack_one(cx, &writer, names[k], arrays[k], deflated);
  if (ok)
    zip_end(&writer);
  else
    out->n = writer.start;
  hl_buf_free(&writer.directory);
  return ok;
}

bool hl_npz_write(HlCx *cx, const char *path, int n, const char *const *names,
                  HlLiteral *const *arrays) {
  HlBuf bytes = {0};
  const bool ok = hl_npz_pack(cx, n, names, arrays, false, &bytes) &&
                  hl_write_file(cx, path, bytes.at, bytes.n);
  hl_buf_free(&bytes);
  return ok;
}
