"""The twin of every node: what its numbers are now, and whether they are worth a write.

A twin is written when what the scheduler would do with it may change (its class, its caps, its source), when a number
has moved by more than the dead band, but then at most once in `least_interval_s`, and otherwise once in a heartbeat.
Heartbeats of different nodes are spread by their names, so that they do not come in waves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from joulie_core import labels
from joulie_core.caps import CapIntent
from joulie_core.fnv import fnv1a_32
from joulie_core.kinds.node_twin import NodeTwinStatus, SchedulableClass
from joulie_core.names import NodeName
from joulie_core.twin import LinearPue, Measurement, PowerBudget, PueModel, TwinInputs, budget_of, build_twin
from joulie_operator.cluster import Cluster
from joulie_operator.power import PowerInputs, PowerTracker
from joulie_operator.twin_fields import decisive, has_moved

#: A heartbeat comes between this share of the period and all of it, depending on the node's name.
EARLIEST: Final = 0.75
#: Taken from the low bits of the hash of the name: names that differ in a digit share the high ones.
_STEPS: Final = 1000


class FacilityMetrics(Protocol):
    """What is known of the facility around the nodes; see `joulie_operator.facility`."""

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

    default_w: float
    by_rack: dict[str, float] = field(default_factory=dict)

    def of(self, rack: str) -> float:
        """Return the capacity of a rack."""
        return self.by_rack.get(rack, self.default_w)


@dataclass(slots=True)
class _Book:
    """One node's numbers and its last write."""

    caps: CapIntent
    view: object
    budget: PowerBudget
    measurement: Measurement | None = None
    trend_w_per_min: float | None = None
    written: NodeTwinStatus | None = None
    written_at: float | None = None


class TwinTracker:
    """Computes twins and remembers what was written."""

    def __init__(
        self,
        cluster: Cluster,
        power: PowerTracker,
        surroundings: FacilityMetrics,
        racks: RackCapacities,
        *,
        caps: Callable[[NodeName], CapIntent],
        heartbeat_s: float,
        least_interval_s: float,
    ) -> None:
        self._cluster = cluster
        self._power = power
        self._surroundings = surroundings
        self._racks = racks
        self._caps = caps
        self._heartbeat_s = heartbeat_s
        self._least_interval_s = least_interval_s
        self._books: dict[NodeName, _Book] = {}
        self._rack_draws: dict[str, float | None] = {}

    def measure(self, name: NodeName, now: float) -> None:
        """Take the node's power into account as it is now."""
        book = self._book(name)
        machine = self._cluster.machine(name)
        node = PowerInputs(
            view=machine.view if machine is not None else None,
            budget=book.budget,
            load=self._cluster.load(name),
            max_watts=machine.max_watts if machine is not None else None,
            gpu_units=machine.gpu_units if machine is not None else 1,
        )
        book.measurement, book.trend_w_per_min = self._power.measure(name, node, now)

    def sum_racks(self) -> None:
        """Add up what each rack draws; a node whose power is unknown counts with all that its caps allow."""
        draws: dict[str, float | None] = {}
        for name, book in self._books.items():
            rack = self._label(name, labels.RACK)
            if rack is None:
                continue
            watts = book.measurement.watts if book.measurement is not None else None
            watts = watts if watts is not None else (book.budget.capped_watts or None)
            so_far = draws.get(rack, 0.0)
            draws[rack] = None if watts is None or so_far is None else so_far + watts
        self._rack_draws = draws

    def status(self, name: NodeName, schedulable_class: SchedulableClass, now: float) -> NodeTwinStatus:
        """Return the node's twin, `lastUpdated` absent."""
        book = self._book(name)
        if book.measurement is None:
            self.measure(name, now)
        assert book.measurement is not None
        machine = self._cluster.machine(name)
        rack = self._label(name, labels.RACK)
        return build_twin(
            TwinInputs(
                schedulable_class=schedulable_class,
                budget=book.budget,
                measurement=book.measurement,
                density=machine.density.total if machine is not None else None,
                trend_w_per_min=book.trend_w_per_min,
                ambient_c=self._surroundings.ambient_c(self._label(name, labels.COOLING_ZONE), now),
                rack_draw_w=self._rack_draw(rack, now) if rack is not None else None,
                rack_capacity_w=self._racks.of(rack or ""),
                pue=self._surroundings.pue(now),
            )
        )

    def is_due(self, name: NodeName, status: NodeTwinStatus, now: float, seen_class: str | None) -> bool:
        """Say whether the twin has to be written; `seen_class` is that of the twin on the API server, if any."""
        book = self._book(name)
        if book.written_at is None or now - book.written_at >= self._heartbeat_of(name):
            return True
        if book.written is None:
            # Written before a restart: its numbers are not known, and fresh enough until the heartbeat.
            return seen_class != status.schedulable_class
        if decisive(book.written) != decisive(status):
            return True
        return now - book.written_at >= self._least_interval_s and has_moved(book.written, status)

    def on_written(self, name: NodeName, status: NodeTwinStatus, now: float) -> None:
        """Note that the API server has this twin."""
        book = self._book(name)
        book.written, book.written_at = status, now

    def adopt(self, name: NodeName, *, age_s: float, now: float, measured_watts: float | None = None) -> None:
        """Note that a twin of that age was there before this process, with what was measured then."""
        self._book(name).written_at = now - age_s
        if measured_watts is not None:
            self._power.adopt(name, measured_watts)

    def forget_write(self, name: NodeName) -> None:
        """Write the twin at the next look: what the API server has is not what was written."""
        book = self._books.get(name)
        if book is not None:
            book.written = book.written_at = None

    def forget(self, name: NodeName) -> None:
        """Drop a node that has left."""
        self._books.pop(name, None)
        self._power.forget(name)

    def _book(self, name: NodeName) -> _Book:
        caps = self._caps(name)
        machine = self._cluster.machine(name)
        view = machine.view if machine is not None else None
        book = self._books.get(name)
        if book is None:
            book = self._books[name] = _Book(caps, view, budget_of(view, caps))
        elif book.caps != caps or book.view is not view:
            book.caps, book.view, book.budget = caps, view, budget_of(view, caps)
        return book

    def _heartbeat_of(self, name: NodeName) -> float:
        return self._heartbeat_s * (EARLIEST + (1 - EARLIEST) * (fnv1a_32(name) % _STEPS) / _STEPS)

    def _rack_draw(self, rack: str, now: float) -> float | None:
        measured = self._surroundings.rack_watts(rack, now)
        return measured if measured is not None else self._rack_draws.get(rack)

    def _label(self, name: NodeName, key: str) -> str | None:
        node = self._cluster.nodes.get(name)
        return node.labels.get(key) if node is not None else None
