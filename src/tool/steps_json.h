// tool/steps_json.h: what passes did, as JSON: the `steps` of schemas/.
#ifndef TOOL_STEPS_JSON_H
#define TOOL_STEPS_JSON_H

#include "hilo/pass.h"

// Appends the array of all passes that ran, in order; pipelines are left out.
void tool_steps_json(HlBuf *out, const char *key, const HlStep *steps, int n);

#endif
