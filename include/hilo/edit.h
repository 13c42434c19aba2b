// hilo/edit.h: the one door through which a module changes.
//
// Keeps uses, callers, orders and names right. Building appends in list order; where an operand
// defined later in the list comes to be used, the order is restored locally. Arguments are copied
// into the module unless said otherwise; strings, shapes and attribute values are interned or copied
// only where they are not the module's own already (`hl_set_attr` says more).
#ifndef HILO_EDIT_H
#define HILO_EDIT_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// An empty module. The source may be NULL; a reference to it is taken.
HlModule *hl_module_new(const char *name, HlSource *source);
// An empty computation at the end of the module's list (callees must come before callers: see
// hl_sort_comps). The name is used as it is: hl_unique_names repairs clashes.
HlComp *hl_comp_new(HlModule *m, const char *name, size_t name_length);
void hl_comp_set_entry(HlComp *comp);
void hl_comp_set_fusion(HlComp *comp);              // it is the body of a fusion
void hl_comp_set_thread(HlComp *comp, const HlSym *thread);  // execution_thread; NULL: main
void hl_comp_set_loc(HlComp *comp, HlLoc loc);
// Restores "callees before callers" in the module's list, stable; false (reported) on recursion.
bool hl_sort_comps(HlCx *cx, HlModule *m);
// Declares the order in which a computation's instructions were created (all n_insts of them): ids and
// `order` are numbered anew from 0. For readers of forms that keep that order beside the list's.
void hl_set_creation_order(HlComp *comp, HlInst *const *order);

// A new instruction at the end of the computation (operands must be of the same computation).
// `shape` must be interned in the module; `name` may be NULL: the opcode's text, made unique.
HlInst *hl_inst_new(HlComp *comp, HlOp op, const HlShape *shape, const HlSym *name,
                    int n_operands, HlInst *const *operands);
// Parameters register themselves with their computation under their number.
HlInst *hl_parameter_new(HlComp *comp, int64_t number, const HlShape *shape, const HlSym *name);
// The check that readers make of a finished computation: reports parameter numbers that are missing,
// doubled or out of range. (A number far beyond the number of instructions is not noted in `params`.)
bool hl_finish_params(HlCx *cx, HlComp *comp);
// Takes a new reference to the literal.
HlInst *hl_constant_new(HlComp *comp, const HlLiteral *literal, const HlSym *name);

// Sets one attribute (replacing an older one); a value equal to the row's default is dropped. The
// value must already live in the module's arena (ints, symbols, structs); a LITERAL is referenced
// anew and released with the module.
void hl_set_attr(HlInst *inst, const HlAttr *attr);
void hl_set_attrs(HlInst *inst, const HlAttr *attrs, int n);  // several at once, any order, defaults dropped
void hl_set_int(HlInst *inst, HlAttrKey key, int64_t value);
void hl_set_ints(HlInst *inst, HlAttrKey key, HlI64s value);  // copied
void hl_set_text(HlInst *inst, HlAttrKey key, const char *value);
void hl_remove_attr(HlInst *inst, HlAttrKey key);
// Copies all attributes (deep when the modules differ), not the computations.
void hl_copy_attrs(HlInst *to, const HlInst *from);
// Copies what goes along to a replacement: metadata, sharding, frontend attributes, location.
void hl_inherit(HlInst *to, const HlInst *from);

// The computations an instruction calls, in the order ir.h gives for `calls`; at most HL_MAX_CALLS
// (readers check), what is beyond is dropped.
enum { HL_MAX_CALLS = 65535 };
void hl_set_calls(HlInst *inst, int n, HlComp *const *comps);
void hl_set_operand(HlInst *inst, int number, HlInst *to);
void hl_set_operands(HlInst *inst, int n, HlInst *const *operands);
void hl_replace_uses(HlInst *of, HlInst *by);        // every use but by's own, and the root mark
void hl_add_control(HlInst *pred, HlInst *succ);     // no effect if there already
void hl_remove_control(HlInst *pred, HlInst *succ);
void hl_set_shape(HlInst *inst, const HlShape *shape);
void hl_set_root(HlComp *comp, HlInst *root);
bool hl_stands_before(const HlInst *a, const HlInst *b);  // in the list of their computation; in constant time
uint64_t hl_place(const HlInst *inst);               // a number that grows along the list; until the next edit
bool hl_listed_by_id(const HlComp *comp);            // ids grow along the list; false: perhaps not
void hl_set_name(HlInst *inst, const HlSym *name);
void hl_comp_set_name(HlComp *comp, const HlSym *name);
void hl_set_loc(HlInst *inst, HlLoc loc);
void hl_set_schedule(HlComp *comp, HlInst *const *order);  // n_insts of them; NULL drops it
// Removes an instruction that has no uses (control edges are joined across it).
void hl_erase(HlInst *inst);
// The same of a parameter; those after it move down by one number.
void hl_parameter_drop(HlInst *param);
// How many instructions are of an op of the set (NULL: of any). Forgets on the way ops that no longer stand in the computation.
size_t hl_comp_count_ops(HlComp *comp, const uint64_t *ops);
void hl_comp_erase(HlComp *comp);                    // and its instructions; nobody may call it

// Makes instruction names and computation names unique module-wide by XLA's rules (hlo.md 1.8), in
// list order of computations and creation order of instructions.
void hl_unique_names(HlModule *m);
// A name that no instruction of the module has, from a wish.
const HlSym *hl_fresh_name(HlModule *m, const char *wish);
// A computation name that no other has.
const HlSym *hl_fresh_comp_name(HlModule *m, const char *wish);
// The wish with what is not legal in a name replaced (hlo.md 1.8); in the arena, or `wish` itself.
HlStr hl_sanitise_name(HlArena *arena, HlStr wish);

// The journal. While a module keeps one, each computation lists the ids of its instructions that are made, get other
// operands, attributes, calls, control edges, another shape, become the root or cease to be, or (with HL_LOST_USE added)
// lose a use, in the order in which that happens. So whoever has seen a computation need only look
// at what was touched since. Ids may stand there several times; the instruction may have been erased.
void hl_journal(HlModule *m, bool keep);             // begins one that is empty, or ends it
enum { HL_LOST_USE = INT32_MIN };
typedef struct HlTouched {
  const uint32_t *id;
  size_t n;
} HlTouched;
HlTouched hl_touched(const HlComp *comp);            // valid until the next edit
// How many times an instruction has been made to call a computation; undoing does not lower it. As long as it stays, callees
// come before callers if they did.
uint64_t hl_calls_made(const HlModule *m);
void hl_touch(HlInst *inst);                         // lists it as if it had been edited
void hl_touched_cut(HlComp *comp, size_t n);         // forgets all but the first n: they were undone

// --- Going back -----------------------------------------------------------------------------------

// A point to which a module can go back. While one is open, every edit notes what was there before:
//
//   HlEditMark mark = hl_mark(m);
//   ... any edits, any passes ...
//   is_better(m) ? hl_forget(m, mark) : hl_undo(m, mark);
//
// Marks nest: both close theirs, and those opened since. After hl_undo the module is what it was, to the byte: text, protos,
// hash, order of the list, of creation and of uses, ids, serials, schedule, header, journal, names already taken, references to literals, and
// the arena, which is cut back. So whatever was got from the module since the mark is gone: instructions, but also shapes,
// symbols and attributes that were not there before. What was erased since is there again, at its address.
// Going back takes as long as the edits took; with no mark open, edits cost what they always did.
// Not undone: what passes and callers keep beside the module, and hl_compact, which may not be called meanwhile.
typedef struct HlEditMark {
  size_t depth;
} HlEditMark;
HlEditMark hl_mark(HlModule *m);
void hl_undo(HlModule *m, HlEditMark mark);
void hl_forget(HlModule *m, HlEditMark mark);        // keeps what was done since
// Makes now what edits otherwise make when they first need it: the names there are, the places of instructions in
// their lists. For who opens many marks in a row, in each of which it would be made anew.
void hl_prepare_marks(HlModule *m);

// --- Compacting -------------------------------------------------------------------------------------

// What became of instructions and computations, by the ids they had; NULL: nothing of that id was alive.
typedef struct HlMoved {
  HlComp *const *comp;                 // [comp->id]
  HlInst *const *const *inst;          // [comp->id][inst->id]
} HlMoved;
// Moves what is alive into a fresh arena and frees the old one with all that had piled up in it. The module keeps its address,
// serials, orders and the names it has given; every other pointer into it is void, and ids are dense anew. `moved` says what became
// what: its lists live in `arena`; it may be NULL. No mark may be open, no pass be running, and no hl_try that began after the module was made. False: reported,
// nothing has changed.
bool hl_compact(HlCx *cx, HlModule *m, HlArena *arena, HlMoved *moved);
size_t hl_module_bytes(const HlModule *m);           // of memory that it holds, literals and source apart

const HlSym *hl_sym(HlModule *m, const char *text);  // interned in the module
const HlMetadata *hl_intern_metadata(HlModule *m, const HlMetadata *metadata);  // its symbols must be the module's
// Puts the modules's frames into the canonical order XLA gives them on load (hlo.md 1.4): only those
// reachable from instructions, oldest ancestor first; metadata ids are rewritten; bad ids become 0.
void hl_intern_frames(HlModule *m);

// --- The module's header --------------------------------------------------------------------------

// Lists are copied; what they point to (names, indices, shapes, shardings) must live in the module.
void hl_module_set_name(HlModule *m, const HlSym *name);
void hl_module_set_loc(HlModule *m, HlLoc loc);
void hl_set_scheduled(HlModule *m, bool scheduled);  // the orders themselves: hl_set_schedule
void hl_set_devices(HlModule *m, int64_t replicas, int64_t partitions);
void hl_set_passthrough(HlModule *m, bool passthrough);                // alias_passthrough_params
void hl_set_spmd_propagation(HlModule *m, HlI64s to_parameters, HlI64s to_output);  // 0 or 1 each
void hl_set_dynamic(HlModule *m, bool is_dynamic);                     // these three are carried from and to protos
void hl_set_auto_spmd(HlModule *m, bool use);
void hl_set_proto_id(HlModule *m, int64_t id);
// The release in whose HLO the module is written, and whether with elements of tuples inside operands; readers say what
// they have read.
void hl_set_dialect(HlModule *m, HlDialect dialect);
void hl_set_tuple_elements(HlModule *m, bool inside);
void hl_set_debug(HlModule *m, int n, const HlDebugRow *rows);         // debug_attributes, which are sorted
void hl_set_frames(HlModule *m, const HlFrames *frames);               // its lists are taken over, not copied
void hl_set_recovery(HlModule *m, int n, const HlRecovery *rows);      // and the rows' modules
void hl_set_module_attributes(HlModule *m, HlDict attributes);  // frontend_attributes
// Which results may or must take which parameters' buffers. Put into the header's order: by output.
void hl_set_aliases(HlModule *m, int n, const HlAlias *alias);
void hl_set_donors(HlModule *m, int n, const HlDonor *donor);
// The entry's interface: n shapes of parameters, the result's. NULL: as the entry itself has them.
void hl_set_entry_layout(HlModule *m, int n, const HlShape *const *params, const HlShape *result);
// Sets of the entry layout what is not set, from the entry's parameters and root.
void hl_complete_entry_layout(HlModule *m);
// Gives the entry's parameters and result the default layouts, whatever was written: what PJRT's clients (JAX) ask
// of the compiler when they say nothing.
void hl_default_entry_layout(HlModule *m);
// How the parameters and the result were cut before partitioning; an entry may be NULL.
void hl_set_spmd_shardings(HlModule *m, int n, const HlSharding *const *params, const HlSharding *result);
// Drops all that the header says of the entry, for a module that gets another one: layouts, aliases, donors, shardings,
// schedule.
void hl_forget_interface(HlModule *m);

#ifdef __cplusplus
}
#endif
#endif
