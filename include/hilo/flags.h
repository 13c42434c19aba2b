// hilo/flags.h: XLA's flags, from XLA_FLAGS and from command lines (tools.md 1).
#ifndef HILO_FLAGS_H
#define HILO_FLAGS_H

#include "hilo/base.h"
#include "hilo/proto.h"

#ifdef __cplusplus
extern "C" {
#endif

// The flags that have an effect, each a field of its own name: rows of src/tool/flags.def. Start from {0}: no flag is given.
typedef struct HlFlags {
  HlArena *arena;              // of the texts that were read; NULL: none yet
  bool xla_disable_all_hlo_passes, xla_dump_hlo_as_text, xla_dump_hlo_as_proto, xla_dump_hlo_as_dot, xla_dump_hlo_as_url,
      xla_dump_hlo_as_html, xla_dump_hlo_snapshots, xla_dump_hlo_unoptimized_snapshots, xla_dump_large_constants,
      xla_syntax_sugar_async_ops, xla_dump_disable_metadata, xla_dump_compress_protos, xla_dump_include_timestamp, xla_dump_module_metadata,
      xla_dump_fusion_visualization;
  HlSwitch xla_allow_excess_precision, xla_dump_hlo_as_long_text, xla_enable_dumping, xla_dump_compact_gte, xla_dump_full_hlo_config;  // usually on
  HlMaybeInt xla_force_host_platform_device_count, xla_dump_max_hlo_modules;  // 1; no limit
  // NULL is "".
  const char *xla_disable_hlo_passes, *xla_enable_hlo_passes_only, *xla_run_hlo_passes_starting_from, *xla_fuel, *xla_dump_to,
      *xla_dump_hlo_module_re, *xla_dump_hlo_pass_re, *xla_dump_hlo_pipeline_re, *xla_gpu_load_autotune_results_from,
      *xla_gpu_dump_autotune_results_to;
  bool *warned;                // of which rows it has been said that they have no effect; in `arena`, NULL: of none
} HlFlags;

void hl_flags_free(HlFlags *flags);                    // what it was given; it is {0} then
void hl_flags_copy(const HlFlags *from, HlFlags *out); // with texts of its own
static inline const char *hl_flag_text(const char *value) {
  return value ? value : "";
}
// One word, "--xla_dump_to=D" or "--xla_dump_hlo_as_text". A flag that is not known is a warning with the nearest name;
// so is, once, a flag of XLA's that changes results, programs or speed and that Hilo does not have. False after reporting a value that does not fit.
bool hl_flags_word(HlCx *cx, HlFlags *flags, const char *word);
// The value of XLA_FLAGS: a list of words, or the name of a file that holds one ('#' starts a comment there). NULL: none.
bool hl_flags_text(HlCx *cx, HlFlags *flags, const char *value);
// A file of DebugOptions as text proto: lines `name: value`.
bool hl_flags_debug_options(HlCx *cx, HlFlags *flags, const char *path);
bool hl_flags_debug_options_source(HlCx *cx, HlFlags *flags, const HlSource *source);
// The same in binary, as clients of PJRT send it (HlAsked), with all defaults written out: they are silent.
bool hl_flags_debug_options_binary(HlCx *cx, HlFlags *flags, HlStr bytes);
// One of jit's compiler_options, over what was said before. False after reporting, in XLA's words, a name that its
// DebugOptions does not have, and a value of another type.
bool hl_flags_override(HlCx *cx, HlFlags *flags, const HlOptionOverride *override);
// Appends the flags that differ from their defaults as such lines.
void hl_flags_print(const HlFlags *flags, HlBuf *out);
// The same for config.pbtxt: also those that XLA always says there, and every name of a list as a field of its own. Only fields of
// XLA's DebugOptions.
void hl_flags_config(const HlFlags *flags, HlBuf *out);
// "--NAME  meaning" of every flag that has an effect, for help.
void hl_flags_help(HlBuf *out);

// What is known of a flag, whether Hilo has it or not.
typedef struct HlFlagRow {
  const char *name;            // without "--"
  bool honoured;
  const char *meaning;         // of one that is not: what it changes in XLA; "" if nothing that Hilo makes
} HlFlagRow;
// The flag of number k, from 0; false beyond the last.
bool hl_flags_row(int k, HlFlagRow *out);

#ifdef __cplusplus
}
#endif
#endif
