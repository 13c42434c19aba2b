// cli/opt.c: prints what 'hilo opt' found, reads its decisions.
#include "cli/opt.h"
#include "base/number.h"
#include "cli/json.h"

#include <stdlib.h>
#include <string.h>

#include "hilo/decisions.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "tool/steps_json.h"

// --- Tables -------------------------------------------------------------------------------------

static void table_row(const Cli *cli, HlBuf *out, const char *kind, const char *name,
                      const char *options, const char *meaning) {
  if (!cli->json) {
    hl_buf_printf(out, "%-42s %s\n", name, meaning);
    return;
  }
  json_begin_row(out, "passes");
  json_text(out, "kind", kind);
  json_text(out, "name", name);
  json_text(out, "options", options);
  json_text(out, "meaning", meaning);
  json_end_row(out);
}

int cli_list_passes(const Cli *cli) {
  HlBuf out = {0};
  hl_buf_puts(&out, cli->json ? "" : "passes:\n");
  for (int k = 0; k < hl_passes.n; k++)
    table_row(cli, &out, "pass", hl_passes.at[k].name, hl_passes.at[k].options,
              hl_passes.at[k].meaning);
  hl_buf_puts(&out, cli->json ? "" : "\npipelines:\n");
  for (int k = 0; k < hl_pipelines.n; k++)
    table_row(cli, &out, "pipeline", hl_pipelines.at[k].name, "", hl_pipelines.at[k].meaning);
  return json_print_table(cli, &out);
}

static void rule_row(const Cli *cli, HlBuf *out, const char *pass, const HlRule *rule) {
  if (!cli->json) {
    hl_buf_printf(out, "%-24s %-6s %s%s%s\n", pass, rule->name, rule->law,
                  *rule->when ? "   if " : "", rule->when);
    return;
  }
  json_begin_row(out, "rules");
  json_text(out, "pass", pass);
  json_text(out, "rule", rule->name);
  json_text(out, "op", rule->op >= HL_OP_COUNT ? "" : hl_op_info[rule->op].text);
  json_text(out, "law", rule->law);
  json_text(out, "when", rule->when);
  json_end_row(out);
}

int cli_list_rules(const Cli *cli) {
  HlBuf out = {0};
  for (int k = 0; k < hl_passes.n; k++)
    for (const HlRule *rule = hl_passes.at[k].rules; rule && rule->name; rule++)
      rule_row(cli, &out, hl_passes.at[k].name, rule);
  return json_print_table(cli, &out);
}

// --- What passes did ----------------------------------------------------------------------------

static void print_steps(const HlStep *steps, int n) {
  HlBuf out = {0};
  double total = 0;
  hl_buf_printf(&out, "%-40s %-36s %9s %9s %9s\n", "pipeline", "pass", "rewrites", "change", "ms");
  for (int k = 0; k < n; k++) {
    if (steps[k].is_pipeline)
      continue;
    total += steps[k].seconds;
    if (!steps[k].changed)
      continue;
    hl_buf_printf(&out, "%-40s %-36s %9lld %+9lld %9.3f\n", steps[k].pipeline, steps[k].pass,
                  (long long)steps[k].rewrites, (long long)(steps[k].after - steps[k].before),
                  steps[k].seconds * 1e3);
  }
  fflush(stdout);
  fputs(out.at ? out.at : "", stderr);
  base_fprintf(stderr, "%d steps, %.3f ms\n", n, total * 1e3);
  hl_buf_free(&out);
}

void cli_print_steps(Cli *cli, const HlEngine *engine) {
  int n;
  const HlStep *steps = hl_engine_steps(engine, &n);
  if (cli->json)
    tool_steps_json(&cli->report, "steps", steps, n);
  else
    print_steps(steps, n);
}

static void print_indented(HlBuf *out, const char *text) {
  for (const char *at = text; *at;) {
    size_t n = strcspn(at, "\n");
    hl_buf_puts(out, "    ");
    hl_buf_add(out, at, n);
    hl_buf_putc(out, '\n');
    at += n + (at[n] == '\n');
  }
}

static void print_snippet(HlBuf *out, const HlRewrite *r) {
  if (!r->before)
    return;
  print_indented(out, r->before);
  if (!r->after || !*r->after)
    return;
  hl_buf_puts(out, "  =>\n");
  print_indented(out, r->after);
}

static void rewrite_json(HlBuf *out, const char *key, const HlRewrite *r) {
  json_open(out, key, '{');
  json_text(out, "pass", r->pass);
  json_text(out, "rule", r->rule);
  json_text(out, "computation", r->comp);
  json_text(out, "instruction", r->inst);
  json_text(out, "with", r->with);
  json_text(out, "before", r->before ? r->before : "");
  json_text(out, "after", r->after ? r->after : "");
  json_close(out, '}');
}

void cli_print_rewrites(Cli *cli, const HlEngine *engine, HlBuf *out) {
  int64_t n;
  const HlRewrite *rewrites = hl_engine_rewrites(engine, &n);
  if (cli->json)
    json_open(&cli->report, "rewrites", '[');
  for (int64_t k = 0; k < n; k++) {
    const HlRewrite *r = &rewrites[k];
    if (cli->json) {
      hl_buf_puts(&cli->report, k > 0 ? ",\n   " : "\n   ");
      rewrite_json(&cli->report, NULL, r);
      continue;
    }
    hl_buf_printf(out, "%s %s at %s in %s%s%s\n", r->pass, r->rule, r->inst, r->comp,
                  *r->with ? " with " : "", r->with);
    print_snippet(out, r);
  }
  if (cli->json) {
    hl_buf_puts(&cli->report, n > 0 ? "\n  " : "");
    json_close(&cli->report, ']');
  }
}

static void provenance_json(HlBuf *out, const HlInst *inst, const HlRewrite *r) {
  json_open(out, NULL, '{');
  json_text(out, "computation", inst->comp->name->text);
  json_text(out, "instruction", inst->name->text);
  if (r) {
    json_text(out, "pass", r->pass);
    json_text(out, "rule", r->rule);
    json_text(out, "from", r->inst);
    json_text(out, "from_computation", r->comp);
  }
  json_close(out, '}');
}

void cli_print_provenance(Cli *cli, const HlEngine *engine, const HlModule *m, HlBuf *out) {
  if (cli->json)
    json_open(&cli->report, "provenance", '[');
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlRewrite *r = hl_origin_of(engine, inst);
      if (cli->json)
        provenance_json(&cli->report, inst, r);
      else if (r)
        hl_buf_printf(out, "%s: %s %s from %s in %s\n", inst->name->text, r->pass, r->rule, r->inst,
                      r->comp);
      else
        hl_buf_printf(out, "%s: was there\n", inst->name->text);
    }
  if (cli->json)
    json_close(&cli->report, ']');
}

// --- Checks -------------------------------------------------------------------------------------

static void check_json(const HlCheckEach *check, HlMaybeFloat tolerance, HlBuf *out) {
  HlBuf rule = {0};
  hl_compare_rule(tolerance, &rule);
  json_open(out, "check", '{');
  json_text(out, "rule", rule.at);
  json_int(out, "evaluations", check->evaluations);
  json_bool(out, "differs", check->differs);
  json_int(out, "results", check->results);
  json_int(out, "silent", check->silent);
  if (check->judged_after)
    json_text(out, "judged_after", check->judged_after);
  if (check->redrawn_by)
    json_text(out, "redrawn_by", check->redrawn_by);
  if (check->differs) {
    json_int(out, "step", check->number);
    json_text(out, "pipeline", check->step.pipeline);
    json_text(out, "pass", check->step.pass);
    json_int(out, "fuel", check->fuel);
    json_int(out, "result", check->leaf);
    rewrite_json(out, "rewrite", &check->rewrite);
  }
  json_close(out, '}');
  hl_buf_free(&rule);
}

static void print_rule(HlMaybeFloat tolerance, HlBuf *out) {
  hl_buf_puts(out, "rule: ");
  hl_compare_rule(tolerance, out);
  hl_buf_putc(out, '\n');
}

void cli_put_kept(const HlModule *m, const HlCheckEach *check, HlBuf *out) {
  hl_buf_printf(out, "module %s: every pass kept the results (%d evaluations)", m->name->text,
                check->evaluations);
  if (check->silent > 0)
    hl_buf_printf(out,
                  "; but %d of %d results have no finite value, and of these that says nothing: try "
                  "other arguments (--args, --seed)",
                  check->silent, check->results);
}

void cli_print_check(Cli *cli, const HlModule *m, const HlCheckEach *check, HlMaybeFloat tolerance,
                     HlBuf *out) {
  if (cli->json) {
    check_json(check, tolerance, &cli->report);
    return;
  }
  if (out->n == 0)
    print_rule(tolerance, out);
  if (check->judged_after)
    hl_buf_printf(out,
                  "module %s: judged after pass %s only, as before it does not say what crosses "
                  "into its manual parts\n",
                  m->name->text, check->judged_after);
  if (check->redrawn_by)
    hl_buf_printf(out, "module %s: results count anew from pass %s on, which draws other numbers\n",
                  m->name->text, check->redrawn_by);
  if (!check->differs) {
    cli_put_kept(m, check, out);
    hl_buf_putc(out, '\n');
    return;
  }
  const HlRewrite *r = &check->rewrite;
  hl_buf_printf(out, "module %s: result r%d changes in pass %s of %s (step %d)\n", m->name->text,
                check->leaf, check->step.pass, check->step.pipeline, check->number);
  if (check->mismatch.n > 0)
    hl_buf_printf(out, "  %lld of %lld elements differ; the worst is %g where %g was expected\n",
                  (long long)check->mismatch.n_different, (long long)check->mismatch.n,
                  check->mismatch.actual, check->mismatch.expected);
  hl_buf_printf(out, "the first rewrite to blame: rule %s at %s in %s%s%s (--fuel=%lld)\n", r->rule,
                r->inst, r->comp, *r->with ? " with " : "", r->with, (long long)check->fuel);
  print_snippet(out, r);
}

// --- Decisions ----------------------------------------------------------------------------------

bool cli_read_decisions(Cli *cli, const char *path, CliDecisions *out) {
  HlSource *source = hl_read_file(cli->cx, path);
  if (!source)
    return false;
  out->arena = hl_arena_new();
  bool ok = hl_decisions_read(cli->cx, source, out->arena, &out->at, &out->n);
  hl_source_unref(source);
  out->met = HL_ARRAY(out->arena, bool, out->n + 1);
  return ok;
}

// " A1 of algsimp: x in main with y", as far as it says; in the context's scratch.
static const char *describe(Cli *cli, const HlDecision *d) {
  const char *const words[][2] = {
      {" ", d->rule}, {" of ", d->pass}, {" at ", d->inst}, {" in ", d->comp}, {" with ", d->with}};
  HlBuf out = {0};
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    if (words[k][1] && *words[k][1])
      hl_buf_printf(&out, "%s%s", words[k][0], words[k][1]);
  const char *text = hl_arena_printf(hl_cx_scratch(cli->cx), "%s", out.at ? out.at : "");
  hl_buf_free(&out);
  return text;
}

static bool is_known(const char *name, HlModule *const *modules, int n) {
  if (!*name)
    return true;
  for (int k = 0; k < n; k++)
    if (hl_syms_find(modules[k]->syms, name, strlen(name)))
      return true;
  return false;
}

void cli_check_decisions(Cli *cli, const CliDecisions *decisions, HlModule *const *modules, int n) {
  int first = -1, stale = 0;
  for (int k = 0; k < decisions->n; k++) {
    const HlDecision *d = &decisions->at[k];
    if (is_known(d->inst, modules, n) && is_known(d->comp, modules, n) &&
        is_known(d->with, modules, n))
      continue;
    first = first < 0 ? k : first;
    stale++;
  }
  if (stale == 0)
    return;
  hl_warn(cli->cx, (HlPos){0},
          "%d of %d decisions name what the file does not have; the first is decision %d:%s", stale,
          decisions->n, first, describe(cli, &decisions->at[first]));
}

void cli_note_decisions(CliDecisions *decisions, const HlEngine *engine) {
  for (int k = 0; k < decisions->n; k++)
    decisions->met[k] = decisions->met[k] || hl_engine_decided(engine, k);
}

// Whether the table of the decision's pass, if it has one, has the decision's rule, if it names one.
static bool has_rule(const HlDecision *d) {
  const HlPassInfo *pass = *d->pass && *d->rule ? hl_pass_find(&hl_passes, hl_str(d->pass)) : NULL;
  const HlRule *rule = pass ? pass->rules : NULL;
  if (!rule)
    return true;
  while (rule->name && strcmp(rule->name, d->rule) != 0)
    rule++;
  return rule->name;
}

void cli_end_decisions(Cli *cli, const CliDecisions *decisions) {
  int first = -1, idle = 0;
  for (int k = 0; k < decisions->n; k++) {
    first = first < 0 && !decisions->met[k] ? k : first;
    idle += !decisions->met[k];
  }
  if (idle > 0)
    hl_warn(cli->cx, (HlPos){0},
            "%d of %d decisions met no rewrite that they could allow; the first is decision %d:%s",
            idle, decisions->n, first, describe(cli, &decisions->at[first]));
  if (idle > 0 && !has_rule(&decisions->at[first]))
    hl_hint(cli->cx, "pass %s has no rule '%s' in its table", decisions->at[first].pass,
            decisions->at[first].rule);
}

void cli_decisions_free(CliDecisions *decisions) {
  if (decisions->arena)
    hl_arena_free(decisions->arena);
  *decisions = (CliDecisions){0};
}
