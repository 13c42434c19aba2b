// cli/view/view_page.c: the states that a page shows, from files, dumps and histories.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "cli/load.h"
#include "cli/select.h"
#include "cli/view/view.h"
#include "hilo/dump.h"
#include "tool/dump_states.h"
#include "tool/view_marks.h"

// --- Which files --------------------------------------------------------------------------------

typedef struct Found {
  DumpState state;
  const char *path;
} Found;

static int by_state(const void *a, const void *b) {
  return dump_state_compare(&((const Found *)a)->state, &((const Found *)b)->state);
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Whether a word names a module of a dump: all of its name, its number, or its name behind that.
static bool names_module(const char *wish, HlStr module) {
  const char *dot = memchr(module.at, '.', module.n);
  const size_t head = dot ? (size_t)(dot - module.at) : module.n;
  return hl_str_is(module, wish) || hl_str_is((HlStr){module.at, head}, wish) ||
         (dot && hl_str_is((HlStr){dot + 1, module.n - head - 1}, wish));
}

static bool several_modules(Cli *cli, const Found *found, int n) {
  HlBuf names = {0};
  for (int k = 0; k < n && names.n < 400; k++)
    if (k == 0 || !hl_str_equal(found[k].state.module, found[k - 1].state.module))
      hl_buf_printf(&names, "%s%.*s", names.n ? ", " : "", (int)found[k].state.module.n,
                    found[k].state.module.at);
  cli_usage(cli, "the dump holds several modules; say which with --module=NAME: %s", names.at);
  hl_buf_free(&names);
  return false;
}

// The states of one module of a dump, each in the form that reads best.
static bool pick_states(Cli *cli, Found *found, int n, ViewInputs *out) {
  const char *wish = cli_value(cli, "--module");
  int m = 0;
  qsort(found, (size_t)n, sizeof *found, by_state);
  for (int k = 0; k < n; k++)
    if (!wish || names_module(wish, found[k].state.module))
      found[m++] = found[k];
  if (m == 0)
    return cli_usage(cli, "the dump has no module '%s'", wish) == CLI_OK;
  if (!hl_str_equal(found[0].state.module, found[m - 1].state.module))
    return several_modules(cli, found, m);
  for (int k = 0; k < m; k++) {
    const DumpState *s = &found[k].state;
    if (k > 0 && s->order == found[k - 1].state.order &&
        hl_str_equal(s->title, found[k - 1].state.title))
      continue;
    out->at[out->n++] =
        (ViewInput){found[k].path, hl_arena_strndup(out->arena, s->title.at, s->title.n)};
  }
  return true;
}

static bool is_directory(const char *path) {
  struct stat st;
  return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool view_inputs(Cli *cli, ViewInputs *out) {
  CliFiles files;
  *out = (ViewInputs){.arena = hl_arena_new()};
  if (cli_take_files(cli, &files) != CLI_OK)
    return false;
  Found *found = HL_ARRAY(out->arena, Found, files.n + 1);
  int n = 0;
  out->at = HL_ARRAY(out->arena, ViewInput, files.n + 1);
  for (int k = 0; k < files.n; k++) {
    const char *path = hl_arena_printf(out->arena, "%s", files.at[k].at);
    if (!files.at[k].listed)
      out->at[out->n++] = (ViewInput){path, file_name(path)};
    else if (dump_state_of(path, &found[n].state))
      found[n++].path = path;
  }
  cli_files_free(&files);
  if (n > 0)
    return pick_states(cli, found, n, out);
  for (int k = 0; k < cli->n_files; k++)
    if (is_directory(cli->files[k]))
      return hl_error(cli->cx, (HlPos){0},
                      "'%s' is no dump: no file in it is named after a state of a module",
                      cli->files[k]);
  return true;
}

void view_inputs_free(ViewInputs *inputs) {
  hl_arena_free(inputs->arena);
}

const HlTarget *view_target(Cli *cli, HlArena *arena) {
  const char *wish = cli_value(cli, "--target");
  return hl_target_load(cli->cx, arena, wish ? wish : "h100");
}

// --- States -------------------------------------------------------------------------------------

typedef struct Maker {
  Cli *cli;
  HlArena *arena;
  HlMapPage *page;
  HlViewMark *before, *after;  // of the overlay
  int n_before, n_after, n_states;
  bool overlay, is_pair;
  const char *open;  // the name that is opened; NULL: none
  bool has_open;     // some state has it
} Maker;

// What goes with the next state is told of the first alone in full: of others it would hide what came with them.
static int keep_gone(const Maker *m, HlViewMark *marks, int n) {
  int kept = 0;
  for (int k = 0; k < n; k++)
    if (m->n_states == 1 || marks[k].kind == HL_MARK_GONE)
      marks[kept++] = marks[k];
  return kept;
}

// Two modules are compared with all that `hilo diff` knows; from pass to pass names tell, at once.
static void find_changes(Maker *m, const HlModule *last, const HlModule *now, HlViewMark **before,
                         int *n_before, HlViewMark **after, int *n_after) {
  HlDiff *diff = m->is_pair ? hl_diff(m->cli->cx, last, now, NULL) : NULL;
  if (diff)
    view_marks_of_diff(m->arena, diff, before, n_before, after, n_after);
  else if (!m->is_pair)
    hl_view_changes(m->arena, last, now, before, n_before, after, n_after);
  hl_diff_free(diff);
}

static bool has_name(const HlModule *m, const char *name) {
  bool found = hl_find_comp(m, hl_str(name)) != NULL;
  for (const HlComp *comp = m->first; comp && !found; comp = comp->next)
    found = hl_find_inst(comp, hl_str(name)) != NULL;
  return found;
}

static void add_state(Maker *m, const HlModule *last, const HlModule *now, const char *title) {
  HlViewMark *before = NULL, *after = NULL;
  int n_before = 0, n_after = 0;
  if (m->overlay && m->n_states == 0)
    after = m->before, n_after = m->n_before;
  else if (m->overlay)
    after = m->after, n_after = m->n_after;
  else if (last)
    find_changes(m, last, now, &before, &n_before, &after, &n_after);
  if (last && !m->overlay)
    hl_map_page_mark_last(m->page, before, keep_gone(m, before, n_before));
  hl_map_page_add(m->cli->cx, m->page, now, title, after, n_after);
  m->has_open |= m->open && has_name(now, m->open);
  m->n_states++;
}

static bool is_history(const char *path) {
  const HlStr name = hl_str(path);
  return memmem(name.at, name.n, ".history", 8) != NULL;
}

static bool add_history(Maker *m, const char *path) {
  HlHistory *h = hl_history_read(m->cli->cx, path);
  HlModule *last = NULL;
  bool ok = h != NULL;
  for (int k = 0; ok && k < hl_history_steps(h); k++) {
    int gone, come;
    HlBuf text = {0};
    cli_progress(m->cli, "state %d of %d", k + 1, hl_history_steps(h));
    hl_history_state(h, k, &text);
    HlModule *now = hl_text_parse(m->cli->cx, text.at);
    hl_buf_free(&text);
    ok = now != NULL;
    if (ok)
      add_state(m, last, now, hl_history_name(h, k, &gone, &come));
    hl_module_free(last);
    last = now;
  }
  hl_module_free(last);
  hl_history_free(h);
  return ok;
}

static bool load_state(Cli *cli, const ViewInput *in, HlFile *out, const HlModule **m) {
  const HlLoadOptions how = cli_load_options(cli);
  if (!hl_load(cli->cx, in->path, &how, out))
    return false;
  *m = out->n == 1 ? out->modules[0] : cli_select(cli, out, in->path);
  if (*m)
    return true;
  hl_file_free(out);
  return false;
}

static bool add_files(Maker *m, const ViewInput *in, int n) {
  HlFile last = {0};
  const HlModule *before = NULL;
  bool ok = true;
  for (int k = 0; ok && k < n; k++) {
    HlFile file;
    const HlModule *now;
    cli_progress(m->cli, "state %d of %d: %s", k + 1, n, in[k].title);
    ok = load_state(m->cli, &in[k], &file, &now);
    if (!ok)
      break;
    add_state(m, before, now, in[k].title);
    if (k > 0)
      hl_file_free(&last);
    last = file;
    before = now;
  }
  if (before)
    hl_file_free(&last);
  return ok;
}

static bool read_overlay(Maker *m) {
  const char *path = cli_value(m->cli, "--overlay");
  m->overlay = path != NULL;
  if (!path)
    return true;
  HlSource *source = hl_read_file(m->cli->cx, path);
  const bool ok = source && hl_view_read_overlay(m->cli->cx, m->arena, source, &m->before,
                                                 &m->n_before, &m->after, &m->n_after);
  hl_source_unref(source);
  return ok;
}

// Of states of a dump the module; of others what they are called.
static const char *title_of(Cli *cli, HlArena *arena, const ViewInput *in, int n) {
  const char *wish = cli_value(cli, "--title");
  DumpState state;
  if (wish || n == 1)
    return wish ? wish : in[0].title;
  if (dump_state_of(in[0].path, &state))
    return hl_arena_strndup(arena, state.module.at, state.module.n);
  return hl_arena_printf(arena, "%s to %s", in[0].title, in[n - 1].title);
}

bool view_page(Cli *cli, const ViewInput *in, int n, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  const HlTarget *target = view_target(cli, arena);
  const char *open = cli_value(cli, "--around");
  Maker m = {.cli = cli, .arena = arena, .is_pair = n == 2, .open = open};
  bool ok = target && read_overlay(&m);
  if (ok) {
    m.page = hl_map_page_new(title_of(cli, arena, in, n), target);
    ok = n == 1 && is_history(in[0].path) ? add_history(&m, in[0].path) : add_files(&m, in, n);
    // One state of an overlay is the later one.
    if (ok && m.overlay && n == 1)
      hl_map_page_mark_last(m.page, m.after, m.n_after);
  }
  cli_progress(cli, NULL);
  if (ok && open && !m.has_open)
    ok = hl_error(cli->cx, (HlPos){0}, "there is no instruction or computation '%s'", open);
  if (ok && open)
    hl_map_page_open(m.page, open);
  if (ok)
    hl_map_page_print(m.page, out);
  hl_map_page_free(m.page);
  hl_arena_free(arena);
  return ok;
}
