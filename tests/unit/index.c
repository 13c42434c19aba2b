// The index of a dump as a library: records, what is found, running out of memory, being cancelled.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/index.h"
#include "hilo/text.h"
#include "support/folder.h"
#include "tool/dumps/index.h"

static const char before[] = "HloModule jit_f\n\nENTRY main {\n"
                             "  p = f32[8] parameter(0)\n"
                             "  e = f32[8] exponential(p), metadata={op_name=\"jit(f)/exp\" "
                             "source_file=\"/u/f.py\" source_line=3}\n"
                             "  ROOT a = f32[8] add(e, p), metadata={op_name=\"jit(f)/add\" "
                             "source_file=\"/u/f.py\" source_line=4}\n}\n";
static const char after[] = "HloModule jit_f, is_scheduled=true\n\nfused {\n"
                            "  q = f32[8] parameter(0)\n"
                            "  e = f32[8] exponential(q), metadata={op_name=\"jit(f)/exp\" "
                            "source_file=\"/u/f.py\" source_line=3}\n"
                            "  ROOT a = f32[8] add(e, q), metadata={op_name=\"jit(f)/add\" "
                            "source_file=\"/u/f.py\" source_line=4}\n}\n\n"
                            "ENTRY main {\n"
                            "  p = f32[8] parameter(0)\n"
                            "  ROOT fusion.1 = f32[8] fusion(p), kind=kLoop, calls=fused, "
                            "metadata={op_name=\"jit(f)/add\" source_file=\"/u/f.py\" "
                            "source_line=4}\n}\n";

typedef struct Folder {
  char path[FOLDER_ROOM];
} Folder;

static void put(const Folder *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static int make_folder(void **state) {
  Folder *folder = malloc(sizeof *folder);
  if (!folder_make(folder->path, "index"))
    return 1;
  put(folder, "module_0000.jit_f.before_optimizations.txt", before);
  put(folder, "module_0000.jit_f.cpu_after_optimizations.txt", after);
  *state = folder;
  return 0;
}

static int drop_folder(void **state) {
  Folder *folder = *state;
  const bool gone = folder_remove(folder->path);
  free(folder);
  return !gone;
}

static void need_sqlite(void) {
  if (!sql_is_there())
    skip();
}

// --- Records ------------------------------------------------------------------------------------

static HlBuf blob_of(HlCx *cx, const char *text, IndexStrings *strings) {
  HlModule *m = hl_text_parse(cx, text);
  assert_non_null(m);
  IndexRecord record;
  index_record_make(cx, m, &record);
  assert_int_equal(record.module.instructions, hl_count_instructions(m));
  HlBuf blob = {0};
  index_record_blob(&record, strings, &blob);
  index_record_free(&record);
  hl_module_free(m);
  return blob;
}

static bool read_blob(HlArena *arena, HlStr blob, IndexView *view) {
  size_t body;
  return index_view_strings(arena, blob, view, &body) && index_view_body(arena, blob, body, view);
}

static void record_and_back(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  IndexStrings strings = {0};
  HlBuf blob = blob_of(cx, after, &strings);
  IndexView view;
  assert_true(read_blob(arena, (HlStr){blob.at, blob.n}, &view));
  assert_int_equal(view.n, 5);
  assert_int_equal(view.n_comps, 2);
  assert_true(view.comps[0].flags & INDEX_COMP_FUSION);
  assert_true(view.comps[1].flags & INDEX_COMP_ENTRY);
  assert_int_equal(view.comps[0].caller, 5);  // 1 + the fusion, the last of all
  const char *name = strings.at.at[view.strings[view.column[INDEX_NAME][4]]].at;
  assert_string_equal(name, "fusion.1");
  assert_string_equal(strings.at.at[view.strings[view.column[INDEX_DETAIL][4]]].at, "kLoop");
  assert_int_equal(view.column[INDEX_LINE][4], 4);
  assert_int_equal(view.column[INDEX_PLACE][4], 11);
  hl_buf_free(&blob);
  index_strings_free(&strings);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// Whatever a damaged file holds, reading it ends, and what it gives stays within bounds.
static void damaged_records(void **state) {
  HlCx *cx = hl_cx_new();
  IndexStrings strings = {0};
  HlBuf blob = blob_of(cx, after, &strings);
  HlRng rng = {1};
  int refused = 0;
  for (int turn = 0; turn < 20000; turn++) {
    HlArena *arena = hl_arena_new();
    char *copy = hl_arena_copy(arena, blob.at, blob.n);
    size_t n = blob.n;
    for (int k = (int)hl_rng_below(&rng, 4); k >= 0; k--)
      copy[hl_rng_below(&rng, (int64_t)n)] = (char)hl_rng_u64(&rng);
    if (turn % 3 == 0)
      n = (size_t)hl_rng_below(&rng, (int64_t)n);
    IndexView view;
    const bool ok = read_blob(arena, (HlStr){copy, n}, &view);
    refused += !ok;
    for (uint32_t k = 0; ok && k < view.n; k++) {
      for (int c = 0; c < INDEX_STRINGS; c++)
        assert_true(view.column[c][k] < view.n_strings);
      assert_true(view.column[INDEX_FRAME][k] <= view.n_frames);
    }
    hl_arena_free(arena);
  }
  assert_true(refused > 1000);
  hl_buf_free(&blob);
  index_strings_free(&strings);
  hl_cx_free(cx);
}

// --- Finding ------------------------------------------------------------------------------------

typedef struct Seen {
  int n, counterparts, sources;
  char names[256];
} Seen;

static bool note(void *user, const HlFound *found) {
  Seen *seen = user;
  seen->n++;
  seen->counterparts += found->n_counterparts;
  seen->sources += found->n_sources;
  strcat(strcat(seen->names, found->name), " ");
  return true;
}

static Seen look(HlCx *cx, HlIndex *index, HlFindField field, const char *text, uint32_t stages,
                 bool trace) {
  const HlFindTerm term = {field, text};
  const HlFindQuery query = {.terms = &term, .n_terms = 1, .stages = stages, .trace = trace};
  Seen seen = {0};
  HlFindResult result;
  assert_true(hl_find(cx, index, &query, note, &seen, &result));
  assert_int_equal(result.found, seen.n);
  return seen;
}

static void from_source_to_fusion_and_back(void **state) {
  need_sqlite();
  Folder *folder = *state;
  HlCx *cx = hl_cx_new();
  HlIndexCounts counts;
  HlIndex *index = hl_index_open(cx, folder->path, NULL);
  assert_non_null(index);
  assert_true(hl_index_update(cx, index, NULL, NULL, &counts));
  assert_int_equal(counts.read, 2);
  assert_string_equal(look(cx, index, HL_FIND_SOURCE, "f.py:3", 1u << HL_STAGE_AFTER, false).names,
                      "e ");
  assert_string_equal(look(cx, index, HL_FIND_SOURCE, "f.py:4", 1u << HL_STAGE_AFTER, false).names,
                      "a fusion.1 ");
  assert_string_equal(
      look(cx, index, HL_FIND_SOURCE, "u/f.py:3-4", 1u << HL_STAGE_BEFORE, false).names, "e a ");
  assert_int_equal(look(cx, index, HL_FIND_SOURCE, "g.py", 0, false).n, 0);
  const Seen fusion = look(cx, index, HL_FIND_NAME, "fusion.1", 0, true);
  assert_int_equal(fusion.n, 1);
  assert_int_equal(fusion.sources, 2);       // lines 3 and 4
  assert_int_equal(fusion.counterparts, 2);  // exponential and add of the form that came in
  HlArena *arena = hl_arena_new();
  HlIndexList list;
  assert_true(hl_index_list(cx, index, arena, &list));
  assert_int_equal(list.n_programs, 1);
  assert_int_equal(list.programs[0].n, 2);
  assert_int_equal(hl_indexed_stage(&list, &list.programs[0], HL_STAGE_AFTER)->modules[0].fusions,
                   1);
  assert_null(hl_indexed_stage(&list, &list.programs[0], HL_STAGE_JAXPR));
  hl_arena_free(arena);
  assert_true(hl_index_update(cx, index, NULL, NULL, &counts));
  assert_int_equal(counts.read, 0);
  hl_index_free(index);
  hl_cx_free(cx);
}

// --- Ending early -------------------------------------------------------------------------------

typedef struct Job {
  const char *folder;
  HlIndex *index;
  Seen seen;
} Job;

static bool index_and_find(HlCx *cx, void *user) {
  Job *job = user;
  HlIndexCounts counts;
  const HlIndexOptions options = {.anew = true};
  job->seen = (Seen){0};
  HlIndex *index = hl_index_open(cx, job->folder, &options);
  if (!index)
    return false;
  const HlFindTerm term = {HL_FIND_OP, "add"};
  const HlFindQuery query = {.terms = &term, .n_terms = 1, .trace = true};
  HlFindResult result;
  const bool ok = hl_index_update(cx, index, NULL, NULL, &counts) &&
                  hl_find(cx, index, &query, note, &job->seen, &result);
  hl_index_free(index);
  return ok;
}

// The n-th request for memory fails, for every n: the call ends with an error, nothing is held, and the next one works.
static void without_memory(void **state) {
  need_sqlite();
  Job job = {.folder = ((Folder *)*state)->path};
  int n = 1, failed = 0;
  for (bool done = false; !done; n += n < 200 ? 1 : 7) {
    HlCx *cx = hl_cx_new();
    hl_cx_limits(cx)->fail_allocation = n;
    done = hl_try(cx, index_and_find, &job);
    done = done && hl_cx_limits(cx)->fail_allocation != 0;
    failed += hl_cx_n_errors(cx) > 0;
    hl_cx_free(cx);
  }
  assert_true(failed > 100);
  HlCx *cx = hl_cx_new();
  assert_true(hl_try(cx, index_and_find, &job));
  assert_int_equal(job.seen.n, 2);
  hl_cx_free(cx);
}

static bool at_once(void *user) {
  return ++*(int *)user > 3;
}

static void cancelled(void **state) {
  need_sqlite();
  Job job = {.folder = ((Folder *)*state)->path};
  HlCx *cx = hl_cx_new();
  int looks = 0;
  hl_cx_set_poll(cx, at_once, &looks);
  assert_false(hl_try(cx, index_and_find, &job));
  assert_int_equal(hl_cx_error_kind(cx), HL_CANCELLED);
  hl_cx_set_poll(cx, NULL, NULL);
  hl_cx_resume(cx);
  hl_cx_clear(cx);
  assert_true(hl_try(cx, index_and_find, &job));
  assert_int_equal(job.seen.n, 2);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(record_and_back),
      cmocka_unit_test(damaged_records),
      cmocka_unit_test_setup_teardown(from_source_to_fusion_and_back, make_folder, drop_folder),
      cmocka_unit_test_setup_teardown(without_memory, make_folder, drop_folder),
      cmocka_unit_test_setup_teardown(cancelled, make_folder, drop_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
