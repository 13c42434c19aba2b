// spmd/partition_far.c: stretches of an array that lie tiles away from those who want them.
//
// Each tile's window is taken apart where tiles meet and where the array ends: into pieces of other tiles, of its own, and of
// padding. Pieces travel in as few permutes as there are pieces of one tile at most, in each of which a tile sends one
// piece and gets one; all slice the same range out of their tiles. What comes k-th in a window is then the k-th piece, selected by
// a table of which permute brought it:
//
//   tiles of 1, windows of 3 two apart     tile 0 wants 0 1 2, tile 1 wants 2 3 4, tile 2 wants 4 5 6
//   permute a: 1->0 2->1 4->2              pieces: own or a, a or b, b or c
//   permute b: 2->0 3->1 5->2
//   permute c: 4->1 6->2
#include <string.h>

#include "base/vec.h"
#include "spmd/partition.h"

enum { OWN = -1, PADDING = -2, NONE = -3 };

typedef struct Piece {
  int64_t at;          // where in the window it begins
  int64_t first, end;  // of its tile, or as many elements of padding
  int64_t from;        // which tile; OWN and PADDING say so by `by`
  int64_t by;          // which permute brings it, or OWN, PADDING
} Piece;

typedef VEC(Piece) Pieces;

typedef struct Message {
  int64_t first, end;  // of the sender's tile
  int64_t *to;         // by tile; -1: it sends nothing
} Message;

struct PartFar {
  int64_t size;  // what is beyond nobody reads
  int64_t parts, tile, length;
  Pieces *window;  // by tile
  Message *message;
  int n_messages, n_pieces;  // pieces: of the window that has most
};

static int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// --- Pieces ---------------------------------------------------------------------------------------

static Pieces pieces_of(Part *pt, const PartFar *far, int64_t tile, int64_t begin) {
  const int64_t end = begin + far->length;
  Pieces out = {0};
  for (int64_t at = begin; at < end;) {
    const int64_t first = at % far->tile + (at % far->tile < 0 ? far->tile : 0);
    Piece p = {.at = at - begin, .first = first, .by = PADDING};
    int64_t n = end - at;
    if (at < 0) {
      n = at_most(n, -at);
    } else if (at < far->size) {
      n = at_most(n, far->tile - first);
      p.from = at / far->tile;
      p.by = p.from == tile ? OWN : NONE;
    }
    p.end = first + n;
    at += n;
    vec_push_in(pt->arena, &out, p);
  }
  return out;
}

// Beside pieces of tiles padding is no longer than those. What is left of it when there are none any more is one piece.
static void split_padding(Part *pt, PartFar *far) {
  const int64_t parts = far->parts;
  Pieces *split = HL_ARRAY(pt->arena, Pieces, parts + 1);
  int *next = HL_ARRAY(pt->arena, int, parts + 1);
  for (;;) {
    bool all_padding = true, any = false;
    for (int64_t i = 0; i < parts; i++)
      if (next[i] < far->window[i].n) {
        any = true;
        all_padding = all_padding && far->window[i].at[next[i]].by == PADDING;
      }
    if (!any)
      break;
    for (int64_t i = 0; i < parts; i++) {
      if (next[i] >= far->window[i].n)
        continue;
      Piece *p = &far->window[i].at[next[i]];
      vec_push_in(pt->arena, &split[i], *p);
      if (all_padding || p->by != PADDING || p->end <= far->tile) {
        next[i]++;
        continue;
      }
      vec_last(&split[i]).end = far->tile;
      p->first = 0;
      p->end -= far->tile;
    }
  }
  far->window = split;
}

// --- Messages -------------------------------------------------------------------------------------

// What a tile sends, in the order in which windows want it.
static Piece **wanted_of(Part *pt, const PartFar *far, int64_t tile, int64_t most, int64_t *who,
                         int *n) {
  Piece **out = HL_ARRAY(pt->arena, Piece *, most + 1);
  *n = 0;
  for (int k = 0; k < far->n_pieces; k++)
    for (int64_t i = 0; i < far->parts; i++) {
      Piece *p = k < far->window[i].n ? &far->window[i].at[k] : NULL;
      if (!p || p->by != NONE || p->from != tile)
        continue;
      int at = (*n)++;
      for (; at > 0 && out[at - 1]->at > p->at; at--) {
        out[at] = out[at - 1];
        who[at] = who[at - 1];
      }
      out[at] = p;
      who[at] = i;
    }
  return out;
}

// The beginning of a tile and the end of one do not travel together.
static bool lie_apart(const Message *m, const Piece *p, int64_t tile) {
  return (m->first > p->end && m->end == tile && p->first == 0) ||
         (m->end < p->first && m->first == 0 && p->end == tile);
}

static void find_messages(Part *pt, PartFar *far) {
  const int64_t parts = far->parts;
  Piece ***wanted = HL_ARRAY(pt->arena, Piece **, parts + 1);
  int64_t **who = HL_ARRAY(pt->arena, int64_t *, parts + 1), n_all = 0;
  int *n = HL_ARRAY(pt->arena, int, parts + 1), *next = HL_ARRAY(pt->arena, int, parts + 1);
  for (int64_t i = 0; i < parts; i++) {
    n_all += far->window[i].n;
    far->n_pieces = (int)at_least(far->n_pieces, far->window[i].n);
  }
  for (int64_t i = 0; i < parts; i++) {
    who[i] = HL_ARRAY(pt->arena, int64_t, n_all + 1);
    wanted[i] = wanted_of(pt, far, i, n_all, who[i], &n[i]);
  }
  far->message = HL_ARRAY(pt->arena, Message, n_all + 1);
  for (;;) {
    Message *m = &far->message[far->n_messages];
    *m = (Message){far->tile, 0, HL_ARRAY(pt->arena, int64_t, parts + 1)};
    bool *gets = HL_ARRAY(pt->arena, bool, parts + 1), any = false;
    for (int64_t i = 0; i < parts; i++) {
      m->to[i] = -1;
      if (next[i] == n[i])
        continue;
      Piece *p = wanted[i][next[i]];
      if (any && (gets[who[i][next[i]]] || lie_apart(m, p, far->tile)))
        continue;
      p->by = far->n_messages;
      m->to[i] = who[i][next[i]++];
      gets[m->to[i]] = any = true;
      m->first = at_most(m->first, p->first);
      m->end = at_least(m->end, p->end);
    }
    if (!any)
      return;
    far->n_messages++;
  }
}

PartFar *part_far(Part *pt, int64_t size, int64_t end, int64_t parts, PartReach reach) {
  PartFar *far = HL_NEW(pt->arena, PartFar);
  *far = (PartFar){.size = end,
                   .parts = parts,
                   .tile = hl_tile_size(size, parts),
                   .length = reach.length,
                   .window = HL_ARRAY(pt->arena, Pieces, parts + 1)};
  for (int64_t i = 0; i < parts; i++)
    far->window[i] = pieces_of(pt, far, i, reach.start + i * reach.step);
  split_padding(pt, far);
  find_messages(pt, far);
  return far;
}

void part_far_cost(const PartFar *far, int64_t *messages, int64_t *elements) {
  *messages = far->n_messages;
  *elements = 0;
  for (int k = 0; k < far->n_messages; k++)
    *elements += far->message[k].end - far->message[k].first;
}

// --- Instructions ---------------------------------------------------------------------------------

// Lines of devices along the dimension, one after the other.
static HlInst *send(PartComp *c, HlInst *x, const HlTiles *t, int dim, const Message *m) {
  int64_t inner = t->manual * t->unreduced * t->replicas, n = 0;
  for (int k = dim + 1; k < t->rank; k++)
    inner *= t->parts[k];
  int64_t *source = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *target = HL_ARRAY(c->pt->arena, int64_t, t->n);
  for (int64_t place = 0; place < t->n; place++)
    for (int64_t k = 0; place / inner % t->parts[dim] == 0 && k < t->parts[dim]; k++)
      if (m->to[k] >= 0) {
        source[n] = t->device[place + k * inner];
        target[n++] = t->device[place + m->to[k] * inner];
      }
  if (m->end - m->first < x->shape->dim[dim])
    x = hl_b_slice_dim(&c->b, x, dim, m->first, m->end);
  return part_permute(c, x, (int)n, source, target);
}

// Padded to a length, at the front or at the end.
static HlInst *padded(PartComp *c, HlInst *x, int dim, int64_t length, bool in_front,
                      HlInst *value) {
  if (!x || x->shape->dim[dim] >= length)
    return x;
  int64_t *low = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank),
          *high = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank);
  (in_front ? low : high)[dim] = length - x->shape->dim[dim];
  return hl_b_pad(&c->b, x, value, low, high, NULL);
}

// What stands k-th in the windows.
typedef struct Column {
  int64_t length;  // of the longest of them
  int64_t own;     // where in its own tile a device's begins
} Column;

static int64_t length_of(const PartFar *far, const Piece *p) {
  return p->by >= 0 ? far->message[p->by].end - far->message[p->by].first : p->end - p->first;
}

static Column column_of(const PartFar *far, int k) {
  Column col = {0};
  int64_t first = far->tile, end = 0;
  for (int64_t i = 0; i < far->parts; i++) {
    const Piece *p = k < far->window[i].n ? &far->window[i].at[k] : NULL;
    if (p && p->by == OWN) {
      first = at_most(first, p->first);
      end = at_least(end, p->end);
      col.length = at_least(col.length, end - first);
    } else if (p) {
      col.length = at_least(col.length, length_of(far, p));
    }
  }
  col.own = at_least(first - (col.length - (end - first)), 0);
  return col;
}

// The column's pieces, each selected where it is wanted. Padding is overwritten later.
static HlInst *column(PartComp *c, const PartFar *far, HlInst *x, HlInst *const *sent,
                      const HlTiles *t, int dim, int k, HlInst *value) {
  const Column col = column_of(far, k);
  const int n_kinds = far->n_messages + 2;  // permutes, own, padding
  int *seen = HL_ARRAY(c->pt->arena, int, n_kinds);
  int64_t *which = HL_ARRAY(c->pt->arena, int64_t, far->parts + 1);
  HlInst **piece = HL_ARRAY(c->pt->arena, HlInst *, n_kinds);
  int n = 0;
  for (int64_t i = 0; i < far->parts; i++) {
    const int64_t by = k < far->window[i].n ? far->window[i].at[k].by : PADDING;
    const int64_t kind = by >= 0 ? by : by == OWN ? far->n_messages : far->n_messages + 1;
    if (seen[kind]) {
      which[i] = seen[kind] - 1;
      continue;
    }
    if (by >= 0)
      piece[n] = sent[by];
    else if (by == OWN && col.length < far->tile)
      piece[n] = hl_b_slice_dim(&c->b, x, dim, col.own, col.own + col.length);
    else if (by == OWN)
      piece[n] = x;
    if (by != PADDING)
      piece[n] = padded(c, piece[n], dim, col.length, k == 0, value);
    if (by != PADDING && !piece[n])
      return NULL;
    which[i] = n;
    seen[kind] = ++n;
  }
  int first = 0;
  while (first < n && !piece[first])
    first++;
  HlInst *all = first < n ? piece[first] : NULL, *table = NULL;
  if (!all) {
    int64_t *size = hl_arena_copy(c->pt->arena, x->shape->dim, sizeof *size * (size_t)t->rank);
    size[dim] = col.length;
    return hl_b_broadcast(&c->b, value, t->rank, size, (HlI64s){0});
  }
  for (int j = first + 1; j < n; j++) {
    if (!piece[j])
      continue;
    table = table
                ? table
                : part_entry(c, part_table(c, HL_S32, which, far->parts), part_ordinal(c, t, dim));
    HlInst *here = hl_b_compare(&c->b, HL_WORD_direction_EQ, table, part_scalar_index(c, j));
    all = hl_b_select(&c->b, here, piece[j], all);
  }
  return all;
}

static HlInst *by_tile(PartComp *c, const PartFar *far, const HlTiles *t, int dim,
                       const int64_t *value) {
  return part_entry(c, part_table(c, HL_S32, value, far->parts), part_ordinal(c, t, dim));
}

// Where each window begins in what is put together of columns, the first of which is so long.
static int64_t begin_of(const PartFar *far, int64_t tile, int64_t own, int64_t length) {
  const Piece *p = far->window[tile].n > 0 ? &far->window[tile].at[0] : NULL;
  if (!p)
    return 0;
  if (p->by >= 0) {
    const Message *m = &far->message[p->by];
    return p->first - m->first + length - (m->end - m->first);
  }
  return p->by == OWN ? p->first - own : length - (p->end - p->first);
}

// What is beyond the array's ends becomes `fill`.
static HlInst *filled(PartComp *c, const PartFar *far, HlInst *x, const HlTiles *t, int dim,
                      PartReach reach, HlInst *fill) {
  int64_t *low = HL_ARRAY(c->pt->arena, int64_t, far->parts + 1),
          *high = HL_ARRAY(c->pt->arena, int64_t, far->parts + 1);
  bool any_low = false;
  for (int64_t i = 0; i < far->parts; i++) {
    const Pieces *window = &far->window[i];
    for (int k = 0; k < window->n && window->at[k].by == PADDING; k++)
      low[i] += window->at[k].end - window->at[k].first;
    const int64_t beyond = reach.start + i * reach.step + far->length - far->size;
    high[i] = far->length - at_least(beyond, 0);
    any_low = any_low || low[i] > 0;
  }
  const HlShape *shape = hl_shape_array(c->pt->m->shapes, HL_S32, x->shape->rank, x->shape->dim);
  const HlAttr along = {.key = HL_A_IOTA_DIMENSION, .i = dim};
  HlInst *index = hl_b_op(&c->b, HL_OP_IOTA, shape, 0, NULL, 1, &along, 0, NULL);
  HlInst *bound = by_tile(c, far, t, dim, high);
  bound = bound ? hl_b_broadcast(&c->b, bound, shape->rank, shape->dim, (HlI64s){0}) : NULL;
  HlInst *in = hl_b_compare(&c->b, HL_WORD_direction_LT, index, bound);
  if (any_low) {
    bound = by_tile(c, far, t, dim, low);
    bound = bound ? hl_b_broadcast(&c->b, bound, shape->rank, shape->dim, (HlI64s){0}) : NULL;
    in = hl_b_binary(&c->b, HL_OP_AND, in, hl_b_compare(&c->b, HL_WORD_direction_GE, index, bound));
  }
  HlInst *value = hl_b_broadcast(&c->b, fill, shape->rank, shape->dim, (HlI64s){0});
  return hl_b_select(&c->b, in, x, value);
}

HlInst *part_far_window(PartComp *c, const PartFar *far, HlInst *x, const HlTiles *t, int dim,
                        PartReach reach, HlInst *fill) {
  HlInst *value = fill ? fill : hl_b_scalar_int(&c->b, x->shape->dtype, 0);
  HlInst **sent = HL_ARRAY(c->pt->arena, HlInst *, far->n_messages + 1),
         **piece = HL_ARRAY(c->pt->arena, HlInst *, far->n_pieces + 1);
  for (int k = 0; k < far->n_messages; k++)
    sent[k] = send(c, x, t, dim, &far->message[k]);
  for (int k = 0; k < far->n_pieces; k++) {
    piece[k] = column(c, far, x, sent, t, dim, k, value);
    if (!piece[k])
      return NULL;
  }
  HlInst *all = far->n_pieces == 1 ? piece[0] : hl_b_concatenate(&c->b, far->n_pieces, piece, dim);
  int64_t *begin = HL_ARRAY(c->pt->arena, int64_t, far->parts + 1);
  int64_t needed = all ? all->shape->dim[dim] : 0;
  const Column first = column_of(far, 0);
  for (int64_t i = 0; i < far->parts; i++) {
    begin[i] = begin_of(far, i, first.own, first.length);
    needed = at_least(needed, begin[i] + far->length);
  }
  all = padded(c, all, dim, needed, false, value);
  if (all && all->shape->dim[dim] > far->length) {
    HlInst **start = HL_ARRAY(c->pt->arena, HlInst *, t->rank + 1);
    int64_t *size = hl_arena_copy(c->pt->arena, all->shape->dim, sizeof *size * (size_t)t->rank);
    size[dim] = far->length;
    for (int k = 0; k < t->rank; k++)
      start[k] = k == dim ? by_tile(c, far, t, dim, begin) : part_scalar_index(c, 0);
    all = hl_b_dynamic_slice(&c->b, all, start, size);
  }
  return all && fill ? filled(c, far, all, t, dim, reach, fill) : all;
}
