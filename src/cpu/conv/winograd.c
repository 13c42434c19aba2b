// cpu/conv/winograd.c: convolves tile by tile.
//
// First the weights are transformed, into panels as the micro-kernels read them. A chunk is then a group of tiles and a box of columns;
// for each box of features it transforms what the tiles see, multiplies at each position, and adds. What it holds stays in
// the second cache.

#include <string.h>

#include "cpu/conv/winograd.h"

enum {
  FEATURE_BOX = 64,
  COLUMN_BOX = 128,
  GROUP = 4,           // times the places of a micro-kernel
  LEAST_TILES = 96,    // fewer are not worth transforming the weights
  LEAST_FEATURES = 32  // for as many columns: fewer are not worth transforming the tiles
};

static int64_t pieces(int64_t n, int64_t piece) {
  return (n + piece - 1) / piece;
}

static int64_t min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

const ConvWinograd *winograd_plan(const ConvKernel *c, HlArena *arena) {
  static const WinogradLevel *const levels[CPU_LEVELS] = SIMD_LEVELS(&winograd_level);
  const ConvPart *part = &c->part[0];
  if (c->x_dtype != HL_F32 || c->w_dtype != HL_F32 || c->y_dtype != HL_F32 || c->n_parts != 1 ||
      c->spatial != 2 || c->slices != 1 || c->across_groups || c->y_column != 1 ||
      c->x_stride[X_FEATURE] != 1)
    return NULL;
  for (int d = 0; d < 2; d++)
    if (part->sums[SUM_TAP + d] != WINOGRAD_TAPS || part->dim[d].stride != 1 ||
        part->dim[d].dilation != 1)
      return NULL;
  const int64_t high = pieces(part->places[PLACE_SPATIAL], WINOGRAD_OUT),
                wide = pieces(part->places[PLACE_SPATIAL + 1], WINOGRAD_OUT),
                tiles = part->places[PLACE_BATCH] * high * wide, features = part->sums[SUM_FEATURE];
  // What tiles that stick out cost must not eat up what is won.
  if (tiles < LEAST_TILES || features < LEAST_FEATURES || c->columns < LEAST_FEATURES ||
      features % 16 != 0 || c->columns % c->block != 0 ||
      tiles * 3 >
          part->places[PLACE_BATCH] * part->places[PLACE_SPATIAL] * part->places[PLACE_SPATIAL + 1])
    return NULL;
  ConvWinograd *w = HL_NEW(arena, ConvWinograd);
  *w = (ConvWinograd){.level = levels[c->simd],
                      .high = high,
                      .wide = wide,
                      .tiles = tiles,
                      .group = GROUP * c->level->rows,
                      .features = features,
                      .feature_boxes = pieces(features, FEATURE_BOX)};
  w->feature_box = pieces(pieces(features, w->feature_boxes), 16) * 16;
  w->column_box = pieces(pieces(c->columns, pieces(c->columns, COLUMN_BOX)), c->block) * c->block;
  return w;
}

// --- Weights ------------------------------------------------------------------------------------

typedef struct Run {
  const ConvKernel *c;
  const ConvWinograd *p;
  const float *x, *w;
  float *y;
  float *panels;  // [box of features][block of columns][position][feature][column]
} Run;

static float *panel_at(const Run *run, int64_t box, int64_t block, int position) {
  const ConvKernel *c = run->c;
  const int64_t blocks = c->columns / c->block;
  return run->panels +
         ((box * blocks + block) * WINOGRAD_PLACES + position) * run->p->feature_box * c->block;
}

static bool pack_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvKernel *c = run->c;
  const ConvWinograd *p = run->p;
  const ConvPart *part = &c->part[0];
  const int64_t blocks = c->columns / c->block, box = chunk / blocks, block = chunk % blocks,
                first = box * p->feature_box, n = min(p->feature_box, p->features - first);
  const float *from =
      run->w + part->w + first * part->w_step[SUM_FEATURE] + block * c->block * c->w_column;
  float *to = panel_at(run, box, block, 0);
  for (int64_t k = 0; k < n; k++)
    p->level->weights(c->block, from + k * part->w_step[SUM_FEATURE], part->w_step[SUM_TAP],
                      part->w_step[SUM_TAP + 1], c->w_column, to + k * c->block,
                      p->feature_box * c->block);
  return true;
}

// --- Tiles --------------------------------------------------------------------------------------

typedef struct Tiles {
  const Run *run;
  int64_t first, n;
  float *in, *products;    // [position][tile][feature or column]
  float *zeros, *nowhere;  // what is seen, and where is written, outside
  int64_t *row, *step, *to;
} Tiles;

typedef struct Tile {
  int64_t batch, at[2];  // its first place
} Tile;

static Tile tile_at(const ConvWinograd *p, int64_t k) {
  return (Tile){k / (p->high * p->wide),
                {k / p->wide % p->high * WINOGRAD_OUT, k % p->wide * WINOGRAD_OUT}};
}

static void turn_inputs(const Tiles *t, int64_t first_feature, int64_t n) {
  const ConvKernel *c = t->run->c;
  const ConvWinograd *p = t->run->p;
  const ConvPart *part = &c->part[0];
  for (int64_t k = 0; k < t->n; k++) {
    const Tile tile = tile_at(p, t->first + k);
    const float *in[WINOGRAD_PLACES],
        *batch = t->run->x + tile.batch * c->x_stride[X_BATCH] + first_feature;
    for (int i = 0; i < WINOGRAD_PLACES; i++) {
      const int64_t down = tile.at[0] + i / WINOGRAD_IN + part->dim[0].first,
                    across = tile.at[1] + i % WINOGRAD_IN + part->dim[1].first;
      const bool inside = down >= 0 && down < c->x_dim[X_SPATIAL] && across >= 0 &&
                          across < c->x_dim[X_SPATIAL + 1];
      in[i] = inside ? batch + down * c->x_stride[X_SPATIAL] + across * c->x_stride[X_SPATIAL + 1]
                     : t->zeros;
    }
    p->level->input(n, in, t->in + k * p->feature_box, p->group * p->feature_box);
  }
}

static void multiply(const Tiles *t, int64_t box, int64_t column, int64_t columns,
                     int64_t features) {
  const ConvKernel *c = t->run->c;
  const ConvWinograd *p = t->run->p;
  ConvPanel panel = {
      .row = t->row, .step = t->step, .to = t->to, .rows = t->n, .steps = features, .add = box > 0};
  for (int position = 0; position < WINOGRAD_PLACES; position++)
    for (int64_t k = 0; k < columns; k += c->block) {
      panel.x = t->in + position * p->group * p->feature_box;
      panel.w = panel_at(t->run, box, (column + k) / c->block, position);
      panel.y = t->products + position * p->group * p->column_box + k;
      c->level->panel[CONV_F32][false][c->vectors - 1](&panel);
    }
}

static void turn_outputs(const Tiles *t, int64_t column, int64_t columns) {
  const ConvKernel *c = t->run->c;
  const ConvWinograd *p = t->run->p;
  const ConvPart *part = &c->part[0];
  for (int64_t k = 0; k < t->n; k++) {
    const Tile tile = tile_at(p, t->first + k);
    float *out[WINOGRAD_OUT * WINOGRAD_OUT],
        *batch = t->run->y + part->y + tile.batch * part->y_step[PLACE_BATCH] + column;
    for (int i = 0; i < WINOGRAD_OUT * WINOGRAD_OUT; i++) {
      const int64_t down = tile.at[0] + i / WINOGRAD_OUT, across = tile.at[1] + i % WINOGRAD_OUT;
      const bool inside =
          down < part->places[PLACE_SPATIAL] && across < part->places[PLACE_SPATIAL + 1];
      out[i] = inside ? batch + down * part->y_step[PLACE_SPATIAL] +
                            across * part->y_step[PLACE_SPATIAL + 1]
                      : t->nowhere;
    }
    p->level->output(columns, t->products + k * p->column_box, p->group * p->column_box, out);
  }
}

static bool set_scratch(Tiles *t, CpuMember *member) {
  const ConvWinograd *p = t->run->p;
  const size_t in = (size_t)(WINOGRAD_PLACES * p->group * p->feature_box),
               zeros = (size_t)p->feature_box,
               products = (size_t)(WINOGRAD_PLACES * p->group * p->column_box),
               nowhere = (size_t)p->column_box;
  const size_t offsets = (size_t)(2 * p->group + p->feature_box);
  float *scratch =
      cpu_scratch(member, (in + zeros + products + nowhere) * sizeof(float) + offsets * 8);
  if (!scratch)
    return false;
  t->in = scratch;
  t->zeros = t->in + in;
  t->products = t->zeros + zeros;
  t->nowhere = t->products + products;
  t->row = (int64_t *)(t->nowhere + nowhere);
  t->to = t->row + p->group;
  t->step = t->to + p->group;
  memset(t->zeros, 0, zeros * sizeof(float));
  for (int64_t k = 0; k < p->group; k++) {
    t->row[k] = k * p->feature_box;
    t->to[k] = k * p->column_box;
  }
  for (int64_t k = 0; k < p->feature_box; k++)
    t->step[k] = k;
  return true;
}

static bool tiles_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const ConvWinograd *p = run->p;
  const int64_t groups = pieces(p->tiles, p->group), column = chunk / groups * p->column_box,
                columns = min(p->column_box, run->c->columns - column);
  Tiles t = {.run = run, .first = chunk % groups * p->group};
  t.n = min(p->group, p->tiles - t.first);
  if (!set_scratch(&t, member))
    return false;
  for (int64_t box = 0; box < p->feature_boxes; box++) {
    const int64_t first = box * p->feature_box, n = min(p->feature_box, p->features - first);
    turn_inputs(&t, first, n);
    multiply(&t, box, column, columns, n);
  }
  turn_outputs(&t, column, columns);
  return true;
}

bool winograd_run(const ConvKernel *c, CpuTeam *team, const float *x, const float *w, float *y) {
  const ConvWinograd *p = c->winograd;
  const int64_t blocks = c->columns / c->block, packs = p->feature_boxes * blocks;
  const size_t bytes =
      (size_t)(packs * WINOGRAD_PLACES * p->feature_box * c->block) * sizeof(float);
  Run run = {.c = c, .p = p, .x = x, .w = w, .y = y, .panels = cpu_team_scratch(team, bytes)};
  const double second = 1e-9;  // of a transformed weight
  return run.panels &&
         cpu_parallel(team, packs, (double)bytes / sizeof(float) * second, pack_chunk, &run) &&
         cpu_parallel(team, pieces(p->tiles, p->group) * pieces(c->columns, p->column_box),
                      c->kernel.seconds, tiles_chunk, &run);
}
