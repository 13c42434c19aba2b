// mlir/text/parse.h: what the files of the MLIR text reader share.
//
// The reader is recursive descent over bytes (mlir/text/lex.h), one function per rule of mlir.md 1. Its speed
// comes from reading most things once: names are interned, what a name means is found by its symbol's
// index, and the texts of types are looked up before they are parsed. Every function leaves the cursor
// behind what it read; false or NULL means that an error was reported, after which its section ends.
//
// parse.c          files, sections, aliases, resources
// parse_op.c       ops: results, operands, the generic form
// parse_region.c   regions, blocks, what their names mean
// parse_scope.c    values: what a name means where
// parse_flow.c     dominance in regions of several blocks
// parse_form.c     pretty forms, as ops.def spells them
// parse_piece.c    the pieces of pretty forms that have a syntax of their own
// parse_custom.c   ops whose whole pretty form is a function
// parse_type.c     types
// parse_quant.c    quantised types
// parse_attr.c     attributes
// parse_struct.c   enum and struct attributes
// parse_sdy.c      struct attributes of sdy
// parse_dense.c    dense<..>, array<..>, blobs
// parse_loc.c      locations
#ifndef HILO_MLIR_PARSE_H
#define HILO_MLIR_PARSE_H

#include "base/vec.h"
#include "mlir/text/lex.h"
#include "mlir/tree/tree.h"

// Stacks that functions push onto and cut back to where they found them.
typedef VEC(const void *) MpPtrs;
typedef VEC(int64_t) MpInts;
typedef VEC(HlMlNamed) MpNameds;

typedef struct MpUse {  // an operand as written
  const HlSym *name;
  const char *at;
  uint32_t number;  // %name#number
} MpUse;
typedef VEC(MpUse) MpUses;

typedef struct MpBind {  // what stands before an op's `=`: %name, or %name:count
  const HlSym *name;
  const char *at;
  uint32_t count;
} MpBind;
typedef VEC(MpBind) MpBinds;

// What a value's name means. A value that is used before it is defined is made up at its first use and filled
// when its definition comes.
typedef struct MpDef {
  HlMlValue
      *value;  // the first of `count`, which lie side by side; NULL while forward or undefined
  uint32_t count;
  uint32_t scope;             // the isolated scope that defined it; 0: none
  struct MpForward *forward;  // used, but not defined so far
} MpDef;

typedef struct MpForward {  // a value used before its definition
  const HlSym *name;
  const char *at;
  HlMlValue *value;  // a stand-in, replaced in the operands that have it; NULL: it was
  uint32_t number, scope;
  HlMlValue ***slot;  // these operands
  int n_slots, capacity;
  struct MpForward *next;   // of the same name, another number
  struct MpForward *older;  // of the scope
} MpForward;

typedef struct MpHidden {  // a definition that an inner one hides
  uint32_t sym;
  MpDef def;
} MpHidden;

typedef struct MpLabel {  // a block of the region being read
  const HlSym *name;
  HlMlBlock *block;
  const char *at;  // its first mention
  bool is_defined;
  int hidden;  // 1 + place of a label of this name in an outer region, or 0
} MpLabel;

typedef struct MpLocAlias {     // #locN
  HlMlLocation *place;          // what users point to; filled when it is defined
  HlStr name;                   // in the source, at its first mention
  const HlMlLocation *same_as;  // `#loc1 = loc(#loc2)`
  bool is_defined;
  uint8_t mark;  // while looking for circles: 1 while open, 2 when done
  int depth;
  uint32_t size;
} MpLocAlias;

typedef struct MpResourceUse {
  HlMlAttr *attr;
  const char *at;
} MpResourceUse;

typedef struct MpSlot {  // of the caches of types and attributes by their text
  const char *text;
  uint32_t n, hash;
  const void *value;
} MpSlot;
enum { MP_TYPE_SLOTS = 4096, MP_ATTR_SLOTS = 1024, MP_MAX_CACHED = 400 };

typedef struct MpName {  // what the name of an op means
  bool is_known;
  uint8_t dialect;
  uint16_t row;
  const HlSym *now;  // what it is called today
} MpName;

typedef enum MpPlain {
  MP_I64,
  MP_I32,
  MP_F64,
  MP_F32,
  MP_PLAIN_COUNT
} MpPlain;  // types that attributes have

typedef struct MpParser {
  MlLex in;
  HlCx *cx;
  HlMlTree *tree;
  HlArena *arena;  // of the tree
  HlArena *own;    // of what lives as long as the parser
  int depth, max_depth;
  int64_t n_ops, literal_bytes;
  MpDef *defs;  // by symbol
  uint32_t n_defs;
  const HlSym **decimal;  // symbols of "0", "1", ...
  uint32_t n_decimal;
  MpHidden *hidden;
  int n_hidden, hidden_capacity;
  uint32_t scope, last_scope;  // the isolated scope, and the last one given out
  MpForward *forwards;         // of the scope
  MpForward **forward_slots;   // all that were met, by name, number and scope: open addressing
  uint32_t n_forwards, n_forward_slots;
  bool is_inner;    // the region is not isolated: what it defines is forgotten at its end
  bool is_flawed;   // something was reported after which reading went on
  bool needs_flow;  // there are several blocks in a region, or uses before definitions
  MpPtrs ptrs;      // lists being gathered: attributes, types
  MpPtrs types;     // operand types, then result types, of the op being read
  MpInts ints;
  MpNameds nameds;
  MpUses uses;
  MpBinds binds;
  VEC(MpLabel) labels;
  int
      first_label;  // those of the region being read begin at first_label
  int *label_of;    // by symbol: 1 + place in `labels`, or 0
  uint32_t n_label_of;
  MpName *names;  // by symbol, of ops
  uint32_t n_names;
  uint32_t *stamps;  // by symbol: the last attribute list that had it
  uint32_t n_stamps, last_stamp;
  const HlMlAttr **attr_alias;  // by symbol
  uint32_t n_attr_alias;
  const HlMlType **type_alias;
  uint32_t n_type_alias;
  MpLocAlias **loc_alias;  // by symbol
  uint32_t n_loc_alias;
  MpLocAlias **loc_number;  // #loc12: by number
  uint32_t n_loc_number;
  MpPtrs loc_aliases;  // all of them, in order of mention
  const HlSym *path;   // of the last file location
  MpSlot *type_slots, *attr_slots;
  const HlMlType *plain[MP_PLAIN_COUNT];
  MpPtrs resources;  // MpResourceUse: dense_resource attributes, whose data comes at the end
} MpParser;

// An op being read, before it stands in its block.
typedef struct MpState {
  const HlSym *name;
  const char *at;  // of its name
  const MlOpRow *row;
  HlMlRow row_number;
  HlMlDialect dialect;
  bool is_generic;
  int uses, types, nameds;    // where its parts begin on the stacks
  int n_operands, n_results;  // of the types on the stack: operands first
  HlMlRegion *regions;
  int n_regions;
  HlMlBlock **successors;
  int n_successors;
  const HlMlLocation *location;
} MpState;

// parse.c
bool mp_error(MpParser *p, const char *at, const char *format, ...) HL_PRINTF(3, 4);
bool mp_enter(MpParser *p);  // one level deeper; mp_leave takes it back
static inline void mp_leave(MpParser *p) {
  p->depth--;
}
void mp_start(MpParser *p);  // its tables and stacks, in `own`, once its first fields are set
void mp_push(MpParser *p, MpPtrs *stack, const void *item);
void mp_push_int(MpParser *p, int64_t value);         // onto p->ints
void mp_push_named(MpParser *p, const HlSym *name, const HlMlAttr *value, bool inherent);
static inline const HlSym *mp_sym(MpParser *p, const char *at, size_t n) {
  return hl_syms_add(p->tree->syms, at, n);
}
// A table by symbol made to hold `index`.
void *mp_grow_table(MpParser *p, void *at, uint32_t *n, uint32_t index, size_t size);
bool mp_take_literal_bytes(MpParser *p, const char *at, uint64_t n);

// parse_scope.c
const HlSym *mp_value_name(MpParser *p);          // after %; NULL after reporting
bool mp_use(MpParser *p, MpUse *out);             // %name or %name#1
bool mp_use_list(MpParser *p);                    // none or more, separated by commas
void mp_push_use(MpParser *p, const MpUse *use);  // onto p->uses
bool mp_define(MpParser *p, const HlSym *name, const char *at, HlMlValue *first, uint32_t count);
// Puts the value of a use, of that type, into the operand `slot`, which is remembered where it is not yet defined.
bool mp_resolve(MpParser *p, const MpUse *use, const HlMlType *type, HlMlValue **slot);
// Reports what need not end a section; true.
bool mp_flaw(MpParser *p, const char *at, const char *format, ...) HL_PRINTF(3, 4);
typedef struct MpScope {
  int n_hidden;
  uint32_t scope;
  MpForward *forwards;
  bool is_isolated, was_inner;
} MpScope;
MpScope mp_open_scope(MpParser *p, bool is_isolated);
bool mp_close_scope(MpParser *p, MpScope scope);

// parse_op.c
bool mp_op(MpParser *p, HlMlBlock *block);
void mp_name_op(MpParser *p, MpState *s, HlStr name);
bool mp_is_isolated(const MpState *s);
bool mp_check_twice(MpParser *p, const char *at,
                    int from);  // of the named pushed since, none has another's name

// parse_region.c
typedef struct MpArg {  // an argument of an entry block that is written outside of the region
  const HlSym *name;
  const char *at;
  const HlMlType *type;
  const HlMlLocation *location;
} MpArg;
bool mp_region(MpParser *p, MpState *s, HlMlRegion *region, int n_args, const MpArg *args);
bool mp_region_list(MpParser *p, MpState *s);  // ( {..}, {..} )
HlMlRegion *mp_add_region(MpParser *p, MpState *s);
bool mp_successors(MpParser *p, MpState *s);
bool mp_check_labels(MpParser *p);         // all that were mentioned are defined
bool mp_one_arg(MpParser *p, MpArg *arg);  // %a: T loc(..)

// parse_flow.c
bool mp_check_flow(MpParser *p);  // every use in the tree is dominated by its definition

// parse_form.c, parse_piece.c, parse_custom.c
bool mp_form(MpParser *p, MpState *s, const char *form);
bool mp_custom(MpParser *p, MpState *s, const char *name);
bool mp_piece(MpParser *p, MpState *s, HlStr name);
bool mp_opt_dict(MpParser *p, MpState *s);         // attributes, if a { stands here
bool mp_attributes_dict(MpParser *p, MpState *s);  // after `attributes`, if it stands here
bool mp_dict_entries(MpParser *p, MpState *s, bool inherent);  // {..}
bool mp_fn_type(MpParser *p, MpState *s);  // (T, U) -> V to the op's operand and result types
bool mp_type_list(MpParser *p);            // T, U: pushes onto p->types
void mp_attr_of(MpParser *p, MpState *s, MlName name,
                const HlMlAttr *value);  // an attribute that was read
// In the short form of its kind; an enum or struct as the dialect spells it.
const HlMlAttr *mp_short(MpParser *p, MlKind kind, MlAttrDef of, HlMlDialect dialect);
bool mp_int_list(MpParser *p, int *n);       // [1, 2]; pushes onto p->ints

// parse_type.c, parse_quant.c
const HlMlType *mp_type(MpParser *p);
bool mp_at_type(const MpParser *p);
const HlMlType *mp_plain(MpParser *p, MpPlain which);
const HlMlType *mp_quant(MpParser *p);  // after !quant.uniform

// parse_attr.c
const HlMlAttr *mp_attr(MpParser *p,
                        const HlMlType *expected);  // `expected`: of what has no `: type`; or NULL
const HlMlAttr *mp_symbol(MpParser *p);
const HlMlAttr *mp_string(MpParser *p);    // "text" (parse_struct.c)
const HlSym *mp_symbol_name(MpParser *p);  // @name or @"name", no nesting
const HlMlAttr *mp_number(MpParser *p, const HlMlType *expected);
const HlMlAttr *mp_array(MpParser *p, int from);  // of the attributes pushed since
const HlMlAttr *mp_dict_attr(MpParser *p);        // {a = b}

// parse_struct.c, parse_sdy.c
const HlMlAttr *mp_dialect_attr(MpParser *p);           // #dialect.name<..>, #dialect<name ..>
const HlMlAttr *mp_conv_body(MpParser *p, HlStr name);  // [b, 0, f]x[..]->[..], or raw a = 1, ..>
const HlMlAttr *mp_enum_word(MpParser *p, const MlEnum *words, const char *name);
const HlMlAttr *mp_sdy_body(MpParser *p, MlAttrDef def);
// What an op's attribute is in one form, however it was written.
const HlMlAttr *mp_normal(MpParser *p, const char *at, const MlAttrRow *row, HlMlDialect dialect,
                          const HlMlAttr *value);
// Of the named pushed since.
const HlMlAttr *mp_make_struct(MpParser *p, MlAttrDef def, HlMlDialect dialect, int from);

// parse_dense.c
const HlMlAttr *mp_dense(MpParser *p, const HlMlType *expected);  // after `dense`
// Elements of the type that were left out: a resource without its data.
const HlMlAttr *mp_elided(MpParser *p, const char *at, const HlMlType *type);
const HlMlAttr *mp_dense_array(MpParser *p);                      // after `array`
bool mp_blob(MpParser *p, const char *at, HlStr bytes,
             HlMlAttr *attr);  // the bytes become its elements
HlStr mp_hex_bytes(MpParser *p, const char *at,
                   HlStr digits);  // decoded into the arena; {NULL}: reported
// The bits of a number as an element of a type (at most 64 bits), sign-extended.
bool mp_int_bits(MpParser *p, const char *at, const HlMlType *type, const MlNumber *number,
                 uint64_t *bits);

// parse_loc.c
bool mp_opt_location(MpParser *p, const HlMlLocation **out);  // loc(..), if it stands here
bool mp_define_location(MpParser *p,
                        HlStr name);  // what follows `#loc1 =`; names lie in the source
const HlMlLocation *mp_location_alias(MpParser *p, HlStr name);
bool mp_close_locations(MpParser *p);  // all aliases are defined

#endif
