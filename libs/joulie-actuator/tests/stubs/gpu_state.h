/* The GPUs behind both stub libraries: a file that the test maps and changes while the process under test runs.
 * Mirrored in joulie_testing.agent.stub_gpus; every field is 32 bits wide or a character array, so that there is no padding. */
#ifndef JOULIE_STUB_GPU_STATE_H
#define JOULIE_STUB_GPU_STATE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_GPUS 80
#define MAX_PIDS 8

enum { HANG_NEVER = 0, HANG_ALWAYS = 1, HANG_ON_SET = 2 };

struct stub_gpu {
    char uuid[80];
    char name[96];
    volatile uint32_t min_mw, max_mw, default_mw, limit_mw, power_mw;
    volatile uint32_t imposed_mw;       /* a limit of the hardware's own; 0: none */
    volatile uint32_t no_power_limit;   /* a device that offers none */
    volatile uint32_t can_be_partitioned, partitioned;
    volatile uint32_t lost;
    volatile uint32_t hang;             /* as for all GPUs, of this one */
    volatile uint32_t lowest_mhz, highest_mhz; /* graphics clocks of the hardware */
    volatile uint32_t lock_mhz;         /* the highest clock that it is held to; 0: none */
    volatile uint32_t no_lock;          /* a device whose clocks cannot be held */
    volatile uint32_t clock_mhz;        /* the clock of the moment; 0: the highest that it is held to */
    volatile uint32_t clock_reasons;    /* NVML: the reasons of the moment, a bit for each */
    volatile uint32_t no_clock_reasons; /* a device, or a guest, that tells none */
    /* AMD SMI: readings of the firmware so far, and those of them under each kind of limit. */
    volatile uint32_t readings, power_readings, thermal_readings;
    volatile uint32_t activity_pct;     /* of the graphics engine, also NVML's */
    volatile uint32_t energy_low, energy_high; /* of the energy counter: millijoules, and AMD SMI's own unit */
    volatile uint32_t no_energy;        /* a device that has none */
    volatile uint32_t computes, draws;  /* how many processes do; AMD SMI does not tell them apart */
    volatile uint32_t compute_pids[MAX_PIDS], draw_pids[MAX_PIDS];
    volatile uint32_t no_processes;     /* a device, or a guest, that lists none */
    volatile uint32_t manual;           /* AMD SMI: the performance level in which limits on clocks are in force */
    volatile uint32_t set_us;           /* how long each step of a change of its clocks takes */
    volatile uint32_t releases;         /* how often limits on its clocks have ended */
    volatile uint32_t bus, partition;   /* AMD SMI: of its PCI address, whose function is the partition; no bus: it tells none */
};

struct stub_state {
    volatile uint32_t count;
    volatile uint32_t loaded;           /* the kernel's driver */
    volatile uint32_t epoch;            /* one more at each load of it */
    volatile uint32_t may_set;          /* root */
    volatile uint32_t hang;
    volatile uint32_t version_mismatch;
    volatile uint32_t lib_major, lib_minor; /* the version that AMD SMI reports */
    volatile uint32_t inits, shutdowns, sets;
    struct stub_gpu gpus[MAX_GPUS];
};

static struct stub_state *state;
static uint32_t clients;                /* inits less shutdowns of this process */
static uint32_t client_epoch;

static void attach(void)
{
    const char *path = getenv("JOULIE_STUB_GPU_STATE");
    if (state != NULL)
        return;
    int fd = path == NULL ? -1 : open(path, O_RDWR);
    if (fd >= 0)
        state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || state == MAP_FAILED) {
        fprintf(stderr, "stub: JOULIE_STUB_GPU_STATE names no file that can be mapped\n");
        abort();
    }
    close(fd);
}

static void hang_if_set(int setting)
{
    while (state->hang == HANG_ALWAYS || (setting && state->hang == HANG_ON_SET))
        usleep(1000);
}

static inline void hang_gpu_if_set(const struct stub_gpu *gpu, int setting)
{
    while (gpu->hang == HANG_ALWAYS || (setting && gpu->hang == HANG_ON_SET))
        usleep(1000);
}

static inline void release_clocks(struct stub_gpu *gpu)
{
    usleep(gpu->set_us);
    gpu->lock_mhz = gpu->manual = 0;
    gpu->releases++;
    usleep(gpu->set_us);
}

/* A handle is good for the load of the driver that it was given under. */
static void *handle_of(uint32_t index)
{
    return (void *)(uintptr_t)(((uint64_t)client_epoch + 1) << 16 | (index + 1));
}

static struct stub_gpu *gpu_of(const void *handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle;
    uint32_t index = (uint32_t)(value & 0xffff) - 1;
    if (value >> 16 != (uint64_t)client_epoch + 1 || index >= state->count)
        return NULL;
    return &state->gpus[index];
}

static inline uint64_t energy_count(const struct stub_gpu *gpu)
{
    return (uint64_t)gpu->energy_high << 32 | gpu->energy_low;
}

static inline uint32_t enforced_mw(const struct stub_gpu *gpu)
{
    return gpu->imposed_mw != 0 && gpu->imposed_mw < gpu->limit_mw ? gpu->imposed_mw : gpu->limit_mw;
}

#endif
