// cpu/pool/copy.c: memory that is copied as it is, by all threads where there is much of it.

#include <string.h>

#include "cpu/pool/pool.h"

typedef struct Copy {
  char *to;
  const char *from;
  int64_t bytes;
} Copy;

enum { CHUNK = 1 << 18 };

static bool copy_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Copy *c = user;
  const int64_t at = chunk * CHUNK, left = c->bytes - at;
  memcpy(c->to + at, c->from + at, (size_t)(left < CHUNK ? left : CHUNK));
  return true;
}

bool cpu_copy(CpuTeam *team, void *to, const void *from, int64_t bytes) {
  const double a_byte = 1e-10;  // seconds
  Copy c = {to, from, bytes};
  if (bytes > CHUNK)
    return cpu_parallel(team, (bytes + CHUNK - 1) / CHUNK, a_byte * (double)bytes, copy_chunk, &c);
  if (bytes > 0)  // what is empty need not have an address
    memcpy(to, from, (size_t)bytes);
  return true;
}
