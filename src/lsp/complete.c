// lsp/complete.c: what may be written at the cursor: ops, operands, attributes, their values, computations.
//
// What is asked for is told by the half of the instruction that stands before the cursor:
//
//   name = [shape] op|( operand|, operand|), attribute|=value|
#include <string.h>

#include "base/ascii.h"
#include "lsp/lsp.h"
#include "mlir/tree/dialect.h"
#include "text/lex.h"

enum { MAX_ITEMS = 300, LOOK_BACK = 1 << 16 };
enum {
  KEYWORD_ITEM = 14,
  FUNCTION_ITEM = 3,
  VARIABLE_ITEM = 6,
  PROPERTY_ITEM = 10,
  WORD_ITEM = 20,
  TYPE_ITEM = 25,
  OP_ITEM = 2
};

typedef struct Items {
  LspAsk *ask;
  LspSpan word;  // what is replaced
  HlStr prefix;  // without sign
  int n;
  bool cut;  // there are more
} Items;

// Whether the letters of the prefix stand in the word in this order.
static bool fits(HlStr prefix, HlStr word) {
  if (prefix.n > word.n)
    return false;
  size_t k = 0;
  for (size_t w = 0; w < word.n && k < prefix.n; w++)
    k += to_lower(prefix.at[k]) == to_lower(word.at[w]);
  return k == prefix.n;
}

static void put_item(Items *items, HlStr label, const char *insert, int kind, HlStr detail,
                     int order) {
  if (!fits(items->prefix, label))
    return;
  if (items->n >= MAX_ITEMS) {
    items->cut = true;
    return;
  }
  items->n++;
  HlBuf *out = items->ask->out, sort = {0};
  hl_buf_printf(&sort, "%06d", order);
  json_open(out, NULL, '{');
  json_bytes(out, "label", label.at, label.n);
  json_int(out, "kind", kind);
  if (detail.n)
    json_bytes(out, "detail", detail.at, detail.n < 200 ? detail.n : 200);
  json_text(out, "sortText", sort.at);
  json_open(out, "textEdit", '{');
  lsp_put_range(items->ask, "range", items->word);
  if (insert)
    json_text(out, "newText", insert);
  else
    json_bytes(out, "newText", label.at, label.n);
  json_close(out, '}');
  json_close(out, '}');
  hl_buf_free(&sort);
}

// --- Where the cursor is ----------------------------------------------------------------------------

typedef enum State { AT_TOP, AT_OP, AT_OPERAND, AT_ATTR, AT_VALUE } State;
typedef struct Context {
  State state;
  HlStr op;    // empty: not known
  HlStr attr;  // of AT_VALUE
  bool has_shape;
} Context;

// The start of the instruction in which the cursor is: the last `name =` at the start of a line, before the cursor.
static const char *instruction_start(const LspAsk *ask) {
  const char *text = ask->doc->text.at, *at = text + ask->at;
  const char *least = ask->at > LOOK_BACK ? at - LOOK_BACK : text;
  for (const char *s = at; s >= least; s--) {
    if (s > text && s[-1] != '\n')
      continue;
    const char *word = s;
    while (word < at && (*word == ' ' || *word == '\t'))
      word++;
    if (at - word >= 5 && memcmp(word, "ROOT ", 5) == 0)
      word += 5;
    const char *name = word + (word < at && *word == '%');
    const char *end = lex_is(*name, LEX_START) ? lex_ident_end(name) : name;
    while (end < at && *end == ' ')
      end++;
    if (end < at && *end == '=' && end > name)
      return word;
    if (word < at && *word == '}')
      return NULL;
  }
  return NULL;
}

// Reads on from the `=`.
static Context context_of(const LspAsk *ask) {
  const char *s = instruction_start(ask), *at = ask->doc->text.at + ask->at;
  Context found = {.state = s ? AT_OP : AT_TOP};
  if (!s)
    return found;
  s = (const char *)memchr(s, '=', (size_t)(at - s)) + 1;
  int depth = 0;
  bool in_args = false, behind_args = false;
  while (s < at) {
    if (*s == '"') {
      const char *close = lex_string_end(s + 1, '"');
      s = close && close < at ? close + 1 : at;
    } else if (*s == '(' || *s == '{' || *s == '[') {
      in_args |= *s == '(' && depth == 0 && found.op.n && !behind_args;
      found.has_shape |= depth == 0 && !found.op.n;
      depth++;
      s++;
    } else if (*s == ')' || *s == '}' || *s == ']') {
      depth -= depth > 0;
      if (*s == ')' && depth == 0 && in_args) {
        in_args = false;
        behind_args = true;
      }
      s++;
    } else if (*s == ',' && depth == 0) {
      found.attr = (HlStr){0};
      s++;
    } else if (lex_is(*s, LEX_START)) {
      const char *end = lex_ident_end(s);
      if (end >= at)
        break;
      if (behind_args && depth == 0 && *end == '=')
        found.attr = (HlStr){s, (size_t)(end - s)};
      else if (depth == 0 && !behind_args && *end == '(')
        found.op = (HlStr){s, (size_t)(end - s)};
      s = end;
    } else {
      s++;
    }
  }
  if (in_args)
    found.state = AT_OPERAND;
  else if (behind_args)
    found.state = found.attr.n ? AT_VALUE : AT_ATTR;
  return found;
}

static LspSpan word_before(const LspAsk *ask, bool dots) {
  const char *text = ask->doc->text.at;
  uint32_t from = ask->at;
  while (from > 0 && (lex_is(text[from - 1], LEX_IDENT) || text[from - 1] == '$') &&
         (dots || text[from - 1] != '.'))
    from--;
  return (LspSpan){from, ask->at};
}

// --- HLO ------------------------------------------------------------------------------------------

static void offer_ops(Items *items) {
  for (int k = 0; k < HL_OP_COUNT; k++) {
    HlBuf insert = {0};
    hl_buf_printf(&insert, "%s(", hl_op_info[k].text);
    put_item(items, hl_str(hl_op_info[k].text), insert.at, OP_ITEM, hl_str(hl_op_info[k].meaning),
             100 + k);
    hl_buf_free(&insert);
  }
}

static void offer_types(Items *items) {
  for (int k = 0; k < HL_DTYPE_COUNT; k++)
    if (hl_is_array_dtype((HlDtype)k)) {
      HlBuf insert = {0};
      hl_buf_printf(&insert, "%s[", hl_dtype_text((HlDtype)k));
      put_item(items, hl_str(hl_dtype_text((HlDtype)k)), insert.at, TYPE_ITEM,
               hl_str("element type"), k);
      hl_buf_free(&insert);
    }
}

// What stands before the cursor in the same computation, the nearest first.
static void offer_values(Items *items, int32_t comp) {
  const LspDoc *doc = items->ask->doc;
  const LspIndex *index = &doc->index;
  int order = 0;
  for (int k = index->statements.n - 1; k >= 0 && !items->cut; k--) {
    const LspStatement *of = &index->statements.at[k];
    if (of->comp != comp || of->name == LSP_NONE || of->all.end >= items->ask->at)
      continue;
    const LspName *name = &index->names.at[of->name];
    if (name->token < 0 || name->kind != LSP_VALUE)
      continue;
    HlBuf detail = {0};
    hl_buf_add(&detail, doc->text.at + of->shape.at, of->shape.end - of->shape.at);
    if (of->op != LSP_NONE)
      hl_buf_printf(&detail, "%s%.*s", detail.n ? " " : "", (int)index->tokens.at[of->op].n,
                    doc->text.at + index->tokens.at[of->op].at);
    put_item(items, lsp_token_text(lsp_text(doc), &index->tokens.at[name->token]), NULL,
             VARIABLE_ITEM, (HlStr){detail.at, detail.n}, order++);
    hl_buf_free(&detail);
  }
}

// Computations that stand before the cursor's, or functions of the text.
static void offer_comps(Items *items, int32_t comp) {
  const LspDoc *doc = items->ask->doc;
  const LspIndex *index = &doc->index;
  for (int k = 0; k < index->comps.n; k++) {
    const LspComp *of = &index->comps.at[k];
    const bool seen = doc->is_mlir || (k < comp && of->module == index->comps.at[comp].module);
    if (!seen || of->name == LSP_NONE || index->names.at[of->name].token < 0)
      continue;
    put_item(items,
             lsp_token_text(lsp_text(doc), &index->tokens.at[index->names.at[of->name].token]),
             NULL, FUNCTION_ITEM, hl_str(doc->is_mlir ? "function" : "computation"),
             comp - k > 0 ? comp - k : k);
  }
}

static void offer_attribute(Items *items, int key, HlStr detail, int order) {
  HlBuf insert = {0};
  hl_buf_printf(&insert, "%s=", hl_attr_info[key].text);
  put_item(items, hl_str(hl_attr_info[key].text), insert.at, PROPERTY_ITEM, detail, order);
  hl_buf_free(&insert);
}

static void offer_attributes(Items *items, HlOp op) {
  for (const uint16_t *k = op < HL_OP_COUNT ? hl_op_info[op].attrs : NULL; k && *k != HL_ATTR_END;
       k++) {
    const int key = *k & ~HL_ATTR_REQUIRED;
    const bool needed = *k & HL_ATTR_REQUIRED;
    if (*hl_attr_info[key].text)
      offer_attribute(items, key, hl_str(needed ? "must be there" : ""), needed ? 0 : 1);
  }
  for (int key = HL_ATTR_COMMON; key < HL_ATTR_COUNT; key++)
    if (*hl_attr_info[key].text && hl_attr_info[key].kind != HL_KIND_OF_DROPPED)
      offer_attribute(items, key, hl_str("of every op"), 2);
}

static void offer_words(Items *items, const char *const *words, int n) {
  for (int k = 0; k < n; k++)
    put_item(items, hl_str(words[k]), NULL, WORD_ITEM, hl_str(""), k);
}

static void offer_value(Items *items, HlStr attr, int32_t comp) {
  static const char *const truths[] = {"true", "false"};
  for (int key = 0; key < HL_ATTR_COUNT; key++) {
    const HlAttrInfo *info = &hl_attr_info[key];
    if (!hl_str_is(attr, info->text))
      continue;
    if (info->words)
      offer_words(items, info->words->text, info->words->n);
    else if (info->kind == HL_KIND_OF_BOOL || info->kind == HL_KIND_OF_TRISTATE)
      offer_words(items, truths, 2);
    else if (comp != LSP_NONE && (info->kind == HL_KIND_OF_COMP || info->kind == HL_KIND_OF_COMPS))
      offer_comps(items, comp);
    else if (info->kind == HL_KIND_OF_CONTROL)
      offer_values(items, comp);
    return;
  }
}

static void complete_hlo(Items *items) {
  static const char *const top[] = {"HloModule", "ENTRY"}, *const inside[] = {"ROOT"};
  const LspAsk *ask = items->ask;
  const int32_t comp = lsp_comp_at(&ask->doc->index, ask->at);
  const Context at = context_of(ask);
  switch (at.state) {
  case AT_TOP: comp == LSP_NONE ? offer_words(items, top, 2) : offer_words(items, inside, 1); break;
  case AT_OP:
    if (!at.has_shape)
      offer_types(items);
    offer_ops(items);
    break;
  case AT_OPERAND: offer_values(items, comp); break;
  case AT_ATTR: offer_attributes(items, hl_op_by_text(at.op)); break;
  case AT_VALUE: offer_value(items, at.attr, comp); break;
  }
}

// --- MLIR -----------------------------------------------------------------------------------------

static void offer_mlir_ops(Items *items) {
  for (int k = ML_NONE + 1; k < ML_ROW_COUNT; k++)
    put_item(items, hl_str(ml_row(k)->name), NULL, OP_ITEM, hl_str(ml_meaning(k)), k);
}

static void offer_mlir_attributes(Items *items) {
  const LspDoc *doc = items->ask->doc;
  const int32_t at = lsp_statement_at(&doc->index, items->ask->at);
  HlMlDialect dialect;
  const int32_t op = at != LSP_NONE ? doc->index.statements.at[at].op : LSP_NONE;
  if (op == LSP_NONE)
    return;
  const MlOpRow *row =
      ml_row(ml_find_row(lsp_token_text(lsp_text(doc), &doc->index.tokens.at[op]), &dialect));
  for (const MlAttrRow *attr = row->attrs; attr->name != ML_A_NONE; attr++) {
    HlBuf insert = {0};
    hl_buf_printf(&insert, "%s = ", ml_name_text[attr->name]);
    put_item(items, hl_str(ml_name_text[attr->name]), insert.at, PROPERTY_ITEM,
             hl_str(ml_is_required(attr) ? "must be there" : ""), !ml_is_required(attr));
    hl_buf_free(&insert);
  }
}

// Values of the function, arguments too: what the cursor's region does not see is among them.
static void offer_mlir_values(Items *items) {
  const LspDoc *doc = items->ask->doc;
  const LspIndex *index = &doc->index;
  const int32_t comp = lsp_comp_at(index, items->ask->at);
  int order = 0;
  for (int k = index->names.n - 1; k >= 0 && !items->cut; k--) {
    const LspName *name = &index->names.at[k];
    if (name->kind == LSP_VALUE && name->token >= 0 && name->comp == comp &&
        index->tokens.at[name->token].at < items->ask->at)
      put_item(items, lsp_token_text(lsp_text(doc), &index->tokens.at[name->token]), NULL,
               VARIABLE_ITEM, hl_str(""), order++);
  }
}

static void complete_mlir(Items *items) {
  const char *text = items->ask->doc->text.at;
  const uint32_t at = items->word.at;
  const char before = at > 0 ? text[at - 1] : '\n';
  uint32_t k = at;
  while (k > 0 && (text[k - 1] == ' ' || text[k - 1] == '\t'))
    k--;
  const char sign = k > 0 ? text[k - 1] : '\n';
  if (before == '%')
    offer_mlir_values(items);
  else if (before == '@')
    offer_comps(items, LSP_NONE);
  else if (sign == '=' || sign == '\n' || before == '"')
    offer_mlir_ops(items);
  else if (sign == '{' || sign == '<' || sign == ',')
    offer_mlir_attributes(items);
}

// --- The answer -----------------------------------------------------------------------------------

void lsp_completion(LspAsk *ask) {
  HlBuf list = {0}, *out = ask->out;
  Items items = {.ask = ask, .word = word_before(ask, true)};
  items.prefix = (HlStr){ask->doc->text.at + items.word.at, ask->at - items.word.at};
  ask->out = &list;
  json_open(&list, NULL, '[');
  if (ask->doc->is_mlir)
    complete_mlir(&items);
  else
    complete_hlo(&items);
  json_close(&list, ']');
  ask->out = out;
  json_open(out, NULL, '{');
  json_bool(out, "isIncomplete", items.cut);
  json_key(out, "items");
  hl_buf_add(out, list.at, list.n);
  json_close(out, '}');
  hl_buf_free(&list);
}
