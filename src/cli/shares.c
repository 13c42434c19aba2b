// cli/shares.c: where a module's cost is, and who holds its memory: hilo stats --by, --peak.
#include <inttypes.h>
#include <string.h>

#include "base/number.h"
#include "cli/json.h"
#include "cli/shares.h"
#include "cli/table.h"
#include "cpu/kernel/source.h"

// --- Options ---------------------------------------------------------------------------------------------

// The place of an option's word among some; false after a usage message.
static bool read_word(Cli *cli, const char *option, const char *const *words, int n, int *out) {
  const char *given = cli_value(cli, option);
  if (!given)
    return true;
  for (int k = 0; k < n; k++)
    if (strcmp(given, words[k]) == 0) {
      *out = k;
      return true;
    }
  HlBuf all = {0};
  for (int k = 0; k < n; k++)
    hl_buf_printf(&all, "%s%s", k == 0 ? "" : k == n - 1 ? " or " : ", ", words[k]);
  cli_usage(cli, "unknown %s '%s': %.*s", option, given, (int)all.n, all.at);
  hl_buf_free(&all);
  return false;
}

bool cli_shares_read(Cli *cli, CliShares *out) {
  *out = (CliShares){.arena = hl_arena_new(), .top = 10};
  out->peak = cli_flag(cli, "--peak");
  out->costs = cli_flag(cli, "--by") || cli_flag(cli, "--sort") || cli_flag(cli, "--depth") ||
               (cli_flag(cli, "--top") && !out->peak);
  int by = cli_flag(cli, "--depth") ? HL_BY_SCOPE : HL_BY_INSTRUCTION, order = HL_ORDER_TIME;
  if (!read_word(cli, "--by", hl_share_words, HL_SHARE_BYS, &by) ||
      !read_word(cli, "--sort", hl_order_words, HL_SHARE_ORDERS, &order) ||
      !cli_integer(cli, "--top", 0, INT32_MAX, &out->top) ||
      !cli_integer(cli, "--depth", 1, 1000, &out->depth))
    return false;
  out->by = (HlShareBy)by;
  out->order = (HlShareOrder)order;
  if (out->depth > 0 && out->by != HL_BY_SCOPE) {
    cli_usage(cli, "--depth is of --by=scope");
    return false;
  }
  const char *target = cli_value(cli, "--target");
  out->target = target ? hl_target_load(cli->cx, out->arena, target) : NULL;
  return out->target || !target;
}

void cli_shares_free(CliShares *s) {
  hl_arena_free(s->arena);
}

static int64_t rows(const CliShares *s, int n) {
  return s->top == 0 || s->top > n ? n : s->top;
}

// --- Costs -----------------------------------------------------------------------------------------------

static const char *time_text(double seconds, char *room, size_t n) {
  static const char *const units[] = {"s", "ms", "us", "ns"};
  int k = 0;
  while (k < 3 && seconds > 0 && seconds < 1) {
    seconds *= 1000;
    k++;
  }
  base_snprintf(room, n, "%.2f %s", seconds, units[k]);
  return room;
}

static double bytes_of(const HlCost *cost) {
  return cost->bytes_read + cost->bytes_written;
}

static double percent(double part, double all) {
  return all > 0 ? 100 * part / all : 0;
}

static double measure(const HlShare *s, HlShareOrder order) {
  const double of[HL_SHARE_ORDERS] = {s->seconds,
                                      s->cost.flops,
                                      bytes_of(&s->cost),
                                      s->cost.transcendentals,
                                      s->cost.collective_bytes,
                                      (double)s->steps};
  return of[order];
}

static void put_share(HlBuf *out, const CliShares *s, const HlShare *row, const HlShare *all) {
  char a[32], b[32], c[32], d[32];
  hl_buf_printf(out, "  %5.1f%% %11s %10s %12s %7" PRId64 " %9s",
                percent(measure(row, s->order), measure(all, s->order)),
                time_text(row->seconds, a, sizeof a),
                cli_short_number(row->cost.flops, false, b, sizeof b),
                cli_short_number(bytes_of(&row->cost), true, c, sizeof c), row->steps,
                cli_short_number(row->runs, false, d, sizeof d));
  hl_buf_printf(out, "  %s",
                *row->name            ? row->name
                : s->by == HL_BY_LOOP ? "(in no loop)"
                                      : "(unknown)");
}

// What is not in the name: an instruction's op and line, how often a loop turns.
static void put_about(HlBuf *out, const CliShares *s, const HlShare *row) {
  if (!row->inst)
    return;
  if (s->by == HL_BY_LOOP) {
    const int64_t trips = hl_trip_count(row->inst);
    if (trips < 0)
      hl_buf_puts(out, ", iterations not known");
    else
      hl_buf_printf(out, ", %" PRId64 " iteration%s", trips, trips == 1 ? "" : "s");
    return;
  }
  const CpuSource source = cpu_source(row->inst);
  hl_buf_printf(out, "  %s", hl_op_text((HlOp)row->inst->op));
  if (source.op_name)
    hl_buf_printf(out, "  %s", source.op_name);
  if (source.file)
    hl_buf_printf(out, "  %s:%d", source.file, source.line);
}

static void costs_text(HlBuf *out, const CliShares *s, const HlShares *shares,
                       const HlTarget *target) {
  const int64_t n = rows(s, shares->n);
  hl_buf_printf(out, "\n  costs by %s, by falling %s; times are estimated for %s (roofline)\n",
                hl_share_words[s->by], hl_order_words[s->order], target->name);
  hl_buf_puts(out, "   share        time      flops        bytes   steps      runs\n");
  for (int64_t k = 0; k < n; k++) {
    put_share(out, s, &shares->at[k], &shares->all);
    put_about(out, s, &shares->at[k]);
    hl_buf_putc(out, '\n');
  }
  HlShare all = shares->all;
  all.name = "all";
  put_share(out, s, &all, &all);
  if (n < shares->n)
    hl_buf_printf(out, "; %" PRId64 " rows are not shown (--top=0 shows all)", shares->n - n);
  hl_buf_putc(out, '\n');
  if (shares->loops_unknown)
    hl_buf_printf(out, "  %" PRId64 " loop%s counted once: nobody says how often %s\n",
                  shares->loops_unknown, shares->loops_unknown == 1 ? " is" : "s are",
                  shares->loops_unknown == 1 ? "it turns" : "they turn");
}

static void share_json(HlBuf *out, const HlShare *row) {
  json_open(out, NULL, '{');
  json_text(out, "name", row->name);
  json_int(out, "steps", row->steps);
  json_count(out, "runs", row->runs);
  json_number(out, "seconds", row->seconds);
  json_count(out, "flops", row->cost.flops);
  json_count(out, "transcendentals", row->cost.transcendentals);
  json_count(out, "bytes_read", row->cost.bytes_read);
  json_count(out, "bytes_written", row->cost.bytes_written);
  json_count(out, "collective_bytes", row->cost.collective_bytes);
  if (row->inst) {
    const CpuSource source = cpu_source(row->inst);
    json_text(out, "opcode", hl_op_text((HlOp)row->inst->op));
    if (source.op_name)
      json_text(out, "op_name", source.op_name);
    if (source.file) {
      json_text(out, "source_file", source.file);
      json_int(out, "source_line", source.line);
    }
  }
  json_close(out, '}');
}

static void costs_json(HlBuf *out, const CliShares *s, const HlShares *shares,
                       const HlTarget *target) {
  const int64_t n = rows(s, shares->n);
  json_open(out, "costs", '{');
  json_text(out, "by", hl_share_words[s->by]);
  json_text(out, "target", target->name);
  json_int(out, "groups", shares->n);
  json_int(out, "loops_unknown", shares->loops_unknown);
  json_number(out, "seconds", shares->all.seconds);
  json_open(out, "rows", '[');
  for (int64_t k = 0; k < n; k++)
    share_json(out, &shares->at[k]);
  json_close(out, ']');
  json_close(out, '}');
}

// --- Memory ---------------------------------------------------------------------------------------------

static void put_value(HlBuf *out, const HlInst *inst, const HlShape *shape) {
  const CpuSource source = cpu_source(inst);
  hl_buf_printf(out, "%s  %s ", inst->name->text, hl_op_text((HlOp)inst->op));
  hl_shape_print(out, shape, false);
  if (source.op_name)
    hl_buf_printf(out, "  %s", source.op_name);
  if (source.file)
    hl_buf_printf(out, "  %s:%d", source.file, source.line);
}

static void advice_text(HlBuf *out, const HlAdvice *a) {
  char room[32];
  hl_buf_printf(out, "  %-14s %12s  %s", hl_advice_words[a->kind],
                cli_short_number((double)a->saves, true, room, sizeof room), a->inst->name->text);
  if (a->kind == HL_ADVICE_DONATE)
    hl_buf_printf(out, ": a caller that gives it away lets result %d take its place", a->output);
  else if (a->kind == HL_ADVICE_ALIAS)
    hl_buf_puts(out, ": a copy of what is held as well");
  else
    hl_buf_puts(out, ": cheap to make again from what is held anyway");
  hl_buf_putc(out, '\n');
}

static void peak_text(HlBuf *out, const CliShares *s, const HlPeak *p, const HlTarget *target) {
  char a[32], b[32], c[32], d[32], e[32];
  const int64_t n = rows(s, p->n_held), tips = rows(s, p->n_advice);
  hl_buf_printf(out,
                "\n  memory by buffer assignment for %s: %s: parameters %s, results %s, constants "
                "%s, temporaries %s\n",
                target->name, cli_short_number((double)p->total, true, a, sizeof a),
                cli_short_number((double)p->parameters, true, b, sizeof b),
                cli_short_number((double)p->outputs, true, c, sizeof c),
                cli_short_number((double)p->constants, true, d, sizeof d),
                cli_short_number((double)p->temporaries, true, e, sizeof e));
  hl_buf_puts(out, "   share        bytes  held as    when temporaries take the most\n");
  for (int64_t k = 0; k < n; k++) {
    const HlHeld *h = &p->held[k];
    hl_buf_printf(out, "  %5.1f%% %12s  %-9s  ", percent((double)h->bytes, (double)p->total),
                  cli_short_number((double)h->bytes, true, a, sizeof a), hl_held_words[h->kind]);
    put_value(out, h->inst, h->shape);
    hl_buf_putc(out, '\n');
  }
  if (n < p->n_held)
    hl_buf_printf(out, "  and %" PRId64 " others (--top=0 shows all)\n", p->n_held - n);
  hl_buf_printf(out, "\n  what would save memory%s\n",
                p->n_advice ? "       bytes" : ": nothing found");
  for (int64_t k = 0; k < tips; k++)
    advice_text(out, &p->advice[k]);
  if (tips < p->n_advice)
    hl_buf_printf(out, "  and %" PRId64 " others (--top=0 shows all)\n", p->n_advice - tips);
}

static void value_json(HlBuf *out, const HlInst *inst) {
  const CpuSource source = cpu_source(inst);
  json_text(out, "instruction", inst->name->text);
  json_text(out, "computation", inst->comp->name->text);
  json_text(out, "opcode", hl_op_text((HlOp)inst->op));
  if (source.op_name)
    json_text(out, "op_name", source.op_name);
  if (source.file) {
    json_text(out, "source_file", source.file);
    json_int(out, "source_line", source.line);
  }
}

static void peak_json(HlBuf *out, const CliShares *s, const HlPeak *p, const HlTarget *target) {
  json_open(out, "memory", '{');
  json_text(out, "target", target->name);
  json_int(out, "total", p->total);
  json_int(out, "parameters", p->parameters);
  json_int(out, "results", p->outputs);
  json_int(out, "constants", p->constants);
  json_int(out, "temporaries", p->temporaries);
  json_int(out, "values", p->n_held);
  json_open(out, "held", '[');
  for (int64_t k = 0; k < rows(s, p->n_held); k++) {
    HlBuf shape = {0};
    hl_shape_print(&shape, p->held[k].shape, false);
    json_open(out, NULL, '{');
    value_json(out, p->held[k].inst);
    json_text(out, "held_as", hl_held_words[p->held[k].kind]);
    json_bytes(out, "shape", shape.at, shape.n);
    json_int(out, "bytes", p->held[k].bytes);
    json_close(out, '}');
    hl_buf_free(&shape);
  }
  json_close(out, ']');
  json_open(out, "advice", '[');
  for (int64_t k = 0; k < rows(s, p->n_advice); k++) {
    const HlAdvice *a = &p->advice[k];
    json_open(out, NULL, '{');
    json_text(out, "kind", hl_advice_words[a->kind]);
    value_json(out, a->inst);
    if (a->kind == HL_ADVICE_DONATE)
      json_int(out, "result", a->output);
    json_int(out, "saves", a->saves);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
}

// --- Both -----------------------------------------------------------------------------------------------

bool cli_shares(Cli *cli, const CliShares *s, const HlModule *m, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlTarget *target = s->target ? s->target : hl_target_of_module(m);
  bool ok = true;
  if (s->costs) {
    const HlShares shares = hl_shares(arena, m, target, s->by, s->order, (int)s->depth);
    if (cli->json)
      costs_json(out, s, &shares, target);
    else
      costs_text(out, s, &shares, target);
  }
  if (s->peak) {
    HlPeak peak;
    ok = hl_peak(cli->cx, arena, m, target, true, &peak);
    if (ok && cli->json)
      peak_json(out, s, &peak, target);
    else if (ok)
      peak_text(out, s, &peak, target);
  }
  hl_arena_free(arena);
  return ok;
}
