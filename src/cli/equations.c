// A jaxpr and the HLO made from it, side by side: what each equation became.
#include "cli/equations.h"
#include "cli/json.h"

#include <stdlib.h>
#include <string.h>

#include "hilo/jaxpr.h"

enum { WIDTH = 60, TAB = 2 };

// The module's instructions in the order of their places in the source.
static int by_place(const void *a, const void *b) {
  const HlInst *x = *(const HlInst *const *)a, *y = *(const HlInst *const *)b;
  if (x->loc != y->loc)
    return x->loc < y->loc ? -1 : 1;
  return x->serial < y->serial ? -1 : x->serial > y->serial;
}

typedef struct Placed {
  const HlInst **inst;
  int64_t n;
} Placed;

static Placed place_all(HlArena *arena, const HlModule *m) {
  Placed all = {HL_ARRAY(arena, const HlInst *, hl_count_instructions(m) + 1), 0};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op != HL_OP_PARAMETER)
        all.inst[all.n++] = inst;
  qsort(all.inst, (size_t)all.n, sizeof *all.inst, by_place);
  return all;
}

// Those made from one equation: [*first, return value).
static int64_t made_from(const Placed *all, HlLoc loc, int64_t *first) {
  int64_t low = 0, high = all->n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (all->inst[middle]->loc < loc)
      low = middle + 1;
    else
      high = middle;
  }
  *first = low;
  while (low < all->n && all->inst[low]->loc == loc)
    low++;
  return low;
}

// The equation on one line; jaxprs inside it as {...}, and cut where it is long.
static void add_equation(HlBuf *out, HlStr text, size_t room) {
  const size_t start = out->n;
  int depth = 0;
  bool blank = false;
  for (size_t k = 0; k < text.n; k++) {
    const char c = text.at[k];
    if (c == '{' && depth++ == 0)
      hl_buf_puts(out, "{...}");
    if (c == '}' && depth > 0) {
      depth--;
      continue;
    }
    if (depth > 0)
      continue;
    if (strchr(" \t\r\n", c)) {
      blank = true;
      continue;
    }
    if (blank)
      hl_buf_putc(out, ' ');
    blank = false;
    hl_buf_putc(out, c);
  }
  if (room && out->n - start > room) {
    out->n = start + room - 3;
    hl_buf_puts(out, "...");
  }
}

// "dot.3, add.4 and 5 more".
static void add_made(HlBuf *out, const Placed *all, int64_t first, int64_t end) {
  enum { SHOWN = 4 };
  for (int64_t k = first; k < end && k < first + SHOWN; k++)
    hl_buf_printf(out, "%s%s %s", k > first ? ", " : "", hl_op_text((HlOp)all->inst[k]->op),
                  all->inst[k]->name->text);
  if (end - first > SHOWN)
    hl_buf_printf(out, " and %lld more", (long long)(end - first - SHOWN));
  if (end == first)
    hl_buf_puts(out, "-");
}

bool cli_equations(Cli *cli, const HlModule *m, HlBuf *out) {
  HlJaxpr *jaxpr = hl_jaxpr_parse(cli->cx, m->source);
  if (!jaxpr)
    return false;
  HlArena *arena = hl_arena_new();
  const Placed all = place_all(arena, m);
  hl_buf_printf(out, "\n  line  %-*s  HLO\n", WIDTH, "equation");
  for (int k = 0; k < hl_jaxpr_n_equations(jaxpr); k++) {
    const HlJaxprEquation eqn = hl_jaxpr_equation(jaxpr, k);
    int64_t first;
    const int64_t end = made_from(&all, eqn.loc, &first);
    const int indent = eqn.depth < 10 ? eqn.depth * TAB : 10 * TAB;
    hl_buf_printf(out, "  %4d  %*s", eqn.line, indent, "");
    const size_t start = out->n;
    add_equation(out, eqn.text, (size_t)(WIDTH - indent));
    hl_buf_printf(out, "%*s  ", (int)(WIDTH - indent - (int)(out->n - start)), "");
    add_made(out, &all, first, end);
    hl_buf_putc(out, '\n');
  }
  hl_arena_free(arena);
  hl_jaxpr_free(jaxpr);
  return true;
}

bool cli_equations_json(Cli *cli, const HlModule *m, HlBuf *out) {
  HlJaxpr *jaxpr = hl_jaxpr_parse(cli->cx, m->source);
  if (!jaxpr)
    return false;
  HlArena *arena = hl_arena_new();
  const Placed all = place_all(arena, m);
  HlBuf text = {0};
  json_open(out, "equations", '[');
  for (int k = 0; k < hl_jaxpr_n_equations(jaxpr); k++) {
    const HlJaxprEquation eqn = hl_jaxpr_equation(jaxpr, k);
    int64_t first;
    const int64_t end = made_from(&all, eqn.loc, &first);
    text.n = 0;
    add_equation(&text, eqn.text, 0);
    json_open(out, NULL, '{');
    json_int(out, "line", eqn.line);
    json_int(out, "depth", eqn.depth);
    json_bytes(out, "primitive", eqn.primitive.at, eqn.primitive.n);
    json_bytes(out, "equation", text.at, text.n);
    json_open(out, "instructions", '[');
    for (int64_t i = first; i < end; i++)
      json_text(out, NULL, all.inst[i]->name->text);
    json_close(out, ']');
    json_close(out, '}');
  }
  json_close(out, ']');
  hl_buf_free(&text);
  hl_arena_free(arena);
  hl_jaxpr_free(jaxpr);
  return true;
}
