// tool/dumps/listing.c: the files under a directory, and which of them may be modules.
#include "tool/dumps/listing.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/memory.h"
#include "hilo/tool.h"

static bool ends_with(HlStr name, const char *end) {
  const size_t n = strlen(end);
  return name.n >= n && memcmp(name.at + name.n - n, end, n) == 0;
}

// --- What names and first bytes tell --------------------------------------------------------------

bool listing_is_own(const char *path) {
  static const char *const names[] = {"hilo-index.db",     "hilo-index.db-wal",
                                      "hilo-index.db-shm", "hilo-index.db-journal",
                                      "hilo-index.jsonl",  "hilo-clean.jsonl"};
  const char *slash = strrchr(path, '/');
  for (int k = 0; k < HL_COUNT_OF(names); k++)
    if (strcmp(slash ? slash + 1 : path, names[k]) == 0)
      return true;
  return false;
}

ListingLook listing_look(const char *path) {
  static const char *const no[] = {"-buffer-assignment.txt",
                                   "-buffer-assignment-values.txt",
                                   "-live-range.txt",
                                   "-memory-usage-report.txt",
                                   "-memory-usage-report.pb",
                                   "thunk_sequence.txt",
                                   "thunk_sequence_after_thunk_passes.txt",
                                   "thunk_metadata.txt",
                                   "priority_fusion_dump.txt",
                                   "compile_options.textproto",
                                   "topology.textproto",
                                   "autotune_results.pbtxt",
                                   ".config.pbtxt",
                                   "execution_options.txt",
                                   ".debug_options",
                                   "-allocation-info.txt",
                                   "gpu_target_config.pbtxt",
                                   "README.txt",
                                   ".npz",
                                   ".npy"};
  static const char *const yes[] = {".hlo",
                                    ".hlotxt",
                                    ".hlo.pb",
                                    ".hlo.pbtxt",
                                    ".hlo_proto",
                                    ".hlo_snapshot.pb",
                                    ".snapshot.pb",
                                    ".mlir",
                                    ".mlirbc",
                                    ".mlir.bc",
                                    ".jaxpr",
                                    "before_optimizations.txt",
                                    "after_optimizations.txt"};
  HlStr stem = hl_str(path);
  if (ends_with(stem, ".gz"))
    stem.n -= 3;
  else if (ends_with(stem, ".zst"))
    stem.n -= 4;
  for (int k = 0; k < HL_COUNT_OF(no); k++)
    if (ends_with(stem, no[k]))
      return LISTING_IS_NO_MODULE;
  if (listing_is_own(path))
    return LISTING_IS_NO_MODULE;
  for (int k = 0; k < HL_COUNT_OF(yes); k++)
    if (ends_with(stem, yes[k]))
      return LISTING_IS_MODULE;
  return LISTING_MAY_BE_MODULE;
}

bool listing_may_be_module(const char *path, HlStr first_bytes) {
  static const char *const packings[] = {"\x1f\x8b", "\x28\xb5\x2f\xfd"};
  for (int k = 0; k < HL_COUNT_OF(packings); k++)
    if (first_bytes.n > 4 && memcmp(first_bytes.at, packings[k], strlen(packings[k])) == 0)
      return true;
  return ends_with(hl_str(path), ".pb") || hl_format_is_program(hl_format_of(first_bytes));
}

bool listing_looks_inside(const char *path) {
  char bytes[4096];
  FILE *file = fopen(path, "rb");
  const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file)
    fclose(file);
  return listing_may_be_module(path, (HlStr){bytes, n});
}

// --- Directories --------------------------------------------------------------------------------

enum { DEEPEST = 32 };

typedef struct Walk {
  HlCx *cx;
  Listing *out;
  const char *directory;
  Map seen;  // folders, by device and inode
} Walk;

static void close_directory(void *dir) {
  closedir(dir);
}

static int64_t nanoseconds(struct timespec t) {
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t key_of(const struct stat *st) {
  const uint64_t key = hl_hash_mix((uint64_t)st->st_dev, (uint64_t)st->st_ino);
  return key ? key : 1;
}

static void note_unread(Walk *walk, const char *path) {
  if (walk->out->unread_folders++ == 0)
    hl_warn(walk->cx, (HlPos){0}, "cannot open the directory %s: %s", path, strerror(errno));
}

static void walk_folder(Walk *walk, const char *folder, int depth);

static void take_entry(Walk *walk, const char *folder, const char *name, int depth) {
  struct stat st;
  const char *path = *folder ? hl_arena_printf(walk->out->arena, "%s/%s", folder, name)
                             : hl_arena_strndup(walk->out->arena, name, strlen(name));
  HlBuf whole = {0};
  hl_buf_printf(&whole, "%s/%s", walk->directory, path);
  const bool there = stat(whole.at, &st) == 0;
  hl_buf_free(&whole);
  if (there && S_ISREG(st.st_mode)) {
    const ListingFile file = {path, st.st_size, nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
    vec_push(&walk->out->files, file);
  } else if (there && S_ISDIR(st.st_mode) && depth < DEEPEST &&
             !map_get(&walk->seen, key_of(&st))) {
    *map_at(&walk->seen, key_of(&st)) = 1;
    walk_folder(walk, path, depth + 1);
  }
}

static void walk_folder(Walk *walk, const char *folder, int depth) {
  HlBuf whole = {0};
  hl_buf_printf(&whole, *folder ? "%s/%s" : "%s", walk->directory, folder);
  DIR *dir = opendir(whole.at);
  if (!dir)
    note_unread(walk, whole.at);
  hl_buf_free(&whole);
  if (!dir)
    return;
  base_hold(dir, close_directory);
  for (struct dirent *entry; (entry = readdir(dir));)
    if (entry->d_name[0] != '.')
      take_entry(walk, folder, entry->d_name, depth);
  base_drop(dir);
  closedir(dir);
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const ListingFile *)a)->path, ((const ListingFile *)b)->path);
}

bool listing_read(HlCx *cx, const char *directory, Listing *out) {
  *out = (Listing){.arena = hl_arena_new()};
  DIR *dir = opendir(directory);
  if (!dir) {
    hl_error(cx, (HlPos){0}, "cannot open the directory %s: %s", directory, strerror(errno));
    return false;
  }
  closedir(dir);
  Walk walk = {cx, out, directory, {0}};
  walk_folder(&walk, "", 0);
  map_free(&walk.seen);
  if (out->files.n > 0)
    qsort(out->files.at, (size_t)out->files.n, sizeof *out->files.at, by_path);
  return true;
}

void listing_free(Listing *listing) {
  hl_arena_free(listing->arena);
  vec_free(&listing->files);
  *listing = (Listing){0};
}
