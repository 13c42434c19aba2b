// hlo-opt: XLA's tool of that name: runs passes, or a backend's pipeline up to a stage, over HLO.
#include <stdlib.h>
#include <string.h>

#include "cli/dropin.h"
#include "hilo/buffers.h"
#include "hilo/dump.h"
#include "hilo/opt.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/view.h"

typedef struct HloOpt {
  HlCx *cx;
  HlFlags flags;
  const char *o, *platform, *format, *stage, *passes, *debug_options_file;
  bool list_stages, list_passes, split_input_file, emit_proto;
} HloOpt;

// The stages of a platform, in the order of the compiler; `missing` tells why one cannot be had here.
typedef struct Stage {
  const char *platform, *name;
  const char *pipeline;  // NULL: none
  const char *disable;   // passes and pipelines of it that come later
  const char *missing;
} Stage;

// What XLA leaves to the backend: on the CPU from the schedule on, on GPUs also copies.
static const char cpu_backend[] = "cpu-scheduler,HLO passes after scheduling";
static const char gpu_backend[] = "pre-scheduling-copy-insertion,pre-scheduling-passes,"
                                  "hlo-memory-scheduler,latency-hiding-scheduler,"
                                  "post-scheduling-passes";
static const char needs_code[] = "it shows what LLVM makes, and code is not generated here";
static const Stage stages[] = {
    {"transforms", "hlo", NULL, "", NULL},
    {"transforms", "html", NULL, "", NULL},
    {"cpu", "hlo", "cpu", cpu_backend, NULL},
    {"cpu", "html", "cpu", cpu_backend, NULL},
    {"cpu", "hlo-backend", "cpu", "", NULL},
    {"cpu", "buffer-assignment", "cpu", "", NULL},
    {"cpu", "llvm-before-optimizations", NULL, "", needs_code},
    {"gpu", "hlo", "gpu", gpu_backend, NULL},
    {"gpu", "html", "gpu", gpu_backend, NULL},
    {"gpu", "hlo-backend", "gpu", "", NULL},
    {"gpu", "buffer-assignment", "gpu", "", NULL},
    {"gpu", "llvm", NULL, "", needs_code},
    {"gpu", "llvm-before-optimizations", NULL, "", needs_code},
    {"gpu", "llvm-after-optimizations", NULL, "", needs_code},
    {"gpu", "ptx", NULL, "", needs_code},
};

static const char *platform_of(const char *name) {
  static const char *const aliases[][2] = {{"CUDA", "gpu"}, {"cuda", "gpu"}, {"ROCM", "gpu"},
                                           {"rocm", "gpu"}, {"Host", "cpu"}, {"host", "cpu"},
                                           {"CPU", "cpu"},  {"GPU", "gpu"}};
  for (int k = 0; k < HL_COUNT_OF(aliases); k++)
    if (strcmp(aliases[k][0], name) == 0)
      return aliases[k][1];
  return name;
}

static bool is_platform(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(stages); k++)
    if (strcmp(stages[k].platform, name) == 0)
      return true;
  return false;
}

// --- Lists --------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_passes(void) {
  HlArena *arena = hl_arena_new();
  const char **names = HL_ARRAY(arena, const char *, hl_passes.n);
  for (int k = 0; k < hl_passes.n; k++)
    names[k] = hl_passes.at[k].name;
  qsort(names, (size_t)hl_passes.n, sizeof *names, by_text);
  for (int k = 0; k < hl_passes.n; k++)
    printf("%s%s", k > 0 ? "," : "", names[k]);
  printf("\n");
  hl_arena_free(arena);
  return CLI_OK;
}

static int list_stages(const char *platform) {
  for (int k = 0; k < HL_COUNT_OF(stages); k++)
    if (strcmp(stages[k].platform, platform) == 0)
      printf("%s\n", stages[k].name);
  return CLI_OK;
}

// --- One module ---------------------------------------------------------------------------------

static const Stage *find_stage(HloOpt *opt, const char *platform) {
  for (int k = 0; k < HL_COUNT_OF(stages); k++)
    if (strcmp(stages[k].platform, platform) == 0 && strcmp(stages[k].name, opt->stage) == 0) {
      if (!stages[k].missing)
        return &stages[k];
      hl_error_kind(opt->cx, HL_UNSUPPORTED, (HlPos){0}, "there is no stage %s: %s", opt->stage,
                    stages[k].missing);
      return NULL;
    }
  hl_error(opt->cx, (HlPos){0}, "platform %s has no stage %s", platform, opt->stage);
  hl_hint(opt->cx, "--list-stages names them");
  return NULL;
}

// The tool's own words.
static bool no_pass(HloOpt *opt, HlStr name) {
  const char *names[1024];
  int n = 0;
  for (; n < hl_passes.n && n < HL_COUNT_OF(names); n++)
    names[n] = hl_passes.at[n].name;
  const char *near = hl_nearest(name, names, n);
  hl_error(opt->cx, (HlPos){0}, "Pass %.*s not found.", (int)name.n, name.at);
  if (near)
    hl_hint(opt->cx, "did you mean '%s'? --list-passes names them all", near);
  return false;
}

static bool passes_exist(HloOpt *opt) {
  for (const char *at = opt->passes; *at;) {
    size_t n = strcspn(at, ",");
    HlStr name = {at, strcspn(at, ",{*(")};
    if (name.n > n)
      name.n = n;
    if (at[name.n] != '(' && !hl_pass_find(&hl_passes, name))
      return no_pass(opt, name);
    at += n;
    at += *at == ',';
  }
  return true;
}

static bool run_pipeline(HloOpt *opt, HlModule *m, HlDumper *dumper, const char *platform,
                         const char *text, const char *disable, const char *before,
                         const char *after) {
  const HlFlags *flags = &opt->flags;
  HlBuf off = {0};
  hl_buf_printf(&off, "%s%s%s", flags->xla_disable_hlo_passes,
                *flags->xla_disable_hlo_passes && *disable ? "," : "", disable);
  HlEngineOptions options = {.passes = &hl_passes,
                             .pipelines = &hl_pipelines,
                             .target = platform,
                             .fuel = -1,
                             .explain = -1,
                             .pass_fuel = *flags->xla_fuel ? flags->xla_fuel : NULL,
                             .disable = off.at,
                             .enable_only = flags->xla_enable_hlo_passes_only,
                             .disable_all = flags->xla_disable_all_hlo_passes,
                             .after = hl_dumper_step,
                             .stage = hl_dumper_stage,
                             .rewrite = hl_dumper_rewrite,
                             .refused =
                                 flags->xla_dump_fusion_visualization ? hl_dumper_refused : NULL,
                             .user = dumper};
  HlEngine *engine = hl_engine_new(opt->cx, &options);
  bool ok = engine && hl_dumper_begin(dumper, m) && hl_dumper_module(dumper, m, before) &&
            hl_engine_run(engine, m, text) && hl_dumper_result(dumper, m, after) &&
            hl_dumper_end(dumper, m, engine);
  hl_engine_free(engine);
  hl_buf_free(&off);
  return ok;
}

static bool transform(HloOpt *opt, HlModule *m, HlDumper *dumper) {
  const char *platform = platform_of(opt->platform);
  if (*opt->passes)
    return run_pipeline(opt, m, dumper, platform, opt->passes, "", "before_optimization",
                        "after_optimization");
  const Stage *stage = find_stage(opt, platform);
  if (!stage)
    return false;
  // A module that is scheduled has been through its passes.
  if (!stage->pipeline || m->is_scheduled)
    return true;
  const char *after =
      strcmp(platform, "cpu") == 0 ? "cpu_after_optimizations" : "gpu_after_optimizations";
  return run_pipeline(opt, m, dumper, platform, stage->pipeline, stage->disable,
                      "before_optimizations", after);
}

// A binary proto where the output's name says so, else as text.
static bool print_proto(HloOpt *opt, const HlModule *m, HlBuf *out) {
  size_t n = strlen(opt->o);
  bool as_binary = (n > 3 && strcmp(opt->o + n - 3, ".pb") == 0) ||
                   (n > 6 && strcmp(opt->o + n - 6, ".pb.gz") == 0);
  return hl_proto_write(opt->cx, m, as_binary ? HL_PROTO_HLO : HL_PROTO_MODULE, !as_binary, NULL,
                        out);
}

static bool print_buffers(HloOpt *opt, const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlBuffersOptions options = {.alignment = 64, .constants = true};  // as XLA:CPU
  const HlBuffers *buffers = hl_buffers_new(opt->cx, arena, m, &options);
  if (buffers)
    hl_buffers_print(out, buffers);
  hl_arena_free(arena);
  return buffers != NULL;
}

static bool print_module(HloOpt *opt, const HlModule *m, HlBuf *out) {
  if (opt->emit_proto)
    return print_proto(opt, m, out);
  if (!*opt->passes && strcmp(opt->stage, "html") == 0) {
    hl_view_page_by_inst(opt->cx, m, out);
    return true;
  }
  if (!*opt->passes && strcmp(opt->stage, "buffer-assignment") == 0)
    return print_buffers(opt, m, out);
  HlTextOptions text = hl_text_options(HL_TEXT_DEFAULT);
  hl_text_print(opt->cx, m, &text, out);
  return true;
}

static bool run_modules(HloOpt *opt, HlFile *file, HlBuf *out) {
  if (file->n > 1 && !opt->split_input_file)
    return hl_error(opt->cx, (HlPos){0},
                    "the file holds %d modules; --split-input-file takes them one by one", file->n);
  HlDumper *dumper = hl_dumper_new(opt->cx, &opt->flags, HL_DUMP_FULL);
  bool ok = dumper != NULL;
  for (int k = 0; ok && k < file->n; k++) {
    if (k > 0)
      hl_buf_putc(out, '\n');
    ok = (opt->emit_proto || transform(opt, file->modules[k], dumper)) &&
         print_module(opt, file->modules[k], out);
  }
  hl_dumper_free(dumper);
  return ok;
}

static int run_file(HloOpt *opt, const char *path) {
  HlFile file;
  HlBuf out = {0};
  if (hl_load(opt->cx, path, NULL, &file) && run_modules(opt, &file, &out))
    hl_write_file(opt->cx, opt->o, out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  hl_file_free(&file);
  return dropin_flush(opt->cx);
}

static int run(HloOpt *opt, int argc, char **argv, HlArena *arena) {
  const DropinFlag table[] = {
      {"o", DROPIN_TEXT, &opt->o, "where to write; -: standard output"},
      {"platform", DROPIN_TEXT, &opt->platform, "transforms, cpu or gpu"},
      {"format", DROPIN_TEXT, &opt->format, "the input's form; told by its content in any case"},
      {"stage", DROPIN_TEXT, &opt->stage,
       "what to print: hlo, html, hlo-backend, buffer-assignment"},
      {"list-stages", DROPIN_BOOL, &opt->list_stages, "the platform's stages"},
      {"passes", DROPIN_TEXT, &opt->passes, "run exactly these, in order"},
      {"list-passes", DROPIN_BOOL, &opt->list_passes, "the names of all passes"},
      {"split-input-file", DROPIN_BOOL, &opt->split_input_file, "cut the input at '// -----'"},
      {"emit-proto", DROPIN_BOOL, &opt->emit_proto,
       "print protos, run nothing: text, or binary with -o=NAME.pb"},
      {"debug_options_file", DROPIN_TEXT, &opt->debug_options_file, "DebugOptions as text proto"},
      {NULL, DROPIN_BOOL, NULL, NULL},
  };
  DropinWords words;
  if (!dropin_read(opt->cx, argc, argv, table, &opt->flags, arena, &words)) {
    dropin_flush(opt->cx);
    return CLI_USAGE;
  }
  if (words.help) {
    dropin_help("hlo-opt [flags] FILE", table);
    return CLI_OK;
  }
  if (opt->list_passes)
    return list_passes();
  if (!is_platform(platform_of(opt->platform))) {
    fprintf(stderr, "hlo-opt: no platform '%s': transforms, cpu or gpu\n", opt->platform);
    return CLI_USAGE;
  }
  if (opt->list_stages)
    return list_stages(platform_of(opt->platform));
  if (words.n_files != 1) {
    fprintf(stderr, "hlo-opt: expected one input file, or - for standard input\n");
    return CLI_USAGE;
  }
  return *opt->passes && !passes_exist(opt) ? dropin_flush(opt->cx) : run_file(opt, words.files[0]);
}

int dropin_hlo_opt(int argc, char **argv) {
  HlArena *arena = hl_arena_new();
  HloOpt opt = {.cx = hl_cx_new(),
                .o = "-",
                .platform = "transforms",
                .format = "",
                .stage = "hlo",
                .passes = "",
                .debug_options_file = ""};
  hl_flags_init(&opt.flags);
  int status = run(&opt, argc, argv, arena);
  hl_flags_free(&opt.flags);
  hl_cx_free(opt.cx);
  hl_arena_free(arena);
  return status;
}
