// hilo/view.h: pictures of modules: DOT for Graphviz, SVG, and a page that needs nothing else.
#ifndef HILO_VIEW_H
#define HILO_VIEW_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlViewOptions {
  bool closed_fusions;         // a fusion is one node; else its body is drawn in a box
  bool names_only;             // no shapes and attributes in the nodes
  const HlInst *centre;        // only what is near this instruction; NULL: all
  int radius;                  // how near: steps over operands and users
  const bool *only;            // in place of that, by id: these of the centre's computation; NULL: what is near
  int max_nodes;               // fewer steps where there would be more; 0: any number
  const HlInst *marked;        // painted red; NULL: none
} HlViewOptions;

// All append to `out`. Node ids are the instructions' names, so that two pictures of one module agree.
// A computation with what it calls in boxes, as a DOT digraph.
void hl_view_dot(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out);
// The same laid out, as an SVG picture.
void hl_view_svg(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out);
// A page that opens on a map of the module (hl_map_page_new); with `centre` it opens there. It loads nothing from the network.
void hl_view_page(HlCx *cx, const HlModule *m, const HlViewOptions *options, HlBuf *out);
// A page of pictures: a frame for each instruction of the entry and what is two steps around it.
void hl_view_page_by_inst(HlCx *cx, const HlModule *m, HlBuf *out);
// The module as a graph collection of Model Explorer, a JSON text: a graph a computation, scopes as namespaces.
void hl_view_model_explorer(HlCx *cx, const HlModule *m, HlBuf *out);

// --- The map ---------------------------------------------------------------------------------------------------------

// What a computation is made of: a tree of groups, of which each instruction is in one. Groups are scopes (the paths in
// `op_name`), what stands there several times in equal form, and, where neither says more, runs of instructions.
typedef enum HlGroupKind {
  HL_GROUP_TOP,                // the computation
  HL_GROUP_SCOPE,              // its label is the scope's name
  HL_GROUP_REPEAT,             // its groups are equal but for the values of constants
  HL_GROUP_ALIKE,              // its groups are of one name or of the same ops, yet differ
  HL_GROUP_UNIT,               // a part that is repeated, where no scope is
  HL_GROUP_PIECE,              // hangs together, and with the rest of its parent only through scalars
  HL_GROUP_RUN,                // instructions in a row
  HL_GROUP_PARAMETERS          // those used in several groups
} HlGroupKind;

typedef struct HlGroup {
  HlGroupKind kind;
  int parent;                  // -1: of the top
  int copies;                  // of REPEAT and ALIKE: groups in it, else 1
  int n_insts;                 // in it and in the groups in it
  const char *label;
} HlGroup;

typedef struct HlMap {
  const HlComp *comp;
  HlGroup *group;              // parents before their children, these in order of execution
  int n_groups;
  int *of;                     // the group of an instruction, by inst->id
} HlMap;
HlMap *hl_map_new(HlArena *arena, const HlComp *comp);
// The map of every computation that is no fusion body and not small, as indented text.
void hl_map_print(const HlModule *m, HlBuf *out);

// What became of an instruction from one state of a module to the next.
typedef enum HlMarkKind {
  HL_MARK_NONE, HL_MARK_CHANGED, HL_MARK_MOVED, HL_MARK_NEW, HL_MARK_GONE, HL_MARK_FUSED, HL_MARK_FOLDED, HL_MARK_INLINED,
  HL_MARK_COUNT
} HlMarkKind;
typedef struct HlViewMark {
  HlMarkKind kind;
  const char *inst, *comp;     // names; comp NULL: the instruction's alone tells
  const char *partner;         // of the other state, or NULL
  const char *note;            // words for people, or NULL
} HlViewMark;
const char *hl_mark_word(HlMarkKind kind);        // "changed"; "" of NONE
// What changed between two modules, by names and then by structure: marks of instructions of `before` (gone, changed, fused)
// and of `after` (new, changed, moved), in the arena.
void hl_view_changes(HlArena *arena, const HlModule *before, const HlModule *after, HlViewMark **in_before, int *n_before,
                     HlViewMark **in_after, int *n_after);
// The same from JSON text (docs/view.md, "Overlays"); false after reporting.
bool hl_view_read_overlay(HlCx *cx, HlArena *arena, HlSource *source, HlViewMark **in_before, int *n_before,
                          HlViewMark **in_after, int *n_after);

// A page of maps: of one module, or of its states one after the other, between which a slider goes. Search, costs, times on a
// target, what changed; all in the page, which loads nothing. States that are alike take little room.
typedef struct HlMapPage HlMapPage;
HlMapPage *hl_map_page_new(const char *title, const HlTarget *target);  // NULL: no times
void hl_map_page_free(HlMapPage *page);           // NULL is fine
// Adds a state, as the module is now. Marks colour it; `before` those of the state added last, seen from this one.
void hl_map_page_add(HlCx *cx, HlMapPage *page, const HlModule *m, const char *title, const HlViewMark *marks, int n_marks);
void hl_map_page_mark_last(HlMapPage *page, const HlViewMark *marks, int n_marks);
// The instruction to open on.
void hl_map_page_open(HlMapPage *page, const char *inst);
void hl_map_page_print(const HlMapPage *page, HlBuf *out);

// --- Pages of pictures -----------------------------------------------------------------------------------------------

// A page made frame by frame, each drawn as the module is then.
typedef struct HlPage HlPage;
HlPage *hl_page_new(const char *title);
void hl_page_free(HlPage *page);  // NULL is fine
void hl_page_add(HlCx *cx, HlPage *page, const HlComp *comp, const HlViewOptions *options, const char *title);
void hl_page_print(const HlPage *page, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
