// cpu/program/result.c: memory of results that are handed out as literals.
//
// A fresh page costs more than what most steps do with it (cpu/pool/alloc.h), so what a caller has let go of is the next run's
// result. Callers hold literals for as long as they like, also when the program has gone: who comes last frees all.
//
//   [ Head | elements ]     a block: literals know no more than where their elements are

#include <assert.h>

#include "base/memory.h"
#include "cpu/program/program.h"

enum { HEAD = 64 };  // what elements are aligned to

struct CpuResults {
  CpuAlloc *alloc;
  int refs;   // of the program and of literals
  bool ends;  // the program has gone: nothing is kept
};

typedef struct Head {
  CpuResults *results;
} Head;
static_assert(sizeof(Head) <= HEAD, "elements are behind it");

static Head *head_of(void *data) {
  return (Head *)(void *)((char *)data - HEAD);
}

static void unref(CpuResults *results) {
  if (__atomic_sub_fetch(&results->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  cpu_alloc_free(results->alloc);
  cpu_block_free(results, sizeof *results);
}

// What two runs make is kept: a caller may hold one result while it asks for the next.
CpuResults *cpu_results_new(int64_t bytes) {
  CpuResults *results = cpu_block_new(sizeof *results);
  CpuAlloc *alloc = results ? cpu_alloc_new(2 * (size_t)bytes) : NULL;
  if (!alloc) {
    cpu_block_free(results, sizeof *results);
    return NULL;
  }
  *results = (CpuResults){.alloc = alloc, .refs = 1};
  return results;
}

void cpu_results_free(CpuResults *results) {
  if (!results)
    return;
  __atomic_store_n(&results->ends, true, __ATOMIC_RELEASE);
  cpu_alloc_trim(results->alloc, 0);
  unref(results);
}

CpuAlloc *cpu_results_alloc(CpuResults *results) {
  return results->alloc;
}

static void let_go(void *data, int64_t bytes) {
  CpuResults *results = head_of(data)->results;
  cpu_alloc_put(results->alloc, head_of(data), HEAD + (size_t)bytes);
  if (__atomic_load_n(&results->ends, __ATOMIC_ACQUIRE))
    cpu_alloc_trim(results->alloc, 0);
  unref(results);
}

static HlLiteral *large_array(HlCx *cx, CpuResults *results, const HlShape *shape) {
  HlLiteral *literal = hl_literal_borrow(cx, shape, NULL);
  Head *head = literal ? cpu_alloc_get(results->alloc, HEAD + (size_t)cpu_bytes(shape)) : NULL;
  if (literal && !head) {
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "no memory for a result of shape %s",
                  hl_shape_text(cx, shape));
    hl_literal_unref(literal);
    return NULL;
  }
  if (!literal)
    return NULL;
  head->results = results;
  __atomic_add_fetch(&results->refs, 1, __ATOMIC_RELAXED);
  hl_literal_adopt(literal, (char *)head + HEAD, let_go);
  return literal;
}

HlLiteral *cpu_results_get(HlCx *cx, CpuResults *results, const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return results && hl_is_array_dtype(shape->dtype) && cpu_bytes(shape) >= CPU_LARGE_RESULT
               ? large_array(cx, results, shape)
               : hl_literal_new(cx, shape);
  if (!results)
    return hl_literal_new(cx, shape);
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  HlLiteral **element = HL_ARRAY(scratch, HlLiteral *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = cpu_results_get(cx, results, shape->element[k]);
  HlLiteral *tuple = cpu_tuple(cx, element, shape->rank);
  hl_arena_release(scratch, mark);
  return tuple;
}
