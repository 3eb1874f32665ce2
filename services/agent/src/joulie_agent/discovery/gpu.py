"""The GPUs of this machine as NodeHardware describes them: facts of the drivers, completed from the inventory.

The hardware's own values win over the inventory, and no value is that of a generic model. A GPU that does not answer
causes a warning and is not counted. Absence of GPUs is reported only if the PCI bus was searched and has none; a
missing library proves nothing. Where a node has GPUs of several models, its values are those of the most frequent one;
each GPU's own are under `devices`, which caps are resolved against.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo
from joulie_actuator.hardware.pci import PciGpus
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.hardware.inventory import GpuSpec, Inventory, Match
from joulie_core.holders.records import NodeGpu
from joulie_core.kinds.node_hardware import Exactness, GpuCapRange, GpuDevice, GpuHardware, GpuSlicing


def describe_gpus(
    devices: Sequence[GpuDeviceInfo],
    inventory: Inventory,
    *,
    on_bus: PciGpus | None,
    control_available: bool,
    telemetry_available: bool,
) -> GpuHardware:
    """Return the GPUs. The caller knows whether they can be controlled and measured.

    Args:
        devices: devices that the drivers list.
        inventory: known models.
        on_bus: GPUs on the PCI bus; None if it cannot be read.
        control_available: whether limits can be set.
        telemetry_available: whether power can be read.
    """
    answering = [each for each in devices if each.failure is None]
    if not answering:
        return _without_answer(devices, on_bus).model_copy(
            update={"control_available": control_available, "telemetry_available": telemetry_available}
        )
    raw_model = Counter(each.model for each in answering).most_common(1)[0][0]
    typical = [each for each in answering if each.model == raw_model]
    match = inventory.find_gpu(raw_model)
    return GpuHardware(
        present=True,
        raw_model=raw_model,
        model=match.model if match else "",
        vendor=typical[0].vendor,
        count=len(answering),
        cap_range_per_gpu=_cap_range(typical, match),
        current_cap_watts=_watts(max((each.current_mw for each in answering if each.current_mw), default=None)),
        slicing=GpuSlicing(
            supported=any(each.partitioned is not None for each in answering),
            modes=tuple(dict.fromkeys(mode for each in answering for mode in each.partition_modes)),
        ),
        control_available=control_available,
        telemetry_available=telemetry_available,
        warnings=_warnings(devices, on_bus),
        devices=tuple(_device(each, inventory) for each in answering),
    )


def _without_answer(devices: Sequence[GpuDeviceInfo], on_bus: PciGpus | None) -> GpuHardware:
    """Return what is known of GPUs that no driver answers for."""
    counts = on_bus.counts if on_bus else {}
    vendor = max(counts, key=lambda each: counts[each], default=str(devices[0].vendor) if devices else "")
    searched = on_bus is not None and not on_bus.undecided
    return GpuHardware(
        present=True if vendor else False if searched else None,
        vendor=vendor,
        count=counts.get(vendor, 0),
        warnings=_warnings(devices, on_bus),
    )


def device_ranges(devices: Sequence[GpuDeviceInfo]) -> tuple[GpuDeviceRange, ...]:
    """Return the cap range of each GPU that answers and has a power limit."""
    return tuple(
        GpuDeviceRange(each.uuid, WattRange(limits.high / MW_PER_WATT, limits.low / MW_PER_WATT))
        for each in devices
        if each.failure is None and (limits := each.limits) is not None
    )


def gpus_without_limit(devices: Sequence[GpuDeviceInfo], on_bus: PciGpus | None) -> tuple[str, ...]:
    """Return the GPUs that answer no request or have no power limit, and those that no driver lists."""
    without = [each for each in devices if each.failure is not None or each.limits is None]
    return (*(f"GPU {each.uuid or each.index}" for each in without), *_missing(devices, on_bus))


def node_gpu(info: GpuDeviceInfo) -> NodeGpu:
    """Return a GPU by the names that other programs have for it."""
    return NodeGpu(
        uuid=info.uuid,
        vendor=info.vendor,
        index=info.index,
        pci_address=info.pci_address,
        minor=info.minor,
        partitions=(*info.partition_uuids, *info.partition_names),
        partitioned=info.partitioned,
    )


def _device(info: GpuDeviceInfo, inventory: Inventory) -> GpuDevice:
    match = inventory.find_gpu(info.model)
    limits = info.limits
    return GpuDevice(
        uuid=info.uuid,
        index=info.index,
        model=match.model if match else info.model,
        min=_watts(limits.low) if limits else None,
        max=_watts(limits.high) if limits else None,
        default=_watts(info.default_mw),
    )


def _cap_range(devices: Sequence[GpuDeviceInfo], match: Match[GpuSpec] | None) -> GpuCapRange | None:
    """Return the range that all GPUs of a model can be capped to."""
    limits = [each.limits for each in devices if each.limits is not None]
    low, high = max((each.low for each in limits), default=0), min((each.high for each in limits), default=0)
    if limits and low <= high:
        default_mw = min((each.default_mw for each in devices if each.default_mw), default=None)
        return GpuCapRange(min_watts=low / MW_PER_WATT, max_watts=high / MW_PER_WATT, default_watts=_watts(default_mw))
    if match is None or match.exactness is Exactness.GENERIC:
        return None
    spec = match.spec
    return GpuCapRange(min_watts=spec.min_watts, max_watts=spec.max_watts, default_watts=spec.default_watts)


def _warnings(devices: Sequence[GpuDeviceInfo], on_bus: PciGpus | None) -> tuple[str, ...]:
    answering = [each for each in devices if each.failure is None]
    notes = [*_missing(devices, on_bus), *(each.failure.message for each in devices if each.failure is not None)]
    models = sorted({each.model for each in answering})
    if len(models) > 1:
        notes.append(f"GPUs of several models: {', '.join(models)}")
    for each in answering:
        if each.limits is None:
            notes.append(f"GPU {each.index}: the driver offers no power limit")
        if each.partitioned:
            notes.append(f"GPU {each.index}: partitioned, and its power limit is that of all partitions together")
    return tuple(notes)


def _missing(devices: Sequence[GpuDeviceInfo], on_bus: PciGpus | None) -> Iterator[str]:
    """Return a warning for each vendor with GPUs on the bus that no driver lists."""
    listed = Counter(str(each.vendor) for each in devices)
    for vendor, count in sorted(on_bus.counts.items()) if on_bus else ():
        shown = f"{count} {vendor} GPU{'s' if count > 1 else ''} on the PCI bus"
        if not listed[vendor]:
            yield f"{shown}, and no library that answers for {'them' if count > 1 else 'it'}"
        elif listed[vendor] < count:
            yield f"{shown}, and {listed[vendor]} answer{'s' if listed[vendor] == 1 else ''}"


def _watts(mw: int | None) -> float | None:
    return None if mw is None else mw / MW_PER_WATT
