// hilo/exported.h: what jax.export serialises: a program as a portable artifact, with what JAX must know to call it: the
// types and shardings of its arguments and results, the trees they are flattened from, platforms, effects.
//
// The file is a FlatBuffer; every offset in it is checked. The module inside is read like any artifact
// (hl_ml_bytecode_read); the programs of its derivatives (`vjp`) may follow, each an HlExported of its own.
#ifndef HILO_EXPORTED_H
#define HILO_EXPORTED_H

#include "hilo/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlExported HlExported;

// An argument or result, as JAX has it. All texts are never NULL.
typedef struct HlExportedValue {
  const char *type;            // "float32[b,4]": sizes may be expressions
  const char *memory;          // "device", "host", "any"; "" not said
  const char *sharding;        // "NamedSharding(('x': 2), P('x', None))"; "": none
  bool is_kept;                // of an argument: the module has a parameter for it; else it is not used
} HlExportedValue;

struct HlExported {
  HlArena *arena;              // of all below
  HlSource *module;            // the artifact
  const char *function;        // "f"
  const char *jax;             // the version that wrote it, since July 2026; "": not said
  int serialization;           // version of this format, since July 2026; 0: not said
  int calling_convention;
  int64_t n_devices;
  const char *const *platforms;                      // "cpu", "cuda"; with several the module's first parameter is which
  int n_platforms;
  HlExportedValue *in, *out;
  int n_in, n_out;
  const char *in_tree, *out_tree;                    // "((*, {'w': *}), {})": arguments and keyword arguments
  const char *const *ordered_effects, *const *unordered_effects;
  int n_ordered_effects, n_unordered_effects;
  const char *const *disabled_checks;                // "platform", "custom_call: NAME", "shape_assertions"
  int n_disabled_checks;
  bool has_global_constants;   // polymorphic sizes or platforms were made parameters of the module
  HlExported *vjp;             // NULL: none; freed with this
};

// Whether the root of a FlatBuffer with the fields of an export stands at the start. A damaged one may pass.
bool hl_exported_sniff(HlStr bytes);
// NULL after reporting, at the byte where it is. The source is not kept.
HlExported *hl_exported_read(HlCx *cx, HlSource *source);
void hl_exported_free(HlExported *exported);         // NULL is fine
// Some lines that say all of it but the module, each after `indent`; appended.
void hl_exported_print(const HlExported *exported, const char *indent, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
