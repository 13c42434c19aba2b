// mlir/from_hlo/from_hlo.h: writing an HLO module as StableHLO or MHLO: what the files of from_hlo*.c share.
//
// Every HLO value is a list of leaves (arrays, tokens): tuples are flattened wherever they occur. A computation that
// is called is a function; every other one is written where it is used, as a region or in place.
#ifndef HILO_MLIR_FROM_HLO_H
#define HILO_MLIR_FROM_HLO_H

#include "mlir/tree/tree.h"

typedef struct FhValue {  // the leaves of an instruction's value
  HlMlValue **at;         // NULL: what no op gives, such as the context of an async op
  int n;
} FhValue;

typedef struct FhEnv {  // a computation while it is written
  const HlComp *comp;
  FhValue *of;          // by instruction id
  const FhValue *args;  // by parameter number
} FhEnv;

typedef enum FhLoss {  // what is left out, each noted once
  FH_LOSS_LAYOUT,
  FH_LOSS_FUSION,
  FH_LOSS_CONTROL,
  FH_LOSS_CONFIG,
  FH_LOSS_SHARDING,
  FH_LOSS_DOMAIN,
  FH_LOSS_ASYNC,
  FH_LOSS_ELIDED,
  FH_LOSS_CALL_ATTRS,
  FH_LOSS_CALL_LAYOUTS,
  FH_LOSS_SCHEDULE,
  FH_LOSS_ALIAS,
  FH_LOSS_CONSTRAIN,
  FH_LOSS_TRACE,
  FH_LOSS_SPMD,
  FH_LOSS_PRECISION,
  FH_LOSS_UNKNOWN,
  FH_LOSS_COUNT
} FhLoss;

typedef struct FhLost {
  int64_t n;
  HlPos pos;          // of the first
  const HlSym *name;  // of the first; NULL: the module's
} FhLost;

typedef struct Fh {
  HlCx *cx;
  HlMlTree *tree;
  const HlModule *m;
  HlArena *arena;  // of the work; released as it goes
  bool mhlo;
  HlMlBlock *block;    // where ops go
  const HlInst *inst;  // being written
  FhEnv *env;
  const HlMlLocation *location;
  const HlMetadata *located;  // whose location was made last
  const HlMlLocation *located_at;
  const HlMlLocation **frame;  // of stack frames, by id - 1, made on demand
  int depth;                   // of computations written in place
  int64_t n_written;           // instructions, each as often as it is written
  uint16_t row[HL_OP_COUNT];   // the op of the same meaning, or ML_NONE
  const HlSym **function;      // by computation id; NULL: not a function yet
  const HlComp **todo;         // functions, in the order in which they were asked for
  int n_todo;
  FhLost lost[FH_LOSS_COUNT];
} Fh;

// Writes an instruction: `out` has room for its leaves. False after reporting.
typedef bool FhRule(Fh *f, const HlInst *inst, FhValue *out);

// --- from_hlo.c, inst.c: the module, computations, values ------------------------------------------------------

bool fh_error(Fh *f, const HlInst *inst, const char *format, ...)
    HL_PRINTF(3, 4);  // HL_UNSUPPORTED; always false
void fh_lose(Fh *f, FhLoss loss, const HlInst *inst);
// Writes the body of a computation at f->block; its root's leaves go to `out`.
bool fh_inline(Fh *f, const HlComp *comp, const FhValue *args, FhValue *out);
// A region of `op` that is the computation: block arguments of the given leaf types (which may differ from the
// parameters' in the element type), a return of values of the types `results`.
bool fh_region(Fh *f, HlMlOp *op, int region, const HlComp *comp, const HlMlType *const *args,
               const HlMlType *const *results);
// The leaves of the parameters as arguments of a block, by parameter; `args` as above or NULL. NULL after reporting.
const FhValue *fh_block_args(Fh *f, HlMlBlock *block, const HlComp *comp,
                             const HlMlType *const *args);
// A region without arguments that is the computation of given values.
bool fh_branch(Fh *f, HlMlOp *op, int region, const HlComp *comp, FhValue arg);
const HlSym *fh_function(Fh *f, const HlComp *comp);  // which will be written as a function
bool fh_has_layout(const HlShape *shape);             // other than the default one
FhValue fh_value(Fh *f, int64_t n);                   // room for leaves, all NULL

static inline FhValue fh_operand(const Fh *f, const HlInst *inst, int k) {
  return f->env->of[inst->operands[k]->id];
}
static inline HlMlValue *fh_in(const Fh *f, const HlInst *inst, int k) {
  return fh_operand(f, inst, k).at[0];
}
FhValue fh_operands(Fh *f, const HlInst *inst, int from, int to);  // the leaves of several
// Which leaf of a shape the path names, and how many there are from there.
int64_t fh_leaf_at(const HlShape *shape, HlI64s path, int64_t *n);

// Ops: `name` is stablehlo's and becomes mhlo's where that is written. Attributes come afterwards.
HlMlOp *fh_op(Fh *f, HlMlRow row, int n, HlMlValue *const *operands, int n_results,
              const HlMlType *const *types, int n_regions);
HlMlValue *fh_make(Fh *f, HlMlRow row, int n, HlMlValue *const *operands,
                   const HlMlType *type);
void fh_set(Fh *f, HlMlOp *op, MlName name, const HlMlAttr *value);
void fh_results(const HlMlOp *op, FhValue *out);  // the results of an op are the leaves
void fh_copy(FhValue *out, FhValue from);         // the same values
// The attributes that the op's row and the instruction have in common.
bool fh_fill(Fh *f, HlMlOp *op, const HlInst *inst);
bool fh_default(Fh *f, const HlInst *inst, FhValue *out);
// Converts float operands to one element type where HLO lets them differ.
void fh_unify(Fh *f, const HlInst *inst, FhValue *in);
// Converts the narrower of two float operands of a product to the other's type.
void fh_widen(Fh *f, FhValue *in);
// Region `k`, the computation `k`, of an op that folds or compares scalars.
bool fh_scalar_region(Fh *f, HlMlOp *op, int k, const HlInst *inst);

// --- attr.c, op_attr.c, location.c: types, attributes, locations ------------------------------------------------------

const HlMlType *fh_type(Fh *f, const HlShape *shape);  // NULL after reporting
// Appends the types of a shape's leaves; false after reporting.
bool fh_types(Fh *f, const HlShape *shape, const HlMlType **types);
const HlMlType **fh_leaf_types(Fh *f, const HlShape *shape, int64_t *n);  // NULL after reporting
const HlMlType *fh_tensor(Fh *f, int rank, const int64_t *dim, const HlMlType *element);
const HlMlType *fh_with_element(Fh *f, const HlMlType *type, const HlMlType *element);
const HlMlAttr *fh_ints(Fh *f, HlI64s values);  // of an op: array<i64>, or mhlo's dense
const HlMlAttr *fh_bools(Fh *f, HlI64s values);
const HlMlAttr *fh_i64s_2d(Fh *f, int64_t rows, int64_t columns, const int64_t *values);
const HlMlAttr *fh_i32(Fh *f, int64_t value);
const HlMlAttr *fh_i32s(Fh *f, int n, const int32_t *values);  // array<i32: ...>
const HlMlAttr *fh_text(Fh *f, const char *text);
const HlMlAttr *fh_enum(Fh *f, MlAttrDef def, int64_t value);
const HlMlAttr *fh_struct(Fh *f, MlAttrDef def, int n, const HlMlNamed *field);
static inline const HlMlAttr *fh_string(Fh *f, const HlSym *sym) {
  return hl_ml_string(f->tree, sym->text, sym->n);
}
HlMlNamed fh_named(Fh *f, MlName name, const HlMlAttr *value);
const HlMlAttr *fh_string_dict(Fh *f, const HlDict *dict);
const HlMlAttr *fh_sharding(Fh *f, const HlSharding *sharding);
const HlMlAttr *fh_layout(Fh *f, const HlShape *array);  // dense<[1, 0]> : tensor<2xindex>
const HlMlAttr *fh_tiles(Fh *f, const HlShape *array);  // of its layout, a list of sizes each
const HlMlAttr *fh_groups(Fh *f, const HlInst *inst);
const HlMlAttr *fh_channel(Fh *f, int64_t handle, int64_t type);
// The attribute that a text spells, such as {a = 1 : i32}; NULL when it spells none (nothing is reported).
const HlMlAttr *fh_parse_attr(Fh *f, const char *text, size_t n);
const HlMlLocation *fh_location(Fh *f, const HlInst *inst);
const HlMlAttr *fh_attr_of(Fh *f, const HlMlOp *op, const MlAttrRow *row, const HlInst *inst,
                           bool *ok);

// --- Rules by family: shape.c, math.c, flow.c, comm.c ---------------------

#define RULE(op, name) bool fh_rule_##name(Fh *f, const HlInst *inst, FhValue *out);
#include "mlir/from_hlo/from_hlo.def"
#undef RULE

#endif
