"""Series of the energy of this node, in joules since the agent's start."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.metrics_core import Metric

from joulie_agent.energy.follow import EnergySource
from joulie_api.metrics import counter, gauge
from joulie_core.attribution.totals import EnergyTotals, MeteredDevice

_WORKLOAD: Final = ("node", "namespace", "workload", "device", "kind")


class AddedUp(Protocol):
    """Energy as it is shown, such as `EnergyFollower`."""

    @property
    def totals(self) -> Mapping[MeteredDevice, EnergyTotals]:
        """The sums by kind of device."""

    @property
    def missing(self) -> Mapping[EnergySource, str]:
        """The sources that are missing, and why."""


def energy_families(node: str, energy: AddedUp) -> Iterator[Metric]:
    """Yield every series of a node."""
    totals, missing = energy.totals, energy.missing
    rows = [
        ((node, owner.namespace, owner.workload, device, kind), energy)
        for device, total in totals.items()
        for (owner, kind), energy in total.workloads.items()
    ]
    yield counter(
        "joulie_workload_energy_joules_total",
        "Energy of a workload's pods: measured, or allocated by a rule.",
        _WORKLOAD,
        ((labels, energy.joules) for labels, energy in rows),
    )
    yield counter(
        "joulie_workload_energy_lower_joules_total",
        "Lower bound of joulie_workload_energy_joules_total.",
        _WORKLOAD,
        ((labels, energy.lower_joules) for labels, energy in rows),
    )
    yield counter(
        "joulie_workload_energy_upper_joules_total",
        "Upper bound of joulie_workload_energy_joules_total.",
        _WORKLOAD,
        ((labels, energy.upper_joules) for labels, energy in rows),
    )
    yield counter(
        "joulie_node_energy_joules_total",
        "Energy that the counters of a node's devices have told: that of pods, idle and unattributed energy.",
        ("node", "device", "part"),
        (((node, device, part), joules) for device, total in totals.items() for part, joules in total.parts.items()),
    )
    yield counter(
        "joulie_node_energy_unknown_seconds_total",
        "Time whose energy a counter did not tell, added up over the devices.",
        ("node", "device"),
        (((node, device), total.unknown_seconds) for device, total in totals.items()),
    )
    yield gauge(
        "joulie_energy_source_available",
        "1 where a source of energy by pod was there at the last reading, 0 where it was not.",
        ("node", "source"),
        (((node, source), float(source not in missing)) for source in EnergySource),
    )
