// hilo/sim_graph.h: what a cluster executes: ParaGraph's graphs, from HLO to messages (docs/sim.md).
//
//   HlModule --hl_sim_bridge--> a composite graph: one for the whole system, its collectives list all groups
//            --hl_sim_individualize--> the graph of one processor
//            --hl_sim_translate--> the same with collectives as messages
//            --hl_sim_run_alone--> a log of when each node ran (ParaGraph's own simulator)
//
// A composite graph is held once, however many processors there are; the graph of a processor is made when it is asked for and
// freed by whoever asked. Equal lists of groups are held once in a graph. All that hangs on a graph lies in its arena.
#ifndef HILO_SIM_GRAPH_H
#define HILO_SIM_GRAPH_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Opcodes ------------------------------------------------------------------------------------------------

// What a node communicates: nothing, within groups, with one or two peers, or one half of a message.
typedef enum HlSimClass { HL_SIM_GENERAL, HL_SIM_CONTROL, HL_SIM_COLLECTIVE, HL_SIM_INDIVIDUAL, HL_SIM_PROTOCOL } HlSimClass;

#define HL_SIM_OPS(OP)                         \
  OP(ALL_GATHER, "all-gather", COLLECTIVE)     \
  OP(ALL_REDUCE, "all-reduce", COLLECTIVE)     \
  OP(ALL_TO_ALL, "all-to-all", COLLECTIVE)     \
  OP(BARRIER, "barrier", COLLECTIVE)           \
  OP(BROADCAST, "broadcast", COLLECTIVE)       \
  OP(CALL, "call", CONTROL)                    \
  OP(CONDITIONAL, "conditional", CONTROL)      \
  OP(DELAY, "delay", GENERAL)                  \
  OP(GATHER, "gather", COLLECTIVE)             \
  OP(INFEED, "infeed", GENERAL)                \
  OP(NULL, "null", GENERAL)                    \
  OP(OUTFEED, "outfeed", GENERAL)              \
  OP(RECV, "recv", INDIVIDUAL)                 \
  OP(RECV_DONE, "recv-done", PROTOCOL)         \
  OP(RECV_START, "recv-start", PROTOCOL)       \
  OP(REDUCE, "reduce", COLLECTIVE)             \
  OP(REDUCE_SCATTER, "reduce-scatter", COLLECTIVE) \
  OP(SCATTER, "scatter", COLLECTIVE)           \
  OP(SEND, "send", INDIVIDUAL)                 \
  OP(SEND_DONE, "send-done", PROTOCOL)         \
  OP(SEND_START, "send-start", PROTOCOL)       \
  OP(SENDRECV, "sendrecv", INDIVIDUAL)         \
  OP(WHILE, "while", CONTROL)

typedef enum HlSimOp {
#define OP(id, text, kind) HL_SIM_##id,
  HL_SIM_OPS(OP)
#undef OP
  HL_SIM_OP_COUNT
} HlSimOp;
const char *hl_sim_op_text(HlSimOp op);
HlSimClass hl_sim_op_class(HlSimOp op);
bool hl_sim_op_find(HlStr text, HlSimOp *out);       // false: there is no such opcode

// --- Graphs -------------------------------------------------------------------------------------------------

typedef struct HlSimNode HlSimNode;
typedef struct HlSimSub HlSimSub;
typedef struct HlSimGraph HlSimGraph;

// Communication groups: `n` lists of processor ids. Never written once a node has it; nodes of a graph share equal ones.
//   composite: collectives all members of each group; send {sender, receiver}; recv {sender, receiver};
//              sendrecv {from, who runs it, to}
//   of one processor: collectives its own group; send {receiver}; recv {sender}; sendrecv {from, to}
typedef struct HlSimGroups {
  int n;
  const HlI64s *at;
} HlSimGroups;

typedef struct HlSimCost {
  double ops;                  // arithmetic operations
  double bytes_in;             // read; of a send: sent
  double bytes_out;            // written; of a recv: received; of a collective: its size
  double transcendentals;
  double seconds;
} HlSimCost;

struct HlSimNode {             // ParaGraph's instruction
  HlStr name;
  int64_t id;                  // unique in the graph, >= 1
  uint32_t serial;             // dense from 0 in the order of creation: what analyses index by (hl_sim_n_serials)
  uint8_t op;                  // HlSimOp
  bool is_async_done;          // a null that waits for `bonded`, an asynchronous collective
  HlSimCost cost;
  HlSimNode *bonded;           // start <-> done; NULL: none
  uint64_t tag;                // matches sender and receiver; 0: none
  const HlSimGroups *groups;   // NULL: none
  int n_operands, n_subs;
  HlSimNode **operands;        // data or control, of the same subroutine, each once
  HlSimSub **subs;             // inner subroutines: of a while body and condition, of a conditional its branches, of a call those
                               // called, of a collective what reduces, or (translated) what it consists of
  HlSimSub *sub;               // that it stands in
  const HlInst *inst;          // what hl_sim_bridge made it from, as long as that module lives; NULL: none
};

struct HlSimSub {              // ParaGraph's subroutine
  HlStr name;
  HlSimNode *root;             // its id is the subroutine's
  double probability;          // of a conditional's branch; else 1
  int64_t count;               // of a while's body and condition: how often; else 1
  int n_nodes;
  HlSimNode **nodes;           // operands before users
  HlSimNode *caller;           // NULL: the entry
  HlSimGraph *graph;
};

HlSimGraph *hl_sim_graph_new(HlStr name, int64_t processor);
void hl_sim_graph_free(HlSimGraph *graph);           // NULL is fine
HlStr hl_sim_graph_name(const HlSimGraph *graph);
int64_t hl_sim_graph_processor(const HlSimGraph *graph);  // -1: composite
HlSimSub *hl_sim_graph_entry(const HlSimGraph *graph);    // NULL only while it is being built
HlArena *hl_sim_graph_arena(HlSimGraph *graph);
uint32_t hl_sim_n_serials(const HlSimGraph *graph);  // greater than any node's serial, those removed counted
int64_t hl_sim_n_nodes(const HlSimGraph *graph);

// What a graph amounts to. Loops count as often as they run; of what has subroutines these count, but of a collective that is not
// translated; of a conditional every branch by its probability.
typedef struct HlSimTotals {
  int64_t nodes, subs;
  double runs[HL_SIM_OP_COUNT];  // of nodes of each opcode
  double bytes[HL_SIM_OP_COUNT]; // their size: of sends what they send, of all else what they receive or are of
  HlSimCost cost;                // of what computes: delays, infeeds, outfeeds
} HlSimTotals;
HlSimTotals hl_sim_totals(const HlSimGraph *graph);

// --- Building -----------------------------------------------------------------------------------------------

// The first subroutine made for caller NULL is the entry. Names are copied.
HlSimSub *hl_sim_add_sub(HlSimGraph *graph, HlSimNode *caller, HlStr name);
// At the end of a subroutine; takes the next id.
HlSimNode *hl_sim_add_node(HlSimSub *sub, HlSimOp op, HlStr name);
void hl_sim_add_operand(HlSimNode *node, HlSimNode *operand);  // nothing if it has it already
void hl_sim_bond(HlSimNode *a, HlSimNode *b);
void hl_sim_set_root(HlSimSub *sub, HlSimNode *root);
// Gives a node groups: copied, held once for all equal ones of the graph.
void hl_sim_set_groups(HlSimNode *node, HlSimGroups groups);
// The index of the group of a node that a processor takes part in, as the table at HlSimGroups says, -1: none. For the
// composite form of send the sender does, of recv the receiver, of sendrecv who stands in the middle.
int hl_sim_group_of(const HlSimNode *node, int64_t processor);
// Processors that any node names as taking part, ascending, in the arena: who runs a graph of its own.
HlI64s hl_sim_processors(HlArena *arena, const HlSimGraph *graph);
// Nodes in ParaGraph's post order (operands, then what it calls, then itself), of the graph with all that is called, or of a
// subroutine alone; in the arena. NULL after reporting a cycle.
HlSimNode **hl_sim_post_order(HlCx *cx, HlArena *arena, const HlSimGraph *graph, int64_t *n);
HlSimNode **hl_sim_sub_post_order(HlCx *cx, HlArena *arena, const HlSimSub *sub, int *n);

// --- Files --------------------------------------------------------------------------------------------------

typedef enum HlSimForm { HL_SIM_FORM_NONE, HL_SIM_BINARY, HL_SIM_TEXT } HlSimForm;
// By the end of a file's name, .pb or .textproto (.gz and .zst after it are seen through); NONE: neither.
HlSimForm hl_sim_form_of(const char *path);
// Whether bytes are such a graph, and no proto of HLO: told by what stands at their beginning.
bool hl_sim_is_graph(HlStr bytes);
// Reads a graph, binary or text as NONE tells by the content. Fields that are not ParaGraph's are named in warnings. NULL after
// reporting; what a reader of ParaGraph refuses is refused. `renumber`: ids are given anew in the order of the file.
HlSimGraph *hl_sim_read(HlCx *cx, HlSource *source, HlSimForm form, bool renumber);
// Appends it, with the bytes of ParaGraph's own writer.
void hl_sim_write(const HlSimGraph *graph, HlSimForm form, HlBuf *out);
// Binary, in the memory of `room`, whose n says nothing, from its end on: for many graphs one after the other. What is returned lies there.
HlStr hl_sim_write_in(const HlSimGraph *graph, HlBuf *room);
// ParaGraph's rules for a graph of its kind, composite or of one processor: all that is broken is reported. False if any is.
bool hl_sim_validate(HlCx *cx, const HlSimGraph *graph);

// --- From HLO ---------------------------------------------------------------------------------------------------

// Where ParaGraph does something that was hardly intended (docs/sim.md lists it), HL_SIM_PARAGRAPH does the same.
typedef enum HlSimCompat { HL_SIM_OWN, HL_SIM_PARAGRAPH } HlSimCompat;

// A profile of a run: the table that TPU profilers write as CSV, or a trace of events: XSpace (*.xplane.pb) or JSON, as of
// jax.profiler and `hilo run --profile`. Which it is is told by its content.
typedef struct HlSimProfile HlSimProfile;
typedef struct HlSimProfileRow {
  HlStr name, category;        // of the instruction
  int64_t occurrences;         // on one core
  double seconds;              // self time of one run: on average, of traces the median
  double flops, bytes;         // of one run: from the measured rates, of traces as told
} HlSimProfileRow;
HlSimProfile *hl_sim_profile_read(HlCx *cx, HlSource *source, int64_t replicas, HlSimCompat compat);  // NULL after reporting
void hl_sim_profile_free(HlSimProfile *profile);
int hl_sim_profile_rows(const HlSimProfile *profile, const HlSimProfileRow **out);  // in the order of the file
const HlSimProfileRow *hl_sim_profile_find(const HlSimProfile *profile, HlStr name);  // NULL: it has no such row

typedef struct HlSimBridge {
  HlSimCompat compat;
  HlMaybeFloat flops, transcendentals, bytes;  // rates per second; not given: 125e12, 125e12, 900 * 2^30
  int64_t replicas;            // 0: what the module says. Groups that are not written out are of all of them
  int64_t trips;               // of a loop that does not say how often it runs; 0: once, with a warning
  const HlSimProfile *profile; // NULL: none; with one:
  HlSwitch profile_time;       // costs as measured, default on
  HlSwitch profile_only;       // what has no row costs nothing, default on
  HlSwitch profile_loops;      // loops as often as measured, default on
} HlSimBridge;
// The composite graph of a module. NULL after reporting. Options may be NULL.
HlSimGraph *hl_sim_bridge(HlCx *cx, const HlModule *m, const HlSimBridge *options);

// --- Made-up programs -------------------------------------------------------------------------------------------

// What ParaGraph's generators make. NULL after reporting what cannot be.
typedef struct HlSimAllReduce {
  int64_t processors, loops;   // 1 or more
  double bytes, element;       // of the all-reduce, and of a number in it
  double seconds;              // of the work before it
  bool overlap;                // beside it
} HlSimAllReduce;
HlSimGraph *hl_sim_make_all_reduce(HlCx *cx, const HlSimAllReduce *options);
// A box of processors that exchange halos with their up to 26 neighbours, then sum up, again and again.
typedef struct HlSimStencil {
  const char *name;            // NULL: "27-Point Stencil"
  int64_t size[3], iterations;
  double condition_seconds, seconds, reduction_seconds;
  double face, edge, corner, all_reduce;  // bytes
} HlSimStencil;
HlSimGraph *hl_sim_make_stencil(HlCx *cx, const HlSimStencil *options);

// --- Changing graphs ------------------------------------------------------------------------------------------

// Adds operands so that each subroutine has one order only, its post order.
bool hl_sim_enforce_post_order(HlCx *cx, HlSimGraph *graph);
// Replaces the one group of every collective, of processors 0 to n-1, by one of `processors`: sizes stay.
bool hl_sim_extend(HlCx *cx, HlSimGraph *graph, int64_t processors);
// Takes out subroutines that cost nothing and hold only delays and nulls. (ParaGraph can take out the first of several alone,
// and fails at others.)
bool hl_sim_trim(HlCx *cx, HlSimGraph *graph, HlSimCompat compat);
void hl_sim_drop_disconnected(HlSimGraph *graph);    // what a root does not need
void hl_sim_scale(HlSimSub *sub, double factor);     // all costs
// Numbers the messages between each pair of processors, on both sides the same.
bool hl_sim_apply_tags(HlCx *cx, HlSimGraph *graph);
// The graph that one processor runs, of a composite graph that is valid. NULL after reporting.
HlSimGraph *hl_sim_individualize(HlCx *cx, const HlSimGraph *composite, int64_t processor, HlSimCompat compat);
HlSimGraph *hl_sim_clone(const HlSimGraph *graph);

// How collectives become messages: what ParaGraph's JSON configuration says, and more algorithms.
typedef struct HlSimTranslation HlSimTranslation;
HlSimTranslation *hl_sim_translation_read(HlCx *cx, HlSource *source, HlSimCompat compat);  // NULL after reporting
void hl_sim_translation_free(HlSimTranslation *translation);
// Translates the graph of one processor in place: collectives, protocols, tags; then it is validated. False after reporting.
bool hl_sim_translate(HlCx *cx, HlSimGraph *graph, const HlSimTranslation *translation);

// The graphs of processors, individualized and translated (`how` NULL: not), one after another on `threads`, and freed when `visit`
// is done with each. Processor k of the list; contexts differ by thread. False as soon as one is, after reporting that one alone.
typedef bool HlSimVisit(HlCx *cx, HlSimGraph *graph, int k, void *user);
bool hl_sim_each_processor(HlCx *cx, const HlSimGraph *composite, HlI64s processors, const HlSimTranslation *how, HlSimCompat compat,
                           int threads, HlSimVisit *visit, void *user);

// --- Running one processor's graph -----------------------------------------------------------------------------

// Which branch of a conditional runs: one drawn by its probability, or the one that takes longest.
typedef enum HlSimBranches { HL_SIM_DRAW, HL_SIM_WORST } HlSimBranches;
typedef struct HlSimRunOptions {
  HlSimCompat compat;
  HlSimBranches branches;
  double start;                // seconds
  double net_bytes;            // per second; 0: 656 Gbit/s of 2^30 bits
  HlMaybeInt seed;             // of what is drawn; not given: as ParaGraph's program
  bool keep_zeros;             // in the log: what took no time
  HlBuf *log;                  // CSV as ParaGraph's; NULL: none
} HlSimRunOptions;
typedef struct HlSimRun {
  double end;                  // the latest finish; in compat mode when the processor itself was done
  int64_t n_finished;
} HlSimRun;
// One processor in order, its network interface sending and receiving beside it, peers not waited for: ParaGraph's simulator.
bool hl_sim_run_alone(HlCx *cx, const HlSimGraph *graph, const HlSimRunOptions *options, HlSimRun *out);

#ifdef __cplusplus
}
#endif
#endif
