// tool/shrink/oracle.c: asks a test about modules.
//
// A built-in test is a function in a copy of this process, so that it costs what it computes and nothing to start; a command
// gets the module as text. What a run printed is in a file, for patterns and for the pass that a check names.

#include "tool/shrink/oracle.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/check_each.h"
#include "hilo/npy.h"
#include "hilo/replay.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "tool/shrink/xla.h"

// A difference that is nan or infinite has an exit status of its own, so that one of numbers stays one.
enum { MOST_LOG = 16 << 20, MOST_SAID = 400, DIFFERS_BEYOND_NUMBERS = 10 };
static const double first_limit = 600, least_limit = 10;  // seconds

// --- Files --------------------------------------------------------------------------------------------

static bool write_plain(HlCx *cx, const char *path, const HlBuf *text) {
  FILE *file = fopen(path, "wb");
  bool ok = file && fwrite(text->at, 1, text->n, file) == text->n;
  if (file && fclose(file) != 0)
    ok = false;
  return ok || hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot write %s", path);
}

bool oracle_write_args(HlCx *cx, HlLiteral *const *args, int n, const char *path) {
  HlArena *arena = hl_arena_new();
  int n_leaves = 0, number = 0;
  for (int k = 0; k < n; k++)
    n_leaves += (int)hl_shape_leaves(args[k]->shape);
  const char **names = HL_ARRAY(arena, const char *, n_leaves + 1);
  HlLiteral **arrays = HL_ARRAY(arena, HlLiteral *, n_leaves + 1);
  for (int k = 0; k < n; k++) {
    int n_own;
    const HlLiteral **leaf = hl_flatten(arena, args[k], &n_own);
    for (int i = 0; i < n_own; i++, number++) {
      names[number] = hl_arena_printf(arena, "a%d", number);
      arrays[number] = (HlLiteral *)leaf[i];
    }
  }
  const bool ok = hl_npz_write(cx, path, number, names, arrays);
  hl_arena_free(arena);
  return ok;
}

static bool write_text(const Question *q) {
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(q->oracle->cx, q->m, &full, &text);
  const bool ok = write_plain(q->oracle->cx, q->file, &text);
  hl_buf_free(&text);
  return ok;
}

// --- The tests that are built in, in the child --------------------------------------------------------

static void print_diags(HlCx *cx) {
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    hl_diag_render(hl_cx_diag(cx, k), false, &text);
  fwrite(text.at, 1, text.n, stdout);
  hl_buf_free(&text);
}

static int failed(HlCx *cx) {
  print_diags(cx);
  return hl_cx_n_errors(cx) > 0 ? (int)hl_cx_error_kind(cx) : HL_FAILED;
}

static HlRecorded record_of(const Question *q, HlLiteral ***room) {
  *room = (HlLiteral **)(uintptr_t)q->args;
  return (HlRecorded){.devices = 1, .n_arguments = q->n_args, .arguments = room};
}

static int how_it_differs(const HlMismatch *mm) {
  return mm->same_shape && isfinite(mm->actual) && isfinite(mm->expected) ? HL_DIFFERS
                                                                          : DIFFERS_BEYOND_NUMBERS;
}

// That all are equal is no answer where there is nothing that could differ. These are the last words then.
static int say_equal(int results, int silent) {
  if (results == 0)
    puts("there are no results to compare");
  else if (silent > 0)
    printf("%d of %d results ha%s no finite value, and that such are equal says nothing\n", silent,
           results, silent == 1 ? "s" : "ve");
  return 0;
}

static int answer(HlCx *cx, bool ok, bool compares, const HlReplay *replay) {
  int status = 0, silent = 0;
  if (!ok)
    return failed(cx);
  for (int k = 0; k < replay->n_leaves; k++) {
    const HlReplayLeaf *leaf = &replay->leaves[k];
    silent += leaf->compared && leaf->mismatch.equal && hl_is_silent(leaf->value);
    if (!leaf->compared || leaf->mismatch.equal)
      continue;
    printf("r%d differs\n", leaf->number);
    if (status != HL_DIFFERS)
      status = how_it_differs(&leaf->mismatch);
  }
  return status == 0 && compares ? say_equal(replay->n_compared, silent) : status;
}

static int ask_run(const Question *q) {
  const HlTest *test = q->oracle->test;
  HlCx *cx = q->oracle->cx;
  HlLiteral **room;
  const HlRecorded recorded = record_of(q, &room);
  const HlSessionOptions how = {.platform = test->platform};
  HlSession *session = hl_session_new(cx, &how);
  HlCompiled *compiled =
      session ? hl_compile(cx, session, &(HlProgram){.module = q->m}, NULL) : NULL;
  if (!compiled)
    return failed(cx);
  HlReplayOptions options = {.tolerance = test->tolerance,
                             .seed = test->seed,
                             .no_compare = !test->compare,
                             .no_reference = !test->compare,
                             .eval = {.seed = test->seed, .no_checks = true}};
  if (hl_session_platform(session)->has_programs &&
      !(options.program = hl_compiled_program(cx, compiled, NULL)))
    return failed(cx);
  HlReplay replay;
  return answer(cx, hl_replay(cx, q->m, &recorded, &options, &replay), test->compare, &replay);
}

static int ask_passes(const Question *q) {
  const HlTest *test = q->oracle->test;
  HlCx *cx = q->oracle->cx;
  HlLiteral **room;
  const HlRecorded recorded = record_of(q, &room);
  const HlCheckEachOptions how = {
      .tolerance = test->tolerance, .seed = test->seed, .recorded = &recorded};
  HlCheckEach check;
  if (!hl_check_each(cx, q->m, test->passes, test->engine, &how, &check))
    return failed(cx);
  if (check.differs)
    printf("pass %s, rule %s\n", check.step.pass, check.rewrite.rule ? check.rewrite.rule : "?");
  return check.differs ? how_it_differs(&check.mismatch) : say_equal(check.results, check.silent);
}

static int ask_xla(const Question *q) {
  const HlTest *test = q->oracle->test;
  HlCx *cx = q->oracle->cx;
  char name[32];
  snprintf(name, sizeof name, "xla%d", (int)getpid());
  const XlaRun run = {test->python, q->oracle->dir.path, name, test->xla_flags};
  const int status = xla_run(cx, q->m, q->args, &run);
  if (status > 128)  // XLA has died, and so does this
    raise(status - 128);
  if (status != 0 && hl_cx_n_errors(cx) == 0)
    return status == HL_UNSUPPORTED ? status : HL_FAILED;
  if (status != 0)
    return failed(cx);
  HlLiteral **room;
  const HlRecorded recorded = record_of(q, &room);
  const HlReplayOptions how = {.expect = xla_results(q->oracle->arena, &run),
                               .tolerance = test->tolerance,
                               .seed = test->seed,
                               .eval = {.seed = test->seed, .no_checks = true}};
  HlReplay replay;
  return answer(cx, hl_replay(cx, q->m, &recorded, &how, &replay), true, &replay);
}

static int ask_expect(const Question *q) {
  const HlTest *test = q->oracle->test;
  HlCx *cx = q->oracle->cx;
  HlLiteral **room;
  const HlRecorded recorded = record_of(q, &room);
  const HlReplayOptions how = {.expect = test->expect,
                               .tolerance = test->tolerance,
                               .seed = test->seed,
                               .eval = {.seed = test->seed, .no_checks = true}};
  HlReplay replay;
  return answer(cx, hl_replay(cx, q->m, &recorded, &how, &replay), true, &replay);
}

// In the child: makes the module, if it has to be made; a command gets it as a file then.
static int work(void *user) {
  Question *q = user;
  HlCx *cx = q->oracle->cx;
  hl_cx_clear(cx);
  if (q->make && !(q->m = q->make(q->user)))
    return failed(cx);
  switch (q->oracle->test->ask) {
  case HL_ASK_RUN: return ask_run(q);
  case HL_ASK_PASSES: return ask_passes(q);
  case HL_ASK_XLA: return ask_xla(q);
  case HL_ASK_EXPECT: return ask_expect(q);
  default: return !q->make || write_text(q) ? 0 : HL_FAILED;
  }
}

// --- The command --------------------------------------------------------------------------------------

static bool has(const HlTest *test, const char *part) {
  for (int k = 0; k < test->n_command; k++)
    if (strstr(test->command[k], part))
      return true;
  return false;
}

static char *put_in(HlArena *arena, const char *word, const char *part, const char *value) {
  HlBuf out = {0};
  const char *at = word;
  for (const char *found; (found = strstr(at, part)); at = found + strlen(part)) {
    hl_buf_add(&out, at, (size_t)(found - at));
    hl_buf_puts(&out, value);
  }
  hl_buf_puts(&out, at);
  char *text = hl_arena_strndup(arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

// The words with the names of files in them.
static char **words_of(HlArena *arena, const Question *q) {
  const HlTest *test = q->oracle->test;
  const bool shell = test->n_command == 1 && strpbrk(test->command[0], " \t");
  const bool named = has(test, "{}");
  char **argv = HL_ARRAY(arena, char *, test->n_command + 6);
  int n = 0;
  if (shell) {
    argv[n++] = (char *)(uintptr_t) "/bin/sh";
    argv[n++] = (char *)(uintptr_t) "-c";
  }
  for (int k = 0; k < test->n_command; k++)
    argv[n++] =
        put_in(arena, put_in(arena, test->command[k], "{}", q->file), "{args}", q->args_file);
  if (shell && !named) {
    argv[n - 1] = hl_arena_printf(arena, "%s \"$@\"", argv[n - 1]);
    argv[n++] = (char *)(uintptr_t) "sh";
  }
  if (!named)
    argv[n++] = (char *)(uintptr_t)q->file;
  return argv;
}

// --- Verdicts -----------------------------------------------------------------------------------------

void outcome_print(const Outcome *outcome, HlBuf *out) {
  switch (outcome->end) {
  case CHILD_SIGNALLED:
    hl_buf_printf(out, "signal %d (%s)", outcome->status, strsignal(outcome->status));
    break;
  case CHILD_TIMED_OUT: hl_buf_puts(out, "stopped at the limit of time"); break;
  case CHILD_TOO_BIG: hl_buf_puts(out, "stopped at the limit of memory"); break;
  default: hl_buf_printf(out, "exit status %d", outcome->status);
  }
  if (outcome->said && *outcome->said)
    hl_buf_printf(out, ", '%s'", outcome->said);
}

bool oracle_read_log(const char *path, HlBuf *out) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return false;
  char room[1 << 14];
  for (size_t n; out->n < MOST_LOG && (n = fread(room, 1, sizeof room, file)) > 0;)
    hl_buf_add(out, room, n);
  fclose(file);
  hl_buf_putc(out, 0);
  for (size_t k = 0; k + 1 < out->n; k++)
    if (out->at[k] == 0)
      out->at[k] = ' ';
  return true;
}

static bool log_matches(const Question *q) {
  HlBuf text = {0};
  const bool found = oracle_read_log(q->log, &text) && regex_matches(q->oracle->pattern, text.at);
  hl_buf_free(&text);
  return found;
}

const char *oracle_last_words(const Question *q, HlArena *arena) {
  HlBuf text = {0};
  const char *out = "";
  if (oracle_read_log(q->log, &text) && text.n > 1) {
    size_t n = text.n - 1;
    while (n > 0 && (text.at[n - 1] == '\n' || text.at[n - 1] == ' '))
      n--;
    size_t start = n;
    while (start > 0 && text.at[start - 1] != '\n' && n - start < MOST_SAID)
      start--;
    out = hl_arena_strndup(arena, text.at + start, n - start);
  }
  hl_buf_free(&text);
  return out;
}

static bool is_crash(const Outcome *o) {
  return o->end == CHILD_SIGNALLED || (o->end == CHILD_EXITED && o->status > 128);
}

static bool is_same(const Oracle *o, const Outcome *it) {
  if (it->end == CHILD_TIMED_OUT || it->end == CHILD_TOO_BIG)
    return false;
  if (!o->has_first)  // of the tests built in other exit statuses say that they could not be made
    return it->end == CHILD_SIGNALLED ||
           (o->test->ask == HL_ASK_COMMAND
                ? it->status != 0
                : it->status == HL_DIFFERS || it->status == DIFFERS_BEYOND_NUMBERS);
  return it->end == o->first.end && it->status == o->first.status &&
         strcmp(it->said, o->first.said) == 0;
}

static bool is_bad(const Question *q, const Outcome *it) {
  const HlTest *test = q->oracle->test;
  switch (test->bad) {
  case HL_BAD_ANY:
    return it->end == CHILD_SIGNALLED || (it->end == CHILD_EXITED && it->status != 0);
  case HL_BAD_ZERO: return it->end == CHILD_EXITED && it->status == 0;
  case HL_BAD_CRASH: return is_crash(it);
  case HL_BAD_HANG: return it->end == CHILD_TIMED_OUT;
  case HL_BAD_PATTERN: return log_matches(q);
  default: return is_same(q->oracle, it);
  }
}

static int runs_of(const HlTest *test) {
  return test->runs > 0 ? test->runs : 1;
}

static int need_of(const HlTest *test) {
  return test->need > 0 ? test->need : 1;
}

// That there is no such command is not what was asked.
static bool could_run(Question *q) {
  Oracle *o = q->oracle;
  HlBuf text = {0};
  const bool none = !o->has_first && o->test->ask == HL_ASK_COMMAND &&
                    q->child.end == CHILD_EXITED && q->child.status == CHILD_NO_COMMAND &&
                    oracle_read_log(q->log, &text) && strncmp(text.at, "cannot run ", 11) == 0;
  if (none)
    hl_error(o->cx, (HlPos){0}, "%.*s", (int)strcspn(text.at, "\n"), text.at);
  hl_buf_free(&text);
  return !none;
}

// Whether a run that is not bad says nothing, as it did not come to an end. What is looked for as it hangs has said that it does not.
static bool is_unknown(const HlTest *test, const Outcome *it) {
  if (it->end == CHILD_TIMED_OUT || it->end == CHILD_TOO_BIG)
    return test->bad != HL_BAD_HANG;
  return test->ask != HL_ASK_COMMAND && test->bad == HL_BAD_SAME && it->end == CHILD_EXITED &&
         it->status >= HL_INVALID && it->status <= HL_LIMIT;
}

static bool judge(Question *q) {
  Oracle *o = q->oracle;
  Outcome it = {q->child.end, q->child.status, ""};
  if (!could_run(q))
    return false;
  if (o->test->same_pass)
    it.said = oracle_last_words(q, o->arena);
  if (q->child.end == CHILD_EXITED && q->child.seconds > o->slowest)
    o->slowest = q->child.seconds;
  const bool bad = is_bad(q, &it);
  if (!bad && !o->has_first)
    o->good = (Outcome){it.end, it.status, oracle_last_words(q, o->arena)};
  if (bad && !o->has_first) {
    o->first = it;
    o->has_first = true;
  }
  if (!bad && is_unknown(o->test, &it)) {
    o->unknown++;
    o->why = (Outcome){it.end, it.status, oracle_last_words(q, o->arena)};
  }
  o->runs++;
  q->runs++;
  q->fails += bad;
  const int runs = runs_of(o->test), need = need_of(o->test);
  if (q->fails >= need)
    q->verdict = BAD;
  else if (q->fails + runs - q->runs < need)
    q->verdict = GOOD;
  return true;
}

// --- Asking -------------------------------------------------------------------------------------------

bool oracle_open(HlCx *cx, const HlTest *test, Oracle *out) {
  *out = (Oracle){.cx = cx, .test = test, .arena = hl_arena_new()};
  out->wants_args = test->ask != HL_ASK_COMMAND || has(test, "{args}");
  if (!temp_dir_open(cx, &out->dir))
    return false;
  out->pattern = test->pattern ? regex_new(cx, "pattern", test->pattern) : NULL;
  return !test->pattern || out->pattern;
}

void oracle_close(Oracle *o) {
  if (o->dir.owner)
    temp_dir_close(&o->dir);
  regex_free(o->pattern);
  if (o->arena)
    hl_arena_free(o->arena);
  *o = (Oracle){0};
}

static double limit_of(const Oracle *o) {
  if (o->test->time_limit > 0)
    return o->test->time_limit;
  const double several = 5 * o->slowest + 2;
  return !o->has_first ? first_limit : several > least_limit ? several : least_limit;
}

static bool start(Question *q) {
  Oracle *o = q->oracle;
  const int64_t memory = base_machine_memory();
  HlArena *arena = hl_arena_new();
  const ChildJob job = {
      .argv = o->test->ask == HL_ASK_COMMAND ? words_of(arena, q) : NULL, .work = work, .user = q};
  q->child = (Child){.log = q->log, .time_limit = limit_of(o)};
  q->child.memory_limit = o->test->memory_limit > 0 ? o->test->memory_limit
                          : memory < INT64_MAX      ? memory / 2
                                                    : 0;
  const bool ok = child_start(o->cx, &q->child, &job);
  hl_arena_free(arena);
  return ok;
}

static bool begin(Question *q) {
  Oracle *o = q->oracle;
  const int number = o->serial++;
  snprintf(q->file, sizeof q->file, "%s/t%d.hlo", o->dir.path, number);
  snprintf(q->args_file, sizeof q->args_file, "%s/t%d.npz", o->dir.path, number);
  snprintf(q->log, sizeof q->log, "%s/t%d.log", o->dir.path, number);
  const bool is_command = o->test->ask == HL_ASK_COMMAND;
  return (!is_command || q->make || write_text(q)) &&
         (!is_command || !o->wants_args ||
          oracle_write_args(o->cx, q->args, q->n_args, q->args_file)) &&
         start(q);
}

bool oracle_ask(Oracle *o, Question *q, const HlModule *m, HlLiteral *const *args) {
  *q = (Question){.m = m, .args = args, .n_args = m->entry->n_params, .oracle = o};
  return begin(q);
}

bool oracle_ask_made(Oracle *o, Question *q, HlModule *(*make)(void *user), void *user,
                     HlLiteral *const *args, int n_args) {
  *q = (Question){.make = make, .user = user, .args = args, .n_args = n_args, .oracle = o};
  return begin(q);
}

bool oracle_look(Question *q) {
  if (q->verdict != OPEN || !child_ended(&q->child))
    return true;
  return judge(q) && (q->verdict != OPEN || start(q));
}

void oracle_drop(Question *q) {
  if (!q->oracle)
    return;
  child_kill(&q->child);
  unlink(q->file);
  unlink(q->args_file);
  unlink(q->log);
  q->oracle = NULL;
}

bool oracle_finish(Question *q) {
  bool ok = true;
  while (ok && q->verdict == OPEN) {
    child_nap(&q->child);
    base_look();
    ok = !hl_cx_is_cancelled(q->oracle->cx) && oracle_look(q);
  }
  return ok;
}

bool oracle_wait(Oracle *o, const HlModule *m, HlLiteral *const *args, Verdict *out) {
  Question q;
  const bool ok = oracle_ask(o, &q, m, args) && oracle_finish(&q);
  *out = q.verdict;
  oracle_drop(&q);
  return ok;
}

// --- In words -----------------------------------------------------------------------------------------

void hl_test_rule(const HlTest *test, HlBuf *out) {
  switch (test->ask) {
  case HL_ASK_COMMAND:
    for (int k = 0; k < test->n_command; k++)
      hl_buf_printf(out, "%s%s", k > 0 ? " " : "", test->command[k]);
    break;
  case HL_ASK_RUN:
    hl_buf_printf(out, "%s %s", test->compare ? "the interpreter against" : "running on",
                  test->platform);
    break;
  case HL_ASK_PASSES: hl_buf_printf(out, "results before and after %s", test->passes); break;
  case HL_ASK_EXPECT: hl_buf_puts(out, "the interpreter's results"); break;
  case HL_ASK_XLA: hl_buf_puts(out, "the interpreter against XLA"); break;
  }
}
