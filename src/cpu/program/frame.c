// cpu/program/frame.c: the memory of runs: made when needed, kept in the program's list for the next run.

#include "cpu/program/program.h"

#include <string.h>

// The frame and its tables are one block.
static size_t head_bytes(const HlCpuProgram *p) {
  return sizeof(CpuFrame) + (size_t)p->n_steps * sizeof(CpuTally) +
         ((size_t)p->n_memories + 1 + (size_t)p->max_buffers) * sizeof(void *);
}

static size_t memory_bytes(const HlCpuProgram *p) {
  return (size_t)p->frame_bytes + (size_t)p->stage_bytes;
}

static void free_frame(const HlCpuProgram *p, CpuFrame *frame) {
  cpu_team_free(frame->team);
  cpu_recorder_free(frame->recorder);
  cpu_block_free(frame->memory, memory_bytes(p));
  cpu_block_free(frame, head_bytes(p));
}

// What has no memory of its own gets an address nevertheless.
static void set_bases(const HlCpuProgram *p, CpuFrame *frame) {
  for (int k = 0; k <= p->n_memories; k++) {
    const CpuMemory *m = &p->memory[k];
    frame->base[k] = k == p->n_memories           ? frame->memory
                     : m->kind == MEMORY_CONSTANT ? m->constant
                     : m->kind == MEMORY_FRAME    ? frame->memory + m->offset
                                                  : frame->memory;
  }
}

static CpuFrame *new_frame(const HlCpuProgram *p) {
  CpuFrame *frame = cpu_block_new(head_bytes(p));
  if (!frame)
    return NULL;
  memset(frame, 0, head_bytes(p));
  frame->tally = (CpuTally *)(frame + 1);
  frame->base = (void **)(frame->tally + p->n_steps);
  frame->buffer = frame->base + p->n_memories + 1;
  frame->team = p->shared ? NULL : cpu_team_new(p->pool);
  frame->memory = cpu_block_new(memory_bytes(p));
  if ((!frame->team && !p->shared) || !frame->memory) {
    free_frame(p, frame);
    return NULL;
  }
  frame->stage = frame->memory + p->frame_bytes;
  set_bases(p, frame);
  return frame;
}

CpuFrame *cpu_frame_take(HlCpuProgram *p) {
  pthread_mutex_lock(&p->lock);
  CpuFrame *frame = p->frames;
  if (frame)
    p->frames = frame->next;
  const bool measures = p->measures;
  const int64_t most_events = p->most_events;
  const int number = frame ? 0 : p->n_frames++;
  pthread_mutex_unlock(&p->lock);
  if (!frame && (frame = new_frame(p)))
    frame->number = number;
  if (frame)
    frame->measures = measures;
  if (frame && p->shared && !(frame->team = cpu_team_new(p->pool))) {
    cpu_frame_give(p, frame);
    return NULL;
  }
  if (frame && most_events > 0 && !frame->recorder)
    frame->recorder = cpu_recorder_new(p, most_events);
  if (frame)
    cpu_team_watch(frame->team, frame->recorder ? cpu_record_chunk : NULL, frame->recorder);
  return frame;
}

static void add_tally(HlCpuProgram *p, CpuFrame *frame) {
  for (int k = 0; k < p->n_steps; k++) {
    p->tally[k].runs += frame->tally[k].runs;
    p->tally[k].seconds += frame->tally[k].seconds;
  }
  memset(frame->tally, 0, (size_t)p->n_steps * sizeof *frame->tally);
  frame->measures = false;
}

// A team of threads that programs share belongs to a run, not to the frame: threads look for work in all teams.
void cpu_frame_give(HlCpuProgram *p, CpuFrame *frame) {
  if (p->shared && frame->team) {
    cpu_team_rest(frame->team);
    frame->team = NULL;
  }
  pthread_mutex_lock(&p->lock);
  if (frame->measures)
    add_tally(p, frame);
  frame->next = p->frames;
  p->frames = frame;
  pthread_mutex_unlock(&p->lock);
}

void cpu_frames_free(HlCpuProgram *p) {
  for (CpuFrame *frame = p->frames, *next; frame; frame = next) {
    next = frame->next;
    free_frame(p, frame);
  }
}
