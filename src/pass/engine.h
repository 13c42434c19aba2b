// pass/engine.h: the engine's insides; private to src/pass.
#ifndef PASS_ENGINE_H
#define PASS_ENGINE_H

#include "base/memory.h"
#include "base/vec.h"
#include "hilo/edit.h"
#include "hilo/pass.h"
#include "pass/capture.h"

typedef struct Fuel {
  HlStr pass;
  int64_t left;
} Fuel;

typedef struct Pair {
  HlInst *old, *by;
} Pair;

// What a rewrite that happened was about, beside its names in HlRewrite.
typedef struct Parties {
  uint64_t inst, with;  // serials; 0: none
  size_t older;         // 1 + the last rewrite about the same instruction before; 0: none
  int64_t met,
      made;  // the question in which it was last met, as one about an instruction and as one's origin
} Parties;

// An instruction as it is called now, or was when a rewrite was about it.
typedef struct Alias {
  const char *comp, *name;
  uint64_t serial;
} Alias;

// Lists of an engine, which may live longer than a try: they grow by vec_push_as(engine->arena, ...).
typedef VEC(HlInst *) InstVec;
typedef VEC(size_t) SizeVec;
typedef VEC(Parties) PartiesVec;
typedef VEC(Alias) AliasVec;

// The rewrite that is being built.
typedef struct Building {
  const char *rule;
  HlInst *old;  // NULL: none
  uint64_t first_serial;
  size_t first_touched;
  uint32_t first_comp;
  bool own_layout;       // hl_keep_layout
  bool leaves_frontend;  // hl_leave_frontend
  bool marked;           // the module had a schedule, which is dropped by what is built
  HlEditMark mark;       // what to go back to then
  VEC(Pair) also;
} Building;

// A change in place that has begun.
typedef struct Change {
  bool open;
  HlInst *inst;
  HlComp *comp;       // its own
  uint32_t first_id;  // of what is built in its computation
  HlEditMark mark;    // of a dry run, where the change is not to stay
} Change;

// What a pass, with its options, has seen of the module.
typedef struct Watch {
  const HlPassInfo *pass;
  const char *args;
  int64_t idle;  // the epoch at which it found nothing to do; -1: none
  SizeVec read;  // by id of the computation: 1 + how much of its journal; 0: never looked
} Watch;

struct HlEngine {
  HlCx *cx;
  HlEngineOptions options;
  HlArena *arena;    // names and texts of steps and rewrites
  HlArena *scratch;  // of the passes, one after the other: its memory is fresh once
  VEC(HlStep) steps;
  VEC(HlRewrite) rewrites;
  InstVec dead;  // scratch of erasing
  Fuel *pass_fuel;
  int n_pass_fuel;
  int64_t fuel;        // left; < 0: no limit
  int64_t n_rewrites;  // asked and answered yes, in all
  Change change;       // the change in place that is being made
  bool failed;         // a pass broke a rule of the engine
  bool started;        // the pass or pipeline that `start_at` names has been met in this module
  bool ordered;        // a pass of this run has made an order of execution
  bool broken;         // the result that `break_rule` asks for has been made wrong
  HlModule *m;
  bool ops_known;             // `ops` holds since nothing has changed
  uint64_t ops[HL_OP_WORDS];  // which ops the module may have outside fusion bodies
  uint64_t calls_known;       // hl_calls_made when callees were last seen to come first
  int64_t epoch;              // passes that changed something, so far
  int64_t n_insts;            // of the module; -1: to be counted
  int n_inside;               // pipelines under way inside passes
  int place, places;          // of the pass that comes next, as HlStep has them
  VEC(Watch *) watches;
  Watch *watch;          // of the pass that runs
  SizeVec callers_know;  // by id of the computation: how much of its journal callers know of
  InstVec found;         // scratch of changes.c
  PartiesVec parties;    // decide.c, of each rewrite: whom it was about
  SizeVec about;         // by serial: the newest rewrite about an instruction
  AliasVec aliases, with_aliases;  // of decide.c: scratch
  int64_t asked;                   // questions of decide.c so far
  const HlDecision **decisions;    // of decide.c: by instruction; NULL: not sorted yet
  bool *decided;  // of each decision of the options: whether it has allowed something
  Building building;
  const PassCapture *capture;  // of a dry run; NULL
  bool only_asks;              // whoever wants to make a change is told no
  bool would_change;           // somebody has been
};

// Whether nothing has been built since hl_begin.
static inline bool pass_built_nothing(const HlPass *p) {
  const Building *building = &p->engine->building;
  return p->m->next_serial == building->first_serial &&
         p->m->next_comp_id == building->first_comp && building->also.n == 0;
}
// rewrite.c: ends a rewrite of which nothing was built.
void pass_end_unbuilt(HlPass *p);
// rewrite.c: whether no change in place is open; false after saying so: the pass is at fault.
bool pass_no_change_open(HlPass *p);
// decide.c: whether the list of decisions allows the rewrite, and notes one that happens.
bool pass_is_decided(HlEngine *engine, const char *pass, const char *rule, const HlInst *inst,
                     const HlInst *with);
void pass_note_parties(HlEngine *engine, const HlInst *inst, const HlInst *with);
// contract.c: before a pipeline runs: its passes get what they need (false after reporting), and stand in the wished order.
bool pass_check_pipeline(HlEngine *engine, const HlPipelineItem *all);
// Before a pass runs: whether the module has what it needs. False after reporting: it does not, and no restriction of the
// run explains that.
bool pass_has_needs(HlEngine *engine, const HlPipelineItem *item, bool *has);
// run.c: the item is for modules such as this one.
bool pass_meets_condition(const HlEngine *engine, const HlPipelineItem *item);
// engine.c: the entry of a list by id or serial, which is 0 as long as nobody has set it.
size_t *pass_size_at(HlEngine *engine, SizeVec *list, uint64_t k);
// The rewrite that made the instruction of a serial, or NULL.
const HlRewrite *pass_origin_of(const HlEngine *engine, uint64_t serial);
// changes.c: what the pass has seen; none has seen anything any more.
Watch *pass_watch(HlEngine *engine, const HlPipelineItem *item);
void pass_forget_watches(HlEngine *engine);
// As hl_pass_changes, but only those of a set of ops; NULL: of all. And the same of everything.
HlInst **pass_changes(HlPass *p, HlComp *comp, int reach, const uint64_t *ops, int *n);
HlInst **pass_all_insts(HlPass *p, HlComp *comp, const uint64_t *ops, int *n);
// Sorts them by their places in the computation's list, each once. How many are left.
int pass_sort_by_place(HlPass *p, HlInst **all, size_t n);
// As pass_changes in no order: a bit for each id, of which n are set. A reach of 0: everything.
const uint64_t *pass_change_ids(HlPass *p, HlComp *comp, int reach, const uint64_t *ops, int *n);
// reschedule.c: the orders of execution before a pass runs, in the engine's scratch; none if there is no schedule or the pass
// is to drop it. And after it: where its edits have dropped them they are made anew.
typedef struct PassOrder {
  HlInst **at;
  uint32_t n;
} PassOrder;
typedef struct PassOrders {
  PassOrder *at;  // by id of the computation
  uint32_t n;
} PassOrders;
PassOrders pass_keep_orders(HlEngine *engine, const HlPassInfo *pass);
void pass_restore_orders(HlEngine *engine, PassOrders kept);
// Those who call a computation are touched if it has changed since they last were.
void pass_tell_callers(HlEngine *engine, HlComp *comp);

#endif
