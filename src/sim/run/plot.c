// sim/run/plot.c: a sweep as a page: times over the values of the first key, a line for each combination of the others, as SVG, and
// all combinations in a table. It opens without a network, and has no script.

#include <math.h>
#include <string.h>

#include "sim/run/run.h"

enum { WIDTH = 900, HEIGHT = 420, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 50, MOST_LINES = 24 };

typedef struct Plot {
  const HlSweep *s;
  HlBuf *out;
  int lines;         // combinations of the keys after the first
  bool exposed;      // what is drawn: of the time, what is exposed
  double low, high;  // of the axis
  bool log;
} Plot;

static const char *const colors[] = {"#3b7dd8", "#e0803a", "#4aa564", "#b3589e",
                                     "#c9a227", "#5aa7b5", "#8a6fd1", "#c2545b"};

static const char *color(int line) {
  return colors[line % HL_COUNT_OF(colors)];
}

static void put_seconds(HlBuf *out, double s) {
  const double scale = s >= 1 ? 1 : s >= 1e-3 ? 1e3 : 1e6;
  hl_buf_printf(out, "%.4g %s", s * scale, scale == 1 ? "s" : scale == 1e3 ? "ms" : "µs");
}

// --- Where things are -----------------------------------------------------------------------------------------

static double x_of(const Plot *p, int value) {
  const int n = p->s->key[0].n;
  const double room = WIDTH - LEFT - RIGHT;
  return LEFT + (n > 1 ? room * value / (n - 1) : room / 2);
}

static double y_of(const Plot *p, double seconds) {
  const double room = HEIGHT - TOP - BOTTOM;
  double part = p->log ? log(fmax(seconds, p->low) / p->low) / log(p->high / p->low)
                       : (seconds - p->low) / (p->high - p->low);
  part = isfinite(part) ? part : 0;
  return HEIGHT - BOTTOM - room * part;
}

static double value_of(const Plot *p, int first, int line) {
  const HlSweepPoint *point = &p->s->point[first * p->lines + line];
  return p->exposed ? point->exposed : point->seconds;
}

static void find_axis(Plot *p) {
  double low = HUGE_VAL, high = 0;
  for (int k = 0; k < p->s->n; k++) {
    const double seconds = value_of(p, k / p->lines, k % p->lines);
    low = seconds > 0 && seconds < low ? seconds : low;
    high = seconds > high ? seconds : high;
  }
  p->log = high > 50 * low;
  p->low = p->log ? low : 0;
  p->high = high > 0 ? high : 1;
}

// --- Drawing --------------------------------------------------------------------------------------------------

static void put_axes(Plot *p) {
  for (int k = 0; k <= 4; k++) {
    const double at = p->log ? p->low * pow(p->high / p->low, k / 4.0) : p->high * k / 4;
    hl_buf_printf(p->out,
                  "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/><text "
                  "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                  LEFT, WIDTH - RIGHT, y_of(p, at), y_of(p, at), LEFT - 8, y_of(p, at) + 4);
    put_seconds(p->out, at);
    hl_buf_puts(p->out, "</text>\n");
  }
  for (int k = 0; k < p->s->key[0].n; k++) {
    hl_buf_printf(p->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(p, k),
                  HEIGHT - BOTTOM + 20);
    hl_buf_xml(p->out, p->s->key[0].value[k]);
    hl_buf_puts(p->out, "</text>\n");
  }
  hl_buf_printf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" class=\"name\">",
                (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
  hl_buf_xml(p->out, p->s->key[0].name);
  hl_buf_puts(p->out, "</text>\n");
}

// "bandwidth=2x, all-reduce=ring": the keys after the first.
static void put_name(const Plot *p, int line) {
  int rest = line, below = p->lines;
  for (int k = 1; k < p->s->n_keys; k++) {
    below /= p->s->key[k].n;
    hl_buf_puts(p->out, k > 1 ? ", " : "");
    hl_buf_xml(p->out, p->s->key[k].name);
    hl_buf_putc(p->out, '=');
    hl_buf_xml(p->out, p->s->key[k].value[rest / below]);
    rest %= below;
  }
  if (p->s->n_keys == 1)
    hl_buf_puts(p->out, p->exposed ? "exposed" : "time");
}

static void put_line(Plot *p, int line) {
  hl_buf_printf(p->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                color(line));
  for (int k = 0; k < p->s->key[0].n; k++)
    hl_buf_printf(p->out, "%.1f,%.1f ", x_of(p, k), y_of(p, value_of(p, k, line)));
  hl_buf_puts(p->out, "\"/>\n");
  for (int k = 0; k < p->s->key[0].n; k++) {
    hl_buf_printf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>", x_of(p, k),
                  y_of(p, value_of(p, k, line)), color(line));
    hl_buf_xml(p->out, p->s->key[0].value[k]);
    hl_buf_puts(p->out, ", ");
    put_name(p, line);
    hl_buf_puts(p->out, ": ");
    put_seconds(p->out, value_of(p, k, line));
    hl_buf_puts(p->out, "</title></circle>\n");
  }
}

static void put_plot(Plot *p, const char *title) {
  find_axis(p);
  hl_buf_printf(p->out, "<h2>%s%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", title,
                p->log ? ", each line of the grid the same number of times as long" : "", WIDTH,
                HEIGHT);
  put_axes(p);
  for (int k = 0; k < p->lines && k < MOST_LINES; k++)
    put_line(p, k);
  hl_buf_puts(p->out, "</svg>\n<p class=\"key\">");
  for (int k = 0; k < p->lines && k < MOST_LINES; k++) {
    hl_buf_printf(p->out, "<span><i style=\"background:%s\"></i>", color(k));
    put_name(p, k);
    hl_buf_puts(p->out, "</span> ");
  }
  if (p->lines > MOST_LINES)
    hl_buf_printf(p->out, "<span>%d lines of %d are drawn; all are in the table</span>", MOST_LINES,
                  p->lines);
  hl_buf_puts(p->out, "</p>\n");
}

static void put_table(const HlSweep *s, HlBuf *out) {
  hl_buf_puts(out, "<h2>All combinations</h2>\n<table><tr>");
  for (int k = 0; k < s->n_keys; k++) {
    hl_buf_puts(out, "<th>");
    hl_buf_xml(out, s->key[k].name);
    hl_buf_puts(out, "</th>");
  }
  hl_buf_puts(out, "<th class=\"n\">time</th><th class=\"n\">exposed</th></tr>\n");
  for (int row = 0; row < s->n; row++) {
    int rest = row, below = s->n;
    hl_buf_puts(out, "<tr>");
    for (int k = 0; k < s->n_keys; k++) {
      below /= s->key[k].n;
      hl_buf_puts(out, "<td>");
      hl_buf_xml(out, s->key[k].value[rest / below]);
      hl_buf_puts(out, "</td>");
      rest %= below;
    }
    hl_buf_puts(out, "<td class=\"n\">");
    put_seconds(out, s->point[row].seconds);
    hl_buf_puts(out, "</td><td class=\"n\">");
    put_seconds(out, s->point[row].exposed);
    hl_buf_puts(out, "</td></tr>\n");
  }
  hl_buf_puts(out, "</table>\n");
}

void hl_sweep_page(const HlSweep *s, HlBuf *out) {
  hl_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
                   "name=\"viewport\" content=\"width=device-width\">\n<title>");
  hl_buf_xml(out, s->program);
  hl_buf_printf(out,
                "</title>\n<style>\n%ssvg { width: 100%% } svg text { font-size: 12px; fill: "
                "var(--soft) } .grid { stroke: var(--line) }\n</style></head><body>\n<h1>",
                run_web_file("style"));
  hl_buf_xml(out, s->program);
  hl_buf_puts(out, "</h1>\n<p>");
  hl_buf_printf(out, "%d combinations on ", s->n);
  hl_buf_xml(out, s->system);
  hl_buf_puts(out, "</p>\n");
  Plot p = {.s = s, .out = out, .lines = s->n / s->key[0].n};
  put_plot(&p, "Time");
  p.exposed = true;
  put_plot(&p, "Exposed exchanges");
  put_table(s, out);
  hl_buf_puts(out, "</body></html>\n");
}
