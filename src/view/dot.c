// view/dot.c: a computation as a DOT graph, for Graphviz.

#include <string.h>

#include "view/graph.h"

static void html_text(HlBuf *out, const char *text) {
  HlArena *arena = hl_arena_new();
  for (size_t n; *text; text += n) {
    n = strcspn(text, "\n");
    hl_buf_xml(out, hl_arena_strndup(arena, text, n));
    n += text[n] == '\n';
    if (n > 0 && text[n - 1] == '\n')
      hl_buf_puts(out, "<br/>");
  }
  hl_arena_free(arena);
}

static void put_id(HlBuf *out, const HlInst *inst) {
  hl_buf_puts(out, "\"");
  hl_buf_c_escape(out, inst->name->text, inst->name->n);
  hl_buf_puts(out, "\"");
}

static void put_node(HlBuf *out, const ViewNode *node) {
  put_id(out, node->inst);
  hl_buf_puts(out, " [label=<");
  for (int k = 0; k < node->n_lines; k++) {
    hl_buf_puts(out, k == 0 ? "<b>" : "<br/>");
    html_text(out, node->line[k]);
    hl_buf_puts(out, k == 0 ? "</b>" : "");
  }
  hl_buf_printf(out,
                ">, shape=%s, style=\"filled\", fillcolor=\"%s\", color=\"%s\", "
                "fontcolor=\"%s\", tooltip=\"",
                node->ellipse ? "ellipse" : "rect", node->colours->fill, node->colours->border,
                node->colours->text);
  html_text(out, *node->hint ? node->hint : " ");
  hl_buf_puts(out, "\"];\n");
}

// Where the edges of a node with a body end: at the body's parameter, and start: at its root.
static const HlInst *head_of(const ViewNode *node, int operand) {
  const HlComp *body = node->inside ? node->inside->comp : NULL;
  if (!body || operand < 0 || operand >= body->n_params || !body->params[operand])
    return node->inst;
  return body->params[operand];
}

static const HlInst *tail_of(const ViewNode *node) {
  while (node->inside) {
    const ViewGraph *g = node->inside;
    const ViewNode *root = NULL;
    for (int k = 0; k < g->n_nodes; k++)
      if (g->nodes[k].is_root)
        root = &g->nodes[k];
    if (!root)
      break;
    node = root;
  }
  return node->inst;
}

static void put_edge(HlBuf *out, const ViewGraph *g, const ViewEdge *edge) {
  put_id(out, tail_of(&g->nodes[edge->from]));
  hl_buf_puts(out, " -> ");
  put_id(out, head_of(&g->nodes[edge->to], edge->operand));
  if (edge->operand < 0)
    hl_buf_puts(out, " [style=\"dotted\" color=\"gray\" label=\"ctrl\"");
  else
    hl_buf_printf(out, " [arrowhead=%s", edge->small ? "empty" : "normal");
  if (edge->operand >= 0 && edge->several)
    hl_buf_printf(out, " headlabel=\"%d\"", edge->operand);
  hl_buf_puts(out, "];\n");
}

static void put_graph(HlBuf *out, const ViewGraph *g) {
  for (int k = 0; k < g->n_nodes; k++) {
    const ViewNode *node = &g->nodes[k];
    if (!node->inside) {
      put_node(out, node);
      continue;
    }
    hl_buf_puts(out, "subgraph \"cluster_");
    hl_buf_c_escape(out, node->inst->name->text, node->inst->name->n);
    hl_buf_puts(out, "\" {\nstyle=\"rounded,filled,bold\"; fillcolor=\"#f5f5f5\"; "
                     "color=\"#c2c2c2\";\nlabel=<<b>");
    html_text(out, node->inside->title);
    hl_buf_puts(out, "</b>>;\nlabelloc=t;\n");
    put_graph(out, node->inside);
    hl_buf_puts(out, "}\n");
  }
  for (int k = 0; k < g->n_edges; k++)
    put_edge(out, g, &g->edges[k]);
}

void hl_view_dot(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const ViewGraph *g = view_graph(cx, arena, comp, options);
  hl_buf_puts(out, "digraph G {\nrankdir = TB;\ncompound = true;\nlabel = <<b>");
  html_text(out, g->title);
  hl_buf_puts(out, "</b>>;\nlabelloc = t;\ntooltip = \" \";\n");
  put_graph(out, g);
  if (comp->root)
    hl_buf_printf(out, "\"ROOT\" [shape=circle, style=filled, fillcolor=\"#bcaaa4\"];\n");
  for (int k = 0; k < g->n_nodes; k++)
    if (g->nodes[k].is_root) {
      put_id(out, tail_of(&g->nodes[k]));
      hl_buf_puts(out, " -> \"ROOT\";\n");
    }
  hl_buf_puts(out, "}\n");
  hl_arena_free(arena);
}
