// hilo explore: a module explored by commands, typed or from a script.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/explore/editor.h"
#include "cli/explore/serve.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/select.h"
#include "hilo/explore.h"

enum { DEFAULT_PORT = 8471 };

typedef struct Session {
  Cli *cli;
  const HlModule *m;
  int64_t port;  // of a served page
  HlExplore *explore;
  const char *browser;  // NULL: none
  bool json;
  int status;
} Session;

// Opens a drawing in the browser and does not wait for it.
static void show(void *user, const char *path) {
  Session *s = user;
  explore_open(s->cli, s->browser, path);
}

static void put_json(HlBuf *report, const char *line, HlExploreResult result, const HlBuf *answer) {
  static const char *const words[] = {"done", "wrong", "failed", "quit"};
  json_text(report, "command", line);
  json_text(report, "result", words[result]);
  json_open(report, "answer", '[');
  for (const char *s = answer->n ? answer->at : ""; *s;) {
    const size_t n = strcspn(s, "\n");
    json_bytes(report, NULL, s, n);
    s += n + (s[n] == '\n');
  }
  json_close(report, ']');
}

// The page is there as long as this program.
static bool start_page(void *user, HlBuf *out) {
  Session *s = user;
  HlArena *arena = hl_arena_new();
  const char *address = explore_serve_beside(s->cli, arena, s->m, s->port);
  if (address)
    hl_buf_printf(out, "%s\n", address);
  if (address && s->browser)
    explore_open(s->cli, s->browser, address);
  hl_arena_free(arena);
  return address;
}

// False: that was the last.
static bool run_line(Session *s, const char *line) {
  HlBuf answer = {0};
  cli_begin_file(s->cli, s->cli->files[0]);
  const HlExploreResult result = hl_explore_run(s->explore, line, &answer);
  if (s->json)
    put_json(&s->cli->report, line, result, &answer);
  else
    cli_print(&answer);
  hl_buf_free(&answer);
  if (result == HL_EXPLORE_WRONG)
    s->status = cli_worse(s->status, CLI_USAGE);
  s->status = cli_worse(s->status, cli_end_file(s->cli));
  return result != HL_EXPLORE_QUIT;
}

static int complete(void *user, HlArena *arena, const char *line, int most, size_t *start,
                    const char ***out) {
  int n;
  *out = hl_explore_complete(((Session *)user)->explore, arena, line, most, start, &n);
  return n;
}

// With a person at a terminal, wrong commands have been told, and are no failure.
static void converse(Session *s) {
  Editor *editor = editor_new("explore", "command: ", complete, s);
  if (!s->cli->quiet)
    printf("enter 'help' for help\n");
  for (const char *line; (line = editor_read(editor));)
    if (!run_line(s, line))
      break;
  editor_free(editor);
  s->status = CLI_OK;
}

static void run_script(Session *s) {
  char *line = NULL;
  size_t room = 0;
  for (ssize_t n; (n = getline(&line, &room, stdin)) >= 0;) {
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
      line[--n] = 0;
    if (line[strspn(line, " \t")] == '#')
      continue;
    if (!run_line(s, line))
      break;
  }
  free(line);
}

// The words behind the file are one command.
static void run_words(Session *s) {
  HlBuf line = {0};
  for (int k = 1; k < s->cli->n_files; k++)
    hl_buf_printf(&line, "%s%s", k > 1 ? " " : "", s->cli->files[k]);
  run_line(s, line.at);
  hl_buf_free(&line);
}

// The only command is to serve: until it is interrupted.
static bool serves_alone(const Cli *cli) {
  return cli->n_files == 2 && strcmp(cli->files[1], "serve") == 0 && !cli->json;
}

static int explore(Cli *cli, const HlFile *file, int64_t port) {
  HlModule *m = cli_select(cli, file, cli->files[0]);
  if (!m)
    return CLI_USAGE;
  Session s = {.cli = cli,
               .m = m,
               .port = cli_flag(cli, "--port") ? port : 0,
               .browser = cli_value(cli, "--browser"),
               .json = cli->json};
  if (cli_flag(cli, "--serve") || serves_alone(cli))
    return explore_serve(cli, m, cli_flag(cli, "--serve") ? port : s.port, s.browser);
  const bool told = cli->n_files > 1,
             person = !told && !cli->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  const HlExploreOptions how = {.folder = cli_value(cli, "--folder"),
                                .form = cli_value(cli, "--format"),
                                .show = s.browser ? show : NULL,
                                .serve = start_page,
                                .user = &s};
  s.explore = hl_explore_new(cli->cx, m, &how);
  if (told)
    run_words(&s);
  else if (person)
    converse(&s);
  else
    run_script(&s);
  hl_explore_free(s.explore);
  return s.status;
}

static int run(Cli *cli) {
  const char *form = cli_value(cli, "--format");
  int64_t port = DEFAULT_PORT;
  if (!cli_integer(cli, "--port", 0, 65535, &port))
    return CLI_USAGE;
  if (cli_flag(cli, "--serve") && cli->n_files > 1)
    return cli_usage(cli, "--serve takes commands in its page, and none behind the file");
  if (cli_flag(cli, "--serve") && (form || cli->json))
    return cli_usage(cli, "--serve and %s exclude each other", form ? "--format" : "--json");
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  if (form && strcmp(form, "html") != 0 && strcmp(form, "svg") != 0 && strcmp(form, "dot") != 0 &&
      strcmp(form, "none") != 0)
    return cli_usage(cli, "unknown --format '%s': html, svg, dot or none", form);
  if (cli->n_files == 1 && strcmp(cli->files[0], "-") == 0 && !cli_flag(cli, "--serve"))
    return cli_usage(cli, "with the program on standard input the command stands behind the '-'");
  HlLoadOptions how = cli_load_options(cli);
  HlFile file;
  int status;
  if (hl_load(cli->cx, cli->files[0], &how, &file)) {
    status = explore(cli, &file, port);
    hl_file_free(&file);
  } else {
    cli_begin_file(cli, cli->files[0]);
    status = cli_end_file(cli);
  }
  cli_end_report(cli);
  return status;
}

static const CliOption options[] = {
    {"--folder", "DIR", "where drawings and extracts go (default: TMPDIR, or /tmp)"},
    {"--format", "FORM", "of drawings: html (default), svg, dot; none: only the text"},
    {"--browser", "PROGRAM", "opens each drawing, or the page of --serve, with it"},
    {"--serve", NULL, "serve a page on this machine that takes the commands and shows what they draw"},
    {"--port", "N", "of --serve (8471) and of the command serve (any that is free); 0: any that is free"},
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_explore = {
    .name = "explore",
    .usage = "FILE [COMMAND...]",
    .summary = "explore a module by commands in the terminal",
    .about = "Answers commands about a module, as XLA's interactive_graphviz does: what is near an "
             "instruction, paths, "
             "lists, what\n"
             "a thing is, extracts; 'help' lists them. At a terminal with a prompt, completion and "
             "history; from a script a "
             "command a\n"
             "line, '#' for comments; or one command behind the file. Drawings are files, named in "
             "the answer;\n"
             "with --serve, or the command 'serve', a page shows them.",
    .examples =
        "  hilo explore m.hlo                        with a prompt\n"
        "  hilo explore m.hlo info fusion.3          one command\n"
        "  hilo explore m.hlo --format=svg add.7 3   draws what is three steps around add.7\n"
        "  hilo explore m.hlo < commands.txt         a script\n"
        "  hilo explore m.hlo --serve                in a page\n",
    .options = options,
    .reports = true,
    .run = run,
};
