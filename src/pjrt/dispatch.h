// pjrt/dispatch.h: work that goes on after the call that asked for it has returned.
#ifndef HILO_PJRT_DISPATCH_H
#define HILO_PJRT_DISPATCH_H

#include <stdbool.h>

typedef struct Dispatcher Dispatcher;
Dispatcher *dispatcher_new(void);                // NULL: no memory
void dispatcher_free(Dispatcher *dispatcher);    // waits for all work; NULL is fine

typedef struct DispatchJob {
  void (*work)(struct DispatchJob *job);         // which owns the job
  struct DispatchJob *next;
} DispatchJob;
// Does the work on a thread of the dispatcher's, in the order of the calls where threads are few.
void dispatch(Dispatcher *dispatcher, DispatchJob *job);
// Counts work that was promised, in which there may be other work to wait for; waits while there is very much of it, unless the caller
// is itself such work.
void dispatch_promise(Dispatcher *dispatcher);
void dispatch_kept(Dispatcher *dispatcher);
// This thread, if it is the dispatcher's, waits for others from now on (or not any more): another may work in its place.
void dispatch_blocks(bool blocks);

#endif
