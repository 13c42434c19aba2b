// tool/session.h: what the files of the compile session share.
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "hilo/session.h"
#include "tool/dump.h"

typedef struct SessionCall {
  const char *target;
  HlCustomCall *kernel;
  void *user;
  struct SessionCall *next;
} SessionCall;

struct HlSession {
  HlArena *arena;
  const HlPlatform *platform;
  const HlTarget *target;  // NULL: none
  HlFlags flags;
  HlDumpAs dump_as;
  HlTuning *tuning;  // what the flags say was measured; NULL: no file is given
  HlTuning *tuned;   // under the lock: what was chosen, if a file for it is given
  DumpCount dumped;  // of the compilations, which may run side by side
  pthread_mutex_t lock;
  SessionCall *calls;  // newest first; under the lock, as is the arena once the session is made
};

struct HlCompiled {
  atomic_int references;
  HlArena *arena;  // of all below
  HlModule *m;
  HlEngine *engine;
  const HlBuffers *buffers;
  HlDevices devices;
  HlReport report;
  HlFlags flags;         // the dumper's, which may outlive the session
  pthread_mutex_t lock;  // of the dumper, which executions use
  HlDumper *dumper;      // NULL: no dumps
};

// Adds what passes chose in one compilation, and writes the file of --xla_gpu_dump_autotune_results_to anew.
bool session_note_choices(HlCx *cx, HlSession *s, const HlTuning *tuned);

#endif
