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
} HlViewOptions;

// All append to `out`. Node ids are the instructions' names, so that two pictures of one module agree.
// A computation with what it calls in boxes, as a DOT digraph.
void hl_view_dot(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out);
// The same laid out, as an SVG picture.
void hl_view_svg(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out);
// A page with a picture of every computation that is no fusion body: pan, zoom, search, j and k to go from one to
// the next. It loads nothing from the network.
void hl_view_page(HlCx *cx, const HlModule *m, const HlViewOptions *options, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
