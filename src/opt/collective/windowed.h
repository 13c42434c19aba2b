// opt/collective/windowed.h: what the two halves of windowed-einsum-handler share.
#ifndef OPT_WINDOWED_H
#define OPT_WINDOWED_H

#include "hilo/pass.h"

// In which of a GPU's queues it runs, and which one it waits for besides others.
void windowed_set_queue(HlPass *p, HlInst *inst, int64_t queue);
void windowed_wait_for(HlPass *p, HlInst *inst, int64_t queue);
// Products beside all-to-alls, in pieces.
bool windowed_all_to_alls(HlPass *p);

#endif
