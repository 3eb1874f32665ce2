"""Follows the limits that the cores of this machine have, or would have, by class. Writes nothing.

Source: docs/decisions/0067-class-limits-on-cores.md.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from joulie_actuator.hardware import cpufreq
from joulie_actuator.hardware.cpufreq import FrequencyRequest
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree, parse_cpu_list
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.core_limits import (
    CoreFrequencies,
    CoreHolder,
    CoreLimit,
    CoreLimitReason,
    all_consent,
    core_groups,
    frequency_limit,
    held_slowdown,
    holders_of,
)
from joulie_core.class_caps.pod_consent import PodConsent
from joulie_core.containers.container import ContainerId, ContainerInfo, PodInfo
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, union
from joulie_core.containers.policy import Placement
from joulie_core.containers.topology import HardwareTopology

#: Between two looks at the placements.
INTERVAL_S: Final = 15.0
#: Time between two looks that the limits of the later one are counted for at most; what is beyond was not seen.
MOST_COUNTED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CoreLimitState:
    """The limits as of one look, and the core time with a limit since the process has started."""

    limits: tuple[CoreLimit, ...] = ()
    limited_core_s: float = 0.0


class CoreLimits:
    """The limits that the groups of cores have, or would have, by class, as `step` has last found them.

    Args:
        tree: the host's /sys.
        topology: the node.
        holders: returns the containers that have CPUs alone.
    """

    def __init__(
        self, tree: SysfsTree, topology: HardwareTopology, holders: Callable[[], Sequence[CoreHolder]]
    ) -> None:
        self._tree = tree
        self._holders = holders
        self._topology = topology
        self._machine: _Machine | None = None
        self._stepped_s: float | None = None
        self.state = CoreLimitState()

    def allowed(self) -> Mapping[Cpus, AllowedSlowdown]:
        """Return the slowdown, above nothing, that the owners of all containers of a group consent to now.

        None before the machine was read.
        """
        if self._machine is None:
            return {}
        holders = self._holders()
        of_groups = {group: holders_of(group, holders) for group in self._machine.groups}
        found = {group: held_slowdown(group, each) for group, each in of_groups.items() if all_consent(each)}
        return {group: each for group, each in found.items() if isinstance(each, AllowedSlowdown)}

    def use_topology(self, topology: HardwareTopology) -> None:
        """Follow changed hardware; its frequency policies are read at the next step."""
        self._topology, self._machine = topology, None

    async def run(self) -> NoReturn:
        """Look at the placements until cancelled."""
        while True:
            await self.step(time.monotonic())
            await asyncio.sleep(INTERVAL_S)

    async def step(self, now_s: float, limited: Collection[Cpus] = ()) -> None:
        """Look at the placements once.

        Args:
            now_s: seconds of a clock that does not go back.
            limited: groups whose ceiling is, or may be, the limit itself.
        """
        topology, holders, machine = self._topology, self._holders(), self._machine
        if machine is None:
            machine = await asyncio.to_thread(_Machine.read, self._tree, topology)
        limits = await asyncio.to_thread(machine.limits, holders, limited)
        if topology is not self._topology:
            return  # changed meanwhile; the next step reads it
        self._machine = machine
        elapsed_s = 0.0 if self._stepped_s is None else min(now_s - self._stepped_s, MOST_COUNTED_S)
        self._stepped_s = now_s
        cores = sum(each.cores for each in limits if each.limit_khz is not None)
        self.state = CoreLimitState(limits, self.state.limited_core_s + cores * elapsed_s)


def core_holders(
    containers: Mapping[ContainerId, ContainerInfo],
    placements: Mapping[ContainerId, Placement],
    consent_of: Callable[[PodInfo], PodConsent],
    left_over: Cpus = EMPTY,
) -> tuple[CoreHolder, ...]:
    """Return the containers that have CPUs alone; none where one is not placed, since that may run on every CPU.

    Args:
        containers: all of the node that the runtime has reported.
        placements: those of the policy.
        consent_of: returns what a pod allows.
        left_over: CPUs given to one container that others may still be running on.
    """
    found = []
    for name, info in containers.items():
        placement = placements.get(name)
        if placement is None or not placement.cpus:
            return ()
        if alone := placement.exclusive - left_over:
            found.append(CoreHolder(info.title, alone, consent_of(info.pod)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Machine:
    """The groups of one machine, and where their frequencies are read."""

    tree: SysfsTree
    groups: tuple[Cpus, ...]
    #: The lowest thread of each core.
    cores: Cpus
    #: By the CPUs that it limits.
    policies: Mapping[Cpus, FrequencyRequest]

    @classmethod
    def read(cls, tree: SysfsTree, topology: HardwareTopology) -> "_Machine":
        """Read the frequency policies of the online CPUs."""
        found = ((_cpus(tree, f"{each.policy}/affected_cpus"), each) for each in cpufreq.requests(tree).values())
        policies = {cpus & topology.online: request for cpus, request in found if cpus & topology.online}
        return cls(tree, core_groups(topology.cores.values(), policies), IdSet(topology.cores), policies)

    def limits(self, holders: Sequence[CoreHolder], limited: Collection[Cpus]) -> tuple[CoreLimit, ...]:
        """Return the limit of each group; of those that are limited, the ceiling says nothing."""
        return tuple(self._limit(group, holders_of(group, holders), limited=group in limited) for group in self.groups)

    def _limit(self, group: Cpus, holders: Sequence[CoreHolder], *, limited: bool) -> CoreLimit:
        found = CoreLimit(
            group,
            len(group & self.cores),
            CoreLimitReason.FREQUENCY_LIMITED,
            tuple(each.title for each in holders),
            all_consent(holders),
        )
        allowed = held_slowdown(group, holders)
        if isinstance(allowed, CoreLimitReason):
            return replace(found, reason=allowed)
        frequencies = self._frequencies(group)
        if limited and frequencies is not None:
            frequencies = replace(frequencies, ceiling_khz=frequencies.highest_khz)
        limit = frequency_limit(allowed, frequencies)
        if isinstance(limit, CoreLimitReason):
            return replace(found, reason=limit, frequencies=frequencies)
        return replace(found, limit_khz=limit, frequencies=frequencies)

    def _frequencies(self, group: Cpus) -> CoreFrequencies | None:
        """Read the frequencies of a group; None where one of its CPUs has none, or one cannot be read."""
        policies = {cpus: request for cpus, request in self.policies.items() if not cpus.isdisjoint(group)}
        found = [_read(self.tree, each) for each in policies.values()]
        known = [each for each in found if each is not None]
        if len(known) < len(found) or not group <= union(policies):
            return None
        tables = [each.offered_khz for each in known if each.offered_khz is not None]
        return CoreFrequencies(
            max(each.lowest_khz for each in known),
            max(each.highest_khz for each in known),
            max(each.ceiling_khz for each in known),
            frozenset.intersection(*tables) if tables else None,
        )


def _read(tree: SysfsTree, request: FrequencyRequest) -> CoreFrequencies | None:
    # The highest changes while the machine runs, as when boost is turned off.
    highest_khz, ceiling_khz = tree.read_known(f"{request.policy}/cpuinfo_max_freq"), request.read()
    if highest_khz is None or isinstance(ceiling_khz, HardwareFailure):
        return None
    return CoreFrequencies(request.limits.low, highest_khz, ceiling_khz, frozenset(request.offered_khz()) or None)


def _cpus(tree: SysfsTree, path: str) -> Cpus:
    text = tree.read_text(path)
    return EMPTY if isinstance(text, HardwareFailure) else IdSet(parse_cpu_list(text))
