// hilo diff: what differs between two modules, two dumps, the stages and passes of one.
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "cli/json.h"
#include "cli/load.h"
#include "hilo/diff.h"
#include "hilo/dump.h"
#include "tool/diff/dump_pairs.h"
#include "tool/diff/json.h"

typedef struct Run {
  Cli *cli;
  HlDiffOptions how;
  HlDiffShow show;
  bool brief;         // a line for each pair, and of many pairs for those that differ
  bool many, within;  // pairs, of one dump
  bool strict;        // names and order count
  const char *out;    // -o
  CliFiles files;
  int status;
  int64_t equal, renamed, different, alone, elided, unread;
} Run;

static bool is_directory(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

// --- One pair of modules ----------------------------------------------------------------------------

static bool counts_as_equal(const Run *r, const HlDiff *diff) {
  return diff->equal && (!r->strict || strcmp(hl_diff_headline(diff), "equal") == 0);
}

static void count(Run *r, const HlDiff *diff) {
  const bool equal = counts_as_equal(r, diff);
  r->equal += equal;
  r->renamed += equal && strcmp(hl_diff_headline(diff), "equal") != 0;
  r->different += !equal;
  r->elided += equal && diff->n_elided > 0;
  r->status = cli_worse(r->status, equal ? CLI_OK : CLI_DIFFERENT);
}

// "jit_f 0006.simplification.after_algsimp.before_dce": of the states of one dump the second says it all.
static void put_pair_name(const Run *r, const HlDiffShow *show, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlDumpName name = hl_dump_name_read(arena, show->name_b);
  if (r->within && name.is_numbered && *name.label)
    hl_buf_printf(out, "%s%s%s", name.name, *name.name ? " " : "", name.label);
  else
    hl_buf_printf(out, strcmp(show->name_a, show->name_b) == 0 ? "%s" : "%s -> %s", show->name_a,
                  show->name_b);
  hl_arena_free(arena);
}

static void put_line(const Run *r, const HlDiff *diff, const HlDiffShow *show, HlBuf *out) {
  if (counts_as_equal(r, diff) && r->many && !r->cli->verbose)
    return;
  put_pair_name(r, show, out);
  hl_buf_printf(out, ": %s", hl_diff_headline(diff));
  const char *between = " (";
  for (int k = HL_DIFF_CHANGED; !diff->equal && k < HL_DIFF_VERDICTS; k++)
    if (diff->count[k]) {
      hl_buf_printf(out, "%s%" PRId64 " %s", between, diff->count[k],
                    hl_verdict_text((HlVerdict)k));
      between = ", ";
    }
  hl_buf_puts(out, strcmp(between, ", ") == 0           ? ")"
                   : diff->equal || diff->n_header == 0 ? ""
                                                        : " (header)");
  hl_buf_puts(out, diff->n_elided ? ", but for constants that are elided: NOT KNOWN\n" : "\n");
}

static void report(Run *r, const HlDiff *diff, const HlDiffShow *show) {
  HlBuf out = {0};
  const bool html = r->out && (ends_with(r->out, ".html") || ends_with(r->out, ".html.gz"));
  count(r, diff);
  if (r->cli->json)
    diff_json(&r->cli->report, diff, show->all);
  if (html)
    hl_diff_html(r->cli->cx, diff, show, &out);
  else if (r->brief)
    put_line(r, diff, show, &out);
  else
    hl_diff_text(diff, show, &out);
  if (r->out && (html || !r->cli->json))
    hl_write_file(r->cli->cx, r->out, out.at, out.n);
  else if (!r->cli->json && out.n > 0) {
    cli_progress(r->cli, NULL);
    cli_print(&out);
  }
  hl_buf_free(&out);
}

// Which modules of two files belong together: those of one name, the k-th with the k-th, then what is left, in order.
// partner[k]: the place in b of a's k-th; -1: none. taken: which of b have one.
static void pair_modules(const HlFile *a, const HlFile *b, int *partner, bool *taken) {
  for (int k = 0; k < a->n; k++) {
    partner[k] = -1;
    for (int j = 0; partner[k] < 0 && j < b->n; j++)
      if (!taken[j] && strcmp(b->modules[j]->name->text, a->modules[k]->name->text) == 0) {
        partner[k] = j;
        taken[j] = true;
      }
  }
  for (int k = 0, j = 0; k < a->n; k++) {
    while (j < b->n && taken[j])
      j++;
    if (partner[k] >= 0 || j == b->n)
      continue;
    partner[k] = j;
    taken[j] = true;
  }
}

static void begin(Run *r, const char *a, const char *b) {
  if (!r->cli->json)
    return;
  json_begin_row(&r->cli->report, "diff");
  json_text(&r->cli->report, "file", a ? a : "");
  json_text(&r->cli->report, "other_file", b ? b : "");
}

static void end(Run *r) {
  r->status = cli_worse(r->status, cli_end_file(r->cli));
}

static const HlModule *wanted(const Run *r, const HlFile *file, int k) {
  const char *name = cli_value(r->cli, "--module");
  return !name || strcmp(file->modules[k]->name->text, name) == 0 ? file->modules[k] : NULL;
}

static void compare_modules(Run *r, const HlModule *a, const HlModule *b, HlDiffShow *show) {
  begin(r, show->name_a, show->name_b);
  HlDiff *diff = hl_diff(r->cli->cx, a, b, &r->how);
  if (diff)
    report(r, diff, show);
  hl_diff_free(diff);
  end(r);
}

// A module of one file that the other has no partner for.
static void say_missing(Run *r, const HlModule *m, const char *path_a, const char *path_b,
                        bool in_a) {
  r->alone++;
  r->status = cli_worse(r->status, CLI_DIFFERENT);
  begin(r, path_a, path_b);
  if (r->cli->json) {
    json_text(&r->cli->report, "headline", in_a ? "only in a" : "only in b");
    json_text(&r->cli->report, in_a ? "module" : "other_module", m->name->text);
  } else {
    printf("%s -> %s: module %s only in %s\n", path_a, path_b, m->name->text,
           in_a ? path_a : path_b);
  }
  end(r);
}

static void compare_files(Run *r, const char *path_a, const char *path_b, const HlFile *a,
                          const HlFile *b) {
  HlArena *arena = hl_arena_new();
  int *partner = HL_ARRAY(arena, int, a->n + 1);
  bool *taken = HL_ARRAY(arena, bool, b->n + 1), any = false;
  HlDiffShow show = r->show;
  show.name_a = path_a;
  show.name_b = path_b;
  pair_modules(a, b, partner, taken);
  for (int k = 0; k < a->n; k++) {
    const HlModule *m = wanted(r, a, k);
    any |= m != NULL;
    if (m && partner[k] >= 0)
      compare_modules(r, m, b->modules[partner[k]], &show);
    else if (m)
      say_missing(r, m, path_a, path_b, true);
  }
  for (int k = 0; k < b->n; k++)
    if (!taken[k] && wanted(r, b, k)) {
      say_missing(r, b->modules[k], path_a, path_b, false);
      any = true;
    }
  hl_arena_free(arena);
  if (any)
    return;
  begin(r, path_a, path_b);
  hl_error(r->cli->cx, (HlPos){0}, "%s has no module of that name", path_a);
  end(r);
}

// The context says why.
static void say_unread(Run *r, const char *path) {
  r->unread++;
  begin(r, path, NULL);
  end(r);
}

// --- One pair of files ------------------------------------------------------------------------------

static void say_alone(Run *r, const char *a, const char *b) {
  r->alone++;
  r->status = cli_worse(r->status, CLI_DIFFERENT);
  begin(r, a, b);
  if (r->cli->json)
    json_text(&r->cli->report, "headline", a ? "only in a" : "only in b");
  else
    printf("%s: only in %s\n", a ? a : b, a ? r->cli->files[0] : r->cli->files[1]);
  end(r);
}

// Whether a file of a directory is one, of which nobody has said yet that it cannot be read: that is said here.
static bool is_module(Run *r, int path) {
  HlFile file;
  bool skipped;
  const HlLoadOptions how = cli_load_options(r->cli);
  const bool ok = cli_load(r->cli, &r->files, path, &how, &file, &skipped);
  if (ok)
    hl_file_free(&file);
  else if (!skipped)
    say_unread(r, r->files.at[path].at);
  return ok;
}

static void compare_paths(Run *r, int a, int b) {
  Cli *cli = r->cli;
  HlFile x, y;
  bool skipped_a = false, skipped_b = false;
  const HlLoadOptions how = cli_load_options(cli);
  const char *path_a = r->files.at[a].at, *path_b = r->files.at[b].at;
  if (!r->many)
    cli_progress(cli, "reading and comparing %s", path_a);
  const bool ok_a = cli_load(cli, &r->files, a, &how, &x, &skipped_a);
  const bool ok_b = ok_a && cli_load(cli, &r->files, b, &how, &y, &skipped_b);
  if (ok_a && ok_b) {
    compare_files(r, path_a, path_b, &x, &y);
  } else if (ok_a && skipped_b) {
    say_alone(r, path_a, NULL);
  } else if (skipped_a && is_module(r, b)) {
    say_alone(r, NULL, path_b);
  } else if (!skipped_a && !skipped_b) {
    r->unread++;
    begin(r, path_a, path_b);
    end(r);
  }
  if (!r->many)
    cli_progress(cli, NULL);
  if (ok_a)
    hl_file_free(&x);
  if (ok_b)
    hl_file_free(&y);
}

// --- Directories ------------------------------------------------------------------------------------

static const char **paths_of(HlArena *arena, const CliFiles *files, int operand, int *first,
                             int *n) {
  *n = 0;
  for (int k = files->n - 1; k >= 0; k--)
    if (files->at[k].operand == operand) {
      *first = k;
      ++*n;
    }
  const char **paths = HL_ARRAY(arena, const char *, *n + 1);
  for (int k = 0; k < *n; k++)
    paths[k] = files->at[*first + k].at;
  return paths;
}

// The hash of what a file computes; 0: it is no module, or cannot be read, which is said.
static uint64_t hash_of(Run *r, int path) {
  HlFile file;
  bool skipped;
  const HlLoadOptions how = cli_load_options(r->cli);
  uint64_t hash = 0;
  if (cli_load(r->cli, &r->files, path, &how, &file, &skipped)) {
    hash = file.n > 0 ? hl_graph_hash(file.modules[0]) | 1 : 0;
    hl_file_free(&file);
    hl_cx_clear(r->cli->cx);
  } else if (!skipped) {
    say_unread(r, r->files.at[path].at);
  }
  return hash;
}

// Files without a partner of their name get one that computes the same; the others are alone.
static void pair_by_hash(Run *r, const DumpPairs *pairs, int first_a, int first_b) {
  uint64_t *hash = base_alloc(sizeof *hash * (size_t)(pairs->n + 1));
  bool *done = base_alloc(sizeof *done * (size_t)(pairs->n + 1));
  for (int k = 0; k < pairs->n; k++) {
    const DumpPair pair = pairs->at[k];
    done[k] = pair.a >= 0 && pair.b >= 0;
    if (!done[k])
      hash[k] = hash_of(r, pair.a >= 0 ? first_a + pair.a : first_b + pair.b);
  }
  for (int k = 0; k < pairs->n; k++) {
    if (done[k] || !hash[k] || pairs->at[k].a < 0)
      continue;
    int found = -1;
    for (int j = 0; j < pairs->n && found < 0; j++)
      if (!done[j] && pairs->at[j].a < 0 && hash[j] == hash[k])
        found = j;
    if (found >= 0) {
      done[k] = done[found] = true;
      compare_paths(r, first_a + pairs->at[k].a, first_b + pairs->at[found].b);
    }
  }
  for (int k = 0; k < pairs->n; k++)
    if (!done[k] && hash[k])
      say_alone(r, pairs->at[k].a >= 0 ? r->files.at[first_a + pairs->at[k].a].at : NULL,
                pairs->at[k].a >= 0 ? NULL : r->files.at[first_b + pairs->at[k].b].at);
  base_free(hash);
  base_free(done);
}

static void compare_pairs(Run *r, const DumpPairs *pairs, int first_a, int first_b) {
  for (int k = 0; k < pairs->n; k++) {
    const DumpPair pair = pairs->at[k];
    if (pair.a < 0 || pair.b < 0)
      continue;
    cli_progress(r->cli, "comparing %d of %d: %s", k + 1, pairs->n,
                 r->files.at[first_a + pair.a].at);
    compare_paths(r, first_a + pair.a, first_b + pair.b);
  }
  cli_progress(r->cli, NULL);
}

static void put_total(const Run *r, const char *of) {
  if (r->cli->json)
    return;
  printf("%" PRId64 " %s%s: %" PRId64 " equal", r->equal + r->different, of,
         r->equal + r->different == 1 ? "" : "s", r->equal);
  if (r->renamed)
    printf(" (%" PRId64 " but for names or order)", r->renamed);
  if (r->elided)
    printf(" (of %" PRId64 " as far as constants are not elided)", r->elided);
  printf(", %" PRId64 " different", r->different);
  if (r->alone)
    printf(", %" PRId64 " on one side only", r->alone);
  if (r->unread)
    printf("; %" PRId64 " NOT COMPARED: %s not be read", r->unread,
           r->unread == 1 ? "it could" : "they could");
  printf("\n");
}

static void compare_directories(Run *r) {
  HlArena *arena = hl_arena_new();
  int first_a = 0, first_b = 0, n_a, n_b;
  const char **a = paths_of(arena, &r->files, 0, &first_a, &n_a),
             **b = paths_of(arena, &r->files, 1, &first_b, &n_b);
  DumpPairs pairs =
      dump_pairs_of_two(a, n_a, strlen(r->cli->files[0]), b, n_b, strlen(r->cli->files[1]));
  compare_pairs(r, &pairs, first_a, first_b);
  pair_by_hash(r, &pairs, first_a, first_b);
  if (pairs.n > 0)
    put_total(r, "pair");
  vec_free(&pairs);
  hl_arena_free(arena);
}

static void compare_within(Run *r, bool passes) {
  HlArena *arena = hl_arena_new();
  int first = 0, n;
  const char **paths = paths_of(arena, &r->files, 0, &first, &n);
  DumpPairs pairs = passes ? dump_pairs_of_passes(paths, n) : dump_pairs_of_stages(paths, n);
  r->how.mode = HL_DIFF_STAGES;
  if (pairs.n == 0)
    hl_error(r->cli->cx, (HlPos){0}, "'%s' holds no program %s", r->cli->files[0],
             passes ? "in several states" : "both before and after optimisations");
  compare_pairs(r, &pairs, first, first);
  if (pairs.n > 0)
    put_total(r, passes ? "step" : "program");
  vec_free(&pairs);
  hl_arena_free(arena);
}

// --- A history --------------------------------------------------------------------------------------

static bool load_state(Run *r, const HlHistory *history, int step, HlFile *out) {
  HlBuf text = {0};
  int gone, come;
  hl_history_state(history, step, &text);
  HlSource *source = hl_source_take(hl_history_name(history, step, &gone, &come), &text, false);
  const bool ok = hl_load_source(r->cli->cx, source, NULL, out);
  hl_source_unref(source);
  return ok;
}

static void compare_history(Run *r, HlHistory *history) {
  HlFile last = {0};
  int gone, come;
  r->how.mode = HL_DIFF_STAGES;
  bool ok = load_state(r, history, 0, &last);
  for (int k = 1; ok && k < hl_history_steps(history); k++) {
    HlFile file;
    ok = load_state(r, history, k, &file);
    if (!ok)
      break;
    compare_files(r, hl_history_name(history, k - 1, &gone, &come),
                  hl_history_name(history, k, &gone, &come), &last, &file);
    hl_file_free(&last);
    last = file;
  }
  hl_file_free(&last);
  if (ok)
    put_total(r, "step");
}

// --- The command ------------------------------------------------------------------------------------

static bool read_options(Run *r) {
  Cli *cli = r->cli;
  const char *ignore = cli_value(cli, "--ignore");
  int64_t lines = 0;
  if (ignore && !hl_diff_what_by_text(cli->cx, hl_str(ignore), &r->how.ignore))
    return false;
  if (cli_flag(cli, "--stages") && cli_flag(cli, "--versions"))
    return cli_usage(cli, "--stages and --versions exclude each other") == CLI_OK;
  if (!cli_integer(cli, "--lines", 1, INT32_MAX, &lines))
    return false;
  r->how.mode = cli_flag(cli, "--stages")     ? HL_DIFF_STAGES
                : cli_flag(cli, "--versions") ? HL_DIFF_VERSIONS
                                              : HL_DIFF_TELL;
  r->strict = cli_flag(cli, "--strict");
  r->out = cli_value(cli, "-o");
  r->show = (HlDiffShow){
      .color = cli->color_out && !r->out, .all = cli_flag(cli, "--all"), .lines = (int)lines};
  return true;
}

static int usage_of(Run *r) {
  Cli *cli = r->cli;
  const int n = cli->n_files;
  if (n == 0 || n > 2)
    return cli_usage(cli, n == 0 ? "no file given" : "more than two files given");
  const bool dir = is_directory(cli->files[0]),
             history = n == 1 && ends_with(cli->files[0], ".history");
  if (n == 2 && dir != is_directory(cli->files[1]))
    return cli_usage(cli, "a directory is compared with a directory, a file with a file");
  if (n == 1 && !dir && !history)
    return cli_usage(cli, "one file given: two are compared, or the stages of a directory");
  if (cli_flag(cli, "--passes") && n == 2)
    return cli_usage(cli, "--passes is of one dump");
  r->many = dir || history;
  r->within = n == 1;
  r->brief = r->many ? !cli_flag(cli, "--all") : cli_flag(cli, "--brief");
  if (r->out && r->brief && ends_with(r->out, ".html"))
    return cli_usage(cli, "a page shows one pair of modules");
  return r->out && (dir || history) ? cli_usage(cli, "-o takes the report of one pair of modules")
                                    : CLI_OK;
}

static int compare_all(Run *r) {
  Cli *cli = r->cli;
  if (cli->n_files == 1 && !is_directory(cli->files[0])) {
    HlHistory *history = hl_history_read(cli->cx, cli->files[0]);
    if (history)
      compare_history(r, history);
    hl_history_free(history);
    return cli_flush(cli);
  }
  const int status = cli_take_files(cli, &r->files);
  if (status)
    return status;
  if (cli->n_files == 1)
    compare_within(r, cli_flag(cli, "--passes"));
  else if (is_directory(cli->files[0]))
    compare_directories(r);
  else
    compare_paths(r, 0, 1);
  return cli_end_files(cli, &r->files);
}

static int run(Cli *cli) {
  Run r = {.cli = cli};
  if (!read_options(&r))
    return hl_cx_n_errors(cli->cx) > 0 ? (cli_flush(cli), CLI_USAGE) : CLI_USAGE;
  int status = usage_of(&r);
  if (status)
    return status;
  status = compare_all(&r);
  cli_end_report(cli);
  return cli_worse(r.status, status);
}

static const CliOption options[] = {
    {"--ignore", "WHAT",
     "what does not count, separated by commas: metadata, layout, sharding, constants, attributes, "
     "shape, op, operands, "
     "config (backend_config), frontend (frontend_attributes), channels, control, order, names, "
     "header"},
    {"--strict", NULL, "names and the order of instructions count, too"},
    {"--stages", NULL,
     "A and B are stages of one program: what of A was fused, folded or inlined (default: told by "
     "the modules)"},
    {"--versions", NULL, "A and B are two versions of a program, whatever they look like"},
    {"--passes", NULL, "of one dump: each state between passes with the one before"},
    {"--all", NULL, "every instruction, also those that are the same; of directories every report"},
    {"--lines", "N", "of changes that hang together, how many are shown (12)"},
    {"--brief", NULL, "one line"},
    {"-o", "OUT", "where to write the report; a name in .html: a page with both side by side"},
    {"--module", "NAME", "of files that hold several modules, the one of this name"},
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_diff = {
    .name = "diff",
    .usage = "A B | DIRECTORY [--passes] | FILE.history",
    .summary = "say what differs between programs, by structure",
    .about = "Pairs the instructions of two modules by what they are computed from and what is "
             "computed from them, by names "
             "last,\n"
             "and says what became of each: the same, changed (and what), moved, fused, folded, "
             "inlined, removed, added. The "
             "same\n"
             "change in several places is told once. Of two directories files of one program and "
             "stage are compared, of one "
             "each\n"
             "program before and after optimisations. Programs that differ in names or order alone "
             "are equal, which is said "
             "with\n"
             "what is different then. The exit status is 1 where programs differ.",
    .examples = "  hilo diff old.hlo new.hlo            what changed\n"
                "  hilo diff before.hlo after.hlo       what the optimiser made of it\n"
                "  hilo diff a.hlo b.hlo -o diff.html   side by side\n"
                "  hilo diff dump1/ dump2/              file by file\n"
                "  hilo diff dump/ --passes             what each pass did\n"
                "  hilo diff --ignore=metadata,layout a.hlo b.hlo && echo equal\n",
    .options = options,
    .reports = true,
    .run = run,
};
