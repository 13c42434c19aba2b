// tool/diff/html.c: two modules side by side, as one page that needs nothing else.
//
// A row holds an instruction of the first module and its partner; what is new stands behind what it follows in the
// second. Runs of rows that are the same are folded away. Colours are by verdict; what differs in a row's texts is marked.

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "hilo/text.h"
#include "tool/diff/diff.h"

static const char style[] =
    ":root{--bg:#fff;--fg:#222;--dim:#777;--line:#ddd;--chg:#fff3c4;--mov:#d8f0f5;--fus:#dfe7fb;--"
    "fol:#f0e0f7;--inl:#dff3ea;"
    "--rem:#fbdada;--add:#d9f3d9;--mark:#f5b942}"
    "@media(prefers-color-scheme:dark){:root{--bg:#1b1d21;--fg:#ddd;--dim:#888;--line:#3a3d44;--"
    "chg:#4a421f;--mov:#1f4148;"
    "--fus:#263557;--fol:#43294f;--inl:#1f4435;--rem:#562727;--add:#234a23;--mark:#8a6a16}}"
    "body{margin:0;background:var(--bg);color:var(--fg);font:13px/1.4 system-ui,sans-serif}"
    "header{position:sticky;top:0;background:var(--bg);border-bottom:1px solid "
    "var(--line);padding:8px 12px;z-index:1}"
    "header "
    "b{font-size:15px}label{margin-right:10px;white-space:nowrap}input[type=search]{width:18em}"
    "table{border-collapse:collapse;width:100%;table-layout:fixed}"
    "td{font:12px/1.5 ui-monospace,monospace;padding:0 "
    "8px;vertical-align:top;overflow-wrap:anywhere;border-bottom:1px solid var(--line)}"
    "td.v{width:5.5em;color:var(--dim)}th{text-align:left;padding:10px 8px 4px}"
    "tr.changed{background:var(--chg)}tr.moved{background:var(--mov)}tr.fused{background:var(--fus)"
    "}"
    "tr.folded{background:var(--fol)}tr.inlined{background:var(--inl)}tr.removed{background:var(--"
    "rem)}"
    "tr.added{background:var(--add)}mark{background:var(--mark);color:inherit}"
    "td small{color:var(--dim);display:block}tr.hide,tr.off{display:none}tr.fold "
    "td{color:var(--dim);cursor:pointer;text-align:center}"
    "tr:target,tr.hit{outline:2px solid var(--mark)}a{color:inherit}.key span{padding:1px "
    "6px;border-radius:3px}"
    "details{padding:4px 12px}pre{white-space:pre-wrap;font:12px/1.5 ui-monospace,monospace}";

static const char script[] =
    "const R=[...document.querySelectorAll('tr.r')];"
    "document.querySelectorAll('header "
    "input[type=checkbox]').forEach(c=>c.onchange=()=>R.forEach(r=>{if(r.classList.contains("
    "c.value))r.classList.toggle('off',!c.checked)}));"
    "document.querySelectorAll('tr.fold').forEach(f=>f.onclick=()=>{for(let "
    "r=f.nextElementSibling;r&&r.classList.contains("
    "'hide');r=r.nextElementSibling)r.classList.remove('hide');f.remove()});"
    "const hits=()=>R.filter(r=>!r.classList.contains('same')&&!r.classList.contains('off'));let "
    "at=-1;"
    "const "
    "go=r=>{R.forEach(x=>x.classList.remove('hit'));if(!r)return;r.classList.remove('hide');r."
    "classList.add('hit');"
    "r.scrollIntoView({block:'center'})};"
    "document.onkeydown=e=>{if(e.target.tagName=='INPUT')return;const "
    "h=hits();if(e.key=='j')go(h[at=Math.min(at+1,h.length-1)]);"
    "if(e.key=='k')go(h[at=Math.max(at-1,0)])};"
    "document.getElementById('find').onchange=e=>{const q=e.target.value;if(!q)return;const "
    "n=R.length,s=at<0?0:at;"
    "for(let k=0;k<n;k++){const "
    "r=R[(s+1+k)%n];if(r.textContent.includes(q)){at=(s+1+k)%n;go(r);return}}};"
    "document.querySelectorAll('a').forEach(a=>a.onclick=()=>{const "
    "r=document.querySelector(a.getAttribute('href'));"
    "if(r)r.classList.remove('hide')});";

typedef struct Page {
  HlCx *cx;
  const HlDiff *diff;
  HlDiffShow show;
  HlBuf *out;
  Map rows;    // by an instruction of b: its first row + 1
  bool *done;  // by row
  HlBuf x, y;
  int folded;  // rows of the run that is being folded
  size_t fold_at;
} Page;

static HlStr inst_text(Page *p, const HlInst *inst, HlBuf *buf) {
  static const HlTextOptions how = {.percent = HL_OFF,
                                    .metadata = HL_OFF,
                                    .index_comments = HL_OFF,
                                    .backend_config = HL_OFF,
                                    .frames = HL_OFF};
  enum { MOST = 600 };
  buf->n = 0;
  if (inst)
    hl_text_print_inst(p->cx, inst, &how, buf);
  return (HlStr){buf->at ? buf->at : "", buf->n < MOST ? buf->n : MOST};
}

static void put_xml(HlBuf *out, HlStr text) {
  char *copy = base_strndup(text.at, text.n);
  hl_buf_xml(out, copy);
  base_free(copy);
}

// A text with what stands between its first `from` and last `to` characters marked.
static void put_marked(HlBuf *out, HlStr text, size_t from, size_t to) {
  if (from + to >= text.n) {
    put_xml(out, text);
    return;
  }
  put_xml(out, (HlStr){text.at, from});
  hl_buf_puts(out, "<mark>");
  put_xml(out, (HlStr){text.at + from, text.n - from - to});
  hl_buf_puts(out, "</mark>");
  put_xml(out, (HlStr){text.at + text.n - to, to});
}

// Up to bytes at which a character of UTF-8 begins.
static bool begins(char c) {
  return ((unsigned char)c & 0xc0) != 0x80;
}

// Behind the names, which are not what differs.
static size_t behind_name(HlStr text) {
  const char *at = memmem(text.at, text.n, " = ", 3);
  return at ? (size_t)(at - text.at) + 3 : 0;
}

static void common_ends(HlStr a, HlStr b, size_t *from, size_t *to) {
  const size_t least = a.n < b.n ? a.n : b.n;
  *from = *to = 0;
  while (*from < least && a.at[*from] == b.at[*from])
    ++*from;
  while (*from > 0 && *from < least && !begins(a.at[*from]))
    --*from;
  while (*to < least - *from && a.at[a.n - 1 - *to] == b.at[b.n - 1 - *to])
    ++*to;
  while (*to > 0 && !begins(a.at[a.n - *to]))
    --*to;
}

static void put_side(Page *p, const HlInst *inst, HlStr text, bool marked, size_t from, size_t to) {
  hl_buf_puts(p->out, "<td>");
  if (inst && inst == inst->comp->root)
    hl_buf_puts(p->out, "ROOT ");
  if (marked)
    put_marked(p->out, text, from, to);
  else
    put_xml(p->out, text);
}

static int row_of(const Page *p, const HlInst *b) {
  return (int)map_get(&p->rows, map_key(b)) - 1;
}

static void put_note(Page *p, const HlDiffRow *row) {
  if (!row->into && !*row->detail)
    return;
  hl_buf_puts(p->out, "<small>");
  if (row->into) {
    hl_buf_printf(p->out, "%s <a href=\"#r%d\">", row->verdict == HL_DIFF_FUSED ? "into" : "now in",
                  row_of(p, row->into));
    hl_buf_xml(p->out, row->into->name->text);
    hl_buf_puts(p->out, "</a> ");
  }
  hl_buf_xml(p->out, row->detail);
  hl_buf_puts(p->out, "</small>");
}

static void end_fold(Page *p) {
  enum { LEAST = 6 };
  if (p->folded >= LEAST) {
    HlBuf rest = {0};
    hl_buf_add(&rest, p->out->at + p->fold_at, p->out->n - p->fold_at);
    p->out->n = p->fold_at;
    hl_buf_printf(p->out, "<tr class=\"fold\"><td colspan=\"3\">%d the same</td></tr>\n",
                  p->folded);
    for (size_t k = 0; k < rest.n; k++) {
      static const char plain[] = "class=\"r same\"";
      if (rest.n - k >= sizeof plain - 1 && memcmp(rest.at + k, plain, sizeof plain - 1) == 0) {
        hl_buf_puts(p->out, "class=\"r same hide\"");
        k += sizeof plain - 2;
      } else {
        hl_buf_putc(p->out, rest.at[k]);
      }
    }
    hl_buf_free(&rest);
  }
  p->folded = 0;
}

static void put_row(Page *p, int k) {
  const HlDiffRow *row = &p->diff->row[k];
  if (p->done[k])
    return;
  p->done[k] = true;
  if (row->verdict != HL_DIFF_SAME)
    end_fold(p);
  else if (p->folded++ == 0)
    p->fold_at = p->out->n;
  const HlStr a = inst_text(p, row->a, &p->x), b = inst_text(p, row->b, &p->y);
  size_t from = 0, to = 0;
  const bool marked = row->a && row->b && row->what != 0;
  const size_t name_a = behind_name(a), name_b = behind_name(b);
  if (marked)
    common_ends((HlStr){a.at + name_a, a.n - name_a}, (HlStr){b.at + name_b, b.n - name_b}, &from,
                &to);
  hl_buf_printf(p->out, "<tr class=\"r %s\" id=\"r%d\"><td class=\"v\">%s</td>",
                hl_verdict_text(row->verdict), k,
                row->verdict == HL_DIFF_SAME ? "" : hl_verdict_text(row->verdict));
  put_side(p, row->a, a, marked, name_a + from, to);
  if (!row->b)
    put_note(p, row);
  hl_buf_puts(p->out, "</td>");
  put_side(p, row->b, b, marked, name_b + from, to);
  if (row->b)
    put_note(p, row);
  hl_buf_puts(p->out, "</td></tr>\n");
}

// What is new right behind an instruction of b.
static void put_new_after(Page *p, const HlInst *const *next, const HlInst *b) {
  for (const HlInst *inst = next[b->id]; inst; inst = next[inst->id]) {
    const int k = row_of(p, inst);
    if (k < 0 || p->diff->row[k].verdict != HL_DIFF_ADDED)
      return;
    put_row(p, k);
  }
}

static void put_comp_name(Page *p, const char *a, const char *b) {
  end_fold(p);
  hl_buf_puts(p->out, "<tr><th></th><th>");
  hl_buf_xml(p->out, a);
  hl_buf_puts(p->out, "</th><th>");
  hl_buf_xml(p->out, b);
  hl_buf_puts(p->out, "</th></tr>\n");
}

// In b's print order: who follows whom.
static const HlInst ***followers(HlArena *arena, const HlModule *m) {
  const HlInst ***next = HL_ARRAY(arena, const HlInst **, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    HlInst **order = hl_print_order(arena, comp);
    next[comp->id] = HL_ARRAY(arena, const HlInst *, comp->next_id + 1);
    for (uint32_t k = 0; k + 1 < comp->n_insts; k++)
      next[comp->id][order[k]->id] = order[k + 1];
  }
  return next;
}

static void put_rows(Page *p) {
  HlArena *arena = hl_arena_new();
  const HlInst ***next = followers(arena, p->diff->b);
  const HlComp *at = NULL;
  for (int k = 0; k < p->diff->n_rows; k++) {
    const HlDiffRow *row = &p->diff->row[k];
    if (p->done[k])
      continue;
    if (row->a && row->a->comp != at)
      put_comp_name(p, row->a->comp->name->text, row->b ? row->b->comp->name->text : "");
    if (!row->a && row->b->comp != at)
      put_comp_name(p, "", row->b->comp->name->text);
    at = row->a ? row->a->comp : row->b->comp;
    put_row(p, k);
    if (row->b)
      put_new_after(p, next[row->b->comp->id], row->b);
  }
  end_fold(p);
  hl_arena_free(arena);
}

static void put_head(Page *p) {
  const HlDiff *d = p->diff;
  hl_buf_puts(p->out, "<header><b>");
  hl_buf_xml(p->out, p->show.name_a);
  hl_buf_puts(p->out, " &rarr; ");
  hl_buf_xml(p->out, p->show.name_b);
  hl_buf_printf(p->out, "</b>: %s<br>", hl_diff_headline(d));
  if (d->n_elided)
    hl_buf_printf(p->out, "constants elided, whose values are not known: %" PRId64 "<br>",
                  d->n_elided);
  for (int k = 0; k < HL_DIFF_VERDICTS; k++)
    if (d->count[k])
      hl_buf_printf(p->out,
                    "<label><input type=\"checkbox\" checked value=\"%s\">%" PRId64 " %s</label>",
                    hl_verdict_text((HlVerdict)k), d->count[k], hl_verdict_text((HlVerdict)k));
  hl_buf_puts(p->out, "<input id=\"find\" type=\"search\" placeholder=\"find\"> j, k: next, "
                      "previous change</header>\n");
}

static void put_report(Page *p) {
  HlBuf text = {0};
  HlDiffShow show = p->show;
  show.color = show.all = false;
  hl_diff_text(p->diff, &show, &text);
  hl_buf_puts(p->out, "<details><summary>as text, the same changes told once</summary><pre>");
  hl_buf_xml(p->out, text.at);
  hl_buf_puts(p->out, "</pre></details>\n");
  hl_buf_free(&text);
}

void hl_diff_html(HlCx *cx, const HlDiff *diff, const HlDiffShow *show, HlBuf *out) {
  Page p = {.cx = cx, .diff = diff, .out = out};
  if (show)
    p.show = *show;
  p.show.name_a = p.show.name_a ? p.show.name_a : diff->a->name->text;
  p.show.name_b = p.show.name_b ? p.show.name_b : diff->b->name->text;
  p.done = base_alloc((size_t)diff->n_rows + 1);
  for (int k = diff->n_rows - 1; k >= 0; k--)
    if (diff->row[k].b)
      *map_at(&p.rows, map_key(diff->row[k].b)) = (uint64_t)k + 1;
  hl_buf_puts(out, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
  hl_buf_xml(out, p.show.name_a);
  hl_buf_puts(out, " - ");
  hl_buf_xml(out, p.show.name_b);
  hl_buf_printf(out, "</title><style>%s</style></head><body>\n", style);
  put_head(&p);
  put_report(&p);
  hl_buf_puts(out, "<table><colgroup><col style=\"width:5.5em\"><col><col></colgroup>\n");
  put_rows(&p);
  hl_buf_printf(out, "</table><script>%s</script></body></html>\n", script);
  map_free(&p.rows);
  base_free(p.done);
  hl_buf_free(&p.x);
  hl_buf_free(&p.y);
}
