// tool/diff/dump_pairs.h: which files of dumps belong together, by their names.
#ifndef TOOL_DUMP_PAIRS_H
#define TOOL_DUMP_PAIRS_H

#include "base/vec.h"
#include "hilo/dump_names.h"

// Indices of paths; -1: it has no partner.
typedef struct DumpPair {
  int a, b;
} DumpPair;
typedef VEC(DumpPair) DumpPairs;

// Of two directories: by folder, program and stage, whatever numbers the dump gave; the k-th of one name with the k-th. The
// first `skip_a` bytes of a's paths are the directory's name. In order of a's paths, then what only b has. The caller's: vec_free.
DumpPairs dump_pairs_of_two(const char *const *a, int n_a, size_t skip_a, const char *const *b,
                            int n_b, size_t skip_b);
// Of one directory, whose paths are sorted: each program before and after it was optimised.
DumpPairs dump_pairs_of_stages(const char *const *path, int n);
// The same between every two states of a program that follow each other.
DumpPairs dump_pairs_of_passes(const char *const *path, int n);

#endif
