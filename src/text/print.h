// text/print.h: what the files of the HLO text writer share.
//
// print.c       options, modules and their headers, computations
// print_inst.c  instructions, operands, called computations
// print_attr.c  which attributes print, in which order
// print_kind.c  one function for each kind of attribute
// print_json.c  JSON with its members in order
#ifndef HILO_TEXT_PRINT_H
#define HILO_TEXT_PRINT_H

#include "hilo/text.h"
#include "ir/put.h"

// Where the text of a shape, metadata, ... was printed before in the same buffer.
typedef struct PrintMemo {
  const void *key;
  size_t at, n;
} PrintMemo;
enum { PRINT_MEMOS = 1024 };

// What the options come to: the switches of HlTextOptions, decided.
#define PRINT_SWITCHES(S)                                                                       \
  S(percent) S(signatures) S(operand_shapes) S(operand_names) S(index_comments) S(metadata)     \
  S(backend_config) S(control_predecessors) S(large_constants) S(essential_constants)           \
  S(infeed_config) S(result_shape) S(layouts) S(subcomputation_bodies) S(canonical_names)       \
  S(print_ids) S(list_order) S(async_sugar) S(original_value) S(frames) S(tuple_elements) S(sorted_configs)    \
  S(replica_group_lists)
typedef struct PrintHow {
#define S(name) bool name;
  PRINT_SWITCHES(S)
#undef S
} PrintHow;

typedef struct Print {
  HlBuf *out;
  PrintHow how;
  HlCx *cx;
  HlDialect dialect;
  PrintMemo *memo;      // PRINT_MEMOS of them
  uint32_t *canonical;  // tmp_N + 1 by instruction id, of the computation being printed
  uint32_t next_canonical;
  int indent;          // in spaces, of the instructions
  int depth;           // of bodies inside bodies
  bool nested;         // inside a computation
  bool hide_frontend;  // no frontend attributes: an async-start around shows its own
  HlAsyncLately async;
  uint32_t step;   // of base_look_often
  int64_t budget;  // instructions that may still be printed in bodies inside instructions
} Print;

// Starts a piece of text that may be found again by a pointer: true, and the text is copied, when
// it was printed before; else the caller prints it and then calls print_memo_end.
bool print_memo(Print *p, const void *key, PrintMemo **slot);
void print_memo_end(Print *p, PrintMemo *slot, const void *key, size_t from);

void print_shape(Print *p, const HlShape *shape);
void print_name(Print *p, const HlSym *name);   // with %, cut at the dot where ids are not wanted
void print_body(Print *p, const HlComp *comp);  // a computation inside an instruction
void print_inst(Print *p, const HlInst *inst);
// The attributes of the instruction itself, its computations, then those that every op can have.
void print_attrs(Print *p, const HlInst *inst);
// Writes an attribute's value.
typedef void PrintAttrFn(Print *p, const HlInst *inst, const HlAttr *attr);
extern PrintAttrFn *const print_kind[HL_ATTR_KIND_COUNT];
// Whether an operand names the tuple and the place in it, and the instruction prints no line.
bool print_is_inside(const Print *p, const HlInst *inst);
bool print_has_sparsity(HlSparsityOf s);
void print_dict(HlBuf *out, const HlDict *dict);
// A JSON object without white space, the members in the order of their bytes at every level. False, and nothing is
// printed, where the text is none.
bool print_sorted_json(HlCx *cx, HlStr text, HlBuf *out);
void print_aliases(HlBuf *out, HlAliases aliases, bool of_module);
void print_origin(HlBuf *out, const HlOrigin *origin);
// Whether an async instruction prints as `op-start`: its computation is one instruction.
const HlInst *print_sugar(Print *p, const HlInst *inst);
bool print_is_sugar_body(const HlComp *comp);

#endif
