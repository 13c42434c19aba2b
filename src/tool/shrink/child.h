// tool/shrink/child.h: work in child processes, under limits of time and memory.
//
// A child is a command, or a function that runs in a copy of this process. It has a process group of its own, so that
// whatever it starts ends with it, nothing on its standard input, and a file that takes what it prints.
#ifndef TOOL_CHILD_H
#define TOOL_CHILD_H

#include <sys/types.h>

#include "hilo/base.h"

typedef enum ChildEnd {
  CHILD_RUNS,
  CHILD_EXITED,
  CHILD_SIGNALLED,
  CHILD_TIMED_OUT,
  CHILD_TOO_BIG
} ChildEnd;

typedef struct Child {
  pid_t pid, owner;
  const char *log;  // the file
  double started, seconds, looked;
  double time_limit;     // seconds; 0: none
  int64_t memory_limit;  // bytes of all its processes; 0: none
  ChildEnd end;
  int status;  // the exit status, or the signal
} Child;

typedef struct ChildJob {
  int (*work)(void *user);  // what it returns is the exit status; NULL: the command alone
  char *const *argv;        // runs then, if that was 0; ends with NULL; NULL: the function alone
  void *user;
  char *const *env;  // NAME=VALUE to be set for the command, ends with NULL; NULL: none
} ChildJob;

// The exit status where there is no such command; "cannot run 'WORD': WHY" is what it has printed then.
enum { CHILD_NO_COMMAND = 127 };

// Starts it; `child` has log and limits, and stays where it is until the child has ended. False after reporting.
bool child_start(HlCx *cx, Child *child, const ChildJob *job);
// Looks whether it has ended, or has to end; true: it has.
bool child_ended(Child *child);
// Ends it, whatever it does.
void child_kill(Child *child);
// Sleeps a little: longer, the longer `child` runs.
void child_nap(const Child *child);
// Waits for it. False when the work is not wanted any more (hl_cx_cancel): it is killed then.
bool child_wait(HlCx *cx, Child *child);

// A directory for a while, removed with the files in it when the try fails or it is closed.
typedef struct TempDir {
  char path[256];
  pid_t owner;
} TempDir;
bool temp_dir_open(HlCx *cx, TempDir *dir);
void temp_dir_close(TempDir *dir);

#endif
