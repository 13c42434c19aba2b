// tool/flags_table.h: the table of XLA's flags (flags.def).
#ifndef TOOL_FLAGS_TABLE_H
#define TOOL_FLAGS_TABLE_H

#include "hilo/flags.h"

typedef enum FlagKind {
  KIND_BOOL,
  KIND_SAID,
  KIND_SWITCH,
  KIND_INT,
  KIND_TEXT,
  KIND_LIST,
  KIND_ASIDE,
  KIND_OTHER,
  KIND_GONE
} FlagKind;

// Types of DebugOptions' fields. NONE: there is no such field.
typedef enum FlagType {
  TYPE_NONE,
  TYPE_BOOL,
  TYPE_INT32,
  TYPE_INT64,
  TYPE_FLOAT,
  TYPE_STRING,
  TYPE_ENUM,
  TYPE_MESSAGE,
  TYPE_STRINGS,  // these may be there more than once
  TYPE_ENUMS,
  TYPE_MESSAGES,
  TYPE_MAP
} FlagType;
enum {
  TYPE_OF_BOOL = TYPE_BOOL,
  TYPE_OF_SAID = TYPE_BOOL,
  TYPE_OF_SWITCH = TYPE_BOOL,
  TYPE_OF_INT = TYPE_INT32,
  TYPE_OF_TEXT = TYPE_STRING,
  TYPE_OF_LIST = TYPE_STRINGS
};

// What flags steer that Hilo does not have.
typedef enum FlagSteers { HARMLESS, RESULTS, PROGRAM, SPEED } FlagSteers;

typedef struct Flag {
  const char *name;
  union {
    const char *meaning;
    const char *other_usual;  // of OTHER: XLA's value; NULL: none that is written so
  };
  int32_t usual;    // of an INT
  uint16_t field;   // of HlFlags
  uint16_t number;  // of DebugOptions; 0: none
  uint8_t kind;     // FlagKind
  uint8_t steers;   // of OTHER: FlagSteers
  uint8_t type;     // FlagType
} Flag;

enum {
#define FLAG(field, ...) ROW_##field,
#define ASIDE FLAG
#define OTHER FLAG
#define PAST FLAG
#define GONE(field) ROW_##field,
#include "tool/flags.def"
  FLAG_COUNT
};
extern const Flag flag_table[FLAG_COUNT];

const Flag *flag_find(HlStr name);  // NULL: there is none
static inline const char *flag_usual(const Flag *flag) {
  return flag->kind == KIND_OTHER ? flag->other_usual : NULL;
}
// Takes a value as text, NULL: the flag stands bare. `usual`: XLA's, as in flag_usual. False after reporting.
bool flag_set(HlCx *cx, HlFlags *flags, const Flag *flag, const char *usual, const char *value);

#endif
