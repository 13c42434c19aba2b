// lower.h: what the rules that turn equations into HLO share.
//
// A rule is a function and a row in the table of its family (elementwise.c, shape.c, ...). It finds
// the operands in r->in, builds with r->b and gives its results one after the other with `jx_give`; the
// driver (lower.c) checks them against the binders.
#ifndef HILO_JAXPR_LOWER_H
#define HILO_JAXPR_LOWER_H

#include "hilo/build.h"
#include "jaxpr/tree.h"

enum { MAX_RANK = 65 };  // 64 of a type as printed, and the words of a key

typedef struct Lower Lower;
typedef struct Rule Rule;
typedef bool RuleFn(Rule *r);  // false: reported

typedef struct Row {
  const char *name;
  RuleFn *fn;
  int op;            // HlOp or another number that the function wants
  const char *text;  // a name that it wants
} Row;
// Each ends with a row without name.
extern const Row jx_elementwise_rows[], jx_shape_rows[], jx_reduce_rows[], jx_window_rows[],
    jx_sort_rows[], jx_control_rows[], jx_gather_rows[], jx_dot_rows[], jx_random_rows[],
    jx_linalg_rows[], jx_collective_rows[], jx_reference_rows[];

// The variables of the jaxpr being lowered.
typedef struct Frame {
  const Jaxpr *jaxpr;
  HlInst **value;     // by variable; NULL: not yet
  const Aval **aval;  // as printed; NULL: not printed
} Frame;

// A computation that is called again with arguments of the same types.
typedef struct Function {
  struct Function *next;  // of the same jaxpr, with other types
  HlComp *comp;
} Function;

// The mesh or the mapped axis around what is being lowered.
typedef struct MeshAxis {
  HlStr name;
  int64_t size;
} MeshAxis;
typedef struct MeshScope {
  int n;
  MeshAxis *axis;  // major to minor
} MeshScope;

struct Lower {
  HlCx *cx;
  const HlJaxpr *tree;
  const HlJaxprOptions *options;
  HlModule *m;
  HlArena *arena;  // for as long as the lowering takes
  HlSyms *names;   // of primitives: a symbol's index is its row's
  const Row **rows;
  HlBuild *b;
  Frame *frame;
  const char *path;  // op_name of what surrounds the equation
  int depth;
  int64_t n_lowered;  // equations
  HlSyms *called;     // places of jaxprs that became functions: a symbol's index is the list's
  VEC(Function *) functions;
  Function *threefry;  // blocks of threefry2x32
  MeshScope *mesh;     // NULL: none
};

struct Rule {
  Lower *lo;
  const Eqn *eqn;
  const Row *row;
  HlBuild *b;
  int n;  // operands
  HlInst **in;
  const Aval **aval;  // of the operands; NULL: not printed
  VEC(HlInst *) out;  // results so far
};

// --- Errors, results, parameters (rule.c) --------------------------------------------------------------

static inline HlPos jx_pos(const Lower *lo, HlLoc loc) {
  return (HlPos){lo->tree->source, loc};
}
bool jx_fail(const Rule *r, const char *format, ...) HL_PRINTF(2, 3);    // invalid input
bool jx_refuse(const Rule *r, const char *format, ...) HL_PRINTF(2, 3);  // HL_UNSUPPORTED
bool jx_give(Rule *r, HlInst *inst);             // one more result; false: NULL
bool jx_give_all(Rule *r, HlInst *inst, int n);  // n results: the elements of a tuple, or the one
bool jx_want(const Rule *r, int operands);       // else reports
bool jx_want_at_least(const Rule *r, int operands);
const Value *jx_param(const Rule *r, const char *name);  // NULL: not written
bool jx_param_int(const Rule *r, const char *name,
                  int64_t *out);  // these report what is missing or no such
bool jx_param_ints(const Rule *r, const char *name, HlI64s *out);
bool jx_param_sizes(const Rule *r, const char *name,
                    HlI64s *out);  // of a shape: not negative, not too many
bool jx_param_bool(const Rule *r, const char *name, bool *out);
bool jx_param_dtype(const Rule *r, const char *name, HlDtype *out);
Jaxpr *jx_param_jaxpr(const Rule *r, const char *name);  // NULL: reported
bool jx_param_flag(const Rule *r, const char *name);     // false when not written
int64_t jx_param_int_or(const Rule *r, const char *name, int64_t absent);
bool jx_param_pairs(const Rule *r, const char *name, int width,
                    HlI64s *out);  // ((1, 2), (3, 4)): flat, width each
bool jx_want_rank(const Rule *r, const char *name, HlI64s list, int rank);  // one entry a dimension
bool jx_want_dims(const Rule *r, const char *name, HlI64s list,
                  int rank);                        // distinct dimensions below rank
const char *jx_text_of(const Rule *r, HlStr text);  // NUL-terminated, in lo->arena
int64_t *jx_fill_ints(const Rule *r, int n, int64_t value);

// --- Shapes -------------------------------------------------------------------------------------------------

// The HLO shape of a printed type: a key has its words as one more dimension. NULL after reporting.
const HlShape *jx_aval_shape(Lower *lo, const Aval *aval, HlLoc loc);
// As the jaxpr would print it, for messages: f32[2,3].
const char *jx_type_text(Lower *lo, const HlShape *shape);
// The sizes of result k: as bound. NULL: not printed (or reported).
const HlShape *jx_bound_shape(const Rule *r, int k);
bool jx_is_key(const Rule *r, int k);
// Broadcasts x[0..n) to one size, as NumPy does.
bool jx_align(Rule *r, int n, HlInst **x);
HlInst *jx_broadcast_to(HlBuild *b, HlInst *x,
                        const HlShape *like);  // same or size-1 dimensions, or a scalar

// --- Jaxprs ---------------------------------------------------------------------------------------------------

// The equations of a jaxpr in place: results into `out` (jaxpr->n_out of them).
bool jx_lower_inline(Lower *lo, const Jaxpr *jaxpr, const char *path, int n, HlInst *const *args,
                     HlInst **out);
// A jaxpr as a computation (made once), called.
bool jx_lower_call(Rule *r, const Jaxpr *jaxpr, const char *name, const char *path, int n,
                   HlInst *const *args);
// A function of a list for arguments of these types; NULL: none.
HlComp *jx_find_function(const Function *list, int n, HlInst *const *args);
void jx_add_function(Lower *lo, Function **list, HlComp *comp);
// A computation of its own with parameters of these shapes; a tuple of results unless it is one.
HlComp *jx_lower_comp(Lower *lo, const Jaxpr *jaxpr, const char *name, const char *path, int n,
                      const HlShape *const *shapes);
// Inside: builds in `nested` until done.
HlBuild *jx_build_in(Lower *lo, HlBuild *nested);  // the builder to put back
const char *jx_path_in(Lower *lo, const char *format, ...) HL_PRINTF(2, 3);  // lo->path / ...
// Names what is built after an op_name.
void jx_name_after(Rule *r, const char *op_name);

// A comparison (HL_WORD_direction_*); complex numbers by their real, then by their imaginary parts.
HlInst *jx_complex_less(HlBuild *b, HlInst *x, HlInst *y, int direction);
// Lowest and highest value of a type (infinite for floats), as scalar constants.
HlInst *jx_lowest(HlBuild *b, HlDtype dtype);
HlInst *jx_highest(HlBuild *b, HlDtype dtype);

#endif
