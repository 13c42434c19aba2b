// hlo-opt: XLA's tool of that name: runs passes, or a backend's pipeline up to a stage, over HLO.
#include <stdlib.h>
#include <string.h>

#include "cli/dropin.h"
#include "hilo/dump.h"
#include "hilo/opt.h"
#include "hilo/proto.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/view.h"
#include "tool/form.h"

typedef struct HloOpt {
  HlCx *cx;
  HlFlags flags;
  const char *o, *platform, *format, *stage, *passes, *debug_options_file;
  bool list_stages, list_passes, split_input_file, emit_proto;
} HloOpt;

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

static int list_stages(const HlPlatform *platform) {
  for (int k = 0; k < platform->n_stages; k++)
    printf("%s\n", platform->stages[k].name);
  return CLI_OK;
}

// --- One module ---------------------------------------------------------------------------------

static const HlStage *find_stage(HloOpt *opt, const HlPlatform *platform) {
  const HlStage *stage = hl_stage_find(platform, opt->stage);
  if (stage && !stage->missing)
    return stage;
  if (stage) {
    hl_error_kind(opt->cx, HL_UNSUPPORTED, (HlPos){0}, "there is no stage %s: %s", opt->stage,
                  stage->missing);
  } else {
    hl_error(opt->cx, (HlPos){0}, "platform %s has no stage %s", platform->name, opt->stage);
    hl_hint(opt->cx, "--list-stages names them");
  }
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

// Puts what it compiles to in the module's place.
static bool compile(HloOpt *opt, HlSession *session, const HlModule **m,
                    const HlCompileOptions *options, HlCompiled **out) {
  *out = hl_compile(opt->cx, session, &(HlProgram){.module = *m}, options);
  if (*out)
    *m = hl_compiled_module(*out);
  return *out;
}

static bool transform(HloOpt *opt, HlSession *session, const HlModule **m, HlCompiled **out) {
  const HlPlatform *platform = hl_session_platform(session);
  if (*opt->passes) {
    const HlCompileOptions passes = {.passes = opt->passes,
                                     .no_buffers = true,
                                     .before = "before_optimization",
                                     .after = "after_optimization"};
    return compile(opt, session, m, &passes, out);
  }
  const HlStage *stage = find_stage(opt, platform);
  if (!stage)
    return false;
  // A module that is scheduled has been through its passes.
  if (!*platform->xla_pipeline || (*m)->is_scheduled)
    return true;
  const HlCompileOptions passes = {
      .passes = platform->xla_pipeline, .stage = stage, .no_buffers = true};
  return compile(opt, session, m, &passes, out);
}

// A binary proto where the output's name says so, else as text.
static bool print_proto(HloOpt *opt, const HlModule *m, HlBuf *out) {
  size_t n = strlen(opt->o);
  bool as_binary = (n > 3 && strcmp(opt->o + n - 3, ".pb") == 0) ||
                   (n > 6 && strcmp(opt->o + n - 6, ".pb.gz") == 0);
  form_warn_elided(opt->cx, m);
  return hl_proto_write(opt->cx, m, as_binary ? HL_PROTO_HLO : HL_PROTO_MODULE, !as_binary, NULL,
                        out);
}

static bool print_buffers(HloOpt *opt, const HlSession *session, const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlTarget *target = hl_session_engine(session, &(HlCompileOptions){0}, arena).target;
  const HlBuffers *buffers = hl_buffers_new_for(opt->cx, arena, m, target);
  if (buffers)
    hl_buffers_print(out, buffers);
  hl_arena_free(arena);
  return buffers != NULL;
}

static bool print_module(HloOpt *opt, const HlSession *session, const HlModule *m,
                         const HlStage *stage, HlBuf *out) {
  const HlShown shown = *opt->passes || !stage ? HL_SHOWN_HLO : stage->shown;
  if (opt->emit_proto)
    return print_proto(opt, m, out);
  if (shown == HL_SHOWN_BUFFERS)
    return print_buffers(opt, session, m, out);
  const HlTextOptions how = hl_dump_text_options(&opt->flags, m);
  if (shown == HL_SHOWN_PAGE)
    hl_view_page_by_inst(opt->cx, m, out);
  else
    hl_text_print(opt->cx, m, &how, out);
  return true;
}

static bool run_module(HloOpt *opt, HlSession *session, const HlModule *m, HlBuf *out) {
  HlCompiled *compiled = NULL;
  const HlStage *stage = hl_stage_find(hl_session_platform(session), opt->stage);
  const bool ok = (opt->emit_proto || transform(opt, session, &m, &compiled)) &&
                  print_module(opt, session, m, stage, out);
  hl_compiled_unref(compiled);
  return ok;
}

static bool run_modules(HloOpt *opt, HlFile *file, HlBuf *out) {
  if (file->n > 1 && !opt->split_input_file)
    return hl_error(opt->cx, (HlPos){0},
                    "the file holds %d modules; --split-input-file takes them one by one", file->n);
  const HlSessionOptions options = {.platform = opt->platform, .flags = &opt->flags};
  HlSession *session = hl_session_new(opt->cx, &options);
  bool ok = session != NULL;
  for (int k = 0; ok && k < file->n; k++) {
    if (k > 0)
      hl_buf_putc(out, '\n');
    ok = run_module(opt, session, file->modules[k], out);
  }
  hl_session_free(session);
  return ok;
}

static int run_file(HloOpt *opt, const char *path) {
  static const HlLoadOptions how = {.verify = true};
  HlFile file;
  HlBuf out = {0};
  if (hl_load(opt->cx, path, &how, &file) && run_modules(opt, &file, &out))
    hl_write_file(opt->cx, opt->o, out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  hl_file_free(&file);
  return dropin_flush(opt->cx);
}

static const char examples[] =
    "  hlo-opt --passes=algsimp,dce in.hlo         run two passes\n"
    "  hlo-opt --platform=gpu --stage=hlo in.hlo   XLA:GPU's pipeline\n"
    "  hlo-opt --list-passes                       what passes there are\n";

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
    dropin_help("hlo-opt [flags] FILE",
                "Runs passes, or a platform's pipeline up to a stage, over a module, as XLA's tool "
                "of that name.",
                table, examples);
    return CLI_OK;
  }
  if (opt->list_passes)
    return list_passes();
  const HlPlatform *platform = hl_platform_find(opt->platform);
  if (!platform || platform->n_stages == 0) {
    fprintf(stderr, "hlo-opt: no platform '%s': transforms, cpu or gpu\n", opt->platform);
    return CLI_USAGE;
  }
  if (opt->list_stages)
    return list_stages(platform);
  if (words.n_files != 1) {
    fprintf(stderr, "hlo-opt: expected one input file, or - for standard input\n");
    return CLI_USAGE;
  }
  if (*opt->passes && !passes_exist(opt)) {
    dropin_flush(opt->cx);
    return CLI_USAGE;
  }
  return run_file(opt, words.files[0]);
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
  int status = run(&opt, argc, argv, arena);
  hl_flags_free(&opt.flags);
  hl_cx_free(opt.cx);
  hl_arena_free(arena);
  return status;
}
