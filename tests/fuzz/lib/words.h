// tests/fuzz/lib/words.h: the words of each language that is fuzzed, from our tables.
#ifndef TESTS_FUZZ_WORDS_H
#define TESTS_FUZZ_WORDS_H

#include <stddef.h>

// Words of one kind, which can stand for one another: opcodes, element types, names of attributes, ...
typedef struct FuzzClass {
  const char *const *word;
  int n;
} FuzzClass;

typedef struct FuzzWords {
  const FuzzClass *at;
  int n;
} FuzzWords;

// Of a target, by its name ("text"); none for those that are not known.
FuzzWords fuzz_words(const char *target);

#endif
