// cpu/sort/sort.h: a sort, prepared.
//
// A row is packed into records, the records are sorted by their keys, and the results are unpacked from them. There are two ways to
// make records (plans). Where keys and what follows them fit, they hold all there is of the elements, and nothing else is
// looked at any more. Else they hold the keys and the place, by which the results are picked; so also in rows where a key does not say
// what the element was (-0, NaN). Keys of more than 64 bits are sorted by one after the other, the least first.
#ifndef HILO_CPU_SORT_SORT_H
#define HILO_CPU_SORT_SORT_H

#include "cpu/kernel/kernel.h"
#include "cpu/sort/record.h"
#include "cpu/sort/rows.h"
#include "op/machine.h"

typedef struct SortPlan {
  int size;  // of a record; 0: there is no such plan
  int low;   // the lowest bit of the keys in their word
  int n_keys, n_fields;
  SortField *field;  // keys, then the other operands or the place
} SortPlan;

typedef struct SortKernel {
  CpuKernel kernel;
  int n;  // operands
  const HlDtype *dtype;
  int64_t length;  // of a row
  SortRows rows;   // in operands, then results
  SortPlan whole;
  SortPlan *placed;  // the one that decides least first
  int n_placed;
  unsigned fails;          // SORT_SAW_*: rows with one of these are merged
  const Machine *machine;  // the comparator; NULL: not needed
  MachineKey key;          // what it makes of each element, where has_key: then a placed plan has these for keys
  bool has_key;
  int size;  // bytes of the largest record and element
} SortKernel;

extern const CpuKernelKind cpu_kind_sort;
CpuKernel *sort_make(CpuMaker *maker, const HlInst *inst);

// Where and how a place lies in records of 8 and 16 bytes.
#define SORT_PLACE_FIELD {.form = SORT_PLACE, .parts = 1, .bytes = 4, .fresh = true}

#endif
