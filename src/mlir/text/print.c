// Prints MLIR programs: ops, regions, blocks, the generic form, and all that stands around them.
#include "mlir/text/print.h"

#include "base/memory.h"

// --- Pieces --------------------------------------------------------------------------------------------

void mlp_newline(Printer *p) {
  char *at = put_room(p->out, (size_t)p->indent + 1);
  at[0] = '\n';
  memset(at + 1, ' ', (size_t)p->indent);
  p->out->n += (size_t)p->indent + 1;
}

static void print_indent(Printer *p) {
  memset(put_room(p->out, (size_t)p->indent), ' ', (size_t)p->indent);
  p->out->n += (size_t)p->indent;
}

void mlp_operands(Printer *p, const HlMlOp *op, uint32_t from, uint32_t to) {
  for (uint32_t k = from; k < to; k++) {
    if (k > from)
      PUT(p->out, ", ");
    mlp_value(p, op->operands[k]);
  }
}

void mlp_types(Printer *p, HlMlValue *const *values, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_type(p, values[k]->type);
  }
}

void mlp_result_types(Printer *p, const HlMlOp *op) {
  bool bare = op->n_results == 1 && op->results[0].type->kind != HL_ML_FUNCTION;
  if (!bare)
    put_char(p->out, '(');
  for (uint32_t k = 0; k < op->n_results; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_type(p, op->results[k].type);
  }
  if (!bare)
    put_char(p->out, ')');
}

void mlp_function_type(Printer *p, const HlMlOp *op) {
  put_char(p->out, '(');
  mlp_types(p, op->operands, op->n_operands);
  PUT(p->out, ") -> ");
  mlp_result_types(p, op);
}

void mlp_attrs_left(Printer *p, const HlMlOp *op, const char *word, PrLeft *is_left,
                    const void *what) {
  bool any = false;
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    if (!is_left(op, &op->attrs[k], what))
      continue;
    if (any) {
      PUT(p->out, ", ");
    } else {
      put_text(p->out, word);
      PUT(p->out, " {");
    }
    any = true;
    mlp_named(p, &op->attrs[k]);
  }
  if (any)
    put_char(p->out, '}');
}

// --- Blocks and regions ----------------------------------------------------------------------------------

void mlp_block_name(Printer *p, const HlMlBlock *block) {
  PUT(p->out, "^bb");
  put_i64(p->out, block->number);
}

void mlp_region_arg(Printer *p, const HlMlValue *arg, const HlMlAttr *attrs, bool with_type) {
  mlp_value(p, arg);
  if (with_type) {
    PUT(p->out, ": ");
    mlp_type(p, arg->type);
  }
  if (attrs && attrs->kind == HL_ML_A_DICT && attrs->n) {
    put_char(p->out, ' ');
    mlp_dict(p, attrs->n, attrs->dict);
  }
  mlp_arg_location(p, arg->location);
}

// Where control comes from: a remark behind the label of every block but the first.
typedef struct Preds {
  int *start;  // by number of a block: where its own begin in `from`; NULL: no block jumps
  int *from;   // numbers of blocks, ascending; a block twice where it jumps twice
} Preds;

static bool has_jumps(const HlMlRegion *region) {
  const HlMlBlock *first = region->first;
  return first && (first->next || (first->last && first->last->n_successors > 0));
}

static void each_jump(const HlMlRegion *region, void (*tell)(Preds *, int from, int to),
                      Preds *preds) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (uint32_t k = 0; block->last && k < block->last->n_successors; k++)
      if (block->last->successors[k]->region == region)
        tell(preds, block->number, block->last->successors[k]->number);
}

// Counts stand two places further, so that sums are starts one place further, which placing moves on to the ends.
static void count_jump(Preds *preds, int from, int to) {
  (void)from;
  preds->start[to + 2]++;
}

static void place_jump(Preds *preds, int from, int to) {
  preds->from[preds->start[to + 1]++] = from;
}

static Preds find_preds(const HlMlRegion *region) {
  if (!has_jumps(region))
    return (Preds){0};
  const size_t n = (size_t)region->last->number + 1;
  Preds preds = {.start = base_alloc((n + 2) * sizeof(int))};
  each_jump(region, count_jump, &preds);
  for (size_t k = 2; k < n + 2; k++)
    preds.start[k] += preds.start[k - 1];
  preds.from = base_alloc((size_t)preds.start[n + 1] * sizeof(int));
  each_jump(region, place_jump, &preds);
  return preds;
}

static void print_preds(Printer *p, const Preds *preds, const HlMlBlock *block) {
  const int first = preds->start ? preds->start[block->number] : 0;
  const int n = preds->start ? preds->start[block->number + 1] - first : 0;
  const int *from = n ? preds->from + first : NULL;
  if (n == 0) {
    if (block != block->region->first)
      PUT(p->out, "  // no predecessors");
  } else if (from[0] == from[n - 1]) {
    hl_buf_printf(p->out, "  // pred: ^bb%d", from[0]);
  } else {
    hl_buf_printf(p->out, "  // %d preds: ", n);
    for (int k = 0; k < n; k++)
      hl_buf_printf(p->out, k ? ", ^bb%d" : "^bb%d", from[k]);
  }
}

static void print_block_header(Printer *p, const HlMlBlock *block, const Preds *preds) {
  print_indent(p);
  mlp_block_name(p, block);
  if (block->n_args) {
    put_char(p->out, '(');
    for (int k = 0; k < block->n_args; k++) {
      if (k)
        PUT(p->out, ", ");
      mlp_region_arg(p, block->args[k], NULL, true);
    }
    put_char(p->out, ')');
  }
  put_char(p->out, ':');
  print_preds(p, preds, block);
  put_char(p->out, '\n');
}

// `preds` NULL: without its label.
static void print_block(Printer *p, const HlMlBlock *block, const Preds *preds) {
  if (preds)
    print_block_header(p, block, preds);
  p->indent += 2;
  for (const HlMlOp *op = block->first; op; op = op->next) {
    print_indent(p);
    mlp_op(p, op);
    put_char(p->out, '\n');
    if (p->is_collecting)
      p->out->n = 0;
  }
  p->indent -= 2;
}

static HlMlDialect spoken_in(const HlMlOp *op) {
  return op->row == ML_BUILTIN_MODULE ? HL_ML_BUILTIN
         : op->row == ML_FUNC_FUNC    ? HL_ML_FUNC
                                      : HL_ML_FOREIGN;
}

void mlp_region(Printer *p, const HlMlRegion *region, bool args, bool empty_block) {
  HlMlDialect spoken = p->spoken;
  p->spoken = region->op ? spoken_in(region->op) : HL_ML_FOREIGN;
  PUT(p->out, "{\n");
  const HlMlBlock *first = region->first;
  Preds preds = find_preds(region);
  if (first)
    print_block(p, first,
                (args && first->n_args) || (empty_block && !first->first) ? &preds : NULL);
  for (const HlMlBlock *block = first ? first->next : NULL; block; block = block->next)
    print_block(p, block, &preds);
  base_free(preds.start);
  base_free(preds.from);
  print_indent(p);
  put_char(p->out, '}');
  p->spoken = spoken;
}

// --- Ops ---------------------------------------------------------------------------------------------------

bool mlp_is_inherent(const HlMlOp *op, const HlMlNamed *named) {
  if (!op->row)
    return named->inherent;
  const MlName name = (MlName)named->id;
  return ml_find_attr(ml_row_of(op), name) || name == ML_A_OPERAND_SEGMENT_SIZES ||
         name == ML_A_RESULT_SEGMENT_SIZES;
}

static bool is_discardable(const HlMlOp *op, const HlMlNamed *named, const void *what) {
  return !mlp_is_inherent(op, named);
}

// MLIR's infeed and outfeed always have a configuration, be it empty.
static const char *implied_config(const HlMlOp *op) {
  const MlName name = op->row == ML_STABLEHLO_INFEED    ? ML_A_INFEED_CONFIG
                      : op->row == ML_STABLEHLO_OUTFEED ? ML_A_OUTFEED_CONFIG
                                                        : ML_A_NONE;
  return name && !ml_attr(op, name) ? ml_name_text[name] : NULL;
}

static void print_properties(Printer *p, const HlMlOp *op) {
  const char *implied = implied_config(op);  // it comes before what else these ops have
  bool any = implied != NULL;
  if (implied)
    hl_buf_printf(p->out, " <{%s = \"\"", implied);
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    if (!mlp_is_inherent(op, &op->attrs[k]))
      continue;
    put_text(p->out, any ? ", " : " <{");
    any = true;
    mlp_named(p, &op->attrs[k]);
  }
  if (any)
    PUT(p->out, "}>");
}

static void print_successors(Printer *p, const HlMlOp *op) {
  put_char(p->out, '[');
  for (uint32_t k = 0; k < op->n_successors; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_block_name(p, op->successors[k]);
  }
  put_char(p->out, ']');
}

// Everything after the name, which a pretty form may have printed bare.
static void print_generic_rest(Printer *p, const HlMlOp *op) {
  put_char(p->out, '(');
  mlp_operands(p, op, 0, op->n_operands);
  put_char(p->out, ')');
  if (op->n_successors)
    print_successors(p, op);
  print_properties(p, op);
  if (op->n_regions) {
    PUT(p->out, " (");
    for (uint32_t k = 0; k < op->n_regions; k++) {
      if (k)
        PUT(p->out, ", ");
      mlp_region(p, &op->regions[k], true, true);
    }
    put_char(p->out, ')');
  }
  mlp_attrs_left(p, op, "", is_discardable, NULL);
  PUT(p->out, " : ");
  mlp_function_type(p, op);
}

// In the order in which MLIR looks for aliases in an op that is printed in the generic form.
static void collect_generic(Printer *p, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_regions; k++)
    mlp_region(p, &op->regions[k], true, true);
  mlp_types(p, op->operands, op->n_operands);
  mlp_result_types(p, op);
  for (uint32_t k = 0; k < op->n_attrs; k++)
    mlp_attr(p, op->attrs[k].value, PR_TYPE);
}

void mlp_generic(Printer *p, const HlMlOp *op) {
  if (p->is_collecting) {
    collect_generic(p, op);
    return;
  }
  mlp_string(p, op->name->text, op->name->n);
  print_generic_rest(p, op);
}

static void print_op_name(Printer *p, const HlMlOp *op) {
  const char *name = op->name->text, *dot = strchr(name, '.');
  if (p->spoken == op->dialect && op->dialect != HL_ML_FOREIGN && dot && !strchr(dot + 1, '.'))
    put_text(p->out, dot + 1);
  else
    put_sym(p->out, op->name);
}

static bool print_pretty(Printer *p, const HlMlOp *op) {
  if (p->options.generic || !mlp_has_form(op))
    return false;
  const char *form = ml_row_of(op)->form;
  size_t start = p->out->n;
  print_op_name(p, op);
  if (form[0] == '!' ? mlp_special(p, op, form + 1) : mlp_form(p, op, form))
    return true;
  p->out->n = start;
  return false;
}

void mlp_op(Printer *p, const HlMlOp *op) {
  if (p->is_collecting)
    mlp_op_location(p, op);
  mlp_results(p, op);
  if (!print_pretty(p, op))
    mlp_generic(p, op);
  if (!p->is_collecting)
    mlp_trailing_location(p, op->location);
}

// --- Programs ----------------------------------------------------------------------------------------------

static void print_resources(Printer *p) {
  const HlMlTree *tree = p->tree;
  if (!tree->n_resources || !p->options.large_constants)
    return;
  PUT(p->out, "\n{-#\n  dialect_resources: {\n");
  for (int k = 0; k < tree->n_resources; k++) {
    const HlMlResource *resource = &tree->resources[k];
    bool is_first = !k || tree->resources[k - 1].dialect != resource->dialect;
    bool is_last = k + 1 == tree->n_resources,
         is_group_end = is_last || resource[1].dialect != resource->dialect;
    if (is_first) {
      PUT(p->out, "    ");
      put_sym(p->out, resource->dialect);
      PUT(p->out, ": {\n");
    }
    PUT(p->out, "      ");
    put_sym(p->out, resource->key);
    PUT(p->out, ": \"0x");
    uint8_t alignment[4];
    for (int b = 0; b < 4; b++)
      alignment[b] = (uint8_t)(resource->alignment >> (8 * b));
    mlp_hex(p->out, alignment, 4);
    mlp_hex(p->out, resource->data, resource->n);
    put_text(p->out, is_group_end ? "\"\n" : "\",\n");
    if (is_group_end)
      put_text(p->out, is_last ? "    }\n" : "    },\n");
  }
  PUT(p->out, "  }\n#-}\n");
}

static void collect_aliases(const Printer *p) {
  HlBuf lost = {0};
  Printer collector = *p;
  collector.out = &lost;
  collector.is_collecting = true;
  mlp_op(&collector, p->tree->module);
  hl_buf_free(&lost);
  mlp_aliases_number(p->aliases);
}

void hl_ml_text_print(const HlMlTree *tree, const HlMlTextOptions *options, HlBuf *out) {
  PrNames *names = mlp_names_new(tree, tree->module, options->generic);
  Printer p = {
      .out = out, .tree = tree, .options = *options, .names = names, .spoken = HL_ML_BUILTIN};
  if (options->locations || ml_tables(tree)->has_aliases) {
    p.aliases = mlp_aliases_new();
    collect_aliases(&p);
    mlp_aliases_list(&p, false);
  }
  mlp_op(&p, tree->module);
  put_char(out, '\n');
  mlp_aliases_list(&p, true);
  print_resources(&p);
  put_end(out);
  mlp_aliases_free(p.aliases);
  mlp_names_free(names);
}

// Names are those that the op has in its function.
void hl_ml_op_print(HlBuf *out, const HlMlTree *tree, const HlMlOp *op) {
  const HlMlOp *top = op;
  while (top->block && top->block->region->op && top->block->region->op->block)
    top = top->block->region->op;
  PrNames *names = mlp_names_new(tree, top, false);
  Printer p = {.out = out,
               .tree = tree,
               .options = {.large_constants = false},
               .names = names,
               .spoken = op->block && op->block->region->op ? spoken_in(op->block->region->op)
                                                            : HL_ML_BUILTIN};
  mlp_op(&p, op);
  put_end(out);
  mlp_names_free(names);
}
