// tool/dumps/dump_names.c: what the names of dumped files say.
//
// Names are read from the right: module names have dots, and names of pipelines have the words "after_" and "before_"
// (0018.after_layout_assignment.after_pipeline-start.before_pipeline-end). What is left between the number and the suffix
// is the module's name.

#include "hilo/dump_names.h"

#include <stdlib.h>
#include <string.h>

static const char *const stages[HL_STAGE_COUNT] = {"other", "jaxpr", "stablehlo", "before",
                                                   "step",  "after", "snapshot"};

const char *hl_dump_stage_text(HlDumpStage stage) {
  return stages[stage];
}

bool hl_dump_stage_by_text(HlStr text, HlDumpStage *out) {
  for (int k = 0; k < HL_STAGE_COUNT; k++)
    if (hl_str_is(text, stages[k])) {
      *out = (HlDumpStage)k;
      return true;
    }
  return false;
}

// --- Pieces of text -----------------------------------------------------------------------------

static bool starts_with(HlStr s, const char *start) {
  const size_t n = strlen(start);
  return s.n >= n && memcmp(s.at, start, n) == 0;
}

static bool ends_with(HlStr s, const char *end) {
  const size_t n = strlen(end);
  return s.n >= n && memcmp(s.at + s.n - n, end, n) == 0;
}

static bool drop_end(HlStr *s, const char *end) {
  if (!ends_with(*s, end))
    return false;
  s->n -= strlen(end);
  return true;
}

static bool drop_start(HlStr *s, const char *start) {
  if (!starts_with(*s, start))
    return false;
  s->at += strlen(start);
  s->n -= strlen(start);
  return true;
}

static size_t digits_of(HlStr s) {
  size_t n = 0;
  while (n < s.n && s.at[n] >= '0' && s.at[n] <= '9')
    n++;
  return n;
}

// The digits at the start, which are dropped; at most 18 count.
static bool take_number(HlStr *s, int64_t *out) {
  const size_t n = digits_of(*s);
  int64_t value = 0;
  if (n == 0 || n > 18)
    return false;
  for (size_t k = 0; k < n; k++)
    value = value * 10 + (s->at[k] - '0');
  *out = value;
  *s = (HlStr){s->at + n, s->n - n};
  return true;
}

// The last place of `what`, or SIZE_MAX.
static size_t find_last(HlStr s, const char *what) {
  const size_t n = strlen(what);
  for (size_t k = s.n; k-- > 0;)
    if (k + n <= s.n && memcmp(s.at + k, what, n) == 0)
      return k;
  return SIZE_MAX;
}

static bool contains(HlStr s, const char *what) {
  return find_last(s, what) != SIZE_MAX;
}

static const char *keep(HlArena *arena, HlStr s) {
  return hl_arena_strndup(arena, s.at, s.n);
}

static HlStr rest_of(HlStr s, size_t from) {
  return from <= s.n ? (HlStr){s.at + from, s.n - from} : (HlStr){s.at + s.n, 0};
}

// --- Suffixes -----------------------------------------------------------------------------------

// Where a platform before "after_optimizations" starts: what follows the last dot, but that sm_9.0_gpu_ has one itself.
static size_t platform_start(HlStr s) {
  size_t at = find_last(s, ".");
  at = at == SIZE_MAX ? 0 : at + 1;
  if (at >= 2 && ends_with(s, "_gpu_")) {
    const HlStr head = {s.at, at - 1};
    const size_t dot = find_last(head, ".");
    const size_t sm = dot == SIZE_MAX ? 0 : dot + 1;
    if (starts_with(rest_of(head, sm), "sm_"))
      return sm;
  }
  return at;
}

// A suffix that starts after a dot, or is all there is: how many bytes stand before it, SIZE_MAX if it is not there.
static size_t suffix_at(HlStr s, const char *suffix) {
  if (!ends_with(s, suffix))
    return SIZE_MAX;
  const size_t at = s.n - strlen(suffix);
  return at == 0 || s.at[at - 1] == '.' ? at : SIZE_MAX;
}

static bool read_optimized(HlArena *arena, HlStr s, HlDumpName *out, size_t *label) {
  static const char *const after[] = {"after_optimizations_before_buffer_assignment",
                                      "after_optimizations", "after_optimization"};
  static const char *const before[] = {"before_optimizations", "before_optimization"};
  for (int k = 0; k < HL_COUNT_OF(before); k++)
    if ((*label = suffix_at(s, before[k])) != SIZE_MAX) {
      out->stage = HL_STAGE_BEFORE;
      return true;
    }
  for (int k = 0; k < HL_COUNT_OF(after); k++) {
    HlStr head = s;
    if (!drop_end(&head, after[k]))
      continue;
    const size_t at = platform_start(head);
    HlStr platform = rest_of(head, at);
    if (platform.n > 0 && !drop_end(&platform, "_"))
      continue;
    out->stage = HL_STAGE_AFTER;
    out->platform = keep(arena, platform);
    *label = at;
    return true;
  }
  return false;
}

static bool read_stage(HlStr s, HlDumpName *out, size_t *label) {
  static const char *const known[] = {"after_spmd_partitioner", "after_spmd_calls",
                                      "before_auto_spmd_sharding", "after_auto_spmd_sharding"};
  for (int k = 0; k < HL_COUNT_OF(known); k++)
    if ((*label = suffix_at(s, known[k])) != SIZE_MAX) {
      out->stage = HL_STAGE_STEP;
      return true;
    }
  return false;
}

// A state that a backend dumps on its way, under a name of its own: before_X or after_X behind the last dot.
static bool read_own_stage(HlStr s, HlDumpName *out, size_t *label) {
  const size_t dot = find_last(s, ".");
  *label = dot == SIZE_MAX ? 0 : dot + 1;
  const HlStr word = rest_of(s, *label);
  if (!starts_with(word, "before_") && !starts_with(word, "after_"))
    return false;
  out->stage = HL_STAGE_STEP;
  return true;
}

static bool all_digits(HlStr s) {
  return s.n > 0 && digits_of(s) == s.n;
}

// snapshot.ID, execution_NNNN.hlo_snapshot, execution_NNNN.hlo_unoptimized_snapshot.
static bool read_snapshot(HlStr s, HlDumpName *out, size_t *label) {
  HlStr head = s;
  size_t dot = find_last(s, ".");
  if (drop_end(&head, ".hlo_snapshot") || drop_end(&head, ".hlo_unoptimized_snapshot")) {
    dot = find_last(head, ".");
    *label = dot == SIZE_MAX ? 0 : dot + 1;
  } else if (dot != SIZE_MAX) {
    HlStr id = rest_of(s, dot + 1);
    drop_start(&id, "-");
    *label = suffix_at((HlStr){s.at, dot}, "snapshot");
    if (*label == SIZE_MAX || !all_digits(id))
      return false;
  } else {
    return false;
  }
  out->stage = HL_STAGE_SNAPSHOT;
  return true;
}

// The last ".NNNN." of a step before `end`: where its digits start, or SIZE_MAX.
static size_t step_start(HlStr s, size_t end) {
  for (size_t k = end; k-- > 0;) {
    if (k > 0 && s.at[k - 1] != '.')
      continue;
    const size_t n = digits_of(rest_of(s, k));
    if (n >= 4 && k + n < end && s.at[k + n] == '.')
      return k;
  }
  return SIZE_MAX;
}

// NNNN.PIPELINE.after_PASS.before_PASS, or NNNN.PASS.STEP.
static bool read_step(HlArena *arena, HlStr s, HlDumpName *out, size_t *label) {
  const size_t before = find_last(s, ".before_");
  const size_t after = before == SIZE_MAX ? SIZE_MAX : find_last((HlStr){s.at, before}, ".after_");
  const size_t end = after == SIZE_MAX ? s.n : after, at = step_start(s, end);
  if (at == SIZE_MAX)
    return false;
  HlStr rest = rest_of(s, at);
  int64_t step = 0;
  if (!take_number(&rest, &step) || step > INT32_MAX)
    return false;
  out->stage = HL_STAGE_STEP;
  out->step = (int)step;
  *label = at;
  drop_start(&rest, ".");
  if (after != SIZE_MAX) {
    const size_t name = (size_t)(rest.at - s.at);
    out->pipeline = keep(arena, (HlStr){rest.at, after > name ? after - name : 0});
    out->after = keep(arena, (HlStr){s.at + after + 7, before - after - 7});
    out->before = keep(arena, rest_of(s, before + 8));
  } else {
    const size_t dot = find_last(rest, ".");
    out->after = keep(arena, (HlStr){rest.at, dot == SIZE_MAX ? rest.n : dot});
  }
  return true;
}

// Endings of what is a program, if any; what else there is beside modules has others.
static bool drop_program_ending(HlStr *s) {
  static const char *const endings[] = {".hlo.pb",  ".hlo.pbtxt", ".hlo.txt",   ".hlo_proto",
                                        ".mlir.bc", ".mlirbc",    ".jaxpr.txt", ".jaxpr",
                                        ".mlir",    ".hlotxt",    ".hlo",       ".pbtxt",
                                        ".pb",      ".txt",       ".stablehlo"};
  for (int k = 0; k < HL_COUNT_OF(endings); k++)
    if (drop_end(s, endings[k]))
      return true;
  return false;
}

// What of a numbered name follows the number and its dot: the module's name, and what the file is.
static void read_tail(HlArena *arena, HlStr tail, HlDumpName *out) {
  HlStr s = tail;
  size_t label = SIZE_MAX;
  const bool is_program = drop_program_ending(&s);
  if (is_program && (read_optimized(arena, s, out, &label) || read_stage(s, out, &label) ||
                     read_snapshot(s, out, &label) || read_step(arena, s, out, &label) ||
                     read_own_stage(s, out, &label))) {
    out->label = keep(arena, rest_of(s, label));
    out->name = keep(arena, (HlStr){s.at, label > 0 ? label - 1 : 0});
    return;
  }
  // A report: the name goes up to the first word that reports begin with, which need not be found.
  static const char *const words[] = {"after_optimizations-",
                                      "before_optimizations-",
                                      "thunk_",
                                      "gpu_target_config",
                                      "autotune",
                                      "debug_options",
                                      "config",
                                      "ir-",
                                      "obj-file",
                                      "ptx",
                                      "metadata",
                                      "priority_fusion_dump",
                                      "before_optimizations",
                                      "after_optimizations"};
  out->is_report = true;
  size_t end = s.n;
  for (int k = 0; k < HL_COUNT_OF(words); k++) {
    const char *at = memmem(s.at, s.n, words[k], strlen(words[k]));
    if (at && (size_t)(at - s.at) < end)
      end = (size_t)(at - s.at);
  }
  const HlStr head = {s.at, end};
  const size_t at = end < s.n ? platform_start(head) : find_last(head, ".");
  const size_t cut = at == SIZE_MAX ? 0 : at;
  out->name = keep(arena, (HlStr){s.at, cut > 0 && s.at[cut - 1] == '.' ? cut - 1 : cut});
  out->label = keep(arena, rest_of(s, cut));
}

// --- Whole names --------------------------------------------------------------------------------

// [TIMESTAMP.]module_NNNN: the number, and what follows it (with its dot). False: it is no such name.
static bool read_head(HlStr *s, HlDumpName *out) {
  HlStr rest = *s;
  int64_t stamp = 0;
  if (digits_of(rest) >= 10 && (!take_number(&rest, &stamp) || !drop_start(&rest, ".")))
    return false;
  if (!drop_start(&rest, "module_") || digits_of(rest) < 4 || !take_number(&rest, &out->number))
    return false;
  if (rest.n > 0 && rest.at[0] != '.')
    return false;
  drop_start(&rest, ".");
  out->stamp = stamp;
  *s = rest;
  return true;
}

// jax_ir0003_jit_f_compile.mlir; jax_000003_f.jaxpr.txt.
static bool read_jax(HlArena *arena, HlStr s, HlDumpName *out) {
  HlStr name = s;
  const bool is_jaxpr = ends_with(s, ".jaxpr.txt") || ends_with(s, ".jaxpr");
  if (!drop_start(&name, is_jaxpr ? "jax_" : "jax_ir") || !drop_program_ending(&name) ||
      !take_number(&name, &out->number) || !drop_start(&name, "_"))
    return false;
  if (!is_jaxpr)
    drop_end(&name, "_compile");
  out->stage = is_jaxpr ? HL_STAGE_JAXPR : HL_STAGE_STABLEHLO;
  out->is_jax = true;
  out->name = keep(arena, name);
  return true;
}

// module_NAME.execution_0000.hlo_snapshot.pb, of before 2020.
static bool read_old_snapshot(HlArena *arena, HlStr s, HlDumpName *out) {
  HlStr name = s;
  size_t label;
  if (!drop_start(&name, "module_") || !drop_program_ending(&name) ||
      !read_snapshot(name, out, &label) || label == 0)
    return false;
  out->label = keep(arena, rest_of(name, label));
  out->name = keep(arena, (HlStr){name.at, label - 1});
  return true;
}

// Renamed by hand: words tell the stage, and what is left without them is the name.
static void read_words(HlArena *arena, HlStr s, HlDumpName *out) {
  static const struct {
    const char *word;
    HlDumpStage stage;
  } words[] = {{"hlo_before_optimizations", HL_STAGE_BEFORE},
               {"hlo_after_optimizations", HL_STAGE_AFTER},
               {"hlo_before", HL_STAGE_BEFORE},
               {"hlo_after", HL_STAGE_AFTER},
               {"before_optimizations", HL_STAGE_BEFORE},
               {"after_optimizations", HL_STAGE_AFTER},
               {"before_optimization", HL_STAGE_BEFORE},
               {"after_optimization", HL_STAGE_AFTER},
               {"unoptimized", HL_STAGE_BEFORE},
               {"optimized", HL_STAGE_AFTER},
               {"before", HL_STAGE_BEFORE},
               {"after", HL_STAGE_AFTER}};
  static const char *const plain[] = {"module", "program", "hlo", "stablehlo", "jaxpr", "model"};
  size_t label;
  if (ends_with(s, ".jaxpr") || ends_with(s, ".jaxpr.txt"))
    out->stage = HL_STAGE_JAXPR;
  else if (ends_with(s, ".mlir") || ends_with(s, ".mlirbc") || ends_with(s, ".mlir.bc") ||
           ends_with(s, ".stablehlo"))
    out->stage = HL_STAGE_STABLEHLO;
  drop_program_ending(&s);
  HlDumpName snapshot = *out;
  if (ends_with(s, ".snapshot") || ends_with(s, "hlo_snapshot") ||
      read_snapshot(s, &snapshot, &label))
    out->stage = HL_STAGE_SNAPSHOT;
  HlStr name = s;
  for (int k = 0; k < HL_COUNT_OF(words) && out->stage == HL_STAGE_OTHER; k++)
    if (contains(s, words[k].word)) {
      const size_t at = find_last(s, words[k].word), n = strlen(words[k].word);
      HlStr left = {s.at, at}, right = rest_of(s, at + n);
      while (left.n > 0 && strchr("._-", left.at[left.n - 1]))
        left.n--;
      while (right.n > 0 && strchr("._-", right.at[0]))
        right = rest_of(right, 1);
      out->stage = words[k].stage;
      name = hl_str(hl_arena_printf(arena, "%.*s%s%.*s", (int)left.n, left.at,
                                    left.n && right.n ? "." : "", (int)right.n, right.at));
    }
  for (int k = 0; k < HL_COUNT_OF(plain); k++)
    if (hl_str_is(name, plain[k]))
      name.n = 0;
  out->name = keep(arena, name);
  out->label = keep(arena, s);
}

// The folder that a module has for itself: module_0000.jit_f (0.10), or module_0000.jit_f_1773012345678 (NAME_MILLISECONDS).
static bool read_folder(HlArena *arena, HlStr folder, HlDumpName *out) {
  HlStr s = folder;
  HlDumpName head = *out;
  if (!read_head(&s, &head) || s.n == 0)
    return false;
  const size_t line = find_last(s, "_");
  const HlStr tail = line == SIZE_MAX ? (HlStr){s.at, 0} : rest_of(s, line + 1);
  if (tail.n == 13 && all_digits(tail))
    s.n = line;
  *out = head;
  out->name = keep(arena, s);
  return true;
}

static void read_in_folder(HlArena *arena, HlStr file, HlDumpName *out) {
  HlStr s = file;
  drop_program_ending(&s);
  out->label = keep(arena, s);
  out->is_numbered = true;
  size_t label;
  if (ends_with(file, ".mlir") || ends_with(file, ".mlirbc") || ends_with(file, ".mlir.bc"))
    out->stage = HL_STAGE_STABLEHLO;
  else if (!read_optimized(arena, s, out, &label) && !read_snapshot(s, out, &label) &&
           !read_step(arena, s, out, &label))
    out->is_report = true;
}

HlDumpName hl_dump_name_read(HlArena *arena, const char *path) {
  HlDumpName out = {.number = -1, .step = -1, .name = "", .label = "", .platform = ""};
  out.pipeline = out.after = out.before = out.folder = "";
  HlStr all = hl_str(path);
  if (!drop_end(&all, ".gz"))
    drop_end(&all, ".zst");
  const size_t slash = find_last(all, "/");
  const HlStr file = slash == SIZE_MAX ? all : rest_of(all, slash + 1);
  const HlStr folder = {all.at, slash == SIZE_MAX ? 0 : slash};
  const size_t up = find_last(folder, "/");
  out.folder = keep(arena, folder);
  HlStr rest = file;
  if (read_head(&rest, &out)) {
    out.is_numbered = true;
    read_tail(arena, rest, &out);
  } else if (read_jax(arena, file, &out) || read_old_snapshot(arena, file, &out)) {
    out.is_numbered = true;
  } else if (read_folder(arena, up == SIZE_MAX ? folder : rest_of(folder, up + 1), &out)) {
    out.folder = keep(arena, (HlStr){folder.at, up == SIZE_MAX ? 0 : up});
    read_in_folder(arena, file, &out);
  } else {
    read_words(arena, file, &out);
  }
  return out;
}
