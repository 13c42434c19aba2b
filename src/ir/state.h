// ir/state.h: what modules and computations keep besides their public fields; private to src/ir.
#ifndef HILO_IR_STATE_H
#define HILO_IR_STATE_H

#include "base/undo.h"
#include "hilo/edit.h"
#include "hilo/ir.h"

typedef struct Names Names;  // names.c

// The marks that are open on a module (undo.c).
typedef struct Marks {
  BaseUndo undo;
  HlBuf open;       // of Mark
  uint32_t n_made;  // so far: their numbers
  // Of the newest:
  uint32_t number;
  uint64_t first_serial;  // instructions from here on are younger
  uint32_t first_comp;    // and computations
} Marks;

typedef struct ModuleState {
  HlModule m;      // first: a HlModule is always one of these
  HlBuf literals;  // of HlLiteral *: references to give back
  HlBuf metadata;  // of const HlMetadata *: an open-addressing table
  uint32_t n_metadata;
  Names *inst_names, *comp_names;  // NULL until somebody asks for a fresh name
  bool keeps_journal;
  Marks *marks;       // NULL: none is open. This and what follows is not undone
  Marks *idle_marks;  // memory for them
  uint64_t calls_made;
} ModuleState;

typedef struct CompState {
  HlComp comp;    // first
  HlBuf by_id;    // of HlInst *
  HlBuf op;       // of uint8_t by id
  HlBuf label;    // of uint64_t by id: place in the list; empty while ids say it
  HlBuf touched;  // of uint32_t: the journal
  size_t n_seen;  // entries of it that somebody has asked for
  int params_capacity;
  uint32_t noted;  // the mark since which it is noted as it was
} CompState;

static inline ModuleState *ir_module_state(const HlModule *m) {
  return (ModuleState *)m;
}
static inline CompState *ir_comp_state(const HlComp *comp) {
  return (CompState *)comp;
}

// --- What undo must know --------------------------------------------------------------------------
//
// While a mark is open, whatever is older than it is noted before it is written: the module's own fields when the mark is
// made, a computation's whole state with ir_note_comp, all else place by place with BASE_SET and base_undo_*. What is
// younger needs no note: it goes.

// Where to note what the module holds; NULL: no mark is open.
static inline BaseUndo *ir_undo(const HlModule *m) {
  return (BaseUndo *)ir_module_state(m)->marks;
}
// Where to note what an instruction holds; NULL also if it is younger than the mark.
static inline BaseUndo *ir_undo_of(const HlInst *inst) {
  const Marks *marks = ir_module_state(inst->comp->module)->marks;
  return HL_UNLIKELY(marks != NULL) && inst->serial < marks->first_serial ? (BaseUndo *)marks
                                                                          : NULL;
}
// Where to note what a computation's buffers hold; NULL also if it is younger.
static inline BaseUndo *ir_undo_comp(const HlComp *comp) {
  const Marks *marks = ir_module_state(comp->module)->marks;
  return HL_UNLIKELY(marks != NULL) && comp->id < marks->first_comp ? (BaseUndo *)marks : NULL;
}
// Some fields of the computation or its state are about to be written.
void ir_note_comp_state(HlComp *comp);
static inline void ir_note_comp(HlComp *comp) {
  if (HL_UNLIKELY(ir_module_state(comp->module)->marks != NULL))
    ir_note_comp_state(comp);
}

// A copy of a list of n in another module's arena; NULL for none.
#define COPY_LIST(to, T, list, n) ((T *)hl_arena_copy((to)->arena, (list), sizeof(T) * (size_t)(n)))

enum { IR_MARKED = 0x8000 };  // of HlInst.flags: scratch of one call into src/ir

// module.c
HlInst *ir_inst_alloc(HlComp *comp, HlOp op, int n_operands);  // with an id, in no list yet
void ir_op_note(const HlInst *inst);                           // the newest of its computation
void ir_list_append(HlComp *comp, HlInst *inst);
void ir_list_insert_after(HlComp *comp, HlInst *inst, HlInst *prev);  // prev NULL: first
void ir_list_remove(HlComp *comp, HlInst *inst);
void ir_params_note(HlInst *inst, int64_t number);
void ir_hold_literal(HlModule *m, const HlLiteral *literal);
// The newest reference to a literal is held by `holder`, a module's arena or a tuple, and the other way round: what a
// try that runs out of memory must know (base/memory.h).
void ir_literal_give(HlLiteral *literal, const void *holder);
void ir_literal_let_go(HlLiteral *literal, const void *holder);
// edit.c
void ir_use_add(HlInst *user, int number, HlInst *used);
void ir_calls_alloc(HlInst *inst, int n);  // room for n calls, which ir_call_add makes
void ir_call_add(HlInst *caller, int number, HlComp *comp);
// journal.c
void ir_touch_used(HlInst *used);  // which has lost a use
// topo.c: keeps definitions before uses
uint64_t ir_label(const HlInst *inst);
void ir_label_append(HlInst *inst);
void ir_put_before(HlInst *def, HlInst *user);
void ir_relabel(HlComp *comp);
// names.c
void ir_inst_name_note(HlModule *m, const HlSym *name);
void ir_comp_name_note(HlModule *m, const HlSym *name);
void ir_know_names(HlModule *m);                       // those there are
void ir_names_free(void *names);                       // a Names, or NULL
void ir_names_watch(Names *names, BaseUndo *undo);     // notes it as it is; NULL: it is noted no more
void ir_names_copy(HlModule *to, const HlModule *from);
HlArena *ir_names_arena(const Names *names);           // NULL: none
// shape.c
void ir_shapes_watch(HlShapes *shapes, BaseUndo *undo);
// undo.c
void ir_marks_free(ModuleState *state);
void ir_comp_made(HlComp *comp);                  // a new one
void ir_buf_drop(BaseUndo *undo, HlBuf *buf);     // frees it; with `undo` it stays for who goes back
// attrs.c
bool ir_attr_is_default(const HlAttr *attr);
// attr_copy.c: deep copies into a module
HlAttr ir_attr_copy(HlModule *to, const HlAttr *attr);
const HlSym *ir_sym_copy(HlModule *to, const HlSym *sym);
HlDict ir_dict_copy(HlModule *to, HlDict dict);
HlAliases ir_aliases_copy(HlModule *to, HlAliases aliases);
const HlOrigin *ir_origin_copy(HlModule *to, const HlOrigin *origin);
// attr_equal.c
bool ir_sym_equal(const HlSym *a, const HlSym *b);
bool ir_dict_equal(HlDict a, HlDict b);
uint64_t ir_dict_hash(HlDict dict);
bool ir_aliases_equal(HlAliases a, HlAliases b);
uint64_t ir_aliases_hash(HlAliases aliases);
uint64_t ir_ints_hash(HlI64s ints, uint64_t seed);
bool ir_mesh_equal(const HlMesh *a, const HlMesh *b);
bool ir_axes_equal(HlAxes a, HlAxes b);

#endif
