// hilo/text.h: HLO text, read and written (hlo.md 1, 3, 5).
#ifndef HILO_TEXT_H
#define HILO_TEXT_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// Modules in a text (several, separated by lines `// -----`), a headerless module, or a single
// instruction. Reports every error it can. On success the modules are the caller's (hl_module_free);
// *out is an array of *n in heap memory (hl_free). On any error false, and nothing is returned.
bool hl_text_read(HlCx *cx, HlSource *source, HlModule ***out, int *n);
// The first module of a NUL-terminated text, for tests and embedders; NULL on errors.
HlModule *hl_text_parse(HlCx *cx, const char *text);
// A sharding as it stands in HLO text ("{devices=[2,1]<=[2]}"), copied into the module; errors are at pos. An
// empty text is none: NULL. False after reporting.
bool hl_text_sharding(HlCx *cx, HlModule *m, HlPos pos, HlStr text, const HlSharding **out);
// Whether bytes look like HLO text (for telling formats apart by content).
bool hl_text_sniff(HlStr bytes);

typedef enum HlTextPreset {
  HL_TEXT_DEFAULT,             // what XLA's to_string() prints
  HL_TEXT_SHORT,               // ShortParsable
  HL_TEXT_CANONICAL,
  HL_TEXT_FINGERPRINT,
  HL_TEXT_MODULE_FINGERPRINT
} HlTextPreset;

// The switches of HloPrintOptions (hlo.md 5.1), each as the preset has it where nothing is said.
typedef struct HlTextOptions {
  HlTextPreset preset;
  HlSwitch percent, signatures, operand_shapes, operand_names, index_comments, metadata, backend_config;
  HlSwitch control_predecessors, large_constants, essential_constants, infeed_config, result_shape, layouts;
  HlSwitch subcomputation_bodies;  // print called computations in full where they are used
  HlSwitch canonical_names;        // tmp_N
  HlSwitch print_ids;              // off: names cut at the first '.', module and computation names dropped
  HlSwitch list_order;             // computations in the module's list order instead of DFS order
  HlSwitch async_sugar, original_value, frames;
  HlSwitch tuple_elements;         // operands `%t#1` for get-tuple-element, where the module's dialect has them
  HlSwitch sorted_configs;         // the members of a backend_config that is JSON, in order
  HlSwitch replica_group_lists;    // replica groups as {{0,1},{2,3}}, in whatever form they were written
} HlTextOptions;

// Append to `out`; options may be NULL. The module's dialect says which release of XLA would write so. Bodies of subcomputation_bodies beyond the limit on
// instructions are left out, with an error in the context.
void hl_text_print(HlCx *cx, const HlModule *m, const HlTextOptions *options, HlBuf *out);
void hl_text_print_comp(HlCx *cx, const HlComp *comp, const HlTextOptions *options, HlBuf *out);
// One line without indentation and newline, for messages: "%r = f32[] add(%a, %b)".
void hl_text_print_inst(HlCx *cx, const HlInst *inst, const HlTextOptions *options, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
