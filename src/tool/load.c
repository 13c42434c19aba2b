// Reads a file in whatever form it comes, told by its content.
#include <string.h>

#include "base/memory.h"
#include "base/utf.h"
#include "hilo/edit.h"
#include "hilo/jaxpr.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "tool/load.h"

static bool starts_with(HlStr bytes, const char *text) {
  return bytes.n >= strlen(text) && memcmp(bytes.at, text, strlen(text)) == 0;
}

static HlFormat sniff_jax(HlStr bytes) {
  if (starts_with(bytes, "ML\xefR"))
    return HL_FORMAT_MLIR_BYTECODE;
  if (hl_ml_text_sniff(bytes))
    return HL_FORMAT_MLIR;
  if (hl_jaxpr_sniff(bytes))
    return HL_FORMAT_JAXPR;
  return hl_exported_sniff(bytes) ? HL_FORMAT_EXPORTED : HL_FORMAT_UNKNOWN;
}

// A text proto, whose "hlo_module {" also looks like a computation's start; but those have " = " soon.
static bool is_text_proto(HlStr bytes) {
  bool is_text = false;
  return hl_proto_sniff(bytes, &is_text) != HL_PROTO_NONE && is_text &&
         !memmem(bytes.at, bytes.n < 200 ? bytes.n : 200, " = ", 3);
}

// What XLA dumps beside modules, by how it starts, what else a line of it starts with, and what it is.
static const struct {
  const char *start, *also, *what;
} reports[] = {
    {"thunk_metadata {", NULL, "the list of a program's thunks (thunk_metadata.txt)"},
    {"001: k", NULL, "the order of a program's thunks (thunk_sequence.txt)"},
    {"fusion_steps {", NULL, "a log of what was fused (priority_fusion_dump.txt)"},
    {"gpu_device_info {",
     "\nhlo_module_before_fusion:", "a log of what was fused (priority_fusion_dump.txt)"},
    {"gpu_device_info {", NULL,
     "a GPU's description (gpu_target_config.pbtxt): give it with --target"},
    {"entry_computation_layout {", NULL, "a module's configuration (config.pbtxt)"},
    {"executable_build_options {", NULL, "options of a compilation (compile_options.textproto)"},
    {"BufferAssignment:", NULL, "a buffer assignment"},
    {"HloLiveRange", NULL, "live ranges of values"},
    {"\nTotal bytes used:", NULL, "the values of a buffer assignment"},
    {"Memory Space:", NULL, "a report of memory used"},
    {"platform_id:", NULL, "a description of devices (topology.textproto)"},
};

static bool has(HlStr bytes, const char *part) {
  return !part || memmem(bytes.at, bytes.n, part, strlen(part));
}

// What of those the bytes are, or NULL. A computation without a header, which may start likewise, has " = " soon.
static const char *report_of(HlStr bytes) {
  for (int k = 0; k < HL_COUNT_OF(reports); k++)
    if (starts_with(bytes, reports[k].start) && has(bytes, reports[k].also) &&
        !memmem(bytes.at, bytes.n < 200 ? bytes.n : 200, " = ", 3))
      return reports[k].what;
  return NULL;
}

HlFormat hl_format_of(HlStr bytes) {
  if (report_of(bytes))
    return HL_FORMAT_REPORT;
  if (starts_with(bytes, "PK\x03\x04") || starts_with(bytes, "\x93NUMPY"))
    return HL_FORMAT_NPZ;
  HlFormat format = sniff_jax(bytes);
  if (format != HL_FORMAT_UNKNOWN)
    return format;
  if (is_text_proto(bytes))
    return HL_FORMAT_PBTXT;
  if (hl_text_sniff(bytes))
    return HL_FORMAT_TEXT;
  bool is_text = false;
  if (hl_proto_sniff(bytes, &is_text) != HL_PROTO_NONE)
    return is_text ? HL_FORMAT_PBTXT : HL_FORMAT_PROTO;
  return HL_FORMAT_UNKNOWN;
}

static bool looks_like_text(HlStr bytes) {
  size_t n = bytes.n < 512 ? bytes.n : 512;
  for (size_t k = 0; k < n; k++)
    if ((unsigned char)bytes.at[k] < 32 && !strchr("\t\r\n", bytes.at[k]))
      return false;
  return bytes.n > 0 && !memchr(bytes.at, 0, n);
}

static bool refuse(HlCx *cx, HlSource *source, HlFormat format) {
  HlPos pos = {source, 0};
  if (format == HL_FORMAT_NPZ)
    return hl_error_kind(cx, HL_UNSUPPORTED, pos,
                         "this is an array file; expected a program: give it with --args");
  if (format == HL_FORMAT_REPORT)
    return hl_error_kind(cx, HL_UNSUPPORTED, pos, "this is no program but %s",
                         report_of(hl_source_bytes(source)));
  if (hl_source_bytes(source).n == 0)
    return hl_error(cx, pos, "the file is empty; expected HLO, MLIR or a jaxpr");
  return hl_error(cx, pos, "neither HLO, as text or proto or snapshot, nor MLIR, nor a jaxpr");
}

static bool load_proto(HlCx *cx, HlSource *source, HlFile *out) {
  HlModule *m = hl_proto_read(cx, source, &out->recorded);
  if (!m)
    return false;
  out->modules = base_alloc(sizeof(HlModule *));
  out->modules[0] = m;
  out->n = 1;
  return true;
}

bool load_trees(HlCx *cx, HlSource *source, HlMlTree ***out, int *n) {
  if (!starts_with(hl_source_bytes(source), "ML\xefR"))
    return hl_ml_text_read(cx, source, out, n);
  HlMlTree *tree = hl_ml_bytecode_read(cx, source);
  *n = 0;
  if (!tree)
    return false;
  *out = base_alloc(sizeof **out);
  (*out)[(*n)++] = tree;
  return true;
}

void free_trees(HlFile *file) {
  for (int k = 0; k < file->n_trees; k++)
    hl_ml_free(file->trees[k]);
  base_free(file->trees);
  file->trees = NULL;
  file->n_trees = 0;
}

static bool load_mlir(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out) {
  return load_trees(cx, source, &out->trees, &out->n_trees) &&
         (options->trees_only || hl_load_lower(cx, options, out));
}

// The artifact in what jax.export has written.
static bool load_exported(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out) {
  out->exported = hl_exported_read(cx, source);
  return out->exported && load_mlir(cx, out->exported->module, options, out);
}

// Options that HLO has no use for.
static void warn_unused(HlCx *cx, HlSource *source, const HlLoadOptions *options) {
  if (options->entry || options->arg_shapes)
    hl_warn(cx, (HlPos){source, 0}, "--%s is not used: the file is HLO",
            options->entry ? "entry" : "arg-shapes");
}

static bool read_source(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out) {
  HlStr bytes = hl_source_bytes(source);
  out->format = hl_format_of(bytes);
  if (out->format == HL_FORMAT_TEXT || out->format == HL_FORMAT_PROTO ||
      out->format == HL_FORMAT_PBTXT)
    warn_unused(cx, source, options);
  // Text that nothing recognises goes to the text reader, whose errors have a line and a column.
  if (out->format == HL_FORMAT_TEXT || (out->format == HL_FORMAT_UNKNOWN && looks_like_text(bytes)))
    return hl_text_read(cx, source, &out->modules, &out->n);
  if (out->format == HL_FORMAT_PROTO || out->format == HL_FORMAT_PBTXT)
    return load_proto(cx, source, out);
  if (out->format == HL_FORMAT_MLIR || out->format == HL_FORMAT_MLIR_BYTECODE)
    return load_mlir(cx, source, options, out);
  if (out->format == HL_FORMAT_EXPORTED)
    return load_exported(cx, source, options, out);
  if (out->format == HL_FORMAT_JAXPR)
    return load_jaxpr(cx, source, options, out);
  return refuse(cx, source, out->format);
}

static bool is_valid(HlCx *cx, const HlFile *file, const HlLoadOptions *asked) {
  const HlVerifyOptions options = {.structure_only = !asked->verify};
  bool ok = true;
  for (int k = 0; k < file->n && (asked->verify || asked->structure); k++)
    ok = hl_verify(cx, file->modules[k], &options) && ok;
  for (int k = 0; k < file->n_trees && asked->verify; k++)
    ok = hl_ml_verify(cx, file->trees[k]) && ok;
  return ok;
}

static bool load_source(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out) {
  static const HlLoadOptions none = {0};
  *out = (HlFile){0};
  options = options ? options : &none;
  if (!read_source(cx, source, options, out) || !is_valid(cx, out, options))
    return false;
  for (int k = 0; options->dialect && k < out->n; k++)
    hl_set_dialect(out->modules[k], options->dialect);
  return true;
}

bool hl_load_source(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *out) {
  HlSource *utf8 = base_utf8_source(source);
  const bool ok = load_source(cx, utf8 ? utf8 : source, options, out);
  hl_source_unref(utf8);
  if (!ok) {
    const HlFormat format = out->format;
    hl_file_free(out);
    out->format = format;
  }
  return ok;
}

static bool load(HlCx *cx, const char *path, const HlLoadOptions *options, HlFile *out) {
  HlSource *source = hl_read_file(cx, path);
  if (!source)
    return false;
  const bool ok = hl_load_source(cx, source, options, out);
  hl_source_unref(source);
  return ok;
}

typedef struct Loading {
  const char *path;
  const HlLoadOptions *options;
  HlFile file;
} Loading;

static bool try_loading(HlCx *cx, void *user) {
  Loading *loading = user;
  return load(cx, loading->path, loading->options, &loading->file);
}

bool hl_load(HlCx *cx, const char *path, const HlLoadOptions *options, HlFile *out) {
  Loading loading = {path, options, {0}};
  const bool ok = hl_try(cx, try_loading, &loading);
  *out = ok ? loading.file : (HlFile){.format = loading.file.format};
  return ok;
}

void hl_file_free(HlFile *file) {
  for (int k = 0; k < file->n; k++)
    hl_module_free(file->modules[k]);
  base_free(file->modules);
  free_trees(file);
  hl_jaxpr_free(file->jaxpr);
  hl_exported_free(file->exported);
  hl_recorded_free(&file->recorded);
  *file = (HlFile){0};
}
