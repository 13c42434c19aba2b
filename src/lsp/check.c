// lsp/check.c: what is wrong with a document, and what can be read of it.
//
// The readers want a whole program: of one with an error there is no module, and so nothing to verify or to tell the cost of.
// Hence repairs: an instruction that cannot be read is read as an opaque one of the shape that is written,
//
//   y = f32[4] ad(x, x)      =>      y = f32[4] custom-call(), custom_call_target="unread"
//   %1 = stablehlo.ad %0 : T     =>      %1 = builtin.unrealized_conversion_cast to T
//
// and the rest is verified around it. HLO's reader finds all its errors at once; MLIR's stops at the first, so that each
// repair may bring the next to light. What has no shape is left out, and what uses it fails in turn. Errors about repairs
// themselves are not told.
#include <string.h>

#include "base/memory.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "lsp/lsp.h"
#include "text/lex.h"

enum { MAX_ROUNDS = 24, MAX_DIAGS = 1000 };
// So many bytes are read again for the sake of what is around errors.
static const size_t MAX_REREAD = 64 << 20;

// --- Reading --------------------------------------------------------------------------------------

void lsp_forget(LspDoc *doc) {
  for (int k = 0; k < doc->n_modules; k++)
    hl_module_free(doc->modules[k]);
  for (int k = 0; k < doc->n_trees; k++)
    hl_ml_free(doc->trees[k]);
  hl_free(doc->modules);
  hl_free(doc->trees);
  doc->modules = NULL;
  doc->trees = NULL;
  doc->n_modules = doc->n_trees = 0;
  hl_arena_free(doc->arena);
  doc->arena = NULL;
  doc->costs = NULL;
  hl_source_unref(doc->source);
  doc->source = NULL;
  doc->lowered = doc->valid = doc->whole = false;
  vec_free(&doc->repairs);
  for (int k = 0; k < doc->diags.n; k++) {
    base_free(doc->diags.at[k].text);
    base_free(doc->diags.at[k].instead);
    base_free(doc->diags.at[k].note);
  }
  vec_free(&doc->diags);
}

static bool read_source(HlCx *cx, LspDoc *doc, HlSource *source) {
  hl_source_unref(doc->source);
  doc->source = hl_source_ref(source);
  if (doc->is_mlir)
    return hl_ml_text_read(cx, source, &doc->trees, &doc->n_trees);
  return hl_text_read(cx, source, &doc->modules, &doc->n_modules);
}

static void verify(HlCx *cx, const LspDoc *doc) {
  for (int k = 0; k < doc->n_modules; k++)
    hl_verify(cx, doc->modules[k], NULL);
  for (int k = 0; k < doc->n_trees; k++)
    hl_ml_verify(cx, doc->trees[k]);
}

// --- Places of what was read ------------------------------------------------------------------------

// A byte of what was read as one of the text. False: it is in a repair.
static bool text_offset(const LspDoc *doc, uint32_t at, uint32_t *out) {
  uint32_t from = 0, to = 0;
  for (int k = 0; k < doc->repairs.n && doc->repairs.at[k].to.at <= at; k++) {
    const LspRepair *repair = &doc->repairs.at[k];
    *out = repair->from.at;
    if (at < repair->to.end)
      return false;
    from = repair->from.end;
    to = repair->to.end;
  }
  *out = at - to + from;
  return true;
}

// The other way round.
static bool read_offset(const LspDoc *doc, uint32_t at, uint32_t *out) {
  uint32_t from = 0, to = 0;
  for (int k = 0; k < doc->repairs.n && doc->repairs.at[k].from.at <= at; k++) {
    const LspRepair *repair = &doc->repairs.at[k];
    if (at < repair->from.end)
      return false;
    from = repair->from.end;
    to = repair->to.end;
  }
  *out = at - from + to;
  return true;
}

// --- Diagnostics ----------------------------------------------------------------------------------

// The word, string or sign that stands at a byte.
static LspSpan word_span(const LspDoc *doc, uint32_t at) {
  const char *from = doc->text.at + at, *end = doc->text.at + doc->text.n, *s = from;
  if (s >= end || *s == '\n')
    return (LspSpan){at, at};
  if (*s == '"') {
    for (s++; s < end && *s != '"' && *s != '\n'; s++) {
    }
    s += s < end && *s == '"';
  } else {
    s += *s == '%' || *s == '@' || *s == '#' || *s == '!' || *s == '^';
    const char *word = s;
    while (s < end && (lex_is(*s, LEX_IDENT) || (*s & 0x80)))
      s++;
    if (s == word && s == from)
      s++;
  }
  return (LspSpan){at, at + (uint32_t)(s - from)};
}

// X of "did you mean 'X'?".
static char *instead_of(const char *hint) {
  static const char head[] = "did you mean '";
  const char *close = hint ? strrchr(hint, '\'') : NULL;
  if (!close || strncmp(hint, head, sizeof head - 1) != 0 || strcmp(close, "'?") != 0)
    return NULL;
  return base_strndup(hint + sizeof head - 1, (size_t)(close - hint) - (sizeof head - 1));
}

static void add_note(LspDoc *doc, const HlDiag *d, LspSpan span) {
  LspDiag *of = doc->diags.n ? &vec_last(&doc->diags) : NULL;
  if (!of || of->note)
    return;
  of->note = base_strdup(d->text);
  of->related = span;
}

static void add_diag(LspDoc *doc, const HlDiag *d) {
  uint32_t at = 0;
  if (d->loc && !text_offset(doc, d->loc - 1, &at))
    return;
  const LspSpan span = d->loc ? word_span(doc, at) : (LspSpan){0, 0};
  if (d->severity == HL_NOTE && doc->diags.n) {
    add_note(doc, d, span);
    return;
  }
  HlBuf text = {0};
  hl_buf_puts(&text, d->text);
  if (d->hint)
    hl_buf_printf(&text, "\n%s", d->hint);
  const LspDiag made = {.severity = d->severity,
                        .span = span,
                        .instead = instead_of(d->hint),
                        .text = base_strdup(text.at)};
  hl_buf_free(&text);
  vec_push(&doc->diags, made);
}

// Takes the context's diagnostics over; `told` false: those are of repairs, and dropped.
static void take_diags(HlCx *cx, LspDoc *doc, bool told) {
  for (int k = 0; told && k < hl_cx_n_diags(cx) && doc->diags.n < MAX_DIAGS; k++)
    add_diag(doc, hl_cx_diag(cx, k));
  hl_cx_clear(cx);
}

// --- Repairs --------------------------------------------------------------------------------------

typedef enum Bad { GOOD, OPAQUE, LEFT_OUT, HOPELESS } Bad;

// The number of the parameter: as written, or else how many stand before it.
static int64_t parameter_number(const LspDoc *doc, const LspStatement *of) {
  const LspIndex *index = &doc->index;
  const LspToken *op = &index->tokens.at[of->op];
  const char *s = doc->text.at + op->at + op->n;
  if (*s == '(' && lex_is(s[1], LEX_DIGIT))
    return strtoll(s + 1, NULL, 10);
  int64_t n = 0;
  for (const LspStatement *k = of - 1; k >= index->statements.at && k->comp == of->comp; k--)
    n += k->op != LSP_NONE &&
         hl_str_is(lsp_token_text(lsp_text(doc), &index->tokens.at[k->op]), "parameter");
  return n;
}

static void opaque_hlo(const LspDoc *doc, const LspStatement *of, HlBuf *out) {
  const LspIndex *index = &doc->index;
  const LspToken *name = &index->tokens.at[index->names.at[of->name].token];
  hl_buf_puts(out, of->root ? "ROOT %" : "%");
  hl_buf_add(out, doc->text.at + name->at, name->n);
  hl_buf_puts(out, " = ");
  hl_buf_add(out, doc->text.at + of->shape.at, of->shape.end - of->shape.at);
  if (of->op != LSP_NONE &&
      hl_str_is(lsp_token_text(lsp_text(doc), &index->tokens.at[of->op]), "parameter"))
    hl_buf_printf(out, " parameter(%lld)", (long long)parameter_number(doc, of));
  else
    hl_buf_puts(out, " custom-call(), custom_call_target=\"unread\"");
}

// Where the types of an op's results are written: behind its last `:` or `->` that is outside of all brackets.
static LspSpan result_types(const LspDoc *doc, const LspStatement *of) {
  const char *text = doc->text.at, *end = text + of->all.end;
  const LspToken *op = &doc->index.tokens.at[of->op];
  const char *from = NULL, *to = end;
  int depth = 0;
  for (const char *s = text + op->at + op->n; s < end; s++) {
    if (*s == '"') {
      for (s++; s < end && *s != '"'; s++)
        s += *s == '\\';
    } else if (*s && strchr("([{<", *s)) {
      depth++;
    } else if (*s == '-' && s[1] == '>') {
      s++;
      if (depth == 0 && from)
        from = s + 1;
    } else if (*s && strchr(")]}>", *s)) {
      depth -= depth > 0;
    } else if (depth == 0 && *s == ':') {
      from = s + 1;
      to = end;
    } else if (depth == 0 && from && strncmp(s, " loc(", 5) == 0) {
      to = s;
      break;
    }
  }
  if (!from)
    return (LspSpan){0, 0};
  while (from < to && (*from == ' ' || *from == '\n'))
    from++;
  if (from < to && *from == '(' && to[-1] == ')') {
    from++;
    to--;
  }
  return (LspSpan){(uint32_t)(from - text), (uint32_t)(to - text)};
}

static bool opaque_mlir(const LspDoc *doc, const LspStatement *of, HlBuf *out) {
  const LspIndex *index = &doc->index;
  const LspSpan types = result_types(doc, of);
  if (types.end <= types.at)
    return false;
  const LspToken *op = &index->tokens.at[of->op];
  uint32_t head = op->at;
  while (head > of->all.at && doc->text.at[head - 1] != '=')
    head--;
  hl_buf_add(out, doc->text.at + of->all.at, head - of->all.at);
  hl_buf_puts(out, " builtin.unrealized_conversion_cast to ");
  const char *from = doc->text.at + types.at;
  size_t n = types.end - types.at;
  if (memchr(doc->text.at + of->all.at, ':', head - of->all.at) ==
      NULL) {  // one result: the last type
    int depth = 0;
    for (size_t k = n; k-- > 0;) {
      depth += (from[k] == '>' || from[k] == ')' || from[k] == ']') -
               (from[k] == '<' || from[k] == '(' || from[k] == '[');
      if (from[k] == ',' && depth == 0) {
        n -= k + 1;
        from += k + 1;
        break;
      }
    }
  }
  hl_buf_add(out, from, n);
  return true;
}

// Appends what is read in the place of a statement: of as many lines.
static void put_repair(const LspDoc *doc, const LspStatement *of, Bad bad, HlBuf *out) {
  const char *text = doc->text.at;
  if (bad == OPAQUE && doc->is_mlir && of->name != LSP_NONE && of->op != LSP_NONE)
    opaque_mlir(doc, of, out);
  else if (bad == OPAQUE && !doc->is_mlir && of->name != LSP_NONE && of->shape.end > of->shape.at)
    opaque_hlo(doc, of, out);
  for (uint32_t k = of->all.at; k < of->all.end; k++)
    if (text[k] == '\n')
      hl_buf_putc(out, '\n');
}

// The whole text with its repairs, which it notes.
static void put_repaired(LspDoc *doc, const uint8_t *bad, HlBuf *out) {
  const LspIndex *index = &doc->index;
  doc->repairs.n = 0;
  uint32_t done = 0;
  for (int k = 0; k < index->statements.n; k++) {
    const LspStatement *of = &index->statements.at[k];
    if (bad[k] == GOOD || of->all.at < done)
      continue;
    hl_buf_add(out, doc->text.at + done, of->all.at - done);
    LspRepair repair = {of->all, {(uint32_t)out->n, 0}};
    put_repair(doc, of, bad[k], out);
    repair.to.end = (uint32_t)out->n;
    vec_push(&doc->repairs, repair);
    done = of->all.end;
  }
  hl_buf_add(out, doc->text.at + done, doc->text.n - done);
}

static bool is_terminator(const LspDoc *doc, const LspStatement *of) {
  if (of->op == LSP_NONE)
    return false;
  const HlStr op = lsp_token_text(lsp_text(doc), &doc->index.tokens.at[of->op]);
  return op.n >= 6 && memcmp(op.at + op.n - 6, "return", 6) == 0;
}

// Marks the statement in which an error is. False: it is elsewhere, or in what was repaired in every way.
static bool mark_bad(const LspDoc *doc, uint32_t at, uint8_t *bad) {
  const int32_t which = lsp_statement_at(&doc->index, at);
  if (which == LSP_NONE || bad[which] == LEFT_OUT)
    return false;
  const LspStatement *of = &doc->index.statements.at[which];
  // A function is no value, and a block must end.
  if (doc->is_mlir && (is_terminator(doc, of) || of->name == LSP_NONE ||
                       doc->index.names.at[of->name].kind != LSP_VALUE))
    return false;
  bad[which]++;
  if (!doc->is_mlir && bad[which] == OPAQUE && of->shape.end == of->shape.at)
    bad[which] = LEFT_OUT;
  return true;
}

static bool mark_first(const LspDoc *doc, uint8_t *bad) {
  bool ok = doc->diags.n > 0;
  for (int k = 0; k < doc->diags.n && ok; k++)
    ok = doc->diags.at[k].severity != HL_ERROR || mark_bad(doc, doc->diags.at[k].span.at, bad);
  return ok;
}

// The same of the errors of a reading with repairs.
static bool mark_more(HlCx *cx, const LspDoc *doc, uint8_t *bad) {
  bool any = false;
  for (int k = 0; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *d = hl_cx_diag(cx, k);
    uint32_t at = 0;
    if (d->severity != HL_ERROR)
      continue;
    if (d->loc)
      text_offset(doc, d->loc - 1, &at);
    if (!d->loc || !mark_bad(doc, at, bad))
      return false;
    any = true;
  }
  return any;
}

static void read_around(HlCx *cx, LspDoc *doc) {
  lsp_doc_index(doc);
  uint8_t *bad = base_alloc((size_t)doc->index.statements.n + 1);
  size_t budget = MAX_REREAD;
  bool going = mark_first(doc, bad), whole = false;
  for (int round = 0; going && !whole && round < MAX_ROUNDS && budget > doc->text.n; round++) {
    HlBuf text = {0};
    budget -= doc->text.n;
    put_repaired(doc, bad, &text);
    HlSource *source = hl_source_take(doc->uri, &text, false);
    whole = read_source(cx, doc, source);
    hl_source_unref(source);
    if (whole) {
      verify(cx, doc);
      take_diags(cx, doc, true);
    } else {
      going = mark_more(cx, doc, bad);
      take_diags(cx, doc, doc->is_mlir);
    }
  }
  if (!whole)
    doc->repairs.n = 0;
  base_free(bad);
}

static bool is_blank(const LspDoc *doc) {
  return strspn(doc->text.at ? doc->text.at : "", " \t\r\n") == doc->text.n;
}

static void read_first(HlCx *cx, LspDoc *doc) {
  doc->unread = doc->halfway = false;
  lsp_forget(doc);
  hl_cx_clear(cx);
  if (is_blank(doc))  // nothing is written yet
    return;
  HlSource *source = hl_source_new(doc->uri, doc->text.at, doc->text.n, false);
  doc->whole = read_source(cx, doc, source);
  hl_source_unref(source);
  doc->halfway = !doc->whole;
  if (doc->whole) {
    verify(cx, doc);
    doc->valid = hl_cx_n_errors(cx) == 0;
  }
  take_diags(cx, doc, true);
}

void lsp_check_step(HlCx *cx, LspDoc *doc) {
  if (doc->unread) {
    read_first(cx, doc);
  } else if (doc->halfway) {
    doc->halfway = false;
    read_around(cx, doc);
  }
}

void lsp_check(HlCx *cx, LspDoc *doc) {
  while (!lsp_is_checked(doc))
    lsp_check_step(cx, doc);
}

// --- Of what was read -------------------------------------------------------------------------------

void lsp_lower(HlCx *cx, LspDoc *doc) {
  if (!doc->is_mlir || doc->lowered || doc->n_trees == 0)
    return;
  doc->lowered = true;
  VEC(HlModule *) made = {0};
  HlArena *arena = hl_arena_new();
  for (int k = 0; doc->valid && k < doc->n_trees; k++) {
    int n;
    const HlSym **entry = hl_ml_entries(arena, doc->trees[k], &n);
    for (int e = 0; e < n; e++) {
      HlModule *m = hl_ml_to_hlo(cx, doc->trees[k], entry[e]);
      if (m)
        vec_push(&made, m);
    }
  }
  hl_cx_clear(cx);  // what cannot be lowered has no cost; that is no fault of the text
  hl_arena_free(arena);
  for (int k = 0; k < doc->n_trees; k++)
    hl_ml_free(doc->trees[k]);
  hl_free(doc->trees);
  doc->trees = NULL;
  doc->n_trees = 0;
  doc->modules = made.at;
  doc->n_modules = made.n;
}

// The instruction made of what stands at a byte; the first of the module, of several.
static const HlInst *inst_at(const HlModule *m, HlLoc loc) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->loc == loc)
        return inst;
  return NULL;
}

const HlInst *lsp_inst_of(HlCx *cx, LspDoc *doc, const LspStatement *statement) {
  lsp_check(cx, doc);
  lsp_lower(cx, doc);
  const int32_t token = doc->is_mlir                  ? statement->op
                        : statement->name != LSP_NONE ? doc->index.names.at[statement->name].token
                                                      : LSP_NONE;
  if (token == LSP_NONE)
    return NULL;
  uint32_t at = doc->index.tokens.at[token].at;
  const char before = at > 0 ? doc->text.at[at - 1] : 0;
  at -= before == '%' || before == '"';
  if (!read_offset(doc, at, &at))
    return NULL;
  for (int k = 0; k < doc->n_modules; k++) {
    const HlInst *inst = inst_at(doc->modules[k], at + 1);
    if (inst)
      return inst;
  }
  return NULL;
}

const HlCost *lsp_costs_of(LspDoc *doc, const HlModule *m) {
  if (!doc->arena) {
    doc->arena = hl_arena_new();
    doc->costs = HL_ARRAY(doc->arena, HlCost *, doc->n_modules);
  }
  for (int k = 0; k < doc->n_modules; k++) {
    if (doc->modules[k] != m)
      continue;
    if (!doc->costs[k])
      doc->costs[k] = hl_cost_comps(doc->arena, m);
    return doc->costs[k];
  }
  return NULL;
}
