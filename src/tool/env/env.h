// tool/env/env.h: what the files of this room share.
#ifndef TOOL_ENV_H
#define TOOL_ENV_H

#include "hilo/trajectory.h"

// Metrics that are measured.
typedef struct EnvJudge {
  const char *name, *unit, *meaning;
  bool (*judge)(HlCx *cx, void *user, const HlModule *m, double *out);
} EnvJudge;
const EnvJudge *env_judge_at(int k);  // NULL after the last
const EnvJudge *env_judge_find(const char *name);

const HlTarget *env_target(const HlModule *m, const HlEnvSetting *setting);
HlEnvOptions env_options_of(const HlModule *m, const HlEnvSetting *setting);

// A hash as files have it: "0123456789abcdef".
enum { ENV_HASH_ROOM = 17 };
const char *env_hash_text(uint64_t hash, char *room);

// Members of a JSON object: what is chosen; what it costs. A double with all its digits.
void env_choice_json(HlBuf *out, const HlEnvChoice *choice);
void env_costs_json(HlBuf *out, const HlEnvCosts *costs);
void env_double_json(HlBuf *out, const char *key, double value);

#endif
