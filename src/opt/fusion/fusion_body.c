// opt/fusion/fusion_body.c: fusions are made and grow: producers, users and further results join the body.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "hilo/edit.h"
#include "opt/fusion/fusion.h"

int fusion_operand_index(const HlInst *fusion, const HlInst *operand) {
  for (uint32_t k = 0; k < fusion->n_operands; k++)
    if (fusion->operands[k] == operand)
      return (int)k;
  return -1;
}

typedef struct ParamName {
  char text[32];
} ParamName;

static ParamName param_name(int number) {
  ParamName name;
  HlBuf text = {.at = name.text, .capacity = sizeof name.text};
  PUT_HOT(&text, "param_");
  put_i64(&text, number);
  put_end(&text);
  return name;
}

static HlInst *new_param(HlComp *body, int number, const HlShape *shape) {
  const HlSym *name = hl_fresh_name(body->module, param_name(number).text);
  return hl_parameter_new(body, number, shape, name);
}

// --- Operands -----------------------------------------------------------------------------------

// The operands of a fusion while it changes, with the parameter of each.
typedef struct Args {
  HlInst **outer, **param;
  int n, capacity;
  HlArena *scratch;
  HlComp *body;
} Args;

static void args_reserve(Args *args, int more) {
  if (args->n + more <= args->capacity)
    return;
  int capacity = args->n + more;
  HlInst **outer = HL_ARRAY(args->scratch, HlInst *, capacity);
  HlInst **param = HL_ARRAY(args->scratch, HlInst *, capacity);
  if (args->n > 0) {
    memcpy(outer, args->outer, sizeof *outer * (size_t)args->n);
    memcpy(param, args->param, sizeof *param * (size_t)args->n);
  }
  args->outer = outer;
  args->param = param;
  args->capacity = capacity;
}

bool fusion_own_body(HlInst *fusion) {
  HlComp *body = fusion_body(fusion);
  if (body->first_call == body->last_call)
    return false;
  HlComp *copy = hl_comp_copy(body->module, body, "clone", false, NULL);
  hl_set_calls(fusion, 1, &copy);
  return true;
}

static Args args_of(HlArena *scratch, HlInst *fusion, int more) {
  fusion_own_body(fusion);
  Args args = {.scratch = scratch, .body = fusion_body(fusion)};
  args_reserve(&args, (int)fusion->n_operands + more);
  args.n = (int)fusion->n_operands;
  for (int k = 0; k < args.n; k++) {
    args.outer[k] = fusion->operands[k];
    args.param[k] = args.body->params[k];
  }
  return args;
}

// The parameter for an outer value, a new one if there is none yet.
static HlInst *args_param(Args *args, HlInst *outer) {
  for (int k = 0; k < args->n; k++)
    if (args->outer[k] == outer)
      return args->param[k];
  args_reserve(args, args->n + 1);
  args->outer[args->n] = outer;
  args->param[args->n] = new_param(args->body, args->n, outer->shape);
  return args->param[args->n++];
}

// Takes out an operand whose parameter is not used any more. The numbers after it move down.
static void args_drop(Args *args, int at) {
  hl_parameter_drop(args->param[at]);
  args->n--;
  for (int k = at; k < args->n; k++) {
    args->outer[k] = args->outer[k + 1];
    args->param[k] = args->param[k + 1];
  }
}

// --- Wrapping -----------------------------------------------------------------------------------

typedef struct Place {
  HlInst *inst;
  int number;
} Place;

static int by_inst(const void *a, const void *b) {
  const Place *x = a, *y = b;
  if (x->inst->id != y->inst->id)
    return x->inst->id < y->inst->id ? -1 : 1;
  return x->number - y->number;
}

// For each operand the number of the first operand that is the same.
static int *first_places(HlArena *scratch, const HlInst *inst) {
  int n = (int)inst->n_operands;
  Place *places = HL_ARRAY(scratch, Place, n + 1);
  int *first = HL_ARRAY(scratch, int, n + 1);
  for (int k = 0; k < n; k++)
    places[k] = (Place){inst->operands[k], k};
  qsort(places, (size_t)n, sizeof *places, by_inst);
  for (int k = 0; k < n; k++) {
    bool is_first = k == 0 || places[k].inst != places[k - 1].inst;
    first[places[k].number] = is_first ? places[k].number : first[places[k - 1].number];
  }
  return first;
}

static HlComp *new_body(const HlInst *inst, const char *name) {
  HlModule *m = inst->comp->module;
  const HlSym *sym = hl_fresh_comp_name(m, name);
  HlComp *body = hl_comp_new(m, sym->text, sym->n);
  hl_comp_set_fusion(body);
  hl_comp_set_thread(body, inst->comp->execution_thread);
  return body;
}

HlInst *fusion_wrap(HlArena *scratch, HlInst *inst, int kind, const char *name,
                    const char *body_name) {
  HlMark mark = hl_arena_mark(scratch);
  HlComp *body = new_body(inst, body_name);
  int n = (int)inst->n_operands;
  const int *first = first_places(scratch, inst);
  HlInst **outer = HL_ARRAY(scratch, HlInst *, n + 1);
  HlInst **inner = HL_ARRAY(scratch, HlInst *, n + 1);
  int n_outer = 0;
  for (int k = 0; k < n; k++) {
    if (first[k] == k) {
      inner[k] = new_param(body, n_outer, inst->operands[k]->shape);
      outer[n_outer++] = inst->operands[k];
    } else {
      inner[k] = inner[first[k]];
    }
  }
  hl_set_root(body, hl_inst_copy(body, inst, NULL, n, inner));
  const HlSym *sym = hl_fresh_name(inst->comp->module, name);
  HlInst *fusion = hl_inst_new(inst->comp, HL_OP_FUSION, inst->shape, sym, n_outer, outer);
  hl_set_int(fusion, HL_A_KIND, kind);
  hl_set_calls(fusion, 1, &body);
  hl_inherit(fusion, inst);
  hl_replace_uses(inst, fusion);
  hl_erase(inst);
  hl_arena_release(scratch, mark);
  return fusion;
}

// --- Producers ----------------------------------------------------------------------------------

static HlInst *copy_inst(Args *args, HlInst *inst) {
  HlInst **inner = HL_ARRAY(args->scratch, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    inner[k] = args_param(args, inst->operands[k]);
  return hl_inst_copy(args->body, inst, NULL, (int)inst->n_operands, inner);
}

// As if its instructions went in one by one, from the root up: what the first of them reads is the first new operand.
static HlInst *copy_fusion(Args *args, HlInst *fusion) {
  const HlComp *body = fusion_body(fusion);
  HlInst **inner = HL_ARRAY(args->scratch, HlInst *, fusion->n_operands + 1);
  HlInst **order = hl_post_order(args->scratch, body);
  for (int i = (int)body->n_insts - 1; i >= 0; i--)
    for (uint32_t k = 0; k < order[i]->n_operands; k++)
      if (order[i]->operands[k]->op == HL_OP_PARAMETER) {
        const int64_t number = hl_parameter_number(order[i]->operands[k]);
        inner[number] = args_param(args, fusion->operands[number]);
      }
  for (uint32_t k = 0; k < fusion->n_operands; k++)
    if (!inner[k])
      inner[k] = args_param(args, fusion->operands[k]);
  return hl_graft(args->body, body, (int)fusion->n_operands, inner, NULL);
}

HlInst *fusion_fuse(HlArena *scratch, HlInst *fusion, HlInst *producer) {
  HlMark mark = hl_arena_mark(scratch);
  int at = fusion_operand_index(fusion, producer);
  assert(at >= 0);
  Args args = args_of(scratch, fusion, (int)producer->n_operands);
  HlInst *copy =
      producer->op == HL_OP_FUSION ? copy_fusion(&args, producer) : copy_inst(&args, producer);
  hl_replace_uses(args.param[at], copy);
  args_drop(&args, at);
  hl_set_operands(fusion, args.n, args.outer);
  hl_arena_release(scratch, mark);
  return copy;
}

void fusion_replace_operand(HlArena *scratch, HlInst *fusion, const HlInst *operand, HlInst *by) {
  for (int at; (at = fusion_operand_index(fusion, operand)) >= 0;) {
    const HlMark mark = hl_arena_mark(scratch);
    Args args = args_of(scratch, fusion, 0);
    hl_replace_uses(args.param[at], by);
    args_drop(&args, at);
    hl_set_operands(fusion, args.n, args.outer);
    hl_arena_release(scratch, mark);
  }
}

HlInst *fusion_take_in(HlArena *scratch, HlInst *fusion, HlInst *inst) {
  HlMark mark = hl_arena_mark(scratch);
  Args args = args_of(scratch, fusion, (int)inst->n_operands);
  HlInst *copy = inst->op == HL_OP_FUSION ? copy_fusion(&args, inst) : copy_inst(&args, inst);
  hl_set_operands(fusion, args.n, args.outer);
  hl_arena_release(scratch, mark);
  return copy;
}

// --- Users --------------------------------------------------------------------------------------

HlInst *fusion_fuse_user(HlArena *scratch, HlInst *fusion, HlInst *user) {
  HlMark mark = hl_arena_mark(scratch);
  Args args = args_of(scratch, fusion, (int)user->n_operands);
  HlInst **inner = HL_ARRAY(scratch, HlInst *, user->n_operands + 1);
  for (uint32_t k = 0; k < user->n_operands; k++)
    inner[k] = user->operands[k] == fusion ? args.body->root : args_param(&args, user->operands[k]);
  hl_set_root(args.body, hl_inst_copy(args.body, user, NULL, (int)user->n_operands, inner));
  const HlSym *name = hl_fresh_name(fusion->comp->module, fusion->name->text);
  HlInst *grown = hl_inst_new(fusion->comp, HL_OP_FUSION, user->shape, name, args.n, args.outer);
  hl_copy_attrs(grown, fusion);
  hl_set_calls(grown, 1, &args.body);
  hl_inherit(grown, user);
  hl_replace_uses(user, grown);
  hl_erase(user);
  hl_erase(fusion);
  hl_arena_release(scratch, mark);
  return grown;
}

// --- Erasing ------------------------------------------------------------------------------------

void fusion_erase(HlInst *inst) {
  HlComp *body = inst->op == HL_OP_FUSION ? fusion_body(inst) : NULL;
  hl_erase(inst);
  if (body && !body->first_call)
    hl_comp_erase(body);
}

// --- Names --------------------------------------------------------------------------------------

// `wish`, or that with a number.
static bool is_named(const HlInst *param, const char *wish) {
  const size_t n = strlen(wish);
  const char *text = param->name->text;
  return strncmp(text, wish, n) == 0 && (text[n] == '\0' || text[n] == '.');
}

void fusion_name_params(HlInst *fusion) {
  HlComp *body = fusion_body(fusion);
  for (int k = 0; k < body->n_params; k++) {
    const ParamName wish = param_name(k);
    if (body->params[k] && !is_named(body->params[k], wish.text))
      hl_set_name(body->params[k], hl_fresh_name(body->module, wish.text));
  }
}
