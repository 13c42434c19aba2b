// tool/steps_json.c: what passes did, as JSON.

#include "tool/steps_json.h"
#include "tool/json.h"

void tool_steps_json(HlBuf *out, const char *key, const HlStep *steps, int n) {
  json_open(out, key, '[');
  for (int k = 0; k < n; k++) {
    if (steps[k].is_pipeline || steps[k].is_start)
      continue;
    json_open(out, NULL, '{');
    json_text(out, "pipeline", steps[k].pipeline);
    json_text(out, "pass", steps[k].pass);
    json_bool(out, "changed", steps[k].changed);
    json_int(out, "rewrites", steps[k].rewrites);
    json_int(out, "before", steps[k].before);
    json_int(out, "after", steps[k].after);
    json_number(out, "ms", steps[k].seconds * 1e3);
    json_close(out, '}');
  }
  json_close(out, ']');
}
