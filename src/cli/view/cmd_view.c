// hilo view: maps and pictures of modules.
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/load.h"
#include "cli/select.h"
#include "cli/view/view.h"

typedef enum Picture { MAP, HTML, SVG, DOT, EXPLORER } Picture;

static const struct {
  const char *name, *ending;
} pictures[] = {[MAP] = {"map", ".txt"},
                [HTML] = {"html", ".html"},
                [SVG] = {"svg", ".svg"},
                [DOT] = {"dot", ".dot"},
                [EXPLORER] = {"model-explorer", ".json"}};

static bool ends_with(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// A name without what compression adds to it ends so.
static bool is_named(const char *path, const char *ending) {
  char with[32];
  bool named = ends_with(path, ending);
  for (int k = 0; k < 2; k++) {
    snprintf(with, sizeof with, "%s%s", ending, k == 0 ? ".gz" : ".zst");
    named = named || ends_with(path, with);
  }
  return named;
}

static bool find_picture(const Cli *cli, Picture *out) {
  const char *to = cli_value(cli, "--to"), *path = cli_value(cli, "-o");
  *out = MAP;
  for (int k = 0; k < HL_COUNT_OF(pictures); k++)
    if (to ? strcmp(to, pictures[k].name) == 0 : path && is_named(path, pictures[k].ending)) {
      *out = (Picture)k;
      return true;
    }
  if (!to && (!path || strcmp(path, "-") == 0))
    return true;
  if (to)
    return cli_usage(cli, "unknown --to '%s': map, html, svg, dot or model-explorer", to) == CLI_OK;
  return cli_usage(cli, "cannot tell the form from the name '%s'; give --to", path) == CLI_OK;
}

// --- Pictures of one module ---------------------------------------------------------------------

static const HlComp *find_comp(Cli *cli, const HlModule *m) {
  const char *wish = cli_value(cli, "--computation");
  const HlComp *comp = wish ? hl_find_comp(m, hl_str(wish)) : m->entry;
  if (!comp)
    hl_error(cli->cx, (HlPos){0}, "module %s has no computation '%s'", m->name->text,
             wish ? wish : "of its entry");
  return comp;
}

// The instruction of --around, in any computation; then its computation is the one that is drawn.
static bool find_centre(Cli *cli, const HlModule *m, const HlComp **comp, HlViewOptions *options) {
  const char *wish = cli_value(cli, "--around");
  int64_t radius = 2;
  if (!cli_integer(cli, "--radius", 1, 100, &radius))
    return false;
  options->radius = (int)radius;
  if (!wish)
    return true;
  for (const HlComp *c = m->last; c && !options->centre; c = c->prev)
    options->centre = hl_find_inst(c, hl_str(wish));
  if (!options->centre)
    return hl_error(cli->cx, (HlPos){0}, "module %s has no instruction '%s'", m->name->text, wish);
  options->marked = options->centre;
  *comp = options->centre->comp;
  return true;
}

static bool draw(Cli *cli, const HlModule *m, Picture picture, HlBuf *out) {
  HlViewOptions options = {.closed_fusions = cli_flag(cli, "--closed-fusions")};
  const HlComp *comp = find_comp(cli, m);
  if (!comp || !find_centre(cli, m, &comp, &options))
    return false;
  if (picture == EXPLORER)
    hl_view_model_explorer(cli->cx, m, out);
  else if (picture == DOT)
    hl_view_dot(cli->cx, comp, &options, out);
  else
    hl_view_svg(cli->cx, comp, &options, out);
  return true;
}

// --- The map as text ----------------------------------------------------------------------------

static const char *const kinds[] = {"computation", "scope", "repeat", "alike",
                                    "unit",        "piece", "run",    "parameters"};

static void groups_json(HlBuf *out, const HlMap *map) {
  json_open(out, "groups", '[');
  for (int k = 0; k < map->n_groups; k++) {
    const HlGroup *group = &map->group[k];
    json_open(out, NULL, '{');
    json_text(out, "label", group->label);
    json_text(out, "kind", kinds[group->kind]);
    json_int(out, "parent", group->parent);
    json_int(out, "copies", group->copies);
    json_int(out, "instructions", group->n_insts);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void map_json(HlBuf *out, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, m);
  json_open(out, NULL, '{');
  json_text(out, "module", m->name->text);
  json_open(out, "computations", '[');
  for (uint32_t k = m->n_comps; k-- > 0;) {
    const HlMark mark = hl_arena_mark(arena);
    if (!order[k]->is_fusion) {
      json_open(out, NULL, '{');
      json_text(out, "name", order[k]->name->text);
      json_bool(out, "entry", order[k] == m->entry);
      groups_json(out, hl_map_new(arena, order[k]));
      json_close(out, '}');
    }
    hl_arena_release(arena, mark);
  }
  json_close(out, ']');
  json_close(out, '}');
  hl_arena_free(arena);
}

// --- Files --------------------------------------------------------------------------------------

typedef struct Job {
  Cli *cli;
  Picture picture;
  HlBuf out;
} Job;

static bool draw_modules(Job *job, HlFile *file, const char *path) {
  if (job->picture != MAP) {
    const HlModule *m = cli_select(job->cli, file, path);
    return m && draw(job->cli, m, job->picture, &job->out);
  }
  const HlModule *only = cli_value(job->cli, "--module") ? cli_select(job->cli, file, path) : NULL;
  for (int k = 0; k < file->n; k++)
    if ((!only || only == file->modules[k]) && job->cli->json)
      map_json(&job->cli->report, file->modules[k]);
    else if (!only || only == file->modules[k])
      hl_map_print(file->modules[k], &job->out);
  return only || !cli_value(job->cli, "--module");
}

static bool draw_file(Job *job, const char *path) {
  const HlLoadOptions how = cli_load_options(job->cli);
  HlFile file;
  if (!hl_load(job->cli->cx, path, &how, &file))
    return false;
  const bool ok = draw_modules(job, &file, path);
  hl_file_free(&file);
  return ok;
}

static bool make(Job *job, const ViewInputs *inputs) {
  Cli *cli = job->cli;
  if (job->picture == HTML)
    return view_page(cli, inputs->at, inputs->n, &job->out);
  if (inputs->n > 1)
    return cli_usage(cli, "several states of a program are drawn with --to=html") == CLI_OK;
  if (cli->json)
    json_open(&cli->report, "modules", '[');
  const bool ok = draw_file(job, inputs->at[0].path);
  if (cli->json)
    json_close(&cli->report, ']');
  return ok;
}

static int write_out(Job *job, int n_states) {
  Cli *cli = job->cli;
  const char *path = cli_value(cli, "-o");
  if (cli->json) {
    json_text(&cli->report, "form", pictures[job->picture].name);
    json_int(&cli->report, "states", n_states);
  }
  if (job->out.n > 0 && (!cli->json || path))
    hl_write_file(cli->cx, path ? path : "-", job->out.at, job->out.n);
  if (cli->json && path) {
    json_text(&cli->report, "output", path);
    json_count(&cli->report, "bytes", (double)job->out.n);
  }
  return CLI_OK;
}

static int run(Cli *cli) {
  Job job = {.cli = cli};
  const char *folder = cli_value(cli, "--serve");
  if (folder)
    return cli->n_files > 0 ? cli_usage(cli, "--serve takes a folder and no files")
                            : view_serve(cli, folder);
  if (!find_picture(cli, &job.picture))
    return CLI_USAGE;
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  ViewInputs inputs;
  cli_begin_file(cli, cli->files[0]);
  // What fails without a report is a wrong call, which has been told of.
  bool ok = view_inputs(cli, &inputs) && make(&job, &inputs);
  const bool wrong_call = !ok && hl_cx_n_errors(cli->cx) == 0;
  if (ok)
    write_out(&job, inputs.n);
  view_inputs_free(&inputs);
  hl_buf_free(&job.out);
  if (wrong_call)
    return CLI_USAGE;
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return status;
}

static const CliOption options[] = {
    {"-o", "FILE", "where to; its name says the form; .gz or .zst compress"},
    {"--to", "FORM", "map (text, default), html, svg, dot or model-explorer"},
    {"--around", "NAME", "open the page there; of svg and dot: only what is near"},
    {"--radius", "N", "how near, in steps over operands and users; default 2"},
    {"--computation", "NAME", "of svg and dot: which to draw; default the entry"},
    {"--closed-fusions", NULL, "of svg and dot: fusions as one node each"},
    {"--target", "NAME", "of html: the device that times are for; default h100"},
    {"--overlay", "FILE", "of html: colours of instructions, as JSON (docs/view.md)"},
    {"--title", "TEXT", "of html"},
    {"--serve", "DIR", "serve pages of a folder's modules on this machine, kept up to date"},
    {"--port", "N", "of --serve; default 8470; 0: any that is free"},
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_view = {
    .name = "view",
    .usage = "FILE... [-o OUT.html|.svg|.dot|.json]",
    .summary = "draw: a map with layers folded, a page to search it",
    .about =
        "Draws a module as a map: scopes (the paths in op_name) are boxes, layers that are equal "
        "are one box with\n"
        "their number, loops hold their bodies, fusions what was fused. Without -o it prints the "
        "map as text.\n"
        "With -o OUT.html it writes one page that needs nothing else: boxes open on a click, "
        "search, costs, times on\n"
        "a target, peak memory as colours, what is near an instruction, links (#NAME). Several "
        "FILEs are states\n"
        "of one program, one after the other, with what changed in colour; a folder is a dump, "
        "whose passes a\n"
        "slider goes through; so is a history (hilo opt --dump-as=delta).",
    .examples = "  hilo view m.hlo                    the map as text\n"
                "  hilo view m.hlo -o m.html          a page\n"
                "  hilo view before.hlo after.hlo -o d.html   what changed\n"
                "  hilo view dump/ --module=jit_f -o passes.html\n"
                "  hilo view m.hlo --around=dot.3 -o near.svg\n"
                "  hilo view --serve dump/            pages while a program runs\n",
    .options = options,
    .reports = true,
    .run = run,
};
