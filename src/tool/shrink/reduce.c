// tool/shrink/reduce.c: shrinks a module that fails as long as it fails.
//
// Delta debugging: a move (tool/shrink/reduce.h) lists things that might be given up; all of them are tried at once, then each
// half, each quarter, down to one by one, and whatever goes stays away. Moves come in order of what they take away, and the
// whole round is done again until it changes nothing.
//
// Candidates are made here, by copying the best module and editing the copy, and asked about in child processes
// (tool/shrink/oracle.h), several at a time: they are the ones that come next if all before them turn out not to fail. Verdicts are
// taken in that order, so that the result is the same whatever the number of processes; where one fails, the others are given
// up. The best is in its file from the moment it is known.

#include "hilo/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/replay.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "tool/shrink/reduce.h"

enum { MOST_ROUNDS = 30, MOST_JOBS = 64 };

// --- Candidates -----------------------------------------------------------------------------------------

typedef struct Candidate {
  HlModule *m;
  HlLiteral **args;
  int n_args;
  uint64_t hash;
  HlBuf what;
  int at, count;  // of the list of things left
  Question question;
} Candidate;

static void drop(Candidate *c) {
  oracle_drop(&c->question);
  values_drop_args(c->args, c->n_args);
  hl_module_free(c->m);
  hl_buf_free(&c->what);
  *c = (Candidate){0};
}

// Of what the test may look at.
static uint64_t hash_of(Reducer *r, const Candidate *c) {
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(r->cx, c->m, &full, &text);
  uint64_t hash = hl_hash_bytes(text.at, text.n, 1);
  for (int k = 0; k < c->n_args && c->args; k++)
    hash = hl_hash_mix(hash, hl_literal_hash(c->args[k]));
  hl_buf_free(&text);
  return hash ? hash : 1;
}

bool reduce_is_valid(Reducer *r, const HlModule *m) {
  const int before = hl_cx_n_diags(r->cx);
  const bool ok = hl_verify(r->cx, m, NULL);
  hl_cx_forget(r->cx, before);
  return ok;
}

static bool has_args(Reducer *r, const Move *move, const int *thing, int n, Candidate *c) {
  if (!r->args)
    return true;
  const int before = hl_cx_n_diags(r->cx);
  c->args = move->make_args ? move->make_args(r, move, thing, n, &c->what) : values_args(r, c->m);
  hl_cx_forget(r->cx, before);
  c->n_args = c->m->entry->n_params;
  return c->args != NULL;
}

static int64_t count_params(const HlModule *m) {
  int64_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    n += comp->n_params;
  return n;
}

// Whether a candidate is less than the best, so that two moves do not undo each other for ever: it has fewer instructions,
// or as many of which more are parameters. Of some moves it is enough that it is not much more.
static bool is_less(const Reducer *r, const Move *move, const HlModule *m) {
  const int64_t now = hl_count_instructions(m), best = hl_count_instructions(r->m);
  if (move->any_size)
    return now <= 2 * best + 50;
  if (move->as_large)
    return now <= best;
  return now < best || (now == best && count_params(m) > count_params(r->m));
}

// The module without these things, as far as there is one that nobody has asked about yet.
static bool make(Reducer *r, const Move *move, const int *thing, int n, Candidate *c) {
  *c = (Candidate){.count = n};
  const int before = hl_cx_n_diags(r->cx);
  c->m = move->make ? move->make(r, move, thing, n, &c->what) : hl_clone(r->cx, r->m);
  hl_cx_forget(r->cx, before);
  if (!c->m) {
    hl_buf_free(&c->what);
    return false;
  }
  reduce_clean(c->m);
  if (!move->header)
    reduce_interface(r->m, c->m);
  hl_complete_entry_layout(c->m);
  reduce_schedule(c->m);
  bool ok = is_less(r, move, c->m) && has_args(r, move, thing, n, c);
  if (ok && r->is_valid && !(ok = reduce_is_valid(r, c->m)))
    r->out->invalid++;
  if (ok) {
    c->hash = hash_of(r, c);
    ok = !map_get(&r->seen, c->hash);
    r->out->repeated += !ok;
  }
  if (!ok)
    drop(c);
  return ok;
}

// --- The best -------------------------------------------------------------------------------------------

static bool write_best(Reducer *r) {
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(r->cx, r->m, &full, &text);
  bool ok = hl_write_file(r->cx, r->out->file, text.at, text.n);
  hl_buf_free(&text);
  return ok && (!r->args || oracle_write_args(r->cx, r->args, r->m->entry->n_params, r->out->args));
}

static bool accept(Reducer *r, const char *phase, Candidate *c) {
  const HlReduceStep step = {phase,
                             c->what.at ? c->what.at : "",
                             hl_count_instructions(r->m),
                             hl_count_instructions(c->m),
                             r->out->tries,
                             hl_now() - r->started};
  values_drop_args(r->args, r->m->entry->n_params);
  hl_module_free(r->m);
  r->m = c->m;
  r->args = c->args;
  c->m = NULL;
  c->args = NULL;
  *map_at(&r->seen, c->hash) = 1;
  if (r->options->step)
    r->options->step(r->options->user, &step);
  return write_best(r);
}

// --- Trying ---------------------------------------------------------------------------------------------

static void tell(Reducer *r, const char *phase) {
  const HlReduceProgress progress = {phase, hl_count_instructions(r->m), r->out->tries,
                                     hl_now() - r->started};
  if (r->options->progress)
    r->options->progress(r->options->user, &progress);
}

// In a try that is cancelled this is where it ends: the best is in its file.
static bool goes_on(Reducer *r) {
  base_look();
  if (hl_cx_is_cancelled(r->cx)) {
    hl_cx_resume(r->cx);
    r->out->end = HL_REDUCE_INTERRUPTED;
    r->stopped = true;
  } else if (r->options->seconds > 0 && hl_now() - r->started > r->options->seconds) {
    r->out->end = HL_REDUCE_TIME;
    r->stopped = true;
  }
  return !r->stopped;
}

// Candidates on their way, the oldest first.
typedef struct Line {
  Candidate *at[MOST_JOBS];
  int n;
} Line;

static Candidate *take_first(Line *line) {
  Candidate *first = line->at[0];
  line->n--;
  memmove(line->at, line->at + 1, (size_t)line->n * sizeof *line->at);
  return first;
}

static void give_up(Line *line) {
  for (; line->n > 0; line->n--) {
    drop(line->at[line->n - 1]);
    base_free(line->at[line->n - 1]);
  }
}

// What is not used up of a list of things.
typedef struct Left {
  int *at;
  int n, next;
} Left;

static bool fill(Reducer *r, const Move *move, Left *left, int size, Line *line) {
  const int jobs = r->options->jobs > 0 ? r->options->jobs : 1;
  while (line->n < (jobs < MOST_JOBS ? jobs : MOST_JOBS) && left->next < left->n && goes_on(r)) {
    Candidate *c = base_alloc(sizeof *c);
    const int n = left->n - left->next < size ? left->n - left->next : size;
    const bool made = make(r, move, left->at + left->next, n, c);
    c->at = left->next;
    left->next += n;
    if (!made) {
      base_free(c);
      continue;
    }
    line->at[line->n++] = c;
    if (!oracle_ask(&r->oracle, &c->question, c->m, c->args))
      return false;
    tell(r, move->phase);
  }
  return true;
}

// Waits for the verdict on the oldest. False after reporting, or when it is to stop.
static bool wait_for_first(Reducer *r, const Move *move, Line *line) {
  while (line->at[0]->question.verdict == OPEN) {
    if (!goes_on(r))
      return false;
    child_nap(&line->at[0]->question.child);
    for (int k = 0; k < line->n; k++)
      if (!oracle_look(&line->at[k]->question))
        return false;
    tell(r, move->phase);
  }
  return true;
}

static void use_up(Left *left, int at, int count) {
  memmove(left->at + at, left->at + at + count, (size_t)(left->n - at - count) * sizeof *left->at);
  left->n -= count;
  left->next = at;
}

// Goes once over what is left, so many things at a time. False after reporting, or when it is to stop.
static bool pass_over(Reducer *r, const Move *move, Left *left, int size, bool *changed) {
  Line line = {0};
  bool ok = true;
  left->next = 0;
  while (ok && (ok = fill(r, move, left, size, &line)) && line.n > 0) {
    if (!(ok = wait_for_first(r, move, &line)))
      break;
    Candidate *first = take_first(&line);
    // What was tried in vain beside it does not count, nor what was made before it was known that the same is not bad:
    // that would tell of processors.
    const bool repeated = map_get(&r->seen, first->hash);
    r->out->tries += !repeated;
    r->out->runs += repeated ? 0 : first->question.runs;
    if (first->question.verdict == BAD && !repeated) {
      give_up(&line);
      use_up(left, first->at, move->first_only ? left->n - first->at : first->count);
      *changed = true;
      ok = accept(r, move->phase, first);
    } else {
      *map_at(&r->seen, first->hash) = 1;
    }
    drop(first);
    base_free(first);
  }
  give_up(&line);
  return ok && !r->stopped;
}

bool reduce_try(Reducer *r, Move *move) {
  bool changed = false;
  Left left = {.at = base_alloc((size_t)(move->n + 1) * sizeof(int)), .n = move->n};
  for (int k = 0; k < move->n; k++)
    left.at[k] = k;
  for (int size = move->one_by_one ? 1 : move->n; size > 0; size = size == 1 ? 0 : (size + 1) / 2)
    if (r->stopped || left.n == 0 || !pass_over(r, move, &left, size, &changed))
      break;
  base_free(left.at);
  return changed;
}

// --- Rounds ---------------------------------------------------------------------------------------------

static int64_t size_of_best(Reducer *r) {
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(r->cx, r->m, &full, &text);
  const int64_t n = (int64_t)text.n;
  hl_buf_free(&text);
  return n;
}

static bool fails_still(const Reducer *r) {
  return !r->stopped && hl_cx_n_errors(r->cx) == 0;
}

static bool run_phase(Reducer *r, bool (*phase)(Reducer *)) {
  const HlMark mark = hl_arena_mark(r->arena);
  const bool changed = fails_still(r) && phase(r);
  hl_arena_release(r->arena, mark);
  return changed;
}

static bool is_left_out(const Reducer *r, bool (*phase)(Reducer *)) {
  return (phase == reduce_types && r->options->keep_types) ||
         ((phase == reduce_sizes || phase == reduce_dims || phase == reduce_ranks) &&
          r->options->keep_sizes);
}

static void run_rounds(Reducer *r) {
  static bool (*const phases[])(Reducer *) = {
      reduce_results, reduce_entry, reduce_cut,      reduce_results, reduce_zeros,
      reduce_inline,  reduce_cut,   reduce_operands, reduce_effects, reduce_constants,
      reduce_sizes,   reduce_dims,  reduce_types,    reduce_ranks,   reduce_others};
  for (int round = 0; round < MOST_ROUNDS && fails_still(r); round++) {
    const int64_t before = size_of_best(r);
    bool changed = false;
    for (int k = 0; k < HL_COUNT_OF(phases); k++)
      if (!is_left_out(r, phases[k]))
        changed |= run_phase(r, phases[k]);
    changed |= run_phase(r, reduce_attributes);
    if (!r->options->keep_inputs)
      changed |= run_phase(r, reduce_inputs) && round < 3;
    if (!changed || (size_of_best(r) >= before && round > 2))
      break;
  }
  if (!r->options->keep_names)
    run_phase(r, reduce_names);
}

// --- Beginning and end ------------------------------------------------------------------------------------

static const char *beside(HlArena *arena, const char *path) {
  const size_t n = strlen(path);
  const bool cut = n > 4 && strcmp(path + n - 4, ".hlo") == 0;
  return hl_arena_printf(arena, "%.*s.npz", (int)(cut ? n - 4 : n), path);
}

static bool take_args(Reducer *r, const HlModule *m) {
  const HlReplayOptions how = {.args = r->options->args,
                               .exported = r->options->exported,
                               .seed = r->test->seed,
                               .eval = {.seed = r->test->seed}};
  HlReplay inputs;
  const bool ok = hl_replay_inputs(r->cx, m, r->options->recorded, &how, &inputs);
  if (ok) {
    r->args = base_alloc((size_t)(inputs.n_params + 1) * sizeof *r->args);
    for (int k = 0; k < inputs.n_params; k++)
      r->args[k] = hl_literal_ref(inputs.args[0][k]);
  }
  hl_replay_free(&inputs);
  return ok && values_record(r);
}

static bool prepare(Reducer *r, const HlModule *m) {
  r->m = hl_clone(r->cx, m);
  if (!r->m)
    return false;
  hl_unique_names(r->m);
  r->is_valid = reduce_is_valid(r, r->m);
  r->out->before = r->out->after = hl_count_instructions(m);
  r->out->file = hl_arena_printf(r->out->arena, "%s", r->options->out);
  if (!oracle_open(r->cx, r->test, &r->oracle))
    return false;
  if (!r->oracle.wants_args)
    return true;
  r->out->args = beside(r->out->arena, r->options->out);
  return take_args(r, m);
}

static bool ask(Reducer *r, const HlModule *m, HlLiteral *const *args, Verdict *out) {
  const int64_t before = r->oracle.runs;
  const bool ok = oracle_wait(&r->oracle, m, args, out);
  r->out->runs += r->oracle.runs - before;
  return ok;
}

// Whether the module fails at all; that it does not is no error.
static bool fails(Reducer *r, bool *out) {
  Verdict verdict;
  tell(r, "first try");
  if (!ask(r, r->m, r->args, &verdict)) {
    goes_on(r);
    return r->stopped;
  }
  *out = verdict == BAD;
  return true;
}

// Reads the file that was written, and asks about it.
static bool verify_file(Reducer *r) {
  enum { TRIES = 3 };
  HlFile file = {0};
  if (!hl_load(r->cx, r->out->file, NULL, &file))
    return false;
  HlLiteral **args = r->args;
  HlReplay inputs = {0};
  bool ok = file.n == 1;
  if (ok && r->args) {
    const HlReplayOptions how = {.args = r->out->args};
    ok = hl_replay_inputs(r->cx, file.modules[0], NULL, &how, &inputs);
    args = ok ? inputs.args[0] : NULL;
  }
  for (int k = 0; ok && k < TRIES && !r->out->verified; k++) {
    Verdict verdict;
    ok = ask(r, file.modules[0], args, &verdict);
    r->out->verified = ok && verdict == BAD;
  }
  hl_replay_free(&inputs);
  hl_file_free(&file);
  if (!ok && hl_cx_is_cancelled(r->cx))
    goes_on(r);
  return ok || r->stopped;
}

static void keep_how(Reducer *r, const Outcome *outcome) {
  HlBuf how = {0};
  outcome_print(outcome, &how);
  r->out->how = hl_arena_strndup(r->out->arena, how.at, how.n);
  hl_buf_free(&how);
}

// Of the tests built in an exit status above 1 says that there is no result.
static bool could_not_ask(const Reducer *r) {
  const Outcome *it = &r->oracle.good;
  return r->test->ask != HL_ASK_COMMAND && r->test->bad == HL_BAD_SAME && it->end == CHILD_EXITED &&
         it->status >= HL_INVALID && it->status <= HL_LIMIT;
}

static bool reduce(Reducer *r) {
  bool bad = false;
  if (!fails(r, &bad))
    return false;
  keep_how(r, bad ? &r->oracle.first : &r->oracle.good);
  if (!bad && could_not_ask(r))
    return hl_error_kind(r->cx, (HlErrorKind)r->oracle.good.status, (HlPos){0},
                         "the test cannot be made: %s", r->out->how);
  if (!bad) {
    if (!r->stopped)
      r->out->end = HL_REDUCE_FINE;
    return true;
  }
  if (!write_best(r))
    return false;
  run_rounds(r);
  return hl_cx_n_errors(r->cx) == 0 && (r->out->end == HL_REDUCE_INTERRUPTED || verify_file(r));
}

bool hl_reduce(HlCx *cx, const HlModule *m, const HlTest *test, const HlReduceOptions *options,
               HlReduction *out) {
  *out = (HlReduction){.arena = hl_arena_new()};
  Reducer r = {.cx = cx,
               .test = test,
               .options = options,
               .out = out,
               .arena = hl_arena_new(),
               .started = hl_now()};
  const bool ok = prepare(&r, m) && reduce(&r);
  out->seconds = hl_now() - r.started;
  if (r.m && ok && out->end != HL_REDUCE_FINE) {
    out->m = r.m;
    out->after = hl_count_instructions(r.m);
  }
  values_drop_args(r.args, r.m ? r.m->entry->n_params : 0);
  if (!out->m)
    hl_module_free(r.m);
  values_free(&r.values);
  oracle_close(&r.oracle);
  map_free(&r.seen);
  hl_arena_free(r.arena);
  return ok;
}

void hl_reduction_free(HlReduction *reduction) {
  hl_module_free(reduction->m);
  if (reduction->arena)
    hl_arena_free(reduction->arena);
  *reduction = (HlReduction){0};
}
