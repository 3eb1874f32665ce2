"""Frequency policies: several requests per limit, of which a write sets the user's and a read shows the outcome of all.

`scaling_max_freq` reads the lowest request, within the range of the hardware and rounded by the driver. Requests come
from the user (a write), from a thermal cooling device and from the platform (ACPI `_PPC`). A user who has not written
has no request. Where all CPUs of a policy are offline its files answer EBUSY or are gone, and the policy comes back
with the user's request or without one, see `Behaviour`.
Source: Linux, Documentation/admin-guide/pm/cpufreq.rst; drivers/cpufreq/cpufreq.c; kernel/power/qos.c.
"""

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.behaviour import Behaviour, OfflinePolicy, PolicyReturn
from joulie_testing.agent.kernel.cpus import CPU_ROOT, Cpus
from joulie_testing.agent.kernel.drivers import Driver, driver_of, table_khz
from joulie_testing.agent.kernel.filesystem import Filesystem
from joulie_testing.agent.machine_spec import MachineSpec

#: FREQ_QOS_MAX_DEFAULT_VALUE: a request without effect.
NO_MAX: Final = 2**31 - 1
_PREFERENCES: Final = ("default", "performance", "balance_performance", "balance_power", "power")
_USUAL_EPP: Final = "balance_performance"
_HIGHEST_EPP: Final = 255
_FAMILIES: Final = {
    "intel_pstate": "intel_pstate",
    "intel_cpufreq": "intel_pstate",
    "amd-pstate": "amd_pstate",
    "amd-pstate-epp": "amd_pstate",
}

_Files: TypeAlias = Mapping[str, tuple[Callable[[], object], Callable[[str], None] | None]]


@dataclass(slots=True, eq=False)
class CpufreqPolicy:
    """CPUs with one limit, and all requests for it. Frequencies in kHz."""

    related: tuple[int, ...]
    packages: frozenset[int]
    lowest: int
    highest: int
    table: tuple[int, ...]
    default_governor: str
    #: What a limit is rounded down to when it is shown, besides the table.
    shown_step: int = 1
    user_max: int = NO_MAX
    user_min: int = 0
    thermal_max: int = NO_MAX
    platform_max: int = NO_MAX
    governor: str = ""
    epp: str = _USUAL_EPP
    #: The preference before governor `performance` of a driver that is its own governor; None under another one.
    saved_epp: str | None = None
    online: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.forget()

    @property
    def name(self) -> str:
        """Return such as `policy0`."""
        return f"policy{self.related[0]}"

    def limits(self) -> tuple[int, int]:
        """Return what `scaling_min_freq` and `scaling_max_freq` show."""
        low = min(max(self.user_min, self.lowest), self.highest)
        high = min(self.user_max, self.thermal_max, self.platform_max)
        high = max(min(high, self.highest), self.lowest)
        if self.table:
            high = max((each for each in self.table if each <= high), default=self.table[-1])
            low = min((each for each in self.table if each >= low), default=self.table[0])
        high = max(high // self.shown_step * self.shown_step, self.lowest)
        # Where the two cross, the lower limit gives way (cpufreq_verify_within_limits).
        return min(low, high), high

    def forget(self) -> None:
        """Drop the requests of users."""
        self.user_max, self.user_min, self.governor, self.epp = NO_MAX, 0, self.default_governor, _USUAL_EPP
        self.saved_epp = None


class Cpufreq:
    """The policies of a machine and their files."""

    def __init__(
        self,
        fs: Filesystem,
        spec: MachineSpec,
        behaviour: Behaviour,
        cpus: Cpus,
        current_khz: Callable[[CpufreqPolicy], int],
    ) -> None:
        self._fs = fs
        self._spec = spec
        self._behaviour = behaviour
        self._cpus = cpus
        self._current_khz = current_khz
        self.driver: Driver = driver_of(spec)
        self.policies: dict[str, CpufreqPolicy] = {policy.name: policy for policy in self._make()}
        self.follow_hotplug()
        if self.policies and spec.driver in _FAMILIES:
            fs.put(f"{CPU_ROOT}/{_FAMILIES[spec.driver]}/status", "active" if self.driver.active else "passive")

    def follow_hotplug(self) -> None:
        """Let policies come and go with their CPUs."""
        for policy in self.policies.values():
            was_online = bool(policy.online)
            policy.online = set(policy.related) & self._cpus.online
            if policy.online and not was_online:
                if self._behaviour.policy_return is PolicyReturn.DEFAULTS:
                    policy.forget()
                self._put(policy)
            elif not policy.online and self._behaviour.offline_policy is OfflinePolicy.REMOVED:
                self._remove(policy)

    def reset(self) -> None:
        """Start as after a boot."""
        for policy in self.policies.values():
            policy.forget()
            policy.thermal_max = policy.platform_max = NO_MAX

    def _make(self) -> Iterator[CpufreqPolicy]:
        for cpus in self._spec.policy_groups():
            highest = self._spec.highest_khz_of(cpus[0])
            yield CpufreqPolicy(
                related=tuple(cpu.number for cpu in cpus),
                packages=frozenset(cpu.package for cpu in cpus),
                lowest=self._spec.lowest_khz,
                highest=highest,
                table=table_khz(self._spec, highest),
                default_governor=self._spec.governor,
                shown_step=self._behaviour.frequency_step_khz or 1,
            )

    def _put(self, policy: CpufreqPolicy) -> None:
        directory = f"{CPU_ROOT}/cpufreq/{policy.name}"
        for name, (show, store) in self._files(policy).items():
            checked = None if store is None else _store_unless_offline(policy, store)
            self._fs.put(f"{directory}/{name}", _show_unless_offline(policy, show), checked)
        for number in policy.related:
            self._fs.link(f"{CPU_ROOT}/cpu{number}/cpufreq", directory)

    def _remove(self, policy: CpufreqPolicy) -> None:
        self._fs.remove(f"{CPU_ROOT}/cpufreq/{policy.name}")
        for number in policy.related:
            self._fs.remove(f"{CPU_ROOT}/cpu{number}/cpufreq")

    def _files(self, policy: CpufreqPolicy) -> _Files:
        files: dict[str, tuple[Callable[[], object], Callable[[str], None] | None]] = {
            "related_cpus": (lambda: " ".join(map(str, policy.related)), None),
            "affected_cpus": (lambda: " ".join(map(str, sorted(policy.online))), None),
            "cpuinfo_min_freq": (lambda: policy.lowest, None),
            "cpuinfo_max_freq": (lambda: policy.highest, None),
            "scaling_driver": (lambda: self._spec.driver, None),
            "scaling_governor": (lambda: policy.governor, lambda text: self._set_governor(policy, text)),
            "scaling_available_governors": (lambda: " ".join(self.driver.governors), None),
            "scaling_cur_freq": (lambda: self._current_khz(policy), None),
            "scaling_min_freq": (lambda: policy.limits()[0], lambda text: self._set_min(policy, text)),
            "scaling_max_freq": (lambda: policy.limits()[1], lambda text: self._set_max(policy, text)),
        }
        if policy.table:
            files["scaling_available_frequencies"] = (lambda: " ".join(map(str, policy.table)), None)
        if self.driver.has_bios_limit:
            files["bios_limit"] = (lambda: min(policy.platform_max, policy.highest), None)
        if self.driver.has_base_frequency and self._spec.base_khz is not None:
            files["base_frequency"] = (lambda: self._spec.base_khz, None)
        if self.driver.has_epp and self._spec.epp:
            files["energy_performance_available_preferences"] = (lambda: " ".join(_PREFERENCES), None)
            files["energy_performance_preference"] = (lambda: policy.epp, lambda text: self._set_epp(policy, text))
        return files

    def _set_max(self, policy: CpufreqPolicy, text: str) -> None:
        khz = min(parse.unsigned(text), NO_MAX)
        self._refuse_crossed(policy.user_min, khz)
        policy.user_max = khz

    def _set_min(self, policy: CpufreqPolicy, text: str) -> None:
        khz = min(parse.unsigned(text), NO_MAX)
        self._refuse_crossed(khz, policy.user_max)
        policy.user_min = khz

    def _refuse_crossed(self, low: int, high: int) -> None:
        if self._behaviour.refuses_crossed_limits and low > high:
            raise OSError(errno.EINVAL, "Invalid argument")

    def _set_governor(self, policy: CpufreqPolicy, text: str) -> None:
        if text.strip() not in self.driver.governors:
            raise OSError(errno.EINVAL, "Invalid argument")
        if self.driver.active:
            self._force_epp(policy, text.strip())
        policy.governor = text.strip()

    @staticmethod
    def _force_epp(policy: CpufreqPolicy, governor: str) -> None:
        """Prefer performance under governor `performance`, and return to the preference before it."""
        if governor == "performance" and policy.saved_epp is None:
            policy.saved_epp, policy.epp = policy.epp, "performance"
        elif governor != "performance" and policy.saved_epp is not None:
            policy.epp, policy.saved_epp = policy.saved_epp, None

    def _set_epp(self, policy: CpufreqPolicy, text: str) -> None:
        wanted = text.strip()
        if wanted not in _PREFERENCES and not (wanted.isdecimal() and int(wanted) <= _HIGHEST_EPP):
            raise OSError(errno.EINVAL, "Invalid argument")
        if self.driver.active and policy.governor == "performance" and wanted not in {"performance", "0"}:
            raise OSError(errno.EBUSY, "Device or resource busy")
        policy.epp = _USUAL_EPP if wanted == "default" else wanted


def _show_unless_offline(policy: CpufreqPolicy, show: Callable[[], object]) -> Callable[[], object]:
    def checked() -> object:
        _refuse_offline(policy)
        return show()

    return checked


def _store_unless_offline(policy: CpufreqPolicy, store: Callable[[str], None]) -> Callable[[str], None]:
    def checked(text: str) -> None:
        _refuse_offline(policy)
        store(text)

    return checked


def _refuse_offline(policy: CpufreqPolicy) -> None:
    if not policy.online:
        raise OSError(errno.EBUSY, "Device or resource busy")
