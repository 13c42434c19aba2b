// hilo/lsp.h: a language server for HLO and StableHLO (MLIR) text, as a machine that eats and gives bytes.
//
// It speaks the Language Server Protocol 3.17 (JSON-RPC with Content-Length headers). Whoever embeds it moves the bytes:
//
//   HlLsp *lsp = hl_lsp_new(cx);
//   while (!hl_lsp_is_over(lsp)) {
//     ... wait for bytes of the client ...
//     hl_lsp_feed(lsp, bytes, n, &out);            // answers, appended to `out`
//     if (nothing is waiting to be read)
//       while (hl_lsp_has_work(lsp))
//         hl_lsp_work(lsp, &out);                  // diagnostics of what was edited
//     ... send `out` ...
//   }
//
// Whatever the bytes are, it answers or ignores them: nothing that a client can send ends the process.
#ifndef HILO_LSP_H
#define HILO_LSP_H

#include "hilo/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlLsp HlLsp;

// The limits on input are those of the context, which it uses for its work and leaves without diagnostics.
HlLsp *hl_lsp_new(HlCx *cx);
void hl_lsp_free(HlLsp *lsp);                        // NULL is fine
// Takes bytes of the client, a message or a part of one or several, and appends what is to be sent.
void hl_lsp_feed(HlLsp *lsp, const void *bytes, size_t n, HlBuf *out);
// What can wait until the client is silent: reading what was edited, and telling what is wrong with it.
bool hl_lsp_has_work(const HlLsp *lsp);
void hl_lsp_work(HlLsp *lsp, HlBuf *out);            // of one document
// Whether the client has said `exit`; and whether it has said `shutdown` before, as it should.
bool hl_lsp_is_over(const HlLsp *lsp);
bool hl_lsp_was_shut_down(const HlLsp *lsp);

#ifdef __cplusplus
}
#endif
#endif
