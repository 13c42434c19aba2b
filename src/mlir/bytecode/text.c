// Reads MLIR bytecode: attributes and types that are written as text, by the text's parser.
#include <string.h>

#include "mlir/bytecode/bytecode.h"
#include "mlir/text/parse.h"

// Up to the NUL that ends it.
static bool read_text(MlbReader *r, MlbCursor *c, HlStr *out) {
  const uint8_t *nul = memchr(c->at, 0, (size_t)(c->end - c->at));
  if (!nul)
    return mlb_fail_end(r, c);
  *out = (HlStr){(const char *)c->at, (size_t)(nul - c->at)};
  c->at = nul + 1;
  return true;
}

// A parser of this text, which stands in the file's own bytes, so that errors are at their place.
static MpParser *begin_text(MlbReader *r, HlStr text) {
  if (!r->parser) {
    MpParser *p = HL_NEW(r->arena, MpParser);
    *p = (MpParser){.cx = r->cx,
                    .tree = r->tree,
                    .own = r->arena,
                    .arena = r->tree->arena,
                    .max_depth = r->max_depth};
    mp_start(p);
    r->parser = p;
  }
  MpParser *p = r->parser;
  HlBuf unescaped = p->in.unescaped;
  p->in = (MlLex){.begin = (const char *)r->base,
                  .end = text.at + text.n,
                  .cx = r->cx,
                  .source = r->tree->source};
  p->in.unescaped = unescaped;
  p->depth = r->depth;
  ml_lex_move(&p->in, text.at);
  return p;
}

// Whether the parser came to the text's end without an error.
static bool end_text(MlbReader *r, HlStr text, const void *result) {
  if (!result) {
    r->failed = true;  // and reported
    return false;
  }
  MpParser *p = r->parser;
  return ml_lex_at_end(&p->in) ||
         mlb_fail(r, (const uint8_t *)text.at, "text that goes on after its end");
}

const HlMlAttr *mlb_attr_of_text(MlbReader *r, MlbCursor *c) {
  HlStr text = {0};
  if (!read_text(r, c, &text))
    return NULL;
  if (text.n == 0 || text.at[0] != '#') {  // affine maps and the like
    const HlSym *sym = hl_syms_add(r->tree->syms, text.at, text.n);
    return hl_ml_attr_of(r->tree, &(HlMlAttr){.kind = HL_ML_A_OTHER, .sym = sym});
  }
  const HlMlAttr *attr = mp_attr(begin_text(r, text), NULL);
  return end_text(r, text, attr) ? attr : NULL;
}

const HlMlType *mlb_type_of_text(MlbReader *r, MlbCursor *c) {
  HlStr text = {0};
  if (!read_text(r, c, &text))
    return NULL;
  const HlMlType *type = mp_type(begin_text(r, text));
  return end_text(r, text, type) ? type : NULL;
}

void mlb_end_text(MlbReader *r) {
  MpParser *p = r->parser;
  if (p)
    hl_buf_free(&p->in.unescaped);
}
