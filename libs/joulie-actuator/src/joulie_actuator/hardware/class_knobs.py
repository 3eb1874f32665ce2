"""The knobs of CPU classes beside the upper frequency limit: lower limit, governor and idle states.

A lower limit is a request as the upper one is: a write sets the user's, and a read shows it only as far as the upper
limit allows. Governors are words, which a knob has as numbers. Idle states are known by name, since their numbers
differ between the kinds of cores of one machine; the kernel lets processes with CAP_SYS_ADMIN alone disable them.
Source: Linux, Documentation/admin-guide/pm/cpufreq.rst and cpuidle.rst; drivers/cpuidle/sysfs.c.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from joulie_actuator.hardware.cpufreq import KEYS, CpuPolicy, FrequencyRequest
from joulie_actuator.hardware.knob import HardwareFailure, Knob, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree
from joulie_actuator.hardware.topology import CPU_ROOT
from joulie_actuator.reasons import Reason

#: Ends of the keys of knobs of a frequency policy, which begin with `cpufreq.KEYS`.
FLOOR_KEY_END: Final = "/scaling_min_freq"
GOVERNOR_KEY_END: Final = "/scaling_governor"
IDLE_KEYS: Final = "cpuidle/"
_IDLE_KEY: Final = re.compile(r"cpuidle/cpu(\d+)/(.+)")
#: Capabilities of this process, and the bit of CAP_SYS_ADMIN (linux/capability.h).
_STATUS: Final = Path("/proc/self/status")
_CAPABILITIES: Final = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)
_SYS_ADMIN: Final = 21
_STATE: Final = re.compile(r"state\d+")
#: The numbers are in journals. Not `userspace`: the speed that it holds would be lost.
GOVERNOR_CODES: Final[Mapping[str, int]] = {
    "performance": 1,
    "powersave": 2,
    "schedutil": 3,
    "ondemand": 4,
    "conservative": 5,
}
_GOVERNORS: Final = {code: word for word, code in GOVERNOR_CODES.items()}
_GOVERNOR_LIMITS: Final = KnobLimits(min(_GOVERNORS), max(_GOVERNORS))
#: Drivers that are their own governor: under `performance` they prefer performance, whatever was written before.
_OWN_GOVERNOR: Final = frozenset({"intel_pstate", "amd-pstate-epp"})


@dataclass(frozen=True, slots=True)
class FloorRequest(SysfsKnob):
    """`scaling_min_freq`; a `RequestKnob`."""

    policy: str = ""

    def platform_limit(self, value: int) -> str:
        """Return the upper limit where that is what is read."""
        upper_khz = self.tree.read_known(f"{self.policy}/scaling_max_freq")
        return f"the upper limit is {value} kHz" if value == upper_khz else ""


@dataclass(frozen=True, slots=True)
class GovernorKnob:
    """The governor of one policy; a `Knob` in the numbers of `GOVERNOR_CODES`."""

    tree: SysfsTree
    path: str
    key: str
    unit: str = "governor"
    limits: KnobLimits = _GOVERNOR_LIMITS
    kind: KnobKind = KnobKind.SWITCH

    def read(self) -> int | HardwareFailure:
        """Return the number of the governor in force."""
        text = self.tree.read_text(self.path)
        if isinstance(text, HardwareFailure):
            return text
        code = GOVERNOR_CODES.get(text)
        return HardwareFailure(Reason.MALFORMED_REPLY, f"governor {text[:40]} is not managed") if code is None else code

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        return self.tree.write_text(self.path, _GOVERNORS[value]) or self.read()

    def probe_write(self) -> HardwareFailure | None:
        """Check whether this process may write, without writing."""
        return self.tree.probe_write(self.path)


@dataclass(frozen=True, slots=True)
class IdleStateSwitch(SysfsKnob):
    """`disable` of one idle state of one CPU; 1 disables."""

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        failure = self.tree.write_int(self.path, value)
        if failure is not None and failure.reason is Reason.FIRMWARE_LOCKED:  # EPERM of an open file
            return replace(failure, reason=Reason.NOT_PERMITTED)
        return failure or self.read()


def may_disable_idle_states(status: Path = _STATUS) -> bool:
    """Return whether this process has CAP_SYS_ADMIN; True where that cannot be read."""
    try:
        match = _CAPABILITIES.search(status.read_text(encoding="ascii"))
    except OSError:
        return True
    return match is None or bool(int(match[1], 16) >> _SYS_ADMIN & 1)


def floor_request(upper: FrequencyRequest) -> FloorRequest:
    """Return the lower limit of the policy that an upper one is of."""
    key = upper.key.rpartition("/")[0] + FLOOR_KEY_END
    path = f"{upper.policy}/scaling_min_freq"
    return FloorRequest(upper.tree, path, key, upper.unit, upper.limits, KnobKind.FLOOR, policy=upper.policy)


def governor(upper: FrequencyRequest) -> GovernorKnob:
    """Return the governor of the policy that an upper limit is of."""
    key = upper.key.rpartition("/")[0] + GOVERNOR_KEY_END
    return GovernorKnob(upper.tree, f"{upper.policy}/scaling_governor", key)


def forces_preference(policy: CpuPolicy, governor_name: str) -> bool:
    """Return whether a policy has no energy performance preference of its own under a governor."""
    return governor_name == "performance" and policy.driver in _OWN_GOVERNOR


def idle_states(tree: SysfsTree, cpu: int) -> dict[str, IdleStateSwitch]:
    """Return the switches that disable the idle states of a CPU, by name of the state; 1 disables."""
    root = f"{CPU_ROOT}/cpu{cpu}/cpuidle"
    found: dict[str, IdleStateSwitch] = {}
    for directory in tree.names(root, _STATE):
        name = tree.read_text(f"{root}/{directory}/name")
        if not isinstance(name, HardwareFailure) and name:
            key = f"{IDLE_KEYS}cpu{cpu}/{name}"
            path = f"{root}/{directory}/disable"
            found.setdefault(name, IdleStateSwitch(tree, path, key, "flag", KnobLimits(0, 1), KnobKind.SWITCH))
    return found


def knobs_of(
    tree: SysfsTree, requests: Mapping[str, FrequencyRequest], keys: Iterable[str]
) -> Iterator[tuple[str, Knob]]:
    """Return the knobs of this module among `keys` that the machine has, each with its key."""
    uppers = {key.rpartition("/")[0]: upper for key, upper in requests.items()}
    states: dict[int, dict[str, IdleStateSwitch]] = {}
    for key in keys:
        upper = uppers.get(key.rpartition("/")[0])
        if upper is not None and key.endswith(FLOOR_KEY_END):
            yield key, floor_request(upper)
        elif upper is not None and key.endswith(GOVERNOR_KEY_END):
            yield key, governor(upper)
        elif match := _IDLE_KEY.fullmatch(key):
            cpu = int(match[1])
            if cpu not in states:
                states[cpu] = idle_states(tree, cpu)
            if match[2] in states[cpu]:
                yield key, states[cpu][match[2]]


def is_floor(key: str) -> bool:
    """Return whether a key is that of a lower frequency limit."""
    return key.startswith(KEYS) and key.endswith(FLOOR_KEY_END)


def is_governor(key: str) -> bool:
    """Return whether a key is that of a governor."""
    return key.startswith(KEYS) and key.endswith(GOVERNOR_KEY_END)
