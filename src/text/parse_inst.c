// parse_inst.c: reads instructions.
//
// instruction = [ "ROOT" ] name "=" rhs
// rhs         = [ shape ] opcode "(" operands ")" { "," attribute }
//
// Which attributes an op takes, and how many operands, says ops.def; what else XLA's parser asks of
// single ops is in parse_check_op.

#include "hilo/op.h"
#include "text/parse.h"

#include <string.h>

// --- Opcodes and attribute names -----------------------------------------------------------------

static const struct {
  const char *text;
  HlOp op;
  int64_t direction;
} old_opcodes[] = {
    {"equal-to", HL_OP_COMPARE, HL_WORD_direction_EQ},
    {"not-equal-to", HL_OP_COMPARE, HL_WORD_direction_NE},
    {"greater-than", HL_OP_COMPARE, HL_WORD_direction_GT},
    {"greater-than-or-equal-to", HL_OP_COMPARE, HL_WORD_direction_GE},
    {"less-than", HL_OP_COMPARE, HL_WORD_direction_LT},
    {"less-than-or-equal-to", HL_OP_COMPARE, HL_WORD_direction_LE},
    {"cross-replica-sum", HL_OP_ALL_REDUCE, -1},
};

// The place in the word cache for a word.
static ParseWord *word_slot(Parser *p, HlStr word, int op) {
  uint64_t a = 0, b = 0;
  if (word.n >= 8) {
    a = hl_load_u64(word.at);
    b = hl_load_u64(word.at + word.n - 8);
  } else {
    memcpy(&a, word.at, word.n);
  }
  const uint64_t hash = hl_hash_mix(a + (uint64_t)op, b + word.n);
  return &p->words[hash % PARSE_WORD_SLOTS];
}

static inline bool holds(const ParseWord *slot, HlStr word, int op, bool opcode) {
  return slot->n == word.n && (opcode ? slot->key == -1 : slot->op == op && slot->key >= 0) &&
         lex_same(slot->text, word.at, word.n);
}

static void fill(ParseWord *slot, HlStr word, int op, int key) {
  *slot = (ParseWord){word.at, (uint32_t)word.n, (int16_t)op, (int16_t)key};
}

static HlOp find_opcode(Parser *p, HlStr word) {
  if (word.n == 0)
    return HL_OP_COUNT;
  ParseWord *slot = word_slot(p, word, -1);
  if (HL_LIKELY(holds(slot, word, -1, true)))
    return (HlOp)slot->op;
  const HlOp op = hl_op_by_text(word);
  if (op == HL_OP_COUNT)
    return op;
  fill(slot, word, op, -1);
  dialect_has(&p->signs, hl_op_since(op));
  return op;
}

// Which ops have starts and dones of their own, and so no sugar.
static bool has_own_async(HlOp op) {
  return op == HL_OP_ALL_REDUCE || op == HL_OP_ALL_GATHER || op == HL_OP_COLLECTIVE_PERMUTE ||
         op == HL_OP_COPY || op == HL_OP_SEND || op == HL_OP_RECV || op == HL_OP_PARAMETER ||
         op == HL_OP_CONSTANT;
}

// "abs-start" and so on.
static bool find_sugar(Parser *p, HlStr word, ParseInst *inst) {
  static const struct {
    const char *suffix;
    HlOp op;
  } kinds[] = {
      {"-start", HL_OP_ASYNC_START}, {"-update", HL_OP_ASYNC_UPDATE}, {"-done", HL_OP_ASYNC_DONE}};
  for (int k = 0; k < HL_COUNT_OF(kinds); k++) {
    const size_t n = strlen(kinds[k].suffix);
    if (word.n <= n || memcmp(word.at + word.n - n, kinds[k].suffix, n) != 0)
      continue;
    inst->wrapped = hl_op_by_text((HlStr){word.at, word.n - n});
    inst->op = kinds[k].op;
    if (inst->wrapped < HL_OP_COUNT && !has_own_async(inst->wrapped) &&
        !(hl_op_info[inst->wrapped].traits & HL_T_ASYNC))
      return true;
    inst->wrapped = HL_OP_COUNT;
  }
  return false;
}

// XLA writes an async-start of a collective that has a start of its own like that one; its shape tells: ((f32[8]), f32[8])
// where the collective's own has f32[8] or (f32[8], f32[8]). (Of several arrays an all-gather's and a permute's shapes are the
// same, and mean the same.)
static void find_start(ParseInst *inst) {
  const HlShape *shape = inst->shape;
  const HlOp op =
      hl_op_half((HlOp)inst->op) == HL_HALF_START ? hl_op_plain((HlOp)inst->op) : HL_OP_COUNT;
  if ((op != HL_OP_ALL_REDUCE && op != HL_OP_ALL_GATHER && op != HL_OP_COLLECTIVE_PERMUTE) ||
      shape->rank < 2 || shape->element[0]->dtype != HL_TUPLE ||
      (op != HL_OP_ALL_REDUCE && shape->element[0]->rank != 1))
    return;
  inst->op = HL_OP_ASYNC_START;
  inst->wrapped = op;
}

// The end of what such a start began.
static void find_done(const Parser *p, ParseInst *inst) {
  const HlInst *started = inst->n_ops == 1 ? p->ptrs.at[inst->ops] : NULL;
  if (inst->op == HL_OP_ASYNC_DONE || !started || started->op != HL_OP_ASYNC_START)
    return;
  inst->wrapped = hl_op_plain((HlOp)inst->op);
  inst->op = HL_OP_ASYNC_DONE;
}

static bool unknown_opcode(Parser *p, HlStr word) {
  if (word.n == 0)
    return lex_expected(&p->in, "an opcode");
  parse_error(p, p->in.at, "unknown opcode '%.*s'", (int)word.n, word.at);
  const char *names[HL_OP_COUNT];
  for (int k = 0; k < HL_OP_COUNT; k++)
    names[k] = hl_op_info[k].text;
  const char *near = hl_nearest(word, names, HL_OP_COUNT);
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

static bool read_opcode(Parser *p, ParseInst *inst) {
  const char *s = p->in.at, *end = lex_is(*s, LEX_START) ? lex_ident_end(s) : s;
  const HlStr word = {s, (size_t)(end - s)};
  inst->op_at = s;
  inst->wrapped = HL_OP_COUNT;
  inst->direction = -1;
  if (HL_UNLIKELY(*end == '=' || *end == ':'))
    return lex_expected(&p->in, "an opcode");
  inst->op = find_opcode(p, word);
  if (HL_UNLIKELY(inst->op == HL_OP_COUNT)) {
    for (int k = 0; k < HL_COUNT_OF(old_opcodes); k++)
      if (hl_str_is(word, old_opcodes[k].text)) {
        inst->op = old_opcodes[k].op;
        inst->direction = old_opcodes[k].direction;
      }
    if (inst->op == HL_OP_COUNT && !find_sugar(p, word, inst))
      return unknown_opcode(p, word);
  }
  if (inst->shape && inst->shape->dtype == HL_TUPLE)
    find_start(inst);
  lex_move(&p->in, end);
  return true;
}

// Rows of ops.def that text does not write: they are for protos.
static bool is_text_attr(HlOp op, int key) {
  return !(op == HL_OP_CUSTOM_CALL && key == HL_A_ALGORITHM) &&
         !(op == HL_OP_CALL && key == HL_A_OUTPUT_TO_OPERAND_ALIASING);
}

static int find_own_attr(HlOp op, HlStr name) {
  for (const uint16_t *k = hl_op_info[op].attrs; *k != HL_ATTR_END; k++) {
    const int key = *k & ~HL_ATTR_REQUIRED;
    const char *text = hl_attr_info[key].text;
    if (*text == *name.at && hl_str_is(name, text) && is_text_attr(op, key))
      return key;
  }
  return -1;
}

static bool is_common(HlOp op, int key) {
  return key != HL_A_EXTRA &&
         (key != HL_A_RESULT_ACCURACY || hl_op_info[op].traits & HL_T_ACCURACY);
}

// The attribute of a name on this instruction, or -1.
static int search_attr(const ParseInst *inst, HlStr name) {
  int key = -1;
  if (inst->wrapped < HL_OP_COUNT && inst->op == HL_OP_ASYNC_START)
    key = find_own_attr(inst->wrapped, name);
  if (key < 0)
    key = find_own_attr(inst->op, name);
  // What is wrapped by sugar is not named, too.
  if (key == HL_A_CALLS && inst->wrapped < HL_OP_COUNT && find_own_attr(inst->wrapped, name) < 0)
    key = -1;
  if (key < 0 && inst->op == HL_OP_CONVOLUTION && hl_str_is(name, "conv_kind"))
    return HL_A_CONVOLUTION_KIND;
  for (int k = HL_ATTR_COMMON; key < 0 && k < HL_ATTR_COUNT; k++)
    if (*hl_attr_info[k].text == *name.at && is_common(inst->op, k) &&
        hl_str_is(name, hl_attr_info[k].text))
      key = k;
  return key;
}

static int find_attr(Parser *p, const ParseInst *inst, HlStr name) {
  if (HL_UNLIKELY(inst->wrapped < HL_OP_COUNT))
    return search_attr(inst, name);
  ParseWord *slot = word_slot(p, name, (int)inst->op);
  if (HL_LIKELY(holds(slot, name, (int)inst->op, false)))
    return slot->key;
  const int key = search_attr(inst, name);
  if (key < 0)
    return key;
  fill(slot, name, (int)inst->op, key);
  dialect_has(&p->signs, hl_attr_since((HlAttrKey)key));
  return key;
}

// --- Attributes that are not known ---------------------------------------------------------------

// Attributes that once existed on these or other ops: carried as they are written.
static bool is_old_attr(HlStr name) {
  static const char *const old[] = {"outer_dimension_partitions",
                                    "async_group_id",
                                    "all_reduce_id",
                                    "sparsity",
                                    "original_value",
                                    "barrier",
                                    "is_cross_program_prefetch"};
  for (int k = 0; k < HL_COUNT_OF(old); k++)
    if (hl_str_is(name, old[k]))
      return true;
  return false;
}

// The end of the value at `s`: brackets balanced, up to a comma, white space or a closing bracket.
static const char *value_end(const char *s) {
  int depth = 0;
  for (;; s++) {
    if (*s == '"') {
      s = lex_string_end(s + 1, '"');
      if (!s)
        return NULL;
    } else if (*s == '{' || *s == '(' || *s == '[') {
      depth++;
    } else if (*s == '}' || *s == ')' || *s == ']') {
      if (depth-- == 0)
        return s;
    } else if (*s == 0 || (depth == 0 && (*s == ',' || lex_is(*s, LEX_SPACE)))) {
      return depth ? NULL : s;
    }
  }
}

static bool carry_attr(Parser *p, ParseInst *inst, HlStr name) {
  const char *s = p->in.at, *end = value_end(s);
  if (!end || end == s || end > p->in.end)
    return lex_expected(&p->in, "a value");
  if (inst->n_extra == HL_COUNT_OF(inst->extra) / 2)
    return parse_error(p, name.at, "too many unknown attributes");
  inst->extra[2 * inst->n_extra] = parse_sym(p, name);
  inst->extra[2 * inst->n_extra + 1] = parse_sym(p, (HlStr){s, (size_t)(end - s)});
  inst->n_extra++;
  lex_move(&p->in, end);
  return true;
}

// The names of all attributes the instruction may have, sorted.
static int allowed_names(const ParseInst *inst, const char **names) {
  int n = 0;
  for (int key = 0; key < HL_ATTR_COUNT; key++) {
    const char *text = hl_attr_info[key].text;
    if (!*text || search_attr(inst, hl_str(text)) != key)
      continue;
    int k = n++;
    for (; k > 0 && strcmp(names[k - 1], text) > 0; k--)
      names[k] = names[k - 1];
    names[k] = text;
  }
  return n;
}

static bool unexpected_attr(Parser *p, ParseInst *inst, HlStr name) {
  if (is_old_attr(name))
    return carry_attr(p, inst, name);
  const char *names[HL_ATTR_COUNT];
  const int n = allowed_names(inst, names);
  HlBuf all = {0};
  for (int k = 0; k < n; k++)
    hl_buf_printf(&all, "%s%s", k ? ", " : "", names[k]);
  parse_error(p, name.at, "unexpected attribute \"%.*s\"; allowed attributes: %s", (int)name.n,
              name.at, all.at ? all.at : "none");
  hl_buf_free(&all);
  const char *near = hl_nearest(name, names, n);
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

// --- Attributes ----------------------------------------------------------------------------------

const HlAttr *parse_seen(const ParseInst *inst, HlAttrKey key) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key == key)
      return &inst->attrs[k];
  return NULL;
}

void parse_add_attr(ParseInst *inst, const HlAttr *attr) {
  inst->attrs[inst->n_attrs++] = *attr;
}

void parse_drop_attr(ParseInst *inst, HlAttrKey key) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key == key) {
      inst->attrs[k] = inst->attrs[--inst->n_attrs];
      return;
    }
}

static bool read_attribute(Parser *p, ParseInst *inst) {
  const char *s = p->in.at, *end = lex_is(*s, LEX_START) ? lex_ident_end(s) : s;
  if (end == s || *end != '=')
    return lex_expected(&p->in, "an attribute such as name=value");
  const HlStr name = {s, (size_t)(end - s)};
  lex_move(&p->in, end + 1);
  const int key = find_attr(p, inst, name);
  if (HL_UNLIKELY(key < 0)) {
    // XLA reads the dimension of ragged-all-to-all and forgets it.
    HlAttr dropped = {.key = HL_A_DIMENSION};
    if (inst->op == HL_OP_RAGGED_ALL_TO_ALL && hl_str_is(name, "dimensions"))
      return parse_kind[HL_KIND_OF_ONE_INT](p, inst, &dropped);
    return unexpected_attr(p, inst, name);
  }
  if (parse_was_seen(inst, key))
    return parse_error(p, s, "attribute %.*s already exists", (int)name.n, name.at);
  inst->seen[key >> 6] |= 1ull << (key & 63);
  HlAttr *attr = &inst->attrs[inst->n_attrs];
  attr->key = (HlAttrKey)key;
  if (!parse_kind[hl_attr_info[key].kind](p, inst, attr))
    return false;
  inst->n_attrs += attr->key != HL_ATTR_COUNT;
  return true;
}

static bool missing_attr(Parser *p, const ParseInst *inst, const char *name) {
  return parse_error(p, inst->op_at, "attribute %s is expected but not seen", name);
}

static bool check_required(Parser *p, const ParseInst *inst, HlOp op) {
  for (const uint16_t *k = hl_op_info[op].attrs; *k != HL_ATTR_END; k++) {
    const int key = *k & ~HL_ATTR_REQUIRED;
    if (*k & HL_ATTR_REQUIRED && !parse_was_seen(inst, key) && *hl_attr_info[key].text)
      return missing_attr(p, inst, hl_attr_info[key].text);
  }
  return true;
}

bool parse_attributes(Parser *p, ParseInst *inst, bool allowed) {
  if (inst->direction >= 0) {
    parse_add_attr(inst, &(HlAttr){.key = HL_A_DIRECTION, .i = inst->direction});
    inst->seen[HL_A_DIRECTION >> 6] |= 1ull << (HL_A_DIRECTION & 63);
  }
  while (allowed && lex_eat(&p->in, ','))
    if (!read_attribute(p, inst))
      return false;
  const HlOp op = inst->op;
  if (op == HL_OP_ASYNC_START)
    return inst->wrapped < HL_OP_COUNT
               ? check_required(p, inst, inst->wrapped)
               : parse_was_seen(inst, HL_A_CALLS) || missing_attr(p, inst, "calls");
  return check_required(p, inst, op);
}

// --- Instructions --------------------------------------------------------------------------------

static void release_literals(ParseInst *inst) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key == HL_A_VALUE || inst->attrs[k].key == HL_A_LITERAL)
      hl_literal_unref((HlLiteral *)(uintptr_t)inst->attrs[k].ptr);
}

static const HlSym *anonymous_name(Parser *p, HlOp op) {
  for (;;) {
    HlBuf text = {0};
    hl_buf_printf(&text, "%s.anon", hl_op_text(op));
    if (p->anon[op])
      hl_buf_printf(&text, ".%d", p->anon[op]);
    p->anon[op]++;
    const HlSym *name = hl_sym(p->m, text.at);
    hl_buf_free(&text);
    if (!(parse_def(p, name)->bits & PARSE_DEF_EVER))
      return name;
  }
}

static bool read_head(Parser *p, ParseInst *inst) {
  inst->shape = NULL;
  if (parse_at_shape(p) && !parse_shape(p, &inst->shape))
    return false;
  if (!read_opcode(p, inst))
    return false;
  if (!inst->shape && (hl_op_info[inst->op].traits & (HL_T_WRITTEN | HL_T_COLLECTIVE) ||
                       inst->op == HL_OP_OPT_BARRIER))
    return parse_error(p, inst->op_at, "cannot infer shape for opcode: %s", hl_op_text(inst->op));
  return true;
}

static bool read_arguments(Parser *p, ParseInst *inst, bool attributes) {
  if (!parse_arguments(p, inst))
    return false;
  if (hl_op_half((HlOp)inst->op) == HL_HALF_DONE && !inst->poisoned)
    find_done(p, inst);
  if (hl_op_info[inst->op].traits & HL_T_ASYNC && !inst->poisoned && !parse_async_operands(p, inst))
    return false;
  return parse_attributes(p, inst, attributes) && (inst->poisoned || parse_check_op(p, inst));
}

static bool read_rhs(Parser *p, ParseInst *inst, HlInst **out) {
  const bool nested = !inst->name;
  *out = NULL;
  inst->n_attrs = inst->n_comps = inst->n_preds = inst->n_ops = inst->n_extra = 0;
  inst->single_comp[0] = inst->single_comp[1] = NULL;
  inst->seen[0] = inst->seen[1] = 0;
  inst->poisoned = false;
  inst->done = NULL;
  inst->ops = p->ptrs.n;
  if (!read_head(p, inst) || !parse_count(p, inst->name_at) || !read_arguments(p, inst, !nested))
    return false;
  if (nested)
    inst->name = anonymous_name(p, inst->op);
  if (inst->poisoned)
    return !nested || parse_define(p, inst->name, inst->name_at, NULL);
  if (hl_op_info[inst->op].traits & HL_T_ASYNC)
    return parse_async(p, inst, out);
  // parse_build pushes onto the stack on which the operands lie: it may not move meanwhile.
  parse_reserve_ptrs(p, inst->n_ops + inst->n_comps + 2);
  *out = parse_build(p, inst, p->scope->comp, (HlInst *const *)(void *)(p->ptrs.at + inst->ops));
  if (HL_UNLIKELY(inst->done && *out))
    *out = parse_old_result(p, inst, *out);
  return *out != NULL;
}

bool parse_rhs(Parser *p, const HlSym *name, const char *name_at, HlInst **out) {
  if (!parse_deeper(p))
    return false;
  const int base = p->ptrs.n;
  ParseInst inst;
  inst.name = name;
  inst.name_at = name_at;
  inst.n_attrs = 0;
  bool ok = read_rhs(p, &inst, out);
  if (ok && *out) {
    for (int k = 0; k < inst.n_preds; k++)
      hl_add_control((HlInst *)(uintptr_t)p->ptrs.at[inst.preds + k], *out);
    if (!name)
      ok = parse_define(p, inst.name, name_at, *out);
  }
  release_literals(&inst);
  p->ptrs.n = base;
  p->depth--;
  return ok;
}

static bool define_root(Parser *p, const char *at, bool is_root, HlInst *inst) {
  if (!is_root)
    return true;
  if (p->scope->root_seen)
    return parse_error(p, at, "one computation should have only one ROOT");
  p->scope->root_seen = true;
  p->scope->root = inst;
  return true;
}

bool parse_instruction(Parser *p) {
  const char *at = p->in.at;
  const bool is_root = *at == 'R' && lex_eat_word(&p->in, "ROOT");
  const char *name_at = p->in.at;
  const HlSym *name;
  if (!parse_name(p, &name, "an instruction's name") ||
      !lex_need(&p->in, '=', "after the instruction's name")) {
    if (p->single)
      hl_hint(p->cx, "HLO text starts with 'HloModule NAME', unless it is a single instruction");
    return false;
  }
  HlInst *inst = NULL;
  bool ok = parse_rhs(p, name, name_at, &inst);
  ok = parse_name_is_legal(p, name, name_at) && ok;
  ok = parse_define(p, name, name_at, inst) && ok;
  // An instruction that failed in silence, because an operand did, fails its computation too.
  p->scope->failed |= !inst;
  return define_root(p, at, is_root, inst) && ok;
}

bool parse_single_instruction(Parser *p) {
  ParseScope scope;
  HlComp *comp = hl_comp_new(p->m, "_", 1);
  hl_comp_set_entry(comp);
  hl_comp_set_loc(comp, lex_pos(&p->in, p->in.at).loc);
  parse_begin_scope(p, &scope, comp);
  bool ok;
  if (parse_at_shape(p)) {
    HlInst *inst;
    ok = parse_rhs(p, hl_sym(p->m, "_"), p->in.at, &inst);
  } else {
    ok = parse_instruction(p);
  }
  parse_end_scope(p);
  if (ok && !lex_at_end(&p->in)) {
    lex_expected(&p->in, "nothing more after a single instruction");
    hl_hint(p->cx, "a module starts with 'HloModule NAME'");
    return false;
  }
  if (ok)
    hl_set_root(comp, comp->last);
  return ok;
}
