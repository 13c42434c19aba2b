// hilo/batch.h: many environments (hilo/env.h) played at once by threads.
//
//   HlBatch *b = hl_batch_new(cx, env, 64, &(HlBatchOptions){0});
//   for (int k = 0; k < 64; k++)
//     hl_batch_send(cx, b, k, action[k], n[k]);
//   for (int left = 64; left > 0;) {
//     int which[64], n = hl_batch_receive(b, 8, which);              // as soon as 8 are ready
//     ...
//   }
//   hl_batch_free(b);
//
// What comes out does not depend on how many threads there are: each environment is played by one at a time, with a context and a
// generator of random numbers of its own.
#ifndef HILO_BATCH_H
#define HILO_BATCH_H

#include "hilo/env.h"
#include "hilo/observe.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlBatch HlBatch;
typedef struct HlBatchOptions {
  int threads;                 // 0: as many as this process may use
  const HlObservation *form;   // what is observed after each step, on the thread that made it; NULL: nothing
  uint64_t seed;               // environment k begins with seed + k
} HlBatchOptions;

// So many environments of the same module. NULL after reporting. Options may be NULL.
HlBatch *hl_batch_new(HlCx *cx, const HlEnv *env, int n, const HlBatchOptions *options);
void hl_batch_free(HlBatch *batch);                   // waits for what is under way; NULL is fine
int hl_batch_size(const HlBatch *batch);

// Asks for a step of an environment that waits for one; the action is copied. Where its game is over, another begins instead, and
// the action is not looked at. n = 0: a step that chooses nothing. n = -1: another game begins, with the seed action[0]; n = -2: with
// action[0] | action[1] << 32. False after reporting: it is under way, or this is a child of the process that made the batch.
bool hl_batch_send(HlCx *cx, HlBatch *batch, int env, const int *action, int n);
// Waits until `most` of those that were asked are done, or all; which they are, in the order in which they became so. How many.
int hl_batch_receive(HlBatch *batch, int most, int *envs);
bool hl_batch_is_under_way(HlBatch *batch, int env);  // sent and not received

// What came of an environment's last step, until the next one is asked for.
typedef struct HlBatchStep {
  HlEnvStep step;
  bool is_reset;               // another game has begun: no reward
  const char *error;           // NULL: none; then a step asked for begins another game
} HlBatchStep;
HlBatchStep hl_batch_step(const HlBatch *batch, int env);
// While nothing is under way there.
HlEnv *hl_batch_env(HlBatch *batch, int env);
HlObserver *hl_batch_observer(HlBatch *batch, int env);  // NULL: nothing is observed

#ifdef __cplusplus
}
#endif
#endif
