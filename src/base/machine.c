// base/machine.c: what the machine has.

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"

// The bytes that a file of the system says, or INT64_MAX where it says none ("max", no such file).
static int64_t read_limit(const char *path) {
  char text[32] = "";
  FILE *f = fopen(path, "re");
  if (!f)
    return INT64_MAX;
  int64_t bytes = 0;
  for (const char *at = fgets(text, sizeof text, f); at && *at >= '0' && *at <= '9'; at++)
    if (__builtin_mul_overflow(bytes, 10, &bytes) ||
        __builtin_add_overflow(bytes, *at - '0', &bytes))
      bytes = INT64_MAX;
  fclose(f);
  return bytes > 0 ? bytes : INT64_MAX;
}

int64_t base_machine_memory(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  int64_t bytes = pages > 0 && size > 0 ? (int64_t)pages * size : INT64_MAX;
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (int k = 0; k < 2; k++) {
    const int64_t limit = read_limit(limits[k]);
    bytes = limit < bytes ? limit : bytes;
  }
  return bytes;
}
