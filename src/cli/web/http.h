// cli/web/http.h: a server of pages for this machine alone.
#ifndef CLI_WEB_HTTP_H
#define CLI_WEB_HTTP_H

#include "cli/cli.h"

typedef struct HttpRequest {
  const char *path;   // up to the '?', not decoded
  const char *query;  // what is behind it, or ""
  const char *text;   // all of its head, for http_header
  bool head;          // the answer's body is not wanted
} HttpRequest;

typedef struct HttpServer {
  void (*answer)(void *user, const HttpRequest *request, HlBuf *out);
  void *user;
} HttpServer;

void http_answer(HlBuf *out, const char *status, const char *type, const HlBuf *body, bool head);
void http_answer_text(HlBuf *out, const char *status, const char *text);
// The value of a header, or NULL: up to the end of its line.
const char *http_header(const char *request, const char *name, size_t *n);
// On 127.0.0.1; port 0: any that is free. -1 after reporting.
int http_listen(Cli *cli, int64_t port, int *actual);
// Answers until it is interrupted, and closes the listener.
void http_serve(Cli *cli, int listener, const HttpServer *server);

#endif
