"""The values that CPU classes and tuning have for the knobs of a machine, and what it has no knob for.

Decides on everything but the frequency limits of the cores, which `joulie_core.control.cpu_frequency` arbitrates. A
class comes before tuning on its CPUs. What hardware has once for several CPUs, the class gets that a throttle takes
last; the others are reported. Writes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_actuator.cpu_class_protocol import ClassControl, CpuClassControls, UnmetControl
from joulie_actuator.hardware import class_knobs, cpu_tuning
from joulie_actuator.hardware.class_knobs import GOVERNOR_CODES
from joulie_actuator.hardware.cpu_tuning import UNCORE_MAX, UNCORE_MIN, epp_code
from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.knob import HardwareFailure, Knob, KnobKind
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.control.cpu_frequency import NO_CLASS, FrequencyClass, FrequencyDecision

_NO_POLICY: Final = HardwareFailure(Reason.NO_INTERFACE, "no frequency policy")
_NO_UNCORE: Final = HardwareFailure(Reason.NO_INTERFACE, "no uncore frequency limit")
_FORCED: Final = HardwareFailure(Reason.OVERRULED, "governor performance of this driver prefers performance")


@dataclass(frozen=True, slots=True)
class ClassKnob:
    """A knob, its value, and the class that wants it; no class where tuning does."""

    knob: Knob
    value: int
    control: ClassControl
    class_name: str
    cpus: Cpus


@dataclass(slots=True)
class Shortages:
    """Controls that classes do not get, collected by class, control and reason."""

    _found: dict[tuple[str, ClassControl, Reason], tuple[str, Cpus]] = field(default_factory=dict)

    def add(self, class_name: str, control: ClassControl, failure: HardwareFailure, cpus: Cpus) -> None:
        """Add CPUs; of several messages the first one stays."""
        key = class_name, control, failure.reason
        message, before = self._found.get(key, (failure.message, EMPTY))
        self._found[key] = message, before | cpus

    def of(self, class_name: str) -> tuple[UnmetControl, ...]:
        """Return what a class does not get."""
        return tuple(
            UnmetControl(control=control, reason=reason, message=message, cpus=str(cpus))
            for (name, control, reason), (message, cpus) in self._found.items()
            if name == class_name
        )


class ClassAssignment:
    """Classes, and which CPU has which."""

    def __init__(self, controls: Mapping[str, CpuClassControls]) -> None:
        self.controls = controls
        self.cpus: Mapping[str, Cpus] = {name: Cpus.parse(each.cpus) for name, each in controls.items()}
        self._frequencies = {name: _frequency_class(name, each) for name, each in controls.items()}
        self._class_of = {cpu: name for name, cpus in self.cpus.items() for cpu in cpus}

    def __bool__(self) -> bool:
        return bool(self.controls)

    def members(self, cpus: Iterable[int]) -> Mapping[str, Cpus]:
        """Return CPUs by the name of their class; those without one under the empty name."""
        found: dict[str, list[int]] = {}
        for cpu in cpus:
            found.setdefault(self._class_of.get(cpu, NO_CLASS.name), []).append(cpu)
        return {name: Cpus(members) for name, members in found.items()}

    def frequency_classes(self, policy: CpuPolicy) -> tuple[FrequencyClass, ...]:
        """Return the classes of a policy's CPUs, each once."""
        return tuple(self._frequencies.get(name, NO_CLASS) for name in self.members(policy.cpus))


NO_CLASSES: Final = ClassAssignment({})


def _frequency_class(name: str, controls: CpuClassControls) -> FrequencyClass:
    return FrequencyClass(name, controls.min_khz, controls.max_khz, controls.turbo_priority, controls.throttle_order)


def governors(
    policies: Sequence[CpuPolicy],
    decisions: Mapping[str, FrequencyDecision],
    classes: ClassAssignment,
    shortages: Shortages,
) -> list[ClassKnob]:
    """Return the governors of the classes."""
    found = []
    for policy in policies if classes else ():
        name = decisions[policy.name].leading.name
        for other, cpus in _with(classes, policy, ClassControl.GOVERNOR):
            word = classes.controls[other].governor
            if other == name and word is not None:
                knob = class_knobs.governor(policy.max_freq)
                found.append(ClassKnob(knob, GOVERNOR_CODES[word], ClassControl.GOVERNOR, name, cpus))
            elif word != _control(classes, name, ClassControl.GOVERNOR):
                shortages.add(other, ClassControl.GOVERNOR, _shared(name), cpus)
    return found


def preferences(
    policies: Sequence[CpuPolicy],
    decisions: Mapping[str, FrequencyDecision],
    classes: ClassAssignment,
    tuned: str | None,
    shortages: Shortages,
) -> list[ClassKnob]:
    """Return the energy performance preferences of the classes, and of tuning where no class has one."""
    found = []
    for policy in policies if classes or tuned is not None else ():
        name = decisions[policy.name].leading.name
        forced = class_knobs.forces_preference(policy, _control(classes, name, ClassControl.GOVERNOR) or "")
        for other, cpus in _with(classes, policy, ClassControl.EPP):
            if other != name and classes.controls[other].epp != _control(classes, name, ClassControl.EPP):
                shortages.add(other, ClassControl.EPP, _shared(name), cpus)
            elif other == name and forced and classes.controls[other].epp not in {"performance", "0"}:
                shortages.add(other, ClassControl.EPP, _FORCED, cpus)
        word = _control(classes, name, ClassControl.EPP)
        if forced or (word is None and tuned is None):
            continue
        if word is not None:
            # Of a class a lower external preference does not stay: it is no limit, and the class names a value.
            knob = cpu_tuning.epp_knob(policy, KnobKind.SWITCH)
            found.append(ClassKnob(knob, _code(word), ClassControl.EPP, name, Cpus(policy.cpus)))
        elif tuned is not None and not isinstance((lower := cpu_tuning.epp_knob(policy)).read(), HardwareFailure):
            found.append(ClassKnob(lower, _code(tuned), ClassControl.EPP, NO_CLASS.name, Cpus(policy.cpus)))
    return found


def idle_states(tree: SysfsTree, online: Cpus, classes: ClassAssignment, shortages: Shortages) -> list[ClassKnob]:
    """Return the idle states that classes disable."""
    found = []
    for name, controls in classes.controls.items():
        for cpu in classes.cpus[name] & online if controls.disabled_idle_states else ():
            states = class_knobs.idle_states(tree, cpu)
            for state in dict.fromkeys(controls.disabled_idle_states):
                if state in states:
                    found.append(ClassKnob(states[state], 1, ClassControl.IDLE_STATES, name, Cpus((cpu,))))
                else:
                    failure = HardwareFailure(Reason.NO_INTERFACE, f"no idle state {state}")
                    shortages.add(name, ClassControl.IDLE_STATES, failure, Cpus((cpu,)))
    return found


def uncore_limits(
    tree: SysfsTree, cpus: HostCpus, classes: ClassAssignment, tuned_khz: int | None, shortages: Shortages
) -> list[ClassKnob]:
    """Return the uncore limits of each die: of several classes the highest, and tuning's where no class has one."""
    found: list[ClassKnob] = []
    for end, control in ((UNCORE_MAX, ClassControl.UNCORE_MAX_KHZ), (UNCORE_MIN, ClassControl.UNCORE_MIN_KHZ)):
        wanted = _by_die(cpus, classes, control, end)
        tuned = tuned_khz if control is ClassControl.UNCORE_MAX_KHZ else None
        knobs = {knob.key: knob for knob in cpu_tuning.uncore_knobs(tree, end)} if wanted or tuned is not None else {}
        for key, of_die in wanted.items():
            if key not in knobs:
                for name, (_, members) in of_die.items():
                    shortages.add(name, control, _NO_UNCORE, members)
                continue
            found.append(_uncore(knobs[key], control, of_die, shortages))
        found += [
            ClassKnob(knob, knob.limits.clamp(tuned), control, NO_CLASS.name, EMPTY)
            for key, knob in knobs.items()
            if tuned is not None and key not in wanted
        ]
    return found


def without_policy(cpus: HostCpus, online: Cpus, classes: ClassAssignment, shortages: Shortages) -> None:
    """Add the controls of frequency policies that CPUs without a policy do not get."""
    covered = Cpus(cpu for policy in cpus.policies for cpu in policy.cpus)
    for name, members in classes.cpus.items():
        bare = (members & online) - covered
        for control in _OF_POLICIES if bare else ():
            if _control(classes, name, control) is not None:
                shortages.add(name, control, _NO_POLICY, bare)


_OF_POLICIES: Final = (ClassControl.MIN_KHZ, ClassControl.MAX_KHZ, ClassControl.EPP, ClassControl.GOVERNOR)


def _by_die(
    cpus: HostCpus, classes: ClassAssignment, control: ClassControl, end: str
) -> dict[str, dict[str, tuple[int, Cpus]]]:
    """Return kHz and CPUs of each class that has a limit, by class and by the key of the die's knob."""
    found: dict[str, dict[str, tuple[int, Cpus]]] = {}
    for name, members in classes.cpus.items():
        khz = getattr(classes.controls[name], control)
        for cpu in members if khz is not None else ():
            core = cpus.topology.core_of.get(cpu)
            if core is not None:
                of_die = found.setdefault(cpu_tuning.uncore_key(core.package, core.die, end), {})
                of_die[name] = khz, of_die.get(name, (khz, EMPTY))[1] | Cpus((cpu,))
    return found


def _uncore(
    knob: SysfsKnob, control: ClassControl, of_die: Mapping[str, tuple[int, Cpus]], shortages: Shortages
) -> ClassKnob:
    highest = max(of_die, key=lambda name: (of_die[name][0], name))
    khz, _ = of_die[highest]
    for name, (other_khz, members) in of_die.items():
        if other_khz != khz:
            shortages.add(name, control, HardwareFailure(Reason.OVERRULED, f"class {highest} shares the die"), members)
    return ClassKnob(knob, knob.limits.clamp(khz), control, highest, of_die[highest][1])


def _with(classes: ClassAssignment, policy: CpuPolicy, control: ClassControl) -> Iterator[tuple[str, Cpus]]:
    """Return the classes of a policy that have a control, with their CPUs in it."""
    for name, cpus in classes.members(policy.cpus).items():
        if _control(classes, name, control) is not None:
            yield name, cpus


def _control(classes: ClassAssignment, name: str, control: ClassControl) -> str | None:
    """Return a control of a class; None where it has none, or for no class."""
    controls = classes.controls.get(name)
    return None if controls is None else getattr(controls, control)


def _shared(name: str) -> HardwareFailure:
    what = f"class {name} shares" if name else "CPUs without a class share"
    return HardwareFailure(Reason.OVERRULED, f"{what} the frequency policy")


def _code(word: str) -> int:
    code = epp_code(word)
    assert isinstance(code, int), "the protocol takes no other words"
    return code
