// tool/diff/rows.c: what became of each instruction: a row for every pair, and for whoever is alone.

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "tool/diff/diff.h"

typedef VEC(HlDiffRow) Rows;
typedef VEC(uint64_t) Signatures;

typedef struct Maker {
  DiffMatch *match;
  HlDiff *diff;
  Rows rows;
  Signatures signatures;
  Map seen;            // by a pair: 1 + its row
  int *row_a, *row_b;  // by node
  const DiffFate *fate;
  const int *copy;
  const int *loose_a, *loose_b;  // of stages: values by node, through what only moves them
  bool *reordered;               // by node of a
  HlBuf text;
} Maker;

// --- Where nodes stand ----------------------------------------------------------------------------

// The fusion that a node stands in, calls within it seen through; DIFF_NONE.
static int fusion_of(const DiffSide *side, int node) {
  for (int f = side->node[node].frame; f != DIFF_NONE;) {
    const DiffFrame *frame = &side->frame[f];
    if (frame->caller == DIFF_NONE || !frame->opens)
      return DIFF_NONE;
    if (side->node[frame->caller].inst->op == HL_OP_FUSION)
      return frame->caller;
    f = side->node[frame->caller].frame;
  }
  return DIFF_NONE;
}

static bool in_call(const DiffSide *side, int node) {
  const DiffFrame *frame = &side->frame[side->node[node].frame];
  return frame->caller != DIFF_NONE && frame->opens &&
         side->node[frame->caller].inst->op == HL_OP_CALL;
}

static bool same_frame(const DiffMatch *match, int a, int b) {
  const DiffFrame *x = &match->a.frame[match->a.node[a].frame],
                  *y = &match->b.frame[match->b.node[b].frame];
  if (x->caller == DIFF_NONE || y->caller == DIFF_NONE)
    return x->caller == y->caller;
  return x->number == y->number && match->a.mate[x->caller] == y->caller;
}

// Of a function, such as a reduction's, and its equal that another caller has.
static bool goes_with_caller(const DiffMatch *match, int a, int b) {
  const DiffFrame *x = &match->a.frame[match->a.node[a].frame],
                  *y = &match->b.frame[match->b.node[b].frame];
  return x->caller != DIFF_NONE && !x->opens && y->caller != DIFF_NONE && !y->opens;
}

// The verdict on a pair that differs in nothing by itself, and the fusion it went into.
static HlVerdict place_verdict(const DiffMatch *match, int a, int b, int *into) {
  *into = DIFF_NONE;
  if (same_frame(match, a, b))
    return HL_DIFF_SAME;
  const int from = fusion_of(&match->a, a), to = fusion_of(&match->b, b);
  if (to != DIFF_NONE && (from == DIFF_NONE || match->a.mate[from] != to)) {
    *into = to;
    return HL_DIFF_FUSED;
  }
  return in_call(&match->a, a) ? HL_DIFF_INLINED : HL_DIFF_MOVED;
}

static bool is_wire(const DiffMatch *match, int a) {
  return diff_is_wire(&match->a, a);
}

// --- Rows -----------------------------------------------------------------------------------------

static uint64_t pair_key(const HlInst *a, const HlInst *b) {
  return hl_hash_mix(map_key(a) + 1, map_key(b) + 2);
}

static int add_row(Maker *m, const HlDiffRow *row, uint64_t signature) {
  uint64_t *at = map_at(&m->seen, hl_hash_mix(pair_key(row->a, row->b), (uint64_t)row->verdict));
  if (*at) {
    m->rows.at[*at - 1].times++;
    return (int)*at - 1;
  }
  *at = (uint64_t)m->rows.n + 1;
  vec_push_in(m->match->arena, &m->rows, *row);
  vec_push_in(m->match->arena, &m->signatures, signature);
  HlDiffRow *made = &m->rows.at[m->rows.n - 1];
  made->times = 1;
  made->group = -1;
  made->detail = m->text.n > 0 ? hl_arena_strndup(m->match->arena, m->text.at, m->text.n) : "";
  return m->rows.n - 1;
}

static uint64_t shape_key(const HlInst *inst) {
  return inst ? hl_hash_mix(inst->op, diff_bare_shape_hash(inst->shape)) : 3;
}

// What makes rows alike: verdict, ops, shapes and how they differ, but no names.
static uint64_t signature_of(const Maker *m, const HlDiffRow *row, size_t n) {
  const uint64_t h = hl_hash_mix((uint64_t)row->verdict * 64 + 1, row->what);
  return hl_hash_bytes(m->text.at ? m->text.at : "", n,
                       hl_hash_mix(hl_hash_mix(h, shape_key(row->a)), shape_key(row->b)));
}

static int operand_node(const DiffSide *side, int node, uint32_t k) {
  const DiffNode *n = &side->node[node];
  return side->frame[n->frame].node[n->inst->operands[k]->id];
}

// Whether operand j of b is that which operand i of a became: the instruction, or the value that it hands on.
static bool operand_is(const DiffMatch *match, int a, uint32_t i, int b, uint32_t j) {
  const int x = operand_node(&match->a, a, i), y = operand_node(&match->b, b, j);
  return match->a.mate[x] == y || match->a.mate[match->a.node[x].value] == match->b.node[y].value;
}

// Between stages: what an operand became, by way of what only moves values, too.
static int place_of(const Maker *m, int a) {
  return m->match->a.mate[a] != DIFF_NONE ? m->match->a.mate[a] : m->fate[a].into;
}

static bool operand_became(const Maker *m, int a, uint32_t i, int b, uint32_t j) {
  const DiffMatch *match = m->match;
  const int x = m->loose_a[operand_node(&match->a, a, i)],
            y = m->loose_b[operand_node(&match->b, b, j)];
  const int to = place_of(m, x);
  return to == y || to == b || (to != DIFF_NONE && m->loose_b[to] == y) ||
         operand_is(match, a, i, b, j);
}

// Whether some operand is none of what those of the partner came from.
static bool stage_operands_differ(Maker *m, int a, int b) {
  const HlInst *x = m->match->a.node[a].inst, *y = m->match->b.node[b].inst;
  if (x->n_operands != y->n_operands)
    return true;
  for (uint32_t k = 0; k < x->n_operands; k++) {
    bool found = operand_became(m, a, k, b, k);
    if (!found && x->n_operands == 2 && hl_op_is((HlOp)x->op, HL_T_COMMUTES))
      found = operand_became(m, a, k, b, 1 - k);
    if (!found)
      return true;
  }
  return false;
}

// Which operands are not those of the partner; said in words behind the rest.
static bool operands_differ(Maker *m, int a, int b) {
  const DiffMatch *match = m->match;
  const HlInst *x = match->a.node[a].inst, *y = match->b.node[b].inst;
  const char *between = m->text.n ? "; " : "";
  bool any = false;
  if (x->n_operands != y->n_operands) {
    hl_buf_printf(&m->text, "%s%u operands -> %u", between, x->n_operands, y->n_operands);
    return true;
  }
  if (x->n_operands == 2 && operand_is(match, a, 0, b, 1) && operand_is(match, a, 1, b, 0) &&
      !operand_is(match, a, 0, b, 0)) {
    hl_buf_printf(&m->text, "%soperands swapped", between);
    return true;
  }
  for (uint32_t k = 0; k < x->n_operands; k++) {
    if (operand_is(match, a, k, b, k))
      continue;
    hl_buf_printf(&m->text, "%soperand %u: %s -> %s", m->text.n ? "; " : "", k,
                  x->operands[k]->name->text, y->operands[k]->name->text);
    any = true;
  }
  return any;
}

// Between stages metadata differs by what passes make of it.
static uint32_t stage_ignores(const DiffMatch *match) {
  return match->stages ? HL_DIFF_METADATA | HL_DIFF_CONTROL : 0;
}

static uint32_t pair_what(Maker *m, int a, int b, size_t *n) {
  const DiffMatch *match = m->match;
  const HlInst *x = match->a.node[a].inst, *y = match->b.node[b].inst;
  uint32_t ignore = match->ignore | stage_ignores(match);
  m->text.n = 0;
  if (is_wire(match, a) && x->op == HL_OP_PARAMETER)
    ignore |= HL_DIFF_ATTRIBUTES;  // its number in a fusion says nothing
  uint32_t what = diff_what(x, y, ignore, NULL);
  if (what)
    diff_what(x, y, ignore, &m->text);
  *n = m->text.n;
  if (match->stages && !(ignore & HL_DIFF_OPERANDS) && !is_wire(match, a) &&
      stage_operands_differ(m, a, b)) {
    hl_buf_printf(&m->text, "%sother operands", m->text.n ? "; " : "");
    what |= HL_DIFF_OPERANDS;
  }
  if (!match->stages && !(ignore & HL_DIFF_OPERANDS) && operands_differ(m, a, b))
    what |= HL_DIFF_OPERANDS;
  if (m->reordered && m->reordered[a] && !(ignore & HL_DIFF_ORDER)) {
    hl_buf_printf(&m->text, "%sanother place in the schedule", m->text.n ? "; " : "");
    what |= HL_DIFF_ORDER;
  }
  return what;
}

static void add_pair(Maker *m, int a, int b, HlDiffBy by) {
  const DiffMatch *match = m->match;
  int into;
  size_t n;
  HlDiffRow row = {.a = match->a.node[a].inst, .b = match->b.node[b].inst, .by = by};
  row.what = pair_what(m, a, b, &n);
  row.verdict = place_verdict(match, a, b, &into);
  if (is_wire(match, a) && row.a->op == HL_OP_PARAMETER && row.verdict == HL_DIFF_FUSED)
    row.verdict = in_call(&match->a, a) ? HL_DIFF_INLINED : HL_DIFF_MOVED;
  if (row.verdict == HL_DIFF_SAME && row.what)
    row.verdict = row.what == HL_DIFF_ORDER ? HL_DIFF_MOVED : HL_DIFF_CHANGED;
  if (into != DIFF_NONE)
    row.into = match->b.node[into].inst;
  if (row.verdict == HL_DIFF_MOVED && row.what != HL_DIFF_ORDER) {
    hl_buf_printf(&m->text, "%sfrom %s to %s", m->text.n ? "; " : "", row.a->comp->name->text,
                  row.b->comp->name->text);
  }
  m->row_a[a] = m->row_b[b] = add_row(m, &row, signature_of(m, &row, n));
}

// A node of a without a partner of its own, in a comparison of stages.
static void add_fate(Maker *m, int a) {
  const DiffMatch *match = m->match;
  const DiffFate *fate = &m->fate[a];
  HlDiffRow row = {
      .a = match->a.node[a].inst, .verdict = (HlVerdict)fate->verdict, .by = (HlDiffBy)fate->by};
  int into = DIFF_NONE;
  m->text.n = 0;
  if (fate->into != DIFF_NONE) {
    const HlInst *b = match->b.node[fate->into].inst;
    row.into = b;
    if (fate->shares) {
      row.b = b;
      const bool goes = goes_with_caller(match, a, fate->into);
      const HlVerdict place = goes ? HL_DIFF_SAME : place_verdict(match, a, fate->into, &into);
      row.verdict = place == HL_DIFF_SAME && fate->by == HL_BY_METADATA ? HL_DIFF_CHANGED : place;
      row.into = into != DIFF_NONE ? match->b.node[into].inst : NULL;
      row.what = diff_what(row.a, b, match->ignore | stage_ignores(match), NULL);
      hl_buf_puts(&m->text, fate->by == HL_BY_METADATA ? "rewritten"
                            : is_wire(match, a)        ? "its value is handed on directly"
                                                       : "one with its equals");
    }
  } else {
    hl_buf_puts(&m->text, fate->by == HL_BY_NOTHING ? "the result does not need it" : "not found");
    row.by = HL_BY_NOTHING;
  }
  if (match->a.node[a].inst->op == HL_OP_CALL)
    row.verdict = HL_DIFF_INLINED;
  m->row_a[a] = add_row(m, &row, signature_of(m, &row, m->text.n));
}

// A fusion or call that is no more while what it held is there: of what hands a value on the verdict is about the value.
static void add_loose_wire(Maker *m, int a) {
  const DiffMatch *match = m->match;
  const DiffNode *node = &match->a.node[a];
  const int mate = match->a.mate[node->value];
  const bool of_call =
      node->inst->op == HL_OP_CALL || (node->inst->op == HL_OP_PARAMETER && in_call(&match->a, a));
  HlDiffRow row = {.a = node->inst,
                   .verdict = of_call && mate != DIFF_NONE ? HL_DIFF_INLINED : HL_DIFF_REMOVED};
  m->text.n = 0;
  if (mate != DIFF_NONE) {
    row.into = match->b.node[mate].inst;
    row.by = HL_BY_STRUCTURE;
    hl_buf_puts(&m->text, "its value is handed on directly");
  }
  m->row_a[a] = add_row(m, &row, signature_of(m, &row, m->text.n));
}

static void add_alone(Maker *m, int a) {
  if (m->match->stages)
    add_fate(m, a);
  else if (is_wire(m->match, a))
    add_loose_wire(m, a);
  else {
    const HlDiffRow row = {.a = m->match->a.node[a].inst, .verdict = HL_DIFF_REMOVED};
    m->text.n = 0;
    m->row_a[a] = add_row(m, &row, signature_of(m, &row, 0));
  }
}

static void add_new(Maker *m, int b) {
  const HlDiffRow row = {.b = m->match->b.node[b].inst, .verdict = HL_DIFF_ADDED};
  const int of = m->copy ? m->copy[b] : DIFF_NONE;
  m->text.n = 0;
  if (of >= 0)
    hl_buf_printf(&m->text, "another %s", m->match->a.node[of].inst->name->text);
  m->row_b[b] = add_row(m, &row, signature_of(m, &row, of >= 0 ? 7 : 0));
}

// --- Order ----------------------------------------------------------------------------------------

typedef struct Placed {
  int place, node;
} Placed;

static int by_place(const void *x, const void *y) {
  const Placed *a = x, *b = y;
  if (a->place != b->place)
    return a->place < b->place ? -1 : 1;
  return a->node < b->node ? -1 : a->node > b->node;
}

// The nodes of a side as their instructions are printed.
static int *printed_order(HlArena *arena, const DiffSide *side) {
  int **place = HL_ARRAY(arena, int *, side->m->next_comp_id + 1);
  HlComp **comps = hl_comp_order(arena, side->m);
  int n = 0;
  for (uint32_t k = 0; k < side->m->n_comps; k++) {
    const HlComp *comp = comps[k];
    HlInst **order = hl_print_order(arena, comp);
    place[comp->id] = HL_ARRAY(arena, int, comp->next_id + 1);
    for (uint32_t j = 0; j < comp->n_insts; j++)
      place[comp->id][order[j]->id] = n++;
  }
  Placed *nodes = HL_ARRAY(arena, Placed, side->n + 1);
  for (int k = 0; k < side->n; k++)
    nodes[k] = (Placed){place[side->node[k].inst->comp->id][side->node[k].inst->id], k};
  qsort(nodes, (size_t)side->n, sizeof *nodes, by_place);
  int *out = HL_ARRAY(arena, int, side->n + 1);
  for (int k = 0; k < side->n; k++)
    out[k] = nodes[k].node;
  return out;
}

// Of partners in the entries' schedules those that are not on a longest run that keeps its order.
static void find_reordered(Maker *m, HlArena *arena, const int *order_a, const int *order_b) {
  const DiffSide *a = &m->match->a, *b = &m->match->b;
  int *place = HL_ARRAY(arena, int, b->n + 1), *seq = HL_ARRAY(arena, int, a->n + 1);
  int *top = HL_ARRAY(arena, int, a->n + 1), *below = HL_ARRAY(arena, int, a->n + 1);
  int n = 0, piles = 0;
  m->reordered = HL_ARRAY(m->match->arena, bool, a->n + 1);
  for (int k = 0; k < b->n; k++)
    place[order_b[k]] = k;
  for (int k = 0; k < a->n; k++)
    if (a->node[order_a[k]].frame == 0 && a->mate[order_a[k]] != DIFF_NONE &&
        b->node[a->mate[order_a[k]]].frame == 0)
      seq[n++] = order_a[k];
#define AT(k) place[a->mate[seq[k]]]
  for (int k = 0; k < n; k++) {
    int low = 0, high = piles;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (AT(top[middle]) < AT(k))
        low = middle + 1;
      else
        high = middle;
    }
    below[k] = low > 0 ? top[low - 1] : DIFF_NONE;
    top[low] = k;
    piles += low == piles;
  }
#undef AT
  for (int k = 0; k < n; k++)
    m->reordered[seq[k]] = true;
  for (int k = piles > 0 ? top[piles - 1] : DIFF_NONE; k != DIFF_NONE; k = below[k])
    m->reordered[seq[k]] = false;
}

// --- Names ----------------------------------------------------------------------------------------

static bool renamed(const HlSym *a, const HlSym *b) {
  return a->n != b->n || memcmp(a->text, b->text, a->n) != 0;
}

static void count_names(Maker *m) {
  HlDiff *diff = m->diff;
  const DiffSide *a = &m->match->a, *b = &m->match->b;
  diff->module_renamed = renamed(a->m->name, b->m->name);
  for (int k = 0; k < m->rows.n; k++)
    if (m->rows.at[k].a && m->rows.at[k].b)
      diff->insts_renamed += renamed(m->rows.at[k].a->name, m->rows.at[k].b->name);
  for (int f = 0; f < a->n_frames; f++) {
    const DiffFrame *frame = &a->frame[f];
    const int mate = frame->caller == DIFF_NONE ? DIFF_NONE : a->mate[frame->caller];
    const HlComp *other = f == 0 ? b->m->entry : NULL;
    if (mate != DIFF_NONE && frame->number < b->node[mate].inst->n_calls)
      other = b->node[mate].inst->calls[frame->number].comp;
    diff->comps_renamed += other && renamed(frame->comp->name, other->name);
  }
}

// Partners, both of the entry, in the order in which either prints them.
static void count_order(Maker *m, HlArena *arena, const int *order_a, const int *order_b) {
  bool *before = m->reordered;
  find_reordered(m, arena, order_a, order_b);
  for (int k = 0; k < m->match->a.n; k++)
    m->diff->insts_reordered += m->reordered[k];
  m->reordered = before;
}

// --- All of it ------------------------------------------------------------------------------------

static void count_rows(HlDiff *diff) {
  for (int k = 0; k < diff->n_rows; k++) {
    diff->count[diff->row[k].verdict]++;
    for (int j = 0; j < HL_DIFF_WHATS; j++)
      diff->what[j] += diff->row[k].what >> j & 1;
  }
}

static int *no_rows(HlArena *arena, int n) {
  int *rows = HL_ARRAY(arena, int, n + 1);
  memset(rows, 0xff, sizeof *rows * (size_t)(n + 1));
  return rows;
}

static int *loose_values(HlArena *arena, DiffSide *side) {
  int *value = HL_ARRAY(arena, int, side->n + 1);
  diff_wire(side, true);
  for (int k = 0; k < side->n; k++)
    value[k] = side->node[k].value;
  diff_wire(side, false);
  return value;
}

void diff_rows(DiffMatch *match, HlDiff *diff) {
  HlArena *arena = hl_arena_new();
  Maker m = {.match = match, .diff = diff, .seen = {.arena = arena}};
  m.row_a = no_rows(arena, match->a.n);
  m.row_b = no_rows(arena, match->b.n);
  if (match->stages) {
    m.fate = diff_fates(match);
    m.copy = diff_copies(match);
    m.loose_a = loose_values(arena, &match->a);
    m.loose_b = loose_values(arena, &match->b);
  }
  const int *order_a = printed_order(arena, &match->a), *order_b = printed_order(arena, &match->b);
  if (match->a.m->is_scheduled && match->b.m->is_scheduled && !match->stages)
    find_reordered(&m, arena, order_a, order_b);
  for (int k = 0; k < match->a.n; k++) {
    const int a = order_a[k], b = match->a.mate[a];
    if (b != DIFF_NONE)
      add_pair(&m, a, b, (HlDiffBy)match->a.by[a]);
    else
      add_alone(&m, a);
  }
  for (int k = 0; k < match->b.n; k++)
    if (match->b.mate[order_b[k]] == DIFF_NONE)
      add_new(&m, order_b[k]);
  count_names(&m);
  count_order(&m, arena, order_a, order_b);
  diff->row = m.rows.at;
  diff->n_rows = m.rows.n;
  count_rows(diff);
  diff_group(match, diff, m.row_a, m.row_b, m.signatures.at);
  hl_buf_free(&m.text);
  hl_arena_free(arena);
}
