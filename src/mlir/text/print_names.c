// Names the values of a program as MLIR's printer does: %0, %arg1, %c_2, %iterArg.
//
// Values are numbered region by region. A region goes on counting where the one around it ended, so that regions side
// by side use the same numbers; in the generic form, which has no words for names, they do not: there the counters
// run through, innermost and last regions first. A word that is taken where it would be seen gets _N, where N counts
// such conflicts.
#include "mlir/text/print.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/vec.h"

typedef enum NameKind { NAME_NONE, NAME_NUMBER, NAME_ARG, NAME_WORD } NameKind;

typedef struct ValueName {
  uint32_t kind : 2;
  uint32_t n : 30;  // the number; of a WORD: an entry of `words`
} ValueName;

typedef struct WordName {
  const HlSym *word;
  int conflict;  // -1: none
} WordName;

struct PrNames {
  ValueName *of;  // by value
  uint32_t n_values;
  VEC(WordName) words;
  HlArena *arena;
  HlSyms *syms;          // of words
  VEC(uint32_t) n_used;  // by word: how often it is taken in the regions around
};

typedef struct Counters {
  uint32_t value, arg, conflict;
} Counters;

typedef struct Task {
  const HlMlRegion *region;
  Counters start;  // where the region around it ended
  int n_seen;      // words taken around it
} Task;

typedef struct Naming {
  PrNames *names;
  bool generic;
  Counters at;
  VEC(Task) stack;
  VEC(const HlSym *) seen;  // words taken, innermost last
} Naming;

static void name_number(Naming *n, const HlMlValue *value) {
  n->names->of[value->index] = (ValueName){NAME_NUMBER, n->at.value++ & 0x3fffffff};
}

static bool take(Naming *n, const HlSym *word) {
  PrNames *names = n->names;
  if (word->index == (uint32_t)names->n_used.n)
    vec_push(&names->n_used, 0);
  vec_push(&n->seen, word);
  return names->n_used.at[word->index]++ == 0;
}

static void name_word(Naming *n, const HlMlValue *value, const char *text, size_t length) {
  PrNames *names = n->names;
  const HlSym *word = hl_syms_add(names->syms, text, length);
  const WordName name = {word, take(n, word) ? -1 : (int)n->at.conflict++};
  names->of[value->index] = (ValueName){NAME_WORD, (uint32_t)names->words.n & 0x3fffffff};
  vec_push(&names->words, name);
}

// --- What ops call their results and arguments -----------------------------------------------------------

// arith.constant: %true, %c5_i32, %c0 (of an index), %cst.
static void name_arith(Naming *n, const HlMlOp *op) {
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  const HlMlType *type = op->results[0].type;
  char text[64] = "cst";
  int length = 3;
  if (value && (value->kind == HL_ML_A_BOOL || (value->kind == HL_ML_A_INT && type->width == 1)))
    length = snprintf(text, sizeof text, "%s", value->i ? "true" : "false");
  else if (value && value->kind == HL_ML_A_INT && type->kind == HL_ML_INDEX)
    length = snprintf(text, sizeof text, "c%lld", (long long)value->i);
  else if (value && value->kind == HL_ML_A_INT && type->kind == HL_ML_INT)
    length = snprintf(text, sizeof text, "c%lld_%s%d", (long long)value->i,
                      type->sign == HL_ML_SIGNLESS ? "i"
                      : type->sign == HL_ML_SIGNED ? "si"
                                                   : "ui",
                      type->width);
  name_word(n, &op->results[0], text, (size_t)length);
}

static bool is_row(const HlMlOp *op, int row) {
  return op->row == row;
}

// An op with results of several names gives them to them.
static void name_by_row(Naming *n, const HlMlOp *op) {
  const char *word = ml_row_of(op)->results;
  if (!strchr(word, ' ') || strchr(word, '*'))
    return;
  for (uint32_t k = 0; k < op->n_results && *word; k++) {
    size_t length = strcspn(word, " ");
    name_word(n, &op->results[k], word, length);
    word += word[length] ? length + 1 : length;
  }
}

static void name_results(Naming *n, const HlMlOp *op) {
  if (!n->generic) {
    if (is_row(op, ML_STABLEHLO_CONSTANT) && op->dialect == HL_ML_STABLEHLO) {
      bool is_int = hl_ml_element(op->results[0].type)->kind == HL_ML_INT;
      name_word(n, &op->results[0], is_int ? "c" : "cst", is_int ? 1 : 3);
    } else if (is_row(op, ML_ARITH_CONSTANT)) {
      name_arith(n, op);
    } else if (is_row(op, ML_TENSOR_CAST)) {
      name_word(n, &op->results[0], "cast", 4);
    } else if (op->row && op->n_results > 1) {
      name_by_row(n, op);
    }
  }
  if (op->n_results && n->names->of[op->results[0].index].kind == NAME_NONE)
    name_number(n, &op->results[0]);
}

static void name_region_args(Naming *n, const HlMlOp *op, const HlMlBlock *block) {
  if (is_row(op, ML_STABLEHLO_WHILE)) {
    for (int k = 0; k < block->n_args; k++)
      name_word(n, block->args[k], "iterArg", 7);
  } else if (is_row(op, ML_CHLO_SCAN) || is_row(op, ML_MHLO_SCAN)) {
    const HlMlAttr *segments = ml_attr(op, ML_A_OPERAND_SEGMENT_SIZES);
    int64_t n_inputs = segments && segments->kind == HL_ML_A_DENSE_ARRAY && segments->n_elements
                           ? (int64_t) * (const int32_t *)segments->data
                           : (int64_t)op->n_operands / 2;
    for (int k = 0; k < block->n_args; k++)
      name_word(n, block->args[k], k < n_inputs ? "input" : "carry", 5);
  }
}

// --- Regions ------------------------------------------------------------------------------------------------

static void name_block(Naming *n, const HlMlBlock *block, bool is_first) {
  for (int k = 0; k < block->n_args; k++) {
    ValueName *name = &n->names->of[block->args[k]->index];
    if (name->kind != NAME_NONE)
      continue;
    if (is_first)
      *name = (ValueName){NAME_ARG, n->at.arg++ & 0x3fffffff};
    else
      name_number(n, block->args[k]);
  }
  for (const HlMlOp *op = block->first; op; op = op->next)
    name_results(n, op);
}

static void name_region(Naming *n, const HlMlRegion *region) {
  if (!n->generic && region->op && region->first)
    name_region_args(n, region->op, region->first);
  for (const HlMlBlock *block = region->first; block; block = block->next)
    name_block(n, block, block == region->first);
}

static void push_regions(Naming *n, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_regions; k++)
    vec_push(&n->stack, ((Task){&op->regions[k], n->at, n->seen.n}));
}

static void name_all(Naming *n, const HlMlOp *top) {
  name_results(n, top);
  push_regions(n, top);
  while (n->stack.n) {
    const Task task = vec_pop(&n->stack);
    if (!n->generic)
      n->at = task.start;
    while (n->seen.n > task.n_seen)
      n->names->n_used.at[vec_pop(&n->seen)->index]--;
    name_region(n, task.region);
    for (const HlMlBlock *block = task.region->first; block; block = block->next)
      for (const HlMlOp *op = block->first; op; op = op->next)
        push_regions(n, op);
  }
}

PrNames *mlp_names_new(const HlMlTree *tree, const HlMlOp *top, bool generic) {
  PrNames *names = base_alloc(sizeof *names);
  names->of = base_alloc((tree->n_values + (size_t)1) * sizeof *names->of);
  names->n_values = tree->n_values;
  names->arena = hl_arena_new();
  names->syms = hl_syms_new(names->arena);
  Naming n = {.names = names, .generic = generic};
  name_all(&n, top);
  vec_free(&n.stack);
  vec_free(&n.seen);
  return names;
}

void mlp_names_free(PrNames *names) {
  if (!names)
    return;
  base_free(names->of);
  vec_free(&names->words);
  vec_free(&names->n_used);
  hl_arena_free(names->arena);
  base_free(names);
}

// --- Printing them ------------------------------------------------------------------------------------------

static ValueName name_of(const Printer *p, const HlMlValue *value) {
  return value->index < p->names->n_values ? p->names->of[value->index] : (ValueName){NAME_NONE, 0};
}

static void print_name(Printer *p, ValueName name) {
  put_char(p->out, '%');
  if (name.kind == NAME_WORD) {
    const WordName *word = &p->names->words.at[name.n];
    put_sym(p->out, word->word);
    if (word->conflict >= 0) {
      put_char(p->out, '_');
      put_i64(p->out, word->conflict);
    }
    return;
  }
  if (name.kind == NAME_ARG)
    PUT(p->out, "arg");
  put_u64(p->out, name.n);
}

void mlp_value(Printer *p, const HlMlValue *value) {
  if (!p->names) {
    PUT(p->out, "%?");
    return;
  }
  ValueName name = name_of(p, value);
  if (name.kind != NAME_NONE) {
    print_name(p, name);
    bool is_group = value->def && value->def->n_results > 1 &&
                    name_of(p, &value->def->results[1]).kind == NAME_NONE;
    if (is_group)
      PUT(p->out, "#0");
    return;
  }
  if (!value->def || !value->number || name_of(p, &value->def->results[0]).kind == NAME_NONE) {
    PUT(p->out, "<<UNKNOWN SSA VALUE>>");
    return;
  }
  print_name(p, name_of(p, &value->def->results[0]));
  put_char(p->out, '#');
  put_i64(p->out, value->number);
}

void mlp_results(Printer *p, const HlMlOp *op) {
  if (!op->n_results || !p->names)
    return;
  for (uint32_t k = 0; k < op->n_results; k++) {
    ValueName name = name_of(p, &op->results[k]);
    if (name.kind == NAME_NONE)
      continue;
    uint32_t after = k + 1;
    while (after < op->n_results && name_of(p, &op->results[after]).kind == NAME_NONE)
      after++;
    if (k)
      PUT(p->out, ", ");
    print_name(p, name);
    if (after - k > 1) {
      put_char(p->out, ':');
      put_u64(p->out, after - k);
    }
  }
  PUT(p->out, " = ");
}
