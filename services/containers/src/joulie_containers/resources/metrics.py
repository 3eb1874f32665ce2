"""Metrics of the resource manager. Sets of CPUs are labels of info series only, which end with their container."""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import Histogram
from prometheus_client.metrics_core import Metric

from joulie_api.metrics import NodeSeriesCollector, Registry, counter, gauge
from joulie_containers.nri.connection import NriState
from joulie_containers.resources.core_limit_enforcement import CoreLimitEnforcement
from joulie_containers.resources.core_limits import CoreLimits, CoreLimitState
from joulie_containers.resources.cpu_classes import CpuClassController
from joulie_containers.resources.engine import PlacementEngine
from joulie_containers.resources.pipeline import PipelineRequest
from joulie_containers.resources.resource_files import ResourceFiles
from joulie_containers.resources.updates import Updater
from joulie_core.containers.container import ContainerId

#: From an event without consequences to the runtime's timeout.
_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_CONTAINER: Final = ("namespace", "pod", "container")


@dataclass(slots=True)
class ManagerCounts:
    """Counts of what has happened since the start."""

    rejected: int = 0
    moved: int = 0
    #: By reason.
    warnings: Tally[str] = field(default_factory=Tally)
    #: Requests answered without their result, by request.
    late: Tally[str] = field(default_factory=Tally)


class ObservedManager(Protocol):
    """Resource manager, as far as it is both measured and described."""

    @property
    def engine(self) -> PlacementEngine:
        """Containers and placements."""

    @property
    def classes(self) -> CpuClassController:
        """The CPU classes."""

    @property
    def core_limits(self) -> CoreLimits:
        """The limits that cores have, or would have, by class."""

    @property
    def core_enforcement(self) -> CoreLimitEnforcement | None:
        """Those that are set; None where none is."""

    @property
    def runtime_state(self) -> NriState:
        """The connection to the runtime."""


class MeasuredManager(ObservedManager, Protocol):
    """Resource manager, as far as the series are made of it."""

    @property
    def updater(self) -> Updater:
        """Updates outside of requests."""

    @property
    def counts(self) -> ManagerCounts:
        """Counts of events since the process began."""

    @property
    def files(self) -> ResourceFiles | None:
        """The files that containers read; None where they get none."""

    @property
    def usage_milli(self) -> Mapping[ContainerId, int]:
        """Measured CPU usage, in thousandths of a CPU."""

    @property
    def configuration_problem(self) -> str | None:
        """Reason why the newest configuration is not in force; None where it is."""


class PipelineDurations:
    """Durations of requests."""

    def __init__(self, registry: Registry, counts: ManagerCounts) -> None:
        self._counts = counts
        durations = Histogram(
            "joulie_nri_request_duration_seconds",
            "Time from the arrival of a request or event to its reply or end.",
            ("request",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._durations = {each: durations.labels(each) for each in PipelineRequest}

    def handled(self, request: PipelineRequest, seconds: float, *, late: bool) -> None:
        """Count a request."""
        self._durations[request].observe(seconds)
        if late:
            self._counts.late[request] += 1


def register_series(registry: Registry, manager: MeasuredManager) -> None:
    """Add the series that are made when they are scraped."""
    registry.register(NodeSeriesCollector(lambda: resource_series(manager)))


def resource_series(manager: MeasuredManager) -> Iterator[Metric]:
    """Yield all series but the durations."""
    yield from _process_series(manager)
    yield from _container_series(manager)
    yield from _zone_series(manager)
    yield from _core_limit_series(manager.core_limits.state)
    if manager.core_enforcement is not None:
        yield from core_enforcement_series(manager.core_enforcement)


def _process_series(manager: MeasuredManager) -> Iterator[Metric]:
    counts, updater, state = manager.counts, manager.updater, manager.runtime_state
    pending = manager.engine.ledger.pending
    yield gauge(
        "joulie_nri_registered", "1 while the plugin is registered with a runtime.", (), [((), float(state.registered))]
    )
    yield counter(
        "joulie_nri_registrations_total", "Registrations with a runtime.", (), [((), float(state.registrations))]
    )
    yield counter(
        "joulie_nri_late_replies_total",
        "Requests answered without their result, which followed as an update.",
        ("request",),
        (((str(each),), float(counts.late[each])) for each in PipelineRequest),
    )
    yield counter(
        "joulie_container_rejections_total", "Containers that could not be placed.", (), [((), float(counts.rejected))]
    )
    yield counter(
        "joulie_container_moves_total",
        "Changes of the placement of containers that were placed before.",
        (),
        [((), float(counts.moved))],
    )
    yield counter(
        "joulie_container_warnings_total",
        "Warnings about containers, such as an invalid annotation.",
        ("reason",),
        (((reason,), float(count)) for reason, count in counts.warnings.items()),
    )
    yield counter("joulie_container_updates_total", "Updates sent outside of replies.", (), [((), float(updater.sent))])
    yield counter(
        "joulie_container_updates_failed_total",
        "Updates outside of replies that the runtime did not carry out.",
        (),
        [((), float(updater.failed))],
    )
    yield gauge(
        "joulie_container_updates_pending", "Containers whose update is pending.", (), [((), float(len(pending)))]
    )
    if manager.files is not None:
        yield counter(
            "joulie_container_resources_file_failures_total",
            "Failed writes and removals of files with the resources of containers.",
            (),
            [((), float(manager.files.failed))],
        )
    yield gauge(
        "joulie_container_policy_configuration_valid",
        "1 where the newest configuration is in force, 0 where it was refused.",
        (),
        [((), float(manager.configuration_problem is None))],
    )


def _container_series(manager: MeasuredManager) -> Iterator[Metric]:
    engine = manager.engine
    # By labels: a pod that is being replaced has a successor of its name, whose containers are listed later.
    placed = {
        (info.pod.namespace, info.pod.name, info.name): placement
        for name, placement in engine.placements.items()
        if (info := engine.containers.get(name)) is not None
    }.items()
    usage = {
        (info.pod.namespace, info.pod.name, info.name): float(milli)
        for name, milli in manager.usage_milli.items()
        if (info := engine.containers.get(name)) is not None
    }
    yield gauge(
        "joulie_container_placement_info",
        "1; the labels have the placement of a container.",
        (*_CONTAINER, "zone", "cpus", "memory"),
        (
            ((*labels, each.zone, "" if each.cpus is None else str(each.cpus), str(each.memory or "")), 1.0)
            for labels, each in placed
        ),
    )
    yield gauge(
        "joulie_container_cpus",
        "CPUs that a container may use.",
        _CONTAINER,
        ((labels, float(len(each.cpus))) for labels, each in placed if each.cpus is not None),
    )
    yield gauge(
        "joulie_container_exclusive_cpus",
        "CPUs that no other container may use.",
        _CONTAINER,
        ((labels, float(len(each.exclusive))) for labels, each in placed),
    )
    yield gauge(
        "joulie_container_cpu_usage_milli",
        "CPU usage of a container, in thousandths of a CPU.",
        _CONTAINER,
        usage.items(),
    )


def _zone_series(manager: MeasuredManager) -> Iterator[Metric]:
    zones, usage = manager.engine.zones, manager.usage_milli
    kinds = ("zone", "kind")
    yield gauge(
        "joulie_zone_cpus",
        "CPUs of a pool or balloon.",
        kinds,
        (((zone.name, zone.kind), float(len(zone.cpus))) for zone in zones),
    )
    for what, meaning in (
        ("capacity", "What the CPUs of a pool or balloon could serve, in thousandths of a CPU."),
        ("allocatable", "What containers could be granted if the zone were empty, in thousandths of a CPU."),
        ("available", "What another container could still be granted, in thousandths of a CPU."),
    ):
        yield gauge(
            f"joulie_zone_{what}_milli",
            meaning,
            kinds,
            [((zone.name, zone.kind), float(getattr(zone, f"{what}_milli"))) for zone in zones],
        )
    yield gauge(
        "joulie_zone_containers",
        "Containers of a pool or balloon.",
        kinds,
        (((zone.name, zone.kind), float(len(zone.containers))) for zone in zones),
    )
    yield gauge(
        "joulie_zone_cpu_usage_milli",
        "CPU usage of the containers of a pool or balloon that were measured, in thousandths of a CPU.",
        kinds,
        (
            ((zone.name, zone.kind), float(sum(usage[each] for each in zone.containers if each in usage)))
            for zone in zones
            if any(each in usage for each in zone.containers)
        ),
    )
    yield gauge(
        "joulie_cpu_class_cpus",
        "CPUs of a CPU class.",
        ("class",),
        (((name,), float(len(cpus))) for name, cpus in manager.engine.cpu_classes.items()),
    )
    classes = manager.classes
    yield gauge(
        "joulie_cpu_class_in_force",
        "1 where all that a CPU class sets is in force on its CPUs, 0 where some of it is not.",
        ("class",),
        (
            ((name,), float(classes.problem is None and name not in classes.shortfalls))
            for name, cpus in manager.engine.cpu_classes.items()
            if cpus
        ),
    )


def _core_limit_series(state: CoreLimitState) -> Iterator[Metric]:
    cores: Tally[tuple[str, str]] = Tally()
    for each in state.limits:
        cores["false" if each.limit_khz is None else "true", each.reason] += each.cores
    yield gauge(
        "joulie_class_limit_cores",
        "Physical cores by whether the class of the containers that have them alone would limit them, and why, also "
        "where nothing is set.",
        ("limited", "reason"),
        cores.items(),
    )
    yield counter(
        "joulie_class_limit_core_seconds_total",
        "Time of cores that were, or would have been, limited by class, in seconds, over the cores of the node.",
        (),
        [((), state.limited_core_s)],
    )


def core_enforcement_series(enforced: CoreLimitEnforcement) -> Iterator[Metric]:
    """Yield the series of the limits that are set on cores."""
    yield gauge(
        "joulie_class_limit_set_cpus",
        "CPUs whose frequency is, or may be, limited by class now.",
        (),
        [((), sum(map(len, enforced.limited)))],
    )
    yield gauge(
        "joulie_class_limit_without_consent_cpus",
        "CPUs whose frequency is still limited by class although not all that have them consent; above 0 only while a "
        "limit cannot be lifted.",
        (),
        [((), len(enforced.without_consent))],
    )
    yield counter(
        "joulie_class_limit_core_lifts_total",
        "Limits of groups of cores by class that were lifted.",
        (),
        [((), enforced.counts.lifts)],
    )
    yield counter(
        "joulie_class_limit_core_late_total",
        "Replies and updates that did not wait any longer for a limit by class to be lifted.",
        (),
        [((), enforced.counts.late)],
    )
