// tool/dumps/listing.h: the files under a directory, and which of them may be modules.
#ifndef TOOL_DUMPS_LISTING_H
#define TOOL_DUMPS_LISTING_H

#include "base/vec.h"
#include "hilo/base.h"

// What a file's name says; compression endings aside. Reports and side files of a dump end as modules do. What may be one or
// not is told by its content.
typedef enum ListingLook {
  LISTING_IS_MODULE,
  LISTING_MAY_BE_MODULE,
  LISTING_IS_NO_MODULE
} ListingLook;
ListingLook listing_look(const char *path);
// Whether a file is worth reading whole: by its first bytes, which do not tell of binary protos.
bool listing_may_be_module(const char *path, HlStr first_bytes);
bool listing_looks_inside(const char *path);  // the same; reads the first bytes

// Files that hilo itself keeps beside modules: an index, a journal.
bool listing_is_own(const char *path);

typedef struct ListingFile {
  const char *path;            // from the directory on
  int64_t size, mtime, ctime;  // times in nanoseconds
} ListingFile;
typedef struct Listing {
  HlArena *arena;  // of the paths
  VEC(ListingFile) files;
  int64_t unread_folders;  // that could not be opened; the first is named by a warning
} Listing;

// All regular files under a directory, folders of folders too, sorted by path; what starts with a dot is left out, and folders
// that are met again by a symbolic link. False after reporting that the directory cannot be read.
bool listing_read(HlCx *cx, const char *directory, Listing *out);
void listing_free(Listing *listing);

#endif
