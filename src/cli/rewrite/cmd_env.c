// hilo env: environments for any language, over a pipe.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rewrite/rewrite.h"
#include "hilo/env_server.h"

enum { MOST = 1 << 26 };  // bytes of a line

// The next line, without its end; of one that is too long, its beginning. False: there is none.
static bool read_line(HlBuf *out, bool *is_too_long) {
  int c;
  out->n = 0;
  *is_too_long = false;
  while ((c = getchar()) != EOF && c != '\n') {
    if (out->n < MOST)
      hl_buf_putc(out, (char)c);
    else
      *is_too_long = true;
  }
  return c != EOF || out->n > 0;
}

static bool refuse_line(void) {
  printf("{\"ok\": false, \"error\": \"the line is longer than %d bytes\"}\n", MOST);
  fflush(stdout);
  return !ferror(stdout);
}

static bool answer(Cli *cli, HlEnvServer *server, HlStr line) {
  HlBuf out = {0};
  const bool goes_on = hl_env_server_answer(cli->cx, server, line, &out);
  hl_buf_putc(&out, '\n');
  fwrite(out.at, 1, out.n, stdout);
  fflush(stdout);
  hl_buf_free(&out);
  return goes_on && !ferror(stdout);
}

static int run(Cli *cli) {
  if (!cli_flag(cli, "--stdio"))
    return cli_usage(cli, "give --stdio: questions come as lines of JSON on standard input");
  if (cli->n_files > 0)
    return cli_usage(cli, "a program is loaded by a question: {\"op\": \"load\", \"program\": \"%s\"}",
                     cli->files[0]);
  HlEnvServer *server = hl_env_server_new();
  HlBuf line = {0};
  bool goes_on = true, is_too_long;
  while (goes_on && read_line(&line, &is_too_long))
    if (is_too_long)
      goes_on = refuse_line();
    else if (line.n > 0)
      goes_on = answer(cli, server, (HlStr){line.at, line.n});
  hl_buf_free(&line);
  hl_env_server_free(server);
  if (!ferror(stdin))
    return CLI_OK;
  hl_error(cli->cx, (HlPos){0}, "cannot read standard input: %s", strerror(errno));
  return cli_flush(cli);
}

static const CliOption options[] = {
    {"--stdio", NULL, "questions on standard input, answers on standard output, a line of JSON each"},
    {NULL, NULL, NULL},
};

const CliCommand cli_env = {
    .name = "env",
    .usage = "--stdio",
    .summary = "rewriting as a game for programs in any language, over a pipe",
    .about =
        "Each line asks by a JSON object with an \"op\", and is answered by a line: {\"op\": \"help\"} tells what there is. Errors are\n"
        "answers, too: {\"ok\": false, \"error\": \"...\"}.",
    .examples = "  echo '{\"op\": \"help\"}' | hilo env --stdio      what can be asked\n",
    .options = options,
    .run = run,
};
