// Grids of devices: from and to shardings, transposes, projections, reshapes, common refinements, groups.

#include "../../src/spmd/tiles.h"

#include "hilo/edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define INTS(...) \
  ((HlI64s){(const int64_t[]){__VA_ARGS__}, HL_COUNT_OF(((const int64_t[]){__VA_ARGS__}))})

static int set_up(void **state) {
  *state = hl_module_new("m", NULL);
  return 0;
}

static int tear_down(void **state) {
  hl_module_free(*state);
  return 0;
}

// A mesh x=4, y=2: [4,1,2]<=[8] is {x}, {}; [1,2,4]<=[4,2]T(1,0) is {}, {y}.
static const HlTiles *make(HlModule *m, HlI64s tile, HlI64s dims, HlI64s perm, bool replicate) {
  const HlSharding sharding = {
      .kind = HL_SHARDING_TILED, .tile = tile, .iota = {dims, perm}, .replicate_last = replicate};
  const HlTiles *tiles = hl_tiles_of(m->arena, &sharding, tile.n - replicate, 8);
  assert_non_null(tiles);
  return tiles;
}

static const HlTiles *rows(HlModule *m) {
  return make(m, INTS(4, 1, 2), INTS(8), INTS(0), true);
}

static const HlTiles *columns(HlModule *m) {
  return make(m, INTS(1, 2, 4), INTS(4, 2), INTS(1, 0), true);
}

static void expect(HlModule *m, const HlTiles *tiles, const char *want) {
  HlBuf buf = {0};
  assert_non_null(tiles);
  hl_sharding_print(&buf, hl_tiles_sharding(m, tiles), false);
  assert_string_equal(buf.at, want);
  hl_buf_free(&buf);
}

static void shardings_come_back(void **state) {
  HlModule *m = *state;
  expect(m, rows(m), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  expect(m, columns(m), "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  expect(m, hl_tiles_replicated(m->arena, 2, 8), "{replicated}");
  expect(m, hl_tiles_manual(m->arena, 2, 8), "{manual}");
  expect(m, hl_tiles_maximal(m->arena, 2, 3), "{maximal device=3}");
  const int64_t parts[] = {4}, order[] = {0, 3, 1, 2};
  expect(m, hl_tiles_new(m->arena, 1, parts, 1, 1, 1, order), "{devices=[4]0,3,1,2}");
  const int64_t twice[] = {0, 1, 1, 2};
  assert_null(hl_tiles_new(m->arena, 1, parts, 1, 1, 1, twice));
}

static void dimensions_move(void **state) {
  HlModule *m = *state;
  const HlTiles *both = make(m, INTS(4, 2), INTS(8), INTS(0), false);
  expect(m, hl_tiles_transpose(m->arena, both, INTS(1, 0)), "{devices=[2,4]<=[4,2]T(1,0)}");
  const bool drop[] = {false, true};
  assert_true(hl_tiles_equal(hl_tiles_drop(m->arena, both, drop), rows(m)));
  assert_true(hl_tiles_equal(hl_tiles_only(m->arena, both, 1), columns(m)));
  const int from[] = {-1, 0, -1};
  expect(m, hl_tiles_map(m->arena, both, 3, from),
         "{devices=[1,4,1,2]<=[8] last_tile_dim_replicate}");
}

static void reshapes_keep_what_fits(void **state) {
  HlModule *m = *state;
  const HlShape *flat = hl_shape_array(m->shapes, HL_F32, 1, (int64_t[]){64});
  const HlShape *square = hl_shape_array(m->shapes, HL_F32, 2, (int64_t[]){8, 8});
  const HlShape *thin = hl_shape_array(m->shapes, HL_F32, 2, (int64_t[]){2, 32});
  bool whole;
  const HlTiles *line = make(m, INTS(8), INTS(8), INTS(0), false);
  expect(m, hl_tiles_reshape(m->arena, line, flat, thin, &whole), "{devices=[2,4]<=[8]}");
  assert_true(whole);
  const HlTiles *both = make(m, INTS(4, 2), INTS(8), INTS(0), false);
  expect(m, hl_tiles_reshape(m->arena, both, square, flat, &whole),
         "{devices=[4,2]<=[8] last_tile_dim_replicate}");
  assert_false(whole);
  const HlTiles *eight = make(m, INTS(8, 1), INTS(8), INTS(0), false);
  expect(m, hl_tiles_reshape(m->arena, eight, square, flat, &whole), "{devices=[8]<=[8]}");
  assert_true(whole);
}

static void shardings_refine(void **state) {
  HlModule *m = *state;
  const HlTiles *both = hl_tiles_merge(m->arena, rows(m), columns(m));
  expect(m, both, "{devices=[4,2]<=[8]}");
  assert_true(hl_tiles_refines(both, rows(m), NULL));
  assert_true(hl_tiles_refines(both, columns(m), NULL));
  assert_false(hl_tiles_refines(rows(m), both, NULL));
  const HlTiles *x_below = make(m, INTS(1, 4, 2), INTS(8), INTS(0), true);
  assert_null(hl_tiles_merge(m->arena, rows(m), x_below));
}

static void devices_have_tiles(void **state) {
  HlModule *m = *state;
  int64_t start, length;
  hl_tiles_range(rows(m), 7, 0, 10, &start, &length);
  assert_int_equal(start, 9);
  assert_int_equal(length, 1);
  hl_tiles_range(rows(m), 2, 0, 10, &start, &length);
  assert_int_equal(start, 3);
  assert_int_equal(length, 3);
  const HlTiles *both = make(m, INTS(4, 2), INTS(8), INTS(0), false);
  const bool along[] = {true, false, false, false, false};
  const HlI64Lists groups = hl_tiles_groups(m->arena, both, along);
  assert_int_equal(groups.n, 2);
  assert_true(hl_i64s_equal(groups.at[0], INTS(0, 2, 4, 6)));
  assert_true(hl_i64s_equal(groups.at[1], INTS(1, 3, 5, 7)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shardings_come_back), cmocka_unit_test(dimensions_move),
      cmocka_unit_test(reshapes_keep_what_fits), cmocka_unit_test(shardings_refine),
      cmocka_unit_test(devices_have_tiles)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
