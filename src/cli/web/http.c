// cli/web/http.c: a server of pages for this machine alone, on one thread.
//
// It listens on 127.0.0.1, and a request must name this machine as its host, so that no page from elsewhere can have a name
// that leads here.
#include "cli/web/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/memory.h"

enum {
  CLIENTS = 64,
  REQUEST = 16 << 10,  // bytes of a request's head
  PATIENCE = 20,       // seconds for a request or an answer
};

// --- Answers --------------------------------------------------------------------------------------

void http_answer(HlBuf *out, const char *status, const char *type, const HlBuf *body, bool head) {
  hl_buf_printf(
      out,
      "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
      "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\n"
      "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; connect-src 'self'; img-src data: blob:\r\n\r\n",
      status, type, body->n);
  if (!head && body->n > 0)
    hl_buf_add(out, body->at, body->n);
}

void http_answer_text(HlBuf *out, const char *status, const char *text) {
  HlBuf body = {0};
  hl_buf_printf(&body, "%s\n", text);
  http_answer(out, status, "text/plain", &body, false);
  hl_buf_free(&body);
}

// --- Requests -------------------------------------------------------------------------------------

// The value of a header, or NULL: up to the end of its line.
const char *http_header(const char *request, const char *name, size_t *n) {
  for (const char *line = strstr(request, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
    if (!same_letters(line + 2, name, strlen(name)) || line[2 + strlen(name)] != ':')
      continue;
    const char *value = line + 3 + strlen(name);
    value += strspn(value, " \t");
    *n = strcspn(value, "\r\n");
    return value;
  }
  return NULL;
}

static bool is_for_us(const char *request) {
  static const char *const names[] = {"127.0.0.1", "localhost"};
  size_t n;
  const char *host = http_header(request, "Host", &n);
  for (int k = 0; host && k < HL_COUNT_OF(names); k++) {
    const size_t m = strlen(names[k]);
    if (n >= m && same_letters(host, names[k], m) && (n == m || host[m] == ':'))
      return true;
  }
  return false;
}

static void answer_request(const HttpServer *server, char *request, HlBuf *out) {
  HttpRequest asked = {.text = request, .head = strncmp(request, "HEAD ", 5) == 0};
  if (!is_for_us(request)) {
    http_answer_text(out, "403 Forbidden", "this server answers to 127.0.0.1 and localhost");
    return;
  }
  if (!asked.head && strncmp(request, "GET ", 4) != 0) {
    http_answer_text(out, "405 Method Not Allowed", "only GET");
    return;
  }
  HlArena *arena = hl_arena_new();
  const char *path = request + (asked.head ? 5 : 4);
  const size_t n = strcspn(path, " #\r\n"), to_query = strcspn(path, " ?#\r\n");
  asked.path = hl_arena_strndup(arena, path, to_query);
  asked.query = to_query < n ? hl_arena_strndup(arena, path + to_query + 1, n - to_query - 1) : "";
  server->answer(server->user, &asked, out);
  hl_arena_free(arena);
}

// --- Connections ----------------------------------------------------------------------------------

typedef struct Client {
  int fd;  // -1: free
  HlBuf in, out;
  size_t sent;
  double since;
} Client;

static void hang_up(Client *c) {
  close(c->fd);
  hl_buf_free(&c->in);
  hl_buf_free(&c->out);
  *c = (Client){.fd = -1};
}

static void take_in(const HttpServer *server, Client *c) {
  char room[4096];
  const ssize_t n = read(c->fd, room, sizeof room);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    hang_up(c);
    return;
  }
  hl_buf_add(&c->in, room, (size_t)n);
  if (strstr(c->in.at, "\r\n\r\n"))
    answer_request(server, c->in.at, &c->out);
  else if (c->in.n > REQUEST || memchr(c->in.at, 0, c->in.n))
    http_answer_text(&c->out, "431 Request Header Fields Too Large", "the request is too long");
}

static void send_out(Client *c) {
  const ssize_t n = send(c->fd, c->out.at + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n > 0) {
    c->sent += (size_t)n;
    c->since = hl_now();
  }
  if (n <= 0 || c->sent == c->out.n) {
    shutdown(c->fd, SHUT_WR);
    hang_up(c);
  }
}

static void let_in(int listener, Client *clients) {
  const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0)
    return;
  for (int k = 0; k < CLIENTS; k++)
    if (clients[k].fd < 0) {
      clients[k] = (Client){.fd = fd, .since = hl_now()};
      return;
    }
  close(fd);
}

static void serve(const HttpServer *server, int listener) {
  Client clients[CLIENTS];
  for (int k = 0; k < CLIENTS; k++)
    clients[k] = (Client){.fd = -1};
  while (!base_unwanted()) {
    struct pollfd poll_of[CLIENTS + 1] = {{.fd = listener, .events = POLLIN}};
    for (int k = 0; k < CLIENTS; k++)
      poll_of[k + 1] =
          (struct pollfd){.fd = clients[k].fd, .events = clients[k].out.n > 0 ? POLLOUT : POLLIN};
    if (poll(poll_of, CLIENTS + 1, 500) < 0 && errno != EINTR)
      break;
    for (int k = 0; k < CLIENTS; k++) {
      Client *c = &clients[k];
      const short events = poll_of[k + 1].revents;
      if (c->fd < 0)
        continue;
      if (events & POLLOUT)
        send_out(c);
      else if (events & (POLLIN | POLLHUP | POLLERR))
        take_in(server, c);
      else if (hl_now() - c->since > PATIENCE)
        hang_up(c);
    }
    if (poll_of[0].revents & POLLIN)
      let_in(listener, clients);
  }
  for (int k = 0; k < CLIENTS; k++)
    if (clients[k].fd >= 0)
      hang_up(&clients[k]);
}

int http_listen(Cli *cli, int64_t port, int *actual) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)port),
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t n = sizeof at;
  if (fd >= 0)
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
    hl_error_kind(cli->cx, HL_FAILED, (HlPos){0}, "cannot serve on port %d: %s", (int)port,
                  strerror(errno));
    if (fd >= 0)
      close(fd);
    return -1;
  }
  *actual = ntohs(at.sin_port);
  return fd;
}

void http_serve(Cli *cli, int listener, const HttpServer *server) {
  cli->progress = NULL;
  serve(server, listener);
  close(listener);
}
