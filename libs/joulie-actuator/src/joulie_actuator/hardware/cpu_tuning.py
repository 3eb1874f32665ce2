"""Optional controls beside the power cap: the energy performance preference of the CPUs, and the uncore frequency.

The controls are knobs like a power limit, and are journalled and restored by the same code. Which value is set, and
whether one is set at all, is not decided here; both are off by default.

An energy performance preference is a word or, on some drivers, a number from 0 (performance) to 255 (power). Both
become one integer that grows with performance, so that a lower value always saves more. Source: Linux,
Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst and intel_uncore_frequency_scaling.rst.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.knob import HardwareFailure, Knob, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree
from joulie_actuator.hardware.topology import CPU_ROOT
from joulie_actuator.reasons import Reason

#: Prefixes of the keys of the knobs here.
EPP_KEYS: Final = "epp/"
UNCORE_KEYS: Final = "uncore/"
KEYS: Final = (EPP_KEYS, UNCORE_KEYS)
#: The files of its upper and lower limit.
UNCORE_MAX: Final = "max_freq_khz"
UNCORE_MIN: Final = "min_freq_khz"
UNCORE_ROOT: Final = f"{CPU_ROOT}/intel_uncore_frequency"
#: Directories of the newer interface (`uncore00`) follow these, so these alone are written.
_UNCORE: Final = re.compile(r"package_(\d+)_die_(\d+)")
_EPP_FILE: Final = "energy_performance_preference"
_EPP_RAW_MAX: Final = 255
#: Numbers take every tenth code, words the code after the number that intel_pstate maps them to.
_EPP_STEP: Final = 10
_EPP_CODES: Final = {
    "power": 1,
    "balance_power": (_EPP_RAW_MAX - 192) * _EPP_STEP + 1,
    "balance_performance": (_EPP_RAW_MAX - 128) * _EPP_STEP + 1,
    "default": (_EPP_RAW_MAX - 128) * _EPP_STEP + 2,
    "performance": _EPP_RAW_MAX * _EPP_STEP + 1,
}
_EPP_WORDS: Final = {code: word for word, code in _EPP_CODES.items()}
_EPP_LIMITS: Final = KnobLimits(0, _EPP_CODES["performance"])


@dataclass(frozen=True, slots=True)
class EppKnob:
    """The energy performance preference of one policy; a `Knob` in codes of `epp_code`."""

    tree: SysfsTree
    path: str
    key: str
    unit: str = "epp"
    limits: KnobLimits = _EPP_LIMITS
    kind: KnobKind = KnobKind.LIMIT

    def read(self) -> int | HardwareFailure:
        """Return the code of the preference in force."""
        text = self.tree.read_text(self.path)
        return text if isinstance(text, HardwareFailure) else epp_code(text)

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        return self.tree.write_text(self.path, epp_text(value)) or self.read()

    def probe_write(self) -> HardwareFailure | None:
        """Check whether this process may write, without writing."""
        return self.tree.probe_write(self.path)


def epp_code(text: str) -> int | HardwareFailure:
    """Return the code of a preference as the kernel shows it."""
    if text in _EPP_CODES:
        return _EPP_CODES[text]
    if text.isdecimal() and int(text) <= _EPP_RAW_MAX:
        return (_EPP_RAW_MAX - int(text)) * _EPP_STEP
    return HardwareFailure(Reason.MALFORMED_REPLY, f"{text[:40]!r} is not an energy performance preference")


def epp_text(code: int) -> str:
    """Return what is written for a code."""
    return _EPP_WORDS.get(code) or str(_EPP_RAW_MAX - code // _EPP_STEP)


def knobs(tree: SysfsTree, policies: Iterable[CpuPolicy]) -> tuple[Knob, ...]:
    """Return every optional control of the machine."""
    return (*epp_knobs(policies), *uncore_knobs(tree), *uncore_knobs(tree, UNCORE_MIN))


def epp_knobs(policies: Iterable[CpuPolicy]) -> tuple[EppKnob, ...]:
    """Return the preference of every policy that has one."""
    return tuple(knob for knob in map(epp_knob, policies) if not isinstance(knob.read(), HardwareFailure))


def epp_knob(policy: CpuPolicy, kind: KnobKind = KnobKind.LIMIT) -> EppKnob:
    """Return the preference of a policy, which may have none. Of the kind `LIMIT` a lower external one stays."""
    return EppKnob(policy.tree, f"{policy.path}/{_EPP_FILE}", f"{EPP_KEYS}{policy.cpu_key}", kind=kind)


def uncore_knobs(tree: SysfsTree, end: str = UNCORE_MAX) -> tuple[SysfsKnob, ...]:
    """Return a frequency limit of every package and die, in kHz; `end`: `UNCORE_MAX` or `UNCORE_MIN`."""
    found = (_uncore_knob(tree, name, end) for name in tree.names(UNCORE_ROOT, _UNCORE))
    return tuple(knob for knob in found if knob is not None)


def uncore_key(package: int, die: int, end: str) -> str:
    """Return the key of a limit."""
    return f"{UNCORE_KEYS}package-{package}-die-{die}/{end}"


def _uncore_knob(tree: SysfsTree, name: str, end: str) -> SysfsKnob | None:
    directory = f"{UNCORE_ROOT}/{name}"
    low, high = (tree.read_known(f"{directory}/initial_{each}_freq_khz") for each in ("min", "max"))
    if low is None or high is None or low > high:
        return None
    match = _UNCORE.fullmatch(name)
    assert match is not None
    key = uncore_key(int(match[1]), int(match[2]), end)
    # A lower limit of an administrator is no reason to keep another one, so its values have no order.
    kind = KnobKind.LIMIT if end == UNCORE_MAX else KnobKind.SWITCH
    return SysfsKnob(tree, f"{directory}/{end}", key, "kHz", KnobLimits(low, high), kind)
