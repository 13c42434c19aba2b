// view/model_explorer.c: a module as a graph collection of Model Explorer.
//
//   {"label": MODULE, "graphs": [{"id": COMPUTATION, "nodes": [
//     {"id": "0", "label": "add", "namespace": "Model/layers_0/attn", "attrs": [{"key": "name", "value": "add.3"}, ...],
//      "incomingEdges": [{"sourceNodeId": "4", "sourceNodeOutputId": "0", "targetNodeInputId": "1"}],
//      "outputsMetadata": [{"id": "0", "attrs": [{"key": "shape", "value": "f32[8]"}]}], "subgraphIds": ["body.3"]}]}]}
//
// Namespaces are the groups of the map, repeats among them.

#include <string.h>

#include "hilo/text.h"
#include "view/map.h"

static void put_text(HlBuf *out, const char *key, const char *text) {
  hl_buf_printf(out, "\"%s\":", key);
  hl_buf_json_string(out, text, strlen(text));
}

static void put_pair(HlBuf *out, const char *key, const char *value, bool *any) {
  if (!*value)
    return;
  hl_buf_puts(out, *any ? ",{" : "{");
  *any = true;
  put_text(out, "key", key);
  hl_buf_putc(out, ',');
  put_text(out, "value", value);
  hl_buf_putc(out, '}');
}

// "scope/repeat/unit": of the top nothing. A slash of a label is a level, too, as in scopes.
static const char *namespace_of(HlArena *arena, const HlMap *map, int group) {
  const char *path = "";
  for (int k = group; k > 0; k = map->group[k].parent) {
    const HlGroup *g = &map->group[k];
    const char *label =
        g->copies > 1 ? hl_arena_printf(arena, "%s \u00d7%d", g->label, g->copies) : g->label;
    path = *path ? hl_arena_printf(arena, "%s/%s", label, path) : label;
  }
  return path;
}

static void put_edges(HlBuf *out, const HlInst *inst, const int *number) {
  hl_buf_puts(out, ",\"incomingEdges\":[");
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *from = inst->operands[k];
    hl_buf_printf(out,
                  "%s{\"sourceNodeId\":\"%d\",\"sourceNodeOutputId\":\"0\","
                  "\"targetNodeInputId\":\"%u\"}",
                  k ? "," : "", number[from->id], k);
  }
  hl_buf_puts(out, "]");
}

static void put_attrs(HlBuf *out, HlCx *cx, const HlInst *inst) {
  static const HlTextOptions options = {
      .preset = HL_TEXT_SHORT, .metadata = HL_OFF, .frames = HL_OFF, .large_constants = HL_OFF};
  const HlMetadata *d = hl_metadata(inst);
  HlBuf text = {0};
  bool any = false;
  hl_text_print_inst(cx, inst, &options, &text);
  hl_buf_puts(out, ",\"attrs\":[");
  put_pair(out, "name", inst->name->text, &any);
  put_pair(out, "text", text.at, &any);
  if (d && d->op_name)
    put_pair(out, "op_name", d->op_name->text, &any);
  if (d && d->source_file) {
    text.n = 0;
    hl_buf_printf(&text, "%s:%d", d->source_file->text, (int)d->source_line);
    put_pair(out, "source", text.at, &any);
  }
  hl_buf_puts(out, "]");
  hl_buf_free(&text);
}

static void put_output(HlBuf *out, const HlInst *inst) {
  HlBuf shape = {0};
  bool any = false;
  hl_shape_print(&shape, inst->shape, true);
  hl_buf_puts(out, ",\"outputsMetadata\":[{\"id\":\"0\",\"attrs\":[");
  put_pair(out, "shape", shape.at, &any);
  hl_buf_puts(out, "]}]");
  hl_buf_free(&shape);
}

static void put_subgraphs(HlBuf *out, const HlInst *inst) {
  hl_buf_puts(out, inst->n_calls > 0 ? ",\"subgraphIds\":[" : "");
  for (int k = 0; k < inst->n_calls; k++) {
    const HlSym *name = hl_called(inst, k)->name;
    hl_buf_puts(out, k ? "," : "");
    hl_buf_json_string(out, name->text, name->n);
  }
  hl_buf_puts(out, inst->n_calls > 0 ? "]" : "");
}

static void put_comp(HlCx *cx, const HlComp *comp, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlMap *map = hl_map_new(arena, comp);
  HlInst **order = hl_print_order(arena, comp);
  int *number = HL_ARRAY(arena, int, comp->next_id + 1);
  const char **path = HL_ARRAY(arena, const char *, map->n_groups);
  for (int k = 0; k < map->n_groups; k++)
    path[k] = namespace_of(arena, map, k);
  for (uint32_t k = 0; k < comp->n_insts; k++)
    number[order[k]->id] = (int)k;
  hl_buf_puts(out, "{");
  put_text(out, "id", comp->name->text);
  hl_buf_puts(out, ",\"nodes\":[");
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    const HlInst *inst = order[k];
    hl_buf_printf(out, "%s\n{\"id\":\"%u\",", k ? "," : "", k);
    put_text(out, "label", hl_op_text((HlOp)inst->op));
    hl_buf_putc(out, ',');
    put_text(out, "namespace", path[map->of[inst->id]]);
    put_attrs(out, cx, inst);
    put_edges(out, inst, number);
    put_output(out, inst);
    put_subgraphs(out, inst);
    hl_buf_puts(out, "}");
  }
  hl_buf_puts(out, "]}");
  hl_arena_free(arena);
}

void hl_view_model_explorer(HlCx *cx, const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, m);
  hl_buf_puts(out, "{");
  put_text(out, "label", m->name->text);
  hl_buf_puts(out, ",\"graphs\":[");
  for (uint32_t k = m->n_comps; k-- > 0;) {  // the entry first
    hl_buf_puts(out, k + 1 < m->n_comps ? ",\n" : "\n");
    put_comp(cx, order[k], out);
  }
  hl_buf_puts(out, "\n]}\n");
  hl_arena_free(arena);
}
