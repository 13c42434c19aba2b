// One step of propagation: specs to factors, what the factors agree on, and back.
#include "spmd/step.h"

#include <string.h>

#include "spmd/propagate.h"

// How one factor is cut in one tensor.
typedef struct Cut {
  bool there;       // the tensor has the factor
  bool closed;      // and must not cut it further
  bool minor_most;  // it is the last of its dimension: may be cut unevenly
  SpAxes axes;
  SpAxes overflow;  // of the dimension, behind these axes: more than the factors can take
} Cut;

// --- Specs to factors --------------------------------------------------------------------------------

// Gives the axes of a dimension to its factors, major first, as far as their sizes divide.
static void project_dim(const SpMesh *mesh, const SpRule *rule, const HlDimFactors *factors,
                        const SpDim *dim, Cut *cuts) {
  int a = 0;
  for (int f = 0; f < factors->n; f++) {
    const int factor = factors->at[f];
    Cut *cut = &cuts[factor];
    const bool last = f == factors->n - 1;
    *cut = (Cut){.there = true, .closed = dim->closed, .minor_most = last};
    int64_t left = rule->of.factor[factor].size;
    for (; a < dim->axes.n; a++) {
      const int64_t size = mesh->size[dim->axes.at[a]];
      if (!last && (left == 1 || left % size != 0))
        break;
      sp_axes_add(&cut->axes, dim->axes.at[a]);
      left = left % size == 0 ? left / size : 1;
    }
    if (last || left == 1 || a == dim->axes.n)
      continue;
    for (; a < dim->axes.n; a++)
      sp_axes_add(&cut->overflow, dim->axes.at[a]);
  }
}

static Cut *project(const SpMesh *mesh, const SpRule *rule, const HlTensorFactors *tensor,
                    const SpSpec *spec, int priority, Cut *cuts) {
  memset(cuts, 0, (size_t)rule->of.n * sizeof *cuts);
  for (int d = 0; spec && d < tensor->rank; d++) {
    static const SpDim later = {.closed = true};
    const bool hidden = spec->dim[d].priority > priority;
    project_dim(mesh, rule, &tensor->dim[d], hidden ? &later : &spec->dim[d], cuts);
  }
  return cuts;
}

// --- What they agree on --------------------------------------------------------------------------------

// The longest list of axes on which all tensors agree: only sources make it longer, all keep it from growing wrong.
static SpAxes agreed_axes(const SpRule *rule, Cut *const *cuts, int factor, int ways,
                          bool first_wins) {
  SpAxes axes = {0};
  bool grows = true;
  const int n = rule->of.n_operands + rule->of.n_results;
  for (int turn = 0; turn < 2; turn++)
    for (int k = 0; k < n; k++) {
      const bool source = (ways & (k < rule->of.n_operands ? SP_FORWARD : SP_BACKWARD)) != 0;
      const Cut *cut = &cuts[k][factor];
      if (!cut->there || source == (turn == 1))
        continue;
      int same = 0;
      while (same < axes.n && same < cut->axes.n && axes.at[same] == cut->axes.at[same])
        same++;
      if (same == axes.n) {
        if (grows && turn == 0)
          axes = cut->axes;
      } else if (same < cut->axes.n && !first_wins) {
        axes.n = (uint8_t)same;
        grows = false;
      }
    }
  return axes;
}

// --- Preference ------------------------------------------------------------------------------------------

typedef struct Wish {
  int factor, source;  // source: the tensor it comes from
  int64_t elements;    // of that tensor
  int64_t parts;       // of the factor, for operations on elements; else 1
  SpAxes axes;
} Wish;

static int64_t tensor_size(const SpRule *rule, int tensor) {
  int64_t size = 1;
  for (int d = 0; d < rule->of.tensor[tensor].rank; d++)
    for (int f = 0; f < rule->of.tensor[tensor].dim[d].n; f++) {
      const int64_t factor = rule->of.factor[rule->of.tensor[tensor].dim[d].at[f]].size;
      if (factor > 0 && size <= INT64_MAX / factor)
        size *= factor;
    }
  return size;
}

static bool comes_before(const Wish *a, const Wish *b) {
  if (a->elements != b->elements)
    return a->elements > b->elements;
  if (a->parts != b->parts)
    return a->parts > b->parts;
  return a->source != b->source ? a->source < b->source : a->factor < b->factor;
}

static Wish make_wish(const SpRule *rule, Cut *const *cuts, const int64_t *size, int factor,
                      SpAxes axes) {
  Wish wish = {.factor = factor, .source = -1, .axes = axes};
  for (int k = 0; k < rule->of.n_operands + rule->of.n_results; k++) {
    const Cut *cut = &cuts[k][factor];
    if (cut->there && sp_axes_starts(&cut->axes, &axes) &&
        (wish.source < 0 || size[k] > wish.elements)) {
      wish.source = k;
      wish.elements = size[k];
    }
  }
  return wish;
}

static int collect_wishes(const SpMesh *mesh, const SpRule *rule, Cut *const *cuts,
                          const SpWays *ways, Wish *wishes) {
  const int n = rule->of.n_operands + rule->of.n_results;
  int64_t *size = HL_ARRAY(rule->of.arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    size[k] = tensor_size(rule, k);
  int n_wishes = 0;
  for (int f = 0; f < rule->of.n; f++) {
    const SpAxes axes = agreed_axes(
        rule, cuts, f, rule->of.factor[f].kind != HL_FACTOR_PASSED ? ways->special : ways->plain,
        ways->first_wins);
    if (axes.n == 0)
      continue;
    Wish wish = make_wish(rule, cuts, size, f, axes);
    wish.parts = rule->elementwise ? sp_axes_size(mesh, &axes) : 1;
    int at = n_wishes++;
    for (; at > 0 && comes_before(&wish, &wishes[at - 1]); at--)
      wishes[at] = wishes[at - 1];
    wishes[at] = wish;
  }
  return n_wishes;
}

// --- Back to the tensors -------------------------------------------------------------------------------------

// As much of the axes as this tensor can take for this factor, given what its other factors have.
static SpAxes fitting(const SpMesh *mesh, const SpRule *rule, const Cut *cuts, const Wish *wish,
                      uint32_t taboo) {
  const Cut *cut = &cuts[wish->factor];
  uint32_t used = taboo | sp_axes_set(&cut->overflow);
  for (int f = 0; f < rule->of.n; f++)
    if (cuts[f].there && f != wish->factor)
      used |= sp_axes_set(&cuts[f].axes) | sp_axes_set(&cuts[f].overflow);
  SpAxes axes = wish->axes;
  int64_t left = rule->of.factor[wish->factor].size, parts = 1;
  uint8_t whole = 0;  // so many make whole axes of the mesh
  for (uint8_t k = 0; k < axes.n; k++) {
    const int64_t size = mesh->size[axes.at[k]];
    parts *= size;
    if (used >> axes.at[k] & 1 || (!cut->minor_most && left % size != 0))
      axes.n = k;
    else if (parts > rule->of.factor[wish->factor].size)  // more parts than there are elements
      axes.n = whole;
    if (mesh->axis_end >> axes.at[k] & 1)
      whole = (uint8_t)(k + 1);
    left = left % size == 0 ? left / size : 1;
  }
  return axes;
}

// Operands of an operation on elements take no more than its results do: what the result cannot have is of no use there.
static void limit_to_results(const SpRule *rule, Cut *const *cuts, int factor, SpAxes *axes) {
  for (int k = rule->of.n_operands;
       rule->elementwise && k < rule->of.n_operands + rule->of.n_results; k++) {
    const Cut *cut = &cuts[k][factor];
    if (cut->there && cut->axes.n < axes->n && sp_axes_starts(axes, &cut->axes))
      *axes = cut->axes;
  }
}

static bool expand(const SpMesh *mesh, const SpRule *rule, Cut *const *cuts, int tensor,
                   const Wish *wishes, int n, uint32_t taboo) {
  bool expanded = false;
  for (int w = 0; w < n; w++) {
    Cut *cut = &cuts[tensor][wishes[w].factor];
    if (!cut->there || cut->closed || cut->overflow.n > 0)
      continue;
    SpAxes axes = fitting(mesh, rule, cuts[tensor], &wishes[w], taboo);
    if (tensor < rule->of.n_operands)
      limit_to_results(rule, cuts, wishes[w].factor, &axes);
    if (axes.n > cut->axes.n && sp_axes_starts(&axes, &cut->axes)) {
      cut->axes = axes;
      expanded = true;
    }
  }
  return expanded;
}

// The axes of a dimension from its factors: up to the first factor that is not cut wholly.
static SpAxes dim_axes(const SpMesh *mesh, const SpRule *rule, const HlDimFactors *factors,
                       const Cut *cuts) {
  SpAxes axes = {0};
  for (int f = 0; f < factors->n; f++) {
    const Cut *cut = &cuts[factors->at[f]];
    for (int a = 0; a < cut->axes.n; a++)
      sp_axes_add(&axes, cut->axes.at[a]);
    for (int a = 0; a < cut->overflow.n; a++)
      sp_axes_add(&axes, cut->overflow.at[a]);
    if (cut->overflow.n > 0 ||
        sp_axes_size(mesh, &cut->axes) != rule->of.factor[factors->at[f]].size)
      break;
  }
  return axes;
}

static bool write_back(const SpMesh *mesh, const SpRule *rule, const HlTensorFactors *tensor,
                       const Cut *cuts, SpSpec *spec) {
  bool changed = false;
  for (int d = 0; d < tensor->rank; d++) {
    if (tensor->dim[d].n == 0 || spec->dim[d].closed)
      continue;
    const SpAxes axes = dim_axes(mesh, rule, &tensor->dim[d], cuts);
    if (axes.n <= spec->dim[d].axes.n)
      continue;
    spec->dim[d].axes = axes;
    changed = true;
  }
  spec->known |= changed;
  return changed;
}

static bool takes_part(const SpRule *rule, int tensor, const SpSpec *spec) {
  return spec && !spec->fixed && rule->of.tensor[tensor].rank == spec->rank;
}

static bool update(const SpMesh *mesh, const SpRule *rule, Cut *const *cuts, int tensor,
                   const Wish *wishes, int n, SpSpec *spec) {
  if (!takes_part(rule, tensor, spec))
    return false;
  const uint32_t taboo = spec->replicated | spec->unreduced | spec->manual;
  return expand(mesh, rule, cuts, tensor, wishes, n, taboo) &&
         write_back(mesh, rule, &rule->of.tensor[tensor], cuts[tensor], spec);
}

bool sp_step(const SpMesh *mesh, const SpRule *rule, SpSpec *const *spec, const SpWays *ways) {
  HlArena *arena = rule->of.arena;
  const int n = rule->of.n_operands + rule->of.n_results;
  bool any = false;
  for (int k = 0; k < n; k++)
    any |= spec[k] && spec[k]->known && !spec[k]->fixed;
  if (!any)
    return false;
  Cut **cuts = HL_ARRAY(arena, Cut *, n + 1);
  for (int k = 0; k < n; k++)
    cuts[k] =
        project(mesh, rule, &rule->of.tensor[k], takes_part(rule, k, spec[k]) ? spec[k] : NULL,
                ways->priority, HL_ARRAY(arena, Cut, rule->of.n));
  Wish *wishes = HL_ARRAY(arena, Wish, rule->of.n);
  const int n_wishes = collect_wishes(mesh, rule, cuts, ways, wishes);
  bool changed = false;
  for (int k = rule->of.n_operands; k < n && n_wishes > 0; k++)
    changed |= update(mesh, rule, cuts, k, wishes, n_wishes, spec[k]);
  for (int k = 0; k < rule->of.n_operands && n_wishes > 0; k++)
    changed |= update(mesh, rule, cuts, k, wishes, n_wishes, spec[k]);
  return changed;
}

// --- Open sums ---------------------------------------------------------------------------------------------

static bool has_digits(const SpSpec *spec, uint32_t digits) {
  return ((sp_spec_used(spec) | spec->replicated) & digits) != 0;
}

// A sum that is open wherever a value comes from is open in the value, unless something else is said of it.
bool sp_step_sums(SpSpec *const *spec, int n, int n_results) {
  const uint32_t open = spec[0] ? spec[0]->unreduced : 0;
  for (int k = 1; open && k < n - n_results; k++)
    if (!spec[k] || spec[k]->unreduced != open)
      return false;
  bool changed = false;
  for (int k = n - n_results; open && k < n; k++) {
    if (!spec[k] || spec[k]->given || spec[k]->fixed || has_digits(spec[k], open))
      continue;
    spec[k]->unreduced = open;
    spec[k]->known = changed = true;
  }
  return changed;
}

// --- Into manual computations ---------------------------------------------------------------------------------

bool sp_step_manual(const SpMesh *mesh, SpSpec *global, SpSpec *local, const SpAxes *own) {
  (void)mesh;
  bool changed = false;
  for (int d = 0; d < global->rank; d++) {
    SpAxes *outer = &global->dim[d].axes, *inner = &local->dim[d].axes;
    if (!sp_axes_starts(outer, &own[d]))
      continue;
    const int n = own[d].n, tail = outer->n - n;
    const int longer = tail > inner->n ? tail : inner->n;
    const int shorter = tail < inner->n ? tail : inner->n;
    if (memcmp(outer->at + n, inner->at, (size_t)shorter) != 0 || longer == shorter)
      continue;
    if (tail < longer && !global->dim[d].closed) {
      const uint32_t used = sp_spec_used(global) | global->replicated;
      for (int a = tail; a < longer && !(used >> inner->at[a] & 1); a++) {
        sp_axes_add(outer, inner->at[a]);
        global->known = changed = true;
      }
    } else if (inner->n < longer && !local->dim[d].closed) {
      const uint32_t used = sp_spec_used(local) | local->replicated;
      for (int a = inner->n; a < longer && !(used >> outer->at[n + a] & 1); a++) {
        sp_axes_add(inner, outer->at[n + a]);
        local->known = changed = true;
      }
    }
  }
  return changed;
}
