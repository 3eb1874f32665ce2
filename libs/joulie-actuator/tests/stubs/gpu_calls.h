/* What every call of a stub library begins with, over the GPUs of gpu_state.h. The including file defines the vendor's
 * codes: SUCCESS, NOT_OPEN, NOT_LOADED, BAD_HANDLE, LOST and TOO_SHORT. */
#ifndef JOULIE_STUB_GPU_CALLS_H
#define JOULIE_STUB_GPU_CALLS_H

#include <string.h>

#include "gpu_state.h"

/* A connection to the driver ends when the driver is reloaded. */
static int driver_state(void)
{
    if (state == NULL || clients == 0)
        return NOT_OPEN;
    hang_if_set(0);
    if (!state->loaded)
        return NOT_LOADED;
    return client_epoch == state->epoch ? SUCCESS : NOT_OPEN;
}

static int find(const void *device, struct stub_gpu **gpu)
{
    int ret = driver_state();
    if (ret != SUCCESS)
        return ret;
    *gpu = gpu_of(device);
    if (*gpu == NULL)
        return BAD_HANDLE;
    hang_gpu_if_set(*gpu, 0);
    return (*gpu)->lost ? LOST : SUCCESS;
}

/* `refused`: a code for a driver that is loaded and cannot be used; SUCCESS where it can. */
static int open_library(int refused)
{
    hang_if_set(0);
    state->inits++;
    if (!state->loaded)
        return NOT_LOADED;
    if (refused != SUCCESS)
        return refused;
    if (clients++ == 0)             /* a further init connects to nothing: it only counts */
        client_epoch = state->epoch;
    return SUCCESS;
}

static int close_library(void)
{
    if (clients == 0)
        return NOT_OPEN;
    clients--;
    state->shutdowns++;
    return SUCCESS;
}

static int copy(char *buffer, unsigned int length, const char *text)
{
    if (strlen(text) >= length)
        return TOO_SHORT;
    strcpy(buffer, text);
    return SUCCESS;
}

#endif
