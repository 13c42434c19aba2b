// cpu/program/run.c: runs the steps of a program on one device.

#include "base/memory.h"
#include "cpu/program/program.h"

#include <string.h>

static void *address(const CpuFrame *frame, CpuPlace place) {
  return (char *)frame->base[place.allocation] + place.offset;
}

// Where arguments and results stand is the caller's to say. What begins with an argument's elements gets them.
static bool set_bases(const CpuRun *run) {
  const HlCpuProgram *p = run->program;
  void **base = run->frame->base;
  for (int k = 0; k < p->n_memories; k++) {
    const CpuMemory *m = &p->memory[k];
    if (m->kind == MEMORY_ARGUMENT)
      base[k] = (void *)(uintptr_t)run->argument[m->leaf];
    else if (m->kind == MEMORY_RESULT)
      base[k] = run->result[m->leaf];
    if (m->donor >= 0 && m->kind != MEMORY_ARGUMENT && base[k] != run->argument[m->donor] &&
        !cpu_copy(run->frame->team, base[k], run->argument[m->donor], m->bytes))
      return false;
  }
  return true;
}

// The kernel that holds it begins anew.
static void forget(const CpuFrame *frame, int32_t held) {
  memset(frame->base[held], 0, sizeof(int64_t));
}

static bool copy_endings(const CpuRun *run) {
  const HlCpuProgram *p = run->program;
  for (int k = 0; k < p->n_endings; k++) {
    const int result = p->ending[k].result;
    if (!cpu_copy(run->frame->team, run->result[result], address(run->frame, p->ending[k].from),
                  p->result[result].bytes))
      return false;
  }
  return true;
}

// --- Steps -----------------------------------------------------------------------------------------

static bool failed(const CpuRun *run, const CpuStep *step, const char *why) {
  base_look();
  if (why)
    return hl_error_kind(run->cx, HL_FAILED, hl_pos(step->inst), "%s: %s", step->inst->name->text,
                         why);
  return hl_error_kind(run->cx, HL_LIMIT, hl_pos(step->inst), "%s: out of memory",
                       step->inst->name->text);
}

static bool too_many(const CpuRun *run, const CpuStep *step, int64_t limit) {
  return hl_error_kind(run->cx, HL_LIMIT, hl_pos(step->inst),
                       "%s: more than %lld steps were run (limit eval_steps)",
                       step->inst->name->text, (long long)limit);
}

// *steps: of the run so far; what the loop stands for counts.
static bool run_loop(const CpuRun *run, const CpuStep *step, int64_t *steps) {
  const int64_t limit = hl_cx_limits(run->cx)->eval_steps, left = limit - --*steps - step->n_test;
  const int64_t most = limit <= 0 ? INT64_MAX : left < 0 ? 0 : left / step->n_turn + 1;
  for (int64_t done = 0; done < most; base_look()) {
    int64_t turns = cpu_loop_turns(step->loop);
    turns = turns < most - done ? turns : most - done;
    const bool ended = cpu_loop_run(step->loop, run->frame->buffer, &turns);
    done += turns;
    if (ended) {
      *steps += done * step->n_turn + step->n_test;
      return true;
    }
    if (cpu_team_stopped(run->frame->team))
      return false;
  }
  return too_many(run, step, limit);
}

static bool compute(const CpuRun *run, const CpuStep *step, int64_t *steps) {
  void **buffer = run->frame->buffer;
  for (int k = 0; k < step->n_places; k++)
    buffer[k] = address(run->frame, step->place[k]);
  if (step->kind == STEP_COPY)
    return cpu_copy(run->frame->team, buffer[1], buffer[0], step->bytes) || failed(run, step, NULL);
  if (step->kind == STEP_INTERPRET)
    return cpu_interpret(run->in, step, buffer);
  if (step->kind == STEP_LOOP)
    return run_loop(run, step, steps);
  if (step->kernel->held > 0)
    buffer[step->n_places] = run->frame->base[step->held];
  const char *why = NULL;
  return step->kernel->kind->run(step->kernel, run->frame->team, buffer, &why) ||
         failed(run, step, why);
}

static int64_t decision(const CpuRun *run, const CpuStep *step) {
  const void *at = address(run->frame, step->place[0]);
  int32_t index;
  if (step->kind == STEP_UNLESS)
    return *(const bool *)at ? 1 : 0;
  if (step->inst->operands[0]->shape->dtype == HL_PRED)
    return *(const bool *)at ? 0 : 1;
  memcpy(&index, at, sizeof index);
  return index;
}

static int32_t next_step(const CpuRun *run, const CpuStep *step, int32_t at) {
  if (step->kind == STEP_JUMP)
    return step->target[0];
  const int64_t wish = decision(run, step);
  for (int k = 0; step->kind == STEP_UNLESS && !wish && k < step->n_ends; k++)
    forget(run->frame, step->ends[k]);
  if (step->kind == STEP_UNLESS)
    return wish ? at + 1 : step->target[0];
  return step->target[wish < 0 || wish >= step->n_targets ? step->n_targets - 1 : wish];
}

// Hands what the step has made to the caller's trace.
static void trace(const CpuRun *run, const CpuStep *step) {
  const HlInst *const *made = step->line ? step->line : &step->inst;
  const int n_made = step->line ? step->n_line : 1;
  int n = 0;
  for (int k = 0; k < n_made; k++)
    n += cpu_leaf_count(made[k]->shape);
  const void *const *leaf = (const void *const *)run->frame->buffer + step->n_places - n;
  for (int k = 0; k < n_made; k++) {
    HlLiteral *value = cpu_value(run->cx, made[k]->shape, &leaf);
    if (value)
      run->options->trace(run->options->user, run->in ? interp_device(run->in) : 0, made[k], value);
    hl_literal_unref(value);
  }
}

static bool compute_and_measure(const CpuRun *run, const CpuStep *step, int32_t at,
                                int64_t *steps) {
  CpuFrame *frame = run->frame;
  const double start = hl_now();
  if (frame->recorder)
    cpu_record_start(frame->recorder, at, start);
  if (!compute(run, step, steps))
    return false;
  const double seconds = hl_now() - start;
  frame->tally[at].runs++;
  frame->tally[at].seconds += seconds;
  if (frame->recorder)
    cpu_record_end(frame->recorder, at, start, seconds);
  return true;
}

static bool run_steps(const CpuRun *run) {
  const HlCpuProgram *p = run->program;
  const bool measures = run->frame->measures, traces = run->options->trace;
  const int64_t limit = hl_cx_limits(run->cx)->eval_steps;
  int64_t steps = 0;
  for (int k = 0; k < p->n_kept; k++)
    forget(run->frame, p->n_memories - 1 - k);
  for (int32_t at = 0; at < p->n_steps;) {
    const CpuStep *step = &p->step[at];
    base_look();
    steps += step->line ? step->n_line : 1;
    if (steps > limit && limit > 0)
      return too_many(run, step, limit);
    if (step->kind >= STEP_JUMP) {
      at = next_step(run, step, at);
      continue;
    }
    if (step->kind == STEP_LOOP && traces) {  // which sees what every turn computes
      steps--;
      at++;
      continue;
    }
    if (!(measures ? compute_and_measure(run, step, at, &steps) : compute(run, step, &steps)))
      return false;
    if (traces)
      trace(run, step);
    at = step->kind == STEP_LOOP ? step->behind : at + 1;
  }
  return true;
}

bool cpu_run(const CpuRun *run) {
  CpuRecorder *recorder = run->frame->recorder;
  const double start = recorder ? hl_now() : 0;
  if (!set_bases(run) || !run_steps(run) || !copy_endings(run)) {
    base_look();  // what was called off has no other error
    return false;
  }
  if (recorder)
    cpu_record_end(recorder, run->program->n_steps, start, hl_now() - start);
  return true;
}
