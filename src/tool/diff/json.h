// tool/diff/json.h: what differs, as members of a JSON object (docs/json.md).
#ifndef TOOL_DIFF_JSON_H
#define TOOL_DIFF_JSON_H

#include "hilo/diff.h"

// `all`: instructions that are the same, too.
void diff_json(HlBuf *out, const HlDiff *diff, bool all);

#endif
