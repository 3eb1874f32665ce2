"""CPUs and memory of this machine as NodeHardware describes them, completed from the inventory.

The hardware's own values win over the inventory, and no value is that of a generic model.
"""

from typing import Final

from joulie_actuator.hardware.cpuinfo import HostFacts
from joulie_actuator.hardware.knob import LOWEST_CAP_SHARE
from joulie_core.hardware.inventory import CpuSpec, Inventory, Match
from joulie_core.kinds.node_hardware import CpuCapRange, CpuHardware, Exactness, FrequencyLandmarks, MemoryHardware
from joulie_core.units import KHZ_PER_MHZ

_MHZ_PER_GHZ: Final = 1000


def describe_cpu(
    facts: HostFacts, inventory: Inventory, *, control_available: bool, telemetry_available: bool
) -> CpuHardware:
    """Return the CPUs. The caller knows whether they can be controlled and measured."""
    match = find_cpu(facts, inventory)
    spec = match.spec if match and match.exactness is not Exactness.GENERIC else None
    return CpuHardware(
        raw_model=facts.identity.model_name,
        model=match.model if match else "",
        vendor=match.spec.vendor if match else "",
        sockets=facts.packages,
        total_cores=facts.cores,
        threads=facts.threads,
        cores_per_socket=facts.cores // facts.packages if facts.packages else 0,
        driver_family=facts.driver_family,
        cap_range=_cap_range(facts, spec),
        landmarks=_landmarks(facts, spec),
        control_available=control_available,
        telemetry_available=telemetry_available,
        warnings=facts.warnings,
    )


def describe_memory(facts: HostFacts) -> MemoryHardware | None:
    """Return the main memory; None if unknown."""
    return None if facts.memory_bytes is None else MemoryHardware(total_bytes=facts.memory_bytes)


def find_cpu(facts: HostFacts, inventory: Inventory) -> Match[CpuSpec] | None:
    """Return the inventory's entry by name, or by family and model where a hypervisor hides the name."""
    identity = facts.identity
    by_name = inventory.find_cpu(identity.model_name)
    if by_name and (by_name.exactness is not Exactness.GENERIC or by_name.other_segment):
        return by_name
    if identity.family is None or identity.model is None:
        return by_name
    by_id = inventory.find_cpu_by_id(identity.vendor, identity.family, identity.model)
    return by_id if by_id and by_id.exactness is not Exactness.GENERIC else by_name or by_id


def _cap_range(facts: HostFacts, spec: CpuSpec | None) -> CpuCapRange | None:
    max_watts = facts.max_package_watts or (spec.max_watts if spec else None)
    if max_watts is None:
        return None
    lowest_watts = facts.min_package_watts or LOWEST_CAP_SHARE * max_watts
    useful_watts = spec.min_watts if spec and spec.min_watts <= max_watts else lowest_watts
    return CpuCapRange(min_watts_per_socket=max(lowest_watts, useful_watts), max_watts_per_socket=max_watts)


def _landmarks(facts: HostFacts, spec: CpuSpec | None) -> FrequencyLandmarks | None:
    base_mhz = _mhz(facts.base_khz) or (spec.base_ghz * _MHZ_PER_GHZ if spec else None)
    landmarks = FrequencyLandmarks(
        min_freq_mhz=_mhz(facts.lowest_khz), base_freq_mhz=base_mhz, max_boost_mhz=_mhz(facts.highest_khz)
    )
    return landmarks if landmarks != FrequencyLandmarks() else None


def _mhz(khz: int | None) -> float | None:
    return khz / KHZ_PER_MHZ if khz else None
