// support/cpu_check.c: runs one kernel of the CPU backend and compares it with the interpreter.

#include "support/cpu_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/emit/code.h"
#include "hilo/eval.h"
#include "hilo/op.h"
#include "hilo/text.h"
#include "hilo/tool.h"

// --- Layouts ------------------------------------------------------------------------------------

static void carry(HlArena *arena, const HlShape *shape, char *memory, char *dense, bool out) {
  const int64_t *by_layout = cpu_strides(arena, shape);
  int64_t *row_major = HL_ARRAY(arena, int64_t, shape->rank + 1);
  hl_strides(shape->rank, shape->dim, row_major);
  const int64_t *stride[] = {by_layout, row_major};
  const size_t size = (size_t)hl_dtype_bytes(shape->dtype);
  HlWalk walk = {0};
  for (hl_walk_start(&walk, arena, shape->rank, shape->dim, 2, stride); !walk.done;
       hl_walk_next(&walk)) {
    char *at = memory + (size_t)walk.offset[0] * size,
         *literal = dense + (size_t)walk.offset[1] * size;
    memcpy(out ? at : literal, out ? literal : at, size);
  }
}

void cpu_lay_out(HlArena *arena, const HlShape *shape, void *memory, const HlLiteral *literal) {
  carry(arena, shape, memory, literal->data, true);
}

void cpu_read_back(HlArena *arena, const HlShape *shape, HlLiteral *literal, const void *memory) {
  carry(arena, shape, (char *)memory, literal->data, false);
}

// --- One check ----------------------------------------------------------------------------------

typedef struct Bench {
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  HlLiteral **args;  // by parameter number
  HlLiteral *expected, *actual;
  void **buffer;
  int n_buffers;
  EmitMemory *code;
} Bench;

static char *complain(Bench *b, const char *what) {
  HlBuf out = {0};
  hl_buf_puts(&out, what);
  hl_buf_puts(&out, ": ");
  for (int k = 0; k < hl_cx_n_diags(b->cx); k++)
    hl_diag_render(hl_cx_diag(b->cx, k), false, &out);
  char *text = strdup(out.at);
  hl_buf_free(&out);
  return text;
}

static void *buffer_of(const HlShape *leaf) {
  const size_t bytes = ((size_t)cpu_bytes(leaf) + 127) & ~(size_t)63;
  void *at = aligned_alloc(64, bytes);
  memset(at, 0xa5, bytes);
  return at;
}

static HlLiteral *leaf_of(HlLiteral *literal, int *k) {
  if (!literal->element)
    return (*k)-- == 0 ? literal : NULL;
  for (int e = 0; e < literal->shape->rank; e++) {
    HlLiteral *found = leaf_of(literal->element[e], k);
    if (found)
      return found;
  }
  return NULL;
}

static void add_buffers(Bench *b, const HlShape *shape, const HlLiteral *value) {
  for (int k = 0; k < cpu_leaf_count(shape); k++) {
    const HlShape *leaf = cpu_leaf(shape, k);
    void *at = b->buffer[b->n_buffers++] = buffer_of(leaf);
    int number = k;
    if (value && hl_shape_is_array(leaf))
      cpu_lay_out(b->arena, leaf, at, leaf_of((HlLiteral *)value, &number));
  }
}

static void read_result(Bench *b, const HlShape *shape, int first) {
  b->actual = hl_literal_new(b->cx, shape);
  for (int k = 0; k < cpu_leaf_count(shape); k++) {
    int number = k;
    if (hl_shape_is_array(cpu_leaf(shape, k)))
      cpu_read_back(b->arena, cpu_leaf(shape, k), leaf_of(b->actual, &number),
                    b->buffer[first + k]);
  }
}

static char *compare(Bench *b, const CpuCheck *options) {
  if (options->tolerance < 0)
    return hl_literal_equal(b->actual, b->expected) ? NULL : complain(b, "bits differ");
  int n = 0, m = 0;
  const HlLiteral **actual = hl_flatten(b->arena, b->actual, &n),
                  **expected = hl_flatten(b->arena, b->expected, &m);
  HlCompareOptions how = {.tolerance = {options->tolerance > 0, options->tolerance}};
  HlMismatch *found = HL_ARRAY(b->arena, HlMismatch, n);
  if (hl_compare(b->cx, n, actual, expected, &how, found))
    return NULL;
  for (int k = 0; k < n; k++)
    if (!found[k].equal) {
      char *text = NULL;
      if (asprintf(&text, "result %d: %lld of %lld differ, worst at %lld: %.9g, expected %.9g", k,
                   (long long)found[k].n_different, (long long)found[k].n,
                   (long long)found[k].worst, found[k].actual, found[k].expected) < 0)
        return NULL;
      return text;
    }
  return complain(b, "cannot compare");
}

static char *run(Bench *b, const CpuCheck *options) {
  const HlInst *root = b->m->entry->root;
  CpuMaker maker = {.cx = b->cx,
                    .arena = b->arena,
                    .level = options->has_level ? options->level : cpu_level(),
                    .no_emit = options->no_emit,
                    .code = b->code,
                    .onednn = options->onednn};
  const CpuKernel *kernel = cpu_kernel_make(&maker, root);
  if (!kernel)
    return complain(b, "no kernel takes it");
  if (options->kind && strcmp(kernel->kind->name, options->kind) != 0)
    return complain(b, kernel->kind->name);
  int n = cpu_leaf_count(root->shape);
  for (uint32_t k = 0; k < root->n_operands; k++)
    n += cpu_leaf_count(root->operands[k]->shape);
  b->buffer = HL_ARRAY(b->arena, void *, n + 1);
  for (uint32_t k = 0; k < root->n_operands; k++) {
    const HlInst *operand = root->operands[k];
    add_buffers(b, operand->shape,
                operand->op == HL_OP_PARAMETER ? b->args[hl_parameter_number(operand)]
                                               : hl_constant(operand));
  }
  const int first = b->n_buffers;
  add_buffers(b, root->shape, NULL);
  CpuPool *pool = cpu_pool_new(options->threads ? options->threads : 2);
  CpuTeam *team = cpu_team_new(pool);
  const char *why = "failed";
  const bool ran = kernel->kind->run(kernel, team, b->buffer, &why);
  cpu_team_free(team);
  cpu_pool_free(pool);
  if (!ran)
    return complain(b, why);
  read_result(b, root->shape, first);
  return compare(b, options);
}

static char *check(Bench *b, const char *text, const CpuCheck *options) {
  b->m = hl_text_parse(b->cx, text);
  if (!b->m)
    return complain(b, "cannot be read");
  b->args = HL_ARRAY(b->arena, HlLiteral *, b->m->entry->n_params + 1);
  if (!(options->large ? hl_fake_large_args : hl_fake_args)(b->cx, b->m, options->seed, b->args))
    return complain(b, "no arguments");
  const HlLiteral *const *args = (const HlLiteral *const *)b->args;
  if (!hl_eval(b->cx, b->m, NULL, &args, &b->expected))
    return complain(b, "the interpreter fails");
  return run(b, options);
}

char *cpu_check(const char *text, const CpuCheck *options) {
  static const CpuCheck usual = {0};
  Bench b = {.cx = hl_cx_new(), .arena = hl_arena_new(), .code = emit_memory_new(0)};
  char *wrong = check(&b, text, options ? options : &usual);
  for (int k = 0; k < b.n_buffers; k++)
    free(b.buffer[k]);
  for (int k = 0; b.args && k < b.m->entry->n_params; k++)
    hl_literal_unref(b.args[k]);
  hl_literal_unref(b.expected);
  hl_literal_unref(b.actual);
  if (b.m)
    hl_module_free(b.m);
  hl_arena_free(b.arena);
  emit_memory_free(b.code);
  hl_cx_free(b.cx);
  return wrong;
}
