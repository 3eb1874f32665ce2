"""Energy of a node by workload in the status of its TelemetryProfile: docs/decisions/0049-energy-series.md."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from joulie_core.attribution.energy import EnergyKind
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.kinds.base import Count, Model, Timestamp
from joulie_core.kinds.bounds import cut_text

#: Workloads of one report, each kind of energy of each kind of device for itself, with those that are `other`.
MOST_REPORTED_WORKLOADS: Final = 40
_Name = Annotated[str, Field(max_length=320), BeforeValidator(cut_text(320))]
_Joules = Annotated[float, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0)]


class WorkloadEnergyReport(Model):
    """Energy of the pods of one workload on the node."""

    namespace: _Name = ""
    """Namespace of the workload; empty for `other`."""
    workload: _Name
    """Workload, as `deployment/web`; `other` has what the others had, and pods whose workload is not known."""
    device: MeteredDevice
    """Kind of device."""
    kind: EnergyKind
    """`measured` if one pod held the device, `allocated` if a rule has split its energy."""
    joules: _Joules
    """Energy in joules."""
    lower_joules: _Joules
    """Lower bound."""
    upper_joules: _Joules
    """Upper bound."""


class DeviceEnergyReport(Model):
    """Energy of all devices of one kind: what their counters have told is the sum of the three parts."""

    device: MeteredDevice
    """Kind of device."""
    pods_joules: _Joules = 0.0
    """Energy of pods, in joules."""
    idle_joules: _Joules = 0.0
    """Energy of devices without work, in joules."""
    unattributed_joules: _Joules = 0.0
    """Energy of which it is not known which pod it was for, in joules."""
    unknown_seconds: _Seconds = 0.0
    """Time whose energy a counter did not tell, added up over the devices."""


class EnergyReport(Model):
    """Energy of the node since the start of its agent."""

    since: Timestamp
    """Start of the sums."""
    updated_at: Timestamp
    """End of the sums."""
    devices: Annotated[tuple[DeviceEnergyReport, ...], Field(max_length=4)] = ()
    """Sums by kind of device."""
    workloads: Annotated[tuple[WorkloadEnergyReport, ...], Field(max_length=MOST_REPORTED_WORKLOADS)] = ()
    """The workloads with the most energy."""
    workload_count: Count = 0
    """Number of all workloads, each kind of energy of each kind of device for itself."""
