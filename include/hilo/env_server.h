// hilo/env_server.h: environments for any language: a line of JSON asks, a line of JSON answers (docs/env.md).
//
//   {"op": "load", "program": "m.hlo", "env": "gpu-fusion"}
//   {"ok": true, "state": {"module": "jit_f", "metric": "time", "value": 1.2e-05, ...}}
//   {"op": "choices", "most": 5}
//   {"ok": true, "choices": [{"choice": 17, "pass": "priority-fusion", ...}], "of": 72}
//   {"op": "step", "choose": [17]}
//   {"ok": true, "reward": 1.1e-06, "applied": 1, "state": {...}}
//   {"op": "step", "choose": [900]}
//   {"ok": false, "error": "there is no choice 900: there are 71, from 0"}
#ifndef HILO_ENV_SERVER_H
#define HILO_ENV_SERVER_H

#include "hilo/trajectory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlEnvServer HlEnvServer;
HlEnvServer *hl_env_server_new(void);
void hl_env_server_free(HlEnvServer *server);         // NULL is fine
// Answers a line (without its end) by one that is appended. False: it asked to end. What goes wrong is in the answer; `cx` is empty
// afterwards.
bool hl_env_server_answer(HlCx *cx, HlEnvServer *server, HlStr line, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
