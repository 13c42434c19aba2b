// The versions of VHLO, by number and by what reads them.
#include <stdio.h>
#include <string.h>

#include "mlir/bytecode/bytecode.h"

#define V(major, minor, patch) \
  { major, minor, patch }
static const HlMlRelease releases[] = {
#define ML_RELEASE(jaxlib, newest, week_4, week_12) {jaxlib, newest, week_4, week_12},
#include "mlir/bytecode/releases.def"
};
#undef V

const HlMlRelease *hl_ml_releases(int *n) {
  *n = HL_COUNT_OF(releases);
  return releases;
}

HlMlVersion hl_ml_portable_version(void) {
  return releases[HL_COUNT_OF(releases) - 1].week_12;
}

bool hl_ml_version_of(const char *text, HlMlVersion *out) {
  const HlMlRelease *last = &releases[HL_COUNT_OF(releases) - 1];
  const struct {
    const char *word;
    HlMlVersion version;
  } words[] = {{"newest", last->newest}, {"week_4", last->week_4}, {"week_12", last->week_12}};
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    if (strcmp(text, words[k].word) == 0) {
      *out = words[k].version;
      return true;
    }
  char more;
  HlMlVersion version = {0};
  const int n =
      sscanf(text, "%6d.%6d.%6d%c", &version.major, &version.minor, &version.patch, &more);
  if (n < 2 || n > 3 || strspn(text, "0123456789.") != strlen(text))
    return false;
  *out = version;
  return true;
}
