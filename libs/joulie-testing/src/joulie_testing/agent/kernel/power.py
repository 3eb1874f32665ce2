"""Power and frequency of the packages, from limits and load.

A package draws its idle power plus its dynamic power, which grows with the load and with the square of the frequency.
A power limit in force lowers the frequency until the limit holds, and no further than the lowest frequency: a limit
below that is not met. Energy counters integrate exactly this, over the time between two accesses.
"""

import math
from collections.abc import Mapping
from typing import Final

from joulie_testing.agent.kernel.behaviour import Behaviour
from joulie_testing.agent.kernel.cpufreq import Cpufreq, CpufreqPolicy
from joulie_testing.agent.kernel.cpus import Cpus
from joulie_testing.agent.kernel.platform import Hsmp
from joulie_testing.agent.kernel.powercap import Powercap
from joulie_testing.agent.kernel.zones import ZoneState
from joulie_testing.agent.machine_spec import MachineSpec, Zone

_UW_PER_WATT: Final = 1_000_000
_MW_PER_WATT: Final = 1000
#: What a machine draws beside its packages, for psys.
_BOARD_WATTS: Final = 60.0
_SHARES: Final[Mapping[Zone, float]] = {Zone.CORE: 0.7, Zone.UNCORE: 0.1, Zone.DRAM: 0.15}


class PowerModel:
    """Power and frequency of the packages at this moment; `load` is the share of busy CPUs, by package."""

    def __init__(self, spec: MachineSpec, behaviour: Behaviour, cpus: Cpus, powercap: Powercap) -> None:
        self._spec = spec
        self._behaviour = behaviour
        self._cpus = cpus
        self._powercap = powercap
        self.load: dict[int, float] = dict.fromkeys(range(spec.sockets), 0.5)
        # Both show figures of this model: they are given to it once they are made.
        self.cpufreq: Cpufreq | None = None
        self.hsmp: Hsmp | None = None

    def package_watts(self, package: int) -> float:
        """Return the draw of a package."""
        wanted = self._watts_at(package, lowest=False)
        limit = self._limit_watts(package)
        return wanted if limit is None else max(min(wanted, limit), self._watts_at(package, lowest=True))

    def current_khz(self, policy: CpufreqPolicy) -> int:
        """Return the frequency that a policy's CPUs run at."""
        package = min(policy.packages)
        wanted = self._watts_at(package, lowest=False) - self._spec.idle_watts
        dynamic = self.package_watts(package) - self._spec.idle_watts
        share = math.sqrt(max(dynamic, 0.0) / wanted) if wanted > 0 else 1.0
        step = self.cpufreq.driver.step_khz if self.cpufreq else 1
        return max(round(policy.limits()[1] * share) // step * step, policy.lowest)

    def advance(self, seconds: float) -> None:
        """Let time pass for the energy counters."""
        if self._behaviour.energy_frozen:
            return
        watts = {package: self.package_watts(package) for package in range(self._spec.sockets)}
        for zone in self._powercap.hardware:
            for each in (zone, *zone.parts):
                each.consume(self._zone_watts(each, watts) * seconds)

    def _zone_watts(self, zone: ZoneState, watts: Mapping[int, float]) -> float:
        if zone.package is None:
            return sum(watts.values()) + _BOARD_WATTS
        dies = 1 if zone.kind is Zone.MMIO else self._spec.dies
        return watts[zone.package] / dies * _SHARES.get(zone.kind, 1.0)

    def _watts_at(self, package: int, *, lowest: bool) -> float:
        online = [number for number in self._cpus.online if self._cpus.present[number].package == package]
        present = sum(1 for cpu in self._cpus.present.values() if cpu.package == package)
        speeds = self._speeds(lowest=lowest)
        squares = sum(speeds.get(number, 1.0) ** 2 for number in online) / present
        return self._spec.idle_watts + (self._spec.busy_watts - self._spec.idle_watts) * self.load[package] * squares

    def _speeds(self, *, lowest: bool) -> dict[int, float]:
        policies = self.cpufreq.policies.values() if self.cpufreq else ()
        return {
            number: (policy.lowest if lowest else policy.limits()[1]) / policy.highest
            for policy in policies
            for number in policy.online
        }

    def _limit_watts(self, package: int) -> float | None:
        if self._behaviour.firmware_ignores_limits:
            return None
        dies: list[int | None] = []
        limits: list[float] = []
        for zone in self._powercap.hardware:
            limit_uw = zone.in_force_uw
            if zone.package == package and zone.kind is Zone.PACKAGE:
                dies.append(limit_uw)
            elif limit_uw is not None and zone.package is None:
                limits.append((limit_uw / _UW_PER_WATT - _BOARD_WATTS) / self._spec.sockets)
            elif limit_uw is not None and zone.package == package:
                limits.append(limit_uw / _UW_PER_WATT)
        if self.hsmp is not None and self.hsmp.sockets:
            limits.append(self.hsmp.sockets[package].cap_mw / _MW_PER_WATT)
        if dies and None not in dies:
            limits.append(sum(limit for limit in dies if limit is not None) / _UW_PER_WATT)
        return min(limits, default=None)
