// pjrt/build.c: which build this is: release, and the linker's hash of all that the library consists of.
//
// Two builds of one release differ by it, so that what one of them left in a cache on disk is not taken by the other.

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/fingerprint.h"
#include "hilo/version.h"
#include "pjrt/plugin.h"

#define TEXT(number) #number
#define VERSION(major, minor, patch) "hilo " TEXT(major) "." TEXT(minor) "." TEXT(patch)

// Where the linker lays the library's own header.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static char version[128];
static uint64_t hash;

static size_t padded(size_t n) {
  return (n + 3) & ~(size_t)3;
}

// Appends the build's identity out of a list of notes; false: it is none of these.
static bool add_build(const char *at, size_t n) {
  ElfW(Nhdr) note;
  while (n >= sizeof note) {
    memcpy(&note, at, sizeof note);
    const size_t name = sizeof note + padded(note.n_namesz), size = name + padded(note.n_descsz);
    if (size > n)
      return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0) {
      char *to = version + strlen(version);
      *to++ = ' ';
      for (size_t k = 0; k < note.n_descsz && to + 3 < version + sizeof version; k++, to += 2)
        snprintf(to, 3, "%02x", (unsigned char)at[name + k]);
      return true;
    }
    at += size;
    n -= size;
  }
  return false;
}

static void find(void) {
  snprintf(version, sizeof version, "%s",
           VERSION(HL_VERSION_MAJOR, HL_VERSION_MINOR, HL_VERSION_PATCH));
  ElfW(Ehdr) head;
  memcpy(&head, __ehdr_start, sizeof head);
  for (int k = 0; k < head.e_phnum; k++) {
    ElfW(Phdr) part;
    memcpy(&part, __ehdr_start + head.e_phoff + (size_t)k * sizeof part, sizeof part);
    if (part.p_type == PT_NOTE && add_build(__ehdr_start + part.p_vaddr, part.p_memsz))
      break;
  }
  hash = base_fingerprint64(hl_str(version));
}

static void find_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
}

// Stands in keys of caches.
const char *platform_version(void) {
  find_once();
  return version;
}

uint64_t build_hash(void) {
  find_once();
  return hash;
}
