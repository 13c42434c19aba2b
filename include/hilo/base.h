// hilo/base.h: what every layer rests on: arenas, strings, buffers, diagnostics, files, numbers.
//
// Ownership: `_new` gives a heap object that the caller frees with `_free`; what takes an HlArena
// allocates there and is freed with the arena; everything else returned is borrowed.
// Errors: a function that can fail takes HlCx first and returns false (or NULL) exactly when it has
// reported at least one error in the context. The library never prints and never exits.
#ifndef HILO_BASE_H
#define HILO_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HL_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#define HL_PURE __attribute__((pure))
#else
#define HL_PRINTF(format_at, args_at)
#define HL_PURE
#endif
#define HL_COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

// --- Options ----------------------------------------------------------------------------------
//
// A struct of options that is all zero means the defaults, for every such struct of the library: {0} will do, and
// what is not named in a designated initialiser is as usual. Where a default is not "false" or "0", the field is one of these.

// A choice of yes and no with a default of its own.
typedef enum HlSwitch { HL_USUAL, HL_ON, HL_OFF } HlSwitch;
static inline HlSwitch hl_switch(bool on) {
  return on ? HL_ON : HL_OFF;
}
// A number that need not be given: {true, 3}.
typedef struct HlMaybeInt {
  bool given;
  int64_t value;
} HlMaybeInt;
typedef struct HlMaybeFloat {
  bool given;
  double value;
} HlMaybeFloat;

// --- Arenas -----------------------------------------------------------------------------------

// A region whose allocations are freed together. Memory is zeroed; allocation never returns NULL
// (running out of memory is fatal, which is honest because input-driven sizes are limited where
// input is read). Not thread-safe.
typedef struct HlArena HlArena;

HlArena *hl_arena_new(void);
void hl_arena_free(HlArena *arena);                  // NULL is fine
void *hl_arena_alloc(HlArena *arena, size_t size);   // 16-byte aligned, zeroed
size_t hl_arena_bytes(const HlArena *arena);         // bytes reserved from the system

// A point to which an arena can be cut back: all that was allocated since is freed.
typedef struct HlMark {
  void *chunk;
  size_t used;
} HlMark;
HlMark hl_arena_mark(const HlArena *arena);
void hl_arena_release(HlArena *arena, HlMark mark);

#define HL_NEW(arena, T) ((T *)hl_arena_alloc((arena), sizeof(T)))
#define HL_ARRAY(arena, T, n) ((T *)hl_arena_alloc((arena), sizeof(T) * (size_t)(n)))

// Copies into the arena; strings get a terminating NUL. `hl_arena_copy` of 0 bytes gives NULL.
void *hl_arena_copy(HlArena *arena, const void *from, size_t size);
char *hl_arena_strndup(HlArena *arena, const char *text, size_t n);
char *hl_arena_printf(HlArena *arena, const char *format, ...) HL_PRINTF(2, 3);

// --- Strings, interned symbols, lists of integers ------------------------------------------------

// A borrowed run of bytes, not NUL-terminated.
typedef struct HlStr {
  const char *at;
  size_t n;
} HlStr;
HlStr hl_str(const char *text);                      // of a NUL-terminated string
bool hl_str_is(HlStr s, const char *text);
bool hl_str_equal(HlStr a, HlStr b);

// An interned string: equal text means same pointer within one HlSyms. NUL-terminated in `text`
// (which may also hold NULs of its own; `n` rules). `index` is dense from 0.
typedef struct HlSym {
  uint32_t n;
  uint32_t hash;
  uint32_t index;
  char text[1];                                      // in fact n + 1 bytes
} HlSym;
typedef struct HlSyms HlSyms;

HlSyms *hl_syms_new(HlArena *arena);                 // lives and dies with the arena
const HlSym *hl_syms_add(HlSyms *syms, const char *text, size_t n);
const HlSym *hl_syms_find(const HlSyms *syms, const char *text, size_t n);  // NULL if not interned
uint32_t hl_syms_count(const HlSyms *syms);
uint64_t hl_hash_bytes(const void *at, size_t n, uint64_t seed);
uint64_t hl_hash_mix(uint64_t a, uint64_t b);

// A borrowed list of integers.
typedef struct HlI64s {
  const int64_t *at;
  int n;
} HlI64s;
int hl_i64s_find(HlI64s list, int64_t value);        // first index, or -1
bool hl_i64s_equal(HlI64s a, HlI64s b);
int hl_i64s_compare(HlI64s a, HlI64s b);            // < 0, 0, > 0: as words in a dictionary
HlI64s hl_i64s_copy(HlArena *arena, HlI64s list);

// --- Growing byte buffers ------------------------------------------------------------------------

// A heap buffer that grows; `at` is NUL-terminated after every call. Start from {0}.
typedef struct HlBuf {
  char *at;
  size_t n;
  size_t capacity;
  const void *owner;                                 // of Hilo's own objects: what the buffer is a part of (hl_try); NULL
} HlBuf;
void hl_buf_free(HlBuf *buf);
void hl_buf_grow(HlBuf *buf, size_t more);           // room for `more` bytes beyond n, and a NUL
void hl_buf_add(HlBuf *buf, const void *bytes, size_t n);
void hl_buf_puts(HlBuf *buf, const char *text);
void hl_buf_putc(HlBuf *buf, char c);
void hl_buf_i64(HlBuf *buf, int64_t value);          // decimal, fast
void hl_buf_u64(HlBuf *buf, uint64_t value);
void hl_buf_printf(HlBuf *buf, const char *format, ...) HL_PRINTF(2, 3);
void hl_buf_vprintf(HlBuf *buf, const char *format, va_list args);
void hl_buf_c_escape(HlBuf *buf, const char *bytes, size_t n);  // absl::CEscape's rules (hlo.md 1.5)
void hl_buf_xml(HlBuf *buf, const char *text);       // with &, <, > and " as entities
void hl_buf_json_string(HlBuf *buf, const char *bytes, size_t n);  // quoted; invalid UTF-8 as \ufffd

// --- Sources: what was read, kept for locations ----------------------------------------------------

// The bytes of an input, shared by the modules read from it, reference-counted (atomically).
typedef struct HlSource HlSource;
HlSource *hl_source_new(const char *name, const void *bytes, size_t n, bool is_binary);  // copies; bytes end in NUL
HlSource *hl_source_take(const char *name, HlBuf *buf, bool is_binary);  // takes over buf, which becomes {0}
HlSource *hl_source_ref(HlSource *source);           // NULL is fine
void hl_source_unref(HlSource *source);
const char *hl_source_name(const HlSource *source);
HlStr hl_source_bytes(const HlSource *source);       // followed by a NUL
bool hl_source_is_binary(const HlSource *source);

// A place in a source: byte offset + 1; 0 is "unknown".
typedef uint32_t HlLoc;
typedef struct HlPos {
  const HlSource *source;                            // NULL: nowhere in particular
  HlLoc loc;
} HlPos;
// Line and column, both from 1, columns in bytes. For a binary source line is 0 and column the
// byte offset. {0,0} when unknown.
typedef struct HlLineCol {
  int64_t line;
  int64_t column;
} HlLineCol;
HlLineCol hl_source_line_col(const HlSource *source, HlLoc loc);

// --- Context ----------------------------------------------------------------------------------

// Limits on what input may ask for; each is checked where input is read, with a located error.
typedef struct HlLimits {
  int64_t instructions;                              // per module, 2^26
  int nesting;                                       // of text, protos, computations, tuples: 1000
  int64_t tuple_leaves;                              // 2^20
  int64_t literal_bytes;                             // of all constants of a module, 8 GiB
  int64_t file_bytes;                                // decompressed, 8 GiB
  int64_t eval_bytes;                                // live tensors while interpreting, 64 GiB, or the machine's memory
  int64_t eval_steps;                                // instructions executed, 0: no limit
  int errors;                                        // stored diagnostics, 100; more are counted
  int64_t devices;                                   // logical devices of the interpreter, 1024
  int64_t fail_allocation;                           // for tests of hl_try: the n-th request for memory in it is
                                                     // refused (then this is 0), or all from -n on; 0: none
} HlLimits;

typedef enum HlSeverity { HL_NOTE, HL_WARNING, HL_ERROR } HlSeverity;

// What kind of failure an error is; decides the exit status of the program (design.md 3).
typedef enum HlErrorKind {
  HL_DIFFERS = 1,                                    // a value is not what was expected
  HL_INVALID = 3,                                    // unreadable, unparsable or invalid input
  HL_UNSUPPORTED = 4,                                // not supported
  HL_FAILED = 5,                                     // compile or run failed
  HL_LIMIT = 6,                                      // a limit was reached
  HL_CANCELLED = 7                                   // it is not wanted any more (hl_cx_cancel)
} HlErrorKind;

typedef struct HlDiag {
  HlSeverity severity;
  HlErrorKind kind;
  HlSource *source;                                  // referenced; may be NULL
  HlLoc loc;
  char *text;                                        // one line or several, no trailing newline
  char *hint;                                        // "did you mean 'add'?", or NULL
  int64_t times;                                     // it was reported: equal warnings are stored once, and so are equal outcomes
} HlDiag;

// Everything a piece of work needs around it: diagnostics, scratch memory, limits, registered
// callbacks. One thread of work at a time.
typedef struct HlCx HlCx;
HlCx *hl_cx_new(void);
void hl_cx_free(HlCx *cx);
HlLimits *hl_cx_limits(HlCx *cx);                    // writable
HlArena *hl_cx_scratch(HlCx *cx);                    // callers mark and release around their use

// Reports; always returns false. The position may be {0}. The message is lower case, says what was
// found and what was expected, without position and without trailing newline.
bool hl_error(HlCx *cx, HlPos pos, const char *format, ...) HL_PRINTF(3, 4);
bool hl_error_kind(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, ...) HL_PRINTF(4, 5);
bool hl_verror(HlCx *cx, HlErrorKind kind, HlPos pos, const char *format, va_list args);
void hl_warn(HlCx *cx, HlPos pos, const char *format, ...) HL_PRINTF(3, 4);
void hl_note(HlCx *cx, HlPos pos, const char *format, ...) HL_PRINTF(3, 4);   // belongs to what was reported before it
void hl_tell(HlCx *cx, HlPos pos, const char *format, ...) HL_PRINTF(3, 4);   // a note by itself: what was done or left out
void hl_conclude(HlCx *cx, HlPos pos, const char *format, ...) HL_PRINTF(3, 4);  // the same, whatever the limit: what came of it all
void hl_hint(HlCx *cx, const char *format, ...) HL_PRINTF(2, 3);  // attaches to the newest diagnostic

int hl_cx_n_diags(const HlCx *cx);
const HlDiag *hl_cx_diag(const HlCx *cx, int k);     // oldest first
int64_t hl_cx_n_errors(const HlCx *cx);              // all, stored or not
int64_t hl_cx_n_lost(const HlCx *cx, HlSeverity severity);  // not stored, since there were too many (HlLimits.errors)
HlErrorKind hl_cx_error_kind(const HlCx *cx);        // of the first error
void hl_cx_clear(HlCx *cx);                          // forgets diagnostics and counts
// Cuts back to the first n diagnostics: for a reader that tries one form and then another.
void hl_cx_forget(HlCx *cx, int n);
// Appends the diagnostics of `from` (a context of another thread) to `cx` and clears `from`.
void hl_cx_merge(HlCx *cx, HlCx *from);
// Appends "FILE:LINE:COL: error: TEXT\n  source line\n  ^\n  hint\n" of one diagnostic.
void hl_diag_render(const HlDiag *diag, bool color, HlBuf *out);

// The word of `words` (n of them) nearest to `word` by edit distance, or NULL if none is near.
const char *hl_nearest(HlStr word, const char *const *words, int n);

// Things a higher layer registers for a lower one, by key ("custom_call:NAME", ...). Borrowed.
void hl_cx_register(HlCx *cx, const char *key, void *value);
void *hl_cx_lookup(const HlCx *cx, const char *key);  // NULL if nothing is registered
// The same with a copy of the value, which lives as long as the context.
void hl_cx_register_copy(HlCx *cx, const char *key, const void *value, size_t size);

// --- Running out of memory -------------------------------------------------------------------------

// Runs work(cx, user) and returns what it does; but when memory runs out, the work ends there: what it made
// is freed (arenas, modules, literals, buffers, files it opened), the references that it took are given back,
// "out of memory" is reported (HL_LIMIT), and the result is false. Of what there was before the work began:
//   - what it only read is as it was, and so is the context, with what was reported until then;
//   - a module, tree or arena that it was changing is void: all that may be done with it is to free it;
//   - a pointer or an HlBuf that it filled, where there was none before, points to what is no more: set it to {0}.
// A try within a try is part of it. What the work frees of its own, or others made for it, goes by hl_free, not free().
//
//   static bool read(HlCx *cx, void *user) { return hl_load(cx, ((Job *)user)->path, NULL, &((Job *)user)->file); }
//   if (!hl_try(cx, read, &job)) ...                    // job.file holds nothing
typedef bool HlWork(HlCx *cx, void *user);
bool hl_try(HlCx *cx, HlWork *work, void *user);

// Cancelling: ends the try that works in this context, soon, as a lack of memory would end it; what is reported is
// "cancelled" (HL_CANCELLED). May be called from any thread and from a signal handler. Work looks for it as it goes, inside
// passes, kernels, readers and printers too; without a try nobody looks. Later tries end at their first look, until it is
// taken back.
void hl_cx_cancel(HlCx *cx);
void hl_cx_resume(HlCx *cx);
bool hl_cx_is_cancelled(const HlCx *cx);
// The same by asking: called at every look, for those who cannot set a flag (an interpreter that keeps its signals
// waiting, a test); true: cancel. Of several threads of one try one asks at a time. NULL: nobody is asked.
typedef bool HlPoll(void *user);
void hl_cx_set_poll(HlCx *cx, HlPoll *poll, void *user);

// What happens when memory runs out while no try is open: the handler is called, and must not return (it may jump
// away; what was being done is lost). Without one (NULL, as at first) a message and abort(). Of the whole process.
typedef void HlOutOfMemory(size_t size);
void hl_set_out_of_memory(HlOutOfMemory *handler);

void hl_free(void *at);                              // an array that a function of Hilo says is heap memory

// --- Files ------------------------------------------------------------------------------------

// Reads a file ("-": standard input), seeing through gzip and zstd (by magic number, nested too),
// with the limit file_bytes. The source is the caller's (hl_source_unref).
HlSource *hl_read_file(HlCx *cx, const char *path);
// The same of what is in memory already, which is copied; `name` stands in messages.
HlSource *hl_read_bytes(HlCx *cx, const char *name, const void *bytes, size_t n);
// Decompresses bytes into *out when they are gzip or zstd; *was tells whether they were.
bool hl_decompress(HlCx *cx, HlPos pos, HlStr bytes, HlBuf *out, bool *was);
// Writes atomically (temporary file, then rename), compressing by the name's ending .gz or .zst;
// "-" is standard output.
bool hl_write_file(HlCx *cx, const char *path, const void *bytes, size_t n);

double hl_now(void);                                 // seconds, monotonic

// --- Random numbers: the same on every machine ------------------------------------------------------

typedef struct HlRng {
  uint64_t state;
} HlRng;
uint64_t hl_rng_u64(HlRng *rng);                     // splitmix64
int64_t hl_rng_below(HlRng *rng, int64_t n);         // uniform in [0, n), n > 0
double hl_rng_unit(HlRng *rng);                      // uniform in [0, 1)

// --- Small floats ---------------------------------------------------------------------------------

// A binary float format of at most 16 bits, as XLA defines it (hlo.md 2.1).
typedef enum HlNanStyle {
  HL_NAN_IEEE,                                       // exponent all ones: inf and nan
  HL_NAN_FN,                                         // all ones magnitude is nan, no inf
  HL_NAN_FNUZ,                                       // only nan is the sign bit alone; no inf, no -0
  HL_NAN_NONE,                                       // f4e2m1fn: neither inf nor nan; saturates
  HL_NAN_E8M0                                        // f8e8m0fnu: exponent only, 0xff is nan
} HlNanStyle;
typedef struct HlFloatFormat {
  int bits, exponent_bits, mantissa_bits, bias;
  HlNanStyle nan;
} HlFloatFormat;
double hl_float_decode(const HlFloatFormat *format, uint32_t bits);
// Rounds to nearest even once, from the exact double; overflow, inf and nan as hlo.md 4.3 says.
uint32_t hl_float_encode(const HlFloatFormat *format, double value);
float hl_f16_to_f32(uint16_t bits);
uint16_t hl_f16_from_f32(float value);
float hl_bf16_to_f32(uint16_t bits);
uint16_t hl_bf16_from_f32(float value);

#ifdef __cplusplus
}
#endif
#endif
