// cpu/tile/program.c: nests put together: their buffers are numbered, and what each reads and writes is noted.

#include "cpu/tile/build.h"

// Constants and temporaries are numbered behind the kernel's own buffers.
static int number_of(const Lower *l, int buffer) {
  return buffer >= TILE_TEMPS       ? buffer - TILE_TEMPS + l->n_outer + l->literal.n
         : buffer >= TILE_CONSTANTS ? buffer - TILE_CONSTANTS + l->n_outer
                                    : buffer;
}

static void number_block(const Lower *l, TileNest *nest, const TileBlock *block);

static void number_access(const Lower *l, TileAccess *access, TileBuffers *touched) {
  access->buffer = number_of(l, access->buffer);
  touched->word[access->buffer / 64] |= UINT64_C(1) << access->buffer % 64;
}

static void number_ops(const Lower *l, TileNest *nest, const TileOps *ops) {
  for (int k = 0; k < ops->n; k++) {
    TileOp *op = &ops->at[k];
    if (op->kind == TILE_LOAD)
      number_access(l, &op->access, &nest->reads);
    if (op->kind == TILE_STORE || op->kind == TILE_UPDATE)
      number_access(l, &op->access, &nest->writes);
    if (op->aim)
      number_access(l, op->aim, &nest->writes);
    if (op->kind == TILE_REDUCE)
      number_block(l, nest, op->block);
  }
}

static void number_block(const Lower *l, TileNest *nest, const TileBlock *block) {
  for (int k = 0; block->level && k <= block->n_loops; k++)
    number_ops(l, nest, &block->level[k]);
  number_ops(l, nest, &block->tile);
  number_ops(l, nest, &block->step);
}

static void number_nest(const Lower *l, TileNest *nest) {
  number_block(l, nest, &nest->grid);
  if (nest->copy_to < 0)
    return;
  nest->reads.word[nest->copy_from / 64] |= UINT64_C(1) << nest->copy_from % 64;
  nest->writes.word[nest->copy_to / 64] |= UINT64_C(1) << nest->copy_to % 64;
}

void tile_finish_nests(Lower *l) {
  for (int n = 0; n < l->nest.n; n++) {
    number_nest(l, &l->nest.at[n]);
    tile_segments(l->maker, &l->nest.at[n]);
  }
}

TileProgram *tile_program(Lower *l, const HlInst *inst) {
  TileProgram *p = HL_NEW(l->maker->arena, TileProgram);
  const void **constant = HL_ARRAY(l->maker->arena, const void *, l->literal.n + 1);
  for (int k = 0; k < l->literal.n; k++)
    constant[k] = l->literal.at[k]->data;
  int64_t *temp = HL_ARRAY(l->maker->arena, int64_t, l->temp.n + 1);
  for (int k = 0; k < l->temp.n; k++)
    temp[k] = l->temp.at[k];
  *p = (TileProgram){.base = {.n_buffers = l->n_outer},
                     .n_buffers = l->n_outer + l->literal.n + l->temp.n,
                     .n_constants = l->literal.n,
                     .n_temps = l->temp.n,
                     .constant = constant,
                     .temp_bytes = temp,
                     .n_nests = l->nest.n,
                     .nest = l->nest.at};
  int64_t *bytes = HL_ARRAY(l->maker->arena, int64_t, l->n_outer + 1);
  int at = 0;
  for (uint32_t k = 0; k <= inst->n_operands; k++) {
    const HlShape *shape = k < inst->n_operands ? inst->operands[k]->shape : inst->shape;
    p->first_out = at;
    for (int leaf = 0; leaf < cpu_leaf_count(shape); leaf++)
      bytes[at++] = cpu_bytes(cpu_leaf(shape, leaf));
  }
  p->bytes = bytes;
  for (int n = 0; n < p->n_nests; n++)
    p->base.seconds += p->nest[n].seconds;
  tile_finish_nests(l);
  return p;
}
