// mlir/text/print.h: what the files of the printer share.
#ifndef HILO_MLIR_PRINT_H
#define HILO_MLIR_PRINT_H

#include "ir/put.h"
#include "mlir/tree/tree.h"

typedef struct PrAliases PrAliases;
typedef struct PrNames PrNames;

typedef struct Printer {
  HlBuf *out;
  const HlMlTree *tree;  // NULL: a lone type or attribute
  HlMlTextOptions options;
  int indent;
  const PrNames *names;  // of values; NULL: none known
  PrAliases *aliases;    // NULL: none
  bool is_collecting;    // a first run: what could have an alias is noted, the text thrown away
  HlMlDialect spoken;    // the dialect whose prefix may be left out here; HL_ML_FOREIGN: none
} Printer;

// What follows a number or a float: its type always, only where it is not i64 or f64, or never.
typedef enum PrSuffix { PR_TYPE, PR_TYPE_IF_RARE, PR_NO_TYPE } PrSuffix;

// print_attr.c, print_type.c, print_struct.c, print_number.c
void mlp_type(Printer *p, const HlMlType *type);
void mlp_attr(Printer *p, const HlMlAttr *attr, PrSuffix suffix);
void mlp_string(Printer *p, const char *text, size_t n);   // quoted
void mlp_symbol(Printer *p, const HlSym *sym);             // @name or @"any name"
void mlp_dict(Printer *p, int n, const HlMlNamed *named);  // {a = 1}
void mlp_named(Printer *p, const HlMlNamed *named);        // a = 1
void mlp_struct(Printer *p, const HlMlAttr *attr);         // #stablehlo.dot<..>
void mlp_struct_body(Printer *p, const HlMlAttr *attr);    // what follows the name
bool mlp_is_regular_conv(const HlMlAttr *attr);  // has the form [b, 0, f]x[0, i, o]->[b, 0, f]
void mlp_ints(Printer *p, HlI64s list, const char *between);
void mlp_dim(Printer *p, int64_t size);  // `?` where it is HL_UNBOUNDED
bool mlp_float(HlBuf *out, const HlMlType *type, uint64_t bits,
               double value);                           // whether as a pattern
void mlp_hex(HlBuf *out, const void *bytes, size_t n);  // without 0x
void mlp_elements(Printer *p, const HlMlAttr *dense);   // what stands in dense<>
uint64_t mlp_float_at(const HlMlType *type, const void *at, double *value);

// print_alias.c
// Has an alias: prints it, or (while collecting) notes it. False: print it in full.
bool mlp_type_alias(Printer *p, const HlMlType *type);
bool mlp_is_map(const HlSym *text);           // affine_map<..>
void mlp_map(Printer *p, const HlSym *text);  // by alias where there is one
void mlp_location(Printer *p,
                  const HlMlLocation *location);  // loc(..), by alias where there is one
void mlp_trailing_location(
    Printer *p, const HlMlLocation *location);  // " loc(..)" where locations are asked for
void mlp_arg_location(Printer *p, const HlMlLocation *location);  // the same of a block argument
void mlp_op_location(Printer *p,
                     const HlMlOp *op);  // while collecting only: op locations come first
PrAliases *mlp_aliases_new(void);
void mlp_aliases_free(PrAliases *aliases);
void mlp_aliases_number(PrAliases *aliases);     // after collecting
void mlp_aliases_list(Printer *p, bool at_end);  // the definitions before or after the program

// print_names.c
PrNames *mlp_names_new(const HlMlTree *tree, const HlMlOp *top, bool generic);
void mlp_names_free(PrNames *names);
void mlp_value(Printer *p, const HlMlValue *value);  // %3, %3#1, %arg0
void mlp_results(Printer *p, const HlMlOp *op);      // "%0:2 = "

// print.c, print_op.c, print_form.c
void mlp_op(Printer *p, const HlMlOp *op);
void mlp_generic(Printer *p, const HlMlOp *op);
void mlp_block_name(Printer *p, const HlMlBlock *block);
void mlp_region(Printer *p, const HlMlRegion *region, bool args, bool empty_block);
void mlp_region_arg(Printer *p, const HlMlValue *arg, const HlMlAttr *attrs, bool with_type);
void mlp_operands(Printer *p, const HlMlOp *op, uint32_t from, uint32_t to);
void mlp_types(Printer *p, HlMlValue *const *values, uint32_t n);  // of operands, with commas
void mlp_result_types(Printer *p, const HlMlOp *op);               // T, or (T, U)
void mlp_function_type(Printer *p, const HlMlOp *op);              // (T) -> U
// " {..}" of the attributes that `is_left` picks; nothing if none. `word` stands before, "" or " attributes".
typedef bool PrLeft(const HlMlOp *op, const HlMlNamed *named, const void *what);
void mlp_attrs_left(Printer *p, const HlMlOp *op, const char *word, PrLeft *is_left,
                    const void *what);
bool mlp_is_inherent(const HlMlOp *op, const HlMlNamed *named);
// The whole pretty form of a `!name`; false: only the generic form is right for this op.
bool mlp_special(Printer *p, const HlMlOp *op, const char *name);
bool mlp_form(Printer *p, const HlMlOp *op, const char *form);
void mlp_newline(Printer *p);
bool mlp_has_form(const HlMlOp *op);

#endif
