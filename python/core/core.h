// python/core/core.h: the library as Python calls it: functions whose arguments are numbers, texts and handles.
//
// Python reads the declarations of this header, and calls what they declare by ctypes (python/hilo/_core.py): so there is one library for
// every Python, nothing is compiled against any, and no declaration is written twice. Types are those that it knows:
// void, bool, int, int64_t, double, const char *, const void *, const int64_t *, and pointers to the handles below. Options come
// as JSON, reports go as JSON.
//
// Every call belongs to a HiloCall, which holds what it has to say; calls of several threads may run at once, each with its
// own, on the same modules and programs, which do not change. ctypes lets other threads of Python run meanwhile.
#ifndef PYTHON_CORE_H
#define PYTHON_CORE_H

#include <stdbool.h>
#include <stdint.h>

// Handles.
typedef struct HiloCall HiloCall;
typedef struct HlModule HiloModule;
typedef struct HlCompiled HiloCompiled;
typedef struct HlCpuProgram HiloProgram;
typedef struct HiloResults HiloResults;
typedef struct HlProposals HiloProposals;
typedef struct HlFeatures HiloFeatures;
typedef struct HiloEnv HiloEnv;
typedef struct HiloBatch HiloBatch;

const char *hilo_core_version(void);
// The element type of a number of xla.PrimitiveType: "f32"; NULL: there is none.
const char *hilo_core_dtype(int number);

// --- Calls ---
// `listen`: the addresses of PyGILState_Ensure, PyErr_CheckSignals, PyErr_Fetch and PyGILState_Release, by which a long call learns
// that a handler of signals has raised something, and ends with an error of the kind "cancelled"; NULL: it does not ask.
HiloCall *hilo_core_call_new(const int64_t *listen);
void hilo_core_call_free(HiloCall *call);
// Raises it, by the address of PyErr_Restore, for a caller that holds Python's lock. Nothing where nothing was raised.
void hilo_core_call_raise(HiloCall *call, int64_t restore);
void hilo_core_call_clear(HiloCall *call);           // forgets what was said
// What was written: its bytes, followed by a NUL, and how many there are. Until the next call.
const void *hilo_core_output(const HiloCall *call);
int64_t hilo_core_output_size(const HiloCall *call);
// [{"severity", "kind", "file", "line", "column", "text", "hint", "rendered"}, ...]; NULL: there is nothing to say.
const char *hilo_core_diagnostics(HiloCall *call);
bool hilo_core_failed(const HiloCall *call);         // there are errors among them

// --- Modules ---
// Reads a file (bytes NULL), or bytes that `name` stands for; options: {"entry", "arg_shapes", "args", "xla": text,
// "verify", "consts_as_parameters", "fill_hidden": bool}. How many modules there are; -1: none, after reporting.
int hilo_core_read(HiloCall *call, const char *name, const void *bytes, int64_t n, const char *options);
// The k-th of what was read last: the caller's. NULL: it was taken before.
HiloModule *hilo_core_take(HiloCall *call, int k);
void hilo_core_module_free(HiloModule *m);
// False after reporting each broken rule.
bool hilo_core_check(HiloCall *call, const HiloModule *m);
// Options: {"preset": text, and any switch of HlTextOptions: bool}.
bool hilo_core_print(HiloCall *call, const HiloModule *m, const char *options);
// Forms as `hilo convert --to` has them. Options of MLIR: {"generic", "locations": bool}, of pictures: {"closed_fusions": bool}.
bool hilo_core_convert(HiloCall *call, const HiloModule *m, const char *form, const char *options);
// Whether a form is text; -1: there is no such form.
int hilo_core_form_is_text(const char *form);
bool hilo_core_stats(HiloCall *call, const HiloModule *m, bool computations);
// {"name", "parameters": [shape], "result": shape, "replicas", "partitions", "scheduled", "xla"}; a shape is {"tuple": [shape]},
// or {"dtype", "dims", and where some are dynamic "dynamic": [bool]}.
bool hilo_core_interface(HiloCall *call, const HiloModule *m);
// [{"name", "entry", "fusion", "instructions": [...]}], callees first.
bool hilo_core_list(HiloCall *call, const HiloModule *m);
bool hilo_core_graph_equal(HiloCall *call, const HiloModule *a, const HiloModule *b);
int64_t hilo_core_graph_hash(const HiloModule *m);

// --- Compiling ---
// Options: {"platform", "passes", "pipeline", "target", "xla_flags", "xla": text, "fuel", "replicas", "partitions": number,
// "verify_each", "no_buffers": bool}. NULL after reporting. The module is copied.
HiloCompiled *hilo_core_compile(HiloCall *call, const HiloModule *m, const char *options);
void hilo_core_compiled_free(HiloCompiled *compiled);
HiloModule *hilo_core_compiled_module(HiloCall *call, const HiloCompiled *compiled);  // a copy, the caller's
// {"instructions_before", "instructions_after", "rewrites", "seconds": {...}, "bytes": {...}, "passes": [...]}.
bool hilo_core_compiled_report(HiloCall *call, const HiloCompiled *compiled);

// --- Running ---
// A program of what was compiled for the processor; options: {"threads": number, "onednn": text, "seed": number, "elided": text}.
HiloProgram *hilo_core_program(HiloCall *call, HiloCompiled *compiled, const char *options);
void hilo_core_program_free(HiloProgram *program);
// How many devices a run takes arguments for.
int hilo_core_devices(const HiloModule *m);
// Runs the program, or without one interprets the module. The arrays of all parameters (tokens left out), device by device,
// are at the addresses in `arrays`, dense and row-major. NULL after reporting.
HiloResults *hilo_core_run(HiloCall *call, const HiloModule *m, HiloProgram *program, const int64_t *arrays, int64_t n,
                           const char *options);
// Arguments made up for a module, as its one device would be given them; results of this.
HiloResults *hilo_core_fake(HiloCall *call, const HiloModule *m, int64_t seed);
void hilo_core_results_free(HiloResults *results);
// The arrays of the results, device by device: address, bytes, and the size at run time of a dimension (-1: as its shape says).
int64_t hilo_core_result_count(const HiloResults *results);
const void *hilo_core_result_data(const HiloResults *results, int64_t k);
int64_t hilo_core_result_bytes(const HiloResults *results, int64_t k);
int64_t hilo_core_result_extent(const HiloResults *results, int64_t k, int dimension);

// --- Environments: python/hloenv ---
// These change the module, which one thread has at a time. `target` is the name of a device.
HiloModule *hilo_core_clone(HiloCall *call, const HiloModule *m);
int64_t hilo_core_dag_hash(const HiloModule *m);
int64_t hilo_core_count(const HiloModule *m, bool computations);
// Runs a pipeline: 1, it changed something, 0, it did not; -1 after reporting.
int hilo_core_passes(HiloCall *call, HiloModule *m, const char *pipeline, const char *target);
HiloProposals *hilo_core_propose(HiloCall *call, HiloModule *m, const char *pipeline, const char *target);
void hilo_core_proposals_free(HiloProposals *proposals);
int64_t hilo_core_proposal_count(const HiloProposals *proposals);
// How many `alternatives` they become; -1 after reporting.
int hilo_core_alternatives(HiloCall *call, HiloModule *m, HiloProposals *proposals);
// Rows of two: which of the `alternatives`, by the indices of nodes or by uids, and which operand.
bool hilo_core_decide(HiloCall *call, HiloModule *m, const int64_t *rows, int64_t n);
// [{"pass", "rule", "computation", "instruction", "with", "rewrite", "uses", "made", "inside", "uids": [...]}].
bool hilo_core_describe_proposals(HiloCall *call, const HiloModule *m, const HiloProposals *proposals);
// Writes a byte for each pair: whether they are adjacent.
bool hilo_core_adjacency(HiloCall *call, const HiloProposals *proposals);
// Applies them in order; writes an int32 for each: what became of it (HlRewriteStatus).
bool hilo_core_apply(HiloCall *call, HiloModule *m, HiloProposals *proposals, const int64_t *which, int64_t n);
HiloModule *hilo_core_proposal_part(HiloCall *call, const HiloModule *m, const HiloProposals *proposals, int64_t k,
                                    bool replacement);
// What the k-th array of features is: "group name dtype width"; NULL: there are no more.
const char *hilo_core_feature(int k);
const void *hilo_core_opcode_attrs(void);
HiloFeatures *hilo_core_features(HiloCall *call, const HiloModule *m, bool inline_fused_comp);
void hilo_core_features_free(HiloFeatures *features);
const void *hilo_core_features_block(const HiloFeatures *features);
int64_t hilo_core_features_bytes(const HiloFeatures *features);
int64_t hilo_core_feature_offset(const HiloFeatures *features, int k);
int64_t hilo_core_feature_length(const HiloFeatures *features, int k);
// Modules made of parts of one, which hilo_core_take gives: of every instruction ("instructions"), whose texts are written, each
// ended by a NUL; of the entry's fusions ("fusions"). `repeat` copies one after the other. How many; -1 after reporting.
int hilo_core_parts(HiloCall *call, const HiloModule *m, const char *what, int64_t repeat);
// A part with the cone of operands of one instruction, so many deep; NULL: no part of that kind was found.
HiloModule *hilo_core_random_part(HiloCall *call, const HiloModule *m, int64_t least, int64_t height, int64_t seed);
// A copy in which the processor finds what it has kernels for: convolutions in the place of cuDNN's.
HiloModule *hilo_core_plain(HiloCall *call, const HiloModule *m);
// Arguments as HloEnv makes them up.
HiloResults *hilo_core_normal_args(HiloCall *call, const HiloModule *m, int64_t seed);
// Runs the program, or without one interprets the module, `times` times; writes for each an int64: nanoseconds of the run.
bool hilo_core_time(HiloCall *call, const HiloModule *m, HiloProgram *program, const int64_t *arrays, int64_t n, int64_t times,
                    const char *options);

// --- Games: hilo.games (python/core/game.c) ---
// An environment's calls may all be made with one HiloCall, whose diagnostics are those of the last. {"envs", "policies", "metrics", "observations", "tpu_columns"}.
bool hilo_core_env_tables(HiloCall *call);
// Options: {"env", "target", "actions", "first", "pre", "choose", "post", "menu", "rules", "metric", "reward", "observation": text,
// "max_steps", "seed": number}. The module is copied.
HiloEnv *hilo_core_env_new(HiloCall *call, const HiloModule *m, const char *options);
HiloEnv *hilo_core_env_fork(HiloCall *call, const HiloEnv *env);
void hilo_core_env_free(HiloEnv *env);
// {"env", "target", "actions", "metric", "reward", "max_steps", "choose", ...}.
bool hilo_core_env_options(HiloCall *call, const HiloEnv *env);
bool hilo_core_env_reset(HiloCall *call, HiloEnv *env, int64_t seed);
// An action of n numbers. `out` gets HILO_ENV_STATE numbers: reward, terminated, truncated, repeated, applied, choices, sites, seconds, kernels,
// bytes, flops, instructions, metric, moves, done, the metric at first.
enum { HILO_ENV_STATE = 16 };
bool hilo_core_env_step(HiloCall *call, HiloEnv *env, const int *action, int n, double *out);
bool hilo_core_env_apply(HiloCall *call, HiloEnv *env, const int *choices, int n, double *out);
bool hilo_core_env_stop(HiloCall *call, HiloEnv *env, double *out);
bool hilo_core_env_apply_own(HiloCall *call, HiloEnv *env, double *out);
// seconds, kernels, bytes, flops, instructions, metric, of a state that would come out.
bool hilo_core_env_try(HiloCall *call, HiloEnv *env, const int *choices, int n, double *out);
bool hilo_core_env_try_own(HiloCall *call, HiloEnv *env, double *out);
void hilo_core_env_state(const HiloEnv *env, double *out);
int64_t hilo_core_env_hash(const HiloEnv *env);
// [{"choice", "site", "option", "pass", "rule", "computation", "instruction", "with", "gain", "before", "after"}].
bool hilo_core_env_choices(HiloCall *call, const HiloEnv *env);
// Of each choice its site, its number there, what it is thought to take off (nan: not known); of each site how many it has.
void hilo_core_env_choice_arrays(const HiloEnv *env, int *site, int *option, double *gain, int *site_sizes);
// And the nodes, of the last observation, of its two parties; -1: none.
void hilo_core_env_choice_nodes(const HiloEnv *env, int *inst, int *with);
int hilo_core_env_snapshot(HiloCall *call, HiloEnv *env);
bool hilo_core_env_restore(HiloCall *call, HiloEnv *env, int snapshot);
bool hilo_core_env_drop(HiloCall *call, HiloEnv *env, int snapshot);
// Observes the state: how many arrays; -1 after reporting. And what they are: [{"name", "dtype", "width"}]; of each its address and rows.
int hilo_core_env_observe(HiloCall *call, HiloEnv *env);
bool hilo_core_env_array_names(HiloCall *call, const HiloEnv *env);
void hilo_core_env_arrays(const HiloEnv *env, int64_t *out);
// A copy of the module with passes run on it ("": none).
HiloModule *hilo_core_env_module(HiloCall *call, const HiloEnv *env, const char *last);
// Lets a player play: {"tries", "first", "last"}. Options: {"tries", "width", "depth", "seed": number}.
bool hilo_core_env_play(HiloCall *call, HiloEnv *env, const char *policy, const char *options);
// The game so far as the text of a file for `hilo replay`; `m` is the module it began with.
bool hilo_core_env_trajectory(HiloCall *call, const HiloEnv *env, const HiloModule *m, const char *program);
// {"same", "moves", "of", "differs", "what", "measured"}; `m` may be NULL: the program that the file names.
bool hilo_core_env_replay(HiloCall *call, const char *path, const HiloModule *m);
// {"equal", "inputs", "input", "leaf", "expected", "actual"}; options: {"inputs", "seed": number}.
bool hilo_core_validate(HiloCall *call, const HiloModule *before, const HiloModule *after, const char *options);
// {"median", "low", "high", "mean", "best", "compile", "runs"}; options: {"warm_up", "runs", "threads", "seconds", "seed": number}.
bool hilo_core_measure(HiloCall *call, const HiloModule *m, const char *options);
// A random module that is valid and runs; options: {"seed", "instructions", "parameters", "size": number, "loops": bool}.
HiloModule *hilo_core_generate(HiloCall *call, const char *options);
// The arrays of a form ("tpugraphs-v1") of a module: an environment to observe, of which nothing else may be asked. NULL after reporting.
HiloEnv *hilo_core_observe(HiloCall *call, const HiloModule *m, const char *form);

// --- Batches ---
// Options: {"threads", "seed": number}; observed is what `env` observes.
HiloBatch *hilo_core_batch_new(HiloCall *call, const HiloEnv *env, int n, const char *options);
void hilo_core_batch_free(HiloBatch *batch);
bool hilo_core_batch_send(HiloCall *call, HiloBatch *batch, int env, const int *action, int n);
int hilo_core_batch_receive(HiloBatch *batch, int most, int *envs);
// A step of every environment, whose actions are rows of `width` numbers, of which each takes as many as it needs; out: HILO_ENV_STATE
// numbers of each.
bool hilo_core_batch_step(HiloCall *call, HiloBatch *batch, const int *actions, int width, double *out);
// What came of the last step; whether another game has begun; what went wrong, NULL: nothing.
bool hilo_core_batch_state(const HiloBatch *batch, int env, double *out);
const char *hilo_core_batch_error(const HiloBatch *batch, int env);
HiloEnv *hilo_core_batch_env(HiloBatch *batch, int env);  // the batch's

#endif
