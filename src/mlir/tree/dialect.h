// mlir/tree/dialect.h: the tables of dialects: what ops there are, their operands, attributes and pretty forms.
//
// A pretty form (the last column of ops.def) is a text in which stand for themselves: words, commas, `=`, brackets,
// parentheses, `->`; and
//   $*           the operands, separated by commas
//   @NAME        an attribute in the short form of its kind: 3, true, "s", EQ, [0, 1], @f, <...> of a struct, dense<>
//   @+NAME       the same in full, with its type: dense<1> : tensor<i32>
//   ?{ ... }     a part that is there when its first attribute is (and not its default)
//   %            the attribute dictionary, if there are attributes left; before `attributes` words are none
//   #NAME        a piece of syntax of its own: format (e8m7), ranges ([1:3, 4:8:2]), dot, precision, algorithm, conv,
//                window, target (@f or @"f g"), regions, state (nothing: the result is tensor<2xui64>)
//   :same        `: T` when all operand and result types are equal, else `: (T, U) -> V`
//   :fn          `: (T, U) -> V`            :results  `: V, W`       :operands  `: T, U`
//   :lhs         `: T` of the first operand :arrow    `: T, U -> V`  :to        `: T to U`
//   :complex     `: V`, operands of its real type when they are, else (T, U) -> V
//   :select      `: P, T` when on_true, on_false and result are equal, else (T, U, V) -> W
//   :tuple       `: tuple<T, U>` of the result when its elements are the operands', else (T, U) -> V
//   :variadic    `: T` when all are of one type (also without operands), else (T, U) -> V
//   !NAME        at the start: the whole form is a pair of functions, parse and print, of that name
// Blanks: a `,` is followed by one, `=` between words has one on each side where the form has; sdy's have none.
#ifndef HILO_MLIR_DIALECT_H
#define HILO_MLIR_DIALECT_H

#include <assert.h>

#include "hilo/mlir.h"

typedef enum MlKind {
  ML_K_ANY,
  ML_K_I64,
  ML_K_I32,
  ML_K_F32,
  ML_K_F64,
  ML_K_BOOL,
  ML_K_UNIT,
  ML_K_STRING,
  ML_K_SYMBOL,
  ML_K_TYPE,
  ML_K_I64S,   // array<i64> or (older) a dense tensor of i64
  ML_K_BOOLS,  // array<i1> or a dense tensor of i1
  ML_K_DENSE,
  ML_K_ARRAY,
  ML_K_DICT,
  ML_K_ENUM,
  ML_K_STRUCT,
  ML_K_CONFIG,  // custom_call's backend_config: a string or a dictionary
  ML_K_GROUPS   // replica_groups: a dense tensor or #stablehlo.replica_group_mesh_axes
} MlKind;

enum { HL_OP_NO = HL_OP_COUNT };

typedef enum HlMlRow {
  ML_NONE,
#define ML_OP(id, ...) ML_##id,
#include "mlir/tree/ops.def"
  ML_ROW_COUNT
} HlMlRow;

// Names of attributes and fields that code asks for: names.def. They compare as their texts do.
typedef enum MlName {
  ML_A_NONE,  // no name, or not looked up yet
#define ML_NAME(id, text) ML_A_##id,
#include "mlir/tree/names.def"
  ML_NAME_COUNT,
  ML_A_FOREIGN = ML_NAME_COUNT  // a name that only files know
} MlName;
extern const char *const ml_name_text[ML_NAME_COUNT];
MlName ml_find_name(HlStr text);  // ML_A_FOREIGN: not in names.def

// The enum and struct attributes that attrs.def defines.
typedef enum MlAttrDef {
  ML_D_NONE,
#define ML_ENUM(id, name) ML_D_##id,
#include "mlir/tree/attrs.def"
#define ML_STRUCT(id, name, ...) ML_D_##id,
#include "mlir/tree/attrs.def"
  ML_DEF_COUNT
} MlAttrDef;
static_assert(ML_DEF_COUNT <= UINT8_MAX, "a row keeps it in a byte");
extern const char *const ml_def_text[ML_DEF_COUNT];  // "stablehlo.dot"
// The text as the dialect spells it: MHLO's is "mhlo.dot".
enum { ML_MAX_DEF_TEXT = 64 };
const char *ml_spelt(MlAttrDef def, HlMlDialect dialect, char buffer[ML_MAX_DEF_TEXT]);
MlAttrDef ml_def_of(const HlMlAttr *attr);  // however it is spelt; ML_D_NONE: of no such kind

typedef struct MlAttrRow {
  uint16_t name;    // MlName
  uint8_t kind;     // MlKind
  uint8_t of;       // MlAttrDef: which enum or struct it is, or its elements are
  const char *def;  // "!" required, "" optional, else the default
} MlAttrRow;

typedef struct MlOpRow {
  const char *name, *operands, *results, *regions;
  int hlo;  // HlOp, or HL_OP_NO
  const char *form;
  const MlAttrRow *attrs;  // ends with one of ML_A_NONE
} MlOpRow;

const MlOpRow *ml_row(int row);  // ML_NONE: a row of empty strings
static inline const MlOpRow *ml_row_of(const HlMlOp *op) {
  return ml_row(op->row);
}
const char *ml_meaning(int row);  // what the op does, in a line; of ML_NONE ""
// The row of a name as spelt, and its dialect: "mhlo.add" finds stablehlo.add's row. ML_NONE if there is none; the
// dialect is told all the same. Looks at every row: readers keep the answer by symbol.
HlMlRow ml_find_row(HlStr name, HlMlDialect *dialect);
HlMlDialect ml_find_dialect(HlStr name);  // of "stablehlo.add" or "stablehlo"
const char *ml_dialect_name(HlMlDialect dialect);
const MlAttrRow *ml_find_attr(const MlOpRow *row, MlName name);  // NULL: not an inherent attribute
const MlAttrRow *ml_find_attr_text(const MlOpRow *row, HlStr name);  // as a form spells it
static inline bool ml_is_required(const MlAttrRow *attr) {
  return attr->def[0] == '!';
}

typedef struct MlEnum {
  MlAttrDef def;
  const char *name;         // "stablehlo.comparison_direction"
  const char *const *word;  // ends with NULL
  const int64_t *value;
} MlEnum;
const MlEnum *ml_enum_of(MlAttrDef def);  // NULL: it is none
// By name; mhlo's are stablehlo's where it has none of its own. NULL: none.
const MlEnum *ml_find_enum(HlStr name);
const char *ml_enum_word(const MlEnum *words, int64_t value);  // NULL: none
bool ml_enum_value(const MlEnum *words, HlStr word, int64_t *value);

// sdy's enums are plain numbers wherever no form spells their words.
bool ml_enum_is_number(MlAttrDef def);

typedef struct MlField {
  MlName name;
  MlKind kind;
} MlField;
typedef struct MlStruct {
  MlAttrDef def;
  const char *name;
  int code;  // in native bytecode; -1: none
  bool has_own_syntax;
  const MlField *field;  // ends with one of ML_A_NONE
} MlStruct;
const MlStruct *ml_struct_of(MlAttrDef def);  // as ml_enum_of
const MlStruct *ml_find_struct(HlStr name);   // as ml_find_enum
const MlStruct *ml_struct_by_code(HlMlDialect dialect, int code);

#endif
