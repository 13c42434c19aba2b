// support/memo.c: an interpreter that knows what it has computed before.
//
// Two tables: values by their bits, and what was computed: the text of an instruction behind its name, with the bodies of
// all that it calls, and the values of its operands, which gave a value. Computations that `call` names are walked like the
// entry, one instruction after the other; everything else that calls is one instruction.

#include "support/memo.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "eval/step.h"
#include "hilo/text.h"

typedef struct Value {
  HlLiteral *literal;
  uint64_t hash;
  int64_t run;  // the last one that had it
  bool kept;
} Value;

typedef struct Known {
  uint64_t hash;
  char *text;
  size_t n_text;
  uint32_t n_operands;
  Value **operand;
  Value *value;
  int64_t run;
  bool kept;
} Known;

struct Memo {
  VEC(Value *) values;
  VEC(Known *) known;
  Map value_of, known_of;  // by hash
  HlBuf text;              // of the instruction at work
  int64_t run;
  MemoCounts counts;
};

Memo *memo_new(void) {
  return calloc(1, sizeof(Memo));
}

static void free_value(Value *value) {
  hl_literal_unref(value->literal);
  free(value);
}

static void free_known(Known *known) {
  free(known->text);
  free(known->operand);
  free(known);
}

void memo_free(Memo *memo) {
  if (!memo)
    return;
  for (int k = 0; k < memo->values.n; k++)
    free_value(memo->values.at[k]);
  for (int k = 0; k < memo->known.n; k++)
    free_known(memo->known.at[k]);
  vec_free(&memo->values);
  vec_free(&memo->known);
  map_free(&memo->value_of);
  map_free(&memo->known_of);
  hl_buf_free(&memo->text);
  free(memo);
}

MemoCounts memo_counts(const Memo *memo) {
  return memo->counts;
}

// --- Which modules --------------------------------------------------------------------------------

static bool is_plain(const HlInst *inst) {
  return !hl_has_side_effect(inst) && !hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE) &&
         inst->op != HL_OP_RNG && inst->op != HL_OP_RNG_GET_AND_UPDATE_STATE;
}

bool memo_takes(const HlModule *m) {
  if (hl_eval_devices(m, NULL) != 1)
    return false;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (!is_plain(inst))
        return false;
  return true;
}

// --- The tables -------------------------------------------------------------------------------------

// The value with these bits. Takes the reference.
static Value *value_of(Memo *memo, HlLiteral *literal) {
  const uint64_t hash = hl_literal_hash(literal);
  MapWalk walk = map_walk(&memo->value_of, hash);
  for (Value *value; (value = map_next_ptr(&walk));)
    if (hl_literal_equal(value->literal, literal)) {
      hl_literal_unref(literal);
      value->run = memo->run;
      return value;
    }
  Value *value = calloc(1, sizeof *value);
  *value = (Value){.literal = literal, .hash = hash, .run = memo->run};
  vec_push(&memo->values, value);
  map_add_ptr(&memo->value_of, hash, value);
  return value;
}

// All that decides what the instruction gives, but its operands' values.
static void print(Memo *memo, HlCx *cx, const HlInst *inst) {
  static const HlTextOptions how = {.percent = HL_ON,
                                    .operand_shapes = HL_ON,
                                    .operand_names = HL_ON,
                                    .result_shape = HL_ON,
                                    .layouts = HL_ON,
                                    .large_constants = HL_ON,
                                    .essential_constants = HL_OFF,
                                    .backend_config = HL_ON,
                                    .subcomputation_bodies = HL_ON,
                                    .tuple_elements = HL_OFF,
                                    .metadata = HL_OFF,
                                    .control_predecessors = HL_OFF,
                                    .original_value = HL_OFF,
                                    .frames = HL_OFF};
  memo->text.n = 0;
  hl_text_print_inst(cx, inst, &how, &memo->text);
}

static HlStr text_behind_name(const Memo *memo) {
  const HlBuf *text = &memo->text;
  for (size_t k = 0; k + 3 <= text->n; k++)
    if (memcmp(text->at + k, " = ", 3) == 0)
      return (HlStr){text->at + k, text->n - k};
  return (HlStr){text->at, text->n};
}

static uint64_t hash_of(HlStr text, Value *const *operand, uint32_t n) {
  uint64_t hash = hl_hash_bytes(text.at, text.n, n);
  for (uint32_t k = 0; k < n; k++)
    hash = hl_hash_mix(hash, operand[k]->hash);
  return hash;
}

static Known *find_known(Memo *memo, uint64_t hash, HlStr text, Value *const *operand, uint32_t n) {
  MapWalk walk = map_walk(&memo->known_of, hash);
  for (Known *known; (known = map_next_ptr(&walk));)
    if (known->n_text == text.n && known->n_operands == n &&
        memcmp(known->text, text.at, text.n) == 0 &&
        (n == 0 || memcmp(known->operand, operand, n * sizeof *operand) == 0))
      return known;
  return NULL;
}

static void *copy_of(const void *at, size_t size) {
  void *copy = malloc(size + 1);
  if (size > 0)
    memcpy(copy, at, size);
  return copy;
}

static void note(Memo *memo, uint64_t hash, HlStr text, Value *const *operand, uint32_t n,
                 Value *value) {
  Known *known = calloc(1, sizeof *known);
  *known = (Known){.hash = hash,
                   .text = copy_of(text.at, text.n),
                   .n_text = text.n,
                   .n_operands = n,
                   .operand = copy_of(operand, n * sizeof *operand),
                   .value = value,
                   .run = memo->run};
  vec_push(&memo->known, known);
  map_add_ptr(&memo->known_of, hash, known);
}

// --- Running ------------------------------------------------------------------------------------------

typedef struct Run {
  Memo *memo;
  const HlEvalOptions *options;
  Interp *in;
  HlComp *entry;
  const HlLiteral *const *args;
  HlLiteral *result;
} Run;

static Value *run_comp(Run *r, const HlComp *comp, Value *const *args);

static Value *compute(Run *r, const HlInst *inst, Value *const *operand) {
  if (inst->op == HL_OP_CALL)
    return run_comp(r, hl_called(inst, 0), operand);
  HlLiteral **own = calloc(inst->n_operands + 1, sizeof *own);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    own[k] = hl_literal_ref(operand[k]->literal);
  HlLiteral *out = interp_step(r->in, inst, own);
  free(own);
  return out ? value_of(r->memo, out) : NULL;
}

static Value *run_inst(Run *r, const HlInst *inst, Value *const *operand) {
  Memo *memo = r->memo;
  const uint32_t n = inst->n_operands;
  print(memo, interp_cx(r->in), inst);
  HlStr text = text_behind_name(memo);
  const uint64_t hash = hash_of(text, operand, n);
  Known *known = find_known(memo, hash, text, operand, n);
  memo->counts.n++;
  if (known) {
    known->run = known->value->run = memo->run;
    return known->value;
  }
  memo->counts.n_computed++;
  Value *value = compute(r, inst, operand);
  if (!value)
    return NULL;
  if (inst->op == HL_OP_CALL) {  // others were printed in between
    print(memo, interp_cx(r->in), inst);
    text = text_behind_name(memo);
  }
  note(memo, hash, text, operand, n, value);
  return value;
}

static bool *find_needed(const HlComp *comp) {
  bool *needed = calloc(comp->next_id + 1, 1);
  needed[comp->root->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev)
    for (uint32_t k = 0; needed[inst->id] && k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  return needed;
}

static Value *run_step(Run *r, const HlInst *inst, Value *const *args, Value *const *value_at) {
  if (inst->op == HL_OP_PARAMETER)
    return args[hl_parameter_number(inst)];
  if (inst->op == HL_OP_CONSTANT) {
    HlLiteral *constant = eval_constant(interp_cx(r->in), inst, r->options, false);
    return constant ? value_of(r->memo, constant) : NULL;
  }
  Value **operand = calloc(inst->n_operands + 1, sizeof(Value *));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operand[k] = value_at[inst->operands[k]->id];
  Value *value = run_inst(r, inst, operand);
  free(operand);
  return value;
}

static Value *run_comp(Run *r, const HlComp *comp, Value *const *args) {
  bool *needed = find_needed(comp);
  Value **value_at = calloc(comp->next_id + 1, sizeof(Value *));
  bool ok = true;
  for (const HlInst *inst = comp->first; ok && inst; inst = inst->next)
    if (needed[inst->id]) {
      value_at[inst->id] = run_step(r, inst, args, value_at);
      ok = value_at[inst->id] != NULL;
    }
  Value *root = ok ? value_at[comp->root->id] : NULL;
  free(needed);
  free(value_at);
  return root;
}

static bool run_entry(Interp *in, void *user) {
  Run *r = user;
  r->in = in;
  const int n = r->entry->n_params;
  Value **args = calloc((size_t)n + 1, sizeof *args);
  for (int k = 0; k < n; k++)
    args[k] = value_of(r->memo, hl_literal_ref(r->args[k]));
  const Value *root = run_comp(r, r->entry, args);
  free(args);
  if (root)
    r->result = hl_literal_ref(root->literal);
  return root != NULL;
}

HlLiteral *memo_run(Memo *memo, HlCx *cx, const HlModule *m, const HlEvalOptions *options,
                    const HlLiteral *const *args) {
  Run r = {.memo = memo, .options = options, .entry = m->entry, .args = args};
  memo->run++;
  if (!interp_check_arguments(cx, m, options, &args) ||
      !interp_run_devices(cx, m, options, run_entry, &r))
    return NULL;
  return r.result;
}

// --- Forgetting ----------------------------------------------------------------------------------------

// What is known is kept with its operands and its value: a run that looks it up has had all of them.
void memo_keep(Memo *memo) {
  for (int k = 0; k < memo->values.n; k++)
    memo->values.at[k]->kept = memo->values.at[k]->run == memo->run;
  for (int k = 0; k < memo->known.n; k++)
    memo->known.at[k]->kept = memo->known.at[k]->run == memo->run;
  memo_trim(memo);
}

void memo_trim(Memo *memo) {
  map_free(&memo->known_of);
  map_free(&memo->value_of);
  memo->known_of = memo->value_of = (Map){0};
  int n = 0;
  for (int k = 0; k < memo->known.n; k++) {
    Known *known = memo->known.at[k];
    if (!known->kept) {
      free_known(known);
      continue;
    }
    memo->known.at[n++] = known;
    map_add_ptr(&memo->known_of, known->hash, known);
  }
  memo->known.n = n;
  n = 0;
  for (int k = 0; k < memo->values.n; k++) {
    Value *value = memo->values.at[k];
    if (!value->kept) {
      free_value(value);
      continue;
    }
    memo->values.at[n++] = value;
    map_add_ptr(&memo->value_of, value->hash, value);
  }
  memo->values.n = n;
}
