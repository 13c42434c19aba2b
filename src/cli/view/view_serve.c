// cli/view/view_serve.c: a small HTTP server for `hilo view --serve`: a list of the modules of a folder, a page of each, both anew when
// files change.
//
// It listens on 127.0.0.1 alone and answers GET. No part of an address is ever taken for a path: pages are asked for by a number
// that is made of a file's place in the folder, and found by going through the list of files again. A request must name this
// machine as its host, so that no page from elsewhere can have a name that leads here.
//
//   /               the list             /list       the same as JSON
//   /page/ID        the page of a module, or of all states of one in a dump
//   /stamp/ID       changes when one of its files does

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/vec.h"
#include "cli/web/http.h"
#include "cli/json.h"
#include "cli/view/view.h"
#include "tool/dump_states.h"

enum {
  DEFAULT_PORT = 8470,
  HEAD = 64 << 10  // bytes of a file that tell what it is
};

// --- What is in the folder ------------------------------------------------------------------------

typedef struct Entry {
  const char *path, *place;  // to open, and within the folder
  DumpState state;           // of a dump; else state.module is the place
  bool is_state;
  int64_t bytes, changed;  // nanoseconds
  uint64_t id;             // of the module
} Entry;

typedef struct Listing {
  HlArena *arena;
  VEC(Entry) entry;
} Listing;

static bool may_be_module(HlCx *cx, const char *path) {
  static const char *const kinds[] = {".hlo",  ".txt",    ".pb",   ".pbtxt",
                                      ".mlir", ".mlirbc", ".jaxpr"};
  HlStr name = hl_str(path);
  const bool packed =
      memmem(path + (name.n > 4 ? name.n - 4 : 0), name.n > 4 ? 4 : name.n, ".gz", 3) ||
      memmem(path + (name.n > 4 ? name.n - 4 : 0), name.n > 4 ? 4 : name.n, ".zst", 4);
  bool known = packed;
  for (int k = 0; k < HL_COUNT_OF(kinds); k++)
    known = known ||
            (name.n > strlen(kinds[k]) && strcmp(path + name.n - strlen(kinds[k]), kinds[k]) == 0);
  if (!known || packed)
    return packed;
  FILE *file = fopen(path, "rb");
  if (!file)
    return false;
  char *room = base_alloc(HEAD);
  const size_t n = fread(room, 1, HEAD, file);
  fclose(file);
  const HlFormat format = hl_format_of((HlStr){room, n});
  base_free(room);
  const bool binary = strstr(path, ".pb") != NULL;  // its head alone does not tell
  return hl_format_is_program(format) || (format == HL_FORMAT_UNKNOWN && binary);
}

static int by_place(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->is_state && y->is_state) {
    const int order = dump_state_compare(&x->state, &y->state);
    return order ? order : strcmp(x->place, y->place);
  }
  return x->is_state != y->is_state ? (x->is_state ? -1 : 1) : strcmp(x->place, y->place);
}

static void add_entry(Cli *cli, Listing *out, const char *folder, const char *path) {
  struct stat st;
  if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || !may_be_module(cli->cx, path))
    return;  // links may lead elsewhere
  const size_t n = strlen(folder);
  Entry e = {.path = path,
             .place = path + n + (path[n] == '/'),
             .bytes = st.st_size,
             .changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
  e.is_state = dump_state_of(path, &e.state);
  const size_t folders = (size_t)(strrchr(path, '/') - path);
  e.id = e.is_state ? hl_hash_bytes(path, folders + 1 + e.state.module.n, 1)
                    : hl_hash_bytes(path, strlen(path), 2);
  vec_push_in(out->arena, &out->entry, e);
}

static bool list_folder(Cli *cli, const char *folder, Listing *out) {
  Cli inner = *cli;
  CliFiles files;
  const char *const operand[] = {folder};
  inner.files = (const char **)operand;
  inner.n_files = 1;
  *out = (Listing){.arena = hl_arena_new()};
  if (cli_take_files(&inner, &files) != CLI_OK)
    return false;
  for (int k = 0; k < files.n; k++)
    if (files.at[k].listed)
      add_entry(cli, out, folder, hl_arena_printf(out->arena, "%s", files.at[k].at));
  cli_files_free(&files);
  if (out->entry.n > 0)
    qsort(out->entry.at, (size_t)out->entry.n, sizeof *out->entry.at, by_place);
  return true;
}

static uint64_t stamp_of(const Listing *l, uint64_t id) {
  uint64_t stamp = 0;
  for (int k = 0; k < l->entry.n; k++)
    if (id == 0 || l->entry.at[k].id == id)
      stamp = hl_hash_mix(
          stamp, hl_hash_mix((uint64_t)l->entry.at[k].changed, (uint64_t)l->entry.at[k].bytes));
  return stamp;
}

// --- Answers --------------------------------------------------------------------------------------

static const char list_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>hilo "
    "view</title>\n<style>\n"
    ":root{color-scheme:light dark}body{font:14px system-ui,'DejaVu Sans',sans-serif;margin:24px "
    "auto;"
    "max-width:1000px;padding:0 "
    "16px}\ntable{border-collapse:collapse;width:100%}td,th{text-align:left;"
    "padding:4px 12px 4px 0;border-bottom:1px solid #8884}\ntd+td{white-space:nowrap;opacity:.75}"
    "a{color:#1976d2;overflow-wrap:anywhere}input{font:inherit;padding:4px "
    "8px;width:24em}\n</style></head>\n"
    "<body><h1>modules</h1><p><input id=\"find\" placeholder=\"name\" aria-label=\"name\"> <span "
    "id=\"n\" role=\"status\"></span></p>\n"
    "<table><thead><tr><th>module</th><th>states</th><th>bytes</th><th>changed</th></tr></"
    "thead><tbody id=\"list\"></tbody></table>\n"
    "<script>\n'use strict';\nlet stamp = '', rows = [];\nconst $ = id => "
    "document.getElementById(id);\n"
    "function show() {\n  const q = $('find').value.toLowerCase(), list = $('list');\n  "
    "list.textContent = '';\n"
    "  const some = rows.filter(r => r.name.toLowerCase().includes(q));\n"
    "  for (const r of some.slice(0, 2000)) {\n    const tr = list.insertRow(), a = "
    "document.createElement('a');\n"
    "    a.textContent = r.name; a.href = '/page/' + r.id; tr.insertCell().append(a);\n"
    "    for (const t of [r.states, r.bytes.toLocaleString('en'), new Date(r.changed / "
    "1e6).toLocaleTimeString()]) tr.insertCell().textContent = t;\n  }\n"
    "  $('n').textContent = some.length + ' of ' + rows.length;\n}\n"
    "async function look() {\n  try {\n    const r = await (await fetch('/list')).json();\n"
    "    if (r.stamp != stamp) { stamp = r.stamp; rows = r.modules; show(); }\n"
    "  } catch { $('n').textContent = 'the server has ended'; }\n  setTimeout(look, "
    "document.hidden ? 5000 : 1000);\n}\n"
    "$('find').oninput = show;\nlook();\n</script></body></html>\n";

// What keeps a page up to date.
static const char look_again[] =
    "<script>\n{\n  const id = location.pathname.split('/').pop();\n  let stamp = null;\n"
    "  const look = async () => {\n    try {\n      const now = await (await fetch('/stamp/' + "
    "id)).text();\n"
    "      if (stamp !== null && now != stamp) location.reload();\n      stamp = now;\n    } catch "
    "{ /* the server has ended */ }\n"
    "    setTimeout(look, document.hidden ? 5000 : 1000);\n  };\n  look();\n}\n</script>\n";

static void answer_list(const Listing *l, HlBuf *out, bool head) {
  HlBuf body = {0};
  json_open(&body, NULL, '{');
  hl_buf_printf(&body, "\"stamp\":\"%016" PRIx64 "\"", stamp_of(l, 0));
  json_open(&body, "modules", '[');
  for (int k = 0, to; k < l->entry.n; k = to) {
    const Entry *e = &l->entry.at[k];
    int64_t bytes = 0, changed = 0;
    for (to = k; to < l->entry.n && l->entry.at[to].id == e->id; to++) {
      bytes += l->entry.at[to].bytes;
      changed = l->entry.at[to].changed > changed ? l->entry.at[to].changed : changed;
    }
    const size_t folders = e->is_state ? (size_t)(e->state.module.at - e->place) : 0;
    json_open(&body, NULL, '{');
    json_bytes(&body, "name", e->place,
               e->is_state ? folders + e->state.module.n : strlen(e->place));
    char id[32];
    snprintf(id, sizeof id, "%016" PRIx64, e->id);
    json_text(&body, "id", id);
    json_int(&body, "states", to - k);
    json_int(&body, "bytes", bytes);
    json_int(&body, "changed", changed);
    json_close(&body, '}');
  }
  json_close(&body, ']');
  json_close(&body, '}');
  http_answer(out, "200 OK", "application/json", &body, head);
  hl_buf_free(&body);
}

typedef struct PageWork {
  Cli *cli;
  const ViewInput *inputs;
  int n;
  HlBuf out;
} PageWork;

static bool try_page(HlCx *cx, void *user) {
  PageWork *work = user;
  return view_page(work->cli, work->inputs, work->n, &work->out);
}

static void answer_failure(Cli *cli, HlBuf *out) {
  HlBuf text = {0};
  hl_buf_puts(&text, "the page cannot be made:\n\n");
  for (int k = 0; k < hl_cx_n_diags(cli->cx); k++)
    hl_diag_render(hl_cx_diag(cli->cx, k), false, &text);
  http_answer_text(out, "500 Internal Server Error", text.at);
  hl_buf_free(&text);
}

static void answer_page(Cli *cli, const Listing *l, uint64_t id, HlBuf *out, bool head) {
  ViewInput *inputs = HL_ARRAY(l->arena, ViewInput, l->entry.n + 1);
  int n = 0;
  for (int k = 0; k < l->entry.n; k++) {
    const Entry *e = &l->entry.at[k];
    if (e->id != id)
      continue;
    const bool again = n > 0 && e->is_state && k > 0 &&
                       e->state.order == l->entry.at[k - 1].state.order &&
                       hl_str_equal(e->state.title, l->entry.at[k - 1].state.title);
    if (!again)
      inputs[n++] = (ViewInput){
          e->path,
          e->is_state ? hl_arena_strndup(l->arena, e->state.title.at, e->state.title.n) : e->place};
  }
  if (n == 0) {
    http_answer_text(out, "404 Not Found", "no such module: its files are gone");
    return;
  }
  PageWork work = {.cli = cli, .inputs = inputs, .n = n};
  hl_cx_clear(cli->cx);
  if (hl_try(cli->cx, try_page, &work)) {
    hl_buf_puts(&work.out, look_again);
    http_answer(out, "200 OK", "text/html", &work.out, head);
    hl_buf_free(&work.out);
  } else {
    answer_failure(cli, out);
  }
  hl_cx_clear(cli->cx);
}

// A module's number: sixteen hexadecimal digits.
static bool read_id(const char *text, uint64_t *id) {
  if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
    return false;
  *id = strtoull(text, NULL, 16);
  return true;
}

static void answer_path(Cli *cli, const char *folder, const char *path, HlBuf *out, bool head) {
  if (strcmp(path, "/") == 0) {
    HlBuf body = {0};
    hl_buf_puts(&body, list_page);
    http_answer(out, "200 OK", "text/html", &body, head);
    hl_buf_free(&body);
    return;
  }
  Listing l;
  uint64_t id = 0;
  const bool page = strncmp(path, "/page/", 6) == 0, stamp = strncmp(path, "/stamp/", 7) == 0;
  const bool numbered = read_id(page ? path + 6 : stamp ? path + 7 : "", &id);
  if (!list_folder(cli, folder, &l)) {
    http_answer_text(out, "500 Internal Server Error", "the folder cannot be read");
    hl_cx_clear(cli->cx);
  } else if (strcmp(path, "/list") == 0) {
    answer_list(&l, out, head);
  } else if (page && numbered) {
    answer_page(cli, &l, id, out, head);
  } else if (stamp && numbered) {
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, stamp_of(&l, id));
    http_answer_text(out, "200 OK", text);
  } else {
    http_answer_text(out, "404 Not Found", "no such page");
  }
  hl_arena_free(l.arena);
}

typedef struct Served {
  Cli *cli;
  const char *folder;
} Served;

static void answer_request(void *user, const HttpRequest *request, HlBuf *out) {
  const Served *served = user;
  answer_path(served->cli, served->folder, request->path, out, request->head);
}

int view_serve(Cli *cli, const char *folder) {
  int64_t port = DEFAULT_PORT;
  struct stat st;
  int actual = 0;
  if (!cli_integer(cli, "--port", 0, 65535, &port))
    return CLI_USAGE;
  if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode)) {
    hl_error(cli->cx, (HlPos){0}, "'%s' is no directory", folder);
    return cli_flush(cli);
  }
  const int listener = http_listen(cli, port, &actual);
  if (listener < 0)
    return cli_flush(cli);
  printf("http://127.0.0.1:%d/\n", actual);
  fflush(stdout);
  cli->json = false;
  Served served = {cli, folder};
  http_serve(cli, listener, &(HttpServer){answer_request, &served});
  return CLI_OK;
}
