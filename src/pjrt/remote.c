// pjrt/remote.c: messages between processes over TCP: each has a connection to each other one.
//
// Where they listen they tell each other through the store that the client lends, with a secret that whoever connects must know. What
// comes is read by a thread for each connection, always, so that nobody who sends waits for long; a message for a run that has not
// begun here is kept. Numbers are little-endian.
//
//   a connection begins with: magic, secret, number of the process       (3 x 8 bytes)
//   a message: bytes that follow, run's fingerprint (2), number, what; then for a meeting's values
//   the key (3), n, me, n_values, and for each: dtype, rank, sizes, elements         (8 bytes each, but for the elements)

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pjrt/remote.h"

enum { VALUES, FAILED };  // what a message is
static const uint64_t magic = 0x31656c69686c6968;
static const uint64_t most_bytes = (uint64_t)1 << 40;

typedef struct Message {
  struct Message *next;
  HlRemoteMessage said;        // values: references
} Message;

struct RemoteRun {
  Remote *remote;
  uint64_t fingerprint[2], number;
  HlRemote hilo;
  void (*take)(void *run, const HlRemoteMessage *message);
  void *taker;
  Message *first, **last;      // that came before anybody listened
  bool begun, failed;
  struct RemoteRun *next;
};

// How often a program has run.
typedef struct Count {
  uint64_t fingerprint[2], begun;
  struct Count *next;
} Count;

typedef struct Peer {
  Remote *remote;
  int process, socket;         // -1: none
  pthread_t reader;
  bool reads;
  pthread_mutex_t lock;        // of writing
} Peer;

struct Remote {
  int here, processes;
  Peer *peer;                  // [process]
  pthread_mutex_t lock;        // of all below
  RemoteRun *runs;
  Count *counts;
  bool lost;                   // a connection: no run of several processes can go on
};

// --- Bytes -------------------------------------------------------------------------------------------

static bool send_all(int socket, const void *bytes, size_t n) {
  const char *at = bytes;
  while (n > 0) {
    const ssize_t sent = send(socket, at, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    at += sent;
    n -= (size_t)sent;
  }
  return true;
}

static bool receive_all(int socket, void *bytes, size_t n) {
  char *at = bytes;
  while (n > 0) {
    const ssize_t got = recv(socket, at, n, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}

static void put_number(HlBuf *out, uint64_t value) {
  for (int k = 0; k < 8; k++)
    hl_buf_putc(out, (char)(value >> 8 * k));
}

static uint64_t number_at(const unsigned char *at) {
  uint64_t value = 0;
  for (int k = 0; k < 8; k++)
    value |= (uint64_t)at[k] << 8 * k;
  return value;
}

// What is left of a message that was read.
typedef struct Bytes {
  const unsigned char *at;
  size_t n;
} Bytes;

static bool take_number(Bytes *bytes, uint64_t *out) {
  if (bytes->n < 8)
    return false;
  *out = number_at(bytes->at);
  bytes->at += 8;
  bytes->n -= 8;
  return true;
}

static bool take_i64(Bytes *bytes, int64_t *out) {
  uint64_t value;
  const bool good = take_number(bytes, &value);
  *out = good ? (int64_t)value : 0;
  return good;
}

// --- Values ------------------------------------------------------------------------------------------

static bool put_value(HlCx *cx, HlBuf *out, const HlLiteral *value) {
  const HlShape *shape = value->shape;
  if (!hl_is_array_dtype(shape->dtype) || hl_literal_is_elided(value))
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                         "only arrays can be sent to another process, not %s",
                         hl_shape_text(cx, shape));
  put_number(out, (uint64_t)hl_dtype_info[shape->dtype].proto);
  put_number(out, (uint64_t)shape->rank);
  for (int d = 0; d < shape->rank; d++)
    put_number(out, (uint64_t)shape->dim[d]);
  hl_buf_add(out, value->data, (size_t)value->n * (size_t)hl_dtype_bytes(shape->dtype));
  return true;
}

static HlLiteral *take_value(HlCx *cx, HlShapes *shapes, Bytes *bytes) {
  int64_t proto, rank, dim[MAX_RANK], numbers[2 * MAX_RANK];
  Array array;
  if (!take_i64(bytes, &proto) || !take_i64(bytes, &rank) || rank < 0 || rank > MAX_RANK)
    return NULL;
  for (int d = 0; d < rank; d++)
    if (!take_i64(bytes, &dim[d]))
      return NULL;
  const HlDtype dtype = hl_dtype_by_proto((int)proto);
  if (!hl_is_array_dtype(dtype) || !array_make(&array, numbers, dtype, (int)rank, dim, NULL) ||
      array.bytes > bytes->n)
    return NULL;
  HlLiteral *value = hl_literal_new(cx, hl_shape_array(shapes, dtype, (int)rank, dim));
  if (value && array.bytes > 0)
    memcpy(value->data, bytes->at, array.bytes);
  bytes->at += array.bytes;
  bytes->n -= array.bytes;
  return value;
}

// --- Runs --------------------------------------------------------------------------------------------

static void message_free(Message *message) {
  for (int k = 0; k < message->said.n_values; k++)
    hl_literal_unref(message->said.values[k]);
  free(message);
}

static void run_free(RemoteRun *run) {
  for (Message *m = run->first, *next; m; m = next) {
    next = m->next;
    message_free(m);
  }
  free(run);
}

// Under the lock.
static Count *count_of(Remote *remote, const uint64_t *fingerprint) {
  Count *count = remote->counts;
  while (count && memcmp(count->fingerprint, fingerprint, sizeof count->fingerprint) != 0)
    count = count->next;
  if (!count && (count = calloc(1, sizeof *count))) {
    memcpy(count->fingerprint, fingerprint, sizeof count->fingerprint);
    count->next = remote->counts;
    remote->counts = count;
  }
  return count;
}

// Under the lock: the run that begins here or has been heard of; NULL: it is over, or there is no memory.
static RemoteRun *run_of(Remote *remote, const uint64_t *fingerprint, uint64_t number,
                         bool begins) {
  for (RemoteRun *run = remote->runs; run; run = run->next)
    if (memcmp(run->fingerprint, fingerprint, sizeof run->fingerprint) == 0 &&
        run->number == number)
      return run;
  const Count *count = count_of(remote, fingerprint);
  if (!count || (!begins && number < count->begun))
    return NULL;
  RemoteRun *run = calloc(1, sizeof *run);
  if (!run)
    return NULL;
  *run = (RemoteRun){.remote = remote,
                     .fingerprint = {fingerprint[0], fingerprint[1]},
                     .number = number,
                     .next = remote->runs};
  run->last = &run->first;
  remote->runs = run;
  return run;
}

static void fail(RemoteRun *run) {
  run->failed = true;
  if (run->take)
    run->take(run->taker, NULL);
}

// --- Reading -----------------------------------------------------------------------------------------

static Message *read_values(Bytes *bytes) {
  HlRemoteMessage said = {0};
  int64_t n, me, n_values;
  if (!take_i64(bytes, &said.key.inst) || !take_i64(bytes, &said.key.channel) ||
      !take_i64(bytes, &said.key.group) || !take_i64(bytes, &n) || !take_i64(bytes, &me) ||
      !take_i64(bytes, &n_values))
    return NULL;
  if (n < 0 || n > INT32_MAX || me < 0 || (n > 0 && me >= n) || n_values < 0 ||
      (size_t)n_values > bytes->n / 16)
    return NULL;
  Message *message = calloc(1, sizeof *message + (size_t)n_values * sizeof(HlLiteral *));
  if (!message)
    return NULL;
  HlLiteral **value = (HlLiteral **)(message + 1);
  said.n = (int)n;
  said.me = (int)me;
  said.values = value;
  message->said = said;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena);
  for (int k = 0; message && k < n_values; k++) {
    value[k] = take_value(cx, shapes, bytes);
    message->said.n_values += value[k] != NULL;
    if (!value[k]) {
      message_free(message);
      message = NULL;
    }
  }
  hl_arena_free(arena);
  hl_cx_free(cx);
  return message;
}

static void deliver(RemoteRun *run, Message *message) {
  if (run->take) {
    run->take(run->taker, &message->said);
    message_free(message);
    return;
  }
  *run->last = message;
  run->last = &message->next;
}

// False: what came makes no sense.
static bool hear(Remote *remote, Bytes bytes) {
  uint64_t fingerprint[2], number, what;
  if (!take_number(&bytes, &fingerprint[0]) || !take_number(&bytes, &fingerprint[1]) ||
      !take_number(&bytes, &number) || !take_number(&bytes, &what))
    return false;
  Message *message = what == VALUES ? read_values(&bytes) : NULL;
  if (what == VALUES && !message)
    return false;
  pthread_mutex_lock(&remote->lock);
  RemoteRun *run = run_of(remote, fingerprint, number, false);
  if (run && message)
    deliver(run, message);
  else if (run)
    fail(run);
  else if (message)
    message_free(message);
  pthread_mutex_unlock(&remote->lock);
  return true;
}

static bool read_one(Peer *peer) {
  unsigned char head[8];
  if (!receive_all(peer->socket, head, sizeof head))
    return false;
  const uint64_t n = number_at(head);
  unsigned char *bytes = n <= most_bytes ? malloc(n + 1) : NULL;
  const bool good = bytes && receive_all(peer->socket, bytes, n) && hear(peer->remote, (Bytes){bytes, n});
  free(bytes);
  return good;
}

static void *read_peer(void *user) {
  Peer *peer = user;
  Remote *remote = peer->remote;
  while (read_one(peer))
    continue;
  pthread_mutex_lock(&remote->lock);
  remote->lost = true;
  for (RemoteRun *run = remote->runs; run; run = run->next)
    fail(run);
  pthread_mutex_unlock(&remote->lock);
  return NULL;
}

// --- Writing -----------------------------------------------------------------------------------------

static void put_head(HlBuf *out, const RemoteRun *run, uint64_t what) {
  put_number(out, 0);  // bytes: when they are known
  put_number(out, run->fingerprint[0]);
  put_number(out, run->fingerprint[1]);
  put_number(out, run->number);
  put_number(out, what);
}

static bool write_peer(Peer *peer, HlBuf *bytes) {
  for (int k = 0; k < 8; k++)
    bytes->at[k] = (char)((bytes->n - 8) >> 8 * k);
  pthread_mutex_lock(&peer->lock);
  const bool good = send_all(peer->socket, bytes->at, bytes->n);
  pthread_mutex_unlock(&peer->lock);
  return good;
}

static bool send_message(void *user, HlCx *cx, int process, const HlRemoteMessage *message) {
  RemoteRun *run = user;
  HlBuf bytes = {0};
  put_head(&bytes, run, VALUES);
  put_number(&bytes, (uint64_t)message->key.inst);
  put_number(&bytes, (uint64_t)message->key.channel);
  put_number(&bytes, (uint64_t)message->key.group);
  put_number(&bytes, (uint64_t)message->n);
  put_number(&bytes, (uint64_t)message->me);
  put_number(&bytes, (uint64_t)message->n_values);
  bool good = true;
  for (int k = 0; good && k < message->n_values; k++)
    good = put_value(cx, &bytes, message->values[k]);
  if (good && !write_peer(&run->remote->peer[process], &bytes))
    good = hl_error_kind(cx, HL_FAILED, (HlPos){0}, "the connection to process %d is lost", process);
  hl_buf_free(&bytes);
  return good;
}

static void listen_to(void *user, void (*take)(void *run, const HlRemoteMessage *message),
                      void *taker) {
  RemoteRun *run = user;
  Remote *remote = run->remote;
  pthread_mutex_lock(&remote->lock);
  run->take = take;
  run->taker = taker;
  Message *first = run->first;
  if (take) {
    run->first = NULL;
    run->last = &run->first;
    if (run->failed || remote->lost)
      take(taker, NULL);
    for (Message *next; first; first = next) {
      next = first->next;
      take(taker, &first->said);
      message_free(first);
    }
  }
  pthread_mutex_unlock(&remote->lock);
}

RemoteRun *remote_begin(Remote *remote, const uint64_t *fingerprint, const int *process) {
  pthread_mutex_lock(&remote->lock);
  Count *count = count_of(remote, fingerprint);
  RemoteRun *run = count ? run_of(remote, fingerprint, count->begun, true) : NULL;
  if (run) {
    count->begun++;
    run->begun = true;
    run->hilo = (HlRemote){.process = process,
                           .here = remote->here,
                           .send = send_message,
                           .listen = listen_to,
                           .user = run};
  }
  pthread_mutex_unlock(&remote->lock);
  return run;
}

const HlRemote *remote_run(const RemoteRun *run) {
  return &run->hilo;
}

void remote_end(RemoteRun *run, bool good) {
  Remote *remote = run->remote;
  HlBuf bytes = {0};
  put_head(&bytes, run, FAILED);
  for (int p = 0; !good && p < remote->processes; p++)
    if (p != remote->here)
      write_peer(&remote->peer[p], &bytes);
  hl_buf_free(&bytes);
  pthread_mutex_lock(&remote->lock);
  RemoteRun **at = &remote->runs;
  while (*at != run)
    at = &(*at)->next;
  *at = run->next;
  pthread_mutex_unlock(&remote->lock);
  run_free(run);
}

// --- Finding each other ------------------------------------------------------------------------------

static PJRT_Error *callback_error(PJRT_Error_Code code, const char *message, size_t n) {
  return pjrt_error(fault_new(code, message, n));
}

static PJRT_Error *put(const KeyValues *store, const char *key, const char *value) {
  PJRT_CallbackError on_error = callback_error;
  return store->put(&(PJRT_KeyValuePutCallback_Args){.struct_size = sizeof(PJRT_KeyValuePutCallback_Args),
                                                     .key = key,
                                                     .key_size = strlen(key),
                                                     .value = value,
                                                     .value_size = strlen(value),
                                                     .callback_error = &on_error,
                                                     .user_arg = store->put_user});
}

enum { PATIENCE_MS = 300000 };

static PJRT_Error *get(const KeyValues *store, const char *key, char *value, size_t room) {
  PJRT_CallbackError on_error = callback_error;
  PJRT_KeyValueGetCallback_Args args = {.struct_size = sizeof args,
                                        .key = key,
                                        .key_size = strlen(key),
                                        .timeout_in_ms = PATIENCE_MS,
                                        .callback_error = &on_error,
                                        .user_arg = store->get_user};
  PJRT_Error *error = store->get(&args);
  if (error)
    return error;
  const size_t n = args.value_size < room ? args.value_size : room - 1;
  memcpy(value, args.value, n);
  value[n] = '\0';
  if (args.value_deleter_callback)
    args.value_deleter_callback(args.value);
  return NULL;
}

// The address that others shall use: HILO_ADDRESS, or the first of this machine that is not only its own, or 127.0.0.1.
static struct in_addr own_address(void) {
  struct in_addr out = {.s_addr = htonl(INADDR_LOOPBACK)};
  const char *wish = getenv("HILO_ADDRESS");
  if (wish && inet_pton(AF_INET, wish, &out) == 1)
    return out;
  struct ifaddrs *list = NULL;
  if (getifaddrs(&list) != 0)
    return out;
  for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
      continue;
    const struct in_addr found = ((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr;
    if (ntohl(found.s_addr) >> 24 == 127)
      continue;
    out = found;
    break;
  }
  freeifaddrs(list);
  return out;
}

static int listen_somewhere(struct in_addr address, int *port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = address};
  socklen_t n = sizeof at;
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
    if (fd >= 0)
      close(fd);
    return -1;
  }
  *port = ntohs(at.sin_port);
  return fd;
}

// What a process says of itself: "DEVICES ADDRESS PORT SECRET".
typedef struct Said {
  int devices, port;
  char address[INET_ADDRSTRLEN];
  unsigned long long secret;
} Said;

static bool read_said(const char *text, Said *out) {
  return sscanf(text, "%d %15s %d %llx", &out->devices, out->address, &out->port, &out->secret) == 4 &&
         out->devices > 0 && out->devices <= 1024 && out->port > 0 && out->port < 65536;
}

static void greet(HlBuf *out, uint64_t secret, int process) {
  put_number(out, magic);
  put_number(out, secret);
  put_number(out, (uint64_t)process);
}

static bool connect_to(Remote *remote, int process, const Said *said) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)said->port)};
  HlBuf hello = {0};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  greet(&hello, said->secret, remote->here);
  const bool good = fd >= 0 && inet_pton(AF_INET, said->address, &at.sin_addr) == 1 &&
                    connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                    send_all(fd, hello.at, hello.n);
  hl_buf_free(&hello);
  if (!good && fd >= 0)
    close(fd);
  remote->peer[process].socket = good ? fd : -1;
  return good;
}

// Strangers, who do not know the secret, are sent away.
static bool accept_one(Remote *remote, int listener, uint64_t secret) {
  const int fd = accept(listener, NULL, NULL);
  unsigned char hello[24];
  const struct timeval patience = {.tv_sec = 30}, none = {0};
  if (fd < 0)
    return errno == EINTR;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const bool good = receive_all(fd, hello, sizeof hello) && number_at(hello) == magic &&
                    number_at(hello + 8) == secret;
  const uint64_t process = good ? number_at(hello + 16) : 0;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  if (good && process < (uint64_t)remote->processes && remote->peer[process].socket < 0)
    remote->peer[process].socket = fd;
  else
    close(fd);
  return true;
}

static bool is_complete(const Remote *remote) {
  for (int p = 0; p < remote->processes; p++)
    if (p != remote->here && remote->peer[p].socket < 0)
      return false;
  return true;
}

static PJRT_Error *start_reading(Remote *remote) {
  for (int p = 0; p < remote->processes; p++) {
    Peer *peer = &remote->peer[p];
    if (p == remote->here)
      continue;
    const int at_once = 1;
    setsockopt(peer->socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    peer->reads = pthread_create(&peer->reader, NULL, read_peer, peer) == 0;
    if (!peer->reads)
      return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "cannot start a thread");
  }
  return NULL;
}

// Each calls those of lower numbers, and is called by the others.
static PJRT_Error *meet(Remote *remote, const KeyValues *store, int listener, uint64_t secret,
                        int *count) {
  for (int p = 0; p < remote->processes; p++) {
    char key[64], value[128];
    Said said;
    if (p == remote->here)
      continue;
    snprintf(key, sizeof key, "hilo/process/%d", p);
    PJRT_Error *error = get(store, key, value, sizeof value);
    if (error)
      return error;
    if (!read_said(value, &said))
      return pjrt_fail(PJRT_INTERNAL, "process %d says '%s' of itself", p, value);
    count[p] = said.devices;
    if (p < remote->here && !connect_to(remote, p, &said))
      return pjrt_fail(PJRT_UNAVAILABLE, "cannot connect to process %d at %s, port %d: %s", p,
                       said.address, said.port, strerror(errno));
  }
  while (!is_complete(remote))
    if (!accept_one(remote, listener, secret))
      return pjrt_fail(PJRT_UNAVAILABLE, "cannot be reached by other processes: %s", strerror(errno));
  return start_reading(remote);
}

static PJRT_Error *introduce(Remote *remote, const KeyValues *store, int local, int *count) {
  const struct in_addr address = own_address();
  char key[64], value[128], text[INET_ADDRSTRLEN];
  uint64_t secret = 0;
  int port = 0;
  const int listener = listen_somewhere(address, &port);
  if (listener < 0 || getrandom(&secret, sizeof secret, 0) != sizeof secret)
    return pjrt_fail(PJRT_UNAVAILABLE, "cannot listen for other processes: %s", strerror(errno));
  inet_ntop(AF_INET, &address, text, sizeof text);
  snprintf(key, sizeof key, "hilo/process/%d", remote->here);
  snprintf(value, sizeof value, "%d %s %d %llx", local, text, port, (unsigned long long)secret);
  count[remote->here] = local;
  PJRT_Error *error = put(store, key, value);
  if (!error)
    error = meet(remote, store, listener, secret, count);
  close(listener);
  return error;
}

Remote *remote_new(const KeyValues *store, int here, int processes, int local, int *count,
                   PJRT_Error **error) {
  Remote *remote = calloc(1, sizeof *remote);
  Peer *peer = calloc((size_t)processes, sizeof *peer);
  if (!remote || !peer) {
    free(remote);
    free(peer);
    *error = pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
    return NULL;
  }
  *remote = (Remote){.here = here, .processes = processes, .peer = peer};
  pthread_mutex_init(&remote->lock, NULL);
  for (int p = 0; p < processes; p++) {
    peer[p] = (Peer){.remote = remote, .process = p, .socket = -1};
    pthread_mutex_init(&peer[p].lock, NULL);
  }
  *error = introduce(remote, store, local, count);
  if (!*error)
    return remote;
  remote_free(remote);
  return NULL;
}

void remote_free(Remote *remote) {
  if (!remote)
    return;
  for (int p = 0; p < remote->processes; p++) {
    Peer *peer = &remote->peer[p];
    if (peer->socket >= 0)
      shutdown(peer->socket, SHUT_RDWR);
    if (peer->reads)
      pthread_join(peer->reader, NULL);
    if (peer->socket >= 0)
      close(peer->socket);
    pthread_mutex_destroy(&peer->lock);
  }
  for (RemoteRun *run = remote->runs, *next; run; run = next) {
    next = run->next;
    run_free(run);
  }
  for (Count *count = remote->counts, *next; count; count = next) {
    next = count->next;
    free(count);
  }
  pthread_mutex_destroy(&remote->lock);
  free(remote->peer);
  free(remote);
}
