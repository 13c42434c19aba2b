// tool/shrink/oracle.h: asks a test (hilo/reduce.h) about modules, several at a time, each in child processes.
#ifndef TOOL_ORACLE_H
#define TOOL_ORACLE_H

#include "hilo/reduce.h"
#include "tool/regex.h"
#include "tool/shrink/child.h"

// How a run ended.
typedef struct Outcome {
  ChildEnd end;
  int status;        // exit status or signal
  const char *said;  // with same_pass: what it printed, in the oracle's arena; else ""
} Outcome;

typedef struct Oracle {
  HlCx *cx;
  const HlTest *test;
  HlArena *arena;
  TempDir dir;
  Regex *pattern;
  bool wants_args;  // the test looks at arguments
  bool has_first;   // what the first module gave is known
  Outcome first;
  Outcome good;    // until then: how the last run ended, and its last words
  double slowest;  // of runs that were not stopped, seconds
  int64_t runs;
  int64_t unknown;  // runs that say nothing: they were stopped at a limit, or a test built in could not be made
  Outcome why;      // the last of these
  int serial;
} Oracle;

bool oracle_open(HlCx *cx, const HlTest *test, Oracle *out);
void oracle_close(Oracle *o);

// A module that is asked about.
typedef enum Verdict { OPEN, BAD, GOOD } Verdict;
typedef struct Question {
  const HlModule *m;  // borrowed, as are the arguments, until there is a verdict
  HlModule *(*make)(
      void *
          user);  // makes it in the child, where it may crash, too; NULL: it is there. NULL after reporting.
  void *user;
  HlLiteral *const *args;  // by entry parameter; NULL where they are not wanted
  int n_args;
  Oracle *oracle;
  Child child;
  char file[320], args_file[320], log[320];
  int runs, fails;
  Verdict verdict;
} Question;

// Writes the files and starts the first run. False after reporting. `q` stays where it is until oracle_drop.
bool oracle_ask(Oracle *o, Question *q, const HlModule *m, HlLiteral *const *args);
// The same of a module that is made in the child.
bool oracle_ask_made(Oracle *o, Question *q, HlModule *(*make)(void *user), void *user,
                     HlLiteral *const *args, int n_args);
// Looks, starts the next run where one is due. False after reporting.
bool oracle_look(Question *q);
void oracle_drop(Question *q);  // ends what runs, removes the files
// Asks and waits. The first module asked about says what counts as the same failure. False after reporting, or when
// cancelled.
bool oracle_wait(Oracle *o, const HlModule *m, HlLiteral *const *args, Verdict *out);
// Waits for a verdict on what was asked. False after reporting, or when cancelled.
bool oracle_finish(Question *q);
// The last line or so of what the last run printed, in words for messages; in the arena.
// All that the last run printed; false: nothing. Appended, zeros as blanks.
bool oracle_read_log(const char *path, HlBuf *out);
const char *oracle_last_words(const Question *q, HlArena *arena);
// Arguments as an array file: a0, a1, ..., tuples flattened.
bool oracle_write_args(HlCx *cx, HlLiteral *const *args, int n, const char *path);
void outcome_print(const Outcome *outcome, HlBuf *out);

#endif
