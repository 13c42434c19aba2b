// tests/support/memo.h: runs many modules that are almost the same: what was computed once is not computed again.
//
//   Memo *memo = memo_new();
//   if (memo_takes(m))
//     memo_run(memo, cx, m, &options, args, &result);   // what hl_eval gives, to the bit
//   memo_free(memo);
//
// An instruction gives what it gave when its text, with all that it calls, and the values of its operands were the same.
// Values are told apart by their bits, so what follows a change that gives the same bits is not computed again either.
#ifndef TESTS_SUPPORT_MEMO_H
#define TESTS_SUPPORT_MEMO_H

#include "hilo/eval.h"

typedef struct Memo Memo;
Memo *memo_new(void);
void memo_free(Memo *memo);  // NULL is fine

// Whether nothing in the module does more than give a value of its operands, or another one each time, and it runs on one
// device.
bool memo_takes(const HlModule *m);
// hl_eval of a module that memo_takes, on its one device, with the interpreter's ops: a new reference, or NULL after
// reporting.
HlLiteral *memo_run(Memo *memo, HlCx *cx, const HlModule *m, const HlEvalOptions *options,
                    const HlLiteral *const *args);
// Keeps what the last run needed, and forgets all that only earlier ones did. memo_trim: forgets what was not there when memo_keep was called.
void memo_keep(Memo *memo);
void memo_trim(Memo *memo);
// How many instructions of entry computations, and of those that are called from there, were run, and how many of them were computed.
typedef struct MemoCounts {
  int64_t n, n_computed;
} MemoCounts;
MemoCounts memo_counts(const Memo *memo);

#endif
