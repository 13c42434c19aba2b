// cpu/pool/usable.c: how many threads this process may keep busy: by its affinity and by its control groups.
//
// A group's limit is a quota of time in a period, 200000 us in 100000 being two processors. Version 2 of control groups has both
// in one file, version 1 in two. All the groups above count as well. /proc/self/cgroup names the group, a line each hierarchy:
//
//   0::/user.slice/run-7.scope      version 2      /sys/fs/cgroup/user.slice/run-7.scope/cpu.max: "200000 100000"
//   4:cpu,cpuacct:/jobs/12          version 1      /sys/fs/cgroup/cpu/jobs/12/cpu.cfs_quota_us: "200000"
//
// In a container the name may be one from outside, of which nothing is to be seen in there: then its root counts, which is
// the group that it runs in.

#include "cpu/pool/usable.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "cpu/pool/pool.h"

enum { PATH = 4096, LINE = 4096 };

// --- Control groups -----------------------------------------------------------------------------

// The n numbers that a file begins with; false: it has not so many, or is not there ("max" and "-1" are none).
static bool read_numbers(const char *path, int n, int64_t *out) {
  char line[64] = "";
  FILE *f = fopen(path, "re");
  const char *at = f ? fgets(line, sizeof line, f) : NULL;
  if (f)
    fclose(f);
  for (int k = 0; k < n; k++) {
    if (!at || !is_digit(*at))
      return false;
    for (out[k] = 0; is_digit(*at) && out[k] < INT64_MAX / 16; at++)
      out[k] = 10 * out[k] + (*at - '0');
    at += *at == ' ';
  }
  return true;
}

static int processors(int64_t quota, int64_t period) {
  const int64_t n = period > 0 ? (quota + period - 1) / period : INT_MAX;
  return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

typedef int Limit(const char *folder);

static int limit_v2(const char *folder) {
  char path[PATH + 32];
  int64_t number[2];
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  return read_numbers(path, 2, number) ? processors(number[0], number[1]) : INT_MAX;
}

static int limit_v1(const char *folder) {
  char path[PATH + 32];
  int64_t quota, period;
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!read_numbers(path, 1, &quota))
    return INT_MAX;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return read_numbers(path, 1, &period) ? processors(quota, period) : INT_MAX;
}

// The least limit of a group and of those above it, up to the hierarchy's root.
static int least_limit(const char *root, const char *mount, const char *group, Limit *limit) {
  char path[PATH];
  const int top = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, mount);
  const int n = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, mount, group);
  int least = INT_MAX;
  if (top < 0 || n >= (int)sizeof path)
    return least;
  for (int end = n; end >= top; end--)
    if (end == n || end == top || path[end] == '/') {
      path[end] = '\0';
      const int here = limit(path);
      least = here < least ? here : least;
    }
  return least;
}

// Whether a list of names with commas between has "cpu".
static bool has_cpu(const char *names) {
  for (const char *at = names; *at;) {
    const size_t n = strcspn(at, ",");
    if (n == 3 && memcmp(at, "cpu", 3) == 0)
      return true;
    at += n + (at[n] == ',');
  }
  return false;
}

// A line of /proc/self/cgroup: NUMBER:CONTROLLERS:GROUP.
static int limit_of_line(const char *root, char *line) {
  line[strcspn(line, "\n")] = '\0';
  char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
  if (!group)
    return INT_MAX;
  *group++ = '\0';
  names++;
  if (!*names)
    return least_limit(root, "", group, limit_v2);
  if (!has_cpu(names))
    return INT_MAX;
  char mount[LINE];
  snprintf(mount, sizeof mount, "/%s", names);
  const int plain = least_limit(root, "/cpu", group, limit_v1),
            named = least_limit(root, mount, group, limit_v1);
  return plain < named ? plain : named;
}

int cpu_group_limit(const char *root) {
  char text[LINE];
  snprintf(text, sizeof text, "%s/proc/self/cgroup", root);
  FILE *f = fopen(text, "re");
  int least = INT_MAX;
  while (f && fgets(text, sizeof text, f)) {
    const int limit = limit_of_line(root, text);
    least = limit < least ? limit : least;
  }
  if (f)
    fclose(f);
  return least;
}

// --- Affinity -----------------------------------------------------------------------------------

static int affinity(void) {
#ifdef __linux__
  for (int most = 1024; most <= 1 << 20;
       most *= 4) {  // the kernel refuses a set that is too small for it
    cpu_set_t *set = CPU_ALLOC(most);
    const size_t size = CPU_ALLOC_SIZE(most);
    const int n = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (n > 0)
      return n;
  }
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

int cpu_usable_threads(void) {
  const int may = affinity(), limit = cpu_group_limit("");
  return may < limit ? may : limit;
}
