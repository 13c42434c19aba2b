// cpu/chain/run.c: runs a chain: box by box the first dot, what is between, the second dot.

#include <string.h>

#include "cpu/chain/plan.h"

typedef struct Job {
  const ChainKernel *kernel;
  void *const *buffer;
  char *result;
} Job;

// What a chunk works in.
typedef struct Room {
  char *scores, *between, *kept[2], *work;
} Room;

static size_t greatest(size_t a, size_t b) {
  return a > b ? a : b;
}

// What the parts need; the columns that all boxes share are packed alike for both.
static size_t lay_out(const ChainKernel *c, char *start, Room *room) {
  size_t work = 0, kept[2] = {0, 0};
  for (int k = 0; k <= c->has_rest; k++) {
    const ChainPart *part = &c->part[k];
    work = greatest(work, part->between->scratch);
    for (int d = 0; d < 2; d++) {
      work = greatest(work, dot_alone_bytes(part->dot[d]));
      kept[d] = greatest(kept[d], dot_kept_bytes(part->dot[d]));
    }
  }
  const struct {
    char **to;
    size_t bytes;
  } parts[] = {{&room->scores, c->scores},
               {&room->between, c->between},
               {&room->kept[0], kept[0]},
               {&room->kept[1], kept[1]},
               {&room->work, work}};
  size_t at = 0;
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
    *parts[k].to = start ? start + at : NULL;
    at += (parts[k].bytes + 63) & ~(size_t)63;
  }
  return at;
}

static char *place(const Job *job, const ChainPlace *p, const int64_t *number) {
  int64_t at = p->c;
  for (int d = 0; d < job->kernel->rank; d++)
    at += p->k[d] * number[d];
  return (p->buffer < job->kernel->n_sources ? (char *)job->buffer[p->buffer] : job->result) + at;
}

// Whether the plan reads its second operand packed ahead.
static bool keeps(const DotPlan *plan) {
  return dot_kept_array(plan) == DOT_B && dot_kept_bytes(plan) > 0;
}

static bool run_box(const Job *job, const ChainPart *part, const int64_t *number,
                    const Room *room) {
  void *buffer[2 + CHAIN_MAX_SOURCES] = {room->scores, room->between};
  for (int k = 0; k < part->between->n_sources; k++)
    buffer[2 + k] = job->buffer[part->source[k]];
  const char *kept[2];
  for (int d = 0; d < 2; d++)
    kept[d] = keeps(part->dot[d]) ? room->kept[d] : NULL;
  if (!dot_alone(part->dot[0], place(job, &part->a[0], number), place(job, &part->b[0], number),
                 room->scores, kept[0], room->work))
    return false;
  tile_box_run(part->between, buffer, number, room->work);
  return dot_alone(part->dot[1], room->between, place(job, &part->b[1], number),
                   place(job, &part->a[1], number), kept[1], room->work);
}

// Packs what the boxes of one turn share, unless the last part did so.
static void keep(const Job *job, const ChainPart *part, const ChainPart *last,
                 const int64_t *number, const Room *room) {
  for (int d = 0; d < 2; d++)
    if (keeps(part->dot[d]) && (!last || !keeps(last->dot[d])))
      dot_keep(part->dot[d], place(job, &part->b[d], number), room->kept[d], room->work);
}

static bool run_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Job *job = user;
  const ChainKernel *c = job->kernel;
  int64_t number[CHAIN_MAX_RANK] = {0};
  Room room;
  char *memory = cpu_scratch(member, lay_out(c, NULL, &room));
  if (!memory)
    return false;
  lay_out(c, memory, &room);
  const int64_t across = (c->rows + c->rows_together - 1) / c->rows_together,
                row0 = chunk % across * c->rows_together, first = chunk / across * c->together;
  for (int64_t turn = first; turn < first + c->together && turn < c->outer; turn++) {
    int64_t rest = turn;
    for (int d = c->rank - 1; d >= 0; d--)
      if (d != c->row) {
        number[d] = rest % c->count[d];
        rest /= c->count[d];
      }
    const ChainPart *last = NULL;
    for (int64_t row = row0; row < row0 + c->rows_together && row < c->rows; row++) {
      const ChainPart *part = &c->part[row == c->count[c->row]];
      number[c->row] = part == &c->part[0] ? row : 0;
      if (part != last)
        keep(job, part, last, number, &room);
      last = part;
      if (!run_box(job, part, number, &room))
        return false;
    }
  }
  return true;
}

// The result may be where arrays are that boxes still to come read: then it is made apart.
static bool overlaps(const ChainKernel *c, void *const *buffer) {
  const uintptr_t result = (uintptr_t)buffer[c->n_sources];
  for (int k = 0; k < c->n_sources; k++)
    if ((uintptr_t)buffer[k] < result + (uintptr_t)c->bytes[c->n_sources] &&
        result < (uintptr_t)buffer[k] + (uintptr_t)c->bytes[k])
      return true;
  return false;
}

bool chain_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const ChainKernel *c = (const ChainKernel *)(const void *)kernel;
  Job job = {c, buffer, buffer[c->n_sources]};
  const size_t bytes = (size_t)c->bytes[c->n_sources];
  const bool apart = overlaps(c, buffer);
  if (apart)
    job.result = cpu_team_scratch(team, bytes);
  const int64_t across = (c->rows + c->rows_together - 1) / c->rows_together,
                chunks = (c->outer + c->together - 1) / c->together * across;
  if (!job.result || !cpu_parallel(team, chunks, c->kernel.seconds, run_chunk, &job))
    return false;
  if (apart)
    memcpy(buffer[c->n_sources], job.result, bytes);
  return true;
}
