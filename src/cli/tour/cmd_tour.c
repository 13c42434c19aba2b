// hilo tour: a guided reading of a program's compilation, from what came in to what is run.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/equations.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/select.h"
#include "cli/table.h"
#include "cli/tour/program.h"
#include "hilo/opt.h"
#include "hilo/session.h"
#include "hilo/shares.h"
#include "hilo/text.h"
#include "tool/stats.h"

// A chapter: a heading, what it is about, and lines as they are.
typedef struct Chapter {
  const char *title;
  HlBuf about, lines;
} Chapter;

enum { CAME_IN, PASSES, CAME_OUT, FUSIONS, COSTS, MEMORY, CHAPTERS };

typedef struct Tour {
  Cli *cli;
  const char *path;
  const Program *program;  // that was run; NULL: none
  const HlPlatform *platform;
  const char *pipeline;
  HlArena *arena;
  Chapter chapter[CHAPTERS];
  int64_t lines;  // of a module's text that are shown; 0: all
} Tour;

// --- Modules --------------------------------------------------------------------------------------

// The entry's text, or as much of it as is shown.
static void put_module(Tour *t, const HlModule *m, HlBuf *out) {
  const HlTextOptions how = {.preset = HL_TEXT_SHORT, .metadata = HL_OFF, .backend_config = HL_OFF};
  HlBuf text = {0};
  hl_text_print_comp(t->cli->cx, m->entry, &how, &text);
  int64_t n = 0, all = 0;
  for (size_t k = 0; k < text.n; k++)
    all += text.at[k] == '\n';
  for (size_t at = 0; at < text.n;) {
    const char *end = memchr(text.at + at, '\n', text.n - at);
    const size_t length = end ? (size_t)(end - text.at) - at + 1 : text.n - at;
    if (t->lines == 0 || n < t->lines)
      hl_buf_add(out, text.at + at, length);
    at += length;
    n++;
  }
  if (t->lines > 0 && all > t->lines)
    hl_buf_printf(out, "... and %" PRId64 " lines (--lines=0 shows all)\n", all - t->lines);
  hl_buf_free(&text);
}

static void put_size(const HlModule *m, HlBuf *out) {
  hl_buf_printf(out, "%" PRId64 " instructions in %u computation%s", hl_count_instructions(m),
                m->n_comps, m->n_comps == 1 ? "" : "s");
}

// What JAX traced before it lowered it; that it cannot be read is said where it would stand.
static void put_jaxpr(Tour *t, const char *path, HlBuf *out) {
  HlCx *cx = t->cli->cx;
  const int before = hl_cx_n_diags(cx);
  HlFile file;
  HlBuf rows = {0};
  hl_buf_puts(out, "the jaxpr that JAX traced, equation by equation, with the instructions that each becomes "
                   "(here as hilo lowers it):\n");
  const bool ok = hl_load(cx, path, &(HlLoadOptions){0}, &file);
  if (ok && file.n == 1 && cli_equations(t->cli, file.modules[0], &rows))
    hl_buf_add(out, rows.at, rows.n);
  else
    hl_buf_printf(out, "  it cannot be read%s%s\n",
                  hl_cx_n_diags(cx) > before ? ": " : "",
                  hl_cx_n_diags(cx) > before ? hl_cx_diag(cx, before)->text : "");
  hl_cx_forget(cx, before);
  if (ok)
    hl_file_free(&file);
  hl_buf_free(&rows);
  hl_buf_puts(out, "\nthe module that the compiler got:\n");
}

static void tell_what_came(Tour *t, const HlFile *file, const HlModule *m) {
  Chapter *c = &t->chapter[CAME_IN];
  c->title = "What came in";
  hl_buf_printf(&c->about, "Module %s: ", m->name->text);
  put_size(m, &c->about);
  hl_buf_puts(&c->about, ". Of the entry computation, which is what runs, each line is an "
                         "operation with its type, sizes "
                         "and operands.\n");
  if (file->format == HL_FORMAT_JAXPR) {
    hl_buf_puts(&c->lines,
                "jaxpr, equation by equation, with the instructions that each became:\n");
    cli_equations(t->cli, m, &c->lines);
    hl_buf_putc(&c->lines, '\n');
  }
  if (t->program && t->program->jaxpr)
    put_jaxpr(t, t->program->jaxpr, &c->lines);
  put_module(t, m, &c->lines);
}

// --- Passes ---------------------------------------------------------------------------------------

// What is shown of a rule: where it was used first.
typedef struct Example {
  const char *pass, *rule;
  char *text;
} Example;

typedef struct Examples {
  HlCx *cx;
  HlArena *arena;
  Example *at;
  int n, room;
} Examples;

static Example *example_of(Examples *e, const char *pass, const char *rule) {
  for (int k = 0; k < e->n; k++)
    if (strcmp(e->at[k].rule, rule) == 0 && strcmp(e->at[k].pass, pass) == 0)
      return &e->at[k];
  return NULL;
}

// Called before each rewrite: the first of a rule is kept as it was.
static void keep_example(void *user, const char *pass, const char *rule, const HlInst *inst,
                         const HlInst *with) {
  Examples *e = user;
  const HlTextOptions how = {.preset = HL_TEXT_SHORT, .metadata = HL_OFF, .backend_config = HL_OFF};
  if (e->n == e->room || example_of(e, pass, rule))
    return;
  HlBuf text = {0};
  hl_text_print_inst(e->cx, inst, &how, &text);
  if (with) {
    hl_buf_puts(&text, "  with  ");
    hl_text_print_inst(e->cx, with, &how, &text);
  }
  e->at[e->n++] = (Example){hl_arena_strndup(e->arena, pass, strlen(pass)),
                            hl_arena_strndup(e->arena, rule, strlen(rule)),
                            hl_arena_strndup(e->arena, text.at, text.n)};
  hl_buf_free(&text);
}

static const HlRule *rule_of(const HlPassInfo *pass, const char *name) {
  for (const HlRule *rule = pass ? pass->rules : NULL; rule && rule->name; rule++)
    if (strcmp(rule->name, name) == 0)
      return rule;
  return NULL;
}

// The rules that a pass used in some steps, with how often and where first.
static void put_rules(const HlEngine *engine, Examples *examples, const char *pass, int from,
                      int to, HlBuf *out) {
  int64_t n;
  const HlRewrite *r = hl_engine_rewrites(engine, &n);
  for (int k = 0; k < examples->n; k++) {
    const Example *e = &examples->at[k];
    int64_t times = 0;
    for (int64_t i = 0; strcmp(e->pass, pass) == 0 && i < n; i++)
      times += r[i].step >= from && r[i].step <= to && strcmp(r[i].pass, pass) == 0 &&
               strcmp(r[i].rule, e->rule) == 0;
    if (times == 0)
      continue;
    const HlRule *rule = rule_of(hl_pass_find(&hl_passes, hl_str(pass)), e->rule);
    hl_buf_printf(out, "      %s, %" PRId64 " time%s%s%s\n        %s\n", e->rule, times,
                  times == 1 ? "" : "s", rule && *rule->law ? ": " : "", rule ? rule->law : "",
                  e->text);
  }
}

typedef struct Phase {
  const char *pipeline, *pass;
  int first, last;  // steps
  int64_t rewrites, before, after;
} Phase;

static void put_phase(const HlEngine *engine, Examples *examples, const Phase *p, HlBuf *out) {
  const HlPassInfo *pass = hl_pass_find(&hl_passes, hl_str(p->pass));
  hl_buf_printf(out, "    %s: %s\n", p->pass, pass ? pass->meaning : "");
  if (p->rewrites)
    hl_buf_printf(out, "      %" PRId64 " rewrite%s, ", p->rewrites, p->rewrites == 1 ? "" : "s");
  else
    hl_buf_puts(out, "      ");
  if (p->before == p->after)
    hl_buf_printf(out, "%" PRId64 " instructions, as before\n", p->after);
  else
    hl_buf_printf(out, "%" PRId64 " -> %" PRId64 " instructions\n", p->before, p->after);
  put_rules(engine, examples, p->pass, p->first, p->last, out);
}

// Adds a step to the phase of its pass in its pipeline, which may run until nothing changes.
static void add_step(Phase *phase, int *n, int begin, const HlStep *s, int number) {
  for (int k = begin; k < *n; k++)
    if (strcmp(phase[k].pass, s->pass) == 0) {
      phase[k].last = number;
      phase[k].rewrites += s->rewrites;
      phase[k].after = s->after;
      return;
    }
  phase[(*n)++] = (Phase){s->pipeline, s->pass, number, number, s->rewrites, s->before, s->after};
}

static void tell_passes(Tour *t, const HlCompiled *compiled, Examples *examples) {
  Chapter *c = &t->chapter[PASSES];
  const HlEngine *engine = hl_compiled_engine(compiled);
  const HlReport report = hl_compiled_report(compiled);
  int n, phases = 0, begin = 0;
  const HlStep *step = hl_engine_steps(engine, &n);
  Phase *phase = HL_ARRAY(t->arena, Phase, n + 1);
  c->title = "What the passes did";
  hl_buf_printf(
      &c->about,
      "The pipeline is %s. %d passes ran and %d changed something, with %" PRId64
      " rewrites. Each is shown with what it is for, and each of its rules with its law and the "
      "first place "
      "where it held. A pass that ran several times until nothing changed is shown once.\n",
      t->pipeline, report.passes, report.changed, report.rewrites);
  for (int k = 0; k < n; k++) {
    if (!step[k].changed || step[k].is_pipeline || step[k].is_start)
      continue;
    if (phases == begin || strcmp(phase[phases - 1].pipeline, step[k].pipeline) != 0)
      begin = phases;
    add_step(phase, &phases, begin, &step[k], k);
  }
  for (int k = 0; k < phases; k++) {
    if (k == 0 || strcmp(phase[k].pipeline, phase[k - 1].pipeline) != 0)
      hl_buf_printf(&c->lines, "  %s\n", *phase[k].pipeline ? phase[k].pipeline : "(no pipeline)");
    put_phase(engine, examples, &phase[k], &c->lines);
  }
  if (phases == 0)
    hl_buf_puts(&c->lines, "  nothing changed\n");
}

// --- What comes out -------------------------------------------------------------------------------

static void tell_result(Tour *t, const HlModule *m) {
  Chapter *c = &t->chapter[CAME_OUT];
  c->title = "What came out";
  put_size(m, &c->about);
  hl_buf_puts(&c->about, ". What stands in the entry now are steps: kernels, which fusions are, "
                         "calls of libraries, loops.\n");
  put_module(t, m, &c->lines);
}

// What a fusion holds, ops by how many there are.
static void put_fusion(const HlInst *fusion, HlBuf *out) {
  int64_t count[HL_OP_COUNT] = {0};
  HlOp ops[HL_OP_COUNT];
  for (const HlInst *in = hl_called(fusion, 0)->first; in; in = in->next)
    count[in->op] += in->op != HL_OP_PARAMETER;
  const int n = stats_sorted_ops(count, ops);
  hl_buf_printf(out, "  %s (%s): ", fusion->name->text,
                hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], (int)hl_attr_int(fusion, HL_A_KIND)));
  for (int k = 0; k < n; k++) {
    hl_buf_printf(out, "%s", k ? ", " : "");
    if (count[ops[k]] > 1)
      hl_buf_printf(out, "%" PRId64 " ", count[ops[k]]);
    hl_buf_puts(out, hl_op_text(ops[k]));
  }
  hl_buf_putc(out, '\n');
}

static void tell_fusions(Tour *t, const HlModule *m) {
  Chapter *c = &t->chapter[FUSIONS];
  int64_t n = 0;
  c->title = "Fusions";
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION && inst->n_calls == 1) {
        n++;
        if (t->lines == 0 || n <= t->lines)
          put_fusion(inst, &c->lines);
      }
  if (t->lines > 0 && n > t->lines)
    hl_buf_printf(&c->lines, "  and %" PRId64 " more\n", n - t->lines);
  hl_buf_printf(&c->about,
                n ? "%" PRId64 " kernels that compute several operations at once: what stands "
                    "inside is never written to "
                    "memory.\n"
                  : "There are none.\n",
                n);
}

// --- Costs ----------------------------------------------------------------------------------------

static void put_costs(Table *table, const char *label, double a, double b, bool bytes) {
  char room[2][32];
  table_row(table);
  table_text(table, "%s", label);
  table_text(table, "%s", cli_short_number(a, bytes, room[0], sizeof room[0]));
  table_text(table, "%s", cli_short_number(b, bytes, room[1], sizeof room[1]));
}

static double bytes_of(const Stats *s) {
  return s->cost.bytes_read + s->cost.bytes_written;
}

static void tell_costs(Tour *t, const Stats *a, const Stats *b, const HlModule *m,
                       const HlTarget *target) {
  static const char *const heads[] = {"", ">before", ">after"};
  Chapter *c = &t->chapter[COSTS];
  Table table;
  c->title = "What it costs";
  hl_buf_printf(&c->about,
                "A fusion reads its operands and writes its result once, so bytes fall while the "
                "work stays. Below, the "
                "steps that take longest, by the roofline of %s: the longer one of computing at "
                "its peak and of moving "
                "bytes.\n",
                target->name);
  table_begin(&table, heads, 3);
  put_costs(&table, "instructions", (double)a->instructions, (double)b->instructions, false);
  put_costs(&table, "flops", a->cost.flops, b->cost.flops, false);
  put_costs(&table, "transcendentals", a->cost.transcendentals, b->cost.transcendentals, false);
  put_costs(&table, "bytes", bytes_of(a), bytes_of(b), true);
  put_costs(&table, "peak memory", a->peak_memory, b->peak_memory, true);
  table_print(&table, &c->lines);
  const HlShares shares = hl_shares(t->arena, m, target, HL_BY_INSTRUCTION, HL_ORDER_TIME, 0);
  hl_buf_putc(&c->lines, '\n');
  for (int k = 0; k < shares.n && k < 5; k++)
    hl_buf_printf(&c->lines, "  %5.1f%%  %s (%s)\n",
                  shares.all.seconds > 0 ? 100 * shares.at[k].seconds / shares.all.seconds : 0,
                  shares.at[k].name, hl_op_text((HlOp)shares.at[k].inst->op));
}

static bool tell_memory(Tour *t, const HlModule *m, const HlTarget *target) {
  Chapter *c = &t->chapter[MEMORY];
  HlPeak peak;
  char room[5][32];
  if (!hl_peak(t->cli->cx, t->arena, m, target, true, &peak))
    return false;
  c->title = "Memory";
  hl_buf_printf(&c->about,
                "%s in all: parameters %s, results %s, constants %s, temporaries %s. The largest, "
                "when temporaries take "
                "the most:\n",
                cli_short_number((double)peak.total, true, room[0], sizeof room[0]),
                cli_short_number((double)peak.parameters, true, room[1], sizeof room[1]),
                cli_short_number((double)peak.outputs, true, room[2], sizeof room[2]),
                cli_short_number((double)peak.constants, true, room[3], sizeof room[3]),
                cli_short_number((double)peak.temporaries, true, room[4], sizeof room[4]));
  for (int k = 0; k < peak.n_held && k < 8; k++) {
    hl_buf_printf(&c->lines, "  %10s  %-9s  %s = ",
                  cli_short_number((double)peak.held[k].bytes, true, room[0], sizeof room[0]),
                  hl_held_words[peak.held[k].kind], peak.held[k].inst->name->text);
    hl_shape_print(&c->lines, peak.held[k].shape, false);
    hl_buf_printf(&c->lines, " %s\n", hl_op_text((HlOp)peak.held[k].inst->op));
  }
  for (int k = 0; k < peak.n_advice && k < 3; k++)
    hl_buf_printf(&c->lines, "  could save %s: %s %s\n",
                  cli_short_number((double)peak.advice[k].saves, true, room[0], sizeof room[0]),
                  hl_advice_words[peak.advice[k].kind], peak.advice[k].inst->name->text);
  return true;
}

// --- The page, and the text -----------------------------------------------------------------------

static void put_escaped(HlBuf *out, const HlBuf *text) {
  for (size_t k = 0; k < text->n; k++) {
    const char c = text->at[k];
    if (c == '<' || c == '>' || c == '&')
      hl_buf_puts(out, c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;");
    else
      hl_buf_putc(out, c);
  }
}

static const char style[] = "<style>body{font:16px/1.5 sans-serif;max-width:70em;margin:2em "
                            "auto;padding:0 1em;color:#222;background:#fff}"
                            "pre{background:#f4f4f1;padding:1em;overflow:auto;font-size:13px;line-"
                            "height:1.35}nav a{margin-right:1em}"
                            "h2{margin-top:2em;border-bottom:1px solid #ccc}"
                            "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
                            "pre{background:#242424}a{color:#8bf}}</style>\n";

static void put_page(const Tour *t, const HlModule *m, HlBuf *out) {
  HlBuf name = {0};
  hl_buf_puts(&name, m->name->text);
  hl_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  put_escaped(out, &name);
  hl_buf_printf(out, ": a tour</title>\n%s</head><body>\n<h1>", style);
  put_escaped(out, &name);
  hl_buf_puts(out, "</h1>\n<nav>");
  for (int k = 0; k < CHAPTERS; k++)
    hl_buf_printf(out, "<a href=\"#c%d\">%s</a>", k + 1, t->chapter[k].title);
  hl_buf_puts(out, "</nav>\n");
  for (int k = 0; k < CHAPTERS; k++) {
    hl_buf_printf(out, "<h2 id=\"c%d\">%d. %s</h2>\n<p>", k + 1, k + 1, t->chapter[k].title);
    put_escaped(out, &t->chapter[k].about);
    hl_buf_puts(out, "</p>\n<pre>");
    put_escaped(out, &t->chapter[k].lines);
    hl_buf_puts(out, "</pre>\n");
  }
  hl_buf_puts(out, "</body></html>\n");
  hl_buf_free(&name);
}

enum { WIDTH = 100 };

// A paragraph, in lines.
static void put_wrapped(HlBuf *out, const HlBuf *text) {
  size_t column = 0;
  for (size_t at = 0; at < text->n;) {
    size_t n = 0;
    while (at + n < text->n && text->at[at + n] != ' ' && text->at[at + n] != '\n')
      n++;
    if (column > 0 && column + 1 + n > WIDTH) {
      hl_buf_putc(out, '\n');
      column = 0;
    } else if (column > 0) {
      hl_buf_putc(out, ' ');
      column++;
    }
    hl_buf_add(out, text->at + at, n);
    column += n;
    at += n + 1;
  }
  hl_buf_putc(out, '\n');
}

static void put_text(const Tour *t, HlBuf *out) {
  for (int k = 0; k < CHAPTERS; k++) {
    const Chapter *c = &t->chapter[k];
    hl_buf_printf(out, "%s%d. %s\n\n", k ? "\n" : "", k + 1, c->title);
    put_wrapped(out, &c->about);
    hl_buf_putc(out, '\n');
    hl_buf_add(out, c->lines.at, c->lines.n);
  }
}

static void put_json(const Tour *t, const HlModule *m, HlBuf *out) {
  json_text(out, "module", m->name->text);
  json_text(out, "pipeline", t->pipeline);
  json_open(out, "chapters", '[');
  for (int k = 0; k < CHAPTERS; k++) {
    json_open(out, NULL, '{');
    json_text(out, "title", t->chapter[k].title);
    json_bytes(out, "about", t->chapter[k].about.at, t->chapter[k].about.n);
    json_bytes(out, "text", t->chapter[k].lines.at ? t->chapter[k].lines.at : "",
               t->chapter[k].lines.n);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static bool put_out(Tour *t, const HlModule *m) {
  HlBuf out = {0};
  const char *to = cli_value(t->cli, "-o");
  bool ok = true;
  if (to) {
    put_page(t, m, &out);
    ok = hl_write_file(t->cli->cx, to, out.at, out.n);
  }
  if (t->cli->json) {
    put_json(t, m, &t->cli->report);
  } else if (!to) {
    put_text(t, &out);
    cli_flush(t->cli);
    cli_print(&out);
  }
  hl_buf_free(&out);
  return ok;
}

// --- The command ----------------------------------------------------------------------------------

static void say_progress(void *user, const HlProgress *p) {
  cli_progress(user, "pass %d of %d: %s", p->number, p->of, p->pass);
}

enum { MOST_EXAMPLES = 400 };

static HlCompiled *compile(Tour *t, const HlModule *m, Examples *examples) {
  HlCx *cx = t->cli->cx;
  const HlSessionOptions how = {.platform = t->platform->name};
  HlSession *session = hl_session_new(cx, &how);
  const HlCompileOptions options = {.passes = t->pipeline,
                                    .no_dumps = true,
                                    .no_buffers = true,
                                    .engine = {.rewrite = keep_example, .user = examples},
                                    .progress = say_progress,
                                    .user = t->cli};
  HlCompiled *compiled =
      session ? hl_compile(cx, session, &(HlProgram){.module = m}, &options) : NULL;
  cli_progress(t->cli, NULL);
  hl_session_free(session);
  return compiled;
}

static bool guide(Tour *t, const HlFile *file, const HlModule *m) {
  Examples examples = {.cx = t->cli->cx,
                       .arena = t->arena,
                       .room = MOST_EXAMPLES,
                       .at = HL_ARRAY(t->arena, Example, MOST_EXAMPLES)};
  tell_what_came(t, file, m);
  HlCompiled *compiled = compile(t, m, &examples);
  if (!compiled)
    return false;
  const HlModule *made = hl_compiled_module(compiled);
  const HlTarget *target = hl_target_find(t->platform->target);
  const Stats before = stats_of_module(t->cli->cx, m), after = stats_of_module(t->cli->cx, made);
  tell_passes(t, compiled, &examples);
  tell_result(t, made);
  tell_fusions(t, made);
  tell_costs(t, &before, &after, made, target);
  const bool ok = tell_memory(t, made, target) && put_out(t, made);
  hl_compiled_unref(compiled);
  return ok;
}

// The module that --module names, or, of a program's, the one with the most instructions.
static HlModule *choose(const Tour *t, HlFile *file, const char *path, bool largest) {
  HlModule *most = file->n > 0 ? file->modules[0] : NULL;
  if (!t->program && (!largest || cli_value(t->cli, "--module")))
    return cli_select(t->cli, file, path);
  for (int k = 1; k < file->n; k++)
    if (hl_count_instructions(file->modules[k]) > hl_count_instructions(most))
      most = file->modules[k];
  return most;
}

static void tour_file(Tour *t, const char *path) {
  HlFile file;
  HlLoadOptions how = cli_load_options(t->cli);
  how.fill_hidden = true;
  how.consts_as_parameters = true;
  if (!hl_load(t->cli->cx, path, &how, &file))
    return;
  HlModule *m = choose(t, &file, path, file.n > 1);
  if (m) {
    cli_set_partitions(t->cli, m);
    guide(t, &file, m);
  }
  hl_file_free(&file);
}

static int run(Cli *cli) {
  Tour t = {.cli = cli, .lines = 40};
  if (cli->n_files != 1)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "more than one file given");
  const char *pipeline = cli_value(cli, "--pipeline") ? cli_value(cli, "--pipeline") : "cpu";
  t.platform = hl_platform_find(pipeline);
  if (!t.platform || !*t.platform->pipeline)
    return cli_usage(cli, "unknown pipeline '%s': cpu, cpu-native or gpu", pipeline);
  t.pipeline =
      strcmp(pipeline, t.platform->pipeline) == 0 ? t.platform->pipeline : t.platform->xla_pipeline;
  if (!cli_integer(cli, "--lines", 0, INT32_MAX, &t.lines) || !cli_has_partitions(cli))
    return CLI_USAGE;
  t.path = cli->files[0];
  t.arena = hl_arena_new();
  cli_begin_file(cli, t.path);
  Program program = {0};
  if (!program_is_python(t.path)) {
    tour_file(&t, t.path);
  } else if (program_run(cli, t.path, &program)) {
    t.program = &program;
    tour_file(&t, program.module);
  }
  program_free(&program);
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  for (int k = 0; k < CHAPTERS; k++) {
    hl_buf_free(&t.chapter[k].about);
    hl_buf_free(&t.chapter[k].lines);
  }
  hl_arena_free(t.arena);
  return status;
}

static const CliOption options[] = {
    {"--pipeline", "P",
     "whose passes: cpu (XLA's, default), gpu, or cpu-native, which is what 'hilo run' compiles "
     "by"},
    {"-o", "OUT.html", "write one page instead"},
    {"--lines", "N", "of a module, and fusions, that are shown (40; 0: all)"},
    {"--python", "P", "what runs PROGRAM.py (python3)"},
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_tour = {
    .name = "tour",
    .usage = "FILE|PROGRAM.py [--pipeline=P] [-o OUT.html]",
    .summary = "a guided reading of a program's compilation",
    .about = "Tells in six chapters what a compiler does to a program: what came in, what each "
             "pass changed and by "
             "which rule, what\n"
             "came out, what is fused, what it costs before and after, who holds its memory. Of a "
             "Python program, "
             "which runs with\n"
             "JAX's and XLA's dumps on, the largest module that it compiles is shown, or --module.",
    .examples = "  hilo tour m.hlo                    in the terminal\n"
                "  hilo tour train.py -o tour.html    the largest program that train.py compiles, "
                "as a page\n",
    .options = options,
    .reports = true,
    .run = run,
};
