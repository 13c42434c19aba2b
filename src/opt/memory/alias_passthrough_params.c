// opt/memory/alias_passthrough_params.c: an input that is also an output needs no copy: both are one buffer.
//
//   ROOT t = tuple(p0, x)   =>   the same, and input_output_alias={ {0}: (0, {}, may-alias) }

#include <stdlib.h>

#include "opt/passes.h"

typedef struct Taken {   // by aliases, given away, or by those made here
  bool *output, *param;  // elements of the result, whole parameters
} Taken;

static Taken find_taken(HlPass *p, const HlInst *root) {
  const HlModule *m = p->m;
  Taken taken = {HL_ARRAY(p->arena, bool, root->n_operands + 1),
                 HL_ARRAY(p->arena, bool, m->entry->n_params + 1)};
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlAlias *alias = &m->input_output_alias.at[k];
    if (alias->output.n == 1 && alias->output.at[0] < (int64_t)root->n_operands)
      taken.output[alias->output.at[0]] = true;
    if (alias->index.n == 0 && alias->number < m->entry->n_params)
      taken.param[alias->number] = true;
  }
  for (int k = 0; k < m->n_buffer_donor; k++)
    if (m->buffer_donor[k].number < m->entry->n_params)
      taken.param[m->buffer_donor[k].number] = true;
  return taken;
}

bool pass_alias_passthrough_params(HlPass *p) {
  HlModule *m = p->m;
  HlInst *root = m->entry->root;
  if (root->op != HL_OP_TUPLE)
    return true;
  Taken taken = find_taken(p, root);
  int old = m->input_output_alias.n, n = old;
  HlAlias *alias = HL_ARRAY(p->arena, HlAlias, old + (int)root->n_operands);
  for (int k = 0; k < old; k++)
    alias[k] = m->input_output_alias.at[k];
  for (uint32_t k = 0; k < root->n_operands; k++) {
    const HlInst *param = root->operands[k];
    int64_t number = param->op == HL_OP_PARAMETER ? hl_parameter_number(param) : -1;
    if (number < 0 || taken.param[number] || taken.output[k])
      continue;
    int64_t *index = HL_ARRAY(m->arena, int64_t, 1);
    index[0] = k;
    taken.param[number] = true;
    alias[n++] = (HlAlias){{index, 1}, number, {NULL, 0}, HL_WORD_alias_kind_MAY};
  }
  if (n > old && hl_change(p, "pass-through", root, m->entry->params[alias[old].number])) {
    hl_set_aliases(m, n, alias);
    hl_changed(p);
  }
  return true;
}
