// hilo/view.h: pictures of modules: DOT for Graphviz, SVG, and a page that needs nothing else.
#ifndef HILO_VIEW_H
#define HILO_VIEW_H

#include "hilo/ir.h"

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
// A page with a picture of every computation that is no fusion body: pan, zoom, search, j and k to go from one to
// the next. It loads nothing from the network.
void hl_view_page(HlCx *cx, const HlModule *m, const HlViewOptions *options, HlBuf *out);
// The same with a frame for each instruction of the entry and what is two steps around it.
void hl_view_page_by_inst(HlCx *cx, const HlModule *m, HlBuf *out);

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
