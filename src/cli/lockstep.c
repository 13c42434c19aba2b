// cli/lockstep.c: hilo run --trace and --compare-with: every value of a run, and two versions side by side.
//
// Both run on the interpreter, unless --platform=cpu asks for what the compiler makes of the program (of --compare-with: of the
// second; --reference=cpu: of the first). Then values are those of compiled steps. Where they differ, the optimised module
// itself runs beside its steps, which tells a wrong kernel from a wrong pass.
#include "cli/lockstep.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/cpu_program.h"
#include "cli/extract.h"
#include "cli/json.h"
#include "cli/select.h"
#include "cpu/kernel/source.h"
#include "hilo/lockstep.h"
#include "hilo/npy.h"
#include "spmd/local.h"
#include "tool/regex.h"

bool cli_wants_lockstep(const Cli *cli) {
  return cli_flag(cli, "--compare-with") || cli_flag(cli, "--trace");
}

// --- Programs ---------------------------------------------------------------------------------------

// What runs: a module as it is, or what the compiler has made of one.
typedef struct Runs {
  const HlModule *m;
  HlCompiled *compiled;
  HlCpuProgram *program;  // NULL: the interpreter runs the module
} Runs;

static bool make_runs(Cli *cli, HlSession *session, const HlModule *m, bool compiles,
                      const HlReplayOptions *options, Runs *out) {
  *out = (Runs){.m = m};
  if (!compiles)
    return true;
  const HlCompileOptions quietly = {.no_dumps = true};
  out->compiled = hl_compile(cli->cx, session, &(HlProgram){.module = m}, &quietly);
  out->program = out->compiled ? cli_cpu_program(cli, out->compiled, options) : NULL;
  if (!out->program)
    return false;
  out->m = hl_compiled_module(out->compiled);
  return true;
}

static void free_runs(Runs *runs) {
  hl_cpu_unref(runs->program);
  hl_compiled_unref(runs->compiled);
}

// The interpreter is what both options mean unless they are given.
static bool is_compiled(const Cli *cli, const char *option) {
  const HlPlatform *platform =
      hl_platform_find(cli_value(cli, option) ? cli_value(cli, option) : "reference");
  return platform && platform->has_programs;
}

// --- Words ------------------------------------------------------------------------------------------

// "%add.3 = f32[4] add in main  jit(f)/add  model.py:12"
static void put_inst(HlBuf *out, const HlInst *inst) {
  const CpuSource source = cpu_source(inst);
  hl_buf_printf(out, "%%%s = ", inst->name->text);
  hl_shape_print(out, inst->shape, false);
  hl_buf_printf(out, " %s in %s", hl_op_text((HlOp)inst->op), inst->comp->name->text);
  if (source.op_name)
    hl_buf_printf(out, "  %s", source.op_name);
  if (source.file)
    hl_buf_printf(out, "  %s:%d", source.file, source.line);
}

static void inst_json(HlBuf *out, const HlInst *inst) {
  const CpuSource source = cpu_source(inst);
  HlBuf shape = {0};
  hl_shape_print(&shape, inst->shape, false);
  json_text(out, "computation", inst->comp->name->text);
  json_text(out, "instruction", inst->name->text);
  json_text(out, "opcode", hl_op_text((HlOp)inst->op));
  json_bytes(out, "shape", shape.at, shape.n);
  if (source.op_name)
    json_text(out, "op_name", source.op_name);
  if (source.file) {
    json_text(out, "source_file", source.file);
    json_int(out, "source_line", source.line);
  }
  hl_buf_free(&shape);
}

static void put_range(HlBuf *out, const HlValueRange *r) {
  if (r->n_nan + r->n_inf < r->n)
    hl_buf_printf(out, "from %.6g to %.6g, mean %.6g", r->low, r->high, r->mean);
  const char *comma = r->n_nan + r->n_inf < r->n ? ", " : "";
  if (r->n_nan)
    hl_buf_printf(out, "%s%" PRId64 " nan", comma, r->n_nan);
  if (r->n_inf)
    hl_buf_printf(out, "%s%" PRId64 " inf", r->n_nan ? ", " : comma, r->n_inf);
}

static void range_json(HlBuf *out, const HlValueRange *r) {
  char hash[24];
  snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
  json_text(out, "hash", hash);
  json_int(out, "elements", r->n);
  json_number(out, "low", r->low);
  json_number(out, "high", r->high);
  json_number(out, "mean", r->mean);
  json_int(out, "zero", r->n_zero);
  json_int(out, "nan", r->n_nan);
  json_int(out, "inf", r->n_inf);
}

static void put_when(HlBuf *out, int devices, int device, int64_t time) {
  if (devices > 1)
    hl_buf_printf(out, " on device %d", device);
  if (time > 0)
    hl_buf_printf(out, " in its run %" PRId64, time + 1);
}

// --- The extract ------------------------------------------------------------------------------------

// Writes an instruction with what leads to it from values that are equal, and what it read at that time.
static bool write_extract(Cli *cli, const HlFile *file, const HlModule *m, const HlInst *inst,
                          int64_t height, int64_t time, const HlReplayOptions *options,
                          HlLiteral ***args) {
  const char *path = cli_value(cli, "--extract");
  if (!path)
    return true;
  CliParts parts = {
      .arena = hl_arena_new(), .records = true, .time = time, .inputs = *options, .args = args};
  parts.form = form_at(0);
  parts.at = HL_NEW(parts.arena, CliPart);
  parts.at->name = inst->name->text;
  parts.at->path = path;
  const bool ok = hl_extract(cli->cx, 1, &inst, height, &parts.at->extract);
  parts.n = ok;
  const bool written = ok && cli_write_parts(cli, &parts, file, m);
  cli_parts_free(&parts);
  return written;
}

// --- Two runs ---------------------------------------------------------------------------------------

static void put_mismatch(HlBuf *out, const HlStepPair *p) {
  const HlMismatch *mm = &p->mismatch;
  hl_buf_printf(out, "           %" PRId64 " of %" PRId64 " elements differ", mm->n_different,
                mm->n);
  if (mm->n_nan || mm->n_inf)
    hl_buf_printf(out, ", nan %" PRId64 ", inf %" PRId64, mm->n_nan, mm->n_inf);
  if (mm->worst >= 0) {
    hl_buf_printf(out, "; largest error %.3g at ", mm->worst_abs);
    hl_shape_print_index(out, p->b->shape, mm->worst);
    hl_buf_printf(out, ": %.9g, expected %.9g", mm->actual, mm->expected);
  }
  hl_buf_putc(out, '\n');
}

// How an instruction stood when the first that differs read it.
static const char *state(const HlLockstep *found, const HlInst *inst, const HlStepPair *first) {
  const HlStepPair *pair = hl_lockstep_pair(found, inst);
  if (found->unseen[inst->serial])
    return "inside of its kernel";
  if (!pair || pair->compared == 0)
    return hl_op_is((HlOp)inst->op, HL_T_GIVEN) ? "given" : "without a partner";
  return !pair->different ? "equal" : pair->time > first->time ? "equal then" : "differs";
}

enum { SHOWN = 10, DEEPEST = 6 };

// What it is computed from, past what has no partner, until values are known.
static void put_reads(HlBuf *out, const HlLockstep *found, const HlStepPair *first,
                      const HlInst *inst, int depth, int *room) {
  for (uint32_t k = 0; k<inst->n_operands && * room> 0; k++) {
    const HlInst *operand = hl_lockstep_origin(found, inst->operands[k]);
    const HlStepPair *pair = hl_lockstep_pair(found, operand);
    --*room;
    hl_buf_printf(out, "           %*sit reads (%s) ", 2 * depth, "", state(found, operand, first));
    put_inst(out, operand);
    hl_buf_putc(out, '\n');
    if (depth < DEEPEST && (!pair || pair->compared == 0))
      put_reads(out, found, first, operand, depth + 1, room);
  }
}

static void put_first(HlBuf *out, const HlLockstep *found, const HlStepPair *p) {
  int room = 3 * SHOWN;
  hl_buf_puts(out, found->results_equal ? "  such as  " : "  first    ");
  put_inst(out, p->b);
  put_when(out, found->devices, p->device, p->time);
  hl_buf_putc(out, '\n');
  put_mismatch(out, p);
  hl_buf_puts(out, "           its partner is ");
  put_inst(out, p->a);
  hl_buf_putc(out, '\n');
  put_reads(out, found, p, p->b, 0, &room);
}

static void put_others(HlBuf *out, const HlLockstep *found) {
  for (int k = 1; k < found->n_first && k < SHOWN; k++) {
    hl_buf_puts(out, "  also     ");
    put_inst(out, found->first[k]->b);
    hl_buf_putc(out, '\n');
  }
  if (found->n_first > SHOWN)
    hl_buf_printf(out, "           and %d others\n", found->n_first - SHOWN);
  for (int k = 0; k < found->n_unknown && k < SHOWN; k++) {
    hl_buf_puts(out, k == 0 ? "  among    " : "           ");
    put_inst(out, found->unknown[k]);
    hl_buf_putc(out, '\n');
  }
  if (found->n_unknown > SHOWN)
    hl_buf_printf(out, "           and %d others: none has a partner to compare with\n",
                  found->n_unknown - SHOWN);
}

// Whether the results say that both compute the same. What differs on the way counts for nothing then, and is told apart.
static void put_results(HlBuf *out, const HlLockstep *found) {
  const int n = found->devices * found->n_results;
  int different = 0;
  for (int k = 0; k < n; k++)
    different += !found->result[k].equal;
  if (different)
    hl_buf_printf(out, "  results  %d of %d DIFFERENT\n", different, n);
  else if (n == 0)
    hl_buf_puts(out,
                "  results  none: these programs give no arrays, so NOTHING IS COMPARED of them\n");
  else
    hl_buf_printf(out, "  results  equal: all %d", n);
  if (!different && n > 0 && found->n_silent)
    hl_buf_printf(out,
                  "; but %d of them ha%s no finite value, and of such a result that says nothing: "
                  "try other arguments (--args, --seed)",
                  found->n_silent, found->n_silent == 1 ? "s" : "ve");
  if (!different && n > 0)
    hl_buf_putc(out, '\n');
  if (!different && found->n_different)
    hl_buf_printf(
        out,
        "  on way   %d instruction%s other values than %s, which the results do not show: "
        "the same in\n           other words (a quotient as a product), or an error that "
        "does not reach them\n",
        found->n_different, found->n_different == 1 ? " gives" : "s give",
        found->n_different == 1 ? "its partner" : "their partners");
}

// What is not seen, or not compared.
static void put_gaps(HlBuf *out, const char *with, const HlLockstep *found) {
  if (found->is_cut)
    hl_buf_printf(out,
                  "           %s is the program of one device of %d: its values are compared with "
                  "the device's part of the whole\n",
                  with, found->devices);
  if (found->n_guessed)
    hl_buf_printf(out,
                  "           of %" PRId64
                  " value%s neither program says how %s cut: taken for parts "
                  "in the order of the devices\n",
                  found->n_guessed, found->n_guessed == 1 ? "" : "s",
                  found->n_guessed == 1 ? "it is" : "they are");
  if (found->n_unseen)
    hl_buf_printf(out,
                  "           %" PRId64 " instruction%s inside of kernels NOT SEEN one by one: the "
                  "results of their kernels are\n",
                  found->n_unseen, found->n_unseen == 1 ? "" : "s");
  if (found->n_not_run)
    hl_buf_printf(
        out,
        "           %" PRId64 " pair%s gave no value here, so that nothing is known of %s: "
        "branches that were not taken\n",
        found->n_not_run, found->n_not_run == 1 ? "" : "s", found->n_not_run == 1 ? "it" : "them");
  if (found->n_not_cut)
    hl_buf_printf(out,
                  "           %" PRId64
                  " partner%s NOT COMPARED: the program cuts none of its arrays "
                  "so that these sizes come out\n",
                  found->n_not_cut, found->n_not_cut == 1 ? "" : "s");
  if (found->n_silent_values)
    hl_buf_printf(
        out, "           %" PRId64 " value%s equal, but nothing in %s finite: that says nothing\n",
        found->n_silent_values, found->n_silent_values == 1 ? " is" : "s are",
        found->n_silent_values == 1 ? "it is" : "them is");
  if (found->n_alone)
    hl_buf_printf(
        out, "           %" PRId64 " values had none to compare with: loops turn differently\n",
        found->n_alone);
  if (found->n_too_large)
    hl_buf_printf(out, "           %" PRId64 " values were NOT COMPARED: more than --memory\n",
                  found->n_too_large);
}

// Whether it is the kernels that are wrong: `kernels` is the optimised module beside its own steps; NULL: that was not asked.
static void put_kernels(HlBuf *out, const HlLockstep *kernels) {
  if (!kernels)
    return;
  if (kernels->n_different == 0) {
    hl_buf_puts(out, "  kernels  all compute what the optimised module says: the passes, or the "
                     "programs, differ (hilo opt --check-each)\n");
    return;
  }
  const HlStepPair *p = kernels->n_first > 0 ? kernels->first[0] : NULL;
  hl_buf_printf(out,
                "  kernels  %d step%s other than the optimised module says, by the interpreter",
                kernels->n_different, kernels->n_different == 1 ? " computes" : "s compute");
  if (p) {
    hl_buf_puts(out, "; first\n           ");
    put_inst(out, p->b);
    put_when(out, kernels->devices, p->device, p->time);
  }
  hl_buf_putc(out, '\n');
  if (p)
    put_mismatch(out, p);
}

static void lockstep_text(HlBuf *out, const char *path, const char *with, const HlModule *a,
                          const HlLockstep *found, const HlLockstep *kernels, const Runs *b,
                          HlMaybeFloat tolerance) {
  hl_buf_printf(out, "%s: module %s beside %s%s\n", path, a->name->text, with,
                b->program ? ", compiled for the cpu" : "");
  hl_buf_printf(out,
                "  pairs    %d of %" PRId64 " instructions of %s have a partner; %" PRId64
                " values compared in %d run%s, %d instruction%s differ%s\n",
                found->n_pairs, found->n_b, with, found->n_compared, found->runs,
                found->runs == 1 ? "" : "s", found->n_different, found->n_different == 1 ? "" : "s",
                found->n_different == 1 ? "s" : "");
  put_gaps(out, with, found);
  hl_buf_puts(out, "  rule     ");
  hl_compare_rule(tolerance, out);
  hl_buf_putc(out, '\n');
  put_results(out, found);
  if (found->n_first > 0)
    put_first(out, found, found->first[0]);
  put_others(out, found);
  put_kernels(out, kernels);
}

static void pair_json(HlBuf *out, const HlLockstep *found, const HlStepPair *p) {
  json_open(out, NULL, '{');
  inst_json(out, p->b);
  json_text(out, "partner", p->a->name->text);
  json_text(out, "partner_computation", p->a->comp->name->text);
  json_int(out, "device", p->device);
  json_int(out, "time", p->time);
  json_int(out, "elements", p->mismatch.n);
  json_int(out, "different", p->mismatch.n_different);
  json_number(out, "largest_error", p->mismatch.worst_abs);
  json_number(out, "actual", p->mismatch.actual);
  json_number(out, "expected", p->mismatch.expected);
  json_open(out, "reads", '[');
  for (uint32_t k = 0; k < p->b->n_operands; k++) {
    const HlInst *from = hl_lockstep_origin(found, p->b->operands[k]);
    json_open(out, NULL, '{');
    inst_json(out, from);
    json_text(out, "is", state(found, from, p));
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
}

static void lockstep_json(HlBuf *out, const char *with, const HlModule *a, const HlLockstep *found,
                          const HlLockstep *kernels, const Runs *b) {
  json_open(out, NULL, '{');
  json_text(out, "module", a->name->text);
  json_text(out, "platform", b->program ? "cpu" : "reference");
  json_int(out, "devices", found->devices);
  json_bool(out, "equal", found->results_equal);
  json_open(out, "lockstep", '{');
  json_text(out, "with", with);
  json_int(out, "results", (int64_t)found->devices * found->n_results);
  json_int(out, "results_silent", found->n_silent);
  json_int(out, "instructions", found->n_b);
  json_int(out, "pairs", found->n_pairs);
  json_int(out, "values_compared", found->n_compared);
  json_int(out, "values_silent", found->n_silent_values);
  json_int(out, "values_alone", found->n_alone);
  json_int(out, "values_not_compared", found->n_too_large);
  json_int(out, "instructions_different", found->n_different);
  json_int(out, "instructions_unseen", found->n_unseen);
  json_int(out, "pairs_not_run", found->n_not_run);
  json_bool(out, "cut", found->is_cut);
  json_int(out, "partners_not_cut", found->n_not_cut);
  json_int(out, "cuts_guessed", found->n_guessed);
  json_int(out, "runs", found->runs);
  json_open(out, "first", '[');
  for (int k = 0; k < found->n_first; k++)
    pair_json(out, found, found->first[k]);
  json_close(out, ']');
  json_open(out, "without_partner", '[');
  for (int k = 0; k < found->n_unknown; k++) {
    json_open(out, NULL, '{');
    inst_json(out, found->unknown[k]);
    json_close(out, '}');
  }
  json_close(out, ']');
  if (kernels) {
    json_open(out, "kernels", '[');
    for (int k = 0; k < kernels->n_first; k++)
      pair_json(out, kernels, kernels->first[k]);
    json_close(out, ']');
  }
  json_close(out, '}');
  json_close(out, '}');
}

static void say_run(void *user, int run, int runs) {
  cli_progress(user, "running both, %d of at most %d", run + 1, runs);
}

// Both sides, and what came of them.
typedef struct Comparison {
  Runs a, b;
  HlReplay inputs;
  HlLockstep found, kernels;
  bool has_kernels;
} Comparison;

static HlLiteral ***args_of_b(Comparison *c) {
  return c->found.args ? c->found.args : c->inputs.args;
}

static bool run_both(Cli *cli, Comparison *c, const HlReplayOptions *options, int64_t memory) {
  HlLockstepOptions how = {.tolerance = options->tolerance,
                           .eval = options->eval,
                           .program_a = c->a.program,
                           .program_b = c->b.program,
                           .memory = memory << 20,
                           .progress = say_run,
                           .user = cli};
  bool ok = hl_lockstep(cli->cx, c->a.m, c->b.m, (const HlLiteral *const *const *)c->inputs.args,
                        &how, &c->found);
  if (ok && c->b.program && !c->found.results_equal) {
    c->has_kernels = true;
    how.program_a = NULL;
    ok = hl_lockstep(cli->cx, c->b.m, c->b.m, (const HlLiteral *const *const *)args_of_b(c), &how,
                     &c->kernels);
  }
  cli_progress(cli, NULL);
  return ok;
}

// A wrong kernel is all that needs to be shown.
static bool extract_first(Cli *cli, const HlFile *other, Comparison *c,
                          const HlReplayOptions *options) {
  const HlLockstep *of = c->has_kernels && c->kernels.n_first > 0 ? &c->kernels : &c->found;
  if (of->n_first == 0)
    return true;
  const HlStepPair *first = of->first[0];
  const HlInst *whole = hl_lockstep_whole(of, first->b);
  return write_extract(cli, other, c->b.m, whole, hl_lockstep_height(of, whole), first->time,
                       options, args_of_b(c));
}

static void report_comparison(Cli *cli, const char *path, const HlModule *a, const Comparison *c,
                              HlMaybeFloat tolerance) {
  const char *with = cli_value(cli, "--compare-with");
  const HlLockstep *kernels = c->has_kernels ? &c->kernels : NULL;
  if (cli->json) {
    lockstep_json(&cli->report, with, a, &c->found, kernels, &c->b);
    return;
  }
  HlBuf out = {0};
  lockstep_text(&out, path, with, a, &c->found, kernels, &c->b, tolerance);
  cli_flush(cli);
  cli_print(&out);
  hl_buf_free(&out);
}

static void free_comparison(Comparison *c) {
  if (c->kernels.arena)
    hl_lockstep_free(&c->kernels);
  if (c->found.arena)
    hl_lockstep_free(&c->found);
  hl_replay_free(&c->inputs);
  free_runs(&c->b);
  free_runs(&c->a);
}

static int compare_module(Cli *cli, const char *path, HlSession *session, const HlFile *file,
                          const HlModule *a, const HlFile *other, HlModule *b,
                          const HlReplayOptions *options) {
  int64_t memory = 1024;
  Comparison c = {0};
  cli_set_partitions(cli, b);
  if (!cli_integer(cli, "--memory", 1, 1 << 24, &memory))
    return CLI_USAGE;
  bool ok = hl_replay_inputs(cli->cx, a, &file->recorded, options, &c.inputs) &&
            make_runs(cli, session, a, is_compiled(cli, "--reference"), options, &c.a) &&
            make_runs(cli, session, b, is_compiled(cli, "--platform"), options, &c.b) &&
            run_both(cli, &c, options, memory);
  if (ok)
    report_comparison(cli, path, a, &c, options->tolerance);
  if (ok)
    extract_first(cli, other, &c, options);
  const int status = ok && !c.found.results_equal ? CLI_DIFFERENT : CLI_OK;
  free_comparison(&c);
  return status;
}

static int compare_with(Cli *cli, const char *path, HlSession *session, const HlFile *file,
                        const HlModule *m, const HlReplayOptions *options) {
  HlFile other;
  HlLoadOptions how = cli_load_options(cli);
  how.fill_hidden = true;
  const char *with = cli_value(cli, "--compare-with");
  if (!hl_load(cli->cx, with, &how, &other))
    return CLI_OK;                              // the error says more
  HlModule *b = cli_select(cli, &other, with);  // by --module, where there are several
  const int status =
      b ? compare_module(cli, path, session, file, m, &other, b, options) : CLI_USAGE;
  hl_file_free(&other);
  return status;
}

// --- One run ----------------------------------------------------------------------------------------

typedef struct Tracing {
  Cli *cli;
  HlBuf *out;  // what is not written yet
  FILE *file;
  bool failed;
  Regex *whole;
  HlArena *arena;
  const char **name;  // of values that are kept whole
  HlLiteral **value;
  int n, capacity;
  int64_t bytes;
  double last;
} Tracing;

enum { PIECE = 1 << 20 };

static void write_out(Tracing *t) {
  if (!t->failed && t->out->n > 0 && fwrite(t->out->at, 1, t->out->n, t->file) != t->out->n)
    t->failed = true;
  t->out->n = 0;
}

static void keep_whole(Tracing *t, const HlTraced *v) {
  if (t->n == t->capacity) {
    const int room = 2 * t->capacity + 16;
    const char **name = HL_ARRAY(t->arena, const char *, room);
    HlLiteral **value = HL_ARRAY(t->arena, HlLiteral *, room);
    if (t->n > 0) {
      memcpy(name, t->name, sizeof *name * (size_t)t->n);
      memcpy(value, t->value, sizeof *value * (size_t)t->n);
    }
    t->name = name;
    t->value = value;
    t->capacity = room;
  }
  HlBuf name = {0};
  if (v->device)
    hl_buf_printf(&name, "d%d.", v->device);
  hl_buf_printf(&name, "%s.%s", v->inst->comp->name->text, v->inst->name->text);
  if (v->leaf)
    hl_buf_printf(&name, "{%d}", v->leaf);
  if (v->time)
    hl_buf_printf(&name, "@%" PRId64, v->time);
  t->name[t->n] = hl_arena_strndup(t->arena, name.at, name.n);
  t->value[t->n++] = hl_literal_ref(v->value);
  hl_buf_free(&name);
}

static void take_value(void *user, const HlTraced *v) {
  Tracing *t = user;
  HlBuf line = {0};
  json_open(&line, NULL, '{');
  json_int(&line, "device", v->device);
  inst_json(&line, v->inst);
  if (v->leaf || v->inst->shape->dtype == HL_TUPLE)
    json_int(&line, "leaf", v->leaf);
  json_int(&line, "time", v->time);
  range_json(&line, &v->range);
  json_close(&line, '}');
  hl_buf_printf(t->out, "%.*s\n", (int)line.n, line.at);
  hl_buf_free(&line);
  if (t->whole && regex_matches(t->whole, v->inst->name->text))
    keep_whole(t, v);
  if (t->out->n >= PIECE)
    write_out(t);
  const double now = hl_now();
  if (now - t->last > 0.2) {
    t->last = now;
    cli_progress(t->cli, "running, at %s", v->inst->name->text);
  }
}

static void first_json(HlBuf *out, const char *key, const HlTraceFirst *first) {
  if (!first->inst) {
    json_nothing(out, key);
    return;
  }
  json_open(out, key, '{');
  inst_json(out, first->inst);
  json_int(out, "device", first->device);
  json_int(out, "time", first->time);
  range_json(out, &first->range);
  json_close(out, '}');
}

static void put_trace_first(HlBuf *out, const char *what, const HlTraceFirst *first,
                            int64_t n_values, int devices) {
  if (!first->inst && n_values > 0) {
    hl_buf_printf(out,
                  "  %-9s  none is made, but %" PRId64 " value%s it: arguments or constants do\n",
                  what, n_values, n_values == 1 ? " has" : "s have");
    return;
  }
  if (!first->inst) {
    hl_buf_printf(out, "  %-9s  none is made\n", what);
    return;
  }
  hl_buf_printf(out, "  %-9s  first made by ", what);
  put_inst(out, first->inst);
  put_when(out, devices, first->device, first->time);
  hl_buf_puts(out, "\n             ");
  put_range(out, &first->range);
  hl_buf_putc(out, '\n');
  for (uint32_t k = 0; k < first->inst->n_operands; k++) {
    hl_buf_puts(out, "             it reads ");
    put_inst(out, first->inst->operands[k]);
    hl_buf_putc(out, '\n');
  }
}

static bool write_whole(Tracing *t, const char *path) {
  bool ok = true;
  if (t->whole && t->n == 0)
    hl_warn(t->cli->cx, (HlPos){0}, "--trace-values: no instruction that ran has such a name");
  if (t->n > 0)
    ok = hl_npz_write(t->cli->cx, cli_beside(t->arena, path, ".npz"), t->n, t->name, t->value);
  for (int k = 0; k < t->n; k++)
    hl_literal_unref(t->value[k]);
  return ok;
}

static bool close_trace(Tracing *t, const char *path) {
  write_out(t);
  const bool ok = fclose(t->file) == 0 && !t->failed;
  if (!ok)
    hl_error_kind(t->cli->cx, HL_FAILED, (HlPos){0}, "cannot write %s", path);
  return ok;
}

static void report_trace(Cli *cli, const char *path, const Runs *runs, const HlTrace *trace,
                         int devices) {
  const HlModule *m = runs->m;
  if (cli->json) {
    HlBuf *out = &cli->report;
    json_open(out, NULL, '{');
    json_text(out, "module", m->name->text);
    json_text(out, "platform", runs->program ? "cpu" : "reference");
    json_int(out, "devices", devices);
    json_nothing(out, "equal");
    json_open(out, "trace", '{');
    json_text(out, "file", cli_value(cli, "--trace"));
    json_int(out, "values", trace->n_values);
    json_int(out, "left_out", trace->n_left_out);
    json_int(out, "instructions_unseen", trace->n_unseen);
    json_int(out, "values_with_nan", trace->n_nan);
    json_int(out, "values_with_inf", trace->n_infinity);
    first_json(out, "first_nan", &trace->nan);
    first_json(out, "first_inf", &trace->infinity);
    json_close(out, '}');
    json_close(out, '}');
    return;
  }
  HlBuf out = {0};
  hl_buf_printf(&out, "%s: module %s%s\n  trace      %" PRId64 " values in %s", path, m->name->text,
                runs->program ? ", compiled for the cpu" : "", trace->n_values,
                cli_value(cli, "--trace"));
  if (trace->n_left_out)
    hl_buf_printf(&out, "; %" PRId64 " of later runs left out (--trace-times=0 writes all)",
                  trace->n_left_out);
  hl_buf_putc(&out, '\n');
  if (trace->n_unseen)
    hl_buf_printf(&out,
                  "             %" PRId64 " instruction%s inside of kernels NOT SEEN one by one "
                  "(--platform=reference sees those of the program)\n",
                  trace->n_unseen, trace->n_unseen == 1 ? "" : "s");
  put_trace_first(&out, "nan", &trace->nan, trace->n_nan, devices);
  put_trace_first(&out, "infinity", &trace->infinity, trace->n_infinity, devices);
  cli_flush(cli);
  cli_print(&out);
  hl_buf_free(&out);
}

// A run that is traced, of what was compiled of a module, say.
typedef struct TraceRun {
  Cli *cli;
  const char *path;
  const HlFile *file;
  Runs runs;
  int devices;
  int64_t times;
  const HlReplayOptions *options;
  Tracing *tracing;
} TraceRun;

static bool trace_program(const TraceRun *r, const HlLiteral *const *const *args, HlTrace *out) {
  HlCx *cx = r->cli->cx;
  const char *to = cli_value(r->cli, "--trace");
  r->tracing->file = fopen(to, "wb");
  if (!r->tracing->file)
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot write %s", to);
  const HlTraceOptions how = {.eval = r->options->eval,
                              .program = r->runs.program,
                              .times = r->times,
                              .told = take_value,
                              .user = r->tracing};
  bool ok = hl_trace(cx, r->runs.m, args, &how, out);
  cli_progress(r->cli, NULL);
  ok = close_trace(r->tracing, to) && ok;
  return write_whole(r->tracing, to) && ok;
}

// On arguments of what runs, which may be the program for one device of several.
static bool trace_on(HlCx *cx, void *user, const HlLiteral *const *const *args,
                     HlLiteral **results) {
  (void)cx;
  (void)results;
  const TraceRun *r = user;
  HlTrace trace;
  if (!trace_program(r, args, &trace))
    return false;
  report_trace(r->cli, r->path, &r->runs, &trace, r->devices);
  const HlTraceFirst *first = trace.nan.inst ? &trace.nan : &trace.infinity;
  return !first->inst || write_extract(r->cli, r->file, r->runs.m, first->inst, 0, first->time,
                                       r->options, (HlLiteral ***)(uintptr_t)args);
}

static int trace_run(Cli *cli, const char *path, HlSession *session, const HlFile *file,
                     const HlModule *m, const HlReplayOptions *options, Tracing *t) {
  TraceRun r = {
      .cli = cli, .path = path, .file = file, .times = 100, .options = options, .tracing = t};
  HlReplay inputs = {0};
  if (!cli_integer(cli, "--trace-times", 0, INT64_MAX, &r.times))
    return CLI_USAGE;
  if (make_runs(cli, session, m, is_compiled(cli, "--platform"), options, &r.runs) &&
      hl_replay_inputs(cli->cx, m, &file->recorded, options, &inputs)) {
    HlArena *arena = hl_arena_new();
    r.devices = inputs.devices;
    sp_run_local(cli->cx, r.runs.m, m, &options->eval, trace_on, &r,
                 (const HlLiteral *const *const *)inputs.args,
                 HL_ARRAY(arena, HlLiteral *, r.devices + 1));
    hl_arena_free(arena);
  }
  hl_replay_free(&inputs);
  free_runs(&r.runs);
  return CLI_OK;
}

static int trace(Cli *cli, const char *path, HlSession *session, const HlFile *file,
                 const HlModule *m, const HlReplayOptions *options) {
  HlBuf out = {0};
  Tracing t = {.cli = cli, .out = &out, .arena = hl_arena_new()};
  const char *whole = cli_value(cli, "--trace-values");
  t.whole = whole ? regex_new(cli->cx, "--trace-values", whole) : NULL;
  const int status =
      whole && !t.whole ? CLI_OK : trace_run(cli, path, session, file, m, options, &t);
  regex_free(t.whole);
  hl_arena_free(t.arena);
  hl_buf_free(&out);
  return status;
}

int cli_lockstep(Cli *cli, const char *path, HlSession *session, const HlFile *file,
                 const HlModule *m, const HlReplayOptions *options) {
  return cli_flag(cli, "--trace") ? trace(cli, path, session, file, m, options)
                                  : compare_with(cli, path, session, file, m, options);
}
