// hilo/jaxpr.h: jaxprs, JAX's own form of a program as it prints it, read into HLO (mlir.md 7).
//
// A jaxpr is parsed into a tree (HlJaxpr), which can be listed equation by equation, and lowered to a
// module as JAX lowers it. Every instruction made from an equation has the equation's place as its
// `loc`, so that a listing of equations and the module stand side by side.
#ifndef HILO_JAXPR_H
#define HILO_JAXPR_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlJaxpr HlJaxpr;

bool hl_jaxpr_sniff(HlStr bytes);

// The tree of a text in the print styles of 2021 to 2026; NULL after reporting. The source is referenced.
HlJaxpr *hl_jaxpr_parse(HlCx *cx, HlSource *source);
void hl_jaxpr_free(HlJaxpr *jaxpr);                  // NULL is fine

// An equation, in the order of the text; those of nested jaxprs follow the equation that holds them.
typedef struct HlJaxprEquation {
  HlLoc loc;                   // of its first byte
  HlStr text;                  // in the source, nested jaxprs included
  HlStr primitive;
  int depth;                   // 0: of the top jaxpr; hoisted jaxprs (`let f = ...`) count as nested
  int line;                    // from 1
} HlJaxprEquation;
int hl_jaxpr_n_equations(const HlJaxpr *jaxpr);
HlJaxprEquation hl_jaxpr_equation(const HlJaxpr *jaxpr, int k);

// Whether the text says of what types inputs and constants are, as it does since 2021 (else hl_jaxpr_to_hlo must be told),
// and no size is a variable.
bool hl_jaxpr_is_typed(const HlJaxpr *jaxpr);

// The constants that jaxprs close over (`{ lambda a:f32[3]; b:f32[]. ...`), whose values a text does not hold:
// those of the top jaxpr, then those of nested ones in the order of the text. Their types in HLO (in the
// tree; NULL where the text has none) and names as printed.
int hl_jaxpr_n_consts(const HlJaxpr *jaxpr);
const HlShape *hl_jaxpr_const_shape(const HlJaxpr *jaxpr, int k);
HlStr hl_jaxpr_const_name(const HlJaxpr *jaxpr, int k);

typedef enum HlJaxprConsts {
  HL_JAXPR_CONSTS_REQUIRED,    // a constant without a value is an error
  HL_JAXPR_CONSTS_PARAMETERS   // it becomes a parameter of the entry, before the inputs; a nested jaxpr's, `{...}`
} HlJaxprConsts;

typedef struct HlJaxprOptions {
  // Values of the constants (c0, c1, ... of an .npz), by number, borrowed; NULL: not given.
  const HlLiteral *const *consts;
  int n_consts;
  HlJaxprConsts missing;
  // Types of the inputs, for texts that do not print them (until 2021); NULL: the text must. Where there are as many as
  // constants that become parameters and inputs, those of the constants come first.
  const HlShape *const *inputs;
  int n_inputs;
} HlJaxprOptions;

// The module; options may be NULL. The tree stays the caller's. NULL after reporting.
HlModule *hl_jaxpr_to_hlo(HlCx *cx, const HlJaxpr *jaxpr, const HlJaxprOptions *options);
// Both steps.
HlModule *hl_jaxpr_read(HlCx *cx, HlSource *source, const HlJaxprOptions *options);

#ifdef __cplusplus
}
#endif
#endif
