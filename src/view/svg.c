// view/svg.c: a computation as an SVG picture, and pages of such pictures.

#include <string.h>

#include "view/graph.h"

// --- Pieces -------------------------------------------------------------------------------------

static void put_graph(HlBuf *out, const ViewGraph *g, double left, double top);

static void put_box(HlBuf *out, const ViewNode *node, double x, double y) {
  const ViewColours *c = node->colours;
  const char *fill = node->inside ? "#f5f5f5" : c->fill;
  if (node->ellipse)
    hl_buf_printf(
        out, "<ellipse cx=\"%.0f\" cy=\"%.0f\" rx=\"%.0f\" ry=\"%.0f\" fill=\"%s\" stroke=\"%s\"/>",
        x, y, node->w / 2, node->h / 2, fill, c->border);
  else
    hl_buf_printf(out,
                  "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"3\" fill=\"%s\" "
                  "stroke=\"%s\"%s/>",
                  x - node->w / 2, y - node->h / 2, node->w, node->h, fill,
                  node->is_root ? "#8c7b75" : c->border,
                  node->is_root ? " stroke-width=\"3\"" : "");
}

static void put_lines(HlBuf *out, const ViewNode *node, double x, double top) {
  for (int k = 0; k < node->n_lines; k++) {
    hl_buf_printf(out, "<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\"%s>", x, top + 14.0 * (k + 1),
                  node->inside ? "black" : node->colours->text, k == 0 ? " class=\"b\"" : "");
    hl_buf_xml(out, node->line[k]);
    hl_buf_puts(out, "</text>");
  }
}

static void put_node(HlBuf *out, const ViewNode *node, double left, double top) {
  double x = left + node->x, y = top + node->y;
  hl_buf_puts(out, "<g class=\"n\" id=\"");
  hl_buf_xml(out, node->inst->name->text);
  hl_buf_puts(out, "\"><title>");
  hl_buf_xml(out, node->inst->name->text);
  if (*node->hint) {
    hl_buf_putc(out, '\n');
    hl_buf_xml(out, node->hint);
  }
  hl_buf_puts(out, "</title>");
  put_box(out, node, x, y);
  put_lines(out, node, x, y - node->h / 2);
  if (node->inside)
    put_graph(out, node->inside, x - node->inside->w / 2,
              y - node->h / 2 + 14.0 * node->n_lines + 10);
  hl_buf_puts(out, "</g>\n");
}

static void put_edge(HlBuf *out, const ViewGraph *g, const ViewEdge *edge, double left,
                     double top) {
  const ViewNode *from = &g->nodes[edge->from], *to = &g->nodes[edge->to];
  double x0 = left + from->x, y0 = top + from->y + from->h / 2;
  double x1 = left + to->x, y1 = top + to->y - to->h / 2;
  if (edge->several && edge->operand >= 0 && to->inst->n_operands > 1)
    x1 += (to->w - 20) * ((edge->operand + 0.5) / to->inst->n_operands - 0.5);
  double bend = (y1 - y0) / 2;
  hl_buf_printf(out, "<path class=\"e%s\" data-f=\"", edge->operand < 0 ? " c" : "");
  hl_buf_xml(out, from->inst->name->text);
  hl_buf_puts(out, "\" data-t=\"");
  hl_buf_xml(out, to->inst->name->text);
  hl_buf_printf(out,
                "\" marker-end=\"url(#%s)\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>\n",
                edge->small ? "h" : "a", x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1);
}

static void put_graph(HlBuf *out, const ViewGraph *g, double left, double top) {
  for (int k = 0; k < g->n_edges; k++)
    put_edge(out, g, &g->edges[k], left, top);
  for (int k = 0; k < g->n_nodes; k++)
    put_node(out, &g->nodes[k], left, top);
}

static const char style[] = "text{font:12px sans-serif;text-anchor:middle}.b{font-weight:bold}"
                            ".e{fill:none;stroke:#616161}.c{stroke-dasharray:2 3}"
                            ".in{stroke:#d32f2f;stroke-width:3}.out{stroke:#1976d2;stroke-width:3}"
                            ".hit>rect,.hit>ellipse{stroke:#b71c1c;stroke-width:4}";

static void put_svg(HlBuf *out, const ViewGraph *g) {
  const double margin = 20;
  hl_buf_printf(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\">\n<style>%s</style>\n<defs>"
      "<marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
      "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#616161\"/></marker>"
      "<marker id=\"h\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
      "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"white\" "
      "stroke=\"#616161\"/></marker></defs>\n",
      g->w + 2 * margin, g->h + 2 * margin, g->w + 2 * margin, g->h + 2 * margin, style);
  put_graph(out, g, margin, margin);
  hl_buf_puts(out, "</svg>\n");
}

void hl_view_svg(HlCx *cx, const HlComp *comp, const HlViewOptions *options, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  ViewGraph *g = view_graph(cx, arena, comp, options);
  view_layout(arena, g);
  put_svg(out, g);
  hl_arena_free(arena);
}

// --- The page -----------------------------------------------------------------------------------

static const char page_style[] =
    "body{margin:0;font:14px sans-serif;display:flex;height:100vh}"
    "#list{width:240px;overflow:auto;border-right:1px solid #9e9e9e;padding:8px;flex:none}"
    "#list a{display:block;padding:2px;color:inherit;text-decoration:none}#list "
    ".on{background:#e0e0e0}"
    "#view{flex:1;overflow:hidden;cursor:grab;position:relative}.frame{display:none}.frame.on{"
    "display:block}"
    "svg{transform-origin:0 0}input{width:95%}";

static const char script[] =
    "const F=[...document.querySelectorAll('.frame')],L=[...document.querySelectorAll('#list "
    "a')],V=document.getElementById('view');"
    "let at=0,x=0,y=0,s=1;const cur=()=>F[at].querySelector('svg');"
    "const put=()=>{cur().style.transform=`translate(${x}px,${y}px) scale(${s})`};"
    "const "
    "show=k=>{if(k<0||k>=F.length)return;F[at].classList.remove('on');L[at].classList.remove('on');"
    "at=k;"
    "F[at].classList.add('on');L[at].classList.add('on');const "
    "b=cur();s=Math.min(1,V.clientWidth/b.width.baseVal.value);x=y=0;put()};"
    "L.forEach((a,k)=>a.onclick=e=>{e.preventDefault();show(k)});"
    "document.onkeydown=e=>{if(e.target.tagName=='INPUT')return;if(e.key=='j')show(at+1);if(e.key=="
    "'k')show(at-1)};"
    "V.onwheel=e=>{e.preventDefault();const "
    "f=e.deltaY<0?1.15:1/1.15,r=V.getBoundingClientRect(),a=e.clientX-r.left,b=e.clientY-r.top;"
    "x=a-(a-x)*f;y=b-(b-y)*f;s*=f;put()};"
    "V.onmousedown=e=>{let "
    "a=e.clientX-x,b=e.clientY-y;document.onmousemove=e=>{x=e.clientX-a;y=e.clientY-b;put()};"
    "document.onmouseup=()=>document.onmousemove=null};"
    "V.onmouseover=e=>{document.querySelectorAll('.in,.out').forEach(p=>p.classList.remove('in','"
    "out'));const n=e.target.closest('.n');"
    "if(n)F[at].querySelectorAll('.e').forEach(p=>{if(p.dataset.t==n.id)p.classList.add('in');if(p."
    "dataset.f==n.id)p.classList.add('out')})};"
    "document.getElementById('find').oninput=e=>{const "
    "q=e.target.value;document.querySelectorAll('.hit').forEach(n=>n.classList.remove('hit'));"
    "if(!q)return;let "
    "first=-1;F.forEach((f,k)=>f.querySelectorAll('.n').forEach(n=>{if(n.textContent.includes(q)){"
    "n.classList.add('hit');"
    "if(first<0){first=k}}}));if(first>=0&&!F[at].querySelector('.hit'))show(first);const "
    "h=F[at].querySelector('.hit');"
    "if(h){const "
    "r=h.getBoundingClientRect(),v=V.getBoundingClientRect();x+=v.left+v.width/2-r.left-r.width/"
    "2;y+=v.top+v.height/2-r.top-r.height/2;put()}};"
    "show(0);";

struct HlPage {
  HlArena *arena;
  const char *title;
  int n;
  HlBuf list, pictures;
};

HlPage *hl_page_new(const char *title) {
  HlArena *arena = hl_arena_new();
  HlPage *page = HL_NEW(arena, HlPage);
  *page = (HlPage){.arena = arena, .title = hl_arena_printf(arena, "%s", title)};
  return page;
}

void hl_page_free(HlPage *page) {
  if (!page)
    return;
  hl_buf_free(&page->list);
  hl_buf_free(&page->pictures);
  hl_arena_free(page->arena);
}

static void add_frame(HlArena *arena, HlPage *page, ViewGraph *g, const char *title) {
  hl_buf_printf(&page->list, "<a href=\"#frame%d\">", page->n);
  hl_buf_xml(&page->list, title);
  hl_buf_puts(&page->list, "</a>\n");
  hl_buf_printf(&page->pictures, "<div class=\"frame\" id=\"frame%d\">", page->n++);
  view_layout(arena, g);
  put_svg(&page->pictures, g);
  hl_buf_puts(&page->pictures, "</div>\n");
}

void hl_page_add(HlCx *cx, HlPage *page, const HlComp *comp, const HlViewOptions *options,
                 const char *title) {
  HlArena *arena = hl_arena_new();
  add_frame(arena, page, view_graph(cx, arena, comp, options), title);
  hl_arena_free(arena);
}

void hl_page_print(const HlPage *page, HlBuf *out) {
  hl_buf_puts(out, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
  hl_buf_xml(out, page->title);
  hl_buf_printf(out, "</title><style>%s%s</style></head><body>\n<div id=\"list\"><b>", style,
                page_style);
  hl_buf_xml(out, page->title);
  hl_buf_puts(out, "</b><p><input id=\"find\" placeholder=\"find\"></p>\n");
  hl_buf_add(out, page->list.at, page->list.n);
  hl_buf_puts(out,
              "<p>wheel: zoom, drag: move,<br>j, k: next, previous</p></div><div id=\"view\">\n");
  hl_buf_add(out, page->pictures.at, page->pictures.n);
  hl_buf_printf(out, "</div><script>%s</script></body></html>\n", script);
}

void hl_view_page_by_inst(HlCx *cx, const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlPage *page = hl_page_new(
      hl_arena_printf(arena, "%s %s", m->name->text, m->entry ? m->entry->name->text : ""));
  for (const HlInst *inst = m->entry ? m->entry->first : NULL; inst; inst = inst->next) {
    HlViewOptions options = {
        .closed_fusions = true, .centre = inst, .radius = 2, .max_nodes = 100, .marked = inst};
    hl_page_add(cx, page, m->entry, &options, inst->name->text);
  }
  hl_page_print(page, out);
  hl_page_free(page);
  hl_arena_free(arena);
}
