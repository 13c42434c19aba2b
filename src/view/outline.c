// view/outline.c: the map as indented text.

#include <string.h>

#include "view/costs.h"
#include "view/map.h"

enum { MIN_COMP = 12 };  // instructions below which a computation is not worth a map

static void put_group(const HlMap *map, int k, int depth, double times, HlBuf *out) {
  const HlGroup *group = &map->group[k];
  hl_buf_printf(out, "%*s%s", 2 * depth, "", group->label);
  if (group->copies > 1)
    hl_buf_printf(out, group->kind == HL_GROUP_REPEAT ? " \u00d7%d" : " \u00d7%d, alike",
                  group->copies);
  hl_buf_printf(out, "  %d", group->n_insts);
  if (k == 0 && times > 1)
    hl_buf_printf(out, ", runs %.0f times", times);
  hl_buf_putc(out, '\n');
}

// Depth first; of what is repeated the first stands for all.
static void put_map(const HlMap *map, double times, HlBuf *out) {
  VEC(int) todo = {0};
  vec_push(&todo, 0);
  while (todo.n > 0) {
    const int k = vec_pop(&todo);
    int depth = 0;
    for (int up = k; map->group[up].parent >= 0; up = map->group[up].parent)
      depth++;
    put_group(map, k, depth, times, out);
    const int from = todo.n;
    for (int c = k + 1; c < map->n_groups; c++)
      if (map->group[c].parent == k) {
        vec_push(&todo, c);
        if (map->group[k].kind == HL_GROUP_REPEAT)
          break;
      }
    for (int a = from, b = todo.n - 1; a < b; a++, b--) {
      const int other = todo.at[a];
      todo.at[a] = todo.at[b];
      todo.at[b] = other;
    }
  }
  vec_free(&todo);
}

void hl_map_print(const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, m);
  const double *times = view_times(arena, m);
  for (uint32_t k = m->n_comps; k-- > 0;) {
    const HlMark mark = hl_arena_mark(arena);
    if (!order[k]->is_fusion && (order[k] == m->entry || order[k]->n_insts >= MIN_COMP))
      put_map(hl_map_new(arena, order[k]), times[order[k]->id], out);
    hl_arena_release(arena, mark);
  }
  hl_arena_free(arena);
}
