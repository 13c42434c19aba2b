// hilo lsp: the language server on standard input and output.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "hilo/lsp.h"

// A client's pipes may be such that do not wait: then this waits, for a second at most.
static bool may_try_again(int fd, short event) {
  struct pollfd wait = {fd, event, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    poll(&wait, 1, 1000);
  else if (errno != EINTR)
    return false;
  return true;
}

// Sends what is to be sent. False: the client is gone.
static bool send_all(HlBuf *out) {
  size_t done = 0;
  while (done < out->n) {
    const ssize_t n = write(STDOUT_FILENO, out->at + done, out->n - done);
    if (n < 0 && !may_try_again(STDOUT_FILENO, POLLOUT))
      return false;
    done += n > 0 ? (size_t)n : 0;
  }
  out->n = 0;
  return true;
}

static bool is_waiting(void) {
  struct pollfd in = {STDIN_FILENO, POLLIN, 0};
  return poll(&in, 1, 0) > 0;
}

// Reads what there is, waiting for it. 0: the end.
static ssize_t receive(const HlCx *cx, char *bytes, size_t room) {
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, bytes, room);
    if (n >= 0 || hl_cx_is_cancelled(cx) || !may_try_again(STDIN_FILENO, POLLIN))
      return n;
  }
}

static void serve(HlLsp *lsp, HlCx *cx) {
  enum { ROOM = 1 << 16 };
  static const size_t KEEP = 1 << 20;
  HlBuf in = {0}, out = {0};
  hl_buf_grow(&in, ROOM);
  while (!hl_lsp_is_over(lsp)) {
    const ssize_t n = receive(cx, in.at, ROOM);
    if (n <= 0)
      break;
    hl_lsp_feed(lsp, in.at, (size_t)n, &out);
    if (!send_all(&out))
      break;
    while (!hl_lsp_is_over(lsp) && hl_lsp_has_work(lsp) && !is_waiting()) {
      hl_lsp_work(lsp, &out);
      if (!send_all(&out))
        break;
    }
    if (out.capacity > KEEP)
      hl_buf_free(&out);
  }
  hl_buf_free(&in);
  hl_buf_free(&out);
}

static int run(Cli *cli) {
  if (cli->n_files > 0)
    return cli_usage(cli, "takes no file: the editor says which are open");
  signal(SIGPIPE, SIG_IGN);
  HlLsp *lsp = hl_lsp_new(cli->cx);
  serve(lsp, cli->cx);
  const bool polite = hl_lsp_was_shut_down(lsp);
  hl_lsp_free(lsp);
  return polite ? CLI_OK : CLI_DIFFERENT;
}

static const CliOption options[] = {
    {"--stdio", NULL, "speak on standard input and output, as it does anyway"},
    {NULL, NULL, NULL},
};

const CliCommand cli_lsp = {
    .name = "lsp",
    .usage = "[--stdio]",
    .summary = "be a language server for HLO and StableHLO text",
    .about = "Speaks the Language Server Protocol with an editor: diagnostics while one types, "
             "what an op "
             "means and costs,\n"
             "definitions and uses, renaming, folding, outline, colours, formatting, completion. "
             "docs/editors.md says how\n"
             "VS Code, Neovim and others start it. Ends with 0 when the editor has said 'shutdown' "
             "before "
             "'exit', else with 1.",
    .options = options,
    .run = run,
};
