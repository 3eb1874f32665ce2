"""The twin of every node: its numbers now, and whether they have to be written.

A twin is written when what the scheduler would do with it may change (its class, its caps, its source), when a number
has moved by more than the dead band, but then at most once in `least_interval_s`, and otherwise once in a heartbeat.
Heartbeats of different nodes are spread by their names, so that they do not come in waves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from joulie_core import labels
from joulie_core.caps import CapIntent
from joulie_core.fnv import fnv1a_32
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.node_twin import DomainSupply, NodeTwinStatus, SchedulableClass, ServerMeasurement
from joulie_core.memo import Memo
from joulie_core.names import NodeName
from joulie_core.twin import LinearPue, Measurement, PowerBudget, PueModel, TwinInputs, budget_of, build_twin
from joulie_core.twin.stress import psu_stress
from joulie_operator.cluster import Cluster
from joulie_operator.power import PowerInputs, PowerTracker
from joulie_operator.published_state import LastTwin
from joulie_operator.twin_fields import decisive, has_moved

#: A heartbeat comes between this share of the period and all of it, depending on the node's name.
EARLIEST: Final = 0.75
#: Taken from the low bits of the hash of the name: names that differ in a digit share the high ones.
_STEPS: Final = 1000


class FacilityMetrics(Protocol):
    """Values known of the facility around the nodes; see `joulie_operator.facility`."""

    def ambient_c(self, zone: str | None, now: float) -> float | None:
        """Return the ambient temperature of a zone."""

    def rack_watts(self, rack: str, now: float) -> float | None:
        """Return the measured draw of a rack."""

    def pue(self, now: float) -> PueModel:
        """Return the PUE model in force."""


class NoFacility:
    """Nothing is known of the facility."""

    def ambient_c(self, zone: str | None, now: float) -> float | None:  # noqa: ARG002
        """Return None."""
        return None

    def rack_watts(self, rack: str, now: float) -> float | None:  # noqa: ARG002
        """Return None."""
        return None

    def pue(self, now: float) -> PueModel:  # noqa: ARG002
        """Return the default model."""
        return LinearPue()


@dataclass(frozen=True, slots=True)
class RackCapacities:
    """Watts that each rack can be fed with."""

    default_watts: float
    by_rack: dict[str, float] = field(default_factory=dict)

    def of(self, rack: str) -> float:
        """Return the capacity of a rack."""
        return self.by_rack.get(rack, self.default_watts)


@dataclass(slots=True)
class _NodeTwin:
    """The numbers of one node, for the caps and the hardware of the last call."""

    caps: CapIntent
    view: HardwareView | None
    budget: PowerBudget
    heartbeat_s: float
    status: Memo[NodeTwinStatus] = field(default_factory=Memo)
    measurement: Measurement | None = None
    trend_w_per_min: float | None = None
    #: `PodLoad.last_arrival` at the last measurement, when it was new, and since when numbers wait for such pods; None
    #: when none came since the last write.
    last_arrival: int = 0
    arrived_at: float = -inf
    waits_since: float | None = None


class TwinTracker:
    """Computes twins, and decides when they are written."""

    def __init__(
        self,
        cluster: Cluster,
        power: PowerTracker,
        facility: FacilityMetrics,
        racks: RackCapacities,
        server_power: Callable[[NodeName], ServerMeasurement | None],
        *,
        power_domains: Callable[[NodeName], tuple[DomainSupply, ...] | None],
        heartbeat_s: float,
        least_interval_s: float,
        settle_s: float,
    ) -> None:
        self._cluster = cluster
        self._power = power
        self._facility = facility
        self._racks = racks
        self._server_power = server_power
        self._power_domains = power_domains
        self._heartbeat_s = heartbeat_s
        self._least_interval_s = least_interval_s
        self._settle_s = settle_s
        self._nodes: dict[NodeName, _NodeTwin] = {}
        self._rack_draws: dict[str, float | None] = {}

    def measure(self, name: NodeName, caps: CapIntent, now: float) -> None:
        """Take the node's power into account as it is now, under these caps."""
        self._measure(name, self._twin(name, caps), now)

    def sum_racks(self) -> None:
        """Add up what each rack draws; a node whose power is unknown counts with all that its caps allow."""
        draws: dict[str, float | None] = {}
        for name, twin in self._nodes.items():
            rack = self._label(name, labels.RACK)
            if rack is None:
                continue
            watts = twin.measurement.watts if twin.measurement is not None else None
            watts = watts if watts is not None else (twin.budget.capped_watts or None)
            so_far = draws.get(rack, 0.0)
            draws[rack] = None if watts is None or so_far is None else so_far + watts
        self._rack_draws = draws

    def status(
        self, name: NodeName, schedulable_class: SchedulableClass, caps: CapIntent, now: float
    ) -> NodeTwinStatus:
        """Return the node's twin for that class and those caps, `lastUpdated` absent."""
        twin = self._twin(name, caps)
        measurement = twin.measurement or self._measure(name, twin, now)
        hardware = self._cluster.hardware(name)
        rack = self._label(name, labels.RACK)
        inputs = TwinInputs(
            schedulable_class=schedulable_class,
            budget=twin.budget,
            measurement=measurement,
            server=self._server_power(name),
            density=hardware.density.total if hardware is not None else None,
            trend_w_per_min=twin.trend_w_per_min,
            ambient_c=self._facility.ambient_c(self._label(name, labels.COOLING_ZONE), now),
            rack_draw_watts=self._rack_draw(rack, now) if rack is not None else None,
            rack_capacity_watts=self._racks.of(rack or ""),
            pue=self._facility.pue(now),
            power_domains=self._power_domains(name),
        )
        return twin.status.of(_key_of(inputs), lambda: build_twin(inputs))

    def latest(self, name: NodeName) -> NodeTwinStatus | None:
        """Return the node's twin as last built, written or not; None before the first."""
        twin = self._nodes.get(name)
        return twin.status.last if twin is not None else None

    def is_due(self, name: NodeName, status: NodeTwinStatus, last: LastTwin | None, now: float) -> bool:
        """Return whether the twin has to be written; `last` is the one that is published, if any."""
        due = self._is_due(name, status, last, now)
        if due:
            self._nodes[name].waits_since = None
        return due

    def _is_due(self, name: NodeName, status: NodeTwinStatus, last: LastTwin | None, now: float) -> bool:
        if last is None or not 0 <= last.age_s < self._nodes[name].heartbeat_s:
            # An age below zero comes from another clock, and is unknown.
            return True
        if last.status is None:
            # Written by another process: its numbers are not known, and fresh enough until the heartbeat.
            return last.schedulable_class != status.schedulable_class
        if last.status is status:
            return False
        if decisive(last.status) != decisive(status):
            return True
        return (
            last.age_s >= self._least_interval_s
            and not self._waits(self._nodes[name], now)
            and has_moved(last.status, status)
        )

    def _waits(self, twin: _NodeTwin, now: float) -> bool:
        """Return whether the node's numbers do not contain its latest pods yet."""
        return (
            twin.waits_since is not None
            and now - twin.arrived_at < self._settle_s
            and now - twin.waits_since < 2 * self._settle_s
        )

    def adopt(self, name: NodeName, measured_watts: float) -> None:
        """Take what another process measured last."""
        self._power.adopt(name, measured_watts)

    def forget(self, name: NodeName) -> None:
        """Drop a node that has left."""
        self._nodes.pop(name, None)
        self._power.forget(name)

    def _measure(self, name: NodeName, twin: _NodeTwin, now: float) -> Measurement:
        hardware = self._cluster.hardware(name)
        load = self._cluster.load(name)
        if load.last_arrival > twin.last_arrival:
            if twin.waits_since is None or now - twin.arrived_at >= self._settle_s:
                twin.waits_since = now
            twin.last_arrival, twin.arrived_at = load.last_arrival, now
        inputs = PowerInputs(
            view=hardware.view if hardware is not None else None,
            budget=twin.budget,
            load=load,
            max_watts=hardware.max_watts if hardware is not None else None,
            gpu_units=hardware.gpu_units if hardware is not None else 1,
        )
        twin.measurement, twin.trend_w_per_min = self._power.measure(name, inputs, now)
        return twin.measurement

    def _twin(self, name: NodeName, caps: CapIntent) -> _NodeTwin:
        view, twin = self._cluster.view(name), self._nodes.get(name)
        if twin is None:
            # The pods that are there already are in its first measurement.
            arrival = self._cluster.load(name).last_arrival
            twin = self._nodes[name] = _NodeTwin(
                caps, view, budget_of(view, caps), self._heartbeat_of(name), last_arrival=arrival
            )
        elif twin.caps != caps or twin.view is not view:
            twin.caps, twin.view, twin.budget = caps, view, budget_of(view, caps)
        return twin

    def _heartbeat_of(self, name: NodeName) -> float:
        return self._heartbeat_s * (EARLIEST + (1 - EARLIEST) * (fnv1a_32(name) % _STEPS) / _STEPS)

    def _rack_draw(self, rack: str, now: float) -> float | None:
        measured = self._facility.rack_watts(rack, now)
        return measured if measured is not None else self._rack_draws.get(rack)

    def _label(self, name: NodeName, key: str) -> str | None:
        node = self._cluster.nodes.get(name)
        return node.labels.get(key) if node is not None else None


def _key_of(inputs: TwinInputs) -> tuple[object, ...]:
    """Return what a status depends on; of the rack only the score as it is shown, since the draw is never still."""
    score = psu_stress(inputs.rack_draw_watts, inputs.rack_capacity_watts)
    return (
        inputs.schedulable_class,
        inputs.budget,
        inputs.measurement,
        inputs.server,
        inputs.density,
        inputs.trend_w_per_min,
        inputs.ambient_c,
        inputs.pue,
        inputs.power_domains,
        None if score is None else round(score, 1),
    )
