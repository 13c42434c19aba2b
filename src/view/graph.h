// view/graph.h: what is drawn of a computation: nodes with their words and colours, edges, boxes.
#ifndef VIEW_GRAPH_H
#define VIEW_GRAPH_H

#include "hilo/view.h"

typedef struct ViewColours {
  const char *fill, *border, *text;
} ViewColours;

typedef struct ViewGraph ViewGraph;

typedef struct ViewNode {
  const HlInst *inst;
  const char **line;  // the first is bold
  int n_lines;
  const ViewColours *colours;
  bool ellipse, is_root;
  const char *hint;   // shown when pointed at
  ViewGraph *inside;  // the body of a fusion or of a called computation, or NULL
  int rank;           // layout: the row, 0 on top
  double x, y, w, h;  // layout: centre and size
} ViewNode;

typedef struct ViewEdge {
  int from, to;  // nodes of the graph
  int operand;   // its number; -1: a control edge, -2: a called computation's root
  bool small;    // of a small array
  bool several;  // the user has several operands: the number is worth saying
} ViewEdge;

struct ViewGraph {
  const HlComp *comp;
  const char *title;
  ViewNode *nodes;
  int n_nodes;
  ViewEdge *edges;
  int n_edges;
  double w, h;  // layout
};

// Which colour an instruction has, as a number: white 0, yellow, green, dark blue, orange, dark orange, purple, grey, brown,
// dark green 9 (the page's scripts have the colours).
int view_colour_class(const HlInst *inst);
ViewGraph *view_graph(HlCx *cx, HlArena *arena, const HlComp *comp, const HlViewOptions *options);
// Gives nodes places and the graph its size, insides first.
void view_layout(HlArena *arena, ViewGraph *graph);

#endif
