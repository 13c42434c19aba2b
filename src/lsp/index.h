// lsp/index.h: what stands where in a text: tokens, and what each name means.
//
// Editors ask about texts that are half written. So the index is not made by the readers of src/text and src/mlir, which
// want a whole program, but by two scanners that never fail: they cut the text into tokens, tell what kind each is, and
// resolve names by scope as far as there is something to resolve. What they say of a valid text agrees with the readers
// (tests/unit/lsp.c compares the two over the corpus).
#ifndef LSP_INDEX_H
#define LSP_INDEX_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/ir.h"

typedef struct LspSpan {
  uint32_t at, end;  // bytes
} LspSpan;

// Kinds of tokens, in the order of the legend that the client gets (server.c).
typedef enum LspKind {
#define LSP_KINDS(KIND)                                                                           \
  KIND(KEYWORD, "keyword") KIND(MODULE, "namespace") KIND(COMP, "function") KIND(VALUE, "variable") \
  KIND(OP, "method") KIND(TYPE, "type") KIND(ATTR, "property") KIND(WORD, "enumMember")           \
  KIND(NUMBER, "number") KIND(STRING, "string") KIND(COMMENT, "comment") KIND(LABEL, "macro")
#define KIND(id, text) LSP_##id,
  LSP_KINDS(KIND)
#undef KIND
  LSP_KIND_COUNT
} LspKind;

typedef struct LspToken {
  uint32_t at, n;  // of names: without % and @
  uint8_t kind;    // LspKind
  bool defines;
  int32_t name;    // among LspIndex.names; -1: it is no name
} LspToken;

enum { LSP_NONE = -1 };

// What a name stands for: an instruction, a computation, a value, a function, a label, an alias.
typedef struct LspName {
  uint8_t kind;      // LspKind: COMP, VALUE, LABEL
  int32_t token;     // that defines it; LSP_NONE: nothing does
  int32_t scope;     // who can see it
  int32_t statement; // that defines it; LSP_NONE
  int32_t comp;      // of a COMP: among LspIndex.comps; else the one it is defined in; LSP_NONE
} LspName;

// An instruction, an op.
typedef struct LspStatement {
  LspSpan all;             // from ROOT or its first name
  LspSpan shape;           // of HLO; empty: not written
  int32_t op;              // token; LSP_NONE: none was found
  int32_t name;            // of what it defines first; LSP_NONE
  int32_t comp;            // LSP_NONE
  int32_t first, end;      // tokens
  int32_t depth;           // of nesting in regions
  bool root;
} LspStatement;

// A computation, a function.
typedef struct LspComp {
  LspSpan all, body;       // body: between the braces
  int32_t name;            // LSP_NONE: it has none
  int32_t module;          // which of the file's
  int32_t outer;           // the computation it stands inside of; LSP_NONE
  bool entry, closed;
} LspComp;

typedef struct LspIndex {
  VEC(LspToken) tokens;
  VEC(LspName) names;
  VEC(LspStatement) statements;  // in the order of the text
  VEC(LspComp) comps;
  VEC(LspSpan) folds;      // other things that can be folded: regions, tables
  VEC(int32_t) modules;    // tokens of their names
  int strays;              // words and signs that belong to nothing, outside of computations
  Map by_name;             // hash of scope and text: 1 + place in names
} LspIndex;

void lsp_index_hlo(LspIndex *index, HlStr text);
void lsp_index_mlir(LspIndex *index, HlStr text);
void lsp_index_free(LspIndex *index);

// The token at a byte, or that ends there; LSP_NONE.
int32_t lsp_token_at(const LspIndex *index, uint32_t at);
// The last statement that starts at or before a byte, if the byte is in it; LSP_NONE.
int32_t lsp_statement_at(const LspIndex *index, uint32_t at);
int32_t lsp_comp_at(const LspIndex *index, uint32_t at);  // the innermost; LSP_NONE

// --- For the scanners ---

static inline HlStr lsp_token_text(HlStr text, const LspToken *token) {
  return (HlStr){text.at + token->at, token->n};
}
// Appends a token; its place.
int32_t lsp_add_token(LspIndex *index, uint32_t at, uint32_t n, LspKind kind);
// The name of a scope, made if it is not there.
int32_t lsp_name(LspIndex *index, HlStr text, int32_t scope, HlStr name, LspKind kind);
int32_t lsp_find_name(const LspIndex *index, HlStr text, int32_t scope, HlStr name);  // LSP_NONE
// The token is an occurrence of the name, and defines it if it is the first to do so.
void lsp_refer(LspIndex *index, int32_t token, int32_t name, bool defines);

#endif
