// pjrt/event.c: events: something that has happened or will, well or with a fault.
//
// The client's handle is one reference, whoever will set the event holds another: a handle may go before the event happens,
// also inside what is told about it. What has happened well is one event for all: most are that.

#include <stdlib.h>

#include "pjrt/plugin.h"

typedef struct Listener {
  EventTold *told;
  void *user;
  struct Listener *next;
} Listener;

struct PJRT_Event {
  atomic_int refs;
  atomic_bool ready;
  Fault *fault;  // once ready
  pthread_mutex_t lock;
  pthread_cond_t happened;
  Listener *listeners;
};

static PJRT_Event all_well = {
    .refs = 1, .ready = true, .lock = PTHREAD_MUTEX_INITIALIZER, .happened = PTHREAD_COND_INITIALIZER};

PJRT_Event *event_new(void) {
  PJRT_Event *event = calloc(1, sizeof *event);
  if (!event)
    return NULL;
  event->refs = 1;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->happened, NULL);
  return event;
}

PJRT_Event *event_done(Fault *fault) {
  if (!fault)
    return &all_well;
  PJRT_Event *event = event_new();
  if (!event) {
    fault_unref(fault);
    return NULL;
  }
  event->fault = fault;
  event->ready = true;
  return event;
}

PJRT_Event *event_ref(PJRT_Event *event) {
  if (event != &all_well)
    atomic_fetch_add(&event->refs, 1);
  return event;
}

void event_unref(PJRT_Event *event) {
  if (!event || event == &all_well || atomic_fetch_sub(&event->refs, 1) > 1)
    return;
  for (Listener *l = event->listeners, *next; l; l = next) {  // nobody will set it any more
    next = l->next;
    free(l);
  }
  fault_unref(event->fault);
  pthread_mutex_destroy(&event->lock);
  pthread_cond_destroy(&event->happened);
  free(event);
}

// In the order in which they came.
static Listener *in_order(Listener *newest_first) {
  Listener *out = NULL;
  for (Listener *l = newest_first, *next; l; l = next) {
    next = l->next;
    l->next = out;
    out = l;
  }
  return out;
}

void event_set(PJRT_Event *event, Fault *fault) {
  event_ref(event);  // a listener may give back the last one
  pthread_mutex_lock(&event->lock);
  Listener *listeners = NULL;
  if (event->ready) {
    fault_unref(fault);
  } else {
    event->fault = fault;
    atomic_store(&event->ready, true);
    listeners = in_order(event->listeners);
    event->listeners = NULL;
    pthread_cond_broadcast(&event->happened);
  }
  pthread_mutex_unlock(&event->lock);
  for (Listener *l = listeners, *next; l; l = next) {
    next = l->next;
    l->told(l->user, event->fault);
    free(l);
  }
  event_unref(event);
}

bool event_is_ready(PJRT_Event *event) {
  return atomic_load(&event->ready);
}

Fault *event_wait(PJRT_Event *event) {
  if (event_is_ready(event))
    return event->fault;
  pthread_mutex_lock(&event->lock);
  while (!event->ready)
    pthread_cond_wait(&event->happened, &event->lock);
  pthread_mutex_unlock(&event->lock);
  return event->fault;
}

void event_tell(PJRT_Event *event, EventTold *told, void *user) {
  if (!event_is_ready(event)) {
    Listener *listener = malloc(sizeof *listener);
    pthread_mutex_lock(&event->lock);
    if (!event->ready && listener) {
      *listener = (Listener){told, user, event->listeners};
      event->listeners = listener;
      pthread_mutex_unlock(&event->lock);
      return;
    }
    pthread_mutex_unlock(&event->lock);
    free(listener);
    event_wait(event);  // without memory for a listener there is this way
  }
  told(user, event->fault);
}

// --- The interface -----------------------------------------------------------------------------------

PJRT_Error *PJRT_Event_Destroy(PJRT_Event_Destroy_Args *args) {
  event_unref(args->event);
  return NULL;
}

PJRT_Error *PJRT_Event_IsReady(PJRT_Event_IsReady_Args *args) {
  args->is_ready = event_is_ready(args->event);
  return NULL;
}

PJRT_Error *PJRT_Event_Error(PJRT_Event_Error_Args *args) {
  if (!event_is_ready(args->event))
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "the event has not happened yet");
  return pjrt_error(fault_ref(args->event->fault));
}

PJRT_Error *PJRT_Event_Await(PJRT_Event_Await_Args *args) {
  return pjrt_error(fault_ref(event_wait(args->event)));
}

typedef struct Told {
  PJRT_Event_OnReadyCallback callback;
  void *user;
} Told;

static void tell_client(void *user, Fault *fault) {
  const Told told = *(Told *)user;
  free(user);
  told.callback(pjrt_error(fault_ref(fault)), told.user);
}

PJRT_Error *PJRT_Event_OnReady(PJRT_Event_OnReady_Args *args) {
  if (event_is_ready(args->event)) {
    args->callback(pjrt_error(fault_ref(args->event->fault)), args->user_arg);
    return NULL;
  }
  Told *told = malloc(sizeof *told);
  if (!told)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  *told = (Told){args->callback, args->user_arg};
  event_tell(args->event, tell_client, told);
  return NULL;
}

PJRT_Error *PJRT_Event_Create(PJRT_Event_Create_Args *args) {
  args->event = event_new();
  return args->event ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

PJRT_Error *PJRT_Event_Set(PJRT_Event_Set_Args *args) {
  Fault *fault = args->error_code == PJRT_OK
                     ? NULL
                     : fault_new(args->error_code, args->error_message, args->error_message_size);
  event_set(args->event, fault);
  return NULL;
}
