// text/parse.h: what the files of the HLO text reader share.
//
// The reader is recursive descent over bytes (text/lex.h), one function per grammar rule of hlo.md
// 1. Its speed comes from reading most things once: the raw bytes of a shape, a metadata, a
// sharding are looked up in small caches, and only texts not seen lately are parsed. Names are
// interned once; what a name means is found by its symbol's index.
//
// parse.c          files, modules, what is done when a module ends
// parse_header.c   attributes of the HloModule line, stack-frame tables
// parse_comp.c     computations, names and their scopes, going on after an error
// parse_inst.c     instructions: opcodes, attributes; what each op asks of them
// parse_operand.c  what stands in an instruction's parentheses
// parse_async.c    async-start and its kin, and the sugar `op-start`
// parse_attr.c     one function for each attribute kind of attrs.def
// parse_meta.c     metadata, dictionaries, statistics, origins
// parse_shape.c    shapes and layouts
// parse_sharding.c shardings, meshes, replica groups
// parse_literal.c  literals
// parse_log.c      what logs put around HLO
// parse_old.c      what texts of years ago say otherwise
#ifndef HILO_TEXT_PARSE_H
#define HILO_TEXT_PARSE_H

#include "hilo/edit.h"
#include "hilo/ir.h"
#include "ir/dialect.h"
#include "text/lex.h"

// Stacks that many functions push onto and cut back to where they found them.
typedef struct ParseInts {
  int64_t *at;
  int n, capacity;
} ParseInts;
typedef struct ParsePtrs {
  const void **at;
  int n, capacity;
} ParsePtrs;

// What a name means, by the index of its symbol.
typedef struct ParseDef {
  HlInst *inst;    // in the computation `stamp`; NULL: defined by an instruction that failed
  uint32_t stamp;  // of the computation that defined `inst`; 0: none
  uint32_t bits;   // PARSE_DEF_*, and the computation's place in `comps` above them
} ParseDef;
enum {
  PARSE_DEF_EVER = 1,       // some instruction of the module has had the name
  PARSE_DEF_CHECKED = 2,    // CLEAN and NORMAL are known
  PARSE_DEF_CLEAN = 4,      // legal as an instruction's name
  PARSE_DEF_NORMAL = 8,     // its number is written as uniquing would write it
  PARSE_DEF_BARE = 16,      // RESERVED is known
  PARSE_DEF_RESERVED = 32,  // a keyword or element type: no bare name
  PARSE_DEF_BAD_COMP = 64,  // a computation of this name was read with errors
  PARSE_DEF_COMP = 128,     // the lowest bit of the place in `comps`, which counts from 1
  PARSE_MAX_COMPS = (1 << 24) - 2
};

// A definition that an inner computation hides until it ends.
typedef struct ParseHidden {
  uint32_t sym;
  uint32_t stamp;
  HlInst *inst;
} ParseHidden;

// A computation being read.
typedef struct ParseScope {
  HlComp *comp;
  uint32_t stamp;
  HlInst *root;
  int n_params;
  bool root_seen;  // ROOT was written
  bool failed;     // some instruction in it failed
  struct ParseScope *outer;
} ParseScope;

// A slot of a cache from raw text to what it means.
typedef struct ParseSlot {
  const char *text;
  const void *value;
  uint64_t hash;
  uint32_t n;
  uint32_t generation;  // of the parser's module
} ParseSlot;
enum { PARSE_WORD_SLOTS = 512 };

// A cache; its size follows that of the text.
typedef struct ParseCache {
  ParseSlot *slots;
  uint32_t mask;  // number of slots - 1
} ParseCache;

// A slot of a cache from words to opcodes or attributes.
typedef struct ParseWord {
  const char *text;  // in the source
  uint32_t n;
  int16_t op, key;  // key -1: an opcode
} ParseWord;

enum { PARSE_MAX_ZEROS = 256 };
typedef struct Parser {
  Lex in;
  HlArena *arena;  // of what lives as long as the parser
  HlCx *cx;
  HlModule *m;
  int64_t first_error;  // number of errors before this source
  int depth, max_depth;
  int64_t n_insts;
  int64_t literal_bytes;
  int64_t leaves;  // of the shape being read
  ParseDef *defs;
  uint32_t n_defs;
  uint32_t next_stamp, generation;
  ParseScope *scope;
  ParseHidden *hidden;
  int n_hidden, hidden_capacity;
  ParseInts ints;
  ParsePtrs ptrs;
  ParsePtrs comps;       // computations that have names
  const HlSym **recent;  // symbols of names seen lately, by a hash of their last bytes
  uint32_t recent_mask;
  int anon[HL_OP_COUNT];                // next suffixes of "multiply.anon"
  bool stop;                            // a limit was reached
  bool single;                          // text is one instruction
  int64_t n_missing;                    // parameters made for it
  const HlSym *zeros[PARSE_MAX_ZEROS];  // names such as `r.0`
  int n_zeros;
  bool rename;     // some name occurs twice in the module, or is not normal
  bool any_frame;  // some metadata names a stack frame
  bool unordered;  // some computation was made after one that calls it
  bool elements;   // some operand names an element of a tuple
  DialectSigns signs;
  ParseCache shapes, metas, shardings, dicts;
  ParseWord *words;
  HlAsyncLately async;
} Parser;

// An instruction being read.
enum { PARSE_MAX_ATTRS = 48 };
typedef struct ParseInst {
  HlOp op;
  HlOp wrapped;          // op of async sugar, else HL_OP_COUNT
  int64_t direction;     // of an obsolete opcode such as less-than, else -1
  const HlShape *shape;  // NULL: not written
  const HlSym *name;     // of what others call it by
  const HlSym *done;     // of a recv-done without token: its own name, NULL of all others
  const char *name_at, *op_at;
  int ops, n_ops;         // operands: p->ptrs.at[ops ..]
  int comps, n_comps;     // computations, as written: p->ptrs.at[comps ..]
  HlAttrKey comp_key[2];  // which attributes the first two are of
  const HlComp *single_comp[2];
  int preds, n_preds;  // control predecessors
  bool poisoned;       // an operand failed
  uint64_t seen[2];    // attributes seen, by key
  HlAttr attrs[PARSE_MAX_ATTRS];
  int n_attrs;
  const HlSym *extra[2 * 8];  // unknown attributes: names, texts
  int n_extra;
} ParseInst;

// --- Small things --------------------------------------------------------------------------------

// Reports at a byte of the text.
bool parse_error(Parser *p, const char *at, const char *format, ...) HL_PRINTF(3, 4);
bool parse_limit(Parser *p, const char *at, const char *format, ...) HL_PRINTF(3, 4);
// Whether to stop reading and reporting.
bool parse_gives_up(const Parser *p);
// One level deeper, or an error; each success is undone by `p->depth--`.
bool parse_deeper(Parser *p);
void parse_push_int(Parser *p, int64_t value);
void parse_push_ptr(Parser *p, const void *value);
void parse_reserve_ptrs(Parser *p, int n);
void parse_push_comp(Parser *p, const HlComp *comp);
// What lies on the stack from `base` on, copied to the module; the stack is cut back.
HlI64s parse_take_ints(Parser *p, int base);
const void **parse_take_ptrs(Parser *p, int base, int *n);
static inline const HlSym *parse_sym(Parser *p, HlStr text) {
  return hl_syms_add(p->m->syms, text.at, text.n);
}
// The slot of a raw text in a cache; *hit tells whether it holds that text. If not, it holds none, only its hash.
ParseSlot *parse_slot(Parser *p, ParseCache *cache, HlStr raw, bool *hit);
// Gives a slot its text. One that another text has taken meanwhile has that one's hash, and will not be a hit.
void parse_fill_slot(Parser *p, ParseSlot *slot, HlStr raw, const void *value);

// --- Names (parse_comp.c) ------------------------------------------------------------------------

// Reads a name, bare or with %. A bare name may not be a reserved word.
bool parse_name(Parser *p, const HlSym **out, const char *what);
ParseDef *parse_def(Parser *p, const HlSym *sym);
static inline HlComp *parse_def_comp(const Parser *p, const ParseDef *def) {
  const uint32_t k = def->bits / PARSE_DEF_COMP;
  return k ? (HlComp *)(uintptr_t)p->comps.at[k - 1] : NULL;
}
// The definition of an instruction's name in the computation being read, or NULL.
ParseDef *parse_find(Parser *p, const HlSym *name);
bool parse_define(Parser *p, const HlSym *name, const char *name_at, HlInst *inst);
bool parse_name_is_legal(Parser *p, const HlSym *name, const char *at);
bool parse_zeros_clash(Parser *p);
// Hints at the instruction or computation whose name is nearest.
void parse_hint_inst(Parser *p, const HlSym *name);

// --- Rules ---------------------------------------------------------------------------------------

// Reads a computation of the module, setting *last, and *entry if it is the entry; or its body
// alone.
bool parse_computation(Parser *p, HlComp **entry, HlComp **last);
bool parse_instruction_list(Parser *p, HlComp *comp);
// An existing computation's name or an inline body.
bool parse_comp_ref(Parser *p, HlComp **out);
bool parse_instruction(Parser *p);
// The part after `name =`; name NULL: nested in an operand list, without attributes.
bool parse_rhs(Parser *p, const HlSym *name, const char *name_at, HlInst **out);
bool parse_single_instruction(Parser *p);
void parse_begin_scope(Parser *p, ParseScope *scope, HlComp *comp);
void parse_end_scope(Parser *p);

bool parse_header(Parser *p);
bool parse_frames(Parser *p);

bool parse_arguments(Parser *p, ParseInst *inst);  // the parentheses and what stands in them
bool parse_too_many(Parser *p, const char *at);
static inline bool parse_count(Parser *p, const char *at) {  // one instruction more
  return HL_LIKELY(++p->n_insts <= hl_cx_limits(p->cx)->instructions) || parse_too_many(p, at);
}
bool parse_attributes(Parser *p, ParseInst *inst, bool allowed);
// Reads one attribute's value; *key becomes HL_ATTR_COUNT when nothing is to be stored.
typedef bool ParseAttrFn(Parser *p, ParseInst *inst, HlAttr *out);
extern ParseAttrFn *const parse_kind[HL_ATTR_KIND_COUNT];
#define ATTR_KIND(id, member, meaning) ParseAttrFn parse_##id;
#include "hilo/attrs.def"
// Whether the text has the attribute, even one that is not stored.
static inline bool parse_was_seen(const ParseInst *inst, int key) {
  return inst->seen[key >> 6] >> (key & 63) & 1;
}
const HlAttr *parse_seen(const ParseInst *inst, HlAttrKey key);
void parse_add_attr(ParseInst *inst, const HlAttr *attr);
void parse_drop_attr(ParseInst *inst, HlAttrKey key);
bool parse_async(Parser *p, ParseInst *inst, HlInst **out);
bool parse_async_operands(Parser *p, const ParseInst *inst);
// Makes the instruction of what was read.
HlInst *parse_build(Parser *p, ParseInst *inst, HlComp *comp, HlInst *const *operands);
bool parse_check_op(Parser *p, ParseInst *inst);

bool parse_at_shape(Parser *p);
bool parse_shape(Parser *p, const HlShape **out);
bool parse_bool(Parser *p, bool *out);
bool parse_int32(Parser *p, int32_t *out);
bool parse_enum(Parser *p, const HlEnum *words, int64_t *out);  // one of its words
bool parse_eat_name(Parser *p, const char *name);               // `name=` if it stands here
bool parse_dxd(Parser *p, const char *name);  // "3x3": an integer per dimension, left on the stack
// {1,2,3} with the given brackets and delimiter, left on the stack of integers.
bool parse_int_list(Parser *p, char open, char close, char delimiter, const char *what);
bool parse_shape_index(Parser *p, HlI64s *out);
bool parse_aliases(Parser *p, bool of_module, HlAliases *out);
bool parse_dict(Parser *p, const HlDict **out);
bool parse_metadata(Parser *p, const HlMetadata **out);
bool parse_origin(Parser *p, const HlOrigin **out);
bool parse_origin_leaf(Parser *p, const HlOrigin **out);
bool parse_sharding(Parser *p, const HlSharding **out);
const HlSharding *parse_sharding_for(Parser *p, const HlSharding *sharding, const HlShape *shape);
bool parse_groups(Parser *p, const HlGroups **out);
bool parse_literal(Parser *p, const HlShape *shape, HlLiteral **out);
// A literal with its shape in front, or a parenthesised list of such.
bool parse_shaped_literal(Parser *p, HlLiteral **out);
// A source in which what a log puts around modules is white space; NULL where there is nothing of the kind.
HlSource *parse_without_log(const HlSource *source);
// What texts of years ago say otherwise (parse_old.c): sends and receives without tokens. Called where the number of
// operands is not what the op wants: makes them right, and is true, where that is it.
bool parse_old_transfer(Parser *p, ParseInst *inst);
// Skips the shape of a constant where it stands again in front of the value.
void parse_old_literal(Parser *p, const HlShape *shape);
// Whether a shape is what such a text says of its send or recv.
bool parse_old_operand(const HlInst *operand, const HlShape *shape);
// Of the dones of such: gives them the shape of today; what they gave, `inst->element` of it is.
void parse_old_done(Parser *p, ParseInst *inst);
HlInst *parse_old_result(Parser *p, const ParseInst *inst, HlInst *done);
// A module inside a string.
HlModule *parse_inner_module(Parser *p, HlStr text);

#endif
