// ir/backend_config.h: what instructions say to the backend, in the JSON object that is their backend_config.
//
// config_fields.def has a row for each field that Hilo knows. From the rows come a struct for each kind of config and, of
// each:
//
//   HlGemmConfig g = hl_gemm_config(arena, inst);                       // what it says; lists are in the arena
//   HlGemmConfig g = hl_gemm_config_of(arena, text);                    // of a config that stands elsewhere
//   g.beta = 1;
//   const char *text = hl_gemm_config_text(arena, dialect, old, &g);    // `old` with what differs from it
//   hl_set_gemm_config(arena, inst, &g);                                // the same for an instruction's own
//
// Writing over a text leaves all else as it stands: fields that no row has, and those that say the same already. A field that
// says something else takes the old one's place; a new one stands before the first that the table has later, else at the
// end; a new object, and a text that had no fields, gets all that XLA's release writes, in the table's order. "" is a
// config without fields, in both directions; a text that is no object stays as it is and says nothing.
#ifndef IR_BACKEND_CONFIG_H
#define IR_BACKEND_CONFIG_H

#include "hilo/ir.h"

// --- Words ----------------------------------------------------------------------------------------

#define WORDS(Type, ID) typedef enum Type { HL_##ID##_NONE, HL_##ID##_OTHER,
#define WORD(ID, NAME, number, word, meaning) HL_##ID##_##NAME,
#define WORDS_END(Type) } Type;
#include "ir/config_fields.def"

// The word of a value; "" of NONE and OTHER.
#define WORDS(Type, ID) const char *hl_text_of_##ID(Type value);
#define WORD(ID, NAME, number, word, meaning)
#define WORDS_END(Type)
#include "ir/config_fields.def"

// --- Configs --------------------------------------------------------------------------------------

#define HL_MEMBER_FLAG bool
#define HL_MEMBER_INT int64_t
#define HL_MEMBER_LONG int64_t
#define HL_MEMBER_REAL double
#define HL_MEMBER_LONGS HlI64s
#define HL_MEMBER_HLO(words, prefix) int64_t
#define HL_MEMBER_HLOS(words, prefix) HlI64s
#define HL_MEMBER_WORD(Type) Type
#define HL_MEMBER_SWITCH HlSwitch
#define HL_MEMBER_MAYBE HlMaybeInt
#define HL_MEMBER_SOME HlI64s
#define HL_MEMBER_JSON HlStr
#define HL_MEMBER_TILE HlI64s
#define HL_MEMBER_OBJECT bool
#define HL_MEMBER_SAID(kind, text, since) HL_MEMBER_##kind

#define CONFIG(name, Type, whose) typedef struct Type {
#define FIELD(Type, kind, member, path, absent) HL_MEMBER_##kind member;
#define CONFIG_END(Type) } Type;
#include "ir/config_fields.def"

// The arena may be NULL for a config without lists. An instruction's own is written as its module's release does.
#define CONFIG(name, Type, whose)                                                                          \
  Type hl_##name##_config(HlArena *arena, const HlInst *inst);                                             \
  Type hl_##name##_config_of(HlArena *arena, const char *text);                                            \
  const char *hl_##name##_config_text(HlArena *arena, HlDialect dialect, const char *old, const Type *to); \
  void hl_set_##name##_config(HlArena *arena, HlInst *inst, const Type *to);
#define FIELD(Type, kind, member, path, absent)
#define CONFIG_END(Type)
#include "ir/config_fields.def"

// A config as readers find it, interned in the module: XLA leaves empty lists of queues to wait on out when it reads.
const HlSym *hl_config_read(HlModule *m, HlStr text);

// Whose code computes a fusion, on GPUs or CPUs. Of what is no fusion, NONE.
HlFusionCode hl_fusion_code(const HlInst *inst);

#endif
