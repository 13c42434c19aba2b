// Lists, maps and heaps of the base layer, against plain models of them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"

typedef VEC(int) Ints;

static void a_list_grows_and_shrinks(void **state) {
  Ints list = {0};
  for (int k = 0; k < 1000; k++)
    vec_push(&list, 3 * k);
  assert_int_equal(list.n, 1000);
  for (int k = 0; k < 1000; k++)
    assert_int_equal(list.at[k], 3 * k);
  assert_int_equal(vec_last(&list), 2997);
  assert_int_equal(vec_pop(&list), 2997);
  vec_last(&list) = 7;
  assert_int_equal(vec_pop(&list), 7);
  const int more[] = {1, 2, 3};
  vec_append(&list, more, 3);
  vec_append(&list, more, 0);
  assert_int_equal(list.n, 1001);
  assert_int_equal(list.at[1000], 3);
  vec_free(&list);
  assert_null(list.at);
  assert_int_equal(list.n, 0);
}

static void a_list_in_an_arena_goes_with_it(void **state) {
  HlArena *arena = hl_arena_new();
  Ints list = {0};
  for (int k = 0; k < 300; k++)
    vec_push_in(arena, &list, k);
  vec_append_in(arena, &list, ((const int[]){8, 9}), 2);
  for (int k = 0; k < 300; k++)
    assert_int_equal(list.at[k], k);
  assert_int_equal(list.at[301], 9);
  hl_arena_free(arena);
}

typedef struct Growing {
  HlArena *owner;  // made before the try
  Ints *list;
} Growing;

static bool grow_and_run_out(HlCx *cx, void *user) {
  const Growing *g = user;
  for (int k = 0; k < 100; k++)
    vec_push_as(g->owner, g->list, k);
  base_out_of_memory(1);
}

// What a list of something old got in a try that failed stays.
static void a_list_is_as_old_as_its_owner(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *owner = hl_arena_new();
  Ints list = {0};
  assert_false(hl_try(cx, grow_and_run_out, &(Growing){owner, &list}));
  assert_int_equal(list.n, 100);
  for (int k = 0; k < 100; k++)
    assert_int_equal(list.at[k], k);
  vec_push_as(owner, &list, 100);
  vec_free(&list);
  hl_arena_free(owner);
  hl_cx_free(cx);
}

static void a_map_is_a_sparse_array(void **state) {
  enum { KEYS = 5000 };
  HlArena *arena = hl_arena_new();
  Map maps[2] = {{0}, {.arena = arena}};
  for (int m = 0; m < 2; m++) {
    uint64_t *model = calloc(KEYS, sizeof *model);
    HlRng rng = {7};
    assert_int_equal(map_get(&maps[m], 5), 0);
    for (int k = 0; k < 20000; k++) {
      const uint64_t key = (uint64_t)hl_rng_below(&rng, KEYS), value = hl_rng_u64(&rng) | 1;
      *map_at(&maps[m], key << 40) = value;
      model[key] = value;
    }
    uint32_t n = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
      assert_true(map_get(&maps[m], key << 40) == model[key]);
      n += model[key] != 0;
    }
    assert_int_equal(maps[m].n, n);
    assert_true(map_get(&maps[m], UINT64_MAX) == 0);
    free(model);
    map_free(&maps[m]);
    assert_int_equal(map_get(&maps[m], 0), 0);
  }
  hl_arena_free(arena);
}

static void a_map_takes_pointers(void **state) {
  int things[3] = {0};
  Map map = {0};
  map_put_ptr(&map, &things[0], &things[1]);
  map_put_ptr(&map, NULL, &things[2]);
  assert_ptr_equal(map_get_ptr(&map, &things[0]), &things[1]);
  assert_ptr_equal(map_get_ptr(&map, NULL), &things[2]);
  assert_null(map_get_ptr(&map, &things[2]));
  map_free(&map);
}

// Few keys, many values, and the table grows in between: each key's values come in their order.
static void a_key_has_several_values_in_order(void **state) {
  enum { KEYS = 37, ROUNDS = 200 };
  Map map = {0};
  MapWalk none = map_walk(&map, 3);
  assert_int_equal(map_next(&none), 0);
  for (uint64_t round = 1; round <= ROUNDS; round++)
    for (uint64_t key = 0; key < KEYS; key++)
      map_add(&map, key, round * 1000 + key);
  for (uint64_t key = 0; key < KEYS; key++) {
    MapWalk walk = map_walk(&map, key);
    for (uint64_t round = 1; round <= ROUNDS; round++)
      assert_int_equal(map_next(&walk), round * 1000 + key);
    assert_int_equal(map_next(&walk), 0);
  }
  map_free(&map);
}

typedef struct Job {
  int cost, serial;
} Job;
typedef VEC(Job) Jobs;

static bool goes_first(const Job *a, const Job *b) {
  return a->cost != b->cost ? a->cost < b->cost : a->serial > b->serial;
}

HEAP(jobs, Job, Jobs, goes_first)

static void a_heap_gives_the_first(void **state) {
  Jobs heap = {0}, model = {0};
  HlRng rng = {3};
  for (int k = 0; k < 20000; k++) {
    if (heap.n == 0 || hl_rng_below(&rng, 100) < 52) {
      const Job job = {(int)hl_rng_below(&rng, 50), k};
      jobs_push(NULL, &heap, job);
      vec_push(&model, job);
      continue;
    }
    int best = 0;
    for (int j = 1; j < model.n; j++)
      if (goes_first(&model.at[j], &model.at[best]))
        best = j;
    const Job top = jobs_pop(&heap);
    assert_int_equal(top.serial, model.at[best].serial);
    model.at[best] = vec_pop(&model);
  }
  assert_int_equal(heap.n, model.n);
  assert_true(model.n > 100);
  vec_free(&heap);
  vec_free(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_grows_and_shrinks),
      cmocka_unit_test(a_list_in_an_arena_goes_with_it),
      cmocka_unit_test(a_list_is_as_old_as_its_owner),
      cmocka_unit_test(a_map_is_a_sparse_array),
      cmocka_unit_test(a_map_takes_pointers),
      cmocka_unit_test(a_key_has_several_values_in_order),
      cmocka_unit_test(a_heap_gives_the_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
