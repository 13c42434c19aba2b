// cpu/fft/run.c: brings lines into planes, transforms them, brings them back.

#include <string.h>

#include "cpu/fft/fft.h"
#include "cpu/vec/vec.h"

typedef struct Run {
  const FftKernel *f;
  const FftStage *s;
  const char *in;
  char *out;
  int64_t planes;  // of a chunk
} Run;

// Some lines in memory: where the first begins, how far apart lines and their points are, in elements of `size` bytes.
typedef struct Lines {
  char *at;
  int64_t line, step;
  int lines, size;
} Lines;

// Between lines and [n][lanes] elements; lanes that have no line are left.
static void gather(const FftKernel *f, const Lines *l, int64_t n, int lanes, char *box) {
  const size_t size = (size_t)l->size;
  if (l->step == 1) {
    vec_transpose(f->simd, l->size)(l->lines, n, box, lanes, l->at, l->line);
    return;
  }
  for (int64_t k = 0; k < n; k++)
    for (int j = 0; j < l->lines; j++)
      memcpy(box + (size_t)(k * lanes + j) * size,
             l->at + (k * l->step + j * l->line) * (int64_t)size, size);
}

static void scatter(const FftKernel *f, const Lines *l, int64_t n, int lanes, const char *box) {
  const size_t size = (size_t)l->size;
  if (l->step == 1) {
    vec_transpose(f->simd, l->size)(n, l->lines, l->at, l->line, box, lanes);
    return;
  }
  for (int64_t k = 0; k < n; k++)
    for (int j = 0; j < l->lines; j++)
      memcpy(l->at + (k * l->step + j * l->line) * (int64_t)size,
             box + (size_t)(k * lanes + j) * size, size);
}

// Lines of the next plane: those beside each other first, then those of the outer dimensions.
static void find_lines(const Run *run, int64_t plane, Lines *in, Lines *out) {
  const FftStage *s = run->s;
  const int lanes = run->f->level->lanes[run->f->type], size = run->f->type == 0 ? 8 : 16;
  const int64_t across = (s->lines + lanes - 1) / lanes, first = plane % across * lanes;
  int64_t from = first * s->in_line, to = first * s->out_line, rest = plane / across;
  for (int k = 0; k < s->n_outer; k++) {
    from += rest % s->outer[k] * s->in_outer[k];
    to += rest % s->outer[k] * s->out_outer[k];
    rest /= s->outer[k];
  }
  const int n = (int)(s->lines - first < lanes ? s->lines - first : lanes);
  *in = (Lines){
      .line = s->in_line, .step = s->in_step, .lines = n, .size = s->real_in ? size / 2 : size};
  in->at = (char *)run->in + from * in->size;
  *out = (Lines){
      .line = s->out_line, .step = s->out_step, .lines = n, .size = s->real_out ? size / 2 : size};
  out->at = run->out + to * out->size;
}

static void load(const Run *run, const Lines *l, char *box, void *plane) {
  const FftKernel *f = run->f;
  const FftStage *s = run->s;
  const int lanes = f->level->lanes[f->type];
  const bool direct = l->line == 1 && l->lines == lanes;
  if (!direct) {
    if (l->lines < lanes)
      memset(box, 0, (size_t)(s->n_in * lanes * l->size));
    gather(f, l, s->n_in, lanes, box);
  }
  const char *from = direct ? l->at : box;
  const int64_t step = direct ? l->step : lanes;
  if (s->real_in)
    f->level->split_real[f->type](s->n_in, from, step, plane);
  else
    f->level->split[f->type](s->n_in, from, step, plane, s->inverse && !s->real_out);
}

static void store(const Run *run, const Lines *l, char *box, const void *plane) {
  const FftKernel *f = run->f;
  const FftStage *s = run->s;
  const int lanes = f->level->lanes[f->type];
  const bool direct = l->line == 1 && l->lines == lanes;
  char *to = direct ? l->at : box;
  const int64_t step = direct ? l->step : lanes;
  const double scale = s->inverse ? 1 / (double)s->fft->n : 1;
  if (s->real_out)
    f->level->join_real[f->type](s->n_out, plane, to, step, scale);
  else
    f->level->join[f->type](s->n_out, plane, to, step, s->inverse, scale);
  if (!direct)
    scatter(f, l, s->n_out, lanes, box);
}

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Run *run = user;
  const FftKernel *f = run->f;
  const FftStage *s = run->s;
  const Fft *fft = s->fft;
  const size_t point = (size_t)f->level->lanes[f->type] * (f->type == 0 ? 8 : 16);
  const size_t plane = (size_t)(s->n + 1) * point,
               work = fft->longer ? (size_t)fft->longer->n * 2 * point : 0;
  char *box = cpu_scratch(member, 3 * plane + work);
  if (!box)
    return false;
  char *a = box + plane, *b = a + plane, *more = b + plane;
  const int64_t end =
      (chunk + 1) * run->planes < s->n_planes ? (chunk + 1) * run->planes : s->n_planes;
  for (int64_t k = chunk * run->planes; k < end; k++) {
    Lines in, out;
    find_lines(run, k, &in, &out);
    load(run, &in, box, a);
    if (s->real_out) {
      f->level->fold[f->type](s->n, a, b, s->root);
      f->level->transform[f->type](fft, b, a, more);
      store(run, &out, box, a);
    } else if (s->real_in) {
      f->level->transform[f->type](fft, a, b, more);
      f->level->unfold[f->type](s->n, b, a, s->root);
      store(run, &out, box, a);
    } else {
      f->level->transform[f->type](fft, a, b, more);
      if (s->twist) {
        const int64_t lanes = f->level->lanes[f->type], across = (s->lines + lanes - 1) / lanes;
        f->level->twist[f->type](s->n, b,
                                 (const char *)s->twist + (size_t)(k % across * s->n) * point);
      }
      store(run, &out, box, b);
    }
  }
  return true;
}

bool fft_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const FftKernel *f = (const FftKernel *)kernel;
  char *between = f->between > 0 ? cpu_team_scratch(team, f->between) : NULL;
  if (f->between > 0 && !between)
    return false;
  char *const array[] = {buffer[0], buffer[1], between};
  for (int k = 0; k < f->n_stages; k++) {
    const FftStage *s = &f->stage[k];
    const int64_t few = 8192 / s->n;  // points of a chunk
    Run run = {
        .f = f, .s = s, .in = array[s->from], .out = array[s->to], .planes = few > 1 ? few : 1};
    const int64_t chunks = (s->n_planes + run.planes - 1) / run.planes;
    if (!cpu_parallel(team, chunks, kernel->seconds / f->n_stages, run_chunk, &run))
      return false;
  }
  return true;
}
