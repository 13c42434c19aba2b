// hilo/egraph.h: rewriting by equality: all that a program could equally be, at once, and the best of it taken out.
//
// An e-graph holds classes of nodes. A node is an operation on classes; the nodes of a class all have one value. So one class
// with two nodes stands for two programs, and a hundred such for 2^100. Rules do not replace anything: they add nodes and merge
// classes, until nothing new comes or a limit is reached. Then one node is chosen of each class that is needed.
//
//   HlEgraphReport report;
//   hl_saturate(cx, m, &(HlEgraphOptions){.passes = &hl_passes, .pipelines = &hl_pipelines}, arena, &report);
//
// Computations are parts of the e-graph of their own (regions): a loop's body and a branch are rewritten where they stand, a loop
// is a node that names its regions, and two loops of equal regions and operands are one node. What has a side effect, waits for
// something or differs each time it runs stays as it is, and its operands are rewritten.
#ifndef HILO_EGRAPH_H
#define HILO_EGRAPH_H

#include "hilo/pass.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Rules ---------------------------------------------------------------------------------------

// The e-graph's own rules: laws that go either way, which no pass may have, since it would never end. An exact one keeps every bit
// of every result; what is not exact rounds otherwise or overflows elsewhere.
//
// A rule of several roots is about values that share an operand: it builds what is equal to each of them, of something that is computed
// once. False: it does not apply.
typedef bool HlSeveralFn(HlBuild *b, int n, HlInst *const *roots, HlInst **by);
typedef struct HlEgraphRule {
  HlRule rule;                         // apply: NULL where it has several roots
  bool exact;
  HlSeveralFn *several;                // NULL: it has one root
} HlEgraphRule;
const HlEgraphRule *hl_egraph_rules(int *n);

// --- The e-graph ---------------------------------------------------------------------------------

typedef struct HlEgraph HlEgraph;
typedef uint32_t HlEclass;
enum { HL_NO_ECLASS = UINT32_MAX };

HlEgraph *hl_egraph_new(HlCx *cx);
void hl_egraph_free(HlEgraph *eg);                              // NULL is fine
// Adds all computations of a module, which must stay as it is until it is extracted. False after reporting: it has an order of
// execution, which rewriting would drop.
bool hl_egraph_add_module(HlEgraph *eg, HlModule *m);
// The class of an instruction of that module, as it is now; HL_NO_ECLASS: it is in none (what stands in fusions).
HlEclass hl_egraph_class_of(const HlEgraph *eg, const HlInst *inst);
// A node: the instruction's op, shape and attributes, of other classes. What is there already is found. HL_NO_ECLASS: an instruction
// that stays as it is.
HlEclass hl_egraph_add(HlEgraph *eg, const HlInst *like, int n, const HlEclass *operands);
// Says that two classes have one value; false: they cannot, by their shapes, or since they stand in different computations. After
// some of these hl_egraph_rebuild finds what follows: nodes that are now alike.
bool hl_egraph_merge(HlEgraph *eg, HlEclass a, HlEclass b);
void hl_egraph_rebuild(HlEgraph *eg);
int64_t hl_egraph_nodes(const HlEgraph *eg);
int64_t hl_egraph_classes(const HlEgraph *eg);
// Whether every node stands in one class and no two alike in different ones; for tests. `why`: what is wrong.
bool hl_egraph_check(const HlEgraph *eg, const char **why);

// --- Saturating ------------------------------------------------------------------------------------

// How the best program is chosen. A node's price is a guess of its time on the target, what elementwise ops move between them left out,
// since that is decided by fusion afterwards; a node used twice is paid once.
typedef enum HlEgraphWay {
  HL_EXTRACT_ALL,              // each of these, LOCAL by other prices too, and the best of them
  HL_EXTRACT_GREEDY,           // from operands up, what is shared inside a class's program counted once
  HL_EXTRACT_SHARED,           // prices are divided among as many as used the value in the program before, over some rounds
  HL_EXTRACT_LOCAL,            // from the better of these: one class at a time another node, as long as it gets better
  HL_EXTRACT_EXACT,            // branch and bound; where that takes too long, as LOCAL (HlEgraphReport.exact tells)
  HL_EXTRACT_RANDOM            // any program, by HlEgraphOptions.seed, which is taken whatever it costs: for tests and data sets
} HlEgraphWay;
const char *hl_egraph_way_name(HlEgraphWay extract);                  // "greedy"

// What is 0 or NULL is as usual.
typedef struct HlEgraphOptions {
  const HlPassTable *passes;           // the engine's, whose rules are used; NULL: none
  const HlPipelineTable *pipelines;
  const char *engine_rules;            // passes that are tried on each node and what is around it; NULL: those that pay, "": none
  bool no_own_rules;
  bool inexact;                        // own rules that round otherwise are used, too
  const HlTarget *target;              // for whom programs are priced; NULL: "cpu"
  const char *pipeline;                // what the programs taken out are compiled by before they are priced, which fuses them;
                                       // NULL: "cpu-native" if the table has it; "": none, the least sum of prices wins
  // Seconds that a compiled program takes, instead of hl_env_costs_of it: measured, say. Negative: it cannot be told. May be NULL.
  // Asked again, in turns, of what it has chosen and of the module as it was.
  double (*measure)(void *user, const HlModule *compiled);
  HlMaybeFloat measuring;              // with `measure`: for how many seconds programs are looked for by measuring; 60
  double least_gain;                   // how much better than the module as it was a program must be: 0.01, 1%
  HlEgraphWay extract;
  uint64_t seed;                       // of RANDOM
  HlMaybeInt nodes, iterations;        // limits: 100,000 nodes, 12 rounds,
  HlMaybeFloat seconds;                // and 10 s of saturating
  // Called after each round, with how many rounds and nodes there are. False stops saturating. May be NULL.
  bool (*progress)(void *user, int64_t iterations, int64_t nodes);
  void *user;
} HlEgraphOptions;

typedef enum HlEgraphStop { HL_EGRAPH_SATURATED, HL_EGRAPH_NODES, HL_EGRAPH_ITERATIONS, HL_EGRAPH_TIME, HL_EGRAPH_ASKED } HlEgraphStop;
const char *hl_egraph_stop_text(HlEgraphStop stop);              // "nothing new"

typedef struct HlEgraphRuleCount {
  const char *rule, *law;              // of passes: the pass, and ""
  bool exact, is_pass;
  int64_t found;                       // how often it gave something,
  int64_t news;                        // and something that was not known to be equal
} HlEgraphRuleCount;

// A program taken out: how, its prices, and whether it is the one.
typedef struct HlEgraphCandidate {
  const char *how;                     // "as it was", "greedy", ...
  double price;                        // sum of prices of its nodes, seconds
  double seconds;                      // compiled: hl_times of the entry; without a pipeline the price
  double work;                         // after compiling: operations, dear ones as several; decides between equal times
  int64_t instructions, kernels;       // after compiling; kernels: what takes time of its own
  bool taken;
} HlEgraphCandidate;

typedef struct HlEgraphReport {
  int64_t instructions, after;         // of the module
  int64_t first_nodes, nodes, classes, regions;
  int64_t sites;                       // places where rules were tried
  int64_t refused;                     // merges that shapes forbade: mistakes of rules
  int64_t bytes;                       // of the e-graph
  int iterations;
  HlEgraphStop stop;
  double saturate_s, extract_s, price_s;
  bool exact;                          // EXACT or ALL: the program is the cheapest there is, by price
  HlEgraphRuleCount *rule;
  int n_rules;
  HlEgraphCandidate *candidate;
  int n_candidates;
} HlEgraphReport;

// Saturates the module and puts the best program in its place, if that is better than what was there; else the module is as it was.
// The report's lists are in the arena. False after reporting. Options and report may be NULL.
bool hl_saturate(HlCx *cx, HlModule *m, const HlEgraphOptions *options, HlArena *arena, HlEgraphReport *report);

#ifdef __cplusplus
}
#endif
#endif
