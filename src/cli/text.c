// Prints a module, and says what a file that it goes to will lack.
#include "hilo/text.h"

#include <string.h>

#include "cli/cli.h"

static int64_t count(HlStr text, const char *word) {
  int64_t n = 0;
  const size_t size = strlen(word);
  const char *at = text.at, *end = text.at + text.n;
  while (at && (at = memmem(at, (size_t)(end - at), word, size))) {
    at += size;
    n++;
  }
  return n;
}

enum { FEW_ELEMENTS = 10 };

typedef struct Constants {
  int64_t elided, large;
} Constants;

static Constants count_constants(const HlModule *m) {
  Constants found = {0};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op != HL_OP_CONSTANT)
        continue;
      if (hl_literal_is_elided(hl_constant(inst)))
        found.elided++;
      else if (!hl_shape_is_array(inst->shape) || hl_shape_elements(inst->shape) > FEW_ELEMENTS)
        found.large++;
    }
  return found;
}

void cli_print_module(Cli *cli, const HlModule *m, const HlTextOptions *options, HlBuf *out) {
  const size_t before = out->n;
  hl_text_print(cli->cx, m, options, out);
  if (!cli_value(cli, "-o") || out->n == before)
    return;
  const Constants have = count_constants(m);
  if (have.large == 0)
    return;
  const int64_t n =
      count((HlStr){out->at + before, out->n - before}, "constant({...})") - have.elided;
  if (n > 0)
    hl_tell(cli->cx, (HlPos){0},
            "%lld constant%s of more than ten elements %s written as {...}, as XLA prints them: "
            "--large-constants writes them in full",
            (long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
}
