// opt/gpu/norm_gradient.c: recognises gradients of layer normalisations that are calls already.
//
// With c = x - m, n elements in a row, and sums over rows' elements spread out to them again:
//
//   dx = dy s r  -  c r^3 sum(dy s c) / n  -  sum(dy s r) / n  [ +  sum(c r^3 sum(dy s c)) / n^2 ]
//   ds = sum of rows of dy c r             db = sum of rows of dy
//
// The last term of dx is 0 but for rounding; gradients that are derived step by step have it. Sums and products come in
// any order and bracketing: a sum is read as a list of terms, and a term as how often each factor is in it.

#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/gpu/norm.h"

enum { MAX_TERMS = 4, MAX_DEPTH = 12 };

typedef struct Terms {
  NormView view[MAX_TERMS];
  double by[MAX_TERMS];
  int n;
  bool too_many;
} Terms;

// How often each is a factor.
typedef struct Factors {
  double number;
  int dy, center, factor, scale, sums, others;
  NormView summed;  // of the sum over a row's elements
} Factors;

// --- What stands for what -------------------------------------------------------------------------

static bool is_training_call(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_CUDNN_NORM) && inst->n_operands == 3 &&
         hl_shape_is_tuple(inst->shape) && inst->shape->rank == 4;
}

// Result k of the call, a value for each row. The first call met is the one.
static bool is_result(NormGradient *g, const NormView *v, int64_t k) {
  const HlInst *element = v->inst->op == HL_OP_RESHAPE ? v->inst->operands[0] : v->inst;
  if (element->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(element, HL_A_INDEX) != k ||
      !is_training_call(element->operands[0]) || (g->call && g->call != element->operands[0]))
    return false;
  const uint32_t all = (1u << g->norm.n_dims) - 1, dims = norm_dims_of(v);
  if (dims == 0 || dims == all || (g->norm.reduced && g->norm.reduced != (all & ~dims)))
    return false;
  g->call = element->operands[0];
  g->norm.reduced = all & ~dims;
  return true;
}

// Whether the call was given this x and this scale is for the caller to see.
static bool is_x(NormGradient *g, NormView v) {
  v = norm_below(v, false);
  if (!norm_spans_all(&g->norm, &v) || (g->norm.x && g->norm.x != v.inst))
    return false;
  g->norm.x = v.inst;
  return true;
}

static bool is_scale(NormGradient *g, NormView v) {
  v = norm_below(v, true);
  if (norm_dims_of(&v) != g->norm.reduced || (g->norm.scale && g->norm.scale != v.inst))
    return false;
  g->norm.scale = v.inst;
  return true;
}

static bool is_center(NormGradient *g, const NormView *v) {
  if (v->inst->op != HL_OP_SUBTRACT)
    return false;
  const NormView mean = norm_below(norm_operand(v, v->inst->operands[1]), true);
  return is_result(g, &mean, 1) && is_x(g, norm_operand(v, v->inst->operands[0]));
}

// --- Products -------------------------------------------------------------------------------------

static void count(NormGradient *g, NormView v, bool inverse, int depth, Factors *f) {
  const NormView full = norm_below(v, false);
  if (full.inst == g->dy && !inverse) {
    f->dy++;
    return;
  }
  v = norm_below(v, true);
  HlInst *inst = v.inst;
  const HlLiteral *c = hl_splat(inst);
  if (c && hl_is_float(c->shape->dtype)) {
    f->number *= inverse ? 1 / hl_literal_f64(c, 0) : hl_literal_f64(c, 0);
  } else if (depth > MAX_DEPTH || inverse) {
    f->others++;
  } else if (inst->op == HL_OP_NEGATE) {
    f->number = -f->number;
    count(g, norm_operand(&v, inst->operands[0]), false, depth + 1, f);
  } else if (inst->op == HL_OP_MULTIPLY || inst->op == HL_OP_DIVIDE) {
    count(g, norm_operand(&v, inst->operands[0]), false, depth + 1, f);
    count(g, norm_operand(&v, inst->operands[1]), inst->op == HL_OP_DIVIDE, depth + 1, f);
  } else if (is_result(g, &v, 2)) {
    f->factor++;
  } else if (is_center(g, &v)) {
    f->center++;
  } else if (is_scale(g, v)) {
    f->scale++;
  } else if (norm_sum_of(&g->norm, &v, &f->summed) == g->norm.reduced) {
    f->sums++;
  } else {
    f->others++;
  }
}

static Factors factors_of(NormGradient *g, NormView v, double by) {
  Factors f = {.number = by};
  count(g, v, false, 0, &f);
  return f;
}

static bool are(const Factors *f, int dy, int scale, int center, int factor, int sums) {
  return f->dy == dy && f->scale == scale && f->center == center && f->factor == factor &&
         f->sums == sums && f->others == 0;
}

static bool is_about(double is, double expected) {
  return fabs(is - expected) <= 1e-5 * fabs(expected);
}

// --- Sums -----------------------------------------------------------------------------------------

static void add_term(Terms *t, NormView v, double by) {
  if (t->n == MAX_TERMS) {
    t->too_many = true;
    return;
  }
  t->view[t->n] = v;
  t->by[t->n++] = by;
}

static bool is_sum(const HlInst *inst) {
  return inst->op == HL_OP_ADD || inst->op == HL_OP_SUBTRACT || inst->op == HL_OP_NEGATE;
}

static void collect(Terms *t, NormView v, double by, int depth) {
  v = norm_below(v, true);
  HlInst *inst = v.inst;
  if (t->too_many || depth > MAX_DEPTH) {
    t->too_many = true;
  } else if (is_sum(inst)) {
    const double last = inst->op == HL_OP_ADD ? by : -by;
    if (inst->n_operands == 2)
      collect(t, norm_operand(&v, inst->operands[0]), by, depth + 1);
    collect(t, norm_operand(&v, inst->operands[inst->n_operands - 1]), last, depth + 1);
  } else {
    for (int k = 0; k < 2 && inst->op == HL_OP_MULTIPLY; k++) {
      const HlLiteral *c = hl_splat(inst->operands[k]);
      const NormView other = norm_below(norm_operand(&v, inst->operands[1 - k]), true);
      if (c && hl_is_float(c->shape->dtype) && is_sum(other.inst)) {
        collect(t, other, by * hl_literal_f64(c, 0), depth + 1);
        return;
      }
    }
    add_term(t, v, by);
  }
}

// --- dx -------------------------------------------------------------------------------------------

// dy is what is multiplied by the scale and by the call's factor.
static bool find_dy(NormGradient *g, const Terms *t) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int k = 0; k < t->n; k++)
    for (int o = 0; o < 12; o++) {
      HlInst *leaf[3];
      const int *at = orders[o / 2];
      if (!norm_factors(t->view[k].inst, o % 2, leaf))
        continue;
      NormGradient attempt = *g;
      const NormView factor = norm_below(norm_operand(&t->view[k], leaf[at[1]]), true);
      const NormView dy = norm_below(norm_operand(&t->view[k], leaf[at[0]]), false);
      if (is_result(&attempt, &factor, 2) &&
          is_scale(&attempt, norm_operand(&t->view[k], leaf[at[2]])) &&
          norm_spans_all(&g->norm, &dy)) {
        *g = attempt;
        g->dy = dy.inst;
        return true;
      }
    }
  return false;
}

// c r^3 sum(dy s c): what it is multiplied by, 0 if it is something else.
static double curved(NormGradient *g, const Factors *f) {
  if (!are(f, 0, 0, 1, 3, 1))
    return 0;
  const Factors inner = factors_of(g, f->summed, f->number);
  return are(&inner, 1, 1, 1, 0, 0) ? inner.number : 0;
}

static bool match_terms(NormGradient *g, const Terms *t) {
  const double n = (double)norm_length(&g->norm);
  enum { STRAIGHT, CURVED, MEAN_STRAIGHT, MEAN_CURVED, KINDS };
  int met[KINDS] = {0};
  for (int k = 0; k < t->n; k++) {
    const Factors f = factors_of(g, t->view[k], t->by[k]);
    if (are(&f, 1, 1, 0, 1, 0) && is_about(f.number, 1)) {
      met[STRAIGHT]++;
    } else if (is_about(curved(g, &f), -1 / n)) {
      met[CURVED]++;
    } else if (are(&f, 0, 0, 0, 0, 1)) {
      const Factors inner = factors_of(g, f.summed, f.number);
      met[MEAN_STRAIGHT] += are(&inner, 1, 1, 0, 1, 0) && is_about(inner.number, -1 / n);
      met[MEAN_CURVED] += is_about(curved(g, &inner), 1 / (n * n));
    }
  }
  return met[STRAIGHT] == 1 && met[CURVED] == 1 && met[MEAN_STRAIGHT] == 1 &&
         3 + met[MEAN_CURVED] == t->n && met[MEAN_CURVED] <= 1;
}

// --- ds, db ---------------------------------------------------------------------------------------

typedef struct Search {
  NormGradient *g;
  int left;  // so many instructions may still be looked at
} Search;

static void look_at_sum(NormGradient *g, HlInst *reduce) {
  const uint32_t all = (1u << g->norm.n_dims) - 1;
  NormView view = {.inst = reduce}, of;
  for (int k = 0, d = 0; k < reduce->shape->rank; k++) {
    while (d < g->norm.n_dims && !(g->norm.reduced >> d & 1))
      d++;
    view.dim[k] = reduce->shape->dim[k] > 1 ? d++ : -1;
  }
  if (norm_sum_of(&g->norm, &view, &of) != (all & ~g->norm.reduced))
    return;
  const Factors f = factors_of(g, of, 1);
  if (!is_about(f.number, 1))
    return;
  if (are(&f, 1, 0, 1, 1, 0))
    g->dscale = reduce;
  if (are(&f, 1, 0, 0, 0, 0))
    g->dbias = reduce;
}

// Products of dy, and sums of them over rows.
static void search(Search *s, HlInst *inst, int depth) {
  for (const HlUse *use = inst->first_use; use && s->left > 0; use = use->next) {
    s->left--;
    HlInst *user = use->user;
    if (user->op == HL_OP_REDUCE && use->number == 0 && user->shape->rank <= NORM_MAX_DIMS &&
        hl_shape_is_array(user->shape))
      look_at_sum(s->g, user);
    else if (depth > 0 &&
             (user->op == HL_OP_MULTIPLY || user->op == HL_OP_CONVERT || user->op == HL_OP_RESHAPE))
      search(s, user, depth - 1);
  }
}

bool norm_match_gradient(HlInst *dx, NormGradient *out) {
  *out = (NormGradient){0};
  Terms t = {.n = 0};
  if (!norm_start(dx, &out->norm))
    return false;
  collect(&t, norm_whole(dx), 1, 0);
  if (t.too_many || t.n < 3 || !find_dy(out, &t) || !match_terms(out, &t))
    return false;
  enum { MOST = 64, STEPS = 4 };
  search(&(Search){out, MOST}, out->dy, STEPS);
  return out->dscale != NULL;
}
