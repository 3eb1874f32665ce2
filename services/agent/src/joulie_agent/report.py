"""The agent's report of a node, written only where a reader would notice a difference.

A steady node costs one write per `HEARTBEAT_S`, which keeps the time of the power reading fresh. A changed result,
reason, place or cap is written at once, power that moved by more than `POWER_STEP` at the next tick, and a new message
for the same reason once per heartbeat. Caps that follow a power budget, and power under them, may be postponed
(`joulie_agent.budgets.report_delay`). Without a reading the last one stays, with its time, until it is older than
`POWER_HOLD_S`; then it is removed. It is never zero by default.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from joulie_agent.energy.report import energy_report
from joulie_agent.holders.report import device_reports
from joulie_core.attribution.totals import EnergyTotals, MeteredDevice
from joulie_core.holders.held import HeldDevice
from joulie_core.kinds.energy_report import EnergyReport
from joulie_core.kinds.held_devices import ClassLimitReport
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports, PowerReading, TelemetryProfileStatus
from joulie_core.timestamps import age_seconds, rfc3339

HEARTBEAT_S: Final = 60.0
POWER_HOLD_S: Final = 90.0
#: Relative change of power that is worth a write.
POWER_STEP: Final = 0.02
#: Relative change of an enforced cap or throttle that is worth a write; below it is the noise of a read-back.
CAP_STEP: Final = 0.005
#: Watts below which a relative change means nothing.
_FLOOR_WATTS: Final = 1.0


def compose(
    *,
    last: TelemetryProfileStatus,
    cpu: ControlReport,
    gpu: ControlReport,
    cpu_watts: float | None,
    gpu_watts: float | None,
    now_s: float,
    held: Sequence[HeldDevice] | None = None,
    watts_of: Mapping[str, float | None] = MappingProxyType({}),
    energy: Mapping[MeteredDevice, EnergyTotals] | None = None,
    energy_since_s: float = 0.0,
    limits: Mapping[str, ClassLimitReport] = MappingProxyType({}),
    postponed: bool = False,
) -> TelemetryProfileStatus:
    """Return the status to publish; equal to `last` where nothing is worth a write.

    Args:
        last: current status of the node's profile.
        cpu: this tick's CPU report, without a time.
        gpu: this tick's GPU report, without a time.
        cpu_watts: power of all CPU packages; None without a usable reading.
        gpu_watts: power of all GPUs.
        now_s: wall time, seconds since the epoch.
        held: the node's GPUs and what holds them; None where that is not followed.
        watts_of: power of each GPU, by UUID.
        energy: energy of the node; None where it is not added up.
        energy_since_s: wall time of the start of these sums, seconds since the epoch.
        limits: the limit that each GPU would have by the class of its holders, by UUID.
        postponed: other watts, and other words for them, are worth no write yet.
    """
    old = last.control or ControlReports()
    power = _power(last.power, cpu_watts, gpu_watts, now_s, postponed=postponed)
    # The power of each GPU is as old as that of the node: it alone is worth no write.
    before = last.devices if power == last.power else None
    return TelemetryProfileStatus(
        control=ControlReports(
            cpu=_control(old.cpu, cpu, now_s, postponed=postponed),
            gpu=_control(old.gpu, gpu, now_s, postponed=postponed),
        ),
        power=power,
        devices=None if held is None else device_reports(held, watts_of, before or (), limits),
        energy=None if energy is None else _energy(last, energy, energy_since_s, now_s, fresh=power != last.power),
    )


def _energy(
    last: TelemetryProfileStatus,
    energy: Mapping[MeteredDevice, EnergyTotals],
    since_s: float,
    now_s: float,
    *,
    fresh: bool,
) -> EnergyReport:
    """Return the energy as it was until the power is written anew, or for a heartbeat: it always grows."""
    old = last.energy
    same = old is not None and not fresh and old.since == rfc3339(since_s)
    if old is not None and same and age_seconds(old.updated_at, now_s) < HEARTBEAT_S:
        return old
    return energy_report(energy, since_s, now_s)


def _control(old: ControlReport | None, new: ControlReport, now_s: float, *, postponed: bool) -> ControlReport:
    if old is not None and _same_result(old, new) and (postponed or _same_cap(old, new, now_s)):
        return old
    return new.model_copy(update={"updated_at": rfc3339(now_s)})


def _same_result(old: ControlReport, new: ControlReport) -> bool:
    """Return whether all is the same that a restarted agent needs, or that decides a condition."""
    return (old.backend, old.result, old.reason, old.places) == (
        new.backend,
        new.result,
        new.reason,
        new.places,
    ) and _close(old.throttle_pct, new.throttle_pct, CAP_STEP)


def _same_cap(old: ControlReport, new: ControlReport, now_s: float) -> bool:
    return (
        _close(old.requested_watts, new.requested_watts, CAP_STEP)
        and _close(old.enforced_watts, new.enforced_watts, CAP_STEP)
        and (old.message == new.message or age_seconds(old.updated_at, now_s) < HEARTBEAT_S)
    )


def _power(
    old: PowerReading | None, cpu_watts: float | None, gpu_watts: float | None, now_s: float, *, postponed: bool
) -> PowerReading | None:
    age_s = age_seconds(old.updated_at if old else None, now_s)
    if cpu_watts is None and gpu_watts is None:
        return old if age_s < POWER_HOLD_S else None
    if (
        old is not None
        and age_s < HEARTBEAT_S
        and (
            postponed or (_close(old.cpu_watts, cpu_watts, POWER_STEP) and _close(old.gpu_watts, gpu_watts, POWER_STEP))
        )
    ):
        return old
    rounded = (None if watts is None else round(watts, 2) for watts in (cpu_watts, gpu_watts))
    return PowerReading(cpu_watts=next(rounded), gpu_watts=next(rounded), updated_at=rfc3339(now_s))


def _close(left: float | None, right: float | None, step: float) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) <= step * max(abs(left), abs(right), _FLOOR_WATTS)
