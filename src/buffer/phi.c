// buffer/phi.c: values while they are being found, and the phi values that turn out needless.
//
// A phi stands where several values may arrive: at a while, a conditional, or the parameters of what
// they call. One whose inputs are all one value is that value; so is every phi of a group that only
// feed each other and have one value from outside:
//
//   a = phi(b, c)   b = phi(c, d)   c = phi(a, b)   =>   a, b, c are d

#include <string.h>

#include "base/vec.h"
#include "buffer/flow.h"

uint32_t draft_add(Drafts *d, uint32_t slot, bool is_phi) {
  const uint32_t number = (uint32_t)d->n;
  vec_push_in(d->arena, d, ((Draft){.slot = slot, .is_phi = is_phi, .by = number}));
  return number;
}

void draft_set_inputs(Drafts *d, uint32_t phi, int n, const uint32_t *input) {
  d->at[phi].input = hl_arena_copy(d->arena, input, sizeof *input * (size_t)n);
  d->at[phi].n_inputs = n;
}

static bool holds(int n, const uint32_t *list, uint32_t value) {
  for (int k = 0; k < n; k++)
    if (list[k] == value)
      return true;
  return false;
}

// As sets.
bool draft_inputs_are(const Drafts *d, uint32_t phi, int n, const uint32_t *input) {
  const Draft *draft = &d->at[phi];
  for (int k = 0; k < n; k++)
    if (!holds(draft->n_inputs, draft->input, input[k]))
      return false;
  for (int k = 0; k < draft->n_inputs; k++)
    if (!holds(n, input, draft->input[k]))
      return false;
  return true;
}

uint32_t draft_find(Drafts *d, uint32_t value) {
  uint32_t end = value;
  while (d->at[end].by != end)
    end = d->at[end].by;
  while (d->at[value].by != end) {
    uint32_t next = d->at[value].by;
    d->at[value].by = end;
    value = next;
  }
  return end;
}

static bool is_live_phi(const Drafts *d, uint32_t k) {
  return d->at[k].is_phi && d->at[k].by == k && d->at[k].n_inputs > 0;
}

// The only input but itself, or HL_NO_VALUE.
static uint32_t only_input(Drafts *d, uint32_t phi) {
  uint32_t only = HL_NO_VALUE;
  for (int k = 0; k < d->at[phi].n_inputs; k++) {
    uint32_t input = draft_find(d, d->at[phi].input[k]);
    if (input == phi || input == only)
      continue;
    if (only != HL_NO_VALUE)
      return HL_NO_VALUE;
    only = input;
  }
  return only;
}

// The one value from outside that reaches a group of phis, or HL_NO_VALUE. `member` gets the group.
static uint32_t only_source(Drafts *d, uint32_t phi, uint32_t *mark, uint32_t round,
                            uint8_t *checked, uint32_t *member, uint32_t *n) {
  uint32_t source = HL_NO_VALUE;
  *n = 0;
  member[(*n)++] = phi;
  mark[phi] = round;
  for (uint32_t at = 0; at < *n; at++) {
    uint32_t value = member[at];
    checked[value] = 1;
    if (!d->at[value].is_phi) {
      if (source != HL_NO_VALUE)
        return HL_NO_VALUE;
      source = value;
      continue;
    }
    for (int k = 0; k < d->at[value].n_inputs; k++) {
      uint32_t input = draft_find(d, d->at[value].input[k]);
      if (mark[input] != round) {
        mark[input] = round;
        member[(*n)++] = input;
      }
    }
  }
  return source;
}

void draft_optimise(Drafts *d) {
  const uint32_t n_all = (uint32_t)d->n;
  uint32_t *mark = HL_ARRAY(d->arena, uint32_t, n_all + 1);
  uint32_t *member = HL_ARRAY(d->arena, uint32_t, n_all + 1);
  uint8_t *checked = HL_ARRAY(d->arena, uint8_t, n_all + 1);
  uint32_t round = 0, n;
  for (bool changed = true; changed;) {
    changed = false;
    memset(checked, 0, n_all);
    for (uint32_t k = 0; k < n_all; k++) {
      if (!is_live_phi(d, k))
        continue;
      uint32_t by = only_input(d, k);
      if (by != HL_NO_VALUE) {
        d->at[k].by = by;
        changed = true;
        continue;
      }
      if (checked[k])
        continue;
      by = only_source(d, k, mark, ++round, checked, member, &n);
      for (uint32_t j = 0; by != HL_NO_VALUE && j < n; j++)
        if (member[j] != by) {
          d->at[member[j]].by = by;
          changed = true;
        }
    }
  }
}
