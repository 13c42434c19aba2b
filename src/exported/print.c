// exported/print.c: what an export says, as lines.
#include "hilo/exported.h"

#include <stdio.h>

static void put_words(HlBuf *out, const char *indent, const char *what, const char *const *word,
                      int n) {
  if (n == 0)
    return;
  hl_buf_printf(out, "%s%-17s ", indent, what);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "%s%s", k ? ", " : "", word[k]);
  hl_buf_putc(out, '\n');
}

static void put_value(HlBuf *out, const char *indent, const char *kind, int k,
                      const HlExportedValue *value, bool is_used) {
  char name[24];
  snprintf(name, sizeof name, "%s%d", kind, k);
  hl_buf_printf(out, "%s  %-15s %s", indent, name, value->type);
  if (*value->memory && value->memory[0] != 'd')
    hl_buf_printf(out, " in %s memory", value->memory);
  if (*value->sharding)
    hl_buf_printf(out, ", %s", value->sharding);
  hl_buf_puts(out, is_used ? "\n" : ", not used\n");
}

void hl_exported_print(const HlExported *e, const char *indent, HlBuf *out) {
  hl_buf_printf(out, "%sexport of         %s, calling convention %d", indent, e->function,
                e->calling_convention);
  if (*e->jax)
    hl_buf_printf(out, ", by JAX %s", e->jax);
  if (e->serialization)
    hl_buf_printf(out, ", format %d", e->serialization);
  hl_buf_printf(out, "\n%sdevices           %lld\n", indent, (long long)e->n_devices);
  put_words(out, indent, "platforms", e->platforms, e->n_platforms);
  hl_buf_printf(out, "%sarguments         %s\n", indent, e->in_tree);
  for (int k = 0; k < e->n_in; k++)
    put_value(out, indent, "a", k, &e->in[k], e->in[k].is_kept);
  hl_buf_printf(out, "%sresults           %s\n", indent, e->out_tree);
  for (int k = 0; k < e->n_out; k++)
    put_value(out, indent, "r", k, &e->out[k], true);
  put_words(out, indent, "ordered effects", e->ordered_effects, e->n_ordered_effects);
  put_words(out, indent, "other effects", e->unordered_effects, e->n_unordered_effects);
  put_words(out, indent, "checks left out", e->disabled_checks, e->n_disabled_checks);
  int n = 0;
  for (const HlExported *vjp = e->vjp; vjp; vjp = vjp->vjp)
    n++;
  if (n)
    hl_buf_printf(out, "%sderivatives       %d\n", indent, n);
}
