// sim/net/system.c: system files: reading, printing, finding, and changing a fact.
//
//   # A comment.
//   system h100                    what it is called
//   about DGX H100 cluster         a line about it
//   device h100                    of hilo/target.h
//   share 0.5                      of that: a core of two, say (not given: all of it)
//   start 10us                     before the first message of an exchange
//   efficiency 0.85                share of a link's bandwidth that messages get
//   switch 8 bandwidth 450GB/s latency 0.5us
//   switch 128 bandwidth 50GB/s latency 1.2us
//
// The last lines are levels, the innermost first: a shape, how many places, and words with values. "torus 4x8" is two rings
// that work at the same time, "mesh 4x8" two lines.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "sim/net/net.h"

static const char *const shape_words[] = {"ring", "line",     "switch",
                                          "full", "fat-tree", "dragonfly"};
_Static_assert(HL_COUNT_OF(shape_words) == HL_NET_DRAGONFLY + 1, "a word for each shape");

const char *hl_net_shape_text(HlNetShape shape) {
  return shape_words[shape];
}

int net_word(HlStr word, const char *const *words, int n) {
  for (int k = 0; k < n; k++)
    if (hl_str_is(word, words[k]))
      return k;
  return -1;
}

// --- Quantities -----------------------------------------------------------------------------------------

typedef struct Prefix {
  const char *text;
  double factor;
} Prefix;

static double prefix_factor(const char *text, size_t n) {
  static const Prefix prefixes[] = {
      {"", 1},         {"n", 1e-9},        {"u", 1e-6},          {"m", 1e-3}, {"k", 1e3},
      {"K", 1e3},      {"M", 1e6},         {"G", 1e9},           {"T", 1e12}, {"Ki", 1024},
      {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776}};
  for (int k = 0; k < HL_COUNT_OF(prefixes); k++)
    if (strlen(prefixes[k].text) == n && memcmp(prefixes[k].text, text, n) == 0)
      return prefixes[k].factor;
  return 0;
}

bool hl_quantity(const char *text, const char *unit, double *out) {
  char *end;
  const double value = base_read_double(text, &end);
  if (end == text || !isfinite(value) || value < 0)
    return false;
  const size_t n = strlen(end), n_unit = strlen(unit);
  double factor = 1;
  if (n > 0) {
    double bits = 1;
    size_t tail = n_unit;
    if (n < n_unit || memcmp(end + n - n_unit, unit, n_unit) != 0) {
      // Networks are sold in bits.
      if (strcmp(unit, "B/s") != 0 || n < 5 || strcmp(end + n - 5, "bit/s") != 0)
        return false;
      bits = 1.0 / 8;
      tail = 5;
    }
    factor = prefix_factor(end, n - tail) * bits;
    if (factor == 0)
      return false;
  }
  *out = value * factor;
  return isfinite(*out);
}

// --- Reading ----------------------------------------------------------------------------------------------

enum { MAX_WORDS = 64 };

typedef struct Reader {
  HlCx *cx;
  HlArena *arena;
  const HlSource *source;
  HlSystem *s;
  const char *base;
  HlStr word[MAX_WORDS];  // of the line
  int n_words;
  unsigned said;  // a bit for each Key
} Reader;

static HlPos place_of(const Reader *r, HlStr word) {
  return (HlPos){r->source, (HlLoc)(word.at - r->base + 1)};
}

// Splits a line at blanks; what follows # is a comment. The rest of an "about" is one word.
static bool split(Reader *r, const char *line, const char *end) {
  r->n_words = 0;
  while (line < end && *line != '#') {
    if (is_space(*line)) {
      line++;
      continue;
    }
    const char *at = line;
    const bool rest = r->n_words == 1 && hl_str_is(r->word[0], "about");
    while (line < end && (rest || (!is_space(*line) && *line != '#')))
      line++;
    const char *stop = line;
    while (rest && stop > at && is_space(stop[-1]))
      stop--;
    if (r->n_words == MAX_WORDS)
      return hl_error(r->cx, place_of(r, (HlStr){at, 1}), "more than %d words in a line",
                      MAX_WORDS);
    r->word[r->n_words++] = (HlStr){at, (size_t)(stop - at)};
  }
  return true;
}

static bool read_quantity(Reader *r, HlStr word, const char *unit, double *out) {
  const char *text = hl_arena_strndup(r->arena, word.at, word.n);
  return hl_quantity(text, unit, out) ||
         hl_error(r->cx, place_of(r, word), "expected a number%s%s, found '%s'",
                  *unit ? " in " : "", unit, text);
}

static bool read_number(Reader *r, HlStr word, double least, double most, double *out) {
  return read_quantity(r, word, "", out) &&
         ((*out >= least && *out <= most) ||
          hl_error(r->cx, place_of(r, word), "expected a number from %g to %g, found '%.*s'", least,
                   most, (int)word.n, word.at));
}

static bool read_count(Reader *r, HlStr word, int64_t *out) {
  int64_t value = 0;
  for (size_t k = 0; k < word.n; k++) {
    if (!is_digit(word.at[k]) || value > (1 << 24))
      return hl_error(r->cx, place_of(r, word), "expected a whole number up to 2^24, found '%.*s'",
                      (int)word.n, word.at);
    value = 10 * value + (word.at[k] - '0');
  }
  if (value < 1 || value > (1 << 24))
    return hl_error(r->cx, place_of(r, word),
                    "expected a whole number from 1 to 2^24, found '%.*s'", (int)word.n, word.at);
  *out = value;
  return true;
}

typedef struct LevelWord {
  const char *word, *unit;  // unit NULL: a count
  size_t at;
} LevelWord;
static const LevelWord level_words[] = {
    {"bandwidth", "B/s", offsetof(HlNetLevel, bandwidth)},
    {"latency", "s", offsetof(HlNetLevel, latency)},
    {"far-bandwidth", "B/s", offsetof(HlNetLevel, far_bandwidth)},
    {"far-latency", "s", offsetof(HlNetLevel, far_latency)},
    {"down", NULL, offsetof(HlNetLevel, down)},
    {"up", NULL, offsetof(HlNetLevel, up)},
    {"routers", NULL, offsetof(HlNetLevel, routers)},
    {"hosts", NULL, offsetof(HlNetLevel, hosts)},
};

static const LevelWord *find_level_word(HlStr word) {
  for (int k = 0; k < HL_COUNT_OF(level_words); k++)
    if (hl_str_is(word, level_words[k].word))
      return &level_words[k];
  return NULL;
}

static bool read_level_words(Reader *r, HlNetLevel *level) {
  for (int k = 2; k < r->n_words; k++) {
    if (hl_str_is(r->word[k], "shared")) {
      level->shared = true;
      continue;
    }
    const LevelWord *word = find_level_word(r->word[k]);
    if (!word) {
      hl_error(r->cx, place_of(r, r->word[k]), "'%.*s' is no property of a level",
               (int)r->word[k].n, r->word[k].at);
      hl_hint(r->cx, "there are bandwidth, latency, far-bandwidth, far-latency, down, up, routers, "
                     "hosts and shared");
      return false;
    }
    if (k + 1 == r->n_words)
      return hl_error(r->cx, place_of(r, r->word[k]), "'%s' has no value", word->word);
    void *at = (char *)level + word->at;
    if (word->unit ? !read_quantity(r, r->word[++k], word->unit, at)
                   : !read_count(r, r->word[++k], at))
      return false;
  }
  return true;
}

#define OUT_OF_RANGE "links from 1 B/s to 10^18 B/s, and latencies up to 10^6 s"
// Beyond these no sum of times is a number any more.
static bool in_range(const HlNetLevel *level) {
  return level->bandwidth >= 1 && level->bandwidth <= 1e18 && level->latency <= 1e6 &&
         (level->far_bandwidth == 0 || level->far_bandwidth >= 1) && level->far_bandwidth <= 1e18 &&
         level->far_latency <= 1e6;
}

static bool check_level(Reader *r, HlNetLevel *level) {
  const HlPos pos = place_of(r, r->word[0]);
  if (!(level->bandwidth > 0))
    return hl_error(r->cx, pos, "a level has a bandwidth: say 'bandwidth 50GB/s'");
  if (!in_range(level))
    return hl_error(r->cx, pos, OUT_OF_RANGE);
  if (level->far_bandwidth == 0)
    level->far_bandwidth = level->bandwidth;
  if (level->far_latency == 0)
    level->far_latency = level->latency;
  if (level->shape == HL_NET_FAT_TREE && (!level->down || !level->up))
    return hl_error(r->cx, pos, "a fat tree has leaves: say 'down 16 up 8'");
  if (level->shape == HL_NET_DRAGONFLY && (!level->routers || !level->hosts))
    return hl_error(r->cx, pos, "a dragonfly has groups: say 'hosts 4 routers 8'");
  if (level->shape == HL_NET_DRAGONFLY && level->n % (level->routers * level->hosts))
    return hl_error(r->cx, pos, "%lld places are no whole number of groups of %lld",
                    (long long)level->n, (long long)(level->routers * level->hosts));
  return true;
}

// "4x8x2": levels that are alike but for their numbers of places.
static bool read_level(Reader *r, HlNetShape shape, bool together) {
  if (r->n_words < 2)
    return hl_error(r->cx, place_of(r, r->word[0]), "a level says how many places it connects");
  HlNetLevel like = {.shape = shape};
  if (!read_level_words(r, &like))
    return false;
  const int first = r->s->n_levels;
  HlStr rest = r->word[1];
  for (;;) {
    const char *cross = together ? memchr(rest.at, 'x', rest.n) : NULL;
    const HlStr count = {rest.at, cross ? (size_t)(cross - rest.at) : rest.n};
    HlNetLevel level = like;
    level.torus = together ? first + 1 : 0;
    if (!read_count(r, count, &level.n) || !check_level(r, &level))
      return false;
    if (r->s->n_levels == HL_NET_LEVELS)
      return hl_error(r->cx, place_of(r, r->word[0]), "more than %d levels", HL_NET_LEVELS);
    r->s->level[r->s->n_levels++] = level;
    if (!cross)
      return true;
    rest = (HlStr){cross + 1, rest.n - count.n - 1};
  }
}

static bool read_device(Reader *r, HlStr word) {
  r->s->device = hl_target_find(hl_arena_strndup(r->arena, word.at, word.n));
  if (r->s->device)
    return true;
  hl_error(r->cx, place_of(r, word), "no device is called '%.*s'", (int)word.n, word.at);
  hl_hint(r->cx, "hilo targets lists them");
  return false;
}

typedef enum Key {
  KEY_SYSTEM,
  KEY_ABOUT,
  KEY_DEVICE,
  KEY_START,
  KEY_EFFICIENCY,
  KEY_REDUCE,
  KEY_SLOWDOWN,
  KEY_SHARE,
  KEY_TORUS,
  KEY_MESH,
  KEYS
} Key;
static const char *const key_words[] = {"system", "about",    "device", "start", "efficiency",
                                        "reduce", "slowdown", "share",  "torus", "mesh"};
_Static_assert(HL_COUNT_OF(key_words) == KEYS, "a word for each key");

static bool read_value(Reader *r, Key key, HlStr word) {
  HlSystem *s = r->s;
  switch (key) {
  case KEY_SYSTEM: s->name = hl_arena_strndup(r->arena, word.at, word.n); return true;
  case KEY_ABOUT: s->about = hl_arena_strndup(r->arena, word.at, word.n); return true;
  case KEY_DEVICE: return read_device(r, word);
  case KEY_START: return read_quantity(r, word, "s", &s->start);
  case KEY_EFFICIENCY: return read_number(r, word, 1e-6, 1, &s->efficiency);
  case KEY_REDUCE: return read_quantity(r, word, "B/s", &s->reduce);
  case KEY_SHARE: return read_number(r, word, 1e-6, 1, &s->share);
  default: return read_number(r, word, 1, 1e6, &s->slowdown);
  }
}

static bool read_line(Reader *r) {
  const HlStr head = r->word[0];
  const int shape = net_word(head, shape_words, HL_COUNT_OF(shape_words));
  if (shape >= 0)
    return read_level(r, (HlNetShape)shape, false);
  const int key = net_word(head, key_words, KEYS);
  if (key == KEY_TORUS || key == KEY_MESH)
    return read_level(r, key == KEY_TORUS ? HL_NET_RING : HL_NET_LINE, true);
  if (key < 0) {
    hl_error(r->cx, place_of(r, head), "'%.*s' is nothing that a system file says", (int)head.n,
             head.at);
    hl_hint(r->cx, "lines begin with system, about, device, share, start, efficiency, reduce, "
                   "slowdown, or a shape: ring, line, "
                   "torus, mesh, switch, full, fat-tree, dragonfly");
    return false;
  }
  if (r->n_words != 2)
    return hl_error(r->cx, place_of(r, head), "'%s' has one value, found %d", key_words[key],
                    r->n_words - 1);
  if (r->said >> key & 1)
    return hl_error(r->cx, place_of(r, head), "'%s' is said twice", key_words[key]);
  r->said |= 1u << key;
  return read_value(r, (Key)key, r->word[1]);
}

// A device that is a part of what the table of targets describes: a core of a chip of two.
static void take_share(HlArena *arena, HlSystem *s) {
  if (s->share == 1)
    return;
  HlTarget *t = hl_arena_copy(arena, s->device, sizeof *s->device);
  t->memory_bandwidth *= s->share;
  t->memory_bytes = (int64_t)((double)t->memory_bytes * s->share);
  for (int k = 0; k < HL_DTYPE_COUNT; k++) {
    t->matrix.of[k] *= s->share;
    t->vector.of[k] *= s->share;
  }
  s->device = t;
}

static bool check_size(Reader *r) {
  double devices = 1;
  for (int k = 0; k < r->s->n_levels; k++)
    devices *= (double)r->s->level[k].n;
  if (devices > (double)(1 << 24))
    return hl_error_kind(r->cx, HL_LIMIT, (HlPos){r->source, 0}, "more than 2^24 devices");
  return true;
}

// What a file is called that does not say what its system is called: without folders and what follows a dot.
static const char *stem_of(HlArena *arena, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const size_t n = strcspn(name, ".");
  return n > 0 ? hl_arena_strndup(arena, name, n) : "system";
}

const HlSystem *hl_system_read(HlCx *cx, HlArena *arena, const HlSource *source) {
  if (net_is_astra(source)) {
    const HlSystem *astra = net_read_astra(cx, arena, source);
    for (int k = 0; astra && k < astra->n_levels; k++)
      if (!in_range(&astra->level[k])) {
        hl_error(cx, (HlPos){source, 0}, OUT_OF_RANGE);
        return NULL;
      }
    return astra;
  }
  const HlStr bytes = hl_source_bytes(source);
  if (bytes.n > 0 && memchr(bytes.at, 0, bytes.n)) {
    hl_error(cx, (HlPos){source, 0}, "no system file: it is no text");
    return NULL;
  }
  HlSystem *s = HL_NEW(arena, HlSystem);
  *s = (HlSystem){.name = "", .about = "", .efficiency = 1, .slowdown = 1, .share = 1};
  Reader r = {cx, arena, source, s, bytes.at, {{0}}, 0, 0};
  const char *const end = bytes.at + bytes.n;
  for (const char *line = bytes.at; line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *stop = newline ? newline : end;
    if (!split(&r, line, stop) || (r.n_words > 0 && !read_line(&r)))
      return NULL;
    line = stop + 1;
  }
  if (!s->device || s->n_levels == 0) {
    hl_error(cx, (HlPos){source, 0}, "no system file: it says %s",
             s->device ? "no level of links" : "no device");
    return NULL;
  }
  if (!(r.said >> KEY_SYSTEM & 1))
    s->name = stem_of(arena, hl_source_name(source));
  if (s->start > 1e6 || s->reduce > 1e18 || (s->reduce > 0 && s->reduce < 1)) {
    hl_error(cx, (HlPos){source, 0}, "a start up to 10^6 s, reducing from 1 B/s to 10^18 B/s");
    return NULL;
  }
  take_share(arena, s);
  return check_size(&r) ? s : NULL;
}

// --- Finding ----------------------------------------------------------------------------------------------

static bool is_path(const char *name) {
  return strchr(name, '/') || strchr(name, '.') || strcmp(name, "-") == 0;
}

static const HlSystem *read_path(HlCx *cx, HlArena *arena, const char *path) {
  HlSource *source = hl_read_file(cx, path);
  if (!source)
    return NULL;
  const HlSystem *s = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  return s;
}

static const HlSystem *read_built_in(HlCx *cx, HlArena *arena, const NetSystemFile *file) {
  HlSource *source = hl_source_new(file->name, file->text, strlen(file->text), false);
  const HlSystem *s = hl_system_read(cx, arena, source);
  hl_source_unref(source);
  return s;
}

const HlSystem *hl_system_find(HlCx *cx, HlArena *arena, const char *name) {
  if (is_path(name))
    return read_path(cx, arena, name);
  const char *names[128];
  int n = 0;
  for (const NetSystemFile *file = net_system_files; file->name; file++) {
    if (strcmp(file->name, name) == 0)
      return read_built_in(cx, arena, file);
    if (n < HL_COUNT_OF(names))
      names[n++] = file->name;
  }
  hl_error(cx, (HlPos){0}, "no system is called '%s'", name);
  const char *near = hl_nearest(hl_str(name), names, n);
  if (near)
    hl_hint(cx, "did you mean '%s'?", near);
  else
    hl_hint(cx, "hilo sim --list-systems names them; a file's name has a '.' or a '/'");
  return NULL;
}

const char *hl_system_name_at(int k) {
  for (int i = 0; i <= k; i++)
    if (!net_system_files[i].name)
      return NULL;
  return net_system_files[k].name;
}

int64_t hl_system_devices(const HlSystem *s) {
  int64_t n = 1;
  for (int k = 0; k < s->n_levels; k++)
    n *= s->level[k].n;
  return n;
}

// --- Printing -----------------------------------------------------------------------------------------------

static void print_words(const HlNetLevel *level, HlBuf *out) {
  hl_buf_printf(out, "%s bandwidth %.17gB/s latency %.17gs", level->shared ? " shared" : "",
                level->bandwidth, level->latency);
  if (level->far_bandwidth != level->bandwidth || level->far_latency != level->latency)
    hl_buf_printf(out, " far-bandwidth %.17gB/s far-latency %.17gs", level->far_bandwidth,
                  level->far_latency);
  if (level->shape == HL_NET_FAT_TREE)
    hl_buf_printf(out, " down %lld up %lld", (long long)level->down, (long long)level->up);
  if (level->shape == HL_NET_DRAGONFLY)
    hl_buf_printf(out, " hosts %lld routers %lld", (long long)level->hosts,
                  (long long)level->routers);
  hl_buf_putc(out, '\n');
}

void hl_system_print(const HlSystem *s, HlBuf *out) {
  if (*s->name)
    hl_buf_printf(out, "system %s\n", s->name);
  if (*s->about)
    hl_buf_printf(out, "about %s\n", s->about);
  hl_buf_printf(out, "device %s\nstart %.17gs\nefficiency %.17g\nslowdown %.17g\n", s->device->name,
                s->start, s->efficiency, s->slowdown);
  if (s->share != 1)
    hl_buf_printf(out, "share %.17g\n", s->share);
  if (s->reduce > 0)
    hl_buf_printf(out, "reduce %.17gB/s\n", s->reduce);
  for (int k = 0; k < s->n_levels;) {
    const HlNetLevel *level = &s->level[k];
    const bool ring = level->shape == HL_NET_RING;
    hl_buf_puts(out, level->torus ? (ring ? "torus" : "mesh") : hl_net_shape_text(level->shape));
    const int first = k;
    do
      hl_buf_printf(out, "%c%lld", k == first ? ' ' : 'x', (long long)s->level[k].n);
    while (++k < s->n_levels && level->torus && s->level[k].torus == level->torus);
    print_words(level, out);
  }
}

// --- Changing -----------------------------------------------------------------------------------------------

// Longest first, the outermost: sizes of a torus stay whole.
const HlSystem *hl_system_resize(HlCx *cx, HlArena *arena, const HlSystem *system,
                                 int64_t devices) {
  HlSystem *s = hl_arena_copy(arena, system, sizeof *system);
  int64_t have = hl_system_devices(s);
  if (devices < 1 || devices > 1 << 24) {
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "a system has from 1 to 2^24 devices");
    return NULL;
  }
  for (int k = s->n_levels - 1; k >= 0 && have != devices; k--) {
    HlNetLevel *level = &s->level[k];
    const int64_t others = have / level->n;
    const int64_t group = level->shape == HL_NET_DRAGONFLY ? level->routers * level->hosts : 1;
    if (devices % others == 0 && devices / others % group == 0) {
      level->n = devices / others;
      return s;
    }
    if (group == 1 && others >= devices && (k > 0)) {
      have = others;  // the level is not needed at all
      level->n = 1;
    }
  }
  if (have == devices)
    return s;
  if (s->n_levels > 0 && s->level[0].shape != HL_NET_DRAGONFLY && have == s->level[0].n) {
    s->level[0].n = devices;
    return s;
  }
  hl_error(cx, (HlPos){0}, "system %s cannot have %lld devices: its inner levels hold %lld",
           s->name, (long long)devices,
           (long long)(hl_system_devices(system) / system->level[system->n_levels - 1].n));
  return NULL;
}

typedef struct Fact {
  const char *name, *unit;
  size_t at, far;  // far: of the links that go with it; 0: none
  bool of_level;
} Fact;
static const Fact facts[] = {
    {"bandwidth", "B/s", offsetof(HlNetLevel, bandwidth), offsetof(HlNetLevel, far_bandwidth),
     true},
    {"latency", "s", offsetof(HlNetLevel, latency), offsetof(HlNetLevel, far_latency), true},
    {"start", "s", offsetof(HlSystem, start), 0, false},
    {"efficiency", "", offsetof(HlSystem, efficiency), 0, false},
    {"reduce", "B/s", offsetof(HlSystem, reduce), 0, false},
    {"slowdown", "", offsetof(HlSystem, slowdown), 0, false},
};

static void change(double *at, bool times, double value) {
  *at = times ? *at * value : value;
}

// "memory=2x" and "compute=2x" are of the device, of which a copy is made.
static bool change_device(HlArena *arena, HlSystem *s, HlStr what, double factor) {
  HlTarget *t = hl_arena_copy(arena, s->device, sizeof *s->device);
  s->device = t;
  if (hl_str_is(what, "memory")) {
    t->memory_bandwidth *= factor;
    return true;
  }
  if (!hl_str_is(what, "compute"))
    return false;
  for (int k = 0; k < HL_DTYPE_COUNT; k++) {
    t->matrix.of[k] *= factor;
    t->vector.of[k] *= factor;
  }
  return true;
}

static const Fact *find_fact(HlStr what) {
  for (int k = 0; k < HL_COUNT_OF(facts); k++)
    if (hl_str_is(what, facts[k].name))
      return &facts[k];
  return NULL;
}

// "level1.": the level's number, from 0; -1: all; -2: none such.
static int level_of(const HlSystem *s, HlStr *what) {
  if (what->n < 7 || memcmp(what->at, "level", 5) != 0 || !is_digit(what->at[5]))
    return -1;
  size_t k = 5;
  int level = 0;
  while (k < what->n && is_digit(what->at[k]) && level < 100)
    level = 10 * level + (what->at[k++] - '0');
  if (k >= what->n || what->at[k] != '.' || level >= s->n_levels)
    return -2;
  *what = (HlStr){what->at + k + 1, what->n - k - 1};
  return level;
}

static bool bad_change(HlCx *cx, const char *text) {
  hl_error(cx, (HlPos){0}, "'%s' changes nothing of a system", text);
  hl_hint(cx, "say bandwidth=2x, latency=1us, level1.bandwidth=100GB/s, start=0s, efficiency=0.9, "
              "reduce=1TB/s, slowdown=1, "
              "compute=2x or memory=2x");
  return false;
}

static bool apply_change(HlCx *cx, HlArena *arena, HlSystem *s, const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text)
    return bad_change(cx, text);
  HlStr what = {text, (size_t)(equals - text)};
  double value;
  const size_t n = strlen(equals + 1);
  const bool times = n > 1 && equals[n] == 'x';
  const char *number = hl_arena_strndup(arena, equals + 1, times ? n - 1 : n);
  const int level = level_of(s, &what);
  const Fact *fact = find_fact(what);
  if (level == -2 || (level >= 0 && (!fact || !fact->of_level)))
    return bad_change(cx, text);
  if (!hl_quantity(number, times || !fact ? "" : fact->unit, &value) || (!fact && !times) ||
      (times && !(value > 0)))
    return bad_change(cx, text);
  if (!fact)
    return change_device(arena, s, what, value) || bad_change(cx, text);
  if (!fact->of_level) {
    change((double *)((char *)s + fact->at), times, value);
  } else {
    for (int k = 0; k < s->n_levels; k++)
      if (level < 0 || level == k) {
        change((double *)((char *)&s->level[k] + fact->at), times, value);
        change((double *)((char *)&s->level[k] + fact->far), times, value);
      }
  }
  for (int k = 0; k < s->n_levels; k++)
    if (!in_range(&s->level[k]))
      return bad_change(cx, text);
  return (s->efficiency > 0 && s->efficiency <= 1 && s->slowdown >= 1 && s->slowdown <= 1e6 &&
          s->start <= 1e6 && s->reduce <= 1e18) ||
         bad_change(cx, text);
}

const HlSystem *hl_system_what_if(HlCx *cx, HlArena *arena, const HlSystem *system,
                                  const char *text) {
  HlSystem *s = hl_arena_copy(arena, system, sizeof *system);
  return apply_change(cx, arena, s, text) ? s : NULL;
}
