// Fuzzes the reader of ParaGraph's graphs, binary and text, and all that is done with what it takes: what is written reads back as
// the same, what is translated is valid, and a graph of a processor runs to its end.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hilo/sim_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char config[] =
    "{\"collective\": {\"all-reduce\": {\"algorithm\": \"bidir-ring\", \"barrier\": "
    "{\"algorithm\": \"centralized\"}},"
    "\"all-gather\": {\"algorithm\": \"mesh-1d\"}, \"reduce-scatter\": {\"algorithm\": "
    "\"ring-2d-grid\", \"dimension_widths\": [2, 3]},"
    "\"all-to-all\": {\"algorithm\": \"bruck\"}, \"barrier\": {\"algorithm\": \"dissemination\"}, "
    "\"broadcast\": {\"algorithm\": \"binomial\"},"
    "\"gather\": {\"algorithm\": \"binomial\"}, \"scatter\": {\"algorithm\": \"direct\"}, "
    "\"reduce\": {\"algorithm\": \"chain\"}},"
    "\"protocol\": {\"send\": {\"algorithm\": \"push\"}, \"recv\": {\"algorithm\": \"push\"}, "
    "\"sendrecv\": {\"algorithm\": \"push\"}}}";

static HlSimGraph *read_again(HlCx *cx, const HlBuf *bytes, HlSimForm form) {
  HlSource *source = hl_source_new("written", bytes->at, bytes->n, false);
  HlSimGraph *graph = hl_sim_read(cx, source, form, false);
  hl_source_unref(source);
  return graph;
}

static void check_written(HlCx *cx, const HlSimGraph *graph) {
  HlBuf binary = {0}, text = {0}, again = {0};
  hl_sim_write(graph, HL_SIM_BINARY, &binary);
  hl_sim_write(graph, HL_SIM_TEXT, &text);
  HlSimGraph *first = read_again(cx, &binary, HL_SIM_BINARY),
             *second = read_again(cx, &text, HL_SIM_TEXT);
  assert(first && second);
  hl_sim_write(first, HL_SIM_BINARY, &again);
  assert(again.n == binary.n && memcmp(again.at, binary.at, again.n) == 0);
  hl_sim_graph_free(first);
  hl_sim_graph_free(second);
  hl_buf_free(&binary);
  hl_buf_free(&text);
  hl_buf_free(&again);
}

static void run_one(HlCx *cx, HlSimGraph *graph, HlSimCompat compat) {
  HlBuf log = {0};
  HlSimRun run;
  hl_sim_run_alone(cx, graph, &(HlSimRunOptions){.compat = compat, .log = &log}, &run);
  hl_buf_free(&log);
}

static void run_all(HlCx *cx, const HlSimGraph *graph, const HlSimTranslation *how,
                    HlSimCompat compat) {
  HlArena *arena = hl_arena_new();
  const HlI64s ids = hl_sim_processors(arena, graph);
  for (int k = 0; k < ids.n && ids.n < 50 && k < 3; k++) {
    HlSimGraph *one = hl_sim_individualize(cx, graph, ids.at[k], compat);
    if (one && hl_sim_translate(cx, one, how)) {
      check_written(cx, one);
      run_one(cx, one, compat);
    }
    hl_sim_graph_free(one);
  }
  hl_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->instructions = 2000;
  hl_cx_limits(cx)->nesting = 100;
  hl_cx_limits(cx)->eval_steps = 5000;
  HlSource *source = hl_source_new("input", data, n, false);
  HlSimGraph *graph = hl_sim_read(cx, source, HL_SIM_FORM_NONE, n % 2);
  assert((graph == NULL) == (hl_cx_n_errors(cx) > 0));
  if (graph) {
    HlSource *text = hl_source_new("config", config, sizeof config - 1, false);
    HlSimTranslation *how = hl_sim_translation_read(cx, text, HL_SIM_OWN);
    assert(how && hl_sim_validate(cx, graph));
    check_written(cx, graph);
    hl_sim_totals(graph);
    if (hl_sim_graph_processor(graph) < 0) {
      run_all(cx, graph, how, HL_SIM_OWN);
    } else {
      run_one(cx, graph, HL_SIM_PARAGRAPH);
      run_one(cx, graph, HL_SIM_OWN);
    }
    hl_cx_clear(cx);
    hl_sim_trim(cx, graph, HL_SIM_OWN);
    hl_sim_enforce_post_order(cx, graph);
    hl_sim_drop_disconnected(graph);
    assert(hl_cx_n_errors(cx) == 0 && hl_sim_validate(cx, graph));
    hl_sim_extend(cx, graph, 7);
    hl_source_unref(text);
    hl_sim_translation_free(how);
  }
  hl_sim_graph_free(graph);
  hl_source_unref(source);
  hl_cx_free(cx);
  return 0;
}
