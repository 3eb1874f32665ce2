"""The energy of a node as `status.energy` of its TelemetryProfile shows it, within its bounds."""

from collections.abc import Mapping

from joulie_core.attribution.sums import OTHER, EnergySum
from joulie_core.attribution.totals import EnergyPart, EnergyTotals, MeteredDevice
from joulie_core.kinds.energy_report import (
    MOST_REPORTED_WORKLOADS,
    DeviceEnergyReport,
    EnergyReport,
    WorkloadEnergyReport,
)
from joulie_core.timestamps import rfc3339


def energy_report(totals: Mapping[MeteredDevice, EnergyTotals], since_s: float, now_s: float) -> EnergyReport:
    """Return the report.

    Args:
        totals: the sums.
        since_s: their start, in seconds since the epoch.
        now_s: wall time, in seconds since the epoch.
    """
    sums = {
        (owner, device, kind): energy
        for device, total in totals.items()
        for (owner, kind), energy in total.workloads.items()
    }
    # Every kind of every device may need a place for `other`.
    places = MOST_REPORTED_WORKLOADS - len({(device, kind) for _, device, kind in sums})
    shown = set(sorted(sums, key=lambda key: (-sums[key].joules, key))[:places])
    rows: dict[tuple[str, str, MeteredDevice, str], EnergySum] = {}
    for (owner, device, kind), energy in sums.items():
        named = owner if (owner, device, kind) in shown else OTHER
        key = (named.namespace, named.workload, device, kind)
        rows[key] = rows.get(key, EnergySum()).and_sum(energy)
    return EnergyReport(
        since=rfc3339(since_s),
        updated_at=rfc3339(now_s),
        devices=tuple(_device(device, total) for device, total in totals.items()),
        workloads=tuple(
            WorkloadEnergyReport(
                namespace=namespace,
                workload=workload,
                device=device,
                kind=kind,
                joules=round(energy.joules, 1),
                lower_joules=round(energy.lower_joules, 1),
                upper_joules=round(energy.upper_joules, 1),
            )
            for (namespace, workload, device, kind), energy in sorted(rows.items())
        ),
        workload_count=len(sums),
    )


def _device(device: MeteredDevice, total: EnergyTotals) -> DeviceEnergyReport:
    parts = total.parts
    return DeviceEnergyReport(
        device=device,
        pods_joules=round(parts[EnergyPart.PODS], 1),
        idle_joules=round(parts[EnergyPart.IDLE], 1),
        unattributed_joules=round(parts[EnergyPart.UNATTRIBUTED], 1),
        unknown_seconds=round(total.unknown_seconds, 1),
    )
