/* A libnvidia-ml.so.1 whose GPUs live in a file. Only what joulie_actuator.hardware.gpu.nvml calls, with NVML's own
 * signatures, codes and order of checks. Source: NVIDIA, NVML API Reference Guide. */
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18
};
enum {
    NOT_OPEN = UNINITIALIZED, NOT_LOADED = DRIVER_NOT_LOADED, BAD_HANDLE = INVALID_ARGUMENT, LOST = GPU_IS_LOST,
    TOO_SHORT = INSUFFICIENT_SIZE
};

#include "../gpu_calls.h"

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    attach();
    return open_library(state->version_mismatch ? LIB_RM_VERSION_MISMATCH : SUCCESS);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    return close_library();
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    (void)code;
    return "an error of the stub";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t ret = driver_state();
    if (ret == SUCCESS)
        *count = state->count;
    return ret;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlReturn_t ret = driver_state();
    if (ret != SUCCESS)
        return ret;
    if (index >= state->count)
        return INVALID_ARGUMENT;
    hang_gpu_if_set(&state->gpus[index], 0);
    if (state->gpus[index].lost)
        return GPU_IS_LOST;
    *device = handle_of(index);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    return ret != SUCCESS ? ret : copy(uuid, length, gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    return ret != SUCCESS ? ret : copy(name, length, gpu->name);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power_mw)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret == SUCCESS)
        *power_mw = gpu->power_mw;
    return ret;
}

/* The form of driver 510 and later. */
#ifndef BEFORE_ENFORCED_LIMIT
typedef struct {
    unsigned int pid;
    unsigned long long used_memory;
    unsigned int gpu_instance, compute_instance;
} nvmlProcessInfo_t;

static nvmlReturn_t processes(nvmlDevice_t device, int draws, unsigned int *count, nvmlProcessInfo_t *infos)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_processes)
        return NOT_SUPPORTED;
    unsigned int room = *count;
    *count = draws ? gpu->draws : gpu->computes;
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < *count; i++)
        infos[i] = (nvmlProcessInfo_t){ draws ? gpu->draw_pids[i] : gpu->compute_pids[i], 1 << 20, ~0u, ~0u };
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    return processes(device, 0, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    return processes(device, 1, count, infos);
}
#endif

/* Since Volta, and since driver 384. */
#ifndef BEFORE_ENFORCED_LIMIT
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy_mj)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_energy)
        return NOT_SUPPORTED;
    *energy_mj = energy_count(gpu);
    return SUCCESS;
}
#endif

static nvmlReturn_t limit_of(nvmlDevice_t device, struct stub_gpu **gpu)
{
    nvmlReturn_t ret = find(device, gpu);
    return ret == SUCCESS && (*gpu)->no_power_limit ? NOT_SUPPORTED : ret;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low, unsigned int *high)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = limit_of(device, &gpu);
    if (ret == SUCCESS) {
        *low = gpu->min_mw;
        *high = gpu->max_mw;
    }
    return ret;
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = limit_of(device, &gpu);
    if (ret == SUCCESS)
        *limit_mw = gpu->default_mw;
    return ret;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = limit_of(device, &gpu);
    if (ret == SUCCESS)
        *limit_mw = gpu->limit_mw;
    return ret;
}

#ifndef BEFORE_ENFORCED_LIMIT
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = limit_of(device, &gpu);
    if (ret == SUCCESS)
        *limit_mw = enforced_mw(gpu);
    return ret;
}
#endif

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit_mw)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = limit_of(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (!state->may_set)
        return NO_PERMISSION;
    if (limit_mw < gpu->min_mw || limit_mw > gpu->max_mw)
        return INVALID_ARGUMENT;
    hang_if_set(1);
    hang_gpu_if_set(gpu, 1);
    gpu->limit_mw = limit_mw;
    state->sets++;
    return SUCCESS;
}

static nvmlReturn_t list(unsigned int *count, unsigned int *clocks, unsigned int wanted, const unsigned int *mhz)
{
    unsigned int room = *count;
    *count = wanted;
    if (clocks == NULL || room < wanted)
        return INSUFFICIENT_SIZE;
    memcpy(clocks, mhz, wanted * sizeof *mhz);
    return SUCCESS;
}

static nvmlReturn_t clocks_of(nvmlDevice_t device, struct stub_gpu **gpu)
{
    nvmlReturn_t ret = find(device, gpu);
    return ret == SUCCESS && (*gpu)->highest_mhz == 0 ? NOT_SUPPORTED : ret;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks)
{
    static const unsigned int mhz[] = {2619, 1593};
    struct stub_gpu *gpu;
    nvmlReturn_t ret = clocks_of(device, &gpu);
    return ret != SUCCESS ? ret : list(count, clocks, 2, mhz);
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int *count,
                                                  unsigned int *clocks)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = clocks_of(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (memory_mhz != 2619)
        return NOT_FOUND;
    return list(count, clocks, 2, (unsigned int[]){gpu->highest_mhz, gpu->lowest_mhz});
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = clocks_of(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (type != 0) /* NVML_CLOCK_GRAPHICS */
        return INVALID_ARGUMENT;
    *clock = gpu->clock_mhz != 0 ? gpu->clock_mhz : gpu->lock_mhz != 0 ? gpu->lock_mhz : gpu->highest_mhz;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_clock_reasons)
        return NOT_SUPPORTED;
    *reasons = gpu->clock_reasons;
    return SUCCESS;
}

/* nvmlUtilization_t */
struct utilization {
    unsigned int gpu, memory;
};

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *utilization)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->partitioned)
        return NOT_SUPPORTED;
    *utilization = (struct utilization){.gpu = gpu->activity_pct};
    return SUCCESS;
}

/* Since driver 535; the older name stays. */
#ifndef BEFORE_ENFORCED_LIMIT
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
#endif

static nvmlReturn_t lockable(nvmlDevice_t device, struct stub_gpu **gpu)
{
    nvmlReturn_t ret = clocks_of(device, gpu);
    if (ret != SUCCESS)
        return ret;
    if ((*gpu)->no_lock)
        return NOT_SUPPORTED;
    return state->may_set ? SUCCESS : NO_PERMISSION;
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int low, unsigned int high)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = lockable(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (low > high || high > gpu->highest_mhz)
        return INVALID_ARGUMENT;
    hang_gpu_if_set(gpu, 1);
    usleep(gpu->set_us);
    gpu->lock_mhz = high;
    state->sets++;
    usleep(gpu->set_us);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = lockable(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    hang_gpu_if_set(gpu, 1);
    release_clocks(gpu);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (!gpu->can_be_partitioned)
        return NOT_SUPPORTED;
    *current = *pending = gpu->partitioned;
    return SUCCESS;
}

/* nvmlGpuInstanceProfileInfo_v2_t */
struct profile {
    unsigned int version, id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpegs, ofas;
    unsigned long long memory_mb;
    char name[96];
};

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile, struct profile *info)
{
    static const char *const names[] = {"MIG 1g.10gb", "MIG 2g.20gb", "MIG 3g.40gb", NULL, "MIG 7g.80gb"};
    struct stub_gpu *gpu;
    nvmlReturn_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (!gpu->can_be_partitioned || profile >= sizeof names / sizeof *names || names[profile] == NULL)
        return NOT_SUPPORTED;
    info->id = profile;
    return copy(info->name, sizeof info->name, names[profile]);
}
