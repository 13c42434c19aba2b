// hilo/tool.h: what the commands do, as functions: read anything, fake inputs, compare, replay.
#ifndef HILO_TOOL_H
#define HILO_TOOL_H

#include "hilo/eval.h"
#include "hilo/exported.h"
#include "hilo/ir.h"
#include "hilo/jaxpr.h"
#include "hilo/mlir.h"
#include "hilo/proto.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlFormat {
  HL_FORMAT_UNKNOWN, HL_FORMAT_TEXT, HL_FORMAT_PROTO, HL_FORMAT_PBTXT, HL_FORMAT_MLIR, HL_FORMAT_MLIR_BYTECODE,
  HL_FORMAT_JAXPR, HL_FORMAT_EXPORTED, HL_FORMAT_NPZ, HL_FORMAT_DIRECTORY,
  HL_FORMAT_REPORT             // what XLA dumps beside modules: configurations, lists of thunks, buffer reports
} HlFormat;

// What the bytes of a file, which is not compressed, are. The first few thousand tell, but of binary protos, which need all.
HlFormat hl_format_of(HlStr bytes);
// Whether a file of that kind holds programs.
static inline bool hl_format_is_program(HlFormat format) {
  return format != HL_FORMAT_UNKNOWN && format != HL_FORMAT_NPZ && format != HL_FORMAT_DIRECTORY &&
         format != HL_FORMAT_REPORT;
}

// The target that a word says: a name (hl_target_find), "native", or else a file that hl_proto_read_target reads. In the arena
// or forever; NULL after reporting.
const HlTarget *hl_target_load(HlCx *cx, HlArena *arena, const char *word);
// The usual device of the kind that a module was compiled for, as far as it says: a GPU by queues of kernels in backend
// configs or by what only their libraries do, else a CPU. Never NULL.
const HlTarget *hl_target_of_module(const HlModule *m);

// How MLIR and jaxpr become modules.
typedef struct HlLoadOptions {
  const char *entry;           // function to take as entry; NULL: main, or every function without parameters
  const char *arg_shapes;      // "f32[2,3],s64[]=4": static types (and values) of a dynamic program's arguments; NULL: as they are
  const char *args;            // .npz with c0, c1, ... for a jaxpr's constvars, and a0, a1, ..., which tell the types of a dynamic
                               // program's arguments; NULL: none
  bool fill_hidden;            // arguments that callers do not see become constants (hl_ml_fill_hidden), for cpu
  bool consts_as_parameters;   // a jaxpr's constvars without a value become parameters, else an error
  bool entry_modes;            // arrays go in and out as the attributes of MLIR's entry say (hl_ml_entry_modes)
  bool trees_only;             // MLIR stays as it is: no modules are made
  bool jaxprs_without_types;   // are kept as they are: HlFile.jaxpr; else they are refused where nothing says their types
  bool verify;                 // what is not valid is refused, every broken rule reported, as hl_verify and hl_ml_verify do
  bool structure;              // without verify: still refused is HLO that is not even a graph, which can be printed and no more
  HlDialect dialect;           // the modules are to be written as this release of XLA does; UNTOLD: as they were read
} HlLoadOptions;

// The programs of a file in whatever form, told by content, gzip and zstd seen through.
typedef struct HlFile {
  HlFormat format;
  HlModule **modules;          // one a function to run, where it is MLIR
  int n;
  HlMlTree **trees;            // the sections of an MLIR file, as they were read, with trees_only
  int n_trees;
  HlJaxpr *jaxpr;              // one without types, where neither args nor arg_shapes says them; else NULL
  HlExported *exported;        // what jax.export says beside the module; NULL: it is no such file
  HlRecorded recorded;         // a snapshot's
} HlFile;
// Everything read is the caller's: hl_file_free. On failure false, and `out` holds the format only,
// which tells a damaged module from a file that is none. Options may be NULL.
bool hl_load(HlCx *cx, const char *path, const HlLoadOptions *options, HlFile *out);
bool hl_load_source(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out);
// Makes the modules of a file whose trees were kept (which changes and frees the trees).
bool hl_load_lower(HlCx *cx, const HlLoadOptions *options, HlFile *file);
void hl_file_free(HlFile *file);

// For how many partitions the shardings and meshes of a module are written; 1: it names none. Where the header says fewer,
// whoever compiles it says how many there are: JAX's lowered text leaves that to the compile options.
int64_t hl_named_partitions(const HlModule *m);

// Inputs made up for the entry parameters, the same on every machine (tools.md 8): index ranges,
// sort keys, init values, divisors and trip counts are respected, also through loops, calls and
// fusions. Fills out[k] for each entry parameter with a new reference; on failure false and none.
bool hl_fake_args(HlCx *cx, const HlModule *m, uint64_t seed, HlLiteral **out);
// The same with floats of all sizes: a sign and 2^u, u uniform over the type's exponents, where the program has no
// wishes; rarely 0, -0, 1, -1 or an infinity.
bool hl_fake_large_args(HlCx *cx, const HlModule *m, uint64_t seed, HlLiteral **out);
// Gives the constants whose values were elided from the text made-up ones, as parameters are given them, by the seed and each one's name:
// passes and evaluations of the module and of copies then see the same numbers. Warns of each. False after reporting.
bool hl_fake_elided(HlCx *cx, HlModule *m, uint64_t seed);

// Whether a leaf of the entry's result holds eigen- or singular vectors, as columns or rows of its last two dimensions: known up
// to sign (real) or phase (complex) only, and those of one value as any basis of their space.
typedef enum HlVectorKind { HL_NO_VECTORS, HL_VECTORS_COLUMNS, HL_VECTORS_ROWS } HlVectorKind;
typedef struct HlVectorLeaf {
  HlVectorKind kind;
  int values;                  // the leaf with the values of these vectors; -1: none is a result
} HlVectorLeaf;
// One entry per flattened leaf, in the arena.
HlVectorLeaf *hl_vector_leaves(HlArena *arena, const HlModule *m, int *n);

// The bound for relative and absolute errors of a float or complex type (tools.md 9).
double hl_rounding(HlDtype dtype);

// How two results compare (design 3, tools.md 9): one rule for whoever compares. hl_compare_rule says it in words.
typedef struct HlCompareOptions {
  HlMaybeFloat tolerance;      // |a-e| <= T*max(1, max|e|) + 10*T*|e|; not given: the bounds of tools.md 9
  const HlVectorLeaf *vectors; // hl_vector_leaves, or NULL
  int n_vectors;
  const HlLiteral *const *values;  // the expected leaves that `vectors` counts, where not all are compared; else NULL
  int n_values;
  double abs_bound, rel_bound; // without a tolerance, in place of tools.md 9's for every type; 0: those
  unsigned char *mask;         // of one leaf: set to 1 at each element that differs; NULL
} HlCompareOptions;
typedef struct HlMismatch {
  bool same_shape, equal;      // equal within the bounds
  int64_t n, n_different, n_nan, n_inf;
  int64_t first, worst;        // element numbers, row-major; -1: none
  double worst_abs, worst_rel, actual, expected;  // at `worst`
  double pass_abs, pass_rel;   // bounds either of which would pass everything
  double pass_tolerance;       // the least tolerance, to three digits, that would; infinite: none
} HlMismatch;
// Compares flattened results leaf by leaf into out[n]. True if all are equal within the bounds.
bool hl_compare(HlCx *cx, int n, const HlLiteral *const *actual, const HlLiteral *const *expected,
                const HlCompareOptions *options, HlMismatch *out);
// How many elements are nan or infinite (of complex numbers: in either part); none of integers, predicates and tokens. Of results that
// are nothing else on both sides "equal" says nothing: whatever went wrong before shows no more.
int64_t hl_count_not_finite(const HlLiteral *array);
// Whether there are elements, and no finite one.
bool hl_is_silent(const HlLiteral *array);
// Appends when an element differs, in words: by a tolerance, or by XLA's rule where none is given.
void hl_compare_rule(HlMaybeFloat tolerance, HlBuf *out);

// The array leaves of a value in order, tokens left out: borrowed literals, in the arena.
const HlLiteral **hl_flatten(HlArena *arena, const HlLiteral *value, int *n);
// A value of a shape from its array leaves, converted to the leaves' types; the next leaf to use is
// *next, which moves on. NULL after reporting (`what` names the leaves in messages: "a").
HlLiteral *hl_unflatten(HlCx *cx, const HlShape *shape, const char *what, int n, HlLiteral *const *leaf, int *next);

#ifdef __cplusplus
}
#endif
#endif
