// sim/run/page.c: a run as a page that opens without a network: data as JSON, and src/sim/web.

#include <stdlib.h>
#include <string.h>

#include "sim/run/run.h"

enum { MOST_STEPS = 20000, MOST_LINES = 30, MOST_LONGEST = 30 };

const char *run_web_file(const char *name) {
  for (const RunWebFile *file = run_web_files; file->name; file++)
    if (strcmp(file->name, name) == 0)
      return file->text;
  return "";
}

// "</" would end the element that the data stands in.
static void put_string(HlBuf *out, const char *text, size_t n) {
  HlBuf plain = {0};
  hl_buf_json_string(&plain, text, n);
  for (size_t k = 0; k < plain.n; k++) {
    if (plain.at[k] == '<')
      hl_buf_puts(out, "\\u003c");
    else
      hl_buf_putc(out, plain.at[k]);
  }
  hl_buf_free(&plain);
}

static void put_word(HlBuf *out, const char *text) {
  put_string(out, text, strlen(text));
}

// The steps of the device, the longest where there are too many.
typedef struct Slice {
  int step;
  double seconds;
} Slice;

static int longer(const void *a, const void *b) {
  const Slice *x = a, *y = b;
  return x->seconds != y->seconds ? (x->seconds > y->seconds ? -1 : 1) : x->step - y->step;
}

static int in_order(const void *a, const void *b) {
  return ((const Slice *)a)->step - ((const Slice *)b)->step;
}

static int slices(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run, Slice **out) {
  Slice *at = HL_ARRAY(arena, Slice, p->n_steps + 1);
  int n = 0;
  for (int k = 0; k < p->n_steps; k++)
    if (run->step[k].end > run->step[k].begin)
      at[n++] = (Slice){k, run->step[k].end - run->step[k].begin};
  qsort(at, (size_t)n, sizeof *at, longer);
  *out = at;
  return n;
}

static int word_number(const char **words, int *n, const char *word) {
  for (int k = 0; k < *n; k++)
    if (strcmp(words[k], word) == 0)
      return k;
  words[*n] = word;
  return (*n)++;
}

static void put_steps(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run,
                      HlBuf *out) {
  Slice *at;
  const char **words = HL_ARRAY(arena, const char *, p->n_steps + 1);
  int n = slices(arena, p, run, &at), n_words = 0;
  hl_buf_puts(out, ",\"longest\":[");
  for (int k = 0; k < n && k < MOST_LONGEST; k++) {
    const HlClusterStep *step = &p->step[at[k].step];
    hl_buf_puts(out, k ? ",[" : "[");
    put_string(out, step->name.at, step->name.n);
    hl_buf_putc(out, ',');
    put_word(out, step->category);
    hl_buf_printf(out, ",%.9g]", at[k].seconds);
  }
  n = n < MOST_STEPS ? n : MOST_STEPS;
  qsort(at, (size_t)n, sizeof *at, in_order);
  hl_buf_puts(out, "],\"steps\":[");
  for (int k = 0; k < n; k++) {
    const HlClusterStep *step = &p->step[at[k].step];
    const HlStepRun *r = &run->step[at[k].step];
    hl_buf_printf(out, "%s[%.12g,%.12g,%d,", k ? "," : "", r->begin, r->end, step->stream);
    put_string(out, step->name.at, step->name.n);
    hl_buf_printf(out, ",%d]", word_number(words, &n_words, step->category));
  }
  hl_buf_puts(out, "],\"words\":[");
  for (int k = 0; k < n_words; k++) {
    hl_buf_puts(out, k ? "," : "");
    put_word(out, words[k]);
  }
  hl_buf_puts(out, "],\"memory\":[");
  int64_t live = -1;
  for (int k = 0, first = 1; k < p->n_steps; k++)
    if (p->step[k].live != live && p->step[k].stream == 0 && p->step[k].kind != HL_STEP_WAIT) {
      live = p->step[k].live;
      hl_buf_printf(out, "%s[%.12g,%lld]", first ? "" : ",", run->step[k].begin, (long long)live);
      first = 0;
    }
  hl_buf_putc(out, ']');
}

static void put_exposed(HlArena *arena, const HlClusterProgram *p, const HlClusterRun *run,
                        HlBuf *out) {
  HlExposed *row;
  int n = hl_exposed_by_kind(arena, p, run, &row);
  hl_buf_puts(out, ",\"kinds\":[");
  for (int k = 0; k < n; k++) {
    hl_buf_puts(out, k ? ",[" : "[");
    put_word(out, row[k].what);
    hl_buf_printf(out, ",%lld,%.9g,%.9g,%.9g,%.9g]", (long long)row[k].count, row[k].bytes,
                  row[k].exposed, row[k].waiting, row[k].busy);
  }
  n = hl_exposed_by_line(arena, p, run, &row);
  hl_buf_puts(out, "],\"lines\":[");
  for (int k = 0; k < n && k < MOST_LINES; k++) {
    hl_buf_puts(out, k ? ",[" : "[");
    const char *text =
        *row[k].what ? hl_arena_printf(arena, "%s:%d", row[k].what, row[k].line) : "(not known)";
    put_word(out, text);
    hl_buf_printf(out, ",%lld,%.9g,%.9g,%.9g]", (long long)row[k].count, row[k].bytes,
                  row[k].exposed, row[k].busy);
  }
  hl_buf_putc(out, ']');
}

// What a few changes of the system would do.
static void put_what_if(HlArena *arena, const HlClusterProgram *p, const HlSystem *s,
                        const HlClusterOptions *options, HlBuf *out) {
  static const char *const changes[] = {"bandwidth=2x", "bandwidth=0.5x", "latency=0.5x",
                                        "start=0s"};
  HlCx *cx = hl_cx_new();
  hl_buf_puts(out, ",\"whatif\":[");
  for (int k = 0, n = 0; k < HL_COUNT_OF(changes); k++) {
    const HlSystem *other = hl_system_what_if(cx, arena, s, changes[k]);
    HlClusterRun run;
    if (!other || !hl_cluster_run(cx, arena, p, other, options, &run))
      continue;
    hl_buf_puts(out, n++ ? ",[" : "[");
    put_word(out, changes[k]);
    hl_buf_printf(out, ",%.9g]", run.seconds);
  }
  hl_buf_putc(out, ']');
  hl_cx_free(cx);
}

void hl_cluster_page(const HlClusterProgram *p, const HlClusterRun *run, const HlSystem *s,
                     const HlClusterOptions *options, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  hl_buf_puts(
      out,
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>");
  hl_buf_xml(out, p->name);
  hl_buf_printf(out,
                "</title>\n<style>\n%s</style></head><body>\n<script type=\"application/json\" "
                "id=\"data\">{\"program\":",
                run_web_file("style"));
  put_word(out, p->name);
  hl_buf_puts(out, ",\"system\":");
  put_word(out, s->name);
  hl_buf_puts(out, ",\"about\":");
  put_word(out, s->about);
  hl_buf_printf(out, ",\"devices\":%lld,\"classes\":%lld,\"seconds\":%.12g,\"compute\":%.12g",
                (long long)p->devices, (long long)run->classes, run->seconds, run->compute);
  put_steps(arena, p, run, out);
  put_exposed(arena, p, run, out);
  put_what_if(arena, p, s, options, out);
  hl_buf_printf(out, "}</script>\n<script>\n%s</script></body></html>\n", run_web_file("page"));
  hl_arena_free(arena);
}
