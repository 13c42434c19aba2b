// pjrt/client.h: what makes a client's parts and takes them away again.
#ifndef HILO_PJRT_CLIENT_H
#define HILO_PJRT_CLIENT_H

#include "pjrt/plugin.h"

void device_init(PJRT_Device *device, PJRT_Client *client, int id, int process, int local);
void device_deinit(PJRT_Device *device);
void description_init(PJRT_DeviceDescription *description, int id, int process);

// compile.c
void sessions_free(PJRT_Client *client);
void cache_free(PJRT_Client *client);

#endif
