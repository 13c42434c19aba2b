// What an e-graph costs: nodes inserted a second, and saturating a module.
//
//   egraph insert [N]              {"nodes": 2000000, "per_second": 8.1e6, "hits_per_second": ...}
//   egraph FILE [SECONDS] [NODES]  {"instructions": 2002, "nodes": 48000, "saturate_s": 3.1, ...}, and what each rule gave
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "hilo/build.h"
#include "hilo/egraph.h"
#include "hilo/opt.h"
#include "hilo/tool.h"

// Sums of two classes taken at random among those there are: nearly all are new. Then the same again: none is.
static double cpu_seconds(void) {
  return (double)clock() / CLOCKS_PER_SEC;
}

static int insert(int64_t n) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = hl_comp_new(m, "main", 4);
  hl_comp_set_entry(comp);
  HlBuild b = {.cx = cx, .comp = comp};
  const HlShape *shape = hl_shape_array(m->shapes, HL_F32, 1, (int64_t[]){4});
  HlInst *x = hl_b_parameter(&b, shape, "x"), *y = hl_b_parameter(&b, shape, "y");
  HlInst *sum = hl_b_binary(&b, HL_OP_ADD, x, y);
  hl_set_root(comp, sum);
  HlEgraph *eg = hl_egraph_new(cx);
  bool ok = hl_egraph_add_module(eg, m);
  HlEclass *class = calloc((size_t)n + 2, sizeof *class);
  class[0] = hl_egraph_class_of(eg, x);
  class[1] = hl_egraph_class_of(eg, y);
  double took[2];
  for (int pass = 0; ok && pass < 2; pass++) {
    HlRng rng = {7};
    const double start = cpu_seconds();
    for (int64_t k = 0; k < n; k++) {
      const HlEclass operands[] = {class[hl_rng_below(&rng, k + 2)], class[hl_rng_below(&rng, k + 2)]};
      class[k + 2] = hl_egraph_add(eg, sum, 2, operands);
    }
    took[pass] = cpu_seconds() - start;
  }
  const char *why = "";
  ok = ok && hl_egraph_check(eg, &why);
  printf("{\"nodes\": %lld, \"per_second\": %.0f, \"hits_per_second\": %.0f, \"sound\": %s}\n",
         (long long)hl_egraph_nodes(eg), (double)n / took[0], (double)n / took[1],
         ok ? "true" : "false");
  free(class);
  hl_egraph_free(eg);
  hl_module_free(m);
  hl_cx_free(cx);
  return !ok;
}

static void print_report(const HlEgraphReport *r, double took) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"instructions\": %lld, \"after\": %lld, \"first_nodes\": %lld, \"nodes\": %lld, \"classes\": %lld,"
         " \"regions\": %lld, \"rounds\": %d, \"sites\": %lld, \"stop\": \"%s\", \"refused\": %lld,"
         " \"saturate_s\": %.3f, \"extract_s\": %.3f, \"price_s\": %.3f, \"all_s\": %.3f, \"mib\": %.1f,"
         " \"peak_mib\": %.1f, \"exact\": %s}\n",
         (long long)r->instructions, (long long)r->after, (long long)r->first_nodes,
         (long long)r->nodes, (long long)r->classes, (long long)r->regions, r->iterations,
         (long long)r->sites, hl_egraph_stop_text(r->stop), (long long)r->refused, r->saturate_s,
         r->extract_s, r->price_s, took, (double)r->bytes / (1 << 20),
         (double)usage.ru_maxrss / 1024, r->exact ? "true" : "false");
  for (int k = 0; k < r->n_candidates; k++) {
    const HlEgraphCandidate *c = &r->candidate[k];
    printf("  %c %-10s price %.3e s, compiled %.3e s, %lld instructions, %lld kernels\n",
           c->taken ? '*' : ' ', c->how, c->price, c->seconds, (long long)c->instructions,
           (long long)c->kernels);
  }
  for (int k = 0; k < r->n_rules; k++)
    if (r->rule[k].found > 0)
      printf("  %-60.60s found %lld, news %lld\n", r->rule[k].rule, (long long)r->rule[k].found,
             (long long)r->rule[k].news);
}

static void print_errors(const HlCx *cx) {
  HlBuf out = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    hl_diag_render(hl_cx_diag(cx, k), false, &out);
  fputs(out.at ? out.at : "", stderr);
  hl_buf_free(&out);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: egraph insert [N] | FILE [SECONDS] [NODES]\n");
    return 2;
  }
  if (strcmp(argv[1], "insert") == 0)
    return insert(argc > 2 ? atoll(argv[2]) : 2000000);
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlFile file = {0};
  HlEgraphOptions options = {.passes = &hl_passes, .pipelines = &hl_pipelines};
  if (argc > 2)
    options.seconds = (HlMaybeFloat){true, atof(argv[2])};
  if (argc > 3)
    options.nodes = (HlMaybeInt){true, atoll(argv[3])};
  options.inexact = argc > 4;
  HlEgraphReport report;
  const double start = hl_now();
  const bool ok = hl_load(cx, argv[1], NULL, &file) && file.n > 0 &&
                  hl_saturate(cx, file.modules[0], &options, arena, &report);
  if (ok)
    print_report(&report, hl_now() - start);
  print_errors(cx);
  hl_file_free(&file);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return !ok;
}
