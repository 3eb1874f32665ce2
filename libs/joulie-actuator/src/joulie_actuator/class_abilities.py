"""Controls of CPU classes that a machine has. Reads, and checks by opening only whether a file may be written."""

from collections.abc import Iterable
from typing import Final, Protocol

from joulie_actuator.cpu_class_protocol import ClassAbilities, Governor
from joulie_actuator.hardware import class_knobs, cpu_tuning
from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree

_GOVERNORS: Final = frozenset(Governor)
_PREFERENCES: Final = "energy_performance_available_preferences"


class _Writable(Protocol):
    def probe_write(self) -> HardwareFailure | None: ...


def class_abilities(tree: SysfsTree, cpus: HostCpus) -> ClassAbilities:
    """Return the controls that may be written on at least one CPU."""
    policies = cpus.policies
    states = [class_knobs.idle_states(tree, cpu) for cpu in sorted(cpus.topology.core_of)]
    return ClassAbilities(
        frequencies=_any_writable(policy.max_freq for policy in policies)
        and _any_writable(class_knobs.floor_request(policy.max_freq) for policy in policies),
        base_frequency=any(policy.base_khz is not None for policy in policies),
        preferences=_words(policies, _PREFERENCES) if _any_writable(cpu_tuning.epp_knobs(policies)) else (),
        governors=tuple(
            Governor(word) for word in _words(policies, "scaling_available_governors") if word in _GOVERNORS
        )
        if _any_writable(class_knobs.governor(policy.max_freq) for policy in policies)
        else (),
        idle_states=tuple(
            dict.fromkeys(name for found in states for name, knob in found.items() if knob.probe_write() is None)
        ),
        idle_states_permitted=any(states) and class_knobs.may_disable_idle_states(),
        uncore=_any_writable(cpu_tuning.uncore_knobs(tree)),
    )


def _any_writable(knobs: Iterable[_Writable]) -> bool:
    return any(knob.probe_write() is None for knob in knobs)


def _words(policies: Iterable[CpuPolicy], file: str) -> tuple[str, ...]:
    """Return the words of a file of each policy, each once."""
    texts = (policy.tree.read_text(f"{policy.path}/{file}") for policy in policies)
    return tuple(dict.fromkeys(word for text in texts if isinstance(text, str) for word in text.split()))
