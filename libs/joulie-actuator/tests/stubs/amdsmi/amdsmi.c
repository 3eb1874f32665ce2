/* The part of libamd_smi.so that joulie_actuator.hardware.gpu.amdsmi calls, over GPUs that live in a file. The package binds
 * every function of the library while it is imported; the test adds one that answers NOT_SUPPORTED for each of the rest.
 * Structures are those of amdsmi 7.0.2's wrapper. */
enum {
    SUCCESS = 0, INVAL = 1, NOT_SUPPORTED = 2, NO_PERM = 10, NOT_FOUND = 31, NOT_INIT = 32, DRIVER_NOT_LOADED = 34,
    OUT_OF_RESOURCES = 15, INSUFFICIENT_SIZE = 41
};
enum {
    NOT_OPEN = NOT_INIT, NOT_LOADED = DRIVER_NOT_LOADED, BAD_HANDLE = INVAL, LOST = NOT_FOUND, TOO_SHORT = INSUFFICIENT_SIZE
};

#include "../gpu_calls.h"

#define UW_PER_MW 1000ull

typedef uint32_t amdsmi_status_t;
typedef void *handle_t;

amdsmi_status_t amdsmi_init(uint64_t flags)
{
    (void)flags;
    attach();
    return open_library(SUCCESS);
}

amdsmi_status_t amdsmi_shut_down(void)
{
    return close_library();
}

/* amdsmi_version_t */
struct version {
    uint32_t major, minor, release, padding;
    const char *build;
};

amdsmi_status_t amdsmi_get_lib_version(struct version *version)
{
    attach();
    *version = (struct version){state->lib_major, state->lib_minor, 0, 0, "stub"};
    return SUCCESS;
}

/* One socket per GPU, as on a machine with accelerator modules. */
amdsmi_status_t amdsmi_get_socket_handles(uint32_t *count, handle_t *sockets)
{
    amdsmi_status_t ret = driver_state();
    if (ret != SUCCESS)
        return ret;
    for (uint32_t i = 0; sockets != NULL && i < *count && i < state->count; i++)
        sockets[i] = handle_of(i);
    *count = state->count;
    return SUCCESS;
}

amdsmi_status_t amdsmi_get_processor_handles(handle_t socket, uint32_t *count, handle_t *processors)
{
    amdsmi_status_t ret = driver_state();
    if (ret != SUCCESS)
        return ret;
    if (processors != NULL && *count > 0)
        processors[0] = socket;
    *count = 1;
    return SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_device_uuid(handle_t device, uint32_t *length, char *uuid)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    return copy(uuid, *length, gpu->uuid);
}

/* amdsmi_bdf_t: the partitions of a GPU have its address but for the function, which is the number of the partition. */
amdsmi_status_t amdsmi_get_gpu_device_bdf(handle_t device, uint64_t *bdf)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->bus == 0)
        return NOT_SUPPORTED;
    *bdf = (uint64_t)gpu->bus << 8 | gpu->partition;
    return SUCCESS;
}

/* amdsmi_asic_info_t */
struct __attribute__((packed)) asic_info {
    char market_name[256];
    uint32_t vendor_id;
    char vendor_name[256];
    uint32_t subvendor_id;
    uint64_t device_id;
    uint32_t rev_id;
    char asic_serial[256];
    uint32_t oam_id, compute_units, padding;
    uint64_t target_graphics_version;
    uint32_t subsystem_id, reserved[21];
};

amdsmi_status_t amdsmi_get_gpu_asic_info(handle_t device, struct asic_info *info)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    memset(info, 0, sizeof *info);
    strcpy(info->market_name, gpu->name);
    strcpy(info->vendor_name, "Advanced Micro Devices Inc. [AMD/ATI]");
    info->vendor_id = 0x1002;
    info->device_id = 0x74a1;
    info->target_graphics_version = 0x942;
    return SUCCESS;
}

/* amdsmi_power_cap_info_t, in microwatts */
struct __attribute__((packed)) power_cap_info {
    uint64_t power_cap, default_power_cap, dpm_cap, min_power_cap, max_power_cap, reserved[3];
};

amdsmi_status_t amdsmi_get_power_cap_info(handle_t device, uint32_t sensor, struct power_cap_info *info)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (sensor != 0 || gpu->no_power_limit)
        return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->power_cap = gpu->limit_mw * UW_PER_MW;
    info->default_power_cap = gpu->default_mw * UW_PER_MW;
    /* What the library answers where the device tells no range, as behind SR-IOV. */
    info->min_power_cap = gpu->max_mw == 0 ? UINT64_MAX : gpu->min_mw * UW_PER_MW;
    info->max_power_cap = gpu->max_mw == 0 ? UINT64_MAX : gpu->max_mw * UW_PER_MW;
    return SUCCESS;
}

amdsmi_status_t amdsmi_set_power_cap(handle_t device, uint32_t sensor, uint64_t cap_uw)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (sensor != 0 || gpu->no_power_limit)
        return NOT_SUPPORTED;
    if (!state->may_set)
        return NO_PERM;
    if (cap_uw < gpu->min_mw * UW_PER_MW || cap_uw > gpu->max_mw * UW_PER_MW)
        return INVAL;
    hang_if_set(1);
    hang_gpu_if_set(gpu, 1);
    gpu->limit_mw = (uint32_t)(cap_uw / 1000000) * 1000; /* amdgpu keeps whole watts */
    state->sets++;
    return SUCCESS;
}

/* amdsmi_power_info_t, in watts */
struct __attribute__((packed)) power_info {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t gfx_voltage, soc_voltage, mem_voltage;
    uint32_t power_limit, padding;
    uint64_t reserved[18];
};

amdsmi_status_t amdsmi_get_power_info(handle_t device, struct power_info *info)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    memset(info, 0xff, sizeof *info);
    info->average_socket_power = 0xffff;
    info->current_socket_power = gpu->power_mw == 0 ? 0xffff : gpu->power_mw / 1000;
    info->socket_power = info->current_socket_power;
    return SUCCESS;
}

amdsmi_status_t amdsmi_get_energy_count(handle_t device, uint64_t *count, float *resolution_uj, uint64_t *timestamp_ns)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_energy)
        return NOT_SUPPORTED;
    *count = energy_count(gpu);
    *resolution_uj = 15.3f;
    *timestamp_ns = 1;
    return SUCCESS;
}

/* amdsmi_proc_info_t, of the processes that KFD has for this partition: each has a device of its own there. */
struct __attribute__((packed)) process_info {
    char name[256];
    uint32_t pid;
    uint8_t padding[4];
    uint64_t memory, engines[2];
    uint32_t engines_reserved[12];
    uint64_t memories[3];
    uint32_t memories_reserved[10];
    char container_name[256];
    uint32_t occupancy, reserved[11];
};

amdsmi_status_t amdsmi_get_gpu_process_list(handle_t device, uint32_t *count, struct process_info *infos)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_processes)
        return NOT_SUPPORTED;
    uint32_t room = *count;
    *count = gpu->computes;
    for (uint32_t i = 0; i < gpu->computes && i < room; i++) {
        memset(&infos[i], 0, sizeof infos[i]);
        /* A process may give itself any name. */
        strcpy(infos[i].name, gpu->draws ? "\xff" : "train");
        infos[i].pid = gpu->compute_pids[i];
    }
    return gpu->computes > room ? OUT_OF_RESOURCES : SUCCESS;
}

/* amdsmi_clk_info_t, in MHz */
struct __attribute__((packed)) clock_info {
    uint32_t clock, lowest, highest;
    uint8_t locked, deep_sleep, padding[2];
    uint32_t reserved[4];
};

enum { CLOCK_GFX = 0, LIMIT_MIN = 0, LIMIT_MAX = 1, LEVEL_AUTO = 0, LEVEL_MANUAL = 3 };

static amdsmi_status_t clocks_of(handle_t device, uint32_t type, struct stub_gpu **gpu)
{
    amdsmi_status_t ret = find(device, gpu);
    if (ret != SUCCESS)
        return ret;
    return type != CLOCK_GFX || (*gpu)->highest_mhz == 0 ? NOT_SUPPORTED : SUCCESS;
}

/* The range in use, as amdgpu tells it for MI300: the ends that were set, and not those of the hardware. */
amdsmi_status_t amdsmi_get_clock_info(handle_t device, uint32_t type, struct clock_info *info)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = clocks_of(device, type, &gpu);
    if (ret != SUCCESS)
        return ret;
    memset(info, 0, sizeof *info);
    info->lowest = gpu->lowest_mhz;
    info->highest = gpu->lock_mhz != 0 ? gpu->lock_mhz : gpu->highest_mhz;
    info->clock = gpu->clock_mhz != 0 ? gpu->clock_mhz : info->highest;
    return SUCCESS;
}

/* The library sets the level, and then the end: two writes to files of amdgpu. */
amdsmi_status_t amdsmi_set_gpu_clk_limit(handle_t device, uint32_t type, uint32_t end, uint64_t mhz)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = clocks_of(device, type, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_lock || end != LIMIT_MAX)
        return NOT_SUPPORTED;
    if (!state->may_set)
        return NO_PERM;
    if (mhz < gpu->lowest_mhz || mhz > gpu->highest_mhz)
        return INVAL;
    hang_gpu_if_set(gpu, 1);
    gpu->manual = 1;
    usleep(gpu->set_us);
    gpu->lock_mhz = (uint32_t)mhz;
    state->sets++;
    usleep(gpu->set_us);
    return SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_perf_level(handle_t device, uint32_t *level)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = clocks_of(device, CLOCK_GFX, &gpu);
    if (ret == SUCCESS)
        *level = gpu->manual || gpu->lock_mhz != 0 ? LEVEL_MANUAL : LEVEL_AUTO;
    return ret;
}

amdsmi_status_t amdsmi_set_gpu_perf_level(handle_t device, uint32_t level)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = clocks_of(device, CLOCK_GFX, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (!state->may_set)
        return NO_PERM;
    if (level == LEVEL_AUTO)
        release_clocks(gpu);
    return SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_compute_partition(handle_t device, char *partition, uint32_t length)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    /* The first partition alone has the file that tells it. */
    if (!gpu->can_be_partitioned || gpu->partition != 0)
        return NOT_SUPPORTED;
    snprintf(partition, length, "%s", gpu->partitioned ? "CPX" : "SPX");
    return SUCCESS;
}

/* amdsmi_gpu_xcp_metrics_t */
struct __attribute__((packed)) xcp_metrics {
    uint32_t gfx_busy_inst[8];
    uint16_t jpeg_busy[40], vcn_busy[4];
    uint64_t gfx_busy_acc[8], below_host_limit_acc[8], below_ppt_acc[8], below_thm_acc[8], low_utilization_acc[8];
    uint64_t below_total_acc[8];
};

/* amdsmi_gpu_metrics_t */
struct __attribute__((packed)) gpu_metrics {
    uint16_t structure_size;
    uint8_t format_revision, content_revision;
    uint16_t temperatures[6], gfx_activity, umc_activity, mm_activity, average_socket_power;
    uint64_t energy_accumulator, system_clock_counter;
    uint16_t average_clocks[7], current_clocks[7];
    uint32_t throttle_status;
    uint16_t fan_speed, pcie_link_width, pcie_link_speed;
    uint8_t padding_0[2];
    uint32_t gfx_activity_acc, mem_activity_acc;
    uint16_t temperature_hbm[4];
    uint64_t firmware_timestamp;
    uint16_t voltages[3];
    uint8_t padding_1[2];
    uint64_t indep_throttle_status;
    uint16_t current_socket_power, vcn_activity[4];
    uint8_t padding_2[2];
    uint32_t gfxclk_lock_status;
    uint16_t xgmi_link_width, xgmi_link_speed;
    uint8_t padding_3[4];
    uint64_t pcie[5], xgmi_read[8], xgmi_write[8];
    uint16_t gfxclks[8], socclks[4], vclk0s[4], dclk0s[4], jpeg_activity[32];
    uint32_t pcie_nak_sent, pcie_nak_received;
    uint64_t accumulation_counter, prochot_acc, ppt_acc, socket_thm_acc, vr_thm_acc, hbm_thm_acc;
    uint16_t num_partition;
    uint8_t padding_4[6];
    struct xcp_metrics xcp[8];
    uint32_t pcie_recovery;
    uint8_t padding_5[4];
    uint64_t vram_max_bandwidth;
    uint16_t xgmi_link_status[8];
};

/* A figure that the device does not have is all ones: the counters before MI300, the state of throttling from there on. */
amdsmi_status_t amdsmi_get_gpu_metrics_info(handle_t device, struct gpu_metrics *metrics)
{
    struct stub_gpu *gpu;
    amdsmi_status_t ret = find(device, &gpu);
    if (ret != SUCCESS)
        return ret;
    if (gpu->no_clock_reasons)
        return NOT_SUPPORTED;
    memset(metrics, 0xff, sizeof *metrics);
    metrics->gfx_activity = (uint16_t)gpu->activity_pct;
    if (gpu->readings == 0) {
        metrics->indep_throttle_status = gpu->power_readings + gpu->thermal_readings;
        return SUCCESS;
    }
    metrics->accumulation_counter = gpu->readings;
    metrics->ppt_acc = gpu->power_readings;
    metrics->socket_thm_acc = gpu->thermal_readings;
    metrics->prochot_acc = metrics->vr_thm_acc = metrics->hbm_thm_acc = 0;
    return SUCCESS;
}
