// lsp/lsp.h: what the files of the language server share.
//
// index.c, index_hlo.c, index_mlir.c   what stands where in a text
// doc.c        documents: text, edits, places in UTF-16
// check.c      reading and verifying a document; diagnostics, also of what is around an error
// rpc.c        messages: headers, JSON in and out
// server.c     who the server is, and which function answers what
// hover.c, navigate.c, outline.c, complete.c, format.c    answers
#ifndef LSP_LSP_H
#define LSP_LSP_H

#include <jansson.h>

#include "hilo/cost.h"
#include "hilo/lsp.h"
#include "hilo/mlir.h"
#include "lsp/index.h"
#include "tool/json.h"

// --- Documents (doc.c, check.c) ---------------------------------------------------------------------

typedef struct LspDiag {
  HlSeverity severity;
  LspSpan span;
  char *text;             // heap
  char *instead;          // what to write there, or NULL; heap
  LspSpan related;        // where a note of it points; empty: nowhere
  char *note;             // heap; NULL: none
} LspDiag;

// A part of the text that was read in another form, because it could not be read as it is.
typedef struct LspRepair {
  LspSpan from;           // in the text
  LspSpan to;             // in what was read
} LspRepair;

typedef struct LspDoc {
  char *uri;
  int64_t version;
  bool is_mlir;
  bool unread;            // edited since it was read
  bool untold;            // the client does not know its diagnostics
  bool halfway;           // read with errors, and what is around them not yet verified
  bool indexed;
  HlBuf text;
  VEC(uint32_t) lines;    // where each begins
  LspIndex index;
  VEC(LspDiag) diags;
  bool valid;             // the text as it is can be read and is valid
  bool whole;             // it can be read without repairs
  VEC(LspRepair) repairs; // in the order of the text
  HlSource *source;       // what the modules and trees were read from
  HlModule **modules;
  int n_modules;
  HlCost **costs;         // of each module: hl_cost_comps; NULL: not asked for yet
  HlMlTree **trees;
  int n_trees;
  bool lowered;           // the modules are those of the trees
  HlArena *arena;         // of the costs
} LspDoc;

static inline HlStr lsp_text(const LspDoc *doc) {
  return (HlStr){doc->text.at, doc->text.n};
}

typedef struct LspPlace {  // as the protocol has it
  int64_t line, character;
} LspPlace;

LspDoc *lsp_doc_new(const char *uri, const char *language);
void lsp_doc_free(LspDoc *doc);
void lsp_doc_set(LspDoc *doc, const char *text, size_t n);
// Replaces what is between two places by a text. Places outside of the text mean the nearest inside.
void lsp_doc_edit(LspDoc *doc, bool utf8, LspPlace from, LspPlace to, const char *text, size_t n);
uint32_t lsp_offset(const LspDoc *doc, bool utf8, LspPlace place);
LspPlace lsp_place(const LspDoc *doc, bool utf8, uint32_t offset);
// Makes the index if the text was edited since.
const LspIndex *lsp_doc_index(LspDoc *doc);

// Reads and verifies the document if it was edited since: diags, modules, trees. It goes in two steps: what is wrong with the
// text itself, and then, if anything is, what is wrong around it.
void lsp_check(HlCx *cx, LspDoc *doc);
void lsp_check_step(HlCx *cx, LspDoc *doc);
static inline bool lsp_is_checked(const LspDoc *doc) {
  return !doc->unread && !doc->halfway;
}
void lsp_forget(LspDoc *doc);  // what was read
// Of MLIR: makes modules of the trees, which are gone then. What cannot be lowered has none.
void lsp_lower(HlCx *cx, LspDoc *doc);

// --- The server (rpc.c, server.c) -------------------------------------------------------------------

struct HlLsp {
  HlCx *cx;
  HlBuf in;
  size_t skip;            // bytes of a message too large, still to come
  VEC(LspDoc *) docs;
  bool initialized, shut_down, over;
  bool utf8;              // what columns count; else UTF-16
  bool snippets, nested_symbols, markdown;
  HlBuf result;           // of the answer that is being made
  HlBuf *out;
};

// Errors of the protocol.
enum {
  LSP_PARSE_ERROR = -32700, LSP_INVALID_REQUEST = -32600, LSP_NO_METHOD = -32601,
  LSP_INVALID_PARAMS = -32602, LSP_NOT_INITIALIZED = -32002, LSP_REQUEST_FAILED = -32803
};

// A request being answered. The answer is what was put into lsp->result, `null` if nothing was.
typedef struct LspAsk {
  HlLsp *lsp;
  HlCx *cx;
  const json_t *params;
  LspDoc *doc;            // of params.textDocument; NULL: not open
  uint32_t at;            // of params.position
  HlBuf *out;             // the result
  int error;              // 0: none
  char *why;              // heap
} LspAsk;
typedef void LspAnswer(LspAsk *ask);
LspAnswer lsp_hover, lsp_definition, lsp_references, lsp_highlight, lsp_prepare_rename, lsp_rename,
    lsp_symbols, lsp_folding, lsp_tokens_full, lsp_tokens_range, lsp_completion, lsp_formatting,
    lsp_code_action;

void lsp_fail(LspAsk *ask, int error, const char *format, ...) HL_PRINTF(3, 4);
void lsp_notify(HlLsp *lsp, const char *method, const HlBuf *params);
void lsp_handle(HlLsp *lsp, const json_t *message);  // server.c
void lsp_reply(HlLsp *lsp, const json_t *id, int error, const char *why);  // with lsp->result

// --- Pieces of answers ------------------------------------------------------------------------------

void lsp_put_place(const LspAsk *ask, const char *key, uint32_t offset);
void lsp_put_range(const LspAsk *ask, const char *key, LspSpan span);
static inline LspSpan lsp_token_span(const LspToken *token) {
  return (LspSpan){token->at, token->at + token->n};
}
const char *lsp_string(const json_t *object, const char *key);  // NULL: there is none
int64_t lsp_integer(const json_t *object, const char *key, int64_t absent);

// The instruction that a statement was read as, or NULL; the costs of its module.
const HlInst *lsp_inst_of(HlCx *cx, LspDoc *doc, const LspStatement *statement);
const HlCost *lsp_costs_of(LspDoc *doc, const HlModule *m);

#endif
