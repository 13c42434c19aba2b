// Shardings: canonical form and text (hlo.md 1.7), replica groups as lists.

#include "hilo/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define INTS(...) \
  ((HlI64s){(const int64_t[]){__VA_ARGS__}, HL_COUNT_OF(((const int64_t[]){__VA_ARGS__}))})

enum {
  MAXIMAL = HL_SHARDING_MAXIMAL,
  REPLICATED = HL_SHARDING_REPLICATED,
  MANUAL = HL_SHARDING_MANUAL,
  UNREDUCED = HL_SHARDING_UNREDUCED
};

static int set_up(void **state) {
  *state = hl_arena_new();
  return 0;
}

static int tear_down(void **state) {
  hl_arena_free(*state);
  return 0;
}

static void expect(HlArena *arena, const HlSharding *sharding, const char *want) {
  HlBuf buf = {0};
  const HlSharding *canonical = hl_sharding_canonical(arena, sharding);
  hl_sharding_print(&buf, canonical, true);
  assert_string_equal(buf.at, want);
  assert_true(hl_sharding_equal(canonical, canonical));
  hl_buf_free(&buf);
}

static HlSharding tiled(HlI64s tile, HlI64s dims, HlI64s perm) {
  return (HlSharding){.kind = HL_SHARDING_TILED, .tile = tile, .iota = {dims, perm}};
}

static void iotas_simplify(void **state) {
  const struct {
    HlI64s tile, dims, perm;
    const char *want;
  } cases[] = {{INTS(2, 4), INTS(2, 1, 4), INTS(0, 1, 2), "{devices=[2,4]<=[8]}"},
               {INTS(4, 2), INTS(2, 2, 2), INTS(2, 0, 1), "{devices=[4,2]<=[4,2]T(1,0)}"},
               {INTS(1, 1), INTS(1, 1), INTS(1, 0), "{devices=[1,1]<=[1]}"},
               {INTS(3, 20), INTS(1, 3, 1, 4, 1, 5), INTS(4, 3, 2, 5, 1, 0),
                "{devices=[3,20]<=[3,20]T(1,0)}"},
               {INTS(2, 2, 2), INTS(2, 4), INTS(1, 0), "{devices=[2,2,2]<=[2,4]T(1,0)}"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    const HlSharding s = tiled(cases[k].tile, cases[k].dims, cases[k].perm);
    expect(*state, &s, cases[k].want);
  }
}

static void replicated_groups_are_sorted(void **state) {
  const struct {
    HlI64s tile, dims, perm;
    const char *want;
  } cases[] = {
      {INTS(1, 4), INTS(4), INTS(0), "{replicated}"},
      {INTS(4, 1), INTS(4), INTS(0), "{devices=[4]<=[4]}"},
      {INTS(2, 4), INTS(2, 2, 2), INTS(0, 2, 1), "{devices=[2,4]<=[8] last_tile_dim_replicate}"},
      {INTS(2, 2, 4), INTS(2, 4, 2), INTS(2, 1, 0),
       "{devices=[2,2,4]<=[2,2,2,2]T(3,1,0,2) last_tile_dim_replicate}"},
      {INTS(3, 1, 8), INTS(2, 2, 3, 2), INTS(3, 0, 1, 2),
       "{devices=[3,1,8]0,2,4,6,8,10,12,14,1,3,5,7,16,18,20,22,9,11,13,15,17,19,21,23 "
       "last_tile_dim_replicate}"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlSharding s = tiled(cases[k].tile, cases[k].dims, cases[k].perm);
    s.replicate_last = true;
    expect(*state, &s, cases[k].want);
  }
  const HlSharding listed = {.kind = HL_SHARDING_TILED,
                             .tile = INTS(2, 2),
                             .devices = INTS(1, 0, 3, 2),
                             .replicate_last = true};
  expect(*state, &listed, "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}");
}

static void subgroups_are_merged_and_sorted(void **state) {
  const struct {
    HlI64s tile, dims, perm, types;
    const char *want;
  } cases[] = {
      {INTS(1, 1, 4, 2), INTS(8), INTS(0), INTS(REPLICATED, MANUAL),
       "{devices=[1,1,2,4]<=[4,2]T(1,0) last_tile_dims={manual, replicated}}"},
      {INTS(2, 1, 4), INTS(8), INTS(0), INTS(MANUAL, REPLICATED),
       "{devices=[2,4]<=[8] last_tile_dim_replicate}"},
      {INTS(2, 2, 2), INTS(8), INTS(0), INTS(REPLICATED, REPLICATED),
       "{devices=[2,4]<=[8] last_tile_dim_replicate}"},
      {INTS(2, 2, 2), INTS(8), INTS(0), INTS(MAXIMAL, MANUAL),
       "{devices=[2,2,2]<=[8] last_tile_dims={maximal, manual}}"},
      {INTS(2, 2, 2), INTS(8), INTS(0), INTS(UNREDUCED, MANUAL),
       "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, unreduced} "
       "metadata={op_type=\"sdy::reduction_op\" op_name=\"SUM\"}}"},
      {INTS(1, 4), INTS(4), INTS(0), INTS(UNREDUCED),
       "{unreduced metadata={op_type=\"sdy::reduction_op\" op_name=\"SUM\"}}"},
      {INTS(1, 2, 2), INTS(4), INTS(0), INTS(MANUAL, MANUAL), "{manual}"},
      {INTS(1, 1, 4), INTS(4), INTS(0), INTS(REPLICATED, MANUAL), "{manual}"},
      {INTS(1, 1, 4), INTS(4), INTS(0), INTS(MANUAL, UNREDUCED),
       "{devices=[1,4]<=[4] last_tile_dims={unreduced} metadata={op_type=\"sdy::reduction_op\" "
       "op_name=\"SUM\"}}"},
      {INTS(1, 1, 1), INTS(1), INTS(0), INTS(MANUAL, REPLICATED), "{devices=[1]<=[1]}"},
      {INTS(2, 3, 2, 2), INTS(6, 4), INTS(1, 0), INTS(REPLICATED, MANUAL, REPLICATED),
       "{devices=[2,2,6]0,4,9,13,16,20,1,5,8,12,17,21,2,6,11,15,18,22,3,7,10,14,19,23 "
       "last_tile_dims={manual, replicated}}"}};
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlSharding s = tiled(cases[k].tile, cases[k].dims, cases[k].perm);
    s.last_tile_dims = cases[k].types;
    expect(*state, &s, cases[k].want);
  }
}

static void other_forms(void **state) {
  HlArena *arena = *state;
  HlSyms *syms = hl_syms_new(arena);
  const HlMetadata metadata[2] = {{.op_name = hl_syms_add(syms, "x", 1)},
                                  {.op_name = hl_syms_add(syms, "y", 1), .source_line = 3}};
  const HlMetadata *list[2] = {&metadata[0], &metadata[1]};
  HlSharding s = {.kind = HL_SHARDING_MAXIMAL, .device = 3};
  expect(arena, &s, "{maximal device=3}");
  s = (HlSharding){.kind = HL_SHARDING_REPLICATED, .shard_group = 1, .shard_group_id = 3};
  expect(arena, &s, "{replicated shard_as 3}");
  s = (HlSharding){.kind = HL_SHARDING_MANUAL,
                   .shard_group = 2,
                   .shard_group_id = 3,
                   .metadata = list,
                   .n_metadata = 1};
  expect(arena, &s, "{manual shard_like 3 metadata={op_name=\"x\"}}");
  s.n_metadata = 2;
  expect(arena, &s,
         "{manual shard_like 3 metadata={{op_name=\"x\"}, {op_name=\"y\" source_line=3}}}");
  const HlSharding *elements[6] = {&s, &s, &s, &s, &s, &s};
  s = (HlSharding){.kind = HL_SHARDING_REPLICATED};
  const HlSharding tuple = {.kind = HL_SHARDING_TUPLE, .element = elements, .n_elements = 6};
  expect(arena, &tuple,
         "{{replicated}, {replicated}, {replicated}, {replicated}, {replicated}, "
         "/*index=5*/{replicated}}");
}

static void named_shardings(void **state) {
  HlArena *arena = *state;
  HlSyms *syms = hl_syms_new(arena);
  const HlSym *names[2] = {hl_syms_add(syms, "a", 1), hl_syms_add(syms, "b", 1)};
  const int64_t sizes[2] = {2, 4};
  HlMesh mesh = {.axis = names, .size = sizes, .n = 2, .maximal_device = -1};
  const HlAxisRef a = {.axis = 0}, b = {.axis = 1, .pre_size = 1, .size = 2};
  const HlAxisRef all[2] = {{.axis = 0}, {.axis = 1}};
  const HlAxesDim dims[2] = {{{&a, 1}, false}, {{&b, 1}, true}};
  HlSharding s = {.kind = HL_SHARDING_NAMED, .mesh = &mesh, .dims = dims, .n_dims = 2};
  expect(arena, &s, "{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}]}");
  s.n_dims = 0;
  expect(arena, &s, "{mesh['a'=2,'b'=4], replicated}");
  s.unreduced = (HlAxes){all, 2};
  expect(arena, &s, "{mesh['a'=2,'b'=4], unreduced}");
  s.unreduced = (HlAxes){NULL, 0};
  s.n_dims = 1;
  mesh.iota = (HlIota){INTS(4, 2), INTS(1, 0)};
  expect(arena, &s, "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}]}");
  mesh.iota = (HlIota){INTS(2, 2, 2), INTS(0, 1, 2)};
  expect(arena, &s, "{mesh['a'=2,'b'=4], [{'a'}]}");
  mesh = (HlMesh){.maximal_device = 3};
  s = (HlSharding){.kind = HL_SHARDING_NAMED, .mesh = &mesh};
  expect(arena, &s, "{maximal_mesh[device_id=3]}");
}

// Sizes that do not fit one another stay as they are written.
static void nonsense_stays(void **state) {
  HlSharding s = tiled(INTS(2, 2), INTS(8), INTS(0));
  s.replicate_last = true;
  expect(*state, &s, "{devices=[2,2]<=[8] last_tile_dim_replicate}");
  s = tiled(INTS(INT64_MAX, INT64_MAX), INTS(INT64_MAX, INT64_MAX), INTS(1, 0));
  s.last_tile_dims = INTS(MANUAL);
  expect(*state, &s,
         "{devices=[9223372036854775807,9223372036854775807]<=[9223372036854775807,"
         "9223372036854775807]T(1,0) last_tile_dims={manual}}");
}

static void expect_lists(HlArena *arena, const HlGroups *groups, int n, int size,
                         const int64_t *want) {
  const HlI64Lists lists = hl_groups_lists(arena, groups);
  assert_int_equal(lists.n, n);
  for (int k = 0; k < n; k++) {
    assert_int_equal(lists.at[k].n, size);
    assert_memory_equal(lists.at[k].at, want + k * size, (size_t)size * sizeof *want);
  }
}

static void groups_as_lists(void **state) {
  HlArena *arena = *state;
  const HlGroups iota = {
      .form = HL_GROUPS_IOTA, .n_groups = 2, .group_size = 4, .iota = {INTS(4, 2), INTS(1, 0)}};
  expect_lists(arena, &iota, 2, 4, (int64_t[]){0, 2, 4, 6, 1, 3, 5, 7});
  HlSyms *syms = hl_syms_new(arena);
  const HlSym *names[2] = {hl_syms_add(syms, "a", 1), hl_syms_add(syms, "b", 1)};
  const int64_t sizes[2] = {2, 4};
  HlMesh mesh = {.axis = names, .size = sizes, .n = 2, .maximal_device = -1};
  const HlAxisRef axes[2] = {{.axis = 0}, {.axis = 1, .pre_size = 2, .size = 2}};
  HlGroups groups = {.form = HL_GROUPS_MESH, .mesh = &mesh, .axes = {axes, 1}};
  expect_lists(arena, &groups, 4, 2, (int64_t[]){0, 4, 1, 5, 2, 6, 3, 7});
  groups.axes.n = 2;
  expect_lists(arena, &groups, 2, 4, (int64_t[]){0, 1, 4, 5, 2, 3, 6, 7});
  groups.axes.n = 1;
  mesh.devices = INTS(0, 2, 1, 3, 4, 5, 6, 7);
  expect_lists(arena, &groups, 4, 2, (int64_t[]){0, 4, 2, 5, 1, 6, 3, 7});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(iotas_simplify),
                                     cmocka_unit_test(replicated_groups_are_sorted),
                                     cmocka_unit_test(subgroups_are_merged_and_sorted),
                                     cmocka_unit_test(other_forms),
                                     cmocka_unit_test(named_shardings),
                                     cmocka_unit_test(nonsense_stays),
                                     cmocka_unit_test(groups_as_lists)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
