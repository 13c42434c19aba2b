// tests/fuzz/lib/seeds.c: seeds and dictionaries for the fuzz targets, of each target's own kind.
//
//   fuzz_seeds TARGET OUT FOLDER...    writes OUT/0000, OUT/0001, ... made of the files in the folders
//   fuzz_seeds --dictionary TARGET     prints the words of the target's language as libFuzzer reads them
//
// What a file holds is told by its content. Programs are also converted: an HLO module gives a seed of its text, its
// protos, StableHLO, artifacts, arrays, literals, a history, a list of decisions and an overlay. The same files give the same seeds.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/lib/words.h"
#include "hilo/chakra.h"
#include "hilo/dump.h"
#include "hilo/jaxpr.h"
#include "hilo/network.h"
#include "hilo/npy.h"
#include "hilo/opt.h"
#include "hilo/sim_graph.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/view.h"
#include "proto/wire.h"

enum {
  MOST_BYTES = 32768,
  MOST_SEEDS = 4000,
  MOST_DEPTH = 4,
  MOST_CONSTANTS = 8,
  MOST_DECISIONS = 20
};

typedef struct Out {
  const char *folder;
  int n;
} Out;

typedef struct Input {
  HlCx *cx;
  HlSource *source;
  HlStr bytes;
  HlFile file;  // its modules and trees; none where it is damaged or no program
} Input;

static void add(Out *out, const void *bytes, size_t n) {
  char path[4096];
  if (n == 0 || n > MOST_BYTES || out->n >= MOST_SEEDS)
    return;
  snprintf(path, sizeof path, "%s/%04d", out->folder, out->n++);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
    perror(path);
    exit(2);
  }
}

static void add_buf(Out *out, HlBuf *bytes) {
  add(out, bytes->at, bytes->n);
  hl_buf_free(bytes);
}

// The text without the lines that are comments: a golden file's command and what it prints.
static void add_text(Out *out, HlStr text, const char *comment) {
  HlBuf kept = {0};
  for (size_t at = 0, end; at < text.n; at = end) {
    const char *stop = memchr(text.at + at, '\n', text.n - at);
    end = stop ? (size_t)(stop - text.at) + 1 : text.n;
    if (strncmp(text.at + at, comment, strlen(comment)) != 0)
      hl_buf_add(&kept, text.at + at, end - at);
  }
  add_buf(out, &kept);
}

// --- Kinds --------------------------------------------------------------------------------------------------------

static void text_seeds(Out *out, Input *in) {
  if (hl_text_sniff(in->bytes))
    add_text(out, in->bytes, "//");
}

static void jaxpr_seeds(Out *out, Input *in) {
  if (hl_jaxpr_sniff(in->bytes))
    add_text(out, in->bytes, "#");
}

static void mlir_seeds(Out *out, Input *in) {
  static const HlMlTextOptions pretty = {.large_constants = true},
                               generic = {.generic = true, .locations = true};
  if (hl_ml_text_sniff(in->bytes))
    add_text(out, in->bytes, "//");
  for (int k = 0; k < in->file.n_trees; k++) {
    HlBuf text = {0};
    hl_ml_text_print(in->file.trees[k], &generic, &text);
    add_buf(out, &text);
  }
  for (int k = 0; k < in->file.n; k++) {
    HlMlTree *tree = hl_ml_from_hlo(in->cx, in->file.modules[k], k % 2 != 0);
    HlBuf text = {0};
    if (tree)
      hl_ml_text_print(tree, &pretty, &text);
    add_buf(out, &text);
    hl_ml_free(tree);
  }
}

static void add_artifact(Out *out, HlCx *cx, const HlMlTree *tree, HlMlVersion version) {
  HlBuf bytes = {0};
  if (hl_ml_artifact_write(cx, tree, version, &bytes))
    add(out, bytes.at, bytes.n);
  hl_buf_free(&bytes);
}

static void mlirbc_seeds(Out *out, Input *in) {
  if (in->bytes.n > 4 && memcmp(in->bytes.at, "ML\xefR", 4) == 0)
    add(out, in->bytes.at, in->bytes.n);
  for (int k = 0; k < in->file.n_trees; k++) {
    add_artifact(out, in->cx, in->file.trees[k], HL_ML_NEWEST);
    add_artifact(out, in->cx, in->file.trees[k], HL_ML_OLDEST);
  }
  for (int k = 0; k < in->file.n; k++) {
    HlMlTree *tree = hl_ml_from_hlo(in->cx, in->file.modules[k], false);
    if (tree)
      add_artifact(out, in->cx, tree, HL_ML_NEWEST);
    hl_ml_free(tree);
  }
}

static void proto_seeds(Out *out, Input *in) {
  static const HlProtoForm forms[] = {HL_PROTO_MODULE, HL_PROTO_HLO, HL_PROTO_WITH_CONFIG};
  if (in->file.format == HL_FORMAT_PROTO || in->file.format == HL_FORMAT_PBTXT)
    add(out, in->bytes.at, in->bytes.n);
  for (int k = 0; k < in->file.n; k++) {
    HlBuf bytes = {0};
    const int form = out->n % HL_COUNT_OF(forms);
    if (hl_proto_write(in->cx, in->file.modules[k], forms[form], out->n % 5 == 0, NULL, &bytes))
      add(out, bytes.at, bytes.n);
    hl_buf_free(&bytes);
  }
}

// The constants of a module, up to MOST_CONSTANTS.
static int constants(const HlModule *m, const HlLiteral **value) {
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && n < MOST_CONSTANTS; inst = inst->next)
      if (inst->op == HL_OP_CONSTANT && hl_shape_is_array(inst->shape) &&
          !hl_literal_is_elided(hl_constant(inst)))
        value[n++] = hl_constant(inst);
  return n;
}

static void npy_seeds(Out *out, Input *in) {
  static const char *const names[MOST_CONSTANTS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  if (in->file.format == HL_FORMAT_NPZ || (in->bytes.n > 2 && memcmp(in->bytes.at, "PK", 2) == 0))
    add(out, in->bytes.at, in->bytes.n);
  for (int k = 0; k < in->file.n; k++) {
    const HlLiteral *value[MOST_CONSTANTS];
    HlLiteral *arrays[MOST_CONSTANTS];
    const int n = constants(in->file.modules[k], value);
    for (int i = 0; i < n; i++)
      arrays[i] = hl_literal_ref(value[i]);
    HlBuf bytes = {0};
    if (n > 0 && hl_npz_pack(in->cx, n, names, arrays, out->n % 2, &bytes)) {
      const char *header = memmem(bytes.at, bytes.n, "\x93NUMPY", 6);
      if (header && out->n % 4 == 0)  // its first array alone, and what follows
        add(out, header, bytes.n - (size_t)(header - bytes.at));
      add(out, bytes.at, bytes.n);
    }
    hl_buf_free(&bytes);
    for (int i = 0; i < n; i++)
      hl_literal_unref(arrays[i]);
  }
}

// As fuzz/literal.c reads them: a byte for the type, one for the dimensions, the text.
static void add_literal(Out *out, HlDtype dtype, int dims, const char *text, size_t n) {
  HlBuf bytes = {0};
  const char head[2] = {(char)(dtype - 1), (char)dims};
  hl_buf_add(&bytes, head, 2);
  hl_buf_add(&bytes, text, n);
  add_buf(out, &bytes);
}

static void literal_seeds(Out *out, Input *in) {
  static const int dims_of_rank[] = {0, 1, 2, 3, 4};
  if (out->n == 0)
    for (HlDtype dtype = 1; dtype < HL_TOKEN; dtype++) {
      const FuzzWords words = fuzz_words("literal");
      for (int k = 0; k < words.at[0].n; k++)
        add_literal(out, dtype, 0, words.at[0].word[k], strlen(words.at[0].word[k]));
      add_literal(out, dtype, 1, "{1, 0, -0.0}", strlen("{1, 0, -0.0}"));
      add_literal(out, dtype, 2, "{{1, 2}, {nan, -inf}}", strlen("{{1, 2}, {nan, -inf}}"));
    }
  for (int k = 0; k < in->file.n; k++) {
    const HlLiteral *value[MOST_CONSTANTS];
    const int n = constants(in->file.modules[k], value);
    for (int i = 0; i < n; i++) {
      HlBuf text = {0};
      hl_literal_print(&text, value[i]);
      const char *inner = text.at ? strchr(text.at, ' ') : NULL;  // after its shape
      const int rank = value[i]->shape->rank;
      if (inner && rank < HL_COUNT_OF(dims_of_rank))
        add_literal(out, value[i]->shape->dtype, dims_of_rank[rank], inner + 1,
                    text.n - (size_t)(inner + 1 - text.at));
      hl_buf_free(&text);
    }
  }
}

// The flags that golden files give to commands.
static void flags_seeds(Out *out, Input *in) {
  for (size_t at = 0; at < in->bytes.n;) {
    const char *line = in->bytes.at + at, *stop = memchr(line, '\n', in->bytes.n - at);
    const size_t n = stop ? (size_t)(stop - line) : in->bytes.n - at;
    const char *first = memmem(line, n, "--xla_", 6);
    if (first && memmem(line, n, "RUN:", 4))
      add(out, first, n - (size_t)(first - line));
    at += n + 1;
  }
}

static void print_module(HlCx *cx, const HlModule *m, HlTextPreset preset, HlBuf *out) {
  hl_text_print(cx, m, &(HlTextOptions){.preset = preset}, out);
}

static void history_seeds(Out *out, Input *in) {
  for (int k = 0; k < in->file.n; k++) {
    HlBuf text[2] = {{0}, {0}}, history = {0};
    print_module(in->cx, in->file.modules[k], HL_TEXT_DEFAULT, &text[0]);
    print_module(in->cx, in->file.modules[k], HL_TEXT_SHORT, &text[1]);
    const HlStr a = {text[0].at, text[0].n}, b = {text[1].at, text[1].n};
    hl_buf_puts(&history, "hilo-history 1\n");
    hl_history_write(&history, "0000 start", (HlStr){"", 0}, a);
    hl_history_write(&history, "0001 cpu algsimp", a, b);
    hl_history_write(&history, "0002 cpu dce", b, a);
    add_buf(out, &history);
    hl_buf_free(&text[0]);
    hl_buf_free(&text[1]);
  }
}

// What a dry run of some passes finds.
static void decisions_seeds(Out *out, Input *in) {
  const HlEngineOptions options = {.passes = &hl_passes,
                                   .pipelines = &hl_pipelines,
                                   .target = hl_target_find("cpu"),
                                   .dry = true};
  for (int k = 0; k < in->file.n && out->n < 200; k++) {
    HlEngine *engine = hl_engine_new(in->cx, &options);
    HlBuf text = {0};
    int64_t n = 0;
    const HlRewrite *site = hl_engine_run(engine, in->file.modules[k], "algsimp")
                                ? hl_engine_rewrites(engine, &n)
                                : NULL;
    for (int64_t i = 0; i < n && i < MOST_DECISIONS; i++)
      hl_buf_printf(&text,
                    "%s{\"pass\": \"%s\", \"rule\": \"%s\", \"computation\": \"%s\", "
                    "\"instruction\": \"%s\", "
                    "\"with\": \"%s\"}",
                    i ? ",\n " : "[", site[i].pass, site[i].rule, site[i].comp, site[i].inst,
                    site[i].with);
    if (n > 0)
      hl_buf_puts(&text, "]\n");
    add_buf(out, &text);
    hl_engine_free(engine);
  }
}

// Marks of the first instructions of a module, of each kind in turn.
static void overlay_seeds(Out *out, Input *in) {
  for (int k = 0; k < in->file.n && out->n < 200; k++) {
    HlBuf text = {0};
    int n = 0;
    hl_buf_puts(&text, "{\"overlay\": 1, \"after\": [");
    for (const HlInst *inst = in->file.modules[k]->entry->first; inst && n < MOST_DECISIONS;
         inst = inst->next, n++)
      hl_buf_printf(&text,
                    "%s{\"instruction\": \"%s\", \"computation\": \"%s\", \"change\": \"%s\", "
                    "\"note\": \"n\"}",
                    n ? ",\n " : "", inst->name->text, inst->comp->name->text,
                    hl_mark_word((HlMarkKind)(1 + n % (HL_MARK_COUNT - 1))));
    hl_buf_puts(&text, "], \"before\": []}\n");
    add_buf(out, &text);
  }
}

static void exported_seeds(Out *out, Input *in) {
  if (hl_exported_sniff(in->bytes))
    add(out, in->bytes.at, in->bytes.n);
}

// Only what JAX sends (tests/fuzz/seeds/compile_options).
static void compile_options_seeds(Out *out, Input *in) {
  HlArena *arena = hl_arena_new();
  HlAsked asked;
  if (in->file.n == 0 && hl_proto_read_asked(in->cx, arena, in->bytes, &asked) &&
      asked.debug_options.n > 0)
    add(out, in->bytes.at, in->bytes.n);
  hl_arena_free(arena);
}

// Texts of both kinds, comments and all.
static void lsp_seeds(Out *out, Input *in) {
  if (in->bytes.n < 16384 && (hl_text_sniff(in->bytes) || hl_ml_text_sniff(in->bytes)))
    add(out, in->bytes.at, in->bytes.n);
}

// Graphs that golden files are, and those of programs, of a processor and translated too.
static void sim_graph_seeds(Out *out, Input *in) {
  if (hl_sim_is_graph(in->bytes))
    add(out, in->bytes.at, in->bytes.n);
  for (int k = 0; k < in->file.n && out->n < 400; k++) {
    HlSimGraph *graph = hl_sim_bridge(in->cx, in->file.modules[k], NULL);
    HlBuf binary = {0}, text = {0};
    if (graph) {
      hl_sim_write(graph, HL_SIM_BINARY, &binary);
      hl_sim_write(graph, HL_SIM_TEXT, &text);
      HlSimGraph *one = hl_sim_individualize(in->cx, graph, 0, HL_SIM_PARAGRAPH);
      add_buf(out, &binary);
      hl_sim_write(one, HL_SIM_BINARY, &binary);
      hl_sim_graph_free(one);
    }
    add_buf(out, &binary);
    add_buf(out, &text);
    hl_sim_graph_free(graph);
    hl_cx_clear(in->cx);
  }
}

// Those that are built in, once, and a network of ASTRA-sim's.
static void system_seeds(Out *out, Input *in) {
  static const char astra[] = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, "
                              "25.0 ]\nlatency: [ 500.0, 700.0 ]\n";
  HlArena *arena = hl_arena_new();
  const char *name;
  for (int k = 0; out->n == k && (name = hl_system_name_at(k)); k++) {
    const HlSystem *s = hl_system_find(in->cx, arena, name);
    HlBuf text = {0};
    hl_system_print(hl_system_resize(in->cx, arena, s, 16) ? hl_system_resize(in->cx, arena, s, 16) : s,
                    &text);
    add_buf(out, &text);
    hl_cx_clear(in->cx);
    if (!hl_system_name_at(k + 1))
      add(out, astra, sizeof astra - 1);
  }
  hl_arena_free(arena);
}

static void put_number(HlBuf *out, uint32_t field, uint64_t value) {
  wire_put_tag(out, field, WIRE_VARINT);
  wire_put_varint(out, value);
}

static void put_within(HlBuf *out, uint32_t field, HlBuf *part) {
  wire_put_bytes(out, field, part->at ? part->at : "", part->n);
  hl_buf_free(part);
}

// A named entry of a plane's map: its metadata.
static void put_metadata(HlBuf *plane, uint32_t field, uint64_t id, const char *name) {
  HlBuf entry = {0}, metadata = {0};
  put_number(&metadata, 1, id);
  wire_put_bytes(&metadata, 2, name, strlen(name));
  put_number(&entry, 1, id);
  put_within(&entry, 2, &metadata);
  put_within(plane, field, &entry);
}

// Events of the ops of a program, each of whose names is a text that events refer to.
static void xspace_seed(Out *out, const HlComp *entry) {
  HlBuf space = {0}, plane = {0}, line = {0};
  uint64_t id = 10;
  for (const HlInst *inst = entry ? entry->first : NULL; inst; inst = inst->next, id++) {
    HlBuf event = {0}, stat = {0}, run = {0};
    put_metadata(&plane, 4, id, inst->name->text);
    put_metadata(&plane, 5, id, inst->name->text);
    put_number(&event, 1, id);
    put_number(&event, 2, 1000 * id);
    put_number(&event, 3, 900);
    put_number(&stat, 1, 1);
    put_number(&stat, 7, id);
    put_within(&event, 4, &stat);
    put_number(&run, 1, 2);
    put_number(&run, 4, 7);
    put_within(&event, 4, &run);
    put_within(&line, 4, &event);
  }
  put_within(&plane, 3, &line);
  put_metadata(&plane, 5, 1, "hlo_op");
  put_metadata(&plane, 5, 2, "run_id");
  put_metadata(&plane, 5, 3, "hlo_category");
  put_within(&space, 1, &plane);
  add_buf(out, &space);
}

// A table and two traces that know the ops of a program.
static void sim_profile_seeds(Out *out, Input *in) {
  for (int k = 0; k < in->file.n && out->n < 200; k++) {
    const HlComp *entry = in->file.modules[k]->entry;
    HlBuf table = {0}, trace = {0};
    hl_buf_puts(&table, "Rank,Category,HLO,a,Occurrences,a,a,a,Time,a,a,a,GFLOP/s,GiB/s\n");
    hl_buf_puts(&trace, "{\"traceEvents\":[{\"ph\":\"M\"}");
    for (const HlInst *inst = entry ? entry->first : NULL; inst; inst = inst->next) {
      hl_buf_printf(&table, "1,%s,\"%%%s = f32[2,3]\",0,3,0,0,0,1.5,0,0,0,10,2e1\n",
                    hl_op_text((HlOp)inst->op), inst->name->text);
      hl_buf_printf(&trace, ",{\"ph\":\"X\",\"dur\":1.5,\"name\":\"%s\",\"args\":{\"hlo_op\":\"%s\","
                            "\"hlo_category\":\"%s\",\"flops\":\"7\",\"bytes_accessed\":9}}",
                    inst->name->text, inst->name->text, hl_op_text((HlOp)inst->op));
    }
    hl_buf_puts(&trace, "]}");
    add_buf(out, &table);
    add_buf(out, &trace);
    xspace_seed(out, entry);
  }
}

// What programs become, and golden files that are traces already.
static void chakra_seeds(Out *out, Input *in) {
  for (int k = 0; k < in->file.n && out->n < 300; k++) {
    HlArena *arena = hl_arena_new();
    const HlSystem *s = hl_system_find(in->cx, arena, "h100");
    const HlClusterProgram *p =
        s ? hl_program_new(in->cx, arena, in->file.modules[k], &(HlProgramOptions){.system = s}) : NULL;
    HlBuf trace = {0};
    if (p && hl_chakra_write(in->cx, p, 0, NULL, &trace))
      add(out, trace.at, trace.n);
    hl_buf_free(&trace);
    hl_cx_clear(in->cx);
    hl_arena_free(arena);
  }
}

typedef void SeedsFn(Out *out, Input *in);
static const struct Kind {
  const char *target;
  SeedsFn *fn;
} kinds[] = {{"text", text_seeds},         {"proto", proto_seeds},
             {"mlir", mlir_seeds},         {"mlirbc", mlirbc_seeds},
             {"jaxpr", jaxpr_seeds},       {"npy", npy_seeds},
             {"literal", literal_seeds},   {"flags", flags_seeds},
             {"history", history_seeds},   {"decisions", decisions_seeds},
             {"overlay", overlay_seeds},   {"exported", exported_seeds},
             {"lsp", lsp_seeds},           {"compile_options", compile_options_seeds},
             {"sim_graph", sim_graph_seeds}, {"system", system_seeds},
             {"sim_profile", sim_profile_seeds}, {"chakra", chakra_seeds}};

// --- Files --------------------------------------------------------------------------------------------------------

static void add_file(Out *out, const struct Kind *kind, const char *path) {
  static const HlLoadOptions how = {.trees_only = true, .consts_as_parameters = true};
  Input in = {.cx = hl_cx_new()};
  hl_cx_limits(in.cx)->instructions = 1 << 14;
  in.source = hl_read_file(in.cx, path);
  if (in.source) {
    in.bytes = hl_source_bytes(in.source);
    if (!hl_load_source(in.cx, in.source, &how, &in.file))
      hl_cx_clear(in.cx);
    kind->fn(out, &in);
    hl_file_free(&in.file);
    hl_source_unref(in.source);
  }
  hl_cx_free(in.cx);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_folder(Out *out, const struct Kind *kind, const char *path, int depth) {
  struct dirent **entries = NULL;
  const int n = scandir(path, &entries, NULL, by_name);
  for (int k = 0; k < n; k++) {
    char name[4096];
    struct stat st;
    if (entries[k]->d_name[0] != '.' &&
        snprintf(name, sizeof name, "%s/%s", path, entries[k]->d_name) < (int)sizeof name &&
        stat(name, &st) == 0) {
      if (S_ISDIR(st.st_mode) && depth < MOST_DEPTH)
        add_folder(out, kind, name, depth + 1);
      else if (S_ISREG(st.st_mode) && st.st_size <= MOST_BYTES && out->n < MOST_SEEDS)
        add_file(out, kind, name);
    }
    free(entries[k]);
  }
  free(entries);
}

// --- Dictionaries -------------------------------------------------------------------------------------------------

static int print_dictionary(const char *target) {
  const FuzzWords words = fuzz_words(target);
  for (int c = 0; c < words.n; c++)
    for (int k = 0; k < words.at[c].n; k++) {
      const char *word = words.at[c].word[k];
      if (*word == 0)
        continue;
      putchar('"');
      for (; *word; word++)
        if (*word == '"' || *word == '\\')
          printf("\\%c", *word);
        else if (*word < 32 || *word > 126)
          printf("\\x%02x", (unsigned)(unsigned char)*word);
        else
          putchar(*word);
      puts("\"");
    }
  return words.n == 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--dictionary") == 0)
    return print_dictionary(argv[2]);
  for (int k = 0; argc > 3 && k < HL_COUNT_OF(kinds); k++)
    if (strcmp(kinds[k].target, argv[1]) == 0) {
      Out out = {.folder = argv[2]};
      for (int i = 3; i < argc; i++)
        add_folder(&out, &kinds[k], argv[i], 0);
      printf("%d seeds\n", out.n);
      return out.n == 0;
    }
  fprintf(stderr, "usage: fuzz_seeds TARGET OUT FOLDER... | --dictionary TARGET\n");
  return 2;
}
