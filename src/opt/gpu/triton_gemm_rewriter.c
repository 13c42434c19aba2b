// opt/gpu/triton_gemm_rewriter.c
//
// triton-gemm-rewriter: for GPUs: a dot becomes one kernel of Triton's with what computes its operands and what is done
// with its result.
//
//   c = bf16[64,32] convert(x)                     f = f32[64,128] fusion(x, y, v), kind=kCustom, calls={
//   d = f32[64,128] dot(c, y)                =>      c = convert(x), d = dot(c, y),
//   r = f32[64,128] add(d, broadcast(v))             ROOT r = add(d, broadcast(v)) }, "kind":"__triton_gemm"
//
// A dot with fewer than 100 numbers on both sides is left to other emitters. It must sum over one dimension, have one free
// one on each side, and at most one of batches, or two where its sum was cut into parts (splitk-rewriter).
//
// What joins is found by walking up from each operand, breadth first, and down from the result by single users, while the
// blocks of a tile stay blocks (triton_dims.h). A side reads at most four arrays. What joins before the dot must not make
// the kernel read more, by more than a KiB, than it would read of the result, unless nobody else reads the operands, or one
// of them is a repeated parameter or constant. What joins behind it may read parameters, repeated parameters and repeated
// numbers besides, and must not write more, by more than a KiB, than it reads.

#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "ir/vecs.h"
#include "opt/ask/dots.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/gpu/triton.h"
#include "opt/gpu/triton_dims.h"
#include "opt/passes.h"

enum { MAX_INPUTS = 4, TOLERANCE = 1024, MOST_BATCHES = 2 };

// --- What may join --------------------------------------------------------------------------------

static bool has_place(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) && !hl_shape_is_dynamic(inst->shape) &&
         ((triton_has_type(inst) && inst->shape->dtype != HL_S64) ||
          triton_is_narrow(inst->shape->dtype));
}

static bool is_plain(const HlInst *inst) {
  return !hl_has_control(inst) && has_place(inst);
}

static bool is_supported(const HlInst *inst) {
  if (!is_plain(inst))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!has_place(inst->operands[k]))
      return false;
  switch (inst->op) {
  case HL_OP_CONSTANT: return hl_shape_is_scalar(inst->shape);
  case HL_OP_BROADCAST:
  case HL_OP_CONCATENATE:
  case HL_OP_CONVERT:
  case HL_OP_COPY:
  case HL_OP_SLICE:
  case HL_OP_TRANSPOSE: return true;
  default: return hl_op_is((HlOp)inst->op, HL_T_VIEW) || triton_is_elementwise(inst);
  }
}

// Bytes read less bytes made.
static double growth(const HlInst *inst) {
  double n = -triton_bytes(inst->shape);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += triton_bytes(inst->operands[k]->shape);
  return n;
}

static bool is_given(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT;
}

static bool is_effective_parameter(const HlInst *inst) {
  while (inst->op == HL_OP_BITCAST)
    inst = inst->operands[0];
  return inst->op == HL_OP_PARAMETER ||
         (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0]->op == HL_OP_PARAMETER);
}

static bool reads_only_given(const HlInst *inst, bool alone) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_given(inst->operands[k]) || (alone && !hl_one_user(inst->operands[k])))
      return false;
  return true;
}

static bool is_worth_reading(const HlInst *inst) {
  return growth(inst) <= TOLERANCE ||
         (hl_one_user(inst) && (reads_only_given(inst, true) ||
                                (inst->op == HL_OP_SLICE && reads_only_given(inst, false))));
}

// What reads more than it makes may still join where one operand is a repeated value that joins as well.
static bool has_repeated(HlArena *arena, const HlInst *inst, const TritonDims *dims,
                         TritonSplit split) {
  if (inst->n_operands != 2 || !triton_is_elementwise(inst))
    return false;
  for (int k = 0; k < 2; k++) {
    const HlInst *x = inst->operands[k];
    TritonDims out;
    if (x->op == HL_OP_BROADCAST && is_given(x->operands[0]) && is_supported(x) &&
        is_worth_reading(x) && triton_dims_up(arena, x, &dims[k], &split, &out))
      return true;
  }
  return false;
}

static bool ends_here(const HlInst *inst) {
  const HlInst *root = inst->comp->root;
  return inst == root ||
         (hl_one_user(inst) && inst->first_use->user == root && root->op == HL_OP_TUPLE);
}

static bool may_join_result(const HlInst *user, const HlInst *made) {
  if (!is_supported(user))
    return false;
  bool is_source = true;
  for (uint32_t k = 0; k < user->n_operands; k++) {
    const HlInst *x = user->operands[k];
    if (x == made && is_source)
      is_source = false;
    else if (!is_effective_parameter(x) &&
             !(x->op == HL_OP_BROADCAST && (hl_shape_is_scalar(x->operands[0]->shape) ||
                                            is_effective_parameter(x->operands[0]))))
      return false;
  }
  return ends_here(user) || growth(user) >= -TOLERANCE;
}

// --- Plans ----------------------------------------------------------------------------------------

// What is computed from what: node 0 needs the others. An instruction that is walked in two ways stands there twice.
typedef struct Node {
  HlInst *inst;
  TritonDims dims;
  bool joins;
  int *needs;  // nodes, of those that join
  HlInst *copy;
} Node;
typedef VEC(Node) Tree;
typedef VEC(int) Queue;

// A user that joins behind the dot, with what each of its operands is computed from (nothing: what was made so far).
typedef struct Step {
  HlInst *user;
  Tree *other;
} Step;

typedef struct Plan {
  Tree side[2];
  VEC(Step) steps;
} Plan;

static int find_node(HlArena *arena, const Tree *tree, const HlInst *inst, const TritonDims *dims) {
  for (int k = 0; k < tree->n; k++)
    if (tree->at[k].inst == inst && triton_dims_equal(arena, &tree->at[k].dims, dims))
      return k;
  return -1;
}

static int add_node(HlArena *arena, Tree *tree, HlInst *inst, const TritonDims *dims) {
  vec_push_in(arena, tree, ((Node){.inst = inst, .dims = *dims}));
  return tree->n - 1;
}

// How many inputs more there are once it has joined.
static int n_added(const HlInst *inst) {
  const bool is_input = inst->op == HL_OP_PARAMETER ||
                        (inst->op == HL_OP_CONSTANT && !hl_shape_is_scalar(inst->shape));
  return is_input ? 0 : (int)inst->n_operands - 1;
}

static bool walks_up(HlArena *arena, const Node *node, TritonSplit *split, TritonDims *out) {
  const HlInst *inst = node->inst;
  if (inst->op == HL_OP_PARAMETER || !is_supported(inst))
    return false;
  TritonSplit after = *split;
  if (!triton_dims_up(arena, inst, &node->dims, &after, out) ||
      (!is_worth_reading(inst) && !has_repeated(arena, inst, out, *split)))
    return false;
  *split = after;
  return true;
}

// Grows the tree from node 0 up to `most` inputs. What would be too many waits: others may make room.
static void grow(HlArena *arena, Tree *tree, int most, TritonSplit *split) {
  Queue queue = {0};
  vec_push_in(arena, &queue, 0);
  int n_inputs = 1, n_waiting = 0;
  for (int next = 0; queue.n - next > n_waiting; next++) {
    const int at = queue.at[next];
    HlInst *inst = tree->at[at].inst;
    if (n_inputs + n_added(inst) > most) {
      vec_push_in(arena, &queue, at);
      n_waiting++;
      continue;
    }
    n_waiting = 0;
    TritonDims *out = HL_ARRAY(arena, TritonDims, inst->n_operands + 1);
    if (!walks_up(arena, &tree->at[at], split, out))
      continue;
    n_inputs--;
    int *needs = HL_ARRAY(arena, int, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      needs[k] = find_node(arena, tree, inst->operands[k], &out[k]);
      if (needs[k] >= 0)
        continue;
      needs[k] = add_node(arena, tree, inst->operands[k], &out[k]);
      vec_push_in(arena, &queue, needs[k]);
      n_inputs++;
    }
    tree->at[at].joins = true;
    tree->at[at].needs = needs;
  }
}

// A left side without batches may have its free dimension in two places; the result then has it in the same two.
static TritonSplit plan_side(HlArena *arena, Plan *plan, const HlInst *dot, const DotDims *d,
                             int side) {
  HlInst *x = dot->operands[side];
  const int free = (int)d->free[side].at[0];
  TritonSplit split = {.dim = side == 0 && d->batch[0].n == 0 ? free : -1, .free = free};
  const TritonDims dims = triton_dims_of(arena, x->shape);
  add_node(arena, &plan->side[side], x, &dims);
  grow(arena, &plan->side[side], MAX_INPUTS, &split);
  return split;
}

static void plan_result(HlArena *arena, Plan *plan, HlInst *dot, int64_t major) {
  TritonSplit split = {.dim = major > 1 ? 0 : -1, .major = major, .free = -1};
  TritonDims dims = triton_dims_of(arena, dot->shape);
  HlInst *made = dot;
  while (hl_one_user(made)) {
    HlInst *user = made->first_use->user;
    TritonDims below, *up = HL_ARRAY(arena, TritonDims, user->n_operands + 1);
    if (!may_join_result(user, made) || !triton_dims_down(arena, user, &dims, &split, &below) ||
        (user->n_operands > 1 && !triton_dims_up(arena, user, &below, &split, up)))
      return;
    Step step = {user, HL_ARRAY(arena, Tree, user->n_operands + 1)};
    for (uint32_t k = 0; k < user->n_operands; k++)
      if (user->operands[k] != made) {
        add_node(arena, &step.other[k], user->operands[k], &up[k]);
        grow(arena, &step.other[k], INT32_MAX / 2, &split);
      }
    vec_push_in(arena, &plan->steps, step);
    made = user;
    dims = below;
  }
}

// --- Dots -----------------------------------------------------------------------------------------

static bool is_wide(HlDtype t) {
  return t == HL_F16 || t == HL_BF16 || t == HL_F32 || t == HL_F64;
}

static bool is_f8(HlDtype t) {
  return t == HL_F8E4M3FN || t == HL_F8E5M2;
}

static bool has_factors(HlDtype made, HlDtype x, HlDtype y) {
  if (made == HL_S32)
    return x == HL_S8 && y == HL_S8;
  return is_wide(made) && ((is_wide(x) && x == y) || (is_f8(x) && is_f8(y)));
}

static bool is_one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (strcmp(word, *list) == 0)
      return true;
  return false;
}

// Whether the dot names an algorithm, and Triton writes it out.
static bool names_algorithm(const HlInst *dot, bool *is_known) {
  static const char *const known[] = {
      "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_bf16_bf16_f32_x9",
      "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32",      NULL};
  const char *word =
      hl_enum_text(&hl_enums[HL_ENUM_dot_algorithm], hl_attr_int(dot, HL_A_ALGORITHM));
  *is_known = word && is_one_of(word, known);
  return word && strcmp(word, "unset") != 0;
}

static bool is_for_triton(const HlInst *dot, const DotDims *d) {
  const HlInst *x = dot->operands[0], *y = dot->operands[1];
  if (!is_plain(dot) || !has_place(x) || !has_place(y) ||
      !has_factors(dot->shape->dtype, x->shape->dtype, y->shape->dtype))
    return false;
  for (int k = 0; k < 2; k++)
    if (d->contract[k].n != 1 || d->free[k].n != 1 || d->batch[k].n > MOST_BATCHES)
      return false;
  bool is_known;
  return !names_algorithm(dot, &is_known) || is_known;
}

// Nothing that the library would not do as well.
static bool is_alone(const Plan *plan) {
  for (int s = 0; s < 2; s++)
    for (int k = 0; k < plan->side[s].n; k++)
      if (plan->side[s].at[k].joins && !hl_op_is((HlOp)plan->side[s].at[k].inst->op, HL_T_VIEW))
        return false;
  for (int k = 0; k < plan->steps.n; k++)
    if (!hl_op_is((HlOp)plan->steps.at[k].user->op, HL_T_VIEW))
      return false;
  return true;
}

// --- Fusions --------------------------------------------------------------------------------------

typedef struct Made {
  HlArena *arena;
  HlComp *body;
  InstVec inputs;
} Made;

static HlInst *input(Made *made, HlInst *inst) {
  const char *name = hl_arena_printf(made->arena, "parameter_%d", made->inputs.n);
  HlInst *param = hl_parameter_new(made->body, made->inputs.n, inst->shape,
                                   hl_fresh_name(made->body->module, name));
  vec_push_in(made->arena, &made->inputs, inst);
  return param;
}

// Copies node 0, operands first; inputs are numbered as they are met.
static HlInst *copy_tree(Made *made, Tree *tree) {
  Queue todo = {0};
  vec_push_in(made->arena, &todo, 0);
  while (todo.n > 0) {
    Node *node = &tree->at[vec_last(&todo)];
    const int n = node->joins ? (int)node->inst->n_operands : 0;
    HlInst **operands = HL_ARRAY(made->arena, HlInst *, n + 1);
    int k = 0;
    while (k < n && (operands[k] = tree->at[node->needs[k]].copy) != NULL)
      k++;
    if (k < n) {
      vec_push_in(made->arena, &todo, node->needs[k]);
      continue;
    }
    if (!node->copy)
      node->copy = node->joins ? hl_inst_copy(made->body, node->inst, NULL, n, operands)
                               : input(made, node->inst);
    todo.n--;
  }
  return tree->at[0].copy;
}

static HlInst *copy_step(Made *made, const Step *step, HlInst *so_far) {
  const int n = (int)step->user->n_operands;
  HlInst **operands = HL_ARRAY(made->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operands[k] = step->other[k].n > 0 ? copy_tree(made, &step->other[k]) : so_far;
  return hl_inst_copy(made->body, step->user, NULL, n, operands);
}

static bool erase_unused(HlInst *inst) {
  if (!hl_alive(inst) || inst->first_use || inst->comp->root == inst || hl_has_control(inst) ||
      inst->op == HL_OP_PARAMETER)
    return false;
  hl_erase(inst);
  return true;
}

static void erase_tree(const Tree *tree) {
  for (bool again = true; again;) {
    again = false;
    for (int k = 0; k < tree->n; k++)
      again = erase_unused(tree->at[k].inst) || again;
  }
}

static void erase_plan(HlInst *dot, Plan *plan) {
  for (int k = plan->steps.n; k-- > 0;) {
    Step *step = &plan->steps.at[k];
    const int n = (int)step->user->n_operands;
    erase_unused(step->user);
    for (int i = 0; i < n; i++)
      erase_tree(&step->other[i]);
  }
  erase_unused(dot);
  for (int s = 0; s < 2; s++)
    erase_tree(&plan->side[s]);
}

static void fuse(HlPass *p, HlInst *dot, Plan *plan) {
  HlModule *m = dot->comp->module;
  const char *name = hl_arena_printf(p->arena, "gemm_fusion_%s", dot->name->text);
  const HlSym *sym = hl_fresh_comp_name(m, hl_arena_printf(p->arena, "%s_computation", name));
  Made made = {.arena = p->arena, .body = hl_comp_new(m, sym->text, sym->n)};
  hl_comp_set_fusion(made.body);
  hl_comp_set_thread(made.body, dot->comp->execution_thread);
  HlInst *factor[2];
  for (int s = 0; s < 2; s++)
    factor[s] = copy_tree(&made, &plan->side[s]);
  HlInst *root = hl_inst_copy(made.body, dot, NULL, 2, factor), *result = dot;
  for (int k = 0; k < plan->steps.n; k++) {
    root = copy_step(&made, &plan->steps.at[k], root);
    result = plan->steps.at[k].user;
  }
  hl_set_root(made.body, root);
  HlInst *fusion = hl_inst_new(dot->comp, HL_OP_FUSION, root->shape, hl_fresh_name(m, name),
                               made.inputs.n, made.inputs.at);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  hl_set_calls(fusion, 1, &made.body);
  hl_inherit(fusion, dot);
  const HlFusionConfig config = {.kind = HL_FUSION_TRITON_GEMM};
  hl_set_fusion_config(p->arena, fusion, &config);
  hl_replace_uses(result, fusion);
  erase_plan(dot, plan);
}

static void visit_dot(HlPass *p, HlInst *dot) {
  if (dot->op != HL_OP_DOT || dot->n_operands != 2)
    return;
  HlMark mark = hl_arena_mark(p->arena);
  const DotDims d = dot_dims(p->arena, dot);
  bool is_known;
  if (is_for_triton(dot, &d) && !dot_is_small(p->arena, dot)) {
    Plan plan = {0};
    const TritonSplit left = plan_side(p->arena, &plan, dot, &d, 0);
    plan_side(p->arena, &plan, dot, &d, 1);
    plan_result(p->arena, &plan, dot, left.major);
    if (!hl_pass_flag(p, "any") && !names_algorithm(dot, &is_known) && is_alone(&plan))
      hl_refuse(p, dot, NULL, "the library is faster at a product alone");
    else if (hl_change(p, "fuse", dot, NULL)) {
      fuse(p, dot, &plan);
      hl_changed(p);
    }
  }
  hl_arena_release(p->arena, mark);
}

static void visit_comp(HlPass *p, HlComp *comp) {
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]))
      visit_dot(p, insts[k]);
}

bool pass_triton_gemm_rewriter(HlPass *p) {
  if (hl_pass_flag(p, "enable"))
    gpu_each_comp(p, visit_comp);
  return true;
}
