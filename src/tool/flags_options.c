// tool/flags_options.c: XLA's flags as clients of PJRT send them: DebugOptions in binary, and single options over it.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "proto/wire.h"
#include "tool/flags_table.h"

// Fields of DebugOptions up to this one are what release 0.10 of JAX has; later ones always say what is new.
enum { LAST_OF_0_10 = 512 };

static const int16_t row_after[] = {
// by number: the row's, plus 1; 0: none
#define FLAG(field, number, ...) [number] = ROW_##field + 1,
#define OTHER FLAG
#include "tool/flags.def"
};

static const char *const usual_before[FLAG_COUNT] = {
#define WAS(field, usual) [ROW_##field] = usual,
#include "tool/flags.def"
};

static const Flag *find_number(uint32_t number) {
  const int row = number < HL_COUNT_OF(row_after) ? row_after[number] : 0;
  return row ? &flag_table[row - 1] : NULL;
}

// --- DebugOptions in binary ---------------------------------------------------------------------

static bool is_repeated(const Flag *flag) {
  return flag->type >= TYPE_STRINGS;
}

// As the type has it on the wire; several numbers may come packed.
static bool has_type(const Flag *flag, const WireField *f) {
  switch (flag->type) {
  case TYPE_BOOL:
  case TYPE_INT32:
  case TYPE_INT64:
  case TYPE_ENUM: return f->type == WIRE_VARINT;
  case TYPE_ENUMS: return f->type == WIRE_VARINT || f->type == WIRE_BYTES;
  case TYPE_FLOAT: return f->type == WIRE_FIXED32;
  default: return f->type == WIRE_BYTES;
  }
}

static void put_numbers(HlStr packed, HlBuf *out) {
  uint64_t value;
  while (wire_varint(&packed, &value)) {
    if (out->n)
      hl_buf_putc(out, ',');
    hl_buf_i64(out, (int64_t)value);
  }
}

static void put_entry(HlStr entry, HlBuf *out) {
  WireField key, value;
  if (out->n)
    hl_buf_putc(out, ',');
  if (wire_find(entry, 1, WIRE_BYTES, &key))
    hl_buf_add(out, key.bytes.at, key.bytes.n);
  hl_buf_putc(out, '=');
  if (wire_find(entry, 2, WIRE_BYTES, &value))
    hl_buf_add(out, value.bytes.at, value.bytes.n);
}

// A field's value as a flag has it; of one that is there more than once with commas between.
static void put_value(const Flag *flag, const WireField *f, HlBuf *out) {
  const uint32_t bits = (uint32_t)f->value;
  float value;
  switch (flag->type) {
  case TYPE_FLOAT:
    memcpy(&value, &bits, sizeof value);
    hl_buf_printf(out, "%.9g", (double)value);
    break;
  case TYPE_MAP: put_entry(f->bytes, out); break;
  case TYPE_STRING: hl_buf_add(out, f->bytes.at, f->bytes.n); break;
  case TYPE_STRINGS:
    hl_buf_puts(out, out->n ? "," : "");
    hl_buf_add(out, f->bytes.at, f->bytes.n);
    break;
  case TYPE_MESSAGE:
  case TYPE_MESSAGES: break;
  default: put_numbers(f->bytes, out);
  }
}

static bool is_well_formed(HlCx *cx, HlStr bytes, bool *is_older) {
  WireField f;
  *is_older = true;
  while (wire_next(&bytes, &f))
    *is_older &= f.number <= LAST_OF_0_10;
  return bytes.n == 0 ||
         hl_error(cx, (HlPos){0}, "damaged proto: a field of DebugOptions cannot be read");
}

bool hl_flags_debug_options_binary(HlCx *cx, HlFlags *flags, HlStr bytes) {
  bool done[FLAG_COUNT] = {false}, is_older, ok = is_well_formed(cx, bytes, &is_older);
  WireField f;
  HlBuf value = {0};
  for (HlStr rest = bytes; ok && wire_next(&rest, &f);) {
    const Flag *flag = find_number(f.number);
    if (!flag || !has_type(flag, &f) || done[flag - flag_table])
      continue;
    done[flag - flag_table] = is_repeated(flag);
    value.n = 0;
    put_value(flag, &f, &value);
    for (HlStr more = rest; is_repeated(flag) && wire_next(&more, &f);)
      if (f.number == flag->number && has_type(flag, &f))
        put_value(flag, &f, &value);
    hl_buf_putc(&value, 0);
    const char *before = is_older ? usual_before[flag - flag_table] : NULL;
    ok = flag_set(cx, flags, flag, before ? before : flag_usual(flag), value.at);
  }
  hl_buf_free(&value);
  return ok;
}

// --- One option ---------------------------------------------------------------------------------

static const char *const type_names[] = {
    [TYPE_BOOL] = "bool",        [TYPE_INT32] = "int32",   [TYPE_INT64] = "int64",
    [TYPE_FLOAT] = "float",      [TYPE_STRING] = "string", [TYPE_STRINGS] = "string",
    [TYPE_ENUM] = "enum",        [TYPE_ENUMS] = "enum",    [TYPE_MESSAGE] = "message",
    [TYPE_MESSAGES] = "message", [TYPE_MAP] = "message",
};

static HlOverrideKind kind_of(const Flag *flag) {
  switch (flag->type) {
  case TYPE_BOOL: return HL_OVERRIDE_BOOL;
  case TYPE_FLOAT: return HL_OVERRIDE_FLOAT;
  case TYPE_INT32:
  case TYPE_INT64:
  case TYPE_ENUM:
  case TYPE_ENUMS: return HL_OVERRIDE_INT;
  default: return HL_OVERRIDE_TEXT;
  }
}

static bool is_message(const Flag *flag) {
  return flag->type == TYPE_MESSAGE || flag->type == TYPE_MESSAGES || flag->type == TYPE_MAP;
}

static bool fits(const Flag *flag, int64_t value) {
  return flag->type != TYPE_INT32 || (value >= INT32_MIN && value <= INT32_MAX);
}

static const char *after_blanks(const char *at) {
  while (is_space(*at))
    at++;
  return at;
}

// What a text says for a field that is none, as XLA reads it here: bools are Python's.
static bool read_text(const Flag *flag, const char *text) {
  char *end;
  const char *at = after_blanks(text);
  switch (flag->type) {
  case TYPE_BOOL: return strcmp(text, "True") == 0 || strcmp(text, "False") == 0;
  case TYPE_FLOAT: base_read_float(at, &end); return end > at && !*after_blanks(end);
  case TYPE_INT32:
  case TYPE_INT64: {
    errno = 0;
    const int64_t value = strtoll(at, &end, 10);
    return end > at && !*after_blanks(end) && errno == 0 && fits(flag, value);
  }
  default: return !is_message(flag) || !*text;
  }
}

static void put_override(const HlOptionOverride *o, HlBuf *out) {
  switch (o->kind) {
  case HL_OVERRIDE_TEXT: hl_buf_puts(out, o->text ? o->text : ""); break;
  case HL_OVERRIDE_BOOL: hl_buf_puts(out, o->flag ? "1" : "0"); break;
  case HL_OVERRIDE_INT: hl_buf_printf(out, "%" PRId64, o->i); break;
  case HL_OVERRIDE_FLOAT: hl_buf_printf(out, "%g", o->f); break;
  }
}

// Numbers may have blanks around them.
static void drop_blanks(HlBuf *value) {
  const char *at = after_blanks(value->at);
  size_t n = strlen(at);
  while (n > 0 && is_space(at[n - 1]))
    n--;
  memmove(value->at, at, n);
  value->at[n] = 0;
}

bool hl_flags_override(HlCx *cx, HlFlags *flags, const HlOptionOverride *o) {
  const Flag *flag = flag_find(hl_str(o->name));
  if (!flag || flag->number == 0)
    return hl_error(cx, (HlPos){0}, "No such compile option: '%s'", o->name);
  HlBuf value = {0};
  put_override(o, &value);
  hl_buf_putc(&value, 0);
  bool ok = o->kind == HL_OVERRIDE_TEXT ? read_text(flag, value.at)
                                        : o->kind == kind_of(flag) && fits(flag, o->i);
  if (!ok)
    hl_error(cx, (HlPos){0}, "While setting option %s, '%s' is not a valid %s value.", flag->name,
             value.at, type_names[flag->type]);
  if (kind_of(flag) != HL_OVERRIDE_TEXT)
    drop_blanks(&value);
  const bool says_nothing = is_message(flag) && !*value.at;
  if (ok && !says_nothing)
    ok = flag_set(cx, flags, flag, flag_usual(flag), value.at);
  hl_buf_free(&value);
  return ok;
}
