// opt/memory/optimize_input_output_buffer_alias.c: lets outputs be written over inputs that the caller gave away.
//
// The header's buffer_donor names inputs that nobody needs after the call. Each is matched with an
// output of the same number of bytes, the largest first, and becomes its memory:
//
//   buffer_donor={ (0, {}) }   =>   input_output_alias={ {}: (0, {}, may-alias) }

#include <stdlib.h>

#include "base/vec.h"
#include "opt/passes.h"

typedef struct Piece {  // an array of an input or of the output
  int64_t bytes, number, memory_space;
  HlI64s index;
  int order;
  int donor;  // its place in the header's list, or -1
} Piece;

typedef struct Pieces {
  HlPass *p;
  Piece *at;
  int n, capacity;
  int64_t number;  // of the input being walked; -1: the output
  bool donors_only;
} Pieces;

static bool has_alias(const HlModule *m, int64_t number, HlI64s index) {
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlAlias *alias = &m->input_output_alias.at[k];
    if (number < 0 ? hl_i64s_equal(alias->output, index)
                   : alias->number == number && hl_i64s_equal(alias->index, index))
      return true;
  }
  return false;
}

// Which donor the header names so, or -1.
static int find_donor(const HlModule *m, int64_t number, HlI64s index) {
  for (int k = 0; k < m->n_buffer_donor; k++)
    if (m->buffer_donor[k].number == number && hl_i64s_equal(m->buffer_donor[k].index, index))
      return k;
  return -1;
}

static void add_piece(Pieces *list, const HlShape *shape, HlI64s index) {
  const HlModule *m = list->p->m;
  bool input = list->number >= 0;
  int donor = input ? find_donor(m, list->number, index) : -1;
  if (has_alias(m, list->number, index) ||
      (input && (hl_shape_is_dynamic(shape) || (donor < 0 && list->donors_only))))
    return;
  int64_t space = shape->layout && shape->layout->extra ? shape->layout->extra->memory_space : 0;
  const Piece piece = {hl_shape_buffer_bytes(shape, 8), list->number, space, index, list->n, donor};
  vec_push_in(list->p->arena, list, piece);
}

static void walk(Pieces *list, const HlShape *shape, HlI64s index) {
  if (hl_shape_is_array(shape)) {
    add_piece(list, shape, index);
    return;
  }
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++) {
    int64_t *at = HL_ARRAY(list->p->m->arena, int64_t, index.n + 1);
    for (int j = 0; j < index.n; j++)
      at[j] = index.at[j];
    at[index.n] = k;
    walk(list, shape->element[k], (HlI64s){at, index.n + 1});
  }
}

static int by_bytes(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  if (x->memory_space != y->memory_space)
    return x->memory_space < y->memory_space ? -1 : 1;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return x->order - y->order;
}

// What became an alias is no donor any more.
static void add_aliases(HlPass *p, int n, const HlAlias *more, const bool *taken) {
  HlModule *m = p->m;
  int old = m->input_output_alias.n, left = 0;
  HlAlias *alias = HL_ARRAY(p->arena, HlAlias, old + n);
  for (int k = 0; k < old + n; k++)
    alias[k] = k < old ? m->input_output_alias.at[k] : more[k - old];
  hl_set_aliases(m, old + n, alias);
  HlDonor *donor = HL_ARRAY(p->arena, HlDonor, m->n_buffer_donor + 1);
  for (int k = 0; k < m->n_buffer_donor; k++)
    if (!taken[k])
      donor[left++] = m->buffer_donor[k];
  hl_set_donors(m, left, donor);
}

bool pass_optimize_input_output_buffer_alias(HlPass *p) {
  HlModule *m = p->m;
  const HlComp *entry = m->entry;
  bool donors_only = hl_pass_flag(p, "registered_donors_only");
  if (hl_shape_is_dynamic(m->entry_result ? m->entry_result : entry->root->shape) ||
      (m->n_buffer_donor == 0 && donors_only))
    return true;
  Pieces inputs = {.p = p, .donors_only = donors_only}, outputs = {.p = p, .number = -1};
  for (int k = 0; k < entry->n_params; k++) {
    inputs.number = k;
    walk(&inputs, m->entry_params ? m->entry_params[k] : entry->params[k]->shape,
         (HlI64s){NULL, 0});
  }
  walk(&outputs, m->entry_result ? m->entry_result : entry->root->shape, (HlI64s){NULL, 0});
  if (inputs.n == 0 || outputs.n == 0)
    return true;
  qsort(inputs.at, (size_t)inputs.n, sizeof *inputs.at, by_bytes);
  qsort(outputs.at, (size_t)outputs.n, sizeof *outputs.at, by_bytes);
  HlAlias *alias = HL_ARRAY(p->arena, HlAlias, inputs.n);
  bool *taken = HL_ARRAY(p->arena, bool, m->n_buffer_donor + 1);
  int n = 0;
  for (int i = 0, o = 0; i < inputs.n && o < outputs.n;) {
    const Piece *input = &inputs.at[i], *output = &outputs.at[o];
    int order = input->memory_space != output->memory_space
                    ? (input->memory_space < output->memory_space ? -1 : 1)
                    : (input->bytes > output->bytes ? -1 : input->bytes < output->bytes);
    if (order == 0) {
      alias[n++] = (HlAlias){output->index, input->number, input->index, HL_WORD_alias_kind_MAY};
      if (input->donor >= 0)
        taken[input->donor] = true;
    }
    i += order <= 0;
    o += order >= 0;
  }
  if (n > 0 && hl_change(p, "alias", entry->root, entry->params[alias[0].number])) {
    add_aliases(p, n, alias, taken);
    hl_changed(p);
  }
  return true;
}
