"""Adds up the energy of this node by pod, from counters read every ten seconds.

Guarantees that what is not certain is unattributed or told as unknown time. A GPU's interval is judged one reading
later than it ended, when the looks at its holders have caught up.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn

import structlog

from joulie_agent.energy.cgroups import NoCgroups
from joulie_agent.energy.counters import HostCounters
from joulie_agent.energy.receipts import Receipts
from joulie_api.failure_log import FailureLog
from joulie_core.attribution.counters import from_millijoules
from joulie_core.attribution.cpu_times import CpuTimes
from joulie_core.attribution.cpus import PackagesInterval
from joulie_core.attribution.energy import StatedEnergy
from joulie_core.attribution.fit import fitted_watts
from joulie_core.attribution.gpus import device_energy
from joulie_core.attribution.holds import DeviceHolds
from joulie_core.attribution.packages import PackagesModel, PackagesReading, packages_interval, stated_packages
from joulie_core.attribution.sums import PodOwner
from joulie_core.attribution.totals import EnergyTotals, MeteredDevice
from joulie_core.holders.held import HeldDevice
from joulie_core.holders.records import NodePod
from joulie_core.power.curves import NodeCurves

INTERVAL_S: Final = 10.0
#: Longer intervals are gaps: two readings may fail.
LONGEST_S: Final = 3 * INTERVAL_S
#: Workloads of each kind of device that have series of their own.
MOST_WORKLOADS: Final = 200
#: More than any GPU draws.
GPU_BOUND_WATTS: Final = 5000.0
#: Intervals that a pod's watts per CPU second are fitted to, and how many go by from one fit to the next. With 110 pods
#: a fit takes 0.35 s of a CPU.
_FITTED: Final = 60
_FIT_EVERY: Final = 30
#: Readings that wait before the interval between the oldest two is judged.
_DELAY: Final = 2
#: Readings over which the owner of a pod that is gone is remembered.
_REMEMBERED: Final = 4
_NOT_LOOKED: Final = (None,)

_log = structlog.get_logger()


class EnergySource(StrEnum):
    """Source of energy by pod, which may be missing."""

    CPU_COUNTERS = "cpu_counters"
    GPU_COUNTERS = "gpu_counters"
    CPU_TIME = "cpu_time"
    PODS = "pods"
    HOLDERS = "holders"
    POWER_MODEL = "power_model"


@dataclass(frozen=True, slots=True)
class EnergySources:
    """Sources of what energy by pod depends on."""

    counters: Callable[[], Awaitable[HostCounters]]
    #: Reads files; called in a thread.
    cpu_times: Callable[[], CpuTimes | NoCgroups]
    #: By `namespace/name`; None while they are not known.
    pods: Callable[[], Mapping[str, NodePod] | None]
    #: Power model of the node's packages; None without one.
    curves: Callable[[], NodeCurves | None]


class EnergyFollower:
    """The energy of this node's CPUs and GPUs since it was made, kept current by `run`. For one event loop.

    Args:
        sources: what it is taken from.
        clock: monotonic seconds; None takes the event loop's.
        wall_time: seconds since the epoch.
        receipts: gets the energy of each pod; None where no receipts are written.
    """

    def __init__(
        self,
        sources: EnergySources,
        clock: Callable[[], float] | None = None,
        wall_time: Callable[[], float] = time.time,
        receipts: Receipts | None = None,
    ) -> None:
        self._sources = sources
        self._receipts = receipts
        self._since_s = wall_time()
        self._clock = clock or asyncio.get_running_loop().time
        self._totals = dict.fromkeys(MeteredDevice, EnergyTotals())
        self._missing: Mapping[EnergySource, str] = {}
        self._holds = DeviceHolds()
        self._packages: PackagesReading | None = None
        self._lowest_watts: float | None = None
        self._intervals: deque[PackagesInterval] = deque(maxlen=_FITTED)
        self._until_fit = _FIT_EVERY
        #: Watts per CPU second by pod.
        self._fitted: Mapping[str, float] = {}
        #: Oldest first.
        self._gpus: list[HostCounters] = []
        self._owners: list[Mapping[str, PodOwner]] = []
        self._failures = FailureLog(_log, failed="source of energy by pod missing", recovered="source is there again")

    @property
    def since_s(self) -> float:
        """Wall time of the start of the sums, in seconds since the epoch."""
        return self._since_s

    @property
    def totals(self) -> Mapping[MeteredDevice, EnergyTotals]:
        """The sums by kind of device."""
        return self._totals

    @property
    def missing(self) -> Mapping[EnergySource, str]:
        """The sources that the last reading lacked, and why."""
        return self._missing

    def looked(self, devices: Sequence[HeldDevice]) -> None:
        """Take over who holds the GPUs now."""
        self._holds = self._holds.looked(self._clock(), {each.uuid: each.pods for each in devices})

    async def run(self) -> NoReturn:
        """Read and add up until cancelled."""
        while True:
            due = self._clock() + INTERVAL_S
            await self.read()
            await asyncio.sleep(max(0.0, due - self._clock()))

    async def read(self) -> None:
        """Read all counters once, and add up what they tell since the last time."""
        counters, times = await asyncio.gather(self._sources.counters(), asyncio.to_thread(self._sources.cpu_times))
        pods, curves = self._sources.pods(), self._sources.curves()
        self._remember(pods)
        if self._receipts is not None:
            self._receipts.looked(pods)
        await self._take_packages(counters, None if isinstance(times, NoCgroups) else times, curves)
        self._take_gpus(counters)
        if self._receipts is not None:
            self._receipts.write()
        self._missing = _lacking(counters, times, pods, curves, self._holds)
        for source in EnergySource:
            if source in self._missing:
                self._failures.failed(self._missing[source], cause=source, source=source)
            else:
                self._failures.recovered(source=source)

    def _remember(self, pods: Mapping[str, NodePod] | None) -> None:
        found = (pods or {}).values()
        # The UID of the cgroup may be an annotation, which names no other pod's.
        owners = {
            uid: PodOwner(pod.namespace, pod.workload)
            for named in ([(pod.cgroup_uid, pod) for pod in found], [(pod.uid, pod) for pod in found])
            for uid, pod in named
            if uid
        }
        self._owners = [*self._owners, owners][-_REMEMBERED:]

    async def _take_packages(self, counters: HostCounters, times: CpuTimes | None, curves: NodeCurves | None) -> None:
        if not counters.zones:
            return
        reading = PackagesReading(counters.at_s, counters.zones, times)
        before, self._packages = self._packages, reading
        if before is None:
            return
        interval = packages_interval(before, reading, longest_seconds=LONGEST_S)
        if interval is not None:
            self._intervals.append(interval)
            self._lowest_watts = min(self._lowest_watts or math.inf, interval.joules / interval.seconds)
        model = None if curves is None else PackagesModel.of(curves, self._lowest_watts)
        if model is not None:
            await self._fit(model)
        fitted = self._fitted
        self._add(
            MeteredDevice.CPU,
            stated_packages(before, reading, model, longest_seconds=LONGEST_S, fitted_watts=fitted),
            reading.at_seconds - before.at_seconds,
        )

    async def _fit(self, model: PackagesModel) -> None:
        self._until_fit -= 1
        if self._until_fit <= 0:
            self._until_fit = _FIT_EVERY
            self._fitted = await asyncio.to_thread(fitted_watts, tuple(self._intervals), model.busy, model.idle)

    def _take_gpus(self, counters: HostCounters) -> None:
        if not counters.gpus_mj:
            return
        self._gpus.append(counters)
        if len(self._gpus) <= _DELAY:
            return
        before, after = self._gpus.pop(0), self._gpus[0]
        for uuid in sorted({*(before.gpus_mj or {}), *(after.gpus_mj or {})}):
            self._add(MeteredDevice.GPU, self._of_gpu(uuid, before, after), after.at_s - before.at_s)
        self._holds = self._holds.since(after.at_s)

    def _of_gpu(self, uuid: str, before: HostCounters, after: HostCounters) -> StatedEnergy:
        first, last = (before.gpus_mj or {}).get(uuid), (after.gpus_mj or {}).get(uuid)
        if first is None or last is None:
            return StatedEnergy((), 0.0, 0.0, after.at_s - before.at_s)
        readings = (from_millijoules(before.at_s, first), from_millijoules(after.at_s, last))
        holds = self._holds.of(uuid)
        energy = device_energy(readings, holds, most_watts=GPU_BOUND_WATTS, longest_seconds=LONGEST_S)
        return StatedEnergy(energy.holders, energy.idle_joules, energy.unattributed_joules, energy.unknown_seconds)

    def _add(self, kind: MeteredDevice, stated: StatedEnergy, seconds: float) -> None:
        if self._receipts is not None:
            self._receipts.add(kind, stated, seconds)
        owners = {uid: owner for known in self._owners for uid, owner in known.items()}
        totals = self._totals[kind].plus(stated, owners, most_owners=MOST_WORKLOADS)
        self._totals = {**self._totals, kind: totals}


def _lacking(
    counters: HostCounters,
    times: CpuTimes | NoCgroups,
    pods: object | None,
    curves: NodeCurves | None,
    holds: DeviceHolds,
) -> Mapping[EnergySource, str]:
    """Return why sources are missing. A node without GPUs lacks neither their counters nor their holders."""
    missing = {}
    if not counters.zones or None in counters.zones.values():
        missing[EnergySource.CPU_COUNTERS] = "not every CPU package has an energy counter that can be read"
    if counters.gpus_mj is None or None in counters.gpus_mj.values():
        missing[EnergySource.GPU_COUNTERS] = "not every GPU has an energy counter that can be read"
    if isinstance(times, NoCgroups):
        missing[EnergySource.CPU_TIME] = times.message
    if pods is None:
        missing[EnergySource.PODS] = "the pods of the node are not known"
    if any(None in holds.present.get(uuid, _NOT_LOOKED) for uuid in counters.gpus_mj or ()):
        missing[EnergySource.HOLDERS] = "it is not certain which pods hold the GPUs"
    if curves is None:
        missing[EnergySource.POWER_MODEL] = "the model of the node's CPUs is not known"
    return missing
