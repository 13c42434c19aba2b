// hilo passes: what passes, rules and pipelines there are; draws pipelines.
#include <string.h>

#include "cli/json.h"
#include "cli/opt.h"
#include "hilo/opt.h"

// --- One pass -----------------------------------------------------------------------------------

static void print_properties(const char *what, uint32_t set, HlBuf *out) {
  for (int k = 0; k < HL_PROPERTY_COUNT; k++)
    if (set >> k & 1)
      hl_buf_printf(out, "  %s %s: %s\n", what, hl_property_info[k].name,
                    hl_property_info[k].meaning);
}

static void print_orders(const HlPassInfo *pass, HlBuf *out) {
  for (int k = 0; k < hl_passes.n_orders; k++) {
    const HlPassOrder *order = &hl_passes.order[k];
    if (strcmp(order->before, pass->name) == 0)
      hl_buf_printf(out, "  before %s: %s\n", order->after, order->why);
    if (strcmp(order->after, pass->name) == 0)
      hl_buf_printf(out, "  after %s: %s\n", order->before, order->why);
  }
}

static void print_pass(const HlPassInfo *pass, HlBuf *out) {
  hl_buf_printf(out, "%s\n  %s\n", pass->name, pass->meaning);
  if (*pass->options)
    hl_buf_printf(out, "  options: %s\n", pass->options);
  print_properties("needs", pass->needs, out);
  print_properties("gives", pass->gives, out);
  print_properties("breaks", pass->breaks, out);
  print_properties("keeps", pass->keeps, out);
  print_orders(pass, out);
  for (const HlRule *rule = pass->rules; rule && rule->name; rule++)
    hl_buf_printf(out, "  %-6s %s%s%s\n", rule->name, rule->law, *rule->when ? "   if " : "",
                  rule->when);
}

static void properties_json(const char *key, uint32_t set, HlBuf *out) {
  json_open(out, key, '[');
  for (int k = 0; k < HL_PROPERTY_COUNT; k++)
    if (set >> k & 1)
      json_text(out, NULL, hl_property_info[k].name);
  json_close(out, ']');
}

static void pass_json(const HlPassInfo *pass, HlBuf *out) {
  json_text(out, "kind", "pass");
  json_text(out, "name", pass->name);
  json_text(out, "options", pass->options);
  json_text(out, "meaning", pass->meaning);
  properties_json("needs", pass->needs, out);
  properties_json("gives", pass->gives, out);
  properties_json("breaks", pass->breaks, out);
  properties_json("keeps", pass->keeps, out);
  json_open(out, "rules", '[');
  for (const HlRule *rule = pass->rules; rule && rule->name; rule++) {
    json_open(out, NULL, '{');
    json_text(out, "rule", rule->name);
    json_text(out, "law", rule->law);
    json_text(out, "when", rule->when);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static const char *label_of(const HlPipelineItem *item) {
  return *item->name ? item->name : "(outside pipelines)";
}

// Behind the name: where it runs at all.
static void put_condition(HlBuf *out, const HlPipelineItem *item) {
  HlDialect release;
  if (!item->condition)
    return;
  if (hl_dialect_by_text(hl_str(item->condition), &release))
    hl_buf_printf(out, "%s XLA %s", item->unless ? "before" : "since", item->condition);
  else
    hl_buf_printf(out, "%sif %s", item->unless ? "not " : "", item->condition);
}

static const char *kind_of(const HlPipelineItem *item) {
  return item->is_state ? "state" : item->pass ? "pass" : "pipeline";
}

static void print_item(const HlPipelineItem *item, int depth, HlBuf *out) {
  hl_buf_printf(out, "%*s%s%s%s%s", 2 * depth, "", label_of(item), item->args ? " {" : "",
                item->args ? item->args : "", item->args ? "}" : "");
  if (item->condition) {
    hl_buf_puts(out, " [");
    put_condition(out, item);
    hl_buf_puts(out, "]");
  }
  hl_buf_puts(out, item->is_state ? " (a state that dumps show)" : item->fixed_point ? " *" : "");
  hl_buf_putc(out, '\n');
  for (int k = 0; k < item->n; k++)
    print_item(&item->items[k], depth + 1, out);
}

static void item_json(const HlPipelineItem *item, HlBuf *out) {
  json_text(out, "kind", kind_of(item));
  json_text(out, "name", item->name);
  json_text(out, "options", item->args ? item->args : "");
  json_bool(out, "until_fixed", item->fixed_point);
  json_text(out, item->unless ? "unless" : "if", item->condition ? item->condition : "");
  json_open(out, "items", '[');
  for (int k = 0; k < item->n; k++) {
    json_open(out, NULL, '{');
    item_json(&item->items[k], out);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static const HlPipelineInfo *find_pipeline(const char *name) {
  for (int k = 0; k < hl_pipelines.n; k++)
    if (strcmp(hl_pipelines.at[k].name, name) == 0)
      return &hl_pipelines.at[k];
  return NULL;
}

// --- The picture --------------------------------------------------------------------------------

// Passes stand one under the other, in the frames of their pipelines.
enum { ROW = 22, PAD = 12, WIDTH = 460 };

static int height_of(const HlPipelineItem *item) {
  if (item->pass || item->is_state)
    return ROW;
  int height = ROW + PAD;
  for (int k = 0; k < item->n; k++)
    height += height_of(&item->items[k]) + 4;
  return height;
}

static void draw_label(HlBuf *out, const HlPipelineItem *item, int x, int y, bool bold) {
  hl_buf_printf(out, "<text x=\"%d\" y=\"%d\"%s>", x, y, bold ? " font-weight=\"bold\"" : "");
  hl_buf_xml(out, label_of(item));
  if (item->fixed_point)
    hl_buf_puts(out, " &#8635;");
  if (item->condition) {
    hl_buf_puts(out, " (");
    put_condition(out, item);
    hl_buf_puts(out, ")");
  }
  if (item->pass) {
    hl_buf_puts(out, "<title>");
    hl_buf_xml(out, item->pass->meaning);
    hl_buf_puts(out, "</title>");
  }
  hl_buf_puts(out, "</text>\n");
}

static int draw_item(HlBuf *out, const HlPipelineItem *item, int x, int y, int depth) {
  int height = height_of(item), width = WIDTH - 2 * x;
  const char *fill = item->pass ? "#ffffff" : depth % 2 ? "#e8f0fe" : "#f5f5f5";
  hl_buf_printf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
                "stroke=\"#9e9e9e\"/>\n",
                x, y, width, height, fill);
  draw_label(out, item, x + 8, y + 15, !item->pass);
  int at = y + ROW;
  for (int k = 0; k < item->n; k++)
    at = draw_item(out, &item->items[k], x + PAD, at, depth + 1) + 4;
  return y + height;
}

static void draw_svg(const HlPipelineItem *item, HlBuf *out) {
  hl_buf_printf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n",
                WIDTH, height_of(item) + 2 * PAD);
  draw_item(out, item, PAD, PAD, 0);
  hl_buf_puts(out, "</svg>\n");
}

static void dot_label(HlBuf *out, const HlPipelineItem *item) {
  HlBuf label = {0};
  hl_buf_printf(&label, "%s%s", label_of(item), item->fixed_point ? " *" : "");
  if (item->condition) {
    hl_buf_puts(&label, " (");
    put_condition(&label, item);
    hl_buf_puts(&label, ")");
  }
  hl_buf_puts(out, "label=");
  hl_buf_json_string(out, label.at, label.n);
  hl_buf_free(&label);
}

// A node for a pass, a cluster for a pipeline; returns the next node's number.
static int dot_item(HlBuf *out, const HlPipelineItem *item, int number, int depth) {
  if (item->pass || item->is_state) {
    hl_buf_printf(out, "%*sn%d [", 2 * depth, "", number);
    dot_label(out, item);
    hl_buf_puts(out, "];\n");
    return number + 1;
  }
  // Nodes before it give clusters their numbers, their depth makes those different.
  hl_buf_printf(out, "%*ssubgraph cluster_%d_%d {\n%*s", 2 * depth, "", number, depth,
                2 * depth + 2, "");
  dot_label(out, item);
  hl_buf_puts(out, ";\n");
  for (int k = 0; k < item->n; k++)
    number = dot_item(out, &item->items[k], number, depth + 1);
  hl_buf_printf(out, "%*s}\n", 2 * depth, "");
  return number;
}

// Graphviz: one pass after the other.
static void draw_dot(const HlPipelineItem *item, HlBuf *out) {
  hl_buf_puts(out, "digraph passes {\n  node [shape=box];\n");
  int n = dot_item(out, item, 0, 1);
  for (int k = 1; k < n; k++)
    hl_buf_printf(out, "  n%d -> n%d;\n", k - 1, k);
  hl_buf_puts(out, "}\n");
}

static bool ends_with(const char *name, const char *ending) {
  size_t n = strlen(name), m = strlen(ending);
  return n >= m && strcmp(name + n - m, ending) == 0;
}

// The file's name tells the form.
static void draw(const char *path, const HlPipelineItem *item, HlBuf *out) {
  if (path && (ends_with(path, ".dot") || ends_with(path, ".gv"))) {
    draw_dot(item, out);
    return;
  }
  bool is_page = path && ends_with(path, ".html");
  if (is_page) {
    hl_buf_puts(out, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
    hl_buf_xml(out, item->name);
    hl_buf_puts(out, "</title></head><body>\n");
  }
  draw_svg(item, out);
  if (is_page)
    hl_buf_puts(out, "</body></html>\n");
}

// --- The command --------------------------------------------------------------------------------

static int show_pipeline(Cli *cli, const HlPipelineInfo *row, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlPipelineItem top = {.name = row->name};
  const HlPipelineItem *all =
      hl_pipeline_parse(cli->cx, arena, &hl_passes, &hl_pipelines, row->text);
  if (all) {
    top.items = all->items;
    top.n = all->n;
  }
  if (all && cli_flag(cli, "--graph"))
    draw(cli_value(cli, "-o"), &top, out);
  else if (all && cli->json)
    item_json(&top, out);
  else if (all)
    print_item(&top, 0, out);
  hl_arena_free(arena);
  return cli_flush(cli);
}

static int unknown(Cli *cli, const char *name) {
  const char *names[1024];
  int n = 0;
  for (int k = 0; k < hl_passes.n && n < 1000; k++)
    names[n++] = hl_passes.at[k].name;
  for (int k = 0; k < hl_pipelines.n && n < 1024; k++)
    names[n++] = hl_pipelines.at[k].name;
  const char *near = hl_nearest(hl_str(name), names, n);
  return cli_usage(
      cli, near ? "no pass or pipeline '%s'; did you mean '%s'?" : "no pass or pipeline '%s'", name,
      near);
}

static int show(Cli *cli, const char *name, HlBuf *out) {
  const HlPipelineInfo *row = find_pipeline(name);
  if (row)
    return show_pipeline(cli, row, out);
  const HlPassInfo *pass = hl_pass_find(&hl_passes, hl_str(name));
  if (!pass)
    return unknown(cli, name);
  if (cli_flag(cli, "--graph"))
    return cli_usage(cli, "'%s' is a pass: --graph draws pipelines", name);
  if (cli->json)
    pass_json(pass, out);
  else
    print_pass(pass, out);
  return CLI_OK;
}

static int run(Cli *cli) {
  if (cli_flag(cli, "--rules"))
    return cli_list_rules(cli);
  if (cli->n_files == 0 && !cli_flag(cli, "--graph"))
    return cli_list_passes(cli);
  HlBuf out = {0};
  int status = CLI_OK;
  const bool as_json = cli->json && cli->n_files > 0 && !cli_flag(cli, "--graph");
  for (int k = 0; k < cli->n_files && !status; k++) {
    if (as_json)
      json_begin_row(&out, "passes");
    status = show(cli, cli->files[k], &out);
    if (as_json)
      json_end_row(&out);
  }
  if (as_json)
    hl_buf_puts(&out, "\n]\n");
  if (cli->n_files == 0)
    status = show(cli, "cpu", &out);
  const char *path = cli_value(cli, "-o");
  if (!status)
    hl_write_file(cli->cx, path ? path : "-", out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  return cli_worse(status, cli_flush(cli));
}

static const CliOption options[] = {
    {"--rules", NULL, "every rule of every pass, with its law"},
    {"--graph", NULL,
     "draw a pipeline ('cpu' when none is named) as SVG, or as dot or html if OUT is so named"},
    {"-o", "OUT", "where to write (default: standard output)"},
    {NULL, NULL, NULL},
};

const CliCommand cli_passes = {
    .name = "passes",
    .usage = "[NAME...] [--graph] [-o OUT.svg]",
    .summary = "show passes, their rules, and pipelines",
    .about = "Without a name it lists all passes and pipelines. Of a pass it shows the options and "
             "the rules with their\n"
             "laws, of a pipeline the passes in order; * marks what runs until nothing changes.",
    .examples = "  hilo passes                        what there is\n"
                "  hilo passes cpu                    the pipeline, in order\n"
                "  hilo passes algsimp                a pass, its options and laws\n",
    .options = options,
    .reports = true,
    .run = run,
};
