// cpu/tile/print.c: a tile program for people.

#include "cpu/tile/tile.h"

#include <string.h>

static void put_sum(HlBuf *out, const TileSum *sum) {
  if (sum->den != 1)
    hl_buf_puts(out, "(");
  hl_buf_printf(out, "%lld", (long long)sum->c);
  for (int k = 0; k < sum->n; k++)
    hl_buf_printf(out, " + %lld i%d", (long long)sum->term[k].k, sum->term[k].var);
  if (sum->den != 1)
    hl_buf_printf(out, ") / %lld", (long long)sum->den);
}

static void put_access(HlBuf *out, const TileAccess *a) {
  hl_buf_printf(out, "%s b%d[", hl_dtype_text(a->dtype), a->buffer);
  put_sum(out, &a->sum);
  for (int k = 0; k < a->n_index; k++)
    hl_buf_printf(out, " + %lld v%d", (long long)a->index[k].k, a->index[k].value);
  hl_buf_puts(out, "]");
  if (a->row_step != 0)
    hl_buf_printf(out, " rows by %lld", (long long)a->row_step);
  if (a->column_step != 0)
    hl_buf_printf(out, " by %lld", (long long)a->column_step);
  hl_buf_puts(out, a->direct ? " in memory" : a->by_row ? " by rows" : a->turned ? " turned" : "");
}

static void put_name(HlBuf *out, const TileOp *op) {
  if (op->rounds)
    hl_buf_printf(out, "round to %s", hl_dtype_text(op->dtype));
  else if (op->vec == VEC_OP_COUNT)
    hl_buf_printf(out, "convert %s to %s", hl_dtype_text(op->from), hl_dtype_text(op->dtype));
  else
    hl_buf_puts(out, vec_info[op->vec].text);
}

static void put_block(HlBuf *out, const TileNest *nest, const TileBlock *b, int indent);

static void put_values(HlBuf *out, const TileNest *nest, const TileOp *op) {
  for (int k = 0; k < op->n_in; k++) {
    const TileValue *v = &nest->value[op->in[k]];
    hl_buf_printf(out, v->is_const ? "%s#%llx" : "%sv%llu", k > 0 ? ", " : " ",
                  v->is_const ? (unsigned long long)v->bits : (unsigned long long)op->in[k]);
    if (op->kind == TILE_CHOOSE)
      hl_buf_printf(out, " in s%d", op->scopes[k]);
  }
}

static void put_text(HlBuf *out, const char *text, int indent) {
  for (const char *end; text && *text; text = end + 1) {
    end = strchr(text, '\n');
    hl_buf_printf(out, "%*s%.*s\n", indent, "", (int)(end - text), text);
  }
}

static void put_op(HlBuf *out, const TileNest *nest, const TileOp *op, int indent) {
  hl_buf_printf(out, "%*s", indent, "");
  if (op->kind == TILE_REDUCE) {
    put_block(out, nest, op->block, indent);
    return;
  }
  if (op->kind == TILE_SEGMENT) {
    hl_buf_puts(out, "segment\n");
    for (int k = 0; k < op->segment->n_ops; k++)
      put_op(out, nest, &op->segment->op[k], indent + 2);
    put_text(out, op->segment->text, indent + 2);
    return;
  }
  if (op->out >= 0) {
    const TileValue *v = &nest->value[op->out];
    hl_buf_printf(out, "v%d%s: %s = ", op->out, v->is_row ? "" : " (one)", hl_dtype_text(v->dtype));
  }
  switch (op->kind) {
  case TILE_LOAD:
    hl_buf_puts(out, "load ");
    put_access(out, &op->access);
    break;
  case TILE_STORE:
  case TILE_UPDATE:
    hl_buf_puts(out, op->kind == TILE_STORE ? "store" : op->fn ? vec_info[op->vec].text : "put");
    put_values(out, nest, op);
    hl_buf_puts(out, " to ");
    put_access(out, &op->access);
    hl_buf_puts(out, op->aimed ? ", at once" : "");
    break;
  case TILE_IOTA:
    hl_buf_puts(out, "iota ");
    put_sum(out, &op->access.sum);
    hl_buf_printf(out, " by %lld", (long long)op->access.column_step);
    break;
  case TILE_VEC:
    put_name(out, op);
    put_values(out, nest, op);
    break;
  case TILE_PACK:
  case TILE_UNPACK:
  case TILE_SAME:
  case TILE_LINE:
  case TILE_CHOOSE: {
    static const char *const name[] = {[TILE_PACK] = "pack",
                                       [TILE_UNPACK] = "unpack",
                                       [TILE_SAME] = "same",
                                       [TILE_LINE] = "line",
                                       [TILE_CHOOSE] = "choose"};
    hl_buf_puts(out, name[op->kind]);
    put_values(out, nest, op);
    break;
  }
  case TILE_SCOPE: {
    const TileScope *scope = &nest->scope[op->scope];
    hl_buf_printf(out, "s%d: s%d", op->scope, scope->parent);
    for (int k = 0; k < scope->n_bounds; k++) {
      hl_buf_puts(out, ", 0 <= ");
      put_sum(out, &scope->bound[k].sum);
      hl_buf_printf(out, " < %lld", (long long)scope->bound[k].n);
    }
    break;
  }
  case TILE_INDEX: hl_buf_printf(out, "i%d = v%d", op->var, op->in[0]); break;
  default: break;
  }
  if (op->scope > 0 && op->kind != TILE_SCOPE)
    hl_buf_printf(out, " in s%d", op->scope);
  hl_buf_puts(out, "\n");
}

static void put_ops(HlBuf *out, const TileNest *nest, const TileOps *ops, int indent) {
  for (int k = 0; k < ops->n; k++)
    put_op(out, nest, &ops->at[k], indent);
}

static void put_block(HlBuf *out, const TileNest *nest, const TileBlock *b, int indent) {
  static const char *const fold[] = {"tiles", "a row, by vectors", "a row, by lanes"};
  if (b->n_acc > 0)
    hl_buf_printf(out, "fold %s\n", b->fold_rows ? "rows of memory" : fold[b->fold]);
  for (int k = 0; k < b->n_acc; k++)
    hl_buf_printf(out, "%*sv%d from v%d, with v%d to v%d: v%d\n", indent + 2, "", b->acc[k].acc,
                  b->acc[k].init, b->acc[k].x, b->acc[k].next, b->acc[k].result);
  put_ops(out, nest, &b->level[0], indent + 2);
  for (int k = 0; k < b->n_loops; k++) {
    indent += 2;
    hl_buf_printf(out, "%*si%d < %lld\n", indent, "", b->loop[k],
                  (long long)nest->extent[b->loop[k]]);
    put_ops(out, nest, &b->level[k + 1], indent + 2);
  }
  indent += 2;
  if (b->row_var >= 0)
    hl_buf_printf(out, "%*srows i%d < %lld, %lld a tile\n", indent, "", b->row_var,
                  (long long)nest->extent[b->row_var], (long long)b->rows);
  if (b->column_var >= 0)
    hl_buf_printf(out, "%*srow i%d < %lld, %lld a tile\n", indent, "", b->column_var,
                  (long long)nest->extent[b->column_var], (long long)b->columns);
  if (b->head.n > 0) {
    hl_buf_printf(out, "%*shead\n", indent + 2, "");
    put_ops(out, nest, &b->head, indent + 4);
  }
  put_ops(out, nest, &b->tile, indent + 2);
  if (b->fold != TILE_FOLD_VEC)
    put_ops(out, nest, &b->step, indent + 2);
}

void tile_print(HlBuf *out, const CpuKernel *kernel) {
  const TileProgram *p = (const TileProgram *)(const void *)kernel;
  for (int k = 0; k < p->n_nests; k++) {
    const TileNest *nest = &p->nest[k];
    hl_buf_printf(out, "nest %d: %lld units, %lld a chunk\n", k, (long long)nest->units,
                  (long long)nest->chunk);
    if (nest->copy_to >= 0)
      hl_buf_printf(out, "  first b%d to b%d\n", nest->copy_from, nest->copy_to);
    if (nest->units > 0)
      put_block(out, nest, &nest->grid, 0);
  }
}
