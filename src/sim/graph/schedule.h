// sim/graph/schedule.h: which instructions of one processor's graph can run, as their operands and loops allow.
#ifndef SIM_GRAPH_SCHEDULE_H
#define SIM_GRAPH_SCHEDULE_H

#include "sim/graph/graph.h"
#include "sim/graph/twister.h"

typedef enum SimState {
  SIM_BLOCKED,
  SIM_FREE,
  SIM_READY,
  SIM_SCHEDULED,
  SIM_EXECUTING,
  SIM_FINISHED
} SimState;

typedef struct SimNodeRun {
  SimState state;
  int waiting;  // operands that have not finished
  double ready, started, finished, clock, wall;
} SimNodeRun;

typedef struct SimSubRun {
  const HlSimSub *sub;
  int first_inner;  // not used by leaves
  int64_t left;     // times to run
  int todo;         // nodes that have not finished
  bool finished;
  double begun, ended;  // this time
} SimSubRun;

// A step of the scheduler that is still to be done. Steps are a stack: what one step brings about is done before the next.
typedef struct SimStep {
  enum { STEP_PREPARE, STEP_FINISH, STEP_USERS, STEP_SUB } kind;
  const HlSimNode *node;
  int sub, at;
  double time;
} SimStep;

typedef struct SimSchedule {
  HlCx *cx;
  HlArena *arena;
  const HlSimGraph *graph;
  HlSimCompat compat;
  HlSimBranches branches;
  SimNodeRun *node;  // by serial
  SimSubRun *sub;
  int n_subs, entry;
  int *inner;  // by serial: where its subroutines begin in inner_list; -1: it has none
  int *inner_list;
  int *sub_of;           // by serial: that it stands in
  int *taken;            // by serial, of conditionals: the branch drawn
  uint32_t *first_user;  // by serial, one more than there are
  const HlSimNode **user;
  double now;
  Twister random;
  VEC(SimStep) steps;
  SimNodes ready;  // those that wait to be fetched, in order
  HlBuf *log;
  bool keep_zeros;
  int64_t n_finished;
} SimSchedule;

// False after reporting: the graph is not valid for one processor.
bool schedule_begin(SimSchedule *s, HlCx *cx, const HlSimGraph *graph,
                    const HlSimRunOptions *options);
void schedule_start(SimSchedule *s, double time);  // makes ready what can run at first
void schedule_started(SimSchedule *s, const HlSimNode *node, double time);
void schedule_finished(SimSchedule *s, const HlSimNode *node, double time);
void schedule_end(SimSchedule *s);

#endif
