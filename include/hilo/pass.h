// hilo/pass.h: passes, rules, pipelines, and the engine that runs them.
//
// A pass is a function and a row of passes.def. It gets a valid module and leaves a valid module; it
// does not print, time, count, dump or verify: the engine does. Every change a pass makes is asked for:
//
//   hl_begin ... build ... hl_commit   "this by that": the replacement is built beside the old
//                                      instruction and joins the graph only on commit;
//   hl_change ... edit ... hl_changed  in place: an attribute, a layout, an erased instruction, a fusion
//                                      that grows.
//
// The engine answers yes or no. hl_change and hl_commit say no when the fuel is used up or when a list of decisions does not hold
// this rewrite. In a dry run hl_commit and hl_changed always say no: the engine has noted the opportunity and what it would leave,
// and has undone it. A pass takes a no as "this place does not match" and goes on. So the same pass is an optimisation, a list of choices, and bisectable,
// and each new instruction's origin is known (hl_origin_of).
#ifndef HILO_PASS_H
#define HILO_PASS_H

#include "hilo/build.h"
#include "hilo/ir.h"
#include "hilo/target.h"
#include "hilo/tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlPass HlPass;
typedef struct HlEngine HlEngine;      // private to src/pass

// --- Rules: rewrites as a table of laws ------------------------------------------------------------

// Reads its pattern at `inst` and returns what is to stand in its place: an existing instruction of
// the computation, or one built with `b` (which appends to inst's computation, with inst's
// metadata). NULL: does not apply; what was built meanwhile is dropped by the engine.
typedef HlInst *HlRuleFn(HlPass *p, HlBuild *b, HlInst *inst);
// How many operands of operands deep rules look at most, broadcasts and reshapes of a constant left out. They may also ask
// for users of what they look at, and look into called computations. A pass whose rules look
// farther has a function of its own.
enum { HL_RULE_REACH = 8 };
// A rule about the users of an op: hl_run_rules tries it on every instruction, hl_run_rules_once where it visits one of the op
// (HlPass.above), on each of its users.
#define HL_BELOW(op) (HL_OP_COUNT + 1 + (op))
typedef struct HlRule {
  int op;                              // of the instructions it looks at; HL_OP_COUNT: all; HL_BELOW(op): what uses one of op
  HlRuleFn *apply;
  const char *name;                    // "A1"; of an expander the pass's own name
  const char *law;                     // "add(x, 0) => x"
  const char *when;                    // conditions of the law in words; "" for none
} HlRule;

// --- Properties ----------------------------------------------------------------------------------

// What may hold of a whole module (hilo/properties.def). Sets of them have bit 1 << HL_HAS_id.
typedef enum HlProperty {
#define PROPERTY(id, ...) HL_HAS_##id,
#include "hilo/properties.def"
  HL_PROPERTY_COUNT
} HlProperty;
typedef struct HlPropertyInfo {
  const char *name, *meaning;
  bool fades;                          // what changes the module ends it, but for passes that keep it
  bool (*holds)(const HlModule *m);
} HlPropertyInfo;
extern const HlPropertyInfo hl_property_info[HL_PROPERTY_COUNT];
// Which of a set of properties hold of a module.
uint32_t hl_properties_of(const HlModule *m, uint32_t among);

// --- Passes ------------------------------------------------------------------------------------

typedef bool HlPassFn(HlPass *p);      // false after reporting an error in p->cx

typedef struct HlPassInfo {
  const char *name;                    // XLA's: "algsimp"
  HlPassFn *run;                       // NULL: hl_run_rules over the rules, once
  const char *options;                 // "layout_sensitive=false very_small_gather_size=4": names and defaults
  const char *meaning;                 // one line
  const HlRule *rules;                 // ends with a NULL name; NULL: none
  // Sets of properties: without those it needs it does not run (an error, or it leaves the module alone: pass/contract.c); those
  // it gives hold afterwards, whatever was before; those it breaks may not, nor those that fade and that it does not keep.
  uint32_t needs, gives, breaks, keeps;
} HlPassInfo;

// A wish: where both are in a pipeline, `before` does not come after `after`.
typedef struct HlPassOrder {
  const char *before, *after, *why;
} HlPassOrder;

typedef struct HlPassAlias {
  const char *name, *pass;             // what other releases call the pass
} HlPassAlias;

typedef struct HlPassTable {
  const HlPassInfo *at;
  int n;
  const HlPassAlias *alias;
  int n_aliases;
  const HlPassOrder *order;
  int n_orders;
} HlPassTable;
// By name or alias; '-', '_' and letters' case do not matter. NULL if none.
const HlPassInfo *hl_pass_find(const HlPassTable *table, HlStr name);

// One run of one pass over one module.
struct HlPass {
  HlCx *cx;
  HlModule *m;
  HlArena *arena;                      // scratch, freed when the pass has run
  const HlPassInfo *info;
  const HlTarget *target;              // whose program this is; never NULL: hl_target_none
  HlDialect release;                   // of XLA, whose passes these are; UNTOLD: the newest
  const HlTuning *tuning;              // what has been measured; may be NULL
  HlTuning *tuned;                     // takes what the pass chooses; may be NULL
  bool keeps_rounding;                 // excess precision is off
  bool relay_control;                  // hl_commit hands control edges on to the replacement instead of refusing
  int reach;                           // HL_RULE_REACH, or 0 if rules look anywhere: hl_run_rules always goes over all
  bool keep_operands;                  // hl_commit erases the replaced instruction only, not operands that became dead
  bool changed;                        // set with every yes
  HlInst *above;                       // of a rule of HL_BELOW that hl_run_rules_once tries: what it visits; NULL elsewhere
  void *user;                          // the pass's own state; rules reach it here
  HlEngine *engine;
  const char *args;                    // options as the pipeline wrote them
};

// The value of an option, as the pipeline gave it or by the row's default. Asserts that the row has it.
bool hl_pass_flag(const HlPass *p, const char *name);
int64_t hl_pass_int(const HlPass *p, const char *name);
double hl_pass_float(const HlPass *p, const char *name);
// An integer option of which 0 stands for what the target says.
int64_t hl_pass_fact(const HlPass *p, const char *name, int64_t fact);
const char *hl_pass_text(const HlPass *p, const char *name);  // in p->arena
// The passes are those of this release of XLA or of a later one.
bool hl_pass_since(const HlPass *p, HlDialect release);

// --- Asking for changes --------------------------------------------------------------------------

// Starts building what is to replace `inst`. `b` builds in inst's computation with its metadata and
// location. Exactly one of hl_commit and hl_drop follows; they do not nest. A rewrite that does not happen leaves the
// schedule, and with one ids, names and shapes, too, as they were: until hl_commit says yes keep nothing of what is built,
// nor of shapes and names got meanwhile, in the pass's own state.
void hl_begin(HlPass *p, const char *rule, HlInst *inst, HlBuild *b);
// The same rewrite replaces this one, too.
void hl_also(HlPass *p, HlInst *old, HlInst *by);
// Ends it: uses of the instruction, but for those by what was built, become uses of `by` (of a compatible shape; NULL is
// hl_drop), the instruction and operands that died with it are erased (parameters and side effects stay). A replacement that is
// new inherits metadata, sharding and frontend attributes, and takes over the old layout where both have the same
// dimensions. False, and all that was built is erased again, when the engine says no, when the old
// instruction has control edges (see relay_control) or a sharding that would be lost, or when it is what
// an async-start runs or a link of its chain on which another follows.
bool hl_commit(HlPass *p, HlInst *by);
void hl_drop(HlPass *p);
// The replacement keeps the layout that it was built in, where layouts do not matter yet.
void hl_keep_layout(HlPass *p);
// The replacement does not get the frontend attributes of what it replaces, which stay with what that goes on as.
void hl_leave_frontend(HlPass *p);
// One rewrite whole: begin, commit.
bool hl_replace(HlPass *p, const char *rule, HlInst *inst, HlInst *by);
// Asks for a change in place around `inst`; `with` is the other party (a producer to be fused, say) or NULL.
// True: do it now, and then say hl_changed. Until then ask nothing, and keep nothing of what is made or edited in the pass's own
// state: it may be undone, to the byte (hl_undo). A pass that forgets hl_changed fails.
bool hl_change(HlPass *p, const char *rule, HlInst *inst, const HlInst *with);
// Ends the change in place: what was built since counts as made by its rule. True: it holds. False, and all that was edited
// since hl_change is as it was: the run is dry; the pass goes on as if hl_change had said no.
//
//   if (!hl_change(p, "cap the layout", inst, NULL))
//     return false;
//   hl_set_shape(inst, shape);
//   return hl_changed(p);
bool hl_changed(HlPass *p);
// Tells of a rewrite that the pass decided against, and why; `why` lives as long as the pass. Nothing else comes of it, so a
// pass that would have to look for refusals first asks whether anybody wants to know.
void hl_refuse(HlPass *p, const HlInst *inst, const HlInst *with, const char *why);
// A step of a pass that fuses by prices (priority-fusion): a producer cannot go into its users, gets a price, or goes into one.
typedef enum HlFusionStepKind { HL_STEP_BARRED, HL_STEP_PRICED, HL_STEP_JOINED } HlFusionStepKind;
typedef struct HlFusionStep {
  HlFusionStepKind kind;
  const char *producer;
  const char *why;                     // BARRED
  const char *const *users;            // PRICED: all; JOINED: the one, as it was
  int n_users;
  double us_fused, us_unfused;         // PRICED: microseconds of the kernels with the producer inside, and with its own
  const char *fusion;                  // JOINED: what became of the user
} HlFusionStep;
// Whether anybody wants to know of steps of fusing, and telling of one.
bool hl_wants_fusion_steps(const HlPass *p);
void hl_tell_fusion_step(HlPass *p, const HlFusionStep *step);
bool hl_wants_refusals(const HlPass *p);
// Asks to erase a dead instruction, and does it: true if erased.
bool hl_remove(HlPass *p, const char *rule, HlInst *inst);

// --- Walking -----------------------------------------------------------------------------------

typedef enum HlComps { HL_COMPS_ALL, HL_COMPS_NO_FUSION } HlComps;
// The module's computations, callees before callers, in p->arena; skip those erased since (hl_comp_alive).
HlComp **hl_pass_comps(HlPass *p, HlComps which, int *n);
// A computation's instructions, operands before users, in p->arena; skip those erased since (hl_alive).
HlInst **hl_pass_insts(HlPass *p, const HlComp *comp, int *n);
// Calls `visit` with each instruction of an op, HL_OP_COUNT: of any, in the order of both lists, that is still there when its
// turn comes. What it takes from p->arena is given back after each; its state is p->user.
typedef void HlVisit(HlPass *p, HlInst *inst);
void hl_pass_visit(HlPass *p, HlComps which, HlOp op, HlVisit *visit);
bool hl_alive(const HlInst *inst);
bool hl_comp_alive(const HlComp *comp);
// What the pass, with its options, has not seen yet of a computation, in list order: all of it when it first asks, or when more
// than half was touched; else what was touched since (hilo/edit.h) and, for a reach above 0, users of that, theirs and so on, so
// many steps down, and what shares an operand with it. For passes that decide by what is near; one such reader a pass. In a dry
// run always all.
HlInst **hl_pass_changes(HlPass *p, HlComp *comp, int reach, int *n);
bool hl_pass_has_changes(HlPass *p, HlComp *comp);      // whether there are any; they count as seen
// Goes over every instruction of every computation that is no fusion body, operands first, and tries the rules of its op in
// the table's order; instructions made on the way are met in the next round. `rounds`: at most so many per computation, until nothing changes.
// With p->reach set, it goes over the changes alone.
bool hl_run_rules(HlPass *p, const HlRule *rules, int rounds);
// The same in one round, and as XLA's visitors go: operands first, from what nobody uses and from the root; what is made on
// the way is met only where an instruction that comes later uses it.
bool hl_run_rules_once(HlPass *p, const HlRule *rules);

// --- What passes ask about instructions (src/pass/match.c) ---------------------------------------------

int hl_n_users(const HlInst *inst);                // different instructions that use it
// A user that reads a value by several operands has a use for each, which need not stand together in the list: the
// one of its first such operand counts.
bool hl_is_first_use(const HlUse *use);
bool hl_one_user(const HlInst *inst);              // exactly one, and it is not the root
bool hl_has_control(const HlInst *inst);           // control edges, either way
// The literal of a constant with one element or equal elements everywhere, through broadcasts;
// NULL: not such. Elided constants never match.
const HlLiteral *hl_splat(const HlInst *inst);
// Every element is v (-0 is 0; a complex has no imaginary part).
bool hl_is_all(const HlInst *inst, double v);
bool hl_is_all_int(const HlInst *inst, int64_t v);
// It is the least or the greatest number of its type: an infinity where it has one. And that as a scalar; NULL: complex.
bool hl_is_extreme(const HlInst *inst, bool least);
HlInst *hl_b_extreme(HlBuild *b, HlDtype dtype, bool least);
bool hl_dtype_has_zero(HlDtype dtype);  // f8e8m0fnu has powers of two only
// What folded with anything by the op leaves it as it is, and that as a scalar. NULL for ops and types without such: among
// complex numbers one is not, as (inf, y) * (1, 0) has the part inf * 0.
HlKnown hl_neutral_of(HlOp op);
HlInst *hl_b_neutral(HlBuild *b, HlOp op, HlDtype dtype);
bool hl_is_constant(const HlInst *inst);           // constant with a known value
// What broadcast to this shape: x itself if a scalar broadcast of x, else NULL.
HlInst *hl_scalar_broadcast(const HlInst *inst);
bool hl_is_effective_scalar(const HlShape *shape); // array of one element
// The reducer of a reduce-like op: the binary op of its two parameters; HL_OP_COUNT: something else.
HlOp hl_reducer(const HlComp *comp);
// Neither it nor what it calls, however deep, has a side effect.
bool hl_is_pure(const HlInst *inst);
// Elementwise in the sense of fusion and B7: every element from the same element of each operand.
bool hl_is_elementwise(const HlInst *inst);
// `b` depends on `a`, by operands or control edges.
bool hl_reaches(HlPass *p, const HlInst *a, const HlInst *b);

// --- Copies inside a module (src/pass/graft.c) -----------------------------------------------------------

// A copy of an instruction (attributes, calls, name + a number) with other operands and perhaps another shape (NULL: its own).
HlInst *hl_inst_copy(HlComp *to, const HlInst *inst, const HlShape *shape, int n, HlInst *const *operands);
// A copy of a computation, named NAME.suffix. `map`, if not NULL, has comp->next_id entries, zeroed: the
// copy of each instruction by id. Computations it calls are shared unless `deep`.
HlComp *hl_comp_copy(HlModule *m, const HlComp *comp, const char *suffix, bool deep, HlInst **map);
// Copies of all computations of another module, named anew; its entry's copy. Stack frames and places in its source are left out.
HlComp *hl_comps_import(HlModule *m, const HlModule *from);
// The body of a computation put into `to`, parameters being `operands`: what its root becomes. Called
// computations are shared. `map` as above or NULL. op_name prefix as for call inlining: see hl_inline_call.
HlInst *hl_graft(HlComp *to, const HlComp *comp, int n, HlInst *const *operands, HlInst **map);

// --- Pipelines and running them -------------------------------------------------------------------

// A pipeline is written as a list of passes:
//
//   pipeline := item {"," item}
//   item     := name ["{" option {" " option} "}"] ["?" ["!"] condition] ["(" pipeline ")"] ["*"]
//             | "(" pipeline ")" ["*"]
//             | "@" name ["?" ["!"] condition]
//   option   := name ["=" value]        (a bare name: =true)
//
// A name with a list is a pipeline of that name, inside; a list without a name holds passes that XLA runs outside its
// pipelines, so that its dumps do not show them. "*" runs to a fixed point (25 rounds at most); a pass that does is one step.
// Conditions: spmd (more than one partition), or a release of XLA (`0.11`: that one or a later one). "@" names a state that
// dumps show, whichever passes they show. A name alone that is a row of pipelines.def stands for that row.
typedef struct HlPipelineInfo {
  const char *name, *text, *meaning;
} HlPipelineInfo;
typedef struct HlPipelineTable {
  const HlPipelineInfo *at;
  int n;
} HlPipelineTable;

// A pipeline as it was read: passes, and pipelines of items.
typedef struct HlPipelineItem HlPipelineItem;
struct HlPipelineItem {
  const char *name, *args;             // args: the options as written, or NULL
  const HlPassInfo *pass;              // NULL: a pipeline of the items
  HlPipelineItem *items;
  int n;
  bool fixed_point;
  bool is_row;                         // a row of the table that is run to a fixed point
  bool is_state;                       // no pass: a state that dumps show under this name
  int place, n_passes;                 // how many passes are written before it; how many it is or holds
  int offset;                          // of the name in the text it was read from
  const char *condition;               // NULL: always
  bool unless;                         // where the condition does not hold
};
// The text as one item named "passes", in the arena; NULL after reporting.
const HlPipelineItem *hl_pipeline_parse(HlCx *cx, HlArena *arena, const HlPassTable *passes,
                                        const HlPipelineTable *pipelines, const char *text);

// What became of one pass.
typedef struct HlStep {
  const char *pipeline;                // innermost; "" outside of any
  const char *pass, *next;             // next: the pass after it in the pipeline, or "pipeline-end"
  int place, places;                   // of the next pass in the pipeline as written, from 1; how many there are
  bool is_start;                       // no pass: the pipeline starts
  bool is_pipeline;                    // a nested pipeline that ended, as a pass of its parent
  bool is_inside;                      // of a pipeline inside a pass (hl_pass_nested): the pass's own step comes later
  bool changed;
  double seconds;
  int64_t before, after;               // instructions of the module
  int64_t rewrites;
} HlStep;

// One rewrite that happened or, in a dry run, could.
typedef struct HlRewrite {
  const char *pass, *rule, *comp, *inst, *with;  // names; with: "" if no second party
  int step;
  uint64_t from, to;                   // serials of the instructions made: [from, to)
  const char *before, *after;          // dry runs, and the one `explain` asks for: text
} HlRewrite;

// A rewrite that is allowed: all that is not empty must agree. What a rewrite has made goes by the names of what it was about,
// too, so that a list from a dry run holds for what earlier rewrites of the same list have left (src/pass/decide.c).
typedef struct HlDecision {
  const char *pass, *rule, *comp, *inst, *with;
} HlDecision;

// What is 0 or NULL is as usual: no limit, no decisions, nobody listening.
typedef struct HlEngineOptions {
  const HlPassTable *passes;           // what pipelines may name: hl_passes (hilo/opt.h), or one's own; NULL: none
  const HlPipelineTable *pipelines;    // hl_pipelines; NULL: none
  const HlTarget *target;              // borrowed; NULL: no device in particular
  HlDialect release;                   // of XLA, whose pipelines are run; UNTOLD: the newest
  const HlTuning *tuning;              // what has been measured of kernels, borrowed; NULL: nothing
  HlTuning *tuned;                     // gets what passes choose for kernels, borrowed; NULL: nobody wants to know
  HlMaybeInt fuel;                     // so many rewrites and no more; not given: no limit
  const char *pass_fuel;               // "algsimp=5,dce=0" as --xla_fuel; NULL
  bool dry;                            // note every opportunity; each pass leaves the module as it was, to the byte
  const HlDecision *decisions;         // NULL: everything is allowed
  int n_decisions;
  int64_t explain;                     // the rewrite of this number, from 1, keeps its before and after text; 0: none
  bool verify_each;
  bool whole;                          // tests only: to every pass everything counts as changed each time it runs
  const char *break_rule;              // tests only: the first result of this rule is negated; NULL
  const char *disable, *enable_only;   // comma-separated names of passes and pipelines; NULL
  bool disable_all;
  const char *start_at;                // passes before the first pass or pipeline of this name leave the module alone; NULL
  HlSwitch excess_precision;           // off: what a narrower type on the way rounds away stays away; usually on, as in XLA
  // Called after every pass, and at each pipeline's start as the pass "pipeline-start" (changed false). False stops the run
  // after reporting. May be NULL.
  bool (*after)(void *user, const HlModule *m, const HlStep *step);
  // Stages inside a pass that dumps show as steps of a pipeline of the pass's name (copy-insertion). May be NULL.
  bool (*stage)(void *user, const HlModule *m, const char *pass, const char *stage);
  // States that pipelines name ("@after_spmd_partitioner"). May be NULL.
  bool (*state)(void *user, const HlModule *m, const char *name);
  // Called before each rewrite that happens, with its parties as they still are; `with` may be NULL. May be NULL.
  void (*rewrite)(void *user, const char *pass, const char *rule, const HlInst *inst, const HlInst *with);
  // Called for each rewrite that a pass decided against and tells of (hl_refuse). May be NULL.
  void (*refused)(void *user, const char *pass, const char *why, const HlInst *inst, const HlInst *with);
  // Called for each step of fusing by prices. May be NULL.
  void (*fusion_step)(void *user, const HlFusionStep *step);
  void *user;
} HlEngineOptions;

HlEngine *hl_engine_new(HlCx *cx, const HlEngineOptions *options);
void hl_engine_free(HlEngine *engine);                                // NULL is fine
// Runs a pipeline over the module. False after reporting; the module is then valid only if a pass did not fail halfway.
// Before anything runs, the passes' needs are checked (an error, which names the pass and its place in the text) and the
// table's wishes of order (a warning).
bool hl_engine_run(HlEngine *engine, HlModule *m, const char *pipeline);
// What happened: all steps, all rewrites, in order; the engine's.
const HlStep *hl_engine_steps(const HlEngine *engine, int *n);
const HlRewrite *hl_engine_rewrites(const HlEngine *engine, int64_t *n);
// Whether the result that `break_rule` asks for has been made wrong.
bool hl_engine_broke(const HlEngine *engine);
// Whether the decision of this number has allowed a rewrite.
bool hl_engine_decided(const HlEngine *engine, int decision);
// Where an instruction came from: the rewrite that made it, or NULL if it was there before.
const HlRewrite *hl_origin_of(const HlEngine *engine, const HlInst *inst);
// Tells the engine's `stage` hook; for passes.
bool hl_pass_stage(HlPass *p, const char *stage);
// Runs a pipeline inside a pass that has changed the module; its passes are steps of it, not of the pass's own
// pipeline. False after reporting.
bool hl_pass_nested(HlPass *p, const char *pipeline);

#ifdef __cplusplus
}
#endif
#endif
