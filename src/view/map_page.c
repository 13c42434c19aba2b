// view/map_page.c: the page of maps: the data of a module's states, and what shows them.
//
// The data is one JSON object. Instructions are rows of numbers, and a row that several states have, or several computations,
// stands there once; a state is a list of computations, each a list of runs of rows. A pass that changes three instructions
// adds three rows and a few runs. Strings (names, shapes, attributes) are numbers into one table.
//
//   {"format": 1, "title", "target", "open", "marks": ["", "changed", ...], "ops": ["abs", ...],
//    "strings": [...],
//    "rows": [op, colour, name, shape, attributes, op_name, file, line, flops, bytes, picoseconds,
//             operands, name..., calls, computation..., control predecessors, name..., ...],
//    "states": [{"title", "entry": number, "peak": bytes,
//                "computations": [{"name": string, "kind": 0 or 1 of a fusion, "root": place, "times": runs,
//                                  "rows": [first, count, ...],
//                                  "groups": [label, parent, kind, copies, ...], "of": [group, count, ...],
//                                  "alive": [place, bytes, ...]}]}],
//    "changes": [[state, kind, name, computation, partner, note], ...]}
//
// Data of more than a megabyte is compressed: base64 of gzip, which browsers take apart.

#include <string.h>

#include "base/compress.h"
#include "base/map.h"
#include "base/vec.h"
#include "hilo/text.h"
#include "view/costs.h"
#include "view/graph.h"
#include "view/web.h"

enum {
  FORMAT = 1,
  MAX_ATTRS = 600,       // characters of attributes that are kept
  SHOWN_ELEMENTS = 16,   // of a constant
  COMPRESSED = 1 << 20,  // bytes of data
  MAPPED = 2             // instructions of a computation that gets a map
};

typedef VEC(int64_t) Numbers;

struct HlMapPage {
  HlArena *arena;
  HlSyms *syms;
  const char *title, *open;
  const HlTarget *target;
  VEC(const HlSym *) string;
  Numbers row;     // of all rows
  VEC(int) start;  // of each in `row`
  Map known;       // hash -> 1 + row
  Numbers now;     // the row that is being made
  HlBuf states, changes;
  int n_states;
};

HlMapPage *hl_map_page_new(const char *title, const HlTarget *target) {
  HlArena *arena = hl_arena_new();
  HlMapPage *page = HL_NEW(arena, HlMapPage);
  *page = (HlMapPage){.arena = arena,
                      .syms = hl_syms_new(arena),
                      .title = hl_arena_printf(arena, "%s", title),
                      .open = "",
                      .target = target,
                      .known.arena = arena};
  return page;
}

void hl_map_page_free(HlMapPage *page) {
  if (!page)
    return;
  hl_buf_free(&page->states);
  hl_buf_free(&page->changes);
  hl_arena_free(page->arena);
}

void hl_map_page_open(HlMapPage *page, const char *inst) {
  page->open = hl_arena_printf(page->arena, "%s", inst);
}

// --- Strings and rows ---------------------------------------------------------------------------

static int64_t string_of(HlMapPage *page, const char *text, size_t n) {
  const HlSym *sym = hl_syms_add(page->syms, text, n);
  if ((int)sym->index >= page->string.n)
    vec_push_in(page->arena, &page->string, sym);
  return sym->index;
}

static int64_t text_of(HlMapPage *page, const char *text) {
  return string_of(page, text ? text : "", text ? strlen(text) : 0);
}

static int64_t sym_of(HlMapPage *page, const HlSym *sym) {
  return sym ? string_of(page, sym->text, sym->n) : text_of(page, "");
}

static void put(HlMapPage *page, int64_t number) {
  vec_push_in(page->arena, &page->now, number);
}

static int64_t whole(double x) {
  return !(x > 0)   ? 0
         : x < 9e15 ? (int64_t)(x + 0.5)
                    : (int64_t)9e15;  // what a double holds exactly
}

static int64_t shape_string(HlMapPage *page, const HlInst *inst) {
  HlBuf out = {0};
  hl_shape_print(&out, inst->shape, true);
  const int64_t string = string_of(page, out.at, out.n);
  hl_buf_free(&out);
  return string;
}

static void print_constant(const HlInst *inst, HlBuf *out) {
  const HlLiteral *value = hl_constant(inst);
  if (!value || hl_literal_is_elided(value))
    hl_buf_puts(out, "{...}");
  else if (hl_shape_is_array(inst->shape) && value->n <= SHOWN_ELEMENTS)
    hl_literal_print(out, value);
}

// Where the operands of an instruction's text end, behind "name = shape op(".
static const char *behind_operands(const char *text, const char *op) {
  const char *at = strstr(text, " = ");
  const size_t n = strlen(op);
  while (at && !(strncmp(at + 1, op, n) == 0 && at[1 + n] == '('))
    at = strchr(at + 1, ' ');
  if (!at)
    return "";
  int depth = 0;
  for (at += 1 + n; *at; at++) {
    depth += *at == '(' || *at == '{' ? 1 : *at == ')' || *at == '}' ? -1 : 0;
    if (depth == 0)
      return at + 1;
  }
  return "";
}

// What the text says behind the operands, without metadata and calls, which are told elsewhere.
static int64_t attrs_string(HlCx *cx, HlMapPage *page, const HlInst *inst) {
  static const HlTextOptions options = {
      .preset = HL_TEXT_SHORT, .metadata = HL_OFF, .frames = HL_OFF, .async_sugar = HL_OFF};
  HlBuf out = {0};
  const char *from = "";
  if (inst->op == HL_OP_CONSTANT) {
    print_constant(inst, &out);
    from = out.n > 0 ? out.at : "";
  } else if (inst->n_attrs > 0) {
    hl_text_print_inst(cx, inst, &options, &out);
    from = behind_operands(out.at, hl_op_text((HlOp)inst->op));
    from += strncmp(from, ", ", 2) == 0 ? 2 : 0;
  }
  const size_t n = strlen(from);
  const int64_t string =
      n <= MAX_ATTRS ? string_of(page, from, n)
                     : text_of(page, hl_arena_printf(page->arena, "%.*s\u2026", MAX_ATTRS, from));
  hl_buf_free(&out);
  return string;
}

static void put_metadata(HlMapPage *page, const HlInst *inst) {
  static const HlMetadata none = {0};
  const HlMetadata *d = hl_metadata(inst);
  const HlFrames *f = &inst->comp->module->frames;
  d = d ? d : &none;
  put(page, sym_of(page, d->op_name));
  const int frame = d->stack_frame_id;
  if (!d->source_file && frame > 0 && frame <= f->n_frames) {
    const int at = f->frames[frame - 1].file_location_id;
    if (at > 0 && at <= f->n_locations) {
      const HlFileLocation *place = &f->locations[at - 1];
      const bool named = place->file_name_id > 0 && place->file_name_id <= f->n_file_names;
      put(page, named ? sym_of(page, f->file_names[place->file_name_id - 1]) : text_of(page, ""));
      put(page, place->line);
      return;
    }
  }
  put(page, sym_of(page, d->source_file));
  put(page, d->source_line);
}

static void make_row(HlCx *cx, HlMapPage *page, const HlInst *inst, const ViewCosts *costs) {
  const HlCost cost = hl_cost_inst_by(inst, costs->seconds.comps);
  page->now.n = 0;
  put(page, inst->op);
  put(page, view_colour_class(inst));
  put(page, sym_of(page, inst->name));
  put(page, shape_string(page, inst));
  put(page, attrs_string(cx, page, inst));
  put_metadata(page, inst);
  put(page, whole(cost.flops + cost.transcendentals));
  put(page, whole(cost.bytes_read + cost.bytes_written));
  put(page, whole(view_seconds(costs, inst) * 1e12));
  put(page, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    put(page, sym_of(page, inst->operands[k]->name));
  put(page, inst->n_calls);
  for (int k = 0; k < inst->n_calls; k++)
    put(page, sym_of(page, hl_called(inst, k)->name));
  const int n = inst->control ? inst->control->n_preds : 0;
  put(page, n);
  for (int k = 0; k < n; k++)
    put(page, sym_of(page, inst->control->preds[k]->name));
}

// The number of the row that has just been made.
static int row_number(HlMapPage *page) {
  const size_t bytes = sizeof(int64_t) * (size_t)page->now.n;
  const uint64_t hash = hl_hash_bytes(page->now.at, bytes, 0);
  MapWalk walk = map_walk(&page->known, hash);
  for (uint64_t k; (k = map_next(&walk));) {
    const int start = page->start.at[k - 1];
    const int end = (int)k < page->start.n ? page->start.at[k] : page->row.n;
    if (end - start == page->now.n && memcmp(page->row.at + start, page->now.at, bytes) == 0)
      return (int)k - 1;
  }
  vec_push_in(page->arena, &page->start, page->row.n);
  vec_append_in(page->arena, &page->row, page->now.at, page->now.n);
  map_add(&page->known, hash, (uint64_t)page->start.n);
  return page->start.n - 1;
}

// --- States -------------------------------------------------------------------------------------

// A list of numbers in which equal or successive ones come together: [first, count, ...].
typedef struct Runs {
  HlBuf *out;
  int64_t from, n;
  int step;  // 1: successive; 0: equal
  bool any;
} Runs;

static void end_run(Runs *runs) {
  if (runs->n > 0) {
    hl_buf_printf(runs->out, "%s%lld,%lld", runs->any ? "," : "", (long long)runs->from,
                  (long long)runs->n);
    runs->any = true;
  }
  runs->n = 0;
}

static void add_to_run(Runs *runs, int64_t number) {
  if (runs->n > 0 && number == runs->from + runs->step * runs->n) {
    runs->n++;
    return;
  }
  end_run(runs);
  runs->from = number;
  runs->n = 1;
}

static void put_groups(HlMapPage *page, HlArena *arena, const HlComp *comp, HlInst *const *order,
                       HlBuf *out) {
  const HlMap *map = hl_map_new(arena, comp);
  hl_buf_puts(out, ",\"groups\":[");
  for (int k = 0; k < map->n_groups; k++) {
    const HlGroup *group = &map->group[k];
    hl_buf_printf(out, "%s%lld,%d,%d,%d", k ? "," : "", (long long)text_of(page, group->label),
                  group->parent, group->kind, group->copies);
  }
  hl_buf_puts(out, "],\"of\":[");
  Runs runs = {.out = out};
  for (uint32_t k = 0; k < comp->n_insts; k++)
    add_to_run(&runs, map->of[order[k]->id]);
  end_run(&runs);
  hl_buf_puts(out, "]");
}

static void put_alive(const HlComp *comp, HlInst *const *order, const ViewCosts *costs,
                      HlBuf *out) {
  const int64_t *alive = costs->alive[comp->id];
  if (!alive)
    return;
  bool any = false;
  hl_buf_puts(out, ",\"alive\":[");
  for (uint32_t k = 0; k < comp->n_insts; k++)
    if (alive[order[k]->id] > 0) {
      hl_buf_printf(out, "%s%u,%lld", any ? "," : "", k, (long long)alive[order[k]->id]);
      any = true;
    }
  hl_buf_puts(out, "]");
}

static void put_comp(HlCx *cx, HlMapPage *page, const HlComp *comp, const ViewCosts *costs,
                     HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlInst **order = hl_print_order(arena, comp);
  int root = -1;
  hl_buf_printf(out, "{\"name\":%lld,\"kind\":%d,\"times\":%.17g,\"rows\":[",
                (long long)sym_of(page, comp->name), comp->is_fusion, costs->times[comp->id]);
  Runs runs = {.out = out, .step = 1};
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    make_row(cx, page, order[k], costs);
    add_to_run(&runs, row_number(page));
    root = order[k] == comp->root ? (int)k : root;
  }
  end_run(&runs);
  hl_buf_printf(out, "],\"root\":%d", root);
  if (comp->n_insts > MAPPED && !comp->is_fusion)
    put_groups(page, arena, comp, order, out);
  put_alive(comp, order, costs, out);
  hl_buf_puts(out, "}");
  hl_arena_free(arena);
}

void hl_map_page_add(HlCx *cx, HlMapPage *page, const HlModule *m, const char *title,
                     const HlViewMark *marks, int n_marks) {
  HlArena *arena = hl_arena_new();
  ViewCosts costs;
  HlBuf *out = &page->states;
  view_costs(cx, arena, m, page->target, &costs);
  HlComp **order = hl_comp_order(arena, m);
  int entry = -1;
  hl_buf_puts(out, page->n_states++ > 0 ? ",\n{\"title\":" : "{\"title\":");
  hl_buf_json_string(out, title, strlen(title));
  hl_buf_printf(out, ",\"peak\":%lld,\"computations\":[", (long long)costs.peak);
  for (uint32_t k = 0; k < m->n_comps; k++) {
    hl_buf_puts(out, k > 0 ? ",\n" : "");
    put_comp(cx, page, order[k], &costs, out);
    entry = order[k] == m->entry ? (int)k : entry;
  }
  hl_buf_printf(out, "],\"entry\":%d}", entry);
  hl_arena_free(arena);
  hl_map_page_mark_last(page, marks, n_marks);
}

void hl_map_page_mark_last(HlMapPage *page, const HlViewMark *marks, int n_marks) {
  for (int k = 0; k < n_marks; k++) {
    const HlViewMark *mark = &marks[k];
    hl_buf_printf(&page->changes, "%s[%d,%d,%lld,%lld,%lld,%lld]", page->changes.n > 0 ? ",\n" : "",
                  page->n_states - 1, mark->kind, (long long)text_of(page, mark->inst),
                  (long long)text_of(page, mark->comp), (long long)text_of(page, mark->partner),
                  (long long)text_of(page, mark->note));
  }
}

// --- The page -----------------------------------------------------------------------------------

static void put_head(const HlMapPage *page, HlBuf *out) {
  hl_buf_printf(out, "{\"format\":%d,\"title\":", FORMAT);
  hl_buf_json_string(out, page->title, strlen(page->title));
  hl_buf_puts(out, ",\"open\":");
  hl_buf_json_string(out, page->open, strlen(page->open));
  hl_buf_puts(out, ",\"target\":");
  const char *target = page->target ? page->target->name : "";
  hl_buf_json_string(out, target, strlen(target));
  hl_buf_puts(out, ",\"marks\":[");
  for (int k = 0; k < HL_MARK_COUNT; k++)
    hl_buf_printf(out, "%s\"%s\"", k ? "," : "", hl_mark_word((HlMarkKind)k));
  hl_buf_puts(out, "],\n\"ops\":[");
  for (int k = 0; k < HL_OP_COUNT; k++)
    hl_buf_printf(out, "%s\"%s\"", k ? "," : "", hl_op_text((HlOp)k));
}

static void put_data(const HlMapPage *page, HlBuf *out) {
  put_head(page, out);
  hl_buf_puts(out, "],\n\"strings\":[");
  for (int k = 0; k < page->string.n; k++) {
    hl_buf_puts(out, k > 0 ? ",\n" : "");
    hl_buf_json_string(out, page->string.at[k]->text, page->string.at[k]->n);
  }
  hl_buf_puts(out, "],\n\"rows\":[");
  for (int k = 0, r = 0; k < page->row.n; k++) {
    const bool first = r < page->start.n && page->start.at[r] == k;
    hl_buf_puts(out, k == 0 ? "" : first ? ",\n" : ",");
    r += first;
    hl_buf_i64(out, page->row.at[k]);
  }
  hl_buf_puts(out, "],\n\"states\":[");
  hl_buf_add(out, page->states.at, page->states.n);
  hl_buf_puts(out, "],\n\"changes\":[");
  hl_buf_add(out, page->changes.at, page->changes.n);
  hl_buf_puts(out, "]}");
}

static void put_base64(HlBuf *out, const unsigned char *at, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  hl_buf_grow(out, n / 3 * 4 + 4);
  for (size_t k = 0; k < n; k += 3) {
    const int left = n - k >= 3 ? 3 : (int)(n - k);
    const uint32_t bits = (uint32_t)at[k] << 16 | (left > 1 ? (uint32_t)at[k + 1] << 8 : 0) |
                          (left > 2 ? at[k + 2] : 0);
    for (int d = 0; d < 4; d++)
      hl_buf_putc(out, d <= left ? digits[bits >> (18 - 6 * d) & 63] : '=');
  }
}

// Text inside a script element: nothing in it may end the element.
static void put_in_script(HlBuf *out, const char *at, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (at[k] == '<')
      hl_buf_puts(out, "\\u003c");
    else
      hl_buf_putc(out, at[k]);
}

static void put_data_element(const HlMapPage *page, HlBuf *out) {
  HlBuf data = {0}, packed = {0};
  HlCx *cx = hl_cx_new();
  put_data(page, &data);
  const bool small =
      data.n < COMPRESSED || !base_compress(cx, PACKED_GZIP, (HlStr){data.at, data.n}, &packed);
  hl_buf_printf(out, "<script id=\"data\" type=\"application/%s\">", small ? "json" : "gzip");
  if (small)
    put_in_script(out, data.at, data.n);
  else
    put_base64(out, (const unsigned char *)packed.at, packed.n);
  hl_buf_puts(out, "</script>\n");
  hl_cx_free(cx);
  hl_buf_free(&data);
  hl_buf_free(&packed);
}

void hl_map_page_print(const HlMapPage *page, HlBuf *out) {
  hl_buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
  hl_buf_xml(out, page->title);
  hl_buf_printf(out, "</title>\n<style>\n%s</style></head><body>\n", view_web_css);
  hl_buf_puts(out, view_web_body);
  put_data_element(page, out);
  hl_buf_printf(out, "<script>\n'use strict';\n%s\n%s\n%s\n%s</script>\n</body></html>\n",
                view_web_model, view_web_layout, view_web_draw, view_web_app);
}

void hl_view_page(HlCx *cx, const HlModule *m, const HlViewOptions *options, HlBuf *out) {
  HlMapPage *page = hl_map_page_new(m->name->text, NULL);
  if (options->centre)
    hl_map_page_open(page, options->centre->name->text);
  hl_map_page_add(cx, page, m, m->name->text, NULL, 0);
  hl_map_page_print(page, out);
  hl_map_page_free(page);
}
