// cli/sim/paragraph.c: the program under the names of ParaGraph's tools, with their flags and what they print.
//
// Flags are Abseil's: --flag value, --flag=value, --noflag of what is yes or no, and one dash will do.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "base/number.h"
#include "base/put.h"
#include "cli/dropin.h"
#include "cli/sim/sim.h"

// --- Flags --------------------------------------------------------------------------------------------------------

static const DropinFlag *find(const DropinFlag *table, const char *name, size_t n) {
  for (const DropinFlag *flag = table; flag->name; flag++)
    if (strlen(flag->name) == n && memcmp(flag->name, name, n) == 0)
      return flag;
  return NULL;
}

static bool set_bool(bool *out, const char *value) {
  static const char *const yes[] = {"true", "t", "yes", "y", "1"}, *const no[] = {"false", "f",
                                                                                  "no", "n", "0"};
  for (int k = 0; k < HL_COUNT_OF(yes); k++)
    if (same_word(value, yes[k]) || same_word(value, no[k])) {
      *out = same_word(value, yes[k]);
      return true;
    }
  return false;
}

static bool set_value(const DropinFlag *flag, const char *value) {
  char *end = NULL;
  errno = 0;
  switch (flag->kind) {
  case DROPIN_BOOL: return set_bool(flag->value, value);
  case DROPIN_TEXT: *(const char **)flag->value = value; return true;
  case DROPIN_INT: *(int64_t *)flag->value = strtoll(value, &end, 10); break;
  case DROPIN_NUMBER: *(double *)flag->value = base_read_double(value, &end); break;
  }
  return *value && !*end && !errno;
}

static void print_flags(const char *name, const char *about, const DropinFlag *table) {
  HlBuf out = {0};
  hl_buf_printf(&out, "usage: %s --flag=value...\n\n%s\n\nflags:\n", name, about);
  for (const DropinFlag *flag = table; flag->name; flag++)
    hl_buf_printf(&out, "  --%-40s %s\n", flag->name, flag->help);
  cli_print(&out);
  hl_buf_free(&out);
}

// A tool's call: its flags, read, and what they are for.
typedef struct Tool {
  HlCx *cx;
  const char *name, *about;
  const DropinFlag *table;
} Tool;

static bool wrong_value(const Tool *t, const DropinFlag *flag, const char *value) {
  return hl_error(t->cx, (HlPos){0}, "Illegal value '%s' specified for flag '%s'", value,
                  flag->name);
}

// One word, with the next where it takes that: how many words; 0 after reporting.
static int read_word(const Tool *t, const char *word, const char *next) {
  const char *name = word + 1 + (word[1] == '-'), *eq = strchr(name, '=');
  const size_t n = eq ? (size_t)(eq - name) : strlen(name);
  const DropinFlag *flag = find(t->table, name, n);
  const DropinFlag *off =
      !flag && n > 2 && memcmp(name, "no", 2) == 0 ? find(t->table, name + 2, n - 2) : NULL;
  if (off && off->kind == DROPIN_BOOL && !eq) {
    *(bool *)off->value = false;
    return 1;
  }
  if (!flag) {
    hl_error(t->cx, (HlPos){0}, "Unknown command line flag '%.*s'", (int)n, name);
    return 0;
  }
  if (flag->kind == DROPIN_BOOL && !eq) {
    *(bool *)flag->value = true;
    return 1;
  }
  const char *value = eq ? eq + 1 : next;
  if (!value) {
    hl_error(t->cx, (HlPos){0}, "Missing the value for the flag '%s'", flag->name);
    return 0;
  }
  if (!set_value(flag, value))
    return wrong_value(t, flag, value) ? 1 : 0;
  return eq ? 1 : 2;
}

// False: it is not to run, after --help or an error.
static bool read_flags(const Tool *t, int argc, char **argv) {
  for (int k = 0, n; k < argc; k += n) {
    if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
      print_flags(t->name, t->about, t->table);
      return false;
    }
    if (strcmp(argv[k], "--") == 0)
      return true;
    if (argv[k][0] != '-')
      return hl_error(t->cx, (HlPos){0}, "'%s' is no flag", argv[k]);
    n = read_word(t, argv[k], k + 1 < argc ? argv[k + 1] : NULL);
    if (n == 0)
      return false;
  }
  return true;
}

static int finish(HlCx *cx) {
  const int status = dropin_flush(cx);
  hl_cx_free(cx);
  return status;
}

// --- Files --------------------------------------------------------------------------------------------------------

static bool given(HlCx *cx, const char *flag, const char *value) {
  return *value || hl_error(cx, (HlPos){0}, "--%s is to be given", flag);
}

// The ending of a name decides, as in ParaGraph.
static HlSimGraph *read_graph(HlCx *cx, const char *path) {
  const HlSimForm form = hl_sim_form_of(path);
  if (form == HL_SIM_FORM_NONE) {
    hl_error(cx, (HlPos){0}, "Invalid extension: %s", path);
    return NULL;
  }
  HlSource *source = hl_read_file(cx, path);
  HlSimGraph *graph = source ? hl_sim_read(cx, source, form, false) : NULL;
  hl_source_unref(source);
  return graph;
}

static bool write_graph(HlCx *cx, const HlSimGraph *graph, const char *path) {
  Cli cli = {.cx = cx};
  return hl_sim_form_of(path) != HL_SIM_FORM_NONE
             ? sim_write(&cli, graph, path)
             : hl_error(cx, (HlPos){0}, "Invalid extension: %s", path);
}

// --- hlo_bridge -----------------------------------------------------------------------------------------------------

static HlSimGraph *bridge(HlCx *cx, const char *path, const HlSimBridge *options) {
  HlFile file;
  HlSimGraph *graph = NULL;
  if (!hl_load(cx, path, &(HlLoadOptions){.structure = true}, &file))
    return NULL;
  if (file.n == 1)
    graph = hl_sim_bridge(cx, file.modules[0], options);
  else
    hl_error(cx, (HlPos){0}, "%s holds %d programs: expected one", path, file.n);
  hl_file_free(&file);
  return graph;
}

int dropin_hlo_bridge(int argc, char **argv) {
  const char *module = "", *output = "", *csv = "";
  int64_t replicas = 1;
  double gibps = 900, tflops = 125, ttrps = 125;
  bool enforce = false, profiled = false, instructions = true, loops = true, time = true;
  const DropinFlag table[] = {
      {"hlo_module", DROPIN_TEXT, &module, "the module, in any form"},
      {"output_graph", DROPIN_TEXT, &output, "the graph, .pb or .textproto"},
      {"num_replicas", DROPIN_INT, &replicas,
       "copies of the module; cores that a profile sums over (1)"},
      {"estimate_gibps", DROPIN_NUMBER, &gibps, "GiB a second of the memory (900)"},
      {"estimate_tflops", DROPIN_NUMBER, &tflops, "10^12 operations a second (125)"},
      {"estimate_ttrps", DROPIN_NUMBER, &ttrps, "10^12 transcendental functions a second (125)"},
      {"enforce_postorder", DROPIN_BOOL, &enforce,
       "each instruction depends on the one before it (false)"},
      {"profiled_data", DROPIN_BOOL, &profiled, "costs from a profile (false)"},
      {"profiled_data_file", DROPIN_TEXT, &csv, "the profile, CSV"},
      {"instructions_from_trace", DROPIN_BOOL, &instructions,
       "what is not in the profile costs nothing (true)"},
      {"loop_counters_from_trace", DROPIN_BOOL, &loops,
       "loops run as often as in the profile (true)"},
      {"time_from_trace", DROPIN_BOOL, &time, "times are the profile's (true)"},
      {0},
  };
  const Tool t = {hl_cx_new(), "hlo_bridge",
                  "Writes the graph of a module in HLO, as ParaGraph's bridge does.", table};
  HlSimProfile *profile = NULL;
  HlSimGraph *graph = NULL;
  bool ok = read_flags(&t, argc, argv) && given(t.cx, "hlo_module", module) &&
            given(t.cx, "output_graph", output);
  if (ok && hl_sim_form_of(output) == HL_SIM_FORM_NONE)
    ok = hl_error(t.cx, (HlPos){0}, "Invalid extension: %s", output);
  if (ok && profiled) {
    HlSource *source = hl_read_file(t.cx, csv);
    profile = source ? hl_sim_profile_read(t.cx, source, replicas, HL_SIM_PARAGRAPH) : NULL;
    hl_source_unref(source);
    ok = profile != NULL;
  }
  const HlSimBridge options = {.compat = HL_SIM_PARAGRAPH,
                               .flops = {true, tflops * 1e12},
                               .transcendentals = {true, ttrps * 1e12},
                               .bytes = {true, gibps * 1024 * 1024 * 1024},
                               .replicas = replicas,
                               .profile = profile,
                               .profile_time = hl_switch(time),
                               .profile_only = hl_switch(instructions),
                               .profile_loops = hl_switch(loops)};
  graph = ok ? bridge(t.cx, module, &options) : NULL;
  if (graph && (!enforce || hl_sim_enforce_post_order(t.cx, graph)))
    write_graph(t.cx, graph, output);
  hl_sim_graph_free(graph);
  hl_sim_profile_free(profile);
  return finish(t.cx);
}

// --- graph_converter, graph_data_parallel_extender --------------------------------------------------------------------

int dropin_graph_converter(int argc, char **argv) {
  const char *input = "", *output = "";
  bool enforce = false;
  const DropinFlag table[] = {
      {"input_graph", DROPIN_TEXT, &input, "the graph, .pb or .textproto"},
      {"output_graph", DROPIN_TEXT, &output, "what to write, .pb or .textproto"},
      {"enforce_postorder", DROPIN_BOOL, &enforce,
       "each instruction depends on the one before it (false)"},
      {0},
  };
  const Tool t = {hl_cx_new(), "graph_converter", "Writes a graph in another form.", table};
  HlSimGraph *graph = NULL;
  if (read_flags(&t, argc, argv) && given(t.cx, "input_graph", input) &&
      given(t.cx, "output_graph", output))
    graph = read_graph(t.cx, input);
  if (graph && (!enforce || hl_sim_enforce_post_order(t.cx, graph)))
    write_graph(t.cx, graph, output);
  hl_sim_graph_free(graph);
  return finish(t.cx);
}

int dropin_graph_extender(int argc, char **argv) {
  const char *input = "", *output = "";
  int64_t replicas = 1;
  const DropinFlag table[] = {
      {"input_graph", DROPIN_TEXT, &input, "the graph, .pb or .textproto"},
      {"output_graph", DROPIN_TEXT, &output, "what to write, .pb or .textproto"},
      {"num_replicas", DROPIN_INT, &replicas, "processors of the new graph (1)"},
      {0},
  };
  const Tool t = {hl_cx_new(), "graph_data_parallel_extender",
                  "Changes the number of replicas of a data parallel graph.", table};
  HlSimGraph *graph = NULL;
  if (read_flags(&t, argc, argv) && given(t.cx, "input_graph", input) &&
      given(t.cx, "output_graph", output))
    graph = read_graph(t.cx, input);
  if (graph && hl_sim_extend(t.cx, graph, replicas))
    write_graph(t.cx, graph, output);
  hl_sim_graph_free(graph);
  return finish(t.cx);
}

// --- graph_translator -------------------------------------------------------------------------------------------------

typedef struct Translator {
  HlCx *cx;
  HlSimTranslation *how;
  const char *input, *dir, *end;
} Translator;

static bool write_one(const Translator *t, const HlSimGraph *graph) {
  const char *slash = strrchr(t->input, '/'), *name = slash ? slash + 1 : t->input,
             *dot = strrchr(name, '.');
  HlBuf path = {0};
  hl_buf_printf(&path, "%s%s%.*s.%lld%s", t->dir, *t->dir ? "/" : "", (int)(dot - name), name,
                (long long)hl_sim_graph_processor(graph),
                strcmp(t->end, "auto") == 0 ? dot : t->end);
  const bool ok = write_graph(t->cx, graph, path.at);
  hl_buf_free(&path);
  return ok;
}

static bool translate_one(const Translator *t, const HlSimGraph *composite, int64_t processor) {
  printf("Processing graph for processor %lld\n", (long long)processor);
  HlSimGraph *graph = hl_sim_individualize(t->cx, composite, processor, HL_SIM_PARAGRAPH);
  if (graph)
    printf("\tIndividualized graph.\n");
  const bool ok = graph && hl_sim_translate(t->cx, graph, t->how);
  if (ok)
    printf("\tTranslated collectives.\n\tTranslated protocol level communications.\n");
  const bool written = ok && write_one(t, graph);
  hl_sim_graph_free(graph);
  return written;
}

static bool check_consecutive(HlCx *cx, HlI64s ids) {
  for (int k = 0; k < ids.n; k++)
    if (ids.at[k] != k)
      return hl_error(cx, (HlPos){0}, "processor ids are not 0, 1, ...: there is no %d", k);
  return true;
}

int dropin_graph_translator(int argc, char **argv) {
  const char *input = "", *config = "", *dir = "", *end = "auto";
  bool check = false;
  const DropinFlag table[] = {
      {"input_graph", DROPIN_TEXT, &input, "the composite graph, .pb or .textproto"},
      {"translation_config", DROPIN_TEXT, &config, "how collectives become messages, JSON"},
      {"output_dir", DROPIN_TEXT, &dir, "where the graphs go"},
      {"output_ext", DROPIN_TEXT, &end, "their ending; auto: the input's"},
      {"check_consecutive_natural_processor_ids", DROPIN_BOOL, &check,
       "ids are to be 0, 1, ... (false)"},
      {0},
  };
  const Tool tool = {hl_cx_new(), "graph_translator",
                     "Writes a graph for each processor, its collectives as messages.", table};
  HlSimGraph *graph = NULL;
  HlArena *arena = hl_arena_new();
  Translator t = {tool.cx, NULL, input, dir, end};
  if (read_flags(&tool, argc, argv) && given(tool.cx, "input_graph", input) &&
      given(tool.cx, "translation_config", config)) {
    graph = read_graph(tool.cx, input);
    HlSource *source = graph ? hl_read_file(tool.cx, config) : NULL;
    t = (Translator){tool.cx,
                     source ? hl_sim_translation_read(tool.cx, source, HL_SIM_PARAGRAPH) : NULL,
                     input, dir, end};
    hl_source_unref(source);
  }
  const HlI64s ids = graph ? hl_sim_processors(arena, graph) : (HlI64s){0};
  bool ok = t.how && (!check || check_consecutive(tool.cx, ids));
  for (int k = 0; ok && k < ids.n; k++)
    ok = translate_one(&t, graph, ids.at[k]);
  hl_sim_translation_free(t.how);
  hl_sim_graph_free(graph);
  hl_arena_free(arena);
  return finish(tool.cx);
}

// --- simulator --------------------------------------------------------------------------------------------------------

static void print_settings(double tflops, double gibps, double gigabits) {
  HlBuf out = {0};
  PUT(&out, "Simulation parameters:\n\tFlops: ");
  put_g(&out, tflops, 6);
  PUT(&out, " TFLOPs\n\tMem BW: ");
  put_g(&out, gibps, 6);
  PUT(&out, " GiB/s\n\tNet BW: ");
  put_g(&out, gigabits, 6);
  PUT(&out, " gbps\nStarting simlator with simulation starting time 0.0s.\n");
  put_end(&out);
  cli_print(&out);
  hl_buf_free(&out);
}

static void print_end(double end) {
  HlBuf out = {0};
  PUT(&out, "Exiting simlator. Simulation is finished at simulation time ");
  put_g(&out, end, 6);
  PUT(&out, "\n");
  put_end(&out);
  cli_print(&out);
  hl_buf_free(&out);
}

int dropin_simulator(int argc, char **argv) {
  const char *input = "", *log_file = "";
  bool skip_zeros = true;
  double gibps = 900, tflops = 125, gigabits = 656;
  const DropinFlag table[] = {
      {"input_graph", DROPIN_TEXT, &input, "the graph of one processor, .pb or .textproto"},
      {"log_file", DROPIN_TEXT, &log_file, "the log, CSV"},
      {"skip_zeros", DROPIN_BOOL, &skip_zeros, "without instructions that take no time (true)"},
      {"estimate_mem_gibps", DROPIN_NUMBER, &gibps, "printed (900)"},
      {"estimate_tflops", DROPIN_NUMBER, &tflops, "printed (125)"},
      {"estimate_net_gbit", DROPIN_NUMBER, &gigabits,
       "2^30 bits a second of the network interface (656)"},
      {0},
  };
  const Tool t = {hl_cx_new(), "simulator", "Runs the graph of one processor.", table};
  HlSimGraph *graph = NULL;
  HlBuf log = {0};
  HlSimRun run;
  if (read_flags(&t, argc, argv) && given(t.cx, "input_graph", input) &&
      given(t.cx, "log_file", log_file))
    graph = read_graph(t.cx, input);
  if (graph && hl_sim_graph_processor(graph) < 0) {
    hl_error(t.cx, (HlPos){0}, "%s is a composite graph: expected one of a processor", input);
  } else if (graph) {
    print_settings(tflops, gibps, gigabits);
    const HlSimRunOptions options = {.compat = HL_SIM_PARAGRAPH,
                                     .net_bytes = gigabits * 1024 * 1024 * 1024 / 8.0,
                                     .keep_zeros = !skip_zeros,
                                     .log = &log};
    if (hl_sim_run_alone(t.cx, graph, &options, &run) &&
        hl_write_file(t.cx, log_file, log.at, log.n))
      print_end(run.end);
  }
  hl_buf_free(&log);
  hl_sim_graph_free(graph);
  return finish(t.cx);
}

// --- allreduce, stencil -------------------------------------------------------------------------------------------------

int dropin_allreduce(int argc, char **argv) {
  const char *output = "";
  HlSimAllReduce o = {.processors = 8, .loops = 1, .bytes = 1 << 20, .element = 4, .seconds = 1e-6};
  const DropinFlag table[] = {
      {"output_graph", DROPIN_TEXT, &output, "the graph, .pb or .textproto"},
      {"num_proc", DROPIN_INT, &o.processors, "processors (8)"},
      {"loop_count", DROPIN_INT, &o.loops, "how often (1)"},
      {"reduction_size", DROPIN_NUMBER, &o.bytes, "bytes of the all-reduce (1048576)"},
      {"format_size", DROPIN_NUMBER, &o.element, "bytes of a number (4)"},
      {"time_delay", DROPIN_NUMBER, &o.seconds, "seconds of work (1e-06)"},
      {"comm_overlap", DROPIN_BOOL, &o.overlap,
       "the all-reduce does not wait for the work (false)"},
      {0},
  };
  const Tool t = {hl_cx_new(), "allreduce", "Makes the graph of a loop of work and an all-reduce.",
                  table};
  HlSimGraph *graph = NULL;
  if (read_flags(&t, argc, argv) && given(t.cx, "output_graph", output))
    graph = hl_sim_make_all_reduce(t.cx, &o);
  if (graph)
    write_graph(t.cx, graph, output);
  hl_sim_graph_free(graph);
  return finish(t.cx);
}

// What stands on the command line of stencil: its operands, and -n or -v with a word.
static bool read_stencil(HlCx *cx, int argc, char **argv, const char **operands,
                         const char **name) {
  enum { OPERANDS = 12 };
  const char *ignored;
  int n = 0;
  for (int k = 0; k < argc; k++) {
    const char *word = argv[k];
    const bool names = strcmp(word, "-n") == 0 || strcmp(word, "--name") == 0;
    if (names || strcmp(word, "-v") == 0 || strcmp(word, "--verbosity") == 0) {
      if (k + 1 == argc)
        return hl_error(cx, (HlPos){0}, "%s needs a value", word);
      *(names ? name : &ignored) = argv[++k];
    } else if (n == OPERANDS) {
      return hl_error(cx, (HlPos){0}, "'%s' is one operand too many", word);
    } else {
      operands[n++] = word;
    }
  }
  return n == OPERANDS || hl_error(cx, (HlPos){0}, "expected 12 operands, not %d", n);
}

static bool read_numbers(HlCx *cx, const char *const *operands, double *out, int n) {
  for (int k = 0; k < n; k++) {
    char *end;
    out[k] = base_read_double(operands[k], &end);
    if (*end || !*operands[k])
      return hl_error(cx, (HlPos){0}, "operand %d, '%s', is no number", k + 1, operands[k]);
    if (!(out[k] >= 0 && out[k] <= 1e15) || (k < 4 && out[k] != (double)(int64_t)out[k]))
      return hl_error(cx, (HlPos){0}, "operand %d cannot be %s", k + 1, operands[k]);
  }
  return true;
}

int dropin_stencil(int argc, char **argv) {
  const char *operands[12], *name = NULL;
  double x[11];
  if (argc == 1 && strcmp(argv[0], "--help") == 0) {
    printf("usage: stencil X Y Z ITERATIONS CONDITION_SECONDS SECONDS FACE_BYTES EDGE_BYTES "
           "CORNER_BYTES ALLREDUCE_BYTES "
           "REDUCTION_SECONDS OUTPUT [-n NAME]\n\nMakes the graph of a stencil of 27 points on a "
           "box of processors.\n");
    return CLI_OK;
  }
  HlCx *cx = hl_cx_new();
  if (read_stencil(cx, argc, argv, operands, &name) && read_numbers(cx, operands, x, 11)) {
    const HlSimStencil o = {.name = name,
                            .size = {(int64_t)x[0], (int64_t)x[1], (int64_t)x[2]},
                            .iterations = (int64_t)x[3],
                            .condition_seconds = x[4],
                            .seconds = x[5],
                            .face = x[6],
                            .edge = x[7],
                            .corner = x[8],
                            .all_reduce = x[9],
                            .reduction_seconds = x[10]};
    HlSimGraph *graph = hl_sim_make_stencil(cx, &o);
    if (graph)
      write_graph(cx, graph, operands[11]);
    hl_sim_graph_free(graph);
  }
  return finish(cx);
}
