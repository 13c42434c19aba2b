// lsp/hover.c: what a thing is: an op's meaning, an instruction's shape and cost, a computation's, an attribute's form.
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/text.h"
#include "lsp/lsp.h"
#include "mlir/tree/dialect.h"

enum { MAX_CODE = 400, MAX_USERS = 8 };

// --- Pieces ---------------------------------------------------------------------------------------

// The bytes as code, on one line and not too long.
static void put_code(HlBuf *out, const char *language, const char *at, size_t n) {
  hl_buf_printf(out, "```%s\n", language);
  bool blank = false;
  size_t k = 0;
  for (; k < n && k < MAX_CODE; k++) {
    const bool space = at[k] == ' ' || at[k] == '\n' || at[k] == '\r' || at[k] == '\t';
    if (!space || !blank)
      hl_buf_putc(out, space ? ' ' : at[k]);
    blank = space;
  }
  while (k < n && (at[k] & 0xc0) == 0x80)  // the rest of a character
    hl_buf_putc(out, at[k++]);
  hl_buf_puts(out, k < n ? " ...\n```\n" : "\n```\n");
}

static void put_bytes(HlBuf *out, double bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  hl_buf_printf(out, "%.0f bytes", bytes);
  double value = bytes / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 3; unit++)
    value /= 1024;
  if (value >= 1)
    hl_buf_printf(out, " (%.4g %s)", value, units[unit]);
}

static void put_cost(HlBuf *out, HlCost cost) {
  hl_buf_printf(out, "cost: %.0f flops", cost.flops);
  if (cost.transcendentals > 0)
    hl_buf_printf(out, ", %.0f transcendentals", cost.transcendentals);
  hl_buf_puts(out, "; reads ");
  put_bytes(out, cost.bytes_read);
  hl_buf_puts(out, "; writes ");
  put_bytes(out, cost.bytes_written);
  if (cost.collective_bytes > 0) {
    hl_buf_puts(out, "; sends ");
    put_bytes(out, cost.collective_bytes);
  }
  hl_buf_puts(out, "\n\n");
}

static void add_cost(HlCost *to, HlCost more) {
  to->flops += more.flops;
  to->transcendentals += more.transcendentals;
  to->bytes_read += more.bytes_read;
  to->bytes_written += more.bytes_written;
  to->collective_bytes += more.collective_bytes;
}

static void put_shape(HlBuf *out, const HlShape *shape) {
  const int64_t bytes = hl_leaf_bytes(shape);
  hl_buf_puts(out, "shape: `");
  HlBuf text = {0};
  hl_shape_print(&text, shape, true);
  hl_buf_add(out, text.at, text.n < MAX_CODE ? text.n : MAX_CODE);
  hl_buf_puts(out, text.n < MAX_CODE ? "`" : " ...`");
  hl_buf_free(&text);
  if (hl_shape_is_array(shape) && !hl_shape_is_unbounded(shape))
    hl_buf_printf(out, ", %" PRId64 " elements", hl_shape_elements(shape));
  if (bytes != INT64_MAX) {
    hl_buf_puts(out, ", ");
    put_bytes(out, (double)bytes);
  }
  hl_buf_puts(out, "\n\n");
}

// The attributes of an op, those that must be there first.
static void put_hlo_attributes(HlBuf *out, HlOp op) {
  bool any = false;
  for (int needed = 1; needed >= 0; needed--)
    for (const uint16_t *k = hl_op_info[op].attrs; *k != HL_ATTR_END; k++) {
      const char *text = hl_attr_info[*k & ~HL_ATTR_REQUIRED].text;
      if (!*text || !!(*k & HL_ATTR_REQUIRED) != needed)
        continue;
      hl_buf_printf(out, "%s`%s`%s", any ? ", " : "attributes: ", text,
                    needed ? " (must be there)" : "");
      any = true;
    }
  if (any)
    hl_buf_puts(out, "\n\n");
}

static void put_hlo_op(HlBuf *out, HlOp op) {
  hl_buf_printf(out, "**%s**: %s\n\n", hl_op_text(op), hl_op_info[op].meaning);
}

// The row of an op as it may be written: `module`, `return` and the like go without their dialect.
static HlMlRow row_of(HlStr name) {
  char full[32];
  HlMlDialect dialect;
  if (!memchr(name.at, '.', name.n) && name.n < sizeof full - 8) {
    const bool module = hl_str_is(name, "module");
    snprintf(full, sizeof full, "%s.%.*s", module ? "builtin" : "func", (int)name.n, name.at);
    name = hl_str(full);
  }
  return ml_find_row(name, &dialect);
}

static void put_mlir_op(HlBuf *out, HlStr name) {
  const HlMlRow row = row_of(name);
  hl_buf_printf(out, "**%.*s**: %s\n\n", (int)name.n, name.at,
                row == ML_NONE ? "an op that Hilo carries and does not know" : ml_meaning(row));
}

static void put_mlir_attributes(HlBuf *out, HlMlRow row) {
  const MlOpRow *of = ml_row(row);
  if (*of->operands)
    hl_buf_printf(out, "operands: %s\n\n", of->operands);
  bool any = false;
  for (const MlAttrRow *attr = of->attrs; attr->name != ML_A_NONE; attr++) {
    hl_buf_printf(out, "%s`%s`%s", any ? ", " : "attributes: ", ml_name_text[attr->name],
                  ml_is_required(attr) ? " (must be there)" : "");
    any = true;
  }
  if (any)
    hl_buf_puts(out, "\n\n");
}

// --- Instructions ---------------------------------------------------------------------------------

static void put_source(HlBuf *out, const HlInst *inst) {
  const HlMetadata *data = hl_metadata(inst);
  if (!data || (!data->op_name && !data->source_file && !data->stack_frame_id))
    return;
  hl_buf_puts(out, "from:");
  if (data->op_name)
    hl_buf_printf(out, " `%.200s`", data->op_name->text);
  const HlFrames *frames = &inst->comp->module->frames;
  const int frame = data->stack_frame_id;
  if (data->source_file) {
    hl_buf_printf(out, " at %s:%d", data->source_file->text, data->source_line);
  } else if (frame > 0 && frame <= frames->n_frames) {
    const int place = frames->frames[frame - 1].file_location_id;
    if (place > 0 && place <= frames->n_locations) {
      const HlFileLocation *at = &frames->locations[place - 1];
      if (at->file_name_id > 0 && at->file_name_id <= frames->n_file_names)
        hl_buf_printf(out, " at %s:%d", frames->file_names[at->file_name_id - 1]->text, at->line);
    }
  }
  hl_buf_puts(out, "\n\n");
}

static void put_users(LspAsk *ask, HlBuf *out, int32_t which) {
  const LspIndex *index = &ask->doc->index;
  int n = 0;
  HlBuf list = {0};
  int32_t last = LSP_NONE;
  for (int k = 0; k < index->tokens.n; k++) {
    const LspToken *token = &index->tokens.at[k];
    if (token->name != which || token->defines)
      continue;
    const int32_t user = lsp_statement_at(index, token->at);
    if (user == LSP_NONE || user == last || token->at < index->statements.at[user].all.at)
      continue;
    last = user;
    const int32_t name = index->statements.at[user].name;
    if (n++ < MAX_USERS && name != LSP_NONE && index->names.at[name].token >= 0) {
      const LspToken *of = &index->tokens.at[index->names.at[name].token];
      hl_buf_printf(&list, "%s`%.*s`", list.n ? ", " : "", (int)of->n, ask->doc->text.at + of->at);
    }
  }
  hl_buf_printf(out, "used by %d%s%s%s\n\n", n, list.n ? ": " : "", list.n ? list.at : "",
                n > MAX_USERS ? ", ..." : "");
  hl_buf_free(&list);
}

// All that was made of an op of MLIR.
static HlCost cost_at(LspDoc *doc, const HlInst *first) {
  HlCost sum = {0};
  const HlModule *m = first->comp->module;
  const HlCost *comps = lsp_costs_of(doc, m);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->loc == first->loc)
        add_cost(&sum, hl_cost_inst_by(inst, comps));
  return sum;
}

static void put_inst(LspAsk *ask, HlBuf *out, const LspStatement *of) {
  LspDoc *doc = ask->doc;
  const HlInst *inst = lsp_inst_of(ask->cx, doc, of);
  const char *language = doc->is_mlir ? "mlir" : "hlo";
  if (inst && !doc->is_mlir) {
    static const HlTextOptions how = {.metadata = HL_OFF, .backend_config = HL_OFF};
    HlBuf text = {0};
    hl_text_print_inst(ask->cx, inst, &how, &text);
    put_code(out, language, text.at, text.n);
    hl_buf_free(&text);
  } else {
    put_code(out, language, doc->text.at + of->all.at, of->all.end - of->all.at);
  }
  const HlStr op = of->op != LSP_NONE ? lsp_token_text(lsp_text(doc), &doc->index.tokens.at[of->op])
                                      : hl_str("");
  const HlOp known = inst && !doc->is_mlir ? (HlOp)inst->op : hl_op_by_text(op);
  if (doc->is_mlir && op.n)
    put_mlir_op(out, op);
  else if (!doc->is_mlir && known < HL_OP_COUNT)
    put_hlo_op(out, known);
  if (!inst)
    return;
  if (!doc->is_mlir)
    put_shape(out, inst->shape);
  put_cost(out, doc->is_mlir ? cost_at(doc, inst)
                             : hl_cost_inst_by(inst, lsp_costs_of(doc, inst->comp->module)));
  put_source(out, inst);
}

static void put_op(LspAsk *ask, HlBuf *out, int32_t token, int32_t statement) {
  const HlStr word = lsp_token_text(lsp_text(ask->doc), &ask->doc->index.tokens.at[token]);
  if (statement != LSP_NONE && ask->doc->index.statements.at[statement].op == token)
    put_inst(ask, out, &ask->doc->index.statements.at[statement]);
  else if (ask->doc->is_mlir)
    put_mlir_op(out, word);
  else if (hl_op_by_text(word) < HL_OP_COUNT)
    put_hlo_op(out, hl_op_by_text(word));
  if (ask->doc->is_mlir)
    put_mlir_attributes(out, row_of(word));
  else if (hl_op_by_text(word) < HL_OP_COUNT)
    put_hlo_attributes(out, hl_op_by_text(word));
}

// --- Computations, attributes, types --------------------------------------------------------------------

static const HlComp *comp_of(LspAsk *ask, int32_t which) {
  LspDoc *doc = ask->doc;
  lsp_check(ask->cx, doc);
  const LspName *name = &doc->index.names.at[which];
  if (name->token < 0)
    return NULL;
  lsp_lower(ask->cx, doc);
  const HlStr text = lsp_token_text(lsp_text(doc), &doc->index.tokens.at[name->token]);
  const int32_t module =
      name->comp != LSP_NONE && !doc->is_mlir ? doc->index.comps.at[name->comp].module : 0;
  const HlModule *m = module < doc->n_modules ? doc->modules[module] : NULL;
  return m ? hl_find_comp(m, text) : NULL;
}

static int count_statements(const LspIndex *index, int32_t comp) {
  int n = 0;
  for (int k = 0; k < index->statements.n; k++)
    n += index->statements.at[k].comp == comp;
  return n;
}

static void put_comp(LspAsk *ask, HlBuf *out, int32_t which) {
  const LspIndex *index = &ask->doc->index;
  const LspName *name = &index->names.at[which];
  int uses = 0;
  for (int k = 0; k < index->tokens.n; k++)
    uses += index->tokens.at[k].name == which && !index->tokens.at[k].defines;
  const LspComp *comp = name->comp != LSP_NONE ? &index->comps.at[name->comp] : NULL;
  if (comp) {
    const uint32_t end = comp->body.at > comp->all.at ? comp->body.at - 1 : comp->all.end;
    put_code(out, ask->doc->is_mlir ? "mlir" : "hlo", ask->doc->text.at + comp->all.at,
             end - comp->all.at);
    const int n = count_statements(index, name->comp) - ask->doc->is_mlir;
    hl_buf_printf(out, "%d %s%s; ", n, ask->doc->is_mlir ? "op" : "instruction", n == 1 ? "" : "s");
  }
  hl_buf_printf(out, "called %d time%s in the text\n\n", uses, uses == 1 ? "" : "s");
  const HlComp *read = comp_of(ask, which);
  if (read)
    put_cost(out, lsp_costs_of(ask->doc, read->module)[read->id]);
}

static void put_hlo_attribute(HlBuf *out, HlStr word) {
  static const char *const forms[] = {
#define ATTR_KIND(id, member, meaning) meaning,
#include "hilo/attrs.def"
  };
  for (int k = 0; k < HL_ATTR_COUNT; k++) {
    if (!hl_str_is(word, hl_attr_info[k].text))
      continue;
    hl_buf_printf(out, "**%s**: in the form `%s`\n\n", hl_attr_info[k].text,
                  forms[hl_attr_info[k].kind]);
    const HlEnum *words = hl_attr_info[k].words;
    for (int w = 0; words && w < words->n; w++)
      hl_buf_printf(out, "%s`%s`%s", w ? ", " : "one of ", words->text[w],
                    w + 1 == words->n ? "\n\n" : "");
    return;
  }
}

static void put_type(LspAsk *ask, HlBuf *out, const LspToken *token) {
  const HlStr word = lsp_token_text(lsp_text(ask->doc), token);
  HlBuf program = {0};
  hl_buf_printf(&program, "ENTRY e {\n  ROOT x = %.*s parameter(0)\n}\n", (int)word.n, word.at);
  HlModule *m = word.n < 4096 ? hl_text_parse(ask->cx, program.at) : NULL;
  hl_buf_free(&program);
  hl_cx_clear(ask->cx);
  if (m)
    put_shape(out, m->entry->root->shape);
  hl_module_free(m);
}

static void put_module(LspAsk *ask, HlBuf *out, int32_t token) {
  LspDoc *doc = ask->doc;
  lsp_check(ask->cx, doc);
  for (int k = 0; k < doc->index.modules.n && k < doc->n_modules; k++) {
    if (doc->index.modules.at[k] != token)
      continue;
    const HlModule *m = doc->modules[k];
    hl_buf_printf(out, "%" PRId64 " instructions in %u computations\n\n", hl_count_instructions(m),
                  m->n_comps);
    put_cost(out, lsp_costs_of(doc, m)[m->entry->id]);
  }
}

// --- The answer -----------------------------------------------------------------------------------

// An argument of a function or region stands behind the op it belongs to.
static bool is_argument(const LspIndex *index, const LspName *name) {
  return name->statement != LSP_NONE && index->statements.at[name->statement].op != LSP_NONE &&
         index->statements.at[name->statement].op < name->token;
}

static void put_argument(LspAsk *ask, HlBuf *out, const LspName *name) {
  const LspDoc *doc = ask->doc;
  const LspToken *token = &doc->index.tokens.at[name->token];
  uint32_t end = token->at + token->n;
  if (name->token + 1 < doc->index.tokens.n && token[1].kind == LSP_TYPE)
    end = lsp_token_span(token + 1).end;
  put_code(out, "mlir", doc->text.at + token->at - 1, end - token->at + 1);
  const LspStatement *of = &doc->index.statements.at[name->statement];
  const HlStr op = lsp_token_text(lsp_text(doc), &doc->index.tokens.at[of->op]);
  hl_buf_printf(out, "an argument of `%.*s`\n\n", (int)op.n, op.at);
}

static void put_value(LspAsk *ask, HlBuf *out, int32_t which) {
  const LspIndex *index = &ask->doc->index;
  const int32_t statement = index->names.at[which].statement;
  if (index->names.at[which].token < 0)
    hl_buf_puts(out, "nothing of this name is defined\n\n");
  else if (ask->doc->is_mlir && is_argument(index, &index->names.at[which]))
    put_argument(ask, out, &index->names.at[which]);
  else if (statement != LSP_NONE)
    put_inst(ask, out, &index->statements.at[statement]);
  put_users(ask, out, which);
}

static void put_hover(LspAsk *ask, HlBuf *out, int32_t which) {
  const LspIndex *index = &ask->doc->index;
  const LspToken *token = &index->tokens.at[which];
  switch ((LspKind)token->kind) {
  case LSP_OP: put_op(ask, out, which, lsp_statement_at(index, token->at)); break;
  case LSP_VALUE: put_value(ask, out, token->name); break;
  case LSP_COMP: put_comp(ask, out, token->name); break;
  case LSP_MODULE: put_module(ask, out, which); break;
  case LSP_ATTR:
    if (!ask->doc->is_mlir)
      put_hlo_attribute(out, lsp_token_text(lsp_text(ask->doc), token));
    break;
  case LSP_TYPE:
    if (!ask->doc->is_mlir)
      put_type(ask, out, token);
    break;
  default: break;
  }
}

void lsp_hover(LspAsk *ask) {
  const int32_t token = lsp_token_at(&ask->doc->index, ask->at);
  if (token == LSP_NONE)
    return;
  HlBuf text = {0};
  put_hover(ask, &text, token);
  if (text.n) {
    while (text.n && text.at[text.n - 1] == '\n')
      text.at[--text.n] = 0;
    json_open(ask->out, NULL, '{');
    json_open(ask->out, "contents", '{');
    json_text(ask->out, "kind", "markdown");
    json_bytes(ask->out, "value", text.at, text.n);
    json_close(ask->out, '}');
    lsp_put_range(ask, "range", lsp_token_span(&ask->doc->index.tokens.at[token]));
    json_close(ask->out, '}');
  }
  hl_buf_free(&text);
}
