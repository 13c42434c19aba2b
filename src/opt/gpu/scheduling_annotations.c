// opt/gpu/scheduling_annotations.c
//
// legalize-scheduling-annotations: makes what the program says of groups that are to be scheduled together something
// that a scheduler can do. The frontend attribute _scheduling_group_id says "3", or "3:1" for an iteration of a loop.
//
//   s = all-gather-start(x)  {group 3}            s = all-gather-start(x)  {group 3}
//   b = bitcast(s)                          =>    b = bitcast(s)           {group 3}
//   d = all-gather-done(b)   {group 3}            d = all-gather-done(b)   {group 3}
//   y = negate(d)            {group 3}            y = negate(d)
//
// - Groups keep what runs beside other work, and matrix products; the group "noop" is none.
// - A fusion of Triton's takes the group that is said of something inside it.
// - A group with no exchange in it is dropped.
// - What stands alone between two members, with no other operand and user, becomes one.
//
// Errors are: numbers that are none, a done in another group than its start, and members one of which needs
// another by way of something outside the group.

#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

static const char attribute[] = "_scheduling_group_id";

typedef struct Annotation {
  bool has_group, has_iteration;
  int64_t group, iteration;
} Annotation;

typedef struct Note {
  HlInst *inst;
  Annotation says;
} Note;

typedef struct Notes {
  HlPass *p;
  Note *at;
  int n, room;
} Notes;

// --- Reading ------------------------------------------------------------------------------------

static bool read_number(const char *text, size_t length, bool *has, int64_t *out) {
  *has = length > 0;
  if (length == 0)
    return true;
  char *end;
  *out = strtoll(text, &end, 10);
  return end == text + length;
}

static bool read_annotation(HlPass *p, const HlInst *inst, Annotation *out) {
  const char *text = frontend_get(inst, attribute);
  const size_t length = strcspn(text, ":");
  const char *iteration = text[length] == ':' ? text + length + 1 : "";
  *out = (Annotation){0};
  if (read_number(text, length, &out->has_group, &out->group) && out->group >= 0 &&
      read_number(iteration, strlen(iteration), &out->has_iteration, &out->iteration))
    return true;
  return hl_error(p->cx, hl_pos(inst), "'%s' is no scheduling group of %s: N or N:ITERATION", text,
                  inst->name->text);
}

static int compare(const Annotation *a, const Annotation *b) {
  if (a->has_group != b->has_group)
    return a->has_group - b->has_group;
  if (a->group != b->group)
    return a->group < b->group ? -1 : 1;
  if (a->has_iteration != b->has_iteration)
    return a->has_iteration - b->has_iteration;
  return a->iteration != b->iteration ? (a->iteration < b->iteration ? -1 : 1) : 0;
}

static void drop(HlPass *p, HlInst *inst) {
  if (!hl_change(p, "drop", inst, NULL))
    return;
  frontend_remove(inst, attribute);
  hl_changed(p);
}

static void add_note(Notes *notes, HlInst *inst, const Annotation *says) {
  if (notes->n == notes->room) {
    const Note *old = notes->at;
    notes->room = 2 * notes->room + 8;
    notes->at = HL_ARRAY(notes->p->arena, Note, notes->room);
    if (notes->n > 0)
      memcpy(notes->at, old, (size_t)notes->n * sizeof *old);
  }
  notes->at[notes->n++] = (Note){inst, *says};
}

// --- What may be in a group -----------------------------------------------------------------------

static bool only_copies(const HlInst *inst) {
  while (inst->op != HL_OP_ASYNC_START && inst->n_operands > 0)
    inst = inst->operands[0];
  if (inst->op != HL_OP_ASYNC_START)
    return false;
  const HlComp *comp = hl_called(inst, 0);
  if (comp->root->n_calls > 0)
    comp = hl_called(comp->root, 0);
  for (const HlInst *part = comp->first; part; part = part->next)
    if (part->op != HL_OP_COPY && part->op != HL_OP_PARAMETER)
      return false;
  return true;
}

static bool is_exchange(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return hl_op_is(op, HL_T_COLLECTIVE) && !hl_is_async(op) && op != HL_OP_ALL_TO_ALL &&
         op != HL_OP_COLLECTIVE_BROADCAST;
}

static bool runs_beside(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_ASYNC_UPDATE || hl_op_plain(op) == HL_OP_COPY)
    return false;
  return hl_is_async(op) && (!hl_op_is(op, HL_T_ASYNC) || !only_copies(inst));
}

static bool is_matrix_product(HlPass *p, const HlInst *inst) {
  if (inst->op == HL_OP_CUSTOM_CALL)
    return hl_is_call(inst, HL_CALL_CUBLAS_GEMM);
  return triton_is_gemm(p, inst);
}

static bool find_notes(Notes *notes) {
  HlPass *p = notes->p;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next) {
      if (!frontend_has(inst, attribute))
        continue;
      Annotation says;
      const bool keeps = strcmp(frontend_get(inst, attribute), "noop") != 0 &&
                         (runs_beside(inst) || is_matrix_product(p, inst));
      if (!keeps)
        drop(p, inst);
      else if (read_annotation(p, inst, &says))
        add_note(notes, inst, &says);
      else
        return false;
    }
  return true;
}

// --- Fusions ------------------------------------------------------------------------------------

static bool haul(HlPass *p, HlInst *fusion) {
  const HlInst *found = NULL;
  Annotation says, other;
  for (const HlInst *inst = hl_called(fusion, 0)->first; inst; inst = inst->next) {
    const char *text = frontend_get(inst, attribute);
    if (!frontend_has(inst, attribute) || strcmp(text, "noop") == 0)
      continue;
    if (!read_annotation(p, inst, found ? &other : &says))
      return false;
    if (found && compare(&says, &other) != 0)
      return hl_error(p->cx, hl_pos(inst),
                      "%s and %s in fusion %s are in different scheduling groups",
                      found->name->text, inst->name->text, fusion->name->text);
    found = inst;
  }
  if (found && hl_change(p, "haul", fusion, NULL)) {
    frontend_set(fusion, fusion, attribute, frontend_get(found, attribute));
    hl_changed(p);
  }
  return true;
}

static bool haul_all(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION && is_matrix_product(p, inst) &&
          !frontend_has(inst, attribute) && !haul(p, inst))
        return false;
  return true;
}

// --- Groups -------------------------------------------------------------------------------------

static int by_group(const void *a, const void *b) {
  const Note *x = a, *y = b;
  if (x->says.has_group != y->says.has_group)
    return x->says.has_group - y->says.has_group;
  return x->says.group != y->says.group ? (x->says.group < y->says.group ? -1 : 1) : 0;
}

// Takes away groups without an exchange; the notes of the others stay, in another order.
static void drop_groups(Notes *notes) {
  qsort(notes->at, (size_t)notes->n, sizeof *notes->at, by_group);
  int n = 0;
  for (int k = 0, end; k < notes->n; k = end) {
    bool any = !notes->at[k].says.has_group;
    for (end = k; end < notes->n && by_group(&notes->at[k], &notes->at[end]) == 0; end++)
      any |= is_exchange(notes->at[end].inst) || runs_beside(notes->at[end].inst);
    for (int j = k; j < end; j++)
      if (any)
        notes->at[n++] = notes->at[j];
      else
        drop(notes->p, notes->at[j].inst);
  }
  notes->n = n;
}

static int by_place(const void *a, const void *b) {
  const Note *x = a, *y = b;
  if (x->inst->comp != y->inst->comp)
    return x->inst->comp->id < y->inst->comp->id ? -1 : 1;
  return compare(&x->says, &y->says);
}

// The notes of one computation, those that say the same side by side.
typedef struct Members {
  Notes *notes;
  HlComp *comp;
  int first, end;  // in the notes
  int *of;         // by id: 1 + the number of what is said of it; 0: nothing
  int n;           // different things that are said
} Members;

static Members read_members(Notes *notes, int first) {
  HlComp *comp = notes->at[first].inst->comp;
  Members m = {notes, comp, first, first, HL_ARRAY(notes->p->arena, int, comp->next_id + 1), 0};
  for (; m.end < notes->n && notes->at[m.end].inst->comp == comp; m.end++) {
    m.n += m.end == first || compare(&notes->at[m.end - 1].says, &notes->at[m.end].says) != 0;
    m.of[notes->at[m.end].inst->id] = m.n;
  }
  return m;
}

static bool is_done(const HlInst *inst) {
  const HlOp plain = hl_op_plain((HlOp)inst->op);
  return hl_op_half((HlOp)inst->op) == HL_HALF_DONE &&
         hl_op_is(plain, HL_T_COLLECTIVE | HL_T_ASYNC);
}

static bool halves_agree(const Members *m) {
  for (int k = m->first; k < m->end; k++) {
    const HlInst *done = m->notes->at[k].inst;
    if (is_done(done) && m->of[done->operands[0]->id] != m->of[done->id])
      return hl_error(m->notes->p->cx, hl_pos(done),
                      "%s is in scheduling group %s, what it waits for, %s, is not",
                      done->name->text, frontend_get(done, attribute),
                      done->operands[0]->name->text);
  }
  return true;
}

// The only instruction that uses it, if it uses nothing else; NULL otherwise.
static HlInst *next_in_chain(const HlInst *inst) {
  const HlUse *use = inst->first_use;
  return use && use == inst->last_use && use->user->n_operands == 1 ? use->user : NULL;
}

static void fill_after(Members *m, const HlInst *member) {
  HlPass *p = m->notes->p;
  const int number = m->of[member->id];
  HlInst *first = next_in_chain(member), *end = first;
  if (!first || m->of[first->id])
    return;
  while (end && !m->of[end->id])
    end = next_in_chain(end);
  if (!end || m->of[end->id] != number)
    return;
  // A chain that could be filled is no gap, filled or not.
  for (HlInst *gap = first; gap != end; gap = next_in_chain(gap))
    m->of[gap->id] = number;
  if (!hl_change(p, "fill", first, member))
    return;
  for (HlInst *gap = first; gap != end; gap = next_in_chain(gap))
    frontend_set(gap, gap, attribute, frontend_get(member, attribute));
  hl_changed(p);
}

// --- Gaps ---------------------------------------------------------------------------------------

static bool report_gap(const Members *m, const HlInst *inst) {
  return hl_error(m->notes->p->cx, hl_pos(inst),
                  "scheduling group %s has a gap: %s needs a member by way of something outside",
                  frontend_get(inst, attribute), inst->name->text);
}

static uint64_t bit_of(const Members *m, const HlInst *inst, int base) {
  const int number = m->of[inst->id] - 1 - base;
  return number >= 0 && number < 64 ? (uint64_t)1 << number : 0;
}

// Looks at 64 groups at once: which of them did values leave on their way to an instruction?
static bool has_no_gap(const Members *m, HlInst *const *insts, int n, int base, uint64_t *left) {
  for (int k = 0; k < n; k++) {
    const HlInst *inst = insts[k];
    const uint64_t own = bit_of(m, inst, base);
    uint64_t on_way = 0;
    for (uint32_t j = 0; j < inst->n_operands; j++)
      on_way |= left[inst->operands[j]->id] | (bit_of(m, inst->operands[j], base) & ~own);
    for (int j = 0; inst->control && j < inst->control->n_preds; j++) {
      const HlInst *pred = inst->control->preds[j];
      on_way |= left[pred->id] | (bit_of(m, pred, base) & ~own);
    }
    if (on_way & own)
      return report_gap(m, inst);
    left[inst->id] = on_way;
  }
  return true;
}

static bool has_no_gaps(const Members *m) {
  HlPass *p = m->notes->p;
  int n;
  HlInst **insts = hl_pass_insts(p, m->comp, &n);
  uint64_t *left = HL_ARRAY(p->arena, uint64_t, m->comp->next_id + 1);
  for (int base = 0; base < m->n; base += 64)
    if (!has_no_gap(m, insts, n, base, left))
      return false;
  return true;
}

bool pass_legalize_scheduling_annotations(HlPass *p) {
  Notes notes = {.p = p};
  if (!find_notes(&notes) || !haul_all(p))
    return false;
  if (notes.n == 0)
    return true;
  qsort(notes.at, (size_t)notes.n, sizeof *notes.at, by_place);
  for (int k = 0; k < notes.n;) {
    const Members m = read_members(&notes, k);
    if (!halves_agree(&m))
      return false;
    k = m.end;
  }
  drop_groups(&notes);
  qsort(notes.at, (size_t)notes.n, sizeof *notes.at, by_place);
  for (int k = 0; k < notes.n;) {
    Members m = read_members(&notes, k);
    for (int j = m.first; j < m.end; j++)
      fill_after(&m, notes.at[j].inst);
    if (!has_no_gaps(&m))
      return false;
    k = m.end;
  }
  return true;
}
