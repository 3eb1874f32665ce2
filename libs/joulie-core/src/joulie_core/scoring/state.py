"""The parts of a node's twin that the scheduler's decisions read.

Guarantees plausible numbers: a figure that is not finite, or beyond what any machine draws, counts as absent. Whatever
is missing stays missing (None) and is decided by who uses it; nothing becomes zero here. A measured power that is too
high to be true counts as the limit that it exceeds, and so does a PUE: it never makes the node freer. That 0 W is no
measurement is decided where power is read; in a twin it is the idle node of the document's example.
Source: docs/decisions/0002-extender.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from math import fsum
from operator import attrgetter
from typing import Final, NamedTuple

from joulie_core.kinds.node_twin import NodeTwinStatus, SchedulableClass
from joulie_core.plausible import HIGHEST_VALUE, limit_watts, plausible_value
from joulie_core.powerest.marginal import Coefficients, NodePower
from joulie_core.timestamps import epoch_seconds
from joulie_core.twin import stress
from joulie_core.twin.pue import HIGHEST_PLAUSIBLE

BURST_W_PER_MIN: Final = 500.0
STEADY_TREND_SCALE: Final = 6.0
BURST_TREND_SCALE: Final = 2.0
#: Congestion of a node that draws twice what its cap allows; a node counts with no more. One wrong figure among n
#: performance nodes, or a cap far below what its node draws, then raises the average by 200 / n at most.
HIGHEST_CONGESTION_PCT: Final = 200.0
_PERCENT: Final = 100.0


class SupplyFigure(NamedTuple):
    """Watts that a power domain can still supply to pods on a node; None where they are not known."""

    domain: str
    available_watts: float | None


@dataclass(frozen=True, slots=True)
class TwinSnapshot:
    """One node as its twin describes it."""

    schedulable_class: SchedulableClass = SchedulableClass.UNKNOWN
    measured_watts: float | None = None
    #: What the published caps allow; None where there is no usable figure.
    capped_watts: float | None = None
    tdp_watts: float | None = None
    #: What the caps of CPUs and of GPUs leave of their highest ones, 0 to 1; None where unknown.
    cpu_cap_share: float | None = None
    gpu_cap_share: float | None = None
    predicted_headroom_pct: float | None = None
    #: 0 is cool, 100 is at the limit.
    cooling_stress_pct: float | None = None
    trend_w_per_min: float = 0.0
    pue: float | None = None
    #: What the power domains above the node can still supply; none where no limit of one is enforced.
    supplies: tuple[SupplyFigure, ...] = ()
    #: Seconds since the epoch.
    last_updated_s: float | None = None
    #: Watts of pods that are placed but not in the measurement yet.
    assumed_watts: float = 0.0
    #: CPUs and units of GPUs that pods on the node request; None where its pods are not known.
    held_cores: float | None = None
    held_gpus: float | None = None

    def with_pods(self, assumed_watts: float, held_cores: float, held_gpus: float) -> "TwinSnapshot":
        """Return the same twin with other pods; `dataclasses.replace` takes three times as long."""
        return TwinSnapshot(*(*_OF_TWIN(self), assumed_watts, held_cores, held_gpus))

    def stale(self, now_s: float, threshold_s: float) -> bool:
        """Return whether the twin is stale: undated, too old, or dated as far in the future."""
        return self.last_updated_s is None or abs(now_s - self.last_updated_s) > threshold_s

    def headroom_pct(self, added_watts: float = 0.0) -> float | None:
        """Return the percent of the capped power that is left with the pods in flight and `added_watts` on top.

        Negative above the cap. Without a measurement the twin's own prediction stands in for it; None without either.
        """
        if self.capped_watts is None:
            return self.predicted_headroom_pct
        measured_pct = stress.headroom_pct(self.capped_watts, self.measured_watts)
        free_pct = self.predicted_headroom_pct if measured_pct is None else measured_pct
        if free_pct is None:
            return None
        return free_pct - (self.assumed_watts + added_watts) / self.capped_watts * 100


class NodeSituation(NamedTuple):
    """A node as its scores see it."""

    #: None where the node has none.
    twin: TwinSnapshot | None
    power: NodePower
    #: Of the estimate of a pod's watts.
    coefficients: Coefficients = Coefficients()
    #: Whether the twin is too old, or the whole view of the cluster is.
    stale: bool = False
    #: None where it is unknown or not to be weighted.
    pue: float | None = None
    #: Ninths of the pod's run time for which other pods are stated to run on the node; 0 where nothing is stated.
    covered: int = 0

    @property
    def fresh(self) -> TwinSnapshot | None:
        """The twin, where it can be believed."""
        return None if self.stale else self.twin


#: All that is not of the pods, in the order of the fields.
_OF_TWIN: Final = attrgetter(*[each.name for each in fields(TwinSnapshot)][:-3])


def node_state(status: NodeTwinStatus) -> TwinSnapshot:
    """Return the snapshot of a twin's status."""
    power, caps = status.power_measurement, status.effective_cap_state
    measured = power.measured_node_power_w if power else None
    return TwinSnapshot(
        schedulable_class=status.schedulable_class,
        measured_watts=plausible_value(None if measured is None else min(measured, limit_watts())),
        capped_watts=plausible_value(power.node_capped_power_w, at_least=stress.LEAST_CAP_WATTS) if power else None,
        tdp_watts=plausible_value(power.node_tdp_w, at_least=stress.LEAST_CAP_WATTS) if power else None,
        cpu_cap_share=caps.cpu_pct / _PERCENT if caps else None,
        gpu_cap_share=caps.gpu_pct / _PERCENT if caps else None,
        predicted_headroom_pct=plausible_value(status.predicted_power_headroom_score, at_least=-HIGHEST_VALUE),
        cooling_stress_pct=plausible_value(status.predicted_cooling_stress_score),
        trend_w_per_min=(plausible_value(power.power_trend_w_per_min, at_least=-HIGHEST_VALUE) or 0.0)
        if power
        else 0.0,
        pue=_pue(status.estimated_pue),
        supplies=_supplies(status),
        last_updated_s=epoch_seconds(status.last_updated),
    )


def _supplies(status: NodeTwinStatus) -> tuple[SupplyFigure, ...]:
    if not status.power_domains:
        return ()
    return _shared(
        tuple(SupplyFigure(each.domain, plausible_value(each.available_watts)) for each in status.power_domains)
    )


@lru_cache(maxsize=8_192)
def _shared(supplies: tuple[SupplyFigure, ...]) -> tuple[SupplyFigure, ...]:
    """Return one object for equal figures: all nodes of a rack have the same, and each request looks at them."""
    return supplies


def _pue(estimated: float | None) -> float | None:
    """Return the PUE that weights a node's watts; None where it is absent, not a number or below 1.

    One that no facility has counts as the highest that one can have: as unknown it would make the node freer.
    """
    return min(estimated, HIGHEST_PLAUSIBLE) if estimated is not None and estimated >= 1 else None


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """Contribution of the whole cluster to every score."""

    trend_w_per_min: float = 0.0
    #: Congestion of the performance nodes, 0..100, see `pressure`.
    perf_pressure: float = 0.0

    @property
    def trend_scale(self) -> float:
        """Watts a minute that are worth one point."""
        return BURST_TREND_SCALE if abs(self.trend_w_per_min) > BURST_W_PER_MIN else STEADY_TREND_SCALE


def cluster_terms(fresh: Iterable[TwinSnapshot]) -> ClusterTerms:
    """Return the terms that the twins which are not stale contribute, in any order.

    The congestion is that of the performance nodes before the pod in question is placed.
    """
    states = tuple(fresh)
    headrooms = [
        headroom
        for state in states
        if state.schedulable_class is SchedulableClass.PERFORMANCE and (headroom := state.headroom_pct()) is not None
    ]
    congestion = fsum(map(congestion_pct, headrooms)) / len(headrooms) if headrooms else 0.0
    return ClusterTerms(
        trend_w_per_min=fsum(state.trend_w_per_min for state in states), perf_pressure=pressure(congestion)
    )


def congestion_pct(headroom_pct: float) -> float:
    """Return the percent of its capped power that a node uses, as it counts in the average over the cluster."""
    return min(HIGHEST_CONGESTION_PCT, 100 - headroom_pct)


def pressure(congestion: float) -> float:
    """Return the average congestion within 0..100 and in whole tenths.

    A tenth is worth 0.03 points of a score; finer steps would change every standard pod's score on every performance
    node whenever one node's power does, for nothing that a whole number shows.
    """
    return round(min(100.0, max(0.0, congestion)), 1)
