// cli/explore/serve.c: a page on this machine that takes the commands of 'hilo explore' and shows what they draw.
//
//   /               the page
//   /run?LINE       does a command: {"result", "answer", "drawing"}, the drawing as SVG
//   /complete?LINE  what may stand in the place of the last word: {"start", "words"}
//
// LINE is percent-encoded. A command may write a file, so that a page from elsewhere must not be able to send one: requests
// need a header that browsers let no other page add.
#include "cli/explore/serve.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "cli/web/http.h"
#include "cli/json.h"
#include "hilo/explore.h"

extern char **environ;

typedef struct Page {
  Cli *cli;
  const HlModule *m;
  HlExplore *explore;
  HlBuf drawing;  // of the command that runs
} Page;

static const char page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>hilo explore</title>\n<style>\n"
    ":root{color-scheme:light dark}body{font:14px system-ui,'DejaVu Sans',sans-serif;margin:0;display:grid;"
    "grid-template:auto 1fr/minmax(20em,2fr) 3fr;height:100vh}form{grid-column:1/3;display:flex;gap:8px;padding:8px}"
    "input{font:14px monospace;padding:6px 8px;flex:1}#log{overflow:auto;padding:0 8px}#log pre{margin:0 0 12px;"
    "white-space:pre-wrap;overflow-wrap:anywhere;font:12px/1.45 monospace}#log b{display:block;cursor:pointer}.bad{color:#c62828}"
    "#drawing{overflow:auto;background:#fff;border-left:1px solid #8886}#drawing g.n{cursor:pointer}\n"
    "</style></head>\n<body><form><input id=\"line\" autofocus autocomplete=\"off\" spellcheck=\"false\" "
    "placeholder=\"a command; help lists them\" aria-label=\"command\" list=\"words\"><datalist id=\"words\"></datalist>"
    "<button>run</button></form><div id=\"log\" role=\"log\"></div><div id=\"drawing\" aria-label=\"drawing\"></div>\n"
    "<script>\n'use strict';\nconst $ = id => document.getElementById(id), past = [];\nlet at = 0;\n"
    "const ask = async (what, line) => (await fetch('/' + what + '?' + encodeURIComponent(line), {headers: {'X-Hilo': '1'}})).json();\n"
    "function show(line, text, bad) {\n  const head = document.createElement('b'), pre = document.createElement('pre');\n"
    "  head.textContent = line; head.onclick = () => run(line);\n  pre.textContent = text; pre.className = bad ? 'bad' : '';\n"
    "  $('log').prepend(head, pre);\n}\n"
    "function draw(svg) {\n  const made = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;\n"
    "  $('drawing').replaceChildren(document.importNode(made, true));\n}\n"
    "async function run(line) {\n  if (!line.trim()) return;\n  past.push(line); at = past.length;\n  try {\n"
    "    const r = await ask('run', line);\n    show(line, r.answer.join('\\n'), r.result != 'done');\n"
    "    if (r.drawing) draw(r.drawing);\n  } catch { show(line, 'the server has ended', true); }\n}\n"
    "document.forms[0].onsubmit = e => { e.preventDefault(); run($('line').value); $('line').value = ''; };\n"
    "$('line').onkeydown = e => {\n  const step = {ArrowUp: -1, ArrowDown: 1}[e.key];\n"
    "  if (!step || !past.length || $('line').value && at == past.length) return;\n"
    "  at = Math.max(0, Math.min(past.length, at + step)); $('line').value = past[at] || ''; e.preventDefault();\n};\n"
    "$('line').oninput = async () => {\n  const line = $('line').value, list = $('words');\n  try {\n"
    "    const r = await ask('complete', line);\n    if ($('line').value != line) return;\n"
    "    list.replaceChildren(...r.words.map(w => Object.assign(document.createElement('option'), {value: line.slice(0, r.start) + w})));\n"
    "  } catch { /* the server has ended */ }\n};\n"
    "$('drawing').onclick = e => {\n  const node = e.target.closest && e.target.closest('g.n');\n"
    "  if (node) run((e.shiftKey ? '' : 'info ') + node.id);\n};\n"
    "$('drawing').ondblclick = e => {\n  const node = e.target.closest && e.target.closest('g.n');\n"
    "  if (node) run(node.id);\n};\nrun('help');\n</script></body></html>\n";

// --- Requests -----------------------------------------------------------------------------------------

// A drawing is in the answer, and its file not wanted.
static void take_drawing(void *user, const char *path) {
  Page *p = user;
  const size_t end = strlen(path);
  p->drawing.n = 0;
  if (end < 4 || strcmp(path + end - 4, ".svg") != 0)
    return;  // of another form, which was asked for
  HlSource *source = hl_read_file(p->cli->cx, path);
  if (source)
    hl_buf_add(&p->drawing, hl_source_bytes(source).at, hl_source_bytes(source).n);
  hl_source_unref(source);
  unlink(path);
}

static int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One line: what would end it is a blank.
static void decode(const char *query, HlBuf *out) {
  for (const char *s = query; *s; s++) {
    char c = *s;
    if (c == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0) {
      c = (char)(16 * hex(s[1]) + hex(s[2]));
      s += 2;
    }
    hl_buf_putc(out, (unsigned char)c < ' ' ? ' ' : c);
  }
  hl_buf_puts(out, "");
}

// Without the name of a file that is gone.
static void lines_json(HlBuf *out, const char *key, const HlBuf *text, bool drawn) {
  json_open(out, key, '[');
  for (const char *s = text->n ? text->at : ""; *s;) {
    const size_t n = strcspn(s, "\n");
    if (!drawn || strncmp(s, "drawn: ", 7) != 0)
      json_bytes(out, NULL, s, n);
    s += n + (s[n] == '\n');
  }
  json_close(out, ']');
}

static void answer_run(Page *p, const char *line, HlBuf *out) {
  static const char *const words[] = {"done", "wrong", "failed", "quit"};
  HlBuf answer = {0};
  p->drawing.n = 0;
  hl_cx_clear(p->cli->cx);
  const HlExploreResult result = hl_explore_run(p->explore, line, &answer);
  for (int k = 0; k < hl_cx_n_diags(p->cli->cx); k++)
    hl_diag_render(hl_cx_diag(p->cli->cx, k), false, &answer);
  hl_cx_clear(p->cli->cx);
  if (result == HL_EXPLORE_QUIT)
    hl_buf_puts(&answer, "the page stays; the server ends with Ctrl-C\n");
  json_open(out, NULL, '{');
  json_text(out, "result", words[result]);
  lines_json(out, "answer", &answer, p->drawing.n > 0);
  if (p->drawing.n > 0)
    json_bytes(out, "drawing", p->drawing.at, p->drawing.n);
  json_close(out, '}');
  hl_buf_free(&answer);
}

static void answer_complete(Page *p, const char *line, HlBuf *out) {
  enum { MOST = 50 };
  HlArena *arena = hl_arena_new();
  size_t start = 0;
  int n = 0;
  const char **words = hl_explore_complete(p->explore, arena, line, MOST, &start, &n);
  json_open(out, NULL, '{');
  json_int(out, "start", (int64_t)start);
  json_open(out, "words", '[');
  for (int k = 0; k < n; k++)
    json_text(out, NULL, words[k]);
  json_close(out, ']');
  json_close(out, '}');
  hl_arena_free(arena);
}

static void answer_request(void *user, const HttpRequest *request, HlBuf *out) {
  Page *p = user;
  HlBuf body = {0}, line = {0};
  size_t n;
  const bool runs = strcmp(request->path, "/run") == 0;
  if (strcmp(request->path, "/") == 0) {
    hl_buf_puts(&body, page);
    http_answer(out, "200 OK", "text/html", &body, request->head);
  } else if (!runs && strcmp(request->path, "/complete") != 0) {
    http_answer_text(out, "404 Not Found", "no such page");
  } else if (!http_header(request->text, "X-Hilo", &n)) {
    http_answer_text(out, "403 Forbidden", "commands come with a header X-Hilo");
  } else {
    decode(request->query, &line);
    if (runs)
      answer_run(p, line.at, &body);
    else
      answer_complete(p, line.at, &body);
    http_answer(out, "200 OK", "application/json", &body, request->head);
  }
  hl_buf_free(&body);
  hl_buf_free(&line);
}

// --- Serving --------------------------------------------------------------------------------------------

static void serve(Cli *cli, const HlModule *m, int listener) {
  Page p = {.cli = cli, .m = m};
  const HlExploreOptions how = {
      .folder = cli_value(cli, "--folder"), .form = "svg", .show = take_drawing, .user = &p};
  p.explore = hl_explore_new(cli->cx, m, &how);
  http_serve(cli, listener, &(HttpServer){answer_request, &p});
  hl_explore_free(p.explore);
  hl_buf_free(&p.drawing);
}

void explore_open(Cli *cli, const char *browser, const char *what) {
  pid_t child;
  char *const args[] = {(char *)(uintptr_t)browser, (char *)(uintptr_t)what, NULL};
  while (waitpid(-1, NULL, WNOHANG) > 0) {  // those that ended meanwhile
  }
  const int wrong = posix_spawnp(&child, browser, NULL, NULL, args, environ);
  if (wrong)
    hl_warn(cli->cx, (HlPos){0}, "cannot start '%s': %s", browser, strerror(wrong));
}

int explore_serve(Cli *cli, const HlModule *m, int64_t port, const char *browser) {
  int actual = 0;
  const int listener = http_listen(cli, port, &actual);
  char address[64];
  if (listener < 0)
    return cli_flush(cli);
  snprintf(address, sizeof address, "http://127.0.0.1:%d/", actual);
  printf("%s\n", address);
  fflush(stdout);
  cli->json = false;
  if (browser)
    explore_open(cli, browser, address);
  serve(cli, m, listener);
  return cli_flush(cli);
}

const char *explore_serve_beside(Cli *cli, HlArena *arena, const HlModule *m, int64_t port) {
  int actual = 0;
  const int listener = http_listen(cli, port, &actual);
  const pid_t parent = getpid();
  if (listener < 0)
    return NULL;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);  // Ctrl-C is the prompt's
    if (getppid() == parent)
      serve(cli, m, listener);
    _exit(0);
  }
  const int why = errno;
  close(listener);
  if (child > 0)
    return hl_arena_printf(arena, "http://127.0.0.1:%d/", actual);
  hl_error_kind(cli->cx, HL_FAILED, (HlPos){0}, "cannot start a server: %s", strerror(why));
  return NULL;
}
