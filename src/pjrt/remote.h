// pjrt/remote.h: several processes whose devices work together.
#ifndef HILO_PJRT_REMOTE_H
#define HILO_PJRT_REMOTE_H

#include "pjrt/plugin.h"

// What the client lends for finding the others: a store of keys and values that all processes see.
typedef struct KeyValues {
  PJRT_KeyValueGetCallback get;
  void *get_user;
  PJRT_KeyValuePutCallback put;
  void *put_user;
} KeyValues;

// Tells the others how many devices are here, and hears it of them: count[process]. NULL, and *error says why.
Remote *remote_new(const KeyValues *store, int here, int processes, int local, int *count,
                   PJRT_Error **error);
void remote_free(Remote *remote);                // NULL is fine

// One execution on devices of several processes: to be handed to Hilo. The run of a program is known by the
// program's fingerprint and by how often it has run, which is the same in all processes.
typedef struct RemoteRun RemoteRun;
RemoteRun *remote_begin(Remote *remote, const uint64_t *fingerprint, const int *process);
const HlRemote *remote_run(const RemoteRun *run);
void remote_end(RemoteRun *run, bool good);      // of one that failed here the others are told

#endif
