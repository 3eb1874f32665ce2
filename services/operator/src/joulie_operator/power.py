"""Power of each node: the first source that has a reading, its trend, and the model where none has.

The order is: the source that was configured (HTTP or Prometheus), the agent's own reading, the model from pod requests.
A reading counts for `max_age_s` after it was taken and is then ignored; no gap is filled with zero. Where a node was
measured once, the model never lowers it again; a reading that is too high to be true counts as the limit that it
exceeds. Reading a source never waits: those that need the network poll in the background. A node of which nothing has
changed since its last measurement, as most have between two reports, keeps the result.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import structlog

from joulie_api.failure_log import FailureLog
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.names import NodeName
from joulie_core.plausible import Plausibility, judge, limit_watts, reading_watts
from joulie_core.timestamps import age_seconds
from joulie_core.twin import Measurement, PowerBudget, PowerWindow
from joulie_core.twin.evidence import Evidence, stand_in
from joulie_core.twin.trend import WINDOW_S
from joulie_core.twin.utilization import ModelledDevices, cpu_watts, gpu_watts
from joulie_operator.cluster import PodLoad

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PowerSample:
    """One measurement of a whole node; `at` is monotonic seconds of this process."""

    watts: float
    at: float
    source: MeasurementSource
    #: False where GPUs, if the node has any, are not in the sum.
    with_gpus: bool = True


class PowerSource(Protocol):
    """A source of measurements of nodes."""

    def reading(self, name: NodeName) -> PowerSample | None:
        """Return the latest reading of the node, however old; None where there never was one. Does not block."""


class AgentReadings:
    """Readings that agents report in the status of the TelemetryProfile named as their node.

    A reading is dated by its arrival here, so that clocks of nodes need not agree. The first one of a node whose own
    date is older than `max_age_s` (an agent long gone, seen after a restart of the operator) is not taken, those after
    it are: a reading that changes is one of an agent at work, whose clock is wrong, which is logged.
    """

    def __init__(self, *, max_age_s: float, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._max_age_s = max_age_s
        self._clock = clock
        self._wall = wall
        self._readings: dict[NodeName, tuple[str, PowerSample | None]] = {}
        self._clocks = FailureLog(_log, failed="clock of the agent is wrong", recovered="clock of the agent is right")

    def on_profile(self, key: str, profile: TelemetryProfile | None) -> None:
        """Take a change of a TelemetryProfile."""
        name = NodeName(key)
        power = profile.status.power if profile is not None else None
        cpu_watts = reading_watts(power.cpu_watts) if power is not None else None
        if power is None or cpu_watts is None or power.updated_at is None:
            self._readings.pop(name, None)
            self._clocks.retain(lambda subject: subject["node"] != name)
            return
        seen = self._readings.get(name)
        if seen is not None and seen[0] == power.updated_at:
            return
        age_s = age_seconds(power.updated_at, self._wall())
        reading = whole_node(cpu_watts, power.gpu_watts, self._clock(), MeasurementSource.AGENT)
        if abs(age_s) <= self._max_age_s:
            self._clocks.recovered(node=name)
        elif seen is not None:
            self._clocks.failed(f"a new reading is dated {age_s:.0f} s ago", cause="clock", node=name)
        elif age_s > 0:
            self._readings[name] = (power.updated_at, None)
            return
        self._readings[name] = (power.updated_at, reading)

    def reading(self, name: NodeName) -> PowerSample | None:
        """Return the latest reading of the node."""
        seen = self._readings.get(name)
        return seen[1] if seen is not None else None


@dataclass(frozen=True, slots=True)
class PowerInputs:
    """The values by which a node's power is judged and modelled."""

    view: HardwareView | None
    budget: PowerBudget
    load: PodLoad
    #: The most that the node draws for long; None where that is unknown or inferred.
    max_watts: float | None = None
    #: Units of the load's GPUs that each GPU is handed out in.
    gpu_units: float = 1


@dataclass(frozen=True, slots=True)
class _Result:
    """Measurement of a node, the values behind it, and until when the passing of time alone does not change it."""

    basis: tuple[object, ...]
    until: float
    measurement: Measurement
    trend_w_per_min: float | None


class PowerTracker:
    """Measurement and trend of every node."""

    def __init__(self, sources: Sequence[PowerSource], *, max_age_s: float) -> None:
        self._sources = tuple(sources)
        self._max_age_s = max_age_s
        self._windows: dict[NodeName, PowerWindow] = {}
        self._evidence: dict[NodeName, Evidence] = {}
        self._results: dict[NodeName, _Result] = {}

    def measure(self, name: NodeName, node: PowerInputs, now: float) -> tuple[Measurement, float | None]:
        """Return the node's power and its trend in watts per minute, None where there is no trend yet."""
        readings = [source.reading(name) for source in self._sources]
        basis = _basis_of(node, readings)
        last = self._results.get(name)
        if last is not None and now < last.until and last.basis == basis:
            return last.measurement, last.trend_w_per_min
        measurement, trend_w_per_min = self._measure(name, node, readings, now)
        self._results[name] = _Result(
            basis, self._until(name, readings, measurement, now), measurement, trend_w_per_min
        )
        return measurement, trend_w_per_min

    def _measure(
        self, name: NodeName, node: PowerInputs, readings: Iterable[PowerSample | None], now: float
    ) -> tuple[Measurement, float | None]:
        modelled_watts = model(node)
        reading, floor_watts = self._choose(node, readings, now)
        if reading is not None:
            measurement = Measurement(reading.source, MeasurementQuality.MEASURED, reading.watts)
            sampled_at, watts = reading.at, reading.watts
        else:
            stood_in = stand_in(self._evidence.get(name), modelled_watts, floor_watts)
            if stood_in is None:
                self._windows.pop(name, None)
                return Measurement(MeasurementSource.STATIC, MeasurementQuality.UNKNOWN, None), None
            measurement = Measurement(MeasurementSource.UTILIZATION, MeasurementQuality.MODELLED, stood_in)
            sampled_at, watts = now, stood_in
        if reading is not None or floor_watts is not None:
            self._evidence[name] = Evidence(watts, modelled_watts)
        window = self._windows.get(name, PowerWindow())
        if floor_watts is None:
            window = self._windows[name] = window.add(measurement.source, sampled_at, watts, node.max_watts)
        return measurement, window.slope_w_per_min(now)

    def adopt(self, name: NodeName, watts: float) -> None:
        """Take what another process measured last: without a reading the node is no freer than that."""
        self._evidence[name] = Evidence(watts, None)
        self._results.pop(name, None)

    def forget(self, name: NodeName) -> None:
        """Drop a node that has left."""
        self._results.pop(name, None)
        self._windows.pop(name, None)
        self._evidence.pop(name, None)

    def _until(
        self, name: NodeName, readings: Iterable[PowerSample | None], measurement: Measurement, now: float
    ) -> float:
        """Return when a measurement of the same values may have another result."""
        if measurement.quality is MeasurementQuality.MODELLED:
            # Its trend has a sample of each time that it is modelled.
            return -inf
        expiries = [each.at + self._max_age_s for each in readings if each is not None]
        window = self._windows.get(name)
        if window is not None:
            expiries.extend(at + WINDOW_S for at, _ in window.samples)
        return min((at for at in expiries if at >= now), default=inf)

    def _choose(
        self, node: PowerInputs, readings: Iterable[PowerSample | None], now: float
    ) -> tuple[PowerSample | None, float | None]:
        """Return the first plausible reading; or none, and the limit that one exceeded, if one did."""
        has_gpus = node.view is not None and node.view.gpu is not None
        for reading in readings:
            if reading is None or now - reading.at > self._max_age_s:
                continue
            plausibility = judge(reading.watts, node.max_watts)
            if plausibility is Plausibility.TOO_HIGH:
                # A lower reading of another source does not refute it: that may miss the hardware that draws so much.
                return None, limit_watts(node.max_watts)
            # The CPUs' power alone would make a node of GPUs look almost idle.
            if plausibility is Plausibility.MEASURED and (reading.with_gpus or not has_gpus):
                return reading, None
        return None, None


def _basis_of(node: PowerInputs, readings: Iterable[PowerSample | None]) -> tuple[object, ...]:
    """Return everything but the time that a measurement depends on."""
    load = node.load
    return (node.view, node.budget, load.cpu_cores, load.gpus, node.max_watts, node.gpu_units, *readings)


def model(node: PowerInputs) -> float | None:
    """Return the node's expected draw from what its pods request; None where its hardware is unknown."""
    if node.view is None or node.view.cpu is None:
        return None
    cpu, gpu, budget, load = node.view.cpu, node.view.gpu, node.budget, node.load
    watts = cpu_watts(
        ModelledDevices(cpu.spec.curve, load.cpu_cores, cpu.threads, budget.cpu_tdp_watts, budget.cpu_capped_watts)
    )
    if gpu is not None:
        units = gpu.count * node.gpu_units
        watts += gpu_watts(
            ModelledDevices(gpu.spec.curve, load.gpus, units, budget.gpu_tdp_watts, budget.gpu_capped_watts)
        )
    return watts


def whole_node(cpu: float, gpu: float | None, at: float, source: MeasurementSource) -> PowerSample:
    """Return the reading of a node whose subsystems were measured one by one; GPUs at 0 W were not."""
    measured_gpu = reading_watts(gpu)
    return PowerSample(cpu + (measured_gpu or 0), at, source, with_gpus=measured_gpu is not None)
