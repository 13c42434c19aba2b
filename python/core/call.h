// python/core/call.h: calls and their work, for the files of python/core.
#ifndef PYTHON_CORE_CALL_H
#define PYTHON_CORE_CALL_H

#include <jansson.h>

#include "core.h"
#include "hilo/session.h"

struct HiloCall {
  HlCx *cx;
  HlBuf out, said;
  HlFile file;                 // what was read last
  int64_t listen[4];           // addresses of Python's functions (hilo_core_call_new), and when they were asked last
  double listened;
  unsigned looks;              // so far: the clock is not asked at each
  void *raised[3];             // by a handler of signals: what PyErr_Fetch gives
  void *thread;
};

// A piece of work: all that it may be given, and what it makes.
typedef struct Job Job;
struct Job {
  HiloCall *call;
  HlCx *cx;
  bool (*run)(Job *job);
  const HlModule *m, *other;
  HlCompiled *compiled;
  HlCpuProgram *program;
  const char *text;
  const void *bytes;
  const int64_t *arrays;
  int64_t n;
  json_t *options;             // an object, or NULL: none
  HlBuf out;
  void *made;
  bool ended;
};

// Runs the job as a try, with options from a JSON text, which may be NULL. False after reporting: it failed, or said errors.
bool job_run(HiloCall *call, Job *job, const char *options);
// What the options say; NULL, false, 0 where they do not.
const char *job_text(const Job *job, const char *key);
bool job_flag(const Job *job, const char *key);
int64_t job_int(const Job *job, const char *key);
HlMaybeInt job_maybe(const Job *job, const char *key);
// A release of XLA by the option "xla"; false after reporting that there is none such.
bool job_dialect(const Job *job, HlDialect *out);

#endif
